"""How safe `fit_from_clicks(production=, safety=0.95)` is, and how much of the gain of `auto` it keeps.

    python -m benchmarks.safe_learning --folder DATA --runs 42 --out runs/safe_learning.jsonl
    python -m benchmarks.safe_learning --show runs/safe_learning.jsonl

The first runs it on the folds of OHSUMED and MQ2008 in the folder and on synthetic:mslr (200 training queries, another
data set for each seed), for each number of sessions and seed, and appends a line to the file for each run; runs that
are in the file are not repeated. Logs are those of `benchmarks.auto_cost`: a production ranker from 3 queries, pages of
5 under replace-last, the paper's users, 15 % as many sessions on validation queries. The truth is the expected gain
over production per session, by labels: of the logged queries, each with its expected sessions, and of test queries.

The second shows by data set and sessions the share of runs in which the returned ranker is worse than production, with
a 95 % Clopper-Pearson upper bound, the same of `auto` alone, and the share of the gain of `auto` that is kept.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import beta

from benchmarks.auto_cost import Logs, read_lines, simulate_logs
from counterrank import Fold, Ranker, RankingData, make_fold, read_fold
from counterrank.clicks.examination import inverse_rank
from counterrank.evaluation import evaluate
from counterrank.training import fit_from_clicks

_PAGE = 5
_SESSIONS = (500, 2_000, 10_000, 60_000)
_DATA = {"ohsumed": (2.0, (1, 2, 3)), "mq2008": (1.0, (1, 2)), "synthetic:mslr": (3.0, ())}
_NOISE, _CERTAIN = 0.1, 1.0  # P(click | examined) of irrelevant and of relevant documents
_SAFETY = 0.95


def dcg(scores: Any, data: RankingData, threshold: float) -> float:
    """DCG@5 per session, queries without relevant documents counted as 0."""
    found = evaluate(scores, data, threshold, metrics=["dcg@5"], empty="zero", threads=1)
    return float(found["dcg@5"])


def gain(scores: Any, base: Any, parts: list[tuple[RankingData, float]], threshold: float) -> float:
    """The expected gain per session of clicks; the parts of the data with their sessions."""
    gains = [dcg(mine, data, threshold) - dcg(other, data, threshold)
             for mine, other, (data, _) in zip(scores, base, parts, strict=True)]  # fmt: skip
    return (_CERTAIN - _NOISE) * float(np.average(gains, weights=[sessions for _, sessions in parts]))


def one_run(fold: Fold, threshold: float, sessions: int, seed: int) -> dict[str, Any]:
    """What was returned, and its true gains over production and those of `auto`."""
    logs: Logs = simulate_logs(fold, threshold, sessions, seed)
    assert fold.validation is not None
    begin = process_time()
    report = fit_from_clicks(
        *logs.training,
        validation=logs.validation,
        ranker=Ranker(k=_PAGE, seed=seed, threads=1),
        exam=inverse_rank(_PAGE),
        production=logs.production,
        safety=_SAFETY,
        seed=seed,
    )
    seconds = process_time() - begin
    assert report.new is not None
    parts = {
        "logged": [(fold.train, 1.0), (fold.validation, 0.15)],
        "test": [(fold.test, 1.0)],
    }
    gains = {}
    for name, where in parts.items():
        base = [logs.production.predict(data) for data, _ in where]
        gains[name] = {
            which: gain([ranker.predict(data) for data, _ in where], base, where, threshold)
            for which, ranker in (("returned", report.ranker), ("auto", report.new))
        }
    blends = [[each.weight, each.estimate, each.error] for each in report.blends]
    return {"weight": report.weight, "blends": blends, "seconds": seconds, "gain": gains}


def upper_bound(count: int, n: int, confidence: float = 0.95) -> float:
    """The one-sided Clopper-Pearson bound of a probability.

    >>> round(upper_bound(0, 59), 3)
    0.05
    """
    return 1.0 if count == n else float(beta.ppf(confidence, count + 1, n - count))


def _measure(options: argparse.Namespace) -> None:
    out, folder = Path(options.out), Path(options.folder)
    out.parent.mkdir(parents=True, exist_ok=True)
    done = {(run["data"], run["sessions"], run["seed"]) for run in read_lines(out)}
    read: dict[Any, Fold] = {}
    for seed in range(options.first_seed, options.first_seed + options.runs):
        for name, (threshold, numbers) in _DATA.items():
            number = numbers[seed % len(numbers)] if numbers else seed
            if numbers and not (folder / name).is_dir():
                continue
            for sessions in _SESSIONS:
                if (name, sessions, seed) in done:
                    continue
                if not numbers:
                    fold = make_fold("mslr", 200, seed=seed)
                elif (name, number) in read:
                    fold = read[name, number]
                else:
                    fold = read[name, number] = read_fold(folder / name / f"Fold{number}")
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = one_run(fold, threshold, sessions, seed)
                about = {"data": name, "fold": number, "sessions": sessions, "seed": seed}
                with out.open("a") as file:
                    file.write(json.dumps(about | found) + "\n")


def rows_of(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each data set and number of sessions, and for each number over all data sets."""
    rows = []
    for name in (*dict.fromkeys(run["data"] for run in runs), "all"):
        for sessions in sorted({run["sessions"] for run in runs}):
            some = [run for run in runs if run["sessions"] == sessions and name in (run["data"], "all")]
            if not some:
                continue
            row: dict[str, Any] = {"data": name, "sessions": sessions, "runs": len(some)}
            row["kept production"] = sum(run["weight"] == 0.0 for run in some)
            row["blends"] = sum(0.0 < run["weight"] < 1.0 for run in some)
            for where in ("logged", "test"):
                for which in ("returned", "auto"):
                    gains = np.array([run["gain"][where][which] for run in some])
                    worse = int((gains < 0.0).sum())
                    row[f"{which} worse, {where}"] = (worse, upper_bound(worse, len(some)))
                    row[f"{which} gain, {where}"] = float(gains.mean())
            rows.append(row)
    return rows


def _show(runs: list[dict[str, Any]]) -> None:
    table = Table(
        "data", "sessions", "runs", "production kept", "blends", "worse, logged", "bound", "auto worse", "share",
        "gain of auto", "worse, test", "auto worse", "share",
    )  # fmt: skip
    for each in rows_of(runs):

        def share(where: str, row: dict[str, Any] = each) -> str:
            return f"{row[f'returned gain, {where}'] / row[f'auto gain, {where}']:.2f}"

        worse, bound = each["returned worse, logged"]
        table.add_row(
            each["data"], f"{each['sessions']:,}", str(each["runs"]), str(each["kept production"]), str(each["blends"]),
            str(worse), f"{100.0 * bound:.1f} %", str(each["auto worse, logged"][0]), share("logged"),
            f"{each['auto gain, logged']:.3f}",
            str(each["returned worse, test"][0]), str(each["auto worse, test"][0]), share("test"),
        )  # fmt: skip
    Console(width=160).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.safe_learning", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--folder", default="../shared/data", help="where the folders ohsumed and mq2008 lie")
    parser.add_argument("--runs", type=int, default=42, help="seeds for each data set and number of sessions")
    parser.add_argument("--first-seed", type=int, default=0, help="of those seeds (default 0)")
    parser.add_argument("--out", help="a file of JSON lines, appended to")
    parser.add_argument("--show", type=Path, help="such a file")
    options = parser.parse_args()
    if options.show:
        _show(read_lines(options.show))
    elif options.out:
        _measure(options)
    else:
        parser.error("expected --out, or --show")


if __name__ == "__main__":
    main()
