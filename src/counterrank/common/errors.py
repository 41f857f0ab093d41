"""Errors that say what was wrong, where, and what was expected; and warnings.

All of them are `ValueError`, so a caller needs to know none of these names; the command turns each into one line.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from itertools import islice
from pathlib import PurePath
from typing import Any

_LONG, _ITEMS, _DEPTH = 200, 8, 3  # letters of a text, items of a list and levels of lists that messages show


def printable(text: str) -> str:
    """A text from outside as one line: it can neither begin another one nor speak to the terminal.

    >>> printable("a\\nb\\x1b[2J")
    'a b?[2J'
    """
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))


def brief(value: object, most: int = 60) -> str:
    """A value of any type for a message: one short line, whatever it is; of a table or an array, its type and shape.

    >>> brief("v2"), brief(0.5), brief([1, 2, 3]), brief({"k": None})
    ("'v2'", '0.5', '[1, 2, 3]', "{'k': None}")
    >>> import numpy as np
    >>> brief(np.zeros((1000, 3))), brief([np.zeros(3)] * 9), brief("x" * 100)[-6:]
    ('ndarray of shape (1000, 3)', '[ndarray of shape (3,), ndarray of shape (3,), ndarray of...', 'xxx...')
    """
    words = printable(_words(value))
    return words if len(words) <= most else words[: most - 3] + "..."


def _words(value: object, depth: int = 0) -> str:
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | PurePath | type):
        shown = value[:_LONG] if isinstance(value, str | bytes) else value
        return shown.__name__ if isinstance(shown, type) else repr(shown)
    if depth < _DEPTH and type(value) in (list, tuple, set, frozenset, dict):
        return _items(value, depth)
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"{type(value).__name__} of shape {shape}"
    if isinstance(shape, tuple) and hasattr(value, "item"):
        return repr(value.item())  # a number of numpy
    return type(value).__name__


def _items(value: Any, depth: int) -> str:
    """The first items of a list, tuple, set or dict."""
    first = list(islice(value.items() if isinstance(value, dict) else value, _ITEMS))
    if isinstance(value, dict):
        words = [f"{_words(key, depth + 1)}: {_words(item, depth + 1)}" for key, item in first]
    else:
        words = [_words(item, depth + 1) for item in first]
    words += ["..."] if len(value) > len(first) else []
    begin, end = ("[", "]") if isinstance(value, list) else ("(", ")") if isinstance(value, tuple) else ("{", "}")
    end = f",{end}" if isinstance(value, tuple) and len(value) == 1 else end
    return f"{begin}{', '.join(words)}{end}"


_PLAIN_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")


def quoted(value: object, most: int = 60) -> str:
    """A value from outside, such as an id, for a message: texts in quotes, so that blanks show, numbers without.

    Texts that write a number in the usual way are shown as numbers: to a log, 7 and "7" are one id.

    >>> [quoted(each) for each in (" tv ", "007", 7, "7", "0.5", None, "a\\nb")]
    ["' tv '", "'007'", '7', '7', '0.5', 'None', "'a\\\\nb'"]
    """
    words = repr(str(value)) if isinstance(value, str) else printable(str(value))  # numpy's texts too
    if isinstance(value, str) and _PLAIN_NUMBER.fullmatch(value):
        words = value
    return words if len(words) <= most else words[: most - 3] + "..."


def listed(names: Iterable[object], most: int = 5) -> str:
    """Names for a message, at most a few of them, and none of them too long.

    >>> listed(["price", "rating"]), listed("abcdefg", most=2), listed([])
    ("'price', 'rating'", "'a', 'b' and 5 more", 'none')
    """
    found = list(names)
    shown = ", ".join(repr(printable(str(name))[:60]) for name in found[:most]) or "none"
    return shown + (f" and {len(found) - most:,} more" if len(found) > most else "")


def close_names(
    name: str, known: Iterable[str], also: Sequence[str] = (), words: Sequence[str] = (), cutoff: float = 0.6
) -> list[str]:
    """The known names that are close to a name, the closest first; case, blanks and signs do not count.

    Arguments:
        name: the name that is wanted.
        known: the names that there are.
        also: what it is called too, in lower case with _ between words.
        words: names with one of these words are close as well.
        cutoff: how similar the letters must be at least, from 0 to 1; see `difflib.get_close_matches`.

    >>> close_names("Price", ["stock", "price "]), close_names("policy", ["Logging Policy"], words=["policy"])
    (['price '], ['Logging Policy'])
    """
    from difflib import get_close_matches

    plain: dict[str, str] = {}
    for each in known:
        plain.setdefault(plain_name(str(each)), str(each))
    wanted = plain_name(name)
    found = [each for each in (wanted, *also) if each in plain]
    found += [each for each in plain if not set(words).isdisjoint(each.split("_"))]
    found += get_close_matches(wanted, plain, 2, cutoff)
    return [plain[each] for each in dict.fromkeys(found)]


def plain_name(name: str) -> str:
    """A name in lower case, with _ between its words.

    >>> plain_name("clickRate"), plain_name(" Logging-Policy ")
    ('click_rate', 'logging_policy')
    """
    return re.sub(r"[\W_]+", "_", re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)).strip("_").casefold()


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the known names that are close to it; nothing where none is.

    >>> did_you_mean("Price", ["price", "stock"]), did_you_mean("colour", ["price", "stock"])
    ("; did you mean 'price'?", '')
    """
    close = close_names(str(name), known)[:2]
    return f"; did you mean {' or '.join(repr(printable(each)) for each in close)}?" if close else ""


class CounterrankError(ValueError):
    """Invalid input: the base class of all errors of the library."""


class DataError(CounterrankError):
    """Ranking data that breaks a rule: shapes, offsets, values, ids."""


class LetorError(DataError):
    """A LETOR file that cannot be read, with the file, the line and the text at fault."""


class ModelError(CounterrankError):
    """A saved model that this version does not understand, or that is damaged."""


class ExportError(CounterrankError):
    """A model that a target cannot hold faithfully, or names that do not fit it."""


class NotTrainedError(CounterrankError, AttributeError):
    """A ranker that has not been fitted yet."""


class NothingToLearnError(CounterrankError):
    """Weights that are the same for all documents of each query."""


class ConstantFeaturesError(NothingToLearnError):
    """Features that are the same for all documents of each query."""


class MissingExtraError(CounterrankError, ImportError):
    """A package that this use needs and that is not installed."""


class MissingFileError(CounterrankError, FileNotFoundError):
    """A file or folder that is not there."""


class CoverageWarning(UserWarning):
    """The clicks violate the condition under which an estimator is unbiased."""


class ExaminationWarning(UserWarning):
    """An estimated examination curve is unreliable, because the log hardly supports it."""


class LogWarning(UserWarning):
    """Some rows or columns of a click log are not used."""


class RegroupedWarning(UserWarning):
    """An array of scores was given for data whose rows are not in the order of the frame or file they came from."""


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside this package that led here, so that each such line is warned about once.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warn_caller("few clicks")
    >>> str(caught[0].message)
    'few clicks'
    """
    frame, level, package = sys._getframe(), 1, __name__.partition(".")[0]
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def require(package: str, extra: str, what: str) -> None:
    """Go on if the package can be imported; else an error that names the extra it comes with.

    >>> require("json", "torch", "a neural ranker")
    >>> require("no_such_package", "torch", "a neural ranker")
    Traceback (most recent call last):
    counterrank.common.errors.MissingExtraError: a neural ranker needs no_such_package; pip install 'counterrank[torch]'
    """
    if find_spec(package) is None:
        raise MissingExtraError(f"{what} needs {package}; pip install 'counterrank[{extra}]'")


@cache
def installed_version() -> str:
    """As the installation says.

    >>> installed_version().count(".") >= 1
    True
    """
    from importlib.metadata import version  # not quick to load, and seldom needed

    return version("counterrank")
