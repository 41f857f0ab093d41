"""Kernels over the feature matrix. Each works on the queries `first:last` of `offsets`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]


@njit(nogil=True, cache=True)
def first_bad_row(first: int, last: int, offsets: Array, features: Array) -> int:
    """The first row with a value that is not finite, or -1."""
    for row in range(offsets[first], offsets[last]):
        values = features[row]
        suspect = np.float32(0.0)
        for f in range(len(values)):
            suspect += values[f] * np.float32(0.0)  # nan unless all are finite
        if suspect != 0.0:
            return row
    return -1


@njit(nogil=True, cache=True)
def query_range(features: Array, start: int, end: int, low: Array, high: Array) -> None:
    """Smallest and largest value of every feature over the rows `start:end`."""
    low[:] = features[start]
    high[:] = features[start]
    for row in range(start + 1, end):
        values = features[row]
        for f in range(len(values)):
            low[f] = min(low[f], values[f])
            high[f] = max(high[f], values[f])


@njit(nogil=True, cache=True)
def scale_queries(first: int, last: int, offsets: Array, features: Array, out: Array) -> None:
    """Min-max scaling within each query; constant features become 0."""
    n_features = features.shape[1]
    low = np.empty(n_features, np.float32)
    high = np.empty(n_features, np.float32)
    factor = np.empty(n_features, np.float64)
    for q in range(first, last):
        query_range(features, offsets[q], offsets[q + 1], low, high)
        for f in range(n_features):
            spread = np.float64(high[f]) - np.float64(low[f])
            factor[f] = 1.0 / spread if spread > 0.0 else 0.0
        for row in range(offsets[q], offsets[q + 1]):
            for f in range(n_features):
                out[row, f] = (np.float64(features[row, f]) - np.float64(low[f])) * factor[f]


@njit(nogil=True, cache=True)
def first_query_with_repeat(first: int, last: int, offsets: Array, codes: Array) -> int:
    """The first query in which a number of `codes` occurs twice, or -1."""
    for q in range(first, last):
        ordered = np.sort(codes[offsets[q] : offsets[q + 1]])
        for i in range(1, len(ordered)):
            if ordered[i] == ordered[i - 1]:
                return q
    return -1
