"""Linear models in every target: float32 sums, normalizers, absent features, per-query scaling in ONNX."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import counterrank as cr
from counterrank.models import LinearModel, Scaler
from tests.reference.serving import elastic_scores, solr_scores
from tests.support.exported import (
    DATA_SETS,
    check_ranking,
    names_of,
    onnx_scores,
    plain_scaler,
    ranker_of,
    read_part,
    written,
)

F = np.float32


def linear_ranker(coefficients, scaler, **settings):
    return ranker_of(LinearModel(np.asarray(coefficients, np.float64), scaler), "linear", **settings)


@pytest.mark.parametrize("normalize", ["none", "standard", "query"])
@pytest.mark.parametrize("name", DATA_SETS)
def test_a_ranker_learned_from_real_data(name, normalize):
    train, test = read_part(name, "train"), read_part(name, "test")
    part, data = train.subset(range(min(60, train.n_queries))), test.subset(range(min(40, test.n_queries)))
    weights = cr.estimators.full_information(part, relevance_threshold=1)
    ranker = cr.Ranker("arp-hinge", normalize=normalize, max_epochs=2, threads=1).fit(part, weights)
    expected, names = ranker.predict(data), names_of(data.n_features)
    check_ranking(onnx_scores(written(ranker, "onnx"), data), expected, data, 1e-9)
    check_ranking(json_scores(written(ranker, "json", features=names), data), expected, data, 1e-9)
    if normalize != "query":
        elastic = elastic_scores(written(ranker, "es-ltr", features=names), names, data.features)
        check_ranking(elastic, expected, data, 1e-5)
        solr = solr_scores(written(ranker, "solr", features=names), names, data.features)
        check_ranking(solr, expected, data, 1e-5)


def json_scores(text, data):
    """The documented formula of the JSON, in double."""
    model = json.loads(text)
    assert (model["format"], model["version"]) == ("counterrank-linear", 1)
    scores = np.zeros(data.n_docs)
    for feature in model["features"]:
        x = data.features[:, feature["number"] - 1].astype(np.float64)
        if model["normalize"] == "standard":
            x = (x - feature["mean"]) / feature["deviation"]
        if model["normalize"] == "query":
            for start, end in zip(data.offsets[:-1], data.offsets[1:], strict=True):
                low, high = x[start:end].min(), x[start:end].max()
                x[start:end] = (x[start:end] - low) / (high - low) if high > low else 0.0
        scores += feature["coefficient"] * x
    return scores


numbers = st.floats(-1e3, 1e3, width=32, allow_subnormal=False)  # whose scale does not fit into float32
matrices = st.tuples(st.integers(1, 6), st.integers(1, 4)).flatmap(
    lambda shape: hnp.arrays(F, shape, elements=st.one_of(numbers, st.sampled_from([0.0, 1.0, -1.0])))
)


@settings(max_examples=60, deadline=None)
@given(matrices, st.sampled_from(["none", "standard", "query"]), st.integers(0, 10**6))
def test_small_queries(features, normalize, seed):
    """Single documents, single features, constant features, ties."""
    data = cr.RankingData(features, [0, len(features)])
    coefficients = np.random.default_rng(seed).normal(size=data.n_features)
    ranker = linear_ranker(coefficients, Scaler.learn(normalize, data))
    expected, names = ranker.predict(data), names_of(data.n_features)
    # predict and graph sum in different orders; what is lost is a share of the terms, which may be larger than the sum
    size = np.abs(coefficients).sum() * max(1.0, float(np.abs(features).max()) if normalize == "none" else 2e3)
    np.testing.assert_allclose(onnx_scores(written(ranker, "onnx"), data), expected, rtol=0, atol=1e-12 * size)
    varying = ranker.model_.scaler.inverse != 0.0
    if normalize == "query" or not varying.any():
        return
    for scores in (
        elastic_scores(written(ranker, "es-ltr", features=names), names, data.features),
        solr_scores(written(ranker, "solr", features=names), names, data.features),
    ):
        np.testing.assert_allclose(scores, expected, rtol=0, atol=float_error(ranker.model_, features))


def float_error(model, features):
    """What float32 may lose: in each scaled feature, whose mean is rounded too, and in each step of the sum."""
    epsilon = float(np.finfo(F).eps)
    low, inverse, weights = model.scaler.low, model.scaler.inverse, np.abs(model.coefficients)
    terms = weights * (np.abs(features).max(axis=0) + np.abs(low)) * inverse
    return (len(weights) + 4) * epsilon * terms.sum() + 1e-30


def test_by_hand():
    scaler = Scaler("standard", np.array([10.0, 0.0, 5.0]), np.array([0.5, 1.0, 0.0]))  # the last was constant
    ranker = linear_ranker([3.0, -1.0, 7.0], scaler)
    body = json.loads(written(ranker, "es-ltr", features=["a", "b", "c"], name="mine"))
    assert body["model"]["name"] == "mine"
    assert json.loads(body["model"]["model"]["definition"]) == {"a": 3.0, "b": -1.0}
    assert body["model"]["model"]["feature_normalizers"] == {
        "a": {"standard": {"mean": 10.0, "standard_deviation": 2.0}},
        "b": {"standard": {"mean": 0.0, "standard_deviation": 1.0}},
    }
    solr = json.loads(written(ranker, "solr", features=["a", "b", "c"], name="mine"))
    norm = {"class": "org.apache.solr.ltr.norm.StandardNormalizer", "params": {"avg": "10.0", "std": "2.0"}}
    assert solr["features"][0] == {"name": "a", "norm": norm}
    assert solr["params"] == {"weights": {"a": 3.0, "b": -1.0}}
    features = np.array([[12.0, 1.0, 5.0], [np.nan, np.nan, np.nan]], F)
    # an absent feature is 0, and is scaled as 0 is: 3 (12 - 10) / 2 - 1, and 3 (0 - 10) / 2
    assert elastic_scores(json.dumps(body), ["a", "b", "c"], features).tolist() == [2.0, -15.0]
    assert solr_scores(json.dumps(solr), ["a", "b", "c"], features).tolist() == [2.0, -15.0]


def test_the_order_of_the_feature_set_does_not_matter():
    ranker = linear_ranker([1.0, 10.0], plain_scaler(2))
    features = np.array([[1.0, 2.0]], F)
    body = written(ranker, "es-ltr", features=["a", "b"])
    assert elastic_scores(body, ["b", "other", "a"], features[:, [1, 0, 0]]).tolist() == [21.0]


REFUSED = [
    (
        "query",
        "es-ltr",
        "es-ltr cannot scale features within each query; train with normalize='standard' or normalize='none'",
    ),
    (
        "query",
        "solr",
        "solr cannot scale features within each query; train with normalize='standard' or normalize='none'",
    ),
    ("none", "lightgbm", "lightgbm takes lambdamart models, not"),
]


@pytest.mark.parametrize(("normalize", "to", "message"), REFUSED)
def test_what_cannot_be_held_is_refused(normalize, to, message, tmp_path):
    scaler = Scaler(normalize, np.zeros(2), np.ones(2))
    with pytest.raises(cr.CounterrankError, match=message):
        cr.export.write(linear_ranker([1.0, 2.0], scaler), tmp_path / "model", to=to)
    assert list(tmp_path.iterdir()) == []


def test_a_model_without_coefficients_is_refused(tmp_path):
    with pytest.raises(cr.CounterrankError, match="every coefficient is 0, so it ranks nothing"):
        cr.export.write(linear_ranker([0.0], plain_scaler(1)), tmp_path / "model", to="solr")


def test_scales_beyond_float32_are_refused(tmp_path):
    scaler = Scaler("standard", np.zeros(1), np.array([1e50]))
    with pytest.raises(cr.CounterrankError, match="feature 1: a mean of 0 and a deviation of 1e-50 do not fit"):
        cr.export.write(linear_ranker([1.0], scaler), tmp_path / "model", to="es-ltr")


def test_onnx_holds_its_metadata():
    onnx = pytest.importorskip("onnx")
    ranker = linear_ranker([1.0, 0.0], Scaler("query", np.zeros(2), np.ones(2)), loss="lambdaloss-truncated", k=5)
    content = written(ranker, "onnx", features={1: "title_bm25"}, name="mine")
    model = onnx.load_from_string(content)
    onnx.checker.check_model(model, full_check=True)
    notes = {entry.key: json.loads(entry.value) for entry in model.metadata_props}
    assert notes["feature_names"] == ["title_bm25", ""]
    assert (notes["loss"], notes["k"], notes["normalize"]) == ("lambdaloss-truncated", 5, "query")
    assert (model.producer_name, model.producer_version) == ("counterrank", cr.__version__)
    assert model.graph.name == "mine"
    assert content == written(ranker, "onnx", features={1: "title_bm25"}, name="mine")  # one model, one file
    with pytest.raises(cr.CounterrankError, match="no name for feature 1, which the model uses"):
        written(ranker, "onnx", features={2: "body_bm25"})


def test_onnx_scales_each_query_by_itself():
    ranker = linear_ranker([1.0, 100.0], Scaler("query", np.zeros(2), np.ones(2)))
    data = cr.RankingData([[1.0, 7.0], [3.0, 7.0], [2.0, 7.0], [5.0, 1.0]], [0, 3, 4])
    assert onnx_scores(written(ranker, "onnx"), data).tolist() == [0.0, 1.0, 0.5, 0.0]
