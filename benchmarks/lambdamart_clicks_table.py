"""Results of `benchmarks.lambdamart_clicks` put together: means, shares of the gap, paired intervals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from counterrank.common.errors import DataError
from counterrank.common.student import student_quantile

LOW, HIGH, AWARE = "production", "full-information, trees", "policy-aware, trees"
RULES = {"own": "NDCG of held-out pages", "aware": "policy-aware estimate", "all": "all trees"}


def read(path: Path) -> list[dict[str, Any]]:
    """The results so far; a last line that was not finished is left out."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines[:-1]]


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """By data set: the runs that have all methods of the set, and for each method what came of it."""
    return {name: _of_set([row for row in rows if row["set"] == name]) for name in dict.fromkeys(_sets(rows))}


def _sets(rows: list[dict[str, Any]]) -> list[str]:
    return [row["set"] for row in rows]


def _of_set(rows: list[dict[str, Any]]) -> dict[str, Any]:
    methods = list(dict.fromkeys(row["method"] for row in rows))
    cells: dict[tuple[str, int], dict[str, dict[str, Any]]] = {}
    for row in rows:
        cells.setdefault((row["part"], row["seed"]), {})[row["method"]] = row
    whole = [cell for _, cell in sorted(cells.items()) if len(cell) == len(methods)]
    for cell in whole:
        if len({row["fingerprint"] for row in cell.values()}) > 1:
            where = f"{cell[LOW]['part']}, seed {cell[LOW]['seed']}"
            raise DataError(f"{where}: results of several logs; expected the same clicks for all methods")
    result: dict[str, Any] = {"runs": len(whole), "parts": len({cell[LOW]["part"] for cell in whole}), "methods": {}}
    if not whole:
        return result
    values = {method: _values([cell[method] for cell in whole]) for method in methods}
    chosen = {method: max(rules, key=lambda rule: rules[rule].mean()) for method, rules in values.items()}
    columns = {method: values[method][chosen[method]] for method in methods}
    for method in methods:
        own = _compared(columns, method)
        if len(values[method]) > 1:
            own["rule"] = chosen[method]
            own["by rule"] = {rule: float(column.mean()) for rule, column in values[method].items()}
        rounds = [cell[method].get("rounds") for cell in whole]
        own["rounds"] = [each.get(chosen[method]) if isinstance(each, dict) else each for each in rounds]
        result["methods"][method] = own
    return result


def _values(cells: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """The metric in each run, by the rule that chose the number of trees; one rule only for our own."""
    if "dcg@5" in cells[0]:
        return {"": np.array([cell["dcg@5"] for cell in cells])}
    return {rule: np.array([cell["by rule"][rule] for cell in cells]) for rule in RULES}


def _compared(columns: dict[str, np.ndarray], method: str) -> dict[str, Any]:
    """Mean, share of the gap, and policy-aware trees minus this one with half of its paired 95 % interval."""
    low, high, own = columns[LOW].mean(), columns[HIGH].mean(), columns[method]
    behind = columns[AWARE] - own
    n = len(own)
    half = student_quantile(0.95, n - 1) * float(behind.std(ddof=1)) / n**0.5 if n > 1 else float("nan")
    share = float((own.mean() - low) / (high - low))
    return {"dcg@5": float(own.mean()), "share": share, "aware minus this": float(behind.mean()), "half": half}


def show(found: dict[str, Any]) -> None:
    """Tables in Markdown: all methods, then those that were judged by several rules."""
    for name, own in found.items():
        print(f"\n**{name}**, {own['runs']} runs\n")
        print("| learner | DCG@5 | gap closed | policy-aware trees minus this | trees |\n|---|---|---|---|---|")
        for method, row in own["methods"].items():
            behind = "" if method == AWARE else f"{row['aware minus this']:+.3f} ± {row['half']:.3f}"
            trees = "" if None in row["rounds"] or "linear" in method else f"{np.median(row['rounds']):.0f}"
            rule = f" ({RULES[row['rule']]})" if "rule" in row else ""
            print(f"| {method}{rule} | {row['dcg@5']:.3f} | {row['share']:.0%} | {behind} | {trees} |")
        print(f"\n| learner | {' | '.join(RULES.values())} |\n|---|---|---|---|")
        for method, row in own["methods"].items():
            if "by rule" in row:
                means = [f"{row['by rule'][rule]:.3f}" for rule in RULES]
                print(f"| {method} | {' | '.join(means)} |")
