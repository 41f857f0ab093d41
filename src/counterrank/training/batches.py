"""Mini-batches of whole queries: which rows they hold, and what the loss is to be told about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from counterrank.common.checks import FloatArray, IntArray
from counterrank.data import RankingData
from counterrank.training.evidence import Evidence
from counterrank.training.problem import normalized_evidence


class Batch(NamedTuple):
    """Some queries, the documents of one after the other.

    Attributes:
        rows: their documents, as rows of the data.
        offsets: where each query begins in `rows`.
        members: what is ranked, as entries of `rows`: the members of sets; None where it is the queries themselves.
        weights: of what is ranked.
        bounds: where each ranking begins in `members`, or in `rows`.
    """

    rows: IntArray
    offsets: IntArray
    members: IntArray | None
    weights: FloatArray
    bounds: IntArray


@dataclass(frozen=True)
class Batches:
    """Weighted queries to take batches of.

    Weights sum to the number of queries in absolute value, so that the loss of a batch divided by its queries is an
    average: it does not depend on how many queries there are, nor on the size of the batch.

    Attributes:
        queries: those that can teach something.
        offsets: of the data.
        weights: one per document, or per member of the sets.
        sets: with sets, the first set of each query, where sets begin, and their members by place in the query.
    """

    queries: IntArray
    offsets: IntArray
    weights: FloatArray
    sets: tuple[IntArray, IntArray, IntArray] | None

    @classmethod
    def make(cls, data: RankingData, evidence: Evidence) -> Batches:
        """Find the queries to learn from, and scale the weights."""
        queries, weights, sets = normalized_evidence(data, evidence.weights, evidence.sets)
        return cls(queries, data.offsets, weights * len(queries), None if sets is None else sets.by_query(data))

    def take(self, queries: IntArray) -> Batch:
        """The batch of these queries, in this order.

        >>> data = RankingData([[0.0], [1.0], [2.0], [3.0]], offsets=[0, 2, 4])
        >>> batches = Batches.make(data, Evidence(np.array([0.0, 1.0, 1.0, 0.0]), None))
        >>> batch = batches.take(np.array([1, 0]))
        >>> batch.rows.tolist(), batch.offsets.tolist(), batch.weights.tolist()
        ([2, 3, 0, 1], [0, 2, 4], [1.0, 0.0, 0.0, 1.0])
        """
        rows, offsets = ranges(self.offsets, queries)
        if self.sets is None:
            return Batch(rows, offsets, None, self.weights[rows], offsets)
        first_set, set_offsets, places = self.sets
        chosen, _ = ranges(first_set, queries)
        entries, bounds = ranges(set_offsets, chosen)
        begin = np.repeat(offsets[:-1], set_offsets[first_set[queries + 1]] - set_offsets[first_set[queries]])
        return Batch(rows, offsets, places[entries] + begin, self.weights[entries], bounds)


def ranges(bounds: IntArray, chosen: IntArray) -> tuple[IntArray, IntArray]:
    """The numbers bounds[i]:bounds[i + 1] of each chosen i, one after the other, and where each begins among them.

    >>> [numbers, offsets] = ranges(np.array([0, 2, 5]), np.array([1, 0]))
    >>> numbers.tolist(), offsets.tolist()
    ([2, 3, 4, 0, 1], [0, 3, 5])
    """
    starts = bounds[chosen]
    lengths = bounds[chosen + 1] - starts
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths), offsets
