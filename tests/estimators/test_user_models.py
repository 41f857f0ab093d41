"""User models: equivalent inputs give the same weights, rankers and estimates; documents without exposure; provenance.

(alpha, beta) and (a alpha, beta + b alpha) are the same users, with relevance (r - b) / a.
"""

import warnings
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import counterrank as cr
from counterrank import Evidence, estimators, evaluation, examination, policies, simulation
from counterrank.clicks.simulation import trust_bias
from counterrank.common.errors import CoverageWarning, ExaminationWarning
from counterrank.estimators import ESTIMATORS, Views
from counterrank.losses.loss_registry import LOSSES
from counterrank.training import fit_ranker

K = 4
THETA = [1.0, 0.5, 0.3, 0.2]
MODEL = trust_bias(k=K, strength=0.8, relevant=0.9, other=0.1)
USERS = examination.Affine(*MODEL.affine(THETA, K))
PAIRS = {
    "as simulated": MODEL.affine(THETA, K),
    "beta below 0": ((2.0 * USERS.alpha).tolist(), (USERS.beta - 0.5 * USERS.alpha).tolist()),
    "beta above 0": ((0.5 * USERS.alpha).tolist(), (USERS.beta + 0.2 * USERS.alpha).tolist()),
}
CURVE = examination.Affine(THETA, [0.0] * K)
CURVES = {"half": ([each / 2 for each in THETA], [0.0] * K)}
FULL = cr.make_ranking_data("yahoo", n_queries=30, seed=0)
DATA = cr.RankingData(FULL.features[:, :5], FULL.offsets, FULL.labels)
SCORES = DATA.features[:, 0].astype(float)
POLICY = policies.UniformInsert(K)
LOG = simulation.simulate(
    DATA, SCORES, POLICY, THETA, sessions=600, seed=0, relevance_threshold=2, click_model=MODEL, displays=True
)  # fmt: skip
QUICK = cr.Ranker(k=K, max_epochs=2, learning_rate=1.0, threads=1, seed=0)
CASES = [(USERS, pair) for pair in PAIRS.values()] + [(CURVE, pair) for pair in CURVES.values()]
NAMES = [*PAIRS, *CURVES]
BY_CLICKS = [name for name, each in ESTIMATORS.items() if each.weigh is not None and "clicks" in each.needs]
pytestmark = pytest.mark.filterwarnings("ignore")


def weigh(name, evidence):
    found = ESTIMATORS[name].weigh(DATA, evidence)
    return found.weights if isinstance(found, Views) else found


def test_pairs_are_the_same_model():
    assert all(examination.Affine(*pair) == USERS for pair in PAIRS.values())
    assert examination.Affine(*CURVES["half"]) == CURVE
    assert min(PAIRS["beta below 0"][1]) < 0.0


@pytest.mark.parametrize("users_and_pair", CASES, ids=NAMES)
@pytest.mark.parametrize("known", ["log", "policy", "rho"])
def test_weights_of_every_estimator(users_and_pair, known):
    users, (alpha, beta) = users_and_pair
    more = {"log": {}, "policy": {"policy": POLICY, "scores": SCORES}, "rho": {}}[known]
    own = dict(more)
    if known == "rho":
        more["rho"] = POLICY.propensity(SCORES, DATA.offsets, users.alpha)
        own["rho"] = more["rho"] / examination.Affine(alpha, beta).scale
    for name in BY_CLICKS:
        by_model = weigh(name, Evidence(LOG, exam=users, **more))
        by_pair = weigh(name, Evidence(LOG, alpha=alpha, beta=beta, **own))
        np.testing.assert_allclose(by_pair, by_model, rtol=1e-12 if known == "rho" else 0.0, err_msg=name)
        by_affine = weigh(name, Evidence(LOG, exam=examination.Affine(alpha, beta), **more))
        np.testing.assert_array_equal(by_affine, by_model, err_msg=name)


@pytest.mark.parametrize("users_and_pair", CASES, ids=NAMES)
def test_functions_that_take_alpha_and_beta(users_and_pair):
    users, (alpha, beta) = users_and_pair
    rho = POLICY.propensity(SCORES, DATA.offsets, users.alpha)
    own = rho / examination.Affine(alpha, beta).scale
    relevance = np.full(DATA.n_docs, 0.3)
    for call in (estimators.doubly_robust, estimators.shrinkage):
        one, same = call(LOG, rho, relevance, exam=users), call(LOG, own, relevance, exam=alpha, beta=beta)
        np.testing.assert_allclose(same, one, rtol=1e-12)
    np.testing.assert_array_equal(estimators.affine(LOG, alpha, beta), estimators.affine(LOG, users))
    fitted = [
        estimators.fit_relevance(DATA, LOG, **more).values for more in ({"exam": users}, {"exam": alpha, "beta": beta})
    ]
    np.testing.assert_array_equal(*fitted)
    rates = [cr.click_rates(LOG, **more) for more in ({"exam": users}, {"alpha": alpha, "beta": beta})]
    for column in ("rate", "rate_low", "rate_high", "shrunk_rate"):
        np.testing.assert_array_equal(*(getattr(each, column) for each in rates))


def evidence_of_all(users=USERS, pairs=PAIRS, **more):
    """The same users as a model, and as each of the equivalent pairs."""
    return [Evidence(LOG, exam=users, **more), *(Evidence(LOG, alpha=a, beta=b, **more) for a, b in pairs.values())]


def assert_equal_rankers(name, ranker, given, **options):
    first, *others = (fit_ranker(DATA, evidence, name, ranker, **options) for evidence in given)
    for other in others:
        np.testing.assert_array_equal(other.ranker.predict(DATA), first.ranker.predict(DATA), err_msg=name)
        assert other.ranker.provenance_.get("users") == first.ranker.provenance_.get("users")
    return first


def test_the_registry_is_covered():
    """Every estimator either weighs documents by its own function or takes predictions of relevance, or is auto."""
    assisted = {name for name, each in ESTIMATORS.items() if each.assisted is not None}
    assert {*BY_CLICKS, *assisted, "auto", "full-information"} == set(ESTIMATORS)


@pytest.mark.parametrize("name", [name for name, each in ESTIMATORS.items() if "clicks" in each.needs])
def test_rankers_of_every_estimator(name):
    options = {"folds": 2} if ESTIMATORS[name].uses_relevance else {}
    more = {} if name == "rerank" else {"policy": POLICY, "scores": SCORES}
    assert_equal_rankers(name, QUICK, evidence_of_all(**more), **options)
    assert_equal_rankers(name, QUICK, evidence_of_all(CURVE, CURVES, **more), **options)


@pytest.mark.parametrize("name", [name for name, each in ESTIMATORS.items() if each.assisted is not None])
def test_weights_of_estimators_with_a_relevance_model(name):
    names = list(ESTIMATORS[name].grid)
    points = [dict(zip(names, values, strict=True)) for values in product(*ESTIMATORS[name].grid.values())]
    for known in ({}, {"policy": POLICY, "scores": SCORES}):
        examined = [evidence.examinations for evidence in evidence_of_all(**known)]
        for relevance in (np.full(DATA.n_docs, 0.3), np.linspace(0.0, 1.0, DATA.n_docs)):
            for point in points:
                own = [ESTIMATORS[name].assisted(each, relevance, 2.0, **point) for each in examined]
                for other in own[1:]:
                    np.testing.assert_array_equal(other, own[0], err_msg=f"{name} {point}")


@pytest.mark.parametrize("loss", LOSSES)
def test_rankers_of_every_loss(loss):
    ranker = cr.Ranker(loss, k=K if LOSSES[loss].takes_k else None, max_epochs=2, learning_rate=1.0, threads=1, seed=0)
    assert_equal_rankers("policy-aware", ranker, evidence_of_all())


def test_auto():
    report = assert_equal_rankers("auto", QUICK, evidence_of_all(), folds=2)
    users = report.ranker.provenance_["users"]
    assert (users["model"], users["alpha"], users["beta"]) == ("affine", USERS.alpha.tolist(), USERS.beta.tolist())
    for alpha, beta in PAIRS.values():
        by_pair = cr.fit_from_clicks(DATA, LOG, exam=alpha, beta=beta, ranker=QUICK, folds=2)
        np.testing.assert_array_equal(by_pair.ranker.predict(DATA), report.ranker.predict(DATA))


@pytest.mark.parametrize("control", ["none", "optimal"])
@pytest.mark.parametrize("known", ["log", "rho"])
@pytest.mark.parametrize("method", ["ips", "dr"])
def test_estimates(method, known, control):
    """Of every metric that clicks can estimate, as `repr` shows values, intervals and all else."""
    models = [USERS, *(examination.Affine(*pair) for pair in PAIRS.values())]
    rho = POLICY.propensity(SCORES, DATA.offsets, USERS.alpha) if known == "rho" else None
    other, more = -SCORES, {"method": method, "control": control, "metrics": ["arp", "dcg", "dcg@5", "precision@3"]}
    calls = (
        lambda users: evaluation.estimate(SCORES, DATA, LOG, rho, exam=users, **more),
        lambda users: evaluation.compare(SCORES, other, DATA, LOG, rho, exam=users, **more),
        lambda users: (
            evaluation.select([SCORES, other], DATA, LOG, rho, exam=users, method=method, control=control).estimates
        ),
    )
    for call in calls:
        assert len({repr(call(users)) for users in models}) == 1


def test_documents_without_exposure_get_the_mean():
    log = simulation.simulate(
        DATA, SCORES, policies.Deterministic(K), THETA, sessions=2000, seed=0, relevance_threshold=2, click_model=MODEL
    )
    hidden = log.by_document(log.impressions) == 0.0
    assert hidden.any()
    evidence = Evidence(log, exam=USERS)
    mean = evidence.examinations.unseen[0]
    assert 0.0 < mean < 1.0
    sessions = np.repeat(log.sessions, DATA.lengths)
    for name in ("policy-aware", "affine", "policy-oblivious"):
        np.testing.assert_allclose(weigh(name, evidence)[hidden], mean * sessions[hidden], err_msg=name)
    seen = ESTIMATORS["policy-aware"].assisted(evidence.examinations, None, 1.0)
    np.testing.assert_allclose(seen[hidden], mean * sessions[hidden])
    for name in ("direct", "doubly-robust", "shrinkage"):  # start from predictions, a mean of their own
        own = ESTIMATORS[name].assisted(evidence.examinations, np.full(DATA.n_docs, 0.4), 1.0)
        np.testing.assert_allclose(own[hidden], 0.4 * sessions[hidden], err_msg=name)
    # a metric that only hidden documents have is the mean, not 0
    value = evaluation.estimate(np.where(hidden, 1.0, 0.0), DATA, log, exam=USERS, metrics=["precision@1"])
    assert value["precision@1"].ips == pytest.approx(mean, rel=0.2)


def test_the_mean_is_that_of_documents_that_are_seldom_shown():
    """Where production knows what is relevant, its top says nothing about the others."""
    log = simulation.simulate(
        DATA, DATA.labels, policies.UniformInsert(K), THETA, sessions=40_000, seed=0, relevance_threshold=2,
        click_model=MODEL,
    )  # fmt: skip
    seldom = 2 * log.by_document(log.impressions) < np.repeat(log.sessions, DATA.lengths)
    mean = Evidence(log, exam=USERS).examinations.unseen[0]
    truth = estimators.affine(log, USERS) / np.repeat(log.sessions, DATA.lengths)
    assert mean == pytest.approx(truth[seldom].mean(), abs=0.05)
    assert truth[~seldom].mean() > mean + 0.1


def test_logged_propensities_are_out_of_date_with_one_note():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit_ranker(DATA, Evidence(LOG, exam=USERS), "policy-aware", QUICK)
    notes = [str(each.message) for each in caught if issubclass(each.category, ExaminationWarning)]
    assert len(notes) == 1
    assert (
        "were computed with another user model than the one given, and are ignored; give policy and scores" in notes[0]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", ExaminationWarning)
        with_policy = Evidence(LOG, exam=USERS, policy=POLICY, scores=SCORES)
        fit_ranker(DATA, with_policy, "policy-aware", QUICK)
        bare = Evidence(replace(LOG, propensities=None), exam=USERS)
        np.testing.assert_array_equal(weigh("policy-aware", Evidence(LOG, exam=THETA, rho=0.5 + 0 * SCORES)) >= 0, True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExaminationWarning)
        np.testing.assert_array_equal(weigh("policy-aware", Evidence(LOG, exam=USERS)), weigh("policy-aware", bare))


def test_saved_models_are_read_where_curves_are(tmp_path):
    from counterrank.clicks.policies.parsing import parse_examination

    USERS.save(tmp_path / "users.json")
    assert parse_examination(str(tmp_path / "users.json")) == USERS
    with warnings.catch_warnings():
        warnings.simplefilter("error", CoverageWarning)
        assert evaluation.inspect_clicks(LOG, exam=USERS).known.examination.startswith("0.842, 0.466")
