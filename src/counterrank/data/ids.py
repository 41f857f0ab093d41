"""Ids of queries and documents: int64 where they are whole numbers, strings otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.common.checks import IntArray, as_array
from counterrank.common.errors import DataError
from counterrank.common.parallel import for_queries
from counterrank.data import _kernels


def check_ids(ids: ArrayLike, n: int, name: str) -> NDArray[Any]:
    """Ids as an int64 or string array of length `n`.

    >>> check_ids(["q1", "q2"], 2, "query_ids")
    array(['q1', 'q2'], dtype='<U2')
    """
    given = as_array(ids, name)
    if given.dtype == object and all(isinstance(value, str) for value in given.ravel()):
        given = given.astype(np.str_)
    if given.shape != (n,):
        raise DataError(f"{name}: shape {given.shape}; expected ({n},)")
    if given.dtype.kind in "iu":
        if given.dtype == np.uint64 and n and given.max() > np.iinfo(np.int64).max:
            raise DataError(f"{name}: entry {np.argmax(given)} is {given.max()}; expected an int64")
        return np.array(given, dtype=np.int64)
    if given.dtype.kind in "UT":
        return given.astype(np.str_)
    raise DataError(f"{name}: type {given.dtype}; expected whole numbers or strings")


def place_in_query(offsets: IntArray) -> IntArray:
    """For each row its place in its query, from 0.

    >>> place_in_query(np.array([0, 2, 5])).tolist()
    [0, 1, 0, 1, 2]
    """
    places: IntArray = np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))
    return places


def encode(ids: NDArray[Any]) -> tuple[IntArray, NDArray[Any]]:
    """Each id as a number counted from 0 in order of first appearance, and the distinct ids in that order.

    >>> codes, distinct = encode(np.array(["b", "a", "b"]))
    >>> codes.tolist(), distinct.tolist()
    ([0, 1, 0], ['b', 'a'])
    """
    import pyarrow as pa

    encoded = pa.array(ids).dictionary_encode()
    codes: IntArray = encoded.indices.to_numpy().astype(np.int64)
    distinct = encoded.dictionary.to_numpy(zero_copy_only=False)
    return codes, distinct.astype(ids.dtype)


def group_rows(codes: IntArray, n_queries: int) -> tuple[IntArray, IntArray]:
    """Offsets, and the new place of each row, when rows are gathered by query and otherwise keep their order.

    >>> offsets, place = group_rows(np.array([0, 1, 0]), 2)
    >>> offsets.tolist(), place.tolist()
    ([0, 2, 3], [0, 2, 1])
    """
    offsets: IntArray = np.concatenate(([0], np.cumsum(np.bincount(codes, minlength=n_queries))))
    if np.all(codes[1:] >= codes[:-1]):
        return offsets, np.arange(len(codes))
    place = np.empty(len(codes), dtype=np.int64)
    place[np.argsort(codes, kind="stable")] = np.arange(len(codes))
    return offsets, place


def first_repeat_in_query(
    doc_ids: NDArray[Any], offsets: IntArray, threads: int | None = None
) -> tuple[int, int, int] | None:
    """The first query that names a document twice, with the two rows; None where all is well.

    >>> first_repeat_in_query(np.array([7, 8, 7, 7]), np.array([0, 3, 4]))
    (0, 0, 2)
    """
    codes = doc_ids if doc_ids.dtype == np.int64 else encode(doc_ids)[0]
    for query in for_queries(_kernels.first_query_with_repeat, offsets, codes, threads=threads):
        if query >= 0:
            start, end = offsets[query], offsets[query + 1]
            seen: dict[Any, int] = {}
            for row in range(start, end):
                if (code := codes[row]) in seen:
                    return int(query), seen[code], row
                seen[code] = row
    return None
