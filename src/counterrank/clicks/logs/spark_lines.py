"""CSV and JSON Lines as tables of Spark: everything is text, and lines are taken or refused as DuckDB does it.

Spark's own reader of CSV is kinder than DuckDB to lines with misplaced quotes, and does not see a line that is no
UTF-8, so lines are taken apart here. Only where a quoted field goes on in the next line, it has to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from counterrank.clicks.logs.engine import one_line
from counterrank.clicks.logs.formats import LogFiles
from counterrank.clicks.logs.log_files import Header, csv_headers, first_line
from counterrank.clicks.logs.spark_files import Partitions, name_of, partitions, reader, text, together, urls
from counterrank.common.errors import DataError

_SPACE = " \t\r\n\x0b\f"
_INSIDE = '[^"]*+(?:""[^"]*+)*+'  # of quotes
_ONE, _TWO, _QUOTED = text('"'), text('""'), text('(?s)^ ?"(.*)" *$')


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


_LINE = name_of("a line of a file")


def _lines(spark: Any, files: Sequence[Path], folders: Partitions) -> Any:
    found = reader(spark, files, {"a line of a file": "string"}, folders)
    return found.option("lineSep", "\n").text(urls(files))


def _head(file: Path) -> str:
    """The header as it stands in the file."""
    return first_line(file).decode("utf-8", errors="replace").rstrip("\r")
