"""Trust bias where no document moves between ranks: documents with like features link the ranks.

Under replace-last a document is seen at one rank only, so that clicks alone do not separate users from relevance.
Features do under an assumption: given its features, the rank of a document says nothing more about its relevance, and
relevance has the same levels at every rank. `fit_features` maximises the likelihood of regression-EM with trust bias
(Agarwal et al., WWW 2019) by Newton's method; `estimate_linked` is the method "features" of `examination.estimate`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.rank_table import RankTable, rank_table
from counterrank.clicks.trust_bias import EstimatedAffine, Lines, canonical_intervals, ratio_intervals, trust_test
from counterrank.clicks.user_models import Affine
from counterrank.common.checks import Float32Array, FloatArray
from counterrank.common.errors import CounterrankError, ExaminationWarning, warn_caller
from counterrank.common.numerics import student_quantile
from counterrank.data import RankingData

LEVELS = (2, 3)  # of relevance; the likelihood chooses
CAP = 1000  # impressions of a document at a rank that count; from there on levels that are not exact would decide
LEAST_OVERLAP = 0.2  # of the predicted relevance at different ranks, see docs/concepts/trust-bias.md
ENOUGH_RESOLVED = 0.1  # share of the variance of relevance that clicks resolve at every rank: levels are then seen
_WIDE = 0.25  # half width of an interval, relative to the value
_FEW_QUERIES = 10.0
_NORMAL = 10_000  # degrees of freedom from which Student's t is as good as normal
_RIDGE = 0.1  # on coefficients of features in 0..1: far less than what says anything about them
_SMOOTH = 0.2  # standard deviation of the change of log(P(click | 1) / P(click | 0)) from one rank to the next
_LOOSE = 0.1  # on the logarithms of levels' frequencies: they stay finite
_TOP, _BOTTOM = float(np.log(1.0 - 1e-6)), float(np.log(1e-6))  # of log P(click)
_MOST_STEPS = 200
_CLOSE = 1e-6  # log P(click) moves no more than that in a last step
_GRADUALLY = ((10.0, 100.0), (100.0,), ())  # impressions that count in first fits, which later ones start from
_BINS = 20
_TOGETHER = 1 << 15  # documents whose derivatives are kept at a time


@dataclass(frozen=True, eq=False)
class Table:
    """Documents by rank with their features, a constant last."""

    cells: RankTable
    features: Float32Array

    @property
    def n_ranks(self) -> int:
        """The last rank."""
        return self.cells.n_ranks


def make_table(cells: RankTable, data: RankingData, seed: int = 0) -> Table:
    """The features of the documents shown, scaled to 0..1 within each query, and at most `CAP` impressions a cell.

    Of a cell with more impressions so many are drawn at random. With thousands of them the click rate of a document is
    known to a hundredth of the distance between two levels. Relevance does not come in exact levels, and the
    likelihood would be all about how it is rounded to them.
    """
    features = data.normalized().features[cells.docs]
    features = features[:, features.min(0, initial=np.inf) < features.max(0, initial=-np.inf)]
    if not features.shape[1]:
        raise CounterrankError(
            "data: no feature differs between the documents shown; expected features that link the ranks"
        )
    impressions, clicks = cells.impressions.copy(), cells.clicks.copy()
    many = impressions > CAP
    taken, left = clicks[many].astype(np.int64), (impressions - clicks)[many].astype(np.int64)
    clicks[many] = np.random.default_rng(seed).hypergeometric(taken, left, CAP)
    impressions[many] = CAP
    constant = np.ones((cells.n_docs, 1), np.float32)
    return Table(replace(cells, impressions=impressions, clicks=clicks), np.concatenate((features, constant), axis=1))


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the parameters are in one vector: coefficients, log P(click | r = 1), log P(click | r = 0), frequencies.

    Attributes:
        n_features: with the constant, which is the last.
        n_ranks: of which each has two parameters.
        n_levels: of relevance, in equal steps from 0 to 1; all but the first and the last have a frequency.
    """

    n_features: int
    n_ranks: int
    n_levels: int

    @property
    def levels(self) -> FloatArray:
        """The values of relevance."""
        return np.linspace(0.0, 1.0, self.n_levels)

    @property
    def size(self) -> int:
        """The number of parameters."""
        return self.n_features + 2 * self.n_ranks + self.n_levels - 2

    @property
    def ranks(self) -> slice:
        """Those of ranks."""
        return slice(self.n_features, self.n_features + 2 * self.n_ranks)

    def clicks(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
        """P(click) at each rank of relevance 1 and of relevance 0."""
        both = np.exp(parameters[self.ranks])
        return both[: self.n_ranks], both[self.n_ranks :]

    def frequencies(self, parameters: FloatArray) -> FloatArray:
        """By level, as a logarithm and next to what features say."""
        inner = parameters[self.ranks.stop :]
        return np.concatenate(([0.0], inner, [0.0]))

    def penalty(self) -> FloatArray:
        """The matrix Q of the penalty 1/2 z' Q z."""
        found = np.zeros((self.size, self.size))
        diagonal = np.zeros(self.size)
        diagonal[: self.n_features - 1] = _RIDGE
        diagonal[self.ranks.stop :] = _LOOSE
        found[np.diag_indices(self.size)] = diagonal
        first = self.n_features
        for above, below in pairwise(range(first, first + self.n_ranks)):
            change = np.zeros(self.size)
            change[[above, below + self.n_ranks]] = -1.0
            change[[below, above + self.n_ranks]] = 1.0
            found += np.outer(change, change) / _SMOOTH**2
        return found


@dataclass(frozen=True, eq=False)
class Point:
    """The penalised log-likelihood at some parameters, and its derivatives.

    Attributes:
        value: less the penalty.
        score: first derivatives.
        information: minus the second derivatives.
        of_queries: the sum over queries of the outer products of their scores, without the penalty.
        query_weights: the squared scores of each query for the parameters of ranks, scaled by the information.
    """

    value: float
    score: FloatArray
    information: FloatArray
    of_queries: FloatArray
    query_weights: FloatArray


def log_likelihood(table: Table, layout: Layout, parameters: FloatArray) -> float:
    """The marginal log-likelihood of the clicks, up to a constant of the clicks.

    P(click | r, rank j) = t_j r + b_j (1 - r),       r in u_0 = 0, ..., u_m = 1
    P(r = u_g | x) = exp(a_g + u_g w . x) / sum over levels h of exp(a_h + u_h w . x),     a_0 = a_m = 0

    sum over documents d of log sum over g of P(u_g | x_d) prod over ranks j of Binomial(clicks_dj; P(click | u_g, j))
    """
    return sum(float(_posterior(table, layout, parameters, *cut)[0].sum()) for cut in _cuts(table))


def _cuts(table: Table) -> Iterator[tuple[int, int]]:
    """Ranges of queries with about so many documents."""
    starts = table.cells.query_starts
    first = 0
    while first < len(starts) - 1:
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + _TOGETHER, "right")) - 1)
        yield first, last
        first = last


def _posterior(
    table: Table, layout: Layout, parameters: FloatArray, first: int, last: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """For each document of some queries the log-likelihood, and the prior and the posterior of each level."""
    cells, levels = table.cells, layout.levels
    d, e = cells.query_starts[[first, last]]
    begin, end = cells.starts[[d, e]]
    top, bottom = layout.clicks(parameters)
    rates = np.outer(top, levels) + np.outer(bottom, 1.0 - levels)
    clicked, shown, ranks = cells.clicks[begin:end, None], cells.impressions[begin:end, None], cells.ranks[begin:end]
    of_cells = clicked * np.log(rates)[ranks] + (shown - clicked) * np.log1p(-rates)[ranks]
    of_clicks = np.add.reduceat(of_cells, cells.starts[d:e] - begin)
    index = table.features[d:e].astype(np.float64) @ parameters[: layout.n_features]
    prior = np.outer(index, levels) + layout.frequencies(parameters)
    prior -= np.logaddexp.reduce(prior, axis=1)[:, None]
    joint = prior + of_clicks
    total = np.logaddexp.reduce(joint, axis=1)
    return total, np.exp(prior), np.exp(joint - total[:, None])


def derivatives(table: Table, layout: Layout, parameters: FloatArray, penalty: FloatArray) -> Point:
    """The log-likelihood and its derivatives, by Louis (1982):

    score        E[S | clicks]                                                   S, H: derivatives of the joint
    information  -E[H | clicks] - Var[S | clicks]                                log-likelihood of clicks and levels
    """
    p, size = layout.n_features, layout.size
    value, score, information = 0.0, np.zeros(size), np.zeros((size, size))
    of_queries, blocks = np.zeros((size, size)), []
    for first, last in _cuts(table):
        total, prior, posterior = _posterior(table, layout, parameters, first, last)
        joint, curved = _complete(table, layout, parameters, first, last, prior, posterior)
        d, e = table.cells.query_starts[[first, last]]
        x = table.features[d:e].astype(np.float64)
        mean = np.einsum("dg,dgk->dk", posterior, joint)
        both = np.einsum("dg,dg,dgk->dk", posterior, joint[:, :, 0], joint) - mean[:, :1] * mean
        rest = joint[:, :, 1:]
        weighted = posterior[:, :, None] * rest
        inner = np.tensordot(weighted, rest, axes=((0, 1), (0, 1))) - mean[:, 1:].T @ mean[:, 1:]
        # the prior's own curvature: minus the covariance of (u, indicators of inner levels) under the prior
        values = np.zeros((layout.n_levels, joint.shape[2]))
        values[:, 0] = layout.levels
        values[1:-1, 1 + 2 * layout.n_ranks :] = np.eye(layout.n_levels - 2)
        expected = prior @ values
        both -= prior @ (values[:, :1] * values) - expected[:, :1] * expected
        inner -= (values.T @ (prior.sum(0)[:, None] * values) - expected.T @ expected)[1:, 1:]
        information[:p, :p] -= (x * both[:, :1]).T @ x
        information[:p, p:] -= x.T @ both[:, 1:]
        information[p:, p:] -= inner + curved
        own = np.concatenate((x * mean[:, :1], mean[:, 1:]), axis=1)
        by_query = np.add.reduceat(own, table.cells.query_starts[first:last] - d)
        of_queries += by_query.T @ by_query
        blocks.append((by_query[:, layout.ranks] ** 2).sum(1))
        score += by_query.sum(0)
        value += float(total.sum())
    information[p:, :p] = information[:p, p:].T
    value -= 0.5 * float(parameters @ penalty @ parameters)
    return Point(value, score - penalty @ parameters, information + penalty, of_queries, np.concatenate(blocks))


def _complete(
    table: Table,
    layout: Layout,
    parameters: FloatArray,
    first: int,
    last: int,
    prior: FloatArray,
    posterior: FloatArray,
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """Derivatives of the log-likelihood of clicks and levels, for w . x and all parameters but w.

    The first for each document and level, (documents, levels, parameters); of the second the posterior means, added up,
    without those of the prior.
    """
    cells, levels, k = table.cells, layout.levels, layout.n_ranks
    d, e = cells.query_starts[[first, last]]
    begin, end = cells.starts[[d, e]]
    top, bottom = layout.clicks(parameters)
    doc = np.repeat(np.arange(e - d), np.diff(cells.starts[d : e + 1]))
    ranks, clicked = cells.ranks[begin:end], cells.clicks[begin:end]
    missed = cells.impressions[begin:end] - clicked
    joint = np.zeros((e - d, layout.n_levels, 1 + layout.size - layout.n_features))
    joint[:, :, 0] = levels - (prior @ levels)[:, None]
    curved = np.zeros((2 * k, 2 * k))
    i = np.arange(k)
    for g, level in enumerate(levels):
        rate = (top * level + bottom * (1.0 - level))[ranks]
        slope = clicked / rate - missed / (1.0 - rate)
        bend = clicked / rate**2 + missed / (1.0 - rate) ** 2
        up, down = (top * level)[ranks], (bottom * (1.0 - level))[ranks]
        joint[doc, g, 1 + ranks] = slope * up
        joint[doc, g, 1 + k + ranks] = slope * down
        weight = posterior[doc, g]
        curved[i, i] += np.bincount(ranks, weight * (slope - bend * up) * up, k)
        curved[k + i, k + i] += np.bincount(ranks, weight * (slope - bend * down) * down, k)
        across = np.bincount(ranks, weight * bend * up * down, k)
        curved[i, k + i] -= across
        curved[k + i, i] -= across
    if layout.n_levels > 2:
        inner = slice(1 + 2 * k, None)
        joint[:, :, inner] -= prior[:, None, 1:-1]
        joint[:, 1:-1, inner] += np.eye(layout.n_levels - 2)
    whole = np.zeros((joint.shape[2] - 1,) * 2)
    whole[: 2 * k, : 2 * k] = curved
    return joint, whole


def start(table: Table, layout: Layout) -> FloatArray:
    """Relevant documents are clicked twice as often as others, at every rank alike; features say nothing."""
    cells = table.cells
    shown, clicked = (np.bincount(cells.ranks, values, cells.n_ranks) for values in (cells.impressions, cells.clicks))
    rate = clicked / shown
    found = np.zeros(layout.size)
    found[layout.n_features - 1] = -1.0
    found[layout.ranks] = np.log(np.clip(np.append(1.4 * rate, 0.7 * rate), 1e-4, 0.9))
    return found


def tempered(table: Table, most: float) -> Table:
    """The same click rates with at most so many impressions of each document at each rank.

    The likelihood of many impressions has several maxima, one for each way to call the more and the less clicked
    documents of a rank relevant. That of few hardly knows single documents and goes by the features.
    """
    cells = table.cells
    share = np.minimum(1.0, most / cells.impressions)
    return replace(table, cells=replace(cells, impressions=cells.impressions * share, clicks=cells.clicks * share))


def _climb(table: Table, layout: Layout, gradually: tuple[float, ...]) -> tuple[FloatArray, Point, int]:
    """`maximise` with first so many impressions. Where relevance lowers clicks at a rank, its two rates are swapped."""
    parameters = start(table, layout)
    for most in gradually:
        parameters, _, _ = maximise(tempered(table, most), layout, parameters)
        parameters = _rising(layout, parameters)
    parameters, at, steps = maximise(table, layout, parameters)
    rising = _rising(layout, parameters)
    return (parameters, at, steps) if rising is parameters else maximise(table, layout, rising)


def _rising(layout: Layout, parameters: FloatArray) -> FloatArray:
    top, bottom = parameters[layout.ranks].reshape(2, -1)
    if (top >= bottom).all():
        return parameters
    new = parameters.copy()
    new[layout.ranks] = np.append(np.maximum(top, bottom), np.minimum(top, bottom))
    return new


def maximise(table: Table, layout: Layout, parameters: FloatArray) -> tuple[FloatArray, Point, int]:
    """The most likely parameters, their derivatives and the number of steps, by damped Newton steps (Levenberg).

    P(click) is at most 1 - 1e-6; a parameter that would go beyond is held there.
    """
    penalty = layout.penalty()
    at, damping, steps = derivatives(table, layout, parameters, penalty), 1e-3, 0
    while steps < _MOST_STEPS:
        steps += 1
        free = ~_held(layout, parameters, at.score)
        found = None
        while found is None and damping < 1e12:
            found = _step(table, layout, parameters, at, penalty, free, damping)
            damping = damping * 4.0 if found is None else max(damping / 5.0, 1e-9)
        if found is None:
            break
        moved = float(np.abs(found - parameters)[layout.ranks].max())
        parameters, before = found, at.value
        at = derivatives(table, layout, parameters, penalty)
        if moved < _CLOSE and at.value - before < 1e-6:
            break
    return parameters, at, steps


def _held(layout: Layout, parameters: FloatArray, score: FloatArray) -> np.ndarray:
    """Parameters of ranks at an end of their range that the likelihood would push further."""
    inside = np.zeros(layout.size, np.bool_)
    inside[layout.ranks] = True
    up = (parameters >= _TOP) & (score > 0.0)
    down = (parameters <= _BOTTOM) & (score < 0.0)
    held: np.ndarray = inside & (up | down)
    return held


def _step(
    table: Table, layout: Layout, parameters: FloatArray, at: Point, penalty: FloatArray, free: np.ndarray,
    damping: float,
) -> FloatArray | None:  # fmt: skip
    """A step that does not lower the likelihood; None where there is none with this damping."""
    diagonal = np.maximum(np.abs(np.diag(at.information)), 1e-6)
    damped = (at.information + damping * np.diag(diagonal))[np.ix_(free, free)]
    try:
        factor = np.linalg.cholesky(damped)
    except np.linalg.LinAlgError:
        return None
    new = parameters.copy()
    new[free] += np.linalg.solve(factor.T, np.linalg.solve(factor, at.score[free]))
    ranks = layout.ranks
    new[ranks] = np.clip(np.clip(new, parameters - 1.0, parameters + 1.0)[ranks], _BOTTOM, _TOP)
    value = log_likelihood(table, layout, new) - 0.5 * float(new @ penalty @ new)
    return new if value >= at.value - 1e-11 * abs(at.value) else None


def resolved(table: Table, layout: Layout, parameters: FloatArray) -> FloatArray:
    """By rank, the share of the variance of relevance that clicks resolve, 1 - E[Var(r | clicks)] / E[Var(r)]."""
    cells, levels = table.cells, layout.levels
    doc = np.repeat(np.arange(cells.n_docs), np.diff(cells.starts))
    variances = np.zeros((cells.n_docs, 2))
    for first, last in _cuts(table):
        _, prior, posterior = _posterior(table, layout, parameters, first, last)
        d, e = cells.query_starts[[first, last]]
        for i, shares in enumerate((prior, posterior)):
            variances[d:e, i] = shares @ levels**2 - (shares @ levels) ** 2
    before = np.bincount(cells.ranks, variances[doc, 0], layout.n_ranks)
    after = np.bincount(cells.ranks, variances[doc, 1], layout.n_ranks)
    return np.asarray(1.0 - after / before)


def linked_overlap(index: FloatArray, cells: RankTable) -> float:
    """How far the distributions of the index at different ranks overlap: the weakest of the links that join all ranks.

        overlap of two ranks = sum over bins of min(share of one, share of the other)         20 bins by quantiles

    of documents that were shown. The largest c such that overlaps of c and more lead from rank 1 to every rank.
    """
    values = index[np.repeat(np.arange(cells.n_docs), np.diff(cells.starts))]
    edges = np.quantile(values, np.linspace(0.0, 1.0, _BINS + 1)[1:-1])
    places = cells.ranks * _BINS + np.searchsorted(edges, values, "right")
    counts = np.bincount(places, minlength=cells.n_ranks * _BINS).reshape(cells.n_ranks, _BINS)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    overlaps = np.minimum(shares[:, None], shares[None]).sum(-1)
    reached, weakest = np.zeros(cells.n_ranks, np.bool_), 1.0
    reached[0] = True
    while not reached.all():  # the strongest link out of those reached, as a spanning tree grows
        best = np.where(reached, -1.0, overlaps[reached].max(0))
        rank = int(np.argmax(best))
        weakest, reached[rank] = min(weakest, float(best[rank])), True
    return weakest


@dataclass(frozen=True, eq=False)
class LinkedFit:
    """Users by rank, with their covariance over queries.

    Attributes:
        top: P(click) of relevance 1 by rank, alpha + beta.
        bottom: P(click) of relevance 0 by rank, beta.
        covariance: of log top and log bottom, by the sandwich of scores of queries (Huber 1967).
        effective_queries: how many queries of equal weight hold as much information.
        overlap: of the distributions of w . x at different ranks, see `linked_overlap`.
        resolved: by rank, the share of the variance of relevance that clicks resolve.
        n_levels: of relevance.
        steps: of Newton's method.
        parameters: all of them, see `Layout`.
    """

    top: FloatArray
    bottom: FloatArray
    covariance: FloatArray
    effective_queries: float
    overlap: float
    resolved: FloatArray
    n_levels: int
    steps: int
    parameters: FloatArray

    @property
    def alpha(self) -> FloatArray:
        """alpha by rank."""
        return self.top - self.bottom

    @property
    def beta(self) -> FloatArray:
        """beta by rank."""
        return self.bottom


def fit_features(table: Table) -> LinkedFit:
    """alpha and beta by rank from documents with like features; the number of levels by the BIC.

    Assumes that the rank of a document says no more about its relevance than its features do. Levels are a prior over
    relevance that needs no exact counts: see `CAP`.
    """
    found = []
    for n in LEVELS:
        layout = Layout(table.features.shape[1], table.n_ranks, n)
        parameters, at, steps = max(
            (_climb(table, layout, most) for most in _GRADUALLY), key=lambda each: each[1].value
        )
        found.append((at.value - 0.5 * (n - 2) * float(np.log(table.cells.n_docs)), layout, parameters, at, steps))
    _, layout, parameters, at, steps = max(found, key=lambda each: each[0])
    top, bottom = layout.clicks(parameters)
    free = np.flatnonzero(~_held(layout, parameters, at.score))
    bread = np.zeros((layout.size, layout.size))
    bread[np.ix_(free, free)] = np.linalg.pinv(at.information[np.ix_(free, free)], hermitian=True)
    n_queries = table.cells.n_queries
    filling = at.of_queries * n_queries / max(n_queries - 1, 1)
    covariance = (bread @ filling @ bread)[layout.ranks, layout.ranks]
    weights = at.query_weights
    effective = float(weights.sum()) ** 2 / float((weights**2).sum()) if weights.any() else 0.0
    index = np.asarray(table.features @ parameters[: layout.n_features], np.float64)
    overlap = linked_overlap(index, table.cells)
    shares = resolved(table, layout, parameters)
    return LinkedFit(top, bottom, covariance, effective, overlap, shares, layout.n_levels, steps, parameters)


def lines_of_fit(fit: LinkedFit) -> tuple[Lines, FloatArray]:
    """P(click) at each rank as a line of P(click) at rank 1, as `trust_bias` has it, and the lines' covariance.

        P(click | r, rank j) = (beta_j - s_j beta_1) + s_j P(click | r, rank 1),     s_j = alpha_j / alpha_1

    Neither depends on what relevance 0 and 1 are. The covariance is that of the intercepts and slopes of the ranks from
    2 on, in turn, by the delta method.
    """
    n = len(fit.top)
    slope = fit.alpha / fit.alpha[0]
    by_top, by_bottom = np.zeros((n - 1, 2, n)), np.zeros((n - 1, 2, n))  # of (intercept, slope) for top and bottom
    for i, j in enumerate(range(1, n)):
        by_top[i, 1, j], by_bottom[i, 1, j] = 1.0 / fit.alpha[0], -1.0 / fit.alpha[0]
        by_top[i, 1, 0], by_bottom[i, 1, 0] = -slope[j] / fit.alpha[0], slope[j] / fit.alpha[0]
        by_top[i, 0], by_bottom[i, 0] = (-fit.beta[0] * values for values in (by_top[i, 1], by_bottom[i, 1]))
        by_bottom[i, 0, j] += 1.0
        by_bottom[i, 0, 0] -= slope[j]
    jacobian = np.concatenate((by_top * fit.top, by_bottom * fit.bottom), axis=2).reshape(2 * (n - 1), 2 * n)
    lines = np.stack((fit.beta - slope * fit.beta[0], slope), axis=1)
    empty = np.zeros(0)
    return Lines(lines, empty, np.zeros((0, 0)), empty, 0), jacobian @ fit.covariance @ jacobian.T


def check_linked(table: Table, fit: LinkedFit) -> None:
    """An error where features cannot link the ranks.

    Where the index of the documents at one rank hardly overlaps with that at others, the regression extrapolates, and
    nothing in the log tells how wrong it is; unless clicks show the levels of single documents.
    """
    never = np.flatnonzero(np.bincount(table.cells.ranks, table.cells.clicks, table.n_ranks) == 0.0)
    if len(never):
        raise CounterrankError(f"clicks: none at rank {never[0] + 1}; expected some at every rank, or fewer ranks (k=)")
    if fit.overlap < LEAST_OVERLAP and fit.resolved.min() < ENOUGH_RESOLVED:
        raise CounterrankError(
            f"data: documents at different ranks hardly have like features (their predicted relevance overlaps by "
            f"{fit.overlap:.0%}; expected {LEAST_OVERLAP:.0%}), and few impressions each, so features do not link the "
            "ranks; expected a policy that moves documents between ranks, such as uniform-insert, or more sessions"
        )
    flat = np.flatnonzero(fit.alpha <= 0.0)
    if len(flat):
        raise CounterrankError(
            f"clicks: at rank {flat[0] + 1} documents whose features predict more relevance are not clicked more; "
            "expected more sessions, or features that say more about relevance"
        )


def estimate_linked(
    clicks: ClickCounts,
    cells: RankTable,
    data: RankingData,
    population: str | None,
    confidence: float,
    reference: EstimatedAffine | None = None,
) -> EstimatedAffine:
    """`examination.estimate(clicks, model="affine", method="features", data=data)` of checked arguments.

    `reference` is the fit by documents seen at several ranks, where the log has them; the two are compared.
    """
    if population == "these-queries":
        raise CounterrankError(
            "population='these-queries': method 'features' has intervals over queries only, since relevance given "
            "features is a matter of which documents there are; expected 'queries'"
        )
    empty = np.flatnonzero(np.bincount(cells.ranks, cells.impressions, cells.n_ranks) == 0.0)
    if len(empty):
        raise CounterrankError(f"clicks: rank {empty[0] + 1} was never shown; expected all ranks up to k, see k=")
    if cells.n_queries < 2:
        raise CounterrankError(f"clicks: of {cells.n_queries} query; expected two queries or more for intervals")
    table = make_table(cells, data)
    fit = fit_features(table)
    check_linked(table, fit)
    at, covariance = lines_of_fit(fit)
    reach = student_quantile(confidence, max(int(fit.effective_queries) - 1, 1))
    alpha_interval, beta_interval = canonical_intervals(at, covariance, reach)
    found = EstimatedAffine(
        fit.alpha,
        fit.beta,
        alpha_interval=alpha_interval,
        beta_interval=beta_interval,
        ratio_interval=ratio_intervals(at, covariance, reach),
        method="features",
        target="queries",
        confidence=confidence,
        n_sessions=clicks.n_sessions,
        n_queries=cells.n_queries,
        n_documents=cells.n_docs,
        n_clicks=int(cells.clicks.sum()),
        warnings=_warnings(fit, ratio_intervals(at, covariance, 1.96), reference),
        test=trust_test(at, covariance, fit.effective_queries),
    )
    found._refit = fit
    for text in found.warnings:
        warn_caller(f"examination.estimate: {text}", ExaminationWarning)
    return found


def refit_linked(previous: Any, clicks: ClickCounts, data: RankingData) -> Affine | None:
    """alpha and beta of other clicks, such as a part of the same ones, from where the previous fit ended.

    With as many levels of relevance. None where there is no such fit, or where features that varied do not any more.
    """
    fit = getattr(previous, "_refit", None)
    if fit is None:
        return None
    table = make_table(rank_table(clicks, len(fit.top)), data)
    layout = Layout(table.features.shape[1], len(fit.top), fit.n_levels)
    if layout.size != len(fit.parameters) or table.n_ranks != layout.n_ranks:
        return None
    parameters, _, _ = maximise(table, layout, fit.parameters)
    top, bottom = layout.clicks(parameters)
    if (top <= bottom).any():
        raise CounterrankError("clicks: no more clicks with more relevance at some rank; expected more sessions")
    return Affine(top - bottom, bottom)


def disagreement(slopes: FloatArray, intervals: FloatArray, reference: EstimatedAffine) -> str:
    """Whether alpha_j / alpha_1 differ from those of documents seen at several ranks, at 95 % (Bonferroni), in words.

        z_j = (log s_j - log s'_j) / sqrt(se_j^2 + se'_j^2)

    `intervals` are those of the slopes, +- 1.96 standard errors of the logarithm.
    """
    if reference.ratio_interval is None:
        return ""
    reach = student_quantile(reference.confidence, _NORMAL)
    own = np.log(intervals[1:, 1] / intervals[1:, 0]) / (2.0 * 1.96)
    other = np.log(reference.ratio_interval[1:, 1] / np.maximum(reference.ratio_interval[1:, 0], 1e-12)) / (2.0 * reach)
    apart = np.abs(np.log(slopes[1:] / reference.ratios[1:])) / np.hypot(own, other)
    worst = int(np.argmax(apart))
    if apart[worst] <= student_quantile(1.0 - 0.05 / len(apart), _NORMAL):
        return ""
    return (
        f"alpha at rank {worst + 2} relative to rank 1 is {slopes[worst + 1]:.3g}; documents seen at several ranks "
        f"say {reference.ratios[worst + 1]:.3g}: the rank says more about relevance than the features do; trust method "
        "'documents'"
    )


def _warnings(fit: LinkedFit, ratio: FloatArray, reference: EstimatedAffine | None) -> tuple[str, ...]:
    """What speaks against trusting the fit, a sentence each."""
    found = []
    if reference is not None and (text := disagreement(fit.alpha / fit.alpha[0], ratio, reference)):
        found.append(text)
    half = (ratio[:, 1] - ratio[:, 0]) * fit.alpha[0] / (2.0 * fit.alpha)
    if half.max() > _WIDE:
        worst = int(np.argmax(half))
        found.append(
            f"too few clicks or queries for a narrow interval: alpha at rank {worst + 1} relative to rank 1 is from "
            f"{ratio[worst, 0]:.3g} to {ratio[worst, 1]:.3g}; log more sessions or estimate fewer ranks (k=)"
        )
    if fit.overlap < LEAST_OVERLAP:
        found.append(
            f"documents at different ranks hardly have like features (overlap {fit.overlap:.0%}), so the fit relies on "
            "relevance having the same levels at every rank"
        )
    if fit.effective_queries < _FEW_QUERIES:
        found.append(f"the log holds {fit.effective_queries:.1f} effective queries, too few for intervals over queries")
    if fit.steps >= _MOST_STEPS:
        found.append(f"the likelihood still rose after {fit.steps} steps, so the values are not the likeliest ones")
    return tuple(found)
