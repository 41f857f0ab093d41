"""A figure of the summary as plain rows: what is drawn, written to CSV, and said about gaps."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from typing import Any

COLUMNS = ("figure", "panel", "series", "x", "mean", "low", "high", "runs")


def series_names(figures: list[dict[str, Any]]) -> list[str]:
    """Names of all series and levels, each once, in the order they come.

    >>> series_names([{"panels": [{"series": [{"name": "a"}], "levels": [{"name": "production"}]}]}])
    ['a', 'production']
    """
    found = [
        str(item["name"])
        for figure in figures
        for panel in figure.get("panels", [])
        for item in (*panel.get("series", []), *panel.get("levels", []))
    ]
    return list(dict.fromkeys(found))


def is_number(value: Any) -> bool:
    """Whether something can be drawn.

    >>> is_number(0.5), is_number(None), is_number(float("nan"))
    (True, False, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def panel_points(panel: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and point of all points of a panel, levels included (they have no x).

    >>> list(panel_points({"series": [{"name": "a", "points": [{"x": 1, "mean": 2.0}]}], "levels": []}))
    [('a', {'x': 1, 'mean': 2.0})]
    """
    for series in panel.get("series", []):
        for point in series.get("points", []):
            yield str(series["name"]), point
    for level in panel.get("levels", []):
        yield str(level["name"]), level


def chosen_words(point: dict[str, Any]) -> str:
    """What was selected at a point, and in how many runs.

    >>> chosen_words({"chosen": ["dcg-hinge", None, "dcg-hinge", "dcg-logistic"]})
    'dcg-hinge (2), dcg-logistic (1)'
    """
    chosen = [str(name) for name in point.get("chosen") or [] if name]
    return ", ".join(f"{name} ({chosen.count(name)})" for name in dict.fromkeys(chosen))


def figure_csv(figure: dict[str, Any]) -> str:
    """All points of a figure as CSV, one row each; what is missing is empty.

    >>> panel = {"name": "arp", "series": [{"name": "a", "points": [{"x": 5, "mean": 2.0, "runs": 1}]}]}
    >>> print(figure_csv({"number": 1, "panels": [panel]}))
    figure,panel,series,x,mean,low,high,runs
    1,arp,a,5,2.0,,,1
    <BLANKLINE>
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for panel in figure.get("panels", []):
        for name, point in panel_points(panel):
            numbers = [point.get(key) for key in ("x", "mean", "low", "high", "runs")]
            writer.writerow([figure["number"], panel["name"], name, *numbers])
    return text.getvalue()


def value_range(panel: dict[str, Any]) -> tuple[float, float]:
    """From where to where the value axis goes: all means and levels, intervals as far as they do not dwarf them.

    With two runs an interval can be ten times the picture; it is cut at the edge then.

    >>> value_range({"series": [{"name": "a", "points": [{"x": 1, "mean": 2.0}, {"x": 2, "mean": 3.0}]}]})
    (1.93, 3.07)
    """
    points = [point for _, point in panel_points(panel) if is_number(point.get("mean"))]
    if not points:
        return 0.0, 1.0
    low, high = min(p["mean"] for p in points), max(p["mean"] for p in points)
    span = (high - low) or abs(high) * 0.1 or 1.0
    lows = [p["low"] for p in points if is_number(p.get("low"))]
    highs = [p["high"] for p in points if is_number(p.get("high"))]
    low = min(low, max(min(lows, default=low), low - 0.35 * span))
    high = max(high, min(max(highs, default=high), high + 0.35 * span))
    return low - 0.07 * span, high + 0.07 * span


def is_cut(panel: dict[str, Any]) -> bool:
    """Whether an interval of the panel reaches beyond the value axis.

    >>> is_cut({"series": [{"name": "a", "points": [{"x": 1, "mean": 2.0, "low": -90.0, "high": 94.0}]}]})
    True
    """
    low, high = value_range(panel)
    return any(
        (is_number(p.get("low")) and p["low"] < low) or (is_number(p.get("high")) and p["high"] > high)
        for _, p in panel_points(panel)
    )
