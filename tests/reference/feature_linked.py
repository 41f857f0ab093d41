"""The marginal likelihood of the feature-linked fit, document by document."""

import math

import numpy as np


def log_likelihood(documents, features, coefficients, top, bottom, frequencies):
    """The sum over documents; each is a list of (rank from 0, impressions, clicks), `frequencies` has one per level."""
    m, total = len(frequencies) - 1, 0.0
    for cells, x in zip(documents, features, strict=True):
        index = sum(w * value for w, value in zip(coefficients, x, strict=True))
        odds = [math.exp(a + g / m * index) for g, a in enumerate(frequencies)]
        likelihood = 0.0
        for g, share in enumerate(odds):
            value = share / sum(odds)
            for rank, shown, clicked in cells:
                p = top[rank] * g / m + bottom[rank] * (1 - g / m)
                value *= p**clicked * (1 - p) ** (shown - clicked)
            likelihood += value
        total += math.log(likelihood)
    return total


def overlap(values):
    """The weakest link that joins all ranks, by trying all limits; `values` has the indices of each rank."""
    every = np.concatenate(values)
    edges = np.quantile(every, np.linspace(0.0, 1.0, 21)[1:-1])
    shares = [[sum(bin_of(v, edges) == b for v in of_rank) / len(of_rank) for b in range(20)] for of_rank in values]
    n = len(values)
    found = {
        (i, j): sum(min(a, b) for a, b in zip(shares[i], shares[j], strict=True)) for i in range(n) for j in range(n)
    }
    best = 0.0
    for limit in set(found.values()):
        reached = {0}
        for _ in range(n):
            reached |= {j for i in reached for j in range(n) if found[i, j] >= limit}
        if len(reached) == n:
            best = max(best, limit)
    return best


def bin_of(value, edges):
    return sum(edge <= value for edge in edges)
