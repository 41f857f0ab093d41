"""Second-order terms: against their slow references, second differences, parabolas above hinges, and at extremes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank import losses
from tests.losses.test_losses import call, queries
from tests.reference import losses as naive
from tests.reference import second_order as naive_second_order


def terms(name, scores, weights, offsets, k=None, **more):
    return losses.second_order(name, scores, weights, offsets, k=k if name in naive.TAKES_K else None, **more)


def slow(name, scores, weights, offsets, k):
    parts = [naive_second_order.curvature(name, scores[a:b], weights[a:b], k) for a, b in itertools.pairwise(offsets)]
    return np.concatenate(parts)


@pytest.mark.parametrize("name", naive.NAMED)
@given(queries(), st.sampled_from([1, 2, 5, None]))
@settings(max_examples=50, deadline=None)
def test_terms_match_their_twins(name, query, k):
    scores, weights, offsets = query
    value, gradient, curvature = terms(name, scores, weights, offsets, k)
    expected = call(name, scores, weights, offsets, k=k)
    size = 1.0 + np.abs(weights).sum()
    assert value == pytest.approx(expected[0], rel=1e-12, abs=1e-12 * size)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-10, atol=1e-12 * size)
    np.testing.assert_allclose(curvature, slow(name, scores, weights, offsets, k), rtol=1e-8, atol=1e-12 * size)
    assert (curvature >= np.abs(gradient) / 20).all()


@pytest.mark.parametrize("name", naive.NAMED)
@pytest.mark.parametrize("share", [0.02, 0.3, 1.0])
@pytest.mark.parametrize("k", [1, 40, None])
def test_long_queries_match_their_twins(name, share, k):
    """Every path through the kernels: few and many weights, narrow and wide bands, several sort blocks."""
    rng = np.random.default_rng(round(1000 * share))
    offsets = np.array([0, 90, 91, 150])
    scores = rng.normal(size=150) * 3.0
    weights = np.where(rng.random(150) < share, rng.exponential(size=150) - 0.2, 0.0)
    _, gradient, curvature = terms(name, scores, weights, offsets, k)
    np.testing.assert_allclose(gradient, call(name, scores, weights, offsets, k=k)[1], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(curvature, slow(name, scores, weights, offsets, k), rtol=1e-9, atol=1e-12)


def second_differences(value, scores, step=1e-4):
    middle, result = value(scores), np.empty(len(scores))
    for i in range(len(scores)):
        shift = np.zeros(len(scores))
        shift[i] = step
        result[i] = (value(scores + shift) - 2.0 * middle + value(scores - shift)) / step**2
    return result


@pytest.mark.parametrize("name", [n for n in naive.NAMED if n.startswith("lambda")])
@pytest.mark.parametrize("k", [2, None])
def test_terms_of_pairs_are_second_differences(name, k):
    rng = np.random.default_rng(0)
    scores = rng.permutation(12) * 0.2  # so far apart that no step changes a rank
    weights = rng.normal(size=12)
    _, _, curvature = terms(name, scores, weights, [0, 12], k)
    found = second_differences(lambda s: call(name, s, weights, [0, 12], k=k)[0], scores)
    np.testing.assert_allclose(curvature, found, rtol=1e-5, atol=1e-6)


def test_terms_of_arp_are_second_differences_where_weights_are_not_negative():
    rng = np.random.default_rng(1)
    scores, weights = rng.normal(size=12), np.where(rng.random(12) < 0.5, rng.exponential(size=12), 0.0)
    _, _, curvature = terms("arp_logistic", scores, weights, [0, 12])
    found = second_differences(lambda s: losses.arp_logistic(s, weights, [0, 12])[0], scores)
    np.testing.assert_allclose(curvature, found, rtol=1e-5)


def test_terms_of_dcg_are_second_differences_of_the_loss_with_the_tangent_of_alpha():
    rng = np.random.default_rng(2)
    scores, weights = rng.normal(size=9), np.where(rng.random(9) < 0.5, rng.exponential(size=9), 0.0)
    at = [naive.alpha_dcg(naive.rank_bound(scores, d, "logistic"))[1] for d in range(9)]

    def with_tangent(s):
        return -sum(w * at[d] * naive.rank_bound(s, d, "logistic") for d, w in enumerate(weights))

    _, _, curvature = terms("dcg_logistic", scores, weights, [0, 9])
    np.testing.assert_allclose(curvature, second_differences(with_tangent, scores), rtol=1e-5)


@given(st.floats(-50.0, 0.0), st.floats(-100.0, 100.0))
def test_a_parabola_of_curvature_one_half_lies_above_a_hinge_that_is_not_satisfied(touching, z):
    value, gradient, curvature = terms("arp_hinge", [touching, 0.0], [1.0, 0.0], [0, 2])
    assert curvature.tolist() == [0.5, 0.5]
    parabola = value + gradient[0] * (z - touching) + curvature[0] / 2 * (z - touching) ** 2
    assert parabola >= losses.arp_hinge([z, 0.0], [1.0, 0.0], [0, 2])[0] - 1e-9


def test_terms_by_hand():
    """Ranks 1, 2, 3; LambdaLoss pairs the third with both others."""
    scores, weights = [1.0, 0.5, 0.0], [0.0, 0.0, 2.0]
    _, _, curvature = losses.second_order("lambdaloss-dcg", scores, weights, [0, 3])

    def pair(discount, z):
        return discount * 2.0 / math.log(2.0) * math.exp(-z) / (1.0 + math.exp(-z)) ** 2

    far = pair(1 / math.log2(3) - 1 / math.log2(4), 1.0)
    near = pair(1 - 1 / math.log2(3), 0.5)
    assert curvature.tolist() == pytest.approx([far, near, far + near])


@pytest.mark.parametrize("name", naive.NAMED)
def test_no_newton_step_explodes(name):
    rng = np.random.default_rng(4)
    scores = rng.choice([-1e4, 0.0, 1e4], size=60) + rng.normal(size=60)
    weights = rng.normal(size=60)
    value, gradient, curvature = terms(name, scores, weights, [0, 1, 20, 60], 3)
    assert np.isfinite([value, *gradient, *curvature]).all()
    assert (curvature[gradient != 0.0] > 0.0).all()
    assert (curvature >= np.abs(gradient) / 20).all()
    assert gradient[0] == curvature[0] == 0.0  # alone in its query


@pytest.mark.parametrize("name", naive.NAMED)
def test_threads_do_not_matter(name):
    rng = np.random.default_rng(1)
    offsets = np.concatenate(([0], np.cumsum(rng.integers(1, 60, size=300))))
    scores = rng.normal(size=offsets[-1])
    weights = np.where(rng.random(offsets[-1]) < 0.2, rng.exponential(size=offsets[-1]), 0.0)
    one, many = (terms(name, scores, weights, offsets, 5, threads=t) for t in (1, 5))
    assert one[0] == many[0]
    for a, b in zip(one[1:], many[1:], strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_loss_of_one_s_own_is_taken():
    own = losses.make_lambdaloss("own", losses.dcg_discounts, truncate=2)
    scores, weights = np.arange(6.0) * 0.3, np.array([0.0, 1.0, 0.0, 2.0, 0.0, -1.0])
    expected = losses.second_order("lambdaloss_truncated", scores, weights, [0, 6], k=2)
    for a, b in zip(losses.second_order(own, scores, weights, [0, 6]), expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_bad_input_is_named():
    with pytest.raises(cr.CounterrankError, match="weights: entry 1 is inf"):
        losses.second_order("arp-hinge", [0.0, 1.0], [1.0, np.inf], [0, 2])
    with pytest.raises(cr.CounterrankError, match="arp-hinge has no cutoff"):
        losses.second_order("arp-hinge", [0.0, 1.0], [1.0, 0.0], [0, 2], k=1)
