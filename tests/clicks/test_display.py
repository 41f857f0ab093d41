"""One query at a time, live: the page, and what is logged with it, against the enumeration of all pages."""

from collections import Counter

import numpy as np
import pytest

from counterrank.clicks.examination import Examination, inverse_rank
from counterrank.clicks.policies import (
    Deterministic,
    EpsilonGreedy,
    Explicit,
    Mixture,
    PlackettLuce,
    ReplaceLast,
    UniformInsert,
)
from counterrank.common.errors import CounterrankError
from tests.clicks.test_policies import LISTED, MIXED, OnlySamples, by_rank
from tests.reference import policies as naive
from tests.reference.simulation import fits

RARE = 1e-7
SCORES = {1: [0.3], 2: [-1.0, 2.0], 3: [0.5, 1.5, 0.5], 5: [0.1, 2.0, -1.0, 2.0, 0.7]}
CURVE = [0.9, 0.0, 0.5, 0.3, 0.0]


def quick(k):
    return [policy for policy in by_rank(k) if not isinstance(policy, PlackettLuce)]


CASES = [
    *((policy, n) for k in (1, 2, 3, 7, None) for policy in quick(k) for n in SCORES),
    *((MIXED[0], n) for n in SCORES),
    (LISTED, 5),
    (Mixture([LISTED, Mixture([UniformInsert(2), EpsilonGreedy(3, 0.2)], [0.5, 0.5])], [0.5, 0.5]), 5),
    (Mixture([Deterministic(None), UniformInsert(2)], [0.3, 0.7]), 5),
]


def check_logged(page, pages, n, curve):
    """What is logged with a page is the truth about the policy."""
    rho = np.array(naive.propensities(pages, n, curve))
    shown = np.array(naive.rank_probabilities(pages, n, n))
    docs = page.docs
    assert page.ranks.tolist() == list(range(1, len(docs) + 1))
    assert page.propensities == pytest.approx(rho[docs], rel=1e-9, abs=1e-15)
    assert page.display_probabilities == pytest.approx(shown[docs, np.arange(len(docs))], rel=1e-9)
    assert page.propensities.dtype == page.display_probabilities.dtype == np.float64


@pytest.mark.statistical
@pytest.mark.parametrize(("policy", "n"), CASES, ids=[f"{repr(policy)[:60]}-{n}" for policy, n in CASES])
def test_pages_have_their_probabilities_and_logs_hold_them(policy, n):
    """600 pages from one generator; false alarm below 1e-7 in each case, seed fixed."""
    rng, scores, exam = np.random.default_rng(n), SCORES[n], Examination(CURVE)
    pages = naive.pages_of(policy, scores)
    seen = Counter()
    for _ in range(600):
        page = policy.display(scores, exam, rng)
        places = tuple(page.docs.tolist())
        if places not in seen:
            check_logged(page, pages, n, CURVE)
        seen[places] += 1
    assert fits(seen, pages) > RARE


@pytest.mark.statistical
@pytest.mark.parametrize("policy", [PlackettLuce(2), PlackettLuce(None, 2.0), MIXED[1], MIXED[2]], ids=repr)
def test_slower_policies(policy):
    """Plackett-Luce and policies of one's own; false alarm below 1e-7, seed fixed."""
    curve = [1, 1 / 2, 1 / 3, 0, 0]
    scores, exam = SCORES[5], Examination(curve)
    pages = naive.pages_of(policy, scores)
    seen = Counter()
    for seed in range(150):
        page = policy.display(scores, exam, seed)
        places = tuple(page.docs.tolist())
        if len(seen) < 10 and places not in seen:
            rho = np.array(naive.propensities(pages, 5, curve))
            shown = np.array(naive.rank_probabilities(pages, 5, 5))
            assert page.propensities == pytest.approx(rho[page.docs], rel=1e-6)
            assert page.display_probabilities == pytest.approx(shown[page.docs, page.ranks - 1], rel=1e-6)
        seen[places] += 1
    assert fits(seen, pages) > RARE


@pytest.mark.parametrize("k", [1, 5, 10, 63, 64, 65, 200, 999, 1000, 1001, None])
def test_a_thousand_candidates(k):
    """Few or many at the top: the pages are those of the whole ranking, and the numbers those of `propensity`."""
    rng = np.random.default_rng(2)
    scores = rng.integers(0, 300, 1000).astype(float)  # with ties
    exam = inverse_rank(k, eta=0.5)
    order = np.array(naive.ranked(scores.tolist()))
    length = 1000 if k is None else min(k, 1000)
    for policy in quick(k):
        rho = policy.propensity(scores, [0, 1000], exam)
        for seed in range(4):
            page = policy.display(scores, exam, seed)
            assert len(page.docs) == length == len(set(page.docs.tolist()))
            assert page.propensities == pytest.approx(rho[page.docs], rel=1e-9)
            moved = page.docs != order[:length]
            if not isinstance(policy, UniformInsert):
                assert not moved[:-1].any()
            elif moved.any():  # all below the inserted one are one rank down
                at = int(np.argmax(moved))
                assert (page.docs[at + 1 :] == order[at : length - 1]).all()


SPREADS = {
    "normal": np.random.default_rng(0).normal(size=1000),
    "ties": np.random.default_rng(1).integers(0, 3, 400).astype(float),
    "far apart": 50.0 * np.random.default_rng(2).normal(size=300),
    "huge": 1e4 * np.random.default_rng(3).normal(size=60),
    "short": np.array([0.3, -1.0, 2.0, 0.1]),
    "as long as its page": np.array([0.3, -1.0]),
    "alone": np.array([7.0]),
}


@pytest.mark.parametrize("k", [1, 2, 5, 10, 30, None])
@pytest.mark.parametrize("name", SPREADS)
def test_plackett_luce_logs_what_propensity_says(name, k):
    """The integrals of the page alone are those of the whole query, to 1e-9; those of ranks have other nodes: 1e-7."""
    scores, exam = SPREADS[name], inverse_rank(k, eta=0.5)
    n = len(scores)
    if k is None and n > 100:
        scores, n = scores[:100], 100
    policy = PlackettLuce(k, temperature=2.0)
    rho = policy.propensity(scores, [0, n], exam)
    shown = policy.rank_probabilities(scores, [0, n], n if k is None else k) if k != 30 else None
    for seed in range(3):
        page = policy.display(scores, exam, seed)
        assert page.docs.tolist() == policy.sample(scores, [0, n], seed=seed)[0].tolist()
        assert page.propensities == pytest.approx(rho[page.docs], rel=1e-9)
        if shown is not None:
            assert page.display_probabilities == pytest.approx(shown[page.docs, page.ranks - 1], rel=1e-7)


def test_a_plackett_luce_with_propensities_of_its_own_logs_these():
    class Known(PlackettLuce):
        def propensity(self, scores, offsets, exam, threads=None):
            return np.full(len(scores), 0.25)

    assert Known(2).display(np.arange(9.0), inverse_rank(2), 0).propensities.tolist() == [0.25, 0.25]


@pytest.mark.statistical
@pytest.mark.representative
def test_every_document_of_a_long_query_gets_its_turn():
    """Which of 996 documents stands last: Pearson's test over 83 ranges of 12, false alarm below 1e-7."""
    rng, scores, exam = np.random.default_rng(0), np.arange(1000.0)[::-1], inverse_rank(5)
    drawn = [int(ReplaceLast(5).display(scores, exam, rng).docs[-1]) for _ in range(4000)]
    assert min(drawn) >= 4
    assert fits(Counter((place - 4) // 12 for place in drawn), dict.fromkeys(range(83), 1 / 83)) > RARE


def test_seeds():
    scores, exam = np.arange(50.0), inverse_rank(3)
    for policy in (ReplaceLast(3), UniformInsert(3), PlackettLuce(3, 20.0)):
        first, again = (policy.display(scores, exam, 5).docs.tolist() for _ in range(2))
        assert first == again
        assert len({tuple(policy.display(scores, exam, seed).docs.tolist()) for seed in range(20)}) > 5


def test_scores_of_other_types_and_lengths_follow_each_other():
    """What a policy keeps between calls does not depend on the scores of a call."""
    policy = EpsilonGreedy(3, 0.0)
    for scores in ([1.0, 2.0], np.arange(9, dtype=np.float32), [5, 7, 6], [1.0], np.arange(4.0)):
        for exam in (inverse_rank(), Examination([0.5, 0.4, 0.3])):
            page = policy.display(scores, exam, 0)
            top = naive.ranked(np.asarray(scores, dtype=float).tolist())[:3]
            assert page.docs.tolist() == top
            assert page.propensities == pytest.approx(exam.curve(len(top)))


def test_policies_stay_equal_and_hashable_after_use():
    used, fresh = ReplaceLast(3), ReplaceLast(3)
    used.display([1.0, 2.0], inverse_rank(2), 0)
    assert used == fresh
    assert hash(used) == hash(fresh)
    assert repr(used) == "ReplaceLast(k=3)"


def test_a_policy_that_can_only_sample():
    with pytest.raises(CounterrankError, match="OnlySamples has no `propensity`, so there is nothing to log"):
        OnlySamples().display([3.0, 1.0, 2.0], inverse_rank(2), 3)


@pytest.mark.parametrize(
    ("policy", "scores", "exam", "seed", "message"),
    [
        (ReplaceLast(2), [], [1.0], 0, "scores: none; expected at least one candidate"),
        (ReplaceLast(2), [1.0, np.inf], [1.0], 0, "scores: entry 1 is inf; expected finite numbers"),
        (ReplaceLast(2), [[1.0]], [1.0], 0, r"scores: shape \(1, 1\); expected one dimension"),
        (ReplaceLast(2), ["a"], [1.0], 0, "scores: type"),
        (ReplaceLast(2), [1.0], 1.0, 0, "exam: float; expected an examination curve"),
        (ReplaceLast(2), [1.0], [1.0, 0.5], -1, "seed=-1: expected a whole number of at least 0"),
        (ReplaceLast(2), [1.0], [1.0], None, "seed=None: expected a whole number"),
        (PlackettLuce(2), [], [1.0], 0, "scores: none"),
        (PlackettLuce(2), [1.0], [1.0], "x", "seed='x'"),
        (Explicit([[0, 3]], [1.0]), [1.0, 2.0], [1.0], 0, "document 3 on a page of a query with 2 documents"),
    ],
)
def test_bad_arguments(policy, scores, exam, seed, message):
    with pytest.raises(CounterrankError, match=message):
        policy.display(scores, exam, seed)


FIVE = [3.0, 1.0, 2.0, 0.5, 0.1]
TOO_LONG = [
    (
        ReplaceLast(k=5),
        FIVE,
        r"exam: 3 ranks, but ReplaceLast\(k=5\) shows pages of 5.*a curve of 5 ranks or more",
    ),
    (UniformInsert(k=4), FIVE, r"UniformInsert\(k=4\) shows pages of 4.*or a policy with k=3 at most"),
    (Deterministic(k=None), FIVE, "shows pages of 5"),
    (Deterministic(k=9), FIVE[:4], "shows pages of 4"),  # no more ranks than documents
    (EpsilonGreedy(k=4, epsilon=0.0), FIVE, "shows pages of 4"),
    (PlackettLuce(k=4), FIVE, r"PlackettLuce\(k=4, temperature=1.0\) shows pages of 4"),
    (Explicit([[0], [0, 1, 2, 3]], [0.9, 0.1]), FIVE, "shows pages of 4"),
    (Mixture([Deterministic(2), ReplaceLast(4)], [0.999, 0.001]), FIVE, "shows pages of 4"),
    (Mixture([Explicit([[0, 1, 2, 3]], [1.0]), Deterministic(2)], [0.5, 0.5]), FIVE, "shows pages of 4"),
    (Mixture([PlackettLuce(2), Deterministic(4)], [0.999, 0.001]), FIVE, "shows pages of 4"),
]


@pytest.mark.parametrize(("policy", "scores", "message"), TOO_LONG, ids=[repr(case[0])[:40] for case in TOO_LONG])
def test_a_page_longer_than_the_curve_is_an_error_whichever_page_is_drawn(policy, scores, message):
    for exam in (inverse_rank(3), [1.0, 0.5, 0.3]):
        for seed in range(5):
            with pytest.raises(CounterrankError, match=message):
                policy.display(scores, exam, seed)
    for exam in (inverse_rank(), inverse_rank(9), [1.0, 0.5, 0.3, 0.2, 0.1]):
        assert (policy.display(scores, exam, 0).propensities > 0.0).all()


def test_a_policy_of_one_s_own_is_refused_when_its_page_is_too_long():
    class Whole(Deterministic):
        """Derived, and draws in its own way, so that the length is known from the page alone."""

        def sample(self, scores, offsets, seed=0):
            return np.arange(len(scores)), np.asarray(offsets)

        def propensity(self, scores, offsets, exam, threads=None):
            return exam.curve(len(scores))

    assert len(Whole(2).display(FIVE[:3], inverse_rank(3), 0).docs) == 3
    with pytest.raises(CounterrankError, match=r"exam: 3 ranks, but .* shows pages of 5"):
        Whole(2).display(FIVE, inverse_rank(3), 0)


@pytest.mark.parametrize("policy", [ReplaceLast(5), PlackettLuce(5), Mixture([ReplaceLast(5)], [1.0])], ids=repr)
def test_a_short_query_needs_no_longer_curve_than_its_page(policy):
    assert len(policy.display(FIVE[:3], inverse_rank(3), 0).docs) == 3
    with pytest.raises(CounterrankError, match="exam: 3 ranks"):
        policy.display(FIVE[:4], inverse_rank(3), 0)
    with pytest.raises(CounterrankError, match="exam: 1 rank, but"):
        policy.display(FIVE[:4], inverse_rank(1), 0)
