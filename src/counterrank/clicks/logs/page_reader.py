"""A sample of the pages of a log, one by one: one more pass over the log, in SQL that DuckDB and Spark both run."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.logs.columns import TEXT, Columns, LogOptions
from counterrank.clicks.logs.engine import Engine
from counterrank.clicks.logs.log_reader import opened
from counterrank.clicks.logs.matching import _FIRST, _md5, _spread
from counterrank.clicks.page_sample import MOST_ROWS, PageSample
from counterrank.common.checks import IntArray, check_whole
from counterrank.common.errors import CounterrankError
from counterrank.common.files import PathLike
from counterrank.data.ids import query_of_rows, take_ranges, uniform_keys

_PARTS = 20  # no query has more than this share of the rows of a sample
_PRIME = _FIRST[0]  # hashes of sessions are below it


def read_pages(path: PathLike | Any, clicks: ClickCounts, *, rows: int = MOST_ROWS, **options: Any) -> PageSample:
    """A sample of the pages of a log: all pages of some queries, which a hash of the query id decides.

    Of queries with more than a twentieth of the rows a part of the sessions, which a hash of the session id decides.
    So equal logs give equal samples, in any order of rows and on any engine. Pages with anything wrong on them, or with
    documents that the counts do not have, are left out.

    Arguments:
        path: as in `read_log`.
        clicks: the counts of this log, or of one part of the data; pages of its queries are read.
        rows: the sample has about as many rows at most.
        options: those of `LogOptions`.

    >>> import pathlib, tempfile
    >>> from counterrank.clicks.logs import read_log
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "log.csv"
    >>> rows = "1,q,a,1,1\\n1,q,b,2,0\\n2,q,b,1,0\\n2,q,a,2,1\\n"
    >>> _ = file.write_text("session_id,query_id,doc_id,rank,clicked\\n" + rows)
    >>> pages = read_pages(file, read_log(file))
    >>> pages.docs.tolist(), pages.clicked.tolist()
    ([0, 1, 1, 0], [True, False, False, True])
    """
    return sample_pages(path, check_counts(clicks), check_whole(rows, "rows"), LogOptions(**options))


def sample_pages(path: PathLike | Any, clicks: ClickCounts, rows: int, options: LogOptions) -> PageSample:
    """`read_pages` with options as one object."""
    if options.impressions:
        raise CounterrankError("pages: each row of this log is a page of its own, which tells nothing about users")
    if clicks.query_ids is None or clicks.doc_ids is None:
        raise CounterrankError("clicks: hold no ids (counted by an earlier version); count the log again")
    chosen, below = choose_queries(clicks, rows)
    with opened(path, options) as (engine, _, columns):
        engine.view("log", columns.normalised())
        _make_tables(engine, columns, clicks, chosen, below)
        found = _rows(engine, columns)
    logged = {"log_pages": clicks.n_sessions, "log_queries": int(np.count_nonzero(clicks.sessions))}
    return _pages(found, logged)


def choose_queries(clicks: ClickCounts, rows: int) -> tuple[IntArray, IntArray]:
    """Queries, in the order of a hash of their ids, up to so many rows; and below which hash sessions are taken.

    >>> one = np.array([1, 1])
    >>> ids = {"query_ids": np.array([7, 8]), "doc_ids": np.array([1, 1])}
    >>> log = ClickCounts("", np.array([0, 1, 2]), 100 * one, np.array([0, 1]), one, 100 * one, one, **ids)
    >>> [column.tolist() for column in choose_queries(log, 200)], len(choose_queries(log, 5)[0])
    ([[0, 1], [2147483647, 2147483647]], 2)
    """
    shown = np.bincount(clicks.queries(), clicks.impressions, clicks.n_queries)
    asked = np.flatnonzero(shown > 0.0)
    if shown.sum() <= rows:
        return asked, np.full(len(asked), _PRIME)
    assert clicks.query_ids is not None
    asked = asked[np.argsort(uniform_keys(clicks.query_ids[asked]), kind="stable")]
    share = np.minimum(1.0, max(rows / _PARTS, rows / len(asked)) / shown[asked])
    taken = np.searchsorted(np.cumsum(share * shown[asked]), rows) + 1
    return asked[:taken], np.maximum((share[:taken] * _PRIME).astype(np.int64), 1)


def _make_tables(engine: Engine, columns: Columns, clicks: ClickCounts, chosen: IntArray, below: IntArray) -> None:
    """`chosen` queries, lent to the log, and `known` documents of these, as local tables."""
    import pyarrow as pa

    local = engine.local
    assert clicks.query_ids is not None
    assert clicks.doc_ids is not None
    offsets, docs = take_ranges(clicks.offsets, chosen)
    tables = {
        "chosen": {"query": np.arange(len(chosen)), "query_id": clicks.query_ids[chosen], "below": below},
        "known": {"query": query_of_rows(offsets), "doc_id": clicks.doc_ids[docs], "row": np.arange(len(docs))},
    }
    for name, table in tables.items():
        types = [f"cast({each} as {_type(columns, each, values)}) as {each}" for each, values in table.items()]
        local.register("given", pa.table(table))
        local.execute(f"create or replace temp table {name} as select {', '.join(types)} from given")
        local.unregister("given")
    engine.lend("chosen")


def _type(columns: Columns, name: str, values: Any) -> str:
    """A number and its text are one id, so where one side has texts, texts are compared."""
    whole = not name.endswith("_id") or (columns.has_whole_ids(name) and np.asarray(values).dtype.kind == "i")
    return "bigint" if whole else "string"


def _rows(engine: Engine, columns: Columns) -> dict[str, Any]:
    """The rows of the sampled pages in order, with the query, a number for the session, and the document, null if none.

    Session ids that are numbers, also as texts, are hashed by arithmetic, as in samples of sessions; others by md5.
    """
    number, name = "session_id", "cast(null as string)"
    if columns.kinds["session_id"] == TEXT:
        whole = "try_cast(session_id as bigint)"
        number = f"case when cast({whole} as string) = session_id then {whole} end"
        name = f"case when {number} is null then {_md5('session_id')} end"
    types = {name: kind for name, kind, *_ in engine.local.execute("describe chosen").fetchall()}
    query_type = "bigint" if types["query_id"] == "BIGINT" else "string"
    # md5 as a number below the prime: its first seven digits
    engine.reduce(
        "page_rows",
        f"select query, number, name, doc_id, rank, clicked from (select chosen.query as query, below, {number} as "
        f"number, {name} as name, doc_id, rank, clicked from log join chosen on "
        f"cast(log.query_id as {query_type}) = chosen.query_id where session_id is not null) as sampled "
        f"where below >= {_PRIME} or {_spread('number', *_FIRST)} < below or "
        f"substr(name, 1, 7) < substr(lower(lpad(hex(below), 8, '0')), 1, 7)",
        "sampling pages",
    )
    local = engine.local
    doc_type = {name: kind for name, kind, *_ in local.execute("describe known").fetchall()}["doc_id"]
    found: dict[str, Any] = local.execute(
        "select page_rows.query as query, "
        "coalesce(number, cast(cast('0x' || substr(name, 2, 15) as ubigint) as bigint)) as session, "
        "known.row as doc, rank, clicked from page_rows left join known on page_rows.query = known.query "
        f"and cast(page_rows.doc_id as {doc_type}) = known.doc_id order by query, session, rank"
    ).fetchnumpy()
    return found


def _pages(found: dict[str, Any], logged: dict[str, int]) -> PageSample:
    """The pages of these rows: those with ranks 1 to n, known documents, and clicks that are 0 or 1."""
    masks = [np.ma.getmaskarray(found[name]) for name in ("doc", "rank", "clicked")]
    query, session = (np.asarray(found[name], np.int64) for name in ("query", "session"))
    doc, rank, clicked = (np.asarray(np.ma.filled(found[name], 0)) for name in ("doc", "rank", "clicked"))
    first = np.ones(len(query), np.bool_)
    first[1:] = (query[1:] != query[:-1]) | (session[1:] != session[:-1])
    begins = np.flatnonzero(first)
    lengths = np.diff(np.append(begins, len(query)))
    expected = np.arange(len(query)) - np.repeat(begins, lengths) + 1
    wrong = masks[0] | masks[1] | masks[2] | (rank != expected)
    bad = np.logical_or.reduceat(wrong, begins) if len(begins) else np.zeros(0, np.bool_)
    rows = np.repeat(~bad, lengths)
    kept = begins[~bad]
    offsets = np.concatenate(([0], np.cumsum(lengths[~bad])))
    return PageSample.of(session[kept], query[kept], offsets, doc[rows], clicked[rows], **logged)
