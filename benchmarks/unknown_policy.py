"""What it costs to learn from clicks of a policy that is not known: test DCG@5 against that of true propensities.

    python -m benchmarks.unknown_policy --seeds 8 --figure docs/unknown-policy.svg

Synthetic MSLR data, 600 queries, of which 360 train. A production ranker (ARP hinge on 4 training queries) ranks pages
of 5, under replace-last or drawn by Plackett-Luce (temperature 1), examined as 1 / rank. Each query is asked 1 to 1000
times on average. Rankers are trained on policy-aware weights, with validation clicks of as many sessions per query,
truncated LambdaLoss with k = 5, no clip. They differ in their propensities only, of training and of validation clicks:

    true          of the policy
    frequencies   how often the log shows each document, propensity_from_log
    smoothed      the same with smoothing="auto"
    lower bound   the same with confidence=0.95
    fitted        of a fitted Plackett-Luce policy, fit_plackett_luce
    none          all alike: clicks are counted as they are

Gaps are paired: the same log, the same production ranker. Intervals are over seeds, which draw both.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from counterrank import Ranker, make_fold
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import inverse_rank
from counterrank.clicks.policies import PlackettLuce, ReplaceLast, fit_plackett_luce, propensity_from_log
from counterrank.clicks.simulation import simulate
from counterrank.common.errors import CoverageWarning
from counterrank.common.student import student_quantile
from counterrank.data import Fold, RankingData
from counterrank.estimators import full_information, naive, policy_aware
from counterrank.evaluation import evaluate
from counterrank.experiments.production import train_production

K, THRESHOLD = 5, 3
EXAM = inverse_rank(K)
POLICIES = {"replace-last": ReplaceLast(K), "plackett-luce": PlackettLuce(K)}
SESSIONS = (1, 3, 10, 30, 100, 1000)
METHODS = ("frequencies", "smoothed", "lower bound", "fitted", "none")


def weights_of(method: str, policy: Any, parts: list[tuple[RankingData, Any, ClickCounts]]) -> list[Any]:
    """The weights of the training and of the validation clicks."""
    if method == "none":
        return [naive(clicks) for _, _, clicks in parts]
    if method == "fitted":
        fit = fit_plackett_luce(parts[0][0], parts[0][2], K, threads=1)
        rhos = [fit.policy.propensity(fit.predict(part), part.offsets, EXAM) for part, _, _ in parts]
    elif method == "true":
        rhos = [policy.propensity(scores, part.offsets, EXAM) for part, scores, _ in parts]
    elif method == "lower bound":
        rhos = [propensity_from_log(clicks, EXAM, confidence=0.95).lower for _, _, clicks in parts]
    else:
        smoothing = "auto" if method == "smoothed" else 0.0
        rhos = [propensity_from_log(clicks, EXAM, smoothing=smoothing).propensities for _, _, clicks in parts]
    return [policy_aware(clicks, rho) for (_, _, clicks), rho in zip(parts, rhos, strict=True)]


def trained(fold: Fold, weights: Any, validation: Any, seed: int) -> float:
    """Test DCG@5 of a ranker."""
    ranker = Ranker(loss="lambdaloss-truncated", k=K, max_epochs=100, seed=seed, threads=1)
    ranker.fit(fold.train, weights, validation=(fold.validation, validation))
    return judged(fold, ranker)


def judged(fold: Fold, ranker: Ranker) -> float:
    found = evaluate(ranker.predict(fold.test), fold.test, THRESHOLD, metrics=["dcg@5"], threads=1)
    return float(found["dcg@5"])


def cells(fold: Fold, name: str, sessions: int, seed: int, production: Ranker) -> dict[str, float]:
    """Test DCG@5 by method, from one log."""
    parts = []
    for number, part in enumerate((fold.train, fold.validation)):
        assert part is not None
        scores = production.predict(part)
        clicks = simulate(
            part, scores, POLICIES[name], EXAM, sessions=sessions * part.n_queries, relevance_threshold=THRESHOLD,
            seed=np.random.default_rng([seed, sessions, number]), displays=True, propensities=False, threads=1,
        )  # fmt: skip
        parts.append((part, scores, clicks))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)  # what is not shown is the point
        both = {method: weights_of(method, POLICIES[name], parts) for method in ("true", *METHODS)}
    return {method: trained(fold, *weights, seed) for method, weights in both.items()}


def run(seeds: int, sessions: tuple[int, ...] = SESSIONS) -> dict[str, Any]:
    """All cells: test DCG@5 by policy, sessions and method, one number for each seed."""
    fold = make_fold("mslr", 600, seed=0)
    assert fold.validation is not None
    full = (full_information(fold.train, THRESHOLD), full_information(fold.validation, THRESHOLD))
    found: dict[str, Any] = {"production": [], "full-information": []}
    found |= {name: {each: {method: [] for method in ("true", *METHODS)} for each in sessions} for name in POLICIES}
    for seed in range(seeds):
        production = train_production(fold.train, 0.01, THRESHOLD, seed, threads=1)[0]
        found["production"].append(judged(fold, production))
        found["full-information"].append(trained(fold, *full, seed))
        for name in POLICIES:
            for each in sessions:
                row = cells(fold, name, each, seed, production)
                print(f"seed {seed} {name} {each}: {row}", file=sys.stderr, flush=True)
                for method, value in row.items():
                    found[name][each][method].append(value)
    return found


def gap(true: list[float], other: list[float]) -> tuple[float, float]:
    """Mean of the paired differences and half of their 95 % interval."""
    lost = np.array(true) - np.array(other)
    n = len(lost)
    half = student_quantile(0.95, n - 1) * float(lost.std(ddof=1)) / n**0.5 if n > 1 else float("nan")
    return float(lost.mean()), half


def show(found: dict[str, Any]) -> None:
    ends = " and ".join(f"{name} {np.mean(found[name]):.3f}" for name in ("production", "full-information"))
    print(f"test DCG@5 of {ends}, {len(found['production'])} seeds")
    for name in POLICIES:
        print(f"\n{name}: DCG@5 with true propensities, and what is lost with others (95 % interval +-)\n")
        print(f"| sessions a query | true | {' | '.join(METHODS)} |")
        print("|---" * (len(METHODS) + 2) + "|")
        for sessions, row in found[name].items():
            lost = ["{:+.3f} ± {:.3f}".format(*gap(row["true"], row[method])) for method in METHODS]
            print(f"| {sessions} | {np.mean(row['true']):.3f} | {' | '.join(lost)} |")


def figure(found: dict[str, Any], path: Path) -> None:
    """One panel for each policy: DCG@5 over sessions per query, as SVG."""
    from counterrank.report.figures import file_spec, panel_chart
    from counterrank.report.styles import assign_styles
    from counterrank.report.vega import to_svg

    names = ["true", *METHODS]
    styles = assign_styles([*names, "production", "full-information"])
    panels = []
    for name in POLICIES:
        series = [{"name": method, "points": _points(found[name], method)} for method in names]
        levels = [{"name": level, "mean": float(np.mean(found[level]))} for level in ("production", "full-information")]
        panels.append({"name": name, "label": f"Logged with {name}", "subtitle": "test DCG@5", "series": series,
                       "levels": levels})  # fmt: skip
    shape = {"x": {"label": "Sessions per query", "log": True}, "panels": panels}
    charts = [panel_chart(panel, shape, styles, {}, width=330) for panel in panels]
    path.write_text(to_svg(file_spec(charts, "Propensities of an unknown policy")), encoding="utf-8")


def _points(rows: dict[Any, Any], method: str) -> list[dict[str, Any]]:
    """Means with the interval of the difference to true propensities; none for these themselves."""
    points = []
    for sessions, row in rows.items():
        mean, half = float(np.mean(row[method])), gap(row["true"], row[method])[1]
        point = {"x": int(sessions), "mean": mean, "runs": len(row[method])}
        points.append(point if method == "true" else point | {"low": mean - half, "high": mean + half})
    return points


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.unknown_policy", description=__doc__)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--sessions", default=",".join(map(str, SESSIONS)), help="per query, comma-separated")
    parser.add_argument("--figure", type=Path, help="write the figure here, as SVG")
    parser.add_argument("--from", dest="source", type=Path, help="take the numbers from what --json printed")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.source:
        found = json.loads(options.source.read_text(encoding="utf-8"))
    else:
        found = run(options.seeds, tuple(int(each) for each in options.sessions.split(",")))
    if options.figure:
        figure(found, options.figure)
    if options.json:
        print(json.dumps(found))
    else:
        show(found)


if __name__ == "__main__":
    main()
