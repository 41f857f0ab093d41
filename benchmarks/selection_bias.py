"""How much of the gap between production and full information each estimator closes, on real data and built-in data.

    python -m benchmarks.selection_bias --data ../shared/data --seeds 8

Production ranker: ARP hinge on 3 training queries (1 % where that is more); pages of 5 under replace-last, 10^7
sessions, validation clicks 15 %; truncated LambdaLoss with k = 5. *Gap closed* is from mean test DCG@5. Confidence
intervals are paired, from resampling runs; runs on a fold share its queries, so they are too narrow for other queries.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from counterrank import make_fold, read_fold
from counterrank.experiments import compare_estimators

NAMES = ("naive", "policy-oblivious", "rerank", "policy-aware")
SETS = {
    "ohsumed": (["ohsumed/Fold1", "ohsumed/Fold2", "ohsumed/Fold3"], 2),
    "mq2008": (["mq2008/Fold1", "mq2008/Fold2"], 1),
    "mslr-sample": (["mslr-sample"], 2),
    "synthetic:mslr": (["synthetic"], 3),
}
RESAMPLES = 10_000


def cells(folder: Path, name: str, seeds: int, sessions: int) -> list[dict[str, float]]:
    """Test DCG@5 of every ranker, one row for each fold and seed."""
    parts, threshold = SETS[name]
    rows = []
    for part in parts:
        fold = make_fold("mslr", 3000, seed=0) if part == "synthetic" else read_fold(folder / part)
        for seed in range(seeds):
            found = compare_estimators(fold, NAMES, sessions=sessions, relevance_threshold=threshold, seed=seed)
            rows.append({ranker: values["dcg@5"] for ranker, values in found.metrics.items()})
            print(f"{part} seed {seed}: {rows[-1]}", file=sys.stderr, flush=True)
    return rows


def shares(rows: list[dict[str, float]]) -> dict[str, Any]:
    """Gap closed, with paired bootstrap intervals of each and of its difference to policy-aware."""
    values = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    draws = np.random.default_rng(0).integers(len(rows), size=(RESAMPLES, len(rows)))
    low, high = values["production"], values["full-information"]

    def share(name: str, of: Any) -> Any:
        return (values[name] - low)[of].mean(axis=-1) / (high - low)[of].mean(axis=-1)

    everything = np.arange(len(rows))
    ends = [2.5, 97.5]
    result: dict[str, Any] = {name: {"dcg@5": float(column.mean())} for name, column in values.items()}
    for name in NAMES:
        result[name] |= {
            "share": float(share(name, everything)),
            "interval": np.percentile(share(name, draws), ends).tolist(),
            "aware_beyond": float(share("policy-aware", everything) - share(name, everything)),
            "aware_beyond_interval": np.percentile(share("policy-aware", draws) - share(name, draws), ends).tolist(),
        }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.selection_bias", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder with the LETOR data sets")
    parser.add_argument("--sets", default=",".join(SETS), help="comma-separated")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--sessions", type=int, default=10**7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = {}
    for name in options.sets.split(","):
        found[name] = shares(cells(options.data, name, options.seeds, options.sessions))
        if not options.json:
            _show(name, found[name], options.seeds * len(SETS[name][0]))
    if options.json:
        print(json.dumps(found, indent=2))


def _show(name: str, found: dict[str, Any], runs: int) -> None:
    ends = " and ".join(f"{ranker} {found[ranker]['dcg@5']:.3f}" for ranker in ("production", "full-information"))
    print(f"\n{name}, {runs} runs: test DCG@5 of {ends}\n")
    print("| estimator | DCG@5 | gap closed | 95 % interval | policy-aware closes more by | 95 % interval |")
    print("|---|---|---|---|---|---|")
    for estimator in NAMES:
        row = found[estimator]
        ends, beyond = (
            "{:.0f} to {:.0f}".format(*(100 * x for x in row[key])) for key in ("interval", "aware_beyond_interval")
        )
        more = ("", "") if estimator == "policy-aware" else (f"{100 * row['aware_beyond']:.0f} points", beyond)
        print(f"| {estimator} | {row['dcg@5']:.3f} | {row['share']:.0%} | {ends} | {more[0]} | {more[1]} |", flush=True)


if __name__ == "__main__":
    main()
