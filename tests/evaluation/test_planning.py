"""Planning against every page and every pattern of clicks, against simulated logs, and against bad input."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterrank import RankingData, evaluation, examination, make_ranking_data, policies, simulation
from counterrank.common.errors import CounterrankError
from counterrank.evaluation.logging_plan import plan_logging
from tests.reference import plan as naive_plan
from tests.reference.policies import ranked

LISTED = {q: policies.Explicit([[0], [0, 1] if q else [0]], [0.25, 0.75]) for q in range(3)}
EXACT = [
    policies.Deterministic(3),
    policies.ReplaceLast(3),
    policies.ReplaceLast(1),
    policies.EpsilonGreedy(2, 0.3),
    policies.UniformInsert(3),
    policies.UniformInsert(1),
    policies.UniformInsert(None),
    policies.Mixture([policies.UniformInsert(2), policies.EpsilonGreedy(3, 0.5)], [0.25, 0.75]),
]
THETA = [1.0, 0.6, 0.3]


@st.composite
def worlds(draw):
    """One to three queries of one to five documents, scores with ties, at least one relevant document."""
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    n = sum(lengths)
    numbers = st.lists(st.integers(-2, 2), min_size=n, max_size=n)
    labels = draw(st.lists(st.sampled_from([0, 2, 3, 4]), min_size=n, max_size=n))
    labels[draw(st.integers(0, n - 1))] = 3
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    shares = np.array(draw(st.lists(st.integers(1, 5), min_size=len(lengths), max_size=len(lengths))), float)
    data = RankingData(np.zeros((n, 1)), offsets, labels=labels)
    return data, np.array(draw(numbers), float), np.array(draw(numbers), float), shares / shares.sum()


def close(found, wanted, rtol=1e-9):
    said = {
        "clicks": found.clicks,
        "effective_sample_size": found.effective_sample_size,
        "ips": found.ips.value,
        "ips_variance": found.ips.variance,
        "self_normalized": found.self_normalized.value,
        "self_normalized_variance": found.self_normalized.variance,
        "covered": found.covered,
        "seen": found.expected[0].seen,
        "displayed": found.displayed,
        "width": found.expected[0].ips_width or 0.0,
    }
    for key, value in wanted.items():
        assert said[key] == pytest.approx(value, rel=rtol, abs=1e-9), key


@settings(deadline=None, max_examples=60)
@given(worlds(), st.sampled_from(EXACT))
def test_plans_are_exact_where_pages_can_be_counted(world, policy):
    data, logger, evaluated, often = world
    (found,) = plan_logging(
        data, logger, {"it": policy}, THETA, [50], scores=evaluated, metric="dcg@3", query_frequencies=often
    )
    labels, offsets = data.labels.tolist(), data.offsets.tolist()
    wanted = naive_plan.plan(policy, logger, evaluated, labels, offsets, THETA, "dcg@3", often, 50)
    close(found, wanted)
    assert found.sampled_pages == 0


def test_listed_pages_are_exact():
    data = RankingData(np.zeros((6, 1)), [0, 1, 3, 6], labels=[3, 0, 4, 0, 0, 3])
    logger = np.zeros(6)
    (found,) = plan_logging(data, logger, {"it": LISTED}, THETA, [50], metric="dcg@3")
    often = [1 / 3] * 3
    labels, offsets = data.labels.tolist(), data.offsets.tolist()
    close(found, naive_plan.plan(LISTED, logger, logger, labels, offsets, THETA, "dcg@3", often, 50))


class Swap(policies.Policy):
    """The top two, in either order; a policy of the user's own."""

    def sample(self, scores, offsets, seed=0):
        rng = np.random.default_rng(seed)
        pages = [np.asarray(ranked(scores[a:b])[:2]) + a for a, b in pairwise(offsets)]
        return np.concatenate([rng.permutation(page) for page in pages]), np.cumsum([0, *map(len, pages)])

    def propensity(self, scores, offsets, exam, *, threads=None):
        theta, rho = exam.curve(2), np.zeros(len(scores))
        for a, b in pairwise(offsets):
            top = ranked(scores[a:b])[:2]
            for place in top:
                rho[a + place] = theta[: len(top)].mean()
        return rho

    def enumerate_pages(self, scores):
        top = ranked(scores)[:2]
        return [(tuple(top), 0.5), (tuple(top[::-1]), 0.5)]


@pytest.mark.parametrize(
    ("policy", "pages"), [(policies.PlackettLuce(3, 0.8), 66_667), (Swap(), 2_000)], ids=["plackett-luce", "own"]
)
def test_plans_from_drawn_pages_come_close(policy, pages):
    """Only what the places of a page have in common is drawn; seed fixed."""
    data = RankingData(np.zeros((10, 1)), [0, 2, 6, 10], labels=[3, 0, 4, 0, 0, 3, 0, 0, 0, 4])
    rng = np.random.default_rng(0)
    logger, evaluated = rng.standard_normal((2, 10))
    (found,) = plan_logging(data, logger, {"it": policy}, THETA, [50], scores=evaluated, metric="dcg@3", seed=1)
    labels, offsets = data.labels.tolist(), data.offsets.tolist()
    wanted = naive_plan.plan(policy, logger, evaluated, labels, offsets, THETA, "dcg@3", [1 / 3] * 3, 50)
    close(found, wanted, rtol=0.01)
    assert found.sampled_pages == pages


def test_ties_of_the_evaluated_ranker_are_averaged():
    data = RankingData(np.zeros((2, 1)), [0, 2], labels=[3, 0])
    (found,) = plan_logging(
        data, [2.0, 1.0], {"it": policies.Deterministic(2)}, [1, 1], [9], scores=[0, 0], metric="dcg@1"
    )
    assert found.ips.value == pytest.approx((1.0 + 0.1) / 2)


def test_what_a_fixed_page_does_not_reach_is_said():
    """The ranker to be evaluated puts a relevant document first that is never shown."""
    data = RankingData(np.zeros((3, 1)), [0, 3], labels=[0, 0, 4])
    fixed, random = plan_logging(
        data,
        [3.0, 2.0, 1.0],
        {"fixed": policies.Deterministic(2), "random": policies.ReplaceLast(2)},
        [1.0, 0.5],
        [100],
        scores=[1.0, 2.0, 3.0],
        metric="dcg@1",
    )
    assert (fixed.covered, fixed.reached, fixed.price) == (pytest.approx(2 / 3), 0.0, None)
    assert (random.covered, random.reached) == (1.0, 1.0)
    assert fixed.expected[0].ips_width is None  # nothing the estimate hangs on is ever clicked
    assert fixed.sessions_for_width(0.1) is None


def test_without_labels_the_click_rate_must_be_said():
    data = RankingData(np.zeros((3, 1)), [0, 3])
    with pytest.raises(CounterrankError, match="click_rate"):
        plan_logging(data, [3.0, 2.0, 1.0], {"it": policies.ReplaceLast(2)}, [1.0, 0.5])
    (found,) = plan_logging(data, [3.0, 2.0, 1.0], {"it": policies.ReplaceLast(2)}, [1.0, 0.5], [100], click_rate=0.2)
    assert found.expected[0].clicks == pytest.approx(100 * 0.2 * 1.5)
    assert found.displayed is None
    assert found.price is None


def test_sessions_for_a_width_give_that_width():
    data = make_ranking_data("yahoo", n_queries=50, seed=0)
    logger = data.features[:, 0]
    shown = {"replace-last:k=5": policies.ReplaceLast(5)}
    for population, width in (("these-queries", 0.02), ("queries", 0.6)):
        (first,) = plan_logging(data, logger, shown, examination.inverse_rank(5), [1], population=population)
        n = first.sessions_for_width(width)
        (again,) = plan_logging(data, logger, shown, examination.inverse_rank(5), [n, 10**14], population=population)
        assert again.expected[0].ips_width <= width * (1 + 1e-9)
        assert again.expected[0].ips_width > 0.99 * width or again.expected[0].equal_clicks < 10.01
        n = first.sessions_for_effective(1000.0)
        assert n * first.effective_sample_size == pytest.approx(1000.0, rel=0.01)
    floor = again.expected[1].ips_width  # "queries": however many sessions
    assert first.sessions_for_width(0.99 * floor) is None


SHOWN = {
    "replace-last": policies.ReplaceLast(5),
    "epsilon-greedy": policies.EpsilonGreedy(5, 0.5),
    "uniform-insert": policies.UniformInsert(5),
    "plackett-luce": policies.PlackettLuce(5, 2.0),
}
REPEATS, SESSIONS = 60, 40_000


@pytest.fixture(scope="module")
def study():
    """40 queries, a logger, another ranker to be evaluated."""
    data = make_ranking_data("yahoo", n_queries=40, seed=3)
    rng = np.random.default_rng(0)
    return data, data.labels + rng.standard_normal(data.n_docs), data.labels + 2.0 * rng.standard_normal(data.n_docs)


@pytest.mark.statistical
@pytest.mark.parametrize("name", SHOWN)
def test_simulated_logs_are_as_planned(study, name):
    """60 logs of 40,000 sessions, seeds fixed: estimates, their spread, the intervals' widths, effective sample size.

    Given the sessions of each query, 60 squared errors over their planned variance are chi-square with 60 degrees of
    freedom, if normal: between 0.55 and 1.62 times 60 with probability 0.999. With means within 4 standard errors
    (6e-5) and 8 estimates a wrong alarm has a chance below 1 %.
    """
    data, logger, evaluated = study
    exam = examination.inverse_rank(5)
    (found,) = plan_logging(data, logger, {name: SHOWN[name]}, exam, [SESSIONS], scores=evaluated, metric="dcg@5")
    rho = SHOWN[name].propensity(logger, data.offsets, exam)
    expected = found.expected[0]
    attraction = np.where(data.labels >= 3, 1.0, 0.1)
    value = evaluation.weighted_clicks.document_values(evaluated, data, ["dcg@5"], "average", 1)[:, 0]
    of_query = np.add.reduceat(attraction * value * (rho > 0), data.offsets[:-1])
    omega_of_query = np.add.reduceat(attraction * (rho > 0), data.offsets[:-1])
    rows = []
    for seed in range(REPEATS):
        log = simulation.simulate(data, logger, SHOWN[name], exam, sessions=SESSIONS, displays=True, seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            said = evaluation.estimate(evaluated, data, log, rho, ["dcg@5"], population="these-queries")["dcg@5"]
        truth = (log.sessions * of_query).sum() / SESSIONS
        centre = (log.sessions * of_query).sum() / (log.sessions * omega_of_query).sum()
        rows.append(
            (
                said.ips - truth,
                said.self_normalized - centre,
                np.ptp(said.ips_interval),
                np.ptp(said.self_normalized_interval),
                said.effective_sample_size,
                said.n_clicks,
            )
        )
    errors, widths, (size, clicks) = np.array(rows)[:, :2], np.array(rows)[:, 2:4], np.array(rows)[:, 4:].mean(axis=0)
    planned = np.array([found.ips.variance, found.self_normalized.variance]) / SESSIONS
    assert (np.abs(errors.mean(axis=0)) < 4 * np.sqrt(planned / REPEATS)).all()
    spread = (errors**2).mean(axis=0) / planned
    assert ((spread > 0.55) & (spread < 1.62)).all(), spread
    assert widths.mean(axis=0) == pytest.approx([expected.ips_width, expected.self_normalized_width], rel=0.03)
    assert size == pytest.approx(expected.effective_sample_size, rel=0.03)
    assert clicks == pytest.approx(expected.clicks, rel=0.01)


def test_intervals_over_queries_are_as_wide_as_planned():
    """20 logs on one set of 300 queries, seeds fixed; bootstrap-t intervals are a little wider than normal ones."""
    data = make_ranking_data("yahoo", n_queries=300, seed=5)
    rng = np.random.default_rng(1)
    logger, exam, policy = (
        data.labels + rng.standard_normal(data.n_docs),
        examination.inverse_rank(5),
        SHOWN["replace-last"],
    )
    plans = plan_logging(data, logger, {"it": policy}, exam, [3000, 300_000], population="queries")
    rho = policy.propensity(logger, data.offsets, exam)
    for expected in plans[0].expected:
        widths = []
        for seed in range(20):
            log = simulation.simulate(data, logger, policy, exam, sessions=expected.sessions, seed=seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                said = evaluation.estimate(logger, data, log, rho, ["dcg@5"], replicates=500)["dcg@5"]
            widths.append([np.ptp(said.ips_interval), np.ptp(said.self_normalized_interval)])
        wanted = [expected.ips_width, expected.self_normalized_width]
        assert np.mean(widths, axis=0) == pytest.approx(wanted, rel=0.08)


def test_a_check_of_spreads_can_fail(study):
    """Places of a page taken as independent: the variance under this policy would be a third too small or worse."""
    data = RankingData(np.zeros((4, 1)), [0, 4], labels=[4, 4, 4, 4])
    pages = policies.Explicit([[0, 1], [2, 3]], [0.5, 0.5])
    (found,) = plan_logging(data, [4.0, 3.0, 2.0, 1.0], {"it": pages}, [1.0, 1.0], [10], metric="precision@4")
    # either page is worth 1/4 (2 + 2), always: rho is 1/2 and every document is clicked
    assert found.ips.variance == pytest.approx(0.0)
    (other,) = plan_logging(data, [4.0, 3.0, 2.0, 1.0], {"it": pages}, [1.0, 1.0], [10], metric="precision@2")
    # one page is worth 1/2 (2 + 2) = 2, the other nothing
    assert other.ips.variance == pytest.approx(1.0)


GOOD = {
    "data": RankingData(np.zeros((2, 1)), [0, 2], labels=[3, 0]),
    "logger": [2.0, 1.0],
    "policies": {"it": policies.ReplaceLast(1)},
    "exam": [1.0],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": 3}, "data: int; expected RankingData"),
        ({"logger": [1.0]}, "logger: 1 entries; expected 2"),
        ({"scores": [1.0]}, "scores: 1 entries; expected 2"),
        ({"policies": {}}, "policies: expected policies by name"),
        ({"policies": [policies.ReplaceLast(1)]}, "policies: expected policies by name"),
        ({"policies": {"it": 3}}, "policy: int; expected a policy"),
        ({"exam": 3}, "exam: int; expected an examination curve"),
        ({"sessions": 100}, "sessions=100: expected a list of numbers"),
        ({"sessions": []}, "sessions: empty"),
        ({"sessions": [0]}, "sessions=0: expected a whole number"),
        ({"metric": "arp"}, "metric='arp': has no value per session"),
        ({"metric": "ndcg@5"}, "metric='ndcg@5': has no value per session"),
        ({"metric": "nonsense"}, "metric 'nonsense': unknown"),
        ({"population": "all"}, "population='all': expected one of"),
        ({"confidence": 1.0}, "confidence=1.0: expected a number between"),
        ({"relevance_threshold": 5}, "relevance_threshold=5: no document is relevant"),
        ({"click_model": 3}, "click_model: int; expected simulation.ClickModel"),
        ({"exam": simulation.users("yandex"), "click_model": simulation.ClickModel()}, "trust bias"),
        ({"click_model": simulation.ClickModel(0.0, 0.0)}, "click_model: nothing is ever clicked"),
        ({"click_rate": 0.0}, "click_rate=0.0: expected a number above 0, up to 1"),
        ({"click_rate": True}, "click_rate=True: expected a number above 0, up to 1"),
        (
            {"click_rate": 0.1, "click_model": simulation.ClickModel()},
            "click_rate, click_model: expected one of the two",
        ),
        ({"query_frequencies": [-1.0]}, "query_frequencies: -1 for query 0"),
        ({"seed": -1}, "seed=-1: expected a whole number"),
    ],
)
def test_bad_input_is_named(change, message):
    with pytest.raises(CounterrankError) as caught:
        plan_logging(**{**GOOD, **change})
    assert message in str(caught.value)


def test_wanted_widths_and_sizes_are_checked():
    (found,) = plan_logging(**GOOD)
    with pytest.raises(CounterrankError, match=r"width=0\.0: expected a number above 0"):
        found.sessions_for_width(0.0)
    with pytest.raises(CounterrankError, match="effective=-1: expected a number above 0"):
        found.sessions_for_effective(-1)
