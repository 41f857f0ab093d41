"""Ids written in a text, given by where each begins and ends."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.common.checks import IntArray
from counterrank.common.jit import Array
from counterrank.data._letor_numbers import byte_kernel


def same_tokens(text: Array, begin: IntArray, end: IntArray) -> IntArray:
    """A number for each token, counted from 0 in order of first appearance; equal tokens share one.

    >>> text = np.frombuffer(b"b a b", np.uint8)
    >>> same_tokens(text, np.array([0, 2, 4]), np.array([1, 3, 5])).tolist()
    [0, 1, 0]
    """
    starts = _run_starts(text, begin, end)  # lines of one query mostly follow each other
    runs = _as_arrow(text, begin[starts], end[starts]).dictionary_encode()
    codes: IntArray = runs.indices.to_numpy().astype(np.int64)[np.cumsum(starts) - 1]
    return codes


def read_ids(text: Array, begin: IntArray, end: IntArray) -> NDArray[Any]:
    """The tokens as int64 if all are whole numbers spelled in the usual way, else as strings.

    >>> text = np.frombuffer(b"7 -12 007", np.uint8)
    >>> read_ids(text, np.array([0, 2]), np.array([1, 5])), read_ids(text, np.array([0, 6]), np.array([1, 9]))
    (array([  7, -12]), array(['7', '007'], dtype='<U3'))
    """
    numbers = np.empty(len(begin), np.int64)
    if _whole_numbers(text, begin, end, numbers):
        return numbers
    return np.asarray(_as_arrow(text, begin, end).to_numpy(zero_copy_only=False).astype(np.str_))


def _as_arrow(text: Array, begin: IntArray, end: IntArray) -> Any:
    import pyarrow as pa

    bounds = np.concatenate(([0], np.cumsum(end - begin)))
    joined = np.empty(bounds[-1], np.uint8)
    _gather(text, begin, bounds, joined)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(joined)]
    return pa.Array.from_buffers(pa.large_string(), len(begin), buffers)


@byte_kernel
def _run_starts(text: Array, begin: Array, end: Array) -> Array:
    """For each token whether it differs from the one before."""
    starts = np.ones(len(begin), np.bool_)
    for i in range(1, len(begin)):
        n = end[i] - begin[i]
        if n == end[i - 1] - begin[i - 1]:
            j = 0
            while j < n and text[begin[i] + j] == text[begin[i - 1] + j]:
                j += 1
            starts[i] = j < n
    return starts


@byte_kernel
def _gather(text: Array, begin: Array, bounds: Array, joined: Array) -> None:
    """Copy the tokens one behind the other, each to its bounds."""
    for i in range(len(begin)):
        for j in range(bounds[i + 1] - bounds[i]):
            joined[bounds[i] + j] = text[begin[i] + j]


@byte_kernel
def _whole_numbers(text: Array, begin: Array, end: Array, out: Array) -> bool:
    """The tokens as int64, if each is spelled as Python would print it; False at the first that is not."""
    largest = np.uint64(2**63 - 1)
    for i in range(len(begin)):
        place, stop = begin[i], end[i]
        negative = place < stop and text[place] == 45
        place += negative
        n = stop - place
        if n < 1 or n > 19 or (text[place] == 48 and (n > 1 or negative)):
            return False
        value = np.uint64(0)
        while place < stop:
            if not 48 <= text[place] <= 57:
                return False
            value = np.uint64(10) * value + np.uint64(text[place] - 48)
            place += 1
        if value > largest:
            return False
        out[i] = -np.int64(value) if negative else np.int64(value)
    return True
