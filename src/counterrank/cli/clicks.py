"""Clicks as named on the command line, and what is known about how they were made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from counterrank.cli.output import heard, say
from counterrank.common.errors import CounterrankError
from counterrank.common.files import existing

if TYPE_CHECKING:
    from counterrank import ClickCounts, RankingData
    from counterrank.clicks.examination import Examination
    from counterrank.clicks.logs.columns import LogOptions
    from counterrank.clicks.logs.faults import LogReport
    from counterrank.estimators import Evidence, Propensities

WHOLE = "clicks.json"  # what a folder of click counts holds
PARTS = ("train", "validation", "test")
_COMBINED = {
    "mean": "propensities are means over all sessions of a query",
    "realised": "how often each document was shown is taken for its propensity",
}
_INSPECT = "counterrank inspect LOG --data DATA tells what a log supports, and can estimate the examination curve"


@dataclass
class ClickSource:
    """Where clicks come from, as the options name it.

    Attributes:
        clicks: folders of click counts.
        log: a click log: a file, a folder or a pattern.
        policies: the policy that showed the pages; several, each with its name in the log, as `new=replace-last:k=5`.
        examination: the curve.
        loggers: what the policies ranked by, named as they are.
        threads: how many to use.
        reading: how a log is read.
        alpha, beta: by rank, P(click | relevance r) = alpha r + beta, for the affine estimator.
        align: whether click counts are mapped onto the data by ids.
    """

    clicks: list[Path]
    log: str | None
    policies: list[str]
    examination: str | None
    loggers: list[str]
    threads: int | None
    reading: LogOptions | None = None
    alpha: str | None = None
    beta: str | None = None
    align: bool = False
    reports: list[LogReport] = field(default_factory=list)
    with_drift: bool = False
    drift: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _read: dict[tuple[str, bool], ClickCounts] = field(default_factory=dict)

    @property
    def given(self) -> bool:
        """Whether there are any."""
        return bool(self.clicks) or self.log is not None

    @property
    def name(self) -> str:
        """The folders or the log, for messages."""
        return str(self.log) if self.log is not None else ", ".join(map(str, self.clicks))

    @property
    def needs_pages(self) -> bool:
        """Whether the policy is to be found from whole pages."""
        return any(text.startswith("fitted-plackett-luce") for text in self.policies)

    def load(self, part: str, data: Mapping[str, RankingData], displays: bool = False) -> ClickCounts:
        """The clicks of one part of the data."""
        found = self.find(part, data, displays)
        if found is None:
            raise CounterrankError(f"{self.name}: no clicks of the {part} part in it{self._other_parts()}")
        return found

    def _other_parts(self) -> str:
        """Which parts have clicks, as far as that can be told."""
        folders = [path for path in self.clicks if not (path / WHOLE).is_file()]
        there = [name for name in PARTS if any((folder / name / WHOLE).is_file() for folder in folders)]
        return f"; it has those of {', '.join(there)} (--part {there[0]})" if there else "; --part may choose another"

    def find(self, part: str, data: Mapping[str, RankingData], displays: bool = False) -> ClickCounts | None:
        """The clicks of one part; None if it has none. A log of all parts is read once."""
        if bool(self.clicks) == (self.log is not None):
            raise CounterrankError("--clicks, --log: expected one of the two")
        if self.align and not self.clicks:
            raise CounterrankError("--align: maps click counts onto data that has grown; expected --clicks with it")
        if self.clicks:
            return self.kept(part, data[part])
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

    def kept(self, part: str, data: RankingData | None) -> ClickCounts | None:
        """The click counts of one part in all folders together; None if no folder has any."""
        from counterrank import ClickCounts

        folders = [folder for path in self.clicks if (folder := counts_folder(path, part)) is not None]
        loaded = self._of_policies([ClickCounts.load(folder) for folder in folders])
        found = []
        for folder, counts in zip(folders, loaded, strict=True):
            if counts is not None:
                found.append(counts if data is None else self._aligned(counts, data, folder))
        return ClickCounts.concat(found) if len(found) > 1 else found[0] if found else None

    def _of_policies(self, loaded: list[ClickCounts]) -> list[ClickCounts | None]:
        """Each of the counts with the policies that were asked for; None where it has none of them."""
        wanted = () if self.reading is None else self.reading.only_policies
        if not wanted or not loaded:
            return list(loaded)
        known = list(dict.fromkeys(name for counts in loaded for name in counts.policy_names))
        for name in wanted:
            if name not in known:
                there = ", ".join(map(repr, known)) or "none"
                raise CounterrankError(
                    f"--only-policy {name}: {self.name} has no such policy; expected some of {there}"
                )
        own = [[name for name in wanted if name in counts.policy_names] for counts in loaded]
        return [counts.only_policies(names) if names else None for counts, names in zip(loaded, own, strict=True)]

    def _aligned(self, counts: ClickCounts, data: RankingData, folder: Path) -> ClickCounts:
        """The counts for this data: of this data, or mapped onto it where that was asked for."""
        from counterrank.data.identity import identity

        if not self.align or not counts.knows_candidates or counts.identity == identity(data):
            counts.check_data(data, f"{folder} (--align where the data has grown)")
            return counts
        say(f"Note: {folder}: mapped onto the data by the ids of queries and documents.")
        return counts.align(data)

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
        from counterrank.clicks.logs.log_files import format_of

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
        return any((path / WHOLE).is_file() for path in self.clicks)

    def evidence(self, part: str, data: Mapping[str, RankingData], displays: bool = False) -> Evidence:
        """The clicks of one part, and all that the options say about them."""
        return self.about(self.load(part, data, displays), part, data)

    def about(self, counts: ClickCounts, part: str, data: Mapping[str, RankingData]) -> Evidence:
        """Clicks, and all that the options say about them."""
        from counterrank.cli.policies import policy_arguments, trust_curves
        from counterrank.estimators import Evidence

        exam = None if self.examination is None else self.curve(counts)
        alpha, beta = trust_curves(self)
        known = Evidence(counts, exam=exam, alpha=alpha, beta=beta, threads=self.threads)
        return replace(known, **policy_arguments(self, known, part, data))

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

    def propensities(self, counts: ClickCounts, part: str, data: Mapping[str, RankingData]) -> Propensities:
        """P(examined | query, policy) of the policies that were named, else as logged with the clicks."""
        return propensities_told(self.about(counts, part, data))

    def said_again(self) -> str:
        """The options that name the policy and the curve, for a command to go on with."""
        named = [("--policy", each) for each in self.policies] + [("--logger", each) for each in self.loggers]
        named += [("--examination", self.examination)] if self.examination is not None else []
        options = self.reading
        if options is not None:
            named += [("--only-policy", name) for name in options.only_policies]
            renamed = ",".join(f"{ours}={theirs}" for ours, theirs in options.columns.items())
            named += [("--map", renamed)] if renamed else []
            named += [("--rank-base", str(options.rank_base))] if options.rank_base != 1 else []
            named += [("--format", options.format)] if options.format != "auto" else []
            named += [("--on-error", options.on_error)] if options.on_error != "fail" else []
        flags = " --align" if self.align else ""
        return "".join(f" {option} {quote(value)}" for option, value in named) + flags

    def say_what_was_read(self) -> None:
        """A line for each log that was read."""
        for report in self.reports:
            used = f"used {report.used:,} of them, {report.pages:,} pages"
            say(f"Read {report.rows:,} rows of {report.name}; {used}{report.left_out()}.")
        self.reports.clear()


def propensities_told(evidence: Evidence) -> Propensities:
    """The propensities, with a note where they are combined of several policies."""
    from counterrank.estimators import named_estimator

    named_estimator("policy-aware").check(evidence, options=True)
    with heard():
        found = evidence.propensities
    if found.source in _COMBINED and evidence.rho is None:
        names = ", ".join(evidence.clicks.policy_names) or "without names"
        say(f"Note: several policies in this log ({names}): {_COMBINED[found.source]}.")
    return found


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
    from counterrank.data.sources import check_part

    if isinstance(opened, RankingData):
        return {check_part(part): opened}
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
        raise CounterrankError(
            f"{path}: no click counts in it; expected a folder written by counterrank simulate or aggregate (--log for "
            "a log)"
        )
    return None


@dataclass(frozen=True)
class Scored:
    """The scores of a ranker or a file for some data, with what is known about the ranker's training.

    Attributes:
        label: what it is called on the command line.
        scores: one for each document.
        provenance_: of the ranker; {} of scores from a file.
    """

    label: str
    scores: Any
    provenance_: dict[str, Any]

    def predict(self, data: RankingData) -> Any:
        """The scores, which are of this data."""
        return self.scores


def load_scored(path: Path, data: RankingData, threads: int | None) -> Scored:
    """The scores of a ranker or a file, to be judged by clicks."""
    found = _scored(path, data, threads)
    if not found.provenance_:
        say(f"Note: {path} does not record what it was trained on; make sure that these clicks are held out.")
    return found


def load_scores(logger: str | Path, data: RankingData, threads: int | None) -> Any:
    """Scores for the documents of the data: of a ranker, from a file, or one of the features (`feature:25`, from 1)."""
    if str(logger).startswith("feature:"):
        return _feature(str(logger), data)
    return _scored(logger, data, threads).scores


def _scored(path: str | Path, data: RankingData, threads: int | None) -> Scored:
    from counterrank import Ranker, read_scores
    from counterrank.cli.loading import widened

    file = existing(path, "ranker or scores")
    if file.is_dir():
        ranker = Ranker.load(file)
        ranker.threads = threads
        return Scored(str(path), ranker.predict(widened(data, ranker, "the data")), ranker.provenance_)
    with heard():
        return Scored(str(path), read_scores(file, data), {})


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
