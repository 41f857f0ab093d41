"""Trust bias: alpha and beta of affine clicks estimated from a log, with confidence intervals.

The model (Vardasbi et al., CIKM 2020) is P(click | document d, rank k) = alpha_k r_d + beta_k. `fit_documents` links
ranks by documents that were shown at several of them; the kernels are in `trust_bias_kernels`.
docs/concepts/trust-bias.md says what a log must have for it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks import trust_bias_kernels as kernels
from counterrank.clicks.click_cards import estimated_affine_card, estimated_affine_chart, estimated_affine_summary
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.display_groups import FEWEST_SESSIONS, display_groups
from counterrank.clicks.rank_table import RankTable
from counterrank.clicks.user_models import Affine, register_users
from counterrank.common.checks import FloatArray, IntArray, check_vector
from counterrank.common.errors import CounterrankError, ExaminationWarning, warn_caller
from counterrank.common.notebook import Summary
from counterrank.common.numerics import student_quantile
from counterrank.common.parallel import run_parallel, thread_count
from counterrank.data.ids import query_of, take_ranges

_MODEL = "estimated-affine"  # in files


@dataclass(frozen=True)
class TrustTest:
    """A test of the position-based model, beta_k / alpha_k the same at every rank, against affine clicks.

    Attributes:
        statistic: large where the ratios differ.
        freedom: the number of equalities tested, one less than ranks.
        p_value: the probability of a statistic as large if the position-based model holds.
    """

    statistic: float
    freedom: int
    p_value: float


class EstimatedAffine(Affine):
    """Affine users estimated from a log: P(click | relevance r, rank k) = alpha_k r + beta_k in the canonical gauge.

    Made by `examination.estimate(clicks, model="affine")`; accepted wherever an examination curve is.

    Attributes:
        alpha: by rank.
        beta: by rank.
        ranks: 1 to k.
        alpha_interval: (n_ranks, 2), one for each rank by itself.
        beta_interval: (n_ranks, 2), the same for beta.
        ratios: alpha_k / alpha_1.
        ratio_interval: (n_ranks, 2), those of alpha_k / alpha_1; None where they were not computed.
        method: "documents" or "features": what links the ranks.
        target: the target population of the intervals: "queries" like these, or new clicks on "these-queries".
        confidence: the confidence level of each interval.
        n_sessions: the sessions of the log.
        n_queries: the queries used.
        n_documents: the query-document pairs used.
        n_clicks: the clicks on them.
        warnings: what speaks against trusting the values, a sentence each.
        test: of the position-based model against this one; None where it was not computed.
    """

    def __init__(
        self,
        alpha: ArrayLike,
        beta: ArrayLike,
        *,
        alpha_interval: ArrayLike,
        beta_interval: ArrayLike,
        ratio_interval: ArrayLike | None = None,
        method: str,
        target: str,
        confidence: float,
        n_sessions: int,
        n_queries: int,
        n_documents: int,
        n_clicks: int,
        warnings: tuple[str, ...] = (),
        test: TrustTest | None = None,
        relevance: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(alpha, beta, relevance)
        self._refit: Any = None  # where a fit to other clicks may start, see `feature_linked.refit_linked`
        self.alpha_interval = _intervals(alpha_interval, self.k, "alpha_interval")
        self.beta_interval = _intervals(beta_interval, self.k, "beta_interval")
        self.ratio_interval = None if ratio_interval is None else _intervals(ratio_interval, self.k, "ratio_interval")
        self.method, self.target, self.confidence = method, target, confidence
        self.n_sessions, self.n_queries, self.n_documents, self.n_clicks = n_sessions, n_queries, n_documents, n_clicks
        self.warnings, self.test = tuple(warnings), test

    @property
    def ranks(self) -> IntArray:
        """1 to k."""
        return np.arange(1, self.k + 1)

    @property
    def ratios(self) -> FloatArray:
        """alpha_k / alpha_1: how much less a click at rank k says about relevance than one at rank 1."""
        found: FloatArray = self.alpha / self.alpha[0]
        return found

    @property
    def population(self) -> str:
        """The target population of the intervals; another name of `target`."""
        return self.target

    def facts(self) -> dict[str, Any]:
        """What an estimate has beyond alpha, beta and relevance, as plain values for JSON."""
        found = {name: value for name, value in vars(self).items() if name not in _OF_AFFINE and name[0] != "_"}
        found |= {name: value.tolist() for name, value in found.items() if isinstance(value, np.ndarray)}
        return found | {"warnings": list(self.warnings), "test": None if self.test is None else asdict(self.test)}

    def content(self) -> dict[str, Any]:
        """What `save` writes."""
        return {**self.describe(), "model": _MODEL, **self.facts()}

    def __repr__(self) -> str:
        alpha, beta = (", ".join(f"{value:.3g}" for value in values) for values in (self.alpha, self.beta))
        return (
            f"EstimatedAffine({self.method}: alpha {alpha}; beta {beta}; {self.n_clicks:,} clicks on "
            f"{self.n_documents:,} documents of {self.n_queries:,} queries)"
        )

    def summary(self) -> Summary:
        """alpha, beta and confidence intervals by rank, as a dict that prints as a table."""
        return estimated_affine_summary(self)

    def plot(self) -> Any:
        """P(click) of documents of relevance 0 and 1 over the rank, an altair chart."""
        return estimated_affine_chart(self)

    def _repr_html_(self) -> str:
        return estimated_affine_card(self)


_OF_AFFINE = ("alpha", "beta", "relevance", "scale")


def _intervals(values: ArrayLike, k: int, name: str) -> FloatArray:
    given = np.array(values, np.float64)
    if given.shape != (k, 2) or np.isnan(given).any():
        raise CounterrankError(f"{name}: shape {given.shape}; expected ({k}, 2), without gaps")
    given.flags.writeable = False
    return given


def _read(content: dict[str, Any]) -> EstimatedAffine:
    """The estimate that `EstimatedAffine.save` wrote."""
    given = {name: value for name, value in content.items() if name not in ("format", "version", "model")}
    test = given.pop("test")
    alpha, beta = (check_vector(given.pop(name), None, name, "ranks") for name in ("alpha", "beta"))
    return EstimatedAffine(alpha, beta, **given, test=None if test is None else TrustTest(**test))


register_users(_MODEL, _read)


N_GRID = 40  # values of relevance, at least
_MOST_GRID, _MOST_VALUES = 120, 2400  # values of relevance, and times groups
_FINE = 3.0  # of them in a standard deviation of what the clicks on a document say
N_TILTS = 2  # degree of the polynomial by which log priors of groups differ
_SMOOTH = 0.1  # on squared differences of neighbouring log prior probabilities: keeps those without clicks finite
_TILT = np.array((0.1, 10.0))  # on squared coefficients of groups, by degree
_EDGE = 1e-4  # probabilities of the model keep so far from 0 and 1
_FEW_ROWS = 15_000  # to start from, where there are more
_MOST_STEPS = 100
_CLOSE = 0.01  # of twice the log-likelihood that a Newton step still expects to gain: 0.1 standard errors
_RANGE = 1e-3  # of the prior mass of a group may lie beyond each end of the grid
_JOBS = 8
_LEAST = 1e-7  # an eigenvalue of the scaled information; two of them are 0 but for rounding, by the choice of gauge
_VAGUE = 0.5  # the standard error of a slope, relative to it, from which it may as well be 0
_MANY_QUERIES = 10.0  # effective queries from which intervals over queries hold
_WIDE = 0.25  # half width of an interval, relative to the value
_LEFT_OUT = 0.05  # share of impressions
_FEW_QUERIES = 200  # up to so many, covariances are those of a jackknife
_MOST_LEVERAGE = 0.9
_BLOCK = 1024  # queries whose scores are kept at a time


@dataclass(frozen=True, eq=False)
class Lines:
    """Parameters of the marginal likelihood, in the gauge of the fit: relevance is P(click) at the reference rank.

    Attributes:
        lines: intercept and slope of each rank, (K, 2): P(click | t, k) = lines[k, 0] + lines[k, 1] t.
        base: log of the probabilities of t that all groups share, up to constants, (M,).
        tilts: coefficients of each group's polynomial, which is added to the base, (G, J).
        grid: the values of t, (M,).
        reference: the rank whose line is (0, 1).
    """

    lines: FloatArray
    base: FloatArray
    tilts: FloatArray
    grid: FloatArray
    reference: int

    @property
    def size(self) -> int:
        """The number of parameters."""
        return self.lines.size + self.base.size + self.tilts.size

    def moved(self, step: FloatArray) -> Lines:
        """The parameters after a step."""
        of_lines, of_base, of_tilts = np.split(step, np.cumsum((self.lines.size, self.base.size)))
        return replace(
            self,
            lines=self.lines + of_lines.reshape(self.lines.shape),
            base=self.base + of_base,
            tilts=self.tilts + of_tilts.reshape(self.tilts.shape),
        )

    def free(self) -> IntArray:
        """Which parameters are estimated: all but the line of the reference rank."""
        return np.delete(np.arange(self.size), (2 * self.reference, 2 * self.reference + 1))

    def log_prior(self) -> FloatArray:
        """log P(t_m | group), (G, M)."""
        values = self.base + self.tilts @ _polynomials(len(self.grid)).T
        found: FloatArray = values - np.logaddexp.reduce(values, axis=1)[:, None]
        return found

    def design(self) -> FloatArray:
        """d (lines, log prior of each group up to constants) / d parameters."""
        n_groups, n_grid, polynomials = len(self.tilts), len(self.grid), _polynomials(len(self.grid))
        found = np.zeros((self.lines.size + n_groups * n_grid, self.size))
        found[: self.lines.size, : self.lines.size] = np.eye(self.lines.size)
        first = self.lines.size + n_grid
        for group in range(n_groups):
            here = self.lines.size + group * n_grid + np.arange(n_grid)
            found[here, self.lines.size + np.arange(n_grid)] = 1.0
            found[np.ix_(here, first + group * N_TILTS + np.arange(N_TILTS))] = polynomials
        return found

    def point(self) -> kernels.Point:
        """What kernels take."""
        raw = self.lines[:, :1] + self.lines[:, 1:] * self.grid
        p = np.clip(raw, _EDGE, 1.0 - _EDGE)
        inside = (raw > _EDGE) & (raw < 1.0 - _EDGE)
        return kernels.Point(self.grid, np.log(p), np.log1p(-p), inside / p, inside / (1.0 - p), self.log_prior())


@dataclass(frozen=True, eq=False)
class Curvature:
    """The penalised log-likelihood, its score and information at some parameters; `whole` damps Newton's steps."""

    value: float
    score: FloatArray
    information: FloatArray
    whole: FloatArray


@lru_cache(maxsize=8)
def _polynomials(n_grid: int) -> FloatArray:
    """Orthonormal polynomials of degree 1 to J on the grid, (M, J)."""
    powers = np.linspace(-1.0, 1.0, n_grid)[:, None] ** np.arange(N_TILTS + 1)
    found: FloatArray = np.linalg.qr(powers)[0][:, 1:] * np.sqrt(n_grid)
    return found


def _penalty(at: Lines) -> FloatArray:
    """The matrix Q of the penalty x' Q x / 2 on base and tilts, which is too small to matter where clicks speak."""
    n_grid = len(at.grid)
    differences = np.diff(np.eye(n_grid), axis=0)
    found = np.zeros((at.size - at.lines.size,) * 2)
    found[:n_grid, :n_grid] = _SMOOTH * (differences.T @ differences + np.full((n_grid, n_grid), 1.0 / n_grid**2))
    found[n_grid:, n_grid:] = np.diag(np.tile(_TILT[: at.tilts.shape[1]], len(at.tilts)))
    return found


def _penalised(at: Lines) -> tuple[float, FloatArray]:
    """The penalty and its gradient, for base and tilts."""
    values = np.concatenate((at.base, at.tilts.ravel()))
    slope: FloatArray = _penalty(at) @ values
    return 0.5 * float(values @ slope), slope


def _cuts(n: int) -> list[tuple[int, int]]:
    """Ranges of rows: always as many, so that sums do not depend on the number of threads."""
    return list(pairwise(np.linspace(0, n, _JOBS + 1).astype(np.int64).tolist()))


def _value(rows: kernels.Rows, at: Lines) -> float:
    point = at.point()
    jobs = [partial(kernels.log_likelihood, rows, point, *cut) for cut in _cuts(len(rows.groups))]
    return float(sum(run_parallel(jobs, thread_count()))) - _penalised(at)[0]


def curvature(rows: kernels.Rows, at: Lines) -> Curvature:
    """The penalised marginal log-likelihood of rows with its first and second derivatives."""
    point, n_lines, (n_groups, n_grid) = at.point(), at.lines.size, (len(at.tilts), len(at.grid))
    n = n_lines + n_groups * n_grid
    score, information, whole = np.zeros((_JOBS, n)), np.zeros((_JOBS, n, n)), np.zeros((_JOBS, n_lines))
    jobs = [
        partial(kernels.derivatives, rows, point, *cut, score[i], information[i], whole[i])
        for i, cut in enumerate(_cuts(len(rows.groups)))
    ]
    values = run_parallel(jobs, thread_count())
    slope, bend, known = score.sum(axis=0), information.sum(axis=0), np.zeros((n, n))
    bend += np.tril(bend, -1).T
    known[np.arange(n_lines), np.arange(n_lines)] = whole.sum(axis=0)
    for group, amount in enumerate(np.bincount(rows.groups, rows.weights, n_groups)):
        here = slice(n_lines + group * n_grid, n_lines + (group + 1) * n_grid)
        prior = np.exp(point.log_prior[group])
        known[here, here] = amount * (np.diag(prior) - np.outer(prior, prior))
        slope[here] -= amount * prior
    bend[n_lines:, n_lines:] += known[n_lines:, n_lines:]
    design, penalty, (lost, pull) = at.design(), _penalty(at), _penalised(at)
    score_of, found = design.T @ slope, design.T @ bend @ design
    diagonal = np.einsum("ia,ij,ja->a", design, known, design, optimize=True)
    score_of[n_lines:] -= pull
    found[n_lines:, n_lines:] += penalty
    diagonal[n_lines:] += np.diag(penalty)
    return Curvature(float(sum(values)) - lost, score_of, found, diagonal)


def maximise(rows: kernels.Rows, at: Lines) -> tuple[Lines, Curvature, int]:
    """The maximum of the marginal likelihood from a start, by damped Newton steps; the number of steps.

    The step solves (I + damping * diag W) step = score, W being the information if relevance were known: large damping
    gives steps like those of EM, no damping Newton's.
    """
    here, damping, free = curvature(rows, at), 1e-2, at.free()
    for count in range(1, _MOST_STEPS + 1):
        scale = np.sqrt(here.whole[free] + 1e-9)
        scaled = here.information[np.ix_(free, free)] / scale[:, None] / scale
        while True:
            try:
                factor = np.linalg.cholesky(scaled + damping * np.eye(len(free)))
            except np.linalg.LinAlgError:
                damping *= 4.0
                continue
            half = np.linalg.solve(factor, here.score[free] / scale)
            gain, step = float(half @ half), np.zeros(at.size)
            step[free] = np.linalg.solve(factor.T, half) / scale
            there = at.moved(step)
            if gain < 1e-6 or damping > 1e8:
                return at, here, count
            rise = _value(rows, there) - here.value
            if rise > 0.1 * gain:
                break
            damping *= 4.0
        at, here = there, curvature(rows, there)
        if gain < _CLOSE and damping < 1e-2:
            return at, here, count
        damping = max(damping / (10.0 if rise > 0.35 * gain else 2.0), 1e-8)
    return at, here, _MOST_STEPS


def documents_rows(table: RankTable, groups: IntArray, chosen: IntArray) -> kernels.Rows:
    """The chosen documents as rows, each with weight 1."""
    starts, cells = take_ranges(table.starts, chosen)
    columns = (table.ranks[cells], table.impressions[cells], table.clicks[cells])
    return kernels.Rows(starts, *columns, groups[chosen], np.ones(len(chosen)))


def patterns_of(rows: kernels.Rows) -> kernels.Rows:
    """Rows of the same group and counts as one, with their number as its weight."""
    keys = kernels.pattern_keys(rows.starts, rows.ranks, rows.impressions, rows.clicks, rows.groups)
    _, first, counts = np.unique(keys, return_index=True, return_counts=True)
    starts, cells = take_ranges(rows.starts, first)
    columns = (rows.ranks[cells], rows.impressions[cells], rows.clicks[cells])
    return kernels.Rows(starts, *columns, rows.groups[first], counts.astype(np.float64))


def _on_grid(at: Lines, low: float, high: float, n_grid: int) -> Lines:
    """The same priors, nearly, on another grid."""
    grid = np.linspace(low, high, n_grid)
    values = np.interp(grid, at.grid, at.base)
    tilts = np.stack([np.interp(grid, at.grid, own) for own in at.tilts @ _polynomials(len(at.grid)).T])
    return replace(at, grid=grid, base=values, tilts=tilts @ _polynomials(n_grid) / n_grid)


def _support(at: Lines) -> tuple[float, float]:
    """The ends of the grid that hold the prior mass of all groups but a little, and a margin."""
    mass = np.cumsum(np.exp(at.log_prior()), axis=1)
    low = at.grid[max(int((mass > _RANGE).argmax(axis=1).min()) - 1, 0)]
    high = at.grid[min(int((mass >= 1.0 - _RANGE).argmax(axis=1).max()) + 1, len(at.grid) - 1)]
    return float(low), float(high)


def _grid_size(rows: kernels.Rows, at: Lines) -> int:
    """How many values of relevance it takes so that few of them lie between what is likely of a document and what not.

        sd_d = (sum_k n_dk slope_k^2 / (p_k q_k))^-1/2

    for the document at which half of that information is reached. Where documents have many impressions, relevance that
    is rounded to a coarse grid makes lines noisier than their covariance says. No more than a start costs.
    """
    mean = np.exp(at.log_prior()) @ at.grid
    row = np.repeat(np.arange(len(rows.groups)), np.diff(rows.starts))
    p = np.clip((at.lines[:, :1] + at.lines[:, 1:] * mean).T[rows.groups[row], rows.ranks], 0.02, 0.98)
    own = np.bincount(row, rows.impressions * at.lines[rows.ranks, 1] ** 2 / (p * (1.0 - p)), len(rows.groups))
    order = np.argsort(own)
    reached = np.cumsum((own * rows.weights)[order])
    typical = own[order[int(np.searchsorted(reached, 0.5 * reached[-1]))]]
    needed = int(np.ceil(_FINE * (at.grid[-1] - at.grid[0]) * np.sqrt(typical)))
    affordable = int(N_GRID * np.sqrt(_FEW_ROWS / len(rows.groups)))
    return max(N_GRID, min(needed, affordable, _MOST_GRID, _MOST_VALUES // len(at.tilts)))


def _first_rows(table: RankTable, groups: IntArray) -> IntArray:
    """Documents of evenly spaced queries: few to start from, or all."""
    inside = groups >= 0
    stride = max(1, int(np.count_nonzero(inside)) // _FEW_ROWS)
    query = np.repeat(np.arange(table.n_queries), np.diff(table.query_starts))
    return np.flatnonzero(inside & (query % stride == 0))


def fit_lines(table: RankTable, groups: IntArray, theta: FloatArray) -> tuple[Lines, Curvature, int]:
    """The likeliest parameters, from a position-based start, theta by rank, and the number of steps.

    First for few documents and relevance from 0 to 1, then on the grid that the priors need, then for all.
    """
    reference = int(np.argmax(theta))
    lines = np.stack([np.zeros(len(theta)), theta / theta[reference]], axis=1)
    n_groups = int(groups.max()) + 1
    flat = np.zeros(N_GRID), np.zeros((n_groups, N_TILTS))
    at = Lines(lines, *flat, np.linspace(_EDGE, 1.0 - _EDGE, N_GRID), reference)
    every, first = np.flatnonzero(groups >= 0), _first_rows(table, groups)
    rows = patterns_of(documents_rows(table, groups, first))
    at, here, steps = maximise(rows, at)
    for _ in range(2):
        at, here, more = maximise(rows, _on_grid(at, *_support(at), _grid_size(rows, at)))
        steps += more
    if len(first) < len(every):
        at, here, more = maximise(patterns_of(documents_rows(table, groups, every)), at)
        steps += more
    return at, here, steps


@dataclass(frozen=True, eq=False)
class DocumentsFit:
    """Lines and the covariance of their free entries, (2 K - 2, 2 K - 2), in the order intercept, slope of each rank.

    Attributes:
        at: the parameters.
        of_queries: covariance over queries like these, without assuming that the model holds (Huber, 1967).
        of_clicks: the inverse information, which assumes it.
        effective_queries: how many queries of equal weight would hold as many impressions.
        steps: how many Newton steps it took.
    """

    at: Lines
    of_queries: FloatArray
    of_clicks: FloatArray
    effective_queries: float
    steps: int


def fit_documents(table: RankTable, groups: IntArray, theta: FloatArray) -> DocumentsFit:
    """alpha and beta by maximum marginal likelihood over documents that were shown at several ranks.

        maximise  sum over documents d of  log sum_m P(t_m | group of d) prod_k p_km^c_dk (1 - p_km)^(n_dk - c_dk)
        p_km = intercept_k + slope_k t_m

        log P(t_m | group) = base_m + tilt_1 t_m + tilt_2 t_m^2 + constant

    over lines, base and tilts. A likelihood with the relevance of documents integrated out is consistent with many
    documents of few impressions each (Kiefer and Wolfowitz, 1956), which one with a free relevance for each is not. The
    base is any distribution on a grid; groups differ from it as in a density ratio model (Anderson, 1979). Priors
    without a common base follow the chance of the few relevant documents of a group: alpha_5 / alpha_1 was off by 11 %
    with the paper's users and 300 queries, 3 % with one. The line of one rank is fixed, as the scale of relevance.
    """
    at, here, steps = fit_lines(table, groups, theta)
    free = at.free()
    n_free = 2 * len(theta) - 2
    inverse = np.linalg.pinv(here.information[np.ix_(free, free)], hermitian=True)
    influence = inverse[:n_free] @ at.design().T[free]
    kept = np.flatnonzero(groups >= 0)
    rows = documents_rows(table, groups, kept)
    query = np.repeat(np.arange(table.n_queries), np.diff(table.query_starts))[kept]
    starts = np.append(np.flatnonzero(np.diff(query, prepend=-1)), len(kept))
    shown = np.add.reduceat(table.by_document(table.impressions)[kept], starts[:-1])
    effective = float(shown.sum() ** 2 / (shown**2).sum())
    if len(shown) <= _FEW_QUERIES:
        of_queries = _jackknife(at, here, [documents_rows(table, groups, own) for own in np.split(kept, starts[1:-1])])[
            :n_free, :n_free
        ]
    else:
        cuts = [(first, min(first + _BLOCK, len(shown))) for first in range(0, len(shown), _BLOCK)]
        jobs = [partial(_squares, rows, starts, at.point(), cut, influence) for cut in cuts]
        squares = np.asarray(sum(run_parallel(jobs, thread_count())), np.float64)
        of_queries = squares * (effective / max(effective - 1.0, 1.0))
    of_clicks = np.asarray(inverse[:n_free, :n_free], np.float64)
    return DocumentsFit(at, of_queries, of_clicks, effective, steps)


def _jackknife(at: Lines, here: Curvature, queries: list[kernels.Rows]) -> FloatArray:
    """Covariance of the free parameters by leaving out each query, with one Newton step from the fit to all.

        d_q = - (H - H_q)^-1 s_q,     Cov = (Q - 1) / Q sum over q of (d_q - mean d) (d_q - mean d)'

    s_q and H_q are score and information of query q, H is the information of all. A sandwich has H^-1 in place of
    (H - H_q)^-1: it is too small where queries are few, since the fit has followed the noise of each of them.
    Eigenvalues of H^-1 H_q are cut at `_MOST_LEVERAGE`, since a query may be all that identifies a direction.
    """
    free, (pull, penalty) = at.free(), (np.zeros(at.size), np.zeros((at.size, at.size)))
    pull[at.lines.size :], penalty[at.lines.size :, at.lines.size :] = _penalised(at)[1], _penalty(at)
    values, vectors = np.linalg.eigh(here.information[np.ix_(free, free)])
    root = vectors / np.sqrt(np.maximum(values, 1e-12 * values.max())) @ vectors.T
    moved = np.empty((len(queries), len(free)))
    for query, rows in enumerate(queries):
        own = curvature(patterns_of(rows), at)
        leverage, turned = np.linalg.eigh(root @ (own.information - penalty)[np.ix_(free, free)] @ root)
        score = turned.T @ root @ (own.score + pull)[free]
        moved[query] = root @ turned @ (-score / (1.0 - np.minimum(leverage, _MOST_LEVERAGE)))
    moved -= moved.mean(axis=0)
    covariance: FloatArray = moved.T @ moved * ((len(moved) - 1.0) / len(moved))
    return covariance


def _squares(
    rows: kernels.Rows,
    starts: IntArray,
    point: kernels.Point,
    cut: tuple[int, int],
    influence: FloatArray,
) -> FloatArray:
    """Outer products of what each query adds to the lines."""
    scores = np.zeros((cut[1] - cut[0], 2 * len(point.log_p) + point.log_prior.size))
    kernels.query_scores(rows, starts, point, *cut, scores)
    moved = scores @ influence.T
    found: FloatArray = moved.T @ moved
    return found


def check_identified(table: RankTable, groups: IntArray, fit: DocumentsFit) -> None:
    """An error where the information on lines, relevance profiled out, has rank below 2 K - 2, or all but has.

    Eigenvalues relative to the information at known relevance count from `_LEAST` on; and where a slope relative to the
    reference has a standard error above `_VAGUE` of its size, it may as well be 0.
    """
    at, n_ranks = fit.at, table.n_ranks
    rows = patterns_of(documents_rows(table, groups, np.flatnonzero(groups >= 0)))
    found = np.zeros((_JOBS, 2 * n_ranks, 2 * n_ranks))
    jobs = [
        partial(kernels.profiled_information, rows, at.point(), at.lines, *cut, found[i])
        for i, cut in enumerate(_cuts(len(rows.groups)))
    ]
    run_parallel(jobs, thread_count())
    information = found.sum(axis=0)
    scale = np.sqrt(np.maximum(np.diag(information), 1e-300))
    rank = int((np.linalg.eigvalsh(information / scale[:, None] / scale) > _LEAST).sum())
    error = np.sqrt(np.maximum(np.diag(fit.of_clicks)[1::2], 0.0)) / np.maximum(
        np.delete(at.lines[:, 1], at.reference), 1e-12
    )
    if rank >= 2 * n_ranks - 2 and error.max() <= _VAGUE:
        return
    worst = np.delete(np.arange(1, n_ranks + 1), at.reference)[int(np.argmax(error))]
    found_text = (
        f"the information on alpha and beta has rank {rank}, and identification takes {2 * n_ranks - 2}"
        if rank < 2 * n_ranks - 2
        else f"alpha at rank {worst} has a standard error of {error.max():.0%} of its size"
    )
    raise CounterrankError(
        f"clicks: {found_text}, so this log cannot separate trust bias from relevance: documents of different "
        "relevance must be seen at each rank and another; expected more sessions, a smaller k, or pages under "
        "uniform-insert or plackett-luce, which move documents of all kinds between ranks"
    )


def _canonical(values: FloatArray, reference: int, low_rank: int, high_rank: int) -> FloatArray:
    """alpha then beta in the gauge in which P(click) is 0 at one rank for r = 0, and 1 at one for r = 1.

    `values` are the free intercepts and slopes, in columns.
    """
    half = len(values) // 2
    lines = np.insert(values.reshape(half, 2, -1), reference, np.array([[0.0], [1.0]]), axis=0)
    intercept, slope = lines[:, 0], lines[:, 1]
    low = -intercept[low_rank] / slope[low_rank]
    high = (1.0 - intercept[high_rank]) / slope[high_rank]
    return np.concatenate((slope * (high - low), intercept + slope * low))


def canonical_intervals(at: Lines, covariance: FloatArray, reach: float) -> tuple[FloatArray, FloatArray]:
    """Confidence intervals of alpha and beta in the canonical gauge.

    The gauge has a rank at which P(click) reaches 0 first as relevance falls, and one at which it reaches 1 first as
    it rises. Given these, alpha and beta are smooth and the delta method holds. Where several ranks may be the first,
    up to `reach` standard errors, as all may if users are position-based, intervals are the union over them.
    """
    free = np.delete(at.lines, at.reference, axis=0).ravel()
    steps = np.sqrt(np.maximum(np.diag(covariance), 1e-18)) * 1e-3
    moves = free[:, None] + np.concatenate((np.zeros((len(free), 1)), np.diag(steps), -np.diag(steps)), axis=1)
    n, n_ranks = len(free), len(at.lines)

    def spread(values: FloatArray) -> FloatArray:
        """Standard errors of functions whose values at `moves` are the columns."""
        slopes = (values[:, 1 : n + 1] - values[:, n + 1 :]) / (2.0 * steps)
        found: FloatArray = np.sqrt(np.maximum(np.einsum("ia,ab,ib->i", slopes, covariance, slopes), 0.0))
        return found

    lines = np.insert(moves.reshape(n // 2, 2, -1), at.reference, np.array([[0.0], [1.0]]), axis=0)
    low, high = -lines[:, 0] / lines[:, 1], (1.0 - lines[:, 0]) / lines[:, 1]
    first_low, first_high = int(np.argmax(low[:, 0])), int(np.argmin(high[:, 0]))
    lows = low - low[first_low]
    highs = high - high[first_high]
    lowest = np.flatnonzero(lows[:, 0] >= -reach * spread(lows))
    highest = np.flatnonzero(highs[:, 0] <= reach * spread(highs))
    bottom, top = np.full(2 * n_ranks, np.inf), np.full(2 * n_ranks, -np.inf)
    for i in lowest:
        for j in highest:
            values = _canonical(moves, at.reference, int(i), int(j))
            half = reach * spread(values)
            bottom, top = np.minimum(bottom, values[:, 0] - half), np.maximum(top, values[:, 0] + half)
    ends = np.round(np.clip(np.stack((bottom, top), axis=1), 0.0, 1.0), 12)
    return ends[:n_ranks], ends[n_ranks:]


def ratio_intervals(at: Lines, covariance: FloatArray, reach: float) -> FloatArray:
    """Confidence intervals of alpha_k / alpha_1, from the delta method for its logarithm."""
    n_ranks = len(at.lines)
    slopes = np.delete(np.arange(n_ranks), at.reference)
    full = np.zeros((n_ranks, n_ranks))
    full[np.ix_(slopes, slopes)] = covariance[1::2, 1::2]
    relative = full / np.outer(at.lines[:, 1], at.lines[:, 1])
    variance = np.diag(relative) + relative[0, 0] - 2.0 * relative[0]
    half = np.minimum(reach * np.sqrt(np.maximum(variance, 0.0)), 100.0)  # beyond, any ratio is possible
    ratio = at.lines[:, 1] / at.lines[0, 1]
    return np.stack((ratio * np.exp(-half), ratio * np.exp(half)), axis=1)


def trust_test(at: Lines, covariance: FloatArray, effective: float) -> TrustTest:
    """Wald's test of the position-based model: all lines cross 0 where that of the reference rank does.

        W = b' Cov(b)^-1 b,     (E - K + 1) / ((E - 1) (K - 1)) W ~ F(K - 1, E - K + 1)     (Hotelling)

    with b the K - 1 free intercepts and E the effective queries. In the gauge of the fit these are equalities inside
    the parameters' range; the boundary is one of the canonical gauge only.
    """
    from scipy.special import fdtrc

    intercepts = np.delete(at.lines[:, 0], at.reference)
    m = len(intercepts)
    statistic = float(intercepts @ np.linalg.pinv(covariance[::2, ::2], hermitian=True) @ intercepts)
    freedom = max(effective - m, 1.0)
    p_value = float(fdtrc(m, freedom, statistic * freedom / (m * max(effective - 1.0, 1.0))))
    return TrustTest(statistic, m, p_value)


def estimate_affine(
    clicks: ClickCounts, table: RankTable, theta: FloatArray, population: str | None, confidence: float
) -> EstimatedAffine:
    """`examination.estimate(clicks, model="affine", method="documents")` of checked arguments.

    Arguments:
        clicks: the log.
        table: its documents by rank.
        theta: a position-based curve to start from.
        population: the target population of the intervals; None for queries, if there are enough.
        confidence: the confidence level of each interval.
    """
    sessions = clicks.sessions[query_of(table.docs, clicks.offsets)].astype(np.float64)
    groups = display_groups(table, sessions)
    if groups.max(initial=-1) < 0:
        raise CounterrankError(
            f"clicks: no query has {FEWEST_SESSIONS} sessions, so documents that are displayed alike are not known; "
            "expected queries with more sessions"
        )
    fit = fit_documents(table, groups, theta)
    check_identified(table, groups, fit)
    target = population or ("queries" if fit.effective_queries >= _MANY_QUERIES else "these-queries")
    by_queries = target == "queries"
    covariance = fit.of_queries if by_queries else fit.of_clicks
    effective = fit.effective_queries if by_queries else 1e6
    reach = student_quantile(confidence, max(int(effective) - 1, 1))
    alpha_interval, beta_interval = canonical_intervals(fit.at, covariance, reach)
    kept = groups >= 0
    query = np.repeat(np.arange(table.n_queries), np.diff(table.query_starts))
    found = EstimatedAffine(
        fit.at.lines[:, 1],
        fit.at.lines[:, 0],
        alpha_interval=alpha_interval,
        beta_interval=beta_interval,
        ratio_interval=ratio_intervals(fit.at, covariance, reach),
        method="documents",
        target=target,
        confidence=confidence,
        n_sessions=clicks.n_sessions,
        n_queries=len(np.unique(query[kept])),
        n_documents=int(np.count_nonzero(kept)),
        n_clicks=int(table.by_document(table.clicks)[kept].sum()),
        warnings=_warnings(fit, covariance, table, kept, target, population),
        test=trust_test(fit.at, covariance, effective),
    )
    for text in found.warnings:
        warn_caller(f"examination.estimate: {text}", ExaminationWarning)
    return found


def _warnings(
    fit: DocumentsFit, covariance: FloatArray, table: RankTable, kept: np.ndarray, target: str, population: str | None
) -> tuple[str, ...]:
    """What speaks against trusting the fit, a sentence each."""
    at, found = fit.at, []
    ratio = ratio_intervals(at, covariance, 1.96)
    half = (ratio[:, 1] - ratio[:, 0]) / (2.0 * at.lines[:, 1] / at.lines[0, 1])
    if half.max() > _WIDE:
        worst = int(np.argmax(half))
        found.append(
            f"too few clicks for a narrow interval: alpha at rank {worst + 1} relative to rank 1 is from "
            f"{ratio[worst, 0]:.3g} to {ratio[worst, 1]:.3g}; log more sessions or estimate fewer ranks (k=)"
        )
    if fit.steps >= _MOST_STEPS:
        found.append(f"the likelihood still rose after {fit.steps} steps, so the values are not the likeliest ones")
    left = float(table.by_document(table.impressions)[~kept].sum() / table.impressions.sum())
    if left > _LEFT_OUT:
        found.append(
            f"{left:.0%} of the impressions are of queries with fewer than {FEWEST_SESSIONS} sessions and left out: "
            "which of their documents are displayed alike is not known"
        )
    if population is None and target == "these-queries":
        found.append(
            f"the log holds {fit.effective_queries:.1f} effective queries, too few for intervals over queries: these "
            "hold for new clicks on these very queries, if clicks on a page are independent"
        )
    return tuple(found)
