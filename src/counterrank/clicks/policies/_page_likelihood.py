"""Kernels: how likely displayed pages are under Plackett-Luce with a linear score, with gradient and Hessian.

    log P(page d_1 .. d_L) = sum over i of  s(d_i) - log Z_i,
    Z_i = sum of e^s over the documents of the query that are not among d_1 .. d_(i-1)

Documents off the page are in every Z_i. Sums are built up from the end of the page, so that nothing is subtracted and
nothing overflows: log Z_i = log(Z_(i+1) + e^s(d_i)).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from counterrank.common.jit import Array, exact_kernel, kernel
from counterrank.common.ranking import longest_of

_TINY = 1e-200  # a sum of exponentials as small as this may have lost terms


class Pages(NamedTuple):
    """Distinct pages in the order of their queries."""

    first: Array  # where the pages of each query begin, (n_queries + 1,)
    offsets: Array  # where each page begins in docs
    docs: Array  # by rank, as rows of the data
    sessions: Array  # how often each page was shown


@kernel
def _dot(row: Array, coefficients: Array) -> float:
    total = 0.0
    for j in range(len(coefficients)):
        total += row[j] * coefficients[j]
    return total


@kernel
def _add_row(scale: float, row: Array, out: Array) -> None:
    for j in range(len(out)):
        out[j] += scale * row[j]


@kernel
def _add_square(scale: float, row: Array, out: Array) -> None:
    """The lower triangle of scale * row row^T."""
    for i in range(len(row)):
        one = scale * row[i]
        if one != 0.0:
            line = out[i]
            for j in range(i + 1):
                line[j] += one * row[j]


@exact_kernel
def linear_scores(first: int, last: int, offsets: Array, features: Array, coefficients: Array, out: Array) -> None:
    """The score of each document of queries `first:last`."""
    for d in range(offsets[first], offsets[last]):
        out[d] = _dot(features[d], coefficients)


@exact_kernel
def _exponentials(scores: Array, out: Array) -> float:
    """Fill `out` with e^(s - top); returns top, the largest score."""
    top = float(scores.max())
    for i in range(len(scores)):
        out[i] = math.exp(scores[i] - top)
    return top


@kernel
def _copy(values: Array, out: Array) -> None:
    for i in range(len(values)):
        out[i] = values[i]


@kernel
def _sum(values: Array) -> float:
    total = 0.0
    for i in range(len(values)):
        total += values[i]
    return total


@exact_kernel
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


@exact_kernel
def _log_sums(scores: Array, page: Array, top: float, total: float, out: Array) -> None:
    """log Z_i for each rank, and behind them that of the documents off the page."""
    length = len(page)
    out[length] = top + math.log(total) if total > 0.0 else -math.inf
    for i in range(length - 1, -1, -1):
        own, below = scores[page[i]], out[i + 1]
        high, low = max(own, below), min(own, below)
        out[i] = high + math.log1p(math.exp(low - high))


@exact_kernel
def _add_page(
    scores: Array, query_top: float, powers: Array, begin: int, page: Array, sessions: int, rest: Array, logs: Array,
    expected: Array,
) -> Any:  # fmt: skip
    """log P(page); adds to `expected` how often each document of the query is drawn on such pages on average."""
    top, total = _off_page(scores, query_top, powers, begin, page, rest)
    _log_sums(scores, page, top, total, logs)
    value = share = drawn = 0.0
    for i in range(len(page)):
        value += scores[page[i]] - logs[i]
        share += math.exp(top - logs[i]) if total > 0.0 else 0.0
        # sum over ranks l <= i of Z_i / Z_l, at most i + 1
        drawn = 1.0 + (drawn * math.exp(logs[i] - logs[i - 1]) if i else 0.0)
        expected[page[i] - begin] += sessions * drawn * math.exp(scores[page[i]] - logs[i])
    _add_row(sessions * share, rest, expected)
    return value


@exact_kernel
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
    """The log-likelihood of the pages of queries `first:last`, and its gradient by the coefficients of the features."""
    rest, powers, expected = np.empty((3, longest_of(first, last, offsets)))
    logs = np.empty(longest_page(pages) + 1)
    value, gradient = 0.0, np.zeros(features.shape[1])
    for q in range(first, last):
        if pages.first[q] == pages.first[q + 1]:
            continue
        begin, n = offsets[q], offsets[q + 1] - offsets[q]
        top = _exponentials(scores[begin : begin + n], powers[:n])
        expected[:n] = 0.0
        for p in range(pages.first[q], pages.first[q + 1]):
            page, sessions = pages.docs[pages.offsets[p] : pages.offsets[p + 1]], pages.sessions[p]
            value += sessions * _add_page(scores, top, powers[:n], begin, page, sessions, rest[:n], logs, expected[:n])
            for d in page:
                expected[d - begin] -= sessions
        for i in range(n):
            _add_row(-expected[i], features[begin + i], gradient)
    return value, gradient


@exact_kernel
def information(first: int, last: int, offsets: Array, features: Array, scores: Array, pages: Any) -> Array:
    """Minus the Hessian of the log-likelihood by the coefficients: at each rank the covariance of what may be drawn.

    Only its lower triangle is filled.
    """
    rest, powers, expected = np.empty((3, longest_of(first, last, offsets)))
    logs = np.empty(longest_page(pages) + 1)
    size = features.shape[1]
    result, mean = np.zeros((size, size)), np.empty(size)
    for q in range(first, last):
        if pages.first[q] == pages.first[q + 1]:
            continue
        begin, n = offsets[q], offsets[q + 1] - offsets[q]
        top = _exponentials(scores[begin : begin + n], powers[:n])
        expected[:n] = 0.0
        for p in range(pages.first[q], pages.first[q + 1]):
            page, sessions = pages.docs[pages.offsets[p] : pages.offsets[p + 1]], pages.sessions[p]
            _add_page(scores, top, powers[:n], begin, page, sessions, rest[:n], logs, expected[:n])
            mean[:] = 0.0
            total = rest[:n].sum()
            for i in range(n):
                if rest[i] > 0.0:
                    _add_row(rest[i] / total, features[begin + i], mean)
            for i in range(len(page) - 1, -1, -1):  # the mean of what is left at rank i, from that at the next rank
                mean *= math.exp(logs[i + 1] - logs[i])
                _add_row(math.exp(scores[page[i]] - logs[i]), features[page[i]], mean)
                _add_square(-float(sessions), mean, result)
        for i in range(n):
            _add_square(expected[i], features[begin + i].astype(np.float64), result)
    return result


@exact_kernel
def plain_information(first: int, last: int, offsets: Array, features: Array, pages: Any) -> Array:
    """`information` at equal scores as if each rank drew from all documents: needs no pass over pages.

    Only its lower triangle is filled.
    """
    size = features.shape[1]
    result, mean = np.zeros((size, size)), np.empty(size)
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
            _add_square(draws / n, features[d] - mean, result)
    return result
