"""A sample of the pages of a log: the same on each engine, in any order of rows; and what is left out."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank.clicks.logs import read_log, read_pages
from counterrank.common.errors import CounterrankError, LogWarning
from tests.support.spark_cluster import needs_spark


def make_rows(n_queries=30, n_pages=3000, k=3, texts=False, seed=0):
    rng = np.random.default_rng(seed)
    rows = []
    for session in range(n_pages):
        query = int(rng.integers(0, n_queries) * rng.random() ** 2)  # some have many sessions
        for rank, doc in enumerate(rng.permutation(5)[:k], 1):
            name = f"s{session}" if texts else session
            rows.append((name, f"q{query}" if texts else query, int(doc), rank, bool(rng.random() < 0.4)))
    return rows


def write(path, rows):
    names = ("session_id", "query_id", "doc_id", "rank", "clicked")
    pq.write_table(pa.table({name: [row[i] for row in rows] for i, name in enumerate(names)}), path)
    return path


def texts_of(pages, counts):
    """Each page as text, with the part it is in."""
    ids = counts.doc_ids
    lines = []
    for i in range(pages.n_pages):
        own = slice(pages.offsets[i], pages.offsets[i + 1])
        lines.append((bool(pages.held_out[i]), pages.docs[own].tolist(), pages.clicked[own].tolist()))
    return sorted(lines), len(ids)


@pytest.mark.parametrize("texts", [False, True])
def test_all_pages_of_a_small_log(tmp_path, texts):
    rows = make_rows(texts=texts)
    log = write(tmp_path / "log.parquet", rows)
    counts = read_log(log)
    pages = read_pages(log, counts)
    assert (pages.n_pages, pages.log_pages) == (3000, 3000)
    assert pages.n_queries == pages.log_queries
    clicked = np.bincount(pages.docs, pages.clicked, pages.n_docs)
    shown = counts.by_document(counts.impressions) > 0
    assert clicked.tolist() == counts.by_document(counts.clicks)[shown].tolist()
    assert np.bincount(pages.ranks(), pages.clicked)[1:].tolist() == counts.by_rank(counts.clicks).tolist()


@pytest.mark.parametrize("texts", [False, True])
def test_a_sample_has_whole_queries_and_does_not_depend_on_the_order_of_rows(tmp_path, texts):
    rows = make_rows(n_queries=100, texts=texts)
    log = write(tmp_path / "log.parquet", rows)
    again = write(tmp_path / "again.parquet", [rows[i] for i in np.random.default_rng(1).permutation(len(rows))])
    counts = read_log(log)
    pages, other = read_pages(log, counts, rows=3000), read_pages(again, read_log(again), rows=3000)
    assert 600 < pages.n_pages < 1600
    assert 20 <= pages.n_queries < pages.log_queries
    assert texts_of(pages, counts) == texts_of(other, counts)
    most = np.bincount(pages.queries).max()
    assert most < 3000 / 20 * 1.6  # of a query with more a part of the sessions is taken, by hash


def test_pages_of_a_part_of_the_data(tmp_path):
    log = write(tmp_path / "log.parquet", make_rows())
    data = cr.RankingData(np.zeros((50, 1)), np.arange(0, 51, 5), query_ids=range(10), doc_ids=list(range(5)) * 10)
    with pytest.warns(LogWarning):
        counts = read_log(log, data)
    pages = read_pages(log, counts)
    assert pages.n_pages == counts.n_sessions < 3000
    assert pages.clicked.sum() == counts.n_clicks


def test_pages_with_faults_or_unknown_documents_are_left_out(tmp_path):
    good = [(1, 1, 1, 1, True), (1, 1, 2, 2, False)]
    gap = [(2, 1, 1, 1, True), (2, 1, 2, 3, False)]
    unclear = [(3, 1, 1, 1, None), (3, 1, 2, 2, False)]
    unknown = [(4, 1, 1, 1, True), (4, 1, 9, 2, False)]
    log = write(tmp_path / "log.parquet", good + gap + unclear + unknown)
    data = cr.RankingData(np.zeros((2, 1)), [0, 2], query_ids=[1], doc_ids=[1, 2])
    with pytest.warns(LogWarning):
        counts = read_log(log, data, on_error="skip")
    pages = read_pages(log, counts, on_error="skip")
    assert pages.docs.tolist() == [0, 1]
    assert pages.clicked.tolist() == [True, False]


def test_rows_that_are_pages_have_no_pages(tmp_path):
    log = write(tmp_path / "log.parquet", make_rows(k=1))
    with pytest.raises(CounterrankError, match="a page of its own"):
        read_pages(log, read_log(log, impressions=True), impressions=True)


@needs_spark
@pytest.mark.parametrize("texts", [False, True])
def test_spark_takes_the_same_sample(tmp_path, texts):
    log = write(tmp_path / "log.parquet", make_rows(n_queries=100, texts=texts))
    counts = read_log(log)
    here = read_pages(log, counts, rows=3000)
    there = read_pages(log, counts, rows=3000, engine="spark", master="local[1]")
    assert texts_of(here, counts) == texts_of(there, counts)
