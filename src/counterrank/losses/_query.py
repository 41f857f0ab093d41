"""The value and gradient of any built-in loss on one query, and loops of it over queries.

Training and the public functions call the same `query_loss`; what differs between losses is told by plain numbers
(see `losses.spec`), so that one compiled kernel serves them all. A `curvature` of None has numba leave out what is
for second-order terms.
"""

from __future__ import annotations

import math

import numpy as np

from counterrank.common.jit import Array, kernel
from counterrank.common.ranking import longest_of, rank_order
from counterrank.losses._bounds import (
    arp_alpha,
    dcg_alpha,
    hinge_bounds,
    hinge_curvature,
    hinge_gradient,
    logistic_bound,
    logistic_curvature,
    logistic_gradient,
)
from counterrank.losses._pairs import banded, by_upper, by_weighted, gather_weighted, part_of

HINGE, LOGISTIC, LAMBDALOSS, LAMBDARANK = 0, 1, 2, 3
ARP, DCG = 0, 1

# No second-order term is less than this share of the gradient, so that no Newton step is longer than its inverse.
LEAST_CURVATURE = 0.05


@kernel
def scratch(n: int) -> tuple[Array, Array]:
    """Room for a query of up to `n` documents."""
    return np.empty((10, n + 1), np.float64), np.empty((4, n + 1), np.int64)


@kernel
def _alpha(kind: int, rank: float) -> tuple[float, float]:
    if kind == ARP:
        return arp_alpha(rank)
    return dcg_alpha(math.log(1.0 + rank), rank)


@kernel
def _monotonic_hinge(
    alpha: int,
    k: int,
    scores: Array,
    weights: Array,
    order: Array,
    gradient: Array,
    curvature: Array | None,
    floats: Array,
    ints: Array,
) -> float:
    n = len(scores)
    ranked, bounds, slopes, ranked_gradient, spare = floats[0], floats[1], floats[2], floats[3], floats[4]
    reach = ints[3]
    for i in range(n):
        ranked[i] = scores[order[i]]
    hinge_bounds(n, ranked, bounds, reach)
    value = 0.0
    beyond = _alpha(alpha, float(k))[0] if k < n else 0.0
    for i in range(n):
        weight = weights[order[i]]
        slopes[i] = 0.0
        if weight != 0.0:
            level, slope = _alpha(alpha, bounds[i])
            value -= weight * (level - (beyond if i >= k else 0.0))
            slopes[i] = -weight * slope
    hinge_gradient(n, slopes, reach, ranked_gradient, spare)
    for i in range(n):
        gradient[order[i]] = ranked_gradient[i]
    if curvature is not None:
        hinge_curvature(n, slopes, reach, ranked_gradient, spare)
        for i in range(n):
            curvature[order[i]] = ranked_gradient[i]
    return value


@kernel
def _monotonic_logistic(
    alpha: int,
    k: int,
    scores: Array,
    weights: Array,
    order: Array,
    gradient: Array,
    curvature: Array | None,
    floats: Array,
) -> float:
    n = len(scores)
    steepness, bends = floats[0][:n], None if curvature is None else floats[1][:n]
    gradient[:] = 0.0
    if curvature is not None:
        curvature[:] = 0.0
    value = 0.0
    for i in range(n):
        if weights[i] != 0.0:
            bound = logistic_bound(scores[i], scores, steepness, bends)
            level, slope = _alpha(alpha, bound)
            value -= weights[i] * level
            logistic_gradient(i, -weights[i] * slope, steepness, gradient)
            if curvature is not None and bends is not None:
                logistic_curvature(i, -weights[i] * slope, bends, curvature)
    if k < n:
        beyond = _alpha(alpha, float(k))[0]
        for i in range(k, n):
            value += weights[order[i]] * beyond
    return value


@kernel
def _lambda(
    swap: bool,
    k: int,
    band: int,
    table: Array,
    scores: Array,
    weights: Array,
    order: Array,
    gradient: Array,
    curvature: Array | None,
    floats: Array,
    ints: Array,
) -> float:
    n = len(scores)
    ranked, ranked_weights, ranked_gradient = floats[0], floats[1], floats[2]
    ranked_curvature = None if curvature is None else floats[7]
    spare_curvature = None if curvature is None else floats[8]
    for i in range(n):
        ranked[i] = scores[order[i]]
        ranked_weights[i] = weights[order[i]]
    ranked_gradient[:n] = 0.0
    if ranked_curvature is not None:
        ranked_curvature[:n] = 0.0
    c = gather_weighted(n, ranked, ranked_weights, ints[3], floats[3], floats[4])
    if not swap and band < c and k >= n:
        value = banded(
            n, ranked, ranked_weights, table, band, ranked_gradient, ranked_curvature, floats[5], spare_curvature
        )
    elif 4 * c < n and k >= n and band >= n - 1:
        value = by_weighted(
            n, swap, table, ranked, ranked_weights, c, ints[3], ranked_gradient, ranked_curvature, floats[6]
        )
    else:
        value = by_upper(
            n, k, band, swap, table, ranked, ranked_weights, c, ints[3], floats[3], floats[4], ranked_gradient,
            ranked_curvature, floats[5], spare_curvature, floats[6],
        )  # fmt: skip
    for i in range(n):
        gradient[order[i]] = ranked_gradient[i]
        if curvature is not None and ranked_curvature is not None:
            curvature[order[i]] = ranked_curvature[i]
    return value


@kernel
def query_loss(
    kind: int,
    alpha: int,
    k: int,
    band: int,
    table: Array,
    scores: Array,
    weights: Array,
    gradient: Array,
    curvature: Array | None,
    floats: Array,
    ints: Array,
) -> float:
    """Value of the loss on one query; `gradient` is overwritten with d value / d scores, `curvature` with its like."""
    order = ints[0]
    if kind != LOGISTIC or k < len(scores):
        rank_order(scores, order, ints[1], ints[2])
    if kind == HINGE:
        return _monotonic_hinge(alpha, k, scores, weights, order, gradient, curvature, floats, ints)
    if kind == LOGISTIC:
        return _monotonic_logistic(alpha, k, scores, weights, order, gradient, curvature, floats)
    return _lambda(kind == LAMBDARANK, k, band, table, scores, weights, order, gradient, curvature, floats, ints)


@kernel
def loss_of_queries(
    first: int,
    last: int,
    offsets: Array,
    kind: int,
    alpha: int,
    k: int,
    band: int,
    table: Array,
    scores: Array,
    weights: Array,
    values: Array,
    gradient: Array,
    curvature: Array | None,
) -> None:
    """`query_loss` of each of the queries `first:last`; second-order terms are kept above `LEAST_CURVATURE`."""
    floats, ints = scratch(longest_of(first, last, offsets))
    for q in range(first, last):
        start, end = offsets[q], offsets[q + 1]
        values[q] = query_loss(
            kind, alpha, k, band, table, scores[start:end], weights[start:end], gradient[start:end],
            part_of(curvature, start, end), floats, ints,
        )  # fmt: skip
        if curvature is not None:
            for i in range(start, end):
                curvature[i] = max(curvature[i], LEAST_CURVATURE * abs(gradient[i]))


@kernel
def bounds_of_queries(
    first: int, last: int, offsets: Array, logistic: bool, scores: Array, weights: Array, bounds: Array, ranks: Array
) -> None:
    """The rank bound of each document of non-zero weight (1 for the others), and the rank of each document."""
    floats, ints = scratch(longest_of(first, last, offsets))
    order, reach = ints[0], ints[3]
    for q in range(first, last):
        start, n = offsets[q], offsets[q + 1] - offsets[q]
        own, own_weights = scores[start : start + n], weights[start : start + n]
        rank_order(own, order, ints[1], ints[2])
        for i in range(n):
            floats[0][i] = own[order[i]]
        if not logistic:
            hinge_bounds(n, floats[0], floats[1], reach)
        for i in range(n):
            doc = order[i]
            ranks[start + doc] = i + 1
            bounds[start + doc] = 1.0
            if own_weights[doc] != 0.0:
                bounds[start + doc] = logistic_bound(own[doc], own, floats[2][:n], None) if logistic else floats[1][i]


@kernel
def backward_of_queries(
    first: int, last: int, offsets: Array, logistic: bool, scores: Array, slopes: Array, gradient: Array
) -> None:
    """The gradient for the scores, given d loss / d bound of each document."""
    floats, ints = scratch(longest_of(first, last, offsets))
    order, reach = ints[0], ints[3]
    for q in range(first, last):
        start, n = offsets[q], offsets[q + 1] - offsets[q]
        own, own_slopes, own_gradient = (
            scores[start : start + n],
            slopes[start : start + n],
            gradient[start : start + n],
        )
        own_gradient[:] = 0.0
        if logistic:
            for i in range(n):
                if own_slopes[i] != 0.0:
                    logistic_bound(own[i], own, floats[0][:n], None)
                    logistic_gradient(i, own_slopes[i], floats[0][:n], own_gradient)
        else:
            rank_order(own, order, ints[1], ints[2])
            for i in range(n):
                floats[0][i] = own[order[i]]
                floats[2][i] = own_slopes[order[i]]
            hinge_bounds(n, floats[0], floats[1], reach)
            hinge_gradient(n, floats[2], reach, floats[3], floats[4])
            for i in range(n):
                own_gradient[order[i]] = floats[3][i]
