"""The affine estimator: against a reference implementation, on bad input, and that it is unbiased under trust bias.

Monte Carlo tests compare weights with sessions times relevance in units of the exact standard error. All must be below
6 (false alarm 2e-9 for each document, below 1e-6 for a test; seeds are fixed). Where weights are biased, the same
comparison must fail by more than 20 for some document.
"""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank import estimators
from counterrank.clicks.counts import SHOWN_ONLY, ClickCounts
from counterrank.clicks.examination import Examination, inverse_rank
from counterrank.clicks.policies import (
    Deterministic,
    EpsilonGreedy,
    Explicit,
    Mixture,
    PlackettLuce,
    ReplaceLast,
    UniformInsert,
)
from counterrank.clicks.simulation import ClickModel, simulate, trust_bias
from counterrank.common.errors import CounterrankError, CoverageWarning
from tests.reference import affine as reference
from tests.support.click_counts import count, worlds

CLOSE, FAR = 6.0, 20.0
LENGTHS = [1, 3, 6, 8]
OFFSETS = np.concatenate(([0], np.cumsum(LENGTHS)))
LABELS = [4, 0, 4, 0, 0, 4, 0, 3, 0, 4, 0, 0, 3, 0, 4, 0, 0, 4]
SCORES = [0.0, 2.0, 1.0, 0.0, 1.5, 0.5, 2.5, 0.5, 0.0, -1.0, 3.0, 1.0, 2.0, 0.0, -1.0, -1.0, 0.5, 0.0]
DATA = cr.RankingData(np.zeros((18, 1)), OFFSETS, labels=LABELS)
THETA = [1.0, 0.6, 0.5]
MODEL = trust_bias(k=3, strength=0.8, relevant=0.95, other=0.1)
ALPHA, BETA, LOW, HIGH = reference.canonical(*MODEL.affine(THETA, 3))
RELEVANT = ((np.array(LABELS) >= 3) - LOW) / (HIGH - LOW)
COVERING = [ReplaceLast(3), EpsilonGreedy(3, 0.3), UniformInsert(3), PlackettLuce(3)]


def log_of(policy, seed=11, model=MODEL, **more):
    sessions = 1_500_000 if isinstance(policy, PlackettLuce) else 10**8
    return simulate(DATA, SCORES, policy, THETA, sessions=sessions, seed=seed, click_model=model, **more)


def spread(per_query):
    return np.repeat(per_query, LENGTHS).astype(float)


def means_of(policy, scores=SCORES):
    """E[alpha] and E[beta] of each document, over all pages."""
    return [np.array(reference.expected_at_rank(policy, scores, OFFSETS.tolist(), curve)) for curve in (ALPHA, BETA)]


def z_values(weights, log, truth, chance, inverse):
    """How far weights are from sessions * truth in standard errors; `chance` is P(click) in a session."""
    sessions = spread(log.sessions)
    off = np.abs(weights - sessions * truth)
    error = np.sqrt(sessions * chance * (1.0 - chance)) * inverse
    return np.where(off <= 1e-9 * sessions, 0.0, off / np.maximum(error, 1e-300))


def test_alpha_and_beta_of_trust_bias_by_hand():
    other = [0.1 + 0.8 * 0.85 * 0.65 / (rank + 1) ** 0.5 for rank in (1, 2, 3)]
    alpha, beta = MODEL.affine(THETA, 3)
    assert pytest.approx([theta * (0.95 - low) for theta, low in zip(THETA, other, strict=True)]) == alpha
    assert pytest.approx([theta * low for theta, low in zip(THETA, other, strict=True)]) == beta
    with pytest.raises(CounterrankError, match="k=None"):
        MODEL.affine(THETA, None)


@pytest.mark.parametrize("policy", COVERING, ids=repr)
def test_unbiased_under_trust_bias_where_policy_aware_is_not(policy):
    log = log_of(policy)
    gain, base = means_of(policy)
    chance = gain * RELEVANT + base
    with warnings.catch_warnings():
        warnings.simplefilter("error", CoverageWarning)
        weights = estimators.affine(log, ALPHA, BETA, policy, SCORES)
    assert (z_values(weights, log, RELEVANT, chance, 1.0 / gain) < CLOSE).all()
    # policy-aware weights are unbiased if E[weight per session] is one increasing line in r for all documents: it is
    # not, whatever the line: two irrelevant documents get different weights
    aware = estimators.policy_aware(log) / spread(log.sessions)
    rho = np.array(reference.expected_at_rank(policy, SCORES, OFFSETS.tolist(), THETA))
    error = np.sqrt(chance * (1.0 - chance) / spread(log.sessions)) / rho
    irrelevant = np.flatnonzero(RELEVANT.min() == RELEVANT)
    low, high = irrelevant[np.argmin(aware[irrelevant])], irrelevant[np.argmax(aware[irrelevant])]
    assert (aware[high] - aware[low]) / np.hypot(error[low], error[high]) > FAR


@pytest.mark.parametrize("policy", COVERING[:3], ids=repr)
def test_display_frequencies_do_as_well_where_all_were_shown(policy):
    """Given the pages, clicks at each rank are binomial; the variance is that of the clicks alone."""
    log = log_of(policy, seed=12)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CoverageWarning)
        weights = estimators.affine(log, ALPHA, BETA)
    gain, base = means_of(policy)
    assert (z_values(weights, log, RELEVANT, gain * RELEVANT + base, 1.0 / gain) < CLOSE).all()


def test_several_policies_in_one_log():
    """Neither policy covers all; both together do."""
    other = [-score for score in SCORES]
    first, second = Deterministic(3), Mixture([UniformInsert(3), Deterministic(1)], [0.5, 0.5])
    parts = [
        simulate(DATA, scores, policy, THETA, sessions=10**7, seed=3, click_model=MODEL, policy_name=name)
        for name, policy, scores in (("a", first, SCORES), ("b", second, other))
    ]
    log = ClickCounts.concat(parts)
    given_policies = {"a": (first, SCORES), "b": (second, other)}
    weights = estimators.affine(log, ALPHA, BETA, given_policies)
    sessions = log.policy_sessions.tolist()
    gain, base = (
        np.array(reference.mean_over_policies([(first, SCORES), (second, other)], sessions, OFFSETS.tolist(), curve))
        for curve in (ALPHA, BETA)
    )
    assert (z_values(weights, log, RELEVANT, gain * RELEVANT + base, 1.0 / gain) < CLOSE).all()
    with pytest.raises(CounterrankError, match="policy: one for a log of 2, 'a', 'b'"):
        estimators.affine(log, ALPHA, BETA, first, SCORES)
    with pytest.raises(CounterrankError, match="policies: nothing for 'b'"):
        estimators.affine(log, ALPHA, BETA, {"a": (first, SCORES)})


def test_without_trust_bias_it_is_the_policy_aware_estimator():
    log = log_of(ReplaceLast(3), model=ClickModel(0.9, 0.0))
    rho = ReplaceLast(3).propensity(SCORES, OFFSETS, Examination(THETA))
    for clip in (None, 3.0):
        found = estimators.affine(log, Examination(THETA), [0.0] * 3, ReplaceLast(3), SCORES, clip=clip)
        assert found == pytest.approx(estimators.policy_aware(log, rho, clip=clip))


def test_negative_weights_and_clips_by_hand():
    docs, ranks, shown, clicked = np.array([[0, 0, 1], [1, 2, 2], [6, 4, 6], [5, 1, 0]])
    log = ClickCounts("", np.array([0, 2]), np.array([10]), docs, ranks, shown, clicked)
    gain = [(6 * 0.5 + 4 * 0.25) / 10, 6 * 0.25 / 10]
    base = [(6 * 0.4 + 4 * 0.3) / 10, 6 * 0.3 / 10]
    low, wide = -0.8, 2.0  # -0.4 / 0.5, and up to (1 - 0.4) / 0.5
    in_gauge = [(6 - 10 * base[0]) / gain[0], -10 * base[1] / gain[1]]
    found = estimators.affine(log, [0.5, 0.25], [0.4, 0.3])
    assert found.tolist() == pytest.approx([(each - 10 * low) / wide for each in in_gauge])
    assert found[1] < 0.0  # fewer clicks than trust alone brings
    clipped = estimators.affine(log, [0.5, 0.25], [0.4, 0.3], clip=2.0)
    assert clipped.tolist() == pytest.approx([found[0], found[1] * gain[1] * wide * 2.0])


@given(worlds(), st.data())
@settings(max_examples=80, deadline=None)
def test_against_the_reference(world, data):
    lengths, sessions = world
    log = count(lengths, sessions)
    alpha = data.draw(st.lists(st.sampled_from([0.0, 0.25, 0.5]), min_size=6, max_size=6).filter(any))
    beta = data.draw(st.lists(st.floats(0.05, 0.5), min_size=6, max_size=6))
    clip = data.draw(st.none() | st.floats(0.5, 20.0))
    kind = data.draw(st.sampled_from([None, "policy"]))
    scores = data.draw(st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=sum(lengths), max_size=sum(lengths)))
    policy = PlackettLuce() if kind else None
    offsets = log.offsets.tolist()
    curves = reference.canonical(alpha, beta)[:2]
    shown = [reference.frequencies(lengths, sessions, curve) for curve in curves]
    if kind:
        means = [reference.expected_at_rank(policy, scores, offsets, curve) for curve in curves]
    else:
        means = shown
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)
        found = estimators.affine(log, alpha, beta, policy, scores if kind else None, clip=clip)
    assert found == pytest.approx(reference.affine(lengths, sessions, *means, shown, clip), rel=1e-5, abs=1e-6)


def test_documents_that_relevance_cannot_move_get_the_mean_and_a_warning():
    log = log_of(Deterministic(3))
    with pytest.warns(CoverageWarning, match=r"affine: 8 of 18 candidates \(44.4%\), in 2 of 4 queries"):
        weights = estimators.affine(log, ALPHA, BETA, Deterministic(3), SCORES)
    shown = means_of(Deterministic(3))[0] > 0.0
    expected = np.bincount(log.docs, log.impressions * RELEVANT[log.docs] * np.array(ALPHA)[log.ranks - 1]).sum()
    mean = expected / sum(log.by_rank(log.impressions) * ALPHA)
    assert weights[~shown] / spread(log.sessions)[~shown] == pytest.approx(mean, rel=1e-3)
    # clicks that trust alone explains are no error, and carry no information
    with pytest.warns(CoverageWarning, match="affine: "):
        weights = estimators.affine(log, ALPHA[:2], [*BETA[:2], 0.1], Deterministic(3), SCORES) / spread(log.sessions)
    assert len(np.unique(weights.round(9))) == 1 + sum(min(length, 2) for length in LENGTHS)


LOG = log_of(ReplaceLast(3))
SEEN = ClickCounts(SHOWN_ONLY + "x", OFFSETS, *[np.empty(0, np.int64)] * 5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("log", ALPHA, BETA), "clicks: str; expected ClickCounts"),
        ((LOG, [], [0.1]), "alpha: 0 at every rank, so clicks carry no information"),
        ((LOG, [0.0, 0.0], BETA), "alpha: 0 at every rank, so clicks carry no information"),
        ((LOG, [0.5, -0.1], BETA), "alpha: -0.1 at rank 2; expected at least 0, more clicks"),
        ((LOG, ALPHA[:1], [0.1, 1.5]), "alpha, beta: no relevance r gives a probability .* at every rank"),
        ((LOG, [0.5, 0.5], [0.1, 1.5]), "alpha, beta: no relevance r gives a probability .* at every rank"),
        ((LOG, ALPHA, [0.1, np.nan]), "beta: entry 1 is nan; expected finite numbers"),
        ((LOG, ALPHA, "low"), "beta: shape"),
        ((LOG, inverse_rank(), BETA), "alpha: a curve without an end; expected one value for each rank"),
        ((LOG, cr.examination.Affine(ALPHA, BETA), BETA), "beta: given together with a user model"),
        ((LOG, ALPHA, BETA, ReplaceLast(3)), "scores: None; expected what the policy ranked by"),
        ((LOG, ALPHA, BETA, None, SCORES), "scores: given without a policy; expected both or none"),
        ((LOG, ALPHA, BETA, ReplaceLast(3), SCORES[1:]), "scores: 17 entries; expected 18"),
        ((LOG, ALPHA, BETA, "replace-last", SCORES), "policy: str; expected a policy"),
        ((LOG, ALPHA, BETA, {"a": (ReplaceLast(3), SCORES)}), "clicks: name no policies"),
        (
            (LOG, ALPHA, BETA, {"a": (ReplaceLast(3), SCORES)}, SCORES),
            "scores: given together with policies",
        ),
        ((LOG, ALPHA, BETA, {}), "clicks: name no policies"),
        ((LOG, ALPHA, BETA, Deterministic(3), SCORES), "alpha, beta: 0 for .* clicks on 8 documents, such as document"),
        ((LOG, ALPHA[:1], BETA[:2]), "alpha, beta: 0 for .* such as document 2 of query 1"),
        ((SEEN, ALPHA, BETA, ReplaceLast(3), SCORES), "clicks: counted without ranking data"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(CounterrankError, match=message):
        estimators.affine(*arguments)


def test_explicit_pages_of_each_query_are_one_policy():
    pages = {q: Explicit([list(range(min(3, length)))], [1.0]) for q, length in enumerate(LENGTHS)}
    log = simulate(DATA, SCORES, pages, THETA, sessions=10**6, click_model=MODEL)
    with pytest.warns(CoverageWarning):
        found = estimators.affine(log, ALPHA, BETA, pages, SCORES)
    with pytest.warns(CoverageWarning):
        assert found == pytest.approx(estimators.affine(log, ALPHA, BETA), rel=1e-9, abs=1e-6)
