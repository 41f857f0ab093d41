"""The one way kernels are compiled here: cached on disk, and ahead of need in processes of their own.

numba's cache looks only at the file a kernel stands in, not at those of the kernels built into it, and would go on with
old code after an update. So the folder of the cache is named by a hash of all sources with kernels in them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.types import CompileResultWAP
from numpy.typing import NDArray

Array = NDArray[Any]
F = TypeVar("F", bound=Callable[..., Any])

_PACKAGE = Path(__file__).parents[1]
_PREFIX = "counterrank-kernels-"
_STALE_S = 7 * 86400.0  # for so long the cache of other sources is kept after its last use
_config: Any = numba.config
_declaring = threading.RLock()
_FAST = {"reassoc", "contract", "arcp", "nsz"}
_EXACT = {"contract"}
# numba makes each function callable from C too; only kernels that are arguments of others need it
_KERNEL = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
# Inner kernels are always inlined. LLVM would otherwise decide by what else is compiled or loaded at the time, and sums
# that may be reordered would differ: a ranker would depend on whether its kernels were compiled or loaded.
_INNER = {"no_cpython_wrapper": True, "_nrt": False, "forceinline": True}


def kernel(function: F) -> F:
    """Compile when first called, keep the result on disk, and release the GIL while running.

    Sums may be reordered and multiply-adds fused, so that loops become vector code; infinities and NaN keep their
    meaning.

    >>> kernel(lambda x: x + 1)(1)
    2
    """
    return compiled(function, _FAST)


def exact_kernel(function: F) -> F:
    """As `kernel`, for code in which the order of operations is the algorithm.

    >>> exact_kernel(lambda x: x + 1)(1)
    2
    """
    return compiled(function, _EXACT)


def inner_kernel(function: F) -> F:
    """As `kernel`, for what only other kernels call: less to compile, and faster.

    Python has no way in, and references to arrays are not counted, an atomic operation each time. So it cannot make
    arrays, nor return any but those it was given; numba refuses to compile it then.

    >>> double = inner_kernel(lambda x: 2 * x)
    >>> kernel(lambda x: double(x) + 1)(1)
    3
    """
    return compiled(function, _FAST, **_INNER)


def exact_inner_kernel(function: F) -> F:
    """As `inner_kernel`, for code in which the order of operations is the algorithm.

    >>> double = exact_inner_kernel(lambda x: 2 * x)
    >>> kernel(lambda x: double(x) + 1)(1)
    3
    """
    return compiled(function, _EXACT, **_INNER)


def exact_allocating_kernel(function: F) -> F:
    """As `exact_inner_kernel`, for what makes or returns arrays: Python has no way in, but references are counted.

    >>> pair = exact_allocating_kernel(lambda x: [x, x])
    >>> kernel(lambda x: len(pair(x)))(1)
    2
    """
    return compiled(function, _EXACT, no_cpython_wrapper=True)


def argument_kernel(function: F) -> F:
    """As `inner_kernel`, for what other kernels take as an argument, made by `as_argument`.

    A kernel that is called by its name becomes part of each caller and is compiled again with it; one that is an
    argument is compiled once, whoever calls it.

    >>> double = as_argument(argument_kernel(lambda x: 2.0 * x), 1.0)
    >>> kernel(lambda f, x: f(x) + 1.0)(double, 3.0)
    7.0
    """
    return compiled(function, _FAST, **{**_INNER, "no_cfunc_wrapper": False})


def as_argument(function: Any, *examples: Any) -> Any:
    """Compile an `argument_kernel` for arguments like the examples, and return what other kernels can be given.

    >>> add = as_argument(argument_kernel(lambda x, y: x + y), 1, 1)
    >>> kernel(lambda f, x: f(x, x))(add, 3)
    6
    """
    type_of: Any = numba.typeof
    types = tuple(type_of(example) for example in examples)
    function.compile(types)
    return CompileResultWAP(function.overloads[types])


def compiled(function: F, fastmath: set[str], **more: Any) -> F:
    """What the decorators here share; `more` goes to numba.

    >>> compiled(lambda x: x + 1, set())(1)
    2
    """
    options: dict[str, Any] = {**_KERNEL, "fastmath": fastmath, **more}
    folder = cache_folder()
    if folder is not None:
        with suppress(RuntimeError), _cache_in(folder):  # numba wants a file to cache by; a prompt has none
            return cast(F, numba.njit(cache=True, **options)(function))
    return cast(F, numba.njit(**options)(function))


@contextmanager
def _cache_in(folder: Path) -> Iterator[None]:
    """While this lasts, kernels that are declared have their cache in the folder; those of other packages do not."""
    with _declaring:
        before, _config.CACHE_DIR = _config.CACHE_DIR, str(folder)
        try:
            yield
        finally:
            _config.CACHE_DIR = before


@cache
def cache_folder() -> Path | None:
    """The folder of compiled kernels; None where none can be written, and each process compiles for itself.

    It is below the one that NUMBA_CACHE_DIR names, else in the package's `__pycache__`, else in the user's cache.

    >>> cache_folder() is None or cache_folder().is_dir()
    True
    """
    user = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or os.path.expanduser("~/.cache")
    named = _config.CACHE_DIR
    places = [Path(named)] if named else [_PACKAGE / "__pycache__", Path(user, "counterrank")]
    for place in places:
        folder = place / (_PREFIX + _hash_of_kernels())
        with suppress(OSError):
            is_new = not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()  # which also says that it is in use
            if is_new:
                _remove_stale(place)
            return folder
    return None


def _remove_stale(place: Path) -> None:
    """Remove what was compiled of other sources, unless it was in use of late: another installation's, or a test's.

    A process that still uses it loses nothing but time: numba compiles what it does not find.
    """
    for folder in place.glob(_PREFIX + "*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _STALE_S:
                shutil.rmtree(folder, ignore_errors=True)


def _hash_of_kernels() -> str:
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        text = path.read_bytes()
        if b"kernel" in text:
            digest.update(text)
    return digest.hexdigest()[:16]


def needs_compiling(kernel: Any) -> bool:
    """Whether the compiled code of a kernel could be on disk but is not there yet.

    >>> needs_compiling(len)
    False
    """
    stats = getattr(kernel, "stats", None)
    if stats is None or stats.cache_path is None:  # nothing is kept
        return False
    code = kernel.py_func.__code__
    module = Path(code.co_filename).stem
    python = f"py{sys.version_info.major}{sys.version_info.minor}"
    name = f"{module}.{kernel.py_func.__qualname__}-{code.co_firstlineno}.{python}*.nbi"
    return not any(Path(stats.cache_path).glob(name))


def run_processes(module: str, groups: Sequence[Sequence[str]], on_line: Callable[[str], None]) -> None:
    """Run `python -m module` with each group of arguments, side by side, and wait for all of them.

    Within one process numba compiles one thing at a time. `on_line` is called with each line they print. What becomes
    of them does not matter to the caller: they are a head start, not a condition. None outlives this call, nor this
    process (see `exit_with_parent`).

    >>> run_processes("this", [[]], lambda line: None)
    """
    if not sys.executable:
        return
    path = os.pathsep.join(filter(None, (str(_PACKAGE.parent), os.environ.get("PYTHONPATH"))))
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
