"""What stands on the report's page, as the template wants it: words and numbers ready to print."""

from __future__ import annotations

import re
import shlex
from typing import Any

from counterrank.report.claims_table import SIGNS
from counterrank.report.few_clicks import CLAIMS, PAPER_CLAIMS, PAPER_TITLE, TITLE, choice_rows, is_few_clicks
from counterrank.report.glossary import glossary
from counterrank.report.names import (
    counted,
    duration,
    number,
    percent,
    places_text,
    raised,
    readable_all,
    signed_percent,
)
from counterrank.report.points import chosen_words, is_number, series_names
from counterrank.report.reading import (
    MARGIN,
    NOTICEABLE,
    absent_words,
    caption,
    most_runs,
    reading,
    sort_claims,
    tally,
    trained,
)
from counterrank.report.render import html, render
from counterrank.report.settings import setting_rows
from counterrank.report.styles import Style
from counterrank.report.swatches import swatch

MARKS = {"holds": ("✓", "holds"), "does not hold": ("✗", "not"), "not enough evidence": ("?", "unsure")}
WORDS = {"holds": "hold", "does not hold": "do not hold", "not enough evidence": "lack evidence"}


def report_page(
    summary: dict[str, Any], styles: dict[str, Style], specs: dict[str, dict[str, Any]], svgs: dict[int, str]
) -> str:
    """The page of a run: `specs` holds the charts by id (`panel_id`), `svgs` the still figures by number.

    >>> "none: our defaults" in report_page({"figures": [], "claims": []}, {}, {}, {})
    True
    """
    figures = summary.get("figures", [])
    claims = sort_claims(summary)
    return render(
        "report.html.j2",
        specs,
        sources=", ".join(str(fold["source"]) for fold in summary.get("data", [])) or "no data named",
        title=TITLE if is_few_clicks(figures) else PAPER_TITLE,
        claims_title=CLAIMS if is_few_clicks(figures) else PAPER_CLAIMS,
        reading=" ".join(reading(summary)),
        tally=tally(claims.present),
        marks=MARKS,
        words=WORDS,
        figures=[_figure(figure, styles, specs, svgs, most_runs(figures)) for figure in figures],
        glossary=glossary(figures),
        signs=SIGNS,
        drawn=[figure["number"] for figure in figures],
        claims=[_claim(claim) for claim in claims.present],
        absent=absent_words(claims) if claims.absent else "",
        margin=f"{100 * MARGIN:g} %",
        noticeable=f"{100 * NOTICEABLE:g} %",
        data=_data(summary.get("data", [])),
        preset=summary.get("preset"),
        quick=bool(summary.get("quick")),
        version=summary.get("counterrank", ""),
        settings=setting_rows(summary.get("settings") or {}, figures),
        **_work(summary),
        command=_command(summary),
        more_runs=_more_runs(summary),
    )


def panel_id(figure: dict[str, Any], place: int) -> str:
    """The id of a chart on the page.

    >>> panel_id({"number": 3}, 0)
    'figure3-1'
    """
    return f"figure{figure['number']}-{place + 1}"


def _figure(
    figure: dict[str, Any], styles: dict[str, Style], specs: dict[str, Any], svgs: dict[int, str], runs: int
) -> dict[str, Any]:
    labels = readable_all(series_names([figure]))
    panels = []
    for place, panel in enumerate(figure.get("panels", [])):
        name = panel_id(figure, place)
        panels.append({"id": name if name in specs else "", "label": panel["label"], **_numbers(panel, labels, runs)})
    return {
        "number": figure["number"],
        "title": figure.get("title", ""),
        "axis": figure["x"]["label"],
        "caption": " ".join(caption(figure)),
        "panels": panels,
        "choices": choice_rows(figure),
        "legend": [{"label": labels[name], "swatch": html(swatch(styles[name]))} for name in labels if name in styles],
        "svg": html(svgs[figure["number"]]) if figure["number"] in svgs else "",
    }


def _numbers(panel: dict[str, Any], labels: dict[str, str], runs: int) -> dict[str, Any]:
    """The table of a panel: a row per series, a column per x; levels have one number for all x."""
    points = [point for series in panel.get("series", []) for point in series.get("points", [])]
    places = sorted({point["x"] for point in points if point.get("x") is not None}) or [None]
    rows = []
    for series in panel.get("series", []):
        at = {point.get("x"): point for point in series.get("points", [])}
        rows.append({"label": labels[series["name"]], "cells": [_cell(at.get(x), runs) for x in places]})
    levels = [{"label": labels[item["name"]], "cell": _cell(item, runs)} for item in panel.get("levels", [])]
    return {"places": places_text(places), "rows": rows, "levels": levels}


def _cell(point: dict[str, Any] | None, runs: int) -> dict[str, str]:
    if point is None or not is_number(point.get("mean")):
        return {"mean": "" if point is None else "–", "interval": "", "runs": "", "chosen": ""}
    few = point.get("runs") is not None and point["runs"] != runs
    return {
        "mean": number(point["mean"]),
        "interval": _interval(point) if is_number(point.get("low")) else "",
        "runs": counted(point["runs"], "run") if few else "",
        "chosen": chosen_words(point),
    }


def _interval(value: dict[str, Any]) -> str:
    if not is_number(value.get("low")) or not is_number(value.get("high")):
        return "–"
    return f"{number(value['low'])} to {number(value['high'])}"


def _claim(claim: dict[str, Any]) -> dict[str, Any]:
    checks = [
        {
            "what": raised(str(check.get("what", ""))),
            **_check_numbers(check),
            "unit": check.get("unit") or "",
            "runs": number(check.get("runs")),
            "verdict": check.get("verdict", ""),
        }
        for check in claim.get("checks") or []
    ]
    texts = {key: raised(str(claim.get(key) or "")) for key in ("statement", "numbers", "paper", "verdict")}
    return (
        texts
        | {"figure": claim.get("figure")}
        | {"checks": checks, "anchor": "claim-" + re.sub(r"[^\w-]+", "-", str(claim.get("id", "")))}
    )


def _check_numbers(check: dict[str, Any]) -> dict[str, str]:
    """Value and interval; differences relative to a reference are signed percentages."""
    write = signed_percent if check.get("unit") == "relative" else number
    low, high = check.get("low"), check.get("high")
    interval = f"{write(low)} to {write(high)}" if is_number(low) and is_number(high) else "–"
    return {"value": write(check.get("value")), "interval": interval}


def _data(folds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for fold in folds:
        parts = fold.get("parts") or {"–": {}}
        for place, (name, part) in enumerate(parts.items()):
            length = f"{number(part.get('shortest'))} – {number(part.get('longest'))}"
            cells = [
                number(part.get("queries")),
                number(part.get("queries_with_relevant")),
                number(part.get("documents")),
            ]
            per_query = part.get("documents_per_query")
            cells += ["–" if per_query is None else f"{per_query:.1f}", length, percent(part.get("relevant_share"))]
            cells.append(number(part.get("features")))
            rows.append(
                {"source": fold["source"], "first": place == 0, "span": len(parts), "part": name, "cells": cells}
            )
    return rows


def _work(summary: dict[str, Any]) -> dict[str, Any]:
    cells = summary.get("cells") or {}
    rows = summary.get("timings") or []
    seconds = sum(row.get("total_seconds") or 0 for row in rows)
    progress = f"{trained(cells):,} of {counted(cells.get('wanted') or 0, 'ranker')} trained"
    progress += f", {cells['failed']:,} failed" if cells.get("failed") else ""
    progress += f", {cells['untrained']:,} had nothing to learn from" if cells.get("untrained") else ""
    progress += f"; {duration(seconds)} of work in all, counted over all processes." if rows else "."
    timings = [
        {"what": row["what"], "cells": number(row.get("cells"))}
        | {"mean": duration(row.get("mean_seconds")), "total": duration(row.get("total_seconds"))}
        for row in rows
    ]
    return {"progress": progress, "timings": timings, "failures": cells.get("failures") or []}


def _more_runs(summary: dict[str, Any]) -> int:
    """Ten, or twice as many as there are."""
    runs = (summary.get("settings") or {}).get("runs")
    runs = runs if isinstance(runs, int) else most_runs(summary.get("figures", []))
    return max(10, 2 * runs)


def _command(summary: dict[str, Any]) -> str:
    words = ["counterrank", "reproduce"] + ["few-clicks"] * is_few_clicks(summary.get("figures", []))
    for fold in summary.get("data", []):
        words += ["--data", str(fold["source"])]
    words += ["--preset", str(summary["preset"])] if summary.get("preset") else []
    words += ["--quick"] if summary.get("quick") else []
    return str(summary.get("command") or shlex.join([*words, "--out", "RUN"]))
