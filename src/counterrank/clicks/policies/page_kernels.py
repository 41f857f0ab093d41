"""Kernels that know what pages a policy shows.

A policy is a mixture of components. All but Plackett-Luce have pages that can be counted: page `number` of component
`c` for a query of `n` documents, with `m` documents outside the head that stays.

    LAST      the top k-1, then tail document `number` (0 is the k-th); the first one also when nothing is replaced
    INSERT    tail document `number // k` at rank `number % k + 1`, the top k-1 around it
    LISTED    the listed page `number`
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from counterrank.common.jit import Array, exact_allocating_kernel, exact_inner_kernel, exact_kernel
from counterrank.common.random import GOLDEN, below, mixed, start_stream, uniform
from counterrank.common.ranking import longest_of, rank_order

LAST, INSERT, LISTED, PLACKETT_LUCE = 0, 1, 2, 3
NO_CUTOFF = 2**31  # longer than any query
_ZERO: Any = np.int64(0)  # numba compiles whatever is called with a literal number once more for that


class PolicyArrays(NamedTuple):
    """A policy and the scores it ranks by, as kernels take them."""

    kinds: Array  # of each component
    ks: Array  # its cutoff, NO_CUTOFF for none
    values: Array  # epsilon of LAST, temperature of PLACKETT_LUCE
    shares: Array  # how likely it is chosen
    tables: Array  # of LISTED: its table of pages, else -1
    scores: Array  # of the documents
    order: Array  # places by rank, query after query; empty if no component needs it
    first_page: Array  # of table t and query q: at t * n_queries + q; where its pages begin
    page_offsets: Array  # where each listed page begins
    page_places: Array  # its documents, as places in the query
    page_probabilities: Array  # its probability


@exact_kernel
def rank_queries(first: int, last: int, offsets: Array, scores: Array, out: Array) -> None:
    """out = the places of the documents of each query by rank, from the highest score down."""
    longest = longest_of(first, last, offsets)
    keys, spare = np.empty(longest, np.int64), np.empty(longest, np.int64)
    for q in range(first, last):
        own = slice(offsets[q], offsets[q + 1])
        rank_order(scores[own], out[own], keys, spare)


@exact_inner_kernel
def head_and_tail(kind: int, k: int, n: int) -> tuple[int, int]:
    """How long the page is, and how many documents its changing place is filled from."""
    length = min(k, n)
    if kind == INSERT and n < k:
        return length, 1
    return length, n - length + 1


@exact_inner_kernel
def listed_pages(policy: Any, c: int, q: int, n_queries: int) -> tuple[int, int]:
    """Where the listed pages of a query begin and end."""
    at = policy.tables[c] * n_queries + q
    return policy.first_page[at], policy.first_page[at + 1]


@exact_allocating_kernel
def listed_places(policy: Any, at: int) -> Any:
    """The places of listed page number `at` of all."""
    return policy.page_places[policy.page_offsets[at] : policy.page_offsets[at + 1]]


@exact_inner_kernel
def count_pages(policy: Any, c: int, q: int, n: int, n_queries: int) -> Any:
    """How many pages component `c` can show."""
    kind = policy.kinds[c]
    if kind == LISTED:
        begin, end = listed_pages(policy, c, q, n_queries)
        return end - begin
    length, m = head_and_tail(kind, policy.ks[c], n)
    return m * length if kind == INSERT and n >= policy.ks[c] else m


@exact_inner_kernel
def draw_ranked(kind: int, epsilon: float, n_pages: int, state: Array) -> int:
    """The number of one page of LAST or INSERT: uniform, of LAST 0 with probability 1 - epsilon."""
    if kind == LAST and (n_pages == 1 or uniform(state) >= epsilon):
        return 0
    return below(state, n_pages)


@exact_inner_kernel
def draw_listed(probabilities: Array, state: Array) -> int:
    """Number i with probability p_i: the first whose sum of probabilities up to it exceeds a uniform number."""
    left = uniform(state)
    for number in range(len(probabilities) - 1):
        left -= probabilities[number]
        if left < 0.0:
            return number
    return len(probabilities) - 1


@exact_inner_kernel
def page_length(policy: Any, c: int, q: int, n: int, number: int, n_queries: int) -> Any:
    """How many documents page `number` has; of Plackett-Luce every page."""
    if policy.kinds[c] == LISTED:
        page = listed_pages(policy, c, q, n_queries)[0] + number
        return policy.page_offsets[page + 1] - policy.page_offsets[page]
    return min(policy.ks[c], n)


@exact_inner_kernel
def fill_ranked(kind: int, k: int, number: int, order: Array, page: Array) -> int:
    """Write the places of page `number` of a component that depends on ranks only; returns how many.

    Takes the few numbers it needs: handing over the whole policy costs more than filling a page.
    """
    n = len(order)
    length = min(k, n)
    if kind == LAST or n < k:
        for i in range(length - 1):
            page[i] = order[i]
        page[length - 1] = order[length - 1 + number]
        return length
    slot, drawn = number % length, number // length
    for i in range(slot):
        page[i] = order[i]
    page[slot] = order[length - 1 + drawn]
    for i in range(slot + 1, length):
        page[i] = order[i - 1]
    return length


@exact_inner_kernel
def fill_listed(places: Array, page: Array) -> int:
    """Write the places of a listed page; returns how many."""
    for i in range(len(places)):
        page[i] = places[i]
    return len(places)


@exact_inner_kernel
def propensity_at(kind: int, k: int, epsilon: float, n: int, rank: int, theta: Array, mean: float) -> Any:
    """P(examined) (`eq:expexam`) of the document that the scores put on `rank`, for LAST and INSERT, m = n - k + 1.

        LAST      theta_rank for rank < k, else theta_k (epsilon / m + [rank = k] (1 - epsilon))
        INSERT    (k - rank) / k theta_rank + rank / k theta_(rank+1) for rank < k, else mean / m

    `theta` holds the examination of ranks 1 to at least min(k, n), and `mean` its mean over the page.
    """
    length, m = head_and_tail(kind, k, n)
    if kind == LAST or n < k:
        if rank < length:
            return theta[rank - 1]
        share = epsilon / m + (1.0 - epsilon if rank == length else 0.0)
        return share * theta[length - 1] if kind == LAST else theta[rank - 1]
    if rank < length:
        return (length - rank) / length * theta[rank - 1] + rank / length * theta[rank]
    return mean / m


@exact_inner_kernel
def probability_at(kind: int, k: int, epsilon: float, n: int, old_rank: int, rank: int) -> float:
    """P(the document that the scores put on `old_rank` is shown on `rank`), see `propensity_at`."""
    length, m = head_and_tail(kind, k, n)
    if rank > length:
        return 0.0
    if kind == INSERT and n < k:
        return 1.0 if rank == old_rank else 0.0
    if kind == LAST:
        if old_rank < length:
            return 1.0 if rank == old_rank else 0.0
        share = epsilon / m + (1.0 - epsilon if old_rank == length else 0.0)
        return share if rank == length else 0.0
    if old_rank >= length:
        return 1.0 / (m * length)
    if rank == old_rank:
        return (length - old_rank) / length
    return old_rank / length if rank == old_rank + 1 else 0.0


@exact_kernel
def add_propensities(first: int, last: int, offsets: Array, policy: Any, c: int, theta: Array, out: Array) -> None:
    """out_d += share * P(d examined | query, component `c`) (`eq:expexam`); not for Plackett-Luce.

    Of LISTED the sum over its pages of P(page) theta_(rank of d), of the others `propensity_at`.
    """
    kind, k, value, share = policy.kinds[c], policy.ks[c], policy.values[c], policy.shares[c]
    for q in range(first, last):
        begin, n = offsets[q], offsets[q + 1] - offsets[q]
        if kind == LISTED:
            first_page, last_page = listed_pages(policy, c, q, len(offsets) - 1)
            for page in range(first_page, last_page):
                start = policy.page_offsets[page]
                for i in range(start, policy.page_offsets[page + 1]):
                    out[begin + policy.page_places[i]] += share * policy.page_probabilities[page] * theta[i - start]
            continue
        length = min(k, n)
        mean = 0.0
        for rank in range(length):
            mean += theta[rank] / length
        for rank in range(1, n + 1):
            place = policy.order[begin + rank - 1]
            out[begin + place] += share * propensity_at(kind, k, value, n, rank, theta, mean)


@exact_inner_kernel
def draw_component(shares: Array, state: Array) -> int:
    """The number of a component, drawn by shares; of a single one without drawing."""
    return 0 if len(shares) == 1 else draw_listed(shares, state)


@exact_inner_kernel
def _set_leaf(tree: Array, size: int, place: int, weight: float) -> None:
    """Set the weight of one place, and the sums above it."""
    node = size + place
    tree[node] = weight
    node >>= 1
    while node:
        tree[node] = tree[2 * node] + tree[2 * node + 1]
        node >>= 1


@exact_inner_kernel
def _tree_size(n: int) -> int:
    """The number of leaves of a tree for n weights: a power of 2."""
    size = 1
    while size < n:
        size *= 2
    return size


@exact_inner_kernel
def plant(logits: Array, temperature: float, taken: Array, n_taken: int, tree: Array) -> None:
    """Fill a tree of sums with e**((logit - largest) / temperature); documents already taken weigh 0.

    Leaf `i` stands at size + i, node `j` holds the sum of nodes 2j and 2j + 1, node 1 that of all.
    """
    n = len(logits)
    size = _tree_size(n)
    for i in range(size):
        tree[size + i] = 1.0 if i < n else 0.0
    for i in range(n_taken):
        tree[size + taken[i]] = 0.0
    largest = -np.inf
    for i in range(n):
        if tree[size + i] > 0.0 and logits[i] > largest:
            largest = logits[i]
    for i in range(n):
        if tree[size + i] > 0.0:
            tree[size + i] = math.exp((logits[i] - largest) / temperature)
    for node in range(size - 1, 0, -1):
        tree[node] = tree[2 * node] + tree[2 * node + 1]


@exact_inner_kernel
def draw_by_tree(logits: Array, temperature: float, placed: int, drawer: Any, state: Array, page: Array) -> None:
    """Fill a page that holds `placed` documents so far from the tree, and leave the tree as it was.

    Drawn leaves become 0 and sums are formed anew from below, so that no small weight drowns. Where what is left
    weighs next to nothing (scores hundreds apart) the tree is planted anew for the rest.
    """
    tree, weights, length = drawer.tree, drawer.weights, len(page)
    size = _tree_size(len(logits))
    replanted = False
    if not drawer.planted[0]:
        plant(logits, temperature, page, _ZERO, tree)
        drawer.planted[0] = 1
    for i in range(placed):
        weights[i] = tree[size + page[i]]
        _set_leaf(tree, size, page[i], 0.0)
    for i in range(placed, length):
        if i and tree[1] < 1e-200:
            plant(logits, temperature, page, i, tree)
            replanted = True
        left = uniform(state) * tree[1]
        node = 1
        while node < size:
            node *= 2
            # a right side that weighs nothing is never entered, whatever rounding left over
            if left >= tree[node] and tree[node + 1] > 0.0:
                left -= tree[node]
                node += 1
        page[i], weights[i] = node - size, tree[node]
        if i + 1 < length:
            _set_leaf(tree, size, page[i], 0.0)
    if replanted:
        plant(logits, temperature, page, _ZERO, tree)
    else:
        for i in range(length - 1):
            _set_leaf(tree, size, page[i], weights[i])


class PageDrawer(NamedTuple):
    """What Plackett-Luce pages of one query are drawn from; `new_drawer` makes it, `load` fills it for a query.

    The alias table (Walker, ACM TOMS 1977; Vose, IEEE TSE 1991) has a power of 2 of columns, equally likely. Column c
    gives place c if a coin of all other bits is below thresholds[c], else aliases[c].
    """

    thresholds: Array
    aliases: Array
    shift: Array  # how far the column stands above the coin in 64 random bits; 0 if pages are drawn by the tree alone
    tree: Array  # see `plant`
    planted: Array  # whether the tree is that of the query
    weights: Array  # scratch: of the leaves that were drawn
    shares: Array  # scratch: the mass of each column
    stack: Array  # scratch: columns below 1 from the left, the others from the right
    drawn: Array  # of each place the number of the last page with it
    pages: Array  # how many pages were drawn


@exact_allocating_kernel
def new_drawer(longest: int) -> Any:
    """Room to draw pages of queries of up to so many documents."""
    size = _tree_size(longest)
    words, places = np.zeros((2, size), np.uint64), np.zeros((2, size), np.int64)
    sums, singles = np.empty((2, 2 * size)), np.zeros((3, 1), np.int64)
    return PageDrawer(
        words[0], words[1], singles[0], sums[0], singles[1], sums[1, :size], sums[1, size:], places[0], places[1],
        singles[2],
    )  # fmt: skip


# Pages of more than 1 / _SHORT of the documents would meet their own documents too often.
_SHORT = 2
# After so many rejected draws, and one for each of its documents, the rest of a page is drawn from the tree: it costs
# ten to twenty rejections a document.
_PATIENCE = 8
_ONE_BIT, _64 = np.uint64(1), np.int64(64)


@exact_inner_kernel
def load(logits: Array, temperature: float, length: int, drawer: Any) -> None:
    """Prepare for pages of `length` documents of a query: its alias table if pages are short.

    The tree is built when it is needed.
    """
    drawer.planted[0] = 0
    drawer.shift[0] = 0
    if _SHORT * length <= len(logits):
        _fill_alias_table(logits, temperature, drawer)


@exact_inner_kernel
def _fill_alias_table(logits: Array, temperature: float, drawer: Any) -> None:
    """Columns with the mass of p_i = e**((logit_i - largest) / temperature) / their sum, and the rest of another place.

    A column below 1 is filled up from one above 1, which is then as much smaller. Coins have 64 bits less those of the
    column, so that each p_i is met up to the rounding of its sums: some 2**-53, n / 16 times that if there are many.
    """
    n = len(logits)
    shares, stack, thresholds, aliases = drawer.shares, drawer.stack, drawer.thresholds, drawer.aliases
    size, shift = 1, _64
    while size < n:
        size *= 2
        shift -= 1
    drawer.shift[0] = shift
    largest = -np.inf
    for i in range(n):
        largest = max(largest, logits[i])
    total = 0.0
    for i in range(n):
        shares[i] = math.exp((logits[i] - largest) / temperature)
        total += shares[i]
    low, high = 0, size
    for i in range(size):
        shares[i] = shares[i] * (size / total) if i < n else 0.0
        if shares[i] < 1.0:
            stack[low] = i
            low += 1
        else:
            high -= 1
            stack[high] = i
        thresholds[i], aliases[i] = 0, i  # what rounding leaves over at the end is its own alias
    coins = 2.0**shift
    while low > 0 and high < size:
        low -= 1
        small, large = stack[low], stack[high]
        thresholds[small], aliases[small] = np.uint64(shares[small] * coins), large
        shares[large] -= 1.0 - shares[small]
        if shares[large] < 1.0:
            high += 1
            stack[low] = large
            low += 1


@exact_inner_kernel
def draw_by_alias(drawer: Any, state: Array, page: Array) -> int:
    """Draw places without replacement, by the softmax, until the page is full; returns how many it holds.

    Places come from the alias table. Those that are on the page already are rejected, which leaves the law of the
    others as it should be. The page is left to `draw_by_tree` where there is no table, and after so many rejections
    that the rest weighs little: as rejected draws alone decide on that, the law stays exact.
    """
    if drawer.shift[0] == 0:
        return 0
    thresholds, aliases, drawn = drawer.thresholds, drawer.aliases, drawer.drawn
    shift = np.uint64(drawer.shift[0])
    coin = (_ONE_BIT << shift) - _ONE_BIT
    number = drawer.pages[0] + 1
    length = len(page)
    patience = _PATIENCE + length
    word = state[0]  # in a register, where `uniform` would write each draw to memory
    placed = 0
    while placed < length and patience > 0:
        word += GOLDEN
        bits = mixed(word)
        column = bits >> shift
        threshold, alias = thresholds[column], aliases[column]
        place = column if bits & coin < threshold else alias
        if drawn[place] == number:
            patience -= 1
        else:
            drawn[place] = number
            page[placed] = place
            placed += 1
    drawer.pages[0], state[0] = number, word
    return placed


# the streams of Plackett-Luce pages are apart from those that choose components
_OTHER = np.uint64(0x5851F42D4C957F2D)


class Sessions(NamedTuple):
    """Sessions by their queries; number `i` of them draws from stream `begin + i` of the key."""

    queries: Array
    key: np.uint64
    begin: int


class DrawnPages(NamedTuple):
    """A page for each session."""

    chosen: Array  # the component, the number of the page and its length, rows
    offsets: Array  # where each page begins in docs
    docs: Array  # by rank, as rows of the data


@exact_kernel
def choose_pages(first: int, last: int, sessions: Sessions, offsets: Array, policy: Any, chosen: Array) -> None:
    """Fill `DrawnPages.chosen` for sessions `first:last`.

    The component c is drawn with probability share_c, its page with P(page | query, c). Components that kernels do not
    know get length 0.
    """
    state = np.empty(1, np.uint64)
    n_queries = len(offsets) - 1
    for i in range(first, last):
        start_stream(state, sessions.key, sessions.begin + i)
        q = sessions.queries[i]
        n = offsets[q + 1] - offsets[q]
        c = draw_component(policy.shares, state)
        number, length = -1, 0
        if policy.kinds[c] >= 0:
            if policy.kinds[c] == LISTED:
                first_page, last_page = listed_pages(policy, c, q, n_queries)
                number = draw_listed(policy.page_probabilities[first_page:last_page], state)
            elif policy.kinds[c] != PLACKETT_LUCE:
                number = draw_ranked(policy.kinds[c], policy.values[c], count_pages(policy, c, q, n, n_queries), state)
            length = page_length(policy, c, q, n, number, n_queries)
        chosen[0, i], chosen[1, i], chosen[2, i] = c, number, length


@exact_kernel
def fill_pages(
    first: int, last: int, turn: Array, sessions: Sessions, offsets: Array, policy: Any, drawn: DrawnPages
) -> None:
    """Write the chosen pages of the sessions `turn[first:last]` to `drawn.docs`."""
    n_queries = len(offsets) - 1
    state = np.empty(1, np.uint64)
    longest = longest_of(_ZERO, n_queries, offsets)
    drawer = new_drawer(longest)
    loaded = np.int64(-1)
    component = np.int64(-1)
    for t in range(first, last):
        i = turn[t]
        q, c, number = sessions.queries[i], drawn.chosen[0, i], drawn.chosen[1, i]
        kind = policy.kinds[c]
        if kind < 0:
            continue
        row = offsets[q]
        page = drawn.docs[drawn.offsets[i] : drawn.offsets[i + 1]]
        if kind == PLACKETT_LUCE:
            logits = policy.scores[row : offsets[q + 1]]
            if loaded != q or component != c:
                load(logits, policy.values[c], len(page), drawer)
                loaded, component = q, c
            start_stream(state, sessions.key ^ _OTHER, sessions.begin + i)
            placed = draw_by_alias(drawer, state, page)
            if placed < len(page):
                draw_by_tree(logits, policy.values[c], placed, drawer, state, page)
        elif kind == LISTED:
            at = listed_pages(policy, c, q, n_queries)[0] + number
            fill_listed(listed_places(policy, at), page)
        else:
            fill_ranked(kind, policy.ks[c], number, policy.order[row : offsets[q + 1]], page)
        for j in range(len(page)):
            page[j] += row
