"""From the sums of the queries to estimates with intervals, and the warning where these are not to be trusted."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from counterrank.common.checks import FloatArray
from counterrank.estimators.propensities import UNSHOWN
from counterrank.evaluation.click_evidence import WeighedClicks, click_variance, query_sums, worst_factor
from counterrank.evaluation.intervals import Asked, Ratios, expected_clicks, over_clicks, over_queries
from counterrank.evaluation.metrics import parse_metric

# What the intervals were measured to need, see docs/intervals.md
FEWEST_QUERIES = 100
FEWEST_EQUAL_QUERIES = 80  # a little below, since sessions vary by chance
FEWEST_QUERIES_OF_ARP = 5000
FEWEST_EXPECTED_CLICKS = 10.0
LEAST_SAMPLE_SIZE = 100.0
MOST_SINGLE_SESSIONS = 0.25
LEAST_FREEDOM = 15.0
MOST_TOO_NARROW = 1.08  # leaves 93 of 95 %
MOST_PREDICTED = 0.01

Interval = tuple[float, float]


class IntervalWarning(UserWarning):
    """An interval outside the range in which intervals were shown to hold as often as they say."""


@dataclass(frozen=True)
class Estimate:
    """What clicks say about one metric of a ranking, or about the difference of two rankings.

    omega is that of the method: by inverse propensities, or doubly robust.

    Attributes:
        metric: its name.
        ips: sum(omega * lambda) / sessions; None for arp.
        self_normalized: sum(omega * lambda) / sum(omega); None if that sum is not above 0.
        ips_interval: from and to; None where there is no `ips`, or too little to tell.
        self_normalized_interval: the same for `self_normalized`.
        effective_sample_size: (sum of the weights of clicks)^2 / sum of their squares, each click weighing 1 / rho.
        largest_share: the largest weight of a click over the sum of all.
        target: what the intervals speak of, "queries" or "these-queries".
        confidence: how often such intervals hold the truth.
        n_queries: how many queries were asked.
        n_sessions: how many pages were shown.
        n_clicks: how many clicks there were.
        doubts: why the intervals may not hold that often; empty inside the range where they were shown to.
        method: "ips", or "dr" where omega is doubly robust; `ips` is then the doubly robust value per session.
        in_sample: whether the ranker was trained on these clicks, or stopped by them.
        propensities: where they come from: "given", "logged", or of several policies "mean" or "realised".
        uncovered: the share of the metric, by sum(sessions * |lambda|), on documents that the clicks do not cover.
        is_difference: whether it is the difference of two rankings, from `compare`.
    """

    metric: str
    ips: float | None
    self_normalized: float | None
    ips_interval: Interval | None
    self_normalized_interval: Interval | None
    effective_sample_size: float
    largest_share: float
    target: str
    confidence: float
    n_queries: int
    n_sessions: int
    n_clicks: int
    doubts: tuple[str, ...]
    method: str = "ips"
    in_sample: bool = False
    propensities: str = "given"
    uncovered: float = 0.0
    is_difference: bool = False

    @property
    def per_session(self) -> float | None:
        """The value per session by the method; another name of `ips`."""
        return self.ips

    @property
    def per_session_interval(self) -> Interval | None:
        """From and to."""
        return self.ips_interval


def judge(weighed: WeighedClicks, values: FloatArray, names: Sequence[str], asked: Asked) -> list[Estimate]:
    """An estimate for each column of the values, and one warning for all that may be wrong with them."""
    sums = query_sums(weighed, values)
    kinds = {"ips": sums.sessions}
    if sums.omega.sum() > 0.0:
        kinds["self_normalized"] = sums.omega
    else:
        text = f"self_normalized: the weights of all documents sum to {sums.omega.sum():g}, not above 0; it is None"
        warnings.warn(text, stacklevel=3)
    belows = list(kinds.values())
    centres = [np.zeros(len(names)) if kind == "ips" else sums.terms.sum(axis=0) / kinds[kind].sum() for kind in kinds]
    if asked.target == "queries":
        found = over_queries(sums.terms, belows, asked)
    else:
        found = [
            over_clicks(weighed, sums.terms, below, values, centre, asked)
            for below, centre in zip(belows, centres, strict=True)
        ]
    ratios = dict(zip(kinds, found, strict=True))
    uncovered = _uncovered_shares(weighed, values).tolist()
    text = "% of it are on documents that the clicks do not cover"
    doubts = [[f"{100 * share:.2g} {text}"] if share > UNSHOWN else [] for share in uncovered]
    for kind, centre in zip(kinds, centres, strict=True):
        below = float(kinds[kind].sum())
        for m, own in enumerate(_doubts(weighed, values, names, asked, kind, below, centre)):
            doubts[m] += [doubt for doubt in own if _has(kind, names[m]) and doubt not in doubts[m]]
    _warn(names, asked, doubts)
    return [_collected(weighed, name, m, asked, ratios, doubts[m], uncovered[m]) for m, name in enumerate(names)]


def flagged(estimates: Sequence[Estimate], in_sample: bool) -> list[Estimate]:
    """The same, marked where they are in-sample."""
    if not in_sample:
        return list(estimates)
    doubt = "in-sample: the ranker was trained on these clicks, or stopped by them"
    return [replace(each, in_sample=True, doubts=(doubt, *each.doubts)) for each in estimates]


def _collected(
    weighed: WeighedClicks,
    name: str,
    m: int,
    asked: Asked,
    ratios: dict[str, Ratios],
    doubts: list[str],
    uncovered: float,
) -> Estimate:
    pairs: dict[str, tuple[float | None, Interval | None]] = {"ips": (None, None), "self_normalized": (None, None)}
    for kind, ratio in ratios.items():
        if _has(kind, name):
            value, half = float(ratio.values[m]), float(ratio.half_widths[m])
            pairs[kind] = (value, (value - half, value + half) if np.isfinite(half) else None)
    return Estimate(
        metric=name,
        ips=pairs["ips"][0],
        self_normalized=pairs["self_normalized"][0],
        ips_interval=pairs["ips"][1],
        self_normalized_interval=pairs["self_normalized"][1],
        effective_sample_size=weighed.effective_sample_size,
        largest_share=weighed.largest_share,
        target=asked.target,
        confidence=asked.confidence,
        n_queries=int(np.count_nonzero(weighed.sessions)),
        n_sessions=int(weighed.sessions.sum()),
        n_clicks=int(weighed.cells.clicks.sum()),
        doubts=tuple(doubts),
        method=weighed.method,
        propensities=weighed.source,
        uncovered=uncovered,
    )


def _doubts(
    weighed: WeighedClicks,
    values: FloatArray,
    names: Sequence[str],
    asked: Asked,
    kind: str,
    below: float,
    centres: FloatArray,
) -> list[list[str]]:
    """For each column what speaks against its interval of this kind."""
    common = _doubts_of_all(weighed, asked)
    size = _sample_size(weighed, below)
    word = weighed.method if kind == "ips" else kind
    if kind == "self_normalized" and size < LEAST_SAMPLE_SIZE:
        common.append(f"{kind} has an effective sample size of {size:.3g}, expected at least {LEAST_SAMPLE_SIZE:g}")
    expected = expected_clicks(weighed, values, centres)
    n_queries = int(np.count_nonzero(weighed.sessions))
    few_for_arp = asked.target == "queries" and FEWEST_QUERIES <= n_queries < FEWEST_QUERIES_OF_ARP
    pages = _page_doubts(weighed, values, asked, word, centres)
    unseen = _predicted_shares(weighed, values, centres)
    found = []
    for m, name in enumerate(names):
        own = common + pages[m]
        if unseen[m] > MOST_PREDICTED:
            share = f"to {100 * unseen[m]:.2g} % for documents with a propensity of 0, which no click can correct"
            own.append(f"{word} is predicted {share}, expected at most {100 * MOST_PREDICTED:g} %")
        if np.ptp(values[:, m]) > 0.0 and not expected[m] >= FEWEST_EXPECTED_CLICKS:  # else nothing hangs on clicks
            number = f"as if on {expected[m]:.2g} equal ones, expected at least {FEWEST_EXPECTED_CLICKS:g}"
            own.append(f"{word} hangs on rare clicks, {number}")
        # long queries decide arp; in a difference, where some values are negative, they go either way
        if few_for_arp and name == "arp" and values[:, m].min() > 0.0:
            own.append(f"{n_queries:,} queries, expected at least {FEWEST_QUERIES_OF_ARP:,} for arp")
        found.append(own)
    return found


def _doubts_of_all(weighed: WeighedClicks, asked: Asked) -> list[str]:
    """What speaks against every interval."""
    n_queries = int(np.count_nonzero(weighed.sessions))
    if asked.target == "queries":
        if n_queries < FEWEST_QUERIES:
            return [f"{n_queries:,} queries, expected at least {FEWEST_QUERIES}"]
        equal = _equal_queries(weighed)
        if equal >= FEWEST_EQUAL_QUERIES:
            return []
        text = f"a few of the {n_queries:,} queries have most sessions, which tell as much as {equal:.0f} equally"
        return [f"{text} frequent ones, expected at least {FEWEST_EQUAL_QUERIES}"]
    single = float(np.count_nonzero(weighed.sessions == 1) / weighed.sessions.sum())
    if single <= MOST_SINGLE_SESSIONS:
        return []
    text = f"{100 * single:.0f} % of the sessions are the only one of their query, which makes intervals too wide"
    return [f"{text}, expected at most {100 * MOST_SINGLE_SESSIONS:.0f} %"]


def _page_doubts(
    weighed: WeighedClicks, values: FloatArray, asked: Asked, word: str, centres: FloatArray
) -> list[list[str]]:
    """For each column whether its width is in doubt: which ranks vary together is not known, or not well."""
    if asked.target == "queries":
        return [[] for _ in centres]
    if weighed.pages is not None:
        freedom = click_variance(weighed, values, centres).freedom.tolist()
        text = f"degrees of freedom, expected at least {LEAST_FREEDOM:g}"
        few = f"{word} hangs on queries with few sessions,"
        return [[f"{few} {by:.2g} {text}"] if by < LEAST_FREEDOM else [] for by in freedom]
    cure = "keep pages with displays=True"
    factors = worst_factor(weighed, values, centres)
    text = f"times too narrow, or too wide, since counts do not tell what was shown together; {cure}"
    return [[f"{word} may be up to {by:.1f} {text}"] if by > MOST_TOO_NARROW else [] for by in factors.tolist()]


def _equal_queries(weighed: WeighedClicks) -> float:
    """(sum of frequencies)^2 / sum of their squares, from sessions n: n (n - 1) is the square free of chance."""
    sessions = weighed.sessions.astype(np.float64)
    pairs = float((sessions * (sessions - 1.0)).sum())
    return float(sessions.sum()) ** 2 / pairs if pairs else np.inf


def _sample_size(weighed: WeighedClicks, omega: float) -> float:
    """Of the sum of all weights; where noise was taken off, less is left to stand against the same chance."""
    cells = weighed.cells
    scale = 1.0 if weighed.noise is None else weighed.noise[1] - weighed.noise[0]
    squares = float((cells.squares * cells.inverse**2).sum())
    return (scale * omega) ** 2 / squares if squares else 0.0


def _predicted_shares(weighed: WeighedClicks, values: FloatArray, centres: FloatArray) -> FloatArray:
    """For each column, of sum(sessions * R * |lambda - centre|) the share of documents that cannot be examined.

    The intervals know nothing of how wrong the model may be there. 0 without a model.
    """
    if weighed.relevance is None or not len(weighed.unseen):
        return np.zeros(len(centres))
    weights = np.repeat(weighed.sessions, np.diff(weighed.offsets)) * weighed.relevance
    unseen = weighed.unseen
    total = np.array([weights @ np.abs(column - centre) for column, centre in zip(values.T, centres, strict=True)])
    part = weights[unseen] @ np.abs(values[unseen] - centres)
    return np.asarray(np.divide(part, total, out=np.zeros(len(centres)), where=total > 0.0))


def _uncovered_shares(weighed: WeighedClicks, values: FloatArray) -> FloatArray:
    """For each column, of sum(sessions * |lambda|) the share of documents that the clicks do not cover."""
    if not len(weighed.uncovered):
        return np.zeros(values.shape[1])
    sessions, sizes = np.repeat(weighed.sessions, np.diff(weighed.offsets)), np.abs(values)
    total = np.asarray(sessions @ sizes, np.float64)
    part = sessions[weighed.uncovered] @ sizes[weighed.uncovered]
    return np.asarray(np.divide(part, total, out=np.zeros(len(total)), where=total > 0.0))


def _warn(names: Sequence[str], asked: Asked, doubts: list[list[str]]) -> None:
    """One warning for all intervals outside the range in which they were shown to hold."""
    texts = [f"{name}: {doubt}" for name, own in zip(names, doubts, strict=True) for doubt in own]
    if texts:
        text = f"intervals may not hold the truth as often as {asked.confidence:.4g} says: "
        warnings.warn(text + "; ".join(dict.fromkeys(texts)), IntervalWarning, stacklevel=4)


def _has(kind: str, name: str) -> bool:
    """Whether an estimate of this kind exists for the metric: the sum of ranks per session means nothing."""
    return kind != "ips" or parse_metric(name)[0] != "arp"
