"""One wrong page among a million clean ones is found, and which pages are looked at closely for that."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank.clicks.logs import LogOptions, passes
from counterrank.clicks.logs.log_reader import opened
from tests.support import log_files
from tests.support.log_files import read_reported

PAGES, LENGTH, QUERIES, CANDIDATES = 1_000_000, 3, 500, 40


def million(moving):
    """The documents of a million clean pages; either few of them are seen at several ranks, or all."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, CANDIDATES, PAGES)
    step = rng.integers(1, CANDIDATES // LENGTH, PAGES)
    if moving:
        return (first[:, None] + step[:, None] * np.arange(LENGTH)) % CANDIDATES
    docs = np.tile(np.arange(LENGTH), (PAGES, 1))
    docs[rng.integers(0, PAGES, 2000), 0] = LENGTH  # a document of its own
    swapped = rng.integers(0, PAGES, 2000)
    docs[swapped] = docs[swapped][:, ::-1]
    return docs


@pytest.mark.parametrize("moving", [False, True], ids=["few documents move", "all documents move"])
def test_one_document_twice_among_a_million_pages(tmp_path, moving):
    docs = million(moving)
    assert (np.diff(np.sort(docs, axis=1)) > 0).all()
    planted = 654_321
    docs[planted, 2] = docs[planted, 0]
    order = np.random.default_rng(1).permutation(PAGES * LENGTH) if moving else np.arange(PAGES * LENGTH)
    table = {
        "session_id": np.repeat(np.arange(PAGES), LENGTH)[order],
        "query_id": np.repeat(np.arange(PAGES) % QUERIES, LENGTH)[order],
        "doc_id": docs.ravel()[order],
        "rank": np.tile(np.arange(1, LENGTH + 1, dtype=np.int8), PAGES)[order],
        "clicked": np.zeros(PAGES * LENGTH, bool),
    }
    pq.write_table(pa.table(table), tmp_path / "log.parquet", row_group_size=500_000)
    place = np.flatnonzero(table["session_id"] == planted)[0]
    with pytest.raises(cr.CounterrankError) as error:
        read_reported(tmp_path / "log.parquet")
    assert str(error.value).endswith(
        f"log.parquet: 1 page shows a document twice (such as session {planted}, row {place}); "
        "on_error='skip' drops the pages with such rows"
    )


@pytest.mark.parametrize("length", [61, 62, 63, 64, 200])
def test_long_pages(tmp_path, length):
    """Longer than the mask of ranks is wide."""
    page = [(1, "q", f"d{i}", i + 1, 0) for i in range(length)]
    rows = log_files.as_rows([*page, *((2, *row[1:]) for row in page)])
    report = read_reported(log_files.write(tmp_path / "clean.csv", rows)).report
    assert (report.used, report.pages, report.faults) == (2 * length, 2, ())
    rows[-1]["doc_id"] = "d0"
    with pytest.raises(cr.CounterrankError, match=r"1 page shows a document twice \(such as session 2, line \d+\); on"):
        read_reported(log_files.write(tmp_path / "twice.csv", rows))
    rows[-1] |= {"doc_id": f"d{length - 1}", "rank": length + 1}
    with pytest.raises(cr.CounterrankError, match=r"1 page has a gap in its ranks \(such as session 2, line \d+\); on"):
        read_reported(log_files.write(tmp_path / "gap.csv", rows))
    rows[-1]["rank"] = length - 1
    with pytest.raises(
        cr.CounterrankError, match=r"1 page shows two documents at one rank \(such as session 2, line \d+\); on"
    ):
        read_reported(log_files.write(tmp_path / "rank.csv", rows))


def test_a_page_over_several_files(tmp_path):
    rows = log_files.as_rows([(1, "q", "a", 1, 0), (1, "q", "b", 2, 1), (2, "q", "b", 1, 0), (2, "q", "a", 2, 0)])
    for i, row in enumerate(rows):
        names = list(row) if i % 2 else list(row)[::-1]
        log_files.write(tmp_path / f"{i}.csv", [row], names)
    report = read_reported(tmp_path).report
    assert (report.rows, report.pages, report.faults) == (4, 2, ())
    log_files.write(tmp_path / "5.csv", rows[:1])
    with pytest.warns(UserWarning, match="dropped 3 of 5 rows, with 1 pages"):
        report = read_reported(tmp_path, options=LogOptions(on_error="skip")).report
    assert [fault.kind for fault in report.faults] == ["show a document twice", "show two documents at one rank"]


def shuffled(path, pages, length, twice=None):
    """Pages of documents in any order; on the page `twice` the first document stands at the end too."""
    rng = np.random.default_rng(length)
    docs = np.argsort(rng.random((pages, 2 * length)), axis=1)[:, :length]
    if twice is not None:
        docs[twice, -1] = docs[twice, 0]
    table = {
        "session_id": np.repeat(np.arange(pages), length),
        "query_id": np.repeat(np.arange(pages) // 50, length),
        "doc_id": (docs + 1000 * (np.arange(pages) // 50)[:, None]).ravel(),
        "rank": np.tile(np.arange(1, length + 1), pages),
        "clicked": np.zeros(pages * length, bool),
    }
    pq.write_table(pa.table(table), path)
    return path


@pytest.mark.parametrize("length", [2, 5, 12, 13, 20, 31, 60])
def test_a_document_twice_on_pages_of_any_length(tmp_path, length):
    assert read_reported(shuffled(tmp_path / "clean.parquet", 3000, length)).report.pages == 3000
    message = r": 1 page shows a document twice \(such as session 2345, row \d+\); on_error"
    with pytest.raises(cr.CounterrankError, match=message):
        read_reported(shuffled(tmp_path / "log.parquet", 3000, length, twice=2345))


@pytest.mark.parametrize(("length", "most"), [(5, 0.002), (10, 0.11), (20, 0.34)])
def test_few_clean_pages_look_suspect(tmp_path, length, most):
    """The share is within four standard errors of what `masks_for` says; the seed is fixed."""
    with opened(shuffled(tmp_path / "log.parquet", 20_000, length), LogOptions()) as (engine, _, columns):
        engine.view("log", columns.normalised())
        engine.reduce("pages", passes.pages(columns, passes.masks_for(length)), "checking pages")
        (suspects,) = engine.local.execute("select sum(suspects) from pages").fetchone()
    assert 0 < (suspects or 0) / 20_000 < most
