"""Which candidates to keep: those that the held-out clicks cannot tell from the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from counterrank.common.checks import FloatArray

# a candidate that is behind the best by more standard errors is left out of the average
_APART = 2.0
# what stays one model needs more than luck to leave the usual choice
_SURELY = 1.0


@dataclass(frozen=True)
class Standing:
    """How a candidate did on held-out clicks.

    Attributes:
        value: its metric, in its natural sign; None if it could not be learned.
        behind: how far it is behind the best, 0 or more.
        error: the standard error of that, over queries.
        kept: whether the ranker is made of it.
    """

    value: float | None
    behind: float
    error: float
    kept: bool


def standings(parts: Sequence[FloatArray | None], sign: float) -> list[Standing]:
    """Compare by paired differences over queries; kept is who is not clearly behind.

    >>> good, close, bad = np.array([[3.0, 1.0, 2.0], [1.0, 3.0, 1.5], [0.0, 0.1, 0.3]])
    >>> [each.kept for each in standings([good, close, bad, None], 1.0)]
    [True, True, False, False]
    """
    values = [-np.inf if part is None else float(part.sum()) for part in parts]
    best = parts[int(np.argmax(values))]
    assert best is not None
    found = []
    for part, value in zip(parts, values, strict=True):
        if part is None:
            found.append(Standing(None, np.inf, 0.0, False))
            continue
        behind, error = difference(best, part)
        found.append(Standing(sign * value, behind, error, behind <= _APART * error))
    return found


def one_of(parts: Sequence[FloatArray | None], usual: int) -> int:
    """The number of the only one to keep: the usual one unless another is better by more than luck.

    >>> usual, better = np.array([[1.0, 1.0, 1.2], [1.5, 1.6, 1.6]])
    >>> one_of([usual, better], 0), one_of([usual, usual + [0.1, -0.1, 0.0]], 0)
    (1, 0)
    """
    values = [-np.inf if part is None else float(part.sum()) for part in parts]
    old = parts[usual]
    if old is None:
        return int(np.argmax(values))
    for number in np.argsort(values)[::-1].tolist():
        part = parts[number]
        if part is not None:
            ahead, error = difference(part, old)
            if ahead > _SURELY * error:
                return int(number)
    return usual


def difference(one: FloatArray, other: FloatArray) -> tuple[float, float]:
    """How much better one is than the other, and the standard error of that."""
    each = one - other
    n = len(each)
    return float(each.sum()), float(np.sqrt(n * each.var(ddof=1))) if n > 1 else 0.0
