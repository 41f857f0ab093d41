"""Measuring: medians of several runs, and rows of a table."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from time import perf_counter
from typing import Any


def seconds_of(action: Callable[[], Any]) -> float:
    """The time of one run."""
    begin = perf_counter()
    action()
    return perf_counter() - begin


def median_seconds(action: Callable[[], Any], repeats: int) -> float:
    """The median time of `repeats` runs, after one that compiles and warms up."""
    action()
    return statistics.median(seconds_of(action) for _ in range(repeats))


def medians_in_turn(actions: list[Callable[[], Any]], repeats: int) -> list[float]:
    """The median time of each, run in turn so that other load affects all."""
    for action in actions:
        action()
    turns = [[seconds_of(action) for action in actions] for _ in range(repeats)]
    return [statistics.median(times) for times in zip(*turns, strict=True)]


def best_seconds(actions: list[Callable[[], Any]], repeats: int) -> list[float]:
    """The best time of each, run in turn: for comparing thread counts on shared machines."""
    best = [float("inf")] * len(actions)
    for action in actions:
        action()
    for _ in range(repeats):
        for i, action in enumerate(actions):
            best[i] = min(best[i], seconds_of(action))
    return best


def row(
    name: str, seconds: float | None, ratio: float | None = None, target: str = "", met: bool | None = None
) -> dict[str, Any]:
    """One line of the table; ratios depend less on the machine than seconds."""
    return {"name": name, "seconds": seconds, "ratio": ratio, "target": target, "met": met}


def at_most(name: str, seconds: float, base: float, limit: float | None) -> dict[str, Any]:
    """How many times `base` something costs, and whether that is within the limit."""
    ratio = seconds / base
    return row(name, seconds, ratio, f"<= {limit:g}" if limit else "", None if limit is None else ratio <= limit)


def at_least(name: str, seconds: float, peer: float, limit: float | None) -> dict[str, Any]:
    """How many times faster than `peer` something is, and whether that is enough."""
    ratio = peer / seconds
    return row(name, seconds, ratio, f">= {limit:g}" if limit else "", None if limit is None else ratio >= limit)
