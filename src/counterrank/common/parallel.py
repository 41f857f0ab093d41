"""Work split over queries, on Python threads around numba kernels that release the GIL.

Plain threads rather than numba's own: they may be used from several threads of a service at once, survive `fork`, and
need no OpenMP or TBB library on the machine. A kernel gets a range of queries and writes only what belongs to them, so
the result does not depend on how the ranges were cut.
"""

from __future__ import annotations

import os
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from itertools import pairwise
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.common.checks import check_whole, read_only
from counterrank.common.errors import CounterrankError

_pool: ThreadPoolExecutor | None = None
_pool_size = 0


def _forget_pool() -> None:
    global _pool, _pool_size
    _pool, _pool_size = None, 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


def thread_count(threads: int | None = None, name: str = "threads") -> int:
    """The number of threads to use: as given, else `COUNTERRANK_THREADS`, else the cores this process may run on.

    `name` is what an error calls the argument.

    >>> thread_count(3)
    3
    """
    if threads is None:
        given = os.environ.get("COUNTERRANK_THREADS", "")
        if not given:
            return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if not (given.isascii() and given.isdigit() and int(given) >= 1):
            raise CounterrankError(f"COUNTERRANK_THREADS={given!r}: expected a whole number of at least 1")
        return int(given)
    return check_whole(threads, name, also=", or None for all cores")


def run_parallel(jobs: Sequence[Callable[[], Any]], threads: int) -> list[Any]:
    """The results of all jobs, in order, at most `threads` of them at a time.

    >>> run_parallel([lambda: 1, lambda: 2], threads=2)
    [1, 2]
    """
    if threads == 1 or len(jobs) <= 1:
        return [job() for job in jobs]
    waiting = deque(range(len(jobs)))
    results: list[Any] = [None] * len(jobs)

    def work() -> None:
        while waiting:
            try:
                i = waiting.popleft()
            except IndexError:  # another thread was quicker
                return
            try:
                results[i] = jobs[i]()
            except BaseException:
                waiting.clear()
                raise

    helpers = [_pool_of(threads - 1).submit(work) for _ in range(min(threads, len(jobs)) - 1)]
    try:
        work()  # this thread is one of them, so that a call from within a job cannot wait for itself
    finally:
        for helper in helpers:
            if not helper.cancel():
                wait((helper,))
    for helper in helpers:
        if not helper.cancelled():
            helper.result()
    return results


def _pool_of(size: int) -> ThreadPoolExecutor:
    """The threads all calls share; more of them are made when a call needs more."""
    global _pool, _pool_size
    if _pool is None or _pool_size < size:
        _pool, _pool_size = ThreadPoolExecutor(size, thread_name_prefix="counterrank"), size
    return _pool


def cached_once(function: Callable[..., Any], maxsize: int) -> Callable[..., Any]:
    """`functools.lru_cache` that computes a value once, also where several threads ask for it at the same time.

    >>> double = cached_once(lambda x: print("computed") or 2 * x, maxsize=1)
    >>> double(2), double(2)
    computed
    (4, 4)
    """
    known: OrderedDict[tuple[Any, ...], Future[Any]] = OrderedDict()
    lock = Lock()

    def cached(*args: Any) -> Any:
        with lock:
            is_new = args not in known
            found = known.setdefault(args, Future())
            known.move_to_end(args)
            if len(known) > maxsize:
                known.popitem(last=False)  # whoever waits for it has it
        if is_new:
            try:
                found.set_result(function(*args))
            except BaseException as error:
                with lock:
                    known.pop(args, None)
                found.set_exception(error)
        return found.result()

    return cached


def split_queries(offsets: NDArray[np.int64], parts: int) -> list[tuple[int, int]]:
    """Consecutive ranges of queries with about as many documents each; never an empty range.

    >>> split_queries(np.array([0, 10, 11, 12, 20]), 2)
    [(0, 1), (1, 4)]
    """
    n_queries = len(offsets) - 1
    targets = np.arange(1, parts) * (offsets[-1] / parts)
    cuts = np.unique(np.concatenate(([0], np.searchsorted(offsets, targets), [n_queries])))
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))


def for_queries(
    kernel: Callable[..., Any],
    offsets: NDArray[np.int64],
    *args: Any,
    threads: int | None = None,
    most: int | None = None,
) -> list[Any]:
    """Run `kernel(first, last, offsets, *args)` over all queries; one result for each range of queries.

    With `most`, a range has about so many documents at most before its last query.

    >>> for_queries(lambda first, last, offsets: int(offsets[last] - offsets[first]), np.array([0, 2, 5]))
    [5]
    """
    n = thread_count(threads)
    # a few ranges more than threads even out long queries; a small job is not worth a thread
    parts = 1 if n == 1 or offsets[-1] < 4096 else 4 * n
    if most is not None:
        parts = max(parts, int(offsets[-1]) // most)
    bounds = read_only(offsets)
    jobs = [partial(kernel, first, last, bounds, *args) for first, last in split_queries(offsets, parts)]
    return run_parallel(jobs, n)


def for_range(kernel: Callable[..., Any], n: int, *args: Any, threads: int | None = None) -> list[Any]:
    """Run `kernel(first, last, *args)` over the numbers below `n`; one result for each range of them.

    >>> for_range(lambda first, last: last - first, 10)
    [10]
    """
    count = thread_count(threads)
    parts = 1 if count == 1 or n < 4096 else 4 * count
    cuts = [n * part // parts for part in range(parts + 1)]
    jobs = [partial(kernel, first, last, *args) for first, last in pairwise(cuts)]
    return run_parallel(jobs, count)
