"""A panel of lines: value against k or clicks, an interval around each line, names at the right ends."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from counterrank.report.axes import bend, bent_axis, unbend, x_axis, x_scale, y_axis
from counterrank.report.labels import spread
from counterrank.report.names import number, places_text
from counterrank.report.points import chosen_words, is_cut, is_number, value_range
from counterrank.report.styles import Style
from counterrank.report.vega import INK

if TYPE_CHECKING:
    import altair as alt

LABEL_GAP = 15  # pixels from one label to the next
_MARKER_AT, _TEXT_AT = 20, 29  # pixels right of the plot
_LAYER = Any  # what altair makes of a mark and its encoding


def line_panel(
    panel: dict[str, Any], x: dict[str, Any], styles: dict[str, Style], labels: dict[str, str], width: int | None = None
) -> alt.LayerChart:
    """The chart of a panel whose points have an x. Without a width it fits its place on a page and answers the pointer.

    >>> from counterrank.report.styles import assign_styles
    >>> points = [{"x": 100, "mean": 0.3}, {"x": 1000, "mean": 0.4}]
    >>> panel = {"name": "dcg", "label": "DCG@5", "series": [{"name": "policy-aware", "points": points}], "levels": []}
    >>> chart = line_panel(panel, {"label": "Clicks", "log": True}, assign_styles(["policy-aware"]), {})
    >>> [layer.name for layer in chart.layer]
    ['bands', 'lines', 'points', 'leaders', 'label markers', 'labels']
    """
    import altair as alt

    live = width is None
    rows = _rows(panel, labels)
    levels = [row for row in _level_rows(panel, labels) if is_number(row["mean"])]
    height = max(300, LABEL_GAP * (len({row["series"] for row in rows}) + len(levels)) + 20)
    low, high = value_range(panel)
    bent = bool(panel.get("bent"))
    places = sorted({*x.get("places", []), *(row["x"] for row in rows)}) or [1, 10]
    hover = alt.selection_point(name="hover", fields=["series"], on="pointerover", clear="pointerout", nearest=True)
    axes = _Axes(
        x=alt.X("x:Q", title=x["label"], scale=x_scale(places, bool(x.get("log"))), axis=x_axis(places, x)),
        y=alt.Y(
            "mean:Q",
            title=None,
            scale=alt.Scale(domain=[low, high], nice=False, zero=False, type="symlog" if bent else "linear"),
            axis=bent_axis(low, high) if bent else y_axis(low, high, height),
        ),
        look=_look(styles, [*rows, *levels]),
        shown=alt.condition(hover, alt.value(1), alt.value(0.18)) if live else alt.value(1),
        right="width" if live else str(width),  # the signal of this name is another one in a row of charts
    )
    layers = [_shade(places[0], x["shade"])] if x.get("shade") else []
    layers += [_level_layer(levels, axes)] if levels else []
    layers += _line_layers(rows, axes, _band_opacity(is_cut(panel), live))
    layers.append(_point_layer(rows, axes, str(panel.get("unit") or panel["label"])))
    if live:
        layers[-1] = layers[-1].add_params(hover)
    layers += _label_layers(_ends(rows, levels, (low, high), height, bent), axes)
    title = alt.TitleParams(panel["label"], subtitle=_subtitle(panel))
    return alt.LayerChart(layer=layers, height=height, title=title, width=width or "container")


@dataclass
class _Axes:
    """The encodings that all layers of a panel share."""

    x: Any
    y: Any
    look: dict[str, Any]
    shown: Any  # the opacity
    right: str  # pixels to the right edge

    def beyond(self, pixels: int) -> Any:
        """A place right of the plot."""
        import altair as alt

        return alt.value(alt.expr(f"{self.right} + {pixels}"))

    def pick(self, *names: str) -> dict[str, Any]:
        return {name: self.look[name] for name in names}


def _chart(name: str, rows: list[dict[str, Any]]) -> Any:
    import altair as alt

    return alt.Chart({"values": rows}, name=name)


def _rows(panel: dict[str, Any], labels: dict[str, str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for series in panel.get("series", []):
        name = str(series["name"])
        for point in series.get("points", []):
            if is_number(point.get("mean")) and is_number(point.get("x")):
                row = {
                    "series": name,
                    "label": labels.get(name, name),
                    "value": number(point["mean"]),
                }
                row |= {key: point[key] for key in ("x", "mean", "low", "high", "runs") if point.get(key) is not None}
                if chosen_words(point):
                    row["chosen"] = chosen_words(point)
                rows.append(row | {"interval": _interval(point)})
    for row, at in zip(rows, places_text([row["x"] for row in rows]), strict=True):
        row["at"] = at
    return rows


def _level_rows(panel: dict[str, Any], labels: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {"series": str(level["name"]), "label": labels.get(str(level["name"]), str(level["name"]))}
        | {"mean": level.get("mean"), "interval": _interval(level), "runs": level.get("runs")}
        for level in panel.get("levels", [])
    ]


def _interval(point: dict[str, Any]) -> str:
    if is_number(point.get("low")) and is_number(point.get("high")):
        return f"{number(point['low'])} to {number(point['high'])}"
    return "none (needs two runs)"


def _subtitle(panel: dict[str, Any]) -> str:
    loss = panel.get("loss")
    return f"trained with {loss}" if loss else str(panel.get("subtitle") or " ")


def _look(styles: dict[str, Style], rows: list[dict[str, Any]]) -> dict[str, Any]:
    import altair as alt

    names = list(dict.fromkeys(row["series"] for row in rows))
    looks = [styles.get(name, Style(INK)) for name in names]

    def scale(values: list[Any]) -> Any:
        return alt.Scale(domain=names, range=values)

    return {
        "color": alt.Color("series:N", legend=None, scale=scale([look.color for look in looks])),
        "strokeDash": alt.StrokeDash(
            "series:N", legend=None, scale=scale([list(look.dash) or [1, 0] for look in looks])
        ),
        "shape": alt.Shape("series:N", legend=None, scale=scale([look.shape for look in looks])),
        "strokeWidth": alt.StrokeWidth("series:O", sort=None, legend=None, scale=scale([look.width for look in looks])),
    }


def _shade(start: float, until: float) -> _LAYER:
    """The ground up to some x in another colour."""
    import altair as alt

    ground = _chart("shade", [{"start": start / 2, "until": until}]).mark_rect(color="#fff6dd", clip=True)
    return ground.encode(alt.X("start:Q"), alt.X2("until:Q"))


def _level_layer(levels: list[dict[str, Any]], axes: _Axes) -> _LAYER:
    base = _chart("levels", levels)
    return base.mark_rule(clip=True).encode(
        y=axes.y, opacity=axes.shown, **axes.pick("color", "strokeDash", "strokeWidth")
    )


def _line_layers(rows: list[dict[str, Any]], axes: _Axes, band: Any) -> list[_LAYER]:
    import altair as alt

    plain = [row for row in rows if row["series"] != "selection"]
    picked = [row for row in rows if row["series"] == "selection"]
    bands = _chart("bands", [row for row in plain if "low" in row and "high" in row])
    bands = bands.mark_area(clip=True)
    lines = _chart("lines", plain).mark_line(clip=True)
    layers: list[_LAYER] = [bands.encode(axes.x, alt.Y("low:Q"), alt.Y2("high:Q"), opacity=band, **axes.pick("color"))]
    if picked:
        # a broad pale line leaves visible what was selected from
        broad = _chart("selection", picked).mark_line(opacity=0.2, clip=True, strokeCap="round")
        layers.append(broad.encode(axes.x, axes.y, **axes.pick("color", "strokeWidth")))
    layers.append(lines.encode(axes.x, axes.y, opacity=axes.shown, **axes.pick("color", "strokeDash", "strokeWidth")))
    if picked:
        rings = _chart("rings", picked).mark_point(size=150, strokeWidth=2, filled=False)
        layers.append(rings.encode(axes.x, axes.y, opacity=axes.shown, **axes.pick("color")))
    return layers


def _band_opacity(wide: bool, live: bool) -> Any:
    """Bands wider than the picture lie over each other everywhere: they are paler, until the pointer asks for one."""
    usual: dict[str, Any] = {"value": 0.045 if wide else 0.13}
    return usual | ({"condition": {"param": "hover", "empty": False, "value": 0.25}} if live else {})


def _point_layer(rows: list[dict[str, Any]], axes: _Axes, label: str) -> _LAYER:
    import altair as alt

    # the selection has its rings; its points only answer the pointer
    size = alt.condition("datum.series == 'selection'", alt.value(0), alt.value(48))
    points = _chart("points", rows).mark_point(filled=True, stroke="white", strokeWidth=0.7)
    return points.encode(
        axes.x, axes.y, opacity=axes.shown, size=size, tooltip=_tooltip(rows, label), **axes.pick("color", "shape")
    )


def _tooltip(rows: list[dict[str, Any]], label: str) -> Any:
    """What a point says, as an expression of our own.

    The pointer meets cells around the points, whose datum holds the point's; Vega-Lite's own tooltips look for words
    one level too high there.
    """
    import altair as alt

    point = "(datum.datum || datum)"
    fields = {"Series": f"{point}.label", "At": f"{point}.at", label: f"{point}.value"}
    if any("runs" in row for row in rows):
        fields |= {"95 % interval": f"{point}.interval", "Runs": f"{point}.runs"}
    always = ", ".join(f"{json.dumps(name)}: {source}" for name, source in fields.items())
    chosen = f"{point}.chosen ? {{'Chosen (runs)': {point}.chosen}} : {{}}"
    return alt.value(alt.expr(f"merge({{{always}}}, {chosen})"))


def _ends(
    rows: list[dict[str, Any]], levels: list[dict[str, Any]], domain: tuple[float, float], height: int, bent: bool
) -> list[dict[str, Any]]:
    """One row per line: where it ends, and where its label stands."""
    last: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["series"] not in last or row["x"] >= last[row["series"]]["x"]:
            last[row["series"]] = row
    ends = [*last.values(), *levels]
    low, high = map(bend, domain) if bent else domain
    pixel = (high - low) / height
    at = [bend(row["mean"]) if bent else row["mean"] for row in ends]
    places = spread(at, LABEL_GAP * pixel, low + 5 * pixel, high - 5 * pixel)
    places = list(map(unbend, places)) if bent else places
    return [
        {key: row[key] for key in ("series", "label", "x", "mean") if key in row} | {"place": place}
        for row, place in zip(ends, places, strict=True)
    ]


def _label_layers(ends: list[dict[str, Any]], axes: _Axes) -> list[_LAYER]:
    """Leaders from the line ends, a marker and the name; the page leaves these layers out where it is narrow."""
    import altair as alt

    y = alt.Y("place:Q")
    place = {"x": axes.beyond(_MARKER_AT)}
    lines, levels = [row for row in ends if "x" in row], [row for row in ends if "x" not in row]
    to = {"x2": axes.beyond(_MARKER_AT - 7), "y2": alt.Y2("place:Q")}
    leaders = _chart("leaders", lines).mark_rule(strokeWidth=0.8, opacity=0.55)
    layers: list[_LAYER] = [leaders.encode(axes.x, axes.y, **to, **axes.pick("color"))]
    if levels:
        more = _chart("level leaders", levels).mark_rule(strokeWidth=0.8, opacity=0.55)
        layers.append(more.encode(axes.y, x=axes.beyond(0), **to, **axes.pick("color")))
    base = _chart("label markers", ends)
    markers = base.mark_point(filled=True, size=48, strokeWidth=2).encode(
        y, **place, opacity=axes.shown, **axes.pick("color", "shape")
    )
    words = _chart("labels", ends).mark_text(align="left", baseline="middle", fontSize=11.5, color=INK, limit=230)
    return [
        *layers,
        markers,
        words.encode(y, x=axes.beyond(_TEXT_AT), text="label:N", opacity=axes.shown),
    ]
