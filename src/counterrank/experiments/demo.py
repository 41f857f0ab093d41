"""The demo: how far a ranker learned from few labels is from one that knows them all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterrank.common.checks import FloatArray
from counterrank.data import Fold, RankingData, make_fold
from counterrank.estimators import full_information
from counterrank.evaluation import evaluate
from counterrank.training import Ranker
from counterrank.training.problem import usable_queries

METRICS = ("dcg@5", "ndcg@5", "precision@5", "arp")


@dataclass(frozen=True)
class DemoResult:
    """What the demo found.

    Attributes:
        fold: the data it was made on.
        production_queries: how many queries the production ranker learned from.
        metrics: for each ranker its metrics on the test part.
        full_information: the ranker trained on all labels.
    """

    fold: Fold
    production_queries: int
    metrics: dict[str, dict[str, float]]
    full_information: Ranker


def train_production(
    train: RankingData, share: float, relevance_threshold: float, seed: int, threads: int | None = None
) -> tuple[Ranker, int]:
    """The paper's production ranker: ARP with the hinge bound on a small share of the queries' labels.

    Queries are drawn among those that have a relevant document and another, since the rest teach nothing; at least
    three are taken.

    >>> data = make_fold("yahoo", 100).train
    >>> train_production(data, 0.05, relevance_threshold=3, seed=0)[1]
    3
    """
    weights = full_information(train, relevance_threshold)
    usable = usable_queries(weights, train.offsets)
    size = min(len(usable), max(3, round(share * train.n_queries)))
    few = train.subset(np.sort(np.random.default_rng(seed).choice(usable, size=size, replace=False)))
    ranker = Ranker(loss="arp-hinge", max_epochs=20, threads=threads, seed=seed)
    return ranker.fit(few, full_information(few, relevance_threshold)), size


def run_demo(shape: str = "mslr", n_queries: int = 3000, seed: int = 0, threads: int | None = None) -> DemoResult:
    """Train a production ranker on 1 % of the queries and one on all labels; judge both on the test part.

    >>> result = run_demo("yahoo", n_queries=200)
    >>> list(result.metrics)
    ['random order', 'production', 'full information', 'perfect']
    """
    fold = make_fold(shape, n_queries, seed, threads=threads)
    assert fold.validation is not None
    production, size = train_production(fold.train, 0.01, 3, seed, threads)
    best = Ranker(loss="lambdaloss-truncated", k=5, max_epochs=40, patience=10, threads=threads, seed=seed)
    best.fit(fold.train, full_information(fold.train), validation=(fold.validation, full_information(fold.validation)))
    labels = fold.test.labels
    assert labels is not None

    def judged(scores: FloatArray) -> dict[str, float]:
        return evaluate(scores, fold.test, metrics=METRICS, threads=threads)

    metrics = {
        "random order": judged(np.zeros(fold.test.n_docs)),
        "production": judged(production.predict(fold.test)),
        "full information": judged(best.predict(fold.test)),
        "perfect": judged(labels.astype(np.float64)),
    }
    return DemoResult(fold, size, metrics, best)
