"""Slow, obvious references for the estimators, one session after the other.

A world (`tests.support.click_counts.worlds` makes them) is a list of queries by length and a list of sessions (query,
page, clicks): the page lists documents by their place in the query, the clicks are the ranks that were clicked.
"""

from __future__ import annotations

import math

import numpy as np


def offsets_of(lengths) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def weights(lengths, sessions, propensity, clip=None) -> list[float]:
    """Sum over clicks of min(1 / propensity(row, rank), clip), for each document."""
    offsets = offsets_of(lengths)
    total = [0.0] * int(offsets[-1])
    for query, page, clicks in sessions:
        for rank in clicks:
            row = int(offsets[query]) + page[rank - 1]
            total[row] += min(1.0 / propensity(row, rank), math.inf if clip is None else clip)
    return total


def rerank(lengths, sessions, theta, clip=None) -> dict:
    """From (query, the set shown) to the weight of each member; only sets that were clicked."""
    offsets = offsets_of(lengths)
    sets: dict = {}
    for query, page, clicks in sessions:
        rows = [int(offsets[query]) + place for place in page]
        for rank in clicks:
            own = sets.setdefault((query, frozenset(rows)), dict.fromkeys(rows, 0.0))
            own[rows[rank - 1]] += min(1.0 / theta[rank - 1], math.inf if clip is None else clip)
    return sets


def not_always_seen(lengths, sessions, theta) -> set[int]:
    """Candidates of queries with sessions, missing from a page or at a rank never examined (eq:agnosticcond)."""
    offsets = offsets_of(lengths)
    missing = set()
    for query, page, _ in sessions:
        seen = {place for rank, place in enumerate(page, 1) if theta[rank - 1] > 0}
        missing |= {int(offsets[query]) + place for place in range(lengths[query]) if place not in seen}
    return missing
