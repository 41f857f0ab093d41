"""The model of relevance: against a reference implementation, at the edges, and on bad input."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank import estimators, examination
from counterrank.clicks.simulation import trust_bias
from counterrank.common.errors import CounterrankError
from counterrank.data.ids import identity
from counterrank.estimators import relevance_models as _ridge
from counterrank.estimators.relevance_models import assign_folds
from tests.reference import estimators as naive_estimators
from tests.reference import relevance as reference
from tests.reference.affine import canonical
from tests.support.click_counts import count, worlds
from tests.support.relevance_logs import DATA, LOG, POLICY, RHO, THETA, Peeper, logged, make_data, tiny


def world_of(world, rows):
    """Click counts of a world of naive_estimators, against data with these features."""
    lengths, sessions = world
    data = cr.RankingData(rows, naive_estimators.offsets_of(lengths))
    return data, replace(count(lengths, sessions), identity=identity(data))


@given(worlds(), st.data())
@settings(max_examples=60, deadline=None)
def test_ridge_against_the_reference(world, data):
    """Single documents, queries without sessions, constant features, folds of one query and of none."""
    lengths, sessions = world
    n_features = data.draw(st.integers(1, 3))
    rows = data.draw(
        st.lists(
            st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=n_features, max_size=n_features),
            min_size=sum(lengths), max_size=sum(lengths),
        )
    )  # fmt: skip
    exam = data.draw(st.lists(st.sampled_from([0.1, 0.4, 0.7]), min_size=5, max_size=5))
    beta = data.draw(st.none() | st.just([0.2, 0.1, 0.0, 0.0, 0.0]))
    if beta:  # as they are in the canonical gauge
        exam, beta, _, _ = canonical(exam, beta)
    folds = data.draw(st.lists(st.integers(3, 6), min_size=len(lengths), max_size=len(lengths)))
    saturation = data.draw(st.sampled_from([0.5, 10.0, 1e12]))
    ranking, log = world_of(world, rows)
    tally = reference.tallies(lengths, sessions, exam, beta)
    queries = [query for query in range(len(lengths)) if any(session[0] == query for session in sessions)]
    options = {"exam": exam, "beta": beta, "saturation": saturation, "folds": folds}
    if len({folds[query] for query in queries}) < 2:
        with pytest.raises(CounterrankError):
            estimators.fit_relevance(ranking, log, **options)
        return
    found = estimators.fit_relevance(ranking, log, **options)
    parts = assign_folds(folds, np.array(queries), len(lengths), np.random.default_rng(0)).parts
    clicks, times = [c for _, c, _ in tally], [t for _, _, t in tally]
    cross_fitted, of_all = reference.fit_relevance(
        rows, ranking.offsets.tolist(), clicks, times, folds, parts.tolist(), saturation
    )
    for mine, candidates in cross_fitted:
        assert any(np.allclose(found.values[mine], own, atol=1e-5) for own in candidates)
    assert any(np.allclose(found.predict(ranking), own, atol=1e-5) for own in of_all)
    rate = sum(clicks) / sum(times)
    for value, by in ((found.error, found.values), (found.baseline, [rate] * len(times))):
        squares = [t * (c / t - r) ** 2 for c, t, r in zip(clicks, times, by, strict=True) if t > 0.0]
        assert value == pytest.approx(sum(squares) / sum(times), rel=1e-6, abs=1e-9)


def test_ridge_on_a_larger_log_against_the_reference():
    data = make_data(40)
    log, scores = logged(data, 400)
    rho = POLICY.propensity(scores, data.offsets, THETA)
    found = estimators.fit_relevance(data, log, rho, folds=4, seed=3)
    queries = np.flatnonzero(log.sessions)
    folds = np.zeros(40, np.int64)
    folds[np.random.default_rng(3).permutation(queries)] = np.arange(len(queries)) % 4
    times = np.repeat(log.sessions, 8) * rho
    cross_fitted, of_all = reference.fit_relevance(
        data.features, data.offsets, log.by_document(log.clicks), times, folds.tolist(), folds.tolist(), 10.0
    )
    for mine, candidates in cross_fitted:
        assert len(candidates) == 1
        np.testing.assert_allclose(found.values[mine], candidates[0], atol=1e-6)
    np.testing.assert_allclose(found.predict(data), of_all[0], atol=1e-6)
    given_folds = estimators.fit_relevance(data, log, rho, folds=folds * 7 - 3)
    np.testing.assert_array_equal(given_folds.values, found.values)


def test_blocks_of_rows_do_not_show(monkeypatch):
    found = estimators.fit_relevance(DATA, LOG, RHO)
    monkeypatch.setattr(_ridge, "_ROWS", 7)
    np.testing.assert_allclose(estimators.fit_relevance(DATA, LOG, RHO).values, found.values, rtol=1e-9, atol=1e-12)


def test_it_learns_what_features_tell():
    found = estimators.fit_relevance(DATA, LOG)
    truth = np.where(DATA.labels == 4, 0.9, 0.1)
    assert found.error < 0.8 * found.baseline
    assert np.mean((found.values - truth) ** 2) < 0.5 * truth.var()
    assert "ridge regression on 5 features" in repr(found)
    other = make_data(50, seed=9)
    predicted = found.predict(other)
    assert np.mean((predicted - np.where(other.labels == 4, 0.9, 0.1)) ** 2) < 0.5 * truth.var()
    assert predicted.min() >= 0.0
    assert predicted.max() <= 1.0


def test_under_trust_bias():
    model = trust_bias(k=4)
    log, scores = logged(DATA, 20_000, model=model)
    alpha, beta = model.affine(THETA, 4)
    gain = POLICY.propensity(scores, DATA.offsets, alpha)
    _, _, low, high = canonical(alpha, beta)
    relevant = ((DATA.labels == 4) - low) / (high - low)
    users = examination.Affine(alpha, beta)
    options = ({"rho": gain, "exam": alpha, "beta": beta}, {"rho": gain * users.scale, "exam": users}, {"exam": THETA})
    found = [estimators.fit_relevance(DATA, log, **each).values for each in options]
    np.testing.assert_array_equal(found[0], found[1])
    levels = [abs(each.mean() - relevant.mean()) for each in found[1:]]
    assert levels[0] < 0.01 < 0.03 < levels[1]
    errors = [np.mean((each - relevant) ** 2) for each in found[1:]]
    assert errors[0] < errors[1]


def test_two_queries_two_folds_and_queries_without_sessions():
    data, log = tiny(2)
    found = estimators.fit_relevance(data, log, [1.0, 0.5, 1.0, 0.5])
    assert found.values == pytest.approx(np.full(4, 2 / 3), abs=0.02)  # nothing can be held out: one rate for all
    data, log = tiny(6)
    halves = estimators.fit_relevance(data, log, [1.0, 0.5] * 6, folds=2)
    assert halves.values == pytest.approx([1.0, 0.0] * 6, abs=0.01)
    half = replace(
        log, sessions=np.array([1, 1, 1, 1, 0, 0]), docs=log.docs[:8], ranks=log.ranks[:8],
        impressions=log.impressions[:8], clicks=log.clicks[:8],
    )  # fmt: skip
    found = estimators.fit_relevance(data, half, exam=[1.0, 0.5])
    assert found.values == pytest.approx([1.0, 0.0] * 6, abs=0.01)


def test_rates_of_hardly_any_examinations_stay_finite():
    data, log = tiny(4)
    found = estimators.fit_relevance(data, log, [1e-190, 0.5] * 4)
    assert np.isfinite(found.values).all()
    assert np.isfinite([found.error, found.baseline]).all()


def test_predictions_are_usable_as_arrays():
    found = estimators.fit_relevance(DATA, LOG)
    assert np.asarray(found) is found.values
    assert np.array(found, copy=True) is not found.values
    assert np.asarray(found, np.float32).dtype == np.float32
    np.testing.assert_array_equal(estimators.direct(LOG, found), estimators.direct(LOG, found.values))


def test_seeds_deal_the_queries():
    one, same, other = (estimators.fit_relevance(DATA, LOG, seed=seed).values for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 1e-6


class Broken(Peeper):
    def __init__(self, answer):
        self.answer = answer

    def predict(self, X):
        return self.answer(X)


class Locked(Peeper):
    def __deepcopy__(self, memo):
        raise TypeError("no copies")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data": "data"}, "data: str; expected RankingData"),
        ({"data": make_data(3)}, "clicks: counted against other data, of 200 queries and 1,600 documents"),
        ({"clicks": None}, "clicks: NoneType; expected ClickCounts"),
        ({"model": "forest"}, "model='forest': expected 'ridge', 'lightgbm', 'mlp', or a regressor with fit"),
        ({"model": None}, "model=None: expected 'ridge'"),
        ({"model": Peeper}, "model=Peeper: expected 'ridge'"),
        (
            {"model": Broken(lambda X: X)},
            r"model: Broken predicts float32 of shape \(.*, 5\) for .* expected one number",
        ),
        ({"model": Broken(lambda X: ["a"] * len(X))}, "model: Broken predicts <U1"),
        ({"model": Broken(lambda X: X[:, 0] * np.nan)}, "model: Broken predicts numbers that are not finite"),
        ({"model": Locked()}, r"model: Locked cannot be copied \(no copies\)"),
        ({"saturation": 0}, "saturation=0: expected a number of examinations above 0, or math.inf"),
        ({"saturation": math.nan}, "saturation=nan: expected"),
        ({"saturation": True}, "saturation=True: expected"),
        ({"saturation": "10"}, "saturation='10': expected"),
        ({"folds": 1}, "folds=1: expected a whole number of at least 2, or the number of the fold of each query"),
        ({"folds": True}, "folds=True: expected"),
        ({"folds": 2.0}, "folds=2.0: expected"),
        ({"folds": "all"}, "folds='all': expected"),
        ({"folds": None}, "folds=None: expected"),
        ({"folds": [0, 1]}, r"folds: int64 of shape \(2,\); expected a whole number for each of 200 queries"),
        ({"folds": np.linspace(0, 1, 200)}, r"folds: float64 of shape \(200,\); expected a whole number"),
        ({"folds": np.full(200, 8)}, "folds: all queries with sessions are in fold 8; expected at least two folds"),
        ({"seed": -1}, "seed=-1: expected a whole number of at least 0"),
        ({"rho": RHO[1:]}, "rho: 1599 entries; expected 1600"),
        ({"exam": [1.5]}, "examination: 1.5 at rank 1; expected probabilities from 0 to 1"),
        ({"beta": [0.1]}, "exam: None with beta given; expected alpha by rank"),
    ],
)
def test_bad_input(options, message):
    given_data, clicks = options.pop("data", DATA), options.pop("clicks", LOG)
    with pytest.raises(CounterrankError, match=message):
        estimators.fit_relevance(given_data, clicks, **options)


def test_too_few_queries():
    data, log = tiny(1)
    with pytest.raises(CounterrankError, match="clicks: sessions of 1 query; expected at least two queries"):
        estimators.fit_relevance(data, log, [1.0, 0.5])


def test_prediction_of_other_data_is_checked():
    found = estimators.fit_relevance(DATA, LOG)
    with pytest.raises(CounterrankError, match="data: 3 features; expected 5, as in fit_relevance"):
        found.predict(make_data(3, n_features=3))
    with pytest.raises(CounterrankError, match="data: ndarray; expected RankingData"):
        found.predict(DATA.features)
