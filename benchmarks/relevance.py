"""The relevance model in passes over the features, and the strength of shrinkage: against references, scikit-learn."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from tests.reference import relevance as naive_relevance

from benchmarks.timing import at_least, at_most, median_seconds, row, seconds_of
from counterrank import ClickCounts, estimators, examination, policies, simulation
from counterrank.data import RankingData

_PAGE = 5
_FEW, _FEWEST = 1_000, 5  # queries for scikit-learn, and for the references


def run(data: RankingData, repeats: int = 3) -> list[dict[str, Any]]:
    """Rows of median seconds; ratios to one pass over the matrix, and to peers on a part of the queries."""
    case = _Case(data)
    one_pass = median_seconds(lambda: float(data.features.sum()), repeats)
    fit = median_seconds(case.fit, repeats)
    strength = median_seconds(case.strength, repeats)
    rows = [
        row("one pass over the feature matrix (sum)", one_pass, 1.0),
        at_most("query-normalised features", median_seconds(data.normalized, repeats), one_pass, None),
        at_most("fit_relevance, ridge, 5 folds", fit, one_pass, None),
        row("  peak memory / matrix", None, _peak(case.fit) / data.features.nbytes),
        at_most("best_strength", strength, one_pass, None),
    ]
    fewest = _Case(data.subset(slice(0, min(_FEWEST, data.n_queries))))
    for name, ours, reference in (
        ("fit_relevance", fewest.fit, fewest.slow_fit),
        ("best_strength", fewest.strength, fewest.slow_strength),
    ):
        ours_seconds = median_seconds(ours, repeats)
        seconds = seconds_of(reference)
        rows.append(at_least(f"  {name} faster than the reference by ({_FEWEST} queries)", ours_seconds, seconds, None))
    return rows + _against_scikit_learn(_Case(data.subset(slice(0, min(_FEW, data.n_queries)))), repeats)


class _Case:
    """Ten sessions for each query: a relevance model, and the strength of shrinkage."""

    def __init__(self, data: RankingData) -> None:
        self.data = data
        scores = data.labels + 2.0 * np.random.default_rng(0).standard_normal(data.n_docs)
        policy, self.exam = policies.ReplaceLast(k=_PAGE), examination.inverse_rank(k=_PAGE)
        self.rho = policy.propensity(scores, data.offsets, self.exam)
        self.log: ClickCounts = simulation.simulate(
            data, scores, policy, self.exam, sessions=10 * data.n_queries, seed=0
        )
        self.times = np.repeat(self.log.sessions, data.lengths) * self.rho
        self.clicks = self.log.by_document(self.log.clicks)
        self.guess = np.random.default_rng(1).uniform(0.05, 0.5, data.n_docs)

    def fit(self) -> Any:
        return estimators.fit_relevance(self.data, self.log, self.rho)

    def strength(self) -> float:
        return estimators.best_strength(self.log, self.rho, self.guess)

    def slow_fit(self) -> Any:
        folds = (np.arange(self.data.n_queries) % 5).tolist()
        offsets = self.data.offsets.tolist()
        return naive_relevance.fit_relevance(self.data.features, offsets, self.clicks, self.times, folds, folds, 10.0)

    def slow_strength(self) -> float:
        """As many likelihoods as the search evaluates, about 38."""
        clicks, trials = self.clicks.tolist(), np.repeat(self.log.sessions, self.data.lengths).tolist()
        times, guess = self.times.tolist(), self.guess.tolist()
        grid = 10.0 ** np.linspace(-2.0, 6.0, 38)
        return max(naive_relevance.log_likelihood(at, clicks, trials, times, guess) for at in grid.tolist())


def _against_scikit_learn(case: _Case, repeats: int) -> list[dict[str, Any]]:
    """Against a single fit of Ridge, and one choice among 15 penalties by RidgeCV, which cross-fits nothing."""
    if find_spec("sklearn") is None:
        return []
    from sklearn.linear_model import Ridge, RidgeCV

    examined = case.times > 0.0
    x, times = case.data.normalized().features[examined].astype(np.float64), case.times[examined]
    y, weights = case.clicks[examined] / times, times / (1.0 + times / 10.0)
    ours = median_seconds(case.fit, repeats)
    peers: tuple[tuple[str, Any], ...] = (
        ("Ridge, a single fit", Ridge(alpha=100.0)),
        ("RidgeCV, 15 penalties, no folds", RidgeCV(alphas=np.geomspace(1e-1, 1e6, 15))),
    )
    rows = [row(f"fit_relevance, ridge, 5 folds, {case.data.n_queries:,} queries", ours)]
    for name, peer in peers:
        seconds = median_seconds(_fitting(peer, x, y, weights), repeats)
        rows.append(at_least(f"  faster than scikit-learn's {name}, by", ours, seconds, None))
    return rows


def _fitting(peer: Any, x: Any, y: Any, weights: Any) -> Callable[[], Any]:
    return lambda: peer.fit(x, y, sample_weight=weights)


def _peak(action: Callable[[], Any]) -> int:
    """The most memory allocated at a time, in bytes."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
