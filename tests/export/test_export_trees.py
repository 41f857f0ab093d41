"""Trees in every target against LightGBM: which way each value goes, at thresholds, zeros and absent features."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank.export.forest import ZERO, decimal, forest_of, last_left, next_number
from counterrank.export.search_engines import SLACK, without_slack
from counterrank.models import Scaler, TreesModel
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
from tests.support.lightgbm_trees import text_of, trees_model

lightgbm = pytest.importorskip("lightgbm")

F = np.float32
SPECIAL = [0.0, ZERO, -ZERO, 1e-35, -1e-35, 1e-38, 1e-45, -1e-45, 5e-324, 1e-7, 1e-6, 0.1, 1 / 3, 1.0, 16777217.0, 1e30]
thresholds = st.one_of(
    st.sampled_from([*SPECIAL, *(-value for value in SPECIAL), 1e300, -1e300, 3.4028234663852886e38]),
    st.floats(-1e6, 1e6),
    st.floats(width=32, allow_nan=False, allow_infinity=False),
)
# leaves whose sums are exact in float32, so that scores have to be equal to the last bit
leaves = st.integers(-1000, 1000).map(lambda n: n / 8)
trees = st.recursive(leaves, lambda inner: st.tuples(st.integers(0, 2), thresholds, inner, inner), max_leaves=8)
forests = st.lists(trees, max_size=5)
scalers = st.one_of(
    st.just(plain_scaler(3)),
    st.tuples(
        st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3),
        st.lists(st.one_of(st.just(0.0), st.floats(1e-3, 1e3)), min_size=3, max_size=3),
    ).map(lambda pair: Scaler("standard", np.array(pair[0]), np.array(pair[1]))),
)


def telling_values(model):
    """Values around which something could go wrong: thresholds and their neighbours, zeros, tiny and huge numbers."""
    forest = forest_of(model)
    values = {0.0, -0.0, ZERO, -ZERO, 1e-45, -1e-45, 2e-35, -2e-35, 1e-30, 3.4e38, -3.4e38, 1.0, -1.0}
    for split in forest.splits():
        number = F(split.threshold)
        with np.errstate(over="ignore"):  # beyond the largest number is infinity
            values |= {float(number), next_number(number), float(np.nextafter(number, F(-np.inf)))}
    finite = np.array(sorted(values), F)
    return finite[np.isfinite(finite)]


def documents(model):
    """Each telling value in each column, among others drawn from the same values."""
    values = telling_values(model)
    draw = np.random.default_rng(0)
    rows = [draw.choice(values, (len(values), 3)) for _ in range(4)]
    for column in range(3):
        rows[column][:, column] = values
    matrix = np.concatenate(rows).astype(F)
    return cr.RankingData(matrix, [0, len(matrix)])


@settings(max_examples=60, deadline=None)
@given(forests, scalers)
def test_every_target_goes_where_lightgbm_goes(forest, scaler):
    model = trees_model(forest, scaler)
    data = documents(model)
    expected = model.predict(data, 1)
    ranker = ranker_of(model, "lambdamart")
    names = names_of(3)
    np.testing.assert_array_equal(onnx_scores(written(ranker, "onnx"), data), expected)
    for tree_format in ("xgboost", "ranklib"):
        body = written(ranker, "es-ltr", features=names, tree_format=tree_format)
        np.testing.assert_array_equal(elastic_scores(body, names, data.features), expected)


@settings(max_examples=60, deadline=None)
@given(forests, scalers)
def test_solr_goes_where_lightgbm_goes_but_for_values_its_slack_hides(forest, scaler):
    model = trees_model(forest, scaler)
    data = documents(model)
    splits = list(forest_of(model).splits())
    moved = [(split, without_slack(split.threshold).compared) for split in splits]
    hidden = np.zeros(data.n_docs, bool)
    for split, compared in moved:
        low, high = sorted((compared, split.threshold))
        hidden |= (data.features[:, split.feature] > low) & (data.features[:, split.feature] <= high)
    names = names_of(3)
    scores = solr_scores(written(ranker_of(model, "lambdamart"), "solr", features=names), names, data.features)
    np.testing.assert_array_equal(scores[~hidden], model.predict(data, 1)[~hidden])


@settings(max_examples=30, deadline=None)
@given(forests)
def test_a_feature_without_a_value_counts_as_zero(forest):
    model = trees_model(forest, plain_scaler(3))
    data = documents(model)
    absent = np.random.default_rng(1).random(data.features.shape) < 0.4
    with_zeros = cr.RankingData(np.where(absent, F(0), data.features), data.offsets)
    expected = model.predict(with_zeros, 1)
    ranker, names = ranker_of(model, "lambdamart"), names_of(3)
    features = np.where(absent, F(np.nan), data.features)
    xgboost = written(ranker, "es-ltr", features=names)
    for absence in ("missing", "zero"):
        np.testing.assert_array_equal(elastic_scores(xgboost, names, features, absence), expected)
    ranklib = written(ranker, "es-ltr", features=names, tree_format="ranklib")
    np.testing.assert_array_equal(elastic_scores(ranklib, names, features), expected)


def test_the_slack_of_solr_by_hand():
    for exact in (0.0, 0.5, -0.5, 1.0, 3.0, 100.0, -100.0, 1e6, 1e30, ZERO):
        found = without_slack(float(F(exact)))
        assert F(found.written) + SLACK == F(found.compared)
        assert not found.misses(float(F(exact))), exact
    # below 1e-6 numbers lie closer together than what Solr can make of them
    assert without_slack(float(F(1.1e-9))).misses(float(F(1.1e-9)))
    below_zero = float(np.nextafter(F(-ZERO), F(-1)))
    assert without_slack(below_zero).compared < 0.0  # zero itself still goes the right way
    assert without_slack(ZERO).compared == 0.0


def test_a_note_counts_what_the_slack_moves(tmp_path):
    model = trees_model([(0, 1.1e-9, 1.0, (1, 0.5, 2.0, (2, 2.2e-9, 3.0, 4.0)))], plain_scaler(3))
    exported = cr.export.write(ranker_of(model, "lambdamart"), tmp_path / "m", to="solr", features=names_of(3))
    assert "Solr adds 1e-6 to thresholds, so 2 of 3 come out up to" in " ".join(exported.notes)


@pytest.mark.parametrize("threshold", [0.1, 0.3, 1 / 3, -0.1, 1e-20, 123456.789])
def test_thresholds_between_two_float32_numbers(threshold):
    (last,) = last_left(np.array([threshold]), np.zeros(1), np.ones(1))
    assert float(F(last)) == last <= threshold < next_number(last)


def test_decimals_come_back():
    numbers = np.random.default_rng(0).integers(0, 2**32, 20_000, dtype=np.uint32).view(F)
    for number in numbers[np.isfinite(numbers)]:
        assert F(float(decimal(float(number)))) == number


def test_scaling_of_the_library_is_the_one_thresholds_are_moved_by():
    draw = np.random.default_rng(0)
    features = (draw.normal(size=(3000, 5)) * 10.0 ** draw.integers(-6, 6, 5)).astype(F)
    data = cr.RankingData(features, [0, 1000, 3000])
    scaler = Scaler.learn("standard", data)
    by_hand = ((features.astype(np.float64) - scaler.low) * scaler.inverse).astype(F)
    np.testing.assert_array_equal(scaler.apply(data), by_hand)


@pytest.mark.parametrize("normalize", ["none", "standard", "query"])
@pytest.mark.parametrize("name", DATA_SETS)
def test_real_trees(name, normalize):
    model, data = trained_on(name, normalize)
    expected = model.predict(data, 1)
    ranker, names = ranker_of(model, "lambdamart"), names_of(data.n_features)
    check_ranking(onnx_scores(written(ranker, "onnx"), data), expected, data, 1e-10)
    if normalize == "query":
        return
    # float32 sums of 40 leaves; ranges of scores are about as large as the leaves
    for tree_format in ("xgboost", "ranklib"):
        body = written(ranker, "es-ltr", features=names, tree_format=tree_format)
        check_ranking(elastic_scores(body, names, data.features), expected, data, 1e-5)
    check_ranking(solr_scores(written(ranker, "solr", features=names), names, data.features), expected, data, 1e-5)


def test_scores_that_nearly_agree_are_distinguished_in_onnx():
    """Scores of about 1000 that differ by 1e-5: in float32, with steps of 6e-5 there, they would all be equal."""
    draw = np.random.default_rng(0)
    small = [(column, threshold, *draw.normal(size=2) * 1e-6) for column in range(3) for threshold in (-1, 0, 0.5, 1)]
    model = trees_model([(0, 0.0, 1000.1, 1000.1 + 1e-6), *small], plain_scaler(3))
    data = cr.RankingData(draw.normal(size=(50, 3)), [0, 50])
    check_ranking(
        onnx_scores(written(ranker_of(model, "lambdamart"), "onnx"), data), model.predict(data, 1), data, 1e-5
    )


@pytest.mark.parametrize("name", DATA_SETS)
def test_lightgbm_reads_its_own_text(name, tmp_path):
    model, data = trained_on(name, "none")
    cr.export.write(ranker_of(model, "lambdamart"), tmp_path / "model.txt", to="lightgbm")
    booster = lightgbm.Booster(model_file=tmp_path / "model.txt")
    np.testing.assert_array_equal(booster.predict(data.features, raw_score=True), model.predict(data, 1))


def test_lightgbm_s_text_takes_names(tmp_path):
    model = trees_model([(0, 0.5, 1.0, 2.0)], plain_scaler(3))
    ranker = ranker_of(model, "lambdamart")
    cr.export.write(ranker, tmp_path / "model.txt", to="lightgbm", features={1: "title_bm25", 3: "clicks"})
    booster = lightgbm.Booster(model_file=tmp_path / "model.txt")
    assert booster.feature_name() == ["title_bm25", "Column_1", "clicks"]
    assert booster.predict(np.array([[0.0, 0, 0], [1.0, 0, 0]])).tolist() == [1.0, 2.0]
    with pytest.raises(cr.CounterrankError, match="'two words' cannot be a name in LightGBM"):
        cr.export.write(ranker, tmp_path / "other.txt", to="lightgbm", features={1: "two words"})


def test_random_forests_are_sums_as_predict_takes_them():
    """LightGBM takes the mean of such trees, but not for raw scores, which `predict` takes."""
    model = TreesModel(
        text_of([(0, 0.5, 1.0, 2.0), (0, 1.5, 4.0, 8.0)], 1, more_header="average_output\n"), plain_scaler(1), 1
    )
    data = cr.RankingData([[0.0], [1.0], [2.0]], [0, 3])
    assert model.predict(data, 1).tolist() == [5.0, 6.0, 10.0]
    assert onnx_scores(written(ranker_of(model, "lambdamart"), "onnx"), data).tolist() == [5.0, 6.0, 10.0]


REFUSED = {
    "categorical": "feature 1 is categorical, which cannot be exported; train without categorical_feature",
    "linear": "linear trees cannot be exported; train without linear_tree",
    "zero": "sends zeros apart from their neighbours, which cannot be exported; train without zero_as_missing",
    "classes": "2 outputs a document; expected one score",
}


@pytest.mark.parametrize("kind", REFUSED)
def test_trees_that_no_target_can_hold_are_refused_by_name(kind, tmp_path):
    params = {"verbosity": -1, "min_data_in_leaf": 5, "num_leaves": 4, "objective": "regression"}
    draw = np.random.default_rng(0)
    features = draw.integers(0, 6, (300, 1)).astype(np.float64)
    labels = (features[:, 0] % 3 == 0) + 0.1 * features[:, 0]
    more = {}
    if kind == "categorical":
        more = {"categorical_feature": [0]}
    if kind == "linear":
        params["linear_tree"] = True
    if kind == "classes":
        params |= {"objective": "multiclass", "num_class": 2}
        labels = labels > 0.5
    if kind == "zero":
        text = text_of([(0, 0.5, 1.0, 2.0)], 1, missing="Zero", default_left=False)
    else:
        text = lightgbm.train(params, lightgbm.Dataset(features, labels, **more), 2).model_to_string()
    ranker = ranker_of(TreesModel(text, plain_scaler(1), 1), "lambdamart")
    for to in ("onnx", "es-ltr", "solr"):
        with pytest.raises(cr.CounterrankError, match=REFUSED[kind]):
            cr.export.write(ranker, tmp_path / "model", to=to)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("normalize", "to", "message"),
    [
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
        (
            "standard",
            "lightgbm",
            "lightgbm cannot scale features by mean and standard deviation; train with normalize='none'",
        ),
        ("none", "json", "json takes linear models, not"),
    ],
)
def test_what_cannot_be_held_is_refused(normalize, to, message, tmp_path):
    model = trees_model([(0, 0.5, 1.0, 2.0)], Scaler(normalize, np.zeros(1), np.ones(1)))
    with pytest.raises(cr.CounterrankError, match=message):
        cr.export.write(ranker_of(model, "lambdamart"), tmp_path / "model", to=to)
    assert list(tmp_path.iterdir()) == []


def test_zeros_that_count_as_missing_pass_where_they_go_with_their_neighbours():
    model = trees_model([(0, 0.5, 1.0, 2.0)], plain_scaler(1), missing="Zero", default_left=True)
    data = cr.RankingData([[0.0], [-1.0], [1.0]], [0, 3])
    assert onnx_scores(written(ranker_of(model, "lambdamart"), "onnx"), data).tolist() == [1.0, 1.0, 2.0]


_trained: dict[tuple[str, str], tuple[TreesModel, cr.RankingData]] = {}


def trained_on(name: str, normalize: str):
    """Trees learned by LightGBM's own lambdarank from a real data set, and test data."""
    if (name, normalize) not in _trained:
        train, test = read_part(name, "train"), read_part(name, "test")
        scaler = Scaler.learn(normalize, train)
        rows = train.subset(range(min(60, train.n_queries)))
        labels = lightgbm.Dataset(scaler.apply(rows), rows.labels, group=np.diff(rows.offsets))
        params = {"objective": "lambdarank", "verbosity": -1, "num_leaves": 15, "num_threads": 1, "seed": 0}
        booster = lightgbm.train(params, labels, 40)
        model = TreesModel(booster.model_to_string(), scaler, train.n_features)
        _trained[name, normalize] = model, test.subset(range(min(40, test.n_queries)))
    return _trained[name, normalize]
