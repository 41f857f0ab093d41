"""Estimators from clicks to weights: against reference implementations, on bad input, and where they should warn."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.displays import Displays
from counterrank.clicks.examination import Examination, inverse_rank
from counterrank.common.errors import CounterrankError, CoverageWarning
from counterrank.estimators import naive, policy_aware, policy_oblivious, rerank
from tests.reference import estimators as reference
from tests.support.click_counts import count, worlds

CLIPS = st.none() | st.floats(0.25, 20.0)
CURVES = st.lists(st.floats(0.05, 1.0), min_size=5, max_size=5)

# query 0 of three documents, query 1 of one, query 2 without sessions; pages of two
LENGTHS = [3, 1, 2]
SESSIONS = [(0, (0, 1), {1}), (0, (1, 0), {1, 2}), (0, (0, 2), {2}), (0, (0, 1), set()), (1, (0,), {1})]
CLICKS = count(LENGTHS, SESSIONS)
EXAM = Examination([1.0, 0.25])


def quietly(function, *arguments, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)
        return function(*arguments, **more)


def warnings_of(function, *arguments, **more) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(*arguments, **more)
    assert all(each.category is CoverageWarning and each.filename == __file__ for each in caught)
    return [str(each.message) for each in caught]


def by_set(views, offsets) -> dict:
    found = {}
    for a, b in zip(views.offsets[:-1], views.offsets[1:], strict=True):
        docs = views.docs[a:b].tolist()
        assert docs == sorted(docs)
        query = int(np.searchsorted(offsets, docs[0], side="right")) - 1
        found[query, frozenset(docs)] = dict(zip(docs, views.weights[a:b].tolist(), strict=True))
    assert len(found) == views.n_sets
    assert [query for query, _ in found] == sorted(query for query, _ in found)
    return found


def test_weights_by_hand():
    # document 0: clicked once at rank 1, once at rank 2; 1: once at rank 1; 2: once at rank 2; 3: once at rank 1
    assert quietly(naive, CLICKS).tolist() == [2, 1, 1, 1, 0, 0]
    assert quietly(naive, CLICKS, clip=0.5).tolist() == [1, 0.5, 0.5, 0.5, 0, 0]
    assert quietly(policy_oblivious, CLICKS, EXAM).tolist() == [1 + 4, 1, 4, 1, 0, 0]
    assert quietly(policy_oblivious, CLICKS, EXAM, clip=3).tolist() == [1 + 3, 1, 3, 1, 0, 0]
    assert policy_aware(CLICKS, [0.5, 0.5, 0.125, 1.0, 0.1, 0.1]).tolist() == [2 * 2, 2, 8, 1, 0, 0]
    assert policy_aware(CLICKS, [0.5, 0.5, 0.125, 1.0, 0.1, 0.1], clip=3.0).tolist() == [2 * 2, 2, 3, 1, 0, 0]


def test_displayed_sets_by_hand():
    # {0, 1} was shown in both orders: 0 clicked at ranks 1 and 2, 1 at rank 1; {0, 2}: 2 at rank 2; {3}
    views = quietly(rerank, CLICKS, EXAM)
    assert by_set(views, CLICKS.offsets) == {
        (0, frozenset({0, 1})): {0: 1 + 4, 1: 1},
        (0, frozenset({0, 2})): {0: 0, 2: 4},
        (1, frozenset({3})): {3: 1},
    }
    assert (views.docs.dtype, views.offsets.dtype, views.weights.dtype) == (np.int64, np.int64, np.float64)


@given(worlds(), CURVES, CLIPS, st.data())
@settings(max_examples=150, deadline=None)
def test_all_estimators_against_the_reference(world, theta, clip, data):
    lengths, sessions = world
    n = sum(lengths)
    rho = data.draw(st.lists(st.floats(0.01, 1.0), min_size=n, max_size=n))
    clicks = count(lengths, sessions, rho=rho)
    expected = {
        "naive": reference.weights(lengths, sessions, lambda row, rank: 1.0, clip),
        "oblivious": reference.weights(lengths, sessions, lambda row, rank: theta[rank - 1], clip),
        "aware": reference.weights(lengths, sessions, lambda row, rank: rho[row], clip),
    }
    close = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(quietly(naive, clicks, clip=clip), expected["naive"], **close)
    np.testing.assert_allclose(
        quietly(policy_oblivious, clicks, Examination(theta), clip=clip), expected["oblivious"], **close
    )
    np.testing.assert_allclose(policy_aware(clicks, rho, clip=clip), expected["aware"], **close)
    np.testing.assert_allclose(policy_aware(clicks, clip=clip), expected["aware"], **close)
    views = quietly(rerank, clicks, Examination(theta), clip=clip)
    together = np.bincount(views.docs, weights=views.weights, minlength=n)
    np.testing.assert_allclose(together, expected["oblivious"], **close)
    found = by_set(views, clicks.offsets)
    sets = reference.rerank(lengths, sessions, theta, clip)
    assert found.keys() == sets.keys()
    for key, members in sets.items():
        assert found[key] == pytest.approx(members, rel=1e-12, abs=1e-12)


@given(worlds(), st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=5, max_size=5).filter(any))
@settings(max_examples=150, deadline=None)
def test_warnings_exactly_where_a_candidate_was_not_always_seen(world, theta):
    lengths, sessions = world
    # a click at a rank that nobody examines cannot be
    sessions = [(query, page, {rank for rank in ranks if theta[rank - 1] > 0}) for query, page, ranks in sessions]
    missing = reference.not_always_seen(lengths, sessions, theta)
    everywhere = reference.not_always_seen(lengths, sessions, [1.0] * 5)
    clicks, exam = count(lengths, sessions), Examination(theta)
    for function in (policy_oblivious, rerank):
        messages = warnings_of(function, clicks, exam)
        assert len(messages) == bool(missing)
        assert not missing or f"{function.__name__}: {len(missing)} of " in messages[0]
    assert len(warnings_of(naive, clicks)) == bool(everywhere)
    known = count(lengths, sessions, examination=exam)  # naive knows what the clicks know
    assert len(warnings_of(naive, known)) == bool(missing)


@given(worlds(), st.data())
@settings(max_examples=100, deadline=None)
def test_warnings_exactly_where_a_candidate_of_a_query_with_sessions_has_no_propensity(world, data):
    lengths, sessions = world
    offsets = reference.offsets_of(lengths)
    clicked = {int(offsets[query]) + page[rank - 1] for query, page, ranks in sessions for rank in ranks}
    shown = {int(offsets[query]) + place for query, page, _ in sessions for place in page}
    # so small that the propensities of a query sum to less than a page, as those of one policy do
    rho = [0.05 if row in clicked else data.draw(st.sampled_from([0.0, 0.05])) for row in range(sum(lengths))]
    candidates = {row for query, _, _ in sessions for row in range(offsets[query], offsets[query + 1])}
    never = {row for row in candidates if rho[row] == 0.0}
    assert len(warnings_of(policy_aware, count(lengths, sessions), rho)) == bool(never)
    # nothing was logged for documents that were not shown
    assert len(warnings_of(policy_aware, count(lengths, sessions, rho=rho))) == bool(never & shown)


def test_what_the_warnings_say():
    # of the 4 candidates of the 2 queries with sessions, documents 1 and 2 were missing from some page
    (message,) = warnings_of(policy_oblivious, CLICKS, EXAM)
    assert message == (
        "policy_oblivious: 2 of 4 candidates (50.0%), in 1 of 2 queries with sessions, were not on every page of "
        "their query at a rank that is examined, so they get too little weight (item selection bias, "
        "eq:agnosticcond); use policy_aware with the propensities of the policy"
    )
    unclicked = count(LENGTHS, SESSIONS[:2])
    (message,) = warnings_of(policy_aware, unclicked, [1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    assert message == (
        "policy_aware: 1 of 3 candidates (33.3%), in 1 of 1 queries with sessions, have a propensity of 0, so "
        "they cannot be clicked and keep weight 0 (eq:awarecond); log with a policy that may show every candidate"
    )


@given(worlds(shorten=False))
@settings(max_examples=30, deadline=None)
def test_nothing_to_warn_of_when_all_is_shown(world):
    clicks = count(*world)
    assert not warnings_of(naive, clicks)
    assert not warnings_of(policy_oblivious, clicks, inverse_rank())
    assert not warnings_of(rerank, clicks, inverse_rank())
    assert not warnings_of(policy_aware, clicks, np.full(clicks.n_docs, 1e-3))


def test_no_clicks_at_all():
    for sessions in ([], [(0, (0, 1, 2), set())]):
        clicks = count(LENGTHS, sessions)
        assert quietly(naive, clicks).tolist() == [0.0] * 6
        assert quietly(policy_oblivious, clicks, EXAM).tolist() == [0.0] * 6
        assert quietly(policy_aware, clicks, np.zeros(6)).tolist() == [0.0] * 6
        views = quietly(rerank, clicks, EXAM)
        assert (views.n_sets, views.docs.tolist(), views.offsets.tolist(), views.weights.tolist()) == (0, [], [0], [])


def test_the_clicks_are_left_as_they_are():
    quietly(rerank, CLICKS, EXAM)
    assert CLICKS.displays.docs.tolist() == count(LENGTHS, SESSIONS).displays.docs.tolist()
    assert not CLICKS.displays.docs.flags.writeable


def test_many_pages_in_many_orders_become_one_set():
    rng = np.random.default_rng(0)
    pages = np.array([rng.permutation(8) for _ in range(500)])
    clicks = rng.integers(0, 3, pages.shape)
    displays = Displays(np.arange(501) * 8, pages.ravel(), np.full(500, 9), clicks.ravel())
    empty = np.empty(0, np.int64)
    counts = ClickCounts("", np.array([0, 8]), np.array([0]), empty, empty, empty, empty, displays=displays)
    views = rerank(counts, inverse_rank())
    expected = np.zeros(8)
    for page, clicked in zip(pages, clicks, strict=True):
        expected[page] += clicked * np.arange(1, 9)
    np.testing.assert_allclose(views.weights, expected, rtol=1e-12)
    assert (views.docs.tolist(), views.offsets.tolist()) == (list(range(8)), [0, 8])


WITHOUT = count(LENGTHS, SESSIONS, displays=False)
RHO = np.full(6, 0.5)
BAD_INPUT = [
    (naive, ([1.0, 2.0],), {}, r"^clicks: list; expected ClickCounts, as simulation\.simulate gives"),
    (policy_oblivious, (None, EXAM), {}, r"^clicks: NoneType; expected ClickCounts"),
    (policy_aware, (RHO, RHO), {}, r"^clicks: ndarray; expected ClickCounts"),
    (rerank, ("clicks", EXAM), {}, r"^clicks: str; expected ClickCounts"),
    (naive, (CLICKS,), {"clip": 0}, r"^clip=0: expected a finite number above 0, or None for no cap"),
    (policy_oblivious, (CLICKS, EXAM), {"clip": -1.0}, r"^clip=-1\.0: expected a finite number above 0"),
    (policy_aware, (CLICKS, RHO), {"clip": np.inf}, r"^clip=inf: expected a finite number above 0"),
    (policy_aware, (CLICKS, RHO), {"clip": "10"}, r"^clip='10': expected a finite number above 0"),
    (rerank, (CLICKS, EXAM), {"clip": np.nan}, r"^clip=nan: expected a finite number above 0"),
    (rerank, (CLICKS, EXAM), {"clip": True}, r"^clip=True: expected a finite number above 0"),
    (policy_oblivious, (CLICKS, 0.5), {}, r"^exam: float; expected an examination curve"),
    (rerank, (CLICKS, None), {}, r"^exam: NoneType; expected an examination curve"),
    (rerank, (WITHOUT, EXAM), {}, r"^clicks: no displayed pages kept; expected clicks of simulate\(\.\.\., displays=T"),
    (policy_aware, (CLICKS,), {}, r"^rho: None, and the clicks hold no logged propensities; pass rho=policy\.propens"),
    (policy_aware, (CLICKS, [0.5]), {}, r"^rho: 1 entries; expected 6, the number of documents"),
    (policy_aware, (CLICKS, RHO * np.nan), {}, r"^rho: entry 0 is nan; expected finite numbers"),
    (
        policy_aware,
        (CLICKS, [0.5, 0.5, 1.5, 1, 1, 1]),
        {},
        r"^rho: 1\.5 for document 2 of query 0; expected probabilities from 0 to 1",
    ),
    (policy_aware, (CLICKS, [1, 1, 1, -0.1, 1, 1]), {}, r"^rho: -0\.1 for document 0 of query 1; expected prob"),
    (
        policy_aware,
        (CLICKS, [1, 1, 0, 1, 1, 1]),
        {},
        r"^rho: 0 for 1 click on 1 document, such as document 2 of query 0 at rank 2; expected a propensity above 0",
    ),
    (
        policy_aware,
        (CLICKS, [0, 1, 1, 0, 1, 1]),
        {"clip": 10},
        r"^rho: 0 for 3 clicks on 2 documents, such as document 0 of query 0 at rank 1; expected a propensity above 0",
    ),
    (policy_aware, (CLICKS, [1e-310, 1, 1, 1, 1, 1]), {}, r"^rho: 1e-310 for 2 clicks on 1 document, such as "),
    (
        policy_aware,
        (count(LENGTHS, SESSIONS, rho=[1, 1, 0, 1, 1, 1]),),
        {},
        r"^propensities: 0 for 1 click on 1 document, such as document 2 of query 0 at rank 2",
    ),
    (
        policy_oblivious,
        (CLICKS, inverse_rank(k=1)),
        {},
        r"^exam: 0 for 2 clicks on 2 documents, such as document 0 of query 0 at rank 2; expected a propensity above 0",
    ),
    (
        rerank,
        (CLICKS, inverse_rank(k=1)),
        {"clip": 5},
        r"^exam: 0 for 2 clicks on 2 documents, such as document 2 of query 0 at rank 2; expected a propensity above 0",
    ),
]


@pytest.mark.parametrize(("function", "arguments", "more", "message"), BAD_INPUT)
def test_estimators_refuse(function, arguments, more, message):
    with pytest.raises(CounterrankError, match=message):
        function(*arguments, **more)
