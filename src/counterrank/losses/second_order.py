"""Second-order terms of the losses, for learners that take Newton steps, such as boosted trees."""

from __future__ import annotations

from numpy.typing import ArrayLike

from counterrank.common.checks import FloatArray
from counterrank.common.ranking import longest_query
from counterrank.losses.evaluate import check_inputs, run_second_order
from counterrank.losses.spec import NamedLoss, named_loss


def second_order(
    loss: str | NamedLoss,
    scores: ArrayLike,
    weights: ArrayLike,
    offsets: ArrayLike,
    k: int | None = None,
    *,
    threads: int | None = None,
) -> tuple[float, FloatArray, FloatArray]:
    """Value, gradient, and for each document a positive second-order term of a loss, with ranks held fixed.

    Pairs (LambdaLoss, LambdaRank): the second derivative of the loss, which adds to both documents of a pair

        factor_nm |w_n - w_m| log2(e) p (1 - p),    p = 1 / (1 + exp(s_better - s_worse)).

    Logistic bound: the curvature of the bound times |d loss / d bound|, to both documents of each term of the bound

        |w_d alpha'(bound_d)| log2(e) p (1 - p),    p = 1 / (1 + exp(s_d - s_d')).

    For ARP and weights >= 0 that is the second derivative. For DCG -alpha is concave in the bound: its tangent lies
    above it, and the loss with the tangent in its place has this curvature, where the second derivative may be
    negative. The same is done where a weight is negative.

    Hinge: piecewise linear, so its second derivative is 0. Each term with s_d - s_d' < 1 adds to both documents

        |w_d alpha'(bound_d)| / 2.

    A parabola that touches max(1 - z, 0) at z <= 0 with curvature 1/2 lies above it everywhere, and no smaller
    curvature does so at z = 0: minimising it lowers the loss for sure where documents are tied or in the wrong order.

    No term is less than 1/20 of the document's |gradient|, so that no Newton step is longer than 20, even for
    pairs at which the logistic function is flat.

    Arguments:
        loss: a name from `LOSSES`, or a `NamedLoss`.
        scores, weights: one number per document; negative weights are legal.
        offsets: where each query starts and ends.
        k: the loss's cutoff, or None.
        threads: None for all cores.

    Returns the value and the gradient as the loss itself does, and the terms.

    >>> value, gradient, curvature = second_order("lambdarank", [0.0, 0.0], [0.0, 1.0], [0, 2], k=1)
    >>> (curvature / gradient).tolist()  # both have |1 - 0| (1 - 0) log2(e), times p (1 - p) = 1/4 and p = 1/2
    [0.5, -0.5]
    """
    s, w, o = check_inputs(scores, weights, offsets)
    return run_second_order(named_loss(loss).spec(k, longest_query(o)), s, w, o, threads)
