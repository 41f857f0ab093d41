"""Propensities of every policy at the size of MSLR-WEB30K, and pages for a live service."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.timing import at_most, median_seconds, row
from counterrank import RankingData, examination, policies

CANDIDATES = 1000
LIMIT = 50e-6
DRAWN_LIMIT = 1e-3


def everything(k: int) -> dict[str, Any]:
    return {
        "deterministic": policies.Deterministic(k),
        "replace-last": policies.ReplaceLast(k),
        "epsilon-greedy": policies.EpsilonGreedy(k, 0.1),
        "uniform-insert": policies.UniformInsert(k),
        "mixture of two": policies.Mixture([policies.ReplaceLast(k), policies.UniformInsert(k)], [0.5, 0.5]),
        "plackett-luce": policies.PlackettLuce(k),
    }


def run(data: RankingData) -> list[dict[str, Any]]:
    scores = np.random.default_rng(0).normal(size=data.n_docs)
    exam = examination.inverse_rank(k=5)
    sort = median_seconds(lambda: policies.Deterministic(5).sample(scores, data.offsets, seed=0), repeats=3)
    rows = [row("one page for each query (sorts all scores)", sort)]
    for name, policy in everything(5).items():
        seconds = median_seconds(lambda policy=policy: policy.propensity(scores, data.offsets, exam), repeats=3)
        rows.append(at_most(f"propensities, {name} / one page for each query", seconds, sort, None))
    return rows + live()


def live() -> list[dict[str, Any]]:
    """Microseconds for a page of 10 out of 1,000 candidates."""
    scores = np.random.default_rng(0).normal(size=CANDIDATES)
    exam, generator = examination.inverse_rank(k=10), np.random.default_rng(1)
    listed = policies.Explicit([list(range(10)), list(range(10, 20))], [0.5, 0.5])
    rows = []
    for name, policy in {**everything(10), "explicit": listed}.items():
        is_drawn = name == "plackett-luce"
        repeats, limit = (200, DRAWN_LIMIT) if is_drawn else (2000, LIMIT)
        seconds = median_seconds(partial(policy.display, scores, exam, generator), repeats)
        target = f"< {limit * 1e6:.0f}"
        rows.append(row(f"display, {name}, microseconds", seconds, seconds * 1e6, target, seconds < limit))
    listed_curve = examination.Examination(np.linspace(1.0, 0.01, 100))
    policy = policies.ReplaceLast(10)
    seconds = median_seconds(lambda: policy.display(scores, listed_curve, generator), repeats=2000)
    rows.append(row("display, a curve of 100 values, microseconds", seconds, seconds * 1e6, "< 50", seconds < LIMIT))
    return rows
