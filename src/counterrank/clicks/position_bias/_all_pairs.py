"""Kernels of AllPairs: clicks at one rank made comparable with another, and what each click moves."""

from __future__ import annotations

import numpy as np

from counterrank.common.jit import Array, kernel


@kernel
def pair_clicks(starts: Array, ranks: Array, impressions: Array, clicks: Array, n_ranks: int) -> Array:
    """A[k, l] = sum over documents of c_k n_l / (n_k + n_l): comparable clicks at rank k, beside rank l."""
    total = np.zeros((n_ranks, n_ranks))
    for doc in range(len(starts) - 1):
        for i in range(starts[doc], starts[doc + 1]):
            for j in range(starts[doc], starts[doc + 1]):
                if i != j:
                    total[ranks[i], ranks[j]] += clicks[i] * impressions[j] / (impressions[i] + impressions[j])
    return total


@kernel
def _influence(first: int, last: int, i: int, ranks: Array, impressions: Array, theta: Array, out: Array) -> None:
    """What one click in cell i adds to the score of each rank."""
    out[:] = 0.0
    for j in range(first, last):
        if j != i:
            weight = impressions[j] / (impressions[i] + impressions[j])
            weight *= theta[ranks[j]] / (theta[ranks[i]] + theta[ranks[j]])
            out[ranks[i]] += weight
            out[ranks[j]] -= weight


@kernel
def pair_scores(
    query_starts: Array, starts: Array, ranks: Array, impressions: Array, clicks: Array, theta: Array
) -> tuple[Array, Array, Array]:
    """The scores' variance over queries, over the clicks of each cell, and how much each query has to say.

    The clicks of a cell are binomial: c (n - c) / (n - 1) estimates their variance without bias; of a single
    impression nothing is known, and c is what it has at most.
    """
    n_ranks = len(theta)
    of_queries, of_clicks = np.zeros((n_ranks, n_ranks)), np.zeros((n_ranks, n_ranks))
    said = np.zeros(len(query_starts) - 1)
    score, out = np.empty(n_ranks), np.empty(n_ranks)
    for query in range(len(query_starts) - 1):
        score[:] = 0.0
        for doc in range(query_starts[query], query_starts[query + 1]):
            for i in range(starts[doc], starts[doc + 1]):
                c, n = clicks[i], impressions[i]
                if c == 0.0:
                    continue
                _influence(starts[doc], starts[doc + 1], i, ranks, impressions, theta, out)
                spread = c * (n - c) / (n - 1.0) if n > 1.0 else c
                for a in range(n_ranks):
                    if out[a] != 0.0:
                        score[a] += c * out[a]
                        for b in range(n_ranks):
                            of_clicks[a, b] += spread * out[a] * out[b]
                said[query] += c * out[ranks[i]]
        for a in range(n_ranks):
            for b in range(n_ranks):
                of_queries[a, b] += score[a] * score[b]
    return of_queries, of_clicks, said
