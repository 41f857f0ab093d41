"""Byte kernels for LETOR text: find the lines, then parse each into its row of the matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.data._letor_numbers import (
    Text,
    any_number,
    byte_at,
    byte_kernel,
    byte_step,
    number,
    trailing_zeros,
    word_at,
)

Array = NDArray[Any]

LARGEST = np.finfo(np.float32).max
MAX_FEATURE_ID = 1_000_000  # beyond it an id is taken for junk: one row would be 4 MB
START, STOP, QID, QID_END, DOC, DOC_END = range(6)  # columns of the line table

# what may be wrong with a line
FINE, BAD_LABEL, NO_QUERY, BAD_QUERY, BAD_DOCUMENT, BAD_FEATURE, BAD_ID, BAD_VALUE, REPEATED = range(9)

_ONES = np.uint64(0x0101010101010101)
_HIGHS = np.uint64(0x8080808080808080)
_NEWLINES = np.uint64(0x0A0A0A0A0A0A0A0A)
_HASHES = np.uint64(0x2323232323232323)


@byte_kernel
def _find(text: Text, place: int, end: int, this: Any, that: Any) -> Any:
    """The first of two bytes (each given eight times over as a word) in `place:end`, or `end`."""
    while place < end:
        word = word_at(text, place)
        a = word ^ this
        b = word ^ that
        hit = (((a - _ONES) & ~a) | ((b - _ONES) & ~b)) & _HIGHS  # the lowest mark is always a true one
        if hit:
            return min(end, place + (trailing_zeros(hit) >> 3))
        place += 8
    return end


@byte_kernel
def line_end(text: Text, place: int) -> Any:
    """Where the line after the next line break begins, or the end of the text."""
    return min(text.size, _find(text, place, text.size, _NEWLINES, _NEWLINES) + 1)


@byte_kernel
def count_lines(text: Text, place: int) -> int:
    """The number of line breaks before `place`."""
    breaks = 0
    at = _find(text, 0, place, _NEWLINES, _NEWLINES)
    while at < place:
        breaks += 1
        at = _find(text, at + 1, place, _NEWLINES, _NEWLINES)
    return breaks


@byte_step
def _is_blank(byte: int) -> bool:
    return byte == 32 or (9 <= byte <= 13 and byte != 10)


@byte_step
def _skip_blanks(text: Text, place: int, stop: int) -> int:
    while place < stop and _is_blank(byte_at(text, place)):
        place += 1
    return place


@byte_kernel
def token_end(text: Text, place: int, stop: int) -> int:
    """Where the token at `place` ends: at a blank or at `stop`."""
    while place < stop and not _is_blank(byte_at(text, place)):
        place += 1
    return place


@byte_kernel
def _twice_as_long(table: Array) -> Array:
    longer = np.empty((2 * len(table), table.shape[1]), np.int64)
    for i in range(len(table)):  # assigning a slice would take ten times as long to compile
        for j in range(table.shape[1]):
            longer[i, j] = table[i, j]
    return longer


@byte_kernel
def find_lines(text: Text, start: int, end: int) -> tuple[Array, int, int]:
    """The lines with documents in `start:end`: a table, how many rows of it are filled, the widest last id.

    Nothing is judged here: what is missing stays empty, and the parser reports it.
    """
    table = np.empty((1024, 6), np.int64)
    n, widest = 0, 0
    while start < end:
        stop = _find(text, start, end, _NEWLINES, _HASHES)
        comment = stop
        if stop < end and byte_at(text, stop) == 35:
            comment = _find(text, stop, end, _NEWLINES, _NEWLINES)
        first = _skip_blanks(text, start, stop)
        if first < stop:
            if n == len(table):
                table = _twice_as_long(table)
            line = table[n]
            line[START], line[STOP] = first, stop
            line[QID], line[QID_END] = _query_token(text, first, stop)
            line[DOC], line[DOC_END] = _document_token(text, stop, comment)
            widest = max(widest, _last_feature_id(text, first, stop))
            n += 1
        start = comment + 1
    return table, n, widest


@byte_kernel
def _query_token(text: Text, place: int, stop: int) -> tuple[int, int]:
    place = _skip_blanks(text, token_end(text, place, stop), stop)
    end = token_end(text, place, stop)
    if end - place > 4 and (word_at(text, place) & np.uint64(0xFFFFFFFF)) == np.uint64(0x3A646971):  # qid:
        return place + 4, end
    return place, place


@byte_kernel
def _document_token(text: Text, place: int, end: int) -> tuple[int, int]:
    """The X of a comment that begins `#docid = X`."""
    place = _skip_blanks(text, place + 1, end)
    if end - place < 5 or (word_at(text, place) & np.uint64(0xFFFFFFFFFF)) != np.uint64(0x6469636F64):  # docid
        return end, end
    place = _skip_blanks(text, place + 5, end)
    if place >= end or byte_at(text, place) != 61:  # =
        return end, end
    place = _skip_blanks(text, place + 1, end)
    return place, token_end(text, place, end)


@byte_kernel
def _last_feature_id(text: Text, first: int, stop: int) -> int:
    while stop > first and _is_blank(byte_at(text, stop - 1)):
        stop -= 1
    place = stop
    while place > first and not _is_blank(byte_at(text, place - 1)):
        place -= 1
    number = 0
    while place < stop and 48 <= byte_at(text, place) <= 57 and number <= MAX_FEATURE_ID:
        number = 10 * number + (byte_at(text, place) - 48)
        place += 1
    return number if place < stop and byte_at(text, place) == 58 and number <= MAX_FEATURE_ID else 0


@byte_kernel
def _is_text(text: Text, place: int, end: int) -> bool:
    """Whether an id is UTF-8 without control characters."""
    while place < end:
        byte = byte_at(text, place)
        place += 1
        if byte < 0x80:
            if byte < 0x20 or byte == 0x7F:
                return False
            continue
        more = (byte >= 0xC2) + (byte >= 0xE0) + (byte >= 0xF0)
        if more == 0 or byte > 0xF4 or place + more > end:
            return False
        second = byte_at(text, place)
        if (byte == 0xE0 and second < 0xA0) or (byte == 0xF0 and second < 0x90):  # longer than need be
            return False
        if (byte == 0xED and second > 0x9F) or (byte == 0xF4 and second > 0x8F):  # surrogates, out of range
            return False
        for i in range(more):
            if byte_at(text, place + i) & 0xC0 != 0x80:
                return False
        place += more
    return True


@byte_step
def _feature_id(text: Text, place: int, stop: int) -> tuple[int, int]:
    """The feature id before a colon (0 if it is none), and the place behind the colon (-1 without one)."""
    first, value = place, 0
    while place < stop and 48 <= byte_at(text, place) <= 57:
        value = min(10 * value + (byte_at(text, place) - 48), MAX_FEATURE_ID + 1)
        place += 1
    if place < stop and byte_at(text, place) == 58 and place > first:
        return value if value <= MAX_FEATURE_ID else 0, place + 1
    while place < stop and byte_at(text, place) != 58 and not _is_blank(byte_at(text, place)):
        place += 1
    return 0, place if place < stop and byte_at(text, place) == 58 else -1


@byte_kernel
def _mark_ids(text: Text, place: int, stop: int, seen: Array, mark: int) -> None:
    """Note the ids of the features in `place:stop`, which are known to be good."""
    while place < stop:
        feature, _ = _feature_id(text, place, stop)
        if feature <= len(seen):
            seen[feature - 1] = mark
        place = _skip_blanks(text, token_end(text, place, stop), stop)


@byte_step
def _parse_features(
    text: Text, place: int, stop: int, row: Array, seen: Array, mark: int, clipped: Array
) -> tuple[int, int, int]:
    """Parse the features in `place:stop` into `row`; what is wrong, where, and the largest id.

    While ids increase, none can occur twice and every cell is written once. From the first one out of order,
    `seen` holds `mark` for each id of this line. Ids beyond the row are only counted. Values beyond float32 become
    its largest; `clipped` counts them and keeps the place of the first.
    """
    start, last, in_order, width = place, 0, True, len(row)
    while place < stop:
        token = place
        feature, place = _feature_id(text, place, stop)
        if feature == 0:
            return BAD_FEATURE if place < 0 else BAD_ID, token, last
        if place >= stop:
            return BAD_VALUE, token, last
        value, place = number(text, place, stop)
        if place < 0 or (place < stop and not _is_blank(byte_at(text, place))):
            return BAD_VALUE, token, last
        small = np.float32(value)
        if not np.isfinite(small):
            small = LARGEST if value > 0.0 else -LARGEST
            if clipped[0] == 0:
                clipped[1] = token
            clipped[0] += 1
        if feature > last:
            for i in range(last, min(feature - 1, width)):
                row[i] = 0.0
            last = feature
        elif in_order:
            _mark_ids(text, start, token, seen, mark)
            in_order = False
        if feature <= width:
            if not in_order:
                if seen[feature - 1] == mark:
                    return REPEATED, token, last
                seen[feature - 1] = mark
            row[feature - 1] = small
        place = _skip_blanks(text, place, stop)
    for i in range(last, width):
        row[i] = 0.0
    return FINE, place, last


@byte_kernel
def parse_lines(
    text: Text, table: Array, rows: Array, features: Array, labels: Array, clipped: Array
) -> tuple[int, int, int, int]:
    """Parse the lines of `table` into `rows` of the matrix and the labels.

    Gives what is wrong first, the place in the text, the line of the table, and the largest feature id met.
    """
    seen = np.zeros(features.shape[1], np.int64)
    widest = 0
    for i in range(len(table)):
        line = table[i]
        place, stop = line[START], line[STOP]
        value, end = any_number(text, place, stop)
        label = np.float32(value)
        if end < 0 or (end < stop and not _is_blank(byte_at(text, end))) or not np.isfinite(label):
            return BAD_LABEL, place, i, widest
        if line[QID] == line[QID_END]:
            return NO_QUERY, line[QID], i, widest
        if not _is_text(text, line[QID], line[QID_END]):
            return BAD_QUERY, line[QID], i, widest
        if not _is_text(text, line[DOC], line[DOC_END]):
            return BAD_DOCUMENT, line[DOC], i, widest
        labels[rows[i]] = label
        place = _skip_blanks(text, line[QID_END], stop)
        fault, place, last = _parse_features(text, place, stop, features[rows[i]], seen, i + 1, clipped)
        widest = max(widest, last)
        if fault != FINE:
            return fault, place, i, widest
    return FINE, 0, 0, widest
