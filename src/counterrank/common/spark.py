"""Spark sessions for click logs and for the cells of a reproduction: the user's own, or opened by a master's URL.

Only what pyspark documents is used. So Java, once started, stays until this process ends, as in any program with Spark;
where it dies, sessions can be opened in a new process only.
"""

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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from counterrank.common.errors import CounterrankError
from counterrank.common.progress import stderr_silenced

LOCAL = "local[*]"
_CONNECT_S = 10.0
_CONNECT_PORT = "15002"
# A server that does not answer is tried again for about 15 s; Spark's own patience is ten minutes.
_RETRIES: dict[str, Any] = {"max_retries": 6, "initial_backoff": 50, "backoff_multiplier": 4.0, "max_backoff": 5000}
_SETTINGS = {
    "spark.app.name": "counterrank",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    "spark.task.maxFailures": "2",
}


@contextmanager
def spark_session(
    master: Any, log: Path, settings: Mapping[str, str] | None = None, *, hint: str = ""
) -> Iterator[Any]:
    """A session for as long as it is needed.

    Beyond what is set here Spark is configured where it looks for it: `conf/spark-defaults.conf`, and
    PYSPARK_SUBMIT_ARGS (`--driver-memory 4g pyspark-shell` for more memory than 1 GB with local[*]).

    Arguments:
        master: "local[*]", "spark://HOST:PORT" or "sc://HOST:PORT"; or a SparkSession, which stays as it is: what is
            done here is done in a new session of the same application.
        log: a file for what Java has to say, if this starts it.
        settings: more of Spark's, if this makes the session.
        hint: what an error about the start of Spark ends with.

    >>> with spark_session("sc://nowhere:port", Path("spark.log")):
    ...     pass
    Traceback (most recent call last):
    counterrank.common.errors.CounterrankError: master 'sc://nowhere:port': is no address; expected sc://HOST:PORT
    """
    _hush()
    if not isinstance(master, str):
        opened = _of_the_user(master)
    elif master.startswith("sc://"):
        opened = _connected(master)
    else:
        opened = _started(master, log, settings or {}, hint)
    with opened as session:
        yield session


def master_name(master: Any) -> str:
    """How errors call it.

    >>> master_name("local[2]")
    'local[2]'
    """
    if isinstance(master, str):
        return master
    context = context_of(master)
    return "SparkSession" if context is None else str(context.master)


def context_of(session: Any) -> Any:
    """The session's SparkContext; None for Spark Connect, which has none.

    >>> print(context_of(object()))
    None
    """
    return getattr(session, "sparkContext", None)


@contextmanager
def _of_the_user(session: Any) -> Iterator[Any]:
    """A new session of the user's application: its settings and views are not theirs."""
    try:
        own = session.newSession()
    except Exception as error:
        kind = type(session).__name__
        raise CounterrankError(
            f"master: {kind} that gives no new session ({why(error)}); expected a SparkSession, or the master's URL"
        ) from None
    try:
        yield own
    finally:
        if context_of(own) is None:  # else this would stop the user's too
            _stop(own)


@contextmanager
def _started(master: str, log: Path, settings: Mapping[str, str], hint: str) -> Iterator[Any]:
    """A session of a driver in this process."""
    check_master(master)
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession
    except ImportError:
        raise CounterrankError("Spark is not installed; it comes with: pip install 'counterrank[spark]'") from None
    before = log.stat().st_size if log.exists() else 0
    context = session = None
    with _usual_interrupt():
        try:
            with _workers_python(), stderr_silenced(log):
                conf = SparkConf().setMaster(master).setAll(list({**_SETTINGS, **settings}.items()))
                if is_local(master):  # a laptop's own name often leads nowhere
                    conf = conf.set("spark.driver.host", "127.0.0.1").set("spark.driver.bindAddress", "127.0.0.1")
                context = SparkContext(conf=conf)  # refused where there is one, which a builder would take for this
                session = SparkSession.builder.getOrCreate()
        except Exception as error:
            _stop(context)  # it may have come up, and gone again before it gave a session
            said = _last_words(log.read_bytes()[before:].decode(errors="replace")) if log.exists() else None
            raise CounterrankError(f"master '{master}': {_why_not_started(error, said)}{hint}") from None
        try:
            yield session
        finally:
            _stop(session, context)  # where Java has died, the first stops halfway


def _stop(*opened: Any) -> None:
    """Stop sessions and contexts, those that have failed already too."""
    for one in opened:
        if one is not None:
            with contextlib.suppress(Exception), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                one.stop()


def _why_not_started(error: Exception, said: str | None) -> str:
    if "multiple SparkContexts" in str(error):
        return "Spark is in use in this process; expected its SparkSession as master, or a process without one"
    if isinstance(error, OSError) or type(error).__name__ == "Py4JNetworkError":
        return "the Java process of an earlier session has died; expected a new Python process"
    return f"Spark did not start: {said or why(error)}"


def _last_words(output: str) -> str | None:
    """What spark-submit ended with, if it came as far as Java.

    >>> _last_words('Exception in thread "main" org.apache.spark.SparkException: no such master\\n\\tat main')
    'no such master'
    """
    found = re.search(r'^Exception in thread "main" [\w.$]+: (.+)$', output, re.MULTILINE)
    return found[1] if found else None


@contextmanager
def _connected(master: str) -> Iterator[Any]:
    """A session at a server that runs for itself."""
    address = master.removeprefix("sc://").partition("/")[0]
    if ":" not in address.rpartition("]")[2]:
        address += ":" + _CONNECT_PORT
    if problem := connection_problem(master, address):
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
        _stop(session)


def check_master(master: str) -> None:
    """Whether something answers at the master's address, as far as its URL has one.

    >>> check_master("local[2]")
    >>> check_master("spark://host")
    Traceback (most recent call last):
    counterrank.common.errors.CounterrankError: master 'spark://host': is no address; expected spark://HOST:PORT
    """
    if master.startswith("spark://"):
        problems = [connection_problem(master, one) for one in master.removeprefix("spark://").split(",")]
        if all(problems):
            raise CounterrankError(f"master '{master}': {problems[0]}; is the master running, and is this its URL?")


def connection_problem(master: str, address: str) -> str | None:
    """Why nothing answers at HOST:PORT; None if something does.

    >>> with socket.create_server(("127.0.0.1", 0)) as server:
    ...     print(connection_problem("spark://127.0.0.1", f"127.0.0.1:{server.getsockname()[1]}"))
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


def _hush() -> None:
    """Have pyspark not write each error to stderr, with the whole stack of Java, before it raises it."""
    with contextlib.suppress(ImportError):
        from pyspark.logger import PySparkLogger

        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            PySparkLogger.getLogger(name).disabled = True


@contextmanager
def _usual_interrupt() -> Iterator[None]:
    """Put back what Ctrl-C does, which a SparkContext changes for good."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


@contextmanager
def _workers_python() -> Iterator[None]:
    """Have a SparkContext that is made meanwhile run this Python on its workers, unless the user named another."""
    if "PYSPARK_PYTHON" in os.environ:
        yield
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        yield
    finally:
        del os.environ["PYSPARK_PYTHON"]


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
        return bool(context.defaultParallelism)  # refused by a context that was stopped, or whose Java is gone
    except Exception:
        return False


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


def wait_for_cores(session: Any, limit: float, settled: float) -> int:
    """How many cores there are, once a worker has run something and no more cores have come for a while.

    >>> wait_for_cores(session, limit=60.0, settled=2.0)  # doctest: +SKIP
    8
    """
    context = session.sparkContext
    if is_local(context.master):
        return int(context.defaultParallelism)
    with cancelled_without_workers(context, limit) as was_cancelled:
        try:
            session.range(1).count()
        except Exception as error:
            if not was_cancelled():
                raise CounterrankError(f"master '{context.master}': {why(error)}") from None
            raise CounterrankError(
                f"master '{context.master}': no worker took us in {limit:.0f} s; are there workers, with free cores "
                "and spark.executor.memory (1g unless set) to spare?"
            ) from None
    cores, since = context.defaultParallelism, time.monotonic()
    while time.monotonic() - since < settled:
        time.sleep(0.1)
        if (now := context.defaultParallelism) != cores:
            cores, since = now, time.monotonic()
    return int(cores)


@contextmanager
def cancelled_without_workers(context: Any, limit: float, pause: float = 1.0) -> Iterator[Callable[[], bool]]:
    """While this lasts, jobs are cancelled when for so many seconds no worker has been at any of them.

    Spark would wait for ever without a word. Gives a function that says whether this has happened.

    >>> with cancelled_without_workers(context, 120.0) as was_cancelled:  # doctest: +SKIP
    ...     context.parallelize(range(10)).sum()
    45
    """
    over, cancelled = threading.Event(), threading.Event()

    def watch() -> None:
        idle = 0.0
        with contextlib.suppress(Exception):  # a context that is gone, which jobs notice themselves
            while not over.wait(min(pause, limit)):
                idle = idle + min(pause, limit) if _waits_for_workers(context.statusTracker()) else 0.0
                if idle >= limit:
                    cancelled.set()
                    context.cancelAllJobs()

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield cancelled.is_set
    finally:
        over.set()


def _waits_for_workers(tracker: Any) -> bool:
    """Whether there is work and no task of it is under way."""
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return bool(stages) and not any(stage is not None and stage.numActiveTasks for stage in stages)
