"""Slow, obvious references for affine users: the marginal likelihood of clicks, document by document."""

from __future__ import annotations

import math


def log_likelihood(documents, lines, grid, priors, edge=1e-4) -> float:
    """`documents` are (group, [(rank from 0, impressions, clicks)]), `lines` (intercept, slope) by rank.

    `priors` holds for each group the probability of each value of the grid.
    """
    return sum(math.log(sum(joint(document, lines, grid, priors, edge))) for document in documents)


def joint(document, lines, grid, priors, edge=1e-4) -> list[float]:
    """P(t, clicks) of a document for each t of the grid."""
    group, cells = document
    found = []
    for t, prior in zip(grid, priors[group], strict=True):
        value = prior
        for rank, n, c in cells:
            p = min(max(lines[rank][0] + lines[rank][1] * t, edge), 1.0 - edge)
            value *= p**c * (1.0 - p) ** (n - c)
        found.append(value)
    return found


def posterior(document, lines, grid, priors) -> list[float]:
    """P(t | clicks) of a document for each t of the grid: the E step."""
    values = joint(document, lines, grid, priors)
    return [value / sum(values) for value in values]


def next_priors(documents, lines, grid, priors) -> list[list[float]]:
    """The M step of EM for priors without a shape: the mean posterior of each group."""
    found = []
    for group in range(len(priors)):
        own = [posterior(each, lines, grid, priors) for each in documents if each[0] == group]
        found.append([sum(each[m] for each in own) / len(own) if own else priors[group][m] for m in range(len(grid))])
    return found


def profiled(documents, lines, means) -> list[list[float]]:
    """Information on intercept and slope of each rank, the relevance of each document free; `means` is its value."""
    n = 2 * len(lines)
    total = [[0.0] * n for _ in range(n)]
    for (_, cells), t in zip(documents, means, strict=True):
        through, own = [0.0] * n, 0.0
        for rank, shown, _ in cells:
            p = min(max(lines[rank][0] + lines[rank][1] * t, 1e-4), 1.0 - 1e-4)
            weight, slope = shown / (p * (1.0 - p)), lines[rank][1]
            g = [0.0] * n
            g[2 * rank], g[2 * rank + 1] = 1.0, t
            own += weight * slope**2
            for a in range(n):
                through[a] += weight * slope * g[a]
                for b in range(n):
                    total[a][b] += weight * g[a] * g[b]
        for a in range(n):
            for b in range(n):
                total[a][b] -= through[a] * through[b] / own if own else 0.0
    return total
