"""What is shown of longer work, only where a person is watching: on stderr by rich, or in a notebook."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from counterrank.common.notebook import Html, as_html, bar_svg, card

_DELAY = 2.0  # seconds; quicker work needs no bar
_REDRAW = 0.25  # seconds between two drawings in a notebook

# Called with how much is done and how much there is to do, or None where that is not known.
Watcher = Callable[[float, float | None], None]
_watchers: list[Watcher] = []


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """While this lasts, work draws no bars of its own but calls `watcher`, from any thread.

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

    The bar appears once the work has gone on for two seconds, if stderr is a terminal or this is a notebook, and goes
    at the end.

    >>> with progress("counting", total=2) as advance:
    ...     advance(1)
    ...     advance(1)
    """
    if _watchers:
        yield _calling(_watchers[-1], total)
        return
    if not (in_notebook() or sys.stderr.isatty()):
        yield lambda amount: None
        return
    bar = _LateBar(what, total)
    try:
        yield bar.advance
    finally:
        bar.stop()


def _calling(watcher: Watcher, total: float | None) -> Callable[[float], None]:
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
        self._begin, self._done, self._stopped = time.monotonic(), 0.0, False
        self._lock = threading.Lock()
        self._bar: Any = None
        self._task: Any = None
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
                self._bar = _NotebookBar() if in_notebook() else _bars("bar")
                self._task = self._bar.add_task(self._what, total=self._total)
                self._bar.start()
            self._bar.update(self._task, completed=self._done)

    def stop(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._stopped = True
            if self._bar is not None:
                self._bar.stop()
                self._bar = None


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook; IPython is not imported for that.

    >>> in_notebook()
    False
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None  # IPython in a terminal has none


class _NotebookBar:
    """One bar in the output of a notebook's cell, by IPython alone: rich would need ipywidgets."""

    def add_task(self, what: str, total: float | None) -> None:
        self._what, self._total, self._begin = what, total, time.monotonic()
        self._last = self._begin

    def start(self) -> None:
        from IPython.display import HTML, display

        self._html: Any = HTML
        self._place: Any = display(HTML(self._drawn(0.0)), display_id=True)

    def update(self, task: Any, completed: float) -> None:
        if time.monotonic() - self._last >= _REDRAW:
            self._last = time.monotonic()
            self._place.update(self._html(self._drawn(completed)))

    def stop(self) -> None:
        self._place.update(self._html(""))

    def _drawn(self, done: float) -> str:
        spent = time.monotonic() - self._begin
        share = min(done / self._total, 1.0) if self._total else 0.0
        if not self._total:
            return card(as_html(f"{self._what} … {spent:.0f} s"))
        left = f", {spent * (1.0 - share) / share:.0f} s left" if share > 0.0 else ""
        parts = (as_html(self._what), bar_svg(share), as_html(f"{share:.0%}{left}"))
        return card(Html(" &nbsp;".join(parts)))


class Stages:
    """The stages of longer work as a list that grows: on a terminal with a bar that moves, elsewhere line by line.

    Called with a text, it begins a stage and ends the one before.
    """

    def __enter__(self) -> Stages:
        self._bars: Any = _bars("stages") if sys.stderr.isatty() else None
        self._task: Any = None
        self._open = ExitStack()
        if self._bars is not None:
            self._bars.start()
            self._open.callback(self._bars.stop)
        self._open.enter_context(watched(self.update))  # bars of the library's own would draw over these
        return self

    def __call__(self, text: str) -> None:
        """Begin a stage."""
        if self._bars is None:
            sys.stderr.write(f"{text} ...\n")
            sys.stderr.flush()
            return
        self._end()
        self._task = self._bars.add_task(text, total=None)

    def update(self, done: float, total: float | None) -> None:
        """How much of the stage is done."""
        if self._bars is not None and self._task is not None:
            self._bars.update(self._task, completed=done, total=total)

    def _end(self) -> None:
        if self._task is not None:
            self._bars.update(self._task, completed=1, total=1)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self._end()
        self._open.close()


@contextmanager
def status(lines: Callable[[], list[str]], done: Callable[[], float], total: float) -> Iterator[None]:
    """A bar between the first of some lines and the others, drawn four times a second.

    >>> with status(lambda: ["1 of 2 done", "the second is running"], lambda: 1, 2):
    ...     pass
    """
    if not sys.stderr.isatty() or not total:
        yield
        return
    from rich.progress import Progress
    from rich.text import Text

    class Status(Progress):
        def get_renderables(self) -> Iterator[Any]:
            for task in self.task_ids:
                self.update(task, completed=done())
            first, *others = lines()
            yield Text(first)
            yield self.make_tasks_table(self.tasks)
            yield from (Text(line, style="dim", overflow="ellipsis", no_wrap=True) for line in others)

    shown = _bars("status", Status)
    shown.add_task("", total=total)
    with shown:
        yield


def _bars(style: str, kind: Any = None) -> Any:
    """rich's bars on stderr: one "bar" with the time left, a list of "stages", or a mere bar for a "status"."""
    from rich import progress as rich
    from rich.console import Console

    console, text = Console(stderr=True), rich.TextColumn("{task.description}")
    spinner, tick = ("dots", "✓") if console.encoding.startswith("utf") else ("line", "*")
    columns: dict[str, tuple[Any, ...]] = {
        "bar": (text, rich.BarColumn(), rich.TaskProgressColumn(), rich.TimeRemainingColumn()),
        "stages": (
            rich.SpinnerColumn(spinner, finished_text=tick), text, rich.BarColumn(bar_width=20),
            rich.TimeElapsedColumn(),
        ),
        "status": (rich.BarColumn(bar_width=60),),
    }  # fmt: skip
    return (kind or rich.Progress)(*columns[style], console=console, transient=style != "stages")


@contextmanager
def stderr_silenced(log: str | os.PathLike[str] = os.devnull) -> Iterator[None]:
    """While this lasts what anyone writes to the process's stderr goes to a file, at its end; so let it be short.

    A process that is started meanwhile keeps the file as its stderr.

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
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        os.dup2(handle, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(handle)
