"""The losses against their slow references, central differences and rax; bad input."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank import losses
from tests.reference import losses as naive


def call(name, scores, weights, offsets, k=5, **more):
    function = getattr(losses, name)
    return (
        function(scores, weights, offsets, k=k, **more)
        if name in naive.TAKES_K
        else function(scores, weights, offsets, **more)
    )


@st.composite
def queries(draw):
    """A few queries with ties, negative and zero weights, and scores up to +-1e4."""
    lengths = draw(st.lists(st.integers(1, 12), min_size=1, max_size=4))
    n = sum(lengths)
    scale = draw(st.sampled_from([1.0, 30.0, 1e4]))
    score = st.one_of(st.sampled_from([0.0, -0.0, 0.5, 1.0]), st.floats(-1.0, 1.0))
    weight = st.one_of(st.just(0.0), st.sampled_from([1.0, 2.0, -1.0]), st.floats(-5.0, 5.0))
    scores = scale * np.array(draw(st.lists(score, min_size=n, max_size=n)))
    weights = np.array(draw(st.lists(weight, min_size=n, max_size=n)))
    return scores, weights, np.concatenate(([0], np.cumsum(lengths)))


def assert_same(got, expected, scale=1.0):
    # a sum of terms of size `scale` may be off by a few units in its last place
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-9, atol=1e-11 * scale)
    np.testing.assert_allclose(got[1], expected[1], rtol=1e-8, atol=1e-11 * scale)


@pytest.mark.parametrize("name", naive.NAMED)
@given(queries(), st.sampled_from([1, 2, 5, 100, None]))
@settings(max_examples=60, deadline=None)
def test_named_losses_match_their_twins(name, query, k):
    scores, weights, offsets = query
    expected = naive.over_queries(lambda s, w: naive.NAMED[name](s, w, k), scores, weights, offsets)
    size = 1.0 + np.abs(weights).sum() * (1.0 + np.abs(scores).max())
    assert_same(call(name, scores, weights, offsets, k=k), expected, size)


@given(queries(), st.sampled_from(["hinge", "logistic"]), st.sampled_from([1, 3, None]))
@settings(max_examples=60, deadline=None)
def test_monotonic_takes_any_alpha(query, bound, k):
    scores, weights, offsets = query
    alpha = losses.Alpha(lambda x: x**-0.7, lambda x: -0.7 * x**-1.7)
    got = losses.monotonic(scores, weights, offsets, alpha=alpha, bound=bound, k=k)
    expected = naive.over_queries(
        lambda s, w: naive.monotonic(s, w, naive.alpha_power, bound, k), scores, weights, offsets
    )
    assert_same(got, expected, 1.0 + np.abs(weights).sum())


@pytest.mark.parametrize("bound", ["hinge", "logistic"])
@pytest.mark.parametrize("name", ["ALPHA_ARP", "ALPHA_DCG"])
def test_built_in_alphas_agree_with_the_same_functions_given_by_a_user(bound, name):
    rng = np.random.default_rng(3)
    scores, weights, offsets = rng.normal(size=30), rng.normal(size=30), [0, 10, 30]
    built_in = getattr(losses, name)
    by_user = losses.Alpha(lambda x: built_in.function(x), lambda x: built_in.derivative(x))
    k = 4 if name == "ALPHA_DCG" else None
    expected = losses.monotonic(scores, weights, offsets, alpha=by_user, bound=bound, k=k)
    assert_same(losses.monotonic(scores, weights, offsets, alpha=built_in, bound=bound, k=k), expected)


DISCOUNTS = {
    "dcg": (losses.dcg_discounts, naive.dcg_discount),
    "arp": (lambda ranks: -ranks, lambda n: -float(n)),
    "precision@3": ([1.0, 1.0, 1.0, 0.0], lambda n: float(n <= 3)),
    "reciprocal": (lambda ranks: 1.0 / ranks, lambda n: 1.0 / n),
    "constant": ([2.0], lambda n: 2.0),
}


@pytest.mark.parametrize("name", DISCOUNTS)
@given(queries(), st.sampled_from([1, 2, 4, None]))
@settings(max_examples=40, deadline=None)
def test_lambdaloss_takes_any_discounts(name, query, truncate):
    scores, weights, offsets = query
    given_discounts, by_rank = DISCOUNTS[name]
    got = losses.lambdaloss(scores, weights, offsets, discounts=given_discounts, truncate=truncate)
    expected = naive.over_queries(lambda s, w: naive.lambdaloss(s, w, by_rank, truncate), scores, weights, offsets)
    assert_same(got, expected, 1.0 + np.abs(weights).sum() * (1.0 + np.abs(scores).max()))


@pytest.mark.parametrize("name", naive.NAMED)
@pytest.mark.parametrize("share", [0.02, 0.05, 0.3, 0.85, 1.0])
@pytest.mark.parametrize("k", [1, 5, 40, None])
def test_long_queries_match_their_twins(name, share, k):
    """Every path through the kernels: few and many weights, narrow and wide bands, several sort blocks."""
    rng = np.random.default_rng(round(1000 * share))
    offsets = np.array([0, 90, 91, 150])
    scores = rng.normal(size=150) * 3.0
    weights = np.where(rng.random(150) < share, rng.exponential(size=150) - 0.2, 0.0)
    expected = naive.over_queries(lambda s, w: naive.NAMED[name](s, w, k), scores, weights, offsets)
    assert_same(call(name, scores, weights, offsets, k=k), expected)


@pytest.mark.parametrize("name", naive.NAMED)
@pytest.mark.parametrize("k", [2, None])
def test_gradients_are_central_differences(name, k):
    rng = np.random.default_rng(0)
    offsets = np.array([0, 7, 8, 20])
    # ranks must not change and hinges not be crossed under the small step: a grid of scores off the kinks
    scores = rng.permutation(20) * 0.37
    weights = rng.normal(size=20)
    _, gradient = call(name, scores, weights, offsets, k=k)
    step = 1e-5
    for i in range(20):
        up, down = scores.copy(), scores.copy()
        up[i] += step
        down[i] -= step
        slope = (call(name, up, weights, offsets, k=k)[0] - call(name, down, weights, offsets, k=k)[0]) / (2 * step)
        assert slope == pytest.approx(gradient[i], rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("name", naive.NAMED)
def test_threads_do_not_matter(name):
    rng = np.random.default_rng(1)
    offsets = np.concatenate(([0], np.cumsum(rng.integers(1, 60, size=400))))
    scores = rng.normal(size=offsets[-1])
    weights = np.where(rng.random(offsets[-1]) < 0.2, rng.exponential(size=offsets[-1]), 0.0)
    one, many = (call(name, scores, weights, offsets, threads=t) for t in (1, 5))
    assert one[0] == many[0]
    np.testing.assert_array_equal(one[1], many[1])


@pytest.mark.parametrize("name", naive.NAMED)
def test_float32_scores_and_weights_are_taken(name):
    rng = np.random.default_rng(2)
    scores, weights = rng.normal(size=9).astype(np.float32), rng.random(9).astype(np.float32)
    assert call(name, scores, weights, [0, 9])[0] == call(name, scores.astype(float), weights.astype(float), [0, 9])[0]


def test_k_beyond_the_query_means_no_cutoff():
    scores, weights, offsets = [0.3, 0.1, 0.2], [0.0, 1.0, 3.0], [0, 3]
    for name in naive.TAKES_K:
        far, none = (call(name, scores, weights, offsets, k=k) for k in (1000, None))
        assert far[0] == pytest.approx(none[0])


def test_a_loss_of_one_s_own_trains_as_its_named_equal_does():
    data = cr.make_ranking_data("yahoo", 30)
    weights = cr.estimators.full_information(data)
    own = losses.make_lambdaloss("own", losses.dcg_discounts, truncate=5)
    settings = {"max_epochs": 3, "learning_rate": 1.0}
    found = cr.Ranker(own, metric="dcg@5", **settings).fit(data, weights).predict(data)
    expected = cr.Ranker("lambdaloss-truncated", k=5, **settings).fit(data, weights).predict(data)
    np.testing.assert_array_equal(found, expected)


BAD = [
    ({"scores": [1.0, np.nan]}, "scores: entry 1 is nan"),
    ({"weights": [1.0, np.inf]}, "weights: entry 1 is inf"),
    ({"weights": [1.0]}, "weights: 1 entries; expected 2"),
    ({"offsets": [0, 1]}, "offsets: ends at 1; expected the number of documents, 2"),
    ({"offsets": [0, 2, 2]}, "offsets: query 1 is empty"),
    ({"offsets": [1, 2]}, "offsets: starts at 1; expected 0"),
    ({"offsets": [0.0, 2.0]}, "offsets: type float64; expected whole numbers"),
    ({"scores": [[1.0, 2.0]]}, "scores: shape (1, 2); expected one dimension"),
    ({"scores": ["a", "b"]}, "scores: type <U1; expected real numbers"),
    ({"k": 0}, "k=0: expected a whole number of at least 1"),
    ({"k": 2.5}, "k=2.5: expected a whole number of at least 1"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_input_is_named(change, message):
    arguments = {"scores": [1.0, 2.0], "weights": [1.0, 0.0], "offsets": [0, 2], "k": 1} | change
    with pytest.raises(cr.CounterrankError, match=message.replace("(", r"\(").replace(")", r"\)")):
        losses.lambdaloss_truncated(**arguments)


BAD_GENERAL = [
    (
        lambda: losses.lambdaloss([0.0], [1.0], [0, 1], discounts=[0.5, 1.0]),
        "discounts: rise from 0.5 at rank 1",
    ),
    (lambda: losses.lambdaloss([0.0], [1.0], [0, 1], discounts=[np.nan]), "discounts: nan at rank 1"),
    (lambda: losses.lambdaloss([0.0], [1.0], [0, 1], discounts=lambda r: r[:1]), "one value for each rank"),
    (lambda: losses.lambdaloss([0.0], [1.0], [0, 1], truncate=0), "truncate=0"),
    (lambda: losses.lambdarank([0.0, 1.0], [1.0, 0.0], [0, 2], k=1, discounts=lambda r: -r), "cannot be cut"),
    (lambda: losses.monotonic([0.0], [1.0], [0, 1], alpha=(np.log, lambda x: 1 / x)), "rises at 1"),
    (lambda: losses.monotonic([0.0], [1.0], [0, 1], alpha="dcg"), "expected Alpha"),
    (lambda: losses.monotonic([0.0], [1.0], [0, 1], alpha=(1, 2)), "expected Alpha"),
    (lambda: losses.lambdaloss([0.0], [1.0], [0, 1], discounts="x"), "discounts: type <U1; expected real numbers"),
    (lambda: losses.arp_hinge([[1.0], [1.0, 2.0]], [1.0], [0, 1]), "scores: cannot be made an array"),
    (lambda: losses.monotonic([0.0], [1.0], [0, 1], alpha=losses.ALPHA_DCG, bound="soft"), "bound='soft'"),
    (lambda: losses.named_loss("listnet"), "loss='listnet': expected one of arp-hinge"),
    (lambda: losses.named_loss("arp-hinge").spec(5, 10), "arp-hinge has no cutoff"),
]


@pytest.mark.parametrize(("action", "message"), BAD_GENERAL)
def test_bad_settings_are_named(action, message):
    with pytest.raises(cr.CounterrankError, match=message):
        action()


def test_full_lambdaloss_agrees_with_rax():
    """rax's pairwise logistic loss with lambda weights has the same deltas, in natural logarithms and times n."""
    rax = pytest.importorskip("rax", reason="rax is not installed (make bench installs it)")
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(0)
    n = 12
    scores, weights = rng.permutation(n) * 0.3, rng.integers(0, 3, size=n).astype(float)

    def peer(s):
        return rax.pairwise_logistic_loss(
            s,
            jax.numpy.asarray(weights),
            lambdaweight_fn=lambda *a, **kw: rax.dcg2_lambdaweight(*a, gain_fn=lambda labels: labels, **kw),
            reduce_fn=jax.numpy.sum,
        )

    expected, slope = jax.value_and_grad(peer)(jax.numpy.asarray(scores))
    value, gradient = losses.lambdaloss_dcg(scores, weights, [0, n])
    assert value * math.log(2.0) * n == pytest.approx(float(expected), rel=1e-5)
    np.testing.assert_allclose(gradient * math.log(2.0) * n, np.asarray(slope), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", naive.NAMED)
def test_at_the_kink_of_a_hinge_the_slope_is_that_of_the_flat_side(name):
    scores, weights = np.array([2.0, 1.0, 0.0]), np.array([1.0, 0.0, 0.0])
    assert_same(call(name, scores, weights, [0, 3]), naive.NAMED[name](scores, weights, 5))
