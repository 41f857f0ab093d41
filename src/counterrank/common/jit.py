"""The one way kernels are compiled here."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit, typeof
from numba.core.types import CompileResultWAP
from numpy.typing import NDArray

Array = NDArray[Any]
F = TypeVar("F", bound=Callable[..., Any])

_FAST = {"reassoc", "contract", "arcp", "nsz"}
_EXACT = {"contract"}
# numba makes each function callable from C too; only kernels that are arguments of others need it
_KERNEL = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_INNER = {"no_cpython_wrapper": True, "_nrt": False}


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
    type_of: Any = typeof
    types = tuple(type_of(example) for example in examples)
    function.compile(types)
    return CompileResultWAP(function.overloads[types])


def compiled(function: F, fastmath: set[str], **more: Any) -> F:
    """What the decorators here share; `more` goes to numba.

    >>> compiled(lambda x: x + 1, set())(1)
    2
    """
    options: dict[str, Any] = {**_KERNEL, "fastmath": fastmath, **more}
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
