"""Slow, obvious twins of the estimators, and random click counts made of single sessions to try them on.

A world is a list of queries by length and a list of sessions (query, page, clicks): the page lists documents by their
place in the query, the clicks are the ranks that were clicked.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import numpy as np
from hypothesis import strategies as st

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.displays import Displays


@st.composite
def worlds(draw, longest: int = 5, shorten: bool = True):
    """Queries of one document and more, pages that may be shorter than the query, sessions without clicks."""
    lengths = draw(st.lists(st.integers(1, longest), min_size=1, max_size=4))
    sessions = []
    for _ in range(draw(st.integers(0, 12))):
        query = draw(st.integers(0, len(lengths) - 1))
        page = draw(st.permutations(range(lengths[query])))
        page = page[: draw(st.integers(1, len(page)))] if shorten else page
        sessions.append((query, tuple(page), draw(st.sets(st.integers(1, len(page))))))
    return lengths, sessions


def offsets_of(lengths) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def count(lengths, sessions, *, displays=True, rho=None, examination=None) -> ClickCounts:
    """The sessions added up; with `rho` by document, it is logged with each cell."""
    offsets = offsets_of(lengths)
    asked = np.zeros(len(lengths), np.int64)
    shown, clicked, pages, page_clicks = Counter(), Counter(), Counter(), defaultdict(Counter)
    for query, page, clicks in sessions:
        asked[query] += 1
        pages[query, page] += 1
        for rank, place in enumerate(page, 1):
            cell = int(offsets[query]) + place, rank
            shown[cell] += 1
            clicked[cell] += rank in clicks
            page_clicks[query, page][rank] += rank in clicks
    cells = sorted(shown)
    kept = sorted(pages)
    return ClickCounts(
        identity="a world",
        offsets=offsets,
        sessions=asked,
        docs=np.array([doc for doc, _ in cells], np.int64),
        ranks=np.array([rank for _, rank in cells], np.int64),
        impressions=np.array([shown[cell] for cell in cells], np.int64),
        clicks=np.array([clicked[cell] for cell in cells], np.int64),
        propensities=None if rho is None else np.array([rho[doc] for doc, _ in cells], np.float64),
        displays=_displays(offsets, kept, pages, page_clicks) if displays else None,
        examination=examination,
    )


def _displays(offsets, kept, pages, page_clicks) -> Displays:
    return Displays(
        offsets_of([len(page) for _, page in kept]),
        np.array([offsets[query] + place for query, page in kept for place in page], np.int64),
        np.array([pages[key] for key in kept], np.int64),
        np.array([page_clicks[key][rank] for key in kept for rank in range(1, len(key[1]) + 1)], np.int64),
    )


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
    """Candidates of queries that were asked, missing from a page or at a rank never examined (eq:agnosticcond)."""
    offsets = offsets_of(lengths)
    missing = set()
    for query, page, _ in sessions:
        seen = {place for rank, place in enumerate(page, 1) if theta[rank - 1] > 0}
        missing |= {int(offsets[query]) + place for place in range(lengths[query]) if place not in seen}
    return missing
