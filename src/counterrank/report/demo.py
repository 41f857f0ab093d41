"""The page of the demo: what a top-k page hides, and what each way of learning finds again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from counterrank.common.files import PathLike, atomic_file
from counterrank.report.buried import buried_table
from counterrank.report.dots import dot_panel
from counterrank.report.figures import page_spec
from counterrank.report.lines import line_panel
from counterrank.report.names import counted, metric_name, number, percent, readable, readable_all
from counterrank.report.render import html, render
from counterrank.report.styles import Style, assign_styles
from counterrank.report.swatches import swatch

_LANDMARKS = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 70, 100)  # ranks that the lines show


def write_demo_report(content: dict[str, Any], path: PathLike) -> Path:
    """Write the demo's page, which holds all it needs, to `path`; returns the path.

    `content` has a title and a lead, the rankers with their metrics, and where the documents that the production ranker
    put below rank `beyond` end up under each ranker (`buried`); facts and next steps are pairs of texts. `page`, the
    number of results shown, is 5 if not given, and `gap_metric`, whose gap the rankers close, "dcg@5".

    >>> import tempfile
    >>> rankers = [{"name": "production", "metrics": {"dcg@5": 0.6}, "gap_closed": 0.0}]
    >>> buried = {"beyond": 20, "documents": 1, "queries": 1, "ranks": {"production": [0] * 20 + [1]}}
    >>> content = {"title": "Demo", "lead": "", "rankers": rankers, "buried": buried, "facts": [], "next": []}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_demo_report(content, f"{folder}/demo.html").name
    'demo.html'
    """
    page = int(content.get("page", 5))
    rankers, buried = content["rankers"], content["buried"]
    names = [str(ranker["name"]) for ranker in rankers]
    styles = assign_styles([*names, *buried["ranks"]])
    table = buried_table(buried["ranks"], page, buried["beyond"], styles)
    for row in table["rows"]:
        for cell in row["cells"]:
            cell["svg"] = html(cell["svg"])
    text = render(
        "demo.html.j2",
        {"quality": _quality(rankers, styles), "reach": _reach(buried["ranks"], page, styles)},
        title=content["title"],
        lead=content["lead"],
        legend=[{"label": readable(name), "swatch": html(swatch(styles[name]))} for name in styles],
        buried=table,
        beyond=buried["beyond"],
        documents=counted(buried["documents"], "relevant document"),
        queries=counted(buried["queries"], "test query", "test queries"),
        metrics=_metrics(rankers),
        gap_metric=metric_name(content.get("gap_metric", "dcg@5")),
        facts=content.get("facts", []),
        steps=content.get("next", []),
    )
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return Path(path)


def _metrics(rankers: list[dict[str, Any]]) -> dict[str, Any]:
    """The table of rankers: every metric that any of them has."""
    columns = list(dict.fromkeys(name for ranker in rankers for name in ranker["metrics"]))
    rows = [
        {
            "label": readable(str(ranker["name"])),
            "cells": [number(ranker["metrics"].get(column)) for column in columns],
            "gap": percent(ranker.get("gap_closed"), 0),
        }
        for ranker in rankers
    ]
    return {"columns": [metric_name(column) for column in columns], "rows": rows}


def _quality(rankers: list[dict[str, Any]], styles: dict[str, Style]) -> dict[str, Any]:
    """Dots of the first metric, worst to best as given."""
    metric = next(iter(rankers[0]["metrics"])) if rankers else "dcg@5"
    rows = [
        {"series": str(r["name"]), "label": readable(str(r["name"])), "mean": r["metrics"].get(metric)} for r in rankers
    ]
    title = (f"{metric_name(metric)} on test queries", "lower is better" if metric == "arp" else "higher is better")
    return page_spec(dot_panel(rows, title, metric_name(metric), styles, shares=False))


def _reach(ranks: dict[str, list[int]], page: int, styles: dict[str, Style]) -> dict[str, Any]:
    """How many of the buried documents stand at or above each rank."""
    series = []
    for name, counts in ranks.items():
        total, above, points = sum(counts) or 1, 0, []
        for rank, count in enumerate(counts, 1):
            above += count
            if rank in _LANDMARKS or rank == page:
                points.append({"x": rank, "mean": 100 * above / total})
        series.append({"name": name, "points": points})
    panel = {
        "name": "reach",
        "label": "Buried documents at or above a rank",
        "subtitle": "percent of them, higher is better",
        "series": series,
        "levels": [],
    }
    labels = readable_all(ranks)
    return page_spec(line_panel(panel, {"label": "Rank", "log": True, "shade": page}, styles, labels))
