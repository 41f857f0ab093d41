"""User models compared on held-out pages: predictions, likelihoods and recommendations."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterrank.clicks.page_sample import PageSample
from counterrank.common.errors import CounterrankError
from counterrank.common.numerics import student_quantile
from counterrank.evaluation.inspection import USER_MODELS, compare_users, inspect_clicks, user_kernels
from counterrank.evaluation.inspection.user_comparison import BASELINES, Clusters, _predictions
from counterrank.evaluation.inspection.user_fits import (
    Places,
    cells_of,
    distinct,
    fit_chains,
    fit_lines,
    groups_of,
    kinds_of_last_click,
)
from counterrank.evaluation.inspection.user_identification import counts_of, identify
from tests.reference import user_comparison as naive
from tests.support.simulated_pages import THETA, click, relevance_of, sample, users

# Pages.


@st.composite
def pages_of_clicks(draw):
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=8))
    return [draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)) for n in lengths]


@settings(max_examples=100, deadline=None)
@given(pages_of_clicks())
def test_last_clicks_are_those_of_the_slow_version(clicks):
    offsets = np.cumsum([0, *map(len, clicks)])
    pages = PageSample.of(
        range(len(clicks)), [0] * len(clicks), offsets, np.arange(offsets[-1]), np.concatenate(clicks)
    )
    assert pages.last_clicks().tolist() == naive.last_clicks(clicks)


def test_pages_stand_by_query_and_the_split_depends_on_the_session_alone():
    sessions, queries = np.arange(1000), np.arange(1000) % 7
    docs = (queries[:, None] * 3 + np.arange(3)).ravel()
    clicked = np.random.default_rng(0).random(3000) < 0.3
    pages = PageSample.of(sessions, queries, np.arange(0, 3001, 3), docs, clicked)
    assert (np.diff(pages.queries) >= 0).all()
    assert 400 < pages.held_out.sum() < 600
    back = np.arange(999, -1, -1)
    rows = (back[:, None] * 3 + np.arange(3)).ravel()
    again = PageSample.of(sessions[back], queries[back], np.arange(0, 3001, 3), docs[rows], clicked[rows])
    assert again.held_out.sum() == pages.held_out.sum()
    own, other = pages.part(True), again.part(True)
    assert np.bincount(own.docs[own.clicked]).tolist() == np.bincount(other.docs[other.clicked]).tolist()
    assert own.n_pages + pages.part(False).n_pages == 1000


# Fits and predictions, against the slow and obvious.


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_posteriors_are_those_of_the_slow_version(data):
    n_kinds, n_groups = 3, 2
    documents = [
        data.draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), max_size=3, unique_by=lambda cell: cell[0]))
        for _ in range(4)
    ]
    cells = [[(kind, n, data.draw(st.integers(0, n))) for kind, n in each] for each in documents]
    groups = np.array([data.draw(st.integers(0, n_groups - 1)) for _ in documents])
    flat = [cell for each in cells for cell in each]
    columns = [np.array([cell[i] for cell in flat], dtype) for i, dtype in enumerate((np.int64, float, float))]
    starts = np.cumsum([0, *map(len, cells)])
    table = user_kernels.Cells(starts, *columns, groups, np.ones(len(cells)))
    grid = np.array([0.1, 0.4, 0.9])
    low, high = np.array([0.0, 0.05, 0.2]), np.array([1.0 - 1e-6, 0.5, 0.2])
    prior = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    p = low[:, None] + (high - low)[:, None] * grid
    wanted = [naive.posterior(each, low, high, prior[group], grid) for each, group in zip(cells, groups, strict=True)]
    means = np.empty(len(cells))
    tables = np.log(p), np.log1p(-p), np.log(prior)
    user_kernels.posterior_means(table, *tables, grid, means)
    assert means == pytest.approx([np.dot(weights, grid) for weights, _ in wanted])
    expected = user_kernels.Expected(np.zeros((n_kinds, 3)), np.zeros((n_kinds, 3)), np.zeros((n_groups, 3)))
    again = np.empty(len(cells))
    value = user_kernels.expected_counts(table, *tables, grid, expected, again)
    assert again == pytest.approx(means)
    assert value == pytest.approx(sum(math.log(total) for _, total in wanted))
    slow = np.zeros((2, n_kinds, 3))
    for each, (weights, _) in zip(cells, wanted, strict=True):
        for kind, n, c in each:
            slow[:, kind] += np.outer([n, c], weights)
    assert expected.shown == pytest.approx(slow[0])
    assert expected.clicked == pytest.approx(slow[1])
    # equal documents, taken together, say the same
    once, number = distinct(table)
    assert len(once.groups) <= len(cells)
    same, few = user_kernels.Expected(*map(np.zeros_like, expected)), np.empty(len(once.groups))
    assert user_kernels.expected_counts(once, *tables, grid, same, few) == pytest.approx(value)
    for mine, other in zip(same, expected, strict=True):
        assert mine == pytest.approx(other)
    assert few[number] == pytest.approx(means)


@settings(max_examples=100, deadline=None)
@given(pages_of_clicks(), st.integers(0, 10**6))
def test_dependent_clicks_are_those_of_all_that_may_have_happened(clicks, seed):
    rng = np.random.default_rng(seed)
    offsets = np.cumsum([0, *map(len, clicks)])
    docs = np.arange(offsets[-1])
    relevance, going_on = rng.uniform(0.05, 0.95, len(docs)), rng.uniform(0.0, 1.0, 5)
    table = user_kernels.Pages(offsets, docs, np.concatenate(clicks).astype(np.bool_))
    seen, stayed, predicted = np.empty(len(docs)), np.zeros((5, 2)), np.empty(len(docs))
    user_kernels.chains(table, relevance, going_on, seen, stayed)
    user_kernels.predict_chains(table, relevance, going_on, predicted)
    slow, chances = [], []
    for page, clicked in enumerate(clicks):
        own = relevance[offsets[page] : offsets[page + 1]]
        slow += naive.examined(clicked, own, going_on)
        chances += [naive.chance(clicked, j, own, going_on) for j in range(len(clicked))]
    assert seen == pytest.approx(slow)
    assert predicted == pytest.approx(chances)
    assert stayed[:, 1].sum() == sum(sum(clicked[:-1]) for clicked in clicks)


def test_models_find_the_users():
    """Of many pages; the wrong model is not right by chance."""
    pages = sample("position-based", n_pages=20_000, seed=3)
    places = Places.of(pages, 5)
    groups = groups_of(places)
    ranks, (by_last, _) = np.arange(5), kinds_of_last_click(5)
    found = fit_lines(cells_of(places, places.by_rank(), 5, groups), ranks)
    assert found.high / found.high[0] == pytest.approx(THETA[:5], rel=0.05)
    assert not found.low.any()
    browsing = fit_lines(cells_of(places, places.by_last_click(), len(by_last), groups), by_last)
    assert browsing.high / browsing.high[0] == pytest.approx(THETA[by_last], rel=0.12)
    dependent = fit_chains(Places.of(sample("dependent", n_pages=20_000, seed=3), 5), groups)
    assert dependent.going_on[:4] == pytest.approx(users("dependent", 5)["lambda"][:4], abs=0.05)


def test_likelihood_rises_with_each_model_that_contains_another():
    pages = sample("affine", n_pages=3000, seed=1)
    places = Places.of(pages, 5)
    cells = cells_of(places, places.by_rank(), 5, groups_of(places))
    narrow, wide = (fit_lines(cells, np.arange(5), affine=affine) for affine in (False, True))
    assert wide.log_likelihood > narrow.log_likelihood - 1e-6
    assert (wide.low <= wide.high).all()


# The comparison.


def test_likelihoods_and_intervals_are_those_of_the_slow_version():
    pages = sample("browsing", n_pages=1500, n_queries=25, n_docs=6, k=3, seed=5)
    found = compare_users(pages)
    assert found.interval_over == "queries"
    fitting, held = (Places.of(pages.part(side), 3) for side in (False, True))
    predictions = _predictions(fitting, held, groups_of(Places.of(pages, 3)))
    clicked = held.pages.clicked
    queries = held.pages.queries[held.pages.pages()]
    for name in (*BASELINES, *USER_MODELS):
        row = found.row(name)
        mean, by_rank, difference, variance = naive.compared(
            predictions[name], predictions["position-based"], clicked, held.ranks, queries.tolist()
        )
        assert row.log_likelihood == pytest.approx(mean)
        assert row.perplexity == pytest.approx(math.exp(-mean))
        assert row.perplexity_by_rank == pytest.approx(by_rank)
        assert row.difference == pytest.approx(difference)
        half = student_quantile(0.95, 24) * math.sqrt(variance)
        assert row.difference_high - row.difference == pytest.approx(half)
    assert found.impressions == len(clicked)
    assert sum(cell.impressions for cell in found.last_clicks) == len(clicked)
    for cell in found.last_clicks:
        own = (held.ranks == cell.rank - 1) & (held.last == cell.last_click)
        assert cell.impressions == own.sum()
        assert cell.click_rate == pytest.approx(clicked[own].mean())
        assert cell.predicted["browsing"] == pytest.approx(predictions["browsing"][own].mean())
        assert cell.low <= cell.click_rate <= cell.high


def test_few_queries_have_intervals_over_sessions():
    found = compare_users(sample("position-based", n_pages=3000, n_queries=5, seed=0))
    assert found.interval_over == "sessions"
    assert "over sessions, as there are few queries" in found.about


def test_clusters_of_one_impression_are_a_plain_mean():
    values = np.array([1.0, 2.0, 3.0, 6.0])
    mean = Clusters(np.arange(4), 4, "sessions", 0.95).mean(values)
    assert mean.value == 3.0
    assert mean.high - mean.value == pytest.approx(student_quantile(0.95, 3) * values.std(ddof=1) / 2.0)


@pytest.mark.parametrize("kind", ["position-based", "browsing", "dependent"])
def test_the_model_of_the_users_is_recommended(kind):
    found = compare_users(sample(kind, n_pages=4000, seed=0))
    assert found.recommended == kind
    assert found.row(kind).identified
    assert any("What to do" in text for text in found.sentences)
    json.dumps(found.to_json(), allow_nan=False)


def test_users_are_not_identified_where_documents_do_not_move():
    """Pages in one order: what clicks depend on is still seen, examination curves are not."""
    rng = np.random.default_rng(0)
    relevance, queries = relevance_of(30, 5, rng), np.sort(rng.integers(0, 30, 6000))
    docs = queries[:, None] * 5 + np.arange(5)
    clicked = click(docs, relevance, users("browsing", 5), rng)
    pages = PageSample.of(range(6000), queries, np.arange(6001) * 5, docs.ravel(), clicked.ravel())
    found = compare_users(pages)
    assert found.recommended is None
    assert "user browsing model fits how users click" in found.sentences[0]
    assert not found.row("position-based").identified
    assert "separate position bias from relevance" in str(found.row("browsing").reason)
    assert any("let documents move between ranks" in text for text in found.sentences)
    assert sum(text.startswith("Not identified") for text in found.sentences) == 1


def test_clicks_at_random_support_nothing():
    rng = np.random.default_rng(0)
    docs = rng.permuted(np.tile(np.arange(6), (4000, 1)), axis=1)[:, :3]
    clicked = rng.random((4000, 3)) < [0.3, 0.2, 0.1]
    found = compare_users(PageSample.of(range(4000), [0] * 4000, np.arange(4001) * 3, docs.ravel(), clicked.ravel()))
    assert found.recommended is None
    assert found.sentences[0].startswith("Click rates by rank predict held-out clicks as well")


@pytest.mark.parametrize(
    ("pages", "words"),
    [
        (sample("affine", n_pages=20, seed=0), "Too few clicks to compare user models"),
        (PageSample.of([], [], [0], [], []), "Too few clicks to compare user models: 0 on 0 pages"),
        (PageSample.of(range(500), [0] * 500, range(501), [0] * 500, [1] * 500), "Each page holds one document"),
    ],
)
def test_logs_without_enough_get_a_sentence(pages, words):
    found = compare_users(pages)
    assert (found.recommended, found.models) == (None, [])
    assert words in found.sentences[0]
    json.dumps(found.to_json(), allow_nan=False)


def test_pages_of_different_lengths_and_clicks_everywhere():
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 6, 600)
    docs = np.concatenate([rng.permutation(8)[:n] for n in lengths])
    clicked = np.ones(len(docs), np.bool_)
    pages = PageSample.of(range(600), [0] * 600, np.cumsum([0, *lengths]), docs, clicked)
    found = compare_users(pages)
    assert all(math.isfinite(row.log_likelihood) for row in found.models)
    json.dumps(found.to_json(), allow_nan=False)


def test_counts_of_pages_are_their_sums():
    pages = sample("position-based", n_pages=2000, n_queries=20, seed=0)
    counts = counts_of(Places.of(pages, 5))
    assert counts.n_sessions == 2000
    assert counts.n_impressions == len(pages.docs)
    assert counts.n_clicks == pages.clicked.sum()
    assert not identify(Places.of(pages, 5)).refused
    found = inspect_clicks(counts, pages=pages)
    assert found.users == compare_users(pages)
    assert inspect_clicks(counts).users is None
    with pytest.raises(CounterrankError, match="pages"):
        inspect_clicks(counts, pages=[1])


@pytest.mark.statistical
@pytest.mark.parametrize(("kind", "n_pages"), [("position-based", 10_000), ("browsing", 2000), ("dependent", 2000)])
def test_the_right_model_is_recommended_again_and_again(kind, n_pages):
    """Four logs each. With fresh seeds browsing and dependent users were recognised in 54 of 54 logs of 2,000 pages or
    more each (benchmarks/user_models.py), so a fresh seed fails in less than 20 % of the cases; position-based users
    are taken for affine ones where the test at 1 % rejects and predictions agree by chance, in less than 5 % of logs.
    """
    found = [compare_users(sample(kind, n_pages=n_pages, seed=seed)).recommended for seed in range(300, 304)]
    assert found == [kind] * 4


@pytest.mark.statistical
def test_trust_bias_is_recognised():
    """In 12 of 12 logs of this size by predictions alone; a fresh seed fails in less than 22 % of the cases."""
    found = compare_users(sample("affine", n_pages=50_000, seed=301))
    assert found.recommended == "affine"
    assert found.trust_p_value < 1e-4
