"""Clicks as named on the command line, and what is known about how they were made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from counterrank.cli.output import heard, say
from counterrank.common.errors import CounterrankError
from counterrank.common.files import existing

if TYPE_CHECKING:
    from counterrank import ClickCounts, RankingData
    from counterrank.clicks.examination import Examination
    from counterrank.clicks.logs.faults import LogReport
    from counterrank.clicks.logs.options import LogOptions
    from counterrank.common.checks import FloatArray

WHOLE = "clicks.json"  # what a folder of click counts holds
PARTS = ("train", "validation", "test")
_INSPECT = "counterrank inspect LOG --data DATA tells what a log supports, and can estimate the examination curve"


@dataclass
class ClickSource:
    """Where clicks come from, as the options name it.

    Attributes:
        clicks: a folder of click counts.
        log: a click log: a file, a folder or a pattern.
        policies: the policy that showed the pages; several, each with its name in the log, as `new=replace-last:k=5`.
        examination: the curve.
        loggers: what the policies ranked by, named as they are.
        threads: how many to use.
        reading: how a log is read.
        alpha, beta: by rank, P(click | relevance r) = alpha r + beta, for the affine estimator.
    """

    clicks: Path | None
    log: str | None
    policies: list[str]
    examination: str | None
    loggers: list[str]
    threads: int | None
    reading: LogOptions | None = None
    alpha: str | None = None
    beta: str | None = None
    reports: list[LogReport] = field(default_factory=list)
    with_drift: bool = False
    drift: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _read: dict[tuple[str, bool], ClickCounts] = field(default_factory=dict)

    @property
    def given(self) -> bool:
        """Whether there are any."""
        return self.clicks is not None or self.log is not None

    @property
    def needs_pages(self) -> bool:
        """Whether the policy is to be found from whole pages."""
        return any(text.startswith("fitted-plackett-luce") for text in self.policies)

    def load(self, part: str, data: Mapping[str, RankingData], displays: bool = False) -> ClickCounts:
        """The clicks of one part of the data."""
        found = self.find(part, data, displays)
        if found is None:
            raise CounterrankError(
                f"{self.clicks or self.log}: no clicks of the {part} part in it; --part, where there is one, chooses "
                "another"
            )
        return found

    def find(self, part: str, data: Mapping[str, RankingData], displays: bool = False) -> ClickCounts | None:
        """The clicks of one part; None if it has none. A log of all parts is read once."""
        from counterrank import ClickCounts

        if (self.clicks is None) == (self.log is None):
            raise CounterrankError("--clicks, --log: expected one of the two")
        if self.clicks is not None:
            folder = counts_folder(self.clicks, part)
            if folder is None:
                return None
            counts = ClickCounts.load(folder)
            counts.check_data(data[part], str(folder))
            return counts
        if (Path(str(self.log)) / WHOLE).is_file() or (Path(str(self.log)) / part / WHOLE).is_file():
            raise CounterrankError(f"{self.log}: click counts and not a log; expected --clicks {self.log}")
        key = (part, displays or self.needs_pages)
        if key not in self._read:
            own = self.file_of(part)
            if own is not None or self.has_files_for_parts():
                if own is None:
                    return None
                self._count(own, {part: data[part]}, key[1])
            else:
                self._count(str(self.log), data, key[1])
        counts = self._read[key]
        return counts if counts.n_sessions else None

    def _count(self, path: str, data: Mapping[str, RankingData], displays: bool) -> None:
        from counterrank.clicks.logs import read_parts

        with heard():
            found = read_parts(
                path, list(data.values()), displays=displays, drift=self.with_drift, options=self.reading
            )
        self.reports.append(found.report)
        self.drift |= dict(zip(data, found.drift or (), strict=False))
        self._read |= {(part, displays): counts for part, counts in zip(data, found.counts, strict=True)}

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

    def has_files_for_parts(self) -> bool:
        """Whether each part of the data has a file of its own, rather than one log for all."""
        from counterrank.clicks.logs.files import format_of

        named = any(self.file_of(part) is not None for part in PARTS)
        beside = sorted(Path(str(self.log)).iterdir()) if named else []
        for each in beside:
            if each.name.partition(".")[0] not in PARTS and format_of(each) and each.name != "simulation.json":
                raise CounterrankError(
                    f"{each}: beside files of train, validation or test; expected those alone, or no such names"
                )
        return named

    def is_single(self) -> bool:
        """Whether these clicks belong to one part and no other."""
        return self.clicks is not None and (self.clicks / WHOLE).is_file()

    def weigher(
        self, estimator: str, counts: ClickCounts, part: str, data: Mapping[str, RankingData]
    ) -> tuple[Callable[..., Any], Any]:
        """From `clip=` to what to learn from, and the clips to choose from."""
        from counterrank.cli.policies import affine_weigher
        from counterrank.estimators.named import clips_for, weigher

        if estimator == "affine":
            return affine_weigher(self, counts, part, data), [None]
        rho = self.propensities(counts, part, data) if estimator == "policy-aware" else None
        exam = self.curve(counts) if estimator in ("policy-oblivious", "rerank") else None
        return weigher(estimator, counts, exam, rho), clips_for(estimator, counts, exam, rho)

    def curve(self, counts: ClickCounts) -> Examination:
        """How likely each rank was examined: as said, else as the clicks were made."""
        from counterrank.clicks.policies.named import parse_examination

        if self.examination is not None:
            return _reaching(parse_examination(self.examination), counts, self.examination)
        if counts.examination is None:
            raise CounterrankError(
                "--examination: not known from these clicks; expected e.g. inverse-rank:eta=1, or a file with an "
                f"estimated curve; {_INSPECT}"
            )
        return counts.examination

    def propensities(self, counts: ClickCounts, part: str, data: Mapping[str, RankingData]) -> FloatArray | None:
        """P(examined | query, policy) of the policies that were named; None for those logged with the clicks."""
        from counterrank.cli.policies import policy_propensities

        if not self.policies and not self.loggers:
            if counts.propensities is None:
                raise CounterrankError(
                    "--policy, --logger, --examination: these clicks have no logged propensities; name the policy that "
                    f"showed the pages, what it ranked by, and the examination curve; {_INSPECT}"
                )
            return None
        return policy_propensities(self, counts, part, data)

    def said_again(self) -> str:
        """The options that name the policy and the curve, for a command to go on with."""
        named = [("--policy", each) for each in self.policies] + [("--logger", each) for each in self.loggers]
        named += [("--examination", self.examination)] if self.examination is not None else []
        return "".join(f" {option} {quote(value)}" for option, value in named)

    def say_what_was_read(self) -> None:
        """A line for each log that was read."""
        for report in self.reports:
            used = f"used {report.used:,} of them, {report.pages:,} pages"
            say(f"Read {report.rows:,} rows of {report.name}; {used}{report.left_out()}.")
        self.reports.clear()


def _reaching(curve: Examination, counts: ClickCounts, text: str) -> Examination:
    """The curve, if it explains clicks at all ranks where there are some."""
    clicked = counts.by_rank(counts.clicks) > 0
    unseen = clicked & (curve.curve(len(clicked)) <= 0.0)
    if unseen.any():
        rank = int(unseen.argmax()) + 1
        raise CounterrankError(
            f"--examination {text}: nobody looks at rank {rank} by it, but there are clicks; expected a curve that "
            f"reaches rank {int(clicked.nonzero()[0].max()) + 1}"
        )
    return curve


def parts_of(opened: Any, part: str = "train") -> dict[str, RankingData]:
    """The parts of opened data by name; data that is not a fold is the part that is asked for."""
    from counterrank import RankingData

    if isinstance(opened, RankingData):
        return {part: opened}
    return {part: getattr(opened, part) for part in PARTS if getattr(opened, part) is not None}


def counts_folder(path: Path, part: str) -> Path | None:
    """The folder itself if it holds click counts, else its folder for this part; None if that is missing."""
    folder = existing(path, "click counts")
    if (folder / WHOLE).is_file():
        return folder
    inside = folder / part
    if (inside / WHOLE).is_file():
        return inside
    if not any((folder / name / WHOLE).is_file() for name in ("train", "validation", "test")):
        raise CounterrankError(f"{path}: no click counts in it; expected a folder written by counterrank simulate")
    return None


def load_scores(logger: str | Path, data: RankingData, threads: int | None) -> Any:
    """Scores for the documents of the data: of a ranker, from a file, or one of the features (`feature:25`, from 1)."""
    from counterrank import Ranker, read_scores
    from counterrank.cli.loading import widened

    if str(logger).startswith("feature:"):
        return _feature(str(logger), data)
    file = existing(logger, "ranker or scores")
    if file.is_dir():
        ranker = Ranker.load(file)
        ranker.threads = threads
        return ranker.predict(widened(data, ranker, "the data"))
    with heard():
        return read_scores(file, data)


def _feature(text: str, data: RankingData) -> Any:
    number = text.removeprefix("feature:")
    if not (number.isascii() and number.isdigit() and 1 <= int(number) <= data.n_features):
        raise CounterrankError(f"{text}: no such feature; expected a number from 1 to {data.n_features}")
    return data.features[:, int(number) - 1].astype(float)


def parse_pair(text: str | None, name: str) -> tuple[float, float] | None:
    """Two numbers separated by a comma; None of None."""
    if text is None:
        return None
    try:
        first, second = (float(word) for word in text.split(","))
    except ValueError:
        raise CounterrankError(f"{name}={text!r}: expected 2 numbers separated by a comma") from None
    return first, second


def parse_count(text: str, name: str) -> int:
    """A whole number, also written as 1e6."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value <= 1e15 or value != int(value):
        raise CounterrankError(f"{name}={text!r}: expected a whole number of at least 1, such as 1000000 or 1e6")
    return int(value)
