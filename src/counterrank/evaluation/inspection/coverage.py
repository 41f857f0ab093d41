"""A log against its logging policy: coverage of the candidates, a test of the policy, and what others would bring."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import Examination
from counterrank.clicks.policies import Deterministic, PlackettLuce, ReplaceLast, UniformInsert, coverage
from counterrank.clicks.policies.from_log import SAME
from counterrank.clicks.policies.page_kernels import rank_queries
from counterrank.clicks.policies.pages import components_of, knows_propensity
from counterrank.clicks.policies.propensity import propensity_of
from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.errors import CounterrankError
from counterrank.common.parallel import for_queries
from counterrank.data.ids import query_of, query_of_rows
from counterrank.estimators.propensities import logged_range
from counterrank.evaluation.inspection.click_tables import Placements, bernstein
from counterrank.evaluation.inspection.result import Table

BoolArray = NDArray[np.bool_]

_SINGLE = 10  # ranks that have a row of their own
SHOWN_TARGET = 0.95


def ranks_of(scores: FloatArray, offsets: IntArray) -> IntArray:
    """The rank of each document by score, equal scores in document order.

    >>> ranks_of(np.array([1.0, 3.0, 2.0, 5.0]), np.array([0, 3, 4])).tolist()
    [3, 1, 2, 1]
    """
    order, ranks = np.empty(len(scores), np.int64), np.empty(len(scores), np.int64)
    for_queries(rank_queries, offsets, scores, order)
    begins = np.repeat(offsets[:-1], np.diff(offsets))
    ranks[begins + order] = np.arange(len(scores)) - begins + 1
    return ranks


def rank_bins(longest: int) -> IntArray:
    """Where groups of ranks begin, and behind the last one: 1, 2 ... 10, 11, 21, 51, 101, 201 ...

    >>> rank_bins(30).tolist()
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 21, 31]
    """
    begins = list(range(1, min(longest, _SINGLE) + 1))
    begins += [lead * 10**p + 1 for p in range(1, 18) for lead in (1, 2, 5) if lead * 10**p < longest]
    return np.array([*begins, longest + 1])


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


# Does the log contradict the policy that is said to have made it?


@dataclass(frozen=True, eq=False)
class QuerySample:
    """All queries if they are few, else some of those with sessions, evenly spaced over the data."""

    queries: IntArray  # their indices
    offsets: IntArray  # where the documents of each begin in `rows`
    rows: IntArray  # their documents
    share: float  # of the sessions

    @classmethod
    def of(cls, clicks: ClickCounts, documents: int = 200_000) -> QuerySample:
        """All queries, or every n-th with sessions, so that there are at most about so many documents.

        >>> one = np.array([], np.int64)
        >>> counts = ClickCounts("", np.array([0, 2, 4, 6]), np.array([1, 0, 1]), one, one, one, one)
        >>> QuerySample.of(counts).queries.tolist(), QuerySample.of(counts, 3).rows.tolist()
        ([0, 1, 2], [0, 1])
        """
        lengths = np.diff(clicks.offsets)
        queries = np.arange(clicks.n_queries)
        if clicks.n_docs > documents:
            logged = np.flatnonzero(clicks.sessions)
            queries = logged[:: max(1, int(np.ceil(lengths[logged].sum() / documents)))]
        offsets = np.concatenate(([0], np.cumsum(lengths[queries])))
        begin = np.repeat(clicks.offsets[queries] - offsets[:-1], lengths[queries])
        rows = begin + np.arange(offsets[-1])
        return cls(queries, offsets, rows, float(clicks.sessions[queries].sum()) / max(clicks.n_sessions, 1))

    def is_whole(self, clicks: ClickCounts) -> bool:
        """Whether these are all queries of the data, so that they keep their numbers."""
        return len(self.queries) == clicks.n_queries


_STRAY = 0.001  # share of impressions that rounding of scores may put elsewhere
ERROR_RATE = 0.01
_DEPTH = 20  # display ranks that are compared
# Plackett-Luce probabilities are integrals, right to about 1e-8; a page so unlikely was not shown
_NEVER = 1e-12


@dataclass(frozen=True)
class Comparison(Table):
    """How often documents of a group of ranks under the logger are at a rank of the page, as shares of pages."""

    rank: int
    old_rank_from: int
    old_rank_to: int
    observed: float
    expected: float


@dataclass(frozen=True)
class ImpossibleImpression(Table):
    """A document at a rank where the policy never shows it; query and document count from 0."""

    query: int
    document: int
    rank: int
    impressions: int


@dataclass(frozen=True)
class PolicyCheck(Table):
    """The test of a policy against the pages of a log."""

    queries_compared: int
    ranks_compared: int
    impressions_compared: int
    impossible_impressions: int
    impossible_example: ImpossibleImpression | None
    comparisons: int
    error_rate: float
    adjusted_p: float
    worst: Comparison | None
    contradicted: bool


def check_policy(clicks: ClickCounts, policy: Any, scores: FloatArray | None, name: str = "the policy") -> None:
    """Raise an error where the log shows what the policy cannot, and warn where it shows it more or less often.

    Several policies, {name: (policy, scores)} with `scores` None, are each compared with their own pages.

    >>> from counterrank.clicks.policies import Deterministic
    >>> docs, ranks, shown, clicked = np.array([[0, 1], [1, 1], [5, 5], [1, 1]])
    >>> clicks = ClickCounts("", np.array([0, 2]), np.array([10]), docs, ranks, shown, clicked)
    >>> check_policy(clicks, Deterministic(1), np.array([2.0, 1.0]))
    Traceback (most recent call last):
    ...
    counterrank.common.errors.CounterrankError: policy, scores: 50.0% of what the log shows cannot come from the \
policy with these scores; expected the policy and the scores that made the pages; inspect the log for more
    """
    if scores is None:
        for own, (one, own_scores) in policy.items():
            if own in clicks.policy_names:
                check_policy(clicks.only_policies([own]), one, own_scores, own)
        return
    found = policy_check(clicks, policy, scores)
    if found is None:
        return
    share = found.impossible_impressions / max(found.impressions_compared, 1)
    if share > _STRAY:
        raise CounterrankError(
            f"policy, scores: {share:.1%} of what the log shows cannot come from {name} with these scores; expected "
            f"the policy and the scores that made the pages{_missing_k(clicks, policy)}; inspect the log for more"
        )
    if found.contradicted:
        warnings.warn(
            f"the log shows documents more or less often than {name} would with these scores; what is computed from "
            "its propensities may be wrong; inspect the log for more",
            stacklevel=2,
        )


def _missing_k(clicks: ClickCounts, policy: Any) -> str:
    """A hint where the policy has no k, and all pages of the log have one length."""
    length = int(clicks.ranks.max())
    longer = np.diff(clicks.offsets) > length
    at_last = int(clicks.impressions[clicks.ranks == length].sum())
    full = int(clicks.sessions[np.diff(clicks.offsets) >= length].sum())
    if getattr(policy, "k", 0) is not None or at_last != full or not clicks.sessions[longer].any():
        return ""
    return f"; a policy without k shows all candidates, but pages have {length}: expected e.g. replace-last:k={length}"


def policy_check(
    clicks: ClickCounts, policy: Any, scores: FloatArray, placed: Placements | None = None
) -> PolicyCheck | None:
    """Pages that the policy cannot show, and pages shown more or less often than it would.

    None where they cannot be compared: nothing was shown, the policy only samples, or it lists pages of each query and
    only some of the queries are compared.

    For each rank r of the page and each group j of ranks in the old ranking, X is the number of sessions with a
    document of j at r. Under the policy X is a sum of independent events with known chances p, so by Bernstein's
    inequality

        P(|X - sum(p)| >= t) <= 2 exp(-t^2 / (2 (sum(p (1 - p)) + t / 3)))

    The log contradicts the policy where the smallest of these bounds, times their number (Bonferroni), is below 0.01: a
    right policy is accused in at most 1 % of logs.
    """
    placed = placed or Placements.of(clicks)
    if not len(placed.docs) or not knows_propensity(policy):
        return None
    sample = QuerySample.of(clicks)
    by_query = any(part.custom is not None or part.listed is not None for part in components_of(policy))
    if by_query and not sample.is_whole(clicks):
        return None
    offsets, rows = sample.offsets, sample.rows
    local = np.full(clicks.n_docs, -1)
    local[rows] = np.arange(len(rows))
    depth = min(int(placed.ranks.max(initial=0)), _DEPTH)
    own = (local[placed.docs] >= 0) & (placed.ranks <= depth)
    docs, ranks, impressions = local[placed.docs[own]], placed.ranks[own], placed.impressions[own]
    old = ranks_of(scores[rows], offsets)
    bins = rank_bins(int(old.max(initial=1)))
    group = np.searchsorted(bins, old, side="right") - 1
    sessions = np.repeat(clicks.sessions[sample.queries], np.diff(offsets)).astype(np.float64)
    impossible: list[tuple[int, int, int]] = []  # document, rank, impressions
    compared: list[tuple[float, Comparison]] = []
    for rank in range(1, depth + 1):
        chance = propensity_of(policy, scores[rows], offsets, Examination(np.eye(depth)[rank - 1]))
        here = ranks == rank
        shown: FloatArray = np.asarray(np.bincount(docs[here], impressions[here], minlength=len(rows)), np.float64)
        bad = np.flatnonzero((shown > 0) & (chance < _NEVER))
        impossible += [(int(rows[doc]), rank, int(shown[doc])) for doc in bad]
        compared += _compare(shown, chance, sessions, group, offsets, bins, rank)
    bound, worst = min(compared, key=lambda pair: pair[0], default=(1.0, None))
    adjusted = min(1.0, len(compared) * bound) if compared else 1.0
    example = None
    if impossible:
        doc, rank, count = impossible[0]
        query = int(query_of(doc, clicks.offsets))
        example = ImpossibleImpression(query, doc - int(clicks.offsets[query]), rank, count)
    return PolicyCheck(
        queries_compared=len(sample.queries),
        ranks_compared=depth,
        impressions_compared=int(impressions.sum()),
        impossible_impressions=sum(count for _, _, count in impossible),
        impossible_example=example,
        comparisons=len(compared),
        error_rate=ERROR_RATE,
        adjusted_p=adjusted,
        worst=worst,
        contradicted=bool(impossible) or adjusted < ERROR_RATE,
    )


def _compare(
    shown: FloatArray, chance: FloatArray, sessions: FloatArray, group: IntArray, offsets: IntArray, bins: IntArray,
    rank: int,
) -> list[tuple[float, Comparison]]:  # fmt: skip
    """Observed and expected sessions for each group of ranks under the logger, with Bernstein's bound."""
    n = len(bins) - 1
    observed, expected = np.bincount(group, shown, n), np.bincount(group, chance * sessions, n)
    # one session shows one document at a rank, so the chances of a group within a query add up
    query = query_of_rows(offsets)
    within = np.bincount(query * n + group, chance, (len(offsets) - 1) * n).reshape(-1, n)
    variance = (sessions[offsets[:-1], None] * within * np.clip(1.0 - within, 0.0, 1.0)).sum(axis=0)
    bound = bernstein(observed - expected, variance)
    pages = float(observed.sum()) or 1.0
    shares = [(float(observed[j]) / pages, float(expected[j]) / pages) for j in range(n)]
    return [
        (float(bound[j]), Comparison(rank, int(bins[j]), int(bins[j + 1] - 1), *shares[j]))
        for j in range(n)
        if expected[j] > 0.0
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
