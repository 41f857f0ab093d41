"""The one way kernels are compiled here: cached on disk, and ahead of need in processes of their own."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]
F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile when first called, keep the result on disk, and release the GIL while running.

    Sums may be reordered and multiply-adds fused, so that loops become vector code; infinities and NaN keep their
    meaning.

    >>> kernel(lambda x: x + 1)(1)
    2
    """
    return compiled(function, {"reassoc", "contract", "arcp", "nsz"})


def exact_kernel(function: F) -> F:
    """As `kernel`, for code in which the order of operations is the algorithm.

    >>> exact_kernel(lambda x: x + 1)(1)
    2
    """
    return compiled(function, {"contract"})


def compiled(function: F, fastmath: set[str], **more: Any) -> F:
    """What the decorators here share; `more` goes to numba.

    >>> compiled(lambda x: x + 1, set())(1)
    2
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": fastmath, **more}
    try:
        dispatcher = njit(cache=True, **options)(function)
        _date_by_all_kernels(dispatcher)
        return cast(F, dispatcher)
    except RuntimeError:  # neither the package's folder nor the user's cache can be written: compile in each process
        return cast(F, njit(**options)(function))


def _date_by_all_kernels(dispatcher: Any) -> None:
    """Have a cached kernel thrown away when any kernel of the package changes.

    numba looks only at the file a kernel stands in, not at those of the kernels built into it, and would go on with
    old code after an update. Where a later numba keeps its stamp elsewhere, its own rule remains.
    """
    file: Any = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if hasattr(file, "_source_stamp"):
        file._source_stamp = _kernel_sources()


@cache
def _kernel_sources() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        text = path.read_bytes()
        if b"kernel" in text:
            digest.update(text)
    return digest.hexdigest()


def needs_compiling(compiled: Any) -> bool:
    """Whether compiled code could be kept on disk but is not there yet.

    False where nothing can be kept, or a later numba keeps it elsewhere: then there is nothing to prepare.

    >>> needs_compiling(len)
    False
    """
    file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    load = getattr(file, "_load_index", None)
    try:
        return load is not None and not load()
    except Exception:  # an index that cannot be read will be written anew
        return True


def run_processes(module: str, groups: Sequence[Sequence[str]], on_line: Callable[[str], None]) -> None:
    """Run `python -m module` with each group of arguments, side by side, and wait for all of them.

    `on_line` is called with each line they print. What becomes of them does not matter to the caller: they are a head
    start, not a condition. None outlives this call, nor this process (see `exit_with_parent`).

    >>> run_processes("this", [[]], lambda line: None)
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


def exit_with_parent() -> None:
    """In a process started by `run_processes`: end as soon as the one that started it has ended, and with it our input.

    >>> code = "from counterrank.common.jit import exit_with_parent; exit_with_parent(); import time; time.sleep(60)"
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
