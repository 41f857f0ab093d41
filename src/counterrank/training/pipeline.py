"""The training pipeline: from data and clicks to a fitted ranker."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.examination import Examination
from counterrank.common.checks import FloatArray, check_choice, check_type, check_whole, make_generator
from counterrank.common.errors import CounterrankError, brief
from counterrank.common.notebook import Shown, Summary
from counterrank.common.parallel import thread_count
from counterrank.data import RankingData
from counterrank.estimators import Views
from counterrank.estimators.evidence import Evidence
from counterrank.estimators.model_assisted import most_likely_strength, shrunken_weights
from counterrank.estimators.propensities import check_clip
from counterrank.estimators.registry import ESTIMATORS, Estimator, checked_hyperparameters, named_estimator
from counterrank.estimators.relevance import SATURATION, Relevance, check_missing_for, relevance_of
from counterrank.estimators.relevance_models import check_model
from counterrank.estimators.users_from_log import FoundUsers, describe_users, with_users_from_log
from counterrank.evaluation import higher_is_better
from counterrank.losses import SafeWeights
from counterrank.training.blending import (
    Blend,
    Guard,
    blend_rankers,
    blended,
    compare_blends,
    fit_halves,
    safety_in_words,
    score_spread,
)
from counterrank.training.clip_search import BestClip, ClipTrial, fit_best_clip
from counterrank.training.cross_validation import (
    INNER_FOLDS,
    Candidate,
    CrossFit,
    Pool,
    candidates,
    choose_one,
    cross_fit,
    evaluate_trials,
    examine,
    has_sessions,
    join,
    mean_ranker,
    standings,
)
from counterrank.training.population import Member, fit_each
from counterrank.training.problem import check_missing, kind_of
from counterrank.training.ranker import Ranker
from counterrank.training.storage import describe_inputs, join_clicks, provenance
from counterrank.training.training_cards import report_card, report_plot, report_summary, report_text

_USERS = {"examination", "propensities", "exposure", "trust"}  # needs that a user model meets
# the remedy for missing values where two models learn
_TREES = "a ranker with model='lambdamart', and model='lightgbm'"


@dataclass(frozen=True)
class Tried:
    """An estimator with its hyperparameters, and its result on held-out clicks.

    Attributes:
        estimator: by name.
        settings: its hyperparameters: tau, strength or clip, where it has one.
        value: the metric of held-out clicks; None if it could not be learned, or was dropped.
        behind: how far it is behind the best.
        error: the standard error of that.
        kept: whether the ranker is made of it.
        failure: why it could not be learned, or "".
        dropped_after: where it was clearly behind after the first folds and not trained on the others, how many; behind
            and error are then of these folds. None where it was trained on all.
    """

    estimator: str
    settings: dict[str, float]
    value: float | None = None
    behind: float = 0.0
    error: float = 0.0
    kept: bool = True
    failure: str = ""
    dropped_after: int | None = None

    @property
    def name(self) -> str:
        """The estimator and its hyperparameters.

        >>> Tried("doubly-robust", {"tau": 0.03}).name
        'doubly-robust (tau 0.03)'
        """
        inside = ", ".join(f"{name} {value:.3g}" for name, value in self.settings.items())
        return f"{self.estimator} ({inside})" if inside else self.estimator

    @property
    def status(self) -> str:
        """Why there is no value; "" where there is one.

        >>> Tried("direct", {}, dropped_after=1).status
        'dropped after 1 fold'
        """
        if self.failure:
            return "failed"
        n = self.dropped_after
        return "" if n is None else f"dropped after {n} fold{'s' * (n > 1)}"

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "estimator": self.estimator,
            **self.settings,
            "value": self.value,
            "behind": None if self.failure else self.behind,
            "standard_error": None if self.failure else self.error,
            "kept": self.kept,
            "failure": self.failure or None,
            "dropped_after": self.dropped_after,
        }


def reasons(tried: Sequence[Tried], queries: int, folds: int, metric: str, default: Tried | None = None) -> str:
    """Why these estimators were kept; with `default`, why only one was.

    >>> best, bad = Tried("direct", {}, 0.5), Tried("policy-aware", {}, 0.3, 0.2, 0.05, kept=False)
    >>> reasons([best, bad], 60, 5, "dcg@5")
    'Cross-validation with 5 folds over 60 queries: of 2 candidates, direct was best on held-out clicks (dcg@5 0.5). \
policy-aware was worse by 0.2 (standard error 0.05) and was left out.'
    """
    best = min(tried, key=lambda each: each.behind)
    where = f"Cross-validation with {folds} folds over {queries:,} queries"
    if len(tried) == 1:
        inside = "".join(f", {name} {value:.3g}" for name, value in best.settings.items())
        return f"{where}: {best.estimator} only{inside}; {metric} {best.value:.4g} on held-out clicks."
    text = [
        f"{where}: of {len(tried)} candidates, {best.name} was best on held-out clicks ({metric} {best.value:.4g})."
    ]
    text += [f"{each.name} failed: {each.failure}." for each in tried if each.failure]
    text += [
        f"{each.name} was worse by {each.behind:.2g} (standard error {each.error:.2g}) and was {each.status}."
        for each in tried
        if each.dropped_after is not None
    ]
    if default is not None:
        return " ".join([*text, _why_one(next(each for each in tried if each.kept), default)])
    close = [each.name for each in tried if each.kept and each is not best]
    if close:
        listed = " and ".join(filter(None, (", ".join(close[:-1]), close[-1])))
        text.append(f"{listed} were within two standard errors of it: the ranker is the average of all.")
    text += [
        f"{each.name} was worse by {each.behind:.2g} (standard error {each.error:.2g}) and was left out."
        for each in tried
        if not each.kept and not each.status
    ]
    return " ".join(text)


def _why_one(kept: Tried, default: Tried) -> str:
    one = f"A model of this kind is fitted again on all clicks with {kept.name}"
    if kept is default:
        return f"{one}, the default, since none is better by more than a standard error."
    if default.failure:
        return f"{one}."
    return f"{one}, which is better than the default, {default.name}, by more than a standard error."


@dataclass(frozen=True, eq=False, repr=False)
class FitReport(Shown):
    """A fitted ranker, and a report on how it was trained.

    Attributes:
        ranker: the fitted ranker.
        estimator: the estimator used; of several, the best one on held-out clicks.
        about: its hyperparameters (tau, strength or clip), and "kept", all estimators the ranker is an average of.
        why: the reasons for the choice, in words; "" where there was none.
        metric: what held-out clicks were evaluated by.
        trials: one for each estimator and hyperparameter that cross-validation tried, in order.
        relevance: the model of relevance, fitted on all clicks; None where the estimator uses none.
        clips: one for each clip that was tried, where several were.
        users: what was fitted to the log, see `estimators.learn_users`; None where how users click was known.
        new: the new ranker alone, which `ranker` need not be where `production` was given.
        weight: of the new ranker in `ranker`, from 0 (production) to 1.
        blends: one for each blend that was compared with production; () where none was given.
        safety: the confidence level of their bounds; None where production was not given.
        evidence: what the bounds rest on, "model-assisted" or "asymptotic"; "" where production was not given.
    """

    ranker: Ranker
    estimator: str
    about: dict[str, Any]
    why: str
    metric: str
    trials: tuple[Tried, ...] = ()
    relevance: Relevance | None = None
    clips: tuple[ClipTrial, ...] = ()
    users: FoundUsers | None = None
    new: Ranker | None = None
    weight: float = 1.0
    blends: tuple[Blend, ...] = ()
    safety: float | None = None
    evidence: str = ""

    def blended(self, production: Any, data: RankingData) -> FloatArray:
        """Scores of `ranker` for other data, where production was given by its scores; see `training.blended`.

        Arguments:
            production: production's scores of the documents of `data`, or a ranker.
            data: the documents.
        """
        return blended(self.ranker, production, data)

    def summary(self) -> Summary:
        """The choice and all trials, as a dict that prints as a table."""
        return report_summary(self)

    def plot(self) -> Any:
        """How far each candidate is behind the best, or the training curve: an altair chart."""
        return report_plot(self)

    def __repr__(self) -> str:
        return report_text(self)

    def _repr_html_(self) -> str:
        return report_card(self)


def fit_ranker(
    data: RankingData,
    evidence: Evidence | None,
    estimator: str | Estimator = "policy-aware",
    ranker: Ranker | None = None,
    *,
    validation: tuple[RankingData, Evidence | None] | None = None,
    clip: float | str | Sequence[float | None] | None = None,
    hyperparameters: Mapping[str, Any] | None = None,
    folds: int | None = None,
    model: Any = None,
    shared_learning_rate: bool = False,
    production: Any = None,
    safety: float = 0.95,
    evidence_level: str = "model-assisted",
    seed: int | np.random.Generator = 0,
) -> FitReport:
    """Train a ranker with a named estimator, from clicks or from labels.

    The estimator turns the evidence into document weights, the ranker learns from the weights, and early stopping uses
    the unclipped weights of the validation part. With `folds`, and for estimators that use a model of relevance,
    training is cross-validated as `fit_from_clicks` describes.

    Arguments:
        data: the queries to learn from.
        evidence: clicks and what is known about them; None to learn from labels ("full-information").
        estimator: a name in `estimators.ESTIMATORS`, or an `Estimator`.
        ranker: what to fit, an untrained `Ranker`; it is not changed. None for a linear one, whose cutoff k is the last
            rank that pages show.
        validation: other queries and the evidence on them.
        clip: a cap on the importance weight of each training click; None for no cap. "auto", or a list, to try several
            and keep the best by the unclipped validation metric, see `fit_best_clip`.
        hyperparameters: of the estimator, by name, see `Estimator.hyperparameters`; text is converted.
        folds: of cross-validation over queries, 2 or more; None to stop by `validation` alone.
        model: of relevance, see `estimators.fit_relevance`; None for "ridge" where the estimator uses one.
        shared_learning_rate: search the learning rate for the largest clip only, and use it for all clips.
        production, safety, evidence_level: as for `fit_from_clicks`; require `folds`.
        seed: draws the folds and, where no `ranker` says otherwise, fixes its randomness.

    >>> from counterrank import make_ranking_data, policies, simulation
    >>> data = make_ranking_data("mslr", n_queries=40, seed=0)
    >>> clicks = simulation.simulate(data, data.features[:, 0], policies.ReplaceLast(5), [1, 0.5, 0.3, 0.2, 0.2],
    ...                              sessions=4000, seed=0)
    >>> report = fit_ranker(data, Evidence(clicks), "policy-aware", Ranker(k=5, max_epochs=5), clip=10)
    >>> report.about, report.ranker.provenance_["estimator"]["propensities"]
    ({'clip': 10.0}, 'logged')
    """
    return fit_rankers(
        data,
        evidence,
        estimator,
        [ranker],
        validation=validation,
        clip=clip,
        hyperparameters=hyperparameters,
        folds=folds,
        model=model,
        shared_learning_rate=shared_learning_rate,
        production=production,
        safety=safety,
        evidence_level=evidence_level,
        seed=seed,
    )[0]


def fit_rankers(
    data: RankingData,
    evidence: Evidence | None,
    estimator: str | Estimator,
    rankers: Sequence[Ranker | None],
    *,
    validation: tuple[RankingData, Evidence | None] | None = None,
    clip: float | str | Sequence[float | None] | None = None,
    hyperparameters: Mapping[str, Any] | None = None,
    folds: int | None = None,
    model: Any = None,
    shared_learning_rate: bool = False,
    production: Any = None,
    safety: float = 0.95,
    evidence_level: str = "model-assisted",
    seed: int | np.random.Generator = 0,
) -> list[FitReport]:
    """Train several rankers with one estimator, such as one for each loss; each as `fit_ranker` does.

    Weights are computed once. Linear rankers are trained together, see `fit_many`, on the threads of the first.

    Arguments:
        rankers: untrained ones.
        data, evidence, estimator, validation, clip, hyperparameters, folds, model, seed: as for `fit_ranker`.
        shared_learning_rate, production, safety, evidence_level: as for `fit_ranker`.

    >>> from counterrank import make_ranking_data, policies, simulation
    >>> data = make_ranking_data("mslr", n_queries=40, seed=0)
    >>> clicks = simulation.simulate(data, data.features[:, 0], policies.ReplaceLast(5), [1, 0.5, 0.3, 0.2, 0.2],
    ...                              sessions=4000, seed=0)
    >>> rankers = [Ranker(loss, max_epochs=5) for loss in ("arp-hinge", "dcg-hinge")]
    >>> [report.ranker.loss_ for report in fit_rankers(data, Evidence(clicks), "policy-aware", rankers)]
    ['arp-hinge', 'dcg-hinge']
    """
    chosen = named_estimator(estimator)
    chosen.check_hyperparameters({"clip": clip})
    given = checked_hyperparameters(chosen, hyperparameters or {})
    guard = None
    if production is not None:
        guard = Guard.check(production, safety, evidence_level)
        if folds is None or (not chosen.candidates and chosen.assisted is None):
            raise CounterrankError(
                "production: requires cross-validation; expected folds, and an estimator such as 'auto', or None"
            )
    if "clip" in given and clip is not None:
        raise CounterrankError(f"clip={brief(clip)}: given among hyperparameters too; expected one of the two")
    clip = given.pop("clip", clip)
    evidence, validation = _with_users(data, evidence, chosen, validation)
    chosen.check(evidence)
    evidence = evidence and evidence.for_data(check_type(data, RankingData, "data"))
    if validation is not None and isinstance(validation[1], Evidence):
        validation = validation[0], validation[1].for_data(check_type(validation[0], RankingData, "validation"))
    with_limit = _with_limit(rankers)
    if with_limit and (chosen.weigh is None or folds is not None or "propensities" not in chosen.needs):
        raise CounterrankError(
            f"estimator={chosen.name!r}: a limit on exposure (risk=) goes with weights of clicks by propensities, "
            "without cross-validation; expected 'policy-aware'"
        )
    if chosen.weigh is None or folds is not None or model is not None:
        if evidence is None:
            raise CounterrankError(f"folds, model: estimator {chosen.name!r} takes no clicks; expected None")
        how = (validation, clip, given, folds, model or "ridge", seed, guard)
        return [_fit_assisted(data, evidence, chosen, ranker, *how) for ranker in rankers]
    learners = [_learner(ranker, evidence, seed) for ranker in rankers]
    for i, learner in enumerate(learners):
        with _numbered(i, len(learners)):
            learner._named_loss()
            learner._settings()
    weigh_part: Callable[..., Any] = partial(_safe_weights, chosen) if with_limit else chosen.weigh
    others: Any = None if validation is None else (validation[0], weigh_part(*validation, **given))
    clicks = [part.clicks for part in (evidence, validation and validation[1]) if part is not None]
    weigh = partial(weigh_part, data, evidence, **given)
    about = {**given, "clip": None} if "clip" in chosen.hyperparameters else dict(given)
    found: list[BestClip]
    if clip is None or isinstance(clip, int | float | np.number):
        cap = check_clip(clip)
        if clip is not None:
            about["clip"] = cap
            weigh = partial(weigh, clip=cap)
        fitted = _fit_all(learners, data, weigh(), others, clicks or None)
        found = [BestClip(learner, about.get("clip"), learner.metric_, ()) for learner in fitted]
    else:
        clips = _clips(clip, chosen, evidence, others is not None)
        how_to = {"validation": others, "shared_learning_rate": shared_learning_rate, "clicks": clicks}
        found = [fit_best_clip(learner, data, weigh, clips, **how_to) for learner in learners]
    return [_report(best, chosen, evidence, about) for best in found]


def _with_users(data: RankingData, evidence: Evidence | None, chosen: Estimator, validation: Any) -> tuple[Any, Any]:
    """Evidence and validation with users fitted to the log, where the estimator needs them and nothing tells them."""
    if evidence is None or not evidence.fits_users or not _USERS.intersection(chosen.needs):
        return evidence, validation
    other = validation[1] if validation is not None and isinstance(validation[1], Evidence) else None
    try:
        evidence, other = with_users_from_log(evidence, data, other)
    except CounterrankError as refusal:
        if isinstance(evidence.exam, str):
            raise
        try:
            chosen.check(evidence)
        except CounterrankError as lack:
            raise CounterrankError(f"{lack}; {refusal}") from None
        return evidence, validation
    return evidence, validation if other is None else (validation[0], other)


def _with_limit(rankers: Sequence[Ranker | None]) -> bool:
    """Whether any of the rankers learns with a limit on exposure."""
    found = False
    for i, each in enumerate(rankers):
        with _numbered(i, len(rankers)):
            found |= isinstance(each, Ranker) and each._named_loss().limit is not None
    return found


def _safe_weights(chosen: Estimator, data: RankingData, evidence: Evidence, **given: Any) -> SafeWeights:
    """The weights of an estimator, with what the evidence knows of the logging policy."""
    assert chosen.weigh is not None
    weights, rho = chosen.weigh(data, evidence, **given), evidence.propensities.by_document
    if np.isnan(rho).any():
        raise CounterrankError(
            f"propensities: unknown for {np.isnan(rho).sum():,} of {data.n_docs:,} documents, which the log did not "
            "show; a limit on exposure needs those of all: expected policy and scores"
        )
    scores = None if evidence.scores is None or isinstance(evidence.policy, dict) else evidence.scores
    return SafeWeights(weights, rho, evidence.clicks.sessions, evidence.curve, scores)


def _fit_all(
    learners: Sequence[Ranker], data: RankingData, weights: ArrayLike | Views, validation: Any, clicks: Any
) -> list[Ranker]:
    """All rankers fitted to the same weights; the first error is raised."""
    threads = learners[0].threads if learners else None
    found = fit_each(data, [Member(each, weights) for each in learners], validation, clicks, threads)
    for i, result in enumerate(found):
        if isinstance(result, CounterrankError):
            with _numbered(i, len(found)):
                raise result
    return [ranker for ranker in found if isinstance(ranker, Ranker)]


@contextmanager
def _numbered(i: int, n: int) -> Iterator[None]:
    """Errors of one of several rankers name it by its number from 0."""
    try:
        yield
    except CounterrankError as error:
        if n == 1:
            raise
        raise type(error)(f"ranker {i}: {error}") from None


def _report(best: BestClip, chosen: Estimator, evidence: Evidence | None, given: dict[str, Any]) -> FitReport:
    """The report on a ranker, whose provenance gets the estimator."""
    about = {**given, "clip": best.clip} if "clip" in given else dict(given)
    _describe(best.ranker, chosen, evidence, about, best.trials)
    return FitReport(best.ranker, chosen.name, about, "", best.metric, clips=best.trials, users=_fitted(evidence))


def _clips(clip: Any, chosen: Estimator, evidence: Any, is_validated: bool) -> Sequence[float | None]:
    """The clips to choose from."""
    if not is_validated:
        raise CounterrankError(
            f"clip={brief(clip)}: needs unclipped validation clicks to choose by; expected validation"
        )
    if not isinstance(clip, str):
        return list(clip)
    if clip != "auto" or not chosen.can_clip:
        wanted = "None, a number above 0 or 'auto'" if chosen.can_clip else f"None or a number with {chosen.name}"
        raise CounterrankError(f"clip={brief(clip)}: expected {wanted}")
    return chosen.clips(evidence)


def _describe(
    ranker: Ranker, chosen: Estimator, evidence: Evidence | None, about: dict[str, Any], trials: Sequence[ClipTrial]
) -> None:
    """Record the estimator in the provenance of the ranker."""
    if evidence is None:
        ranker.provenance_ |= {"clicks": None, "estimator": {"name": chosen.name, **about}}
        return
    ranker.provenance_ |= _about_users(evidence)
    source = evidence.propensity_source if "propensities" in chosen.needs else None
    ranker.provenance_["estimator"] = {"name": chosen.name, "propensities": source, **about}
    if trials:
        tried = ", ".join(f"{trial.clip or 'none'}: {trial.validation}" for trial in trials)
        ranker.provenance_["estimator"]["clips_tried"] = tried


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
    exam: ArrayLike | Examination | str | None = None,
    beta: ArrayLike | Examination | None = None,
    folds: int | None = 5,
    production: Any = None,
    safety: float = 0.95,
    evidence_level: str = "model-assisted",
    seed: int | np.random.Generator = 0,
) -> FitReport:
    """Train a ranker from clicks; by default cross-validation chooses the estimator.

    Cross-validation over queries: each estimator learns from all folds but one. The clicks of the held-out fold stop
    the training early and evaluate the result, with doubly robust weights of a cross-fitted model of relevance. A
    linear ranker is the average over folds and over all estimators that are not clearly (by two standard errors) worse
    than the best. Other models are fitted again on all clicks, with one estimator: shrinkage, unless another is better
    by a standard error.

    To save time, an estimator that is clearly worse after the first folds is dropped (see `Tried.dropped_after`). The
    learning rate of linear rankers is searched once, for the first of them; the others use learning rates around it,
    and a quarter of the patience.

    With `production` the report's ranker is the new one, a blend of both, or production itself, whichever a one-sided
    confidence bound of the difference to production allows (see `FitReport.blends`). For this, rankers are trained on
    each half of the queries and compared with production on clicks of the other half, which doubles the time or more.
    The bounds are advice about how rankers are trained here, not a test of the one that is returned.

    Arguments:
        data, ranker, model, seed: as for `fit_ranker`.
        clicks: what was shown and clicked, counted against `data`.
        rho: the propensity of each document, as `policy.propensity(scores, offsets, exam)` gives it; None for those
            logged with the clicks, or for how often the log shows each document, which needs `exam`.
        validation: other queries and their clicks, and their rho where `rho` is given. They are learned from as well,
            since each fold is held out in turn.
        estimator: "auto", or "policy-aware", "direct", "doubly-robust" or "shrinkage" to use that one alone.
        tau, strength, clip: hyperparameters of doubly-robust, shrinkage and policy-aware; None for the defaults, and
            for "auto" to try several.
        exam: how likely each rank is examined. With it impressions count, and not only propensities. None for the
            curve that simulated clicks remember where rho is None, else for none. Under trust bias a user model, see
            `examination.Affine`, rho then being the expectation of its alpha; or alpha by rank. "auto" to fit users to
            these clicks and those of `validation` together, see `estimators.learn_users`, which is also done where
            nothing says how users click; "features" if features have to link ranks.
        beta: under trust bias, the chance of a click on an irrelevant document by rank, with alpha as exam.
        folds: how many, 2 or more; None to learn from `data` alone and stop by `validation`, without a choice.
        production: the ranker in use, or its scores of the documents, with `validation` a pair of them. Of a ranker,
            the result predicts as any other; of scores, see `FitReport.blended`.
        safety: the confidence level of the bounds, above 0.5 and below 1.
        evidence_level: what they rest on. "model-assisted", clicks shrunk towards a relevance model of other queries
            than the ranker's: far more power with few clicks. "asymptotic", doubly robust without the model's bias.

    >>> from counterrank import make_ranking_data, policies, simulation
    >>> data = make_ranking_data("mslr", n_queries=40, seed=0)
    >>> clicks = simulation.simulate(data, data.features[:, 0], policies.ReplaceLast(5), [1, 0.5, 0.3, 0.2, 0.2],
    ...                              sessions=4000, seed=0)
    >>> report = fit_from_clicks(data, clicks, ranker=Ranker(k=5, max_epochs=5), folds=2)
    >>> report.ranker.predict(data).shape == (data.n_docs,), len(report.trials)
    (True, 7)
    >>> safe = fit_from_clicks(data, clicks, ranker=Ranker(k=5, max_epochs=5), folds=2, production=data.features[:, 0])
    >>> safe.weight in (0.0, 0.5, 0.75, 1.0), [blend.weight for blend in safe.blends]
    (True, [0.5, 0.75, 1.0])
    """
    known = tuple(name for name, each in ESTIMATORS.items() if each.assisted or each.candidates)
    check_choice(estimator, known, "estimator")
    others = None
    if validation is not None:
        if not isinstance(validation, tuple | list) or len(validation) not in (2, 3):
            raise CounterrankError("validation: expected (data, clicks) or (data, clicks, rho)")
        counts = check_counts(validation[1], "validation clicks")
        others = (validation[0], Evidence(counts, validation[2] if len(validation) > 2 else None, exam, beta=beta))
    return fit_ranker(
        data,
        Evidence(check_counts(clicks), rho, exam, beta=beta),
        estimator,
        ranker,
        validation=others,
        clip=clip,
        hyperparameters={"tau": tau, "strength": strength},
        folds=folds,
        model=model,
        production=production,
        safety=safety,
        evidence_level=evidence_level,
        seed=seed,
    )


def _fit_assisted(
    data: RankingData, evidence: Evidence, chosen: Estimator, ranker: Ranker | None, validation: Any, clip: Any,
    given: dict[str, Any], folds: int | None, model: Any, seed: Any, guard: Guard | None = None,
) -> FitReport:  # fmt: skip
    """`fit_ranker` by cross-validation, or with a model of relevance and stopped by the validation part."""
    wanted = candidates(chosen, given | {"clip": clip})
    regressor = check_model(model)
    entropy = int(make_generator(seed).integers(2**31))
    pools = [examine(data, evidence)]
    if validation is not None:
        if validation[1].clicks.identity == evidence.clicks.identity:
            raise CounterrankError("validation: the queries of data once more; expected others, or none")
        pools.append(examine(validation[0], validation[1], "validation clicks"))
    if not any(pool.seen.clicks.any() for pool in pools):
        raise CounterrankError(
            f"clicks: none among {evidence.clicks.n_sessions:,} sessions; expected some to learn from"
        )
    learner = _learner(ranker, evidence, entropy)
    for pool, name in zip(pools, ("data", "validation"), strict=False):  # with all ids, which folds do not have
        check_missing(kind_of(learner.model), pool.data, name, _TREES)
        check_missing_for(regressor, pool.data, name)
    current = None if guard is None else guard.scores(pools)  # a wrong one is an error before training
    if folds is None:
        report = _hold_out(learner, pools, wanted, chosen, regressor, entropy)
    else:
        report = _cross_validated(learner, join(pools), wanted, chosen.default, regressor, folds, entropy)
    fitted = report.ranker
    fitted._query_column = (
        None if data.columns is None else data.columns.get("query")
    )  # parts that were joined have none
    used = [evidence.clicks] if validation is None else [evidence.clicks, validation[1].clicks]
    fitted.provenance_ = provenance(fitted, describe_inputs(data, None if validation is None else validation[0], used))
    fitted.provenance_ |= _about_users(evidence)
    fitted.provenance_["estimator"] = {
        "name": chosen.name,
        "chosen": report.estimator,
        **report.about,
        "why": report.why,
        "tried": [each.plain() for each in report.trials],
    }
    report = replace(report, users=_fitted(evidence), new=fitted)
    if guard is None or current is None:
        return report
    joined = join(pools)

    def learn(pool: Pool) -> Ranker:
        return _cross_validated(
            _learner(learner, None, 0), pool, wanted, chosen.default, regressor, folds, entropy
        ).ranker

    rows = [
        scores[np.repeat(has_sessions(pool), pool.data.lengths)] for scores, pool in zip(current, pools, strict=True)
    ]
    return _guarded(report, guard, np.concatenate(rows), joined, learn, regressor, entropy)


def _guarded(
    report: FitReport, guard: Guard, current: FloatArray, pool: Pool, learn: Callable[[Pool], Ranker], regressor: Any,
    entropy: int,
) -> FitReport:  # fmt: skip
    """The report with production, a blend, or the new ranker, as the bounds allow."""
    new, failure, blends = report.ranker, "", []
    try:
        halves = fit_halves(pool, learn, make_generator(entropy))
        how = (report.metric, guard.safety, guard.evidence)
        blends = compare_blends(current, halves, pool, regressor, *how, seed=entropy)
    except CounterrankError as lack:
        failure = str(lack)
    weight = next((each.weight for each in blends if each.chosen), 0.0)
    spreads = score_spread(current, pool.data.offsets), score_spread(new.predict(pool.data), pool.data.offsets)
    ranker = blend_rankers(guard.ranker, new, weight, spreads, pool.data)
    note = safety_in_words(blends, report.metric, guard.safety, guard.evidence, failure)
    about = {"weight": weight, "safety": guard.safety, "evidence": guard.evidence, "why": note}
    about["blends"] = [asdict(each) for each in blends]
    earlier = {} if guard.ranker is None else guard.ranker.provenance_
    origin = earlier if earlier and weight == 0.0 else new.provenance_ | ({"production": earlier} if earlier else {})
    used = join_clicks([new.provenance_["clicks"], earlier.get("clicks")])
    if guard.ranker is None or weight > 0.0 or earlier:  # rankers of version 0.1 tell nothing, and go on to do so
        ranker.provenance_ = {**origin, "model": ranker.kind_, "clicks": used, "safety": about}
    return replace(
        report,
        ranker=ranker,
        why=f"{report.why} {note}",
        weight=weight,
        blends=tuple(blends),
        safety=guard.safety,
        evidence=guard.evidence,
    )


def _fitted(evidence: Evidence | None) -> FoundUsers | None:
    """The users that were fitted to the log."""
    return evidence.exam if evidence is not None and isinstance(evidence.exam, FoundUsers) else None


def _about_users(evidence: Evidence) -> dict[str, Any]:
    """The user model that weights were computed with, for the provenance; {} where propensities alone are known."""
    users = evidence.clicks.examination if evidence.exam is None else evidence.exam
    return {} if users is None else {"users": describe_users(users)}


def _cross_validated(
    learner: Ranker, pool: Pool, wanted: list[Candidate], default: tuple[str, float], regressor: Any, folds: Any,
    entropy: int,
) -> FitReport:  # fmt: skip
    n_folds = check_whole(folds, "folds", 2, also=", or None to stop by validation")
    usual = next((n for n, each in enumerate(wanted) if (each.estimator.name, each.multiple) == default), 0)
    found = cross_fit(learner, pool, wanted, regressor, n_folds, entropy, usual)
    relevance = _relevance(pool, regressor, entropy)
    likely = most_likely_strength(pool.seen, relevance.values)
    metric = next(trial for trial in found.trials if trial.is_open).rankers[0].metric_
    parts = evaluate_trials(found, pool.data, metric, thread_count(learner.threads))
    ranks = standings(parts, 1.0 if higher_is_better(metric) else -1.0)
    ranks = [trial.dropped or standing for trial, standing in zip(found.trials, ranks, strict=True)]
    is_mean = kind_of(learner.model).name == "linear"
    if is_mean:
        kept = sorted((i for i, standing in enumerate(ranks) if standing.kept), key=lambda i: i != usual)
        fitted = mean_ranker([found.trials[i].rankers for i in kept], pool.data)
    else:
        number = choose_one(parts, usual)
        ranks = [replace(standing, kept=i == number) for i, standing in enumerate(ranks)]
        fitted = _refitted(learner, pool, found, number, relevance, likely)
    # as the user set them, not as the folds did
    fitted.set_params(**learner.get_params())
    tried = [
        Tried(
            trial.candidate.estimator.name,
            trial.candidate.settings(likely),
            **asdict(standing),
            failure=str(trial.failure or ""),
        )
        for trial, standing in zip(found.trials, ranks, strict=True)
    ]
    best = min((each for each in tried if each.kept), key=lambda each: each.behind)
    about = {**best.settings, "kept": [each.name for each in tried if each.kept]}
    n_queries = pool.data.n_queries
    why = reasons(tried, n_queries, min(n_folds, n_queries), metric, None if is_mean else tried[usual])
    return FitReport(fitted, best.estimator, about, why, metric, tuple(tried), relevance)


def _learner(ranker: Ranker | None, evidence: Evidence | None, seed: Any) -> Ranker:
    """An untrained ranker with a seed that can be used again and again."""
    if ranker is None:
        k = None if evidence is None else int(evidence.clicks.ranks.max(initial=1))
        return Ranker(k=k, seed=seed)
    learner = Ranker(**check_type(ranker, Ranker, "ranker").get_params())
    if isinstance(learner.seed, np.random.Generator):
        learner.seed = int(make_generator(learner.seed).integers(2**63))
    return learner


def _relevance(pool: Pool, regressor: Any, entropy: int) -> Relevance:
    return relevance_of(pool.data, pool.seen, regressor, SATURATION, INNER_FOLDS, make_generator(entropy))


def _refitted(learner: Ranker, pool: Pool, found: CrossFit, chosen: int, relevance: Relevance, likely: float) -> Ranker:
    """The chosen candidate trained on all clicks, with the median epochs and learning rate of the folds."""
    trial = found.trials[chosen]
    last = copy.copy(learner)
    last.max_epochs = max(1, int(np.median([one.best_epoch_ for one in trial.rankers])))
    last.learning_rate = float(np.median([one.learning_rate_ for one in trial.rankers]))
    return last.fit(pool.data, trial.candidate.weigh(pool.seen, relevance.values, likely))


def _hold_out(
    learner: Ranker, pools: list[Pool], wanted: list[Candidate], chosen: Estimator, regressor: Any, entropy: int
) -> FitReport:
    """Train on the first part, stopped early by the second."""
    if chosen.candidates:
        raise CounterrankError(
            f"folds=None: nothing to choose by; expected a number of folds with estimator={chosen.name!r}"
        )
    if len(pools) < 2:
        raise CounterrankError("folds=None: nothing to stop by; expected validation, or a number of folds")
    mine, other = pools
    relevance = _relevance(mine, regressor, entropy)
    likely = most_likely_strength(mine.seen, relevance.values)
    candidate = wanted[0]
    if chosen.uses_relevance:
        weights = shrunken_weights(other.seen, relevance.predict(other.data), likely)
    else:  # as in the paper, with unclipped weights
        weights = Candidate(chosen).weigh(other.seen, np.zeros(0), likely)
    learner.fit(mine.data, candidate.weigh(mine.seen, relevance.values, likely), validation=(other.data, weights))
    settings = candidate.settings(likely)
    about = {**settings, "kept": [Tried(chosen.name, settings).name]}
    why = f"{chosen.name} only: learned from the training part, stopped early by the validation part."
    return FitReport(learner, chosen.name, about, why, learner.metric_, (), relevance)
