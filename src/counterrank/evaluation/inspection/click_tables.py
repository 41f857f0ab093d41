"""Clicks by rank, and what the log itself tells of the policy that made its pages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import Examination
from counterrank.common.checks import FloatArray, IntArray, check_vector
from counterrank.common.errors import CounterrankError
from counterrank.common.quantiles import student_quantile
from counterrank.data.ids import query_of
from counterrank.evaluation.click_evidence import concentration

# How unequal clicks weigh: propensities, effective sample size, and what the heaviest clicks hold.


# A click that had a smaller chance than this did not happen (as in `estimators`).
_SMALLEST = 1e-200


def weight_table(clicks: ClickCounts, propensities: FloatArray, rho: FloatArray | None = None) -> dict[str, Any]:
    """What the weights 1 / propensity of the clicks add up to, from the propensity of each cell.

    Clicks on documents with no chance to be examined are counted apart: policy-aware weights refuse them. Where the
    propensities `rho` of all documents are known, see `expected_size` for what else they tell.
    """
    possible = propensities >= _SMALLEST
    own = possible & (clicks.clicks > 0)
    numbers, weights = clicks.clicks[own], 1.0 / propensities[own]
    size, largest = concentration(numbers, weights)
    n = int(numbers.sum())
    return {
        "clicks": n,
        "impossible_clicks": int(clicks.clicks[~possible].sum()),
        "effective_sample_size": size,
        "effective_share_of_clicks": size / n if n else 0.0,
        "expected_effective_sample_size": None if rho is None else expected_size(clicks, float(numbers @ weights), rho),
        "largest_weight": float(weights.max(initial=0.0)),
        "largest_share": largest,
        "share_of_heaviest_percent": heaviest_share(numbers, weights, 0.01),
        "histogram": propensity_histogram(
            propensities[possible], clicks.impressions[possible], clicks.clicks[possible]
        ),
    }


def expected_size(clicks: ClickCounts, weight: float, rho: FloatArray) -> float:
    """The effective sample size to be expected were all candidates that can be examined equally click-worthy.

        a (sum of s)^2 / sum of s / rho,   a = weight / sum of s,   s the sessions of each document's query

    The size of the clicks themselves is too good where some documents are hardly ever examined: their clicks would be
    the heaviest, and mostly have not happened yet. This one does not hang on which of them did.

    Arguments:
        weight: the sum of all weights.
        rho: of every document.

    >>> three = np.array([0, 1])
    >>> log = ClickCounts("", np.array([0, 2]), np.array([10]), three, 0 * three + 1, 0 * three + 5, 0 * three + 2)
    >>> expected_size(log, 8.0, np.array([0.5, 0.5]))  # 0.4 * 20^2 / 40
    4.0
    """
    sessions = np.repeat(clicks.sessions, np.diff(clicks.offsets))
    own = (sessions > 0) & (rho >= _SMALLEST)
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
    wanted = max(1.0, np.ceil(share * n - 1e-9))
    before = np.concatenate(([0.0], np.cumsum(numbers[order])[:-1]))
    taken = np.clip(wanted - before, 0.0, numbers[order])
    return float((taken * weights[order]).sum()) / total


def propensity_histogram(propensities: FloatArray, impressions: IntArray, clicks: IntArray) -> list[dict[str, Any]]:
    """Impressions, clicks and the share of weight by propensity, in bins that end at 1, 0.5, 0.2, 0.1, 0.05 ...

    A bin holds propensities above `from` and up to `to`; bins below the smallest one are left out.

    >>> [(row["from"], row["to"], row["clicks"]) for row in propensity_histogram(
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
    weight = np.where(clicks > 0, clicks / np.maximum(propensities, _SMALLEST), 0.0)
    total = float(weight.sum()) or 1.0
    sums = [np.bincount(which, values, len(ends) - 1) for values in (impressions, clicks, weight / total)]
    return [
        {"from": float(ends[i]), "to": float(ends[i + 1]), "impressions": int(sums[0][i]), "clicks": int(sums[1][i])}
        | {"share_of_weight": float(sums[2][i])}
        for i in range(len(ends) - 1)
    ]


def _edge(i: int) -> float:
    """1, 0.5, 0.2, 0.1, 0.05 ...: the i-th end of a bin from above."""
    return float(f"{(1, 5, 2)[i % 3]}e-{(i + 2) // 3}")


# Click rates with intervals: Wilson's, widened where clicks of one query hang together.


CONFIDENCE = 0.95
NORMAL = 1.959963984540054  # of a 95 % interval


def wilson(successes: ArrayLike, trials: ArrayLike, quantile: ArrayLike = NORMAL) -> tuple[FloatArray, FloatArray]:
    """Both ends of Wilson's interval of a share, nan without trials.

        (p + z^2 / 2n -+ z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)

    Wilson, Probable inference, the law of succession, and statistical inference, 1927. Unlike p -+ z sqrt(p (1 - p) /
    n) it holds for few clicks, and none.

    Arguments:
        successes, trials: how often something happened, and could have; need not be whole.
        quantile: z.

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


def clustered(clicks: ArrayLike, shown: ArrayLike) -> dict[str, Any]:
    """A click rate with its interval over queries, from the clicks and impressions of each query.

        rate = sum(clicks) / sum(shown),   V = Q / (Q - 1) sum((clicks - rate shown)^2) / sum(shown)^2

    The clicks of one query hang together, so Wilson's interval is taken with n = rate (1 - rate) / V in place of the
    number of impressions where that is less, and with Student's quantile at Q - 1 (Korn and Graubard, Confidence
    intervals for proportions with small expected number of positive counts estimated from survey data, 1998). It
    speaks of queries such as these. With a single query there is nothing to compare, and the interval is that of
    independent impressions.

    Arguments:
        clicks, shown: of each query.

    Returns:
        rate, low, high; effective, the n of the interval; queries, how many were shown. Without impressions rate, low
        and high are None.

    >>> {key: round(value, 3) for key, value in clustered([5, 1, 3], [10, 10, 10]).items()}
    {'rate': 0.3, 'low': 0.054, 'high': 0.762, 'effective': 15.75, 'queries': 3}
    """
    n = np.asarray(shown, np.float64)
    c = np.asarray(clicks, np.float64)[n > 0]
    n = n[n > 0]
    total, queries = float(n.sum()), len(n)
    if not total:
        return {"rate": None, "low": None, "high": None, "effective": 0.0, "queries": 0}
    rate = float(c.sum()) / total
    effective, quantile = total, NORMAL
    if queries > 1:
        variance = queries / (queries - 1) * float(np.square(c - rate * n).sum()) / total**2
        quantile = student_quantile(CONFIDENCE, queries - 1) if queries < 1000 else NORMAL
        if variance > 0.0 and 0.0 < rate < 1.0:
            effective = min(total, rate * (1.0 - rate) / variance)
    low, high = wilson(rate * effective, effective, quantile)
    return {"rate": rate, "low": float(low), "high": float(high), "effective": effective, "queries": queries}


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


def finite(value: float) -> float | None:
    """A number for JSON, which knows no nan.

    >>> finite(float("nan")), finite(2.0)
    (None, 2.0)
    """
    return float(value) if math.isfinite(value) else None


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


# Click rate over time, and whether it changed.


ERROR_RATE = 0.01
_COLUMNS = ("begin", "pages", "impressions", "clicks")
_FEWEST = 6  # with fewer periods no order of them is unlikely enough
_SHUFFLES = 9_999


def drift_table(periods: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The click rate in each period with Wilson's interval, and a test for a change.

        z_b = (clicks_b - rate impressions_b) / sqrt(impressions_b)
        T   = the largest |z_1 + ... + z_b - b mean(z)| over all b

    If nothing changed, any order of the periods is as likely as the one seen, so T is compared with its values after
    random shuffles: (1 + those at least as large) / (1 + shuffles) is at most 0.01 in at most 1 % of logs without a
    change. Periods that differ at random, as weekdays do, make the test less sharp, not wrong. `scatter` is the mean
    square of z in units of what independent clicks would give; Wilson's intervals hold for 1.

    Arguments:
        periods: in the order of time; `begin` (text or number), `pages`, `impressions` and `clicks` of each.

    >>> shown = {"pages": 100, "impressions": 1000}
    >>> rows = [{"begin": day, **shown, "clicks": 100 if day < 6 else 200} for day in range(12)]
    >>> found = drift_table(rows)
    >>> found["changed"], found["first_half_rate"], found["second_half_rate"]
    (True, 0.1, 0.2)
    """
    given = _checked(periods)
    shown, clicks = given["impressions"], given["clicks"]
    low, high = wilson(clicks, shown)
    rows = [
        {
            "begin": period["begin"],
            "pages": int(given["pages"][b]),
            "impressions": int(shown[b]),
            "clicks": int(clicks[b]),
        }
        | {"click rate": clicks[b] / shown[b] if shown[b] else None, "low": finite(low[b]), "high": finite(high[b])}
        for b, period in enumerate(periods)
    ]
    own = shown > 0
    n, c = shown[own], clicks[own]
    rate = c.sum() / max(n.sum(), 1.0)
    z = (c - rate * n) / np.sqrt(n)
    p = change_p(z) if len(z) >= _FEWEST else None
    half = len(z) // 2
    noise = rate * (1.0 - rate)
    return {
        "periods": rows,
        "test_p": p,
        "error_rate": ERROR_RATE,
        "changed": None if p is None else p <= ERROR_RATE,
        "scatter": float(np.square(z).sum() / (len(z) - 1) / noise) if len(z) > 1 and noise > 0.0 else None,
        "first_half_rate": float(c[:half].sum() / n[:half].sum()) if half else None,
        "second_half_rate": float(c[half:].sum() / n[half:].sum()) if half else None,
    }


def change_p(z: FloatArray, shuffles: int = _SHUFFLES, seed: int = 0) -> float:
    """How rarely a random order of these numbers wanders as far from its straight line as the one given.

    >>> change_p(np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0]))
    1.0
    """
    rng = np.random.default_rng(seed)
    centred = z - z.mean()
    limit = np.abs(np.cumsum(centred)).max() * (1.0 - 1e-9)
    worse = 0
    for _ in range(0, shuffles, 999):
        drawn = rng.permuted(np.broadcast_to(centred, (999, len(z))), axis=1)
        worse += int(np.count_nonzero(np.abs(np.cumsum(drawn, axis=1)).max(axis=1) >= limit))
    return (1 + worse) / (1 + 999 * -(-shuffles // 999))


def _checked(periods: Sequence[Mapping[str, Any]]) -> dict[str, FloatArray]:
    if isinstance(periods, str | Mapping) or not hasattr(periods, "__len__") or not len(periods):
        raise CounterrankError("drift: expected a list of periods with begin, pages, impressions and clicks")
    for b, period in enumerate(periods):
        missing = [name for name in _COLUMNS if name not in period]
        if missing:
            raise CounterrankError(f"drift: period {b} has no {', '.join(missing)}; expected {', '.join(_COLUMNS)}")
    given = {
        name: check_vector([period[name] for period in periods], len(periods), f"drift {name}", "periods")
        for name in _COLUMNS[1:]
    }
    bad = (given["clicks"] < 0) | (given["clicks"] > given["impressions"]) | (given["pages"] < 0)
    if bad.any():
        b = int(np.argmax(bad))
        raise CounterrankError(
            f"drift: period {b} has {given['clicks'][b]:g} clicks of {given['impressions'][b]:g} impressions on "
            f"{given['pages'][b]:g} pages; expected 0 <= clicks <= impressions and pages >= 0"
        )
    return given
