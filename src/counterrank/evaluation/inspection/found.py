"""What an inspection found: plain numbers, and a verdict in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

LEVELS = ("good", "warning", "bad")
ESTIMATORS = ("policy-aware", "affine", "policy-oblivious", "rerank", "naive", "examination.estimate")


@dataclass(frozen=True)
class Finding:
    """One sentence or two about one estimator, or about the log.

    Attributes:
        about: the estimator, or "the log".
        level: "good": supported; "warning": with care, or not known; "bad": not supported.
        text: why.
    """

    about: str
    level: str
    text: str


@dataclass(frozen=True)
class Known:
    """What was given beside the clicks, in words.

    Attributes:
        candidates: whether the log was counted with ranking data.
        propensities: where they are from: "rho", "policy", "logged"; or of several policies "mean" (over their
            sessions) or "realised" (how often documents were shown); None if there are none.
        policy: as it writes itself; None if not given.
        scores: whether the old ranking is known.
        examination: as it writes itself; None if not known.
        pages: distinct pages that were kept; None if they were not.
        refused: why logged propensities cannot be used; None if they can, or there are none.
    """

    candidates: bool
    propensities: str | None
    policy: str | None
    scores: bool
    examination: str | None
    pages: int | None
    refused: str | None = None


@dataclass(frozen=True)
class Inspection:
    """What a log can and cannot tell; made by `inspect_clicks`.

    Attributes:
        target_size: the effective sample size that is aimed at.
        known: what was given beside the clicks.
        overview: sessions, clicks, queries and documents.
        ranks: by rank, see `rank_table`.
        sessions: sessions per query, see `sessions_table`.
        pages: how the pages vary, see `page_evidence`.
        connected: ranks in groups that can be compared, see `examination.connected_ranks`.
        weights: of the clicks, see `weight_table`; None without propensities.
        coverage: of the candidates, see `coverage_table`; None without ranking data.
        policy_check: whether the log contradicts the policy, see `policy_check`; None if it was not compared.
        logged_check: whether logged propensities differ from those computed; None if there are not both.
        drift: over time, see `drift_table`; None without times.
        remedies: what other policies would bring, see `remedies`; None without scores, propensities and examination.
        verdict: one finding for each estimator, and those about the log.
        advice: what to change in logging, most useful first.
    """

    target_size: int
    known: Known
    overview: dict[str, Any]
    ranks: list[dict[str, Any]]
    sessions: dict[str, Any]
    pages: dict[str, Any]
    connected: list[list[int]]
    weights: dict[str, Any] | None = None
    coverage: dict[str, Any] | None = None
    policy_check: dict[str, Any] | None = None
    logged_check: dict[str, Any] | None = None
    drift: dict[str, Any] | None = None
    remedies: dict[str, Any] | None = None
    verdict: tuple[Finding, ...] = ()
    advice: tuple[str, ...] = ()

    def level(self, about: str) -> str:
        """The verdict on one estimator: "good", "warning" or "bad"."""
        return next(finding.level for finding in self.verdict if finding.about == about)

    @property
    def usable_size(self) -> float:
        """The effective sample size, or that to be expected of the policy where that is less; 0 without weights."""
        if self.weights is None:
            return 0.0
        expected = self.weights["expected_effective_sample_size"]
        size = float(self.weights["effective_sample_size"])
        return size if expected is None else min(size, float(expected))

    @property
    def headline(self) -> str:
        """The verdict in one line."""
        parts = []
        for level, words in (("good", "supports"), ("warning", "with care"), ("bad", "does not support")):
            names = [each.about for each in self.verdict if each.level == level and each.about in ESTIMATORS]
            if names:
                parts.append(f"{words}: {', '.join(names)}")
        text = "; ".join(parts)
        return text[:1].upper() + text[1:] + "."

    def summary(self) -> dict[str, Any]:
        """Everything as lists, dicts, numbers and words, for JSON."""
        found = asdict(self)
        order = ("verdict", "advice", "target_size", "known", "overview")
        return {"headline": self.headline} | {key: found.pop(key) for key in order} | found
