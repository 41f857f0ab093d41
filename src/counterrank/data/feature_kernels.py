"""Kernels over the feature matrix. Each works on the queries `first:last` of `offsets`."""

from __future__ import annotations

import numpy as np

from counterrank.common.jit import Array, exact_inner_kernel, exact_kernel
from counterrank.common.random import mixed
from counterrank.common.ranking import longest_of

_LARGEST = np.finfo(np.float32).max


@exact_kernel
def first_bad_row(first: int, last: int, offsets: Array, features: Array) -> int:
    """The first row with a value that is not finite, or -1."""
    for row in range(offsets[first], offsets[last]):
        values = features[row]
        bad = 0
        for f in range(len(values)):
            bad += not abs(values[f]) <= _LARGEST  # true for NaN as well
        if bad:
            return row
    return -1


@exact_inner_kernel
def query_range(features: Array, start: int, end: int, low: Array, high: Array) -> None:
    """Smallest and largest value of every feature over the rows `start:end`."""
    # by hand, since for whole rows numba also compiles the text of an error about their shapes, which takes seconds
    for f in range(len(low)):
        low[f] = high[f] = features[start, f]
    for row in range(start + 1, end):
        values = features[row]
        for f in range(len(values)):
            low[f] = min(low[f], values[f])
            high[f] = max(high[f], values[f])


@exact_inner_kernel
def query_scale(features: Array, start: int, end: int, small: Array, large: Array, low: Array, inverse: Array) -> None:
    """Smallest value and 1 / (largest - smallest) of every feature, 0 for constant ones.

    `small` and `large` are float32 scratch.
    """
    query_range(features, start, end, small, large)
    for f in range(len(low)):
        low[f] = small[f]
        spread = np.float64(large[f]) - low[f]
        inverse[f] = 1.0 / spread if spread > 0.0 else 0.0


@exact_kernel
def query_scales(first: int, last: int, offsets: Array, features: Array, low: Array, inverse: Array) -> None:
    """`query_scale` of each query, one row each."""
    small, large = np.empty(features.shape[1], np.float32), np.empty(features.shape[1], np.float32)
    for q in range(first, last):
        query_scale(features, offsets[q], offsets[q + 1], small, large, low[q], inverse[q])


@exact_kernel
def scale_queries(first: int, last: int, offsets: Array, features: Array, out: Array) -> None:
    """Min-max scaling within each query; constant features become 0."""
    n_features = features.shape[1]
    small, large = np.empty(n_features, np.float32), np.empty(n_features, np.float32)
    low, inverse = np.empty(n_features), np.empty(n_features)
    for q in range(first, last):
        query_scale(features, offsets[q], offsets[q + 1], small, large, low, inverse)
        for row in range(offsets[q], offsets[q + 1]):
            for f in range(n_features):
                out[row, f] = (features[row, f] - low[f]) * inverse[f]


@exact_kernel
def constant_columns(first: int, last: int, offsets: Array, features: Array) -> Array:
    """The features f with x[i, f] = x[j, f] for all documents i, j of each query, in rising order."""
    count = features.shape[1]
    left = np.empty(count, np.int64)
    for f in range(count):
        left[f] = f
    for q in range(first, last):
        start, end = offsets[q], offsets[q + 1]
        kept = 0
        for i in range(count):
            f = left[i]
            row = start + 1
            while row < end and features[row, f] == features[start, f]:
                row += 1
            if row >= end:
                left[kept] = f
                kept += 1
        count = kept
        if count == 0:
            break
    return left[:count].copy()


@exact_kernel
def first_query_with_repeat(first: int, last: int, offsets: Array, codes: Array) -> int:
    """The first query in which a number of `codes` occurs twice, or -1."""
    rows = np.empty(4 * longest_of(first, last, offsets), np.int64)  # of one query, found by the hash of their codes
    for q in range(first, last):
        size = 1
        while size < 2 * (offsets[q + 1] - offsets[q]):
            size *= 2
        rows[:size] = -1
        for row in range(offsets[q], offsets[q + 1]):
            slot = np.int64(mixed(np.uint64(codes[row])) & np.uint64(size - 1))
            while rows[slot] >= 0:
                if codes[rows[slot]] == codes[row]:
                    return q
                slot = (slot + 1) % size
            rows[slot] = row
    return -1


@exact_kernel
def hash_texts(first: int, last: int, letters: Array, out: Array) -> None:
    """A hash of each row of code points; trailing zeros do not count, since they only pad shorter texts."""
    for row in range(first, last):
        found = np.uint64(0)
        for place in range(letters.shape[1]):
            if letters[row, place]:
                found = mixed(found + (np.uint64(place) << np.uint64(32)) + np.uint64(letters[row, place]))
        out[row] = found


@exact_kernel
def hash_queries(
    first: int, last: int, offsets: Array, bits: Array, factors: Array, documents: Array, queries: Array, out: Array
) -> None:
    """A hash of each query: its own id, and the ids and feature values of its documents in whatever order.

    Arguments:
        first, last, offsets: the queries.
        bits: the features as whole numbers of 32 bits; zeros do not count, with either sign.
        factors: an odd number for each feature.
        documents, queries: hashes of the ids.
        out: gets the hash of each query.
    """
    for q in range(first, last):
        total = np.uint64(0)
        for row in range(offsets[q], offsets[q + 1]):
            values = np.uint64(0)
            for f in range(len(factors)):
                word = np.uint64(bits[row, f])
                values += factors[f] * (word if word != np.uint64(0x80000000) else np.uint64(0))
            total += mixed(documents[row] ^ mixed(values))
        out[q] = mixed(total + queries[q])
