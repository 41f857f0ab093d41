"""Examination curves by context, such as by device, estimated together from one log.

    P(click | document d, rank k, context c) = theta_ck gamma_d

The relevance gamma_d is the same in all contexts, so documents that were shown in several contexts, or at several
ranks, compare all pairs of (context, rank) with each other: the all-pairs method of `position_bias` with (context,
rank) in the place of the rank. Contexts with few sessions are shrunk towards the curve that all have in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from counterrank.clicks import position_bias_kernels as kernels
from counterrank.clicks.context_cards import (
    estimated_contexts_card,
    estimated_contexts_chart,
    estimated_contexts_summary,
)
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import CurvesByContext, Examination
from counterrank.clicks.position_bias import MANY_QUERIES, WIDE, Fit, all_pairs
from counterrank.clicks.rank_table import RankTable, last_rank
from counterrank.clicks.user_models import ByContext
from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.errors import CounterrankError, ExaminationWarning, quoted, warn_caller
from counterrank.common.notebook import Summary
from counterrank.common.numerics import student_quantile
from counterrank.data.ids import query_of

FEW_CLICKS = 30  # at a rank in a context, up to which it may stay without a comparison, and get the common curve
_SPREADS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)  # standard deviations of log theta between contexts to begin with
_ZOOMS = 5


class ContextTest(NamedTuple):
    """A test of whether curves differ between contexts.

    Attributes:
        p_value: how likely differences at least as large are where there are none; nan where nothing can be compared.
        statistic: about 1 where there are none.
        freedom: the degrees of freedom of F: of the differences, and of what their variance is known by.
    """

    p_value: float
    statistic: float
    freedom: tuple[float, float]


class EstimatedByContext(ByContext):
    """Examination curves by context, estimated from a log; accepted wherever an examination curve is.

    Attributes:
        values: theta_ck relative to rank 1 of the context with most sessions, (n_contexts, n_ranks), shrunk.
        intervals: (n_contexts, n_ranks, 2), one for each value by itself, over contexts like these.
        unshrunk: the values that each context has by itself; nan where there are too few clicks.
        common: what contexts have in common, (n_ranks,): the curve of a context without clicks.
        sessions: of each context.
        spread: standard deviations of log theta between contexts: of its level, and of its shape around the level.
        test: whether curves differ at all; `shape_test`: whether they differ by more than a factor.
        target: the target population of the intervals: "queries" like these, or new clicks on "these-queries".
        confidence: the confidence level of each interval.
        n_sessions: the sessions of the log.
        n_queries: the queries that were compared.
        n_documents: the documents that were compared.
        n_clicks: the clicks on these documents.
        warnings: what speaks against trusting the values, a sentence each.
    """

    method = "all-pairs"

    def __init__(
        self, contexts: Sequence[str], values: FloatArray, intervals: FloatArray, unshrunk: FloatArray,
        common: FloatArray, sessions: Sequence[int], spread: tuple[float, float],
        tests: tuple[ContextTest, ContextTest], target: str, confidence: float, sizes: tuple[int, int, int, int],
        notes: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        super().__init__(dict(zip(contexts, values, strict=True)), other=common)
        self.values, self.intervals, self.unshrunk, self.common = values, intervals, unshrunk, common
        self.sessions, self.spread = dict(zip(contexts, sessions, strict=True)), spread
        self.test, self.shape_test = tests
        self.target, self.confidence, self.warnings = target, confidence, notes
        self.n_sessions, self.n_queries, self.n_documents, self.n_clicks = sizes

    def ends(self) -> tuple[CurvesByContext, CurvesByContext]:
        """The curves of the lower and of the upper ends of the intervals, scaled as `examination` is."""
        low, high = (np.clip(self.intervals[:, :, end] * self.scale, 0.0, 1.0) for end in (0, 1))
        return self._curves_of(low), self._curves_of(high)

    def _curves_of(self, rows: FloatArray) -> CurvesByContext:
        named = zip(self.alpha, rows, strict=True)
        return CurvesByContext({name: Examination(row) if row.any() else None for name, row in named})

    def content(self) -> dict[str, Any]:
        """What `save` writes."""
        return {**self.describe(), "estimate": self.summary()}

    def summary(self) -> Summary:
        """Values and confidence intervals by context and rank, as a dict that prints as a table."""
        return estimated_contexts_summary(self)

    def plot(self) -> Any:
        """The curves with their confidence intervals, an altair chart."""
        return estimated_contexts_chart(self)

    def _repr_html_(self) -> str:
        return estimated_contexts_card(self)


def estimate_by_context(
    clicks: ClickCounts, k: int | None, population: str | None, confidence: float
) -> EstimatedByContext:
    """The curves of `examination.estimate` for clicks with contexts; see there for the arguments.

    theta_ck is fitted by all pairs, then shrunk: with y the fitted log theta and V their covariance,

        log theta_ck = mu_k + u_c + v_ck,     u_c ~ N(0, s^2),     v_ck ~ N(0, t^2)

    mu, s and t are those under which y is most likely (restricted likelihood; empirical Bayes, Morris 1983), and the
    result is the expectation of log theta given y. A context with hardly any clicks gets mu, one with many its own y.
    """
    n_ranks = last_rank(clicks, k)
    names = [name for name, sessions in clicks.context_sessions.items() if sessions]
    items = _Items.of(clicks, names, n_ranks)
    table, kept = items.compared()
    fit = all_pairs(table)
    chosen = population or ("queries" if fit.effective_queries >= MANY_QUERIES else "these-queries")
    known = _Known.of(fit, chosen, kept, len(names), n_ranks)
    spread = _between(known) if len(names) > 1 else (0.0, 0.0)
    found = _shrunk(known, spread)
    reach = student_quantile(confidence, known.freedom) * found.errors
    values, low, high = (np.exp(found.logs + sign * reach).reshape(-1, n_ranks) for sign in (0.0, -1.0, 1.0))
    unshrunk = np.full(len(names) * n_ranks, np.nan)
    unshrunk[kept] = fit.theta
    intervals = np.stack((low, high), axis=2)
    notes = _warnings(names, unshrunk.reshape(values.shape), values, intervals, fit, population)
    for text in notes:
        warn_caller(f"examination.estimate: {text}", ExaminationWarning)
    sessions = [clicks.context_sessions[name] for name in names]
    sizes = clicks.n_sessions, table.n_queries, table.n_docs, int(table.clicks.sum())
    tests = _test(known, known.common), _test(known, np.hstack((known.common, known.levels)))
    return EstimatedByContext(
        names, values, intervals, unshrunk.reshape(values.shape), np.exp(found.common), sessions, spread, tests,
        chosen, confidence, sizes, notes,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Items:
    """The cells of a log by item: rank k of context number c is item c * n_ranks + k - 1.

    Attributes:
        names: of the contexts.
        table: the documents that were shown at two items or more, and clicked at one of them.
        clicks: all clicks of each item.
    """

    names: list[str]
    n_ranks: int
    table: RankTable
    clicks: FloatArray

    @classmethod
    def of(cls, clicks: ClickCounts, names: list[str], n_ranks: int) -> _Items:
        number = np.array([names.index(name) if name in names else 0 for name in clicks.contexts])
        inside = np.flatnonzero((clicks.ranks <= n_ranks) & (clicks.impressions > 0))
        assert clicks.policies is not None
        items = number[clicks.policies[inside]] * n_ranks + clicks.ranks[inside] - 1
        n_items = len(names) * n_ranks
        total = np.bincount(items, clicks.clicks[inside], n_items)
        return cls(names, n_ranks, item_table(clicks, inside, items, n_items), np.asarray(total, np.float64))

    def compared(self) -> tuple[RankTable, IntArray]:
        """The table of the items that can be compared with the first, and which items these are.

        An error where an item with more than `FEW_CLICKS` clicks cannot.
        """
        from scipy.sparse.csgraph import connected_components

        wins = kernels.pair_clicks(*self.table.cells(), self.table.n_ranks) > 0.0
        _, group = connected_components(wins, connection="strong")  # clicks lead there and back
        kept = np.flatnonzero(group == group[0])
        lost = np.flatnonzero((group != group[0]) & (self.clicks > FEW_CLICKS))
        missing = sorted(set(range(self.n_ranks)) - set((kept % self.n_ranks).tolist()))
        if len(lost) or len(kept) < 2:
            self._refuse(lost, kept)
        if missing:
            shown = ", ".join(str(rank + 1) for rank in missing)
            fewer = f", or k={missing[0]}" if missing[0] > 1 else ""
            raise CounterrankError(
                f"clicks: too few at rank{'s' if len(missing) > 1 else ''} {shown} in every context, to compare with "
                f"others; expected more sessions{fewer}"
            )
        place = np.full(self.table.n_ranks, -1)
        place[kept] = np.arange(len(kept))
        return _with_items(self.table, place[self.table.ranks], len(kept)), kept

    def _refuse(self, lost: IntArray, kept: IntArray) -> None:
        first = quoted(self.names[0])
        apart = [c for c in np.unique(lost // self.n_ranks) if not (kept // self.n_ranks == c).any()]
        if apart and len(kept) > 1:
            others = ", ".join(quoted(self.names[c]) for c in apart[:3]) + (", ..." if len(apart) > 3 else "")
            raise CounterrankError(
                f"clicks: no chain of documents, clicked in both contexts, links {others} with {first}, so this log "
                "cannot separate how users of these contexts examine from what they search; expected documents shown "
                "in several contexts, or contexts without few common queries left out, or by_context=False"
            )
        where = [f"rank {item % self.n_ranks + 1} of {quoted(self.names[item // self.n_ranks])}" for item in lost[:3]]
        raise CounterrankError(
            f"clicks: no chain of clicked documents links {', '.join(where) or 'other ranks'}"
            f"{', ...' if len(lost) > 3 else ''} with rank 1 of {first}, so this log cannot separate position bias "
            "from relevance; expected documents shown at several ranks: show some pages under uniform-insert or "
            "plackett-luce, or swap two ranks on some pages (replace-last alone, or a fixed order, shows each document "
            "at one rank)"
        )


def item_table(clicks: ClickCounts, inside: IntArray, items: IntArray, n_items: int) -> RankTable:
    """Impressions and clicks of each document at each item, of documents shown at two or more and clicked at one.

    `items` are those of the cells `inside`.
    """
    docs = clicks.docs[inside]
    place = docs * n_items + items
    keys, where = np.unique(place, return_inverse=True)
    shown, clicked = (np.bincount(where, column[inside], len(keys)) for column in (clicks.impressions, clicks.clicks))
    owner = keys // n_items
    several = np.bincount(owner, minlength=clicks.n_docs) > 1
    hit = np.bincount(owner, clicked, clicks.n_docs) > 0.0
    own = (several & hit)[owner]
    return _table(owner[own], keys[own] % n_items, shown[own], clicked[own], n_items, clicks.offsets)


def _table(
    owner: IntArray, items: IntArray, shown: FloatArray, clicked: FloatArray, n_items: int, offsets: IntArray
) -> RankTable:
    rows, starts = np.unique(owner, return_index=True)
    _, query_starts = np.unique(query_of(rows, offsets), return_index=True)
    bounds = (starts, len(owner)), (query_starts, len(rows))
    of_docs, of_queries = (np.append(first, last).astype(np.int64) for first, last in bounds)
    return RankTable(n_items, of_docs, items.astype(np.int64), shown, clicked, rows, of_queries)


def _with_items(table: RankTable, items: IntArray, n_items: int) -> RankTable:
    """The table with other items, without the cells of those that are -1."""
    kept = items >= 0
    starts = np.concatenate(([0], np.cumsum(kept)))[table.starts].astype(np.int64)
    return RankTable(
        n_items, starts, items[kept], table.impressions[kept], table.clicks[kept], table.docs, table.query_starts
    )


class _Known(NamedTuple):
    """What the fit says: y = D log theta + error, D taking the differences from the first of the compared items.

    Attributes:
        logs: y, of the compared items but the first.
        differences: D, (n - 1, n_items).
        covariance: of y, for the target population.
        working: the same by independent clicks, scaled to the same size: never singular, for weights alone.
        common: (n_items, n_ranks), 1 where an item is at the rank; the first rank is left out, since D takes it away.
        levels: (n_items, n_contexts), 1 where an item is of the context.
        effective, freedom: queries of equal weight that hold as much information, and degrees of freedom of intervals.
    """

    logs: FloatArray
    differences: FloatArray
    covariance: FloatArray
    working: FloatArray
    common: FloatArray
    levels: FloatArray
    effective: float
    freedom: int

    @classmethod
    def of(cls, fit: Fit, target: str, kept: IntArray, n_contexts: int, n_ranks: int) -> _Known:
        covariance, freedom = fit.covariance(target)
        by_clicks, _ = fit.covariance("these-queries")
        size = float(np.trace(covariance) / np.trace(by_clicks))
        n_items = n_contexts * n_ranks
        differences = np.zeros((len(kept) - 1, n_items))
        differences[np.arange(len(kept) - 1), kept[1:]] = 1.0
        differences[:, kept[0]] = -1.0
        common = np.tile(np.eye(n_ranks), (n_contexts, 1))
        levels = np.repeat(np.eye(n_contexts), n_ranks, axis=0)
        # a floor for what is known without doubt, such as a rank that was clicked whenever it was shown
        floor = 1e-12 * np.eye(len(kept) - 1)
        working = max(size, 1e-6) * by_clicks + floor
        return cls(
            np.log(fit.theta[1:]), differences, covariance, working, common, levels, fit.effective_queries, freedom
        )

    def between(self, spread: tuple[float, float]) -> FloatArray:
        """The covariance of log theta between contexts."""
        level, shape = spread
        return np.asarray(level**2 * self.levels @ self.levels.T + shape**2 * np.eye(len(self.levels)))


def _pinv(matrix: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.pinv(matrix, rcond=1e-10, hermitian=True))


def _likelihood(known: _Known, spread: tuple[float, float]) -> float:
    """Restricted log-likelihood of y, but for a constant."""
    d = known.differences
    total = known.working + d @ known.between(spread) @ d.T
    design = (d @ known.common)[:, 1:]
    root = np.linalg.cholesky(total)
    y, x = np.linalg.solve(root, known.logs), np.linalg.solve(root, design)
    gram = x.T @ x
    rest = y - x @ np.linalg.solve(gram, x.T @ y)
    return -float(np.log(np.diag(root)).sum() + 0.5 * np.linalg.slogdet(gram)[1] + 0.5 * rest @ rest)


def _between(known: _Known) -> tuple[float, float]:
    """The standard deviations between contexts that make y most likely: a grid that zooms in."""
    grid = [(level, shape) for level in _SPREADS for shape in _SPREADS]
    factor = 2.0
    for _ in range(_ZOOMS):
        best = max(grid, key=lambda spread: _likelihood(known, spread))
        factor = factor**0.5
        steps = (1.0 / factor**2, 1.0 / factor, 1.0, factor, factor**2)
        grid = [(best[0] * a, best[1] * b) for a in steps for b in steps]
    return max(dict.fromkeys(grid), key=lambda spread: _likelihood(known, spread))


class _Shrunk(NamedTuple):
    logs: FloatArray  # log theta of all items relative to the first
    errors: FloatArray  # their standard errors
    common: FloatArray  # log theta by rank of what contexts have in common, relative to the first item


def _shrunk(known: _Known, spread: tuple[float, float]) -> _Shrunk:
    """E[log theta | y], a linear function L y; its error has the covariance (L D - 1) T (L D - 1)' + L V L'."""
    d, between = known.differences, known.between(spread)
    inverse = np.linalg.inv(known.working + d @ between @ d.T)
    design = d @ known.common
    mean = _pinv(design.T @ inverse @ design) @ design.T @ inverse  # log theta by rank; of one context its own
    linear = known.common @ mean + between @ d.T @ inverse @ (np.eye(len(d)) - design @ mean)
    relative = np.eye(d.shape[1])
    relative[:, 0] -= 1.0
    off = relative @ (linear @ d - np.eye(d.shape[1]))
    spread_of = off @ between @ off.T + relative @ linear @ known.covariance @ linear.T @ relative.T
    errors = np.sqrt(np.maximum(np.diag(spread_of), 0.0))
    logs = linear @ known.logs
    by_rank = mean @ known.logs
    return _Shrunk(logs - logs[0], errors, by_rank - logs[0])


def _test(known: _Known, free: FloatArray) -> ContextTest:
    """Whether y = D free b for some b: the residual sum of squares against its expectation (Rao and Scott, 1984).

        W = r' U^-1 r,     r the residual of the fit weighted by U^-1, U the working covariance

    Under the hypothesis W is a sum of chi-square variables weighted by the eigenvalues l of M V, with V the covariance
    over queries and M what makes W of y, so that W / sum(l) is about F with sum(l)^2 / sum(l^2) degrees of freedom.
    """
    design = known.differences @ free
    inverse = np.linalg.inv(known.working)
    weights = inverse - inverse @ design @ _pinv(design.T @ inverse @ design) @ design.T @ inverse
    product = weights @ known.covariance
    mean, squares = float(np.trace(product)), float(np.trace(product @ product))
    if mean <= 1e-9 * len(known.logs):
        return ContextTest(float("nan"), float("nan"), (0.0, 0.0))
    from scipy.special import fdtrc

    freedom = mean**2 / squares
    below = freedom * max(min(known.effective - 1.0, known.freedom), 1.0)
    statistic = float(known.logs @ weights @ known.logs) / mean
    return ContextTest(float(fdtrc(freedom, below, max(statistic, 0.0))), statistic, (freedom, below))


def _warnings(
    names: list[str], unshrunk: FloatArray, values: FloatArray, intervals: FloatArray, fit: Fit, population: str | None
) -> tuple[str, ...]:
    """A sentence for each thing that speaks against the curves."""
    found = []
    empty = [quoted(name) for name, row in zip(names, unshrunk, strict=True) if np.isnan(row).all()]
    if empty:
        found.append(
            f"too few clicks in {', '.join(empty[:3])}{' and others' if len(empty) > 3 else ''} to compare with other "
            "contexts: they get the curve that these have in common"
        )
    half = (intervals[:, :, 1] - intervals[:, :, 0]) / (2.0 * values)
    half[np.isnan(unshrunk)] = 0.0
    if half.max() > WIDE:
        c, rank = np.unravel_index(int(np.argmax(half)), half.shape)
        low, high = intervals[c, rank]
        found.append(
            f"too few clicks for a narrow interval: from {low:.3g} to {high:.3g} at rank {rank + 1} of "
            f"{quoted(names[int(c)])}; log more sessions or estimate fewer ranks (k=)"
        )
    if population is None and fit.effective_queries < MANY_QUERIES:
        found.append(
            f"the log holds {fit.effective_queries:.1f} effective queries, too few for intervals over queries: "
            "these hold for new clicks on these very queries, if clicks on a page are independent"
        )
    return tuple(found)
