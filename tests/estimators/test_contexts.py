"""Estimators under user models by context: against the slow way, and unbiased where one curve for all is not.

Monte Carlo tests compare weights per session with the attractiveness of each document in units of the exact standard
error, given the sessions of each context. All must be below 6 (false alarm 2e-9 for each document, below 1e-6 for a
test; seeds are fixed). Where weights are biased, the same comparison must fail by more than 20.
"""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import counterrank as cr
from counterrank import estimators, evaluation, examination, policies
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import Examination
from counterrank.clicks.policies.propensity import exact_propensity
from counterrank.clicks.simulation import ClickModel, simulate
from counterrank.common.errors import CounterrankError, CoverageWarning
from counterrank.estimators import Evidence
from counterrank.estimators.relevance import examinations
from tests.reference import contexts as naive

OFFSETS = np.arange(0, 25, 6)
LABELS = np.arange(24) * 7 % 5
DATA = cr.RankingData(np.column_stack((LABELS, np.sin(np.arange(24.0)))), OFFSETS, labels=LABELS)
SCORES = np.cos(np.arange(24.0))
POLICY = policies.UniformInsert(k=3)
CURVES = {"pc": [1.0, 0.7, 0.5], "phone": [0.8, 0.3, 0.1]}
USERS = examination.ByContext(CURVES)
FREQUENCIES = {"pc": [8.0, 4.0, 2.0, 1.0], "phone": [1.0, 2.0, 4.0, 8.0]}
SESSIONS = {"pc": 1_500_000, "phone": 1_500_000}
E0, E1 = 0.1, 0.9
CLICKED = np.where(LABELS >= 3, E1, E0)
N_DOCS = 24


def log_of(curves=CURVES, sessions=SESSIONS, shown=None, **options):
    shown = shown or dict.fromkeys(curves, (POLICY, SCORES))
    parts = [
        simulate(DATA, shown[name][1], shown[name][0], curve, sessions=sessions[name], seed=i, context=name,
                 query_frequencies=FREQUENCIES[name], click_model=ClickModel(E1, E0), **options)
        for i, (name, curve) in enumerate(curves.items())
    ]  # fmt: skip
    return ClickCounts.concat(parts)


LOG = log_of(displays=True)
SMALL = log_of(sessions={"pc": 60, "phone": 50})
TIMES = np.repeat(LOG.sessions, np.diff(OFFSETS))


def expected(curves=CURVES, shown=None):
    shown = shown or dict.fromkeys(curves, (POLICY, SCORES))
    return np.stack([exact_propensity(*shown[name], OFFSETS, Examination(curve)) for name, curve in curves.items()])


def errors(weights, rho, log=LOG):
    """Differences from the attractiveness in standard errors of a weighted number of clicks."""
    times = np.repeat(log.sessions, np.diff(OFFSETS))
    chance = rho * CLICKED
    return (weights / times - CLICKED) / np.sqrt(chance * (1.0 - chance) / times) * rho


def test_the_mean_over_sessions_of_all_contexts():
    rho = Evidence(SMALL, exam=USERS, policy=POLICY, scores=SCORES).propensities
    slow = naive.mean_propensity(SMALL.policy_sessions.tolist(), OFFSETS, expected())
    np.testing.assert_allclose(np.asarray(rho), slow)
    named = log_of(sessions={"pc": 60, "phone": 50}, policy_name="v1")
    several = policies.several_policies(named, {"v1": (POLICY, SCORES)}, USERS)
    np.testing.assert_allclose(several, slow)


def test_policies_may_differ_between_contexts():
    shown = {"pc": (POLICY, SCORES), "phone": (policies.ReplaceLast(3), -SCORES)}
    parts = [
        simulate(DATA, scores, policy, CURVES[name], sessions=100, seed=i, context=name, policy_name=f"of {name}")
        for i, (name, (policy, scores)) in enumerate(shown.items())
    ]
    log = ClickCounts.concat(parts)
    found = policies.several_policies(log, {f"of {name}": pair for name, pair in shown.items()}, USERS)
    np.testing.assert_allclose(
        found, naive.mean_propensity(log.policy_sessions.tolist(), OFFSETS, expected(shown=shown))
    )
    with pytest.raises(CounterrankError, match="one for a log of several"):
        _ = Evidence(log, exam=USERS, policy=POLICY, scores=SCORES).propensities


@pytest.mark.parametrize("estimator", ["policy_aware", "affine", "realised", "policy_oblivious", "frequencies"])
def test_equal_curves_give_what_a_log_without_contexts_gives(estimator):
    """Weights of one user model in two contexts, and of the same clicks with their contexts taken away."""
    same = examination.ByContext(dict.fromkeys(CURVES, CURVES["pc"]))
    small = _without(SMALL)
    merged = ClickCounts.concat([_plain(small, context) for context in CURVES])

    def weights(log, exam):
        if estimator == "policy_aware":
            return estimators.policy_aware(log, Evidence(log, exam=exam, policy=POLICY, scores=SCORES).propensities)
        if estimator == "affine":
            return estimators.affine(log, exam, None, POLICY, SCORES)
        if estimator == "realised":
            return estimators.policy_aware(log, None, exam=exam)
        if estimator == "frequencies":
            return policies.propensity_from_log(log, exam, smoothing=5.0).propensities
        return estimators.policy_oblivious(log, exam)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = weights(small, same)
        plain = weights(merged, examination.Affine(CURVES["pc"], [0.0, 0.0, 0.0]))
    np.testing.assert_allclose(found, plain, rtol=1e-12)


def _plain(log, context):
    """The sessions of one context, without it."""
    number = log.contexts.index(context)
    own = log.policies == number
    cells = {**log.cells_at(own), "policies": None}
    return replace(log, **cells, policy_names=(), contexts=(), policy_sessions=None, displays=None,
                   sessions=log.policy_sessions[number], examination=None, origin=None)  # fmt: skip


def test_logged_propensities_that_do_not_depend_on_the_context():
    """Contexts of one policy are one: a document that one of them never showed has a known propensity."""
    log = log_of(dict.fromkeys(CURVES, CURVES["pc"]), {"pc": 40, "phone": 40})
    found = estimators.logged_propensities(log)
    assert found.source == "logged"
    other = estimators.logged_propensities(LOG)  # computed with a curve for each context
    assert other.source == "mean"
    np.testing.assert_allclose(
        other.by_document, naive.mean_propensity((LOG.policy_sessions // 1000).tolist(), OFFSETS, expected()), rtol=0.02
    )


def test_errors_name_what_is_missing():
    plain = simulate(DATA, SCORES, POLICY, CURVES["pc"], sessions=100)
    with pytest.raises(CounterrankError, match="hold no contexts"):
        estimators.policy_oblivious(plain, USERS)
    with pytest.raises(CounterrankError, match="no curve for the context 'phone'"):
        estimators.policy_oblivious(SMALL, examination.ByContext({"pc": CURVES["pc"]}))
    with pytest.raises(CounterrankError, match="0 at rank 3 of the context 'phone'"):
        Evidence(LOG, exam=examination.ByContext({"pc": CURVES["pc"], "phone": [0.8, 0.3]})).check_curve()
    with pytest.raises(CounterrankError, match="a curve for each context"):
        simulate(DATA, SCORES, POLICY, USERS, sessions=100)


def test_click_rates_by_context():
    found = evaluation_rates(LOG, USERS)
    np.testing.assert_allclose(found.unclipped_rate, CLICKED, atol=0.02)
    assert found.summary()["examination"]["phone"][0] == 0.8
    estimated = evaluation_rates(LOG, examination.estimate(LOG))
    assert (estimated.rate_low <= evaluation_rates(LOG, USERS).rate).mean() > 0.9


def evaluation_rates(log, users):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cr.click_rates(log, users)


def test_rerank_takes_the_curve_of_each_page():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)
        views, sums = estimators.rerank(LOG, USERS), estimators.policy_oblivious(LOG, USERS)
    np.testing.assert_allclose(np.bincount(views.docs, views.weights, N_DOCS), sums)


def test_examinations_take_the_curve_of_each_context():
    log = log_of(sessions={"pc": 60, "phone": 50})
    seen = examinations(_without(log), None, USERS)
    slow = np.zeros(N_DOCS)
    for doc, rank, policy, shown in zip(log.docs, log.ranks, log.policies, log.impressions, strict=True):
        slow[doc] += shown * CURVES[log.contexts[policy]][rank - 1]
    np.testing.assert_allclose(seen.times, slow)


@pytest.mark.statistical
def test_weights_by_context_are_unbiased_and_others_are_not():
    rho = np.asarray(Evidence(LOG, exam=USERS, policy=POLICY, scores=SCORES).propensities)
    assert np.abs(errors(estimators.policy_aware(LOG, rho), rho)).max() < 6.0
    assert np.abs(errors(estimators.affine(LOG, USERS, None, POLICY, SCORES), rho)).max() < 6.0
    for curve in CURVES.values():  # the curve of one context for both
        wrong = exact_propensity(POLICY, SCORES, OFFSETS, Examination(curve))
        assert np.abs(errors(estimators.policy_aware(_without(LOG), wrong), rho)).max() > 20.0
    pooled = examination.estimate(LOG, by_context=False)
    wrong = exact_propensity(POLICY, SCORES, OFFSETS, pooled.examination)
    weights = estimators.policy_aware(_without(LOG), wrong)
    assert np.abs(errors(weights, rho)).max() > 20.0
    ratio = weights / TIMES / CLICKED
    assert ratio.max() / ratio.min() > 1.3  # queries of phones look that much less relevant than those of computers


def _without(log):
    """Without the propensities that were logged, which contradict the wrong ones with a warning."""
    return replace(log, propensities=None)


@pytest.mark.statistical
def test_weights_with_the_joint_fit():
    """Of fitted curves the error of the fit comes on top: weights are within 3 % of the truth up to one factor."""
    fitted = examination.estimate(LOG)
    rho = np.asarray(Evidence(LOG, exam=fitted, policy=POLICY, scores=SCORES).propensities)
    ratio = estimators.policy_aware(_without(LOG), rho) / TIMES / CLICKED
    np.testing.assert_allclose(ratio / ratio.mean(), 1.0, atol=0.03)


@pytest.mark.statistical
@pytest.mark.parametrize("method", ["ips", "dr"])
def test_estimates_by_context(method):
    """Estimated metrics against their value from the attractiveness: z below 5 (false alarm below 1e-5)."""
    rho = Evidence(LOG, exam=USERS, policy=POLICY, scores=SCORES).propensities
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = evaluation.estimate(SCORES, DATA, LOG, rho=np.asarray(rho), exam=USERS, method=method,
                                    population="these-queries")["dcg@5"]  # fmt: skip
    discount = np.zeros(N_DOCS)
    for begin in OFFSETS[:-1]:
        order = np.argsort(-SCORES[begin : begin + 6])
        discount[begin + order[:5]] = 1.0 / np.log2(np.arange(2.0, 7.0))
    truth = float((TIMES * CLICKED * discount).sum() / LOG.n_sessions)
    error = (found.ips_interval[1] - found.ips_interval[0]) / 2.0 / 1.96
    assert abs(found.ips - truth) < 5.0 * error
