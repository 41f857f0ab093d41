"""Blends against production, one document at a time."""

from itertools import pairwise

import numpy as np


def spread(scores, offsets):
    """The mean over queries of the standard deviation of scores, without queries of equal scores."""
    found = []
    for start, end in pairwise(offsets):
        deviation = float(np.std(scores[start:end]))
        if deviation > 0.0:
            found.append(deviation)
    return float(np.mean(found)) if found else 1.0


def dcg_per_session(scores, weights, sessions, offsets, k):
    """sum over d of weight(d) / log2(1 + rank), ranks up to k, over the sessions of all queries; without ties."""
    total = 0.0
    for start, end in pairwise(offsets):
        order = sorted(range(start, end), key=lambda d: -scores[d])
        total += sum(weights[d] / np.log2(2 + place) for place, d in enumerate(order[:k]))
    return total / sum(sessions)


def jackknife_variance(estimate, groups):
    """(G - 1) / G sum over groups of (estimate without it - mean of these)^2."""
    left = [estimate(group) for group in range(groups)]
    mean = sum(left) / groups
    return (groups - 1) / groups * sum((each - mean) ** 2 for each in left)
