"""Click logs made of events: what is wrong in them, hostile values, and random ones against slow references."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank.clicks.logs import LogOptions, read_log, read_parts
from tests.reference.events import metarank_rows, ubi_rows
from tests.support.event_logs import (
    CLICKS_ONLY,
    EVENTS,
    RANKED,
    SEARCHES,
    event,
    interaction,
    lines,
    ranking,
    rows,
    search,
)

FEW = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))

PLAIN = {"session_id": 1, "query_id": "q", "doc_id": "a", "rank": 1, "clicked": 0}
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
    "a ranking twice": ([ranking("r1", "x", ["a", "b"])] * 2, "1 page shows a document twice (such as session 'r1')"),
    "an item twice": ([ranking("r1", "x", ["a", "a"])], "1 page shows a document twice"),
    "an item without id": ([ranking("r1", "x", ["a", None])], "1 row has no doc_id"),
    "an empty id": ([ranking("r1", "x", ["a", ""])], "1 row has no doc_id"),
    "no ranking": ([interaction("r1", "a")], "no impressions; expected events of kind 'ranking'"),
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
    "only clicks": (CLICKS_ONLY, "no impressions; expected events with action_name 'impression', or"),
    "only empty": ([search("s1", "x", [])], "no rows"),
    "neither": ([*SEARCHES, *EVENTS, {"query_id": "s1"}], '1 line cannot be read (the first: {"query_id":'),
}


@pytest.mark.parametrize(("documents", "message"), FAULTS.values(), ids=FAULTS)
def test_faults(tmp_path, documents, message):
    path = lines(tmp_path / "log.jsonl", documents)
    with pytest.raises(cr.CounterrankError) as error:
        read_log(path)
    assert message in str(error.value)


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


WRONG_OPTIONS = {
    "a text": ({"click_actions": "click"}, "click_actions='click': expected names of actions"),
    "none": ({"click_actions": ()}, "click_actions=(): expected names of actions"),
    "blank": ({"click_actions": (" ",)}, "click_actions=(' ',): expected names of actions"),
    "no events": ({"click_actions": ("tap",)}, "log.jsonl is jsonl; expected it only with ubi or metarank"),
    "format": ({"format": "opensearch"}, "format='opensearch'"),
    "not UBI": ({"format": "ubi"}, "no impressions"),
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
            assert "no impressions" in error
            assert all(row[5] for row in expected)
            return
        assert found == expected
        options = LogOptions(format=format, rank_base=base, on_error="skip")
        reading, error = outcome(read_parts, path, (), options=options)
        if error:
            assert "nothing is left" in error or "no rows" in error
            return
        report = reading.report
        # junk, and searches that say nothing at all, are lines that cannot be read
        unreadable = sum(fault.count for fault in report.faults if fault.unit == "lines")
        assert unreadable >= bool(junk)
        assert report.rows == sum(expected.values()) + unreadable
        assert report.rows == report.used + sum(report.dropped.values())

    check()
