"""Training of linear models: stochastic gradient descent, early stopping, and the search for a learning rate.

    w <- w - step * sum over the queries of a batch of  d loss(X w) / d w,      d loss / d w = X^T (d loss / d s)

The loss of one query (or of one set of its documents) is an argument; see `losses.loss_kernels`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.errors import CounterrankError
from counterrank.common.flags import await_flag, flags_for, publish, side_by_side
from counterrank.common.jit import Array, exact_allocating_kernel, inner_kernel, kernel
from counterrank.common.parallel import run_parallel
from counterrank.common.progress import progress
from counterrank.common.ranking import longest_query
from counterrank.data import RankingData
from counterrank.losses.loss_kernels import Documents, LossSpec, Parameters, Room, make_room
from counterrank.models.linear import LinearModel, gradient_of_rows, linear_importances, scaled_coefficients, score_rows
from counterrank.models.model import Scaler, Scales
from counterrank.training.problem import FittedModel, QueryMetric, Sets, Task, linear_query_metric, normalized_evidence

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
    """w <- w - step * gradient, once for each of `queries` in their order; returns the sum of the losses met.

    `norms` gets the norm of each query's gradient.
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
            scales,
            longest_query(data.offsets),  # no set is longer
            members,
        )
        return cls(kernel_data, loss, usable, data.n_features, work)

    @property
    def n_queries(self) -> int:
        """The number of queries of the data."""
        return len(self.kernel_data.offsets) - 1

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
        loss = self.loss
        value = sgd_epoch(order, self.kernel_data, loss.argument(), loss.parameters, step, coefficients, norms)
        return float(value), norms

    def _batches(self, order: IntArray, step: float, batch: int, coefficients: FloatArray, threads: int) -> float:
        """An epoch of batches; the sum of losses."""
        threads = min(threads, _PIECES)
        starts = np.arange(0, len(order), batch)
        ends = np.minimum(starts + batch, len(order))
        shares = np.arange(_PIECES) / _PIECES
        bounds = np.append((starts[:, None] + (ends - starts)[:, None] * shares).astype(np.int64).ravel(), len(order))
        sums = Sums(np.empty((_PIECES, self.n_features)), np.empty(len(bounds) - 1), flags_for(threads))
        batches = EpochOrder(order, bounds, self._share_out(order, bounds, len(starts), threads))
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


@dataclass
class EarlyStopping:
    """Which epoch's model to keep, and when to stop; without validation data the last one is kept.

    Attributes:
        patience: how many epochs without improvement are enough.
        tolerance: how much better the metric must become to count as improvement.
        best_epoch: the epoch whose model is to be kept so far; 0 before there is one.
        parts: each query's part in the metric of that model, larger is better; None without validation data.

    >>> watch = EarlyStopping(patience=2)
    >>> [watch.see(epoch, np.array([value])) for epoch, value in [(1, 0.3), (2, 0.5), (3, 0.4)]]
    [True, True, False]
    >>> watch.best_epoch, watch.is_overdue(3), watch.is_overdue(4)
    (2, False, True)
    """

    patience: int
    tolerance: float = 0.0
    best_epoch: int = 0
    parts: FloatArray | None = None

    def __post_init__(self) -> None:
        self._improved = (0, -np.inf)  # the last epoch that counts as improvement, and its metric

    def see(self, epoch: int, parts: FloatArray | None) -> bool:
        """Take note of an epoch; whether its model is the one to keep so far."""
        if parts is None:
            self.best_epoch = epoch
            return True
        value = float(parts.sum())
        is_best = self.parts is None or value > self.parts.sum()
        if is_best:
            self.best_epoch, self.parts = epoch, parts
        if value > self._improved[1] + self.tolerance:
            self._improved = epoch, value
        return bool(is_best)

    def is_overdue(self, epoch: int) -> bool:
        """Whether validation data has seen nothing better for too long."""
        return self.parts is not None and epoch - self._improved[0] >= self.patience


# The grid of learning rates and how far the search may go beyond it, in half powers of ten times the natural one.
_POWERS = range(-2, 8)
_FARTHEST = 30
# With more epochs than this, the first rounds of the search take no longer; only the last three runs do.
_LONGEST_SEARCH = 100

# Coefficients beyond this are on their way to infinity; below it no score of float32 features overflows.
_LARGEST = 1e150


@dataclass(frozen=True)
class Schedule:
    """How long to train, on what, and in which order.

    Attributes:
        max_epochs: the most passes over the queries.
        patience: with validation data, stop after this many epochs without improvement.
        batch: queries a step.
        entropy: fixes the order of the queries in each epoch.
        threads: how many.
        tolerance: how much better the metric must become to count as improvement.
    """

    max_epochs: int
    patience: int
    batch: int
    entropy: int
    threads: int
    tolerance: float = 0.0

    def order(self, n_queries: int, queries: IntArray, epoch: int) -> IntArray:
        """The order of these queries in an epoch: a permutation of all queries of the data, without the others.

        So it depends on the seed and the epoch, and not on which queries have evidence: rankers with other weights meet
        the queries that they share in the same order.

        >>> schedule = Schedule(max_epochs=1, patience=1, batch=1, entropy=0, threads=1)
        >>> schedule.order(5, np.arange(5), 1).tolist(), schedule.order(5, np.array([0, 2, 3]), 1).tolist()
        ([1, 4, 3, 0, 2], [3, 0, 2])
        """
        shuffled: IntArray = np.random.default_rng([self.entropy, epoch]).permutation(n_queries)
        if len(queries) == n_queries:
            return shuffled
        used = np.zeros(n_queries, np.bool_)
        used[queries] = True
        return shuffled[used[shuffled]]


@dataclass
class Run:
    """Training with one learning rate, which can be paused and resumed.

    With a judge of validation data the best model is kept and training ends by itself; without one the last is kept.
    """

    problem: LinearProblem
    schedule: Schedule
    step: float
    on_training: QueryMetric
    on_validation: QueryMetric | None
    coefficients: FloatArray = field(init=False)
    history: list[dict[str, float | None]] = field(default_factory=list)
    finished: bool = False
    diverged: bool = False

    def __post_init__(self) -> None:
        self.coefficients = np.zeros(self.problem.n_features)
        self.kept = self.coefficients.copy()
        self.watch = EarlyStopping(self.schedule.patience, self.schedule.tolerance)
        self.measured = (-1, -np.inf)  # an epoch, and the training metric of the model kept then

    @property
    def best_epoch(self) -> int:
        """The epoch whose model is kept."""
        return self.watch.best_epoch

    @property
    def parts(self) -> FloatArray | None:
        """Each query's part in the kept model's validation metric."""
        return self.watch.parts

    @property
    def failed(self) -> bool:
        """Whether training ran off to infinity and left no model to return."""
        return self.diverged and (self.on_validation is None or self.best_epoch == 0)

    def advance(self, until: int, threads: int, on_epoch: Callable[[float], None]) -> None:
        """Train up to epoch `until`, unless the run ends before."""
        while len(self.history) < min(until, self.schedule.max_epochs) and not self.finished:
            epoch = len(self.history) + 1
            order = self.schedule.order(self.problem.n_queries, self.problem.queries, epoch)
            begin = time.perf_counter()
            loss = self.problem.epoch(order, self.step, self.schedule.batch, self.coefficients, threads)
            seconds = time.perf_counter() - begin
            self.diverged = not np.abs(self.coefficients).max() < _LARGEST  # also where one is not a number
            validation = None if self.diverged else self._keep(epoch, threads)
            self.history.append({"epoch": epoch, "loss": loss, "validation": validation, "seconds": seconds})
            self.finished = self.diverged or self.watch.is_overdue(epoch) or epoch >= self.schedule.max_epochs
            on_epoch(1)

    def training_metric(self, threads: int) -> float:
        """The metric on the training data of the model this run would return."""
        if self.failed:
            return -np.inf
        if self.measured[0] != self.best_epoch:
            self.measured = self.best_epoch, float(self.on_training(self.kept, threads).sum())
        return self.measured[1]

    def _keep(self, epoch: int, threads: int) -> float | None:
        """Copy the model if it is the one to return so far; its validation metric, if there is one."""
        parts = None if self.on_validation is None else self.on_validation(self.coefficients, threads)
        if self.watch.see(epoch, parts):
            self.kept = self.coefficients.copy()
        return None if parts is None else float(parts.sum())


def natural_learning_rate(problem: LinearProblem) -> float:
    """A learning rate in the right units for this loss, data and scale of weights: the inverse sum of gradient norms.

    With it the first epoch moves the coefficients by a length of at most about 1, whatever is learned. Good
    learning rates are found within a few powers of ten of it.
    """
    total = float(problem.gradient_norms(np.zeros(problem.n_features)).sum())
    return 1.0 / total if total > 0.0 else 1.0


def search_learning_rate(
    make_run: Callable[[float], Run], base: float, schedule: Schedule, on_epoch: Callable[[float], None]
) -> Run:
    """Successive halving over learning rates: train with all of them, and drop the worst after each round.

    Learning rates are powers of sqrt(10) times `base`; as long as the best is the largest or smallest tried, one beyond
    it is added. The best run is the same as if its learning rate had been given from the start.
    """
    tried = {power: make_run(base * 10.0 ** (power / 2)) for power in _POWERS}
    runs = dict(tried)
    for until, keep in _rounds(schedule.max_epochs):
        _advance_all(list(runs.values()), until, schedule.threads, on_epoch)
        while (edge := _beyond(runs, min(tried), max(tried), schedule.threads)) is not None:
            tried[edge] = runs[edge] = make_run(base * 10.0 ** (edge / 2))
            _advance_all([runs[edge]], until, schedule.threads, on_epoch)
        runs = {power: runs[power] for power in ranked_runs(runs, schedule.threads)[:keep]}
    (best,) = runs.values()
    return best


def ranked_runs(runs: dict[int, Run], threads: int) -> list[int]:
    """The runs from best to worst.

    Runs are compared by the metric of the model each would return, on validation data if there is any. Runs that such
    data cannot tell from the best one (within a standard error of the paired difference over queries) are ordered by
    the metric on the training data, so that a handful of validation queries does not decide by luck. Of equals the one
    nearest the natural learning rate comes first: where the metric no longer depends on it there is nothing to search.
    """
    training = {power: run.training_metric(threads) for power, run in runs.items()}
    validated = {power: run.parts for power, run in runs.items() if run.parts is not None}
    if not validated:
        return sorted(runs, key=lambda power: (-training[power], abs(power)))
    leader = max(validated.values(), key=np.sum)

    def place(power: int) -> tuple[bool, float, int]:
        if power not in validated:
            return True, np.inf, abs(power)
        behind = leader - validated[power]
        apart = bool(behind.sum() > np.sqrt(len(behind)) * behind.std())
        return apart, -float(validated[power].sum()) if apart else -training[power], abs(power)

    return sorted(runs, key=place)


def _rounds(max_epochs: int) -> list[tuple[int, int]]:
    """(epoch, how many stay after it); a learning rate that learns slowly but well needs time to show it.

    However long training may go on, what has not shown within the first 40 epochs is not waited for.
    """
    rounds = ((0.08, 7), (0.16, 5), (0.4, 3))
    longest = min(max_epochs, _LONGEST_SEARCH)
    return [(max(1, round(share * longest)), keep) for share, keep in rounds] + [(max_epochs, 1)]


def search_epochs(max_epochs: int) -> int:
    """About how many epochs the search takes in all, if no run stops early."""
    total, begin, n = 0, 0, len(_POWERS)
    for until, keep in _rounds(max_epochs):
        total, begin, n = total + n * (until - begin), until, keep
    return total


def _beyond(runs: dict[int, Run], lowest: int, highest: int, threads: int) -> int | None:
    """The next learning rate to try, if the best so far is the largest or smallest tried."""
    best = ranked_runs(runs, threads)[0]
    if (best == lowest or runs[best].failed) and lowest > -_FARTHEST:
        return lowest - 1
    return highest + 1 if best == highest and highest < _FARTHEST else None


def _advance_all(runs: list[Run], until: int, threads: int, on_epoch: Callable[[float], None]) -> None:
    if len(runs) == 1:
        runs[0].advance(until, threads, on_epoch)
        return
    run_parallel([partial(run.advance, until, 1, on_epoch) for run in runs], threads)


def fit_linear(task: Task) -> FittedModel:
    """Fit the coefficients of a linear model; without a learning rate, search for one."""
    data, settings = task.data, task.settings
    if settings.params:
        raise CounterrankError(f"params: {', '.join(map(str, settings.params))}; a linear model has none, leave it out")
    schedule = Schedule(
        settings.max_epochs, settings.patience, settings.batch_queries, settings.entropy, settings.threads,
        settings.tolerance,
    )  # fmt: skip
    spec = task.loss.spec(task.k, longest_query(data.offsets))
    scaler = Scaler.learn(settings.normalize, data, settings.threads)
    scales = scaler.scales(data, settings.threads)
    problem = LinearProblem.make(data, task.evidence.weights, scales, spec, task.evidence.sets)
    on_training = linear_query_metric(task.metric, data, task.evidence, scales)
    on_validation = None
    if task.validation is not None:
        other, held_out = task.validation
        on_validation = linear_query_metric(task.metric, other, held_out, scaler.scales(other, settings.threads))

    def make_run(step: float) -> Run:
        return Run(problem, schedule, step, on_training, on_validation)

    rate = settings.learning_rate
    natural = natural_learning_rate(problem) if rate is None else 1.0
    multiple = task.rate_multiple if rate is None else rate
    total = search_epochs(schedule.max_epochs) if multiple is None else schedule.max_epochs
    with progress(f"training {task.loss.name}", total) as advance:
        if multiple is None:
            run = search_learning_rate(make_run, natural, schedule, advance)
        else:
            run = make_run(natural * multiple)
            run.advance(schedule.max_epochs, schedule.threads, advance)
    if run.failed:
        raise CounterrankError(
            f"learning_rate={'auto' if rate is None else rate}: training diverged; use a smaller one or 'auto'"
        )
    importances = linear_importances(data, run.kept, scales, settings.threads)
    model = LinearModel(run.kept, scaler)
    return FittedModel(model, run.history, run.best_epoch, run.step, importances, run.step / natural)
