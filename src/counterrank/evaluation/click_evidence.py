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
from counterrank.estimators.conditions import warn_unless_sometimes_seen
from counterrank.estimators.propensities import capped_inverse, check_propensities, logged_propensities
from counterrank.evaluation import _click_kernels
from counterrank.evaluation._click_kernels import Cells
from counterrank.evaluation.metrics import rank_values
from counterrank.evaluation.weighted import prefix_sums


@dataclass(frozen=True, eq=False)
class Evidence:
    """The clicks of a log, each with its weight 1 / propensity.

    Attributes:
        offsets: of the data.
        sessions: of each query.
        cells: the clicked ones.
        rho: the propensity of each document; None if only those of clicks are known.
        noise: (e0, e1), or None to leave clicks as they are.
        effective_sample_size: Kish's, of the weights of the clicks.
        largest_share: of the sum of the weights, the largest that one click holds.
        threads: how many to use.
    """

    offsets: IntArray
    sessions: IntArray
    cells: Cells
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
) -> Evidence:
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
        warn_unless_sometimes_seen(counts, given, "rho")
    clicked = np.flatnonzero(counts.clicks)
    docs, weights, numbers = counts.docs[clicked], inverse[clicked], counts.clicks[clicked]
    cells = Cells(np.searchsorted(docs, counts.offsets), docs, counts.ranks[clicked] - 1, numbers, weights)
    total, squares = float((numbers * weights).sum()), float((numbers * weights**2).sum())
    return Evidence(
        offsets=counts.offsets,
        sessions=counts.sessions,
        cells=cells,
        rho=given,
        noise=corrected,
        effective_sample_size=total**2 / squares if squares else 0.0,
        largest_share=float(weights.max()) / total if total else 0.0,
        threads=threads,
    )


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


def query_sums(evidence: Evidence, values: FloatArray) -> QuerySums:
    """Sums of omega and of omega * lambda for each query that was asked, noise taken off if that was asked for.

    With noise=(e0, e1) the weight of a document that can be seen is (omega - e0 * sessions of its query) / (e1 - e0).
    """
    omega, terms = np.zeros(len(evidence.sessions)), np.zeros((len(evidence.sessions), values.shape[1]))
    options = {"threads": evidence.threads}
    for_queries(_click_kernels.query_sums, evidence.offsets, evidence.cells, values, omega, terms, **options)
    asked = evidence.sessions > 0
    sessions = evidence.sessions[asked].astype(np.float64)
    if evidence.noise is None:
        return QuerySums(sessions, omega[asked], terms[asked])
    e0, e1 = evidence.noise
    seen, seen_terms = np.zeros_like(omega), np.zeros_like(terms)
    kernel = _click_kernels.expected_noise
    for_queries(kernel, evidence.offsets, evidence.rho, values, seen, seen_terms, **options)
    omega -= e0 * evidence.sessions * seen
    terms -= e0 * evidence.sessions[:, None] * seen_terms
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
