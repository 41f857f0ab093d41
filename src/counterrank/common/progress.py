"""A progress bar for what takes long: on stderr, only where a person is watching, and not for short work."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_DELAY = 2.0  # seconds; quicker work needs no bar

# Told how much is done and how much there is to do, or None where that is not known.
Watcher = Callable[[float, float | None], None]
_watchers: list[Watcher] = []


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """While this lasts, work draws no bars of its own but tells `watcher`, which may be called from any thread.

    >>> with watched(lambda done, total: print(f"{done:g} of {total}")), progress("counting", total=2) as advance:
    ...     advance(1)
    0 of 2
    1 of 2
    """
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


@contextmanager
def progress(what: str, total: float | None = None) -> Iterator[Callable[[float], None]]:
    """A function to call with how much more is done; from any thread.

    The bar appears once the work has gone on for two seconds, if stderr is a terminal, and goes at the end.

    >>> with progress("counting", total=2) as advance:
    ...     advance(1)
    ...     advance(1)
    """
    if _watchers:
        yield _telling(_watchers[-1], total)
        return
    if not sys.stderr.isatty():
        yield lambda amount: None
        return
    bar = _LateBar(what, total)
    try:
        yield bar.advance
    finally:
        bar.stop()


def _telling(watcher: Watcher, total: float | None) -> Callable[[float], None]:
    done, lock = 0.0, threading.Lock()

    def advance(amount: float) -> None:
        nonlocal done
        with lock:
            done += amount
            watcher(done, total)

    advance(0)
    return advance


class _LateBar:
    def __init__(self, what: str, total: float | None) -> None:
        self._what, self._total = what, total
        self._begin = time.monotonic()
        self._done = 0.0
        self._lock = threading.Lock()
        self._bar: Any = None
        self._task: Any = None
        self._stopped = False
        # also for work whose first step takes long, such as compiling
        self._timer = threading.Timer(_DELAY, self.advance, (0.0,))
        self._timer.daemon = True
        self._timer.start()

    def advance(self, amount: float) -> None:
        with self._lock:
            self._done += amount
            if self._stopped or (self._bar is None and time.monotonic() - self._begin < _DELAY):
                return
            if self._bar is None:
                self._show()
            self._bar.update(self._task, completed=self._done)

    def stop(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._stopped = True
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task(self._what, total=self._total)
        self._bar.start()


@contextmanager
def stderr_silenced() -> Iterator[None]:
    """While this lasts nothing reaches the process's stderr, whoever writes to it; so let it be short.

    >>> with stderr_silenced():
    ...     _ = os.write(2, b"not seen")
    """
    if sys.stderr is not None:
        sys.stderr.flush()
    try:
        kept = os.dup(2)
    except OSError:  # a service without any stderr has nothing to keep quiet
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
