"""Doubly robust estimates from clicks: by hand, against reference implementations, and what is refused."""

import warnings
from dataclasses import asdict, replace
from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterrank.clicks import ClickCounts
from counterrank.clicks.examination import Examination
from counterrank.estimators import doubly_robust
from counterrank.evaluation import IntervalWarning, compare, estimate, select
from counterrank.evaluation.weighted_clicks import Method, weight_clicks, worst_factor
from tests.evaluation.test_estimate import (
    CLICKS,
    DATA,
    METRICS,
    RHO,
    SCORES,
    close,
    half,
    make_clicks,
    make_data,
    paged_worlds,
    quietly,
    worlds,
)
from tests.reference import doubly_robust as naive_doubly_robust
from tests.reference import estimate as naive_estimate

pytestmark = [
    pytest.mark.filterwarnings("ignore::counterrank.evaluation.IntervalWarning"),
    pytest.mark.filterwarnings("ignore:exam implies"),  # the worlds by hand are no samples of a policy
]
EXAM = [1.0, 0.5, 0.3, 0.2]
RELEVANCE = [0.5, 0.2, 0.4, 0.1, 0.8]
DR = {"method": "dr", "relevance": RELEVANCE, "exam": EXAM}


def test_by_hand():
    found = estimate(SCORES, DATA, CLICKS, RHO, METRICS, population="these-queries", **DR)
    first = [10 * 0.5 + (4 - 10 * 0.5), 10 * 0.2 + (1 - 5 * 0.1) / 0.25, 10 * 0.4 + (2 - 5 * 0.2) / 0.25]
    second = [5 * 0.1 + (0 - 5 * 0.1), 5 * 0.8]  # the last was never shown
    total = sum(first) + sum(second)
    # ranks 3, 1, 2, and 1.5 twice
    tied = (1 + 1 / log2(3)) / 2
    assert found["arp"].self_normalized == close(
        (3 * first[0] + first[1] + 2 * first[2] + 1.5 * second[0] + 1.5 * second[1]) / total
    )
    worth = first[0] / 2 + first[1] + first[2] / log2(3) + tied * (second[0] + second[1])
    assert found["dcg"].ips == found["dcg"].per_session == close(worth / 15)
    assert found["dcg"].self_normalized == close(worth / total)
    assert found["dcg"].per_session_interval == found["dcg"].ips_interval
    for each in found.values():
        assert each.method == "dr"
        assert (each.n_queries, each.n_sessions, each.n_clicks) == (2, 15, 7)
        assert each.effective_sample_size == close(16**2 / (4 * 1 + 1 * 4**2 + 2 * 4**2))  # of the clicks
    assert estimate(SCORES, DATA, CLICKS, RHO, ["arp"])["arp"].method == "ips"


def test_weights_are_those_of_the_estimator():
    """One document after another on top of its query, the other query all ties: dcg@1 is its weight."""
    weights = doubly_robust(CLICKS, RHO, RELEVANCE, exam=EXAM)
    for doc in range(5):
        scores = np.zeros(5)
        scores[doc] = 1.0
        worth = weights[doc] + (weights[3:] if doc < 3 else weights[:3]).mean()  # ties share the first rank
        found = quietly(estimate, scores, DATA, CLICKS, RHO, ["dcg@1"], **DR)["dcg@1"]
        assert found.ips == close(worth / 15)


@st.composite
def relevances(draw, n):
    return draw(st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0]), min_size=n, max_size=n))


@settings(max_examples=50, deadline=None)
@given(worlds(), st.sampled_from(METRICS), st.sampled_from([None, (0.1, 0.7)]), st.data())
def test_against_adding_up_impression_by_impression(world, metric, noise, data_of):
    data, clicks, rho, scores, _ = world
    relevance = data_of.draw(relevances(data.n_docs))
    options = {"noise": noise, "population": "these-queries", "method": "dr", "relevance": relevance, "exam": EXAM}
    found = quietly(estimate, scores, data, clicks, rho, [metric], **options)[metric]
    value = naive_estimate.values(metric, scores, data.offsets)
    sums = naive_doubly_robust.query_sums(value, clicks, rho, relevance, EXAM, noise)
    sessions, omega, terms = map(sum, zip(*sums, strict=True))
    scale = 1.0 if noise is None else noise[1] - noise[0]
    # square roots of what is 0 but for rounding, with weights of 100
    near = {"rel": 1e-6, "abs": 1e-4}
    if metric != "arp":
        assert found.ips == pytest.approx(terms / sessions, rel=1e-9, abs=1e-9)
        width = naive_doubly_robust.click_width(value, 0.0, clicks, rho, relevance, EXAM) / scale / sessions
        assert half(found.ips_interval) == pytest.approx(width, **near)
    if omega > 0.1:
        assert found.self_normalized == pytest.approx(terms / omega, rel=1e-7, abs=1e-7)
        width = naive_doubly_robust.click_width(value, terms / omega, clicks, rho, relevance, EXAM) / scale / omega
        assert half(found.self_normalized_interval) == pytest.approx(width, **near)


@settings(max_examples=40, deadline=None)
@given(worlds(), st.sampled_from(METRICS), st.data())
def test_how_far_ranks_may_vary_together(world, metric, data_of):
    data, clicks, rho, scores, _ = world
    relevance = data_of.draw(relevances(data.n_docs))
    value = np.array(naive_estimate.values(metric, scores, data.offsets))
    weighed = quietly(weight_clicks, data, clicks, rho, None, 1, Method("dr", relevance, EXAM))
    expected = naive_doubly_robust.worst_factor(value, 0.3, clicks, rho, relevance, EXAM)
    if naive_doubly_robust.click_variance(value, 0.3, clicks, rho, relevance, EXAM) > 1e-6:
        assert worst_factor(weighed, value[:, None], np.array([0.3]))[0] == pytest.approx(expected, rel=1e-4)


@settings(max_examples=40, deadline=None)
@given(paged_worlds(), st.sampled_from(METRICS), st.data())
def test_against_adding_up_page_by_page(world, metric, data_of):
    data, clicks, rho, scores = world
    relevance = data_of.draw(relevances(data.n_docs))
    options = {"population": "these-queries", "method": "dr", "relevance": relevance, "exam": EXAM}
    found = quietly(estimate, scores, data, clicks, rho, [metric], **options)[metric]
    value = naive_estimate.values(metric, scores, data.offsets)
    sums = naive_doubly_robust.query_sums(value, clicks, rho, relevance, EXAM)
    ratios = [(found.ips_interval, 0.0, clicks.n_sessions)]
    if found.self_normalized is not None and sum(row[1] for row in sums) > 0.1:
        ratios.append((found.self_normalized_interval, found.self_normalized, sum(row[1] for row in sums)))
    for interval, centre, below in ratios:
        if interval is not None:
            width = naive_doubly_robust.page_width(value, centre, clicks, rho, relevance, EXAM) / below
            assert half(interval) == pytest.approx(width, rel=1e-5, abs=1e-3)


@settings(max_examples=30, deadline=None)
@given(worlds(), st.sampled_from(METRICS[1:]), st.integers(0, 99), st.data())
def test_against_resampling_query_by_query(world, metric, seed, data_of):
    data, clicks, rho, scores, _ = world
    relevance = data_of.draw(relevances(data.n_docs))
    options = {"method": "dr", "relevance": relevance, "exam": EXAM, "replicates": 100, "seed": seed}
    found = quietly(estimate, scores, data, clicks, rho, [metric], **options)[metric]
    value = naive_estimate.values(metric, scores, data.offsets)
    sums = naive_doubly_robust.query_sums(value, clicks, rho, relevance, EXAM)
    sessions, _, terms = map(np.array, zip(*sums, strict=True))
    rest = terms - terms.sum() / sessions.sum() * sessions
    if len(terms) > 1 and (np.abs(rest) > 1e-6).any():
        expected = naive_estimate.bootstrap_width(terms, sessions, 0.95, 100, seed)
        assert half(found.ips_interval) == (None if expected is None else pytest.approx(expected, rel=1e-4))


@settings(max_examples=30, deadline=None)
@given(worlds(), st.sampled_from(["queries", "these-queries"]))
def test_without_predictions_it_is_ips_to_the_last_bit(world, population):
    data, clicks, rho, a, b = world
    nothing = {"method": "dr", "relevance": np.zeros(data.n_docs), "exam": EXAM}
    for function, scores in ((estimate, (a,)), (compare, (a, b))):
        given = *scores, data, clicks, rho, METRICS
        plain = quietly(function, *given, population=population, replicates=100)
        found = quietly(function, *given, population=population, replicates=100, **nothing)
        for name in METRICS:
            # a model, even of nothing, predicts documents that the clicks do not cover
            doubts = tuple(text.replace("ips", "dr") for text in plain[name].doubts if "do not cover" not in text)
            assert asdict(found[name]) == asdict(plain[name]) | {"method": "dr", "doubts": doubts, "uncovered": 0.0}


def test_where_every_page_is_the_same_the_model_cancels():
    """What was shown is then what is expected, so that there is no chance of it to be taken off."""
    data = make_data([3] * 20)
    cells = [(d, 1 + d % 3, 8, (5 * d) % 8) for d in range(60)]
    clicks, rho = make_clicks(data, [8] * 20, cells), np.tile(EXAM[:3], 20)
    scores, relevance = np.random.default_rng(0).random((2, 60))
    plain = estimate(scores, data, clicks, rho, METRICS, population="these-queries")
    found = estimate(
        scores, data, clicks, rho, METRICS, population="these-queries", method="dr", relevance=relevance, exam=EXAM
    )
    for name in METRICS:
        assert found[name].self_normalized == close(plain[name].self_normalized)
        if name != "arp":
            assert found[name].ips_interval[0] == pytest.approx(plain[name].ips_interval[0], rel=0.1)


def test_compare_is_the_difference():
    other = [0.0, 1.0, 5.0, 2.0, 1.0]
    found = compare(SCORES, other, DATA, CLICKS, RHO, METRICS, **DR)
    one, two = (estimate(scores, DATA, CLICKS, RHO, METRICS, **DR) for scores in (SCORES, other))
    for name in METRICS:
        assert found[name].method == "dr"
        assert found[name].self_normalized == close(one[name].self_normalized - two[name].self_normalized)


def test_logged_propensities():
    cells = [(0, 1, 10, 4), (1, 2, 5, 1), (1, 3, 5, 1)]
    clicks = make_clicks(DATA, [10, 5], cells, propensities=[1.0, 0.25, 0.25])
    found = estimate(SCORES, DATA, clicks, metrics=["arp"], **DR)["arp"]
    omega = [4.0, 2 + (1 - 5 * 0.1) / 0.25 + (1 - 5 * 0.06) / 0.25, 4.0, 0.5, 4.0]
    assert found.self_normalized == close(np.dot(omega, [3, 1, 2, 1.5, 1.5]) / sum(omega))
    noisy = estimate(SCORES, DATA, clicks, metrics=["dcg"], noise=(0.1, 0.9), **DR)["dcg"]  # needs no rho here
    assert noisy.ips == close(
        sum(
            (w - 0.1 * n) / 0.8 * v
            for w, n, v in zip(
                omega, [10, 10, 10, 5, 5], naive_estimate.values("dcg", SCORES, DATA.offsets), strict=True
            )
        )
        / 15
    )


def test_what_no_click_can_correct_is_doubted():
    """Documents that cannot be seen keep the predicted relevance, and there is no warning that they count for 0."""
    rho = [1.0, 0.25, 0.25, 1.0, 0.0]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = estimate(SCORES, DATA, CLICKS, rho, ["dcg", "dcg@1"], **DR)
    assert [warning.category for warning in caught if "exam" not in str(warning.message)] == [IntervalWarning]
    assert {warning.filename for warning in caught} == {__file__}
    # 5 sessions with R = 0.8 at rank 1.5, of 10 with 0.5, 0.2 and 0.4 at ranks 3, 1 and 2, and 5 with 0.1
    tied = (1 + 1 / log2(3)) / 2
    share = 4 * tied / (5 / 2 + 2 + 4 / log2(3) + 4.5 * tied)
    text = f"dr is predicted to {100 * share:.2g} % for documents with a propensity of 0, which no click can correct"
    assert any(doubt.startswith(text) for doubt in found["dcg"].doubts)
    clicks = replace(CLICKS, propensities=np.array([1.0, 0.25, 0.25, 1.0]), unexaminable=np.array([4]))
    logged = estimate(SCORES, DATA, clicks, metrics=["dcg"], **DR)["dcg"]
    assert any(doubt.startswith(text) for doubt in logged.doubts)
    unasked = [1.0, 0.25, 0.25, 1.0, 0.5]
    assert not any("predicted" in doubt for doubt in estimate(SCORES, DATA, CLICKS, unasked, **DR)["dcg@5"].doubts)


LONELY = ClickCounts(CLICKS.identity, CLICKS.offsets, np.array([10, 0]), *(np.array([x]) for x in (0, 1, 10, 4)))
BAD = [
    ({"method": "best"}, "method='best': expected one of 'ips', 'dr'"),
    ({"method": None}, "method=None: expected one of"),
    ({"method": "ips"}, "relevance: given, but method='ips' does not use it; expected method='dr'"),
    ({"exam": None}, "exam: None, and the clicks do not hold the curve .* method='dr' requires P"),
    ({"exam": [1.0]}, "exam: 0 at rank 2, where there are clicks; expected .* up to rank 2"),
    ({"exam": [0.0, 0.0]}, "examination: 0 at every rank"),
    ({"exam": [1.0, 1.5]}, "examination: 1.5 at rank 2; expected probabilities from 0 to 1"),
    ({"exam": []}, "examination: no values"),
    ({"relevance": [0.5]}, "relevance: 1 entries; expected 5"),
    ({"relevance": [0.5, 0.2, np.nan, 0.1, 0.8]}, "relevance: entry 2 is nan"),
    ({"relevance": [0.5, 0.2, 0.4, 0.1, 1.5]}, "relevance: 1.5 for document 1 of query 1; expected P.click . examined"),
    ({"relevance": None, "clicks": LONELY}, "clicks: sessions of 1 query; expected at least two"),
    ({"rho": [1.0, 0.0, 0.25, 1.0, 1.0]}, "rho: 0 for 1 click on 1 document"),
    ({"noise": (0.5, 0.5)}, "noise=.*: expected a pair"),
]


@pytest.mark.parametrize(("changed", "message"), BAD)
def test_bad_input(changed, message):
    given = {"data": DATA, "clicks": CLICKS, "rho": RHO, **DR} | changed
    for function, scores in ((estimate, (SCORES,)), (compare, (SCORES, SCORES)), (select, ([SCORES],))):
        with pytest.raises(ValueError, match=message):
            function(*scores, **given)


def test_a_curve_of_any_kind():
    curves = (EXAM, Examination(EXAM), np.array(EXAM))
    found = {estimate(SCORES, DATA, CLICKS, RHO, **DR | {"exam": each})["arp"].self_normalized for each in curves}
    assert len(found) == 1
    remembered = replace(CLICKS, examination=Examination(EXAM))
    assert estimate(SCORES, DATA, remembered, RHO, method="dr", relevance=RELEVANCE)["arp"].self_normalized in found
