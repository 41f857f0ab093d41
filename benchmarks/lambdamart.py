"""Counterfactual LambdaMART with full information, against LightGBM's own `lambdarank`: quality and time per round.

    python -m benchmarks.lambdamart --seeds 5                    # the comparison, as Markdown
    python -m benchmarks.lambdamart --seeds 3 --losses all       # and every other loss

Both learn from the same labels with the same trees: twice for each data set, from relevance that is 0 or 1 (by
NDCG@5) and from gains of 2**label - 1 (by graded NDCG@5). Each seed draws other documents and features for every
tree, the same for both. The value of a query is its mean over seeds; the confidence interval of the paired difference
is from resampling the test queries of all folds. The time of a round is the median over rounds, run in turn.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import lightgbm
import numpy as np

import counterrank as cr
from benchmarks.timing import at_most, row, seconds_of
from counterrank.common.parallel import thread_count
from counterrank.data import Fold
from counterrank.estimators import full_information
from counterrank.evaluation import evaluate_queries
from counterrank.losses import LOSSES

DATA = Path(__file__).parents[2] / "shared" / "data"
# the smallest label of a relevant document, and folders of folds
SETS = {
    "ohsumed": (2, [f"ohsumed/Fold{i}" for i in (1, 2, 3)]),
    "mq2008": (1, [f"mq2008/Fold{i}" for i in (1, 2)]),
    "mslr-sample": (2, ["mslr-sample"]),
    "lightgbm-lambdarank": (2, ["lightgbm-lambdarank"]),
    "synthetic:mslr": (3, []),
}
TASKS = {"binary": "ndcg@5", "exponential": "ndcg_graded@5"}
ROUNDS = 100
LEARNING_RATE = 0.1
TREES = {
    "num_leaves": 31, "min_data_in_leaf": 20, "feature_fraction": 0.7, "bagging_fraction": 0.7, "bagging_freq": 1,
}  # fmt: skip
CHOSEN = ("lambdarank", 30)  # the truncation level of LightGBM's lambdarank
WEIGHTS = (None, 5)  # for DCG, and for NDCG@5, which LightGBM's lambdarank optimises
COSTLIEST = 1.5


class Comparison(NamedTuple):
    """counterrank and LightGBM on one data set: the metric, and the 95 % confidence interval of the difference."""

    data: str
    task: str
    ours: float
    theirs: float
    low: float
    high: float

    @property
    def difference(self) -> float:
        return self.ours - self.theirs


@cache
def folds_of(name: str) -> list[Fold]:
    if name.startswith("synthetic:"):
        return [cr.make_fold(name.split(":")[1], 1500, 0)]
    return [cr.read_fold(DATA / folder) for folder in SETS[name][1] if (DATA / folder).is_dir()]


def train_ours(data: cr.RankingData, weights: Any, loss: str, k: int | None, seed: int, rounds: int) -> cr.Ranker:
    trees = {**TREES, "bagging_seed": seed, "feature_fraction_seed": seed}
    return cr.Ranker(loss, k, "lambdamart", LEARNING_RATE, rounds, params=trees, seed=seed).fit(data, weights)


def make_theirs(data: cr.RankingData, labels: Any, seed: int) -> lightgbm.Booster:
    params = {
        **TREES, "objective": "lambdarank", "metric": "none", "learning_rate": LEARNING_RATE, "verbosity": -1,
        "num_threads": thread_count(), "seed": seed, "bagging_seed": seed, "feature_fraction_seed": seed,
    }  # fmt: skip
    return lightgbm.Booster(params, lightgbm.Dataset(data.features, labels, group=data.lengths))


def whole_labels(data: cr.RankingData, gain: str, threshold: float) -> Any:
    """Labels as LightGBM takes them: 0 or 1, which gain 0 and 1, or as they are, which gain 2**label - 1."""
    assert data.labels is not None
    return data.labels >= threshold if gain == "binary" else np.maximum(data.labels, 0.0)


@cache
def theirs_by_query(name: str, gain: str, seeds: int) -> Any:
    """Each test query's metric with LightGBM's `lambdarank`; a row for each seed."""
    threshold, metric = SETS[name][0], TASKS[gain]
    rows = []
    for seed in range(seeds):
        parts = []
        for fold in folds_of(name):
            booster = make_theirs(fold.train, whole_labels(fold.train, gain, threshold), seed)
            for _ in range(ROUNDS):
                booster.update()
            scores = booster.predict(fold.test.features)
            parts.append(evaluate_queries(scores, fold.test, threshold, metrics=[metric])[metric])
        rows.append(np.concatenate(parts))
    return np.array(rows)


def ours_by_query(name: str, gain: str, loss: str, k: int | None, seeds: int, ndcg_at: int | None) -> Any:
    threshold, metric = SETS[name][0], TASKS[gain]
    rows = []
    for seed in range(seeds):
        parts = []
        for fold in folds_of(name):
            weights = full_information(fold.train, threshold, gain, ndcg_at=ndcg_at)
            scores = train_ours(fold.train, weights, loss, k, seed, ROUNDS).predict(fold.test)
            parts.append(evaluate_queries(scores, fold.test, threshold, metrics=[metric])[metric])
        rows.append(np.concatenate(parts))
    return np.array(rows)


def compare(name: str, gain: str, loss: str, k: int | None, seeds: int, ndcg_at: int | None) -> Comparison:
    ours = ours_by_query(name, gain, loss, k, seeds, ndcg_at).mean(axis=0)
    theirs = theirs_by_query(name, gain, seeds).mean(axis=0)
    counts = ~np.isnan(ours)
    ours, theirs = ours[counts], theirs[counts]
    draws = np.random.default_rng(0).integers(len(ours), size=(10_000, len(ours)))
    low, high = np.quantile((ours - theirs)[draws].mean(axis=1), [0.025, 0.975])
    task = "binary" if gain == "binary" else "graded"
    return Comparison(name, task, ours.mean(), theirs.mean(), low, high)


def comparisons(loss: str, k: int | None, seeds: int, ndcg_at: int | None) -> Iterator[Comparison]:
    for name in SETS:
        if folds_of(name):
            for gain in TASKS:
                yield compare(name, gain, loss, k, seeds, ndcg_at)


def round_costs(gain: str, n_queries: int = 1000, rounds: int = 20, turns: int = 3) -> tuple[float, float]:
    """Median seconds of a round of counterrank and of LightGBM, on `synthetic:mslr`."""
    data = cr.make_ranking_data("mslr", n_queries, seed=0)
    weights = full_information(data, 3, gain)
    ours: list[float] = []
    theirs: list[float] = []
    for turn in range(turns):
        ours += [line["seconds"] for line in train_ours(data, weights, *CHOSEN, turn, rounds).history_]
        booster = make_theirs(data, whole_labels(data, gain, 3), turn)
        theirs += [seconds_of(booster.update) for _ in range(rounds)]
    return median(ours), median(theirs)


def run(seeds: int = 5) -> list[dict[str, Any]]:
    """Rows for `python -m benchmarks --only lambdamart`."""
    rows = []
    for ndcg_at in WEIGHTS:
        differences = []
        for found in comparisons(*CHOSEN, seeds, ndcg_at):
            differences.append(found.difference)
            what = f"{found.data}, {found.task}, {_what(ndcg_at)}: {found.difference:+.4f} ({_interval(found)})"
            rows.append(row(what, None, None, "reaches 0", found.high >= 0.0))
        mean = float(np.mean(differences))
        rows.append(row(f"mean, {_what(ndcg_at)}: {mean:+.4f}", None, None, ">= -0.005", mean >= -0.005))
    for gain in TASKS:
        ours, theirs = round_costs(gain)
        rows.append(at_most(f"a round, {gain} gains, against LightGBM's own", ours, theirs, COSTLIEST))
    return rows


def _what(ndcg_at: int | None) -> str:
    return "weights for DCG" if ndcg_at is None else f"weights for NDCG@{ndcg_at}"


def _interval(found: Comparison) -> str:
    return f"{found.low:+.4f} to {found.high:+.4f}"


def _print_comparison(loss: str, k: int | None, seeds: int, ndcg_at: int | None) -> None:
    print(f"\n`{loss}`, k={k}, {_what(ndcg_at)}, {seeds} seeds\n")
    print("| data | gains | ours | LightGBM's lambdarank | difference | 95 % interval |\n|---|---|---|---|---|---|")
    differences = []
    for c in comparisons(loss, k, seeds, ndcg_at):
        differences.append(c.difference)
        cells = (c.data, c.task, f"{c.ours:.4f}", f"{c.theirs:.4f}", f"{c.difference:+.4f}", _interval(c))
        print(f"| {' | '.join(cells)} |", flush=True)
    print(f"\nMean difference {np.mean(differences):+.4f}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lambdamart", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="seeds for each comparison (default 5)")
    parser.add_argument("--losses", choices=["chosen", "all"], default="chosen", help="only lambdarank, or all losses")
    options = parser.parse_args(arguments)
    for ndcg_at in WEIGHTS:
        _print_comparison(*CHOSEN, options.seeds, ndcg_at)
    if options.losses == "all":
        others = [(name, 5 if loss.takes_k else None) for name, loss in LOSSES.items()]
        for loss, k in [*others, ("lambdarank", None)]:
            _print_comparison(loss, k, options.seeds, None)
    print("\n| a round | ours, ms | LightGBM's, ms | ratio |\n|---|---|---|---|")
    for gain in TASKS:
        ours, theirs = round_costs(gain)
        print(f"| {gain} | {1e3 * ours:.0f} | {1e3 * theirs:.0f} | {ours / theirs:.2f} |", flush=True)


if __name__ == "__main__":
    main()
