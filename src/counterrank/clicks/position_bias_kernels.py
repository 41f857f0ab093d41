"""Kernels of position bias: AllPairs, EM, and which ranks are connected; see `position_bias` for the formulas."""

from __future__ import annotations

import math

import numpy as np

from counterrank.common.jit import Array, exact_inner_kernel, exact_kernel, inner_kernel, kernel


@kernel
def pair_clicks(starts: Array, ranks: Array, impressions: Array, clicks: Array, n_ranks: int) -> Array:
    """A[k, l] = sum over documents of c_k n_l / (n_k + n_l): clicks at rank k at the exposure that k and l share."""
    total = np.zeros((n_ranks, n_ranks))
    for doc in range(len(starts) - 1):
        for i in range(starts[doc], starts[doc + 1]):
            for j in range(starts[doc], starts[doc + 1]):
                if i != j:
                    total[ranks[i], ranks[j]] += clicks[i] * impressions[j] / (impressions[i] + impressions[j])
    return total


@inner_kernel
def _influence(first: int, last: int, i: int, ranks: Array, impressions: Array, theta: Array, out: Array) -> None:
    """d log-likelihood / d log theta of one click in cell i, by rank: of pairs (i, j) that share a document.

        out_k += w_ij,  out_l -= w_ij,    w_ij = n_j / (n_i + n_j) theta_l / (theta_k + theta_l)

    for cell i at rank k and each other cell j of the document, at rank l.
    """
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
    """The scores' variance over queries, over the clicks of each cell, and the information in each query.

    The clicks of a cell are binomial: c (n - c) / (n - 1) estimates their variance without bias; of a single
    impression nothing is known, and c is what it has at most.
    """
    n_ranks = len(theta)
    of_queries, of_clicks = np.zeros((n_ranks, n_ranks)), np.zeros((n_ranks, n_ranks))
    query_weights = np.zeros(len(query_starts) - 1)
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
                query_weights[query] += c * out[ranks[i]]
        for a in range(n_ranks):
            if score[a] != 0.0:
                for b in range(n_ranks):
                    of_queries[a, b] += score[a] * score[b]
    return of_queries, of_clicks, query_weights


_MOST = 1.0 - 1e-6  # a click probability beyond is 1 but for rounding


@kernel
def em_step(
    starts: Array, ranks: Array, impressions: Array, clicks: Array, theta: Array, gamma: Array, new_gamma: Array
) -> tuple[Array, float]:
    """The next theta, with the next gamma in its place, and the log-likelihood of the present ones.

    Of a click we know that the document was examined and relevant; of an impression without one, that it was
    examined with probability theta (1 - gamma) / (1 - theta gamma), and relevant with
    gamma (1 - theta) / (1 - theta gamma).
    """
    n_ranks = len(theta)
    examined, shown = np.zeros(n_ranks), np.zeros(n_ranks)
    clicked = np.zeros(n_ranks)
    likelihood = 0.0
    for doc in range(len(starts) - 1):
        g = gamma[doc]
        relevant = total = of_doc = 0.0
        for i in range(starts[doc], starts[doc + 1]):
            t, c, n = theta[ranks[i]], clicks[i], impressions[i]
            p = t * g
            left = n - c
            clicked[ranks[i]] += c
            of_doc += c
            if left > 0.0:
                likelihood += left * math.log(1.0 - p) if p < 1.0 else -math.inf
            rest = left / (1.0 - p) if p < 1.0 else 0.0
            examined[ranks[i]] += c + rest * t * (1.0 - g)
            shown[ranks[i]] += n
            relevant += c + rest * g * (1.0 - t)
            total += n
        new_gamma[doc] = relevant / total
        if of_doc > 0.0:
            likelihood += of_doc * math.log(g)
    for rank in range(n_ranks):
        if clicked[rank] > 0.0:
            likelihood += clicked[rank] * math.log(theta[rank])
        examined[rank] = examined[rank] / shown[rank] if shown[rank] > 0.0 else theta[rank]
    return examined, likelihood


@kernel
def em_scores(
    query_starts: Array, starts: Array, ranks: Array, impressions: Array, clicks: Array, theta: Array, gamma: Array
) -> tuple[Array, Array, Array]:
    """Information about log theta with gamma profiled out, the scores' variance over queries, and that in each query.

    With p = theta gamma the score of a cell for log p is (c - n p) / (1 - p), its information
    w = (n - c) p / (1 - p)^2. Profiling gamma out of a document leaves diag(w) - w w' / sum(w); where gamma is held
    at its bound, 1, it is no parameter.
    """
    n_ranks = len(theta)
    information, of_queries = np.zeros((n_ranks, n_ranks)), np.zeros((n_ranks, n_ranks))
    query_weights = np.zeros(len(query_starts) - 1)
    score, w = np.empty(n_ranks), np.empty(n_ranks)
    for query in range(len(query_starts) - 1):
        score[:] = 0.0
        for doc in range(query_starts[query], query_starts[query + 1]):
            w[:] = 0.0
            surprises = total = 0.0
            for i in range(starts[doc], starts[doc + 1]):
                p = min(theta[ranks[i]] * gamma[doc], _MOST)
                w[ranks[i]] = (impressions[i] - clicks[i]) * p / (1.0 - p) ** 2
                surprise = (clicks[i] - impressions[i] * p) / (1.0 - p)
                score[ranks[i]] += surprise
                surprises += surprise
                total += w[ranks[i]]
            if total == 0.0:
                continue
            # at its bound by the scale alone, which is free, gamma is still a parameter
            free = 0.0 if gamma[doc] >= _MOST and surprises > 1e-3 else 1.0
            for i in range(starts[doc], starts[doc + 1]):
                own = w[ranks[i]]
                score[ranks[i]] -= free * surprises * own / total
                information[ranks[i], ranks[i]] += own
                query_weights[query] += own * (1.0 - free * own / total)
                for j in range(starts[doc], starts[doc + 1]):
                    information[ranks[i], ranks[j]] -= free * own * w[ranks[j]] / total
        for k in range(n_ranks):
            for m in range(n_ranks):
                of_queries[k, m] += score[k] * score[m]
    return information, of_queries, query_weights


@exact_inner_kernel
def _root(parent: Array, rank: int) -> int:
    """The smallest rank of the set that a rank belongs to; paths are halved on the way (union-find)."""
    while parent[rank] != rank:
        parent[rank] = parent[parent[rank]]
        rank = parent[rank]
    return rank


@exact_kernel
def join_ranks(starts: Array, ranks: Array, n_ranks: int) -> Array:
    """For each rank the smallest rank it is connected with: ranks of one document are connected."""
    parent = np.empty(n_ranks, np.int64)
    for rank in range(n_ranks):
        parent[rank] = rank
    for doc in range(len(starts) - 1):
        first = _root(parent, ranks[starts[doc]])
        for cell in range(starts[doc] + 1, starts[doc + 1]):
            other = _root(parent, ranks[cell])
            if other < first:
                first, other = other, first
            parent[other] = first
    for rank in range(n_ranks):
        parent[rank] = _root(parent, rank)
    return parent
