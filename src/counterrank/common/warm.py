"""Compile ahead of need, in processes of their own: within one process numba compiles one thing at a time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def is_missing(compiled: Any) -> bool:
    """Whether compiled code could be kept on disk but is not there yet.

    False where nothing can be kept, or a later numba keeps it elsewhere: then there is nothing to prepare.

    >>> is_missing(len)
    False
    """
    file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    load = getattr(file, "_load_index", None)
    try:
        return load is not None and not load()
    except Exception:  # an index that cannot be read will be written anew
        return True


def run_apart(module: str, groups: Sequence[Sequence[str]], on_line: Callable[[str], None]) -> None:
    """Run `python -m module` with each group of arguments, side by side, and wait for all of them.

    `on_line` is called with each line they print. What becomes of them does not matter to the caller: they are a head
    start, not a condition. None outlives this call, nor this process (see `leave_with_parent`).

    >>> run_apart("this", [[]], lambda line: None)
    """
    if not sys.executable:
        return
    package = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    processes: list[subprocess.Popen[str]] = []
    try:
        for arguments in groups:
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", module, *arguments],
                    stdin=subprocess.PIPE,  # closed when this process is gone, whatever ended it
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, "PYTHONPATH": path},
                    text=True,
                )
            )
        readers = [threading.Thread(target=_read, args=(process, on_line), daemon=True) for process in processes]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
    except OSError:  # no room for another process
        pass
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def leave_with_parent() -> None:
    """In a process started by `run_apart`: end as soon as the one that started it has ended, and with it our input.

    >>> code = "from counterrank.common.warm import leave_with_parent; leave_with_parent(); import time; time.sleep(60)"
    >>> subprocess.run([sys.executable, "-c", code], stdin=subprocess.DEVNULL).returncode
    1
    """
    threading.Thread(target=_wait_for_end_of_input, daemon=True).start()


def _wait_for_end_of_input() -> None:
    sys.stdin.read()
    os._exit(1)


def _read(process: subprocess.Popen[str], on_line: Callable[[str], None]) -> None:
    for line in process.stdout or ():
        on_line(line.strip())
