"""The panels of figures as altair charts: curves or dots, for a page, or side by side for a file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterrank.common.plotting import CONFIG, FONT, INK
from counterrank.experiments.statistics import values_array
from counterrank.experiments.summary import Axis, Figure, Panel, Point, is_number, over_runs, series_names
from counterrank.report.axes import dots_axis, spread, symlog, symlog_axis, unsymlog, x_axis, x_scale, y_axis
from counterrank.report.render import Datum, Spec, Style
from counterrank.report.text import interval_text, number, places_text, readable_all

if TYPE_CHECKING:
    import altair as alt

PANEL_WIDTH = 380
_IN_A_ROW = 4
_ROW = 34  # pixels per row of dots
LABEL_GAP = 15  # pixels from one label to the next
SELECTION = "selection"
_MARKER_AT, _TEXT_AT = 20, 29  # pixels right of the plot
_NO_INTERVAL = "none (needs two runs)"
_LAYER = Any  # what altair makes of a mark and its encoding


def is_drawable(panel: Panel) -> bool:
    """Whether a panel has any point to draw.

    >>> is_drawable(Panel("arp"))
    False
    """
    return any(point.is_there for point in panel.curve_points)


def panel_chart(figure: Figure, panel: Panel, styles: dict[str, Style], width: int | None = None) -> alt.LayerChart:
    """The chart of one panel: dots, the smallest first, where its points have no x, and curves elsewhere.

    >>> from counterrank.experiments.summary import Axis, Point, Series
    >>> panel = Panel("arp", "ARP", series=(Series("policy-aware", (Point(100, mean=0.3),)),))
    >>> type(panel_chart(Figure(2, "Clicks", Axis("clicks", "Clicks", log=True), (panel,)), panel, {})).__name__
    'LayerChart'
    """
    labels = readable_all(series_names([figure]))
    if panel.curve_points and all(point.x is None for point in panel.curve_points):
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
    drawn = _dot_rows(panel, labels)
    look = encodings("series", names, styles, dots=True)
    axis = alt.Axis(
        grid=True,
        labelOverlap=False,
        gridDash=[1, 3],
        gridColor="#cccccc",
        labelFontSize=11.5,
        labelColor=INK,
        labelLimit=240,
        labelFont=FONT,
    )
    y = alt.Y("label:N", sort=order, title=None, scale=alt.Scale(domain=order), axis=axis)
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
        *([stems.encode(x=alt.X("zero:Q"), x2="mean:Q", color=look["color"])] if shares else []),
        spans.encode(x=alt.X("low:Q"), x2="high:Q", color=look["color"]),
        dots.encode(x=x, color=look["color"], shape=look["shape"], tooltip=tooltip),
        words.encode(x=x, text=alt.Text("mean:Q", format=form)),
    ]
    return alt.LayerChart(
        layer=layers,
        height=max(_ROW * len(names), height),
        title=alt.TitleParams(panel.label, subtitle=panel.subtitle or " ", frame="bounds"),
        width=width or "container",
    )


def encodings(field: str, names: list[str], styles: Mapping[str, Style], dots: bool = False) -> dict[str, Any]:
    """Colour, dashes, shape and width of the lines or points of each name, by the styles; `dots` have simple shapes.

    >>> encodings("series", ["auto"], {"auto": Style("#111111")})["color"].to_dict()["scale"]["range"]
    ['#111111']
    """
    import altair as alt

    looks = [styles.get(name, Style(INK)) for name in names]

    def scale(values: list[Any]) -> alt.Scale:
        return alt.Scale(domain=names, range=values)

    shapes = [look.dot if dots else look.shape for look in looks]
    widths = scale([look.width for look in looks])
    return {
        "color": alt.Color(f"{field}:N", legend=None, scale=scale([look.color for look in looks])),
        "strokeDash": alt.StrokeDash(
            f"{field}:N", legend=None, scale=scale([list(look.dash) or [1, 0] for look in looks])
        ),
        "shape": alt.Shape(f"{field}:N", legend=None, scale=scale(shapes)),
        "strokeWidth": alt.StrokeWidth(f"{field}:O", sort=None, legend=None, scale=widths),
    }


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
    """Panels side by side under one title, of fixed size; three in a row where there are more than four.

    >>> import altair as alt
    >>> "hconcat" in file_spec([alt.Chart({"values": [{}]}).mark_point()], "Figure 1")
    True
    """
    import altair as alt

    row = alt.hconcat(*charts) if len(charts) <= _IN_A_ROW else alt.concat(*charts, columns=3)
    head = alt.TitleParams(title, fontSize=16, offset=18, anchor="start")
    spec: Spec = row.properties(title=head, padding=16).configure(**CONFIG).to_dict(validate=False)
    for panel in spec["hconcat" if "hconcat" in spec else "concat"]:
        for layer in panel.get("layer", ()):
            layer.pop("name", None)  # for the page; before Vega-Lite 6.4 layers of one name share their data
    return spec


def _domain(rows: list[Datum], shares: bool) -> tuple[float, float]:
    """(low, high) of the axis; intervals far wider than the rest are cut."""
    means = [row["mean"] for row in rows] or [0.0]
    low, high = (min([0.0, *means]), max([0.0, *means])) if shares else (min(means), max(means))
    span = (high - low) or abs(high) or 1.0
    lows = [max(row["low"], low - 0.3 * span) for row in rows if "low" in row]
    highs = [min(row["high"], high + 0.3 * span) for row in rows if "high" in row]
    low, high = min([low, *lows]), max([high, *highs])
    return low - (0.02 if shares and low == 0 else 0.1) * span, high + 0.1 * span


def line_panel(
    panel: Panel,
    x: Axis,
    styles: dict[str, Style],
    labels: dict[str, str],
    width: int | None = None,
    places: Sequence[float] = (),
) -> alt.LayerChart:
    """The chart of a panel whose points have an x. Without a width it fits its place on a page and answers the pointer.

    The x axis spans all points, and `places`. A panel that is drawn relative to the mean of its curves (see
    `relative_panel`) has a value axis that is logarithmic in both directions from zero.

    >>> from counterrank.experiments.summary import Series
    >>> from counterrank.report.render import assign_styles
    >>> curve = Series("policy-aware", (Point(100, mean=0.3), Point(1000, mean=0.4)))
    >>> panel = Panel("dcg@5", "DCG@5", series=(curve,))
    >>> chart = line_panel(panel, Axis("clicks", "Clicks", log=True), assign_styles(["policy-aware"]), {})
    >>> [layer.name for layer in chart.layer]
    ['bands', 'lines', 'points', 'leaders', 'label markers', 'labels']
    """
    import altair as alt

    live, relative = width is None, relative_panel(panel)
    panel, is_symlog = relative or panel, relative is not None
    rows, levels = _rows(panel, labels), _level_rows(panel, labels)
    height = max(300, LABEL_GAP * (len({row["series"] for row in rows}) + len(levels)) + 20)
    low, high = value_range(panel)
    span = sorted({*places, *(row["x"] for row in rows)}) or [1, 10]
    hover = alt.selection_point(name="hover", fields=["series"], on="pointerover", clear="pointerout", nearest=True)
    axes = _Axes(
        x=alt.X("x:Q", title=x.label, scale=x_scale(span, x.log), axis=x_axis(span, x.log)),
        y=alt.Y(
            "mean:Q",
            title=None,
            scale=alt.Scale(domain=[low, high], nice=False, zero=False, type="symlog" if is_symlog else "linear"),
            axis=symlog_axis(low, high) if is_symlog else y_axis(low, high, height),
        ),
        look=encodings("series", list(dict.fromkeys(row["series"] for row in [*rows, *levels])), styles),
        shown=alt.condition(hover, alt.value(1), alt.value(0.18)) if live else alt.value(1),
        right="width" if live else str(width),  # the signal of this name is another one in a row of charts
    )
    layers = [_shade(span[0], x.shade)] if x.shade else []
    layers += [_level_layer(levels, axes)] if levels else []
    layers += _line_layers(rows, axes, _band_opacity(is_cut(panel), live))
    layers.append(_point_layer(rows, axes, panel.unit or panel.label))
    if live:
        layers[-1] = layers[-1].add_params(hover)
    layers += _label_layers(_ends(rows, levels, (low, high), height, is_symlog), axes)
    subtitle = f"trained with {panel.loss}" if panel.loss else panel.subtitle or " "
    title = alt.TitleParams(panel.label, subtitle=subtitle)
    return alt.LayerChart(layer=layers, height=height, title=title, width=width or "container")


def relative_panel(panel: Panel) -> Panel | None:
    """A panel that is `drawn_relative`, in percent from the mean of its curves; None for any other.

    Estimates from few clicks are ratios that are far too large for all losses alike: on one axis they would flatten the
    differences at many clicks, by which a loss is selected. In each run every value is divided by the mean of the
    curves (but "selection") at the same x; mean and interval are over these. None too where this cannot be done
    everywhere.

    >>> from counterrank.experiments.summary import Series
    >>> curves = tuple(Series(name, (over_runs([value], 100),)) for name, value in (("a", 0.1), ("b", 0.3)))
    >>> panel = relative_panel(Panel("estimate", "DCG@5 estimated, per document", series=curves, drawn_relative=True))
    >>> [round(series.points[0].mean, 6) for series in panel.series], panel.label
    ([-50.0, 50.0], 'DCG@5 estimated')
    """
    losses = [series.name for series in panel.series if series.name != SELECTION]
    places = sorted({p.x for p in panel.curve_points if p.is_there and p.x is not None})
    if not panel.drawn_relative or not places:
        return None
    drawn: dict[float | None, dict[str, Point]] = {}
    for x in places:
        found = _relative_points({s.name: p for s in panel.series for p in s.points if p.x == x and p.is_there}, losses)
        if found is None:
            return None
        drawn[x] = found
    nothing: dict[str, Any] = {"mean": None, "low": None, "high": None}
    made = tuple(
        replace(s, points=tuple(drawn.get(p.x, {}).get(s.name) or replace(p, **nothing) for p in s.points))
        for s in panel.series
    )
    return replace(
        panel,
        label=panel.label.partition(", ")[0],  # what it is counted per is divided out
        subtitle="% from the mean of the losses, log axis",
        unit="% from the mean of the losses",
        series=made,
        levels=(),
    )


def _relative_points(points: dict[str, Point], losses: list[str]) -> dict[str, Point] | None:
    """By name; None where a run that has results lacks one, or where its mean is not above zero."""
    if not set(losses) <= points.keys() or len({len(point.values) for point in points.values()}) != 1:
        return None
    values = {name: values_array(point.values) for name, point in points.items()}
    mean = np.mean([values[name] for name in losses], axis=0)
    there = np.isfinite(list(values.values()))
    some: NDArray[np.bool_] = np.any(there, axis=0)
    if (some != np.all(there, axis=0)).any() or (mean[some] <= 0.0).any():
        return None
    shares = {name: [100.0 * (v / m - 1.0) if ok else None for v, m, ok in zip(row, mean, some, strict=True)]
              for name, row in values.items()}  # fmt: skip
    return {name: replace(over_runs(shares[name], point.x), chosen=point.chosen) for name, point in points.items()}


def value_range(panel: Panel) -> tuple[float, float]:
    """(low, high) of the value axis: all means and levels, intervals as far as they do not dwarf them.

    With two runs an interval can be ten times the picture; it is cut at the edge then.

    >>> from counterrank.experiments.summary import Series
    >>> value_range(Panel("arp", series=(Series("a", (Point(1, mean=2.0), Point(2, mean=3.0))),)))
    (1.93, 3.07)
    """
    points = [point for _, point in panel.points]
    means = [point.mean for point in points if point.mean is not None and point.is_there]
    if not means:
        return 0.0, 1.0
    low, high = min(means), max(means)
    span = (high - low) or abs(high) * 0.1 or 1.0
    intervals = [point.interval for point in points if point.is_there and point.interval]
    low = min(low, max(min((i[0] for i in intervals), default=low), low - 0.35 * span))
    high = max(high, min(max((i[1] for i in intervals), default=high), high + 0.35 * span))
    return low - 0.07 * span, high + 0.07 * span


def is_cut(panel: Panel) -> bool:
    """Whether an interval of the panel reaches beyond the value axis.

    >>> from counterrank.experiments.summary import Series
    >>> is_cut(Panel("arp", series=(Series("a", (Point(1, mean=2.0, low=-90.0, high=94.0),)),)))
    True
    """
    low, high = value_range(panel)
    return any(point.interval and (point.interval[0] < low or point.interval[1] > high) for _, point in panel.points)


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


def _chart(name: str, rows: list[Datum]) -> Any:
    import altair as alt

    return alt.Chart({"values": rows}, name=name)


def _rows(panel: Panel, labels: dict[str, str]) -> list[Datum]:
    rows: list[Datum] = []
    for series in panel.series:
        for point in series.points:
            if point.is_there and is_number(point.x):
                row = {
                    "series": series.name,
                    "label": labels.get(series.name, series.name),
                    "value": number(point.mean),
                }
                numbers = {key: getattr(point, key) for key in ("x", "mean", "low", "high", "runs")}
                row |= {key: value for key, value in numbers.items() if value is not None}
                if chosen_words(point):
                    row["chosen"] = chosen_words(point)
                rows.append(row | {"interval": interval_text(point.interval, _NO_INTERVAL)})
    for row, at in zip(rows, places_text([row["x"] for row in rows]), strict=True):
        row["at"] = at
    return rows


def _level_rows(panel: Panel, labels: dict[str, str]) -> list[Datum]:
    return [
        {"series": level.name, "label": labels.get(level.name, level.name)}
        | {"mean": level.mean, "interval": interval_text(level.interval, _NO_INTERVAL), "runs": level.runs}
        for level in panel.levels
        if level.is_there
    ]


def chosen_words(point: Point) -> str:
    """What was selected at a point, and in how many runs.

    >>> chosen_words(Point(chosen=("dcg-hinge", None, "dcg-hinge", "dcg-logistic")))
    'dcg-hinge (2), dcg-logistic (1)'
    """
    chosen = [name for name in point.chosen or () if name]
    return ", ".join(f"{name} ({chosen.count(name)})" for name in dict.fromkeys(chosen))


def _shade(start: float, until: float) -> _LAYER:
    """The ground up to some x in another colour."""
    import altair as alt

    ground = _chart("shade", [{"start": start / 2, "until": until}]).mark_rect(color="#fff6dd", clip=True)
    return ground.encode(alt.X("start:Q"), alt.X2("until:Q"))


def _level_layer(levels: list[Datum], axes: _Axes) -> _LAYER:
    base = _chart("levels", levels)
    return base.mark_rule(clip=True).encode(
        y=axes.y, opacity=axes.shown, **axes.pick("color", "strokeDash", "strokeWidth")
    )


def _line_layers(rows: list[Datum], axes: _Axes, band: Any) -> list[_LAYER]:
    import altair as alt

    plain = [row for row in rows if row["series"] != SELECTION]
    picked = [row for row in rows if row["series"] == SELECTION]
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


def _point_layer(rows: list[Datum], axes: _Axes, label: str) -> _LAYER:
    import altair as alt

    # the selection has its rings; its points only answer the pointer
    size = alt.condition("datum.series == 'selection'", alt.value(0), alt.value(48))
    points = _chart("points", rows).mark_point(filled=True, stroke="white", strokeWidth=0.7)
    return points.encode(
        axes.x, axes.y, opacity=axes.shown, size=size, tooltip=_tooltip(rows, label), **axes.pick("color", "shape")
    )


def _tooltip(rows: list[Datum], label: str) -> Any:
    """The tooltip of a point, as an expression of our own.

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
    rows: list[Datum], levels: list[Datum], domain: tuple[float, float], height: int, is_symlog: bool
) -> list[Datum]:
    """One row per line: where it ends, and where its label stands."""
    last: dict[str, Datum] = {}
    for row in rows:
        if row["series"] not in last or row["x"] >= last[row["series"]]["x"]:
            last[row["series"]] = row
    ends = [*last.values(), *levels]
    low, high = map(symlog, domain) if is_symlog else domain
    pixel = (high - low) / height
    at = [symlog(row["mean"]) if is_symlog else row["mean"] for row in ends]
    places = spread(at, LABEL_GAP * pixel, low + 5 * pixel, high - 5 * pixel)
    places = list(map(unsymlog, places)) if is_symlog else places
    return [
        {key: row[key] for key in ("series", "label", "x", "mean") if key in row} | {"place": place}
        for row, place in zip(ends, places, strict=True)
    ]


def _label_layers(ends: list[Datum], axes: _Axes) -> list[_LAYER]:
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
