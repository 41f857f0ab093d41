"""Which candidates were shown, which could not be, and where the old ranking had them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import Examination
from counterrank.clicks.policies import Deterministic, PlackettLuce, ReplaceLast, UniformInsert, coverage
from counterrank.clicks.policies.intervention_aware import SAME
from counterrank.clicks.policies.page_kernels import rank_queries
from counterrank.clicks.policies.propensity import propensity_of
from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.parallel import for_queries
from counterrank.data.ids import query_of_rows
from counterrank.estimators.propensities import logged_range
from counterrank.evaluation.inspection.click_tables import Seen, bernstein
from counterrank.evaluation.inspection.findings import QuerySample

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


# Does the log contradict the policy that is said to have made it?


ERROR_RATE = 0.01
_DEPTH = 20  # display ranks that are compared
# Plackett-Luce probabilities are integrals, right to about 1e-8; a page so unlikely was not shown
_NEVER = 1e-12


def policy_check(
    clicks: ClickCounts, seen: Seen, policy: Any, scores: FloatArray, sample: QuerySample
) -> dict[str, Any]:
    """Pages that the policy cannot show, and pages shown more or less often than it would.

    For each rank r of the page and each group j of ranks in the old ranking, X is the number of sessions with a
    document of j at r. Under the policy X is a sum of independent events with known chances p, so by Bernstein's
    inequality

        P(|X - sum(p)| >= t) <= 2 exp(-t^2 / (2 (sum(p (1 - p)) + t / 3)))

    The log contradicts the policy where the smallest of these bounds, times their number (Bonferroni), is below 0.01: a
    right policy is accused in at most 1 % of logs.
    """
    offsets, rows = sample.offsets, sample.rows
    local = np.full(clicks.n_docs, -1)
    local[rows] = np.arange(len(rows))
    depth = min(int(seen.ranks.max(initial=0)), _DEPTH)
    own = (local[seen.docs] >= 0) & (seen.ranks <= depth)
    docs, ranks, impressions = local[seen.docs[own]], seen.ranks[own], seen.impressions[own]
    old = ranks_of(scores[rows], offsets)
    bins = rank_bins(int(old.max(initial=1)))
    group = np.searchsorted(bins, old, side="right") - 1
    sessions = np.repeat(clicks.sessions[sample.queries], np.diff(offsets)).astype(np.float64)
    impossible: list[tuple[int, int, int]] = []
    rows_found: list[dict[str, Any]] = []
    for rank in range(1, depth + 1):
        chance = propensity_of(policy, scores[rows], offsets, Examination(np.eye(depth)[rank - 1]))
        here = ranks == rank
        shown: FloatArray = np.asarray(np.bincount(docs[here], impressions[here], minlength=len(rows)), np.float64)
        impossible += _impossible(shown, chance, rank, rows)
        rows_found += _compare(shown, chance, sessions, group, offsets, bins, rank)
    worst = min(rows_found, key=lambda row: row["bound"], default=None)
    adjusted = min(1.0, len(rows_found) * worst["bound"]) if worst else 1.0
    n_impossible = sum(count for _, _, count in impossible)
    return {
        "queries_compared": len(sample.queries),
        "ranks_compared": depth,
        "impressions_compared": int(impressions.sum()),
        "impossible_impressions": n_impossible,
        "impossible_example": _example(clicks, impossible[0]) if impossible else None,
        "comparisons": len(rows_found),
        "error_rate": ERROR_RATE,
        "adjusted_p": adjusted,
        "worst": None if worst is None else {key: value for key, value in worst.items() if key != "bound"},
        "contradicted": bool(n_impossible) or adjusted < ERROR_RATE,
    }


def _impossible(shown: FloatArray, chance: FloatArray, rank: int, rows: IntArray) -> list[tuple[int, int, int]]:
    bad = np.flatnonzero((shown > 0) & (chance < _NEVER))
    return [(int(rows[doc]), rank, int(shown[doc])) for doc in bad]


def _compare(
    shown: FloatArray, chance: FloatArray, sessions: FloatArray, group: IntArray, offsets: IntArray, bins: IntArray,
    rank: int,
) -> list[dict[str, Any]]:  # fmt: skip
    """Observed and expected sessions for each group of old ranks, with the bound on what chance allows."""
    n = len(bins) - 1
    observed, expected = np.bincount(group, shown, n), np.bincount(group, chance * sessions, n)
    # one session shows one document at a rank, so the chances of a group within a query add up
    query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    within = np.bincount(query * n + group, chance, (len(offsets) - 1) * n).reshape(-1, n)
    variance = (sessions[offsets[:-1], None] * within * np.clip(1.0 - within, 0.0, 1.0)).sum(axis=0)
    bound = bernstein(observed - expected, variance)
    pages = float(observed.sum()) or 1.0
    return [
        {"rank": rank, "old_rank_from": int(bins[j]), "old_rank_to": int(bins[j + 1] - 1)}
        | {"observed": float(observed[j]) / pages, "expected": float(expected[j]) / pages, "bound": float(bound[j])}
        for j in range(n)
        if expected[j] > 0.0
    ]


def _example(clicks: ClickCounts, found: tuple[int, int, int]) -> dict[str, Any]:
    doc, rank, count = found
    query = int(np.searchsorted(clicks.offsets, doc, side="right") - 1)
    return {"query": query, "document": doc - int(clicks.offsets[query]), "rank": rank, "impressions": count}


def logged_check(clicks: ClickCounts, rho: FloatArray) -> dict[str, Any] | None:
    """How the propensities in the log differ from those computed; None if none were logged.

    Of a log of several policies those computed are means over sessions, and compared with what these may be.

    >>> one = np.array([1])
    >>> counts = ClickCounts("", np.array([0, 1]), one, np.array([0]), one, one, one, propensities=np.array([0.5]))
    >>> logged_check(counts, np.array([0.25]))["differing_share_of_impressions"]
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
    return {
        "differing_share_of_impressions": float(clicks.impressions[off].sum()) / total,
        "largest_ratio": float(np.exp(ratio.max(initial=0.0))),
    }


# How much randomisation, or how many more sessions, would make the clicks weigh enough.


DOCUMENTS = 50_000
_STEPS = sorted({round(lead * 10.0**-p, 6) for p in range(4) for lead in (1, 1.5, 2, 3, 5, 7) if lead * 10.0**-p <= 1})
_HEATS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)  # temperatures, in standard deviations of scores


@dataclass(frozen=True, eq=False)
class Expected:
    """What clicks would weigh under any policy, from the click-worthiness that this log estimates.

    With a = P(click | examined) of a document, s sessions of its query and propensity rho', clicks expect

        number s a rho',   sum of weights s a,   sum of squared weights s a / rho'

    so that the effective sample size is about (sum of s a)^2 / sum of s a / rho'. This log estimates s a without bias
    as the policy-aware weight, clicks / rho. Documents that it cannot speak for are taken to be as click-worthy as the
    others are on average.

    Attributes:
        sample: the queries it was computed on.
        scores: of their documents.
        worth: s a of each.
        assumed: the click rate taken where this log has none; None where it was not needed.
        exam: how likely each rank is examined.
        page: how many documents a page holds.
    """

    sample: QuerySample
    scores: FloatArray
    worth: FloatArray
    assumed: float | None
    exam: Examination
    page: int

    @classmethod
    def of(
        cls, clicks: ClickCounts, by_cell: FloatArray, rho: FloatArray | None, scores: FloatArray, exam: Examination
    ) -> Expected:
        """From the propensities of the cells, and those of all documents where they are known."""
        sample = QuerySample.of(clicks, DOCUMENTS)
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

    def row(self, name: str, rho: FloatArray, sessions: int, target: int, moves: bool) -> dict[str, Any]:
        """A policy with what it would bring at as many sessions as this log has."""
        size = self.size(rho)
        return {
            "policy": name,
            "effective_sample_size": size,
            "clicks": float((self.worth * rho).sum()) / self.sample.share,
            "sessions_for_target": int(np.ceil(sessions * target / size)) if size else None,
            "reaches_target": size >= target,
            "learns_position_bias": moves,
        }


def remedies(expected: Expected, sessions: int, target: int) -> dict[str, Any]:
    """Policies on pages as long as these, and of each family the least random one that reaches the target.

    Epsilon-greedy and mixtures have propensities that are linear in their share, so a fine grid of shares is tried; of
    Plackett-Luce temperatures are tried from a tenth to ten times the standard deviation of scores within queries.
    """
    k, scores, offsets = expected.page, expected.scores, expected.sample.offsets
    fixed = Deterministic(k).propensity(scores, offsets, expected.exam)
    last = ReplaceLast(k).propensity(scores, offsets, expected.exam)
    insert = UniformInsert(k).propensity(scores, offsets, expected.exam)
    families: dict[str, list[dict[str, Any]]] = {"epsilon-greedy": [], "uniform-insert": [], "plackett-luce": []}
    for share in _STEPS:
        name = f"epsilon-greedy:k={k},epsilon={share:g}" if share < 1 else f"replace-last:k={k}"
        mixed = (1.0 - share) * fixed + share * last
        families["epsilon-greedy"].append(expected.row(name, mixed, sessions, target, False))
        name = f"{1 - share:g}*deterministic:k={k} + {share:g}*uniform-insert:k={k}" if share < 1 else ""
        mixed = (1.0 - share) * fixed + share * insert
        row = expected.row(name or f"uniform-insert:k={k}", mixed, sessions, target, True)
        families["uniform-insert"].append(row)
    spread = _spread(scores, offsets)
    for heat in _HEATS if spread else ():
        temperature = float(f"{heat * spread:.2g}")
        rho = PlackettLuce(k, temperature).propensity(scores, offsets, expected.exam)
        name = f"plackett-luce:k={k},temperature={temperature:g}"
        families["plackett-luce"].append(expected.row(name, rho, sessions, target, k > 1))
    return {
        "target": target,
        "sessions": sessions,
        "page": k,
        "queries_computed": len(expected.sample.queries),
        "assumed_click_rate": expected.assumed,
        "families": {name: _chosen(rows) for name, rows in families.items() if rows},
    }


def _chosen(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The least random one that reaches the target, and the one with the largest effective sample size."""
    return {
        "least": next((row for row in rows if row["reaches_target"]), None),
        "best": max(rows, key=lambda row: row["effective_sample_size"]),
    }


def _spread(scores: FloatArray, offsets: Any) -> float:
    """The standard deviation of scores within queries, pooled over documents; 0 if there is none."""
    lengths = np.diff(offsets)
    means = np.add.reduceat(scores, offsets[:-1]) / lengths
    return float(np.sqrt(np.square(scores - np.repeat(means, lengths)).mean()))
