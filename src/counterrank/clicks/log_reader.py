"""A click log on disk, counted: Parquet in the columns that `write_log` writes, one row per displayed document."""

from __future__ import annotations

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
from counterrank.data.ids import find_rows

_COLUMNS = ("session_id", "query_id", "doc_id", "rank", "clicked")


def read_log(path: PathLike, data: RankingData, *, displays: bool = False) -> ClickCounts:
    """Count the impressions and clicks of a log against ranking data.

    The log is grouped by DuckDB, which keeps to its memory limit. Rows that are wrong or match nothing in the data are
    an error that counts them and shows the first.

    Arguments:
        path: a Parquet file with session_id, query_id, doc_id, rank, clicked, and if it has it propensity.
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
    with _Log(path) as log:
        log.check_rows()
        cells = log.cells(data)
        sessions = log.sessions(data)
        kept = log.displays(data) if displays else None
    order = np.lexsort((cells["propensity"], cells["rank"], cells["doc"]))
    return ClickCounts(
        identity=identity(data),
        offsets=data.offsets,
        sessions=sessions,
        docs=cells["doc"][order],
        ranks=cells["rank"][order],
        impressions=cells["impressions"][order],
        clicks=cells["clicks"][order],
        propensities=cells["propensity"][order] if log.has_propensity else None,
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
            self.table = self.connection.read_parquet(str(self.path))
        except duckdb.Error as error:
            text = " ".join(str(error).split())
            raise DataError(f"{self.path}: not a Parquet file that can be read ({text})") from None
        names = self.table.columns
        missing = [name for name in _COLUMNS if name not in names]
        if missing:
            raise DataError(f"{self.path}: no column {missing[0]!r}; expected {', '.join(_COLUMNS)}")
        self.has_propensity = "propensity" in names
        self.connection.register("log", self.table)
        return self

    def __exit__(self, *error: object) -> None:
        self.connection.close()

    def run(self, sql: str) -> dict[str, NDArray[Any]]:
        """The columns of a query's result."""
        found: dict[str, NDArray[Any]] = self.connection.sql(sql).fetchnumpy()
        return {name: np.asarray(column) for name, column in found.items()}

    def check_rows(self) -> None:
        """An error that names the first kind of wrong row, how many there are, and one of them."""
        rules = {
            "a null": " or ".join(f"{name} is null" for name in _COLUMNS),
            "a rank below 1 or not whole": "rank < 1 or rank <> floor(rank)",
            "a clicked that is not 0 or 1": "clicked::int not in (0, 1)",
        }
        if self.has_propensity:
            rules["a propensity outside 0 to 1"] = "propensity is null or not (propensity between 0 and 1)"
            rules["a click at propensity 0"] = "clicked::int = 1 and propensity = 0"
        counts = ", ".join(f"count(*) filter (where {rule}) as n{i}" for i, rule in enumerate(rules.values()))
        found = self.run(f"select count(*) as total, {counts} from log")
        if not found["total"][0]:
            raise DataError(f"{self.path}: no rows; expected one for each displayed document")
        for i, (what, rule) in enumerate(rules.items()):
            if n := int(found[f"n{i}"][0]):
                row = self.connection.execute(f"select * from log where {rule} limit 1").fetchone()
                shown = dict(zip(self.table.columns, row or (), strict=True))
                raise DataError(f"{self.path}: {n:,} rows have {what}, the first is {shown}")

    def cells(self, data: RankingData) -> dict[str, NDArray[Any]]:
        """Impressions and clicks by document, rank and logged propensity."""
        propensity = "propensity::double" if self.has_propensity else "0.0::double"
        found = self.run(
            f"select query_id, doc_id, rank::bigint as rank, {propensity} as propensity, count(*) as impressions, "
            "sum(clicked::int)::bigint as clicks from log group by all"
        )
        found["doc"] = self._rows(found["query_id"], found["doc_id"], data)
        return found

    def sessions(self, data: RankingData) -> IntArray:
        """Pages by query."""
        found = self.run("select query_id, count(distinct session_id) as sessions from log group by all")
        rows = find_rows(found["query_id"], data.query_ids)
        result = np.zeros(data.n_queries, np.int64)
        result[rows] = found["sessions"]
        return result

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
