"""Control variates: how much of what was shown by chance to subtract from an estimate.

With X the sum over a page of click * lambda / rho, and Y that of P(examined | rank) * R * lambda / rho, the mean of Y
is known for any R(d): it is the sum of R * lambda over the documents that can be seen. Hence

    X - beta * (Y - mean of Y)

has the mean of X for any beta, and the smallest variance for

    beta* = Cov(X, Y) / Var(Y)

It is the doubly robust estimate with beta * R. Method "ips" takes R = 1; method "dr" takes its click model, which then
counts as far as it predicts clicks, from not at all (beta = 0, "ips") to fully (beta = 1, "dr").
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from counterrank.clicks.exposure import examined
from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.errors import CounterrankError
from counterrank.common.parallel import for_queries
from counterrank.evaluation import click_kernels as _click_kernels
from counterrank.evaluation.weighted_clicks import WeightedClicks, query_sums, with_control

FOLDS = 10  # of the queries; beta of a query comes from the other folds

_ROUNDING = 1e-9  # of a sum of squares, up to which a variance may be rounding
_EQUAL = 1e-12  # of values and centres, up to which their difference may be rounding


def controlled(
    weighted: WeightedClicks, values: FloatArray, centres: FloatArray, *, together: bool = False
) -> list[WeightedClicks]:
    """The clicks with the best control variate for sum(omega * (value - centre)), for each column of the values.

    beta is cross-fitted: that of a query comes from the clicks of other queries, so that the mean stays that of the
    method (in sample it would move by an order of 1 / sessions). Its variances are those within a query, which are what
    a control variate can reduce for either target population. It is kept within 0 and 1, which for a constant R are the
    limits of P(click | examined). With `together` all columns have one beta, the best for the sum of their variances.
    """
    folds = _folds(weighted.sessions)
    base = np.ones(int(weighted.offsets[-1])) if weighted.relevance is None else weighted.relevance
    covariances, variances = _moments(weighted, base, values, centres)
    if together:
        covariances, variances = covariances.sum(axis=1, keepdims=True), variances.sum(axis=1, keepdims=True)
    betas = np.zeros_like(covariances)
    for fold in range(int(folds.max()) + 1):
        others = (folds >= 0) & (folds != fold)
        above, below = covariances[others].sum(axis=0), variances[others].sum(axis=0)
        betas[folds == fold] = np.clip(np.divide(above, below, out=np.zeros_like(above), where=below > 0.0), 0.0, 1.0)
    # the prediction of the method itself is replaced
    own = 0.0 if weighted.relevance is None else weighted.relevance
    by_document = np.repeat(betas, np.diff(weighted.offsets), axis=0)
    return [with_control(weighted, beta * base - own) for beta in by_document.T]


def _folds(sessions: IntArray) -> IntArray:
    """The fold of each query with sessions, -1 for the others."""
    logged = np.flatnonzero(sessions > 0)
    if len(logged) < 2:
        raise CounterrankError(
            "control='optimal': sessions of 1 query; expected at least two, since beta of a query is taken from others"
        )
    folds = np.full(len(sessions), -1)
    folds[logged] = np.random.default_rng(0).permutation(len(logged)) % min(FOLDS, len(logged))
    return folds


def _moments(
    weighted: WeightedClicks, base: FloatArray, values: FloatArray, centres: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Cov(X, Y) and Var(Y) of the sums over the sessions of each query, for each column; X without predictions.

    The variance of X - b Y is a quadratic function of b, so that it follows from its values at -1, 0 and 1.
    """
    own = 0.0 if weighted.relevance is None else weighted.relevance
    at = [with_control(weighted, b * base - own) for b in (-1.0, 0.0, 1.0)]
    means = _mean_of_single_sessions(at[1], values, centres)
    back, zero, ahead = (_variances(each, values, centres, means) for each in at)
    covariances, variances = (back - ahead) / 4.0, (back + ahead) / 2.0 - zero
    steady = variances <= _ROUNDING * _sizes(weighted, base, values, centres)  # pages that do not vary leave rounding
    return np.where(steady, 0.0, covariances), np.where(steady, 0.0, variances)


def _variances(weighted: WeightedClicks, values: FloatArray, centres: FloatArray, means: FloatArray) -> FloatArray:
    """The variance of the sum over the sessions of each query, not bounded by 0, so that it is right on average.

    Of queries with a single session the squared distance of the sum to `means`: the mean of X does not matter to its
    covariance with Y, whose mean is known.
    """
    n, single = weighted.sessions[:, None], weighted.sessions == 1
    if weighted.pages is None:
        variances = np.zeros((len(weighted.sessions), len(centres)))
        given = weighted.offsets, weighted.cells, weighted.sessions, values, centres, variances
        for_queries(_click_kernels.session_variances, *given, threads=weighted.threads)
    else:
        moments = np.empty((len(weighted.sessions), len(centres), 2))
        of_pages = weighted.offsets, weighted.pages, values, centres, moments
        for_queries(_click_kernels.page_moments, *of_pages, threads=weighted.threads)
        variances = (moments[..., 0] - moments[..., 1] ** 2 / np.maximum(n, 1)) * n / np.maximum(n - 1, 1)
    if single.any():
        variances[single] = (_sums(weighted, values, centres)[single] - means) ** 2
    return variances


def _mean_of_single_sessions(weighted: WeightedClicks, values: FloatArray, centres: FloatArray) -> FloatArray:
    single = weighted.sessions == 1
    if not single.any():
        return np.zeros(len(centres))
    return np.asarray(_sums(weighted, values, centres)[single].mean(axis=0))


def _sums(weighted: WeightedClicks, values: FloatArray, centres: FloatArray) -> FloatArray:
    """sum(omega * (value - centre)) of each query, without a correction for click noise, which is a constant."""
    sums = query_sums(replace(weighted, noise=None), values)
    found = np.zeros((len(weighted.sessions), len(centres)))
    found[weighted.sessions > 0] = sums.terms - centres * sums.omega[:, None]
    return found


def _sizes(weighted: WeightedClicks, base: FloatArray, values: FloatArray, centres: FloatArray) -> FloatArray:
    """Of each query and column the sum of the squares of the terms of Y, at least what rounding makes of the largest.

    Rounding of one query reaches others through the mean of single sessions.
    """
    assert weighted.shown is not None
    counts, inverse, predictor, _ = weighted.shown
    once = counts.impressions * (examined(predictor.exam, counts) * inverse * base[counts.docs]) ** 2
    queries, n = counts.queries(), len(weighted.sessions)

    def squares(of: FloatArray) -> FloatArray:
        columns = [np.bincount(queries, once * each[counts.docs] ** 2, minlength=n) for each in of.T]
        return np.stack(columns, axis=1)

    rounding = _EQUAL**2 / _ROUNDING * squares(np.abs(values) + np.abs(centres)).max(axis=0)
    found: FloatArray = np.maximum(squares(values - centres), rounding)
    return found
