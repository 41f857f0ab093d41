"""Known mistakes of other systems, edges, and what must not change a result."""

import gzip
from math import log2

import numpy as np
import pytest

from counterrank.data import RankingData
from counterrank.evaluation import evaluate, evaluate_queries, weighted_metric
from tests.support.paths import SHARED

OHSUMED = SHARED / "ohsumed" / "Fold1" / "test.txt.gz"


def make(labels, offsets=None):
    offsets = [0, len(labels)] if offsets is None else offsets
    return RankingData(np.zeros((len(labels), 1)), offsets, labels)


def close(value):
    return pytest.approx(value, rel=1e-12, abs=1e-13)


def random_data(seed, n_queries=40, longest=60):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest, n_queries)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    labels = rng.choice(5, size=offsets[-1], p=[0.5, 0.2, 0.1, 0.1, 0.1])
    return make(labels, offsets), rng.permutation(offsets[-1]) / 7.0


@pytest.mark.skipif(not OHSUMED.exists(), reason="needs OHSUMED Fold1 in ../shared/data")
def test_file_order_leaks_labels_on_ohsumed():
    labels, queries = [], []
    with gzip.open(OHSUMED, "rt") as lines:
        for line in lines:
            label, query = line.split()[:2]
            labels.append(float(label))
            queries.append(query)
    starts = [i for i, query in enumerate(queries) if i == 0 or query != queries[i - 1]]
    data = make(labels, [*starts, len(labels)])
    zeros = np.zeros(data.n_docs)
    arguments = {"relevance_threshold": 2, "metrics": ["dcg@5"]}
    assert evaluate(zeros, data, ties="order", **arguments)["dcg@5"] == pytest.approx(0.83, abs=0.005)
    assert evaluate(zeros, data, **arguments)["dcg@5"] == pytest.approx(0.29, abs=0.005)


def test_ties_by_order_keep_document_order():
    data = make([3, 0, 0])
    assert evaluate([0.0, 0.0, 0.0], data, metrics=["arp"], ties="order") == {"arp": 1}
    assert evaluate([-0.0, 0.0, -0.0], data, metrics=["arp"], ties="order") == {"arp": 1}
    assert evaluate([-0.0, 0.0, -0.0], data, metrics=["arp"]) == {"arp": 2}


def test_single_document():
    result = evaluate([0.3], make([4]), ks=[1, 5])
    assert result.pop("precision@5") == 1 / 5
    assert set(result.values()) == {1.0}


def test_cutoff_beyond_the_query():
    data = make([0, 3])
    result = evaluate([2, 1], data, metrics=["dcg@1000000000", "dcg", "precision@1000", "recall@1000"])
    assert result["dcg@1000000000"] == result["dcg"] == close(1 / log2(3))
    assert (result["precision@1000"], result["recall@1000"]) == (1 / 1000, 1)


def test_queries_that_do_not_count_are_nan():
    # query 0 has only a graded gain, query 1 has none, query 2 has both
    data = make([1, 0, 0, 0, 4], [0, 2, 4, 5])
    result = evaluate_queries([1, 2, 1, 2, 1], data, metrics=["arp", "mrr", "ndcg_graded@5"])
    assert np.isnan(result["mrr"]).tolist() == [True, True, False]
    assert np.isnan(result["arp"]).tolist() == [True, True, False]
    assert np.isnan(result["ndcg_graded@5"]).tolist() == [False, True, False]
    assert evaluate([1, 2, 1, 2, 1], data, metrics=["ndcg_graded@5"]) == {"ndcg_graded@5": close((1 / log2(3) + 1) / 2)}


@pytest.mark.parametrize("scores", [[1e308, -1e308, 1e-308], [1e308, 1.0, np.nextafter(1.0, 2)]])
def test_extreme_scores(scores):
    result = evaluate_queries(scores, make([0, 3, 0]), metrics=["mrr"])
    assert result["mrr"] == close(1 / 3)


def test_real_labels_and_large_labels():
    labels = [0.5, 100.0, 0.0, 2.0]
    result = evaluate([4, 3, 2, 1], make(labels), relevance_threshold=0.5, metrics=["ndcg_graded@2", "arp"])
    best = (2**100 - 1) + (2**2 - 1) / log2(3)
    assert result == {
        "ndcg_graded@2": close((2**0.5 - 1 + (2**100 - 1) / log2(3)) / best),
        "arp": close((1 + 2 + 4) / 3),
    }


def test_float32_scores():
    data, scores = random_data(4)
    wide = evaluate(scores.astype(np.float32).astype(np.float64), data)
    assert evaluate(scores.astype(np.float32), data) == wide


@pytest.mark.parametrize("ties", ["average", "order"])
def test_threads_give_identical_results(ties):
    data, _ = random_data(5, n_queries=400)
    assert data.n_docs > 4096  # enough to be worth more than one thread
    scores = np.random.default_rng(5).integers(0, 20, data.n_docs)
    assert evaluate(scores, data, ties=ties, threads=1) == evaluate(scores, data, ties=ties, threads=3)
    one, two = (weighted_metric(scores, data.labels, data.offsets, "dcg@5", threads=n) for n in (1, 3))
    assert one == two


def test_document_order_does_not_matter_when_ties_are_averaged():
    rng = np.random.default_rng(6)
    labels, scores = rng.integers(0, 5, 50), rng.integers(0, 5, 50)
    shuffled = rng.permutation(50)
    before = evaluate(scores, make(labels), ks=[1, 3, 9])
    after = evaluate(scores[shuffled], make(labels[shuffled]), ks=[1, 3, 9])
    assert after == {name: close(value) for name, value in before.items()}
