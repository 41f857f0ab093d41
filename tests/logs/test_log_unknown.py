"""Rows of a log that the ranking data does not have: counted and left out, refused where a policy ranked them."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank import estimators, examination, policies, simulation
from counterrank.clicks.logs import LogOptions, read_parts
from counterrank.evaluation.inspection import inspect_clicks
from tests.logs.test_log_reader import DATA, cells_of, write
from tests.support.command import as_json, attempt, invoke, run
from tests.support.log_files import read_reported

# query c is not in the data; document z is no candidate of query a, which has x and y
ROWS = [
    (1, "a", "x", 1, 1),
    (1, "a", "z", 2, 1),
    (1, "a", "y", 3, 0),
    (2, "a", "z", 1, 0),
    (3, "b", "z", 1, 1),
    (4, "c", "x", 1, 1),
    (4, "c", "y", 2, 0),
]
STRAY = r"2 rows have a document that is not among the candidates of its query \(1 pair of 1 query, such as query 'a', "


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize("options", [{}, {"skip_page_checks": True}, {"on_error": "skip"}], ids=str)
def test_they_are_counted_and_left_out(tmp_path, ending, options):
    path = write(tmp_path / f"log.{ending}", ROWS)
    with pytest.warns(
        UserWarning, match=STRAY + r"document 'z', rank 1\), 40.00% of the impressions of queries in"
    ) as caught:
        counts, report = read_reported(path, DATA, options=LogOptions(**options))
    assert len(caught) == 1
    assert cells_of(counts) == [(2, 1, 1, 1), (3, 1, 1, 1), (4, 3, 1, 0)]  # y keeps its rank 3 of 2 candidates
    assert counts.sessions.tolist() == [1, 2]  # a page of unknown documents alone was shown, too
    assert counts.unknown_impressions == 2
    assert (report.rows, report.used, report.pages, report.dropped, report.faults) == (7, 3, 3, {}, ())
    assert (report.unknown_queries, report.unknown_documents) == (2, 2)
    assert report.rows == report.used + report.unknown_queries + report.unknown_documents
    summary = report.summary()
    assert (summary["rows_of_unknown_queries"], summary["rows_of_unknown_documents"]) == (2, 2)
    assert [each["count"] for each in summary["unknown"]] == [2, 2]
    assert report.left_out() == (
        "; 2 rows have a query that is not in the ranking data"
        "; 2 rows have a document that is not among the candidates of its query"
    )


@pytest.mark.parametrize("strays", [1, 2])
def test_many_rows_of_unknown_queries_are_warned_about(tmp_path, strays):
    """One in twenty is not."""
    rows = [(i, "b", "z", 1, 0) for i in range(19)] + [(30 + i, " c" * (i + 1), "x", 1, 0) for i in range(strays)]
    path = write(tmp_path / "log.csv", rows)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert read_log_of(path).unknown_impressions == 0
    said = [(each.category, str(each.message), each.filename) for each in caught]
    message = (
        f"{path}: 2 rows have a query that is not in the ranking data (2 queries, such as ' c', ' c c'), 9.52% of the "
        "rows; they are left out"
    )
    assert said == ([] if strays == 1 else [(cr.LogWarning, message, __file__)])


def test_queries_of_other_parts_are_known(tmp_path, recwarn):
    path = write(tmp_path / "log.csv", ROWS[4:5] * 1 + [(2, "a", "x", 1, 0)])
    cr.read_log(path, cr.Fold(DATA.subset([0]), None, DATA.subset([1])))
    assert not recwarn.list
    with pytest.warns(cr.LogWarning, match=r"1 row has a query .* \(1 query, such as 'a'\), 50.00% of the rows; they"):
        cr.read_log(path, DATA.subset([0]))


# ids of the log and of the data, and what is said of them
FORMS = {
    "zeros": (["007", "008"], [7, 9], "1 of these {} are in the data with .*, such as '007' in the log and 7 in the"),
    "zeros in the data": ([7, 8], ["007", "x"], "1 of these {} are .*, such as 7 in the log and '007' in the data"),
    "decimals": (["7.0", "8.5"], [7, 8], "1 of these {} are .*, such as 7.0 in the log and 7 in the data"),
    "blanks": (["tv  set ", "pc"], ["tv set", "x"], "1 of these {} are .*, such as 'tv  set ' in the log and 'tv set'"),
    "case": (["TV", "PC"], ["tv", "pc"], "2 of these {} are .*, such as 'PC' in the log and 'pc' in the data"),
    "Unicode form": (
        ["cafe\u0301", "pc"],
        ["caf\u00e9", "x"],
        r"1 of these {} are .* Unicode form \(NFC, NFD\), such as 'cafe\\u0301' in the log and 'caf\\xe9' in the data",
    ),
    "numbers": (
        [7, 8],
        ["SKU 7", "a"],
        "ids are numbers in the log, such as 7, and texts in the data, such as 'SKU 7'",
    ),
    "texts": (["SKU 7", "a"], [7, 8], "ids are texts in the log, such as 'SKU 7', and numbers in the data, such as 7"),
}


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("what", ["query", "document"])
@pytest.mark.parametrize(("logged", "known", "message"), FORMS.values(), ids=FORMS)
def test_ids_in_another_form(tmp_path, ending, what, logged, known, message):
    """The hint is in the warning, in the error where nothing is left, and in that of `strict`."""
    message = message.format({"query": "queries", "document": "documents"}[what])
    same = 99 if type(known[0]) is int else "99" if "1 of" in message or "2 of" in message else "other"
    known = [*known, same]
    if what == "query":
        data = cr.RankingData(np.zeros((3, 1)), [0, 1, 2, 3], query_ids=known, doc_ids=[1, 1, 1])
    else:
        data = cr.RankingData(np.zeros((3, 1)), [0, 3], query_ids=[1], doc_ids=known)
    rows = [(i, each, 1, 1, 0) if what == "query" else (i, 1, each, 1, 0) for i, each in enumerate(logged)]
    path = write(tmp_path / f"log.{ending}", rows)
    with pytest.raises(cr.CounterrankError, match=f"none of its rows belongs .*; .*{message}.*; expected query_id"):
        cr.read_log(path, data)
    with pytest.raises(cr.CounterrankError, match=f"; .*{message}.*; on_error="):
        cr.read_log(path, data, strict=True)
    if "ids are" in message:  # so that none can be in both
        return
    more = type(logged[0])(99)
    path = write(tmp_path / f"log.{ending}", [*rows, (9, more, 1, 1, 0) if what == "query" else (9, 1, more, 1, 0)])
    with pytest.warns(cr.LogWarning, match=f"; they are left out.*; .*{message}") as caught:
        assert cr.read_log(path, data).n_impressions == 1
    assert len(caught) == 1


def test_pages_of_unknown_queries_are_checked_too(tmp_path):
    with pytest.raises(cr.CounterrankError, match="1 page has a gap in its ranks"):
        read_log_of(write(tmp_path / "log.csv", [ROWS[4], ROWS[6]]))


def read_log_of(path, **options):
    return cr.read_log(path, DATA, **options)


@pytest.mark.parametrize("options", [{"strict": True}, {"strict": True, "skip_page_checks": True}], ids=str)
def test_strict_makes_them_faults(tmp_path, options):
    path = write(tmp_path / "log.csv", ROWS)
    with pytest.raises(cr.CounterrankError, match=r"2 rows have a query that is not in the ranking data .*; " + STRAY):
        read_log_of(path, **options)
    with pytest.warns(UserWarning, match="dropped 6 of 7 rows, with 3 pages") as caught:
        counts, report = read_reported(path, DATA, options=LogOptions(on_error="skip", **options))
    assert len(caught) == 1
    assert (cells_of(counts), counts.unknown_impressions, report.unknown) == ([(2, 1, 1, 1)], 0, ())
    assert report.rows == report.used + sum(report.dropped.values())


def test_faults_of_other_kinds_are_dropped_and_the_rest_is_counted(tmp_path):
    more = [(5, "c", "x", 1, 7), (6, "a", "z", 2, 0), (7, "a", "w", 1, 0), (7, "a", "x", 2, 1)]
    path = write(tmp_path / "log.csv", ROWS + more)
    with pytest.warns(UserWarning, match=r"3 rows have a document|dropped 2 of 11 rows") as caught:
        counts, report = read_reported(path, DATA, options=LogOptions(on_error="skip"))
    assert len(caught) == 2
    assert report.dropped == {"have a clicked that is not 0 or 1": 1, "have a gap in their ranks": 1}
    assert (report.rows, report.used, report.unknown_queries, report.unknown_documents) == (11, 4, 2, 3)
    assert report.rows == 4 + 2 + 2 + 3
    assert counts.unknown_impressions == 3


def test_impressions_that_are_pages(tmp_path):
    path = write(tmp_path / "log.csv", ROWS)
    with pytest.warns(UserWarning, match=STRAY):
        counts, report = read_reported(path, DATA, options=LogOptions(impressions=True))
    assert (counts.sessions.tolist(), counts.unknown_impressions) == ([1, 4], 2)
    assert (report.used, report.unknown_queries, report.unknown_documents) == (3, 2, 2)


def test_ranks_beyond_candidates_and_unknown_documents(tmp_path):
    path = write(tmp_path / "log.csv", [*ROWS, (8, "a", "x", 4, 0)])
    for options in ({"skip_page_checks": True}, {"impressions": True}):
        with pytest.raises(cr.CounterrankError, match="1 row has a rank beyond the candidates of its query"):
            read_log_of(path, **options)


@pytest.mark.parametrize("on_error", ["fail", "skip"])
def test_pages_that_are_kept_need_all_their_documents(tmp_path, on_error):
    path = write(tmp_path / "log.csv", ROWS)
    if on_error == "fail":
        expected = STRAY + r".*\); without these documents the displayed pages that are kept would have wrong ranks; "
        with pytest.raises(cr.CounterrankError, match=expected + "on_error='skip' drops the pages with such rows$"):
            read_log_of(path, displays=True)
        return
    with pytest.warns(UserWarning, match="dropped 4 of 7 rows, with 2 pages") as caught:
        counts, report = read_reported(path, DATA, displays=True, options=LogOptions(on_error="skip"))
    assert [str(each.message).partition(": ")[2][:15] for each in caught] == ["dropped 4 of 7 ", "2 rows have a q"]
    assert counts.displays.sessions.tolist() == [1]
    assert (cells_of(counts), counts.unknown_impressions) == ([(2, 1, 1, 1)], 0)
    assert (report.used, sum(report.dropped.values()), report.unknown_queries) == (1, 4, 2)


ELSEWHERE = {
    "queries": (ROWS[5:], "2 rows have a query that is not in the ranking data"),
    "documents": (ROWS[3:4], "1 row has a document that is not among the candidates of its query"),
    "both": ([ROWS[3], *ROWS[5:]], r"2 rows have a query .*; 1 row has a document"),
}


@pytest.mark.parametrize(("rows", "message"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_a_log_of_other_data_is_refused(tmp_path, rows, message):
    path = write(tmp_path / "log.csv", rows)
    with pytest.raises(cr.CounterrankError, match=f"none of its rows belongs to the ranking data: {message}") as error:
        read_log_of(path)
    assert str(error.value).endswith("; expected query_id and doc_id as in the data, such as query 'b', document 'x'")


def test_parts_have_their_own(tmp_path):
    path = write(tmp_path / "log.csv", [*ROWS, (8, "b", "nowhere", 1, 0)])
    with pytest.warns(UserWarning, match="3 rows have a document"):
        found = read_parts(path, [DATA.subset([1]), DATA.subset([0])])
    assert [part.unknown_impressions for part in found.counts] == [2, 1]
    with pytest.warns(UserWarning, match="2 rows have a document"):
        alone = read_reported(path, DATA.subset([1]))
    assert (alone.report.unknown_queries, alone.report.unknown_documents) == (4, 2)  # b is in the other part


def test_drift_covers_what_is_counted(tmp_path):
    path = write(tmp_path / "log.csv", ROWS, timestamp=["2026-01-01 00:00:30"] * 6 + [""])
    with pytest.warns(UserWarning, match=STRAY):
        found = read_parts(path, [DATA], drift=True)
    ((period,),) = found.drift
    assert (period["pages"], period["impressions"], period["clicks"]) == (3, 3, 2)


# counts


def counted(tmp_path, rows=ROWS, **more):
    with pytest.warns(UserWarning, match="rows? ha.* a document that is not among"):
        return read_log_of(write(tmp_path / "log.parquet", rows, **more))


def test_counts_remember_them(tmp_path):
    counts = counted(tmp_path)
    counts.save(tmp_path / "clicks")
    loaded = cr.ClickCounts.load(tmp_path / "clicks")
    assert (loaded.unknown_impressions, cells_of(loaded)) == (2, cells_of(counts))
    later = replace(loaded, origin=None)  # as if of other sessions
    assert cr.ClickCounts.concat([counts, later]).unknown_impressions == 4
    file = tmp_path / "clicks" / "clicks.json"
    content = json.loads(file.read_text())
    for damage, message in ((-1, "unknown_impressions below 0"), (None, "lacks or misuses")):
        file.write_text(json.dumps({**content, "unknown_impressions": damage}))
        with pytest.raises(cr.CounterrankError, match=f"{message}.*; the folder is damaged"):
            cr.ClickCounts.load(tmp_path / "clicks")


def test_older_counts_know_of_none(tmp_path):
    read_log_of(write(tmp_path / "log.csv", ROWS[4:5])).save(tmp_path / "older")
    file = tmp_path / "older" / "clicks.json"
    content = json.loads(file.read_text())
    assert content.pop("unknown_impressions") == 0  # version 0.1 did not write it
    file.write_text(json.dumps(content))
    assert cr.ClickCounts.load(tmp_path / "older").unknown_impressions == 0


def test_ranks_deeper_than_the_data_are_saved(tmp_path):
    data = cr.RankingData(np.zeros((1, 1)), [0, 1], query_ids=["a"], doc_ids=["x"])
    with pytest.warns(UserWarning, match="1 row has a document that is not among"):
        counts = cr.read_log(write(tmp_path / "log.csv", [(1, "a", "z", 1, 0), (1, "a", "x", 2, 1)]), data)
    counts.save(tmp_path / "clicks")
    assert cr.ClickCounts.load(tmp_path / "clicks").ranks.tolist() == [2]
    replace(counts, unknown_impressions=0).save(tmp_path / "clicks")
    with pytest.raises(cr.CounterrankError, match="a rank outside 1 to 1; the folder is damaged"):
        cr.ClickCounts.load(tmp_path / "clicks")


MISSING = r"clicks: 2 impressions \(40.00%\) are of documents that the ranking data does not have, so the policy ranked"
SCORES = np.arange(5.0)
COMPUTED = {
    "several policies": lambda clicks: policies.several_policies(
        clicks, {"new": (policies.Deterministic(3), SCORES)}, [1.0]
    ),
    "affine": lambda clicks: estimators.affine(clicks, [0.5] * 3, [0.1] * 3, policies.Deterministic(3), SCORES),
    "affine of several": lambda clicks: estimators.affine(
        clicks, [0.5] * 3, [0.1] * 3, {"new": (policies.Deterministic(3), SCORES)}
    ),
    "fitted": lambda clicks: policies.fit_plackett_luce(DATA, clicks, 3),
    "inspection": lambda clicks: inspect_clicks(
        clicks, policy=policies.Deterministic(3), scores=SCORES, exam=[1.0] * 3
    ),
}


@pytest.mark.parametrize("compute", COMPUTED.values(), ids=COMPUTED)
def test_propensities_of_a_policy_are_refused(tmp_path, compute):
    clicks = counted(tmp_path, policy=["new"] * len(ROWS))
    with pytest.raises(cr.CounterrankError, match=MISSING):
        compute(clicks)


def test_other_propensities_are_not_refused(tmp_path):
    clicks = counted(tmp_path, propensity=[0.5] * len(ROWS))
    assert estimators.policy_aware(clicks).tolist() == [0, 0, 2, 2, 0]
    exam = examination.Examination([1.0, 0.5, 0.25])
    assert policies.propensity_from_log(clicks, exam).propensities.tolist() == [0, 0, 1, 0.5, 0.125]
    mean = 2 / 3  # of what was shown, for documents that were not
    with pytest.warns(cr.CoverageWarning, match="2 of 5 candidates"):
        assert estimators.affine(clicks, [0.5] * 3, [0.0] * 3).tolist() == [mean, mean, 1, 2, 0]
    assert inspect_clicks(clicks).overview.impressions == 3


# the command

FOLD = "synthetic:yahoo:queries=120,seed=1"
CURVE = ("--examination", "inverse-rank:eta=1")
KNOWN = ("--policy", "uniform-insert:k=5", "--logger", "feature:1", *CURVE)
QUICK = ("--k", 5, "--max-epochs", 2, "--learning-rate", 1)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Data that lacks the last part's queries and one document that the log shows, in every query; and the log."""
    folder = tmp_path_factory.mktemp("unknown")
    fold = cr.make_fold("yahoo", 120, seed=1)
    for number, part in enumerate((fold.train, fold.validation, fold.test)):
        simulation.write_log(
            part, part.features[:, 0], policies.UniformInsert(5), examination.inverse_rank(),
            folder / f"{number}.parquet", sessions=2000, seed=number, propensities=False, first_session=number * 2000,
        )  # fmt: skip
    tables = [pq.read_table(folder / f"{number}.parquet") for number in range(3)]
    (folder / "log").mkdir()
    pq.write_table(pa.concat_tables(tables), folder / "log" / "all.parquet")
    fold.train.save(folder / "train.parquet")
    shown = tables[0]["doc_id"].to_numpy()[tables[0]["query_id"].to_numpy() == fold.train.query_ids[0]][0]
    rows = pq.read_table(folder / "train.parquet")
    gone = (rows["query_id"].to_numpy() == fold.train.query_ids[0]) & (rows["doc_id"].to_numpy() == shown)
    pq.write_table(rows.filter(pa.array(~gone)), folder / "lacking.parquet")
    return folder


def test_other_parts_are_shown_and_no_faults(place, tmp_path):
    log, data = place / "log", place / "train.parquet"
    found = as_json("aggregate", log, "--data", data, "--out", tmp_path / "clicks")
    (read,) = found["read"]
    assert (read["pages"], read["rows_of_unknown_documents"]) == (2000, 0)
    assert read["rows"] == read["rows_used"] + read["rows_of_unknown_queries"] > read["rows_used"]
    result = invoke("aggregate", log, "--data", data, "--out", tmp_path / "again")
    assert "Rows that are left out" in result.stdout
    said = f"; {read['rows_of_unknown_queries']:,} rows have a query that is not in the ranking data."
    assert said in result.stderr
    assert said in invoke("train", data, "--log", log, *KNOWN, *QUICK, "--out", tmp_path / "ranker").stderr
    result = invoke("inspect", log, "--data", data, "--out", tmp_path / "page.html")
    assert said in result.stderr
    assert "Rows that are left out" in result.stdout
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f"Left out: {read['rows_of_unknown_queries']:,} rows with a query that is not in the data." in page
    with pytest.raises(cr.CounterrankError, match="rows have a query that is not in the ranking data"):
        attempt("aggregate", log, "--data", data, "--strict", "--out", tmp_path / "strict")
    dropped = ("--strict", "--on-error", "skip", "--out", tmp_path / "strict")
    (read,) = as_json("aggregate", log, "--data", data, *dropped)["read"]
    assert read["rows"] == read["rows_used"] + read["rows_dropped"]
    assert cr.ClickCounts.load(tmp_path / "strict" / "train").n_sessions == 2000


def test_files_of_parts_may_hold_rows_of_others(place, tmp_path):
    (tmp_path / "log").mkdir()
    for part in ("train", "validation", "test"):
        (tmp_path / "log" / f"{part}.parquet").write_bytes((place / "log" / "all.parquet").read_bytes())
    found = as_json("aggregate", tmp_path / "log", "--data", FOLD, "--out", tmp_path / "clicks")
    assert [row["pages"] for row in found["parts"]] == [2000, 2000, 2000]
    for read in found["read"]:
        assert read["rows"] == read["rows_used"] + read["rows_of_unknown_queries"]


def test_documents_that_the_data_lacks(place, tmp_path):
    log, data = place / "log", place / "lacking.parquet"
    fixed = ("train", data, "--log", log, *QUICK, "--out", tmp_path / "ranker")
    refused = r"impressions \(.*%\) are of documents that the ranking data does not have, so the policy ranked"
    for known in (
        KNOWN,
        ("--estimator", "affine", "--alpha", "0.9,0.5,0.3,0.2,0.1", "--beta", "0.1,0.1,0,0,0", *KNOWN[:4]),
    ):
        with pytest.raises(cr.CounterrankError, match=refused):
            attempt(*fixed, *known)
    with pytest.raises(cr.CounterrankError, match=refused):
        attempt("inspect", log, "--data", data, *KNOWN)
    with pytest.raises(cr.CounterrankError, match="would have wrong ranks; --on-error skip drops the pages"):
        attempt(*fixed, "--policy", "fitted-plackett-luce:k=5", *CURVE)
    stopped = run(*fixed, *KNOWN)
    assert stopped.returncode == 2
    lines = stopped.stderr.splitlines()
    assert [line.partition(":")[0] for line in (lines[0], lines[-1])] == ["Warning", "counterrank"]
    assert not (tmp_path / "ranker").exists()
    result = invoke(*fixed, "--policy", "estimated", *CURVE)
    assert "have a document that is not among the candidates of its query" in result.stderr
    as_json("aggregate", log, "--data", data, "--out", tmp_path / "clicks")
    with pytest.raises(cr.CounterrankError, match=refused):  # the folder remembers it
        attempt("train", data, "--clicks", tmp_path / "clicks", *QUICK, *KNOWN, "--out", tmp_path / "other")
    result = invoke("inspect", log, "--data", data, "--out", tmp_path / "page.html")
    assert "with a document that is no candidate" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_several_named_policies_are_refused_too(place, tmp_path):
    table = pq.read_table(place / "log" / "all.parquet")
    named = table.append_column("policy", pa.array(np.where(table["session_id"].to_numpy() % 2, "new", "old")))
    pq.write_table(named, tmp_path / "log.parquet")
    both = ("--policy", "old=uniform-insert:k=5", "--policy", "new=uniform-insert:k=5", "--logger", "feature:1", *CURVE)
    fixed = ("train", "--log", tmp_path / "log.parquet", *QUICK, *both, "--out", tmp_path / "ranker")
    with pytest.raises(cr.CounterrankError, match="so the policy ranked more candidates than are known"):
        attempt(*fixed, place / "lacking.parquet")
    invoke(*fixed, place / "train.parquet")
