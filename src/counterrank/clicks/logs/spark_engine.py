"""Click logs counted by Spark, on this machine or on a cluster; the aggregates go on to a local DuckDB.

The files become a table with the columns, types and SQL that DuckDB has for them. Spark's own reader of CSV is kinder
than DuckDB to lines with misplaced quotes, and does not see a line that is no UTF-8, so lines are taken apart here; it
is used only where a quoted field goes on in the next line.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

from counterrank.clicks.logs.columns import EMPTY
from counterrank.clicks.logs.engine import (
    DuckDBEngine,
    Engine,
    Unreadable,
    connected,
    file_list,
    finish,
    kind_of,
    one_line,
)
from counterrank.clicks.logs.formats import Header, LogFiles, csv_headers, find_text, first_line
from counterrank.common.errors import CounterrankError, DataError
from counterrank.common.progress import progress
from counterrank.common.spark import (
    cancelled_without_workers,
    context_of,
    is_alive,
    master_name,
    spark_session,
    wait_for_cores,
    why,
)

_FIRST_WORKER_S, _NO_WORKER_S = 60.0, 120.0
# What is brought back goes on to DuckDB as it arrives.
_SETTINGS = {"spark.driver.maxResultSize": "0"}
# Whatever the cluster's own defaults are.
_SQL_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.csv.parser.columnPruning.enabled": "false",  # else lines of another length are not noticed
    "spark.sql.json.enablePartialResults": "false",
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
}
_NUMBER = r"^\s*[+-]?[0-9.]+([eE][+-]?[0-9]+)?\s*$"
# A whole date, alone or with hours and minutes: Spark reads less too, which DuckDB does not.
_DATE = r"^ *[0-9]{4,6}[-/][0-9]{1,2}[-/][0-9]{1,2}( *$|[ T].*[0-9]:[0-9])"
# What Spark calls the types that DuckDB finds in Parquet.
_OWN = {
    **{name: name.lower() for name in ("TINYINT", "SMALLINT", "BIGINT", "FLOAT", "DOUBLE", "BOOLEAN", "DATE")},
    "INTEGER": "int",
    "UTINYINT": "smallint",
    "USMALLINT": "int",
    "UINTEGER": "bigint",
    "UBIGINT": "decimal(20,0)",
    "VARCHAR": "string",
    "UUID": "binary",
    "TIMESTAMP": "timestamp_ntz",
    "TIMESTAMP_NS": "bigint",
    "TIMESTAMPTZ_NS": "bigint",
    "TIMESTAMP WITH TIME ZONE": "timestamp",
}
# What becomes of those that Spark has no type for; @ is the column.
_SHAPED = {
    "UBIGINT": "cast(@ as string)",
    "UUID": "regexp_replace(lower(hex(@)), '(.{8})(.{4})(.{4})(.{4})(.{12})', '$1-$2-$3-$4-$5')",
    **dict.fromkeys(("TIMESTAMP_NS", "TIMESTAMPTZ_NS"), "cast(timestamp_micros(@ div 1000) as timestamp_ntz)"),
}
_MEANT = {
    **dict.fromkeys(("UBIGINT", "HUGEINT", "UHUGEINT", "UUID"), "string"),
    **dict.fromkeys(("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMPTZ_NS"), "timestamp_ntz"),
}
# Hadoop's checksums for local files stumble over a colon.
_COLONS = {"fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem", "fs.file.impl.disable.cache": "true"}


def name_of(value: str) -> str:
    """The name of a column; nothing in it can end it.

    >>> name_of("a `quoted` name")
    '`a ``quoted`` name`'
    """
    return "`" + value.replace("`", "``") + "`"


def text(value: str) -> str:
    r"""A text; nothing in it can end it.

    >>> print(text("it's \\ here"))
    'it\'s \\ here'
    """
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


_SPACE = " \t\r\n\x0b\f"
_INSIDE = '[^"]*+(?:""[^"]*+)*+'  # of quotes
_ONE, _TWO, _QUOTED = text('"'), text('""'), text('(?s)^ ?"(.*)" *$')
_LINE = name_of("a line of a file")


class SparkEngine(Engine):
    """Spark reads the files; DuckDB only says which columns they have, so that both engines agree on that."""

    name_of, text = staticmethod(name_of), staticmethod(text)

    def __init__(self, log: LogFiles, spark: Any, local: Any, master: str) -> None:
        super().__init__(log, local)
        self._spark, self._context, self._master = spark, context_of(spark), master

    def open(self, log: LogFiles, folder: Path) -> None:
        """Make a view of the files on the cluster."""
        looking = DuckDBEngine(self.log, self.local)
        looking.open(log, folder)
        self.types = looking.types
        self._do("looking at the files", lambda: self._open(log))

    def _open(self, log: LogFiles) -> None:
        prepare(self._spark)
        if log.format == "parquet":
            rows = parquet_rows(self._spark, self.local, log, self.types)
        elif log.format == "csv":
            rows, count, line = csv_rows(self._spark, log)
            self.put_aside = Unreadable(count, line, find_text(log, line) if count else "")
        else:
            rows = json_rows(self._spark, log, tuple(self.types))
        rows.createOrReplaceTempView("raw")

    def view(self, name: str, sql: str) -> None:
        """Give a query over the log a name."""
        self._do("", lambda: self._spark.sql(sql).createOrReplaceTempView(name))

    def reduce(self, name: str, sql: str, what: str) -> None:
        """Run a query on the cluster; its result becomes the local table `name`."""
        found = self._do(what, lambda: self._spark.sql(sql).toArrow())
        finish(self.local)
        self.local.register("found", found)
        self.local.execute(f"create or replace temp table {name} as select * from found")
        self.local.unregister("found")

    def first_row(self, name: str, columns: str, table: str, rule: str) -> None:
        """The first row that a rule holds for; of several files, those that Spark reads first come first."""
        placed = f"select {columns}, monotonically_increasing_id() as place from {table} where {rule}"
        self.reduce(name, f"{placed} order by place limit 1", "looking for faults")

    def lend(self, name: str) -> None:
        """Send a local table to the cluster."""
        finish(self.local)
        table = self.local.sql(f"select * from {name}").to_arrow_table()
        self._do("", lambda: self._spark.createDataFrame(table).createOrReplaceTempView(name))

    def in_order(self, column: str) -> str:
        """A list of a column by rank."""
        return f"transform(array_sort(collect_list(struct(rank, {column}))), place -> place.{column})"

    def _do(self, what: str, work: Callable[[], Any]) -> Any:
        """Have Spark do something, with errors in one line."""
        on_cluster = self._context is not None and self._context.master.startswith("spark://")
        watched = cancelled_without_workers(self._context, _NO_WORKER_S) if on_cluster else nullcontext(lambda: False)
        with watched as was_cancelled:
            try:
                with progress(what or "waiting for Spark"), warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of settings that grow old, and of each new try to reach a server
                    return work()
            except CounterrankError:
                raise
            except Exception as error:
                raise self._translated(error, was_cancelled()) from None

    def _translated(self, error: Exception, was_cancelled: bool) -> CounterrankError:
        """An error of Spark's in one line."""
        reason = one_line(ValueError(why(error)))
        problem = ""
        if was_cancelled:
            problem = f"no worker has been left for {_NO_WORKER_S:.0f} s"
        elif self._context is not None and not is_alive(self._context):
            problem = "Spark has stopped while it read the log"
        elif type(error).__module__.startswith("grpc") or "StatusCode.UNAVAILABLE" in str(error):
            problem = "the server does not answer any more"
        if problem:
            return CounterrankError(f"master '{self._master}': {problem}")
        missing = "FILE_NOT_EXIST" in reason or "PATH_NOT_FOUND" in reason
        remedy = "; the master and each worker must see the files under the same path" if missing else ""
        return DataError(f"{self.log.name}: cannot be counted by Spark ({reason}){remedy}")


@contextmanager
def spark_engine(log: LogFiles, master: Any, memory: str, threads: int | None, spill: Path) -> Iterator[Engine]:
    """An engine for as long as the log is read, by a master's URL or a SparkSession.

    This machine and all workers must see the files under the same paths. `memory` and `threads` are those of the local
    DuckDB; `spill` is also for the log of Java.
    """
    settings = {**_SETTINGS, "spark.sql.warehouse.dir": (spill / "warehouse").as_uri()}
    with (
        connected(log.name, memory, threads, spill) as local,
        spark_session(master, spill / "spark.log", settings) as spark,
    ):
        if context_of(spark) is not None:
            wait_for_cores(spark, _FIRST_WORKER_S, 0.0)
        yield SparkEngine(log, spark, local, master_name(master))


class Partitions(NamedTuple):
    """Columns that are names of folders, such as `policy=new/`.

    Attributes:
        keys: the names of these columns.
        base: the folder above them; None if there are none.
    """

    keys: tuple[str, ...]
    base: Path | None


def partitions(log: LogFiles) -> Partitions:
    """The columns in the folders' names; folders above the log are none."""
    if not log.keyed or log.root is None:
        return Partitions((), None)
    folders = log.files[0].relative_to(log.root).parts[:-1]
    keys = tuple(name.partition("=")[0] for name in folders if "=" in name)
    return Partitions(keys, Path(os.path.abspath(log.root)))


def reader(spark: Any, files: Sequence[Path], schema: Mapping[str, str], folders: Partitions) -> Any:
    """What reads files by a schema, to which columns of folders are added as texts."""
    columns = {**schema, **dict.fromkeys(folders.keys, "string")}
    found = spark.read.schema(", ".join(f"{name_of(name)} {kind}" for name, kind in columns.items()))
    if folders.base is not None:
        found = found.option("basePath", f"file://{folders.base}")
    if any(":" in file.name for file in files):
        found = found.options(**_COLONS)
    return found


def urls(files: Sequence[Path]) -> list[str]:
    """The files as Spark names them; a star in a name is a star.

    >>> urls([Path("/logs/a*[1].csv")])
    ['file:///logs/a\\\\*\\\\[1\\\\].csv']
    """
    for file in files:
        if file.name.startswith(("_", ".")):
            raise DataError(f"{file}: Spark passes over names that begin with {file.name[0]!r}; expected another name")
    return ["file://" + re.sub(r"([*?\[\]{}\\^])", r"\\\1", os.path.abspath(file)) for file in files]


def parquet_rows(spark: Any, local: Any, log: LogFiles, types: Mapping[str, str]) -> Any:
    """The rows of Parquet files, those of one schema at a time; `types` are DuckDB's of all of them together."""
    folders = partitions(log)
    groups: dict[tuple[tuple[str, str], ...], list[Path]] = {}
    for file in log.files:
        groups.setdefault(_schema(local, file), []).append(file)
    wanted = {name: kind for name, kind in types.items() if _meant(kind) is not None}
    return together([_of_one_schema(spark, dict(own), files, folders, wanted) for own, files in groups.items()])


def together(parts: Sequence[Any]) -> Any:
    """All rows of tables that may lack columns of each other."""
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)


def _schema(local: Any, file: Path) -> tuple[tuple[str, str], ...]:
    found = local.execute(
        f"describe select * from read_parquet({file_list([file])}, hive_partitioning = false)"
    ).fetchall()
    return tuple((name, kind) for name, kind, *_ in found)


def _of_one_schema(
    spark: Any, own: dict[str, str], files: Sequence[Path], folders: Partitions, wanted: Mapping[str, str]
) -> Any:
    schema = {name: kind for name, duckdb in own.items() if (kind := _own(duckdb)) is not None}
    table = reader(spark, files, schema, folders).parquet(*urls(files))
    spelled = {name.lower(): name for name in schema}  # to DuckDB, Rank and rank are one column
    chosen = []
    for name, kind in wanted.items():
        here = name if name in folders.keys else spelled.get(name.lower())
        value = "null"
        if here is not None:
            duckdb = "VARCHAR" if here in folders.keys else own[here]
            value = _SHAPED.get(duckdb, "@").replace("@", name_of(here))
        chosen.append(f"cast({value} as {_meant(kind)}) as {name_of(name)}")
    return table.selectExpr(*chosen)


def _own(duckdb: str) -> str | None:
    """The type that Spark reads from a file; None where it need not be read."""
    return duckdb.lower() if duckdb.startswith("DECIMAL(") and duckdb.endswith(")") else _OWN.get(duckdb)


def _meant(duckdb: str) -> str | None:
    """The type in which it is counted; None where nothing of the kind is."""
    if kind_of(duckdb) == EMPTY:
        return "string"
    return _MEANT.get(duckdb) or _own(duckdb)


def prepare(spark: Any) -> None:
    """Make a session read SQL as DuckDB does."""
    for key, value in _SQL_SETTINGS.items():
        spark.conf.set(key, value)
    spark.sql(
        "create or replace temporary function bit_at(place bigint) returns bigint "
        "return shiftleft(cast(1 as bigint), cast(place as int))"
    )
    spark.sql(
        "create or replace temporary function seconds_in(value string) returns bigint "
        f"return case when regexp_like(value, {text(_DATE)}) "
        "then unix_seconds(try_cast(replace(trim(value), '/', '-') as timestamp)) end"
    )
    spark.sql(
        "create or replace temporary function number_in(value string) returns double "
        f"return case when regexp_like(value, {text(_NUMBER)}) then try_cast(value as double) end"
    )


def csv_rows(spark: Any, log: LogFiles) -> tuple[Any, int, str]:
    """The rows of CSV files, how many of their lines cannot be read, and one of these."""
    folders = partitions(log)
    parts, rejected, example = [], 0, ""
    for header, files in csv_headers(log):
        names = tuple(name for name in header.names if name not in folders.keys)
        part, count, line = _Csv(spark, header, files, folders).read(names)
        parts.append(part)
        rejected, example = rejected + count, example or line
    return together(parts), rejected, example


class _Csv:
    """Files with one header."""

    def __init__(self, spark: Any, header: Header, files: Sequence[Path], folders: Partitions) -> None:
        self.spark, self.header, self.files, self.folders = spark, header, files, folders
        self.keys = [name_of(key) for key in folders.keys]

    def read(self, names: Sequence[str]) -> tuple[Any, int, str]:
        """Rows, the number of lines that are none, and one of these."""
        lines = _lines(self.spark, self.files, self.folders)
        # not by a pattern, which would mend what is no UTF-8
        bare = f"if(endswith({_LINE}, {text(chr(13))}), substr({_LINE}, 1, length({_LINE}) - 1), {_LINE})"
        lines.selectExpr("_metadata.file_path as file", *self.keys, f"{bare} as line").createOrReplaceTempView("lines")
        heads = ", ".join(text(head) for head in sorted({_head(file) for file in self.files}))
        found = self.spark.sql(f"select *, line in ({heads}) as header from lines where line <> ''")
        found.createOrReplaceTempView("headed")
        looked = self._look()
        if any(row["open"] for row in looked):
            return self._over_several_lines(names)
        rows = self.spark.sql(f"select {', '.join([*self.keys, 'line'])} from headed where not header")
        again = self._headers_again(looked)
        if again is not None:
            rows = rows.union(again)
        rows.selectExpr(*self.keys, f"{self._fields()} as fields").createOrReplaceTempView("taken")
        places = {name: self.header.names.index(name) for name in names}
        columns = [f"nullif(get(fields, {place}), '') as {name_of(name)}" for name, place in places.items()]
        good = self.spark.sql(f"select {', '.join([*columns, *self.keys])} from taken where {self._is_good()}")
        bad = [row["example"] for row in looked if row["rejected"]]
        return good, sum(row["rejected"] for row in looked), bad[0] if bad else ""

    def _look(self) -> list[dict[str, Any]]:
        """For each file: its lines that are like its header, those that cannot be read, and those that go on."""
        self.spark.sql(f"select *, {self._fields()} as fields from headed").createOrReplaceTempView("taken")
        bad = f"not header and not {self._is_good()}"
        keys = [f"any_value({key}) as key{i}" for i, key in enumerate(self.keys)]
        chosen = [
            "file",
            "count_if(header) as headers",
            "max(case when header then line end) as header",
            f"count_if({bad}) as rejected",
            f"max(case when {bad} then make_valid_utf8(line) end) as example",
            f"count_if({bad} and {self._goes_on()}) as open",
            *keys,
        ]
        found: list[dict[str, Any]] = (
            self.spark.sql(f"select {', '.join(chosen)} from taken group by file").toArrow().to_pylist()
        )
        if len(found) < len(self.files) or not all(row["headers"] for row in found):
            raise DataError(f"{self.files[0]}: not CSV that can be read (no header was found again)")
        return found

    def _headers_again(self, looked: Sequence[Mapping[str, Any]]) -> Any:
        """Lines like the header further down are rows, if bad ones."""
        import pyarrow as pa

        again = [row for row in looked for _ in range(row["headers"] - 1)]
        if not again:
            return None
        columns = {f"key{i}": pa.array([row[f"key{i}"] for row in again], pa.string()) for i in range(len(self.keys))}
        return self.spark.createDataFrame(
            pa.table({**columns, "line": pa.array([row["header"] for row in again], pa.string())})
        )

    def _field(self) -> str:
        """One field, as a pattern: quoted, or anything that does not begin with a quote."""
        return f' ?"{_INSIDE}" *|(?! ?")[^{self.header.delimiter}]*+'

    def _fields(self) -> str:
        """A line taken apart, as SQL; null where its quotes make no sense."""
        delimiter, split, field = self.header.delimiter, f"[{self.header.delimiter}]", self._field()
        whole = text(f"^(?:{field})(?:{split}(?:{field}))*+$")
        found = f"regexp_extract_all(concat({text(delimiter)}, line), {text(f'{split}({field})')}, 1)"
        inner = f"regexp_extract(field, {_QUOTED}, 1)"
        bare = f"if(regexp_like(field, {_QUOTED}), replace({inner}, {_TWO}, {_ONE}), field)"
        return (
            f"case when not is_valid_utf8(line) then null "
            f"when not contains(line, {_ONE}) then split(line, {text(split)}, -1) "
            f"when regexp_like(line, {whole}) then transform({found}, field -> {bare}) end"
        )

    def _is_good(self) -> str:
        """Whether the fields are as many as the header has, empty ones at the end apart."""
        n = len(self.header.names)
        beyond = f"array_join(slice(fields, {n + 1}, size(fields) - {n}), '') = ''"
        too_few = f"fields is null or size(fields) < {n}"
        return f"(case when {too_few} then false when size(fields) = {n} then true else {beyond} end)"

    def _goes_on(self) -> str:
        """Whether a quoted field does not end in its line."""
        pattern = f'^(?:(?:{self._field()})[{self.header.delimiter}])*+ ?"{_INSIDE}$'
        return f"regexp_like(line, {text(pattern)})"

    def _over_several_lines(self, names: Sequence[str]) -> tuple[Any, int, str]:
        """The same by Spark's own reader, which looks at files from end to end."""
        corrupt = "corrupt"
        while corrupt in (*self.header.names, *self.folders.keys):
            corrupt += "_"
        found = reader(
            self.spark, self.files, {**dict.fromkeys(self.header.names, "string"), corrupt: "string"}, self.folders
        )
        options = {
            "header": "true",
            "sep": self.header.delimiter,
            "quote": '"',
            "escape": '"',
            "multiLine": "true",
            "mode": "PERMISSIVE",
            "columnNameOfCorruptRecord": corrupt,
            "maxCharsPerColumn": "-1",
        }
        table = found.options(**options).csv(urls(self.files))
        table.createOrReplaceTempView("whole")
        odd, some = name_of(corrupt), name_of(names[0])
        [count] = (
            self.spark.sql(
                f"select count_if({odd} is not null) as n, min(struct({odd}, {some})).{odd} as example from whole"
                f" where {odd} is not null"
            )
            .toArrow()
            .to_pylist()
        )
        columns = ", ".join([*map(name_of, names), *self.keys])
        rows = self.spark.sql(f"select {columns} from whole where {odd} is null")
        return rows, count["n"], one_line(ValueError(count["example"] or ""))


def json_rows(spark: Any, log: LogFiles, names: Sequence[str]) -> Any:
    """The rows of JSON Lines; a line that is no object is a row with nothing in it."""
    folders = partitions(log)
    fields = [name for name in names if name not in folders.keys]
    keys = [name_of(key) for key in folders.keys]
    schema = f"array<struct<{', '.join(f'{name_of(name)}: string' for name in fields)}>>"
    # as the only item of a list: else whatever follows the object would pass unseen
    items = f"from_json(concat('[', {_LINE}, ']'), {text(schema)}, map('allowSingleQuotes', 'false'))"
    lines = _lines(spark, log.files, folders).where(f"trim(both {text(_SPACE)} from {_LINE}) <> ''")
    one = lines.selectExpr(*keys, f"case when is_valid_utf8({_LINE}) then {items} end as items")
    one = one.selectExpr(*keys, "case when size(items) = 1 then get(items, 0) end as item")
    return one.selectExpr(*(f"item.{name_of(name)} as {name_of(name)}" for name in fields), *keys)


def _lines(spark: Any, files: Sequence[Path], folders: Partitions) -> Any:
    found = reader(spark, files, {"a line of a file": "string"}, folders)
    return found.option("lineSep", "\n").text(urls(files))


def _head(file: Path) -> str:
    """The header as it stands in the file."""
    return first_line(file).decode("utf-8", errors="replace").rstrip("\r")
