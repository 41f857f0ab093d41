"""The experiments of the paper in one call: which cells are missing, and running them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from counterrank.common.errors import CounterrankError, DataError, installed_version
from counterrank.common.files import PathLike, atomic_file, scratch_folder
from counterrank.common.parallel import thread_count
from counterrank.data import Fold, RankingData
from counterrank.data.labels import relevant_documents
from counterrank.data.sources import PARTS, open_data
from counterrank.experiments.reproduction.display import Tally, shown
from counterrank.experiments.reproduction.engines import CellFailure, Engine, run_all
from counterrank.experiments.reproduction.local import local_engine
from counterrank.experiments.reproduction.runs import FORMAT, MARKER, VERSION, Run, read_run
from counterrank.experiments.reproduction.settings import FEW_CLICKS, Settings
from counterrank.experiments.reproduction.shared_data import describe_fold, fingerprint, share_fold
from counterrank.experiments.reproduction.store import RESULTS, ResultWriter

_SHARED, _LOG = "data", "workers.log"


def reproduce(
    sources: str | Sequence[str],
    out: PathLike,
    settings: Settings | None = None,
    *,
    jobs: int | None = None,
    engine: Engine | None = None,
    notes: dict[str, Any] | None = None,
) -> Run:
    """Run all cells that have no result yet; a run that was killed goes on where it was.

    Arguments:
        sources: fold folders or `synthetic:...`, see `counterrank.data.open_data`; each run is made on all of them.
        out: the run folder.
        settings: all choices; the paper's if None.
        jobs: how many worker processes; one for each core if None.
        engine: another engine than worker processes, such as `spark_engine`.
        notes: what else to write down, such as the preset and the command.

    >>> import tempfile
    >>> settings = Settings(figures=(2,), clicks=(100,), runs=1, max_epochs=1, clip="none", step_size=1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = reproduce("synthetic:yahoo:queries=40", f"{folder}/run", settings, jobs=1)
    >>> len(run.rows), run.missing()
    (15, [])
    """
    chosen, folder = settings or Settings(), Path(out)
    names = [sources] if isinstance(sources, str) else list(sources)
    if not names:
        raise CounterrankError("data: none given; expected at least one fold")
    opened = engine or partial(local_engine, jobs=thread_count(jobs, "jobs"))
    _check_folder(folder)
    folds = [_open(name, chosen) for name in names]  # where this fails, nothing is left in the folder
    with ResultWriter(folder) as results:
        _check_earlier(folder, folds, chosen)
        run = _begin(folder, chosen, names, folds, notes or {})
        waiting = run.missing()
        if not waiting:
            shutil.rmtree(folder / _SHARED, ignore_errors=True)  # a kill may have come after the last result
            return run
        with _shared(folder / _SHARED, folds) as shared, opened(shared, folder / _LOG) as slots:
            tally = Tally(waiting, len(slots))
            with shown(tally):
                for cell, result in run_all(waiting, slots, tally.start):
                    failed = isinstance(result, CellFailure)
                    content = {"error": str(result)} if isinstance(result, CellFailure) else result
                    results.add({"key": run.key(cell), "cell": cell.plain(), **content})
                    tally.finish(cell, failed)
    return read_run(folder)


def _check_folder(folder: Path) -> None:
    """Whether the folder is new, empty or of an earlier run."""
    if folder.exists() and not folder.is_dir():
        raise CounterrankError(f"{folder}: is a file; expected a folder for the results")
    ours = any((folder / name).is_file() for name in (MARKER, RESULTS))  # a kill may have left but one of them
    if folder.is_dir() and any(folder.iterdir()) and not ours:
        raise CounterrankError(f"{folder}: exists and is not a run folder; it is left untouched")


def _check_earlier(folder: Path, folds: Sequence[Fold], settings: Settings) -> None:
    """Whether an earlier run in the folder was of the same experiment on the same data, so that no figures are lost."""
    if (folder / MARKER).is_file():
        earlier = read_run(folder)
        if not {fold["fingerprint"] for fold in earlier.about["data"]} & {fingerprint(fold) for fold in folds}:
            raise CounterrankError(f"{folder}: holds a run on other data; choose another folder")
        if (FEW_CLICKS in earlier.settings.figures) != (FEW_CLICKS in settings.figures):
            raise CounterrankError(f"{folder}: holds a run of another experiment; choose another folder")


def _open(source: str, settings: Settings) -> Fold:
    """A fold with labels and a validation part, cut down if the settings say so."""
    fold = open_data(source)
    if isinstance(fold, RankingData):
        raise DataError(f"{source}: one file; expected a folder with train, validation and test parts")
    if fold.validation is None:
        fold = fold.split_validation(seed=settings.seed)
    return Fold(*(_cut(source, name, getattr(fold, name), settings) for name in PARTS))


def _cut(source: str, name: str, part: RankingData, settings: Settings) -> RankingData:
    try:
        relevant_documents(part, settings.relevance_threshold)
        if settings.queries is None or part.n_queries <= settings.queries:
            return part
        chosen = np.random.default_rng(settings.seed).choice(part.n_queries, size=settings.queries, replace=False)
        smaller = part.subset(np.sort(chosen))
        relevant_documents(smaller, settings.relevance_threshold)
    except DataError as error:
        raise DataError(f"{source}: {name}: {error}") from None
    return smaller


def _begin(folder: Path, settings: Settings, names: Sequence[str], folds: Sequence[Fold], notes: dict[str, Any]) -> Run:
    """Write down what is to be done; results of other settings stay in the folder and are not used."""
    content = {
        "format": FORMAT,
        "version": VERSION,
        "counterrank": installed_version(),
        **notes,
        "settings": settings.plain(),
        "data": [
            {**describe_fold(name, fold, settings.relevance_threshold), "fingerprint": fingerprint(fold)}
            for name, fold in zip(names, folds, strict=True)
        ],
    }
    with atomic_file(folder / MARKER) as file:
        file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return read_run(folder)


@contextmanager
def _shared(folder: Path, folds: list[Fold]) -> Iterator[list[Path]]:
    """The folds on disk for as long as they are needed; they are taken from the list, to free the memory."""
    with scratch_folder(folder):  # an older one is of a run that was killed
        paths: list[Path] = []
        while folds:
            paths.append(folder / f"fold{len(paths) + 1}")
            share_fold(folds.pop(0), paths[-1])
        yield paths
