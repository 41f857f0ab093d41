"""Cells on Spark: the same rows as on this machine, whatever dies meanwhile."""

import builtins
import json
import os
import signal
import socket
import sys
import threading
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import pytest

from counterrank.clicks import read_log
from counterrank.common import spark as common
from counterrank.common.errors import CounterrankError
from counterrank.experiments import spark_cells
from counterrank.experiments.cells import all_cells, grid
from counterrank.experiments.engines import CellFailure
from counterrank.experiments.reproduction import Settings, reproduce
from counterrank.experiments.spark_cells import spark_engine
from tests.support.spark_cluster import Cluster, end_java, free_port, has_run_python, marked, needs_spark, until

DATA = "synthetic:yahoo:queries=60"
SETTINGS = Settings(figures=(2,), clicks=(100, 1000), runs=1, max_epochs=3, clip="none")
CELLS = all_cells(grid(SETTINGS, 1))


@pytest.fixture(scope="module")
def cluster(environment, tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("a cluster"))
    try:
        cluster.add_worker()
        cluster.add_worker()
        cluster.wait_for_workers()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def expected(environment, tmp_path_factory):
    """What the local engine makes of the cells."""
    return without_time(reproduce(DATA, tmp_path_factory.mktemp("local") / "run", SETTINGS, jobs=2))


def without_time(run):
    return {
        key: {name: value for name, value in row.items() if name not in ("seconds", "stages")}
        for key, row in run.rows.items()
    }


def keys(folder):
    return [json.loads(line)["key"] for line in (folder / "results.jsonl").read_text().splitlines()]


def executors(context):
    """How many there are at the moment; pyspark does not tell."""
    return context._jsc.sc().getExecutorMemoryStatus().size() - 1  # the driver is counted too


class Watched:
    """An engine's slots, with a hook in front of each cell and a count of what is under way."""

    def __init__(self, engine, before):
        self._engine, self._before = engine, before
        self._lock = threading.Lock()
        self.started, self.finished, self.running = 0, 0, {}

    @contextmanager
    def __call__(self, folders, log):
        with self._engine(folders, log) as slots:
            self.slots = slots
            yield [SimpleNamespace(run=partial(self._run, slot)) for slot in slots]

    def _run(self, slot, cell):
        with self._lock:
            self.started += 1
            number = self.started
        self._before(number)
        with self._lock:
            self.running[number] = self.finished
        row = slot.run(cell)
        with self._lock:
            self.finished += 1
            del self.running[number]
        return row

    def is_stuck(self):
        """Whether some cell is still under way though two others were finished since it began."""
        with self._lock:
            return any(self.finished - before >= 2 for before in self.running.values())


@needs_spark
def test_a_cluster_gives_the_same_rows(cluster, environment, expected, tmp_path, capfd):
    run = reproduce(DATA, tmp_path / "a run", SETTINGS, engine=partial(spark_engine, master=cluster.url))
    assert without_time(run) == expected
    assert sorted(keys(tmp_path / "a run")) == sorted(expected)
    assert "Spark" not in capfd.readouterr().err
    assert "WARN" in (tmp_path / "a run" / "workers.log").read_text()
    end_java()
    of_cluster = {pid for daemon in (cluster.master, *cluster.workers) for pid in daemon.members()}
    assert set(marked(environment)) <= of_cluster


@needs_spark
def test_a_killed_worker_loses_no_cell(cluster, expected, tmp_path):
    """The worker is frozen first, so that it is known to have a cell in its hands when it dies."""
    victim, frozen = cluster.workers[-1], threading.Event()

    def hold(number):
        if number <= 2:
            until(lambda: executors(engine.slots[0]._context) == 2, "both executors are there")
        if number > 4:
            assert frozen.wait(300)

    engine = Watched(partial(spark_engine, master=cluster.url, slots=2), hold)

    def kill():
        until(lambda: all(has_run_python(worker) for worker in cluster.workers), "both workers took part")
        until(lambda: engine.finished == 4, "some cells are finished")
        victim.signal(signal.SIGSTOP)
        frozen.set()
        until(engine.is_stuck, "the frozen worker holds a cell")
        victim.kill()
        killed.append(victim)

    killed = []
    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    run = reproduce(DATA, tmp_path / "run", SETTINGS, engine=engine)
    killer.join()
    assert killed
    assert without_time(run) == expected
    assert sorted(keys(tmp_path / "run")) == sorted(expected)


@needs_spark
def test_spark_on_this_machine_and_its_sudden_death(environment, expected, tmp_path):
    """The JVM of the driver dies: the run ends with an error, and goes on in the next."""

    def kill(number):
        if number == 5:
            for pid in engine_processes():
                os.kill(pid, signal.SIGKILL)

    def engine_processes():
        return [pid for pid, command in marked(environment).items() if "pyspark-shell" in command]

    folder, engine = tmp_path / "run", partial(spark_engine, master="local[2]")
    with pytest.raises(CounterrankError, match=r"Spark has stopped: .*Finished cells are kept"):
        reproduce(DATA, folder, SETTINGS, engine=Watched(engine, kill))
    end_java()
    assert not engine_processes()
    before = keys(folder)
    assert 1 <= len(before) < len(expected)
    run = reproduce(DATA, folder, SETTINGS, engine=engine)
    assert without_time(run) == expected
    assert keys(folder)[: len(before)] == before
    assert sorted(keys(folder)) == sorted(expected)


@pytest.mark.parametrize(
    ("master", "message"),
    [
        ("sc://localhost:15002", r"Spark Connect cannot run cells; expected spark://HOST:PORT .*, or local\[\*\]"),
        ("spark://localhost", "is no address; expected spark://HOST:PORT"),
        ("spark://host:99999", "is no address"),
        (f"spark://127.0.0.1:{free_port()}", r"no connection \(Connection refused\); is the master running"),
    ],
    ids=["connect", "no port", "not a port", "no master"],
)
def test_bad_masters(master, message, tmp_path):
    with pytest.raises(CounterrankError, match=message), spark_engine([], tmp_path / "log", master=master):
        pass


def test_one_of_several_masters_is_enough():
    with socket.create_server(("127.0.0.1", 0)) as server:
        common.check_master(f"spark://127.0.0.1:{free_port()},127.0.0.1:{server.getsockname()[1]}")


@needs_spark
def test_a_silent_master(environment, tmp_path):
    """Something listens there, and is no Spark, which gives up after a minute."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        master = f"spark://127.0.0.1:{server.getsockname()[1]}"
        wanted = pytest.raises(CounterrankError, match=r"Spark did not start: .*; more in .*log")
        with wanted, spark_engine([], tmp_path / "log", master=master):
            pass
    assert context_in_use() is None


def context_in_use():
    from pyspark import SparkContext

    return SparkContext._active_spark_context


@needs_spark
def test_a_context_that_gives_no_session_is_stopped(environment, tmp_path, monkeypatch):
    """As happens where Spark gives up on its master just after the context was made."""
    from pyspark.sql import SparkSession

    def fail(self):
        assert context_in_use() is not None
        raise RuntimeError("Cannot call methods on a stopped SparkContext")

    with monkeypatch.context() as patch:
        patch.setattr(SparkSession.Builder, "getOrCreate", fail)
        wanted = pytest.raises(CounterrankError, match="Spark did not start: Cannot call methods on a stopped")
        with wanted, spark_engine([], tmp_path / "log", master="local[1]"):
            pass
    assert context_in_use() is None


@needs_spark
def test_a_master_that_spark_does_not_know(environment, tmp_path):
    end_java()  # so that spark-submit sees the master
    wanted = pytest.raises(CounterrankError, match=r"master 'nonsense': Spark did not start: (Master must|Could not)")
    with wanted, spark_engine([], tmp_path / "log", master="nonsense"):
        pass


def test_without_pyspark(monkeypatch, tmp_path):
    real = builtins.__import__

    def missing(name, *rest):
        if name.startswith("pyspark"):
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    wanted = pytest.raises(CounterrankError, match=r"pip install 'counterrank\[spark\]'")
    with wanted, spark_engine([], tmp_path / "log", master="local[2]"):
        pass


def cluster_of(*answers, executors=1, **more):
    """The engine's side of a cluster whose jobs come to these ends."""
    ends = iter(answers)

    def collect():
        end = next(ends)
        if isinstance(end, Exception):
            raise end
        return [json.dumps(end)]

    rdd = SimpleNamespace(map=lambda function: SimpleNamespace(collect=more.get("collect", collect)))
    stage = SimpleNamespace(numActiveTasks=executors)
    tracker = SimpleNamespace(getActiveStageIds=lambda: [7], getStageInfo=lambda number: stage)
    return SimpleNamespace(
        parallelize=lambda cells, parts: rdd,
        statusTracker=lambda: tracker,
        master="spark://host:7077",
        defaultParallelism=2,
        cancelAllJobs=more.get("cancel"),
    )


LOST = RuntimeError("executor lost\n  at line 1")


@pytest.mark.parametrize(
    ("answers", "end", "message"),
    [
        ([{"error": "ValueError: no"}, {"metrics": {}}], CellFailure, "ValueError: no"),
        ([LOST, LOST, {"metrics": {}}], CellFailure, "again and again: executor lost; more in workers.log"),
        ([LOST, {"unfit": "worker a: has counterrank 0.0.1"}], CounterrankError, "worker a: has counterrank 0.0.1"),
    ],
)
def test_what_ends_a_cell_and_what_ends_the_run(answers, end, message, tmp_path):
    slot = spark_cells._Cluster(cluster_of(*answers), [], tmp_path / "workers.log", lambda: False)
    with pytest.raises(end, match=message):
        slot.run(CELLS[0])
    slot.ended.set()


def test_a_lost_job_is_tried_again(tmp_path):
    slot = spark_cells._Cluster(cluster_of(LOST, {"metrics": {"arp": 1.0}}), [], tmp_path / "log", lambda: False)
    assert slot.run(CELLS[0]) == {"metrics": {"arp": 1.0}}
    slot.ended.set()


def test_a_run_without_workers_ends(monkeypatch, tmp_path):
    monkeypatch.setattr(spark_cells, "_WORKERS_S", 1.0)
    cancelled = threading.Event()

    def collect():
        assert cancelled.wait(60)
        raise LOST

    context = cluster_of(executors=0, collect=collect, cancel=cancelled.set)
    with common.cancelled_without_workers(context, 1.0) as was_cancelled:
        slot = spark_cells._Cluster(context, [], tmp_path / "log", was_cancelled)
        with pytest.raises(CounterrankError, match=r"no worker has been left for 1 s\. Finished cells are kept"):
            slot.run(CELLS[0])
        slot.ended.set()


def test_a_cluster_without_workers():
    cancelled = threading.Event()

    def count():
        assert cancelled.wait(60)
        raise LOST

    def session(context, count):
        return SimpleNamespace(sparkContext=context, range=lambda n: SimpleNamespace(count=count))

    alone = session(cluster_of(executors=0, cancel=cancelled.set), count)
    with pytest.raises(CounterrankError, match="no worker took us in 1 s; are there workers, with free cores"):
        common.wait_for_cores(alone, limit=1.0, settled=0.0)
    assert common.wait_for_cores(session(cluster_of(), lambda: 1), limit=1.0, settled=0.2) == 2


@needs_spark
@pytest.mark.representative
def test_the_session_of_a_user(environment, expected, tmp_path, monkeypatch):
    """It is used for cells and for logs, and is as before when they are done."""
    from pyspark.sql import SparkSession

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    own = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        before = {key: own.conf.get(key, None) for key in ("spark.sql.caseSensitive", "spark.sql.session.timeZone")}
        run = reproduce(DATA, tmp_path / "run", SETTINGS, engine=partial(spark_engine, master=own))
        assert without_time(run) == expected
        log = tmp_path / "log.csv"
        log.write_text("session_id,query_id,doc_id,rank,clicked\n1,q,a,1,1\n1,q,b,2,0\n")
        counts = read_log(log, engine="spark", master=own)
        assert (counts.n_sessions, counts.n_clicks) == (1, 1)
        assert own.range(3).count() == 3
        assert {key: own.conf.get(key, None) for key in before} == before
        assert [table.name for table in own.catalog.listTables()] == []
        with pytest.raises(CounterrankError, match="Spark is in use in this process; expected its SparkSession"):
            read_log(log, engine="spark", master="local[1]")
        assert own.range(3).count() == 3
    finally:
        own.stop()


@pytest.mark.parametrize("master", [object(), 3])
def test_what_is_no_session(master, tmp_path):
    wanted = pytest.raises(
        CounterrankError, match=r"that gives no new session .* expected a SparkSession, or the master"
    )
    with wanted, spark_engine([], tmp_path / "log", master=master):
        pass


def test_workers_with_another_version_or_none(monkeypatch):
    task = spark_cells._task(["no/such/fold"])
    assert "cannot open the data" in json.loads(task(CELLS[0].plain()))["unfit"]
    monkeypatch.setattr(spark_cells, "installed_version", lambda: "0.0.1")
    task = spark_cells._task([])
    assert "expected 0.0.1" in json.loads(task(CELLS[0].plain()))["unfit"]
    monkeypatch.setitem(sys.modules, "counterrank.common.errors", None)
    assert "expected an installation of counterrank 0.0.1" in json.loads(task(CELLS[0].plain()))["unfit"]
