"""Propensities from display frequencies: against slow references, standard errors and bounds by simulation, bad input.

Simulated tests compare means with what they should be in units of a standard error and fail beyond 5 of them (false
alarm 6e-7 for each comparison); seeds are fixed.
"""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank import estimators
from counterrank.clicks.counts import SHOWN_ONLY, ClickCounts
from counterrank.clicks.policies import Deterministic, PlackettLuce, ReplaceLast, propensity_from_log
from counterrank.clicks.policies.from_log import LEAST, MOST, best_smoothing, log_evidence, lower_bounds
from counterrank.clicks.simulation import ClickModel, simulate
from counterrank.common.errors import CounterrankError, CoverageWarning
from tests.reference import policy_from_log as naive
from tests.support.click_counts import count, worlds

THETA = [1.0, 0.5, 0.25]


@given(worlds(), st.data())
@settings(max_examples=100, deadline=None)
def test_propensities_against_the_reference(world, data):
    lengths, sessions = world
    log = count(lengths, sessions)
    depth = int(log.ranks.max(initial=1))
    theta = data.draw(st.lists(st.floats(0.0, 1.0), min_size=depth, max_size=depth).filter(any))
    m = data.draw(st.sampled_from([0.0, 0.5, 10.0]))
    found = propensity_from_log(log, theta, smoothing=m)
    assert found.propensities == pytest.approx(naive.smoothed(lengths, sessions, theta, [m] * depth), abs=1e-12)
    shown = {int(log.offsets[q]) + place for q, page, _ in sessions for place in page}
    logged = {q for q, _, _ in sessions}
    assert found.never_shown == sum(lengths[q] for q in logged) - len(shown)
    assert found.samples == len(sessions)
    assert set(np.flatnonzero(~np.isnan(found.standard_errors))) <= shown


def test_by_hand():
    log = count([3, 1], [(0, (0, 1), set()), (0, (0, 2), set()), (0, (1, 0), set()), (0, (0,), set())])
    found = propensity_from_log(log, THETA)
    assert found.propensities.tolist() == [(3 * 1.0 + 0.5) / 4, (1.0 + 0.5) / 4, 0.5 / 4, 0.0]
    p1, p2 = 0.25, 0.25  # of document 1
    variance = (1.0 * p1 + 0.25 * p2 - (p1 + 0.5 * p2) ** 2) / 5
    assert found.standard_errors[1] == pytest.approx(variance**0.5)
    assert np.isnan(found.standard_errors[3])
    assert found.never_shown == 0  # query 1 has no session
    assert found.largest_relative_error() == pytest.approx((0.25 * 0.25 * 0.75 / 5) ** 0.5 / 0.125)
    # two imaginary sessions: rank 1 is filled on every page, rank 2 on three of four
    p1, p2 = (1 + 2 / 3) / 6, (1 + 2 * 0.75 / 3) / 6
    assert propensity_from_log(log, THETA, smoothing=2).propensities[1] == pytest.approx(p1 + 0.5 * p2)


def test_one_session_gives_no_standard_errors():
    log = count([3], [(0, (0, 1), set())])
    found = propensity_from_log(log, THETA)
    assert found.propensities.tolist() == [1.0, 0.5, 0.0]
    assert np.isnan(found.standard_errors).all()
    assert found.never_shown == 1
    assert (propensity_from_log(log, THETA, smoothing=4).standard_errors[:2] > 0.0).all()


@given(
    st.lists(st.tuples(st.integers(1, 6), st.lists(st.integers(0, 5), min_size=1, max_size=6)), min_size=1, max_size=4),
    st.floats(0.01, 100.0),
)
@settings(max_examples=100, deadline=None)
def test_evidence_is_that_of_an_urn(queries, smoothing):
    draws = [(size, [doc % size for doc in shown]) for size, shown in queries]
    counts = [(shown.count(doc), size) for size, shown in draws for doc in sorted(set(shown))]
    shown, candidates = np.array(counts).T.copy()
    pages = np.array([len(shown) for _, shown in draws])
    found = log_evidence(smoothing, shown, candidates, pages)
    assert found == pytest.approx(naive.log_evidence(smoothing, draws), abs=1e-8)
    best = best_smoothing(shown, candidates, pages)
    at_best = log_evidence(best, shown, candidates, pages)
    grid = [log_evidence(m, shown, candidates, pages) for m in np.geomspace(LEAST, MOST, 40)]
    assert at_best >= max(grid) - 1e-5


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.01, 1.0), st.integers(1, 10**6)), min_size=1, max_size=5),
       st.floats(0.5, 0.999))  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_lower_bounds_are_where_the_divergence_says(cases, confidence):
    shares, largest, n = (np.array(column) for column in zip(*cases, strict=True))
    out, allowed = np.empty(len(n)), -np.log1p(-confidence)
    lower_bounds(shares * largest, largest, n, allowed, out)
    assert (out <= shares * largest * (1 + 1e-12)).all()
    for share, bound, pages in zip(shares, out / largest, n, strict=True):
        if share == 0.0:
            assert bound == 0.0
        elif bound > 1e-300 and share > 1e-12 and bound < share * (1 - 1e-9):
            rest = (1 - share) * (np.log1p(-share) - np.log1p(-bound)) if share < 1 else 0.0
            assert pages * (share * np.log(share / bound) + rest) == pytest.approx(allowed, rel=1e-3, abs=1e-6)


def test_bounds_of_documents_on_every_page():
    """KL(1 || p) = -log p, so the bound is (1 - confidence) ** (1 / n)."""
    log = count([1], [(0, (0,), set())] * 7)
    found = propensity_from_log(log, [0.5], confidence=0.95)
    assert found.lower[0] == pytest.approx(0.5 * 0.05 ** (1 / 7))


RNG = np.random.default_rng(0)
LENGTHS = [5, 12]
OFFSETS = np.array([0, 5, 17])
SCORES = RNG.normal(size=17)
DATA = cr.RankingData(np.zeros((17, 1)), OFFSETS, labels=RNG.integers(0, 5, 17))


def logs(policy, sessions, times, **more):
    return [simulate(DATA, SCORES, policy, THETA, sessions=sessions, seed=seed, **more) for seed in range(times)]


@pytest.mark.statistical
@pytest.mark.parametrize("policy", [ReplaceLast(3), PlackettLuce(3)], ids=repr)
def test_standard_errors_and_bounds_by_simulation(policy):
    """Over 400 logs of about 100 pages a query: frequencies scatter by their standard errors; bounds hold."""
    true = policy.propensity(SCORES, OFFSETS, cr.examination.Examination(THETA))
    found = [propensity_from_log(log, THETA, confidence=0.9) for log in logs(policy, 200, 400)]
    rho = np.array([each.propensities for each in found])
    spread = rho.std(axis=0)
    assert (np.abs(rho.mean(axis=0) - true) <= 5 * spread / 20 + 1e-12).all()
    errors = np.nan_to_num(np.array([each.standard_errors for each in found]))
    # the standard deviation of 400 values is known to 3.5 %
    assert np.sqrt((errors**2).mean(axis=0)) == pytest.approx(spread, rel=0.25, abs=1e-3)
    missed = (np.array([each.lower for each in found]) > true).mean(axis=0)
    assert (missed <= 0.1 + 5 * (0.1 * 0.9 / 400) ** 0.5).all()


@pytest.mark.statistical
def test_weights_by_frequencies_are_unbiased_for_documents_that_were_shown():
    """About ten pages a query: E[weight / sessions | shown] = P(click | examined), and P(shown) times that over all."""
    model = ClickModel(0.9, 0.1)
    attraction = model.attractiveness(DATA, 3)
    clicked = 0.1 + 0.8 * attraction
    ratios, shown = [], []
    for log in logs(ReplaceLast(3), 20, 1500, click_model=model):
        rho = propensity_from_log(log, THETA).propensities
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of propensities of 0, and that they are not those of the policy
            weights = estimators.policy_aware(log, rho)
        ratios.append(weights / np.maximum(np.repeat(log.sessions, LENGTHS), 1))
        shown.append(rho > 0.0)
    ratios, shown = np.array(ratios), np.array(shown)
    rare = (shown.mean(axis=0) > 0.3) & (shown.mean(axis=0) < 0.9)
    assert rare.sum() >= 5
    for doc in range(17):
        own = ratios[shown[:, doc], doc]
        assert abs(own.mean() - clicked[doc]) <= 5 * own.std() / len(own) ** 0.5
    every = ratios.mean(axis=0)
    assert (every[rare] < 0.95 * clicked[rare]).all()


def test_auto_smoothing_finds_what_is_fixed_and_what_is_drawn():
    """Replace-last over 300 queries of 30 documents, about five pages each: ranks 1 and 2 are fixed, rank 3 is not."""
    rng = np.random.default_rng(1)
    offsets = np.arange(0, 9001, 30)
    data = cr.RankingData(np.zeros((9000, 1)), offsets, labels=rng.integers(0, 5, 9000))
    scores, policy = rng.normal(size=9000), ReplaceLast(3)
    log = simulate(data, scores, policy, THETA, sessions=1500, seed=0)
    true = policy.propensity(scores, offsets, cr.examination.Examination(THETA))
    plain, auto = propensity_from_log(log, THETA), propensity_from_log(log, THETA, smoothing="auto")
    assert (auto.smoothing[:2] < 2 * LEAST).all()
    assert auto.smoothing[2] > 100
    seen = plain.propensities > 0.0
    assert auto.never_shown == plain.never_shown == 9000 - seen.sum() - 30 * (log.sessions == 0).sum()
    assert (auto.propensities[~seen] == 0.0).all()
    off = [np.abs(np.log(found.propensities[seen] / true[seen])).mean() for found in (plain, auto)]
    assert off[0] > 1.0
    assert off[1] < 0.1


def test_cells_of_several_policies_come_together():
    one = [
        simulate(DATA, SCORES, PlackettLuce(3), THETA, sessions=50, seed=s, policy_name=n)
        for s, n in ((1, "a"), (2, "b"))
    ]
    both = ClickCounts.concat(one)
    nameless = ClickCounts.concat([simulate(DATA, SCORES, PlackettLuce(3), THETA, sessions=50, seed=s) for s in (1, 2)])
    for smoothing in (0.0, 3.0, "auto"):
        found = [propensity_from_log(log, THETA, smoothing=smoothing) for log in (both, nameless)]
        assert found[0].propensities == pytest.approx(found[1].propensities)
        assert found[0].standard_errors == pytest.approx(found[1].standard_errors, nan_ok=True)
        assert found[0].smoothing == pytest.approx(found[1].smoothing)


def test_fixed_pages_keep_their_frequencies_and_the_rest_its_warning():
    log = simulate(DATA, SCORES, Deterministic(3), THETA, sessions=1000, propensities=False)
    found = propensity_from_log(log, THETA, smoothing="auto")
    assert found.never_shown == 17 - 6
    true = Deterministic(3).propensity(SCORES, OFFSETS, cr.examination.Examination(THETA))
    assert found.propensities == pytest.approx(true, rel=1e-4)
    with pytest.warns(CoverageWarning, match="11 of 17 candidates"):
        estimators.policy_aware(log, found.propensities)


def test_counts_without_candidates_have_frequencies():
    log = count([3], [(0, (0, 1), set()), (0, (2, 0), set())])
    fields = {name: getattr(log, name) for name in ("offsets", "sessions", "docs", "ranks", "impressions", "clicks")}
    seen = ClickCounts(SHOWN_ONLY + "x", **fields)
    assert propensity_from_log(seen, THETA).propensities.tolist() == [0.75, 0.25, 0.5]
    for smoothing in (1.0, "auto"):
        with pytest.raises(CounterrankError, match="clicks: counted without ranking data"):
            propensity_from_log(seen, THETA, smoothing=smoothing)


def test_an_empty_log():
    log = count([3, 1], [])
    found = propensity_from_log(log, THETA, confidence=0.95)
    assert found.propensities.tolist() == found.lower.tolist() == [0.0] * 4
    assert found.never_shown == 0


LOG = count([3], [(0, (0, 1), set())])


@pytest.mark.parametrize(
    ("log", "more", "message"),
    [
        ("log", {}, "clicks: str; expected ClickCounts"),
        (LOG, {"smoothing": -1.0}, "smoothing=-1.0: expected a number of at least 0"),
        (LOG, {"smoothing": "some"}, "smoothing='some': expected a number of at least 0"),
        (LOG, {"smoothing": True}, "smoothing=True: expected a number of at least 0"),
        (LOG, {"smoothing": float("nan")}, "smoothing=nan: expected a number of at least 0"),
        (LOG, {"smoothing": "auto"}, 'smoothing="auto": no query has several sessions'),
        (LOG, {"confidence": 1.0}, "confidence=1.0: expected a number from 0.5 to below 1"),
        (LOG, {"confidence": 0.1}, "confidence=0.1: expected a number"),
        (LOG, {"confidence": "high"}, "confidence='high': expected a number"),
        (LOG, {"confidence": 0.9, "smoothing": 1.0}, "smoothing: given together with confidence"),
    ],
)
def test_bad_input(log, more, message):
    with pytest.raises(CounterrankError, match=message):
        propensity_from_log(log, THETA, **more)
