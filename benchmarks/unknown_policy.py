"""Learning from clicks of an unknown policy: test DCG@5 against that with true propensities.

    python -m benchmarks.unknown_policy --seeds 6 --figure docs/how-to/unknown-policy.svg

Synthetic MSLR data, 300 training, 100 validation and 400 test queries; labels of 2 and more are relevant. A production
ranker (ARP hinge on 3 training queries) ranks pages of 5, under replace-last or drawn by Plackett-Luce (temperature 1),
examined as 1 / rank. Each query, those of validation too, has 1 to 1000 sessions on average. Rankers are trained on
policy-aware weights (truncated LambdaLoss, k = 5, learning rate 5), without a clip and with the best of three clips
(clip_grid, fit_best_clip). They differ only in the propensities of training and validation clicks:

    true          of the policy
    frequencies   how often the log shows each document, propensity_from_log
    smoothed      the same with smoothing="auto"
    lower bound   the same with confidence=0.95
    fitted        of a fitted Plackett-Luce policy, fit_plackett_luce
    none          all equal: raw clicks

Differences are paired: the same log, the same production ranker. Confidence intervals are over seeds, which draw both.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from counterrank import Ranker, make_fold
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import inverse_rank
from counterrank.clicks.policies import PlackettLuce, ReplaceLast, fit_plackett_luce, propensity_from_log
from counterrank.clicks.simulation import simulate
from counterrank.common.errors import CoverageWarning
from counterrank.common.numerics import student_quantile
from counterrank.data import Fold, RankingData
from counterrank.estimators import clip_grid, full_information, policy_aware
from counterrank.evaluation import evaluate
from counterrank.experiments.demo import train_production
from counterrank.training import fit_best_clip

K, THRESHOLD = 5, 2
EXAM = inverse_rank(K)
POLICIES = {"replace-last": ReplaceLast(K), "plackett-luce": PlackettLuce(K)}
SESSIONS = (1, 3, 10, 30, 100, 1000)
METHODS = ("frequencies", "smoothed", "lower bound", "fitted", "none")
ALL = ("true", *METHODS)
CLIPS = ("no clip", "best clip")
FLOOR = 0.8  # not in the figure


class Part(NamedTuple):
    """Training or validation queries, the scores of the policy, and the clicks."""

    data: RankingData
    scores: Any
    clicks: ClickCounts


def propensities_of(method: str, policy: Any, parts: list[Part]) -> list[Any]:
    """The propensities of the training and of the validation documents."""
    if method == "none":
        return [np.ones(part.data.n_docs) for part in parts]
    if method == "true":
        return [policy.propensity(part.scores, part.data.offsets, EXAM) for part in parts]
    if method == "fitted":
        fit = fit_plackett_luce(parts[0].data, parts[0].clicks, K, threads=1)
        return [fit.policy.propensity(fit.predict(part.data), part.data.offsets, EXAM) for part in parts]
    if method == "lower bound":
        return [propensity_from_log(part.clicks, EXAM, confidence=0.95).lower for part in parts]
    smoothing = "auto" if method == "smoothed" else 0.0
    return [propensity_from_log(part.clicks, EXAM, smoothing=smoothing).propensities for part in parts]


def trained(parts: list[Part], rhos: list[Any], seed: int) -> tuple[Ranker, Ranker]:
    """A ranker without a clip, and one with the best clip."""
    train, held_out = parts
    ranker = Ranker(loss="lambdaloss-truncated", k=K, max_epochs=100, learning_rate=5.0, seed=seed, threads=1)
    weigh = partial(policy_aware, train.clicks, rhos[0])
    validation = (held_out.data, policy_aware(held_out.clicks, rhos[1]))
    clips = clip_grid(train.clicks, rhos[0], 3)
    best = fit_best_clip(ranker, train.data, weigh, clips, validation=validation).ranker
    return ranker.fit(train.data, weigh(), validation=validation), best


def test_dcg(test: RankingData, ranker: Ranker) -> float:
    found = evaluate(ranker.predict(test), test, THRESHOLD, metrics=["dcg@5"], threads=1)
    return float(found["dcg@5"])


def cells(fold: Fold, name: str, sessions: int, seed: int, production: Ranker) -> dict[str, tuple[float, ...]]:
    """Test DCG@5 by method without and with a clip, from one log."""
    parts = []
    for number, data in enumerate((fold.train, fold.validation)):
        assert data is not None
        scores = production.predict(data)
        clicks = simulate(
            data, scores, POLICIES[name], EXAM, sessions=sessions * data.n_queries, relevance_threshold=THRESHOLD,
            seed=np.random.default_rng([seed, sessions, number]), displays=True, propensities=False, threads=1,
        )  # fmt: skip
        parts.append(Part(data, scores, clicks))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)  # documents that are not shown are expected
        found = {method: trained(parts, propensities_of(method, POLICIES[name], parts), seed) for method in ALL}
    return {method: tuple(test_dcg(fold.test, ranker) for ranker in rankers) for method, rankers in found.items()}


def make_data() -> Fold:
    whole = make_fold("mslr", 2000, seed=0)
    assert whole.validation is not None
    return Fold(whole.train.subset(np.arange(300)), whole.validation.subset(np.arange(100)), whole.test)


def full_information_ranker(fold: Fold, seed: int) -> Ranker:
    assert fold.validation is not None
    ranker = Ranker(loss="lambdaloss-truncated", k=K, max_epochs=100, learning_rate=5.0, seed=seed, threads=1)
    validation = (fold.validation, full_information(fold.validation, THRESHOLD))
    return ranker.fit(fold.train, full_information(fold.train, THRESHOLD), validation=validation)


def run(seeds: range, sessions: tuple[int, ...] = SESSIONS) -> dict[str, Any]:
    """Test DCG@5 by policy, sessions and method, without a clip and with one, a list over seeds."""
    fold = make_data()
    found: dict[str, Any] = {"production": [], "full-information": []}
    for clip in CLIPS:
        for name in POLICIES:
            found[f"{name}, {clip}"] = {str(each): {method: [] for method in ALL} for each in sessions}
    for seed in seeds:
        production = train_production(fold.train, 0.01, THRESHOLD, seed, threads=1)[0]
        found["production"].append(test_dcg(fold.test, production))
        found["full-information"].append(test_dcg(fold.test, full_information_ranker(fold, seed)))
        for name in POLICIES:
            for each in sessions:
                row = cells(fold, name, each, seed, production)
                print(f"seed {seed} {name} {each}: {row}", file=sys.stderr, flush=True)
                for method, values in row.items():
                    for clip, value in zip(CLIPS, values, strict=True):
                        found[f"{name}, {clip}"][str(each)][method].append(value)
    return found


def gap(true: list[float], other: list[float]) -> tuple[float, float]:
    """Mean of the paired differences and half the width of their 95 % confidence interval."""
    lost = np.array(true) - np.array(other)
    n = len(lost)
    half = student_quantile(0.95, n - 1) * float(lost.std(ddof=1)) / n**0.5 if n > 1 else float("nan")
    return float(lost.mean()), half


def show(found: dict[str, Any]) -> None:
    ends = " and ".join(f"{name} {np.mean(found[name]):.3f}" for name in ("production", "full-information"))
    print(f"test DCG@5 of {ends}, {len(found['production'])} seeds")
    for name in (f"{policy}, {clip}" for clip in reversed(CLIPS) for policy in POLICIES):
        print(f"\n{name}: DCG@5 with true propensities, and the difference with others (95 % confidence interval +-)\n")
        print(f"| sessions per query | true | {' | '.join(METHODS)} |")
        print("|---" * (len(METHODS) + 2) + "|")
        for sessions, row in found[name].items():
            lost = ["{:+.3f} ± {:.3f}".format(*gap(row["true"], row[method])) for method in METHODS]
            print(f"| {sessions} | {np.mean(row['true']):.3f} | {' | '.join(lost)} |")


def figure(found: dict[str, Any], path: Path) -> None:
    """One panel for each policy: mean DCG@5 over sessions per query, as SVG. Intervals are in the tables."""
    from counterrank.experiments.summary import Axis, Figure, Level, Panel, Point, Series
    from counterrank.report.charts import file_spec, panel_chart
    from counterrank.report.render import assign_styles, to_svg

    styles = assign_styles([*ALL, "production", "full-information"])
    panels = []
    for name in POLICIES:
        means = {
            method: {int(each): float(np.mean(row[method])) for each, row in found[f"{name}, {CLIPS[1]}"].items()}
            for method in ALL
        }
        series = tuple(
            Series(method, tuple(Point(x, mean=mean) for x, mean in own.items() if mean >= FLOOR))
            for method, own in means.items()
        )
        levels = tuple(
            Level(name=level, mean=float(np.mean(found[level]))) for level in ("production", "full-information")
        )
        subtitle = f"test DCG@5, best clip{_left_out(means)}"
        panels.append(Panel(name, f"Logged with {name}", series=series, levels=levels, subtitle=subtitle))
    shape = Figure(0, x=Axis("sessions", "Sessions per query", log=True), panels=tuple(panels))
    charts = [panel_chart(shape, panel, styles, width=330) for panel in panels]
    spec = file_spec(charts, "Propensities of an unknown policy")
    # a panel without one of the lines has its own scales
    spec["resolve"] = {"scale": dict.fromkeys(("color", "shape", "strokeDash", "strokeWidth"), "independent")}
    path.write_text(to_svg(spec), encoding="utf-8")


def _left_out(means: dict[str, dict[int, float]]) -> str:
    """Lines so far below the others that they would compress the scale."""
    low = {method: [mean for mean in own.values() if mean < FLOOR] for method, own in means.items()}
    ends = {method: sorted({f"{min(own):.2f}", f"{max(own):.2f}"}) for method, own in low.items() if own}
    words = [f"{method} ({' to '.join(own)})" for method, own in ends.items()]
    return f"; below the chart: {', '.join(words)}" if words else ""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.unknown_policy", description=__doc__)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--sessions", default=",".join(map(str, SESSIONS)), help="per query, comma-separated")
    parser.add_argument("--figure", type=Path, help="write the figure here, as SVG")
    parser.add_argument("--from", dest="source", type=Path, help="read the numbers from a file of --json")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.source:
        found = json.loads(options.source.read_text(encoding="utf-8"))
    else:
        seeds = range(options.first_seed, options.first_seed + options.seeds)
        found = run(seeds, tuple(int(each) for each in options.sessions.split(",")))
    if options.figure:
        figure(found, options.figure)
    if options.json:
        print(json.dumps(found))
    else:
        show(found)


if __name__ == "__main__":
    main()
