"""The experiments of the paper in one call: `reproduce` runs the cells that are missing, `summarize` their results."""

from __future__ import annotations

import json
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from counterrank.common.errors import CounterrankError, DataError, installed_version, warn_caller
from counterrank.common.files import PathLike, atomic_file, scratch_folder
from counterrank.common.parallel import thread_count
from counterrank.data import Fold, RankingData
from counterrank.data.labels import relevant_documents
from counterrank.data.sources import PARTS, open_data
from counterrank.evaluation import higher_is_better
from counterrank.experiments.cells import Cell, GridPoint, Row, all_cells
from counterrank.experiments.claims import check_claims
from counterrank.experiments.engines import (
    CellFailure,
    Engine,
    Slot,
    Tally,
    device_engine,
    local_engine,
    run_all,
    shown,
)
from counterrank.experiments.figure_registry import FIGURES
from counterrank.experiments.run_folder import (
    FORMAT,
    MARKER,
    RESULTS,
    VERSION,
    ResultWriter,
    Run,
    describe_fold,
    fingerprint,
    read_run,
    share_fold,
)
from counterrank.experiments.settings import Settings, choose_settings
from counterrank.experiments.statistics import CONFIDENCE
from counterrank.experiments.summary import (
    OPEN,
    CellCounts,
    CellFailed,
    Figure,
    FoldDescription,
    Level,
    Panel,
    Summary,
    Timing,
    from_json,
    to_json,
)
from counterrank.training.executor import open_device

__all__ = ["Run", "Settings", "choose_settings", "count_cells", "read_run", "reproduce", "summarize"]

_SHARED, _LOG = "data", "workers.log"
_SIZE = re.compile("[:,](queries|test)=")

_DEVICE_SLOTS = 512  # cells at once on a GPU: their weights are in memory

LOOKS = (10, 20, 40, 80)
"""The numbers of runs at which `until_decided` looks at the claims."""


def reproduce(
    sources: str | Sequence[str],
    out: PathLike,
    settings: Settings | None = None,
    *,
    jobs: int | None = None,
    engine: Engine | None = None,
    device: str = "cpu",
    notes: dict[str, Any] | None = None,
    until_decided: bool = False,
) -> Run:
    """Run all cells that have no result yet; an interrupted run is resumed.

    Arguments:
        sources: fold folders or `synthetic:...`, see `counterrank.data.open_data`; each run is made on all of them.
        out: the run folder.
        settings: all choices; the paper's if None.
        jobs: how many cells at once. None for one on each core, each in a process of its own; with a GPU for 512, or
            64 where clips are chosen from a grid.
        engine: another engine than worker processes, such as `spark_engine`.
        device: "cuda" trains the rankers of many cells together on a GPU (extra `cuda`), see `fit_many`; "auto" does so
            where there is one.
        notes: what else to write down, such as the preset and the command.
        until_decided: whether to look at the claims after 10, 20, 40 and 80 runs (`LOOKS`, in place of
            `settings.runs`), each time at a quarter of the error, and to stop as soon as all that can be checked are
            decided.

    >>> import tempfile
    >>> settings = Settings(figures=(2,), clicks=(100,), runs=1, max_epochs=1, clip="none", learning_rate=1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = reproduce("synthetic:yahoo:queries=40", f"{folder}/run", settings, jobs=1)
    >>> len(run.rows), run.missing()
    (15, [])
    """
    chosen, folder = settings or Settings(), Path(out)
    names = [sources] if isinstance(sources, str) else list(sources)
    if not names:
        raise CounterrankError("data: none given; expected at least one fold")
    opened = _engine(engine, device, jobs, chosen)
    _check_folder(folder)
    folds = [_open(name, chosen) for name in names]  # where this fails, nothing is left in the folder
    with ResultWriter(folder) as results, ExitStack() as running:
        _check_earlier(folder, folds, chosen)
        data = _describe(names, folds, chosen.relevance_threshold)
        looks = LOOKS if until_decided else (chosen.runs,)
        about = {**(notes or {}), "device": device, "looks": list(LOOKS) if until_decided else [], "data": data}
        slots: Sequence[Slot] = ()
        for runs in looks:
            run = _begin(folder, replace(chosen, runs=runs), about)
            waiting = run.missing()
            if waiting and not slots:  # none are needed for looks at what an earlier run has done
                shared = running.enter_context(_shared(folder / _SHARED, folds))
                slots = running.enter_context(opened(shared, folder / _LOG))
            if waiting:
                _warn_of_older(run)
                _run_cells(run, waiting, slots, results)
                run = read_run(folder)
            if run.missing() or (until_decided and is_decided(summarize(run))):
                break  # cells that failed are tried again the next time
        if not slots:
            shutil.rmtree(folder / _SHARED, ignore_errors=True)  # a kill may have come after the last result
    return run


def _engine(engine: Engine | None, device: str, jobs: int | None, settings: Settings) -> Engine:
    """What runs the cells."""
    if engine is not None:
        if device != "cpu":
            raise CounterrankError(f"device={device!r}: not supported with an engine; expected device='cpu'")
        return engine
    if open_device(device) is None:
        return partial(local_engine, jobs=thread_count(jobs, "jobs"))
    slots = _DEVICE_SLOTS if settings.clip != "grid" else _DEVICE_SLOTS // 8
    return partial(device_engine, device="cuda", slots=slots if jobs is None else thread_count(jobs, "jobs"))


def _warn_of_older(run: Run) -> None:
    """Warn where new results are added to those of a version whose rankers see queries in another order."""
    rows = [row for cell in all_cells(run.points) if (row := run.row(cell)) is not None and "metrics" in row]
    older = sum("stages" not in row for row in rows)
    if older:
        warn_caller(
            f"{run.folder}: {older:,} of {len(rows):,} results are by an older version, which orders the queries of an "
            "epoch differently and draws other Plackett-Luce pages; differences to new results are not paired within a "
            "run. Choose a new folder to compare like with like"
        )


def _run_cells(run: Run, waiting: Sequence[Cell], slots: Sequence[Slot], results: ResultWriter) -> None:
    """Run these cells and write each result as it comes in."""
    tally = Tally(waiting, min(len(slots), len(waiting)))
    with shown(tally):
        for cell, result in run_all(waiting, slots, tally.start):
            row: Row = {"error": str(result)} if isinstance(result, CellFailure) else result
            results.add({"key": run.key(cell), "cell": cell.plain(), **row})
            tally.finish(cell, "error" in row)


def is_decided(summary: Summary) -> bool:
    """Whether every claim on the figures of a run has a verdict, but for those that its grid cannot check.

    >>> from counterrank.experiments.summary import ClaimResult
    >>> is_decided(Summary(claims=(ClaimResult(verdict="holds"), ClaimResult(numbers="the grid has no k = 1"))))
    True
    """
    return all(claim.verdict != OPEN for claim in summary.claims if claim.checks)


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
        if earlier.settings.experiment != settings.experiment:
            raise CounterrankError(f"{folder}: holds a run of another experiment; choose another folder")


def _open(source: str, settings: Settings) -> Fold:
    """A fold with labels and a validation part, cut down if the settings say so.

    Synthetic data that names no size is made with as many test queries as the settings want.
    """
    named = source
    if settings.test_queries is not None and source.startswith("synthetic:") and not _SIZE.search(source):
        named = f"{source}{',' if source.count(':') > 1 else ':'}test={settings.test_queries}"
    fold = open_data(named)
    if isinstance(fold, RankingData):
        raise DataError(f"{source}: one file; expected a folder with train, validation and test parts")
    if fold.validation is None:
        fold = fold.split_validation(seed=settings.seed)
    return Fold(*(_cut(source, name, getattr(fold, name), settings) for name in PARTS))


def _cut(source: str, name: str, part: RankingData, settings: Settings) -> RankingData:
    try:
        relevant_documents(part, settings.relevance_threshold)
        most = settings.test_queries if name == "test" else settings.queries
        if most is None or part.n_queries <= most:
            return part
        chosen = np.random.default_rng(settings.seed).choice(part.n_queries, size=most, replace=False)
        smaller = part.subset(np.sort(chosen))
        relevant_documents(smaller, settings.relevance_threshold)
    except DataError as error:
        raise DataError(f"{source}: {name}: {error}") from None
    return smaller


def _describe(names: Sequence[str], folds: Sequence[Fold], relevance_threshold: float) -> list[dict[str, Any]]:
    return [
        {**to_json(describe_fold(name, fold, relevance_threshold)), "fingerprint": fingerprint(fold)}
        for name, fold in zip(names, folds, strict=True)
    ]


def _begin(folder: Path, settings: Settings, about: dict[str, Any]) -> Run:
    """Write down what is to be done; results of other settings stay in the folder and are not used."""
    content = {
        "format": FORMAT,
        "version": VERSION,
        "counterrank": installed_version(),
        "settings": settings.plain(),
        **about,
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


def summarize(run: Run) -> Summary:
    """Summarise a run, finished or not, for its report: figures with their curves, claims, timings.

    >>> settings = Settings(figures=(2,), clicks=(100,), runs=1)
    >>> data = [{"source": "mine", "fingerprint": "", "parts": {}}]
    >>> summary = summarize(Run(Path(), settings, {"data": data}, rows={}))
    >>> summary.cells.wanted, [panel.name for panel in summary.figures[0].panels]
    (15, ['arp', 'dcg@5'])
    """
    points = run.points
    figures = tuple(_figure(run, number, points) for number in run.settings.figures)
    data = tuple(from_json(FoldDescription, fold) for fold in run.about["data"])
    looks = tuple(run.about.get("looks") or ())
    confidence = 1.0 - (1.0 - CONFIDENCE) / max(1, len(looks))  # Bonferroni over looks
    return Summary(
        counterrank=run.about.get("counterrank", ""),
        preset=run.about.get("preset"),
        quick=bool(run.about.get("quick")),
        command=run.about.get("command"),
        settings=run.settings.plain(),
        data=data,
        cells=count_cells(run),
        timings=_timings(run, all_cells(points)),
        stages=_stages(run, all_cells(points)),
        figures=figures,
        claims=tuple(check_claims(figures, data=data, confidence=confidence, targets=run.settings.targets)),
        confidence=confidence,
        looks=looks,
    )


def _figure(run: Run, number: int, points: Sequence[GridPoint]) -> Figure:
    spec = FIGURES[number]
    mine = [point for point in points if point.figure == number]
    panels = tuple(_panel(run, name, mine) for name in dict.fromkeys(point.panel for point in mine))
    figure = Figure(number, spec.title, spec.x, panels, caption=spec.caption)
    return figure if spec.complete is None else spec.complete(run, mine, figure)


def _panel(run: Run, name: str, points: Sequence[GridPoint]) -> Panel:
    """The test metric of all curves, and the levels."""
    mine = [point for point in points if point.panel == name]
    metric, comma, which = name.partition(",")

    def read(row: Row) -> float | None:
        return float(row["metrics"][metric])

    curves = [point for point in mine if point.x is not None]
    losses = {cell.loss for point in curves for cell in point.cells}
    return Panel(
        name,
        f"{metric.upper()}{comma}{which} ({'lower' if metric == 'arp' else 'higher'} is better)",
        lower_is_better=not higher_is_better(metric),
        loss=losses.pop() if len(losses) == 1 else None,
        series=run.curves(curves, read, metric),
        levels=tuple(
            Level.at(point.series, run.over_runs(point.cells, read, metric=metric)) for point in mine if point.x is None
        ),
        subtitle="on the labels of the test set",
    )


def count_cells(run: Run) -> CellCounts:
    """How many cells there are, how many are done, and what failed.

    >>> data = [{"source": "mine", "fingerprint": "", "parts": {}}]
    >>> count_cells(Run(Path(), Settings(figures=(2,), clicks=(100,), runs=1), {"data": data}, rows={})).wanted
    15
    """
    rows = [(cell, run.row(cell) or Row()) for cell in all_cells(run.points)]
    failures = tuple(CellFailed(cell.describe(), row["error"]) for cell, row in rows if "error" in row)
    done = sum("metrics" in row for _, row in rows)
    untrained = sum("untrained" in row for _, row in rows)
    return CellCounts(len(rows), done, len(failures), untrained, failures)


def _timings(run: Run, cells: Sequence[Cell]) -> tuple[Timing, ...]:
    """Seconds of a cell by estimator and loss."""
    took: dict[str, list[float]] = defaultdict(list)
    for cell in cells:
        row = run.row(cell)
        if row is not None and "seconds" in row:
            took[f"{cell.estimator}, {cell.loss}"].append(row["seconds"])
    return tuple(Timing(what, len(s), sum(s) / len(s), sum(s)) for what, s in took.items())


def _stages(run: Run, cells: Sequence[Cell]) -> dict[str, float]:
    """Seconds by stage, over all cells that have them."""
    took: dict[str, float] = defaultdict(float)
    for cell in cells:
        for stage, seconds in ((run.row(cell) or {}).get("stages") or {}).items():
            took[stage] += cast(float, seconds)
    return dict(took)
