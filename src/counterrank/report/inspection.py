"""The page of an inspection: the verdict on top, then the numbers behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from counterrank.common.files import PathLike, atomic_file
from counterrank.evaluation.inspection.findings import percent as short_percent
from counterrank.report.inspection_charts import inspection_specs
from counterrank.report.names import counted, number, percent
from counterrank.report.render import render

MARKS = {"good": ("✓", "supported"), "warning": ("!", "with care"), "bad": ("✗", "not supported")}


def write_inspection_report(found: dict[str, Any], path: PathLike) -> Path:
    """Write the page of an inspection, which holds all it needs, to `path`; returns the path.

    `found` is what `Inspection.summary()` gives; `clicks` and `data`, where they are from, may be added, and `read`,
    the summary of what became of the rows of a log.

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
        ranks=_ranks(found["ranks"]),
        weights=_weights(found["weights"]),
        coverage=_coverage(found["coverage"]),
        check=_check(found),
        read=_read(found.get("read")),
        drift=_drift(found["drift"]),
        remedies=_remedies(found["remedies"]),
    )
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return Path(path)


def _mark(item: dict[str, Any]) -> tuple[str, str]:
    """The sign and the word; about the log itself nothing is supported or not."""
    sign, word = MARKS[item["level"]]
    return (sign, "look here") if item["about"] == "the log" else (sign, word)


def _tally(found: dict[str, Any]) -> list[tuple[str, str]]:
    overview, weights = found["overview"], found["weights"]
    rows = [(number(overview["sessions"]), "pages"), (number(overview["clicks"]), "clicks")]
    rows.append((number(overview["queries_asked"]), f"of {counted(overview['queries'], 'query', 'queries')} asked"))
    if weights:
        rows.append((number(round(weights["effective_sample_size"])), "effective sample size"))
    covered = found["coverage"]
    if covered:
        rows.append((number(covered["never_shown"]), f"of {counted(covered['candidates'], 'candidate')} never shown"))
    return rows


def _facts(found: dict[str, Any]) -> list[tuple[str, str]]:
    known, overview, sessions = found["known"], found["overview"], found["sessions"]["quantiles"]
    origin = {
        "rho": "given",
        "policy": "computed from the policy",
        "logged": "logged with the clicks",
        None: "not known",
    }
    groups = "; ".join(", ".join(map(str, group)) for group in found["connected"])
    least, median, most = (number(round(sessions[name])) for name in ("least", "median", "most"))
    rows = [
        ("Impressions", number(overview["impressions"])),
        ("Clicks per page", number(overview["clicks_per_session"])),
        ("Documents shown, clicked", f"{overview['documents_shown']:,}, {overview['documents_clicked']:,}"),
        ("Sessions of a query, median", f"{median} (from {least} to {most})"),
        ("Distinct pages", "not kept" if overview["distinct_pages"] is None else number(overview["distinct_pages"])),
        ("Pages of one query", found["pages"]["looks_like"]),
        ("Ranks that clicked documents connect", groups or "none"),
        ("Policy", known["policy"] or "not known"),
        ("Examination", known["examination"] or "not known"),
        ("Propensities", origin[known["propensities"]]),
    ]
    return [*rows, ("Policies named in the log", ", ".join(overview["policies"]))] if overview["policies"] else rows


def _ranks(ranks: list[dict[str, Any]]) -> list[list[str]]:
    return [
        [
            str(row["rank"]),
            number(row["impressions"]),
            number(row["clicks"]),
            percent(row["click rate"], 2),
            "–" if row["low"] is None else f"{percent(row['low'], 2)} to {percent(row['high'], 2)}",
            number(row["P(examined)"]),
            "–" if row["documents per query"] is None else f"{row['documents per query']:.1f}",
            percent(row["most shown"]),
        ]
        for row in ranks
    ]


def _weights(weights: dict[str, Any] | None) -> list[tuple[str, str]]:
    if weights is None:
        return []
    size = weights["expected_effective_sample_size"]
    expected = None if size is None else round(size)
    return [
        ("Effective sample size", number(round(weights["effective_sample_size"]))),
        ("… as a share of the clicks", percent(weights["effective_share_of_clicks"])),
        ("… to be expected, were all candidates equally click-worthy", number(expected)),
        ("Weight in the heaviest 1 % of clicks", percent(weights["share_of_heaviest_percent"])),
        ("Weight of the heaviest click", short_percent(weights["largest_share"])),
        ("Largest weight", number(weights["largest_weight"])),
    ]


def _coverage(covered: dict[str, Any] | None) -> list[tuple[str, str]]:
    if covered is None:
        return []
    words = {
        "candidates": "Candidates of queries that were asked",
        "never_shown": "Never shown",
        "expected_never_shown": "… to be expected under the policy, about",
        "could_have_been_shown": "… that could have been",
        "never_examinable": "Can never be examined",
        "not_on_every_page": "Missing from some page of their query",
        "sessions_to_show_95_percent": "Sessions until 95 % are expected to have been shown, about",
    }
    there = {key: covered[key] for key in words if covered.get(key) is not None}
    return [(words[key], number(round(value))) for key, value in there.items()]


def _check(found: dict[str, Any]) -> str:
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


def _drift(drift: dict[str, Any] | None) -> str:
    if drift is None:
        return ""
    if drift["changed"] is None:
        return "Too few periods to test for a change; expected 6 or more."
    found = "The click rate changed" if drift["changed"] else "No change that chance would not explain"
    words = f"{found} (p = {number(drift['test_p'])} by shuffling the periods; a change up to {drift['error_rate']:g})."
    if drift["scatter"] is not None:
        words += f" Rates scatter {number(drift['scatter'])} times as much as independent clicks would."
    return words


def _read(read: dict[str, Any] | None) -> dict[str, Any]:
    """What became of the rows of a log."""
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
    return {"words": words, "faults": faults}


def _remedies(table: dict[str, Any] | None) -> dict[str, Any]:
    if table is None:
        return {}
    rows: dict[str, list[str]] = {}
    for family in table["families"].values():
        for row in filter(None, (family["least"], family["best"])):
            cells = [number(round(row["effective_sample_size"])), number(round(row["clicks"]))]
            cells.append("–" if row["sessions_for_target"] is None else number(row["sessions_for_target"]))
            rows[row["policy"]] = [row["policy"], *cells, "yes" if row["learns_position_bias"] else "no"]
    return {"rows": list(rows.values()), "target": number(table["target"]), "sessions": number(table["sessions"])}
