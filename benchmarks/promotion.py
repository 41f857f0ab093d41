"""Error rates and power of the deployment test: rankers learned from few clicks, held-out clicks, labels as truth.

    python -m benchmarks.promotion collect --data ../shared/data --out runs/promotion
    python -m benchmarks.promotion test --data ../shared/data --out runs/promotion
    python -m benchmarks.promotion table --out runs/promotion

`collect` trains, for each run, a production ranker from 3 queries, `auto` on the clicks of the sessions that are not
held out, and `auto` on all sessions (ungated), and keeps the scores. `test` simulates the held-out sessions and looks
at each level of evidence, without training. `table` prints, by level and number of sessions, how often a ranker was
deployed, how often a worse one, and the share of the gap that was kept: the mean gain in test DCG@5 of what is served
after the test over that of ungated `auto`. A ranker is worse if the labels of the logged queries say so, at the
frequencies of the held-out sessions. All three go on where they were stopped.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.special import betaincinv

from benchmarks.auto_cost import read_lines
from counterrank import Fold, Ranker, make_fold, read_fold
from counterrank.clicks.examination import inverse_rank
from counterrank.clicks.policies import ReplaceLast, UniformInsert
from counterrank.clicks.simulation import simulate
from counterrank.estimators import full_information
from counterrank.evaluation import deployment_test, evaluate
from counterrank.evaluation.evidence_levels import LEVELS
from counterrank.evaluation.weighted_clicks import document_values
from counterrank.experiments.demo import train_production
from counterrank.training import fit_from_clicks

PAGE = 5
HELD_OUT = 0.2
ALPHA = 0.05
SESSIONS = (500, 2_000, 10_000, 60_000, 1_000_000)
THRESHOLDS = {"ohsumed": 2.0, "mq2008": 1.0, "mslr": 3.0}
FOLDS = {"ohsumed": 3, "mq2008": 2, "mslr": 1}
POLICIES = {"replace-last": ReplaceLast(PAGE), "uniform-insert": UniformInsert(PAGE)}
EXAM = inverse_rank(PAGE)


class Case(NamedTuple):
    """One run: everything it draws depends on these alone."""

    data: str
    fold: int
    policy: str
    sessions: int
    seed: int

    @property
    def name(self) -> str:
        return f"{self.data}-{self.fold}-{self.policy}-{self.sessions}-{self.seed}"


@cache
def open_fold(data: str, fold: int, seed: int, folder: str) -> Fold:
    if data == "mslr":
        return make_fold("mslr", 200, seed=seed)
    return read_fold(Path(folder) / data / f"Fold{fold}")


@cache
def production_of(data: str, fold: int, seed: int, folder: str) -> tuple[Ranker, dict[str, float]]:
    """The production ranker, and test DCG@5 of it and of the full-information ranker."""
    opened, threshold = open_fold(data, fold, seed, folder), THRESHOLDS[data]
    production, _ = train_production(opened.train, 1e-6, threshold, seed, 1)
    full = Ranker(k=PAGE, seed=seed, threads=1)
    validation = opened.validation, full_information(opened.validation, threshold)
    full.fit(opened.train, full_information(opened.train, threshold), validation=validation)
    return production, {"production": dcg(production, opened, threshold), "full": dcg(full, opened, threshold)}


def dcg(ranker: Ranker, fold: Fold, threshold: float) -> float:
    return float(evaluate(ranker.predict(fold.test), fold.test, threshold, metrics=["dcg@5"], threads=1)["dcg@5"])


def train(case: Case, folder: str, held_out: float) -> tuple[dict[str, float], dict[str, Any]]:
    """`auto` of the sessions that are not held out, and of all; test DCG@5, and scores of the logged queries."""
    fold = open_fold(case.data, case.fold, case.seed, folder)
    threshold, policy = THRESHOLDS[case.data], POLICIES[case.policy]
    production, known = production_of(case.data, case.fold, case.seed, folder)
    scores = production.predict(fold.train)
    rho = policy.propensity(scores, fold.train.offsets, EXAM)
    arrays, found = {"production": np.float64(scores)}, dict(known)
    for name, share in (("auto", 1.0 - held_out), ("ungated", 1.0)):
        clicks = simulate(
            fold.train, scores, policy, EXAM, sessions=round(case.sessions * share),
            seed=np.random.default_rng([case.seed, 2]), relevance_threshold=threshold, threads=1,
        )  # fmt: skip
        ranker = Ranker(k=PAGE, seed=case.seed, threads=1)
        ranker = fit_from_clicks(fold.train, clicks, rho, ranker=ranker, exam=EXAM, seed=case.seed).ranker
        arrays[name], found[name] = np.float64(ranker.predict(fold.train)), dcg(ranker, fold, threshold)
    return found, arrays


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """All runs, a few seeds of every size and data set first."""
    for seed in range(options.first_seed, options.first_seed + options.runs):
        for sessions in options.sessions:
            for data in options.names:
                yield Case(data, 1 + seed % FOLDS[data], options.policy, sessions, seed)


def collect(options: argparse.Namespace) -> None:
    """Train what is not there yet."""
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    for case in cases(options):
        file = out / f"{case.name}.npz"
        if file.exists():
            continue
        found, arrays = train(case, options.data, options.held_out)
        temporary = out / f"{case.name}.part"
        with temporary.open("wb") as opened:
            np.savez_compressed(opened, **arrays)
        with (out / "runs.jsonl").open("a") as lines:
            lines.write(json.dumps(case._asdict() | found) + "\n")
        temporary.rename(file)


def test_case(case: Case, arrays: Any, folder: str, held_out: float) -> dict[str, Any]:
    """The bounds of each level from held-out clicks, and the true difference by labels."""
    data = open_fold(case.data, case.fold, case.seed if case.data == "mslr" else 0, folder).train
    assert data.labels is not None
    threshold, policy = THRESHOLDS[case.data], POLICIES[case.policy]
    clicks = simulate(
        data, arrays["production"], policy, EXAM, sessions=round(case.sessions * held_out),
        seed=np.random.default_rng([case.seed, 3]), relevance_threshold=threshold, displays=True, threads=1,
    )  # fmt: skip
    found = deployment_test(
        arrays["auto"], arrays["production"], data, clicks, policy=policy, scores=arrays["production"], exam=EXAM,
        confidence=1.0 - ALPHA, threads=1,
    )  # fmt: skip
    value = document_values(arrays["auto"], data, ["dcg@5"], "average", 1)[:, 0]
    value -= document_values(arrays["production"], data, ["dcg@5"], "average", 1)[:, 0]
    chances = 0.1 + 0.9 * (data.labels >= threshold)
    gains = np.add.reduceat(value * chances, data.offsets[:-1])
    levels = {name: [each.estimate, each.lower, each.upper] for name, each in found.levels.items()}
    return {"truth": float(gains @ clicks.sessions / clicks.n_sessions), "levels": levels}


def test(options: argparse.Namespace) -> None:
    """Test what was trained and is not tested yet."""
    out = Path(options.out)
    tested = {Case(*(each[name] for name in Case._fields)) for each in read_lines(out / "tests.jsonl")}
    for run in read_lines(out / "runs.jsonl"):
        case = Case(*(run[name] for name in Case._fields))
        if case not in tested:
            found = test_case(case, np.load(out / f"{case.name}.npz"), options.data, options.held_out)
            with (out / "tests.jsonl").open("a") as lines:
                lines.write(json.dumps(run | found) + "\n")


def table(options: argparse.Namespace) -> None:
    """Deployments, errors and shares of the gap, by data, sessions and level."""
    runs = [each for each in read_lines(Path(options.out) / "tests.jsonl") if each["policy"] == options.policy]
    shown = Table("data", "sessions", "runs", "level", "auto worse", "deployed", "worse deployed", "bound", "kept")
    for data in ("all", *THRESHOLDS):
        for sessions in SESSIONS:
            some = [each for each in runs if each["sessions"] == sessions and data in ("all", each["data"])]
            for name in LEVELS if some else ():
                row = rates(some, name)
                shown.add_row(data, f"{sessions:,}", str(len(some)), name, *(f"{value:.3g}" for value in row))
    Console(width=130).print(shown)


def rates(runs: list[dict[str, Any]], level: str) -> tuple[float, ...]:
    """Shares of runs: worse ungated, deployed, deployed and worse with its 95 % bound (Clopper-Pearson), and kept."""
    deployed = np.array([(each["levels"][level][1] or 0.0) > 0.0 for each in runs])
    worse = np.array([each["truth"] < 0.0 for each in runs])
    gain, ungated = (np.array([each[name] - each["production"] for each in runs]) for name in ("auto", "ungated"))
    wrong, n = int((deployed & worse).sum()), len(runs)
    bound = 1.0 if wrong == n else float(betaincinv(wrong + 1.0, n - wrong, 0.95))
    kept = float((gain * deployed).mean() / ungated.mean())
    return float(worse.mean()), float(deployed.mean()), wrong / n, bound, kept


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.promotion", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("collect", "test", "table"))
    parser.add_argument("--data", default="../shared/data", help="a folder with ohsumed and mq2008")
    parser.add_argument("--policy", default="replace-last", choices=list(POLICIES))
    parser.add_argument("--held-out", type=float, default=HELD_OUT, help="share of the sessions (default 0.2)")
    parser.add_argument("--names", nargs="+", default=list(FOLDS), choices=list(FOLDS))
    parser.add_argument("--sessions", nargs="+", type=int, default=list(SESSIONS))
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--runs", type=int, default=42, help="seeds for each data set and number of sessions")
    parser.add_argument("--out", default="runs/promotion", help="a folder; one for each policy and share held out")
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        {"collect": collect, "test": test, "table": table}[options.what](options)


if __name__ == "__main__":
    main()
