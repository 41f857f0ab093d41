"""Kernels of the estimates from clicks: values of documents, sums and variances by query, bootstrap sums."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from counterrank.common.jit import Array, exact_inner_kernel, exact_kernel
from counterrank.common.random import below, start_stream
from counterrank.common.ranking import longest_of, rank_order
from counterrank.evaluation.metric_kernels import ZERO, end_of_run, scratch


class Cells(NamedTuple):
    """The cells of a log with a residual, in the order of their documents.

    The residual of an impression is the click less its prediction by the click model. Without a model predictions are
    0: cells are those with clicks, and a residual is a click.
    """

    bounds: Array  # where the cells of each query begin, and their number at the end
    docs: Array
    ranks: Array  # from 0
    clicks: Array
    inverse: Array  # 1 / propensity
    sums: Array  # of the residuals of the impressions of the cell
    squares: Array  # of their squares
    fourths: Array  # of their fourth powers
    steady: Array  # impressions * (mean residual)^2, unbiased where shown more than once


class Pages(NamedTuple):
    """The distinct pages of a log, in the order of their queries."""

    bounds: Array  # where the pages of each query begin, and their number at the end
    offsets: Array  # where each page begins in docs and clicks
    docs: Array
    sessions: Array
    clicks: Array
    sums: Array  # of the residuals at each place, see `Cells`
    inverse: Array  # 1 / propensity of each document of the data that has a cell


@exact_kernel
def document_values(
    first: int, last: int, offsets: Array, scores: Array, average: bool, prefix: Array, out: Array
) -> None:
    """out[d, m] = lambda_m(rank_d) (`eq:ARP`, `eq:DCG`); `prefix` has a row of prefix sums for each lambda."""
    order, keys, spare = scratch(longest_of(first, last, offsets))
    for q in range(first, last):
        start = offsets[q]
        own = scores[start : offsets[q + 1]]
        rank_order(own, order, keys, spare)
        begin = ZERO
        while begin < len(own):
            end = end_of_run(own, order, begin) if average else begin + 1
            for m in range(len(prefix)):
                value = (prefix[m, end] - prefix[m, begin]) / (end - begin)
                for place in order[begin:end]:
                    out[start + place, m] = value
            begin = end


@exact_kernel
def query_sums(first: int, last: int, offsets: Array, cells: Cells, values: Array, omega: Array, terms: Array) -> None:
    """omega[q] = sum of residuals / rho, terms[q, m] = sum of residuals / rho * lambda_m (`eq:generalestimator`)."""
    for q in range(first, last):
        for i in range(cells.bounds[q], cells.bounds[q + 1]):
            weight = cells.sums[i] * cells.inverse[i]
            omega[q] += weight
            for m in range(values.shape[1]):
                terms[q, m] += weight * values[cells.docs[i], m]


@exact_kernel
def document_sums(
    first: int, last: int, offsets: Array, weights: Array, values: Array, omega: Array, terms: Array
) -> None:
    """omega[q] = sum of the weights of its documents, terms[q, m] = sum of weight * value m; from zeros."""
    for q in range(first, last):
        for d in range(offsets[q], offsets[q + 1]):
            omega[q] += weights[d]
            for m in range(values.shape[1]):
                terms[q, m] += weights[d] * values[d, m]


@exact_kernel
def session_variances(
    first: int,
    last: int,
    offsets: Array,
    cells: Cells,
    sessions: Array,
    values: Array,
    centres: Array,
    out: Array,
) -> None:
    """out[q, m] = the variance of the sum over the sessions of q of residual * (value - centre) / propensity.

    For each rank the sample variance over the n sessions of the query, those without a cell there counting as 0, times
    n: (sum of squares - sum^2 / n) * n / (n - 1). From zeros; queries with less than two sessions are left at 0.
    """
    sums = np.zeros((_depth(first, last, cells), len(centres)))
    for q in range(first, last):
        n = sessions[q]
        if n < 2:
            continue
        begin, end = cells.bounds[q], cells.bounds[q + 1]
        for i in range(begin, end):
            for m in range(len(centres)):
                term = (values[cells.docs[i], m] - centres[m]) * cells.inverse[i]
                sums[cells.ranks[i], m] += cells.sums[i] * term
                out[q, m] += cells.squares[i] * term * term
        for i in range(begin, end):
            for m in range(len(centres)):
                out[q, m] -= sums[cells.ranks[i], m] ** 2 / n  # a rank of several cells is taken off with its first
                sums[cells.ranks[i], m] = 0.0
        for m in range(len(centres)):
            out[q, m] *= n / (n - 1)


@exact_inner_kernel
def _depth(first: int, last: int, cells: Cells) -> int:
    """The lowest rank of the cells of the queries."""
    depth = 0
    for i in range(cells.bounds[first], cells.bounds[last]):
        depth = max(depth, cells.ranks[i] + 1)
    return depth


@exact_kernel
def page_moments(
    first: int, last: int, offsets: Array, pages: Pages, values: Array, centres: Array, out: Array
) -> None:
    """out[q, m] = the sums over the sessions of q of Y^2 and Y, Y = sum of residual * (value - centre) / propensity.

    A page shown s times with residuals of sum S_j and of squares T_j on its place j, each worth v_j, adds to the first
    sum over j of T_j v_j^2 + sum over j != l of S_j S_l v_j v_l / s, right on average if clicks are independent given
    the page. T_j - S_j^2 / s is clicks - clicks^2 / s whatever was predicted.
    """
    for q in range(first, last):
        out[q] = 0.0
        for p in range(pages.bounds[q], pages.bounds[q + 1]):
            for m in range(len(centres)):
                total, alone = 0.0, 0.0
                for j in range(pages.offsets[p], pages.offsets[p + 1]):
                    clicks = pages.clicks[j]
                    if clicks > 0 or pages.sums[j] != 0.0:
                        d = pages.docs[j]
                        value = (values[d, m] - centres[m]) * pages.inverse[d]
                        total += pages.sums[j] * value
                        alone += clicks * (1.0 - clicks / pages.sessions[p]) * value * value
                out[q, m, 0] += alone + total * total / pages.sessions[p]
                out[q, m, 1] += total


@exact_kernel
def correlated_ranks(
    first: int,
    last: int,
    offsets: Array,
    cells: Cells,
    sessions: Array,
    values: Array,
    centres: Array,
    out: Array,
) -> None:
    """out[q, m] = what the variance of `session_variances` lacks if the ranks of a page are perfectly correlated.

    b_r is the part of the variance of rank r that lies between its cells, unbiased where a cell was shown more than
    once; perfect correlation adds (sum of sqrt(b_r))^2 - sum of b_r. From zeros.
    """
    sums = np.zeros((2, _depth(first, last, cells), len(centres)))
    for q in range(first, last):
        n = sessions[q]
        if n < 2:
            continue
        begin, end = cells.bounds[q], cells.bounds[q + 1]
        for i in range(begin, end):
            for m in range(len(centres)):
                term = (values[cells.docs[i], m] - centres[m]) * cells.inverse[i]
                sums[0, cells.ranks[i], m] += cells.sums[i] * term
                sums[1, cells.ranks[i], m] += term * term * cells.steady[i]
        for m in range(len(centres)):
            roots, parts = 0.0, 0.0
            for i in range(begin, end):
                r = cells.ranks[i]
                part = max(sums[1, r, m] - sums[0, r, m] ** 2 / n, 0.0) * n / (n - 1)
                roots += np.sqrt(part)
                parts += part
                sums[0, r, m] = sums[1, r, m] = 0.0  # counted with the first cell of the rank
            out[q, m] = roots * roots - parts


@exact_kernel
def chance_moments(
    first: int, last: int, offsets: Array, sessions: Array, rho: Array, values: Array, centres: Array, out: Array
) -> None:
    """out[q, m] = second and third moment of the terms of the estimate if every examination led to a click.

    Sums over the documents of q that can be seen of sessions * rho * |(value - centre) / rho| ** 2 and ** 3.
    """
    for q in range(first, last):
        out[q] = 0.0
        for d in range(offsets[q], offsets[q + 1]):
            if sessions[q] > 0 and rho[d] > 0.0:
                for m in range(len(centres)):
                    term = abs(values[d, m] - centres[m]) / rho[d]
                    second = sessions[q] * rho[d] * term * term
                    out[q, m, 0] += second
                    out[q, m, 1] += second * term


@exact_kernel
def resampled_sums(first: int, last: int, key: np.uint64, rows: Array, out: Array) -> None:
    """out[r] = the sum of a bootstrap resample of the rows; one random stream for each resample."""
    state = np.empty(1, np.uint64)
    total = np.empty(rows.shape[1])
    for r in range(first, last):
        start_stream(state, key, r)
        total[:] = 0.0
        for _ in range(len(rows)):
            row = rows[below(state, len(rows))]
            for c in range(len(total)):
                total[c] += row[c]
        for c in range(len(total)):
            out[r, c] = total[c]
