"""The demo: what item selection bias does to learning from clicks, and how policy-awareness removes it.

`train_production` makes the ranker behind the pages, `compare_estimators` learns from simulated clicks on them, and
`find_buried` follows the relevant documents that the production ranker put far down. `warm_up` compiles ahead of time.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import inverse_rank
from counterrank.clicks.policies import ReplaceLast
from counterrank.clicks.simulation import simulate
from counterrank.clicks.simulation_kernels import simulate_queries
from counterrank.common.checks import FloatArray, IntArray, check_choice
from counterrank.common.errors import CoverageWarning, DataError
from counterrank.common.jit import exit_with_parent, needs_compiling, run_processes
from counterrank.data import Fold, RankingData, make_fold
from counterrank.data.ids import place_in_query, query_of_rows
from counterrank.data.labels import relevant_documents
from counterrank.data.synthetic_worlds import fill_mslr, fill_yahoo
from counterrank.estimators import ESTIMATORS, Evidence, full_information
from counterrank.evaluation import evaluate
from counterrank.evaluation.metric_kernels import label_queries
from counterrank.models import LinearModel
from counterrank.training import Ranker, fit_ranker
from counterrank.training.gradient_descent import sgd_epoch
from counterrank.training.problem import usable_queries

METRICS = ("dcg@5", "ndcg@5", "precision@5", "arp")
CLICKS = 10**7
K = 5
RELEVANT = 3  # the smallest label of a relevant document
DEMO_ESTIMATORS = ("naive", "policy-oblivious", "policy-aware")
_EPOCHS = 50  # twice as many take twice the time, and move the two ends of the comparison by nothing that shows


def train_production(
    train: RankingData,
    share: float,
    relevance_threshold: float,
    seed: int,
    threads: int | None = None,
    norm: float = 5.0,
) -> tuple[Ranker, int]:
    """The paper's production ranker: ARP with the hinge bound on a small share of the queries' labels.

    Queries are drawn among those that have a relevant document and another, since the rest teach nothing; at least
    three are taken. The coefficients are scaled to the given norm; that changes no ranking, but a Plackett-Luce policy
    is the more random the smaller scores are.

    >>> from counterrank.data import make_fold
    >>> data = make_fold("yahoo", 100).train
    >>> train_production(data, 0.05, relevance_threshold=3, seed=0)[1]
    3
    """
    weights = full_information(train, relevance_threshold)
    usable = usable_queries(weights, train.offsets)
    if not len(usable):
        raise DataError(
            f"relevance_threshold={relevance_threshold:g}: no training query has relevant documents and others; "
            "expected one from which a production ranker can learn"
        )
    size = min(len(usable), max(3, round(share * train.n_queries)))
    few = train.subset(np.sort(np.random.default_rng(seed).choice(usable, size=size, replace=False)))
    ranker = Ranker(loss="arp-hinge", max_epochs=20, threads=threads, seed=seed)
    ranker.fit(few, full_information(few, relevance_threshold))
    learned = cast(LinearModel, ranker.model_)
    length = np.linalg.norm(learned.coefficients)
    if length > 0.0:
        ranker.model_ = replace(learned, coefficients=learned.coefficients * (norm / length))
    return ranker, size


@dataclass(frozen=True)
class Comparison:
    """The results of one comparison.

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
    estimators: Sequence[str] = DEMO_ESTIMATORS,
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
    """Log clicks of a production ranker's pages of k, learn from them with each estimator, and evaluate by test labels.

    Pages are shown under `ReplaceLast(k)` and examined as 1 / rank, until there are so many clicks or sessions (10^7
    sessions if neither is given); the validation part gets 15 % of them. The queries the production ranker learns from
    are drawn by `production_seed`, or by `seed` as all else. `on_stage` is called with the name of the next stage.

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
        warnings.simplefilter("ignore", CoverageWarning)  # to show its bias is the point
        for name in chosen:
            rankers[name] = learn(name, Evidence(logged, exam=exam), Evidence(held_out_logged, exam=exam))
    rankers["full-information"] = learn("full-information", None, None, relevance_threshold=relevance_threshold)
    on_stage("evaluating by the labels of the test queries")
    found = {
        name: evaluate(ranker.predict(fold.test), fold.test, relevance_threshold, metrics=metrics, threads=threads)
        for name, ranker in rankers.items()
    }
    return Comparison(found, rankers, logged, held_out_logged, size)


@dataclass(frozen=True)
class Buried:
    """Relevant documents that a ranker put below rank `beyond`.

    Attributes:
        beyond: the last rank that is not buried.
        documents: how many there are.
        queries: how many queries have one.
        ranks: by ranker, how many of them it puts on rank 1, on rank 2, and so on.
    """

    beyond: int
    documents: int
    queries: int
    ranks: dict[str, list[int]]

    def shares(self, upto: int) -> dict[str, float | None]:
        """By ranker, which share of them it puts on the first `upto` ranks; None where nothing was buried.

        >>> Buried(20, 4, 3, {"naive": [1, 0, 2, 1]}).shares(upto=3)
        {'naive': 0.75}
        """
        total = self.documents
        return {name: sum(counts[:upto]) / total if total else None for name, counts in self.ranks.items()}


def find_buried(
    relevant: NDArray[np.bool_], offsets: IntArray, scores: Mapping[str, FloatArray], buried_by: str, beyond: int = 20
) -> Buried:
    """Follow the relevant documents that `buried_by` puts below rank `beyond` through the rankings of all.

    Of equal scores the document that comes first in the data ranks first.

    Arguments:
        relevant: which documents are.
        offsets: of the queries.
        scores: by ranker.
        buried_by: one of them.
        beyond: the last rank that is not buried.

    >>> scores = {"old": np.array([3.0, 2.0, 1.0]), "new": np.array([1.0, 2.0, 3.0])}
    >>> find_buried(np.array([False, False, True]), np.array([0, 3]), scores, "old", beyond=2).ranks
    {'old': [0, 0, 1], 'new': [1, 0, 0]}
    """
    queries = query_of_rows(offsets)
    ranks = {name: _ranks(values, queries, offsets) for name, values in scores.items()}
    chosen = np.flatnonzero(relevant & (ranks[buried_by] > beyond))
    longest = int(np.diff(offsets).max())
    counts = {name: np.bincount(values[chosen] - 1, minlength=longest).tolist() for name, values in ranks.items()}
    return Buried(beyond, len(chosen), len(np.unique(queries[chosen])), counts)


def _ranks(scores: FloatArray, queries: IntArray, offsets: IntArray) -> IntArray:
    """The rank of each document in its query, from 1."""
    ranks = np.empty(len(scores), np.int64)
    ranks[np.lexsort((-scores, queries))] = place_in_query(offsets) + 1
    return ranks


@dataclass(frozen=True)
class DemoResult:
    """The results of the demo.

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

    `on_stage` is called with a text that names the next stage.

    >>> result = run_demo("yahoo", n_queries=200, clicks=10**5)
    >>> list(result.metrics)
    ['random order', 'production', 'naive', 'policy-oblivious', 'policy-aware', 'full-information']
    """
    on_stage(f"making {n_queries:,} queries of built-in data")
    fold = make_fold(shape, n_queries, seed, threads=threads)
    found = compare_estimators(
        fold,
        DEMO_ESTIMATORS,
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


def warm_up(shape: str, on_start: Callable[[int], None], on_done: Callable[[], None]) -> None:
    """Compile what the demo needs, unless it has been before: two processes share the work.

    Each job calls on a problem of a few documents what the demo will call on its own, so that numba finds the code on
    disk. `python -m counterrank.experiments.demo mslr showing` does two of them.

    Arguments:
        shape: of the data, "mslr" or "yahoo".
        on_start: called with the number of jobs, if there are any.
        on_done: called after each job.

    >>> warm_up("yahoo", on_start=lambda jobs: None, on_done=lambda: None)
    """
    wanted = {
        "learning": sgd_epoch,
        shape: fill_mslr if shape == "mslr" else fill_yahoo,
        "showing": simulate_queries,
        "evaluating": label_queries,
    }
    missing = [job for job, compiled in wanted.items() if needs_compiling(compiled)]
    if missing:
        on_start(len(missing))
        # learning takes as long as all the others
        groups = [[job for job in missing if (job == "learning") == first] for first in (True, False)]
        run_processes("counterrank.experiments.demo", [group for group in groups if group], lambda line: on_done())


def _small() -> RankingData:
    rng = np.random.default_rng(0)
    return RankingData(rng.random((60, 8)), np.arange(0, 61, 10), labels=np.arange(60) % 10 // 2)


def _learning() -> None:
    data = _small()
    weights = full_information(data, 3)
    Ranker("arp-hinge", max_epochs=1, threads=1).fit(data, weights)  # as the production ranker
    ranker = Ranker("lambdaloss-truncated", k=5, max_epochs=1, threads=1)
    ranker.fit(data, weights, validation=(data, weights)).predict(data)


def _showing() -> None:
    data = _small()
    simulate(data, data.features[:, 0], ReplaceLast(5), inverse_rank(5), clicks=10**6, threads=1)


def _evaluating() -> None:
    data = _small()
    evaluate(data.features[:, 0], data, 3, metrics=("dcg@5", "ndcg@5", "precision@5", "arp"), threads=1)


JOBS: dict[str, Callable[[], object]] = {
    "learning": _learning,
    "mslr": partial(make_fold, "mslr", 20, threads=1),
    "yahoo": partial(make_fold, "yahoo", 20, threads=1),
    "showing": _showing,
    "evaluating": _evaluating,
}

if __name__ == "__main__":
    exit_with_parent()
    for name in sys.argv[1:]:
        JOBS[name]()
        print(name, flush=True)
