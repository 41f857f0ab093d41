"""The registry of the calls that `benchmarks.compare_versions` records, and the inputs that they share.

Each case is a function without arguments, or with one that takes each of several values in turn, as in
`@case("losses/{}", "arp_hinge", "arp_logistic")`. Cases run in order, in one new work folder, and may use files that
earlier ones wrote there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import counterrank as cr
from benchmarks.compare_results import NUMBER, exact, trained
from counterrank import estimators, examination, policies, simulation


class Case(NamedTuple):
    """A call, the tolerance class of its floating-point numbers, and whether it should raise."""

    name: str
    call: Callable[[], Any]
    tolerance: str
    raises: bool


CASES: list[Case] = []


def case(name: str, *given: Any, tolerance: str = "numeric", raises: bool = False) -> Callable[[Any], Any]:
    """Register a function; with `given` once for each, which is its argument and part of the name."""

    def register(function: Any) -> Any:
        for each in given:
            CASES.append(Case(name.format(each), partial(function, each), tolerance, raises))
        if not given:
            CASES.append(Case(name, function, tolerance, raises))
        return function

    return register


EXAM = examination.inverse_rank(k=5)
PAGES = {
    "deterministic": policies.Deterministic(5),
    "replace-last": policies.ReplaceLast(5),
    "epsilon-greedy": policies.EpsilonGreedy(5, 0.3),
    "uniform-insert": policies.UniformInsert(5),
    "plackett-luce": policies.PlackettLuce(5, 0.5),
    "mixture": policies.Mixture([policies.Deterministic(5), policies.PlackettLuce(3)], [0.7, 0.3]),
    "no-cutoff": policies.ReplaceLast(),
}
METRICS = ["arp", "dcg@5", "dcg", "precision@3"]


@cache
def fold() -> cr.Fold:
    return cr.make_fold("mslr", n_queries=50, seed=1)


@cache
def short() -> cr.RankingData:
    """Short queries, for what is costly."""
    return cr.make_ranking_data("yahoo", n_queries=30, seed=2)


def old_scores(data: cr.RankingData) -> Any:
    """Scores of the logging policy: a feature and a little of another, with ties."""
    return np.round(data.features[:, 0].astype(np.float64) + 0.1 * data.features[:, 1], 1)


def new_scores(data: cr.RankingData, seed: int = 5) -> Any:
    """Scores of a plausible ranker."""
    return data.labels + np.random.default_rng(seed).normal(size=data.n_docs)


@cache
def clicks_on(part: str = "train", policy: str = "replace-last", displays: bool = False) -> cr.ClickCounts:
    data = getattr(fold(), part)
    options = {"sessions": 4000, "seed": 3, "displays": displays}
    return simulation.simulate(data, old_scores(data), PAGES[policy], EXAM, **options)


@cache
def rho_of(part: str = "train", policy: str = "replace-last") -> Any:
    data = getattr(fold(), part)
    return PAGES[policy].propensity(old_scores(data), data.offsets, EXAM)


@cache
def two_policies() -> cr.ClickCounts:
    """A log of two policies by name."""
    return cr.ClickCounts.concat([named_log("old"), named_log("new")])


@cache
def named_log(name: str) -> cr.ClickCounts:
    policy = {"old": policies.Deterministic(5), "new": policies.UniformInsert(5)}[name]
    options = {"sessions": 2000, "seed": len(name) + ord(name[0]), "policy_name": name}
    return simulation.simulate(short(), old_scores(short()), policy, EXAM, **options)


@cache
def relevance() -> estimators.Relevance:
    return estimators.fit_relevance(fold().train, clicks_on(), rho_of(), seed=4)


def counts(clicks: cr.ClickCounts) -> dict[str, Any]:
    """All values of click counts."""
    names = ("identity", "offsets", "sessions", "docs", "ranks", "impressions", "clicks", "propensities", "policies")
    names += ("policy_names", "policy_sessions", "unexaminable", "unknown_impressions", "n_sessions", "n_clicks")
    found = {name: getattr(clicks, name) for name in names}
    shown = clicks.displays
    pages = ("offsets", "docs", "sessions", "clicks", "policies", "n_pages")
    found["displays"] = None if shown is None else {name: getattr(shown, name) for name in pages}
    return found | {"by_document": clicks.by_document(clicks.clicks), "by_rank": clicks.by_rank(clicks.clicks)}


def content(data: cr.RankingData) -> Any:
    """All values of ranking data."""
    names = ("features", "labels", "offsets", "query_ids", "doc_ids", "n_queries", "n_docs", "n_features")
    return exact({name: getattr(data, name) for name in names})


def order(scores: Any, data: cr.RankingData) -> Any:
    """The rows of each query by score."""
    queries = np.repeat(np.arange(data.n_queries), np.diff(data.offsets))
    return exact(np.lexsort((-np.asarray(scores), queries)))


def about_ranker(ranker: cr.Ranker, data: cr.RankingData) -> dict[str, Any]:
    """Attributes and predictions of a trained ranker."""
    scores = ranker.predict(data)
    found: dict[str, Any] = {
        "scores": trained(scores),
        "order": order(scores, data),
        "history": trained(ranker.history_),
        "best_epoch": ranker.best_epoch_,
        "learning_rate": trained(ranker.learning_rate_),
        "loss": ranker.loss_,
        "metric": ranker.metric_,
    }
    if ranker.kind_ in ("linear", "lambdamart"):
        found["importances"] = trained(ranker.feature_importances_)
    return found


def text_content(path: Path | str) -> dict[str, Any]:
    """A text file: its numbers, and all the rest."""
    text = Path(path).read_text(encoding="utf-8").replace(cr.__version__, "VERSION")
    return {"words": NUMBER.sub("#", text), "values": trained(np.array(NUMBER.findall(text), float))}
