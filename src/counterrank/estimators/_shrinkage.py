"""Kernel of the shrinkage estimator: how likely all clicks are, given how far to trust the model of relevance."""

from __future__ import annotations

from functools import partial

import numpy as np

from counterrank.common.jit import Array, compiled, exact_kernel, kernel
from counterrank.common.numerics import LN2, bits_float, float_bits, log1p_and_inverse

# from here on Stirling's series is right to about 13 digits
_LARGE = 8.0
_ONE_BITS = np.int64(0x3FF0000000000000)
_FRACTION = np.int64(0x000FFFFFFFFFFFFF)
# a small whole number in the low bits of 2 ** 52 is its own value; exponents are kept 1023 larger
_TO_FLOAT, _FROM_FLOAT = np.int64(0x4330000000000000), 2.0**52 + 1023.0


@kernel
def log_likelihood(
    first: int, last: int, strength: float, clicks: Array, trials: Array, rates: Array, spreads: Array
) -> float:
    """The sum over documents of ln B(c + s p, k - c + s (1 - p)) - ln B(s p, s (1 - p)), beta-binomial.

    c clicks out of k trials, which need not be whole numbers, 0 <= c <= k; p is the predicted rate, between 0 and 1,
    the ends left out, and s = (m + 1) g - 1, with m the strength and g >= 1 the document's `spreads`. Without branches,
    so that it becomes vector code.
    """
    total = 0.0
    for d in range(first, last):
        own = (strength + 1.0) * spreads[d] - 1.0
        yes = log_rising(own * rates[d], clicks[d])
        no = log_rising(own * (1.0 - rates[d]), trials[d] - clicks[d])
        total += yes + no - log_rising(own, trials[d])
    return total


@partial(compiled, fastmath={"contract"}, forceinline=True)
def log_rising(x: float, n: float) -> float:
    """ln Gamma(x + n) - ln Gamma(x) for x > 0 and n >= 0: the logarithm of x (x + 1) ... (x + n - 1) for whole n.

    By Stirling's series, whose difference is taken term by term: of a strength of a million and one examination both
    logarithms would agree in their first digits, and the rest be noise. Built into the loop above, which otherwise
    would not be made of vectors.
    """
    shifted = x < _LARGE
    ratio = _rising(x + n) / _rising(x) if shifted else 1.0  # Gamma(x) = Gamma(x + 8) / (x (x + 1) ... (x + 7))
    x = x + 8.0 if shifted else x
    y = x + n
    main = (x - 0.5) * _log1p(n / x) + n * (_log1p(y - 1.0) - 1.0)
    return main + _tail(y) - _tail(x) - _log1p(ratio - 1.0)


@kernel
def _rising(x: float) -> float:
    """x (x + 1) ... (x + 7)."""
    u = x * (x + 7.0)  # (x + i) (x + 7 - i) = u + i (7 - i)
    return u * (u + 6.0) * (u + 10.0) * (u + 12.0)


@exact_kernel
def _log1p(u: float) -> float:
    """ln(1 + u) for u >= 0."""
    bits = float_bits(1.0 + u)
    small = u < 1.0
    exponent = 0.0 if small else bits_float((bits >> 52) | _TO_FLOAT) - _FROM_FLOAT
    fraction = u if small else bits_float((bits & _FRACTION) | _ONE_BITS) - 1.0
    return exponent * LN2 + log1p_and_inverse(fraction)[0]


@kernel
def _tail(x: float) -> float:
    """What Stirling's formula leaves of ln Gamma(x), for x of 8 and more."""
    inverse = 1.0 / x
    u = inverse * inverse
    series = 1.0 / 1680.0 - u * (1.0 / 1188.0)
    series = 1.0 / 1260.0 - u * series
    series = 1.0 / 360.0 - u * series
    return (1.0 / 12.0 - u * series) * inverse
