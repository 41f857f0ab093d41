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

    >>> from counterrank.common.ranking import rank_order
    >>> rank_order.targetoptions["nogil"]
    True
    """
    flags = {"reassoc", "contract", "arcp", "nsz"}
    return cast(F, njit(nogil=True, cache=True, error_model="numpy", fastmath=flags)(function))


def exact_kernel(function: F) -> F:
    """As `kernel`, for code in which the order of operations is the algorithm.

    >>> from counterrank.common.numerics import exp_negative
    >>> exp_negative(0.0)
    1.0
    """
    return cast(F, njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})(function))
