"""The direct method: believe a model of relevance."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.common.checks import FloatArray
from counterrank.estimators.examinations import check_relevance


def direct(clicks: ClickCounts, relevance: ArrayLike) -> FloatArray:
    """The weight each document would have if the predicted relevance were right.

        omega(d) = n R(d)       n sessions of its query

    Clicks enter through the model alone, see `fit_relevance`. It is as biased as the model is wrong, however many
    clicks there are, and varies least.

    Arguments:
        clicks: what was shown and clicked.
        relevance: R, one number per document, such as `fit_relevance` gives.

    Returns:
        float64 weights, one per document of the data.

    >>> docs, ranks, shown, clicked = np.array([[0, 1], [1, 2], [10, 10], [5, 1]])
    >>> clicks = ClickCounts("", np.array([0, 2]), np.array([10]), docs, ranks, shown, clicked)
    >>> direct(clicks, relevance=[0.4, 0.1]).tolist()
    [4.0, 1.0]
    """
    counts = check_counts(clicks)
    sessions = np.repeat(counts.sessions, np.diff(counts.offsets)).astype(np.float64)
    weights: FloatArray = sessions * check_relevance(relevance, counts.n_docs)
    return weights
