"""Logging policies against the enumeration of all pages they may show, and against frequencies of their own samples."""

import itertools
import math
import warnings
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
    Policy,
    ReplaceLast,
    UniformInsert,
    coverage,
    estimate_propensity,
    parse_policy,
)
from counterrank.common.errors import CounterrankError
from tests.reference import policies as naive
from tests.reference.simulation import fits

RARE = 1e-7  # a test with fixed seed and a p-value below this fails


class LastFirst:
    """A policy of one's own, no subclass: the two worst documents in one of their two orders, 3 to 1."""

    def enumerate_pages(self, scores):
        order = naive.ranked(scores)[::-1][:2]
        return [(tuple(order), 0.75), (tuple(order[::-1]), 0.25)] if len(order) > 1 else [(tuple(order), 1.0)]

    def sample(self, scores, offsets, seed=0):
        rng, docs, bounds = np.random.default_rng(seed), [], [0]
        for a, b in itertools.pairwise(offsets):
            listed = self.enumerate_pages(list(scores[a:b]))
            page = listed[rng.choice(len(listed), p=[p for _, p in listed])][0]
            docs += [int(a) + place for place in page]
            bounds.append(len(docs))
        return np.array(docs), np.array(bounds)

    def __repr__(self):
        return "LastFirst()"

    def propensity(self, scores, offsets, exam):
        return np.concatenate(
            [
                naive.propensities(naive.pages_of(self, scores[a:b]), b - a, exam.curve(b - a))
                for a, b in itertools.pairwise(offsets)
            ]
        )


class OnlySamples(Policy):
    """The same pages, without propensities or display probabilities."""

    enumerate_pages, sample = LastFirst.enumerate_pages, LastFirst.sample


def by_rank(k):
    """All policies that go by rank, at one cutoff."""
    return [
        Deterministic(k),
        ReplaceLast(k),
        EpsilonGreedy(k, 0.3),
        EpsilonGreedy(k, 0.0),
        EpsilonGreedy(k, 1.0),
        UniformInsert(k),
        PlackettLuce(k),
        PlackettLuce(k, temperature=0.4),
    ]


LISTED = Explicit([[0, 1, 3], [2], [3, 0, 1, 2], [1, 3]], [0.4, 0.3, 0.2, 0.1])  # of four documents or more
INNER = Mixture([UniformInsert(2), LastFirst(), ReplaceLast(3)], [0.2, 0.5, 0.3])
MIXED = [
    Mixture([Deterministic(2), ReplaceLast(3)], [0.25, 0.75]),
    Mixture([EpsilonGreedy(2, 0.5), PlackettLuce(3, 2.0), UniformInsert(4), Deterministic(None)], [0.1, 0.4, 0.3, 0.2]),
    Mixture([INNER, Deterministic(1), Mixture([PlackettLuce(1), INNER], [0.5, 0.5])], [0.5, 0.0, 0.5]),
]
SCORES = {
    1: [0.3],
    2: [-1.0, 2.0],
    3: [0.5, 1.5, 0.5],  # a tie
    4: [0.0, 0.0, 0.0, 0.0],
    5: [0.1, 2.0, -1.0, 2.0, 0.7],
}
CURVES = [[1.0, 0.5, 1 / 3, 0.25, 0.2], [0.9], [1.0, 0.4], [0.0, 0.7, 0.0, 0.2], [0.2, 0.9, 0.5, 1.0, 0.3, 0.6, 0.4]]
ALL = [
    *((policy, n) for k in (1, 2, 3, 5, 7, None) for policy in by_rank(k) for n in SCORES),
    *((LISTED, n) for n in (4, 5)),
    *((policy, n) for policy in MIXED for n in SCORES),
    (Mixture([LISTED, ReplaceLast(2)], [0.6, 0.4]), 4),
]


@pytest.mark.statistical
@pytest.mark.parametrize("scores", SCORES.values(), ids=SCORES)
@pytest.mark.parametrize("policy", [*by_rank(1), *by_rank(3), *by_rank(None), *MIXED], ids=repr)
def test_the_two_references_agree(policy, scores):
    """False alarm below 1e-7 in each case, seed fixed."""
    rng = np.random.default_rng(12)
    drawn = Counter(naive.draw_page(policy, scores, rng) for _ in range(300))
    assert fits(drawn, naive.pages_of(policy, scores)) > RARE


def test_enumeration_by_hand():
    assert naive.pages_of(ReplaceLast(2), [1.0, 3.0, 2.0]) == {(1, 2): 0.5, (1, 0): 0.5}
    assert naive.pages_of(EpsilonGreedy(2, 0.5), [1.0, 3.0, 2.0]) == {(1, 2): 0.75, (1, 0): 0.25}
    assert naive.pages_of(UniformInsert(2), [1.0, 3.0]) == {(0, 1): 0.5, (1, 0): 0.5}
    assert naive.pages_of(UniformInsert(3), [1.0, 3.0]) == {(1, 0): 1.0}
    assert naive.pages_of(PlackettLuce(1), [math.log(3.0), 0.0]) == pytest.approx({(0,): 0.75, (1,): 0.25})


@pytest.mark.parametrize(("policy", "n"), ALL, ids=[f"{repr(policy)[:60]}-{n}" for policy, n in ALL])
def test_propensities_and_rank_probabilities_are_those_of_all_pages(policy, n):
    pages, scores = naive.pages_of(policy, SCORES[n]), SCORES[n]
    for curve in CURVES:
        rho = policy.propensity(scores, [0, n], Examination(curve))
        assert rho.dtype == np.float64
        assert rho == pytest.approx(np.array(naive.propensities(pages, n, curve)), rel=1e-7, abs=1e-14)
    shown = policy.rank_probabilities(scores, [0, n], n + 1)
    assert shown.shape == (n, n + 1)
    assert shown == pytest.approx(np.array(naive.rank_probabilities(pages, n, n + 1)), rel=1e-7, abs=1e-14)


@pytest.mark.parametrize("k", [1, 2, 3, None])
def test_examination_without_end(k):
    scores, exam = SCORES[5], inverse_rank(k=None, eta=0.5)
    for policy in by_rank(k):
        expected = naive.propensities(naive.pages_of(policy, scores), 5, [rank**-0.5 for rank in range(1, 6)])
        assert policy.propensity(scores, [0, 5], exam) == pytest.approx(np.array(expected), rel=1e-7)


def test_closed_form_of_uniform_insert():
    """n >= k: (k-i)/k theta_i + i/k theta_(i+1) above the cut, the mean of theta over n-k+1 below; n < k: theta."""
    rng = np.random.default_rng(5)
    for n in range(1, 12):
        for k in range(1, 9):
            scores, theta = rng.permutation(n).astype(float), rng.random(k)
            rho = UniformInsert(k).propensity(scores, [0, n], Examination(theta))
            for old, place in enumerate(naive.ranked(scores), 1):
                if n < k:
                    expected = theta[old - 1]
                elif old < k:
                    expected = (k - old) / k * theta[old - 1] + old / k * theta[old]
                else:
                    expected = theta.mean() / (n - k + 1)
                assert rho[place] == pytest.approx(expected, rel=1e-12)


def test_equal_scores_keep_document_order():
    same = [0.0] * 6
    for policy in (Deterministic(3), EpsilonGreedy(3, 0.0), Deterministic(None), ReplaceLast(None), UniformInsert(7)):
        docs, _ = policy.sample(same, [0, 6], seed=3)
        assert docs.tolist() == list(range(len(docs)))
    assert ReplaceLast(3).sample(same, [0, 6], seed=1)[0][:2].tolist() == [0, 1]
    assert Deterministic(3).propensity(same, [0, 6], inverse_rank(3)) == pytest.approx([1, 1 / 2, 1 / 3, 0, 0, 0])


def test_n_smaller_than_k_shows_the_query_whole():
    for policy in by_rank(4)[:6]:
        docs, bounds = policy.sample([1.0, 3.0, 2.0, 7.0], [0, 3, 4], seed=0)
        assert docs.tolist() == [1, 2, 0, 3]
        assert bounds.tolist() == [0, 3, 4]
    shuffled = {tuple(PlackettLuce(4).sample([1.0, 3.0, 2.0], [0, 3], seed=seed)[0]) for seed in range(100)}
    assert len(shuffled) > 1
    assert all(sorted(page) == [0, 1, 2] for page in shuffled)


REPLICATES = 4000
SAMPLED = [
    *((policy, 5) for policy in by_rank(3)),
    *((policy, 3) for policy in by_rank(3)),
    *((policy, 2) for policy in by_rank(3)),
    *((policy, 1) for policy in by_rank(3)),
    *((policy, 5) for policy in (*by_rank(1), *by_rank(None))),
    *((policy, 5) for policy in MIXED),
    (LISTED, 4),
    (LISTED, 5),
]


@pytest.mark.statistical
@pytest.mark.parametrize(("policy", "n"), SAMPLED, ids=[f"{repr(policy)[:60]}-{n}" for policy, n in SAMPLED])
def test_sampled_pages_have_their_probabilities(policy, n):
    """4,000 equal queries in one call are so many draws; false alarm below 1e-7 in each case, seed fixed."""
    offsets = np.arange(0, n * REPLICATES + 1, n)
    chosen = dict.fromkeys(range(REPLICATES), policy) if isinstance(policy, Explicit) else policy
    served = Mixture([chosen], [1.0]) if isinstance(chosen, dict) else chosen
    docs, bounds = served.sample(np.tile(SCORES[n], REPLICATES), offsets, seed=71)
    assert docs.dtype == bounds.dtype == np.int64
    assert len(bounds) == len(offsets)
    assert bounds[0] == 0
    assert bounds[-1] == len(docs)
    pages = [tuple((docs[a:b] - n * q).tolist()) for q, (a, b) in enumerate(itertools.pairwise(bounds))]
    assert fits(Counter(pages), naive.pages_of(policy, SCORES[n])) > RARE


def test_the_test_of_samples_can_fail():
    pages = naive.pages_of(ReplaceLast(3), SCORES[5])
    assert fits(Counter(dict.fromkeys(pages, 1000)), pages) > 0.5
    uneven = Counter({page: 1000 + 300 * (i == 0) for i, page in enumerate(pages)})
    assert fits(uneven, pages) < RARE
    assert fits(Counter({(4, 4): 1, **dict.fromkeys(pages, 1000)}), pages) == 0.0


def test_seeds_make_pages_and_generators_go_on():
    scores, offsets = np.zeros(500), [0, 200, 500]
    for policy in (PlackettLuce(5), UniformInsert(5), MIXED[0]):
        first, again, other = (policy.sample(scores, offsets, seed=seed)[0] for seed in (1, 1, 2))
        assert (first == again).all()
        assert (first != other).any()
        rng = np.random.default_rng(4)
        assert (policy.sample(scores, offsets, seed=rng)[0] != policy.sample(scores, offsets, seed=rng)[0]).any()


@pytest.mark.parametrize("policy", [*by_rank(3), *MIXED], ids=repr)
def test_many_queries_at_once_are_one_at_a_time(policy):
    rng, exam = np.random.default_rng(3), Examination([0.9, 0.5, 0.0, 0.4])
    lengths = [3, 1, 7, 2, 5, 3]
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    scores = rng.integers(0, 4, offsets[-1]).astype(np.float32)
    rho = policy.propensity(scores, offsets, exam)
    shown = policy.rank_probabilities(scores, offsets, 4)
    for a, b in itertools.pairwise(offsets):
        # Plackett-Luce integrates on a grid of its own for each query, the same each time
        assert rho[a:b] == pytest.approx(policy.propensity(scores[a:b], [0, b - a], exam), rel=1e-12)
        assert shown[a:b] == pytest.approx(policy.rank_probabilities(scores[a:b], [0, b - a], 4), rel=1e-12)


def test_threads_make_no_difference():
    offsets = np.arange(0, 9001, 9)
    scores = np.random.default_rng(0).normal(size=9000)
    for policy in (ReplaceLast(4), PlackettLuce(4)):
        one, three = (policy.propensity(scores, offsets, inverse_rank(4), threads=t) for t in (1, 3))
        assert (one == three).all()


def test_pages_of_a_query_lie_in_that_query():
    rng = np.random.default_rng(8)
    offsets = np.concatenate(([0], np.cumsum(rng.integers(1, 12, 300))))
    scores = rng.normal(size=offsets[-1])
    for policy in (*by_rank(4), *MIXED):
        docs, bounds = policy.sample(scores, offsets, seed=2)
        query = np.repeat(np.arange(300), np.diff(bounds))
        assert ((docs >= offsets[query]) & (docs < offsets[query + 1])).all()
        assert len(np.unique(docs)) == len(docs)


def test_explicit_serves_one_query_and_a_dict_several():
    first, second = Explicit([[0, 1], [2]], [0.5, 0.5]), Explicit([[1, 0]], [1.0])
    both = Mixture([{0: first, 1: second}], [1.0])
    rho = both.propensity(np.zeros(5), [0, 3, 5], inverse_rank(2))
    assert rho.tolist() == [0.5, 0.25, 0.5, 0.5, 1.0]
    assert both.sample(np.zeros(5), [0, 3, 5], seed=0)[0][-2:].tolist() == [4, 3]
    with pytest.raises(CounterrankError, match="Explicit serves one query, the data has 2"):
        first.propensity(np.zeros(5), [0, 3, 5], inverse_rank(2))
    with pytest.raises(CounterrankError, match="no Explicit for query 1; expected one for each of 2 queries"):
        Mixture([{0: first}], [1.0]).sample(np.zeros(5), [0, 3, 5])
    with pytest.raises(CounterrankError, match="document 2 on a page of query 0, which has 2 documents"):
        first.sample([0.0, 0.0], [0, 2])


def test_explicit_ignores_scores():
    for scores in ([1.0, 2.0, 3.0, 4.0], [0.0] * 4):
        assert LISTED.propensity(scores, [0, 4], [1.0, 0.5]) == pytest.approx([0.4 + 0.1, 0.2 + 0.1, 0.3, 0.2 + 0.05])


def test_explicit_pages_of_probability_zero_never_occur():
    policy = Explicit([[0], [1], [2]], [0.5, 0.0, 0.5])
    seen = {int(policy.sample(np.zeros(3), [0, 3], seed=seed)[0][0]) for seed in range(200)}
    assert seen == {0, 2}
    assert policy.propensity(np.zeros(3), [0, 3], [1.0]).tolist() == [0.5, 0.0, 0.5]


def test_page_listed_twice_counts_twice():
    policy = Explicit([[0], [1], [0]], [0.25, 0.5, 0.25])
    assert policy.propensity([0.0, 0.0], [0, 2], [1.0]).tolist() == [0.5, 0.5]


def test_plackett_luce_with_scores_far_apart():
    """30 apart: the odds of the order being broken are 1e-13; 1000 apart: no weight is left but after replanting."""
    for gap in (30.0, 1000.0, 1e6):
        scores = np.array([2.0, 0.0, 3.0, 1.0]) * gap
        for k in (1, 2, 4, None):
            docs, bounds = PlackettLuce(k).sample(np.tile(scores, 200), np.arange(0, 801, 4), seed=9)
            length = 4 if k is None else k
            assert np.diff(bounds).tolist() == [length] * 200
            expected = np.array([2, 0, 3, 1])[:length]
            assert (docs.reshape(200, length) - 4 * np.arange(200)[:, None] == expected).all()
            rho = PlackettLuce(k).propensity(scores, [0, 4], inverse_rank(length))
            assert rho[expected] == pytest.approx(1.0 / np.arange(1, length + 1), rel=1e-6)


@pytest.mark.statistical
def test_plackett_luce_ties_among_far_apart_scores():
    """Two equal scores 1000 below two equal ones: each pair comes in both orders, evenly; false alarm below 1e-7."""
    scores = np.tile([0.0, 1000.0, 0.0, 1000.0], 2000)
    docs, _ = PlackettLuce(3).sample(scores, np.arange(0, 8001, 4), seed=4)
    pages = Counter(map(tuple, (docs.reshape(2000, 3) - 4 * np.arange(2000)[:, None]).tolist()))
    assert fits(pages, {(a, 4 - a, b): 0.25 for a in (1, 3) for b in (0, 2)}) > RARE


def test_a_policy_of_your_own_in_a_mixture():
    own, scores, exam = LastFirst(), SCORES[5], Examination([0.9, 0.4])
    mixed = Mixture([own, Deterministic(2)], [0.5, 0.5])
    expected = 0.5 * own.propensity(scores, [0, 5], exam) + 0.5 * Deterministic(2).propensity(scores, [0, 5], exam)
    assert mixed.propensity(scores, [0, 5], exam) == pytest.approx(expected, rel=1e-12)


def test_samples_alone_give_estimates_with_standard_errors_and_a_warning():
    """Deviations in units of the standard error stay below 6: false alarm below 1e-7."""
    policy, offsets, exam = OnlySamples(), [0, 5, 8], Examination([1.0, 0.4])
    scores = np.array(SCORES[5] + SCORES[3])
    exact = LastFirst().propensity(scores, offsets, exam)
    estimate = estimate_propensity(policy, scores, offsets, exam, samples=400, seed=1)
    assert estimate.samples == 400
    never = np.isnan(estimate.standard_errors)
    assert (estimate.propensities[never] == 0.0).all()
    assert (exact[never] == 0.0).all()
    sure = never | (estimate.standard_errors == 0.0)
    assert (estimate.propensities[sure] == exact[sure]).all()
    assert (~sure).sum() == 4
    off = (estimate.propensities - exact)[~sure] / estimate.standard_errors[~sure]
    assert (np.abs(off) < 6.0).all()
    deviation = np.abs(1.0 - 0.4) * np.sqrt(0.75 * 0.25 / 400)  # theta is 1 or 0.4, 3 to 1
    assert estimate.standard_errors[~sure] == pytest.approx(deviation, rel=0.3)
    assert estimate.largest_relative_error() == pytest.approx(deviation / exact[~sure].min(), rel=0.4)
    with pytest.warns(UserWarning, match="OnlySamples has no `propensity`; estimated from 1,000 pages a query"):
        rho = policy.propensity(scores, offsets, exam)
    assert rho == pytest.approx(exact, abs=6 * 0.6 * np.sqrt(0.1875 / 1000))
    with pytest.warns(UserWarning, match="estimated"):
        shown = policy.rank_probabilities(scores, offsets, 2)
    assert shown.sum(axis=0) == pytest.approx(2.0)


class SampleOnly:
    """Samples, and not even a subclass."""

    sample, enumerate_pages = LastFirst.sample, LastFirst.enumerate_pages


@pytest.mark.statistical
def test_samples_alone_in_a_mixture():
    """Within 6 standard errors of theta being 1 or 0.4, 3 to 1: false alarm below 1e-7."""
    exam = Examination([1.0, 0.4])
    mixed, exact = (Mixture([own, Deterministic(2)], [0.5, 0.5]) for own in (SampleOnly(), LastFirst()))
    with pytest.warns(UserWarning, match="SampleOnly has no `propensity`; estimated from 1,000 pages a query"):
        rho = mixed.propensity(SCORES[5], [0, 5], exam)
    assert rho == pytest.approx(exact.propensity(SCORES[5], [0, 5], exam), abs=6 * 0.3 * np.sqrt(0.1875 / 1000))


def test_exact_policies_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for policy in (*by_rank(2), *MIXED):
            policy.propensity(SCORES[5], [0, 5], inverse_rank(2))


@pytest.mark.statistical
def test_estimates_agree_with_exact_propensities():
    """Within 6 standard errors; false alarm below 1e-7."""
    for policy in (ReplaceLast(3), PlackettLuce(3), UniformInsert(3), MIXED[2]):
        estimate = estimate_propensity(policy, SCORES[5], [0, 5], inverse_rank(3), samples=1000, seed=6)
        exact = policy.propensity(SCORES[5], [0, 5], inverse_rank(3))
        assert (np.abs(estimate.propensities - exact) <= 6.0 * np.nan_to_num(estimate.standard_errors) + 1e-12).all()


def test_a_subclass_without_sample_says_so():
    with pytest.raises(CounterrankError, match="policy: Policy has no `sample`; a policy of your own needs one"):
        Policy().sample([1.0], [0, 1])


class Returns(Policy):
    """A policy whose pages are given, right or wrong."""

    def __init__(self, docs, bounds):
        self.answer = docs, bounds

    def sample(self, scores, offsets, seed=0):
        return self.answer


@pytest.mark.parametrize(
    ("docs", "bounds", "message"),
    [
        ([0, 2], [0, 1], r"sample's offsets of shape \(2,\); expected 3 numbers"),
        ([0, 2], [0, 1, 3], "sample's offsets"),
        ([0, 2], [1, 1, 2], "sample's offsets"),
        ([0, 2], [0, 3, 2], "sample's offsets"),
        ([0, 1], [0, 1, 2], "sample shows row 1 for query 1; expected rows 2 to 3"),
        ([4, 2], [0, 1, 2], "sample shows row 4 for query 0; expected rows 0 to 1"),
        ([-1, 2], [0, 1, 2], "sample shows row -1 for query 0; expected rows 0 to 1"),
        ([0, 0, 2], [0, 2, 3], "sample shows row 0 twice on one page"),
    ],
)
def test_what_a_policy_of_your_own_returns_is_checked(docs, bounds, message):
    with pytest.raises(CounterrankError, match=message):
        estimate_propensity(Returns(docs, bounds), np.zeros(4), [0, 2, 4], inverse_rank(2))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Deterministic(0), "k=0: expected a whole number of at least 1, or None"),
        (lambda: ReplaceLast(2.5), "k=2.5: expected a whole number"),
        (lambda: UniformInsert(True), "k=True: expected a whole number"),
        (lambda: PlackettLuce("5"), "k='5': expected a whole number"),
        (lambda: EpsilonGreedy(3, 1.5), "epsilon=1.5: expected a number from 0 to 1"),
        (lambda: EpsilonGreedy(3, float("nan")), "epsilon=nan: expected a number from 0 to 1"),
        (lambda: EpsilonGreedy(0, 0.5), "k=0"),
        (lambda: PlackettLuce(3, 0.0), "temperature=0.0: expected a number above 0"),
        (lambda: PlackettLuce(3, float("inf")), "temperature=inf: expected a number above 0"),
        (lambda: Explicit([[0]], [0.5]), "probabilities: sum to 0.5; expected 1"),
        (lambda: Explicit([[0], [1]], [1.0]), "probabilities: 1 of them for 2 rankings; expected one for each"),
        (lambda: Explicit([[0], [1]], [1.5, -0.5]), r"probabilities\[0\]=1.5: expected a number from 0 to 1"),
        (lambda: Explicit([[0, 0]], [1.0]), r"rankings\[0\]: \[0, 0\] lists a document twice"),
        (lambda: Explicit([[0], [-1]], [0.5, 0.5]), r"rankings\[1\]: -1; expected places in the query, from 0"),
        (lambda: Explicit([[]], [1.0]), r"rankings\[0\]: \[\]; expected places"),
        (lambda: Explicit([[0.5]], [1.0]), r"rankings\[0\]: \[0.5\]; expected places"),
        (lambda: Explicit([0], [1.0]), r"rankings\[0\]: 0; expected places"),
        (lambda: Mixture([Deterministic(1)], [0.5]), "shares: sum to 0.5; expected 1"),
        (lambda: Mixture([Deterministic(1)], [0.5, 0.5]), "shares: 2 of them for 1 policies; expected one for each"),
        (lambda: Mixture([3], [1.0]), "policy: int; expected a policy, such as policies.ReplaceLast"),
        (lambda: Mixture([{}], [1.0]), "policy: an empty dict"),
        (lambda: Mixture([{"a": Explicit([[0]], [1.0])}], [1.0]), "policy: key 'a'; expected query indices, from 0"),
        (lambda: Mixture([{0: Deterministic(1)}], [1.0]), "policy: Deterministic for query 0; expected Explicit"),
        (lambda: parse_policy("nonsense:k=3"), "policy 'nonsense:k=3': unknown; expected one of deterministic"),
        (lambda: parse_policy("replace-last:k"), "'k'; expected settings such as k=5"),
        (lambda: parse_policy("replace-last:k=2.5"), "k=2.5; expected a number"),
        (lambda: parse_policy("replace-last:epsilon=0.5"), "no setting 'epsilon'; expected k"),
        (lambda: parse_policy("*"), r"policy '\*': '\*'; expected terms such as 0.9\*deterministic:k=5"),
        (lambda: parse_policy("most*deterministic:k=5"), r"'most\*deterministic:k=5'; expected terms such as"),
        (
            lambda: parse_policy("0.9*deterministic:k=5+0.1"),
            r"policy 'deterministic:k=5\+0.1': k=5\+0.1; expected a numb",
        ),
        (lambda: parse_policy("0.9*deterministic:k=5+0.2*replace-last:k=5"), "shares: sum to 1.1; expected 1"),
        (lambda: parse_policy("1.5*deterministic:k=5+-0.5*replace-last:k=5"), "k=5\\+-0.5"),
        (lambda: parse_policy("nan*deterministic:k=5"), r"'nan\*deterministic:k=5'; expected terms such as"),
        (lambda: parse_policy("0.5*nonsense+0.5*replace-last:k=5"), "policy 'nonsense': unknown; expected one of"),
        (lambda: parse_policy("0.5*0.5*replace-last:k=5"), "shares: sum to 0.5; expected 1"),
        (lambda: parse_policy("1*"), "policy '': unknown; expected one of"),
    ],
)
def test_bad_policies(make, message):
    with pytest.raises(CounterrankError, match=message):
        make()


@pytest.mark.parametrize(
    ("scores", "offsets", "exam", "message"),
    [
        ([1.0, np.nan], [0, 2], [1.0], "scores: entry 1 is nan; expected finite numbers"),
        ([[1.0], [2.0]], [0, 2], [1.0], r"scores: shape \(2, 1\); expected one dimension"),
        ([1.0, 2.0], [0, 3], [1.0], "offsets: ends at 3; expected the number of documents, 2"),
        ([1.0, 2.0], [0, 1, 1, 2], [1.0], "offsets: query 1 is empty"),
        ([1.0, 2.0], [0, 2], 0.5, "exam: float; expected an examination curve"),
        ([1.0, 2.0], [0, 2], [2.0], "examination: 2 at rank 1; expected probabilities from 0 to 1"),
    ],
)
@pytest.mark.parametrize("policy", [ReplaceLast(2), PlackettLuce(2), MIXED[0], LastFirst()], ids=repr)
def test_bad_arguments(policy, scores, offsets, exam, message):
    if isinstance(policy, LastFirst):
        policy = Mixture([policy], [1.0])
    with pytest.raises(CounterrankError, match=message):
        policy.propensity(scores, offsets, exam)


def test_policies_by_name():
    assert parse_policy("deterministic") == Deterministic(None)
    assert parse_policy("replace-last:k=5") == ReplaceLast(5)
    assert parse_policy("epsilon-greedy:k=5,epsilon=0.2") == EpsilonGreedy(5, 0.2)
    assert parse_policy("uniform-insert:k=none") == UniformInsert(None)
    assert parse_policy("plackett-luce:k=3,temperature=0.5") == PlackettLuce(3, 0.5)


@pytest.mark.parametrize(
    "text",
    [
        "0.9*deterministic:k=5+0.1*plackett-luce:k=5,temperature=1e+2",
        "0.9*deterministic:k=5 + 0.1*plackett-luce:k=5,temperature=1e2",
        " 0.9 * deterministic:k=5 +  .1 * plackett-luce:k=5,temperature=100 ",
        "9e-1*deterministic:k=5+1e-1*plackett-luce:k=5,temperature=100",
    ],
)
def test_mixtures_by_name(text):
    assert repr(parse_policy(text)) == repr(Mixture([Deterministic(5), PlackettLuce(5, 100.0)], [0.9, 0.1]))


def test_mixtures_of_many_by_name():
    three = parse_policy("0.5*plackett-luce:k=5,temperature=1e+5+0.25*uniform-insert:k=3+0.25*deterministic")
    assert repr(three) == repr(
        Mixture([PlackettLuce(5, 1e5), UniformInsert(3), Deterministic(None)], [0.5, 0.25, 0.25])
    )
    assert repr(parse_policy("1*replace-last:k=5")) == repr(Mixture([ReplaceLast(5)], [1.0]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Explicit([[0]], None), "probabilities=None: expected a list of numbers that sum to 1"),
        (lambda: Explicit(None, [1.0]), "rankings: NoneType; expected a list of pages"),
        (lambda: Mixture(None, [1.0]), "policies: NoneType; expected a list of policies"),
        (lambda: Deterministic(2).rank_probabilities([1.0], [0, 1], 0), "k=0: expected a whole number"),
        (lambda: Deterministic(2).rank_probabilities([1.0], [0, 1], None), "k=None: expected the number of ranks"),
    ],
)
def test_what_is_no_list_or_no_number(make, message):
    with pytest.raises(CounterrankError, match=message):
        make()


def test_a_propensity_of_the_instance_counts_too():
    class Sampler:
        def sample(self, scores, offsets, seed):
            return Deterministic(1).sample(scores, offsets)

    own = Sampler()
    own.propensity = lambda scores, offsets, exam: np.array([0.25, 0.75])
    covered = coverage(own, [2.0, 1.0], [0, 2], inverse_rank(1))
    assert covered.examinable.all()


def test_a_policy_derived_from_ours_draws_in_its_own_way():
    class Reversed(Deterministic):
        def sample(self, scores, offsets, seed=0):
            return Deterministic(self.k).sample(-np.asarray(scores), offsets)

        def propensity(self, scores, offsets, exam, *, threads=None):
            return Deterministic(self.k).propensity(-np.asarray(scores), offsets, exam)

    half = Mixture([Reversed(1), Deterministic(1)], [0.5, 0.5])
    np.testing.assert_array_equal(half.propensity([3.0, 2.0, 1.0], [0, 3], inverse_rank(1)), [0.5, 0.0, 0.5])
    assert {int(half.sample([3.0, 2.0, 1.0], [0, 3], seed=seed)[0][0]) for seed in range(30)} == {0, 2}
    assert Reversed(1).display([3.0, 2.0, 1.0], inverse_rank(1), seed=0).docs.tolist() == [2]
