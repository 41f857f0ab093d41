"""The one way kernels are compiled here."""

from __future__ import annotations

from collections.abc import Callable
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
        return cast(F, njit(cache=True, **options)(function))
    except RuntimeError:  # neither the package's folder nor the user's cache can be written: compile in each process
        return cast(F, njit(**options)(function))
