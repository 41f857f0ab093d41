"""Ridge regression of weighted rows by folds: all fits from one pass over the features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from counterrank.common.checks import Float32Array, FloatArray, IntArray

# of the mean square of a centred feature
PENALTIES = np.geomspace(1e-4, 1e3, 15)

_ROWS = 1 << 15  # at once


class Moments(NamedTuple):
    """Sums over the rows of each fold, the last column being 1: all that a squared error needs."""

    products: FloatArray  # (folds, n + 1, n + 1), of weight * x x'
    targets: FloatArray  # (folds, n + 1), of weight * x y
    squares: FloatArray  # (folds,), of weight * y^2


def moments(features: Float32Array, targets: FloatArray, weights: FloatArray, folds: IntArray, n: int) -> Moments:
    """The moments of the rows of each of n folds; rows without weight tell nothing."""
    width = features.shape[1] + 1
    found = Moments(np.zeros((n, width, width)), np.zeros((n, width)), np.zeros(n))
    for fold in range(n):
        rows = np.flatnonzero((folds == fold) & (weights > 0.0))
        for begin in range(0, len(rows), _ROWS):
            part = rows[begin : begin + _ROWS]
            x = np.ones((len(part), width))
            x[:, :-1] = features[part]
            weighed = x * weights[part, None]
            found.products[fold] += weighed.T @ x
            found.targets[fold] += weighed.T @ targets[part]
            found.squares[fold] += weights[part] @ targets[part] ** 2
    return found


def fit(own: Moments, folds: IntArray, penalty: float) -> FloatArray:
    """Coefficients, the intercept last, from the rows of these folds."""
    products, targets = own.products[folds].sum(axis=0), own.targets[folds].sum(axis=0)
    total = products[-1, -1]
    if not total > 0.0:
        return np.zeros(len(targets))
    means, mean = products[-1, :-1] / total, targets[-1] / total
    centred = products[:-1, :-1] - total * np.outer(means, means)
    scale = np.trace(centred) / max(len(means), 1)
    centred[np.diag_indices_from(centred)] += penalty * scale + 1e-12 * total
    slopes = np.linalg.solve(centred, targets[:-1] - total * mean * means)
    return np.append(slopes, mean - slopes @ means)


def error(own: Moments, fold: int, coefficients: FloatArray) -> float:
    """The sum of weighted squared errors over the rows of a fold."""
    products, targets = own.products[fold], own.targets[fold]
    return float(own.squares[fold] - 2.0 * coefficients @ targets + coefficients @ products @ coefficients)


def held_out_errors(own: Moments, folds: IntArray) -> FloatArray:
    """For each penalty the sum of errors on each of these folds, fitted on the others of them."""
    errors = np.zeros(len(PENALTIES))
    for fold in folds:
        others = folds[folds != fold]
        errors += [error(own, fold, fit(own, others, penalty)) for penalty in PENALTIES]
    return errors
