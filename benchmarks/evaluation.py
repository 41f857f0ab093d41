"""`evaluate` against the cost of sorting the scores, which any evaluation requires."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from benchmarks.timing import at_most, medians_in_turn
from counterrank.common.parallel import thread_count
from counterrank.common.ranking import rank_order
from counterrank.data import RankingData
from counterrank.estimators import full_information
from counterrank.evaluation import evaluate, weighted_metric


@njit(nogil=True)
def _argsort_queries(offsets, scores):
    """The plain version: a stable argsort for each query."""
    check = 0
    for q in range(len(offsets) - 1):
        check += np.argsort(-scores[offsets[q] : offsets[q + 1]], kind="mergesort")[0]
    return check


@njit(nogil=True)
def rank_queries(offsets, scores, longest):
    order, keys, spare = np.empty(longest, np.int64), np.empty(longest, np.int64), np.empty(longest, np.int64)
    check = 0
    for q in range(len(offsets) - 1):
        rank_order(scores[offsets[q] : offsets[q + 1]], order, keys, spare)
        check += order[0]
    return check


def run(data: RankingData, repeats: int = 5) -> list[dict[str, Any]]:
    """Rows of median seconds and their ratio to sorting the scores with our kernel on one thread."""
    rng = np.random.default_rng(0)
    scores = rng.standard_normal(data.n_docs)
    tied = np.round(scores)
    weights = full_information(data)
    dense = rng.exponential(size=data.n_docs) * (rng.random(data.n_docs) < 0.85)
    offsets, longest = data.offsets, int(data.lengths.max())
    five = ["arp", "dcg@5", "ndcg@5", "precision@5", "mrr"]
    threads = thread_count()
    cases: list[tuple[str, Callable[[], Any]]] = [
        ("sort the scores, rank_order", lambda: rank_queries(offsets, scores, longest)),
        ("sort the scores, numba argsort", lambda: _argsort_queries(offsets, scores)),
        ("evaluate, all metrics", lambda: evaluate(scores, data, threads=1)),
        ("evaluate, all metrics, many ties", lambda: evaluate(tied, data, threads=1)),
        ("evaluate, five metrics", lambda: evaluate(scores, data, metrics=five, threads=1)),
        (f"evaluate, all metrics, {threads} threads", lambda: evaluate(scores, data)),
        (
            "weighted dcg@5, weights from labels",
            lambda: weighted_metric(scores, weights, offsets, "dcg@5", threads=1),
        ),
        (
            "weighted dcg@5, 85 % weighted",
            lambda: weighted_metric(scores, dense, offsets, "dcg@5", threads=1),
        ),
    ]
    seconds = medians_in_turn([case for _, case in cases], repeats)
    return [at_most(name, taken, seconds[0], None) for (name, _), taken in zip(cases, seconds, strict=True)]
