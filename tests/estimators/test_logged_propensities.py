"""Logged propensities of several policies: detected, combined where that is right, and refused where it is not.

The Monte Carlo tests log 3,000 copies of one query, each a replicate. For each of its 8 documents the weights, less
their exact expectation given the sessions of each policy in each query, are summed over the replicates, in units of
their empirical standard error. Each must be below 5 (false alarm 6e-7 for each document, below 1e-4 for all of this
file; seeds are fixed). Where weights are biased, some document must be off by more than 6.
"""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import counterrank as cr
from counterrank import estimators, evaluation
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.policies import Deterministic, UniformInsert, several_policies
from counterrank.clicks.simulation import ClickModel, simulate
from counterrank.common.errors import CounterrankError, CoverageWarning
from counterrank.estimators.relevance import examinations

CLOSE, FAR = 5.0, 6.0
COPIES, N = 3000, 8
THETA = [1.0, 0.6, 0.3]
OFFSETS = np.arange(COPIES + 1) * N
LABELS = np.tile([0, 4, 0, 0, 4, 0, 4, 0], COPIES)
DATA = cr.RankingData(np.zeros((COPIES * N, 1)), OFFSETS, labels=LABELS)
SCORES = np.tile(-np.arange(N, dtype=float), COPIES)
UP = -SCORES
E0, E1 = 0.2, 0.9
CLICKED = np.where(LABELS >= 3, E1, E0)
COVERING, FIXED = UniformInsert(3), Deterministic(3)
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)  # of sessions under the policy that covers all documents


def log_of(share, sessions=12, first=FIXED, second=COVERING, second_scores=SCORES, **options):
    """Sessions of v1 (deterministic, if nothing else is said) and of v2, so many a query on average."""
    total = COPIES * sessions
    many = round(share * total)
    return ClickCounts.concat(
        [
            simulate(DATA, scores, policy, THETA, sessions=n, seed=seed, click_model=ClickModel(E1, E0),
                     policy_name=name, **options)
            for policy, scores, n, seed, name in (
                (first, SCORES, total - many, 1, "v1"), (second, second_scores, many, 2, "v2"))
        ]
    )  # fmt: skip


def unremembered(log):
    """The log as it would be read from a file: without the curve and what else a simulation knows."""
    return replace(log, examination=None, unexaminable=None)


def spread(per_query):
    return np.repeat(per_query, N).astype(float)


def largest_z(weights, expected):
    """Over the documents of the query, how far the sum over copies is from its expectation, in standard errors."""
    off = (weights - expected).reshape(COPIES, N)
    errors = np.sqrt((off**2).sum(axis=0))
    return float(np.abs(off.sum(axis=0) / np.maximum(errors, 1e-300)).max())


def shown_at_least_once(log):
    """P(document shown) given the sessions of each policy in each query."""
    everywhere = [1.0] * 3
    never = np.ones(COPIES * N)
    for number, policy in enumerate((FIXED, COVERING)):
        chance = policy.propensity(SCORES, OFFSETS, everywhere)
        never *= (1.0 - np.minimum(chance, 1.0)) ** spread(log.policy_sessions[number])
    return 1.0 - never


@pytest.mark.parametrize("share", SHARES)
def test_named_policies_are_unbiased(share):
    log = log_of(share)
    known = {"v1": (FIXED, SCORES), "v2": (COVERING, SCORES)}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", CoverageWarning)  # queries without sessions of v2 do not cover all
        rho = several_policies(log, known, THETA)
        weights = estimators.policy_aware(log, rho)
    reached = rho > 0.0
    assert largest_z(weights, spread(log.sessions) * CLICKED * reached) < CLOSE
    own = log.by_document(log.clicks / log.propensities)  # each click by the propensity of its own policy
    assert largest_z(own, spread(log.sessions) * CLICKED * reached) > FAR


@pytest.mark.parametrize("share", SHARES)
def test_the_sessions_of_the_covering_policy_alone_are_unbiased(share):
    log = unremembered(log_of(share))
    alone = log.only_policies(["v2"])
    assert alone.policy_names == ("v2",)
    assert alone.n_sessions == log.policy_sessions[1].sum()
    weights = estimators.policy_aware(alone)
    assert largest_z(weights, spread(alone.sessions) * CLICKED) < CLOSE


@pytest.mark.parametrize("share", SHARES)
def test_realised_exposure_has_its_exact_expectation(share):
    """relevance * P(shown at least once), which is not the relevance where logs are sparse."""
    log = unremembered(log_of(share))
    with pytest.warns(CoverageWarning, match=r"were on no page and keep weight 0 .* P\(shown at least once\)"):
        weights = estimators.policy_aware(log, exam=THETA)
    # only queries that both policies answered are combined; the others have one policy with logged propensities
    both = spread((log.policy_sessions > 0).all(axis=0))
    expected = spread(log.sessions) * CLICKED * shown_at_least_once(log)
    assert largest_z(weights * both, expected * both) < CLOSE
    assert largest_z(weights * both, spread(log.sessions) * CLICKED * both) > FAR


def test_intervals_from_realised_exposure_are_doubted_where_documents_are_missing():
    log = unremembered(log_of(0.1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sparse = evaluation.estimate(SCORES, DATA, log, exam=THETA)["dcg@5"]
        full = evaluation.estimate(SCORES, DATA, unremembered(log_of(0.9, sessions=200)), exam=THETA)["dcg@5"]
    assert any("on documents that the clicks do not cover" in doubt for doubt in sparse.doubts)
    assert sparse.propensities == full.propensities == "realised"
    assert sparse.uncovered > 0.05
    assert full.uncovered == 0.0


def test_a_verdict_needs_the_documents_it_is_about():
    """Reversing the order moves documents that a fixed page never shows; exchanging the first two does not."""
    swapped = np.tile([-1.0, 0.0, *range(-2, -N, -1)], COPIES)
    log = unremembered(log_of(0.5, sessions=50)).only_policies(["v1"])
    options = {"metrics": ["dcg"], "population": "these-queries"}
    with pytest.warns(CoverageWarning, match="showed the same documents in all of .* repeated sessions"):
        blind = evaluation.compare(UP, SCORES, DATA, log, **options)["dcg"]
    assert blind.uncovered > 0.5
    found = evaluation.verdict(blind)
    assert blind.ips_interval[1] < 0.0
    assert (found.decision, found.passes, found.exit_code) == ("undecided", False, 3)
    assert "of the difference is on documents that the clicks do not cover" in found.sentence
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seen = evaluation.compare(swapped, SCORES, DATA, log, **options)["dcg"]
        given = evaluation.compare(UP, SCORES, DATA, log, FIXED.propensity(SCORES, OFFSETS, THETA), **options)["dcg"]
        random = unremembered(log_of(0.5, sessions=50)).only_policies(["v2"])
        covered = evaluation.compare(UP, SCORES, DATA, random, **options)["dcg"]
    assert seen.uncovered == 0.0
    assert evaluation.verdict(seen).decision == "better"  # the second document is relevant, the first is not
    assert given.uncovered == pytest.approx(blind.uncovered)
    assert covered.uncovered == 0.0


def test_a_contradiction_in_one_query_concerns_all_of_that_name():
    """Deterministic pages, then a covering policy under the same name, 20 sessions a query: many queries show no
    contradiction of their own, and their weights would be as biased as those of the others."""
    log = no_name(unremembered(log_of(0.3, sessions=20, second_scores=UP)))
    by_query = np.zeros(COPIES, bool)
    low, high = np.full(COPIES * N, np.inf), np.zeros(COPIES * N)
    np.minimum.at(low, log.docs, log.propensities)
    np.maximum.at(high, log.docs, log.propensities)
    by_query = ((high > low * 1.0001) & (high > 0)).reshape(COPIES, N).any(axis=1)
    assert 0.02 < 1.0 - by_query.mean() < 0.98  # some queries contradict themselves, some do not
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = estimators.logged_propensities(log, THETA)
        weights = estimators.policy_aware(log, exam=THETA)
    assert found.source == "realised"
    named = log_of(0.3, sessions=20, second_scores=UP)
    never = np.ones(COPIES * N)
    for number, (policy, scores) in enumerate(((FIXED, SCORES), (COVERING, UP))):
        chance = np.minimum(policy.propensity(scores, OFFSETS, [1.0] * 3), 1.0)
        never *= (1.0 - chance) ** spread(named.policy_sessions[number])
    assert largest_z(weights, spread(log.sessions) * CLICKED * (1.0 - never)) < CLOSE
    with pytest.raises(CounterrankError, match="several policies"):
        estimators.policy_aware(log)


def test_the_remedy_names_the_policy_that_shows_most():
    log = unremembered(log_of(0.5))
    renamed = replace(log, policy_names=("z-old", "a-new"))
    with pytest.raises(CounterrankError, match="--only-policy a-new"):
        estimators.policy_aware(renamed)


def test_one_policy_is_not_taken_for_pages_that_contradict_it():
    log = one_name(unremembered(log_of(0.5, first=COVERING, second_scores=UP)))
    with pytest.raises(CounterrankError, match="pages of several policies and not of one"):
        several_policies(log, {"v1": (COVERING, UP)}, THETA)
    with pytest.raises(CounterrankError, match="pages of several policies and not of one"):
        estimators.affine(log, THETA, [0.0, 0.0, 0.0], COVERING, UP)
    with pytest.warns(UserWarning, match="rho must be the mean over the sessions of all of them"):
        estimators.policy_aware(log, COVERING.propensity(UP, OFFSETS, THETA))


def test_queries_of_one_policy_each_keep_their_logged_propensities():
    odd = np.arange(COPIES) % 2
    parts = [
        simulate(DATA, SCORES, policy, THETA, sessions=20_000, seed=seed, click_model=ClickModel(E1, E0),
                 policy_name=name, query_frequencies=frequencies)
        for policy, seed, name, frequencies in ((FIXED, 1, "v1", odd), (COVERING, 2, "v2", 1 - odd))
    ]  # fmt: skip
    log = unremembered(ClickCounts.concat(parts))
    found = estimators.logged_propensities(log)
    assert found.source == "logged"
    assert estimators.policy_aware(log) == pytest.approx(log.by_document(log.clicks / log.propensities))


@pytest.mark.parametrize("share", SHARES)
def test_two_covering_policies_are_combined_from_what_they_logged(share):
    """With many sessions each policy shows each document: means are known without naming the policies."""
    log = unremembered(log_of(share, sessions=1500, first=COVERING, second_scores=UP))
    found = estimators.logged_propensities(log)
    assert found.source == "mean"
    known = {"v1": (COVERING, SCORES), "v2": (COVERING, UP)}
    assert found.by_document == pytest.approx(several_policies(log, known, THETA), rel=1e-6)
    assert largest_z(estimators.policy_aware(log), spread(log.sessions) * CLICKED) < CLOSE
    seen = examinations(log, None)
    assert seen.rho == pytest.approx(found.by_document)


def test_a_document_that_a_policy_never_showed_is_not_taken_for_one_it_cannot_show():
    """In a sparse log of two covering policies, 0 in place of unknown propensities would raise weights."""
    log = unremembered(log_of(0.5, first=COVERING, second_scores=UP))
    with pytest.raises(
        CounterrankError, match=r"several policies \('v1', 'v2'\), and [\d,]+ documents have an unknown"
    ):
        estimators.policy_aware(log)
    place = log.docs * 2 + log.policies
    known = np.zeros(2 * len(CLICKED))
    known[place] = log.propensities
    shares = (log.policy_sessions / np.maximum(log.sessions, 1)).T
    as_zero = (known.reshape(-1, 2) * np.repeat(shares, N, axis=0)).sum(axis=1)
    clicks = log.by_document(log.clicks)
    weights = np.divide(clicks, as_zero, out=np.zeros(len(clicks)), where=as_zero > 0.0)
    assert largest_z(weights, spread(log.sessions) * CLICKED) > FAR


REFUSERS = {
    "policy_aware": lambda log: estimators.policy_aware(log),
    "clip_grid": lambda log: estimators.clip_grid(log),
    "doubly_robust": lambda log: estimators.doubly_robust(log, None, np.full(log.n_docs, 0.5)),
    "shrinkage": lambda log: estimators.shrinkage(log, None, np.full(log.n_docs, 0.5)),
    "fit_relevance": lambda log: estimators.fit_relevance(DATA, log),
    "estimate": lambda log: evaluation.estimate(SCORES, DATA, log),
    "compare": lambda log: evaluation.compare(SCORES, UP, DATA, log),
    "select": lambda log: evaluation.select([SCORES, UP], DATA, log),
    "fit_from_clicks": lambda log: cr.fit_from_clicks(DATA, log),
}


@pytest.mark.parametrize("name", REFUSERS)
def test_everything_that_divides_by_logged_propensities_refuses_by_name(name):
    log = unremembered(log_of(0.5))
    with pytest.raises(CounterrankError, match=r"^propensities: the log holds several policies") as caught:
        REFUSERS[name](log)
    message = str(caught.value)
    assert "\n" not in message
    for remedy in ("--policy NAME=...", "several_policies", "--examination", "exam=", "--only-policy v2"):
        assert remedy in message


@pytest.mark.parametrize("name", REFUSERS)
def test_everything_that_divides_by_logged_propensities_refuses_by_contradiction(name):
    """A ranker that was trained again under the same name, or under none."""
    log = unremembered(log_of(0.5, first=COVERING, second_scores=UP))
    for under, same in (("under 'v1'", one_name(log)), ("without a name of the policy", no_name(log))):
        with pytest.raises(
            CounterrankError, match=r"was logged with propensities .* and .*give each policy a name"
        ) as caught:
            REFUSERS[name](same)
        assert under in str(caught.value)
        assert "--only-policy" not in str(caught.value)


def merged_cells(log, **changes):
    """The counts with the policies of all cells forgotten, in order."""
    order = np.lexsort((log.propensities, log.ranks, log.docs))
    cells = {name: getattr(log, name)[order] for name in ("docs", "ranks", "impressions", "clicks", "propensities")}
    return replace(log, **cells, **changes)


def one_name(log):
    return merged_cells(
        log, policies=np.zeros(len(log.docs), np.int64), policy_names=("v1",), policy_sessions=log.sessions[None]
    )


def no_name(log):
    return merged_cells(log, policies=None, policy_names=(), policy_sessions=None)


def test_the_tolerance_is_that_of_float32():
    log = unremembered(log_of(0.5)).only_policies(["v2"])
    narrow = log.propensities.astype(np.float32).astype(float)
    stored = np.where(np.arange(len(narrow)) % 2, narrow, log.propensities)  # some rows in another type
    assert estimators.policy_aware(replace(log, propensities=stored)).sum() > 0.0
    off = np.where(np.arange(len(narrow)) % 2, log.propensities * (1.0 + 2e-4), log.propensities)
    with pytest.raises(CounterrankError, match="was logged with propensities"):
        estimators.policy_aware(replace(log, propensities=off))


def test_realised_exposure_of_a_nameless_log():
    log = no_name(unremembered(log_of(0.5, sessions=300, first=COVERING, second_scores=UP)))
    weights = estimators.policy_aware(log, exam=THETA)
    assert largest_z(weights, spread(log.sessions) * CLICKED) < CLOSE


def test_rho_that_cannot_be_the_mean_is_warned_about():
    log = unremembered(log_of(0.5, sessions=100))
    one = COVERING.propensity(SCORES, OFFSETS, THETA)
    with pytest.warns(UserWarning, match="rho differs from the propensities logged"):
        estimators.policy_aware(log, one)
    known = {"v1": (FIXED, SCORES), "v2": (COVERING, SCORES)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimators.policy_aware(log, several_policies(log, known, THETA))


def test_propensities_that_sum_to_more_than_a_page():
    docs = np.arange(4)
    ones = np.ones(4, np.int64)
    log = ClickCounts(
        "x", np.array([0, 4]), np.array([4]), docs, np.array([1, 1, 2, 2]), ones, ones, propensities=np.ones(4)
    )
    with pytest.warns(UserWarning, match="1 of 1 queries sum to more than one page can hold"):
        estimators.policy_aware(log)


@pytest.mark.statistical
@pytest.mark.parametrize("share", [0.1, 0.4, 0.9])
@pytest.mark.parametrize("population", ["queries", "these-queries"])
def test_confidence_intervals_cover_the_truth(population, share):
    """200 logs of 75 copies each: at a coverage of 95 %, 176 or fewer intervals cover the truth with probability 1e-4.

    The value of a ranking is the same in every query, so both populations have the same truth.
    """
    data, scores = DATA.subset(np.arange(75)), SCORES[: 75 * N]
    truth = float((CLICKED[:N] / np.log2(np.arange(2, N + 2))).sum())  # dcg of the order of the scores
    known = {"v1": (FIXED, scores), "v2": (COVERING, scores)}
    many = round(share * 15_000)
    held = dict.fromkeys(("mean", "realised", "only"), 0)
    for number in range(200):
        log = unremembered(
            ClickCounts.concat(
                [
                    simulate(data, scores, policy, THETA, sessions=sessions, seed=seed + 2 * number, displays=True,
                             click_model=ClickModel(E1, E0), policy_name=name, threads=1)
                    for policy, sessions, seed, name in ((FIXED, 15_000 - many, 100, "v1"), (COVERING, many, 101, "v2"))
                ]
            )
        )  # fmt: skip
        options = {"metrics": ["dcg"], "population": population, "seed": number, "threads": 1, "replicates": 400}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = {
                "mean": evaluation.estimate(scores, data, log, several_policies(log, known, THETA), **options),
                "realised": evaluation.estimate(scores, data, log, exam=THETA, **options),
                "only": evaluation.estimate(scores, data, log.only_policies(["v2"]), **options),
            }
        for name, each in found.items():
            low, high = each["dcg"].ips_interval
            held[name] += low <= truth <= high
    if share < 0.2:  # 20 pages of v2 a query: some documents were never shown, and realised exposure misses a little
        del held["realised"]
    assert min(held.values()) > 176, held


def test_displayed_pages_of_one_policy():
    log = log_of(0.5, displays=True)
    alone = log.only_policies(["v1"])
    pages = alone.displays
    assert pages.sessions.sum() == alone.n_sessions == log.policy_sessions[0].sum()
    assert (pages.policies == 0).all()
    direct = simulate(DATA, SCORES, FIXED, THETA, sessions=COPIES * 6, seed=1, displays=True,
                      click_model=ClickModel(E1, E0), policy_name="v1")  # fmt: skip
    for name in ("offsets", "docs", "sessions", "clicks", "policies"):
        np.testing.assert_array_equal(getattr(pages, name), getattr(direct.displays, name), err_msg=name)
    for name in ("sessions", "docs", "ranks", "impressions", "clicks", "propensities", "policies"):
        np.testing.assert_array_equal(getattr(alone, name), getattr(direct, name), err_msg=name)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["v3"], "only_policies: 'v3' is not in the log; expected some of 'v1', 'v2'"),
        ("v2", "only_policies='v2': expected a list of names"),
        ([], r"only_policies=\[\]: expected a list of names"),
        ([2], r"only_policies=\[2\]: 2 is not a name"),
    ],
)
def test_bad_names(names, message):
    log = log_of(0.5)
    with pytest.raises(CounterrankError, match=message):
        log.only_policies(names)
    with pytest.raises(CounterrankError, match="these clicks name no policies"):
        no_name(log).only_policies(["v1"])
