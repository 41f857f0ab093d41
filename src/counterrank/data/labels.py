"""Labels as relevance: which documents are relevant, the gain of each, and what labels must be for it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.common.checks import Float32Array, FloatArray, check_type, is_real
from counterrank.common.errors import CounterrankError, DataError, brief
from counterrank.data.ranking_data import RankingData

LARGEST_LABEL = 1000.0  # 2**1000 still leaves room for a sum; 2**1024 is infinite


def relevant_documents(data: RankingData, relevance_threshold: float = 3) -> NDArray[np.bool_]:
    """Which documents are relevant: label >= relevance_threshold. If no document is, an error is raised.

    Labels are float32, so the threshold is rounded to float32 too: 0.7 reaches a threshold of 0.7.

    >>> data = RankingData([[0.1], [0.2]], offsets=[0, 2], labels=[0.2, 0.7])
    >>> relevant_documents(data, 0.7)
    array([False,  True])
    """
    labels = check_labels(data)
    relevant: NDArray[np.bool_] = labels >= check_threshold(relevance_threshold)
    if not relevant.any():
        largest = labels.max()
        raise DataError(
            f"relevance_threshold={relevance_threshold:g}: no document is relevant, the largest label is "
            f"{largest:g}; expected a threshold that some label reaches, such as {largest:g}"
        )
    return relevant


def exponential_gains(data: RankingData) -> FloatArray:
    """The gain 2**label - 1 of each document; labels below 0 count as 0. No label above 0 is an error.

    >>> exponential_gains(RankingData([[0.1], [0.2], [0.3]], offsets=[0, 3], labels=[-1, 1, 2]))
    array([0., 1., 3.])
    """
    labels = check_gain_labels(data)
    gains: FloatArray = np.exp2(np.maximum(labels, 0), dtype=np.float64) - 1.0
    return gains


def check_labels(data: RankingData) -> Float32Array:
    """The labels of the data, or an error that says what is missing."""
    check_type(data, RankingData, "data")
    if data.labels is None:
        raise DataError("data: has no labels; expected ranking data with a relevance label per document")
    return data.labels


def check_gain_labels(data: RankingData) -> Float32Array:
    """Labels from which 2**label - 1 can be computed, at least one of them above 0."""
    labels = check_labels(data)
    largest = labels.max()
    if largest > LARGEST_LABEL:
        raise DataError(
            f"labels: document {np.argmax(labels)} has label {largest:g}; expected at most {LARGEST_LABEL:g} "
            "for the gain 2**label - 1"
        )
    if largest <= 0:
        raise DataError(f"labels: the largest is {largest:g}, so every gain 2**label - 1 is 0; expected one above 0")
    return labels


def check_threshold(value: Any) -> np.float32:
    """A finite relevance threshold as float32, the type of labels."""
    if not is_real(value):
        raise CounterrankError(f"relevance_threshold={brief(value)}: expected a number")
    with np.errstate(over="ignore"):
        threshold = np.float32(value)
    if not np.isfinite(threshold):
        raise CounterrankError(f"relevance_threshold={brief(value)}: expected a finite number")
    return threshold
