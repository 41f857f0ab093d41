"""Propensities of an unknown policy from display frequencies: how often the log shows each document at each rank."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.examination import check_examination
from counterrank.clicks.policies.propensity import EstimatedPropensity
from counterrank.common.checks import FloatArray, IntArray, check_number
from counterrank.common.errors import CounterrankError
from counterrank.common.jit import Array, exact_inner_kernel, exact_kernel

# --- kernels


# Smoothing is looked for between these; at the low end frequencies are left as they are, at the high end all
# documents of a query are shown equally often.
LEAST, MOST = 1e-3, 1e7
_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)
_STEPS = 60


@exact_kernel
def log_evidence(smoothing: float, shown: Array, candidates: Array, pages: Array) -> float:
    """log P(the documents shown at one rank | smoothing), for chances drawn from a symmetric Dirichlet distribution.

        sum over queries of  lgamma(m) - lgamma(m + n)  +  sum over documents of  lgamma(m / N + c) - lgamma(m / N)

    Arguments:
        smoothing: m, the sum of the Dirichlet parameters of a query.
        shown: c, how often each document was shown at the rank, those shown at least once.
        candidates: N, the number of documents of its query.
        pages: n, how many pages of each query have this rank.

    >>> import numpy as np
    >>> one = np.array([1])  # two candidates, one page: both are equally likely
    >>> round(math.exp(log_evidence(3.0, one, np.array([2]), one)), 6)
    0.5
    """
    total = 0.0
    for i in range(len(shown)):
        own = smoothing / candidates[i]
        total += math.lgamma(own + shown[i]) - math.lgamma(own)
    for i in range(len(pages)):
        total += math.lgamma(smoothing) - math.lgamma(smoothing + pages[i])
    return total


@exact_kernel
def best_smoothing(shown: Array, candidates: Array, pages: Array) -> float:
    """The smoothing of the largest `log_evidence`: by golden section over its logarithm."""
    low, high = math.log(LEAST), math.log(MOST)
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left = log_evidence(math.exp(left), shown, candidates, pages)
    at_right = log_evidence(math.exp(right), shown, candidates, pages)
    for _ in range(_STEPS):
        if at_left >= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = log_evidence(math.exp(left), shown, candidates, pages)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = log_evidence(math.exp(right), shown, candidates, pages)
    return math.exp(0.5 * (low + high))


@exact_inner_kernel
def _divergence(found: float, true: float) -> float:
    """KL(found || true) = f log(f / t) + (1 - f) log((1 - f) / (1 - t)) of two coins, 0 < true <= found <= 1."""
    rest = (1.0 - found) * math.log((1.0 - found) / (1.0 - true)) if found < 1.0 else 0.0
    return found * math.log(found / true) + rest


@exact_kernel
def lower_bounds(means: Array, largest: Array, n: Array, allowed: float, out: Array) -> None:
    """Fill `out` with the smallest r for which n KL(mean / largest || r / largest) <= allowed; 0 for a mean of 0."""
    for i in range(len(means)):
        if means[i] <= 0.0:
            out[i] = 0.0
            continue
        found = min(means[i] / largest[i], 1.0)
        low, high = -750.0, math.log(found)  # by its logarithm: bounds of rare documents are tiny
        for _ in range(64):
            middle = 0.5 * (low + high)
            if n[i] * _divergence(found, math.exp(middle)) > allowed:
                low = middle
            else:
                high = middle
        out[i] = largest[i] * math.exp(high)


# --- propensities


AUTO = "auto"


@dataclass(frozen=True, eq=False)
class LogPropensity(EstimatedPropensity):
    """Propensities from the pages of a log.

    Attributes:
        propensities: P(examined | query, policy), one per document; 0 for those that were never shown.
        standard_errors: of each of them; nan where the log holds no information: documents never shown, and without
            smoothing those of queries with one session. 0 for a document at one rank on every page, however few.
        samples: how many pages the log has, all queries together.
        lower: a lower confidence bound of each propensity; None without `confidence`.
        never_shown: how many documents of logged queries are on no page. They have propensity 0 here, since
            the log cannot separate candidates that are shown rarely from those never shown.
        smoothing: imaginary sessions that were added to each query, by rank from 1.
    """

    lower: FloatArray | None
    never_shown: int
    smoothing: FloatArray


def propensity_from_log(
    clicks: ClickCounts, exam: Any, *, smoothing: float | str = 0.0, confidence: float | None = None
) -> LogPropensity:
    """P(examined) of each document by the display frequencies of the log, for an unknown policy.

        rho(d) = sum over ranks j of theta_j p_j(d),
        p_j(d) = (shown(d, j) + m_j pages(q, j) / pages(q) / N) / (pages(q) + m_j)

    With m = 0, p is the display frequency. Then policy-aware weights on the same log are unbiased given its pages for
    each document that was shown: impressions and clicks err together. What is lost are the documents that were not
    shown, and with few sessions per query that is most of them: those that happened to be shown have far larger
    frequencies than probabilities. Smoothing takes m_j sessions of a policy that shows each of the N candidates
    equally often at rank j as known beforehand. "auto" finds for each rank the m_j under which the log is most likely
    (p_j drawn from a symmetric Dirichlet distribution, Minka 2000): next to 0 where each query has a fixed document at
    the rank, large where any document may be there. It needs queries with several sessions.

    Arguments:
        clicks: what was shown.
        exam: how likely each rank is examined.
        smoothing: m for all ranks, 0 or more, or "auto".
        confidence: of a lower bound on each propensity, such as 0.95; without smoothing only. It is the smallest
            probability r under which a mean as large as rho is not too unlikely (Hoeffding 1963, theorem 1),
            pages(q) KL(rho / theta || r / theta) <= -log(1 - confidence) with the largest theta at which d was shown.
            That theta is read off the same log, so it is a rule of thumb and no theorem. It shows how large the weight
            of a click may truly be. Do not train on it: it is furthest below for the documents that were shown least,
            and clicks on them then outweigh all others.

    Returns:
        propensities with standard errors, those of the Dirichlet distribution of p given the log.

    >>> docs, ranks, shown, clicked = np.array([[0, 1, 2], [1, 2, 2], [10, 8, 2], [3, 2, 1]])
    >>> clicks = ClickCounts("", np.array([0, 4]), np.array([10]), docs, ranks, shown, clicked)
    >>> found = propensity_from_log(clicks, [1.0, 0.5], confidence=0.95)
    >>> found.propensities.tolist(), found.never_shown
    ([1.0, 0.4, 0.1, 0.0], 1)
    >>> found.lower.round(2).tolist()
    [0.74, 0.21, 0.01, 0.0]
    >>> propensity_from_log(clicks, [1.0, 0.5], smoothing=10).propensities.round(3).tolist()
    [0.688, 0.388, 0.238, 0.0]
    """
    counts, level = check_counts(clicks), confidence
    if level is not None:
        level = check_number(level, "confidence", at_least=0.5, below=1, also=", such as 0.95, or None")
    added = _check_smoothing(counts, smoothing)
    if level is not None and added.any():
        raise CounterrankError(
            "smoothing: given together with confidence; expected one of them, bounds are of frequencies"
        )
    theta = check_examination(exam).curve(len(added))
    shown = counts.by_document(counts.impressions) > 0.0
    lengths = np.diff(counts.offsets)
    # p is linear in the impressions, and so are both sums over ranks: of theta p, and of what the variance needs
    total = counts.sessions[:, None] + added
    spread = theta / np.sqrt(total + 1.0)
    curves = (np.broadcast_to(theta, total.shape), spread, spread**2)
    rho, mean, square = (_by_document(counts, values, total, added, lengths) for values in curves)
    rho = np.where(shown, np.minimum(rho, 1.0), 0.0)
    known = shown & (np.repeat(counts.sessions + added.max(), lengths) > 1.0)
    lower = None
    if level is not None:
        lower = np.zeros(counts.n_docs)
        pages = np.repeat(counts.sessions, lengths)
        lower_bounds(rho, _largest(counts, theta), pages, -np.log1p(-level), lower)
    logged = np.repeat(counts.sessions > 0, lengths)
    return LogPropensity(
        propensities=rho,
        standard_errors=np.where(known, np.sqrt(np.maximum(square - mean**2, 0.0)), np.nan),
        samples=counts.n_sessions,
        lower=lower,
        never_shown=int(np.count_nonzero(logged & ~shown)),
        smoothing=added,
    )


def _by_document(
    clicks: ClickCounts, values: FloatArray, total: FloatArray, added: FloatArray, lengths: IntArray
) -> FloatArray:
    """sum over ranks j of values(q, j) p_j(d); `total` is pages(q) + m_j."""
    queries, ranks = clicks.queries(), clicks.ranks - 1
    weights = np.divide(values, total, out=np.zeros(total.shape), where=total > 0.0)
    seen = clicks.by_document(clicks.impressions * weights[queries, ranks])
    if not added.any():
        return seen
    pages = _pages_by_rank(clicks, len(added)) / np.maximum(clicks.sessions, 1)[:, None]
    prior: FloatArray = (weights * added * pages).sum(axis=1) / lengths
    return seen + np.repeat(prior, lengths)


def _pages_by_rank(clicks: ClickCounts, depth: int) -> FloatArray:
    """How many pages of each query have something at each rank, (n_queries, depth)."""
    at = clicks.queries() * depth + clicks.ranks - 1
    counts = np.bincount(at, weights=clicks.impressions, minlength=clicks.n_queries * depth)
    return np.asarray(counts, np.float64).reshape(clicks.n_queries, depth)


def _largest(clicks: ClickCounts, theta: FloatArray) -> FloatArray:
    """The largest theta at which each document was shown; 0 if nowhere."""
    found = np.zeros(clicks.n_docs)
    np.maximum.at(found, clicks.docs, theta[clicks.ranks - 1])
    return found


def _check_smoothing(clicks: ClickCounts, smoothing: Any) -> FloatArray:
    """Imaginary sessions by rank, to the lowest rank of the log."""
    depth = int(clicks.ranks.max(initial=1))
    if isinstance(smoothing, str) and smoothing == AUTO:
        clicks.check_candidates()
        return _fit_smoothing(clicks, depth)
    value = check_number(smoothing, "smoothing", at_least=0, also=' (sessions), or "auto"')
    if value > 0.0:
        clicks.check_candidates()
    return np.full(depth, value)


def _fit_smoothing(clicks: ClickCounts, depth: int) -> FloatArray:
    if not (clicks.sessions > 1).any():
        raise CounterrankError(
            'smoothing="auto": no query has several sessions, so the log does not show how much its pages differ; '
            "give a number, or see policies.fit_plackett_luce"
        )
    first = np.concatenate(([True], (np.diff(clicks.docs) != 0) | (np.diff(clicks.ranks) != 0)))
    starts = np.flatnonzero(first)  # cells of several policies come together
    shown, ranks = np.add.reduceat(clicks.impressions, starts), clicks.ranks[starts]
    lengths = np.diff(clicks.offsets)
    candidates = lengths[clicks.queries()[starts]]
    pages = _pages_by_rank(clicks, depth).astype(np.int64)
    found = np.empty(depth)
    for rank in range(depth):
        own, logged = ranks == rank + 1, pages[:, rank] > 0
        found[rank] = best_smoothing(shown[own], candidates[own], pages[logged, rank])
    return found
