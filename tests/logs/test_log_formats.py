"""Click logs as OpenSearch UBI and as events of metarank: the shapes they come in, and how they are recognised."""

from __future__ import annotations

import gzip
import json
import warnings
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank.clicks.logs import LogOptions, read_log, read_parts
from counterrank.clicks.logs.formats import event_format, find_log
from counterrank.clicks.logs.log_reader import opened
from tests.support.event_logs import (
    CLICKS_ONLY,
    EVENTS,
    FROM_IMPRESSIONS,
    FROM_LISTS,
    FROM_RANKINGS,
    RANKED,
    SEARCHES,
    TIME,
    as_bulk,
    as_export,
    event,
    interaction,
    lines,
    ranking,
    rows,
    search,
)
from tests.support.paths import ROOT


def test_ubi_by_hand(tmp_path):
    lines(tmp_path / "ubi_queries.json", SEARCHES)
    lines(tmp_path / "ubi_events.json", EVENTS)
    assert rows(tmp_path) == FROM_IMPRESSIONS
    data = cr.RankingData(np.zeros((3, 1)), [0, 3], query_ids=["red shoes"], doc_ids=["a", "b", "c"])
    counts = read_log(tmp_path, data, displays=True)
    assert counts.sessions.tolist() == [2]
    cells = list(zip(counts.docs, counts.ranks, counts.impressions, counts.clicks, strict=True))
    assert cells == [(0, 1, 1, 0), (1, 2, 1, 1), (2, 1, 1, 0)]


def test_without_impressions_what_was_returned_was_shown(tmp_path):
    lines(tmp_path / "ubi_queries.json", [*SEARCHES, SEARCHES[0], search("s3", "nothing found", [])])
    lines(tmp_path / "ubi_events.json", CLICKS_ONLY)
    assert rows(tmp_path) == FROM_LISTS
    from_zero = Counter({(*row[:3], str(int(row[3]) - 1), *row[4:]): n for row, n in FROM_LISTS.items()})
    assert rows(tmp_path, rank_base=0) == from_zero
    assert read_log(tmp_path, rank_base=0).ranks.min() == 1


def written_as(shape, folder):
    """The same log, as it is found."""
    if shape == "one file":
        lines(folder / "log.ndjson", [*EVENTS, *SEARCHES])
    elif shape == "bulk":
        lines(folder / "log.ndjson", as_bulk("ubi_queries", SEARCHES) + as_bulk("ubi_events", EVENTS))
    elif shape == "export":
        lines(folder / "q.json", as_export("ubi_queries", SEARCHES))
        lines(folder / "e.json", as_export("ubi_events", EVENTS))
    elif shape == "array":
        (folder / "ubi_queries.json").write_text(json.dumps(SEARCHES))
        (folder / "ubi_events.json").write_text(json.dumps(EVENTS, indent=2))
    elif shape == "arrays on lines":
        lines(folder / "log.jsonl", [[each] for each in [*EVENTS, *SEARCHES]])
    elif shape == "answers to searches":
        for name, each in (("ubi_queries", SEARCHES), ("ubi_events", EVENTS)):
            answer = {"took": 1, "hits": {"total": {"value": 9}, "hits": as_export(name, each)}}
            (folder / f"{name}.json").write_text(json.dumps(answer, indent=1 if name == "ubi_events" else None))
    elif shape == "gzip":
        for name, each in (("ubi_queries", SEARCHES), ("ubi_events", EVENTS)):
            with gzip.open(folder / f"{name}.jsonl.gz", "wt") as file:
                file.write("\n".join(map(json.dumps, each)))
    elif shape == "parquet":
        pq.write_table(pa.Table.from_pylist([{**each, "query_attributes": ""} for each in SEARCHES]), folder / "q.pq")
        pq.write_table(pa.Table.from_pylist(EVENTS), folder / "e.parquet")
    elif shape == "parquet and json":
        lines(folder / "ubi_queries.json", SEARCHES)
        pq.write_table(pa.Table.from_pylist(EVENTS), folder / "ubi_events.parquet")
    else:
        raise AssertionError(shape)


SHAPES = ["one file", "bulk", "export", "array", "arrays on lines", "answers to searches", "gzip", "parquet"]


@pytest.mark.parametrize("shape", [*SHAPES, "parquet and json"])
def test_shapes_of_ubi(tmp_path, shape):
    written_as(shape, tmp_path)
    (tmp_path / "README.md").write_text("how it was exported")
    assert find_log(tmp_path).format == "ubi"
    assert rows(tmp_path) == FROM_IMPRESSIONS
    assert rows(tmp_path, format="ubi") == FROM_IMPRESSIONS


ORDINALS = {
    "an object": {"object": {"object_id": 7}, "position": {"ordinal": {"index": 3}}},
    "text": {"object": {"object_id": "7"}, "position": {"ordinal": "3", "x": 1}},
    "in the object": {"object": {"object_id": "7", "position": {"ordinal": 3}}},
    "of the generator": {"object": {"object_id": "7"}, "rank": 3},
}


@pytest.mark.parametrize("attributes", ORDINALS.values(), ids=ORDINALS)
def test_where_ordinals_are(tmp_path, attributes):
    shown = event("impression", "s1", user_query="x") | {"event_attributes": attributes}
    assert rows(lines(tmp_path / "e.json", [shown])) == {("s1", "x", "7", "3", False, False): 1}


def test_flattened_names(tmp_path):
    shown = {"action_name": "impression", "query_id": "s1", "user_query": "x", "timestamp": TIME}
    shown |= {"event_attributes.object.object_id": "7", "event_attributes.position.ordinal": 3}
    assert rows(lines(tmp_path / "e.json", [shown])) == {("s1", "x", "7", "3", False, False): 1}


@pytest.mark.parametrize("name", ["query_response_object_ids", "query_response_objects_ids"])
def test_earlier_names_of_hits(tmp_path, name):
    found = [search("s1", "x") | {name: ["a", "b"]}, search("s2", "x") | {name: "a"}]
    shown = rows(lines(tmp_path / "q.json", [*found, event("click", "s1", "b")]))
    assert {row[:5] for row in shown} == {
        ("s1", "x", "a", "1", False),
        ("s1", "x", "b", "2", True),
        ("s2", "x", "a", "1", False),
    }


def test_queries_of_events(tmp_path):
    """Those of ubi_queries, else those that events carry; a search without a text is a query of its own."""
    shown = [event("impression", f"s{i}", "a", 1, user_query=query) for i, query in enumerate(["X ", "y", None, "z"])]
    path = lines(tmp_path / "log.json", [search("s1", "w"), search("s3", ""), *shown])
    assert {row[:2] for row in rows(path)} == {("s0", "x"), ("s1", "w"), ("s2", None), ("s3", "s3")}
    with pytest.raises(cr.CounterrankError, match="1 row has no query_id"):
        read_log(path)


TIMES = {
    "2024-05-16T12:34:56.789Z": "2024-05-16 12:34:56.789",
    "2018-11-13T20:20:39+02:00": "2018-11-13 18:20:39",
    "2018-11-13T20:20:39": "2018-11-13 20:20:39",
    "1599391467000": "2020-09-06 11:24:27",
    1599391467000: "2020-09-06 11:24:27",
    "yesterday": None,
    -1: None,
    1e300: None,
}


@pytest.mark.parametrize(("time", "expected"), TIMES.items(), ids=str)
def test_times(tmp_path, time, expected):
    path = lines(tmp_path / "log.json", [ranking("r1", "x", ["a"]) | {"timestamp": time}])
    with opened(path, LogOptions()) as (engine, _, columns):
        assert columns.has("timestamp")
        assert engine.local.execute("select cast(timestamp as varchar) from raw").fetchall() == [(expected,)]


def test_metarank_by_hand(tmp_path):
    path = lines(tmp_path / "events.jsonl", RANKED)
    assert rows(path) == FROM_RANKINGS
    (tmp_path / "array").mkdir()
    (tmp_path / "array" / "events.json").write_text(json.dumps(RANKED, indent=2))
    assert rows(tmp_path / "array") == FROM_RANKINGS
    report = read_parts(path, ()).report
    assert (report.rows, report.used, report.pages, report.faults) == (5, 5, 2, ())


def test_items_that_are_only_names(tmp_path):
    found = {"event": "ranking", "id": 7, "timestamp": 0, "items": ["a", 8, {}]}
    shown = rows(lines(tmp_path / "events.jsonl", [found]))
    assert {row[:4] for row in shown} == {("7", "7", "a", "1"), ("7", "7", "8", "2"), ("7", "7", None, "3")}


def test_other_names_of_clicks(tmp_path):
    path = lines(tmp_path / "events.jsonl", RANKED)
    chosen = rows(path, click_actions=("Purchase", "like"))
    assert [row[2] for row in chosen if row[4]] == ["c"]
    with pytest.warns(UserWarning, match="no event is called 'tap'; others are called 'click', 'purchase'"):
        assert not any(row[4] for row in rows(path, click_actions=("tap",)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows(lines(tmp_path / "shown.jsonl", RANKED[2:3]))


def test_values_longer_than_what_is_looked_into(tmp_path):
    """More than the mebibyte by which files are recognised: in one line, in an array, over many lines."""
    many = [search(f"s{i}", "x" * 400, ["a"]) for i in range(3000)]
    answer = {"took": 1, "hits": {"total": {"value": 9}, "hits": as_export("ubi_queries", many)}}
    written = {
        "answer": json.dumps(answer),
        "answer over lines": json.dumps(answer, indent=1),
        "array": json.dumps(many),
        "array over lines": json.dumps(many, indent=1),
    }
    for name, text in written.items():
        path = tmp_path / f"{name}.json"
        path.write_text(text)
        assert find_log(path).format == "ubi", name
        assert rows(path).total() == 3000, name


PLAIN = {"session_id": 1, "query_id": "q", "doc_id": "a", "rank": 1, "clicked": 0}
KNOWN = {
    "plain": (PLAIN, None),
    "a column called event": ({"event": "ranking", **PLAIN}, None),
    "events of another kind": ({"event": "click", "id": 1, "items": []}, None),
    "the same words": ({"event": "item", "item": "a", "position": 1, "is_click": 0}, None),
    "a column called action_name": ({"action_name": "click", **PLAIN}, None),
    "other actions": ({"action_name": "deploy", "id": 3}, None),
    "another index": ({"index": {"_index": "logs-2024"}}, None),
    "a list": ({"event": ["ranking"], "id": 1, "items": []}, None),
    "an event": (event("login", None), "ubi"),
    "a search": (search("s1", "x"), "ubi"),
    "bulk": ({"create": {"_index": "ubi_events"}}, "ubi"),
    "ranking": (ranking("r", "x", []), "metarank"),
    "interaction": (interaction("r", "x"), "metarank"),
    "item": (RANKED[0], "metarank"),
    "user": (RANKED[1], "metarank"),
}


@pytest.mark.parametrize(("found", "expected"), KNOWN.values(), ids=KNOWN)
def test_recognised(tmp_path, found, expected):
    assert event_format(found) == expected
    assert find_log(lines(tmp_path / "log.jsonl", [found])).format == (expected or "jsonl")


def test_a_plain_log_with_events_in_a_column(tmp_path):
    path = lines(tmp_path / "log.jsonl", [{"event": "ranking", "orphan": True, **PLAIN}])
    assert read_log(path).n_impressions == 1
    pq.write_table(pa.Table.from_pylist([{"action_name": "x", "orphan": True, **PLAIN}]), tmp_path / "log.parquet")
    assert read_log(tmp_path / "log.parquet").n_impressions == 1


def test_folders_of_several_formats(tmp_path):
    lines(tmp_path / "a.jsonl", RANKED)
    lines(tmp_path / "b.jsonl", EVENTS)
    with pytest.raises(cr.CounterrankError, match=r"files of several formats \(metarank, ubi\)"):
        find_log(tmp_path)
    (tmp_path / "a.jsonl").write_text("")
    assert find_log(tmp_path).format == "ubi"
    (tmp_path / "c.csv").write_text("a,b\n")
    with pytest.raises(cr.CounterrankError, match=r"files of several formats \(csv, jsonl\)"):
        find_log(tmp_path)


def test_samples_in_the_docs(tmp_path):
    """Each sample is followed by the page that it is."""
    text = (ROOT / "docs" / "reference" / "log-formats.md").read_text(encoding="utf-8")
    samples = text.split("```json\n")[1:]
    assert len(samples) == 2
    for sample in samples:
        events, _, after = sample.partition("```")
        table = after.partition("|---|")[2].partition("\n")[2].partition("\n\n")[0]
        expected = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in table.splitlines()]
        path = tmp_path / "log.jsonl"
        path.write_text(events)
        assert sorted((*row[:4], str(row[4]).lower()) for row in rows(path)) == sorted(expected)
