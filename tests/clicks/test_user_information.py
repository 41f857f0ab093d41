"""The information on users against the whole Fisher matrix, what identifies users, and against actual fits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank import examination, policies, simulation
from counterrank.clicks.policies.propensity import rank_probabilities
from counterrank.clicks.user_information import MODELS, user_information
from tests.reference.user_information import profiled


@st.composite
def displays(draw):
    """One to six documents at one to four ranks, some never shown, with probabilities inside (0, 1)."""
    n, k = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    shown = draw(st.lists(st.sampled_from([0.0, 0.3, 2.0, 50.0]), min_size=n * k, max_size=n * k))
    relevance = draw(st.lists(st.floats(0.1, 0.9), min_size=n, max_size=n))
    alpha = draw(st.lists(st.floats(0.1, 0.7), min_size=k, max_size=k))
    beta = draw(st.lists(st.floats(0.01, 0.3), min_size=k, max_size=k))
    return np.reshape(shown, (n, k)), np.array(relevance), np.array(alpha), np.array(beta)


@settings(deadline=None)
@given(displays(), st.sampled_from(MODELS))
def test_information_is_that_of_all_parameters_with_relevance_profiled_out(world, model):
    shown, relevance, alpha, beta = world
    base = beta if model == "affine" else np.zeros(len(alpha))
    found = user_information(shown, relevance, alpha, base, model)
    np.testing.assert_allclose(
        found.matrix, profiled(shown, relevance, alpha, base, model), atol=1e-8 * (1 + shown.sum())
    )


@settings(deadline=None)
@given(displays(), st.floats(0.3, 3.0), st.floats(-0.5, 0.5))
def test_errors_do_not_depend_on_the_gauge(world, scale, shift):
    """r -> (r - shift) / scale with alpha scale and beta + alpha shift has the same clicks."""
    shown, relevance, alpha, beta = world
    one = user_information(shown, relevance, alpha, beta)
    other = user_information(shown, (relevance - shift) / scale, alpha * scale, beta + alpha * shift)
    if one.identified and other.identified:  # both up to rounding
        np.testing.assert_allclose(one.ratio_errors(), other.ratio_errors(), rtol=1e-4)


def of_policy(policy, k=4, relevance=(0.1, 0.9)):
    data = cr.make_ranking_data("yahoo", n_queries=60, seed=0)
    shown = 1000.0 * rank_probabilities(policy, data.features[:, 0], data.offsets, k)
    levels = np.where(data.labels >= 3, relevance[1], relevance[0])
    alpha = np.array([0.9, 0.5, 0.3, 0.2])[:k]
    return [user_information(shown, levels, alpha, None, model) for model in MODELS]


@pytest.mark.parametrize("policy", [policies.Deterministic(4), policies.ReplaceLast(4), policies.EpsilonGreedy(4, 0.3)])
def test_documents_at_one_rank_each_tell_nothing(policy):
    for found in of_policy(policy):
        assert found.rank == 0
        assert np.isinf(found.ratio_errors()[1:]).all()


def test_documents_that_move_identify_users_up_to_the_gauge():
    mixed = policies.Mixture([policies.UniformInsert(4), policies.Deterministic(4)], [0.1, 0.9])
    for policy in (policies.UniformInsert(4), policies.PlackettLuce(4), mixed):
        curve, affine = of_policy(policy)
        assert (curve.rank, affine.rank) == (3, 6)  # k - 1 and 2k - 2
        assert 0.0 < curve.ratio_errors()[1:].min() < affine.ratio_errors().max() < np.inf


def test_documents_of_equal_relevance_do_not_identify_trust_bias():
    curve, affine = of_policy(policies.UniformInsert(4), relevance=(0.5, 0.5))
    assert curve.identified
    assert not affine.identified


@pytest.mark.statistical
def test_all_pairs_is_about_as_precise_as_the_information_says():
    """60 logs. The standard deviation at the worst rank is 1.1 times the bound; its own error is 9 %."""
    data = cr.make_ranking_data("mslr", n_queries=150, seed=0)
    scores, users = (
        data.labels + 1.5 * np.random.default_rng(1).standard_normal(data.n_docs),
        simulation.users("baidu", 4),
    )
    policy, sessions = policies.UniformInsert(4), 100_000
    shown = sessions * rank_probabilities(policy, scores, data.offsets, 4) / data.n_queries
    levels = np.where(data.labels >= 3, users.relevance[1], users.relevance[0])
    expected = user_information(shown, levels, users.alpha, None, "position-based").ratio_errors()[1:]
    found = [
        examination.estimate(simulation.simulate(data, scores, policy, users, sessions=sessions, seed=seed)).values[1:]
        for seed in range(60)
    ]
    ratio = np.std(found, axis=0, ddof=1) / users.alpha[1:] / expected
    assert (ratio > 0.75).all()
    assert (ratio < 1.5).all()
