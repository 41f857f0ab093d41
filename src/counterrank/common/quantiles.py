"""Quantiles for confidence intervals."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

from counterrank.common.errors import CounterrankError

_LARGE = 1e4  # from this shape on the Wilson-Hilferty cube is as good as the digits that matter
_SMALL = 1e-15


def gamma_quantile(probability: float, shape: float) -> float:
    """The x below which a gamma variable of this shape (and scale 1) lies with this probability.

    By bisection of the regularised incomplete gamma function (Abramowitz and Stegun, 6.5.29 and 6.5.31), to about 12
    digits; by Wilson and Hilferty's cube for shapes above 10,000.

    >>> round(gamma_quantile(0.975, 1.0), 6), round(-math.log(0.025), 6)
    (3.688879, 3.688879)
    >>> round(gamma_quantile(0.025, 38.0), 3)  # the exact lower end of a Poisson count of 38
    26.891
    """
    if not 0.0 < probability < 1.0 or not 0.0 < shape < math.inf:
        raise CounterrankError(
            f"probability={probability!r}, shape={shape!r}: expected 0 < probability < 1 and a shape above 0"
        )
    z = NormalDist().inv_cdf(probability)
    cube = shape * max(1.0 - 1.0 / (9.0 * shape) + z / (3.0 * math.sqrt(shape)), 0.0) ** 3
    if shape > _LARGE:
        return cube
    low, high = 0.0, max(2.0 * cube, 1.0)
    while _below(high, shape) < probability:
        high *= 2.0
    while True:
        middle = (low + high) / 2.0
        if middle in (low, high) or high - low < 1e-13 * high:
            return middle
        if _below(middle, shape) < probability:
            low = middle
        else:
            high = middle


def _below(x: float, shape: float) -> float:
    """P(gamma <= x): a series near the shape and below, a continued fraction above."""
    if x <= 0.0:
        return 0.0
    front = math.exp(shape * math.log(x) - x - math.lgamma(shape))
    return front * _series(x, shape) if x < shape + 1.0 else 1.0 - front * _fraction(x, shape)


def _series(x: float, shape: float) -> float:
    term = total = 1.0 / shape
    n = shape
    while term > total * _SMALL:
        n += 1.0
        term *= x / n
        total += term
    return total


def _fraction(x: float, shape: float) -> float:
    """Lentz's method from above."""
    b = x + 1.0 - shape
    c, d = 1e300, 1.0 / b
    value = d
    i = 0
    while True:
        i += 1
        a = -i * (i - shape)
        b += 2.0
        d = 1.0 / (a * d + b)
        c = b + a / c
        step = c * d
        value *= step
        if abs(step - 1.0) < _SMALL:
            return value


@lru_cache(maxsize=1024)
def student_quantile(confidence: float, freedom: int) -> float:
    """The t for which |T| <= t with probability `confidence`, T being Student's with `freedom` degrees of freedom.

    >>> round(student_quantile(0.95, 1), 3), round(student_quantile(0.95, 7), 3)
    (12.706, 2.365)
    """
    if not 0.0 < confidence < 1.0 or freedom < 1:
        raise CounterrankError(
            f"confidence={confidence!r}, freedom={freedom!r}: expected 0 < confidence < 1 <= freedom"
        )
    low, high = 0.0, math.pi / 2.0
    while True:
        middle = (low + high) / 2.0
        if middle in (low, high):
            return math.tan(middle) * math.sqrt(freedom)
        if _inside(middle, freedom) < confidence:
            low = middle
        else:
            high = middle


def _inside(angle: float, freedom: int) -> float:
    """P(|T| <= tan(angle) * sqrt(freedom)), a finite sum of powers of cosines (Abramowitz and Stegun, 26.7.3-4)."""
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term = total = 0.0
    for power in range(odd, freedom - 1, 2):
        term = cosine**odd if power == odd else term * cosine**2 * (power - 1) / power
        total += term
    return 2.0 / math.pi * (angle + sine * total) if odd else sine * total
