"""Kernels for display frequencies: how far documents of a query are alike at one rank, and lower bounds."""

from __future__ import annotations

import math

from counterrank.common.jit import Array, exact_kernel

# Smoothing is looked for between these; at the low end frequencies are left as they are, at the high end all
# documents of a query are shown equally often.
LEAST, MOST = 1e-3, 1e7
_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)
_STEPS = 60


@exact_kernel
def log_evidence(smoothing: float, shown: Array, candidates: Array, pages: Array) -> float:
    """log P(the documents shown at one rank | smoothing), for chances drawn from a symmetric Dirichlet distribution.

        sum over queries of  lgamma(m) - lgamma(m + n)  +  sum over documents of  lgamma(m / N + c) - lgamma(m / N)

    Arguments:
        smoothing: m, the sum of the Dirichlet parameters of a query.
        shown: c, how often each document was shown at the rank, those shown at least once.
        candidates: N, the number of documents of its query.
        pages: n, how many pages of each query have this rank.

    >>> import numpy as np
    >>> one = np.array([1])  # two candidates, one page: both are equally likely
    >>> round(math.exp(log_evidence(3.0, one, np.array([2]), one)), 6)
    0.5
    """
    total = 0.0
    for i in range(len(shown)):
        own = smoothing / candidates[i]
        total += math.lgamma(own + shown[i]) - math.lgamma(own)
    for i in range(len(pages)):
        total += math.lgamma(smoothing) - math.lgamma(smoothing + pages[i])
    return total


@exact_kernel
def best_smoothing(shown: Array, candidates: Array, pages: Array) -> float:
    """The smoothing of the largest `log_evidence`: by golden section over its logarithm."""
    low, high = math.log(LEAST), math.log(MOST)
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left = log_evidence(math.exp(left), shown, candidates, pages)
    at_right = log_evidence(math.exp(right), shown, candidates, pages)
    for _ in range(_STEPS):
        if at_left >= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = log_evidence(math.exp(left), shown, candidates, pages)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = log_evidence(math.exp(right), shown, candidates, pages)
    return math.exp(0.5 * (low + high))


@exact_kernel
def _divergence(found: float, true: float) -> float:
    """KL of two coins, for 0 < true <= found <= 1."""
    rest = (1.0 - found) * math.log((1.0 - found) / (1.0 - true)) if found < 1.0 else 0.0
    return found * math.log(found / true) + rest


@exact_kernel
def lower_bounds(means: Array, largest: Array, n: Array, allowed: float, out: Array) -> None:
    """Fill `out` with the smallest r for which n KL(mean / largest || r / largest) <= allowed; 0 for a mean of 0."""
    for i in range(len(means)):
        if means[i] <= 0.0:
            out[i] = 0.0
            continue
        found = min(means[i] / largest[i], 1.0)
        low, high = -750.0, math.log(found)  # by its logarithm: bounds of rare documents are tiny
        for _ in range(64):
            middle = 0.5 * (low + high)
            if n[i] * _divergence(found, math.exp(middle)) > allowed:
                low = middle
            else:
                high = middle
        out[i] = largest[i] * math.exp(high)
