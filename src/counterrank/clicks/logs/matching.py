"""From the cells of a log to `ClickCounts`: ids become rows of the ranking data, or of the shown pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.clicks.counts import SHOWN_ONLY, ClickCounts
from counterrank.clicks.displays import Displays
from counterrank.clicks.last_clicks import LastClicks, take_rows
from counterrank.clicks.logs.columns import TEXT, Columns, split_entry
from counterrank.clicks.logs.engine import Engine
from counterrank.clicks.origin import SAMPLE_SIZE, Origin, SessionSample, content_sources
from counterrank.common.checks import IntArray
from counterrank.common.errors import DataError, quoted
from counterrank.common.random import EVERYTHING
from counterrank.data import RankingData
from counterrank.data.ids import digest_of, identity, query_of_rows


class Candidates:
    """The ids of ranking data as tables of the local DuckDB: `queries` and `candidates`.

    Several parts of the data stand behind each other there, and are split at the end.
    """

    def __init__(self, local: Any, columns: Columns, parts: Sequence[RankingData]) -> None:
        self.local, self.parts = local, parts
        self.unknown = np.zeros(0, np.int64)  # impressions of unknown documents by query, once they are counted
        self.queries = np.cumsum([0, *(part.n_queries for part in parts)])
        self.rows = np.cumsum([0, *(part.n_docs for part in parts)])
        first = np.concatenate([part.offsets[:-1] + begin for part, begin in zip(parts, self.rows, strict=False)])
        self.offsets = np.append(first, self.rows[-1])
        # a number and its text are one id, so where one side has texts, texts are compared
        query_ids = _joined([part.query_ids for part in parts])
        doc_ids = _joined([part.doc_ids for part in parts])
        self._query = "bigint" if columns.has_whole_ids("query_id") and query_ids.dtype.kind == "i" else "string"
        self._doc = "bigint" if columns.has_whole_ids("doc_id") and doc_ids.dtype.kind == "i" else "string"
        part = np.repeat(np.arange(len(parts)), np.diff(self.queries))
        ids = {"query_id": query_ids, "part": part}
        self._table("queries", "query", ids, {"query_id": self._query, "part": "bigint"})
        pairs = {"query": query_of_rows(self.offsets), "doc_id": doc_ids}
        self._table("candidates", "row", pairs, {"query": "bigint", "doc_id": self._doc})
        twice = local.execute(
            "select query_id from queries group by query_id having count(*) > 1 order by min(query) limit 1"
        ).fetchone()
        if twice is not None:  # its clicks could not be split
            raise DataError(
                f"data: query {quoted(twice[0])} is in several parts; expected each in one, or a log for each part"
            )

    def _table(self, name: str, number: str, columns: dict[str, NDArray[Any]], types: dict[str, str]) -> None:
        import pyarrow as pa

        given = pa.table({number: np.arange(len(next(iter(columns.values())))), **columns})
        self.local.register("given", given)
        chosen = ", ".join(f"cast({column} as {kind}) as {column}" for column, kind in types.items())
        self.local.execute(f"create or replace temp table {name} as select {number}, {chosen} from given")
        self.local.unregister("given")

    def join_queries(self, table: str) -> str:
        """The join of a table with `queries`, which has the number and the part of each query, as SQL."""
        return f"join queries on cast({table}.query_id as {self._query}) = queries.query_id"

    def match(self) -> None:
        """Make `matched` of `cells`: each with its query and its row in the data, null where there is none."""
        self.local.execute(
            "create or replace temp table matched as select cells.*, queries.query, candidates.row from cells "
            f"left {self.join_queries('cells')} "
            "left join candidates on queries.query = candidates.query "
            f"and cast(cells.doc_id as {self._doc}) = candidates.doc_id"
        )

    def counts(self, columns: Columns) -> ClickCounts:
        """The click counts of `matched` and `pages`, of all parts together; what matches nothing is left out."""
        strays = self.local.execute(
            "select query, cast(sum(impressions) as bigint) as n from matched "
            "where row is null and query is not null group by query"
        ).fetchnumpy()
        self.unknown = np.zeros(int(self.queries[-1]), np.int64)
        self.unknown[np.asarray(strays["query"], np.int64)] = np.asarray(strays["n"], np.int64)
        found = _cells(self.local, columns, "row", "from matched where row is not null")
        sessions = self.local.execute(
            f"select query, {_policy(columns, 'pages')} as policy, cast(sum(pages) as bigint) as pages from pages "
            f"{self.join_queries('pages')} group by all"
        ).fetchnumpy()
        return _counts("", self.offsets, found, sessions, columns)

    def split(self, counts: ClickCounts) -> list[ClickCounts]:
        """The click counts of each part, of those of all together."""
        bounds = zip(pairwise(self.queries.tolist()), pairwise(self.rows.tolist()), strict=True)
        found = [_part(counts, part, *each) for part, each in zip(self.parts, bounds, strict=True)]
        unknown = [self.unknown[slice(*each)] for each in pairwise(self.queries.tolist())]
        return [
            replace(part, unknown_impressions=int(own.sum()), unknown_by_query=own if own.any() else None)
            for part, own in zip(found, unknown, strict=True)
        ]


def shown_only(local: Any, columns: Columns) -> ClickCounts:
    """The click counts of a log without ranking data: queries and documents in the order of their ids."""
    local.execute(
        "create or replace temp table pairs as select query_id, doc_id, "
        "dense_rank() over (order by query_id) - 1 as query, row_number() over (order by query_id, doc_id) - 1 as row "
        "from (select distinct query_id, doc_id from cells)"
    )
    pairs = local.execute("select query, query_id, doc_id from pairs order by row").fetchnumpy()
    lengths = np.bincount(np.asarray(pairs["query"], np.int64))
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    digest = digest_of(offsets, *(_ids(pairs[name]) for name in ("query_id", "doc_id")))
    found = _cells(local, columns, "pairs.row", "from cells join pairs using (query_id, doc_id)")
    sessions = local.execute(
        f"select query, {_policy(columns, 'pages')} as policy, cast(sum(pages) as bigint) as pages from pages "
        "join (select distinct query_id, query from pairs) as logged using (query_id) group by all"
    ).fetchnumpy()
    counts = _counts(SHOWN_ONLY + digest, offsets, found, sessions, columns)
    queries = _ids(pairs["query_id"])[offsets[:-1]]
    return replace(counts, query_ids=queries, doc_ids=_ids(pairs["doc_id"]))


def _part(counts: ClickCounts, data: RankingData, queries: tuple[int, int], rows: tuple[int, int]) -> ClickCounts:
    """What was counted of some queries that stand behind each other."""
    cells = slice(*np.searchsorted(counts.docs, rows))
    own = slice(*queries)
    shown = counts.displays
    return replace(
        counts,
        identity=identity(data),
        offsets=data.offsets,
        sessions=counts.sessions[own],
        **{**counts.cells_at(cells), "docs": counts.docs[cells] - rows[0]},
        policy_sessions=None if counts.policy_sessions is None else counts.policy_sessions[:, own],
        displays=None if shown is None else _pages_of(shown, rows),
        last_clicks=None if counts.last_clicks is None else _rows_of(counts.last_clicks, rows),
        query_ids=data.query_ids,
        doc_ids=data.doc_ids,
    )


def _pages_of(shown: Displays, rows: tuple[int, int]) -> Displays:
    """The pages of some documents that stand behind each other."""
    begin, end = np.searchsorted(shown.docs[shown.offsets[:-1]], rows) if shown.n_pages else (0, 0)
    first, last = shown.offsets[begin], shown.offsets[end]
    return Displays(
        shown.offsets[begin : end + 1] - first,
        shown.docs[first:last] - rows[0],
        shown.sessions[begin:end].copy(),
        shown.clicks[first:last].copy(),
        None if shown.policies is None else shown.policies[begin:end].copy(),
        None if shown.patterns is None else shown.patterns[begin:end].copy(),
    )


def _rows_of(found: LastClicks, rows: tuple[int, int]) -> LastClicks:
    """The counts by last click of some documents that stand behind each other."""
    own = take_rows(found, slice(*np.searchsorted(found.docs, rows)))
    return replace(own, docs=own.docs - rows[0])


def _joined(ids: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """The ids of all parts; texts where one part has texts."""
    if len({each.dtype.kind for each in ids}) > 1:
        ids = [each.astype(np.str_) for each in ids]
    return np.concatenate(ids)


def _ids(found: NDArray[Any]) -> NDArray[Any]:
    return found.astype(np.str_) if found.dtype.kind == "O" else np.asarray(found, np.int64)


def _policy(columns: Columns, table: str) -> str:
    return f"{table}.policy" if columns.has("policy") else "''"


def _cells(local: Any, columns: Columns, row: str, source: str) -> dict[str, NDArray[Any]]:
    """The cells in the order of document, rank, policy and propensity."""
    more = [name for name in ("policy", "propensity") if columns.has(name)]
    keys = ", ".join(("rank", *more))
    found: dict[str, NDArray[Any]] = local.execute(
        f"select {row} as doc, {keys}, impressions, clicks {source} order by doc, {keys}"
    ).fetchnumpy()
    return found


def _counts(
    name: str, offsets: IntArray, cells: dict[str, NDArray[Any]], pages: dict[str, NDArray[Any]], columns: Columns
) -> ClickCounts:
    named = columns.has("policy")
    logged = np.asarray(pages["policy"]).astype(np.str_)
    shown = np.asarray(cells["policy"]).astype(np.str_) if named else logged
    names = np.unique(np.concatenate((logged, shown)))
    sessions = np.zeros((len(names), len(offsets) - 1), np.int64)
    np.add.at(sessions, (np.searchsorted(names, logged), np.asarray(pages["query"], np.int64)), pages["pages"])
    policies = np.searchsorted(names, shown) if named else None
    whole = {key: np.ascontiguousarray(cells[key], np.int64) for key in ("doc", "rank", "impressions", "clicks")}
    return ClickCounts(
        identity=name,
        offsets=offsets,
        sessions=sessions.sum(axis=0),
        docs=whole["doc"],
        ranks=whole["rank"],
        impressions=whole["impressions"],
        clicks=whole["clicks"],
        propensities=np.ascontiguousarray(cells["propensity"], np.float64) if columns.has("propensity") else None,
        policies=policies,
        policy_names=tuple(split_entry(name)[0] for name in names.tolist()) if named else (),
        policy_sessions=sessions if named else None,
        contexts=tuple(split_entry(name)[1] for name in names.tolist()) if columns.contexts else (),
    )


def with_origins(
    engine: Engine,
    columns: Columns,
    known: Candidates | None,
    counts: Sequence[ClickCounts],
    log: str,
    dated: bool,
) -> list[ClickCounts]:
    """The counts of each part of the data with the origin of their clicks, in the log of this name.

    `dated` says whether the log's timestamps are dates.
    """
    sessions = sum(each.n_sessions for each in counts)
    limit = EVERYTHING if sessions <= 2 * SAMPLE_SIZE else EVERYTHING * 2 * SAMPLE_SIZE // sessions >> _SHIFT << _SHIFT
    sampled = None if columns.impressions else _sampled(engine, columns, known, limit)
    dates = _dates(engine, known, len(counts)) if dated else [(None, None)] * len(counts)
    found = []
    for part, each in enumerate(counts):
        sources = content_sources(each)
        if sampled is not None:
            samples = [_sample(sampled, part, source.policy, limit) for source in sources]
            sources = tuple(one._replace(sample=sample) for one, sample in zip(sources, samples, strict=True))
        found.append(replace(each, origin=Origin(sources, (log,), *dates[part])))
    return found


def _sampled(engine: Engine, columns: Columns, known: Candidates | None, limit: int) -> dict[str, Any]:
    """Part, query in it, policy and hashes of the sessions whose id has a hash below the limit.

    Ids that are numbers, also as texts, are hashed by arithmetic, which is quick; others by md5, which both engines
    have.
    """
    policy = "policy" if columns.has("policy") else "'' as policy"
    number, name = "session_id", "cast(null as string)"
    if columns.kinds["session_id"] == TEXT:
        whole = "try_cast(session_id as bigint)"
        number = f"case when cast({whole} as string) = session_id then {whole} end"
        name = "case when number is null then session_id end"
    page = f"concat_ws('|', {', '.join(f'cast({each} as string)' for each in ('query_id', 'doc_id', 'clicked'))})"
    below = f"{_spread('number', *_FIRST)} < {limit >> _SHIFT} or {_md5('name')} < '{limit:016x}'"
    engine.reduce(
        "sampled",
        f"select query_id, policy, number, {_md5('name')} as name, {_md5(page)} as page from (select *, {name} as name "
        f"from (select query_id, doc_id, clicked, {policy}, session_id, {number} as number from log where rank = 1) "
        f"as numbered) as named{'' if limit >= EVERYTHING else f' where {below}'}",
        "looking at sessions",
    )
    part, first_query = ("0", np.zeros(1, np.int64)) if known is None else ("part", known.queries)
    join = "join (select distinct query_id, query from pairs) as logged using (query_id)"
    join = join if known is None else known.join_queries("sampled")
    first, second = (_spread("number", *each) for each in (_FIRST, _SECOND))
    both = f"cast({first} as ubigint) * {1 << _SHIFT} + cast({second} as ubigint)"
    found = engine.local.execute(
        f"select {part} as part, query, policy, cast('0x' || page as ubigint) as page, "
        f"case when number is null then cast('0x' || name as ubigint) else {both} end as id from sampled {join}"
    ).fetchnumpy()
    parts = np.asarray(found["part"], np.int64)
    return {
        "part": parts,
        "query": np.asarray(found["query"], np.int64) - first_query[parts],
        "policy": np.array([split_entry(entry)[0] for entry in np.asarray(found["policy"])], np.str_),
        **{name: np.asarray(found[name], np.uint64) for name in ("id", "page")},
    }


# a prime and a factor each, small enough that their product is a bigint; the first has 31 bits, the second 32
_FIRST, _SECOND = (2147483647, 1103515245), (4294967291, 1597334677)
_SHIFT = 33


def _spread(number: str, prime: int, factor: int) -> str:
    """A hash of a whole number below a prime, as SQL."""
    return f"pmod(pmod(pmod({number}, {prime}) + {prime}, {prime}) * {factor}, {prime})"


def _sample(sampled: dict[str, Any], part: int, policy: str, limit: int) -> SessionSample:
    own = (sampled["part"] == part) & (sampled["policy"] == policy)
    found = SessionSample.of(sampled["id"][own], sampled["page"][own], limit, sampled["query"][own])
    return found.reduced(SAMPLE_SIZE)


def _md5(value: str) -> str:
    """The first 64 bits of a hash of a text, as SQL."""
    return f"substr(md5({value}), 1, 16)"


def _dates(engine: Engine, known: Candidates | None, parts: int) -> list[tuple[str | None, str | None]]:
    """The first and last time in each part, of the timestamps that are dates."""
    part, more = ("0", "") if known is None else ("part", f"{known.join_queries('cells')} group by part")
    found = engine.local.execute(f"select {part}, min(earliest), max(latest) from cells {more}").fetchall()
    spans = {int(number): (_moment(low), _moment(high)) for number, low, high in found}
    return [spans.get(number, (None, None)) for number in range(parts)]


def _moment(seconds: Any) -> str | None:
    """Seconds since 1970 as ISO 8601.

    >>> _moment(1767225600.0)
    '2026-01-01T00:00:00Z'
    """
    return None if seconds is None else f"{np.datetime64(int(seconds), 's')}Z"
