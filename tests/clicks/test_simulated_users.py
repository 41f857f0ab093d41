"""Users by name or from a file: their numbers, clicks in proportion to them, and bad input."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import counterrank as cr
from counterrank import examination, policies, simulation
from counterrank.clicks.simulated_users import PRESETS, from_text, has_trust_bias, preset, users_text
from counterrank.clicks.users import ClickModel, simulated
from counterrank.common.errors import CounterrankError

DATA = cr.make_ranking_data("yahoo", n_queries=40, seed=0)
SCORES = DATA.features[:, 0]


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("k", [1, 2, 10, 30])
def test_a_user_model_holds_the_curve_and_the_click_model_of_its_preset(name, k):
    curve, model = preset(name, k)
    found, clicked = simulated(simulation.users(name, k))
    np.testing.assert_allclose(found.curve(k), curve.curve(k), atol=1e-8)
    for one, other in zip(clicked.by_rank(k), model.by_rank(k), strict=True):
        np.testing.assert_allclose(found.curve(k) * one, curve.curve(k) * other, atol=1e-8)


def test_the_presets_are_what_was_measured():
    curve, model = preset("yandex", 12)
    assert curve.curve(12)[:4].tolist() == [1.0, 0.49, 0.30, 0.22]
    assert curve.curve(12)[10] == pytest.approx(0.08 * 0.08 / 0.09)
    other, relevant = model.by_rank(12)
    assert (other[0], other[9], other[11], set(relevant)) == (0.41, 0.25, 0.25, {0.69})
    assert preset("paper", 3)[1] == ClickModel()
    assert has_trust_bias(simulation.users("yandex"))
    assert not has_trust_bias(simulation.users("baidu"))
    assert simulation.users("baidu").k == 10


def test_clicks_follow_the_user_model():
    """Rates at each rank within five standard errors, 2 x 5 of them; seed fixed."""
    users = simulation.users("yandex", 5)
    clicks = simulation.simulate(DATA, SCORES, policies.UniformInsert(5), users, sessions=400_000, seed=0)
    relevant = DATA.labels[clicks.docs] >= 3
    for level, chosen in zip(users.relevance, (~relevant, relevant), strict=True):
        for rank in range(1, 6):
            there = chosen & (clicks.ranks == rank)
            n, p = clicks.impressions[there].sum(), users.alpha[rank - 1] * level + users.beta[rank - 1]
            assert abs(clicks.clicks[there].sum() / n - p) < 5.0 * np.sqrt(p * (1.0 - p) / n)
    assert clicks.examination.curve(5)[1] == pytest.approx(0.49)


def test_the_papers_users_are_those_that_simulate_has_without_them():
    one = simulation.simulate(DATA, SCORES, policies.ReplaceLast(5), simulation.users("paper", 5), sessions=10**5)
    other = simulation.simulate(DATA, SCORES, policies.ReplaceLast(5), examination.inverse_rank(5), sessions=10**5)
    assert abs(one.n_clicks - other.n_clicks) < 5.0 * np.sqrt(one.n_clicks)
    np.testing.assert_allclose(one.propensities, other.propensities, atol=1e-8)


def test_a_fitted_curve_is_simulated_from_its_file(tmp_path):
    """Fit, save, simulate and fit again: the curve is that of the file."""
    made = simulation.simulate(DATA, SCORES, policies.PlackettLuce(4), [1.0, 0.6, 0.4, 0.2], sessions=400_000, seed=0)
    fitted = examination.estimate(made)
    fitted.save(tmp_path / "users.json")
    users = simulation.users(tmp_path / "users.json", relevance=(0.2, 0.7))
    again = examination.estimate(
        simulation.simulate(DATA, SCORES, policies.PlackettLuce(4), users, sessions=400_000, seed=1)
    )
    np.testing.assert_allclose(again.values, fitted.values, rtol=0.05)
    assert users.relevance == (0.2, 0.7)
    assert simulation.users(tmp_path / "users.json").relevance == (0.1, 1.0)


def test_an_affine_model_is_simulated_from_its_file(tmp_path):
    simulation.users("yandex", 5).save(tmp_path / "users.json")
    assert simulation.users(tmp_path / "users.json") == simulation.users("yandex", 5)
    text = users_text(str(tmp_path / "users.json"))
    assert users_text(text) == text
    curve, model = from_text(text, 5)
    np.testing.assert_allclose(curve.curve(5), preset("yandex", 5)[0].curve(5), atol=1e-8)
    assert model.relevant == pytest.approx(0.69)
    examination.Affine([0.5, 0.3], [0.2, 0.1]).save(tmp_path / "no-levels.json")
    with pytest.raises(CounterrankError, match="without the relevance of irrelevant and of relevant documents"):
        simulation.users(tmp_path / "no-levels.json")
    with pytest.raises(CounterrankError, match="without the relevance of irrelevant and relevant documents"):
        simulation.simulate(
            DATA, SCORES, policies.ReplaceLast(2), examination.Affine([0.5, 0.3], [0.2, 0.1]), sessions=10
        )
    assert simulation.users(tmp_path / "no-levels.json", relevance=(0.1, 0.9)).relevance == (0.1, 0.9)


def test_a_click_model_still_goes_with_a_fitted_curve():
    """A position-based user model is a curve, whatever else is known of it."""
    users = simulation.users("baidu", 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        given = simulation.simulate(DATA, SCORES, policies.ReplaceLast(5), users, sessions=10, click_model=ClickModel())
    assert given.n_sessions == 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("bing",), "users 'bing': expected one of paper, baidu, yandex, or a file"),
        (("yandex", 0), "k=0"),
        (("no/such/file.json",), "or a file of a user model that is there"),
    ],
)
def test_bad_users_are_named(arguments, message):
    with pytest.raises(CounterrankError, match=message):
        simulation.users(*arguments)


def test_levels_of_presets_are_their_own(tmp_path):
    with pytest.raises(CounterrankError, match="relevance: given for the preset yandex"):
        simulation.users("yandex", relevance=(0.1, 1.0))
    simulation.users("baidu", 5).save(tmp_path / "users.json")
    with pytest.raises(CounterrankError, match="which has its own number of ranks"):
        simulation.users(tmp_path / "users.json", 5)
    with pytest.raises(CounterrankError, match="trust bias"):  # a click model does not go with it
        simulation.simulate(
            DATA, SCORES, policies.ReplaceLast(5), simulation.users("yandex"), sessions=9, click_model=ClickModel()
        )
