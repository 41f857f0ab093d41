"""Small data with the queries that break things: of one document, without weights, with constant columns."""

import numpy as np

from counterrank.data import RankingData


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
