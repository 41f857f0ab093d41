"""Click logs in frames: the counts, reports and messages are those of the same rows in Parquet."""

from __future__ import annotations

import sys
import tempfile
import warnings
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank.clicks import ClickCounts
from counterrank.clicks.logs import LogOptions, read_parts
from counterrank.clicks.logs.log_reader import read_display_probabilities, read_logging_scores
from tests.logs.test_log_fuzz import PHASES, data_of, logs
from tests.logs.test_log_reader import DATA, cells_of
from tests.support import log_files
from tests.support.spark_cluster import needs_spark

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

COLUMNS = {
    "session_id": [1, 1, 2, 3],
    "query_id": ["a", "a", "b", "a"],
    "doc_id": ["x", "y", "x", "y"],
    "rank": [1, 2, 1, 1],
    "clicked": [True, False, True, False],
    "policy": ["v1", "v1", "v2", "v1"],
    "propensity": [1.0, 0.5, 1.0, 0.5],
    "timestamp": pd.to_datetime(["2026-01-01 10:00", "2026-01-01 10:00", "2026-01-02 10:00", "2026-01-03 10:00"]),
}
CELLS = [(0, 1, 1, 1), (3, 1, 1, 1), (4, 1, 1, 0), (4, 2, 1, 0)]


class OnlyAStream:
    """Anything that has the Arrow PyCapsule interface and nothing else."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)

    def __repr__(self):
        raise AssertionError("nobody prints a frame")


def pandas_frame():
    return pd.DataFrame(COLUMNS)


FRAMES = {
    "pandas": pandas_frame,
    "pandas with another index": lambda: pandas_frame().set_index(pd.Index([7, 7, 7, 1])),
    "pandas categories": lambda: pandas_frame().astype(dict.fromkeys(("query_id", "doc_id", "policy"), "category")),
    "pandas whole categories": lambda: pandas_frame().astype({"session_id": "category", "rank": "category"}),
    "pandas nullable": lambda: pandas_frame().convert_dtypes(),
    "pandas arrow": lambda: pandas_frame().convert_dtypes(dtype_backend="pyarrow"),
    "pandas objects": lambda: pandas_frame().astype(object),
    "pandas floats": lambda: pandas_frame().astype({"session_id": float, "rank": "float32", "clicked": float}),
    "pandas half floats": lambda: pandas_frame().astype({"propensity": np.float16}),
    "pandas texts": lambda: pandas_frame().astype({"session_id": str, "rank": str}),
    "pandas with a zone": lambda: pandas_frame().assign(
        timestamp=pandas_frame()["timestamp"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")
    ),
    "pandas with columns of no use": lambda: pandas_frame().assign(
        note=[1, "a", None, {}], span=pd.period_range("2026-01", periods=4, freq="M")
    ),
    "polars": lambda: pl.from_pandas(pandas_frame()),
    "polars categories": lambda: pl.from_pandas(pandas_frame()).with_columns(pl.col("query_id").cast(pl.Categorical)),
    "polars lazy": lambda: pl.from_pandas(pandas_frame()).lazy(),
    "arrow table": lambda: pa.Table.from_pandas(pandas_frame()),
    "arrow batch": lambda: pa.RecordBatch.from_pandas(pandas_frame()),
    "arrow reader": lambda: pa.Table.from_pandas(pandas_frame()).to_reader(),
    "arrow chunks": lambda: pa.concat_tables([pa.Table.from_pandas(pandas_frame()).slice(i, 1) for i in range(4)]),
    "duckdb relation": lambda: duckdb.from_arrow(pa.Table.from_pandas(pandas_frame())),
    "a stream": lambda: OnlyAStream(pa.Table.from_pandas(pandas_frame())),
}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_every_kind_of_frame(make, recwarn):
    counts = cr.read_log(make(), DATA)
    assert cells_of(counts) == CELLS
    assert counts.policy_names == ("v1", "v2")
    assert counts.propensities.tolist() == [1.0, 1.0, 0.5, 0.5]
    assert (counts.origin.first, counts.origin.last) == ("2026-01-01T10:00:00Z", "2026-01-03T10:00:00Z")
    assert counts.origin.paths == ("frame",)
    counts.check_data(DATA)
    same(ClickCounts.from_frame(make(), DATA), counts)
    assert not [str(each.message) for each in recwarn if each.category is UserWarning]


def same(one, other, leave_out=()):
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if field.name in leave_out:
            continue
        if field.name == "displays" and a is not None:
            same(a, b)
        elif field.name == "origin":
            assert a.describe() | {"paths": []} == b.describe() | {"paths": []}
        elif isinstance(a, np.ndarray):
            np.testing.assert_array_equal(a, b, err_msg=field.name)
        else:
            assert a == b, field.name


@pytest.mark.parametrize(
    "clicked", [["Y", "N", "yes", "no"], ["T", "f", "TRUE", "False"], [1, 0, 1, 0], [1.0, 0, 1, 0]]
)
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "frame"])
def test_words_for_a_click(tmp_path, clicked, ending):
    rows = log_files.as_rows(zip(*(COLUMNS[name] for name in log_files.NAMES[:4]), clicked, strict=True))
    path = log_files.write(tmp_path / f"log.{'parquet' if ending == 'frame' else ending}", rows)
    assert cells_of(cr.read_log(pd.read_parquet(path) if ending == "frame" else path, DATA)) == CELLS


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, phases=PHASES)
@given(st.data())
def test_a_frame_is_read_as_the_same_rows_in_parquet(draw):
    """Whatever is wrong in them: counts, report, warnings and errors but for the name of the log."""
    log = draw.draw(logs())
    names = {name: log["options"].columns.get(name, name) for name in log["columns"]}
    rows = [{names[name]: row[name] for name in log["columns"]} for row in log["rows"]]
    data = draw.draw(st.sampled_from([None, data_of(log["candidates"], log["numbers"])]))
    displays = not log["options"].impressions and draw.draw(st.booleans())
    kind = draw.draw(st.sampled_from(["arrow", "polars", "pandas"]))
    with tempfile.TemporaryDirectory() as folder:
        path = log_files.write(Path(folder) / "log.parquet", rows, sorted(names.values()))
        table = pq.read_table(path)
        frame = {"arrow": table, "polars": pl.from_arrow(table)}.get(kind, table)
        if kind == "pandas":
            frame = table.to_pandas(types_mapper=pd.ArrowDtype)
        expected = outcome(path, data, displays, log["options"])
        found = outcome(frame, data, displays, log["options"])
    texts = [[str(text).replace(str(path), "frame") for text in each[0]] for each in (expected, found)]
    assert texts[0] == texts[1]
    assert (expected[1] is None) == (found[1] is None)
    if found[1] is not None:
        for one, other in zip(expected[1].counts, found[1].counts, strict=True):
            same(one, other)
        one, other = expected[1].report.summary(), found[1].report.summary()
        assert one | {"log": ""} == other | {"log": ""}


def outcome(log, data, displays, options):
    """Warnings or the error, and what was read."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = read_parts(log, () if data is None else (data,), displays=displays, options=options)
        except cr.CounterrankError as error:
            return [error], None
    return [each.message for each in caught], found


BAD = {
    "a number": (7, {}, "path: int; expected the path of a click log, or a frame"),
    "a list of rows": ([{"rank": 1}], {}, "path: list; expected the path"),
    "a column alone": (pd.Series([1, 2]), {}, "path: Series; expected the path"),
    "no rows": (pandas_frame().iloc[:0], {}, "frame: no rows"),
    "no column": (pandas_frame().drop(columns="rank"), {}, "frame: no column 'rank'; the log has"),
    "its own names": (
        pandas_frame().rename(columns={"rank": "position"}), {}, r"the log has .*'position'.*columns=\{'rank'"
    ),
    "one column twice": (
        pd.concat([pandas_frame(), pandas_frame()[["rank"]]], axis=1), {}, "columns 'rank' and 'rank' are the same"
    ),
    "names of one kind": (pandas_frame().assign(Rank=1), {}, "columns 'rank' and 'Rank' are the same name"),
    "a format": (pandas_frame(), {"format": "csv"}, "format='csv': of files; expected 'auto' for a frame"),
    "actions": (pandas_frame(), {"click_actions": ["buy"]}, "click_actions=.*frame is parquet"),
    "lists": (pandas_frame().assign(query_id=[[1], [2], [3], [4]]), {}, "frame: column 'query_id' has type BIGINT"),
    "mixed": (
        pandas_frame().assign(query_id=[None, 1, "a", 2]), {}, "^frame: column 'query_id' holds values of several "
        r"types, int in row 1 and str in row 2; expected one type of values: cast it, such as frame\['query_id'\]\.ast"
    ),
    "halves": (pandas_frame().assign(session_id=[1, 1.5, 2, 3]), {}, "1 row has a session_id that is not whole"),
    "missing": (
        pandas_frame().assign(session_id=[1, np.nan, 2, 3]), {}, r"1 row has no session_id \(row 1: session_id None"
    ),
    "a frame for data": (pandas_frame(), {"data": pandas_frame()}, "data: DataFrame; expected RankingData, a Fold"),
    "a frame for columns": (pandas_frame(), {"columns": pandas_frame()}, r"columns=DataFrame of shape \(4, 8\): "),
    "a frame for policies": (pandas_frame(), {"only_policies": pandas_frame()}, "only_policies=DataFrame of shape"),
    "a frame for memory": (pandas_frame(), {"memory": pandas_frame()}, "memory=DataFrame of shape"),
    "a frame for an engine": (pandas_frame(), {"engine": pandas_frame()}, "engine=DataFrame of shape"),
    "a frame for on_error": (pandas_frame(), {"on_error": pandas_frame()}, "on_error=DataFrame of shape"),
    "a frame for a base": (pandas_frame(), {"rank_base": pandas_frame()}, "rank_base=DataFrame of shape"),
    "a frame for actions": (pandas_frame(), {"click_actions": pandas_frame()}, "click_actions=DataFrame of shape"),
    "a frame for threads": (pandas_frame(), {"threads": pandas_frame()}, "threads=DataFrame of shape"),
    "a frame for a master": (pandas_frame(), {"master": pandas_frame()}, "master=DataFrame of shape"),
}  # fmt: skip


@pytest.mark.parametrize(("frame", "options", "message"), BAD.values(), ids=BAD)
def test_bad_frames_and_arguments(frame, options, message):
    with pytest.raises(cr.CounterrankError, match=message) as error:
        cr.read_log(frame, **options)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


def test_from_frame_takes_frames_only(tmp_path):
    with pytest.raises(cr.CounterrankError, match="frame: str; expected a frame of pandas"):
        ClickCounts.from_frame(str(tmp_path))
    with pytest.raises(cr.CounterrankError, match="data: Fold; expected RankingData"):
        ClickCounts.from_frame(pandas_frame(), cr.Fold(DATA.subset([0]), None, DATA.subset([1])))


def test_all_options(recwarn):
    frame = pandas_frame().rename(columns={"rank": "position", "clicked": "is_click"})
    frame["position"] -= 1
    names = {"rank": "position", "clicked": "is_click"}
    counts = cr.read_log(frame, DATA, columns=names, rank_base=0, only_policies=["v1"], displays=True)
    assert cells_of(counts) == [(3, 1, 1, 1), (4, 1, 1, 0), (4, 2, 1, 0)]
    assert counts.displays.n_pages == 2
    bare = pandas_frame()[["doc_id", "rank", "clicked"]]
    assert cr.read_log(bare, impressions=True).n_sessions == 4
    worse = pd.concat([pandas_frame(), pandas_frame().iloc[:1]], ignore_index=True)
    worse.loc[4, ["session_id", "rank", "doc_id"]] = 3, 2, "y"
    with pytest.warns(UserWarning, match="frame: dropped 2 of 5 rows, with 1 pages: 2 because they or their page"):
        assert cr.read_log(worse, DATA, on_error="skip").n_sessions == 2


def test_what_else_is_read_from_a_frame():
    frame = pandas_frame().assign(display_probability=0.5, logging_score=[2.0, 1.0, 2.0, 1.0], policy="v1")
    found = read_display_probabilities(frame)
    assert found.impressions.tolist() == [1, 1, 1, 1]
    data = cr.RankingData(np.zeros((3, 1)), [0, 2, 3], query_ids=["a", "b"], doc_ids=["x", "y", "x"])
    assert read_logging_scores(frame, [data])[0].tolist() == [2.0, 1.0, 2.0]


@needs_spark
@pytest.mark.parametrize("kind", ["pandas", "pandas with a zone", "pandas categories", "pandas floats", "polars"])
def test_spark_reads_frames(local_spark, kind):
    frame = FRAMES[kind]()
    one = read_parts(frame, [DATA], displays=True, drift=True)
    other = read_parts(frame, [DATA], displays=True, drift=True, options=LogOptions(engine="spark", master="local[2]"))
    same(one.counts[0], other.counts[0])
    assert one.drift == other.drift
    bad = pandas_frame().assign(clicked=["y", "n", "perhaps", "NO"])
    with pytest.raises(cr.CounterrankError, match=r"not 0 or 1 \(row 2: session_id 2, .*clicked 'perhaps'"):
        cr.read_log(bad, DATA, engine="spark", master="local[2]")


@pytest.mark.parametrize("on_error", ["skip", "fail"])
def test_times_with_a_zone_in_a_broken_row_need_no_pytz(monkeypatch, on_error):
    """DuckDB hands over such times with pytz only, which is no dependency."""
    times = pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * 4)
    columns = {"session_id": [1, 1, 2, 2], "query_id": ["a"] * 4, "doc_id": ["x", "y", "x", "y"], "rank": [1, 2, 1, 2]}
    log = pa.table({**columns, "clicked": ["Y", "maybe", "Y", "N"], "timestamp": times})
    data = cr.RankingData([[0.0], [1.0]], [0, 2], query_ids=["a"], doc_ids=["x", "y"])
    monkeypatch.setitem(sys.modules, "pytz", None)
    if on_error == "skip":
        with pytest.warns(UserWarning, match="dropped 2 of 4 rows"):
            assert cr.read_log(log, data, on_error=on_error).n_sessions == 1
    else:
        with pytest.raises(cr.CounterrankError, match=r"clicked 'maybe', timestamp 2026-01-01 00:00:00\+00"):
            cr.read_log(log, data, on_error=on_error)
