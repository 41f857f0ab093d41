"""Results as they come in: one line of JSON for each cell, in a file that a kill at any time leaves readable."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from counterrank.common.errors import CounterrankError
from counterrank.common.files import InUseError, PathLike, lock

RESULTS, _LOCK = "results.jsonl", ".lock"


def read_results(folder: PathLike) -> dict[str, dict[str, Any]]:
    """The latest row of each cell by its key; a line that a kill cut short is left out.

    >>> read_results("no/such/folder")
    {}
    """
    path = Path(folder) / RESULTS
    rows: dict[str, dict[str, Any]] = {}
    if not path.is_file():
        return rows
    *lines, _ = path.read_bytes().split(b"\n")  # whatever follows the last end of a line was cut short
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            rows[row["key"]] = row
        except (ValueError, KeyError, TypeError):
            raise CounterrankError(f"{path}: line {number} is not a result; delete that line and run again") from None
    return rows


class ResultWriter:
    """Adds rows to the results of a run folder; one process at a time.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with ResultWriter(folder) as results:
    ...         results.add({"key": "a", "metrics": {}})
    ...     list(read_results(folder))
    ['a']
    """

    def __init__(self, folder: PathLike) -> None:
        self._folder = Path(folder)

    def __enter__(self) -> ResultWriter:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / RESULTS
        self._open = ExitStack()
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        self._open.callback(os.close, self._handle)
        try:
            self._open.enter_context(lock(self._folder / _LOCK, wait=False))
        except InUseError:
            self._open.close()
            raise CounterrankError(f"{self._folder}: another process is writing results there; wait for it") from None
        whole = path.read_bytes().rfind(b"\n") + 1
        os.ftruncate(self._handle, whole)  # what a kill cut short
        return self

    def add(self, row: dict[str, Any]) -> None:
        """Write a row; when this returns it is on the disk."""
        line = json.dumps(row).encode() + b"\n"
        while line:  # a disk that is nearly full takes a part, and is an error the next time
            line = line[os.write(self._handle, line) :]
        os.fsync(self._handle)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()
