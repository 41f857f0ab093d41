"""What a mean over a few runs tells: Student's t and its intervals, exact for any whole number of runs.

Two or three runs are common, and there an expansion about the normal quantile is far off; the sum below is exact.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from counterrank.common.checks import FloatArray
from counterrank.common.quantiles import student_quantile


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
