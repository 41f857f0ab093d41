"""Click logs counted by Spark, on this machine or on a cluster; what is left of them goes on to a local DuckDB."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from counterrank.clicks.logs.engine import DuckDBEngine, connect, duckdb_errors, kind_of, one_line
from counterrank.clicks.logs.formats import LogFiles
from counterrank.clicks.logs.spark_files import name_of, parquet_rows, prepare, text
from counterrank.clicks.logs.spark_lines import csv_rows, json_rows
from counterrank.common.errors import CounterrankError, DataError
from counterrank.common.progress import progress
from counterrank.common.spark import (
    cancelled_without_workers,
    context_of,
    is_alive,
    master_name,
    spark_session,
    wait_for_cores,
    why,
)

_FIRST_WORKER_S, _NO_WORKER_S = 60.0, 120.0
# What is brought back goes on to DuckDB as it arrives.
_SETTINGS = {"spark.driver.maxResultSize": "0"}


class SparkEngine:
    """Spark reads the files; DuckDB only says which columns they have, so that both engines agree on that."""

    def __init__(self, log: LogFiles, spark: Any, local: Any, master: str) -> None:
        self.log, self.local = log, local
        self._spark, self._master = spark, master
        self._context = context_of(spark)
        self.put_aside = 0, ""  # what was not read, here or on the way from events to a plain log

    def open(self, log: LogFiles, folder: Path) -> None:
        """Make `raw` of the files, which are those of the log or were made of them; a folder for a link to them."""
        looking = DuckDBEngine(self.log, self.local)
        looking.open(log, folder)
        self._types = looking.types()
        self._do("looking at the files", lambda: self._open(log))

    def _open(self, log: LogFiles) -> None:
        prepare(self._spark)
        if log.format == "parquet":
            rows = parquet_rows(self._spark, self.local, log, self._types)
        elif log.format == "csv":
            rows, count, line = csv_rows(self._spark, log)
            self.put_aside = count, line
        else:
            rows = json_rows(self._spark, log, tuple(self._types))
        rows.createOrReplaceTempView("raw")

    def columns(self) -> dict[str, tuple[str, str]]:
        """For each column of `raw` its quoted name, and what it holds."""
        return {name: (name_of(name), kind_of(kind)) for name, kind in self._types.items()}

    def view(self, name: str, sql: str) -> None:
        """Give a query over the log a name."""
        self._do("", lambda: self._spark.sql(sql).createOrReplaceTempView(name))

    def reduce(self, name: str, sql: str, what: str) -> None:
        """Run a query on the cluster; its result becomes the local table `name`."""
        found = self._do(what, lambda: self._spark.sql(sql).toArrow())
        self._finish()
        self.local.register("found", found)
        self.local.execute(f"create or replace temp table {name} as select * from found")
        self.local.unregister("found")

    def lend(self, name: str) -> None:
        """Send a local table to the cluster."""
        self._finish()
        table = self.local.sql(f"select * from {name}").to_arrow_table()
        self._do("", lambda: self._spark.createDataFrame(table).createOrReplaceTempView(name))

    def _finish(self) -> None:
        """Some versions of DuckDB refuse other work while a result has rows that nobody fetched."""
        self.local.execute("select 1").fetchall()

    def in_order(self, column: str) -> str:
        """A list of a column by rank."""
        return f"transform(array_sort(collect_list(struct(rank, {column}))), place -> place.{column})"

    def text(self, value: str) -> str:
        """A text as SQL writes it."""
        return text(value)

    def rejected(self) -> tuple[int, str]:
        """How many lines of the files could not be read, and one of them."""
        return self.put_aside

    def _do(self, what: str, work: Callable[[], Any]) -> Any:
        """Have Spark do something, with errors in one line."""
        on_cluster = self._context is not None and self._context.master.startswith("spark://")
        watched = cancelled_without_workers(self._context, _NO_WORKER_S) if on_cluster else nullcontext(lambda: False)
        with watched as was_cancelled:
            try:
                with progress(what or "asking Spark"), warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of settings that grow old, and of each new try to reach a server
                    return work()
            except CounterrankError:
                raise
            except Exception as error:
                raise self._told(error, was_cancelled()) from None

    def _told(self, error: Exception, was_cancelled: bool) -> CounterrankError:
        """An error of Spark's in one line."""
        reason = one_line(ValueError(why(error)))
        problem = ""
        if was_cancelled:
            problem = f"no worker has been left for {_NO_WORKER_S:.0f} s"
        elif self._context is not None and not is_alive(self._context):
            problem = "Spark has stopped while it read the log"
        elif type(error).__module__.startswith("grpc") or "StatusCode.UNAVAILABLE" in str(error):
            problem = "the server does not answer any more"
        if problem:
            return CounterrankError(f"master '{self._master}': {problem}")
        return DataError(f"{self.log.name}: cannot be counted by Spark ({reason}){_remedy(reason)}")


def _remedy(reason: str) -> str:
    if "FILE_NOT_EXIST" in reason or "PATH_NOT_FOUND" in reason:
        return "; the master and each worker must see the files under the same path"
    return ""


@contextmanager
def spark_engine(log: LogFiles, master: Any, memory: str, threads: int | None, spill: Path) -> Iterator[SparkEngine]:
    """An engine for as long as the log is read.

    Arguments:
        log: the files; this machine and all workers must see them under the same paths.
        master: "local[*]", "spark://HOST:PORT" or "sc://HOST:PORT"; or a SparkSession.
        memory: how much the local DuckDB may use.
        threads: how many it may use.
        spill: a folder for what does not fit, and for what Java has to say, which nobody reads if all goes well.
    """
    local = connect(memory, threads, spill)
    settings = {**_SETTINGS, "spark.sql.warehouse.dir": (spill / "warehouse").as_uri()}
    try:
        with spark_session(master, spill / "spark.log", settings) as spark:
            if context_of(spark) is not None:
                wait_for_cores(spark, _FIRST_WORKER_S, 0.0)
            with duckdb_errors(log.name):
                yield SparkEngine(log, spark, local, master_name(master))
    finally:
        local.close()
