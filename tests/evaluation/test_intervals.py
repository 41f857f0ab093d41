"""Intervals of estimates from clicks: how often they cover the truth, and when they are doubted.

Coverage tests run 600 times with a fixed seed. Undoubted intervals must hold 546 to 594 times, 4.5 standard errors
about 570: at a true coverage of 95 % a fresh seed brings a count outside these with a probability of 1.6e-5, and any of
the 80 or so less than once in 700 times (binomial tails). A true coverage of 93 % fails one time in 38. Doubted ones
must hold 525 to 598 times, which at 93 or 97 % they miss with a probability below 1e-6.
"""

import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from benchmarks.interval_coverage import note_of

from counterrank.clicks import policies, simulation
from counterrank.clicks.examination import inverse_rank
from counterrank.clicks.users import ClickModel
from counterrank.data import RankingData
from counterrank.evaluation import IntervalWarning, compare, estimate
from counterrank.evaluation.confidence_intervals import _student
from tests.evaluation.test_estimate import make_clicks, make_data
from tests.reference import estimate as naive_estimate
from tests.reference.estimate import DETERMINISTIC, EPSILON, INSERT, PLACKETT_LUCE
from tests.support.click_counts import from_pages, simulate

TIMES, LIMITS, DOUBTED_LIMITS = 600, (546, 594), (525, 598)
K = 3
THETA = 1.0 / np.arange(1, K + 1)
POLICIES = {
    "deterministic": (DETERMINISTIC, policies.Deterministic(K)),
    "replace-last": (EPSILON, policies.ReplaceLast(K)),
    "uniform-insert": (INSERT, policies.UniformInsert(K)),
    "plackett-luce": (PLACKETT_LUCE, policies.PlackettLuce(K)),
}


class Population:
    """2,000 queries of 2 to 12 documents, two rankings, and the exact expectations of what is estimated."""

    def __init__(self, policy):
        rng = np.random.default_rng(5)
        self.lengths = rng.integers(2, 13, 2000)
        self.offsets = np.concatenate(([0], np.cumsum(self.lengths)))
        n = self.offsets[-1]
        relevant = rng.random(n) < 0.25
        self.chance = np.where(relevant, 0.9, 0.15)
        self.logging, *self.rankings = 0.8 * relevant + rng.standard_normal((3, n))
        self.rankings[0] = self.rankings[0] + relevant
        self.kind, self.policy = POLICIES[policy]
        self.rho = self.policy.propensity(self.logging, self.offsets, inverse_rank(K))
        self.expected = np.where(self.rho > 0, self.chance, 0.0)

    def drawn(self, queries):
        lengths = self.lengths[queries]
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        rows = np.repeat(self.offsets[queries] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return RankingData(np.zeros((len(rows), 1), np.float32), offsets), rows

    def clicks(self, data, rows, sessions, seed):
        return simulate(data, self.logging[rows], self.kind, THETA, self.chance[rows], sessions, seed)

    def values(self, metric, difference):
        """lambda of the first ranking, or what it has more than that of the second."""
        found = [self._values(metric, scores) for scores in self.rankings]
        return found[0] - found[1] if difference else found[0]

    def by_query(self, metric, difference):
        """Expected omega and omega * lambda of one session of each query."""
        terms = np.add.reduceat(self.expected * self.values(metric, difference), self.offsets[:-1])
        return np.add.reduceat(self.expected, self.offsets[:-1]), terms

    def _values(self, metric, scores):
        ranks = np.empty(len(scores), np.int64)
        owner = np.repeat(np.arange(len(self.lengths)), self.lengths)
        ranks[naive_estimate.order_of(scores, self.offsets)] = np.arange(len(scores)) - self.offsets[owner] + 1
        return np.array([naive_estimate.lambda_of(metric, rank) for rank in range(1, 13)])[ranks - 1]


@cache
def world_of(policy):
    return Population(policy)


METRICS = ("arp", "dcg@3", "precision@3")


def hits(policy, population, n_queries, each):
    """How many of the intervals cover the truth, and how many are doubted, by metric, kind and whether a difference."""
    world = world_of(policy)
    rng = np.random.default_rng(0)
    found = {}
    queries = rng.integers(2000, size=n_queries)
    for seed in range(TIMES):
        if population == "queries":
            queries = rng.integers(2000, size=n_queries)
        data, rows = world.drawn(queries)
        sessions = rng.multinomial(n_queries * each, np.full(n_queries, 1 / n_queries))
        clicks = world.clicks(data, rows, sessions, seed)
        options = {"population": population, "replicates": 400, "seed": seed, "threads": 1}
        given = data, clicks, world.rho[rows], METRICS
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one = estimate(world.rankings[0][rows], *given, **options)
            two = compare(world.rankings[0][rows], world.rankings[1][rows], *given, **options)
        for difference, estimates in ((False, one), (True, two)):
            for metric in METRICS:
                omega, terms = world.by_query(metric, difference)
                weights = np.bincount(queries, weights=sessions, minlength=2000)
                if population == "queries":
                    weights = np.ones(2000)
                belows = {"ips": weights.sum(), "self_normalized": (weights * omega).sum()}
                for kind, below in belows.items():
                    note(found, estimates[metric], kind, difference, (weights * terms).sum() / below)
    return found


def note(found, estimated, kind, difference, truth):
    """Count whether the interval of an estimate holds the truth, and whether it is doubted."""
    interval = getattr(estimated, f"{kind}_interval")
    if interval is not None:
        other = "ips" if kind == "self_normalized" else "self_normalized"
        doubted = any(not text.startswith(other) for text in estimated.doubts)
        counts = found.setdefault((estimated.metric, kind, difference), np.zeros(2, int))
        counts += interval[0] <= truth <= interval[1], doubted


def outside(found):
    """Those that cover the truth too seldom or too often; the limits are wider where most intervals are doubted."""
    limits = {key: DOUBTED_LIMITS if doubted > TIMES / 2 else LIMITS for key, (_, doubted) in found.items()}
    return {key: held for key, (held, _) in found.items() if not limits[key][0] <= held <= limits[key][1]}


@pytest.mark.statistical
@pytest.mark.parametrize(("policy", "n_queries", "each"), [("replace-last", 120, 12), ("deterministic", 200, 3)])
def test_coverage_over_queries(policy, n_queries, each):
    found = hits(policy, "queries", n_queries, each)
    assert len(found) == 10
    assert outside(found) == {}


@pytest.mark.statistical
@pytest.mark.parametrize("policy", POLICIES)
def test_coverage_over_clicks(policy):
    found = hits(policy, "these-queries", 40, 30)
    assert len(found) == 10
    assert outside(found) == {}


N_PAGED = 40
FIRST, SECOND = [0, 1, 2, 3, 4], [5, 6, 7, 8, 9]
PAGED = {
    "explicit": policies.ExplicitQueries({q: policies.Explicit([FIRST, SECOND], [0.5, 0.5]) for q in range(N_PAGED)}),
    "mixture": policies.Mixture(
        [
            policies.ReplaceLast(5),
            policies.ExplicitQueries({q: policies.Explicit([SECOND], [1.0]) for q in range(N_PAGED)}),
        ],
        [0.5, 0.5],
    ),
    "uniform-insert": policies.UniformInsert(5),
    "plackett-luce": policies.PlackettLuce(5),
}


def paged_hits(policy, displays, each=50):
    """Every rank is examined, documents are clicked half the time or more, and the logger itself is evaluated."""
    relevant = np.random.default_rng(0).random(10 * N_PAGED) < 0.4
    data = make_data([10] * N_PAGED, 4 * relevant)
    chance, scores = np.where(relevant, 0.9, 0.5), np.tile(-0.3 * np.arange(10), N_PAGED)
    exam, model = inverse_rank(5, 0.0), ClickModel(relevant=0.9, other=0.5)
    rho = PAGED[policy].propensity(scores, data.offsets, exam)
    found = {}
    for seed in range(TIMES):
        amount = {"sessions": N_PAGED * each, "seed": seed, "displays": displays, "propensities": False}
        log = simulation.simulate(data, scores, PAGED[policy], exam, click_model=model, **amount)
        options = {"metrics": ["arp", "dcg@5", "precision@5"], "population": "these-queries", "threads": 1}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            estimates = estimate(scores, data, log, rho, **options)
        weights = np.repeat(log.sessions, 10) * chance
        for metric, estimated in estimates.items():
            terms = (weights * naive_estimate.values(metric, scores, data.offsets)).sum()
            note(found, estimated, "ips", False, terms / log.n_sessions)
            note(found, estimated, "self_normalized", False, terms / weights.sum())
    return found


@pytest.mark.statistical
@pytest.mark.parametrize("policy", PAGED)
def test_coverage_over_whole_pages(policy):
    found = paged_hits(policy, displays=True)
    assert len(found) == 5
    assert all(doubted == 0 for _, doubted in found.values())
    assert outside(found) == {}


@pytest.mark.statistical
@pytest.mark.parametrize("policy", PAGED)
def test_without_pages_what_is_shown_together_is_doubted(policy):
    """Two whole pages leave a quarter of the truths outside; inserted documents push each other out: too wide."""
    found = paged_hits(policy, displays=False)
    undoubted = {key: counts for key, counts in found.items() if counts[1] < TIMES / 2}
    assert outside(undoubted) == {}
    if policy == "explicit":
        assert undoubted == {}
        assert max(held for held, _ in found.values()) < 0.85 * TIMES
    elif policy == "uniform-insert":
        assert undoubted == {}
        assert max(held for held, _ in found.values()) > 0.99 * TIMES


def test_the_two_targets_differ():
    """Few queries with many sessions: clicks tell all about these queries, and little about others."""
    world = world_of("replace-last")
    data, rows = world.drawn(np.arange(120))
    clicks = world.clicks(data, rows, np.full(120, 3000), 0)
    given = world.rankings[0][rows], data, clicks, world.rho[rows], ["dcg@3"]
    widths = {}
    for population in ("queries", "these-queries"):
        low, high = estimate(*given, population=population)["dcg@3"].self_normalized_interval
        widths[population] = high - low
    assert widths["queries"] > 3 * widths["these-queries"]


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore::counterrank.evaluation.IntervalWarning")
def test_conditioning_on_impressions_is_several_times_too_narrow():
    """Which document filled the last place is chance too: most of it, where hardly any page shows a given document."""
    data = make_data([60] * 5)
    rng = np.random.default_rng(0)
    scores, target = rng.standard_normal((2, data.n_docs))
    policy, theta = policies.ReplaceLast(1), np.ones(1)
    rho = policy.propensity(scores, data.offsets, inverse_rank(1))
    chance, sessions = np.full(data.n_docs, 0.95), np.full(5, 2000)
    values, ours, conditioned = [], [], []
    for seed in range(300):
        clicks = simulate(data, scores, EPSILON, theta, chance, sessions, seed)
        found = estimate(target, data, clicks, rho, ["dcg@5"], population="these-queries", threads=1)["dcg@5"]
        values.append(found.ips)
        ours.append((found.ips_interval[1] - found.ips_interval[0]) / 2)
        share = clicks.clicks / clicks.impressions
        value = np.array(naive_estimate.values("dcg@5", target, data.offsets))[clicks.docs] / rho[clicks.docs]
        conditioned.append(1.96 * np.sqrt((clicks.impressions * share * (1 - share) * value**2).sum()) / 10_000)
    real = 1.96 * np.std(values)
    # standard deviations of 300 values are known to 4 %
    assert np.mean(ours) == pytest.approx(real, rel=0.17)
    assert np.mean(conditioned) < real / 2.5


def make_world(n_queries=150, each=40, seed=0):
    world = world_of("replace-last")
    data, rows = world.drawn(np.arange(n_queries))
    clicks = world.clicks(data, rows, np.full(n_queries, each), seed)
    return world.rankings[0][rows], data, clicks, world.rho[rows]


@pytest.mark.filterwarnings("ignore::counterrank.evaluation.IntervalWarning")
def test_one_seed_one_result_whatever_the_threads():
    given = make_world()
    first = estimate(*given, seed=3, threads=1)
    assert estimate(*given, seed=3, threads=3) == first
    assert estimate(*given, seed=np.random.default_rng(0)) == estimate(*given, seed=np.random.default_rng(0))
    assert estimate(*given, seed=4) != first
    kept = make_world()
    assert estimate(*kept, population="these-queries", threads=1) == estimate(
        *kept, population="these-queries", threads=2
    )


@pytest.mark.filterwarnings("ignore::counterrank.evaluation.IntervalWarning")
def test_more_confidence_is_wider():
    given = make_world()
    for population in ("queries", "these-queries"):
        widths = []
        for confidence in (0.5, 0.8, 0.95, 0.99):
            low, high = estimate(*given, population=population, confidence=confidence)["dcg@5"].ips_interval
            widths.append(high - low)
        assert widths == sorted(widths)
        assert widths[0] < widths[-1] / 2


def test_no_doubts_inside_the_range():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for population in ("queries", "these-queries"):
            found = estimate(*make_world(400, 60), metrics=["dcg@3"], population=population)
            assert found["dcg@3"].doubts == ()


@pytest.mark.parametrize("kind", [DETERMINISTIC, EPSILON])
@pytest.mark.parametrize("epsilon", [1.0, 0.3])
def test_one_random_rank_is_not_doubted_for_its_page(kind, epsilon):
    world = world_of("replace-last")
    data, rows = world.drawn(np.arange(100))
    given = data, world.logging[rows], kind, THETA, world.chance[rows], np.full(100, 20), 0, epsilon
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {"population": "these-queries", "metrics": METRICS}
        found = estimate(world.rankings[0][rows], data, simulate(*given), world.rho[rows], **options)
    assert not any("shown together" in doubt for each in found.values() for doubt in each.doubts)


def two_pages(propensities=None):
    """Twenty queries with two pages of two documents each, clicked at both places or not at all."""
    data = make_data([4] * 20)
    pages = [([4 * q + 2 * i, 4 * q + 2 * i + 1], 50, [40 - 20 * i] * 2) for q in range(20) for i in range(2)]
    clicks = from_pages(data, pages)
    return data, clicks if propensities is None else replace(clicks, propensities=propensities(clicks))


def doubts_of(data, clicks, rho=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = estimate(np.tile([4.0, 3.0, 2.0, 1.0], 20), data, clicks, rho, ["dcg@2"], population="these-queries")
    return [doubt for doubt in found["dcg@2"].doubts if "shown together" in doubt], found["dcg@2"].ips_interval


def test_doubts_about_pages_say_what_helps():
    data, clicks = two_pages()
    rho = np.full(80, 0.5)
    none, wide = doubts_of(data, clicks, rho)
    assert none == []
    doubts, narrow = doubts_of(data, replace(clicks, displays=None), rho)
    assert doubts[0].startswith("ips may be up to 1.3 times too narrow, or too wide, since counts do not say what was")
    assert doubts[0].endswith("shown together; keep pages with displays=True")
    assert wide[1] - wide[0] > 1.2 * (narrow[1] - narrow[0])


def test_few_sessions_of_what_matters_are_doubted():
    """Two sessions of one query are worth far more than all others."""
    data = make_data([2] * 30)
    pages = [([2 * q + i], 1 if q == 0 else 20, [int(i == 0)]) for q in range(30) for i in range(2)]
    clicks = from_pages(data, pages)
    with pytest.warns(
        IntervalWarning, match="ips depends on queries with few sessions, 1 degrees of freedom, expected"
    ):
        estimate(np.tile([2.0, 1.0], 30), data, clicks, np.r_[0.01, np.ones(59)], ["dcg"], population="these-queries")


def test_logged_propensities_of_pages():
    """One for each document; where two differ by rounding, either will do."""
    data, clicks = two_pages(lambda clicks: np.full(len(clicks.docs), 0.5))
    none, interval = doubts_of(data, clicks)
    assert none == []
    assert interval == doubts_of(data, clicks, np.full(80, 0.5))[1]
    cells = np.sort(np.r_[0, np.arange(len(clicks.docs))])
    counts = {name: getattr(clicks, name)[cells] for name in ("docs", "ranks", "impressions", "clicks")}
    for name in ("impressions", "clicks"):
        counts[name][:2] //= 2
    rounded = replace(
        clicks, **counts, propensities=np.r_[np.float32(0.5) * (1 - 1e-7), np.full(len(clicks.docs), 0.5)]
    )
    doubts, same = doubts_of(data, rounded)
    assert doubts == []
    assert same == pytest.approx(interval, rel=1e-5)


def test_few_queries_are_doubted():
    with pytest.warns(
        IntervalWarning, match=r"may cover the truth less often than 0\.95: .*dcg@3: 99 queries, expected at least 100"
    ):
        found = estimate(*make_world(99, 300), metrics=["dcg@3"])
    assert "99 queries, expected at least 100" in found["dcg@3"].doubts
    found = estimate(*make_world(99, 300), metrics=["dcg@3"], population="these-queries")
    assert found["dcg@3"].doubts == ()


def test_few_frequent_queries_are_doubted():
    world = world_of("replace-last")
    data, rows = world.drawn(np.arange(500))
    clicks = world.clicks(data, rows, np.r_[np.full(20, 2000), np.full(480, 10)], 0)
    # (40,000 + 4,800)^2 / (20 * 2,000 * 1,999 + 480 * 10 * 9)
    with pytest.warns(
        IntervalWarning, match="500 queries have most sessions, an effective number of 25 equally frequent"
    ):
        estimate(world.rankings[0][rows], data, clicks, world.rho[rows], ["dcg@3"])


def rare_world(heavy_clicks):
    """200 queries whose first documents are clicked often, and second ones, shown once in a thousand pages, hardly."""
    data = make_data([2] * 200)
    cells = [(2 * q, 1, 50, 20) for q in range(200)]
    cells += [(2 * q + 1, 2, 1, 1) for q in range(heavy_clicks)]
    return data, make_clicks(data, [50] * 200, cells), np.tile([1.0, 0.001], 200)


def test_rare_clicks_are_doubted_even_when_none_happened():
    data, clicks, rho = rare_world(0)
    for population in ("queries", "these-queries"):
        with pytest.warns(IntervalWarning, match="dcg@1: ips depends on rare clicks: the effective number of clicks"):
            estimate(np.tile([0.0, 1.0], 200), data, clicks, rho, ["dcg@1"], population=population)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the other order has only the often clicked ones at rank 1
        found = estimate(np.tile([1.0, 0.0], 200), data, clicks, rho, ["dcg@1"], population="these-queries")
    assert not any(text.startswith("ips") for text in found["dcg@1"].doubts)


def test_heavy_clicks_are_doubted():
    data, clicks, rho = rare_world(4)
    with pytest.warns(IntervalWarning) as caught:
        found = estimate(np.tile([0.0, 1.0], 200), data, clicks, rho, ["dcg@1"])["dcg@1"]
    assert "self-normalised has an effective sample size of" in str(caught[0].message)
    assert "ips depends on rare clicks: the effective number of clicks" in str(caught[0].message)
    assert found.largest_share == pytest.approx(1000 / (4000 + 4 * 1000))


@pytest.mark.filterwarnings("ignore::counterrank.evaluation.IntervalWarning")
def test_the_study_of_coverage_takes_the_doubts_of_each_kind():
    found = estimate(*make_world(150, 40), metrics=["dcg@3"], noise=(0.3, 1.0))["dcg@3"]
    assert [text.partition(" ")[0] for text in found.doubts] == ["self-normalised"]
    assert [note_of(found, kind, 0.0)[1] for kind in ("ips", "self_normalized")] == [False, True]


def test_warnings_point_at_the_caller():
    with pytest.warns(IntervalWarning) as caught:
        estimate(*make_world(20, 30))
    assert caught[0].filename == __file__


def test_one_query_gives_no_interval_for_queries_like_these():
    with pytest.warns(IntervalWarning):
        found = estimate(*make_world(1, 100))
    assert found["dcg@5"].ips_interval is None
    assert found["dcg@5"].ips is not None


@pytest.mark.filterwarnings("ignore::counterrank.evaluation.IntervalWarning")
def test_nothing_varies():
    """One document a query: its rank is 1 whatever is clicked."""
    data = make_data([1] * 150)
    clicks = make_clicks(data, [4] * 150, [(d, 1, 4, 1 + d % 3) for d in range(150)])
    for population in ("queries", "these-queries"):
        found = estimate(np.zeros(150), data, clicks, np.full(150, 0.9), ["arp"], population=population)["arp"]
        assert (found.self_normalized, found.self_normalized_interval) == (1.0, (1.0, 1.0))


def test_noise_taken_off_leaves_a_smaller_sample():
    with pytest.warns(IntervalWarning, match="self-normalised has an effective sample size"):
        estimate(*make_world(150, 40), metrics=["dcg@3"], noise=(0.3, 1.0))


def test_single_sessions_make_it_too_wide():
    with pytest.warns(IntervalWarning, match="100 % of the sessions are the only one of their query"):
        estimate(*make_world(2000, 1), metrics=["dcg@3"], population="these-queries")


def test_student():
    """Quantiles of a table of Student's t."""
    freedom = np.array([4.0, 10.0, 30.0, np.inf])
    assert _student(0.95, freedom) == pytest.approx([2.7764, 2.2281, 2.0423, 1.9600], rel=5e-3)
    assert _student(0.90, freedom) == pytest.approx([2.1318, 1.8125, 1.6973, 1.6449], rel=5e-3)


def test_arp_needs_more_queries():
    """Long queries decide it, and a few hundred queries hold too few of them."""
    with pytest.warns(IntervalWarning, match="arp: 400 queries, expected at least 5,000 for arp$"):
        estimate(*make_world(400, 60), metrics=["arp", "dcg@3"])
    scores, *rest = make_world(400, 60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare(scores, -scores, *rest, metrics=["arp"])


def test_without_rho_rare_clicks_are_found_from_the_clicks():
    data, clicks, rho = rare_world(4)
    logged = replace(clicks, propensities=rho[clicks.docs])
    with pytest.warns(
        IntervalWarning, match="dcg@1: ips depends on rare clicks: the effective number of clicks by skewness is 4,"
    ):
        estimate(np.tile([0.0, 1.0], 200), data, logged, metrics=["dcg@1"])
