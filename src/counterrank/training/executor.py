"""Training as a sequence of requests: what has to be computed, apart from where it is computed.

Training of a linear model is a generator. It yields requests (an epoch, a metric), is sent their results and returns
what was learned. It may also yield a list of such generators, which are independent of each other and may advance side
by side. So one training can run on threads of the CPU (`compute`), and many can advance together on a device that
computes the requests of all of them in one call (`Device`).
"""

from __future__ import annotations

import copy
import importlib
import threading
import time
import traceback
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

from counterrank.common.checks import FloatArray, IntArray, check_choice
from counterrank.common.errors import CounterrankError, MissingExtraError
from counterrank.common.parallel import run_parallel
from counterrank.losses.loss_kernels import LossSpec
from counterrank.training.gradient_descent import LinearProblem
from counterrank.training.problem import LinearMetric


@dataclass(frozen=True, eq=False)
class Epoch:
    """One pass over the queries; the result is the sum of the losses, each before its step, a float.

    Attributes:
        problem: the loss.
        order: a permutation of *all* queries of the data, read-only. Those without evidence (not in `problem.queries`)
            are skipped; batches are formed of the others. Trainings with one seed have the same array at the same
            epoch (`is`), so that an executor can share what it does for it.
        step: the learning rate.
        batch: queries a step.
        coefficients: changed in place.
        number: of the epoch, from 1.
    """

    problem: LinearProblem
    order: IntArray
    step: float
    batch: int
    coefficients: FloatArray
    number: int = 1

    def compute(self, threads: int) -> float:
        """Compute it on the CPU."""
        problem, order = self.problem, self.order
        if len(problem.queries) < problem.n_queries:
            order = order[problem.has_evidence[order]]
        return problem.epoch(order, self.step, self.batch, self.coefficients, threads, self.number)


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

DEVICES = ("cpu", "cuda", "auto")

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
class _Call:
    """Trainings that were begun by one call of `Device.run`.

    Attributes:
        results: of its trainings.
        waiting: how many of them have not ended.
        error: what ended all of them.
        seconds: its share of the time of the device.
    """

    results: list[Any]
    waiting: int
    error: BaseException | None = None
    seconds: float = 0.0

    @property
    def is_done(self) -> bool:
        return self.waiting == 0 or self.error is not None


@dataclass(eq=False)
class _Node:
    """A training that has begun, alone or as a part of another.

    Attributes:
        steps: the training.
        call: what began it.
        parent: what it is a part of; the call, for a whole training.
        place: of its result among those of the parent.
        results: of its own parts.
        waiting: how many of its parts have not ended.
    """

    steps: Steps[Any]
    call: _Call
    parent: _Node | _Call
    place: int
    results: list[Any] = field(default_factory=list)
    waiting: int = 0


class Device:
    """Runs trainings on an executor. Those of several threads advance together: each call gets requests of all.

    Epochs wait until no training needs anything else, so that those of all trainings that go on are in one call.
    Whichever thread comes first does the work for all, until its own trainings have ended; then another takes over.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._change = threading.Condition()
        self._is_busy = False
        self._calls: list[_Call] = []
        self._new: list[_Node] = []
        self._ready: deque[tuple[_Node, Any]] = deque()
        self._epochs: list[tuple[_Node, Request]] = []
        self._own = threading.local()

    def check(self, loss: LossSpec) -> None:
        """An error for a loss that the executor cannot compute."""
        self._executor.check(loss)

    def clock(self) -> float:
        """A clock of this thread, in seconds: its own CPU time, and in `run` its share of the executor's time.

        The time of a call of the executor is divided among its requests, whichever thread makes the call.
        """
        return time.thread_time() + float(getattr(self._own, "correction", 0.0))

    def run(self, trainings: Sequence[Steps[_Result]]) -> list[_Result]:
        """Run all trainings to their ends; the error of one ends those of this call."""
        call, begin = _Call([None] * len(trainings), len(trainings)), self.clock()
        is_mine = False
        try:
            with self._change:
                self._calls.append(call)
                self._new += [_Node(each, call, call, i) for i, each in enumerate(trainings)]
                while self._is_busy and not call.is_done:
                    self._change.wait()
                is_mine = not call.is_done
                self._is_busy |= is_mine
            while not call.is_done:
                self._advance()
        except BaseException as error:  # such as an interrupt; what others have begun may be lost with it
            with self._change:
                call.error = error
                if is_mine:
                    self._fail_all(error)
        finally:
            with self._change:
                self._calls.remove(call)
                if is_mine:
                    self._is_busy = False
                    self._change.notify_all()
        self._own.correction = getattr(self._own, "correction", 0.0) + begin + call.seconds - self.clock()
        try:
            if call.error is not None:
                traceback.clear_frames(call.error.__traceback__)  # which hold what the trainings have in memory
                raise call.error
            return call.results
        finally:
            del call, trainings  # the traceback keeps this frame

    def _fail_all(self, error: BaseException) -> None:
        """End the trainings of all calls, since some may have lost a request."""
        for call in self._calls:
            if not call.is_done:
                call.error = CounterrankError(f"device: training was ended by an error in another thread: {error!r}")
        self._new.clear()
        self._ready.clear()
        self._epochs.clear()

    def _advance(self) -> None:
        """Have all trainings say what they need next, and compute it: epochs, if nothing else is needed."""
        with self._change:
            self._ready.extend((node, None) for node in self._new)
            self._new.clear()
        wanted: list[tuple[_Node, Request]] = []
        is_any_done = False
        while self._ready:
            node, result = self._ready.popleft()
            if node.call.error is None:
                self._send(node, result, wanted)
                is_any_done |= node.call.is_done
        if is_any_done:
            with self._change:
                self._change.notify_all()
        self._epochs = [(node, request) for node, request in self._epochs if node.call.error is None]
        wanted = [(node, request) for node, request in wanted if node.call.error is None]
        if not wanted:
            wanted, self._epochs = self._epochs, []
        if wanted:
            self._compute(wanted)

    def _send(self, node: _Node, result: Any, wanted: list[tuple[_Node, Request]]) -> None:
        """Send a result to a training and take note of what it needs next."""
        try:
            needs = node.steps.send(result)
        except StopIteration as end:
            parent = node.parent
            parent.results[node.place] = end.value
            parent.waiting -= 1
            if parent.waiting == 0 and isinstance(parent, _Node):
                self._ready.append((parent, parent.results))
            return
        except Exception as error:
            node.call.error = error
            return
        if not isinstance(needs, list):
            (self._epochs if isinstance(needs, Epoch) else wanted).append((node, needs))
            return
        node.results, node.waiting = [None] * len(needs), len(needs)
        self._ready.extend((_Node(part, node.call, node, i), None) for i, part in enumerate(needs))
        if not needs:
            self._ready.append((node, []))

    def _compute(self, wanted: list[tuple[_Node, Request]]) -> None:
        begin = time.perf_counter()
        try:
            results = self._executor.run([request for _, request in wanted])
        except Exception as error:
            with self._change:
                for call in {id(node.call): node.call for node, _ in wanted}.values():
                    call.error = _copied(error)  # threads that raise the same one would add to its traceback
                self._change.notify_all()
            return
        seconds = (time.perf_counter() - begin) / len(wanted)
        for (node, _), result in zip(wanted, results, strict=True):
            node.call.seconds += seconds
            self._ready.append((node, result))


def _copied(error: Exception) -> Exception:
    try:
        found = copy.copy(error)
    except Exception:  # with a constructor of its own
        return error
    return found.with_traceback(error.__traceback__)


def open_device(name: str) -> Device | None:
    """The device of this name, the same for all threads; None for the CPU, and for "auto" where there is no GPU.

    >>> open_device("cpu") is None
    True
    """
    if check_choice(name, DEVICES, "device") == "cpu":
        return None
    failure: CounterrankError
    try:
        found: Device = importlib.import_module("counterrank.training.gpu").device()
        return found
    except CounterrankError as error:
        failure = error
    except ImportError as error:
        needed = error.name or f"a working cupy ({error})"
        failure = MissingExtraError(f"device='cuda' needs {needed}; pip install 'counterrank[cuda]'")
    if name == "auto":
        return None
    raise failure
