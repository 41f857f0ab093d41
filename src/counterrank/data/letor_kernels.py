"""Byte kernels for LETOR text: find the lines, then parse each into its row of the matrix.

Looking at eight bytes as one word saves branches: the lengths of values are not predictable, and a branch
guessed wrong costs as much as parsing the value.
"""

from __future__ import annotations

import sys
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from counterrank.common.jit import F, compiled


def byte_kernel(function: F) -> F:
    """Compile a function over the bytes of a text; no fast-math, the digits of a number hang on every rounding."""
    return compiled(function, set())


def inner_byte_kernel(function: F) -> F:
    """As `byte_kernel`, for what only other kernels call."""
    return compiled(function, set(), no_cpython_wrapper=True)


def byte_step(function: F) -> F:
    """As `byte_kernel`, to be built into its callers."""
    return compiled(function, set(), forceinline=True)


Array = NDArray[Any]

_LITTLE = sys.byteorder == "little"
_SIXES = np.uint64(0x0606060606060606)
_ZEROS = np.uint64(0x3030303030303030)
_HIGH_HALVES = np.uint64(0xF0F0F0F0F0F0F0F0)
_LOW_HALVES = np.uint64(0x0F0F0F0F0F0F0F0F)
_PAIRS = np.uint64(0x00FF00FF00FF00FF)
_QUADS = np.uint64(0x0000FFFF0000FFFF)
_TENS = np.array([10**i for i in range(8)], dtype=np.uint64)

# powers of ten as a float64 and what it lacks; 19 digits times anything outside is 0 or infinite in float32
_LOWEST, _HIGHEST = -80, 60
_POWERS = [Fraction(10) ** e for e in range(_LOWEST, _HIGHEST + 1)]
_POWER = np.array([float(p) for p in _POWERS])
_POWER_REST = np.array([float(p - Fraction(float(p))) for p in _POWERS])


class Text(NamedTuple):
    """Where bytes lie in memory, and how many; whoever makes one keeps the array behind it alive.

    Kernels take this rather than the array: numba counts references to an array at every call that gets one,
    which costs more than the small steps here, and most of all when threads count at the same time.
    """

    address: int
    size: int


def _loader(bits: int) -> Any:
    def load(typing_context: Any, address: Any, place: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(builder.add(*arguments), ir.IntType(bits).as_pointer())
            return builder.load(pointer, align=1)

        return types.Integer.from_bitwidth(bits, False)(types.int64, types.int64), generate

    return intrinsic(load)


def _trailing_zeros(typing_context: Any, word: Any) -> Any:
    """The number of zero bits below the lowest one; 64 for zero."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(0))

    return types.int64(types.uint64), generate


# Any, because callers do not give the typing context
_load_byte: Any = _loader(8)
_load_word: Any = _loader(64)
trailing_zeros: Any = intrinsic(_trailing_zeros)


@byte_step
def byte_at(text: Text, place: int) -> Any:
    """The byte at `place`, which must lie in the text."""
    return np.int64(_load_byte(text.address, place))


@byte_step
def word_at(text: Text, place: int) -> Any:
    """The eight bytes from `place`, the first in the lowest bits; zeros beyond the end of the text."""
    if _LITTLE and place + 8 <= text.size:
        return _load_word(text.address, place)
    word = np.uint64(0)
    for i in range(min(8, text.size - place)):
        word |= np.uint64(byte_at(text, place + i)) << np.uint64(8 * i)
    return word


@byte_step
def _n_digits(word: Any) -> Any:
    """How many bytes from the first are digits."""
    other = ((word & _HIGH_HALVES) ^ _ZEROS) | (((word + _SIXES) & _HIGH_HALVES) ^ _ZEROS)
    return trailing_zeros(other) >> 3


@byte_step
def _whole(word: Any, n: int) -> Any:
    """The number that the first `n` bytes spell, 1 to 8 digits."""
    x = (word & _LOW_HALVES) << np.uint64(64 - 8 * n)
    x = (x * np.uint64(10) + (x >> np.uint64(8))) & _PAIRS
    x = (x * np.uint64(100) + (x >> np.uint64(16))) & _QUADS
    return (x * np.uint64(10000) + (x >> np.uint64(32))) & np.uint64(0xFFFFFFFF)


@byte_step
def number(text: Text, place: int, stop: int) -> tuple[float, int]:
    """The number at `place` and where it ends, -1 if there is none.

    Up to seven digits on each side of the point are read here: most values have no more, and all such
    fit a float64.
    """
    at = place
    negative = byte_at(text, at) == 45
    if negative or byte_at(text, at) == 43:
        at += 1
    word = word_at(text, at)
    n = _n_digits(word)
    if n == 0 or n == 8:
        return any_number(text, place, stop)
    mantissa = _whole(word, n)
    at += n
    places = 0
    if at < stop and byte_at(text, at) == 46:
        word = word_at(text, at + 1)
        places = _n_digits(word)
        if places == 8:
            return any_number(text, place, stop)
        if places:
            mantissa = mantissa * _TENS[places] + _whole(word, places)
        at += 1 + places
    if at < stop and byte_at(text, at) | 32 == 101:
        return any_number(text, place, stop)
    value = np.float64(mantissa) / np.float64(_TENS[places])
    return -value if negative else value, at


@byte_kernel
def any_number(text: Text, place: int, stop: int) -> tuple[float, int]:
    """Any decimal number, byte by byte: its first 19 digits and a power of ten."""
    negative = place < stop and byte_at(text, place) == 45
    if place < stop and (negative or byte_at(text, place) == 43):
        place += 1
    mantissa, kept, exponent = np.uint64(0), 0, 0
    any_digit, after_point = False, False
    while place < stop and (48 <= byte_at(text, place) <= 57 or (byte_at(text, place) == 46 and not after_point)):
        if byte_at(text, place) == 46:
            after_point = True
        else:
            any_digit = True
            if kept < 19:
                mantissa = mantissa * np.uint64(10) + np.uint64(byte_at(text, place) - 48)
                kept += 1 if mantissa > 0 else 0  # zeros in front do not count
                exponent -= after_point
            else:
                exponent += not after_point
        place += 1
    if not any_digit:
        return 0.0, -1
    if place < stop and byte_at(text, place) | 32 == 101:
        power, place = _exponent(text, place + 1, stop)
        exponent += power
    value = _scaled(mantissa, exponent)
    return -value if negative else value, place


@inner_byte_kernel
def _exponent(text: Text, place: int, stop: int) -> tuple[int, int]:
    """The whole number behind an e, cut off where it no longer matters, and its end (-1 without a digit)."""
    negative = place < stop and byte_at(text, place) == 45
    if place < stop and (negative or byte_at(text, place) == 43):
        place += 1
    first, power = place, 0
    while place < stop and 48 <= byte_at(text, place) <= 57:
        power = min(10 * power + (byte_at(text, place) - 48), 1_000_000_000_000)
        place += 1
    return -power if negative else power, place if place > first else -1


@inner_byte_kernel
def _scaled(mantissa: Any, exponent: int) -> Any:
    """`mantissa` times a power of ten, rounded once from about twice the digits of a float64."""
    if mantissa == 0 or exponent < _LOWEST:
        return 0.0
    if exponent > _HIGHEST:
        return np.inf
    high = np.float64(mantissa)
    low = np.float64(np.int64(mantissa - np.uint64(high)))
    power, rest = _POWER[exponent - _LOWEST], _POWER_REST[exponent - _LOWEST]
    product = high * power
    # the rounding error of the product, from halves whose products are exact (Dekker)
    split = 134217729.0
    high_head = split * high - (split * high - high)
    power_head = split * power - (split * power - power)
    high_tail, power_tail = high - high_head, power - power_head
    error = high_head * power_head - product + high_head * power_tail + high_tail * power_head
    error += high_tail * power_tail
    return product + (error + (high * rest + low * power))


LARGEST = np.finfo(np.float32).max
MAX_FEATURE_ID = 1_000_000  # beyond it an id is taken for junk: one row would be 4 MB
START, STOP, QID, QID_END, DOC, DOC_END = range(6)  # columns of the line table

# what may be wrong with a line
FINE, BAD_LABEL, NO_QUERY, BAD_QUERY, BAD_DOCUMENT, BAD_FEATURE, BAD_ID, BAD_VALUE, REPEATED = range(9)

_ONES = np.uint64(0x0101010101010101)
_HIGHS = np.uint64(0x8080808080808080)
_NEWLINES = np.uint64(0x0A0A0A0A0A0A0A0A)
_HASHES = np.uint64(0x2323232323232323)


@inner_byte_kernel
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
    """Whether a byte separates tokens: a space, or a control character of white space other than the line break."""
    return byte == 32 or (9 <= byte <= 13 and byte != 10)


@byte_step
def _skip_blanks(text: Text, place: int, stop: int) -> int:
    """The first place in `place:stop` without a blank, or `stop`."""
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
    """The same rows with as many free ones behind them."""
    longer = np.empty((2 * len(table), table.shape[1]), np.int64)
    for i in range(len(table)):  # assigning a slice would take ten times as long to compile
        for j in range(table.shape[1]):
            longer[i, j] = table[i, j]
    return longer


@byte_kernel
def find_lines(text: Text, start: int, end: int) -> tuple[Array, int, int]:
    """The lines with documents in `start:end`: a table, how many rows of it are filled, the widest last id.

    Nothing is checked here: what is missing stays empty, and the parser reports it.
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


@inner_byte_kernel
def _query_token(text: Text, place: int, stop: int) -> tuple[int, int]:
    """Where the X of the second token `qid:X` begins and ends; an empty range where that token is another."""
    place = _skip_blanks(text, token_end(text, place, stop), stop)
    end = token_end(text, place, stop)
    if end - place > 4 and (word_at(text, place) & np.uint64(0xFFFFFFFF)) == np.uint64(0x3A646971):  # qid:
        return place + 4, end
    return place, place


@inner_byte_kernel
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


@inner_byte_kernel
def _last_feature_id(text: Text, first: int, stop: int) -> int:
    """The id of the last feature of a line, 0 where it has none."""
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


@inner_byte_kernel
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


@inner_byte_kernel
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
