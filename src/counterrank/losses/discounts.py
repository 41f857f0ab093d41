"""Discounts by rank, D_n: a metric is sum w_n D_n, and only their differences matter to the losses over pairs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.checks import FloatArray, as_array
from counterrank.common.errors import CounterrankError

Discounts = ArrayLike | Callable[[FloatArray], ArrayLike]


def dcg_discounts(ranks: FloatArray) -> FloatArray:
    """D(n) = 1 / log2(1 + n) (`eq:DCG`).

    >>> dcg_discounts(np.array([1.0, 3.0])).tolist()
    [1.0, 0.5]
    """
    result: FloatArray = 1.0 / np.log2(1.0 + ranks)
    return result


def discount_table(discounts: Discounts, longest: int) -> FloatArray:
    """The discounts of ranks 1 to `longest` + 1; an array's last value goes on beyond its end.

    >>> discount_table([1.0, 0.5], 3).tolist()
    [1.0, 0.5, 0.5, 0.5]
    """
    ranks = np.arange(1.0, longest + 2.0)
    raw = np.atleast_1d(as_array(discounts(ranks) if callable(discounts) else discounts, "discounts"))
    if raw.dtype.kind not in "iufb":
        raise CounterrankError(f"discounts: type {raw.dtype}; expected real numbers by rank, or a function of ranks")
    given = raw.astype(np.float64)
    if given.ndim != 1 or not len(given) or (callable(discounts) and given.shape != ranks.shape):
        raise CounterrankError(
            f"discounts: shape {given.shape}; expected one value for each rank, {len(ranks)} from a function"
        )
    if not np.isfinite(given).all():
        place = int(np.argmin(np.isfinite(given)))
        raise CounterrankError(f"discounts: {given[place]} at rank {place + 1}; expected finite numbers")
    rises = np.flatnonzero(np.diff(given) > 0)
    if len(rises):
        n = int(rises[0])
        raise CounterrankError(
            f"discounts: rise from {given[n]:g} at rank {n + 1} to {given[n + 1]:g} at rank {n + 2}; "
            "expected non-increasing values (for a metric to minimise, negate it)"
        )
    extended: FloatArray = given[np.minimum(np.arange(longest + 1), len(given) - 1)]
    return extended


def cut_discounts(table: FloatArray, k: int | None) -> FloatArray:
    """The same discounts with zeros beyond rank k."""
    if k is None:
        return table
    cut = np.where(np.arange(1, len(table) + 1) <= k, table, 0.0)
    if k < len(table) and cut[k - 1] < 0.0:
        raise CounterrankError(f"k={k}: negative discounts cannot be cut to zero beyond k; expected values >= 0")
    return cut
