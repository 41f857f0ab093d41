"""Comparisons of two rankings by interleaved pages: unbiased for metrics that are covered, refused for others."""

import itertools

import numpy as np
import pytest

from counterrank import examination, policies, simulation
from counterrank.common.errors import CounterrankError
from counterrank.data import RankingData
from counterrank.evaluation import compare_interleaved, team_draft_credit

K, DEPTH, QUERIES = 5, 3, 60
EXAM = examination.inverse_rank(K)
DRAFT = policies.TeamDraft(K)
COVERING = policies.Mixture([DRAFT, policies.UniformInsert(K)], [0.5, 0.5])
# of one query, of which documents 2, 4 and 5 are relevant: the example of docs/how-to/compare-online.md
A = np.array([5.0, 4.0, 3.0, 1.0, 2.0, 0.0])
B = np.array([1.0, 5.0, 3.0, 2.0, 0.0, 4.0])
RELEVANT = np.array([0, 0, 1, 0, 1, 1])


def world(seed=0, n_docs=10):
    """Random rankings of queries with a third of relevant documents."""
    rng = np.random.default_rng(seed)
    n = QUERIES * n_docs
    data = RankingData(rng.random((n, 1), np.float32), np.arange(0, n + 1, n_docs), 4.0 * (rng.random(n) < 0.3))
    return data, data.labels + rng.normal(0.0, 3.0, n), rng.standard_normal(n)


def same_queries():
    """Queries that all are the example of wrong credit."""
    n = QUERIES * len(A)
    data = RankingData(np.zeros((n, 1), np.float32), np.arange(0, n + 1, len(A)), np.tile(4.0 * RELEVANT, QUERIES))
    return data, np.tile(A, QUERIES), np.tile(B, QUERIES)


def log_of(data, rankings, policy, sessions=120_000, seed=1, **more):
    return simulation.simulate(data, rankings, policy, EXAM, sessions=sessions, seed=seed, displays=True, **more)


def expected_difference(data, a, b, depth, clicks):
    """sum over queries of sessions times DCG of a minus that of b, with P(click | examined) as gains, by definition."""
    gains, total = np.where(data.labels >= 3.0, 1.0, 0.1), 0.0
    for query, (first, last) in enumerate(itertools.pairwise(data.offsets.tolist())):
        for scores, sign in ((a, 1.0), (b, -1.0)):
            order = first + np.argsort(-scores[first:last], kind="stable")[:depth]
            found = (gains[order] / np.log2(2.0 + np.arange(len(order)))).sum()
            total += sign * clicks.sessions[query] * found
    return total / clicks.n_sessions


def expected_credit(rankings, gains, k):
    """Clicks of team a minus those of team b on one query, over the paths of the coins by definition."""
    total, rounds = 0.0, (k + 1) // 2
    for coins in itertools.product((0, 1), repeat=rounds):
        page = []
        for rank in range(min(k, len(gains))):
            team = coins[rank // 2] ^ (rank % 2)
            place = next(d for d in np.argsort(-rankings[team], kind="stable") if d not in page)
            page.append(place)
            total += (1.0, -1.0)[team] * gains[place] / (rank + 1.0)
    return total / 2**rounds


@pytest.mark.parametrize(("policy", "depth"), [(DRAFT, DEPTH), (COVERING, K), (COVERING, DEPTH)])
def test_unbiased_for_metrics_that_are_covered(policy, depth):
    """An estimate 5 of its own standard errors off: once in 10^6 with a fixed seed."""
    data, a, b = world()
    clicks = log_of(data, [a, b], policy)
    metric = f"dcg@{depth}"
    found = compare_interleaved(a, b, data, clicks, policy, metrics=[metric], population="these-queries")[metric]
    low, high = found.ips_interval
    expected = expected_difference(data, a, b, depth, clicks)
    assert abs(found.ips - expected) < 5.0 * (high - low) / (2 * 1.96)


def test_the_default_metric_is_cut_at_half_of_the_page():
    data, a, b = world()
    assert list(compare_interleaved(a, b, data, log_of(data, [a, b], DRAFT, 2000), DRAFT)) == ["dcg@3"]


def test_metrics_that_need_documents_never_shown_are_refused():
    data, a, b = world()
    clicks = log_of(data, [a, b], DRAFT, 2000)
    with pytest.raises(
        CounterrankError, match=r"dcg@5 needs [\d,]+ documents that the policy never shows.* such as dcg@3"
    ):
        compare_interleaved(a, b, data, clicks, DRAFT, metrics=["dcg@5"])


def test_ties_are_in_the_order_of_the_pages():
    data, a, b = world()
    a, b = np.round(a), np.round(b)
    clicks = log_of(data, [a, b], DRAFT, 2000)
    with pytest.raises(CounterrankError, match="ties='order'"):
        compare_interleaved(a, b, data, clicks, DRAFT)
    assert list(compare_interleaved(a, b, data, clicks, DRAFT, ties="order")) == ["dcg@3"]
    with pytest.raises(CounterrankError, match="a mixture of team draft"):
        compare_interleaved(a, b, data, clicks, DRAFT, metrics=["dcg@5"], ties="order")


def test_credit_is_that_of_the_paths():
    """An estimate 5 standard errors off: once in 10^6 with a fixed seed."""
    data, a, b = world()
    clicks = log_of(data, [a, b], DRAFT)
    found, gains = team_draft_credit(a, b, data, clicks, K), np.where(data.labels >= 3.0, 1.0, 0.1)
    expected = sum(
        clicks.sessions[query] * expected_credit((a[first:last], b[first:last]), gains[first:last], K)
        for query, (first, last) in enumerate(itertools.pairwise(data.offsets.tolist()))
    )
    assert abs(found.difference - expected / clicks.n_sessions) < 5.0 * np.sqrt(
        (1.0 / np.arange(1, K + 1)).sum() * K / clicks.n_sessions
    )
    assert found.difference == pytest.approx(found.clicks_a - found.clicks_b)
    assert found.clicks_a + found.clicks_b == pytest.approx(clicks.n_clicks / clicks.n_sessions)
    assert found.n_sessions == clicks.n_sessions


def test_credit_of_the_example_has_the_wrong_sign():
    """Ranking a is worse by dcg@3 and by dcg@5, and its documents get more clicks in every long log."""
    data, a, b = same_queries()
    clicks = log_of(data, [a, b], DRAFT)
    gains = np.where(RELEVANT, 1.0, 0.1)
    assert expected_credit((A, B), gains, K) == pytest.approx(0.09)
    assert expected_difference(data, a, b, 3, clicks) == pytest.approx(-0.5678, abs=1e-4)
    assert expected_difference(data, a, b, 5, clicks) == pytest.approx(-0.1802, abs=1e-4)
    credit = team_draft_credit(a, b, data, clicks, K)
    assert credit.interval[0] > 0.0
    assert compare_interleaved(a, b, data, clicks, DRAFT)["dcg@3"].ips_interval[1] < 0.0
    covered = log_of(data, [a, b], COVERING)
    assert compare_interleaved(a, b, data, covered, COVERING, metrics=["dcg@5"])["dcg@5"].ips_interval[1] < 0.0


def test_bad_input():
    data, a, b = world()
    clicks = log_of(data, [a, b], DRAFT, 500)
    with pytest.raises(CounterrankError, match="ReplaceLast interleaves nothing"):
        compare_interleaved(a, b, data, clicks, policies.ReplaceLast(K))
    with pytest.raises(CounterrankError, match="hold no pages; expected those of displays=True"):
        team_draft_credit(a, b, data, simulation.simulate(data, [a, b], DRAFT, EXAM, sessions=500), K)
    with pytest.raises(CounterrankError, match="which team draft of these rankings with k=5 cannot"):
        team_draft_credit(a, b, data, log_of(data, a, policies.UniformInsert(K), 500), K)
