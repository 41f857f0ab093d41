"""Users fitted to the log that a ranker learns from: which user model it supports, and what to use of it.

`fit_ranker`, `fit_from_clicks`, `evaluation.estimate` and the commands call `learn_users` where nobody says how users
click: no user model, no propensities, and no curve that simulated clicks remember.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from counterrank.clicks.counts import ClickCounts, check_counts, numbered_policies
from counterrank.clicks.examination import CurvesByContext, Examination, UserModel, lines_of
from counterrank.clicks.feature_linked import refit_linked
from counterrank.clicks.position_bias import EstimatedExamination, all_pairs, posterior_curve
from counterrank.clicks.rank_table import interventional_set
from counterrank.clicks.user_estimation import estimate
from counterrank.clicks.user_models import Affine, SavedUsers, log_key
from counterrank.common.checks import FloatArray, check_choice
from counterrank.common.errors import CounterrankError, ExaminationWarning
from counterrank.common.files import PathLike
from counterrank.data import RankingData
from counterrank.estimators.evidence import Evidence

AUTO, FEATURES = "auto", "features"
BY_CONTEXT = "by-context"
_SURE = 0.01  # a position-based model is given up where its p-value is below this


@dataclass(frozen=True, eq=False)
class FoundUsers(UserModel):
    """What `learn_users` found; accepted wherever an examination curve is.

    Attributes:
        users: the user model to use: the position-based fit, or alpha and beta.
        kind: "affine", "position-based", or "by-context", a position-based model for each context of the log.
        sentence: what was found, and why this model is used.
        weight: of the affine fit in alpha and beta, from 0 to 1; the rest is the position-based fit.
        p_value: of the test of the position-based model against the affine one; None where there was none.
        fits: the fitted models by kind.
        refusals: why a model could not be fitted, by kind.
        warnings: what speaks against the fits, a sentence each.
        method: what linked the ranks, "auto" or "features".
        logs: keys of the clicks that they were fitted to, one for each part; empty where that is not known.
    """

    users: UserModel
    kind: str
    sentence: str
    weight: float
    p_value: float | None
    fits: dict[str, Any]
    refusals: dict[str, str]
    warnings: tuple[str, ...] = ()
    method: str = AUTO
    logs: tuple[str, ...] = ()

    @property
    def k(self) -> int | None:
        """The last rank."""
        return self.examination.k

    @property
    def examination(self) -> Examination:
        """alpha by rank, or the curve."""
        return self.users.examination

    @property
    def base(self) -> Examination | None:
        """beta by rank; None of a position-based model."""
        return self.users.base

    def save(self, path: PathLike) -> None:
        """Write the user model to a JSON file, which `examination.load` and `--users FILE` read."""
        model: Any = self.users
        model.save(path)

    def fitted_to(self, clicks: ClickCounts) -> bool:
        """Whether they were fitted to these clicks, alone or with others; also where that is not known."""
        return not self.logs or log_key(clicks) in self.logs

    def describe(self) -> dict[str, Any]:
        """Plain numbers for JSON."""
        return {
            **describe_users(self.users),
            "weight_of_affine": self.weight,
            "p_value": self.p_value,
            "sentence": self.sentence,
            "refusals": dict(self.refusals),
            "warnings": list(self.warnings),
        }


def learn_users(
    clicks: ClickCounts | Sequence[ClickCounts],
    *,
    method: str = AUTO,
    data: RankingData | None = None,
    k: int | None = None,
    prior: bool = False,
) -> FoundUsers:
    """Fit how users click to a log: trust bias where the log shows it, else position bias alone.

    Both models are fitted to documents that were shown at several ranks. The position-based one is used unless the test
    of it against the affine one is sure (p below 0.01): with few sessions alpha and beta are noisier than what they
    correct. Else the lines of the two fits are averaged, each as P(click | relevance, rank) over P(click) at rank 1,

        a_k = w a_k(affine),   b_k = w b_k(affine) + (1 - w) theta_k,        P(click | t, rank k) = a_k + b_k t
        w = 1 - degrees of freedom / statistic of the test

    which is James and Stein's shrinkage: w goes to 1 as sessions grow.

    Of a log that was read with contexts, the position-based models of all contexts are fitted together, see
    `examination.estimate`; trust bias is then fitted for "features" alone, one model for all contexts.

    Arguments:
        clicks: of any log; several counts are of different queries, such as a training and a validation part.
        method: "auto", or "features": trust bias from documents with like features at different ranks, for policies
            that do not move documents. It assumes that features tell relevance equally well at every rank.
        data: for "features", what the clicks were counted against, a single part.
        k: the last rank; None for the last one of the log.
        prior: draw a position-based curve of few clicks to 1 / rank, see `position_bias.posterior_curve`. Rankers learn
            more from less noise; `fit_ranker` and `fit_from_clicks` set it. Estimates do not, since it is a bias.

    Returns:
        the user model, and what was found in words. An error where the log identifies no model.

    >>> import counterrank as cr
    >>> from counterrank import examination, policies, simulation
    >>> data = cr.RankingData(np.zeros((600, 1)), np.arange(0, 601, 20), labels=np.arange(600) % 5)
    >>> policy, exam = policies.ReplaceLast(k=3), examination.inverse_rank(k=3)
    >>> log = simulation.simulate(data, np.arange(600.0), policy, exam, sessions=2000, seed=0)
    >>> learn_users(log)
    Traceback (most recent call last):
    ...
    counterrank.common.errors.CounterrankError: users: cannot be fitted to this log (...
    """
    check_choice(method, (AUTO, FEATURES), "users")
    parts = [clicks] if isinstance(clicks, ClickCounts) else list(clicks)
    counts = check_counts(parts[0]) if len(parts) == 1 else stacked(parts)
    if method == FEATURES and data is None:
        raise CounterrankError("users='features': requires data, whose features link ranks")
    link = {"method": "features", "data": data} if method == FEATURES else {}
    fits: dict[str, Any] = {}
    refusals: dict[str, str] = {}
    found: list[str] = []
    attempts: dict[str, Callable[[], Any]] = {
        "position-based": lambda: estimate(counts, k=k, by_context=False),
        "affine": lambda: _affine(counts, k=k, **link),
    }
    if counts.contexts and method != FEATURES:
        attempts = {BY_CONTEXT: lambda: estimate(counts, k=k)}
    for kind, fit in attempts.items():
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", ExaminationWarning)
                fits[kind] = fit()
            found += [str(each.message).removeprefix("examination.estimate: ") for each in caught]
        except CounterrankError as refusal:
            refusals[kind] = str(refusal)
    if prior and "position-based" in fits:
        fits["position-based"] = _with_prior(counts, fits["position-based"])
    if not fits or (method == FEATURES and "affine" not in fits):
        reason = refusals["affine" if method == FEATURES else next(iter(attempts))]
        raise CounterrankError(
            f"users: cannot be fitted to this log ({reason}); or give a curve or user model from elsewhere"
        )
    if BY_CONTEXT in fits:
        users = fits[BY_CONTEXT]
        sentence = _said(BY_CONTEXT, users, "trust bias is not fitted by context")
        chosen = FoundUsers(users, BY_CONTEXT, sentence, 0.0, None, fits, refusals, tuple(found))
    else:
        chosen = _chosen(fits, refusals, tuple(found), method)
    return replace(chosen, method=method, logs=tuple(map(log_key, parts)))


def refit(found: FoundUsers, clicks: ClickCounts, data: RankingData | None = None) -> FoundUsers:
    """The same model, with the same weight of the affine fit, fitted to other clicks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExaminationWarning)
        affine = _affine_again(found, clicks, data) if found.weight > 0.0 else None
        by_context = found.kind == BY_CONTEXT
        curve = estimate(clicks, k=found.k, by_context=by_context) if found.weight < 1.0 else None
    users: Any = affine if curve is None else curve
    if affine is not None and curve is not None:
        users = between(np.asarray(curve.values), affine, found.weight)
    return replace(found, users=users, fits={})


def _affine_again(found: FoundUsers, clicks: ClickCounts, data: RankingData | None) -> Any:
    """The affine fit to other clicks; one that features link starts from where the first one ended."""
    if found.method != FEATURES or data is None:
        return _affine(clicks, k=found.k)
    again = refit_linked(found.fits.get("affine"), clicks, data)
    return _affine(clicks, k=found.k, method="features", data=data) if again is None else again


def with_users_from_log(
    evidence: Evidence, data: RankingData, others: Evidence | None = None
) -> tuple[Evidence, Evidence | None]:
    """Evidence, and that on a validation part, with users fitted once to the clicks of both.

    As they are where how users click is known; an error where it is not, and the log identifies no model.
    """
    if not evidence.fits_users:
        return evidence, others
    asked = isinstance(evidence.exam, str)
    method = str(evidence.exam) if asked else AUTO
    if asked and evidence.rho is not None:
        raise CounterrankError(
            f"rho: given with exam={method!r}, and holds another user model; expected None, or policy and scores"
        )
    # what the validation part logged is of another model than the users that were asked for
    both = others is not None and (others.fits_users or (asked and others.exam is None and others.rho is None))
    if method == FEATURES:
        found = learn_users(evidence.clicks, method=FEATURES, data=data, prior=True)
    else:
        found = learn_users(
            [evidence.clicks, others.clicks] if others is not None and both else evidence.clicks,
            method=method,
            prior=True,
        )
    if others is not None and both:
        others = replace(others, exam=found)
    return replace(evidence, exam=found), others


def _with_prior(counts: ClickCounts, curve: EstimatedExamination) -> EstimatedExamination:
    """The curve drawn to 1 / rank."""
    fit = all_pairs(interventional_set(counts, len(curve.values)))
    return replace(curve, values=posterior_curve(fit, curve.target))


def _affine(counts: ClickCounts, **options: Any) -> Any:
    return estimate(counts, model="affine", **options)


def _chosen(fits: dict[str, Any], refusals: dict[str, str], found: tuple[str, ...], method: str) -> FoundUsers:
    """The model to use of those that could be fitted."""
    curve: Any = fits.get("position-based")
    affine: Any = fits.get("affine")
    test = None if affine is None else affine.test
    p_value = None if test is None else float(test.p_value)
    if affine is None:
        about = f"trust bias cannot be told from this log: {refusals['affine']}"
        return FoundUsers(
            curve, "position-based", _said("position-based", curve, about), 0.0, None, fits, refusals, found
        )
    weight = trust_weight(test)
    if curve is None or method == FEATURES or test is None:
        about = "documents with like features link ranks" if method == FEATURES else f"{refusals['position-based']}"
        return FoundUsers(affine, "affine", _said("affine", affine, about), 1.0, p_value, fits, refusals, found)
    if weight == 0.0:
        about = f"no significant evidence of trust bias, p = {p_value:.2g}"
        sentence = _said("position-based", curve, about)
        return FoundUsers(curve, "position-based", sentence, 0.0, p_value, fits, refusals, found)
    users = between(np.asarray(curve.values), affine, weight)
    about = (
        f"no examination curve fits, p = {p_value:.2g}, as with trust bias; the affine fit has {weight:.0%} of the "
        "weight, the position-based one the rest; inspect tells trust bias from dependent clicks"
    )
    return FoundUsers(users, "affine", _said("affine", users, about), weight, p_value, fits, refusals, found)


def trust_weight(test: Any) -> float:
    """How much the affine fit counts, by the test of the position-based model: 0 where it is not sure.

    >>> from types import SimpleNamespace as Test
    >>> [trust_weight(Test(statistic=x, freedom=4, p_value=p)) for x, p in ((40.0, 1e-7), (6.0, 0.2))]
    [0.9, 0.0]
    """
    if test is None or not test.p_value < _SURE:
        return 0.0
    return float(max(0.0, 1.0 - test.freedom / test.statistic))


def between(theta: FloatArray, affine: Affine, weight: float) -> Affine:
    """A weighted mean of affine users and position-based ones, of lines over P(click) at the first rank.

    >>> between(np.array([1.0, 0.5]), Affine([1.0, 0.5], [0.0, 0.2]), 0.5)
    Affine([1.0, 0.5], [0.0, 0.1])
    """
    n = min(len(theta), affine.k)
    slope = affine.alpha[:n] / affine.alpha[0]
    start = affine.beta[:n] - slope * affine.beta[0]
    return Affine(weight * slope + (1.0 - weight) * theta[:n] / theta[0], weight * start)


def _said(kind: str, users: UserModel, about: str) -> str:
    alpha, beta = lines_of(users)
    n = alpha.k or 0
    curves = [("alpha" if beta else "examination", alpha), *([("beta", beta)] if beta else [])]
    if isinstance(alpha, CurvesByContext):
        curves = [(f"{name or 'no context'}:", own) for name, own in alpha.curves.items() if own is not None]
    values = "; ".join(f"{name} {', '.join(f'{each:.3g}' for each in own.curve(n)[:10])}" for name, own in curves)
    return f"users fitted to the log: {kind}, {values} ({about.rstrip('.')})"


def describe_users(users: Any) -> dict[str, Any]:
    """Any user model, or curve, as plain numbers for JSON.

    >>> describe_users([1.0, 0.5])
    {'model': 'position-based', 'values': [1.0, 0.5]}
    """
    if isinstance(users, FoundUsers | SavedUsers):
        return users.describe()
    alpha, beta = lines_of(users)
    if beta is None:
        return {"model": "position-based", **alpha.describe()}
    return {"model": type(users).__name__.lower(), "alpha": alpha.describe(), "beta": beta.describe()}


def stacked(parts: Sequence[ClickCounts]) -> ClickCounts:
    """Counts of different queries as one, with their policies and contexts; of what was shown and clicked alone.

    >>> one = np.array([1])
    >>> part = ClickCounts("", np.array([0, 2]), one, np.array([1]), one, one, one)
    >>> both = stacked([part, part])
    >>> both.offsets.tolist(), both.docs.tolist()
    ([0, 2, 4], [1, 3])
    """
    every = [check_counts(part) for part in parts]
    begins = np.concatenate(([0], np.cumsum([part.n_docs for part in every])))
    offsets = [part.offsets[1:] + begin for part, begin in zip(every, begins, strict=False)]
    docs = np.concatenate([part.docs + begin for part, begin in zip(every, begins, strict=False)])
    sessions, ranks, impressions, clicks = (
        np.concatenate([getattr(part, name) for part in every])
        for name in ("sessions", "ranks", "impressions", "clicks")
    )
    counts = ClickCounts("", np.concatenate([np.array([0]), *offsets]), sessions, docs, ranks, impressions, clicks)
    return counts if all(part.policies is None for part in every) else replace(counts, **_policies_of(every))


def _policies_of(parts: Sequence[ClickCounts]) -> dict[str, Any]:
    """The policies of all parts, by name and context, as the arguments of `replace`."""
    own = [numbered_policies(part) for part in parts]
    names = list(dict.fromkeys(name for each in own for name in each))
    sessions = np.zeros((len(names), sum(part.n_queries for part in parts)), np.int64)
    policies, first = [], 0
    for part, each in zip(parts, own, strict=True):
        number = np.array([names.index(name) for name in each])
        policies.append(np.full(len(part.docs), number[0]) if part.policies is None else number[part.policies])
        of_queries = part.sessions[None] if part.policy_sessions is None else part.policy_sessions
        np.add.at(sessions[:, first : first + part.n_queries], number, of_queries)
        first += part.n_queries
    contexts = tuple(context for _, context in names) if any(context for _, context in names) else ()
    return {
        "policies": np.concatenate(policies),
        "policy_names": tuple(name for name, _ in names),
        "policy_sessions": sessions,
        "contexts": contexts,
    }
