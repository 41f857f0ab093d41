"""A click log on disk, counted: Parquet in the columns that `write_log` writes, one row per displayed document."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.clicks._pages import offsets_of
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.displays import Displays, merge_pages
from counterrank.common.checks import IntArray
from counterrank.common.errors import DataError
from counterrank.common.files import PathLike, existing
from counterrank.data import RankingData
from counterrank.data.identity import identity
from counterrank.data.ids import find_rows, query_of

_IDS = ("whole numbers or texts", ("INT", "VARCHAR", "ENUM"))
_NUMBERS = ("numbers", ("INT", "DOUBLE", "FLOAT", "DECIMAL"))
_COLUMNS = {
    "session_id": _IDS,
    "query_id": _IDS,
    "doc_id": _IDS,
    "rank": _NUMBERS,
    "clicked": ("0, 1 or booleans", ("BOOL", *_NUMBERS[1])),
}
_OPTIONAL = {"propensity": _NUMBERS, "policy": _IDS}


def read_log(path: PathLike, data: RankingData, *, displays: bool = False) -> ClickCounts:
    """Count the impressions and clicks of a log against ranking data.

    The log is grouped by DuckDB, which keeps to its memory limit. Rows that are wrong or match nothing in the data are
    an error that counts them and shows the first.

    Arguments:
        path: a Parquet file with session_id, query_id, doc_id, rank, clicked, and if it has them propensity and policy.
        data: the queries and all their candidates, shown or not.
        displays: also keep the distinct pages, which `estimators.rerank` needs.

    >>> import pathlib, tempfile
    >>> from counterrank.clicks import policies, simulation
    >>> from counterrank.clicks.examination import inverse_rank
    >>> data = RankingData([[0.0], [0.0]], [0, 2], labels=[0, 4])
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "log.parquet"
    >>> policy, exam = policies.Deterministic(k=2), inverse_rank(k=2)
    >>> rows = simulation.write_log(data, [2.0, 1.0], policy, exam, file, sessions=10)
    >>> read_log(file, data).n_sessions
    10
    """
    if not isinstance(data, RankingData):
        raise DataError(f"data: {type(data).__name__}; expected RankingData")
    with _Log(path) as log:
        log.check_rows()
        log.check_pages()
        cells = log.cells(data)
        names, policy_sessions = log.sessions(data)
        kept = log.displays(data) if displays else None
    policies = np.searchsorted(names, cells["policy"].astype(np.str_))
    order = np.lexsort((cells["propensity"], policies, cells["rank"], cells["doc"]))
    named = "policy" in log.names
    return ClickCounts(
        identity=identity(data),
        offsets=data.offsets,
        sessions=policy_sessions.sum(axis=0),
        docs=cells["doc"][order],
        ranks=cells["rank"][order],
        impressions=cells["impressions"][order],
        clicks=cells["clicks"][order],
        propensities=cells["propensity"][order] if "propensity" in log.names else None,
        policies=policies[order] if named else None,
        policy_names=tuple(names.tolist()) if named else (),
        policy_sessions=policy_sessions if named else None,
        displays=kept,
    )


class _Log:
    """One open log; each method is one query over it."""

    def __init__(self, path: PathLike) -> None:
        self.path = existing(path, "click log")

    def __enter__(self) -> _Log:
        import duckdb

        self.connection = duckdb.connect()
        try:
            # a name with a star is a name, not a pattern
            self.table = self.connection.read_parquet(re.sub(r"([*?\[])", r"[\1]", str(self.path)))
        except duckdb.Error as error:
            raise DataError(f"{self.path}: not a Parquet file that can be read ({_one_line(error)})") from None
        self.names = self.table.columns
        kinds = dict(zip(self.names, map(str, self.table.types), strict=True))
        for name, (expected, allowed) in {**_COLUMNS, **_OPTIONAL}.items():
            if name not in kinds and name in _COLUMNS:
                raise DataError(f"{self.path}: no column {name!r}; expected {', '.join(_COLUMNS)}")
            # lists and structs name the type of what they hold, too; a column of nulls is told of as such
            if name in kinds and ("[" in kinds[name] or not any(kind in kinds[name] for kind in (*allowed, "NULL"))):
                raise DataError(f"{self.path}: column {name!r} has type {kinds[name]}; expected {expected}")
        self.connection.register("log", self.table)
        return self

    def __exit__(self, *error: object) -> None:
        self.connection.close()

    def run(self, sql: str) -> dict[str, NDArray[Any]]:
        """The columns of a query's result."""
        import duckdb

        try:
            found: dict[str, NDArray[Any]] = self.connection.sql(sql).fetchnumpy()
        except duckdb.Error as error:
            raise DataError(f"{self.path}: cannot be counted ({_one_line(error)})") from None
        return {name: np.asarray(column) for name, column in found.items()}

    def check_rows(self) -> None:
        """An error that names the first kind of wrong row, how many there are, and one of them."""
        rules = {
            "a null": " or ".join(f"{name} is null" for name in (*_COLUMNS, *_OPTIONAL) if name in self.names),
            "a rank below 1 or not whole": "rank < 1 or rank <> floor(rank)",
            "a clicked that is not 0 or 1": "clicked::double not in (0, 1)",
        }
        if "propensity" in self.names:
            rules["a propensity outside 0 to 1"] = "not coalesce(propensity between 0 and 1, false)"
            rules["a click at propensity 0"] = "clicked::double = 1 and propensity = 0"
        counts = ", ".join(f"count(*) filter (where {rule}) as n{i}" for i, rule in enumerate(rules.values()))
        found = self.run(f"select count(*) as total, {counts} from log")
        if not found["total"][0]:
            raise DataError(f"{self.path}: no rows; expected one for each displayed document")
        for i, (what, rule) in enumerate(rules.items()):
            if n := int(found[f"n{i}"][0]):
                row = self.run(f"select first(columns(*)) from log where {rule}")
                shown = ", ".join(f"{name} {column[0]}" for name, column in zip(self.names, row.values(), strict=True))
                raise DataError(f"{self.path}: {n:,} rows have {what}, the first is: {shown}")

    def check_pages(self) -> None:
        """An error if a page shows a document or a rank twice."""
        found = self.run(
            "select count(*) as pages, any_value(session_id) as session, any_value(query_id) as query from ("
            "select session_id, query_id from log group by all "
            "having count(*) > count(distinct doc_id) or count(*) > count(distinct rank))"
        )
        if n := int(found["pages"][0]):
            raise DataError(
                f"{self.path}: {n:,} pages show a document or a rank twice, such as session {found['session'][0]} of "
                f"query {found['query'][0]}; expected each once on a page"
            )

    def cells(self, data: RankingData) -> dict[str, NDArray[Any]]:
        """Impressions and clicks by document, rank, policy and logged propensity."""
        propensity = "propensity::double" if "propensity" in self.names else "0.0::double"
        found = self.run(
            f"select query_id, doc_id, rank::bigint as rank, {propensity} as propensity, {self._policy()} as policy, "
            "count(*) as impressions, sum(clicked::int)::bigint as clicks from log group by all"
        )
        found["doc"] = self._rows(found["query_id"], found["doc_id"], data)
        deep = found["rank"] > data.lengths[query_of(found["doc"], data.offsets)]
        if deep.any():
            at = int(np.argmax(deep))
            raise DataError(
                f"{self.path}: rank {found['rank'][at]} in query {found['query_id'][at]!s}, which has fewer documents"
            )
        return found

    def sessions(self, data: RankingData) -> tuple[NDArray[Any], IntArray]:
        """The names of the policies in order, and pages by policy and query."""
        found = self.run(
            f"select query_id, {self._policy()} as policy, count(distinct session_id) as sessions from log group by all"
        )
        names, policies = np.unique(found["policy"].astype(np.str_), return_inverse=True)
        result = np.zeros((len(names), data.n_queries), np.int64)
        result[policies, find_rows(found["query_id"], data.query_ids)] = found["sessions"]
        return names, result

    def _policy(self) -> str:
        return "policy::varchar" if "policy" in self.names else "''"

    def displays(self, data: RankingData) -> Displays:
        """The distinct pages."""
        found = self.run(
            "select query_id, doc_id, clicked::int::bigint as clicked, "
            "count(*) over (partition by session_id, query_id) as length, rank::bigint as rank "
            "from log order by session_id, query_id, rank"
        )
        lengths = found["length"][found["rank"] == 1]
        once = np.ones(len(lengths), np.int64)
        docs = self._rows(found["query_id"], found["doc_id"], data)
        pages = Displays(offsets_of(lengths), docs, once, found["clicked"].copy())
        if lengths.sum() != len(docs) or (pages.ranks() != found["rank"]).any():
            raise DataError(f"{self.path}: pages with a gap or a rank twice; expected ranks 1, 2, ... of each page")
        return merge_pages(data.offsets, pages)

    def _rows(self, query_ids: NDArray[Any], doc_ids: NDArray[Any], data: RankingData) -> IntArray:
        """Rows of the data; an error if some are not in it."""
        queries = find_rows(query_ids, data.query_ids)
        rows = find_rows(doc_ids, data.doc_ids, queries, data.offsets)
        unknown = np.flatnonzero(rows < 0)
        if len(unknown):
            what = "query" if queries[unknown[0]] < 0 else "document of this query"
            raise DataError(
                f"{self.path}: {len(unknown):,} query-document pairs are not in the ranking data, the first is query "
                f"{query_ids[unknown[0]]!s}, document {doc_ids[unknown[0]]!s} (no such {what})"
            )
        return rows


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
