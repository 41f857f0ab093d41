"""Slow, obvious training of networks: one ranking after the other, gradients from `tests.reference.losses`."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from tests.reference import losses as naive
from tests.reference.training import scaled_features, teaches

torch = pytest.importorskip("torch")
torch.set_num_threads(1)  # tests run side by side, and threads that wait for each other take all of a core


def whole_queries(data, weights):
    """Each query as a ranking: its rows and their weights."""
    pairs = zip(data.offsets[:-1], data.offsets[1:], strict=True)
    return [(list(range(start, end)), weights[start:end].tolist()) for start, end in pairs]


def train_network(module, data, rankings, loss, k, normalize, entropy, epochs, batch, rate, decay):
    """The trained copy of a float64 module, and the loss met in each epoch with weights that sum to 1."""
    network = copy.deepcopy(module)
    optimizer = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=decay)
    features = torch.tensor(scaled_features(data, normalize))
    total = sum(abs(weight) for _, weights in rankings for weight in weights)
    of_query = {}
    for rows, weights in rankings:
        if teaches(np.array(weights)):
            query = int(np.searchsorted(data.offsets, rows[0], side="right")) - 1
            of_query.setdefault(query, []).append((rows, np.array(weights) / total))
    met = []
    for epoch in range(1, epochs + 1):
        order = np.random.default_rng([entropy, epoch]).permutation(np.array(sorted(of_query)))
        met.append(0.0)
        for begin in range(0, len(order), batch):
            chosen = order[begin : begin + batch]
            scores = network(features).reshape(-1)
            slopes = np.zeros(data.n_docs)
            for query in chosen:
                for rows, weights in of_query[int(query)]:
                    value, slope = naive.NAMED[loss](scores.detach().numpy()[rows], weights, k)
                    met[-1] += value
                    for row, amount in zip(rows, slope, strict=True):
                        slopes[row] += amount * len(of_query) / len(chosen)
            optimizer.zero_grad()
            scores.backward(torch.tensor(slopes))
            optimizer.step()
    return network, met
