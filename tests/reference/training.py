"""A slow, obvious reference of gradient descent: scaled features are stored, losses are of `tests.reference.losses`."""

from __future__ import annotations

import itertools

import numpy as np

from tests.reference import losses as naive


def scaled_features(data, normalize: str) -> np.ndarray:
    features = data.features.astype(np.float64)
    if normalize == "query":
        return np.concatenate([_spread(features[start:end]) for start, end in itertools.pairwise(data.offsets)])
    if normalize == "none":
        return features
    deviation = features.std(axis=0)
    return (features - features.mean(axis=0)) / np.where(deviation > 0, deviation, np.inf)


def _spread(rows: np.ndarray) -> np.ndarray:
    """Each column from 0 to 1, or 0 where it is constant, in the precision that data are stored in."""
    low, width = rows.min(axis=0), np.ptp(rows, axis=0)
    return ((rows - low) / np.where(width > 0, width, np.inf)).astype(np.float32).astype(np.float64)


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


def constant_features(data) -> list[int]:
    """The columns that hold one value in each query."""
    queries = [data.features[start:end] for start, end in itertools.pairwise(data.offsets)]
    return [f for f in range(data.n_features) if all(len({float(x) for x in rows[:, f]}) == 1 for rows in queries)]
