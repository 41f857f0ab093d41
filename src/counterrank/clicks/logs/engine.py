"""Engines run the passes over a log. DuckDB reads the files itself, within a limit of memory; Spark (`spark_engine`)
reads them on a cluster and hands the aggregates to a local DuckDB.
"""

from __future__ import annotations

import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from counterrank.clicks.logs.columns import BOOL, EMPTY, FLOAT, TEXT, TIME, WHOLE
from counterrank.clicks.logs.formats import (
    FORMATS,
    Header,
    LogFiles,
    check_apart,
    csv_headers,
    find_line,
    place_in,
)
from counterrank.common.errors import DataError, brief, printable
from counterrank.common.progress import progress

_POLL_S = 0.1
_AMOUNT = re.compile(r"[0-9]+(\.[0-9]+)? ?[KMGT]i?B", re.IGNORECASE)


@contextmanager
def connected(log: str, memory: str, threads: int | None, spill: Path) -> Iterator[Any]:
    """A DuckDB in memory that keeps to a limit and spills to a folder beyond it; its errors name the log."""
    import duckdb

    if not isinstance(memory, str) or not _AMOUNT.fullmatch(memory):
        raise DataError(f"memory={brief(memory)}: not an amount of memory; expected such as 500MB or 4GB")
    if threads is not None and (type(threads) is not int or threads < 1):
        raise DataError(f"threads={brief(threads)}: expected a whole number from 1")
    settings = {"memory_limit": text(memory), "temp_directory": text(str(spill))}
    settings["preserve_insertion_order"] = "false"
    settings["autoinstall_known_extensions"] = "false"  # nothing is fetched because of what a log holds
    settings["TimeZone"] = "'UTC'"  # times mean the same on every machine
    settings |= {} if threads is None else {"threads": str(threads)}
    with closing(duckdb.connect()) as local:
        with suppress(duckdb.Error):  # refused in Jupyter without ipywidgets, where there is no bar
            local.execute("set enable_progress_bar = false")
        try:
            for name, value in settings.items():
                local.execute(f"set {name} = {value}")
        except duckdb.Error as error:
            raise DataError(f"memory={memory!r}, threads={threads!r}: refused by DuckDB ({one_line(error)})") from None
        with duckdb_errors(log):
            yield local


def disable_statistics(local: Any) -> None:
    """From now on DuckDB infers nothing from the least and greatest value of a column.

    Parquet leaves NaN out of these. DuckDB would take it that none is there, and conditions on the column for granted.
    Counting is half as fast again with these inferences, so they are given up only where floats are checked.
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
    ended = threading.Event()  # `is_alive` is not reliable once waiting for a thread was interrupted

    def work() -> None:
        try:
            local.execute(sql)
        except BaseException as error:
            failed.append(error)
        finally:
            ended.set()

    worker = threading.Thread(target=work, daemon=True)
    try:
        with progress(what, 100.0) as advance:
            worker.start()
            done = 0.0
            while not ended.wait(_POLL_S):
                now = _done(local)
                if now > done:
                    advance(now - done)
                    done = now
    except BaseException:  # a connection cannot be closed before its query has ended
        while worker.ident is not None and not ended.is_set():
            local.interrupt()
            ended.wait(_POLL_S)
        raise
    for error in failed:
        with duckdb_errors(log):
            raise error


@contextmanager
def duckdb_errors(log: str) -> Iterator[None]:
    """An error of DuckDB becomes one line about this log."""
    import duckdb

    try:
        yield
    except (duckdb.Error, MemoryError) as error:
        raise DataError(f"{log}: cannot be counted ({one_line(error)}){_remedy(error)}") from None


def _done(local: Any) -> float:
    """How far a query is, in percent; 0 for versions of DuckDB that do not say."""
    return float(local.query_progress()) if hasattr(local, "query_progress") else 0.0


def _remedy(error: BaseException) -> str:
    import duckdb

    if "state machine" in str(error):
        return "; do the lines of a CSV file end in different ways? expected one kind of line end in each file"
    if isinstance(error, duckdb.OutOfMemoryException | MemoryError) or "No space left" in str(error):
        return "; raise memory=, or give it more room to spill in the folder that TMPDIR names"
    return ""


def one_line(error: BaseException) -> str:
    """What an error says, in one line that is not too long, without the SQL and the advice on settings that follow.

    >>> one_line(ValueError("no such\\n  thing"))
    'no such thing'
    """
    words = printable(re.split(r"\n(?:LINE 1:|Possible |\n)", str(error))[0])
    return words if len(words) <= 300 else words[:300] + " ..."


# What Spark has and DuckDB calls otherwise, so that one text serves both.
_MACROS = (
    "create temp macro bit_at(place) as (cast(1 as bigint) << cast(place as bigint))",
    "create temp macro xxhash64(value) as hash(value)",
    "create temp macro pmod(value, divisor) as (value % divisor)",
    "create temp macro unix_seconds(moment) as cast(floor(epoch(cast(moment as timestamp))) as bigint)",
    "create temp macro seconds_in(value) as cast(floor(epoch(try_cast(trim(value) as timestamptz))) as bigint)",
    "create temp macro number_in(value) as "
    "(case when not contains(cast(value as string), '_') and not contains(cast(value as string), '+-') "
    "then try_cast(value as double) end)",
)
_KINDS = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"), WHOLE),
    **dict.fromkeys(("FLOAT", "DOUBLE"), FLOAT),
    **dict.fromkeys(("VARCHAR", "UUID", "UBIGINT", "HUGEINT", "UHUGEINT"), TEXT),
    "BOOLEAN": BOOL,
    **dict.fromkeys(("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_S", "TIMESTAMP_MS"), TIME),
    **dict.fromkeys(("TIMESTAMP_NS", "TIMESTAMPTZ_NS", "TIMESTAMP_NS WITH TIME ZONE"), TIME),
    '"NULL"': EMPTY,
    "NULL": EMPTY,
}


def kind_of(type_name: str) -> str:
    """What a column of a DuckDB type holds; the type itself where it is none of these.

    >>> kind_of("BIGINT"), kind_of("ENUM('a', 'b')"), kind_of("VARCHAR[]")
    ('whole', 'text', 'VARCHAR[]')
    """
    if type_name.startswith("ENUM(") and not type_name.endswith("]"):
        return TEXT
    if type_name.startswith("DECIMAL(") and not type_name.endswith("]"):
        return FLOAT
    return _KINDS.get(type_name, type_name)


class Unreadable(NamedTuple):
    """Lines of files that are no rows.

    Attributes:
        number: how many.
        line: one of them.
        place: where that is; "" where it is not known.
    """

    number: int = 0
    line: str = ""
    place: str = ""


def duckdb_error() -> type[Exception]:
    """The class of DuckDB's errors."""
    import duckdb

    return duckdb.Error


def finish(local: Any) -> None:
    """Some versions of DuckDB refuse other work while a result has rows that nobody fetched."""
    local.execute("select 1").fetchall()


def find_row(log: LogFiles, local: Any, row: Mapping[str, str | None]) -> str:
    """The number of a row of Parquet files or a frame, as "row 7" (from 0); "" where it is not found.

    `row` has what some columns hold, by their names, as texts.
    """
    import numpy as np
    import pyarrow.parquet as pq

    place = "counterrank row"
    if log.table is not None:
        finish(local)
        local.register("places", log.table.append_column(place, [np.arange(log.table.num_rows)]))
        sources: list[tuple[Path | None, str, str, set[str]]] = [(None, "places", place, set(log.table.column_names))]
    else:
        sources = [
            (file, f"read_parquet({file_list([file])}, file_row_number = true, hive_partitioning = false)",
             "file_row_number", set(pq.read_schema(file.absolute()).names))
            for file in log.files
        ]  # fmt: skip
    for file, source, number, names in sources:
        own = {name: value for name, value in row.items() if name in names}
        rules = [f"cast({name_of(name)} as varchar) is not distinct from ?" for name in own] or ["true"]
        sql = f"select min({name_of(number)}) from {source} where {' and '.join(rules)}"
        found = local.execute(sql, list(own.values())).fetchone()[0]
        if found is not None:
            return f"row {found}" if file is None else place_in(log, file, f"row {found}")
    return ""


class Engine(ABC):
    """Runs SQL over the tables `raw` (the files) and `log` (their columns, read).

    Attributes:
        log: the files.
        local: a DuckDB connection; results become tables there.
        types: for each column of `raw` the name of its type in DuckDB.
        put_aside: the lines that could not be read before the first pass.
        rows_of: the files or the table whose rows have places; None where the rows were made of events.
    """

    def __init__(self, log: LogFiles, local: Any) -> None:
        self.log, self.local = log, local
        self.types: dict[str, str] = {}
        self.put_aside = Unreadable()
        self.rows_of: LogFiles | None = None

    @staticmethod
    @abstractmethod
    def name_of(value: str) -> str:
        """The name of a column as this engine's SQL writes it; nothing in it can end it."""

    @staticmethod
    @abstractmethod
    def text(value: str) -> str:
        """A text as this engine's SQL writes it; nothing in it can end it."""

    @abstractmethod
    def open(self, log: LogFiles, folder: Path) -> None:
        """Make `raw` of the files, which are those of the log or were made of them; a folder for a link to them."""

    def columns(self) -> dict[str, tuple[str, str]]:
        """For each column of `raw` its quoted name, and what it holds (see `columns`)."""
        return {name: (self.name_of(name), kind_of(kind)) for name, kind in self.types.items()}

    @abstractmethod
    def view(self, name: str, sql: str) -> None:
        """Give a query over the log a name."""

    @abstractmethod
    def reduce(self, name: str, sql: str, what: str) -> None:
        """Run a query over the log; its result becomes the local table `name`. `what` is shown as progress."""

    @abstractmethod
    def first_row(self, name: str, columns: str, table: str, rule: str) -> None:
        """The first row of a table of the log that a rule holds for, in the order of the files, as a local table."""

    @abstractmethod
    def lend(self, name: str) -> None:
        """Let queries over the log use the local table `name`."""

    @abstractmethod
    def in_order(self, column: str) -> str:
        """A list of a column by rank, as this engine writes it."""

    def rejected(self) -> Unreadable:
        """The lines of the files that could not be read by the first pass."""
        return self.put_aside

    def place_of(self, row: Mapping[str, str | None]) -> str:
        """Where a row is: "line 7" of a text, counted from 1, "row 7" of a table, from 0; "" where that is not known.

        `row` has what some columns hold, by their names in the files, as texts.
        """
        log = self.rows_of
        if log is None:
            return ""
        try:
            if log.format == "parquet":
                return find_row(log, self.local, row)
            return find_line(log, row)
        except (DataError, OSError, duckdb_error()):  # of a message that is about something else
            return ""


class DuckDBEngine(Engine):
    """DuckDB reads the files itself; local tables and the log share one connection."""

    name_of, text = staticmethod(name_of), staticmethod(text)

    def __init__(self, log: LogFiles, local: Any) -> None:
        super().__init__(log, local)
        for macro in _MACROS:
            local.execute(macro)

    def open(self, log: LogFiles, folder: Path) -> None:
        """Make a view of the files."""
        import duckdb

        if log.table is not None:
            self.local.register("frame", log.table)
        sql = "from frame" if log.table is not None else files_as_sql(without_keys_above(log, folder), self.local)
        try:
            self.local.execute(f"create temp view raw as {sql}")
            self.types = {name: kind for name, kind, *_ in self.local.execute("describe raw").fetchall()}
        except duckdb.OutOfMemoryException:
            raise
        except duckdb.Error as error:
            what = "of types that cannot be read" if log.table is not None else _unreadable(self.log.format)
            raise DataError(f"{self.log.name}: {what} ({one_line(error)})") from None

    def columns(self) -> dict[str, tuple[str, str]]:
        """For each column of `raw` what reads it, and what it holds."""
        # of which DuckDB 2 makes nothing but a time with microseconds
        found, precise = super().columns(), ("TIMESTAMPTZ_NS", "TIMESTAMP_NS WITH TIME ZONE")
        times = [name for name, kind in self.types.items() if kind in precise]
        return found | {name: (f"cast({found[name][0]} as timestamptz)", TIME) for name in times}

    def view(self, name: str, sql: str) -> None:
        """Give a query over the log a name."""
        self.local.execute(f"create or replace temp view {name} as {sql}")

    def reduce(self, name: str, sql: str, what: str) -> None:
        """Run a query over the log; its result becomes the table `name`."""
        run(self.local, f"create or replace temp table {name} as {sql}", what, self.log.name)

    def first_row(self, name: str, columns: str, table: str, rule: str) -> None:
        """The first row that a rule holds for; one thread of DuckDB reads several files in their order."""
        threads = self.local.execute("select current_setting('threads')").fetchone()[0]
        self.local.execute("set preserve_insertion_order = true; set threads = 1")
        self.reduce(name, f"select {columns} from {table} where {rule} limit 1", "looking for faults")
        self.local.execute(f"set preserve_insertion_order = false; set threads = {threads}")

    def lend(self, name: str) -> None:
        """Nothing to do: the log and the table are in one place."""

    def in_order(self, column: str) -> str:
        """A list of a column by rank."""
        return f"list({column} order by rank)"

    def rejected(self) -> Unreadable:
        """The lines of the files that the first pass could not read."""
        if self.log.format != "csv":
            return self.put_aside
        first = "(select min(scan_id) from reject_errors)"
        self.local.execute(
            "create or replace temp table rejected as select any_value(csv_line) as csv_line, file_id, line "
            f"from reject_errors where scan_id = {first} group by file_id, line"
        )
        count = int(self.local.execute("select count(*) from rejected").fetchone()[0])
        if not count:
            return Unreadable()
        line, number, file = self.local.execute(
            "select csv_line, line, file_path from rejected left join "
            f"(select file_id, any_value(file_path) as file_path from reject_scans where scan_id = {first} "
            "group by file_id) as scans using (file_id) order by line, file_path limit 1"
        ).fetchone()
        place = f"line {number}" if file is None else place_in(self.log, Path(file), f"line {number}")
        return Unreadable(count, str(line), place)


def files_as_sql(log: LogFiles, local: Any) -> str:
    """The query that reads the files of a log, whatever their names hold; a connection to look into them with."""
    hive = f"hive_partitioning = {str(log.keyed).lower()}, hive_types_autocast = false"
    if log.format == "parquet":
        _check_schemas(log)
        return f"select * from read_parquet({file_list(log.files)}, union_by_name = true, {hive})"
    if log.format == "csv":
        return " union all by name ".join(_csv_as_sql(header, files, hive) for header, files in csv_headers(log))
    fields = ", ".join(f"{text(name)}: 'VARCHAR'" for name in _json_fields(log, local))
    return (
        f"select * from read_json({file_list(log.files)}, format = 'newline_delimited', columns = {{{fields}}}, "
        f"ignore_errors = true, {hive})"
    )


def without_keys_above(log: LogFiles, folder: Path) -> LogFiles:
    """The same log by paths in which nothing but folders inside its root look like columns, as DuckDB reads all alike.

    A link to the root may be put in `folder`.
    """
    if not log.keyed or log.root is None or "=" not in str(log.root.absolute()):
        return log
    link = folder / "log"
    link.symlink_to(log.root.absolute(), target_is_directory=True)
    return replace(log, files=tuple(link / file.relative_to(log.root) for file in log.files), root=link)


def _check_schemas(log: LogFiles) -> None:
    """All files are Parquet, and no two columns of one have the same name, of which DuckDB would choose one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for file in log.files:
        place = printable(str(file))
        try:
            names = pq.read_schema(file.absolute()).names
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{place}: {_unreadable(log.format)} ({one_line(error)})") from None
        check_apart(names, place)


def _csv_as_sql(header: Header, files: Sequence[Path], more: str) -> str:
    """Everything as text, and lines of another length put aside: nothing depends on what the first lines look like.

    Every query reads every column: DuckDB puts lines that are not UTF-8 aside by the columns that a query reads, and
    all passes must see the same rows.
    """
    fields = ", ".join(f"{text(name)}: 'VARCHAR'" for name in header.names)
    every = ", ".join(name_of(name) for name in header.names)
    return (
        f"select * from (select * from read_csv({file_list(files)}, auto_detect = false, header = true, "
        f"delim = {text(header.delimiter)}, quote = '\"', "
        f"escape = '\"', columns = {{{fields}}}, store_rejects = true, rejects_limit = 0, {more})"
        f") where length(concat({every})) >= 0"
    )


def _json_fields(log: LogFiles, local: Any) -> list[str]:
    """All fields of all lines: one that is found in the last line only is not passed over."""
    import duckdb

    try:
        found = local.execute(
            # before DuckDB 2, `ignore_errors` lets lines through that JSON functions then stop at
            "select distinct unnest(json_keys(line)) as name from "
            "(select case when json_valid(json) then json end as line from read_json_objects("
            f"{file_list(log.files)}, format = 'newline_delimited', ignore_errors = true)) "
            "where json_type(line) = 'OBJECT' order by name"
        ).fetchall()
    except duckdb.Error as error:
        raise DataError(f"{log.name}: {_unreadable(log.format)} ({one_line(error)})") from None
    if not found:
        raise DataError(f"{log.name}: no rows; expected a JSON object in each line")
    names = [name for (name,) in found]
    check_apart(names, log.name)
    return names


def file_list(files: Sequence[Path]) -> str:
    """Names of files as SQL writes them; nothing in a name ends it or makes it a pattern, and ~ is not the home."""
    return "[" + ", ".join(text(re.sub(r"([*?[])", r"[\1]", str(file.absolute()))) for file in files) + "]"


def _unreadable(format: str) -> str:
    plain = format if format in ("parquet", "csv") else "jsonl"
    return f"not {FORMATS[plain].description} that can be read"


@contextmanager
def duckdb_engine(log: LogFiles, memory: str, threads: int | None, spill: Path) -> Iterator[Engine]:
    """An engine for as long as the log is read."""
    with connected(log.name, memory, threads, spill) as local:
        yield DuckDBEngine(log, local)
