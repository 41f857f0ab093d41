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
    """A temporary path beside `path` that takes its place when the block ends well, and vanishes when it does not."""
    target = Path(path)
    if target.is_dir():
        raise CounterrankError(f"{path}: is a folder, expected a file to write")
    target.parent.mkdir(parents=True, exist_ok=True)
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
    """
    target = Path(path)
    if target.exists() and not (target / marker).is_file() and not _is_empty_folder(target):
        raise CounterrankError(f"{path}: exists and is not a folder with a {marker}; it is left untouched")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent))
    try:
        yield temporary
        _give_usual_rights(temporary, 0o777)
        if target.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".old", dir=target.parent))
            os.replace(target, old / "folder")
            os.replace(temporary, target)
            shutil.rmtree(old)
        else:
            os.replace(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _give_usual_rights(path: Path, mode: int) -> None:
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(mode & ~mask)
