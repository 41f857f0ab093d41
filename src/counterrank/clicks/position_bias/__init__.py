"""Position bias from a click log: the examination curve relative to rank 1, see `examination.estimate`."""
