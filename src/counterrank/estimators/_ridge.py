"""Ridge regression of weighted rows by parts: all fits from one pass over the features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from counterrank.common.checks import Float32Array, FloatArray, IntArray

# of the mean square of a centred feature
PENALTIES = np.geomspace(1e-4, 1e3, 15)

_ROWS = 1 << 12  # at once, so that they stay in the cache


class Moments(NamedTuple):
    """Sums over the rows of each part, the last column being 1: all that a squared error needs."""

    products: FloatArray  # (parts, n + 1, n + 1), of weight * x x'
    targets: FloatArray  # (parts, n + 1), of weight * x y
    squares: FloatArray  # (parts,), of weight * y^2


def moments(features: Float32Array, targets: FloatArray, weights: FloatArray, parts: IntArray, n: int) -> Moments:
    """The moments of the rows of each of n parts; rows without weight tell nothing."""
    width = features.shape[1] + 1
    found = Moments(np.zeros((n, width, width)), np.zeros((n, width)), np.zeros(n))
    block = np.ones((_ROWS, width))
    told = np.flatnonzero(weights > 0.0)
    order = told[np.argsort(parts[told], kind="stable")]
    ends = np.searchsorted(parts[order], np.arange(n + 1))
    for part in range(n):
        for begin in range(ends[part], ends[part + 1], _ROWS):
            rows = order[begin : min(begin + _ROWS, ends[part + 1])]
            x, root = block[: len(rows)], np.sqrt(weights[rows])
            x[:, :-1] = features[rows]
            x[:, -1] = 1.0
            x *= root[:, None]  # half the work of a product with the weights between: x'x is symmetric
            y = root * targets[rows]
            found.products[part] += x.T @ x
            found.targets[part] += y @ x
            found.squares[part] += y @ y
    return found


class Fits:
    """Fits with all penalties, each made once: to hold out j where i is left out is the same as the reverse."""

    def __init__(self, own: Moments) -> None:
        self._own = own
        self._known: dict[tuple[int, ...], FloatArray] = {}

    def on(self, parts: IntArray) -> FloatArray:
        """Coefficients, the intercept last, from the rows of these parts; a row for each of `PENALTIES`."""
        key = tuple(parts.tolist())
        if key not in self._known:
            self._known[key] = _fits(self._own, parts)
        return self._known[key]

    def best(self, parts: IntArray) -> int:
        """The number of the penalty with the least error on each of these parts, fitted on the others.

        Of a single part the largest penalty.
        """
        told = parts[self._own.products[parts, -1, -1] > 0.0]
        if len(told) < 2:
            return len(PENALTIES) - 1
        return int(np.argmin(sum(errors(self._own, part, self.on(told[told != part])) for part in told)))


def _fits(own: Moments, parts: IntArray) -> FloatArray:
    products, targets = own.products[parts].sum(axis=0), own.targets[parts].sum(axis=0)
    total = products[-1, -1]
    if not total > 0.0:
        return np.zeros((len(PENALTIES), len(targets)))
    means, mean = products[-1, :-1] / total, targets[-1] / total
    centred = products[:-1, :-1] - total * np.outer(means, means)
    scale = np.trace(centred) / max(len(means), 1)
    wanted = targets[:-1] - total * mean * means
    slopes = np.empty((len(PENALTIES), len(means)))
    for i, penalty in enumerate(PENALTIES):
        penalised = centred.copy()
        penalised[np.diag_indices_from(penalised)] += penalty * scale + 1e-12 * total
        slopes[i] = np.linalg.solve(penalised, wanted)
    return np.column_stack((slopes, mean - slopes @ means))


def errors(own: Moments, part: int, coefficients: FloatArray) -> FloatArray:
    """The sum of weighted squared errors over the rows of a part, for each row of coefficients."""
    quadratic = ((coefficients @ own.products[part]) * coefficients).sum(axis=1)
    return np.asarray(own.squares[part] - 2.0 * coefficients @ own.targets[part] + quadratic)


def linear(features: Float32Array, coefficients: FloatArray, which: IntArray) -> FloatArray:
    """The value of each row by the row of `coefficients` that `which` names for it."""
    values = np.empty(len(features))
    for begin in range(0, len(features), _ROWS):
        rows = slice(begin, begin + _ROWS)
        all_values = features[rows] @ coefficients[:, :-1].T + coefficients[:, -1]
        values[rows] = np.take_along_axis(all_values, which[rows, None], axis=1)[:, 0]
    return values
