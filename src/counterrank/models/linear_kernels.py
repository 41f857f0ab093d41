"""Kernels of the linear model: scaling, scores, and the gradient of its coefficients.

Scaled features are never stored. With x' = (x - low) * inverse, the score x'.w is x.(inverse * w) less a constant of
the query, and since every loss depends on score differences alone, the gradient for w is inverse * (X^T g).
"""

from __future__ import annotations

import numpy as np

from counterrank.common.jit import Array, exact_kernel, inner_kernel, kernel


@kernel
def column_sums(first: int, last: int, offsets: Array, features: Array, center: Array, power: int, out: Array) -> None:
    """Sum over the documents of each query of (x - center) or its square, per feature."""
    for q in range(first, last):
        out[q] = 0.0
        for row in range(offsets[q], offsets[q + 1]):
            for f in range(features.shape[1]):
                x = features[row, f] - center[f]
                out[q, f] += x if power == 1 else x * x


@kernel
def squares_within(
    first: int, last: int, offsets: Array, features: Array, inverse: Array, shared: bool, out: Array
) -> None:
    """For each query and feature, the sum of squares of the scaled feature around its mean in the query."""
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
            scale = inverse[0 if shared else q, f]
            out[q, f] *= scale * scale


@exact_kernel
def scale_rows(
    first: int, last: int, offsets: Array, features: Array, low: Array, inverse: Array, scaled: Array
) -> None:
    """(x - low) * inverse for all documents of the queries, with one scaling for all."""
    for row in range(offsets[first], offsets[last]):
        for f in range(features.shape[1]):
            scaled[row, f] = (features[row, f] - low[f]) * inverse[f]


@inner_kernel
def scaled_coefficients(coefficients: Array, low: Array, inverse: Array, scaled: Array) -> float:
    """inverse * w into `scaled`; returns the constant to take off every score."""
    constant = 0.0
    for f in range(len(coefficients)):
        scaled[f] = coefficients[f] * inverse[f]
        constant += scaled[f] * low[f]
    return constant


@inner_kernel
def score_rows(features: Array, scaled: Array, constant: float, scores: Array) -> None:
    """Scores of the documents of one query."""
    for row in range(len(features)):
        x = features[row]
        total = 0.0
        for f in range(len(scaled)):
            total += x[f] * scaled[f]
        scores[row] = total - constant


@inner_kernel
def gradient_of_rows(features: Array, slopes: Array, gradient: Array) -> None:
    """X^T g of one query into `gradient`, four documents at a time."""
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
    first: int,
    last: int,
    offsets: Array,
    features: Array,
    coefficients: Array,
    low: Array,
    inverse: Array,
    shared: bool,
    scores: Array,
) -> None:
    """Scores of all documents of the queries; with `shared`, row 0 of `low` and `inverse` serves every query."""
    scaled = np.empty(len(coefficients))
    for q in range(first, last):
        at = 0 if shared else q
        start, end = offsets[q], offsets[q + 1]
        constant = scaled_coefficients(coefficients, low[at], inverse[at], scaled)
        score_rows(features[start:end], scaled, constant, scores[start:end])
