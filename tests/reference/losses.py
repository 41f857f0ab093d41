"""Slow, obvious versions of the fast kernels: one loop per sum of the paper, no shortcuts.

Each returns (value, gradient) for one query; `over_queries` adds up.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np


def ranks_of(scores):
    """Rank of each document from 1; equal scores keep document order."""
    n = len(scores)
    return [1 + sum(scores[j] > scores[i] or (scores[j] == scores[i] and j < i) for j in range(n)) for i in range(n)]


def softplus2(x: float) -> float:
    """log2(1 + exp(x)) without overflow."""
    return (max(x, 0.0) + math.log1p(math.exp(-abs(x)))) / math.log(2.0)


def sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0 else math.exp(x) / (1.0 + math.exp(x))


def alpha_arp(x: float) -> tuple[float, float]:
    return -x, -1.0


def alpha_dcg(x: float) -> tuple[float, float]:
    log = math.log2(1.0 + x)
    return 1.0 / log, -1.0 / (log**2 * (1.0 + x) * math.log(2.0))


def alpha_power(x: float) -> tuple[float, float]:
    return x**-0.7, -0.7 * x**-1.7


def rank_bound(scores, d: int, bound: str) -> float:
    if bound == "hinge":
        return sum(max(1.0 - (scores[d] - other), 0.0) for other in scores)
    return sum(softplus2(other - scores[d]) for other in scores)


def monotonic(scores, weights, alpha: Callable, bound: str, k):
    scores = [float(s) for s in scores]
    ranks = ranks_of(scores)
    value, gradient = 0.0, np.zeros(len(scores))
    for d, weight in enumerate(weights):
        level, slope = alpha(rank_bound(scores, d, bound))
        penalty = alpha(float(k))[0] if k is not None and ranks[d] > k else 0.0
        value += weight * (-level + penalty)
        for other in range(len(scores)):
            if other == d:
                continue
            if bound == "hinge":
                steep = 1.0 if 1.0 - (scores[d] - scores[other]) > 0.0 else 0.0
            else:
                steep = sigmoid(scores[other] - scores[d]) / math.log(2.0)
            gradient[other] += -weight * slope * steep
            gradient[d] -= -weight * slope * steep
    return value, gradient


def dcg_discount(n: int) -> float:
    return 1.0 / math.log2(1.0 + n)


def pairwise(scores, weights, factor: Callable):
    """Sum over pairs with w_n > w_m of factor(rank_n, rank_m) (w_n - w_m) log2(1 + exp(s_m - s_n))."""
    scores = [float(s) for s in scores]
    ranks = ranks_of(scores)
    value, gradient = 0.0, np.zeros(len(scores))
    for n in range(len(scores)):
        for m in range(len(scores)):
            if weights[n] > weights[m]:
                share = factor(ranks[n], ranks[m]) * (weights[n] - weights[m])
                value += share * softplus2(scores[m] - scores[n])
                slope = share * sigmoid(scores[m] - scores[n]) / math.log(2.0)
                gradient[n] -= slope
                gradient[m] += slope
    return value, gradient


def lambdaloss(scores, weights, discount: Callable[[int], float], truncate=None):
    def factor(n: int, m: int) -> float:
        if truncate is not None and n > truncate and m > truncate:
            return 0.0
        return discount(abs(n - m)) - discount(abs(n - m) + 1)

    return pairwise(scores, weights, factor)


def lambdarank(scores, weights, discount: Callable[[int], float], k=None):
    def cut(n: int) -> float:
        return discount(n) if k is None or n <= k else 0.0

    return pairwise(scores, weights, lambda n, m: abs(cut(n) - cut(m)))


def cut_dcg(k):
    return lambda n: dcg_discount(n) if k is None or n <= k else 0.0


NAMED = {
    "arp_hinge": lambda s, w, k: monotonic(s, w, alpha_arp, "hinge", None),
    "arp_logistic": lambda s, w, k: monotonic(s, w, alpha_arp, "logistic", None),
    "dcg_hinge": lambda s, w, k: monotonic(s, w, alpha_dcg, "hinge", k),
    "dcg_logistic": lambda s, w, k: monotonic(s, w, alpha_dcg, "logistic", k),
    "lambdaloss_dcg": lambda s, w, k: lambdaloss(s, w, dcg_discount),
    "lambdaloss_dcg_at_k": lambda s, w, k: lambdaloss(s, w, cut_dcg(k)),
    "lambdaloss_truncated": lambda s, w, k: lambdaloss(s, w, dcg_discount, truncate=k),
    "lambdarank": lambda s, w, k: lambdarank(s, w, dcg_discount, k),
}
TAKES_K = ("dcg_hinge", "dcg_logistic", "lambdaloss_dcg_at_k", "lambdaloss_truncated", "lambdarank")


def over_queries(one_query: Callable, scores, weights, offsets):
    """Sum of the values, gradients end to end."""
    parts = [one_query(scores[a:b], weights[a:b]) for a, b in itertools.pairwise(offsets)]
    return sum(value for value, _ in parts), np.concatenate([gradient for _, gradient in parts])
