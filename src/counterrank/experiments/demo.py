"""The demo: what item selection bias does to learning from clicks, and how policy-awareness removes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from counterrank.data import Fold, make_fold
from counterrank.data.labels import relevant_documents
from counterrank.evaluation import evaluate
from counterrank.experiments.buried import Buried, find_buried
from counterrank.experiments.from_clicks import Comparison, compare_estimators

METRICS = ("dcg@5", "ndcg@5", "precision@5", "arp")
CLICKS = 10**7
K = 5
RELEVANT = 3  # the smallest label of a relevant document
ESTIMATORS = ("naive", "policy-oblivious", "policy-aware")
_EPOCHS = 50  # twice as many take twice the time, and move the two ends of the comparison by nothing that shows


@dataclass(frozen=True)
class DemoResult:
    """What the demo found.

    Attributes:
        fold: the data it was made on.
        metrics: for each ranker its metrics on the test part.
        comparison: the rankers and the clicks they learned from.
        buried: where relevant test documents end up that the production ranker put below rank 20.
    """

    fold: Fold
    metrics: dict[str, dict[str, float]]
    comparison: Comparison
    buried: Buried


def run_demo(
    shape: str = "mslr",
    n_queries: int = 3000,
    seed: int = 0,
    threads: int | None = None,
    clicks: int = CLICKS,
    on_stage: Callable[[str], None] = lambda text: None,
) -> DemoResult:
    """Train a production ranker on 1 % of the queries, log clicks on its pages of 5, and learn from them.

    `on_stage` is told what comes next, in words.

    >>> result = run_demo("yahoo", n_queries=200, clicks=10**5)
    >>> list(result.metrics)
    ['random order', 'production', 'naive', 'policy-oblivious', 'policy-aware', 'full-information']
    """
    on_stage(f"making {n_queries:,} queries of built-in data")
    fold = make_fold(shape, n_queries, seed, threads=threads)
    found = compare_estimators(
        fold,
        ESTIMATORS,
        k=K,
        clicks=clicks,
        relevance_threshold=RELEVANT,
        metrics=METRICS,
        seed=seed,
        max_epochs=_EPOCHS,
        threads=threads,
        on_stage=on_stage,
    )
    nothing = evaluate(np.zeros(fold.test.n_docs), fold.test, RELEVANT, metrics=METRICS, threads=threads)
    scores = {name: ranker.predict(fold.test) for name, ranker in found.rankers.items()}
    buried = find_buried(relevant_documents(fold.test, RELEVANT), fold.test.offsets, scores, "production")
    return DemoResult(fold, {"random order": nothing, **found.metrics}, found, buried)
