"""Weights from relevance labels: what an estimator would find if it knew everything."""

from __future__ import annotations

import numpy as np

from counterrank.common.checks import FloatArray, IntArray, check_choice, check_cutoff
from counterrank.data import RankingData
from counterrank.data.ids import query_of_rows
from counterrank.data.labels import exponential_gains, relevant_documents


def full_information(
    data: RankingData, relevance_threshold: float = 3, gain: str = "binary", *, ndcg_at: int | None = None
) -> FloatArray:
    """The weight of each document when relevance is known.

        omega = 1 if label >= relevance_threshold else 0      gain="binary", the paper's r(d)
        omega = 2**label - 1                                  gain="exponential", labels below 0 count as 0

    Training on these weights is supervised learning to rank. With `ndcg_at` each query's weights are divided by the
    DCG@k of its best ranking: sum(omega * D(rank)) up to rank k is then the query's NDCG@k, graded for the exponential
    gain, and queries with much that is relevant count no more than others. Clicks do not tell the best ranking, so no
    other estimator has this.

    Arguments:
        data: ranking data with labels.
        relevance_threshold: the smallest label of a relevant document; not used by the exponential gain.
        gain: "binary" or "exponential".
        ndcg_at: k, or None to leave the weights as they are.

    Returns:
        float64 weights, one per document. No relevant document anywhere is an error.

    >>> data = RankingData([[0.1], [0.2], [0.3]], offsets=[0, 3], labels=[0, 4, 2])
    >>> full_information(data, relevance_threshold=3)
    array([0., 1., 0.])
    >>> full_information(data, gain="exponential")
    array([ 0., 15.,  3.])
    >>> full_information(data, gain="exponential", ndcg_at=1)
    array([0. , 1. , 0.2])
    """
    check_choice(gain, ("binary", "exponential"), "gain")
    k = check_cutoff(ndcg_at, "ndcg_at")
    if gain == "binary":
        weights = relevant_documents(data, relevance_threshold).astype(np.float64)
    else:
        weights = exponential_gains(data)
    return weights if k is None else weights / _best_dcg(weights, data.offsets, k)


def _best_dcg(weights: FloatArray, offsets: IntArray, k: int) -> FloatArray:
    """For each document the DCG@k of its query's best ranking; 1 where nothing is relevant."""
    queries = query_of_rows(offsets)
    descending = np.lexsort((-weights, queries))
    ranks = np.arange(len(weights)) - offsets[queries] + 1
    discounts = np.where(ranks <= k, 1.0 / np.log2(1.0 + ranks), 0.0)
    best = np.add.reduceat(discounts * weights[descending], offsets[:-1])
    of_documents: FloatArray = np.where(best > 0.0, best, 1.0)[queries]
    return of_documents
