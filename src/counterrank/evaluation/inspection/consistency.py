"""Does the log contradict the policy that is said to have made it?"""

from __future__ import annotations

from typing import Any

import numpy as np

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import Examination
from counterrank.clicks.policies.base import propensity_of
from counterrank.clicks.policies.several import SAME
from counterrank.common.checks import FloatArray, IntArray
from counterrank.estimators.logged import logged_range
from counterrank.evaluation.inspection.coverage import rank_bins, ranks_of
from counterrank.evaluation.inspection.proportions import bernstein
from counterrank.evaluation.inspection.ranks import Seen
from counterrank.evaluation.inspection.samples import QuerySample

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
