"""Simulated clicks against exact probabilities and against the session-by-session naive.

Seeds are fixed. Each p-value must be above 1e-8 and each deviation below 6 standard errors; with the number of
comparisons in a test its false alarms stay below one in a million.
"""

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import counterrank as cr
from counterrank.clicks import simulation
from counterrank.clicks.counts import ClickCounts
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
from counterrank.clicks.users import SessionSimulator
from counterrank.common.errors import CounterrankError
from tests.clicks.test_policies import MIXED, LastFirst, OnlySamples, SampleOnly, by_rank
from tests.reference.simulation import World, alike, binomials_fit, counted, fits, needed_sessions

RARE, FAR = 1e-8, 6.0
ARRAYS = ("sessions", "docs", "ranks", "impressions", "clicks")

LENGTHS = [1, 2, 3, 5]
SCORES = [0.3, -1.0, 2.0, 0.5, 1.5, 0.5, 0.1, 2.0, -1.0, 2.0, 0.7]
LABELS = [4, 0, 3, 0, 0, 4, 1, 3, 4, 0, 0]
THETA = [0.9, 0.6, 0.35, 0.2]
NOISY = ClickModel(relevant=0.8, other=0.25)
PAGES = {
    0: Explicit([[0]], [1.0]),
    1: Explicit([[0, 1], [1], [1, 0]], [0.5, 0.2, 0.3]),
    2: Explicit([[2, 0], [1, 2, 0], [0]], [0.25, 0.25, 0.5]),
    3: Explicit([[4, 2, 0, 1, 3], [1, 2], [0, 1, 2, 3]], [0.1, 0.6, 0.3]),
}
POLICIES = [
    *by_rank(1)[1:2],
    *by_rank(3),
    *by_rank(None),
    *MIXED,
    PAGES,
    Mixture([PAGES, UniformInsert(2), Deterministic(4)], [0.4, 0.35, 0.25]),
]


def brief(policy):
    return repr(policy)[:60]


def data_of(lengths, labels):
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    return cr.RankingData(np.zeros((offsets[-1], 1)), offsets, labels=labels)


DATA = data_of(LENGTHS, LABELS)
ATTRACTION = [0.8 if label >= 3 else 0.25 for label in LABELS]


def world_of(policy, **more):
    return World(LENGTHS, SCORES, policy, THETA, ATTRACTION, **more)


def is_own(policy):
    return isinstance(policy, Mixture) and "LastFirst" in repr(policy)


def check_sums(log, wanted=None):
    """Counts that must agree, whatever was drawn."""
    assert log.n_sessions == log.sessions.sum()
    if wanted is not None:
        assert log.n_sessions == wanted
    assert all(getattr(log, name).dtype == np.int64 for name in ARRAYS)
    assert (log.clicks <= log.impressions).all()
    assert (log.clicks >= 0).all()
    assert (log.impressions > 0).all()
    place = log.docs * (log.n_docs + 1) + log.ranks
    assert (np.diff(place) > 0).all()
    per_rank = np.zeros((log.n_queries, int(log.ranks.max())), np.int64)
    np.add.at(per_rank, (log.queries(), log.ranks - 1), log.impressions)
    assert (per_rank[:, 0] == log.sessions).all()  # every page has a first rank
    assert (np.diff(per_rank, axis=1) <= 0).all()
    if log.displays is None:
        return
    pages = log.displays
    owner = np.searchsorted(log.offsets, pages.docs, side="right") - 1
    first = owner[pages.offsets[:-1]]
    assert (owner == np.repeat(first, np.diff(pages.offsets))).all()
    assert (np.diff(first) >= 0).all()
    assert (np.bincount(first, pages.sessions, log.n_queries) == log.sessions).all()
    cells = Counter(), Counter()
    for doc, rank, shown, clicked in zip(
        pages.docs.tolist(),
        pages.ranks().tolist(),
        np.repeat(pages.sessions, np.diff(pages.offsets)).tolist(),
        pages.clicks.tolist(),
        strict=True,
    ):
        assert 0 <= clicked <= shown
        cells[0][doc, rank] += shown
        cells[1][doc, rank] += clicked
    found = counted(log)
    assert cells[0] == found.impressions
    assert {cell: n for cell, n in cells[1].items() if n} == {cell: n for cell, n in found.clicks.items() if n}


def p_values(found, world):
    """One p-value for everything the counters can be compared in, each given what comes before it."""
    yield fits(found.sessions, dict(enumerate(world.shares)))
    cells = {place: n for place, n in found.impressions.items() if n}
    docs = list(cells)
    yield binomials_fit(
        [found.clicks[cell] for cell in docs],
        [cells[cell] for cell in docs],
        [world.click_probability(*cell) for cell in docs],
    )
    for query in range(len(world.lengths)):
        if not found.sessions[query]:
            continue
        pages = world.pages(query)
        own = range(world.offsets[query], world.offsets[query + 1])
        for rank in range(1, world.lengths[query] + 2):
            shown = Counter()
            for page, probability in pages.items():
                if len(page) >= rank:
                    shown[page[rank - 1]] += probability
            seen = {doc: cells.get((doc, rank), 0) for doc in own}
            total = sum(shown.values())
            yield binomials_fit([sum(seen.values())], [found.sessions[query]], [min(total, 1.0) if shown else 0.0])
            if shown:
                yield fits(seen, {doc: probability / total for doc, probability in shown.items()})
        if found.pages:
            yield fits({page: n for page, n in found.pages.items() if page[0] in own}, pages)
    if found.pages:
        places = list(found.page_clicks)
        yield binomials_fit(
            [found.page_clicks[place] for place in places],
            [found.pages[page] for page, _ in places],
            [world.click_probability(page[rank - 1], rank) for page, rank in places],
        )


@pytest.mark.parametrize("displays", [False, True])
@pytest.mark.parametrize("policy", POLICIES, ids=brief)
def test_counts_have_their_probabilities(policy, displays):
    sessions = 3_000 if is_own(policy) else 100_000
    log = simulate(
        DATA, SCORES, policy, THETA, sessions=sessions, seed=17, click_model=NOISY, displays=displays, threads=2
    )
    check_sums(log, sessions)
    assert (log.displays is not None) == displays
    assert min(p_values(counted(log), world_of(policy))) > RARE


@pytest.mark.statistical
@pytest.mark.parametrize("policy", [*by_rank(3)[1:7], MIXED[1], PAGES], ids=brief)
def test_counts_are_alike_those_of_session_after_session(policy):
    log = simulate(DATA, SCORES, policy, THETA, sessions=30_000, seed=5, click_model=NOISY, displays=True)
    ours, world = counted(log), world_of(policy)
    theirs = world.simulate(2_500, seed=6)
    assert alike(ours.sessions, theirs.sessions) > RARE
    for rank in range(1, 6):
        shown = [{doc: n for (doc, at), n in each.impressions.items() if at == rank} for each in (ours, theirs)]
        assert alike(*shown) > RARE
    for query in range(len(LENGTHS)):
        own = range(world.offsets[query], world.offsets[query + 1])
        pages = [{page: n for page, n in each.pages.items() if page[0] in own} for each in (ours, theirs)]
        assert alike(*pages) > RARE
        outcomes = {outcome: n for outcome, n in theirs.outcomes.items() if outcome[0][0] in own}
        assert fits(outcomes, world.outcomes(query)) > RARE
    for page, rank in theirs.page_clicks:
        clicked = [
            {1: each.page_clicks[page, rank], 0: each.pages[page] - each.page_clicks[page, rank]}
            for each in (ours, theirs)
        ]
        assert alike(*clicked) > RARE
    assert min(p_values(theirs, world)) > RARE


def test_the_comparison_can_fail():
    log = simulate(DATA, SCORES, ReplaceLast(3), THETA, sessions=100_000, seed=17, click_model=NOISY, displays=True)
    for other in (EpsilonGreedy(3, 0.9), Deterministic(3), UniformInsert(3)):
        assert min(p_values(counted(log), world_of(other))) < RARE
    off = World(LENGTHS, SCORES, ReplaceLast(3), [0.9, 0.6, 0.33], ATTRACTION)
    assert min(p_values(counted(log), off)) < RARE
    skewed = world_of(ReplaceLast(3), frequencies=[1.0, 1.0, 1.0, 1.1])
    assert min(p_values(counted(log), skewed)) < RARE


# --- joint distribution: many equal queries are many independent small logs

SMALL = [2.0, 3.0, 1.0]
SMALL_LABELS = [4, 0, 4]
OWN_PAGES = Explicit([[0, 1], [2], [1, 2]], [0.5, 0.25, 0.25])
JOINT = [
    Deterministic(2),
    ReplaceLast(2),
    EpsilonGreedy(2, 0.4),
    UniformInsert(2),
    PlackettLuce(2),
    Mixture([UniformInsert(2), Deterministic(2), PlackettLuce(1)], [0.4, 0.3, 0.3]),
    OWN_PAGES,
    Mixture([LastFirst(), ReplaceLast(2)], [0.5, 0.5]),
]


def logs_by_query(log, n):
    """What each query's log holds, in a form that can be counted."""
    found = [[] for _ in range(log.n_queries)]
    for query, *cell in zip(log.queries(), log.docs % n, log.ranks, log.impressions, log.clicks, strict=True):
        found[query].append(tuple(int(each) for each in cell))
    return [tuple(sorted(cells)) for cells in found]


def pages_by_query(log, n):
    found = [[] for _ in range(log.n_queries)]
    pages = log.displays
    for i, (a, b) in enumerate(itertools.pairwise(pages.offsets)):
        page, clicks = tuple((pages.docs[a:b] % n).tolist()), tuple(pages.clicks[a:b].tolist())
        found[pages.docs[a] // n].append((page, int(pages.sessions[i]), clicks))
    return [tuple(sorted(each)) for each in found]


def exact_logs(world, sessions, displays):
    """The probability of everything that so many sessions of one query can leave in a log."""
    one = world.outcomes(0)
    found = Counter()
    for picks in itertools.combinations_with_replacement(one, sessions):
        ways = np.prod([float(each) for each in range(1, sessions + 1)])
        for count in Counter(picks).values():
            ways /= np.prod([float(each) for each in range(1, count + 1)])
        sums = {}
        for page, clicked in picks:
            if displays:
                before = sums.get(page, (0, (0,) * len(page)))
                sums[page] = before[0] + 1, tuple(a + b for a, b in zip(before[1], clicked, strict=True))
            else:
                for rank, (doc, click) in enumerate(zip(page, clicked, strict=True), 1):
                    before = sums.get((doc, rank), (0, 0))
                    sums[doc, rank] = before[0] + 1, before[1] + click
        if displays:
            state = tuple(sorted((page, *sums[page]) for page in sums))
        else:
            state = tuple(sorted((*cell, *sums[cell]) for cell in sums))
        found[state] += ways * float(np.prod([one[pick] for pick in picks]))
    assert sum(found.values()) == pytest.approx(1.0)
    return found


@pytest.mark.statistical
@pytest.mark.parametrize("displays", [False, True])
@pytest.mark.parametrize("policy", JOINT, ids=brief)
def test_whole_logs_of_a_few_sessions_have_their_probabilities(policy, displays):
    """Impressions and clicks of all cells (or pages) of a query together, given 1, 2 or 3 sessions of it.

    That clicks on two ranks of a page are independent, and what documents are shown together, is all in there.
    """
    n = 4_000
    data = data_of([3] * n, np.tile(SMALL_LABELS, n))
    chosen = dict.fromkeys(range(n), policy) if isinstance(policy, Explicit) else policy
    log = simulate(
        data, np.tile(SMALL, n), chosen, [0.9, 0.6], sessions=2 * n, seed=23, click_model=NOISY, displays=displays
    )
    world = World([3], SMALL, policy, [0.9, 0.6], [0.8, 0.25, 0.8])
    seen = pages_by_query(log, 3) if displays else logs_by_query(log, 3)
    for sessions in (1, 2, 3):
        own = Counter(seen[query] for query in np.flatnonzero(log.sessions == sessions))
        assert sum(own.values()) > 500
        assert fits(own, exact_logs(world, sessions, displays)) > RARE


def moments(world):
    """Mean and covariance over sessions of one query of what is shown and clicked at each place."""
    n, outcomes = world.lengths[0], world.outcomes(0)
    size = n * n
    mean, square = np.zeros(2 * size), np.zeros((2 * size, 2 * size))
    for (page, clicked), probability in outcomes.items():
        x = np.zeros(2 * size)
        for rank, (doc, click) in enumerate(zip(page, clicked, strict=True)):
            x[doc * n + rank] = 1.0
            x[size + doc * n + rank] = click
        mean += probability * x
        square += probability * np.outer(x, x)
    return mean, square - np.outer(mean, mean)


def deviations(log, n, mean):
    """For each query what was counted minus its expectation given its sessions."""
    size = n * n
    x = np.zeros((log.n_queries, 2 * size))
    place = (log.docs % n) * n + log.ranks - 1
    np.add.at(x, (log.queries(), place), log.impressions)
    np.add.at(x, (log.queries(), size + place), log.clicks)
    return x - log.sessions[:, None] * mean


def check_covariance(off, sessions, covariance):
    """sum over logs of off * off' has the expectation sessions * covariance: deviations in units of their spread."""
    for i, j in itertools.combinations_with_replacement(range(len(covariance)), 2):
        products = off[:, i] * off[:, j]
        spread = np.sqrt(((products - sessions / len(off) * covariance[i, j]) ** 2).sum())
        difference = products.sum() - sessions * covariance[i, j]
        assert abs(difference) <= FAR * spread + 1e-6, (i, j)


@pytest.mark.parametrize("displays", [False, True])
@pytest.mark.parametrize("policy", [each for each in JOINT if "LastFirst" not in repr(each)], ids=brief)
def test_variances_and_covariances_over_many_sessions(policy, displays):
    """Impressions of two documents, clicks of two places, impressions and clicks: all pairs, by multinomial blocks."""
    n, each = 600, 150
    scores, attraction = [2.0, 3.0, 1.0, 0.5], [0.8, 0.25, 0.8, 0.25]
    data = data_of([4] * n, np.tile([4, 0, 4, 0], n))
    chosen = dict.fromkeys(range(n), policy) if isinstance(policy, Explicit) else policy
    log = simulate(
        data, np.tile(scores, n), chosen, [0.9, 0.6], sessions=n * each, seed=3, click_model=NOISY, displays=displays
    )
    mean, covariance = moments(World([4], scores, policy, [0.9, 0.6], attraction))
    off = deviations(log, 4, mean)
    total = off.sum(axis=0)
    assert (np.abs(total) <= FAR * np.sqrt(log.n_sessions * np.diag(covariance)) + 1e-6).all()
    check_covariance(off, log.n_sessions, covariance)
    if policy == ReplaceLast(2):
        with pytest.raises(AssertionError):
            check_covariance(off, log.n_sessions, np.diag(np.diag(covariance)))  # as if all were independent


# --- a wanted number of clicks


def runs(policy, clicks, n, **more):
    """(sessions, clicks) of simulations with seeds 0, 1, 2, ..."""
    found = Counter()
    for seed in range(n):
        log = simulate(DATA, SCORES, policy, THETA, clicks=clicks, seed=seed, click_model=NOISY, **more)
        check_sums(log)
        found[log.n_sessions, log.n_clicks] += 1
    return found


@pytest.mark.statistical
@pytest.mark.representative
@pytest.mark.parametrize("clicks", [1, 7])
@pytest.mark.parametrize("policy", [ReplaceLast(3), PlackettLuce(3), PAGES, MIXED[2]], ids=brief)
def test_the_session_with_the_wanted_click_is_the_last(policy, clicks):
    """How many sessions it takes and how far the last one overshoots, together."""
    found = runs(policy, clicks, 60 if is_own(policy) else 300, propensities=False)
    exact = needed_sessions(world_of(policy).clicks_of_a_session(), clicks)
    assert fits(found, exact) > RARE
    longer = needed_sessions(world_of(policy).clicks_of_a_session(), clicks + 2)
    assert fits(found, longer) < 1e-3 or is_own(policy)


def recorded_blocks(monkeypatch):
    """The sizes of all blocks of sessions that are drawn from now on."""
    blocks = []
    original = SessionSimulator.all_at_once

    def spy(self, sessions, *arguments):
        blocks.append(sessions)
        return original(self, sessions, *arguments)

    monkeypatch.setattr(SessionSimulator, "all_at_once", spy)
    return blocks


@pytest.mark.statistical
@pytest.mark.parametrize("clicks", [250, 400])
@pytest.mark.parametrize("displays", [False, True])
@pytest.mark.parametrize("policy", [ReplaceLast(3), PlackettLuce(3), MIXED[2]], ids=brief)
def test_blocks_and_single_sessions_make_one_row(policy, displays, clicks, monkeypatch):
    """With blocks allowed to be small, counts go through all paths, and their distribution stays what it was."""
    monkeypatch.setattr(simulation, "_FEW", 4)
    monkeypatch.setattr(simulation, "_PILOT", 20)
    blocks = recorded_blocks(monkeypatch)
    n = 25 if is_own(policy) else 150
    found = runs(policy, clicks, n, displays=displays, propensities=False)
    assert len(blocks) >= n * (1 if clicks == 250 else 2)
    exact = needed_sessions(world_of(policy).clicks_of_a_session(), clicks)
    assert fits(found, exact) > RARE
    sessions = np.array([s for (s, _), times in found.items() for _ in range(times)])
    mean = sum(s * p for (s, _), p in exact.items())
    variance = sum((s - mean) ** 2 * p for (s, _), p in exact.items())
    fourth = sum((s - mean) ** 4 * p for (s, _), p in exact.items())
    assert abs(sessions.mean() - mean) < FAR * np.sqrt(variance / n)
    assert abs(((sessions - mean) ** 2).mean() - variance) < FAR * np.sqrt((fourth - variance**2) / n)


@pytest.mark.parametrize("clicks", [1_000, 3_000])
@pytest.mark.parametrize("policy", [ReplaceLast(3), UniformInsert(2), PAGES], ids=brief)
def test_blocks_stay_below_the_wanted_click(policy, clicks, monkeypatch):
    """The first block is large, and holds the wanted click with a chance below 1e-12: a sum over its sessions."""
    monkeypatch.setattr(simulation, "_FEW", 4)
    blocks = recorded_blocks(monkeypatch)
    simulate(DATA, SCORES, policy, THETA, clicks=clicks, seed=0, click_model=NOISY)
    per_session = world_of(policy).clicks_of_a_session()
    mean = per_session @ np.arange(len(per_session))
    assert 0.4 * clicks < blocks[0] * mean < clicks
    total = np.ones(1)
    for bit in bin(blocks[0])[2:]:
        total = np.convolve(total, total)
        if bit == "1":
            total = np.convolve(total, per_session)
    assert total.sum() == pytest.approx(1.0)
    assert total[clicks:].sum() < 1e-12


def test_cells_up_to_a_wanted_click_are_those_of_its_sessions(monkeypatch):
    """Wald: counts minus sessions times their mean have expectation 0, and their squares that of the sessions."""
    monkeypatch.setattr(simulation, "_FEW", 4)
    data, scores = data_of([3], SMALL_LABELS), SMALL
    for policy in (ReplaceLast(2), PlackettLuce(2)):
        mean, covariance = moments(World([3], SMALL, policy, [0.9, 0.6], [0.8, 0.25, 0.8]))
        off, total = [], 0
        for seed in range(250):
            log = simulate(data, scores, policy, [0.9, 0.6], clicks=150, seed=seed, click_model=NOISY)
            off.append(deviations(log, 3, mean)[0])
            total += log.n_sessions
        off = np.array(off)
        assert (np.abs(off.sum(axis=0)) <= FAR * np.sqrt(total * np.diag(covariance)) + 1e-6).all()
        check_covariance(off[:, :9], total, covariance[:9, :9])


@pytest.mark.parametrize("clicks", [1, 7, 1000, 10**6, 10**9, 10**13])
@pytest.mark.parametrize("policy", [ReplaceLast(3), Mixture([PAGES, UniformInsert(2)], [0.5, 0.5])], ids=brief)
def test_any_number_of_clicks(policy, clicks):
    log = simulate(DATA, SCORES, policy, THETA, clicks=clicks, seed=1, click_model=NOISY)
    check_sums(log)
    assert clicks <= log.n_clicks < clicks + 5
    per_session = world_of(policy).clicks_of_a_session()
    mean = per_session @ np.arange(len(per_session))
    variance = per_session @ np.arange(len(per_session)) ** 2 - mean**2
    assert abs(log.n_sessions - clicks / mean) < FAR * np.sqrt(clicks * variance / mean**3) + 20.0


def test_many_clicks_session_by_session():
    """Plackett-Luce: a pilot of sessions, blocks that follow from it, and single sessions at the end."""
    log = simulate(DATA, SCORES, PlackettLuce(3), THETA, clicks=200_000, seed=2, click_model=NOISY, displays=True)
    check_sums(log)
    assert 200_000 <= log.n_clicks < 200_003
    assert min(p_values(counted(log), world_of(PlackettLuce(3)))) > RARE


def test_clicks_that_are_certain():
    """Each session is clicked on every rank, so that the last click is known beforehand."""
    data = data_of([3, 4], [4] * 7)
    sure = ClickModel(1.0, 1.0)
    for clicks, sessions in ((1, 1), (2, 1), (3, 2), (50_000, 25_000), (50_001, 25_001)):
        log = simulate(data, np.zeros(7), ReplaceLast(2), [1.0, 1.0], clicks=clicks, click_model=sure)
        assert log.n_sessions == sessions
        assert log.n_clicks == 2 * sessions


# --- users


@pytest.mark.parametrize(
    ("model", "attraction"),
    [
        (None, [1.0 if label >= 3 else 0.1 for label in LABELS]),
        (ClickModel(0.5, 0.5), [0.5] * len(LABELS)),
        (ClickModel(0.7, 0.0), [0.7 if label >= 3 else 0.0 for label in LABELS]),
        (ClickModel(0.9, 0.1, gain="graded"), [0.1 + 0.8 * (2**label - 1) / 15 for label in LABELS]),
        (
            ClickModel([0.9, 0.5], [0.4, 0.3, 0.1]),
            [[0.9, 0.5] if label >= 3 else [0.4, 0.3, 0.1] for label in LABELS],
        ),
        (
            trust_bias(k=3, strength=0.8),
            [1.0 if label >= 3 else [0.1 + 0.8 * 0.9 * 0.65 / (r + 1) ** 0.5 for r in (1, 2, 3)] for label in LABELS],
        ),
    ],
)
@pytest.mark.parametrize("policy", [UniformInsert(3), PlackettLuce()], ids=brief)
def test_click_models(policy, model, attraction):
    theta = [1.0, 0.7, 0.5, 0.0, 0.3]
    log = simulate(DATA, SCORES, policy, theta, sessions=60_000, seed=8, click_model=model, displays=True)
    check_sums(log)
    assert min(p_values(counted(log), World(LENGTHS, SCORES, policy, theta, attraction))) > RARE
    assert (log.clicks[log.ranks == 4] == 0).all()
    single = simulate(DATA, SCORES, policy, theta, clicks=500, seed=8, click_model=model)  # one by one
    assert min(p_values(counted(single), World(LENGTHS, SCORES, policy, theta, attraction))) > RARE


def test_trust_bias_by_hand():
    model = trust_bias(k=4, strength=1.0)
    other, relevant = model.by_rank(6)
    assert relevant.tolist() == [1.0] * 6
    expected = [0.1 + 0.9 * 0.65 / np.sqrt(rank + 1) for rank in (1, 2, 3, 4, 4, 4)]
    assert other == pytest.approx(expected)
    assert trust_bias(k=3, strength=0.0).by_rank(3)[0] == pytest.approx([0.1] * 3)
    assert (trust_bias(k=2, strength=5.0, relevant=0.6).by_rank(2)[0] <= 0.6).all()


def test_relevance_threshold():
    model = ClickModel(1.0, 0.0)
    for threshold in (1, 3, 4):
        log = simulate(
            DATA, SCORES, Deterministic(), [1.0] * 5, sessions=1000, click_model=model, relevance_threshold=threshold
        )
        clicked = log.by_document(log.clicks) > 0
        assert clicked.tolist() == [label >= threshold for label in LABELS]


@pytest.mark.parametrize("policy", [ReplaceLast(3), PlackettLuce(3), MIXED[2]], ids=brief)
def test_query_frequencies(policy):
    given = [0.0, 3.0, 0.0, 1.0]
    for amount in ({"sessions": 2_000}, {"clicks": 800}):
        log = simulate(
            DATA, SCORES, policy, THETA, seed=3, click_model=NOISY, query_frequencies=given, displays=True, **amount
        )
        check_sums(log)
        assert log.sessions[[0, 2]].tolist() == [0, 0]
        assert min(p_values(counted(log), world_of(policy, frequencies=given))) > RARE


def test_frequencies_only_matter_up_to_a_factor():
    given = np.array([1.0, 2.0, 4.0, 1.0])
    logs = [
        simulate(DATA, SCORES, ReplaceLast(3), THETA, sessions=10_000, query_frequencies=given * factor)
        for factor in (1.0, 2.0**-900, 2.0**1000)
    ]
    assert all((log.sessions == logs[0].sessions).all() for log in logs)
    last = simulate(DATA, SCORES, ReplaceLast(3), THETA, clicks=50, query_frequencies=[1, 0, 0, 0])
    assert last.sessions[1:].sum() == 0


def test_more_sessions_than_fit_into_32_bits():
    log = simulate(DATA, SCORES, UniformInsert(3), THETA, sessions=10**13, seed=4, click_model=NOISY, displays=True)
    check_sums(log, 10**13)
    assert min(p_values(counted(log), world_of(UniformInsert(3)))) > RARE


# --- what is logged with clicks


def as_tuple(log):
    pages = log.displays
    more = () if pages is None else (pages.offsets, pages.docs, pages.sessions, pages.clicks)
    return tuple(array.tobytes() for array in (*(getattr(log, name) for name in ARRAYS), *more))


@pytest.mark.parametrize("amount", [{"sessions": 4_000}, {"clicks": 3_000}], ids=str)
@pytest.mark.parametrize("policy", [ReplaceLast(3), PlackettLuce(3), MIXED[1], MIXED[2]], ids=brief)
def test_one_seed_one_result_for_any_number_of_threads(policy, amount):
    n = 1_500
    data = data_of([3] * n, np.tile(SMALL_LABELS, n))
    scores = np.random.default_rng(0).normal(size=3 * n)

    def made(**more):
        return as_tuple(simulate(data, scores, policy, THETA, displays=True, propensities=False, **amount, **more))

    first = made(seed=11, threads=1)
    assert made(seed=11, threads=1) == first
    assert made(seed=11, threads=2) == first
    assert made(seed=11, threads=3) == first
    assert made(seed=12) != first
    assert made(seed=np.random.default_rng(5)) == made(seed=np.random.default_rng(5))


def test_a_generator_goes_on():
    rng = np.random.default_rng(0)
    first, second = (simulate(DATA, SCORES, ReplaceLast(3), THETA, sessions=1000, seed=rng) for _ in range(2))
    assert as_tuple(first) != as_tuple(second)


def test_seeds_are_unrelated():
    """Sessions per query under seeds 0, 1, 2, ... are multinomial together: chi-square sums over 300 seeds."""
    total = 0.0
    for seed in range(300):
        log = simulate(DATA, SCORES, ReplaceLast(3), THETA, sessions=400, seed=seed, propensities=False)
        total += ((log.sessions - 100) ** 2 / 100).sum()
    assert abs(total - 900) < FAR * np.sqrt(2 * 900)


@pytest.mark.parametrize("policy", [ReplaceLast(3), PlackettLuce(3), MIXED[0], MIXED[2], PAGES], ids=brief)
def test_logged_propensities_are_those_of_the_policy(policy):
    exam = Examination(THETA)
    log = simulate(DATA, SCORES, policy, exam, sessions=500, seed=1)
    known = Mixture([policy], [1.0]) if isinstance(policy, dict) else policy
    assert (log.propensities == known.propensity(SCORES, DATA.offsets, exam)[log.docs]).all()
    assert log.examination == exam
    assert simulate(DATA, SCORES, policy, exam, sessions=500, propensities=False).propensities is None


def test_policies_without_propensities():
    log = simulate(DATA, SCORES, SampleOnly(), THETA, sessions=2_000, seed=1, click_model=NOISY, displays=True)
    check_sums(log, 2_000)
    assert log.propensities is None
    assert min(p_values(counted(log), world_of(LastFirst()))) > RARE
    for policy in (OnlySamples(), Mixture([SampleOnly(), ReplaceLast(2)], [0.5, 0.5])):
        assert simulate(DATA, SCORES, policy, THETA, sessions=100, seed=1).propensities is None


def test_policy_names_and_logs_put_together():
    exam = Examination(THETA)
    first = simulate(DATA, SCORES, ReplaceLast(3), exam, sessions=5_000, seed=1, policy_name="last", displays=True)
    second = simulate(DATA, SCORES, UniformInsert(3), exam, clicks=3_000, seed=2, policy_name="insert", displays=True)
    assert first.policy_names == ("last",)
    assert (first.policies == 0).all()
    assert (first.policy_sessions == first.sessions[None]).all()
    both = ClickCounts.concat([first, second])
    assert both.policy_names == ("last", "insert")
    assert both.n_sessions == first.n_sessions + second.n_sessions
    assert both.n_clicks == first.n_clicks + second.n_clicks
    assert (both.policy_sessions == np.stack([first.sessions, second.sessions])).all()
    for number, part in enumerate((first, second)):
        own = both.policies == number
        for name in (*ARRAYS[1:], "propensities"):
            assert (getattr(both, name)[own] == getattr(part, name)).all()
    check_sums(replace(ClickCounts.concat([replace(part, **UNNAMED) for part in (first, second)]), propensities=None))


UNNAMED = {"policies": None, "policy_names": (), "policy_sessions": None, "propensities": None}


def test_short_queries_and_queries_without_relevant_documents():
    """Single documents, fewer documents than ranks, nothing relevant, nothing clicked: all are queries like others."""
    data = data_of([1, 1, 2, 4], [0, 4, 0, 0, 0, 0, 0, 0])
    for policy in by_rank(5):
        log = simulate(data, np.arange(8.0), policy, inverse_rank(5), sessions=4_000, seed=1, displays=True)
        check_sums(log, 4_000)
        assert log.n_impressions == (log.sessions * [1, 1, 2, 4]).sum()
        assert log.by_document(log.clicks)[1] == log.sessions[1]


# --- bad input

GIVEN = {"data": DATA, "scores": SCORES, "policy": ReplaceLast(3), "exam": THETA, "sessions": 10}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"data": 3}, "data: int; expected RankingData"),
        ({"data": cr.RankingData(np.zeros((11, 1)), DATA.offsets)}, "data: has no labels"),
        ({"scores": SCORES[:-1]}, "scores: 10 entries; expected 11, the number of documents"),
        ({"scores": [np.nan, *SCORES[1:]]}, "scores: entry 0 is nan"),
        ({"policy": "replace-last"}, "policy: str; expected a policy"),
        ({"policy": Explicit([[0]], [1.0])}, "Explicit serves one query, the data has 4"),
        ({"policy": {0: Explicit([[0]], [1.0])}}, "no Explicit for query 1"),
        ({"exam": 1.0}, "exam: float; expected an examination curve"),
        ({"exam": [1.2]}, "examination: 1.2 at rank 1"),
        ({"sessions": None}, "clicks, sessions: expected one of the two"),
        ({"clicks": 5}, "clicks, sessions: expected one of the two"),
        ({"sessions": 0}, "sessions=0: expected a whole number from 1 to 10"),
        ({"sessions": -5}, "sessions=-5: expected a whole number"),
        ({"sessions": 2.5}, "sessions=2.5: expected a whole number"),
        ({"sessions": True}, "sessions=True: expected a whole number"),
        ({"sessions": 10**16}, "sessions=10000000000000000: expected a whole number from 1 to"),
        ({"sessions": None, "clicks": "many"}, "clicks='many': expected a whole number"),
        ({"sessions": None, "clicks": float("nan")}, "clicks=nan: expected a whole number"),
        ({"seed": -1}, "seed=-1: expected a whole number of at least 0"),
        ({"seed": None}, "seed=None: expected a whole number"),
        ({"relevance_threshold": 9}, "relevance_threshold=9: no document is relevant"),
        ({"relevance_threshold": "3"}, "relevance_threshold='3': expected a number"),
        ({"click_model": "trust"}, "click_model: str; expected ClickModel"),
        ({"query_frequencies": [1.0]}, "query_frequencies: 1 entries; expected 4, the number of queries"),
        ({"query_frequencies": [1.0, -1.0, 0.0, 0.0]}, "query_frequencies: -1 for query 1; expected 0 or more"),
        ({"query_frequencies": [0.0] * 4}, "query_frequencies: all are 0; expected at least one above 0"),
        ({"query_frequencies": [1.0, np.inf, 0.0, 0.0]}, "query_frequencies: entry 1 is inf"),
        ({"threads": 0}, "threads=0: expected a whole number of at least 1"),
        ({"click_model": ClickModel(0.0, 0.0)}, "exam, click_model: no rank is ever clicked"),
        ({"exam": [0.0] * 5 + [1.0]}, "exam, click_model: no rank is ever clicked"),
        ({"policy_name": 3}, "policy_name=3: expected a string"),
        (
            {"policy": Deterministic(1), "exam": [0.0, 1.0], "sessions": None, "clicks": 5},
            "no page of this policy can be clicked",
        ),
    ],
)
def test_bad_arguments(changed, message):
    arguments = GIVEN | changed
    positional = [arguments.pop(name) for name in ("data", "scores", "policy", "exam")]
    with pytest.raises(CounterrankError, match=message):
        simulate(*positional, **arguments)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ClickModel(1.5), "relevant=1.5: expected probabilities from 0 to 1"),
        (lambda: ClickModel(other=[0.1, -0.2]), r"other=\[0.1, -0.2\]: expected probabilities from 0 to 1"),
        (lambda: ClickModel(other=[]), r"other=\[\]: expected a probability, or one for each rank"),
        (lambda: ClickModel(other="a"), "other='a': expected a probability"),
        (lambda: ClickModel(relevant=float("nan")), "relevant=nan: expected probabilities"),
        (lambda: ClickModel(relevant=[[1.0]]), "expected a probability, or one for each rank"),
        (lambda: ClickModel(gain="linear"), "gain='linear': expected one of 'binary', 'graded'"),
        (lambda: trust_bias(strength="a"), "strength='a': expected a number of at least 0"),
        (lambda: trust_bias(k=0), "k=0: expected a whole number of at least 1"),
    ],
)
def test_bad_click_models(make, message):
    with pytest.raises(CounterrankError, match=message):
        make()


def test_whole_floats_are_whole_numbers():
    assert simulate(DATA, SCORES, ReplaceLast(3), THETA, sessions=1e3).n_sessions == 1000
    assert simulate(DATA, SCORES, ReplaceLast(3), THETA, sessions=np.int64(7)).n_sessions == 7


@pytest.mark.parametrize("clicks", [1, 50_000, 50_001])
def test_pages_that_are_always_clicked(clicks):
    data = cr.RankingData(np.zeros((6, 1)), [0, 3, 6], labels=[4] * 6)
    for policy in (PlackettLuce(1), ReplaceLast(1)):
        log = simulate(data, [3.0, 2.0, 1.0, 3.0, 2.0, 1.0], policy, [1.0], clicks=clicks)
        assert (log.n_clicks, log.n_sessions) == (clicks, clicks)


class Empty:
    """Shows nothing for the second query."""

    def sample(self, scores, offsets, seed):
        return np.array([0]), np.array([0, 1, 1])


def test_an_empty_page_is_refused():
    data = cr.RankingData(np.zeros((4, 1)), [0, 2, 4], labels=[4] * 4)
    with pytest.raises(CounterrankError, match="sample shows an empty page for query 1"):
        simulate(data, np.zeros(4), Empty(), [1.0], sessions=10)


def test_no_document_is_seen_at_two_ranks_under_replace_last():
    """So a log of that policy cannot separate position bias from relevance."""
    log = simulate(DATA, SCORES, ReplaceLast(3), THETA, sessions=10_000)
    assert len(np.unique(log.docs)) == len(log.docs)
    moved = simulate(DATA, SCORES, UniformInsert(3), THETA, sessions=10_000)
    assert len(np.unique(moved.docs)) < len(moved.docs)


def test_a_seed_counts_by_its_value():
    logs = [simulate(DATA, SCORES, ReplaceLast(3), THETA, sessions=500, seed=seed) for seed in (3, np.int64(3))]
    np.testing.assert_array_equal(logs[0].clicks, logs[1].clicks)


def test_what_no_page_shows_is_remembered(tmp_path):
    top = simulate(DATA, SCORES, Deterministic(1), THETA, sessions=500)
    rho = Deterministic(1).propensity(SCORES, DATA.offsets, Examination(THETA))
    assert top.unexaminable.tolist() == np.flatnonzero(rho == 0.0).tolist()
    with pytest.warns(cr.CoverageWarning, match="eq:awarecond"):
        cr.estimators.policy_aware(top)
    top.save(tmp_path / "clicks")
    assert ClickCounts.load(tmp_path / "clicks").unexaminable.tolist() == top.unexaminable.tolist()
    everything = simulate(DATA, SCORES, ReplaceLast(1), [1.0], sessions=500)
    assert len(everything.unexaminable) == 0
    both = ClickCounts.concat([top, everything])
    assert len(both.unexaminable) == 0


def test_a_huge_cutoff_is_none():
    logs = [simulate(DATA, SCORES, Deterministic(k), THETA, sessions=100) for k in (None, 10**20)]
    np.testing.assert_array_equal(logs[0].docs, logs[1].docs)
