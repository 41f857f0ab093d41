"""How Spark writes names and texts, and what it must be told so that SQL means the same there as in DuckDB."""

from __future__ import annotations

from typing import Any

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
