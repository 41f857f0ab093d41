"""Click counts to try the library on: of sessions one by one, of pages, or drawn page by page."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
from hypothesis import strategies as st

from counterrank.clicks import ClickCounts
from counterrank.clicks.displays import Displays
from counterrank.data.ids import identity
from tests.reference.estimate import order_of, show_pages
from tests.reference.estimators import offsets_of


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


def count(lengths, sessions, *, displays=True, rho=None, examination=None) -> ClickCounts:
    """The sessions added up; with `rho` by document, it is logged with each cell."""
    offsets = offsets_of(lengths)
    per_query = np.zeros(len(lengths), np.int64)
    shown, clicked, pages, page_clicks = Counter(), Counter(), Counter(), defaultdict(Counter)
    for query, page, clicks in sessions:
        per_query[query] += 1
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
        sessions=per_query,
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


def simulate(data, scores, kind, theta, chance, sessions, seed, epsilon=1.0):
    """Click counts of so many sessions of each query; `chance` is P(click | examined) of each document."""
    shown, clicked = np.zeros((2, data.n_docs, len(theta)), np.int64)
    order, theta, rng = order_of(scores, data.offsets), np.asarray(theta, float), np.random.default_rng(seed)
    show_pages(kind, epsilon, theta, data.offsets, scores, order, chance, sessions, rng, shown, clicked)
    docs, ranks = np.nonzero(shown)
    counts = shown[docs, ranks], clicked[docs, ranks]
    return ClickCounts(identity(data), data.offsets, np.asarray(sessions), docs, ranks + 1, *counts)


def from_pages(data, pages, sessions=None):
    """Click counts from rows (documents of the page, how often it was shown, clicks on its places), by query."""
    cells = {}
    for docs, shown, clicked in pages:
        for rank, (doc, clicks) in enumerate(zip(docs, clicked, strict=True), 1):
            before = cells.get((doc, rank), (0, 0))
            cells[doc, rank] = before[0] + shown, before[1] + clicks
    columns = np.array([(*key, *cells[key]) for key in sorted(cells)], np.int64).reshape(-1, 4).T.copy()
    docs = np.array([doc for page, _, _ in pages for doc in page], np.int64)
    clicked = np.array([clicks for _, _, own in pages for clicks in own], np.int64)
    shown = np.array([times for _, times, _ in pages], np.int64)
    displays = Displays(np.cumsum([0] + [len(page) for page, _, _ in pages]), docs, shown, clicked)
    owners = np.searchsorted(data.offsets, [page[0] for page, _, _ in pages], side="right") - 1
    totals = np.bincount(owners, weights=shown, minlength=data.n_queries).astype(np.int64)
    given = identity(data), data.offsets, totals if sessions is None else np.asarray(sessions)
    return ClickCounts(*given, *columns, displays=displays)
