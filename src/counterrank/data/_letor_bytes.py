"""The bytes of a text file, plain or gzip, as one read-only array."""

from __future__ import annotations

import mmap
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from counterrank.common.errors import LetorError
from counterrank.common.files import PathLike, existing
from counterrank.common.progress import progress

_BLOCK = 1 << 20  # bytes of the file at a time
_MOST = 16 << 20  # bytes unpacked at a time
_GZIP = b"\x1f\x8b"


class FileBytes:
    """The bytes of a file as a read-only array: its own pages, mapped into memory, or a buffer."""

    def __init__(self, source: mmap.mmap | bytearray) -> None:
        self.array: NDArray[np.uint8] = np.frombuffer(source, np.uint8)
        self.array.flags.writeable = False  # one kind of array for the kernels, whatever the source
        self._pages = source if isinstance(source, mmap.mmap) else None

    def __len__(self) -> int:
        return len(self.array)

    def release(self, start: int, end: int) -> None:
        """Tell the system that the bytes in `start:end` need not stay in memory; they may still be read again."""
        if self._pages is None or not hasattr(mmap, "MADV_DONTNEED"):
            return
        first, last = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, end // mmap.PAGESIZE * mmap.PAGESIZE
        if first < last:
            self._pages.madvise(mmap.MADV_DONTNEED, first, last - first)


class DamagedGzip(Exception):
    """Gzip data that ends early or does not fit its checksum, with what could be unpacked."""

    def __init__(self, fault: str, text: FileBytes) -> None:
        super().__init__(fault)
        self.text = text


def read_bytes(path: PathLike) -> FileBytes:
    """All bytes of a file, unpacked if it is gzip (judged by its first bytes, not its name)."""
    found = existing(path, "LETOR file")
    if found.is_dir():
        raise LetorError(f"{path}: is a folder; expected a LETOR file (read_fold reads a folder)")
    try:
        with found.open("rb") as file:
            start = file.peek(2)[:2]
            if start == _GZIP:
                return _unpacked(file, found)
            if found.is_file() and start:
                return FileBytes(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            return FileBytes(bytearray(file.read()))
    except OSError as error:
        raise LetorError(f"{path}: cannot be read ({error.strerror or error})") from error


def _unpacked(file: BinaryIO, path: Path) -> FileBytes:
    # a bytearray grows in place, without a second copy of what it holds
    text = bytearray()
    unpacker = zlib.decompressobj(wbits=31)
    with progress(f"unpacking {path.name}", total=path.stat().st_size) as advance:
        while block := file.read(_BLOCK):
            advance(len(block))
            while block:
                if unpacker.eof:  # another member may follow, or zeros that pad the file
                    block = block.lstrip(b"\0")
                    if not block:
                        break
                    unpacker = zlib.decompressobj(wbits=31)
                try:
                    text += unpacker.decompress(block, _MOST)
                except zlib.error as error:
                    raise DamagedGzip(f"gzip data is damaged ({error})", FileBytes(text)) from error
                block = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
    if not unpacker.eof:
        raise DamagedGzip("gzip data ends early", FileBytes(text))
    return FileBytes(text)
