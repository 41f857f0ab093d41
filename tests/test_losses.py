"""The losses against their slow twins, central differences, hand-worked numbers, and what they are bounds of."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank import losses
from tests import naive

LOG3 = math.log2(3.0)


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


class TestByHand:
    """Three documents with scores 2, 1, 0 (ranks 1, 2, 3); the lowest has weight 1, the middle 0.5."""

    scores = np.array([2.0, 1.0, 0.0])
    weights = np.array([0.0, 0.5, 1.0])
    offsets = np.array([0, 3])

    def value(self, name, k=1):
        return call(name, self.scores, self.weights, self.offsets, k=k)[0]

    def test_arp_hinge(self):
        middle = max(1 - (1 - 2), 0) + 1 + max(1 - (1 - 0), 0)
        lowest = max(1 - (0 - 2), 0) + max(1 - (0 - 1), 0) + 1
        assert self.value("arp_hinge") == pytest.approx(0.5 * middle + 1.0 * lowest)

    def test_arp_logistic(self):
        middle = math.log2(1 + math.exp(2 - 1)) + math.log2(2) + math.log2(1 + math.exp(0 - 1))
        lowest = math.log2(1 + math.exp(2 - 0)) + math.log2(1 + math.exp(1 - 0)) + math.log2(2)
        assert self.value("arp_logistic") == pytest.approx(0.5 * middle + 1.0 * lowest)

    def test_dcg_hinge(self):
        middle = -1 / math.log2(1 + 3) + 1 / math.log2(1 + 1)
        lowest = -1 / math.log2(1 + 6) + 1 / math.log2(1 + 1)
        assert self.value("dcg_hinge") == pytest.approx(0.5 * middle + 1.0 * lowest)

    def test_dcg_hinge_beyond_a_cutoff_of_two_only_the_last_pays(self):
        middle, lowest = -1 / math.log2(1 + 3), -1 / math.log2(1 + 6) + 1 / LOG3
        assert self.value("dcg_hinge", k=2) == pytest.approx(0.5 * middle + 1.0 * lowest)

    def test_lambdaloss_dcg(self):
        near, far = 1 - 1 / LOG3, 1 / LOG3 - 1 / 2  # delta of documents one and two ranks apart
        first_middle = near * 0.5 * math.log2(1 + math.exp(2 - 1))
        first_lowest = far * 1.0 * math.log2(1 + math.exp(2 - 0))
        middle_lowest = near * 0.5 * math.log2(1 + math.exp(1 - 0))
        assert self.value("lambdaloss_dcg") == pytest.approx(first_middle + first_lowest + middle_lowest)

    def test_lambdaloss_at_one_sees_only_neighbours(self):
        first_middle = 1.0 * 0.5 * math.log2(1 + math.exp(2 - 1))
        middle_lowest = 1.0 * 0.5 * math.log2(1 + math.exp(1 - 0))
        assert self.value("lambdaloss_dcg_at_k") == pytest.approx(first_middle + middle_lowest)

    def test_truncated_at_one_leaves_out_the_pair_below(self):
        first_middle = (1 - 1 / LOG3) * 0.5 * math.log2(1 + math.exp(2 - 1))
        first_lowest = (1 / LOG3 - 1 / 2) * 1.0 * math.log2(1 + math.exp(2 - 0))
        assert self.value("lambdaloss_truncated") == pytest.approx(first_middle + first_lowest)

    def test_lambdarank(self):
        first_middle = (1 - 0) * 0.5 * math.log2(1 + math.exp(2 - 1))
        first_lowest = (1 - 0) * 1.0 * math.log2(1 + math.exp(2 - 0))
        assert self.value("lambdarank") == pytest.approx(first_middle + first_lowest)

    def test_gradient_of_truncated(self):
        upper = (1 - 1 / LOG3) * 0.5 / math.log(2) / (1 + math.exp(-1))
        far = (1 / LOG3 - 1 / 2) * 1.0 / math.log(2) / (1 + math.exp(-2))
        gradient = losses.lambdaloss_truncated(self.scores, self.weights, self.offsets, k=1)[1]
        np.testing.assert_allclose(gradient, [upper + far, -upper, -far])


class TestKnownMistakes:
    def test_delta_of_neighbours_is_the_first_difference(self):  # mistake 3
        value = losses.lambdaloss_dcg([0.0, 0.0], [1.0, 0.0], [0, 2])[0]
        assert value == pytest.approx((1 / math.log2(1 + 1) - 1 / math.log2(1 + 2)) * math.log2(2))

    def test_documents_outside_the_top_k_are_pushed_up(self):  # mistake 4
        gradient = losses.lambdaloss_truncated([3.0, 2.0, 1.0, 0.0], [0, 0, 0, 1.0], [0, 4], k=1)[1]
        assert gradient[3] < 0 < gradient[0]
        assert gradient[1] == gradient[2] == 0

    @pytest.mark.parametrize("name", naive.NAMED)
    @pytest.mark.parametrize("scale", [1e4, -1e4])
    def test_scores_of_ten_thousand(self, name, scale):  # mistake 5
        value, gradient = call(name, [scale, -scale, 0.0], [1.0, 0.0, 0.5], [0, 3], k=1)
        assert np.isfinite(value)
        assert np.isfinite(gradient).all()
        expected = naive.NAMED[name](np.array([scale, -scale, 0.0]), [1.0, 0.0, 0.5], 1)
        assert_same((value, gradient), expected, 1e4)

    @pytest.mark.parametrize("zero", [0.0, -0.0])
    def test_equal_scores_keep_document_order(self, zero):  # mistake 6
        gradient = losses.lambdaloss_truncated([zero, 0.0, zero], [0.0, 0.0, 1.0], [0, 3], k=1)[1]
        assert gradient[0] > 0  # rank 1 is the first document
        assert gradient[1] == 0

    @pytest.mark.parametrize("name", naive.NAMED)
    def test_single_documents_short_queries_and_no_weights(self, name):  # mistake 8
        alone, gradient = call(name, [7.0], [2.0], [0, 1], k=5)
        expected = {"arp_hinge": 2.0, "arp_logistic": 2.0, "dcg_hinge": -2.0, "dcg_logistic": -2.0}.get(name, 0.0)
        assert alone == pytest.approx(expected)  # a document alone has bound 1
        assert gradient.tolist() == [0.0]
        nothing, gradient = call(name, [1.0, 2.0, 3.0], [0.0, 0.0, 0.0], [0, 1, 3], k=5)
        assert nothing == 0
        assert not gradient.any()

    @given(queries(), st.sampled_from([1, 2, 3, None]))
    @settings(max_examples=150, deadline=None)
    def test_lambdaloss_bounds_the_metric_at_its_own_scores(self, query, k):  # mistake 10
        scores, weights, offsets = query
        scores, weights = scores[: offsets[1]], weights[: offsets[1]]
        loss = losses.lambdaloss_dcg_at_k(scores, weights, [0, len(scores)], k=k)[0]
        discount = naive.cut_dcg(k)
        ranks = naive.ranks_of(scores)
        n = len(scores)
        constant = sum(
            min(weights[i], weights[j]) * (discount(abs(ranks[i] - ranks[j])) - discount(abs(ranks[i] - ranks[j]) + 1))
            for i in range(n)
            for j in range(i)
        )
        missing = sum(w * (1 - discount(r)) for w, r in zip(weights, ranks, strict=True))
        assert missing <= loss + constant + 1e-9 * (1 + abs(loss) + np.abs(weights).sum())

    def test_truncated_is_no_bound(self):  # mistake 10
        n, k = 40, 3
        weights = np.zeros(n)
        weights[-1] = 1.0
        loss = losses.lambdaloss_truncated(np.zeros(n), weights, [0, n], k=k)[0]
        # the sum of deltas over the top k telescopes
        assert loss == pytest.approx(naive.dcg_discount(n - k) - naive.dcg_discount(n))
        assert loss < 1.0  # what the metric misses, w (1 - 0); the constant C is 0

    @given(queries(), st.sampled_from([1, 2, 3, None]), st.sampled_from(["hinge", "logistic"]))
    @settings(max_examples=100, deadline=None)
    def test_monotonic_losses_bound_the_metric_for_positive_weights(self, query, k, bound):
        scores, weights, offsets = query
        weights = np.abs(weights)
        ranks = np.concatenate([naive.ranks_of(scores[a:b]) for a, b in itertools.pairwise(offsets)])
        arp = np.dot(weights, ranks)
        dcg = sum(-w * naive.cut_dcg(k)(r) for w, r in zip(weights, ranks, strict=True))
        slack = 1e-9 * (1 + abs(arp))
        assert arp <= call(f"arp_{bound}", scores, weights, offsets)[0] + slack
        assert dcg <= call(f"dcg_{bound}", scores, weights, offsets, k=k)[0] + slack


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
