"""Kernel of the shrinkage estimator: how likely all clicks are, given how far to trust the model of relevance."""

from __future__ import annotations

import math

from counterrank.common.jit import Array, exact_kernel


@exact_kernel
def log_likelihood(strength: float, clicks: Array, times: Array, relevance: Array) -> float:
    """The sum over documents of ln B(c + m R, t - c + m (1 - R)) - ln B(m R, m (1 - R)), beta-binomial.

    m is the strength, c clicks out of t examinations, which need not be whole numbers; R lies between 0 and 1.
    """
    total = 0.0
    for d in range(len(clicks)):
        yes, no = strength * relevance[d], strength * (1.0 - relevance[d])
        misses = times[d] - clicks[d]
        total += math.lgamma(clicks[d] + yes) - math.lgamma(yes)
        total += math.lgamma(misses + no) - math.lgamma(no)
        total -= math.lgamma(times[d] + strength) - math.lgamma(strength)
    return total
