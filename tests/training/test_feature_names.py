"""Names of features from the data to rankers, to the data they score, and to frames."""

from __future__ import annotations

import json
import warnings
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import counterrank as cr
from counterrank import estimators, policies, simulation
from counterrank.training import Scored, fit_best_clip
from tests.support.command import as_json, invoke, run
from tests.support.paths import TESTS

NAMES = ["price", "rating", "stock"]
OTHER = ["stock", "price", "rating"]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3)).astype(np.float32)
OFFSETS = np.arange(0, 301, 10)
WEIGHTS = np.maximum(X[:, 0] - X[:, 1], 0.0).astype(np.float64)
DATA = cr.RankingData(X, OFFSETS, feature_names=NAMES)
PLAIN = cr.RankingData(X, OFFSETS)
MODELS = ["linear", "lambdamart", "mlp"]


def make(model="linear", **more):
    if model in ("lambdamart", "mlp"):
        pytest.importorskip({"lambdamart": "lightgbm", "mlp": "torch"}[model])
    params = {"min_data_in_leaf": 5} if model == "lambdamart" else None
    return cr.Ranker(model=model, max_epochs=3, params=params, **more)


@pytest.mark.parametrize("model", MODELS)
def test_names_are_kept_checked_and_saved(model, tmp_path):
    ranker = make(model).fit(DATA, WEIGHTS)
    ranker.save(tmp_path / "ranker")
    loaded = cr.Ranker.load(tmp_path / "ranker")
    assert json.loads((tmp_path / "ranker" / "model.json").read_text())["feature_names"] == NAMES
    expected = ranker.predict(DATA)
    for one in (ranker, loaded):
        assert isinstance(one.feature_names_in_, np.ndarray)
        assert one.feature_names_in_.tolist() == NAMES
        assert one.provenance_["features"] == one.provenance_["data"]["feature_names"] == NAMES
        np.testing.assert_array_equal(one.predict(DATA.select_features(OTHER)), expected)
        with pytest.raises(cr.CounterrankError, match="data: lacks feature 'rating' of the ranker; expected the same"):
            one.predict(DATA.select_features(["price", "stock"]))
        with pytest.raises(cr.CounterrankError, match="has 'cost', unknown to the ranker"):
            one.predict(cr.RankingData(X, OFFSETS, feature_names=["cost", "rating", "stock"]))


def test_a_module_of_the_user_s_own_has_names_too(tmp_path):
    torch = pytest.importorskip("torch")
    ranker = make(torch.nn.Linear(3, 1)).fit(DATA, WEIGHTS)
    ranker.save(tmp_path / "ranker")
    loaded = cr.Ranker.load(tmp_path / "ranker", module=torch.nn.Linear(3, 1))
    np.testing.assert_array_equal(loaded.predict(DATA.select_features(OTHER)), ranker.predict(DATA))


def test_names_that_only_one_side_has_are_a_warning_once():
    named, plain = make().fit(DATA, WEIGHTS), make().fit(PLAIN, WEIGHTS)
    assert plain.feature_names_in_.tolist() == ["feature_1", "feature_2", "feature_3"]
    assert plain.provenance_["data"]["feature_names"] is None
    with pytest.warns(UserWarning, match="the ranker has names of features and data has none") as caught:
        scores = named.predict(PLAIN)
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="data has names of features and the ranker has none"):
        np.testing.assert_array_equal(plain.predict(DATA), scores)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        named.predict(PLAIN)  # once
        plain.predict(DATA)
        counted = cr.RankingData(X, OFFSETS, feature_names=["feature_1", "feature_2", "feature_3"])
        fresh = make().fit(PLAIN, WEIGHTS)
        np.testing.assert_array_equal(fresh.predict(counted), scores)
        swapped = counted.select_features(["feature_3", "feature_1", "feature_2"])
        np.testing.assert_array_equal(fresh.predict(swapped), scores)
    with pytest.raises(cr.CounterrankError, match="data: 2 features; the ranker was trained on 3"):
        plain.predict(DATA.select_features(["price", "rating"]))


def test_validation_data_has_the_names_of_the_training_data():
    expected = make().fit(DATA, WEIGHTS, validation=(DATA, WEIGHTS))
    other = make().fit(DATA, WEIGHTS, validation=(DATA.select_features(OTHER), WEIGHTS))
    assert [row["validation"] for row in other.history_] == [row["validation"] for row in expected.history_]
    with pytest.raises(cr.CounterrankError, match="validation: lacks feature 'stock' of data; expected the same names"):
        make().fit(DATA, WEIGHTS, validation=(DATA.select_features(["price", "rating"]), WEIGHTS))
    with pytest.warns(UserWarning, match="validation: data has names of features and validation has none"):
        make().fit(DATA, WEIGHTS, validation=(PLAIN, WEIGHTS))


def test_names_reach_rankers_of_every_way_of_training():
    data = cr.RankingData(X, OFFSETS, labels=(WEIGHTS > 1) * 4, feature_names=NAMES)
    log = partial(simulation.simulate, policy=policies.PlackettLuce(5), exam=[1, 0.5, 0.3, 0.2, 0.2], sessions=3000)
    clicks = log(data, X[:, 0])
    held_out = cr.RankingData(X[:150], OFFSETS[:16], labels=(WEIGHTS[:150] > 1) * 4, feature_names=NAMES)
    held_out = held_out.select_features(OTHER)
    more = log(held_out, X[:150, 0])
    for validation in (None, (held_out, more)):
        ranker = cr.fit_from_clicks(data, clicks, ranker=make(k=5), folds=2, validation=validation).ranker
        assert ranker.feature_names_in_.tolist() == NAMES
        assert ranker.provenance_["features"] == NAMES
        np.testing.assert_array_equal(ranker.predict(data.select_features(OTHER)), ranker.predict(data))
    relevance = estimators.fit_relevance(data, clicks)
    np.testing.assert_array_equal(relevance.predict(data.select_features(OTHER)), relevance.predict(data))
    with pytest.raises(cr.CounterrankError, match="has 'cost', unknown to the relevance model"):
        relevance.predict(cr.RankingData(X, OFFSETS, feature_names=["cost", *NAMES[1:]]))
    best = fit_best_clip(
        make(k=5),
        data,
        partial(estimators.policy_aware, clicks),
        [5, None],
        validation=(held_out, np.ones(150) * X[:150, 0]),
    )
    assert best.ranker.feature_names_in_.tolist() == NAMES


def test_a_fitted_policy_knows_its_features():
    data = cr.RankingData(X, OFFSETS, labels=(WEIGHTS > 1) * 4, feature_names=NAMES)
    clicks = simulation.simulate(
        data, 2.0 * X[:, 0], policies.PlackettLuce(3), [1, 0.5, 0.3], sessions=2000, displays=True
    )
    found = policies.fit_plackett_luce(data, clicks, k=3)
    assert found.feature_names == tuple(NAMES)
    np.testing.assert_array_equal(found.predict(data.select_features(OTHER)), found.predict(data))
    with pytest.raises(cr.CounterrankError, match="has 'cost', unknown to the policy"):
        found.predict(cr.RankingData(X, OFFSETS, feature_names=["cost", *NAMES[1:]]))


@pytest.mark.parametrize("name", ["linear", "lambdamart", "mlp", "auto"])
def test_rankers_saved_before_have_numbers_for_names(name):
    folder = TESTS / "fixtures" / "v0_1" / "rankers" / name
    if not folder.exists():
        pytest.skip("no such ranker")
    if name in ("lambdamart", "mlp"):
        pytest.importorskip({"lambdamart": "lightgbm", "mlp": "torch"}[name])
    ranker = cr.Ranker.load(folder)
    assert ranker.feature_names_in_.tolist() == [f"feature_{i + 1}" for i in range(ranker.n_features_)]
    assert ranker.query_column_ is None
    data = cr.RankingData.load(TESTS / "fixtures" / "v0_1" / "data.parquet")
    data = data.widened(ranker.n_features_)
    named = cr.RankingData(data.features, data.offsets, feature_names=[f"f{i}" for i in range(data.n_features)])
    expected = ranker.predict(data)
    with pytest.warns(UserWarning, match="taken by position"):
        np.testing.assert_array_equal(ranker.predict(named), expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"feature_names": ["a"]}, "feature_names: 1 names; expected 3"),
        ({"feature_names": ["a", "b", 3]}, "feature_names: 3; expected texts"),
        ({"feature_names": ["a", "b", "a"]}, "feature_names: 'a' twice"),
        ({"feature_names": "abc"}, "feature_names: 1 names; expected 3"),
        ({"query_column": 7}, "query_column is 7 in model.json; expected a text"),
    ],
)
def test_damaged_names_are_refused(change, message, tmp_path):
    make().fit(DATA, WEIGHTS).save(tmp_path / "ranker")
    file = tmp_path / "ranker" / "model.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(cr.CounterrankError, match=message):
        cr.Ranker.load(tmp_path / "ranker")


def test_scores_of_a_saved_ranker_and_of_a_named_feature(tmp_path):
    ranker = make().fit(DATA, WEIGHTS)
    ranker.save(tmp_path / "ranker")
    found = Scored.load(tmp_path / "ranker", DATA.select_features(OTHER))
    np.testing.assert_array_equal(found.scores, ranker.predict(DATA))
    with pytest.raises(cr.CounterrankError, match="lacks feature 'stock'"):  # not filled up with zeros
        Scored.load(tmp_path / "ranker", DATA.select_features(["price", "rating"]))
    np.testing.assert_array_equal(Scored.load("feature:rating", DATA).scores, X[:, 1])
    np.testing.assert_array_equal(Scored.load("feature:2", DATA).scores, X[:, 1])
    with pytest.raises(
        cr.CounterrankError, match="feature:cost: no such feature; expected a number from 1 to 3, or its"
    ):
        Scored.load("feature:cost", DATA)


# frames


def shop(n=40, seed=1):
    """Columns of products of several queries whose rows do not stand together."""
    rng = np.random.default_rng(seed)
    query = rng.permutation(np.repeat([f"query {i}" for i in range(n // 5)], 5))
    return {
        "title": [f"product {i}" for i in range(n)],
        "stock": rng.normal(size=n),
        "q": query.tolist(),
        "price": rng.normal(size=n),
        "rating": rng.normal(size=n),
        "sku": [f"sku {i}" for i in range(n)],
        "grade": rng.integers(0, 5, n),
    }


def frames(columns):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    products = pa.table(columns)
    found = {
        "pandas": pandas.DataFrame(columns, index=np.arange(len(columns["q"]))[::-1]),
        "polars": polars.DataFrame(columns),
        "lazy": polars.LazyFrame(columns),
        "table": products,
        "reader": products.to_reader(),
    }
    duckdb = pytest.importorskip("duckdb")
    return found | {"duckdb": duckdb.sql("select * from products")}


def by_hand(ranker, columns):
    """The score of each row, from each query's rows alone."""
    query, out = np.array(columns["q"]), np.empty(len(columns["q"]))
    matrix = np.stack([columns[name] for name in NAMES], axis=1)
    for one in np.unique(query):
        rows = np.flatnonzero(query == one)
        out[rows] = ranker.predict(cr.RankingData(matrix[rows], [0, len(rows)], feature_names=NAMES))
    return out


@pytest.mark.parametrize("kind", ["pandas", "polars", "lazy", "table", "reader", "duckdb"])
def test_scores_of_a_frame_are_in_the_order_of_its_rows(kind, tmp_path):
    columns = shop()
    train = cr.RankingData.from_frame(pa.table(columns), query="q", document="sku", label="grade", features=NAMES)
    ranker = make().fit(train, train.labels)
    assert ranker.query_column_ == "q"
    ranker.save(tmp_path / "ranker")
    later = shop(60, seed=2)
    expected = by_hand(ranker, later)
    for one in (ranker, cr.Ranker.load(tmp_path / "ranker")):
        np.testing.assert_allclose(one.predict(frames(later)[kind]), expected, rtol=1e-12)
    renamed = {"topic" if name == "q" else name: values for name, values in later.items()}
    with pytest.raises(cr.CounterrankError, match="the frame has no column 'q', which the training data had"):
        ranker.predict(pa.table(renamed))
    np.testing.assert_allclose(ranker.predict(pa.table(renamed), query="topic"), expected, rtol=1e-12)


def test_a_ranker_that_scores_each_document_by_itself_needs_no_query():
    columns = shop()
    train = cr.RankingData.from_frame(pa.table(columns), query="q", document="sku", features=NAMES)
    weights = np.arange(40) % 3
    for normalize in ("standard", "none"):
        ranker = make(normalize=normalize).fit(train, weights)
        features = {name: columns[name] for name in reversed(NAMES)}
        np.testing.assert_allclose(ranker.predict(pa.table(features)), by_hand(ranker, columns), rtol=1e-12)
    ranker = make().fit(DATA, WEIGHTS)
    with pytest.raises(cr.CounterrankError, match="query: not given, and this ranker scores documents within their"):
        ranker.predict(pa.table(columns))
    with pytest.raises(cr.CounterrankError, match="query='topic': no such column; the frame has 'title', 'stock'"):
        ranker.predict(pa.table(columns), query="topic")
    with pytest.raises(cr.CounterrankError, match="features: no column 'rating'; frame has 'stock', 'q'"):
        ranker.predict(pa.table({"stock": [1.0], "q": [1], "price": [2.0]}), query="q")
    with pytest.raises(cr.CounterrankError, match="query='q': goes with a frame"):
        ranker.predict(DATA, query="q")
    with pytest.raises(cr.CounterrankError, match="frame: no rows"):
        ranker.predict(pa.table(columns).slice(0, 0), query="q")
    with pytest.raises(cr.CounterrankError, match="feature 'price' is 'product 0' in row 0 and 39 more"):
        ranker.predict(pa.table(columns | {"price": columns["title"]}), query="q")


def test_a_listwise_module_needs_the_query():
    torch = pytest.importorskip("torch")

    class Centred(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 1)

        def forward(self, features, offsets):
            scores = self.linear(features)[:, 0]
            means = [scores[a:b].mean().expand(int(b - a)) for a, b in pairwise(offsets)]
            return scores - torch.cat(means)

    ranker = make(Centred(), normalize="none").fit(DATA, WEIGHTS)
    columns = shop()
    with pytest.raises(cr.CounterrankError, match="scores documents within their query"):
        ranker.predict(pa.table(columns))
    np.testing.assert_allclose(ranker.predict(pa.table(columns), query="q"), by_hand(ranker, columns), atol=1e-6)


def test_a_frame_for_a_ranker_without_names_is_taken_by_position():
    ranker = make(normalize="none").fit(PLAIN, WEIGHTS)
    columns = shop()
    given = {name: columns[name] for name in NAMES}
    with pytest.warns(UserWarning, match="taken by position"):
        scores = ranker.predict(pa.table(given))
    counted = {f"feature_{i + 1}": columns[name] for i, name in enumerate(NAMES)}
    swapped = {"feature_3": None, "title": columns["title"]} | counted
    np.testing.assert_array_equal(ranker.predict(pa.table(swapped)), scores)
    with pytest.raises(cr.CounterrankError, match="data: 2 features; the ranker was trained on 3"):
        ranker.predict(pa.table({"price": [1.0], "stock": [2.0]}))


def test_frames_as_matrices_have_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=NAMES)
    ranker = make().fit(frame, WEIGHTS, group=np.diff(OFFSETS))
    assert ranker.feature_names_in_.tolist() == NAMES
    group = np.diff(OFFSETS)
    np.testing.assert_array_equal(ranker.predict(frame[OTHER], group=group), ranker.predict(frame, group=group))


# the command


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("names")
    labelled = cr.RankingData(X, OFFSETS, labels=(WEIGHTS > 1) * 4, feature_names=NAMES)
    labelled.save(folder / "data.parquet")
    labelled.select_features(OTHER).save(folder / "other.parquet")
    labelled.select_features(["price", "stock"]).save(folder / "less.parquet")
    invoke(
        "train",
        folder / "data.parquet",
        "--estimator",
        "full-information",
        "--max-epochs",
        "2",
        "--out",
        folder / "ranker",
    )
    return folder


def test_the_command_explains_and_checks_by_name(folder, tmp_path):
    shown = as_json("explain", folder / "ranker")
    assert {row["name"] for row in shown["features"]} == set(NAMES)
    (tmp_path / "names.txt").write_text("a\nb\nc\n")
    shown = as_json("explain", folder / "ranker", "--features", tmp_path / "names.txt")
    assert {row["name"] for row in shown["features"]} == {"a", "b", "c"}
    first, second = (as_json("evaluate", folder / "ranker", folder / f"{name}.parquet") for name in ("data", "other"))
    assert first["metrics"] == second["metrics"]
    refused = run("evaluate", folder / "ranker", folder / "less.parquet")
    assert refused.returncode == 2
    assert "lacks feature 'rating' of the ranker" in refused.stderr
