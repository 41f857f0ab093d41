"""What `auto` costs, in trainings with one estimator, and how much of the gap it closes, before and after a change.

    python -m benchmarks.auto_cost --data OHSUMED --folds 1,2,3 --relevance-threshold 2 --out after.jsonl

runs `auto` and one training on each of the folds, numbers of sessions and seeds, and appends a line to the file for
each run; runs that are in the file are not repeated. One training is a linear ranker with policy-aware weights of the
training part, the search for its learning rate included, stopped by those of the validation part. Both take one thread
and are measured in epochs, and in CPU time of the same process.

    PYTHONPATH=OLD/src python -m benchmarks.auto_cost ... --out before.jsonl
    python -m benchmarks.auto_cost --compare before.jsonl after.jsonl

The first measures another version of the package, the second compares the two, paired by run: a run of both must have
seen the same clicks. Measure a change on other seeds (`--first-seed`) than those it was chosen on. Otherwise as in
`reproduce few-clicks`: a production ranker from 3 queries, pages of 5 under replace-last, 15 % as many sessions on
validation queries, and shares of the gap in test DCG@5.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.timing import row
from counterrank import Fold, Ranker, RankingData, make_fold, read_fold
from counterrank.clicks.examination import inverse_rank
from counterrank.clicks.policies import ReplaceLast
from counterrank.clicks.simulation import simulate
from counterrank.common.numerics import student_quantile
from counterrank.estimators import full_information, policy_aware
from counterrank.evaluation import evaluate_queries
from counterrank.experiments.demo import train_production
from counterrank.training import fit_from_clicks, gradient_descent

_PAGE = 5
_SESSIONS = (500, 2_000, 10_000, 60_000)
_LIMIT = 5.0  # trainings


class Logs(NamedTuple):
    """A fold, its production ranker, and for the training and the validation part (data, clicks, propensities)."""

    fold: Fold
    threshold: float
    production: Ranker
    training: tuple[Any, ...]
    validation: tuple[Any, ...]


def simulate_logs(fold: Fold, threshold: float, sessions: int, seed: int) -> Logs:
    """The clicks of one run; they depend on the arguments alone."""
    assert fold.validation is not None
    production, _ = train_production(fold.train, 1e-6, threshold, seed, 1)
    exam, policy = inverse_rank(_PAGE), ReplaceLast(_PAGE)

    def log(part: RankingData, n: int, number: int) -> tuple[Any, ...]:
        scores, own = production.predict(part), np.random.default_rng([seed, number])
        clicks = simulate(part, scores, policy, exam, sessions=n, seed=own, relevance_threshold=threshold, threads=1)
        return part, clicks, policy.propensity(scores, part.offsets, exam)

    return Logs(
        fold, threshold, production, log(fold.train, sessions, 2), log(fold.validation, sessions * 15 // 100, 3)
    )


def train_one(logs: Logs, seed: int) -> Ranker:
    """One training, the search for its learning rate included."""
    data, clicks, rho = logs.training
    other, held_out, other_rho = logs.validation
    validation = other, policy_aware(held_out, other_rho)
    return Ranker(k=_PAGE, seed=seed, threads=1).fit(data, policy_aware(clicks, rho), validation=validation)


def train_auto(logs: Logs, seed: int) -> Any:
    """The report of `auto`."""
    empty, exam = Ranker(k=_PAGE, seed=seed, threads=1), inverse_rank(_PAGE)
    return fit_from_clicks(*logs.training, validation=logs.validation, ranker=empty, exam=exam, seed=seed)


def measured(action: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """The result, the CPU time it took, and the epochs and steps of linear models."""
    problem, counted = gradient_descent.LinearProblem, {"epochs": 0, "steps": 0}
    plain = problem.epoch

    def counting(self: Any, order: Any, *rest: Any) -> float:
        counted["epochs"] += 1
        counted["steps"] += len(order)
        return plain(self, order, *rest)

    problem.epoch = counting  # type: ignore[method-assign]
    try:
        begin = process_time()
        found = action()
        return found, {"seconds": process_time() - begin, **counted}
    finally:
        problem.epoch = plain  # type: ignore[method-assign]


def one_run(fold: Fold, threshold: float, sessions: int, seed: int) -> dict[str, Any]:
    """Costs, and the test DCG@5 of each query with each ranker."""
    logs = simulate_logs(fold, threshold, sessions, seed)
    one, cost_of_one = measured(lambda: train_one(logs, seed))
    report, cost_of_auto = measured(lambda: train_auto(logs, seed))
    train, other = fold.train, fold.validation
    assert other is not None
    full = Ranker(k=_PAGE, seed=seed, threads=1)
    full.fit(train, full_information(train, threshold), validation=(other, full_information(other, threshold)))

    def dcg(ranker: Ranker) -> list[float]:
        found = evaluate_queries(ranker.predict(fold.test), fold.test, threshold, metrics=["dcg@5"], threads=1)
        values = found["dcg@5"]
        return [float(value) for value in values[~np.isnan(values)]]

    digest = hashlib.sha256()
    for _, clicks, rho in (logs.training, logs.validation):
        for values in (clicks.docs, clicks.ranks, clicks.impressions, clicks.clicks, rho):
            digest.update(np.ascontiguousarray(values).tobytes())
    return {
        "clicks": digest.hexdigest()[:16],
        "one": cost_of_one,
        "auto": cost_of_auto,
        "kept": len(report.about["kept"]),
        "dropped": sum(getattr(each, "dropped_after", None) is not None for each in report.trials),
        "dcg": {
            "auto": dcg(report.ranker),
            "policy-aware": dcg(one),
            "production": dcg(logs.production),
            "full-information": dcg(full),
        },
    }


class Difference(NamedTuple):
    """Shares before and after in points, their difference, and its standard errors and lower 95 % bounds.

    The first of each two is over runs on these test queries, the second over runs and test queries.
    """

    before: float
    after: float
    errors: tuple[float, float]
    bounds: tuple[float, float]

    @property
    def difference(self) -> float:
        return self.after - self.before


def difference_of_shares(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> Difference:
    """Shares of the gap before and after, paired by run; ratios of means over folds, runs and test queries.

    Runs of a fold with the same seed share a production ranker, so their mean over numbers of sessions counts as one.
    All runs of a fold share the test queries: with d(r, q) the difference in run r and query q, the variance of a
    fold's mean is that of row means / R, and for queries in general also that of column means / Q, less what both count
    of the rest. Bounds are those of Student's t, with the degrees of freedom of the runs.
    """
    folds: dict[Any, dict[int, list[Any]]] = {}
    for before, after in pairs:
        folds.setdefault((before["data"], before["fold"]), {}).setdefault(before["seed"], []).append((before, after))

    def dcg(run: dict[str, Any], name: str) -> Any:
        return np.array(run["dcg"][name])

    gaps, shares, runs_only, crossed, freedom = [], [], 0.0, 0.0, 0
    for by_seed in folds.values():
        rows = [
            np.mean([dcg(after, "auto") - dcg(before, "auto") for before, after in each], 0)
            for each in by_seed.values()
        ]
        every = [pair for each in by_seed.values() for pair in each]
        gaps.append(np.mean([dcg(before, "full-information") - dcg(before, "production") for before, _ in every]))
        shares.append([np.mean([dcg(pair[i], "auto") - dcg(pair[i], "production") for pair in every]) for i in (0, 1)])
        table = np.array(rows)
        r, q = table.shape
        rest = table - table.mean(1, keepdims=True) - table.mean(0) + table.mean()
        over_runs, over_queries = table.mean(1).var(ddof=1) / r, table.mean(0).var(ddof=1) / q
        shared = (rest**2).sum() / ((r - 1) * (q - 1)) / (r * q)
        runs_only += over_runs
        crossed += max(over_runs, over_queries, over_runs + over_queries - shared)
        freedom += r - 1
    scale = 100.0 / np.mean(gaps)
    before, after = scale * np.mean(shares, axis=0)
    errors = tuple(float(scale * np.sqrt(variance) / len(folds)) for variance in (runs_only, crossed))
    quantile = float(student_quantile(0.9, freedom))
    bounds = tuple(float(after - before - quantile * error) for error in errors)
    return Difference(float(before), float(after), errors, bounds)  # type: ignore[arg-type]


def cost(runs: Iterable[dict[str, Any]], what: str) -> float:
    """The cost of `auto` in trainings: the mean over runs of its ratio."""
    return float(np.mean([each["auto"][what] / each["one"][what] for each in runs]))


def compare(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each data set and number of sessions, and one for all numbers of sessions."""
    old = {_key(run): run for run in before}
    pairs = [(old[_key(run)], run) for run in after if _key(run) in old]
    if any(one["clicks"] != other["clicks"] for one, other in pairs):
        raise SystemExit("--compare: runs with the same fold, sessions and seed have other clicks; expected the same")
    rows = []
    for data in dict.fromkeys(run["data"] for _, run in pairs):
        for sessions in (*dict.fromkeys(run["sessions"] for _, run in pairs), None):
            some = [pair for pair in pairs if pair[1]["data"] == data and sessions in (None, pair[1]["sessions"])]
            found = difference_of_shares(some)
            olds, news = zip(*some, strict=True)
            rows.append(
                {"data": data, "sessions": sessions, "runs": len(some), **found._asdict()}
                | {"difference": found.difference, "kept": np.mean([run["kept"] for run in news])}
                | {f"{what} before": cost(olds, what) for what in ("seconds", "epochs")}
                | {f"{what} after": cost(news, what) for what in ("seconds", "epochs")}
            )
    return rows


def _key(run: dict[str, Any]) -> tuple[Any, ...]:
    return run["data"], run["fold"], run["sessions"], run["seed"]


def run() -> list[dict[str, Any]]:
    """For `make bench`: the cost on `synthetic:mslr` with 300 training queries."""
    fold, rows = make_fold("mslr", 300, seed=0), []
    for sessions in (2_000, 60_000):
        logs = simulate_logs(fold, 3.0, sessions, 0)
        train_auto(logs, 0)  # compiles
        costs = [measured(partial(action, logs, 0))[1] for action in (train_one, train_auto)]
        one, auto = (each["seconds"] for each in costs)
        epochs = costs[1]["epochs"] / costs[0]["epochs"]
        name = f"auto, {sessions:,} sessions, in trainings with one estimator ({epochs:.1f} by epochs)"
        rows.append(row(name, auto, auto / one, f"<= {_LIMIT:g}", auto <= _LIMIT * one))
    return rows


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The runs in a file of JSON lines; none where there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _measure(options: argparse.Namespace) -> None:
    out, name = Path(options.out), Path(options.data).name
    done = {_key(run) for run in read_lines(out)}
    folds = {number: read_fold(Path(options.data) / f"Fold{number}") for number in options.folds.split(",")}
    measured(lambda: train_auto(simulate_logs(next(iter(folds.values())), options.relevance_threshold, 500, 0), 0))
    for seed in range(options.first_seed, options.first_seed + options.runs):
        for sessions in _SESSIONS:
            for number, fold in folds.items():
                about = {"data": name, "fold": number, "sessions": sessions, "seed": seed}
                if _key(about) not in done:
                    found = one_run(fold, options.relevance_threshold, sessions, seed)
                    with out.open("a") as file:
                        file.write(json.dumps(about | found) + "\n")


def _show(rows: list[dict[str, Any]]) -> None:
    table = Table(
        "data", "sessions", "runs", "share before", "after", "difference", "bound, these queries", "bound, any queries",
        "CPU before", "after", "epochs before", "after",
    )  # fmt: skip
    for each in rows:
        low, lower = each["bounds"]
        table.add_row(
            each["data"], "all" if each["sessions"] is None else f"{each['sessions']:,}", str(each["runs"]),
            f"{each['before']:.1f}", f"{each['after']:.1f}",
            f"{each['difference']:+.1f}", f"{low:+.1f}", f"{lower:+.1f}",
            *(f"{each[f'{what} {when}']:.1f}" for what in ("seconds", "epochs") for when in ("before", "after")),
        )  # fmt: skip
    Console(width=140).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.auto_cost", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", help="a folder with the folders Fold1, Fold2, ...")
    parser.add_argument("--folds", default="1", help="comma-separated numbers")
    parser.add_argument("--relevance-threshold", type=float, default=3.0)
    parser.add_argument("--runs", type=int, default=8, help="seeds for each fold and number of sessions (default 8)")
    parser.add_argument("--first-seed", type=int, default=0, help="of those seeds (default 0)")
    parser.add_argument("--out", help="a file of JSON lines, appended to")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("BEFORE", "AFTER"), help="two such files")
    options = parser.parse_args()
    if options.compare:
        _show(compare(*map(read_lines, options.compare)))
    elif options.data and options.out:
        _measure(options)
    else:
        parser.error("expected --data and --out, or --compare")


if __name__ == "__main__":
    main()
