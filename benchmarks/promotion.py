"""Error rates and power of the deployment test: rankers learned from few clicks, held-out clicks, labels as truth."""

from __future__ import annotations

import argparse
import json
import warnings
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from counterrank import Fold, Ranker, make_fold, read_fold
from counterrank.clicks.examination import inverse_rank
from counterrank.clicks.policies import ReplaceLast, UniformInsert
from counterrank.clicks.simulation import simulate
from counterrank.estimators import full_information
from counterrank.evaluation import evaluate
from counterrank.experiments.demo import train_production
from counterrank.training import fit_from_clicks

PAGE = 5
HELD_OUT = 0.2
SESSIONS = (500, 2_000, 10_000, 60_000, 1_000_000)
THRESHOLDS = {"ohsumed": 2.0, "mq2008": 1.0, "mslr": 3.0}
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


def train(case: Case, folder: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """`auto` of the sessions that are not held out, and of all; test DCG@5, and scores of the logged queries."""
    fold = open_fold(case.data, case.fold, case.seed, folder)
    threshold, policy = THRESHOLDS[case.data], POLICIES[case.policy]
    production, found = production_of(case.data, case.fold, case.seed, folder)
    scores = production.predict(fold.train)
    rho = policy.propensity(scores, fold.train.offsets, EXAM)
    arrays, found = {"production": np.float64(scores)}, dict(found)
    for name, share in (("auto", 1.0 - HELD_OUT), ("ungated", 1.0)):
        clicks = simulate(
            fold.train, scores, policy, EXAM, sessions=round(case.sessions * share),
            seed=np.random.default_rng([case.seed, 2]), relevance_threshold=threshold, threads=1,
        )  # fmt: skip
        ranker = Ranker(k=PAGE, seed=case.seed, threads=1)
        ranker = fit_from_clicks(fold.train, clicks, rho, ranker=ranker, exam=EXAM, seed=case.seed).ranker
        arrays[name], found[name] = np.float64(ranker.predict(fold.train)), dcg(ranker, fold, threshold)
    return found, arrays


def cases(policy: str, first: int, runs: int) -> Any:
    for seed in range(first, first + runs):
        for sessions in SESSIONS:
            for data, folds in (("ohsumed", 3), ("mq2008", 2), ("mslr", 1)):
                yield Case(data, 1 + seed % folds, policy, sessions, seed)


def collect(options: argparse.Namespace) -> None:
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    for case in cases(options.policy, options.first_seed, options.runs):
        file = out / f"{case.name}.npz"
        if file.exists():
            continue
        found, arrays = train(case, options.data)
        temporary = out / f"{case.name}.part"
        with temporary.open("wb") as opened:
            np.savez_compressed(opened, **arrays)
        with (out / "runs.jsonl").open("a") as lines:
            lines.write(json.dumps(case._asdict() | found) + "\n")
        temporary.rename(file)
        print(case.name, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="../shared/data")
    parser.add_argument("--policy", default="replace-last")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--runs", type=int, default=42)
    parser.add_argument("--out", default="runs/promotion")
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collect(options)


if __name__ == "__main__":
    main()
