"""The paper's losses in their general forms; `losses.named` holds the common cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.checks import FloatArray, check_choice, check_cutoff
from counterrank.common.errors import CounterrankError
from counterrank.common.parallel import for_queries
from counterrank.common.ranking import longest_query
from counterrank.losses._query import ARP, DCG, HINGE, LOGISTIC, backward_of_queries, bounds_of_queries
from counterrank.losses.evaluate import check_inputs, run_loss
from counterrank.losses.spec import (
    NO_CUTOFF,
    Discounts,
    LossSpec,
    dcg_discounts,
    discount_table,
    lambdaloss_spec,
    lambdarank_spec,
)


class Alpha(NamedTuple):
    """A decreasing function of the rank with its derivative; both take and return arrays of ranks >= 1."""

    function: Callable[[FloatArray], ArrayLike]
    derivative: Callable[[FloatArray], ArrayLike]


ALPHA_ARP = Alpha(lambda x: -x, lambda x: np.full_like(x, -1.0))
ALPHA_DCG = Alpha(lambda x: 1.0 / np.log2(1.0 + x), lambda x: -1.0 / ((1.0 + x) * np.log2(1.0 + x) ** 2 * np.log(2.0)))


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
    logistic = check_choice(bound, ("hinge", "logistic"), "bound") == "logistic"
    cutoff = check_cutoff(k)
    if alpha in (ALPHA_ARP, ALPHA_DCG):
        kind = LOGISTIC if logistic else HINGE
        spec = LossSpec(kind, ARP if alpha == ALPHA_ARP else DCG, cutoff or NO_CUTOFF)
        return run_loss(spec, s, w, o, threads)
    bounds, ranks = np.empty(len(s)), np.empty(len(s))
    for_queries(bounds_of_queries, o, logistic, s, w, bounds, ranks, threads=threads)
    levels, slopes = _apply_alpha(alpha, bounds)
    if cutoff is not None:
        levels = levels - (ranks > cutoff) * _apply_alpha(alpha, np.array([float(cutoff)]))[0]
    gradient = np.empty(len(s))
    for_queries(backward_of_queries, o, logistic, s, -w * slopes, gradient, threads=threads)
    return float(-np.dot(w, levels)), gradient


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

    and with `truncate`, only over pairs with at least one document in the top `truncate`. Documents are ranked by
    the scores given (the expectation step), so the bound moves with them. O(c n) with c documents of non-zero weight;
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


def lambdarank(
    scores: ArrayLike,
    weights: ArrayLike,
    offsets: ArrayLike,
    *,
    k: int | None = None,
    discounts: Discounts = dcg_discounts,
    threads: int | None = None,
) -> tuple[float, FloatArray]:
    """Counterfactual LambdaRank: a pair counts by how much the metric changes when its documents swap places.

        sum over pairs with w_n > w_m of  |D_n - D_m| (w_n - w_m) log2(1 + exp(s_m - s_n)),

    with D = 0 beyond rank k. The paper names it after `eq:embound`. Arguments and result are as for `lambdaloss`.

    >>> value, gradient = lambdarank([0.0, 0.0], [0.0, 1.0], [0, 2], k=1)
    >>> value  # |1 - 0| * (1 - 0) * log2(1 + exp(0))
    1.0
    """
    s, w, o = check_inputs(scores, weights, offsets)
    table = discount_table(discounts, longest_query(o))
    return run_loss(lambdarank_spec(table, check_cutoff(k)), s, w, o, threads)


def _apply_alpha(
    alpha: Alpha | tuple[Callable[..., ArrayLike], ...], ranks: FloatArray
) -> tuple[FloatArray, FloatArray]:
    pair = alpha if isinstance(alpha, tuple) else ()
    if len(pair) != 2 or not all(map(callable, pair)):
        raise CounterrankError(f"alpha={alpha!r}: expected Alpha(function, derivative)")
    function, derivative = pair
    levels = np.asarray(function(ranks), dtype=np.float64)
    slopes = np.asarray(derivative(ranks), dtype=np.float64)
    if levels.shape != ranks.shape or slopes.shape != ranks.shape:
        raise CounterrankError("alpha: expected a function and a derivative that keep the shape of an array")
    if not (np.isfinite(levels).all() and np.isfinite(slopes).all()):
        raise CounterrankError("alpha: expected finite values and derivatives for ranks >= 1")
    if (slopes > 0.0).any():
        place = float(ranks[np.argmax(slopes > 0.0)])
        raise CounterrankError(f"alpha: rises at {place:g}; expected a decreasing function")
    return levels, slopes
