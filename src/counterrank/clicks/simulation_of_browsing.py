"""Kernels that simulate users whose clicks depend on each other: pages are clicked from the top to the bottom.

All sessions that show one page are clicked together: of those whose last click is at rank i and who are still there, a
binomial number clicks at rank j, and of these a binomial number goes on. The result has the distribution of session
after session, and where pages repeat, its cost does not grow with sessions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from counterrank.clicks.policies.page_kernels import (
    LISTED,
    PLACKETT_LUCE,
    count_pages,
    draw_by_alias,
    draw_by_tree,
    fill_listed,
    fill_ranked,
    listed_pages,
    listed_places,
    load,
    new_drawer,
)
from counterrank.clicks.simulation_kernels import count_draws, room, split
from counterrank.common.jit import Array, exact_allocating_kernel, exact_inner_kernel, exact_kernel
from counterrank.common.random import binomial, start_stream
from counterrank.common.ranking import longest_of

_ZERO: Any = np.int64(0)


class BrowsingTask(NamedTuple):
    """What is to be simulated."""

    sessions: Array  # of each query
    width: int  # no page is longer
    key: np.uint64  # of the random streams, one for each query
    displays: bool  # whether pages are wanted
    patterns: bool  # whether the clicks of each session are wanted


class _Scratch(NamedTuple):
    """What all queries share: the stream, one page, users by last click, and counts by place, rank and last click."""

    state: Array
    page: Array
    there: Array  # users by the rank of their last click, who are still there
    gone: Array  # and who left
    clicked_here: Array  # the clicks by rank
    drawer: Any
    shown: Array
    clicked: Array


class _Pages(NamedTuple):
    """Pages so far: length, sessions and pattern of each, document and clicks of each of their places, with room."""

    pages: Array
    places: Array
    n_pages: int
    n_places: int


@exact_inner_kernel
def browse(user: Any, begin: int, length: int, stride: int, sessions: int, scratch: _Scratch) -> Any:
    """Click `scratch.page` in so many sessions, and count it; returns the pattern, which is that of one session.

    P(click at rank j | still there, last click at i) = gamma_ji (other + (relevant - other) attractiveness); who clicks
    goes on with probability onward_j.
    """
    there, gone = scratch.there, scratch.gone
    there[0], gone[0] = sessions, 0
    pattern: Any = 0
    for rank in range(length):
        place = scratch.page[rank]
        low = user.other[rank]
        attraction = low + (user.relevant[rank] - low) * user.attractiveness[begin + place]
        total = _ZERO
        for last in range(rank + 1):
            number = there[last] + gone[last]
            if number == 0:
                continue
            at = (place * stride + rank) * stride + last
            scratch.shown[at] += number
            if there[last] > 0:
                clicks = binomial(scratch.state, there[last], user.gamma[rank, last] * attraction)
                scratch.clicked[at] += clicks
                there[last] -= clicks
                total += clicks
        scratch.clicked_here[rank] = total
        staying = binomial(scratch.state, total, user.onward[rank])
        there[rank + 1], gone[rank + 1] = staying, total - staying
        if total > 0:
            pattern |= np.int64(1) << np.int64(rank)
    return pattern


@exact_kernel
def simulate_browsing(first: int, last: int, offsets: Array, policy: Any, user: Any, task: BrowsingTask) -> Any:
    """Rows (doc, rank, last click above, impressions, clicks) of the queries, and if wanted their pages.

    Returns rows (5, n), pages (3, n) of length, sessions and pattern, and places (2, n) of document and clicks; equal
    pages may come several times.
    """
    longest = longest_of(first, last, offsets)
    most = min(task.width, longest)
    counts = np.zeros((2, longest * most * most), np.int64)
    state, page = np.empty(1, np.uint64), np.empty(task.width, np.int64)
    users = np.zeros((3, task.width + 1), np.int64)
    scratch = _Scratch(state, page, users[0], users[1], users[2], new_drawer(longest), counts[0], counts[1])
    split_sessions = np.empty(len(policy.kinds), np.int64)
    rows, n_rows = np.empty((5, 1024), np.int64), _ZERO
    kept = _Pages(np.empty((3, 64), np.int64), np.empty((2, 64), np.int64), _ZERO, _ZERO)
    for q in range(first, last):
        if task.sessions[q] == 0:
            continue
        n = offsets[q + 1] - offsets[q]
        stride = min(task.width, n)
        start_stream(state, task.key, q)
        split(state, task.sessions[q], policy.shares, split_sessions)
        for c in range(len(policy.kinds)):
            if split_sessions[c] == 0:
                continue
            if policy.kinds[c] == PLACKETT_LUCE:
                kept = _browse_drawn(policy, c, user, offsets[q], n, stride, split_sessions[c], task, scratch, kept)
            else:
                kept = _browse_counted(policy, c, user, q, offsets, stride, split_sessions[c], task, scratch, kept)
        rows = room(rows, n_rows, n * stride * stride)
        n_rows = _add_rows(offsets[q], n, stride, scratch, rows, n_rows)
    return rows[:, :n_rows].copy(), kept.pages[:, : kept.n_pages].copy(), kept.places[:, : kept.n_places].copy()


@exact_inner_kernel
def _add_rows(begin: int, n: int, stride: int, scratch: _Scratch, rows: Array, n_rows: int) -> int:
    """Write the counts of a query behind the others, and set them to 0; returns how many rows there are then."""
    for i in range(n):
        for rank in range(stride):
            for last in range(rank + 1):
                at = (i * stride + rank) * stride + last
                if scratch.shown[at]:
                    rows[0, n_rows], rows[1, n_rows], rows[2, n_rows] = begin + i, rank + 1, last
                    rows[3, n_rows], rows[4, n_rows] = scratch.shown[at], scratch.clicked[at]
                    n_rows += 1
                    scratch.shown[at] = 0
                    scratch.clicked[at] = 0
    return n_rows


@exact_allocating_kernel
def _browse_page(
    user: Any, begin: int, length: int, stride: int, sessions: int, task: BrowsingTask, scratch: _Scratch, kept: _Pages
) -> Any:
    """Click one page in so many sessions; keeps it if wanted, each session by itself where patterns are wanted."""
    if not task.displays:
        browse(user, begin, length, stride, sessions, scratch)
        return kept
    times, each = (sessions, 1) if task.patterns else (1, sessions)
    pages, places = room(kept.pages, kept.n_pages, times), room(kept.places, kept.n_places, times * length)
    n_pages, n_places = kept.n_pages, kept.n_places
    for _ in range(times):
        pattern = browse(user, begin, length, stride, each, scratch)
        pages[0, n_pages], pages[1, n_pages], pages[2, n_pages] = length, each, pattern
        for rank in range(length):
            places[0, n_places] = begin + scratch.page[rank]
            places[1, n_places] = scratch.clicked_here[rank]
            n_places += 1
        n_pages += 1
    return _Pages(pages, places, n_pages, n_places)


@exact_allocating_kernel
def _browse_counted(
    policy: Any, c: int, user: Any, q: int, offsets: Array, stride: int, sessions: int, task: BrowsingTask,
    scratch: _Scratch, kept: _Pages,
) -> Any:  # fmt: skip
    """The sessions of a component whose pages can be counted."""
    kind, n, n_queries = policy.kinds[c], offsets[q + 1] - offsets[q], len(offsets) - 1
    counts = np.empty(count_pages(policy, c, q, n, n_queries), np.int64)
    first_page, last_page = listed_pages(policy, c, q, n_queries) if kind == LISTED else (_ZERO, _ZERO)
    probabilities = policy.page_probabilities[first_page:last_page]
    count_draws(kind, policy.values[c], sessions, probabilities, scratch.state, counts)
    order = policy.order[offsets[q] : offsets[q + 1]]
    for number in range(len(counts)):
        if counts[number] == 0:
            continue
        if kind == LISTED:
            length = fill_listed(listed_places(policy, first_page + number), scratch.page)
        else:
            length = fill_ranked(kind, policy.ks[c], number, order, scratch.page)
        kept = _browse_page(user, offsets[q], length, stride, counts[number], task, scratch, kept)
    return kept


@exact_allocating_kernel
def _browse_drawn(
    policy: Any, c: int, user: Any, begin: int, n: int, stride: int, sessions: int, task: BrowsingTask,
    scratch: _Scratch, kept: _Pages,
) -> Any:  # fmt: skip
    """The sessions of a Plackett-Luce component, one by one."""
    logits = policy.scores[begin : begin + n]
    length = min(policy.ks[c], n)
    page = scratch.page[:length]
    load(logits, policy.values[c], length, scratch.drawer)
    for _ in range(sessions):
        placed = draw_by_alias(scratch.drawer, scratch.state, page)
        if placed < length:
            draw_by_tree(logits, policy.values[c], placed, scratch.drawer, scratch.state, page)
        kept = _browse_page(user, begin, length, stride, _ZERO + 1, task, scratch, kept)
    return kept
