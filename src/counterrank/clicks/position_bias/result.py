"""The examination curve that a log speaks for: values, intervals, what they rest on, and a small file of it."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.clicks.examination import Examination
from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.errors import DataError, ExaminationWarning
from counterrank.common.files import PathLike, atomic_file, existing

_MOST = 1.05  # chance may bring an estimate a little above 1, not further
_FORMAT, _VERSION = "counterrank-examination", 1


@dataclass(frozen=True, eq=False)
class EstimatedExamination:
    """P(examined | rank) relative to rank 1, as a log tells it.

    Attributes:
        values: theta_k / theta_1 for each rank, as estimated; noise, or users, may put one above 1.
        intervals: (n_ranks, 2), one for each rank by itself; those of rank 1 are 1 and 1.
        ranks: 1 to k.
        method: "all-pairs", "em" or "regression-em".
        target: what the intervals are over: "queries" like these, or new clicks on "these-queries".
        confidence: how often each of them shall hold the truth.
        n_sessions: the sessions of the log.
        n_queries: the queries that had a say.
        n_documents: the query-document pairs that had a say.
        n_clicks: the clicks on them.
        warnings: what speaks against trusting the values, in words.
    """

    values: FloatArray
    intervals: FloatArray
    ranks: IntArray
    method: str
    target: str
    confidence: float
    n_sessions: int
    n_queries: int
    n_documents: int
    n_clicks: int
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for array in (self.values, self.intervals, self.ranks):
            array.flags.writeable = False

    @property
    def examination(self) -> Examination:
        """The curve for training and evaluation: the values, those above 1 set to 1."""
        return Examination(np.clip(self.values, 0.0, 1.0))

    def save(self, path: PathLike) -> None:
        """Write a JSON file, which `examination.load` and `--examination FILE` read."""
        content: dict[str, Any] = {"format": _FORMAT, "version": _VERSION}
        for name, value in vars(self).items():
            content[name] = value.tolist() if isinstance(value, np.ndarray) else value
        with atomic_file(path) as temporary:
            temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    def __repr__(self) -> str:
        shown = ", ".join(f"{value:.3g}" for value in self.values)
        return (
            f"EstimatedExamination({self.method}: {shown}; {self.n_clicks:,} clicks on {self.n_documents:,} documents "
            f"of {self.n_queries:,} queries)"
        )


def load_examination(path: PathLike) -> Examination:
    """The curve in a file that `EstimatedExamination.save` wrote."""
    file = existing(path, "examination curve")
    expected = "expected a file written by EstimatedExamination.save"
    if not file.is_file():
        raise DataError(f"{path}: is a folder; {expected}")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as fault:
        raise DataError(f"{path}: not JSON ({fault}); {expected}") from None
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise DataError(f"{path}: format is not {_FORMAT!r}; {expected}")
    if content.get("version") != _VERSION:
        raise DataError(
            f"{path}: version {content.get('version')!r}; this counterrank reads version {_VERSION}, install a newer "
            "one"
        )
    values = content.get("values")
    if not isinstance(values, list) or not all(type(value) in (int, float) and value >= 0.0 for value in values):
        raise DataError(f"{path}: values are not a list of numbers of at least 0; {expected}")
    if max(values, default=0.0) > _MOST:
        rank = int(np.argmax(values)) + 1
        text = f"{path}: {values[rank - 1]:g} at rank {rank}, more than at rank 1, is taken for 1"
        warnings.warn(f"{text}; is the estimate to be trusted?", ExaminationWarning, stacklevel=2)
    return Examination(np.clip(values, 0.0, 1.0))
