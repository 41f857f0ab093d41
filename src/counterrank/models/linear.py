"""The linear model: a score is a weighted sum of scaled features."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from counterrank.common.checks import FloatArray
from counterrank.common.parallel import for_queries
from counterrank.data import RankingData
from counterrank.models.linear_kernels import score_queries, squares_within
from counterrank.models.model import Scaler, Scales


@dataclass(frozen=True)
class LinearModel:
    """Coefficients and the scaling they were learned with.

    >>> data = RankingData([[1.0], [3.0], [2.0]], [0, 3])
    >>> LinearModel(np.array([2.0]), Scaler.learn("query", data)).predict(data).tolist()
    [0.0, 2.0, 1.0]
    """

    coefficients: FloatArray
    scaler: Scaler

    @property
    def n_features(self) -> int:
        """How many features a document has."""
        return len(self.coefficients)

    def predict(self, data: RankingData, threads: int | None = None) -> FloatArray:
        """A score for each document."""
        return linear_scores(data, self.coefficients, self.scaler.scales(data, threads), threads)

    def vectors(self) -> dict[str, FloatArray]:
        """The coefficients."""
        return {"coefficients": self.coefficients}

    def write(self, folder: Path) -> dict[str, Any]:
        """Nothing besides the coefficients."""
        return {}


def linear_importances(data: RankingData, coefficients: FloatArray, scales: Scales, threads: int) -> FloatArray:
    """How much each feature moves scores within a query: |coefficient| times the scaled feature's deviation there.

    What a feature adds to all documents of a query alike does not rank them, so it does not count.

    >>> data = RankingData([[1.0, 0.0], [3.0, 0.0]], [0, 2])
    >>> scales = Scaler.learn("none", data).scales(data)
    >>> linear_importances(data, np.array([-2.0, 1.0]), scales, 1).tolist()
    [2.0, 0.0]
    """
    squares = np.empty((data.n_queries, data.n_features))
    for_queries(
        squares_within, data.offsets, data.features, scales.inverse, scales.shared, squares, threads=threads
    )  # fmt: skip
    importances: FloatArray = np.abs(coefficients) * np.sqrt(squares.sum(axis=0) / data.n_docs)
    return importances


def linear_scores(
    data: RankingData, coefficients: FloatArray, scales: Scales, threads: int | None = None
) -> FloatArray:
    """Scores of a linear model whose scaling of this data is known already."""
    scores = np.empty(data.n_docs)
    for_queries(
        score_queries, data.offsets, data.features, coefficients, scales.low, scales.inverse, scales.shared, scores,
        threads=threads,
    )  # fmt: skip
    return scores
