"""Click logs counted with DuckDB."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank import examination, policies, simulation
from counterrank.clicks import read_log
from counterrank.data.ids import find_rows

DATA = cr.RankingData(
    np.zeros((5, 1)), [0, 3, 5], labels=[0, 1, 0, 1, 0], query_ids=["b", "a"], doc_ids=["x", "y", "z", "x", "y"]
)
# session, query, document, rank, clicked
ROWS = [
    (1, "a", "x", 1, 1),
    (1, "a", "y", 2, 0),
    (2, "a", "y", 1, 0),
    (2, "a", "x", 2, 1),
    (3, "b", "z", 1, 0),
    (3, "b", "y", 2, 0),
    (4, "a", "x", 1, 0),
    (4, "a", "y", 2, 1),
]


def write(path, rows=ROWS, **more):
    names = ("session_id", "query_id", "doc_id", "rank", "clicked")
    columns = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    pq.write_table(pa.table({**columns, **more}), path)
    return path


def test_by_hand(tmp_path):
    counts = read_log(write(tmp_path / "log.parquet"), DATA, displays=True)
    assert counts.sessions.tolist() == [1, 3]
    cells = list(zip(counts.docs, counts.ranks, counts.impressions, counts.clicks, strict=True))
    assert cells == [(1, 2, 1, 0), (2, 1, 1, 0), (3, 1, 2, 1), (3, 2, 1, 1), (4, 1, 1, 0), (4, 2, 2, 1)]
    assert counts.propensities is None
    pages = counts.displays
    found = {
        tuple(pages.docs[a:b]): (int(pages.sessions[i]), pages.clicks[a:b].tolist())
        for i, (a, b) in enumerate(zip(pages.offsets[:-1], pages.offsets[1:], strict=True))
    }
    assert found == {(2, 1): (1, [0, 0]), (3, 4): (2, [1, 1]), (4, 3): (1, [0, 1])}


@pytest.mark.parametrize("ids", ["numbers", "strings"])
def test_a_written_log_is_read_back(tmp_path, ids):
    data = cr.make_ranking_data("yahoo", 30, seed=0)
    if ids == "strings":
        names = [f"d{i}" for i in data.doc_ids]
        queries = [f"q{i}" for i in data.query_ids]
        data = cr.RankingData(data.features, data.offsets, data.labels, queries, names)
    policy, exam = policies.UniformInsert(k=4), examination.inverse_rank(k=3)
    scores = data.features[:, 0]
    rows = simulation.write_log(data, scores, policy, exam, tmp_path / "log.parquet", sessions=5000, seed=1)
    counts = read_log(tmp_path / "log.parquet", data, displays=True)
    table = pq.read_table(tmp_path / "log.parquet")
    assert (counts.n_sessions, counts.n_impressions) == (5000, rows)
    assert counts.n_clicks == np.count_nonzero(table["clicked"].to_numpy())
    assert counts.displays.sessions.sum() == 5000
    assert counts.displays.clicks.sum() == counts.n_clicks
    np.testing.assert_array_equal(counts.propensities, policy.propensity(scores, data.offsets, exam)[counts.docs])
    assert (np.diff(counts.docs * 1000 + counts.ranks) > 0).all()


def test_a_document_with_two_logged_propensities_has_two_cells(tmp_path):
    rows = [(1, "b", "x", 1, 1), (2, "b", "x", 1, 1), (3, "b", "x", 1, 0)]
    counts = read_log(write(tmp_path / "log.parquet", rows, propensity=[0.5, 0.25, 0.5]), DATA)
    assert counts.propensities.tolist() == [0.25, 0.5]
    assert counts.impressions.tolist() == [1, 2]
    assert cr.estimators.policy_aware(counts)[0] == 1 / 0.25 + 1 / 0.5


BAD = {
    "no such query": ([(1, "c", "x", 1, 0)], {}, "1 query-document pairs are not in the ranking data, the first is qu"),
    "no such document": ([(1, "a", "z", 1, 0)], {}, "query a, document z (no such document of this query)"),
    "rank 0": ([(1, "a", "x", 0, 0)], {}, "1 rows have a rank below 1"),
    "clicked twice": ([(1, "a", "x", 1, 2)], {}, "1 rows have a clicked that is not 0 or 1"),
    "null": ([(1, "a", None, 1, 0)], {}, "1 rows have a null"),
    "propensity": ([(1, "a", "x", 1, 0)], {"propensity": [1.5]}, "a propensity outside 0 to 1"),
    "no propensity": ([(1, "a", "x", 1, 0)], {"propensity": [float("nan")]}, "a propensity outside 0 to 1"),
    "impossible click": ([(1, "a", "x", 1, 1)], {"propensity": [0.0]}, "a click at propensity 0"),
    "half clicked": ([(1, "a", "x", 1, 0.4)], {}, "1 rows have a clicked that is not 0 or 1"),
    "no half ranks": ([(1, "a", "x", 1.5, 0)], {}, "1 rows have a rank below 1 or not whole"),
    "clicked in words": ([(1, "a", "x", 1, "yes")], {}, "column 'clicked' has type VARCHAR; expected 0, 1 or booleans"),
    "rank in words": ([(1, "a", "x", "1", 0)], {}, "column 'rank' has type VARCHAR; expected numbers"),
    "lists": ([(1, "a", ["x"], 1, 0)], {}, "column 'doc_id' has type VARCHAR[]; expected whole numbers or texts"),
    "a document twice": ([(1, "a", "x", 1, 0), (1, "a", "x", 2, 0)], {}, "1 pages show a document or a rank twice"),
    "a rank twice": ([(7, "a", "x", 1, 0), (7, "a", "y", 1, 0)], {}, "such as session 7 of query a"),
    "too deep": ([(1, "a", "x", 3, 0)], {}, "rank 3 in query a, which has fewer documents"),
    "empty": ([], {}, "no rows"),
}


@pytest.mark.parametrize(("rows", "more", "message"), BAD.values(), ids=BAD)
def test_wrong_rows(tmp_path, rows, more, message):
    with pytest.raises(cr.CounterrankError) as error:
        read_log(write(tmp_path / "log.parquet", rows, **more), DATA)
    assert message in str(error.value)


def test_pages_with_gaps_cannot_be_kept(tmp_path):
    path = write(tmp_path / "log.parquet", [(1, "b", "x", 1, 0), (1, "b", "y", 3, 0)])
    read_log(path, DATA)
    with pytest.raises(cr.CounterrankError, match="pages with a gap"):
        read_log(path, DATA, displays=True)


def test_files_that_are_no_logs(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such click log"):
        read_log(tmp_path / "none.parquet", DATA)
    (tmp_path / "text.parquet").write_text("not a log")
    with pytest.raises(cr.CounterrankError, match="not a Parquet file"):
        read_log(tmp_path / "text.parquet", DATA)
    pq.write_table(pa.table({"query_id": [1]}), tmp_path / "short.parquet")
    with pytest.raises(cr.CounterrankError, match="no column 'session_id'"):
        read_log(tmp_path / "short.parquet", DATA)


def test_numbers_and_their_texts_are_the_same_id():
    assert find_rows(np.array(["7", "8"]), np.array([8, 7])).tolist() == [1, 0]
    assert find_rows(np.array([7]), np.array(["7"])).tolist() == [0]


def test_policies_are_kept_apart(tmp_path):
    rows = [(1, "b", "x", 1, 1), (2, "b", "x", 1, 0), (3, "a", "x", 1, 1)]
    path = write(tmp_path / "log.parquet", rows, policy=["new", "old", "new"], propensity=[0.5, 0.5, 1.0])
    counts = read_log(path, DATA)
    assert counts.policy_names == ("new", "old")
    assert counts.policies.tolist() == [0, 1, 0]
    assert counts.policy_sessions.tolist() == [[1, 1], [1, 0]]
    assert counts.sessions.tolist() == [2, 1]
    counts.save(tmp_path / "counts")
    again = cr.ClickCounts.concat([cr.ClickCounts.load(tmp_path / "counts"), counts])
    assert again.policy_sessions.tolist() == [[2, 2], [2, 0]]


def test_a_star_in_a_name_is_a_star(tmp_path):
    write(tmp_path / "log*[1].parquet", ROWS[:2])
    write(tmp_path / "log2.parquet")
    assert read_log(tmp_path / "log*[1].parquet", DATA).n_impressions == 2


def test_a_log_written_twice_is_not_counted_twice(tmp_path):
    with pytest.raises(cr.CounterrankError, match="4 pages show a document or a rank twice"):
        read_log(write(tmp_path / "log.parquet", ROWS + ROWS), DATA)


def test_what_is_no_data(tmp_path):
    with pytest.raises(cr.CounterrankError, match="data: NoneType; expected RankingData"):
        read_log(write(tmp_path / "log.parquet"), None)
