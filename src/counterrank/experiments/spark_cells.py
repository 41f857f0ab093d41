"""Cells on a Spark cluster, for those who outgrow one machine."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from counterrank.common.errors import CounterrankError, installed_version
from counterrank.common.spark import (
    cancelled_without_workers,
    context_of,
    is_alive,
    is_local,
    spark_session,
    wait_for_cores,
    why,
)
from counterrank.experiments.cell_runner import CellRunner, answer
from counterrank.experiments.cells import Cell, CellJson, Row
from counterrank.experiments.engines import CellFailure, Slot
from counterrank.experiments.run_folder import shared_fold

_TRIES = 2  # of a job; each of them tries its task twice
_WORKERS_S, _SETTLED_S = 120.0, 3.0
_NO_CONNECT = "Spark Connect cannot run cells; expected spark://HOST:PORT of the cluster, or local[*]"


@contextmanager
def spark_engine(folders: Sequence[Path], log: Path, *, master: Any, slots: int | None = None) -> Iterator[list[Slot]]:
    """So many cells at once on a Spark cluster, one job with one task for each.

    The data is sent to the workers, which need no file system in common with this machine, but the same version of
    Python and counterrank. The rest of Spark's configuration is taken from where Spark looks for it,
    `conf/spark-defaults.conf` and PYSPARK_SUBMIT_ARGS; the workers' Python is PYSPARK_PYTHON if that is set, else
    the path of the running one. Each executor copies the data to its spark.local.dir, and so does the driver.

    Arguments:
        folders: the shared data of each fold.
        log: a file that gets what Spark has to complain about.
        master: the cluster, such as spark://HOST:PORT, or local[*] for this machine; or a SparkSession, which stays
            open.
        slots: how many cells at once; as many as the cluster gives us cores if None.

    >>> with spark_engine([], Path("workers.log"), master="sc://cluster"):  # doctest: +ELLIPSIS
    ...     pass
    Traceback (most recent call last):
    counterrank.common.errors.CounterrankError: master 'sc://cluster': Spark Connect cannot run cells; expected ...
    """
    if isinstance(master, str) and master.startswith("sc://"):
        raise CounterrankError(f"master '{master}': {_NO_CONNECT}")
    with spark_session(master, log, hint=f"; more in {log}") as session, tempfile.TemporaryDirectory() as links:
        context = context_of(session)
        if context is None:
            raise CounterrankError(f"master: {_NO_CONNECT}")
        cores = wait_for_cores(session, _WORKERS_S, _SETTLED_S if slots is None else 0.0)
        with cancelled_without_workers(context, _WORKERS_S) as was_cancelled:
            cluster = _Cluster(context, _send(context, folders, Path(links)), log, was_cancelled)
            try:
                yield [cluster for _ in range(slots or cores)]
            finally:
                cluster.ended.set()


def _send(context: Any, folders: Sequence[Path], links: Path) -> list[str]:
    """Have the files of each fold fetched by the workers; gives what `_fold_folder` needs to find them.

    Spark sends single files by their bare names only, so each goes under a link that has the fold's number in it.
    """
    if is_local(context.master):
        return [str(folder.resolve()) for folder in folders]
    for number, folder in enumerate(folders):
        for file in sorted(folder.iterdir()):
            link = links / f"counterrank-{number}-{file.name}"
            link.symlink_to(file.resolve())
            context.addFile(link.as_uri())
    return [f"counterrank-{number}" for number in range(len(folders))]


class _Cluster:
    """Runs any number of cells at once, each call in a thread of its own."""

    def __init__(self, context: Any, folds: Sequence[str], log: Path, was_cancelled: Callable[[], bool]) -> None:
        self.ended = threading.Event()
        self._context, self._task, self._log = context, _task(folds), log
        self._was_cancelled = was_cancelled

    def run(self, cell: Cell) -> Row:
        """Hand the cell over and wait for the answer; Spark tries again elsewhere if a worker dies, and so do we."""
        reason = ""
        for _ in range(_TRIES):
            if self.ended.is_set():
                raise CellFailure("the run was ended")
            try:
                found = json.loads(self._context.parallelize([cell.plain()], 1).map(self._task).collect()[0])
            except Exception as error:
                reason = why(error)
                self._check(reason)
                continue
            if "unfit" in found:
                raise CounterrankError(found["unfit"])
            if "error" in found:
                raise CellFailure(found["error"])
            row: Row = found
            return row
        raise CellFailure(f"its task failed again and again: {reason}; more in {self._log.name}, out of memory?")

    def _check(self, reason: str) -> None:
        """Raise what ends the whole run, if that is why a job failed."""
        lost = ""
        if self._was_cancelled():
            lost = f"master '{self._context.master}': no worker has been left for {_WORKERS_S:.0f} s"
        elif not is_alive(self._context):
            lost = f"Spark has stopped: {reason}; more in {self._log}"
        if lost and not self.ended.is_set():
            raise CounterrankError(f"{lost}. Finished cells are kept, the same command goes on from there")


def _task(folds: Sequence[str]) -> Callable[[CellJson], str]:
    """What is sent to the workers. It comes with its code, so that it can tell that counterrank is missing there."""
    driver, names = installed_version(), tuple(folds)

    def task(cell: CellJson) -> str:
        import json
        import platform
        import sys

        where = f"worker {platform.node()}, {sys.executable}"
        try:
            from counterrank.common.errors import installed_version

            if (here := installed_version()) != driver:
                return json.dumps({"unfit": f"{where}: has counterrank {here}; expected {driver}"})
            from counterrank.experiments.spark_cells import answer_on_worker
        except ImportError as error:
            return json.dumps({"unfit": f"{where}: {error}; expected an installation of counterrank {driver}"})
        return answer_on_worker(names, cell, where)

    return task


def answer_on_worker(folds: tuple[str, ...], cell: CellJson, where: str) -> str:
    """What came of a cell, as the local workers say it: a line of JSON."""
    try:
        runner = _runner(folds)
    except Exception as error:
        return json.dumps({"unfit": f"{where}: cannot open the data: {error}"})
    return json.dumps(answer(runner, cell))


@lru_cache(maxsize=1)
def _runner(folds: tuple[str, ...]) -> CellRunner:
    """One for each process, which Spark keeps from task to task."""
    return CellRunner({number: shared_fold(_fold_folder(fold)) for number, fold in enumerate(folds)})


def _fold_folder(fold: str) -> Path:
    """The fold on this worker, a folder again."""
    from pyspark import SparkFiles

    if Path(fold).is_absolute():
        return Path(fold)
    sent = Path(SparkFiles.getRootDirectory()).resolve()
    folder = sent / fold
    folder.mkdir(exist_ok=True)
    for file in sent.glob(f"{fold}-*"):
        with suppress(FileExistsError):  # another process of this executor was first
            (folder / file.name.removeprefix(f"{fold}-")).symlink_to(file)
    return folder
