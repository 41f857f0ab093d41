"""What `RankingData` asks of its arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.common.checks import Float32Array, IntArray, as_array, check_vector
from counterrank.common.errors import DataError
from counterrank.common.parallel import for_queries
from counterrank.data import _kernels
from counterrank.data.ids import first_repeat_in_query


def as_matrix(features: ArrayLike) -> Float32Array:
    """Features as a C-ordered float32 matrix with at least one column."""
    given = as_array(features, "features")
    if given.ndim != 2 or given.shape[1] < 1:
        raise DataError(f"features: shape {given.shape}; expected (documents, features) with at least one feature")
    if not np.issubdtype(given.dtype, np.number) or np.iscomplexobj(given):
        raise DataError(f"features: type {given.dtype}; expected real numbers")
    with np.errstate(over="ignore"):  # what overflows float32 is found by the check for finite values
        matrix = np.ascontiguousarray(given, dtype=np.float32)
    # what the caller could still change is copied, or the checks would mean nothing
    return matrix.copy() if matrix.flags.writeable and np.may_share_memory(matrix, given) else matrix


def as_labels(labels: ArrayLike, n_docs: int) -> Float32Array:
    """Labels as finite float32, one per document."""
    values = check_vector(labels, n_docs, "labels")
    with np.errstate(over="ignore"):
        small = values.astype(np.float32)
    if not np.isfinite(small).all():
        row = int(np.argmin(np.isfinite(small)))
        raise DataError(f"labels: entry {row} is {values[row]}; expected numbers that fit float32")
    return small


def check_finite(features: Float32Array, offsets: IntArray) -> None:
    """An error that names the first value that is not finite."""
    for row in for_queries(_kernels.first_bad_row, offsets, features):
        if row >= 0:
            column = int(np.flatnonzero(~np.isfinite(features[row]))[0])
            query = int(np.searchsorted(offsets, row, side="right")) - 1
            raise DataError(
                f"features: document {row - offsets[query]} of query {query} (row {row}) has "
                f"{features[row, column]} in column {column}; expected finite float32 numbers"
            )


def check_unique_queries(query_ids: NDArray[Any]) -> None:
    """An error that names the two queries that share an id."""
    values, counts = np.unique(query_ids, return_counts=True)
    if len(values) < len(query_ids):
        again = values[counts > 1][0]
        places = np.flatnonzero(query_ids == again)[:2].tolist()
        raise DataError(f"query_ids: {again!s} stands for queries {places[0]} and {places[1]}; expected unique ids")


def check_unique_documents(doc_ids: NDArray[Any], query_ids: NDArray[Any], offsets: IntArray) -> None:
    """An error that names the two rows of a query that share an id."""
    found = first_repeat_in_query(doc_ids, offsets)
    if found is not None:
        query, first, second = found
        raise DataError(
            f"doc_ids: document {doc_ids[first]!s} occurs twice in query {query_ids[query]!s} "
            f"(rows {first} and {second}); expected each document once per query"
        )
