"""Click logs counted with DuckDB: what is counted, what is refused and in which words, what is dropped."""

from __future__ import annotations

import shlex
import warnings

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank import examination, policies, simulation
from counterrank.clicks import read_log
from counterrank.clicks.logs import LogOptions
from counterrank.data.ids import find_rows
from tests.support import log_files
from tests.support.command import run
from tests.support.log_files import as_rows, read_reported

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
ENDINGS = ("parquet", "csv", "jsonl", "csv.gz", "jsonl.gz", "csv.zst", "jsonl.zst")


def write(path, rows=ROWS, **more):
    return log_files.write(path, as_rows(rows, **more), [*log_files.NAMES, *more])


def cells_of(counts):
    return list(
        zip(*(each.tolist() for each in (counts.docs, counts.ranks, counts.impressions, counts.clicks)), strict=True)
    )


CELLS = [(1, 2, 1, 0), (2, 1, 1, 0), (3, 1, 2, 1), (3, 2, 1, 1), (4, 1, 1, 0), (4, 2, 2, 1)]


class WithoutBar:
    """DuckDB as it is in Jupyter without ipywidgets: what concerns the progress bar is refused."""

    def __init__(self, local):
        self._local = local

    def execute(self, query, *more):
        if "progress_bar" in query:
            raise duckdb.InvalidInputException("required package 'ipywidgets' is missing")
        return self._local.execute(query, *more)

    def __getattr__(self, name):
        return getattr(self._local, name)


def test_jupyter_without_widgets(tmp_path, monkeypatch):
    connect = duckdb.connect
    monkeypatch.setattr(duckdb, "connect", lambda: WithoutBar(connect()))
    assert cells_of(read_log(write(tmp_path / "log.parquet"), DATA)) == CELLS


@pytest.mark.parametrize("ending", ENDINGS)
def test_by_hand(tmp_path, ending):
    counts = read_log(write(tmp_path / f"log.{ending}"), DATA, displays=True)
    assert counts.sessions.tolist() == [1, 3]
    assert cells_of(counts) == CELLS
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
    trusted = read_log(tmp_path / "log.parquet", data, skip_page_checks=True)
    assert (trusted.sessions.tolist(), cells_of(trusted)) == (counts.sessions.tolist(), cells_of(counts))


def test_a_document_with_two_logged_propensities_has_two_cells(tmp_path):
    rows = [(1, "b", "x", 1, 1), (2, "b", "x", 1, 1), (3, "b", "x", 1, 0)]
    counts = read_log(write(tmp_path / "log.parquet", rows, propensity=[0.5, 0.25, 0.5]), DATA)
    assert counts.propensities.tolist() == [0.25, 0.5]
    assert counts.impressions.tolist() == [1, 2]
    with pytest.raises(cr.CounterrankError, match=r"document x of query b was logged with propensities 0.25 and 0.5"):
        cr.estimators.policy_aware(counts)


REFUSED = {
    "no rows": (
        lambda p: write(p / "log.parquet", []),
        {},
        "log.parquet: no rows; expected one for each displayed doc",
    ),
    "only a header": (lambda p: write(p / "log.csv", []), {}, "log.csv: no rows; expected one for each displayed doc"),
    "no objects": (lambda p: write(p / "log.jsonl", []), {}, "log.jsonl: no rows; expected a JSON object in each line"),
    "no column": (
        lambda p: log_files.write(p / "log.csv", [{"query_id": 1}]),
        {},
        "no column 'session_id'; the log has 'query_id'; columns={'session_id': NAME} gives another name; use impr",
    ),
    "no such name": (
        lambda p: write(p / "log.csv"),
        {"columns": {"rank": "position"}},
        "no column 'position'; the log has 'session_id', 'query_id', 'doc_id', 'rank', 'clicked'; columns={'rank': N",
    ),
    "no such key": (
        lambda p: write(p / "log.csv"),
        {"columns": {"place": "rank"}},
        "columns: no column 'place' in a click",
    ),
    "lists": (
        lambda p: write(p / "log.parquet", [(1, "a", ["x"], 1, 0)]),
        {},
        "column 'doc_id' has type VARCHAR[]; expected whole numbers or texts",
    ),
    "fractions as ids": (
        lambda p: write(p / "log.parquet", [(1.5, "a", "x", 1, 0)]),
        {},
        "1 row has a session_id that is not whole (row 0: session_id 1.5",
    ),
    "a name twice": (
        lambda p: log_files.write(p / "log.parquet", [{"rank": 1, "Rank": 2}]),
        {},
        "log.parquet: columns 'rank' and 'Rank' are the same name; expected each once",
    ),
    "a header twice": (
        lambda p: log_files.write(p / "log.csv", [{"rank": 1}], ["rank", "rank"]),
        {},
        "log.csv: columns 'rank' and 'rank' are the same name; expected each once",
    ),
    "rank base 2": (
        lambda p: write(p / "log.csv"),
        {"rank_base": 2},
        "rank_base=2: expected 0 or 1, the number of the",
    ),
    "memory": (
        lambda p: write(p / "log.csv"),
        {"memory": "-1"},
        "memory='-1': not an amount of memory; expected such as",
    ),
    "no memory": (
        lambda p: write(p / "log.csv"),
        {"memory": None},
        "memory=None: not an amount of memory; expected such",
    ),
    "threads": (lambda p: write(p / "log.csv"), {"threads": 0}, "threads=0: expected a whole number from 1"),
    "too little": (
        lambda p: write(p / "log.parquet"),
        {"memory": "1KB"},
        "raise memory=, or give it more room to spi",
    ),
    "on_error": (lambda p: write(p / "log.csv"), {"on_error": "hope"}, "on_error='hope'"),
    "format": (lambda p: write(p / "log.csv"), {"format": "xls"}, "format='xls'"),
    "another format": (
        lambda p: write(p / "log.csv"),
        {"format": "parquet"},
        "log.csv: not Parquet that can be read (",
    ),
    "master": (
        lambda p: write(p / "log.csv"),
        {"master": "local"},
        "master='local': of a Spark cluster; expected engine",
    ),
    "pages of rows": (
        lambda p: write(p / "log.csv"),
        {"displays": True, "impressions": True},
        "displays: there are no pages where each row is one",
    ),
}


@pytest.mark.parametrize(("make", "options", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(tmp_path, make, options, message):
    with pytest.raises(cr.CounterrankError) as error:
        read_log(make(tmp_path), DATA, **options)
    assert message in str(error.value)
    assert str(error.value).isprintable()


UNREADABLE = {
    "text.parquet": b"not a log",
    "cut.parquet": None,
    "empty.csv": b"",
    "blank.csv": b"\nsession_id,query_id,doc_id,rank,clicked\n",
    "wide.csv": "session_id,query_id,doc_id,rank,clicked\n".encode("utf-16-le"),
    "bytes.csv": b"\xff\xfe\x00\n",
    "plain.csv.gz": b"session_id\n",
    "quote.csv": b'"session_id,query_id\n',
    "array.json": b'[{"session_id": 1}]\n',
    "plain.jsonl.zst": b"{}\n",
    "log.txt": b"session_id\n",
    "mixed.csv": b"session_id,query_id,doc_id,rank,clicked\n1,a,x,1,0\r\n2,a,x,1,0\n3,a,x,one,0\n",
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_files_that_are_no_logs(tmp_path, name):
    if name == "cut.parquet":
        whole = write(tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    else:
        (tmp_path / name).write_bytes(UNREADABLE[name])
    with pytest.raises(cr.CounterrankError, match=name) as error:
        read_log(tmp_path / name, DATA)
    assert str(error.value).isprintable()
    assert "LINE 1" not in str(error.value)


def test_nothing_there(tmp_path):
    for name in ("none.parquet", "*.csv"):
        with pytest.raises(FileNotFoundError, match="no such click log"):
            read_log(tmp_path / name, DATA)
    with pytest.raises(cr.CounterrankError, match="an empty folder; expected the files of a click log"):
        read_log(tmp_path, DATA)
    write(tmp_path / "a.csv")
    write(tmp_path / "b.parquet")
    with pytest.raises(cr.CounterrankError, match=r"files of several formats \(csv, parquet\)"):
        read_log(tmp_path, DATA)
    with pytest.raises(cr.CounterrankError, match="path: NoneType; expected the path of a click log"):
        read_log(None, DATA)
    with pytest.raises(cr.CounterrankError, match="data: str; expected RankingData"):
        read_log(tmp_path / "a.csv", "data")


def test_links_are_followed_once(tmp_path):
    write(tmp_path / "elsewhere" / "a.csv", ROWS[:2])
    write(tmp_path / "log" / "b.csv", ROWS[2:4])
    (tmp_path / "log" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "log" / "round").symlink_to(tmp_path / "log")
    assert read_log(tmp_path / "log", DATA).n_impressions == 4


def test_patterns(tmp_path):
    for i in range(3):
        write(tmp_path / "day" / f"{i}.csv.gz", [(i, *row[1:]) for row in ROWS[:2]])
    write(tmp_path / "day" / "_notes.txt")
    assert read_log(tmp_path / "*" / "[01].csv.gz", DATA).n_sessions == 2
    assert read_log(tmp_path / "**" / "*.csv.gz", DATA).n_sessions == 3
    assert read_log(tmp_path, DATA).n_sessions == 3


def test_numbers_and_their_texts_are_the_same_id(tmp_path):
    assert find_rows(np.array(["7", "8"]), np.array([8, 7])).tolist() == [1, 0]
    assert find_rows(np.array([7]), np.array(["7"])).tolist() == [0]
    rows = [(1, 7, 1, 1, 0), (2, 8, 2, 1, 1)]
    for ids in (int, str):
        data = cr.RankingData(np.zeros((2, 1)), [0, 1, 2], query_ids=[ids(7), ids(8)], doc_ids=[ids(1), ids(2)])
        for ending in ("parquet", "csv", "jsonl"):
            assert cells_of(read_log(write(tmp_path / f"log.{ending}", rows), data)) == [(0, 1, 1, 0), (1, 1, 1, 1)]
    path = write(tmp_path / "zeros.csv", [(1, "007", 1, 1, 0)])
    with pytest.raises(
        cr.CounterrankError,
        match=r"such as '007'\); 1 of these queries are in the data with .*, such as '007' in the log and 7 in the",
    ):
        read_log(path, data)


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


def test_a_policy_without_a_first_rank_keeps_its_cells_without_page_checks(tmp_path):
    rows = [(1, "b", "x", 1, 1), (2, "b", "y", 2, 0)]
    counts = read_log(write(tmp_path / "log.parquet", rows, policy=["a", "b"]), DATA, skip_page_checks=True)
    assert (counts.policy_names, counts.policies.tolist()) == (("a", "b"), [0, 1])


def test_a_log_written_twice_is_not_counted_twice(tmp_path):
    for name in ("a", "b"):
        write(tmp_path / "log" / f"{name}.parquet")
    with pytest.raises(
        cr.CounterrankError, match=r"4 pages show a document twice .*; 4 pages show two documents at one"
    ):
        read_log(tmp_path / "log", DATA)


def test_without_data(tmp_path):
    counts = read_log(write(tmp_path / "log.csv"))
    assert not counts.knows_candidates
    assert (counts.offsets.tolist(), counts.sessions.tolist()) == ([0, 2, 4], [3, 1])
    assert cells_of(counts) == [(0, 1, 2, 1), (0, 2, 1, 1), (1, 1, 1, 0), (1, 2, 2, 1), (2, 2, 1, 0), (3, 1, 1, 0)]
    with pytest.raises(cr.CounterrankError, match="counted without ranking data"):
        counts.check_data(DATA)


def test_impressions(tmp_path):
    rows = [{"doc_id": doc, "rank": rank, "clicked": click} for doc, rank, click in [(1, 2, 0), (1, 2, 1), (2, 1, 0)]]
    counts = read_log(log_files.write(tmp_path / "log.csv", rows), impressions=True)
    assert (counts.n_sessions, counts.n_queries) == (3, 1)
    assert cells_of(counts) == [(0, 2, 2, 1), (1, 1, 1, 0)]


def test_nothing_is_said_about_a_clean_log(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = read_reported(write(tmp_path / "log.csv"), DATA, options=LogOptions(on_error="skip")).report
    assert (report.rows, report.used, report.pages, report.dropped, report.faults) == (8, 8, 4, {}, ())


def test_null_columns_are_nulls(tmp_path):
    names = [*log_files.NAMES]
    pq.write_table(pa.table({name: pa.nulls(2) for name in names}), tmp_path / "log.parquet")
    with pytest.raises(cr.CounterrankError, match=r"2 rows have no session_id .row 0: nothing in it that can be read"):
        read_log(tmp_path / "log.parquet")


CLOSE = {
    "propensity": ("prop", "Propensity", "propensities", "examination_propensity"),
    "policy": ("logging_policy", "Policy", "variant", "policy name"),
    "timestamp": ("ts", "time", "Timestamp", "eventTs", "timestmp"),
}


@pytest.mark.parametrize(("column", "name"), [(column, name) for column in CLOSE for name in CLOSE[column]])
def test_optional_columns_under_other_names_are_pointed_out(tmp_path, column, name):
    value = {"propensity": 0.5, "policy": "v1", "timestamp": "2026-01-01"}[column]
    path = write(tmp_path / "log.csv", **{name: [value] * len(ROWS), "colour": ["red"] * len(ROWS)})
    use = f"columns={{'{column}': '{name}'}}"
    message = f"{path}: columns not used: '{name}', 'colour'; if '{name}' is the {column}, use {use}"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_log(path, DATA)
    assert [(each.category, str(each.message), each.filename) for each in caught] == [
        (cr.LogWarning, message, __file__)
    ]
    flags = shlex.quote(f"{column}={name}")
    assert f"Note: {message.partition(', use ')[0]}, use --map {flags}.\n" in run("inspect", path).stderr


def test_other_columns_are_reported_and_not_warned_about(tmp_path, recwarn):
    more = {f"more {i}": [i] * len(ROWS) for i in range(12)}
    path = write(tmp_path / "log.parquet", **more, policy=["new"] * len(ROWS), logging_score=[0.5] * len(ROWS))
    report = read_reported(path, DATA).report
    assert (report.unused_columns, report.suggested_columns) == (tuple(more), {})
    assert report.summary()["unused_columns"] == list(more)
    read_log(path, DATA)
    assert not recwarn.list
    said = [line for line in run("inspect", path).stderr.splitlines() if "columns not used" in line]
    assert said == [f"Note: {path}: columns not used: {', '.join(map(repr, list(more)[:10]))} and 2 more."]
    assert read_reported(write(tmp_path / "log.csv"), DATA).report.column_message() is None


def test_missing_columns_suggest_close_ones(tmp_path):
    path = log_files.write(
        tmp_path / "log.csv", as_rows(ROWS, ("session_id", "query_id", "doc_id", "rank", "is_click"))
    )
    with pytest.raises(
        cr.CounterrankError, match=r"no column 'clicked'; .*; columns=\{'clicked': 'is_click'\} if that is"
    ):
        read_log(path)
    assert "; --map clicked=is_click if that is it" in run("inspect", path).stderr
