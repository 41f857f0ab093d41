"""Dependent clicks learned from a log: the user browsing model and the dependent click model, with intervals.

Both compare the click rates of one document in different places. In the user browsing model a place is a rank with the
rank of the last click above: a position-based model with more places than ranks, and the methods for that fit it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks import browsing_kernels
from counterrank.clicks import position_bias_kernels as kernels
from counterrank.clicks.browsing import Browsing, Dependent, Patterns, last_clicks_of, patterns_of
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.last_clicks import LastClicks, added_up
from counterrank.clicks.position_bias import MANY_QUERIES, Fit, accelerate, all_pairs, em
from counterrank.clicks.rank_table import RankTable, check_connected, interventional_set, last_rank
from counterrank.clicks.user_models import register_users
from counterrank.common.checks import FloatArray, IntArray, check_choice
from counterrank.common.errors import CounterrankError, ExaminationWarning, warn_caller
from counterrank.common.numerics import student_quantile
from counterrank.data.ids import query_of

METHODS = ("all-pairs", "em")
_FEWEST = 10.0  # clicks in a place for a value of its own
_REPLICATES = 40  # of the queries, for intervals of the dependent click model by EM
_LEAST = 1e-12  # of a probability in EM


@dataclass(frozen=True)
class Facts:
    """What an estimate is from, and what speaks against it.

    Attributes:
        method: "all-pairs" or "em".
        target: the target population of the intervals: "queries" like these, or new clicks on "these-queries".
        confidence: the confidence level of each interval.
        n_sessions: the sessions of the log.
        n_queries: the queries used.
        n_documents: the query-document pairs used.
        n_clicks: the clicks on them.
        warnings: what speaks against trusting the values, a sentence each.
    """

    method: str
    target: str
    confidence: float
    n_sessions: int
    n_queries: int
    n_documents: int
    n_clicks: int
    warnings: tuple[str, ...] = ()


class EstimatedBrowsing(Browsing):
    """The user browsing model estimated from a log, relative to rank 1: gamma_10 = 1, and larger values are cut to 1.

    Made by `examination.estimate(clicks, model="browsing")`; accepted wherever an examination curve is.

    Attributes:
        gamma: by rank, for the ranks of the last click above.
        intervals: confidence intervals of gamma in the same form, (rank, 2) each; nan for values of too few clicks.
        facts: what the estimate is from, see `Facts`.
    """

    def __init__(self, gamma: Sequence[ArrayLike], attractiveness: float, intervals: Any, facts: Facts) -> None:
        super().__init__(gamma, attractiveness)
        self.intervals: tuple[FloatArray, ...] = tuple(np.array(own, np.float64) for own in intervals)
        self.facts = facts

    def content(self) -> dict[str, Any]:
        """What `save` writes."""
        ends = [own.tolist() for own in self.intervals]
        return {**self.describe(), "model": "estimated-browsing", "intervals": ends, "facts": asdict(self.facts)}


class EstimatedDependent(Dependent):
    """The dependent click model estimated from a log.

    Made by `examination.estimate(clicks, model="dependent")`; accepted wherever an examination curve is.

    Attributes:
        continuation: lambda for the ranks 1 to k - 1; that of rank k is not identified.
        intervals: confidence intervals of lambda, (k - 1, 2).
        facts: what the estimate is from, see `Facts`.
    """

    def __init__(self, continuation: ArrayLike, attractiveness: float, intervals: Any, facts: Facts) -> None:
        super().__init__(continuation, attractiveness)
        self.intervals = np.array(intervals, np.float64)
        self.facts = facts

    def content(self) -> dict[str, Any]:
        """What `save` writes."""
        ends = self.intervals.tolist()
        return {**self.describe(), "model": "estimated-dependent", "intervals": ends, "facts": asdict(self.facts)}


def _facts(content: dict[str, Any]) -> Facts:
    return Facts(**{**content["facts"], "warnings": tuple(content["facts"]["warnings"])})


def _read_browsing(content: dict[str, Any]) -> EstimatedBrowsing:
    return EstimatedBrowsing(content["gamma"], content["attractiveness"], content["intervals"], _facts(content))


def _read_dependent(content: dict[str, Any]) -> EstimatedDependent:
    return EstimatedDependent(content["continuation"], content["attractiveness"], content["intervals"], _facts(content))


register_users("estimated-browsing", _read_browsing)
register_users("estimated-dependent", _read_dependent)


def estimate_browsing(
    clicks: ClickCounts, method: str, k: int | None, population: str | None, confidence: float
) -> EstimatedBrowsing:
    """The user browsing model of a log that was counted with `last_clicks=True`; see `examination.estimate`.

    Places (rank, last click above) with few clicks on documents that were seen in others take the value of their rank
    in the position-based model.
    """
    check_choice(method, METHODS, "method")
    rows = last_clicks_of(clicks)
    n = last_rank(clicks, k)
    plain = interventional_set(clicks, n)
    check_connected(plain)
    by_rank = np.minimum(all_pairs(plain).theta, 1.0)
    table, places = _places(clicks, replace(rows, ranks=rows.pairs() + 1, above=np.zeros_like(rows.above)), n)
    fit = all_pairs(table) if method == "all-pairs" else em(table)
    target, ends = _intervals(fit, population, confidence)
    gamma = [np.full(rank, by_rank[rank - 1]) for rank in range(1, n + 1)]
    intervals = [np.full((rank, 2), np.nan) for rank in range(1, n + 1)]
    for value, end, place in zip(fit.theta, ends, places.tolist(), strict=True):
        rank = int((1 + np.sqrt(1 + 8 * place)) / 2)
        above = place - rank * (rank - 1) // 2
        gamma[rank - 1][above], intervals[rank - 1][above] = min(value, 1.0), end
    n_places, notes = n * (n + 1) // 2, []
    if len(places) < n_places:
        notes.append(
            f"{n_places - len(places)} of {n_places} pairs of a rank and a last click have fewer than {_FEWEST:g} "
            "clicks to compare, and take the value of their rank"
        )
    if (fit.theta > 1.0 + 1e-9).any():
        notes.append(f"values up to {fit.theta.max():.2f} times that of rank 1 are cut to 1")
    facts = _facts_of(clicks, table, method, target, confidence, notes)
    users = Browsing(gamma)
    seen = clicks.impressions * users.realised(clicks)
    typical = float(np.clip(clicks.n_clicks / max(seen.sum(), 1.0), 0.0, 1.0))
    return EstimatedBrowsing(gamma, typical, intervals, facts)


def estimate_dependent(
    clicks: ClickCounts, method: str, k: int | None, population: str | None, confidence: float
) -> EstimatedDependent:
    """The dependent click model of a log that was counted with `last_clicks=True`; see `examination.estimate`.

    Without a click above, a document is surely examined; with one directly above, at rank j, with probability lambda_j:

        P(click on d | no click above) = r_d,       P(click on d at j + 1 | click at j) = lambda_j r_d

    "all-pairs" compares these two for each document, in a position-based model with the places "nothing clicked above"
    and "clicked at rank j, directly above". That is consistent however few impressions a document has, and documents
    need not move between ranks. "em" is the likeliest model of whole pages, with a free attractiveness for each
    document: it uses all clicks, and needs pages kept with their patterns (`displays=True`).
    """
    check_choice(method, METHODS, "method")
    n = last_rank(clicks, k)
    if method == "em":
        return _dependent_by_em(clicks, n, population, confidence)
    rows = last_clicks_of(clicks)
    chosen = (rows.above == 0) | (rows.above == rows.ranks - 1)
    kept = added_up(
        LastClicks(
            rows.docs[chosen],
            rows.above[chosen] + 1,
            np.zeros(int(chosen.sum()), np.int64),
            rows.impressions[chosen],
            rows.clicks[chosen],
        )
    )
    inside = kept.ranks <= n
    table, places = _places(clicks, kept, None if inside.all() else n, last=n)
    fit = all_pairs(table)
    if len(places) < n:
        lacking = sorted(set(range(1, n)) - set(places.tolist()))
        raise CounterrankError(
            f"clicks: fewer than {_FEWEST:g} clicks directly below a click at rank "
            f"{', '.join(map(str, lacking))}, so users' going on from there cannot be told; expected a longer log, or "
            f"k={lacking[0]}"
        )
    target, ends = _intervals(fit, population, confidence)
    notes = []
    if (fit.theta[1:] > 1.0 + 1e-9).any():
        notes.append(
            f"documents are clicked up to {fit.theta.max():.2f} times as often below a click as without one, which the "
            "dependent click model cannot explain; values are cut to 1"
        )
    facts = _facts_of(clicks, table, method, target, confidence, notes)
    above = rows.above == 0
    typical = float(rows.clicks[above].sum() / max(rows.impressions[above].sum(), 1))
    return EstimatedDependent(np.minimum(fit.theta[1:], 1.0), typical, ends[1:], facts)


def _places(
    clicks: ClickCounts, rows: LastClicks, n: int | None, last: int | None = None
) -> tuple[RankTable, IntArray]:
    """Documents seen in several places, and the places that have clicks enough, from 0; `rows.ranks` are places from 1.

    `n` is the last rank, of which rows are kept; `last` the last place.
    """
    most = last if last is not None else (n or 0) * ((n or 0) + 1) // 2
    inside = rows.ranks <= most
    usable = np.ones(most, np.bool_)
    while True:  # a document that is left in one place says nothing about another
        kept = inside & usable[np.minimum(rows.ranks, most) - 1]
        numbers = np.cumsum(usable) - 1
        moved = replace(
            clicks,
            docs=rows.docs[kept],
            ranks=numbers[rows.ranks[kept] - 1] + 1,
            impressions=rows.impressions[kept],
            clicks=rows.clicks[kept],
        )
        table = interventional_set(moved, int(usable.sum()))
        enough = np.bincount(table.ranks, table.clicks, table.n_ranks) >= _FEWEST
        pairs = kernels.pair_clicks(*table.cells(), table.n_ranks)
        enough &= _with_first(pairs)
        if not enough[0]:
            raise CounterrankError(
                "clicks: no place of a page has clicks enough on documents that were seen in another; expected a "
                "longer log"
            )
        if enough.all():
            return table, np.flatnonzero(usable)
        usable[np.flatnonzero(usable)[~enough]] = False


def _with_first(pairs: FloatArray) -> np.ndarray:
    """Which places clicks lead to from the first one, and back: the likeliest values of others are 0 or endless."""
    found = np.ones(len(pairs), np.bool_)
    for linked in (pairs > 0.0, pairs.T > 0.0):
        reached = np.zeros(len(pairs), np.bool_)
        reached[0] = True
        while True:
            more = reached | linked[reached].any(axis=0)
            if (more == reached).all():
                break
            reached = more
        found &= reached
    return found


def _intervals(fit: Fit, population: str | None, confidence: float) -> tuple[str, FloatArray]:
    target = population or ("queries" if fit.effective_queries >= MANY_QUERIES else "these-queries")
    return target, fit.intervals(target, confidence)


def _facts_of(
    clicks: ClickCounts, table: RankTable, method: str, target: str, confidence: float, notes: Sequence[str]
) -> Facts:
    for note in notes:
        warn_caller(f"examination.estimate: {note}", ExaminationWarning)
    used = int(table.clicks.sum())
    return Facts(method, target, confidence, clicks.n_sessions, table.n_queries, table.n_docs, used, tuple(notes))


def _dependent_by_em(clicks: ClickCounts, n: int, population: str | None, confidence: float) -> EstimatedDependent:
    pages = patterns_of(clicks)
    owner = np.asarray(query_of(pages.docs[pages.offsets[:-1]], clicks.offsets))
    clicked = clicks.by_document(clicks.clicks * (clicks.ranks <= n))
    shown = clicks.by_document(clicks.impressions * (clicks.ranks <= n))
    onward, attraction = np.full(n, 0.5), (clicked + 0.5) / (shown + 1.0)
    queries = np.unique(owner)
    if population == "these-queries":
        raise CounterrankError(
            "population='these-queries': method 'em' of the dependent click model has intervals over queries; expected "
            "population='queries', or method='all-pairs'"
        )
    if len(queries) < MANY_QUERIES:
        raise CounterrankError(
            f"clicks: of {len(queries)} queries, too few to resample for intervals of method 'em'; expected "
            f"{MANY_QUERIES:.0f} or more, or method='all-pairs'"
        )
    onward, attraction = _fit_pages(pages, pages.sessions, clicked, n, onward, attraction)
    rng = np.random.default_rng(0)
    found = np.empty((_REPLICATES, n - 1))
    for i in range(_REPLICATES):
        weights = np.zeros(clicks.n_queries, np.int64)
        np.add.at(weights, rng.choice(queries, len(queries)), 1)
        own = clicked * np.repeat(weights, np.diff(clicks.offsets))
        again = _fit_pages(pages, pages.sessions * weights[owner], own, n, onward, attraction)
        found[i] = again[0][: n - 1]
    reach = student_quantile(confidence, max(len(queries) - 1, 1)) * found.std(axis=0, ddof=1)
    ends = np.clip(np.stack([onward[: n - 1] - reach, onward[: n - 1] + reach], axis=1), 0.0, 1.0)
    used = clicked > 0.0
    facts = Facts("em", "queries", confidence, clicks.n_sessions, len(queries), int(used.sum()), int(clicked.sum()))
    typical = float((attraction * shown).sum() / max(shown.sum(), 1.0))
    return EstimatedDependent(np.clip(onward[: n - 1], 0.0, 1.0), typical, ends, facts)


def _fit_pages(
    pages: Patterns, sessions: IntArray, clicked: FloatArray, n: int, onward: FloatArray, attraction: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """EM for the dependent click model, accelerated.

    E:  after a last click at rank l the user went on with probability lambda_l Q / (1 - lambda_l + lambda_l Q), Q the
        product of 1 - r_d over the documents below; after other clicks, surely
    M:  lambda_j = mean of these over the clicks at rank j that have documents below
        r_d      = clicks(d) / expected examinations(d)
    """
    known = clicked > 0.0

    def step(logs: FloatArray) -> tuple[FloatArray, float]:
        values = np.zeros(len(clicked))
        values[known] = np.exp(logs[n:])
        tried, went, seen, value = browsing_kernels.em_step(
            pages.offsets, pages.docs, sessions, pages.patterns, np.exp(logs[:n]), n, values
        )
        new = np.divide(went, tried, out=np.exp(logs[:n]), where=tried > 0.0)
        rates = np.divide(clicked[known], seen[known], out=np.exp(logs[n:]), where=seen[known] > 0.0)
        return np.log(np.clip(np.concatenate((new, rates)), _LEAST, 1.0)), value

    start = np.log(np.clip(np.concatenate((onward, attraction[known])), _LEAST, 1.0))
    logs, _ = accelerate(step, start, n, bounded=None)
    values = np.zeros(len(clicked))
    values[known] = np.exp(logs[n:])
    return np.exp(logs[:n]), values
