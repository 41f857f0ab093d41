"""The page of the demo: what a top-k page hides, and what each estimator recovers.

Its picture shows the relevant documents that the production ranker put far down, one dot for each hundredth of them:
every row has the same documents under another ranker, by bands of ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from counterrank.common.files import PathLike
from counterrank.common.plotting import GREY
from counterrank.experiments.summary import Axis, Panel, Point, Series
from counterrank.report.charts import dot_panel, line_panel, page_spec
from counterrank.report.render import Spec, Style, assign_styles, html, legend, render, write_file
from counterrank.report.text import counted, metric_name, percent, readable, readable_all

DOTS = 100
ACROSS = 12  # dots side by side in a cell
_PALE = "#c3c9d0"
_LANDMARKS = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 70, 100)  # ranks that the lines show

Ranker = Mapping[str, Any]
"""Its `name`, its `metrics` on test queries, and the share of the gap that it closes (`gap_closed`)."""


def write_demo_report(content: Mapping[str, Any], path: PathLike) -> Path:
    """Write the report of the demo, one self-contained page, to `path`; returns the path.

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
    text = render(
        "demo.html.j2",
        {"quality": _quality(rankers, styles), "reach": _reach(buried["ranks"], page, styles)},
        title=content["title"],
        lead=content["lead"],
        legend=legend(styles, {name: readable(name) for name in styles}),
        buried=table,
        beyond=buried["beyond"],
        documents=counted(buried["documents"], "relevant document"),
        queries=counted(buried["queries"], "test query", "test queries"),
        rankers=rankers,
        columns=list(dict.fromkeys(name for ranker in rankers for name in ranker["metrics"])),
        gap_metric=content.get("gap_metric", "dcg@5"),
        facts=content.get("facts", []),
        steps=content.get("next", []),
    )
    return write_file(path, text)


def _quality(rankers: Sequence[Ranker], styles: dict[str, Style]) -> Spec:
    """Dots of the first metric, worst to best as given."""
    metric = next(iter(rankers[0]["metrics"])) if rankers else "dcg@5"
    panel = Panel(
        "quality",
        f"{metric_name(metric)} on test queries",
        series=tuple(Series(str(r["name"]), (Point(mean=r["metrics"].get(metric)),)) for r in rankers),
        subtitle="lower is better" if metric == "arp" else "higher is better",
        unit=metric_name(metric),
    )
    labels = {series.name: readable(series.name) for series in panel.series}
    return page_spec(dot_panel(panel, styles, labels, shares=False))


def _reach(ranks: dict[str, list[int]], page: int, styles: dict[str, Style]) -> Spec:
    """How many of the buried documents stand at or above each rank."""
    series = []
    for name, counts in ranks.items():
        total, above, points = sum(counts) or 1, 0, []
        for rank, count in enumerate(counts, 1):
            above += count
            if rank in _LANDMARKS or rank == page:
                points.append(Point(rank, mean=100 * above / total))
        series.append(Series(name, tuple(points)))
    title, subtitle = "Buried documents at or above a rank", "percent of them, higher is better"
    panel = Panel("reach", title, series=tuple(series), subtitle=subtitle)
    return page_spec(line_panel(panel, Axis("rank", "Rank", log=True, shade=page), styles, readable_all(ranks)))


def bands(page: int, beyond: int, longest: int) -> list[tuple[int, int]]:
    """First and last rank of each band: the page, the ranks down to `beyond`, and those below it.

    >>> bands(5, 20, 180)
    [(1, 5), (6, 10), (11, 20), (21, 50), (51, 180)]
    """
    edges = [page]
    edges += [edge for edge in (10, 20, 50) if page < edge < min(beyond, longest)]
    edges += [edge for edge in (beyond, 50, 100) if edges[-1] < edge < longest and (edge <= beyond or edge == 50)]
    edges = sorted({*edges, max(longest, page)})
    return list(zip([1, *(edge + 1 for edge in edges[:-1])], edges, strict=True))


def dots_per_band(counts: list[int], cut: list[tuple[int, int]], dots: int = DOTS) -> list[int]:
    """How many of the dots fall into each band, rounded so that they add up (largest remainder).

    >>> dots_per_band([1, 0, 2], [(1, 1), (2, 3)], dots=10)
    [3, 7]
    """
    sums = [sum(counts[first - 1 : last]) for first, last in cut]
    total = sum(sums)
    if total == 0:
        return [0] * len(cut)
    shares = [dots * count / total for count in sums]
    whole = [int(share) for share in shares]
    order = sorted(range(len(cut)), key=lambda i: whole[i] - shares[i])
    for i in order[: dots - sum(whole)]:
        whole[i] += 1
    return whole


def buried_table(ranks: dict[str, list[int]], page: int, beyond: int, styles: dict[str, Style]) -> dict[str, list[Any]]:
    """The picture as rows of cells, each with its dots as SVG and its share; what reaches the first page is coloured.

    >>> table = buried_table({"production": [0] * 20 + [4]}, page=5, beyond=20, styles={})
    >>> table["bands"]
    ['1–5', '6–10', '11–20', '21']
    >>> table["rows"][0]["cells"][-1]["share"]
    '100 %'
    """
    cut = bands(page, beyond, max((len(row) for row in ranks.values()), default=1))
    dots = {name: dots_per_band(row, cut) for name, row in ranks.items()}
    deep = max((-(-count // ACROSS) for row in dots.values() for count in row), default=1)
    rows = []
    for name, counts in ranks.items():
        color = styles[name].color if name in styles else GREY
        total = sum(counts) or 1
        shares = [percent(sum(counts[first - 1 : last]) / total, 0) for first, last in cut]
        cells = [
            {"share": share, "svg": html(_dots(count, deep, color if place == 0 else _PALE))}
            for place, (share, count) in enumerate(zip(shares, dots[name], strict=True))
        ]
        rows.append({"label": readable(name), "cells": cells})
    return {"bands": [f"{first}–{last}" if first < last else str(first) for first, last in cut], "rows": rows}


def _dots(count: int, deep: int, color: str) -> str:
    circles = "".join(
        f'<circle cx="{10 * (i % ACROSS) + 5}" cy="{10 * (i // ACROSS) + 5}" r="4"/>' for i in range(count)
    )
    return f'<svg viewBox="0 0 {10 * ACROSS} {10 * deep}" fill="{color}" aria-hidden="true">{circles}</svg>'
