"""Kernels that find equal pages among many."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterrank.common.checks import IntArray
from counterrank.common.jit import Array, exact_kernel

_PRIME, _BASIS = np.uint64(0x100000001B3), np.uint64(0xCBF29CE484222325)
_SHIFT = np.uint64(29)


@exact_kernel
def _hash(docs: Array) -> np.uint64:
    mixed = _BASIS
    for doc in docs:
        mixed = (mixed ^ np.uint64(doc)) * _PRIME
        mixed ^= mixed >> _SHIFT
    return mixed


@exact_kernel
def _same(a: Array, b: Array) -> bool:
    if len(a) != len(b):
        return False
    different = 0
    for i in range(len(a)):
        different += a[i] != b[i]
    return different == 0


@exact_kernel
def number_pages(owner: Array, offsets: Array, docs: Array, group: Array, chosen: Array) -> Any:
    """Give equal pages one number; returns how many numbers there are.

    Arguments:
        owner: the query of each page, never decreasing.
        offsets, docs: the pages.
        group: gets the number of each page; numbers of an earlier query come first.
        chosen: gets, for each number, one of its pages; as long as `owner`.
    """
    n_groups = np.int64(0)
    begin = np.int64(0)
    while begin < len(owner):
        end = begin + 1
        while end < len(owner) and owner[end] == owner[begin]:
            end += 1
        size = 2
        while size < 2 * (end - begin):
            size *= 2
        slots = np.full(size, -1)  # a table of the query's groups, found by the hash of their page
        for page in range(begin, end):
            here = docs[offsets[page] : offsets[page + 1]]
            slot = np.int64(_hash(here) & np.uint64(size - 1))
            while slots[slot] >= 0:
                other = chosen[slots[slot]]
                if _same(here, docs[offsets[other] : offsets[other + 1]]):
                    break
                slot = (slot + 1) % size
            if slots[slot] < 0:
                slots[slot] = n_groups
                chosen[n_groups] = page
                n_groups += 1
            group[page] = slots[slot]
        begin = end
    return n_groups


@exact_kernel
def add_places(group: Array, offsets: Array, values: Array, out_offsets: Array, out: Array) -> None:
    """Add the numbers on each page's places to those of its group; places of equal pages correspond."""
    for page in range(len(group)):
        target = out_offsets[group[page]]
        for i in range(offsets[page + 1] - offsets[page]):
            out[target + i] += values[offsets[page] + i]


@exact_kernel
def sort_places(offsets: Array, docs: Array, values: Array) -> None:
    """Put the places of each page in the order of their documents, with their values."""
    for page in range(len(offsets) - 1):
        for i in range(offsets[page] + 1, offsets[page + 1]):
            doc, value = docs[i], values[i]
            j = i
            while j > offsets[page] and docs[j - 1] > doc:
                docs[j], values[j] = docs[j - 1], values[j - 1]
                j -= 1
            docs[j], values[j] = doc, value


@exact_kernel
def gather(offsets: Array, values: Array, pages: Array, out_offsets: Array, out: Array) -> None:
    """The places of the chosen pages, one page behind the other."""
    for i in range(len(pages)):
        begin = offsets[pages[i]]
        for j in range(offsets[pages[i] + 1] - begin):
            out[out_offsets[i] + j] = values[begin + j]


def offsets_of(lengths: IntArray) -> IntArray:
    """Offsets of pages of these lengths."""
    result = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=result[1:])
    return result
