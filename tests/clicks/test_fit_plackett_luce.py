"""A Plackett-Luce policy fitted to pages: likelihood against slow references, what it recovers, bad input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import counterrank as cr
from counterrank.clicks.policies import Deterministic, PlackettLuce, ReplaceLast, fit_plackett_luce, propensity_from_log
from counterrank.clicks.policies.fitted import Pages, information, plain_information, value_and_gradient
from counterrank.clicks.simulation import simulate
from counterrank.common.errors import CounterrankError
from tests.reference import policy_from_log as naive

THETA = [1.0, 0.5, 0.25]


def whole(lower):
    return np.tril(lower) + np.tril(lower, -1).T


@st.composite
def pages_and_scores(draw):
    """Queries of one document and more, some without pages; equal scores, scores far apart, pages of whole queries."""
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    scores, pages = [], []
    for query, length in enumerate(lengths):
        scores += draw(st.lists(st.sampled_from([0.0, 0.5, -2.0, 3.0, 900.0]), min_size=length, max_size=length))
        for _ in range(draw(st.integers(0, 3))):
            page = draw(st.permutations(range(length)))[: draw(st.integers(1, length))]
            pages.append((query, page, draw(st.integers(1, 4))))
    features = draw(st.lists(st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=2, max_size=2),
                             min_size=len(scores), max_size=len(scores)))  # fmt: skip
    return lengths, scores, pages, features


@given(pages_and_scores())
@settings(max_examples=150, deadline=None)
def test_likelihood_gradient_and_hessian_against_the_reference(case):
    lengths, scores, pages, features = case
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    first = np.searchsorted([query for query, _, _ in pages], np.arange(len(lengths) + 1))
    listed = Pages(
        first,
        np.concatenate(([0], np.cumsum([len(page) for _, page, _ in pages]))).astype(np.int64),
        np.array([offsets[query] + place for query, page, _ in pages for place in page], np.int64),
        np.array([sessions for _, _, sessions in pages], np.int64),
    )
    value, gradient, hessian = 0.0, np.zeros(2), np.zeros((2, 2))
    for query, page, sessions in pages:
        own, x = (values[offsets[query] : offsets[query + 1]] for values in (scores, features))
        value += sessions * naive.page_log_likelihood(own, page)
        gradient += sessions * np.array(naive.page_gradient(own, page, x))
        hessian += sessions * np.array(naive.page_information(own, page, x))
    matrix = np.array(features, np.float32)
    args = (0, len(lengths), offsets, matrix, np.array(scores), listed)
    found = value_and_gradient(*args)
    assert found[0] == pytest.approx(value, rel=1e-12, abs=1e-9)
    assert found[1] == pytest.approx(gradient, abs=1e-9)
    assert whole(information(*args)) == pytest.approx(hessian, abs=1e-9)
    # at equal scores, one page of one document: no draw is from less than all
    single = listed._replace(first=first, offsets=np.arange(len(pages) + 1), docs=listed.docs[listed.offsets[:-1]])
    equal = np.zeros(len(scores))
    exact = information(0, len(lengths), offsets, matrix, equal, single)
    assert whole(plain_information(0, len(lengths), offsets, matrix, single)) == pytest.approx(whole(exact), abs=1e-9)


def make(n_queries, length, n_features, seed, norm=3.0):
    rng = np.random.default_rng(seed)
    n = n_queries * length
    data = cr.RankingData(rng.random((n, n_features)), np.arange(0, n + 1, length), labels=rng.integers(0, 5, n))
    weights = rng.normal(size=n_features)
    weights *= norm / np.linalg.norm(weights)
    return data, data.normalized().features.astype(np.float64) @ weights, weights


def test_the_gradient_is_that_of_the_value():
    data, scores, weights = make(20, 8, 4, seed=3)
    log = simulate(data, scores, PlackettLuce(3), THETA, sessions=200, displays=True)
    shown = log.displays
    owner = shown.docs[shown.offsets[:-1]] // 8
    pages = Pages(np.searchsorted(owner, np.arange(21)), shown.offsets, shown.docs, shown.sessions)
    x = data.normalized().features

    def likelihood(w):
        return value_and_gradient(0, 20, data.offsets, x, x.astype(np.float64) @ w, pages)

    hessian = whole(information(0, 20, data.offsets, x, x.astype(np.float64) @ weights, pages))
    for j in range(4):
        step = 1e-5 * np.eye(4)[j]
        up, down = likelihood(weights + step), likelihood(weights - step)
        assert likelihood(weights)[1][j] == pytest.approx((up[0] - down[0]) / 2e-5, rel=1e-5, abs=1e-4)
        assert -hessian[j] == pytest.approx((up[1] - down[1]) / 2e-5, rel=1e-5, abs=1e-4)


@pytest.mark.statistical
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_the_score_over_the_temperature_is_recovered(temperature):
    """Coefficients are off by a few of their standard errors; failing by chance once in 10^6."""
    data, scores, weights = make(100, 12, 5, seed=1)
    policy = PlackettLuce(3, temperature=temperature)
    log = simulate(data, scores, policy, THETA, sessions=20_000, seed=2, displays=True)
    found = fit_plackett_luce(data, log, 3, ridge=0.0, errors=True)
    assert found.converged
    assert found.iterations < 50
    off = (found.coefficients - weights / temperature) / found.standard_errors
    assert (np.abs(off) < stats.norm.isf(1e-7)).all()
    true = policy.propensity(scores, data.offsets, cr.examination.Examination(THETA))
    rho = found.policy.propensity(found.scores, data.offsets, cr.examination.Examination(THETA))
    assert rho == pytest.approx(true, rel=0.2)
    assert found.policy == PlackettLuce(3, temperature=1.0)
    assert found.uniform_log_likelihood == pytest.approx(-np.log(12 * 11 * 10))
    assert found.log_likelihood > found.uniform_log_likelihood + 0.1
    assert (found.pages, found.short_pages) == (20_000, 0)
    assert found.candidates_found == pytest.approx(1.0, abs=0.1)


@pytest.mark.statistical
def test_standard_errors_by_simulation():
    """Over 60 logs the standard deviation of coefficients is known to 9 %; 5 times that is let pass (once in 10^6)."""
    data, scores, _ = make(40, 8, 2, seed=12)
    found = [
        fit_plackett_luce(
            data, simulate(data, scores, PlackettLuce(3), THETA, sessions=400, seed=seed, displays=True), 3, ridge=0.0,
            errors=True,
        )
        for seed in range(60)
    ]  # fmt: skip
    spread = np.std([each.coefficients for each in found], axis=0, ddof=1)
    assert np.mean([each.standard_errors for each in found], axis=0) == pytest.approx(spread, rel=0.45)


def test_one_page_a_query_is_enough_where_frequencies_know_next_to_nothing():
    data, scores, _ = make(400, 25, 5, seed=4)
    exam = cr.examination.Examination(THETA)
    log = simulate(data, scores, PlackettLuce(3), exam, sessions=400, seed=1, displays=True)
    true = PlackettLuce(3).propensity(scores, data.offsets, exam)
    found = fit_plackett_luce(data, log, 3)
    fitted = found.policy.propensity(found.scores, data.offsets, exam)
    counted = propensity_from_log(log, exam).propensities
    shown = counted > 0.0
    off = [np.abs(np.log(rho[shown] / true[shown])).mean() for rho in (fitted, counted)]
    assert off[0] < 0.2
    assert off[1] > 1.0
    assert (found.scores[np.repeat(log.sessions == 0, 25)] != 0.0).all()  # queries without sessions have scores too


def test_the_result_does_not_depend_on_threads():
    data, scores, _ = make(300, 20, 3, seed=5)
    log = simulate(data, scores, PlackettLuce(4), [1.0] * 4, sessions=500, seed=1, displays=True)
    one, two = (fit_plackett_luce(data, log, 4, errors=True, threads=threads) for threads in (1, 2))
    assert (one.scores == two.scores).all()
    assert (one.standard_errors == two.standard_errors).all()


def test_scores_of_other_data():
    data, scores, _ = make(60, 10, 4, seed=6)
    log = simulate(data, scores, PlackettLuce(3), THETA, sessions=5000, seed=1, displays=True)
    found = fit_plackett_luce(data, log, 3)
    assert (found.predict(data) == found.scores).all()
    other, _, _ = make(10, 30, 4, seed=7)
    expected = other.normalized().features.astype(np.float64) @ found.coefficients
    assert found.predict(other) == pytest.approx(expected)
    for bad, message in ((make(2, 3, 3, 0)[0], "data: 3 features; expected 4"), ("x", "data: str; expected Ranking")):
        with pytest.raises(CounterrankError, match=message):
            found.predict(bad)


def test_features_that_never_differ_get_coefficient_0():
    data, scores, _ = make(50, 8, 2, seed=8)
    flat = cr.RankingData(np.column_stack([data.features, np.ones(400)]), data.offsets, labels=data.labels)
    log = simulate(flat, scores, PlackettLuce(2), THETA, sessions=500, displays=True)
    found = fit_plackett_luce(flat, log, 2, errors=True)
    assert found.coefficients[2] == 0.0
    assert found.standard_errors[2] == pytest.approx(1.0)  # of the prior
    free = fit_plackett_luce(flat, log, 2, ridge=0.0, errors=True)
    assert free.coefficients[2] == 0.0
    assert np.isnan(free.standard_errors[2])


def test_a_policy_without_chance():
    """The likelihood has its maximum at infinity: a prior keeps scores finite, and without one they grow."""
    data, scores, _ = make(30, 8, 2, seed=9)
    log = simulate(data, scores, Deterministic(3), THETA, sessions=300, displays=True)
    with_prior = fit_plackett_luce(data, log, 3)
    assert with_prior.converged
    with pytest.warns(UserWarning, match="a score explains every page, so the policy seems to draw nothing"):
        without = fit_plackett_luce(data, log, 3, ridge=0.0)
    assert np.isfinite(without.scores).all()
    assert without.log_likelihood > with_prior.log_likelihood
    assert np.abs(without.scores).max() > 3 * np.abs(with_prior.scores).max()


def test_a_policy_of_another_form_is_found_out():
    data, scores, _ = make(100, 30, 3, seed=13, norm=12.0)
    log = simulate(data, scores, ReplaceLast(3), THETA, sessions=200, displays=True)
    with pytest.warns(UserWarning, match=r"all but rules out \(candidates_found=.*so the log is of"):
        found = fit_plackett_luce(data, log, 3)
    assert found.candidates_found > 3.0


def test_candidates_found_by_hand():
    """Both documents shown with P = 1/2 each, one page: 1 / (1/2) = 2 of two candidates."""
    data = cr.RankingData([[1.0], [1.0]], [0, 2], labels=[0, 4])
    log = simulate(data, [0.0, 0.0], PlackettLuce(1), [1.0], sessions=50, displays=True)
    assert fit_plackett_luce(data, log, 1).candidates_found == pytest.approx(1.0)


def test_short_pages_warn():
    data, scores, _ = make(30, 8, 2, seed=10)
    log = simulate(data, scores, PlackettLuce(2), THETA, sessions=300, displays=True)
    with pytest.warns(UserWarning, match="300 of 300 pages are shorter than the policy's"):
        assert fit_plackett_luce(data, log, 3).short_pages == 300
    with pytest.warns(UserWarning, match="300 of 300 pages"):
        fit_plackett_luce(data, log)


DATA, SCORES, _ = make(5, 6, 2, seed=11)
LOG = simulate(DATA, SCORES, PlackettLuce(3), THETA, sessions=20, displays=True)
NO_PAGES = simulate(DATA, SCORES, PlackettLuce(3), THETA, sessions=20)


@pytest.mark.parametrize(
    ("data", "log", "more", "message"),
    [
        (DATA, "log", {}, "clicks: str; expected ClickCounts"),
        (DATA, NO_PAGES, {}, "clicks: pages were not kept; expected counts with displays"),
        ("data", LOG, {}, "data: str; expected RankingData"),
        (make(5, 7, 2, seed=0)[0], LOG, {}, "clicks: counted against other data"),
        (DATA, LOG, {"k": 2}, "k=2: the log has a page of 3 documents"),
        (DATA, LOG, {"k": 0}, "k=0: expected a whole number"),
        (DATA, LOG, {"k": 3, "ridge": -1.0}, "ridge=-1.0: expected a number of at least 0"),
        (DATA, LOG, {"k": 3, "ridge": "much"}, "ridge='much': expected a number"),
        (DATA, LOG, {"k": 3, "threads": 0}, "threads=0: expected"),
    ],
)
def test_bad_input(data, log, more, message):
    with pytest.raises(CounterrankError, match=message):
        fit_plackett_luce(data, log, **more)
