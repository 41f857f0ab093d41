"""Confidence intervals of estimates from clicks, and diagnostics of where their coverage is in doubt.

All estimates are ratios of two sums over queries, sum(terms) / sum(denominators). The target population decides what
varies: "queries" resamples queries (bootstrap), "these-queries" holds the sessions of each query fixed and takes new
pages and clicks. `docs/concepts/intervals.md` reports the measured coverage, and the limits within which it holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import Any

import numpy as np

from counterrank.common.checks import FloatArray, check_choice, check_confidence, check_whole
from counterrank.common.parallel import for_queries, run_parallel, thread_count
from counterrank.common.random import seed_key
from counterrank.evaluation import click_kernels as _click_kernels
from counterrank.evaluation.weighted_clicks import WeightedClicks, click_variance, worst_factor

Interval = tuple[float, float]

POPULATIONS = ("queries", "these-queries")

# What the intervals were measured to need, see docs/concepts/intervals.md
FEWEST_QUERIES = 100
FEWEST_EQUAL_QUERIES = 80  # a little below, since sessions vary by chance
FEWEST_QUERIES_OF_ARP = 5000
FEWEST_EXPECTED_CLICKS = 10.0
LEAST_SAMPLE_SIZE = 100.0
MOST_SINGLE_SESSIONS = 0.25
LEAST_FREEDOM = 15.0
MOST_TOO_NARROW = 1.08  # leaves 93 of 95 %
MOST_PREDICTED = 0.01

_ROUNDING = 1e-12  # of a variance that is 0 but for rounding
_PER_JOB = 64  # resamples each job of a thread draws


@dataclass(frozen=True)
class IntervalSettings:
    """Which confidence intervals to compute; checked by `check`."""

    population: str  # the target population, "queries" or "these-queries"
    confidence: float
    replicates: int  # bootstrap resamples
    key: np.uint64  # of the random streams
    threads: int

    @classmethod
    def check(cls, population: Any, confidence: Any, replicates: Any, seed: Any, threads: Any) -> IntervalSettings:
        """The settings, if they are in range."""
        check_choice(population, POPULATIONS, "population")
        level = check_confidence(confidence)
        resamples = check_whole(replicates, "replicates", 100)
        return cls(population, level, resamples, seed_key(seed), thread_count(threads))


@dataclass(frozen=True, eq=False)
class Ratios:
    """One ratio for each column of the terms, with half the width of its confidence interval."""

    values: FloatArray  # sum(terms) / sum(denominators)
    half_widths: FloatArray  # nan where it cannot be computed

    def interval(self, column: int) -> Interval | None:
        """The confidence interval of a column."""
        value, half = float(self.values[column]), float(self.half_widths[column])
        return (value - half, value + half) if np.isfinite(half) else None


def bootstrap_sums(rows: FloatArray, settings: IntervalSettings) -> FloatArray:
    """Sums over bootstrap resamples of the queries: (replicates, columns)."""
    sums = np.empty((settings.replicates, rows.shape[1]))
    starts = range(0, settings.replicates, _PER_JOB)
    kernel = partial(_click_kernels.resampled_sums, key=settings.key, rows=np.ascontiguousarray(rows), out=sums)
    jobs = [partial(kernel, first, min(first + _PER_JOB, settings.replicates)) for first in starts]
    run_parallel(jobs, settings.threads)
    return sums


def bootstrap_intervals(terms: FloatArray, denominators: list[FloatArray], settings: IntervalSettings) -> list[Ratios]:
    """Symmetric bootstrap-t intervals over queries, for the terms divided by each of the denominators.

        R +- c * s,   c = quantile of |R* - R| / s* over resamples of the queries

    s is the standard error of a ratio by linearisation, computed anew in each resample: over Q queries
    s^2 = Q / (Q - 1) * sum((terms - R * denominator)^2) / sum(denominator)^2.
    """
    n, m = terms.shape
    ratios = [terms.sum(axis=0) / below.sum() for below in denominators]
    residuals = [terms - ratio * below[:, None] for ratio, below in zip(ratios, denominators, strict=True)]
    parts = [
        np.hstack([rest, rest**2, rest * below[:, None], below[:, None], below[:, None] ** 2])
        for rest, below in zip(residuals, denominators, strict=True)
    ]
    drawn = np.split(bootstrap_sums(np.hstack(parts), settings), len(denominators), axis=1)
    found = []
    for ratio, rest, below, sums in zip(ratios, residuals, denominators, drawn, strict=True):
        errors = np.sqrt((rest**2).sum(axis=0) * n / max(n - 1, 1)) / below.sum()
        distances = _distances(sums, m) * np.sqrt(max(n - 1, 1) / n)
        widths = np.array([_quantile(column, settings.confidence) for column in distances.T]) * errors
        widths[errors == 0.0] = 0.0 if n > 1 else np.nan
        found.append(Ratios(ratio, widths))
    return found


def _distances(sums: FloatArray, m: int) -> FloatArray:
    """|R* - R| / s* of each resample, without the factor of the number of queries; inf where s* is 0."""
    rest, squares, products = sums[:, :m], sums[:, m : 2 * m], sums[:, 2 * m : 3 * m]
    below, below_squares = sums[:, 3 * m, None], sums[:, 3 * m + 1, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = rest / below
        variances = squares - 2.0 * moved * products + moved**2 * below_squares
        variances[variances <= _ROUNDING * squares] = 0.0
        distances: FloatArray = np.abs(rest) / np.sqrt(variances)
    distances[(below <= 0.0)[:, 0]] = np.inf
    return distances


def _quantile(distances: FloatArray, level: float) -> float:
    """Over the resamples with a finite distance; nan where those are not more than half of them."""
    finite = distances[np.isfinite(distances)]
    return float(np.quantile(finite, level)) if 2 * len(finite) > len(distances) else np.nan


def click_intervals(
    weighted: WeightedClicks,
    terms: FloatArray,
    below: FloatArray,
    values: FloatArray,
    centres: FloatArray,
    settings: IntervalSettings,
) -> Ratios:
    """Intervals over new pages and clicks, the sessions of each query held fixed.

        R +- t * s,   s^2 = sum over queries of n * Var(sum of residual * (lambda - centre) / rho) / sum(below)^2

    Var is the sample variance over the n sessions of the query, see `click_variance`. The centre is R where `below`
    varies too (linearisation), and 0 where it is the sessions, which do not. t is Student's, since a variance that a
    few heavy clicks or a few sessions decide is not well known either.
    """
    ratio = terms.sum(axis=0) / below.sum()
    variance, cells = click_variance(weighted, values, centres), weighted.cells
    shares = (values[cells.docs] - centres) * cells.inverse[:, None]
    freedom = _degrees_of_freedom(shares, cells.squares[:, None], cells.fourths[:, None])
    quantiles = _student(settings.confidence, np.minimum(freedom, variance.degrees_of_freedom))
    return Ratios(ratio, quantiles * np.sqrt(variance.values) / (weighted.noise_scale * below.sum()))


def _degrees_of_freedom(terms: FloatArray, second: Any, fourth: Any) -> FloatArray:
    """Degrees of freedom of a variance (Satterthwaite): 2 * variance^2 / variance of the variance, by rare clicks.

    `second` and `fourth` are the sums of squares and fourth powers of the residuals that each term is multiplied with.
    """
    squares = terms * terms
    fourths = (fourth * squares * squares).sum(axis=0)
    squares = (second * squares).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(fourths > 0.0, 2.0 * squares**2 / fourths, np.inf))


def _student(confidence: float, freedom: FloatArray) -> FloatArray:
    """The two-sided quantile of Student's t, expanded about the normal one (Abramowitz and Stegun, 26.7.5)."""
    z = NormalDist().inv_cdf(0.5 + confidence / 2.0)
    first = (z**3 + z) / 4.0
    second = (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0
    third = (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0
    return np.asarray(z + first / freedom + second / freedom**2 + third / freedom**3)


def expected_clicks(weighted: WeightedClicks, values: FloatArray, centres: FloatArray) -> FloatArray:
    """The number of equally weighted clicks whose sum would be as skewed as that of the log is expected to be.

        share of examinations clicked * second moment^3 / third moment^2

    of |lambda - centre| / rho over all documents that can be examined, clicked or not: a sum without a heavy click may
    depend on those that did not happen. Without rho only the clicks that did are known. The click model is left out:
    its predictions reduce heavy and light clicks alike.
    """
    if weighted.rho is None:
        cells = weighted.cells
        terms = np.abs(values[cells.docs] - centres) * cells.inverse[:, None]
        squares = cells.clicks[:, None] * terms * terms
        second, third, clicked = squares.sum(axis=0), (squares * terms).sum(axis=0), 1.0
    else:
        moments = np.empty((len(weighted.sessions), len(centres), 2))
        kernel, sessions, rho = _click_kernels.chance_moments, weighted.sessions, weighted.rho
        for_queries(kernel, weighted.offsets, sessions, rho, values, centres, moments, threads=weighted.threads)
        second, third = moments.sum(axis=0).T
        examinations = float((weighted.sessions_of_documents * rho).sum())
        clicked = float(weighted.cells.clicks.sum()) / examinations if examinations else 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(third > 0.0, clicked * second**3 / third**2, 0.0))


def diagnose(
    weighted: WeightedClicks,
    values: FloatArray,
    names: Sequence[str],
    settings: IntervalSettings,
    kind: str,
    below: float,
    centres: FloatArray,
) -> list[list[str]]:
    """For each column why the coverage of its interval of this kind ("ips", "self_normalized") may be too low.

    The limits are those from which on the measured coverage holds, see docs/concepts/intervals.md. `below` is the sum
    of the denominators.
    """
    common = _few_queries(weighted, settings)
    word = weighted.method if kind == "ips" else "self-normalised"
    if kind == "self_normalized":  # of the sum of all weights, which click noise reduces
        squares = float((weighted.cells.squares * weighted.cells.inverse**2).sum())
        size = (weighted.noise_scale * below) ** 2 / squares if squares else 0.0
        if size < LEAST_SAMPLE_SIZE:
            common.append(f"{word} has an effective sample size of {size:.3g}, expected at least {LEAST_SAMPLE_SIZE:g}")
    expected = expected_clicks(weighted, values, centres)
    n_queries = int(np.count_nonzero(weighted.sessions))
    few_for_arp = settings.population == "queries" and FEWEST_QUERIES <= n_queries < FEWEST_QUERIES_OF_ARP
    pages = _page_doubts(weighted, values, settings, word, centres)
    unseen = _predicted_shares(weighted, values, centres)
    found = []
    for m, name in enumerate(names):
        own = common + pages[m]
        if unseen[m] > MOST_PREDICTED:
            own.append(
                f"{word} is predicted to {100 * unseen[m]:.2g} % for documents with a propensity of 0, which no click "
                f"can correct, expected at most {100 * MOST_PREDICTED:g} %"
            )
        if np.ptp(values[:, m]) > 0.0 and not expected[m] >= FEWEST_EXPECTED_CLICKS:  # else clicks do not matter
            own.append(
                f"{word} depends on rare clicks: the effective number of clicks by skewness is {expected[m]:.2g}, "
                f"expected at least {FEWEST_EXPECTED_CLICKS:g}"
            )
        # long queries decide arp; in a difference, where some values are negative, they go either way
        if few_for_arp and name == "arp" and values[:, m].min() > 0.0:
            own.append(f"{n_queries:,} queries, expected at least {FEWEST_QUERIES_OF_ARP:,} for arp")
        found.append(own)
    return found


def _few_queries(weighted: WeightedClicks, settings: IntervalSettings) -> list[str]:
    """What concerns every interval: too few queries or sessions per query."""
    n_queries = int(np.count_nonzero(weighted.sessions))
    if settings.population == "queries":
        if n_queries < FEWEST_QUERIES:
            return [f"{n_queries:,} queries, expected at least {FEWEST_QUERIES}"]
        # the effective number of queries, (sum of f)^2 / sum of f^2; of n sessions n (n - 1) is unbiased for the square
        sessions = weighted.sessions.astype(np.float64)
        pairs = float((sessions * (sessions - 1.0)).sum())
        equal = float(sessions.sum()) ** 2 / pairs if pairs else np.inf
        if equal >= FEWEST_EQUAL_QUERIES:
            return []
        return [
            f"a few of the {n_queries:,} queries have most sessions, an effective number of {equal:.0f} equally "
            f"frequent queries, expected at least {FEWEST_EQUAL_QUERIES}"
        ]
    single = float(np.count_nonzero(weighted.sessions == 1) / weighted.sessions.sum())
    if single <= MOST_SINGLE_SESSIONS:
        return []
    return [
        f"{100 * single:.0f} % of the sessions are the only one of their query, which makes intervals too wide, "
        f"expected at most {100 * MOST_SINGLE_SESSIONS:.0f} %"
    ]


def _page_doubts(
    weighted: WeightedClicks, values: FloatArray, settings: IntervalSettings, word: str, centres: FloatArray
) -> list[list[str]]:
    """For each column whether its width is in doubt: the correlation of ranks is not known, or not well."""
    if settings.population == "queries":
        return [[] for _ in centres]
    if weighted.pages is not None:
        freedom = click_variance(weighted, values, centres).degrees_of_freedom.tolist()
        few = f"{word} depends on queries with few sessions,"
        text = f"degrees of freedom, expected at least {LEAST_FREEDOM:g}"
        return [[f"{few} {by:.2g} {text}"] if by < LEAST_FREEDOM else [] for by in freedom]
    text = (
        "times too narrow, or too wide, since counts do not say what was shown together; keep pages with displays=True"
    )
    factors = worst_factor(weighted, values, centres)
    return [[f"{word} may be up to {by:.1f} {text}"] if by > MOST_TOO_NARROW else [] for by in factors.tolist()]


def _predicted_shares(weighted: WeightedClicks, values: FloatArray, centres: FloatArray) -> FloatArray:
    """For each column, of sum(sessions * R * |lambda - centre|) the share of documents that cannot be examined.

    The intervals do not include the error of the click model there. 0 for "ips".
    """
    if weighted.relevance is None or not len(weighted.unexaminable):
        return np.zeros(len(centres))
    weights = weighted.sessions_of_documents * weighted.relevance
    unseen = weighted.unexaminable
    total = np.array([weights @ np.abs(column - centre) for column, centre in zip(values.T, centres, strict=True)])
    part = weights[unseen] @ np.abs(values[unseen] - centres)
    return np.asarray(np.divide(part, total, out=np.zeros(len(centres)), where=total > 0.0))


def uncovered_shares(weighted: WeightedClicks, values: FloatArray) -> FloatArray:
    """For each column, of sum(sessions * |lambda|) the share of documents that the clicks do not cover."""
    if not len(weighted.uncovered):
        return np.zeros(values.shape[1])
    sessions, sizes = weighted.sessions_of_documents, np.abs(values)
    total = np.asarray(sessions @ sizes, np.float64)
    part = sessions[weighted.uncovered] @ sizes[weighted.uncovered]
    return np.asarray(np.divide(part, total, out=np.zeros(len(total)), where=total > 0.0))
