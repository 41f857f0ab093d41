"""User models fitted to pages by maximum marginal likelihood, all with the same treatment of relevance, so that
predictions differ by how users click and by nothing else.

    P(click | document d, kind of place j) = low_j + (high_j - low_j) t_d

Kinds of places are ranks (position-based: low = 0; affine clicks), or ranks and ranks of the last click above (browsing
model, low = 0). t_d is drawn from a prior on a grid, one for each group of documents shown at like ranks; lines and
priors maximise the likelihood with t summed out. A prediction takes the posterior mean of t. The dependent click
model has t itself as P(click | examined), and the same kind of prior.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.clicks.page_sample import PageSample, mixed_words
from counterrank.common.checks import FloatArray, IntArray
from counterrank.data.ids import take_ranges
from counterrank.evaluation.inspection import user_kernels as kernels

_FLOOR = 1e-9  # of click probabilities
_GRID, _FINE = 40, 400  # grid points
_LARGE, _LARGEST = 1e6, 2e7  # cells times points of a fit, documents times points of a prediction
_STEPS, _INNER = 60, 4
_CLOSE = 1e-6  # of the log-likelihood per impression: a step that gains less is the last
_STILL = 1e-3  # of lambda: a step that moves it less is the last
_PSEUDO = 1.0  # impressions by which kinds of places with few of them follow their rank
_PARTS = 16  # of an impression
_MOST_GROUPS = 12
_FACTORS = tuple(np.uint64(each) for each in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9))


@dataclass(frozen=True, eq=False)
class Places:
    """Impressions of pages, each at a rank, with the rank of the last click above.

    Attributes:
        pages: the pages.
        ranks: of each impression, from 0; those beyond the last rank compared are left out by `kept`.
        last: the rank of the last click above, from 1; 0 without one.
        kept: whether the impression is compared.
        n_ranks: the last rank compared.
    """

    pages: PageSample
    ranks: IntArray
    last: IntArray
    kept: Any
    n_ranks: int

    @classmethod
    def of(cls, pages: PageSample, n_ranks: int) -> Places:
        """All impressions at ranks 1 to `n_ranks`."""
        ranks = pages.ranks() - 1
        return cls(pages, ranks, pages.last_clicks(), ranks < n_ranks, n_ranks)

    def by_rank(self) -> IntArray:
        """The kind of each impression: its rank."""
        return self.ranks

    def by_last_click(self) -> IntArray:
        """The kind of each impression: its rank k (from 0) and the last click l, as k (k + 1) / 2 + l."""
        found: IntArray = self.ranks * (self.ranks + 1) // 2 + self.last
        return found


def kinds_of_last_click(n_ranks: int) -> tuple[IntArray, IntArray]:
    """The rank, from 0, and the rank of the last click, from 1 (0: none), of each kind of `by_last_click`.

    >>> [column.tolist() for column in kinds_of_last_click(2)]
    [[0, 1, 1], [0, 0, 1]]
    """
    ranks = np.repeat(np.arange(n_ranks), np.arange(1, n_ranks + 1))
    return ranks, np.arange(len(ranks)) - ranks * (ranks + 1) // 2


@dataclass(frozen=True, eq=False)
class Lines:
    """A fitted model: P(click | t, kind j) = low_j + (high_j - low_j) t, and the posterior mean of t of each document.

    Attributes:
        low: by kind.
        high: by kind.
        relevance: E[t | clicks] by document, the prior mean of their group for those without impressions.
        log_likelihood: the marginal one of the fitting part, per impression.
        steps: of EM.
        prior: of each group on the grid of the fit.
    """

    low: FloatArray
    high: FloatArray
    relevance: FloatArray
    log_likelihood: float
    steps: int
    prior: FloatArray

    def predict(self, kinds: IntArray, docs: IntArray) -> FloatArray:
        """P(click) of impressions."""
        found: FloatArray = self.low[kinds] + (self.high - self.low)[kinds] * self.relevance[docs]
        return found


def groups_of(places: Places) -> IntArray:
    """The group of each document, by its mean rank: ranks tell relevance, so one prior for all would bend the fit."""
    docs = places.pages.docs[places.kept]
    shown = np.bincount(docs, minlength=places.pages.n_docs)
    depth = np.bincount(docs, places.ranks[places.kept], places.pages.n_docs) / np.maximum(shown, 1)
    ends = np.unique(np.quantile(depth[shown > 0], np.linspace(0.0, 1.0, _MOST_GROUPS + 1)[1:-1]))
    found: IntArray = np.searchsorted(ends, depth)
    return found


def cells_of(places: Places, kinds: IntArray, n_kinds: int, groups: IntArray) -> kernels.Cells:
    """Impressions and clicks by document and kind of place."""
    own = places.kept
    keys = places.pages.docs[own] * n_kinds + kinds[own]
    found, where = np.unique(keys, return_inverse=True)
    shown = np.bincount(where.ravel(), minlength=len(found))
    clicked = np.bincount(where.ravel(), places.pages.clicked[own], len(found))
    starts = np.searchsorted(found // n_kinds, np.arange(len(groups) + 1))
    ones = np.ones(len(groups))
    return kernels.Cells(
        starts,
        np.ascontiguousarray(found % n_kinds),
        shown.astype(np.float64),
        clicked.astype(np.float64),
        groups,
        ones,
    )


def document_cells(pages: PageSample, groups: IntArray, weights: FloatArray | None = None) -> kernels.Cells:
    """One kind of place: impressions, or what part of them is examined, and clicks of each document.

    Parts are rounded, so that most documents have cells in common with others.
    """
    n = len(groups)
    shown = np.bincount(pages.docs, weights, n).astype(np.float64)
    shown = np.round(shown * _PARTS) / _PARTS
    clicked = np.bincount(pages.docs, pages.clicked, n)
    return kernels.Cells(
        np.arange(n + 1), np.zeros(n, np.int64), np.maximum(shown, clicked), clicked, groups, np.ones(n)
    )


def distinct(cells: kernels.Cells) -> tuple[kernels.Cells, IntArray]:
    """Documents with equal groups and cells as one, and the number of each document among them.

    Most documents of a large log were shown a few times, in a few ways. They are told apart by a 64-bit hash.
    """
    words = cells.kinds.astype(np.uint64) * _FACTORS[0] ^ cells.impressions.view(np.uint64) * _FACTORS[1]
    words ^= cells.clicks.view(np.uint64) * _FACTORS[2]
    sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(mixed_words(words))))
    keys = mixed_words(sums[cells.starts[1:]] - sums[cells.starts[:-1]] + cells.groups.astype(np.uint64) * _FACTORS[0])
    _, chosen, where, weights = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    offsets, rows = take_ranges(cells.starts, chosen)
    once = kernels.Cells(
        offsets, cells.kinds[rows], cells.impressions[rows], cells.clicks[rows], cells.groups[chosen],
        weights.astype(np.float64),
    )  # fmt: skip
    return once, np.asarray(where.ravel(), np.int64)


def fit_lines(
    cells: kernels.Cells,
    ranks: IntArray,
    affine: bool = False,
    fixed: bool = False,
) -> Lines:
    """The likeliest lines and priors, by EM.

    The E-step gives each document's posterior over the grid. Given t, a click is that of a "relevant" state (of
    probability t, clicked with high_j) or of the other (clicked with low_j), so the M-step has closed form:

        high_j <- sum c t high / p / sum (c t high / p + (n - c) t (1 - high) / (1 - p))       low_j with 1 - t alike

    Arguments:
        cells: impressions and clicks.
        ranks: the rank of each kind of place; kinds with few impressions follow the others of their rank.
        affine: whether low may be above 0.
        fixed: whether all lines are the identity, P(click | t) = t.
    """
    n_kinds, n_groups = len(ranks), int(cells.groups.max(initial=0)) + 1
    cells, number = distinct(cells)
    size = int(np.clip(_LARGE / max(len(cells.kinds), 1), _GRID, _FINE))
    grid, prior = _grid(size), np.full((n_groups, size), 1.0 / size)
    high = np.ones(n_kinds) if fixed else np.full(n_kinds, 0.9)
    low = np.full(n_kinds, 0.02 if affine else 0.0)
    total = max(float(cells.impressions.sum()), 1.0)
    before, steps = -np.inf, 0
    state = _State(low, high, prior)
    for steps in range(1, _STEPS + 1):
        first, value = _step(cells, ranks, state, grid, affine, fixed)
        if value - before < _CLOSE * total and steps > 3:
            break
        before = value
        second, after = _step(cells, ranks, first, grid, affine, fixed)
        jumped = state.beyond(first, second, affine, fixed)
        landed, reached = _step(cells, ranks, jumped, grid, affine, fixed)
        state, before = (landed, after) if reached >= after else (second, after)
    means = _means(cells, state, grid)[number]
    return Lines(state.low, state.high, means, before / total, steps, state.prior)


def _means(cells: kernels.Cells, state: _State, grid: FloatArray) -> FloatArray:
    """The posterior mean of relevance, on a finer grid than that of the fit for documents that were shown often."""
    fine = _grid(int(np.clip(_LARGEST / len(cells.groups), 2 * _GRID, _FINE)))
    prior = np.array([_refined(own, grid, fine) for own in state.prior])
    found = np.empty(len(cells.groups))
    log_p, log_q = _tables(state.low, state.high, fine)
    kernels.posterior_means(cells, log_p, log_q, np.log(prior), fine, found)
    return found


def _grid(size: int) -> FloatArray:
    """Points of [0, 1], denser at its ends: equal steps of arcsin sqrt(t), whose variance is the same everywhere."""
    found: FloatArray = np.sin(0.5 * np.pi * (np.arange(size) + 0.5) / size) ** 2
    return found


def _refined(prior: FloatArray, grid: FloatArray, fine: FloatArray) -> FloatArray:
    """A prior on a finer grid."""
    angles = [np.arcsin(np.sqrt(points)) for points in (fine, grid)]
    found: FloatArray = np.interp(angles[0], angles[1], prior)
    found /= found.sum()
    return found


def _tables(low: FloatArray, high: FloatArray, grid: FloatArray) -> tuple[FloatArray, FloatArray]:
    p = np.clip(low[:, None] + (high - low)[:, None] * grid, _FLOOR, 1.0 - _FLOOR)
    return np.log(p), np.log1p(-p)


@dataclass(frozen=True, eq=False)
class _State:
    low: FloatArray
    high: FloatArray
    prior: FloatArray

    def beyond(self, first: _State, second: _State, affine: bool, fixed: bool) -> _State:
        """Farther in the direction of two steps (SQUAREM, Varadhan and Roland, 2008), in log-odds and logarithms."""
        points = [each._flat(affine, fixed) for each in (self, first, second)]
        r, v = points[1] - points[0], points[2] - 2.0 * points[1] + points[0]
        length = max(1.0, float(np.linalg.norm(r)) / max(float(np.linalg.norm(v)), 1e-300))
        length = min(length, 50.0)
        flat = points[0] + 2.0 * length * r + length**2 * v
        n, size = len(self.low), len(self.prior)
        weights = flat[: self.prior.size].reshape(size, -1)
        weights = np.exp(weights - weights.max(axis=1, keepdims=True)) + 1e-12
        weights /= weights.sum(axis=1, keepdims=True)
        rest = flat[self.prior.size :]
        high = self.high if fixed else _logistic(rest[:n])
        low = _logistic(rest[n:]) if affine else self.low
        return _State(np.minimum(low, high), high, weights)

    def _flat(self, affine: bool, fixed: bool) -> FloatArray:
        parts = [np.log(self.prior).ravel()]
        parts += [] if fixed else [_log_odds(self.high)]
        return np.concatenate(parts + ([_log_odds(self.low)] if affine else []))


def _logistic(x: FloatArray) -> FloatArray:
    found: FloatArray = 1.0 / (1.0 + np.exp(-np.clip(x, -25.0, 25.0)))
    return found


def _log_odds(p: FloatArray) -> FloatArray:
    inside = np.clip(p, 1e-9, 1.0 - 1e-9)
    found: FloatArray = np.log(inside / (1.0 - inside))
    return found


def _step(
    cells: kernels.Cells, ranks: IntArray, state: _State, grid: FloatArray, affine: bool, fixed: bool
) -> tuple[_State, float]:
    """The next state, and the marginal log-likelihood of the present one."""
    expected, value, _ = _expected(cells, state, grid)
    low, high = state.low, state.high
    if not fixed:
        for _ in range(_INNER):
            low, high = _lines(expected.shown, expected.clicked, low, high, grid, ranks, affine)
    return _State(low, high, _likeliest_prior(expected.members)), value


def _expected(cells: kernels.Cells, state: _State, grid: FloatArray) -> tuple[kernels.Expected, float, FloatArray]:
    """The E-step, the marginal log-likelihood, and the posterior mean of relevance of each document."""
    log_p, log_q = _tables(state.low, state.high, grid)
    expected = kernels.Expected(np.zeros_like(log_p), np.zeros_like(log_p), np.zeros_like(state.prior))
    means = np.empty(len(cells.groups))
    value = kernels.expected_counts(cells, log_p, log_q, np.log(state.prior), grid, expected, means)
    return expected, value, means


def _likeliest_prior(members: FloatArray) -> FloatArray:
    """Shares of documents; one more, spread over the grid, keeps all of it possible."""
    found: FloatArray = (members + 1.0 / members.shape[1]) / (members.sum(axis=1, keepdims=True) + 1.0)
    return found


def _lines(
    shown: FloatArray,
    clicked: FloatArray,
    low: FloatArray,
    high: FloatArray,
    t: FloatArray,
    ranks: IntArray,
    affine: bool,
) -> tuple[FloatArray, FloatArray]:
    """One step of the M-step, see `fit_lines`."""
    p = np.clip(low[:, None] + (high - low)[:, None] * t, _FLOOR, 1.0 - _FLOOR)
    hit, missed = clicked / p, (shown - clicked) / (1.0 - p)
    yes, no = (hit @ t) * high, (missed @ t) * (1.0 - high)
    new_high = _pooled(yes, yes + no, ranks)
    if not affine:
        return low, new_high
    yes, no = (hit @ (1.0 - t)) * low, (missed @ (1.0 - t)) * (1.0 - low)
    return _pooled(yes, yes + no, ranks), new_high


def _pooled(yes: FloatArray, of: FloatArray, ranks: IntArray) -> FloatArray:
    """Shares by kind of place, with a little of the share of their rank."""
    rank_yes, rank_of = np.bincount(ranks, yes)[ranks], np.bincount(ranks, of)[ranks]
    pooled = (rank_yes + 1e-6) / (rank_of + 2e-6)
    found: FloatArray = np.clip((yes + _PSEUDO * pooled) / (of + _PSEUDO), 1e-6, 1.0 - 1e-6)
    return found


@dataclass(frozen=True, eq=False)
class Chains:
    """The dependent click model, fitted: lambda by rank, and the posterior mean of t of each document."""

    going_on: FloatArray
    relevance: FloatArray

    def predict(self, pages: PageSample) -> FloatArray:
        """P(click | clicks above) of every impression."""
        found = np.empty(len(pages.docs))
        kernels.predict_chains(_chained(pages), self.relevance, self.going_on, found)
        return found


def _chained(pages: PageSample) -> kernels.Pages:
    return kernels.Pages(np.array(pages.offsets), np.array(pages.docs), np.array(pages.clicked))


def fit_chains(places: Places, groups: IntArray) -> Chains:
    """The dependent click model by EM: who examined what, then relevance and lambda.

    Relevance enters by its posterior mean, from clicks and expected examinations, with a prior for each group; lambda_j
    is the share of users who clicked at rank j above the last rank of their page and went on.
    """
    pages = places.pages
    arrays = _chained(pages)
    depth = int(np.diff(pages.offsets).max(initial=1))
    going_on, seen = np.full(depth, 0.5), np.ones(len(pages.docs))
    one = np.zeros(1, np.int64)
    start = fit_lines(document_cells(pages, groups), one, fixed=True)
    state, grid = _State(start.low, start.high, start.prior), _grid(start.prior.shape[1])
    for _ in range(_STEPS):
        once, number = distinct(document_cells(pages, groups, seen))
        expected, _, means = _expected(once, state, grid)
        state = _State(state.low, state.high, _likeliest_prior(expected.members))
        stayed = np.zeros((depth, 2))
        kernels.chains(arrays, means[number], going_on, seen, stayed)
        pooled = (stayed[:, 0].sum() + 0.5) / (stayed[:, 1].sum() + 1.0)
        new = (stayed[:, 0] + _PSEUDO * pooled) / (stayed[:, 1] + _PSEUDO)
        moved = float(np.abs(new - going_on).max())
        going_on = new
        if moved < _STILL:
            break
    return Chains(going_on, _means(document_cells(pages, groups, seen), state, grid))
