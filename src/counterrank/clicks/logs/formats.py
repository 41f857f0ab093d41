"""The registry of log formats: their names, how they are recognised, and how they are read.

`FORMATS` holds Parquet, CSV and JSON Lines, which engines read themselves, and formats that are first turned into one
of these (`events`). `register_format` adds another one:

>>> def read(log, local, folder, options):
...     plain = folder / "plain.csv"
...     _ = plain.write_text("session_id,query_id,doc_id,rank,clicked\\n" + log.files[0].read_text())
...     return PlainLog(replace(log, format="csv", files=(plain,), root=None))
>>> register_format(LogFormat("bare", "CSV without a header", (".bare",), reader=read))
>>> FORMATS["bare"].description
'CSV without a header'
>>> del FORMATS["bare"]
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counterrank.clicks.logs.columns import LogOptions
from counterrank.common.errors import CounterrankError, DataError

COMPRESSED = (".gz", ".zst")
_HEAD = 1 << 20  # bytes of a file by which its format is recognised
_LINES = 20


@dataclass(frozen=True)
class LogFiles:
    """The files of one log.

    Attributes:
        name: the path that was given, for messages.
        format: one of `FORMATS`.
        files: all of them, in order.
        root: the folder that was given, or that a pattern begins with; None where it was a file. Names of folders
            inside it such as `policy=new` are columns, those of folders above are not.
    """

    name: str
    format: str
    files: tuple[Path, ...]
    root: Path | None

    @property
    def keyed(self) -> bool:
        """Whether names of folders are columns."""
        if self.root is None:
            return False
        names = {name for file in self.files for name in file.relative_to(self.root).parts[:-1] if "=" in name}
        for name in sorted(names):
            if name.count("=") > 1 or "\\" in name:
                raise DataError(
                    f"{self.name}: folder {name!r} in it; expected one column and its value, such as policy=new"
                )
        return bool(names)


@dataclass(frozen=True)
class PlainLog:
    """What the reader of a format makes of a log: files in Parquet, CSV or JSON Lines with a row per impression.

    Attributes:
        log: these files.
        rejected: how many lines of the original could not be read.
        line: one of them.
    """

    log: LogFiles
    rejected: int = 0
    line: str = ""


@dataclass(frozen=True)
class LogFormat:
    """A format of click logs.

    Attributes:
        name: for `format=` and `--format`.
        description: what it is, for people.
        extensions: of its files, such as ".csv", also compressed (".csv.gz"); none for formats that come as JSON or
            Parquet and are recognised by their content.
        recognise: whether an object of a JSON file, or the names of the columns of a Parquet file, belong to it.
        reader: turns a log into a plain one, given a DuckDB connection, a folder for its files, and the options; None
            where engines read the files themselves.
        has_actions: whether `click_actions` says which of its events are clicks.
    """

    name: str
    description: str
    extensions: tuple[str, ...] = ()
    recognise: Callable[[Mapping[str, Any]], bool] | None = None
    reader: Callable[[LogFiles, Any, Path, LogOptions], PlainLog] | None = None
    has_actions: bool = False


FORMATS: dict[str, LogFormat] = {
    "parquet": LogFormat("parquet", "Parquet", (".parquet", ".pq")),
    "csv": LogFormat("csv", "CSV with a header", (".csv", ".tsv")),
    "jsonl": LogFormat("jsonl", "JSON Lines", (".jsonl", ".ndjson", ".json")),
}
CARRIERS = ("parquet", "jsonl")  # the files of formats that are recognised by their content


def register_format(format: LogFormat) -> None:
    """Let logs be read in another format, by `read_log` and by all commands.

    >>> register_format(LogFormat("bare", "CSV without a header", (".bare",)))
    >>> format_of(Path("monday.bare.gz"))
    'bare'
    >>> del FORMATS["bare"]
    """
    if format.name in FORMATS or format.name == "auto":
        raise CounterrankError(f"name={format.name!r}: expected a name that is not among {', '.join(FORMATS)}")
    known = {ending for each in FORMATS.values() for ending in each.extensions}
    for ending in format.extensions:
        if not re.fullmatch(r"\.[a-z0-9]+", ending) or ending in (*known, *COMPRESSED):
            raise CounterrankError(f"extensions: {ending!r}; expected such as '.log', of no other format")
    FORMATS[format.name] = format


def format_of(file: Path) -> str | None:
    """The format that the end of a file's name stands for.

    >>> format_of(Path("clicks.csv.gz")), format_of(Path("notes.txt"))
    ('csv', None)
    """
    inner = file.with_suffix("") if file.suffix in COMPRESSED else file
    return next((each.name for each in FORMATS.values() if inner.suffix.lower() in each.extensions), None)


# --- formats that are recognised by the first lines of a file


def recognised(file: Path, is_parquet: bool) -> str | None:
    """The format that the first objects of a file, or its columns, belong to; None for a plain log."""
    if is_parquet:
        return event_format(dict.fromkeys(_parquet_names(file), ""))
    return next((found for each in first_objects(file) if (found := event_format(each))), None)


def event_format(event: Mapping[str, Any]) -> str | None:
    """The format that an event belongs to, if it is one. A row of a plain log may well have a column `event`.

    >>> event_format({"event": "ranking", "id": "r1", "items": []})
    'metarank'
    >>> event_format({"event": "ranking", "session_id": 1, "doc_id": "a", "clicked": 0}) is None
    True
    """
    if "doc_id" in event or "clicked" in event:
        return None
    return next((each.name for each in FORMATS.values() if each.recognise is not None and each.recognise(event)), None)


def first_objects(file: Path) -> Iterator[Mapping[str, Any]]:
    """The JSON objects at the beginning of a file: on lines of their own, in an array, or in the answer to a search."""
    head = _first_bytes(file)
    values: list[Any] = []
    for line in head.splitlines()[:_LINES]:
        try:
            values.append(json.loads(line))
        except (ValueError, RecursionError):
            continue
    if not values or layout_of(head) != "newline_delimited":
        values = [_first_value(head)]
    for value in values:
        for each in _inside_object(value):
            if isinstance(each, dict):
                inner = each.get("_source")
                yield inner if isinstance(inner, dict) else each


def _inside_object(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value[:_LINES]
    hits = value.get("hits") if isinstance(value, dict) else None
    if isinstance(hits, dict) and isinstance(hits.get("hits"), list):
        return list(hits["hits"][:_LINES])
    return [value]


def _first_value(head: str) -> Any:
    """The first value of a text that may be cut off; of an array, the first that is in it."""
    for text in (head, head.lstrip("[ \t\r\n"), head.partition('"hits":')[2].partition("[")[2].lstrip()):
        try:
            return json.JSONDecoder().raw_decode(text)[0]
        except (ValueError, RecursionError):
            continue
    return None


def layout(file: Path) -> str:
    """How the values of a JSON file lie in it, as DuckDB calls it."""
    return layout_of(_first_bytes(file))


def layout_of(head: str) -> str:
    """The same by the beginning of the file.

    >>> layout_of('{"a": 1}\\n{"a": 2}'), layout_of('[{"a": 1},\\n{"a": 2}]'), layout_of('{\\n"a": 1\\n}')
    ('newline_delimited', 'array', 'unstructured')
    >>> layout_of('[{"a": 1}]\\n[{"a": 2}]'), layout_of('{"a": \\n{"a": 2}')
    ('newline_delimited', 'newline_delimited')
    """
    line, _, rest = head.partition("\n")
    if len(head) >= _HEAD and not rest:
        return "array" if line.startswith("[") else "unstructured"  # one very long value, or several
    try:
        json.loads(line)
        return "array" if line.startswith("[") and not rest.strip() else "newline_delimited"
    except (ValueError, RecursionError):
        pass
    if line.startswith("["):
        return "array"
    if not line.startswith("{") or not rest:
        return "newline_delimited"
    try:
        json.JSONDecoder().raw_decode(head)
    except json.JSONDecodeError as error:
        # one value over several lines, cut off, unless something is wrong already where its second line begins
        fine = error.pos > len(line) + 1 and not rest.lstrip().startswith(("{", "["))
        return "unstructured" if fine else "newline_delimited"
    except RecursionError:
        return "newline_delimited"
    return "unstructured"


def _first_bytes(file: Path) -> str:
    """The beginning of a file, unpacked; nothing where it cannot be read, which is an error later."""
    import pyarrow as pa

    read = b""
    try:
        with pa.input_stream(str(file), compression="detect") as stream:
            while len(read) < _HEAD and (more := stream.read(_HEAD - len(read))):
                read += more
    except OSError:
        return ""
    return read.decode("utf-8-sig", errors="replace").lstrip()


def _parquet_names(file: Path) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return list(pq.read_schema(file).names)
    except (OSError, pa.ArrowException):
        return []
