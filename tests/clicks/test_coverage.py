"""What policies let users see: the conditions eq:awarecond and eq:agnosticcond, against all pages."""

import itertools

import numpy as np
import pytest

from counterrank import policies
from counterrank.clicks.examination import Examination, inverse_rank
from counterrank.clicks.policies import (
    Deterministic,
    EpsilonGreedy,
    Explicit,
    Mixture,
    PlackettLuce,
    ReplaceLast,
    UniformInsert,
    coverage,
)
from counterrank.common.errors import CounterrankError
from tests.clicks.test_policies import LastFirst, OnlySamples, SampleOnly
from tests.reference import policies as naive

SCORES = [3.0, 1.0, 2.0, 0.0, 5.0, 4.0, 1.0]
OFFSETS = [0, 4, 6, 7]


def test_the_top_k_hides_the_rest():
    covered = coverage(Deterministic(2), SCORES, OFFSETS, inverse_rank(2))
    assert covered.examinable.tolist() == [True, False, True, False, True, True, True]
    assert covered.always_examinable.tolist() == covered.examinable.tolist()
    assert covered.never_examined.tolist() == [0.5, 0.0, 0.0]
    assert covered.not_always_examined.tolist() == [0.5, 0.0, 0.0]
    assert not covered.supports_policy_aware
    assert not covered.supports_policy_oblivious
    assert covered.offsets.tolist() == OFFSETS


def test_replacing_the_last_shows_everything_sometimes():
    covered = coverage(ReplaceLast(2), SCORES, OFFSETS, inverse_rank(2))
    assert covered.supports_policy_aware
    assert not covered.supports_policy_oblivious
    assert covered.never_examined.tolist() == [0.0, 0.0, 0.0]
    assert covered.not_always_examined.tolist() == [0.75, 0.0, 0.0]


@pytest.mark.parametrize("policy", [Deterministic(), ReplaceLast(), UniformInsert(), PlackettLuce(), Deterministic(9)])
def test_without_a_cutoff_all_is_seen(policy):
    covered = coverage(policy, SCORES, OFFSETS, inverse_rank())
    assert covered.supports_policy_aware
    assert covered.supports_policy_oblivious


def test_examination_may_end_before_the_page():
    covered = coverage(Deterministic(), SCORES, OFFSETS, inverse_rank(1))
    assert covered.never_examined.tolist() == [0.75, 0.5, 0.0]
    shuffled = coverage(PlackettLuce(), SCORES, OFFSETS, inverse_rank(1))
    assert shuffled.supports_policy_aware
    assert shuffled.not_always_examined.tolist() == [1.0, 1.0, 0.0]


def test_the_page_may_end_before_examination():
    assert coverage(Deterministic(2), SCORES, OFFSETS, inverse_rank()).never_examined.tolist() == [0.5, 0.0, 0.0]


def test_ranks_that_nobody_looks_at():
    exam = Examination([0.0, 1.0])
    covered = coverage(Deterministic(2), SCORES, OFFSETS, exam)
    assert covered.examinable.tolist() == [False, False, True, False, False, True, False]
    covered = coverage(ReplaceLast(3), SCORES, OFFSETS, Examination([1.0, 1.0, 0.0]))
    assert covered.never_examined.tolist() == [0.5, 0.0, 0.0]
    # the curve is zero on every rank these queries have
    covered = coverage(Deterministic(), [1.0, 2.0], [0, 1, 2], exam)
    assert not covered.examinable.any()
    assert covered.never_examined.tolist() == [1.0, 1.0]


def test_small_chances_count_as_chances():
    covered = coverage(EpsilonGreedy(2, 1e-12), SCORES, OFFSETS, Examination([1e-9, 1e-9]))
    assert covered.supports_policy_aware
    covered = coverage(EpsilonGreedy(2, 1e-6), SCORES, OFFSETS, Examination([1e-9, 1e-9]))
    assert covered.always_examinable.tolist() == [True, False, False, False, True, True, True]


CURVES = [[1.0, 0.5, 0.2], [1.0], [0.0, 0.3], [0.4, 0.0, 0.4], [0.1] * 5]
POLICIES = [
    *(make(k) for make in (Deterministic, ReplaceLast, UniformInsert, PlackettLuce) for k in (1, 2, 3, None)),
    EpsilonGreedy(2, 0.5),
    Mixture([Deterministic(2), UniformInsert(3)], [0.5, 0.5]),
    Mixture([LastFirst(), ReplaceLast(2)], [0.5, 0.5]),
]


@pytest.mark.parametrize("theta", CURVES, ids=str)
@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_conditions_over_all_pages(policy, theta):
    """eq:awarecond2: on some page at an examined rank; eq:agnosticcond: on every page."""
    covered = coverage(policy, SCORES, OFFSETS, Examination(theta))
    for a, b in itertools.pairwise(OFFSETS):
        seen = [
            {place for place, examined in zip(page, theta, strict=False) if examined > 0.0}
            for page in naive.pages_of(policy, SCORES[a:b])
        ]
        assert covered.examinable[a:b].tolist() == [any(i in page for page in seen) for i in range(b - a)]
        assert covered.always_examinable[a:b].tolist() == [all(i in page for page in seen) for i in range(b - a)]


def test_listed_pages():
    both = {0: Explicit([[0, 1], [1, 2]], [0.3, 0.7]), 1: Explicit([[1]], [1.0])}
    covered = coverage(both, np.zeros(5), [0, 3, 5], [1.0, 0.5])
    assert covered.examinable.tolist() == [True, True, True, False, True]
    assert covered.always_examinable.tolist() == [False, True, False, False, True]
    never = coverage(Explicit([[0], [1]], [1.0, 0.0]), np.zeros(2), [0, 2], [1.0])
    assert never.examinable.tolist() == [True, False]


def test_shares_that_round_are_still_certain():
    tenths = Mixture([Deterministic(2)] * 10, [0.1] * 10)
    assert coverage(tenths, [2.0, 1.0], [0, 2], inverse_rank(2)).supports_policy_oblivious


def test_policies_offer_it_too():
    mine = ReplaceLast(2).coverage(SCORES, OFFSETS, inverse_rank(2))
    assert mine.not_always_examined.tolist() == [0.75, 0.0, 0.0]
    with pytest.warns(UserWarning, match="estimated"):
        assert OnlySamples().coverage(SCORES, OFFSETS, inverse_rank(2)).never_examined[0] == 0.5
    with pytest.warns(UserWarning, match="estimated"):
        assert coverage(SampleOnly(), SCORES, OFFSETS, inverse_rank(2)).never_examined.tolist() == [0.5, 0.0, 0.0]


def test_in_words():
    text = str(policies.coverage(Deterministic(2), SCORES, OFFSETS, inverse_rank(2)))
    assert "policy-aware (eq:awarecond): violated, 2 of 7 candidates (28.6%) can never be examined, in 1 of 3" in text
    assert "policy-oblivious (eq:agnosticcond): violated, 2 of 7" in text
    text = str(policies.coverage(ReplaceLast(2), SCORES, OFFSETS, inverse_rank(2)))
    assert "policy-aware (eq:awarecond): holds for all 7 candidates" in text


@pytest.mark.parametrize(
    ("policy", "offsets", "exam", "message"),
    [
        (3, [0, 7], [1.0], "policy: int; expected a policy"),
        (Deterministic(2), [0, 8], [1.0], "offsets: ends at 8"),
        (Deterministic(2), [1, 7], [1.0], "offsets: starts at 1; expected 0"),
        (Deterministic(2), [0, 7], None, "exam: NoneType; expected an examination curve"),
    ],
)
def test_bad_arguments(policy, offsets, exam, message):
    with pytest.raises(CounterrankError, match=message):
        coverage(policy, SCORES, offsets, exam)
