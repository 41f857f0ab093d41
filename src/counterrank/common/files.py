"""Atomic writes of files and folders, and stale temporary ones of killed processes.

Whatever is temporary is in a folder of its own, with a lock file in it. The system takes the lock away when the process
ends, however it ends, so a folder whose lock can be taken is stale: the next run removes it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from counterrank.common.errors import CounterrankError, MissingFileError

PathLike = str | os.PathLike[str]

_LOCK, _NEW, _OLD = "lock", "new", "old"  # in a temporary folder: its lock, what is written, what is being replaced
_PART, _SPILL = ".part", "counterrank-spill-"
_PATIENCE_S = 10.0  # with a lock that is held for a moment
_TRIES = 3  # to remove a folder into which something is still being written

# Temporary folders of this process, for one that has to exit at once; and targets that are just being replaced, for
# which it waits. An exception raised by a signal handler could strike inside compiled code and take the process down.
_unfinished: set[Path] = set()
_replacing: list[Path] = []
_kept: set[Path] = set()  # with the old content of a target that could not be put back


def discard_unfinished() -> bool:
    """Remove what is half written; False, and nothing is done, at a moment when a folder is just being replaced.

    >>> discard_unfinished()
    True
    """
    if _replacing:
        return False
    for path in list(_unfinished):
        _remove(path)
    return True


def existing(path: PathLike, what: str) -> Path:
    """The path, if something is there; else an error that names what was looked for.

    >>> existing("no/such/file", "ranking data")
    Traceback (most recent call last):
    ...
    counterrank.common.errors.MissingFileError: no/such/file: no such ranking data (file or folder not found)
    """
    if not isinstance(path, str | os.PathLike):
        raise CounterrankError(f"path: {type(path).__name__}; expected the path of {what}")
    found = Path(path)
    if not found.exists():
        raise MissingFileError(f"{path}: no such {what} (file or folder not found)")
    return found


@contextmanager
def atomic_file(path: PathLike) -> Iterator[Path]:
    """A temporary path near `path` that takes its place when the block ends well, and vanishes when it does not.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_file(f"{folder}/notes.txt") as temporary:
    ...         _ = temporary.write_text("all of it")
    ...     os.listdir(folder)
    ['notes.txt']
    """
    target = check_file(path)
    _make_parent(target)
    _remove_stale_parts(target)
    with _workspace(target, path) as folder:
        temporary = folder / _NEW
        temporary.touch()
        yield temporary
        os.replace(temporary, target)


def check_file(path: PathLike) -> Path:
    """The path, if a file may be written there: a new one, or one to be replaced.

    >>> check_file(os.curdir)
    Traceback (most recent call last):
    ...
    counterrank.common.errors.CounterrankError: .: is a folder, expected a file to write
    """
    target = Path(path).resolve()  # what a link points to is written, not the link
    if target.is_dir():
        raise CounterrankError(f"{path}: is a folder, expected a file to write")
    if target.exists() and not target.is_file():
        raise CounterrankError(f"{path}: is a device or a pipe, expected a file to write")
    return target


@contextmanager
def scratch_folder(path: PathLike) -> Iterator[Path]:
    """A folder for as long as the block lasts, begun empty; a process that has to exit at once removes it too.

    >>> with tempfile.TemporaryDirectory() as above:
    ...     with scratch_folder(f"{above}/scratch") as folder:
    ...         print(os.listdir(above))
    ...     os.listdir(above)
    ['scratch']
    []
    """
    folder = Path(path)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _unfinished.add(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _unfinished.discard(folder)


def read_stamp(
    folder: Path, marker: str, kind: str, version: int, made_by: str, error: type[Exception], what: str = "a folder"
) -> Any:
    """What the JSON file `marker` of a saved folder says, if it is of this kind and version; `what` was saved.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "run.json").write_text('{"format": "run", "version": 1, "seed": 5}')
    ...     read_stamp(Path(folder), "run.json", "run", 1, "run.save", CounterrankError)["seed"]
    5
    """
    file = folder / marker
    if not file.is_file():
        raise error(f"{folder}: no {marker} in it; expected a folder written by {made_by}")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as fault:
        raise error(f"{file}: not JSON ({fault}); expected {what} written by {made_by}") from None
    if not isinstance(content, dict) or content.get("format") != kind:
        raise error(f"{file}: format is not {kind!r}; expected {what} written by {made_by}")
    if type(content.get("version")) is not int or content["version"] != version:
        raise error(
            f"{file}: version {content.get('version')!r}; this counterrank reads version {version}, install a newer one"
        )
    return content


def check_folder(path: PathLike, marker: str, parts: Sequence[str] = ("*",)) -> Path:
    """The path, if a folder of the kind that holds `marker` may be written there; makes the folder above it.

    An older one is in order if nothing is in it but the marker and files whose names match `parts`.

    >>> check_folder(os.curdir, "model.json")
    Traceback (most recent call last):
    ...
    counterrank.common.errors.CounterrankError: .: exists and is not a folder with a model.json; it is left untouched
    """
    target = Path(path).resolve()
    if target.exists() and not (target / marker).is_file() and not is_empty_folder(target):
        raise CounterrankError(f"{path}: exists and is not a folder with a {marker}; it is left untouched")
    for inside in target.iterdir() if target.is_dir() else ():
        if inside.name != marker and not any(fnmatch(inside.name, part) for part in parts):
            raise CounterrankError(
                f"{path}: holds {inside.name}, which would be lost; move it or choose another folder"
            )
    _make_parent(target)
    if not os.access(target.parent, os.W_OK):
        raise CounterrankError(f"{path}: {target.parent} cannot be written")
    return target


@contextmanager
def atomic_folder(path: PathLike, marker: str, parts: Sequence[str] = ("*",)) -> Iterator[Path]:
    """A temporary folder that takes the place of `path` when the block ends well.

    An older folder of the same kind is replaced; anything else in the way is an error (see `check_folder`).

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_folder(f"{folder}/run", marker="run.json") as temporary:
    ...         _ = (temporary / "run.json").write_text("{}")
    ...     os.listdir(f"{folder}/run")
    ['run.json']
    """
    _remove_stale_parts(Path(path).resolve())  # which may put back what is to be replaced
    target = check_folder(path, marker, parts)
    with _workspace(target, path) as folder:
        temporary = folder / _NEW
        temporary.mkdir()
        yield temporary
        _put_in_place(temporary, target, folder / _OLD)


def _put_in_place(new: Path, target: Path, aside: Path) -> None:
    """Put `new` in the place of `target`; if that fails, `target` is back where it was."""
    _replacing.append(target)
    try:
        if not target.exists():
            os.replace(new, target)
            return
        os.replace(target, aside)
        _kept.add(aside.parent)
        try:
            os.replace(new, target)
        except BaseException:
            os.replace(aside, target)
            raise
        finally:
            if target.exists():
                _kept.discard(aside.parent)
    finally:
        _replacing.remove(target)


@contextmanager
def _workspace(target: Path, path: PathLike) -> Iterator[Path]:
    """A hidden folder next to `target`, for what is to take its place."""
    try:
        with _temporary_folder(target.parent, f".{target.name}.", _PART) as folder:
            yield folder
    except _CannotWrite as error:
        raise CounterrankError(f"{path}: cannot be written ({error})") from None


def _remove_stale_parts(target: Path) -> None:
    """Remove stale temporary folders of a target; one that was just being replaced gets its old content back."""
    for folder in stale_folders(target.parent, f".{target.name}.", _PART):
        if not target.exists() and (folder / _OLD).is_dir():
            os.replace(folder / _OLD, target)


def _make_parent(target: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise CounterrankError(f"{target}: {target.parent} is not a folder, so nothing can be written in it") from None


def is_empty_folder(path: Path) -> bool:
    """Whether this is a folder with nothing in it.

    >>> is_empty_folder(Path(os.curdir))
    False
    """
    return path.is_dir() and not any(path.iterdir())


@contextmanager
def spill_folder() -> Iterator[Path]:
    """A folder for what does not fit into memory, under the one that TMPDIR names; stale ones are removed.

    >>> with spill_folder() as folder:
    ...     folder.is_dir()
    True
    """
    try:
        above = Path(tempfile.gettempdir())
    except OSError:
        raise CounterrankError("TMPDIR: no folder for temporary files; expected one that can be written") from None
    for _ in stale_folders(above, _SPILL, ""):
        pass
    try:
        with _temporary_folder(above, _SPILL, "") as folder:
            yield folder
    except _CannotWrite as error:
        raise CounterrankError(
            f"{above}: cannot be written ({error}); TMPDIR names another folder for temporary files"
        ) from None


class _CannotWrite(Exception):
    pass


@contextmanager
def _temporary_folder(above: Path, prefix: str, suffix: str) -> Iterator[Path]:
    """A new folder that is in use while this lasts, and then removed, unless it holds all there is of a target."""
    while True:
        try:
            folder = Path(tempfile.mkdtemp(prefix=prefix, suffix=suffix, dir=above))
        except OSError as error:
            raise _CannotWrite(error.strerror) from None
        _unfinished.add(folder)
        with lock(folder / _LOCK):
            if not (folder / _LOCK).exists():  # a process that removes stale ones was faster
                _unfinished.discard(folder)
                continue
            try:
                yield folder
                return
            finally:
                if folder not in _kept:  # else the next run puts the old content back
                    _remove(folder)
                _unfinished.discard(folder)


def stale_folders(above: Path, prefix: str, suffix: str) -> Iterator[Path]:
    """Temporary folders of these names that nobody uses any more; each is removed after it was looked at.

    >>> with tempfile.TemporaryDirectory() as above:
    ...     for name in (".a.12345678.part", ".a.b.12345678.part"):
    ...         Path(above, name).mkdir()
    ...     print([path.name for path in stale_folders(Path(above), ".a.", ".part")])
    ...     os.listdir(above)
    ['.a.12345678.part']
    ['.a.b.12345678.part']
    """
    named = re.compile(re.escape(prefix) + "[a-z0-9_]{8}" + re.escape(suffix))
    try:
        found = sorted(name for name in os.listdir(above) if named.fullmatch(name))
    except OSError:
        return
    for folder in (above / name for name in found):
        if folder.is_symlink() or not folder.is_dir():
            continue
        with suppress(InUseError, OSError):
            with lock(folder / _LOCK, wait=False):
                yield folder
                for inside in folder.iterdir():
                    if inside.name != _LOCK:
                        _remove(inside)
            folder.rmdir()  # fails where the process that made it has locked it just now


class InUseError(CounterrankError):
    """Another process holds a lock."""


@contextmanager
def lock(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold a lock file, which is released however the process ends, and removed unless it is killed.

    Without `wait` raises `InUseError` if another process holds it. On a file system without locks nothing
    is locked, and whatever is there counts as in use.

    >>> with tempfile.TemporaryDirectory() as folder, lock(Path(folder) / "lock"):
    ...     with lock(Path(folder) / "lock", wait=False):
    ...         pass
    Traceback (most recent call last):
    ...
    counterrank.common.files.InUseError: lock: another process holds it
    """
    from filelock import FileLock, Timeout

    held = FileLock(path, timeout=_PATIENCE_S if wait else 0, thread_local=False)
    try:
        held.acquire()
        _unfinished.add(path)
    except (Timeout, OSError, NotImplementedError):
        if not wait:
            raise InUseError(f"{path.name}: another process holds it") from None
    try:
        yield
    finally:
        if held.is_locked:
            with suppress(OSError):  # Windows removes it when it is released
                path.unlink()
        _unfinished.discard(path)
        held.release()


def _remove(path: Path) -> None:
    """A file or a folder with all that is in it, if it can be removed."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    for _ in range(_TRIES):
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return
