"""What killed processes leave behind: found by the next run and removed, while what is still in use stays.

Whoever makes something temporary holds a lock on it. The system takes the lock away when the process ends, however it
ends, so what can be locked belongs to nobody any more.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from counterrank.common.errors import CounterrankError

_SPILL = "counterrank-spill-"
_TRIES = 3  # to remove a folder into which something is still being written

# What is half written now, for a process that has to leave at once.
unfinished: set[Path] = set()


@contextmanager
def held(path: Path) -> Iterator[None]:
    """While this lasts, `path` counts as in use.

    >>> with tempfile.TemporaryDirectory() as folder, held(Path(folder)):
    ...     is_held(Path(folder))
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
    ...     is_held(folder)
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


def is_held(path: Path) -> bool:
    """Whether a living process holds `path`; one that cannot be opened counts as held, as it is another user's.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     is_held(Path(folder))
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
