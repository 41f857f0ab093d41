"""The look that all charts share, and the charts that objects draw of themselves with `plot`, by altair.

Colours are those of Okabe and Ito, which colour-blind readers can distinguish.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from counterrank.common.errors import CounterrankError

INK, MUTED, LINE = "#222222", "#5a5a5a", "#e4e4e4"
BLACK, GREY = "#111111", "#6b6b6b"
BLUE, VERMILLION, ORANGE = "#0072B2", "#D55E00", "#E69F00"
GREEN, SKY, PURPLE = "#009E73", "#56B4E9", "#CC79A7"
FONT = "Helvetica Neue, Helvetica, Arial, sans-serif"
DIGITS = "DejaVu Sans, Segoe UI, Helvetica Neue, Arial, sans-serif"  # with superscripts of one size

CONFIG: dict[str, Any] = {
    "font": FONT,
    "background": "white",
    "view": {"stroke": None},
    "axis": {
        "labelColor": MUTED,
        "titleColor": INK,
        "labelFont": DIGITS,
        "labelFontSize": 11,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "gridColor": LINE,
        "domainColor": "#9a9a9a",
        "tickColor": "#9a9a9a",
    },
    "axisY": {"domain": False, "ticks": False, "labelPadding": 6},
    "axisX": {"grid": False},
    "title": {
        "anchor": "start",
        "frame": "group",
        "color": INK,
        "fontSize": 13,
        "fontWeight": "bold",
        "subtitleColor": MUTED,
        "subtitleFontSize": 11.5,
        "offset": 12,
    },
    "concat": {"spacing": 34},
}

_WIDTH, _HEIGHT, _ROW = 420, 240, 26

Row = dict[str, Any]
"""A row of the data of a chart."""


def themed(chart: Any) -> Any:
    """The chart with the look of our reports.

    >>> import altair as alt
    >>> themed(alt.Chart({"values": [{}]}).mark_point()).to_dict()["config"]["background"]
    'white'
    """
    return chart.configure(**CONFIG)


def _check_values(values: Sequence[Any]) -> None:
    if not values:
        raise CounterrankError("plot: there are no values to draw")


def _title(title: str, subtitle: str = "") -> Any:
    import altair as alt

    return alt.TitleParams(title, subtitle=subtitle) if subtitle else alt.TitleParams(title)


def _colors() -> Any:
    import altair as alt

    return alt.Scale(range=[BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, BLACK])


def history_plot(history: Sequence[Row], metric: str, best_epoch: int) -> Any:
    """Loss and validation metric over epochs, the epoch that was kept marked with a dot.

    >>> rows = [{"epoch": 1, "loss": 2.0, "validation": None}, {"epoch": 2, "loss": 1.0, "validation": None}]
    >>> len(history_plot(rows, "dcg@5", best_epoch=2).hconcat)
    1
    """
    import altair as alt

    panels = []
    for name, title in (("validation", f"Validation {metric}"), ("loss", "Training loss")):
        rows = [
            {"epoch": row["epoch"], "value": row[name], "kept": row["epoch"] == best_epoch}
            for row in history
            if row[name] is not None
        ]
        if not rows:
            continue
        few: dict[str, Any] = {"values": [row["epoch"] for row in rows]} if len(rows) <= 12 else {}
        base = alt.Chart({"values": rows}, title=_title(title), width=_WIDTH * 0.75, height=_HEIGHT).encode(
            alt.X("epoch:Q", title="Epoch", axis=alt.Axis(format="d", **few)),
            alt.Y("value:Q", title=None, scale=alt.Scale(zero=False)),
            tooltip=[alt.Tooltip("epoch:Q", title="Epoch"), alt.Tooltip("value:Q", title=title)],
        )
        dot = base.transform_filter("datum.kept").mark_point(color=ORANGE, filled=True, size=90, opacity=1)
        panels.append(base.mark_line(color=BLUE, strokeWidth=2) + dot)
    _check_values(panels)
    return themed(alt.hconcat(*panels))


def interval_plot(rows: Sequence[Row], title: str, subtitle: str, *, zero: bool = False) -> Any:
    """A dot with its confidence interval for each row: `name`, `value`, `low`, `high`, and a panel for each `panel`.

    Panels have a scale each. With `zero` there is a line at 0. Rows without an interval have a dot alone.

    >>> rows = [{"panel": "dcg@5", "name": "a", "value": 0.5, "low": 0.4, "high": 0.6}]
    >>> interval_plot(rows, "Estimates", "95 % confidence intervals").to_dict()["title"]["text"]
    'Estimates'
    """
    import altair as alt

    charts = []
    for panel in dict.fromkeys(row["panel"] for row in rows):
        own = [row for row in rows if row["panel"] == panel and row["value"] is not None]
        if not own:
            continue
        names = list(dict.fromkeys(row["name"] for row in own))
        y = alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=320))
        scale = alt.Scale(zero=False)
        base = alt.Chart({"values": own}, width=_WIDTH, height=_ROW * len(names) + 14)
        tip = [
            alt.Tooltip(f"{name}:{kind}") for name, kind in (("name", "N"), ("value", "Q"), ("low", "Q"), ("high", "Q"))
        ]
        layers = [
            base.transform_filter("isValid(datum.low)")
            .mark_rule(color=BLUE, strokeWidth=4, opacity=0.45)
            .encode(y, alt.X("low:Q", title=panel, scale=scale), alt.X2("high:Q")),
            base.mark_point(color=BLUE, filled=True, size=70, opacity=1).encode(
                y, alt.X("value:Q", title=panel, scale=scale), tooltip=tip
            ),
        ]
        if zero:
            line = alt.Chart({"values": [{"zero": 0.0}]}).mark_rule(color=GREY, strokeDash=[4, 3])
            layers.insert(0, line.encode(alt.X("zero:Q", title=panel, scale=scale)))
        charts.append(alt.layer(*layers))
    _check_values(charts)
    return themed(alt.vconcat(*charts, title=_title(title, subtitle)))


def curve_plot(
    rows: Sequence[Row], title: str, subtitle: str = "", *, x: str = "rank", y: str = "", percent: bool = False,
    log: bool = False, series: str | None = None,
) -> Any:  # fmt: skip
    """Dots joined by a line over `x`: `value`, with `low` and `high` where there is an interval.

    With `expected` in the rows a dashed line as well. `series` names the column of several curves; `log` makes both
    axes logarithmic.

    >>> rows = [{"rank": 1, "value": 1.0}, {"rank": 2, "value": 0.5, "low": 0.4, "high": 0.6}]
    >>> len(curve_plot(rows, "P(examined | rank)").layer)
    3
    """
    import altair as alt

    _check_values(rows)
    scale = alt.Scale(type="log") if log else alt.Scale(zero=True)
    places = sorted({row[x] for row in rows})
    powers = [10.0**p for p in range(-12, 16)]
    if log:
        axis = alt.Axis(format="~s", values=powers)
        across = alt.X(f"{x}:Q", title=x.capitalize(), scale=scale, axis=axis)
    else:
        ends = alt.Scale(domain=[places[0] - 0.5, places[-1] + 0.5], nice=False)
        axis = alt.Axis(values=places, labelOverlap="greedy", grid=False, format="d")
        across = alt.X(f"{x}:Q", title=x.capitalize(), scale=ends, axis=axis)
    form = alt.Axis(format="~%") if percent else alt.Axis(format="~g", values=powers) if log else alt.Axis()
    up = alt.Y("value:Q", title=y or None, scale=scale, axis=form)
    color: Any = alt.value(BLUE) if series is None else alt.Color(f"{series}:N", title=None, sort=None, scale=_colors())
    base = alt.Chart({"values": list(rows)}, width=_WIDTH, height=_HEIGHT, title=_title(title, subtitle))
    names = [name for name in (series, x, "value", "low", "high", "impressions") if name and name in rows[0]]
    tip = [alt.Tooltip(f"{name}:{'N' if name == series else 'Q'}") for name in names]
    layers = [
        base.mark_line(strokeWidth=1.4, opacity=0.6).encode(across, up, color=color),
        base.transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=3, opacity=0.45)
        .encode(across, alt.Y("low:Q"), alt.Y2("high:Q"), color=color),
        base.mark_point(filled=True, size=60, opacity=1).encode(across, up, color=color, tooltip=tip),
    ]
    if any(row.get("expected") is not None for row in rows):
        dashed = base.transform_filter("isValid(datum.expected)").mark_line(color=GREY, strokeDash=[5, 4])
        layers.insert(0, dashed.encode(across, alt.Y("expected:Q")))
    return themed(alt.layer(*layers))
