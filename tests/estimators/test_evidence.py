"""Evidence about clicks: unknown policies estimated from the log, and curves that must reach every clicked rank."""

import numpy as np
import pytest

import counterrank as cr
from counterrank import estimators, examination, policies, simulation
from counterrank.common.errors import CounterrankError
from counterrank.estimators import Evidence

DATA = cr.make_ranking_data("yahoo", n_queries=30, seed=0)
SCORES = 3.0 * DATA.features[:, 0].astype(float)
EXAM = examination.inverse_rank(3)
CLICKS = simulation.simulate(DATA, SCORES, policies.PlackettLuce(3), EXAM, sessions=3000, seed=1, displays=True)


@pytest.mark.parametrize("smoothing", [0.0, 2.0])
def test_display_frequencies_as_propensities(smoothing):
    found = Evidence(CLICKS, exam=EXAM).with_display_frequencies(smoothing)
    expected = estimators.display_frequencies(CLICKS, EXAM, smoothing)
    np.testing.assert_array_equal(found.propensities.by_document, expected.by_document)
    assert found.propensity_source == ("realised" if smoothing == 0.0 else "estimated")
    assert (found.clicks, found.exam) == (CLICKS, EXAM)


def test_a_fitted_policy_gives_its_propensities():
    found, fitted = Evidence(CLICKS, exam=EXAM).with_fitted_policy(DATA, k=3)
    expected = policies.fit_plackett_luce(DATA, CLICKS, 3)
    rho = expected.policy.propensity(expected.scores, DATA.offsets, EXAM)
    np.testing.assert_array_equal(found.propensities.by_document, rho)
    assert fitted.pages == 3000


@pytest.mark.filterwarnings("ignore::counterrank.CoverageWarning")
def test_under_trust_bias_alpha_takes_the_place_of_the_curve():
    alpha = [0.9, 0.5, 0.3]
    users = examination.Affine(alpha, [0.1, 0.1, 0.1])
    found = Evidence(CLICKS, alpha=alpha, beta=[0.1, 0.1, 0.1]).with_display_frequencies()
    expected = estimators.display_frequencies(CLICKS, users.alpha)
    np.testing.assert_array_equal(found.propensities.by_document, expected.by_document)


def test_a_curve_must_reach_every_rank_with_clicks():
    Evidence(CLICKS, exam=EXAM).check_curve()
    Evidence(CLICKS, exam=[1.0, 0.5, 0.1]).check_curve()
    with pytest.raises(CounterrankError, match=r"exam: 0 at rank 2, but there are clicks .* reaches rank 3"):
        Evidence(CLICKS, exam=[1.0]).check_curve()


def test_policies_that_did_not_make_the_log_are_refused():
    """Where propensities are computed, so that `fit_ranker` and the estimates that take them as `rho` are safe too."""
    right = Evidence(CLICKS, exam=EXAM, policy=policies.PlackettLuce(3), scores=SCORES.tolist())
    right.check_policy()
    assert right.propensity_source == "policy"
    Evidence(CLICKS, exam=EXAM).check_policy()  # nothing to check
    for policy, scores in ((policies.Deterministic(3), SCORES), (policies.ReplaceLast(3), -SCORES)):
        wrong = Evidence(CLICKS, exam=EXAM, policy=policy, scores=scores)
        with pytest.raises(CounterrankError, match=r"^policy, scores: .*% of what the log shows cannot come"):
            _ = wrong.propensities
        with pytest.raises(CounterrankError, match="cannot come from the policy"):
            cr.fit_ranker(DATA, wrong, "policy-aware", cr.Ranker(max_epochs=1))
        trust = Evidence(CLICKS, alpha=[0.9, 0.5, 0.3], beta=[0.1, 0.1, 0.1], policy=policy, scores=scores)
        with pytest.raises(CounterrankError, match="cannot come from the policy"):
            cr.fit_ranker(DATA, trust, "affine", cr.Ranker(max_epochs=1))
    with pytest.warns(UserWarning, match="the log shows documents more or less often than the policy would"):
        _ = Evidence(CLICKS, exam=EXAM, policy=policies.PlackettLuce(3, 0.3), scores=SCORES).propensities


def test_each_of_several_policies_is_compared_with_its_own_pages():
    logs = {
        name: simulation.simulate(DATA, SCORES, policy, EXAM, sessions=3000, seed=1, policy_name=name)
        for name, policy in (("old", policies.Deterministic(3)), ("new", policies.UniformInsert(3)))
    }
    log = cr.ClickCounts.concat(list(logs.values()))
    known = {"old": (policies.Deterministic(3), SCORES), "new": (policies.UniformInsert(3), SCORES)}
    assert (Evidence(log, exam=EXAM, policy=known).propensities.by_document > 0).any()
    swapped = dict(zip(known, reversed(known.values()), strict=True))
    with pytest.raises(CounterrankError, match="of what the log shows cannot come from new with these scores"):
        _ = Evidence(log, exam=EXAM, policy=swapped).propensities
