"""Checks of input at public boundaries; inner code does not repeat them."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.common.errors import CounterrankError, brief

FloatArray = NDArray[np.float64]
Float32Array = NDArray[np.float32]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

T = TypeVar("T")


def check_offsets(offsets: ArrayLike, n_docs: int | None = None, name: str = "offsets") -> IntArray:
    """Offsets as int64: from 0, strictly increasing (no empty query), ending at the number of documents.

    >>> check_offsets([0, 2, 2], 2)
    Traceback (most recent call last):
    ...
    counterrank.common.errors.CounterrankError: offsets: query 1 is empty (2 to 2); expected at least one document
    """
    given = as_array(offsets, name)
    if given.ndim != 1 or len(given) < 2:
        raise CounterrankError(
            f"{name}: shape {given.shape}; expected one dimension with at least two entries (one query)"
        )
    if not np.issubdtype(given.dtype, np.integer):
        raise CounterrankError(f"{name}: type {given.dtype}; expected whole numbers")
    result: IntArray = np.ascontiguousarray(given, dtype=np.int64)
    if result[0] != 0:
        raise CounterrankError(f"{name}: starts at {result[0]}; expected 0")
    bad = np.flatnonzero(np.diff(result) <= 0)
    if len(bad):
        q = int(bad[0])
        fault = "is empty" if result[q] == result[q + 1] else "has a negative length"
        raise CounterrankError(
            f"{name}: query {q} {fault} ({result[q]} to {result[q + 1]}); expected at least one document"
        )
    if n_docs is not None and result[-1] != n_docs:
        raise CounterrankError(f"{name}: ends at {result[-1]}; expected the number of documents, {n_docs}")
    return read_only(result)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view that cannot be written to: numba compiles a kernel once for such arrays and once for all others.

    >>> read_only(np.zeros(1)).flags.writeable
    False
    """
    view = array.view()
    view.flags.writeable = False
    return view


def as_array(values: ArrayLike, name: str) -> NDArray[Any]:
    """A numpy array of whatever was given, or an error that names it.

    >>> as_array([[1], [2, 3]], "scores")
    Traceback (most recent call last):
    ...
    counterrank.common.errors.CounterrankError: scores: cannot be made an array (rows of unequal length?)
    """
    try:
        return np.asarray(values)
    except (ValueError, TypeError):
        raise CounterrankError(f"{name}: cannot be made an array (rows of unequal length?)") from None


def is_two(values: Any) -> bool:
    """Whether these are two vectors, or other objects that are no numbers, in a list, a tuple or an array.

    >>> is_two([1.0, 2.0]), is_two([[1.0, 2.0], [2.0, 1.0]]), is_two(np.zeros((2, 5)))
    (False, True, True)
    """
    if isinstance(values, np.ndarray):
        return values.ndim == 2 and len(values) == 2
    return isinstance(values, list | tuple) and len(values) == 2 and not any(np.isscalar(each) for each in values)


def check_vector(values: ArrayLike, n: int | None, name: str, what: str = "documents") -> FloatArray:
    """A finite float64 vector, of length `n` if that is given.

    >>> check_vector([1, float("nan")], 2, "scores")
    Traceback (most recent call last):
    ...
    counterrank.common.errors.CounterrankError: scores: entry 1 is nan; expected finite numbers
    """
    given = as_array(values, name)
    if given.ndim != 1:
        raise CounterrankError(f"{name}: shape {given.shape}; expected one dimension")
    if not (np.issubdtype(given.dtype, np.number) or given.dtype == np.bool_) or np.iscomplexobj(given):
        raise CounterrankError(f"{name}: type {given.dtype}; expected real numbers")
    if n is not None and len(given) != n:
        raise CounterrankError(f"{name}: {len(given)} entries; expected {n}, the number of {what}")
    result: FloatArray = np.ascontiguousarray(given, dtype=np.float64)
    finite = np.isfinite(result)
    if not finite.all():
        place = int(np.argmin(finite))
        raise CounterrankError(f"{name}: entry {place} is {result[place]}; expected finite numbers")
    return result


def is_real(value: Any) -> bool:
    """Whether this is a number on the real line: no bool, no complex one, no array.

    >>> is_real(1), is_real(np.float32(0.5)), is_real(True), is_real(1j)
    (True, True, False, False)
    """
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def is_whole(value: Any) -> bool:
    """Whether this is a whole number by its type: no bool, no float.

    >>> is_whole(1), is_whole(np.int32(1)), is_whole(1.0), is_whole(True)
    (True, True, False, False)
    """
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_whole(value: Any, name: str, at_least: int = 1, at_most: int | None = None, *, also: str = "") -> int:
    """A whole number within bounds; `also` is what else the argument may be, as the error says it.

    >>> check_whole(5, "folds", 2)
    5
    >>> check_whole(1, "folds", 2, also=", or None")
    Traceback (most recent call last):
    ...
    counterrank.common.errors.CounterrankError: folds=1: expected a whole number of at least 2, or None
    """
    if is_whole(value) and at_least <= value and (at_most is None or value <= at_most):
        return int(value)
    bounds = f"of at least {at_least}" if at_most is None else f"from {at_least} to {at_most}"
    raise CounterrankError(f"{name}={brief(value)}: expected a whole number {bounds}{also}")


def check_number(
    value: Any,
    name: str,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    also: str = "",
) -> float:
    """A finite number within bounds; `also` is what else the error says, such as an example.

    >>> check_number(0.5, "tau", at_least=0, at_most=1)
    0.5
    >>> check_number(1.0, "share", above=0, below=1)
    Traceback (most recent call last):
    ...
    counterrank.common.errors.CounterrankError: share=1.0: expected a number between 0 and 1
    >>> check_number(-1, "ridge", at_least=0)
    Traceback (most recent call last):
    ...
    counterrank.common.errors.CounterrankError: ridge=-1: expected a number of at least 0
    """
    if (
        is_real(value)
        and math.isfinite(value)
        and (above is None or value > above)
        and (at_least is None or value >= at_least)
        and (below is None or value < below)
        and (at_most is None or value <= at_most)
    ):
        return float(value)
    bounds = _bounds(above, at_least, below, at_most)
    raise CounterrankError(f"{name}={brief(value)}: expected a number{bounds}{also}")


def _bounds(above: float | None, at_least: float | None, below: float | None, at_most: float | None) -> str:
    """Bounds in words: each end may be open, closed or missing."""
    low = "" if above is None else f" above {above:g}"
    if at_least is not None:
        low = f" of at least {at_least:g}"
    if below is None and at_most is None:
        return low
    high = f"below {below:g}" if below is not None else f"up to {at_most:g}"
    if not low:
        return f" {high}"
    if above is not None:
        return f" between {above:g} and {below:g}" if below is not None else f"{low}, {high}"
    return f" from {at_least:g} to {high.removeprefix('up to ')}"


def check_confidence(confidence: Any, name: str = "confidence") -> float:
    """A confidence level: between 0 and 1.

    >>> check_confidence(95)
    Traceback (most recent call last):
    ...
    counterrank.common.errors.CounterrankError: confidence=95: expected a number between 0 and 1, such as 0.95
    """
    return check_number(confidence, name, above=0.0, below=1.0, also=", such as 0.95")


def check_cutoff(k: Any, name: str = "k") -> int | None:
    """A cutoff: None for none, or a whole number of at least 1.

    >>> check_cutoff(5), check_cutoff(None)
    (5, None)
    """
    return None if k is None else check_whole(k, name, also=", or None for no cutoff")


def check_choice(value: Any, choices: tuple[str, ...], name: str) -> str:
    """One of the allowed words.

    >>> check_choice("hinge", ("hinge", "logistic"), "bound")
    'hinge'
    """
    if not isinstance(value, str) or value not in choices:
        raise CounterrankError(f"{name}={brief(value)}: expected one of {', '.join(map(repr, choices))}")
    return str(value)


def make_generator(seed: int | np.random.Generator) -> np.random.Generator:
    """A numpy generator from a seed, or the one given.

    >>> int(make_generator(0).integers(100)) == int(make_generator(0).integers(100))
    True
    """
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(check_whole(seed, "seed", 0, also=", or a numpy Generator"))


def check_type(value: Any, expected: type[T], name: str) -> T:
    """A value of the expected type.

    >>> check_type([1], dict, "policies")
    Traceback (most recent call last):
    ...
    counterrank.common.errors.CounterrankError: policies: list; expected dict
    """
    if not isinstance(value, expected):
        raise CounterrankError(f"{name}: {type(value).__name__}; expected {expected.__name__}")
    return value
