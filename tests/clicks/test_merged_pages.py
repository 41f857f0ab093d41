"""Merged sessions of the benchmarks: the counts they came from, as a log too, and evenly spread clicks."""

from __future__ import annotations

import csv
from collections import Counter
from itertools import product

import numpy as np
import pytest
from benchmarks.click_learners import learn_lightgbm, learn_xgboost, page_rows
from benchmarks.merged_pages import MergedPages, merge_sessions
from scipy import stats

from counterrank import make_ranking_data, read_log
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.displays import Displays
from counterrank.clicks.examination import inverse_rank
from counterrank.clicks.policies import ReplaceLast
from counterrank.clicks.simulation import simulate
from counterrank.common.errors import CounterrankError
from counterrank.data import RankingData


@pytest.fixture(scope="module")
def logged():
    data = make_ranking_data("yahoo", n_queries=12, seed=1)
    scores = data.features[:, 0]
    counts = simulate(
        data, scores, ReplaceLast(5), inverse_rank(5), sessions=3000, seed=0, propensities=False, displays=True
    )
    return data, counts, merge_sessions(counts, 0)


def test_the_counts_they_came_from(logged):
    _, counts, merged = logged
    seen: Counter[tuple[int, int]] = Counter()
    clicked: Counter[tuple[int, int]] = Counter()
    sessions = np.repeat(merged.sessions, merged.lengths)
    rows = zip(merged.docs.tolist(), merged.ranks().tolist(), merged.clicked.tolist(), sessions.tolist(), strict=True)
    for doc, rank, click, number in rows:
        seen[doc, rank] += number
        clicked[doc, rank] += number * click
    cells = list(zip(counts.docs.tolist(), counts.ranks.tolist(), strict=True))
    assert sorted(seen) == cells
    assert [seen[cell] for cell in cells] == counts.impressions.tolist()
    assert [clicked[cell] for cell in cells] == counts.clicks.tolist()


def test_as_a_log_they_are_read_as_the_same_counts(logged, tmp_path):
    data, counts, merged = logged
    with open(tmp_path / "log.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["session_id", "query_id", "doc_id", "rank", "clicked"])
        session = 0
        owner = np.searchsorted(data.offsets, merged.docs, side="right") - 1
        for group, number in enumerate(merged.sessions):
            rows = range(merged.offsets[group], merged.offsets[group + 1])
            for _ in range(number):
                for rank, row in enumerate(rows, 1):
                    ids = data.query_ids[owner[row]], data.doc_ids[merged.docs[row]]
                    writer.writerow([session, *ids, rank, int(merged.clicked[row])])
                session += 1
    found = read_log(tmp_path / "log.csv", data, displays=True)
    for name in ("sessions", "docs", "ranks", "impressions", "clicks"):
        assert getattr(found, name).tolist() == getattr(counts, name).tolist()
    assert _by_page(found.displays) == _by_page(counts.displays)


def _by_page(pages: Displays) -> dict[tuple[int, ...], tuple[int, list[int]]]:
    bounds = zip(pages.offsets[:-1], pages.offsets[1:], pages.sessions.tolist(), strict=True)
    return {tuple(pages.docs[a:b].tolist()): (number, pages.clicks[a:b].tolist()) for a, b, number in bounds}


@pytest.mark.statistical
def test_all_ways_of_spreading_clicks_are_equally_likely():
    """Three places with 1, 2 and 1 clicks in 4 sessions, 4000 times over; wrong once in 10^6 times by chance."""
    pages = Displays(np.array([0, 3]), np.array([2, 0, 1]), np.array([4]), np.array([1, 2, 1]))
    cells = np.array([0, 1, 2]), np.array([2, 3, 1]), np.array([4, 4, 4]), np.array([2, 1, 1])
    counts = ClickCounts("", np.array([0, 3]), np.array([4]), *cells, displays=pages)
    ways: Counter[tuple[int, ...]] = Counter()
    for first, second, third in product(range(4), [(a, b) for a in range(4) for b in range(a)], range(4)):
        ways[tuple(sorted((s == first) + 2 * (s in second) + 4 * (s == third) for s in range(4)))] += 1
    found: Counter[tuple[int, ...]] = Counter()
    for seed in range(4000):
        merged = merge_sessions(counts, seed)
        codes = np.add.reduceat(merged.clicked * 2 ** (merged.ranks() - 1), merged.offsets[:-1])
        found[tuple(sorted(np.repeat(codes, merged.sessions).tolist()))] += 1
    assert set(found) == set(ways)
    expected = np.array(list(ways.values())) / sum(ways.values()) * 4000
    assert stats.chisquare([found[way] for way in ways], expected).pvalue > 1e-6


def test_groups_with_pairs_and_copies():
    merged = MergedPages(
        np.array([0, 2, 4, 6, 7]),
        np.array([0, 1, 0, 1, 1, 0, 3]),
        np.array([False, False, True, False, True, True, True]),
        np.array([9, 7, 5, 1]),
    )
    kept = merged.with_pairs()
    assert (kept.docs.tolist(), kept.clicked.tolist(), kept.sessions.tolist()) == ([0, 1], [True, False], [7])
    copied = kept.copied(2)  # round(3.5) = 4
    assert copied.offsets.tolist() == [0, 2, 4, 6, 8]
    assert copied.docs.tolist() == [0, 1] * 4
    assert copied.sessions.tolist() == [7 / 4] * 4


def test_counts_without_pages(logged):
    data, _, _ = logged
    counts = simulate(data, data.features[:, 0], ReplaceLast(5), inverse_rank(5), sessions=10)
    with pytest.raises(CounterrankError, match="no displayed pages kept"):
        merge_sessions(counts, 0)


@pytest.fixture(scope="module")
def coarse():
    """Features of few values, which are binned alike however often they come; and merged pages with pairs."""
    rng = np.random.default_rng(0)
    features = np.round(rng.normal(size=(400, 3)), 1).astype(np.float32)
    data = RankingData(features, np.arange(0, 401, 20), labels=rng.integers(0, 5, 400))
    counts = simulate(data, features[:, 0], ReplaceLast(5), inverse_rank(5), sessions=5000, displays=True)
    return data, counts.n_sessions, merge_sessions(counts, 0).with_pairs()


@pytest.mark.parametrize("params", [{}, {"lambdarank_position_bias_regularization": 0.5}], ids=["plain", "regularised"])
def test_lightgbm_takes_merged_pages_as_their_sessions(coarse, params):
    """But for rounding, where neither rows in a leaf nor in a bin are limited."""
    pytest.importorskip("lightgbm")
    data, n_sessions, merged = coarse
    held_out = page_rows(data, merged, n_sessions)
    found = [
        learn_lightgbm(
            page_rows(data, pages, n_sessions), held_out, 20, 1, min_data_in_leaf=1, min_data_in_bin=1, **params
        ).scores(data.features, 20)
        for pages in (merged, merged.copied(1))
    ]
    assert np.abs(found[0] - found[1]).max() < 1e-5 * np.ptp(found[1])


def test_xgboost_learns_other_positions_from_merged_pages(coarse):
    """Why pages are repeated for it: what it learns of positions does not heed weights."""
    pytest.importorskip("xgboost")
    data, n_sessions, merged = coarse
    held_out = page_rows(data, merged, n_sessions)
    once, apart = (
        learn_xgboost(page_rows(data, pages, n_sessions), held_out, 20, 1).biases["ti+"]
        for pages in (merged, merged.copied(1))
    )
    assert np.abs(np.subtract(once, apart)).max() > 0.02
