"""Tables of the results of benchmarks.losses_by_size."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from counterrank.experiments.statistics import Interval, against, mean_interval

BASE = "lambdaloss-truncated"
ORDER = (BASE, "lambdaloss-dcg-at-k", "lambdaloss-dcg", "dcg-hinge", "dcg-logistic", "arp-hinge")
TRAIN, TEST = "train dcg@5", "test dcg@5"
Rows = list[dict[str, Any]]


def show(rows: Rows) -> None:
    """Metrics by loss and size, relative differences to the truncated loss, and what variants change."""
    _by_loss(rows, "DCG@5 on training queries / on test queries, means over runs", _both)
    _by_loss(rows, "test DCG@5 relative to lambdaloss-truncated, 95 % confidence interval", _test_difference)
    _by_loss(rows, "training DCG@5 relative to lambdaloss-truncated, 95 % confidence interval", _train_difference)
    _by_loss(rows, "best epoch, means over runs", _epochs)
    effective = [row for row in rows if "relevant documents" in row]
    _by_loss(effective, "effective share of the relevant documents in the gradient of the final model", _effective)
    _variants(rows)
    _production(rows)


def compare(one: Rows, other: Rows, metric: str = TEST) -> Interval:
    """How much better the first is, relative to the second, over the runs that both have.

    For test queries the interval includes runs and queries, for training queries, which differ by run, runs alone.
    """
    first, second = ({row["run"]: row for row in rows} for rows in (one, other))
    runs = sorted(first.keys() & second.keys())
    if metric != TEST:
        return mean_interval(against(*(np.array([rows[run][metric] for run in runs]) for rows in (first, second))))
    a, b = (np.array([[rows[run]["groups"] for run in runs]], np.float64) for rows in (first, second))
    if not runs:
        return Interval(None, None, None, 0)
    return mean_interval(against(a, b))


def percent(found: Interval) -> str:
    """An interval of relative differences in percent.

    >>> percent(Interval(0.012, -0.001, 0.025, 10))
    '+1.2 [-0.1, +2.5]'
    """
    if found.value is None:
        return ""
    if found.low is None or found.high is None:
        return f"{100 * found.value:+.1f}"
    return f"{100 * found.value:+.1f} [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"


def _both(rows: Rows, _: Rows) -> str:
    return f"{np.mean([row[TRAIN] for row in rows]):.3f} / {np.mean([row[TEST] for row in rows]):.3f}"


def _test_difference(rows: Rows, base: Rows) -> str:
    return percent(compare(rows, base))


def _train_difference(rows: Rows, base: Rows) -> str:
    return percent(compare(rows, base, TRAIN))


def _epochs(rows: Rows, _: Rows) -> str:
    return f"{np.mean([row['best_epoch'] for row in rows]):.0f}"


def _effective(rows: Rows, _: Rows) -> str:
    share = np.mean([row["effective documents"] for row in rows])
    return f"{share:.0%} of {np.mean([row['relevant documents'] for row in rows]):,.0f}"


def _by_loss(rows: Rows, title: str, cell: Callable[[Rows, Rows], str]) -> None:
    table = Table("data", "evidence", "queries", "runs", *ORDER, title=title, title_justify="left")
    plain = [row for row in rows if not row["variant"] and row["evidence"] != "rerank"]
    for key in _keys(plain, ("data", "evidence", "queries")):
        here = _where(plain, zip(("data", "evidence", "queries"), key, strict=True))
        groups = [[row for row in here if row["loss"] == loss] for loss in ORDER]
        runs = str(len(groups[0]))
        table.add_row(*map(str, key), runs, *(cell(group, groups[0]) if group else "" for group in groups))
    Console(width=220).print(table)


def _variants(rows: Rows) -> None:
    """Each variant against the plain ranker of the same loss, and against the plain loss for DCG@k."""
    columns = ("data", "queries", "loss", "variant", "runs", "train", "test", "against plain", "against plain @k")
    table = Table(*columns, title="Regularisation and averaging, labels", title_justify="left")
    labels = [row for row in rows if row["evidence"] == "labels"]
    varied = [row for row in labels if row["variant"]]
    for key in _keys(varied, ("data", "queries", "loss", "variant")):
        data, queries, loss, _ = key
        found = _where(varied, zip(("data", "queries", "loss", "variant"), key, strict=True))
        plain, at_k = (
            _where(labels, {"data": data, "queries": queries, "loss": name, "variant": ""}.items())
            for name in (loss, "lambdaloss-dcg-at-k")
        )
        means = (f"{np.mean([row[name] for row in found]):.3f}" for name in (TRAIN, TEST))
        differences = (percent(compare(found, other)) for other in (plain, at_k))
        table.add_row(*map(str, key), str(len(found)), *means, *differences)
    Console(width=220).print(table)


def _production(rows: Rows) -> None:
    """What learning from clicks closes of the gap between the production ranker and labels, truncated loss."""
    columns = ("data", "queries", "runs", "production", "labels", "policy-aware", "rerank, deterministic pages")
    table = Table(*columns, title="test DCG@5 (share of the gap closed), lambdaloss-truncated", title_justify="left")
    for data, queries in _keys([row for row in rows if row["evidence"] == "rerank"], ("data", "queries")):
        here = _where(rows, (("data", data), ("queries", queries), ("variant", "")))
        runs = {row["run"] for row in here if row["evidence"] == "rerank"}

        def mean(evidence: str, loss: str, here: Rows = here, runs: set[int] = runs) -> float:
            chosen = [row for row in _where(here, (("evidence", evidence), ("loss", loss))) if row["run"] in runs]
            return float(np.mean([row[TEST] for row in chosen])) if chosen else float("nan")

        low, high = mean("rerank", "production"), mean("labels", BASE)
        closed = (
            f"{value:.3f} ({(value - low) / (high - low):.0%})"
            for value in map(mean, ("clicks", "rerank"), (BASE,) * 2)
        )
        table.add_row(data, str(queries), str(len(runs)), f"{low:.3f}", f"{high:.3f}", *closed)
    Console(width=220).print(table)


def _keys(rows: Rows, names: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """The combinations of values that occur; numbers are sorted within the rest, which keeps its order."""
    found = list(dict.fromkeys(tuple(row[name] for name in names) for row in rows))
    first = {key: i for i, key in reversed(list(enumerate(_without(found, names))))}
    return sorted(found, key=lambda key: (first[_without([key], names)[0]], key[names.index("queries")]))


def _without(keys: list[tuple[Any, ...]], names: tuple[str, ...]) -> list[tuple[Any, ...]]:
    place = names.index("queries")
    return [key[:place] for key in keys]


def _where(rows: Rows, values: Iterable[tuple[str, Any]]) -> Rows:
    pairs = list(values)
    return [row for row in rows if all(row[name] == value for name, value in pairs)]
