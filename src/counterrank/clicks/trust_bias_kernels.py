"""Kernels of trust bias: the marginal likelihood of affine clicks and its derivatives; see `trust_bias`.

Parameters are numbered: intercept and slope of rank k at 2 k and 2 k + 1, then for each group the logarithms of its
prior probabilities, up to a constant.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from counterrank.common.jit import Array, exact_kernel, inner_kernel, kernel

_FAINT = 1e-10  # a posterior probability below it adds nothing that shows


class Point(NamedTuple):
    """Parameters, tabulated on the grid of relevance t_1 ... t_M.

    Attributes:
        grid: t_m, (M,).
        log_p: log P(click | t_m, rank k), (K, M).
        log_q: log of 1 - P, (K, M).
        inverse_p: 1 / P where a small change of P is possible, 0 where P is at its bound, (K, M).
        inverse_q: the same of 1 - P, (K, M).
        log_prior: log P(t_m | group g), (G, M).
    """

    grid: Array
    log_p: Array
    log_q: Array
    inverse_p: Array
    inverse_q: Array
    log_prior: Array


class Rows(NamedTuple):
    """Documents, or patterns that several of them share.

    Attributes:
        starts: the cells of row i are starts[i]:starts[i + 1].
        ranks: of each cell, from 0.
        impressions: of each cell.
        clicks: of each cell.
        groups: of each row.
        weights: how many documents have this pattern.
    """

    starts: Array
    ranks: Array
    impressions: Array
    clicks: Array
    groups: Array
    weights: Array


@inner_kernel
def normalise(out: Array) -> float:
    """Probabilities from their logarithms up to a constant, in place; the logarithm of the sum that they had."""
    most = out[0]
    for m in range(len(out)):
        most = max(most, out[m])
    total = 0.0
    for m in range(len(out)):
        out[m] = math.exp(out[m] - most)
        total += out[m]
    for m in range(len(out)):
        out[m] /= total
    value: float = most + math.log(total)
    return value


@inner_kernel
def _posterior(rows: Rows, point: Point, row: int, out: Array) -> float:
    """P(t_m | clicks of the row) by grid point, and the log-likelihood log sum_m P(t_m | g) prod_k p^c q^(n - c)."""
    for m in range(len(out)):
        out[m] = point.log_prior[rows.groups[row], m]
    for i in range(rows.starts[row], rows.starts[row + 1]):
        k, c = rows.ranks[i], rows.clicks[i]
        left = rows.impressions[i] - c
        for m in range(len(out)):
            out[m] += c * point.log_p[k, m] + left * point.log_q[k, m]
    return normalise(out)


@inner_kernel
def _slopes(rows: Rows, point: Point, row: int, m: int, scores: Array, bends: Array) -> None:
    """Of each cell of a row at one grid point: u = c / p - (n - c) / q, and c / p^2 + (n - c) / q^2.

    The first is the derivative of log P(clicks | t_m) for the intercept of its rank, the second minus the second one;
    those for the slope have a factor t_m for each slope.
    """
    first = rows.starts[row]
    for i in range(rows.starts[row + 1] - first):
        k, c = rows.ranks[first + i], rows.clicks[first + i]
        gain, loss = c * point.inverse_p[k, m], (rows.impressions[first + i] - c) * point.inverse_q[k, m]
        scores[i] = gain - loss
        bends[i] = gain * point.inverse_p[k, m] + loss * point.inverse_q[k, m]


@kernel
def log_likelihood(rows: Rows, point: Point, begin: int, end: int) -> float:
    """Sum over rows from `begin` to `end` of the weight times the log-likelihood."""
    posterior = np.empty(len(point.grid))
    total = 0.0
    for row in range(begin, end):
        total += rows.weights[row] * _posterior(rows, point, row, posterior)
    return total


@kernel
def derivatives(
    rows: Rows, point: Point, begin: int, end: int, score: Array, information: Array, whole: Array
) -> float:
    """The log-likelihood of some rows; adds its score s, minus its second derivative, and what that is at known t.

        s = E[s_m],   -d^2 log L = E[-d s_m] - Var(s_m)           over the posterior w_m of t_m  (Louis, 1982)

    with s_m the derivatives of log P(t_m, clicks): u_m and u_m t_m of each cell, and for log prior probabilities 1 at
    m, 0 elsewhere. What is known of the prior is left to the caller: minus P(t_m), and its covariance. `whole` gets
    the diagonal of E[-d s_m] for intercepts and slopes. Only the lower triangle of `information` is filled.
    """
    n_ranks, n_grid = point.log_p.shape
    posterior, bends = np.empty(n_grid), np.empty(n_ranks)
    scores, mean = np.empty(n_ranks), np.empty(2 * n_ranks)
    kept, cross = np.empty(n_grid, np.int64), np.empty((n_grid, 2 * n_ranks))
    second = np.empty((2 * n_ranks, 2 * n_ranks))
    total = 0.0
    for row in range(begin, end):
        weight, first = rows.weights[row], rows.starts[row]
        cells = rows.starts[row + 1] - first
        prior = 2 * n_ranks + rows.groups[row] * n_grid
        total += weight * _posterior(rows, point, row, posterior)
        mean[: 2 * cells] = 0.0
        second[: 2 * cells, : 2 * cells] = 0.0
        n_kept = 0
        for m in range(n_grid):
            share = posterior[m]
            if share < _FAINT:
                continue
            kept[n_kept] = m
            own = cross[n_kept]
            n_kept += 1
            _slopes(rows, point, row, m, scores, bends)
            t = point.grid[m]
            for i in range(cells):
                bend = share * bends[i]
                second[2 * i, 2 * i] -= bend
                second[2 * i + 1, 2 * i] -= bend * t
                second[2 * i + 1, 2 * i + 1] -= bend * t * t
                place = 2 * rows.ranks[first + i]
                whole[place] += weight * bend
                whole[place + 1] += weight * bend * t * t
                own[2 * i], own[2 * i + 1] = scores[i], scores[i] * t
            for a in range(2 * cells):
                mean[a] += share * own[a]
                for b in range(a + 1):
                    second[a, b] += share * own[a] * own[b]
        for a in range(2 * cells):
            place = 2 * rows.ranks[first + a // 2] + a % 2
            score[place] += weight * mean[a]
            for b in range(a + 1):
                other = 2 * rows.ranks[first + b // 2] + b % 2
                information[place, other] += weight * (mean[a] * mean[b] - second[a, b])
        for x in range(n_kept):
            share = weight * posterior[kept[x]]
            place = prior + kept[x]
            score[place] += share
            information[place, place] -= share
            for a in range(2 * cells):
                information[place, 2 * rows.ranks[first + a // 2] + a % 2] += share * (mean[a] - cross[x, a])
            for y in range(x + 1):
                information[place, prior + kept[y]] += share * posterior[kept[y]]
    return total


@kernel
def query_scores(rows: Rows, query_starts: Array, point: Point, begin: int, end: int, out: Array) -> None:
    """The score of each query from `begin` to `end` as a row of `out`: sum over its rows of E[s_m] - E_prior[s_m]."""
    n_ranks, n_grid = point.log_p.shape
    posterior, scores, bends = np.empty(n_grid), np.empty(n_ranks), np.empty(n_ranks)
    for query in range(begin, end):
        score = out[query - begin]
        for row in range(query_starts[query], query_starts[query + 1]):
            _posterior(rows, point, row, posterior)
            group, first = rows.groups[row], rows.starts[row]
            for m in range(n_grid):
                share = posterior[m]
                score[2 * n_ranks + group * n_grid + m] += share - math.exp(point.log_prior[group, m])
                if share < _FAINT:
                    continue
                _slopes(rows, point, row, m, scores, bends)
                for i in range(rows.starts[row + 1] - first):
                    place = 2 * rows.ranks[first + i]
                    score[place] += share * scores[i]
                    score[place + 1] += share * scores[i] * point.grid[m]


@kernel
def profiled_information(rows: Rows, point: Point, lines: Array, begin: int, end: int, out: Array) -> None:
    """Adds the information on intercepts and slopes, the relevance of each row profiled out as if it were free.

        sum over rows of [ sum_k w_k g g' - v v' / sum_k w_k slope_k^2 ],    v = sum_k w_k slope_k g

    with w_k = n_k / (p_k q_k), g = (1, t) in the place of rank k, and t = E[t | clicks].
    """
    n_ranks, n_grid = point.log_p.shape
    posterior, w = np.empty(n_grid), np.empty(n_ranks)
    for row in range(begin, end):
        _posterior(rows, point, row, posterior)
        t = 0.0
        for m in range(n_grid):
            t += posterior[m] * point.grid[m]
        first, cells = rows.starts[row], rows.starts[row + 1] - rows.starts[row]
        total = 0.0
        for i in range(cells):
            k = rows.ranks[first + i]
            p = min(max(lines[k, 0] + lines[k, 1] * t, 1e-4), 1.0 - 1e-4)
            w[i] = rows.weights[row] * rows.impressions[first + i] / (p * (1.0 - p))
            total += w[i] * lines[k, 1] ** 2
        for i in range(cells):
            k = rows.ranks[first + i]
            for j in range(cells):
                other = rows.ranks[first + j]
                found = w[i] if i == j else 0.0
                if total > 0.0:
                    found -= w[i] * lines[k, 1] * w[j] * lines[other, 1] / total
                out[2 * k, 2 * other] += found
                out[2 * k, 2 * other + 1] += found * t
                out[2 * k + 1, 2 * other] += found * t
                out[2 * k + 1, 2 * other + 1] += found * t * t


@exact_kernel
def pattern_keys(starts: Array, ranks: Array, impressions: Array, clicks: Array, groups: Array) -> Array:
    """A 64-bit hash of group and cells of each row: rows with equal hashes are taken to be equal."""
    keys = np.empty(len(groups), np.uint64)
    for row in range(len(groups)):
        key = _mixed(np.uint64(groups[row]) + np.uint64(0x9E3779B97F4A7C15))
        for i in range(starts[row], starts[row + 1]):
            key = _mixed(key ^ np.uint64(ranks[i]))
            key = _mixed(key ^ np.uint64(impressions[i]))
            key = _mixed(key ^ np.uint64(clicks[i]))
        keys[row] = key
    return keys


@exact_kernel
def _mixed(key: Any) -> Any:
    """The finaliser of splitmix64."""
    mixed = np.uint64(key) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
