"""Small logs of pages that rank by one feature, and rankers that learn in moments."""

import numpy as np

from counterrank.clicks.examination import inverse_rank
from counterrank.clicks.policies import ReplaceLast
from counterrank.clicks.simulation import simulate
from counterrank.data import RankingData
from counterrank.training import Ranker

EXAM = inverse_rank(5)
POLICY = ReplaceLast(5)


def small_data(n_queries, seed=0):
    """20 documents a query, whose relevance depends on the sum of some features."""
    rng = np.random.default_rng([n_queries, seed])
    features = rng.random((20 * n_queries, 6))
    relevant = features[:, 1:4].sum(axis=1) + 0.5 * rng.normal(size=20 * n_queries) > 1.9
    return RankingData(features, np.arange(0, 20 * n_queries + 1, 20), 4.0 * relevant)


def logged(n_queries=30, sessions=3000, seed=0):
    """Data, clicks on pages that rank by one feature, and propensities."""
    data = small_data(n_queries, seed)
    scores = data.features[:, 0].astype(float)
    clicks = simulate(data, scores, POLICY, EXAM, sessions=sessions, seed=seed)
    return data, clicks, POLICY.propensity(scores, data.offsets, EXAM)


def quick(**settings):
    return Ranker(**{"k": 5, "max_epochs": 3, "learning_rate": 1.0, **settings})
