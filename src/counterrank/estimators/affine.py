"""The affine estimator: corrects for trust bias, where clicks depend on the rank beyond examination."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.examination import Examination
from counterrank.clicks.policies.base import as_policy
from counterrank.clicks.policies.exact import exact_propensity
from counterrank.clicks.policies.several import check_all_candidates, mean_over_policies, refuse_contradictions
from counterrank.common.checks import FloatArray, check_vector
from counterrank.common.errors import CounterrankError
from counterrank.estimators.conditions import warn_unless_sometimes_seen
from counterrank.estimators.propensities import SMALLEST, check_clip, examined, refuse_impossible


def affine(
    clicks: ClickCounts,
    alpha: ArrayLike | Examination,
    beta: ArrayLike | Examination,
    policy: Any = None,
    scores: ArrayLike | None = None,
    *,
    clip: float | None = None,
    threads: int | None = None,
) -> FloatArray:
    """Clicks less those expected without relevance, by the inverse of what relevance adds (Vardasbi et al. 2020).

        P(click | relevance r, rank j) = alpha_j r + beta_j
        omega(d) = (clicks(d) - sessions(q) E[beta]) * min(1 / E[alpha], clip),

    expectations over the rank of d under the policy, 0 where d is not shown. The expected weight per session is r, for
    every document with E[alpha] > 0; policy-aware weights are its special case beta = 0, alpha = theta. Weights of
    documents that got fewer clicks than trust alone brings are negative, and rightly so: they cancel the others by
    chance. A clip scales both terms, so irrelevant documents keep an expected weight of 0.

    Arguments:
        clicks: what was shown and clicked.
        alpha, beta: by rank from 1, a list or an `Examination`; 0 past their ends. `ClickModel.affine` gives those of
            simulated clicks.
        policy: what made the pages, with `scores`; or {name: (policy, scores)} for a log of several policies, see
            `policies.several_policies`; or None to take how often the log shows each document at each rank. The last
            needs no knowledge of the policy. Given the pages it is unbiased for all documents that were shown, and
            documents that were not get weight 0: see docs/unknown-policy.md for what that costs.
        scores: what the policy ranked by, one per document of the data.
        clip: a cap on 1 / E[alpha] of each document; None for no cap.
        threads: None for all cores.

    Returns:
        float64 weights, one per document of the data; 0 with a `CoverageWarning` where E[alpha] is 0. A click on a
        document that by alpha, beta and policy cannot have one is an error.

    >>> docs, ranks, shown, clicked = np.array([[0, 1], [1, 2], [10, 10], [9, 2]])
    >>> clicks = ClickCounts("", np.array([0, 2]), np.array([10]), docs, ranks, shown, clicked)
    >>> affine(clicks, alpha=[0.5, 0.25], beta=[0.4, 0.25]).tolist()  # (9 - 10 * 0.4) / 0.5, (2 - 10 * 0.25) / 0.25
    [10.0, -2.0]
    """
    counts, cap = check_counts(clicks), check_clip(clip)
    gain, base = check_line(alpha, beta)
    mean_gain, mean_base = _expected(counts, [gain, base], policy, scores, threads)
    total = counts.by_document(counts.clicks)
    refuse_impossible(np.maximum(mean_gain, mean_base), total, counts, "alpha, beta")
    known = mean_gain >= SMALLEST
    inverse = np.zeros(counts.n_docs)
    np.divide(1.0, mean_gain, out=inverse, where=known)
    warn_unless_sometimes_seen(counts, np.where(known, mean_gain, 0.0), "affine")
    asked = np.repeat(counts.sessions, np.diff(counts.offsets))
    weights: FloatArray = (total - asked * mean_base) * np.minimum(inverse, cap, out=inverse)
    return weights


def check_line(alpha: Any, beta: Any, name: str = "alpha") -> tuple[Examination, Examination | None]:
    """Both as curves, None for a beta of 0 at every rank; P(click | relevant) = alpha + beta is at most 1.

    `name` is what an error calls the first.
    """
    curves = (check_curve(alpha, name), check_curve(beta, "beta"))
    if curves[0] is None:
        raise CounterrankError(f"{name}: 0 at every rank, so clicks tell nothing of relevance; expected one above 0")
    depth = max(curve.k or 1 for curve in curves if curve is not None)
    both = np.sum([curve.curve(depth) for curve in curves if curve is not None], axis=0)
    if (both > 1.0 + 1e-9).any():
        rank = int(np.argmax(both > 1.0 + 1e-9)) + 1
        raise CounterrankError(
            f"{name}, beta: {both[rank - 1]:g} together at rank {rank}; expected at most 1, P(click | relevant)"
        )
    return curves[0], curves[1]


def check_curve(values: Any, name: str) -> Examination | None:
    """Probabilities by rank as a curve, None where all are 0."""
    if isinstance(values, Examination):
        return values
    given = check_vector(values, None, name, "ranks")
    if not len(given):
        raise CounterrankError(f"{name}: no values; expected one for each rank, at least one")
    outside = (given < 0.0) | (given > 1.0)
    if outside.any():
        rank = int(np.argmax(outside)) + 1
        raise CounterrankError(f"{name}: {given[rank - 1]:g} at rank {rank}; expected numbers from 0 to 1")
    return Examination(given) if given.any() else None


def _expected(
    clicks: ClickCounts, curves: list[Examination | None], policy: Any, scores: Any, threads: int | None
) -> list[FloatArray]:
    """E[curve] of each document under what was given as policy."""
    known = [curve for curve in curves if curve is not None]
    if policy is None:
        if scores is not None:
            raise CounterrankError("scores: given without a policy; expected both or none")
        asked = np.repeat(np.maximum(clicks.sessions, 1), np.diff(clicks.offsets))
        found = [clicks.by_document(clicks.impressions * examined(curve, clicks.ranks)) / asked for curve in known]
    elif isinstance(policy, dict) and (not policy or any(isinstance(name, str) for name in policy)):
        if scores is not None:
            raise CounterrankError("scores: given beside policies that come with their own; expected None")
        found = mean_over_policies(clicks, policy, known, threads)
    else:
        found = _single(clicks, known, policy, scores, threads)
    means = iter(found)
    return [np.zeros(clicks.n_docs) if curve is None else next(means) for curve in curves]


def _single(
    clicks: ClickCounts, curves: list[Examination], policy: Any, scores: Any, threads: int | None
) -> list[FloatArray]:
    check_all_candidates(clicks)
    if len(clicks.policy_names) > 1:
        raise CounterrankError(
            f"policy: one for a log of {len(clicks.policy_names)}, {', '.join(map(repr, clicks.policy_names))}; "
            "expected {name: (policy, scores)}"
        )
    refuse_contradictions(clicks)
    if scores is None:
        raise CounterrankError("scores: None; expected what the policy ranked by, one number per document")
    given = check_vector(scores, clicks.n_docs, "scores")
    return [exact_propensity(as_policy(policy), given, clicks.offsets, curve, threads) for curve in curves]
