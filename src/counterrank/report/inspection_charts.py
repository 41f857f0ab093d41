"""The charts of an inspection: click rate by rank, weights, coverage by old rank, sessions per query, drift."""

from __future__ import annotations

from typing import Any

from counterrank.report.figures import page_spec
from counterrank.report.names import number, percent
from counterrank.report.styles import BLUE, GREY, ORANGE, VERMILLION

HEIGHT = 280
_RANKS = 30  # more would be a smear
_BROAD = 8.0  # from largest to smallest rate: a logarithm shows them all


def inspection_specs(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Charts by the id of their place on the page; those without numbers are left out.

    >>> nothing = {"ranks": [], "weights": None, "coverage": None, "drift": None}
    >>> inspection_specs(nothing | {"overview": {"queries_asked": 0}, "sessions": {"histogram": []}})
    {}
    """
    made = {
        "rates": _rates(found["ranks"], found["overview"]["queries_asked"]),
        "propensities": _propensities((found["weights"] or {}).get("histogram") or []),
        "old-ranks": _old_ranks((found["coverage"] or {}).get("by_old_rank") or []),
        "sessions": _sessions(found["sessions"]["histogram"]),
        "drift": _drift((found["drift"] or {}).get("periods") or []),
    }
    return {name: page_spec(chart) for name, chart in made.items() if chart is not None}


def _chart(rows: list[dict[str, Any]], title: str, subtitle: str) -> Any:
    import altair as alt

    return alt.Chart(
        {"values": rows}, title=alt.TitleParams(title, subtitle=subtitle), height=HEIGHT, width="container"
    )


def _rate_axis(rows: list[dict[str, Any]], log: bool) -> Any:
    import altair as alt

    high = 1.04 * max(max(row["high"], row.get("expected", 0.0)) for row in rows)
    if not log:
        scale, axis = alt.Scale(domain=[0.0, high], nice=False), alt.Axis(format="~%", tickCount=6)
        return alt.Y("rate:Q", title=None, scale=scale, axis=axis)
    low = 0.96 * min(min(row["low"], row.get("expected", 1.0)) for row in rows)
    ticks = [lead * 10.0**-p for p in range(8) for lead in (1, 2, 5) if low <= lead * 10.0**-p <= high]
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    return alt.Y("rate:Q", title=None, scale=scale, axis=alt.Axis(format="~%", values=ticks))


def _points(rows: list[dict[str, Any]], x: Any, log: bool, title: tuple[str, str], line: bool) -> Any:
    """Rates as dots with their intervals, and P(examined) scaled to the first rate where it is known."""
    import altair as alt

    y = _rate_axis(rows, log)
    tip = [alt.Tooltip(f"{name}:N", title=words) for name, words in (("at", "At"), ("value", "Click rate"))]
    tip += [alt.Tooltip("interval:N", title="95 % interval"), alt.Tooltip("shown:N", title="Impressions")]
    base = alt.Chart({"values": rows})
    spans = base.mark_rule(color=BLUE, strokeWidth=3, opacity=0.45, clip=True).encode(
        x, alt.Y("low:Q"), alt.Y2("high:Q")
    )
    dots = base.mark_point(color=BLUE, filled=True, size=60, opacity=1).encode(x, y, tooltip=tip)
    layers = [spans, dots]
    if line:
        layers.insert(0, base.mark_line(color=BLUE, opacity=0.5, strokeWidth=1.2).encode(x, y))
    if any("expected" in row for row in rows):
        curve = base.transform_filter("isValid(datum.expected)").mark_line(
            color=GREY,
            strokeDash=[5, 4],
            strokeWidth=1.6,
            clip=True,
            point={"color": GREY, "shape": "square", "size": 18},
        )
        layers.insert(0, curve.encode(x, alt.Y("expected:Q")))
    head = alt.TitleParams(title[0], subtitle=title[1])
    return alt.LayerChart(layer=layers, height=HEIGHT, title=head, width="container")


def _rates(ranks: list[dict[str, Any]], queries: int) -> Any:
    import altair as alt

    kept = [row for row in ranks[:_RANKS] if row["click rate"] is not None]
    if not kept:
        return None
    rows = [_rate_row(row, f"rank {row['rank']}") | {"rank": row["rank"]} for row in kept]
    first = kept[0]
    for row, source in zip(rows, kept, strict=True):
        if source["P(examined)"] and first["P(examined)"]:
            row["expected"] = first["click rate"] * source["P(examined)"] / first["P(examined)"]
    seen = [row["rate"] for row in rows if row["rate"] > 0.0]
    log = bool(seen) and max(seen) / min(seen) > _BROAD and all(row["low"] > 0.0 for row in rows)
    curve = "; dashed: P(examined), scaled to the first rank" if any("expected" in row for row in rows) else ""
    over = "over queries" if queries > 1 else "of independent impressions"
    title = ("Click rate by rank", f"{'log axis; ' if log else ''}bars: 95 % intervals {over}{curve}")
    domain = [rows[0]["rank"] - 0.5, rows[-1]["rank"] + 0.5]
    values = [row["rank"] for row in rows]
    ticks = alt.Axis(values=values, labelOverlap="greedy", grid=False, format="d")
    x = alt.X("rank:Q", title="Rank", axis=ticks, scale=alt.Scale(domain=domain, nice=False))
    return _points(rows, x, log, title, False)


def _rate_row(row: dict[str, Any], at: str) -> dict[str, Any]:
    return {
        "at": at,
        "rate": row["click rate"],
        "low": row["low"],
        "high": row["high"],
        "value": percent(row["click rate"], 2),
        "interval": f"{percent(row['low'], 2)} to {percent(row['high'], 2)}",
        "shown": number(row["impressions"]),
    }


def _propensities(bins: list[dict[str, Any]]) -> Any:
    import altair as alt

    clicks = sum(row["clicks"] for row in bins)
    if not clicks:
        return None
    rows = []
    for row in reversed(bins):
        label = f"{row['from']:g} – {row['to']:g}"
        shares = {"of clicks": row["clicks"] / clicks, "of weight": row["share_of_weight"]}
        rows += [
            {"bin": label, "share": share, "what": what, "value": percent(share)} for what, share in shares.items()
        ]
    colour = alt.Color(
        "what:N",
        scale=alt.Scale(domain=["of clicks", "of weight"], range=["#9cc7e0", VERMILLION]),
        legend=alt.Legend(title="Share", orient="top", offset=0),
    )
    order = list(dict.fromkeys(row["bin"] for row in rows))
    tip = [
        alt.Tooltip("bin:N", title="Propensity"),
        alt.Tooltip("value:N", title="Share"),
        alt.Tooltip("what:N", title=""),
    ]
    x = alt.X("bin:N", sort=order, title="Propensity of the clicked document", axis=alt.Axis(labelAngle=-40))
    y = alt.Y("share:Q", title=None, axis=alt.Axis(format=".0%", tickCount=5))
    title = ("Who carries the weight", "a click weighs 1 / propensity: rare ones at the right weigh most")
    return _chart(rows, *title).mark_bar().encode(
        x, y, color=colour, tooltip=tip, xOffset=alt.XOffset("what:N", sort=["of clicks", "of weight"])
    )  # fmt: skip


def _old_ranks(bins: list[dict[str, Any]]) -> Any:
    import altair as alt

    if not bins:
        return None
    split = bins[0]["can_never_be"] is not None
    kinds = (
        (
            ("shown", "shown", BLUE),
            ("could_have_been", "not yet shown", ORANGE),
            ("can_never_be", "can never be examined", "#8c2d04"),
        )
        if split
        else (("shown", "shown", BLUE), ("never_shown", "never shown", ORANGE))
    )
    rows = []
    for row in bins:
        low, high = row["old_rank_from"], row["old_rank_to"]
        for i, (key, words, _) in enumerate(kinds):
            rows.append(
                {
                    "bin": str(low) if low == high else f"{low} – {high}",
                    "what": words,
                    "share": row[key] / row["candidates"],
                }
                | {"value": percent(row[key] / row["candidates"]), "count": f"{row[key]:,}", "order": i}
            )
    domain = [words for _, words, _ in kinds]
    colour = alt.Color(
        "what:N",
        scale=alt.Scale(domain=domain, range=[color for _, _, color in kinds]),
        legend=alt.Legend(title=None, orient="top", offset=0),
    )
    tip = [
        alt.Tooltip(f"{name}:N", title=words) for name, words in (("bin", "Old rank"), ("what", ""), ("value", "Share"))
    ]
    tip.append(alt.Tooltip("count:N", title="Candidates"))
    order = list(dict.fromkeys(row["bin"] for row in rows))
    x = alt.X("bin:N", sort=order, title="Rank under the logger", axis=alt.Axis(labelAngle=-40))
    y = alt.Y(
        "share:Q", title=None, stack="zero", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format=".0%", tickCount=5)
    )
    title = ("Who was shown", "share of the candidates at each rank of the old ranking")
    return _chart(rows, *title).mark_bar(stroke="white", strokeWidth=0.6).encode(
        x, y, color=colour, order=alt.Order("order:Q"), tooltip=tip
    )  # fmt: skip


def _sessions(bins: list[dict[str, Any]]) -> Any:
    import altair as alt

    if sum(row["queries"] for row in bins) < 2:
        return None
    rows = [
        {"bin": f"{row['from']:,}" if row["from"] == row["to"] else f"{row['from']:,} – {row['to']:,}"}
        | {"queries": row["queries"]}
        for row in bins
    ]
    x = alt.X("bin:N", sort=[row["bin"] for row in rows], title="Sessions", axis=alt.Axis(labelAngle=-40))
    y = alt.Y("queries:Q", title=None, axis=alt.Axis(tickMinStep=1, format=",d", tickCount=5))
    tip = [alt.Tooltip("bin:N", title="Sessions"), alt.Tooltip("queries:Q", title="Queries", format=",")]
    title = ("Sessions per query", "queries that were asked so often")
    wide = {"size": 60} if len(rows) < 4 else {}
    return _chart(rows, *title).mark_bar(color=BLUE, opacity=0.85, **wide).encode(x, y, tooltip=tip)


def _drift(periods: list[dict[str, Any]]) -> Any:
    import altair as alt

    rows = [
        _rate_row(row, str(row["begin"])) | {"begin": str(row["begin"])}
        for row in periods
        if row["click rate"] is not None
    ]
    if not rows:
        return None
    axis = alt.Axis(labelAngle=-40, labelOverlap="greedy")
    x = alt.X("begin:N", sort=[row["begin"] for row in rows], title="Period that begins", axis=axis)
    title = ("Click rate over time", "bars: 95 % intervals of independent clicks")
    return _points(rows, x, False, title, True)
