"""The candidates of cross-validation, which of them are kept, and the average of rankers."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterrank import estimators
from counterrank.estimators.registry import ESTIMATORS
from counterrank.estimators.relevance import examinations
from counterrank.losses.loss_registry import named_loss
from counterrank.training.cross_validation import Candidate, candidates, choose_one, mean_ranker, standings
from counterrank.training.gradient_descent import LinearProblem
from counterrank.training.linear_training import natural_learning_rate
from tests.support.few_click_logs import EXAM, logged, quick

AWARE = ESTIMATORS["policy-aware"]


@pytest.fixture(scope="module")
def log():
    return logged()


# Candidates ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_exam", [True, False])
def test_candidates_weigh_as_the_estimators_do(log, with_exam):
    data, clicks, rho = log
    seen = examinations(clicks, rho, EXAM if with_exam else None)
    exam = EXAM if with_exam else None
    relevance = np.random.default_rng(0).random(data.n_docs)
    dr, shrinkage = ESTIMATORS["doubly-robust"], ESTIMATORS["shrinkage"]
    expected = [
        (Candidate(AWARE), estimators.policy_aware(clicks, rho)),
        (Candidate(AWARE, {"clip": 7.0}), estimators.policy_aware(clicks, rho, clip=7)),
        (Candidate(ESTIMATORS["direct"]), estimators.direct(clicks, relevance)),
        (Candidate(dr, {"tau": 0.1}), estimators.doubly_robust(clicks, rho, relevance, tau=0.1, exam=exam)),
        (Candidate(shrinkage, {"strength": 2.0}), estimators.shrinkage(clicks, rho, relevance, strength=2, exam=exam)),
        (Candidate(shrinkage, multiple=3.0), estimators.shrinkage(clicks, rho, relevance, strength=6, exam=exam)),
    ]
    for candidate, weights in expected:
        np.testing.assert_allclose(candidate.weigh(seen, relevance, likely=2.0), weights, rtol=1e-12)


def test_what_auto_tries():
    found = candidates(ESTIMATORS["auto"], {})
    assert [each.estimator.name for each in found] == ["shrinkage"] * 3 + ["direct"] + ["doubly-robust"] * 2 + [
        "policy-aware"
    ]
    assert [each.settings(2.0)["strength"] for each in found[:3]] == [2.0, 6.0, 20.0]
    only = candidates(ESTIMATORS["auto"], {"tau": 0.5, "strength": 4.0, "clip": 30.0})
    assert [each.settings(1.0) for each in only] == [{"strength": 4.0}, {}, {"tau": 0.5}, {"clip": 30.0}]


# The choice ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.floats(-100, 100), min_size=4, max_size=4), min_size=1, max_size=5))
def test_standings_by_their_definition(rows):
    parts = [np.array(row) for row in rows]
    best = max(parts, key=lambda part: part.sum())
    for part, found in zip(parts, standings(parts, -1.0), strict=True):
        gaps = [a - b for a, b in zip(best, part, strict=True)]
        mean = sum(gaps) / 4
        error = math.sqrt(4 * sum((gap - mean) ** 2 for gap in gaps) / 3)
        assert found.value == pytest.approx(-part.sum())
        assert found.behind == pytest.approx(sum(gaps), abs=1e-9)
        assert found.error == pytest.approx(error, abs=1e-6)
        assert found.kept == (found.behind <= 2 * found.error)
    assert any(found.kept for found in standings(parts, 1.0))


ONE = [
    ([[1, 1, 1], [2, 2, 3]], 0, 1),
    ([[1, 1, 1], [2, 0, 1]], 0, 0),
    ([[1, 1, 1], [1, 1, 1]], 1, 1),
    ([[0, 0, 0], [1, 1, 1.1], [3, 2, 6]], 0, 2),
    ([[0, 0, 0], [1, 1, 1.1], [9, -5, 0]], 0, 1),  # the last is ahead by luck
    ([None, [1, 1, 1]], 0, 1),
    ([[1, 1, 1], None], 0, 0),
]


@pytest.mark.parametrize(("rows", "usual", "expected"), ONE)
def test_the_usual_one_unless_another_is_better(rows, usual, expected):
    assert choose_one([None if row is None else np.array(row, float) for row in rows], usual) == expected


# The mean ------------------------------------------------------------------------------------------------------------


def test_the_mean_of_directions_by_hand(log):
    data = log[0]
    weights = np.random.default_rng(0).random(data.n_docs)
    rankers = [quick(seed=seed).fit(data, weights) for seed in range(3)]
    for ranker, scale in zip(rankers, (1.0, 50.0, 0.01), strict=True):
        ranker.model_ = replace(ranker.model_, coefficients=scale * ranker.model_.coefficients)
    mean = mean_ranker([rankers[:2], rankers[2:]], data).model_.coefficients
    a, b, c = (ranker.model_.coefficients / np.linalg.norm(ranker.model_.coefficients) for ranker in rankers)
    np.testing.assert_allclose(mean, ((a + b) / np.linalg.norm(a + b) + c) / 2, rtol=1e-12)


def test_rankers_with_scalings_of_their_own_are_brought_into_line(log):
    """Of rankers that rank alike the mean ranks so too, though each saw other means and deviations."""
    data, rng = log[0], np.random.default_rng(0)
    raw = rng.normal(size=data.n_features)
    rankers = []
    for part in (data.subset(np.arange(10)), data.subset(np.arange(10, 30))):
        ranker = quick(normalize="standard").fit(part, rng.random(part.n_docs))
        inverse = ranker.model_.scaler.inverse
        own = np.divide(raw, inverse, out=np.zeros(len(raw)), where=inverse > 0)
        ranker.model_ = replace(ranker.model_, coefficients=own)
        rankers.append(ranker)
    known = np.flatnonzero((rankers[0].model_.scaler.inverse > 0) & (rankers[1].model_.scaler.inverse > 0))
    expected = data.features[:, known].astype(float) @ raw[known]
    scores = mean_ranker([rankers], data).predict(data)
    for begin, end in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        a, b = scores[begin:end] - scores[begin], expected[begin:end] - expected[begin]
        assert abs(np.dot(a, b)) == pytest.approx(np.linalg.norm(a) * np.linalg.norm(b), rel=1e-6)


def test_a_multiple_of_the_natural_learning_rate(log):
    """The learning rate that a multiple stands for, by hand; it is used, and a search is not affected by it later."""
    data = log[0]
    weights = np.random.default_rng(1).random(data.n_docs)
    ranker = quick(learning_rate="auto", max_epochs=2)
    ranker._rate_multiple = 2.0
    ranker.fit(data, weights)
    scales = ranker.model_.scaler.scales(data, 1)
    problem = LinearProblem.make(data, weights, scales, named_loss("lambdaloss-truncated").spec(5, 20))
    rate = 2.0 * natural_learning_rate(problem.gradient_norms(np.zeros(data.n_features)))
    assert ranker.learning_rate_ == pytest.approx(rate)
    given = quick(learning_rate=ranker.learning_rate_, max_epochs=2).fit(data, weights)
    np.testing.assert_array_equal(given.model_.coefficients, ranker.model_.coefficients)
    searched = quick(learning_rate="auto", max_epochs=2).fit(data, weights)
    assert searched._found_multiple == pytest.approx(searched.learning_rate_ * 2.0 / rate)
    first = searched.model_.coefficients
    np.testing.assert_array_equal(searched.fit(data, weights).model_.coefficients, first)
