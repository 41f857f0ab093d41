"""The linear model: a score is a weighted sum of scaled features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterrank.common.checks import FloatArray
from counterrank.common.parallel import for_queries
from counterrank.data import RankingData
from counterrank.models._linear import score_queries
from counterrank.models.scaling import Scaler, Scales


@dataclass(frozen=True)
class LinearModel:
    """Coefficients and the scaling they were learned with.

    >>> data = RankingData([[1.0], [3.0], [2.0]], [0, 3])
    >>> LinearModel(np.array([2.0]), Scaler.learn("query", data)).predict(data).tolist()
    [0.0, 2.0, 1.0]
    """

    coefficients: FloatArray
    scaler: Scaler

    def predict(self, data: RankingData, threads: int | None = None) -> FloatArray:
        """A score for each document."""
        return linear_scores(data, self.coefficients, self.scaler.scales(data, threads), threads)


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
