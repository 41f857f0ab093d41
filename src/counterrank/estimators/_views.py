"""Kernel that looks over sets of documents."""

from __future__ import annotations

import numpy as np

from counterrank.common.jit import Array, exact_kernel

TWICE, TWO_QUERIES, ORDER, RANGE = 1, 2, 3, 4


@exact_kernel
def find_fault(data_offsets: Array, offsets: Array, docs: Array) -> tuple[int, int, bool]:
    """The first thing wrong with the sets and its place in `docs`, or 0; and whether each set is in document order."""
    seen = np.full(data_offsets[-1], -1, np.int64)  # the last set with this document
    query = 0
    ordered = True
    for s in range(len(offsets) - 1):
        begin = offsets[s]
        for place in range(begin, offsets[s + 1]):
            doc = docs[place]
            if doc < 0 or doc >= len(seen):
                return RANGE, place, ordered
            if place == begin:
                if doc < data_offsets[query]:
                    return ORDER, place, ordered
                while doc >= data_offsets[query + 1]:
                    query += 1
            elif doc < data_offsets[query] or doc >= data_offsets[query + 1]:
                return TWO_QUERIES, place, ordered
            if seen[doc] == s:
                return TWICE, place, ordered
            seen[doc] = s
            ordered &= place == begin or docs[place - 1] < doc
    return 0, 0, ordered
