"""Features by name, missing values, and scaling within queries."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.common.checks import Float32Array, IntArray, as_array
from counterrank.common.errors import DataError, brief, did_you_mean, listed, printable
from counterrank.common.jit import Array, exact_inner_kernel, exact_kernel
from counterrank.common.parallel import for_queries
from counterrank.data.ids import query_of

if TYPE_CHECKING:
    from counterrank.data.ranking_data import RankingData

_BLOCK = 1 << 16  # rows looked at at once
_LARGEST = np.finfo(np.float32).max


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


def check_finite(features: Float32Array, offsets: IntArray) -> None:
    """An error that names the first infinite value."""
    for row in for_queries(first_bad_row, offsets, features):
        if row >= 0:
            column = int(np.flatnonzero(np.isinf(features[row]))[0])
            query = int(np.searchsorted(offsets, row, side="right")) - 1
            raise DataError(
                f"features: document {row - offsets[query]} of query {query} (row {row}) has "
                f"{features[row, column]} in column {column}; expected finite float32 numbers"
            )


def check_feature_names(names: Sequence[str], n_features: int, what: str = "feature_names") -> tuple[str, ...]:
    """Names of all features, texts that are all different; `what` is the argument that errors name.

    >>> check_feature_names(["price", "price"], 2)
    Traceback (most recent call last):
    ...
    counterrank.common.errors.DataError: feature_names: 'price' twice; expected different names
    """
    found = tuple(str(name) if isinstance(name, str) else name for name in names)
    for name in found:
        if not isinstance(name, str) or not name:
            raise DataError(f"{what}: {brief(name)}; expected texts")
    if len(found) != n_features:
        raise DataError(f"{what}: {len(found)} names; expected {n_features}, one for each feature")
    if len(set(found)) < len(found):
        again = next(name for i, name in enumerate(found) if name in found[:i])
        raise DataError(f"{what}: {again!r} twice; expected different names")
    return found


def align_features(
    data: RankingData,
    names: Sequence[str],
    has_names: bool,
    *,
    what: str = "data",
    reference: str = "the ranker",
    number: str | None = None,
    warn: bool = True,
) -> RankingData:
    """The data with the features that something was trained on, in that order.

    The same names in another order are reordered; missing or unknown names are an error. Where only one of the two has
    names, features are taken by position: their number must agree, and a warning says so.

    Arguments:
        data: the data to align.
        names: of the features it should have, `feature_1` and so on where none were given.
        has_names: whether they were given.
        what: the argument that errors name.
        reference: what has these features, in messages.
        number: what an error expects where the number of features is wrong.
        warn: whether to warn where features are taken by position.

    >>> from counterrank import RankingData
    >>> data = RankingData([[1.0, 2.0]], [0, 1], feature_names=["price", "rating"])
    >>> align_features(data, ["rating", "price"], True).features.tolist()
    [[2.0, 1.0]]
    >>> align_features(data, ["rating", "stock"], True)
    Traceback (most recent call last):
    ...
    counterrank.common.errors.DataError: data: lacks feature 'stock' of the ranker; has 'price', unknown to the \
ranker; expected the same names (rename or add columns)
    """
    own, given = tuple(names), data.feature_names
    if own == given:
        return data
    if len(own) == len(given) and set(own) == set(given):
        return data.select_features(own)
    if has_names and data.has_feature_names:
        raise DataError(_difference(own, given, what, reference))
    if len(own) != len(given):
        raise DataError(f"{what}: {len(given)} features; {number or f'expected {len(own)}, as {reference} has'}")
    if warn:
        named, unnamed = (reference, what) if has_names else (what, reference)
        warnings.warn(
            f"{what}: {named} has names of features and {unnamed} has none, so they are taken by position; give both "
            "the same names to have them checked",
            stacklevel=3,
        )
    return data


def _difference(own: Sequence[str], given: Sequence[str], what: str, reference: str) -> str:
    missing = [name for name in own if name not in set(given)]
    unknown = [name for name in given if name not in set(own)]
    parts = []
    if missing:
        parts.append(f"lacks feature{'s' if len(missing) > 1 else ''} {listed(missing)} of {reference}")
    if unknown:
        parts.append(f"has {listed(unknown)}, unknown to {reference}")
    hint = next(filter(None, (did_you_mean(name, missing) for name in unknown)), "")
    remedy = "rename or add columns" if missing else "data.select_features leaves others out"
    return f"{what}: {'; '.join(parts)}; expected the same names ({remedy}){hint}"


def missing_columns(data: RankingData) -> NDArray[np.int64]:
    """The features, counted from 0, that are missing for some document.

    >>> from counterrank import RankingData
    >>> missing_columns(RankingData([[1.0, float("nan")], [2.0, 3.0]], [0, 2])).tolist()
    [1]
    """
    if not data.n_missing:
        return np.empty(0, np.int64)
    return np.flatnonzero(present_counts(data) < data.n_docs)


def present_counts(data: RankingData) -> NDArray[np.int64]:
    """For each feature the number of documents for which it is not missing.

    >>> from counterrank import RankingData
    >>> present_counts(RankingData([[1.0, float("nan")], [2.0, 3.0]], [0, 2])).tolist()
    [2, 1]
    """
    if not data.n_missing:
        return np.full(data.n_features, data.n_docs, np.int64)
    found = np.zeros(data.n_features, np.int64)
    for start in range(0, data.n_docs, _BLOCK):
        found += np.count_nonzero(~np.isnan(data.features[start : start + _BLOCK]), axis=0)
    return found


def refuse_missing(data: RankingData, model: str, remedy: str, what: str = "data") -> None:
    """An error where values are missing, with their number, the first place and the remedy.

    >>> from counterrank import RankingData
    >>> data = RankingData([[1.0], [float("nan")]], [0, 2], doc_ids=["a", "b"], feature_names=["price"])
    >>> refuse_missing(data, "a linear model", "model='lambdamart'")
    Traceback (most recent call last):
    ...
    counterrank.common.errors.DataError: data: 1 missing value (NaN), the first is feature 'price' of document b in \
query 0; a linear model expected none: impute them, drop the feature, or use model='lambdamart'
    """
    if not data.n_missing:
        return
    row, column = _first_missing(data)
    query = int(query_of(np.array([row]), data.offsets)[0])
    place = f"document {printable(str(data.doc_ids[row]))} in query {printable(str(data.query_ids[query]))}"
    count = f"{data.n_missing:,} missing value{'s' if data.n_missing > 1 else ''} (NaN)"
    raise DataError(
        f"{what}: {count}, the first is feature {printable(data.feature_names[column])!r} of {place}; {model} expected "
        f"none: impute them, drop the feature, or use {remedy}"
    )


def _first_missing(data: RankingData) -> tuple[int, int]:
    """Row and column of the first missing value, of which there is one."""
    for start in range(0, data.n_docs, _BLOCK):
        found = np.isnan(data.features[start : start + _BLOCK])
        if found.any():
            row, column = np.unravel_index(int(found.argmax()), found.shape)
            return start + int(row), int(column)
    raise AssertionError


@exact_kernel
def first_bad_row(first: int, last: int, offsets: Array, features: Array) -> int:
    """The first row with an infinite value, or -1."""
    for row in range(offsets[first], offsets[last]):
        values = features[row]
        bad = 0
        for f in range(len(values)):
            bad += abs(values[f]) > _LARGEST  # false for NaN, a missing value
        if bad:
            return row
    return -1


@exact_kernel
def count_missing(first: int, last: int, offsets: Array, features: Array) -> int:
    """The number of values that are NaN."""
    found = 0
    for row in range(offsets[first], offsets[last]):
        values = features[row]
        for f in range(len(values)):
            found += np.isnan(values[f])
    return found


@exact_inner_kernel
def query_range(features: Array, start: int, end: int, low: Array, high: Array) -> None:
    """low = min x and high = max x of every feature over the rows `start:end`; 0 where all values are missing."""
    # by hand, since for whole rows numba also compiles the text of an error about their shapes, which takes seconds
    for f in range(len(low)):
        low[f], high[f] = np.inf, -np.inf
    for row in range(start, end):
        values = features[row]
        for f in range(len(values)):  # both are false for NaN
            low[f] = values[f] if values[f] < low[f] else low[f]
            high[f] = values[f] if values[f] > high[f] else high[f]
    for f in range(len(low)):
        if low[f] > high[f]:
            low[f] = high[f] = 0.0


@exact_inner_kernel
def query_scale(features: Array, start: int, end: int, small: Array, large: Array, low: Array, inverse: Array) -> None:
    """low = min x and inverse = 1 / (max x - min x) of every feature over the rows, 0 for constant ones.

    Of the values that are not missing. `small` and `large` are float32 scratch.
    """
    query_range(features, start, end, small, large)
    for f in range(len(low)):
        low[f] = small[f]
        spread = np.float64(large[f]) - low[f]
        inverse[f] = 1.0 / spread if spread > 0.0 else 0.0


@exact_kernel
def scale_queries(first: int, last: int, offsets: Array, features: Array, out: Array) -> None:
    """out = (x - min) / (max - min) within each query; constant features become 0, missing values stay missing."""
    n_features = features.shape[1]
    small, large = np.empty(n_features, np.float32), np.empty(n_features, np.float32)
    low, inverse = np.empty(n_features), np.empty(n_features)
    for q in range(first, last):
        query_scale(features, offsets[q], offsets[q + 1], small, large, low, inverse)
        for row in range(offsets[q], offsets[q + 1]):
            for f in range(n_features):
                out[row, f] = (features[row, f] - low[f]) * inverse[f]
