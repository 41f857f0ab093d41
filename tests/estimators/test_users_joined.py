"""User models together: browsing and dependent users in every estimator, contexts and files fitted to a log.

A browsing model that is equal for all last clicks is the position-based one, and so is a dependent click model in which
everybody goes on, with a curve of 1: all that takes them gives the same numbers, or says why it does not take them.
"""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import counterrank as cr
from counterrank import Evidence, estimators, evaluation, examination, policies, simulation
from counterrank.clicks.counts import ClickCounts
from counterrank.common.errors import CounterrankError, ExaminationWarning
from counterrank.estimators import users_from_log
from counterrank.estimators.users_from_log import describe_users, refit, stacked
from counterrank.training import fit_ranker

K = 3
THETA = [1.0, 0.5, 0.3]
LABELS = np.arange(120) * 7 % 5
DATA = cr.RankingData(np.column_stack((LABELS, np.sin(np.arange(120.0)))), np.arange(0, 121, 6), labels=LABELS)
SCORES = np.cos(np.arange(120.0))
POLICY = policies.UniformInsert(K)
QUICK = cr.Ranker(k=K, max_epochs=2, learning_rate=1.0, threads=1, seed=0)
pytestmark = pytest.mark.filterwarnings("ignore")


def log_of(exam, sessions=4000, seed=0, **more):
    clicks = simulation.simulate(DATA, SCORES, POLICY, exam, sessions=sessions, seed=seed, **more)
    return replace(clicks, examination=None, propensities=None)


CONSTANT = examination.Browsing([[1.0], [0.5, 0.5], [0.3, 0.3, 0.3]])
PERSISTENT = examination.Dependent([1.0, 1.0])
PAIRS = {"browsing": (CONSTANT, THETA), "dependent": (PERSISTENT, [1.0, 1.0, 1.0])}
LOGS = {name: log_of(curve, displays=True, last_clicks=True) for name, (_, curve) in PAIRS.items()}
SEQUENTIAL = examination.Browsing([[1.0], [0.5, 0.9], [0.2, 0.4, 0.7]])


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("estimator", ["policy-aware", "policy-oblivious", "affine", "naive"])
def test_weights_are_those_of_the_curve(name, estimator):
    users, curve = PAIRS[name]
    chosen = estimators.named_estimator(estimator)
    weights = [
        chosen.weigh(DATA, Evidence(LOGS[name], exam=exam)) for exam in (users, examination.Affine(curve, [0.0] * K))
    ]
    np.testing.assert_allclose(weights[0], weights[1], rtol=1e-6)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("estimator", ["direct", "doubly-robust", "shrinkage", "auto"])
def test_rankers_are_those_of_the_curve(name, estimator):
    users, curve = PAIRS[name]
    rankers = [
        fit_ranker(DATA, Evidence(LOGS[name], exam=exam), estimator, QUICK, folds=2).ranker for exam in (users, curve)
    ]
    np.testing.assert_allclose(*(each.predict(DATA) for each in rankers), rtol=1e-4, atol=1e-6)
    assert rankers[0].provenance_["users"]["model"] == name


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("method", ["ips", "dr"])
def test_estimates_are_those_of_the_curve(name, method):
    users, curve = PAIRS[name]
    logs = LOGS[name], replace(LOGS[name], displays=None)  # without pages, ranks count as independent in both
    settings = {"metrics": ["dcg@3"], "method": method}
    found, expected = (
        evaluation.estimate(SCORES, DATA, log, exam=exam, **settings)["dcg@3"]
        for log, exam in ((logs[0], users), (logs[method == "dr"], curve))
    )
    assert found.ips == pytest.approx(expected.ips, rel=1e-6)
    assert found.ips_interval == pytest.approx(expected.ips_interval, rel=1e-6)
    evaluation.compare(SCORES, -SCORES, DATA, logs[0], exam=users, **settings)
    best = [evaluation.select([SCORES, -SCORES], DATA, logs[0], exam=e, method=method).index for e in (users, curve)]
    assert best[0] == best[1]


@pytest.mark.parametrize("name", PAIRS)
def test_click_rates_are_those_of_the_curve(name):
    users, curve = PAIRS[name]
    found, expected = (cr.click_rates(LOGS[name], exam=exam) for exam in (users, curve))
    np.testing.assert_allclose(found.rate, expected.rate, rtol=1e-6)
    np.testing.assert_allclose(found.rate_low, expected.rate_low, rtol=1e-6)


def test_oblivious_weights_and_estimates_of_a_slow_sum():
    """Clicks over the mean examination of each document at each rank, by the last click above."""
    log = log_of(SEQUENTIAL, 2000, displays=True, last_clicks=True)
    rows, seen = log.last_clicks, {}
    for doc, rank, above, shown in zip(rows.docs, rows.ranks, rows.above, rows.impressions, strict=True):
        cell = seen.setdefault((doc, rank), [0, 0.0])
        cell[0] += shown
        cell[1] += shown * SEQUENTIAL.gamma[rank - 1][above]
    oblivious, times = np.zeros(DATA.n_docs), np.zeros(DATA.n_docs)
    for doc, rank, clicked in zip(log.docs, log.ranks, log.clicks, strict=True):
        shown, examined = seen[doc, rank]
        oblivious[doc] += clicked * shown / examined
        times[doc] += examined
    np.testing.assert_allclose(estimators.policy_oblivious(log, SEQUENTIAL), oblivious)
    n = np.repeat(log.sessions, np.diff(log.offsets))
    total = log.by_document(log.clicks)
    aware = np.divide(total * n, times, out=np.zeros(len(n)), where=times > 0)
    np.testing.assert_allclose(estimators.policy_aware(log, exam=SEQUENTIAL), aware)
    np.testing.assert_allclose(estimators.affine(log, SEQUENTIAL), aware)
    order = np.empty(DATA.n_docs)
    for first in DATA.offsets[:-1]:
        order[first + np.argsort(-SCORES[first : first + 6], kind="stable")] = 1 + np.arange(6)
    value = float((aware * np.where(order <= K, 1 / np.log2(1 + order), 0.0)).sum() / log.n_sessions)
    found = evaluation.estimate(SCORES, DATA, log, exam=SEQUENTIAL, metrics=["dcg@3"])["dcg@3"]
    assert found.ips == pytest.approx(value)


def test_importance_weights_with_one_policy():
    """Of the dependent click model, propensities of a policy are P(shown), not those of the average curve."""
    users = examination.Dependent([0.4, 0.7])
    log = log_of(users, 2000, displays=True, last_clicks=True)
    shown = POLICY.propensity(SCORES, DATA.offsets, users.shown)
    evidence = Evidence(log, exam=users, policy=POLICY, scores=SCORES)
    np.testing.assert_allclose(evidence.propensities.by_document, shown)
    weights = log.by_document(log.clicks * users.importance_weights(log) / shown[log.docs])
    np.testing.assert_allclose(estimators.named_estimator("policy-aware").weigh(DATA, evidence), weights)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda log, users: estimators.rerank(log, users), "does not say what they examined on a page"),
        (lambda log, users: estimators.affine(log, users, None, POLICY, SCORES), "a policy does not say what"),
        (lambda log, users: Evidence(log, exam=users).with_display_frequencies(), "expected no display frequencies"),
        (
            lambda log, users: evaluation.estimate(SCORES, DATA, log, np.ones(DATA.n_docs), exam=users),
            "what the log shows was examined",
        ),
        (
            lambda log, users: estimators.policy_oblivious(replace(log, last_clicks=None, displays=None), users),
            "count the log with (displays=True and )?last_clicks=True",
        ),
    ],
)
@pytest.mark.parametrize("name", PAIRS)
def test_what_they_cannot_be_used_for(name, use, message):
    with pytest.raises(CounterrankError, match=message):
        use(LOGS[name], PAIRS[name][0])


# contexts

CURVES = {"pc": [1.0, 0.7, 0.5], "phone": [0.8, 0.3, 0.1]}


def by_context(sessions=10_000, seed=0):
    parts = [
        log_of(curve, sessions, seed + i, context=name, policy_name="v1")
        for i, (name, curve) in enumerate(CURVES.items())
    ]
    return ClickCounts.concat(parts)


CONTEXTS = by_context()


def test_curves_of_contexts_are_fitted_together():
    found = estimators.learn_users(CONTEXTS)
    alone = examination.estimate(CONTEXTS)
    assert (found.kind, found.weight) == ("by-context", 0.0)
    np.testing.assert_array_equal(found.users.values, alone.values)
    assert found.sentence.startswith("users fitted to the log: by-context, pc: ")
    assert "; phone: " in found.sentence
    assert found.describe()["model"] == "by-context"
    report = fit_ranker(DATA, Evidence(CONTEXTS), ranker=QUICK)
    assert report.users.kind == "by-context"
    assert report.ranker.provenance_["users"]["alpha"] == {n: v.tolist() for n, v in alone.alpha.items()}


def test_parts_with_contexts_are_fitted_together():
    """As one log of the queries of both, whatever the order in which each part has its contexts."""
    half = DATA.n_docs // 2
    queries = np.arange(DATA.n_queries)
    first, second = (users_from_log_part(CONTEXTS, queries < 10), users_from_log_part(CONTEXTS, queries >= 10))
    both = stacked([first, second])
    assert both.n_docs == 2 * DATA.n_docs
    assert both.context_sessions == CONTEXTS.context_sessions
    assert both.distinct_policies == CONTEXTS.distinct_policies
    assert both.docs.max() >= DATA.n_docs + half
    np.testing.assert_allclose(
        estimators.learn_users([first, second]).users.values, examination.estimate(CONTEXTS).values, rtol=1e-9
    )
    plain = log_of(THETA, 500)
    mixed = stacked([first, plain])
    assert mixed.context_sessions[""] == plain.n_sessions


def users_from_log_part(clicks, kept):
    from counterrank.evaluation.fitted_users import without_queries

    return without_queries(clicks, ~kept)


@pytest.mark.parametrize("method", ["ips", "dr"])
def test_intervals_include_the_error_of_curves_by_context(method):
    settings = {"metrics": ["dcg@3"], "method": method}
    found = evaluation.estimate(SCORES, DATA, CONTEXTS, **settings)["dcg@3"]
    users = estimators.learn_users(CONTEXTS)
    given = evaluation.estimate(SCORES, DATA, CONTEXTS, exam=users.users, **settings)["dcg@3"]
    assert found.users == users.sentence
    assert found.ips == given.ips
    assert found.ips_interval[0] < given.ips_interval[0]
    assert found.ips_interval[1] > given.ips_interval[1]
    again = refit(users, CONTEXTS)
    np.testing.assert_allclose(again.users.values, users.users.values)


def test_contexts_that_nothing_links():
    lone = [log_of(curve, 3000, context=name) for name, curve in CURVES.items()]
    queries = np.arange(DATA.n_queries)
    apart = ClickCounts.concat([users_from_log_part(lone[0], queries < 10), users_from_log_part(lone[1], queries > 9)])
    with pytest.raises(CounterrankError, match=r"users: cannot be fitted to this log \(clicks: no chain of documents"):
        estimators.learn_users(apart)


# files


def test_an_estimated_curve_of_a_file_makes_logged_propensities_stale(tmp_path):
    log = replace(simulation.simulate(DATA, SCORES, POLICY, THETA, sessions=5000, seed=1), examination=None)
    fitted = examination.estimate(log)
    fitted.save(tmp_path / "curve.json")
    curve = examination.load(tmp_path / "curve.json")
    assert curve == fitted.examination
    for exam in (fitted, curve):
        with pytest.warns(ExaminationWarning, match="were computed with another user model"):
            assert Evidence(log, exam=exam).propensity_source == "realised"
    with warnings.catch_warnings():
        warnings.simplefilter("error", ExaminationWarning)
        assert Evidence(log, exam=fitted.examination).propensity_source == "logged"
        again = simulation.simulate(DATA, SCORES, POLICY, curve, sessions=500, seed=1)
        assert Evidence(again).with_remembered_curve().propensity_source == "logged"


def test_models_are_described():
    assert describe_users(SEQUENTIAL)["model"] == "browsing"
    assert describe_users(examination.ByContext(CURVES))["model"] == "by-context"


# like features at different ranks


def test_features_link_ranks_of_a_fixed_order():
    """The fit of documents with like features, of a log in which documents do not move."""
    data = cr.make_ranking_data("yahoo", 400, seed=3)
    data = cr.RankingData(data.features[:, :5], data.offsets, data.labels)
    model = simulation.trust_bias(k=K, strength=1.0, relevant=0.95, other=0.05)
    scores = data.features[:, 0].astype(float)
    log = simulation.simulate(
        data, scores, policies.ReplaceLast(K), THETA, sessions=60_000, seed=0, relevance_threshold=2, click_model=model
    )
    log = replace(log, examination=None, propensities=None)
    found = estimators.learn_users(log, method="features", data=data)
    assert (found.kind, found.method, found.weight) == ("affine", "features", 1.0)
    report = fit_ranker(data, Evidence(log, exam="features"), "policy-aware", QUICK)
    assert report.users.users == found.users
    assert "documents with like features link ranks" in report.users.sentence
    assert users_from_log.describe_users(found)["model"] == "affine"
