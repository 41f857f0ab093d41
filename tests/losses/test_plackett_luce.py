"""The Plackett-Luce loss against all rankings written out: value, gradient, and their law over draws."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank import losses
from tests.reference.plackett_luce import dcg_theta, expected_reward, reward_gradient

CASES = {
    "plain": ([0.3, -0.5, 1.0, 0.1], [1.0, 0.0, -2.0, 0.5], 2),
    "whole": ([0.3, -0.5, 1.0, 0.1], [1.0, 0.0, -2.0, 0.5], None),
    "ties": ([0.5, 0.5, 0.5], [3.0, 0.0, 1.0], 2),
    "negative": ([1.0, 2.0, 0.0], [-1.0, -3.0, -0.5], 3),
    "alone": ([2.0], [3.0], 5),
    "shorter than k": ([1.0, 0.0], [0.0, 1.0], 5),
    "one rank": ([2.0, 0.0, -1.0, 0.5, 0.1], [0.0, 1.0, 2.0, 0.0, -1.0], 1),
    "far apart": ([0.0, 3.0, 1e4, 2.0, 1e4], [1.0, 0.0, 2.0, 4.0, 0.0], 3),
    "three groups": ([0.0, 1e4, 0.5, -1e4, -1e4 - 1.0], [1.0, 0.0, 2.0, 4.0, 0.0], None),
    "just apart": ([0.0, -310.0, -310.5, -620.0, -621.0], [1.0, 0.0, 2.0, 4.0, -3.0], 4),
    "at the edge": ([0.0, -299.9, -300.1, -300.2], [1.0, 0.5, 2.0, 4.0], 3),
}


@pytest.mark.statistical
@pytest.mark.representative
@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_value_and_gradient_are_unbiased_for_any_number_of_rankings(name, samples):
    """The mean over 20,000 streams: |z| < 5.5 for at most six numbers; false alarm below 1e-6 a case, seed fixed."""
    scores, weights, k = CASES[name]
    theta = dcg_theta(k, len(scores))
    expected = np.array([-expected_reward(scores, weights, theta), *-reward_gradient(scores, weights, theta)])
    n, copies = len(scores), 20_000
    found = []
    offsets = np.arange(copies + 1) * n  # each copy of the query draws from a stream of its own
    value, gradient = losses.plackett_luce(
        np.tile(scores, copies), np.tile(weights, copies), offsets, k=k, samples=samples
    )
    by_copy = gradient.reshape(copies, n)
    error = by_copy.std(axis=0) / np.sqrt(copies)
    found = np.append(value / copies, by_copy.mean(axis=0))
    spread = np.append(5.5 * np.abs(weights).sum() / np.sqrt(copies), 5.5 * error)
    assert (np.abs(found - expected) <= spread + 1e-9).all()


@pytest.mark.parametrize("name", CASES)
def test_many_rankings_come_close(name):
    """100,000 rankings: the standard error of each number is at most the sum of |weights| times 0.01."""
    scores, weights, k = CASES[name]
    theta = dcg_theta(k, len(scores))
    value, gradient = losses.plackett_luce(scores, weights, [0, len(scores)], k=k, samples=100_000)
    size = np.abs(weights).sum()
    assert value == pytest.approx(-expected_reward(scores, weights, theta), abs=0.02 * size)
    np.testing.assert_allclose(gradient, -reward_gradient(scores, weights, theta), atol=0.02 * size)


def test_the_reference_gradient_is_that_of_central_differences():
    rng = np.random.default_rng(0)
    for n, k in ((4, 2), (5, None), (3, 7)):
        scores, weights, theta, step = rng.normal(size=n), rng.normal(size=n), dcg_theta(k, n), 1e-6
        for i, slope in enumerate(reward_gradient(scores, weights, theta)):
            up, down = (expected_reward(scores + sign * step * np.eye(n)[i], weights, theta) for sign in (1, -1))
            assert slope == pytest.approx((up - down) / (2 * step), abs=1e-8)


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=5),
    st.sampled_from([1.0, 30.0, 1e4]),
    st.sampled_from([1, 5, None]),
    st.integers(0, 2**32),
)
@settings(max_examples=60, deadline=None)
def test_what_holds_for_every_draw(lengths, scale, k, seed):
    """Finite for all scores; the gradient of a query sums to 0; equal weights give a value without noise."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    scores = scale * rng.normal(size=offsets[-1])
    weights = np.where(rng.random(offsets[-1]) < 0.4, rng.normal(size=offsets[-1]), 0.0)
    value, gradient = losses.plackett_luce(scores, weights, offsets, k=k, samples=7, seed=seed)
    assert np.isfinite([value, *gradient]).all()
    for a, b in itertools.pairwise(offsets):
        assert gradient[a:b].sum() == pytest.approx(0.0, abs=1e-9 * (1 + np.abs(weights[a:b]).sum()) * (b - a))
    alike, slopes = losses.plackett_luce(scores, np.ones(offsets[-1]), offsets, k=k, samples=7, seed=seed)
    assert alike == pytest.approx(-sum(sum(dcg_theta(k, n)) for n in lengths))
    np.testing.assert_allclose(slopes, 0.0, atol=1e-9)


def test_threads_do_not_matter_and_seeds_do():
    rng = np.random.default_rng(1)
    offsets = np.concatenate(([0], np.cumsum(rng.integers(1, 60, size=400))))
    scores, weights = rng.normal(size=(2, offsets[-1]))
    one, many, other = (
        losses.plackett_luce(scores, weights, offsets, k=5, samples=20, seed=s, threads=t)
        for s, t in ((3, 1), (3, 5), (4, 1))
    )
    assert one[0] == many[0]
    np.testing.assert_array_equal(one[1], many[1])
    assert (one[1] != other[1]).any()


def test_queries_draw_from_streams_of_their_own():
    _, gradient = losses.plackett_luce([0.0, 0.0, 0.0] * 2, [1.0, 2.0, 0.0] * 2, [0, 3, 6], k=2, samples=1)
    assert gradient[:3].tolist() != gradient[3:].tolist()


BAD = [
    ({"samples": 0}, "samples=0: expected a whole number of at least 1"),
    ({"samples": 2**40}, "samples=1099511627776: expected at most"),
    ({"k": 0}, "k=0"),
    ({"seed": -1}, "seed=-1"),
    ({"weights": [1.0, np.nan]}, "weights: entry 1 is nan"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_arguments(change, message):
    arguments = {"scores": [1.0, 2.0], "weights": [1.0, 0.0], "offsets": [0, 2], "k": 1} | change
    with pytest.raises(cr.CounterrankError, match=message):
        losses.plackett_luce(**arguments)


def test_hyperparameters_of_the_entry():
    loss = losses.named_loss("plackett_luce")
    assert loss.metric(5) == "dcg@5"
    assert loss.spec(5, 9).parameters.samples == 100
    assert loss.configured(samples=7).spec(5, 9).parameters.samples == 7
    with pytest.raises(
        cr.CounterrankError, match="plackett-luce has no hyperparameter 'sample'; did you mean 'samples'"
    ):
        loss.configured(sample=3)
    with pytest.raises(cr.CounterrankError, match="arp-hinge has no hyperparameter 'samples'; expected none"):
        losses.named_loss("arp-hinge").configured(samples=3)
    with pytest.raises(cr.CounterrankError, match="risk='some'"):
        loss.configured(risk="some")
