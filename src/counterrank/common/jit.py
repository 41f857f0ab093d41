"""The one way kernels are compiled here."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
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
