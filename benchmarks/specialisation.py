"""Rankings of their own for frequent queries: the share of queries hurt, and the gain over the general ranker.

    python -m benchmarks.specialisation --folder DATA --runs 20 --out runs/specialisation.jsonl
    python -m benchmarks.specialisation --show runs/specialisation.jsonl

Sessions are those of Zipf's law with exponent 1 over the training queries, half of them to make rankings and half held
out; pages of 5 are those of the general ranker under replace-last or uniform-insert, with the paper's users. The
general ranker is the best that is to be had: learned from the labels of all these queries. Data: OHSUMED's folds, and
the training part of `make_fold("mslr", 200)`, another one for each seed. The truth is the expected gain per session by
labels. Shown are, by policy and sessions, the queries that were tested, the share of them that is hurt with and without
the bounds, with a 95 % Clopper-Pearson upper bound (as if queries were independent), and the gain over all sessions.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.auto_cost import read_lines
from benchmarks.safe_learning import upper_bound
from counterrank import Ranker, RankingData, make_fold, read_fold
from counterrank.clicks.examination import inverse_rank
from counterrank.clicks.policies import ReplaceLast, UniformInsert
from counterrank.clicks.simulation import simulate
from counterrank.estimators import full_information
from counterrank.estimators.evidence import Evidence
from counterrank.evaluation.weighted_clicks import document_values
from counterrank.training.specialisation import own_scores, specialise

_PAGE = 5
_SESSIONS = (10_000, 100_000, 1_000_000, 10_000_000)
_POLICIES = {"replace-last": ReplaceLast(_PAGE), "uniform-insert": UniformInsert(_PAGE)}
_CONFIDENCE = 0.95


def true_gains(scores: Any, base: Any, data: RankingData, threshold: float) -> Any:
    """The expected gain in clicks per session of each query."""
    assert data.labels is not None
    values = [document_values(each, data, [f"dcg@{_PAGE}"], "order", 1)[:, 0] for each in (scores, base)]
    relevance = 0.1 + 0.9 * (data.labels >= threshold)
    return np.add.reduceat((values[0] - values[1]) * relevance, data.offsets[:-1])


def one_run(data: RankingData, threshold: float, policy: Any, sessions: int, seed: int) -> dict[str, Any]:
    """Tests of all queries, and what is true."""
    rng, exam = np.random.default_rng(seed), inverse_rank(_PAGE)
    frequencies = 1.0 / (1.0 + rng.permutation(data.n_queries))
    general = Ranker(k=_PAGE, threads=1, seed=seed).fit(data, full_information(data, threshold))
    base = general.predict(data)
    logs = [
        simulate(data, base, policy, exam, sessions=sessions // 2, seed=np.random.default_rng([seed, part]),
                 relevance_threshold=threshold, query_frequencies=frequencies, displays=True, threads=1)
        for part in (0, 1)
    ]  # fmt: skip
    how = {"policy": policy, "scores": base, "exam": exam}
    begin = perf_counter()
    found = specialise(general, data, *logs, **how, confidence=_CONFIDENCE)
    seconds = perf_counter() - begin
    used = true_gains(found.predict(data), base, data, threshold)
    seen = Evidence(logs[0], None, exam, policy=policy, scores=base).for_data(data).examinations
    always = true_gains(own_scores(base, data, seen), base, data, threshold)
    places = {query: i for i, query in enumerate(data.query_ids.tolist())}
    tested = [places[each.query] for each in found.tests]
    shares = frequencies / frequencies.sum()
    return {
        "tested": len(tested),
        "used": len(found.queries),
        "hurt": int((used[tested] < -1e-12).sum()),
        "hurt without bounds": int((always[tested] < -1e-12).sum()),
        "gain": float(shares @ used),
        "gain without bounds": float(shares[tested] @ always[tested]),
        "sessions of used": float(sum(shares[places[query]] for query in found.queries)),
        "seconds": seconds,
    }


def _measure(options: argparse.Namespace) -> None:
    out, folder = Path(options.out), Path(options.folder)
    out.parent.mkdir(parents=True, exist_ok=True)
    done = {(run["data"], run["policy"], run["sessions"], run["seed"]) for run in read_lines(out)}
    for seed in range(options.runs):
        for name, threshold in (("synthetic:mslr", 3.0), ("ohsumed", 2.0)):
            if name == "ohsumed" and not (folder / name).is_dir():
                continue
            data = make_fold("mslr", 200, seed=seed).train if name != "ohsumed" else (
                read_fold(folder / name / f"Fold{seed % 3 + 1}").train
            )  # fmt: skip
            for policy in _POLICIES:
                for sessions in _SESSIONS:
                    about = {"data": name, "policy": policy, "sessions": sessions, "seed": seed}
                    if tuple(about.values()) in done:
                        continue
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        found = one_run(data, threshold, _POLICIES[policy], sessions, seed)
                    with out.open("a") as file:
                        file.write(json.dumps(about | found) + "\n")


def _show(runs: list[dict[str, Any]]) -> None:
    table = Table(
        "data", "policy", "sessions", "runs", "tested", "own ranking", "hurt", "bound", "hurt without bounds",
        "gain", "without bounds", "seconds",
    )  # fmt: skip
    for key in sorted({(run["data"], run["policy"], run["sessions"]) for run in runs}):
        some = [run for run in runs if (run["data"], run["policy"], run["sessions"]) == key]
        total = {name: sum(run[name] for run in some) for name in some[0] if isinstance(some[0][name], int | float)}
        n, tested = len(some), max(1, total["tested"])
        table.add_row(
            key[0], key[1], f"{key[2]:,}", str(n), f"{total['tested'] / n:.0f}", f"{total['used'] / n:.1f}",
            f"{total['hurt'] / tested:.2%}", f"{upper_bound(total['hurt'], tested):.2%}",
            f"{total['hurt without bounds'] / tested:.1%}", f"{total['gain'] / n:+.4f}",
            f"{total['gain without bounds'] / n:+.4f}", f"{total['seconds'] / n:.1f}",
        )  # fmt: skip
    Console(width=160).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.specialisation", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--folder", default="../shared/data", help="where the folder ohsumed lies")
    parser.add_argument("--runs", type=int, default=20, help="seeds for each data set, policy and number of sessions")
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
