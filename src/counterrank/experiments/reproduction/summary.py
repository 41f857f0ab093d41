"""What the results of a run amount to: curves with intervals over runs, claims, timings; plain JSON for a report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from counterrank.evaluation import higher_is_better
from counterrank.experiments.claims import check_claims
from counterrank.experiments.claims.statistics import mean_interval
from counterrank.experiments.reproduction.cells import Cell
from counterrank.experiments.reproduction.figures import Point, all_cells
from counterrank.experiments.reproduction.gap_shares import choices, chosen_by_auto, share_panel
from counterrank.experiments.reproduction.runs import Run
from counterrank.experiments.reproduction.settings import FEW_CLICKS

_LEVELS = ("production", "full-information")
_TITLES = {
    1: "Effect of the number of results shown",
    2: "Effect of the number of clicks",
    3: "Losses, and unbiased selection among them",
    4: "Logging policies, and what they cost while logging",
    FEW_CLICKS: "Learning from few clicks",
}
_PAGE_SIZE = {"name": "k", "label": "Results shown, k", "log": True}
_CLICKS = {"name": "clicks", "label": "Clicks", "log": True}
_SESSIONS = {"name": "sessions", "label": "Sessions (pages shown)", "log": True}

Read = Callable[[dict[str, Any]], float | None]


def summarize(run: Run) -> dict[str, Any]:
    """All that a report shows of a run, finished or not.

    >>> from counterrank.experiments.reproduction.settings import Settings
    >>> from pathlib import Path
    >>> settings = Settings(figures=(2,), clicks=(100,), runs=1)
    >>> data = [{"source": "mine", "fingerprint": "", "parts": {}}]
    >>> summary = summarize(Run(Path(), settings, {"data": data}, rows={}))
    >>> summary["cells"]["wanted"], [panel["name"] for panel in summary["figures"][0]["panels"]]
    (15, ['arp', 'dcg@5'])
    """
    points = run.points
    figures = [_figure(run, number, points) for number in run.settings.figures]
    data = [{key: value for key, value in fold.items() if key != "fingerprint"} for fold in run.about["data"]]
    cells = all_cells(points)
    return {
        "format": "counterrank-summary",
        "version": 1,
        "counterrank": run.about.get("counterrank", ""),
        "preset": run.about.get("preset"),
        "quick": bool(run.about.get("quick")),
        "command": run.about.get("command"),
        "settings": run.settings.plain(),
        "data": data,
        "cells": _counts(run, cells),
        "timings": _timings(run, cells),
        "figures": figures,
        "claims": check_claims(figures, data=data, targets=run.settings.targets),
    }


def _figure(run: Run, number: int, points: Sequence[Point]) -> dict[str, Any]:
    mine = [point for point in points if point.figure == number]
    panels = [_panel(run, name, mine) for name in dict.fromkeys(point.panel for point in mine)]
    if number == 3:
        panels = _with_selection(run, panels, mine)
    if number == 4:
        panels.append(_cost_panel(run, mine))
    figure = {
        "number": number,
        "title": _TITLES[number],
        "x": {1: _PAGE_SIZE, FEW_CLICKS: _SESSIONS}.get(number, _CLICKS),
        "panels": panels,
    }
    return _with_shares(run, figure, mine) if number == FEW_CLICKS else figure


def _with_shares(run: Run, figure: dict[str, Any], points: Sequence[Point]) -> dict[str, Any]:
    """Figure 5: shares of the gap before the metric itself, and what "auto" chose."""
    chosen = chosen_by_auto(run, points)
    names = {x: [None if pick is None else str(pick["estimator"]) for pick in picks] for x, picks in chosen.items()}
    panels = [share_panel(figure["panels"][0], names), *figure["panels"]]
    return {**figure, "panels": panels, "choices": choices(chosen)}


def _panel(run: Run, name: str, points: Sequence[Point]) -> dict[str, Any]:
    """The test metric of all curves, and the levels."""
    mine = [point for point in points if point.panel == name]

    def read(row: dict[str, Any]) -> float | None:
        return float(row["metrics"][name])

    curves = [point for point in mine if point.series not in _LEVELS]
    losses = {cell.loss for point in curves for cell in point.cells}
    levels = [{"name": p.series, **_values(run, p.cells, read)} for p in mine if p.series in _LEVELS]
    return {
        "name": name,
        "label": _label(name),
        "lower_is_better": not higher_is_better(name),
        "loss": losses.pop() if len(losses) == 1 else None,
        "series": _series(run, curves, read),
        "levels": levels,
    }


def _label(metric: str) -> str:
    return "ARP (lower is better)" if metric == "arp" else f"{metric.upper()} (higher is better)"


def _series(run: Run, points: Iterable[Point], read: Read) -> list[dict[str, Any]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for point in points:
        found[point.series].append({"x": point.x, **_values(run, point.cells, read)})
    return [{"name": name, "points": listed} for name, listed in found.items()]


def _values(run: Run, cells: Iterable[Cell], read: Read) -> dict[str, Any]:
    """One number for each run, None where it is missing, and their mean with its interval."""
    rows = [run.row(cell) for cell in cells]
    return _with_interval([None if row is None or "metrics" not in row else read(row) for row in rows])


def _with_interval(values: list[float | None]) -> dict[str, Any]:
    found = mean_interval(np.array([np.nan if value is None else value for value in values]))
    return {"values": values, "mean": found.value, "low": found.low, "high": found.high, "runs": found.runs}


def _with_selection(run: Run, panels: list[dict[str, Any]], points: Sequence[Point]) -> list[dict[str, Any]]:
    """Figure 3: the estimates on validation clicks, and in each run the loss with the best of them."""
    (true,) = panels
    curves = [point for point in points if point.series not in _LEVELS]
    estimate: dict[str, Any] = {
        "name": "estimate",
        "label": f"{true['name'].upper()} estimated from validation clicks, per click-worthy document",
        "lower_is_better": False,
        "loss": None,
        "series": _series(run, curves, lambda row: row.get("validation")),
        "levels": [],
    }
    chosen = [_choose([series["points"][i] for series in estimate["series"]]) for i in range(len(run.settings.clicks))]
    for panel in (true, estimate):
        names = [series["name"] for series in panel["series"]]
        selected = []
        for i, picks in enumerate(chosen):
            at = [series["points"][i] for series in panel["series"]]
            values = [None if pick is None else at[pick]["values"][n] for n, pick in enumerate(picks)]
            losses = [None if pick is None else names[pick] for pick in picks]
            selected.append({"x": at[0]["x"], **_with_interval(values), "chosen": losses})
        panel["series"].append({"name": "selection", "points": selected})
    return [true, estimate]


def _choose(points: Sequence[dict[str, Any]]) -> list[int | None]:
    """In each run the curve with the largest estimate; None where one of them is missing."""
    picks: list[int | None] = []
    for values in zip(*(point["values"] for point in points), strict=True):
        there = [value for value in values if value is not None]
        picks.append(int(np.argmax(there)) if len(there) == len(values) else None)
    return picks


def _cost_panel(run: Run, points: Sequence[Point]) -> dict[str, Any]:
    """Figure 4: how much worse the pages are that users see while clicks are logged."""
    series = []
    for policy in run.settings.logging_policies():
        # pages depend on the policy and the production ranker, not on how many of them are shown
        cells = next(point.cells for point in points if point.series == policy)
        shown = _values(run, cells, lambda row: row["pages"]["shown"])
        plain = _values(run, cells, lambda row: row["pages"]["unrandomised"])
        losses = [
            None if one is None or not other else 1.0 - one / other
            for one, other in zip(shown["values"], plain["values"], strict=True)
        ]
        point = {"x": None, **_with_interval(losses), "shown": shown["mean"], "unrandomised": plain["mean"]}
        series.append({"name": policy, "points": [point]})
    return {
        "name": "cost",
        "label": f"Loss in DCG@{run.settings.cutoff} of the displayed pages while logging",
        "lower_is_better": True,
        "loss": None,
        "series": series,
        "levels": [],
    }


def count_cells(run: Run) -> dict[str, Any]:
    """How many cells there are, how many are done, and what failed.

    >>> from counterrank.experiments.reproduction.settings import Settings
    >>> from pathlib import Path
    >>> data = [{"source": "mine", "fingerprint": "", "parts": {}}]
    >>> count_cells(Run(Path(), Settings(figures=(2,), clicks=(100,), runs=1), {"data": data}, rows={}))["wanted"]
    15
    """
    return _counts(run, all_cells(run.points))


def _counts(run: Run, cells: Sequence[Cell]) -> dict[str, Any]:
    rows = [(cell, run.row(cell)) for cell in cells]
    failures = [
        {"cell": cell.describe(), "error": row["error"]} for cell, row in rows if row is not None and "error" in row
    ]
    done = sum(row is not None and "metrics" in row for _, row in rows)
    untrained = sum(row is not None and "untrained" in row for _, row in rows)
    return {
        "wanted": len(cells),
        "done": done,
        "failed": len(failures),
        "untrained": untrained,
        "failures": failures,
    }


def _timings(run: Run, cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Seconds of a cell by what it learns."""
    took: dict[str, list[float]] = defaultdict(list)
    for cell in cells:
        row = run.row(cell)
        if row is not None and "seconds" in row:
            took[f"{cell.estimator}, {cell.loss}"].append(row["seconds"])
    return [
        {"what": what, "cells": len(s), "mean_seconds": sum(s) / len(s), "total_seconds": sum(s)}
        for what, s in took.items()
    ]
