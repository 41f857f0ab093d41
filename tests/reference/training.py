"""A slow, obvious twin of gradient descent: scaled features are stored, losses come from `tests.reference.losses`."""

from __future__ import annotations

import itertools

import numpy as np

from counterrank.data import RankingData
from tests.reference import losses as naive


def ragged_data(seed: int = 0) -> RankingData:
    """Queries of very different lengths, one of them of one document, with columns that carry nothing."""
    rng = np.random.default_rng(seed)
    lengths = np.array([7, 1, 12, 3, 40, 2, 9, 1, 5, 33, 4])
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    features = rng.normal(size=(offsets[-1], 6)) * [1.0, 50.0, 0.01, 1.0, 1.0, 1.0] + [0.0, 1e3, 0.0, 5.0, 0.0, 0.0]
    features[:, 3] = 5.0  # the same everywhere
    features[offsets[2] : offsets[3], 4] = -2.0  # the same within one query
    features[:, 5] = np.round(features[:, 5])
    return RankingData(features, offsets)


def ragged_weights(data: RankingData, negative: bool = False, seed: int = 1) -> np.ndarray:
    """Half of the documents weighted; query 3 not at all, query 5 all alike, query 10 at least once."""
    rng = np.random.default_rng(seed)
    weights = rng.exponential(size=data.n_docs) * (rng.random(data.n_docs) < 0.5)
    if negative:
        weights *= rng.choice([-1.0, 1.0], data.n_docs)
    weights[data.offsets[3] : data.offsets[4]] = 0.0
    weights[data.offsets[5] : data.offsets[6]] = 0.7
    weights[data.offsets[10]] = 1.5
    return weights


def scaled_features(data: RankingData, normalize: str) -> np.ndarray:
    if normalize == "query":
        return data.normalized().features.astype(np.float64)
    features = data.features.astype(np.float64)
    if normalize == "none":
        return features
    deviation = features.std(axis=0)
    return (features - features.mean(axis=0)) / np.where(deviation > 0, deviation, np.inf)


def teaches(weights: np.ndarray) -> bool:
    return len(set(weights.tolist())) > 1


def descend_sets(data, sets, loss, k, normalize, step, batch, order_of_epoch, epochs):
    """As `descend`, for sets: pairs of rows and their weights, each a ranking of its own."""
    features = scaled_features(data, normalize)
    total = sum(abs(weight) for _, weights in sets for weight in weights)
    of_query = {}
    for rows, weights in sets:
        if teaches(np.array(weights)):
            query = int(np.searchsorted(data.offsets, rows[0], side="right")) - 1
            of_query.setdefault(query, []).append((list(rows), np.array(weights) / total))
    coefficients, met = np.zeros(data.n_features), []
    for epoch in range(1, epochs + 1):
        order, loss_met = order_of_epoch(np.array(sorted(of_query)), epoch), 0.0
        for start in range(0, len(order), batch):
            gradient = np.zeros(data.n_features)
            for q in order[start : start + batch]:
                for rows, share in of_query[q]:
                    x = features[rows]
                    value, slopes = naive.NAMED[loss.replace("-", "_")](x @ coefficients, share, k)
                    gradient += x.T @ slopes
                    loss_met += value
            coefficients = coefficients - step * gradient
        met.append(loss_met)
    return coefficients, met


def descend(data, weights, loss, k, normalize, step, batch, order_of_epoch, epochs):
    """Coefficients after some epochs, and the sum of the losses met in each."""
    features = scaled_features(data, normalize)
    share = weights / np.abs(weights).sum()
    rows = [slice(a, b) for a, b in zip(data.offsets[:-1], data.offsets[1:], strict=True)]
    usable = np.array([q for q in range(data.n_queries) if teaches(weights[rows[q]])])
    coefficients, met = np.zeros(data.n_features), []
    for epoch in range(1, epochs + 1):
        order, total = order_of_epoch(usable, epoch), 0.0
        for start in range(0, len(order), batch):
            gradient = np.zeros(data.n_features)
            for q in order[start : start + batch]:
                x = features[rows[q]]
                value, slopes = naive.NAMED[loss.replace("-", "_")](x @ coefficients, share[rows[q]], k)
                gradient += x.T @ slopes
                total += value
            coefficients = coefficients - step * gradient
        met.append(total)
    return coefficients, met


def constant_features(data: RankingData) -> list[int]:
    """The columns that hold one value in each query."""
    queries = [data.features[start:end] for start, end in itertools.pairwise(data.offsets)]
    return [f for f in range(data.n_features) if all(len({float(x) for x in rows[:, f]}) == 1 for rows in queries)]
