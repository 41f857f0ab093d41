"""LambdaLoss for weights from clicks (`eq:embound`), whole, at a cutoff, or truncated (`eq:truncembound`).

    loss = sum over pairs with w_n > w_m of  delta_nm (w_n - w_m) log2(1 + exp(s_m - s_n)),

    delta_nm = D_|n-m| - D_(|n-m|+1),   n and m the ranks of the two documents.

The weights w are the gains 1 / rho of `eq:gaindiscountchoice` summed over clicks, which makes sum w_n D_n the
estimate of `eq:generalestimator`. Wang, Li, Golbandi, Bendersky and Najork, CIKM 2018; for clicks and cutoffs
Oosterhuis and de Rijke, SIGIR 2020. Documents are ranked by the scores given (the expectation step of the paper),
so the bound moves with them. All are minimised.

The kernels serve any loss over pairs of this form, with factors of its own in the place of delta, such as LambdaRank.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.checks import FloatArray, as_array, check_cutoff
from counterrank.common.errors import CounterrankError
from counterrank.common.jit import Array, argument_kernel, inner_kernel
from counterrank.common.numerics import LOG2_E, exp_negative, log1p_and_inverse
from counterrank.common.ranking import longest_query, rank_order
from counterrank.losses.loss_kernels import NO_CUTOFF, Documents, LossSpec, Parameters, Room, check_inputs, run_loss

Discounts = ArrayLike | Callable[[FloatArray], ArrayLike]
"""D_n by rank: a metric is sum w_n D_n, and only differences matter to the losses over pairs."""


def dcg_discounts(ranks: FloatArray) -> FloatArray:
    """D(n) = 1 / log2(1 + n) (`eq:DCG`).

    >>> dcg_discounts(np.array([1.0, 3.0])).tolist()
    [1.0, 0.5]
    """
    result: FloatArray = 1.0 / np.log2(1.0 + ranks)
    return result


def discount_table(discounts: Discounts, longest: int) -> FloatArray:
    """The discounts of ranks 1 to `longest` + 1; an array's last value goes on beyond its end.

    >>> discount_table([1.0, 0.5], 3).tolist()
    [1.0, 0.5, 0.5, 0.5]
    """
    ranks = np.arange(1.0, longest + 2.0)
    raw = np.atleast_1d(as_array(discounts(ranks) if callable(discounts) else discounts, "discounts"))
    if raw.dtype.kind not in "iufb":
        raise CounterrankError(f"discounts: type {raw.dtype}; expected real numbers by rank, or a function of ranks")
    given = raw.astype(np.float64)
    if given.ndim != 1 or not len(given) or (callable(discounts) and given.shape != ranks.shape):
        raise CounterrankError(
            f"discounts: shape {given.shape}; expected one value for each rank, {len(ranks)} from a function"
        )
    if not np.isfinite(given).all():
        place = int(np.argmin(np.isfinite(given)))
        raise CounterrankError(f"discounts: {given[place]} at rank {place + 1}; expected finite numbers")
    rises = np.flatnonzero(np.diff(given) > 0)
    if len(rises):
        n = int(rises[0])
        raise CounterrankError(
            f"discounts: rise from {given[n]:g} at rank {n + 1} to {given[n + 1]:g} at rank {n + 2}; "
            "expected non-increasing values (for a metric to minimise, negate it)"
        )
    extended: FloatArray = given[np.minimum(np.arange(longest + 1), len(given) - 1)]
    return extended


def cut_discounts(table: FloatArray, k: int | None) -> FloatArray:
    """The same discounts with zeros beyond rank k."""
    if k is None:
        return table
    cut = np.where(np.arange(1, len(table) + 1) <= k, table, 0.0)
    if k < len(table) and cut[k - 1] < 0.0:
        raise CounterrankError(f"k={k}: negative discounts cannot be cut to zero beyond k; expected values >= 0")
    return cut


# what the factor of a pair is: `table` by the distance of the two ranks, or the difference of `table` at the two ranks
BY_DISTANCE, BY_DIFFERENCE = 0, 1


class Ranked(NamedTuple):
    """Documents of one query in rank order: place 0 is rank 1. `bends` are second-order terms.

    Where kernels here take a `curvature` of None, they leave `bends` alone; what it is else does not matter to them.
    """

    scores: Array
    weights: Array
    gradient: Array
    bends: Array


class Weighted(NamedTuple):
    """Those of non-zero weight, side by side, and their places among all."""

    places: Array
    docs: Ranked


@inner_kernel
def _pair(z: float, difference: float, factor: float) -> tuple[float, float, float]:
    """factor |w_upper - w_lower| log2(1 + exp(s_worse - s_better)), with its first and second derivative for z.

    z = s_upper - s_lower >= 0, so that exp(-z) never overflows; `difference` is the upper weight less the lower one,
    and the better document the one of larger weight.
    """
    t = exp_negative(-z)
    log_part, inverse = log1p_and_inverse(t)
    share = factor * abs(difference) * LOG2_E
    wrong_way = difference < 0.0
    value = share * (log_part + (z if wrong_way else 0.0))
    return value, share * inverse * (1.0 if wrong_way else -t), share * inverse * (inverse * t)


@inner_kernel
def _one_above(
    score: float, weight: float, docs: Ranked, first: int, last: int, factors: Array, curvature: Array | None
) -> tuple[float, float, float]:
    """sum of `_pair` of one document with those from `first` to `last`, all below it.

    Returns the value, and gradient and second-order term of the one document; those of the others go to their arrays.
    Free of branches, so that it becomes vector code.
    """
    scores, weights = docs.scores[first:last], docs.weights[first:last]
    gradient, bends = docs.gradient[first:last], docs.bends[first:last]
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
            bends[j] += bend
    return value, own, own_bend


@inner_kernel
def _one_below(
    score: float, weight: float, docs: Ranked, last: int, factors: Array, curvature: Array | None
) -> tuple[float, float, float]:
    """sum over j < last with w_j = 0 of factor_j |w| log2(1 + exp(+-(s_j - s))), `_pair` of a document and j above it.

    The sign is that of w: + where w > 0, since the document below is then the better one. Returns as `_one_above`.
    """
    scores, weights, gradient, bends = docs.scores[:last], docs.weights[:last], docs.gradient[:last], docs.bends[:last]
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
            bends[j] += bend
    return value, own, own_bend


@inner_kernel
def _at_distance(d: int, factor: float, docs: Ranked, spare: Ranked, curvature: Array | None) -> float:
    """sum of `_pair` over documents d ranks apart, which share one factor.

    `spare.gradient` gets what is to be taken off the gradient of the lower ones, `spare.bends` their bends.
    """
    n = len(docs.scores)
    upper, w_upper, g_upper, b_upper = docs.scores[: n - d], docs.weights[: n - d], docs.gradient[: n - d], docs.bends
    lower, w_lower, g_lower, b_lower = docs.scores[d:], docs.weights[d:], spare.gradient[d:], spare.bends[d:]
    value = 0.0
    for i in range(len(upper)):
        part, slope, bend = _pair(upper[i] - lower[i], w_upper[i] - w_lower[i], factor)
        value += part
        g_upper[i] += slope
        g_lower[i] += slope
        if curvature is not None:
            b_upper[i] += bend
            b_lower[i] += bend
    return value


@inner_kernel
def _banded(loss: Parameters, ranked: Ranked, spare: Ranked, curvature: Array | None) -> float:
    """`eq:embound` over pairs at most `loss.band` ranks apart, distance by distance: O(band n).

    What is for the lower documents is summed apart: within one array the two would overlap, and be no vector code.
    """
    n = len(ranked.scores)
    spare.gradient[:] = 0.0
    if curvature is not None:
        spare.bends[:] = 0.0
    value = 0.0
    for d in range(1, min(loss.band, n - 1) + 1):
        value += _at_distance(d, loss.table[d], ranked, spare, curvature)
    for i in range(n):
        ranked.gradient[i] -= spare.gradient[i]
        if curvature is not None:
            ranked.bends[i] += spare.bends[i]
    return value


@inner_kernel
def _differences_below(table: Array, place: int, last: int, factors: Array) -> None:
    """factors_j = D(place) - D(place + 1 + j), D being `table`: BY_DIFFERENCE, for documents below, up to `last`."""
    own, others = table[place], table[place + 1 : last]
    for j in range(len(others)):
        factors[j] = own - others[j]


@inner_kernel
def _factors_at(loss: Parameters, place: int, places: Array, factors: Array) -> None:
    """factors_j = D(p_j - place) BY_DISTANCE, else D(place) - D(p_j); D is `loss.table`, p_j the places below."""
    if loss.form == BY_DISTANCE:
        for j in range(len(places)):
            factors[j] = loss.table[places[j] - place]
    else:
        for j in range(len(places)):
            factors[j] = loss.table[place] - loss.table[places[j]]


@inner_kernel
def _by_weighted(loss: Parameters, ranked: Ranked, places: Array, curvature: Array | None, spare: Array) -> float:
    """All pairs with a document of non-zero weight, one such document at a time: c n steps of vector code.

    The same sum as `_by_upper` without limits; the better way to it where few documents have a weight.
    """
    n, table = len(ranked.scores), loss.table
    value = 0.0
    for i in range(len(places)):
        p = places[i]
        score, weight = ranked.scores[p], ranked.weights[p]
        factors = table[1 : n - p]
        if loss.form == BY_DIFFERENCE:
            _differences_below(table, p, n, spare)
            factors = spare
        part, own, bend = _one_above(score, weight, ranked, p + 1, n, factors, curvature)
        for j in range(p):
            spare[j] = table[p - j] if loss.form == BY_DISTANCE else table[j] - table[p]
        part_above, own_above, bend_above = _one_below(score, weight, ranked, p, spare, curvature)
        value += part + part_above
        ranked.gradient[p] += own + own_above
        if curvature is not None:
            ranked.bends[p] += bend + bend_above
    return value


@inner_kernel
def _by_upper(loss: Parameters, ranked: Ranked, some: Weighted, curvature: Array | None, spare: Array) -> float:
    """Pairs whose upper document is in the top `loss.k` and whose lower one is at most `loss.band` ranks below.

    `eq:truncembound`, and `eq:embound` where k is beyond the query. A document of non-zero weight meets all below it,
    one of zero weight only those of non-zero weight (equal weights add nothing), so at most min(k, 2 c) n pairs are
    looked at, c being the number of non-zero weights.
    """
    n, c = len(ranked.scores), len(some.places)
    some.docs.gradient[:] = 0.0
    if curvature is not None:
        some.docs.bends[:] = 0.0
    value = 0.0
    begin = n - n  # the first weighted document below place i; for a plain 0 numba would compile callees again
    end = n - n  # and the one after the last within the band
    for i in range(min(loss.k, n)):
        last = min(n, i + loss.band + 1)
        if ranked.weights[i] != 0.0:
            begin += 1
            factors = loss.table[1 : last - i]
            if loss.form == BY_DIFFERENCE:
                _differences_below(loss.table, i, last, spare)
                factors = spare
            part, own, bend = _one_above(ranked.scores[i], ranked.weights[i], ranked, i + 1, last, factors, curvature)
        else:
            while end < c and some.places[end] < last:
                end += 1
            if begin == end:
                continue
            _factors_at(loss, i, some.places[begin:end], spare)
            part, own, bend = _one_above(ranked.scores[i], 0.0, some.docs, begin, end, spare, curvature)
        value += part
        ranked.gradient[i] += own
        if curvature is not None:
            ranked.bends[i] += bend
    for j in range(c):
        ranked.gradient[some.places[j]] += some.docs.gradient[j]
        if curvature is not None:
            ranked.bends[some.places[j]] += some.docs.bends[j]
    return value


@inner_kernel
def _gather_weighted(ranked: Ranked, places: Array, scores: Array, weights: Array) -> int:
    """The documents of non-zero weight, side by side; returns how many."""
    c = 0
    for i in range(len(ranked.scores)):
        if ranked.weights[i] != 0.0:
            places[c] = i
            scores[c] = ranked.scores[i]
            weights[c] = ranked.weights[i]
            c += 1
    return c


@argument_kernel
def pairwise_query(loss: Parameters, docs: Documents, curvature: Array | None, room: Room) -> float:
    """sum over pairs of factor |w_n - w_m| log2(1 + exp(s_worse - s_better)) (`eq:embound`), of one query.

    With `loss.k`, over pairs with a document in the top k alone (`eq:truncembound`). By `loss.form` the factor of the
    pair at ranks n < m is

        BY_DISTANCE     table[m - n], zero beyond `loss.band`:  LambdaLoss with table[d] = D_d - D_(d+1)
        BY_DIFFERENCE   table[n - 1] - table[m - 1]:            LambdaRank with table[n - 1] = D_n
    """
    n, order, places, floats = len(docs.scores), room.ints[0], room.ints[3], room.floats
    rank_order(docs.scores, order, room.ints[1], room.ints[2])
    ranked = Ranked(floats[0][:n], floats[1][:n], floats[2][:n], floats[3][:n])
    for i in range(n):
        ranked.scores[i] = docs.scores[order[i]]
        ranked.weights[i] = docs.weights[order[i]]
    ranked.gradient[:] = 0.0
    if curvature is not None:
        ranked.bends[:] = 0.0
    c = _gather_weighted(ranked, places, floats[4], floats[5])
    if loss.form == BY_DISTANCE and loss.band < c and loss.k >= n:
        value = _banded(loss, ranked, Ranked(floats[4], floats[5], floats[6][:n], floats[7][:n]), curvature)
    elif 4 * c < n and loss.k >= n and loss.band >= n - 1:
        value = _by_weighted(loss, ranked, places[:c], curvature, floats[8])
    else:
        some = Weighted(places[:c], Ranked(floats[4][:c], floats[5][:c], floats[6][:c], floats[7][:c]))
        value = _by_upper(loss, ranked, some, curvature, floats[8])
    for i in range(n):
        docs.gradient[order[i]] = ranked.gradient[i]
        if curvature is not None:
            curvature[order[i]] = ranked.bends[i]
    return value


def lambdaloss_spec(table: FloatArray, truncate: int | None) -> LossSpec:
    """LambdaLoss with the discounts of `table`: the deltas by distance, and how far apart they last."""
    deltas = np.concatenate(([0.0], table[:-1] - table[1:]))  # deltas[d] = D_d - D_(d+1)
    non_zero = np.flatnonzero(deltas)
    band = int(non_zero[-1]) if len(non_zero) else 0
    return LossSpec(pairwise_query, Parameters(BY_DISTANCE, k=truncate or NO_CUTOFF, band=band, table=deltas))


def lambdaloss(
    scores: ArrayLike,
    weights: ArrayLike,
    offsets: ArrayLike,
    *,
    discounts: Discounts = dcg_discounts,
    truncate: int | None = None,
    threads: int | None = None,
) -> tuple[float, FloatArray]:
    """LambdaLoss for any discounts (`eq:embound`), or its truncated form (`eq:truncembound`).

        sum over pairs with w_n > w_m of  delta_nm (w_n - w_m) log2(1 + exp(s_m - s_n)),

        delta_nm = D_|n-m| - D_(|n-m|+1),   n and m the ranks of the two documents,

    and with `truncate`, only over pairs with at least one document in the top `truncate`. The weights are the gains
    G_n and D the discounts (`eq:gaindiscountchoice`). Documents are ranked by the scores given (the expectation
    step), so the bound moves with them. O(c n) with c documents of non-zero weight;
    O(n log n + k n) where discounts are constant beyond rank k or `truncate` is k.

    Arguments:
        scores, weights: one number per document; negative weights are legal.
        offsets: where each query starts and ends.
        discounts: non-increasing D by rank: an array (its last value goes on beyond its end) or a function of an
            array of ranks. Only differences matter, so ARP is `lambda ranks: -ranks`; Precision@5 is `[1] * 5 + [0]`.
        truncate: the cutoff of the truncated form, or None.
        threads: None for all cores.

    Returns the value, and its gradient for the scores with ranks held fixed.

    >>> value, gradient = lambdaloss([0.0, 0.0], [0.0, 1.0], [0, 2], discounts=[1.0, 0.5])
    >>> value  # (D_1 - D_2) * (1 - 0) * log2(1 + exp(0))
    0.5
    """
    s, w, o = check_inputs(scores, weights, offsets)
    table = discount_table(discounts, longest_query(o))
    return run_loss(lambdaloss_spec(table, check_cutoff(truncate, "truncate")), s, w, o, threads)


def lambdaloss_dcg(
    scores: ArrayLike, weights: ArrayLike, offsets: ArrayLike, *, threads: int | None = None
) -> tuple[float, FloatArray]:
    """LambdaLoss for DCG over the whole ranking (`eq:embound` with D_n = 1 / log2(1 + n)).

    >>> value, _ = lambdaloss_dcg([0.0, 0.0], [0.0, 1.0], [0, 2])  # (1 / log2(2) - 1 / log2(3)) * log2(2)
    >>> round(value, 6)
    0.36907
    """
    return lambdaloss(scores, weights, offsets, threads=threads)


def lambdaloss_dcg_at_k(
    scores: ArrayLike, weights: ArrayLike, offsets: ArrayLike, k: int | None = None, *, threads: int | None = None
) -> tuple[float, FloatArray]:
    """LambdaLoss for DCG@k (`eq:embound` with D_n = 1 / log2(1 + n) up to k, 0 beyond).

    >>> lambdaloss_dcg_at_k([0.0, 0.0], [0.0, 1.0], [0, 2], k=1)[0]  # (1 - 0) * log2(2)
    1.0
    """
    s, w, o = check_inputs(scores, weights, offsets)
    table = cut_discounts(discount_table(dcg_discounts, longest_query(o)), check_cutoff(k))
    return run_loss(lambdaloss_spec(table, None), s, w, o, threads)


def lambdaloss_truncated(
    scores: ArrayLike, weights: ArrayLike, offsets: ArrayLike, k: int | None = None, *, threads: int | None = None
) -> tuple[float, FloatArray]:
    """LambdaLoss for DCG over pairs with a document in the top k (`eq:truncembound`).

    >>> value, _ = lambdaloss_truncated([0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0, 3], k=1)
    >>> round(value, 6)  # ranks 1 and 3 only: (1 / log2(3) - 1 / log2(4)) * log2(2)
    0.13093
    """
    return lambdaloss(scores, weights, offsets, truncate=check_cutoff(k), threads=threads)


def lambdarank_spec(table: FloatArray, k: int | None) -> LossSpec:
    """LambdaRank with the discounts of `table`, cut at k."""
    return LossSpec(pairwise_query, Parameters(BY_DIFFERENCE, k=k or NO_CUTOFF, table=cut_discounts(table, k)))


def lambdarank(
    scores: ArrayLike,
    weights: ArrayLike,
    offsets: ArrayLike,
    *,
    k: int | None = None,
    discounts: Discounts = dcg_discounts,
    threads: int | None = None,
) -> tuple[float, FloatArray]:
    """Counterfactual LambdaRank: a pair is weighted by the change of the metric when its documents swap ranks.

        sum over pairs with w_n > w_m of  |D_n - D_m| (w_n - w_m) log2(1 + exp(s_m - s_n)),

    with D = 0 beyond rank k. Burges, Ragno and Le, NIPS 2006; the paper names its form for clicks after `eq:embound`.
    Arguments and result are as for `lambdaloss`.

    >>> value, gradient = lambdarank([0.0, 0.0], [0.0, 1.0], [0, 2], k=1)
    >>> value  # |1 - 0| * (1 - 0) * log2(1 + exp(0))
    1.0
    """
    s, w, o = check_inputs(scores, weights, offsets)
    table = discount_table(discounts, longest_query(o))
    return run_loss(lambdarank_spec(table, check_cutoff(k)), s, w, o, threads)
