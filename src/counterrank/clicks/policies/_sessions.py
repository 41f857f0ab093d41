"""Kernels that draw one page for each of many sessions, each session from a stream of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterrank.clicks.policies._plan import (
    LISTED,
    PLACKETT_LUCE,
    count_pages,
    draw_component,
    draw_listed,
    draw_plackett_luce,
    draw_ranked,
    fill_listed,
    fill_ranked,
    listed_pages,
    listed_places,
    page_length,
    plant,
)
from counterrank.common.jit import Array, exact_kernel
from counterrank.common.random import start_stream
from counterrank.common.ranking import longest_of

# the streams of Plackett-Luce pages are apart from those that choose components
_OTHER = np.uint64(0x5851F42D4C957F2D)


@exact_kernel
def choose_pages(
    first: int, last: int, queries: Array, offsets: Array, plan: Any, key: np.uint64, begin: int, chosen: Array
) -> None:
    """For sessions `first:last` the component, the number of the page and its length, rows of `chosen`.

    Session `i` draws from stream `begin + i` of the key. Components that kernels do not know get length 0.
    """
    state = np.empty(1, np.uint64)
    n_queries = len(offsets) - 1
    for i in range(first, last):
        start_stream(state, key, begin + i)
        q = queries[i]
        n = offsets[q + 1] - offsets[q]
        c = draw_component(plan.shares, state)
        number, length = -1, 0
        if plan.kinds[c] >= 0:
            if plan.kinds[c] == LISTED:
                first_page, last_page = listed_pages(plan, c, q, n_queries)
                number = draw_listed(plan.page_probabilities[first_page:last_page], state)
            elif plan.kinds[c] != PLACKETT_LUCE:
                number = draw_ranked(plan.kinds[c], plan.values[c], count_pages(plan, c, q, n, n_queries), state)
            length = page_length(plan, c, q, n, number, n_queries)
        chosen[0, i], chosen[1, i], chosen[2, i] = c, number, length


@exact_kernel
def fill_pages(
    first: int,
    last: int,
    turn: Array,
    queries: Array,
    offsets: Array,
    plan: Any,
    key: np.uint64,
    begin: int,
    chosen: Array,
    draws: bool | None,
    page_offsets: Array,
    docs: Array,
) -> None:
    """Write the pages of the sessions `turn[first:last]`, as rows of the data.

    `draws` is None where no component is Plackett-Luce; numba then leaves out what is for it.
    """
    n_queries = len(offsets) - 1
    state = np.empty(1, np.uint64)
    nothing = np.empty(0, np.int64)
    longest = longest_of(0, n_queries, offsets)
    tree, weights = np.empty(4 * longest), np.empty(longest)
    planted = np.int64(-1)
    component = np.int64(-1)
    for t in range(first, last):
        i = turn[t]
        q, c, number = queries[i], chosen[0, i], chosen[1, i]
        kind = plan.kinds[c]
        if kind < 0:
            continue
        row = offsets[q]
        page = docs[page_offsets[i] : page_offsets[i + 1]]
        if draws is not None and kind == PLACKETT_LUCE:
            logits = plan.scores[row : offsets[q + 1]]
            if planted != q or component != c:
                plant(logits, plan.values[c], nothing, 0, tree)
                planted, component = q, c
            start_stream(state, key ^ _OTHER, begin + i)
            draw_plackett_luce(logits, plan.values[c], len(page), tree, state, page, weights)
        elif kind == LISTED:
            at = listed_pages(plan, c, q, n_queries)[0] + number
            fill_listed(listed_places(plan, at), page)
        else:
            fill_ranked(kind, plan.ks[c], number, plan.order[row : offsets[q + 1]], page)
        for j in range(len(page)):
            page[j] += row
