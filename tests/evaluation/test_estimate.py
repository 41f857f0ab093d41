"""Estimates from clicks: worked by hand, against reference implementations, and what they are in expectation."""

import warnings
from dataclasses import replace
from functools import partial
from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterrank.clicks import ClickCounts
from counterrank.clicks.policies import ReplaceLast
from counterrank.data import RankingData
from counterrank.data.ids import identity
from counterrank.evaluation import compare, estimate, evaluate, plan_logging, select
from counterrank.evaluation.confidence_intervals import _student
from tests.reference import estimate as naive_estimate
from tests.support.click_counts import from_pages, simulate

pytestmark = pytest.mark.filterwarnings("ignore::counterrank.evaluation.IntervalWarning")
METRICS = ("arp", "dcg", "dcg@2", "precision@3")


def make_data(lengths, labels=None):
    return RankingData(np.zeros((sum(lengths), 1)), np.cumsum([0, *lengths]), labels)


def make_clicks(data, sessions, cells, propensities=None):
    """Counts from rows (document, rank, impressions, clicks)."""
    columns = np.array(sorted(cells), np.int64).reshape(-1, 4).T
    logged = None if propensities is None else np.asarray(propensities, float)
    return ClickCounts(identity(data), data.offsets, np.asarray(sessions), *columns.copy(), propensities=logged)


def close(value):
    return pytest.approx(value, rel=1e-12, abs=1e-12)


# two queries of three and two documents; the second has sessions without a click
DATA = make_data([3, 2])
CLICKS = make_clicks(DATA, [10, 5], [(0, 1, 10, 4), (1, 2, 5, 1), (2, 2, 5, 2), (3, 1, 5, 0)])
RHO = [1.0, 0.25, 0.25, 1.0, 0.5]
SCORES = [1.0, 3.0, 2.0, 0.0, 0.0]


def test_by_hand():
    found = estimate(SCORES, DATA, CLICKS, RHO, METRICS, population="these-queries")
    # weights 4 / 1, 1 / 0.25, 2 / 0.25 at ranks 3, 1, 2
    assert found["arp"].self_normalized == close((4 * 3 + 4 * 1 + 8 * 2) / 16)
    assert found["arp"].ips is None
    assert found["arp"].ips_interval is None
    assert found["dcg"].ips == close((4 / 2 + 4 / 1 + 8 / log2(3)) / 15)
    assert found["dcg@2"].ips == close((4 / 1 + 8 / log2(3)) / 15)
    assert found["dcg@2"].self_normalized == close((4 / 1 + 8 / log2(3)) / 16)
    assert found["precision@3"].self_normalized == close(1 / 3)
    for each in found.values():
        assert each.effective_sample_size == close(16**2 / (4 * 1 + 1 * 4**2 + 2 * 4**2))
        assert each.largest_share == close(4 / 16)
        assert (each.n_queries, each.n_sessions, each.n_clicks) == (2, 15, 7)
        assert (each.population, each.target, each.confidence) == ("these-queries", "these-queries", 0.95)


def test_noise_by_hand():
    found = estimate(SCORES, DATA, CLICKS, RHO, ["arp", "dcg@1"], noise=(0.1, 0.9), population="these-queries")
    # each document loses 0.1 a session: 4 - 1, 4 - 1, 8 - 1 and twice 0 - 0.5, the last two tied on ranks 1 and 2
    total = (3 + 3 + 7 - 0.5 - 0.5) / 0.8
    assert found["arp"].self_normalized == close((3 * 3 + 3 * 1 + 7 * 2 - 0.5 * 1.5 - 0.5 * 1.5) / 0.8 / total)
    assert found["dcg@1"].ips == close((3 * 1 - 0.5 * 0.5 - 0.5 * 0.5) / 0.8 / 15)


def test_noise_leaves_documents_alone_that_cannot_be_seen():
    rho = [1.0, 0.25, 0.25, 1.0, 0.0]
    with pytest.warns(UserWarning, match="propensity of 0"):
        found = estimate(SCORES, DATA, CLICKS, rho, ["arp"], noise=(0.1, 0.9))
    assert found["arp"].self_normalized == close((3 * 3 + 3 * 1 + 7 * 2 - 0.5 * 1.5) / (3 + 3 + 7 - 0.5))


def test_variance_by_hand():
    """Ten sessions; rank 1 has four clicks worth 1/2 each, rank 2 one worth 4 and two worth 4 / log2(3)."""
    found = estimate(SCORES, DATA, CLICKS, RHO, ["dcg"], population="these-queries", confidence=0.95)["dcg"]
    first, second = [1 / 2] * 4 + [0] * 6, [4, 4 / log2(3), 4 / log2(3)] + [0] * 7
    error = np.sqrt(10 * np.var(first, ddof=1) + 10 * np.var(second, ddof=1)) / 15
    low, high = found.ips_interval
    # Student's t with 2 * (sum of squares)^2 / sum of fourth powers = 5.24 degrees of freedom is 2.5355
    squares, fourths = (sum(x**p for x in first + second) for p in (2, 4))
    assert 2 * squares**2 / fourths == pytest.approx(5.24, abs=0.005)
    assert (high - low) / 2 == pytest.approx(2.5355 * error, rel=5e-3)
    assert (low + high) / 2 == close(found.ips)


def test_variance_over_pages_by_hand():
    """Pages shown once each: the sample variance of what their clicks are worth together, a page without one too."""
    pages = [([0, 1], 1, [1, 1]), ([0, 2], 1, [1, 0]), ([0, 1], 1, [0, 0]), ([0, 2], 1, [1, 1])]
    clicks = from_pages(DATA, [*pages, ([3, 4], 1, [0, 1])])
    found = estimate(SCORES, DATA, clicks, RHO, ["dcg"], population="these-queries")["dcg"]
    worth = [1 / 2 + 4, 1 / 2, 0.0, 1 / 2 + 4 / log2(3)]
    single = 2 * (1 + 1 / log2(3)) / 2
    error = np.sqrt(4 * np.var(worth, ddof=1) + single**2) / 5
    freedom = (4 * np.var(worth, ddof=1) + single**2) ** 2 / ((4 * np.var(worth, ddof=1)) ** 2 / 3 + single**4)
    assert half(found.ips_interval) == pytest.approx(error * float(_student(0.95, np.array(freedom))), rel=1e-9)


@st.composite
def paged_worlds(draw):
    """Some queries with some pages, shown once or often, clicked at random."""
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    data = make_data(lengths)
    pages = []
    for q, length in enumerate(lengths):
        start = int(data.offsets[q])
        for _ in range(draw(st.integers(0 if q else 1, 3))):
            page = draw(st.permutations(range(start, start + length)))[: draw(st.integers(1, length))]
            shown = draw(st.sampled_from([1, 1, 2, 9]))
            pages.append((page, shown, [draw(st.integers(0, shown)) for _ in page]))
    rho = draw(st.lists(st.sampled_from([0.01, 0.2, 0.5, 1.0]), min_size=data.n_docs, max_size=data.n_docs))
    scores = draw(st.lists(st.integers(-2, 2), min_size=data.n_docs, max_size=data.n_docs))
    return data, from_pages(data, pages), rho, scores


@settings(max_examples=60, deadline=None)
@given(paged_worlds(), st.sampled_from(METRICS))
def test_against_adding_up_page_by_page(world, metric):
    data, clicks, rho, scores = world
    found = quietly(estimate, scores, data, clicks, rho, [metric], population="these-queries")[metric]
    value = naive_estimate.values(metric, scores, data.offsets)
    ratios = {"ips": (found.ips_interval, 0.0, clicks.n_sessions)}
    if found.self_normalized is not None:
        omega = sum(1 / propensity for *_, propensity in naive_estimate.each_click(clicks, rho))
        ratios["sn"] = found.self_normalized_interval, found.self_normalized, omega
    for interval, centre, below in ratios.values():
        if interval is not None:
            width = naive_estimate.page_width(value, centre, clicks, rho) / below
            assert half(interval) == pytest.approx(width, rel=1e-6, abs=1e-5)


def test_logged_propensities_are_those_of_the_cells():
    cells = [(0, 1, 10, 4), (1, 2, 5, 1), (1, 3, 5, 1)]
    clicks = make_clicks(DATA, [10, 5], cells, propensities=[1.0, 0.25, 0.25])
    found = estimate(SCORES, DATA, clicks, metrics=["arp"], population="these-queries")["arp"]
    assert found.self_normalized == close((4 * 3 + (4 + 4) * 1) / 12)
    assert found.effective_sample_size == close(12**2 / (4 + 16 + 16))


def test_ties_in_document_order():
    clicks = make_clicks(DATA, [1, 5], [(3, 1, 5, 2), (4, 2, 5, 1)])
    found = {ties: estimate(SCORES, DATA, clicks, RHO, ["arp"], ties=ties)["arp"] for ties in ("average", "order")}
    assert found["average"].self_normalized == close((2 * 1.5 + 2 * 1.5) / 4)
    assert found["order"].self_normalized == close((2 * 1 + 2 * 2) / 4)


def test_no_clicks_at_all():
    clicks = make_clicks(DATA, [10, 5], [(0, 1, 10, 0)])
    with pytest.warns(UserWarning, match="the weights of all documents sum to 0, not above 0; it is None"):
        found = estimate(SCORES, DATA, clicks, RHO)
    assert found["dcg@5"].ips == 0.0
    for each in found.values():
        assert each.self_normalized is None
        assert each.self_normalized_interval is None
        assert (each.effective_sample_size, each.largest_share, each.n_clicks) == (0.0, 0.0, 0)


def test_noise_beyond_the_clicks():
    with pytest.warns(UserWarning, match="not above 0; it is None"):
        found = estimate(SCORES, DATA, CLICKS, RHO, noise=(0.5, 1.0))
    assert found["dcg@5"].self_normalized is None
    assert found["dcg@5"].ips is not None


@st.composite
def worlds(draw):
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=6))
    data = make_data(lengths)
    n = data.n_docs
    sessions = draw(st.lists(st.sampled_from([0, 1, 1, 2, 7, 40]), min_size=len(lengths), max_size=len(lengths)))
    sessions[draw(st.integers(0, len(lengths) - 1))] = 3
    rho = draw(st.lists(st.sampled_from([0.0, 0.01, 0.2, 0.5, 1.0]), min_size=n, max_size=n))
    cells, used = [], np.zeros((len(lengths), 4), int)
    for q, length in enumerate(lengths):
        for place in range(length):
            doc = int(data.offsets[q]) + place
            for rank in draw(st.sets(st.integers(1, 3), max_size=2)) if rho[doc] else ():
                room = sessions[q] - used[q, rank]
                shown = draw(st.integers(0, room))
                used[q, rank] += shown
                if shown:
                    cells.append((doc, rank, shown, draw(st.integers(0, shown))))
    scores = draw(st.lists(st.integers(-2, 2), min_size=n, max_size=n))
    other = draw(st.lists(st.integers(-2, 2), min_size=n, max_size=n))
    return data, make_clicks(data, sessions, cells), rho, scores, other


def quietly(function, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **options)


def half(interval):
    return None if interval is None else (interval[1] - interval[0]) / 2


@settings(max_examples=60, deadline=None)
@given(worlds(), st.sampled_from(METRICS), st.sampled_from([None, (0.0, 1.0), (0.1, 0.7)]), st.booleans())
def test_against_adding_up_click_by_click(world, metric, noise, averaged):
    data, clicks, rho, scores, _ = world
    ties = "average" if averaged else "order"
    options = {"noise": noise, "ties": ties, "population": "these-queries"}
    found = quietly(estimate, scores, data, clicks, rho, [metric], **options)[metric]
    value = naive_estimate.values(metric, scores, data.offsets, ties)
    sessions, omega, terms = map(sum, zip(*naive_estimate.query_sums(value, clicks, rho, noise), strict=True))
    scale = 1.0 if noise is None else noise[1] - noise[0]
    ess, share = naive_estimate.kish(clicks, rho)
    assert (found.effective_sample_size, found.largest_share) == (close(ess), close(share))
    assert found.n_sessions == sessions
    near = {"rel": 1e-9, "abs": 1e-9}
    if metric != "arp":
        assert found.ips == pytest.approx(terms / sessions, **near)
        width = naive_estimate.click_width(value, 0.0, clicks, rho) / scale / sessions
        # the square root of a variance that is 0 but for rounding
        assert half(found.ips_interval) == pytest.approx(width, rel=1e-6, abs=1e-5)
    if omega > 1e-9:
        assert found.self_normalized == pytest.approx(terms / omega, **near)
        width = naive_estimate.click_width(value, terms / omega, clicks, rho) / scale / omega
        assert half(found.self_normalized_interval) == pytest.approx(width, rel=1e-6, abs=1e-5)


@settings(max_examples=60, deadline=None)
@given(worlds(), st.sampled_from(METRICS), st.sampled_from([None, (0.1, 0.7)]), st.integers(0, 99))
def test_against_resampling_query_by_query(world, metric, noise, seed):
    data, clicks, rho, scores, _ = world
    found = quietly(estimate, scores, data, clicks, rho, [metric], noise=noise, replicates=100, seed=seed)[metric]
    value = naive_estimate.values(metric, scores, data.offsets)
    sessions, omega, terms = map(np.array, zip(*naive_estimate.query_sums(value, clicks, rho, noise), strict=True))
    for interval, belows in ((found.ips_interval, sessions), (found.self_normalized_interval, omega)):
        rest = terms - terms.sum() / belows.sum() * belows if belows.sum() > 1e-9 else np.zeros(1)
        if len(terms) == 1:
            assert interval is None
        elif (np.abs(rest) > 1e-6).any() and not (metric == "arp" and belows is sessions):
            # where resamples are equal but for rounding, the order of these decides
            moved = terms * (1.0 + 1e-13 * np.arange(len(terms)))
            widths = [naive_estimate.bootstrap_width(each, belows, 0.95, 100, seed) for each in (terms, moved)]
            assert half(interval) in [None if each is None else pytest.approx(each, rel=1e-4) for each in widths]


@settings(max_examples=40, deadline=None)
@given(worlds(), st.sampled_from([None, (0.1, 0.7)]), st.sampled_from(["queries", "these-queries"]))
def test_compare_is_the_difference(world, noise, population):
    data, clicks, rho, a, b = world
    options = {"noise": noise, "population": population, "replicates": 100}
    one, other, back = (
        quietly(compare, *pair, data, clicks, rho, METRICS, **options) for pair in ((a, b), (a, a), (b, a))
    )
    first, second = (quietly(estimate, s, data, clicks, rho, METRICS, **options) for s in (a, b))
    for name in METRICS:
        for field in ("ips", "self_normalized"):
            values = [getattr(found[name], field) for found in (one, first, second, other, back)]
            if values[1] is None:
                assert values == [None] * 5
            else:
                assert values[0] == pytest.approx(values[1] - values[2], rel=1e-9, abs=1e-7)
                assert values[3] == 0.0
                assert values[4] == pytest.approx(-values[0], abs=1e-12)


def expected_world(e0, e1, seed=0):
    """Clicks exactly as often as they are expected: sessions * rho * P(click | examined) are whole numbers."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, 30)
    labels = rng.choice([0, 0, 0, 4], lengths.sum())
    data = make_data(lengths.tolist(), labels)
    sessions = 80 * rng.integers(0, 6, 30)
    rho = rng.choice([1.0, 0.5, 0.25], data.n_docs)
    clicked = np.where(labels >= 3, e1, e0) * rho * np.repeat(sessions, lengths)
    assert np.allclose(clicked, clicked.round())
    shown = np.repeat(sessions, lengths)
    cells = [
        (d, 1 + d % 2, int(n), round(c)) for d, (n, c) in enumerate(zip(shown.tolist(), clicked.tolist(), strict=True))
    ]
    return data, make_clicks(data, sessions, cells), rho, sessions


@pytest.mark.parametrize(("e0", "e1"), [(0.0, 1.0), (0.1, 1.0), (0.2, 0.7)])
def test_expectations_are_the_same_affine_function_of_the_label_metric_for_all_rankers(e0, e1):
    """By the contract; with noise=(e0, e1) it is the label metric itself."""
    data, clicks, rho, sessions = expected_world(e0, e1)
    rng = np.random.default_rng(1)
    seen = []
    for _ in range(6):
        scores = np.round(2 * rng.standard_normal(data.n_docs))
        labels = evaluate(scores, data, metrics=METRICS, query_weights=sessions, empty="zero")
        found = quietly(estimate, scores, data, clicks, rho, METRICS, population="these-queries")
        clean = quietly(estimate, scores, data, clicks, rho, METRICS, noise=(e0, e1), population="these-queries")
        assert clean["arp"].self_normalized == pytest.approx(labels["arp"], rel=1e-9)
        for name in METRICS[1:]:
            assert clean[name].ips == pytest.approx(labels[name], rel=1e-9)
        seen.append([(labels[name], found[name]) for name in METRICS])
    for m, name in enumerate(METRICS):
        label = np.array([row[m][0] for row in seen])
        own = np.array([row[m][1].self_normalized for row in seen])
        slope = np.polyfit(label, own, 1)[0]
        assert slope > 0
        assert np.allclose(np.diff(own), slope * np.diff(label), rtol=0, atol=1e-9), name
        assert (np.argsort(label) == np.argsort(own)).all()
        if name != "arp":
            plain = np.array([row[m][1].ips for row in seen])
            assert np.diff(plain) == pytest.approx((e1 - e0) * np.diff(label), abs=1e-9)


@pytest.mark.statistical
def test_click_noise_leaves_the_order_of_rankers_unbiased():
    """The mean of 400 noisy logs, against the expected difference; missed once in 10^5 runs (4.4 standard errors)."""
    rng = np.random.default_rng(0)
    data = make_data([8] * 40, np.tile([4, 0, 0, 0, 4, 0, 0, 0], 40))
    chance = np.where(data.labels >= 3, 0.7, 0.2)
    logging, a, b = rng.standard_normal((3, data.n_docs))
    theta, sessions = np.array([1.0, 0.5, 0.25]), np.full(40, 30)
    order = naive_estimate.order_of(logging, data.offsets).reshape(40, 8)
    rho = np.full(data.n_docs, 0.25 / 6)
    rho[order[:, 0]], rho[order[:, 1]] = 1.0, 0.5
    better, worse = 0.3 * data.labels + a, b
    high, low = (evaluate(scores, data, metrics=["dcg@5"], empty="zero")["dcg@5"] for scores in (better, worse))
    found = []
    for seed in range(400):
        clicks = simulate(data, logging, naive_estimate.EPSILON, theta, chance, sessions, seed)
        options = {"population": "these-queries", "threads": 1}
        found.append(quietly(compare, better, worse, data, clicks, rho, ["dcg@5"], **options)["dcg@5"].ips)
    assert np.mean(found) == pytest.approx(0.5 * (high - low), abs=4.4 * np.std(found) / 20)
    assert np.mean(found) > 0


def test_metrics_are_given_back_in_order_and_once():
    found = quietly(estimate, SCORES, DATA, CLICKS, RHO, ["dcg@2", "arp", "dcg@2"])
    assert list(found) == ["dcg@2", "arp"]
    assert [each.metric for each in found.values()] == ["dcg@2", "arp"]


BAD = [
    ({"scores": [1.0]}, "scores: 1 entries; expected 5"),
    ({"scores": [1.0, 2.0, np.nan, 0.0, 0.0]}, "scores: entry 2 is nan"),
    ({"data": make_data([3, 1, 1])}, "clicks: counted against other data"),
    ({"data": None}, "data: NoneType; expected RankingData"),
    ({"clicks": [1, 2]}, "clicks: list; expected ClickCounts"),
    ({"clicks": make_clicks(DATA, [0, 0], [])}, "clicks: no sessions; expected at least one"),
    ({"rho": None}, "rho: None, and the clicks hold no logged propensities; pass rho=policy.propensity"),
    ({"rho": [1.0]}, "rho: 1 entries; expected 5"),
    ({"rho": [1.0, 0.0, 0.25, 1, 1]}, r"rho: 0 for 1 clicks? on 1 document, such as document 1 of query 0 at rank 2"),
    ({"rho": [1.0, 1.5, 0.25, 1, 1]}, r"rho: 1.5 for document 1 of query 0; expected probabilities"),
    ({"metrics": ["ndcg@5"]}, "metric 'ndcg@5': needs to know all relevant documents"),
    ({"metrics": ["mrr"]}, "metric 'mrr': needs to know all relevant documents"),
    ({"metrics": []}, "metrics=.*: expected a list of names"),
    ({"metrics": "arp"}, "metrics='arp': expected a list of names"),
    ({"population": "sessions"}, "population='sessions': expected one of 'queries', 'these-queries'"),
    ({"confidence": 95}, "confidence=95: expected a number between 0 and 1"),
    ({"confidence": "0.95"}, "confidence='0.95': expected a number between 0 and 1"),
    ({"replicates": 10}, "replicates=10: expected a whole number of at least 100"),
    ({"replicates": 1e4}, "replicates=10000.0: expected a whole number"),
    ({"noise": 0.1}, r"noise=0.1: expected a pair \(e0, e1\)"),
    ({"noise": (0.5, 0.5)}, "noise=.*: expected a pair .* e0 < e1"),
    ({"noise": (0.1, 1.5)}, "noise=.*both from 0 to 1"),
    ({"noise": (0.1, None)}, "noise: "),
    ({"ties": "random"}, "ties='random': expected one of 'average', 'order'"),
    ({"seed": -1}, "seed=-1: expected a whole number"),
    ({"threads": 0}, "threads=0: expected a whole number"),
]


@pytest.mark.parametrize(("changed", "message"), BAD)
def test_bad_input(changed, message):
    given = {"scores": SCORES, "data": DATA, "clicks": CLICKS, "rho": RHO} | changed
    with pytest.raises(ValueError, match=message):
        estimate(**given)
    scores = given.pop("scores")
    with pytest.raises(ValueError, match=message.replace("scores", "scores_b")):
        compare(SCORES, scores, **given)


def test_the_population_was_called_target():
    given = DATA, CLICKS, RHO
    plan = partial(plan_logging, DATA, SCORES, {"it": ReplaceLast(2)}, [1.0, 0.5], [100], click_rate=0.1)
    for function, old in (
        (partial(estimate, SCORES, *given), "these-queries"),
        (partial(compare, SCORES, SCORES[::-1], *given), "these-queries"),
        (lambda **options: select([SCORES, SCORES[::-1]], *given, **options).estimates, "these-queries"),
        (plan, "queries"),
    ):
        with pytest.warns(DeprecationWarning, match="target= is deprecated; use population="):
            assert function(target=old) == function(population=old)
        with pytest.raises(ValueError, match="population, target: two names of one argument"):
            function(target=old, population="none of them")


def test_noise_needs_rho():
    clicks = replace(CLICKS, propensities=np.array([1.0, 0.25, 0.25, 1.0]))
    with pytest.raises(ValueError, match="noise: requires rho, since logged propensities do not say"):
        estimate(SCORES, DATA, clicks, noise=(0.1, 1.0))
