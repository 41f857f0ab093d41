"""A standalone Spark master and workers on loopback, as real as they come, and what they leave behind."""

import os
import shutil
import signal
import socket
import subprocess
import time
import uuid
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import pytest


def why_not() -> str | None:
    """What a cluster is missing here."""
    if find_spec("pyspark") is None:
        return "no pyspark"
    if shutil.which("java") is None:
        return "no Java"
    return None if Path("/proc/self/stat").exists() else "no /proc to find processes in"


def needs_spark(test):
    """A test that starts Spark."""
    return pytest.mark.cluster(pytest.mark.skipif(why_not() is not None, reason=str(why_not()))(test))


def until(condition, what, limit=120.0):
    """Wait for something that is bound to happen."""
    end = time.monotonic() + limit
    while not (found := condition()):
        assert time.monotonic() < end, f"waited {limit:.0f} s in vain until {what}"
        time.sleep(0.05)
    return found


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def living(wanted) -> dict[int, str]:
    """The command line of each process that is wanted, by its id."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted(folder):
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:  # it has just ended, or is another user's
            continue
    return found


def session_of(folder: Path) -> int | None:
    """The session of a process in /proc; None if it has ended and only waits to be noticed."""
    state, _, _, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
    return None if state == "Z" else int(session)


def marked(mark: str) -> dict[int, str]:
    """The processes that were started with this text in their environment, and what those started in turn."""
    return living(lambda folder: mark.encode() in (folder / "environ").read_bytes())


def end_java() -> None:
    """End the Java process of this one and forget its context, as its own end does; pyspark has no other way."""
    from pyspark import SparkContext

    if (left := SparkContext._active_spark_context) is not None:
        with suppress(Exception):
            left.stop()
        SparkContext._active_spark_context = None
    if (gateway := SparkContext._gateway) is not None:
        SparkContext._gateway = SparkContext._jvm = None
        with suppress(Exception):
            gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(30)


@contextmanager
def loopback():
    """Loopback only; and a mark on all processes, by which those that stay behind are found."""
    from counterrank.clicks.logs import spark_engine

    mark = uuid.uuid4().hex
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("COUNTERRANK_TESTS", mark)
        patch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")  # for a short life
        patch.setitem(spark_engine._SETTINGS, "spark.sql.shuffle.partitions", "2")
        yield mark
    end_java()
    until(lambda: not marked(mark), "no process is left", limit=30)


class Daemon:
    """A process of Spark in a session of its own; all it starts stays in that session, and can be found by it."""

    def __init__(self, kind: str, arguments: list[str], log: Path):
        import pyspark

        script = Path(pyspark.__file__).parent / "bin" / "spark-class"
        self.log = log
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [str(script), f"org.apache.spark.deploy.{kind}", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def says(self, text: str) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        return text in self.log.read_text(errors="replace")

    def members(self) -> dict[int, str]:
        """The command line of each living process of the session."""
        return living(lambda folder: session_of(folder) == self.process.pid)

    def signal(self, number: int) -> None:
        for pid in self.members():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    def kill(self) -> None:
        """SIGKILL to all of the session, and to whatever they start meanwhile."""

        def gone():
            self.signal(signal.SIGKILL)
            self.process.poll()
            return not self.members()

        until(gone, "a killed session is gone")
        self.process.wait()


class Cluster:
    """A master, and workers of one core each."""

    def __init__(self, folder: Path):
        self.folder, self.workers = folder, []
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        where = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        self.master = Daemon("master.Master", where, folder / "master.log")
        until(lambda: self.master.says("New state: ALIVE"), "the master is there")

    def add_worker(self) -> None:
        number = len(self.workers)
        room = ["--cores", "1", "--memory", "1g", "--work-dir", str(self.folder / f"work{number}")]
        where = ["--host", "127.0.0.1", "--webui-port", "0", self.url]
        self.workers.append(Daemon("worker.Worker", room + where, self.folder / f"worker{number}.log"))

    def wait_for_workers(self) -> None:
        until(lambda: all(worker.says("Successfully registered") for worker in self.workers), "workers are there")

    def stop(self) -> None:
        for daemon in (*self.workers, self.master):
            daemon.kill()


def has_run_python(worker: Daemon) -> bool:
    """Whether an executor of this worker has run a task of ours."""
    return any("pyspark.daemon" in command for command in worker.members().values())
