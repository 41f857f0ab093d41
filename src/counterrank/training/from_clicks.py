"""From clicks to a ranker in one call, which chooses how."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import Examination
from counterrank.common.checks import make_generator
from counterrank.common.errors import CounterrankError
from counterrank.common.parallel import thread_count
from counterrank.data import RankingData
from counterrank.estimators.model_assisted import most_likely, shrunk
from counterrank.estimators.relevance import SATURATION, Relevance, relevance_of
from counterrank.estimators.relevance_models import check_model
from counterrank.evaluation import higher_is_better
from counterrank.training.cross_fit import (
    INNER_FOLDS,
    Candidate,
    CrossFit,
    Pool,
    candidates,
    cross_fit,
    examine,
    join,
    judge,
    mean_ranker,
    one_of,
    standings,
)
from counterrank.training.kinds import kind_of
from counterrank.training.provenance import provenance
from counterrank.training.ranker import Ranker

# What was chosen and why, in words.


@dataclass(frozen=True)
class Tried:
    """An estimator with its settings, and how it did on held-out clicks.

    Attributes:
        estimator: by name.
        settings: tau, strength or clip, where it has one.
        value: the metric of held-out clicks; None if it could not be learned.
        behind: how far it is behind the best.
        error: the standard error of that.
        kept: whether the ranker is made of it.
        failure: why it could not be learned, or "".
    """

    estimator: str
    settings: dict[str, float]
    value: float | None = None
    behind: float = 0.0
    error: float = 0.0
    kept: bool = True
    failure: str = ""

    @property
    def name(self) -> str:
        """The estimator and its settings.

        >>> Tried("doubly-robust", {"tau": 0.03}).name
        'doubly-robust (tau 0.03)'
        """
        inside = ", ".join(f"{name} {value:.3g}" for name, value in self.settings.items())
        return f"{self.estimator} ({inside})" if inside else self.estimator

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "estimator": self.estimator,
            **self.settings,
            "value": self.value,
            "behind": None if self.value is None else self.behind,
            "standard_error": None if self.value is None else self.error,
            "kept": self.kept,
            "failure": self.failure or None,
        }


def reasons(tried: Sequence[Tried], queries: int, folds: int, metric: str, usual: Tried | None = None) -> str:
    """Why those that were kept were kept; with `usual`, where one is kept, and it is unless another is surely better.

    >>> best, bad = Tried("direct", {}, 0.5), Tried("policy-aware", {}, 0.3, 0.2, 0.05, kept=False)
    >>> reasons([best, bad], 60, 5, "dcg@5")
    'Of 2 ways to weigh the clicks of 60 queries, over 5 folds, direct was best on held-out clicks (dcg@5 0.5). \
policy-aware was behind by 0.2 with a standard error of 0.05, and was left out.'
    """
    best = min(tried, key=lambda each: each.behind)
    where = f"the clicks of {queries:,} queries, over {folds} folds"
    if len(tried) == 1:
        inside = "".join(f", here with {name} {value:.3g}" for name, value in best.settings.items())
        asked = f"{best.estimator} was asked for{inside}"
        return f"{asked}; learned from {where}, {metric} {best.value:.4g} on held-out clicks."
    said = [
        f"Of {len(tried)} ways to weigh {where}, {best.name} was best on held-out clicks ({metric} {best.value:.4g})."
    ]
    said += [f"{each.name} could not be learned: {each.failure}." for each in tried if each.failure]
    if usual is not None:
        return " ".join([*said, _why_one(next(each for each in tried if each.kept), usual)])
    close = [each.name for each in tried if each.kept and each is not best]
    if close:
        said.append(f"Two standard errors do not tell {_listed(close)} from it: the ranker is the mean of them all.")
    for each in tried:
        if not each.kept and not each.failure:
            error = f"with a standard error of {each.error:.2g}, and was left out"
            said.append(f"{each.name} was behind by {each.behind:.2g} {error}.")
    return " ".join(said)


def _why_one(kept: Tried, usual: Tried) -> str:
    one = f"This kind of model is learned again with one of them: {kept.name}"
    if kept is usual:
        return f"{one}, the usual choice, since none is ahead of it by more than a standard error."
    if usual.failure:
        return f"{one}."
    return f"{one}, which is ahead of the usual choice, {usual.name}, by more than a standard error."


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


@dataclass(frozen=True, eq=False)
class FromClicks:
    """A ranker learned from clicks, and how.

    Attributes:
        ranker: the trained ranker.
        estimator: the estimator used; of several, the one that did best on held-out clicks.
        about: its settings (tau, strength or clip), and "kept", all estimators the ranker is made of, in words.
        why: the reasons, in words.
        metric: what held-out clicks were looked at with.
        trials: one for each estimator and setting that was tried, in order.
        relevance: the model of relevance, fitted on all clicks.
    """

    ranker: Ranker
    estimator: str
    about: dict[str, Any]
    why: str
    metric: str
    trials: tuple[Tried, ...]
    relevance: Relevance


def fit_from_clicks(
    data: RankingData,
    clicks: ClickCounts,
    rho: ArrayLike | None = None,
    *,
    validation: tuple[Any, ...] | None = None,
    estimator: str = "auto",
    ranker: Ranker | None = None,
    model: Any = "ridge",
    tau: float | None = None,
    strength: float | None = None,
    clip: float | None = None,
    exam: ArrayLike | Examination | None = None,
    beta: ArrayLike | Examination | None = None,
    folds: int | None = 5,
    seed: int | np.random.Generator = 0,
) -> FromClicks:
    """Learn a ranker from clicks, few or many, with the estimator that they can bear.

    The queries are dealt into folds. Each estimator learns from all folds but one, and is stopped early and judged by
    the clicks of that one, with doubly robust weights of a model of relevance that has not seen them. A linear ranker
    is the mean of all estimators that are not clearly (by two standard errors) behind the best, over all folds. Other
    models are learned again from all clicks, with one estimator: shrinkage, unless another is better by a standard
    error.

    Arguments:
        data: the queries to learn from.
        clicks: what was shown and clicked, counted against `data`.
        rho: the propensity of each document, as `policy.propensity(scores, offsets, exam)` gives it; None for those
            logged with the clicks, or for how often the log shows each document, which needs `exam`.
        validation: other queries and their clicks, and their rho where `rho` is given. They are learned from as well,
            since each fold is held out in turn.
        estimator: "auto", or "policy-aware", "direct", "doubly-robust" or "shrinkage" to try that one alone.
        ranker: what to learn, an untrained `Ranker`; it is not changed. None for a linear one, whose cutoff k is the
            last rank that pages show.
        model: of relevance, see `estimators.fit_relevance`.
        tau, strength, clip: settings of doubly-robust, shrinkage and policy-aware; None for the usual, and for "auto"
            to try several.
        exam: how likely each rank is examined. With it, what was shown counts and not what might have been. None for
            the curve that simulated clicks remember where rho is None, else for none. Under trust bias alpha by rank,
            rho then being its expectation.
        beta: under trust bias, the chance of a click on an irrelevant document by rank.
        folds: how many, 2 or more; None to learn from `data` alone and stop by `validation`, without a choice.
        seed: deals the folds and, where no `ranker` says otherwise, fixes its randomness.

    Returns:
        The ranker, what was chosen and why, and how each estimator did.

    >>> from counterrank import make_ranking_data, policies, simulation
    >>> data = make_ranking_data("mslr", n_queries=40, seed=0)
    >>> clicks = simulation.simulate(data, data.features[:, 0], policies.ReplaceLast(5), [1, 0.5, 0.3, 0.2, 0.2],
    ...                              sessions=4000, seed=0)
    >>> found = fit_from_clicks(data, clicks, ranker=Ranker(k=5, max_epochs=5), folds=2)
    >>> found.ranker.predict(data).shape == (data.n_docs,), len(found.trials)
    (True, 7)
    """
    wanted = candidates(estimator, tau, strength, clip)
    regressor = check_model(model)
    entropy = int(make_generator(seed).integers(2**31))
    pools = [examine(data, clicks, rho, exam, beta)]
    if validation is not None:
        pools.append(_examine_validation(validation, clicks, exam, beta))
    if not any(pool.seen.clicks.any() for pool in pools):
        raise CounterrankError(f"clicks: none among {clicks.n_sessions:,} sessions; expected some to learn from")
    learner = _learner(ranker, clicks, entropy)
    used = [clicks] if validation is None else [clicks, validation[1]]
    if folds is None:
        held_out = _hold_out(learner, pools, wanted, estimator, regressor, entropy)
        return _with_provenance(held_out, data, validation, used, estimator)
    if isinstance(folds, bool) or not isinstance(folds, int | np.integer) or folds < 2:
        raise CounterrankError(f"folds={folds!r}: expected a whole number of at least 2, or None to stop by validation")
    pool = join(pools)
    found = cross_fit(learner, pool, wanted, regressor, int(folds), entropy)
    relevance = _relevance(pool, regressor, entropy)
    likely = most_likely(pool.seen, relevance.values)
    metric = next(trial for trial in found.trials if not trial.failure).rankers[0].metric_
    parts = judge(found, pool.data, metric, thread_count(learner.threads))
    ranks = standings(parts, 1.0 if higher_is_better(metric) else -1.0)
    is_mean = kind_of(learner.model).name == "linear"
    if is_mean:
        kept = [trial.rankers for trial, standing in zip(found.trials, ranks, strict=True) if standing.kept]
        fitted = mean_ranker(kept, pool.data)
    else:
        chosen = one_of(parts, _usual(wanted))
        ranks = [replace(standing, kept=number == chosen) for number, standing in enumerate(ranks)]
        fitted = _again(learner, pool, found, chosen, relevance, likely)
    tried = [
        Tried(
            trial.candidate.estimator,
            trial.candidate.settings(likely),
            standing.value,
            standing.behind,
            standing.error,
            standing.kept,
            str(trial.failure or ""),
        )
        for trial, standing in zip(found.trials, ranks, strict=True)
    ]
    best = min((each for each in tried if each.kept), key=lambda each: each.behind)
    about = {**best.settings, "kept": [each.name for each in tried if each.kept]}
    usual = None if is_mean else tried[_usual(wanted)]
    why = reasons(tried, pool.data.n_queries, min(int(folds), pool.data.n_queries), metric, usual)
    result = FromClicks(_as_asked(fitted, learner), best.estimator, about, why, metric, tuple(tried), relevance)
    return _with_provenance(result, data, validation, used, estimator)


def _with_provenance(
    result: FromClicks, data: RankingData, validation: Any, clicks: list[ClickCounts], estimator: str
) -> FromClicks:
    """The same with a ranker that says what it was learned from: the queries and clicks of all folds."""
    ranker = result.ranker
    ranker.provenance_ = provenance(ranker, data, None if validation is None else validation[0], clicks)
    ranker.provenance_["estimator"] = {
        "name": estimator,
        "chosen": result.estimator,
        **result.about,
        "why": result.why,
        "tried": [each.plain() for each in result.trials],
    }
    return result


def _examine_validation(validation: Any, clicks: ClickCounts, exam: Any, beta: Any) -> Pool:
    if not isinstance(validation, tuple | list) or len(validation) not in (2, 3):
        raise CounterrankError("validation: expected (data, clicks) or (data, clicks, rho)")
    other, counts, *propensities = validation
    if isinstance(counts, ClickCounts) and counts.identity == clicks.identity:
        raise CounterrankError("validation: the queries of data once more; expected others, or none")
    return examine(other, counts, propensities[0] if propensities else None, exam, beta, "validation clicks")


def _learner(ranker: Ranker | None, clicks: ClickCounts, entropy: int) -> Ranker:
    """An untrained ranker with a seed that can be used again and again."""
    if ranker is None:
        return Ranker(k=int(clicks.ranks.max(initial=1)), seed=entropy)
    if not isinstance(ranker, Ranker):
        raise CounterrankError(f"ranker: {type(ranker).__name__}; expected a Ranker")
    learner = Ranker(**ranker.get_params())
    if isinstance(learner.seed, np.random.Generator):
        learner.seed = int(make_generator(learner.seed).integers(2**63))
    return learner


def _relevance(pool: Pool, regressor: Any, entropy: int) -> Relevance:
    return relevance_of(pool.data, pool.seen, regressor, SATURATION, INNER_FOLDS, make_generator(entropy))


def _usual(wanted: list[Candidate]) -> int:
    """Which candidate to take where nothing speaks for another: shrinkage, three times as strong as is likely."""
    return next((n for n, each in enumerate(wanted) if each.estimator == "shrinkage" and each.multiple == 3.0), 0)


def _again(learner: Ranker, pool: Pool, found: CrossFit, chosen: int, relevance: Relevance, likely: float) -> Ranker:
    """Learn from all clicks, for as long and in such steps as were good over the folds."""
    trial = found.trials[chosen]
    last = copy.copy(learner)
    last.max_epochs = max(1, int(np.median([one.best_epoch_ for one in trial.rankers])))
    last.learning_rate = float(np.median([one.learning_rate_ for one in trial.rankers]))
    return last.fit(pool.data, trial.candidate.weigh(pool.seen, relevance.values, likely))


def _as_asked(fitted: Ranker, learner: Ranker) -> Ranker:
    """The ranker with the settings it was asked for, not those that came of the folds."""
    fitted.max_epochs, fitted.learning_rate = learner.max_epochs, learner.learning_rate
    return fitted


def _hold_out(
    learner: Ranker, pools: list[Pool], wanted: list[Candidate], estimator: str, regressor: Any, entropy: int
) -> FromClicks:
    """Learn from the first part, stopped by the second."""
    if estimator == "auto":
        raise CounterrankError("folds=None: nothing to choose by; expected a number of folds with estimator='auto'")
    if len(pools) < 2:
        raise CounterrankError("folds=None: nothing to stop by; expected validation, or a number of folds")
    mine, other = pools
    relevance = _relevance(mine, regressor, entropy)
    likely = most_likely(mine.seen, relevance.values)
    chosen = wanted[0]
    if estimator == "policy-aware":  # as in the paper, with weights that no clip touches
        judged = Candidate("policy-aware").weigh(other.seen, np.zeros(0), likely)
    else:
        judged = shrunk(other.seen, relevance.predict(other.data), likely)
    learner.fit(mine.data, chosen.weigh(mine.seen, relevance.values, likely), validation=(other.data, judged))
    about = {**chosen.settings(likely), "kept": [Tried(chosen.estimator, chosen.settings(likely)).name]}
    why = f"{estimator} was asked for; learned from the training part, stopped by the validation part."
    return FromClicks(learner, estimator, about, why, learner.metric_, (), relevance)
