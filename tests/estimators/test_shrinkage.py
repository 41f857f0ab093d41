"""Shrinkage: against references, on bad input, and that its strength is found and fades as sessions grow."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank import estimators
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.policies import ReplaceLast
from counterrank.clicks.simulation import ClickModel, simulate, trust_bias
from counterrank.common.errors import CounterrankError
from counterrank.estimators.model_assisted import golden_section, log_likelihood, log_rising
from tests.reference import relevance as reference
from tests.reference.affine import canonical
from tests.support.click_counts import count, worlds


def one_rank(sessions, clicks):
    """Queries of one document each, always shown on top."""
    sessions, clicks = np.asarray(sessions), np.asarray(clicks)
    n = len(sessions)
    docs, ones = np.arange(n), np.ones(n, np.int64)
    return ClickCounts("", np.arange(n + 1), sessions, docs, ones, sessions.copy(), clicks)


def beta_binomial(strength, n, seed=0, longest=40):
    """Clicks of documents whose relevance scatters about R by the strength; the log, and R."""
    rng = np.random.default_rng(seed)
    relevance = rng.uniform(0.05, 0.6, n)
    true = rng.beta(strength * relevance, strength * (1.0 - relevance))
    sessions = rng.integers(1, longest, n)
    return one_rank(sessions, rng.binomial(sessions, true)), relevance


@given(st.floats(1e-6, 3e6), st.floats(0.0, 1e7))
@settings(max_examples=300, deadline=None)
def test_rising_factorials_against_the_gamma_function(x, n):
    by_gamma = math.lgamma(x + n) - math.lgamma(x)
    digits = max(abs(math.lgamma(x + n)), abs(math.lgamma(x)), 1.0)  # of which the difference has lost some
    assert log_rising(x, n) == pytest.approx(by_gamma, rel=1e-11, abs=3e-13 * digits)


@pytest.mark.parametrize("x", [1e-4, 0.5, 7.9999, 8.0, 1e6])
def test_rising_factorials_by_hand(x):
    assert log_rising(x, 0.0) == pytest.approx(0.0, abs=1e-12)
    assert log_rising(x, 1.0) == pytest.approx(math.log(x), rel=1e-11, abs=1e-11)
    assert log_rising(x, 3.0) == pytest.approx(math.log(x * (x + 1.0) * (x + 2.0)), rel=1e-11, abs=1e-11)


# clicks, trials without one, P(examined), relevance
ROW = st.tuples(st.integers(0, 30), st.integers(0, 30), st.floats(0.01, 1.0), st.floats(-0.5, 1.5))
ROWS = st.lists(ROW.filter(lambda row: row[0] + row[1] > 0), min_size=1, max_size=8)


@given(ROWS, st.floats(1e-2, 1e4))
@settings(max_examples=200, deadline=None)
def test_the_likelihood_against_the_reference(rows, strength):
    clicks, more, exposures, relevance = (np.array(column, np.float64) for column in zip(*rows, strict=True))
    trials, chances = clicks + more, np.clip(relevance, 1e-3, 1.0 - 1e-3)
    rates = exposures * chances
    spreads = (1.0 - rates) / (exposures * (1.0 - chances))
    found = log_likelihood(0, len(clicks), strength, clicks, trials, rates, spreads)
    slow = reference.log_likelihood(strength, clicks, trials, trials * exposures, relevance)
    assert found == pytest.approx(slow, rel=1e-7, abs=1e-7)


@given(worlds(), st.data())
@settings(max_examples=80, deadline=None)
def test_against_the_reference(world, data):
    """Weights of a given strength, and that no strength on a fine grid is more likely than the one found."""
    lengths, sessions = world
    log, n = count(lengths, sessions), sum(lengths)
    exam = data.draw(st.none() | st.lists(st.floats(0.05, 0.7), min_size=5, max_size=6))
    beta = exam and data.draw(st.none() | st.lists(st.sampled_from([0.0, 0.1, 0.3]), min_size=5, max_size=6))
    if beta:  # as they are in the canonical gauge
        exam, beta = (curve[:5] for curve in (exam, beta))
        exam, beta, _, _ = canonical(exam, beta)
    rho = data.draw(st.lists(st.floats(0.05, 1.0), min_size=n, max_size=n))
    relevance = data.draw(st.lists(st.floats(0.02, 0.9), min_size=n, max_size=n))
    strength = data.draw(st.sampled_from([0.0, 0.3, 7.0, 1e4]))
    tally = reference.tallies(lengths, sessions, exam, beta)
    times = [t for _, _, t in tally] if exam else reference.examined_times(tally, rho)
    options = {"exam": exam, "beta": beta}
    found = estimators.shrinkage(log, rho, relevance, strength=strength, **options)
    assert found == pytest.approx(reference.shrinkage(tally, times, relevance, strength), rel=1e-9, abs=1e-9)
    best = estimators.best_strength(log, rho, relevance, **options)
    assert 0.01 * (1 - 1e-9) <= best <= 1e6 * (1 + 1e-9)
    found = estimators.shrinkage(log, rho, relevance, **options)
    assert found == pytest.approx(reference.shrinkage(tally, times, relevance, best), rel=1e-9, abs=1e-9)
    clicks = [c for _, c, _ in tally]
    trials = reference.shown(lengths, sessions) if exam else [n for n, _, _ in tally]
    grid = [reference.log_likelihood(10.0**at, clicks, trials, times, relevance) for at in np.linspace(-2.0, 6.0, 33)]
    assert reference.log_likelihood(best, clicks, trials, times, relevance) > max(grid) - 1e-4


@pytest.mark.statistical
@pytest.mark.representative
@pytest.mark.parametrize("strength", [0.3, 3.0, 30.0])
def test_the_strength_is_found(strength):
    """Over 100 seeds the logarithm scattered by 0.03, 0.02 and 0.05 (standard deviation): 0.3 off happens less than
    once in 10^6."""
    log, relevance = beta_binomial(strength, 6000)
    found = estimators.best_strength(log, np.ones(6000), relevance)
    assert abs(math.log(found / strength)) < 0.3


def test_the_ends_of_the_search():
    n, half = 300, np.full(300, 0.5)
    rho = np.ones(n)
    never_or_always = one_rank(np.full(n, 50), np.where(np.arange(n) % 2, 50, 0))
    assert estimators.best_strength(never_or_always, rho, half) == pytest.approx(0.01)
    too_regular = one_rank(np.full(n, 50), np.full(n, 25))  # less scatter than a coin has
    assert estimators.best_strength(too_regular, rho, half) == pytest.approx(1e6)


def test_uninformative_clicks_leave_the_strength_at_1():
    once = one_rank(np.ones(40, np.int64), np.arange(40) % 3 == 0)
    assert estimators.best_strength(once, np.ones(40), np.linspace(0.0, 1.0, 40)) == 1.0
    nothing = one_rank(np.zeros(3, np.int64), np.zeros(3, np.int64))
    assert estimators.best_strength(nothing, np.ones(3), np.full(3, 0.5)) == 1.0
    assert estimators.shrinkage(nothing, np.ones(3), np.full(3, 0.5)).tolist() == [0.0, 0.0, 0.0]
    trust = {"exam": [0.0, 0.5], "beta": [0.5, 0.0]}
    assert estimators.shrinkage(one_rank([8], [2]), [0.0], [0.5], strength=0, **trust).tolist() == [4.0]


@pytest.mark.parametrize(("few", "highest"), [(200, 125_000), (600, 0.145)])
def test_the_highest_of_two_summits_is_found(few, highest):
    """Documents examined a few times scatter widely; those examined often hardly, about rates that are off a little."""
    sessions = np.concatenate((np.full(few, 3), np.full(60, 10**6)))
    clicks = np.concatenate((np.where(np.arange(few) % 2, 3, 0), 500_000 + 1500 * (-1) ** np.arange(60)))
    half = np.full(len(clicks), 0.5)
    given_log = (clicks.tolist(), sessions.tolist(), sessions.tolist(), half.tolist())
    values = np.array([reference.log_likelihood(10.0**at, *given_log) for at in np.linspace(-2.0, 6.0, 81)])
    assert np.count_nonzero((values[1:-1] > values[:-2]) & (values[1:-1] > values[2:])) == 2
    best = estimators.best_strength(one_rank(sessions, clicks), np.ones(len(clicks)), half)
    assert reference.log_likelihood(best, *given_log) > values.max() - 1e-3
    assert best == pytest.approx(highest, rel=0.1)


def test_the_number_of_threads_does_not_show(monkeypatch):
    log, relevance = beta_binomial(2.0, 150_000, longest=6)
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("COUNTERRANK_THREADS", threads)
        found.append(estimators.best_strength(log, np.ones(150_000), relevance))
    assert found[0] == found[1]


def test_more_clicks_than_examinations():
    """Shown twice at a rank where a fifth look, and clicked twice."""
    docs, ranks, shown, clicked = np.array([[0, 1], [2, 1], [2, 9], [2, 3]])
    log = ClickCounts("", np.array([0, 2]), np.array([9]), docs, ranks, shown, clicked)
    found = estimators.shrinkage(log, None, [0.5, 0.3], exam=[1.0, 0.2], strength=1.0)
    assert found.tolist() == pytest.approx([9 * (2 + 0.5) / (0.4 + 1.0), 9 * (3 + 0.3) / (9 + 1.0)])


@pytest.mark.statistical
@pytest.mark.parametrize(("examinations", "bounds"), [(20.0, 0.3), (1.5, 0.5)])
@pytest.mark.parametrize("theta", [1.0, 0.5, 0.1])
def test_the_strength_is_found_where_few_who_are_shown_a_document_look(theta, examinations, bounds):
    """Over 20 other seeds the logarithm was off by 0.15 at most on average with 20 examinations, by 0.03 with 1.5, and
    its standard deviation 0.02 and 0.06 at most: these bounds are broken less than once in 10^6."""
    rng, n, strength = np.random.default_rng(8), 20_000, 5.0
    relevance = rng.uniform(0.05, 0.4, n)
    true = rng.beta(strength * relevance, strength * (1.0 - relevance))
    shown = 1 + rng.poisson(examinations / theta, n)
    log = one_rank(shown, rng.binomial(shown, theta * true))
    for found in (
        estimators.best_strength(log, None, relevance, exam=[theta]),
        estimators.best_strength(log, np.full(n, theta), relevance),
    ):
        assert abs(math.log(found / strength)) < bounds


N = 8
DATA = cr.RankingData(np.zeros((N * 50, 1)), np.arange(0, N * 50 + 1, N), labels=np.arange(N * 50) % 5)
SCORES = np.tile(np.arange(N, 0.0, -1.0), 50)
THETA = [1.0, 0.6, 0.5]


@pytest.mark.parametrize("trust", [False, True])
def test_it_goes_to_the_inverse_propensity_as_sessions_grow(trust):
    """n (c + m R) / (n rho + m) differs from c / rho by m (R - c / (n rho)) / (rho + m / n): in weights for each
    session, by m / n times a number that stays."""
    model = trust_bias(k=3) if trust else ClickModel(0.9, 0.1)
    alpha, beta, _, _ = canonical(*model.affine(THETA, 3))
    rho = ReplaceLast(3).propensity(SCORES, DATA.offsets, alpha if trust else THETA)
    wrong = np.linspace(0.0, 1.0, DATA.n_docs)
    gaps, strengths = [], []
    for sessions in (10**5, 10**7, 10**9):
        log = simulate(DATA, SCORES, ReplaceLast(3), THETA, sessions=sessions, seed=2, click_model=model)
        by_document = np.repeat(log.sessions, N)
        if trust:
            clicks = log.by_document(log.clicks - log.impressions * np.array(beta)[log.ranks - 1])
            aware = clicks * by_document / log.by_document(log.impressions * np.array(alpha)[log.ranks - 1])
        else:
            aware = estimators.policy_aware(log, rho)
        options = {"exam": alpha, "beta": beta} if trust else {}
        shrunk = estimators.shrinkage(log, rho, wrong, **options)
        gaps.append(np.abs(shrunk - aware).max() / by_document.mean())
        strengths.append(estimators.best_strength(log, rho, wrong, **options))
        np.testing.assert_allclose(estimators.shrinkage(log, rho, wrong, strength=0, **options), aware, atol=1e-6)
        strongest = estimators.shrinkage(log, rho, wrong, strength=1e18, **options)
        np.testing.assert_allclose(strongest, estimators.direct(log, wrong), rtol=1e-6, atol=1e-3)
    assert gaps[0] > 10 * gaps[1] > 100 * gaps[2]
    assert gaps[2] < 1e-4
    assert max(strengths) < 3.0  # the model stays as wrong as it was


def test_realised_exposure_knows_better():
    """Where chance showed a document twice as often, its clicks are divided by as much."""
    rho = ReplaceLast(3).propensity(SCORES, DATA.offsets, THETA)
    log = simulate(DATA, SCORES, ReplaceLast(3), THETA, sessions=50 * 60, seed=4, click_model=ClickModel(0.9, 0.1))
    truth = np.where(DATA.labels >= 3, 0.9, 0.1)
    weights = [estimators.shrinkage(log, rho, np.full(DATA.n_docs, 0.4), strength=2.0, exam=e) for e in (None, THETA)]
    sessions = np.repeat(log.sessions, N)
    without, with_exam = (np.mean((own / sessions - truth) ** 2) for own in weights)
    assert with_exam < without


def test_golden_sections_find_ends_too():
    assert golden_section(lambda x: x, 0.0, 1.0)[0] == pytest.approx(1.0, abs=1e-3)
    assert golden_section(lambda x: -x, 0.0, 1.0)[0] == pytest.approx(0.0, abs=1e-3)


SMALL = count([2, 1], [(0, (0, 1), {1}), (1, (0,), set())])
R = [0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((3, [1.0], R), {}, "clicks: int; expected ClickCounts"),
        ((SMALL, [1.0, 1.0], R), {}, "rho: 2 entries; expected 3"),
        ((SMALL, [0.0, 1.0, 1.0], R), {}, "rho: 0 for 1 click on 1 document, such as document 0 of query 0"),
        ((SMALL, None, R), {}, "rho: None, and so is exam; expected"),
        ((SMALL, None, R), {"exam": [0.0], "beta": [0.4]}, "alpha: 0 at every rank"),
        ((SMALL, [1.0] * 3, [0.5]), {}, "relevance: 1 entries; expected 3, the number of documents"),
        ((SMALL, [1.0] * 3, R), {"strength": -1}, "strength=-1: expected a number of at least 0, or None"),
        ((SMALL, [1.0] * 3, R), {"strength": math.inf}, "strength=inf: expected"),
        ((SMALL, [1.0] * 3, R), {"strength": math.nan}, "strength=nan: expected"),
        ((SMALL, [1.0] * 3, R), {"strength": True}, "strength=True: expected"),
        ((SMALL, [1.0] * 3, R), {"strength": "much"}, "strength='much': expected"),
    ],
)
def test_bad_input(arguments, options, message):
    with pytest.raises(CounterrankError, match=message):
        estimators.shrinkage(*arguments, **options)
    if "strength" not in options:
        with pytest.raises(CounterrankError, match=message):
            estimators.best_strength(*arguments, **options)
