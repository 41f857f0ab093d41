"""Affine users linked by features: the likelihood against a reference, recovery, bias where the assumption fails."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterrank import examination
from counterrank.clicks import feature_linked
from counterrank.clicks.counts import SHOWN_ONLY, ClickCounts
from counterrank.clicks.policies import ReplaceLast, UniformInsert
from counterrank.clicks.rank_table import rank_table
from counterrank.clicks.simulation import simulate
from counterrank.clicks.trust_bias import EstimatedAffine
from counterrank.clicks.users import ClickModel
from counterrank.common.errors import CounterrankError, ExaminationWarning
from counterrank.data import RankingData
from tests.reference import feature_linked as naive

CURVE = [1.0, 0.49, 0.30]
REAL = ClickModel(0.69, [0.41, 0.36, 0.36])
TRUTH = examination.Affine(*REAL.affine(CURVE, 3))
DOCS, N_RANKS = 3, 3  # of each query


@st.composite
def tables(draw):
    n_queries = draw(st.integers(2, 4))
    cells = []
    for doc in range(n_queries * DOCS):
        for rank in draw(st.sets(st.integers(1, N_RANKS), max_size=2)):
            shown = draw(st.integers(1, 6))
            cells.append((doc, rank, shown, draw(st.integers(0, shown))))
    cells += [(n_queries * DOCS, rank, 4, 1) for rank in range(1, N_RANKS + 1)]  # each rank is shown
    cells.append((n_queries * DOCS + 1, 1, 2, 1))  # and features vary
    docs, ranks, shown, clicked = np.array(cells, np.int64).T
    offsets = np.append(np.arange(n_queries + 1) * DOCS, n_queries * DOCS + 2)
    counts = ClickCounts(SHOWN_ONLY + "x", offsets, np.full(n_queries + 1, 20), docs, ranks, shown, clicked)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    return counts, RankingData(rng.normal(size=(offsets[-1], 2)), offsets), rng


@settings(max_examples=30)
@given(tables(), st.sampled_from([2, 3]))
def test_likelihood_and_derivatives(made, n_levels):
    counts, data, rng = made
    table = feature_linked.make_table(rank_table(counts, N_RANKS), data)
    layout = feature_linked.Layout(table.features.shape[1], N_RANKS, n_levels)
    z = rng.normal(size=layout.size) * 0.5
    z[layout.ranks] = np.log(rng.uniform(0.05, 0.9, 2 * N_RANKS))
    starts, ranks, shown, clicked = table.cells.cells()
    documents = [list(zip(ranks[a:b], shown[a:b], clicked[a:b], strict=True)) for a, b in pairwise(starts)]

    def value(z):
        curves = layout.clicks(z)
        return naive.log_likelihood(documents, table.features, z[: layout.n_features], *curves, layout.frequencies(z))

    assert feature_linked.log_likelihood(table, layout, z) == pytest.approx(value(z), abs=1e-8)
    none = np.zeros((layout.size, layout.size))
    at = feature_linked.derivatives(table, layout, z, none)
    moves = np.eye(layout.size) * 1e-5
    slopes = [(value(z + move) - value(z - move)) / 2e-5 for move in moves]
    assert at.score == pytest.approx(np.array(slopes), abs=1e-5)
    ends = [[feature_linked.derivatives(table, layout, z + s * move, none).score for s in (1, -1)] for move in moves]
    assert at.information == pytest.approx(np.array([(b - a) / 2e-5 for a, b in ends]), abs=1e-4)
    penalty = layout.penalty()
    assert feature_linked.derivatives(table, layout, z, penalty).value == pytest.approx(at.value - z @ penalty @ z / 2)


def test_parts_of_the_table_add_up(monkeypatch):
    data, scores, _ = world(0, n_queries=12)
    table = feature_linked.make_table(rank_table(log_of(data, scores, ReplaceLast(3), 2_000), 3), data)
    layout = feature_linked.Layout(table.features.shape[1], 3, 3)
    z, penalty = feature_linked.start(table, layout), layout.penalty()
    whole = feature_linked.derivatives(table, layout, z, penalty)
    monkeypatch.setattr(feature_linked, "_TOGETHER", 25)
    parts = feature_linked.derivatives(table, layout, z, penalty)
    for name in ("value", "score", "information", "of_queries", "query_weights"):
        assert getattr(parts, name) == pytest.approx(getattr(whole, name))


@settings(max_examples=50)
@given(st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=9), min_size=2, max_size=4))
def test_overlap(values):
    ranks = np.repeat(np.arange(len(values)), [len(each) for each in values])
    counts = np.ones(len(ranks), np.int64)
    offsets = np.array([0, len(ranks)])
    log = ClickCounts(SHOWN_ONLY + "x", offsets, np.array([9]), np.arange(len(ranks)), ranks + 1, counts, counts)
    index = np.concatenate(values).astype(np.float64)
    found = feature_linked.linked_overlap(index, rank_table(log, len(values)))
    assert found == pytest.approx(naive.overlap([np.array(each, np.float64) for each in values]))


def world(seed, n_queries=150, n=15, noise=1.0, hidden=0.0, slope=1.5, intercept=-1.5):
    """Data whose relevance is logistic in the features, and production scores that know them, and may know more."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n_queries * n, 4)).astype(np.float32)
    offsets = np.arange(0, n_queries * n + 1, n)
    signal = RankingData(features, offsets).normalized().features @ np.array([2.0, 1.5, 1.0, 0.0])
    signal = (signal - signal.mean()) / signal.std()
    more = rng.normal(size=len(signal))
    relevant = rng.random(len(signal)) < 1.0 / (1.0 + np.exp(-intercept - slope * signal - hidden * more))
    scores = signal + noise * rng.normal(size=len(signal)) + (hidden > 0.0) * more
    return RankingData(features, offsets, labels=4.0 * relevant), scores, relevant


def log_of(data, scores, policy, sessions, seed=0):
    return simulate(data, scores, policy, CURVE, sessions=sessions, seed=seed, click_model=REAL, propensities=False)


def fitted(log, data, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExaminationWarning)
        return examination.estimate(log, model="affine", method="features", data=data, **more)


def test_estimates_where_documents_do_not_move(tmp_path):
    data, scores, _ = world(0)
    users = fitted(log_of(data, scores, ReplaceLast(3), 200_000), data)
    assert users.alpha == pytest.approx(TRUTH.alpha, abs=0.05)
    assert users.beta == pytest.approx(TRUTH.beta, abs=0.05)
    for interval, value in ((users.alpha_interval, users.alpha), (users.beta_interval, users.beta)):
        assert (interval[:, 0] <= value + 1e-12).all()
        assert (value <= interval[:, 1] + 1e-12).all()
    assert users.method == "features"
    assert users.test.p_value < 0.01
    users.save(tmp_path / "users.json")
    again = examination.load(tmp_path / "users.json")
    assert isinstance(again, EstimatedAffine)
    assert (again, again.facts()) == (users, users.facts())


def test_position_based_users_are_found_to_be():
    data, scores, _ = world(1)
    log = simulate(data, scores, ReplaceLast(3), CURVE, sessions=60_000, seed=1, propensities=False)
    users = fitted(log, data)
    assert users.alpha == pytest.approx(np.array(CURVE), abs=0.05)
    assert users.test.p_value > 0.01


def test_one_seed_gives_one_result():
    data, scores, _ = world(2, n_queries=40)
    log = log_of(data, scores, ReplaceLast(3), 100_000)
    assert fitted(log, data) == fitted(log, data)


@pytest.mark.statistical
@pytest.mark.representative
def test_biased_where_the_rank_tells_more_than_the_features():
    """The mean over 6 logs is 13 % below the truth where production knows more, at a standard error of 2 %; a fresh
    seed fails in fewer than 1 of 1,000."""
    off = {}
    for hidden in (0.0, 1.5):
        found = []
        for seed in range(6):
            data, scores, _ = world(seed, noise=0.3, hidden=hidden)
            users = fitted(log_of(data, scores, ReplaceLast(3), 20_000, seed), data)
            found.append(users.ratios[2] / (TRUTH.alpha[2] / TRUTH.alpha[0]))
        off[hidden] = np.mean(found)
    assert off[0.0] == pytest.approx(1.0, abs=0.13)
    assert off[1.5] < off[0.0] - 0.13


def test_disagreement_with_documents_that_move_is_reported():
    data, scores, _ = world(3, noise=0.0, hidden=3.0, slope=0.5)
    log = log_of(data, scores, UniformInsert(3), 400_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExaminationWarning)
        reference = examination.estimate(log, model="affine")
    own = np.stack((reference.ratios / 1.02, reference.ratios * 1.02), axis=1)
    assert feature_linked.disagreement(reference.ratios, own, reference) == ""
    assert "'documents'" in feature_linked.disagreement(reference.ratios * [1.0, 1.0, 3.0], own * 3.0, reference)


def test_refused_where_features_do_not_overlap():
    data, scores, _ = world(4, n=60, noise=0.0, slope=8.0, intercept=-10.0)
    with pytest.raises(CounterrankError, match="hardly have like features"):
        fitted(log_of(data, scores, ReplaceLast(3), 3_000), data)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"data": None}, "data: missing"),
        ({"population": "these-queries"}, "population='these-queries'"),
        ({"k": 9}, "k=9"),
    ],
)
def test_wrong_arguments(more, message):
    data, scores, _ = world(5, n_queries=10)
    with pytest.raises(CounterrankError, match=message):
        fitted(log_of(data, scores, ReplaceLast(3), 1_000), **{"data": data, **more})


def test_features_that_do_not_vary():
    data, scores, _ = world(5, n_queries=10)
    flat = RankingData(np.zeros((data.n_docs, 2)), data.offsets, labels=data.labels)
    with pytest.raises(CounterrankError, match="no feature differs"):
        fitted(log_of(flat, scores, ReplaceLast(3), 1_000), flat)
