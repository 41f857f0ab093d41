"""Kernels of the simulation: all sessions of a query at once where pages can be counted.

Sessions are split over components and pages as a multinomial; clicks are binomial given how often a document was shown
at a rank. The result has exactly the distribution of session after session, and its cost does not grow with sessions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from counterrank.clicks.displays import number_pages
from counterrank.clicks.policies.page_kernels import (
    LAST,
    LISTED,
    PLACKETT_LUCE,
    count_pages,
    draw_by_alias,
    draw_by_tree,
    draw_ranked,
    fill_listed,
    fill_ranked,
    listed_pages,
    listed_places,
    load,
    new_drawer,
    probability_at,
)
from counterrank.common.jit import Array, exact_allocating_kernel, exact_inner_kernel, exact_kernel
from counterrank.common.random import binomial, start_stream, uniform
from counterrank.common.ranking import longest_of

# typed, since numba compiles whatever is called with a literal number once more for that
_ZERO: Any = np.int64(0)


class UserModel(NamedTuple):
    """How users behave."""

    theta: Array  # P(examined | rank)
    attractiveness: Array  # of each document, 0 to 1
    other: Array  # P(click | examined) at attractiveness 0, by rank
    relevant: Array  # the same at attractiveness 1
    gamma: Array  # P(examined | rank, rank of the last click above) of users who are still there; (0, 0): see theta
    onward: Array  # P(the user goes on | click), by rank


@exact_inner_kernel
def click_probability(user: Any, doc: int, rank: int) -> Any:
    """P(click | shown at rank + 1) = theta (other + (relevant - other) attractiveness), all but the last by rank."""
    low = user.other[rank]
    return user.theta[rank] * (low + (user.relevant[rank] - low) * user.attractiveness[doc])


@exact_kernel
def expected_clicks(
    first: int, last: int, offsets: Array, policy: Any, user: Any, width: int, means: Array, squares: Array
) -> None:
    """The expected clicks of a session of each query, and the most that the mean square of a page's can be.

    Of components whose pages can be counted, not of Plackett-Luce; both start as zeros. With m_r the click probability
    at rank r, which depends on the page, E[(sum of m_r)^2] is at most (sum of sqrt(E[m_r^2]))^2.
    """
    n_queries = len(offsets) - 1
    by_rank = np.empty(width)
    for q in range(first, last):
        begin, n = offsets[q], offsets[q + 1] - offsets[q]
        by_rank[:] = 0.0
        for c in range(len(policy.kinds)):
            kind, k, epsilon, share = policy.kinds[c], policy.ks[c], policy.values[c], policy.shares[c]
            if kind == LISTED:
                first_page, last_page = listed_pages(policy, c, q, n_queries)
                for at in range(first_page, last_page):
                    places = listed_places(policy, at)
                    for rank in range(len(places)):
                        clicked = click_probability(user, begin + places[rank], rank)
                        means[q] += share * policy.page_probabilities[at] * clicked
                        by_rank[rank] += share * policy.page_probabilities[at] * clicked * clicked
            if kind in (LISTED, PLACKETT_LUCE):
                continue
            length = min(k, n)
            for old_rank in range(1, n + 1):
                doc = begin + policy.order[begin + old_rank - 1]
                # documents of the head stay or move down by one, the others may come anywhere
                low, high = (old_rank, old_rank + 1) if old_rank < length else (1, length)
                for rank in range(low, min(high, length) + 1):
                    probability = probability_at(kind, k, epsilon, n, old_rank, rank)
                    if probability > 0.0:
                        clicked = click_probability(user, doc, rank - 1)
                        means[q] += share * probability * clicked
                        by_rank[rank - 1] += share * probability * clicked * clicked
        roots = 0.0
        for rank in range(width):
            roots += np.sqrt(by_rank[rank])
        squares[q] = roots * roots


@exact_inner_kernel
def split(state: Array, total: int, shares: Array, out: Array) -> None:
    """A multinomial draw: n_i ~ Binomial(total - n_1 - ... - n_(i-1), p_i / (1 - p_1 - ... - p_(i-1)))."""
    left = 1.0
    for i in range(len(shares)):
        part = total if i == len(shares) - 1 else binomial(state, total, min(shares[i] / left, 1.0))
        out[i] = part
        total -= part
        left = max(left - shares[i], 1e-300)


@exact_inner_kernel
def count_draws(kind: int, epsilon: float, sessions: int, probabilities: Array, state: Array, counts: Array) -> None:
    """counts ~ Multinomial(sessions, P(page)); `probabilities` are those of listed pages."""
    n_pages = len(counts)
    counts[:] = 0
    if kind == LISTED:
        split(state, sessions, probabilities, counts)
    elif sessions < n_pages:
        for _ in range(sessions):
            counts[draw_ranked(kind, epsilon, n_pages, state)] += 1
    else:
        if kind == LAST:
            drawn = binomial(state, sessions, epsilon)
            counts[0] = sessions - drawn
            sessions = drawn
        for i in range(n_pages):
            part = binomial(state, sessions, 1.0 / (n_pages - i))
            counts[i] += part
            sessions -= part


@exact_allocating_kernel
def room(rows: Array, used: int, more: int) -> Array:
    """The same rows with space for `more` behind the first `used`."""
    if used + more <= rows.shape[1]:
        return rows
    larger = np.empty((rows.shape[0], max(2 * rows.shape[1], used + more)), np.int64)
    for row in range(len(rows)):
        for i in range(used):
            larger[row, i] = rows[row, i]
    return larger


class Task(NamedTuple):
    """What is to be simulated."""

    sessions: Array  # of each query
    width: int  # no page is longer
    key: np.uint64  # of the random streams, one for each query
    displays: bool  # whether pages are wanted


class _Query(NamedTuple):
    """The query at work, and how many there are; `stride` is the length of a document's part of `_Scratch.shown`."""

    number: int
    n_queries: int
    begin: int
    n: int
    stride: int


class _Scratch(NamedTuple):
    """What all queries share: the stream, one page, where Plackett-Luce pages come from, counts by place and rank."""

    state: Array
    page: Array
    drawer: Any
    shown: Array
    clicked: Array


class _Pages(NamedTuple):
    """Pages so far: length and sessions of each, document and clicks of each of their places, with room for more."""

    pages: Array
    places: Array
    n_pages: int
    n_places: int


@exact_kernel
def simulate_queries(first: int, last: int, offsets: Array, policy: Any, user: Any, task: Task) -> Any:
    """Cells (doc, rank, impressions, clicks) of the queries, and if wanted their pages.

    Returns cells (4, n), pages (2, n) of length and sessions, and places (2, n) of document and clicks, each distinct
    page once.
    """
    longest = longest_of(first, last, offsets)
    counts = np.empty((2, longest * min(task.width, longest)), np.int64)
    state, page = np.empty(1, np.uint64), np.empty(task.width, np.int64)
    scratch = _Scratch(state, page, new_drawer(longest), counts[0], counts[1])
    split_sessions = np.empty(len(policy.kinds), np.int64)
    cells, n_cells = np.empty((4, 1024), np.int64), _ZERO
    kept = _Pages(np.empty((2, 64), np.int64), np.empty((2, 64), np.int64), _ZERO, _ZERO)
    for q in range(first, last):
        if task.sessions[q] == 0:
            continue
        n = offsets[q + 1] - offsets[q]
        query = _Query(q, len(offsets) - 1, offsets[q], n, min(task.width, n))
        start_stream(state, task.key, q)
        split(state, task.sessions[q], policy.shares, split_sessions)
        scratch.shown[: n * query.stride] = 0
        scratch.clicked[: n * query.stride] = 0
        n_pages, n_places = kept.n_pages, kept.n_places
        for c in range(len(policy.kinds)):
            if split_sessions[c] == 0:
                continue
            if policy.kinds[c] == PLACKETT_LUCE:
                kept = _show_drawn(policy, c, user, query, split_sessions[c], task.displays, scratch, kept)
            else:
                kept = _show_counted(policy, c, user, query, split_sessions[c], task.displays, scratch, kept)
        if task.displays:
            n_pages, n_places = _merge(kept, n_pages, n_places)
            kept = _Pages(kept.pages, kept.places, n_pages, n_places)
        else:
            _click(user, query, scratch)
        cells = room(cells, n_cells, n * query.stride)
        n_cells = _add_cells(query, scratch, cells, n_cells)
    return cells[:, :n_cells], kept.pages[:, : kept.n_pages], kept.places[:, : kept.n_places]


@exact_inner_kernel
def _click(user: Any, query: _Query, scratch: _Scratch) -> None:
    """clicks ~ Binomial(impressions, P(click)) for each document at each rank."""
    for i in range(query.n):
        for rank in range(query.stride):
            at = i * query.stride + rank
            if scratch.shown[at]:
                chance = click_probability(user, query.begin + i, rank)
                scratch.clicked[at] = binomial(scratch.state, scratch.shown[at], chance)


@exact_inner_kernel
def _add_cells(query: _Query, scratch: _Scratch, cells: Array, n_cells: int) -> int:
    """Write the cells of a query behind the others; returns how many there are then."""
    for i in range(query.n):
        for rank in range(query.stride):
            at = i * query.stride + rank
            if scratch.shown[at]:
                cells[0, n_cells], cells[1, n_cells] = query.begin + i, rank + 1
                cells[2, n_cells], cells[3, n_cells] = scratch.shown[at], scratch.clicked[at]
                n_cells += 1
    return n_cells


@exact_allocating_kernel
def _show_counted(
    policy: Any, c: int, user: Any, query: _Query, sessions: int, displays: bool, scratch: _Scratch, kept: _Pages
) -> Any:
    """Add the impressions of a component whose pages can be counted; with displays its clicks too."""
    kind, k, q, shown = policy.kinds[c], policy.ks[c], query.number, scratch.shown
    counts = np.empty(count_pages(policy, c, q, query.n, query.n_queries), np.int64)
    first_page, last_page = listed_pages(policy, c, q, query.n_queries) if kind == LISTED else (_ZERO, _ZERO)
    probabilities = policy.page_probabilities[first_page:last_page]
    count_draws(kind, policy.values[c], sessions, probabilities, scratch.state, counts)
    order = policy.order[query.begin : query.begin + query.n]
    if kind != LISTED and not displays:
        _add_ranked(kind, k, sessions, order, counts, query.stride, shown)
        return kept
    pages, places, n_pages, n_places = kept.pages, kept.places, kept.n_pages, kept.n_places
    if displays:
        most = min(len(counts), sessions)
        pages, places = room(pages, n_pages, most), room(places, n_places, most * len(scratch.page))
    for number in range(len(counts)):
        if counts[number] == 0:
            continue
        if kind == LISTED:
            length = fill_listed(listed_places(policy, first_page + number), scratch.page)
        else:
            length = fill_ranked(kind, k, number, order, scratch.page)
        for rank in range(length):
            shown[scratch.page[rank] * query.stride + rank] += counts[number]
        if displays:
            here = places[:, n_places : n_places + length]
            _write_page(user, query, scratch, counts[number], pages[:, n_pages:], here)
            n_pages, n_places = n_pages + 1, n_places + length
    return _Pages(pages, places, n_pages, n_places)


@exact_inner_kernel
def _write_page(user: Any, query: _Query, scratch: _Scratch, sessions: int, pages: Array, places: Array) -> None:
    """Write `scratch.page` to the first of `pages` and `places`, with its clicks in so many sessions.

    0 stands for a session by itself: that takes one number of the stream for each place, where a binomial number takes
    none if nothing is left to chance.
    """
    pages[0, 0], pages[1, 0] = places.shape[1], max(sessions, 1)
    for rank in range(places.shape[1]):
        place = scratch.page[rank]
        chance = click_probability(user, query.begin + place, rank)
        if sessions == 0:
            clicks = 1 if uniform(scratch.state) < chance else 0
        else:
            clicks = binomial(scratch.state, sessions, chance)
        scratch.clicked[place * query.stride + rank] += clicks
        places[0, rank], places[1, rank] = query.begin + place, clicks


@exact_inner_kernel
def _add_ranked(kind: int, k: int, sessions: int, order: Array, counts: Array, stride: int, shown: Array) -> None:
    """Impressions from how often each page was shown, without filling the pages; for components by ranks only."""
    n = len(order)
    length = min(k, n)
    if kind == LAST or n < k:
        for rank in range(length - 1):
            shown[order[rank] * stride + rank] += sessions
        for number in range(len(counts)):
            shown[order[length - 1 + number] * stride + length - 1] += counts[number]
        return
    before = 0  # sessions with the inserted document above
    for slot in range(length):
        for drawn in range(n - length + 1):
            shown[order[length - 1 + drawn] * stride + slot] += counts[drawn * length + slot]
            before += counts[drawn * length + slot]
        if slot < length - 1:
            shown[order[slot] * stride + slot] += sessions - before
            shown[order[slot] * stride + slot + 1] += before


@exact_allocating_kernel
def _show_drawn(
    policy: Any, c: int, user: Any, query: _Query, sessions: int, displays: bool, scratch: _Scratch, kept: _Pages
) -> Any:
    """Add the impressions of a Plackett-Luce component, session by session; with displays its clicks too."""
    logits = policy.scores[query.begin : query.begin + query.n]
    length = min(policy.ks[c], query.n)
    temperature, page = policy.values[c], scratch.page[:length]
    pages, places, n_pages, n_places = kept.pages, kept.places, kept.n_pages, kept.n_places
    if displays:
        pages, places = room(pages, n_pages, sessions), room(places, n_places, sessions * length)
    load(logits, temperature, length, scratch.drawer)
    for _ in range(sessions):
        placed = draw_by_alias(scratch.drawer, scratch.state, page)
        if placed < length:
            draw_by_tree(logits, temperature, placed, scratch.drawer, scratch.state, page)
        for rank in range(length):
            scratch.shown[page[rank] * query.stride + rank] += 1
        if displays:
            here = places[:, n_places : n_places + length]
            _write_page(user, query, scratch, _ZERO, pages[:, n_pages:], here)
            n_pages, n_places = n_pages + 1, n_places + length
    return _Pages(pages, places, n_pages, n_places)


@exact_allocating_kernel
def _merge(kept: _Pages, page: int, place: int) -> Any:
    """Take equal pages of one query, from `page` and `place` on, together in their place; returns the new ends."""
    pages, places, last_page, last_place = kept.pages, kept.places, kept.n_pages, kept.n_places
    n = last_page - page
    offsets = np.zeros(n + 1, np.int64)
    for i in range(n):
        offsets[i + 1] = offsets[i] + pages[0, page + i]
    group, chosen = np.empty(n, np.int64), np.empty(n, np.int64)
    docs = places[0, place:last_place].copy()
    n_groups = number_pages(np.zeros(n, np.int64), offsets, docs, group, chosen)
    if n_groups == n:
        return last_page, last_place
    lengths, sessions = pages[0, page:last_page].copy(), pages[1, page:last_page].copy()
    clicks = places[1, place:last_place].copy()
    begins = np.empty(n_groups, np.int64)
    end = place
    for g in range(n_groups):
        begins[g] = end
        pages[0, page + g], pages[1, page + g] = lengths[chosen[g]], 0
        for j in range(lengths[chosen[g]]):
            places[0, end], places[1, end] = docs[offsets[chosen[g]] + j], 0
            end += 1
    for i in range(n):
        pages[1, page + group[i]] += sessions[i]
        for j in range(lengths[i]):
            places[1, begins[group[i]] + j] += clicks[offsets[i] + j]
    return page + n_groups, end


@exact_kernel
def click_pages(
    first: int, last: int, page_offsets: Array, docs: Array, user: Any, key: np.uint64, begin: int, clicked: Array
) -> None:
    """clicked = [u < P(click)] on the pages of sessions `first:last`; session `i` draws from stream `begin + i`."""
    state = np.empty(1, np.uint64)
    for i in range(first, last):
        start_stream(state, key, begin + i)
        if len(user.gamma):
            _browse_page(page_offsets[i], docs[page_offsets[i] : page_offsets[i + 1]], user, state, clicked)
            continue
        for at in range(page_offsets[i], page_offsets[i + 1]):
            clicked[at] = uniform(state) < click_probability(user, docs[at], at - page_offsets[i])


@exact_inner_kernel
def _browse_page(begin: int, docs: Array, user: Any, state: Array, clicked: Array) -> None:
    """The clicks of one session in which they depend on each other; see `simulation_of_browsing.browse`."""
    last, there = 0, True
    for rank in range(len(docs)):
        low = user.other[rank]
        attraction = low + (user.relevant[rank] - low) * user.attractiveness[docs[rank]]
        clicked[begin + rank] = there and uniform(state) < user.gamma[rank, last] * attraction
        if clicked[begin + rank]:
            last = rank + 1
            there = uniform(state) < user.onward[rank]
