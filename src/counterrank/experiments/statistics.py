"""Statistics over runs: means with confidence intervals, paired relative differences, and shares of a gap.

Two or three runs are common, so that quantiles of Student's t have to be exact for few degrees of freedom.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from counterrank.common.checks import FloatArray
from counterrank.common.numerics import student_quantile

CONFIDENCE = 0.95

_RESAMPLES, _TAIL = 4000, 0.025


class Interval(NamedTuple):
    """A mean over runs; `low` and `high` are None with fewer than two runs, `value` with none."""

    value: float | None
    low: float | None
    high: float | None
    runs: int


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


def values_array(values: Sequence[float | None]) -> FloatArray:
    """One number for each run, nan where there is none.

    >>> values_array([1.0, None])
    array([ 1., nan])
    """
    return np.array([np.nan if value is None else value for value in values], np.float64)


def sample(values: FloatArray) -> Sample:
    """Mean and standard error of the runs that are there.

    >>> sample(np.array([1.0, np.nan, 3.0]))
    Sample(mean=2.0, error=1.0, runs=2)
    """
    there = values[np.isfinite(values)]
    n = len(there)
    mean = float(there.mean()) if n else math.nan
    error = float(np.sqrt(((there - mean) ** 2).sum() / (n - 1) / n)) if n > 1 else math.nan
    return Sample(mean, error, n)


def mean_interval(values: FloatArray, confidence: float = CONFIDENCE) -> Interval:
    """The mean over runs with Student's confidence interval; runs that are nan are left out.

        mean +- t * s / sqrt(n),   s the sample standard deviation, t with n - 1 degrees of freedom

    >>> [round(number, 3) for number in mean_interval(np.array([1.0, 2.0, 3.0, np.nan]), confidence=0.9)]
    [2.0, 0.314, 3.686, 3]
    >>> mean_interval(np.array([1.0]))
    Interval(value=1.0, low=None, high=None, runs=1)
    """
    return sample(values).interval(confidence)


def relative(difference: FloatArray, reference: FloatArray) -> FloatArray:
    """For each run its share in mean(difference) / |mean(reference)|, over runs that have both; nan elsewhere.

        R + (difference - R * |reference|) / |mean(reference)|,   R = the quotient

    The mean of these is R, and their spread is that of R by linearisation (the delta method): the reference differs
    between runs too, and the mean of the runs' own quotients would give runs of a low reference more weight.

    >>> relative(np.array([-1.0, -3.0]), np.array([100.0, 100.0]))
    array([-0.01, -0.03])
    """
    both = np.isfinite(difference) & np.isfinite(reference)
    level = abs(float(reference[both].mean())) if both.any() else 0.0
    if level == 0.0:
        return np.full(len(difference), np.nan)
    sign = math.copysign(1.0, float(reference[both].mean()))
    quotient = float(difference[both].mean()) / level
    shares = quotient + (difference - quotient * sign * reference) / level
    return np.asarray(np.where(both, shares, np.nan))


def against(one: FloatArray, other: FloatArray) -> FloatArray:
    """How much better one is than the other, relative to the other; positive is better.

    >>> against(np.array([0.99, 0.98]), np.array([1.0, 1.0]))
    array([-0.01, -0.02])
    """
    return relative(one - other, other)


def ratio_bootstrap(come: FloatArray, gap: FloatArray) -> tuple[float | None, float | None]:
    """The 95 % bootstrap confidence interval of sum(come) / sum(gap), resampling runs.

    None with fewer than two runs, and where the gap is not above zero in more than 2.5 % of the resamples.

    >>> ratio_bootstrap(np.array([0.1, 0.2]), np.array([0.2, 0.4]))
    (0.5, 0.5)
    """
    if len(come) < 2:
        return None, None
    drawn = np.random.default_rng(0).integers(len(come), size=(_RESAMPLES, len(come)))
    gaps = gap[drawn].sum(axis=1)
    sure = gaps > 0.0
    if np.count_nonzero(~sure) > _TAIL * _RESAMPLES:
        return None, None
    low, high = np.quantile(come[drawn].sum(axis=1)[sure] / gaps[sure], (_TAIL, 1.0 - _TAIL))
    return float(low), float(high)


def ratio_interval(come: FloatArray, gap: FloatArray) -> Interval | None:
    """mean(come) / mean(gap) over paired runs with its 95 % confidence interval (Fieller's).

    A ratio s lies in the interval if the mean of come - s * gap does not differ from zero at the level of Student's
    test, which is exact for normal differences: the gap is uncertain as well. None with fewer than two runs, and where
    the gap itself may be zero, since any ratio would do then.

    >>> found = ratio_interval(np.array([0.2, 0.3, 0.25]), np.array([0.5, 0.5, 0.4]))
    >>> [round(number, 2) for number in found]
    [0.54, 0.26, 0.93, 3]
    """
    both = np.isfinite(come) & np.isfinite(gap)
    come, gap, n = come[both], gap[both], int(both.sum())
    if n < 2:
        return None
    squared = student_quantile(CONFIDENCE, n - 1) ** 2
    moments = np.cov(come, gap) / n
    # those s for which a * s^2 - 2 * b * s + c <= 0
    a = float(gap.mean() ** 2 - squared * moments[1, 1])
    b = float(come.mean() * gap.mean() - squared * moments[0, 1])
    c = float(come.mean() ** 2 - squared * moments[0, 0])
    if a <= 0.0 or gap.mean() <= 0.0:
        return None
    half = math.sqrt(max(b * b - a * c, 0.0))
    return Interval(float(come.mean() / gap.mean()), (b - half) / a, (b + half) / a, n)
