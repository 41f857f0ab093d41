"""Slow references for policies estimated from pages: frequencies, smoothing, the likelihood of Plackett-Luce."""

from __future__ import annotations

import math


def smoothed(lengths, sessions, theta, added) -> list[float]:
    """rho of each document with `added` imaginary sessions by rank; 0 for documents that are on no page."""
    found = []
    for query, length in enumerate(lengths):
        pages = [page for shown, page, _ in sessions if shown == query]
        for place in range(length):
            rho = 0.0
            for rank, (examined, m) in enumerate(zip(theta, added, strict=True)):
                shown = sum(len(page) > rank and page[rank] == place for page in pages)
                filled = sum(len(page) > rank for page in pages)
                if pages:
                    rho += examined * (shown + m * filled / len(pages) / length) / (len(pages) + m)
            found.append(rho if any(place in page for page in pages) else 0.0)
    return found


def log_evidence(smoothing, draws) -> float:
    """`draws` lists for each query (candidates, documents in the order they were shown at one rank): Polya's urn."""
    total = 0.0
    for candidates, shown in draws:
        for i, doc in enumerate(shown):
            total += math.log((smoothing / candidates + shown[:i].count(doc)) / (smoothing + i))
    return total


def page_log_likelihood(scores, page) -> float:
    """log P(page) under Plackett-Luce: softmax over what is left, rank by rank; scores of one query."""
    left, total = list(range(len(scores))), 0.0
    for doc in page:
        top = max(scores[i] for i in left)
        total += scores[doc] - top - math.log(sum(math.exp(scores[i] - top) for i in left))
        left.remove(doc)
    return total


def page_gradient(scores, page, features) -> list[float]:
    """Of the log-likelihood by the coefficients: features of what was drawn less their mean over what was left."""
    left, total = list(range(len(scores))), [0.0] * len(features[0])
    for doc in page:
        top = max(scores[i] for i in left)
        weights = {i: math.exp(scores[i] - top) for i in left}
        for j in range(len(total)):
            mean = sum(weights[i] * features[i][j] for i in left) / sum(weights.values())
            total[j] += features[doc][j] - mean
        left.remove(doc)
    return total


def page_information(scores, page, features) -> list[list[float]]:
    """Minus the Hessian by the coefficients: the covariance of the features of what is left, rank by rank."""
    size = len(features[0])
    left, total = list(range(len(scores))), [[0.0] * size for _ in range(size)]
    for doc in page:
        top = max(scores[i] for i in left)
        weights = {i: math.exp(scores[i] - top) for i in left}
        norm = sum(weights.values())
        mean = [sum(weights[i] * features[i][j] for i in left) / norm for j in range(size)]
        for a in range(size):
            for b in range(size):
                total[a][b] += sum(
                    weights[i] / norm * (features[i][a] - mean[a]) * (features[i][b] - mean[b]) for i in left
                )
        left.remove(doc)
    return total
