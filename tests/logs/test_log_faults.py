"""Each kind of fault of a click log: its words, its count, its example, and what is left when it is dropped."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank.clicks import read_log
from counterrank.clicks.logs import LogOptions
from tests.logs.test_log_reader import DATA, cells_of, write
from tests.support.command import run
from tests.support.log_files import read_reported

GOOD = [(8, "b", "x", 1, 0), (9, "a", "x", 1, 1), (9, "a", "y", 2, 0)]
NAN = float("nan")
# rows added to the good ones, further columns of all, and the message
FAULTS = {
    "no session": ([(None, "a", "x", 1, 0)], {}, "1 row has no session_id (PLACE: session_id None, query_id 'a'"),
    "no query": ([(1, None, "x", 1, 0)], {}, "1 row has no query_id (PLACE: session_id 1, query_id None, doc_id 'x'"),
    "no document": (
        [(1, "a", None, 1, 0)],
        {},
        "1 row has no doc_id (PLACE: session_id 1, query_id 'a', doc_id None",
    ),
    "no rank": (
        [(1, "a", "x", None, 0)],
        {},
        "1 row has no rank (PLACE: session_id 1, query_id 'a', doc_id 'x', rank N",
    ),
    "no clicked": ([(1, "a", "x", 1, None)], {}, "1 row has no clicked (PLACE: session_id 1, query_id 'a', doc_id 'x'"),
    "no policy": ([(1, "a", "x", 1, 0)], {"policy": [None]}, "1 row has no policy (PLACE: session_id 1"),
    "no propensity": (
        [(1, "a", "x", 1, 0)],
        {"propensity": [None]},
        "1 row has no propensity (PLACE: session_id 1",
    ),
    "rank 0": (
        [(1, "a", "x", 0, 0), (1, "a", "y", 1, 0)],
        {},
        "1 row has a rank below 1 or not whole (PLACE: session_id 1, query_id 'a', doc_id 'x', rank 0, clicked 0); "
        "on_error",
    ),
    "rank -3": ([(1, "a", "x", -3, 0)], {}, "1 row has a rank below 1 or not whole (PLACE: session_id 1"),
    "half a rank": ([(1, "a", "x", 1.5, 0)], {}, "1 row has a rank below 1 or not whole (PLACE: session_id 1, q"),
    "rank in words": ([(1, "a", "x", "top", 0)], {}, "1 row has a rank below 1 or not whole (PLACE: session_id 1"),
    "huge rank": ([(1, "a", "x", 2**63 - 1, 0)], {}, "1 row has a rank beyond 1,000,000 (PLACE: session_id 1, q"),
    "clicked 2": ([(1, "a", "x", 1, 2)], {}, "1 row has a clicked that is not 0 or 1 (PLACE: session_id 1, quer"),
    "clicked 0.4": ([(1, "a", "x", 1, 0.4)], {}, "1 row has a clicked that is not 0 or 1 (PLACE: session_id 1, q"),
    "clicked maybe": ([(1, "a", "x", 1, "maybe")], {}, "1 row has a clicked that is not 0 or 1 (PLACE: session_id 1"),
    "clicked 'yep'": ([(1, "a", "x", 1, "yep")], {}, "doc_id 'x', rank 1, clicked 'yep'"),
    "propensity 1.5": (
        [(1, "a", "x", 1, 0)],
        {"propensity": [1.5]},
        "1 row has a propensity outside 0 to 1 (",
    ),
    "propensity -1": (
        [(1, "a", "x", 1, 0)],
        {"propensity": [-1.0]},
        "1 row has a propensity outside 0 to 1 (",
    ),
    "propensity nan": (
        [(1, "a", "x", 1, 0)],
        {"propensity": [NAN]},
        "1 row has a propensity outside 0 to 1 (",
    ),
    "impossible": (
        [(1, "a", "x", 1, 1)],
        {"propensity": [0.0]},
        "1 row is a click at propensity 0 (PLACE: session_id 1, query_id 'a', doc_id 'x', rank 1, clicked 1, prop",
    ),
    "two queries": (
        [(1, "a", "x", 1, 0), (1, "b", "y", 2, 0)],
        {},
        "1 page is one session under several queries (such as session 1, PLACE);",
    ),
    "two policies": (
        [(1, "a", "x", 1, 0), (1, "a", "y", 2, 0)],
        {"policy": ["new", "old"]},
        "1 page is one session under several policies (such as session 1, PLACE);",
    ),
    "a document twice": (
        [(1, "a", "x", 1, 0), (1, "a", "x", 2, 0)],
        {},
        "1 page shows a document twice (such as session 1, PLACE);",
    ),
    "a rank twice": (
        [(1, "a", "x", 1, 0), (1, "a", "y", 1, 0)],
        {},
        "1 page shows two documents at one rank (such as session 1, PLACE);",
    ),
    "a gap": (
        [(1, "b", "x", 1, 0), (1, "b", "y", 3, 0)],
        {},
        "1 page has a gap in its ranks (such as session 1, PLACE);",
    ),
    "no rank 1": ([(1, "b", "x", 2, 0)], {}, "1 page has a gap in its ranks (such as session 1, PLACE);"),
    "unknown query": (
        [(1, "c", "x", 1, 0), (1, "c", "y", 2, 0)],
        {},
        "2 rows have a query that is not in the ranking data (2 pairs of 1 query, such as query 'c', document 'x', ra",
    ),
    "unknown document": (
        [(1, "a", "z", 1, 0)],
        {},
        "1 row has a document that is not among the candidates of its query (1 pair of 1 query, such as query 'a', d",
    ),
}


# where the first row after the good ones is: lines count from 1, rows from 0
PLACES = {"parquet": "row 3", "csv": "line 5", "jsonl": "line 4", "frame": "row 3"}


@pytest.mark.parametrize("ending", PLACES)
@pytest.mark.parametrize(("rows", "more", "message"), FAULTS.values(), ids=FAULTS)
def test_each_fault_by_itself(tmp_path, ending, rows, more, message):
    if ending == "jsonl" and any(value != value for values in more.values() for value in values):
        pytest.skip("JSON has no NaN")
    good = {"propensity": [0.5] * len(GOOD), "policy": ["new"] * len(GOOD)}
    whole = {name: good[name] + values for name, values in more.items()}
    path = name = write(tmp_path / f"log.{'parquet' if ending == 'frame' else ending}", GOOD + rows, **whole)
    if ending == "frame":
        path, name = pq.read_table(path), "frame"
    with pytest.raises(cr.CounterrankError) as error:
        read_log(path, DATA, strict=True)
    text = str(error.value)
    assert text.startswith((f"{name}: 1 ", f"{name}: 2 "))
    for number in (".0", ""):  # Parquet shows a column of ranks with a half in it as fractions
        text = text.replace(f"rank 1{number}", "rank 1").replace(f"rank 0{number}", "rank 0")
    assert message.replace("PLACE", PLACES[ending]) in text
    assert text.count(" (") == 1 or "beyond 1,000,000" in text  # and nothing else, but that rank is a gap too
    assert text.endswith("; on_error='skip' drops the pages with such rows")
    with pytest.warns(UserWarning, match=f"dropped {len(rows)} of {len(GOOD) + len(rows)} rows"):
        reading = read_reported(path, DATA, options=LogOptions(on_error="skip", strict=True))
    assert cells_of(reading.counts) == [(0, 1, 1, 0), (3, 1, 1, 1), (4, 2, 1, 0)]
    report = reading.report
    assert (report.rows, report.used, report.pages) == (len(GOOD) + len(rows), len(GOOD), 2)
    assert sum(report.dropped.values()) == len(rows)
    assert report.dropped_pages == (rows[0][0] is not None)
    assert [str(fault) in text for fault in report.faults] or "." in text
    assert report.summary()["rows_dropped"] == len(rows)


def test_all_kinds_in_one_line(tmp_path):
    rows = [
        (1, "a", "x", 1, 7),
        (1, "a", "y", 2, 0),
        (2, "a", "x", 1, 0),
        (2, "a", "x", 2, 0),
        (3, "b", "x", 1, 0),
        (3, "b", "y", 3, 0),
        (4, "a", "nowhere", 1, 0),
        (5, None, "x", 1, 0),
    ]
    path = write(tmp_path / "log.csv", GOOD + rows)
    with path.open("a") as file:
        file.write("half a line\n")
    with pytest.raises(cr.CounterrankError) as error:
        read_log(path, DATA, strict=True)
    parts = str(error.value).removeprefix(f"{path}: ").split("; ")
    assert [part.partition(" (")[0] for part in parts] == [
        "1 line cannot be read",
        "1 row has no query_id",
        "1 row has a clicked that is not 0 or 1",
        "1 page shows a document twice",
        "1 page has a gap in its ranks",
        "1 row has a document that is not among the candidates of its query",
        "clicked is 1, true, t, yes, y, 1.0 or 0, false, f, no, n, 0.0, in any case",
        "on_error='skip' drops the pages with such rows",
    ]
    with pytest.warns(UserWarning, match="dropped 9 of 12 rows, with 5 pages: 1 because they or their page cannot"):
        reading = read_reported(path, DATA, options=LogOptions(on_error="skip", strict=True))
    assert reading.report.dropped == {
        "cannot be read": 1,
        "have no query_id": 1,
        "have a clicked that is not 0 or 1": 2,
        "show a document twice": 2,
        "have a gap in their ranks": 2,
        "have a document that is not among the candidates of its query": 1,
    }
    assert cells_of(reading.counts) == [(0, 1, 1, 0), (3, 1, 1, 1), (4, 2, 1, 0)]


@pytest.mark.parametrize("options", [{"skip_page_checks": True}, {"impressions": True}])
def test_a_rank_beyond_the_candidates(tmp_path, options):
    path = write(tmp_path / "log.parquet", [*GOOD, (1, "a", "x", 3, 0)])
    with pytest.raises(
        cr.CounterrankError, match=r"1 row has a rank beyond the candidates of its query .*document 'x', ra"
    ):
        read_log(path, DATA, **options)
    with pytest.warns(UserWarning, match="dropped 1 of 4 rows, with 1 pages: 1 because they or their page have a rank"):
        counts = read_log(path, DATA, on_error="skip", **options)
    assert counts.n_impressions == 3


def test_old_names_still_work(tmp_path):
    path = write(tmp_path / "log.parquet", [*GOOD, (1, "a", "x", 1, 0), (1, "a", "z", 2, 1), (2, "a", "x", 3, 5)])
    with pytest.warns(DeprecationWarning, match="trust is deprecated; use skip_page_checks"):
        old = LogOptions(trust=True, on_error="skip")
    assert old == LogOptions(skip_page_checks=True, on_error="skip")
    with pytest.warns(UserWarning, match=r"1 row has a document|dropped 1 of 6 rows"):
        report = read_reported(path, DATA, options=LogOptions(on_error="skip")).report
    with pytest.warns(DeprecationWarning, match=r"LogReport\.words is deprecated; use drop_message"):
        assert report.words() == report.drop_message()
    with pytest.warns(DeprecationWarning, match=r"LogReport\.warning is deprecated; use unknown_message"):
        assert report.warning() == report.unknown_message()


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_ranks_that_begin_with_0(tmp_path, ending):
    """Zeros in a few rows of a log that begins with 1 are something else."""
    pages = [(i, "a", doc, rank, 0) for i in range(9) for rank, doc in enumerate("xy")]
    with pytest.raises(cr.CounterrankError, match=r"9 rows have a rank below 1 .*; use rank_base=0: the ranks"):
        read_log(write(tmp_path / f"zero.{ending}", pages), DATA)
    pages = [(i, "a", doc, rank, 0) for i in range(9) for rank, doc in enumerate("xy", 1)] + [(9, "a", "x", 0, 0)] * 3
    with pytest.raises(cr.CounterrankError, match="3 rows have a rank below 1") as error:
        read_log(write(tmp_path / f"one.{ending}", pages), DATA)
    assert "rank_base" not in str(error.value)
    below = write(tmp_path / f"below.{ending}", [(*row[:3], row[3] - 2, 0) for row in pages[:18]])
    with pytest.raises(cr.CounterrankError, match="9 rows have a rank below 1") as error:
        read_log(below, DATA, rank_base=0)
    assert "use rank_base" not in str(error.value)


def test_messages_name_flags_on_the_command(tmp_path):
    path = write(tmp_path / "log.csv", [(1, "a", "x", 0, 0)])
    message = run("inspect", path).stderr
    assert "; use --rank-base 0: the ranks here seem to begin with 0; --on-error skip drops the pages" in message
    assert "; --map rank=NAME gives another name" in run("inspect", path, "--map", "rank=position").stderr


def test_nothing_left(tmp_path):
    path = write(tmp_path / "log.parquet", [(1, "a", "x", 1, 5)])
    with pytest.raises(
        cr.CounterrankError, match=r"log.parquet: nothing is left without what is wrong: 1 row has a cl"
    ):
        read_log(path, DATA, on_error="skip")


@pytest.mark.parametrize("name", ["rank", "clicked", "propensity"])
@pytest.mark.parametrize("usual", [1.0, 0.5])
def test_parquet_that_hides_its_nans(tmp_path, name, usual):
    """The least and greatest value that Parquet keeps of a column leave NaN out."""
    columns = {"session_id": [1, 2, 3], "query_id": ["a"] * 3, "doc_id": ["x"] * 3, "rank": [1.0] * 3}
    columns |= {"clicked": [1.0] * 3, "propensity": [1.0] * 3}
    columns[name] = [1.0, usual, NAN]
    if name != "propensity":
        columns[name][1] = 1.0
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    with pytest.raises(cr.CounterrankError, match=rf"1 row has (a {name}|no clicked) .*, {name} nan"):
        read_log(tmp_path / "log.parquet", DATA)
    with pytest.warns(UserWarning, match="dropped 1 of 3 rows, with 1 pages"):
        counts = read_log(tmp_path / "log.parquet", DATA, on_error="skip")
    assert (counts.n_impressions, counts.n_clicks) == (2, 2)


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl", "frame"])
def test_the_example_is_the_first_row_of_its_kind(tmp_path, ending):
    """Whatever its ids are, and however many threads look for it."""
    rows = [(i, "a", "x", 0 if i < 90_000 else 1, 0) for i in range(100_000, 0, -1)]
    path = log = write(tmp_path / f"log.{'parquet' if ending == 'frame' else ending}", rows)
    place = {"csv": "line 10003", "jsonl": "line 10002"}.get(ending, "row 10001")
    if ending == "frame":
        log = pq.read_table(path)
    elif ending == "parquet":
        pq.write_table(pq.read_table(path), path, row_group_size=5000)
    with pytest.raises(
        cr.CounterrankError, match=rf"89,999 rows have a rank .* \({place}: session_id 89999, query_id 'a'"
    ):
        read_log(log, DATA, threads=4)


def test_the_first_example_in_several_files(tmp_path):
    """Files count in the order of their names."""
    for name, first in (("b", 1), ("a", 50)):
        write(tmp_path / "log" / f"{name}.csv", [(first + i, "a", "x", 1, 0 if i < 3 else 7) for i in range(9)])
    with pytest.raises(cr.CounterrankError, match=r"12 rows have a clicked .* \(a.csv line 5: session_id 53, "):
        read_log(tmp_path / "log", DATA)


CLICKS = {" Y ": 1, "n ": 0, " TRUE": 1, " 0 ": 0}


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_blanks_around_clicks_do_not_matter(tmp_path, ending):
    rows = [(i, "a", "x", 1, word) for i, word in enumerate(CLICKS)]
    counts = read_log(write(tmp_path / f"log.{ending}", rows), DATA)
    assert (counts.n_impressions, counts.n_clicks) == (4, 2)


@pytest.mark.parametrize("ending", PLACES)
def test_words_that_are_no_clicks(tmp_path, ending):
    rows = [*((9 - i, "a", "x", 1, "no") for i in range(3)), (5, "a", "x", 1, " sí"), (4, "a", "x", 1, "ja")]
    path = write(tmp_path / f"log.{'parquet' if ending == 'frame' else ending}", rows)
    message = (
        rf"2 rows have a clicked that is not 0 or 1 \({PLACES[ending]}: session_id 5, .*, clicked ' sí'\); clicked is "
        "1, true, t, yes, y, 1.0 or 0, false, f, no, n, 0.0, in any case; on_error="
    )
    with pytest.raises(cr.CounterrankError, match=message):
        read_log(pq.read_table(path) if ending == "frame" else path, DATA)


MISSING = {
    "nulls": [1, None, None],
    "NaN": [1.0, NAN, NAN],
    "texts": ["1", "NaN", " "],
    "words": ["yes", "NULL", "None"],
}


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("clicks", MISSING.values(), ids=MISSING)
def test_missing_clicks_are_not_taken_for_0(tmp_path, ending, clicks):
    path = write(tmp_path / f"log.{ending}", [(i, "a", "x", 1, click) for i, click in enumerate(clicks)])
    treated = "; missing clicks are not taken for 0: fill in 0 where they mean no click"
    with pytest.raises(cr.CounterrankError, match=rf"log.*: 2 rows have no clicked \(.*\){treated}; on_error="):
        read_log(path, DATA)
    with pytest.warns(cr.LogWarning, match=rf"dropped 2 of 3 rows, .* 2 because .* have no clicked{treated}$"):
        assert read_log(path, DATA, on_error="skip").n_impressions == 1
