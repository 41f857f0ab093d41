"""Gradient of the variance of an estimated difference with respect to Plackett-Luce scores, from drawn pages."""

from __future__ import annotations

import math

import numpy as np

from counterrank.common.jit import Array, exact_inner_kernel, exact_kernel
from counterrank.common.random import start_stream, uniform


@exact_kernel
def variance_gradients(
    first: int,
    last: int,
    offsets: Array,
    logits: Array,
    rho: Array,
    theta: Array,
    attraction: Array,
    values: Array,
    key: np.uint64,
    pages: int,
    gradient: Array,
    moments: Array,
) -> None:
    """Fill `moments` with J = E[Y^2 | query] and `gradient` with dJ / d logits, from `pages` pages of each query.

        Y = sum over the page of click * v_d / rho_d,   m_x = theta_x a_d v_d / rho_d for d at rank x
        J = sum over d of a_d v_d^2 / rho_d + E[sum over ranks x != y of m_x m_y]

    The first sum is exact, as rho is. By the chain rule dJ is the gradient of an expected reward of pages,

        R_x = theta_x c_d + 2 m_x sum over ranks above x of m,     c_d = dJ / d rho_d at fixed pages

    whose score function is sum over x of e_(y_x) - softmax of what is left at x. Only rewards from x on count for the
    choice at x (Sutton et al. 1999; for rankings Oosterhuis 2021, PL-Rank); the expectation of R_x over the choice is
    exact, and the mean of later rewards over all pages is their baseline.

    Arguments:
        offsets: of the queries, among the documents that may be drawn.
        logits: of the Plackett-Luce policy.
        rho: P(examined) under it, above 0.
        theta: P(examined | rank), as long as a page.
        attraction: a, P(click | examined) of each document.
        values: v, the difference of the two rankers' lambda.
        key: of the random streams; a query has its own.
        pages: to draw of each query.
    """
    longest = 0
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    depth = min(len(theta), longest)
    state = np.empty(1, np.uint64)
    odds, worth, slope, left, reward = np.empty((5, longest))
    drawn = np.empty((pages, depth), np.int64)
    later = np.empty((pages, depth + 1))
    baseline = np.empty(depth + 1)
    for q in range(first, last):
        begin, end = offsets[q], offsets[q + 1]
        n = end - begin
        k = min(len(theta), n)
        largest = -np.inf
        for d in range(n):
            largest = max(largest, logits[begin + d])
        direct = 0.0
        for d in range(n):
            row = begin + d
            odds[d] = math.exp(logits[row] - largest)
            worth[d] = attraction[row] * values[row] / rho[row]
            direct += worth[d] * values[row]
            slope[d] = 0.0
            gradient[row] = 0.0
        start_stream(state, key, q)
        joint = 0.0
        for page in range(pages):
            _draw(odds[:n], state, drawn[page, :k], left)
            total, squares = 0.0, 0.0
            for x in range(k):
                term = theta[x] * worth[drawn[page, x]]
                total += term
                squares += term * term
            joint += total * total - squares
            for x in range(k):
                d = drawn[page, x]
                term = theta[x] * worth[d]
                slope[d] += term * (total - term)
        moments[q] = direct + joint / pages
        for d in range(n):
            row = begin + d
            slope[d] = -(worth[d] * values[row] + 2.0 * slope[d] / pages) / rho[row]
        baseline[: k + 1] = 0.0
        for page in range(pages):
            _rewards_to_go(drawn[page, :k], theta, worth, slope, later[page])
            for x in range(k + 1):
                baseline[x] += later[page, x] / pages
        for page in range(pages):
            _add_page(
                drawn[page, :k], theta, odds[:n], worth, slope, later[page], baseline, left, reward,
                1.0 / pages, gradient[begin:end],
            )  # fmt: skip


@exact_inner_kernel
def _draw(odds: Array, state: Array, page: Array, left: Array) -> None:
    """Draw documents without replacement, each time with probability proportional to what is left of the odds."""
    n = len(odds)
    for d in range(n):
        left[d] = odds[d]
    for x in range(len(page)):
        total, chosen = 0.0, -1
        for d in range(n):
            total += left[d]
        aim = uniform(state) * total
        for d in range(n):
            if left[d] > 0.0:
                chosen = d
                aim -= left[d]
                if aim < 0.0:
                    break
        page[x] = chosen
        left[chosen] = 0.0


@exact_inner_kernel
def _rewards_to_go(page: Array, theta: Array, worth: Array, slope: Array, later: Array) -> None:
    """later_x = sum of R_y over ranks y from x on; `later` has one place more than the page, which stays 0."""
    k = len(page)
    above = 0.0
    for x in range(k):
        term = theta[x] * worth[page[x]]
        later[x] = theta[x] * slope[page[x]] + 2.0 * term * above
        above += term
    later[k] = 0.0
    for x in range(k - 1, -1, -1):
        later[x] += later[x + 1]


@exact_inner_kernel
def _add_page(
    page: Array,
    theta: Array,
    odds: Array,
    worth: Array,
    slope: Array,
    later: Array,
    baseline: Array,
    left: Array,
    reward: Array,
    share: float,
    gradient: Array,
) -> None:
    """Add to the gradient, for each rank x with p the softmax of what is left:

    [d = y_x] (later_(x+1) - baseline_(x+1)) + p_d (R_x(d) - E_p[R_x] - later_(x+1) + baseline_(x+1))
    """
    n = len(odds)
    for d in range(n):
        left[d] = odds[d]
    above = 0.0
    for x in range(len(page)):
        total, mean = 0.0, 0.0
        for d in range(n):
            reward[d] = theta[x] * (slope[d] + 2.0 * worth[d] * above)
            total += left[d]
            mean += left[d] * reward[d]
        mean /= total
        after = later[x + 1] - baseline[x + 1]
        gradient[page[x]] += share * after
        for d in range(n):
            gradient[d] += share * left[d] / total * (reward[d] - mean - after)
        above += theta[x] * worth[page[x]]
        left[page[x]] = 0.0
