"""Errors of `examination.estimate` on logs with a known curve: `python -m benchmarks.position_bias`.

Simulated logs: 30 documents a query, Plackett-Luce pages of 10 from scores of standard deviation 1 that correlate 0.5
with latent relevance, examination 1 / rank, clicks once examined with 1.0 on relevant documents, 0.1 on others. Each
repetition draws new queries and a new log. Errors are relative to the true curve, both relative to rank 1.

    target      10^6 sessions over 500 queries: the largest error of any rank up to 10, each repetition
    sessions    how errors grow as sessions per query fall
    coverage    coverage of 95 % confidence intervals, with many queries and few, equally frequent or by Zipf's law
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from counterrank import RankingData, examination, policies, simulation
from counterrank.clicks.position_bias import all_pairs, em, sparse_share
from counterrank.clicks.rank_table import interventional_set
from counterrank.common.errors import CounterrankError

K = 10
DOCS = 30
TRUE = 1.0 / np.arange(1.0, K + 1.0)
# share of relevant documents: as in web data, and many
SHARES = (0.02, 0.4)
SESSIONS = (2000, 500, 200, 100, 50, 20)
METHODS = ("all-pairs", "em", "regression-em")
# share of relevant documents, queries, sessions per query, by Zipf's law or not
COVERAGE = [
    (0.02, 500, 200, False),
    (0.4, 500, 50, False),
    (0.4, 100, 200, False),
    (0.4, 50, 200, False),
    (0.4, 20, 1000, False),
    (0.4, 10, 1000, False),
    (0.4, 5, 1000, False),
    (0.4, 500, 200, True),
    (0.4, 100, 200, True),
    (0.4, 20, 1000, True),
]


@dataclass(frozen=True)
class World:
    """Queries, the scores of the policy, and the frequency of each query."""

    data: RankingData
    scores: Any
    frequencies: Any

    @classmethod
    def make(cls, share: float, n_queries: int, zipf: bool, seed: int) -> World:
        rng = np.random.default_rng(seed)
        n = n_queries * DOCS
        merit = rng.standard_normal(n)
        scores = 0.5 * merit + np.sqrt(0.75) * rng.standard_normal(n)
        features = np.stack([merit + 0.3 * rng.standard_normal(n), *rng.standard_normal((2, n))], axis=1)
        labels = np.where(merit >= np.quantile(merit, 1.0 - share), 4.0, 0.0)
        data = RankingData(features.astype(np.float32), np.arange(n_queries + 1) * DOCS, labels)
        return cls(data, scores, 1.0 / np.arange(1.0, n_queries + 1.0) if zipf else None)

    def log(self, sessions: int, seed: int) -> Any:
        return simulation.simulate(
            self.data,
            self.scores,
            policies.PlackettLuce(k=K),
            examination.inverse_rank(k=K),
            sessions=sessions,
            seed=seed,
            query_frequencies=self.frequencies,
            propensities=False,
        )


def estimated(log: Any, data: RankingData, method: str) -> dict[str, Any] | None:
    """Errors and intervals of one method on one log; None where it refuses."""
    begin = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = examination.estimate(log, method=method, data=data if method == "regression-em" else None)
        except CounterrankError:
            return None
    low, high = found.intervals[1:].T
    return {
        "error": (found.values / TRUE - 1.0)[1:],
        "covered": (low <= TRUE[1:]) & (TRUE[1:] <= high),
        "half_width": float(((high - low) / 2.0 / TRUE[1:]).max()),
        "doubted": any("EM is then off" in text for text in found.warnings),
        "seconds": perf_counter() - begin,
    }


def repeated(share: float, n_queries: int, each: int, methods: Any, repetitions: int) -> dict[str, Any]:
    """One row: errors of the methods over the repetitions."""
    notes: dict[str, list[Any]] = {method: [] for method in methods}
    rare = []
    for repetition in range(repetitions):
        world = World.make(share, n_queries, False, repetition)
        log = world.log(n_queries * each, repetition)
        rare.append(sparse_share(interventional_set(log, K)))
        for method in methods:
            notes[method].append(estimated(log, world.data, method))
    row = {method: _summary(found) for method, found in notes.items()}
    return {"relevant": share, "queries": n_queries, "sessions": each, "rare": float(np.mean(rare)), **row}


def _summary(notes: list[Any]) -> dict[str, Any]:
    kept = [note for note in notes if note is not None]
    if not kept:
        return {"refused": len(notes)}
    errors = np.stack([note["error"] for note in kept])
    return {
        "refused": len(notes) - len(kept),
        "bias": float(errors.mean()),
        "largest": np.abs(errors).max(axis=1).tolist(),
        "coverage": float(np.mean([note["covered"] for note in kept])),
        "half_width": float(np.mean([note["half_width"] for note in kept])),
        "doubted": float(np.mean([note["doubted"] for note in kept])),
        "seconds": float(np.median([note["seconds"] for note in kept])),
    }


def covered(case: Any, repetitions: int) -> dict[str, Any]:
    """Coverage of both kinds of confidence intervals."""
    share, n_queries, each, zipf = case
    inside: dict[str, list[Any]] = {}
    effective = []
    for repetition in range(repetitions):
        world = World.make(share, n_queries, zipf, repetition)
        log = world.log(n_queries * each, repetition)
        table = interventional_set(log, K)
        for method, fit in (("all-pairs", all_pairs(table)), ("em", em(table))):
            effective.append(fit.effective_queries)
            for target in ("queries", "these-queries"):
                low, high = fit.intervals(target, 0.95)[1:].T
                inside.setdefault(f"{method}, {target}", []).append((low <= TRUE[1:]) & (TRUE[1:] <= high))
    shares = {name: float(np.mean(found)) for name, found in inside.items()}
    row = {"relevant": share, "queries": n_queries, "sessions": each, "zipf": zipf, "coverage": shares}
    return row | {"effective": float(np.mean(effective))}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.position_bias",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default="target,sessions,coverage", help="comma-separated parts")
    parser.add_argument("--repetitions", type=int, default=10, help="of each row; ten times as many for coverage")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    options = parser.parse_args()
    parts, results = options.only.split(","), {}
    if "target" in parts:
        results["target"] = [_announced(repeated(s, 500, 2000, METHODS[:2], options.repetitions)) for s in SHARES]
        _ = options.json or _show_target(results["target"])
    if "sessions" in parts:
        rows = [(share, each) for share in SHARES for each in SESSIONS]
        results["sessions"] = [_announced(repeated(s, 500, n, METHODS, options.repetitions)) for s, n in rows]
        _ = options.json or _show_sessions(results["sessions"])
    if "coverage" in parts:
        results["coverage"] = [_announced(covered(case, 10 * options.repetitions)) for case in COVERAGE]
        _ = options.json or _show_coverage(results["coverage"])
    if options.json:
        print(json.dumps(results, indent=2))


def _announced(row: dict[str, Any]) -> dict[str, Any]:
    print(f"{row['relevant']:.0%} relevant, {row['queries']} x {row['sessions']} done", file=sys.stderr, flush=True)
    return row


def _show_target(rows: list[dict[str, Any]]) -> None:
    print("\n| relevant | method | largest error of any rank: mean, worst of the repetitions | target | |")
    print("|---|---|---|---|---|")
    for row in rows:
        for method, limit in (("all-pairs", 0.05), ("em", 0.10)):
            worst = max(row[method]["largest"])
            mean = np.mean(row[method]["largest"])
            verdict = "met" if worst <= limit else "missed"
            print(f"| {row['relevant']:.0%} | {method} | {mean:.1%}, {worst:.1%} | {limit:.0%} | {verdict} |")


def _show_sessions(rows: list[dict[str, Any]]) -> None:
    print("\n| relevant | sessions per query | rare | " + " | ".join(METHODS) + " | EM warns |")
    print("|---|---:|---:|" + "---|" * len(METHODS) + "---|")
    for row in rows:
        cells = [_cell(row[method]) for method in METHODS]
        warned = f"{row['em'].get('doubted', 0.0):.0%}"
        print(f"| {row['relevant']:.0%} | {row['sessions']} | {row['rare']:.0%} | {' | '.join(cells)} | {warned} |")


def _cell(summary: dict[str, Any]) -> str:
    if "bias" not in summary:
        return "refused"
    refused = f" ({summary['refused']} refused)" if summary["refused"] else ""
    return f"{summary['bias']:+.1%}, {np.mean(summary['largest']):.1%}, {summary['coverage']:.0%}{refused}"


def _show_coverage(rows: list[dict[str, Any]]) -> None:
    names = list(rows[0]["coverage"])
    print("\n| relevant | queries | effective | sessions per query | " + " | ".join(names) + " |")
    print("|---|---:|---:|---:|" + "---:|" * len(names))
    for row in rows:
        cells = " | ".join(f"{row['coverage'].get(name, float('nan')):.1%}" for name in names)
        queries = f"{row['queries']}{', Zipf' if row['zipf'] else ''}"
        print(f"| {row['relevant']:.0%} | {queries} | {row['effective']:.0f} | {row['sessions']} | {cells} |")


if __name__ == "__main__":
    main()
