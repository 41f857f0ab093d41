"""Click logs: found, opened on an engine, counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.logs.columns import Columns, plan_columns
from counterrank.clicks.logs.duckdb_engine import duckdb_engine, files_as_sql
from counterrank.clicks.logs.engine import Engine
from counterrank.clicks.logs.files import LogFiles, find_log
from counterrank.clicks.logs.reading import Reader, Reading
from counterrank.common.checks import check_choice
from counterrank.common.errors import CounterrankError, DataError
from counterrank.common.files import PathLike
from counterrank.common.leftovers import spill_folder
from counterrank.data import RankingData

MEMORY = "1GB"


@dataclass(frozen=True)
class LogOptions:
    """How a log is to be read.

    Attributes:
        columns: for columns of the log that have another name in the files, that name.
        rank_base: the number of the first rank, 0 or 1.
        format: "parquet", "csv", "jsonl", "ubi" or "metarank"; "auto" goes by the names and first lines of the files.
        impressions: each row is a page of its own, session_id is not needed, and query_id is one constant if missing.
        on_error: "fail", or "skip" to drop the pages that have something wrong in them.
        trust: do not check whether pages are whole and name each document once.
        memory: how much DuckDB may use, such as "500MB"; beyond it, it spills to the folder that TMPDIR names.
        threads: how many DuckDB may use.
        engine: "duckdb", or "spark" on the cluster that `master` names.
        master: "local[*]", "spark://HOST:PORT" or "sc://HOST:PORT".
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    rank_base: int = 1
    format: str = "auto"
    impressions: bool = False
    on_error: str = "fail"
    trust: bool = False
    memory: str = MEMORY
    threads: int | None = None
    engine: str = "duckdb"
    master: str | None = None

    def __post_init__(self) -> None:
        check_choice(self.on_error, ("fail", "skip"), "on_error")
        check_choice(self.engine, ("duckdb", "spark"), "engine")
        if self.engine == "duckdb" and self.master is not None:
            raise CounterrankError(f"master={self.master!r}: of a Spark cluster; expected engine='spark' too")


@contextmanager
def opened(path: PathLike, options: LogOptions) -> Iterator[tuple[Engine, LogFiles, Columns]]:
    """An engine over the files of a log, and the columns it reads them by."""
    log = find_log(path, options.format)
    with spill_folder() as spill, duckdb_engine(log, options.memory, options.threads, spill) as engine:
        engine.open(files_as_sql(log))
        columns = plan_columns(log.name, engine.columns(), options.columns, options.rank_base, options.impressions)
        yield engine, log, columns


def read_parts(
    path: PathLike, parts: Sequence[RankingData], *, displays: bool = False, options: LogOptions | None = None
) -> Reading:
    """A log counted as `read_log` does it, against several parts of the data at once, with a report on its rows.

    Arguments:
        path: a file, a folder or a pattern.
        parts: queries with all their candidates, shown or not, each query in one of them; none to count what was seen.
        displays: also keep the distinct pages.
        options: how to read it.
    """
    chosen = LogOptions() if options is None else options
    for part in parts:
        if not isinstance(part, RankingData):
            raise DataError(f"data: {type(part).__name__}; expected RankingData")
    if displays and chosen.impressions:
        raise CounterrankError("displays: there are no pages where each row is one; expected it without impressions")
    with opened(path, chosen) as (engine, log, columns):
        reader = Reader(engine, log.name, columns, chosen.on_error, chosen.trust, displays)
        return reader.read(parts)


def read_log(path: PathLike, data: RankingData | None = None, *, displays: bool = False, **options: Any) -> ClickCounts:
    """Count the impressions and clicks of a log.

    DuckDB reads it out of core, or a Spark cluster. Whatever is wrong in it is an error that counts it by kind and
    shows the first; `on_error="skip"` drops the pages concerned and warns.

    Arguments:
        path: Parquet, CSV or JSON Lines, compressed or not, OpenSearch UBI, or events of metarank: a file, a pattern
            such as `logs/*.csv.gz`, or a folder (`policy=new/` in it is a column).
        data: the queries and all their candidates, shown or not. Without it the counts know what was seen and no
            more: enough for `examination.estimate`, not for training.
        displays: also keep the distinct pages, which `estimators.rerank` needs.
        options: those of `LogOptions`: columns, rank_base, format, impressions, on_error, trust, memory, threads,
            engine and master.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "log.csv"
    >>> _ = file.write_text("session_id,query_id,doc_id,position,clicked\\n1,q,a,0,1\\n1,q,b,1,0\\n")
    >>> counts = read_log(file, columns={"rank": "position"}, rank_base=0)
    >>> counts.n_sessions, counts.ranks.tolist(), counts.clicks.tolist()
    (1, [1, 2], [1, 0])
    """
    parts = () if data is None else (data,)
    return read_parts(path, parts, displays=displays, options=LogOptions(**options)).counts[0]
