"""Flags by which kernels on several threads wait for each other without leaving compiled code.

Waking a Python thread takes a good part of a millisecond on some machines, as long as a small batch of queries does;
a thread that looks at a flag over and over answers at once. It yields its core between looks, so that a machine with
fewer free cores than threads still gets on.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from counterrank.common.jit import Array, exact_kernel

AVAILABLE = hasattr(os, "sched_yield")
_APART = 8  # each flag has a cache line of its own

_sched_yield: Any = types.ExternalFunction("sched_yield", types.int32())


def _fence(typing_context: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


fence: Any = intrinsic(_fence)


def flags_for(threads: int) -> Array:
    """Flags for this many threads, all 0.

    >>> int(flags_for(2).max())
    0
    """
    return np.zeros(threads * _APART, np.int64)


@exact_kernel
def publish(flags: Array, thread: int, value: int) -> None:
    """Set a thread's flag, after all it has written is there for the others to see.

    >>> flags = flags_for(2)
    >>> publish(flags, 1, 7)
    >>> await_flag(flags, 1, 7)  # returns at once
    """
    fence()
    flags[thread * _APART] = value
    fence()


@exact_kernel
def await_flag(flags: Array, thread: int, value: int) -> None:
    """Return when a thread's flag has reached a value; what it had written by then can be read.

    >>> await_flag(flags_for(1), 0, 0)  # returns at once: flags begin at 0
    """
    # the call also keeps the compiler from reading the flag only once
    while flags[thread * _APART] < value:
        _sched_yield()
    fence()
