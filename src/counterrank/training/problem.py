"""What there is to learn: data, weights and a loss, made ready for the kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.errors import NothingToLearnError
from counterrank.common.flags import flags_for, side_by_side
from counterrank.common.ranking import longest_query
from counterrank.data import RankingData
from counterrank.losses.evaluate import LossSpec
from counterrank.models.scaling import Scales
from counterrank.training._sgd import Batches, Problem, SetArrays, Sums, batch_epoch, sgd_epoch
from counterrank.training.sets import Sets

# A batch is summed in this many pieces whatever the number of threads, so that sums are always formed in one order.
_PIECES = 32


@dataclass(frozen=True)
class LinearProblem:
    """A loss over weighted queries as a function of a linear model's coefficients.

    Attributes:
        kernel_data: what the kernels take: offsets, features, weights that sum to 1 in absolute value, scaling, sets.
        loss: which loss.
        queries: those that can teach something: with at least two different weights, in one set if there are sets.
        n_features: the length of the coefficients.
        work: about how much there is to do for each query, in documents.
    """

    kernel_data: Problem
    loss: LossSpec
    queries: IntArray
    n_features: int
    work: IntArray

    @classmethod
    def make(
        cls, data: RankingData, weights: FloatArray, scales: Scales, loss: LossSpec, sets: Sets | None = None
    ) -> LinearProblem:
        """Normalise the weights and find the queries to learn from; with sets, weights are those of their members."""
        work: IntArray = data.lengths
        usable, weights, sets = normalized_evidence(data, weights, sets)
        members = SetArrays(*np.empty((3, 0), np.int64))
        if sets is not None:
            members = SetArrays(*sets.by_query(data))
            sizes = np.bincount(sets.owners, weights=np.diff(sets.offsets), minlength=data.n_queries)
            work = work + sizes.astype(np.int64)
        kernel_data = Problem(
            data.offsets,
            data.features,
            weights,
            scales.low,
            scales.inverse,
            scales.shared,
            longest_query(data.offsets),  # no set is longer
            members,
        )
        return cls(kernel_data, loss, usable, data.n_features, work)

    def epoch(self, order: IntArray, step: float, batch: int, coefficients: FloatArray, threads: int) -> float:
        """Pass once over the queries in the given order, changing `coefficients`; the sum of losses met."""
        if batch == 1:
            return self._single(order, step, coefficients)[0]
        return self._batches(order, step, batch, coefficients, threads)

    def gradient_norms(self, coefficients: FloatArray) -> FloatArray:
        """The norm of the gradient of each query's loss, all at the same coefficients."""
        return self._single(self.queries, 0.0, coefficients.copy())[1]

    def _single(self, order: IntArray, step: float, coefficients: FloatArray) -> tuple[float, FloatArray]:
        """An epoch of one query a step: the sum of losses, and the norm of each gradient met."""
        norms = np.empty(len(order))
        value = sgd_epoch(
            order, self.kernel_data, self.loss.argument(), self.loss.parameters, step, coefficients, norms
        )
        return float(value), norms

    def _batches(self, order: IntArray, step: float, batch: int, coefficients: FloatArray, threads: int) -> float:
        """An epoch of batches; the sum of losses."""
        threads = min(threads, _PIECES)
        starts = np.arange(0, len(order), batch)
        ends = np.minimum(starts + batch, len(order))
        shares = np.arange(_PIECES) / _PIECES
        bounds = np.append((starts[:, None] + (ends - starts)[:, None] * shares).astype(np.int64).ravel(), len(order))
        sums = Sums(np.empty((_PIECES, self.n_features)), np.empty(len(bounds) - 1), flags_for(threads))
        batches = Batches(order, bounds, self._share_out(order, bounds, len(starts), threads))
        fixed = (batches, self.kernel_data, self.loss.argument(), self.loss.parameters, step, coefficients, sums)
        side_by_side(lambda thread: batch_epoch(thread, *fixed), threads, sums.flags)
        return float(sums.values.sum())

    def _share_out(self, order: IntArray, bounds: IntArray, n_batches: int, threads: int) -> IntArray:
        """For each batch, where each thread's pieces begin: about as many documents for each."""
        documents = np.concatenate(([0], np.cumsum(self.work[order])))[bounds]
        begins = documents[:-1].reshape(n_batches, _PIECES) - documents[:-1:_PIECES, None]
        sizes = documents[_PIECES::_PIECES] - documents[:-1:_PIECES]
        cuts = np.full((n_batches, threads + 1), _PIECES)
        for thread in range(threads):
            cuts[:, thread] = (begins < sizes[:, None] * (thread / threads)).sum(axis=1)
        return cuts


def normalized_evidence(
    data: RankingData, weights: FloatArray, sets: Sets | None
) -> tuple[IntArray, FloatArray, Sets | None]:
    """The queries that can teach something, weights that sum to 1 in absolute value, and the sets that teach.

    >>> data = RankingData([[0.0], [1.0], [2.0]], offsets=[0, 2, 3])
    >>> [queries, weights, _] = normalized_evidence(data, np.array([0.0, 3.0, 1.0]), None)
    >>> queries.tolist(), weights.tolist()
    ([0], [0.0, 0.75, 0.25])
    """
    total = np.abs(weights).sum()
    usable = check_usable(weights, data.offsets, sets)
    if sets is not None:
        # sets of equal weights count in the sum that weights are divided by, as such queries do
        sets, weights = sets.subset(usable, weights)
        usable = np.unique(sets.owners)
    return usable, weights / total, sets


def check_usable(weights: FloatArray, offsets: IntArray, sets: Sets | None) -> IntArray:
    """The queries, or with sets the sets, that can teach something; none at all is an error."""
    usable = usable_queries(weights, offsets if sets is None else sets.offsets)
    if not len(usable):
        name, what = ("weights", "query") if sets is None else ("views", "set")
        raise NothingToLearnError(
            f"{name}: equal within every {what}, so there is nothing to learn; expected at least one {what} whose "
            "documents differ in weight"
        )
    return usable


def usable_queries(weights: FloatArray, offsets: IntArray) -> IntArray:
    """The queries (or sets) that can teach something: with at least two different weights.

    >>> usable_queries(np.array([1.0, 0.0, 1.0, 1.0]), np.array([0, 2, 4])).tolist()
    [0]
    """
    starts = offsets[:-1]
    return np.flatnonzero(np.maximum.reduceat(weights, starts) != np.minimum.reduceat(weights, starts))
