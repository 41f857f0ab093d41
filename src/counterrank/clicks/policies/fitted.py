"""A Plackett-Luce policy fitted to the pages of a log, for logs of an unknown policy and rare queries.

The log-likelihood of displayed pages under Plackett-Luce with a linear score s is

    log P(page d_1 .. d_L) = sum over i of  s(d_i) - log Z_i,
    Z_i = sum of e^s over the documents of the query that are not among d_1 .. d_(i-1)

Documents off the page are in every Z_i. Sums are built up from the end of the page, so that nothing is subtracted and
nothing overflows: log Z_i = log(Z_(i+1) + e^s(d_i)).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.displays import Displays
from counterrank.clicks.examination import Examination
from counterrank.clicks.policies.from_log import check_all_candidates
from counterrank.clicks.policies.standard import PlackettLuce
from counterrank.common.checks import FloatArray, check_cutoff, check_number, check_type, check_vector
from counterrank.common.errors import CounterrankError
from counterrank.common.jit import Array, exact_inner_kernel, exact_kernel, inner_kernel
from counterrank.common.parallel import for_queries, run_parallel, split_queries, thread_count
from counterrank.common.ranking import longest_of
from counterrank.data import RankingData, in_data_order
from counterrank.data.features import align_features, refuse_missing
from counterrank.data.ids import query_of

_TINY = 1e-200  # a sum of exponentials as small as this may have lost terms


class Pages(NamedTuple):
    """Distinct pages in the order of their queries."""

    first: Array  # where the pages of each query begin, (n_queries + 1,)
    offsets: Array  # where each page begins in docs
    docs: Array  # by rank, as rows of the data
    sessions: Array  # how often each page was shown


class _Room(NamedTuple):
    """Scratch for one query, and what its pages add up to."""

    powers: Array  # e^(s - top) of the documents of the query
    rest: Array  # the same of those off the page, 0 for those on it
    expected: Array  # how often each document is drawn on average
    logs: Array  # log Z_i by rank, and behind them that of the documents off the page


@inner_kernel
def _dot(row: Array, coefficients: Array) -> float:
    """row . coefficients."""
    total = 0.0
    for j in range(len(coefficients)):
        total += row[j] * coefficients[j]
    return total


@inner_kernel
def _add_row(scale: float, row: Array, out: Array) -> None:
    """out += scale * row."""
    for j in range(len(out)):
        out[j] += scale * row[j]


@inner_kernel
def _scale(scale: float, out: Array) -> None:
    """out *= scale."""
    for j in range(len(out)):
        out[j] *= scale


@inner_kernel
def _add_square(scale: float, row: Array, out: Array) -> None:
    """The lower triangle of out += scale * row row^T."""
    for i in range(len(row)):
        one = scale * row[i]
        if one != 0.0:
            line = out[i]
            for j in range(i + 1):
                line[j] += one * row[j]


@exact_kernel
def linear_scores(first: int, last: int, offsets: Array, features: Array, coefficients: Array, out: Array) -> None:
    """s(d) = w . x(d) of each document of the queries."""
    for d in range(offsets[first], offsets[last]):
        out[d] = _dot(features[d], coefficients)


@exact_inner_kernel
def _exponentials(scores: Array, out: Array) -> float:
    """Fill `out` with e^(s - top); returns top, the largest score."""
    top: float = scores[0]
    for i in range(len(scores)):
        top = max(top, scores[i])
    for i in range(len(scores)):
        out[i] = math.exp(scores[i] - top)
    return top


@inner_kernel
def _copy(values: Array, out: Array) -> None:
    """out = values."""
    for i in range(len(values)):
        out[i] = values[i]


@inner_kernel
def _sum(values: Array) -> float:
    """The sum of the values."""
    total = 0.0
    for i in range(len(values)):
        total += values[i]
    return total


@exact_inner_kernel
def _off_page(scores: Array, top: float, powers: Array, begin: int, page: Array, rest: Array) -> tuple[float, float]:
    """Fill `rest` with e^(s - top) of the documents off the page, 0 for those on it; returns top and their sum.

    `top` and `powers` are those of the whole query, good enough unless all that is left lies far below the page.
    """
    _copy(powers, rest)
    for d in page:
        rest[d - begin] = 0.0
    total = _sum(rest)
    if total > _TINY or len(page) == len(rest):
        return top, total
    rest[:] = 0.0
    for d in page:
        rest[d - begin] = -1.0
    top = -math.inf
    for i in range(len(rest)):
        if rest[i] == 0.0:
            top = max(top, scores[begin + i])
    for i in range(len(rest)):
        rest[i] = math.exp(scores[begin + i] - top) if rest[i] == 0.0 else 0.0
    return top, _sum(rest)


@exact_inner_kernel
def _log_sums(scores: Array, page: Array, top: float, total: float, out: Array) -> None:
    """log Z_i = log(Z_(i+1) + e^s(d_i)) for each rank, and behind them that of the documents off the page."""
    length = len(page)
    out[length] = top + math.log(total) if total > 0.0 else -math.inf
    for i in range(length - 1, -1, -1):
        own, below = scores[page[i]], out[i + 1]
        high, low = max(own, below), min(own, below)
        out[i] = high + math.log1p(math.exp(low - high))


@exact_inner_kernel
def _add_page(scores: Array, query_top: float, begin: int, page: Array, sessions: int, room: Any) -> Any:
    """log P(page) = sum over i of s(d_i) - log Z_i; adds to `room.expected` the draws on so many of such pages."""
    logs, expected = room.logs, room.expected
    top, total = _off_page(scores, query_top, room.powers, begin, page, room.rest)
    _log_sums(scores, page, top, total, logs)
    value = share = drawn = 0.0
    for i in range(len(page)):
        value += scores[page[i]] - logs[i]
        share += math.exp(top - logs[i]) if total > 0.0 else 0.0
        # sum over ranks l <= i of Z_i / Z_l, at most i + 1
        drawn = 1.0 + (drawn * math.exp(logs[i] - logs[i - 1]) if i else 0.0)
        expected[page[i] - begin] += sessions * drawn * math.exp(scores[page[i]] - logs[i])
    _add_row(sessions * share, room.rest, expected)
    return value


@exact_inner_kernel
def longest_page(pages: Any) -> int:
    """The length of the longest page."""
    most = 0
    for p in range(len(pages.sessions)):
        most = max(most, pages.offsets[p + 1] - pages.offsets[p])
    return most


@exact_kernel
def value_and_gradient(
    first: int, last: int, offsets: Array, features: Array, scores: Array, pages: Any
) -> tuple[float, Array]:
    """log L = sum over pages of n (sum over ranks i of s(d_i) - log Z_i), and its gradient, for queries `first:last`.

    n is the number of sessions with the page, s(d) = w x(d), and Z_i the sum of e^s(d) over the documents that are not
    above rank i. The gradient by w is the sum over d of x(d) (sessions with d on the page - expected draws of d), the
    latter the sum over pages and ranks i with d not above i of n e^s(d) / Z_i.
    """
    rest, powers, expected = np.empty((3, longest_of(first, last, offsets)))
    logs = np.empty(longest_page(pages) + 1)
    value, gradient = 0.0, np.zeros(features.shape[1])
    for q in range(first, last):
        if pages.first[q] == pages.first[q + 1]:
            continue
        begin, n = offsets[q], offsets[q + 1] - offsets[q]
        room = _Room(powers[:n], rest[:n], expected[:n], logs)
        top = _exponentials(scores[begin : begin + n], room.powers)
        expected[:n] = 0.0
        for p in range(pages.first[q], pages.first[q + 1]):
            page, sessions = pages.docs[pages.offsets[p] : pages.offsets[p + 1]], pages.sessions[p]
            value += sessions * _add_page(scores, top, begin, page, sessions, room)
            for d in page:
                expected[d - begin] -= sessions
        for i in range(n):
            _add_row(-expected[i], features[begin + i], gradient)
    return value, gradient


@exact_kernel
def information(first: int, last: int, offsets: Array, features: Array, scores: Array, pages: Any) -> Array:
    """Minus the Hessian of log L by w: the sum over pages of n (sum over ranks i of Cov_i(x)).

    Cov_i(x) = sum over d of p_i(d) x(d) x(d)' - m_i m_i', with p_i(d) = e^s(d) / Z_i for documents not above rank i,
    and m_i the mean of x under p_i. Only its lower triangle is filled.
    """
    rest, powers, expected = np.empty((3, longest_of(first, last, offsets)))
    logs = np.empty(longest_page(pages) + 1)
    size = features.shape[1]
    result, mean = np.zeros((size, size)), np.empty(size)
    for q in range(first, last):
        if pages.first[q] == pages.first[q + 1]:
            continue
        begin, n = offsets[q], offsets[q + 1] - offsets[q]
        room = _Room(powers[:n], rest[:n], expected[:n], logs)
        top = _exponentials(scores[begin : begin + n], room.powers)
        expected[:n] = 0.0
        for p in range(pages.first[q], pages.first[q + 1]):
            page, sessions = pages.docs[pages.offsets[p] : pages.offsets[p + 1]], pages.sessions[p]
            _add_page(scores, top, begin, page, sessions, room)
            mean[:] = 0.0
            total = 0.0
            for i in range(n):
                total += rest[i]
            for i in range(n):
                if rest[i] > 0.0:
                    _add_row(rest[i] / total, features[begin + i], mean)
            for i in range(len(page) - 1, -1, -1):  # the mean of what is left at rank i, from that at the next rank
                _scale(math.exp(logs[i + 1] - logs[i]), mean)
                _add_row(math.exp(scores[page[i]] - logs[i]), features[page[i]], mean)
                _add_square(-float(sessions), mean, result)
        for i in range(n):
            for j in range(size):
                mean[j] = features[begin + i, j]
            _add_square(expected[i], mean, result)
    return result


@exact_kernel
def plain_information(first: int, last: int, offsets: Array, features: Array, pages: Any) -> Array:
    """`information` at equal scores, as if each rank drew from all documents: needs no pass over pages.

    The sum over queries of draws / n_docs (sum over d of (x(d) - m) (x(d) - m)'), m being the mean of x in the query
    and `draws` the sum over its pages of sessions min(length, n_docs - 1). Only its lower triangle is filled.
    """
    size = features.shape[1]
    result, mean, away = np.zeros((size, size)), np.empty(size), np.empty(size)
    for q in range(first, last):
        begin, n = offsets[q], offsets[q + 1] - offsets[q]
        draws = 0.0
        for p in range(pages.first[q], pages.first[q + 1]):
            draws += pages.sessions[p] * min(pages.offsets[p + 1] - pages.offsets[p], n - 1)
        if draws == 0.0:
            continue
        mean[:] = 0.0
        for d in range(begin, begin + n):
            _add_row(1.0 / n, features[d], mean)
        for d in range(begin, begin + n):
            for j in range(size):
                away[j] = features[d, j] - mean[j]
            _add_square(draws / n, away, result)
    return result


_PARTS = 16  # sums over queries are taken in as many parts, so that they do not depend on the number of threads
_CLOSE = 1e-8  # stop when the log-likelihood has less than this to gain
_MOST = 500  # iterations
_HALVINGS = 40
_FOUND = 3.0  # times the candidates there are; of the right form it is within 10 % of 1 given 300 pages
_MODEL, _REMEDY = "a linear policy", "policies.propensity_from_log"
_CERTAIN = 0.01  # a page on average as likely as exp(-this) is no matter of chance


@dataclass(frozen=True, eq=False)
class FittedPlackettLuce:
    """A Plackett-Luce policy and the scores it ranks by, fitted to pages.

    Attributes:
        policy: `PlackettLuce(k)` of temperature 1: pages identify score / temperature only, so the temperature of the
            policy that made them is part of the scores.
        scores: of each document of the data, those of queries without pages too.
        coefficients: of the features, scaled to [0, 1] in each query.
        standard_errors: of the coefficients, from the Hessian; None without `errors`.
        log_likelihood: of a page on average.
        uniform_log_likelihood: the same if all documents were equally likely: what is better than this was learned.
        pages: how many pages it was fitted to.
        short_pages: how many of them have fewer documents than the policy would show, min(k, candidates).
        candidates_found: the sum of 1 / P(shown) over all documents shown, in units of the candidates of all sessions.
            Near 1 if the policy is right, whatever it is; far above where pages hold documents that it all but rules
            out.
        iterations: how many steps were taken.
        converged: whether the likelihood had nothing left to gain.
        feature_names: of the data; None where it has none.
    """

    policy: PlackettLuce
    scores: FloatArray
    coefficients: FloatArray
    standard_errors: FloatArray | None
    log_likelihood: float
    uniform_log_likelihood: float
    pages: int
    short_pages: int
    candidates_found: float
    iterations: int
    converged: bool
    feature_names: tuple[str, ...] | None = None

    def predict(self, data: RankingData, *, threads: int | None = None) -> FloatArray:
        """The scores of other data with the same features."""
        check_type(data, RankingData, "data")
        n_features = len(self.coefficients)
        names = self.feature_names or tuple(f"feature_{i + 1}" for i in range(n_features))
        has_names = self.feature_names is not None
        aligned = align_features(data, names, has_names, reference="the policy", number=f"expected {n_features}")
        refuse_missing(aligned, _MODEL, _REMEDY)
        return in_data_order(_scores(aligned.normalized(), self.coefficients, threads), data)


def fit_plackett_luce(
    data: RankingData,
    clicks: ClickCounts,
    k: int | None = None,
    *,
    ridge: float = 1.0,
    errors: bool = False,
    threads: int | None = None,
) -> FittedPlackettLuce:
    """The Plackett-Luce policy with a linear score under which the displayed pages are most likely.

        maximise  sum over pages of sum over ranks i of  s(d_i) - log sum over documents not above rank i of e^s
                  - ridge / 2 |w|^2,            s(d) = w . x(d), x scaled to [0, 1] in each query

    Display frequencies say little about a query with one session. This model pools the pages of all queries, at the
    price of a form: it is right if the policy draws by softmax of a score that is linear in the features. Another form
    shows in `candidates_found`, since E[sum over documents shown of 1 / P(shown)] is the number of candidates; a
    warning comes above 3. Scores are fitted by BFGS from w = 0; the problem is concave. Use
    `found.policy.propensity(found.scores, data.offsets, exam)` as rho.

    Arguments:
        data: what was searched.
        clicks: of this data, with the pages kept (`displays`).
        k: the length of the policy's pages; None for no cutoff. A longer page is an error; shorter ones than
            min(k, candidates) take part with what they show, with a warning, since propensities are those of full ones.
        ridge: a normal prior on the coefficients, of variance 1 / ridge. With 0, pages that a score explains without
            error (a deterministic policy) are the more likely the larger the score; a warning says so.
        errors: also the standard errors of the coefficients, which cost a pass over the pages with the Hessian.
        threads: None for all cores; the result does not depend on it.

    >>> from counterrank.clicks.simulation import simulate
    >>> rng = np.random.default_rng(0)
    >>> data = RankingData(rng.random((200, 2)), np.arange(0, 201, 10), labels=rng.integers(0, 5, 200))
    >>> scores = data.normalized().features @ [3.0, -1.0]
    >>> clicks = simulate(data, scores, PlackettLuce(k=3), [1.0, 0.5, 0.3], sessions=20_000, displays=True)
    >>> fit_plackett_luce(data, clicks, k=3).coefficients.round(1).tolist()
    [3.0, -1.0]
    """
    counts, depth = check_counts(clicks), check_cutoff(k)
    counts.check_data(data)
    refuse_missing(data, _MODEL, _REMEDY)
    check_all_candidates(counts)
    names = counts.active_policies
    if len(names) > 1:
        warnings.warn(
            f"clicks: of several policies ({', '.join(map(repr, names))}), to which one is fitted; its propensities "
            f"may be wrong (--only-policy {names[-1]}, clicks.only_policies([{names[-1]!r}]) keeps the pages of one)",
            stacklevel=2,
        )
    prior = check_number(ridge, "ridge", at_least=0)
    pages, short = _check_pages(counts, depth)
    scaled = data.normalized()
    total = int(pages.sessions.sum())
    problem = _Problem(scaled, pages, prior, thread_count(threads))
    found, iterations, converged = _minimise(problem.value_and_gradient, problem.start())
    value = problem.likelihood(found)[0] / total
    policy, scores = PlackettLuce(depth), in_data_order(_scores(scaled, found, threads), data)
    share = _candidates_found(policy, scores, counts, threads)
    _warn(iterations, converged, value, short, total, share)
    uniform = problem.likelihood(np.zeros(data.n_features))[0]
    return FittedPlackettLuce(
        policy=policy,
        scores=scores,
        coefficients=found,
        standard_errors=problem.errors(found) if errors else None,
        log_likelihood=value,
        uniform_log_likelihood=uniform / total,
        pages=total,
        short_pages=short,
        candidates_found=share,
        iterations=iterations,
        converged=converged,
        feature_names=data.feature_names if data.has_feature_names else None,
    )


def _candidates_found(policy: PlackettLuce, scores: FloatArray, clicks: ClickCounts, threads: int | None) -> float:
    """sum over documents shown of 1 / P(shown), over the candidates of all sessions."""
    everywhere = Examination(np.ones(int(clicks.ranks.max())))
    chances = policy.propensity(scores, clicks.offsets, everywhere, threads=threads)
    shown = clicks.by_document(clicks.impressions)
    found = np.divide(shown, np.maximum(chances, 1e-200), out=np.zeros(len(shown)), where=shown > 0.0)
    return float(found.sum() / (clicks.sessions * np.diff(clicks.offsets)).sum())


def _warn(iterations: int, converged: bool, value: float, short: int, total: int, share: float) -> None:
    """Warn of what makes the fit doubtful."""
    found = []
    if not converged:
        found.append(f"not converged after {iterations} steps; try a larger ridge")
    if value > -_CERTAIN:
        found.append(
            "a score explains every page, so the policy seems to draw nothing at random, and propensities of what it "
            "did not show are made up by the fit"
        )
    if short:
        found.append(
            f"{short:,} of {total:,} pages are shorter than the policy's, min(k, candidates); propensities are those "
            "of full pages"
        )
    if share > _FOUND:
        found.append(
            f"pages hold documents that the fitted policy all but rules out (candidates_found={share:.3g}, expected "
            "about 1), so the log is of a policy of another form; use policies.propensity_from_log"
        )
    for text in found:
        warnings.warn(f"fit_plackett_luce: {text}", stacklevel=3)


@dataclass(frozen=True, eq=False)
class _Problem:
    """Minus the penalised log-likelihood, as a function of the coefficients."""

    data: RankingData
    pages: Pages
    ridge: float
    threads: int

    def likelihood(self, coefficients: FloatArray) -> tuple[float, FloatArray]:
        """The log-likelihood and its gradient."""
        found = self._run(value_and_gradient, _scores(self.data, coefficients, self.threads), self.pages)
        return float(sum(value for value, _ in found)), np.sum([gradient for _, gradient in found], axis=0)

    def value_and_gradient(self, coefficients: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = self.likelihood(coefficients)
        penalty = 0.5 * self.ridge * float(coefficients @ coefficients)
        return penalty - value, self.ridge * coefficients - gradient

    def start(self) -> FloatArray:
        """An inverse Hessian to begin with, of the right size in every direction."""
        lower = np.sum(self._run(plain_information, self.pages), axis=0)
        return self._inverse(lower, 1e-8)

    def errors(self, coefficients: FloatArray) -> FloatArray:
        """Standard errors of the coefficients, from the Hessian; nan where pages and prior hold no information."""
        scores = _scores(self.data, coefficients, self.threads)
        lower = np.sum(self._run(information, scores, self.pages), axis=0)
        variances = np.diag(self._inverse(lower, 1e-14))
        informed = np.diag(lower) + self.ridge > 0.0
        return np.where(informed, np.sqrt(np.maximum(variances, 0.0)), np.nan)

    def _inverse(self, lower: FloatArray, jitter: float) -> FloatArray:
        full: FloatArray = np.tril(lower) + np.tril(lower, -1).T
        full[np.diag_indices_from(full)] += self.ridge + jitter * max(float(np.trace(full)), 1.0)
        inverse = np.linalg.inv(full)
        return np.asarray(0.5 * (inverse + inverse.T), np.float64)

    def _run(self, kernel: Callable[..., Any], *args: Any) -> list[Any]:
        offsets = self.data.offsets
        jobs = [
            partial(kernel, first, last, offsets, self.data.features, *args)
            for first, last in split_queries(offsets, _PARTS)
        ]
        return run_parallel(jobs, self.threads)


def _minimise(
    function: Callable[[FloatArray], tuple[float, FloatArray]], inverse: FloatArray
) -> tuple[FloatArray, int, bool]:
    """The minimum of a convex function by BFGS from 0, the steps taken, and whether it was reached.

    Arguments:
        function: gives value and gradient.
        inverse: the inverse Hessian to begin with; changed.
    """
    place = np.zeros(len(inverse))
    value, gradient = function(place)
    for step in range(_MOST):
        direction = -(inverse @ gradient)
        slope = float(gradient @ direction)
        if -0.5 * slope < _CLOSE:
            return place, step, True
        size = 1.0
        for _ in range(_HALVINGS):
            there = place + size * direction
            new_value, new_gradient = function(there)
            if new_value <= value + 1e-4 * size * slope:
                break
            size *= 0.5
        else:  # rounding leaves nothing to gain along a direction that should
            return place, step, -0.5 * slope < 1e-9 * max(1.0, abs(value))
        moved, turned = there - place, new_gradient - gradient
        curvature = float(moved @ turned)
        if curvature > 0.0:
            _update(inverse, moved, turned, curvature)
        place, value, gradient = there, new_value, new_gradient
    return place, _MOST, False


def _update(inverse: FloatArray, moved: FloatArray, turned: FloatArray, curvature: float) -> None:
    """The BFGS update of an inverse Hessian, in place."""
    image = inverse @ turned
    inverse += (1.0 + float(turned @ image) / curvature) / curvature * np.outer(moved, moved)
    inverse -= (np.outer(moved, image) + np.outer(image, moved)) / curvature


def _scores(scaled: RankingData, coefficients: ArrayLike, threads: int | None) -> FloatArray:
    given = check_vector(coefficients, scaled.n_features, "coefficients", "features")
    out = np.empty(scaled.n_docs)
    for_queries(linear_scores, scaled.offsets, scaled.features, given, out, threads=threads)
    return out


def _check_pages(clicks: ClickCounts, k: int | None) -> tuple[Pages, int]:
    """The pages by query, and how many sessions saw one that is shorter than the policy's."""
    kept: Displays | None = clicks.displays
    if kept is None:
        raise CounterrankError("clicks: pages were not kept; expected counts with displays, as simulate(displays=True)")
    if not kept.n_pages:
        raise CounterrankError("clicks: no pages; expected at least one to fit a policy to")
    owner = query_of(kept.docs[kept.offsets[:-1]], clicks.offsets)
    lengths = np.diff(kept.offsets)
    longest = int(lengths.max())
    if k is not None and longest > k:
        raise CounterrankError(f"k={k}: the log has a page of {longest} documents; expected k of at least that")
    candidates = np.diff(clicks.offsets)[owner]
    full = candidates if k is None else np.minimum(candidates, k)
    first = np.searchsorted(owner, np.arange(clicks.n_queries + 1))
    pages = Pages(first, kept.offsets, kept.docs, kept.sessions)
    return pages, int(kept.sessions[lengths < full].sum())
