import itertools
import math

import numpy as np
import pytest

from counterrank.data import RankingData
from counterrank.estimators import full_information
from counterrank.evaluation import evaluate_queries


def make(labels):
    return RankingData(np.zeros((len(labels), 1)), [0, len(labels)], labels)


def test_binary_weights():
    weights = full_information(make([0, 1, 2, 3, 4]), relevance_threshold=3)
    assert weights.dtype == np.float64
    assert weights.tolist() == [0, 0, 0, 1, 1]


def test_default_threshold_is_three():
    assert full_information(make([2, 3])).tolist() == [0, 1]


def test_exponential_weights_do_not_use_the_threshold():
    expected = [2**0 - 1, 2**1 - 1, 2**2 - 1, 2**0.5 - 1]
    assert full_information(make([0, 1, 2, 0.5]), 3, gain="exponential").tolist() == expected


def test_labels_below_zero_gain_nothing():
    assert full_information(make([-1, 1]), gain="exponential").tolist() == [0, 1]


def test_threshold_is_compared_as_float32_like_the_labels():
    assert float(np.float32(0.7)) < 0.7  # so a comparison in float64 would lose the document
    for threshold in (0.7, np.float64(0.7), np.float32(0.7)):
        assert full_information(make([0.2, 0.7]), relevance_threshold=threshold).tolist() == [0, 1]


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize(("gain", "metric"), [("binary", "ndcg@{}"), ("exponential", "ndcg_graded@{}")])
def test_dcg_with_weights_for_ndcg_is_ndcg(gain, metric, k):
    rng = np.random.default_rng(k)
    offsets = np.array([0, 4, 5, 7, 19])  # the third has nothing relevant
    labels = rng.integers(0, 5, size=19)
    labels[4], labels[5:7] = 3, 0
    data, scores = RankingData(np.zeros((19, 1)), offsets, labels), rng.permutation(19)
    weights = full_information(data, 2, gain, ndcg_at=k)
    expected = evaluate_queries(scores, data, 2, metrics=[metric.format(k)])[metric.format(k)]
    for query, (first, last) in enumerate(itertools.pairwise(offsets)):
        best = first + np.argsort(-scores[first:last])[:k]
        dcg = sum(weights[d] / math.log2(2 + i) for i, d in enumerate(best))
        assert dcg == pytest.approx(np.nan_to_num(expected[query]))


@pytest.mark.parametrize(
    ("labels", "arguments", "message"),
    [
        (None, {}, "data: has no labels; expected ranking data with a relevance label"),
        (None, {"gain": "exponential"}, "data: has no labels"),
        (
            [0, 2, 1],
            {},
            "relevance_threshold=3: no document is relevant, the largest label is 2; .* such as 2",
        ),
        ([0, 0], {"gain": "exponential"}, "labels: the largest is 0, so every gain .* is 0"),
        ([0, 2000], {"gain": "exponential"}, "labels: document 1 has label 2000; expected at most 1000"),
        ([0, 3], {"ndcg_at": 0}, "ndcg_at=0: expected a whole number of at least 1"),
        ([0, 3], {"gain": "linear"}, "gain='linear': expected one of 'binary', 'exponential'"),
        ([0, 3], {"relevance_threshold": "3"}, "relevance_threshold='3': expected a number"),
        ([0, 3], {"relevance_threshold": None}, "relevance_threshold=None: expected a number"),
        ([0, 3], {"relevance_threshold": float("nan")}, "relevance_threshold=nan: expected a finite number"),
        ([0, 3], {"relevance_threshold": 1e300}, r"relevance_threshold=1e\+300: expected a finite number"),
    ],
)
def test_bad_input(labels, arguments, message):
    data = RankingData(np.zeros((3, 1)), [0, 3]) if labels is None else make(labels)
    with pytest.raises(ValueError, match=message):
        full_information(data, **arguments)


def test_arguments_of_another_type():
    with pytest.raises(ValueError, match="data: list; expected RankingData"):
        full_information([0, 1, 2])
