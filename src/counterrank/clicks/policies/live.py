"""One page for one query in a live service, fast: what is not on the page is not sorted, or counted once for all."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.examination import Examination, lines_of
from counterrank.clicks.policies import page_kernels as kernels
from counterrank.clicks.policies.page_kernels import (
    INSERT,
    LISTED,
    draw_component,
    draw_listed,
    listed_pages,
    listed_places,
    probability_at,
    propensity_at,
)
from counterrank.clicks.policies.pages import PageSource, check_scores, components_of, knows_propensity
from counterrank.clicks.policies.propensity import plackett_luce_page
from counterrank.common.checks import FloatArray, IntArray, check_vector
from counterrank.common.errors import CounterrankError
from counterrank.common.jit import Array, exact_allocating_kernel, exact_inner_kernel, exact_kernel
from counterrank.common.random import below, seed_key, start_stream, uniform
from counterrank.common.ranking import rank_order

# up to this many, a sorted list of the best so far beats ranking all documents
_SHORT = 64
# up to this ratio of the squared length of the page to the candidates, propensities of the page alone cost less
_SHARED = 4
_ZERO: Any = np.int64(0)  # numba compiles whatever is called with a literal number once more for that
_ONE: Any = np.int64(1)


@exact_allocating_kernel
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


@exact_allocating_kernel
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
def show(policy: Any, depth: int, theta: Array, key: np.uint64) -> Any:
    """The page, and for each of its documents the propensity and the probability of being shown there.

    `depth` is the longest page by rank that any component makes: the order beyond it makes no difference.
    """
    n = len(policy.scores)
    state = np.empty(1, np.uint64)
    start_stream(state, key, _ZERO)
    top = top_places(policy.scores, depth)
    c = draw_component(policy.shares, state)
    page = _draw(policy, c, n, top, state)
    old_ranks = np.full(n, depth + 1)
    for i in range(depth):
        old_ranks[top[i]] = i + 1
    propensities = np.zeros(len(page))
    probabilities = np.zeros(len(page))
    for part in range(len(policy.kinds)):
        if policy.kinds[part] == LISTED:
            _add_listed(policy, part, page, theta, propensities, probabilities)
        else:
            _add_ranked(policy, part, n, page, old_ranks, theta, propensities, probabilities)
    return page, propensities, probabilities


@exact_allocating_kernel
def _draw(policy: Any, c: int, n: int, top: Array, state: Array) -> Any:
    """A page of component `c`, as `page_kernels` describes it; `top` are the places of the best documents by rank."""
    kind = policy.kinds[c]
    if kind == LISTED:
        begin, end = listed_pages(policy, c, _ZERO, _ONE)
        at = begin + draw_listed(policy.page_probabilities[begin:end], state)
        return listed_places(policy, at).copy()
    k = policy.ks[c]
    length = min(k, n)
    page = top[:length].copy()
    if kind == INSERT and n >= k:
        slot = below(state, length)
        drawn = outside(top[: length - 1], n, state)
        for i in range(length - 1, slot, -1):
            page[i] = page[i - 1]
        page[slot] = drawn
    elif kind != INSERT and n > k and uniform(state) < policy.values[c]:
        page[length - 1] = outside(top[: length - 1], n, state)
    return page


@exact_inner_kernel
def _add_ranked(
    policy: Any, c: int, n: int, page: Array, old_ranks: Array, theta: Array, propensities: Array, probabilities: Array
) -> None:
    """Add share * P(examined) and share * P(shown at its rank) of each shown document, for LAST and INSERT."""
    kind, k, value, share = policy.kinds[c], policy.ks[c], policy.values[c], policy.shares[c]
    length = min(k, n)
    total = 0.0
    for rank in range(length):
        total += theta[rank]
    for i in range(len(page)):
        old_rank = old_ranks[page[i]]
        propensities[i] += share * propensity_at(kind, k, value, n, old_rank, theta, total / length)
        probabilities[i] += share * probability_at(kind, k, value, n, old_rank, i + 1)


@exact_inner_kernel
def _add_listed(policy: Any, c: int, page: Array, theta: Array, propensities: Array, probabilities: Array) -> None:
    """The same for LISTED: sums over its pages of their probability, times theta where the document stands."""
    share, table = policy.shares[c], policy.tables[c]
    for other in range(policy.first_page[table], policy.first_page[table + 1]):
        start = policy.page_offsets[other]
        for j in range(start, policy.page_offsets[other + 1]):
            for i in range(len(page)):
                if policy.page_places[j] == page[i]:
                    propensities[i] += share * policy.page_probabilities[other] * theta[j - start]
                    if j - start == i:
                        probabilities[i] += share * policy.page_probabilities[other]


@dataclass(frozen=True)
class Page:
    """One displayed page, with the values to log.

    Attributes:
        docs: the documents from rank 1 down, as places in the scores that were given.
        ranks: their ranks, from 1.
        propensities: P(examined | query, policy) of each.
        display_probabilities: P(shown at this rank | query, policy) of each.
    """

    docs: IntArray
    ranks: IntArray
    propensities: FloatArray
    display_probabilities: FloatArray


def display(policy: Any, scores: ArrayLike, exam: Any, seed: int | np.random.Generator) -> Page:
    """See `Policy.display`."""
    curve = lines_of(exam)[0]
    ready = _prepared(policy)
    given = check_vector(scores, None, "scores") if ready is not None else check_scores(policy, scores)
    n = given.shape[-1]
    if not n:
        raise CounterrankError("scores: none; expected at least one candidate")
    if ready is None:
        return _slow_display(policy, given, curve, seed)
    if n < ready.smallest:
        raise CounterrankError(f"policy: document {ready.smallest - 1} on a page of a query with {n} documents")
    _check_reach(curve, min(ready.longest, n), policy)
    arrays = ready.arrays._replace(scores=given)
    return _page(*show(arrays, min(ready.deepest, n), _curve(curve, n), seed_key(seed)))


class _Ready(NamedTuple):
    """What does not depend on the scores."""

    arrays: kernels.PolicyArrays
    deepest: int  # the longest page by rank
    smallest: int  # how many documents the listed pages need
    longest: int  # the longest page of all, where the query has documents enough


@lru_cache(maxsize=64)
def _curve(exam: Examination, n: int) -> FloatArray:
    return exam.curve(n)


def _prepared(policy: Any) -> _Ready | None:
    """What does not depend on the scores, kept on the policy; None where kernels cannot draw the page."""
    if not hasattr(policy, "_ready"):
        components = components_of(policy)
        quick = not any(
            part.custom is not None or part.interleaved or part.kind == kernels.PLACKETT_LUCE for part in components
        )
        object.__setattr__(policy, "_ready", _lay_out_one(policy) if quick else None)
    ready: _Ready | None = policy._ready
    return ready


def _lay_out_one(policy: Any) -> _Ready:
    tables = [part.listed.get(None, ([], [])) for part in components_of(policy) if part.listed]
    n = 1 + max((max(page) for pages, _ in tables for page in pages), default=0)
    arrays = PageSource.make(policy, np.zeros(n), [0, n]).arrays
    by_rank = (arrays.kinds == kernels.LAST) | (arrays.kinds == kernels.INSERT)
    return _Ready(arrays, int(arrays.ks[by_rank].max(initial=0)), n, _longest_page(policy))


def _longest_page(policy: Any) -> int:
    """How many documents the longest page holds, as far as the policy says it before a page is drawn."""
    known = [part for part in components_of(policy) if part.custom is None]
    listed = [len(page) for part in known if part.listed for page in part.listed.get(None, ([], []))[0]]
    return max([*listed, *(part.k for part in known if part.listed is None)], default=0)


def _check_reach(exam: Examination, length: int, policy: Any) -> None:
    """An error where the curve ends before the page does: propensities of 0 would be logged for what users may see."""
    if exam.k is not None and length > exam.k:
        raise CounterrankError(
            f"exam: {exam.k} rank{'s' if exam.k > 1 else ''}, but {policy!r:.60} shows pages of {length}, and ranks "
            f"beyond the curve would be logged with propensity 0; expected a curve of {length} ranks or more, or a "
            f"policy with k={exam.k} at most"
        )


def _slow_display(policy: Any, scores: FloatArray, exam: Examination, seed: int | np.random.Generator) -> Page:
    """For policies whose pages cannot be counted: everything of the whole query, of which the page takes its part."""
    if not knows_propensity(policy):
        raise CounterrankError(
            f"policy: {type(policy).__name__} has no `propensity`, so there is nothing to log with a page; "
            "expected one, or `sample` and propensities estimated beforehand"
        )
    n = scores.shape[-1]
    offsets = np.array([0, n])
    _check_reach(exam, min(_longest_page(policy), n), policy)
    docs, _ = policy.sample(scores, offsets, seed=seed)
    _check_reach(exam, len(docs), policy)  # the length of a custom policy's page is known once it is drawn
    parts = components_of(policy)
    is_plackett_luce = len(parts) == 1 and parts[0].kind == kernels.PLACKETT_LUCE and policy.estimates_propensity
    if is_plackett_luce and len(docs) ** 2 <= _SHARED * n:
        rho, shown = np.empty((2, len(docs)))
        plackett_luce_page(scores / parts[0].value, np.array(_curve(exam, len(docs))), docs, rho, shown)
        return _page(docs, np.minimum(rho, 1.0), shown)
    shares = policy.rank_probabilities(scores, offsets, len(docs))
    return _page(docs, policy.propensity(scores, offsets, exam)[docs], shares[docs, np.arange(len(docs))])


def _page(docs: IntArray, propensities: FloatArray, probabilities: FloatArray) -> Page:
    return Page(docs, np.arange(1, len(docs) + 1), propensities, np.minimum(probabilities, 1.0))
