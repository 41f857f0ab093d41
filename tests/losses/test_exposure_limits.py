"""Limits on exposure against the objectives written out over all rankings, and central differences of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import counterrank as cr
from counterrank.examination import Examination
from counterrank.losses import SafeWeights, named_loss
from counterrank.losses.exposure_limits import ExposureLimit, advantages, at_risk, limited_spec, risk_spec
from counterrank.losses.loss_kernels import run_loss
from counterrank.losses.plackett_luce import EXPOSURE, PRPO
from tests.reference.plackett_luce import exposure_gradient, propensities

EXAM = [1.0, 0.5, 0.25]
OFFSETS = np.array([0, 4, 7, 8])
SCORES = np.array([0.3, -0.5, 1.0, 0.1, 0.0, 0.0, 0.8, 2.0])
LOGGED = np.array([1.0, 0.4, 0.15, 0.1, 0.6, 0.6, 0.5, 1.0])
CLICKS = np.array([3.0, 0.0, 8.0, 0.0, 0.0, 5.0, 0.0, 2.0])
SESSIONS = np.array([20.0, 9.0, 2.0])
SAMPLES = 200_000


def safety():
    return SafeWeights(CLICKS, LOGGED, SESSIONS, EXAM).checked(OFFSETS)


def exposures(scores):
    return np.concatenate([propensities(list(scores[a:b]), EXAM) for a, b in itertools.pairwise(OFFSETS)])


def exposure_objective(scores, weights, delta):
    """- sum w rho + sqrt(N (1 - delta) / delta) / W sqrt(D), weights summing to 1."""
    rho, total = exposures(scores), SESSIONS.sum()
    share = np.repeat(SESSIONS / total, np.diff(OFFSETS))
    risk = float((share * rho**2 / LOGGED).sum())
    return -float(weights @ rho) + np.sqrt(total * (1 - delta) / delta) / CLICKS.sum() * np.sqrt(risk), risk


def prpo_objective(scores, weights, low, high):
    """- sum f(rho / rho0) rho0 w."""
    x = exposures(scores) / LOGGED
    return -float((np.where(weights >= 0, np.minimum(x, high), np.maximum(x, low)) * LOGGED * weights).sum())


def slopes(objective, scores, step=1e-5):
    unit = np.eye(len(scores))
    return np.array([(objective(scores + step * e) - objective(scores - step * e)) / (2 * step) for e in unit])


def spec_of(form, **limit):
    risk = "exposure" if form == EXPOSURE else "prpo"
    found = ExposureLimit.check(risk, **{"delta": 0.05, "low": 0.5, "high": 2.0} | limit)
    spec = named_loss("plackett-luce").configured(samples=SAMPLES).spec(5, 4)
    return limited_spec(spec, form, found, safety(), OFFSETS)


@pytest.mark.parametrize("delta", [0.05, 0.9])
def test_exposure_based_risk(delta):
    """200,000 rankings a query: rewards are at most 3, so the error of each number is some 0.01 at most."""
    weights = CLICKS / CLICKS.sum()
    spec = spec_of(EXPOSURE, delta=delta)
    risk, _ = run_loss(risk_spec(spec), SCORES, weights, OFFSETS, None)
    value, gradient = run_loss(at_risk(spec, risk), SCORES, weights, OFFSETS, None)
    expected, exact_risk = exposure_objective(SCORES, weights, delta)
    assert risk == pytest.approx(exact_risk, rel=0.01)
    assert value == pytest.approx(expected, abs=0.01)
    exact = slopes(lambda s: exposure_objective(s, weights, delta)[0], SCORES)
    np.testing.assert_allclose(gradient, exact, atol=0.01)
    assert np.abs(exact).max() > 0.05


@pytest.mark.parametrize("limits", [(0.5, 2.0), (0.0, 1.0), (0.9, 1.1), (0.0, 1e9)])
def test_prpo(limits):
    """As above; no ratio is so close to a limit that its estimate could fall on the other side."""
    weights = advantages(CLICKS, safety(), OFFSETS) / CLICKS.sum()
    assert (weights < 0).sum() == 4
    ratios = exposures(SCORES) / LOGGED
    assert np.abs(ratios[:, None] - np.array(limits)).min(axis=0)[0] > 1e-3
    value, gradient = run_loss(spec_of(PRPO, low=limits[0], high=limits[1]), SCORES, weights, OFFSETS, None)
    assert value == pytest.approx(prpo_objective(SCORES, weights, *limits), abs=0.01)
    exact = slopes(lambda s: prpo_objective(s, weights, *limits), SCORES)
    np.testing.assert_allclose(gradient, exact, atol=0.01)


def test_without_a_limit_that_acts_prpo_has_the_gradient_of_the_plain_reward():
    weights = advantages(CLICKS, safety(), OFFSETS)
    plain = np.concatenate(
        [weights[a:b] @ np.array(exposure_gradient(list(SCORES[a:b]), EXAM)) for a, b in itertools.pairwise(OFFSETS)]
    )
    exact = slopes(lambda s: prpo_objective(s, weights, 0.0, 1e9), SCORES)
    np.testing.assert_allclose(exact, -plain, atol=1e-6)


def test_advantages_take_a_constant_off_the_exposure_of_a_query():
    centred = advantages(CLICKS, safety(), OFFSETS)
    for a, b in itertools.pairwise(OFFSETS):
        assert float(LOGGED[a:b] @ centred[a:b]) == pytest.approx(0.0, abs=1e-12)
        assert np.ptp(CLICKS[a:b] - centred[a:b]) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.statistical
@pytest.mark.representative
def test_gradient_of_the_risk_is_unbiased_with_one_ranking():
    """Given D, the mean over 40,000 streams of one ranking each (and one for rho) against that of many rankings.

    Standard errors of 8 numbers, |z| < 5.5: false alarm below 1e-6, seed fixed.
    """
    copies = 40_000
    offsets = np.arange(copies + 1) * 4
    weights = CLICKS[:4] / CLICKS.sum()
    one = SafeWeights(np.tile(CLICKS[:4], copies), np.tile(LOGGED[:4], copies), np.full(copies, 20.0), EXAM)
    limit = ExposureLimit.check("exposure", 0.05, 0.5, 2.0)
    spec = named_loss("plackett-luce").configured(samples=1).spec(5, 4)
    spec = limited_spec(spec, EXPOSURE, limit, one.checked(offsets), offsets)
    rho, jacobian = np.array(propensities(list(SCORES[:4]), EXAM)), np.array(exposure_gradient(list(SCORES[:4]), EXAM))
    scale = 2.0 * copies  # of logged, which holds shares of sessions
    spec = spec._replace(parameters=spec.parameters._replace(scale=scale))
    _, gradient = run_loss(spec, np.tile(SCORES[:4], copies), np.tile(weights, copies), offsets, None)
    by_copy = gradient.reshape(copies, 4)
    expected = -(weights - 2.0 * rho / LOGGED[:4]) @ jacobian
    assert (np.abs(by_copy.mean(axis=0) - expected) < 5.5 * by_copy.std(axis=0) / np.sqrt(copies)).all()


BAD = [
    ({"propensities": [0.0, *LOGGED[1:]]}, "propensities: 0 of document 0; expected a logging policy that shows"),
    ({"propensities": LOGGED[:3]}, "propensities: 3 entries; expected 8"),
    ({"sessions": [1.0, 2.0]}, "sessions: 2 entries; expected 3"),
    ({"sessions": [0.0, 0.0, 0.0]}, "sessions: expected numbers of at least 0 by query, not all 0"),
    ({"scores": [1.0]}, "scores: 1 entries; expected 8"),
    ({"exam": 1.0}, "exam: float"),
    ({"weights": [1.0]}, "weights: 1 entries"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_safe_weights(change, message):
    given = {"weights": CLICKS, "propensities": LOGGED, "sessions": SESSIONS, "exam": Examination(EXAM)} | change
    with pytest.raises(cr.CounterrankError, match=message):
        SafeWeights(**given).checked(OFFSETS)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"delta": 0.0}, "delta=0.0"),
        ({"low": 1.5}, "low=1.5"),
        ({"high": 0.5}, "high=0.5"),
        ({"risk": "safe"}, "risk='safe'"),
    ],
)
def test_bad_limits(params, message):
    with pytest.raises(cr.CounterrankError, match=message):
        named_loss("plackett-luce").configured(**{"risk": "prpo"} | params)
