"""The decimal numbers of LETOR files, against Python's own reading of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterrank.data.letor_kernels import Text, number


def parse(text):
    """What the kernel makes of a text: the value, or None if not all of it is a number."""
    padded = np.frombuffer(text.encode() + b" ", np.uint8)
    value, end = number(Text(padded.ctypes.data, len(padded)), 0, len(text))
    return value if end == len(text.encode()) else None


def as_float32(value):
    with np.errstate(over="ignore"):
        return np.float32(value)


DIGITS = st.text("0123456789", min_size=1, max_size=40)
DECIMALS = st.one_of(
    DIGITS,
    DIGITS.map(lambda d: d + "."),
    DIGITS.map(lambda d: "." + d),
    st.tuples(DIGITS, DIGITS).map(".".join),
)
EXPONENTS = st.one_of(
    st.just(""),
    st.tuples(st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), st.integers(0, 99).map(str)).map("".join),
)
NUMBERS = st.tuples(st.sampled_from(["", "+", "-"]), DECIMALS, EXPONENTS).map("".join)


@settings(max_examples=500, deadline=None)
@given(NUMBERS)
def test_numbers_as_python_reads_them(text):
    assert as_float32(parse(text)) == as_float32(float(text))


@settings(max_examples=500, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["r", ".17g", ".6f", ".3e", "g"]))
def test_printed_floats(value, style):
    text = repr(value) if style == "r" else format(value, style)
    assert as_float32(parse(text)) == as_float32(float(text))


@pytest.mark.parametrize(
    "text",
    [
        "0", "-0", "+7", "5.", ".5", "1e5", "1E+05", "1e-45", "3.4028234663852886e38",
        "1e-99999999999999999999",
        "0.00000000000000000000000000000000000000000000000000000000000000001e64", "1" + "0" * 60 + "e-60",
        "9007199254740993", "12345678", "1234567.1234567", "12345678.12345678",
        "1.00000005960464477539062500001",
        "1.17549435e-38", "0." + "0" * 400 + "1e401", "18446744073709551616", "9999999999999999999",
    ],
)  # fmt: skip
def test_awkward_numbers(text):
    assert as_float32(parse(text)) == as_float32(float(text))


@pytest.mark.parametrize(
    "text", ["", "-", "+", ".", "-.", "e5", "1e", "1e+", "1.2.3", "0x10", "1_0", "nan", "inf", "--1"]
)
def test_not_numbers(text):
    assert parse(text) is None
