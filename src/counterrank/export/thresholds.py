"""Where a split parts raw float32 values: the largest value that goes left.

LightGBM compares in double: a scaled feature s goes left of the threshold t when s <= t, after every |s| up to 1e-35
was taken for zero. Targets compare raw features in float32. Whether a value goes left never turns back to no as the
value falls, so one float32 number tells all of it: the last one that goes left. It is looked for among all float32
numbers, by the very comparison LightGBM makes, and is exact by construction.
"""

from __future__ import annotations

import numpy as np

from counterrank.common.checks import FloatArray
from counterrank.common.jit import Array

# LightGBM's kZeroThreshold, a float32 number
ZERO = float(np.float32(1e-35))
LARGEST = float(np.finfo(np.float32).max)
_TOP = int(np.float32(LARGEST).view(np.int32))  # the place of the largest number, counted from zero


def last_left(thresholds: FloatArray, low: FloatArray, inverse: FloatArray) -> FloatArray:
    """The largest raw float32 value x whose scaled value float32((x - low) * inverse) goes left of each threshold.

    -inf where none goes left. Raw values are finite, so the largest float32 number means that all go left.

    >>> one = np.ones(4)
    >>> last_left(np.array([0.5, 0.1, 0.0, -1e300]), 0 * one, one).tolist()
    [0.5, 0.09999999403953552, 1.0000000180025095e-35, -inf]
    >>> last_left(np.array([1.0]), np.array([10.0]), np.array([0.5])).tolist()
    [12.0]
    """
    below = np.full(len(thresholds), -_TOP - 1)  # goes left, or lies before all numbers
    above = np.full(len(thresholds), _TOP + 1)  # goes right, or lies after all numbers
    while np.any(above - below > 1):
        middle = np.clip((below + above) // 2, -_TOP, _TOP)
        left = _goes_left(_number_at(middle), thresholds, low, inverse)
        below, above = np.where(left, middle, below), np.where(left, above, middle)
    return np.where(below < -_TOP, -np.inf, _number_at(np.maximum(below, -_TOP)).astype(np.float64))


def _goes_left(raw: Array, thresholds: FloatArray, low: FloatArray, inverse: FloatArray) -> Array:
    with np.errstate(over="ignore"):
        scaled = ((raw.astype(np.float64) - low) * inverse).astype(np.float32).astype(np.float64)
    left: Array = np.where(np.abs(scaled) <= ZERO, 0.0, scaled) <= thresholds
    return left


def _number_at(place: Array) -> Array:
    """The float32 number at a place in the order of all of them, with 0 at 0."""
    numbers = np.abs(place).astype(np.int32).view(np.float32)
    return np.where(place < 0, -numbers, numbers)
