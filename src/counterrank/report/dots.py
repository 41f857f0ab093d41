"""A panel of dots: one value per row with its interval, the number written beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from counterrank.report.axes import dots_axis
from counterrank.report.points import is_number
from counterrank.report.styles import Style
from counterrank.report.vega import FONT, INK

if TYPE_CHECKING:
    import altair as alt

_ROW = 34  # pixels per row


def dot_panel(
    rows: list[dict[str, Any]],
    title: tuple[str, str],
    axis: str,
    styles: dict[str, Style],
    width: int | None = None,
    height: int = 300,
    shares: bool = True,
) -> alt.LayerChart:
    """Dots for rows of series, label, mean and possibly low and high, in the order given, under a title of two lines.

    Shares are percentages and have a stem from zero; other values stand on an axis of their own range, without stems,
    whose lengths would say nothing there.

    >>> chart = dot_panel([{"series": "a", "label": "a", "mean": 0.1}], ("Cost", ""), "DCG@5 lost", {})
    >>> len(chart.layer)
    4
    """
    import altair as alt

    format = ".1%" if shares else ".3f"
    order = [row["label"] for row in rows]
    names = [row["series"] for row in rows]
    looks = [styles.get(name, Style(INK)) for name in names]
    drawn = [{key: value for key, value in row.items() if value is not None} for row in rows if is_number(row["mean"])]
    color = alt.Color("series:N", legend=None, scale=alt.Scale(domain=names, range=[look.color for look in looks]))
    shape = alt.Shape(
        "series:N", legend=None, scale=alt.Scale(domain=names, range=[_dot(look.shape) for look in looks])
    )
    y = alt.Y("label:N", sort=order, title=None, scale=alt.Scale(domain=order), axis=_names_axis())
    low, high = _domain(drawn, shares)
    x = alt.X(
        "mean:Q",
        title=axis,
        scale=alt.Scale(domain=[low, high], nice=False, zero=False),
        axis=dots_axis(low, high, shares),
    )
    base = alt.Chart({"values": drawn}).encode(y=y)
    tooltip = [alt.Tooltip("label:N", title="Name"), alt.Tooltip("mean:Q", title=axis, format=format)]
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
        words.encode(x=x, text=alt.Text("mean:Q", format=format)),
    ]
    height = max(_ROW * len(rows), height)
    return alt.LayerChart(
        layer=layers,
        height=height,
        title=alt.TitleParams(title[0], subtitle=title[1] or " ", frame="bounds"),
        width=width or "container",
    )


def _dot(shape: str) -> str:
    return "circle" if shape.startswith("M") else shape  # paths are for lines


def _domain(rows: list[dict[str, Any]], shares: bool) -> list[float]:
    """From where to where the axis goes; intervals far wider than the rest are cut."""
    means = [row["mean"] for row in rows] or [0.0]
    low, high = (min([0.0, *means]), max([0.0, *means])) if shares else (min(means), max(means))
    span = (high - low) or abs(high) or 1.0
    lows = [max(row["low"], low - 0.3 * span) for row in rows if "low" in row]
    highs = [min(row["high"], high + 0.3 * span) for row in rows if "high" in row]
    low, high = min([low, *lows]), max([high, *highs])
    return [low - (0.02 if shares and low == 0 else 0.1) * span, high + 0.1 * span]


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
