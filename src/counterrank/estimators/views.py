"""`Views`: displayed sets of documents, each to be ranked by itself."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from counterrank.clicks._pages import sort_places
from counterrank.common.checks import FloatArray, IntArray, as_array, check_vector
from counterrank.common.errors import CounterrankError
from counterrank.data.ids import query_of
from counterrank.estimators._views import RANGE, TWICE, TWO_QUERIES, find_fault


class Views(NamedTuple):
    """Sets of documents of the data with a weight for each, made by `rerank`; no copies of features.

    Attributes:
        docs: the documents of one set after the other, as rows of the data.
        offsets: where each set begins in `docs`, and their length at the end. Sets stand in the order of their queries.
        weights: one for each entry of `docs`.
    """

    docs: IntArray
    offsets: IntArray
    weights: FloatArray

    @property
    def n_sets(self) -> int:
        """How many sets there are."""
        return len(self.offsets) - 1


def check_views(views: Views, data_offsets: IntArray, name: str = "views") -> Views:
    """Views that fit the data, the documents of each set in the order of the data.

    >>> check_views(Views([1, 0], [0, 2], [1, 0]), np.array([0, 2])).docs.tolist()
    [0, 1]
    """
    rows = _whole_numbers(views.docs, f"{name}.docs", "rows of the data")
    offsets = _whole_numbers(views.offsets, f"{name}.offsets", "where each set begins")
    weights = check_vector(views.weights, len(rows), f"{name}.weights", "entries of docs")
    if not len(rows) or len(offsets) < 2:
        raise CounterrankError(f"{name}: no sets; expected at least one, with at least one click")
    _check_bounds(offsets, len(rows), f"{name}.offsets")
    fault, place, ordered = find_fault(data_offsets, offsets, rows)
    if fault:
        raise CounterrankError(f"{name}: {_explain(fault, place, data_offsets, offsets, rows)}")
    if not ordered:
        rows, weights = rows.copy(), weights.copy()
        sort_places(offsets, rows, weights)
    return Views(rows, offsets, weights)


def _whole_numbers(values: Any, name: str, what: str) -> IntArray:
    given = as_array(values, name)
    if given.ndim != 1 or (len(given) and not np.issubdtype(given.dtype, np.integer)):
        raise CounterrankError(f"{name}: {given.dtype} of shape {given.shape}; expected {what}, one after another")
    return np.ascontiguousarray(given, dtype=np.int64)


def _check_bounds(offsets: IntArray, n: int, name: str) -> None:
    if offsets[0] != 0 or offsets[-1] != n:
        raise CounterrankError(
            f"{name}: from {offsets[0]} to {offsets[-1]}; expected 0 to {n}, the number of entries of docs"
        )
    filled = np.diff(offsets) > 0
    if not filled.all():
        at = int(np.argmin(filled))
        raise CounterrankError(
            f"{name}: set {at} goes from {offsets[at]} to {offsets[at + 1]}; expected at least one document in each"
        )


def _explain(fault: int, place: int, data_offsets: IntArray, offsets: IntArray, docs: IntArray) -> str:
    number = int(np.searchsorted(offsets, place, side="right")) - 1
    doc, first = docs[place], docs[offsets[number]]
    if fault == RANGE:
        return f"document {doc} in set {number}; expected rows of the data, 0 to {data_offsets[-1] - 1}"
    query = query_of([doc, first], data_offsets)
    if fault == TWICE:
        return f"document {doc} (of query {query[0]}) twice in set {number}; expected each once in a set"
    if fault == TWO_QUERIES:
        return f"set {number} holds documents of queries {query[1]} and {query[0]}; expected one query for each set"
    before = query_of(docs[offsets[number] - 1], data_offsets)
    return f"set {number} is of query {query[0]}, the one before it of query {before}; expected sets in query order"
