"""Which candidates were shown, which could not be, and where the old ranking had them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import Examination
from counterrank.clicks.policies import coverage
from counterrank.clicks.policies._plan import rank_queries
from counterrank.clicks.policies.base import propensity_of
from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.parallel import for_queries
from counterrank.data.ids import query_of_rows

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


def coverage_table(
    clicks: ClickCounts,
    policy: Any,
    scores: FloatArray | None,
    exam: Examination | None,
    rho: FloatArray | None = None,
) -> dict[str, Any] | None:
    """Candidates of queries that were asked: shown, never shown, and whether they could have been.

    Without ranking data the log knows no candidates but those it shows, and the result is None. Without a policy and
    its scores, or propensities of all documents, it is not known which could have been shown; of simulated clicks it is
    remembered.
    """
    if not clicks.knows_candidates:
        return None
    query = query_of_rows(clicks.offsets)
    asked = clicks.sessions[query] > 0
    by_document = clicks.by_document(clicks.impressions)
    never = asked & (by_document == 0)
    found: dict[str, Any] = {
        "candidates": int(np.count_nonzero(asked)),
        "never_shown": int(np.count_nonzero(never)),
        "not_on_every_page": int(np.count_nonzero(asked & (by_document < clicks.sessions[query]))),
        "queries_with_a_never_shown_candidate": len(np.unique(query[never])),
    }
    possible = None
    if policy is not None and scores is not None:
        possible, more = _under_policy(clicks, policy, scores, exam, asked)
        found |= more
    elif rho is not None or clicks.unexaminable is not None:
        possible = examinable_documents(clicks, rho)
        found |= _conditions(possible, None, asked, query)
    if possible is not None:
        found["could_have_been_shown"] = int(np.count_nonzero(never & possible))
    if scores is not None:
        found["by_old_rank"] = _by_old_rank(ranks_of(scores, clicks.offsets), asked, never, possible)
    return found


def examinable_documents(clicks: ClickCounts, rho: FloatArray | None) -> NDArray[np.bool_]:
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


def _under_policy(
    clicks: ClickCounts, policy: Any, scores: FloatArray, exam: Examination | None, asked: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], dict[str, Any]]:
    """What the policy can show, and how many candidates it was to be expected to leave unseen so far."""
    query = query_of_rows(clicks.offsets)
    everywhere = Examination(np.ones(int(np.diff(clicks.offsets).max())))
    covered = coverage(policy, scores, clicks.offsets, everywhere if exam is None else exam)
    shown = propensity_of(policy, scores, clicks.offsets, everywhere)
    sessions = clicks.sessions[query].astype(np.float64)
    unseen = _unseen(shown[asked], sessions[asked])
    found = _conditions(covered.examinable, covered.always_examinable, asked, query)
    found["expected_never_shown"] = unseen(1.0)
    found["sessions_to_show_95_percent"] = _sessions_to_show(unseen, clicks.n_sessions, int(asked.sum()))
    return covered.examinable, found


def _conditions(
    examinable: NDArray[np.bool_], always: NDArray[np.bool_] | None, asked: NDArray[np.bool_], query: IntArray
) -> dict[str, Any]:
    hidden = asked & ~examinable
    lost = np.bincount(query[hidden], minlength=1)
    sizes = np.bincount(query, minlength=len(lost))[: len(lost)]
    found: dict[str, Any] = {
        "never_examinable": int(hidden.sum()),
        "queries_with_a_never_examinable_candidate": int(np.count_nonzero(lost)),
        "largest_never_examinable_share_of_a_query": float((lost / np.maximum(sizes, 1)).max(initial=0.0)),
        "policy-aware_condition_holds": "no" if hidden.any() else "yes",
    }
    if always is not None:
        missing = asked & ~always
        found["not_examinable_on_every_page"] = int(missing.sum())
        found["policy-oblivious_condition_holds"] = "no" if missing.any() else "yes"
    return found


def _unseen(shown: FloatArray, sessions: FloatArray) -> Any:
    """The expected number of candidates on no page, sum of (1 - p)^s, were there so many times the sessions."""
    with np.errstate(divide="ignore"):
        logs = np.log1p(-np.minimum(shown, 1.0))

    def expected(times: float) -> float:
        with np.errstate(invalid="ignore"):
            return float(np.exp(np.where(shown > 0.0, times * sessions * logs, 0.0)).sum())

    return expected


def _sessions_to_show(unseen: Any, sessions: int, candidates: int) -> int | None:
    """How many sessions it takes, asked as these were, until 95 % of the candidates are expected on some page."""
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


def _by_old_rank(
    ranks: IntArray, asked: NDArray[np.bool_], never: NDArray[np.bool_], possible: NDArray[np.bool_] | None
) -> list[dict[str, Any]]:
    bins = rank_bins(int(ranks.max(initial=1)))
    place = np.searchsorted(bins, ranks, side="right") - 1

    def count(which: NDArray[np.bool_]) -> IntArray:
        return np.bincount(place[which], minlength=len(bins) - 1)

    candidates, unseen = count(asked), count(never)
    hidden = None if possible is None else count(never & ~possible)
    return [
        {
            "old_rank_from": int(bins[i]),
            "old_rank_to": int(bins[i + 1] - 1),
            "candidates": int(candidates[i]),
            "shown": int(candidates[i] - unseen[i]),
            "never_shown": int(unseen[i]),
            "could_have_been": None if hidden is None else int(unseen[i] - hidden[i]),
            "can_never_be": None if hidden is None else int(hidden[i]),
        }
        for i in range(len(bins) - 1)
        if candidates[i]
    ]
