"""Which files a click log consists of, and how they are written."""

from __future__ import annotations

import csv
import glob
import itertools
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from counterrank.clicks.logs.formats import CARRIERS, COMPRESSED, FORMATS, LogFiles, format_of, recognised
from counterrank.common.checks import check_choice
from counterrank.common.errors import CounterrankError, DataError, MissingFileError, printable
from counterrank.common.files import PathLike

_LOOK_INTO = 8  # files of a kind
_LONGEST = 1 << 22  # bytes of a first line


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
        raise CounterrankError(f"path {path!r}: {type(path).__name__}; expected the path of a click log")
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
            files = [file for file in files if known[file]]  # notes beside the log do no harm
        elif unknown:
            endings = ", ".join(ending for each in FORMATS.values() for ending in each.extensions)
            raise DataError(
                f"{unknown[0]}: no known extension; expected one of {endings}, also with {' or '.join(COMPRESSED)}, or "
                f"a format: {', '.join(FORMATS)}"
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
    first: dict[str, str] = {}
    for name in names:
        other = first.setdefault(name.lower(), name)
        if other is not name:
            raise DataError(f"{place}: columns {other!r} and {name!r} are the same name; expected each once")


def first_line(file: Path) -> bytes:
    """The first line, unpacked."""
    import pyarrow as pa

    read = b""
    # as an absolute path, in which ~ stands for nothing else
    with pa.input_stream(str(file.absolute()), compression="detect") as stream:
        while b"\n" not in read and len(read) < _LONGEST and (more := stream.read(1 << 16)):
            read += more
    return read.partition(b"\n")[0]
