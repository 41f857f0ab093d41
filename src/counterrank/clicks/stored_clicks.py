"""`StoredClicks`: the clicks of each part of a data set, from folders of click counts or from a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.logs import LogOptions, LogReport, read_parts
from counterrank.clicks.logs.formats import format_of
from counterrank.clicks.logs.log_reader import read_logging_scores
from counterrank.common.checks import FloatArray
from counterrank.common.errors import CounterrankError
from counterrank.common.files import PathLike, existing
from counterrank.data import RankingData, in_data_order
from counterrank.data.ids import identity
from counterrank.data.sources import PARTS

WHOLE = "clicks.json"  # in every folder of click counts


def holds_counts(path: PathLike) -> bool:
    """Whether a folder holds click counts, of one data set or of parts, rather than a log."""
    return any((Path(path) / inside / WHOLE).is_file() for inside in ("", *PARTS))


@dataclass
class StoredClicks:
    """Clicks on disk: folders of click counts, or a log.

    A folder of click counts holds those of one data set, or folders `train`, `validation` and `test` for the parts of a
    fold. A log holds the clicks of all parts and is read once, or is a folder with a file (or folder) for each part.

    Attributes:
        folders: of click counts; they are added up.
        log: a file, a folder or a pattern.
        options: how the log is read; `only_policies` chooses from click counts too.
        align: map click counts onto data that has grown, by the ids of queries and documents.
        with_drift: also count the clicks of a log by time.
        reports: one for each log that was read.
        drift: by part, where `with_drift`.
        aligned: the folders whose click counts were mapped onto the data.

    >>> import tempfile
    >>> from counterrank import make_fold, policies, simulation
    >>> fold = make_fold("yahoo", 20, seed=0)
    >>> clicks = simulation.simulate(fold.train, fold.train.features[:, 0], policies.Deterministic(5), [1.0, 0.5],
    ...                              sessions=100, seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     clicks.save(f"{folder}/train")
    ...     stored = StoredClicks([folder])
    ...     parts = {"train": fold.train, "validation": fold.validation}
    ...     stored.load("train", parts).n_sessions, stored.find("validation", parts)
    (100, None)
    """

    folders: Sequence[PathLike] = ()
    log: str | None = None
    options: LogOptions | None = None
    align: bool = False
    with_drift: bool = False
    reports: list[LogReport] = field(default_factory=list)
    drift: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    aligned: list[Path] = field(default_factory=list)
    _counted: dict[tuple[str, bool, bool], ClickCounts] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The folders or the log, for messages."""
        return str(self.log) if self.log is not None else ", ".join(map(str, self.folders))

    @property
    def is_single(self) -> bool:
        """Whether the click counts are those of one data set, and not of the parts of a fold."""
        return any((Path(path) / WHOLE).is_file() for path in self.folders)

    def load(
        self, part: str, data: Mapping[str, RankingData], displays: bool = False, last_clicks: bool = False
    ) -> ClickCounts:
        """The clicks of one part; an error if it has none.

        Arguments:
            part: "train", "validation" or "test".
            data: by part, all that the clicks may belong to.
            displays: keep the displayed pages of a log.
            last_clicks: count a log by the rank of the last click above too.
        """
        found = self.find(part, data, displays, last_clicks)
        if found is None:
            folders = [Path(path) for path in self.folders if not (Path(path) / WHOLE).is_file()]
            there = [name for name in PARTS if any((folder / name / WHOLE).is_file() for folder in folders)]
            hint = "its queries may be of another part"
            if there:
                hint = f"it has those of {', '.join(there)} (part={there[0]!r})"
            raise CounterrankError(f"{self.name}: no clicks of the {part} part in it; {hint}")
        return found

    def find(
        self, part: str, data: Mapping[str, RankingData], displays: bool = False, last_clicks: bool = False
    ) -> ClickCounts | None:
        """The clicks of one part; None if it has none."""
        if bool(self.folders) == (self.log is not None):
            raise CounterrankError("clicks, log: expected one of the two")
        if self.log is None:
            return self.counts(part, data[part])
        if self.align:
            raise CounterrankError("align: maps click counts onto data that has grown; expected clicks= with it")
        if any((Path(self.log) / inside / WHOLE).is_file() for inside in ("", part)):
            raise CounterrankError(f"{self.log}: click counts and not a log; expected clicks='{self.log}'")
        if (part, displays, last_clicks) not in self._counted:
            own = self.file_of(part)
            if own is None and self._has_files_for_parts():
                return None
            self._count(own or self.log, data if own is None else {part: data[part]}, displays, last_clicks)
        counts = self._counted[part, displays, last_clicks]
        return counts if counts.n_sessions else None

    def counts(self, part: str, data: RankingData | None = None) -> ClickCounts | None:
        """The click counts of one part in all folders together, checked against its data; None if there are none."""
        folders = [folder for path in self.folders if (folder := counts_folder(path, part)) is not None]
        loaded = self._of_policies([ClickCounts.load(folder) for folder in folders])
        wanted = () if self.options is None else self.options.context
        for folder, counts in zip(folders, loaded, strict=True):
            if wanted and counts is not None and not counts.contexts:
                raise CounterrankError(
                    f"context={', '.join(wanted)}: {folder} was counted without contexts; expected a log, or counts "
                    "that were read with them (counterrank aggregate --context, read_log(..., context=))"
                )
        found = []
        for folder, counts in zip(folders, loaded, strict=True):
            if counts is not None:
                found.append(counts if data is None else self._aligned(counts, data, folder))
        return ClickCounts.concat(found) if len(found) > 1 else found[0] if found else None

    def logging_scores(self, part: str, data: Mapping[str, RankingData]) -> FloatArray:
        """The scores that the policy ranked by, from the column `logging_score` of the log."""
        if self.log is None:
            raise CounterrankError("scores='logging_score': a column of a log; expected log= too")
        own = self.file_of(part)
        parts = data if own is None else {part: data[part]}
        scores = read_logging_scores(own or self.log, list(parts.values()), self.options)
        return in_data_order(dict(zip(parts, scores, strict=True))[part], data[part])

    def file_of(self, part: str) -> str | None:
        """The file or folder inside the log's folder that holds the clicks of one part."""
        folder = Path(str(self.log))
        if not folder.is_dir():
            return None
        found = sorted(each for each in folder.iterdir() if each.name.partition(".")[0] == part)
        if len(found) > 1:
            raise CounterrankError(
                f"{folder}: {found[0].name} and {found[1].name} both name the {part} part; expected one file for it, "
                f"or a folder {part} with all of them"
            )
        return str(found[0]) if found else None

    def _has_files_for_parts(self) -> bool:
        """Whether parts have files of their own, rather than one log for all."""
        if all(self.file_of(part) is None for part in PARTS):
            return False
        for each in sorted(Path(str(self.log)).iterdir()):
            if each.name.partition(".")[0] not in PARTS and format_of(each) and each.name != "simulation.json":
                raise CounterrankError(
                    f"{each}: next to files of train, validation or test; expected only those, or no such names"
                )
        return True

    def _count(self, path: str, data: Mapping[str, RankingData], displays: bool, last_clicks: bool) -> None:
        found = read_parts(path, list(data.values()), displays=displays, last_clicks=last_clicks,
                           drift=self.with_drift, options=self.options)  # fmt: skip
        self.reports.append(found.report)
        self.drift |= dict(zip(data, found.drift or (), strict=False))
        how = displays, last_clicks
        self._counted |= {(part, *how): counts for part, counts in zip(data, found.counts, strict=True)}

    def _of_policies(self, loaded: list[ClickCounts]) -> list[ClickCounts | None]:
        """Each of the counts with `only_policies`; None where it has none of them."""
        wanted = () if self.options is None else self.options.only_policies
        if not wanted or not loaded:
            return list(loaded)
        known = list(dict.fromkeys(name for counts in loaded for name in counts.policy_names))
        for name in wanted:
            if name not in known:
                there = f"no such policy; expected some of {', '.join(map(repr, known))}"
                raise CounterrankError(
                    f"only_policies={name!r}: {self.name} has {there if known else 'no policy names; leave it out'}"
                )
        own = [[name for name in wanted if name in counts.policy_names] for counts in loaded]
        return [counts.only_policies(names) if names else None for counts, names in zip(loaded, own, strict=True)]

    def _aligned(self, counts: ClickCounts, data: RankingData, folder: Path) -> ClickCounts:
        if not self.align or not counts.knows_candidates or counts.identity == identity(data):
            counts.check_data(data, f"{folder} (align=True where the data has grown)")
            return counts
        self.aligned.append(folder)
        return counts.align(data)


def counts_folder(path: PathLike, part: str) -> Path | None:
    """The folder itself if it holds click counts, else its folder for this part; None if that is missing.

    >>> counts_folder("nowhere", "train")
    Traceback (most recent call last):
    ...
    counterrank.common.errors.MissingFileError: nowhere: no such click counts (file or folder not found)
    """
    folder = existing(path, "click counts")
    if (folder / WHOLE).is_file():
        return folder
    if (folder / part / WHOLE).is_file():
        return folder / part
    if not any((folder / name / WHOLE).is_file() for name in PARTS):
        raise CounterrankError(
            f"{path}: no click counts in it; expected a folder written by counterrank simulate or aggregate (log= for "
            "a log)"
        )
    return None
