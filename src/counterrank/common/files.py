"""Files and folders that appear whole or not at all."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from counterrank.common.errors import CounterrankError, MissingFileError

PathLike = str | os.PathLike[str]

_SPILL = "counterrank-spill-"
_TRIES = 3  # to remove a folder into which something is still being written

# What is half written now, for a process that has to leave at once.
unfinished: set[Path] = set()

# Folders that are just being put in their place: a process that has to leave at once waits for these. An exception
# raised by a signal handler could strike inside compiled code and take the process down.
_replacing: list[Path] = []
_ASIDE = "folder"  # what is being replaced, inside the one that is put beside it


def discard_unfinished() -> bool:
    """Remove what is half written; False, and nothing is done, at a moment when a folder is just being replaced.

    >>> discard_unfinished()
    True
    """
    if _replacing:
        return False
    for path in list(unfinished):
        remove(path)
    return True


def existing(path: PathLike, what: str) -> Path:
    """The path, if something is there; else an error that names what was looked for.

    >>> existing("no/such/file", "ranking data")
    Traceback (most recent call last):
    ...
    counterrank.common.errors.MissingFileError: no/such/file: no such ranking data (file or folder not found)
    """
    if not isinstance(path, str | os.PathLike):
        raise CounterrankError(f"path {path!r}: {type(path).__name__}; expected the path of {what}")
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
    target = check_file(path)
    _make_parent(target)
    for stale in left_by_the_dead(target.parent, f".{target.name}.", ".part"):
        remove(stale)
    with made_and_held(lambda: _beside(target, path, ".part", folder=False)) as temporary:
        unfinished.add(temporary)
        try:
            yield temporary
            _give_usual_rights(temporary, 0o666)
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
            unfinished.discard(temporary)


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


def _beside(target: Path, path: PathLike, suffix: str, *, folder: bool) -> str:
    """A new hidden file or folder beside `target`."""
    try:
        if folder:
            return tempfile.mkdtemp(prefix=f".{target.name}.", suffix=suffix, dir=target.parent)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=suffix, dir=target.parent)
    except OSError as error:
        raise CounterrankError(f"{path}: cannot be written ({error.strerror})") from None
    os.close(handle)
    return name


@contextmanager
def scratch_folder(path: PathLike) -> Iterator[Path]:
    """A folder for as long as the block lasts, begun empty; a process that has to leave at once removes it too.

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
    unfinished.add(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        unfinished.discard(folder)


def read_stamp(folder: Path, marker: str, kind: str, version: int, made_by: str, error: type[Exception]) -> Any:
    """What the JSON file `marker` of a saved folder says, if it is of this kind and version.

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
        raise error(f"{file}: not JSON ({fault})") from None
    if not isinstance(content, dict) or content.get("format") != kind:
        raise error(f"{file}: format is not {kind!r}; expected a folder written by {made_by}")
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
    _tidy(Path(path).resolve())
    target = check_folder(path, marker, parts)
    with made_and_held(lambda: _beside(target, path, ".part", folder=True)) as temporary:
        unfinished.add(temporary)
        try:
            yield temporary
            _give_usual_rights(temporary, 0o777)
            if target.exists():
                _replace_folder(target, temporary)
            else:
                os.replace(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
            unfinished.discard(temporary)


def _replace_folder(target: Path, new: Path) -> None:
    """Put `new` in the place of `target`; if that fails, `target` is back where it was."""
    _replacing.append(target)
    try:
        with made_and_held(lambda: _beside(target, target, ".old", folder=True)) as aside:
            try:
                os.replace(target, aside / _ASIDE)
                try:
                    os.replace(new, target)
                except BaseException:
                    os.replace(aside / _ASIDE, target)
                    raise
            finally:
                if target.exists():  # else the old content is in there, for the next run to put back
                    shutil.rmtree(aside, ignore_errors=True)
    finally:
        _replacing.remove(target)


def _tidy(target: Path) -> None:
    """Remove what killed processes left beside a folder; one that was just being replaced gets its old content back."""
    for stale in left_by_the_dead(target.parent, f".{target.name}.", ".old"):
        if not target.exists() and (stale / _ASIDE).is_dir():
            os.replace(stale / _ASIDE, target)
        remove(stale)
    for stale in left_by_the_dead(target.parent, f".{target.name}.", ".part"):
        remove(stale)


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


def _give_usual_rights(path: Path, mode: int) -> None:
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(mode & ~mask)


@contextmanager
def held(path: Path) -> Iterator[None]:
    """While this lasts, `path` counts as in use.

    >>> with tempfile.TemporaryDirectory() as folder, held(Path(folder)):
    ...     is_in_use(Path(folder))
    True
    """
    handle = _locked(path)
    try:
        yield
    finally:
        os.close(handle)


@contextmanager
def made_and_held(make: Callable[[], str]) -> Iterator[Path]:
    """What `make` makes, in use as soon as this begins; made again if a process that tidies was faster than the lock.

    >>> with tempfile.TemporaryDirectory() as above, made_and_held(lambda: tempfile.mkdtemp(dir=above)) as folder:
    ...     is_in_use(folder)
    True
    """
    while True:
        path = Path(make())
        try:
            handle = _locked(path)
        except FileNotFoundError:
            continue
        if path.exists():
            break
        os.close(handle)
    try:
        yield path
    finally:
        os.close(handle)


def _locked(path: Path) -> int:
    """A handle that holds the lock; waits for one that only looks whether the path is in use."""
    handle = os.open(path, os.O_RDONLY)
    with suppress(OSError):  # a file system without locks: then nothing on it counts as left behind
        fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


def is_in_use(path: Path) -> bool:
    """Whether a living process holds `path`; one that cannot be opened counts as held, as it is another user's.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     is_in_use(Path(folder))
    False
    """
    with _claimed(path) as mine:
        return not mine and path.exists()


@contextmanager
def _claimed(path: Path) -> Iterator[bool]:
    """Whether nobody holds `path`; if so, it is held while this lasts."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        yield False
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        mine = True
    except OSError:
        mine = False
    try:
        yield mine
    finally:
        os.close(handle)


def left_by_the_dead(folder: Path, prefix: str, suffix: str) -> Iterator[Path]:
    """Files and folders that `tempfile` named so and nobody holds, each held while it is looked at.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in (".a.12345678.part", ".a.b.12345678.part"):
    ...         _ = Path(folder, name).write_text("half of it")
    ...     [path.name for path in left_by_the_dead(Path(folder), ".a.", ".part")]
    ['.a.12345678.part']
    """
    named = re.compile(re.escape(prefix) + "[a-z0-9_]{8}" + re.escape(suffix))
    try:
        found = sorted(name for name in os.listdir(folder) if named.fullmatch(name))
    except OSError:
        return
    for name in found:
        with _claimed(folder / name) as mine:
            if mine:
                yield folder / name


def remove(path: Path) -> None:
    """A file or a folder with all that is in it, if it can be removed.

    >>> folder = Path(tempfile.mkdtemp())
    >>> remove(folder)
    >>> folder.exists()
    False
    """
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return
    for _ in range(_TRIES):
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return


@contextmanager
def spill_folder() -> Iterator[Path]:
    """A folder for what does not fit into memory, under the one that TMPDIR names; older ones of the dead are removed.

    >>> with spill_folder() as folder:
    ...     folder.is_dir()
    True
    """
    try:
        above = Path(tempfile.gettempdir())
    except OSError:
        raise CounterrankError("TMPDIR: no folder for temporary files; expected one that can be written") from None
    for stale in left_by_the_dead(above, _SPILL, ""):
        remove(stale)
    with made_and_held(lambda: _new_spill(above)) as folder:
        unfinished.add(folder)
        try:
            yield folder
        finally:
            remove(folder)
            unfinished.discard(folder)


def _new_spill(above: Path) -> str:
    try:
        return tempfile.mkdtemp(prefix=_SPILL, dir=above)
    except OSError as error:
        raise CounterrankError(
            f"{above}: cannot be written ({error.strerror}); TMPDIR names another folder for temporary files"
        ) from None
