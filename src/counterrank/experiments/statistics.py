"""Statistics of runs that share their test queries: means with confidence intervals, relative differences, ratios.

Each run evaluates its rankers on the same test queries, so runs alone do not show how much a mean depends on them. The
queries are therefore split into groups, and a value is known for each run and each group: a two-way layout with crossed
random effects,

    x_rg = mu + run_r + query_g + e_rg,       r = 1..R runs, g = 1..G groups

    Var(mean) = s2_run / R + s2_query / G

s2_run is the variance over runs of the means over groups, which contains the interaction e. s2_query is the variance
component of groups, (MS_query - MS_e) / R, or 0 where that is negative: MS_query is R times the variance over groups of
the means over runs, MS_e the mean square of the residuals. The first term falls with more runs, the second only with
more test queries. Student's t has Satterthwaite's degrees of freedom,

    (sum_i c_i MS_i)^2 / sum_i (c_i MS_i)^2 / freedom_i         over MS_run, MS_query and MS_e

Arrays have one value for each run, shape (runs,), where groups are not known: the variance is then over runs alone.
Otherwise their shape is (folds, runs, groups): each fold has test queries of its own. All runs of all folds count as
runs in s2_run, and the second term is that of each fold times its squared share of the runs. In both shapes nan is a
run without a result. Sums, differences and `relative` are taken element by element.

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


class QueryTerm(NamedTuple):
    """What the test queries of one fold add to the variance of a mean, by c = (share of the runs)^2 / (R G).

    Attributes:
        squares: c MS_query.
        residual: c MS_e.
        runs, groups: R and G of the fold.
    """

    squares: float
    residual: float
    runs: float
    groups: float

    @property
    def variance(self) -> float:
        """The variance component of queries, divided by their number."""
        return max(0.0, self.squares - self.residual)

    @property
    def uncertainty(self) -> float:
        """Its part of the denominator of Satterthwaite's degrees of freedom."""
        return (self.squares**2 + self.residual**2 / (self.runs - 1)) / (self.groups - 1)

    def with_more(self, runs: float, queries: float) -> QueryTerm:
        """From so many times as many runs and queries: only the residual falls with runs."""
        residual = self.residual / (runs * queries)
        squares = max(0.0, (self.squares - self.residual) / queries + residual)
        return QueryTerm(squares, residual, self.runs * runs, self.groups * queries)


class Sample(NamedTuple):
    """A mean over runs, and its variance in parts; that over runs is nan with fewer than two.

    Attributes:
        mean: over all runs.
        runs: how many, of all folds together.
        run_variance: s2_run / R, which falls with more runs.
        queries: the terms of test queries, one for each fold; empty where groups are not known.
    """

    mean: float
    runs: int
    run_variance: float
    queries: tuple[QueryTerm, ...] = ()

    @property
    def query_variance(self) -> float:
        """s2_query / G, which falls with more test queries."""
        return sum(term.variance for term in self.queries)

    @property
    def error(self) -> float:
        """The standard error."""
        return math.sqrt(self.run_variance + self.query_variance)

    @property
    def freedom(self) -> float:
        """Satterthwaite's degrees of freedom, at least 1.

        >>> Sample(0.0, 10, 1.0).freedom
        9.0
        """
        below = self.run_variance**2 / (self.runs - 1) + sum(term.uncertainty for term in self.queries)
        return max(1.0, (self.run_variance + self.query_variance) ** 2 / below) if below > 0.0 else 1.0

    def interval(self, confidence: float) -> Interval:
        """At this level."""
        if self.runs < 2:
            return Interval(self.mean if self.runs else None, None, None, self.runs)
        half = student_quantile(confidence, self.freedom) * self.error
        return Interval(self.mean, self.mean - half, self.mean + half, self.runs)

    def with_more(self, runs: int, queries: float = 1.0) -> Sample:
        """The same mean from so many runs, and so many times as many test queries.

        >>> more = Sample(0.5, 10, 0.04, (QueryTerm(0.03, 0.02, 10, 64),)).with_more(40, 2.0)
        >>> more.run_variance, round(more.query_variance, 12)
        (0.01, 0.005)
        """
        times = runs / self.runs
        terms = tuple(term.with_more(times, queries) for term in self.queries)
        return Sample(self.mean, runs, self.run_variance / times, terms)


def values_array(values: Sequence[float | None]) -> FloatArray:
    """One number for each run, nan where there is none.

    >>> values_array([1.0, None])
    array([ 1., nan])
    """
    return np.array([np.nan if value is None else value for value in values], np.float64)


def merge_groups(values: FloatArray, n: int) -> FloatArray:
    """Values of groups (in the last dimension) as those of n groups, at most as many, with the same mean.

    Neighbours are joined. A joined group has the sum of the deviations from the mean, scaled so that the variance of
    the mean that groups imply is the same in expectation.

    >>> merge_groups(np.array([1.0, 3.0, 4.0, 8.0]), 2)
    array([2., 6.])
    """
    groups = values.shape[-1]
    if groups == n:
        return values
    mean = values.mean(axis=-1, keepdims=True)
    starts = np.arange(n) * groups // n
    return np.asarray(mean + np.add.reduceat(values - mean, starts, axis=-1) * (n / groups))


def sample(values: FloatArray) -> Sample:
    """Mean and variance of the runs that are there, as the top of this module says.

    >>> sample(np.array([1.0, np.nan, 3.0]))
    Sample(mean=2.0, runs=2, run_variance=1.0, queries=())
    >>> crossed = sample(np.array([[[1.0, 5.0], [3.0, 7.0]]]))  # no interaction: groups differ by 4 in both runs
    >>> crossed.run_variance, crossed.query_variance, crossed.error == math.sqrt(1.0 + 4.0)
    (1.0, 4.0, True)
    """
    by_run = values if values.ndim == 1 else values.mean(axis=2)
    there = by_run[np.isfinite(by_run)]
    n = len(there)
    if n < 2:
        return Sample(float(there[0]) if n else math.nan, n, math.nan)
    mean = float(there.mean())
    run_variance = float(((there - mean) ** 2).sum() / (n - 1) / n)
    if values.ndim == 1:
        return Sample(mean, n, run_variance)
    terms = (_query_term(fold[np.isfinite(fold).all(axis=1)], n) for fold in values)
    return Sample(mean, n, run_variance, tuple(term for term in terms if term is not None))


def _query_term(fold: FloatArray, all_runs: int) -> QueryTerm | None:
    """The term of the queries of one fold in a mean over `all_runs`.

    With one run its queries cannot be told from the run: they are part of the variance over runs of other folds.
    """
    runs, groups = fold.shape
    if runs < 2 or groups < 2:
        return None
    by_query = fold.mean(axis=0)
    residuals = fold - fold.mean(axis=1, keepdims=True) - by_query + by_query.mean()
    squares = runs * float(((by_query - by_query.mean()) ** 2).sum()) / (groups - 1)
    error = float((residuals**2).sum()) / ((runs - 1) * (groups - 1))
    scale = (runs / all_runs) ** 2 / (runs * groups)
    return QueryTerm(scale * squares, scale * error, runs, groups)


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
        return np.full(difference.shape, np.nan)
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
