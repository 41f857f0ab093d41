"""Whole runs: the same whatever the number of processes, and whatever is killed on the way."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import types
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from counterrank.clicks.simulation import simulate
from counterrank.common.errors import CounterrankError, DataError
from counterrank.data import make_fold
from counterrank.experiments import engines
from counterrank.experiments.engines import CellFailure
from counterrank.experiments.reproduction import read_run, reproduce
from counterrank.experiments.run_folder import RESULTS, ResultWriter, read_results
from counterrank.experiments.settings import Settings
from counterrank.training import fit_ranker
from counterrank.training.executor import CpuExecutor, Device, Epoch

DATA = "synthetic:yahoo:queries=60"
SETTINGS = Settings(figures=(2,), clicks=(100, 1000), runs=2, max_epochs=8, clip="none")
COMMAND = [
    *(sys.executable, "-m", "counterrank", "reproduce", "--data", DATA, "--figures", "2", "--n-clicks", "100,1000"),
    *("--runs", "2", "--max-epochs", "8", "--clip", "none", "--jobs", "2"),
]
CELLS = 54
WAIT = 120.0  # seconds; far more than anything takes

needs_proc = pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are looked up in /proc")


def without_times(folder):
    return {key: {**row, "seconds": None, "stages": None} for key, row in read_results(folder).items()}


def lines_of(folder):
    """All rows in the file, also older ones of the same cell."""
    text = (folder / RESULTS).read_text() if (folder / RESULTS).is_file() else ""
    return [json.loads(line) for line in text.split("\n")[:-1]]


def workers_of(folder):
    """The ids of the processes that work on the data of a run folder."""
    found = []
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            command = (process / "cmdline").read_bytes().split(b"\0") if process.name.isdigit() else []
            if b"counterrank.experiments.cell_runner" in command and os.fsencode(folder) in b" ".join(command):
                found.append(int(process.name))
    return found


def wait_until(true):
    end = time.monotonic() + WAIT
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


@contextlib.contextmanager
def started(folder):
    """The command in a process of its own, at a moment when some cells are done and others are not."""
    process = subprocess.Popen([*COMMAND, "--out", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        wait_until(lambda: len(lines_of(folder)) >= 3 or process.poll() is not None)
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """A run that nothing happened to, in one process."""
    folder = tmp_path_factory.mktemp("reference") / "run"
    run = reproduce(DATA, folder, SETTINGS, jobs=1)
    assert (run.missing(), len(run.rows)) == ([], CELLS)
    return folder


# Killed --------------------------------------------------------------------------------------------------------------


@pytest.mark.process
@pytest.mark.representative
@needs_proc
def test_kill_of_the_parent(reference, tmp_path):
    """No worker outlives it, no row is lost, no finished cell is repeated, and the end is the same."""
    folder = tmp_path / "run"
    with started(folder) as process:
        assert len(workers_of(folder)) == 2
        process.kill()
    wait_until(lambda: not workers_of(folder))
    before = read_results(folder)
    assert 3 <= len(before) < CELLS  # else it was no interruption
    assert (folder / "data").is_dir()  # a kill leaves what it leaves

    run = reproduce(DATA, folder, SETTINGS, jobs=2)
    assert run.missing() == []
    assert without_times(folder) == without_times(reference)
    assert set(Counter(row["key"] for row in lines_of(folder)).values()) == {1}
    assert all(read_results(folder)[key] == row for key, row in before.items())
    assert not (folder / "data").exists()


@pytest.mark.process
@needs_proc
def test_interrupt(reference, tmp_path):
    """Ctrl-C: gone at once, in silence, with all rows whole and nothing else left; meanwhile nobody else may write."""
    folder = tmp_path / "run"
    with started(folder) as process:
        process.send_signal(signal.SIGSTOP)  # or it may be done before it is looked at
        with pytest.raises(CounterrankError, match=r"another process is writing results there; wait for it"):
            reproduce(DATA, folder, SETTINGS, jobs=1)
        assert (folder / "data").is_dir()  # the refused one has not touched it
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        out, err = process.communicate(timeout=WAIT)
    assert (process.returncode, out, err) == (130, b"", b"")
    wait_until(lambda: not workers_of(folder))
    assert sorted(file.name for file in folder.iterdir()) == [RESULTS, "run.json", "workers.log"]
    rows = without_times(folder)
    assert 3 <= len(rows) < CELLS
    assert all(without_times(reference)[key] == row for key, row in rows.items())
    assert (folder / RESULTS).read_bytes().endswith(b"\n")
    assert len(read_run(folder).missing()) == CELLS - len(rows)


@pytest.mark.process
@needs_proc
def test_kill_of_workers(reference, tmp_path):
    """One after the other, in the middle of a cell: it is tried again, and the run does not notice."""
    folder, killed = tmp_path / "run", 0
    run = threading.Thread(target=reproduce, args=(DATA, folder, SETTINGS), kwargs={"jobs": 2})
    run.start()
    for rows in (2, 10, 18):
        wait_until(lambda rows=rows: len(lines_of(folder)) >= rows or not run.is_alive())
        for worker in workers_of(folder)[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
                killed += 1
    run.join(WAIT)
    assert killed >= 1
    assert without_times(folder) == without_times(reference)
    assert not workers_of(folder)


def test_a_worker_that_always_dies_is_a_failure_of_the_cell(tmp_path, monkeypatch):
    monkeypatch.setattr(engines.sys, "executable", shutil.which("false"))
    settings = Settings(figures=(2,), clicks=(100,), runs=1)
    run = reproduce(DATA, tmp_path / "run", settings, jobs=2)
    assert {row["error"] for row in run.rows.values()} == {
        "its process died 2 times, the last words are in workers.log; out of memory?"
    }
    assert len(run.missing()) == len(run.rows) == 15


def test_a_worker_that_cannot_be_started_ends_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(engines.sys, "executable", str(tmp_path / "no such python"))
    with pytest.raises(OSError, match="no such python"):
        reproduce(DATA, tmp_path / "run", SETTINGS, jobs=2)
    assert not (tmp_path / "run" / "data").exists()


def test_a_cell_that_fails_in_a_worker(tmp_path):
    """With this step size training runs off to infinity; the production ranker has one of its own."""
    settings = Settings(figures=(2,), clicks=(100,), runs=1, learning_rate=1e200, clip="none", max_epochs=3)
    run = reproduce(DATA, tmp_path / "run", settings, jobs=1)
    errors = {row["cell"]["estimator"]: row.get("error") for row in run.rows.values()}
    assert errors.pop("production") is None
    assert set(errors.values()) == {
        "CounterrankError: learning_rate=1e+200: training diverged; use a smaller one or 'auto'"
    }
    assert "Traceback" in (tmp_path / "run" / "workers.log").read_text()


# Without training: an engine that makes results up -------------------------------------------------------------------


class MadeUp:
    """An engine of one slot that notes which cells it was given, and on which data."""

    def __init__(self, fail=lambda cell: False):
        self.fail, self.cells, self.shared = fail, [], []

    @contextlib.contextmanager
    def __call__(self, folders, log):
        self.shared = [sorted(file.name for file in folder.iterdir()) for folder in folders]
        yield [self]

    def run(self, cell):
        self.cells.append(cell)
        if self.fail(cell):
            raise CellFailure("no luck")
        return {"metrics": {"arp": 1.0}, "seconds": 0.0}


def made_up(folder, settings=SETTINGS, data=DATA, **more):
    engine = MadeUp(**more)
    return reproduce(data, folder, settings, engine=engine), engine


def test_finished_cells_are_not_run_again(tmp_path):
    _, first = made_up(tmp_path / "run")
    run, second = made_up(tmp_path / "run")
    assert (len(first.cells), second.cells, run.missing()) == (CELLS, [], [])
    assert not (tmp_path / "run" / "data").exists()
    assert len(first.shared) == 1
    assert "fold.json" in first.shared[0]


def test_a_larger_grid_takes_over_what_is_there(tmp_path):
    made_up(tmp_path / "run")
    larger = Settings(figures=(1, 2, 3), clicks=(100, 1000), ks=(5,), clicks_by_k=1000, losses=("dcg-hinge",),
                      runs=3, max_epochs=8, clip="none")  # fmt: skip
    run, engine = made_up(tmp_path / "run", larger)
    # of the runs before only the loss of figure 3 is new; the third is new as a whole
    assert Counter(cell.run for cell in engine.cells) == {0: 2, 1: 2, 2: CELLS // 2 + 2}
    assert run.missing() == []
    back, engine = made_up(tmp_path / "run")
    assert (engine.cells, back.settings) == ([], SETTINGS)


@pytest.mark.parametrize("other", ["synthetic:yahoo:queries=60,seed=5", "synthetic:yahoo:queries=61"])
def test_a_folder_belongs_to_its_data(tmp_path, other):
    made_up(tmp_path / "run")
    before = (tmp_path / "run" / "run.json").read_bytes()
    with pytest.raises(CounterrankError, match="holds a run on other data; choose another folder"):
        made_up(tmp_path / "run", data=other)
    assert (tmp_path / "run" / "run.json").read_bytes() == before
    _, engine = made_up(tmp_path / "run", data=[DATA, other])  # one fold more
    assert {cell.fold for cell in engine.cells} == {1}


def test_fewer_queries_are_other_data(tmp_path):
    made_up(tmp_path / "run")
    fewer = replace(SETTINGS, queries=20)
    with pytest.raises(CounterrankError, match="holds a run on other data"):
        made_up(tmp_path / "run", fewer)
    run, _ = made_up(tmp_path / "fewer", fewer)
    assert run.about["data"][0]["parts"]["train"]["queries"] == 20


def test_several_folds(tmp_path):
    folds = [f"synthetic:yahoo:queries=60,seed={seed}" for seed in (1, 2)]
    run, engine = made_up(tmp_path / "run", data=folds)
    assert Counter(cell.fold for cell in engine.cells) == {0: CELLS, 1: CELLS}
    assert len(engine.shared) == 2
    assert all(len(point.cells) == 4 for point in run.points)
    assert [fold["source"] for fold in run.about["data"]] == folds


def test_cells_that_failed_are_tried_again(tmp_path):
    run, _ = made_up(tmp_path / "run", fail=lambda cell: cell.estimator == "rerank")
    failed = [row for row in run.rows.values() if "error" in row]
    assert len(failed) == len(run.missing()) == 16
    assert failed[0]["error"] == "no luck"
    assert all(cell.estimator == "rerank" for cell in run.missing())
    run, engine = made_up(tmp_path / "run")
    assert len(engine.cells) == 16
    assert not any("error" in row for row in run.rows.values())


def test_a_fault_of_the_engine_loses_no_row(tmp_path):
    def fail(cell):
        if cell.estimator == "production":
            raise RuntimeError("the cluster is gone")
        return False

    with pytest.raises(RuntimeError, match="the cluster is gone"):
        made_up(tmp_path / "run", fail=fail)
    done = len(read_results(tmp_path / "run"))
    _, engine = made_up(tmp_path / "run")
    assert 0 < done < CELLS
    assert len(engine.cells) == CELLS - done
    assert not (tmp_path / "run" / "data").exists()


# Folders and data ----------------------------------------------------------------------------------------------------


def test_a_folder_of_something_else_is_left_untouched(tmp_path):
    (tmp_path / "thesis.tex").write_text("all of it")
    with pytest.raises(CounterrankError, match=r"exists and is not a run folder; it is left untouched"):
        made_up(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(CounterrankError, match=r"thesis\.tex: is a file; expected a folder for the results"):
        made_up(tmp_path / "thesis.tex")


@pytest.mark.parametrize("left", [[RESULTS], ["run.json"], []])
def test_whatever_a_kill_left_is_a_run_folder(tmp_path, left):
    made_up(tmp_path / "run")
    for name in {RESULTS, "run.json"} - set(left):
        (tmp_path / "run" / name).unlink()
    run, _ = made_up(tmp_path / "run")
    assert run.missing() == []


@pytest.mark.parametrize(
    ("data", "settings", "message"),
    [
        ([], {}, r"^data: none given; expected at least one fold"),
        ("no/such/fold", {}, r"no/such/fold"),
        ("synthetic:istella", {}, r"istella"),
        (DATA, {"relevance_threshold": 9}, rf"^{re.escape(DATA)}: train: relevance_threshold=9: no document is relev"),
    ],
)
def test_bad_data_leave_no_folder(tmp_path, data, settings, message):
    with pytest.raises(CounterrankError, match=message):
        reproduce(data, tmp_path / "run", Settings(**settings), jobs=1)
    assert not (tmp_path / "run").exists()


def write_letor(data, file):
    queries = data.query_ids.repeat(data.lengths)
    rows = zip(data.labels, queries, data.features, strict=True)
    file.write_text("".join(f"{label:g} qid:{q} " + " ".join(f"{i}:{x}" for i, x in enumerate(row, 1)) + "\n"
                            for label, q, row in rows))  # fmt: skip


def test_one_file_is_no_fold(tmp_path):
    write_letor(make_fold("yahoo", 40).train, tmp_path / "train.txt")
    with pytest.raises(DataError, match=r"train\.txt: one file; expected a folder with train, validation and test"):
        made_up(tmp_path / "run", data=str(tmp_path / "train.txt"))


def test_a_fold_without_validation_data_is_split(tmp_path):
    fold = make_fold("yahoo", 60)
    (tmp_path / "fold").mkdir()
    for name in ("train", "test"):
        write_letor(getattr(fold, name), tmp_path / "fold" / f"{name}.txt")
    run, _ = made_up(tmp_path / "run", data=str(tmp_path / "fold"))
    parts = run.about["data"][0]["parts"]
    assert parts["train"]["queries"] + parts["validation"]["queries"] == fold.train.n_queries
    assert made_up(tmp_path / "run", data=str(tmp_path / "fold"))[1].cells == []  # the same split again


@pytest.mark.parametrize("jobs", [0, -1, 1.5, "all"])
def test_bad_jobs(tmp_path, jobs):
    with pytest.raises(CounterrankError, match=r"expected a whole number of at least 1"):
        reproduce(DATA, tmp_path / "run", SETTINGS, jobs=jobs)
    assert not (tmp_path / "run").exists()


def test_the_writer_is_let_go_after_a_run(tmp_path):
    made_up(tmp_path / "run")
    with ResultWriter(tmp_path / "run"):
        pass


# On a device ---------------------------------------------------------------------------------------------------------


class Recording(CpuExecutor):
    """The CPU in the place of a GPU; keeps the sizes of all calls with epochs."""

    sizes: ClassVar[list[int]] = []

    def run(self, requests):
        if isinstance(requests[0], Epoch):
            self.sizes.append(len(requests))
        return super().run(requests)


@pytest.fixture
def device(monkeypatch):
    found = Device(Recording(1))
    gpu = types.ModuleType("counterrank.training.gpu")
    gpu.device = lambda: found
    monkeypatch.setitem(sys.modules, "counterrank.training.gpu", gpu)
    Recording.sizes.clear()
    return found


def test_cells_on_a_device_have_the_same_rows(reference, tmp_path, device):
    """Rankers of many cells advance together; an interrupted run goes on there, and stages add up to the cell."""
    folder = tmp_path / "run"
    run = reproduce(DATA, folder, SETTINGS, device="cuda")
    assert run.missing() == []
    assert without_times(folder) == without_times(reference)
    assert max(Recording.sizes) > 10  # more than the race of one cell
    for row in run.rows.values():
        assert set(row["stages"]) == {"simulation", "training", "evaluation"}
        assert sum(row["stages"].values()) == pytest.approx(row["seconds"], abs=0.002)
        assert min(row["stages"].values()) >= 0.0
    again = reproduce(DATA, folder, replace(SETTINGS, runs=3), device="auto", jobs=3)
    assert again.missing() == []
    assert len(lines_of(folder)) == len(again.rows) == CELLS // 2 * 3


def test_simulations_of_cells_on_a_device_are_made_once(tmp_path, device, monkeypatch):
    made = Counter()

    def counting(data, *args, **more):
        made[more["seed"], more["clicks"], more["displays"]] += 1
        return simulate(data, *args, **more)

    monkeypatch.setattr("counterrank.experiments.cell_runner.simulate", counting)
    assert reproduce(DATA, tmp_path / "run", SETTINGS, device="cuda").missing() == []
    assert set(made.values()) == {1}


def test_a_failure_on_a_device_is_of_its_cell(tmp_path, device, monkeypatch):
    def failing(data, evidence, estimator, *args, **more):
        if estimator == "rerank":
            raise ZeroDivisionError("as it happens")
        return fit_ranker(data, evidence, estimator, *args, **more)

    monkeypatch.setattr("counterrank.experiments.cell_runner.fit_ranker", failing)
    run = reproduce(DATA, tmp_path / "run", SETTINGS, device="cuda", jobs=4)
    failed = {cell.estimator for cell in run.missing()}
    assert failed == {"rerank"}
    assert "as it happens" in (tmp_path / "run" / "workers.log").read_text()


def test_a_device_that_is_missing_is_said_before_anything_is_done(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "counterrank.training.gpu", None)
    with pytest.raises(CounterrankError, match=r"device='cuda' needs .*counterrank\[cuda\]"):
        reproduce(DATA, tmp_path / "run", SETTINGS, device="cuda")
    assert not (tmp_path / "run").exists()
    with pytest.raises(CounterrankError, match="device='cuda': not supported with an engine"):
        reproduce(DATA, tmp_path / "run", SETTINGS, device="cuda", engine=lambda folders, log: None)


def test_a_run_that_is_ended_ends_its_cells(tmp_path, device, monkeypatch):
    """An interrupt of the main thread: cells that are being trained end, and no other is begun."""

    def interrupt(self, row):
        raise KeyboardInterrupt

    monkeypatch.setattr(ResultWriter, "add", interrupt)
    with pytest.raises(KeyboardInterrupt):
        reproduce(DATA, tmp_path / "run", replace(SETTINGS, max_epochs=2000), device="cuda", jobs=4)
    calls = len(Recording.sizes)
    time.sleep(0.2)
    assert len(Recording.sizes) == calls
