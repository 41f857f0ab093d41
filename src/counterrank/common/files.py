"""Files and folders that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from counterrank.common.errors import CounterrankError, MissingFileError

PathLike = str | os.PathLike[str]


def existing(path: PathLike, what: str) -> Path:
    """The path, if something is there; else an error that names what was looked for.

    >>> existing("no/such/file", "ranking data")
    Traceback (most recent call last):
    ...
    counterrank.common.errors.MissingFileError: no/such/file: no such ranking data (file or folder not found)
    """
    found = Path(path)
    if not found.exists():
        raise MissingFileError(f"{path}: no such {what} (file or folder not found)")
    return found


@contextmanager
def atomic_file(path: PathLike) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends well, and vanishes when it does not.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_file(f"{folder}/notes.txt") as temporary:
    ...         _ = temporary.write_text("all of it")
    ...     os.listdir(folder)
    ['notes.txt']
    """
    target = Path(path)
    if target.is_dir():
        raise CounterrankError(f"{path}: is a folder, expected a file to write")
    _make_parent(target)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _give_usual_rights(temporary, 0o666)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: PathLike, marker: str) -> Iterator[Path]:
    """A temporary folder that takes the place of `path` when the block ends well.

    An older folder of the same kind (one that holds `marker`) is replaced; anything else in the way is an error.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_folder(f"{folder}/run", marker="run.json") as temporary:
    ...         _ = (temporary / "run.json").write_text("{}")
    ...     os.listdir(f"{folder}/run")
    ['run.json']
    """
    target = Path(path)
    if target.exists() and not (target / marker).is_file() and not _is_empty_folder(target):
        raise CounterrankError(f"{path}: exists and is not a folder with a {marker}; it is left untouched")
    _make_parent(target)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent))
    try:
        yield temporary
        _give_usual_rights(temporary, 0o777)
        if target.exists():
            _replace_folder(target, temporary)
        else:
            os.replace(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _replace_folder(target: Path, new: Path) -> None:
    """Put `new` in the place of `target`; if that fails, `target` is back where it was."""
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".old", dir=target.parent))
    try:
        os.replace(target, aside / "folder")
        try:
            os.replace(new, target)
        except BaseException:
            os.replace(aside / "folder", target)
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _make_parent(target: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise CounterrankError(f"{target}: {target.parent} is not a folder, so nothing can be written in it") from None


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _give_usual_rights(path: Path, mode: int) -> None:
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(mode & ~mask)
