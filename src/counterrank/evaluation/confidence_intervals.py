"""How far an estimate from clicks may be off: over queries like these, or over new clicks on these queries.

All estimates are quotients of two sums over queries, sum(terms) / sum(below). `docs/intervals.md` holds what was
measured: how often the intervals hold the truth, and from which limits on they do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import Any

import numpy as np

from counterrank.common.checks import FloatArray, check_choice
from counterrank.common.errors import CounterrankError
from counterrank.common.parallel import for_queries, run_parallel, thread_count
from counterrank.common.random import seed_key
from counterrank.evaluation import click_kernels as _click_kernels
from counterrank.evaluation.click_evidence import WeighedClicks, click_variance

TARGETS = ("queries", "these-queries")

# of a variance that is 0 but for rounding
_ROUNDING = 1e-12

# resamples each job of a thread draws
_PER_JOB = 64


@dataclass(frozen=True)
class Asked:
    """Which intervals are wanted; checked when made.

    Attributes:
        target: "queries" or "these-queries".
        confidence: how often an interval shall hold the truth.
        replicates: how many resamples to draw.
        key: of the random streams.
        threads: how many to use.
    """

    target: str
    confidence: float
    replicates: int
    key: np.uint64
    threads: int

    @classmethod
    def checked(cls, target: Any, confidence: Any, replicates: Any, seed: Any, threads: Any) -> Asked:
        """From what a caller handed over."""
        check_choice(target, TARGETS, "target")
        if isinstance(confidence, bool) or not isinstance(confidence, int | float | np.number):
            raise CounterrankError(f"confidence={confidence!r}: expected a number between 0 and 1, such as 0.95")
        if not 0.0 < confidence < 1.0:
            raise CounterrankError(f"confidence={confidence!r}: expected a number between 0 and 1, such as 0.95")
        if isinstance(replicates, bool) or not isinstance(replicates, int | np.integer) or replicates < 100:
            raise CounterrankError(f"replicates={replicates!r}: expected a whole number of at least 100")
        return cls(target, float(confidence), int(replicates), seed_key(seed), thread_count(threads))


@dataclass(frozen=True, eq=False)
class Ratios:
    """One quotient for each column of the terms, with half the width of its interval.

    Attributes:
        values: sum(terms) / sum(below).
        half_widths: nan where there is no telling.
    """

    values: FloatArray
    half_widths: FloatArray


def resampled_queries(rows: FloatArray, asked: Asked) -> FloatArray:
    """Sums of the rows of as many queries as there are, drawn with replacement: (replicates, columns)."""
    sums = np.empty((asked.replicates, rows.shape[1]))
    starts = range(0, asked.replicates, _PER_JOB)
    kernel = partial(_click_kernels.resampled_sums, key=asked.key, rows=np.ascontiguousarray(rows), out=sums)
    jobs = [partial(kernel, first, min(first + _PER_JOB, asked.replicates)) for first in starts]
    run_parallel(jobs, asked.threads)
    return sums


def over_queries(terms: FloatArray, belows: list[FloatArray], asked: Asked) -> list[Ratios]:
    """Symmetric bootstrap-t intervals over queries, for the terms divided by each of `belows`.

        R +- c * s,   c = quantile of |R* - R| / s* over resamples of the queries

    s is the standard error of a quotient by linearisation, computed anew in each resample: over Q queries
    s^2 = Q / (Q - 1) * sum((terms - R * below)^2) / sum(below)^2.
    """
    n = len(terms)
    ratios = [terms.sum(axis=0) / below.sum() for below in belows]
    rests = [terms - ratio * below[:, None] for ratio, below in zip(ratios, belows, strict=True)]
    parts = [
        np.hstack([rest, rest**2, rest * below[:, None], below[:, None], below[:, None] ** 2])
        for rest, below in zip(rests, belows, strict=True)
    ]
    drawn = np.split(resampled_queries(np.hstack(parts), asked), len(belows), axis=1)
    found = []
    for ratio, rest, below, sums in zip(ratios, rests, belows, drawn, strict=True):
        distances = _distances(sums, terms.shape[1])
        errors = np.sqrt((rest**2).sum(axis=0) * n / max(n - 1, 1)) / below.sum()
        widths = _quantiles(distances * np.sqrt(max(n - 1, 1) / n), asked.confidence) * errors
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


def _quantiles(distances: FloatArray, confidence: float) -> FloatArray:
    """Of each column, without resamples that tell nothing; nan where those are more than half of them."""
    found = np.full(distances.shape[1], np.nan)
    for m, column in enumerate(distances.T):
        told = column[np.isfinite(column)]
        if 2 * len(told) > len(column):
            found[m] = np.quantile(told, confidence)
    return found


def over_clicks(
    weighed: WeighedClicks, terms: FloatArray, below: FloatArray, values: FloatArray, centres: FloatArray, asked: Asked
) -> Ratios:
    """Intervals over new pages and clicks, the sessions of each query held fixed.

        R +- t * s,   s^2 = sum over queries of n * Var(sum of surprise * (lambda - centre) / rho) / sum(below)^2

    Var is the sample variance over the n sessions of the query, see `click_variance`. The centre is R where `below`
    varies too (linearisation), and 0 where it is the sessions, which do not. t is Student's, since a variance that a
    few heavy clicks or a few sessions decide is not well known either.
    """
    ratio = terms.sum(axis=0) / below.sum()
    spread, cells = click_variance(weighed, values, centres), weighed.cells
    scale = 1.0 if weighed.noise is None else weighed.noise[1] - weighed.noise[0]
    shares = (values[cells.docs] - centres) * cells.inverse[:, None]
    freedom = np.minimum(_freedom(shares, cells.squares[:, None], cells.fourths[:, None]), spread.freedom)
    quantiles = _student(asked.confidence, freedom)
    return Ratios(ratio, quantiles * np.sqrt(spread.variance) / (scale * below.sum()))


def _freedom(terms: FloatArray, second: Any, fourth: Any) -> FloatArray:
    """Degrees of freedom of a variance (Satterthwaite): 2 * variance^2 / variance of the variance, by rare clicks.

    `second` and `fourth` are the sums of squares and fourth powers of the surprises that each term is multiplied with.
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


def expected_clicks(weighed: WeighedClicks, values: FloatArray, centres: FloatArray) -> FloatArray:
    """How many equal clicks would make as skewed a sum as the log is expected to hold.

        share of examinations clicked * second moment^3 / third moment^2

    of |lambda - centre| / rho over all documents that can be seen, clicked or not: a sum without a heavy click may hang
    on those that did not happen. Without rho all there is to go by is the clicks that did. A model is not
    looked at: what it foresees makes heavy and light clicks smaller alike.
    """
    if weighed.rho is None:
        cells = weighed.cells
        terms = np.abs(values[cells.docs] - centres) * cells.inverse[:, None]
        squares = cells.clicks[:, None] * terms * terms
        second, third, clicked = squares.sum(axis=0), (squares * terms).sum(axis=0), 1.0
    else:
        moments = np.empty((len(weighed.sessions), len(centres), 2))
        kernel, sessions, rho = _click_kernels.chance_moments, weighed.sessions, weighed.rho
        for_queries(kernel, weighed.offsets, sessions, rho, values, centres, moments, threads=weighed.threads)
        second, third = moments.sum(axis=0).T
        examinations = float((np.repeat(sessions, np.diff(weighed.offsets)) * rho).sum())
        clicked = float(weighed.cells.clicks.sum()) / examinations if examinations else 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(third > 0.0, clicked * second**3 / third**2, 0.0))
