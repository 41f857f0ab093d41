"""Monotonic upper bounds on metrics of the form -alpha(rank), alpha decreasing (`eq:kmonotonic`).

    loss = sum over d of  w_d * ( -alpha(bound_d) + [rank_d > k] alpha(k) ),

    bound_d = sum over d' of max(1 - (s_d - s_d'), 0)       "hinge" (`eq:linearupperbound`)
            = sum over d' of log2(1 + exp(s_d' - s_d))      "logistic" (`eq:logupperbound`)

The sums run over all documents of the query, d itself included. alpha(x) = -x gives average relevance position
(`eq:ARP`; Joachims, Swaminathan and Schnabel, WSDM 2017), alpha(x) = 1 / log2(1 + x) gives DCG (`eq:DCG`; Agarwal,
Takatsu, Zaitsev and Joachims, SIGIR 2019), and the penalty beyond k the top-k metrics (Oosterhuis and de Rijke, SIGIR
2020). All are minimised; `k=None` means no cutoff.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.checks import FloatArray, check_choice, check_cutoff
from counterrank.common.errors import CounterrankError, brief
from counterrank.common.jit import Array, argument_kernel, exact_inner_kernel, inner_kernel, kernel
from counterrank.common.numerics import LN2, LOG2_E, exp_negative, log1p_and_inverse
from counterrank.common.parallel import for_queries
from counterrank.common.ranking import longest_of, rank_order
from counterrank.losses.loss_kernels import (
    NO_CUTOFF,
    Documents,
    LossSpec,
    Parameters,
    Room,
    check_inputs,
    make_room,
    run_loss,
)

HINGE, LOGISTIC = 0, 1
ARP, DCG, GIVEN = 0, 1, 2


class Alpha(NamedTuple):
    """A decreasing function of the rank with its derivative; both take and return arrays of ranks >= 1."""

    function: Callable[[FloatArray], ArrayLike]
    derivative: Callable[[FloatArray], ArrayLike]


ALPHA_ARP = Alpha(lambda x: -x, lambda x: np.full_like(x, -1.0))
"""alpha(x) = -x, whose loss is the bound on the rank itself (`eq:ARP`)."""
ALPHA_DCG = Alpha(lambda x: 1.0 / np.log2(1.0 + x), lambda x: -1.0 / ((1.0 + x) * np.log2(1.0 + x) ** 2 * np.log(2.0)))
"""alpha(x) = 1 / log2(1 + x), for DCG (`eq:DCG`)."""


@inner_kernel
def _alpha(loss: Parameters, doc: int, bound: float) -> tuple[float, float]:
    """alpha(bound) and alpha'(bound): -x for ARP, 1 / log2(1 + x) for DCG, else as given for the document."""
    if loss.alpha == ARP:
        return -bound, -1.0
    if loss.alpha == DCG:
        log_rank = math.log(1.0 + bound)
        return LN2 / log_rank, -LN2 / ((1.0 + bound) * log_rank * log_rank)
    return loss.table[doc], loss.slopes[doc]


@exact_inner_kernel
def _hinge_bounds(scores: Array, bounds: Array, reach: Array) -> None:
    """bound_i = sum over j of max(1 - (s_i - s_j), 0) (`eq:linearupperbound`), all documents in rank order.

    Those that count for a document, with a score above its own less one, are the first `reach` by rank, so one
    pointer and a running sum give all bounds in one sweep.
    """
    n, top = len(scores), scores[0]
    count = 0
    total = 0.0
    for i in range(n):
        score = scores[i] - top
        while count < n and 1.0 - (scores[i] - scores[count]) > 0.0:
            total += scores[count] - top
            count += 1
        reach[i] = count
        bounds[i] = count * (1.0 - score) + total


@inner_kernel
def _hinge_gradient(slopes: Array, reach: Array, gradient: Array, spare: Array) -> None:
    """d loss / d s_j = sum over i with j in reach of slope_i, less reach_j slope_j; slope = d loss / d bound."""
    n = len(slopes)
    spare[: n + 1] = 0.0
    for i in range(n):
        spare[reach[i]] += slopes[i]
    running = 0.0
    for i in range(n - 1, -1, -1):
        running += spare[i + 1]  # of all documents whose reach holds place i
        gradient[i] = running - reach[i] * slopes[i]


@inner_kernel
def _hinge_curvature(slopes: Array, reach: Array, curvature: Array, spare: Array) -> None:
    """A half for each hinge that is not flat, times |slope|, to both of its documents; see `losses.second_order`."""
    n = len(slopes)
    spare[: n + 1] = 0.0
    for i in range(n):
        spare[reach[i]] += abs(slopes[i])
    running = 0.0
    for i in range(n - 1, -1, -1):
        running += spare[i + 1]
        # less the hinge of a document with itself, which is constant: it is in both sums
        curvature[i] = 0.5 * (max(running - abs(slopes[i]), 0.0) + (reach[i] - 1) * abs(slopes[i]))


@inner_kernel
def _hinge(loss: Parameters, docs: Documents, order: Array, curvature: Array | None, room: Room) -> float:
    """`eq:kmonotonic` with `eq:linearupperbound`: O(n) once the documents are in order."""
    n = len(docs.scores)
    ranked, bounds, slopes, result = room.floats[0][:n], room.floats[1][:n], room.floats[2][:n], room.floats[3][:n]
    reach, spare = room.ints[3], room.floats[4]
    for i in range(n):
        ranked[i] = docs.scores[order[i]]
    _hinge_bounds(ranked, bounds, reach)
    value = 0.0
    for i in range(n):
        weight = docs.weights[order[i]]
        slopes[i] = 0.0
        if weight != 0.0:
            level, slope = _alpha(loss, docs.start + order[i], bounds[i])
            value -= weight * (level - (loss.level_at_k if i >= loss.k else 0.0))
            slopes[i] = -weight * slope
    _hinge_gradient(slopes, reach, result, spare)
    for i in range(n):
        docs.gradient[order[i]] = result[i]
    if curvature is not None:
        _hinge_curvature(slopes, reach, result, spare)
        for i in range(n):
            curvature[order[i]] = result[i]
    return value


@inner_kernel
def _logistic_bound(score: float, scores: Array, floats: Array, curvature: Array | None) -> float:
    """bound = sum over j of log2(1 + exp(s_j - s)) (`eq:logupperbound`), for one document of score s.

    Row 0 of `floats` gets d bound / d s_j of each other, row 1 the second derivative unless `curvature` is None.
    """
    steepness, bends = floats[0], floats[1]
    total = 0.0
    for j in range(len(scores)):
        u = scores[j] - score
        t = exp_negative(-abs(u))
        log_part, inverse = log1p_and_inverse(t)
        total += log_part + max(u, 0.0)
        steepness[j] = LOG2_E * inverse * (1.0 if u >= 0.0 else t)
        if curvature is not None:
            bends[j] = LOG2_E * inverse * (inverse * t)
    return total * LOG2_E


@inner_kernel
def _add_slopes(place: int, slope: float, steepness: Array, gradient: Array) -> None:
    """d loss / d s_j += slope d bound / d s_j, and less their sum for the document at `place`."""
    total = 0.0
    for j in range(len(steepness)):
        step = slope * steepness[j]
        gradient[j] += step
        total += step
    gradient[place] -= total


@inner_kernel
def _add_bends(place: int, slope: float, bends: Array, curvature: Array) -> None:
    """|slope| times the curvature of the bound, for each other and for the document at `place`."""
    bends[place] = 0.0  # its own part in its bound is constant
    total = 0.0
    for j in range(len(bends)):
        bend = abs(slope) * bends[j]
        curvature[j] += bend
        total += bend
    curvature[place] += total


@inner_kernel
def _logistic(loss: Parameters, docs: Documents, order: Array, curvature: Array | None, room: Room) -> float:
    """`eq:kmonotonic` with `eq:logupperbound`: O(c n) with c documents of non-zero weight."""
    n = len(docs.scores)
    steepness, bends = room.floats[0][:n], room.floats[1][:n]
    docs.gradient[:] = 0.0
    if curvature is not None:
        curvature[:] = 0.0
    value = 0.0
    for i in range(n):
        weight = docs.weights[i]
        if weight != 0.0:
            bound = _logistic_bound(docs.scores[i], docs.scores, room.floats, curvature)
            level, slope = _alpha(loss, docs.start + i, bound)
            value -= weight * level
            _add_slopes(i, -weight * slope, steepness, docs.gradient)
            if curvature is not None:
                _add_bends(i, -weight * slope, bends, curvature)
    for i in range(min(loss.k, n), n):
        value += docs.weights[order[i]] * loss.level_at_k
    return value


@argument_kernel
def monotonic_query(loss: Parameters, docs: Documents, curvature: Array | None, room: Room) -> float:
    """sum over d of w_d ( -alpha(bound_d) + [rank_d > k] alpha(k) ) (`eq:kmonotonic`), of one query.

    `loss.form` is HINGE or LOGISTIC, `loss.alpha` ARP, DCG or GIVEN.
    """
    order = room.ints[0]
    if loss.form == HINGE or loss.k < len(docs.scores):
        rank_order(docs.scores, order, room.ints[1], room.ints[2])
    if loss.form == HINGE:
        return _hinge(loss, docs, order, curvature, room)
    return _logistic(loss, docs, order, curvature, room)


@kernel
def rank_bounds(
    first: int, last: int, offsets: Array, form: int, scores: Array, weights: Array, bounds: Array, ranks: Array
) -> None:
    """bound_d (`eq:linearupperbound`, `eq:logupperbound`) of documents of non-zero weight, else 1; and all ranks."""
    room = make_room(longest_of(first, last, offsets))
    order, by_rank = room.ints[0], room.floats[1]
    for q in range(first, last):
        start, n = offsets[q], offsets[q + 1] - offsets[q]
        own = scores[start : start + n]
        rank_order(own, order, room.ints[1], room.ints[2])
        if form == HINGE:
            for i in range(n):
                room.floats[0][i] = own[order[i]]
            _hinge_bounds(room.floats[0][:n], by_rank, room.ints[3])
        for i in range(n):
            doc = start + order[i]
            ranks[doc] = i + 1
            bounds[doc] = 1.0
            if weights[doc] != 0.0:
                bounds[doc] = by_rank[i] if form == HINGE else _logistic_bound(scores[doc], own, room.floats, None)


def monotonic_spec(form: int, alpha: int, k: int | None) -> LossSpec:
    """The monotonic loss for ARP or DCG."""
    at_k = 0.0 if k is None else -float(k) if alpha == ARP else LN2 / math.log(1.0 + k)
    return LossSpec(monotonic_query, Parameters(form, alpha, k or NO_CUTOFF, at_k))


def monotonic(
    scores: ArrayLike,
    weights: ArrayLike,
    offsets: ArrayLike,
    *,
    alpha: Alpha | tuple[Callable[[FloatArray], ArrayLike], Callable[[FloatArray], ArrayLike]],
    bound: str = "hinge",
    k: int | None = None,
    threads: int | None = None,
) -> tuple[float, FloatArray]:
    """The monotonic upper bound on any metric -alpha(rank), for top-k metrics too (`eq:kmonotonic`).

        sum over d of  w_d * ( -alpha(bound_d) + [rank_d > k] alpha(k) ),

        bound_d = sum over d' of max(1 - (s_d - s_d'), 0)       "hinge" (`eq:linearupperbound`)
                = sum over d' of log2(1 + exp(s_d' - s_d))      "logistic" (`eq:logupperbound`)

    The sums run over all documents of the query, d itself included. O(n log n) for the hinge, O(c n) for the
    logistic bound with c weighted documents. An upper bound on the metric only for weights >= 0.

    Arguments:
        scores, weights: one number per document.
        offsets: where each query starts and ends.
        alpha: a decreasing function and its derivative, on arrays of numbers >= 1.
        bound: "hinge" or "logistic".
        k: the cutoff, or None.
        threads: None for all cores.

    Returns the value, and its gradient for the scores with ranks held fixed.

    >>> value, gradient = monotonic([0.0, 0.5], [1.0, 0.0], [0, 2], alpha=ALPHA_ARP)
    >>> value, gradient.tolist()  # 1 + max(1 - (0 - 0.5), 0)
    (2.5, [-1.0, 1.0])
    """
    s, w, o = check_inputs(scores, weights, offsets)
    form = LOGISTIC if check_choice(bound, ("hinge", "logistic"), "bound") == "logistic" else HINGE
    cutoff = check_cutoff(k)
    if alpha in (ALPHA_ARP, ALPHA_DCG):
        return run_loss(monotonic_spec(form, ARP if alpha == ALPHA_ARP else DCG, cutoff), s, w, o, threads)
    bounds, ranks = np.empty(len(s)), np.empty(len(s))
    for_queries(rank_bounds, o, form, s, w, bounds, ranks, threads=threads)
    levels, slopes = _apply_alpha(alpha, bounds)
    at_k = 0.0 if cutoff is None else float(_apply_alpha(alpha, np.array([float(cutoff)]))[0][0])
    given = Parameters(form, GIVEN, cutoff or NO_CUTOFF, at_k, table=levels, slopes=slopes)
    return run_loss(LossSpec(monotonic_query, given), s, w, o, threads)


def _apply_alpha(
    alpha: Alpha | tuple[Callable[..., ArrayLike], ...], ranks: FloatArray
) -> tuple[FloatArray, FloatArray]:
    pair = alpha if isinstance(alpha, tuple) else ()
    if len(pair) != 2 or not all(map(callable, pair)):
        raise CounterrankError(f"alpha={brief(alpha)}: expected Alpha(function, derivative)")
    function, derivative = pair
    levels = np.require(function(ranks), np.float64, ["C", "W"])
    slopes = np.require(derivative(ranks), np.float64, ["C", "W"])
    if levels.shape != ranks.shape or slopes.shape != ranks.shape:
        raise CounterrankError("alpha: expected a function and a derivative that keep the shape of an array")
    if not (np.isfinite(levels).all() and np.isfinite(slopes).all()):
        raise CounterrankError("alpha: expected finite values and derivatives for ranks >= 1")
    if (slopes > 0.0).any():
        place = float(ranks[np.argmax(slopes > 0.0)])
        raise CounterrankError(f"alpha: rises at {place:g}; expected a decreasing function")
    return levels, slopes


def arp_hinge(
    scores: ArrayLike, weights: ArrayLike, offsets: ArrayLike, *, threads: int | None = None
) -> tuple[float, FloatArray]:
    """Average relevance position (`eq:ARP`) with the linear bound on the rank (`eq:linearupperbound`).

        sum over d of  w_d * sum over d' of max(1 - (s_d - s_d'), 0)

    >>> arp_hinge([2.0, 0.0], [0.0, 1.0], [0, 2])[0]  # max(1 - (0 - 2), 0) + max(1 - 0, 0)
    4.0
    """
    return run_loss(monotonic_spec(HINGE, ARP, None), *check_inputs(scores, weights, offsets), threads)


def arp_logistic(
    scores: ArrayLike, weights: ArrayLike, offsets: ArrayLike, *, threads: int | None = None
) -> tuple[float, FloatArray]:
    """Average relevance position (`eq:ARP`) with the logistic bound on the rank (`eq:logupperbound`).

        sum over d of  w_d * sum over d' of log2(1 + exp(s_d' - s_d))

    >>> arp_logistic([0.0, 0.0], [0.0, 1.0], [0, 2])[0]  # log2(2) + log2(2)
    2.0
    """
    return run_loss(monotonic_spec(LOGISTIC, ARP, None), *check_inputs(scores, weights, offsets), threads)


def dcg_hinge(
    scores: ArrayLike, weights: ArrayLike, offsets: ArrayLike, k: int | None = None, *, threads: int | None = None
) -> tuple[float, FloatArray]:
    """DCG@k through the monotonic bound (`eq:kmonotonic`) with the linear bound on the rank.

        sum over d of  w_d * ( -1 / log2(1 + bound_d) + [rank_d > k] / log2(1 + k) )

    >>> dcg_hinge([1.0, 0.0], [0.0, 1.0], [0, 2], k=1)[0]  # bound 3: -1 / log2(4) + 1 / log2(2)
    0.5
    """
    checked = check_inputs(scores, weights, offsets)
    return run_loss(monotonic_spec(HINGE, DCG, check_cutoff(k)), *checked, threads)


def dcg_logistic(
    scores: ArrayLike, weights: ArrayLike, offsets: ArrayLike, k: int | None = None, *, threads: int | None = None
) -> tuple[float, FloatArray]:
    """DCG@k through the monotonic bound (`eq:kmonotonic`) with the logistic bound on the rank.

        sum over d of  w_d * ( -1 / log2(1 + bound_d) + [rank_d > k] / log2(1 + k) )

    >>> dcg_logistic([0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0, 3], k=1)[0]  # bound 3: -1 / log2(4) + 1 / log2(2)
    0.5
    """
    checked = check_inputs(scores, weights, offsets)
    return run_loss(monotonic_spec(LOGISTIC, DCG, check_cutoff(k)), *checked, threads)
