"""Fisher information on alpha and beta: of all parameters at once, relevance included, then profiled out."""

import math

import numpy as np


def profiled(shown, relevance, alpha, beta, model):
    """The Schur complement of the information on relevance; impressions by hand, one document and rank at a time."""
    n, k = len(shown), len(alpha)
    size = 2 * k if model == "affine" else k
    total = np.zeros((size + n, size + n))
    for d in range(n):
        impressions = sum(shown[d])
        kept = 1.0 - (1.0 - math.exp(-impressions)) / impressions if impressions > 0 else 0.0
        for j in range(k):
            p = alpha[j] * relevance[d] + beta[j]
            gradient = np.zeros(size + n)
            gradient[j] = relevance[d]
            if model == "affine":
                gradient[k + j] = 1.0
            gradient[size + d] = alpha[j]
            total += kept * shown[d][j] / (p * (1.0 - p)) * np.outer(gradient, gradient)
    inner = total[size:, size:]
    cross = total[:size, size:]
    return total[:size, :size] - cross @ np.linalg.pinv(inner) @ cross.T
