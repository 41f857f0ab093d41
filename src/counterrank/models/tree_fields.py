"""The fields of LightGBM's text of trees: names with numbers or lists of them, read as strictly as they are written."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from counterrank.common.checks import FloatArray
from counterrank.common.errors import ModelError, printable

# LightGBM takes more for a number than these, and not always for the one Python takes it for
_WHOLE = re.compile(r"-?[0-9]{1,10}")
_REAL = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?")
_WHOLES = re.compile(rf"{_WHOLE.pattern}(?: {_WHOLE.pattern})*")
_REALS = re.compile(rf"{_REAL.pattern}(?: {_REAL.pattern})*")
_ANY_REAL = re.compile(rf"{_REAL.pattern}|-?inf|-?nan")
_ANY_REALS = re.compile(rf"(?:{_ANY_REAL.pattern})(?: (?:{_ANY_REAL.pattern}))*")


class Fields:
    """Lines of name=value, each name once; a list has one space between its entries.

    >>> fields = Fields(["num_leaves=2", "leaf_value=0.5 -1e-3"])
    >>> fields.whole("num_leaves", 1, 10)
    2
    >>> fields.reals("leaf_value", 2).tolist()
    [0.5, -0.001]
    >>> fields.reals("leaf_value", 3)
    Traceback (most recent call last):
    ...
    counterrank.common.errors.ModelError: leaf_value has 2 entries; expected 3
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._values: dict[str, str] = {}
        for line in lines:
            name, sign, value = line.partition("=")
            if not sign or "=" in value:
                raise ModelError(f"a line {shown(line)}; expected name=value")
            if name in self._values:
                raise ModelError(f"{name} is given twice")
            self._values[name] = value

    def expect(self, names: Iterable[str], others: Iterable[str] = ()) -> None:
        """All of these names are there, and none but them and the others."""
        names = set(names)
        missing, unknown = names - set(self._values), set(self._values) - names - set(others)
        if missing:
            raise ModelError(f"{min(missing)} is missing")
        if unknown:
            raise ModelError(f"a field {shown(min(unknown))} that is not expected here")

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def words(self, name: str, count: int | None = None) -> list[str]:
        """The entries of a list, this many if a count is given."""
        value = self._values[name]
        words = value.split(" ") if value else []
        if count is not None and len(words) != count:
            raise ModelError(f"{name} has {len(words)} entries; expected {count}")
        if "" in words:
            raise ModelError(f"{name}[{words.index('')}] is empty")
        return words

    def pack(self, name: str) -> None:
        """One space between the entries of a list that is written leaf by leaf, with empty entries between leaves."""
        self._values[name] = " ".join(self._values[name].split())

    def whole(self, name: str, low: int, high: int) -> int:
        """One whole number from low to high."""
        if name not in self._values:
            raise ModelError(f"{name} is missing")
        return int(self.wholes(name, 1, low, high)[0])

    def wholes(self, name: str, count: int | None, low: int, high: int) -> NDArray[np.int64]:
        """A list of whole numbers from low to high."""
        words = self.words(name, count)
        if words and not _WHOLES.fullmatch(self._values[name]):
            raise ModelError(_not_a_number(name, words, _WHOLE, "a whole number"))
        numbers = np.array(list(map(int, words)), dtype=np.int64)
        bad = (numbers < low) | (numbers > high)
        if bad.any():
            expected = f"{low}" if low == high else f"{low} to {high}"
            raise ModelError(f"{_entry(name, words, int(bad.argmax()))}; expected {expected}")
        return numbers

    def reals(self, name: str, count: int) -> FloatArray:
        """A list of finite numbers."""
        words = self.words(name, count)
        if words and not _REALS.fullmatch(self._values[name]):
            raise ModelError(_not_a_number(name, words, _REAL, "a finite number"))
        numbers = np.array(list(map(float, words)), dtype=np.float64)
        if not np.isfinite(numbers).all():  # 1e999
            raise ModelError(f"{_entry(name, words, int(np.isfinite(numbers).argmin()))}; expected a finite number")
        return numbers

    def check_remarks(self, name: str, count: int) -> None:
        """A list of numbers that tell how a tree was grown, and that no score depends on."""
        words = self.words(name, count)
        if words and not _ANY_REALS.fullmatch(self._values[name]):
            raise ModelError(_not_a_number(name, words, _ANY_REAL, "a number"))


def shown(text: str) -> str:
    """The beginning of a text from outside, for a message.

    >>> shown("num\\tleaves")
    "'num leaves'"
    """
    return repr(printable(text[:40]))


def _entry(name: str, words: list[str], place: int) -> str:
    where = name if len(words) == 1 else f"{name}[{place}]"
    return f"{where} is {shown(words[place])[1:-1]}"


def _not_a_number(name: str, words: list[str], number: re.Pattern[str], expected: str) -> str:
    place = next(place for place, word in enumerate(words) if not number.fullmatch(word))
    return f"{_entry(name, words, place)}; expected {expected}"
