"""The order of a query's documents: a higher score first, equal scores in document order."""

from __future__ import annotations

import numpy as np

from counterrank.common.checks import read_only
from counterrank.common.jit import Array, exact_inner_kernel, exact_kernel
from counterrank.common.numerics import float_bits

# below this many, counting how many keys are larger (vector code) beats merging
_BLOCK = 32
_SIGN_FLIP = 0x7FFFFFFFFFFFFFFF


@exact_inner_kernel
def _sort_block(keys: Array, out: Array) -> None:
    """out = keys from the largest down: the place of a key is how many are larger."""
    for i in range(len(keys)):
        key = keys[i]
        larger = 0
        for j in range(len(keys)):
            larger += keys[j] > key
        out[larger] = key


@exact_inner_kernel
def _merge(source: Array, start: int, middle: int, end: int, out: Array) -> None:
    """out[start:end] = the sorted runs source[start:middle] and source[middle:end] as one, from the largest down."""
    left, right, place = start, middle, start
    while left < middle and right < end:
        a, b = source[left], source[right]
        from_left = a > b
        out[place] = a if from_left else b
        left += from_left
        right += not from_left
        place += 1
    while left < middle:
        out[place] = source[left]
        left += 1
        place += 1
    while right < end:
        out[place] = source[right]
        right += 1
        place += 1


@exact_inner_kernel
def _pack(scores: Array, low_bits: int, keys: Array) -> None:
    """Whole numbers that sort as the scores do, with the document's place in their lowest bits."""
    for i in range(len(scores)):
        bits = float_bits(scores[i] + 0.0)  # -0.0 becomes 0.0
        bits ^= (bits >> 63) & np.int64(_SIGN_FLIP)
        keys[i] = (bits & ~np.int64(low_bits)) | (low_bits - i)


@exact_inner_kernel
def _before(scores: Array, a: int, b: int) -> bool:
    """Whether document a ranks above document b: a higher score, or an equal one and an earlier place."""
    return scores[a] > scores[b] or (scores[a] == scores[b] and a < b)


@exact_inner_kernel
def _settle(scores: Array, order: Array, n: int, spare: Array) -> None:
    """Put right the documents whose scores differ only in the bits that gave way to places: mostly none or a few."""
    moves = 0
    for i in range(1, n):
        if moves > 8 * n:
            _merge_sort(scores, order, n, spare)
            return
        doc = order[i]
        j = i
        while j > 0 and not _before(scores, order[j - 1], doc):
            order[j] = order[j - 1]
            j -= 1
        order[j] = doc
        moves += i - j


@exact_inner_kernel
def _merge_sort(scores: Array, order: Array, n: int, spare: Array) -> None:
    """A plain sort by score and place, for the rare query with many scores that are all but equal."""
    width = 1
    while width < n:
        for start in range(0, n, 2 * width):
            middle, end = min(start + width, n), min(start + 2 * width, n)
            left, right = start, middle
            for place in range(start, end):
                if right >= end or (left < middle and _before(scores, order[left], order[right])):
                    spare[place] = order[left]
                    left += 1
                else:
                    spare[place] = order[right]
                    right += 1
        for place in range(n):
            order[place] = spare[place]
        width *= 2


@exact_kernel
def rank_order(scores: Array, order: Array, keys: Array, spare: Array) -> None:
    """Fill `order` with the places of the documents by rank: `order[0]` is ranked first.

    Arguments:
        scores: float64, finite, one query.
        order, keys, spare: int64, at least as long as `scores`; the last two are scratch.

    >>> order, keys, spare = np.empty((3, 4), dtype=np.int64)
    >>> rank_order(np.array([1.0, 3.0, 1.0, 2.0]), order, keys, spare)
    >>> order.tolist()
    [1, 3, 0, 2]
    """
    n = len(scores)
    low_bits = 1
    while low_bits < n - 1:
        low_bits = 2 * low_bits + 1
    _pack(scores, low_bits, spare)
    for start in range(0, n, _BLOCK):
        end = min(n, start + _BLOCK)
        _sort_block(spare[start:end], keys[start:end])
    source, out = keys, spare
    width = _BLOCK
    while width < n:
        for start in range(0, n, 2 * width):
            _merge(source, start, min(start + width, n), min(start + 2 * width, n), out)
        source, out = out, source
        width *= 2
    for i in range(n):
        order[i] = low_bits - (source[i] & low_bits)
    _settle(scores, order, n, spare)


@exact_kernel
def longest_of(first: int, last: int, offsets: Array) -> int:
    """The number of documents of the longest of the queries `first:last`, for scratch arrays.

    >>> longest_of(0, 2, np.array([0, 2, 5, 9]))
    3
    """
    longest = 0
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    return longest


def longest_query(offsets: Array) -> int:
    """The number of documents of the longest query.

    >>> longest_query(np.array([0, 2, 5]))
    3
    """
    return int(longest_of(0, len(offsets) - 1, read_only(np.asarray(offsets))))
