"""Engines run cells: several at once, each call on its own."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from counterrank.common.errors import CounterrankError
from counterrank.common.progress import status, watched
from counterrank.estimators import ESTIMATORS
from counterrank.experiments.cells import Cell, CellJson, Row
from counterrank.experiments.run_folder import shared_fold

if TYPE_CHECKING:
    from counterrank.experiments.cell_runner import CellRunner


class Slot(Protocol):
    """A place where one cell at a time is run."""

    def run(self, cell: Cell) -> Row:
        """What came of the cell; raises `CellFailure` if that is nothing."""
        ...


class CellFailure(Exception):
    """A cell that gave no result, and why."""


# From the folders of the shared data and a log file to slots, as many as cells are to be run at once.
Engine = Callable[[Sequence[Path], Path], AbstractContextManager[Sequence[Slot]]]


def run_all(
    cells: Sequence[Cell], slots: Sequence[Slot], on_start: Callable[[Cell], None]
) -> Iterator[tuple[Cell, Row | CellFailure]]:
    """Run all cells, the first ones first, and give each as soon as it is done, in the caller's thread."""
    if not slots:
        raise CounterrankError("engine: has no place to run a cell; expected at least one")
    waiting: queue.SimpleQueue[Cell | None] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[Cell, Row | CellFailure | BaseException]] = queue.SimpleQueue()
    for cell in cells:
        waiting.put(cell)

    def work(slot: Slot) -> None:
        while (cell := waiting.get()) is not None:
            on_start(cell)
            try:
                done.put((cell, slot.run(cell)))
            except CellFailure as failure:
                done.put((cell, failure))
            except BaseException as error:  # a fault of the engine ends the run
                done.put((cell, error))
                return

    threads = [threading.Thread(target=work, args=(slot,), daemon=True) for slot in slots[: len(cells)]]
    for thread in threads:
        waiting.put(None)
        thread.start()
    for _ in cells:
        cell, result = done.get()
        if isinstance(result, BaseException) and not isinstance(result, CellFailure):
            raise result
        yield cell, result
    for thread in threads:
        thread.join()


_TRIES = 2
_LAST_EPOCHS_S = 30.0  # the longest wait for cells of a run that was interrupted


@contextmanager
def local_engine(folders: Sequence[Path], log: Path, jobs: int) -> Iterator[list[Slot]]:
    """So many worker processes, each on one core.

    Arguments:
        folders: the shared data of each fold.
        log: a file that gets what workers have to complain about.
        jobs: how many processes.
    """
    workers = [_Worker(folders, log) for _ in range(jobs)]
    try:
        yield list(workers)
    finally:
        for worker in workers:
            worker.stop()


class _Worker:
    """A process that is handed cells on its stdin and answers on its stdout, a line of JSON each."""

    def __init__(self, folders: Sequence[Path], log: Path) -> None:
        self._folders, self._log = folders, log
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._stopped = False

    def run(self, cell: Cell) -> Row:
        """Hand the cell over and wait for the answer; a process that died is replaced, once for each cell."""
        for _ in range(_TRIES):
            answer = self._ask(cell.plain())
            if answer is not None:
                if "error" in answer:
                    raise CellFailure(answer["error"])
                return answer
        raise CellFailure(f"its process died {_TRIES} times, the last words are in {self._log.name}; out of memory?")

    def _ask(self, cell: CellJson) -> Row | None:
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(cell) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError:
            line = ""
        if not line.endswith("\n"):
            self._end(process)
            return None
        answer: Row = json.loads(line)
        return answer

    def _running(self) -> subprocess.Popen[str]:
        with self._lock:
            if self._stopped:
                raise CellFailure("the run was ended")
            if self._process is None:
                with self._log.open("a") as log:
                    options = [*map(str, self._folders), *(f"--import={name}" for name in _estimator_modules())]
                    self._process = subprocess.Popen(
                        [sys.executable, "-m", "counterrank.experiments.cell_runner", *options],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=log,
                        text=True,
                        start_new_session=True,  # a Ctrl-C is for the parent, whose end they notice
                    )
            return self._process

    def _end(self, process: subprocess.Popen[str]) -> None:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):  # what it was not handed any more
                if pipe is not None:
                    pipe.close()
        with self._lock:
            self._process = None

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        with self._lock:
            self._stopped = True
            process = self._process
        if process is not None:
            process.kill()
            process.wait()


@contextmanager
def device_engine(folders: Sequence[Path], log: Path, device: str, slots: int) -> Iterator[list[Slot]]:
    """So many cells at once in threads of this process; their rankers advance together on a device.

    Arguments:
        folders: the shared data of each fold.
        log: a file that gets the traces of errors.
        device: as of `fit_many`.
        slots: how many cells at once: each holds its weights in memory.
    """
    from counterrank.experiments.cell_runner import CellRunner, ignore_coverage

    runner = CellRunner({number: shared_fold(folder) for number, folder in enumerate(folders)}, device=device)
    threads = _Threads(runner, log)
    with ignore_coverage(), watched(threads.check):
        try:
            yield [threads] * slots
        finally:
            threads.stop()


class _Threads:
    """Runs cells, each in the thread that hands it over."""

    def __init__(self, runner: CellRunner, log: Path) -> None:
        self._runner, self._log = runner, log
        self._change = threading.Condition()
        self._running, self._is_ended = 0, False

    def run(self, cell: Cell) -> Row:
        """The row; an error is a failure of this cell alone."""
        with self._change:
            self.check()
            self._running += 1
        try:
            return self._runner.run(cell)
        except CellFailure:
            raise
        except Exception as error:
            with self._log.open("a") as log:
                traceback.print_exc(file=log)
            raise CellFailure(f"{type(error).__name__}: {error}") from None
        finally:
            with self._change:
                self._running -= 1
                self._change.notify_all()

    def check(self, done: float = 0.0, total: float | None = None) -> None:
        """Called after each epoch: trainings end with the run."""
        if self._is_ended:
            raise CellFailure("the run was ended")

    def stop(self) -> None:
        """End all cells, and wait for those that are being trained."""
        with self._change:
            self._is_ended = True
            self._change.wait_for(lambda: self._running == 0, timeout=_LAST_EPOCHS_S)


def _estimator_modules() -> list[str]:
    """The modules that estimators of the user are in; worker processes import them, so that they are registered there.

    One that is defined in a script or a session cannot be imported: its cells fail, and say that it is unknown.
    """
    functions = (function for known in ESTIMATORS.values() for function in (known.weigh, known.assisted))
    modules = {getattr(function, "__module__", "") for function in functions if function is not None}
    return sorted(name for name in modules if name not in ("", "__main__") and not name.startswith("counterrank."))


class Tally:
    """Counts cells and foretells how long the rest will take.

    >>> tally = Tally([], slots=2)
    >>> tally.done, tally.seconds_left()
    (0, 0.0)
    """

    def __init__(self, cells: Sequence[Cell], slots: int) -> None:
        self.total, self.slots = len(cells), slots
        self.done = self.failed = 0
        self.running: dict[Cell, float] = {}
        self._left: dict[tuple[Any, ...], int] = defaultdict(int)
        for cell in cells:
            self._left[_kind(cell)] += 1
        self._seen: dict[tuple[Any, ...], list[float]] = defaultdict(list)
        self._first: list[float] = []  # the first cell of each slot may have compiled its kernels
        self._lock = threading.Lock()

    def start(self, cell: Cell) -> None:
        """The cell is being run."""
        with self._lock:
            self.running[cell] = time.monotonic()

    def finish(self, cell: Cell, failed: bool) -> None:
        """The cell has given a result, or has failed."""
        with self._lock:
            took = time.monotonic() - self.running.pop(cell)
            self._left[_kind(cell)] -= 1
            (self._first if len(self._first) < self.slots else self._seen[_kind(cell)]).append(took)
            self.done += not failed
            self.failed += failed

    def seconds_left(self) -> float | None:
        """About how long; None as long as nothing is known.

        Cells are expected to take as long as those of their kind did, and those of unknown kinds as long as the
        average.
        """
        with self._lock:
            if not any(self._left.values()):
                return 0.0
            means = {kind: sum(took) / len(took) for kind, took in self._seen.items()}
            if not means:
                return None  # also after the first ones, which say little
            usual = sum(means.values()) / len(means)
            work = sum(count * means.get(kind, usual) for kind, count in self._left.items())
            spent = sum(time.monotonic() - begin for begin in self.running.values())
            return max(0.0, work - spent) / self.slots

    def lines(self) -> list[str]:
        """The state in words: first the sum, then what is running."""
        left = self.seconds_left()
        ahead = "" if left is None else f", about {_duration(left)} left"
        failed = f", {self.failed} failed" if self.failed else ""
        with self._lock:
            running = [
                f"  {time.monotonic() - begin:5.0f} s  {cell.describe()}" for cell, begin in self.running.items()
            ]
        return [f"{self.done} of {self.total} cells done, {len(running)} running{failed}{ahead}", *running[:16]]


def shown(tally: Tally) -> AbstractContextManager[None]:
    """The tally on stderr, if a person is watching."""
    return status(tally.lines, lambda: tally.done + tally.failed, tally.total)


def _kind(cell: Cell) -> tuple[Any, ...]:
    """Cells of one kind take about as long: what they learn, how, and from about how many clicks."""
    return cell.estimator, cell.loss, cell.policy, len(str(cell.clicks or cell.sessions)), cell.learning_rate


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.0f} h"
