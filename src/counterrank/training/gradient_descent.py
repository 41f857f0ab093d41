"""Stochastic gradient descent of linear models: the loss as a function of the coefficients, and one epoch over it.

    w <- w - step * sum over the queries of a batch of  d loss(X w) / d w,      d loss / d w = X^T (d loss / d s)

The loss of one query (or of one set of its documents) is an argument; see `losses.loss_kernels`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from counterrank.common.checks import BoolArray, FloatArray, IntArray, read_only
from counterrank.common.flags import await_flag, flags_for, publish, side_by_side
from counterrank.common.jit import Array, exact_allocating_kernel, inner_kernel, kernel
from counterrank.common.random import derive_key
from counterrank.common.ranking import longest_query
from counterrank.data import RankingData
from counterrank.losses.exposure_limits import at_risk, risk_spec
from counterrank.losses.loss_kernels import Documents, LossSpec, Parameters, Room, make_room
from counterrank.losses.plackett_luce import EXPOSURE
from counterrank.models.linear import gradient_of_rows, scaled_coefficients, score_rows
from counterrank.models.model import Scales
from counterrank.training.problem import Sets, normalized_evidence

# the first thread; typed, since numba compiles whatever is called with a literal number once more for that
_FIRST: Any = np.int64(0)


class SetArrays(NamedTuple):
    """Sets of documents to be ranked by themselves; all empty where each query is one ranking.

    The sets of query q are of_query[q]:of_query[q + 1], and the documents of set s are at
    places[offsets[s]:offsets[s + 1]] in their query.
    """

    of_query: Array
    offsets: Array
    places: Array


class Problem(NamedTuple):
    """What is learned from: queries, weights, and how features are scaled.

    Attributes:
        offsets, features: of the data.
        weights: by document, or with sets by their `places`.
        scales: how features are scaled, x' = (x - low) * inverse.
        longest: the number of documents of the longest query.
        sets: the sets, if there are any.
    """

    offsets: Array
    features: Array
    weights: Array
    scales: Scales
    longest: int
    sets: SetArrays


class EpochOrder(NamedTuple):
    """An epoch's queries in order, and how they are shared out.

    Piece `p` of the epoch is `queries[bounds[p]:bounds[p + 1]]`; in batch `b` the pieces of a thread begin at
    `cuts[b, thread]`.
    """

    queries: Array
    bounds: Array
    cuts: Array


class Sums(NamedTuple):
    """Where threads add up: the gradient of each piece of a batch, the loss of each piece, and flags to wait by."""

    gradients: Array
    values: Array
    flags: Array


class Scratch(NamedTuple):
    """Scores and slopes of a query, the same of one set, scaled coefficients, and the loss's own room."""

    scores: Array
    slopes: Array
    set_scores: Array
    set_slopes: Array
    scaled: Array
    room: Room


@exact_allocating_kernel
def _scratch(longest: int, n_features: int) -> Scratch:
    """Scratch for queries of up to `longest` documents."""
    floats = np.empty((4, longest))
    return Scratch(floats[0], floats[1], floats[2], floats[3], np.empty(n_features), make_room(longest))


@inner_kernel
def _loss_of_sets(
    q: int, problem: Problem, query_kernel: Any, loss: Parameters, scores: Array, slopes: Array, scratch: Scratch
) -> float:
    """sum over the sets of query q of their loss; `slopes` gets d loss / d scores."""
    sets = problem.sets
    slopes[:] = 0.0
    value = 0.0
    for s in range(sets.of_query[q], sets.of_query[q + 1]):
        first, n = sets.offsets[s], sets.offsets[s + 1] - sets.offsets[s]
        places, weights = sets.places[first : first + n], problem.weights[first : first + n]
        docs = Documents(first, scratch.set_scores[:n], weights, scratch.set_slopes[:n])
        for i in range(n):
            docs.scores[i] = scores[places[i]]
        value += query_kernel(loss, docs, None, scratch.room)
        for i in range(n):
            slopes[places[i]] += docs.gradient[i]
    return value


@inner_kernel
def _query_gradient(
    q: int,
    problem: Problem,
    query_kernel: Any,
    loss: Parameters,
    coefficients: Array,
    scratch: Scratch,
    gradient: Array,
) -> float:
    """The loss of query q at s = X w, and its gradient X^T (d loss / d s) for the coefficients."""
    scales = problem.scales
    at = 0 if scales.shared else q
    start, end = problem.offsets[q], problem.offsets[q + 1]
    rows, scores, slopes = problem.features[start:end], scratch.scores[: end - start], scratch.slopes[: end - start]
    constant = scaled_coefficients(coefficients, scales.low[at], scales.inverse[at], scratch.scaled)
    score_rows(rows, scratch.scaled, constant, scores)
    value: float
    if len(problem.sets.of_query) == 0:
        value = query_kernel(loss, Documents(start, scores, problem.weights[start:end], slopes), None, scratch.room)
    else:
        value = _loss_of_sets(q, problem, query_kernel, loss, scores, slopes, scratch)
    gradient_of_rows(rows, slopes, gradient)
    for f in range(len(coefficients)):
        gradient[f] *= scales.inverse[at, f]
    return value


@kernel
def sgd_epoch(
    queries: Array,
    problem: Problem,
    query_kernel: Any,
    loss: Parameters,
    step: float,
    coefficients: Array,
    norms: Array,
) -> float:
    """w <- w - step * gradient, once for each of `queries` in their order.

    Returns the sum of the losses, each before its step. `norms` gets the norm of each query's gradient.
    """
    scratch = _scratch(problem.longest, len(coefficients))
    gradient = np.empty(len(coefficients))
    value = 0.0
    for i in range(len(queries)):
        value += _query_gradient(queries[i], problem, query_kernel, loss, coefficients, scratch, gradient)
        square = 0.0
        for f in range(len(coefficients)):
            coefficients[f] -= step * gradient[f]
            square += gradient[f] * gradient[f]
        norms[i] = np.sqrt(square)
    return value


@kernel
def batch_epoch(
    thread: int,
    batches: EpochOrder,
    problem: Problem,
    query_kernel: Any,
    loss: Parameters,
    step: float,
    coefficients: Array,
    sums: Sums,
) -> None:
    """w <- w - step * (sum of gradients), once for each batch: one thread's part; all run this side by side.

    In each batch this thread sums the gradients of its pieces; then the first thread adds up the pieces in their order
    and takes the step while the others wait. Pieces are the same whatever the threads.
    """
    cuts, bounds, totals = batches.cuts, batches.bounds, sums.gradients
    scratch = _scratch(problem.longest, len(coefficients))
    gradient = np.empty(len(coefficients))
    n_pieces, n_threads = len(totals), cuts.shape[1] - 1
    for b in range(len(cuts)):
        for piece in range(cuts[b, thread], cuts[b, thread + 1]):
            at = b * n_pieces + piece
            totals[piece] = 0.0
            value = 0.0
            for i in range(bounds[at], bounds[at + 1]):
                q = batches.queries[i]
                value += _query_gradient(q, problem, query_kernel, loss, coefficients, scratch, gradient)
                for f in range(len(coefficients)):
                    totals[piece, f] += gradient[f]
            sums.values[at] = value
        if thread > 0:
            publish(sums.flags, thread, 2 * b + 1)
            if not await_flag(sums.flags, _FIRST, 2 * b + 2):
                return
            continue
        for other in range(1, n_threads):
            if not await_flag(sums.flags, other, 2 * b + 1):
                return
        gradient[:] = 0.0
        for piece in range(n_pieces):
            for f in range(len(coefficients)):
                gradient[f] += totals[piece, f]
        for f in range(len(coefficients)):
            coefficients[f] -= step * gradient[f]
        publish(sums.flags, _FIRST, 2 * b + 2)


# A batch is summed in this many pieces whatever the number of threads, so that sums are always formed in one order.
_PIECES = 32


@dataclass(frozen=True)
class LinearProblem:
    """A loss over weighted queries as a function of a linear model's coefficients.

    Attributes:
        kernel_data: what the kernels take: offsets, features, weights that sum to 1 in absolute value, scaling, sets.
        loss: which loss; the rankings that it draws differ from epoch to epoch.
        queries: those that can teach something: with at least two different weights, in one set if there are sets; or
            with sessions, where risk counts.
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
        cls,
        data: RankingData,
        weights: FloatArray,
        scales: Scales,
        loss: LossSpec,
        sets: Sets | None = None,
        also: IntArray | None = None,
    ) -> LinearProblem:
        """Normalise the weights and find the queries to learn from, and `also` these; with sets, weights are those of
        their members.
        """
        work: IntArray = data.lengths
        usable, weights, sets = normalized_evidence(data, weights, sets)
        if also is not None:
            usable = np.union1d(usable, also)
        members = SetArrays(*np.empty((3, 0), np.int64))
        if sets is not None:
            members = SetArrays(*sets.by_query(data))
            sizes = np.bincount(sets.owners, weights=np.diff(sets.offsets), minlength=data.n_queries)
            work = work + sizes.astype(np.int64)
        kernel_data = Problem(
            data.offsets,
            data.features,
            weights,
            scales,
            longest_query(data.offsets),  # no set is longer
            members,
        )
        return cls(kernel_data, loss, usable, data.n_features, work)

    @property
    def n_queries(self) -> int:
        """The number of queries of the data."""
        return len(self.kernel_data.offsets) - 1

    @cached_property
    def has_evidence(self) -> BoolArray:
        """Of each query of the data, whether it is among `queries`."""
        found = np.zeros(self.n_queries, np.bool_)
        found[self.queries] = True
        return found

    def epoch(
        self, order: IntArray, step: float, batch: int, coefficients: FloatArray, threads: int, number: int = 0
    ) -> float:
        """Pass once over the queries in the given order, changing `coefficients`; the sum of the losses.

        `number` is that of the epoch: a loss that draws rankings draws others in each.
        """
        loss = self._loss_of(number, coefficients)
        if batch == 1:
            return self._single(order, step, coefficients, loss)[0]
        return self._batches(order, step, batch, coefficients, threads, loss)

    def gradient_norms(self, coefficients: FloatArray) -> FloatArray:
        """The norm of the gradient of each query's loss, all at the same coefficients."""
        return self._single(self.queries, 0.0, coefficients.copy(), self._loss_of(0, coefficients))[1]

    def risk(self, spec: LossSpec, coefficients: FloatArray) -> float:
        """How far the policy with these coefficients is from the logging policy, `spec` being a loss of form RISK."""
        return self._single(self.queries, 0.0, coefficients.copy(), spec)[0]

    def _loss_of(self, number: int, coefficients: FloatArray) -> LossSpec:
        """The loss of an epoch: what it draws depends on the seed, the epoch and the query alone.

        The risk of all queries, which the loss of each depends on, is that at the beginning of the epoch.
        """
        if not self.loss.draws:
            return self.loss
        loss = self.loss.with_key(derive_key(self.loss.parameters.key, number))
        return at_risk(loss, self.risk(risk_spec(loss), coefficients)) if loss.parameters.form == EXPOSURE else loss

    def _single(
        self, order: IntArray, step: float, coefficients: FloatArray, loss: LossSpec
    ) -> tuple[float, FloatArray]:
        """An epoch of one query a step: the sum of losses, and the norm of each gradient."""
        norms = np.empty(len(order))
        value = sgd_epoch(
            read_only(order), self.kernel_data, loss.argument(), loss.parameters, step, coefficients, norms
        )
        return float(value), norms

    def _batches(
        self, order: IntArray, step: float, batch: int, coefficients: FloatArray, threads: int, loss: LossSpec
    ) -> float:
        """An epoch of batches; the sum of losses."""
        threads = min(threads, _PIECES)
        starts = np.arange(0, len(order), batch)
        ends = np.minimum(starts + batch, len(order))
        shares = np.arange(_PIECES) / _PIECES
        bounds = np.append((starts[:, None] + (ends - starts)[:, None] * shares).astype(np.int64).ravel(), len(order))
        sums = Sums(np.empty((_PIECES, self.n_features)), np.empty(len(bounds) - 1), flags_for(threads))
        batches = EpochOrder(read_only(order), bounds, self._share_out(order, bounds, len(starts), threads))
        fixed = (batches, self.kernel_data, loss.argument(), loss.parameters, step, coefficients, sums)
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
