"""A run folder: its settings, the results so far, and the data as worker processes share it."""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from counterrank.common.checks import FloatArray
from counterrank.common.errors import CounterrankError, DataError
from counterrank.common.files import InUseError, PathLike, atomic_folder, existing, lock, read_stamp
from counterrank.data import Fold, RankingData
from counterrank.data.ids import identity
from counterrank.experiments.cells import Cell, GridPoint, Row, all_cells, grid
from counterrank.experiments.settings import Settings, known_settings
from counterrank.experiments.statistics import merge_groups
from counterrank.experiments.summary import FoldDescription, Part, Point, Series, over_runs

MARKER = "run.json"
FORMAT, VERSION = "counterrank-run", 1
RESULTS, _LOCK = "results.jsonl", ".lock"

_SHARED_MARKER, _SHARED_FORMAT, _SHARED_VERSION = "fold.json", "counterrank-shared-fold", 1
_PARTS = ("train", "validation", "test")
_ARRAYS = ("features", "offsets", "labels", "query_ids", "doc_ids")

Read = Callable[[Row], float | None]


@dataclass(frozen=True)
class Run:
    """The contents of a run folder.

    Attributes:
        folder: where it is.
        settings: all choices.
        about: the rest of `run.json`: the data, the preset, the command, the version.
        rows: the latest result of each cell, by its key.
    """

    folder: Path
    settings: Settings
    about: dict[str, Any]
    rows: dict[str, Row]

    @property
    def points(self) -> list[GridPoint]:
        """All points of the figures of its settings."""
        return grid(self.settings, len(self.about["data"]))

    def key(self, cell: Cell) -> str:
        """The key of a cell on the data of this run."""
        return cell.key(self.about["data"][cell.fold]["fingerprint"])

    def row(self, cell: Cell) -> Row | None:
        """The result of a cell; None if it has not been run."""
        return self.rows.get(self.key(cell))

    def missing(self) -> list[Cell]:
        """The cells without a result, in the order to run them."""
        return [cell for cell in all_cells(self.points) if "metrics" not in (self.row(cell) or {})]

    def over_runs(self, cells: Sequence[Cell], read: Read, x: float | None = None, metric: str | None = None) -> Point:
        """One number for each run, None where it is missing, and their mean with its confidence interval.

        Where the number is a metric of the test part, `metric` adds its values by group of test queries.
        """
        found = (self.row(cell) for cell in cells)
        rows = [None if row is None or "metrics" not in row else row for row in found]
        groups = None if metric is None else _by_group(rows, metric, len({cell.fold for cell in cells}))
        return over_runs([None if row is None else read(row) for row in rows], x, groups)

    def curves(self, points: Iterable[GridPoint], read: Read, metric: str | None = None) -> tuple[Series, ...]:
        """One number of each result as curves; `metric` as in `over_runs`."""
        found: dict[str, list[Point]] = defaultdict(list)
        for point in points:
            found[point.series].append(self.over_runs(point.cells, read, point.x, metric))
        return tuple(Series(name, tuple(listed)) for name, listed in found.items())


def _by_group(rows: Sequence[Row | None], metric: str, folds: int) -> FloatArray | None:
    """A metric by fold, run and group of test queries; None where a result, such as an older one, does not have it."""
    found = [None if row is None else row.get("groups", {}).get(metric) for row in rows]
    known = [values for values in found if values is not None]
    if not known or len(known) < sum(row is not None for row in rows) or len(rows) % folds:
        return None
    fewest = min(len(values) for values in known)
    blank = np.full(fewest, np.nan)
    merged = [blank if values is None else merge_groups(np.array(values, np.float64), fewest) for values in found]
    return np.array(merged).reshape(folds, -1, fewest)


def read_run(folder: PathLike) -> Run:
    """A run folder, finished or not.

    >>> read_run("no/such/run")
    Traceback (most recent call last):
    ...
    counterrank.common.errors.MissingFileError: no/such/run: no such run folder (file or folder not found)
    """
    path = existing(folder, "run folder")
    about = read_stamp(path, MARKER, FORMAT, VERSION, "counterrank reproduce", CounterrankError)
    if not (isinstance(about.get("settings"), dict) and isinstance(about.get("data"), list)):
        raise CounterrankError(f"{path / MARKER}: no settings or no data in it; the file is damaged")
    settings = Settings(**known_settings(about["settings"], str(path / MARKER)))
    return Run(path, settings, about, read_results(path))


def read_results(folder: PathLike) -> dict[str, Row]:
    """The latest row of each cell by its key; a line that a kill cut short is left out.

    >>> read_results("no/such/folder")
    {}
    """
    path = Path(folder) / RESULTS
    rows: dict[str, Row] = {}
    if not path.is_file():
        return rows
    *lines, _ = path.read_bytes().split(b"\n")  # whatever follows the last end of a line was cut short
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            rows[row["key"]] = row
        except (ValueError, KeyError, TypeError):
            raise CounterrankError(f"{path}: line {number} is not a result; delete that line and run again") from None
    return rows


class ResultWriter:
    """Adds rows to the results of a run folder; one process at a time.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with ResultWriter(folder) as results:
    ...         results.add({"key": "a", "metrics": {}})
    ...     list(read_results(folder))
    ['a']
    """

    def __init__(self, folder: PathLike) -> None:
        self._folder = Path(folder)

    def __enter__(self) -> ResultWriter:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / RESULTS
        self._open = ExitStack()
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        self._open.callback(os.close, self._handle)
        try:
            self._open.enter_context(lock(self._folder / _LOCK, wait=False))
        except InUseError:
            self._open.close()
            raise CounterrankError(f"{self._folder}: another process is writing results there; wait for it") from None
        whole = path.read_bytes().rfind(b"\n") + 1
        os.ftruncate(self._handle, whole)  # what a kill cut short
        return self

    def add(self, row: Row) -> None:
        """Write a row; when this returns it is on the disk."""
        line = json.dumps(row).encode() + b"\n"
        while line:  # a disk that is nearly full takes a part, and is an error the next time
            line = line[os.write(self._handle, line) :]
        os.fsync(self._handle)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()


def share_fold(fold: Fold, folder: PathLike) -> None:
    """Write the arrays of a fold; the folder appears whole or not at all.

    >>> import tempfile
    >>> part = RankingData([[1.0], [2.0]], [0, 2], labels=[0, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     share_fold(Fold(part, part, part), f"{folder}/fold")
    ...     shared_fold(f"{folder}/fold").train
    RankingData(1 query, 2 documents, 1 feature, 2 documents a query, labels 0: 50.0 %, 1: 50.0 %)
    """
    with atomic_folder(folder, _SHARED_MARKER, ("*.npy",)) as target:
        for name in _PARTS:
            for array in _ARRAYS:
                np.save(target / f"{name}-{array}.npy", getattr(getattr(fold, name), array), allow_pickle=False)
        (target / _SHARED_MARKER).write_text(
            json.dumps({"format": _SHARED_FORMAT, "version": _SHARED_VERSION}), encoding="utf-8"
        )


def shared_fold(folder: PathLike) -> Fold:
    """The fold that `share_fold` wrote, its arrays mapped and not read."""
    path = Path(folder)
    read_stamp(path, _SHARED_MARKER, _SHARED_FORMAT, _SHARED_VERSION, "counterrank reproduce", DataError)

    def part(name: str) -> RankingData:
        return RankingData._trusted(*(np.load(path / f"{name}-{array}.npy", mmap_mode="r") for array in _ARRAYS))

    return Fold(*(part(name) for name in _PARTS))


def fingerprint(fold: Fold) -> str:
    """A digest of all that cells see of a fold: queries, documents, features and labels.

    >>> one, other = (RankingData([[1.0], [2.0]], [0, 2], labels=[0, label]) for label in (1, 2))
    >>> fingerprint(Fold(one, one, one)) == fingerprint(Fold(one, one, other))
    False
    """
    digest = hashlib.blake2b(digest_size=16)
    for name in _PARTS:
        part: RankingData = getattr(fold, name)
        digest.update(identity(part).encode())
        features = part.features
        if part.n_missing:  # NaN has many forms
            features = np.where(np.isnan(features), np.float32(np.nan), features)
        for array in (features, part.labels):
            digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def describe_fold(source: str, fold: Fold, relevance_threshold: float) -> FoldDescription:
    """What a report says of the data.

    >>> part = RankingData([[1.0], [2.0]], [0, 2], labels=[0, 1])
    >>> describe_fold("mine", Fold(part, part, part), 1).parts["train"].relevant_share
    0.5
    """
    return FoldDescription(source, {name: _describe(getattr(fold, name), relevance_threshold) for name in _PARTS})


def _describe(part: RankingData, relevance_threshold: float) -> Part:
    assert part.labels is not None
    relevant = part.labels >= np.float32(relevance_threshold)
    return Part(
        queries=part.n_queries,
        documents=part.n_docs,
        features=part.n_features,
        documents_per_query=part.n_docs / part.n_queries,
        shortest=int(part.lengths.min()),
        longest=int(part.lengths.max()),
        relevant_share=float(relevant.mean()),
        queries_with_relevant=int(np.count_nonzero(np.maximum.reduceat(relevant, part.offsets[:-1]))),
    )
