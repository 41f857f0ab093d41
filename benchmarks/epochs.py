"""One epoch of training, as a multiple of reading the feature matrix once.

No linear ranker can avoid reading the matrix. All run on one thread except the last rows, which train on batches.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numba import njit

from benchmarks.evaluation import rank_queries
from benchmarks.timing import at_least, at_most, best_seconds, median_seconds, row
from counterrank.common.ranking import longest_query
from counterrank.data import RankingData
from counterrank.losses import LOSSES
from counterrank.losses.loss_kernels import run_loss
from counterrank.models.linear import gradient_of_rows, linear_scores
from counterrank.models.model import Scaler, Scales
from counterrank.training.gradient_descent import LinearProblem

_LIMITS = {
    "arp-hinge": (6.0, 6.0),
    "dcg-hinge": (6.0, 6.0),
    "arp-logistic": (12.0, None),
    "dcg-logistic": (12.0, None),
    "lambdaloss-dcg": (12.0, None),
    "lambdaloss-dcg-at-k": (6.0, 6.0),
    "lambdaloss-truncated": (6.0, 6.0),
    "lambdarank": (None, None),
}


@njit(nogil=True, fastmath=True)
def _sum(values):
    total = np.float32(0.0)
    for i in range(values.size):
        total += values[i]
    return total


@njit(nogil=True)
def _all_gradients(offsets, features, slopes, gradient):
    for q in range(len(offsets) - 1):
        start, end = offsets[q], offsets[q + 1]
        gradient_of_rows(features[start:end], slopes[start:end], gradient)


def _parts(data: RankingData, scales: Scales, weights, one_pass: float, repeats: int) -> list[dict[str, Any]]:
    """Where the time of an epoch of truncated LambdaLoss goes; each part by itself, the matrix read anew for two."""
    coefficients, gradient = np.ones(data.n_features), np.empty(data.n_features)
    scores = linear_scores(data, coefficients, scales, threads=1)
    spec = LOSSES["lambdaloss-truncated"].spec(5, longest_query(data.offsets))
    parts = {
        "scores": lambda: linear_scores(data, coefficients, scales, threads=1),
        "order": lambda: rank_queries(data.offsets, scores, longest_query(data.offsets)),
        "order, loss and gradient for the scores": lambda: run_loss(spec, scores, weights, data.offsets, 1),
        "gradient for the coefficients": lambda: _all_gradients(data.offsets, data.features, scores, gradient),
    }
    return [
        at_most(f"  part of it: {name}", median_seconds(action, repeats), one_pass, None)
        for name, action in parts.items()
    ]


def run(data: RankingData, repeats: int = 5) -> list[dict[str, Any]]:
    """Rows for every loss with 5 and with 85 % of the documents weighted."""
    flat = data.features.reshape(-1)
    one_pass = median_seconds(lambda: _sum(flat), repeats)
    rows = [row("one pass over the feature matrix (sum)", one_pass, 1.0)]
    scales = Scaler.learn("query", data).scales(data)
    generator = np.random.default_rng(0)
    coefficients = generator.normal(size=data.n_features)
    for i, share in enumerate((0.05, 0.85)):
        weighted = generator.random(data.n_docs) < share
        weights = np.where(weighted, generator.exponential(size=data.n_docs), 0.0)
        for name, loss in LOSSES.items():
            spec = loss.spec(5 if loss.takes_k else None, longest_query(data.offsets))
            problem = LinearProblem.make(data, weights, scales, spec)
            order = generator.permutation(problem.queries)

            def epoch(threads=1, batch=1, problem=problem, order=order):
                # a tiny learning rate, so that every run does the same work
                problem.epoch(order, 1e-12, batch, coefficients, threads)

            seconds = median_seconds(epoch, repeats)
            rows.append(at_most(f"epoch, {name}, {share:.0%} weighted", seconds, one_pass, _LIMITS[name][i]))
            if name == "lambdaloss-truncated" and share == 0.05:
                rows.extend(_parts(data, scales, weights, one_pass, repeats))
            if name in ("lambdaloss-truncated", "lambdaloss-dcg", "arp-hinge") and share == 0.05:
                one, two = best_seconds([partial(epoch, threads, 256) for threads in (1, 2)], 2 * repeats)
                rows.append(at_least(f"epoch, {name}, batches of 256, 2 threads against 1", two, one, 1.6))
    return rows
