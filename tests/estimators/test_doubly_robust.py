"""Direct and doubly robust weights: against references, on bad input, and their bias and variance by Monte Carlo.

The Monte Carlo logs hold 20,000 copies of one query, each with sessions of its own: so many independent estimates for
each of its documents. Means are compared with theory in standard errors, and must be within 6 (false alarm 2e-9 for
each document, below 1e-6 for a test; seeds are fixed); where theory says biased, some document is off by more than 20.
"""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank import estimators, evaluation, losses
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.policies import Deterministic, ReplaceLast
from counterrank.clicks.simulation import ClickModel, simulate, trust_bias
from counterrank.common.errors import CounterrankError, CoverageWarning
from tests.reference import relevance as reference
from tests.reference.affine import canonical, expected_at_rank
from tests.support.click_counts import count, worlds

CLOSE, FAR = 6.0, 20.0
COPIES = 20_000
SCORES = [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]
LABELS = np.array([0, 4, 0, 4, 0, 4])
N = len(LABELS)
DATA = cr.RankingData(np.zeros((N * COPIES, 1)), np.arange(0, N * COPIES + 1, N), labels=np.tile(LABELS, COPIES))
THETA = [1.0, 0.6, 0.5]
POLICY = ReplaceLast(3)
TRUTH = np.where(LABELS == 4, 0.9, 0.2)
WRONG = np.array([0.7, 0.1, 0.9, 1.4, -0.3, 0.0])
TRUST = trust_bias(k=3, strength=0.8, relevant=0.95, other=0.1)
ALPHA, BETA, LOW, HIGH = canonical(*TRUST.affine(THETA, 3))


def simulated(model, policy=POLICY, sessions=40, seed=5):
    return simulate(DATA, np.tile(SCORES, COPIES), policy, THETA, sessions=sessions * COPIES, seed=seed,
                    click_model=model)  # fmt: skip


@pytest.fixture(scope="module")
def log():
    return simulated(ClickModel(0.9, 0.2))


@pytest.fixture(scope="module")
def trusting():
    """P(click) is alpha r + beta at each rank, r being 1 for relevant documents and 0 for others."""
    return simulated(TRUST)


def expected(curve, policy=POLICY):
    return np.array(expected_at_rank(policy, SCORES, [0, N], list(curve)))


def tiled(values):
    return np.tile(values, COPIES)


RHO = expected(THETA)


def theory(alpha, beta, truth, relevance, rho, realised):
    """The mean and variance that one session adds to the weight of each document.

    A click has the chance p = a r + b, where a and b are 0 if the document is not shown, else those of its rank. The
    weight gains R + (click - b - a R) / rho, of variance (E[p (1 - p)] + (r - R)^2 Var[a]) / rho^2; without realised
    exposure R + (click - b - rho R) / rho, in which the chance of a remains: (E[p (1 - p)] + r^2 Var[a]) / rho^2.
    """
    alpha, beta = np.array(alpha), np.array(beta)
    gain = expected(alpha)
    noise = np.array([expected((alpha * r + beta) * (1.0 - alpha * r - beta))[d] for d, r in enumerate(truth)])
    scatter = expected(alpha**2) - gain**2
    taken, left = (gain, truth - relevance) if realised else (rho, truth)
    mean = relevance + (gain * truth - taken * relevance) / rho
    return mean, (noise + left**2 * scatter) / rho**2


def z_values(weights, log, mean, variance):
    """How far the sum over copies is from theory, in standard errors, for each document."""
    off = (weights.reshape(-1, N) - log.sessions[:, None] * mean).sum(axis=0)
    return np.abs(off) / np.sqrt(log.n_sessions * variance)


def variances(weights, log, mean):
    """Of each document by session, over the copies."""
    sessions = np.maximum(log.sessions, 1)[:, None]
    return ((weights.reshape(-1, N) - sessions * mean) ** 2 / sessions).mean(axis=0)


def test_unbiased_with_a_wrong_model(log):
    for exam in (None, THETA):
        weights = estimators.doubly_robust(log, tiled(RHO), tiled(WRONG), exam=exam)
        mean, variance = theory(THETA, [0.0] * 3, TRUTH, WRONG, RHO, exam is not None)
        assert mean == pytest.approx(TRUTH)
        assert (z_values(weights, log, TRUTH, variance) < CLOSE).all()
    assert (z_values(estimators.direct(log, tiled(WRONG)), log, TRUTH, variance) > FAR).all()


def test_unbiased_with_a_wrong_propensity_and_a_right_model(log):
    """Only where exposure is what the log shows: with n rho in its place the model cancels."""
    wrong = np.clip(RHO * [0.5, 2.0, 0.3, 1.5, 0.5, 3.0], 0.0, 1.0)
    weights = estimators.doubly_robust(log, tiled(wrong), tiled(TRUTH), exam=THETA)
    mean, variance = theory(THETA, [0.0] * 3, TRUTH, TRUTH, wrong, True)
    assert mean == pytest.approx(TRUTH)
    assert (z_values(weights, log, TRUTH, variance) < CLOSE).all()
    without = estimators.doubly_robust(log, tiled(wrong), tiled(TRUTH))
    assert (z_values(without, log, TRUTH, variance) > FAR).any()
    both_wrong = estimators.doubly_robust(log, tiled(wrong), tiled(WRONG), exam=THETA)
    assert (z_values(both_wrong, log, TRUTH, variance) > FAR).any()


def test_without_realised_exposure_it_is_the_policy_aware_estimator(log):
    aware = estimators.policy_aware(log, tiled(RHO))
    for relevance in (TRUTH, WRONG):
        for tau in (0.0, RHO.min()):
            found = estimators.doubly_robust(log, tiled(RHO), tiled(relevance), tau=tau)
            np.testing.assert_allclose(found, aware, rtol=1e-9, atol=1e-9)


@pytest.mark.statistical
def test_variance_is_what_theory_says(log):
    """Sample variances of 20,000 copies have a relative standard error of 1.2 %; 10 % is rarer than once in 10^6."""
    rho, none = tiled(RHO), [0.0] * 3
    aware = theory(THETA, none, TRUTH, TRUTH, RHO, False)[1]
    right = theory(THETA, none, TRUTH, TRUTH, RHO, True)[1]
    wrong = theory(THETA, none, TRUTH, WRONG, RHO, True)[1]
    assert variances(estimators.policy_aware(log, rho), log, TRUTH) == pytest.approx(aware, rel=0.1)
    for relevance, wanted in ((TRUTH, right), (WRONG, wrong)):
        weights = estimators.doubly_robust(log, rho, tiled(relevance), exam=THETA)
        assert variances(weights, log, TRUTH) == pytest.approx(wanted, rel=0.1)
    moved = expected(np.array(THETA) ** 2) - RHO**2 > 1e-9  # the first two are always at their rank
    assert (moved == [False, False, True, True, True, True]).all()
    assert right[moved] == pytest.approx((aware - TRUTH**2 * (expected(np.array(THETA) ** 2) / RHO**2 - 1.0))[moved])
    assert (right < aware)[moved].all()
    # a model that is off by more than the relevance itself does harm
    assert ((wrong < aware) == (np.abs(TRUTH - WRONG) < TRUTH))[moved].all()


def test_tau_trades_bias_for_variance(log):
    """The bias is (1 - rho / tau) (R - r) for each session, and 0 where the model is right."""
    tau = 0.4
    least = np.maximum(RHO, tau)
    for relevance in (WRONG, TRUTH):
        weights = estimators.doubly_robust(log, tiled(RHO), tiled(relevance), tau=tau, exam=THETA)
        mean, variance = theory(THETA, [0.0] * 3, TRUTH, relevance, least, True)
        assert mean == pytest.approx(TRUTH + (1.0 - RHO / least) * (relevance - TRUTH))
        assert (z_values(weights, log, mean, variance) < CLOSE).all()


def test_unbiased_under_trust_bias(trusting):
    relevant = ((LABELS == 4) - LOW) / (HIGH - LOW)
    gain = expected(ALPHA)
    for relevance, rho in ((WRONG, gain), (relevant, np.clip(gain * 2.5, 0.0, 1.0))):
        weights = estimators.doubly_robust(trusting, tiled(rho), tiled(relevance), exam=ALPHA, beta=BETA)
        mean, variance = theory(ALPHA, BETA, relevant, relevance, rho, True)
        assert mean == pytest.approx(relevant, abs=1e-9)
        assert (z_values(weights, trusting, relevant, variance) < CLOSE).all()
    ignorant = estimators.doubly_robust(trusting, tiled(RHO), tiled(relevant), exam=THETA)
    assert (z_values(ignorant, trusting, relevant, variance) > FAR).any()


def test_documents_that_cannot_be_seen_keep_what_the_model_says():
    log = simulated(ClickModel(0.9, 0.2), Deterministic(3), sessions=2)
    rho = tiled([*THETA, 0.0, 0.0, 0.0])
    hidden = rho == 0.0
    for exam in (None, THETA):
        weights = estimators.doubly_robust(log, rho, tiled(WRONG), exam=exam, tau=0.1)
        np.testing.assert_allclose(weights[hidden], estimators.direct(log, tiled(WRONG))[hidden])
    by_log = estimators.doubly_robust(log, None, tiled(WRONG))  # simulated clicks remember their curve
    np.testing.assert_allclose(by_log, weights, atol=1e-9)


def test_queries_without_sessions_have_no_weight():
    docs, ranks, shown, clicked = np.array([[0], [1], [3], [1]])
    log = ClickCounts("", np.array([0, 2, 4]), np.array([3, 0]), docs, ranks, shown, clicked)
    assert estimators.direct(log, [0.5, 0.25, 0.5, 1.0]).tolist() == [1.5, 0.75, 0.0, 0.0]
    for rho in (None, [1.0, 0.5, 1.0, 0.5]):
        found = estimators.doubly_robust(log, rho, [0.5, 0.25, 0.5, 1.0], exam=[1.0, 0.5])
        assert found[2:].tolist() == [0.0, 0.0]


@given(worlds(), st.data())
@settings(max_examples=100, deadline=None)
def test_against_the_reference(world, data):
    lengths, sessions = world
    log, n = count(lengths, sessions), sum(lengths)
    exam = data.draw(st.none() | st.lists(st.floats(0.01, 0.7), min_size=5, max_size=6))
    beta = exam and data.draw(st.none() | st.lists(st.sampled_from([0.0, 0.1, 0.3]), min_size=5, max_size=6))
    if beta:  # as they are in the canonical gauge
        exam, beta = (curve[:5] for curve in (exam, beta))
        exam, beta, _, _ = canonical(exam, beta)
    rho = data.draw(st.lists(st.floats(0.001, 1.0), min_size=n, max_size=n))
    relevance = data.draw(st.lists(st.floats(-2.0, 2.0), min_size=n, max_size=n))
    tau = data.draw(st.sampled_from([0.0, 0.05, 0.5, 1.0]))
    tally = reference.tallies(lengths, sessions, exam, beta)
    times = [t for _, _, t in tally] if exam else reference.examined_times(tally, rho)
    found = estimators.doubly_robust(log, rho, relevance, tau=tau, exam=exam, beta=beta)
    assert found == pytest.approx(reference.doubly_robust(tally, rho, times, relevance, tau), rel=1e-9, abs=1e-9)
    assert estimators.direct(log, relevance) == pytest.approx([t[0] * r for t, r in zip(tally, relevance, strict=True)])
    if exam:
        own = [t / n if n else 0.0 for n, _, t in tally]
        found = estimators.doubly_robust(log, None, relevance, tau=tau, exam=exam, beta=beta)
        assert found == pytest.approx(reference.doubly_robust(tally, own, times, relevance, tau), rel=1e-9, abs=1e-9)


def test_negative_weights_go_into_every_loss_and_train():
    rng = np.random.default_rng(3)
    labels = np.where(rng.random(1200) < 0.3, 4, 0)
    features = np.column_stack((labels + rng.normal(size=1200), rng.normal(size=(1200, 3))))
    data = cr.RankingData(features, np.arange(0, 1201, 12), labels)
    log = simulate(data, rng.normal(size=1200), ReplaceLast(4), [1.0, 0.5, 0.4, 0.3], sessions=1500, seed=1)
    relevance = estimators.fit_relevance(data, log)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CoverageWarning)
        weights = estimators.doubly_robust(log, None, relevance, tau=0.05)
    assert (weights < 0.0).any()
    scores = rng.normal(size=1200)
    for loss in (losses.arp_hinge, losses.arp_logistic, losses.dcg_hinge, losses.lambdaloss_dcg):
        value, gradient = loss(scores, weights, data.offsets)
        assert np.isfinite(value)
        assert np.isfinite(gradient).all()
    ranker = cr.Ranker(loss="lambdaloss-truncated", k=4, metric="dcg@4", max_epochs=20, seed=0).fit(data, weights)
    found, chance = (
        evaluation.evaluate(by, data, metrics=("ndcg@4",))["ndcg@4"] for by in (ranker.predict(data), scores)
    )
    assert found > chance + 0.2


SMALL = count([2, 1], [(0, (0, 1), {1}), (1, (0,), set())])
R = [0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("log", [1.0], R), {}, "clicks: str; expected ClickCounts"),
        ((SMALL, [1.0, 1.0], R), {}, "rho: 2 entries; expected 3, the number of documents"),
        ((SMALL, [1.0, 2.0, 1.0], R), {}, "rho: 2 for document 1 of query 0; expected probabilities from 0 to 1"),
        ((SMALL, [0.0, 1.0, 1.0], R), {}, "rho: 0 for 1 click on 1 document, such as document 0 of query 0"),
        ((SMALL, [1.0, 1.0, 1.0], R), {"exam": [0.0, 0.5]}, "exam: 0 at rank"),
        ((SMALL, None, R), {"exam": [0.0, 0.5]}, "exam: 0 at rank"),
        ((SMALL, None, R), {}, "rho: None, and so is exam; expected"),
        ((SMALL, None, R), {"beta": [0.1]}, "exam: None with beta given; expected alpha by rank"),
        ((SMALL, None, R), {"exam": [0.0]}, "examination: 0 at every rank, so nothing is ever examined"),
        ((SMALL, None, R), {"exam": [1.2]}, "examination: 1.2 at rank 1; expected probabilities from 0 to 1"),
        ((SMALL, None, R), {"exam": [0.0], "beta": [0.2]}, "alpha: 0 at every rank, so clicks carry no"),
        ((SMALL, [1.0] * 3, R), {"exam": [0.5, 0.0], "beta": [0.1, -0.2]}, "alpha, beta: no relevance r"),
        ((SMALL, [1.0] * 3, R[:2]), {}, "relevance: 2 entries; expected 3, the number of documents"),
        ((SMALL, [1.0] * 3, [0.5, np.nan, 0.5]), {}, "relevance: entry 1 is nan; expected finite numbers"),
        ((SMALL, [1.0] * 3, "high"), {}, "relevance: shape"),
        ((SMALL, [1.0] * 3, R), {"tau": -0.1}, "tau=-0.1: expected a number from 0 to 1"),
        ((SMALL, [1.0] * 3, R), {"tau": 1.5}, "tau=1.5: expected"),
        ((SMALL, [1.0] * 3, R), {"tau": np.nan}, "tau=nan: expected"),
        ((SMALL, [1.0] * 3, R), {"tau": True}, "tau=True: expected"),
        ((SMALL, [1.0] * 3, R), {"tau": "0"}, "tau='0': expected"),
    ],
)
def test_bad_input(arguments, options, message):
    with pytest.raises(CounterrankError, match=message):
        estimators.doubly_robust(*arguments, **options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((None, R), "clicks: NoneType; expected ClickCounts"), ((SMALL, [[0.5]]), r"relevance: shape \(1, 1\); expected")],
)
def test_bad_input_of_direct(arguments, message):
    with pytest.raises(CounterrankError, match=message):
        estimators.direct(*arguments)


def test_clicks_that_trust_alone_explains_are_no_error():
    found = estimators.doubly_robust(SMALL, None, R, exam=[0.0, 0.5], beta=[0.5, 0.0])
    assert found.tolist() == pytest.approx([0.5, 0.5 + (0.0 - 0.5 * 0.5) / 0.5, 0.5])
