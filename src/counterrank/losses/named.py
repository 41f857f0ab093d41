"""The seven losses of the paper's experiments, as thin names for the general forms.

All take `scores`, `weights` and `offsets`, minimise, and return the value (a plain sum over queries and documents) and
its gradient for the scores with ranks held fixed. `k=None` means no cutoff.
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from counterrank.common.checks import FloatArray
from counterrank.common.ranking import longest_query
from counterrank.losses.evaluate import check_inputs, run_loss
from counterrank.losses.spec import LOSSES


def _run(
    name: str, scores: ArrayLike, weights: ArrayLike, offsets: ArrayLike, k: int | None, threads: int | None
) -> tuple[float, FloatArray]:
    s, w, o = check_inputs(scores, weights, offsets)
    return run_loss(LOSSES[name].spec(k, longest_query(o)), s, w, o, threads)


def arp_hinge(
    scores: ArrayLike, weights: ArrayLike, offsets: ArrayLike, *, threads: int | None = None
) -> tuple[float, FloatArray]:
    """Average relevance position (`eq:ARP`) with the linear bound on the rank (`eq:linearupperbound`).

        sum over d of  w_d * sum over d' of max(1 - (s_d - s_d'), 0)

    >>> arp_hinge([2.0, 0.0], [0.0, 1.0], [0, 2])[0]  # max(1 - (0 - 2), 0) + max(1 - 0, 0)
    4.0
    """
    return _run("arp-hinge", scores, weights, offsets, None, threads)


def arp_logistic(
    scores: ArrayLike, weights: ArrayLike, offsets: ArrayLike, *, threads: int | None = None
) -> tuple[float, FloatArray]:
    """Average relevance position (`eq:ARP`) with the logistic bound on the rank (`eq:logupperbound`).

        sum over d of  w_d * sum over d' of log2(1 + exp(s_d' - s_d))

    >>> arp_logistic([0.0, 0.0], [0.0, 1.0], [0, 2])[0]  # log2(2) + log2(2)
    2.0
    """
    return _run("arp-logistic", scores, weights, offsets, None, threads)


def dcg_hinge(
    scores: ArrayLike, weights: ArrayLike, offsets: ArrayLike, k: int | None = None, *, threads: int | None = None
) -> tuple[float, FloatArray]:
    """DCG@k through the monotonic bound (`eq:kmonotonic`) with the linear bound on the rank.

        sum over d of  w_d * ( -1 / log2(1 + bound_d) + [rank_d > k] / log2(1 + k) )

    >>> dcg_hinge([1.0, 0.0], [0.0, 1.0], [0, 2], k=1)[0]  # bound 3: -1 / log2(4) + 1 / log2(2)
    0.5
    """
    return _run("dcg-hinge", scores, weights, offsets, k, threads)


def dcg_logistic(
    scores: ArrayLike, weights: ArrayLike, offsets: ArrayLike, k: int | None = None, *, threads: int | None = None
) -> tuple[float, FloatArray]:
    """DCG@k through the monotonic bound (`eq:kmonotonic`) with the logistic bound on the rank.

        sum over d of  w_d * ( -1 / log2(1 + bound_d) + [rank_d > k] / log2(1 + k) )

    >>> dcg_logistic([0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0, 3], k=1)[0]  # bound 3: -1 / log2(4) + 1 / log2(2)
    0.5
    """
    return _run("dcg-logistic", scores, weights, offsets, k, threads)


def lambdaloss_dcg(
    scores: ArrayLike, weights: ArrayLike, offsets: ArrayLike, *, threads: int | None = None
) -> tuple[float, FloatArray]:
    """LambdaLoss for DCG over the whole ranking (`eq:embound` with D_n = 1 / log2(1 + n)).

    >>> value, _ = lambdaloss_dcg([0.0, 0.0], [0.0, 1.0], [0, 2])  # (1 / log2(2) - 1 / log2(3)) * log2(2)
    >>> round(value, 6)
    0.36907
    """
    return _run("lambdaloss-dcg", scores, weights, offsets, None, threads)


def lambdaloss_dcg_at_k(
    scores: ArrayLike, weights: ArrayLike, offsets: ArrayLike, k: int | None = None, *, threads: int | None = None
) -> tuple[float, FloatArray]:
    """LambdaLoss for DCG@k (`eq:embound` with D_n = 1 / log2(1 + n) up to k, 0 beyond).

    >>> lambdaloss_dcg_at_k([0.0, 0.0], [0.0, 1.0], [0, 2], k=1)[0]  # (1 - 0) * log2(2)
    1.0
    """
    return _run("lambdaloss-dcg-at-k", scores, weights, offsets, k, threads)


def lambdaloss_truncated(
    scores: ArrayLike, weights: ArrayLike, offsets: ArrayLike, k: int | None = None, *, threads: int | None = None
) -> tuple[float, FloatArray]:
    """LambdaLoss for DCG over pairs with a document in the top k (`eq:truncembound`).

    >>> value, _ = lambdaloss_truncated([0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0, 3], k=1)
    >>> round(value, 6)  # ranks 1 and 3 only: (1 / log2(3) - 1 / log2(4)) * log2(2)
    0.13093
    """
    return _run("lambdaloss-truncated", scores, weights, offsets, k, threads)
