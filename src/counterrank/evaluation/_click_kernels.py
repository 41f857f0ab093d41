"""Kernels of the estimates from clicks: values of documents, sums and variances by query, sums of resamples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from counterrank.common.jit import Array, exact_kernel
from counterrank.common.random import below, start_stream
from counterrank.common.ranking import longest_of, rank_order
from counterrank.evaluation._kernels import end_of_run, scratch


class Cells(NamedTuple):
    """The clicked cells of a log, in the order of their documents."""

    bounds: Array  # where the cells of each query begin, and their number at the end
    docs: Array
    ranks: Array  # from 0
    clicks: Array
    inverse: Array  # 1 / propensity


@exact_kernel
def document_values(
    first: int, last: int, offsets: Array, scores: Array, average: bool, prefix: Array, out: Array
) -> None:
    """out[d, m] = lambda of metric m at the rank of document d; `prefix` has a row of prefix sums for each lambda."""
    order, keys, spare = scratch(longest_of(first, last, offsets))
    for q in range(first, last):
        start = offsets[q]
        own = scores[start : offsets[q + 1]]
        rank_order(own, order, keys, spare)
        begin = 0
        while begin < len(own):
            end = end_of_run(own, order, begin) if average else begin + 1
            for m in range(len(prefix)):
                value = (prefix[m, end] - prefix[m, begin]) / (end - begin)
                for place in order[begin:end]:
                    out[start + place, m] = value
            begin = end


@exact_kernel
def query_sums(first: int, last: int, offsets: Array, cells: Cells, values: Array, omega: Array, terms: Array) -> None:
    """omega[q] = sum of clicks / propensity, terms[q, m] = sum of clicks / propensity * value m; from zeros."""
    for q in range(first, last):
        for i in range(cells.bounds[q], cells.bounds[q + 1]):
            weight = cells.clicks[i] * cells.inverse[i]
            omega[q] += weight
            for m in range(values.shape[1]):
                terms[q, m] += weight * values[cells.docs[i], m]


@exact_kernel
def expected_noise(
    first: int, last: int, offsets: Array, rho: Array, values: Array, omega: Array, terms: Array
) -> None:
    """What one noise click on every document that can be seen adds to the sums of a session; both start as zeros."""
    for q in range(first, last):
        for d in range(offsets[q], offsets[q + 1]):
            if rho[d] > 0.0:
                omega[q] += 1.0
                for m in range(values.shape[1]):
                    terms[q, m] += values[d, m]


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
    """out[q, m] = the variance of the sum over the sessions of q of click * (value - centre) / propensity.

    For each rank the sample variance over the n sessions of the query, those without a click there counting as 0, times
    n: (sum of squares - sum^2 / n) * n / (n - 1). Of a single session it is the square itself.
    """
    depth = 0
    for i in range(cells.bounds[first], cells.bounds[last]):
        depth = max(depth, cells.ranks[i] + 1)
    sums = np.zeros((depth, len(centres)))
    for q in range(first, last):
        n = sessions[q]
        begin, end = cells.bounds[q], cells.bounds[q + 1]
        out[q] = 0.0
        for i in range(begin, end):
            for m in range(len(centres)):
                term = (values[cells.docs[i], m] - centres[m]) * cells.inverse[i]
                sums[cells.ranks[i], m] += cells.clicks[i] * term
                out[q, m] += cells.clicks[i] * term * term
        for i in range(begin, end):
            for m in range(len(centres)):
                if n > 1:  # a rank of several cells is taken off with its first
                    out[q, m] -= sums[cells.ranks[i], m] ** 2 / n
                sums[cells.ranks[i], m] = 0.0
        if n > 1:
            out[q] *= n / (n - 1)


@exact_kernel
def chance_moments(
    first: int, last: int, offsets: Array, sessions: Array, rho: Array, values: Array, centres: Array, out: Array
) -> None:
    """out[q, m] = second and third moment of what clicks add, had every examination brought one.

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
    """out[r] = the sum of as many rows as there are, drawn with replacement; one stream for each resample."""
    state = np.empty(1, np.uint64)
    total = np.empty(rows.shape[1])
    for r in range(first, last):
        start_stream(state, key, r)
        total[:] = 0.0
        for _ in range(len(rows)):
            row = rows[below(state, len(rows))]
            for c in range(len(total)):
                total[c] += row[c]
        out[r] = total
