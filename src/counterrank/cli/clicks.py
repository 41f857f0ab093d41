"""Clicks as named on the command line, and what is known about how they were made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterrank.common.errors import CounterrankError
from counterrank.common.files import existing

if TYPE_CHECKING:
    from counterrank import ClickCounts, RankingData
    from counterrank.clicks.examination import Examination
    from counterrank.common.checks import FloatArray

WHOLE = "clicks.json"  # what a folder of click counts holds


@dataclass(frozen=True)
class ClickSource:
    """Where clicks come from, as the options name it."""

    clicks: Path | None
    log: Path | None
    policy: str | None
    examination: str | None
    logger: Path | None
    threads: int | None

    @property
    def given(self) -> bool:
        """Whether there are any."""
        return self.clicks is not None or self.log is not None

    def load(self, part: str, data: RankingData, displays: bool = False) -> ClickCounts:
        """The clicks of one part of the data."""
        found = self.find(part)
        if found is None:
            raise CounterrankError(f"{self.clicks or self.log}: no clicks of the {part} part in it")
        counts = self._read(found, data, displays)
        counts.check_data(data, str(found))
        return counts

    def find(self, part: str) -> Path | None:
        """The file or folder with the clicks of a part; None if that part has none."""
        if self.clicks is not None and self.log is not None:
            raise CounterrankError("--clicks, --log: expected one of the two")
        if self.clicks is not None:
            return counts_folder(self.clicks, part)
        if self.log is None:
            raise CounterrankError("--clicks, --log: expected one of the two")
        log = existing(self.log, "click log")
        if not log.is_dir():
            return log
        return log / f"{part}.parquet" if (log / f"{part}.parquet").is_file() else None

    def is_single(self) -> bool:
        """Whether these clicks belong to one part and no other."""
        if self.clicks is not None:
            return (self.clicks / WHOLE).is_file()
        return self.log is not None and not self.log.is_dir()

    def weigher(self, estimator: str, counts: ClickCounts, data: RankingData) -> tuple[Callable[..., Any], Any]:
        """From `clip=` to what to learn from, and the clips to choose from."""
        from counterrank.estimators.named import clips_for, weigher

        rho = self.propensities(counts, data) if estimator == "policy-aware" else None
        exam = self.curve(counts) if estimator in ("policy-oblivious", "rerank") else None
        return weigher(estimator, counts, exam, rho), clips_for(estimator, counts, exam, rho)

    def _read(self, path: Path, data: RankingData, displays: bool) -> ClickCounts:
        from counterrank import ClickCounts
        from counterrank.clicks import read_log

        return ClickCounts.load(path) if self.log is None else read_log(path, data, displays=displays)

    def curve(self, counts: ClickCounts) -> Examination:
        """How likely each rank was examined: as said, else as the clicks were made."""
        from counterrank.clicks.policies.named import parse_examination

        if self.examination is not None:
            return parse_examination(self.examination)
        if counts.examination is None:
            raise CounterrankError("--examination: not known from these clicks; expected e.g. inverse-rank:eta=1")
        return counts.examination

    def propensities(self, counts: ClickCounts, data: RankingData) -> FloatArray | None:
        """P(examined | query, policy) of the policy that was named; None for those logged with the clicks."""
        from counterrank.clicks.policies.named import parse_policy

        if self.policy is None and self.logger is None:
            if counts.propensities is None:
                raise CounterrankError(
                    "--policy, --logger: these clicks have no logged propensities; name the policy that showed the "
                    "pages, what it ranked by, and --examination"
                )
            return None
        if self.policy is None or self.logger is None:
            raise CounterrankError("--policy, --logger: expected both, or none for logged propensities")
        scores = load_scores(self.logger, data, self.threads)
        curve = self.curve(counts)
        return parse_policy(self.policy).propensity(scores, data.offsets, curve, threads=self.threads)


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


def load_scores(logger: Path, data: RankingData, threads: int | None) -> Any:
    """Scores for the documents of the data, from a ranker or from a file."""
    import numpy as np

    from counterrank import Ranker
    from counterrank.cli.loading import widened

    if existing(logger, "ranker or scores").is_dir():
        ranker = Ranker.load(logger)
        ranker.threads = threads
        return ranker.predict(widened(data, ranker, "the data"))
    try:
        if logger.suffix == ".npy":
            scores = np.load(logger, allow_pickle=False)
        else:
            scores = np.loadtxt(logger, dtype=np.float64, ndmin=1)
    except (ValueError, EOFError) as error:
        raise CounterrankError(f"{logger}: not scores that can be read ({error}); expected one number a line") from None
    if scores.shape != (data.n_docs,):
        raise CounterrankError(
            f"{logger}: scores of shape {scores.shape}; expected one for each of {data.n_docs:,} rows"
        )
    return scores


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
