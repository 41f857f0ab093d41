"""Byte kernels under the LETOR parser: eight bytes at a time, and decimal numbers.

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

from counterrank.common.jit import F, compiled


def byte_kernel(function: F) -> F:
    """Compile a function over the bytes of a text; no fast-math, the digits of a number hang on every rounding."""
    return compiled(function, set())


def byte_step(function: F) -> F:
    """As `byte_kernel`, to be built into its callers."""
    return compiled(function, set(), forceinline=True)


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

    Up to seven digits on each side of the point are dealt with here: most values have no more, and all such
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


@byte_kernel
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


@byte_kernel
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
