"""Weights from relevance labels: what an estimator would find if it knew everything."""

from __future__ import annotations

import numpy as np

from counterrank.common.checks import FloatArray, check_choice
from counterrank.data import RankingData
from counterrank.data.labels import exponential_gains, relevant_documents


def full_information(data: RankingData, relevance_threshold: float = 3, gain: str = "binary") -> FloatArray:
    """The weight of each document when relevance is known.

        omega = 1 if label >= relevance_threshold else 0      gain="binary", the paper's r(d)
        omega = 2**label - 1                                  gain="exponential", labels below 0 count as 0

    Training on these weights is supervised learning to rank.

    Arguments:
        data: ranking data with labels.
        relevance_threshold: the smallest label of a relevant document; not used by the exponential gain.
        gain: "binary" or "exponential".

    Returns:
        float64 weights, one per document. No relevant document anywhere is an error.

    >>> data = RankingData([[0.1], [0.2], [0.3]], offsets=[0, 3], labels=[0, 4, 2])
    >>> full_information(data, relevance_threshold=3)
    array([0., 1., 0.])
    >>> full_information(data, gain="exponential")
    array([ 0., 15.,  3.])
    """
    check_choice(gain, ("binary", "exponential"), "gain")
    if gain == "binary":
        return relevant_documents(data, relevance_threshold).astype(np.float64)
    return exponential_gains(data)
