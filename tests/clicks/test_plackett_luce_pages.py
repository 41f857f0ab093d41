"""Drawn Plackett-Luce pages against all pages written out: alias tables, rejections, and what falls back on the tree.

Seeds are fixed. Each p-value must be above 1e-8 and each deviation below 6 standard errors; with the number of
comparisons in a test its false alarms stay below one in a million.
"""

import itertools
from collections import Counter

import numpy as np
import pytest

import counterrank as cr
from counterrank.clicks import simulation, users
from counterrank.clicks.examination import Examination, inverse_rank
from counterrank.clicks.policies import Deterministic, Mixture, PlackettLuce, UniformInsert, estimate_propensity
from counterrank.clicks.policies import page_kernels as kernels
from counterrank.clicks.policies.pages import PageSource
from counterrank.clicks.simulation import ClickModel, simulate
from counterrank.clicks.users import SessionSimulator
from counterrank.common.jit import exact_kernel
from counterrank.common.progress import watched
from counterrank.common.random import start_stream
from tests.reference.plackett_luce import chances, law_of_alias_table
from tests.reference.policies import pages_of
from tests.reference.simulation import World, fits

RARE, FAR = 1e-8, 6.0
ROUNDING = 2.0**-53

# queries of at least twice the length of a page, for which there are alias tables
QUERIES = {
    "even": [0.0] * 6,
    "ties": [1.0, 2.0, 1.0, 2.0, 0.0, 2.0],
    "mild": [0.3, -1.0, 2.0, 0.5, 1.5, 0.1],
    "five of eight columns": [0.3, -1.0, 2.0, 0.5, 1.5],
    "one above": [0.0, 12.0, 0.5, -0.5, 0.0, 1.0],
    "30 below": [30.0, 29.5, 0.0, 0.7, 0.0, -0.4],
    "one far below": [0.0, 0.0, 1.0, -40.0, 0.5, 0.5],
    "1000 below": [1000.0, 1000.0, 0.0, 0.7, 0.0, -0.4],
    "underflow twice": [2e6, 1e6, 0.0, 0.7, 0.0, -0.4],
    "huge": [1e308, -1e308, -1e308, 0.0, 0.0, -1e308],
}
FALLS_BACK = ("30 below", "1000 below", "underflow twice", "huge")


@exact_kernel
def table_of(logits, temperature):
    drawer = kernels.new_drawer(len(logits))
    kernels.load(logits, temperature, np.int64(1), drawer)
    return drawer.thresholds, drawer.aliases, drawer.shift[0]


@exact_kernel
def draw_pages(logits, temperature, length, n_pages, seed):
    """Pages of one query, and how many of the places of each came from the alias table."""
    drawer = kernels.new_drawer(len(logits))
    kernels.load(logits, temperature, length, drawer)
    state, pages = np.empty(1, np.uint64), np.empty((n_pages, length), np.int64)
    by_alias = np.empty(n_pages, np.int64)
    start_stream(state, seed, 0)
    for i in range(n_pages):
        by_alias[i] = kernels.draw_by_alias(drawer, state, pages[i])
        if by_alias[i] < length:
            kernels.draw_by_tree(logits, temperature, by_alias[i], drawer, state, pages[i])
    return pages, by_alias


def counted(pages):
    return Counter(map(tuple, pages.tolist()))


def data_of(lengths, seed=0):
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    labels = np.random.default_rng(seed).integers(0, 5, offsets[-1])
    return cr.RankingData(np.zeros((offsets[-1], 1)), offsets, labels=labels)


# --- alias tables


@pytest.mark.parametrize("temperature", [0.3, 1.0, 50.0])
@pytest.mark.parametrize("scores", QUERIES.values(), ids=QUERIES)
def test_the_law_of_an_alias_table_is_the_softmax(scores, temperature):
    thresholds, aliases, shift = table_of(np.array(scores), temperature)
    law = law_of_alias_table(thresholds.tolist(), aliases.tolist(), int(shift))
    assert sum(law) == 1
    assert all(own == 0 for own in law[len(scores) :])  # columns beyond the documents
    expected = chances([(score - max(scores)) / temperature for score in scores])
    for own, chance in zip(law, expected, strict=False):
        assert abs(float(own) - chance) < 8 * ROUNDING


@pytest.mark.parametrize("n", [2, 3, 4, 5, 63, 64, 65, 1000, 5000])
@pytest.mark.parametrize("spread", [0.0, 1.0, 10.0])
def test_alias_tables_of_any_size(n, spread):
    logits = np.random.default_rng(n).normal(size=n) * spread
    thresholds, aliases, shift = table_of(logits, 1.0)
    law = np.array([float(own) for own in law_of_alias_table(thresholds.tolist(), aliases.tolist(), int(shift))])
    assert (law[n:] == 0.0).all()
    assert np.abs(law[:n] - chances(logits.tolist())).max() < (8 + n / 16) * ROUNDING  # of sums of n numbers


# --- pages


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("name", QUERIES)
def test_pages_have_their_probabilities(name, length):
    scores = QUERIES[name]
    pages, by_alias = draw_pages(np.array(scores), 1.0, length, 100_000, np.uint64(length))
    assert fits(counted(pages), pages_of(PlackettLuce(length), scores)) > RARE
    if 2 * length > len(scores):
        assert (by_alias == 0).all()
    elif length == 1 or name in ("even", "ties", "mild", "five of eight columns"):
        assert (by_alias == length).mean() > 0.95
    elif name in FALLS_BACK and (length == 3 or name in ("underflow twice", "huge")):
        assert ((by_alias > 0) & (by_alias < length)).mean() > 0.99
    else:
        assert (by_alias > 0).all()


def test_rejections_that_end_now_and_then_leave_the_law():
    """With 5 % left after the first document, rejections run out on some pages and not on others: both are there."""
    scores = np.array([np.log(57.0), 0.0, 0.5, np.log(0.5), -0.2, 0.1])
    pages, by_alias = draw_pages(scores, 1.0, 3, 300_000, np.uint64(1))
    complete = by_alias == 3
    assert 0.05 < complete.mean() < 0.95
    assert set(np.unique(by_alias)) == {1, 2, 3}
    assert fits(counted(pages), pages_of(PlackettLuce(3), scores)) > RARE


def test_the_test_of_pages_can_fail():
    """Three per cent more temperature are noticed."""
    scores = QUERIES["mild"]
    pages, _ = draw_pages(np.array(scores), 1.0, 3, 100_000, np.uint64(3))
    warmer = pages_of(PlackettLuce(3, 1.03), scores)
    assert fits(counted(pages), warmer) < RARE


@pytest.mark.parametrize("name", QUERIES)
def test_samples_of_the_policy_have_their_probabilities(name):
    n_queries, scores = 20_000, QUERIES[name]
    n = len(scores)
    for k in (2, 3):
        docs, bounds = PlackettLuce(k).sample(np.tile(scores, n_queries), np.arange(0, n * n_queries + 1, n), seed=3)
        assert (np.diff(bounds) == k).all()
        pages = docs.reshape(n_queries, k) - n * np.arange(n_queries)[:, None]
        assert fits(counted(pages), pages_of(PlackettLuce(k), scores)) > RARE


@pytest.mark.parametrize("displays", [False, True])
@pytest.mark.parametrize("name", QUERIES)
def test_simulated_counts_have_their_probabilities(name, displays):
    """Impressions by rank, and with displays whole pages; clicks are binomial given these, as test_simulation shows."""
    n, k = len(QUERIES[name]), 3
    data, theta = data_of([n]), [0.9, 0.6, 0.4]
    log = simulate(data, QUERIES[name], PlackettLuce(k), theta, sessions=100_000, seed=7, displays=displays)
    pages = pages_of(PlackettLuce(k), QUERIES[name])
    for rank in range(1, k + 1):
        own = log.ranks == rank
        shown = Counter()
        for page, probability in pages.items():
            shown[page[rank - 1]] += probability
        assert fits(dict(zip(log.docs[own].tolist(), log.impressions[own].tolist(), strict=True)), shown) > RARE
    if displays:
        rows = log.displays.docs.reshape(-1, k)
        assert len(np.unique(rows, axis=0)) == len(rows)
        assert fits(dict(zip(map(tuple, rows.tolist()), log.displays.sessions.tolist(), strict=True)), pages) > RARE


@pytest.mark.parametrize("spread", [1.0, 6.0])
@pytest.mark.parametrize("k", [5, 20, 30, None])
def test_long_queries_have_the_propensities_of_the_policy(k, spread):
    """Clicks of documents that are clicked whenever they are examined, and sampled pages, by the normal law."""
    n, sessions = 40, 40_000
    scores, exam = np.random.default_rng(1).normal(size=n) * spread, inverse_rank(40)
    rho = PlackettLuce(k).propensity(scores, [0, n], exam)
    log = simulate(data_of([n]), scores, PlackettLuce(k), exam, sessions=sessions, seed=1, click_model=ClickModel(1, 1))
    clicked = log.by_document(log.clicks)
    spread_of_clicks = np.sqrt(sessions * rho * (1.0 - rho))
    assert (np.abs(clicked - sessions * rho) <= FAR * spread_of_clicks + 20.0).all()
    estimate = estimate_propensity(PlackettLuce(k), scores, [0, n], exam, samples=4000, seed=1)
    off = np.abs(estimate.propensities - rho)
    assert (off <= FAR * np.sqrt(rho * (1.0 - rho) / 4000) + 20.0 / 4000).all()


def test_short_queries_are_shown_whole():
    lengths = [1, 2, 5, 9, 10, 40]
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    docs, bounds = PlackettLuce(5).sample(np.zeros(offsets[-1]), offsets, seed=1)
    assert np.diff(bounds).tolist() == [1, 2, 5, 5, 5, 5]
    for (a, b), begin, length in zip(itertools.pairwise(bounds), offsets, lengths, strict=False):
        assert len(set(docs[a:b])) == min(length, 5)
        assert ((docs[a:b] >= begin) & (docs[a:b] < begin + length)).all()


# --- one seed, one result


def as_tuple(log):
    pages = log.displays
    more = () if pages is None else (pages.offsets, pages.docs, pages.sessions, pages.clicks)
    arrays = (log.sessions, log.docs, log.ranks, log.impressions, log.clicks, *more)
    return tuple(array.tobytes() for array in arrays)


@pytest.mark.parametrize("displays", [False, True])
@pytest.mark.parametrize("amount", [{"sessions": 20_000}, {"clicks": 200_000}], ids=str)
def test_threads_and_ranges_of_queries_make_no_difference(amount, displays, monkeypatch):
    lengths = np.random.default_rng(0).integers(1, 30, 400)
    data = data_of(lengths)
    scores = np.random.default_rng(1).normal(size=data.n_docs) * np.repeat(np.tile([1.0, 20.0], 200), lengths)
    policy = Mixture([PlackettLuce(4), PlackettLuce(2, 3.0), UniformInsert(3)], [0.5, 0.3, 0.2])

    def made(threads):
        return as_tuple(
            simulate(data, scores, policy, [0.9, 0.5, 0.3], seed=5, threads=threads, displays=displays, **amount)
        )

    first = made(1)
    assert made(2) == first
    assert made(3) == first
    monkeypatch.setattr(users, "_SOME_DRAWS", 500)
    assert made(1) == first
    assert made(3) == first


def test_a_session_shows_one_page_whether_drawn_alone_or_with_others():
    rng = np.random.default_rng(2)
    offsets = np.concatenate(([0], np.cumsum(rng.integers(1, 30, 50))))
    scores = rng.normal(size=offsets[-1]) * 8.0
    source = PageSource.make(Mixture([PlackettLuce(4), PlackettLuce(3, 0.1)], [0.5, 0.5]), scores, offsets)
    queries, key = rng.integers(0, 50, 3000), np.uint64(8)
    bounds, docs = source.draw(queries, key, 100)
    for begin, end in ((0, 1), (1, 7), (7, 1500), (1500, 3000)):
        part_bounds, part = source.draw(queries[begin:end], key, 100 + begin)
        assert (part_bounds == bounds[begin : end + 1] - bounds[begin]).all()
        assert (part == docs[bounds[begin] : bounds[end]]).all()


# --- how many sessions a number of clicks takes


@pytest.mark.parametrize(
    ("relevant", "other"), [(0.8, 0.25), (0.2, 0.7), ([0.9, 0.2], [0.1, 0.4, 0.3])], ids=["usual", "reverse", "both"]
)
@pytest.mark.parametrize(
    "policy",
    [
        PlackettLuce(3),
        PlackettLuce(1, 0.3),
        PlackettLuce(),
        Mixture([PlackettLuce(2), Deterministic(3), PlackettLuce(3, 4.0)], [0.5, 0.2, 0.3]),
    ],
    ids=repr,
)
def test_expected_clicks_of_a_session(policy, relevant, other):
    lengths, theta = [1, 2, 4, 6], [0.9, 0.0, 0.6, 0.35]
    scores = np.random.default_rng(3).normal(size=13)
    data = data_of(lengths)
    model = ClickModel(relevant, other)
    given = [relevant if label >= 3 else other for label in data.labels]
    attraction = [each if isinstance(each, list) else [each] for each in given]
    world = World(lengths, scores.tolist(), policy, theta, attraction, frequencies=[1.0, 2.0, 3.0, 4.0])
    simulator = SessionSimulator.make(data, scores, policy, theta, 3, model, world.frequencies, None)
    exact = world.clicks_of_a_session()
    numbers = np.arange(len(exact))
    mean, square = simulator.clicks_of_a_session(10**6)
    assert mean == pytest.approx(exact @ numbers, rel=1e-7)
    assert square >= exact @ numbers**2 * (1.0 - 1e-9)
    assert simulator.clicks_of_a_session(100) is None  # so few that they are sooner drawn


@pytest.mark.parametrize("clicks", [150, 400, 3_000])
def test_blocks_of_known_and_of_tried_means(clicks, monkeypatch):
    """Both ways of choosing blocks end with the session of the wanted click, after the same sessions on average."""
    monkeypatch.setattr(simulation, "_FEW", 4)
    monkeypatch.setattr(simulation, "_PILOT", 20)
    data = data_of([8])
    scores, theta, policy = QUERIES["mild"] + [0.0, 0.4], [0.9, 0.6], PlackettLuce(2)
    means = []
    for worth in (0, 10**9):
        monkeypatch.setattr(users, "_WORTH_INTEGRALS", worth)
        logs = [
            simulate(data, scores, policy, theta, clicks=clicks, seed=seed, propensities=False) for seed in range(80)
        ]
        assert all(clicks <= log.n_clicks < clicks + 2 for log in logs)
        rates = np.array([log.n_clicks / log.n_sessions for log in logs])
        means.append((rates.mean(), rates.var() / len(rates)))
    (first, error), (second, other_error) = means
    assert abs(first - second) < FAR * np.sqrt(error + other_error)


@pytest.mark.parametrize(("amount", "total"), [({"sessions": 5_000}, 5_000), ({"clicks": 4_000}, 4_000)])
def test_progress_is_reported_as_ranges_of_queries_are_done(amount, total, monkeypatch):
    monkeypatch.setattr(users, "_SOME_DRAWS", 1000)
    monkeypatch.setattr(simulation, "_FEW", 100)
    seen = []
    with watched(lambda done, of: seen.append((done, of))):
        simulate(data_of([20] * 50), np.zeros(1000), PlackettLuce(3), Examination([0.9, 0.5]), **amount, threads=2)
    assert len(seen) > 8
    done = [each for each, _ in seen]
    assert done == sorted(done)
    assert 0.9 * total < done[-1] <= total
    assert all(of == total for _, of in seen)
