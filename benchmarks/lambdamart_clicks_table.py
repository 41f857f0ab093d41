"""Results of `benchmarks.lambdamart_clicks` put together: means, shares of the gap, paired intervals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from counterrank.common.errors import DataError
from counterrank.common.numerics import student_quantile

LOW, HIGH, AWARE = "production", "full-information, trees", "policy-aware, trees"
RULES = {"own": "NDCG of held-out pages", "aware": "policy-aware estimate", "all": "all trees"}


def read(path: Path) -> list[dict[str, Any]]:
    """The results so far; a last line that was not finished is left out."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines[:-1]]


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """By data set and method: its results in all runs, with the production ranker's and ours in the same."""
    return {name: _of_set([row for row in rows if row["set"] == name]) for name in dict.fromkeys(_sets(rows))}


def _sets(rows: list[dict[str, Any]]) -> list[str]:
    return [row["set"] for row in rows]


def _of_set(rows: list[dict[str, Any]]) -> dict[str, Any]:
    cells: dict[tuple[str, int], dict[str, dict[str, Any]]] = {}
    for row in rows:
        cells.setdefault((row["part"], row["seed"]), {})[row["method"]] = row
    for (part, seed), cell in cells.items():
        if len({row["fingerprint"] for row in cell.values()}) > 1:
            raise DataError(f"{part}, seed {seed}: results of several logs; expected the same clicks for all methods")
    whole = [cell for _, cell in sorted(cells.items()) if {LOW, HIGH, AWARE} <= set(cell)]
    result = {}
    for method in dict.fromkeys(row["method"] for row in rows):
        if own := [cell for cell in whole if method in cell]:
            result[method] = _of_method(own, method)
    return result


def _of_method(cells: list[dict[str, dict[str, Any]]], method: str) -> dict[str, Any]:
    """Evaluated with the rule that is best on average, where there are several."""
    values = _values([cell[method] for cell in cells])
    rule = max(values, key=lambda each: values[each].mean())
    low, high, aware = (_values([cell[name] for cell in cells])[""] for name in (LOW, HIGH, AWARE))
    result = {"runs": len(cells), **_compared(values[rule], low, high, aware)}
    rounds = [cell[method].get("rounds") for cell in cells]
    result["rounds"] = [each[rule] if isinstance(each, dict) else each for each in rounds]
    if len(values) > 1:
        result |= {"rule": rule, "by rule": {each: float(column.mean()) for each, column in values.items()}}
    return result


def _values(cells: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """The metric in each run, by the rule that chose the number of trees; one rule only for our own."""
    if "dcg@5" in cells[0]:
        return {"": np.array([cell["dcg@5"] for cell in cells])}
    return {rule: np.array([cell["by rule"][rule] for cell in cells]) for rule in RULES}


def _compared(own: np.ndarray, low: np.ndarray, high: np.ndarray, aware: np.ndarray) -> dict[str, Any]:
    """Mean, share of the gap, and policy-aware trees minus this one with half of its paired 95 % interval."""
    behind, n = aware - own, len(own)
    half = student_quantile(0.95, n - 1) * float(behind.std(ddof=1)) / n**0.5 if n > 1 else float("nan")
    share = float((own.mean() - low.mean()) / (high.mean() - low.mean()))
    return {"dcg@5": float(own.mean()), "share": share, "aware minus this": float(behind.mean()), "half": half}


def show(found: dict[str, Any]) -> None:
    """Tables in Markdown: all methods, then those that were evaluated with several rules."""
    for name, methods in found.items():
        print(f"\n**{name}**\n")
        print(
            "| learner | runs | DCG@5 | gap closed | policy-aware trees minus this | trees |\n|---|---|---|---|---|---|"
        )
        for method, row in methods.items():
            behind = "" if method == AWARE else f"{row['aware minus this']:+.3f} ± {row['half']:.3f}"
            trees = "" if None in row["rounds"] or "linear" in method else f"{np.median(row['rounds']):.0f}"
            share = f"{100 * row['share']:.0f} %"
            columns = (method, str(row["runs"]), f"{row['dcg@5']:.3f}", share, behind, trees)
            print(f"| {' | '.join(columns)} |")
        print(f"\n| stopped by | {' | '.join(RULES.values())} |\n|---|---|---|---|")
        for method, row in methods.items():
            if "by rule" in row:
                means = [f"{row['by rule'][rule]:.3f}" for rule in RULES]
                print(f"| {method} | {' | '.join(means)} |")
