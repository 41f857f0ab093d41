"""The stages of longer work as a list that grows: on a terminal with a bar that moves, elsewhere line by line."""

from __future__ import annotations

import sys
from typing import Any

from counterrank.common.progress import watched


class Stages:
    """Shows what is going on, on stderr. Called with a text, it begins a stage and ends the one before."""

    def __enter__(self) -> Stages:
        self._bars: Any = _bars() if sys.stderr.isatty() else None
        self._task: Any = None
        if self._bars is not None:
            self._bars.start()
        # bars of the library's own would draw over these
        self._watching = watched(self.update)
        self._watching.__enter__()
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
        self._watching.__exit__(kind, error, trace)
        if self._bars is not None:
            if kind is None:
                self._end()
            self._bars.stop()


def _bars() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    spinner, tick = ("dots", "✓") if console.encoding.startswith("utf") else ("line", "*")
    return Progress(
        SpinnerColumn(spinner, finished_text=tick),
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        console=console,
    )
