"""The figures of a summary as altair charts: each panel for the page, and all panels side by side for a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from counterrank.report.dots import dot_panel
from counterrank.report.lines import line_panel
from counterrank.report.names import number, readable_all
from counterrank.report.points import is_number, panel_points, series_names
from counterrank.report.relative import drawn_panel
from counterrank.report.styles import Style
from counterrank.report.vega import CONFIG

PANEL_WIDTH = 380
_SUBTITLES = {
    "estimate": "from validation clicks that are not clipped",
    "cost": "against the same page without randomisation",
}


def is_dots(panel: dict[str, Any]) -> bool:
    """Whether the points of a panel have no x, so that they are dots and not lines.

    >>> is_dots({"name": "cost", "series": [{"name": "deterministic:k=5", "points": [{"x": None, "mean": 0.0}]}]})
    True
    """
    points = [point for series in panel.get("series", []) for point in series.get("points", [])]
    return bool(points) and all(point.get("x") is None for point in points)


def is_drawable(panel: dict[str, Any]) -> bool:
    """Whether a panel has any point to draw.

    >>> is_drawable({"series": [{"name": "a", "points": [{"x": 1, "mean": None}]}]})
    False
    """
    return any(is_number(point.get("mean")) for series in panel.get("series", []) for point in series.get("points", []))


def panel_chart(
    figure: dict[str, Any], panel: dict[str, Any], styles: dict[str, Style], width: int | None = None
) -> Any:
    """The altair chart of one panel.

    >>> points = [{"x": 100, "mean": 0.3}]
    >>> panel = {"name": "arp", "label": "ARP", "series": [{"name": "policy-aware", "points": points}]}
    >>> type(panel_chart({"x": {"label": "Clicks", "log": True}, "panels": [panel]}, panel, {})).__name__
    'LayerChart'
    """
    labels = readable_all(series_names([figure]))
    if is_dots(panel):
        title = (panel["label"], _SUBTITLES["cost"])
        return dot_panel(_cost_rows(panel, labels), title, "Share lost", styles, width=width)
    if not panel.get("loss"):
        panel = drawn_panel({"subtitle": _SUBTITLES.get(panel["name"], "on the labels of the test set")} | panel)
    return line_panel(panel, figure["x"] | {"places": _places(figure)}, styles, labels, width)


def page_spec(chart: Any) -> dict[str, Any]:
    """A panel for the page: as wide as its place there, labels at its right included.

    >>> import altair as alt
    >>> page_spec(alt.Chart({"values": [{}]}).mark_point())["autosize"]["type"]
    'fit-x'
    """
    sized = chart.properties(
        autosize={"type": "fit-x", "contains": "padding"},
    )
    spec: dict[str, Any] = sized.configure(**CONFIG).to_dict(validate=False)
    return spec


def file_spec(charts: list[Any], title: str) -> dict[str, Any]:
    """Panels side by side under one title, of fixed size.

    >>> import altair as alt
    >>> "hconcat" in file_spec([alt.Chart({"values": [{}]}).mark_point()], "Figure 1")
    True
    """
    import altair as alt

    row = alt.hconcat(*charts)
    head = alt.TitleParams(title, fontSize=16, offset=18, anchor="start")
    spec: dict[str, Any] = row.properties(title=head, padding=16).configure(**CONFIG).to_dict(validate=False)
    return spec


def _places(figure: dict[str, Any]) -> list[float]:
    """Every x of a figure, so that its panels have one axis, also where results are missing."""
    every: Iterator[Any] = (point.get("x") for panel in figure["panels"] for _, point in panel_points(panel))
    return sorted({x for x in every if is_number(x)})


def _cost_rows(panel: dict[str, Any], labels: dict[str, str]) -> list[dict[str, Any]]:
    rows = []
    for series in panel.get("series", []):
        for point in series.get("points", []):
            low, high = point.get("low"), point.get("high")
            row = {"series": str(series["name"]), "label": labels[str(series["name"])]}
            row |= {"mean": point.get("mean"), "low": low, "high": high}
            rows.append(row | ({"interval": f"{number(low)} to {number(high)}"} if is_number(low) else {}))
    return sorted(rows, key=lambda row: (not is_number(row["mean"]), row["mean"] or 0))
