"""Users fitted to the log: which model is used, where ranks are not linked, both parts together, and intervals."""

import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import counterrank as cr
from counterrank import Evidence, estimators, evaluation, examination, policies, simulation
from counterrank.clicks.examination import lines_of
from counterrank.clicks.simulation import trust_bias
from counterrank.common.errors import CounterrankError
from counterrank.estimators import users_from_log
from counterrank.estimators.users_from_log import between, describe_users, stacked
from counterrank.evaluation.fitted_users import without_queries
from counterrank.training import fit_ranker

K = 3
THETA = [1.0, 0.5, 0.3]
MODEL = trust_bias(k=K, strength=1.0, relevant=0.95, other=0.05)
USERS = examination.Affine(*MODEL.affine(THETA, K))
FULL = [cr.make_ranking_data("yahoo", n_queries=n, seed=seed) for seed, n in enumerate((40, 20))]
DATA, OTHER = (cr.RankingData(full.features[:, :5], full.offsets, full.labels) for full in FULL)
SCORES, OTHER_SCORES = (data.features[:, 0].astype(float) for data in (DATA, OTHER))
QUICK = cr.Ranker(k=K, max_epochs=2, learning_rate=1.0, threads=1, seed=0)
pytestmark = pytest.mark.filterwarnings("ignore")


def log_of(data, scores, policy=None, model=MODEL, sessions=1000, **more):
    clicks = simulation.simulate(
        data, scores, policy or policies.UniformInsert(K), THETA, sessions=sessions, seed=0, relevance_threshold=2,
        click_model=model, **{"propensities": False} | more,
    )  # fmt: skip
    return replace(clicks, examination=None)


LOG, MORE = log_of(DATA, SCORES), log_of(OTHER, OTHER_SCORES)
FIXED = log_of(DATA, SCORES, policies.ReplaceLast(K))


@pytest.fixture
def fitted(monkeypatch):
    """An affine fit that is as it is told to be, and the counts that it was made from."""
    asked = []

    def fit(counts, **options):
        asked.append((counts, options))
        found = examination.Affine([0.8, 0.4, 0.3], [0.2, 0.05, 0.0])
        found.test = SimpleNamespace(statistic=fit.statistic, freedom=2, p_value=fit.p_value)
        return found

    fit.asked, fit.statistic, fit.p_value = asked, 40.0, 1e-8
    monkeypatch.setattr(users_from_log, "_affine", fit)
    return fit


def test_sure_trust_bias_is_a_mean_of_both_fits(fitted):
    found = estimators.learn_users(LOG)
    assert (found.kind, found.weight, found.p_value) == ("affine", 0.95, 1e-8)
    curve = found.fits["position-based"].values
    slope, start = np.array([1.0, 0.5, 0.375]), np.array([0.0, -0.05, -0.075])  # of 0.2 + 0.8 r at rank 1
    assert found.users == examination.Affine(0.95 * slope + 0.05 * curve, 0.95 * start)
    assert found.sentence.startswith("users fitted to the log: affine, alpha ")
    assert "p = 1e-08" in found.sentence


def test_the_position_based_fit_is_used_where_trust_bias_is_not_sure(fitted):
    fitted.statistic, fitted.p_value = 6.0, 0.05
    found = estimators.learn_users(LOG)
    assert (found.kind, found.weight, found.base) == ("position-based", 0.0, None)
    assert found.users is found.fits["position-based"]
    assert "no significant evidence of trust bias, p = 0.05" in found.sentence


def test_the_position_based_fit_is_used_where_trust_bias_is_not_identified(monkeypatch):
    def refuse(counts, **options):
        raise CounterrankError("clicks: too few")

    monkeypatch.setattr(users_from_log, "_affine", refuse)
    found = estimators.learn_users(LOG)
    assert (found.kind, found.p_value, found.refusals) == ("position-based", None, {"affine": "clicks: too few"})
    assert "trust bias cannot be told from this log: clicks: too few" in found.sentence


def test_the_ends_of_the_mean():
    theta, affine = np.array([1.0, 0.5, 0.2]), examination.Affine([0.8, 0.4, 0.3], [0.2, 0.05, 0.0])
    assert between(theta, affine, 1.0) == affine
    assert between(theta, affine, 0.0) == examination.Affine(theta, np.zeros(3))


def test_the_fit_of_a_log():
    found = estimators.learn_users(log_of(DATA, SCORES, sessions=50_000))
    assert found.kind == "affine"
    assert found.users.alpha == pytest.approx(USERS.alpha, abs=0.06)
    assert found.users.beta == pytest.approx(USERS.beta, abs=0.06)


def test_a_log_that_identifies_nothing():
    with pytest.raises(
        CounterrankError, match=r"users: cannot be fitted to this log .*no clicked document was shown at"
    ):
        estimators.learn_users(FIXED)
    with pytest.raises(CounterrankError, match=r"'policy-aware': requires the propensity .* cannot be fitted"):
        fit_ranker(DATA, Evidence(FIXED), ranker=QUICK)
    with pytest.raises(CounterrankError, match=r"^users: cannot be fitted"):
        fit_ranker(DATA, Evidence(FIXED, exam="auto"), ranker=QUICK)
    with pytest.raises(CounterrankError, match=r"rho: None, and the clicks hold no logged .* cannot be fitted"):
        evaluation.estimate(SCORES, DATA, FIXED)
    with pytest.raises(CounterrankError, match=r"^users: cannot be fitted"):
        evaluation.estimate(SCORES, DATA, FIXED, exam="auto")


def test_both_parts_are_fitted_at_once(fitted):
    report = cr.fit_from_clicks(DATA, LOG, validation=(OTHER, MORE), ranker=QUICK, folds=2)
    ((counts, _),) = fitted.asked
    assert (counts.n_sessions, counts.n_clicks) == (2000, LOG.n_clicks + MORE.n_clicks)
    assert report.users.kind == "affine"
    assert report.ranker.provenance_["users"] == report.users.describe() == describe_users(report.users)
    by_hand = cr.fit_from_clicks(
        DATA, LOG, validation=(OTHER, MORE), exam=report.users.users, ranker=QUICK, folds=2
    ).ranker
    np.testing.assert_array_equal(report.ranker.predict(DATA), by_hand.predict(DATA))


def test_what_is_known_is_not_fitted(fitted):
    rho = policies.UniformInsert(K).propensity(SCORES, DATA.offsets, THETA)
    remembered = replace(LOG, examination=examination.Examination(THETA))
    logged = log_of(DATA, SCORES, propensities=True)
    for evidence in (Evidence(LOG, rho), Evidence(LOG, exam=THETA), Evidence(remembered), Evidence(logged)):
        assert not evidence.fits_users
        by_curve = evidence.rho is None and evidence.clicks.propensities is None
        estimator = "policy-oblivious" if by_curve else "policy-aware"
        assert fit_ranker(DATA, evidence, estimator, QUICK).users is None
    assert fit_ranker(DATA, Evidence(LOG), "naive", QUICK).users is None
    assert not fitted.asked
    assert fit_ranker(DATA, Evidence(logged, exam="auto"), ranker=QUICK).users is not None
    named = Evidence(LOG, policy=policies.UniformInsert(K), scores=SCORES)
    assert fit_ranker(DATA, named, ranker=QUICK).ranker.provenance_["estimator"]["propensities"] == "policy"


def test_features_link_ranks_where_asked(fitted):
    found = fit_ranker(DATA, Evidence(FIXED, exam="features"), ranker=QUICK).users
    assert (found.kind, found.weight, found.method) == ("affine", 1.0, "features")
    assert fitted.asked[-1][1] == {"k": None, "method": "features", "data": DATA}
    with pytest.raises(CounterrankError, match="users='features': requires data"):
        estimators.learn_users(FIXED, method="features")
    with pytest.raises(CounterrankError, match="users='fast': expected one of 'auto', 'features'"):
        estimators.learn_users(LOG, method="fast")


def test_counts_of_several_parts():
    both = stacked([LOG, MORE])
    assert both.n_docs == DATA.n_docs + OTHER.n_docs
    np.testing.assert_array_equal(both.by_rank(both.clicks), LOG.by_rank(LOG.clicks) + MORE.by_rank(MORE.clicks))
    np.testing.assert_array_equal(both.by_document(both.clicks)[DATA.n_docs :], MORE.by_document(MORE.clicks))


@pytest.mark.parametrize("method", ["ips", "dr"])
def test_intervals_include_the_error_of_the_fit(monkeypatch, method):
    def refuse(counts, **options):
        raise CounterrankError("clicks: too few")

    monkeypatch.setattr(users_from_log, "_affine", refuse)
    settings = {"metrics": ["dcg@3"], "method": method}
    found = evaluation.estimate(SCORES, DATA, LOG, **settings)["dcg@3"]
    users = estimators.learn_users(LOG)
    as_given = evaluation.estimate(SCORES, DATA, LOG, exam=users.examination, **settings)["dcg@3"]
    assert found.users == users.sentence
    assert as_given.users == ""
    for name in ("ips", "self_normalized"):
        assert getattr(found, name) == getattr(as_given, name)
        (low, high), (inner, upper) = (getattr(each, f"{name}_interval") for each in (found, as_given))
        assert low <= inner < upper <= high
    assert found.ips_interval != as_given.ips_interval
    again = evaluation.estimate(SCORES, DATA, LOG, exam=users, **settings)["dcg@3"]
    assert again.ips_interval == found.ips_interval
    difference = evaluation.compare(SCORES, -SCORES, DATA, LOG, **settings)["dcg@3"]
    assert difference.users == users.sentence
    assert evaluation.select([SCORES, -SCORES], DATA, LOG, method=method).estimates[0].users == users.sentence


def test_values_that_trust_bias_would_move_out_of_the_interval_are_doubted(fitted):
    fitted.statistic, fitted.p_value = 6.0, 0.05
    with pytest.warns(evaluation.IntervalWarning, match="which this log neither shows nor rules out"):
        found = evaluation.estimate(SCORES, DATA, LOG, metrics=["dcg@3"])["dcg@3"]
    affine = evaluation.estimate(SCORES, DATA, LOG, metrics=["dcg@3"], exam=fitted(LOG))["dcg@3"]
    doubts = [each for each in found.doubts if "with trust bias" in each]
    expected = []
    for word, name in (("ips", "ips"), ("self-normalised", "self_normalized")):
        (low, high), value = getattr(found, f"{name}_interval"), getattr(affine, name)
        if not low <= value <= high:
            expected.append(f"{word} would be {value:.4g} with trust bias")
    assert expected
    assert [each.partition(", which")[0] for each in doubts] == expected
    assert all("(p = 0.05)" in each for each in doubts)
    fitted.statistic, fitted.p_value = 40.0, 1e-8  # affine users are used
    found = evaluation.estimate(SCORES, DATA, LOG, metrics=["dcg@3"])["dcg@3"]
    assert not any("would be" in each for each in found.doubts)


@pytest.mark.statistical
def test_coverage_with_fitted_users():
    """40 logs of position-based users; intervals at 95 % miss the truth 8 times or more with probability 0.1 %."""
    pool = cr.make_ranking_data("yahoo", n_queries=1000, seed=5)
    scores = np.random.default_rng(0).standard_normal(1000 * 10)
    labels = pool.labels[: 1000 * 10]
    relevance = np.where(labels >= 2, 0.9, 0.2).reshape(1000, 10)
    gains = evaluation.rank_values("dcg@3", 10)[np.argsort(np.argsort(-scores.reshape(1000, 10), axis=1), axis=1)]
    truth = (gains * relevance).sum(axis=1).mean()
    covered = 0
    for seed in range(40):
        chosen = np.random.default_rng([seed, 1]).integers(1000, size=80)
        rows = (chosen[:, None] * 10 + np.arange(10)).ravel()
        data = cr.RankingData(np.zeros((800, 1)), np.arange(81) * 10, labels[rows])
        clicks = replace(
            simulation.simulate(
                data, np.arange(800.0), policies.UniformInsert(K), THETA, sessions=8000, seed=seed,
                relevance_threshold=2, click_model=simulation.ClickModel(0.9, 0.2), propensities=False, threads=1,
            ), examination=None,
        )  # fmt: skip
        found = evaluation.estimate(scores[rows], data, clicks, metrics=["dcg@3"], replicates=500, threads=1)["dcg@3"]
        covered += found.ips_interval[0] <= truth <= found.ips_interval[1]
    assert covered >= 33


def test_users_that_were_found_are_saved_as_their_model(tmp_path, fitted):
    for fitted.p_value, kind in ((1e-8, "affine"), (0.5, "position-based")):
        found = estimators.learn_users(LOG)
        assert found.kind == kind
        found.save(tmp_path / "users.json")
        again = examination.load(tmp_path / "users.json")
        for own, curve in zip(lines_of(again), lines_of(found), strict=True):
            assert (own is None) == (curve is None)
            if own is not None:
                np.testing.assert_allclose(own.curve(K), curve.curve(K), rtol=1e-12)
        by_file, by_model = (
            fit_ranker(DATA, Evidence(LOG, exam=users), ranker=QUICK).ranker.predict(DATA) for users in (again, found)
        )
        np.testing.assert_allclose(by_file, by_model, rtol=1e-9)


def test_an_estimate_of_these_very_clicks_is_no_known_user_model():
    """Its error is left out of intervals, which is said; users that were fitted to other clicks are known."""
    own = examination.estimate(LOG)
    for call in (
        lambda users, log: evaluation.estimate(SCORES, DATA, log, metrics=["dcg@3"], exam=users)["dcg@3"],
        lambda users, log: evaluation.compare(SCORES, -SCORES, DATA, log, metrics=["dcg@3"], exam=users)["dcg@3"],
    ):
        with pytest.warns(evaluation.IntervalWarning, match="users were fitted to these very clicks and are taken as"):
            assert any("these very clicks" in doubt for doubt in call(own, LOG).doubts)
        again = replace(LOG, clicks=LOG.clicks.copy())  # an equal log that was read once more
        assert any("these very clicks" in doubt for doubt in call(own, again).doubts)
        other = log_of(DATA, SCORES, sessions=1500)
        assert not any("these very clicks" in doubt for doubt in call(own, other).doubts)
        assert not any("these very clicks" in doubt for doubt in call(own.examination, LOG).doubts)


def test_users_found_in_other_clicks_are_known(fitted):
    other = log_of(DATA, SCORES, sessions=1500)
    users = estimators.learn_users(other)
    assert users.fitted_to(other)
    assert not users.fitted_to(LOG)
    found, as_known = (
        evaluation.estimate(SCORES, DATA, LOG, metrics=["dcg@3"], exam=exam)["dcg@3"] for exam in (users, users.users)
    )
    assert found.ips_interval == as_known.ips_interval
    both = estimators.learn_users([LOG, MORE])
    assert both.fitted_to(LOG)
    assert both.fitted_to(MORE)


def test_fits_by_features_start_from_the_first_one(monkeypatch):
    """The fit without a group of queries is that from scratch, in a fraction of the steps."""
    log = log_of(DATA, SCORES, policies.ReplaceLast(K), sessions=40_000)
    found = estimators.learn_users(log, method="features", data=DATA)
    rest = without_queries(log, np.arange(DATA.n_queries) % 10 == 0)
    scratch = estimators.learn_users(rest, method="features", data=DATA)
    tried = []
    monkeypatch.setattr(users_from_log, "_affine", lambda *args, **more: tried.append(args))
    again = users_from_log.refit(found, rest, DATA)
    assert not tried
    np.testing.assert_allclose(again.users.alpha, scratch.users.alpha, atol=1e-6)
    np.testing.assert_allclose(again.users.beta, scratch.users.beta, atol=1e-6)


def test_propensities_of_another_model_are_refused():
    with pytest.raises(CounterrankError, match="rho: given with exam='auto', and holds another user model"):
        evaluation.estimate(SCORES, DATA, LOG, np.ones(DATA.n_docs), exam="auto")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        users = estimators.learn_users(LOG)
    rho = policies.UniformInsert(K).propensity(SCORES, DATA.offsets, users.examination)
    found = evaluation.estimate(SCORES, DATA, LOG, rho, ["dcg@3"], exam=users)["dcg@3"]
    assert found.propensities == "given"
    assert found.users == users.sentence
