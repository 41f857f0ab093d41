"""A log against its logging policy: coverage of the candidates, logged propensities, and what others would bring."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import Examination
from counterrank.clicks.policies import Deterministic, PlackettLuce, ReplaceLast, UniformInsert, coverage
from counterrank.clicks.policies.from_log import SAME
from counterrank.clicks.policies.propensity import propensity_of
from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.notebook import Table
from counterrank.data.ids import query_of_rows
from counterrank.estimators.policy_check import QuerySample, rank_bins, ranks_of
from counterrank.estimators.propensities import logged_range

BoolArray = NDArray[np.bool_]

SHOWN_TARGET = 0.95


@dataclass(frozen=True)
class RankGroup(Table):
    """Candidates at a group of ranks under the logger."""

    old_rank_from: int
    old_rank_to: int
    candidates: int
    shown: int
    never_shown: int
    could_have_been: int | None  # of those never shown; None if not known
    can_never_be: int | None

    def ranks(self) -> range:
        """The ranks, up to 10,000."""
        return range(self.old_rank_from, min(self.old_rank_to, 10_000) + 1)


@dataclass(frozen=True)
class Coverage(Table):
    """Candidates of queries with sessions: shown, never shown, and whether they could have been.

    What can be examined is known from the policy and its scores, from propensities of all documents, or from
    simulated clicks. Fields that are not known are None, and left out of the JSON.
    """

    candidates: int
    never_shown: int
    not_on_every_page: int
    queries_with_a_never_shown_candidate: int
    never_examinable: int | None = None
    queries_with_a_never_examinable_candidate: int | None = None
    largest_never_examinable_share_of_a_query: float | None = None
    policy_aware_condition_holds: str | None = None  # eq:awarecond
    not_examinable_on_every_page: int | None = None
    policy_oblivious_condition_holds: str | None = None  # eq:agnosticcond
    expected_never_shown: float | None = None
    sessions_to_show_95_percent: int | None = None  # None, too, where no number of sessions is enough
    could_have_been_shown: int | None = None
    by_old_rank: list[RankGroup] | None = None

    json_keys: ClassVar[dict[str, str]] = {
        "policy_aware_condition_holds": "policy-aware_condition_holds",
        "policy_oblivious_condition_holds": "policy-oblivious_condition_holds",
    }

    def to_json(self) -> dict[str, Any]:
        """What is known."""
        always = () if self.expected_never_shown is None else ("sessions_to_show_95_percent",)
        return {key: value for key, value in super().to_json().items() if value is not None or key in always}


def coverage_table(
    clicks: ClickCounts,
    policy: Any,
    scores: FloatArray | None,
    exam: Examination | None,
    rho: FloatArray | None = None,
) -> Coverage | None:
    """The coverage of a log; None without ranking data, where it holds no candidates but those it shows."""
    if not clicks.knows_candidates:
        return None
    query = query_of_rows(clicks.offsets)
    logged = clicks.sessions[query] > 0
    by_document = clicks.by_document(clicks.impressions)
    never = logged & (by_document == 0)
    found = Coverage(
        candidates=int(np.count_nonzero(logged)),
        never_shown=int(np.count_nonzero(never)),
        not_on_every_page=int(np.count_nonzero(logged & (by_document < clicks.sessions[query]))),
        queries_with_a_never_shown_candidate=len(np.unique(query[never])),
    )
    possible = None
    if policy is not None and scores is not None:
        everywhere = Examination(np.ones(int(np.diff(clicks.offsets).max())))
        covered = coverage(policy, scores, clicks.offsets, everywhere if exam is None else exam)
        possible = covered.examinable
        found = _with_conditions(found, possible, covered.always_examinable, logged, query)
        shown = propensity_of(policy, scores, clicks.offsets, everywhere)
        unseen = _unseen(shown[logged], clicks.sessions[query][logged].astype(np.float64))
        needed = _sessions_to_show(unseen, clicks.n_sessions, int(logged.sum()))
        found = replace(found, expected_never_shown=unseen(1.0), sessions_to_show_95_percent=needed)
    elif rho is not None or clicks.unexaminable is not None:
        possible = examinable_documents(clicks, rho)
        found = _with_conditions(found, possible, None, logged, query)
    if possible is not None:
        found = replace(found, could_have_been_shown=int(np.count_nonzero(never & possible)))
    if scores is not None:
        found = replace(found, by_old_rank=_by_old_rank(ranks_of(scores, clicks.offsets), logged, never, possible))
    return found


def examinable_documents(clicks: ClickCounts, rho: FloatArray | None) -> BoolArray:
    """Which documents have a chance to be examined: by their propensities, as remembered, else those that were shown.

    >>> counts = ClickCounts("", np.array([0, 2]), np.array([1]), np.array([1]), *(np.array([1]) for _ in range(3)))
    >>> examinable_documents(counts, None).tolist(), examinable_documents(counts, np.array([0.5, 0.0])).tolist()
    ([False, True], [True, False])
    """
    if rho is not None:
        return rho > 0.0
    if clicks.unexaminable is None:
        return clicks.by_document(clicks.impressions) > 0
    possible = np.ones(clicks.n_docs, bool)
    possible[clicks.unexaminable] = False
    return possible


def _with_conditions(
    found: Coverage, examinable: BoolArray, always: BoolArray | None, logged: BoolArray, query: IntArray
) -> Coverage:
    """Whether the conditions of the policy-aware and, where known, of the policy-oblivious estimator hold."""
    hidden = logged & ~examinable
    lost = np.bincount(query[hidden], minlength=1)
    sizes = np.bincount(query, minlength=len(lost))[: len(lost)]
    found = replace(
        found,
        never_examinable=int(hidden.sum()),
        queries_with_a_never_examinable_candidate=int(np.count_nonzero(lost)),
        largest_never_examinable_share_of_a_query=float((lost / np.maximum(sizes, 1)).max(initial=0.0)),
        policy_aware_condition_holds="no" if hidden.any() else "yes",
    )
    if always is None:
        return found
    missing = int((logged & ~always).sum())
    holds = "no" if missing else "yes"
    return replace(found, not_examinable_on_every_page=missing, policy_oblivious_condition_holds=holds)


def _unseen(shown: FloatArray, sessions: FloatArray) -> Any:
    """The expected number of candidates on no page, sum of (1 - p)^s, were there so many times the sessions."""
    with np.errstate(divide="ignore"):
        logs = np.log1p(-np.minimum(shown, 1.0))

    def expected(times: float) -> float:
        with np.errstate(invalid="ignore"):
            return float(np.exp(np.where(shown > 0.0, times * sessions * logs, 0.0)).sum())

    return expected


def _sessions_to_show(unseen: Any, sessions: int, candidates: int) -> int | None:
    """How many sessions, with these frequencies of queries, until 95 % of the candidates are expected on some page."""
    allowed = (1.0 - SHOWN_TARGET) * candidates
    if not sessions or unseen(1e12) > allowed:
        return None
    low, high = 0.0, 1e12
    if unseen(1.0) <= allowed:
        high = 1.0
    while high - low > 1e-3 * high and high > 1e-9:
        middle = (low * high) ** 0.5 if low else high / 1e3
        low, high = (low, middle) if unseen(middle) <= allowed else (middle, high)
    return int(np.ceil(high * sessions))


def _by_old_rank(ranks: IntArray, logged: BoolArray, never: BoolArray, possible: BoolArray | None) -> list[RankGroup]:
    bins = rank_bins(int(ranks.max(initial=1)))
    place = np.searchsorted(bins, ranks, side="right") - 1

    def count(which: BoolArray) -> IntArray:
        return np.bincount(place[which], minlength=len(bins) - 1)

    candidates, unseen = count(logged), count(never)
    hidden = None if possible is None else count(never & ~possible)
    return [
        RankGroup(
            old_rank_from=int(bins[i]),
            old_rank_to=int(bins[i + 1] - 1),
            candidates=int(candidates[i]),
            shown=int(candidates[i] - unseen[i]),
            never_shown=int(unseen[i]),
            could_have_been=None if hidden is None else int(unseen[i] - hidden[i]),
            can_never_be=None if hidden is None else int(hidden[i]),
        )
        for i in range(len(bins) - 1)
        if candidates[i]
    ]


@dataclass(frozen=True)
class LoggedCheck(Table):
    """How the propensities in the log differ from those computed."""

    differing_share_of_impressions: float
    largest_ratio: float


def logged_check(clicks: ClickCounts, rho: FloatArray) -> LoggedCheck | None:
    """How the propensities in the log differ from those computed; None if none were logged.

    Of a log of several policies those computed are means over sessions, and compared with what these may be.

    >>> one = np.array([1])
    >>> counts = ClickCounts("", np.array([0, 1]), one, np.array([0]), one, one, one, propensities=np.array([0.5]))
    >>> logged_check(counts, np.array([0.25])).differing_share_of_impressions
    1.0
    """
    if clicks.propensities is None:
        return None
    given = rho[clicks.docs]
    low, high = (end[clicks.docs] for end in logged_range(clicks))
    off = (given < low * (1.0 - SAME)) | (given > high * (1.0 + SAME))
    total = max(clicks.n_impressions, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(off, np.abs(np.log(np.clip(given, low, high) / given)), 0.0)
    ratio = ratio[np.isfinite(ratio)]
    return LoggedCheck(float(clicks.impressions[off].sum()) / total, float(np.exp(ratio.max(initial=0.0))))


# What other policies would bring


_STEPS = sorted({round(lead * 10.0**-p, 6) for p in range(4) for lead in (1, 1.5, 2, 3, 5, 7) if lead * 10.0**-p <= 1})
_HEATS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)  # temperatures, in standard deviations of scores


@dataclass(frozen=True)
class Remedy(Table):
    """A policy, and what it is expected to bring in as many sessions as the log has."""

    policy: str
    effective_sample_size: float
    clicks: float
    sessions_for_target: int | None
    reaches_target: bool
    learns_position_bias: bool


@dataclass(frozen=True)
class RemedyFamily(Table):
    """Of policies of one kind, the least random one that reaches the target, and that with the largest sample size."""

    least: Remedy | None
    best: Remedy


@dataclass(frozen=True)
class Remedies(Table):
    """Other policies on pages as long as these."""

    target: int
    sessions: int
    page: int
    queries_computed: int
    assumed_click_rate: float | None
    families: dict[str, RemedyFamily]


@dataclass(frozen=True, eq=False)
class ExpectedClicks:
    """Importance weights of the clicks under any policy, from the P(click | examined) that this log estimates.

    With a = P(click | examined) of a document, s sessions of its query and propensity rho', the expectations are

        clicks: s a rho',   sum of weights: s a,   sum of squared weights: s a / rho'

    so that the effective sample size is about (sum of s a)^2 / sum of s a / rho'. This log estimates s a without bias
    as the policy-aware weight, clicks / rho. Documents that it does not cover get the mean a of the others.
    """

    sample: QuerySample  # the queries it was computed on
    scores: FloatArray  # of their documents
    worth: FloatArray  # s a of each
    assumed: float | None  # the mean a, where it was needed
    exam: Examination
    page: int  # how many documents a page holds

    @classmethod
    def of(
        cls, clicks: ClickCounts, by_cell: FloatArray, rho: FloatArray | None, scores: FloatArray, exam: Examination
    ) -> ExpectedClicks:
        """From the propensities of the cells, and those of all documents where they are known."""
        sample = QuerySample.of(clicks, 50_000)
        weights = np.zeros(len(by_cell))
        np.divide(clicks.clicks, by_cell, out=weights, where=by_cell > 0.0)
        omega = clicks.by_document(weights)[sample.rows]
        sessions = clicks.sessions[sample.queries][query_of_rows(sample.offsets)].astype(np.float64)
        known = examinable_documents(clicks, rho)[sample.rows]
        below = sessions[known].sum()
        mean = float(omega[known].sum() / below) if below else 0.0
        worth = np.where(known, omega, sessions * mean)
        page = int(clicks.ranks[clicks.impressions > 0].max(initial=1))
        return cls(sample, scores[sample.rows], worth, None if known.all() else mean, exam, page)

    def size(self, rho: FloatArray) -> float:
        """The effective sample size with these propensities, over all queries; 0 if they leave a document out."""
        own = self.worth > 0.0
        if not own.any() or (rho[own] <= 0.0).any():
            return 0.0
        total = float(self.worth[own].sum())
        return total**2 / float((self.worth[own] / rho[own]).sum()) / self.sample.share

    def remedy(self, name: str, rho: FloatArray, sessions: int, target: int, moves: bool) -> Remedy:
        """A policy with these propensities."""
        size = self.size(rho)
        return Remedy(
            policy=name,
            effective_sample_size=size,
            clicks=float((self.worth * rho).sum()) / self.sample.share,
            sessions_for_target=int(np.ceil(sessions * target / size)) if size else None,
            reaches_target=size >= target,
            learns_position_bias=moves,
        )


def remedies(expected: ExpectedClicks, sessions: int, target: int) -> Remedies:
    """Policies on pages as long as these, and of each family the least random one that reaches the target.

    Epsilon-greedy and mixtures have propensities that are linear in their share, so a fine grid of shares is tried; of
    Plackett-Luce temperatures are tried from a tenth to ten times the standard deviation of scores within queries.
    """
    k, scores, offsets = expected.page, expected.scores, expected.sample.offsets
    fixed = Deterministic(k).propensity(scores, offsets, expected.exam)
    last = ReplaceLast(k).propensity(scores, offsets, expected.exam)
    insert = UniformInsert(k).propensity(scores, offsets, expected.exam)
    families: dict[str, list[Remedy]] = {"epsilon-greedy": [], "uniform-insert": [], "plackett-luce": []}
    for share in _STEPS:
        name = f"epsilon-greedy:k={k},epsilon={share:g}" if share < 1 else f"replace-last:k={k}"
        mixed = (1.0 - share) * fixed + share * last
        families["epsilon-greedy"].append(expected.remedy(name, mixed, sessions, target, False))
        name = f"{1 - share:g}*deterministic:k={k} + {share:g}*uniform-insert:k={k}" if share < 1 else ""
        mixed = (1.0 - share) * fixed + share * insert
        row = expected.remedy(name or f"uniform-insert:k={k}", mixed, sessions, target, True)
        families["uniform-insert"].append(row)
    means = np.add.reduceat(scores, offsets[:-1]) / np.diff(offsets)
    deviation = float(np.sqrt(np.square(scores - np.repeat(means, np.diff(offsets))).mean()))  # within queries
    for heat in _HEATS if deviation else ():
        temperature = float(f"{heat * deviation:.2g}")
        rho = PlackettLuce(k, temperature).propensity(scores, offsets, expected.exam)
        name = f"plackett-luce:k={k},temperature={temperature:g}"
        families["plackett-luce"].append(expected.remedy(name, rho, sessions, target, k > 1))
    chosen = {
        name: RemedyFamily(
            least=next((row for row in rows if row.reaches_target), None),
            best=max(rows, key=lambda row: row.effective_sample_size),
        )
        for name, rows in families.items()
        if rows
    }
    return Remedies(target, sessions, k, len(expected.sample.queries), expected.assumed, chosen)
