"""Numbers for targets that compute in float32: neighbours, texts, and scales."""

from __future__ import annotations

import numpy as np

from counterrank.common.errors import ExportError


def next_number(value: float) -> float:
    """The next larger float32 number, with which "x < next" says what "x <= value" says.

    >>> next_number(1.0) == 1.0 + 2.0**-23
    True
    """
    return float(np.nextafter(np.float32(value), np.float32(np.inf)))


def decimal(value: float) -> str:
    """A short text that both a float32 parser and a double parser followed by a cast turn into float32(value).

    >>> decimal(0.1), decimal(float(np.float32(1e-35)))
    ('0.1', '1e-35')
    """
    number = np.float32(value)
    short = str(number)
    return short if np.float32(float(short)) == number else repr(float(number))


def standard_numbers(mean: float, inverse: float, feature: int) -> tuple[float, float]:
    """Mean and deviation as float32 numbers, which the targets hold; an error where they are none.

    >>> standard_numbers(0.5, 4.0, feature=0)
    (0.5, 0.25)
    """
    with np.errstate(over="ignore"):
        numbers = np.float32(mean), np.float32(1.0 / inverse)
    if not np.isfinite(numbers).all() or numbers[1] <= 0.0:
        raise ExportError(
            f"feature {feature + 1}: a mean of {mean:g} and a deviation of {1.0 / inverse:g} do not fit into float32, "
            "in which the target computes; scale the feature before training"
        )
    return float(decimal(float(numbers[0]))), float(decimal(float(numbers[1])))
