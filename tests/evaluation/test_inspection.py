"""What an inspection counts, and that its verdict follows from it."""

import json
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank import examination, policies
from counterrank.clicks.counts import ClickCounts
from counterrank.estimators.policy_check import Placements, bernstein, rank_bins, ranks_of
from counterrank.evaluation.inspection import inspect_clicks
from counterrank.evaluation.inspection.click_tables import (
    NORMAL,
    clustered,
    heaviest_share,
    page_evidence,
    propensity_histogram,
    rank_table,
    weight_table,
    wilson,
)
from counterrank.evaluation.inspection.coverage import coverage_table
from counterrank.evaluation.inspection.drift import drift_sentences, drift_table
from tests.reference import inspection as naive
from tests.support.inspected_logs import DATA, EXAM, SCORES, make_data, make_log, stripped, text_of

# Counting, against the slow and obvious.


@st.composite
def small_counts(draw):
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    cells = draw(
        st.sets(st.tuples(st.integers(0, int(offsets[-1]) - 1), st.integers(1, 4), st.sampled_from([0.25, 1.0])))
    )
    rows = sorted(cells)
    shown = np.array([draw(st.integers(0, 5)) for _ in rows], np.int64)
    clicks = np.array([draw(st.integers(0, int(n))) for n in shown], np.int64)
    docs, ranks = (np.array([row[i] for row in rows], np.int64) for i in (0, 1))
    sessions = np.array([draw(st.integers(0, 3)) for _ in lengths], np.int64)
    rho = np.array([row[2] for row in rows])
    return ClickCounts("x", offsets, sessions, docs, ranks, shown, clicks, propensities=rho)


@settings(max_examples=150, deadline=None)
@given(small_counts())
def test_counts_are_those_of_the_slow_version(counts):
    seen = Placements.of(counts)
    got = {
        (int(q), int(d), int(r)): [int(n), int(c)]
        for q, d, r, n, c in zip(seen.queries, seen.docs, seen.ranks, seen.impressions, seen.clicks, strict=True)
    }
    assert got == naive.places(counts)
    wanted = naive.rank_rows(counts)
    rows = rank_table(seen, None)
    assert [{key: row.to_json()[key] for key in wanted[0]} for row in rows] == [pytest.approx(row) for row in wanted]
    assert page_evidence(counts, seen).ranks_that_change == naive.changing_ranks(counts)
    assert inspect_clicks(counts).connected == naive.groups_of_ranks(counts)
    scores = np.cos(np.arange(counts.n_docs))
    table = coverage_table(counts, None, scores, None)
    by_rank = naive.coverage_rows(counts, ranks_of(scores, counts.offsets))
    assert {row.old_rank_from: [row.candidates, row.never_shown] for row in table.by_old_rank} == by_rank


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.floats(0.01, 100.0)), max_size=8), st.sampled_from([0.01, 0.1, 0.5, 1.0])
)
def test_share_of_the_heaviest_clicks(rows, share):
    numbers, weights = np.array([row[0] for row in rows], np.int64), np.array([row[1] for row in rows])
    got = heaviest_share(numbers, weights, share)
    assert got == pytest.approx(naive.heaviest_share(numbers, weights, share), abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=20))
def test_every_propensity_is_in_its_bin(values):
    ones = np.ones(len(values), np.int64)
    rows = propensity_histogram(np.array(values), ones, ones)
    for row in rows:
        assert row.clicks == sum(row.low < v * (1 - 1e-12) <= row.high for v in values)
    assert sum(row.share_of_weight for row in rows) == pytest.approx(1.0)
    assert rows[0].clicks > 0


def test_bins_of_propensities_end_at_round_numbers():
    values = np.array([0.5, 0.2, 0.1, 0.05])
    rows = propensity_histogram(values, np.ones(4, np.int64), np.ones(4, np.int64))
    assert [(row.low, row.high, row.clicks) for row in rows] == [
        (0.02, 0.05, 1), (0.05, 0.1, 1), (0.1, 0.2, 1), (0.2, 0.5, 1), (0.5, 1.0, 0)
    ]  # fmt: skip


def test_weights_by_hand():
    """Two clicks of weight 1 and one of weight 4, of six in all: (2 + 4)^2 / (2 + 16) = 2."""
    offsets, one = np.array([0, 2]), np.array([1, 1])
    log = ClickCounts("", offsets, np.array([5]), np.array([0, 1]), one, np.array([5, 5]), np.array([2, 1]))
    table = weight_table(log, np.array([1.0, 0.25]))
    assert table.effective_sample_size == pytest.approx(6**2 / (2 * 1 + 4**2))
    assert table.effective_share_of_clicks == pytest.approx(2 / 3)
    assert (table.largest_weight, table.largest_share) == (4.0, pytest.approx(4 / 6))
    assert table.share_of_heaviest_percent == pytest.approx(4 / 6)
    assert weight_table(log, np.array([0.0, 0.25])).impossible_clicks == 2


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), min_size=1, max_size=6), min_size=1, max_size=4))
def test_old_ranks_are_those_of_a_stable_sort(queries):
    offsets = np.concatenate(([0], np.cumsum([len(query) for query in queries])))
    scores = np.concatenate(queries)
    assert ranks_of(scores, offsets).tolist() == naive.ranks_by_score(scores, offsets.tolist())


@given(st.integers(1, 5000))
def test_groups_of_ranks_hold_every_rank_once(longest):
    bins = rank_bins(longest)
    assert bins[0] == 1
    assert bins[-1] == longest + 1
    assert (np.diff(bins) > 0).all()


# Intervals and tests, with their error rates.


@given(st.integers(1, 200), st.data())
def test_wilson_ends_are_where_the_normal_test_rejects(n, data):
    """At each end p0 of the interval |p - p0| = z sqrt(p0 (1 - p0) / n), but where it stops at 0 or 1."""
    p = data.draw(st.integers(0, n)) / n
    for end in wilson(p * n, n):
        if 1e-12 < end < 1.0 - 1e-12:
            assert abs(p - end) == pytest.approx(NORMAL * math.sqrt(end * (1 - end) / n), rel=1e-6, abs=1e-9)
    assert np.isnan(wilson(0, 0)[0])


@pytest.mark.statistical
def test_intervals_over_queries_hold_the_truth():
    """40 queries with click rates of their own: 95 % intervals, 2000 logs, held within four standard errors or more.

    Wilson's interval of independent impressions holds it far less often. Wrongly failing: below 1e-4.
    """
    rng = np.random.default_rng(0)
    held = plain = 0
    for _ in range(2000):
        shown = rng.integers(50, 150, 40)
        clicks = rng.binomial(shown, rng.beta(2.0, 8.0, 40))
        found = clustered(clicks, shown)
        held += found.low <= 0.2 <= found.high
        low, high = wilson(clicks.sum(), shown.sum())
        plain += low <= 0.2 <= high
    assert held / 2000 > 0.95 - 4 * math.sqrt(0.95 * 0.05 / 2000)
    assert plain / 2000 < 0.6


def test_intervals_where_there_is_little_to_tell():
    assert clustered([0, 0], [0, 0]) == (None, None, None, 0.0, 0)
    assert clustered([3], [10]).effective == 10.0
    none = clustered([0, 0, 0], [10, 10, 10])
    assert none.rate == none.low == 0.0
    assert none.high > 0.1
    many = clustered(np.full(50, 20), np.full(50, 100))  # more alike than chance: not narrower than independent clicks
    assert many.effective == 5000.0


def test_bernstein_bounds_binomial_tails():
    rng = np.random.default_rng(0)
    for n, p in ((50, 0.02), (400, 0.5), (1000, 0.1)):
        drawn = rng.binomial(n, p, 100_000)
        for t in (1.0, 5.0, 15.0, 30.0):
            assert (np.abs(drawn - n * p) >= t).mean() <= bernstein(t, n * p * (1 - p)) + 1e-9


RANDOM = (policies.PlackettLuce(3, 1.0), policies.EpsilonGreedy(3, 0.3), policies.UniformInsert(3))


@pytest.mark.parametrize("policy", RANDOM, ids=str)
def test_a_right_policy_is_hardly_ever_accused(policy):
    """At most 1 % of logs by the test's own error rate: 5 or more of 40 would be an accident of less than 1e-4."""
    accused = 0
    for seed in range(40):
        log = make_log(policy, sessions=3000, seed=seed)
        accused += inspect_clicks(log, policy=policy, scores=SCORES).policy_check.contradicted
    assert accused < 5


WRONG = {
    "temperature": (policies.PlackettLuce(3, 1.0), policies.PlackettLuce(3, 1.3), SCORES),
    "epsilon": (policies.EpsilonGreedy(3, 0.3), policies.EpsilonGreedy(3, 0.2), SCORES),
    "scores": (policies.PlackettLuce(3, 1.0), policies.PlackettLuce(3, 1.0), SCORES[::-1]),
}


@pytest.mark.parametrize(("true", "said", "scores"), WRONG.values(), ids=WRONG)
def test_a_wrong_policy_is_accused(true, said, scores):
    found = inspect_clicks(make_log(true, propensities=False), policy=said, scores=scores, exam=EXAM)
    assert found.policy_check.impossible_impressions == 0
    assert found.policy_check.adjusted_p < 0.01
    assert found.level("policy-aware") == "bad"
    assert "The log contradicts" in text_of(found, "policy-aware")


def test_documents_where_the_policy_never_shows_them():
    found = inspect_clicks(make_log(policies.UniformInsert(3)), policy=policies.ReplaceLast(3), scores=SCORES)
    check = found.policy_check
    place = check.impossible_example
    assert check.contradicted
    assert 0 < check.impossible_impressions < check.impressions_compared
    row = DATA.offsets[place.query] + place.document
    assert policies.ReplaceLast(3).rank_probabilities(SCORES, DATA.offsets, 3)[row, place.rank - 1] == 0.0
    assert f"document {place.document} of query {place.query}" in text_of(found, "policy-aware")


def test_propensities_that_differ_from_those_logged():
    log = make_log(policies.ReplaceLast(3))
    other = examination.inverse_rank(k=3, eta=2.0)
    found = inspect_clicks(log, policy=policies.ReplaceLast(3), scores=SCORES, exam=other)
    assert not found.policy_check.contradicted  # pages are as they should be, examination is not
    assert found.logged_check.largest_ratio == pytest.approx((1 / 3) / (1 / 9))
    assert found.level("policy-aware") == "bad"
    same = inspect_clicks(log, policy=policies.ReplaceLast(3), scores=SCORES)
    assert same.logged_check.differing_share_of_impressions == 0.0


def test_clicks_that_cannot_have_happened():
    log = stripped(make_log(policies.ReplaceLast(3)))
    rho = np.where(np.arange(DATA.n_docs) == log.docs[log.clicks > 0][0], 0.0, 0.5)
    found = inspect_clicks(log, rho=rho)
    assert found.weights.impossible_clicks > 0
    assert found.level("policy-aware") == "bad"
    assert "cannot have happened" in text_of(found, "policy-aware")


# What other policies would bring.


@pytest.mark.parametrize("logged", [policies.ReplaceLast(3), policies.PlackettLuce(3, 1.0)], ids=str)
def test_predicted_sizes_are_those_of_a_log_made_so(logged):
    """Predictions for other policies, within 10 % of what follows from the chances of clicks that the simulation has.

    (sum of s a)^2 / sum of s a / rho,   a = 1 for relevant documents and 0.1 for others
    """
    worth = np.where(DATA.labels >= 3, 1.0, 0.1) * 100_000 / DATA.n_queries
    found = inspect_clicks(make_log(logged, 100_000), policy=logged, scores=SCORES, effective_sample_size=1000)
    rows = [row for family in found.remedies.families.values() for row in (family.least, family.best) if row]
    assert len(rows) >= 5
    for row in rows:
        policy = policies.parse_policy(row.policy)
        rho = policy.propensity(SCORES, DATA.offsets, EXAM)
        assert row.effective_sample_size == pytest.approx(worth.sum() ** 2 / (worth / rho).sum(), rel=0.1), row
        assert row.clicks == pytest.approx((worth * rho).sum(), rel=0.05)
        got = inspect_clicks(make_log(policy, 100_000, seed=9), policy=policy, scores=SCORES)
        assert row.learns_position_bias == (len(got.connected) == 1)


def test_the_size_of_clicks_is_too_good_where_the_heaviest_have_not_happened():
    """Of 12 logs most have several times the size that follows from the chances of clicks; the expected one not."""
    policy = policies.PlackettLuce(3, 0.3)
    rho = policy.propensity(SCORES, DATA.offsets, EXAM)
    worth = np.where(DATA.labels >= 3, 1.0, 0.1) * 100_000 / DATA.n_queries
    exact = worth.sum() ** 2 / (worth / rho).sum()
    found = [inspect_clicks(make_log(policy, 100_000, seed), policy=policy, scores=SCORES) for seed in range(12)]
    assert np.median([each.weights.effective_sample_size for each in found]) > 3 * exact
    assert all(exact / 3 < each.weights.expected_effective_sample_size < 3 * exact for each in found)
    assert "have not happened yet" in text_of(found[0], "policy-aware")


def test_the_policy_itself_is_predicted_as_it_is():
    policy = policies.ReplaceLast(3)
    found = inspect_clicks(make_log(policy, 1000), policy=policy, scores=SCORES, effective_sample_size=10**6)
    own = found.remedies.families["epsilon-greedy"].best
    assert own.policy == "replace-last:k=3"
    assert own.effective_sample_size == pytest.approx(found.weights.effective_sample_size)
    assert "no policy that was tried" in found.advice[0]
    assert own.sessions_for_target == math.ceil(1000 * 10**6 / own.effective_sample_size)


def test_the_least_randomisation_is_the_least():
    policy = policies.ReplaceLast(3)
    log = make_log(policy, 100_000)
    least = inspect_clicks(log, policy=policy, scores=SCORES, effective_sample_size=1000).remedies.families[
        "epsilon-greedy"
    ]
    more = inspect_clicks(log, policy=policy, scores=SCORES, effective_sample_size=3000).remedies.families[
        "epsilon-greedy"
    ]
    epsilon = [float(row.least.policy.partition("epsilon=")[2]) for row in (least, more)]
    assert 0.0 < epsilon[0] < epsilon[1] < 1.0


def test_a_log_that_covers_nothing_more_says_what_was_assumed():
    policy = policies.Deterministic(3)
    found = inspect_clicks(make_log(policy), policy=policy, scores=SCORES)
    assert found.remedies.assumed_click_rate == pytest.approx(0.5, abs=0.2)
    assert "as the others are on average" in found.advice[0]


# Drift.


def periods(clicks, impressions=1000):
    return [
        {"begin": f"day {i}", "pages": impressions // 10, "impressions": impressions, "clicks": int(c)}
        for i, c in enumerate(clicks)
    ]


@pytest.mark.statistical
def test_a_steady_log_is_hardly_ever_said_to_change():
    """At an error rate of 1 %: 14 or more of 500 would be an accident of less than 1e-3. Rates vary from day to day."""
    rng = np.random.default_rng(0)
    log = make_log(policies.ReplaceLast(3), 500)
    changed = 0
    for _ in range(500):
        rates = rng.beta(20.0, 80.0, 14)
        shown = rng.integers(200, 2000, 14)
        rows = [
            {"begin": i, "pages": n, "impressions": n, "clicks": c}
            for i, (n, c) in enumerate(zip(shown, rng.binomial(shown, rates), strict=True))
        ]
        changed += drift_table(rows).changed
    assert changed < 14
    found = inspect_clicks(log, drift=periods(rng.binomial(1000, 0.2, 14)))
    assert not any(item.about == "the log" for item in found.verdict)


def test_a_change_is_found():
    log = make_log(policies.ReplaceLast(3), 500)
    rates = np.random.default_rng(0).binomial(1000, [0.20] * 7 + [0.26] * 7)
    found = inspect_clicks(log, drift=periods(rates))
    assert found.drift.changed
    assert found.drift.scatter > 2.0
    assert found.drift.material
    assert found.drift.change_begin == "day 7"
    assert "The click rate changed over time: 20 % before day 7, 26 % from then on, +30 %" in text_of(found, "the log")
    rows = found.drift.periods
    assert [row.clicks for row in rows] == rates.tolist()
    assert all(row.low < row.click_rate < row.high for row in rows)


def test_a_change_that_is_significant_but_small_is_no_alarm():
    """Rates of 20 % and 21 % of a million impressions: no chance, and no matter."""
    rates = np.random.default_rng(0).binomial(10**6, [0.20] * 7 + [0.21] * 7)
    found = inspect_clicks(make_log(policies.ReplaceLast(3), 500), drift=periods(rates, 10**6))
    assert found.drift.changed
    assert found.drift.material is False
    assert found.drift.relative_change == pytest.approx(0.05, abs=0.01)
    assert not any(item.about == "the log" for item in found.verdict)
    (text, *_) = drift_sentences(found.drift.to_json())
    assert "changed by +5 % (20 % before day 7, 21 % from then on), which is significant but less than the 10 %" in text


def dated(begins, clicks=100):
    return [row | {"begin": begin} for row, begin in zip(periods([clicks] * len(begins)), begins, strict=True)]


def test_timestamps_that_are_no_dates_give_a_note():
    found = drift_table(dated([f"{year}-01-01 00:00" for year in range(2024, 2194)]))
    assert found.periods == []
    assert found.changed is None
    assert "93,000 of 170,000 impressions (55 %) are before 1990 or after 2100, from 2101-01-01" in found.note
    assert "left out" in found.note
    assert drift_sentences(found.to_json()) == [found.note]
    json.dumps(inspect_clicks(make_log(policies.ReplaceLast(3), 500), drift=dated(["1970-01-01 00:00"] * 9)).summary())


def test_a_few_wrong_timestamps_are_left_out():
    found = drift_table(dated(["1970-01-01 00:00", *(f"2026-01-{day:02} 00:00" for day in range(1, 11))]))
    assert len(found.periods) == 10
    assert "1,000 of 11,000 impressions (9.1 %)" in found.note
    assert found.changed is False


def test_many_periods_are_put_together():
    found = drift_table(dated([f"2026-{1 + i // 28:02}-{1 + i % 28:02}" for i in range(150)]))
    assert len(found.periods) == 50
    assert sum(row.clicks for row in found.periods) == 15_000
    assert found.note == "150 periods are put together to 50."


def test_few_periods_are_not_tested():
    log = make_log(policies.ReplaceLast(3), 500)
    assert inspect_clicks(log, drift=[]).drift is None
    assert inspect_clicks(log, drift=periods([100, 200, 300])).drift.changed is None
    quiet = inspect_clicks(log, drift=[*periods([10, 20]), {"begin": "x", "pages": 0, "impressions": 0, "clicks": 0}])
    assert quiet.drift.periods[2].click_rate is None
    json.dumps(quiet.summary(), allow_nan=False)


BAD = {
    "policy alone": ({"policy": policies.ReplaceLast(3)}, "scores: None; expected what the policy ranked by"),
    "scores too short": ({"scores": [1.0]}, "scores: 1 entries; expected 480"),
    "rho too large": ({"rho": np.full(DATA.n_docs, 2.0)}, "rho: 2 for document 0 of query 0"),
    "no policy": ({"policy": 3, "scores": SCORES}, "policy: int; expected a policy"),
    "no curve": ({"exam": "steep"}, "exam: str; expected an examination curve"),
    "effective sample size": (
        {"effective_sample_size": 0},
        "effective_sample_size=0: expected a whole number of at least 1",
    ),
    "other data": ({"data": make_data(3)}, "counted against other data"),
    "no periods": ({"drift": "daily"}, "drift: expected a list of periods"),
    "a period without clicks": ({"drift": [{"begin": 1, "pages": 1, "impressions": 1}]}, "period 0 has no clicks"),
    "too many clicks": ({"drift": periods([2000])}, "period 0 has 2000 clicks of 1000 impressions"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_bad_input(arguments, message):
    log = make_log(policies.ReplaceLast(3), 100)
    with pytest.raises(cr.CounterrankError) as error:
        inspect_clicks(log, **arguments)
    assert message in str(error.value)


def test_clicks_must_be_counts():
    with pytest.raises(cr.CounterrankError, match="clicks: list; expected ClickCounts"):
        inspect_clicks([1])


class OnlySamples(policies.Policy):
    """A policy that cannot tell its propensities."""

    def sample(self, scores, offsets, seed=0):
        return policies.PlackettLuce(3).sample(scores, offsets, seed)


def test_a_policy_that_only_samples_is_not_compared():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = inspect_clicks(make_log(OnlySamples(), 2000), policy=OnlySamples(), scores=SCORES)
    assert found.policy_check is None
