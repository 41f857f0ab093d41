"""The part of an inspection's page on users: which model the log supports, drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from counterrank.common.plotting import BLUE, GREEN, GREY, VERMILLION
from counterrank.report.render import Datum
from counterrank.report.text import number, percent

if TYPE_CHECKING:
    import altair as alt

Json = dict[str, Any]

_HEIGHT = 280
_RANKS = 20
_NONE, _NEXT, _FAR = "no click above", "last click just above", "last click farther up"
_COLOURS = {_NONE: BLUE, _NEXT: VERMILLION, _FAR: GREEN}


def users_section(found: Json | None) -> Json:
    """Sentences, and rows of a table; empty without a comparison."""
    if found is None:
        return {}
    rows = [
        {
            "name": row["name"],
            "chosen": row["name"] == found["recommended"],
            "values": row["values"] if row["name"] not in ("click rate by rank", "click rate by document") else "–",
            "log_likelihood": f"{row['log_likelihood']:.4f}",
            "perplexity": f"{row['perplexity']:.4f}",
            "difference": _difference(row),
            "identified": "yes" if row["identified"] else "no",
        }
        for row in found["models"]
    ]
    return {"sentences": list(found["sentences"]), "rows": rows, "about": found["about"], "by_rank": _by_rank(found)}


def _difference(row: Json) -> str:
    if row["name"] == "position-based":
        return "–"
    values = (row[key] for key in ("difference", "difference_low", "difference_high"))
    value, low, high = (f"{each:+.5f}".replace("-", "−") for each in values)
    return f"{value} ({low} to {high})"


def _by_rank(found: Json) -> Json:
    """Perplexity by rank: a header, and a row for each rank."""
    models = found["models"]
    if not models:
        return {}
    depth = min(len(models[0]["perplexity_by_rank"]), _RANKS)
    rows = [[str(rank + 1), *(f"{row['perplexity_by_rank'][rank]:.4f}" for row in models)] for rank in range(depth)]
    return {"names": [row["name"] for row in models], "rows": rows}


def users_charts(found: Json | None) -> dict[str, Any]:
    """Charts by the id of their place on the page."""
    if found is None or not found["models"]:
        return {}
    return {"users": _models_chart(found), "last-clicks": _last_clicks_chart(found)}


def _models_chart(found: Json) -> alt.LayerChart:
    """Differences of the held-out log-likelihood to that of the position-based model."""
    import altair as alt

    rows: list[Datum] = [
        {
            "name": row["name"],
            "value": row["difference"],
            "low": row["difference_low"],
            "high": row["difference_high"],
            "what": "recommended" if row["name"] == found["recommended"] else "others",
            "text": _difference(row),
        }
        for row in found["models"]
    ]
    names = [row["name"] for row in found["models"]]
    y = alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=200, ticks=False))
    tip = [alt.Tooltip("name:N", title="Model"), alt.Tooltip("text:N", title="Difference per impression")]
    scale = alt.Scale(domain=["recommended", "others"], range=[VERMILLION, BLUE])
    base = alt.Chart({"values": rows})
    color = alt.Color("what:N", scale=scale, legend=None)
    axis = alt.Axis(format="~g", tickCount=5, grid=True)
    x = alt.X("value:Q", title="Log-likelihood per held-out impression, less that of position-based", axis=axis)
    zero = alt.Chart({"values": [{"zero": 0}]}).mark_rule(color=GREY, strokeDash=[4, 4]).encode(alt.X("zero:Q"))
    spans = base.mark_rule(strokeWidth=3, opacity=0.45).encode(alt.X("low:Q"), y, alt.X2("high:Q"), color=color)
    dots = base.mark_point(filled=True, size=70, opacity=1).encode(x, y, color=color, tooltip=tip)
    over = "queries" if found["interval_over"] == "queries" else "sessions"
    head = alt.TitleParams(
        "User models on held-out pages",
        subtitle=f"to the right: better predictions; bars: {percent(found['confidence'], 0)} intervals over {over}"
        + (f"; red: {found['recommended']} is recommended" if found["recommended"] else ""),
    )
    return alt.LayerChart(layer=[zero, spans, dots], height=_HEIGHT, title=head, width="container")


def _last_clicks_chart(found: Json) -> alt.LayerChart:
    """Click rates given the last click above: observed, and by the best and the position-based model."""
    import altair as alt

    names = [row for row in found["models"] if row["name"] in found["last_clicks"][0]["predicted"]]
    best = found["recommended"] or max(names, key=lambda row: row["log_likelihood"])["name"]
    rows = _summed(found["last_clicks"], best)
    ranks = sorted({row["rank"] for row in rows})
    ticks = alt.Axis(values=ranks, labelOverlap="greedy", grid=False, format="d")
    scale = alt.Scale(domain=[ranks[0] - 0.5, ranks[-1] + 0.5], nice=False)
    x = alt.X("rank:Q", title="Rank", axis=ticks, scale=scale)
    axis = alt.Axis(format="~%", tickCount=6)
    y = alt.Y("rate:Q", title=None, axis=axis, scale=alt.Scale(domainMin=0.0))
    colours = alt.Scale(domain=list(_COLOURS), range=list(_COLOURS.values()))
    legend = alt.Legend(orient="top", offset=0, title=None, labelLimit=200)
    color = alt.Color("above:N", scale=colours, legend=legend)
    tip = [
        alt.Tooltip("rank:Q", title="Rank"),
        alt.Tooltip("above:N", title="Above"),
        alt.Tooltip("observed:N", title="Click rate"),
        alt.Tooltip("shown:N", title="Impressions"),
        alt.Tooltip("by_best:N", title=best),
        alt.Tooltip("by_curve:N", title="position-based"),
    ]
    base = alt.Chart({"values": rows})
    layers = []
    if best != "position-based":
        layers.append(base.mark_line(strokeWidth=1.8).encode(x, alt.Y("best:Q"), color=color))
    layers.append(
        base.mark_line(strokeDash=[4, 4], strokeWidth=1.4, opacity=0.8).encode(x, alt.Y("curve:Q"), color=color)
    )
    spans = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=3, opacity=0.4)
    layers.append(spans.encode(x, alt.Y("low:Q"), alt.Y2("high:Q"), color=color))
    layers.append(base.mark_point(filled=True, size=55, opacity=1).encode(x, y, color=color, tooltip=tip))
    lines = "dashed: position-based model" if best == "position-based" else f"lines: {best}, dashed: position-based"
    head = alt.TitleParams("Click rate given the last click above", subtitle=f"dots: observed, held out; {lines}")
    return alt.LayerChart(layer=layers, height=_HEIGHT, title=head, width="container")


def _summed(cells: list[Json], best: str) -> list[Datum]:
    """Rates by rank and by whether the last click is just above, farther up, or nowhere."""
    sums: dict[tuple[str, int], list[Json]] = {}
    for cell in cells:
        rank, last = cell["rank"], cell["last click"]
        above = _NONE if not last else _NEXT if last == rank - 1 else _FAR
        if rank <= _RANKS:
            sums.setdefault((above, rank), []).append(cell)
    rows: list[Datum] = []
    for (above, rank), own in sums.items():
        shown = sum(cell["impressions"] for cell in own)

        def mean(values: list[float], own: list[Json] = own, shown: int = shown) -> float:
            total: float = sum(v * cell["impressions"] for v, cell in zip(values, own, strict=True))
            return total / shown

        rate = mean([cell["click rate"] for cell in own])
        by_best, by_curve = (mean([cell["predicted"][name] for cell in own]) for name in (best, "position-based"))
        row: Datum = {"rank": rank, "above": above, "rate": rate, "best": by_best, "curve": by_curve}
        row |= {"observed": percent(rate), "shown": number(shown)}
        row |= {"by_best": percent(by_best), "by_curve": percent(by_curve)}
        if len(own) == 1:
            row |= {"low": own[0]["low"], "high": own[0]["high"]}
        rows.append(row)
    return rows
