"""Click logs as OpenSearch UBI and as events of metarank: what is read, and what is told of the rest."""

from __future__ import annotations

import gzip
import json
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank.clicks.logs import LogOptions, read_log, read_parts
from counterrank.clicks.logs.files import find_log
from counterrank.clicks.logs.opening import opened
from counterrank.clicks.logs.recognition import event_format
from tests.naive_events import metarank_rows, ubi_rows

FEW = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
TIME = "2024-05-16T12:34:56.789Z"


def event(action, search, item=None, ordinal=None, **more):
    found = {"action_name": action, "query_id": search, "client_id": "c", "timestamp": TIME, "message": None}
    attributes = {"object": {"object_id": item, "object_id_field": "sku"}, "position": {"ordinal": ordinal}}
    return {**found, "event_attributes": attributes, **more}


def search(name, query, hits=None, **more):
    found = {"query_id": name, "user_query": query, "client_id": "c", "timestamp": TIME, "query_attributes": {}}
    return {**found, **({} if hits is None else {"query_response_hit_ids": hits}), **more}


def ranking(name, query, items):
    fields = [{"name": "source", "value": "search"}, {"name": "query", "value": query}]
    found = {"event": "ranking", "id": name, "timestamp": "1599391467000", "user": "u", "session": "s"}
    return {**found, "fields": fields, "items": [{"id": item, "relevancy": 1.0} for item in items]}


def interaction(name, item, kind="click"):
    found = {"event": "interaction", "id": "i", "timestamp": 1599391467000, "user": "u", "session": "s"}
    return {**found, "ranking": name, "item": item, "type": kind, "fields": []}


def lines(path, documents):
    path.write_text("".join(json.dumps(each) + "\n" for each in documents))
    return path


def rows(path, **options):
    """The rows of the plain log: session, query, document, rank, clicked, orphan."""
    with opened(path, LogOptions(**options)) as (engine, _, _):
        named = "session_id, query_id, doc_id, rank, clicked, orphan"
        return Counter(engine.local.execute(f"select {named} from raw").fetchall())


SEARCHES = [search("s1", " Red  SHOES ", ["a", "b", "c"]), search("s2", "red shoes", ["c", "a"])]
EVENTS = [
    event("impression", "s1", "a", 1),
    event("impression", "s1", "b", 2),
    event("Click", "s1", "b", 2),
    event("click", "s1", "b", 2),  # again on the same
    event("add_to_cart", "s1", "b", 2),
    event("view", "s1", "z"),  # a look at a product is neither
    event("impression", "s2", "c", 1),
    event("impression", "s2", "c", 1),  # scrolled back
    event("login", None),
]
FROM_IMPRESSIONS = {
    ("s1", "red shoes", "a", "1", False, False): 1,
    ("s1", "red shoes", "b", "2", True, False): 1,
    ("s2", "red shoes", "c", "1", False, False): 1,
}
FROM_LISTS = {
    ("s1", "red shoes", "a", "1", False, False): 1,
    ("s1", "red shoes", "b", "2", True, False): 1,
    ("s1", "red shoes", "c", "3", False, False): 1,
    ("s2", "red shoes", "c", "1", False, False): 1,
    ("s2", "red shoes", "a", "2", False, False): 1,
}
CLICKS_ONLY = [each for each in EVENTS if each["action_name"] != "impression"]


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


def as_bulk(index, documents):
    return [part for each in documents for part in ({"index": {"_index": index, "_id": "x"}}, each)]


def as_export(index, documents):
    return [{"_index": index, "_id": "x", "_score": 1, "_source": each} for each in documents]


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


RANKED = [
    {"event": "item", "id": "1", "timestamp": "1599391467000", "item": "a", "fields": [{"name": "t", "value": "x"}]},
    {"event": "user", "id": "2", "timestamp": "1599391467000", "user": "u", "fields": []},
    ranking("r1", "Cat ", ["a", "b", "c"]),
    interaction("r1", "b"),
    interaction("r1", "b"),
    interaction("r1", "c", "purchase"),
    {"event": "ranking", "id": "r2", "timestamp": "1599391467000", "items": [{"id": "b"}, {"id": "a"}]},
    {"event": "ranking", "id": "r3", "timestamp": "1599391467000", "fields": [], "items": []},
]
FROM_RANKINGS = {
    ("r1", "cat", "a", "1", False, False): 1,
    ("r1", "cat", "b", "2", True, False): 1,
    ("r1", "cat", "c", "3", False, False): 1,
    ("r2", "r2", "b", "1", False, False): 1,
    ("r2", "r2", "a", "2", False, False): 1,
}


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


# clicks on nothing that was shown, and how many rows of the page they spoil; the other page stays
ORPHANS_OF_UBI = {
    "not shown": (event("click", "s1", "z", 1), 2),
    "another search": (event("click", "s9", "a", 1), 0),
    "no search": (event("click", None, "a", 1), 0),
    "no document": (event("click", "s1"), 2),
}
ORPHANS_OF_METARANK = {
    "not shown": (interaction("r1", "z"), 3),
    "another ranking": (interaction("r9", "a"), 0),
    "no ranking": (interaction(None, "a"), 0),
    "no item": (interaction("r1", ""), 3),
}


@pytest.mark.parametrize(
    ("documents", "orphan", "spoiled", "total"),
    [([*SEARCHES, *EVENTS], *each, 3) for each in ORPHANS_OF_UBI.values()]
    + [(RANKED, *each, 5) for each in ORPHANS_OF_METARANK.values()],
)
def test_clicks_without_impression(tmp_path, documents, orphan, spoiled, total):
    path = lines(tmp_path / "log.jsonl", [*documents, orphan, orphan])
    with pytest.raises(cr.CounterrankError, match="2 rows are a click without an impression") as error:
        read_log(path)
    assert str(error.value).count("rows") == 2  # that, and what can be done
    with pytest.warns(UserWarning, match="are a click without an impression"):
        report = read_parts(path, (), options=LogOptions(on_error="skip")).report
    assert report.dropped == {"are a click without an impression": 2 + spoiled}
    assert (report.rows, report.used) == (total + 2, total - spoiled)


def test_clicks_without_impression_where_rows_are_pages(tmp_path):
    path = lines(tmp_path / "log.jsonl", [*SEARCHES, *EVENTS, event("click", "s1", "z", 1)])
    with pytest.warns(UserWarning, match="are a click without an impression"):
        report = read_parts(path, (), options=LogOptions(on_error="skip", impressions=True)).report
    assert (report.rows, report.used) == (4, 3)


FAULTS = {
    "a ranking twice": ([ranking("r1", "x", ["a", "b"])] * 2, "1 page shows a document twice (such as session r1)"),
    "an item twice": ([ranking("r1", "x", ["a", "a"])], "1 page shows a document twice"),
    "an item without id": ([ranking("r1", "x", ["a", None])], "1 row has no doc_id"),
    "an empty id": ([ranking("r1", "x", ["a", ""])], "1 row has no doc_id"),
    "no ranking": ([interaction("r1", "a")], "nothing tells what was shown; expected events of kind 'ranking'"),
    "items are no list": (
        [ranking("r1", "x", []) | {"items": "a"}, *RANKED],
        '1 line cannot be read (the first: {"eve',
    ),
    "unheard of": ([*RANKED, {"event": "recommend", "id": 1}], "1 line cannot be read"),
    "no words": ([*RANKED, "ranking"], '1 line cannot be read (the first: "ranking")'),
    "two searches": ([*SEARCHES, search("s1", "hats"), *EVENTS], "1 page is one session under several queries"),
    "two ranks": ([*SEARCHES, *EVENTS, event("impression", "s1", "a", 3)], "1 page shows a document twice"),
    "a gap": ([*SEARCHES, *EVENTS, event("impression", "s1", "c", 4)], "1 page has a gap"),
    "no ordinal": ([*SEARCHES, *EVENTS, *[event("impression", "s1", "c")] * 2], "2 rows have no rank"),
    "rank 0": ([*SEARCHES, *EVENTS, event("impression", "s2", "a", 0)], "1 row has a rank below 1 or not whole"),
    "half a rank": ([*SEARCHES, *EVENTS, event("impression", "s2", "a", 1.5)], "1 row has a rank below 1 or not whole"),
    "no query_id": ([*SEARCHES, *EVENTS, event("impression", None, "a", 1)], "1 row has no session_id"),
    "only clicks": (CLICKS_ONLY, "nothing tells what was shown; expected events with action_name 'impression', or"),
    "only empty": ([search("s1", "x", [])], "no rows"),
    "neither": ([*SEARCHES, *EVENTS, {"query_id": "s1"}], '1 line cannot be read (the first: {"query_id":'),
}


@pytest.mark.parametrize(("documents", "message"), FAULTS.values(), ids=FAULTS)
def test_faults(tmp_path, documents, message):
    path = lines(tmp_path / "log.jsonl", documents)
    with pytest.raises(cr.CounterrankError) as error:
        read_log(path)
    assert message in str(error.value)


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


def test_lines_that_are_no_json(tmp_path):
    path = lines(tmp_path / "log.jsonl", RANKED)
    path.write_bytes(b'{"event": "ranking", \n' + path.read_bytes() + b"\xff\xfe\n\n{}")
    with pytest.raises(cr.CounterrankError, match="3 lines cannot be read"):
        read_log(path)
    with pytest.warns(UserWarning, match="dropped 3 of 8 rows"):
        report = read_parts(path, (), options=LogOptions(on_error="skip")).report
    assert (report.rows, report.used, report.dropped) == (8, 5, {"cannot be read": 3})


def test_arrays_that_are_cut_off(tmp_path):
    path = tmp_path / "log.json"
    path.write_text(json.dumps(RANKED)[:-9])
    with pytest.raises(cr.CounterrankError, match=r"log\.json: cannot be counted"):
        read_log(path)


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


WRONG_OPTIONS = {
    "a text": ({"click_actions": "click"}, "click_actions='click': expected names of actions"),
    "none": ({"click_actions": ()}, "click_actions=(): expected names of actions"),
    "blank": ({"click_actions": (" ",)}, "click_actions=(' ',): expected names of actions"),
    "no events": ({"click_actions": ("tap",)}, "log.jsonl is jsonl; expected it only with ubi or metarank"),
    "format": ({"format": "opensearch"}, "format='opensearch'"),
    "not UBI": ({"format": "ubi"}, "nothing tells what was shown"),
}


@pytest.mark.parametrize(("options", "message"), WRONG_OPTIONS.values(), ids=WRONG_OPTIONS)
def test_wrong_options(tmp_path, options, message):
    path = lines(tmp_path / "log.jsonl", [PLAIN])
    with pytest.raises(cr.CounterrankError) as error:
        read_log(path, **options)
    assert message in str(error.value)


HOSTILE = ["'; drop table cells; --", '"', "$.query_id", "a\0b", "*", "{}", "\\", "ö\u2028", "%s", "null", "]"]


@pytest.mark.parametrize("word", HOSTILE)
def test_hostile_values(tmp_path, word):
    folder = tmp_path / word.replace("\0", "").replace("\\", "")  # DuckDB finds no files in a folder called \
    folder.mkdir(exist_ok=True)
    path = lines(folder / "it's [a] *.jsonl", [search(word, word), event("impression", word, word, 1)])
    same = word.lower()
    assert rows(path) == {(word, same, word, "1", False, False): 1}
    with pytest.warns(UserWarning, match="no event is called"):
        rows(lines(path, [ranking(word, word, [word]), interaction(word, word, "x")]), click_actions=(word,))
    assert rows(lines(path, [ranking(word, word, [word]), interaction(word, word)])) == {
        (word, same, word, "1", True, False): 1
    }


# Random pages: the same clicks as CSV, as impressions and clicks, as lists and clicks, and as rankings.
PAGES = st.lists(
    st.tuples(
        st.sampled_from(["red shoes", "hats", "ö"]),
        st.permutations("abcde").flatmap(lambda all: st.integers(1, 5).map(lambda n: all[:n])),
        st.sets(st.integers(0, 4)),
    ),
    min_size=1,
    max_size=8,
)
CANDIDATES = cr.RankingData(
    np.zeros((15, 1)), [0, 5, 10, 15], query_ids=["hats", "red shoes", "ö"], doc_ids=list("abcde") * 3
)


@FEW
@given(pages=PAGES, base=st.sampled_from([0, 1]))
def test_the_same_pages_in_each_format(tmp_path_factory, pages, base):
    folder = tmp_path_factory.mktemp("log")
    text = ["session_id,query_id,doc_id,rank,clicked"]
    impressions, lists, rankings = [], [], []
    for i, (query, docs, clicked) in enumerate(pages):
        clicks = [docs[rank] for rank in clicked if rank < len(docs)]
        text += [f"{i},{query},{doc},{rank + base},{int(doc in clicks)}" for rank, doc in enumerate(docs)]
        impressions += [search(f"s{i}", query.title())]
        impressions += [event("impression", f"s{i}", doc, rank + base) for rank, doc in enumerate(docs)]
        lists += [search(f"s{i}", query.upper(), docs)]
        rankings += [ranking(f"r{i}", query, docs)]
        impressions += [event("click", f"s{i}", doc) for doc in clicks]
        lists += [event("click", f"s{i}", doc) for doc in clicks * 2]
        rankings += [interaction(f"r{i}", doc) for doc in clicks]
    (folder / "log.csv").write_text("\n".join(text))
    expected = read_log(folder / "log.csv", CANDIDATES, rank_base=base)
    for name, documents in (("impressions", impressions), ("lists", lists), ("rankings", rankings)):
        found = read_log(lines(folder / f"{name}.jsonl", documents[::-1]), CANDIDATES, rank_base=base)
        assert found.sessions.tolist() == expected.sessions.tolist()
        for field in ("docs", "ranks", "impressions", "clicks"):
            np.testing.assert_array_equal(getattr(found, field), getattr(expected, field))


NAMES = st.sampled_from(["s1", "s2", "", None, 7])
DOCS = st.sampled_from(["a", "b", "", None, 7])
TYPED = st.sampled_from(["x", " X", "", None, "y  z"])
UBI = st.lists(
    st.builds(event, st.sampled_from(["impression", "click", "VIEW"]), NAMES, DOCS, st.sampled_from([0, 1, 2, None]))
    | st.builds(
        event, st.sampled_from(["impression", "Click"]), NAMES, DOCS, st.sampled_from([1, "2"]), user_query=TYPED
    )
    | st.builds(search, NAMES, TYPED, st.none() | st.lists(st.sampled_from("ab"), max_size=3)),
    max_size=12,
)
METARANK = st.lists(
    st.builds(ranking, NAMES, TYPED.filter(lambda text: text is not None), st.lists(DOCS, max_size=3))
    | st.builds(interaction, NAMES, DOCS, st.sampled_from(["click", "CLICK", "like"])),
    max_size=12,
)


def outcome(function, *arguments, **options):
    """What a function returns, or the text of the error it raises."""
    try:
        return function(*arguments, **options), None
    except cr.CounterrankError as error:
        return None, str(error)


ANY = {"ubi": (UBI, ubi_rows), "metarank": (METARANK, metarank_rows)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("format", ANY)
def test_events_of_any_kind(tmp_path, format):
    path: Path = tmp_path / "log.jsonl"
    events, naive = ANY[format]

    @FEW
    @given(documents=events, base=st.sampled_from([0, 1]), junk=st.sampled_from(["", "{bad\n", "[]\n3\n"]))
    def check(documents, base, junk):
        lines(path, documents)
        path.write_text(path.read_text() + junk)
        expected = Counter(naive(documents, first_rank=base))
        found, error = outcome(rows, path, format=format, rank_base=base)
        if error:
            assert "nothing tells what was shown" in error
            assert all(row[5] for row in expected)
            return
        assert found == expected
        options = LogOptions(format=format, rank_base=base, on_error="skip")
        reading, error = outcome(read_parts, path, (), options=options)
        if error:
            assert "nothing is left" in error or "no rows" in error
            return
        report = reading.report
        assert report.rows == sum(expected.values()) + bool(junk)
        assert report.rows == report.used + sum(report.dropped.values())

    check()


def test_samples_in_the_docs(tmp_path):
    """Each sample is followed by the page that it is."""
    text = (Path(__file__).parents[1] / "docs" / "log-formats.md").read_text(encoding="utf-8")
    samples = text.split("```json\n")[1:]
    assert len(samples) == 2
    for sample in samples:
        events, _, after = sample.partition("```")
        table = after.partition("|---|")[2].partition("\n")[2].partition("\n\n")[0]
        expected = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in table.splitlines()]
        path = tmp_path / "log.jsonl"
        path.write_text(events)
        assert sorted((*row[:4], str(row[4]).lower()) for row in rows(path)) == sorted(expected)
