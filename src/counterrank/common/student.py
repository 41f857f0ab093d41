"""Student's t, exact for any whole number of degrees of freedom."""

from __future__ import annotations

import math
from functools import lru_cache

from counterrank.common.errors import CounterrankError


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
