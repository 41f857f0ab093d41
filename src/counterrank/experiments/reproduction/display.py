"""What a person sees while cells are run: how many are done, running and failed, and how long it will take."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from counterrank.common.progress import status
from counterrank.experiments.reproduction.cells import Cell


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
    return cell.estimator, cell.loss, cell.policy, len(str(cell.clicks or cell.sessions)), cell.step_size


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.0f} h"
