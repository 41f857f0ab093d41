"""Figures as the claims read them: one number per run, larger always better, paired by the index of the run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.common.checks import FloatArray

FULL = "full-information"


@dataclass(frozen=True, eq=False)
class Panel:
    """One panel of a figure.

    Attributes:
        metric: for sentences, "ARP" or "DCG@5".
        points: the values of each series at each x, larger always better (ARP is negated), nan where missing.
        levels: the values of each horizontal line, likewise.
        chosen: which loss each run of the series "selection" chose, at each x.
        runs: how many runs there are at most.
        sign: -1 where values were negated.
    """

    metric: str
    points: Mapping[str, Mapping[float | None, FloatArray]]
    levels: Mapping[str, FloatArray]
    chosen: Mapping[float | None, Sequence[str | None]]
    runs: int
    sign: float = 1.0

    def xs(self, *series: str) -> list[float]:
        """Where any of these series has a point (of all series where none is named), in order."""
        found = {x for name in series or self.points for x in self.points.get(name, {}) if x is not None}
        return sorted(found)

    def at(self, series: str, x: float | None) -> FloatArray:
        """The runs of a series at x; all nan where there is no such point, so that a hole supports nothing."""
        return self.points.get(series, {}).get(x, self._nothing())

    def level(self, name: str) -> FloatArray:
        """The runs of a horizontal line."""
        return self.levels.get(name, self._nothing())

    def mean_over(self, series: str, xs: Iterable[float]) -> FloatArray:
        """For each run the mean of a series over several x; nan where one of them is missing."""
        rows = [self.at(series, x) for x in xs]
        return np.mean(rows, axis=0) if rows else self._nothing()

    def _nothing(self) -> FloatArray:
        return np.full(self.runs, np.nan)


@dataclass(frozen=True, eq=False)
class Figure:
    """A figure's panels; without panels where the figure is missing.

    Attributes:
        number: of the figure.
        panels: in order.
        lack: why there is nothing to check, or empty.
    """

    number: int
    panels: tuple[Panel, ...]
    lack: str

    @property
    def compared(self) -> tuple[Panel, ...]:
        """The panels that hold a metric on the labels of the test set."""
        return tuple(panel for panel in self.panels if panel.metric == "ARP" or panel.metric.startswith("DCG@"))

    def panel(self, name: str) -> Panel:
        """The panel whose metric begins with this; an empty one where there is none."""
        return next((panel for panel in self.panels if panel.metric.startswith(name)), Panel(name, {}, {}, {}, 0))


def read_figure(figures: Iterable[Mapping[str, Any]], number: int) -> Figure:
    """The figure of this number, ready for checks.

    >>> read_figure([], 1).lack
    'figure 1 is not part of this run'
    """
    found = next((figure for figure in figures if figure.get("number") == number), None)
    if found is None:
        return Figure(number, (), f"figure {number} is not part of this run")
    panels = tuple(_read_panel(panel) for panel in found.get("panels", ()))
    empty = not any(
        np.isfinite(row).any() for panel in panels for rows in panel.points.values() for row in rows.values()
    )
    return Figure(number, panels, f"figure {number} has no points" if empty else "")


def _read_panel(panel: Mapping[str, Any]) -> Panel:
    series = panel.get("series", ())
    drawn = [value for one in series for value in one.get("points", ())] + list(panel.get("levels", ()))
    runs = max((len(value.get("values", ())) for value in drawn), default=0)
    sign = -1.0 if panel.get("lower_is_better") else 1.0
    name = str(panel.get("name", ""))
    return Panel(
        name.upper() if name.startswith(("arp", "dcg@")) else name,
        {one["name"]: {point.get("x"): _row(point, runs, sign) for point in one.get("points", ())} for one in series},
        {level["name"]: _row(level, runs, sign) for level in panel.get("levels", ())},
        {point.get("x"): point["chosen"] for one in series for point in one.get("points", ()) if "chosen" in point},
        runs,
        sign,
    )


def _row(value: Mapping[str, Any], runs: int, sign: float) -> FloatArray:
    """One number per run of the panel; what is null, or not finite, or beyond the end, is nan."""
    row = np.full(runs, np.nan)
    for run, number in enumerate(value.get("values", ())):
        if number is not None and math.isfinite(number):
            row[run] = sign * number
    return row


def relative(difference: FloatArray, reference: FloatArray) -> FloatArray:
    """For each run its share in mean(difference) / |mean(reference)|, over runs that have both; nan elsewhere.

        R + (difference - R * |reference|) / |mean(reference)|,   R = the quotient

    The mean of these is R, and their spread is that of R by linearisation: the level of the reference differs between
    runs too, and a plain quotient of each run would give runs of a low level more weight.

    >>> relative(np.array([-1.0, -3.0]), np.array([100.0, 100.0]))
    array([-0.01, -0.03])
    """
    both = np.isfinite(difference) & np.isfinite(reference)
    level = abs(float(reference[both].mean())) if both.any() else 0.0
    if level == 0.0:
        return np.full(len(difference), np.nan)
    sign = math.copysign(1.0, float(reference[both].mean()))
    quotient = float(difference[both].mean()) / level
    shares = quotient + (difference - quotient * sign * reference) / level
    return np.asarray(np.where(both, shares, np.nan))


def against(one: FloatArray, other: FloatArray) -> FloatArray:
    """How much better one is than the other, relative to the other; positive is better.

    >>> against(np.array([0.99, 0.98]), np.array([1.0, 1.0]))
    array([-0.01, -0.02])
    """
    return relative(one - other, other)


def documents_per_query(data: Iterable[Mapping[str, Any]]) -> float | None:
    """The mean over folds of the mean length of a query's list, of the training part where it is told.

    >>> documents_per_query([{"parts": {"train": {"documents_per_query": 24.0}}}])
    24.0
    """
    found = []
    for fold in data:
        parts = fold.get("parts", {})
        told = [parts[name].get("documents_per_query") for name in ("train", "validation", "test") if name in parts]
        found += [float(value) for value in told if value is not None][:1]
    return sum(found) / len(found) if found else None
