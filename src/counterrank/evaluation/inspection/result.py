"""The result of an inspection: tables of numbers, and findings that follow from them, with numbers in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from counterrank.clicks.examination import CurvesByContext
from counterrank.common.notebook import Shown, Summary, Table
from counterrank.evaluation.evaluation_cards import inspection_card, inspection_plot, inspection_text

if TYPE_CHECKING:
    from counterrank.clicks.examination import Examination
    from counterrank.estimators.policy_check import PolicyCheck
    from counterrank.evaluation.inspection.click_tables import (
        ContextTable,
        CurveTable,
        Overview,
        PageEvidence,
        RankRow,
        SessionCounts,
        WeightTable,
    )
    from counterrank.evaluation.inspection.coverage import Coverage, LoggedCheck, RankGroup, Remedies
    from counterrank.evaluation.inspection.drift import Drift
    from counterrank.evaluation.inspection.user_comparison import UserComparison


LEVELS = ("good", "warning", "bad")
THE_LOG = "the log"  # what findings about no estimator are about


@dataclass(frozen=True)
class Finding(Table):
    """One sentence or two about one estimator, or about the log."""

    about: str  # the estimator, or THE_LOG
    level: str  # "good": supported; "warning": with care, or not known; "bad": not supported
    text: str


@dataclass(frozen=True)
class Known(Table):
    """What was given besides the clicks, in words."""

    candidates: bool  # whether the log was counted with ranking data
    propensities: str | None  # "rho", "policy", "logged"; of several policies "mean" (over sessions) or "realised"
    policy: str | None
    scores: bool  # whether the ranking of the logger is known
    examination: str | None
    pages: int | None  # distinct pages that were kept
    refused: str | None = None  # why logged propensities cannot be used
    log: bool = False  # whether the log itself is there, which holds whole pages
    users: str | None = None  # what was fitted to the log, where nothing says how users click
    users_kind: str | None = None  # "affine", "position-based" or "by-context"


@dataclass(frozen=True, repr=False)
class Inspection(Shown, Table):
    """Which estimators a log supports; the result of `inspect_clicks`.

    Attributes:
        target_size: the effective sample size to reach.
        known: what was given besides the clicks.
        overview: sessions, clicks, queries and documents.
        ranks: by rank.
        sessions: per query.
        pages: how the pages of a query vary.
        connected: groups of ranks that can be compared, see `examination.connected_ranks`.
        weights: importance weights of the clicks; None without propensities.
        coverage: of the candidates; None without ranking data.
        policy_check: whether the log contradicts the policy; None if it was not compared.
        logged_check: whether logged propensities differ from those computed; None if there are not both.
        drift: over time; None without times.
        estimated_curve: the examination curve that the log gives, with intervals; None where ranks are not connected.
        contexts: the curves of each context side by side, and whether they differ; None for a log without contexts.
        remedies: what other policies would bring; None without scores, propensities and examination.
        users: user models compared on held-out pages; None without pages one by one.
        verdict: one finding for each estimator, and those about the log.
        advice: what to change in logging, most useful first.
    """

    target_size: int
    known: Known
    overview: Overview
    ranks: list[RankRow]
    sessions: SessionCounts
    pages: PageEvidence
    connected: list[list[int]]
    weights: WeightTable | None = None
    coverage: Coverage | None = None
    policy_check: PolicyCheck | None = None
    logged_check: LoggedCheck | None = None
    drift: Drift | None = None
    estimated_curve: CurveTable | None = None
    contexts: ContextTable | None = None
    remedies: Remedies | None = None
    users: UserComparison | None = None
    verdict: tuple[Finding, ...] = ()
    advice: tuple[str, ...] = ()

    def level(self, about: str) -> str:
        """The verdict on one estimator: "good", "warning" or "bad"."""
        return next(finding.level for finding in self.verdict if finding.about == about)

    @property
    def usable_size(self) -> float:
        """The effective sample size, or its expectation under the policy where that is less; 0 without weights."""
        if self.weights is None:
            return 0.0
        size, expected = self.weights.effective_sample_size, self.weights.expected_effective_sample_size
        return size if expected is None else min(size, expected)

    @property
    def headline(self) -> str:
        """The verdict in one line."""
        parts = []
        for level, words in (("good", "supports"), ("warning", "with care"), ("bad", "does not support")):
            names = [each.about for each in self.verdict if each.level == level and each.about != THE_LOG]
            if names:
                parts.append(f"{words}: {', '.join(names)}")
        text = "; ".join(parts)
        return text[:1].upper() + text[1:] + "."

    def summary(self) -> Summary:
        """All results as plain values for JSON; prints as a table."""
        found = self.to_json()
        order = ("verdict", "advice", "target_size", "known", "overview")
        return Summary({"headline": self.headline} | {key: found.pop(key) for key in order} | found)

    def plot(self) -> Any:
        """The click rate by rank with its confidence intervals, an altair chart."""
        return inspection_plot(self)

    def __repr__(self) -> str:
        return inspection_text(self)

    def _repr_html_(self) -> str:
        return inspection_card(self)


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


def curve_words(exam: Examination) -> str:
    """An examination curve in short.

    >>> from counterrank.clicks.examination import Examination, inverse_rank
    >>> curve_words(inverse_rank(k=5)), curve_words(Examination([1, 0.52973, 0.3]))
    ('inverse_rank(k=5, eta=1)', '1, 0.53, 0.3 at ranks 1 to 3')
    >>> curve_words(Examination([1, 0.5, 0.4, 0.3, 0.2, 0.15, 0.1]))
    '1, 0.5, 0.4, 0.3, ..., 0.1 at ranks 1 to 7'
    """
    if isinstance(exam, CurvesByContext):
        named = list(exam.curves.items())
        shown = "; ".join(f"{name}: {'0' if each is None else curve_words(each)}" for name, each in named[:4])
        return f"{shown}{'; and others' if len(named) > 4 else ''}"
    if "values" not in exam.describe():
        return str(exam)
    words = [f"{value:.3g}" for value in exam.curve(exam.k or 1)]
    shown = ", ".join(words if len(words) <= 6 else [*words[:4], "...", words[-1]])
    return f"{shown} at ranks 1 to {len(words)}" if len(words) > 1 else f"{shown} at rank 1"


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


def old_ranks(groups: Iterable[RankGroup], column: str) -> str:
    """Where in the ranking of the logger the documents counted in a column are."""
    ranks = [rank for group in groups if getattr(group, column) for rank in group.ranks()]
    return f"at ranks {rank_list(ranks)} of the old ranking" if ranks else ""
