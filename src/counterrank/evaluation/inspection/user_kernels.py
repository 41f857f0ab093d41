"""Kernels of user models: empirical Bayes over relevance on a grid, and dependent clicks along pages.

Documents have a relevance t on a grid t_1 ... t_M, with one prior for each group of documents. A kind of place j (a
rank, or a rank and the rank of the last click above) is clicked with P(click | t, j) = low_j + (high_j - low_j) t.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from counterrank.clicks.trust_bias_kernels import normalise
from counterrank.common.jit import Array, inner_kernel, kernel


class Cells(NamedTuple):
    """Impressions and clicks by kind of place of documents, or of what several documents have in common.

    Attributes:
        starts: the cells of document d are starts[d]:starts[d + 1].
        kinds: the kind of place of each cell.
        impressions: of each cell.
        clicks: of each cell.
        groups: of each document.
        weights: how many documents a row stands for.
    """

    starts: Array
    kinds: Array
    impressions: Array
    clicks: Array
    groups: Array
    weights: Array


class Pages(NamedTuple):
    """Pages: where each begins, the documents by rank, and whether each was clicked."""

    offsets: Array
    docs: Array
    clicked: Array


@inner_kernel
def _posterior(cells: Cells, log_p: Array, log_q: Array, log_prior: Array, doc: int, out: Array) -> float:
    """P(t_m | clicks on a document), and log sum_m P(t_m | group) prod_j P(click)^c (1 - P(click))^(n - c)."""
    group = cells.groups[doc]
    for m in range(len(out)):
        out[m] = log_prior[group, m]
    for i in range(cells.starts[doc], cells.starts[doc + 1]):
        j, c = cells.kinds[i], cells.clicks[i]
        left = cells.impressions[i] - c
        if c > 0.0:
            for m in range(len(out)):
                out[m] += c * log_p[j, m] + left * log_q[j, m]
        else:
            for m in range(len(out)):
                out[m] += left * log_q[j, m]
    return normalise(out)


class Expected(NamedTuple):
    """What the E-step adds up.

    Attributes:
        shown: expected impressions by kind of place and grid point.
        clicked: expected clicks, the same.
        members: documents by group and grid point.
    """

    shown: Array
    clicked: Array
    members: Array


@kernel
def expected_counts(
    cells: Cells, log_p: Array, log_q: Array, log_prior: Array, grid: Array, expected: Expected, means: Array
) -> float:
    """The E-step: adds to `expected`, puts E[t | clicks] in `means`; returns the marginal log-likelihood."""
    posterior = np.empty(len(grid))
    total = 0.0
    for doc in range(len(cells.groups)):
        weight, group = cells.weights[doc], cells.groups[doc]
        total += weight * _posterior(cells, log_p, log_q, log_prior, doc, posterior)
        mean = 0.0
        for m in range(len(grid)):
            mean += posterior[m] * grid[m]
            posterior[m] *= weight
            expected.members[group, m] += posterior[m]
        means[doc] = mean
        for i in range(cells.starts[doc], cells.starts[doc + 1]):
            j, n, c = cells.kinds[i], cells.impressions[i], cells.clicks[i]
            for m in range(len(grid)):
                expected.shown[j, m] += n * posterior[m]
                expected.clicked[j, m] += c * posterior[m]
    return total


@kernel
def posterior_means(cells: Cells, log_p: Array, log_q: Array, log_prior: Array, grid: Array, out: Array) -> None:
    """E[t | clicks] of each document."""
    posterior = np.empty(len(grid))
    for doc in range(len(cells.groups)):
        _posterior(cells, log_p, log_q, log_prior, doc, posterior)
        mean = 0.0
        for m in range(len(posterior)):
            mean += posterior[m] * grid[m]
        out[doc] = mean


@kernel
def chains(pages: Pages, relevance: Array, going_on: Array, seen: Array, stayed: Array) -> None:
    """P(examined | all clicks on the page) of each place under dependent clicks, and who goes on after a click.

    A user examines rank by rank; after a click at rank j the user goes on with probability lambda_j = going_on[j], else
    always. So everything up to the last click, at rank j, was examined, and what is below with probability

        lambda_j Q / (1 - lambda_j + lambda_j Q),     Q = prod of 1 - relevance below j,

    0 or 1 for all of it. `stayed` (ranks, 2) gets the expected numbers of users who went on and of clicks, by rank of
    the click, the last rank of a page left out.
    """
    for page in range(len(pages.offsets) - 1):
        begin, end = pages.offsets[page], pages.offsets[page + 1]
        last = begin - 1
        for i in range(begin, end):
            if pages.clicked[i]:
                last = i
        posterior = 1.0
        if last >= begin:
            missed = 1.0
            for i in range(last + 1, end):
                missed *= 1.0 - relevance[pages.docs[i]]
            rate = going_on[last - begin]
            posterior = rate * missed / max(1.0 - rate + rate * missed, 1e-300)
        for i in range(begin, end):
            seen[i] = 1.0 if i <= last else posterior
            if pages.clicked[i] and i + 1 < end:
                stayed[i - begin, 0] += posterior if i == last else 1.0
                stayed[i - begin, 1] += 1.0


@kernel
def predict_chains(pages: Pages, relevance: Array, going_on: Array, out: Array) -> None:
    """P(click | clicks above) of each place under dependent clicks: relevance times P(examined | clicks above).

    e_1 = 1,     e_{k+1} = lambda_k after a click,     e_k (1 - t) / (1 - e_k t) after none
    """
    for page in range(len(pages.offsets) - 1):
        seen = 1.0
        for i in range(pages.offsets[page], pages.offsets[page + 1]):
            p = seen * relevance[pages.docs[i]]
            out[i] = p
            if pages.clicked[i]:
                seen = going_on[i - pages.offsets[page]]
            else:
                seen = (seen - p) / max(1.0 - p, 1e-300)
