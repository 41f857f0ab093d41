"""The ranker behaves as scikit-learn's estimators do, on plain arrays too."""

import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank.data.ranking_data import from_arrays
from counterrank.models import Scaler
from counterrank.models.linear import linear_importances
from tests.reference.training import scaled_features
from tests.support.ragged import ragged_data, ragged_weights

DATA = ragged_data()
WEIGHTS = ragged_weights(DATA)
QID = np.repeat(DATA.query_ids, DATA.lengths)
OTHERS = {
    "loss": "arp-hinge", "k": 3, "model": "lambdamart", "learning_rate": 0.5, "max_epochs": 7, "patience": 3,
    "tolerance": 0.1, "batch_queries": 4, "normalize": "none", "metric": "arp", "params": {"num_leaves": 5},
    "threads": 1, "seed": 5,
}  # fmt: skip


def test_the_constructor_stores_what_it_is_given_and_nothing_else():
    ranker = cr.Ranker(**OTHERS)
    assert vars(ranker) == OTHERS
    assert set(OTHERS) == set(inspect.signature(cr.Ranker).parameters)
    assert ranker.get_params() == ranker.get_params(deep=False) == OTHERS
    assert ranker.params is OTHERS["params"]


def test_set_params():
    ranker = cr.Ranker()
    assert ranker.set_params(**OTHERS) is ranker
    assert ranker.get_params() == OTHERS
    with pytest.raises(cr.CounterrankError, match=r"^parameter='depth': expected one of 'loss', 'k'"):
        ranker.set_params(k=9, depth=3)
    assert ranker.k == 3


def test_clone_gives_an_untrained_copy():
    clone = pytest.importorskip("sklearn.base").clone
    ranker = cr.Ranker("arp-hinge", max_epochs=3, params={}).fit(DATA, WEIGHTS)
    copy = clone(ranker)
    assert copy.get_params() == ranker.get_params()
    assert not hasattr(copy, "model_")
    assert copy.fit(DATA, WEIGHTS).predict(DATA).tolist() == ranker.predict(DATA).tolist()


def test_a_search_over_settings_with_scikit_learn_s_own_tools():
    selection = pytest.importorskip("sklearn.model_selection")
    check_is_fitted = pytest.importorskip("sklearn.utils.validation").check_is_fitted

    def score(ranker, features, weights):  # knows neither queries nor ids: the parts of a fold are one query
        return float(np.corrcoef(ranker.predict(features), weights)[0, 1])

    search = selection.GridSearchCV(
        cr.Ranker("arp-hinge", learning_rate=0.1, normalize="none"), {"max_epochs": [1, 5]},
        cv=selection.GroupKFold(2), scoring=score, error_score="raise",
    ).fit(DATA.features, WEIGHTS, groups=QID, qid=QID)  # fmt: skip
    assert search.best_params_["max_epochs"] in (1, 5)
    check_is_fitted(search.best_estimator_)
    with pytest.raises(ValueError, match="not fitted"):
        check_is_fitted(cr.Ranker())


@pytest.mark.parametrize("queries", ["qid", "group"])
def test_plain_arrays_are_as_good_as_ranking_data(queries):
    given = {"qid": QID} if queries == "qid" else {"group": DATA.lengths}
    expected = cr.Ranker(k=3, max_epochs=5).fit(DATA, WEIGHTS, validation=(DATA, WEIGHTS))
    found = cr.Ranker(k=3, max_epochs=5).fit(
        DATA.features, WEIGHTS, validation=(DATA.features, WEIGHTS, *given.values()), **given
    )
    assert [row["validation"] for row in found.history_] == [row["validation"] for row in expected.history_]
    assert found.predict(DATA).tolist() == expected.predict(DATA).tolist()
    assert found.predict(DATA.features, **given).tolist() == expected.predict(DATA).tolist()
    assert found.n_features_in_ == DATA.n_features


def test_ranking_data_validates_an_array():
    ranker = cr.Ranker(max_epochs=2).fit(DATA.features, WEIGHTS, validation=(DATA, WEIGHTS), qid=QID)
    assert ranker.history_[0]["validation"] is not None


def test_without_queries_a_matrix_to_predict_is_one_query():
    ranker = cr.Ranker(max_epochs=2).fit(DATA, WEIGHTS)
    first = DATA.subset([0])
    assert ranker.predict(first.features).tolist() == ranker.predict(first).tolist()
    assert ranker.predict(first.features.tolist()).tolist() == ranker.predict(first).tolist()


def test_data_frames():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(DATA.features)
    names = pandas.Series([f"query {q}" for q in QID])
    found = cr.Ranker(max_epochs=2).fit(frame, pandas.Series(WEIGHTS), qid=names)
    assert found.predict(frame, qid=names).tolist() == cr.Ranker(max_epochs=2).fit(DATA, WEIGHTS).predict(DATA).tolist()


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.booleans())
@settings(max_examples=40, deadline=None)
def test_queries_are_runs_of_rows(lengths, as_text):
    ids = [f"q{i}" if as_text else 10 - i for i in range(len(lengths))]
    data = from_arrays(np.zeros((sum(lengths), 1)), qid=np.repeat(ids, lengths))
    assert data.lengths.tolist() == lengths
    assert data.query_ids.tolist() == ids


BAD = [
    ({}, "qid, group: expected one of them"),
    ({"qid": [1, 1, 2], "group": [2, 1]}, "qid, group: expected one of them"),
    ({"qid": [1, 2, 1]}, r"qid: row 2 continues query 1; expected the rows of a query together \(sort by qid\)"),
    ({"qid": [1, 2]}, r"qid: shape \(2,\); expected \(3,\), the query of each row"),
    ({"group": [2, 2]}, "group: 4 rows in all; expected 3, as X has"),
    ({"group": [3, 0]}, "group: expected the number of rows of each query, whole numbers of at least 1"),
    ({"group": [1.5, 1.5]}, "group: expected the number of rows"),
    ({"group": []}, "group: expected the number of rows"),
]


@pytest.mark.parametrize(("given", "message"), BAD)
def test_queries_that_do_not_fit_are_refused(given, message):
    with pytest.raises(cr.CounterrankError, match=f"^{message}"):
        cr.Ranker().fit(np.ones((3, 2)), [1.0, 0.0, 0.0], **given)


@pytest.mark.parametrize(
    "validation", [(DATA.features, WEIGHTS), 5, (DATA.features,), ()], ids=["pair", "number", "one", "none"]
)
def test_validation_with_a_matrix(validation):
    with pytest.raises(cr.CounterrankError, match=r"^validation: expected \(X, weights, qid\) together with a matrix"):
        cr.Ranker().fit(DATA.features, WEIGHTS, validation, qid=QID)


@pytest.mark.parametrize("normalize", ["query", "standard", "none"])
def test_importances_of_a_linear_model_against_the_reference(normalize):
    """|coefficient| times the deviation of the scaled feature around its mean in the query."""
    scaled = scaled_features(DATA, normalize)
    centred = np.concatenate([x - x.mean(axis=0) for x in np.split(scaled, DATA.offsets[1:-1])])
    coefficients = np.arange(-2.0, 4.0)
    found = linear_importances(DATA, coefficients, Scaler.learn(normalize, DATA).scales(DATA), 2)
    np.testing.assert_allclose(found, np.abs(coefficients) * np.sqrt((centred**2).mean(axis=0)), rtol=1e-4, atol=1e-6)


def test_importances_are_shares():
    ranker = cr.Ranker(max_epochs=3).fit(DATA, WEIGHTS)
    assert ranker.feature_importances_.sum() == pytest.approx(1.0)
    assert (ranker.feature_importances_ >= 0.0).all()
    with pytest.raises(cr.CounterrankError, match="not trained yet"):
        print(cr.Ranker().feature_importances_)


def test_what_is_not_learned_yet_is_not_an_attribute():
    assert not hasattr(cr.Ranker(), "feature_importances_")
    assert not hasattr(cr.Ranker(), "n_features_in_")


@pytest.mark.parametrize("features", [3.0, None, np.zeros((0, 6)), [1.0]], ids=["number", "none", "no rows", "a row"])
def test_what_cannot_be_scored_is_refused(features):
    ranker = cr.Ranker(max_epochs=1, learning_rate=0.1).fit(DATA, WEIGHTS)
    with pytest.raises(cr.CounterrankError, match=r"^X: "):
        ranker.predict(features)


def test_a_model_of_another_kind_is_refused():
    with pytest.raises(cr.CounterrankError, match=r"^model: dict; expected linear, mlp, lambdamart or a torch"):
        cr.Ranker(model={}).fit(DATA, WEIGHTS)
    with pytest.raises(cr.CounterrankError, match=r"^model='forest': expected one of 'linear', 'mlp', 'lambdamart'"):
        cr.Ranker(model="forest").fit(DATA, WEIGHTS)
    with pytest.raises(cr.CounterrankError, match=r"^params: depth; expected only device for a linear model"):
        cr.Ranker(params={"depth": 3}).fit(DATA, WEIGHTS)
    with pytest.raises(cr.CounterrankError, match=r"^params: list; expected a dict"):
        cr.Ranker(params=[3]).fit(DATA, WEIGHTS)
    with pytest.raises(cr.CounterrankError, match=r"^batch_queries=4: lambdamart learns from all queries"):
        cr.Ranker(model="lambdamart", batch_queries=4).fit(DATA, WEIGHTS)


DEFAULTS = {
    "linear": ("lambdaloss-truncated", 100, 20, 1, "query"),
    "mlp": ("lambdaloss-truncated", 100, 20, 16, "query"),
    "lambdamart": ("lambdarank", 300, 100, 1, "none"),
}


@pytest.mark.parametrize("model", DEFAULTS)
def test_what_is_left_open_is_the_model_s_own(model):
    ranker = cr.Ranker(model=model)
    found = ranker._settings()
    assert (found.max_epochs, found.patience, found.batch_queries, found.normalize) == DEFAULTS[model][1:]
    assert ranker._named_loss().name == DEFAULTS[model][0]
    assert ranker.get_params()["loss"] is None
    given = cr.Ranker("arp-hinge", model=model, max_epochs=7, patience=3, normalize="standard")
    found = given._settings()
    assert (found.max_epochs, found.patience, found.normalize) == (7, 3, "standard")
    assert given._named_loss().name == "arp-hinge"
