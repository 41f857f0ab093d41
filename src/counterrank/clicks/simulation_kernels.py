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
    draw_plackett_luce,
    draw_ranked,
    fill_listed,
    fill_ranked,
    listed_pages,
    listed_places,
    plant,
    probability_at,
)
from counterrank.common.jit import Array, exact_kernel
from counterrank.common.random import binomial, start_stream, uniform
from counterrank.common.ranking import longest_of

# typed, since numba compiles whatever is called with a literal number once more for that
_ZERO: Any = np.int64(0)
_ONE: Any = np.int64(1)


class UserModel(NamedTuple):
    """How users behave."""

    theta: Array  # P(examined | rank)
    attractiveness: Array  # of each document, 0 to 1
    other: Array  # P(click | examined) at attractiveness 0, by rank
    relevant: Array  # the same at attractiveness 1


@exact_kernel
def click_probability(user: Any, doc: int, rank: int) -> Any:
    """P(click | shown at rank + 1)."""
    low = user.other[rank]
    return user.theta[rank] * (low + (user.relevant[rank] - low) * user.attractiveness[doc])


@exact_kernel
def expected_clicks(
    first: int, last: int, offsets: Array, policy: Any, user: Any, width: int, means: Array, squares: Array
) -> None:
    """The expected clicks of a session of each query, and the most that the mean square of a page's can be.

    Of components whose pages can be counted; both start as zeros. With m_r the click probability at rank r, which
    depends on the page, E[(sum of m_r)^2] is at most (sum of sqrt(E[m_r^2]))^2.
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


@exact_kernel
def split(state: Array, total: int, shares: Array, out: Array) -> None:
    """A multinomial draw: one binomial after the other from what is left."""
    left = 1.0
    for i in range(len(shares)):
        part = total if i == len(shares) - 1 else binomial(state, total, min(shares[i] / left, 1.0))
        out[i] = part
        total -= part
        left = max(left - shares[i], 1e-300)


@exact_kernel
def count_draws(kind: int, epsilon: float, sessions: int, probabilities: Array, state: Array, counts: Array) -> None:
    """How often each page is shown in so many sessions; `probabilities` are those of listed pages."""
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


@exact_kernel
def room(rows: Array, used: int, more: int) -> Array:
    """The same rows with space for `more` behind the first `used`."""
    if used + more <= rows.shape[1]:
        return rows
    larger = np.empty((rows.shape[0], max(2 * rows.shape[1], used + more)), np.int64)
    for row in range(len(rows)):
        for i in range(used):
            larger[row, i] = rows[row, i]
    return larger


@exact_kernel
def simulate_queries(
    first: int,
    last: int,
    offsets: Array,
    policy: Any,
    user: Any,
    sessions: Array,
    width: int,
    key: np.uint64,
    draws: bool | None,
    displays: bool | None,
) -> Any:
    """Cells (doc, rank, impressions, clicks) of the queries, and if wanted their pages.

    `draws` is None where no component is Plackett-Luce, `displays` where pages are not wanted: numba leaves out what
    follows from a None, and compiles in half the time.

    Returns cells (4, n), pages (2, n) of length and sessions, and places (2, n) of document and clicks, each distinct
    page once.
    """
    n_queries = len(offsets) - 1
    longest = longest_of(first, last, offsets)
    state = np.empty(1, np.uint64)
    split_sessions = np.empty(len(policy.kinds), np.int64)
    page = np.empty(width, np.int64)
    tree, weights = np.empty(4 * longest), np.empty(longest)
    shown = np.empty(longest * min(width, longest), np.int64)
    clicked = np.empty(longest * min(width, longest), np.int64)
    cells, pages, places = np.empty((4, 1024), np.int64), np.empty((2, 64), np.int64), np.empty((2, 64), np.int64)
    n_cells = n_pages = n_places = _ZERO
    for q in range(first, last):
        if sessions[q] == 0:
            continue
        begin, n = offsets[q], offsets[q + 1] - offsets[q]
        stride = min(width, n)
        start_stream(state, key, q)
        pages_before, places_before = n_pages, n_places
        split(state, sessions[q], policy.shares, split_sessions)
        shown[: n * stride] = 0
        clicked[: n * stride] = 0
        for c in range(len(policy.kinds)):
            if split_sessions[c] == 0:
                continue
            if draws is not None and policy.kinds[c] == PLACKETT_LUCE:
                pages, places, n_pages, n_places = _show_plackett_luce(
                    policy, c, user, split_sessions[c], begin, n, stride, state, tree, weights, page, shown, clicked,
                    displays, pages, places, n_pages, n_places,
                )  # fmt: skip
            else:
                pages, places, n_pages, n_places = _show_counted(
                    policy, c, user, q, split_sessions[c], begin, n, stride, n_queries, state, page, shown, clicked,
                    displays, pages, places, n_pages, n_places,
                )  # fmt: skip
        if displays is not None:
            n_pages, n_places = _merge(pages, places, pages_before, n_pages, places_before, n_places)
        cells = room(cells, n_cells, n * stride)
        for i in range(n):
            for rank in range(stride):
                at = i * stride + rank
                if shown[at]:
                    if displays is None:
                        clicked[at] = binomial(state, shown[at], click_probability(user, begin + i, rank))
                    cells[0, n_cells], cells[1, n_cells] = begin + i, rank + 1
                    cells[2, n_cells], cells[3, n_cells] = shown[at], clicked[at]
                    n_cells += 1
    return cells[:, :n_cells], pages[:, :n_pages], places[:, :n_places]


@exact_kernel
def _show_counted(
    policy: Any, c: int, user: Any, q: int, sessions: int, begin: int, n: int, stride: int, n_queries: int,
    state: Array, page: Array, shown: Array, clicked: Array, displays: bool | None,
    pages: Array, places: Array, n_pages: int, n_places: int,
) -> Any:  # fmt: skip
    """Add the impressions of a component whose pages can be counted; with displays its clicks too."""
    kind, k = policy.kinds[c], policy.ks[c]
    counts = np.empty(count_pages(policy, c, q, n, n_queries), np.int64)
    first_page, last_page = listed_pages(policy, c, q, n_queries) if kind == LISTED else (_ZERO, _ZERO)
    count_draws(kind, policy.values[c], sessions, policy.page_probabilities[first_page:last_page], state, counts)
    order = policy.order[begin : begin + n]
    if displays is None and kind != LISTED:
        _add_ranked(kind, k, sessions, order, counts, stride, shown)
        return pages, places, n_pages, n_places
    for number in range(len(counts)):
        if counts[number] == 0:
            continue
        if kind == LISTED:
            length = fill_listed(listed_places(policy, first_page + number), page)
        else:
            length = fill_ranked(kind, k, number, order, page)
        for rank in range(length):
            shown[page[rank] * stride + rank] += counts[number]
        if displays is not None:
            pages, places = room(pages, n_pages, _ONE), room(places, n_places, length)
            pages[0, n_pages], pages[1, n_pages] = length, counts[number]
            n_pages += 1
            for rank in range(length):
                doc = begin + page[rank]
                clicks = binomial(state, counts[number], click_probability(user, doc, rank))
                clicked[page[rank] * stride + rank] += clicks
                places[0, n_places], places[1, n_places] = doc, clicks
                n_places += 1
    return pages, places, n_pages, n_places


@exact_kernel
def _add_ranked(kind: int, k: int, sessions: int, order: Array, counts: Array, stride: int, shown: Array) -> None:
    """Impressions from how often each page of a component that goes by rank was shown, without filling the pages."""
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


@exact_kernel
def _show_plackett_luce(
    policy: Any, c: int, user: Any, sessions: int, begin: int, n: int, stride: int,
    state: Array, tree: Array, weights: Array, page: Array, shown: Array, clicked: Array, displays: bool | None,
    pages: Array, places: Array, n_pages: int, n_places: int,
) -> Any:  # fmt: skip
    """Add the impressions of a Plackett-Luce component, session by session; with displays its clicks too."""
    logits = policy.scores[begin : begin + n]
    length = min(policy.ks[c], n)
    temperature = policy.values[c]
    plant(logits, temperature, page, 0, tree)
    for _ in range(sessions):
        draw_plackett_luce(logits, temperature, length, tree, state, page, weights)
        for rank in range(length):
            shown[page[rank] * stride + rank] += 1
        if displays is not None:
            pages, places = room(pages, n_pages, _ONE), room(places, n_places, length)
            pages[0, n_pages], pages[1, n_pages] = length, 1
            n_pages += 1
            for rank in range(length):
                doc = begin + page[rank]
                clicks = np.int64(uniform(state) < click_probability(user, doc, rank))
                clicked[page[rank] * stride + rank] += clicks
                places[0, n_places], places[1, n_places] = doc, clicks
                n_places += 1
    return pages, places, n_pages, n_places


@exact_kernel
def _merge(pages: Array, places: Array, page: int, last_page: int, place: int, last_place: int) -> Any:
    """Take equal pages of one query, from `page` and `place` on, together in their place; returns the new ends."""
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
    """Which places are clicked on the pages of sessions `first:last`; session `i` draws from stream `begin + i`."""
    state = np.empty(1, np.uint64)
    for i in range(first, last):
        start_stream(state, key, begin + i)
        for at in range(page_offsets[i], page_offsets[i + 1]):
            clicked[at] = uniform(state) < click_probability(user, docs[at], at - page_offsets[i])
