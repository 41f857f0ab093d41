"""A run folder: its configuration and the results so far."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counterrank.common.errors import CounterrankError
from counterrank.common.files import PathLike, existing, read_stamp
from counterrank.experiments.reproduction.cells import Cell
from counterrank.experiments.reproduction.figures import Point, all_cells, grid
from counterrank.experiments.reproduction.settings import Settings, known_settings
from counterrank.experiments.reproduction.store import read_results

MARKER = "run.json"
FORMAT, VERSION = "counterrank-run", 1


@dataclass(frozen=True)
class Run:
    """What a run folder holds.

    Attributes:
        folder: where it is.
        settings: all choices.
        about: what else was written down: the data, the preset, the command, the version.
        rows: the latest result of each cell, by its key.
    """

    folder: Path
    settings: Settings
    about: dict[str, Any]
    rows: dict[str, dict[str, Any]]

    @property
    def points(self) -> list[Point]:
        """All points of the figures asked for."""
        return grid(self.settings, len(self.about["data"]))

    def key(self, cell: Cell) -> str:
        """The name of a cell on the data of this run."""
        return cell.key(self.about["data"][cell.fold]["fingerprint"])

    def row(self, cell: Cell) -> dict[str, Any] | None:
        """What came of a cell; None if it has not been run."""
        return self.rows.get(self.key(cell))

    def missing(self) -> list[Cell]:
        """The cells without a result, in the order to run them."""
        return [cell for cell in all_cells(self.points) if "metrics" not in (self.row(cell) or {})]


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
