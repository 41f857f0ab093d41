"""What the command prints: tables for people and JSON for machines on stdout, everything else on stderr."""

from __future__ import annotations

import json
import shlex
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from counterrank import Ranker


def print_json(content: dict[str, Any]) -> None:
    """One JSON object."""
    sys.stdout.write(json.dumps(content, indent=2) + "\n")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], left: Sequence[str] = ()) -> None:
    """A table; the first column names the row, the others hold numbers or words; those named in `left` begin there."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    # names of files may look like markup
    for i, column in enumerate(columns):
        words = all(isinstance(row[i], str) for row in rows) and any(" " in row[i].strip() for row in rows)
        table.add_column(
            Text(column), justify="left" if i == 0 or words or column in left else "right", overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    console = Console()
    # a pipe has no width to keep to
    console = console if console.is_terminal else Console(width=1000)
    console.print(Text(title, style="bold"))
    console.print(table)


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


def command_line() -> str:
    """The command as it was given, for the provenance of what it makes."""
    return shlex.join(["counterrank", *sys.argv[1:]])


@contextmanager
def show_warnings() -> Iterator[None]:
    """Print the library's warnings as lines on stderr, each once, arguments named as flags."""
    from counterrank.cli.command import name_flags

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for text in dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught):
        say(f"Warning: {name_flags(text)}")


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e-3 or abs(value) >= 1e5 else f"{value:.4f}"
    if isinstance(value, int):
        return f"{value:,}"
    return "" if value is None else str(value)
