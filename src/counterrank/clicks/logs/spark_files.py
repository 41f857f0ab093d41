"""The files of a click log as a table of Spark, with the columns, types and SQL that DuckDB has for them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

from counterrank.clicks.logs.columns import EMPTY
from counterrank.clicks.logs.engine import file_list, kind_of
from counterrank.clicks.logs.formats import LogFiles
from counterrank.common.errors import DataError

# Whatever the cluster's own defaults are.
_SETTINGS = {
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
    "TIMESTAMP WITH TIME ZONE": "timestamp",
}
# What becomes of those that Spark has no type for; @ is the column.
_SHAPED = {
    "UBIGINT": "cast(@ as string)",
    "UUID": "regexp_replace(lower(hex(@)), '(.{8})(.{4})(.{4})(.{4})(.{12})', '$1-$2-$3-$4-$5')",
    "TIMESTAMP_NS": "cast(timestamp_micros(@ div 1000) as timestamp_ntz)",
}
_MEANT = {
    **dict.fromkeys(("UBIGINT", "HUGEINT", "UHUGEINT", "UUID"), "string"),
    **dict.fromkeys(("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), "timestamp_ntz"),
}
# Hadoop's checksums for local files stumble over a colon.
_COLONS = {"fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem", "fs.file.impl.disable.cache": "true"}


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
    return ["file://" + _plain(os.path.abspath(file)) for file in files]


def _plain(name: str) -> str:
    return "".join("\\" + letter if letter in "*?[]{}\\^" else letter for letter in name)


def parquet_rows(spark: Any, local: Any, log: LogFiles, types: Mapping[str, str]) -> Any:
    """The rows of Parquet files, those of one schema at a time.

    Arguments:
        spark: a session.
        local: a DuckDB connection, to look at the files' schemas.
        log: the files.
        types: what DuckDB makes of all of them together.
    """
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
    for key, value in _SETTINGS.items():
        spark.conf.set(key, value)
    spark.sql(
        "create or replace temporary function bit_at(place bigint) returns bigint "
        "return shiftleft(cast(1 as bigint), cast(place as int))"
    )
    spark.sql(
        "create or replace temporary function number_in(value string) returns double "
        f"return case when regexp_like(value, {text(_NUMBER)}) then try_cast(value as double) end"
    )


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
