"""Features by name, and missing values: what must agree between data to train on and data to score."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from counterrank.common.errors import DataError, printable
from counterrank.data.ids import query_of
from counterrank.data.ranking_data import RankingData

_SHOWN = 5  # names in a message
_BLOCK = 1 << 16  # rows looked at at once


def listed(names: Iterable[str], most: int = _SHOWN) -> str:
    """Names for a message, at most a few of them.

    >>> listed(["price", "rating"]), listed("abcdefg", most=2)
    ("'price', 'rating'", "'a', 'b' and 5 more")
    """
    found = list(names)
    shown = ", ".join(repr(printable(name)) for name in found[:most])
    return shown + (f" and {len(found) - most:,} more" if len(found) > most else "")


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
    remedy = "rename or add columns" if missing else "data.select_features leaves others out"
    return f"{what}: {'; '.join(parts)}; expected the same names ({remedy})"


def missing_columns(data: RankingData) -> NDArray[np.int64]:
    """The features, counted from 0, that are missing for some document.

    >>> missing_columns(RankingData([[1.0, float("nan")], [2.0, 3.0]], [0, 2])).tolist()
    [1]
    """
    if not data.n_missing:
        return np.empty(0, np.int64)
    return np.flatnonzero(present_counts(data) < data.n_docs)


def present_counts(data: RankingData) -> NDArray[np.int64]:
    """For each feature the number of documents for which it is not missing.

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
