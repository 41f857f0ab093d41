"""One page for one query, fast: only the top of the ranking is looked for."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterrank.clicks.policies._plan import (
    INSERT,
    LISTED,
    draw_component,
    draw_listed,
    listed_pages,
    listed_places,
    probability_at,
    propensity_at,
)
from counterrank.common.jit import Array, exact_kernel
from counterrank.common.random import below, start_stream, uniform
from counterrank.common.ranking import rank_order

# up to this many, a sorted list of the best so far beats ranking all documents
_SHORT = 64


@exact_kernel
def top_places(scores: Array, depth: int) -> Array:
    """The places of the `depth` best documents by rank; equal scores keep document order."""
    n = len(scores)
    if depth == 0:  # of a policy that lists its pages
        return np.empty(0, np.int64)
    if depth > _SHORT:
        order = np.empty(n, np.int64)
        rank_order(scores, order, np.empty(n, np.int64), np.empty(n, np.int64))
        return order[:depth]
    best = np.empty(depth, np.int64)
    worst = -np.inf
    filled = 0
    for i in range(n):
        score = scores[i]
        if filled == depth and score <= worst:
            continue
        j = filled if filled < depth else depth - 1
        while j > 0 and scores[best[j - 1]] < score:
            best[j] = best[j - 1]
            j -= 1
        best[j] = i
        filled = min(filled + 1, depth)
        worst = scores[best[filled - 1]]
    return best


@exact_kernel
def outside(head: Array, n: int, state: Array) -> int:
    """A place drawn uniformly from those that are not in `head`."""
    if 2 * len(head) < n:
        while True:
            place = below(state, n)
            taken = False
            for other in head:
                taken |= other == place
            if not taken:
                return place
    left = np.ones(n, np.bool_)
    for other in head:
        left[other] = False
    number = below(state, n - len(head))
    for place in range(n):
        if left[place]:
            if number == 0:
                return place
            number -= 1
    return -1


@exact_kernel
def show(plan: Any, depth: int, theta: Array, key: np.uint64) -> Any:
    """The page, and for each of its documents the propensity and the probability of being shown there.

    `depth` is the longest page by rank that any component makes: the order beyond it makes no difference.
    """
    n = len(plan.scores)
    state = np.empty(1, np.uint64)
    start_stream(state, key, 0)
    top = top_places(plan.scores, depth)
    c = draw_component(plan.shares, state)
    page = _draw(plan, c, n, top, state)
    old_ranks = np.full(n, depth + 1)
    for i in range(depth):
        old_ranks[top[i]] = i + 1
    propensities = np.zeros(len(page))
    probabilities = np.zeros(len(page))
    for part in range(len(plan.kinds)):
        if plan.kinds[part] == LISTED:
            _add_listed(plan, part, page, theta, propensities, probabilities)
        else:
            _add_ranked(plan, part, n, page, old_ranks, theta, propensities, probabilities)
    return page, propensities, probabilities


@exact_kernel
def _draw(plan: Any, c: int, n: int, top: Array, state: Array) -> Any:
    kind = plan.kinds[c]
    if kind == LISTED:
        begin, end = listed_pages(plan, c, 0, 1)
        at = begin + draw_listed(plan.page_probabilities[begin:end], state)
        return listed_places(plan, at).copy()
    k = plan.ks[c]
    length = min(k, n)
    page = top[:length].copy()
    if kind == INSERT and n >= k:
        slot = below(state, length)
        drawn = outside(top[: length - 1], n, state)
        for i in range(length - 1, slot, -1):
            page[i] = page[i - 1]
        page[slot] = drawn
    elif kind != INSERT and n > k and uniform(state) < plan.values[c]:
        page[length - 1] = outside(top[: length - 1], n, state)
    return page


@exact_kernel
def _add_ranked(
    plan: Any, c: int, n: int, page: Array, old_ranks: Array, theta: Array, propensities: Array, probabilities: Array
) -> None:
    """Add what a component that goes by rank contributes to the numbers of each shown document."""
    kind, k, value, share = plan.kinds[c], plan.ks[c], plan.values[c], plan.shares[c]
    mean = theta[: min(k, n)].mean()
    for i in range(len(page)):
        old_rank = old_ranks[page[i]]
        propensities[i] += share * propensity_at(kind, k, value, n, old_rank, theta, mean)
        probabilities[i] += share * probability_at(kind, k, value, n, old_rank, i + 1)


@exact_kernel
def _add_listed(plan: Any, c: int, page: Array, theta: Array, propensities: Array, probabilities: Array) -> None:
    """Add what a component that lists its pages contributes."""
    share, table = plan.shares[c], plan.tables[c]
    for other in range(plan.first_page[table], plan.first_page[table + 1]):
        start = plan.page_offsets[other]
        for j in range(start, plan.page_offsets[other + 1]):
            for i in range(len(page)):
                if plan.page_places[j] == page[i]:
                    propensities[i] += share * plan.page_probabilities[other] * theta[j - start]
                    if j - start == i:
                        probabilities[i] += share * plan.page_probabilities[other]
