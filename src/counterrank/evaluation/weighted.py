"""The metric of weighted documents: what training watches on validation data."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.checks import FloatArray, check_offsets, check_vector
from counterrank.common.errors import CounterrankError
from counterrank.common.parallel import for_queries
from counterrank.evaluation._kernels import weighted_queries
from counterrank.evaluation.metrics import rank_values

__all__ = ["prefix_sums", "weighted_metric", "weighted_queries"]


def weighted_metric(
    scores: ArrayLike, weights: ArrayLike, offsets: ArrayLike, metric: str, *, threads: int | None = None
) -> float:
    """The metric of a ranking, each document counted with its weight.

        sum over documents of omega * lambda(rank)  /  sum of |omega|

    lambda is the rank for "arp" (eq:ARP) and D(rank) for "dcg" (eq:DCG without its minus sign), see
    `rank_values`. Documents with equal scores get the mean of lambda over their ranks.

    Arguments:
        scores: one per document; a higher score ranks first.
        weights: one per document; negative ones are legal, but not all may be 0.
        offsets: where the documents of each query begin, and their number at the end.
        metric: "arp", "dcg", "dcg@k" or "precision@k".
        threads: how many to use; the result is the same for any number.

    >>> weighted_metric([3.0, 2.0, 1.0], [0, 2, 1], offsets=[0, 3], metric="arp")  # (2 * 2 + 1 * 3) / 3
    2.3333333333333335
    >>> weighted_metric([1.0, 1.0, 1.0], [0, 2, 1], offsets=[0, 3], metric="arp")  # tied: mean rank 2
    2.0
    """
    given = check_vector(scores, None, "scores")
    omega = check_vector(weights, len(given), "weights")
    bounds = check_offsets(offsets, len(given))
    values = rank_values(metric, int(np.diff(bounds).max()))
    total = float(np.abs(omega).sum())
    if total == 0.0:
        raise CounterrankError("weights: all are 0; expected at least one other")
    sums = np.empty(len(bounds) - 1)
    for_queries(weighted_queries, bounds, given, omega, prefix_sums(values), sums, threads=threads)
    return float(sums.sum()) / total


def prefix_sums(values: FloatArray) -> FloatArray:
    """Sums over the first 0, 1, 2, ... ranks; documents tied on the ranks a+1 to b share sums[b] - sums[a].

    >>> prefix_sums(np.array([1.0, 2.0, 3.0])).tolist()
    [0.0, 1.0, 3.0, 6.0]
    """
    sums = np.zeros(len(values) + 1)
    np.cumsum(values, out=sums[1:])
    return sums
