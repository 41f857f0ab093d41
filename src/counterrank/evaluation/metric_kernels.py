"""Kernels of the metrics. Each ranks the queries `first:last` and writes only what belongs to them.

A run of documents with equal scores holds the ranks begin+1 .. end, each document equally likely on each of
them. With `sums` the prefix sums of a value by rank, the expected value of such a document is
(sums[end] - sums[begin]) / (end - begin).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from counterrank.common.jit import Array, exact_allocating_kernel, exact_inner_kernel, exact_kernel
from counterrank.common.ranking import longest_of, rank_order

# up to so many documents, counting who stands above each (vector code) beats sorting the query
_FEW = 16

# typed, since numba compiles whatever is called with a literal 0 once more for that
ZERO: Any = np.int64(0)


class RankingRequest(NamedTuple):
    """What to compute from a ranking."""

    average: bool  # whether ties are averaged, else document order counts
    cutoffs: Array  # for hits and dcg, at most the length of the longest query
    gain_cutoffs: Array  # for the graded gains
    deepest: int  # the largest of them, or 0
    sums: Array  # prefix sums of the discounts
    gains: Array  # gain of the whole labels 0, 1, 2, ...


class QueryStatistics(NamedTuple):
    """What the kernels compute: one entry per query, and where there are cutoffs one column for each."""

    n_relevant: Array
    rank_sum: Array  # of the relevant documents
    reciprocal_rank: Array  # of the first relevant document
    precision_sum: Array  # of the precisions at the ranks of the relevant documents
    hits: Array  # relevant documents up to the cutoff
    dcg: Array  # their discounts
    gain_dcg: Array  # discounted gains up to the cutoff
    gain_ideal: Array  # the most that any order of the documents reaches


@exact_inner_kernel
def how_many(values: Array) -> int:
    """The number of values that are not 0."""
    count = 0
    for value in values:
        count += value != 0
    return count


@exact_allocating_kernel
def scratch(n: int) -> tuple[Array, Array, Array]:
    """Arrays for `rank_order`; apart, since numba does not know rows of a matrix to be contiguous."""
    return np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)


@exact_inner_kernel
def end_of_run(scores: Array, order: Array, begin: int) -> int:
    """One past the last rank (from 0) whose document ties with the one at `begin`."""
    value = scores[order[begin]]
    end = begin + 1
    while end < len(scores) and scores[order[end]] == value:
        end += 1
    return end


@exact_kernel
def weighted_queries(
    first: int, last: int, offsets: Array, scores: Array, weights: Array, prefix: Array, out: Array
) -> None:
    """out[q] = sum over d of omega_d lambda(rank_d) (`eq:generalestimator`, omega the sums of 1 / rho over clicks).

    `prefix` has the prefix sums of lambda (`eq:ARP`, `eq:DCG`).

    >>> out, prefix = np.empty(1), np.array([0.0, 1.0, 3.0])  # of lambda = 1, 2: the rank
    >>> weighted_queries(0, 1, np.array([0, 2]), np.array([0.1, 0.7]), np.array([1.0, 0.0]), prefix, out)
    >>> out.tolist()
    [2.0]
    """
    order, keys, spare = scratch(longest_of(first, last, offsets))
    for q in range(first, last):
        own = scores[offsets[q] : offsets[q + 1]]
        omega = weights[offsets[q] : offsets[q + 1]]
        if how_many(omega) <= _FEW:
            out[q] = few_weighted(own, omega, prefix)
        else:
            rank_order(own, order, keys, spare)
            out[q] = many_weighted(own, omega, prefix, order)


@exact_inner_kernel
def few_weighted(scores: Array, omega: Array, prefix: Array) -> float:
    """sum over d with omega_d != 0 of omega_d (prefix[a + t] - prefix[a]) / t: `weighted_queries` of one query.

    a documents score higher than d and t as high, d included: the mean of lambda over the ranks that they share.
    """
    total = 0.0
    for i in range(len(scores)):
        if omega[i] != 0.0:
            score = scores[i]
            above = 0
            tied = 0
            for other in scores:
                above += other > score
                tied += other == score
            total += omega[i] * (prefix[above + tied] - prefix[above]) / tied
    return total


@exact_inner_kernel
def many_weighted(scores: Array, omega: Array, prefix: Array, order: Array) -> float:
    """sum over runs of equal scores of (sum of omega) (prefix[end] - prefix[begin]) / (end - begin): as `few_weighted`.

    Walks down the ranking once; a run has the ranks begin+1 .. end.
    """
    total = 0.0
    begin = ZERO
    while begin < len(scores):
        end = end_of_run(scores, order, begin)
        value = prefix[end] - prefix[begin]
        if end == begin + 1:  # most often; spares the division
            total += omega[order[begin]] * value
        else:
            together = 0.0
            for place in order[begin:end]:
                together += omega[place]
            total += together * value / (end - begin)
        begin = end
    return total


@exact_inner_kernel
def expected_reciprocal_rank(above: int, size: int, relevant: int) -> float:
    """E[1 / rank of the first relevant document] when it is in the run below the first `above` ranks.

    Of `size` tied documents the first of `relevant` comes j-th with probability
    C(size - j, relevant - 1) / C(size, relevant); each follows from the one before.
    """
    probability = relevant / size
    total = 0.0
    for j in range(1, size - relevant + 2):
        total += probability / (above + j)
        probability *= (size - j - relevant + 1) / max(size - j, 1)
    return total


@exact_inner_kernel
def expected_precision_sum(above: int, above_relevant: int, size: int, relevant: int) -> float:
    """E[sum of precision at the ranks of the relevant documents] of one run of tied documents.

    The j-th document is relevant with probability relevant / size; given that, each of the j - 1 before it is
    with probability (relevant - 1) / (size - 1) (McSherry and Najork, ECIR 2008).
    """
    share = (relevant - 1) / max(size - 1, 1)
    total = 0.0
    for j in range(1, size + 1):
        total += (above_relevant + 1 + (j - 1) * share) / (above + j)
    return total * relevant / size


@exact_kernel
def label_queries(
    first: int,
    last: int,
    offsets: Array,
    scores: Array,
    relevant: Array,
    labels: Array,
    request: RankingRequest,
    statistics: QueryStatistics,
) -> None:
    """What `QueryStatistics` lists, in one walk down the ranking (`eq:ARP`, `eq:DCG`); `statistics` starts as zeros."""
    order, keys, spare = scratch(longest_of(first, last, offsets))
    deepest = request.deepest
    for q in range(first, last):
        own = scores[offsets[q] : offsets[q + 1]]
        is_relevant = relevant[offsets[q] : offsets[q + 1]]
        label = labels[offsets[q] : offsets[q + 1]]
        total = how_many(is_relevant)
        statistics.n_relevant[q] = total
        rank_order(own, order, keys, spare)
        seen = begin = ZERO
        while begin < len(own) and (seen < total or begin < deepest):
            end = end_of_run(own, order, begin) if request.average else begin + 1
            here = ZERO
            for place in order[begin:end]:
                here += is_relevant[place]
            if here:
                add_relevant(q, begin, end, seen, here, request, statistics)
            if begin < deepest:
                gain = 0.0
                for place in order[begin:end]:
                    gain += gain_of(label[place], request.gains)
                if gain > 0.0:
                    add_gain(begin, end, gain, request.gain_cutoffs, request.sums, statistics.gain_dcg[q])
            seen += here
            begin = end


@exact_inner_kernel
def add_relevant(
    q: int, begin: int, end: int, seen: int, here: int, request: RankingRequest, statistics: QueryStatistics
) -> None:
    """Add `here` relevant documents in the run of ranks begin+1 .. end, all orders equally likely, `seen` above it.

    rank_sum += here (begin + end + 1) / 2; hits at c += here |run within the first c ranks| / (end - begin); for the
    others see `expected_reciprocal_rank`, `expected_precision_sum` and `add_gain`.
    """
    size = end - begin
    statistics.rank_sum[q] += here * (begin + 0.5 * (size + 1))
    if seen == 0:
        statistics.reciprocal_rank[q] = expected_reciprocal_rank(begin, size, here)
    statistics.precision_sum[q] += expected_precision_sum(begin, seen, size, here)
    add_gain(begin, end, float(here), request.cutoffs, request.sums, statistics.dcg[q])
    share = here / size
    for c in range(len(request.cutoffs)):
        statistics.hits[q, c] += share * max(0, min(end, request.cutoffs[c]) - begin)


@exact_inner_kernel
def add_gain(begin: int, end: int, gain: float, cutoffs: Array, sums: Array, out: Array) -> None:
    """out_c += gain / (end - begin) * sum of D_n over the ranks n of begin+1 .. end up to cutoff c (`eq:DCG`)."""
    share = gain / (end - begin)
    for c in range(len(cutoffs)):
        if begin < cutoffs[c]:
            out[c] += share * (sums[min(end, cutoffs[c])] - sums[begin])


@exact_inner_kernel
def gain_of(label: float, gains: Array) -> float:
    """2**label - 1, and 0 for labels below 0; the whole labels of the table need no power."""
    if label <= 0.0:
        return 0.0
    whole = int(label)
    if whole == label and whole < len(gains):
        gain: float = gains[whole]
        return gain
    return 2.0 ** np.float64(label) - 1.0


@exact_kernel
def ideal_queries(
    first: int, last: int, offsets: Array, labels: Array, request: RankingRequest, statistics: QueryStatistics
) -> None:
    """gain_ideal = sum of (2^label - 1) D_rank with labels in falling order; `statistics` starts as zeros."""
    order, keys, spare = scratch(longest_of(first, last, offsets))
    counts = np.empty(len(request.gains), np.int64)
    cutoffs, sums = request.gain_cutoffs, request.sums
    for q in range(first, last):
        own = labels[offsets[q] : offsets[q + 1]]
        begin = ZERO
        if count_whole(own, counts):
            for label in range(len(counts) - 1, 0, -1):
                end = begin + counts[label]
                if end > begin:
                    add_gain(begin, end, counts[label] * request.gains[label], cutoffs, sums, statistics.gain_ideal[q])
                    begin = end
        else:
            rank_order(own.astype(np.float64), order, keys, spare)
            for place in order[: len(own)]:
                gain = gain_of(own[place], request.gains)
                add_gain(begin, begin + 1, gain, cutoffs, sums, statistics.gain_ideal[q])
                begin += 1


@exact_inner_kernel
def count_whole(labels: Array, counts: Array) -> bool:
    """How often each whole label occurs (below 0 as 0); False if one is not whole or too large to count."""
    counts[:] = 0
    largest = len(counts) - 1
    all_whole = True
    for label in labels:  # without a branch, since labels in a query are hard to predict
        positive = max(label, np.float32(0.0))
        whole = np.int64(min(positive, np.float32(largest)))
        all_whole &= np.float32(whole) == positive
        counts[whole] += 1
    return all_whole
