"""Kernels that look at which ranks documents were seen at."""

from __future__ import annotations

import numpy as np

from counterrank.common.jit import Array, exact_kernel


@exact_kernel
def _root(parent: Array, rank: int) -> int:
    while parent[rank] != rank:
        parent[rank] = parent[parent[rank]]
        rank = parent[rank]
    return rank


@exact_kernel
def join_ranks(starts: Array, ranks: Array, n_ranks: int) -> Array:
    """For each rank the smallest rank it is connected with: ranks of one document are connected."""
    parent = np.arange(n_ranks)
    for doc in range(len(starts) - 1):
        first = _root(parent, ranks[starts[doc]])
        for cell in range(starts[doc] + 1, starts[doc + 1]):
            other = _root(parent, ranks[cell])
            if other < first:
                first, other = other, first
            parent[other] = first
    for rank in range(n_ranks):
        parent[rank] = _root(parent, rank)
    return parent
