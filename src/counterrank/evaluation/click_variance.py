"""The variance of a sum over clicks, the sessions of each query held fixed; and how much of it counts cannot tell."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.parallel import for_queries
from counterrank.evaluation import _click_kernels
from counterrank.evaluation.click_evidence import WeighedClicks


class Spread(NamedTuple):
    """The variance of a sum for each column, and its degrees of freedom as far as numbers of sessions limit them."""

    variance: FloatArray
    freedom: FloatArray


def click_variance(weighed: WeighedClicks, values: FloatArray, centres: FloatArray) -> Spread:
    """Of the sum over all sessions of Y = sum over the page of surprise * (value - centre) / rho, for each column.

    A surprise is a click, less what the model foresaw of it if there is one.

    The sum over queries of n times the sample variance of Y over the n sessions of the query. Where pages were kept, Y
    is that of the whole page; else the ranks of a page are taken as independent. Queries with a single session have no
    variance of their own and are taken together as if they were one query: what lies between them counts too, so that
    it is too large rather than too small (collapsed strata; Cochran, Sampling Techniques, 5A.12).
    """
    if weighed.pages is not None:
        return _of_pages(weighed, values, centres)
    variances = np.zeros((len(weighed.sessions), len(centres)))
    given = weighed.offsets, weighed.cells, weighed.sessions, values, centres, variances
    for_queries(_click_kernels.session_variances, *given, threads=weighed.threads)
    total = variances.sum(axis=0) + _single_sessions(weighed, values, centres)
    return Spread(np.maximum(total, 0.0), np.full(len(centres), np.inf))  # a variance of 0 may round to less


def _of_pages(weighed: WeighedClicks, values: FloatArray, centres: FloatArray) -> Spread:
    """Degrees of freedom by Welch and Satterthwaite: variance^2 / sum over queries of own variance^2 / (n - 1)."""
    moments = np.empty((len(weighed.sessions), len(centres), 2))
    given = weighed.offsets, weighed.pages, values, centres, moments
    for_queries(_click_kernels.page_moments, *given, threads=weighed.threads)
    several, single = weighed.sessions > 1, weighed.sessions == 1
    together = moments[single].sum(axis=0)[None]
    n = np.append(weighed.sessions[several], np.count_nonzero(single))[:, None]
    own = _scaled(np.concatenate([moments[several], together]), n)
    total, squares = own.sum(axis=0), (own**2 / np.maximum(n - 1, 1)).sum(axis=0)
    return Spread(total, np.divide(total**2, squares, out=np.full(len(total), np.inf), where=squares > 0.0))


def _scaled(moments: FloatArray, n: IntArray) -> FloatArray:
    """n times the sample variance of n numbers, from their sum of squares and their sum; of one number its square."""
    squares, sums = moments[..., 0], moments[..., 1]
    return np.where(n > 1, np.maximum(squares - sums**2 / np.maximum(n, 1), 0.0) * n / np.maximum(n - 1, 1), squares)


def _single_sessions(weighed: WeighedClicks, values: FloatArray, centres: FloatArray) -> FloatArray:
    """The variance of queries with one session each, by rank over all of them."""
    cells = weighed.cells
    owner = np.repeat(np.arange(len(weighed.sessions)), np.diff(cells.bounds))
    chosen = np.flatnonzero(weighed.sessions[owner] == 1)
    n = int(np.count_nonzero(weighed.sessions == 1))
    terms = (values[cells.docs[chosen]] - centres) * cells.inverse[chosen, None]
    terms *= cells.sums[chosen, None]  # shown once each
    squares: FloatArray = (terms**2).sum(axis=0)
    if n < 2 or not len(chosen):
        return squares
    by_rank = np.stack([np.bincount(cells.ranks[chosen], weights=column) for column in terms.T])
    return np.asarray(np.maximum(squares - (by_rank**2).sum(axis=1) / n, 0.0) * n / (n - 1))


def worst_factor(weighed: WeighedClicks, values: FloatArray, centres: FloatArray) -> FloatArray:
    """How many times too narrow intervals may be, at worst, since the ranks of a page were taken as independent.

    Which documents a page holds may tie its ranks together, so of the variance of each rank only the part between
    documents can matter. At worst these parts are perfectly correlated. 1 where pages were kept, or at most one rank of
    each query varies.
    """
    if weighed.pages is not None:
        return np.ones(len(centres))
    more = np.zeros((len(weighed.sessions), len(centres)))
    given = weighed.offsets, weighed.cells, weighed.sessions, values, centres, more
    for_queries(_click_kernels.tied_ranks, *given, threads=weighed.threads)
    total = click_variance(weighed, values, centres).variance
    return np.asarray(np.sqrt(1.0 + np.divide(more.sum(axis=0), total, out=np.zeros(len(centres)), where=total > 0.0)))
