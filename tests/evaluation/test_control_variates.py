"""Control variates: against a reference, without bias, never much wider, and refused where they cannot be had."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from counterrank.clicks import policies, simulation
from counterrank.clicks.examination import Examination, inverse_rank
from counterrank.data import RankingData
from counterrank.evaluation import compare, estimate, select
from tests.evaluation.test_doubly_robust_intervals import Shop, standard_scores
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
from tests.reference import control_variates as naive
from tests.reference import doubly_robust as naive_doubly_robust
from tests.reference import estimate as naive_estimate

pytestmark = [
    pytest.mark.filterwarnings("ignore::counterrank.evaluation.IntervalWarning"),
    pytest.mark.filterwarnings("ignore:exam implies"),  # the worlds by hand are no samples of a policy
]
EXAM = [1.0, 0.5, 0.3, 0.2]
OPTIMAL = {"control": "optimal", "exam": EXAM}


@pytest.fixture(scope="module")
def shop():
    return Shop()


def test_by_hand():
    """Two queries with two documents each, both shown first in half of the sessions: beta of one is the other's.

    Of the first query 4 and 1 of 10 and 5 impressions are clicked, of the second 3 and 0 of 5 and 5.
    """
    data = make_data([2, 2])
    clicks = make_clicks(data, [15, 10], [(0, 1, 10, 4), (1, 1, 5, 1), (2, 1, 5, 3), (3, 1, 5, 0)])
    found = estimate([1.0, 0.0, 1.0, 0.0], data, clicks, [0.5] * 4, ["dcg@1"], **OPTIMAL)["dcg@1"]
    # worth 2 where the first document is shown, else 0, so Y is 2 with chance 1/2, and X is 2 where it was clicked
    first = np.array([[2, 2]] * 4 + [[0, 2]] * 6 + [[0, 0]] * 5, float)
    second = np.array([[2, 2]] * 3 + [[0, 2]] * 2 + [[0, 0]] * 5, float)
    betas = [own[0, 1] / own[1, 1] for own in (np.cov(second.T), np.cov(first.T))]
    assert betas == [close(3 / 5), close(4 / 10)]
    # of 15 sessions the first document was shown in 10 where 7.5 were expected; of 10 in 5, as expected
    assert found.ips == close((2 * 4 - betas[0] * 2 * (10 - 7.5) + 2 * 3) / 25)
    assert found.control == "optimal"
    assert found.method == "ips"


@settings(max_examples=60, deadline=None)
@given(worlds(), st.sampled_from(METRICS))
def test_against_a_reference(world, metric):
    """It is the doubly robust estimate with R = beta, of value and of interval."""
    data, clicks, rho, scores, _ = world
    assume((clicks.sessions > 0).sum() > 1)
    found = quietly(estimate, scores, data, clicks, rho, [metric], population="these-queries", **OPTIMAL)[metric]
    value = naive_estimate.values(metric, scores, data.offsets)
    rows = naive_estimate.query_sums(value, clicks, rho)
    centre = sum(r[2] for r in rows) / sum(r[1] for r in rows) if sum(r[1] for r in rows) else 0.0
    near = {"rel": 1e-6, "abs": 1e-4}
    for kind, about in (("ips", 0.0), ("self_normalized", centre)):
        relevance = naive.predictions(value, about, clicks, rho, EXAM)
        sums = naive_doubly_robust.query_sums(value, clicks, rho, relevance, EXAM)
        sessions, omega, terms = map(sum, zip(*sums, strict=True))
        below = sessions if kind == "ips" else omega
        own = getattr(found, kind)
        if own is None or (kind == "self_normalized" and omega < 0.1):
            continue
        assert own == pytest.approx(terms / below, rel=1e-6, abs=1e-6)
        about = 0.0 if kind == "ips" else own
        width = naive_doubly_robust.click_width(value, about, clicks, rho, relevance, EXAM) / below
        assert half(getattr(found, f"{kind}_interval")) == pytest.approx(width, **near)


def test_values_that_are_all_the_centre_have_no_control():
    """Their differences to the centre are rounding, of which no beta should be made."""
    data = RankingData(np.zeros((7, 1)), [0, 3, 7])
    clicks, rho = make_clicks(data, [1, 3], [(2, 1, 1, 1)]), [0.0, 0.0, 0.01, 0.0, 0.0, 0.0, 0.01]
    found = quietly(estimate, np.zeros(7), data, clicks, rho, ["precision@3"], **OPTIMAL)["precision@3"]
    assert found.self_normalized == close(1 / 3)


@settings(max_examples=40, deadline=None)
@given(paged_worlds(), st.sampled_from(METRICS[1:]))
def test_against_a_reference_with_pages(world, metric):
    data, clicks, rho, scores = world
    assume((clicks.sessions > 0).sum() > 1)
    found = quietly(estimate, scores, data, clicks, rho, [metric], population="these-queries", **OPTIMAL)[metric]
    value = naive_estimate.values(metric, scores, data.offsets)
    relevance = naive.predictions(value, 0.0, clicks, rho, EXAM, pages=True)
    sums = naive_doubly_robust.query_sums(value, clicks, rho, relevance, EXAM)
    assert found.ips == pytest.approx(sum(row[2] for row in sums) / clicks.n_sessions, rel=1e-6, abs=1e-6)
    width = naive_doubly_robust.page_width(value, 0.0, clicks, rho, relevance, EXAM) / clicks.n_sessions
    assert half(found.ips_interval) == pytest.approx(width, rel=1e-5, abs=1e-3)


def test_a_constant_relevance_is_scaled(shop):
    """Where the click model is the same for all documents, beta makes the same of it as of 1."""
    given_ = shop.one, shop.data, shop.clicks(0), shop.rho, ["dcg@3"]
    plain = quietly(estimate, *given_, control="optimal", population="these-queries")["dcg@3"]
    model = {"method": "dr", "relevance": np.full(480, 0.9)}
    found = quietly(estimate, *given_, control="optimal", population="these-queries", **model)["dcg@3"]
    assert found.ips == pytest.approx(plain.ips, rel=1e-6)
    assert half(found.ips_interval) == pytest.approx(half(plain.ips_interval), rel=1e-6)


def test_compare_is_that_of_the_differences(shop):
    """beta is that of the difference, so the value is not the difference of two estimates, but nearly."""
    given_ = shop.data, shop.clicks(0), shop.rho, ["dcg@3"]
    found = quietly(compare, shop.one, shop.other, *given_, control="optimal")["dcg@3"]
    one, other = (quietly(estimate, s, *given_, control="optimal")["dcg@3"].ips for s in (shop.one, shop.other))
    assert found.ips == pytest.approx(one - other, abs=0.2 * half(found.ips_interval))
    assert found.control == "optimal"
    assert quietly(compare, shop.one, shop.one, *given_, control="optimal")["dcg@3"].ips == 0.0


def test_select_has_one_control_for_all(shop):
    given_ = shop.data, shop.clicks(0), shop.rho, "dcg@3"
    chosen = quietly(select, [shop.other, 2.0 * shop.chance, shop.one], *given_, control="optimal", replicates=100)
    assert chosen.index == 1
    values = [each.self_normalized for each in chosen.estimates]
    assert int(np.argmax(values)) == 1
    assert {each.control for each in chosen.estimates} == {"optimal"}
    assert quietly(select, [shop.one], *given_, control="optimal", replicates=100).index == 0


def test_documents_that_cannot_be_seen_keep_weight_0():
    """As in ips: with relevance 0 in a doubly robust estimate."""
    rho = [1.0, 0.25, 0.25, 1.0, 0.0]
    found = quietly(estimate, SCORES, DATA, CLICKS, rho, ["dcg@1"], **OPTIMAL)["dcg@1"]
    value = naive_estimate.values("dcg@1", SCORES, DATA.offsets)
    relevance = naive.predictions(value, 0.0, CLICKS, rho, EXAM)
    assert relevance[4] == 0.0
    rows = naive_doubly_robust.query_sums(value, CLICKS, rho, relevance, EXAM)
    assert found.ips == close(sum(row[2] for row in rows) / 15)
    assert found.uncovered == quietly(estimate, SCORES, DATA, CLICKS, rho, ["dcg@1"])["dcg@1"].uncovered > 0.0


def test_realised_exposure_has_nothing_to_take_off(shop):
    """Documents were then shown as often as expected; only the interval differs."""
    given_ = shop.one, shop.data, shop.clicks(0), None, ["dcg@3"]
    plain = quietly(estimate, *given_)["dcg@3"]
    found = quietly(estimate, *given_, control="optimal")["dcg@3"]
    assert found.propensities == plain.propensities == "realised"
    assert found.ips == pytest.approx(plain.ips, rel=1e-12)


def test_logged_propensities(shop):
    """The same as with rho: simulated clicks remember what cannot be seen, and all other documents can."""
    options = {"sessions": 1200, "seed": 3}
    clicks = simulation.simulate(shop.data, shop.logging, shop.policy, shop.exam, **options)
    given_ = shop.data, clicks
    with_rho = quietly(estimate, shop.one, *given_, shop.rho, ["dcg@3"], control="optimal")["dcg@3"]
    logged = quietly(estimate, shop.one, *given_, None, ["dcg@3"], control="optimal")["dcg@3"]
    assert logged.ips == pytest.approx(with_rho.ips, rel=1e-9)
    assert logged.ips_interval == pytest.approx(with_rho.ips_interval, rel=1e-9)


def test_noise_is_a_constant(shop):
    given_ = shop.one, shop.data, shop.clicks(0), shop.rho, ["dcg@3"]
    plain, noisy = (quietly(estimate, *given_, control="optimal", noise=n)["dcg@3"] for n in (None, (0.2, 0.9)))
    covered = shop.values[0] @ np.repeat(shop.clicks(0).sessions, 8) / shop.clicks(0).n_sessions
    assert noisy.ips == pytest.approx((plain.ips - 0.2 * covered) / 0.7, rel=1e-9)


def test_threads_and_none_do_not_matter(shop):
    given_ = shop.one, shop.data, shop.clicks(0), shop.rho
    assert quietly(estimate, *given_, control="none") == quietly(estimate, *given_)
    found = [quietly(estimate, *given_, control="optimal", threads=threads) for threads in (1, 3)]
    assert found[0] == found[1]


@pytest.mark.statistical
@pytest.mark.parametrize("method", ["ips", "dr"])
def test_unbiased_where_beta_in_sample_is_not(shop, method):
    """Few sessions: two means of 400 logs, each off by 4.9 standard errors once in 10^6 runs. The model is wrong."""
    misses = []
    model = {"method": "dr", "relevance": 1.0 - shop.chance} if method == "dr" else {}
    for seed in range(400):
        clicks = shop.clicks(seed, each=3)
        given_ = shop.data, clicks, shop.rho, ["dcg@3"]
        options = {"population": "these-queries", "threads": 1, "control": "optimal", **model}
        one = quietly(estimate, shop.one, *given_, **options)["dcg@3"].ips
        two = quietly(compare, shop.one, shop.other, *given_, **options)["dcg@3"].ips
        misses.append(np.array([one, two]) - shop.truth(clicks))
    assert np.abs(standard_scores(np.array(misses))).max() < 4.9


@pytest.mark.statistical
def test_intervals_hold_and_are_narrower(shop):
    """Of 120 over clicks at least 101 hold; at 95 % one of four does not once in 100,000 runs (binomial tail)."""
    held, widths = np.zeros((2, 2), int), np.zeros((4, 2))
    wrong = {"method": "dr", "relevance": 1.0 - shop.chance}
    models = [{}, {"control": "optimal"}, wrong, wrong | {"control": "optimal"}]
    for seed in range(120):
        clicks = shop.clicks(seed, displays=seed % 2 == 0)
        given_ = shop.data, clicks, shop.rho, ["dcg@3"]
        truth = shop.truth(clicks)
        for i, options in enumerate(models):
            settled = {"population": "these-queries", "threads": 1, **options}
            found = [quietly(estimate, shop.one, *given_, **settled)["dcg@3"]]
            found.append(quietly(compare, shop.one, shop.other, *given_, **settled)["dcg@3"])
            for j, each in enumerate(found):
                low, high = each.ips_interval
                widths[i, j] += high - low
                if i % 2:
                    held[i // 2, j] += low <= truth[j] <= high
    assert held.min() >= 101
    assert (widths[1] < widths[0]).all()
    assert (widths[2] > widths[0]).all()  # a wrong model makes intervals wider,
    assert (widths[3] < widths[0]).all()  # unless it counts only as far as it predicts clicks


@pytest.mark.statistical
def test_the_variance_falls_as_foreseen():
    """One rank, two documents shown with 1/10 and 9/10: the variance of X - beta * Y is known.

    Of 1,000 logs of 2 queries with 500 sessions each; the ratio of variances has a standard error of 4.5 %, and is off
    by 22 % once in 10^6 runs.
    """
    data = RankingData(np.zeros((4, 1)), [0, 2, 4], [4.0, 4.0, 4.0, 4.0])
    pages = policies.Explicit([[0], [1]], [0.1, 0.9])
    policy = policies.ExplicitQueries({0: pages, 1: pages})
    exam = Examination([0.8])
    rho = policy.propensity(np.zeros(4), data.offsets, exam)
    values = {"none": [], "optimal": []}
    for seed in range(1000):
        clicks = simulation.simulate(data, np.zeros(4), policy, exam, sessions=1000, seed=seed, propensities=False)
        for control, found in values.items():
            given_ = [1.0, 0.0, 1.0, 0.0], data, clicks, rho, ["dcg@1"]
            found.append(
                quietly(estimate, *given_, population="these-queries", control=control, threads=1)["dcg@1"].ips
            )
    # X is 1 / 0.08 with chance 0.08, and Y 0.8 / 0.08 with chance 0.1, so beta = 1 and Var(X - Y) = E[(X - Y)^2]
    plain = 1 / 0.08 - 1
    left = 0.08 * (12.5 - 10) ** 2 + 0.02 * 10**2
    ratio = np.var(values["optimal"]) / np.var(values["none"])
    assert ratio == pytest.approx(left / plain, rel=0.22)
    for found in values.values():
        assert abs(np.mean(found) - 1.0) < 4.9 * np.std(found) / np.sqrt(len(found))


BAD = [
    ({"control": "best"}, "control='best': expected one of 'none', 'optimal'"),
    ({"control": None}, "control=None: expected one of"),
    ({"exam": None}, "exam: None, and the clicks do not hold the curve .* control='optimal' requires P"),
    ({"exam": [1.0]}, "exam: 0 at rank 2, where there are clicks"),
    ({"clicks": replace(CLICKS, sessions=np.array([10, 0]), docs=CLICKS.docs[:3], ranks=CLICKS.ranks[:3],
                        impressions=CLICKS.impressions[:3], clicks=CLICKS.clicks[:3])},
     "control='optimal': sessions of 1 query; expected at least two"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "message"), BAD)
def test_bad_input(changed, message):
    given_ = {"data": DATA, "clicks": CLICKS, "rho": RHO, **OPTIMAL} | changed
    for function, scores in ((estimate, (SCORES,)), (compare, (SCORES, SCORES[::-1])), (select, ([SCORES],))):
        with pytest.raises(ValueError, match=message):
            quietly(function, *scores, **given_)


def test_another_curve_is_warned_about(shop):
    clicks = shop.clicks(0)
    with pytest.warns(UserWarning, match="were they computed from different curves"):
        estimate(shop.one, shop.data, clicks, shop.rho, ["dcg@3"], control="optimal", exam=inverse_rank(3, eta=0.0))
