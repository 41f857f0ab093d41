"""What a mean over a few runs tells: Student's t and its intervals, exact for any whole number of runs.

Two or three runs are common, and there an expansion about the normal quantile is far off; the sum below is exact.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from counterrank.common.checks import FloatArray
from counterrank.common.errors import CounterrankError


class Interval(NamedTuple):
    """A mean over runs; `low` and `high` are None with fewer than two runs, `value` with none."""

    value: float | None
    low: float | None
    high: float | None
    runs: int


def mean_interval(values: FloatArray, confidence: float = 0.95) -> Interval:
    """The mean over runs with Student's interval; runs that are nan are left out.

        mean +- t * s / sqrt(n),   s the sample standard deviation, t with n - 1 degrees of freedom

    >>> [round(number, 3) for number in mean_interval(np.array([1.0, 2.0, 3.0, np.nan]), confidence=0.9)]
    [2.0, 0.314, 3.686, 3]
    >>> mean_interval(np.array([1.0]))
    Interval(value=1.0, low=None, high=None, runs=1)
    """
    return sample(values).interval(confidence)


class Sample(NamedTuple):
    """A mean over runs and its standard error, which is nan with fewer than two runs."""

    mean: float
    error: float
    runs: int

    def interval(self, confidence: float) -> Interval:
        """At this level."""
        if self.runs < 2:
            return Interval(self.mean if self.runs else None, None, None, self.runs)
        half = student_quantile(confidence, self.runs - 1) * self.error
        return Interval(self.mean, self.mean - half, self.mean + half, self.runs)


def sample(values: FloatArray) -> Sample:
    """Of the runs that are there.

    >>> sample(np.array([1.0, np.nan, 3.0]))
    Sample(mean=2.0, error=1.0, runs=2)
    """
    there = values[np.isfinite(values)]
    n = len(there)
    mean = float(there.mean()) if n else math.nan
    error = float(np.sqrt(((there - mean) ** 2).sum() / (n - 1) / n)) if n > 1 else math.nan
    return Sample(mean, error, n)


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
