"""Choosing among rankers by clicks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import Examination
from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.errors import CounterrankError
from counterrank.data import RankingData
from counterrank.estimators.propensities import Propensities
from counterrank.evaluation.click_evidence import Method, QuerySums, document_values, query_sums, weigh_clicks
from counterrank.evaluation.held_out import check_held_out, scores_of
from counterrank.evaluation.intervals import Asked, resampled_queries
from counterrank.evaluation.judgement import Estimate, flagged, judge
from counterrank.evaluation.metrics import higher_is_better


@dataclass(frozen=True, eq=False)
class Selection:
    """The ranker that clicks speak for.

    Attributes:
        best: the ranker itself, as it was handed over.
        index: its place in the list.
        metric: by which they were judged.
        estimates: of all rankers, in the order of the list.
        stability: how often `best` would be chosen, as a share of resamples of the queries.
        shares: the same for each ranker; they sum to 1.
        in_sample: whether one of them was trained on these clicks, or stopped by them.
    """

    best: Any
    index: int
    metric: str
    estimates: tuple[Estimate, ...]
    stability: float
    shares: tuple[float, ...]
    in_sample: bool = False


def select(
    rankers: Sequence[Any],
    data: RankingData,
    clicks: ClickCounts,
    rho: ArrayLike | Propensities | None = None,
    metric: str = "dcg@5",
    *,
    target: str = "queries",
    confidence: float = 0.95,
    replicates: int = 2000,
    noise: tuple[float, float] | None = None,
    ties: str = "average",
    seed: int | np.random.Generator = 0,
    threads: int | None = None,
    method: str = "ips",
    relevance: ArrayLike | None = None,
    exam: ArrayLike | Examination | None = None,
    in_sample: bool = False,
) -> Selection:
    """The best of several rankers by a metric estimated from clicks; nothing is trained.

        best = argmax over rankers of sum(omega * lambda) / sum(omega)     (argmin for arp)

    omega comes from the clicks as in `estimate`, never clipped, so that the choice is not biased by a clip that suits
    one ranker. The first of equals is chosen. Clicks that one of them was trained on, or stopped by, are refused unless
    `in_sample` is given.

    Arguments:
        rankers: objects with `predict(data)`, or plain scores.
        data: what the clicks were counted against.
        clicks: what was shown and clicked.
        rho: the propensity of each document; None for those logged with the clicks.
        metric: "arp", "dcg", "dcg@k" or "precision@k".
        target, confidence, replicates, noise, ties, seed, threads: as in `estimate`; `stability` is over resamples of
            the queries for either target.
        method, relevance, exam, in_sample: as in `estimate`; omega is doubly robust for "dr".

    >>> import warnings
    >>> from counterrank.data.identity import identity
    >>> data = RankingData([[0.0], [0.0]], offsets=[0, 2])
    >>> docs, ranks, shown, clicked = np.array([[0, 1], [1, 2], [9, 9], [1, 6]])
    >>> clicks = ClickCounts(identity(data), data.offsets, np.array([9]), docs, ranks, shown, clicked)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # one query is far too few
    ...     chosen = select([[2.0, 1.0], [1.0, 2.0]], data, clicks, rho=[1.0, 0.5], metric="arp")
    >>> chosen.best, chosen.index, chosen.stability
    ([1.0, 2.0], 1, 1.0)
    """
    asked = Asked.checked(target, confidence, replicates, seed, threads)
    weighed = weigh_clicks(data, clicks, rho, noise, asked.threads, Method(method, relevance, exam))
    higher = higher_is_better(metric)
    all_scores = _all_scores(rankers, data)
    named = {f"ranker {i}": rankers[i] for i in range(len(rankers))}
    seen = check_held_out(named, data, clicks, target, in_sample)
    columns = [
        document_values(scores, data, [metric], ties, asked.threads, f"rankers: scores of number {i}")
        for i, scores in enumerate(all_scores)
    ]
    values = np.hstack(columns)
    sums = query_sums(weighed, values)
    if not sums.omega.sum() > 0.0:
        raise CounterrankError(
            f"clicks: the weights of all documents sum to {sums.omega.sum():g}, which tells nothing about any ranker; "
            "expected a sum above 0"
        )
    estimates = flagged(judge(weighed, values, [metric] * len(columns), asked), seen)
    index = int(_choices(sums.terms.sum(axis=0, keepdims=True), higher)[0])
    shares = _shares(sums, higher, asked)
    stability = float(shares[index])
    return Selection(rankers[index], index, metric, tuple(estimates), stability, tuple(shares.tolist()), seen)


def _all_scores(rankers: Any, data: RankingData) -> list[ArrayLike]:
    expected = "expected a list of rankers (objects with predict) or of scores"
    if (
        isinstance(rankers, str | bytes | dict)
        or not hasattr(rankers, "__len__")
        or not hasattr(rankers, "__getitem__")
    ):
        raise CounterrankError(f"rankers: {type(rankers).__name__}; {expected}")
    if not len(rankers):
        raise CounterrankError(f"rankers: the list is empty; {expected}, at least one")
    return [scores_of(rankers[i], data, f"rankers: number {i}") for i in range(len(rankers))]


def _choices(sums: FloatArray, higher: bool) -> IntArray:
    """The first of the best in each row; all have the same, positive denominator."""
    return np.asarray(np.argmax(sums if higher else -sums, axis=1))


def _shares(sums: QuerySums, higher: bool, asked: Asked) -> FloatArray:
    """How often each ranker is chosen; resamples whose weights sum to 0 or less tell nothing and are left out."""
    drawn = resampled_queries(np.column_stack([sums.terms, sums.omega]), asked)
    told = drawn[:, -1] > 0.0
    chosen = _choices(drawn[told, :-1], higher)
    return np.bincount(chosen, minlength=sums.terms.shape[1]) / max(len(chosen), 1)
