"""Gradient descent with early stopping, and the race that finds a step size."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.parallel import run_parallel
from counterrank.training.problem import LinearProblem

Judge = Callable[[FloatArray, int], float]  # from coefficients and a number of threads

# The step sizes a race starts with and how far it may go beyond, in half powers of ten around the natural step.
_POWERS = range(-2, 8)
_FARTHEST = 30


@dataclass(frozen=True)
class Schedule:
    """How long to train, on what, and in which order.

    Attributes:
        max_epochs: the most passes over the queries.
        patience: with validation data, stop after this many epochs without improvement.
        batch: queries a step.
        entropy: fixes the order of the queries in each epoch.
        threads: how many.
    """

    max_epochs: int
    patience: int
    batch: int
    entropy: int
    threads: int

    def order(self, queries: IntArray, epoch: int) -> IntArray:
        """The queries in the order of this epoch, the same for every step size."""
        shuffled: IntArray = np.random.default_rng([self.entropy, epoch]).permutation(queries)
        return shuffled


@dataclass
class Run:
    """Training with one step size: can go on for a while, pause, and go on.

    `judge` gives the metric of a model with a sign that makes larger better; where `stops` is set it speaks of
    validation data, the best model is kept and training ends by itself.
    """

    problem: LinearProblem
    schedule: Schedule
    step: float
    judge: Judge
    stops: bool
    coefficients: FloatArray = field(init=False)
    history: list[dict[str, float]] = field(default_factory=list)
    best: float = -np.inf
    best_epoch: int = 0
    finished: bool = False

    def __post_init__(self) -> None:
        self.coefficients = np.zeros(self.problem.n_features)
        self._kept = self.coefficients.copy()

    @property
    def kept(self) -> FloatArray:
        """The model to return: the best on validation data, or the last."""
        return self._kept if self.stops else self.coefficients

    @property
    def standing(self) -> float:
        """How good the model to return is; what a race goes by."""
        if self.stops or not self.history:
            return self.best
        return self.history[-1]["metric"]

    def advance(self, until: int, threads: int, on_epoch: Callable[[float], None]) -> None:
        """Train up to epoch `until`, unless the run ends before."""
        while len(self.history) < min(until, self.schedule.max_epochs) and not self.finished:
            epoch = len(self.history) + 1
            order = self.schedule.order(self.problem.queries, epoch)
            begin = time.perf_counter()
            loss = self.problem.epoch(order, self.step, self.schedule.batch, self.coefficients, threads)
            seconds = time.perf_counter() - begin
            self._record(epoch, loss, seconds, threads)
            on_epoch(1)
        self.finished = self.finished or len(self.history) >= self.schedule.max_epochs

    def _record(self, epoch: int, loss: float, seconds: float, threads: int) -> None:
        healthy = bool(np.isfinite(self.coefficients).all())
        metric = self.judge(self.coefficients, threads) if healthy else -np.inf
        self.history.append({"epoch": epoch, "loss": loss, "metric": metric, "seconds": seconds})
        if metric > self.best:
            self.best, self.best_epoch = metric, epoch
            self._kept = self.coefficients.copy()
        overdue = self.stops and epoch - self.best_epoch >= self.schedule.patience
        self.finished = self.finished or overdue or not healthy


def natural_step(problem: LinearProblem, threads: int) -> float:
    """A step size in the right units for this loss, data and scale of weights: of the inverse sum of gradient norms.

    With it the first epoch moves the coefficients by a length of at most about 1, whatever is learned. Good step
    sizes are found within a few powers of ten of it.
    """
    norms = problem.gradient(problem.queries, np.zeros(problem.n_features), threads)[2]
    total = float(norms.sum())
    return 1.0 / total if total > 0.0 else 1.0


def race(make_run: Callable[[float], Run], base: float, schedule: Schedule, on_epoch: Callable[[float], None]) -> Run:
    """Train with many step sizes at once, drop the worse half again and again, and go on with the last one.

    Step sizes are powers of sqrt(10) times `base`; as long as the best is the largest or smallest tried, one beyond
    it joins. The winner's training is the same as if its step size had been given from the start.
    """
    tried = {power: make_run(base * 10.0 ** (power / 2)) for power in _POWERS}
    runs = dict(tried)
    for until, keep in _rounds(schedule.max_epochs, len(runs)):
        _advance_all(list(runs.values()), until, schedule.threads, on_epoch)
        while (edge := _beyond(runs, min(tried), max(tried))) is not None:
            tried[edge] = runs[edge] = make_run(base * 10.0 ** (edge / 2))
            _advance_all([runs[edge]], until, schedule.threads, on_epoch)
        ranked = sorted(runs, key=lambda power: (-runs[power].standing, power))
        runs = {power: runs[power] for power in ranked[:keep]}
    (winner,) = runs.values()
    _advance_all([winner], schedule.max_epochs, schedule.threads, on_epoch)
    return winner


def _rounds(max_epochs: int, n: int) -> list[tuple[int, int]]:
    """(epoch, how many stay after it): half of them each time, the last two compared after 40 % of the epochs."""
    keeps = []
    while n > 1:
        n = (n + 1) // 2
        keeps.append(n)
    untils = [max(1, round(0.4 * max_epochs * 0.4 ** (len(keeps) - 1 - i))) for i in range(len(keeps))]
    return list(zip(untils, keeps, strict=True))


def _beyond(runs: dict[int, Run], lowest: int, highest: int) -> int | None:
    """The next step size to try, if the best so far is the largest or smallest tried."""
    best = max(runs, key=lambda power: (runs[power].standing, -power))
    if (best == lowest or not np.isfinite(runs[best].standing)) and lowest > -_FARTHEST:
        return lowest - 1
    return highest + 1 if best == highest and highest < _FARTHEST else None


def _advance_all(runs: list[Run], until: int, threads: int, on_epoch: Callable[[float], None]) -> None:
    if len(runs) == 1:
        runs[0].advance(until, threads, on_epoch)
        return
    run_parallel([lambda run=run: run.advance(until, 1, on_epoch) for run in runs], threads)  # type: ignore[misc]
