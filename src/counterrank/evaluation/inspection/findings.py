"""What an inspection found: plain numbers, and a verdict in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from counterrank.clicks.counts import ClickCounts
from counterrank.common.checks import IntArray

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


# A few of the queries, where all of them would take long.


DOCUMENTS = 200_000


@dataclass(frozen=True, eq=False)
class QuerySample:
    """All queries if they are few, else some that were asked, evenly spaced over the data.

    Attributes:
        queries: their indices.
        offsets: where the documents of each begin in `rows`.
        rows: their documents.
        share: how many of the sessions they have.
    """

    queries: IntArray
    offsets: IntArray
    rows: IntArray
    share: float

    @classmethod
    def of(cls, clicks: ClickCounts, documents: int = DOCUMENTS) -> QuerySample:
        """All queries, or every n-th that was asked, so that there are at most about so many documents.

        >>> one = np.array([], np.int64)
        >>> counts = ClickCounts("", np.array([0, 2, 4, 6]), np.array([1, 0, 1]), one, one, one, one)
        >>> QuerySample.of(counts).queries.tolist(), QuerySample.of(counts, 3).rows.tolist()
        ([0, 1, 2], [0, 1])
        """
        lengths = np.diff(clicks.offsets)
        queries = np.arange(clicks.n_queries)
        if clicks.n_docs > documents:
            asked = np.flatnonzero(clicks.sessions)
            queries = asked[:: max(1, int(np.ceil(lengths[asked].sum() / documents)))]
        offsets = np.concatenate(([0], np.cumsum(lengths[queries])))
        begin = np.repeat(clicks.offsets[queries] - offsets[:-1], lengths[queries])
        rows = begin + np.arange(offsets[-1])
        return cls(queries, offsets, rows, float(clicks.sessions[queries].sum()) / max(clicks.n_sessions, 1))

    def is_whole(self, clicks: ClickCounts) -> bool:
        """Whether these are all queries of the data, so that they keep their numbers."""
        return len(self.queries) == clicks.n_queries


# Numbers as the verdict writes them.


def percent(share: float) -> str:
    """A share with two digits that matter.

    >>> percent(0.123), percent(0.00123), percent(0.0), percent(1.0), percent(0.9999)
    ('12 %', '0.12 %', '0 %', '100 %', 'over 99 %')
    """
    value = 100.0 * share
    if 99.5 <= value < 100.0:
        return "over 99 %"
    if value == 0.0 or value >= 9.95:
        return f"{value:.0f} %"
    return f"{value:.2g} %"


def some(n: int, what: str, many: str = "") -> str:
    """A count with its word.

    >>> some(1, "click"), some(1200, "query", "queries")
    ('1 click', '1,200 queries')
    """
    return f"{n:,} {what if n == 1 else many or what + 's'}"


def about(value: float) -> str:
    """A large number to two or three digits.

    >>> about(123456), about(99.4), about(1204)
    ('123,000', '99', '1,200')
    """
    if value < 1000:
        return f"{value:,.0f}"
    step = 10 ** (len(str(int(value))) - (2 if value < 10_000 else 3))
    return f"{round(value / step) * step:,}"


def rank_list(ranks: Sequence[int]) -> str:
    """Ranks with runs written short.

    >>> rank_list([1, 2, 3, 5]), rank_list([4])
    ('1 to 3, 5', '4')
    """
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


def old_ranks(rows: Sequence[dict[str, Any]], column: str) -> str:
    """Where in the old ranking the documents counted in a column stand.

    >>> old_ranks([{"old_rank_from": 1, "old_rank_to": 5, "n": 0}, {"old_rank_from": 6, "old_rank_to": 9, "n": 3}], "n")
    'at ranks 6 to 9 of the old ranking'
    """
    own = [row for row in rows if row[column]]
    if not own:
        return ""
    ranks = [rank for row in own for rank in range(row["old_rank_from"], min(row["old_rank_to"], 10_000) + 1)]
    return f"at ranks {rank_list(ranks)} of the old ranking"
