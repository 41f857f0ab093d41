"""Estimates with users that were fitted to the same clicks: what the error of the fit adds to confidence intervals."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.exposure import examined_times
from counterrank.clicks.user_models import fitted_to
from counterrank.common.checks import FloatArray
from counterrank.common.errors import CounterrankError
from counterrank.common.numerics import student_quantile
from counterrank.common.progress import progress
from counterrank.data import RankingData
from counterrank.estimators.propensities import Propensities
from counterrank.estimators.users_from_log import AUTO, FEATURES, FoundUsers, learn_users, refit
from counterrank.evaluation.weighted_clicks import Method, WeightedClicks, query_sums, weight_clicks

GROUPS = 20  # of queries, each left out once


def fit_where_unknown(
    method: Method, data: RankingData, clicks: ClickCounts, rho: ArrayLike | Propensities | None
) -> Method:
    """The method with users fitted to the clicks, where that was asked for, or nothing says how users click."""
    asked = isinstance(method.exam, str)
    known = (method.exam, rho, clicks.examination, clicks.propensities)
    if not asked and not all(each is None for each in known):
        return method
    if asked and rho is not None:
        raise CounterrankError(
            f"rho: given with exam={method.exam!r}, and holds another user model; expected None, for how often the log "
            "shows each document; or users = learn_users(clicks), rho of their alpha, and exam=users"
        )
    how = method.exam if isinstance(method.exam, str) else AUTO
    try:
        return method._replace(exam=learn_users(clicks, method=how, data=data if how == FEATURES else None))
    except CounterrankError as refusal:
        if asked:
            raise
        raise CounterrankError(
            "rho: None, and the clicks hold no logged propensities; pass rho=policy.propensity(scores, offsets, exam), "
            f"or exam=, the examination curve, to take how often each document was shown; {refusal}"
        ) from None


class Given(NamedTuple):
    """What an estimate was made of."""

    data: RankingData
    clicks: ClickCounts
    rho: ArrayLike | Propensities | None
    noise: tuple[float, float] | None
    threads: int | None
    method: Method


def with_fitted_users(estimates: Sequence[Any], weighted: WeightedClicks, values: FloatArray, made: Given) -> list[Any]:
    """The estimates with intervals that include the error of users fitted to the same clicks.

    Users fitted to other clicks count as known; so do results of `examination.estimate`, with a doubt if they were
    fitted to these clicks.

    Where position-based users are used, and the affine fit gives a value outside of the interval, it is doubted: the
    log does not tell which users are right, and it matters.
    """
    users = made.method.exam
    if not isinstance(users, FoundUsers):
        return [_doubted(one) for one in estimates] if fitted_to(users, made.clicks) else list(estimates)
    if not users.fitted_to(made.clicks):
        return [replace(one, users=users.sentence) for one in estimates]
    extra, left_out = _added_variance(made, values, weighted.relevance)
    others = _values_with_trust_bias(made, values, weighted.relevance)
    found = []
    for m, one in enumerate(estimates):
        intervals, doubts = {}, list(one.doubts)
        if left_out:
            doubts.append(
                f"users cannot be fitted without {left_out} of {GROUPS} groups of queries: the fit rests on a few "
                "queries, and intervals are too narrow"
            )
        for kind, word in (("ips", weighted.method), ("self_normalized", "self-normalised")):
            value = getattr(one, kind)
            bounds = widened(getattr(one, f"{kind}_interval"), value, float(extra[kind][m]), one.confidence)
            intervals[f"{kind}_interval"] = bounds
            if others is not None and bounds is not None and value is not None:
                other = float(others[kind][m])
                if other < bounds[0] or other > bounds[1]:
                    doubts.append(
                        f"{word} would be {other:.4g} with trust bias, which this log neither shows nor rules out "
                        f"(p = {users.p_value:.2g}); expected more sessions, or users from elsewhere"
                    )
        found.append(replace(one, users=users.sentence, doubts=tuple(doubts), **intervals))
    return found


def _doubted(one: Any) -> Any:
    """An estimate with users fitted to the same clicks, whose error its intervals leave out."""
    doubt = (
        "users were fitted to these very clicks and are taken as known, so intervals leave out the error of the fit; "
        "expected exam='auto' or exam=estimators.learn_users(clicks), whose error intervals include"
    )
    return replace(one, doubts=(*one.doubts, doubt))


def _added_variance(
    given: Given, values: FloatArray, relevance: FloatArray | None
) -> tuple[dict[str, FloatArray], int]:
    """The variance that fitting users adds to "ips" and "self_normalized", for each column of the values.

    With it, the number of groups without which the log does not identify users: they have no part in the variance.

        V = (G - 1) / G sum over groups g of (estimate without g - their mean)^2         (delete-a-group jackknife)

    over G groups of queries, once with users fitted again without the group and once with users as they are; the first
    less the second, at least 0. Which model is used, and how much trust bias counts, stay as they were found. A given
    rho is multiplied by the change in the expected examinations of the document.
    """
    users = given.method.exam
    assert isinstance(users, FoundUsers)
    logged = np.flatnonzero(given.clicks.sessions > 0)
    groups = min(GROUPS, len(logged))
    number = np.full(given.clicks.n_queries, -1)
    number[logged] = np.random.default_rng(0).permutation(len(logged)) % groups
    found: dict[bool, list[FloatArray]] = {True: [], False: []}
    with progress("error of the fitted users", groups) as advance:
        for group in range(groups):
            rest = without_queries(given.clicks, number == group)
            try:
                again: Any = refit(users, rest, given.data)
            except CounterrankError:
                continue  # without these queries the log does not identify users
            for is_refitted in (True, False):
                exam = again if is_refitted else users
                found[is_refitted].append(_values_with(exam, given, rest, values, relevance))
            advance(1)
    if len(found[True]) < 2:
        raise CounterrankError("clicks: too few queries to tell the error of the fitted users")
    both, fixed = (np.stack(each).var(axis=0) * (len(each) - 1) for each in found.values())
    extra = np.maximum(np.nan_to_num(both - fixed), 0.0)
    return {"ips": extra[0], "self_normalized": extra[1]}, groups - len(found[True])


def _values_with_trust_bias(
    given: Given, values: FloatArray, relevance: FloatArray | None
) -> dict[str, FloatArray] | None:
    """Both estimates with the affine fit, where the position-based one is used since the test does not reject it.

    None where the affine fit is in use, or there is none. That the test does not reject does not say that there is no
    trust bias: with few sessions it has little power, and values with and without can be far apart.
    """
    users = given.method.exam
    assert isinstance(users, FoundUsers)
    if users.weight > 0.0 or "affine" not in users.fits:
        return None
    try:
        found = _values_with(users.fits["affine"], given, given.clicks, values, relevance)
    except CounterrankError:
        return None  # these users cannot have made some of the clicks
    return {"ips": found[0], "self_normalized": found[1]}


def _values_with(
    exam: Any, given: Given, clicks: ClickCounts, values: FloatArray, relevance: FloatArray | None
) -> FloatArray:
    """Both estimates from these clicks with these users, (2, columns); nan where the weights do not sum above 0."""
    rho, method = _rho_of(given, clicks, exam), given.method._replace(exam=exam, relevance=relevance)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weighted = weight_clicks(given.data, clicks, rho, given.noise, given.threads, method)
    sums = query_sums(weighted, values)
    below = np.array([sums.sessions.sum(), sums.omega.sum()])
    found: FloatArray = sums.terms.sum(axis=0) / np.where(below > 0.0, below, np.nan)[:, None]
    return found


def _rho_of(given: Given, rest: ClickCounts, exam: Any) -> ArrayLike | None:
    """The propensities with these users; None for how often the log shows each document."""
    rho = given.rho
    if rho is None or (isinstance(rho, Propensities) and rho.source == "realised"):
        return None
    old = np.nan_to_num(rho.by_document) if isinstance(rho, Propensities) else np.asarray(rho, np.float64)
    was, now = (examined_times(each.examination, rest) for each in (given.method.exam, exam))
    ratio = np.divide(now, was, out=np.ones(len(was)), where=was > 0.0)
    return np.clip(old * ratio, 0.0, 1.0)


def without_queries(clicks: ClickCounts, out: Any) -> ClickCounts:
    """The clicks without the sessions of some queries, against the same data."""
    sessions = np.where(out, 0, clicks.sessions)
    kept = np.flatnonzero(~out[clicks.queries()])
    policies = None if clicks.policy_sessions is None else np.where(out, 0, clicks.policy_sessions)
    return replace(
        clicks, sessions=sessions, **clicks.cells_at(kept), policy_sessions=policies, displays=None, origin=None
    )


def widened(interval: tuple[float, float] | None, value: float | None, variance: float, confidence: float) -> Any:
    """An interval with this variance added to that of its ends.

    >>> widened((0.0, 2.0), 1.0, 0.0, 0.95)
    (0.0, 2.0)
    """
    if interval is None or value is None:
        return interval
    reach = float(student_quantile(confidence, GROUPS - 1)) ** 2 * variance
    low, high = interval
    return value - float(np.hypot(value - low, np.sqrt(reach))), value + float(np.hypot(high - value, np.sqrt(reach)))
