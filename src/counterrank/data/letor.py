"""Reading LETOR text (SVMlight or LibSVM with `qid:`): `label qid:id feature:value ... #comment`.

Two passes over the bytes, both in pieces on several threads. The first finds lines, query ids and the number
of features, so that the row of every line is known; the second parses straight into the matrix.
"""

from __future__ import annotations

import mmap
import os
import warnings
import zlib
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from counterrank.common.checks import Float32Array, IntArray, check_whole
from counterrank.common.errors import LetorError
from counterrank.common.files import PathLike, existing
from counterrank.common.jit import Array
from counterrank.common.parallel import run_parallel, thread_count
from counterrank.common.progress import progress
from counterrank.data import letor_kernels as kernels
from counterrank.data.ids import first_repeat_in_query, group_rows, place_in_query
from counterrank.data.letor_kernels import DOC, DOC_END, MAX_FEATURE_ID, QID, QID_END, Text, byte_kernel
from counterrank.data.ranking_data import RankingData

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
        """Let the system drop the bytes in `start:end` from memory; they may still be read again."""
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
    """All bytes of a file, unpacked if it is gzip by its first bytes, whatever its name."""
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


def same_tokens(text: Array, begin: IntArray, end: IntArray) -> IntArray:
    """A number for each token, counted from 0 in order of first appearance; equal tokens share one.

    >>> text = np.frombuffer(b"b a b", np.uint8)
    >>> same_tokens(text, np.array([0, 2, 4]), np.array([1, 3, 5])).tolist()
    [0, 1, 0]
    """
    starts = _run_starts(text, begin, end)  # lines of one query mostly follow each other
    runs = _as_arrow(text, begin[starts], end[starts]).dictionary_encode()
    codes: IntArray = runs.indices.to_numpy().astype(np.int64)[np.cumsum(starts) - 1]
    return codes


def read_ids(text: Array, begin: IntArray, end: IntArray) -> NDArray[Any]:
    """The tokens as int64 if all are whole numbers spelled in the usual way, else as strings.

    >>> text = np.frombuffer(b"7 -12 007", np.uint8)
    >>> read_ids(text, np.array([0, 2]), np.array([1, 5])), read_ids(text, np.array([0, 6]), np.array([1, 9]))
    (array([  7, -12]), array(['7', '007'], dtype='<U3'))
    """
    numbers = np.empty(len(begin), np.int64)
    if _whole_numbers(text, begin, end, numbers):
        return numbers
    return np.asarray(_as_arrow(text, begin, end).to_numpy(zero_copy_only=False).astype(np.str_))


def _as_arrow(text: Array, begin: IntArray, end: IntArray) -> Any:
    import pyarrow as pa

    bounds = np.concatenate(([0], np.cumsum(end - begin)))
    joined = np.empty(bounds[-1], np.uint8)
    _gather(text, begin, bounds, joined)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(joined)]
    return pa.Array.from_buffers(pa.large_string(), len(begin), buffers)


@byte_kernel
def _run_starts(text: Array, begin: Array, end: Array) -> Array:
    """For each token whether it differs from the one before."""
    starts = np.ones(len(begin), np.bool_)
    for i in range(1, len(begin)):
        n = end[i] - begin[i]
        if n == end[i - 1] - begin[i - 1]:
            j = 0
            while j < n and text[begin[i] + j] == text[begin[i - 1] + j]:
                j += 1
            starts[i] = j < n
    return starts


@byte_kernel
def _gather(text: Array, begin: Array, bounds: Array, joined: Array) -> None:
    """Copy the tokens one behind the other, each to its bounds."""
    for i in range(len(begin)):
        for j in range(bounds[i + 1] - bounds[i]):
            joined[bounds[i] + j] = text[begin[i] + j]


@byte_kernel
def _whole_numbers(text: Array, begin: Array, end: Array, out: Array) -> bool:
    """The tokens as int64, if each is spelled as Python would print it; False at the first that is not."""
    largest = np.uint64(2**63 - 1)
    for i in range(len(begin)):
        place, stop = begin[i], end[i]
        negative = place < stop and text[place] == 45
        place += negative
        n = stop - place
        if n < 1 or n > 19 or (text[place] == 48 and (n > 1 or negative)):
            return False
        value = np.uint64(0)
        while place < stop:
            if not 48 <= text[place] <= 57:
                return False
            value = np.uint64(10) * value + np.uint64(text[place] - 48)
            place += 1
        if value > largest:
            return False
        out[i] = -np.int64(value) if negative else np.int64(value)
    return True


_PIECE = 4 << 20  # bytes; small enough that threads end at about the same time
_EXAMPLE = "2 qid:10 1:0.5 2:3 #docid = 7"
_EXPECTED = {
    kernels.BAD_LABEL: ("bad label {}", "a number that fits float32"),
    kernels.NO_QUERY: ("{} stands where the query should", "'qid:' and an id after the label"),
    kernels.BAD_QUERY: ("bad query id {}", "UTF-8 text without control characters"),
    kernels.BAD_DOCUMENT: ("bad document id {}", "UTF-8 text without control characters"),
    kernels.BAD_FEATURE: ("{} is not a feature", "'id:value'"),
    kernels.BAD_ID: ("bad feature id in {}", f"a whole number from 1 to {MAX_FEATURE_ID}"),
    kernels.BAD_VALUE: ("bad value in {}", "a finite decimal number"),
    kernels.REPEATED: ("{} gives its feature a second time", "each feature once per line"),
}


def read_letor(path: PathLike, *, n_features: int | None = None, threads: int | None = None) -> RankingData:
    """Ranking data from one LETOR file, plain or gzip, sparse or dense.

    Lines of a query may stand apart: queries come in order of first appearance, documents in file order.
    Features that a line leaves out are 0. Comments that begin `#docid = X` name the documents; unless all
    lines have one, a document's id is its place in the query from 0. Values too large for float32, which some
    files use as a mark (Istella's largest double), become the largest float32, with a warning.

    Arguments:
        path: the file.
        n_features: at least this many columns, however few the file has.
        threads: how many to use; all cores if None.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.txt"
    >>> _ = path.write_text("2 qid:10 1:0.5 3:7 #docid = 12\\n0 qid:10 2:1e-3 #docid = 15\\n")
    >>> data = read_letor(path)
    >>> data.features.tolist(), data.query_ids.tolist(), data.doc_ids.tolist()
    ([[0.5, 0.0, 7.0], [0.0, 0.0010000000474974513, 0.0]], [10], [12, 15])
    """
    n_threads = thread_count(threads)
    if n_features is not None:
        check_whole(n_features, "n_features", 1, MAX_FEATURE_ID, also=", or None")
    return _LetorFile(path, n_threads).read(n_features or 0)


class _LetorFile:
    """The text of one file and where its lines are; lives as long as the reading."""

    def __init__(self, path: PathLike, threads: int) -> None:
        self.path, self.threads = path, threads
        try:
            self._hold(read_bytes(path))
        except DamagedGzip as error:
            self._hold(error.text)
            raise self._damaged(str(error)) from error
        self.cuts = self._cuts()
        self.lines, self.bounds, self.width = self._find_lines()
        if not len(self.lines):
            fault = "no document up to here" if len(self.text) else "the file is empty"
            raise self._error(len(self.text), fault, f"lines like {_EXAMPLE!r}")

    def _hold(self, source: FileBytes) -> None:
        self.source, self.text = source, source.array
        self.bytes = Text(self.text.ctypes.data, len(self.text))

    def read(self, least_width: int) -> RankingData:
        begin, end = self._column(QID), self._column(QID_END)
        codes = same_tokens(self.text, begin, end)
        offsets, rows, regrouped = group_rows(codes, int(codes.max()) + 1)
        features, labels = self._parse(rows, max(self.width, least_width))
        first = np.flatnonzero(np.diff(np.maximum.accumulate(codes), prepend=-1))
        query_ids = read_ids(self.text, begin[first], end[first])
        doc_ids = self._doc_ids(offsets, rows, query_ids)
        return RankingData._trusted(features, offsets, labels, query_ids, doc_ids, str(self.path), regrouped)

    def _cuts(self) -> list[int]:
        """Where the text is cut into pieces, always behind a line."""
        # a byte order mark is not part of the first label
        cuts = [3 if self.text[:3].tobytes() == b"\xef\xbb\xbf" else 0]
        while cuts[-1] < len(self.text):
            cuts.append(int(kernels.line_end(self.bytes, cuts[-1] + _PIECE)))
        return cuts

    def _find_lines(self) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """The table of all lines, where the lines of each piece begin in it, and the widest last feature id."""

        def find(start: int, end: int) -> tuple[NDArray[np.int64], int]:
            table, n, widest = kernels.find_lines(self.bytes, start, end)
            self.source.release(start, end)
            return table[:n].copy(), widest

        jobs = [partial(find, start, end) for start, end in pairwise(self.cuts)]
        found = run_parallel(jobs, self.threads) if jobs else [(np.empty((0, 6), np.int64), 0)]
        bounds = np.cumsum([0] + [len(table) for table, _ in found])
        return np.concatenate([table for table, _ in found]), bounds, max(widest for _, widest in found)

    def _column(self, column: int) -> IntArray:
        return np.ascontiguousarray(self.lines[:, column])

    def _parse(self, rows: IntArray, width: int) -> tuple[Float32Array, Float32Array]:
        while True:
            features = self._matrix(rows, width)
            labels = np.empty(len(rows), np.float32)
            clipped = np.zeros((len(self.bounds) - 1, 2), np.int64)  # for each piece how many, and the first place
            fault, widest = self._parse_into(rows, features, labels, clipped)
            if widest <= width:
                break
            width = widest  # an id in the middle of a line was larger than those at all ends
        if fault is not None:
            raise fault
        if width == 0:
            raise LetorError(f"{self.path}: no line has a feature; give n_features= for a matrix of zeros")
        places = clipped[clipped[:, 0] > 0, 1]
        if len(places):
            warnings.warn(
                f"{self.path}: {clipped[:, 0].sum()} values are too large for float32 and became the largest there is, "
                f"the first in line {self._line_number(int(places[0]))}",
                stacklevel=4,
            )
        return features, labels

    def _matrix(self, rows: IntArray, width: int) -> Float32Array:
        needed = len(rows) * width * 4
        if needed > _physical_memory():
            # such a width is mostly junk in some line, and an earlier line may be worse
            nothing = np.empty((len(rows), 0), np.float32)
            clipped = np.zeros((len(self.bounds) - 1, 2), np.int64)
            fault, _ = self._parse_into(rows, nothing, np.empty(len(rows), np.float32), clipped)
            raise fault or LetorError(
                f"{self.path}: {len(rows)} documents with feature ids up to {width} need {needed / 1e9:.0f} GB "
                "as a matrix, more than there is; expected feature ids numbered from 1 without large gaps"
            )
        return np.empty((len(rows), width), np.float32)

    def _parse_into(
        self, rows: IntArray, features: Float32Array, labels: Float32Array, clipped: IntArray
    ) -> tuple[LetorError | None, int]:
        """Parse all lines; the error of the first bad line, if any, and the largest feature id."""
        pieces = [slice(a, b) for a, b in pairwise(self.bounds.tolist())]
        with progress(f"reading {Path(self.path).name}", total=len(rows)) as advance:

            def parse(i: int) -> tuple[int, int, int, int]:
                lines, piece = self.lines[pieces[i]], rows[pieces[i]]
                result: tuple[int, int, int, int] = kernels.parse_lines(
                    self.bytes, lines, piece, features, labels, clipped[i]
                )
                self.source.release(self.cuts[i], self.cuts[i + 1])
                advance(len(piece))
                return result

            results = run_parallel([partial(parse, i) for i in range(len(pieces))], self.threads)
        widest = max(widest for _, _, _, widest in results)
        for piece, (fault, place, line, _) in zip(pieces, results, strict=True):
            if fault != kernels.FINE:
                return self._line_error(fault, place, self.lines[piece.start + line]), widest
        return None, widest

    def _doc_ids(self, offsets: IntArray, rows: IntArray, query_ids: NDArray[Any]) -> NDArray[Any]:
        begin, end = self._column(DOC), self._column(DOC_END)
        named = end > begin
        if not named.all():
            if named.any():
                line = self._line_number(self.lines[np.argmin(named), kernels.START])
                warnings.warn(
                    f"{self.path}: line {line} has no '#docid = X' as others have; "
                    "documents are numbered by their place in the query instead",
                    stacklevel=4,
                )
            return place_in_query(offsets)
        doc_ids = np.empty_like(ids := read_ids(self.text, begin, end))
        doc_ids[rows] = ids
        repeat = first_repeat_in_query(doc_ids, offsets, self.threads)
        if repeat is not None:
            query, first, second = repeat
            lines = [self.lines[np.flatnonzero(rows == row)[0], DOC] for row in (first, second)]
            raise self._error(
                lines[1],
                f"document {_shown(str(doc_ids[first]))} of query {_shown(str(query_ids[query]))} "
                f"is named again, after line {self._line_number(lines[0])}",
                "each document once per query",
            )
        return doc_ids

    def _line_error(self, fault: int, place: int, line: NDArray[np.int64]) -> LetorError:
        stop = line[DOC_END] if fault == kernels.BAD_DOCUMENT else line[kernels.STOP]
        token = self.text[place : kernels.token_end(self.bytes, place, stop)]
        what, expected = _EXPECTED[fault]
        return self._error(place, what.format(_shown(token.tobytes()) if len(token) else "nothing"), expected)

    def _damaged(self, fault: str) -> LetorError:
        last = self.text[-200:].tobytes().rpartition(b"\n")[2]
        place = f"behind {_shown(last[-40:])}" if last else "here"
        return self._error(len(self.text), f"{fault} {place}", "a whole file; fetch or pack it again")

    def _error(self, place: int, fault: str, expected: str) -> LetorError:
        return LetorError(f"{self.path}: line {self._line_number(place)}: {fault}; expected {expected}")

    def _line_number(self, place: int) -> int:
        return int(kernels.count_lines(self.bytes, place)) + 1


def _physical_memory() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # not known on this system
        return np.inf


def _shown(text: bytes | str) -> str:
    """Text for a message: quoted, what cannot be read escaped, cut after about 40 characters."""
    words = text[:200].decode("utf-8", "backslashreplace") if isinstance(text, bytes) else text
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words[:100])
    return f"'{shown}'" if len(shown) <= 40 else f"'{shown[:37]}...'"
