"""Estimates from clicks as they are drawn: against each other, since their size changes with the number of clicks.

The estimate is a ratio, which few clicks push far up for all losses alike. On one axis those points would flatten the
differences at many clicks, which are what the choice of a loss goes by.
"""

from __future__ import annotations

from typing import Any

from counterrank.report.intervals import mean_span
from counterrank.report.points import is_number

SELECTION = "selection"
SUBTITLE = "% from the mean of the losses, log axis"


def drawn_panel(panel: dict[str, Any]) -> dict[str, Any]:
    """A panel as it is drawn: that of the estimates in percent of the losses' mean, any other as it is.

    In each run every estimate is divided by the mean of the losses there, at the same number of clicks; mean and
    interval are over these. A panel in which this cannot be done everywhere stays as it is.

    >>> series = [{"name": name, "points": [{"x": 100, "values": [v]}]} for name, v in (("a", 0.1), ("b", 0.3))]
    >>> panel = drawn_panel({"name": "estimate", "label": "DCG@5 estimated, per document", "series": series})
    >>> [round(item["points"][0]["mean"], 6) for item in panel["series"]], panel["label"]
    ([-50.0, 50.0], 'DCG@5 estimated')
    """
    if panel.get("name") != "estimate":
        return panel
    names = [str(series["name"]) for series in panel.get("series", [])]
    at: dict[Any, dict[str, list[Any]]] = {}
    for series in panel.get("series", []):
        for point in series.get("points", []):
            if is_number(point.get("mean", 0.0)):
                at.setdefault(point["x"], {})[str(series["name"])] = point.get("values") or []
    shares = {x: _shares(values, [name for name in names if name != SELECTION]) for x, values in at.items()}
    if not shares or any(found is None for found in shares.values()):
        return panel
    made = [
        series | {"points": [_point(point, shares, str(series["name"])) for point in series.get("points", [])]}
        for series in panel["series"]
    ]
    title = str(panel["label"]).partition(", ")[0]  # what it is counted per is divided out
    words = {"label": title, "subtitle": SUBTITLE, "unit": "% from the mean of the losses"}
    return panel | words | {"series": made, "levels": [], "bent": True}


def _shares(values: dict[str, list[Any]], losses: list[str]) -> dict[str, list[float | None]] | None:
    """By name and run; None where a run that has results lacks one, or where its mean is not above zero."""
    if not set(losses) <= values.keys() or len({len(runs) for runs in values.values()}) != 1:
        return None
    found: dict[str, list[float | None]] = {name: [] for name in values}
    for run in range(len(values[losses[0]]) if losses else 0):
        here = {name: runs[run] for name, runs in values.items()}
        there = [is_number(value) for value in here.values()]
        mean = sum(here[name] for name in losses) / len(losses) if all(there) else 0.0
        if any(there) and mean <= 0.0:
            return None
        for name, value in here.items():
            found[name].append(100.0 * (value / mean - 1.0) if any(there) else None)
    return found


def _point(point: dict[str, Any], shares: dict[Any, Any], name: str) -> dict[str, Any]:
    values = (shares.get(point["x"]) or {}).get(name, [])
    there = [value for value in values if value is not None]
    if not there:
        return point | {"mean": None, "low": None, "high": None}
    span = mean_span(there)
    return point | {"values": values, "mean": span.value, "low": span.low, "high": span.high, "runs": len(there)}
