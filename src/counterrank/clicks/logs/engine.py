"""What runs the passes over a log: something that reads its files, and a small DuckDB beside it for what is left."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from counterrank.common.errors import DataError, printable
from counterrank.common.progress import progress

_POLL_S = 0.1
_AMOUNT = re.compile(r"[0-9]+(\.[0-9]+)? ?[KMGT]i?B", re.IGNORECASE)


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

    def text(self, value: str) -> str:
        """A text as this engine's SQL writes it."""

    def rejected(self) -> tuple[int, str]:
        """How many lines of the files the first pass could not read, and one of them."""


def connect(memory: str, threads: int | None, spill: Path) -> Any:
    """A DuckDB in memory that keeps to a limit and spills to a folder beyond it."""
    import duckdb

    if not isinstance(memory, str) or not _AMOUNT.fullmatch(memory):
        raise DataError(f"memory={memory!r}: not an amount of memory; expected such as 500MB or 4GB")
    if threads is not None and (type(threads) is not int or threads < 1):
        raise DataError(f"threads={threads!r}: expected a whole number from 1")
    local = duckdb.connect()
    settings = {"memory_limit": text(memory), "temp_directory": text(str(spill))}
    settings |= {"preserve_insertion_order": "false", "enable_progress_bar": "false"}
    settings["autoinstall_known_extensions"] = "false"  # nothing is fetched because of what a log holds
    settings |= {} if threads is None else {"threads": str(threads)}
    try:
        for name, value in settings.items():
            local.execute(f"set {name} = {value}")
    except duckdb.Error as error:
        local.close()
        raise DataError(f"memory={memory!r}, threads={threads!r}: refused by DuckDB ({one_line(error)})") from None
    return local


def doubt_statistics(local: Any) -> None:
    """From now on DuckDB infers nothing from the least and greatest value of a column.

    Parquet leaves NaN out of these. DuckDB would take it that none is there, and conditions on the column for granted.
    Counting is half as fast again with these inferences, so they are given up only where floats are judged.
    """
    local.execute("set disabled_optimizers = 'statistics_propagation'")


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
    failed: list[BaseException] = []
    ended = threading.Event()  # whether a thread is alive cannot be asked once waiting for it was interrupted

    def work() -> None:
        try:
            local.execute(sql)
        except BaseException as error:
            failed.append(error)
        finally:
            ended.set()

    worker = threading.Thread(target=work, daemon=True)
    with progress(what, 100.0) as advance, _interrupting(local, worker, ended):
        worker.start()
        done = 0.0
        while not ended.wait(_POLL_S):
            now = _done(local)
            if now > done:
                advance(now - done)
                done = now
    for error in failed:
        with told(log):
            raise error


@contextmanager
def told(log: str) -> Iterator[None]:
    """What DuckDB complains about becomes one line about this log."""
    import duckdb

    try:
        yield
    except (duckdb.Error, MemoryError) as error:
        raise DataError(f"{log}: cannot be counted ({one_line(error)}){_remedy(error)}") from None


def _done(local: Any) -> float:
    """How far a query is, in percent, if this DuckDB can tell."""
    ask: Callable[[], float] | None = getattr(local, "query_progress", None)
    return 0.0 if ask is None else float(ask())


@contextmanager
def _interrupting(local: Any, worker: threading.Thread, ended: threading.Event) -> Iterator[None]:
    """Stop the query if this thread is told to leave; what it works with cannot be closed before it has ended."""
    try:
        yield
    except BaseException:
        while worker.ident is not None and not ended.is_set():
            local.interrupt()
            ended.wait(_POLL_S)
        raise


def _remedy(error: BaseException) -> str:
    import duckdb

    if "state machine" in str(error):
        return "; do the lines of a CSV file end in different ways? expected one kind of line end in each file"
    if isinstance(error, duckdb.OutOfMemoryException | MemoryError) or "No space left" in str(error):
        return "; give it more --memory, or more room for what it spills in the folder that TMPDIR names"
    return ""


def one_line(error: BaseException) -> str:
    """What an error says, in one line that is not too long, without the SQL and the advice on settings that follow.

    >>> one_line(ValueError("no such\\n  thing"))
    'no such thing'
    """
    words = printable(re.split(r"\n(?:LINE 1:|Possible |\n)", str(error))[0])
    return words if len(words) <= 300 else words[:300] + " ..."
