"""Timestamps of a log: what is a date, what is not and is reported, and what is counted over time."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank.clicks.logs import LogOptions, read_parts
from tests.support import log_files
from tests.support.command import as_json, run
from tests.support.spark_cluster import needs_spark

SECONDS = 1_767_225_600  # 2026-01-01 00:00 UTC


def rows_at(times):
    rows = log_files.as_rows([(i, "q", "a", 1, i % 2) for i in range(len(times))])
    return [{**row, "timestamp": at} for row, at in zip(rows, times, strict=True)]


READ = {
    "seconds": [SECONDS, SECONDS + 60],
    "seconds with fractions": [SECONDS + 0.5, SECONDS + 60.25],
    "milliseconds": [SECONDS * 10**3, (SECONDS + 60) * 10**3],
    "microseconds": [SECONDS * 10**6, (SECONDS + 60) * 10**6],
    "nanoseconds": [SECONDS * 10**9, (SECONDS + 60) * 10**9],
    "texts": ["2026-01-01 00:00:00", "2026-01-01T00:01:00Z"],
    "zones": ["2026-01-01 02:00:00+02:00", "2025-12-31T19:01:00-05:00"],
    "numbers as texts": [str(SECONDS), str(SECONDS * 1000 + 60_000)],
}


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("times", READ.values(), ids=READ)
def test_times_that_are_read(tmp_path, times, ending, recwarn):
    path = log_files.write(tmp_path / f"log.{ending}", rows_at(times))
    found = read_parts(path, (), drift=True)
    assert [each["begin"] for each in found.drift[0]] == ["2026-01-01 00:00", "2026-01-01 00:01"]
    assert found.counts[0].origin.first == "2026-01-01T00:00:00Z"
    assert (found.report.notes, found.report.dated) == ((), True)
    assert not recwarn.list


TYPES = [pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us", "America/New_York"), pa.timestamp("ns", "UTC")]


@pytest.mark.parametrize("kind", [*TYPES, pa.timestamp("ns"), pa.date32()], ids=str)
@pytest.mark.parametrize("as_frame", [False, True])
def test_types_for_times(tmp_path, kind, as_frame, monkeypatch):
    """In whatever zone the machine is."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        table = pa.Table.from_pylist(rows_at([None, None])).drop(["timestamp"])
        moments = pa.array([SECONDS, SECONDS + 86400], pa.timestamp("s")).cast(kind)
        table = table.append_column("timestamp", moments)
        pq.write_table(table, tmp_path / "log.parquet")
        found = read_parts(table if as_frame else tmp_path / "log.parquet", (), drift=True)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert found.counts[0].origin.first == "2026-01-01T00:00:00Z"
    assert found.counts[0].origin.last == "2026-01-02T00:00:00Z"


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "frame"])
def test_a_few_that_cannot_be_read_are_reported(tmp_path, ending):
    """The rows count, and not over time."""
    times = ["2026-01-01 00:00:00", "16/05/2024 10 o'clock", None, "2026-01-01 00:01:00", "7"]
    path = log_files.write(tmp_path / f"log.{'parquet' if ending == 'frame' else ending}", rows_at(times))
    log = pq.read_table(path) if ending == "frame" else path
    place = {"csv": "line 3", "jsonl": "line 2"}.get(ending, "row 1")
    name = "frame" if ending == "frame" else str(path)
    # one number among texts is no reason to doubt the texts, but a tenth of the numbers would be
    text = f'{name}: 2 rows have a timestamp that is not a date ({place}: timestamp "16/05/2024 10 o\'clock")'
    found = read_parts(log, (), drift=True)
    assert found.counts[0].n_impressions == 5
    assert found.report.used == found.report.rows == 5
    assert found.report.date_message().startswith(text)
    rows = rows_at(times)
    rows[4]["timestamp"] = "soon"
    path = log_files.write(path, rows)
    log = pq.read_table(path) if ending == "frame" else path
    found = read_parts(log, (), drift=True)
    assert [each["impressions"] for each in found.drift[0]] == [1, 1]
    assert found.report.dated
    assert "; these rows count, but not over time; expected ISO 8601" in found.report.date_message()
    (note,) = found.report.summary()["notes"]
    assert (note["count"], note["unit"]) == (2, "rows")
    with pytest.warns(UserWarning, match="2 rows have a timestamp that is not a date") as caught:
        assert cr.read_log(log).n_impressions == 5
    assert len(caught) == 1
    assert caught[0].filename == __file__


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "frame"])
def test_the_first_bad_date_is_shown(tmp_path, ending):
    """By row, not by session."""
    rows = rows_at(["2026-01-01", "31.12.2025", "2026-01-02", "soon", None])[::-1]
    path = log_files.write(tmp_path / f"log.{'parquet' if ending == 'frame' else ending}", rows)
    place = {"csv": "line 3", "jsonl": "line 2"}.get(ending, "row 1")
    with pytest.warns(
        cr.LogWarning, match=rf"2 rows have a timestamp that is not a date \({place}: timestamp 'soon'\)"
    ):
        cr.read_log(pq.read_table(path) if ending == "frame" else path)


NOT_DATES = {
    "a counter": np.arange(200),
    "days": 20260101 + np.arange(200),
    "minutes": 20260101120000 + np.arange(200),
    "up to the year 2194": np.linspace(1.7e9, 7.07e9, 200).astype(int),
    "fractions": np.linspace(0, 1, 200),
    "negative": -np.arange(1, 201),
    "not finite": np.full(200, np.nan),
}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("times", NOT_DATES.values(), ids=NOT_DATES)
def test_numbers_that_are_not_times_give_a_note_and_no_table(tmp_path, times, ending):
    path = log_files.write(tmp_path / f"log.{ending}", rows_at(times.tolist()))
    found = read_parts(path, (), drift=True)
    assert found.drift is None
    assert found.counts[0].n_impressions == 200
    assert (found.counts[0].origin.first, found.counts[0].origin.last) == (None, None)
    assert not found.report.dated
    assert "; timestamps are not used; expected" in found.report.date_message()
    summary = as_json("inspect", path)
    assert summary["drift"] is None
    assert summary["read"]["notes"][0]["count"] == found.report.notes[0].count


def test_the_command_notes_it(tmp_path):
    path = log_files.write(tmp_path / "log.csv", rows_at(list(range(50))))
    done = run("inspect", path)
    assert done.returncode == 0
    assert "Over time" not in done.stdout
    assert "Note: " in done.stderr
    assert "50 rows have a timestamp that is not a date (line 2: timestamp 0); timestamps are not used" in done.stderr


def test_nothing_is_said_where_no_row_has_a_time(tmp_path, recwarn):
    path = log_files.write(tmp_path / "log.csv", rows_at([None, None]))
    found = read_parts(path, (), drift=True)
    assert (found.drift, found.report.notes, found.report.dated) == (None, (), False)
    assert not recwarn.list


@needs_spark
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_spark_reads_the_same_dates(local_spark, tmp_path, ending):
    odd = ["2026-01-01", "2026/01/02 10:00", "2026-13-01", "yesterday", " 2026-01-03 ", "1e9", "nan", "-1", "", None]
    odd += ["2026-01-01T00:00:00.123456Z", "2026-01-01 02:00:00+02:00", "1767225600.5", "176722560000", "2026"]
    odd += ["2026-01", "2026-01-02T10", "now", "today", "epoch", "10:00", "2026-1-2", "2026-01-02T10:30"]
    path = log_files.write(tmp_path / f"log.{ending}", rows_at([*odd, *(str(SECONDS + 60 * i) for i in range(60))]))
    options = LogOptions()
    one = read_parts(path, (), drift=True, options=options)
    other = read_parts(path, (), drift=True, options=replace(options, engine="spark", master="local[2]"))
    assert one.drift == other.drift
    assert one.report.notes[0].count == other.report.notes[0].count
    assert one.report.notes[0].example == other.report.notes[0].example
    assert one.counts[0].origin.describe() == other.counts[0].origin.describe()
