"""Clicks by rank, and what the log itself tells of the policy that made its pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import Examination
from counterrank.common.checks import IntArray
from counterrank.data.ids import query_of
from counterrank.evaluation.inspection.proportions import clustered


@dataclass(frozen=True)
class Seen:
    """Each document at each rank once, as it was shown: the cells of all policies and propensities added up.

    Attributes:
        docs, ranks, queries: of each such place, by document and rank.
        impressions, clicks: there.
    """

    docs: IntArray
    ranks: IntArray
    queries: IntArray
    impressions: IntArray
    clicks: IntArray

    @classmethod
    def of(cls, clicks: ClickCounts) -> Seen:
        """The places of a log; those without an impression are left out.

        >>> one = np.array([1])
        >>> counts = ClickCounts("", np.array([0, 1]), one, np.array([0, 0]), np.array([1, 1]), np.array([2, 3]),
        ...                      np.array([0, 1]), propensities=np.array([0.5, 1.0]))
        >>> Seen.of(counts).impressions.tolist()
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


def rank_table(seen: Seen, exam: Examination | None) -> list[dict[str, Any]]:
    """For each rank: impressions, clicks, the click rate with its interval over queries, and how the pages vary.

    `documents per query` counts the distinct documents that a query had at the rank; `most shown` is the share of
    impressions that go to the most frequent of them, 1 where the rank always shows the same.
    """
    depth = int(seen.ranks.max(initial=0))
    theta = None if exam is None else exam.curve(depth)
    order = np.lexsort((seen.queries, seen.ranks))
    bounds = np.searchsorted(seen.ranks[order], np.arange(1, depth + 2))
    rows = []
    for rank in range(1, depth + 1):
        own = order[bounds[rank - 1] : bounds[rank]]
        begin = np.flatnonzero(np.diff(seen.queries[own], prepend=-1))
        shown = np.add.reduceat(seen.impressions[own], begin) if len(own) else np.zeros(0)
        hits = np.add.reduceat(seen.clicks[own], begin) if len(own) else np.zeros(0)
        most = np.maximum.reduceat(seen.impressions[own], begin) if len(own) else np.zeros(0)
        found = clustered(hits, shown)
        rows.append(
            {
                "rank": rank,
                "impressions": int(shown.sum()),
                "clicks": int(hits.sum()),
                "click rate": found["rate"],
                "low": found["low"],
                "high": found["high"],
                "P(examined)": None if theta is None else float(theta[rank - 1]),
                "documents per query": len(own) / len(begin) if len(begin) else None,
                "most shown": float(most.sum() / shown.sum()) if len(own) else None,
            }
        )
    return rows


def page_evidence(clicks: ClickCounts, seen: Seen) -> dict[str, Any]:
    """Whether pages of one query differ, and at which ranks: what can be said of the policy without knowing it.

    Only queries asked twice or more can tell. `looks_like` is "one page per query" where none of them ever changed,
    "only the last rank changes" (as under replace-last), "all ranks change", "some ranks change", or "not known" where
    no query was asked twice. A page may also change because the ranker did; the log alone cannot tell these apart.
    `comparing_clicks` are those on documents seen at several ranks, by rank; `comparing_queries` is how many queries of
    equal weight would have them, (sum of clicks)^2 / sum of clicks^2.
    """
    again = clicks.sessions > 1
    own = again[seen.queries]
    depth = int(seen.ranks.max(initial=0))
    place = seen.queries[own] * (depth + 1) + seen.ranks[own]
    found, documents = np.unique(place, return_counts=True)
    ranks = found % (depth + 1)
    shown_at = np.bincount(ranks, minlength=depth + 1)[1:] > 0
    changing = np.bincount(ranks[documents > 1], minlength=depth + 1)[1:] > 0
    moving = np.bincount(seen.docs, minlength=1)
    return {
        "queries_asked_twice": int(np.count_nonzero(again)),
        "ranks_that_change": (np.flatnonzero(changing) + 1).tolist(),
        "looks_like": _looks(changing, shown_at),
        "documents_shown": int(np.count_nonzero(moving)),
        "documents_at_several_ranks": int(np.count_nonzero(moving > 1)),
        **_comparisons(seen, moving > 1),
    }


def _comparisons(seen: Seen, moving: NDArray[np.bool_]) -> dict[str, Any]:
    """The clicks on documents seen at several ranks: how many at each rank, and of how many queries of equal weight."""
    own = moving[seen.docs]
    by_query = np.bincount(seen.queries[own], seen.clicks[own], minlength=1)
    squares = float(np.square(by_query).sum())
    return {
        "comparing_clicks": np.bincount(seen.ranks[own], seen.clicks[own], seen.ranks.max(initial=0) + 1)[1:].tolist(),
        "comparing_queries": float(by_query.sum()) ** 2 / squares if squares else 0.0,
    }


def _looks(changing: Any, shown: Any) -> str:
    if not shown.any():
        return "not known"
    if not changing.any():
        return "one page per query"
    last = int(np.flatnonzero(shown)[-1])
    if last > 0 and changing[last] and not changing[:last].any():
        return "only the last rank changes"
    return "all ranks change" if changing[shown].all() else "some ranks change"


def sessions_table(clicks: ClickCounts) -> dict[str, Any]:
    """How often queries were asked: quantiles over those that were, and a histogram."""
    asked = clicks.sessions[clicks.sessions > 0]
    names = {"least": 0.0, "decile": 0.1, "quarter": 0.25, "median": 0.5, "three quarters": 0.75, "most": 1.0}
    quantiles = {name: float(np.quantile(asked, q)) if len(asked) else 0.0 for name, q in names.items()}
    edges = session_edges(int(asked.min()), int(asked.max())) if len(asked) else np.zeros(1, np.int64)
    bins = np.histogram(asked, edges)[0] if len(asked) else np.zeros(0, np.int64)
    return {
        "queries": clicks.n_queries,
        "queries_asked": len(asked),
        "quantiles": quantiles,
        "histogram": [
            {"from": int(low), "to": int(high - 1), "queries": int(n)}
            for low, high, n in zip(edges[:-1], edges[1:], bins, strict=True)
        ],
    }


def session_edges(least: int, most: int) -> IntArray:
    """Where the bins of a histogram begin, and behind the last: doubling, or of one round width where numbers are near.

    >>> session_edges(1, 20).tolist(), session_edges(95, 117).tolist()
    ([1, 2, 4, 8, 16, 32], [94, 96, 98, 100, 102, 104, 106, 108, 110, 112, 114, 116, 118])
    """
    if most >= 8 * least:
        first, last = int(np.log2(least)), int(np.log2(most))
        return np.asarray(2 ** np.arange(first, last + 2), np.int64)
    width = next(lead * 10**p for p in range(18) for lead in (1, 2, 5) if lead * 10**p * 12 >= most - least + 1)
    first, last = least // width, most // width
    return np.asarray(width * np.arange(first, last + 2), np.int64)
