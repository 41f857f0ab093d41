"""`auto` against fixed estimators over many random splits of the queries, to average over test sets.

    python -m benchmarks.few_clicks --data OHSUMED/Fold1 --relevance-threshold 2 --sessions 10000,1000000

The folds that a data set comes with have few test queries, the same for all runs on them, and at 10^6 sessions clicks
hardly differ between runs: the variance comes from the choice of test queries. Here all queries of a fold are divided
at random for each run into training (60 %), validation and test (20 % each). Otherwise as in `reproduce few-clicks`: a
production ranker from 3 queries, pages of 5 under replace-last, 15 % as many sessions on validation queries.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from counterrank import Fold, Ranker, RankingData, read_fold
from counterrank.clicks.examination import inverse_rank
from counterrank.clicks.policies import ReplaceLast
from counterrank.clicks.simulation import simulate
from counterrank.estimators import full_information
from counterrank.evaluation import evaluate
from counterrank.experiments.demo import train_production
from counterrank.training import fit_from_clicks

_PAGE = 5
_FIXED = ("direct", "doubly-robust", "shrinkage", "policy-aware")


def one_run(whole: RankingData, threshold: float, sessions: int, seed: int) -> dict[str, float]:
    """Test DCG@5 of all rankers on one split."""
    order = np.random.default_rng([seed, 1]).permutation(whole.n_queries)
    cuts = [round(0.6 * len(order)), round(0.8 * len(order))]
    train, validation, test = (whole.subset(np.sort(part)) for part in np.split(order, cuts))
    production, _ = train_production(train, 1e-6, threshold, seed, 1)
    exam, policy = inverse_rank(_PAGE), ReplaceLast(_PAGE)

    def log(part: RankingData, n: int, number: int) -> tuple[Any, ...]:
        scores, own = production.predict(part), np.random.default_rng([seed, number])
        clicks = simulate(part, scores, policy, exam, sessions=n, seed=own, relevance_threshold=threshold, threads=1)
        return part, clicks, policy.propensity(scores, part.offsets, exam)

    logged, held_out = log(train, sessions, 2), log(validation, round(0.15 * sessions), 3)

    def learn(estimator: str) -> Ranker:
        folds = 5 if estimator == "auto" else None
        empty = Ranker(k=_PAGE, seed=seed, threads=1)
        return fit_from_clicks(
            *logged, validation=held_out, estimator=estimator, ranker=empty, exam=exam, folds=folds, seed=seed
        ).ranker

    labels = full_information(train, threshold), (validation, full_information(validation, threshold))
    rankers = {name: learn(name) for name in ("auto", *_FIXED)}
    rankers["production"] = production
    rankers["full-information"] = Ranker(k=_PAGE, seed=seed, threads=1).fit(train, labels[0], validation=labels[1])
    return {
        name: evaluate(ranker.predict(test), test, threshold, metrics=["dcg@5"], threads=1)["dcg@5"]
        for name, ranker in rankers.items()
    }


def summarise(runs: list[dict[str, float]], sessions: int) -> list[dict[str, Any]]:
    """Gap closed, and by how much auto is ahead of each fixed estimator, with standard errors."""
    value = {name: np.array([run[name] for run in runs]) for name in runs[0]}
    gap = (value["full-information"] - value["production"]).mean()
    return [
        {
            "sessions": sessions,
            "estimator": name,
            "share": float((value[name] - value["production"]).mean() / gap),
            "auto ahead by": float((value["auto"] - value[name]).mean() / gap),
            "standard error": float((value["auto"] - value[name]).std(ddof=1) / gap / np.sqrt(len(runs))),
        }
        for name in ("auto", *_FIXED)
    ]


def all_queries(fold: Fold) -> RankingData:
    """The queries of all parts of a fold."""
    parts = [part for part in (fold.train, fold.validation, fold.test) if part is not None]
    lengths = np.concatenate([part.lengths for part in parts])
    return RankingData(
        np.concatenate([part.features for part in parts]),
        np.concatenate(([0], np.cumsum(lengths))),
        np.concatenate([part.labels for part in parts if part.labels is not None]),
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.few_clicks", description=__doc__)
    parser.add_argument("--data", required=True, help="a folder with train, vali and test files")
    parser.add_argument("--relevance-threshold", type=float, default=3.0)
    parser.add_argument("--sessions", default="10000,1000000", help="comma-separated")
    parser.add_argument("--runs", type=int, default=32, help="splits (default 32)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    options = parser.parse_args()
    whole, rows = all_queries(read_fold(options.data)), []
    for sessions in map(int, options.sessions.split(",")):
        runs = [one_run(whole, options.relevance_threshold, sessions, seed) for seed in range(options.runs)]
        rows += summarise(runs, sessions)
    if options.json:
        print(json.dumps({"runs": options.runs, "rows": rows}, indent=2))
        return
    table = Table("sessions", "estimator", "gap closed", "auto ahead by, points")
    for row in rows:
        ahead = f"{100 * row['auto ahead by']:+.1f} ± {100 * row['standard error']:.1f}"
        share = f"{100 * row['share']:.1f} %"
        table.add_row(f"{row['sessions']:,}", row["estimator"], share, "" if row["estimator"] == "auto" else ahead)
    Console().print(table)


if __name__ == "__main__":
    main()
