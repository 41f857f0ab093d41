"""Plans of a comparison against simulated decisions: is the recommended policy the best, and is the power as planned?

    python -m benchmarks.planned_comparisons --data OHSUMED --folds 1,2,3 --relevance-threshold 2 --out planned.jsonl
    python -m benchmarks.planned_comparisons --data synthetic:mslr --folds 1,2,3 --out planned.jsonl
    python -m benchmarks.planned_comparisons --table planned.jsonl

plans the comparison of several pairs of rankers on the training queries of each fold (`synthetic:mslr` makes data, its
seed the fold), and appends a line to the file for each fold, pair and guess; those that are in the file are not run
again. The production ranker is trained on 3 queries; `half` and `other half` on the labels of half of the queries each,
`feature` is the best single feature. The guess of relevance:

    labels    those that the clicks are simulated from: what is best if relevance is known
    model     `estimators.fit_relevance` of an earlier log of 5,000 sessions under uniform-insert

For each policy RUNS logs are simulated with the planned sessions, at most `--most` of them, and `compare` decides. The
line has the planned and the simulated standard deviation of a session, and the share of right decisions.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.auto_cost import read_lines
from counterrank import Fold, Ranker, make_fold, read_fold
from counterrank.clicks.counts import ClickCounts, merge_counts
from counterrank.clicks.examination import inverse_rank
from counterrank.clicks.policies import UniformInsert
from counterrank.clicks.policies.parsing import parse_policies, score_spread
from counterrank.clicks.simulation import simulate
from counterrank.common.checks import FloatArray
from counterrank.data import RankingData
from counterrank.estimators import fit_relevance, full_information
from counterrank.evaluation import ComparisonPlan, compare, evaluate, plan_comparison, verdict
from counterrank.evaluation.planning import ClickGuess
from counterrank.evaluation.weighted_clicks import document_values
from counterrank.experiments.demo import train_production

_PAGE = 5
METRIC = "dcg@5"
PAIRS = (
    ("production", "half"),
    ("production", "feature"),
    ("half", "other half"),
    ("half", "feature"),
)
GUESSES = ("labels", "model")
_EARLIER = 5_000
_TEMPERATURES = (0.8,)  # of Plackett-Luce, in standard deviations of production's scores within a query


def rankers_of(fold: Fold, threshold: float) -> dict[str, FloatArray]:
    """Scores of the training queries by name."""
    train = fold.train
    found = {"production": train_production(train, 0.01, threshold, seed=0)[0].predict(train)}
    order = np.random.default_rng(0).permutation(train.n_queries)
    for name, chosen in (("half", order[::2]), ("other half", order[1::2])):
        part = train.subset(np.sort(chosen))
        ranker = Ranker(loss="lambdaloss-truncated", k=_PAGE, seed=0, max_epochs=30)
        found[name] = ranker.fit(part, full_information(part, threshold)).predict(train)
    columns = train.normalized().features
    values = [
        evaluate(columns[:, j], train, relevance_threshold=threshold, metrics=[METRIC])[METRIC]
        for j in range(train.n_features)
    ]
    found["feature"] = columns[:, int(np.argmax(values))].astype(np.float64)
    return found


def simulate_plan(
    plan: ComparisonPlan, data: RankingData, exam: Any, sessions: int, threshold: float, rng: np.random.Generator
) -> ClickCounts:
    """A log in which each session has one of the plan's arms."""
    sizes = rng.multinomial(sessions, [arm.share for arm in plan.arms])
    return merge_counts(
        [
            simulate(
                data, arm.scores, arm.policy, exam, sessions=int(size), seed=rng, displays=True, propensities=False,
                relevance_threshold=threshold, threads=1,
            )
            for arm, size in zip(plan.arms, sizes, strict=True)
            if size
        ]
    )  # fmt: skip


def measure(
    plan: ComparisonPlan,
    pair: tuple[FloatArray, FloatArray],
    data: RankingData,
    truth: FloatArray,
    settings: argparse.Namespace,
) -> dict[str, Any]:
    """Planned and simulated precision of one policy; `truth` is the difference of each query."""
    exam = inverse_rank(_PAGE)
    row = {"policy": plan.policy, "sessions": plan.sessions, "price": plan.price, "unbiased": plan.unbiased}
    if plan.sessions is None or not math.isfinite(plan.deviation):
        return row
    n = min(plan.sessions, settings.most)
    rng = np.random.default_rng(0)
    squares, right = [], []
    for _ in range(settings.runs):
        log = simulate_plan(plan, data, exam, n, settings.relevance_threshold, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = compare(*pair, data, log, plan.rho, [METRIC], population="these-queries", threads=1)[METRIC]
        squares.append((found.ips - log.sessions @ truth / n) ** 2)
        right.append(verdict(found).decision == ("better" if truth.sum() > 0 else "worse"))
    return {
        **row,
        "planned": plan.deviation,
        "simulated": math.sqrt(n * float(np.mean(squares))),
        "simulated_sessions": n,
        "right": float(np.mean(right)),
        "expected": plan.power_after(n),
    }


def run_pair(
    fold: Fold, rankers: dict[str, FloatArray], pair: tuple[str, str], guess: str, settings: argparse.Namespace
) -> dict[str, Any]:
    """All policies for one pair and guess."""
    data, exam, threshold = fold.train, inverse_rank(_PAGE), settings.relevance_threshold
    a, b = (rankers[name] for name in pair)
    production = rankers["production"]
    known: dict[str, Any] = {"relevance_threshold": threshold}
    if guess == "model":
        log = simulate(
            data, production, UniformInsert(_PAGE), exam, sessions=_EARLIER, seed=1, relevance_threshold=threshold
        )
        known = {"relevance": fit_relevance(data, log)}
    spread = score_spread(production, data.offsets)
    warm = (f"plackett-luce:temperature={share * spread:.2g}" for share in _TEMPERATURES)
    known["policies"] = parse_policies(["uniform-insert", *warm], _PAGE, spread)
    plans = plan_comparison(data, a, b, exam, production=production, k=_PAGE, metric=METRIC, threads=1, **known)
    clicked = ClickGuess.check(data, None, None, threshold)
    attraction = clicked.attraction(np.zeros(data.n_docs), exam.curve(_PAGE), lambda: np.zeros((data.n_docs, _PAGE)))
    gap = np.subtract(*(document_values(each, data, [METRIC], "average", 1)[:, 0] for each in (a, b)))
    truth = np.add.reduceat(attraction * gap, data.offsets[:-1])
    rows = [measure(plan, (a, b), data, truth, settings) for plan in plans]
    recommended = plans.recommended
    return {
        "effect": float(truth.mean()),
        "expected_effect": plans[0].effect,
        "recommended": None if recommended is None else recommended.policy,
        "cheapest": None if plans.cheapest is None else plans.cheapest.policy,
        "policies": rows,
    }


def run(settings: argparse.Namespace) -> None:
    """Append a line for each fold, pair and guess that is not in the file."""
    out, name = Path(settings.out), Path(settings.data).name
    done = (
        {(row["data"], row["fold"], *row["pair"], row["guess"]) for row in read_lines(out)} if out.exists() else set()
    )
    for number in (int(word) for word in settings.folds.split(",")):
        keys = [(pair, guess) for pair in PAIRS for guess in GUESSES]
        keys = [key for key in keys if (name, number, *key[0], key[1]) not in done]
        if not keys:
            continue
        if settings.data == "synthetic:mslr":
            fold = make_fold("mslr", settings.queries, seed=number)
        else:
            fold = read_fold(Path(settings.data) / f"Fold{number}")
        rankers = rankers_of(fold, settings.relevance_threshold)
        for pair, guess in keys:
            found = run_pair(fold, rankers, pair, guess, settings)
            line = {"data": name, "fold": number, "pair": pair, "guess": guess, **found}
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def show(path: Path) -> None:
    """How often the recommended policy is the best in simulation, and planned against simulated power."""
    table = Table(title="Planned comparisons", title_justify="left")
    for column in ("data", "guess", "plans", "recommended", "best", "within 10 %", "deviation of recommended / best",
                   "simulated / planned deviation", "power planned", "simulated"):  # fmt: skip
        table.add_column(column)
    lines = read_lines(path)
    for data, guess in sorted({(row["data"], row["guess"]) for row in lines}):
        chosen = [row for row in lines if (row["data"], row["guess"]) == (data, guess) and row["recommended"]]
        names, ratios, errors, planned, right = [], [], [], [], []
        for row in chosen:
            rows = [each for each in row["policies"] if "simulated" in each]
            best = min(each["simulated"] for each in rows)
            (own,) = (each for each in rows if each["policy"] == row["recommended"])
            names.append(own["policy"].partition(":")[0])
            ratios.append(own["simulated"] / best)
            errors.append(own["simulated"] / own["planned"])
            planned.append(own["expected"])
            right.append(own["right"])
        kinds = ", ".join(f"{name} {names.count(name)}" for name in sorted(set(names)))
        table.add_row(
            Path(data).name, guess, str(len(chosen)), kinds,
            f"{np.mean(np.array(ratios) == 1.0):.0%}", f"{np.mean(np.array(ratios) <= 1.1):.0%}",
            f"{np.mean(ratios):.3f}, at most {np.max(ratios):.2f}",
            f"{np.mean(errors):.3f} ({np.min(errors):.2f} to {np.max(errors):.2f})",
            f"{np.mean(planned):.3f}", f"{np.mean(right):.3f}",
        )  # fmt: skip
    Console(width=200).print(table)


def main() -> None:
    """Run, or show a file of runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="synthetic:mslr")
    parser.add_argument("--folds", default="1")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--relevance-threshold", type=float, default=3.0)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--most", type=int, default=5_000)
    parser.add_argument("--out", default="runs/planned.jsonl")
    parser.add_argument("--table")
    settings = parser.parse_args()
    if settings.table:
        show(Path(settings.table))
    else:
        run(settings)


if __name__ == "__main__":
    main()
