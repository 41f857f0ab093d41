"""LambdaRank for weights from clicks: LambdaLoss with another factor for each pair.

    loss = sum over pairs with w_n > w_m of  |D_n - D_m| (w_n - w_m) log2(1 + exp(s_m - s_n)),

so that a pair counts by how much the metric changes when its documents swap places; D = 0 beyond rank k. Burges, Ragno
and Le, NIPS 2006; the paper names its form for clicks after `eq:embound`. The kernel is `lambdaloss.pairwise_query`.
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from counterrank.common.checks import FloatArray, check_cutoff
from counterrank.common.ranking import longest_query
from counterrank.losses.lambdaloss import (
    BY_DIFFERENCE,
    Discounts,
    cut_discounts,
    dcg_discounts,
    discount_table,
    pairwise_query,
)
from counterrank.losses.loss_kernels import NO_CUTOFF, LossSpec, Parameters, check_inputs, run_loss


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
