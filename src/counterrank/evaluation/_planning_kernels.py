"""Kernels of planning: how clicks on one page vary together, from every page a policy can show."""

from __future__ import annotations

from typing import Any

from counterrank.clicks.policies._plan import INSERT, LISTED, head_and_tail, listed_pages
from counterrank.common.jit import Array, exact_kernel


@exact_kernel
def add_joint_terms(
    first: int, last: int, offsets: Array, plan: Any, c: int, theta: Array, worth: Array, n_queries: int, out: Array
) -> None:
    """Add share * E[sum over ranks r != s of m_r * m_s] of component `c`, for each query and column; exact.

    m_r is theta_r times the worth of the document on rank r. Not for Plackett-Luce, whose pages are too many.
    """
    kind, k, value, share = plan.kinds[c], plan.ks[c], plan.values[c], plan.shares[c]
    for q in range(first, last):
        own = worth[offsets[q] : offsets[q + 1]]
        for m in range(worth.shape[1]):
            if kind == LISTED:
                begin, end = listed_pages(plan, c, q, n_queries)
                for page in range(begin, end):
                    places = plan.page_places[plan.page_offsets[page] : plan.page_offsets[page + 1]]
                    out[q, m] += share * plan.page_probabilities[page] * _of_page(places, own[:, m], theta)
            else:
                order = plan.order[offsets[q] : offsets[q + 1]]
                if kind == INSERT and len(order) >= k:
                    out[q, m] += share * _of_inserted(order, k, own[:, m], theta)
                else:
                    epsilon = 0.0 if kind == INSERT else value
                    out[q, m] += share * _of_replaced(order, k, epsilon, own[:, m], theta)


@exact_kernel
def _of_page(places: Array, worth: Array, theta: Array) -> float:
    """(sum of m)^2 - sum of m^2 of one page."""
    total, squares = 0.0, 0.0
    for rank in range(len(places)):
        term = theta[rank] * worth[places[rank]]
        total += term
        squares += term * term
    return total * total - squares


@exact_kernel
def _mean_of_tail(order: Array, length: int, tail: int, worth: Array) -> float:
    mean = 0.0
    for place in order[length - 1 : length - 1 + tail]:
        mean += worth[place] / tail
    return mean


@exact_kernel
def _of_replaced(order: Array, k: int, epsilon: float, worth: Array, theta: Array) -> Any:
    """The head stays; the last place is linear in the document drawn for it, so its mean is enough."""
    length, tail = head_and_tail(0, k, len(order))
    drawn = (1.0 - epsilon) * worth[order[length - 1]]
    if epsilon > 0.0:
        drawn += epsilon * _mean_of_tail(order, length, tail, worth)
    total = 0.0
    for rank in range(length - 1):
        total += theta[rank] * worth[order[rank]]
    return _of_page(order[: length - 1], worth, theta) + 2.0 * total * theta[length - 1] * drawn


@exact_kernel
def _of_inserted(order: Array, k: int, worth: Array, theta: Array) -> float:
    """The mean over the ranks of the inserted document; the head moves down one rank at and below it."""
    length, tail = head_and_tail(INSERT, k, len(order))
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
    pages: int,
    share: float,
    theta: Array,
    worth: Array,
    out: Array,
) -> None:
    """As `add_joint_terms` from drawn pages: pages `q * pages` to `(q + 1) * pages` are those of query `q`."""
    for q in range(first, last):
        for page in range(q * pages, (q + 1) * pages):
            shown = docs[page_offsets[page] : page_offsets[page + 1]]
            for m in range(worth.shape[1]):
                out[q, m] += share * _of_page(shown, worth[:, m], theta)
