"""What killed processes leave behind: found by the next run and removed, while what is still in use stays.

Whoever makes something temporary holds a lock on it. The system takes the lock away when the process ends, however it
ends, so what can be locked belongs to nobody any more.
"""

from __future__ import annotations

import fcntl
import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SPILL = "counterrank-spill-"


@contextmanager
def held(path: Path) -> Iterator[None]:
    """While this lasts, `path` counts as in use.

    >>> with tempfile.TemporaryDirectory() as folder, held(Path(folder)):
    ...     is_held(Path(folder))
    True
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def is_held(path: Path) -> bool:
    """Whether a living process holds `path`; one that cannot be opened counts as held, as it is another user's."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def left_by_the_dead(folder: Path, prefix: str, suffix: str) -> list[Path]:
    """Files and folders with such names that nobody holds.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, ".a.1.part").write_text("half of it")
    ...     [path.name for path in left_by_the_dead(Path(folder), ".a.", ".part")]
    ['.a.1.part']
    """
    found = folder.glob(f"{glob.escape(prefix)}*{glob.escape(suffix)}")
    return [path for path in sorted(found) if not path.is_symlink() and not is_held(path)]


def remove(path: Path) -> None:
    """A file or a folder with all that is in it, if it can be removed."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def spill_folder() -> Iterator[Path]:
    """A folder for what does not fit into memory, under the one that TMPDIR names; older ones of the dead are removed.

    >>> with spill_folder() as folder:
    ...     folder.is_dir()
    True
    """
    above = Path(tempfile.gettempdir())
    for stale in left_by_the_dead(above, _SPILL, ""):
        remove(stale)
    folder = Path(tempfile.mkdtemp(prefix=_SPILL, dir=above))
    try:
        with held(folder):
            yield folder
    finally:
        remove(folder)
