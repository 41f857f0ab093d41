"""Mean and variance, over the pages of a policy, of a weighted sum over the clicks of one session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.clicks.policies import page_kernels as kernels
from counterrank.clicks.policies.page_kernels import INSERT, LISTED, head_and_tail, listed_pages
from counterrank.clicks.policies.pages import PageSource
from counterrank.common.checks import FloatArray
from counterrank.common.jit import Array, exact_inner_kernel, exact_kernel
from counterrank.common.parallel import for_queries, for_range
from counterrank.common.random import derive_key, seed_key


@exact_kernel
def add_joint_terms(
    first: int, last: int, offsets: Array, policy: Any, c: int, theta: Array, worth: Array, out: Array
) -> None:
    """Add share * E[sum over ranks r != s of m_r * m_s] of component `c`, for each query and column; exact.

    m_r is theta_r times the worth of the document on rank r. Not for Plackett-Luce, whose pages are too many.
    """
    kind, k, value, share = policy.kinds[c], policy.ks[c], policy.values[c], policy.shares[c]
    for q in range(first, last):
        own = worth[offsets[q] : offsets[q + 1]]
        for m in range(worth.shape[1]):
            if kind == LISTED:
                begin, end = listed_pages(policy, c, q, len(offsets) - 1)
                for page in range(begin, end):
                    places = policy.page_places[policy.page_offsets[page] : policy.page_offsets[page + 1]]
                    out[q, m] += share * policy.page_probabilities[page] * _page_products(places, own[:, m], theta)
            else:
                order = policy.order[offsets[q] : offsets[q + 1]]
                if kind == INSERT and len(order) >= k:
                    out[q, m] += share * _inserted_products(order, kind, k, own[:, m], theta)
                else:
                    epsilon = 0.0 if kind == INSERT else value
                    out[q, m] += share * _replaced_products(order, k, epsilon, own[:, m], theta)


@exact_inner_kernel
def _page_products(places: Array, worth: Array, theta: Array) -> float:
    """(sum of m)^2 - sum of m^2 of one page."""
    total, squares = 0.0, 0.0
    for rank in range(len(places)):
        term = theta[rank] * worth[places[rank]]
        total += term
        squares += term * term
    return total * total - squares


@exact_inner_kernel
def _mean_of_tail(order: Array, length: int, tail: int, worth: Array) -> float:
    """sum of worth / tail over the `tail` documents from rank `length` on, of which one is drawn for the page."""
    mean = 0.0
    for place in order[length - 1 : length - 1 + tail]:
        mean += worth[place] / tail
    return mean


@exact_inner_kernel
def _replaced_products(order: Array, k: int, epsilon: float, worth: Array, theta: Array) -> Any:
    """E[sum over r != s of m_r m_s] = sum over r != s < k of m_r m_s + 2 (sum over r < k of m_r) theta_k E[worth_k].

    Ranks above k are fixed. E[worth_k] = (1 - epsilon) worth(own document) + epsilon (mean worth of the tail).
    """
    length = min(k, len(order))
    tail = len(order) - length + 1
    drawn = (1.0 - epsilon) * worth[order[length - 1]]
    if epsilon > 0.0:
        drawn += epsilon * _mean_of_tail(order, length, tail, worth)
    total = 0.0
    for rank in range(length - 1):
        total += theta[rank] * worth[order[rank]]
    return _page_products(order[: length - 1], worth, theta) + 2.0 * total * theta[length - 1] * drawn


@exact_inner_kernel
def _inserted_products(order: Array, kind: int, k: int, worth: Array, theta: Array) -> float:
    """E[sum over r != s of m_r m_s] = 1/k sum over slots j of (T_j^2 - Q_j + 2 T_j theta_j E[worth of the tail]).

    T_j and Q_j are the sums of m and m^2 over the head, whose documents from rank j on are one rank lower.
    """
    length, tail = head_and_tail(kind, k, len(order))
    drawn = _mean_of_tail(order, length, tail, worth)
    total, squares, mean = 0.0, 0.0, 0.0
    for i in range(length - 1):  # inserted at the top: all of the head one rank lower
        term = theta[i + 1] * worth[order[i]]
        total += term
        squares += term * term
    for slot in range(length):
        mean += (total * total - squares + 2.0 * total * theta[slot] * drawn) / length
        if slot + 1 < length:
            lower, upper = theta[slot + 1] * worth[order[slot]], theta[slot] * worth[order[slot]]
            total += upper - lower
            squares += upper * upper - lower * lower
    return mean


@exact_kernel
def add_sampled_terms(
    first: int,
    last: int,
    page_offsets: Array,
    docs: Array,
    share: float,
    theta: Array,
    worth: Array,
    out: Array,
) -> None:
    """Add share * sum over drawn pages of (sum over ranks r != s of m_r * m_s), for each query and column.

    Equally many pages of each query, one query after the other; `share` is that of the component over their number.
    """
    pages = (len(page_offsets) - 1) // len(out)
    for q in range(first, last):
        for page in range(q * pages, (q + 1) * pages):
            shown = docs[page_offsets[page] : page_offsets[page + 1]]
            for m in range(worth.shape[1]):
                out[q, m] += share * _page_products(shown, worth[:, m], theta)


_PAGES = 200_000  # drawn in all, where pages must be drawn
_FEWEST_PAGES = 64  # sampled for each query
_MOST_CALLS = 2_000  # of a policy of the user's own, each of which draws a page for every query
_AT_ONCE = 1 << 18  # pages held in memory


@dataclass(frozen=True, eq=False)
class SessionMoments:
    """Of Y = sum over the page of click * value, the click being one given that the document is examined."""

    means: FloatArray  # E[Y | query], (n_queries, n_columns)
    variances: FloatArray  # Var(Y | query), the same shape; from sampled pages one may come out a little below 0
    sampled_pages: int  # of each query; 0 where moments are exact


def session_moments(
    source: PageSource,
    rho: FloatArray,
    theta: FloatArray,
    attraction: FloatArray,
    values: FloatArray,
    seed: int | np.random.Generator = 0,
) -> SessionMoments:
    """Mean and variance of Y, the sum of the values of the clicks of a session, for each query.

        E[Y]   = sum over d of a_d rho_d v_d
        Var(Y) = sum over d of a_d rho_d v_d^2 + E[sum over ranks r != s of m_r m_s] - E[Y]^2
        m_r    = theta_r a_d v_d        d being the document on rank r

    a is P(click | examined) and clicks are independent given the page. The middle term is for the covariance of the
    documents on one page: exact where the pages of a policy can be enumerated, from sampled pages for Plackett-Luce and
    for policies of the user's own. The first term, which outweighs it, is always exact.

    Arguments:
        source: the policy's pages.
        rho: P(examined) of each document.
        theta: P(examined | rank), for the longest query.
        attraction: P(click | examined) of each document.
        values: what a click on each document is worth, (n_docs, n_columns).
        seed: of sampled pages.
    """
    starts = source.offsets[:-1]
    worth = np.ascontiguousarray(attraction[:, None] * values)
    means = np.add.reduceat(rho[:, None] * worth, starts, axis=0)
    squares = np.add.reduceat(rho[:, None] * worth * values, starts, axis=0)
    joint = np.zeros_like(means)
    sampled = 0
    for c, part in enumerate(source.parts):
        if part.custom is None and part.kind != kernels.PLACKETT_LUCE:
            args = (source.arrays, c, theta, worth, joint)
            for_queries(add_joint_terms, source.offsets, *args, threads=source.threads)
        else:
            own = slice(c, c + 1)
            arrays = source.arrays._replace(
                kinds=source.arrays.kinds[own],
                ks=source.arrays.ks[own],
                values=source.arrays.values[own],
                shares=np.ones(1),
                tables=source.arrays.tables[own],
            )
            alone = PageSource(arrays, source.offsets, [part], source.width, source.threads)
            key = derive_key(seed_key(seed), c)
            sampled = _add_sampled(alone, part.share, key, theta, worth, joint)
    return SessionMoments(means, squares + joint - means**2, sampled)


def _add_sampled(
    source: PageSource, share: float, key: Any, theta: FloatArray, worth: FloatArray, out: FloatArray
) -> int:
    """Add the joint terms of a component by drawing pages; returns how many of each query."""
    n_queries = len(source.offsets) - 1
    pages_per_query = max(_FEWEST_PAGES, -(-_PAGES // n_queries))
    if not source.is_built_in:
        pages_per_query = min(pages_per_query, _MOST_CALLS)
    at_once = max(1, _AT_ONCE // n_queries)
    for begin in range(0, pages_per_query, at_once):
        pages = min(at_once, pages_per_query - begin)
        queries = np.repeat(np.arange(n_queries), pages)
        page_offsets, docs = source.draw(queries, key, begin * n_queries)
        args = (page_offsets, docs, share / pages_per_query, theta, worth, out)
        for_range(add_sampled_terms, n_queries, *args, threads=source.threads)
    return pages_per_query
