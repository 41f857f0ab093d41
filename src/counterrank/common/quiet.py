"""What compiled libraries print on stderr by themselves, kept from the user for a moment."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stderr_silenced() -> Iterator[None]:
    """While this lasts nothing reaches the process's stderr, whoever writes to it; so let it be short.

    >>> with stderr_silenced():
    ...     _ = os.write(2, b"not seen")
    """
    if sys.stderr is not None:
        sys.stderr.flush()
    try:
        kept = os.dup(2)
    except OSError:  # a service without any stderr has nothing to keep quiet
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
