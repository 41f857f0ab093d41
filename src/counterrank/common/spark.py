"""A connection to a Spark cluster: opened with errors that say what is wrong, quiet, and closed without remains."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from counterrank.common.errors import CounterrankError

LOCAL = "local[*]"
_WORKERS_S = 60.0
_CONNECT_PORT = "15002"
# A server that does not answer is asked again for about 15 s; Spark's own patience is ten minutes.
_RETRIES: dict[str, Any] = {"max_retries": 6, "initial_backoff": 50, "backoff_multiplier": 4.0, "max_backoff": 5000}
# What is brought back goes on to DuckDB as it arrives.
_LOG_SETTINGS = {"spark.driver.maxResultSize": "0"}
# Spark itself gives up on a silent master after 60 s.
_MASTER_S, _CONNECT_S, _STOP_S = 45.0, 10.0, 20.0
_SETTINGS = {
    "spark.app.name": "counterrank",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    "spark.task.maxFailures": "2",
}


def check_master(master: str) -> None:
    """Whether cells can be run there, as far as the name and a knock on the door tell.

    >>> check_master("local[2]")
    >>> check_master("sc://host")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    counterrank.common.errors.CounterrankError: master 'sc://host': Spark Connect cannot run cells; expected ...
    """
    if master.startswith("sc://"):
        raise CounterrankError(
            f"master '{master}': Spark Connect cannot run cells; expected spark://HOST:PORT of the cluster, or local[*]"
        )
    if master.startswith("spark://"):
        problems = [knock(master, one) for one in master.removeprefix("spark://").split(",")]
        if all(problems):
            raise CounterrankError(f"master '{master}': {problems[0]}; is the master running, and is this its URL?")


def knock(master: str, address: str) -> str | None:
    """Why nothing answers there; None if something does.

    >>> with socket.create_server(("127.0.0.1", 0)) as server:
    ...     print(knock("spark://127.0.0.1", f"127.0.0.1:{server.getsockname()[1]}"))
    None
    """
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal() and int(port) < 1 << 16):
        raise CounterrankError(f"master '{master}': is no address; expected {master.partition(':')[0]}://HOST:PORT")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S).close()
    except OSError as error:
        return f"no connection ({error.strerror or error})"
    return None


@contextmanager
def spark_context(master: str, log: Path, settings: Mapping[str, str] | None = None) -> Iterator[Any]:
    """A SparkContext and its JVM, for as long as they are needed; what they have to say goes to the log.

    >>> with spark_context("local[2]", Path("spark.log")) as context:  # doctest: +SKIP
    ...     context.range(10).sum()
    45
    """
    check_master(master)
    with _usual_interrupt(), _java(master, log, settings or {}) as gateway:
        context = _connect(master, gateway, log, settings or {})
        if "PYSPARK_PYTHON" not in os.environ:
            context.pythonExec = sys.executable
        yield context


def _connect(master: str, gateway: Any, log: Path, settings: Mapping[str, str]) -> Any:
    from pyspark import SparkContext

    limit = threading.Timer(_MASTER_S, gateway.proc.kill)
    if master.startswith("spark://"):  # other managers may rightly keep an application waiting
        limit.start()
    try:
        return SparkContext(conf=_configuration(master, settings), gateway=gateway)
    except Exception as error:
        reason = f"no answer from a Spark master in {_MASTER_S:.0f} s" if limit.finished.is_set() else why(error)
        raise CounterrankError(f"master '{master}': {reason}; more in {log}") from None
    finally:
        limit.cancel()


def _configuration(master: str, settings: Mapping[str, str]) -> Any:
    from pyspark import SparkConf

    conf = SparkConf(loadDefaults=False).setMaster(master).setAll(list({**_SETTINGS, **settings}.items()))
    if is_local(master):  # a laptop's own name often leads nowhere
        conf = conf.set("spark.driver.host", "127.0.0.1").set("spark.driver.bindAddress", "127.0.0.1")
    return conf


@contextmanager
def _java(master: str, log: Path, settings: Mapping[str, str]) -> Iterator[Any]:
    """The JVM of the driver; pyspark alone would let it live as long as this process, and talk to the terminal."""
    try:
        from pyspark import SparkContext, java_gateway
    except ImportError:
        raise CounterrankError("Spark is not installed; it comes with: pip install 'counterrank[spark]'") from None
    if SparkContext._gateway is not None:
        raise CounterrankError("Spark is in use in this process; expected one that has made no SparkContext of its own")
    launch: Any = java_gateway.launch_gateway
    before = log.stat().st_size if log.exists() else 0
    try:
        with log.open("ab") as out:
            gateway = launch(_configuration(master, settings), popen_kwargs={"stdout": out, "stderr": out})
    except Exception as error:
        said = _last_words(log.read_bytes()[before:].decode(errors="replace")) or f"{why(error)} Is there Java 17?"
        raise CounterrankError(f"master '{master}': Spark did not start: {said}; more in {log}") from None
    try:
        yield gateway
    finally:
        _end(gateway)


def _last_words(output: str) -> str | None:
    """What spark-submit ended with, if it came as far as Java.

    >>> _last_words('Exception in thread "main" org.apache.spark.SparkException: no such master\\n\\tat main')
    'no such master'
    """
    found = re.search(r'^Exception in thread "main" [\w.$]+: (.+)$', output, re.MULTILINE)
    return found[1] if found else None


def _end(gateway: Any) -> None:
    """Leave nothing behind, in whatever state it is, so that the next one can begin."""
    from pyspark import SparkContext

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):  # where the JVM has died, the first call stops halfway
            if (context := SparkContext._active_spark_context) is not None:
                with contextlib.suppress(Exception):
                    context.stop()
    SparkContext._gateway = SparkContext._jvm = None
    with contextlib.suppress(Exception):
        gateway.shutdown()
    gateway.proc.stdin.close()  # at which the JVM ends
    try:
        gateway.proc.wait(_STOP_S)
    except Exception:
        gateway.proc.kill()
        gateway.proc.wait()


@contextmanager
def _usual_interrupt() -> Iterator[None]:
    """Put back what Ctrl-C does, which a SparkContext changes for good."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def is_local(master: str) -> bool:
    """Whether the executor is a part of this machine's JVM.

    >>> is_local("local[*]"), is_local("local-cluster[2,1,1024]")
    (True, False)
    """
    return master == "local" or master.startswith("local[")


def is_alive(context: Any) -> bool:
    """Whether the context can still run jobs.

    >>> is_alive(None)
    False
    """
    try:
        return not context._jsc.sc().isStopped()
    except Exception:
        return False


def executors(context: Any) -> int:
    """How many executors the cluster gives us at the moment.

    >>> executors(context)  # doctest: +SKIP
    2
    """
    count: int = context._jsc.sc().getExecutorMemoryStatus().size()
    return count if is_local(context.master) else count - 1  # the driver is counted too


def why(error: Any) -> str:
    """The first line of what Java or Python says of an error.

    >>> why(ValueError("no such thing\\nat line 1"))
    'no such thing'
    """
    try:
        message = error.java_exception.getMessage()
    except Exception:
        message = str(error)
    lines = (message or type(error).__name__).strip().splitlines()
    return str(lines[0]).strip() if lines else type(error).__name__


def wait_for_cores(context: Any, limit: float, settled: float) -> int:
    """How many cores there are, once executors came and no more of them have for a while.

    >>> wait_for_cores(context, limit=60.0, settled=2.0)  # doctest: +SKIP
    8
    """
    begin = changed = time.monotonic()
    seen = (0, 0)
    while True:
        now, time_now = (executors(context), context.defaultParallelism), time.monotonic()
        if now != seen:
            seen, changed = now, time_now
        if seen[0] > 0 and (is_local(context.master) or time_now - changed >= settled):
            return seen[1]
        if seen[0] == 0 and time_now - begin > limit:
            raise CounterrankError(
                f"master '{context.master}': no worker took us in {limit:.0f} s; are there workers, with free cores "
                "and spark.executor.memory (1g unless set) to spare?"
            )
        time.sleep(0.1)


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
            settings = {**_LOG_SETTINGS, "spark.sql.warehouse.dir": (log.parent / "warehouse").as_uri()}
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
