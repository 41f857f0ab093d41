"""The one way kernels are compiled here."""

from __future__ import annotations

from typing import Any

from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]

# Sums may be reordered and multiply-adds fused, so that loops become vector code; infinities and NaN keep their
# meaning. Compiled code is kept on disk, and the GIL is released so that Python threads run kernels side by side.
kernel = njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "arcp", "nsz"})

# Where the order of operations is the algorithm.
exact_kernel = njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
