"""Position bias the slow way: dictionaries, rows one by one, numerical derivatives.

A log is a list of cells (query, document, rank from 1, impressions, clicks).
"""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import permutations

import numpy as np
from scipy import optimize


def by_document(cells, k):
    """{(query, document): {rank: (impressions, clicks)}} up to rank k."""
    found = defaultdict(dict)
    for query, doc, rank, shown, clicked in cells:
        if rank <= k and shown:
            n, c = found[query, doc].get(rank, (0, 0))
            found[query, doc][rank] = n + shown, c + clicked
    return found


def compared(cells, k):
    """Those seen at two ranks or more and clicked."""
    return {
        key: ranks
        for key, ranks in by_document(cells, k).items()
        if len(ranks) > 1 and any(clicked for _, clicked in ranks.values())
    }


def groups(cells, k):
    """Connected ranks, by spreading over documents until nothing changes."""
    label = {rank: rank for rank in range(1, k + 1)}
    for _ in range(k):
        for ranks in compared(cells, k).values():
            least = min(label[rank] for rank in ranks)
            for rank in ranks:
                label[rank] = least
    return sorted(sorted(r for r in label if label[r] == least) for least in set(label.values()))


def pair_clicks(documents, k):
    total = np.zeros((k, k))
    for ranks in documents.values():
        for a, b in permutations(ranks, 2):
            (n, c), (m, _) = ranks[a], ranks[b]
            # both ranks with the exposure n m / (n + m), at the click rate of rank a
            total[a - 1, b - 1] += (n * m / (n + m)) * (c / n)
    return total


def pair_likelihood(wins, beta):
    k = len(wins)
    return sum(
        wins[a, b] * math.log(math.exp(beta[a]) / (math.exp(beta[a]) + math.exp(beta[b])))
        for a, b in permutations(range(k), 2)
    )


def bradley_terry(wins, steps=20_000):
    """Hunter's MM steps (Annals of Statistics 2004)."""
    theta = np.ones(len(wins))
    for _ in range(steps):
        new = wins.sum(axis=1) / ((wins + wins.T) / (theta[:, None] + theta[None, :])).sum(axis=1)
        theta = new / new[0]
    return theta


def pair_score(documents, k, theta):
    """The derivative of the likelihood for log theta: from its formula, pair by pair."""
    wins = pair_clicks(documents, k)
    score = np.zeros(k)
    for a, b in permutations(range(k), 2):
        score[a] += (wins[a, b] * theta[b] - wins[b, a] * theta[a]) / (theta[a] + theta[b])
    return score


def over_queries(documents, score):
    """Sum over queries of the outer product of their scores."""
    by_query = defaultdict(dict)
    for (query, doc), ranks in documents.items():
        by_query[query][query, doc] = ranks
    return sum(np.outer(score(own), score(own)) for own in by_query.values())


def over_clicks(documents, k, theta):
    """Variance of the score if the clicks of each cell are binomial: what one click moves it, squared."""
    total = np.zeros((k, k))
    for key, ranks in documents.items():
        nothing = {rank: (n, 0) for rank, (n, _) in ranks.items()}
        for rank, (n, c) in ranks.items():
            moved = pair_score({key: {**nothing, rank: (n, 1)}}, k, theta)
            total += (c * (n - c) / (n - 1) if n > 1 else c) * np.outer(moved, moved)
    return total


def em_step(documents, theta, gamma):
    """One EM step over single impressions, and the log-likelihood before it."""
    examined, relevant = defaultdict(list), defaultdict(list)
    likelihood = 0.0
    for key, ranks in documents.items():
        for rank, (n, c) in ranks.items():
            p = theta[rank] * gamma[key]
            for clicked in [True] * c + [False] * (n - c):
                likelihood += math.log(p if clicked else 1.0 - p)
                examined[rank].append(1.0 if clicked else theta[rank] * (1.0 - gamma[key]) / (1.0 - p))
                relevant[key].append(1.0 if clicked else gamma[key] * (1.0 - theta[rank]) / (1.0 - p))
    new_theta = {rank: np.mean(examined[rank]) if rank in examined else theta[rank] for rank in theta}
    return new_theta, {key: np.mean(relevant[key]) for key in documents}, likelihood


def profile_likelihood(documents, beta):
    """The log-likelihood of log theta, each document with its own best gamma of at most 1, by bisection."""
    total = 0.0
    for ranks in documents.values():
        n, c = np.array(list(ranks.values()), float).T
        at = np.array([beta[rank - 1] for rank in ranks])
        low, high = -30.0, min(0.0, -at.max()) - 1e-12
        for _ in range(60):
            middle = (low + high) / 2.0
            p = np.exp(at + middle)
            if ((c - n * p) / (1.0 - p)).sum() > 0.0:  # the slope for log gamma
                low = middle
            else:
                high = middle
        p = np.exp(at + (low + high) / 2.0)
        total += float((c * np.log(p) + (n - c) * np.log(1.0 - p)).sum())
    return total


def gradient(function, x, step=1e-5):
    moves = np.eye(len(x)) * step
    return np.array([(function(x + move) - function(x - move)) / (2.0 * step) for move in moves])


def hessian(function, x, step=1e-4):
    return np.array([gradient(lambda y, i=i: gradient(function, y, step)[i], x, step) for i in range(len(x))])


def regression_curve(documents, features, k, ridge=1.0):
    """theta by a general optimiser: the clicks' likelihood less ridge / 2 |w|^2, with theta_1 = 1 and theta <= 1.

    `features` holds those of each document, without the constant.
    """
    rows = [(key, rank - 1, n, c) for key, ranks in documents.items() for rank, (n, c) in ranks.items()]
    x = np.array([[*features[key], 1.0] for key, *_ in rows])
    rank, n, c = (np.array(column) for column in zip(*(row[1:] for row in rows), strict=True))

    def loss(parameters):
        beta, w = np.append(0.0, parameters[: k - 1]), parameters[k - 1 :]
        p = np.clip(np.exp(beta[rank]) / (1.0 + np.exp(-x @ w)), 1e-12, 1.0 - 1e-12)
        return -(c * np.log(p) + (n - c) * np.log1p(-p)).sum() + ridge / 2.0 * w @ w

    bounds = [(None, 0.0)] * (k - 1) + [(None, None)] * x.shape[1]
    found = optimize.minimize(loss, np.full(len(bounds), -0.5), bounds=bounds, options={"maxiter": 2000, "ftol": 1e-14})
    return np.exp(np.append(0.0, found.x[: k - 1]))
