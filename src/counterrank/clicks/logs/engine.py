"""What runs the passes over a log: something that reads its files, and a small DuckDB beside it for what is left."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from counterrank.common.errors import DataError
from counterrank.common.progress import progress

_POLL_S = 0.1


class Engine(Protocol):
    """Runs SQL over the tables `raw` (the files) and `log` (their columns, read).

    Attributes:
        local: a DuckDB connection; results become tables there.
    """

    local: Any

    def columns(self) -> dict[str, tuple[str, str]]:
        """For each column of `raw` its quoted name, and what it holds (see `columns`)."""

    def view(self, name: str, sql: str) -> None:
        """Give a query over the log a name."""

    def reduce(self, name: str, sql: str, what: str) -> None:
        """Run a query over the log; its result becomes the local table `name`. `what` is said of it meanwhile."""

    def lend(self, name: str) -> None:
        """Let queries over the log use the local table `name`."""

    def in_order(self, column: str) -> str:
        """A list of a column by rank, as this engine writes it."""

    def rejected(self) -> tuple[int, str]:
        """How many lines of the files the first pass could not read, and one of them."""


def connect(memory: str, threads: int | None, spill: Path) -> Any:
    """A DuckDB in memory that keeps to a limit and spills to a folder beyond it."""
    import duckdb

    local = duckdb.connect()
    try:
        local.execute(f"set memory_limit = {text(memory)}")
    except duckdb.Error:
        raise DataError(f"memory={memory!r}: not an amount of memory; expected such as 500MB or 4GB") from None
    local.execute(f"set temp_directory = {text(str(spill))}")
    local.execute("set preserve_insertion_order = false")
    local.execute("set enable_progress_bar = false")
    if threads is not None:
        local.execute(f"set threads = {int(threads)}")
    return local


def text(value: str) -> str:
    """A text as SQL writes it; nothing in it can end it.

    >>> text("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''").replace("\0", "") + "'"


def name_of(value: str) -> str:
    """The name of a column as SQL writes it; nothing in it can end it.

    >>> name_of('a "quoted" name')
    '"a ""quoted"" name"'
    """
    return '"' + value.replace('"', '""') + '"'


def run(local: Any, sql: str, what: str, log: str) -> None:
    """Run one statement, with a progress bar where someone is watching."""
    import duckdb

    failed: list[BaseException] = []

    def work() -> None:
        try:
            local.execute(sql)
        except BaseException as error:
            failed.append(error)

    with progress(what, 100.0) as advance, _interrupting(local):
        worker = threading.Thread(target=work, daemon=True)
        worker.start()
        done = 0.0
        while worker.is_alive():
            worker.join(_POLL_S)
            now = _done(local)
            if now > done:
                advance(now - done)
                done = now
    for error in failed:
        if isinstance(error, duckdb.Error | MemoryError):
            raise DataError(f"{log}: cannot be counted ({one_line(error)}){_remedy(error)}") from None
        raise error


def _done(local: Any) -> float:
    """How far a query is, in percent, if this DuckDB can tell."""
    ask: Callable[[], float] | None = getattr(local, "query_progress", None)
    return 0.0 if ask is None else float(ask())


@contextmanager
def _interrupting(local: Any) -> Iterator[None]:
    """Stop the query if this thread is told to leave."""
    try:
        yield
    except BaseException:
        local.interrupt()
        raise


def _remedy(error: BaseException) -> str:
    import duckdb

    if isinstance(error, duckdb.OutOfMemoryException | MemoryError):
        return "; give it more --memory, or more room for what it spills in the folder that TMPDIR names"
    return ""


def one_line(error: BaseException) -> str:
    """What an error says, in one line that is not too long.

    >>> one_line(ValueError("no such\\n  thing"))
    'no such thing'
    """
    words = " ".join(str(error).split())
    return words if len(words) <= 300 else words[:300] + " ..."
