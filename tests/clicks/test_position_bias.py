"""Kernels of position bias against reference implementations, and their formulas against numerical derivatives."""

from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from counterrank.clicks import position_bias_kernels as kernels
from counterrank.clicks.counts import SHOWN_ONLY, ClickCounts
from counterrank.clicks.position_bias import (
    MOST_STEPS,
    all_pairs,
    bradley_terry,
    check_clicked,
    em,
    regression_em,
)
from counterrank.clicks.rank_table import connected_groups, interventional_set, rank_table
from counterrank.common.errors import CounterrankError
from counterrank.data import RankingData
from tests.reference import position_bias as naive

DOCS = 3  # of each query


def make_counts(cells, n_queries=3, policies=None):
    """Counts without ranking data from cells (query, document, rank, impressions, clicks)."""
    rows = sorted((q * DOCS + d, r, i) for i, (q, d, r, _, _) in enumerate(cells))
    order = [i for _, _, i in rows]
    columns = np.array([cells[i] for i in order], np.int64).reshape(-1, 5).T.copy()
    names = {} if policies is None else {"policies": np.asarray(policies)[order], "policy_names": ("a", "b")}
    return ClickCounts(
        SHOWN_ONLY + "test",
        np.arange(n_queries + 1) * DOCS,
        np.full(n_queries, 10),
        columns[0] * DOCS + columns[1],
        columns[2],
        columns[3],
        columns[4],
        **names,
    )


@st.composite
def logs(draw, most=6, ranks=4):
    """Cells of three queries of three documents; short ones, never clicked ones and gaps among them."""
    places = st.tuples(st.integers(0, 2), st.integers(0, DOCS - 1), st.integers(1, ranks))
    cells = []
    for place in draw(st.lists(places, min_size=2, max_size=20, unique=True)):
        shown = draw(st.integers(1, most))
        cells.append((*place, shown, draw(st.integers(0, shown))))
    return cells


@settings(deadline=None)
@given(logs(), st.integers(1, 5))
def test_what_is_compared(cells, k):
    table = interventional_set(make_counts(cells), k)
    expected = naive.compared(cells, k)
    assert [(doc // DOCS, doc % DOCS) for doc in table.docs.tolist()] == sorted(expected)
    for i, key in enumerate(sorted(expected)):
        inside = slice(table.starts[i], table.starts[i + 1])
        found = zip(table.impressions[inside], table.clicks[inside], strict=True)
        assert dict(zip((table.ranks[inside] + 1).tolist(), found, strict=True)) == expected[key]
    assert table.n_queries == len({query for query, _ in expected})
    assert connected_groups(table) == naive.groups(cells, k)


@settings(deadline=None)
@given(logs())
def test_all_that_was_seen(cells):
    table = rank_table(make_counts(cells), 3)
    assert table.n_docs == len(naive.by_document(cells, 3))
    assert table.clicks.sum() == sum(c for _, _, rank, _, c in cells if rank <= 3)


def test_policies_of_one_cell_are_added_up():
    cells = [(0, 0, 1, 4, 2), (0, 0, 1, 6, 1), (0, 0, 2, 5, 1), (0, 1, 2, 5, 5)]
    table = interventional_set(make_counts(cells, policies=[0, 1, 0, 0]), 2)
    assert table.impressions.tolist() == [10, 5]
    assert table.clicks.tolist() == [3, 1]


@settings(deadline=None)
@given(logs(), st.integers(0, 10**6))
def test_pairs_against_their_reference(cells, seed):
    table, documents = interventional_set(make_counts(cells), 4), naive.compared(cells, 4)
    assume(documents)
    theta = np.random.default_rng(seed).uniform(0.05, 1.5, 4)
    wins = kernels.pair_clicks(*table.cells(), 4)
    np.testing.assert_allclose(wins, naive.pair_clicks(documents, 4), atol=1e-12)
    queries, clicks, said = kernels.pair_scores(table.query_starts, *table.cells(), theta)
    expected = naive.over_queries(documents, lambda own: naive.pair_score(own, 4, theta))
    np.testing.assert_allclose(queries, expected, atol=1e-9)
    np.testing.assert_allclose(clicks, naive.over_clicks(documents, 4, theta), atol=1e-9)
    assert len(said) == table.n_queries
    assert (said >= 0).all()


@settings(max_examples=25, deadline=None)
@given(logs(ranks=3))
def test_the_most_likely_curve_of_pairs(cells):
    """With one document more that was clicked at every rank, so that there is a maximum."""
    cells = [*(cell for cell in cells if cell[:2] != (2, 2)), *((2, 2, rank, 4, rank) for rank in (1, 2, 3))]
    table, documents = interventional_set(make_counts(cells), 3), naive.compared(cells, 3)
    wins = naive.pair_clicks(documents, 3)
    check_clicked(wins)
    fit = all_pairs(table)
    np.testing.assert_allclose(fit.theta, naive.bradley_terry(wins, 2000), rtol=1e-6)
    np.testing.assert_allclose(naive.pair_score(documents, 3, fit.theta), 0.0, atol=1e-8)
    curvature = naive.hessian(partial(naive.pair_likelihood, wins), np.log(fit.theta))
    np.testing.assert_allclose(fit.information, -curvature, atol=1e-4)


def test_two_ranks_by_hand():
    # one document 10 times at rank 1 with 4 clicks, 5 times at rank 2 with 1: at equal exposure 4 / 10 to 1 / 5
    table = interventional_set(make_counts([(0, 0, 1, 10, 4), (0, 0, 2, 5, 1)]), 2)
    fit = all_pairs(table)
    assert fit.theta == pytest.approx([1.0, (1 / 5) / (4 / 10)])
    # the delta method for the logarithm of a ratio: variance of each rate over its square, with n - 1
    spread = (0.4 * 0.6 / 9) / 0.4**2 + (0.2 * 0.8 / 4) / 0.2**2
    reach = 1.959963984540054 * spread**0.5
    found = fit.intervals("these-queries", 0.95)
    assert found[0].tolist() == [1.0, 1.0]
    assert found[1] == pytest.approx([0.5 * np.exp(-reach), 0.5 * np.exp(reach)], rel=1e-3)


def test_ratios_of_consistent_pairs_are_found_exactly():
    theta = np.array([1.0, 0.6, 0.9, 0.2])
    wins = np.outer(theta, np.ones(4)) * np.array([[0, 3, 1, 2], [3, 0, 5, 1], [1, 5, 0, 4], [2, 1, 4, 0]])
    np.testing.assert_allclose(np.exp(bradley_terry(wins)), theta, rtol=1e-12)


@pytest.mark.parametrize("spread", [1e-6, 1e6])
def test_weak_links_do_not_stop_newton(spread):
    wins = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, spread], [0.0, 1.0, 0.0]])
    np.testing.assert_allclose(np.exp(bradley_terry(wins)), [1.0, 0.5, 0.5 / spread], rtol=1e-9)


@settings(deadline=None)
@given(logs(), st.integers(0, 10**6))
def test_an_em_step_against_its_reference(cells, seed):
    table, documents = interventional_set(make_counts(cells), 4), naive.compared(cells, 4)
    assume(documents)
    rng = np.random.default_rng(seed)
    theta, gamma = rng.uniform(0.05, 0.95, 4), rng.uniform(0.05, 0.95, table.n_docs)
    new_gamma = np.empty(table.n_docs)
    new_theta, value = kernels.em_step(*table.cells(), theta, gamma, new_gamma)
    keys = sorted(documents)
    expected = naive.em_step(documents, dict(enumerate(theta, 1)), dict(zip(keys, gamma, strict=True)))
    np.testing.assert_allclose(new_theta, [expected[0][rank] for rank in range(1, 5)], rtol=1e-10)
    np.testing.assert_allclose(new_gamma, [expected[1][key] for key in keys], rtol=1e-10)
    assert value == pytest.approx(expected[2], rel=1e-10)


def connected_world(seed, n=40):
    """Nine documents at four ranks each, with clicks from a position-based model."""
    rng = np.random.default_rng(seed)
    theta = np.array([0.9, 0.5, 0.4, 0.2])
    cells = []
    for query in range(3):
        for doc in range(DOCS):
            gamma = rng.uniform(0.2, 0.8)
            for rank in range(1, 5):
                cells.append((query, doc, rank, n, int(rng.binomial(n, gamma * theta[rank - 1]))))
    return cells


@pytest.mark.parametrize("seed", range(4))
def test_em_ends_where_plain_em_does(seed):
    cells = connected_world(seed)
    documents = naive.compared(cells, 4)
    fit = em(interventional_set(make_counts(cells), 4))
    assert fit.iterations < MOST_STEPS
    theta, gamma = dict.fromkeys(range(1, 5), 0.5), dict.fromkeys(documents, 0.5)
    for _ in range(400):
        theta, gamma, _ = naive.em_step(documents, theta, gamma)
    np.testing.assert_allclose(fit.theta, [theta[rank] / theta[1] for rank in range(1, 5)], rtol=2e-3)


@pytest.mark.parametrize("seed", range(2))
def test_the_information_of_em_is_that_of_the_profile_likelihood(seed):
    """Where no document's gamma is at its bound."""
    cells = connected_world(seed)
    documents = naive.compared(cells, 4)
    fit = em(interventional_set(make_counts(cells), 4))
    beta = np.log(fit.theta)
    likelihood = partial(naive.profile_likelihood, documents)
    np.testing.assert_allclose(naive.gradient(likelihood, beta), 0.0, atol=2e-3)
    expected = -naive.hessian(likelihood, beta, 1e-3)
    np.testing.assert_allclose(fit.information, expected, rtol=2e-3, atol=2e-2)
    np.testing.assert_allclose(fit.information.sum(axis=1), 0.0, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_the_scores_of_em_are_those_of_the_profile_likelihood(seed):
    cells = connected_world(seed)
    documents = naive.compared(cells, 4)
    table = interventional_set(make_counts(cells), 4)
    fit = em(table)
    beta = np.log(fit.theta)

    def score(own):
        return naive.gradient(lambda x: naive.profile_likelihood(own, x), beta)

    np.testing.assert_allclose(fit.over_queries, naive.over_queries(documents, score), rtol=1e-2, atol=0.2)


@pytest.mark.parametrize("seed", range(3))
def test_regression_ends_where_a_general_optimiser_does(seed):
    cells = connected_world(seed)
    features = np.random.default_rng(seed).uniform(size=(9, 2)).astype(np.float32)
    data = RankingData(features, [0, 3, 6, 9])
    fit = regression_em(rank_table(make_counts(cells), 4), data)
    scaled = data.normalized().features.astype(float)
    named = {(query, doc): scaled[query * DOCS + doc] for query in range(3) for doc in range(DOCS)}
    expected = naive.regression_curve(naive.by_document(cells, 4), named, 4)
    np.testing.assert_allclose(fit.theta, expected, rtol=1e-3)


def test_documents_that_are_always_clicked():
    """Their gamma is at its bound, 1; nothing overflows, and the others decide."""
    cells = [(0, 0, 1, 5, 5), (0, 0, 2, 5, 5), *((1, d, r, 30, c) for d in range(3) for r, c in ((1, 12), (2, 6)))]
    fit = em(interventional_set(make_counts(cells), 2))
    assert np.isfinite(fit.information).all()
    assert np.isfinite(fit.intervals("these-queries", 0.95)).all()
    assert 0.4 < fit.theta[1] < 1.0


def test_nothing_but_clicks_leaves_em_without_intervals():
    table = interventional_set(make_counts([(0, 0, 1, 5, 5), (0, 0, 2, 5, 5)]), 2)
    with pytest.raises(CounterrankError, match="too few impressions without a click"):
        em(table).intervals("these-queries", 0.95)
    assert all_pairs(table).theta.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("wins", "message"),
    [
        ([[0, 1], [0, 0]], "too few at rank 2, or at rank 1 on the same documents"),
        ([[0, 0], [1, 0]], "too few at rank 2, or at rank 1 .*expected more sessions$"),
        ([[0, 1, 1], [1, 0, 1], [0, 0, 0]], "too few at rank 3, .*expected more sessions, or k=2"),
        ([[0, 1, 1, 0], [1, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]], "too few at ranks 3, 4"),
    ],
)
def test_ranks_without_comparable_clicks(wins, message):
    with pytest.raises(CounterrankError, match=message):
        check_clicked(np.array(wins, float))


def test_a_chain_of_clicks_is_enough():
    check_clicked(np.array([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0.0]]))
