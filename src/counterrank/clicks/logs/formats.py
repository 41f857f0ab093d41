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

import csv
import glob
import itertools
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from counterrank.clicks.logs.columns import NEEDED, OPTIONAL, LogOptions
from counterrank.common.checks import check_choice
from counterrank.common.errors import CounterrankError, DataError, MissingFileError, brief, printable
from counterrank.common.files import PathLike
from counterrank.data.frames import arrow_table

COMPRESSED = (".gz", ".zst")
_HEAD = 1 << 20  # bytes of a file by which its format is recognised
_LINES, _LOOK_INTO = 20, 8  # of a file, and files of a kind that are looked into
_LONGEST = 1 << 22  # bytes of a first line
_BLOCK = 1 << 22  # bytes that are looked through at a time
_PARSED = 1 << 26  # bytes of lines that are parsed one by one to find a row again
_FRAME = "frame"  # the name of a frame in messages


@dataclass(frozen=True)
class LogFiles:
    """The files of one log.

    Attributes:
        name: the path that was given, for messages.
        format: one of `FORMATS`.
        files: all of them, in order.
        root: the folder that was given, or that a pattern begins with; None where it was a file. Names of folders
            inside it such as `policy=new` are columns, those of folders above are not.
        table: the Arrow table of a frame, which has no files; None for files.
    """

    name: str
    format: str
    files: tuple[Path, ...]
    root: Path | None
    table: Any = None

    @property
    def keyed(self) -> bool:
        """Whether folder names such as `policy=new` are columns."""
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
    """A log converted by the reader of a format: files in Parquet, CSV or JSON Lines with a row per impression.

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
"""The formats of click logs by name; `register_format` adds one."""
CARRIERS = ("parquet", "jsonl")  # the files of formats that are recognised by their content


def register_format(format: LogFormat) -> None:
    """Register a log format for `read_log` and all commands.

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


def recognised(file: Path, is_parquet: bool) -> str | None:
    """The format that the first objects of a file, or its columns, belong to; None for a plain log."""
    if is_parquet:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return event_format(dict.fromkeys(pq.read_schema(file).names, ""))
        except (OSError, pa.ArrowException):
            return None
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
    head = _first_text(file)
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
    return layout_of(_first_text(file))


def layout_of(head: str) -> str:
    """`layout` by the beginning of the file.

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


def _first_text(file: Path) -> str:
    """The beginning of a file; nothing where it cannot be read, which is an error later."""
    try:
        return _read_start(file, _HEAD).decode("utf-8-sig", errors="replace").lstrip()
    except OSError:
        return ""


def _read_start(file: Path, most: int, stop: bytes | None = None) -> bytes:
    """The first bytes of a file, unpacked: at most so many, and no more than are needed to find `stop`."""
    import pyarrow as pa

    read = b""
    # as an absolute path, in which ~ stands for nothing else
    with pa.input_stream(str(file.absolute()), compression="detect") as stream:
        while len(read) < most and (stop is None or stop not in read) and (more := stream.read(1 << 16)):
            read += more
    return read[:most]


def find_log(path: PathLike, format: str = "auto") -> LogFiles:
    """The files that a path names: one file, all files of a folder and the folders in it, or those of a pattern.

    A name with a star that exists is that file. Files and folders that begin with a dot or an underscore are not a
    part of the log: other programs leave their marks in such.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> for name in ("b.csv.gz", "a.csv", "_SUCCESS"):
    ...     _ = Path(folder, name).write_text("")
    >>> log = find_log(folder)
    >>> log.format, [file.name for file in log.files]
    ('csv', ['a.csv', 'b.csv.gz'])
    """
    if not isinstance(path, str | os.PathLike):
        raise CounterrankError(f"path: {type(path).__name__}; expected the path of a click log, or a frame")
    if format != "auto":
        check_choice(format, tuple(FORMATS), "format")
    given = Path(path)
    root = given if given.is_dir() else None
    files = _inside(given) if root else _matching(given)
    known = {file: format_of(file) for file in files}
    if format == "auto":
        kinds = sorted({kind for kind in known.values() if kind})
        unknown = [file for file, kind in known.items() if kind is None]
        if root is not None and kinds:
            files = [file for file in files if known[file]]  # notes in the same folder do no harm
        elif unknown:
            endings = ", ".join(ending for each in FORMATS.values() for ending in each.extensions)
            raise DataError(
                f"{unknown[0]}: no known extension; expected one of {endings}, also with {' or '.join(COMPRESSED)}, or "
                f"its format named with format= ({', '.join(FORMATS)})"
            )
        format = _format_by_content(
            str(path), {kind: [file for file in files if known[file] == kind] for kind in kinds}
        )
    elif FORMATS[format].reader is not None and root is not None and any(known.values()):
        files = [file for file in files if known[file]]
    if not files:
        raise DataError(f"{path}: no files of a click log in it; expected Parquet, CSV or JSON Lines")
    if root is None and not given.is_file():
        root = _head(given)
    return LogFiles(printable(str(path)), format, tuple(files), root)


def frame_log(frame: Any, options: LogOptions) -> LogFiles:
    """A frame as a log, under the name "frame": its columns are taken as they are, without a copy where Arrow can.

    Columns that no log has are of no use; they are there with their names, and without their values.

    >>> import pyarrow as pa
    >>> frame_log(pa.table({"rank": [1], "comment": ["?"]}), LogOptions()).table.schema.types
    [DataType(int64), DataType(null)]
    """
    import pyarrow as pa

    if options.format != "auto":
        raise CounterrankError(f"format={brief(options.format)}: of files; expected 'auto' for a frame")
    wanted = {options.columns.get(name, name) for name in (*NEEDED, *OPTIONAL)} | set(options.context)
    names, chosen = None, frame
    if hasattr(frame, "iloc") and hasattr(frame, "columns"):  # pandas converts other columns at some cost, or cannot
        names = [str(name) for name in frame.columns]
        chosen = frame.iloc[:, [i for i, name in enumerate(names) if name in wanted]]
    check_apart(names or [], _FRAME)
    table = arrow_table(chosen, _FRAME)
    names = names or list(table.column_names)
    check_apart(names, _FRAME)
    n_rows = len(frame) if chosen is not frame else table.num_rows
    columns = {name: _scannable(table.column(name)) if name in wanted else pa.nulls(n_rows) for name in names}
    return LogFiles(_FRAME, "parquet", (), None, pa.table(columns))


def _scannable(column: Any) -> Any:
    """A column in a type that DuckDB scans."""
    import pyarrow as pa

    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    if pa.types.is_float16(column.type):  # which pyarrow 15 cannot cast
        return pa.array(column.to_numpy().astype(np.float32), mask=column.is_null().to_numpy())
    return column


def _format_by_content(name: str, files: dict[str, list[Path]]) -> str:
    """The format of the files, by the content of a few: events may come as Parquet and as JSON together."""
    found = [
        recognised(file, kind == "parquet")
        for kind, some in files.items()
        if kind in CARRIERS
        for file in some[:_LOOK_INTO]
    ]
    events = sorted({format for format in found if format})
    if len(events) == 1 and set(files) <= set(CARRIERS) and (len(files) == 1 or None not in found):
        return events[0]
    several = events if len(events) > 1 else list(files)
    if len(several) > 1:
        raise DataError(f"{name}: files of several formats ({', '.join(several)}); expected one, or name the files")
    return several[0]


def _inside(folder: Path) -> list[Path]:
    """All files of a folder; what is hidden or marked by an underscore is passed over."""
    found: list[Path] = []
    seen: set[str] = set()  # a link can lead to where we have been
    for above, folders, names in os.walk(folder, followlinks=True):
        here = os.path.realpath(above)
        if here in seen:
            folders.clear()
            continue
        seen.add(here)
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        found += (Path(above, name) for name in sorted(names) if not name.startswith((".", "_")))
    if not found:
        raise DataError(f"{folder}: an empty folder; expected the files of a click log")
    return found


def _matching(given: Path) -> list[Path]:
    if given.is_file():
        return [given]
    found = [Path(name) for name in sorted(glob.glob(str(given), recursive=True))]
    files = [file for file in found if file.is_file()]
    if not files:
        raise MissingFileError(f"{given}: no such click log (file or folder not found)")
    return files


def _head(pattern: Path) -> Path:
    """The folder that a pattern begins with.

    >>> _head(Path("logs/policy=*/day.parquet"))
    PosixPath('logs')
    """
    plain = itertools.takewhile(lambda part: not glob.has_magic(part), pattern.parts)
    return Path(*plain)


class Header(NamedTuple):
    """The first line of a CSV file."""

    delimiter: str
    names: tuple[str, ...]


def csv_headers(log: LogFiles) -> list[tuple[Header, list[Path]]]:
    """The distinct headers of the files, each with its files."""
    found: dict[Header, list[Path]] = {}
    for file in log.files:
        found.setdefault(_header(file), []).append(file)
    return list(found.items())


def _header(file: Path) -> Header:
    place = printable(str(file))
    try:
        line = first_line(file).decode("utf-8-sig").strip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{place}: not CSV that can be read ({printable(str(error))})") from None
    bare = re.sub('"(?:[^"]|"")*"', "", line)
    delimiter = max(",\t;|", key=bare.count)  # the first of them where none occurs
    try:
        names = next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error as error:
        raise DataError(f"{place}: not CSV that can be read (header: {error})") from None
    if not any(names) or "\0" in line:
        raise DataError(f"{place}: no header; expected the names of the columns in the first line, as UTF-8")
    names = [name or f"column {i + 1}" for i, name in enumerate(names)]  # an index has no name
    check_apart(names, place)
    return Header(delimiter, tuple(names))


def check_apart(names: Sequence[str], place: str) -> None:
    """An error if two columns have one name; upper and lower case are the same to DuckDB and to Spark."""
    first: dict[str, int] = {}
    for i, name in enumerate(names):
        other = first.setdefault(name.lower(), i)
        if other != i:
            raise DataError(f"{place}: columns {names[other]!r} and {name!r} are the same name; expected each once")


def first_line(file: Path) -> bytes:
    """The first line, unpacked."""
    return _read_start(file, _LONGEST, b"\n").partition(b"\n")[0]


def find_line(log: LogFiles, row: Mapping[str, str | None]) -> str:
    """Where a row of CSV or JSON Lines is, as "line 7" (from 1), with the file if there are several; "" if not found.

    Arguments:
        log: the files.
        row: by the names of some columns in the files what they hold there, as texts; all null for a line of JSON that
            cannot be read.
    """
    for file in log.files:
        folders = dict(part.split("=", 1) for part in file.parts[:-1] if "=" in part)
        own = {name: value for name, value in row.items() if name not in folders}
        if any(folders[name] != row[name] for name in row if name in folders):
            continue
        header = _header(file) if log.format == "csv" else None
        parsed = 0
        for number, line in _lines_with(file, _needle(own, log.format)):
            if header is not None and number == 1:
                continue
            parsed += len(line)
            if parsed > _PARSED:
                break
            if _is_row(line, own, header):
                return place_in(log, file, f"line {number}")
    return ""


def find_text(log: LogFiles, text: str) -> str:
    """Where a line stands that cannot be read, as `find_line` says it."""
    for file in log.files:
        for number, line in _lines_with(file, text.encode() if text.isascii() else None):
            if line.decode("utf-8", errors="replace").rstrip("\r") == text:
                return place_in(log, file, f"line {number}")
    return ""


def place_in(log: LogFiles, file: Path, place: str) -> str:
    """A place in one of the files of a log."""
    if len(log.files) == 1:
        return place
    inside = log.root is not None and file.is_relative_to(log.root)
    return f"{printable(str(file.relative_to(log.root) if inside and log.root else file))} {place}"


def _is_row(line: bytes, row: Mapping[str, str | None], header: Header | None) -> bool:
    """Whether a line holds these values."""
    try:
        words = line.decode("utf-8").rstrip("\r")
    except UnicodeDecodeError:
        return False
    if header is None:
        return bool(words.strip()) and all(_same(_object(words).get(name), value) for name, value in row.items())
    try:
        fields = next(csv.reader([words], delimiter=header.delimiter, strict=True), [])
    except csv.Error:
        return False
    found = dict(zip(header.names, fields, strict=False))
    return len(fields) >= len(header.names) and all((found.get(name) or None) == value for name, value in row.items())


def _object(line: str) -> Mapping[str, Any]:
    """The fields of a line of JSON, numbers as they are written; none where it is no object."""
    try:
        found = json.loads(line, parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _same(found: Any, value: str | None) -> bool:
    if isinstance(found, bool):
        return value == str(found).lower()
    return isinstance(found, dict | list) or found == value


def _needle(row: Mapping[str, str | None], format: str) -> bytes | None:
    """What a line with this row is sure to hold as it is; None where that is not known."""
    odd = '"\\\n\r/' if format != "csv" else '"\n\r'
    sure = [value for value in row.values() if value and not set(odd) & set(value)]
    sure = [value for value in sure if format == "csv" or (value.isascii() and value.isprintable())]
    return max(sure, key=len).encode() if sure else None


def _lines_with(file: Path, needle: bytes | None) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that hold some bytes, or all, with their numbers from 1."""
    import pyarrow as pa

    before, rest = 0, b""
    with pa.input_stream(str(file.absolute()), compression="detect") as stream:
        while block := stream.read(_BLOCK):
            whole, newline, last = block.rpartition(b"\n")
            if not newline:
                rest += block
                continue
            whole, rest = rest + whole, last
            if needle is None or needle in whole:
                for i, line in enumerate(whole.split(b"\n")):
                    if needle is None or needle in line:
                        yield before + i + 1, line
            before += whole.count(b"\n") + 1
    if rest and (needle is None or needle in rest):
        yield before + 1, rest
