"""The page of a plan: advice, price against what it buys, and all numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from counterrank.common.errors import CounterrankError
from counterrank.common.files import PathLike, atomic_file
from counterrank.report.figures import PANEL_WIDTH, file_spec, page_spec
from counterrank.report.names import metric_name, number, percent
from counterrank.report.price import family_of, price_panel
from counterrank.report.render import html, render
from counterrank.report.styles import Style, assign_styles
from counterrank.report.swatches import swatch
from counterrank.report.vega import to_png, to_svg

_WIDEST = 1000.0  # times the narrowest interval that is drawn


def write_plan_report(content: dict[str, Any], path: PathLike) -> Path:
    """Write a plan as a page (.html), or its chart alone (.png, .svg); returns the path.

    `content` has a title, `advice` (sentences), the metric, and `plans`: for each policy its name, price, displayed,
    covered, reached and biased, and under `expected` for each number of sessions clicks, effective_sample_size,
    ips_width, doubtful and seen; where sessions were asked for, needed_for_width and needed_for_effective. `facts` are
    pairs of texts.

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
        made = _page(content, styles).encode("utf-8")
    else:
        if not (charts := _charts(content, styles, PANEL_WIDTH)):
            raise CounterrankError(f"{path}: no price without labels, so that there is no chart; expected a .html page")
        svg = to_svg(file_spec(list(charts.values()), content["title"]))
        made = svg.encode("utf-8") if kind == ".svg" else to_png(svg)
    with atomic_file(path) as temporary:
        temporary.write_bytes(made)
    return Path(path)


def _charts(content: dict[str, Any], styles: dict[str, Style], width: int | None = None) -> dict[str, Any]:
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
    return {
        "size": price_panel(
            rows, size, ("Price and effective sample size", f"{sessions}; right and low is better"), styles, width
        ),
        "width": price_panel(
            rows, wide, (f"Price and interval of {metric}", f"{sessions}; left and low is better"), styles, width
        ),
    }


def _page(content: dict[str, Any], styles: dict[str, Style]) -> str:
    charts = _charts(content, styles)
    legend = [{"label": family_of(name), "swatch": html(swatch(style))} for name, style in styles.items()]
    return render(
        "plan.html.j2",
        {name: page_spec(chart) for name, chart in charts.items()},
        title=content["title"],
        advice=content["advice"],
        metric=metric_name(content["metric"]),
        drawn=bool(charts),
        legend=legend,
        wanted=content.get("wanted", {}),
        policies=[_policy(plan) for plan in content["plans"]],
        sessions=[number(at["sessions"]) for at in content["plans"][0]["expected"]],
        facts=content["facts"],
    )


def _policy(plan: dict[str, Any]) -> dict[str, Any]:
    """A policy's numbers as texts."""
    return {
        "name": plan["policy"],
        "price": percent(plan["price"]),
        "displayed": number(plan["displayed"]),
        "covered": percent(plan["covered"]),
        "reached": percent(plan["reached"]),
        "needed": {key: _sessions(plan.get(f"needed_for_{key}")) for key in ("width", "effective")},
        "expected": [
            {
                "clicks": f"{at['clicks']:,.0f}",
                "effective": f"{at['effective_sample_size']:,.0f}",
                "width": number(at["ips_width"]) + (" biased" if plan["biased"] else " ?" if at["doubtful"] else ""),
                "seen": percent(at["seen"]),
            }
            for at in plan["expected"]
        ],
    }


def _sessions(needed: int | None) -> str:
    return "never" if needed is None else number(needed)
