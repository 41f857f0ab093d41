"""Examination curves by context: the test, the intervals and shrinkage; and what one curve for all contexts costs.

    python -m benchmarks.contexts [--runs 200] [--only fit|estimates]

`fit`: false alarms and power of the test at 5 %, coverage of the 95 % intervals, and the error of log theta with and
without shrinkage. 60 queries of 10 documents under uniform-insert of 5, contexts with other query mixes.

`estimates`: how much better than production a ranker that knows the labels is, in DCG@5 estimated from clicks on two
devices with production rankers and query mixes of their own; relative error of the estimated difference.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np

import counterrank as cr
from counterrank import estimators, examination, policies, simulation
from counterrank.clicks.counts import ClickCounts
from counterrank.common.errors import CounterrankError
from counterrank.estimators import Evidence

BASE = np.array([1.0, 0.6, 0.4, 0.3, 0.25])
STEEP = 0.9 * BASE**1.5
FIVE = [BASE, STEEP, 0.8 * BASE**0.8, BASE**1.2, 0.95 * BASE]
# sessions of each context, their curves, and the number of queries
WORLDS: dict[str, tuple[list[int], list[Any], int]] = {
    "equal, 2 contexts": ([6000, 2000], [BASE] * 2, 60),
    "equal, 25 queries": ([3000, 1000], [BASE] * 2, 25),
    "equal, 5 contexts": ([6000, 3000, 1500, 700, 300], [BASE] * 5, 60),
    "other level": ([6000, 2000], [BASE, 0.7 * BASE], 60),
    "other shape": ([6000, 2000], [BASE, STEEP], 60),
    "5 other curves": ([6000, 3000, 1500, 700, 300], FIVE, 60),
}


def fit(name: str, runs: int) -> str:
    """A row of the table of one world."""
    sizes, curves, n_queries = WORLDS[name]
    truth, found = np.array(curves), []
    for run in range(runs):
        seed = 1000 * (list(WORLDS).index(name) + 1) + 7919 * run
        rng = np.random.default_rng(seed)
        n = 10 * n_queries
        data = cr.RankingData(np.zeros((n, 1)), np.arange(0, n + 1, 10), labels=rng.integers(0, 5, n))
        scores, policy = rng.random(n), policies.UniformInsert(k=5)
        log = ClickCounts.concat([
            simulation.simulate(data, scores, policy, curve, sessions=size, seed=seed + i, context=str(i),
                                query_frequencies=rng.random(n_queries), propensities=False, threads=1)
            for i, (size, curve) in enumerate(zip(sizes, curves, strict=True))
        ])  # fmt: skip
        try:
            found.append(examination.estimate(log))
        except CounterrankError:
            continue
    held = [(e.intervals[..., 0] <= truth) & (truth <= e.intervals[..., 1]) for e in found]
    shrunk, own = (
        np.sqrt(np.nanmean([np.log(getattr(e, each) / truth)[1:] ** 2 for e in found]))
        for each in ("values", "unshrunk")
    )
    alarms = np.mean([e.test.p_value < 0.05 for e in found]), np.mean([e.shape_test.p_value < 0.05 for e in found])
    coverage = np.mean([each.ravel()[1:] for each in held])
    return (
        f"| {name} | {len(found)} | {100 * alarms[0]:.1f} % | {100 * alarms[1]:.1f} % | {100 * coverage:.1f} % | "
        f"{own:.3f} | {shrunk:.3f} |"
    )


def estimates(runs: int) -> None:
    """Relative errors of the estimated difference in DCG@5, by what is known of the users."""
    errors: dict[str, list[float]] = {}
    curves = {"desktop": BASE, "phone": STEEP}
    for run in range(runs):
        data = cr.make_ranking_data("mslr", n_queries=100, seed=run)
        rng = np.random.default_rng(run)
        shown = {name: (policies.UniformInsert(k=5), data.features[:, i]) for i, name in enumerate(curves)}
        log = ClickCounts.concat([
            simulation.simulate(data, shown[name][1], shown[name][0], curve, sessions=400_000, seed=2 * run + i,
                                context=name, policy_name=name, query_frequencies=rng.random(100) ** 2,
                                propensities=False, threads=1)
            for i, (name, curve) in enumerate(curves.items())
        ])  # fmt: skip
        known = {
            "true curves by context": examination.ByContext(curves),
            "estimated by context": examination.estimate(log),
            "one estimated curve": examination.estimate(log, by_context=False),
            "the curve of desktops": examination.Examination(BASE),
        }
        gain = _discounts(data, data.labels + 0.0) - _discounts(data, data.features[:, 0])
        relevance = np.where(data.labels >= 3, 1.0, 0.1)
        times = np.repeat(log.sessions, np.diff(data.offsets))
        truth = float((times * relevance * gain).sum())
        for name, users in known.items():
            rho = Evidence(log, exam=users, policy=shown).propensities
            found = float((estimators.policy_aware(log, np.asarray(rho)) * gain).sum())
            errors.setdefault(name, []).append(found / truth - 1.0)
    print("| users taken for | error of the estimated difference |\n|---|---|")
    for name, each in errors.items():
        print(f"| {name} | {100 * np.mean(each):.1f} % ± {100 * np.std(each) / np.sqrt(len(each)):.1f} |")


def _discounts(data: Any, scores: np.ndarray) -> np.ndarray:
    """1 / log2(1 + rank) up to rank 5."""
    found = np.zeros(data.n_docs)
    for begin, end in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        order = np.argsort(-scores[begin:end], kind="stable")[:5]
        found[begin + order] = 1.0 / np.log2(np.arange(2.0, 2.0 + len(order)))
    return found


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--only", choices=["fit", "estimates"])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.only != "estimates":
        print("| world | runs | p < .05 | shapes, p < .05 | coverage | error, own clicks | error, shrunk |")
        print("|---|---|---|---|---|---|---|")
        for name in WORLDS:
            print(fit(name, given.runs), flush=True)
    if given.only != "fit":
        estimates(max(given.runs // 12, 2))


if __name__ == "__main__":
    main()
