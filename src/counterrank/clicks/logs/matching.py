"""From the cells of a log to `ClickCounts`: ids become rows of the ranking data, or of the pairs that were seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.clicks.counts import SEEN_ONLY, ClickCounts
from counterrank.clicks.logs.columns import WHOLE, Columns
from counterrank.common.checks import IntArray
from counterrank.data import RankingData
from counterrank.data.identity import digest_of, identity
from counterrank.data.ids import query_of_rows


class Candidates:
    """The ids of ranking data as tables of the local DuckDB: `queries`, `candidates`, and queries of `elsewhere`."""

    def __init__(self, local: Any, columns: Columns, data: RankingData, others: Sequence[RankingData]) -> None:
        self.local, self.data = local, data
        # a number and its text are one id, so where either side has texts, texts are compared
        self._query = "bigint" if _whole(columns, "query_id") and data.query_ids.dtype.kind == "i" else "string"
        self._doc = "bigint" if _whole(columns, "doc_id") and data.doc_ids.dtype.kind == "i" else "string"
        self._table("queries", "query", {"query_id": data.query_ids}, {"query_id": self._query})
        pairs = {"query": query_of_rows(data.offsets), "doc_id": data.doc_ids}
        self._table("candidates", "row", pairs, {"query": "bigint", "doc_id": self._doc})
        elsewhere = [other.query_ids.astype(np.str_) for other in others]
        ids = np.concatenate(elsewhere) if elsewhere else np.zeros(0, "U1")
        self._table("elsewhere", "number", {"query_id": np.unique(ids)}, {"query_id": "string"})

    def _table(self, name: str, number: str, columns: dict[str, NDArray[Any]], types: dict[str, str]) -> None:
        import pyarrow as pa

        given = pa.table({number: np.arange(len(next(iter(columns.values())))), **columns})
        self.local.register("given", given)
        chosen = ", ".join(f"cast({column} as {kind}) as {column}" for column, kind in types.items())
        self.local.execute(f"create or replace temp table {name} as select {number}, {chosen} from given")
        self.local.unregister("given")

    def match(self) -> None:
        """Make `matched` of `cells`: each with its query and its row in the data, null where there is none."""
        self.local.execute(
            "create or replace temp table matched as select cells.*, queries.query, candidates.row from cells "
            f"left join queries on cast(cells.query_id as {self._query}) = queries.query_id "
            "left join candidates on queries.query = candidates.query "
            f"and cast(cells.doc_id as {self._doc}) = candidates.doc_id"
        )

    def counts(self, columns: Columns) -> ClickCounts:
        """The click counts of `matched` and `pages`; what matches nothing is left out."""
        found = _cells(self.local, columns, "row", "from matched where row is not null")
        sessions = self.local.execute(
            f"select query, {_policy(columns, 'pages')} as policy, cast(sum(pages) as bigint) as pages from pages "
            f"join queries on cast(pages.query_id as {self._query}) = queries.query_id group by all"
        ).fetchnumpy()
        return _counts(identity(self.data), self.data.offsets, found, sessions, columns)


def seen_only(local: Any, columns: Columns) -> ClickCounts:
    """The click counts of a log without ranking data: queries and documents in the order of their ids."""
    local.execute(
        "create or replace temp table seen as select query_id, doc_id, "
        "dense_rank() over (order by query_id) - 1 as query, row_number() over (order by query_id, doc_id) - 1 as row "
        "from (select distinct query_id, doc_id from cells)"
    )
    pairs = local.execute("select query, query_id, doc_id from seen order by row").fetchnumpy()
    lengths = np.bincount(np.asarray(pairs["query"], np.int64))
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    digest = digest_of(offsets, *(_ids(pairs[name]) for name in ("query_id", "doc_id")))
    found = _cells(local, columns, "seen.row", "from cells join seen using (query_id, doc_id)")
    sessions = local.execute(
        f"select query, {_policy(columns, 'pages')} as policy, cast(sum(pages) as bigint) as pages from pages "
        "join (select distinct query_id, query from seen) as asked using (query_id) group by all"
    ).fetchnumpy()
    return _counts(SEEN_ONLY + digest, offsets, found, sessions, columns)


def _ids(found: NDArray[Any]) -> NDArray[Any]:
    return found.astype(np.str_) if found.dtype.kind == "O" else np.asarray(found, np.int64)


def _whole(columns: Columns, name: str) -> bool:
    return columns.kinds.get(name, WHOLE) == WHOLE


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
    names, numbers = np.unique(np.asarray(pages["policy"]).astype(np.str_), return_inverse=True)
    sessions = np.zeros((len(names), len(offsets) - 1), np.int64)
    sessions[numbers, np.asarray(pages["query"], np.int64)] = pages["pages"]
    named = columns.has("policy")
    policies = np.searchsorted(names, cells["policy"].astype(np.str_)) if named else None
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
        policy_names=tuple(names.tolist()) if named else (),
        policy_sessions=sessions if named else None,
    )
