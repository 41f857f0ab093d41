"""What the command writes: tables and JSON on stdout, the rest on stderr; nothing that exists is replaced without
`--force`, and an input never."""

from __future__ import annotations

import glob
import json
import os
import re
import shlex
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterrank.cli.command import name_flags
from counterrank.common.errors import CounterrankError
from counterrank.common.files import check_file, check_folder, is_empty_folder

if TYPE_CHECKING:
    from counterrank import Ranker

# what a folder holds that other commands read whole
_MARKERS = ("model.json", "clicks.json")
_WIDTH, _SENTENCE = 110, 60  # of lines of sentences; a longer cell is one
_PARTS = {"train", "trainingset", "vali", "valid", "validation", "validationset", "test", "testset"}


def print_json(content: dict[str, Any]) -> None:
    """One JSON object."""
    sys.stdout.write(json.dumps(content, indent=2) + "\n")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], left: Sequence[str] = ()) -> None:
    """A table; the first column names the row, the others hold numbers or words; those named in `left` begin there."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table, console = Table(), Console()
    cells = [[_cell(value) for value in row] for row in rows]
    # a pipe has no width to keep to, but sentences are read: they take what other columns leave
    if not console.is_terminal:
        console = Console(width=1000)
    longest = [max((len(row[i]) for row in cells), default=0) for i in range(len(columns))]
    others = sum(max(own, len(name)) + 3 for own, name in zip(longest, columns, strict=True) if own <= _SENTENCE)
    room = max(_SENTENCE, _WIDTH - others - 4)
    # names of files may look like markup
    for i, column in enumerate(columns):
        words = all(isinstance(row[i], str) for row in rows) and any(" " in row[i].strip() for row in rows)
        table.add_column(
            Text(column),
            justify="left" if i == 0 or words or column in left else "right",
            overflow="fold",
            max_width=room if words and longest[i] > _SENTENCE and not console.is_terminal else None,
        )
    for row in cells:
        table.add_row(*map(Text, row))
    print_text(title, style="bold")
    console.print(table)


def print_text(text: str, style: str = "") -> None:
    """A sentence or more, in lines of at most 110 characters."""
    from rich.console import Console
    from rich.text import Text

    console = Console()
    width = min(_WIDTH, console.width) if console.is_terminal else _WIDTH
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    Console(width=None if console.is_terminal else 1000).print(Text("\n".join(lines), style=style), soft_wrap=True)


def constant_features(ranker: Ranker) -> dict[str, Any] | None:
    """How many features never vary within a query of the training data, and the first ten, numbered from 1 as LETOR
    does; None where a ranker of version 0.1 does not tell."""
    if ranker.constant_features_ is None:
        return None
    return {
        "count": len(ranker.constant_features_),
        "first": [number + 1 for number in ranker.constant_features_[:10].tolist()],
    }


def constant_in_words(found: dict[str, Any] | None) -> str | None:
    """The same for a table; None where there are none.

    >>> constant_in_words({"count": 12, "first": [1, 4, 5, 6, 7, 8, 9, 10, 11, 12]})
    '12: 1, 4, 5, 6, 7, 8, 9, 10, 11, 12, ...'
    """
    if not found or not found["count"]:
        return None
    more = ", ..." if found["count"] > len(found["first"]) else ""
    return f"{found['count']:,}: {', '.join(map(str, found['first']))}{more}"


def say(text: str) -> None:
    """A line for people, on stderr."""
    sys.stderr.write(text + "\n")


def say_next(*words: object) -> None:
    """What to run next, on stderr: a command that a shell reads as it is meant, whatever paths hold.

    >>> import contextlib
    >>> with contextlib.redirect_stderr(sys.stdout):
    ...     say_next("inspect", "my clicks", "--data", "it's")
    Saved. Next: counterrank inspect 'my clicks' --data 'it'"'"'s'
    """
    say(f"Saved. Next: {shlex.join(['counterrank', *map(str, words)])}")


def free_name(name: str) -> str:
    """The name, or with a number after it where there is something of this name."""
    names = (name if i == 1 else f"{name}-{i}" for i in count(1))
    return next(each for each in names if not Path(each).exists())


def command_line() -> str:
    """The command as it was given, for the provenance of what it makes."""
    return shlex.join(["counterrank", *sys.argv[1:]])


@contextmanager
def show_warnings() -> Iterator[None]:
    """Print the library's warnings as lines on stderr, each once, arguments named as flags; also where it is nested."""
    _nested.append(set())
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        for text in dict.fromkeys(" ".join(map(str.strip, str(warning.message).splitlines())) for warning in caught):
            if not any(text in said for said in _nested):
                say(f"Warning: {name_flags(text)}")
            for said in _nested:
                said.add(text)
    finally:
        _nested.pop()


_nested: list[set[str]] = []  # what was printed inside each of the blocks that are open


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e-3 or abs(value) >= 1e5 else f"{value:.4f}"
    if isinstance(value, int):
        return f"{value:,}"
    return "" if value is None else str(value)


def check_out(
    out: Path | None, force: bool, inputs: Iterable[Any], kind: Callable[[Path], object] = check_file
) -> None:
    """Refuse, before any work, to write over an input, over something of another kind, or without `--force` at all.

    Arguments:
        out: the file or folder to write; None is in order.
        force: whether `--force` was given.
        inputs: what the command reads, as its options name it: paths, patterns, `name=path`, lists of them, or None.
        kind: complains of something in the place of `out` that is of another kind, with or without `--force`.

    >>> check_out(Path("."), True, ["synthetic:mslr", "./"])
    Traceback (most recent call last):
    ...
    counterrank.common.errors.CounterrankError: .: is an input of this command; choose another name
    """
    if out is None:
        return
    check_not_input(out, inputs)
    kind(out)
    if out.exists() and not is_empty_folder(out) and not force:
        raise CounterrankError(f"{out}: exists; choose another name, or --force to replace it")


def folder_with(marker: str, parts: Sequence[str]) -> Callable[[Path], object]:
    """The kind of a folder, for `check_out`; see `check_folder`."""
    return lambda path: check_folder(path, marker, parts)


def check_not_input(out: Path, inputs: Iterable[Any]) -> None:
    """An error where writing would change what the command reads."""
    if not out.exists():
        return
    for source in _paths(inputs):
        if _would_change(out, source):
            raise CounterrankError(
                f"{out}: is an input of this command; choose another name"
                if out.samefile(source)
                else f"{out}: holds, or is a part of, {source}, an input of this command; choose another name"
            )


def check_page(out: Path, mark: str, name: str) -> None:
    """Refuse a page that could not be written at the end, and one that is not ours to replace.

    Arguments:
        out: the page.
        mark: what every page of the command holds.
        name: of a page, for the message about a folder.
    """
    if out.is_dir():
        raise CounterrankError(f"{out}: a folder; expected the name of a page to write, such as {out}/{name}")
    if out.exists() and mark not in out.read_text(encoding="utf-8", errors="replace"):
        raise CounterrankError(f"{out}: exists and is no page of {mark}; choose another --out")


def _paths(inputs: Iterable[Any]) -> Iterable[Path]:
    """The files and folders among what options name; patterns stand for all they match."""
    for given in inputs:
        if given is None:
            continue
        if isinstance(given, list | tuple):
            yield from _paths(given)
            continue
        for text in dict.fromkeys((str(given), str(given).partition("=")[2])):
            found = [text] if os.path.exists(text) else glob.glob(text, recursive=True)
            yield from map(Path, found)


def _would_change(out: Path, source: Path) -> bool:
    """Whether writing `out` would replace `source`, something inside it that is read, or a folder it is in."""
    target, read = out.resolve(), source.resolve()
    if out.samefile(source):
        return True
    if target.is_dir():
        return read.is_relative_to(target)
    inside = read.is_dir() and target.is_relative_to(read)
    return inside and (
        bool(_PARTS & set(re.split(r"[\W_]+", target.name.lower())))
        or any((folder / marker).is_file() for folder in (read, target.parent) for marker in _MARKERS)
    )
