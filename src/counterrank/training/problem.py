"""What there is to learn: data, weights and a loss, made ready for the kernels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.errors import CounterrankError
from counterrank.common.parallel import run_parallel
from counterrank.data import RankingData
from counterrank.losses.evaluate import longest_query
from counterrank.losses.spec import LossSpec
from counterrank.models.scaling import Scales
from counterrank.training._sgd import sgd_epoch, sum_gradients

# A batch is cut into this many pieces whatever the number of threads, so that sums are always formed in one order.
_PIECES = 16


@dataclass(frozen=True)
class LinearProblem:
    """A loss over weighted queries as a function of a linear model's coefficients.

    Attributes:
        kernel_data: what the kernels take: offsets, features, weights that sum to 1 in absolute value, scaling.
        loss: which loss.
        queries: those that can teach something: with at least two different weights.
        n_features: the length of the coefficients.
    """

    kernel_data: tuple[Any, ...]
    loss: LossSpec
    queries: IntArray
    n_features: int

    @classmethod
    def make(cls, data: RankingData, weights: FloatArray, scales: Scales, loss: LossSpec) -> LinearProblem:
        """Normalise the weights and find the queries to learn from."""
        starts = data.offsets[:-1]
        usable = np.flatnonzero(np.maximum.reduceat(weights, starts) != np.minimum.reduceat(weights, starts))
        if not len(usable):
            raise CounterrankError(
                "weights: equal within every query, so there is nothing to learn; expected at least one query whose "
                "documents differ in weight"
            )
        kernel_data = (
            data.offsets,
            data.features,
            weights / np.abs(weights).sum(),
            scales.low,
            scales.inverse,
            scales.shared,
            longest_query(data.offsets),
        )
        return cls(kernel_data, loss, usable, data.n_features)

    def epoch(self, order: IntArray, step: float, batch: int, coefficients: FloatArray, threads: int) -> float:
        """Pass once over the queries in the given order, changing `coefficients`; the sum of losses met."""
        if batch == 1:
            return float(sgd_epoch(order, self.kernel_data, tuple(self.loss), step, coefficients))
        value = 0.0
        for start in range(0, len(order), batch):
            part, gradient, _ = self.gradient(order[start : start + batch], coefficients, threads)
            coefficients -= step * gradient
            value += part
        return value

    def gradient(
        self, queries: IntArray, coefficients: FloatArray, threads: int
    ) -> tuple[float, FloatArray, FloatArray]:
        """The loss of these queries together, its gradient, and the norm of each query's own gradient."""
        pieces = [piece for piece in np.array_split(queries, _PIECES) if len(piece)]
        totals = np.empty((len(pieces), self.n_features))
        norms = [np.empty(len(piece)) for piece in pieces]
        jobs = [
            partial(sum_gradients, piece, self.kernel_data, tuple(self.loss), coefficients, totals[i], norms[i])
            for i, piece in enumerate(pieces)
        ]
        values = run_parallel(jobs, threads)
        return float(np.sum(values)), totals.sum(axis=0), np.concatenate(norms)
