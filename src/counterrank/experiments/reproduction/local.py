"""Cells on this machine: worker processes that share the data through memory mapping."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from counterrank.experiments.reproduction.cells import Cell
from counterrank.experiments.reproduction.engines import CellFailure, Row, Slot

_TRIES = 2


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

    def _ask(self, cell: Mapping[str, Any]) -> Row | None:
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
                    self._process = subprocess.Popen(
                        [sys.executable, "-m", "counterrank.experiments.reproduction.worker", *map(str, self._folders)],
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
