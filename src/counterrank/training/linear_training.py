"""Training of linear models: epochs, early stopping, and the search for a learning rate.

All of it is made of generators that yield requests to be computed elsewhere, see `training.executor`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.errors import CounterrankError
from counterrank.data import RankingData
from counterrank.losses.loss_kernels import LossSpec
from counterrank.losses.plackett_luce import EXPOSURE
from counterrank.models.linear import LinearModel, deviations_within
from counterrank.models.model import Scaler, Scales
from counterrank.training.executor import Epoch, GradientNorms, Metric, Steps
from counterrank.training.gradient_descent import LinearProblem
from counterrank.training.problem import FittedModel, LinearMetric, Task, TrainingWeights


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
        self._best = -np.inf

    def see(self, epoch: int, parts: FloatArray | None) -> bool:
        """Take note of an epoch; whether its model is the one to keep so far."""
        if parts is None:
            self.best_epoch = epoch
            return True
        value = float(parts.sum())
        is_best = self.parts is None or value > self._best
        if is_best:  # a copy, since parts may be a row of a larger array
            self.best_epoch, self.parts, self._best = epoch, parts.copy(), value
        if value > self._improved[1] + self.tolerance:
            self._improved = epoch, value
        return is_best

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
        tolerance: how much better the metric must become to count as improvement.
    """

    max_epochs: int
    patience: int
    batch: int
    entropy: int
    tolerance: float = 0.0

    def order(self, n_queries: int, epoch: int) -> IntArray:
        """The order of all queries of the data in an epoch, a permutation, read-only.

        It depends on the seed and the epoch, and not on which queries have evidence: rankers with other weights see
        the queries that they share in the same order. As long as it is in use, everyone gets the same array.

        >>> schedule = Schedule(max_epochs=1, patience=1, batch=1, entropy=0)
        >>> order = schedule.order(5, 1)
        >>> order.tolist(), order is schedule.order(5, 1)
        ([1, 4, 3, 0, 2], True)
        """
        key = (self.entropy, epoch, n_queries)
        found = _orders.get(key)
        if found is None:
            found = np.random.default_rng([self.entropy, epoch]).permutation(n_queries)
            found.flags.writeable = False
            _orders[key] = found
        return found


# the orders in use, by seed, epoch and number of queries
_orders: WeakValueDictionary[tuple[int, int, int], IntArray] = WeakValueDictionary()

# Called with how much more is done, in epochs.
OnEpoch = Callable[[float], None]


@dataclass
class Run:
    """Training with one learning rate, which can be paused and resumed.

    With a judge of validation data the best model is kept and training ends by itself; without one the last is kept.
    """

    problem: LinearProblem
    schedule: Schedule
    step: float
    on_training: LinearMetric
    on_validation: LinearMetric | None
    start: FloatArray | None = None
    coefficients: FloatArray = field(init=False)
    history: list[dict[str, float | None]] = field(default_factory=list)
    finished: bool = False
    diverged: bool = False

    def __post_init__(self) -> None:
        self.coefficients = np.zeros(self.problem.n_features) if self.start is None else self.start.copy()
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

    @property
    def training_metric(self) -> float:
        """The metric on the training data of the model this run would return, as `measure` found it."""
        return -np.inf if self.failed else self.measured[1]

    def advance(self, until: int, on_epoch: OnEpoch) -> Steps[None]:
        """Train up to epoch `until`, unless the run ends before."""
        while len(self.history) < min(until, self.schedule.max_epochs) and not self.finished:
            epoch = len(self.history) + 1
            order = self.schedule.order(self.problem.n_queries, epoch)
            begin = time.perf_counter()
            loss = yield Epoch(self.problem, order, self.step, self.schedule.batch, self.coefficients, epoch)
            seconds = time.perf_counter() - begin
            self.diverged = not np.abs(self.coefficients).max() < _LARGEST  # also where one is not a number
            validation = None if self.diverged else (yield from self._keep(epoch))
            self.history.append({"epoch": epoch, "loss": loss, "validation": validation, "seconds": seconds})
            self.finished = self.diverged or self.watch.is_overdue(epoch) or epoch >= self.schedule.max_epochs
            on_epoch(1)

    def measure(self) -> Steps[None]:
        """Compute `training_metric`, unless it is known."""
        if not self.failed and self.measured[0] != self.best_epoch:
            parts = yield Metric(self.on_training, self.kept)
            self.measured = self.best_epoch, float(parts.sum())

    def _keep(self, epoch: int) -> Steps[float | None]:
        """Copy the model if it is the one to return so far; its validation metric, if there is one."""
        parts = None if self.on_validation is None else (yield Metric(self.on_validation, self.coefficients))
        if self.watch.see(epoch, parts):
            self.kept = self.coefficients.copy()
        return None if parts is None else float(parts.sum())


def natural_learning_rate(gradient_norms: FloatArray) -> float:
    """A learning rate in the right units for this loss, data and scale of weights: the inverse sum of gradient norms.

    With the norms of all queries at coefficients of 0, the first epoch moves the coefficients by a length of at most
    about 1, whatever is learned. Good learning rates are found within a few powers of ten of it.

    >>> natural_learning_rate(np.array([0.5, 1.5])), natural_learning_rate(np.zeros(2))
    (0.5, 1.0)
    """
    total = float(gradient_norms.sum())
    return 1.0 / total if total > 0.0 else 1.0


def search_learning_rate(
    make_run: Callable[[float], Run], base: float, max_epochs: int, on_epoch: OnEpoch
) -> Steps[Run]:
    """Successive halving over learning rates: train with all of them, and drop the worst after each round.

    Learning rates are powers of sqrt(10) times `base`; as long as the best is the largest or smallest tried, one beyond
    it is added. The best run is the same as if its learning rate had been given from the start.
    """
    tried = {power: make_run(base * 10.0 ** (power / 2)) for power in _POWERS}
    runs = dict(tried)
    for until, keep in _rounds(max_epochs):
        yield [run.advance(until, on_epoch) for run in runs.values()]
        yield [run.measure() for run in runs.values()]
        while (edge := _beyond(runs, min(tried), max(tried))) is not None:
            tried[edge] = runs[edge] = make_run(base * 10.0 ** (edge / 2))
            yield from runs[edge].advance(until, on_epoch)
            yield from runs[edge].measure()
        runs = {power: runs[power] for power in ranked_runs(runs)[:keep]}
    (best,) = runs.values()
    return best


def ranked_runs(runs: dict[int, Run]) -> list[int]:
    """The runs from best to worst; all have been measured.

    Runs are compared by the metric of the model each would return, on validation data if there is any. Runs that such
    data cannot tell from the best one (within a standard error of the paired difference over queries) are ordered by
    the metric on the training data, so that a handful of validation queries does not decide by luck. Of equals the one
    nearest the natural learning rate comes first: where the metric no longer depends on it there is nothing to search.
    """
    training = {power: run.training_metric for power, run in runs.items()}
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


def _beyond(runs: dict[int, Run], lowest: int, highest: int) -> int | None:
    """The next learning rate to try, if the best so far is the largest or smallest tried."""
    best = ranked_runs(runs)[0]
    if (best == lowest or runs[best].failed) and lowest > -_FARTHEST:
        return lowest - 1
    return highest + 1 if best == highest and highest < _FARTHEST else None


@dataclass(frozen=True, eq=False)
class Scaling:
    """How the features of the training data and of the validation data are scaled, for one `normalize`.

    Attributes:
        scaler: part of the model.
        scales: of the training data.
        on_validation: of the validation data; None without any.
        deviations: of each scaled feature within queries of the training data.
        parts: the data itself.
    """

    scaler: Scaler
    scales: Scales
    on_validation: Scales | None
    deviations: FloatArray
    parts: tuple[RankingData, RankingData | None]

    @classmethod
    def of(cls, data: RankingData, validation: RankingData | None, normalize: str, threads: int) -> Scaling:
        """The scaling of these data. As long as it is in use, everyone gets the same one, from any thread."""
        key = (id(data), id(validation), normalize)  # ids are not used again, since the scaling keeps the data
        with _scaling_lock:
            found = _scalings.get(key)
            if found is None:
                scaler = Scaler.learn(normalize, data, threads)
                scales = scaler.scales(data, threads)
                other = None if validation is None else scaler.scales(validation, threads)
                deviations = deviations_within(data, scales, threads)
                found = _scalings[key] = cls(scaler, scales, other, deviations, (data, validation))
        return found


# those in use, so that trainings of several threads on one data set can share what a device has of it
_scalings: WeakValueDictionary[tuple[int, int, str], Scaling] = WeakValueDictionary()
_scaling_lock = Lock()


def _renew_lock() -> None:
    global _scaling_lock
    _scaling_lock = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


class LinearData:
    """Training data and validation data as linear models see them; what rankers have in common is computed once.

    Arguments:
        data: the queries to learn from.
        validation: those to stop by, with the features of `data`.
        threads: how many, for the common work.
        repeated: ids of arrays of weights (`TrainingWeights.weights`) that several rankers learn from.
    """

    def __init__(
        self,
        data: RankingData,
        validation: RankingData | None,
        threads: int,
        repeated: Collection[int] = (),
    ) -> None:
        self.data, self.validation, self.threads, self.repeated = data, validation, threads, repeated
        self._scaling: dict[str, Scaling] = {}
        self._problems: dict[tuple[int, str, bool], LinearProblem] = {}

    def scaling(self, normalize: str) -> Scaling:
        """How features are scaled."""
        if normalize not in self._scaling:
            self._scaling[normalize] = Scaling.of(self.data, self.validation, normalize, self.threads)
        return self._scaling[normalize]

    def problem(self, evidence: TrainingWeights, loss: LossSpec, normalize: str) -> LinearProblem:
        """The problem of one ranker; those with the same weights and scaling share all arrays."""
        also = None
        if evidence.safety is not None and loss.parameters.form == EXPOSURE:
            also = np.flatnonzero((evidence.safety.sessions > 0.0) & (self.data.lengths > 1))
        key = (id(evidence.weights), normalize, also is None)
        found = self._problems.get(key)
        if found is None:
            found = LinearProblem.make(
                self.data, evidence.weights, self.scaling(normalize).scales, loss, evidence.sets, also
            )
            if key[0] in self.repeated:  # others are freed with their ranker's training
                self._problems[key] = found
        return replace(found, loss=loss)


def training_epochs(task: Task) -> int:
    """About how many epochs training takes in all, if no run stops early."""
    is_search = task.settings.learning_rate is None and task.rate_multiple is None
    return search_epochs(task.settings.max_epochs) if is_search else task.settings.max_epochs


_CHUNK = 1_000  # queries
_SPREADS = np.concatenate(([0.0], 10.0 ** np.arange(-1.0, 2.1, 0.25)))  # of scores within queries


def closest_coefficients(task: Task, scaling: Scaling, problem: LinearProblem, risk: LossSpec) -> FloatArray:
    """Coefficients whose Plackett-Luce policy is close to the logging policy, for training with a limit on exposure.

    Least squares for the scores of the logging policy within queries, times the factor of the least risk.
    """
    data, safety = task.data, task.evidence.safety
    assert safety is not None
    assert safety.scores is not None
    squares, products = np.zeros((data.n_features, data.n_features)), np.zeros(data.n_features)
    for first in range(0, data.n_queries, _CHUNK):
        part = data.subset(np.arange(first, min(first + _CHUNK, data.n_queries)))
        scores = safety.scores[data.offsets[first] :][: part.n_docs]
        both: Any = np.column_stack((scaling.scaler.apply(part, task.settings.threads), scores))
        means = np.add.reduceat(both, part.offsets[:-1]) / part.lengths[:, None]
        both = np.asarray(both - np.repeat(means, part.lengths, axis=0), np.float64)
        squares += both[:, :-1].T @ both[:, :-1]
        products += both[:, :-1].T @ both[:, -1]
    ridge = 1e-6 * max(float(np.trace(squares)) / data.n_features, 1e-12)
    solved: Any = np.linalg.solve(squares + ridge * np.eye(data.n_features), products)
    found: FloatArray = np.asarray(solved, np.float64)
    spread = float(np.sqrt(max(float(found @ squares @ found), 0.0) / data.n_docs))
    if spread == 0.0:
        return found
    tried: list[FloatArray] = [found * (size / spread) for size in _SPREADS]
    return tried[int(np.argmin([problem.risk(risk, each) for each in tried]))]


def fit_linear(task: Task, shared: LinearData, on_epoch: OnEpoch) -> Steps[FittedModel]:
    """Fit the coefficients of a linear model; without a learning rate, search for one."""
    settings = task.settings
    schedule = Schedule(
        settings.max_epochs, settings.patience, settings.batch_queries, settings.entropy, settings.tolerance
    )
    scaling = shared.scaling(settings.normalize)
    spec = task.spec
    problem = shared.problem(task.evidence, spec, settings.normalize)
    on_training = LinearMetric(task.metric, task.data, task.evidence, scaling.scales, task.expected())
    on_validation = None
    if task.validation is not None and scaling.on_validation is not None:
        on_validation = LinearMetric(
            task.metric, *task.validation, scaling.on_validation, task.expected(is_validation=True)
        )

    start = None if task.start_risk is None else closest_coefficients(task, scaling, problem, task.start_risk)

    def make_run(step: float) -> Run:
        return Run(problem, schedule, step, on_training, on_validation, start)

    rate = settings.learning_rate
    multiple, natural = rate, 1.0
    if rate is None:
        begin = np.zeros(problem.n_features) if start is None else start
        natural = natural_learning_rate((yield GradientNorms(problem, begin)))
        multiple = task.rate_multiple
    if multiple is None:
        run = yield from search_learning_rate(make_run, natural, schedule.max_epochs, on_epoch)
    else:
        run = make_run(natural * multiple)
        yield from run.advance(schedule.max_epochs, on_epoch)
    if run.failed:
        raise CounterrankError(
            f"learning_rate={'auto' if rate is None else rate}: training diverged; use a smaller one or 'auto'"
        )
    importances = np.abs(run.kept) * scaling.deviations
    model = LinearModel(run.kept, scaling.scaler)
    return FittedModel(model, run.history, run.best_epoch, run.step, importances, run.step / natural)
