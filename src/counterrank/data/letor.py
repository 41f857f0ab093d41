"""Reading LETOR text (SVMlight or LibSVM with `qid:`): `label qid:id feature:value ... #comment`.

Two passes over the bytes, both in pieces on several threads. The first finds lines, query ids and the number
of features, so that the row of every line is known; the second parses straight into the matrix.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.common.checks import Float32Array, IntArray
from counterrank.common.errors import CounterrankError, LetorError
from counterrank.common.files import PathLike
from counterrank.common.parallel import run_parallel, thread_count
from counterrank.common.progress import progress
from counterrank.data import _letor_kernels as kernels
from counterrank.data._letor_bytes import DamagedGzip, FileBytes, read_bytes
from counterrank.data._letor_kernels import DOC, DOC_END, MAX_FEATURE_ID, QID, QID_END
from counterrank.data._letor_numbers import Text
from counterrank.data._tokens import read_ids, same_tokens
from counterrank.data.ids import first_repeat_in_query, group_rows, is_regrouped, place_in_query
from counterrank.data.ranking_data import RankingData

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
    _check_n_features(n_features)
    return _LetorFile(path, n_threads).read(n_features or 0)


def _check_n_features(n_features: Any) -> None:
    if n_features is None:
        return
    whole = isinstance(n_features, int | np.integer) and not isinstance(n_features, bool)
    if not whole or not 1 <= n_features <= MAX_FEATURE_ID:
        raise CounterrankError(
            f"n_features={n_features!r}: expected a whole number from 1 to {MAX_FEATURE_ID}, or None"
        )


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
        offsets, rows = group_rows(codes, int(codes.max()) + 1)
        features, labels = self._parse(rows, max(self.width, least_width))
        first = np.flatnonzero(np.diff(np.maximum.accumulate(codes), prepend=-1))
        query_ids = read_ids(self.text, begin[first], end[first])
        doc_ids = self._doc_ids(offsets, rows, query_ids)
        source, moved = str(self.path), is_regrouped(rows)
        return RankingData._trusted(features, offsets, labels, query_ids, doc_ids, source, moved)

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

        jobs = [_job(find, start, end) for start, end in pairwise(self.cuts)]
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
        self._warn_clipped(clipped)
        return features, labels

    def _warn_clipped(self, clipped: IntArray) -> None:
        places = clipped[clipped[:, 0] > 0, 1]
        if len(places):
            warnings.warn(
                f"{self.path}: {clipped[:, 0].sum()} values are too large for float32 and became the largest there is, "
                f"the first in line {self._line_number(int(places[0]))}",
                stacklevel=5,
            )

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

            results = run_parallel([_job(parse, i) for i in range(len(pieces))], self.threads)
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


def _job(function: Callable[..., Any], *args: Any) -> Callable[[], Any]:
    return lambda: function(*args)


def _shown(text: bytes | str) -> str:
    """Text for a message: quoted, what cannot be read escaped, cut after about 40 characters."""
    words = text[:200].decode("utf-8", "backslashreplace") if isinstance(text, bytes) else text
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words[:100])
    return f"'{shown}'" if len(shown) <= 40 else f"'{shown[:37]}...'"
