"""Slow, obvious second-order terms of the losses: one loop over pairs, one query at a time."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tests.reference import losses as naive

LEAST = 1 / 20


def logistic_bend(x: float) -> float:
    """The second derivative of log2(1 + exp(x)), without loss of digits far from 0."""
    t = math.exp(-abs(x))
    return t / (1.0 + t) ** 2 / math.log(2.0)


def monotonic(scores, weights, alpha: Callable, bound: str):
    """|d loss / d bound| times the bound's curvature; half of each hinge that is not flat stands for its curvature."""
    curvature = np.zeros(len(scores))
    for d, weight in enumerate(weights):
        slope = abs(weight * alpha(naive.rank_bound(scores, d, bound))[1])
        for other in range(len(scores)):
            if other == d:
                continue
            if bound == "hinge":
                bend = 0.5 if 1.0 - (scores[d] - scores[other]) > 0.0 else 0.0
            else:
                bend = logistic_bend(scores[other] - scores[d])
            curvature[d] += slope * bend
            curvature[other] += slope * bend
    return curvature


def pairwise(scores, weights, factor: Callable[[int, int], float]):
    ranks = naive.ranks_of(scores)
    curvature = np.zeros(len(scores))
    for n in range(len(scores)):
        for m in range(n):
            bend = factor(ranks[n], ranks[m]) * abs(weights[n] - weights[m]) * logistic_bend(scores[n] - scores[m])
            curvature[n] += bend
            curvature[m] += bend
    return curvature


def delta(discount: Callable[[int], float], truncate=None) -> Callable[[int, int], float]:
    def factor(n: int, m: int) -> float:
        inside = truncate is None or min(n, m) <= truncate
        return discount(abs(n - m)) - discount(abs(n - m) + 1) if inside else 0.0

    return factor


def swap(discount: Callable[[int], float]) -> Callable[[int, int], float]:
    return lambda n, m: abs(discount(n) - discount(m))


_TERMS = {
    "arp_hinge": lambda s, w, k: monotonic(s, w, naive.alpha_arp, "hinge"),
    "arp_logistic": lambda s, w, k: monotonic(s, w, naive.alpha_arp, "logistic"),
    "dcg_hinge": lambda s, w, k: monotonic(s, w, naive.alpha_dcg, "hinge"),
    "dcg_logistic": lambda s, w, k: monotonic(s, w, naive.alpha_dcg, "logistic"),
    "lambdaloss_dcg": lambda s, w, k: pairwise(s, w, delta(naive.dcg_discount)),
    "lambdaloss_dcg_at_k": lambda s, w, k: pairwise(s, w, delta(naive.cut_dcg(k))),
    "lambdaloss_truncated": lambda s, w, k: pairwise(s, w, delta(naive.dcg_discount, k)),
    "lambdarank": lambda s, w, k: pairwise(s, w, swap(naive.cut_dcg(k))),
}


def curvature(name: str, scores, weights, k):
    """The terms of one query: at least a twentieth of the gradient."""
    _, gradient = naive.NAMED[name](scores, weights, k)
    return np.maximum(_TERMS[name]([float(s) for s in scores], weights, k), LEAST * np.abs(gradient))
