"""Errors that say what was wrong, where, and what was expected.

All of them are `ValueError`, so a caller needs to know none of these names; the command turns each into one line.
"""


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
    """A ranker was asked for what it has not learned yet."""


class NothingToLearnError(CounterrankError):
    """Weights that tell no document from another."""


class ConstantFeaturesError(NothingToLearnError):
    """Features that tell no document of a query from another."""


class MissingExtraError(CounterrankError, ImportError):
    """A package that this use needs and that is not installed."""


class MissingFileError(CounterrankError, FileNotFoundError):
    """A file or folder that is not there."""


class CoverageWarning(UserWarning):
    """An estimator was given clicks that break the condition under which it is unbiased."""


class ExaminationWarning(UserWarning):
    """An examination curve was estimated from a log that hardly supports it."""
