"""Where the command writes: nothing that exists is replaced without `--force`, and an input never."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from counterrank.common.errors import CounterrankError
from counterrank.common.files import check_file, check_folder, is_empty_folder

# what a folder holds that other commands read whole
_MARKERS = ("model.json", "clicks.json")
_PARTS = {"train", "trainingset", "vali", "valid", "validation", "validationset", "test", "testset"}


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
