"""Results of `benchmarks.compared_with` summarised: means, gap closed, paired confidence intervals, costs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from counterrank.common.errors import DataError
from counterrank.common.numerics import student_quantile

LOW, HIGH, AWARE = "production", "full-information, trees", "policy-aware, trees"
METRIC = "dcg@5"
PER_SESSION = ", a group per session"  # how the methods end that do not merge sessions
RULES = {"own": "held-out pages", "aware": "policy-aware estimate", "all": "all 100"}
Cell = dict[str, dict[str, Any]]  # the results of one run, by method


def read(path: Path) -> list[dict[str, Any]]:
    """The results so far; an unfinished last line is left out."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines[:-1]]


def summary(rows: list[dict[str, Any]], methods: Sequence[str]) -> list[dict[str, Any]]:
    """For each case, data set and number of clicks the results of the methods, in their order."""
    logs: dict[tuple[str, str, int], dict[tuple[str, int], Cell]] = {}
    for row in rows:
        runs = logs.setdefault((row["case"], row["set"], row["clicks"]), {})
        runs.setdefault((row["part"], row["seed"]), {})[row["method"]] = row
    found = []
    for (case, name, clicks), runs in logs.items():
        for (part, seed), cell in runs.items():
            if len({row["fingerprint"] for row in cell.values()}) > 1:
                raise DataError(
                    f"{name}, {part}, seed {seed}: results of several logs; expected the same clicks for all methods"
                )
        whole = [cell for _, cell in sorted(runs.items()) if {LOW, HIGH, AWARE} <= set(cell)]
        if whole:
            impressions = round(float(np.mean([cell[LOW]["impressions"] for cell in whole])))
            results = {method: _of_method(whole, method) for method in methods if any(method in cell for cell in whole)}
            log = {"case": case, "set": name, "clicks": clicks, "impressions": impressions}
            found.append({**log, "methods": results})
    return found


def _of_method(cells: list[Cell], method: str) -> dict[str, Any]:
    """With the number of trees of the rule that is best for it on average, where there are several."""
    own = [cell for cell in cells if method in cell]
    values = {rule: _values(own, method, rule) for rule in own[0][method]["by rule"]}
    rule = max(values, key=lambda each: values[each].mean())
    low, high, aware = (_values(own, name, "") for name in (LOW, HIGH, AWARE))
    share = float((values[rule].mean() - low.mean()) / (high.mean() - low.mean()))
    result: dict[str, Any] = {"runs": len(own), "share": share}
    result[METRIC] = _interval(values[rule])
    result["ndcg@5"] = _interval(_values(own, method, rule, "ndcg@5"))
    result["minus policy-aware trees"] = _interval(values[rule] - aware)
    if method.endswith(PER_SESSION) and (both := [cell for cell in own if _merged(method) in cell]):
        rules = own[0][method]["by rule"]
        result["minus merged"] = {
            each: _interval(_values(both, method, each) - _values(both, _merged(method), each)) for each in rules
        }
    for name in ("rows", "seconds"):
        if name in own[0][method]:
            result[name] = float(np.median([cell[method][name] for cell in own]))
    if len(values) > 1:
        result |= {"rule": rule, "by rule": {each: float(column.mean()) for each, column in values.items()}}
        result["trees"] = float(np.median([cell[method]["rounds"][rule] for cell in own]))
    return result


def _merged(method: str) -> str:
    """The method that learns from merged sessions."""
    return method.removesuffix(PER_SESSION)


def _values(cells: list[Cell], method: str, rule: str, metric: str = METRIC) -> np.ndarray:
    return np.array([cell[method]["by rule"][rule][metric] for cell in cells])


def _interval(values: np.ndarray) -> list[float | None]:
    """The mean, and half the width of its 95 % t-interval over runs; None for a single run."""
    n = len(values)
    half = student_quantile(0.95, n - 1) * float(values.std(ddof=1)) / n**0.5 if n > 1 else None
    return [float(values.mean()), half]


def tables(found: list[dict[str, Any]]) -> dict[str, str]:
    """In Markdown, by title: DCG@5 for each case, the cost of training, and DCG@5 by the rule that chose the trees.

    A case with several numbers of clicks has a table for each data set, and the cost on the first; others have one.
    """
    texts = {}
    for case in dict.fromkeys(log["case"] for log in found):
        logs = [log for log in found if log["case"] == case]
        if len({log["clicks"] for log in logs}) == 1:
            texts[f"{case}, {_clicks(logs[0])}"] = _results(logs, [log["set"] for log in logs])
            continue
        for name in dict.fromkeys(log["set"] for log in logs):
            own = sorted((log for log in logs if log["set"] == name), key=lambda log: log["clicks"])
            texts[f"{case}, {name}"] = _results(own, [_clicks(log) for log in own])
            if name == logs[0]["set"]:
                texts[f"{case}, {name}, cost"] = _costs(own)
    return texts | {"number of trees": _rules(found)}


def _clicks(log: dict[str, Any]) -> str:
    return f"{log['clicks']:,} clicks"


def _methods(logs: list[dict[str, Any]]) -> list[str]:
    """All methods of the logs, in the order of the log with most of them."""
    longest_first = sorted(logs, key=lambda log: -len(log["methods"]))
    return list(dict.fromkeys(method for log in longest_first for method in log["methods"]))


def _label(method: str) -> str:
    if method == LOW or method.startswith(("LightGBM", "XGBoost")):
        return method
    return f"counterrank, {method}"


def _results(logs: list[dict[str, Any]], columns: list[str]) -> str:
    """A column for each log: DCG@5, and in brackets the difference to policy-aware trees.

    Without the methods that do not merge sessions: they have fewer runs, so their means are those of other logs.
    """
    rows = []
    for method in _methods(logs):
        if not method.endswith(PER_SESSION):
            rows.append([_label(method), *(_cell(method, log["methods"].get(method)) for log in logs)])
    return _markdown(["learner", *columns], rows)


def _cell(method: str, result: dict[str, Any] | None) -> str:
    if result is None:
        return ""
    mean, half = result["minus policy-aware trees"]
    value = f"{result[METRIC][0]:.3f}"
    if method == AWARE:
        return value
    return f"{value} ({mean:+.3f})" if half is None else f"{value} ({mean:+.3f} ± {half:.3f})"


def _costs(logs: list[dict[str, Any]]) -> str:
    """Rows and seconds of each learner; merged sessions first, then a group per session."""
    rows = [["rows of the log", *(f"{log['impressions']:,}" for log in logs)]]
    methods = _methods(logs)
    for method in sorted(methods, key=lambda each: methods.index(_merged(each))):
        results = [log["methods"].get(method, {}) for log in logs]
        cost = [f"{each['rows']:,.0f} rows, {each['seconds']:.1f} s" if "rows" in each else "" for each in results]
        if any(cost):
            rows.append([_label(method), *cost])
    return _markdown(["learner", *(_clicks(log) for log in logs)], rows)


def _rules(found: list[dict[str, Any]]) -> str:
    """DCG@5 of LightGBM and XGBoost by the rule that chose the number of trees."""
    there = {method for log in found for method in log["methods"]}
    methods = [method for method in ("LightGBM position=", "XGBoost unbiased") if method in there]
    rows = []
    for log in found:
        results = [log["methods"].get(method, {}).get("by rule", {}) for method in methods]
        values = [f"{each[rule]:.3f}" if each else "" for each in results for rule in RULES]
        rows.append([f"{log['case']}, {log['set']}, {_clicks(log)}", *values])
    return _markdown(["log", *(f"{method}: {RULES[rule]}" for method in methods for rule in RULES)], rows)


def _markdown(columns: list[str], rows: list[list[str]]) -> str:
    return "".join(f"| {' | '.join(line)} |\n" for line in [columns, ["---"] * len(columns), *rows])
