"""Does a log contradict the policy that is said to have made it? `check_policy`, and the test behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import Examination
from counterrank.clicks.policies.page_kernels import rank_queries
from counterrank.clicks.policies.pages import check_rankings, components_of, knows_propensity
from counterrank.clicks.policies.propensity import propensity_of
from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.errors import CounterrankError, warn_caller
from counterrank.common.notebook import Table
from counterrank.common.parallel import for_queries
from counterrank.data.ids import query_of, query_of_rows

_SINGLE = 10  # ranks that have a row of their own


@dataclass(frozen=True)
class Placements:
    """Each document at each rank where it was shown, once: the cells of all policies and propensities added up."""

    docs: IntArray
    ranks: IntArray
    queries: IntArray
    impressions: IntArray
    clicks: IntArray

    @classmethod
    def of(cls, clicks: ClickCounts) -> Placements:
        """The placements of a log; those without an impression are left out.

        >>> one = np.array([1])
        >>> counts = ClickCounts("", np.array([0, 1]), one, np.array([0, 0]), np.array([1, 1]), np.array([2, 3]),
        ...                      np.array([0, 1]), propensities=np.array([0.5, 1.0]))
        >>> Placements.of(counts).impressions.tolist()
        [5]
        """
        new = np.ones(len(clicks.docs), bool)
        new[1:] = (np.diff(clicks.docs) != 0) | (np.diff(clicks.ranks) != 0)
        begin = np.flatnonzero(new)
        if not len(begin):
            return cls(*(np.zeros(0, np.int64) for _ in range(5)))
        impressions, hits = np.add.reduceat(clicks.impressions, begin), np.add.reduceat(clicks.clicks, begin)
        kept = begin[impressions > 0]
        docs = clicks.docs[kept]
        queries: IntArray = query_of(docs, clicks.offsets)
        return cls(docs, clicks.ranks[kept], queries, impressions[impressions > 0], hits[impressions > 0])


def bernstein(distance: ArrayLike, variance: ArrayLike) -> FloatArray:
    """A bound on the chance that a count of independent events is so far from its mean, in either direction.

        P(|X - E X| >= t) <= 2 exp(-t^2 / (2 (V + t / 3)))

    Bernstein's inequality: true for any number of events, however unlikely they are.

    >>> bernstein([0.0, 30.0], [25.0, 25.0]).round(8).tolist()
    [1.0, 5.21e-06]
    """
    t, v = np.abs(np.asarray(distance, np.float64)), np.asarray(variance, np.float64)
    exponent = np.zeros(np.broadcast(t, v).shape)
    np.divide(t * t, 2.0 * (v + t / 3.0), out=exponent, where=t > 0.0)
    bound: FloatArray = np.minimum(1.0, 2.0 * np.exp(-exponent))
    return bound


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
        for own, pair in policy.items():
            if own in clicks.policy_names and isinstance(pair, tuple) and len(pair) == 2:  # else an error elsewhere
                check_policy(clicks.only_policies([own]), *pair, own)
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
        warn_caller(
            f"the log shows documents more or less often than {name} would with these scores; what is computed from "
            "its propensities may be wrong; inspect the log for more"
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
    scores = check_rankings(scores, clicks.n_docs)
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
    scores = scores[..., rows]
    old = ranks_of(scores if scores.ndim == 1 else scores[0], offsets)
    bins = rank_bins(int(old.max(initial=1)))
    group = np.searchsorted(bins, old, side="right") - 1
    sessions = np.repeat(clicks.sessions[sample.queries], np.diff(offsets)).astype(np.float64)
    impossible: list[tuple[int, int, int]] = []  # document, rank, impressions
    compared: list[tuple[float, Comparison]] = []
    for rank in range(1, depth + 1):
        chance = propensity_of(policy, scores, offsets, Examination(np.eye(depth)[rank - 1]))
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
