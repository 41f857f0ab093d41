"""The paper's comparison: rankers learned from the same clicks with different estimators."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import inverse_rank
from counterrank.clicks.policies import ReplaceLast
from counterrank.clicks.simulation import simulate
from counterrank.common.checks import check_choice
from counterrank.common.errors import CoverageWarning, DataError
from counterrank.data import Fold, RankingData
from counterrank.estimators import ESTIMATORS, Evidence
from counterrank.evaluation import evaluate
from counterrank.experiments.production import train_production
from counterrank.training import Ranker, fit_ranker


@dataclass(frozen=True)
class Comparison:
    """What came of one comparison.

    Attributes:
        metrics: test metrics by ranker: "production", "full-information" and the names of the estimators.
        rankers: the rankers themselves.
        clicks: of the training part.
        validation_clicks: of the validation part.
        production_queries: how many queries the production ranker learned from.
    """

    metrics: dict[str, dict[str, float]]
    rankers: dict[str, Ranker]
    clicks: ClickCounts
    validation_clicks: ClickCounts
    production_queries: int

    def shares(self, metric: str = "dcg@5") -> dict[str, float | None]:
        """How much of the gap between production and full information each ranker closes: 0 none, 1 all of it.

        None where there is no gap.
        """
        low, high = (self.metrics[name][metric] for name in ("production", "full-information"))
        if low == high:
            return dict.fromkeys(self.metrics)
        return {name: (values[metric] - low) / (high - low) for name, values in self.metrics.items()}


def compare_estimators(
    fold: Fold,
    estimators: Sequence[str] = ("naive", "policy-oblivious", "policy-aware"),
    *,
    k: int = 5,
    clicks: int | None = None,
    sessions: int | None = None,
    relevance_threshold: float = 3,
    production_share: float = 0.01,
    loss: str = "lambdaloss-truncated",
    metrics: Sequence[str] = ("dcg@5", "arp"),
    seed: int = 0,
    production_seed: int | None = None,
    max_epochs: int = 100,
    threads: int | None = None,
    on_stage: Callable[[str], None] = lambda text: None,
) -> Comparison:
    """Log clicks of a production ranker's pages of k, learn from them with each estimator, and judge by test labels.

    Pages are shown under `ReplaceLast(k)` and examined as 1 / rank, until there are so many clicks or sessions (10^7
    sessions if neither is said); the validation part gets 15 % of them. The queries the production ranker learns from
    are drawn by `production_seed`, or by `seed` as all else. `on_stage` is told what comes next, in words.

    >>> from counterrank.data import make_fold
    >>> result = compare_estimators(make_fold("yahoo", 60), ["policy-aware"], sessions=1000, metrics=["dcg@5"])
    >>> list(result.metrics)
    ['production', 'policy-aware', 'full-information']
    """
    chosen = [check_choice(name, tuple(ESTIMATORS), "estimators") for name in estimators]
    train, held_out = fold.train, fold.validation
    if held_out is None:
        raise DataError("fold: has no validation part; expected one to stop early on")
    sessions = 10**7 if clicks is None and sessions is None else sessions
    amount = f"users have clicked {clicks:,} times" if clicks is not None else f"{sessions:,} users have seen one"
    on_stage(f"showing pages of {k} results until {amount}")
    drawn_by = seed if production_seed is None else production_seed
    production, size = train_production(train, production_share, relevance_threshold, drawn_by, threads)
    exam, displays = inverse_rank(k), "rerank" in chosen

    def log(part: RankingData, share: float, number: int) -> ClickCounts:
        scores, one_seed = production.predict(part), np.random.default_rng([seed, number])
        return simulate(
            part,
            scores,
            ReplaceLast(k),
            exam,
            clicks=None if clicks is None else max(1, round(share * clicks)),
            sessions=None if sessions is None else max(1, round(share * sessions)),
            seed=one_seed,
            relevance_threshold=relevance_threshold,
            displays=displays,
            threads=threads,
        )

    logged, held_out_logged = log(train, 1.0, 1), log(held_out, 0.15, 2)

    def learn(name: str, evidence: Evidence | None, other: Evidence | None, **more: Any) -> Ranker:
        on_stage(f"learning: {name}")
        ranker = Ranker(loss=loss, k=k, max_epochs=max_epochs, seed=seed, threads=threads)
        return fit_ranker(train, evidence, name, ranker, validation=(held_out, other), hyperparameters=more).ranker

    rankers = {"production": production}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)  # to show what comes of it is the point
        for name in chosen:
            rankers[name] = learn(name, Evidence(logged, exam=exam), Evidence(held_out_logged, exam=exam))
    rankers["full-information"] = learn("full-information", None, None, relevance_threshold=relevance_threshold)
    on_stage("judging by the labels of the test queries")
    found = {
        name: evaluate(ranker.predict(fold.test), fold.test, relevance_threshold, metrics=metrics, threads=threads)
        for name, ranker in rankers.items()
    }
    return Comparison(found, rankers, logged, held_out_logged, size)
