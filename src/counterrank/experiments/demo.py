"""The demo: what item selection bias does to learning from clicks, and how policy-awareness removes it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterrank.data import Fold, make_fold
from counterrank.evaluation import evaluate
from counterrank.experiments.from_clicks import Comparison, compare_estimators

METRICS = ("dcg@5", "ndcg@5", "precision@5", "arp")
SESSIONS = 10**7


@dataclass(frozen=True)
class DemoResult:
    """What the demo found.

    Attributes:
        fold: the data it was made on.
        metrics: for each ranker its metrics on the test part.
        comparison: the rankers and the clicks they learned from.
    """

    fold: Fold
    metrics: dict[str, dict[str, float]]
    comparison: Comparison


def run_demo(shape: str = "mslr", n_queries: int = 3000, seed: int = 0, threads: int | None = None) -> DemoResult:
    """Train a production ranker on 1 % of the queries, log clicks on its pages of 5, and learn from them.

    >>> result = run_demo("yahoo", n_queries=200)
    >>> list(result.metrics)
    ['random order', 'production', 'naive', 'policy-oblivious', 'policy-aware', 'full-information']
    """
    fold = make_fold(shape, n_queries, seed, threads=threads)
    found = compare_estimators(fold, sessions=SESSIONS, metrics=METRICS, seed=seed, threads=threads)
    nothing = evaluate(np.zeros(fold.test.n_docs), fold.test, metrics=METRICS, threads=threads)
    return DemoResult(fold, {"random order": nothing, **found.metrics}, found)
