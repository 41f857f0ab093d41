"""The demo: what item selection bias does to learning from clicks, and how policy-awareness removes it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import inverse_rank
from counterrank.clicks.policies import ReplaceLast
from counterrank.clicks.simulation import simulate
from counterrank.common.errors import CoverageWarning
from counterrank.data import Fold, RankingData, make_fold
from counterrank.estimators import full_information
from counterrank.estimators.named import weigher
from counterrank.evaluation import evaluate
from counterrank.experiments.buried import Buried, find_buried
from counterrank.experiments.from_clicks import Comparison
from counterrank.experiments.production import train_production
from counterrank.training import Ranker

METRICS = ("dcg@5", "ndcg@5", "precision@5", "arp")
CLICKS = 10**7
K = 5
RELEVANT = 3  # the smallest label of a relevant document
ESTIMATORS = ("naive", "policy-oblivious", "policy-aware")
_EPOCHS = 50  # rather than 100, which take twice the time and change the third digit


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
    on_stage(f"showing pages of {K} results until users have clicked {clicks:,} times")
    production, size = train_production(fold.train, 0.01, RELEVANT, seed, threads)
    parts = (fold.train, _validation(fold))
    logs = (
        _show(parts[0], production, clicks, np.random.default_rng([seed, 1]), threads),
        _show(parts[1], production, round(0.15 * clicks), np.random.default_rng([seed, 2]), threads),
    )
    rankers = {"production": production}
    for name in (*ESTIMATORS, "full-information"):
        on_stage(f"learning: {name}")
        ranker = Ranker("lambdaloss-truncated", k=K, max_epochs=_EPOCHS, threads=threads, seed=seed)
        weights, others = (_weigh(name, part, log) for part, log in zip(parts, logs, strict=True))
        rankers[name] = ranker.fit(fold.train, weights, validation=(parts[1], others))
    on_stage("judging by the labels of the test queries")
    scores = {name: ranker.predict(fold.test) for name, ranker in rankers.items()}
    metrics = {
        name: evaluate(values, fold.test, RELEVANT, metrics=METRICS, threads=threads)
        for name, values in {"random order": np.zeros(fold.test.n_docs), **scores}.items()
    }
    relevant = full_information(fold.test, RELEVANT) != 0.0
    buried = find_buried(relevant, fold.test.offsets, scores, "production")
    known = {name: metrics[name] for name in rankers}
    return DemoResult(fold, metrics, Comparison(known, rankers, *logs, size), buried)


def _show(
    part: RankingData, production: Ranker, clicks: int, seed: np.random.Generator, threads: int | None
) -> ClickCounts:
    return simulate(
        part,
        production.predict(part),
        ReplaceLast(K),
        inverse_rank(K),
        clicks=max(1, clicks),
        seed=seed,
        relevance_threshold=RELEVANT,
        threads=threads,
    )


def _weigh(name: str, part: RankingData, log: ClickCounts) -> Any:
    if name == "full-information":
        return full_information(part, RELEVANT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)  # to show what comes of it is the point
        return weigher(name, log, inverse_rank(K))()


def _validation(fold: Fold) -> RankingData:
    assert fold.validation is not None, "made with one"
    return fold.validation
