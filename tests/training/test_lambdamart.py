"""Counterfactual LambdaMART: trees grown from our gradients, kept by validation clicks, the same every time."""

import math
import warnings

import numpy as np
import pytest

import counterrank as cr
from counterrank import estimators, examination, policies, simulation
from counterrank.common.errors import MissingExtraError, ModelError, NothingToLearnError
from counterrank.training.boosting import DAMPING, make_objective
from counterrank.training.problem import Settings, Task, check_weights, kind_of, query_metric
from tests.reference import losses as naive
from tests.reference import second_order as naive_second_order
from tests.support.losses import EXACT
from tests.support.ragged import ragged_data, ragged_weights

lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed (pip install 'counterrank[lightgbm]')")


def made(n_queries, seed):
    """Queries of 1 to 24 documents with ten features; three of them predict relevance, not linearly."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate(([0], np.cumsum(rng.integers(1, 25, size=n_queries))))
    features = rng.normal(size=(offsets[-1], 10))
    worth = features[:, 0] + np.abs(features[:, 1]) - features[:, 2] ** 2 + rng.normal(size=offsets[-1])
    return cr.RankingData(features, offsets, np.digitize(worth, [-1.0, 0.0, 1.0, 2.0]))


DATA, OTHER = made(100, 0), made(80, 1)
WEIGHTS, OTHER_WEIGHTS = estimators.full_information(DATA), estimators.full_information(OTHER)
RANDOM = {"bagging_fraction": 0.6, "bagging_freq": 1, "feature_fraction": 0.5, "num_leaves": 7}


def ranker(loss="lambdarank", k=5, **settings):
    return cr.Ranker(
        loss, **{"k": k, "model": "lambdamart", "max_epochs": 5, "params": {"num_leaves": 7}, "threads": 1, **settings}
    )


def task(data, weights, loss="lambdarank", k=3, threads=1):
    settings = Settings(None, 1, 1, 0.0, 1, kind_of("lambdamart").normalize, {}, threads, 0)
    return Task(data, check_weights(weights, data), None, cr.losses.named_loss(loss), k, "dcg", settings)


@pytest.mark.parametrize("name", EXACT)
def test_every_loss_learns(name):
    loss = cr.losses.LOSSES[name]
    trained = ranker(name, 5 if loss.takes_k else None, max_epochs=20).fit(DATA, WEIGHTS)
    metric = query_metric("arp", OTHER, check_weights(OTHER_WEIGHTS, OTHER))
    by_chance = metric(np.random.default_rng(0).random(OTHER.n_docs), 1).sum()
    assert metric(trained.predict(OTHER), 1).sum() > by_chance + 2.0  # mean ranks, with a minus sign
    assert trained.history_[-1]["loss"] < trained.history_[0]["loss"]
    assert trained.best_epoch_ == len(trained.history_) == 20


def damped(curvature, data, with_evidence):
    """DAMPING times the mean over documents of queries with evidence, added to theirs."""
    inside = np.repeat(with_evidence, data.lengths)
    return np.where(inside, curvature + DAMPING * curvature[inside].mean(), 0.0)


def test_queries_without_evidence_have_no_say():
    """Trees with and without them differ in the bins of features only; these take few values, so the bins are alike."""
    data = cr.RankingData(np.round(DATA.features), DATA.offsets)
    weights = np.where(np.arange(data.n_docs) < data.offsets[40], WEIGHTS, 0.0)
    alone = data.subset(slice(0, 40))
    params = {"num_leaves": 7, "min_data_in_leaf": 1, "min_data_in_bin": 1, "max_bin": 1000}
    both = (ranker(params=params, max_epochs=3).fit(d, weights[: d.n_docs]).predict(alone) for d in (data, alone))
    np.testing.assert_allclose(*both, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("loss", ["lambdarank", "dcg-hinge"])
def test_leaves_are_newton_steps(loss):
    """One split of one feature: - learning rate * sum of slopes / sum of damped second-order terms, on either side."""
    data, weights = ragged_data(), ragged_weights(ragged_data())
    data = cr.RankingData(np.round(data.features[:, :1]), data.offsets)
    params = {"num_leaves": 2, "min_data_in_leaf": 5}
    scores = ranker(loss, 3, max_epochs=1, learning_rate=0.5, params=params).fit(data, weights).predict(data)
    name, none = loss.replace("-", "_"), np.zeros(data.n_docs)
    _, gradient = naive.over_queries(lambda s, w: naive.NAMED[name](s, w, 3), none, weights, data.offsets)
    curvature = np.concatenate(
        [
            naive_second_order.curvature(name, none[a:b], weights[a:b], 3)
            for a, b in zip(data.offsets, data.offsets[1:], strict=False)
        ]
    )
    curvature = damped(curvature, data, np.add.reduceat(np.abs(weights), data.offsets[:-1]) > 0)
    leaves = np.unique(scores)
    assert len(leaves) == 2
    for leaf in leaves:
        inside = scores == leaf
        assert leaf == pytest.approx(-0.5 * gradient[inside].sum() / curvature[inside].sum(), rel=1e-5)


def test_the_scale_of_weights_does_not_matter():
    params = {"num_leaves": 7, "lambda_l2": 0.1}  # a setting that means something only if the scale is fixed
    one, other = (ranker(params=params).fit(DATA, factor * WEIGHTS).predict(DATA) for factor in (1.0, 2.0**20))
    assert one.tolist() == other.tolist()


def test_weights_are_scaled_to_one_a_query_with_evidence():
    weights = np.where(np.arange(DATA.n_docs) < DATA.offsets[10], 7.0 * WEIGHTS, 0.0)
    evidence = np.add.reduceat(weights, DATA.offsets[:-1]) > 0
    assert 0 < evidence.sum() < len(evidence)
    scores = np.random.default_rng(0).normal(size=DATA.n_docs)
    value, gradient, curvature = make_objective(task(DATA, weights))(scores)
    expected = cr.losses.second_order("lambdarank", scores, weights / weights.sum(), DATA.offsets, k=3)
    assert value == pytest.approx(expected[0])
    np.testing.assert_allclose(gradient, evidence.sum() * expected[1], rtol=1e-5, atol=1e-6)
    terms = damped(expected[2], DATA, evidence)
    np.testing.assert_allclose(curvature, evidence.sum() * terms, rtol=1e-5, atol=1e-6)


def test_neither_threads_nor_the_way_of_summing_matter():
    data = made(500, 3)  # enough documents that kernels and LightGBM do split the work
    weights = estimators.full_information(data)
    expected = ranker(params=RANDOM).fit(data, weights)
    for wise in ({}, {"force_row_wise": True}, {"force_col_wise": True}):
        for threads in (1, 3):
            other = ranker(threads=threads, params={**RANDOM, **wise}).fit(data, weights)
            assert other.predict(data).tolist() == expected.predict(data).tolist()
            if not wise:
                assert other.model_.text == expected.model_.text


def test_sums_of_what_lightgbm_is_given_are_exact():
    weights = WEIGHTS * np.random.default_rng(0).lognormal(sigma=5.0, size=DATA.n_docs)
    scores = 20.0 * np.random.default_rng(1).normal(size=DATA.n_docs)
    _, gradient, curvature = make_objective(task(DATA, weights))(scores)
    for values in (gradient, curvature):
        assert values.dtype == np.float32
        assert sum(values.tolist()) == sum(values[::-1].tolist()) == math.fsum(values.tolist())
    assert (curvature[gradient != 0.0] > 0.0).all()


def test_a_seed_gives_one_result_and_another_gives_another():
    one, same, other = (ranker(seed=s, params=RANDOM).fit(DATA, WEIGHTS).predict(DATA).tolist() for s in (3, 3, 4))
    assert one == same != other


def test_the_best_round_is_kept():
    trained = ranker(max_epochs=60, patience=6, learning_rate=0.4)
    trained.fit(DATA, WEIGHTS, validation=(OTHER, OTHER_WEIGHTS))
    seen = [row["validation"] for row in trained.history_]
    assert trained.best_epoch_ == 1 + int(np.argmax(seen))
    assert len(seen) == trained.best_epoch_ + 6 < 60
    assert trained.model_.booster.num_trees() == trained.best_epoch_
    metric = query_metric("dcg@5", OTHER, check_weights(OTHER_WEIGHTS, OTHER))
    assert metric(trained.predict(OTHER), 1).sum() == max(seen)
    assert [row["epoch"] for row in trained.history_] == list(range(1, len(seen) + 1))


def test_validation_does_not_change_the_trees():
    with_it = ranker(patience=5, params=RANDOM).fit(DATA, WEIGHTS, validation=(OTHER, OTHER_WEIGHTS))
    trees = with_it.best_epoch_
    assert with_it.predict(DATA).tolist() == (
        ranker(max_epochs=trees, params=RANDOM).fit(DATA, WEIGHTS).predict(DATA).tolist()
    )


def test_params_reach_lightgbm_also_by_other_names():
    trained = ranker(params={"max_leaves": 3, "min_child_samples": 30, "n_estimators_": 1})
    with pytest.raises(
        cr.CounterrankError, match="LightGBM has no setting 'n_estimators_'; did you mean 'n_estimators'"
    ):
        trained.fit(DATA, WEIGHTS)
    trained.set_params(params={"max_leaves": 3, "min_child_samples": 30}).fit(DATA, WEIGHTS)
    for tree in trained.model_.booster.dump_model()["tree_info"]:
        assert tree["num_leaves"] <= 3
    assert "[min_data_in_leaf: 30]" in trained.model_.text


REFUSED = [
    ({"use_quantized_grad": True}, r"params: use_quantized_grad is not passed on; with it trees depend on the number"),
    ({"lambdarank_truncation_level": 5}, r"not passed on; the cutoff is k= \(--k\)"),
    ({"objective": "binary"}, r"params: objective is not passed on; it is loss= \(--loss\)"),
    ({"n_estimators": 5}, r"params: n_estimators is not passed on; .*max_epochs"),
    ({"eta": 0.5}, r"params: eta is not passed on; it is learning_rate= \(--learning-rate\)"),
    ({"random_state": 0}, "params: random_state is not passed on"),
    ({"num_threads": 2}, "params: num_threads is not passed on"),
    ({"early_stopping_rounds": 2}, "params: early_stopping_rounds is not passed on; .*patience"),
    ({"metric": "ndcg"}, "params: metric is not passed on"),
    ({"boosting": "dart"}, "params: boosting='dart' changes trees of earlier rounds"),
    ({"num_leaves": 3, "max_leaf": 4}, "params: max_leaf is given twice, under two names"),
    ({"leafs": 3}, "params: LightGBM has no setting 'leafs'"),
    ({"num_leaves": 1}, "params: LightGBM refuses them"),
]


@pytest.mark.parametrize(("params", "message"), REFUSED, ids=[next(iter(reversed(p))) for p, _ in REFUSED])
def test_what_params_refuse(params, message):
    with pytest.raises(cr.CounterrankError, match=message):
        ranker(params=params).fit(DATA, WEIGHTS)


def test_what_cannot_be_learned_is_an_error():
    with pytest.raises(cr.CounterrankError, match="batch_queries=5: lambdamart learns from all queries"):
        ranker(batch_queries=5).fit(DATA, WEIGHTS)
    with pytest.raises(NothingToLearnError, match="weights: equal within every query"):
        ranker().fit(DATA, np.ones(DATA.n_docs))
    with pytest.raises(cr.CounterrankError, match=f"no split of its {DATA.n_docs} documents.*min_data_in_leaf is 5000"):
        ranker(params={"min_child_samples": 5000}).fit(DATA, WEIGHTS)
    constant = cr.RankingData(np.ones((DATA.n_docs, 2)), DATA.offsets)
    with pytest.raises(NothingToLearnError, match=r"none of the features .* varies within any query"):
        ranker().fit(constant, WEIGHTS)
    with pytest.raises(cr.CounterrankError, match="no split of its"):
        ranker(params={"min_gain_to_split": 1e9}).fit(DATA, WEIGHTS)


def test_training_ends_where_no_split_is_left():
    data = cr.RankingData(np.repeat([[0.0], [1.0]], 30, axis=0), offsets=[0, 60])
    params = {"min_data_in_leaf": 5, "min_gain_to_split": 1e-6}  # more than slopes of nothing but rounding can gain
    trained = ranker("arp-hinge", None, max_epochs=500, learning_rate=1.0, params=params)
    trained.fit(data, np.repeat([0.0, 1.0], 30))
    assert 1 <= len(trained.history_) < 500
    assert trained.predict(data)[-1] > trained.predict(data)[0]


def test_views_give_each_document_the_sum_over_its_sets():
    data = ragged_data()
    weights = ragged_weights(data)
    rng = np.random.default_rng(5)
    scores = rng.normal(size=data.n_docs)
    sets, expected = [], np.zeros((2, data.n_docs))
    for _ in range(20):
        query = int(rng.choice([0, 2, 4, 9]))
        docs = np.sort(rng.choice(np.arange(*data.offsets[query : query + 2]), 3, replace=False))
        own = weights[docs] + rng.random(3)
        sets.append((query, docs, own))
        _, gradient = naive.NAMED["lambdaloss_truncated"](scores[docs], own, 2)
        expected[0][docs] += gradient
        expected[1][docs] += naive_second_order.curvature("lambdaloss_truncated", scores[docs], own, 2)
    sets.sort(key=lambda s: s[0])
    views = estimators.Views(
        np.concatenate([docs for _, docs, _ in sets]),
        np.arange(0, 61, 3),
        np.concatenate([own for _, _, own in sets]),
    )
    factor = len({query for query, _, _ in sets}) / np.abs(views.weights).sum()
    _, gradient, curvature = make_objective(task(data, views, "lambdaloss-truncated", 2))(scores)
    np.testing.assert_allclose(gradient, factor * expected[0], rtol=1e-5, atol=1e-7)
    evidence = np.isin(np.arange(data.n_queries), [query for query, _, _ in sets])
    np.testing.assert_allclose(curvature, factor * damped(expected[1], data, evidence), rtol=1e-5, atol=1e-7)


@pytest.mark.filterwarnings("ignore:rerank")
def test_learning_from_views_and_their_validation():
    clicks, others = (
        simulation.simulate(
            data, np.random.default_rng(0).random(data.n_docs), policies.ReplaceLast(5), examination.inverse_rank(5),
            clicks=3000, seed=seed, displays=True,
        )
        for seed, data in enumerate((DATA, OTHER))
    )  # fmt: skip
    views, other = (estimators.rerank(c, examination.inverse_rank(5)) for c in (clicks, others))
    trained = ranker("lambdaloss-truncated").fit(DATA, views, validation=(OTHER, other))
    best = trained.history_[trained.best_epoch_ - 1]["validation"]
    assert query_metric("dcg@5", OTHER, check_weights(other, OTHER))(trained.predict(OTHER), 1).sum() == best
    assert trained.predict(DATA).std() > 0.0


@pytest.mark.parametrize("loss", ["lambdarank", "dcg-logistic", "arp-hinge"])
def test_negative_weights_and_queries_of_one_document(loss):
    data = ragged_data()
    weights = ragged_weights(data, negative=True)
    trained = ranker(loss, 3 if loss != "arp-hinge" else None, params={"min_data_in_leaf": 5}).fit(data, weights)
    assert np.isfinite(trained.predict(data)).all()
    assert trained.predict(data).std() > 0.0


@pytest.mark.parametrize("normalize", ["query", "standard", "none"])
def test_scaling_is_part_of_the_model(tmp_path, normalize):
    trained = ranker(normalize=normalize).fit(DATA, WEIGHTS, validation=(OTHER, OTHER_WEIGHTS))
    scaled = [cr.RankingData(trained.model_.scaler.apply(data), data.offsets) for data in (DATA, OTHER)]
    expected = ranker().fit(scaled[0], WEIGHTS, validation=(scaled[1], OTHER_WEIGHTS))
    assert trained.predict(OTHER).tolist() == expected.predict(scaled[1]).tolist()
    trained.save(tmp_path / "ranker")
    loaded = cr.Ranker.load(tmp_path / "ranker")
    assert loaded.predict(OTHER).tolist() == trained.predict(OTHER).tolist()
    assert loaded.feature_importances_.tolist() == trained.feature_importances_.tolist()
    assert loaded.params == trained.params
    assert loaded.fit(DATA, WEIGHTS, validation=(OTHER, OTHER_WEIGHTS)).model_.text == trained.model_.text


def test_importances_are_shares_of_gain():
    trained = ranker(params={"num_leaves": 2}, max_epochs=1).fit(DATA, WEIGHTS)
    used = trained.model_.booster.dump_model()["tree_info"][0]["tree_structure"]["split_feature"]
    assert trained.feature_importances_.tolist() == [float(f == used) for f in range(DATA.n_features)]


def test_lightgbm_is_silent(capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trained = ranker().fit(DATA, WEIGHTS, validation=(OTHER, OTHER_WEIGHTS))
        trained.predict(OTHER)
    assert capfd.readouterr() == ("", "")


def damage(text, old, new):
    assert old in text
    return text.replace(old, new, 1)


def test_damaged_trees_are_refused(tmp_path):
    ranker().fit(DATA, WEIGHTS).save(tmp_path / "ranker")
    file = tmp_path / "ranker" / "trees.txt"
    text = file.read_text()
    file.write_text(damage(text, "num_leaves=", "num_leaves=1"))
    with pytest.raises(ModelError, match=r"trees\.txt: not the file that was saved"):
        cr.Ranker.load(tmp_path / "ranker")
    file.unlink()
    with pytest.raises(ModelError, match=r"trees\.txt: missing"):
        cr.Ranker.load(tmp_path / "ranker")


def test_trees_that_lightgbm_cannot_read_or_of_other_features_are_refused():
    model = ranker().fit(DATA, WEIGHTS).model_
    with pytest.raises(ModelError, match="LightGBM cannot read it"):
        type(model)("tree\nnonsense", model.scaler, model.n_features).predict(DATA)
    with pytest.raises(ModelError, match=f"trees for {DATA.n_features} features; expected 3"):
        type(model)(model.text, model.scaler, 3).predict(DATA)


def test_without_lightgbm_the_extra_is_named(tmp_path, monkeypatch):
    ranker().fit(DATA, WEIGHTS).save(tmp_path / "ranker")
    monkeypatch.setattr("counterrank.common.errors.find_spec", lambda name: None)
    message = r"boosted trees needs lightgbm; pip install 'counterrank\[lightgbm\]'"
    with pytest.raises(MissingExtraError, match=message):
        ranker().fit(DATA, WEIGHTS)
    loaded = cr.Ranker.load(tmp_path / "ranker")
    with pytest.raises(MissingExtraError, match=message):
        loaded.predict(DATA)
