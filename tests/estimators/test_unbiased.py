"""Which estimators are unbiased, and by how much the others are off: by many simulated sessions against the formulas.

Expected weights per session of the query are compared with what was found in units of the standard error, which is
known exactly: a document is clicked at most once in a session. All must be below 6 (false alarm 2e-9 for each
document, below 1e-6 for each test; seeds are fixed). Where an estimator is biased, the same comparison with the
unbiased value must fail by more than 20 standard errors.
"""

import itertools
import warnings

import numpy as np
import pytest

import counterrank as cr
from counterrank import estimators, evaluation
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
from counterrank.clicks.simulation import ClickModel, simulate, trust_bias
from counterrank.common.errors import CounterrankError, CoverageWarning
from tests.reference.simulation import World

CLOSE, FAR = 6.0, 20.0
LENGTHS = [1, 3, 6, 8]
LABELS = [4, 0, 4, 0, 0, 4, 0, 3, 0, 4, 0, 0, 3, 0, 4, 0, 0, 4]
SCORES = [0.0, 2.0, 1.0, 0.0, 1.5, 0.5, 2.5, 0.5, 0.0, -1.0, 3.0, 1.0, 2.0, 0.0, -1.0, -1.0, 0.5, 0.0]
RELEVANT = np.array(LABELS) >= 3
THETA = [1.0, 0.6, 0.5]
E0, E1 = 0.1, 0.9
OFFSETS = np.concatenate(([0], np.cumsum(LENGTHS)))
DATA = cr.RankingData(np.zeros((18, 1)), OFFSETS, labels=LABELS)
CLICKED = np.where(RELEVANT, E1, E0)  # P(click | examined)
PAGES = {
    0: Explicit([[0]], [1.0]),
    1: Explicit([[2, 1], [0, 2, 1]], [0.75, 0.25]),
    2: Explicit([[0, 1, 2], [3, 4, 5]], [0.3, 0.7]),
    3: Explicit([[0, 1, 2], [3, 4, 5], [6, 7], [7, 0, 1]], [0.4, 0.1, 0.2, 0.3]),
}
# all candidates may be examined: eq:awarecond
COVERING = [
    ReplaceLast(3),
    ReplaceLast(1),
    EpsilonGreedy(3, 0.3),
    UniformInsert(3),
    PlackettLuce(3),
    PlackettLuce(2, temperature=2.0),
    PAGES,
    Mixture([Deterministic(3), UniformInsert(2), PlackettLuce(1)], [0.5, 0.3, 0.2]),
]


def brief(policy):
    return repr(policy)[:60]


def quietly(function, *arguments, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments, **more)


def world_of(policy, attraction=None):
    return World(LENGTHS, SCORES, policy, THETA, CLICKED.tolist() if attraction is None else attraction)


def log_of(policy, model=None, exam=THETA, sessions=None, seed=31):
    session_by_session = "PlackettLuce" in repr(policy)
    n = sessions or (1_500_000 if session_by_session else 10**8)
    return simulate(DATA, SCORES, policy, exam, sessions=n, seed=seed, click_model=model or ClickModel(E1, E0))


def shown_at(world):
    """P(shown at rank r) of each document for the ranks that are examined."""
    found = np.zeros((OFFSETS[-1], len(THETA)))
    for query in range(len(LENGTHS)):
        for page, probability in world.pages(query).items():
            for rank, doc in enumerate(page[: len(THETA)]):
                found[doc, rank] += probability
    return found


def expected(world, weight):
    """Mean and variance in one session of a click's weight on each document; `weight` is by document and rank."""
    clicked = shown_at(world) * [
        [world.click_probability(doc, rank) for rank in range(1, len(THETA) + 1)] for doc in range(OFFSETS[-1])
    ]
    mean = (clicked * weight).sum(axis=1)
    return mean, (clicked * weight**2).sum(axis=1) - mean**2


def z_values(weights, log, mean, variance):
    """How far weights per session are from their mean, in standard errors; infinite where there is no room."""
    sessions = np.repeat(log.sessions, np.diff(log.offsets)).astype(float)
    off = np.abs(weights / sessions - mean)
    error = np.sqrt(np.maximum(variance, 0.0) / sessions)
    return np.where(off <= 1e-9 * np.maximum(mean, 1e-3), 0.0, off / np.maximum(error, 1e-300))


def aware_weight(rho):
    return np.divide(1.0, rho, out=np.zeros_like(rho), where=rho > 0)[:, None] * np.ones(len(THETA))


OBLIVIOUS = np.ones((18, 1)) / np.array(THETA)
NAIVE = np.ones((18, len(THETA)))


@pytest.mark.statistical
@pytest.mark.representative
@pytest.mark.parametrize("policy", COVERING, ids=brief)
def test_policy_aware_weights_are_unbiased(policy):
    """E[weight per session] = e0 + (e1 - e0) r, for every policy that meets eq:awarecond."""
    log, world = log_of(policy), world_of(policy)
    rho = shown_at(world) @ THETA
    assert (rho > 0).all()
    mean, variance = expected(world, aware_weight(rho))
    assert mean == pytest.approx(E0 + (E1 - E0) * RELEVANT)  # the formula of the paper, over all pages
    with warnings.catch_warnings():
        warnings.simplefilter("error", CoverageWarning)
        weights = estimators.policy_aware(log)
        known = Mixture([policy], [1.0]) if isinstance(policy, dict) else policy
        given = estimators.policy_aware(log, known.propensity(SCORES, OFFSETS, Examination(THETA)))
    assert weights == pytest.approx(given, rel=1e-12)
    assert (z_values(weights, log, mean, variance) < CLOSE).all()


@pytest.mark.statistical
@pytest.mark.parametrize("policy", COVERING, ids=brief)
def test_naive_and_policy_oblivious_weights_are_biased_as_the_formulas_say(policy):
    """Naive: rho P(click | examined). Oblivious: P(shown at an examined rank) P(click | examined)."""
    log, world = log_of(policy), world_of(policy)
    shown = shown_at(world)
    with pytest.warns(CoverageWarning, match="naive: .* of 18 candidates"):
        naive = estimators.naive(log)
    with pytest.warns(CoverageWarning, match="policy_oblivious: .* of 18 candidates"):
        oblivious = estimators.policy_oblivious(log, Examination(THETA))
    truth = E0 + (E1 - E0) * RELEVANT
    for weights, weight, formula in (
        (naive, NAIVE, (shown @ THETA) * truth),
        (oblivious, OBLIVIOUS, shown.sum(axis=1) * truth),
    ):
        mean, variance = expected(world, weight)
        assert mean == pytest.approx(formula)
        assert (z_values(weights, log, mean, variance) < CLOSE).all()
        biased = mean < 0.999 * truth
        assert biased.sum() >= 8
        assert (z_values(weights, log, truth, variance)[biased & RELEVANT] > FAR).all()


def test_item_selection_bias_turns_the_order_of_documents_around():
    """Under replace-last an irrelevant document at the top outweighs a relevant one that is rarely shown."""
    log = log_of(ReplaceLast(3))
    top_irrelevant, rare_relevant = 10, 14  # of the last query: ranks 1 and 7
    assert not RELEVANT[top_irrelevant]
    assert RELEVANT[rare_relevant]
    aware = estimators.policy_aware(log)
    assert aware[rare_relevant] > 8 * aware[top_irrelevant]
    for biased in (quietly(estimators.naive, log), quietly(estimators.policy_oblivious, log, Examination(THETA))):
        assert biased[rare_relevant] < 2 * biased[top_irrelevant]
    assert quietly(estimators.naive, log)[rare_relevant] < quietly(estimators.naive, log)[top_irrelevant]


def test_deterministic_pages_are_unbiased_on_what_they_show():
    log, world = log_of(Deterministic(3)), world_of(Deterministic(3))
    rho = shown_at(world) @ THETA
    shown = rho > 0
    assert 0 < shown.sum() < 18
    with pytest.warns(CoverageWarning, match=r"policy_aware: 8 of 18 candidates \(44.4%\), in 2 of 4 queries"):
        weights = estimators.policy_aware(log, Deterministic(3).propensity(SCORES, OFFSETS, Examination(THETA)))
    mean, variance = expected(world, aware_weight(rho))
    assert mean[shown] == pytest.approx((E0 + (E1 - E0) * RELEVANT)[shown])
    assert (z_values(weights, log, mean, variance) < CLOSE).all()
    assert (weights[~shown] == 0.0).all()


def test_policy_oblivious_equals_policy_aware_where_pages_are_whole():
    """Deterministic(k=None) and an examination without end: the same number for each click."""
    exam = inverse_rank(eta=0.7)
    log = log_of(Deterministic(), exam=exam)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CoverageWarning)
        aware = estimators.policy_aware(log, Deterministic().propensity(SCORES, OFFSETS, exam))
        oblivious = estimators.policy_oblivious(log, exam)
    assert (aware == oblivious).all()
    assert (estimators.policy_aware(log) == oblivious).all()


def test_policy_oblivious_with_one_result_is_right_up_to_a_factor_per_query():
    """At k=1 with every document equally likely, oblivious weights are aware ones times P(shown), 1/n of the query."""
    policy = ReplaceLast(1)
    log = simulate(DATA, SCORES, policy, [0.5], sessions=10**7, seed=2, click_model=ClickModel(E1, E0))
    aware = estimators.policy_aware(log, policy.propensity(SCORES, OFFSETS, Examination([0.5])))
    oblivious = quietly(estimators.policy_oblivious, log, Examination([0.5]))
    factor = np.repeat(1.0 / np.array(LENGTHS), LENGTHS)
    assert oblivious == pytest.approx(aware * factor, rel=1e-12)


def test_policy_oblivious_with_one_result_and_uneven_chances_is_not():
    """The factor is per document where chances differ: at k=1 under Plackett-Luce, P(shown)."""
    policy = PlackettLuce(1)
    log = simulate(DATA, SCORES, policy, [0.5], sessions=200_000, seed=2, click_model=ClickModel(E1, E0))
    aware = estimators.policy_aware(log)
    oblivious = quietly(estimators.policy_oblivious, log, Examination([0.5]))
    factors = oblivious[10:] / aware[10:]
    assert factors == pytest.approx(np.exp(SCORES[10:]) / np.exp(SCORES[10:]).sum(), rel=1e-6)
    assert factors.max() > 10 * factors.min()


TRUSTED = [0.1 + 0.9 * 0.65 / (rank + 1) ** 0.5 for rank in (1, 2, 3)]
MODELS = {
    "trust": (trust_bias(k=3), [1.0 if r else TRUSTED for r in RELEVANT]),
    "by rank": (ClickModel([1.0, 0.5], [0.5, 0.1]), [[1.0, 0.5] if r else [0.5, 0.1] for r in RELEVANT]),
}


@pytest.mark.statistical
@pytest.mark.parametrize(("model", "attraction"), MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("policy", [ReplaceLast(3), UniformInsert(3), PlackettLuce(3)], ids=brief)
def test_trust_bias_does_bias_policy_aware_weights(policy, model, attraction):
    """E[weight per session] = sum_r P(shown at r) theta_r P(click | examined at r) / rho, which is no constant of r."""
    log, world = log_of(policy, model), world_of(policy, attraction)
    rho = shown_at(world) @ THETA
    mean, variance = expected(world, aware_weight(rho))
    weights = estimators.policy_aware(log)
    assert (z_values(weights, log, mean, variance) < CLOSE).all()
    # relevant or not decides no longer: irrelevant documents differ among themselves, by their ranks
    other = ~RELEVANT & (np.arange(18) >= 10)
    assert mean[other].max() > 1.05 * mean[other].min()
    one_value = mean[other].min()
    z = z_values(weights, log, np.full(18, one_value), variance)[other & (mean > 1.05 * one_value)]
    assert (z > FAR).all()


def test_the_illustrative_example_of_the_paper():
    """Two rankings; d_n is in both, the equally relevant d_m only in the first.

    Per session, times the relevance: oblivious gives d_n 1 and d_m pi(R1); aware gives both 1.
    """
    first, theta = 0.3, [0.8, 0.4]
    d_n, d_m = 0, 1
    policy = Explicit([[d_n, d_m], [2, d_n]], [first, 1.0 - first])
    data = cr.RankingData(np.zeros((3, 1)), [0, 3], labels=[4, 4, 0])
    relevance = 0.7
    exam, n = Examination(theta), 10**9
    rho = policy.propensity(np.zeros(3), [0, 3], exam)
    assert rho == pytest.approx([first * 0.8 + (1 - first) * 0.4, first * 0.4, (1 - first) * 0.8])
    log = simulate(data, np.zeros(3), policy, exam, sessions=n, seed=1, click_model=ClickModel(relevance, 0.0))
    aware = estimators.policy_aware(log, rho) / n
    oblivious = quietly(estimators.policy_oblivious, log, exam) / n
    naive = quietly(estimators.naive, log) / n
    at_most = CLOSE * np.sqrt(relevance / rho[d_m] / n)  # the widest of the standard errors
    assert aware == pytest.approx([relevance, relevance, 0.0], abs=at_most)
    assert oblivious == pytest.approx([relevance, first * relevance, 0.0], abs=at_most)
    assert naive == pytest.approx([rho[0] * relevance, rho[1] * relevance, 0.0], abs=at_most)
    # hence oblivious takes d_n for the better one, by far more than chance
    assert oblivious[d_n] - oblivious[d_m] > 100 * at_most
    assert abs(aware[d_n] - aware[d_m]) < 2 * at_most
    covered = policy.coverage(np.zeros(3), [0, 3], exam)
    assert covered.always_examinable.tolist() == [True, False, False]
    assert covered.supports_policy_aware


def test_the_more_selection_the_larger_the_bias():
    """Oblivious weight of a document shown with probability p is p times that of one always shown."""
    for first in (0.9, 0.5, 0.1, 0.01):
        data = cr.RankingData(np.zeros((3, 1)), [0, 3], labels=[4, 4, 0])
        policy = Explicit([[0, 1], [0, 2]], [first, 1.0 - first])
        log = simulate(data, np.zeros(3), policy, [1.0, 0.5], sessions=10**8, seed=3)
        weights = quietly(estimators.policy_oblivious, log, Examination([1.0, 0.5]))
        error = np.sqrt(first / 0.5 / 10**8)
        assert abs(weights[1] / weights[0] - first) < CLOSE * error
        aware = estimators.policy_aware(log)
        assert abs(aware[1] / aware[0] - 1.0) < CLOSE * np.sqrt(2.0 / first / 10**8)


def dcg_weights(scores, k):
    """lambda of each document: its discount at its rank in the whole query, 0 past k; no ties here."""
    found = np.zeros(len(scores))
    for a, b in itertools.pairwise(OFFSETS):
        order = a + np.argsort(-np.asarray(scores[a:b]), kind="stable")
        found[order[:k]] = 1.0 / np.log2(np.arange(2, 2 + min(k, b - a)))
    return found


@pytest.mark.statistical
@pytest.mark.parametrize(("e0", "e1"), [(0.0, 1.0), (0.1, 1.0), (0.3, 0.5)])
def test_click_noise_keeps_the_order_of_rankers(e0, e1):
    """The difference of two rankers' estimated DCG is (e1 - e0) times that from labels; its variance is exact."""
    rng = np.random.default_rng(3)
    policy = UniformInsert(3)
    good, bad = RELEVANT + 0.3 * rng.random(18), -1.0 * RELEVANT + 0.3 * rng.random(18)
    log = log_of(policy, ClickModel(e1, e0), sessions=10**8)
    rho = policy.propensity(SCORES, OFFSETS, Examination(THETA))
    world = world_of(policy, np.where(RELEVANT, e1, e0).tolist())
    change = dcg_weights(good, 5) - dcg_weights(bad, 5)
    truth = variance = 0.0
    for query, sessions in enumerate(log.sessions):
        own = slice(OFFSETS[query], OFFSETS[query + 1])
        share = sessions / log.n_sessions
        truth += share * (change * RELEVANT)[own].sum()
        values = [
            (sum(change[doc] / rho[doc] * click for doc, click in zip(page, clicked, strict=True)), probability)
            for (page, clicked), probability in world.outcomes(query).items()
        ]
        mean = sum(value * probability for value, probability in values)
        variance += share * sum((value - mean) ** 2 * probability for value, probability in values) / log.n_sessions
    found = [
        quietly(evaluation.estimate, scores, DATA, log, rho, metrics=["dcg@5"])["dcg@5"].ips for scores in (good, bad)
    ]
    assert truth > 0.3
    assert found[0] - found[1] > FAR * np.sqrt(variance)  # the order of the labels
    assert abs(found[0] - found[1] - (e1 - e0) * truth) < CLOSE * np.sqrt(variance)
    naive = quietly(estimators.naive, log) @ change / log.n_sessions
    assert abs(naive - (e1 - e0) * truth) > FAR * np.sqrt(variance)


@pytest.mark.filterwarnings("ignore:policy_aware. rho differs")
def test_clicks_that_cannot_be_are_an_error_and_never_infinite():
    """A count, a place, and no number."""
    log = log_of(UniformInsert(3), sessions=10_000)
    rho = UniformInsert(3).propensity(SCORES, OFFSETS, Examination(THETA))
    rho[11] = 0.0
    clicks = int(log.by_document(log.clicks)[11])
    message = rf"rho: 0 for {clicks:,} clicks on 1 document, such as document 1 of query 3 at rank \d; expected"
    with pytest.raises(CounterrankError, match=message):
        estimators.policy_aware(log, rho)
    with pytest.raises(CounterrankError, match=r"exam: 0 for .* clicks on .* at rank 3; expected a propensity above 0"):
        estimators.policy_oblivious(log, Examination([1.0, 0.6]))
    unclicked = simulate(DATA, SCORES, UniformInsert(3), THETA, sessions=10_000, click_model=ClickModel(1.0, 0.0))
    weights = quietly(estimators.policy_aware, unclicked, np.where(RELEVANT, rho, 0.0))
    assert np.isfinite(weights).all()


def test_queries_of_all_kinds_get_weights():
    """Single documents, pages longer than queries, queries without sessions, relevant documents or clicks."""
    data = cr.RankingData(np.zeros((8, 1)), [0, 1, 2, 4, 8], labels=[4, 0, 0, 0, 0, 4, 0, 0])
    for policy in (Deterministic(5), ReplaceLast(5), UniformInsert(5), PlackettLuce(5)):
        log = simulate(
            data, np.zeros(8), policy, inverse_rank(5), sessions=1000, query_frequencies=[1, 1, 1, 0],
            click_model=ClickModel(1.0, 0.0),
        )  # fmt: skip
        rho = policy.propensity(np.zeros(8), data.offsets, inverse_rank(5))
        for weights in (
            quietly(estimators.naive, log),
            quietly(estimators.policy_oblivious, log, inverse_rank(5)),
            estimators.policy_aware(log, rho),
            estimators.policy_aware(log),
        ):
            assert weights[0] == log.sessions[0]
            assert not weights[1:].any()
