"""The page of an inspection: the verdict on top, then the numbers and charts behind it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterrank.clicks.logs.faults import Fault
from counterrank.common.files import PathLike
from counterrank.common.plotting import BLUE, GREY, ORANGE, VERMILLION, curve_plot
from counterrank.evaluation.inspection.click_tables import contexts_sentence
from counterrank.evaluation.inspection.drift import drift_sentences
from counterrank.evaluation.inspection.result import percent as short_percent
from counterrank.report.axes import log_ticks
from counterrank.report.charts import page_spec
from counterrank.report.inspection_users import users_charts, users_section
from counterrank.report.render import Datum, Spec, render, write_file
from counterrank.report.text import counted, number, percent

if TYPE_CHECKING:
    import altair as alt

Json = dict[str, Any]
"""A part of what `Inspection.summary()` gives."""

MARKS = {"good": ("✓", "supported"), "warning": ("!", "with care"), "bad": ("✗", "not supported")}
HEIGHT = 280
_RANKS = 30  # more would be a smear
_CONTEXTS = 6  # those with most sessions
_BROAD = 8.0  # from largest to smallest rate: a logarithm shows them all
_LONGEST = 5.0  # how far below the smallest rate a logarithmic axis goes


def write_inspection_report(found: Json, path: PathLike) -> Path:
    """Write the report of an inspection, one self-contained page, to `path`; returns the path.

    `found` is what `Inspection.summary()` gives; `clicks` and `data`, where they are from, may be added, and `read`,
    the numbers of rows of a log that were used, dropped and unknown.

    >>> import tempfile
    >>> from counterrank import examination, make_ranking_data, policies, simulation
    >>> from counterrank.evaluation.inspection import inspect_clicks
    >>> data = make_ranking_data("yahoo", n_queries=5, seed=0)
    >>> shown = data.features[:, 0], policies.ReplaceLast(k=3), examination.inverse_rank(k=3)
    >>> found = inspect_clicks(simulation.simulate(data, *shown, sessions=100, seed=0)).summary()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_inspection_report(found, f"{folder}/inspection.html").name
    'inspection.html'
    """
    specs = inspection_specs(found)
    text = render(
        "inspection.html.j2",
        specs,
        clicks=found.get("clicks") or "",
        data=found.get("data") or "",
        headline=found["headline"],
        verdict=[item | {"mark": _mark(item)[0], "word": _mark(item)[1]} for item in found["verdict"]],
        advice=found["advice"],
        tally=_tally(found),
        facts=_facts(found),
        drawn=list(specs),
        ranks=_ranks(found),
        weights=_weights(found["weights"]),
        coverage=_coverage(found["coverage"]),
        check=_check(found),
        read=_read(found.get("read")),
        drift=_drift(found["drift"]),
        curve=_curve(found["estimated_curve"]),
        contexts=_contexts(found.get("contexts")),
        remedies=_remedies(found["remedies"]),
        users=users_section(found.get("users")),
    )
    return write_file(path, text)


def _mark(item: Json) -> tuple[str, str]:
    """The sign and the word; about the log itself nothing is supported or not."""
    sign, word = MARKS[item["level"]]
    return (sign, "look here") if item["about"] == "the log" else (sign, word)


def _tally(found: Json) -> list[tuple[str, str]]:
    overview, weights = found["overview"], found["weights"]
    rows = [(number(overview["sessions"]), "pages"), (number(overview["clicks"]), "clicks")]
    rows.append(
        (number(overview["queries_asked"]), f"of {counted(overview['queries'], 'query', 'queries')} with sessions")
    )
    if weights:
        rows.append((number(round(weights["effective_sample_size"])), "effective sample size"))
    covered = found["coverage"]
    if covered:
        rows.append((number(covered["never_shown"]), f"of {counted(covered['candidates'], 'candidate')} never shown"))
    return rows


def _facts(found: Json) -> list[tuple[str, str]]:
    known, overview, sessions = found["known"], found["overview"], found["sessions"]["quantiles"]
    origins = {"rho": "given", "policy": "computed from the policy", "logged": "logged with the clicks"}
    origins |= {"realised": "how often documents were shown"}
    estimated = "estimated, see below" if found["estimated_curve"] else None
    curve = (known.get("users") and estimated) or known["examination"] or estimated or "not known"
    groups = "; ".join(", ".join(map(str, group)) for group in found["connected"])
    least, median, most = (number(round(sessions[name])) for name in ("least", "median", "most"))
    rows = [
        ("Impressions", number(overview["impressions"])),
        ("Clicks per page", number(overview["clicks_per_session"])),
        ("Documents shown, clicked", f"{overview['documents_shown']:,}, {overview['documents_clicked']:,}"),
        ("Sessions of a query, median", f"{median} (from {least} to {most})"),
        ("Distinct pages", "not kept" if overview["distinct_pages"] is None else number(overview["distinct_pages"])),
        ("Pages of one query", found["pages"]["looks_like"]),
        ("Ranks connected by clicked documents", groups or "none"),
        ("Policy", known["policy"] or "not known"),
        ("Examination", curve),
        ("Propensities", origins.get(known["propensities"], "not known")),
    ]
    return [*rows, ("Policies named in the log", ", ".join(overview["policies"]))] if overview["policies"] else rows


def _ranks(found: Json) -> Json:
    """The numbers by rank, with P(examined) as given, or else as estimated from the log."""
    curve = found["estimated_curve"]
    given = {row["rank"]: row["P(examined)"] for row in found["ranks"] if row["P(examined)"] is not None}
    estimated = {} if curve is None else {row["rank"]: row["P(examined)"] for row in curve["ranks"]}
    is_fitted = bool(found["known"].get("users")) or bool(estimated and not given)
    known, words = given or estimated, f"P(examined){', estimated' * is_fitted}"
    rows = [
        row | {"P(examined)": f"{known[row['rank']]:.3f}" if row["rank"] in known else "–"} for row in found["ranks"]
    ]
    return {"rows": rows, "examination": words, "interval": f"95 % confidence interval {_over(found['overview'])}"}


def _over(overview: Json) -> str:
    """What the intervals by rank are over."""
    return "over queries" if overview["queries_asked"] > 1 else "of independent impressions"


def _weights(weights: Json | None) -> list[tuple[str, str]]:
    if weights is None:
        return []
    size = weights["expected_effective_sample_size"]
    expected = None if size is None else round(size)
    return [
        ("Effective sample size", number(round(weights["effective_sample_size"]))),
        ("… as a share of the clicks", percent(weights["effective_share_of_clicks"])),
        ("… to be expected, were all candidates equally click-worthy", number(expected)),
        ("Share of the largest 1 % of importance weights", percent(weights["share_of_heaviest_percent"])),
        ("Share of the largest importance weight", short_percent(weights["largest_share"])),
        ("Largest weight", number(weights["largest_weight"])),
    ]


def _coverage(covered: Json | None) -> list[tuple[str, str]]:
    if covered is None:
        return []
    words = {
        "candidates": "Candidates of queries with sessions",
        "never_shown": "Never shown",
        "expected_never_shown": "… to be expected under the policy, about",
        "could_have_been_shown": "… that could have been",
        "never_examinable": "Can never be examined",
        "not_on_every_page": "Missing from some page of their query",
        "sessions_to_show_95_percent": "Sessions until 95 % are expected to have been shown, about",
    }
    there = {key: covered[key] for key in words if covered.get(key) is not None}
    return [(words[key], number(round(value))) for key, value in there.items()]


def _check(found: Json) -> str:
    check = found["policy_check"]
    if check is None:
        return ""
    compared = (
        f"{counted(check['impressions_compared'], 'impression')} of "
        f"{counted(check['queries_compared'], 'query', 'queries')} compared with {found['known']['policy']}"
    )
    if check["contradicted"]:
        return f"{compared}: contradicted, see the verdict."
    return (
        f"{compared}: none that it cannot show, and no rank at which documents of the old ranking are shown more or "
        f"less often than chance allows (at an error rate of {percent(check['error_rate'], 0)} for all "
        f"{check['comparisons']:,} comparisons)."
    )


def _drift(drift: Json | None) -> str:
    return "" if drift is None else " ".join(drift_sentences(drift))


def _curve(curve: Json | None) -> Json:
    """The estimated examination curve as rows of a table, and what speaks against it."""
    if curve is None:
        return {}
    over = "over queries" if curve["target"] == "queries" else "of new clicks on these queries"
    words = (
        f"By {curve['method']} from {counted(curve['clicks'], 'click')} on {counted(curve['documents'], 'document')} "
        f"shown at several ranks, relative to rank 1; {percent(curve['confidence'], 0)} confidence intervals {over}. "
        "counterrank inspect --examination-out writes it to a file for --examination."
    )
    rows = [
        (row["rank"], f"{row['P(examined)']:.3f}", f"{row['low']:.3f} to {row['high']:.3f}") for row in curve["ranks"]
    ]
    return {"words": words, "warnings": [_sentence(text) for text in curve["warnings"]], "rows": rows}


def _contexts(table: Json | None) -> Json:
    """The curves of the contexts side by side, and whether they differ."""
    if table is None or not table["ranks"]:
        return {}
    names = table["contexts"][:_CONTEXTS]
    cells = {(row["context"], row["rank"]): row for row in table["ranks"]}
    over = "over queries" if table["target"] == "queries" else "of new clicks on these queries"
    rows = []
    for rank in sorted({row["rank"] for row in table["ranks"]}):
        own = [cells[name, rank] for name in names]
        rows.append((rank, [f"{row['P(examined)']:.3f} ({row['low']:.3f} to {row['high']:.3f})" for row in own]))
    words = (
        f"{contexts_sentence(table)} Relative to rank 1 of {names[0]}; {percent(table['confidence'], 0)} confidence "
        f"intervals {over}. Contexts with few sessions are shrunk towards what all have in common."
    )
    return {"words": words, "names": names, "rows": rows, "warnings": [_sentence(text) for text in table["warnings"]]}


def _contexts_chart(table: Json | None) -> Any:
    """The curves of the contexts, a colour for each."""
    if table is None or not table["ranks"]:
        return None
    names = table["contexts"][:_CONTEXTS]
    rows = [
        {"rank": row["rank"], "value": row["P(examined)"], "low": row["low"], "high": row["high"],
         "context": row["context"]}
        for row in table["ranks"] if row["context"] in names and row["rank"] <= _RANKS
    ]  # fmt: skip
    title = "Examination by context"
    return curve_plot(rows, title, f"P(examined) relative to rank 1 of {names[0]}", series="context")


def _sentence(text: str) -> str:
    """A remark of the library with a capital letter, without the argument that only calls in Python have."""
    return text[:1].upper() + text[1:].replace(" (k=)", "")


def _read(read: Json | None) -> Json:
    """How many rows of a log were used, dropped and unknown."""
    if read is None:
        return {}
    faults = [
        (f"{fault['unit']} that {fault['kind']}", number(fault["count"]), fault["example"]) for fault in read["faults"]
    ]
    words = (
        f"{counted(read['rows'], 'row')} read, {read['rows_used']:,} of them used, {counted(read['pages'], 'page')}."
    )
    if read["rows_dropped"]:
        words += f" Dropped: {counted(read['rows_dropped'], 'row')}, with {counted(read['pages_dropped'], 'page')}."
    for name, kind in (
        ("queries", "a query that is not in the data"),
        ("documents", "a document that is no candidate"),
    ):
        if read.get(f"rows_of_unknown_{name}"):
            words += f" Left out: {counted(read[f'rows_of_unknown_{name}'], 'row')} with {kind}."
    notes = [str(Fault(**each)) for each in read.get("notes") or ()]
    rest = "These rows count, but not over time." if read.get("dated") else "Timestamps are not used."
    return {"words": words, "faults": faults, "notes": f"{'; '.join(notes)}. {rest}" if notes else ""}


def _remedies(table: Json | None) -> Json:
    if table is None:
        return {}
    rows: dict[str, list[str]] = {}
    for family in table["families"].values():
        for row in filter(None, (family["least"], family["best"])):
            cells = [number(round(row["effective_sample_size"])), number(round(row["clicks"]))]
            cells.append("–" if row["sessions_for_target"] is None else number(row["sessions_for_target"]))
            rows[row["policy"]] = [row["policy"], *cells, "yes" if row["learns_position_bias"] else "no"]
    return {"rows": list(rows.values()), "target": number(table["target"]), "sessions": number(table["sessions"])}


def inspection_specs(found: Json) -> dict[str, Spec]:
    """Charts by the id of their place on the page; those without numbers are left out.

    >>> nothing = {"ranks": [], "weights": None, "coverage": None, "drift": None, "estimated_curve": None}
    >>> inspection_specs(nothing | {"overview": {"queries_asked": 0}, "sessions": {"histogram": []}})
    {}
    """
    made = {
        "rates": _rates(found["ranks"], found["overview"]),
        "curve": _curve_chart(found["estimated_curve"], found["ranks"]),
        "contexts": _contexts_chart(found.get("contexts")),
        "propensities": _propensities((found["weights"] or {}).get("histogram") or []),
        "old-ranks": _old_ranks((found["coverage"] or {}).get("by_old_rank") or []),
        "sessions": _sessions(found["sessions"]["histogram"]),
        "drift": _drift_chart((found["drift"] or {}).get("periods") or []),
    }
    made |= users_charts(found.get("users"))
    return {name: page_spec(chart) for name, chart in made.items() if chart is not None}


def _tooltip(**titles: str) -> list[alt.Tooltip]:
    """The fields of a tooltip, each with its title."""
    import altair as alt

    return [alt.Tooltip(f"{name}:N", title=title) for name, title in titles.items()]


def _legend(kinds: dict[str, str], **options: Any) -> alt.Color:
    """The colour of each kind of bar, with a legend above the chart."""
    import altair as alt

    scale = alt.Scale(domain=list(kinds), range=list(kinds.values()))
    return alt.Color("what:N", scale=scale, legend=alt.Legend(orient="top", offset=0, **options))


def _bars(rows: list[Datum], title: tuple[str, str], x: str, y: Any, mark: dict[str, Any], **encoding: Any) -> Any:
    """Bars of `rows`, one place for each of their bins, in order."""
    import altair as alt

    order = list(dict.fromkeys(row["bin"] for row in rows))
    head = alt.TitleParams(title[0], subtitle=title[1])
    chart = alt.Chart({"values": rows}, title=head, height=HEIGHT, width="container")
    places = alt.X("bin:N", sort=order, title=x, axis=alt.Axis(labelAngle=-40))
    return chart.mark_bar(**mark).encode(places, y, **encoding)


def _rate_axis(rows: list[Datum], log: bool, form: str) -> Any:
    import altair as alt

    high = 1.04 * max(max(row["high"], row.get("expected", 0.0)) for row in rows)
    if not log:
        scale, axis = alt.Scale(domain=[0.0, high], nice=False), alt.Axis(format=form, tickCount=6)
        return alt.Y("rate:Q", title=None, scale=scale, axis=axis)
    least = min(min(row["rate"], row.get("expected", 1.0)) for row in rows)
    low = max(0.96 * min(least, *(row["low"] for row in rows)), least / _LONGEST)  # longer intervals are cut
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    axis = alt.Axis(format=form, values=log_ticks(low, high, HEIGHT), labelOverlap="greedy")
    return alt.Y("rate:Q", title=None, scale=scale, axis=axis)


def _points(
    rows: list[Datum], x: Any, log: bool, title: tuple[str, str], line: bool, tip: list[Any], form: str = "~%"
) -> Any:
    """Values as dots with their intervals, and what is expected where that is known."""
    import altair as alt

    y = _rate_axis(rows, log, form)
    base = alt.Chart({"values": rows})
    layers = []
    if any("expected" in row for row in rows):
        square = {"color": GREY, "shape": "square", "size": 18}
        curve = base.transform_filter("isValid(datum.expected)").mark_line(
            color=GREY, strokeDash=[5, 4], strokeWidth=1.6, clip=True, point=square
        )
        layers.append(curve.encode(x, alt.Y("expected:Q")))
    if line:
        layers.append(base.mark_line(color=BLUE, opacity=0.5, strokeWidth=1.2).encode(x, y))
    spans = base.mark_rule(color=BLUE, strokeWidth=3, opacity=0.45, clip=True)
    dots = base.mark_point(color=BLUE, filled=True, size=60, opacity=1)
    layers += [spans.encode(x, alt.Y("low:Q"), alt.Y2("high:Q")), dots.encode(x, y, tooltip=tip)]
    head = alt.TitleParams(title[0], subtitle=title[1])
    return alt.LayerChart(layer=layers, height=HEIGHT, title=head, width="container")


def _rate_tip() -> list[alt.Tooltip]:
    return _tooltip(at="At", value="Click rate", interval="95 % interval", shown="Impressions")


def _rank_axis(ranks: list[int]) -> alt.X:
    import altair as alt

    ticks = alt.Axis(values=ranks, labelOverlap="greedy", grid=False, format="d")
    scale = alt.Scale(domain=[ranks[0] - 0.5, ranks[-1] + 0.5], nice=False)
    return alt.X("rank:Q", title="Rank", axis=ticks, scale=scale)


def _is_broad(values: list[float], lows: list[float]) -> bool:
    """Whether a logarithm shows them better, and can."""
    seen = [value for value in values if value > 0.0]
    return bool(seen) and max(seen) / min(seen) > _BROAD and min(lows) > 0.0


def _curve_chart(curve: Json | None, ranks: list[Json]) -> Any:
    """The estimated examination curve, and the given one where there is one."""
    if curve is None:
        return None
    known = {row["rank"]: row["P(examined)"] for row in ranks}
    rows: list[Datum] = []
    for row in curve["ranks"][:_RANKS]:
        value, interval = f"{row['P(examined)']:.3f}", f"{row['low']:.3f} to {row['high']:.3f}"
        rows.append({"rank": row["rank"], "at": f"rank {row['rank']}", "rate": row["P(examined)"], "low": row["low"],
                     "high": row["high"], "value": value, "interval": interval})  # fmt: skip
        if known.get(row["rank"]) and known.get(1):
            rows[-1]["expected"] = known[row["rank"]] / known[1]
    log = _is_broad([row["rate"] for row in rows], [row["low"] for row in rows])
    given = "; dashed: the given curve" if any("expected" in row for row in rows) else ""
    title = (
        "Examination estimated from the log",
        f"{'log axis; ' if log else ''}P(examined) relative to rank 1, bars: {percent(curve['confidence'], 0)} "
        f"intervals{given}",
    )
    tip = _tooltip(at="At", value="P(examined)", interval="Interval")
    return _points(rows, _rank_axis([row["rank"] for row in rows]), log, title, True, tip, "~g")


def _rate_row(row: Json, at: str) -> Datum:
    return {
        "at": at,
        "rate": row["click rate"],
        "low": row["low"],
        "high": row["high"],
        "value": percent(row["click rate"], 2),
        "interval": f"{percent(row['low'], 2)} to {percent(row['high'], 2)}",
        "shown": number(row["impressions"]),
    }


def _rates(ranks: list[Json], overview: Json) -> Any:
    kept = [row for row in ranks[:_RANKS] if row["click rate"] is not None]
    if not kept:
        return None
    rows = [_rate_row(row, f"rank {row['rank']}") | {"rank": row["rank"]} for row in kept]
    first = kept[0]
    for row, source in zip(rows, kept, strict=True):
        if source["P(examined)"] and first["P(examined)"]:
            row["expected"] = first["click rate"] * source["P(examined)"] / first["P(examined)"]
    log = _is_broad([row["rate"] for row in rows], [row["low"] for row in rows])
    curve = "; dashed: P(examined), scaled to the first rank" if any("expected" in row for row in rows) else ""
    over = f"bars: 95 % confidence intervals {_over(overview)}"
    title = ("Click rate by rank", f"{'log axis; ' if log else ''}{over}{curve}")
    return _points(rows, _rank_axis([row["rank"] for row in rows]), log, title, False, _rate_tip())


def _propensities(bins: list[Json]) -> Any:
    import altair as alt

    clicks = sum(row["clicks"] for row in bins)
    if not clicks:
        return None
    kinds = {"of clicks": "#9cc7e0", "of weight": VERMILLION}
    rows = [
        {"bin": f"{row['from']:g} – {row['to']:g}", "share": share, "what": what, "value": percent(share)}
        for row in reversed(bins)
        for what, share in zip(kinds, (row["clicks"] / clicks, row["share_of_weight"]), strict=True)
    ]
    return _bars(
        rows,
        (
            "Importance weights by propensity",
            "the weight of a click is 1 / propensity: the rarest at the right weigh most",
        ),
        "Propensity of the clicked document",
        alt.Y("share:Q", title=None, axis=alt.Axis(format=".0%", tickCount=5)),
        {},
        color=_legend(kinds, title="Share"),
        tooltip=_tooltip(bin="Propensity", value="Share", what=""),
        xOffset=alt.XOffset("what:N", sort=list(kinds)),
    )


def _old_ranks(bins: list[Json]) -> Any:
    import altair as alt

    if not bins:
        return None
    kinds = {"shown": ("shown", BLUE), "never_shown": ("never shown", ORANGE)}
    if bins[0]["can_never_be"] is not None:
        more = {"could_have_been": ("not yet shown", ORANGE), "can_never_be": ("can never be examined", "#8c2d04")}
        kinds = {"shown": kinds["shown"], **more}
    rows = []
    for row in bins:
        low, high = row["old_rank_from"], row["old_rank_to"]
        place = str(low) if low == high else f"{low} – {high}"
        for i, (key, (what, _)) in enumerate(kinds.items()):
            share = row[key] / row["candidates"]
            texts = {"value": percent(share), "count": f"{row[key]:,}", "order": i}
            rows.append({"bin": place, "what": what, "share": share} | texts)
    axis = alt.Axis(format=".0%", tickCount=5)
    return _bars(
        rows,
        ("Coverage by old rank", "share of the candidates at each rank of the logging ranker"),
        "Rank under the logger",
        alt.Y("share:Q", title=None, stack="zero", scale=alt.Scale(domain=[0, 1]), axis=axis),
        {"stroke": "white", "strokeWidth": 0.6},
        color=_legend(dict(kinds.values()), title=None),
        order=alt.Order("order:Q"),
        tooltip=_tooltip(bin="Old rank", what="", value="Share", count="Candidates"),
    )


def _sessions(bins: list[Json]) -> Any:
    import altair as alt

    if sum(row["queries"] for row in bins) < 2:
        return None
    ends = [(f"{row['from']:,}", f"{row['to']:,}") for row in bins]
    places = [low if low == high else f"{low} – {high}" for low, high in ends]
    rows = [{"bin": place, "queries": row["queries"]} for place, row in zip(places, bins, strict=True)]
    return _bars(
        rows,
        ("Sessions per query", "queries with that many sessions"),
        "Sessions",
        alt.Y("queries:Q", title=None, axis=alt.Axis(tickMinStep=1, format=",d", tickCount=5)),
        {"color": BLUE, "opacity": 0.85, **({"size": 60} if len(rows) < 4 else {})},
        tooltip=[*_tooltip(bin="Sessions"), alt.Tooltip("queries:Q", title="Queries", format=",")],
    )


def _drift_chart(periods: list[Json]) -> Any:
    import altair as alt

    kept = [row for row in periods if row["click rate"] is not None]
    if not kept:
        return None
    begins = [str(row["begin"]) for row in kept]
    if all(text.endswith(" 00:00") for text in begins):  # whole days
        begins = [text.removesuffix(" 00:00") for text in begins]
    rows = [_rate_row(row, begin) | {"begin": begin} for row, begin in zip(kept, begins, strict=True)]
    axis = alt.Axis(labelAngle=-40, labelOverlap="greedy")
    x = alt.X("begin:N", sort=[row["begin"] for row in rows], title="Period that begins", axis=axis)
    title = ("Click rate over time", "bars: 95 % confidence intervals of independent clicks")
    return _points(rows, x, False, title, True, _rate_tip())
