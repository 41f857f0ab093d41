"""Kernel of the shrinkage estimator: how likely all clicks are, given how far to trust the model of relevance."""

from __future__ import annotations

import math

from counterrank.common.jit import Array, exact_kernel

# from here on Stirling's series is right to about 13 digits
_LARGE = 8.0


@exact_kernel
def log_likelihood(first: int, last: int, strength: float, clicks: Array, times: Array, relevance: Array) -> float:
    """The sum over documents of ln B(c + m R, t - c + m (1 - R)) - ln B(m R, m (1 - R)), beta-binomial.

    m is the strength, c clicks out of t examinations, which need not be whole numbers, 0 <= c <= t; R lies between 0
    and 1, the ends left out.
    """
    total = 0.0
    for d in range(first, last):
        misses = times[d] - clicks[d]
        if clicks[d] > 0.0:
            total += log_rising(strength * relevance[d], clicks[d])
        if misses > 0.0:
            total += log_rising(strength * (1.0 - relevance[d]), misses)
        total -= log_rising(strength, times[d])
    return total


@exact_kernel
def log_rising(x: float, n: float) -> float:
    """ln Gamma(x + n) - ln Gamma(x) for x > 0 and n >= 0: the logarithm of x (x + 1) ... (x + n - 1) for whole n.

    By Stirling's series, whose difference is taken term by term: of a strength of a million and one examination both
    logarithms would agree in their first digits, and the rest be noise. Quicker than two calls of lgamma as well.
    """
    shift = 0.0
    if x < _LARGE:  # Gamma(x) = Gamma(x + 8) / (x (x + 1) ... (x + 7))
        above, below = 1.0, 1.0
        for i in range(8):
            above *= x + n + i
            below *= x + i
        shift = math.log(above / below)
        x += 8.0
    y = x + n
    return (x - 0.5) * math.log1p(n / x) + n * (math.log(y) - 1.0) + _tail(y) - _tail(x) - shift


@exact_kernel
def _tail(x: float) -> float:
    """What Stirling's formula leaves of ln Gamma(x), for x of 8 and more."""
    u = 1.0 / (x * x)
    series = 1.0 / 1680.0 - u * (1.0 / 1188.0)
    series = 1.0 / 1260.0 - u * series
    series = 1.0 / 360.0 - u * series
    return (1.0 / 12.0 - u * series) / x
