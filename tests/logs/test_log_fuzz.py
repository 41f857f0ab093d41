"""Small malformed click logs in every format: always what the naive counts, or one clear error."""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank.clicks.logs import LogOptions, read_parts
from tests.reference import log as naive_log
from tests.support import log_files

TEXTS = {"q": ["a", "b", "c", "d"], "7": ["007", "7", "ü,1"], 'x"\n,': ["", "a\nb", "'; drop"], "Ω": ["one"]}
NUMBERS = {"1": ["1", "2", "3", "4"], "-5": ["7", "8"], "30": ["9"]}
NAN = float("nan")
LONG = {"long": [f"d{i}" for i in range(70)]}
STRANGE = {
    "session_id": [None, "s0", "", "nobody's"],
    "query_id": [None, "q", "unknown", "elsewhere", 7],
    "doc_id": [None, "a", "007", 7, "unknown"],
    "rank": [None, 0, -1, 1, 2, 3, 5, 2.0, 2.5, "x", "1", 10**7, 2**63 - 1, -(2**63), NAN],
    "clicked": [None, 0, 1, True, False, "true", "FALSE", " Y ", "n", "Yes", "NO", "t", "F", 2, 0.5, "yep", NAN, " "],
    "propensity": [None, 0, 0.0, 1, 1.5, -0.5, NAN, "inf", "much", 1e-300],
    "policy": [None, "new", "old", "", 3],
}
FORMATS = ("parquet", "csv", "jsonl", "csv.gz", "jsonl.gz", "csv.zst", "jsonl.zst")
NEW_NAMES = ("position", "it's", 'a "b"', "; drop table raw --", "Rang Ü", "select", "a=b", "json")


@st.composite
def pages(draw, candidates, numbers):
    """Clean rows."""
    rows = []
    for session in range(draw(st.integers(1, 6))):
        query = draw(st.sampled_from(sorted(candidates)))
        docs = draw(st.permutations(candidates[query]))
        length = draw(st.integers(1, len(docs)))
        policy = draw(st.sampled_from(["new", "old"]))
        for i, doc in enumerate(docs[:length]):
            ids = (session, int(query), int(doc)) if numbers else (f"s{session}", query, doc)
            row = dict(zip(log_files.NAMES, (*ids, i + 1, draw(st.integers(0, 1))), strict=True))
            rows.append(row | {"policy": policy, "propensity": draw(st.sampled_from([0.5, 1.0, 0.25]))})
    return rows


@st.composite
def logs(draw):
    """A log, mostly right, and how it is written and read."""
    numbers = draw(st.booleans())
    candidates = NUMBERS if numbers else TEXTS if draw(st.integers(0, 9)) else LONG
    rows = draw(pages(candidates, numbers))
    optional = draw(st.lists(st.sampled_from(["policy", "propensity"]), unique=True))
    columns = [*log_files.NAMES, *optional]
    rows = [{name: row[name] for name in columns} for row in rows]
    impressions = draw(st.integers(0, 3)) == 0
    base = draw(st.sampled_from([1, 1, 0]))
    for row in rows:
        row["rank"] -= 1 - base
    for _ in range(draw(st.sampled_from([0, 0, 1, 1, 2, 5]))):
        change(draw, rows, columns)
    if draw(st.booleans()):
        rows = draw(st.permutations(rows))  # pages are scattered
    if draw(st.integers(0, 9)) == 0 or (impressions and draw(st.booleans())):
        columns.remove(draw(st.sampled_from(["session_id", "query_id"] if impressions else columns)))
    pairs = st.tuples(st.sampled_from(columns), st.sampled_from(NEW_NAMES))
    renamed = dict(draw(st.lists(pairs, max_size=2, unique_by=(lambda pair: pair[0], lambda pair: pair[1]))))
    return {
        "rows": rows,
        "columns": columns,
        "candidates": candidates,
        "numbers": numbers,
        "options": LogOptions(
            renamed,
            base,
            impressions=impressions,
            on_error=draw(st.sampled_from(["fail", "skip", "skip"])),
            strict=draw(st.booleans()),
            threads=1,
        ),
    }


def change(draw, rows, columns):
    """One fault, or what looks like one."""
    if not rows:
        return
    i = draw(st.integers(0, len(rows) - 1))
    how = draw(st.sampled_from(["value", "value", "value", "value", "again", "gone", "other page"]))
    if how == "value":
        name = draw(st.sampled_from(columns))
        rows[i][name] = draw(st.sampled_from(STRANGE[name]))
    elif how == "again":
        rows.append(dict(rows[i]))
    elif how == "gone":
        del rows[i]
    else:
        rows[i]["session_id"] = rows[draw(st.integers(0, len(rows) - 1))]["session_id"]


@st.composite
def written(draw, log, folder):
    """The log in files; the rows as its format writes them, its columns and its lines that are no rows."""
    format = draw(st.sampled_from(FORMATS))
    names = {name: log["options"].columns.get(name, name) for name in log["columns"]}
    rows = [{names[name]: row[name] for name in log["columns"]} for row in log["rows"]]
    if format != "parquet":
        rows = [{name: "nan" if value != value else value for name, value in row.items()} for row in rows]
    parts = [[] for _ in range(draw(st.integers(1, 3)))]
    for row in rows:
        draw(st.sampled_from(parts)).append(row)
    seen, written, unreadable = set(), [], 0
    for i, part in enumerate(parts):
        columns = list(draw(st.permutations(sorted(names.values()))))
        if i and draw(st.integers(0, 9)) == 0:
            columns.remove(draw(st.sampled_from(columns)))
        path = folder / draw(st.sampled_from(["", "deeper", "it's * [1]"])) / f"part{i}.{format}"
        options = {}
        if "csv" in format:
            options["delimiter"] = draw(st.sampled_from(",;\t|"))
            options |= {"end": draw(st.sampled_from(["\n", "\r\n"])), "mark": draw(st.booleans())}
            broken = ["only one", options["delimiter"].join("123456789")]
            options["extra"] = draw(st.lists(st.sampled_from(broken), max_size=1))
            unreadable += len(options["extra"])
        elif "json" in format:
            options["ascii_only"] = draw(st.booleans())
        log_files.write(path, part, columns, **options)
        seen |= set(columns) if part or "json" not in format else set()
        written += [{name: row[name] for name in columns if not ("csv" in format and row[name] == "")} for row in part]
    back = {new: name for name, new in names.items()}
    written = [{back[new]: value for new, value in row.items()} for row in written]
    return written, [back[name] for name in sorted(seen)], unreadable


def data_of(candidates, numbers):
    """Ranking data of these candidates and a query that is in no log."""
    candidates = {**candidates, "99": ["1", "2"]}
    ids = [list(candidates), [doc for docs in candidates.values() for doc in docs]]
    queries, docs = [list(map(int, each)) for each in ids] if numbers else ids
    offsets = np.cumsum([0, *map(len, candidates.values())])
    return cr.RankingData(np.zeros((len(docs), 1)), offsets, query_ids=queries, doc_ids=docs)


EXAMPLES = 100
PHASES = (Phase.explicit, Phase.generate)  # each example reads files: shrinking takes minutes
OTHER = cr.RankingData(np.zeros((1, 1)), [0, 1], query_ids=["elsewhere"], doc_ids=["a"])


@settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, phases=PHASES
)
@given(st.data())
def test_the_reference_agrees(draw):
    log = draw.draw(logs())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows, columns, unreadable = draw.draw(written(log, folder))
        known = draw.draw(st.sampled_from([None, "data", "data"]))
        if known and draw.draw(st.integers(0, 2)) == 0:  # the data lacks some of what was shown
            log["candidates"] = {query: docs[: max(1, len(docs) - 1)] for query, docs in log["candidates"].items()}
        if known and draw.draw(st.integers(0, 4)) == 0:
            log["candidates"] = dict(list(log["candidates"].items())[:2])
        data = data_of(log["candidates"], log["numbers"]) if known else None
        displays = not log["options"].impressions and draw.draw(st.booleans())
        check(folder, log, rows, columns, unreadable, data, displays)


def check(folder, log, rows, columns, unreadable, data, displays):
    options = log["options"]
    parts = () if data is None else (data, OTHER)
    known = None if data is None else {**log["candidates"], "99": ["1", "2"]}
    expected = naive_log.read(
        rows,
        columns,
        base=options.rank_base,
        impressions=options.impressions,
        data=None if known is None else {**known, "elsewhere": ["a"]},
        skip=options.on_error == "skip",
        unreadable=unreadable,
        strict=options.strict,
        displays=displays,
    )
    mapped = set(options.columns) - set(columns)
    if expected.error is None and mapped:
        expected.error = "no column"
    fails = options.on_error == "fail" and expected.faults
    if expected.error or fails:
        with pytest.raises(cr.CounterrankError) as error:
            read_parts(folder, parts, displays=displays, options=options)
        message = str(error.value)
        assert message.isprintable()
        if mapped or expected.error == "no column" or expected.error == "no rows":
            assert "no column" in message or "no rows" in message, message
        elif expected.error == "nothing belongs":
            assert "none of its rows belongs to the ranking data" in message
            assert_reported(message, [(kind, "rows", count) for kind, count in expected.unknown.items()])
        else:
            assert_reported(message, expected.faults)
        return
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        reading = read_parts(folder, parts, displays=displays, options=options)
    report = reading.report
    assert [(fault.kind, fault.unit, fault.count) for fault in report.faults] == expected.faults
    assert report.dropped == expected.dropped
    strays = expected.unknown.get(naive_log.UNKNOWN_DOCUMENT, 0)
    elsewhere = expected.unknown.get(naive_log.UNKNOWN_QUERY, 0)
    many = elsewhere > 0.05 * (report.used + strays + elsewhere)
    assert len(warned) == bool(expected.dropped) + bool(strays or many)
    assert report.dropped_pages == expected.dropped_pages
    assert report.rows == expected.rows
    assert {each.kind: each.count for each in report.unknown} == expected.unknown
    assert report.unknown_documents == strays == sum(part.unknown_impressions for part in reading.counts)
    assert report.used + sum(report.dropped.values()) + sum(expected.unknown.values()) == report.rows
    assert report.used == sum(counts.n_impressions for counts in reading.counts)
    if known is not None:
        elsewhere = {key: n for key, n in expected.cells.items() if key[0] == "elsewhere"}
        assert reading.counts[1].n_impressions == sum(n for n, _ in elsewhere.values())
        assert reading.counts[1].unknown_impressions == expected.unknown_impressions.get("elsewhere", 0)
        expected.cells = {key: n for key, n in expected.cells.items() if key not in elsewhere}
        expected.sessions = {key: n for key, n in expected.sessions.items() if key[0] != "elsewhere"}
    assert_counts(reading.counts[0], expected, known, columns, displays)
    if not report.faults:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trusted = read_parts(folder, parts, options=replace(options, skip_page_checks=True))
        assert_counts(trusted.counts[0], expected, known, columns, False)


def assert_reported(message, faults):
    """All of these and no others, in one line."""
    for kind, unit, count in faults:
        if count > 1:
            assert f"{count:,} {unit} {kind} (" in message
        else:
            assert f"1 {unit[:-1]} " in message
    kinds = (*naive_log.PAGE_KINDS, *naive_log.ID_KINDS)
    there = {kind for kind in kinds if kind.split(" ", 1)[1].replace("their", "its") in message.replace("their", "its")}
    assert there == {kind for kind, *_ in faults if kind in kinds}


def assert_counts(counts, expected, known, columns, displays):
    """The counts are those of the naive, cell by cell."""
    if known is None:
        pairs = {(query, doc) for query, doc, *_ in expected.cells}
        queries = {query: {doc for other, doc in pairs if other == query} for query, _ in pairs}
        lengths = sorted(len(docs) for docs in queries.values())
        assert sorted(np.diff(counts.offsets).tolist()) == lengths
        ids = None
    else:
        ids = [(query, doc) for query, docs in known.items() for doc in docs]
        assert counts.offsets.tolist() == np.cumsum([0, *map(len, known.values())]).tolist()
    policies = (
        [None] * len(counts.docs) if counts.policies is None else [counts.policy_names[i] for i in counts.policies]
    )
    propensities = [None] * len(counts.docs) if counts.propensities is None else counts.propensities.tolist()
    found = sorted(
        zip(
            counts.docs.tolist(),
            counts.ranks.tolist(),
            policies,
            propensities,
            counts.impressions.tolist(),
            counts.clicks.tolist(),
            strict=True,
        )
    )
    if ids is None:  # which row is which document is not known: compare all but that
        bare = sorted(((rank, str(p), w, *n) for (_, _, rank, p, w), n in expected.cells.items()), key=str)
        assert sorted(((rank, str(p), w, *n) for _, rank, p, w, *n in found), key=str) == bare
        assert sorted(counts.sessions.tolist()) == sorted(_by_query(expected.sessions).values())
    else:
        cells = {(*ids[doc], rank, p, w): tuple(n) for doc, rank, p, w, *n in found}
        assert cells == expected.cells
        sessions = {query: int(n) for query, n in zip(known, counts.sessions, strict=True) if n}
        assert sessions == _by_query(expected.sessions)
    if counts.policy_sessions is not None:
        assert counts.policy_sessions.sum(axis=0).tolist() == counts.sessions.tolist()
        by_policy = {name: int(n.sum()) for name, n in zip(counts.policy_names, counts.policy_sessions, strict=True)}
        wanted = {}
        for (_, policy), n in expected.sessions.items():
            wanted[policy] = wanted.get(policy, 0) + n
        assert {name: n for name, n in by_policy.items() if n} == wanted
    if displays and ids is not None:
        shown = counts.displays
        edges = zip(shown.offsets[:-1], shown.offsets[1:], shown.sessions, strict=True)
        pages = {
            tuple(zip(shown.docs[a:b].tolist(), shown.clicks[a:b].tolist(), strict=True)): int(n) for a, b, n in edges
        }
        assert sum(pages.values()) == counts.n_sessions
        assert int(shown.clicks.sum()) == counts.n_clicks


def _by_query(sessions):
    found = {}
    for (query, _), n in sessions.items():
        found[query] = found.get(query, 0) + n
    return found
