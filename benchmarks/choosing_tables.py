"""Tables of the results of benchmarks.choosing."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from counterrank.training.problem import KINDS

RESAMPLES = 10_000


def show(rows: list[dict[str, Any]]) -> None:
    """Means over folds and seeds, and paired confidence intervals of differences."""
    rows = [row for row in rows if "error" not in row]
    default = [row for row in rows if row["loss"] == KINDS[row["model"]].loss]
    headline = [row for row in default if (row["estimator"], row["clicks"]) in _EVIDENCE]
    _print(
        "Models, each with its default loss: test DCG@5 (seconds)", headline, ("data", "estimator"), "model", _with_time
    )
    _differences(headline)
    clicked = [row for row in default if row["clicks"]]
    _print("Estimators: relative gain in DCG@5", clicked, ("data", "model", "estimator"), "clicks", _gain)
    compared = [row for row in rows if (row["estimator"], row["clicks"]) in _EVIDENCE]
    _print("Losses: test DCG@5", compared, ("data", "estimator", "model"), "loss", _mean)
    _print("Losses: seconds per epoch or round", compared, ("data", "model"), "loss", _epoch)


_EVIDENCE = (("full-information", 0), ("policy-aware", 10**6))


def _mean(rows: list[dict[str, Any]]) -> str:
    return f"{np.mean([row['dcg@5'] for row in rows]):.3f}"


def _with_time(rows: list[dict[str, Any]]) -> str:
    return f"{_mean(rows)} ({np.median([row['seconds'] for row in rows]):.1f} s)"


def _gain(rows: list[dict[str, Any]]) -> str:
    gained = np.mean([row["dcg@5"] for row in rows]) / np.mean([row["production"]["dcg@5"] for row in rows]) - 1.0
    return f"{gained:+.0%}"


def _epoch(rows: list[dict[str, Any]]) -> str:
    return f"{np.median([row['epoch_seconds'] / row['epochs'] for row in rows]):.4f}"


def _print(title: str, rows: list[dict[str, Any]], keys: tuple[str, ...], across: str, cell: Any) -> None:
    groups: dict[Any, dict[Any, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        groups[tuple(row[key] for key in keys)][row[across]].append(row)
    columns = list(dict.fromkeys(row[across] for row in rows))
    columns = sorted(columns) if across == "clicks" else columns
    table = Table(title=title, title_justify="left")
    for column in (*keys, *columns):
        table.add_column(str(column))
    for key, group in groups.items():
        table.add_row(*map(str, key), *(cell(group[column]) if group[column] else "" for column in columns))
    Console(width=220).print(table)


def _differences(rows: list[dict[str, Any]]) -> None:
    """Each model against the linear one on the same folds, seeds and clicks."""
    table = Table(
        title="Difference to linear in DCG@5, paired 95 % confidence interval over runs", title_justify="left"
    )
    for column in ("data", "estimator", "model", "difference", "interval", "runs"):
        table.add_column(column)
    by = {(r["data"], r["estimator"], r["model"], r["fold"], r["seed"]): r["dcg@5"] for r in rows}
    for data, estimator, model in dict.fromkeys((d, e, m) for d, e, m, _, _ in by if m != "linear"):
        pairs = [
            value - by[d, e, "linear", fold, seed]
            for (d, e, m, fold, seed), value in by.items()
            if (d, e, m) == (data, estimator, model) and (d, e, "linear", fold, seed) in by
        ]
        if pairs:
            found = np.array(pairs)
            draws = np.random.default_rng(0).integers(len(found), size=(RESAMPLES, len(found)))
            low, high = np.percentile(found[draws].mean(axis=1), [2.5, 97.5])
            table.add_row(data, estimator, model, f"{found.mean():+.3f}", f"{low:+.3f} to {high:+.3f}", str(len(found)))
    Console(width=220).print(table)
