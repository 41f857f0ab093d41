"""Intervals over runs for numbers that the summary does not hold, such as the share of a gap that is closed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from counterrank.common.quantiles import student_quantile
from counterrank.report.points import is_number

CONFIDENCE = 0.95


class Span(NamedTuple):
    """A number and the interval around it; without an interval both ends are None."""

    value: float
    low: float | None
    high: float | None


def mean_span(values: Sequence[float]) -> Span:
    """The mean over runs with Student's interval.

    >>> [round(number, 3) for number in mean_span([1.0, 2.0, 3.0])]
    [2.0, -0.484, 4.484]
    """
    n, mean = len(values), sum(values) / len(values)
    if n < 2:
        return Span(mean, None, None)
    half = student_quantile(CONFIDENCE, n - 1) * math.sqrt(_moment(values, values))
    return Span(mean, mean - half, mean + half)


def share_closed(value: dict[str, Any], start: dict[str, Any], end: dict[str, Any]) -> Span | None:
    """How far a value came from `start` (0) to `end` (1), with the interval over paired runs.

    A share s lies in the interval if the runs' means of

        (value - start) - s * (end - start)

    do not differ from zero at the level of Student's test (Fieller's interval, which is exact for normal differences:
    what is uncertain may be the gap as well as what is closed of it). None with fewer than two runs, and where the gap
    itself is not sure, since any share would do then.

    >>> value, start, end = {"values": [0.7, 0.8, 0.75]}, {"values": [0.5] * 3}, {"values": [1.0, 1.0, 0.9]}
    >>> [round(number, 2) for number in share_closed(value, start, end)]
    [0.54, 0.26, 0.93]
    """
    every = zip(*(item.get("values") or [] for item in (value, start, end)), strict=False)
    runs = [run for run in every if all(map(is_number, run))]
    if len(runs) < 2:
        return None
    come, gap = [run[0] - run[1] for run in runs], [run[2] - run[1] for run in runs]
    mean_come, mean_gap = sum(come) / len(runs), sum(gap) / len(runs)
    squared = student_quantile(CONFIDENCE, len(runs) - 1) ** 2
    # those s for which a * s^2 - 2 * b * s + c <= 0
    a = mean_gap**2 - squared * _moment(gap, gap)
    b = mean_come * mean_gap - squared * _moment(come, gap)
    c = mean_come**2 - squared * _moment(come, come)
    if a <= 0.0 or mean_gap <= 0.0:
        return None
    half = math.sqrt(max(b * b - a * c, 0.0))
    return Span(mean_come / mean_gap, (b - half) / a, (b + half) / a)


def _moment(first: Sequence[float], second: Sequence[float]) -> float:
    """The covariance of two means over the same runs."""
    n = len(first)
    one, two = sum(first) / n, sum(second) / n
    return sum((x - one) * (y - two) for x, y in zip(first, second, strict=True)) / (n - 1) / n
