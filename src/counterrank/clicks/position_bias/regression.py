"""Regression-EM: the position-based model whose relevance is a logistic regression on the documents' features.

    P(click | document d, rank k) = theta_k gamma_d,     gamma_d = 1 / (1 + exp(-w . x_d)),     theta_1 = 1

    E:  as in `em`
    M:  theta_k = mean of P(examined) over the impressions at rank k > 1
        w      -> w + (X' N X / 4 + ridge)^-1 (X' N (y - gamma) - ridge w)

with y_d the mean of P(relevant) over the impressions of d and N_d their number: one step up the regression's
likelihood, whose second derivative is nowhere larger (Bohning and Lindsay, 1988), so that the likelihood of the clicks
rises with every step (generalised EM). Wang et al. (WSDM 2018, section 4.2) fit boosted trees instead. Documents share
what is learned, so few impressions each do; but where the features do not explain the relevance, the curve is biased.
With theta_1 = 1, gamma is the chance of a click at rank 1; without it the logistic function alone would set the scale.
"""

from __future__ import annotations

import numpy as np

from counterrank.clicks.position_bias import _em
from counterrank.clicks.position_bias.compared import Seen
from counterrank.clicks.position_bias.em import accelerate
from counterrank.clicks.position_bias.fit import Fit
from counterrank.common.checks import FloatArray
from counterrank.data import RankingData

_RIDGE = 1.0  # as much as four impressions say; keeps features that repeat each other from running away
_MOST = 1.0 - 1e-6


def regression_em(table: Seen, data: RankingData) -> Fit:
    """The curve relative to rank 1, and what its intervals need; holds the features of seen documents as float64."""
    x = _features(table, data)
    n_ranks = table.n_ranks
    shown = table.by_document(table.impressions)
    ridge = _RIDGE * np.eye(x.shape[1])
    bound = np.linalg.inv((x * shown[:, None]).T @ x / 4.0 + ridge)

    def step(state: FloatArray) -> tuple[FloatArray, float]:
        w = state[n_ranks:]
        gamma, relevant = _logistic(x @ w), np.empty(table.n_docs)
        theta, value = _em.em_step(*table.cells(), np.exp(state[:n_ranks]), gamma, relevant)
        theta[0] = 1.0
        rise = x.T @ (shown * (relevant - gamma)) - _RIDGE * w
        return np.concatenate((np.log(theta), w + bound @ rise)), value - 0.5 * _RIDGE * float(w @ w)

    start = np.zeros(n_ranks + x.shape[1])
    start[1:n_ranks] = np.log(0.5)
    state, steps = accelerate(step, start, n_ranks, bounded=n_ranks)
    return _fit(table, x, np.exp(state[:n_ranks]), _logistic(x @ state[n_ranks:]), ridge, steps)


def _features(table: Seen, data: RankingData) -> FloatArray:
    """Features scaled to 0..1 within each query, as linear rankers take them, and a 1 for the constant."""
    scaled = data.normalized().features[table.docs].astype(np.float64)
    return np.concatenate((scaled, np.ones((table.n_docs, 1))), axis=1)


def _logistic(values: FloatArray) -> FloatArray:
    result: FloatArray = np.exp(-np.logaddexp(0.0, -values))
    return np.clip(result, 1e-12, 1.0 - 1e-12)


def _fit(table: Seen, x: FloatArray, theta: FloatArray, gamma: FloatArray, ridge: FloatArray, steps: int) -> Fit:
    """Scores and information of log theta, those of w profiled out (the expected information, by cells)."""
    n_ranks, n_queries = table.n_ranks, table.n_queries
    doc = np.repeat(np.arange(table.n_docs), np.diff(table.starts))
    query = np.repeat(np.arange(n_queries), np.diff(table.query_starts))
    p = np.minimum(theta[table.ranks] * gamma[doc], _MOST)
    surprise = (table.clicks - table.impressions * p) / (1.0 - p)
    weight = table.impressions * p / (1.0 - p)
    flat = query[doc] * n_ranks + table.ranks
    of_ranks = np.bincount(flat, surprise, n_queries * n_ranks).reshape(n_queries, n_ranks)
    slope = 1.0 - gamma
    of_w = np.add.reduceat(x * (slope * table.by_document(surprise))[:, None], table.query_starts[:-1])
    both = np.zeros((n_ranks, x.shape[1]))
    for rank in range(n_ranks):
        here = table.ranks == rank
        both[rank] = (weight[here] * slope[doc[here]]) @ x[doc[here]]
    inner = (x * (slope**2 * table.by_document(weight))[:, None]).T @ x + ridge
    through = np.linalg.solve(inner, both.T).T
    information = np.diag(np.bincount(table.ranks, weight, n_ranks)) - through @ both.T
    scores = of_ranks - of_w @ through.T
    said: FloatArray = np.asarray(np.bincount(query[doc], weight, n_queries), np.float64)
    return Fit(theta, information, scores.T @ scores, information, said, steps)
