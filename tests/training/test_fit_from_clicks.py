"""From clicks to a ranker in one call: what is held out, what is kept, and what is said about it."""

import contextlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

import counterrank as cr
from counterrank import estimators, evaluation
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import Examination
from counterrank.clicks.simulation import simulate
from counterrank.clicks.users import trust_bias
from counterrank.common.errors import ConstantFeaturesError, CounterrankError, NothingToLearnError
from counterrank.data import RankingData
from counterrank.estimators import ESTIMATORS, Evidence
from counterrank.estimators.relevance import examinations
from counterrank.estimators.relevance_models import check_model
from counterrank.training import FitReport, Ranker, cross_validation, fit_from_clicks, linear_training
from counterrank.training.cross_validation import (
    Candidate,
    Trial,
    candidates,
    cross_fit,
    difference,
    evaluate_trials,
    examine,
    join,
)
from counterrank.training.problem import TrainingWeights, query_metric
from tests.support.few_click_logs import EXAM, POLICY, logged, quick, small_data

AWARE = ESTIMATORS["policy-aware"]


@pytest.fixture(scope="module")
def log():
    return logged()


# What is held out ----------------------------------------------------------------------------------------------------


def test_clicks_of_a_fold_have_no_part_in_what_is_learned_for_it(log):
    """Other clicks on the held-out queries change no coefficient but by when training stops, which is fixed here."""
    data, clicks, rho = log
    pool = join([examine(data, Evidence(clicks, rho, EXAM))])
    ranker, wanted, model = quick(max_epochs=1), candidates(ESTIMATORS["auto"], {}), check_model("ridge")
    before = cross_fit(ranker, pool, wanted, model, 3, seed=5)
    fold_rows = [np.flatnonzero(_scores_of(before, data, fold)) for fold in range(3)]
    assert sum(map(len, fold_rows)) == data.n_docs
    changed = pool.seen.clicks.copy()
    changed[fold_rows[1]] = np.random.default_rng(1).permutation(changed[fold_rows[1]]) + 3.0
    after = cross_fit(ranker, pool._replace(seen=pool.seen._replace(clicks=changed)), wanted, model, 3, seed=5)
    for one, other in zip(before.trials, after.trials, strict=True):
        same = [
            np.array_equal(a.model_.coefficients, b.model_.coefficients)
            for a, b in zip(one.rankers, other.rankers, strict=True)
        ]
        assert same == [False, True, False], one.candidate


def _scores_of(found, data, fold):
    """Whether each document was scored by the ranker of this fold."""
    trial = found.trials[0]
    return np.isclose(trial.rankers[fold].predict(data), trial.scores, rtol=0, atol=0)


@pytest.mark.statistical
@pytest.mark.representative
def test_shuffled_features_teach_nothing(monkeypatch):
    """Where features carry no information on clicks, held-out clicks see no gain over random order; seen clicks would.

    100 queries with clicks that do not depend on 60 features: the held-out DCG of each candidate less that of random
    scores, over its standard error, is within 4.5; with 7 candidates this fails by chance about once in 20,000. A
    ranker that is evaluated on the clicks it learned from is far beyond that.
    """
    monkeypatch.setattr(cross_validation, "_drop_behind", lambda *args: None)  # all are to be trained on all folds
    rng = np.random.default_rng(3)
    features, labels = rng.random((2000, 60)), rng.integers(0, 2, 2000) * 4.0
    data = RankingData(features, np.arange(0, 2001, 20), labels)
    clicks = simulate(data, rng.random(2000), POLICY, EXAM, sessions=5000, seed=0)
    pool = join([examine(data, Evidence(clicks, None, EXAM))])
    found = cross_fit(quick(), pool, candidates(ESTIMATORS["auto"], {}), check_model("ridge"), 5, seed=1)
    luck = [
        evaluate_trials(replace(found, trials=[replace(found.trials[0], scores=rng.random(2000))]), data, "dcg@5", 1)[0]
        for _ in range(20)
    ]
    chance = np.mean(luck, axis=0)
    for parts in evaluate_trials(found, data, "dcg@5", 1):
        ahead, error = difference(parts, chance)
        assert abs(ahead) < 4.5 * error
    leaking = quick(max_epochs=30).fit(data, found.weights).predict(data)
    own = evaluate_trials(replace(found, trials=[replace(found.trials[0], scores=leaking)]), data, "dcg@5", 1)[0]
    ahead, error = difference(own, chance)
    assert ahead > 4.5 * error


def test_the_learning_rate_is_searched_once(log, monkeypatch):
    """For the default on the first fold; all candidates of a fold use the same multiple of their natural one."""
    data, clicks, rho = log
    pool = join([examine(data, Evidence(clicks, rho, EXAM))])
    searches, search = [], linear_training.search_learning_rate

    def count(*args):
        searches.append(args)
        return search(*args)

    monkeypatch.setattr(linear_training, "search_learning_rate", count)
    ranker, wanted = quick(learning_rate="auto", max_epochs=6, patience=4), candidates(ESTIMATORS["auto"], {})
    found = cross_fit(ranker, pool, wanted, check_model("ridge"), 3, seed=5, default=1)
    assert len(searches) == 1
    first = found.trials[1].rankers[0]
    others = [(fold, each) for trial in found.trials for fold, each in enumerate(trial.rankers) if each is not first]
    assert (first.patience, {each.patience for _, each in others}) == (4, {1})
    multiples = np.array([each._found_multiple / first._found_multiple for _, each in others])
    np.testing.assert_allclose(np.log10(multiples), [(0.0, -0.5, 0.5)[fold] for fold, _ in others], atol=1e-5)
    assert {fold for fold, _ in others} == {0, 1, 2}


def test_candidates_have_their_own_order_of_queries(log):
    """The same candidate twice gives other linear rankers; each has one seed for all folds, drawn from the ranker's."""
    data, clicks, rho = log
    pool = join([examine(data, Evidence(clicks, rho, EXAM))])
    wanted, model = [Candidate(AWARE), Candidate(AWARE)], check_model("ridge")
    one, other = cross_fit(quick(seed=3), pool, wanted, model, 3, seed=5).trials
    assert [len({each.seed for each in trial.rankers}) for trial in (one, other)] == [1, 1]
    assert one.seed != other.seed
    for a, b in zip(one.rankers, other.rankers, strict=True):
        assert not np.array_equal(a.model_.coefficients, b.model_.coefficients)
    again = cross_fit(quick(seed=3), pool, wanted, model, 3, seed=5).trials
    assert [trial.seed for trial in again] == [one.seed, other.seed]
    assert cross_fit(quick(seed=4), pool, wanted, model, 3, seed=5).trials[0].seed != one.seed
    found = fit_from_clicks(data, clicks, rho, exam=EXAM, ranker=quick(seed=3), folds=3, seed=5)
    assert found.ranker.seed == 3


@pytest.mark.parametrize("metric", ["dcg@5", "arp"])
def test_candidates_clearly_behind_are_dropped(log, metric):
    """By Student's t over the queries seen so far; never the default, nor those that are close."""
    data, rng = log[0], np.random.default_rng(0)
    weights = (data.labels > 0).astype(float)
    good, close, bad = weights + 0.1 * rng.random(data.n_docs), weights + 0.11 * rng.random(data.n_docs), -weights
    seen = np.arange(30) % 3 == 0
    late = np.where(np.repeat(seen, data.lengths), good, bad)  # what is not seen yet has no part
    ranker = quick(metric=metric).fit(data, weights)
    trials = [Trial(Candidate(AWARE), scores, rankers=[ranker]) for scores in (bad, good, close, bad, late)]
    trials[3].failure = CounterrankError("diverged")
    cross_validation._drop_behind([trials[1], trials[0], *trials[2:]], 0, data, weights, seen, 1)
    assert [trial.dropped is not None for trial in trials] == [True, False, False, False, False]
    found = trials[0].dropped
    rows = np.repeat(seen, data.lengths)
    value = query_metric(metric, data.subset(np.flatnonzero(seen)), TrainingWeights(weights[rows], None))
    gaps = value(good[rows], 1) - value(bad[rows], 1)
    assert found.behind == pytest.approx(gaps.sum())
    assert found.error == pytest.approx(np.sqrt(10) * gaps.std(ddof=1))
    assert stats.t.sf(found.behind / found.error, 9) < 0.005
    assert (found.value, found.kept, found.dropped_after) == (None, False, 1)
    usual = [Trial(Candidate(AWARE), scores, rankers=[ranker]) for scores in (bad, good)]
    cross_validation._drop_behind(usual, 0, data, weights, seen, 1)
    assert all(trial.is_open for trial in usual)
    one = np.arange(30) == 0
    cross_validation._drop_behind(usual, 1, data, weights, one, 1)  # one query has no standard error
    assert all(trial.is_open for trial in usual)


def test_a_dropped_candidate_is_reported(log, monkeypatch):
    data, clicks, rho = log
    monkeypatch.setattr(cross_validation, "_DROP_CONFIDENCE", 1e-6)  # all that are behind at all
    found = fit_from_clicks(data, clicks, rho, exam=EXAM, ranker=quick(), folds=3, seed=1)
    dropped = [each for each in found.trials if each.dropped_after is not None]
    assert dropped
    for each in dropped:
        assert not each.kept
        assert each.plain()["dropped_after"] == each.dropped_after < 3
        assert each.plain()["behind"] > 0
        assert f"{each.name} was worse by" in found.why
        assert each.status in found.why


def test_queries_without_sessions_are_left_out():
    data, clicks, rho = logged(20, sessions=12)
    assert (clicks.sessions == 0).any()
    pool = join([examine(data, Evidence(clicks, rho, EXAM))])
    assert pool.data.n_queries == (clicks.sessions > 0).sum()
    two = join([examine(data, Evidence(clicks, rho, EXAM))] * 2)
    assert two.data.n_queries == 2 * pool.data.n_queries
    np.testing.assert_array_equal(two.seen.clicks, np.tile(pool.seen.clicks, 2))


# All of it -----------------------------------------------------------------------------------------------------------


def test_auto_says_what_it_chose_and_why(log):
    data, clicks, rho = log
    ranker = quick()
    found = cr.fit_from_clicks(data, clicks, rho, exam=EXAM, ranker=ranker, seed=1)
    assert isinstance(found, FitReport)
    assert not hasattr(ranker, "model_")
    assert len(found.trials) == 7
    kept = [each for each in found.trials if each.kept]
    best = min(kept, key=lambda each: each.behind)
    assert best.behind == 0.0
    assert best.value == max(each.value for each in found.trials if not each.status)
    assert found.estimator == best.estimator
    assert found.about["kept"] == [each.name for each in kept]
    assert found.why.startswith(f"Cross-validation with 5 folds over 30 queries: of 7 candidates, {best.name} was best")
    assert all(each.name in found.why for each in found.trials)
    assert found.metric == "dcg@5"
    assert found.relevance.values.shape == (data.n_docs,)
    assert found.ranker.get_params() == ranker.get_params() | {"seed": found.ranker.seed}
    assert found.ranker.history_[0]["epoch"] == 1
    assert found.ranker.feature_importances_.sum() == pytest.approx(1.0)


def test_one_seed_gives_one_ranker_whatever_the_threads(log, tmp_path):
    data, clicks, rho = log
    one, other = (
        fit_from_clicks(data, clicks, rho, exam=EXAM, ranker=quick(threads=threads), folds=3, seed=np.int64(4)).ranker
        for threads in (1, 2)
    )
    np.testing.assert_array_equal(one.model_.coefficients, other.model_.coefficients)
    one.save(tmp_path / "ranker")
    np.testing.assert_array_equal(Ranker.load(tmp_path / "ranker").predict(data), other.predict(data))
    drawn = fit_from_clicks(data, clicks, rho, exam=EXAM, ranker=quick(), folds=3, seed=np.random.default_rng(0)).ranker
    assert not np.array_equal(drawn.model_.coefficients, one.model_.coefficients)


def test_logged_propensities_and_the_remembered_curve_will_do(log):
    """Documents that were never shown have no logged propensity, but neither would they have a correction."""
    data, clicks, rho = log
    one = fit_from_clicks(data, clicks, ranker=quick(), folds=2).ranker.model_.coefficients
    other = fit_from_clicks(data, clicks, rho, exam=EXAM, ranker=quick(), folds=2).ranker.model_.coefficients
    np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("estimator", ["policy-aware", "direct", "doubly-robust", "shrinkage"])
def test_an_estimator_by_name(log, estimator):
    data, clicks, rho = log
    found = fit_from_clicks(data, clicks, rho, exam=EXAM, estimator=estimator, ranker=quick(), folds=2)
    assert [each.estimator for each in found.trials] == [estimator]
    assert f"{estimator} only" in found.why
    assert "Cross-validation with 2 folds over 30 queries" in found.why


def test_without_folds_the_validation_part_stops(log):
    data, clicks, rho = log
    held_out = logged(12, seed=1)
    found = fit_from_clicks(
        data, clicks, rho, validation=held_out, exam=EXAM, estimator="policy-aware", ranker=quick(), folds=None
    )
    other, counts, other_rho = held_out
    validation = (other, estimators.policy_aware(counts, other_rho))
    plain = quick().fit(data, estimators.policy_aware(clicks, rho), validation=validation)
    np.testing.assert_allclose(found.ranker.model_.coefficients, plain.model_.coefficients, rtol=1e-10)
    relevance = estimators.fit_relevance(data, clicks, rho, exam=EXAM, seed=0)
    direct = fit_from_clicks(
        data, clicks, rho, validation=held_out, exam=EXAM, estimator="direct", ranker=quick(), folds=None
    )
    weights = estimators.shrinkage(
        counts, other_rho, direct.relevance.predict(other), exam=EXAM,
        strength=estimators.best_strength(clicks, rho, direct.relevance, exam=EXAM),
    )  # fmt: skip
    expected = quick().fit(data, estimators.direct(clicks, direct.relevance), validation=(other, weights))
    np.testing.assert_allclose(direct.ranker.model_.coefficients, expected.model_.coefficients, rtol=1e-10)
    assert relevance.error == pytest.approx(direct.relevance.error, rel=0.5)


def test_validation_queries_are_learned_from_too(log):
    data, clicks, rho = log
    found = fit_from_clicks(
        data, clicks, rho, validation=logged(12, seed=1), exam=EXAM, estimator="direct", ranker=quick(), folds=2
    )
    assert "42 queries" in found.why


def test_a_validation_part_that_nobody_clicked_in(log):
    data, clicks, rho = log
    other, counts, other_rho = logged(12, seed=1)
    silent = replace(counts, clicks=np.zeros_like(counts.clicks))
    for folds in (None, 2):
        found = fit_from_clicks(
            data, clicks, rho, validation=(other, silent, other_rho), exam=EXAM, estimator="shrinkage", ranker=quick(),
            folds=folds,
        )  # fmt: skip
        assert np.isfinite(found.ranker.predict(data)).all()


def test_trust_bias_is_taken_off():
    """Alpha and beta of a click model with trust: what auto learns from is what the affine estimator would give."""
    data = small_data(20, seed=2)
    scores, model = data.features[:, 0].astype(float), trust_bias(5)
    clicks = simulate(data, scores, POLICY, EXAM, sessions=20_000, seed=0, click_model=model)
    alpha, beta = model.affine(EXAM, 5)
    rho = POLICY.propensity(scores, data.offsets, Examination(alpha))
    pool = examine(data, Evidence(clicks, rho, alpha, beta=beta))
    weights = Candidate(ESTIMATORS["policy-aware"]).weigh(pool.seen, np.zeros(0), 1.0)
    shown = clicks.by_document(clicks.impressions) > 0
    realised = estimators.affine(clicks, alpha, beta)
    assert pool.seen.clicks.sum() < 0.8 * clicks.n_clicks
    assert weights[~shown].min(initial=1.0) > 0.0
    assert np.corrcoef(weights[shown], realised[shown])[0, 1] > 0.9
    found = fit_from_clicks(data, clicks, rho, exam=alpha, beta=beta, ranker=quick(), folds=2)
    assert len([each for each in found.trials if not each.failure]) == 7


def test_few_clicks_are_enough():
    """With 300 sessions auto ranks better than policy-aware weights do: ten draws, and a win in eight at least."""
    test, wins, ahead = small_data(200, seed=9), 0, 0.0
    for seed in range(10):
        data, clicks, rho = logged(40, sessions=300, seed=seed)
        rankers = (
            fit_from_clicks(data, clicks, rho, exam=EXAM, ranker=quick(max_epochs=20)).ranker,
            quick(max_epochs=20).fit(data, estimators.policy_aware(clicks, rho)),
        )
        auto, plain = (
            evaluation.evaluate(ranker.predict(test), test, 3, metrics=["dcg@5"])["dcg@5"] for ranker in rankers
        )
        wins += auto > plain
        ahead += (auto - plain) / 10
    assert wins >= 8
    assert ahead > 0.1


@pytest.mark.parametrize(("model", "package"), [("lambdamart", "lightgbm"), ("mlp", "torch")])
def test_other_models_learn_again_with_one_estimator(log, model, package):
    pytest.importorskip(package)
    data, clicks, rho = log
    ranker = Ranker(k=5, model=model, max_epochs=3, threads=1)
    found = fit_from_clicks(data, clicks, rho, exam=EXAM, ranker=ranker, folds=2)
    assert found.ranker.kind_ == model
    assert [each.kept for each in found.trials].count(True) == 1
    assert len(found.about["kept"]) == 1
    assert f"fitted again on all clicks with {found.about['kept'][0]}" in found.why
    assert found.ranker.max_epochs == 3
    assert np.isfinite(found.ranker.predict(data)).all()


@pytest.mark.statistical
def test_logs_of_two_policies_weigh_as_their_sessions():
    """Two policies that rank the other way round: rho is the mean over sessions, and weights are right on average.

    400,000 sessions: the mean over the 200 documents that both policies show of c / rho less P(click | examined) has a
    standard error below 0.002, so that 0.015 is never reached by chance; over impressions it would be off by 0.2.
    """
    data = small_data(10)
    scores = data.features[:, 0].astype(float)
    logs = [
        simulate(data, sign * scores, POLICY, EXAM, sessions=200_000, seed=seed, policy_name=name)
        for sign, seed, name in ((1.0, 0, "one"), (-1.0, 1, "other"))
    ]
    both = ClickCounts.concat(logs)
    known = sum(np.repeat(log.sessions, 20) * POLICY.propensity(sign * scores, data.offsets, EXAM)
                for log, sign in zip(logs, (1.0, -1.0), strict=True)) / np.repeat(both.sessions, 20)  # fmt: skip
    chance = np.where(data.labels > 3, 1.0, 0.1)
    nameless = ClickCounts.concat([replace(log, policy_names=(), policies=None, policy_sessions=None) for log in logs])
    no_curve = replace(both, examination=None)
    for log in (both, nameless, no_curve):
        seen = examinations(log, None)
        assert np.abs(seen.rho / known - 1.0).max() < 0.1
        weights = Candidate(ESTIMATORS["policy-aware"]).weigh(seen, np.zeros(0), 1.0) / seen.sessions
        assert abs((weights - chance).mean()) < 0.015
    with pytest.raises(CounterrankError, match=r"was logged with propensities .* would be biased"):
        examinations(replace(nameless, examination=None), None)


BAD = [
    ({"estimator": "best"}, "estimator='best'"),
    ({"estimator": "direct", "tau": 0.1}, "tau=0.1: direct has no tau, a hyperparameter of auto, doubly-robust"),
    ({"estimator": "direct", "strength": 1}, "strength=1: direct has no strength, a hyperparameter of auto, shrinkage"),
    ({"estimator": "shrinkage", "clip": 3}, "clip=3: shrinkage has no clip, a hyperparameter of policy-aware"),
    ({"tau": 2}, "tau=2: expected a number from 0 to 1"),
    ({"strength": -1}, "strength=-1"),
    ({"clip": 0}, "clip=0"),
    ({"folds": 1}, "folds=1: expected a whole number"),
    ({"folds": True}, "folds=True"),
    ({"folds": None}, "folds=None: nothing to choose by"),
    ({"folds": None, "estimator": "direct"}, "folds=None: nothing to stop by"),
    ({"validation": 3}, "validation: expected"),
    ({"ranker": "linear"}, "ranker: str; expected Ranker"),
    ({"model": "forest"}, "model"),
    ({"rho": [0.5]}, "rho"),
    ({"exam": [2.0]}, "exam"),
    ({"seed": -1}, "seed"),
]


@pytest.mark.parametrize(("wrong", "message"), BAD)
def test_what_is_wrong_is_named(log, wrong, message):
    data, clicks, rho = log
    with pytest.raises(CounterrankError, match=message.replace("(", r"\(")):
        fit_from_clicks(data, clicks, wrong.pop("rho", rho), **wrong)


def test_too_little_to_learn_from(log):
    data, clicks, rho = log
    other = cr.make_ranking_data("yahoo", n_queries=3, seed=0)
    with pytest.raises(CounterrankError, match="clicks"):
        fit_from_clicks(other, clicks, None)
    few = data.subset([0, 1])
    scores = few.features[:, 0].astype(float)
    with pytest.raises(CounterrankError, match="sessions of 2 queries; expected at least three"):
        fit_from_clicks(few, simulate(few, scores, POLICY, EXAM, sessions=50, seed=0), exam=EXAM)
    with pytest.raises(CounterrankError, match="validation: the queries of data once more"):
        fit_from_clicks(data, clicks, rho, validation=(data, clicks, rho), exam=EXAM)
    with pytest.raises(CounterrankError, match="exam: 0 at rank 3, where there are clicks"):
        fit_from_clicks(data, clicks, rho, exam=[1.0, 0.5])
    with pytest.warns(UserWarning, match="computed from different curves"):
        examine(data, Evidence(clicks, rho, [1.0] * 5))
    nobody = replace(clicks, clicks=np.zeros_like(clicks.clicks))
    with pytest.raises(CounterrankError, match="clicks: none among 3,000 sessions"):
        fit_from_clicks(data, nobody, rho, exam=EXAM, ranker=quick())
    narrow = RankingData(data.features[:40, :3], [0, 20, 40], data.labels[:40], query_ids=["a", "b"])
    own = simulate(narrow, np.zeros(40), POLICY, EXAM, sessions=50, seed=0)
    with pytest.raises(CounterrankError, match="features"):
        fit_from_clicks(data, clicks, rho, validation=(narrow, own, None), exam=EXAM)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**31), st.integers(3, 6), st.integers(2, 5))
def test_any_small_log_gives_a_ranker(seed, queries, folds):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 4, queries)
    n = int(lengths.sum())
    features = rng.integers(0, 3, (n, 2)).astype(float)
    labels = np.append(4.0, rng.integers(0, 2, n - 1) * 4.0)
    data = RankingData(features, np.concatenate(([0], np.cumsum(lengths))), labels)
    clicks = simulate(data, rng.random(n), POLICY, EXAM, sessions=60, seed=seed)
    found = None
    assume(clicks.n_clicks)
    with contextlib.suppress(NothingToLearnError):  # documents of a query may be alike, or nobody may have clicked
        found = fit_from_clicks(data, clicks, ranker=quick(), folds=folds, seed=seed)
    assert found is None or np.isfinite(found.ranker.predict(data)).all()


def one_varied_query(n_queries=6):
    """Queries of four documents with their clicks; features vary within the first query alone."""
    rng = np.random.default_rng(0)
    features = np.repeat(rng.random((n_queries, 2)), 4, axis=0)
    features[:4, 1] = np.arange(4.0)
    data = RankingData(features, np.arange(0, 4 * n_queries + 1, 4), np.tile([4.0, 0.0, 0.0, 4.0], n_queries))
    return data, simulate(data, rng.random(data.n_docs), POLICY, EXAM, sessions=3000, seed=1)


@pytest.mark.parametrize("folds", [2, 5])
@pytest.mark.parametrize("model", ["linear", "lambdamart"])
def test_a_fold_without_varying_features_is_no_error_where_others_have_some(model, folds):
    """Whichever fold holds the only query whose features vary, the other queries cannot give a ranker for it."""
    if model == "lambdamart":
        pytest.importorskip("lightgbm")
    data, clicks = one_varied_query()
    own = {"params": {"min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 0.0}} if model == "lambdamart" else {}
    found = fit_from_clicks(data, clicks, ranker=cr.Ranker(k=4, model=model, max_epochs=5, **own), folds=folds)
    assert found.ranker.constant_features_.tolist() == [0]
    scores = found.ranker.predict(data)
    assert len(set(scores[:4])) > 1
    assert all(len(set(scores[4 * q : 4 * q + 4])) == 1 for q in range(1, data.n_queries))


def test_no_varying_feature_in_any_query_with_sessions_is_an_error():
    data, clicks = one_varied_query()
    still = RankingData(np.repeat(data.features[::4], 4, axis=0), data.offsets, data.labels, list("abcdef"))
    same = simulate(still, np.arange(still.n_docs), POLICY, EXAM, sessions=3000, seed=1)
    with pytest.raises(ConstantFeaturesError, match=r"none of the features .* varies within any query"):
        fit_from_clicks(still, same, ranker=quick())
    validation = (data, clicks)  # the query that varies is in another part, which counts too
    assert fit_from_clicks(still, same, validation=validation, ranker=quick()).ranker.constant_features_.tolist() == [0]
