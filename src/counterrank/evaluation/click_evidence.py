"""What a log says about any ranker: clicks weighed by inverse propensities, summed up by query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.common.checks import FloatArray, IntArray, check_choice, check_vector
from counterrank.common.errors import CounterrankError
from counterrank.common.parallel import for_queries
from counterrank.data import RankingData
from counterrank.estimators.conditions import warn_if_contradicted, warn_unless_sometimes_seen
from counterrank.estimators.propensities import best_logged, capped_inverse, check_propensities, logged_propensities
from counterrank.evaluation import _click_kernels
from counterrank.evaluation._click_kernels import Cells, Pages
from counterrank.evaluation.metrics import rank_values
from counterrank.evaluation.weighted import prefix_sums


@dataclass(frozen=True, eq=False)
class WeighedClicks:
    """The clicks of a log, each with its weight 1 / propensity.

    Attributes:
        offsets: of the data.
        sessions: of each query.
        cells: the clicked ones.
        pages: whole pages; None if they were not kept, or a document was logged with several propensities.
        pages_kept: whether the log holds pages at all.
        rho: the propensity of each document; None if only those of clicks are known.
        noise: (e0, e1), or None to leave clicks as they are.
        effective_sample_size: Kish's, of the weights of the clicks.
        largest_share: of the sum of the weights, the largest that one click holds.
        threads: how many to use.
    """

    offsets: IntArray
    sessions: IntArray
    cells: Cells
    pages: Pages | None
    pages_kept: bool
    rho: FloatArray | None
    noise: tuple[float, float] | None
    effective_sample_size: float
    largest_share: float
    threads: int | None


@dataclass(frozen=True, eq=False)
class QuerySums:
    """Numerators and denominators of the estimates, one row for each query that was asked.

    Attributes:
        sessions: of the query.
        omega: the sum of the weights of its documents.
        terms: the sum of weight * lambda, a column for each metric or ranker.
    """

    sessions: FloatArray
    omega: FloatArray
    terms: FloatArray


def weigh_clicks(
    data: RankingData, clicks: ClickCounts, rho: ArrayLike | None, noise: Any, threads: int | None
) -> WeighedClicks:
    """Check everything and divide each click by its propensity, never clipped."""
    counts = check_counts(clicks)
    counts.check_data(data)
    if not counts.sessions.any():
        raise CounterrankError("clicks: no sessions; expected at least one result page that was shown")
    given = None if rho is None else check_propensities(rho, counts)
    corrected = _check_noise(noise, given)
    by_cell = logged_propensities(counts) if given is None else given[counts.docs]
    name = "propensities" if given is None else "rho"
    inverse = capped_inverse(by_cell, np.inf, counts, counts.clicks, counts.docs, counts.ranks, name)
    if given is not None:
        warn_if_contradicted(counts, given, "rho")
    warn_unless_sometimes_seen(counts, best_logged(counts, by_cell) if given is None else given, name)
    clicked = np.flatnonzero(counts.clicks)
    docs, weights, numbers = counts.docs[clicked], inverse[clicked], counts.clicks[clicked]
    bounds, impressions = np.searchsorted(docs, counts.offsets), counts.impressions[clicked]
    cells = Cells(bounds, docs, counts.ranks[clicked] - 1, impressions, numbers, weights)
    effective, largest = concentration(numbers, weights)
    return WeighedClicks(
        offsets=counts.offsets,
        sessions=counts.sessions,
        cells=cells,
        pages=_weighed_pages(counts, cells),
        pages_kept=counts.displays is not None,
        rho=given,
        noise=corrected,
        effective_sample_size=effective,
        largest_share=largest,
        threads=threads,
    )


def concentration(numbers: ArrayLike, weights: ArrayLike) -> tuple[float, float]:
    """How far the sum of weighted clicks hangs on a few of them.

        effective sample size = (sum of weights)^2 / sum of their squares   (Kish)
        largest share         = the largest weight / sum of weights

    Arguments:
        numbers: how many clicks have each weight; those of weights without a click may be 0.
        weights: of the clicks, not negative.

    Returns:
        both, (0.0, 0.0) if there is no click with a weight above 0.

    >>> concentration([6, 1], [1.0, 2.0])  # eight in all; 64 / (6 * 1 + 4), 2 / 8
    (6.4, 0.25)
    >>> concentration([], [])
    (0.0, 0.0)
    """
    times, each = np.asarray(numbers, np.float64), np.asarray(weights, np.float64)
    total = float((times * each).sum())
    if not total:
        return 0.0, 0.0
    return total**2 / float((times * each**2).sum()), float(each[times > 0].max()) / total


def _weighed_pages(counts: ClickCounts, cells: Cells) -> Pages | None:
    """The pages that were kept, where each document has one propensity: a page does not say which was logged for it."""
    pages = counts.displays
    inverse = np.zeros(counts.n_docs)
    inverse[cells.docs] = cells.inverse
    if pages is None or (inverse[cells.docs] != cells.inverse).any():
        return None
    bounds = np.searchsorted(pages.docs[pages.offsets[:-1]], counts.offsets)
    return Pages(bounds, pages.offsets, pages.docs, pages.sessions, pages.clicks, inverse)


def document_values(
    scores: ArrayLike, data: RankingData, metrics: Sequence[str], ties: str, threads: int | None, name: str = "scores"
) -> FloatArray:
    """lambda of each metric at the rank of each document: (n_docs, n_metrics)."""
    check_choice(ties, ("average", "order"), "ties")
    given = check_vector(scores, data.n_docs, name)
    longest = int(data.lengths.max())
    prefix = np.stack([prefix_sums(rank_values(metric, longest)) for metric in metrics])
    values = np.empty((data.n_docs, len(metrics)))
    kernel = _click_kernels.document_values
    for_queries(kernel, data.offsets, given, ties == "average", prefix, values, threads=threads)
    return values


def query_sums(weighed: WeighedClicks, values: FloatArray) -> QuerySums:
    """Sums of omega and of omega * lambda for each query that was asked, noise taken off if that was asked for.

    With noise=(e0, e1) the weight of a document that can be seen is (omega - e0 * sessions of its query) / (e1 - e0).
    """
    omega, terms = np.zeros(len(weighed.sessions)), np.zeros((len(weighed.sessions), values.shape[1]))
    options = {"threads": weighed.threads}
    for_queries(_click_kernels.query_sums, weighed.offsets, weighed.cells, values, omega, terms, **options)
    asked = weighed.sessions > 0
    sessions = weighed.sessions[asked].astype(np.float64)
    if weighed.noise is None:
        return QuerySums(sessions, omega[asked], terms[asked])
    e0, e1 = weighed.noise
    seen, seen_terms = np.zeros_like(omega), np.zeros_like(terms)
    kernel = _click_kernels.expected_noise
    for_queries(kernel, weighed.offsets, weighed.rho, values, seen, seen_terms, **options)
    omega -= e0 * weighed.sessions * seen
    terms -= e0 * weighed.sessions[:, None] * seen_terms
    return QuerySums(sessions, omega[asked] / (e1 - e0), terms[asked] / (e1 - e0))


def _check_noise(noise: Any, rho: FloatArray | None) -> tuple[float, float] | None:
    if noise is None:
        return None
    expected = "expected a pair (e0, e1), the chances of a click on an irrelevant and a relevant document, e0 < e1"
    if isinstance(noise, str) or not hasattr(noise, "__len__") or len(noise) != 2:
        raise CounterrankError(f"noise={noise!r}: {expected}")
    e0, e1 = (float(e) for e in check_vector(noise, 2, "noise", "chances"))
    if not 0.0 <= e0 < e1 <= 1.0:
        raise CounterrankError(f"noise={noise!r}: {expected}, both from 0 to 1")
    if rho is None:
        raise CounterrankError(
            "noise: needs rho, since logged propensities do not tell which documents that were never shown could have "
            "been; pass rho=policy.propensity(scores, offsets, exam)"
        )
    return e0, e1
