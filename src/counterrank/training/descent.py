"""Training of linear models: stochastic gradient descent with early stopping, and the search for a learning rate."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.errors import CounterrankError
from counterrank.common.parallel import run_parallel
from counterrank.common.progress import progress
from counterrank.common.ranking import longest_query
from counterrank.models.linear import LinearModel, linear_importances
from counterrank.models.model import Scaler
from counterrank.training.problem import FittedModel, LinearProblem, QueryMetric, Task, linear_query_metric


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

    def order(self, queries: IntArray, epoch: int) -> IntArray:
        """The queries in the order of this epoch, the same for every learning rate."""
        shuffled: IntArray = np.random.default_rng([self.entropy, epoch]).permutation(queries)
        return shuffled


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
            order = self.schedule.order(self.problem.queries, epoch)
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

    They are judged by the metric of the model each would return, on validation data if there is any. Runs that such
    data cannot tell from the best one (within a standard error of the paired difference over queries) are ordered by
    the metric on the training data, so that a handful of validation queries does not decide by luck. Of equals the one
    nearest the natural learning rate comes first: where the metric no longer depends on it there is nothing to search.
    """
    training = {power: run.training_metric(threads) for power, run in runs.items()}
    judged = {power: run.parts for power, run in runs.items() if run.parts is not None}
    if not judged:
        return sorted(runs, key=lambda power: (-training[power], abs(power)))
    leader = max(judged.values(), key=np.sum)

    def place(power: int) -> tuple[bool, float, int]:
        if power not in judged:
            return True, np.inf, abs(power)
        behind = leader - judged[power]
        apart = bool(behind.sum() > np.sqrt(len(behind)) * behind.std())
        return apart, -float(judged[power].sum()) if apart else -training[power], abs(power)

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
        other, judged_by = task.validation
        on_validation = linear_query_metric(task.metric, other, judged_by, scaler.scales(other, settings.threads))

    def make_run(step: float) -> Run:
        return Run(problem, schedule, step, on_training, on_validation)

    step = settings.learning_rate
    total = search_epochs(schedule.max_epochs) if step is None else schedule.max_epochs
    with progress(f"training {task.loss.name}", total) as advance:
        if step is None:
            run = search_learning_rate(make_run, natural_learning_rate(problem), schedule, advance)
        else:
            run = make_run(step)
            run.advance(schedule.max_epochs, schedule.threads, advance)
    if run.failed:
        raise CounterrankError(
            f"learning_rate={'auto' if step is None else step}: training diverged; use a smaller one or 'auto'"
        )
    importances = linear_importances(data, run.kept, scales, settings.threads)
    return FittedModel(LinearModel(run.kept, scaler), run.history, run.best_epoch, run.step, importances)
