"""A worker process: `python -m counterrank.experiments.worker FOLD...`.

Reads cells from stdin, a line of JSON each, and answers with one line each. It ends when its stdin does: a parent that
was killed leaves no workers behind, not even busy ones.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import traceback
from typing import Any

from counterrank.experiments.cells import Cell, Row
from counterrank.experiments.run_folder import shared_fold
from counterrank.experiments.workbench import Workbench


def main(folders: list[str]) -> None:
    """Run cells until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed is no answer
    bench = Workbench({number: shared_fold(folder) for number, folder in enumerate(folders)})
    cells = _listen()
    while True:
        answers.write(json.dumps(answer(bench, cells.get())) + "\n")
        answers.flush()


def answer(bench: Workbench, content: dict[str, Any]) -> Row:
    """What came of a cell, or the error in words; its trace goes to stderr.

    >>> import contextlib, io
    >>> with contextlib.redirect_stderr(io.StringIO()):
    ...     answer(Workbench({}), {"noise": [0.1, 1.0]})["error"][:9]
    'TypeError'
    """
    try:
        return bench.run(Cell.from_plain(content))
    except Exception as error:
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}


def _listen() -> queue.SimpleQueue[dict[str, Any]]:
    """Cells as they come in; at the end of stdin the process ends at once."""
    cells: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def read() -> None:
        try:
            for line in sys.stdin:
                cells.put(json.loads(line))
        finally:  # also where a kill of the parent cut a line short
            os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return cells


if __name__ == "__main__":
    main(sys.argv[1:])
