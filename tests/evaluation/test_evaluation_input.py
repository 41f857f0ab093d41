"""Names of metrics, and what is refused."""

from math import log2

import numpy as np
import pytest

from counterrank.data import RankingData
from counterrank.evaluation import evaluate, higher_is_better, parse_metric, rank_values, weighted_metric

ALL = ["arp", "dcg", "dcg@5", "ndcg", "ndcg@5", "precision@5", "recall@5", "mrr", "map", "ndcg_graded@5"]


def make(labels):
    return RankingData(np.zeros((len(labels), 1)), [0, len(labels)], labels)


def close(value):
    return pytest.approx(value, rel=1e-12)


def test_parse_metric():
    assert parse_metric("arp") == ("arp", None)
    assert parse_metric("ndcg_graded@10") == ("ndcg_graded", 10)


def test_higher_is_better():
    assert [name for name in ALL if not higher_is_better(name)] == ["arp"]


def test_rank_values():
    assert rank_values("arp", 3).tolist() == [1, 2, 3]
    assert rank_values("dcg", 3).tolist() == close([1, 1 / log2(3), 1 / 2])
    assert rank_values("dcg@2", 3).tolist() == close([1, 1 / log2(3), 0])
    assert rank_values("dcg@9", 2).tolist() == close([1, 1 / log2(3)])
    assert rank_values("precision@2", 3).tolist() == [1 / 2, 1 / 2, 0]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("err", "metric 'err': unknown; expected one of arp, dcg"),
        ("DCG@5", "metric 'DCG@5': unknown"),
        ("", "metric '': unknown"),
        (5, "metric 5: unknown"),
        ("precision", "metric 'precision': expected a cutoff, such as 'precision@5'"),
        ("mrr@5", "metric 'mrr@5': mrr has no cutoff; expected 'mrr'"),
        ("dcg@", "metric 'dcg@': expected a whole number of at least 1 after '@'"),
        ("dcg@0", "metric 'dcg@0': expected a whole number of at least 1"),
        ("dcg@-1", "metric 'dcg@-1': expected a whole number"),
        ("dcg@1.5", "metric 'dcg@1.5': expected a whole number"),
        ("dcg@²", "expected a whole number"),
    ],
)
def test_bad_metric_names(name, message):
    for ask in (parse_metric, higher_is_better, lambda name: rank_values(name, 3)):
        with pytest.raises(ValueError, match=message):
            ask(name)
    with pytest.raises(ValueError, match=message):
        evaluate([1, 2], make([0, 3]), metrics=[name])


@pytest.mark.parametrize("name", ["ndcg@5", "recall@5", "mrr", "map", "ndcg_graded@5"])
def test_metrics_that_weights_cannot_give(name):
    with pytest.raises(ValueError, match=f"metric '{name}': needs to know all relevant documents"):
        weighted_metric([1, 2], [0, 1], [0, 2], name)


@pytest.mark.parametrize(
    ("scores", "labels", "arguments", "message"),
    [
        ([1], [0, 3], {}, "scores: 1 entries; expected 2, the number of documents"),
        ([1, np.nan], [0, 3], {}, "scores: entry 1 is nan; expected finite numbers"),
        ([1, np.inf], [0, 3], {}, "scores: entry 1 is inf"),
        ([[1, 2]], [0, 3], {}, "scores: shape"),
        (["a", "b"], [0, 3], {}, "scores: type .*; expected real numbers"),
        ([1, 2], None, {}, "data: has no labels"),
        ([1, 2], [0, 2], {}, "relevance_threshold=3: no document is relevant, the largest label is 2"),
        ([1, 2], [0, 0], {}, "relevance_threshold=3: no document is relevant, the largest label is 0"),
        ([1, 2], [0, 2], {"relevance_threshold": "x"}, "relevance_threshold='x': expected a number"),
        ([1, 2], [0, 0], {"metrics": ["ndcg_graded@5"]}, "labels: the largest is 0"),
        ([1, 2], [0, 3], {"ties": "random"}, "ties='random': expected one of 'average', 'order'"),
        ([1, 2], [0, 3], {"empty": "nan"}, "empty='nan': expected one of 'skip', 'zero'"),
        ([1, 2], [0, 3], {"metrics": "dcg@5"}, "metrics='dcg@5': expected a list of names"),
        ([1, 2], [0, 3], {"metrics": []}, r"metrics=\[\]: expected a list of names"),
        ([1, 2], [0, 3], {"ks": 5}, "ks=5: expected a list of cutoffs"),
        ([1, 2], [0, 3], {"ks": [0]}, "ks=0: expected a whole number of at least 1"),
        ([1, 2], [0, 3], {"ks": [None]}, "ks=None: expected a whole number of at least 1"),
        ([1, 2], [0, 3], {"threads": 0}, "threads=0: expected a whole number of at least 1"),
        (
            [1, 2],
            [0, 3],
            {"query_weights": [1, 1]},
            "query_weights: 2 entries; expected 1, the number of queries",
        ),
        ([1, 2], [0, 3], {"query_weights": [-1]}, "query_weights: entry 0 is -1; expected 0 or more"),
        ([1, 2], [0, 3], {"query_weights": [0]}, "query_weights: 0 for every query with a relevant document"),
    ],
)
def test_bad_input(scores, labels, arguments, message):
    data = RankingData(np.zeros((2, 1)), [0, 2]) if labels is None else make(labels)
    with pytest.raises(ValueError, match=message):
        evaluate(scores, data, **arguments)


def test_swapped_arguments():
    with pytest.raises(ValueError, match="data: list; expected RankingData"):
        evaluate(make([0, 3]), [1, 2])


@pytest.mark.parametrize(
    ("scores", "weights", "offsets", "message"),
    [
        ([1, 2], [0, 0], [0, 2], "weights: all are 0; expected at least one other"),
        ([1, 2], [1], [0, 2], "weights: 1 entries; expected 2, the number of documents"),
        ([1, 2], [1, np.nan], [0, 2], "weights: entry 1 is nan"),
        ([1, 2], [1, 1], [0, 3], "offsets: ends at 3; expected the number of documents, 2"),
        ([1, 2], [1, 1], [0, 0, 2], "offsets: query 0 is empty"),
    ],
)
def test_bad_weighted_input(scores, weights, offsets, message):
    with pytest.raises(ValueError, match=message):
        weighted_metric(scores, weights, offsets, "dcg@5")
