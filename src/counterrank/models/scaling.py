"""How raw features become what a model sees; part of the model, so that `predict` takes raw data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterrank.common.checks import Float32Array, FloatArray
from counterrank.common.parallel import for_queries
from counterrank.data import RankingData
from counterrank.data._kernels import query_scales, scale_queries
from counterrank.models._linear import column_sums, scale_rows

NORMALIZE = ("query", "standard", "none")


@dataclass(frozen=True)
class Scales:
    """x' = (x - low) * inverse: one row for each query of a data set, or one that all queries share."""

    low: FloatArray
    inverse: FloatArray
    shared: bool


@dataclass(frozen=True)
class Scaler:
    """A way to scale: "query" looks at each query by itself, "standard" keeps what it saw in training.

    >>> data = RankingData([[1.0], [3.0]], [0, 2])
    >>> Scaler.learn("query", data).scales(data).inverse.tolist()
    [[0.5]]
    """

    kind: str
    low: FloatArray
    inverse: FloatArray

    @classmethod
    def learn(cls, kind: str, data: RankingData, threads: int | None = None) -> Scaler:
        """What the training data tells: mean and deviation for "standard", nothing for the others."""
        if kind != "standard":
            return cls(kind, np.zeros(data.n_features), np.ones(data.n_features))
        mean = _mean(data, np.zeros(data.n_features), 1, threads)
        deviation = np.sqrt(_mean(data, mean, 2, threads))
        # a constant column has a deviation of nothing but rounding
        constant = deviation <= 1e-7 * np.abs(mean)
        return cls(kind, mean, np.where(constant, 0.0, 1.0 / np.where(constant, 1.0, deviation)))

    def scales(self, data: RankingData, threads: int | None = None) -> Scales:
        """The numbers to scale this data set with."""
        if self.kind != "query":
            return Scales(self.low[None, :], self.inverse[None, :], True)
        low = np.empty((data.n_queries, data.n_features))
        inverse = np.empty((data.n_queries, data.n_features))
        for_queries(query_scales, data.offsets, data.features, low, inverse, threads=threads)
        return Scales(low, inverse, False)

    def apply(self, data: RankingData, threads: int | None = None) -> Float32Array:
        """The scaled features as a matrix of their own; those of the data themselves where nothing is to be done.

        >>> data = RankingData([[1.0], [3.0], [2.0]], [0, 3])
        >>> Scaler.learn("query", data).apply(data).tolist()
        [[0.0], [1.0], [0.5]]
        """
        if self.kind == "none":
            return data.features
        scaled: Float32Array = np.empty_like(data.features)
        if self.kind == "query":
            for_queries(scale_queries, data.offsets, data.features, scaled, threads=threads)
        else:
            for_queries(scale_rows, data.offsets, data.features, self.low, self.inverse, scaled, threads=threads)
        return scaled


def _mean(data: RankingData, center: FloatArray, power: int, threads: int | None) -> FloatArray:
    sums = np.empty((data.n_queries, data.n_features))
    for_queries(column_sums, data.offsets, data.features, center, power, sums, threads=threads)
    mean: FloatArray = sums.sum(axis=0) / data.n_docs
    return mean
