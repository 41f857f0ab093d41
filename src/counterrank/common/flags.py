"""Flags by which kernels on several threads wait for each other without leaving compiled code.

Waking a Python thread takes a good part of a millisecond on some machines, as long as a small batch of queries does;
a thread that looks at a flag over and over answers at once. It yields its core between looks, so that a machine with
fewer free cores than threads still gets on.

The kernels here are no library's: numba has neither a fence nor a way to yield, and a Python lock needs the GIL.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np
from llvmlite.binding import address_of_symbol
from numba import types
from numba.extending import intrinsic

from counterrank.common.jit import Array, exact_kernel

_APART = 8  # each flag has a cache line of its own


def _yielding() -> str:
    """The C function without arguments that hands the core to another thread: that of POSIX, or of Windows.

    Where neither is found, one that does nothing: threads then take turns by the system's own clock.
    """
    known = ("sched_yield", "SwitchToThread")
    return next((name for name in known if address_of_symbol(name) is not None), "Py_IsInitialized")


_yield_core: Any = types.ExternalFunction(_yielding(), types.int32())


def _fence(typing_context: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


fence: Any = intrinsic(_fence)


def flags_for(threads: int) -> Array:
    """Flags for this many threads, all 0, and one more that makes them stop.

    >>> int(flags_for(2).max())
    0
    """
    return np.zeros((threads + 1) * _APART, np.int64)


@exact_kernel
def publish(flags: Array, thread: int, value: int) -> None:
    """Set a thread's flag, after all it has written is there for the others to see.

    >>> flags = flags_for(2)
    >>> publish(flags, 1, 7)
    >>> await_flag(flags, 1, 7)  # at once
    True
    """
    fence()
    flags[thread * _APART] = value
    fence()


@exact_kernel
def await_flag(flags: Array, thread: int, value: int) -> bool:
    """True when a thread's flag has reached a value; what it had written by then can be read. False to give up.

    >>> await_flag(flags_for(1), 0, 0)  # at once: flags begin at 0
    True
    """
    # the call also keeps the compiler from reading the flags only once
    while flags[thread * _APART] < value:
        if flags[len(flags) - _APART] != 0:
            return False
        _yield_core()
    fence()
    return True


def give_up(flags: Array) -> None:
    """Tell all threads that wait, or will, that one of them has failed.

    >>> flags = flags_for(1)
    >>> give_up(flags)
    >>> await_flag(flags, 0, 1)
    False
    """
    flags[len(flags) - _APART] = 1


def side_by_side(work: Callable[[int], None], threads: int, flags: Array) -> None:
    """Run `work(0)` here and `work(1)`, ... in other threads; if one fails, the others stop and its error is raised.

    Threads of their own, not of a pool: from a pool that is busy elsewhere, those that wait would wait for ever.

    >>> side_by_side(print, 1, flags_for(1))
    0
    """
    errors: list[BaseException] = []

    def guarded(thread: int) -> None:
        try:
            work(thread)
        except BaseException as error:
            errors.append(error)
            give_up(flags)

    helpers = [Thread(target=guarded, args=(thread,), daemon=True) for thread in range(1, threads)]
    started = []
    try:
        for helper in helpers:
            helper.start()
            started.append(helper)
        work(0)
    except BaseException:
        give_up(flags)
        raise
    finally:
        for helper in started:
            helper.join()
    if errors:
        raise errors[0]
