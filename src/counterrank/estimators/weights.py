"""Document weights from clicks or labels without a model of relevance, clips, and warnings where conditions fail."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.clicks.browsing import Dependent, SequentialExamination, sequential
from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.examination import Examination, is_user_model, lines_of
from counterrank.clicks.exposure import examined, examined_times
from counterrank.clicks.policies.from_log import (
    check_all_candidates,
    mean_over_contexts,
    mean_over_policies,
    refuse_contradictions,
)
from counterrank.clicks.policies.standard import as_policy
from counterrank.clicks.user_models import Affine, users_of
from counterrank.common.checks import (
    FloatArray,
    IntArray,
    check_choice,
    check_cutoff,
    check_number,
    check_vector,
    check_whole,
)
from counterrank.common.errors import CounterrankError, CoverageWarning
from counterrank.data import RankingData
from counterrank.data.ids import query_of_rows
from counterrank.data.labels import exponential_gains, relevant_documents
from counterrank.estimators.propensities import (
    SMALLEST,
    Propensities,
    capped_inverse,
    check_clip,
    inverse_propensity,
    logged_range,
    propensities_of,
    refuse_impossible,
    refuse_unseen,
    sessions_of_documents,
    without_stale_propensities,
)

BoolArray = NDArray[np.bool_]

_APART = 0.1  # relative: rho may be computed with an estimated curve, the logged propensities with the true one
_CALLER = 4  # frames from `_warn` up to whoever called the estimator
_ALIKE = 1.0 + 1e-9  # inverse propensities within this factor of each other are equal but for rounding


def policy_aware(
    clicks: ClickCounts,
    rho: ArrayLike | Propensities | None = None,
    *,
    clip: float | None = None,
    exam: ArrayLike | Examination | None = None,
) -> FloatArray:
    """The policy-aware estimator: clicks weighted by 1 / P(examined | query, policy) (eq:policyaware).

        omega(d) = sum over clicks on d of min(1 / rho(d), clip),      rho(d) = P(o(d) = 1 | q, r, pi) of eq:expexam

    Unbiased if every relevant document has some chance to be examined (eq:awarecond); a `CoverageWarning` says where
    that fails.

    Arguments:
        clicks: what was shown and clicked.
        rho: the propensity of each document of the data, as `policy.propensity(scores, offsets, exam)` gives it; None
            for those logged with the clicks, combined where they are of several policies, see `logged_propensities`.
        clip: a cap on what each click counts, applied before summing; None for no cap.
        exam: how likely each rank is examined, where rho is None and the log is of several policies; None for the curve
            that simulated clicks remember. A user model with trust bias, see `examination.Affine`, whose alpha rho was
            computed with: the clicks that its beta explains are taken off, as in `affine`. With `examination.Browsing`,
            rho is None: what the log shows was examined. With `examination.Dependent`, rho is that or P(shown up to
            rank k), and clicks then have the importance weights of `Dependent.importance_weights` too, which is
            unbiased.

    Returns:
        float64 weights, one per document of the data: a plain sum, not divided by sessions. A click on a document
        of propensity 0 is an error.

    >>> offsets, sessions = np.array([0, 2]), np.array([4])
    >>> docs, ranks, shown, clicked = np.array([0, 1]), np.array([1, 1]), np.array([3, 1]), np.array([2, 1])
    >>> clicks = ClickCounts("", offsets, sessions, docs, ranks, shown, clicked)
    >>> policy_aware(clicks, rho=[0.8, 0.2])
    array([2.5, 5. ])
    >>> policy_aware(clicks, rho=[0.8, 0.2], clip=4)
    array([2.5, 4. ])
    """
    counts, cap = check_counts(clicks), check_clip(clip)
    if is_user_model(exam):
        counts = without_stale_propensities(counts, quietly=rho is not None)
    found = propensities_of(counts, rho, exam)
    name = "propensities"
    if found.source == "given":
        name = "rho"
        warn_if_contradicted(counts, found.by_document, "policy_aware")
    gain, base = (None, None) if exam is None else lines_of(exam)
    if gain is None or base is None:
        inverse = capped_inverse(found.by_cell, cap, counts, counts.clicks, counts.docs, counts.ranks, name)
        warn_unless_sometimes_seen(counts, found.chances(), "policy_aware")
        users = sequential(exam)
        if isinstance(users, Dependent) and found.source == "given":
            inverse = inverse * users.importance_weights(counts)
        return counts.by_document(counts.clicks * inverse)
    known = np.nan_to_num(found.by_document)
    net = counts.by_document(counts.clicks - counts.impressions * examined(base, counts))
    refuse_impossible(known + examined_times(base, counts), counts.by_document(counts.clicks), counts, name)
    warn_unless_sometimes_seen(counts, known, "policy_aware")
    unseen = np.where(known < SMALLEST, sessions_of_documents(counts) * mean_relevance(counts, gain, base), 0.0)
    return np.asarray(net * inverse_propensity(known, cap) + unseen)


def policy_oblivious(clicks: ClickCounts, exam: Examination, *, clip: float | None = None) -> FloatArray:
    """The policy-oblivious estimator: clicks weighted by 1 / P(examined | rank) (eq:obliviousestimator).

        omega(d) = sum over clicks on d of min(1 / P(o(d) = 1 | rank on the page shown), clip)

    Unbiased if every relevant document is on every page that was shown, at a rank that is examined (eq:agnosticcond);
    a `CoverageWarning` says where that fails. It needs no knowledge of the logging policy.

    Arguments:
        clicks: what was shown and clicked.
        exam: how likely each rank is examined. A click at a rank that is never examined is an error. Of a user model
            with trust bias, beta is taken off each impression: omega(d) sums (click - beta) min(1 / alpha, clip).
        clip: a cap on what each click counts, applied before summing; None for no cap.

    Returns:
        float64 weights, one per document of the data: a plain sum, not divided by sessions.

    >>> offsets, sessions = np.array([0, 2]), np.array([4])
    >>> docs, ranks, shown, clicked = np.array([0, 1]), np.array([2, 1]), np.array([4, 4]), np.array([1, 3])
    >>> clicks = ClickCounts("", offsets, sessions, docs, ranks, shown, clicked)
    >>> policy_oblivious(clicks, Examination([1.0, 0.25]))
    array([4., 3.])
    >>> policy_oblivious(clicks, Examination([1.0, 0.25]), clip=2.5)
    array([2.5, 3. ])
    """
    counts, (curve, base), cap = check_counts(clicks), lines_of(exam), check_clip(clip)
    theta = examined(curve, counts)
    net: FloatArray | IntArray = counts.clicks
    unseen = np.zeros(counts.n_docs)
    if base is None:
        inverse = capped_inverse(theta, cap, counts, counts.clicks, counts.docs, counts.ranks, "exam")
    else:
        refuse_unseen(curve, base, counts)
        inverse = inverse_propensity(theta, cap)
        net = counts.clicks - counts.impressions * examined(base, counts)
        mean = sessions_of_documents(counts) * mean_relevance(counts, curve, base)
        unseen = np.where(examined_times(curve, counts) < SMALLEST, mean, 0.0)
    warn_unless_always_seen(counts, curve, "policy_oblivious")
    return np.asarray(counts.by_document(net * inverse) + unseen)


def naive(clicks: ClickCounts, *, clip: float | None = None) -> FloatArray:
    """The naive estimator: the number of clicks on each document (eq:naiveestimator).

        omega(d) = sum over clicks on d of min(1, clip)

    Every click counts the same, so documents that are shown more often, or higher up, weigh more: it keeps both
    position bias and item selection bias, and serves as a baseline.

    Arguments:
        clicks: what was shown and clicked.
        clip: a cap on what a click counts, which is 1; for the sake of one signature.

    Returns:
        float64 weights, one per document of the data.

    >>> offsets, sessions = np.array([0, 2]), np.array([4])
    >>> docs, ranks, shown, clicked = np.array([0, 1]), np.array([2, 1]), np.array([4, 4]), np.array([1, 3])
    >>> naive(ClickCounts("", offsets, sessions, docs, ranks, shown, clicked))
    array([1., 3.])
    """
    counts, cap = check_counts(clicks), check_clip(clip)
    warn_unless_always_seen(counts, counts.examination, "naive")
    return np.asarray(counts.by_document(counts.clicks) * min(1.0, cap))


def affine(
    clicks: ClickCounts,
    alpha: ArrayLike | Examination | Affine,
    beta: ArrayLike | Examination | None = None,
    policy: Any = None,
    scores: ArrayLike | None = None,
    *,
    clip: float | None = None,
    threads: int | None = None,
) -> FloatArray:
    """The affine estimator: clicks minus those expected without relevance, divided by E[alpha] (Vardasbi et al. 2020).

        P(click | relevance r, rank j) = alpha_j r + beta_j
        omega(d) = (clicks(d) - sessions(q) E[beta]) * min(1 / E[alpha], clip),

    expectations over the rank of d under the policy, 0 where d is not shown. Alpha and beta are those of the canonical
    gauge, see `examination.Affine`. The expected weight per session is r of that gauge, for every document with
    E[alpha] > 0; policy-aware weights are its special case beta = 0, alpha = theta. Documents with fewer clicks than
    trust alone brings have negative weights, which cancel those that are too large by chance. A clip scales both terms.

    Arguments:
        clicks: what was shown and clicked.
        alpha, beta: a user model, such as `examination.estimate(clicks, model="affine")` or `examination.Affine`, and
            None; or both by rank from 1, a list or an `Examination`, 0 past their ends. `ClickModel.affine` gives those
            of simulated clicks.
        policy: the logging policy, with `scores`; or {name: (policy, scores)} for a log of several policies, see
            `policies.several_policies`; or None to take how often the log shows each document at each rank, see
            docs/how-to/unknown-policy.md.
        scores: what the policy ranked by, one per document of the data.
        clip: a cap on 1 / E[alpha] of each document; None for no cap.
        threads: None for all cores.

    Returns:
        float64 weights, one per document of the data. Documents with E[alpha] = 0 get the mean relevance of documents
        that are seldom shown, with a `CoverageWarning`. A click on a document that by alpha, beta and policy cannot
        have one is an error.

    >>> docs, ranks, shown, clicked = np.array([[0, 1], [1, 2], [10, 10], [9, 2]])
    >>> clicks = ClickCounts("", np.array([0, 2]), np.array([10]), docs, ranks, shown, clicked)
    >>> affine(clicks, alpha=[1.0, 0.5], beta=[0.0, 0.05]).tolist()  # 9 / 1, (2 - 10 * 0.05) / 0.5
    [9.0, 3.0]
    >>> affine(clicks, alpha=[0.5, 0.25], beta=[0.4, 0.25]).tolist()  # the same model with r' = 2 r - 0.8
    [9.0, 3.0]
    """
    counts, cap = check_counts(clicks), check_clip(clip)
    gain, base = lines_of(users_of(alpha, beta))
    mean_gain, mean_base = _expected(counts, [gain, base], policy, scores, threads)
    total = counts.by_document(counts.clicks)
    refuse_impossible(np.maximum(mean_gain, mean_base), total, counts, "alpha, beta")
    known = mean_gain >= SMALLEST
    inverse = np.zeros(counts.n_docs)
    np.divide(1.0, mean_gain, out=inverse, where=known)
    warn_unless_sometimes_seen(counts, np.where(known, mean_gain, 0.0), "affine")
    weights = (total - sessions_of_documents(counts) * mean_base) * np.minimum(inverse, cap, out=inverse)
    return np.where(known, weights, sessions_of_documents(counts) * mean_relevance(counts, gain, base))


def mean_relevance(clicks: ClickCounts, gain: Examination, base: Examination | None) -> float:
    """The mean relevance of documents that are seldom shown, (clicks - clicks by trust) / examinations, from 0 to 1.

    It is the prior mean of documents that were never shown: those on less than half of the pages of their query are
    more like them than those that production puts on every page. Of all documents where there are no others.

    >>> docs, ranks, shown, clicked = np.array([[0, 1], [1, 2], [10, 10], [9, 2]])
    >>> clicks = ClickCounts("", np.array([0, 2]), np.array([10]), docs, ranks, shown, clicked)
    >>> mean_relevance(clicks, Examination([1.0, 0.5]), Examination([0.0, 0.1]))  # (11 - 1) / 15
    0.6666666666666666
    """
    times, net = examined_times(gain, clicks), clicks.by_document(clicks.clicks)
    if base is not None:
        net = net - examined_times(base, clicks)
    seldom = 2.0 * clicks.by_document(clicks.impressions) < sessions_of_documents(clicks)
    if times[seldom].sum() > 0.0:
        times, net = times[seldom], net[seldom]
    total = float(times.sum())
    return float(np.clip(net.sum() / total, 0.0, 1.0)) if total > 0.0 else 0.0


def _expected(
    clicks: ClickCounts, curves: list[Examination | None], policy: Any, scores: Any, threads: int | None
) -> list[FloatArray]:
    """E[curve] of each document under what was given as policy."""
    known = [curve for curve in curves if curve is not None]
    if policy is not None and any(isinstance(curve, SequentialExamination) for curve in known):
        raise CounterrankError(
            "policy: given together with users whose clicks depend on each other, of whom a policy does not say what "
            "they examine; expected None, to take what the log shows was examined"
        )
    if policy is None:
        if scores is not None:
            raise CounterrankError("scores: given without a policy; expected both or none")
        sessions = np.maximum(sessions_of_documents(clicks), 1.0)
        found = [examined_times(curve, clicks) / sessions for curve in known]
    elif isinstance(policy, dict) and (not policy or any(isinstance(name, str) for name in policy)):
        if scores is not None:
            raise CounterrankError("scores: given together with policies that come with their own; expected None")
        found = mean_over_policies(clicks, policy, known, threads)
    else:
        found = _single(clicks, known, policy, scores, threads)
    means = iter(found)
    return [np.zeros(clicks.n_docs) if curve is None else next(means) for curve in curves]


def _single(
    clicks: ClickCounts, curves: list[Examination], policy: Any, scores: Any, threads: int | None
) -> list[FloatArray]:
    check_all_candidates(clicks)
    if len(clicks.distinct_policies) > 1:
        raise CounterrankError(
            f"policy: one for a log of {len(clicks.distinct_policies)}, "
            f"{', '.join(map(repr, clicks.distinct_policies))}; expected {{name: (policy, scores)}}"
        )
    refuse_contradictions(clicks)
    if scores is None:
        raise CounterrankError("scores: None; expected what the policy ranked by, one number per document")
    given = check_vector(scores, clicks.n_docs, "scores")
    return [mean_over_contexts(clicks, as_policy(policy), given, curve, threads) for curve in curves]


def full_information(
    data: RankingData, relevance_threshold: float = 3, gain: str = "binary", *, ndcg_at: int | None = None
) -> FloatArray:
    """Document weights from labels (full information).

        omega = 1 if label >= relevance_threshold else 0      gain="binary", the paper's r(d)
        omega = 2**label - 1                                  gain="exponential", labels below 0 count as 0

    Training on these weights is supervised learning to rank. With `ndcg_at` each query's weights are divided by the
    DCG@k of its best ranking: sum(omega * D(rank)) up to rank k is then the query's NDCG@k, graded for the exponential
    gain, and queries with many relevant documents count no more than others. Clicks do not give the best ranking, so
    no other estimator has this.

    Arguments:
        data: ranking data with labels.
        relevance_threshold: the smallest label of a relevant document; not used by the exponential gain.
        gain: "binary" or "exponential".
        ndcg_at: k, or None to leave the weights as they are.

    Returns:
        float64 weights, one per document. No relevant document anywhere is an error.

    >>> data = RankingData([[0.1], [0.2], [0.3]], offsets=[0, 3], labels=[0, 4, 2])
    >>> full_information(data, relevance_threshold=3)
    array([0., 1., 0.])
    >>> full_information(data, gain="exponential")
    array([ 0., 15.,  3.])
    >>> full_information(data, gain="exponential", ndcg_at=1)
    array([0. , 1. , 0.2])
    """
    check_choice(gain, ("binary", "exponential"), "gain")
    k = check_cutoff(ndcg_at, "ndcg_at")
    if gain == "binary":
        weights = relevant_documents(data, relevance_threshold).astype(np.float64)
    else:
        weights = exponential_gains(data)
    return weights if k is None else weights / _best_dcg(weights, data.offsets, k)


def _best_dcg(weights: FloatArray, offsets: IntArray, k: int) -> FloatArray:
    """For each document the DCG@k of its query's best ranking; 1 where nothing is relevant."""
    queries = query_of_rows(offsets)
    descending = np.lexsort((-weights, queries))
    ranks = np.arange(len(weights)) - offsets[queries] + 1
    discounts = np.where(ranks <= k, 1.0 / np.log2(1.0 + ranks), 0.0)
    best = np.add.reduceat(discounts * weights[descending], offsets[:-1])
    return np.asarray(np.where(best > 0.0, best, 1.0)[queries])


def clip_schedule(n_clicks: int, a: float, b: float) -> float:
    """The clip used in the paper's experiments, which grows with the number of clicks.

        1 if c < 4, else max(1, 1 + a (c - 4) + b (c - 4)^2),      c = log10(n_clicks)

    The authors chose a and b for each data set: a=-3, b=32 on Yahoo, a=-57, b=86 on MSLR. For data of your own see
    `clip_grid`. Validation clicks are never clipped.

    >>> clip_schedule(10**6, a=-3, b=32)  # 1 - 3 * 2 + 32 * 4
    123.0
    >>> clip_schedule(5000, a=-3, b=32)
    1.0
    """
    n = check_number(n_clicks, "n_clicks", at_least=0)
    beyond = math.log10(n) - 4.0 if n > 0 else -math.inf
    if beyond < 0.0:
        return 1.0
    return max(1.0, 1.0 + beyond * check_number(a, "a") + beyond**2 * check_number(b, "b"))


def clip_grid(
    clicks: ClickCounts,
    rho: ArrayLike | Propensities | None = None,
    n: int = 6,
    *,
    exam: Examination | None = None,
) -> list[float | None]:
    """A grid of clips, to choose from by the unclipped validation metric, see `counterrank.training.fit_best_clip`.

        low (high / low)^(i / (n - 1)) for i = 0 .. n - 2, then None,
        high = the largest 1 / propensity of any click, low = the geometric mean of 1 / propensity over all clicks

    A clip at `high` or above changes nothing, so None (no clip) stands for it and is always the last. One far below
    `low` makes most clicks count the same, which is the naive estimator. Where all clicks have the same propensity,
    and where there are none, the grid is [None].

    Arguments:
        clicks: the clicks to train on.
        rho: as for `policy_aware`.
        n: how many clips, the last one included.
        exam: how likely each rank is examined, instead of rho: for `policy_oblivious` and `rerank`.

    >>> offsets, sessions = np.array([0, 2]), np.array([400])
    >>> docs, ranks, shown, clicked = np.array([0, 1]), np.array([1, 1]), np.array([300, 100]), np.array([200, 200])
    >>> clicks = ClickCounts("", offsets, sessions, docs, ranks, shown, clicked)
    >>> grid = clip_grid(clicks, rho=[1.0, 0.0001], n=3)
    >>> [clip if clip is None else round(clip) for clip in grid]  # 100 and 10,000 are the ends
    [100, 1000, None]
    """
    counts, size = check_counts(clicks), check_whole(n, "n")
    if exam is not None:
        if rho is not None:
            raise CounterrankError("exam: given together with rho; expected one of them")
        name, propensities = "exam", examined(lines_of(exam)[0], counts)
    else:
        name = "propensities" if rho is None else "rho"
        propensities = propensities_of(counts, rho).by_cell
    inverse = capped_inverse(propensities, np.inf, counts, counts.clicks, counts.docs, counts.ranks, name)
    clicked = counts.clicks > 0
    if not clicked.any() or inverse[clicked].max() <= _ALIKE * inverse[clicked].min():
        return [None]
    high = float(inverse.max())
    low = float(np.exp(np.average(np.log(inverse[clicked]), weights=counts.clicks[clicked])))
    return [*np.geomspace(low, high, size)[:-1].tolist(), None]


def warn_unless_always_seen(clicks: ClickCounts, exam: Examination | None, name: str) -> None:
    """Warn if a candidate was missing from some page of its query, or at a rank that nobody examines (eq:agnosticcond).

    Without a curve every rank on the page counts as one that may be examined.
    """
    shown = clicks.impressions
    if exam is not None:
        shown = np.where(examined(exam, clicks) > 0.0, shown, 0)
    missing = clicks.by_document(shown) < sessions_of_documents(clicks)
    _warn(
        clicks,
        missing,
        f"{name}: {{}} were not on every page of their query at a rank that is examined, so they get too little weight "
        "(item selection bias, eq:agnosticcond); use policy_aware with the propensities of the policy",
    )


def warn_unless_sometimes_seen(clicks: ClickCounts, rho: FloatArray, name: str) -> None:
    """Warn if a candidate of a query with sessions has no chance to be examined (eq:awarecond)."""
    _warn(
        clicks,
        (rho <= 0.0) & (sessions_of_documents(clicks) > 0.0),
        f"{name}: {{}} have a propensity of 0, so they cannot be clicked and keep weight 0 "
        "(eq:awarecond); log with a policy that may show every candidate",
    )


def warn_if_contradicted(clicks: ClickCounts, rho: FloatArray, name: str) -> None:
    """Warn if rho is outside the range that the propensities logged with the clicks allow, see `logged_range`."""
    if clicks.propensities is None:
        return
    low, high = logged_range(clicks)
    low, high, given = low[clicks.docs], high[clicks.docs], rho[clicks.docs]
    off = (given < low * (1.0 - _APART)) | (given > high * (1.0 + _APART))
    if off.any():
        warnings.warn(
            f"{name}: rho differs from the propensities logged with the clicks for {off.mean():.0%} of what was shown; "
            "is it of the policy, scores and examination that made these pages?",
            stacklevel=_CALLER - 1,
        )


def _warn(clicks: ClickCounts, missing: BoolArray, message: str) -> None:
    count = int(np.count_nonzero(missing))
    if not count:
        return
    logged = clicks.sessions > 0
    candidates = int(np.diff(clicks.offsets)[logged].sum())
    affected = int(np.count_nonzero(np.logical_or.reduceat(missing, clicks.offsets[:-1])))
    found = (
        f"{count:,} of {candidates:,} candidates ({count / candidates:.1%}), in {affected:,} of "
        f"{np.count_nonzero(logged):,} queries with sessions,"
    )
    warnings.warn(message.format(found), CoverageWarning, stacklevel=_CALLER)
