"""Kernels on cells: (document, rank, policy, propensity) with impressions and clicks, in that order."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterrank.common.jit import exact_kernel


@exact_kernel
def _compare(a: Any, i: int, b: Any, j: int) -> int:
    """-1, 0 or 1 as cell `i` of `a` comes before, is, or comes after cell `j` of `b`."""
    if a[0][i] != b[0][j]:
        return -1 if a[0][i] < b[0][j] else 1
    if a[1][i] != b[1][j]:
        return -1 if a[1][i] < b[1][j] else 1
    if a[2][i] != b[2][j]:
        return -1 if a[2][i] < b[2][j] else 1
    if a[3][i] != b[3][j]:
        return -1 if a[3][i] < b[3][j] else 1
    return 0


@exact_kernel
def merge_cells(a: Any, b: Any) -> Any:
    """Two sorted lists of cells as one; cells in both are added up.

    Each is (docs, ranks, policies, propensities, impressions, clicks).
    """
    most = len(a[0]) + len(b[0])
    ints = np.empty((5, most), np.int64)
    reals = np.empty(most)
    n = i = j = 0
    while i < len(a[0]) or j < len(b[0]):
        if i == len(a[0]):
            side = 1
        elif j == len(b[0]):
            side = -1
        else:
            side = _compare(a, i, b, j)
        impressions = clicks = 0
        if side <= 0:
            ints[0, n], ints[1, n], ints[2, n], reals[n] = a[0][i], a[1][i], a[2][i], a[3][i]
            impressions += a[4][i]
            clicks += a[5][i]
            i += 1
        if side >= 0:
            ints[0, n], ints[1, n], ints[2, n], reals[n] = b[0][j], b[1][j], b[2][j], b[3][j]
            impressions += b[4][j]
            clicks += b[5][j]
            j += 1
        ints[3, n], ints[4, n] = impressions, clicks
        n += 1
    return (
        ints[0, :n].copy(),
        ints[1, :n].copy(),
        ints[2, :n].copy(),
        reals[:n].copy(),
        ints[3, :n].copy(),
        ints[4, :n].copy(),
    )
