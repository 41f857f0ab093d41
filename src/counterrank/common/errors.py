"""Errors that say what was wrong, where, and what was expected; and warnings.

All of them are `ValueError`, so a caller needs to know none of these names; the command turns each into one line.
"""

from __future__ import annotations

from importlib.util import find_spec


def printable(text: str) -> str:
    """A text from outside as one line: it can neither begin another one nor speak to the terminal.

    >>> printable("a\\nb\\x1b[2J")
    'a b?[2J'
    """
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))


class CounterrankError(ValueError):
    """Anything the caller handed over that cannot be used."""


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
    """An estimator was given clicks that break the condition under which it is unbiased."""


class ExaminationWarning(UserWarning):
    """An examination curve was estimated from a log that hardly supports it."""


def require(package: str, extra: str, what: str) -> None:
    """Go on if the package can be imported; else an error that names the extra it comes with.

    >>> require("json", "torch", "a neural ranker")
    >>> require("no_such_package", "torch", "a neural ranker")
    Traceback (most recent call last):
    counterrank.common.errors.MissingExtraError: a neural ranker needs no_such_package; pip install 'counterrank[torch]'
    """
    if find_spec(package) is None:
        raise MissingExtraError(f"{what} needs {package}; pip install 'counterrank[{extra}]'")


def installed_version() -> str:
    """As the installation says.

    >>> installed_version().count(".") >= 1
    True
    """
    from importlib.metadata import version  # not quick to load, and seldom needed

    return version("counterrank")
