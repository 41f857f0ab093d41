"""Curves by context the slow way: session by session, pair by pair, and one normal distribution written out.

A log is a list of cells (query, document, context, rank from 1, impressions, clicks); an item is (context, rank).
"""

from __future__ import annotations

from collections import defaultdict
from itertools import permutations

import numpy as np


def by_document(cells):
    """{(query, document): {item: (impressions, clicks)}} of documents seen at two items or more and clicked."""
    found = defaultdict(dict)
    for query, doc, context, rank, shown, clicked in cells:
        if shown:
            n, c = found[query, doc].get((context, rank), (0, 0))
            found[query, doc][context, rank] = n + shown, c + clicked
    return {key: items for key, items in found.items() if len(items) > 1 and any(c for _, c in items.values())}


def pair_clicks(cells, items):
    """A_ij = sum over documents of c_i n_j / (n_i + n_j)."""
    place, total = {item: i for i, item in enumerate(items)}, np.zeros((len(items), len(items)))
    for seen in by_document(cells).values():
        for a, b in permutations(seen, 2):
            (n, c), (m, _) = seen[a], seen[b]
            total[place[a], place[b]] += c * m / (n + m)
    return total


def mean_propensity(sessions, offsets, expected):
    """rho(d): each session of a query by itself has the expected examination of its context; their mean.

    `sessions` are of context and query; `expected` of context and document.
    """
    rho = []
    for query in range(len(offsets) - 1):
        for doc in range(offsets[query], offsets[query + 1]):
            seen = [expected[c][doc] for c in range(len(sessions)) for _ in range(sessions[c][query])]
            rho.append(float(np.mean(seen)) if seen else 0.0)
    return rho


def conditional_mean(y, covariance, items, contexts, ranks, level, shape):
    """E[b | y] with y_i = b_i - b_0 + error for all items but the first, and flat mu.

        b_ck = mu_k + u_c + v_ck,     mu_k ~ N(0, huge),     u_c ~ N(0, level^2),     v_ck ~ N(0, shape^2)

    relative to b_0: by conditioning the joint normal distribution of b and y.
    """
    n, huge = len(items), 1e4
    prior = np.zeros((n, n))
    for i, (c, k) in enumerate(items):
        for j, (d, m) in enumerate(items):
            prior[i, j] = huge * (k == m) + level**2 * (c == d) + shape**2 * (i == j)
    d = np.hstack((-np.ones((n - 1, 1)), np.eye(n - 1)))
    b = prior @ d.T @ np.linalg.solve(d @ prior @ d.T + covariance, y)
    return b - b[0]
