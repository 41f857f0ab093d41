"""Small logs to learn relevance from, and a regressor that would show a leak."""

from __future__ import annotations

import numpy as np

import counterrank as cr
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.policies import ReplaceLast
from counterrank.clicks.simulation import ClickModel, simulate
from counterrank.data.ids import identity

THETA = [1.0, 0.6, 0.5, 0.3]
POLICY = ReplaceLast(4)


def make_data(n_queries, length=8, n_features=5, signal=1.0, seed=0):
    """Labels of 0 and 4, which the first feature predicts with noise."""
    rng = np.random.default_rng(seed)
    n = n_queries * length
    labels = np.where(rng.random(n) < 0.3, 4, 0)
    features = rng.normal(size=(n, n_features))
    features[:, 0] += signal * labels
    return cr.RankingData(features, np.arange(0, n + 1, length), labels)


def logged(data, sessions, seed=1, model=None):
    scores = np.random.default_rng(seed).normal(size=data.n_docs)
    click_model = ClickModel(0.9, 0.1) if model is None else model
    log = simulate(data, scores, POLICY, THETA, sessions=sessions, seed=seed, click_model=click_model)
    return log, scores


DATA = make_data(200)
LOG, SCORES = logged(DATA, 3000)
RHO = POLICY.propensity(SCORES, DATA.offsets, THETA)


class Peeper:
    """A regressor that knows every document again that it has seen, and says the mean of others."""

    def fit(self, X, y, sample_weight=None):
        self.mean = np.average(y, weights=sample_weight)
        self.seen = {row.tobytes(): value for row, value in zip(X, y, strict=True)}
        return self

    def predict(self, X):
        return np.array([self.seen.get(row.tobytes(), self.mean) for row in X])


def tiny(n_queries, clicked=1):
    """Queries of two documents, each with one session."""
    data = cr.RankingData(np.arange(2.0 * n_queries)[:, None], np.arange(0, 2 * n_queries + 1, 2))
    docs = np.arange(2 * n_queries)
    ranks, ones = docs % 2 + 1, np.ones(2 * n_queries, np.int64)
    clicks = np.where(ranks == clicked, 1, 0)
    return data, ClickCounts(identity(data), data.offsets, np.ones(n_queries, np.int64), docs, ranks, ones, clicks)
