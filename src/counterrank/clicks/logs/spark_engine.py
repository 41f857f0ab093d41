"""Click logs counted by Spark, on this machine or on a cluster; what is left of them goes on to a local DuckDB."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from counterrank.clicks.logs.engine import DuckDBEngine, connect, duckdb_errors, kind_of, one_line
from counterrank.clicks.logs.formats import LogFiles
from counterrank.clicks.logs.spark_files import parquet_rows
from counterrank.clicks.logs.spark_lines import csv_rows, json_rows
from counterrank.clicks.logs.spark_session import spark_session
from counterrank.clicks.logs.spark_sql import name_of, prepare, text
from counterrank.common.errors import CounterrankError, DataError
from counterrank.common.progress import progress
from counterrank.common.spark_context import executors, is_alive, why

_NO_WORKER_S = 120.0


class SparkEngine:
    """Spark reads the files; DuckDB only says which columns they have, so that both engines agree on that."""

    def __init__(self, log: LogFiles, spark: Any, local: Any, master: str) -> None:
        self.log, self.local = log, local
        self._spark, self._master = spark, master
        self._context: Any = None if master.startswith("sc://") else spark.sparkContext
        self._lost = ""
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
        try:
            with progress(what or "asking Spark"), self._watched(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of settings that grow old, and of each new try to reach a server
                return work()
        except CounterrankError:
            raise
        except Exception as error:
            reason = one_line(ValueError(why(error)))
            if self._lost:
                raise CounterrankError(f"master '{self._master}': {self._lost}") from None
            if self._context is not None and not is_alive(self._context):
                raise CounterrankError(f"master '{self._master}': Spark has stopped while it read the log") from None
            if type(error).__module__.startswith("grpc") or "StatusCode.UNAVAILABLE" in str(error):
                raise CounterrankError(f"master '{self._master}': the server does not answer any more") from None
            raise DataError(f"{self.log.name}: cannot be counted by Spark ({reason}){_remedy(reason)}") from None

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Where all workers of a cluster have gone, Spark would wait for ever without a word."""
        if self._context is None or not self._master.startswith("spark://"):
            yield
            return
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(done,), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()

    def _watch(self, done: threading.Event) -> None:
        missing, pause = 0.0, 1.0
        with suppress(Exception):  # a context that is gone, which the work notices itself
            while not done.wait(pause):
                missing = missing + pause if executors(self._context) == 0 else 0.0
                if missing >= _NO_WORKER_S:
                    self._lost = f"no worker has been left for {missing:.0f} s"
                    self._context.cancelAllJobs()


def _remedy(reason: str) -> str:
    if "FILE_NOT_EXIST" in reason or "PATH_NOT_FOUND" in reason:
        return "; the master and each worker must see the files under the same path"
    return ""


@contextmanager
def spark_engine(log: LogFiles, master: str, memory: str, threads: int | None, spill: Path) -> Iterator[SparkEngine]:
    """An engine for as long as the log is read.

    Arguments:
        log: the files; this machine and all workers must see them under the same paths.
        master: "local[*]", "spark://HOST:PORT" or "sc://HOST:PORT".
        memory: how much the local DuckDB may use.
        threads: how many it may use.
        spill: a folder for what does not fit.
    """
    local = connect(memory, threads, spill)
    try:
        with spark_session(master, spill) as spark, duckdb_errors(log.name):
            yield SparkEngine(log, spark, local, master)
    finally:
        local.close()
