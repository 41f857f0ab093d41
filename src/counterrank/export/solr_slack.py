"""Thresholds for Solr, which adds 1e-6 to each of them, in float32, when it reads a tree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterrank.export.thresholds import ZERO

SLACK = np.float32(1e-6)
_NEAR = 4  # how many numbers on either side of the obvious one are tried


@dataclass(frozen=True)
class Slacked:
    """What to write, and the threshold that Solr then compares with."""

    written: float
    compared: float

    def misses(self, threshold: float) -> bool:
        """Whether any value that a feature may have goes the other way than with the threshold meant."""
        low, high = sorted((self.compared, threshold))
        return not (low == high or (low == 0.0 and high <= ZERO))  # no feature lies between 0 and 1e-35


def without_slack(threshold: float) -> Slacked:
    """The number that Solr turns into this threshold; into the nearest on the same side of zero if there is none.

    >>> without_slack(0.5).compared, without_slack(0.0).written == -float(SLACK)
    (0.5, True)
    """
    meant = np.float32(threshold)
    candidates = [meant, meant - SLACK]
    for direction in (-np.inf, np.inf):
        number = meant - SLACK
        for _ in range(_NEAR):
            number = np.nextafter(number, np.float32(direction))
            candidates.append(number)
    found = [Slacked(float(number), float(number + SLACK)) for number in candidates]
    same_side = [slacked for slacked in found if (slacked.compared >= 0.0) == (threshold >= 0.0)]
    return min(same_side, key=lambda slacked: (abs(slacked.compared - threshold), slacked.compared > threshold))
