"""The page of a plan: advice, price against what it buys, and all numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterrank.clicks.policies.parsing import split_mixture
from counterrank.common.errors import CounterrankError
from counterrank.common.files import PathLike
from counterrank.common.plotting import INK
from counterrank.experiments.summary import is_number
from counterrank.report.axes import x_axis, x_scale
from counterrank.report.charts import PANEL_WIDTH, encodings, file_spec, page_spec
from counterrank.report.render import Datum, Style, assign_styles, legend, render, to_png, to_svg, write_file
from counterrank.report.text import metric_name, number, percent, readable

if TYPE_CHECKING:
    import altair as alt

_WIDEST = 1000.0  # times the narrowest interval that is drawn
_MOST_TIMES = 1e6  # the sessions of the quickest policy: a policy that needs more is not drawn
_HEIGHT = 340
_TICKS = (-0.1, -0.01, 0.0, 0.001, 0.005, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
_LETTER, _GAP, _LINE = 0.012, 0.015, 0.05  # of the panel: width of a letter, from a point to its name, height of a name


_SIDES: dict[str, dict[str, Any]] = {
    "left": {"align": "right", "dx": -9, "dy": -6},
    "right": {"align": "left", "dx": 9, "dy": -6},
    "below": {"align": "center", "dy": 15},
}


def write_plan_report(content: Mapping[str, Any], path: PathLike) -> Path:
    """Write the report of a plan (.html), or its chart alone (.png, .svg); returns the path.

    `content` has a title, `advice` (sentences), the metric, and `plans`: for each policy its name, price, displayed,
    covered, reached and biased, and under `expected` for each number of sessions clicks, effective_sample_size,
    ips_width, doubtful and seen; where a precision is wanted, needed_for_width and needed_for_effective; and where
    it is known sessions_to_fit (by user model) and trust_bias_pull. `facts` are pairs of texts.

    >>> import tempfile
    >>> at = {"sessions": 1000, "clicks": 500.0, "effective_sample_size": 50.0, "ips_width": 0.1, "doubtful": False}
    >>> plan = {"policy": "replace-last:k=5", "price": 0.1, "displayed": 0.5, "covered": 1.0, "reached": 1.0}
    >>> plans = [{**plan, "biased": False, "expected": [{**at, "seen": 0.5}]}]
    >>> content = {"title": "Plan", "advice": ["Log."], "metric": "dcg@5", "plans": plans, "facts": []}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_plan_report(content, f"{folder}/plan.html").name
    'plan.html'
    """
    kind = Path(path).suffix.lower()
    if kind not in (".html", ".png", ".svg"):
        raise CounterrankError(f"{path}: unknown kind of file; expected one that ends in .html, .png or .svg")
    styles = assign_styles(dict.fromkeys(family_of(plan["policy"]) for plan in content["plans"]))
    if kind == ".html":
        made: str | bytes = _page(content, styles)
    else:
        if not (charts := _charts(content, styles, PANEL_WIDTH)):
            raise CounterrankError(f"{path}: no price without labels, so that there is no chart; expected a .html page")
        svg = to_svg(file_spec(list(charts.values()), content["title"]))
        made = svg if kind == ".svg" else to_png(svg)
    return write_file(path, made)


def write_comparison_report(content: Mapping[str, Any], path: PathLike) -> Path:
    """Write the report of a plan of a comparison (.html), or its chart alone (.png, .svg); returns the path.

    `content` has a title, `advice` (sentences), the metric, and `plans`: for each policy its name, sessions (None for
    never), deviation, price, displayed, unbiased_for, reached and clicks. `facts` are pairs of texts.

    >>> import tempfile
    >>> plan = {"policy": "ab-test:k=5", "sessions": 1000, "deviation": 2.0, "price": 0.1, "displayed": 0.5}
    >>> plans = [{**plan, "unbiased_for": "dcg@5", "unbiased": True, "reached": 1.0, "clicks": 0.5}]
    >>> content = {"title": "A or B", "advice": ["Log."], "metric": "dcg@5", "plans": plans, "facts": []}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_comparison_report(content, f"{folder}/plan.html").name
    'plan.html'
    """
    kind = Path(path).suffix.lower()
    if kind not in (".html", ".png", ".svg"):
        raise CounterrankError(f"{path}: unknown kind of file; expected one that ends in .html, .png or .svg")
    styles = assign_styles(dict.fromkeys(family_of(plan["policy"]) for plan in content["plans"]))
    chart = _decision_chart(content, styles, None if kind == ".html" else PANEL_WIDTH)
    if kind != ".html":
        if chart is None:
            raise CounterrankError(f"{path}: no policy with a price decides, so that there is no chart; expected .html")
        svg = to_svg(file_spec([chart], content["title"]))
        return write_file(path, svg if kind == ".svg" else to_png(svg))
    made = render(
        "comparison.html.j2",
        {} if chart is None else {"sessions": page_spec(chart)},
        title=content["title"],
        advice=content["advice"],
        metric=metric_name(content["metric"]),
        drawn=chart is not None,
        legend=legend(styles, {name: family_of(name) for name in styles}),
        plans=content["plans"],
        facts=content["facts"],
    )
    return write_file(path, made)


def _decision_chart(content: Mapping[str, Any], styles: dict[str, Style], width: int | None) -> alt.LayerChart | None:
    """Price against the sessions to decide; None where no policy has both."""
    rows = [{**plan, "hollow": not plan["unbiased"]} for plan in content["plans"]]
    able = [row for row in rows if row["sessions"] is not None and row["price"] is not None]
    if not able:
        return None
    least = min(row["sessions"] for row in able)
    drawn = [row for row in able if row["sessions"] <= _MOST_TIMES * least]
    title = f"Price and sessions to decide by {metric_name(content['metric'])}", "left and low is better"
    return price_panel(drawn, ("sessions", "Sessions to decide"), title, styles, width)


def _charts(
    content: Mapping[str, Any], styles: dict[str, Style], width: int | None = None
) -> dict[str, alt.LayerChart]:
    """Price against effective sample size and against width, after the most sessions; none without labels."""
    rows = [{**plan, **plan["expected"][-1]} for plan in content["plans"]]
    if all(row["price"] is None for row in rows):
        return {}
    sessions = f"with {number(rows[0]['sessions'])} sessions"
    narrowest = min((row["ips_width"] for row in rows if row["ips_width"]), default=1.0)
    for row in rows:
        row["hollow"] = row["doubtful"] or row["covered"] < 1.0
        # less than one click is no sample, and a width from another world would hide all others
        row["effective"] = row["effective_sample_size"] if row["effective_sample_size"] >= 1.0 else None
        row["width"] = row["ips_width"] if row["ips_width"] and row["ips_width"] <= _WIDEST * narrowest else None
    metric = metric_name(content["metric"])
    size = ("effective", "Effective sample size")
    wide = ("width", f"Width of the interval of {metric}")
    titles = (
        ("Price and effective sample size", f"{sessions}; right and low is better"),
        (f"Price and interval of {metric}", f"{sessions}; left and low is better"),
    )
    return {
        "size": price_panel(rows, size, titles[0], styles, width),
        "width": price_panel(rows, wide, titles[1], styles, width),
    }


def _page(content: Mapping[str, Any], styles: dict[str, Style]) -> str:
    charts = _charts(content, styles)
    return render(
        "plan.html.j2",
        {name: page_spec(chart) for name, chart in charts.items()},
        title=content["title"],
        advice=content["advice"],
        metric=metric_name(content["metric"]),
        drawn=bool(charts),
        legend=legend(styles, {name: family_of(name) for name in styles}),
        wanted=content.get("wanted", {}),
        plans=content["plans"],
        facts=content["facts"],
    )


def family_of(policy: str) -> str:
    """What policies that differ in one setting have in common; a mixture is a family of its own.

    >>> family_of("epsilon-greedy:k=5,epsilon=0.1"), family_of("0.5*deterministic:k=5 + 0.5*replace-last:k=5")
    ('epsilon-greedy:k=5', '0.5*deterministic:k=5 + 0.5*replace-last:k=5')
    """
    return policy if split_mixture(policy) else policy.partition(",")[0]


def price_panel(
    rows: list[Datum],
    x: tuple[str, str],
    title: tuple[str, str],
    styles: dict[str, Style],
    width: int | None = None,
) -> alt.LayerChart:
    """Policies as points of x (a key of the rows and its name; a logarithmic axis) and price.

    Rows have a policy, a price and the value of x; those without either, or with an x not above 0, are left out.
    `hollow` ones are drawn so.

    >>> rows = [{"policy": "replace-last:k=5", "price": 0.07, "width": 0.02, "hollow": False}]
    >>> chart = price_panel(rows, ("width", "Width"), ("Price", ""), {})
    >>> [layer.name for layer in chart.layer]
    ['lines', 'points', 'left names', 'right names', 'below names']
    """
    import altair as alt

    key, label = x
    points = _points(rows, key)
    places = sorted(point["x"] for point in points) or [1.0, 10.0]
    names = list(dict.fromkeys(point["family"] for point in points))
    look = encodings("family", names, styles, dots=True)
    axis = alt.X("x:Q", title=label, scale=x_scale(places, log=True), axis=x_axis(places, log=True))
    top = max((point["price"] for point in points), default=0.1)
    low = min(0.0, 1.1 * min((point["price"] for point in points), default=0.0))
    y = alt.Y(
        "price:Q",
        title="Price: share of the displayed metric that is lost",
        # roots, so that small prices stand apart
        scale=alt.Scale(type="sqrt", domain=[low, max(top, 0.01) * 1.2], nice=False),
        axis=alt.Axis(
            values=[tick for tick in _TICKS if low <= tick <= 1.2 * top],
            labelExpr="format(100 * datum.value, '~r') + ' %'",
        ),
    )

    tooltip = [
        alt.Tooltip("policy:N", title="Policy"),
        alt.Tooltip("value:N", title=label),
        alt.Tooltip("cost:N", title="Price"),
    ]
    filled = alt.condition("datum.hollow", alt.value("white"), look["color"])
    lines = alt.Chart({"values": points}, name="lines").mark_line(strokeWidth=1.6, opacity=0.6)
    dots = alt.Chart({"values": points}, name="points").mark_point(size=70, opacity=1, strokeWidth=1.6)
    layers = [
        lines.encode(axis, y, color=look["color"], strokeDash=look["strokeDash"], order="place:Q"),
        dots.encode(axis, y, color=look["color"], fill=filled, shape=look["shape"], tooltip=tooltip),
        *(_words(points, side).encode(axis, y, text="label:N") for side in _SIDES),
    ]
    head = alt.TitleParams(title[0], subtitle=title[1] or " ")
    return alt.LayerChart(layer=layers, height=_HEIGHT, title=head, width=width or "container")


def _points(rows: list[Datum], key: str) -> list[Datum]:
    drawn = [row for row in rows if is_number(row.get("price")) and is_number(row.get(key)) and row[key] > 0]
    last = {family_of(row["policy"]): row["policy"] for row in drawn}
    points = [
        {
            "policy": row["policy"],
            "family": family_of(row["policy"]),
            "x": row[key],
            "price": row["price"],
            "value": number(row[key]),
            "cost": percent(row["price"], 2),
            "hollow": bool(row.get("hollow")),
            "place": place,
            "is_last": row["policy"] == last[family_of(row["policy"])],
        }
        for place, row in enumerate(drawn)
    ]
    _name(points)
    return points


def _name(points: list[Datum]) -> None:
    """Give points their labels, families first: right of them, left or below, wherever they cover nothing.

    A label without such a place is left out; the tooltip has it.
    """
    if not points:
        return
    logs = [math.log(point["x"]) for point in points]
    roots = [math.copysign(math.sqrt(abs(point["price"])), point["price"]) for point in points]
    across, up = (max(values) - min(values) or 1.0 for values in (logs, roots))
    places = [((x - min(logs)) / across, (y - min(roots)) / up) for x, y in zip(logs, roots, strict=True)]
    families = [place for place, point in zip(places, points, strict=True) if point["is_last"]]
    taken: list[tuple[float, float, float]] = []  # labels: from, to, height
    for i in sorted(range(len(points)), key=lambda i: not points[i]["is_last"]):
        x, y = places[i]
        text = _label(points[i]["policy"], points[i]["is_last"])
        points[i] |= {"label": "", "side": "right"}
        wide = _LETTER * len(text)
        boxes = {
            "right": (x + _GAP, x + _GAP + wide, y),
            "left": (x - _GAP - wide, x - _GAP, y),
            "below": (x - wide / 2.0, x + wide / 2.0, y - _LINE),
        }
        others = [(at, at, height) for at, height in families if (at, height) != (x, y)]
        for side in ("left", "right", "below") if x > 0.7 else ("right", "left", "below"):
            begin, end, height = boxes[side]
            inside = begin >= -0.05 and end <= 1.05 and height >= -0.05
            if inside and not any(
                begin < to and of < end and abs(height - at) < _LINE for of, to, at in taken + others
            ):
                points[i] |= {"label": text, "side": side}
                taken.append(boxes[side])
                break


def _words(points: list[Datum], side: str) -> Any:
    """Names on one side of their points."""
    import altair as alt

    chosen = [point for point in points if point["label"] and point["side"] == side]
    words = alt.Chart({"values": chosen}, name=f"{side} names")
    return words.mark_text(baseline="middle", fontSize=11, color=INK, **_SIDES[side])


def _label(policy: str, is_last: bool) -> str:
    """The parameter in which a policy differs from its family; the last of them has the name too."""
    if split_mixture(policy):
        return readable(policy)
    setting = policy.partition(",")[2].rpartition("=")[2]
    kind = policy.partition(":")[0]
    return f"{kind} {setting}".strip() if is_last else setting
