"""The figure of `benchmarks.clicklog`: the curves with confidence intervals, and the gain of the model by rank."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from counterrank.common.plotting import BLUE, CONFIG, GREEN, GREY, ORANGE, VERMILLION
from counterrank.report.render import to_png, to_svg

_CURVES = {"all-pairs": (BLUE, "circle"), "em": (VERMILLION, "square"), "click rate": (GREY, "diamond")}
_OTHERS = {"over rate by rank": (GREEN, "triangle-up"), "over rate by document": (ORANGE, "circle")}
_SIZE = {"width": 360, "height": 280}


def write_figure(numbers: dict[str, Any], path: Path) -> None:
    """Write it as SVG and PNG."""
    import altair as alt

    chart = alt.hconcat(_curve_panel(numbers), _gain_panel(numbers))
    chart = chart.resolve_scale(color="independent", shape="independent")
    spec = chart.properties(padding=16).configure(**CONFIG).to_dict(validate=False)
    svg = to_svg(spec)
    path.with_suffix(".svg").write_text(svg, encoding="utf-8")
    path.with_suffix(".png").write_bytes(to_png(svg))


def _curve_panel(numbers: dict[str, Any]) -> Any:
    rows = []
    for shift, name in zip((-0.1, 0.1, 0.0), _CURVES, strict=True):
        curve = numbers["curves"][name]
        for i, value in enumerate(curve["values"]):
            row = {"rank": i + 1 + shift, "series": name, "value": value / curve["values"][0]}
            if "pages" in curve:
                row |= {"low": curve["pages"][i][0], "high": curve["pages"][i][1]}
            rows.append(row)
    title = ["Examination estimated from the log", "bars: 95 %, from resampling pages of each query"]
    return _panel(rows, _CURVES, "Relative to rank 1", title)


def _gain_panel(numbers: dict[str, Any]) -> Any:
    rows = []
    for shift, name in zip((-0.1, 0.1), _OTHERS, strict=True):
        found = numbers["held_out"]["differences"][f"position-based, all-pairs - {name.removeprefix('over ')}"]
        for i, (mean, low, high) in enumerate(found["by_rank"]):
            rows.append({"rank": i + 1 + shift, "series": name, "value": mean, "low": low, "high": high})
    pages = f"{numbers['held_out']['pages']:,} pages held out; bars: 95 % over pages"
    title = ["What the position-based model predicts better", pages]
    return _panel(rows, _OTHERS, "Gain in log-likelihood per impression", title)


def _panel(rows: list[dict[str, Any]], looks: dict[str, tuple[str, str]], label: str, title: list[str]) -> Any:
    import altair as alt

    names = list(looks)
    legend = alt.Legend(title=None, orient="top-right", labelFontSize=11.5, symbolSize=70, symbolOpacity=1)
    color = alt.Color("series:N", legend=legend, scale=alt.Scale(domain=names, range=[c for c, _ in looks.values()]))
    shape = alt.Shape("series:N", legend=legend, scale=alt.Scale(domain=names, range=[s for _, s in looks.values()]))
    last = round(max(row["rank"] for row in rows))
    axis = alt.Axis(values=list(range(1, last + 1)), format="d")
    x = alt.X("rank:Q", title="Rank", axis=axis, scale=alt.Scale(domain=[0.6, last + 0.4]))
    highest = 1.06 * max(row.get("high", row["value"]) for row in rows)
    y = alt.Y("value:Q", title=label, scale=alt.Scale(domain=[-0.02 * highest, highest], nice=False))
    bars = alt.Chart(alt.Data(values=[row for row in rows if "low" in row])).mark_rule(strokeWidth=1.6)
    base = alt.Chart(alt.Data(values=rows))
    layers = [
        alt.Chart(alt.Data(values=[{"zero": 0}])).mark_rule(color="#9a9a9a").encode(alt.Y("zero:Q")),
        bars.encode(x, alt.Y("low:Q"), alt.Y2("high:Q"), color),
        base.mark_line(strokeWidth=1.4, opacity=0.7).encode(x, y, color),
        base.mark_point(filled=True, size=46, opacity=1).encode(x, y, color, shape),
    ]
    return alt.layer(*layers).properties(title=alt.TitleParams(title[0], subtitle=title[1]), **_SIZE)
