"""Kernels for losses over pairs of documents: LambdaLoss and LambdaRank, one query at a time.

Everything here is in rank order: `scores` and `weights` are sorted so that place 0 is rank 1. For a pair the upper
document has z = s_upper - s_lower >= 0, so exp(-z) never overflows. A pair adds

    factor * |w_upper - w_lower| * log2(1 + exp(s_worse - s_better)),

where `better` is the one of larger weight and `factor` is the pair's share in the metric.

`curvature` gets the second derivatives for each document's own score, or is None: then numba leaves them out.
"""

from __future__ import annotations

from counterrank.common.jit import Array, kernel
from counterrank.common.numerics import LOG2_E, exp_negative, log1p_and_inverse


@kernel
def part_of(array: Array | None, first: int, last: int) -> Array | None:
    """`array[first:last]`, or None where there is no array."""
    if array is None:
        return None
    return array[first:last]


@kernel
def _pair(z: float, difference: float, factor: float) -> tuple[float, float, float]:
    """The value of one pair, its slope for z and its bend; `difference` is the upper weight less the lower one."""
    t = exp_negative(-z)
    log_part, inverse = log1p_and_inverse(t)
    share = factor * abs(difference) * LOG2_E
    wrong_way = difference < 0.0
    value = share * (log_part + (z if wrong_way else 0.0))
    return value, share * inverse * (1.0 if wrong_way else -t), share * inverse * (inverse * t)


@kernel
def one_above(
    score: float,
    weight: float,
    scores: Array,
    weights: Array,
    factors: Array,
    gradient: Array,
    curvature: Array | None,
) -> tuple[float, float, float]:
    """One document against those below it: the value, and gradient and curvature for the document itself.

    What is for those below goes to `gradient` and `curvature`. Free of branches, so that it becomes vector code.
    """
    value = 0.0
    own = 0.0
    own_bend = 0.0
    for j in range(len(scores)):
        part, slope, bend = _pair(score - scores[j], weight - weights[j], factors[j])
        value += part
        own += slope
        gradient[j] -= slope
        if curvature is not None:
            own_bend += bend
            curvature[j] += bend
    return value, own, own_bend


@kernel
def at_distance(
    upper: Array,
    lower: Array,
    w_upper: Array,
    w_lower: Array,
    factor: float,
    g_upper: Array,
    g_lower: Array,
    c_upper: Array | None,
    c_lower: Array | None,
) -> float:
    """Pairs of documents a fixed number of ranks apart, which share one factor."""
    value = 0.0
    for i in range(len(upper)):
        part, slope, bend = _pair(upper[i] - lower[i], w_upper[i] - w_lower[i], factor)
        value += part
        g_upper[i] += slope
        g_lower[i] += slope
        if c_upper is not None and c_lower is not None:
            c_upper[i] += bend
            c_lower[i] += bend
    return value


@kernel
def banded(
    n: int,
    scores: Array,
    weights: Array,
    deltas: Array,
    band: int,
    gradient: Array,
    curvature: Array | None,
    spare: Array,
    spare_curvature: Array | None,
) -> float:
    """LambdaLoss over pairs at most `band` ranks apart, distance by distance: O(band n).

    What is for the lower documents is summed apart: within one array the two would overlap, and be no vector code.
    """
    spare[:n] = 0.0
    if spare_curvature is not None:
        spare_curvature[:n] = 0.0
    value = 0.0
    for d in range(1, min(band, n - 1) + 1):
        value += at_distance(
            scores[: n - d], scores[d:n], weights[: n - d], weights[d:n], deltas[d], gradient[: n - d], spare[d:n],
            part_of(curvature, 0, n - d), part_of(spare_curvature, d, n),
        )  # fmt: skip
    for i in range(n):
        gradient[i] -= spare[i]
        if curvature is not None and spare_curvature is not None:
            curvature[i] += spare_curvature[i]
    return value


@kernel
def _delta_factors(place: int, places: Array, deltas: Array, factors: Array) -> None:
    for j in range(len(places)):
        factors[j] = deltas[places[j] - place]


@kernel
def _swap_factors(discount: float, discounts: Array, factors: Array) -> None:
    for j in range(len(discounts)):
        factors[j] = discount - discounts[j]


@kernel
def _swap_factors_at(discount: float, places: Array, discounts: Array, factors: Array) -> None:
    for j in range(len(places)):
        factors[j] = discount - discounts[places[j]]


@kernel
def one_below(
    score: float,
    weight: float,
    scores: Array,
    weights: Array,
    factors: Array,
    gradient: Array,
    curvature: Array | None,
) -> tuple[float, float, float]:
    """As `one_above`, for one document against those of zero weight above it."""
    value = 0.0
    own = 0.0
    own_bend = 0.0
    for j in range(len(scores)):
        part, slope, bend = _pair(scores[j] - score, -weight, factors[j] if weights[j] == 0.0 else 0.0)
        value += part
        own -= slope
        gradient[j] += slope
        if curvature is not None:
            own_bend += bend
            curvature[j] += bend
    return value, own, own_bend


@kernel
def by_weighted(
    n: int,
    swap: bool,
    table: Array,
    scores: Array,
    weights: Array,
    c: int,
    places: Array,
    gradient: Array,
    curvature: Array | None,
    factors: Array,
) -> float:
    """All pairs with a document of non-zero weight, one such document at a time: c n steps of vector code.

    The same sum as `by_upper` without limits; the better way to it where few documents have a weight.
    """
    value = 0.0
    for i in range(c):
        p = places[i]
        if swap:
            _swap_factors(table[p], table[p + 1 : n], factors)
            below = factors[: n - p - 1]
        else:
            below = table[1 : n - p]
        part, own, bend = one_above(
            scores[p], weights[p], scores[p + 1 : n], weights[p + 1 : n], below, gradient[p + 1 : n],
            part_of(curvature, p + 1, n),
        )  # fmt: skip
        for j in range(p):
            factors[j] = table[j] - table[p] if swap else table[p - j]
        part_above, own_above, bend_above = one_below(
            scores[p], weights[p], scores[:p], weights[:p], factors, gradient[:p], part_of(curvature, 0, p)
        )
        value += part + part_above
        gradient[p] += own + own_above
        if curvature is not None:
            curvature[p] += bend + bend_above
    return value


@kernel
def gather_weighted(
    n: int, scores: Array, weights: Array, places: Array, some_scores: Array, some_weights: Array
) -> int:
    """The documents of non-zero weight, side by side; returns how many."""
    c = 0
    for i in range(n):
        if weights[i] != 0.0:
            places[c] = i
            some_scores[c] = scores[i]
            some_weights[c] = weights[i]
            c += 1
    return c


@kernel
def by_upper(
    n: int,
    tops: int,
    band: int,
    swap: bool,
    table: Array,
    scores: Array,
    weights: Array,
    c: int,
    places: Array,
    some_scores: Array,
    some_weights: Array,
    gradient: Array,
    curvature: Array | None,
    some_gradient: Array,
    some_curvature: Array | None,
    factors: Array,
) -> float:
    """Pairs whose upper document is among the first `tops` and whose lower one is at most `band` ranks below.

    A document of non-zero weight meets all below it, one of zero weight only those of non-zero weight (equal weights
    add nothing), so at most min(tops, 2 c) n pairs are looked at, c being the number of non-zero weights.

    `table` holds D_d - D_(d+1) by distance d for LambdaLoss, and with `swap` the discounts by place for LambdaRank.
    """
    some_gradient[:c] = 0.0
    if some_curvature is not None:
        some_curvature[:c] = 0.0
    value = 0.0
    begin = 0  # the first gathered document below place i
    end = 0  # and the one after the last within the band
    for i in range(min(tops, n)):
        last = min(n, i + band + 1)
        if weights[i] != 0.0:
            begin += 1
            if swap:
                _swap_factors(table[i], table[i + 1 : last], factors)
                pair_factors = factors[: last - i - 1]
            else:
                pair_factors = table[1 : last - i]
            part, own, bend = one_above(
                scores[i], weights[i], scores[i + 1 : last], weights[i + 1 : last], pair_factors,
                gradient[i + 1 : last], part_of(curvature, i + 1, last),
            )  # fmt: skip
        else:
            while end < c and places[end] < last:
                end += 1
            if begin == end:
                continue
            if swap:
                _swap_factors_at(table[i], places[begin:end], table, factors)
            else:
                _delta_factors(i, places[begin:end], table, factors)
            part, own, bend = one_above(
                scores[i], 0.0, some_scores[begin:end], some_weights[begin:end], factors, some_gradient[begin:end],
                part_of(some_curvature, begin, end),
            )  # fmt: skip
        value += part
        gradient[i] += own
        if curvature is not None:
            curvature[i] += bend
    for j in range(c):
        gradient[places[j]] += some_gradient[j]
        if curvature is not None and some_curvature is not None:
            curvature[places[j]] += some_curvature[j]
    return value
