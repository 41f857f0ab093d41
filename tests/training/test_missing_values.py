"""Missing values (NaN): refused by linear models and networks, kept by trees as LightGBM keeps them."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank import estimators, examination, policies, simulation
from counterrank.models import LinearModel, Scaler, TreesModel
from counterrank.training import Scored
from tests.reference import scaling
from tests.reference.forest import forest_scores
from tests.support.command import invoke, run
from tests.support.lightgbm_trees import text_of

NAMES = ["price", "rating", "stock"]
NAN = float("nan")
OFFSETS = np.arange(0, 401, 10)


def table(seed=0, share=0.2):
    """Features of which a share is missing, where missing prices are relevant, and zeros are frequent."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(400, 3)).astype(np.float32)
    x[rng.random(x.shape) < 0.2] = 0.0
    gone = rng.random(x.shape) < share
    weights = (x[:, 1] > 0.5) + 2.0 * gone[:, 0]
    x[gone] = NAN
    return x, weights


X, WEIGHTS = table()
DATA = cr.RankingData(X, OFFSETS, labels=WEIGHTS, feature_names=NAMES)
WHOLE = cr.RankingData(np.nan_to_num(X), OFFSETS, labels=WEIGHTS, feature_names=NAMES)
ROW, COLUMN = np.argwhere(np.isnan(X))[0]
PLACE = (
    rf"{np.isnan(X).sum()} missing values \(NaN\), the first is feature '{NAMES[COLUMN]}' of document {ROW % 10} "
    rf"in query {ROW // 10}"
)


def trees(normalize=None, **params):
    pytest.importorskip("lightgbm")
    return cr.Ranker(model="lambdamart", max_epochs=8, normalize=normalize, params={"min_data_in_leaf": 5, **params})


def networks():
    torch = pytest.importorskip("torch")
    return ["mlp", torch.nn.Linear(3, 1)]


@pytest.mark.parametrize("normalize", ["query", "standard", "none"])
def test_a_linear_model_refuses_missing_values(normalize):
    remedy = "impute them, drop the feature, or use a ranker with model='lambdamart'"
    match = f"data: {PLACE}; a linear model expected none: {remedy}"
    ranker = cr.Ranker(max_epochs=2, normalize=normalize)
    with pytest.raises(cr.CounterrankError, match=match):
        ranker.fit(DATA, WEIGHTS)
    with pytest.raises(cr.CounterrankError, match=r"validation: .* a linear model expected none"):
        ranker.fit(WHOLE, WEIGHTS, validation=(DATA, WEIGHTS))
    ranker.fit(WHOLE, WEIGHTS)
    with pytest.raises(cr.CounterrankError, match=match):
        ranker.predict(DATA)
    with pytest.raises(cr.CounterrankError, match="a linear model expected none"):
        ranker.predict(X, group=[10] * 40)
    with pytest.raises(cr.CounterrankError, match="a linear model expected none"):
        ranker.predict(pa.table({**dict(zip(NAMES, X.T, strict=True)), "q": np.arange(400) // 10}), query="q")


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, 12).flatmap(
        lambda n: st.lists(
            st.lists(st.sampled_from([NAN, 0.0, 1.0, -2.0, 3e38, -3e38, 1e-45]), min_size=2, max_size=2),
            min_size=n,
            max_size=n,
        )
    ),
    st.sampled_from(["query", "standard", "none"]),
)
def test_a_linear_model_never_gives_nan(rows, normalize):
    data = cr.RankingData(np.array(rows, np.float32), [0, len(rows)])
    model = LinearModel(np.array([0.0, 1.0]), Scaler(normalize, np.zeros(2), np.array([1.0, 0.5])))
    if np.isnan(rows).any():
        with pytest.raises(cr.CounterrankError, match="missing value"):
            model.predict(data, 1)
    else:
        assert not np.isnan(model.predict(data, 1)).any()


def test_networks_refuse_missing_values():
    for model in networks():
        ranker = cr.Ranker(model=model, max_epochs=1)
        with pytest.raises(cr.CounterrankError, match=f"{PLACE}; a neural network expected none: impute them, drop"):
            ranker.fit(DATA, WEIGHTS)
        ranker.fit(WHOLE, WEIGHTS)
        with pytest.raises(cr.CounterrankError, match="a neural network expected none"):
            ranker.predict(DATA)


def test_relevance_models_refuse_missing_values_but_for_trees():
    clicks = simulation.simulate(
        DATA, WEIGHTS, policies.PlackettLuce(5), [1, 0.5, 0.4, 0.3, 0.2], sessions=4000, relevance_threshold=1
    )
    match = f"{PLACE}; the relevance model expected none: .* or use model='lightgbm'"
    with pytest.raises(cr.CounterrankError, match=match):
        estimators.fit_relevance(DATA, clicks)
    both = "a linear model expected none: .* or use a ranker with model='lambdamart', and model='lightgbm'"
    with pytest.raises(cr.CounterrankError, match=f"{PLACE}; {both}"):
        cr.fit_from_clicks(DATA, clicks, folds=2)
    with pytest.raises(cr.CounterrankError, match=match):
        cr.fit_from_clicks(DATA, clicks, ranker=trees(), folds=2)
    complete = simulation.simulate(
        WHOLE, WEIGHTS, policies.PlackettLuce(5), [1, 0.5, 0.4, 0.3, 0.2], sessions=4000, relevance_threshold=1
    )
    with pytest.raises(cr.CounterrankError, match="the relevance model expected none"):
        estimators.fit_relevance(WHOLE, complete).predict(DATA)
    pytest.importorskip("lightgbm")
    relevance = estimators.fit_relevance(DATA, clicks, model="lightgbm")
    assert np.isfinite(relevance.values).all()
    assert np.isfinite(relevance.predict(DATA)).all()
    ranker = cr.fit_from_clicks(DATA, clicks, ranker=trees(), model="lightgbm", folds=2).ranker
    assert np.isfinite(ranker.predict(DATA)).all()


def test_other_models_of_features_refuse_missing_values():
    clicks = simulation.simulate(
        DATA, np.nan_to_num(X[:, 1]), policies.PlackettLuce(5), [1, 0.5, 0.4, 0.3, 0.2], sessions=4000,
        relevance_threshold=1, displays=True,
    )  # fmt: skip
    with pytest.raises(cr.CounterrankError, match=f"{PLACE}; method 'regression-em' expected none"):
        examination.estimate(clicks, method="regression-em", data=DATA)
    with pytest.raises(cr.CounterrankError, match=f"{PLACE}; a linear policy expected none"):
        policies.fit_plackett_luce(DATA, clicks, k=5)
    with pytest.raises(cr.CounterrankError, match=r"missing values .* feature:stock as a score expected none"):
        Scored.load("feature:stock", DATA)


def test_a_feature_that_is_missing_for_some_documents_is_not_constant():
    rows = np.tile([[1.0, 5.0, NAN], [NAN, 5.0, NAN]], (20, 1))
    data = cr.RankingData(rows, np.arange(0, 41, 2))
    ranker = trees(min_data_in_leaf=2).fit(data, np.tile([0.0, 1.0], 20))
    assert ranker.constant_features_.tolist() == [1, 2]
    scores = ranker.predict(data)
    assert (scores[1::2] > scores[::2]).all()  # being missing is what tells documents apart


@pytest.mark.parametrize("normalize", ["none", "query", "standard"])
def test_trees_learn_from_missing_values(normalize, tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    ranker = trees(normalize).fit(DATA, WEIGHTS, validation=(DATA, WEIGHTS))
    scores = ranker.predict(DATA)
    assert np.isfinite(scores).all()
    gone = np.isnan(X[:, 0])
    assert scores[gone].mean() > scores[~gone].mean() + 0.1
    scaled = {
        "none": lambda: X,
        "query": lambda: scaling.scaled_in_queries(X, OFFSETS),
        "standard": lambda: ((X - scaling.mean_and_deviation(X)[0]) / scaling.mean_and_deviation(X)[1]).astype(
            np.float32
        ),
    }[normalize]()
    np.testing.assert_allclose(ranker.model_.scaler.apply(DATA), scaled, rtol=1e-4, atol=1e-5)
    booster = lightgbm.Booster(model_str=ranker.model_.text)
    seen = ranker.model_.scaler.apply(DATA)
    np.testing.assert_array_equal(scores, booster.predict(seen, raw_score=True))
    ranker.save(tmp_path / "ranker")
    np.testing.assert_array_equal(cr.Ranker.load(tmp_path / "ranker").predict(DATA), scores)
    assert ranker.provenance_["data"]["missing_values"] == np.isnan(X).sum()


@pytest.mark.parametrize("params", [{}, {"use_missing": False}, {"zero_as_missing": True}])
def test_settings_of_lightgbm_about_missing_values(params):
    lightgbm = pytest.importorskip("lightgbm")
    ranker = trees(**params).fit(DATA, WEIGHTS)
    other = cr.RankingData(table(seed=1)[0], OFFSETS, feature_names=NAMES)
    booster = lightgbm.Booster(model_str=ranker.model_.text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = ranker.predict(other)
    np.testing.assert_array_equal(scores, booster.predict(other.features, raw_score=True))
    np.testing.assert_allclose(scores, forest_scores(ranker.model_.text, other.features), rtol=1e-12)
    with_zeros = ranker.predict(cr.RankingData(np.nan_to_num(other.features), OFFSETS, feature_names=NAMES))
    assert (with_zeros == scores).all() == bool(params)  # with either, a missing value is a zero


leaves = st.integers(-100, 100)
sides = st.sampled_from(["None", "Zero", "NaN"])
numbers = st.sampled_from([0.0, -1.0, 1.0, 0.5, 1e-36, -1e-36, 1e300, -1e300])
forests = st.lists(
    st.recursive(leaves, lambda inner: st.tuples(st.integers(0, 1), numbers, inner, inner), max_leaves=6), max_size=4
)
features = st.lists(
    st.lists(st.sampled_from([NAN, 0.0, -0.0, 1e-36, -1e-36, 1.0, -1.0, 0.5, 3e38]), min_size=2, max_size=2),
    min_size=1, max_size=20,
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(forests, sides, st.booleans(), features)
def test_missing_values_and_zeros_go_where_lightgbm_sends_them(forest, missing, default_left, rows):
    pytest.importorskip("lightgbm")
    text = text_of(forest, 2, missing=missing, default_left=default_left)
    data = cr.RankingData(np.array(rows, np.float32), [0, len(rows)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = TreesModel(text, Scaler.none(2), 2).predict(data, 1)
    np.testing.assert_array_equal(scores, forest_scores(text, data.features))


def test_missing_values_that_training_did_not_have_are_a_warning():
    ranker = trees().fit(WHOLE, WEIGHTS)
    used = [NAMES[i] for i in np.flatnonzero(ranker.model_.booster.feature_importance("split"))]
    listed = ", ".join(map(repr, used))
    with pytest.warns(
        UserWarning, match=f"missing values of {listed}, of which training had none; the trees take"
    ) as found:
        scores = ranker.predict(DATA)
    assert found[0].filename == __file__
    np.testing.assert_array_equal(scores, ranker.predict(WHOLE))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trees(use_missing=False).fit(WHOLE, WEIGHTS).predict(DATA)
        trees().fit(DATA, WEIGHTS).predict(DATA)


def test_the_command_says_which_option_helps(tmp_path):
    DATA.save(tmp_path / "data.parquet")
    common = ["train", tmp_path / "data.parquet", "--estimator", "full-information", "--relevance-threshold", "1"]
    refused = run(*common, "--out", tmp_path / "ranker")
    assert refused.returncode == 2
    assert f"{np.isnan(X).sum()} missing values (NaN), the first is feature" in refused.stderr
    assert "impute them, drop the feature, or use a ranker with --model lambdamart" in refused.stderr
    pytest.importorskip("lightgbm")
    invoke(*common, "--model", "lambdamart", "--max-epochs", "3", "--out", tmp_path / "ranker")
    invoke("evaluate", tmp_path / "ranker", tmp_path / "data.parquet", "--relevance-threshold", "1")
    WHOLE.save(tmp_path / "whole.parquet")
    invoke(*common[:1], tmp_path / "whole.parquet", *common[2:], "--max-epochs", "2", "--out", tmp_path / "linear")
    refused = run("evaluate", tmp_path / "linear", tmp_path / "data.parquet")
    assert refused.returncode == 2
    assert "a linear model expected none" in refused.stderr
