"""The panels of figures as altair charts: curves or dots, for a page, or side by side for a file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from counterrank.experiments.summary import Figure, Panel, is_number, series_names
from counterrank.report.axes import dots_axis
from counterrank.report.line_chart import line_panel
from counterrank.report.render import CONFIG, FONT, INK, Datum, Spec
from counterrank.report.styles import Style
from counterrank.report.text import interval_text, readable_all

if TYPE_CHECKING:
    import altair as alt

PANEL_WIDTH = 380
_ROW = 34  # pixels per row of dots


def is_drawable(panel: Panel) -> bool:
    """Whether a panel has any point to draw.

    >>> is_drawable(Panel("arp"))
    False
    """
    return any(point.is_there for series in panel.series for point in series.points)


def panel_chart(figure: Figure, panel: Panel, styles: dict[str, Style], width: int | None = None) -> alt.LayerChart:
    """The chart of one panel: dots, the smallest first, where its points have no x, and curves elsewhere.

    >>> from counterrank.experiments.summary import Axis, Point, Series
    >>> panel = Panel("arp", "ARP", series=(Series("policy-aware", (Point(100, mean=0.3),)),))
    >>> type(panel_chart(Figure(2, "Clicks", Axis("clicks", "Clicks", log=True), (panel,)), panel, {})).__name__
    'LayerChart'
    """
    labels = readable_all(series_names([figure]))
    points = [point for series in panel.series for point in series.points]
    if points and all(point.x is None for point in points):
        means = {series.name: next((p.mean for p in series.points if p.is_there), None) for series in panel.series}
        rising = sorted(panel.series, key=lambda series: (means[series.name] is None, means[series.name] or 0.0))
        return dot_panel(replace(panel, series=tuple(rising)), styles, labels, width)
    # every x of the figure, so that its panels have one axis, also where results are missing
    places = [point.x for point in figure.points if point.x is not None and is_number(point.x)]
    return line_panel(panel, figure.x, styles, labels, width, places)


def dot_panel(
    panel: Panel,
    styles: dict[str, Style],
    labels: dict[str, str],
    width: int | None = None,
    height: int = 300,
    shares: bool = True,
) -> alt.LayerChart:
    """A dot for the one point of each series with its confidence interval, in the order given, the number above it.

    Shares are percentages and have a stem from zero; other values stand on an axis of their own range, without stems,
    whose lengths would say nothing there.

    >>> from counterrank.experiments.summary import Point, Series
    >>> len(dot_panel(Panel("cost", "Cost", series=(Series("a", (Point(mean=0.1),)),)), {}, {}).layer)
    4
    """
    import altair as alt

    form = ".1%" if shares else ".3f"
    names = [series.name for series in panel.series if series.points]
    order = [labels.get(name, name) for name in names]
    looks = [styles.get(name, Style(INK)) for name in names]
    drawn = _dot_rows(panel, labels)
    color = alt.Color("series:N", legend=None, scale=alt.Scale(domain=names, range=[look.color for look in looks]))
    shape = alt.Shape(
        "series:N", legend=None, scale=alt.Scale(domain=names, range=[_dot(look.shape) for look in looks])
    )
    y = alt.Y("label:N", sort=order, title=None, scale=alt.Scale(domain=order), axis=_names_axis())
    low, high = _domain(drawn, shares)
    unit = panel.unit or panel.label
    x = alt.X(
        "mean:Q",
        title=unit,
        scale=alt.Scale(domain=[low, high], nice=False, zero=False),
        axis=dots_axis(low, high, shares),
    )
    base = alt.Chart({"values": drawn}).encode(y=y)
    tooltip = [alt.Tooltip("label:N", title="Name"), alt.Tooltip("mean:Q", title=unit, format=form)]
    if any("interval" in row for row in drawn):
        tooltip.append(alt.Tooltip("interval:N", title="95 % interval"))
    stems = base.transform_calculate(zero="0").mark_rule(strokeWidth=1, opacity=0.35)
    spans = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=3, opacity=0.45, clip=True)
    dots = base.mark_point(filled=True, size=110, opacity=1, stroke="white", strokeWidth=0.8)
    words = base.mark_text(align="center", dy=-13, fontSize=11.5, color=INK)
    layers = [
        *([stems.encode(x=alt.X("zero:Q"), x2="mean:Q", color=color)] if shares else []),
        spans.encode(x=alt.X("low:Q"), x2="high:Q", color=color),
        dots.encode(x=x, color=color, shape=shape, tooltip=tooltip),
        words.encode(x=x, text=alt.Text("mean:Q", format=form)),
    ]
    return alt.LayerChart(
        layer=layers,
        height=max(_ROW * len(names), height),
        title=alt.TitleParams(panel.label, subtitle=panel.subtitle or " ", frame="bounds"),
        width=width or "container",
    )


def _dot_rows(panel: Panel, labels: dict[str, str]) -> list[Datum]:
    rows: list[Datum] = []
    for series in panel.series:
        for point in series.points:
            if point.is_there:
                row: Datum = {"series": series.name, "label": labels.get(series.name, series.name), "mean": point.mean}
                if point.interval:
                    row |= {"low": point.low, "high": point.high, "interval": interval_text(point.interval)}
                rows.append(row)
    return rows


def page_spec(chart: Any) -> Spec:
    """A panel for the page: as wide as its place there, labels at its right included.

    >>> import altair as alt
    >>> page_spec(alt.Chart({"values": [{}]}).mark_point())["autosize"]["type"]
    'fit-x'
    """
    sized = chart.properties(autosize={"type": "fit-x", "contains": "padding"})
    spec: Spec = sized.configure(**CONFIG).to_dict(validate=False)
    return spec


def file_spec(charts: list[Any], title: str) -> Spec:
    """Panels side by side under one title, of fixed size.

    >>> import altair as alt
    >>> "hconcat" in file_spec([alt.Chart({"values": [{}]}).mark_point()], "Figure 1")
    True
    """
    import altair as alt

    row = alt.hconcat(*charts)
    head = alt.TitleParams(title, fontSize=16, offset=18, anchor="start")
    spec: Spec = row.properties(title=head, padding=16).configure(**CONFIG).to_dict(validate=False)
    for panel in spec["hconcat"]:
        for layer in panel.get("layer", ()):
            layer.pop("name", None)  # for the page; before Vega-Lite 6.4 layers of one name share their data
    return spec


def _dot(shape: str) -> str:
    return "circle" if shape.startswith("M") else shape  # paths are for lines


def _domain(rows: list[Datum], shares: bool) -> tuple[float, float]:
    """(low, high) of the axis; intervals far wider than the rest are cut."""
    means = [row["mean"] for row in rows] or [0.0]
    low, high = (min([0.0, *means]), max([0.0, *means])) if shares else (min(means), max(means))
    span = (high - low) or abs(high) or 1.0
    lows = [max(row["low"], low - 0.3 * span) for row in rows if "low" in row]
    highs = [min(row["high"], high + 0.3 * span) for row in rows if "high" in row]
    low, high = min([low, *lows]), max([high, *highs])
    return low - (0.02 if shares and low == 0 else 0.1) * span, high + 0.1 * span


def _names_axis() -> Any:
    import altair as alt

    return alt.Axis(
        grid=True,
        labelOverlap=False,
        gridDash=[1, 3],
        gridColor="#cccccc",
        labelFontSize=11.5,
        labelColor=INK,
        labelLimit=240,
        labelFont=FONT,
    )
