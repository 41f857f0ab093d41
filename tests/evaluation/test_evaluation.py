"""Metrics against hand-worked numbers, every order of ties, and another evaluator."""

from itertools import pairwise
from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterrank.data import RankingData
from counterrank.evaluation import evaluate, evaluate_queries, weighted_metric
from tests.reference import metrics as naive

NAMES = [
    *["arp", "dcg", "dcg@1", "dcg@2", "dcg@9", "ndcg", "ndcg@1", "ndcg@3", "precision@1", "precision@3"],
    *["precision@9", "recall@2", "recall@9", "mrr", "map", "ndcg_graded", "ndcg_graded@2", "ndcg_graded@9"],
]


def make(labels, offsets=None):
    offsets = [0, len(labels)] if offsets is None else offsets
    return RankingData(np.zeros((len(labels), 1)), offsets, labels)


def close(value):
    return pytest.approx(value, rel=1e-12, abs=1e-13)


# Hand-worked numbers


def test_one_query_by_hand():
    # by rank: labels 0, 3, 1, 4, 0; relevant are the ranks 2 and 4
    data = make([4, 0, 3, 0, 1])
    result = evaluate([2.0, 5.0, 4.0, 1.0, 3.0], data, ks=[1, 3, 10])
    perfect = 1 / log2(2) + 1 / log2(3)
    gains = 7 / log2(3) + 1 / log2(4) + 15 / log2(5)
    perfect_gains = 15 / log2(2) + 7 / log2(3) + 1 / log2(4)
    expected = {
        "arp": (2 + 4) / 2,
        "dcg": 1 / log2(3) + 1 / log2(5),
        "dcg@1": 0,
        "dcg@3": 1 / log2(3),
        "dcg@10": 1 / log2(3) + 1 / log2(5),
        "ndcg": (1 / log2(3) + 1 / log2(5)) / perfect,
        "ndcg@1": 0,
        "ndcg@3": 1 / log2(3) / perfect,
        "ndcg@10": (1 / log2(3) + 1 / log2(5)) / perfect,
        "precision@1": 0,
        "precision@3": 1 / 3,
        "precision@10": 2 / 10,
        "recall@1": 0,
        "recall@3": 1 / 2,
        "recall@10": 2 / 2,
        "mrr": 1 / 2,
        "map": (1 / 2 + 2 / 4) / 2,
        "ndcg_graded@1": 0,
        "ndcg_graded@3": (7 / log2(3) + 1 / log2(4)) / perfect_gains,
        "ndcg_graded@10": gains / perfect_gains,
    }
    assert list(result) == list(expected)
    assert result == {name: close(value) for name, value in expected.items()}


def test_arp_is_pooled_over_documents_and_the_rest_over_queries():
    # query 0: relevant on ranks 1, 2, 3; query 1: on rank 2; query 2: nothing relevant
    data = make([3, 3, 3, 0, 3, 0, 0], [0, 3, 5, 7])
    result = evaluate([3, 2, 1, 2, 1, 2, 1], data, metrics=["arp", "mrr", "precision@1"])
    assert result == {"arp": close((1 + 2 + 3 + 2) / 4), "mrr": (1 + 1 / 2) / 2, "precision@1": (1 + 0) / 2}
    zero = evaluate([3, 2, 1, 2, 1, 2, 1], data, metrics=["arp", "mrr", "precision@1"], empty="zero")
    assert zero == {
        "arp": close((1 + 2 + 3 + 2) / 4),
        "mrr": close((1 + 1 / 2 + 0) / 3),
        "precision@1": close(1 / 3),
    }


def test_query_weights_by_hand():
    data = make([3, 3, 3, 0, 3, 0, 0], [0, 3, 5, 7])
    arguments = {"metrics": ["arp", "mrr"], "query_weights": [1, 5, 4]}
    result = evaluate([3, 2, 1, 2, 1, 2, 1], data, **arguments)
    assert result == {
        "arp": close((1 + 2 + 3 + 5 * 2) / (3 + 5)),
        "mrr": close((1 * 1 + 5 / 2) / (1 + 5)),
    }
    zero = evaluate([3, 2, 1, 2, 1, 2, 1], data, empty="zero", **arguments)
    assert zero == {"arp": result["arp"], "mrr": close((1 * 1 + 5 / 2) / (1 + 5 + 4))}


def test_ties_by_hand():
    # ranks 1..3 tied with one relevant document among them
    data = make([0, 0, 3])
    result = evaluate([1, 1, 1], data, metrics=["arp", "mrr", "map", "dcg", "dcg@1", "precision@2"])
    assert result == {
        "arp": close((1 + 2 + 3) / 3),
        "mrr": close((1 + 1 / 2 + 1 / 3) / 3),
        "map": close((1 + 1 / 2 + 1 / 3) / 3),
        "dcg": close((1 + 1 / log2(3) + 1 / 2) / 3),
        "dcg@1": close(1 / 3),
        "precision@2": close((1 / 2 + 1 / 2 + 0) / 3),
    }
    assert evaluate([1, 1, 1], data, metrics=["arp"], ties="order") == {"arp": 3}


def test_map_and_mrr_of_two_relevant_among_three_tied():
    # the three orders of (relevant, relevant, not): ranks 1 2, 1 3, 2 3
    result = evaluate([0, 0, 0], make([3, 3, 0]), metrics=["mrr", "map"])
    orders = [(1 / 1 + 2 / 2) / 2, (1 / 1 + 2 / 3) / 2, (1 / 2 + 2 / 3) / 2]
    assert result == {"mrr": close((1 + 1 + 1 / 2) / 3), "map": close(sum(orders) / 3)}


def test_weighted_metric_by_hand():
    # ranks 2, 1, 3 and 1, 2; a negative weight is legal
    scores, weights, offsets = [2, 3, 1, 5, 4], [1, 0, 4, -2, 3], [0, 3, 5]
    total = 1 + 4 + 2 + 3
    assert weighted_metric(scores, weights, offsets, "arp") == close((2 + 4 * 3 - 2 * 1 + 3 * 2) / total)
    dcg = 1 / log2(3) + 4 / log2(4) - 2 / log2(2) + 3 / log2(3)
    assert weighted_metric(scores, weights, offsets, "dcg") == close(dcg / total)
    assert weighted_metric(scores, weights, offsets, "dcg@2") == close((dcg - 4 / log2(4)) / total)
    assert weighted_metric(scores, weights, offsets, "precision@2") == close((1 - 2 + 3) / 2 / total)


def test_weighted_metric_does_not_depend_on_the_scale_of_weights():
    scores, weights = [2, 3, 1, 5, 4], np.array([1, 0, 4, -2, 3])
    small = weighted_metric(scores, weights * 1e-9, [0, 3, 5], "dcg@2")
    assert small == close(weighted_metric(scores, weights, [0, 3, 5], "dcg@2"))


# Against the references: every order of ties

documents = st.tuples(st.sampled_from([-1.5, 0.0, 2.0]), st.sampled_from([-1, 0, 0, 1, 2, 3, 4, 2.5]))
query_lists = st.lists(st.lists(documents, min_size=1, max_size=5), min_size=1, max_size=4)


def flatten(queries):
    scores, labels = zip(*(document for query in queries for document in query), strict=True)
    return list(scores), list(labels), np.cumsum([0] + [len(query) for query in queries])


@settings(deadline=None, max_examples=150)
@given(query_lists, st.sampled_from(["average", "order"]))
def test_queries_match_enumeration(queries, ties):
    scores, labels, offsets = flatten([*queries, [(0.0, 3)]])  # so that something is relevant
    result = evaluate_queries(scores, make(labels, offsets), metrics=NAMES, ties=ties)
    for name in NAMES:
        for q, (start, end) in enumerate(pairwise(offsets)):
            expected = naive.evaluate_query(scores[start:end], labels[start:end], 3, name, ties)
            assert result[name][q] == pytest.approx(expected, rel=1e-12, abs=1e-13, nan_ok=True), name


@settings(deadline=None, max_examples=100)
@given(query_lists, st.sampled_from(["skip", "zero"]), st.lists(st.integers(0, 3), min_size=5, max_size=5))
def test_means_match_enumeration(queries, empty, counts):
    queries = [*queries, [(0.0, 3)]]
    scores, labels, offsets = flatten(queries)
    weights = [float(c) for c in counts[: len(queries) - 1]] + [1.0]
    result = evaluate(scores, make(labels, offsets), metrics=NAMES, query_weights=weights, empty=empty)
    for name in NAMES:
        expected = naive.evaluate(scores, labels, offsets, 3, name, query_weights=weights, empty=empty)
        assert result[name] == close(expected), name


@settings(deadline=None, max_examples=100)
@given(query_lists, st.integers(1, 6))
def test_weighted_metric_matches_enumeration(queries, k):
    scores, weights, offsets = flatten([*queries, [(0.0, 3)]])
    lambdas = {
        "arp": float,
        "dcg": naive.discount,
        f"dcg@{k}": lambda rank: naive.discount(rank) if rank <= k else 0,
        f"precision@{k}": lambda rank: 1 / k if rank <= k else 0,
    }
    for name, value in lambdas.items():
        expected = naive.weighted_metric(scores, weights, offsets, value)
        assert weighted_metric(scores, weights, offsets, name) == close(expected), name


def test_many_weights_are_the_sum_of_each_alone():
    # few weighted documents are counted, many are sorted: two ways to the same ranks
    rng = np.random.default_rng(7)
    scores, weights, offsets = rng.integers(0, 25, 90), rng.normal(size=90), [0, 50, 90]
    for name in ["arp", "dcg", "dcg@7", "precision@7"]:
        alone = [weighted_metric(scores, row, offsets, name) for row in np.eye(90)]
        expected = weights @ alone / np.abs(weights).sum()
        assert weighted_metric(scores, weights, offsets, name) == close(expected)


@pytest.mark.statistical
@pytest.mark.representative
def test_large_tied_groups_match_sampling():
    # beyond enumeration: 5 standard errors, for 4 metrics a false alarm once in 400,000 seeds
    rng = np.random.default_rng(0)
    labels = np.array([3] * 7 + [0] * 33)
    scores = np.repeat([2.0, 1.0, 0.0], [10, 25, 5])
    rng.shuffle(labels)
    names = ["mrr", "map", "ndcg", "precision@5"]
    sampled = {name: [] for name in names}
    for _ in range(2000):
        order = np.lexsort((rng.random(40), -scores))
        for name in names:
            sampled[name].append(naive.value_of_order(labels[order].tolist(), 3, name))
    for name, value in evaluate(scores, make(labels), metrics=names).items():
        error = np.std(sampled[name]) / np.sqrt(2000)
        assert abs(np.mean(sampled[name]) - value) < 5 * error, name


def test_weights_of_relevant_documents_give_pooled_arp():
    rng = np.random.default_rng(1)
    labels, scores = rng.integers(0, 5, 60), rng.integers(0, 6, 60)
    offsets = [0, 1, 20, 45, 60]
    weights = (labels >= 3).astype(float)
    arp = evaluate(scores, make(labels, offsets), metrics=["arp"])["arp"]
    assert weighted_metric(scores, weights, offsets, "arp") == close(arp)


# Against another evaluator


def random_data(seed, n_queries=40, longest=60):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest, n_queries)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    labels = rng.choice(5, size=offsets[-1], p=[0.5, 0.2, 0.1, 0.1, 0.1])
    return make(labels, offsets), rng.permutation(offsets[-1]) / 7.0


def measured(data, scores, gains, measures):
    """Values per measure and query by ir-measures, which hands on to pytrec_eval."""
    ir_measures = pytest.importorskip("ir_measures")
    pytest.importorskip("pytrec_eval")
    rows = [(q, i) for q in range(data.n_queries) for i in range(*data.offsets[q : q + 2])]
    labels = [ir_measures.Qrel(str(q), str(i), int(gains[i])) for q, i in rows]
    run = [ir_measures.ScoredDoc(str(q), str(i), float(scores[i])) for q, i in rows]
    parsed = [ir_measures.parse_measure(measure) for measure in measures]
    values = {measure: np.full(data.n_queries, np.nan) for measure in measures}
    for found in ir_measures.pytrec_eval.iter_calc(parsed, labels, run):
        values[str(found.measure)][int(found.query_id)] = found.value
    return values


BINARY = {
    "ndcg": "nDCG",
    "ndcg@1": "nDCG@1",
    "ndcg@5": "nDCG@5",
    "ndcg@100": "nDCG@100",
    "precision@1": "P@1",
    "precision@5": "P@5",
    "precision@100": "P@100",
    "recall@5": "R@5",
    "recall@100": "R@100",
    "mrr": "RR",
    "map": "AP",
}


def test_binary_metrics_agree_with_ir_measures():
    data, scores = random_data(2)
    ours = evaluate_queries(scores, data, metrics=list(BINARY))
    theirs = measured(data, scores, data.labels >= 3, BINARY.values())
    for name, measure in BINARY.items():
        counts = ~np.isnan(ours[name])
        assert 0 < counts.sum() < data.n_queries  # some queries have nothing relevant
        np.testing.assert_allclose(ours[name][counts], theirs[measure][counts], rtol=1e-9, atol=1e-12)


def test_graded_ndcg_agrees_with_ir_measures():
    # trec_eval's gain is the judgement itself, so it is handed 2**label - 1
    data, scores = random_data(3)
    names = {"ndcg_graded": "nDCG", "ndcg_graded@3": "nDCG@3", "ndcg_graded@10": "nDCG@10"}
    ours = evaluate_queries(scores, data, metrics=list(names))
    theirs = measured(data, scores, 2**data.labels - 1, names.values())
    for name, measure in names.items():
        counts = ~np.isnan(ours[name])
        np.testing.assert_allclose(ours[name][counts], theirs[measure][counts], rtol=1e-9, atol=1e-12)
