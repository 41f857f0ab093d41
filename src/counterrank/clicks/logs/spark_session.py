"""A Spark session for as long as a log is read: on this machine, on a cluster, or at a Spark Connect server."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from counterrank.common.errors import CounterrankError
from counterrank.common.spark_context import knock, spark_context, wait_for_cores, why

LOCAL = "local[*]"
_WORKERS_S = 60.0
_CONNECT_PORT = "15002"
# A server that does not answer is asked again for about 15 s; Spark's own patience is ten minutes.
_RETRIES: dict[str, Any] = {"max_retries": 6, "initial_backoff": 50, "backoff_multiplier": 4.0, "max_backoff": 5000}
# What is brought back goes on to DuckDB as it arrives.
_SETTINGS = {"spark.driver.maxResultSize": "0"}


@contextmanager
def spark_session(master: str, folder: Path) -> Iterator[Any]:
    """A session of its own that ends with the block.

    Beyond what is set here Spark is configured where it looks for it: `conf/spark-defaults.conf`, and
    PYSPARK_SUBMIT_ARGS (`--driver-memory 4g pyspark-shell` for more memory than 1 GB with local[*]).

    Arguments:
        master: "local[*]", "spark://HOST:PORT" or "sc://HOST:PORT".
        folder: for what the Java process has to say; nobody reads it if all goes well.

    >>> import tempfile
    >>> with spark_session("sc://nowhere:port", Path(tempfile.gettempdir())):
    ...     pass
    Traceback (most recent call last):
    counterrank.common.errors.CounterrankError: master 'sc://nowhere:port': is no address; expected sc://HOST:PORT
    """
    _hush()
    opened = _connected(master) if master.startswith("sc://") else _started(master, folder / "spark.log")
    with opened as session:
        yield session


def _hush() -> None:
    """Have pyspark not write each error to stderr, with the whole stack of Java, before it raises it."""
    with contextlib.suppress(ImportError):
        from pyspark.logger import PySparkLogger

        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            PySparkLogger.getLogger(name).disabled = True


@contextmanager
def _started(master: str, log: Path) -> Iterator[Any]:
    """A session in a Java process of this one; the log goes with the folder, so nobody is sent there."""
    with contextlib.ExitStack() as stack:
        try:
            settings = {**_SETTINGS, "spark.sql.warehouse.dir": (log.parent / "warehouse").as_uri()}
            context = stack.enter_context(spark_context(master, log, settings))
            wait_for_cores(context, _WORKERS_S, 0.0)
        except CounterrankError as error:
            raise CounterrankError(str(error).replace(f"; more in {log}", "")) from None
        from pyspark.sql import SparkSession

        session = SparkSession(context)
        try:
            yield session
        finally:
            with contextlib.suppress(Exception):  # the process may be gone
                session.stop()
            SparkSession._instantiatedSession = None


@contextmanager
def _connected(master: str) -> Iterator[Any]:
    """A session at a server that runs for itself."""
    address = master.removeprefix("sc://").partition("/")[0]
    if ":" not in address.rpartition("]")[2]:
        address += ":" + _CONNECT_PORT
    if problem := knock(master, address):
        raise CounterrankError(f"master '{master}': {problem}; is a Spark Connect server running there?")
    try:
        from pyspark.sql.connect.client.retries import DefaultPolicy
        from pyspark.sql.connect.session import SparkSession
    except ImportError:
        raise CounterrankError(
            "Spark Connect is not installed; it comes with: pip install 'counterrank[spark]'"
        ) from None
    try:
        session = SparkSession.builder.remote(master).create()
        session.client.set_retry_policies([DefaultPolicy(**_RETRIES)])
        session.conf.get("spark.sql.ansi.enabled")
    except Exception as error:
        raise CounterrankError(f"master '{master}': no answer from a Spark Connect server ({why(error)})") from None
    try:
        yield session
    finally:
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            session.stop()
