"""Team-draft interleaving against the enumeration of its coin paths, as a policy wherever policies are."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterrank.clicks import simulation
from counterrank.clicks.examination import Examination, inverse_rank
from counterrank.clicks.policies import (
    Deterministic,
    Mixture,
    PlackettLuce,
    ReplaceLast,
    TeamDraft,
    coverage,
    estimate_propensity,
    parse_policy,
    several_policies,
)
from counterrank.clicks.policies.team_draft import coin_pages
from counterrank.common.errors import CounterrankError
from counterrank.data import RankingData
from counterrank.estimators import Evidence
from tests.reference import policies as naive
from tests.reference.simulation import fits

RARE = 1e-7  # a test with fixed seed and a p-value below this fails
EXAM = inverse_rank(k=5)


def queries_of(lengths, seed=0, levels=None):
    """Offsets and scores of two rankings; with `levels`, many are equal."""
    rng = np.random.default_rng(seed)
    offsets = np.cumsum([0, *lengths])
    shape = (2, offsets[-1])
    return offsets, rng.standard_normal(shape) if levels is None else rng.integers(0, levels, shape).astype(float)


def expected(policy, scores, offsets, theta):
    return np.concatenate(
        [
            naive.propensities(naive.pages_of(policy, scores[:, a:b]), b - a, theta)
            for a, b in itertools.pairwise(offsets.tolist())
        ]
    )


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(1, 7), st.integers(0, 99),
    st.sampled_from([None, 1, 2]),
)  # fmt: skip
def test_propensities_and_display_probabilities(lengths, k, seed, levels):
    """Single documents, queries shorter than k, ties, and equal rankings (one level) among them."""
    offsets, scores = queries_of(lengths, seed, levels)
    policy = TeamDraft(k)
    rho = policy.propensity(list(scores), offsets, EXAM)
    assert rho == pytest.approx(expected(policy, scores, offsets, EXAM.curve(5)), abs=1e-12)
    shown = policy.rank_probabilities(scores, offsets, k)
    for rank in range(k):
        assert shown[:, rank] == pytest.approx(expected(policy, scores, offsets, np.eye(k)[rank]), abs=1e-12)
    found = policy.coverage(scores, offsets, EXAM)
    assert (found.examinable == (expected(policy, scores, offsets, np.array(EXAM.curve(5)) > 0) > 0)).all()
    always = expected(policy, scores, offsets, [1.0] * min(k, 5))
    assert (found.always_examinable == (always > 1.0 - 1e-9)).all()


@pytest.mark.parametrize("k", [1, 2, 5, 6])
def test_pages_and_teams(k):
    offsets, scores = queries_of([1, 4, 8], seed=3)
    pages = coin_pages(scores, offsets, k)
    at = 0
    for q, (a, b) in enumerate(itertools.pairwise(offsets.tolist())):
        listed = Counter()
        for _ in range(pages.counts[q]):
            own = slice(pages.offsets[at], pages.offsets[at + 1])
            listed[tuple(pages.places[own].tolist()), tuple(pages.teams[own].tolist())] += 1 / pages.counts[q]
            at += 1
        drafts = Counter()
        for page, teams, probability in naive.drafts(scores[0, a:b], scores[1, a:b], k):
            drafts[page, teams] += probability
        assert listed == pytest.approx(drafts)


def test_equal_rankings_show_the_top_k():
    offsets, scores = queries_of([9, 3])
    docs, bounds = TeamDraft(4).sample([scores[0], scores[0]], offsets, seed=0)
    assert docs.tolist() == Deterministic(4).sample(scores[0], offsets)[0].tolist()
    assert bounds.tolist() == [0, 4, 7]


def test_samples_have_their_frequencies():
    """Chi-square over the pages of one query, and over pages shown live."""
    _, scores = queries_of([6], seed=1)
    policy = TeamDraft(5)
    listed = naive.pages_of(policy, scores)
    one = np.repeat(scores, 4000, axis=1).reshape(2, 6, 4000).transpose(0, 2, 1).reshape(2, -1)
    docs, bounds = policy.sample(list(one), np.arange(0, 24_001, 6), seed=4)
    drawn = Counter(tuple((page % 6).tolist()) for page in np.split(docs, bounds[1:-1]))
    rng = np.random.default_rng(0)
    live = Counter(tuple(policy.display(scores, EXAM, rng).docs.tolist()) for _ in range(1000))
    for found, n in ((drawn, 4000), (live, 1000)):
        assert set(found) <= set(listed)
        assert sum(found.values()) == n
        assert fits(found, listed) > RARE


def test_what_to_log_with_a_page():
    offsets, scores = queries_of([7], seed=2)
    policy = TeamDraft(5)
    page = policy.display(list(scores), EXAM, seed=3)
    assert page.propensities == pytest.approx(policy.propensity(scores, offsets, EXAM)[page.docs])
    shown = policy.rank_probabilities(scores, offsets, 5)
    assert page.display_probabilities == pytest.approx(shown[page.docs, np.arange(5)])


@pytest.mark.parametrize("other", [ReplaceLast(3), PlackettLuce(3)])
def test_other_parts_of_a_mixture_rank_by_the_first(other):
    offsets, scores = queries_of([6, 2, 9], seed=5)
    mixture = Mixture([TeamDraft(3), other], [0.25, 0.75])
    found = mixture.propensity(scores, offsets, EXAM)
    alone = TeamDraft(3).propensity(scores, offsets, EXAM), other.propensity(scores[0], offsets, EXAM)
    assert found == pytest.approx(0.25 * alone[0] + 0.75 * alone[1])
    assert coverage(mixture, scores, offsets, EXAM).examinable.all()
    assert not coverage(TeamDraft(3), scores, offsets, EXAM).examinable.all()
    page = mixture.display(scores[:, :6], EXAM, seed=1)
    assert page.propensities == pytest.approx(found[page.docs])
    sampled = estimate_propensity(mixture, scores, offsets, EXAM, samples=2000, seed=0)
    assert np.abs(sampled.propensities - found).max() < 6 * 0.5 / np.sqrt(2000)


def make_data(offsets, seed=0):
    labels = 4.0 * (np.random.default_rng(seed).random(offsets[-1]) < 0.4)
    return RankingData(np.zeros((offsets[-1], 1)), offsets, labels)


@pytest.mark.statistical
@pytest.mark.representative
def test_simulated_clicks():
    """Impressions by document and rank against their chances: chi-square, and one page after the other."""
    offsets, scores = queries_of([6, 3, 8], seed=7)
    data, policy = make_data(offsets), TeamDraft(4)
    clicks = simulation.simulate(data, list(scores), policy, EXAM, sessions=60_000, seed=1, displays=True)
    shown = policy.rank_probabilities(scores, offsets, 4)
    table = np.zeros((offsets[-1], 4))
    np.add.at(table, (clicks.docs, clicks.ranks - 1), clicks.impressions)
    n = np.repeat(clicks.sessions, np.diff(offsets))[:, None]
    assert not table[shown == 0.0].any()
    possible = (shown > 0.0) & (shown < 1.0)
    z = (table - n * shown)[possible] / np.sqrt(n * shown * (1 - shown))[possible]
    assert np.abs(z).max() < 6  # of some 50 normal numbers, once in 10^7 runs
    rho = policy.propensity(scores, offsets, EXAM)
    assert clicks.propensities == pytest.approx(rho[clicks.docs])
    pages = clicks.displays
    for a, b in itertools.pairwise(offsets.tolist()):
        listed = naive.pages_of(policy, scores[:, a:b])
        own = {
            tuple((pages.docs[i:j] - a).tolist()): int(pages.sessions[p])
            for p, (i, j) in enumerate(itertools.pairwise(pages.offsets.tolist()))
            if a <= pages.docs[i] < b
        }
        assert set(own) == set(listed)
        assert fits(own, listed) > RARE


def test_evidence_and_several_policies():
    offsets, scores = queries_of([6, 5, 8] * 20, seed=8)
    data, draft = make_data(offsets), TeamDraft(4)
    options = {"sessions": 3000, "propensities": False}
    clicks = simulation.simulate(data, list(scores), draft, EXAM, seed=1, policy_name="td", **options)
    evidence = Evidence(clicks, policy=draft, scores=list(scores)).for_data(data)
    evidence.check_policy()
    rho = draft.propensity(scores, offsets, EXAM)
    assert np.asarray(evidence.propensities) == pytest.approx(rho)
    swapped = Evidence(clicks, policy=draft, scores=list(-scores)).for_data(data)
    with pytest.raises(CounterrankError, match="cannot come from the policy"):
        swapped.check_policy()
    other = simulation.simulate(
        data, scores[0], ReplaceLast(4), EXAM, seed=2, policy_name="rl", sessions=1500, propensities=False
    )
    both = type(clicks).concat([clicks, other])
    mean = several_policies(both, {"td": (draft, list(scores)), "rl": (ReplaceLast(4), scores[0])}, EXAM)
    share = np.repeat(clicks.sessions / both.sessions, np.diff(offsets))
    last = ReplaceLast(4).propensity(scores[0], offsets, EXAM)
    assert np.asarray(mean) == pytest.approx(share * rho + (1 - share) * last)


def test_by_name():
    assert parse_policy("team-draft:k=5") == TeamDraft(5)
    mixture = parse_policy("0.5*team-draft:k=5 + 0.5*replace-last:k=5")
    assert mixture.policies == (TeamDraft(5), ReplaceLast(5))


def test_propensities_of_many_queries():
    offsets, scores = queries_of([120] * 300)
    rho = TeamDraft(10).propensity(scores, offsets, Examination(np.ones(10)))
    assert np.add.reduceat(rho, offsets[:-1]) == pytest.approx(np.full(300, 10.0))


A, B = [3.0, 2.0, 1.0], [1.0, 2.0, 3.0]
BAD = [
    (lambda: TeamDraft(0), "k=0: expected"),
    (lambda: TeamDraft(None), "k=None: expected"),
    (lambda: TeamDraft(21), "k=21: expected at most 20"),
    (lambda: TeamDraft(2).propensity(A, [0, 3], EXAM), "scores: one ranking, but TeamDraft interleaves two"),
    (lambda: TeamDraft(2).sample([A, B[:2]], [0, 3]), r"scores\[1\]: 2 entries; expected 3"),
    (lambda: TeamDraft(2).sample([A, [1.0, np.nan, 2.0]], [0, 3]), r"scores\[1\]: entry 1 is nan"),
    (lambda: TeamDraft(2).sample([A, B, A], [0, 3]), "scores: one ranking, but TeamDraft interleaves two"),
    (lambda: ReplaceLast(2).sample([A, B], [0, 3]), r"scores: shape \(2, 3\); expected one dimension"),
    (lambda: ReplaceLast(2).display([A, B], EXAM, seed=1), r"scores: shape \(2, 3\); expected one dimension"),
    (lambda: TeamDraft(2).display(A, EXAM, seed=1), "scores: one ranking, but TeamDraft interleaves two"),
    (lambda: TeamDraft(6).display([A * 2, B * 2], EXAM, seed=1), "exam: 5 ranks, but TeamDraft"),
    (lambda: parse_policy("team-draft"), "k"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
