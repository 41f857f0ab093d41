"""Missing values (NaN) in exported trees: they go where LightGBM sends them, or the export is refused."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank.export.forest import Leaf, Split, forest_of
from counterrank.models.trees import Fields, _check_decisions
from tests.export.test_export_trees import documents, leaves, scalers, thresholds
from tests.reference.serving import elastic_scores, solr_scores
from tests.support.exported import check_ranking, names_of, onnx_scores, plain_scaler, ranker_of, written
from tests.support.lightgbm_trees import trees_model

lightgbm = pytest.importorskip("lightgbm")

F = np.float32
NAN = float("nan")
NAMES = names_of(3)
# thresholds of LightGBM's own that part missing values from all others are infinite
anywhere = st.one_of(thresholds, st.just(float("inf")))
trees = st.recursive(
    leaves, lambda inner: st.tuples(st.integers(0, 2), anywhere, inner, inner, st.booleans()), max_leaves=8
)
forests = st.lists(trees, max_size=5)


def with_gaps(data, seed=0):
    gone = np.random.default_rng(seed).random(data.features.shape) < 0.4
    return cr.RankingData(np.where(gone, F(NAN), data.features), data.offsets)


@settings(max_examples=60, deadline=None)
@given(forests, scalers)
def test_missing_values_go_where_lightgbm_sends_them(forest, scaler):
    model = trees_model(forest, scaler, missing="NaN")
    data = with_gaps(documents(model))
    expected = model.predict(data, 1)
    ranker = ranker_of(model, "lambdamart")
    np.testing.assert_array_equal(onnx_scores(written(ranker, "onnx"), data), expected)
    body = written(ranker, "es-ltr", features=NAMES)
    np.testing.assert_array_equal(elastic_scores(body, NAMES, data.features), expected)
    apart = forest_of(model).apart()
    if not apart:
        body = written(ranker, "es-ltr", features=NAMES, tree_format="ranklib")
        np.testing.assert_array_equal(elastic_scores(body, NAMES, data.features), expected)
        return
    with pytest.raises(cr.CounterrankError, match="tree_format='ranklib': trained with missing values of 'name"):
        written(ranker, "es-ltr", features=NAMES, tree_format="ranklib")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.recursive(leaves, lambda inner: st.tuples(
    st.integers(0, 2), st.sampled_from([0.0, 0.5, -0.5, 1.0, 3.0, 100.0, float("inf"), -1e300]), inner, inner,
    st.booleans()), max_leaves=8), max_size=5))  # fmt: skip
def test_solr_follows_the_direction_of_missing_values(forest):
    model = trees_model(forest, plain_scaler(3), missing="NaN")  # thresholds that Solr's slack does not move
    data = with_gaps(cr.RankingData(np.random.default_rng(1).choice([0.0, 0.5, -0.5, 1.0, 7.0], (80, 3)), [0, 80]))
    text = written(ranker_of(model, "lambdamart"), "solr", features=NAMES)
    apart = [NAMES[feature] for feature in forest_of(model).apart()]
    assert ("isNullSameAsZero" in json.loads(text)["params"]) == bool(apart)
    np.testing.assert_array_equal(solr_scores(text, NAMES, data.features, apart), model.predict(data, 1))


@settings(max_examples=40, deadline=None)
@given(forests.filter(lambda trees: "inf" not in str(trees)), scalers, st.booleans())
def test_without_missing_values_in_training_onnx_takes_them_as_lightgbm_does(forest, scaler, default_left):
    model = trees_model(forest, scaler, missing="None", default_left=default_left)
    data = with_gaps(documents(model))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that training had none
        expected = model.predict(data, 1)
    np.testing.assert_array_equal(onnx_scores(written(ranker_of(model, "lambdamart"), "onnx"), data), expected)


def test_splits_that_part_missing_values_from_all_others():
    model = trees_model([(1, float("inf"), 1.0, 2.0, False)], plain_scaler(3), missing="NaN")
    (tree,) = forest_of(model).trees
    assert tree == Split(1, -np.inf, Leaf(2.0), Leaf(1.0), missing_left=True, learned=True)
    assert forest_of(trees_model([(1, float("inf"), 1.0, 2.0, True)], plain_scaler(3), missing="NaN")).trees == (
        Leaf(1.0),
    )
    data = cr.RankingData([[0, NAN, 0], [0, -3.4028234663852886e38, 0], [0, 3.4028234663852886e38, 0]], [0, 3])
    ranker = ranker_of(model, "lambdamart")
    assert model.predict(data, 1).tolist() == [2.0, 1.0, 1.0]
    assert onnx_scores(written(ranker, "onnx"), data).tolist() == [2.0, 1.0, 1.0]
    assert elastic_scores(written(ranker, "es-ltr", features=NAMES), NAMES, data.features).tolist() == [2.0, 1.0, 1.0]
    solr = written(ranker, "solr", features=NAMES)
    assert solr_scores(solr, NAMES, data.features, NAMES[1:2]).tolist() == [2.0, 1.0, 1.0]
    assert json.loads(solr)["params"]["trees"][0]["root"]["threshold"] == "-Infinity"


@pytest.mark.parametrize("normalize", ["none", "standard", "query"])
def test_trees_trained_with_missing_values(normalize, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 3)).astype(F)
    gone = rng.random(x.shape) < 0.3
    x[gone] = NAN
    x[:10, 2] = NAN  # in one query for all documents
    data = cr.RankingData(x, np.arange(0, 601, 10), feature_names=["unit price", "rating", "stock"])
    ranker = cr.Ranker(model="lambdamart", max_epochs=20, normalize=normalize, params={"min_data_in_leaf": 5})
    ranker.fit(data, np.nan_to_num(x[:, 1]) + 2.0 * gone[:, 0])
    expected = ranker.predict(data)
    check_ranking(onnx_scores(written(ranker, "onnx"), data), expected, data, 1e-10)
    if normalize == "query":
        return
    names = list(ranker.feature_names_in_)
    exported = cr.export.write(ranker, tmp_path / "model.json", to="es-ltr")
    assert set(exported.features.values()) <= set(names)
    assert any("trained with missing values of 'unit price'" in note for note in exported.notes)
    body = (tmp_path / "model.json").read_text()
    check_ranking(elastic_scores(body, names, data.features), expected, data, 1e-5)
    exported = cr.export.write(ranker, tmp_path / "model.json", to="solr")
    assert any('needs Solr 9.2 or later, and "defaultValue": "NaN"' in note for note in exported.notes)
    scores = solr_scores((tmp_path / "model.json").read_text(), names, data.features, names)
    assert (np.abs(scores - expected) < 1e-4 * np.ptp(expected)).mean() > 0.99  # but for values its slack hides
    if normalize == "none":
        exported = cr.export.write(ranker, tmp_path / "model.txt", to="lightgbm")
        booster = lightgbm.Booster(model_file=tmp_path / "model.txt")
        assert booster.feature_name() == ["unit_price", "rating", "stock"]
        assert "LightGBM cannot hold the names 'unit price'" in exported.notes[0]
        np.testing.assert_array_equal(booster.predict(data.features, raw_score=True), expected)


def test_an_infinite_threshold_is_for_missing_values_only():
    for decision in (0, 2, 4, 6, 10):
        with pytest.raises(cr.CounterrankError, match=r"threshold\[1\] is inf; expected a finite number"):
            _check_decisions(Fields(["threshold=0.5 inf", f"decision_type=8 {decision}"]), 2, 0)
    _check_decisions(Fields(["threshold=0.5 inf", "decision_type=8 8"]), 2, 0)
    for word in ("1e999", "-inf", "nan"):
        with pytest.raises(cr.CounterrankError, match=f"threshold is {word}; expected a finite number"):
            _check_decisions(Fields([f"threshold={word}", "decision_type=8"]), 1, 0)
