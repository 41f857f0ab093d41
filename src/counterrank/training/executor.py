"""Training as a sequence of requests: what has to be computed, apart from where it is computed.

Training of a linear model is a generator. It yields requests (an epoch, a metric), is sent their results and returns
what was learned. It may also yield a list of such generators, which are independent of each other and may advance side
by side. So one training can run on threads of the CPU (`compute`), and many can advance together on a device that
computes the requests of all of them in one call (`advance_together`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.parallel import run_parallel
from counterrank.losses.loss_kernels import LossSpec
from counterrank.training.gradient_descent import LinearProblem
from counterrank.training.problem import LinearMetric


@dataclass(frozen=True, eq=False)
class Epoch:
    """One pass over the queries; the result is the sum of losses met, a float.

    Attributes:
        problem: the loss.
        order: a permutation of *all* queries of the data, read-only. Those without evidence (not in `problem.queries`)
            are skipped; batches are formed of the others. Trainings with one seed have the same array at the same
            epoch (`is`), so that an executor can share what it does for it.
        step: the learning rate.
        batch: queries a step.
        coefficients: changed in place.
    """

    problem: LinearProblem
    order: IntArray
    step: float
    batch: int
    coefficients: FloatArray

    def compute(self, threads: int) -> float:
        """Compute it on the CPU."""
        problem, order = self.problem, self.order
        if len(problem.queries) < problem.n_queries:
            order = order[problem.has_evidence[order]]
        return problem.epoch(order, self.step, self.batch, self.coefficients, threads)


@dataclass(frozen=True, eq=False)
class Metric:
    """The metric of a model; the result is each query's part, larger is better. Nothing is changed."""

    metric: LinearMetric
    coefficients: FloatArray

    def compute(self, threads: int) -> FloatArray:
        """Compute it on the CPU."""
        return self.metric(self.coefficients, threads)


@dataclass(frozen=True, eq=False)
class GradientNorms:
    """The norm of the gradient of each query's loss, in the order of `problem.queries`. Nothing is changed."""

    problem: LinearProblem
    coefficients: FloatArray

    def compute(self, threads: int) -> FloatArray:
        """Compute it on the CPU."""
        return self.problem.gradient_norms(self.coefficients)


Request = Epoch | Metric | GradientNorms

_Result = TypeVar("_Result")
# A training: yields requests, or lists of trainings, and is sent results, or lists of them.
Steps = Generator["Request | list[Steps[Any]]", Any, _Result]


class Executor(Protocol):
    """What computes the requests of many trainings."""

    def check(self, loss: LossSpec) -> None:
        """An error for a loss that it cannot compute."""

    def run(self, requests: Sequence[Request]) -> list[Any]:
        """The results, in order; requests are independent of each other, of any kinds, and at least one."""


@dataclass(frozen=True)
class CpuExecutor:
    """Computes requests on threads of the CPU: each on one thread, a single one on all.

    Attributes:
        threads: how many.
    """

    threads: int

    def check(self, loss: LossSpec) -> None:
        """The CPU computes all losses."""

    def run(self, requests: Sequence[Request]) -> list[Any]:
        """The results, in order."""
        if len(requests) == 1:
            return [requests[0].compute(self.threads)]
        return run_parallel([partial(request.compute, 1) for request in requests], self.threads)


def compute(steps: Steps[_Result], threads: int, inner: int | None = None) -> _Result:
    """Run a training to its end on the CPU; what may advance side by side runs in parallel.

    Arguments:
        steps: the training.
        threads: how many, for trainings side by side.
        inner: how many for each request of this training; None for `threads`.
    """
    result: Any = None
    while True:
        try:
            wanted = steps.send(result)
        except StopIteration as end:
            found: _Result = end.value
            return found
        if not isinstance(wanted, list):
            result = wanted.compute(threads if inner is None else inner)
        elif len(wanted) == 1:
            result = [compute(wanted[0], threads, inner)]
        else:
            result = run_parallel([partial(compute, part, threads, 1) for part in wanted], threads)


@dataclass(eq=False)
class _Node:
    """A training that has begun, alone or as a part of another.

    Attributes:
        steps: the training.
        parent: what it is a part of; None for a whole training.
        place: of its result among those of the parent, or of all.
        results: of its own parts.
        waiting: how many of its parts have not ended.
    """

    steps: Steps[Any]
    parent: _Node | None
    place: int
    results: list[Any] = field(default_factory=list)
    waiting: int = 0


def advance_together(trainings: Sequence[Steps[_Result]], executor: Executor) -> list[_Result]:
    """Run all trainings to their ends; each call of the executor gets the next requests of many of them.

    Epochs wait until no training needs anything else, so that those of all trainings that go on are in one call.
    """
    found: list[Any] = [None] * len(trainings)
    epochs: list[tuple[_Node, Request]] = []
    ready: deque[tuple[_Node, Any]] = deque((_Node(each, None, i), None) for i, each in enumerate(trainings))
    while ready:
        others: list[tuple[_Node, Request]] = []
        while ready:
            node, result = ready.popleft()
            try:
                wanted = node.steps.send(result)
            except StopIteration as end:
                parent = node.parent
                (found if parent is None else parent.results)[node.place] = end.value
                if parent is not None:
                    parent.waiting -= 1
                    if parent.waiting == 0:
                        ready.append((parent, parent.results))
                continue
            if not isinstance(wanted, list):
                (epochs if isinstance(wanted, Epoch) else others).append((node, wanted))
                continue
            node.results, node.waiting = [None] * len(wanted), len(wanted)
            ready.extend((_Node(part, node, i), None) for i, part in enumerate(wanted))
            if not wanted:
                ready.append((node, []))
        if not others:
            others, epochs = epochs, []
        if others:
            results = executor.run([request for _, request in others])
            ready.extend((node, result) for (node, _), result in zip(others, results, strict=True))
    return found
