"""The losses against hand-worked numbers, the mistakes others made with them, and what they are bounds of."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterrank import losses
from tests.losses.test_losses import assert_same, call, queries
from tests.reference import losses as naive

LOG3 = math.log2(3.0)


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

    def test_dcg_logistic(self):
        middle = math.log2(1 + math.exp(2 - 1)) + math.log2(2) + math.log2(1 + math.exp(0 - 1))
        lowest = math.log2(1 + math.exp(2 - 0)) + math.log2(1 + math.exp(1 - 0)) + math.log2(2)
        expected = 0.5 * (-1 / math.log2(1 + middle) + 1) + 1.0 * (-1 / math.log2(1 + lowest) + 1)
        assert self.value("dcg_logistic") == pytest.approx(expected)

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

    def test_lambdaloss_is_no_bound_at_other_scores_with_frozen_ranks(self):  # mistake 10
        """Ranks and deltas from one set of scores, the loss and the metric at another."""
        frozen, scores, weights = [2, 1, 5, 4, 3], np.array([3.0, 0.0, 4.0, 1.0, 2.0]), np.array([1.0, 0, 0, 0, 0])

        def delta(i, j):
            apart = abs(frozen[i] - frozen[j])
            return naive.dcg_discount(apart) - naive.dcg_discount(apart + 1)

        # only document 0 has a weight, so all pairs are with it and the constant C is 0
        loss = sum(delta(0, j) * naive.softplus2(scores[j] - scores[0]) for j in range(1, 5))
        missing = 1 - naive.dcg_discount(naive.ranks_of(scores)[0])
        assert missing > loss + 0.02
        at_own_scores = losses.lambdaloss_dcg(scores, weights, [0, 5])[0]
        assert missing <= at_own_scores

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
