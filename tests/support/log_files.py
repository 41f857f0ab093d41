"""Click logs written in every format and shape that can be read, from rows in plain Python."""

from __future__ import annotations

import csv
import gzip
import io
import json
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.logs import LogReport, read_parts

NAMES = ("session_id", "query_id", "doc_id", "rank", "clicked")


class Read(NamedTuple):
    """The counts of one part of the data, and the report on the whole log."""

    counts: ClickCounts
    report: LogReport


def read_reported(path, data=None, *, displays=False, options=None):
    """A log counted against one part of the data or none."""
    reading = read_parts(path, () if data is None else (data,), displays=displays, options=options)
    return Read(reading.counts[0], reading.report)


def as_rows(tuples, names=NAMES, **more):
    """Rows as dicts, from tuples in the order of `names` and further columns."""
    rows = [dict(zip(names, each, strict=True)) for each in tuples]
    return [row | {name: values[i] for name, values in more.items()} for i, row in enumerate(rows)]


def columns_of(rows):
    return list(dict.fromkeys(name for row in rows for name in row))


def csv_bytes(rows, columns, delimiter=",", end="\n", mark=False, extra=()):
    """Nulls and empty texts are both empty; `extra` lines stand at the end."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator=end)
    writer.writerow(columns)
    writer.writerows([[_word(row.get(name)) for name in columns] for row in rows])
    whole = out.getvalue() + "".join(line + end for line in extra)
    return (b"\xef\xbb\xbf" if mark else b"") + whole.encode()


def _word(value):
    return "" if value is None else str(value).lower() if isinstance(value, bool) else value


def json_bytes(rows, columns, ascii_only=True):
    lines = [json.dumps({n: row[n] for n in columns if n in row}, ensure_ascii=ascii_only) for row in rows]
    return "".join(line + "\n" for line in lines).encode()


def write_parquet(path, rows, columns):
    """Columns of one type are written as such, others as texts."""
    pq.write_table(pa.table({name: _array([row.get(name) for row in rows]) for name in columns}), path)


def _array(values):
    kinds = {type(value) for value in values} - {type(None)}
    if kinds <= {int, float} and float in kinds:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    if len(kinds) > 1:
        values = [None if value is None else str(_word(value)) for value in values]
    return pa.array(values)


def write(path, rows, columns=None, **options):
    """One file in the format of its name."""
    columns = columns_of(rows) if columns is None else columns
    path.parent.mkdir(parents=True, exist_ok=True)
    inner = path.name.removesuffix(".gz").removesuffix(".zst")
    if inner.endswith(".parquet"):
        write_parquet(path, rows, columns)
        return path
    content = csv_bytes(rows, columns, **options) if inner.endswith(".csv") else json_bytes(rows, columns, **options)
    if path.name.endswith(".gz"):
        content = gzip.compress(content)
    if path.name.endswith(".zst"):
        with pa.CompressedOutputStream(str(path), "zstd") as stream:
            stream.write(content)
    else:
        path.write_bytes(content)
    return path
