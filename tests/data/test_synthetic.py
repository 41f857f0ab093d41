"""Synthetic data: shapes and mixes, one seed one result, nothing in the order, and rankers that behave as on real data.

Statistical tests have fixed seeds: they pass or fail for good. Their tolerances are several standard errors wide, so
that a change of the generator that keeps the world passes too.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from counterrank import Ranker, estimators, evaluation
from counterrank.common.errors import CounterrankError
from counterrank.data import RankingData, make_fold, make_ranking_data
from counterrank.experiments import train_production

N_QUERIES = {"mslr": 1500, "yahoo": 3000}
MIX = {"mslr": (0.55, 0.30, 0.13, 0.015, 0.006), "yahoo": (0.26, 0.36, 0.28, 0.08, 0.02)}
SHAPES = ("mslr", "yahoo")


@cache
def sample(shape: str) -> RankingData:
    return make_ranking_data(shape, N_QUERIES[shape], seed=3)


def per_query(data: RankingData, values: np.ndarray) -> list[np.ndarray]:
    return np.split(values, data.offsets[1:-1])


def same(a: RankingData, b: RankingData) -> bool:
    return all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for name in ("features", "labels", "offsets", "query_ids", "doc_ids")
    )


@pytest.mark.parametrize(("shape", "n_features"), [("mslr", 136), ("yahoo", 700)])
def test_is_ranking_data_like_any_other(shape: str, n_features: int) -> None:
    data = make_ranking_data(shape, 50, seed=0)
    assert data.features.shape == (data.n_docs, n_features)
    assert data.features.dtype == np.float32
    assert data.features.flags.c_contiguous
    assert data.labels is not None
    assert data.labels.dtype == np.float32
    assert set(np.unique(data.labels)) <= {0, 1, 2, 3, 4}
    assert data.query_ids.tolist() == list(range(50))
    assert data.query_ids.dtype == np.int64
    checked = RankingData(data.features, data.offsets, data.labels, data.query_ids, data.doc_ids)
    assert same(checked, data)
    assert np.array_equal(RankingData(data.features, data.offsets).doc_ids, data.doc_ids)


@pytest.mark.parametrize("shape", SHAPES)
def test_label_mix(shape: str) -> None:
    data = sample(shape)
    shares = np.bincount(data.labels.astype(int), minlength=5) / data.n_docs
    np.testing.assert_allclose(shares, MIX[shape], rtol=0.12, atol=0.003)


def test_label_mix_varies_between_queries_as_in_the_real_sample() -> None:
    data = sample("mslr")
    best = np.array([labels.max() for labels in per_query(data, data.labels)])
    without = np.mean(best < 3)  # 39 % of the 84 real queries
    assert 0.28 < without < 0.48
    irrelevant = [np.mean(labels == 0) for labels in per_query(data, data.labels) if len(labels) > 20]
    assert 0.15 < np.std(irrelevant) < 0.25  # 0.20 in the real ones


@pytest.mark.parametrize(("shape", "mean", "longest"), [("mslr", 120, (500, 908)), ("yahoo", 24, (90, 139))])
def test_lengths(shape: str, mean: float, longest: tuple[int, int]) -> None:
    lengths = sample(shape).lengths
    assert lengths.mean() == pytest.approx(mean, rel=0.05)
    assert lengths.min() == 1
    assert longest[0] <= lengths.max() <= longest[1]


def test_mslr_features_are_of_very_different_kinds() -> None:
    features = sample("mslr").features
    assert np.isfinite(features).all()
    low, high = features.min(axis=0), features.max(axis=0)
    assert np.sum(high > 1e5) >= 3
    assert np.sum(high <= 1) >= 20
    assert np.sum(high == low) == 2
    assert np.sum(low < -10) >= 10  # log-probabilities
    empty = np.mean(features == 0, axis=0)
    assert np.sum((empty > 0.8) & (empty < 1)) >= 15
    whole = np.all(features[:5000] == np.round(features[:5000]), axis=0)
    assert whole.sum() >= 30  # counts
    inlinks = features[:, 127]
    assert np.median(inlinks) < 20
    assert inlinks.max() > 1e7


def test_mslr_has_near_duplicates_and_columns_constant_in_a_query() -> None:
    data = sample("mslr")
    features = data.features[: data.offsets[100]]
    moving = features[:, features.max(axis=0) > features.min(axis=0)]
    correlation = np.corrcoef(moving.T.astype(np.float64)) - np.eye(moving.shape[1])
    assert np.sum((correlation > 0.99).any(axis=0)) >= 10
    scaled = data.subset(range(100)).normalized().features
    assert np.sum(scaled.max(axis=0) == 0) == 5 + 2  # idf in five streams, and the two that are constant anyway


def test_mslr_text_columns_agree_with_each_other() -> None:
    features = sample("mslr").features[:20_000].astype(np.float64)
    body, anchor, title, url, whole = (features[:, 20 + stream] for stream in range(5))
    np.testing.assert_array_equal(whole, body + anchor + title + url)  # sums of term counts
    assert features[:, 45:50].max() <= 1  # terms fill at most the whole stream
    found, share, mean = features[:, 0], features[:, 5], features[:, 35]
    some = found > 0
    n_terms = np.round(found[some] / share[some])
    assert n_terms.min() == 1
    assert n_terms.max() == 7
    np.testing.assert_allclose(mean[some] * n_terms, body[some], rtol=1e-5)
    np.testing.assert_array_equal(features[some, 95], found[some] == n_terms)


def test_yahoo_features_are_quantiles_with_many_zeros() -> None:
    features = sample("yahoo").features
    assert features.min() >= 0
    assert features.max() <= 1
    assert 0.4 < np.mean(features == 0) < 0.7
    assert np.sum(features.max(axis=0) == 0) == 181
    of_query = make_ranking_data("yahoo", 200, seed=9).normalized().features.max(axis=0) == 0
    assert 181 + 20 < of_query.sum() < 181 + 70


@pytest.mark.statistical
@pytest.mark.representative
@pytest.mark.parametrize("shape", SHAPES)
def test_document_order_carries_no_information(shape: str) -> None:
    """Labels against places, both centred in their query: |z| < 4 fails by chance once in 16,000 seeds."""
    data = sample(shape)
    terms, variance = 0.0, 0.0
    for labels in per_query(data, data.labels.astype(np.float64)):
        n = len(labels)
        if n > 1:
            place = np.arange(n) - (n - 1) / 2
            terms += place @ (labels - labels.mean())
            variance += (place @ place) * labels.var(ddof=1)  # under a random order of this query's labels
    assert abs(terms / np.sqrt(variance)) < 4
    first = np.array([labels[0] for labels in per_query(data, data.labels)])
    mean = np.array([labels.mean() for labels in per_query(data, data.labels)])
    assert abs(np.mean(first - mean)) < 4 * np.std(first - mean) / np.sqrt(data.n_queries)


@pytest.mark.parametrize("shape", SHAPES)
def test_threads_do_not_matter(shape: str) -> None:
    assert same(make_ranking_data(shape, 300, 1, threads=1), make_ranking_data(shape, 300, 1, threads=3))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_query_does_not_depend_on_how_many_there_are(shape: str) -> None:
    assert same(make_ranking_data(shape, 80, seed=1).subset(range(30)), make_ranking_data(shape, 30, seed=1))


@pytest.mark.parametrize("shape", SHAPES)
def test_seeds(shape: str) -> None:
    one = make_ranking_data(shape, 20, seed=1)
    assert same(one, make_ranking_data(shape, 20, seed=1))
    assert same(one, make_ranking_data(shape, 20, seed=np.random.default_rng(1)))
    other = make_ranking_data(shape, 20, seed=2)
    assert not np.array_equal(one.lengths, other.lengths)
    generator = np.random.default_rng(1)
    make_ranking_data(shape, 20, seed=generator)
    assert not same(one, make_ranking_data(shape, 20, seed=generator))


def test_queries_of_one_seed_are_not_alike() -> None:
    data = sample("mslr")
    starts = data.features[data.offsets[:-1]]
    assert len(np.unique(starts, axis=0)) == data.n_queries


@pytest.mark.parametrize("n_queries", [5, 7, 50])
def test_fold_is_the_data_in_three_pieces(n_queries: int) -> None:
    fold = make_fold("yahoo", n_queries, seed=4)
    whole = make_ranking_data("yahoo", n_queries, seed=4)
    assert fold.validation is not None
    parts = (fold.train, fold.validation, fold.test)
    start = 0
    for part in parts:
        assert same(part, whole.subset(range(start, start + part.n_queries)))
        start += part.n_queries
    assert start == n_queries
    assert parts[1].n_queries == parts[2].n_queries == n_queries // 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("msrl", 5, 0), "shape='msrl': expected one of 'mslr', 'yahoo'"),
        (("mslr", 0, 0), "n_queries=0: expected a whole number of at least 1"),
        (("mslr", 2.5, 0), "n_queries=2.5: expected a whole number of at least 1"),
        (("mslr", True, 0), "n_queries=True: expected a whole number of at least 1"),
        (("mslr", 5, -1), "seed=-1: expected a whole number of at least 0"),
        (("mslr", 5, "x"), "seed='x': expected a whole number of at least 0"),
    ],
)
def test_bad_arguments(arguments: tuple, message: str) -> None:
    with pytest.raises(CounterrankError, match=message.replace(".", r"\.")):
        make_ranking_data(*arguments)


def test_fold_needs_five_queries() -> None:
    with pytest.raises(CounterrankError, match="n_queries=4: expected a whole number of at least 5"):
        make_fold("mslr", 4, 0)


@pytest.mark.statistical
@pytest.mark.parametrize(("shape", "n_train"), [("mslr", 600), ("yahoo", 1500)])
def test_rankers_stand_as_on_real_data(shape: str, n_train: int) -> None:
    """Random < linear from few queries < linear from all < trees < perfect."""
    train, test = make_ranking_data(shape, n_train, seed=11), make_ranking_data(shape, 800, seed=12)

    def level(scores: np.ndarray) -> float:
        return evaluation.evaluate(scores, test, metrics=["ndcg_graded@5"])["ndcg_graded@5"]

    few = np.mean([level(train_production(train, 0.01, 3, seed)[0].predict(test)) for seed in range(5)])
    ranker = Ranker(loss="arp-hinge", max_epochs=10, seed=0).fit(train, estimators.full_information(train))
    everything, trees = level(ranker.predict(test)), level(tree_scores(train, test))
    assert level(np.zeros(test.n_docs)) + 0.05 < few
    assert few + 0.04 < everything
    assert everything + 0.005 < trees  # more with more data; few and coarse trees keep this fast
    assert trees + 0.15 < level(test.labels) == 1


def tree_scores(train: RankingData, test: RankingData) -> np.ndarray:
    ensemble, limits = pytest.importorskip("sklearn.ensemble"), pytest.importorskip("threadpoolctl")
    moving = train.features.max(axis=0) > train.features.min(axis=0)
    trees = ensemble.HistGradientBoostingRegressor(
        max_iter=40, learning_rate=0.2, max_leaf_nodes=15, max_bins=32, max_features=0.3, random_state=0
    )
    with limits.threadpool_limits(1):  # its threads wait for each other busily, which a shared machine punishes
        return trees.fit(train.features[:, moving], train.labels).predict(test.features[:, moving])
