"""Click logs: found, opened on an engine, counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.logs.columns import Columns, plan_columns
from counterrank.clicks.logs.duckdb_engine import DuckDBEngine, duckdb_engine
from counterrank.clicks.logs.engine import Engine
from counterrank.clicks.logs.files import LogFiles, find_log
from counterrank.clicks.logs.options import LogOptions
from counterrank.clicks.logs.plain import plain_log
from counterrank.clicks.logs.reading import Reader, Reading
from counterrank.clicks.logs.spark_engine import SparkEngine, spark_engine
from counterrank.common.errors import CounterrankError, DataError, printable
from counterrank.common.files import PathLike, spill_folder
from counterrank.common.spark import LOCAL
from counterrank.data import RankingData


@contextmanager
def opened(path: PathLike, options: LogOptions) -> Iterator[tuple[Engine, LogFiles, Columns]]:
    """An engine over the files of a log, and the columns it reads them by."""
    log = find_log(path, options.format)
    with spill_folder() as spill, _engine(log, options, spill) as engine:
        plain = plain_log(log, engine.local, spill, options)
        if plain is not None:
            engine.put_aside = plain.rejected, plain.line
        engine.open(log if plain is None else plain.log, spill)
        base, events = options.rank_base, plain is not None
        columns = plan_columns(log.name, engine.columns(), options.columns, base, options.impressions, events)
        if options.only_policies:
            columns = _restricted(engine, columns, options.only_policies, log.name)
        yield engine, log, columns


def _restricted(engine: Engine, columns: Columns, policies: Sequence[str], log: str) -> Columns:
    """The columns of the rows of some policies."""
    if not columns.has("policy"):
        names = ", ".join(map(printable, policies))
        raise DataError(
            f"{log}: no column 'policy' to choose {names} by; expected it, or its name by --map policy=NAME"
        )
    engine.view("chosen", columns.of_policies(policies, engine.text))
    return replace(columns, table="chosen", only_policies=tuple(policies))


@contextmanager
def _engine(log: LogFiles, options: LogOptions, spill: Path) -> Iterator[DuckDBEngine | SparkEngine]:
    if options.engine == "spark":
        with spark_engine(log, options.master or LOCAL, options.memory, options.threads, spill) as spark:
            yield spark
    else:
        with duckdb_engine(log, options.memory, options.threads, spill) as duckdb:
            yield duckdb


def read_parts(
    path: PathLike,
    parts: Sequence[RankingData],
    *,
    displays: bool = False,
    drift: bool = False,
    options: LogOptions | None = None,
) -> Reading:
    """A log counted as `read_log` does it, against several parts of the data at once, with a report on its rows.

    Arguments:
        path: a file, a folder or a pattern.
        parts: queries with all their candidates, shown or not, each query in one of them; none to count what was seen.
        displays: also keep the distinct pages.
        drift: also count over time, if the log has a timestamp.
        options: how to read it.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "log.csv"
    >>> rows = "1,q,a,1,1,2026-01-01 00:00:30\\n2,q,a,1,0,2026-01-01 00:01:10\\n"
    >>> _ = file.write_text("session_id,query_id,doc_id,rank,clicked,timestamp\\n" + rows)
    >>> found = read_parts(file, (), drift=True)
    >>> found.report.used, [(each["begin"], each["clicks"]) for each in found.drift[0]]
    (2, [('2026-01-01 00:00', 1), ('2026-01-01 00:01', 0)])
    """
    chosen = LogOptions() if options is None else options
    for part in parts:
        if not isinstance(part, RankingData):
            raise DataError(f"data: {type(part).__name__}; expected RankingData")
    if displays and chosen.impressions:
        raise CounterrankError("displays: there are no pages where each row is one; expected it without impressions")
    with opened(path, chosen) as (engine, log, columns):
        columns = replace(columns, timed=drift and columns.has("timestamp"))
        reader = Reader(engine, log.name, columns, chosen, displays)
        return reader.read(parts)


def read_log(path: PathLike, data: RankingData | None = None, *, displays: bool = False, **options: Any) -> ClickCounts:
    """Count the impressions and clicks of a log.

    DuckDB reads it out of core, or a Spark cluster. Whatever is wrong in it is an error that counts it by kind and
    shows the first; `on_error="skip"` drops the pages concerned and warns. Rows of queries that the data does not have
    are left out. So are rows of documents that are not candidates of their query, with a warning; the rest of their
    page is counted. `strict=True` makes both of them faults.

    Arguments:
        path: Parquet, CSV or JSON Lines, compressed or not, OpenSearch UBI, or events of metarank: a file, a pattern
            such as `logs/*.csv.gz`, or a folder (`policy=new/` in it is a column).
        data: the queries and all their candidates, shown or not. Without it the counts know what was seen and no
            more: enough for `examination.estimate`, not for training.
        displays: also keep the distinct pages, which `estimators.rerank` needs. A page with a document that is not a
            candidate is then a fault.
        options: those of `LogOptions`: columns, rank_base, format, click_actions, impressions, only_policies, on_error,
            strict, trust, memory, threads, engine and master.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "log.csv"
    >>> _ = file.write_text("session_id,query_id,doc_id,position,clicked\\n1,q,a,0,1\\n1,q,b,1,0\\n")
    >>> counts = read_log(file, columns={"rank": "position"}, rank_base=0)
    >>> counts.n_sessions, counts.ranks.tolist(), counts.clicks.tolist()
    (1, [1, 2], [1, 0])
    """
    parts = () if data is None else (data,)
    return read_parts(path, parts, displays=displays, options=LogOptions(**options)).counts[0]
