"""Engines run cells: several at once, each call on its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from counterrank.common.errors import CounterrankError
from counterrank.experiments.reproduction.cells import Cell

Row = dict[str, Any]


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

    threads = [threading.Thread(target=work, args=(slot,), daemon=True) for slot in slots]
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
