"""Click logs on Spark clusters and Connect servers, and what is said when these are gone."""

import builtins
import os
import signal
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterrank.clicks.logs import LogOptions, read_log, read_parts, spark_engine
from counterrank.common import spark
from counterrank.common.errors import CounterrankError
from tests.support.spark_cluster import Cluster, end_java, free_port, marked, needs_spark, until
from tests.support.spark_logs import LINES, faulty_rows, pages, read_both, write_csv

pytestmark = pytest.mark.filterwarnings("error", "ignore:.*dropped:UserWarning")


@needs_spark
def test_a_cluster_with_two_workers(environment, tmp_path, capfd):
    columns = pages(200, seed=5)
    for i in range(2):
        pq.write_table(pa.table({k: v[i::2] for k, v in columns.items()}), tmp_path / f"{i}.parquet")
    (tmp_path / "a cluster").mkdir()
    cluster = Cluster(tmp_path / "a cluster")
    try:
        cluster.add_worker()
        cluster.add_worker()
        cluster.wait_for_workers()
        read_both(str(tmp_path / "*.parquet"), displays=True, master=cluster.url)
        assert "WARN" not in capfd.readouterr().err
        assert all(worker.says("Asked to launch executor") for worker in cluster.workers)
        end_java()
        of_cluster = {pid for daemon in (cluster.master, *cluster.workers) for pid in daemon.members()}
        assert set(marked(environment)) <= of_cluster
    finally:
        cluster.stop()


class ConnectServer:
    """A Spark Connect server on loopback, from the wheel."""

    def __init__(self, folder):
        import pyspark

        self.port = free_port()
        self.url = f"sc://127.0.0.1:{self.port}"
        self.log = folder / "server.log"
        settings = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.ansi.enabled": "false",  # a server's own settings change nothing
            "spark.sql.caseSensitive": "false",
        }
        command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]"]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        until(lambda: "Spark Connect server started" in self.log.read_text(errors="replace"), "the server is there")

    def stop(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def server(environment, tmp_path):
    pytest.importorskip("grpc_status", reason="no grpcio-status, which Spark Connect needs")
    found = ConnectServer(tmp_path)
    try:
        yield found
    finally:
        found.stop()


@needs_spark
def test_spark_connect_and_its_end(server, tmp_path, capfd, monkeypatch):
    log = tmp_path / "a log"
    log.mkdir()
    write_csv(log / "it's.csv", faulty_rows() + LINES)
    read_both(log, on_error="skip", displays=True, master=server.url)
    as_user(server.url, lambda session: read_both(log, on_error="skip", master=session))
    monkeypatch.setitem(spark._RETRIES, "max_retries", 1)
    in_the_middle(monkeypatch, server.stop)
    with pytest.raises(CounterrankError, match="the server does not answer any more") as error:
        read_parts(log, [], options=LogOptions(engine="spark", master=server.url))
    assert "\n" not in str(error.value)
    assert capfd.readouterr().err == ""
    with pytest.raises(CounterrankError, match=r"no connection .*; is a Spark Connect server running there"):
        read_parts(log, [], options=LogOptions(engine="spark", master=server.url))


def as_user(url, work):
    """Do something with a session of the user's, which then is as before."""
    import pyspark
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(url).create()
    if tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 3):  # older ones cannot make another
        work(session)
    else:
        with pytest.raises(CounterrankError, match="expected a SparkSession, or the master's URL"):
            work(session)
    assert session.conf.get("spark.sql.caseSensitive") == "false"
    assert session.catalog.listTables() == []
    session.stop()


def in_the_middle(monkeypatch, action):
    """Do something before the last pass over a log."""
    real = spark_engine.SparkEngine.reduce

    def reduce(self, name, *rest):
        if name == "pages":
            action()
        real(self, name, *rest)

    monkeypatch.setattr(spark_engine.SparkEngine, "reduce", reduce)


@needs_spark
def test_the_sudden_death_of_java(environment, tmp_path, monkeypatch, capfd):
    """One line, nothing left behind, and a new process can read the log again."""
    pq.write_table(pa.table(pages(20, seed=1)), tmp_path / "log.parquet")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    options = LogOptions(engine="spark", master="local[1]")

    def kill():
        for pid, command in marked(environment).items():
            if "pyspark-shell" in command:
                os.kill(pid, signal.SIGKILL)

    with monkeypatch.context() as patch:
        in_the_middle(patch, kill)
        with pytest.raises(CounterrankError, match=r"^master 'local\[1\]': Spark has stopped while it read the log$"):
            read_parts(tmp_path / "log.parquet", [], options=options)
    with pytest.raises(CounterrankError, match="an earlier session has died; expected a new Python process"):
        read_parts(tmp_path / "log.parquet", [], options=options)
    end_java()
    assert not marked(environment)
    assert capfd.readouterr().err == ""
    assert read_parts(tmp_path / "log.parquet", [], options=options).counts[0].n_sessions == 20
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("master", "message"),
    [
        ("sc://host:99999", "is no address; expected sc://HOST:PORT"),
        (f"sc://127.0.0.1:{free_port()}/;token=x", "no connection .*; is a Spark Connect server running there"),
        (f"spark://127.0.0.1:{free_port()}", r"no connection \(Connection refused\); is the master running"),
    ],
    ids=["no port", "no server", "no master"],
)
def test_bad_masters(master, message, tmp_path):
    pq.write_table(pa.table(pages(2, seed=1)), tmp_path / "log.parquet")
    with pytest.raises(CounterrankError, match=message):
        read_log(tmp_path / "log.parquet", engine="spark", master=master)


@pytest.mark.parametrize("missing", ["pyspark", "pyspark.sql.connect"])
def test_without_the_extra(monkeypatch, missing, tmp_path):
    real = builtins.__import__

    def found(name, *rest):
        if name.startswith(missing):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", found)
    monkeypatch.setattr(spark, "connection_problem", lambda master, address: None)
    master = "local[1]" if missing == "pyspark" else "sc://127.0.0.1"
    wanted = pytest.raises(
        CounterrankError, match=r"is not installed; it comes with: pip install 'counterrank\[spark\]'"
    )
    with wanted, spark.spark_session(master, tmp_path / "log"):
        pass
