"""The linear model: a score is a weighted sum of scaled features.

Scaled features are never stored. With x' = (x - low) * inverse, the score x'.w is x.(inverse * w) less a constant of
the query, and since every loss depends on score differences alone, the gradient for w is inverse * (X^T g).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from counterrank.common.checks import FloatArray
from counterrank.common.jit import Array, exact_kernel, inner_kernel, kernel
from counterrank.common.parallel import for_queries
from counterrank.data import RankingData
from counterrank.data.features import refuse_missing
from counterrank.models.model import TREES_INSTEAD, Scaler, Scales


@inner_kernel
def scaled_coefficients(coefficients: Array, low: Array, inverse: Array, scaled: Array) -> float:
    """scaled = inverse * w; returns the constant low . scaled that is taken off every score."""
    constant = 0.0
    for f in range(len(coefficients)):
        scaled[f] = coefficients[f] * inverse[f]
        constant += scaled[f] * low[f]
    return constant


@inner_kernel
def score_rows(features: Array, scaled: Array, constant: float, scores: Array) -> None:
    """scores = X scaled - constant, of the documents of one query."""
    for row in range(len(features)):
        x = features[row]
        total = 0.0
        for f in range(len(scaled)):
            total += x[f] * scaled[f]
        scores[row] = total - constant


@inner_kernel
def gradient_of_rows(features: Array, slopes: Array, gradient: Array) -> None:
    """gradient = X^T g of one query, g being the slopes, four documents at a time."""
    n, n_features = features.shape
    gradient[:] = 0.0
    row = 0
    while row + 4 <= n:
        a, b, c, d = slopes[row], slopes[row + 1], slopes[row + 2], slopes[row + 3]
        xa, xb, xc, xd = features[row], features[row + 1], features[row + 2], features[row + 3]
        for f in range(n_features):
            gradient[f] += a * xa[f] + b * xb[f] + c * xc[f] + d * xd[f]
        row += 4
    while row < n:
        x = features[row]
        for f in range(n_features):
            gradient[f] += slopes[row] * x[f]
        row += 1


@kernel
def score_queries(
    first: int, last: int, offsets: Array, features: Array, coefficients: Array, scales: Scales, scores: Array
) -> None:
    """scores = X' w of all documents of the queries."""
    scaled = np.empty(len(coefficients))
    for q in range(first, last):
        at = 0 if scales.shared else q
        start, end = offsets[q], offsets[q + 1]
        constant = scaled_coefficients(coefficients, scales.low[at], scales.inverse[at], scaled)
        score_rows(features[start:end], scaled, constant, scores[start:end])


@kernel
def squares_within(first: int, last: int, offsets: Array, features: Array, scales: Scales, out: Array) -> None:
    """out[q, f] = sum over the documents of q of (x'_f - mean of x'_f in q)^2."""
    mean = np.empty(features.shape[1])
    for q in range(first, last):
        start, end = offsets[q], offsets[q + 1]
        mean[:] = 0.0
        for row in range(start, end):
            for f in range(len(mean)):
                mean[f] += features[row, f]
        for f in range(len(mean)):
            mean[f] /= end - start
        out[q] = 0.0
        for row in range(start, end):
            for f in range(len(mean)):
                x = features[row, f] - mean[f]
                out[q, f] += x * x
        for f in range(len(mean)):
            scale = scales.inverse[0 if scales.shared else q, f]
            out[q, f] *= scale * scale


@dataclass(frozen=True)
class LinearModel:
    """A linear model: coefficients and feature scaling.

    >>> data = RankingData([[1.0], [3.0], [2.0]], [0, 3])
    >>> LinearModel(np.array([2.0]), Scaler.learn("query", data)).predict(data).tolist()
    [0.0, 2.0, 1.0]
    """

    coefficients: FloatArray
    scaler: Scaler

    @property
    def n_features(self) -> int:
        """The number of features."""
        return len(self.coefficients)

    def predict(self, data: RankingData, threads: int | None = None) -> FloatArray:
        """A score for each document; missing values are an error."""
        refuse_missing(data, "a linear model", TREES_INSTEAD)
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
    importances: FloatArray = np.abs(coefficients) * deviations_within(data, scales, threads)
    return importances


def deviations_within(data: RankingData, scales: Scales, threads: int) -> FloatArray:
    """The standard deviation of each scaled feature within queries.

    >>> data = RankingData([[1.0, 0.0], [3.0, 0.0]], [0, 2])
    >>> deviations_within(data, Scaler.learn("none", data).scales(data), 1).tolist()
    [1.0, 0.0]
    """
    squares = np.empty((data.n_queries, data.n_features))
    for_queries(squares_within, data.offsets, data.features, scales, squares, threads=threads)
    deviations: FloatArray = np.sqrt(squares.sum(axis=0) / data.n_docs)
    return deviations


def linear_scores(
    data: RankingData, coefficients: FloatArray, scales: Scales, threads: int | None = None
) -> FloatArray:
    """Scores of a linear model whose scaling of this data is known."""
    scores = np.empty(data.n_docs)
    for_queries(score_queries, data.offsets, data.features, coefficients, scales, scores, threads=threads)
    return scores


@exact_kernel
def constant_columns(first: int, last: int, offsets: Array, features: Array) -> Array:
    """The features f with x[i, f] = x[j, f] for all documents i, j of each query, in rising order.

    Missing values are equal to each other and to no other value.
    """
    count = features.shape[1]
    left = np.empty(count, np.int64)
    for f in range(count):
        left[f] = f
    for q in range(first, last):
        start, end = offsets[q], offsets[q + 1]
        kept = 0
        for i in range(count):
            f = left[i]
            row, value = start + 1, features[start, f]
            is_missing = np.isnan(value)
            while row < end and (features[row, f] == value or (is_missing and np.isnan(features[row, f]))):
                row += 1
            if row >= end:
                left[kept] = f
                kept += 1
        count = kept
        if count == 0:
            break
    return left[:count].copy()
