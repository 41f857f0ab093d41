"""Tables from clicks alone: by rank, pages, sessions, importance weights, the estimated examination curve.

Click rates have Wilson's interval, with the effective number of impressions where clicks of one query are correlated.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.contexts import estimate_by_context
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import Examination
from counterrank.clicks.user_estimation import estimate
from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.errors import CounterrankError, ExaminationWarning
from counterrank.common.notebook import Table
from counterrank.common.numerics import student_quantile
from counterrank.estimators.policy_check import Placements
from counterrank.estimators.propensities import SMALLEST, sessions_of_documents
from counterrank.evaluation.weighted_clicks import concentration


@dataclass(frozen=True)
class PropensityBin(Table):
    """Clicks on documents with a propensity above `low` and up to `high`."""

    low: float
    high: float
    impressions: int
    clicks: int
    share_of_weight: float

    json_keys: ClassVar[dict[str, str]] = {"low": "from", "high": "to"}


@dataclass(frozen=True)
class WeightTable(Table):
    """Importance weights of the clicks, 1 / propensity."""

    clicks: int
    impossible_clicks: int  # on documents with propensity 0, which policy-aware weights refuse
    effective_sample_size: float  # Kish's
    effective_share_of_clicks: float
    expected_effective_sample_size: float | None  # see `expected_size`; None if not all propensities are known
    largest_weight: float
    largest_share: float
    share_of_heaviest_percent: float
    histogram: list[PropensityBin]


def weight_table(clicks: ClickCounts, propensities: FloatArray, rho: FloatArray | None = None) -> WeightTable:
    """From the propensity of each cell, and those of all documents where they are known."""
    possible = propensities >= SMALLEST
    own = possible & (clicks.clicks > 0)
    numbers, weights = clicks.clicks[own], 1.0 / propensities[own]
    size, largest = concentration(numbers, weights)
    n = int(numbers.sum())
    return WeightTable(
        clicks=n,
        impossible_clicks=int(clicks.clicks[~possible].sum()),
        effective_sample_size=size,
        effective_share_of_clicks=size / n if n else 0.0,
        expected_effective_sample_size=None if rho is None else expected_size(clicks, float(numbers @ weights), rho),
        largest_weight=float(weights.max(initial=0.0)),
        largest_share=largest,
        share_of_heaviest_percent=heaviest_share(numbers, weights, 0.01),
        histogram=propensity_histogram(propensities[possible], clicks.impressions[possible], clicks.clicks[possible]),
    )


def expected_size(clicks: ClickCounts, weight: float, rho: FloatArray) -> float:
    """The expected effective sample size if P(click | examined) were the same for all candidates.

        a (sum of s)^2 / sum of s / rho,   a = weight / sum of s,   s the sessions of each document's query

    The size of the clicks themselves is too large where some documents are hardly ever examined: their clicks would be
    the heaviest, and mostly have not happened yet. `weight` is the sum of all weights, `rho` of every document.

    >>> three = np.array([0, 1])
    >>> log = ClickCounts("", np.array([0, 2]), np.array([10]), three, 0 * three + 1, 0 * three + 5, 0 * three + 2)
    >>> expected_size(log, 8.0, np.array([0.5, 0.5]))  # 0.4 * 20^2 / 40
    4.0
    """
    sessions = sessions_of_documents(clicks)
    own = (sessions > 0) & (rho >= SMALLEST)
    total, below = float(sessions[own].sum()), float((sessions[own] / rho[own]).sum())
    return weight * total / below if below else 0.0


def heaviest_share(numbers: IntArray, weights: FloatArray, share: float) -> float:
    """The part of all weight that the heaviest `share` of the clicks holds, of at least one click; 0 without clicks.

    >>> heaviest_share(np.array([99, 1]), np.array([1.0, 101.0]), 0.01)
    0.505
    """
    total, n = float((numbers * weights).sum()), int(numbers.sum())
    if not total:
        return 0.0
    order = np.argsort(-weights, kind="stable")
    heaviest = max(1.0, np.ceil(share * n - 1e-9))
    before = np.concatenate(([0.0], np.cumsum(numbers[order])[:-1]))
    taken = np.clip(heaviest - before, 0.0, numbers[order])
    return float((taken * weights[order]).sum()) / total


def propensity_histogram(propensities: FloatArray, impressions: IntArray, clicks: IntArray) -> list[PropensityBin]:
    """Impressions, clicks and the share of weight by propensity, in bins that end at 1, 0.5, 0.2, 0.1, 0.05 ...

    Bins below the smallest propensity are left out.

    >>> [(row.low, row.high, row.clicks) for row in propensity_histogram(
    ...     np.array([1.0, 0.5, 0.3]), np.array([4, 4, 4]), np.array([3, 2, 1]))]
    [(0.2, 0.5, 3), (0.5, 1.0, 3)]
    """
    shown = impressions > 0
    if not shown.any():
        return []
    rounded = propensities * (1.0 - 1e-12)  # computed ones may lie a rounding error above an end
    smallest = float(rounded[shown].min())
    n = 1
    while _edge(n) >= smallest and n < 60:
        n += 1
    ends = np.array([_edge(i) for i in range(n, -1, -1)])
    which = np.clip(np.searchsorted(ends, rounded, side="left") - 1, 0, len(ends) - 2)
    weight = np.where(clicks > 0, clicks / np.maximum(propensities, SMALLEST), 0.0)
    total = float(weight.sum()) or 1.0
    sums = [np.bincount(which, values, len(ends) - 1) for values in (impressions, clicks, weight / total)]
    return [
        PropensityBin(float(ends[i]), float(ends[i + 1]), int(sums[0][i]), int(sums[1][i]), float(sums[2][i]))
        for i in range(len(ends) - 1)
    ]


def _edge(i: int) -> float:
    """1, 0.5, 0.2, 0.1, 0.05 ...: the i-th end of a bin from above."""
    return float(f"{(1, 5, 2)[i % 3]}e-{(i + 2) // 3}")


CONFIDENCE = 0.95
NORMAL = 1.959963984540054  # of a 95 % interval


def wilson(successes: ArrayLike, trials: ArrayLike, quantile: ArrayLike = NORMAL) -> tuple[FloatArray, FloatArray]:
    """Wilson's confidence interval (low, high) of a proportion, nan without trials.

        (p + z^2 / 2n -+ z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)

    with z the quantile (Wilson, Probable inference, the law of succession, and statistical inference, 1927). Its
    coverage holds for few clicks, and none.

    >>> low, high = wilson([0, 5], [10, 10])
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 0.237], [0.278, 0.763])
    """
    n = np.asarray(trials, np.float64)
    z2 = np.square(np.asarray(quantile, np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.asarray(successes, np.float64) / n
        middle = p + z2 / (2.0 * n)
        half = np.sqrt(z2 * (p * (1.0 - p) / n + z2 / (4.0 * n * n)))
        low, high = (middle - half) / (1.0 + z2 / n), (middle + half) / (1.0 + z2 / n)
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


class ClickRate(NamedTuple):
    """A click rate with its confidence interval; None without impressions."""

    rate: float | None
    low: float | None
    high: float | None
    effective: float  # the n of the interval
    queries: int  # how many have impressions


def clustered(clicks: ArrayLike, shown: ArrayLike) -> ClickRate:
    """A click rate with its confidence interval over queries, from the clicks and impressions of each query.

        rate = sum(clicks) / sum(shown),   V = Q / (Q - 1) sum((clicks - rate shown)^2) / sum(shown)^2

    The clicks of one query are correlated, so Wilson's interval is taken with n = rate (1 - rate) / V in place of the
    number of impressions where that is less, and with Student's quantile at Q - 1 (Korn and Graubard, Confidence
    intervals for proportions with small expected number of positive counts estimated from survey data, 1998). The
    target population is queries like these. With a single query the interval is that of independent impressions.

    >>> [round(value, 3) for value in clustered([5, 1, 3], [10, 10, 10])]
    [0.3, 0.054, 0.762, 15.75, 3]
    """
    n = np.asarray(shown, np.float64)
    c = np.asarray(clicks, np.float64)[n > 0]
    n = n[n > 0]
    total, queries = float(n.sum()), len(n)
    if not total:
        return ClickRate(None, None, None, 0.0, 0)
    rate = float(c.sum()) / total
    effective, quantile = total, NORMAL
    if queries > 1:
        variance = queries / (queries - 1) * float(np.square(c - rate * n).sum()) / total**2
        quantile = student_quantile(CONFIDENCE, queries - 1) if queries < 1000 else NORMAL
        if variance > 0.0 and 0.0 < rate < 1.0:
            effective = min(total, rate * (1.0 - rate) / variance)
    low, high = wilson(rate * effective, effective, quantile)
    return ClickRate(rate, float(low), float(high), effective, queries)


@dataclass(frozen=True)
class Overview(Table):
    """Sessions, clicks, queries and documents."""

    sessions: int
    impressions: int
    clicks: int
    clicks_per_session: float
    queries: int
    queries_with_sessions: int
    sessions_per_query_median: int
    documents: int
    documents_shown: int
    documents_clicked: int
    distinct_pages: int | None
    policies: list[str]

    json_keys: ClassVar[dict[str, str]] = {
        "queries_with_sessions": "queries_asked",
        "sessions_per_query_median": "sessions_per_asked_query_median",
    }


def overview(clicks: ClickCounts) -> Overview:
    """Counts over the whole log."""
    sessions = clicks.sessions[clicks.sessions > 0]
    return Overview(
        sessions=clicks.n_sessions,
        impressions=clicks.n_impressions,
        clicks=clicks.n_clicks,
        clicks_per_session=clicks.n_clicks / max(clicks.n_sessions, 1),
        queries=clicks.n_queries,
        queries_with_sessions=len(sessions),
        sessions_per_query_median=int(np.median(sessions)) if len(sessions) else 0,
        documents=clicks.n_docs,
        documents_shown=int((clicks.by_document(clicks.impressions) > 0).sum()),
        documents_clicked=int((clicks.by_document(clicks.clicks) > 0).sum()),
        distinct_pages=None if clicks.displays is None else clicks.displays.n_pages,
        policies=list(clicks.distinct_policies),
    )


@dataclass(frozen=True)
class RankRow(Table):
    """Clicks at one rank, with the confidence interval of the click rate over queries."""

    rank: int
    impressions: int
    clicks: int
    click_rate: float | None
    low: float | None
    high: float | None
    examination: float | None
    documents_per_query: float | None  # distinct ones that a query had at the rank
    most_shown: float | None  # share of impressions of the most frequent of them; 1 where the rank never changes

    json_keys: ClassVar[dict[str, str]] = {
        "click_rate": "click rate",
        "examination": "P(examined)",
        "documents_per_query": "documents per query",
        "most_shown": "most shown",
    }


def rank_table(placed: Placements, exam: Examination | None) -> list[RankRow]:
    """A row for each rank."""
    depth = int(placed.ranks.max(initial=0))
    theta = None if exam is None else exam.curve(depth)
    order = np.lexsort((placed.queries, placed.ranks))
    bounds = np.searchsorted(placed.ranks[order], np.arange(1, depth + 2))
    rows = []
    for rank in range(1, depth + 1):
        own = order[bounds[rank - 1] : bounds[rank]]
        begin = np.flatnonzero(np.diff(placed.queries[own], prepend=-1))
        shown = np.add.reduceat(placed.impressions[own], begin) if len(own) else np.zeros(0)
        hits = np.add.reduceat(placed.clicks[own], begin) if len(own) else np.zeros(0)
        most = np.maximum.reduceat(placed.impressions[own], begin) if len(own) else np.zeros(0)
        found = clustered(hits, shown)
        rows.append(
            RankRow(
                rank=rank,
                impressions=int(shown.sum()),
                clicks=int(hits.sum()),
                click_rate=found.rate,
                low=found.low,
                high=found.high,
                examination=None if theta is None else float(theta[rank - 1]),
                documents_per_query=len(own) / len(begin) if len(begin) else None,
                most_shown=float(most.sum() / shown.sum()) if len(own) else None,
            )
        )
    return rows


@dataclass(frozen=True)
class PageEvidence(Table):
    """How the pages of one query vary, over queries with two or more sessions.

    A page may change because the policy is random or because the ranker changed; the log alone does not separate them.
    """

    queries_with_several_sessions: int
    ranks_that_change: list[int]
    looks_like: str  # "one page per query", "only the last rank changes", "all" or "some ranks change", "not known"
    documents_shown: int
    documents_at_several_ranks: int
    comparing_clicks: list[float]  # on documents at several ranks, by rank
    comparing_queries: float  # effective number of queries that have them, (sum of clicks)^2 / sum of clicks^2

    json_keys: ClassVar[dict[str, str]] = {"queries_with_several_sessions": "queries_asked_twice"}


def page_evidence(clicks: ClickCounts, placed: Placements) -> PageEvidence:
    """From the documents that queries with several sessions had at each rank."""
    again = clicks.sessions > 1
    own = again[placed.queries]
    depth = int(placed.ranks.max(initial=0))
    place = placed.queries[own] * (depth + 1) + placed.ranks[own]
    found, documents = np.unique(place, return_counts=True)
    ranks = found % (depth + 1)
    shown_at = np.bincount(ranks, minlength=depth + 1)[1:] > 0
    changing = np.bincount(ranks[documents > 1], minlength=depth + 1)[1:] > 0
    n_ranks = np.bincount(placed.docs, minlength=1)
    comparing = n_ranks[placed.docs] > 1
    by_query = np.bincount(placed.queries[comparing], placed.clicks[comparing], minlength=1)
    squares = float(np.square(by_query).sum())
    by_rank = np.bincount(placed.ranks[comparing], placed.clicks[comparing], depth + 1)[1:]
    return PageEvidence(
        queries_with_several_sessions=int(np.count_nonzero(again)),
        ranks_that_change=(np.flatnonzero(changing) + 1).tolist(),
        looks_like=_looks(changing, shown_at),
        documents_shown=int(np.count_nonzero(n_ranks)),
        documents_at_several_ranks=int(np.count_nonzero(n_ranks > 1)),
        comparing_clicks=by_rank.tolist(),
        comparing_queries=float(by_query.sum()) ** 2 / squares if squares else 0.0,
    )


def _looks(changing: Any, shown: Any) -> str:
    if not shown.any():
        return "not known"
    if not changing.any():
        return "one page per query"
    last = int(np.flatnonzero(shown)[-1])
    if last > 0 and changing[last] and not changing[:last].any():
        return "only the last rank changes"
    return "all ranks change" if changing[shown].all() else "some ranks change"


@dataclass(frozen=True)
class SessionBin(Table):
    """Queries with `low` to `high` sessions."""

    low: int
    high: int
    queries: int

    json_keys: ClassVar[dict[str, str]] = {"low": "from", "high": "to"}


@dataclass(frozen=True)
class SessionCounts(Table):
    """Sessions per query, over queries with sessions."""

    queries: int
    queries_with_sessions: int
    quantiles: dict[str, float]
    histogram: list[SessionBin]

    json_keys: ClassVar[dict[str, str]] = {"queries_with_sessions": "queries_asked"}


def sessions_table(clicks: ClickCounts) -> SessionCounts:
    """Quantiles and a histogram."""
    sessions = clicks.sessions[clicks.sessions > 0]
    names = {"least": 0.0, "decile": 0.1, "quarter": 0.25, "median": 0.5, "three quarters": 0.75, "most": 1.0}
    quantiles = {name: float(np.quantile(sessions, q)) if len(sessions) else 0.0 for name, q in names.items()}
    histogram = []
    if len(sessions):
        edges = session_edges(int(sessions.min()), int(sessions.max()))
        bins = zip(edges[:-1], edges[1:], np.histogram(sessions, edges)[0], strict=True)
        histogram = [SessionBin(int(low), int(high - 1), int(n)) for low, high, n in bins]
    return SessionCounts(clicks.n_queries, len(sessions), quantiles, histogram)


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


_DEEPEST = 200  # ranks of an estimated curve
DIFFER = 0.01  # the share of logs without differences of which it is said that contexts differ


@dataclass(frozen=True)
class CurveRow(Table):
    """P(examined) at one rank relative to rank 1, with its confidence interval."""

    rank: int
    examination: float
    low: float
    high: float

    json_keys: ClassVar[dict[str, str]] = {"examination": "P(examined)"}


@dataclass(frozen=True)
class CurveTable(Table):
    """The examination curve as `examination.estimate` gives it."""

    method: str
    target: str  # the target population of the intervals
    confidence: float
    queries: int
    documents: int
    clicks: int
    warnings: list[str]
    ranks: list[CurveRow]


def curve_table(clicks: ClickCounts, depth: int) -> CurveTable | None:
    """The curve estimated by all pairs; None where the log cannot give it, see `connected_ranks`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExaminationWarning)  # they are in the result
            found = estimate(clicks, k=min(depth, _DEEPEST), by_context=False)
    except CounterrankError:
        return None
    return CurveTable(
        method=found.method,
        target=found.target,
        confidence=found.confidence,
        queries=found.n_queries,
        documents=found.n_documents,
        clicks=found.n_clicks,
        warnings=list(found.warnings),
        ranks=[
            CurveRow(int(rank), float(value), float(low), float(high))
            for rank, value, (low, high) in zip(found.ranks, found.values, found.intervals, strict=True)
        ],
    )


@dataclass(frozen=True)
class ContextRow(Table):
    """P(examined) at one rank in one context, relative to rank 1 of the first context."""

    context: str
    sessions: int
    rank: int
    examination: float
    low: float
    high: float

    json_keys: ClassVar[dict[str, str]] = {"examination": "P(examined)"}


@dataclass(frozen=True)
class ContextTable(Table):
    """The examination curves by context as `examination.estimate` gives them."""

    contexts: list[str]  # the one with most sessions first
    refused: str | None  # why there are no curves
    p_value: float | None  # of equal curves; None where nothing can be compared
    shape_p_value: float | None  # of curves that are equal but for a factor each
    error_rate: float  # at which curves are said to differ
    target: str
    confidence: float
    warnings: list[str]
    ranks: list[ContextRow]

    @property
    def differ(self) -> bool:
        """Whether curves differ between contexts."""
        return self.p_value is not None and self.p_value < self.error_rate


def context_table(clicks: ClickCounts, depth: int) -> ContextTable | None:
    """The curves of each context side by side; None for a log without contexts, or with one."""
    names = [name for name, sessions in clicks.context_sessions.items() if sessions]
    if len(names) < 2 or not clicks.n_clicks:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExaminationWarning)  # they are in the result
            found = estimate_by_context(clicks, min(depth, _DEEPEST), None, 0.95)
    except CounterrankError as error:
        return ContextTable(names, str(error), None, None, DIFFER, "queries", 0.95, [], [])
    tests = [None if np.isnan(test.p_value) else test.p_value for test in (found.test, found.shape_test)]
    rows = [
        ContextRow(name, found.sessions[name], i + 1, float(values[i]), float(ends[i, 0]), float(ends[i, 1]))
        for name, values, ends in zip(found.contexts, found.values, found.intervals, strict=True)
        for i in range(len(values))
    ]
    notes = list(found.warnings)
    return ContextTable(names, None, tests[0], tests[1], DIFFER, found.target, found.confidence, notes, rows)


def contexts_sentence(table: Mapping[str, Any]) -> str:
    """Whether curves differ between contexts, in words; of a table as JSON.

    >>> contexts_sentence({"p_value": 0.4, "shape_p_value": 0.3, "error_rate": 0.01})
    'No difference between the curves was found (p = 0.4; by more than a factor: p = 0.3).'
    """
    if table["p_value"] is None:
        return "The log has too little to test whether the curves differ."
    found = (
        "The curves differ" if table["p_value"] < table["error_rate"] else "No difference between the curves was found"
    )
    shape = "" if table["shape_p_value"] is None else f"; by more than a factor: p = {table['shape_p_value']:.2g}"
    return f"{found} (p = {table['p_value']:.2g}{shape})."
