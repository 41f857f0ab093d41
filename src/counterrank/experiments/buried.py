"""Where the relevant documents that one ranker buried end up under others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.common.checks import FloatArray, IntArray
from counterrank.data.ids import place_in_query, query_of_rows


@dataclass(frozen=True)
class Buried:
    """Relevant documents that a ranker put below rank `beyond`.

    Attributes:
        beyond: the last rank that is not buried.
        documents: how many there are.
        queries: how many queries have one.
        ranks: by ranker, how many of them it puts on rank 1, on rank 2, and so on.
    """

    beyond: int
    documents: int
    queries: int
    ranks: dict[str, list[int]]

    def shares(self, upto: int) -> dict[str, float | None]:
        """By ranker, which share of them it puts on the first `upto` ranks; None where nothing was buried.

        >>> Buried(20, 4, 3, {"naive": [1, 0, 2, 1]}).shares(upto=3)
        {'naive': 0.75}
        """
        total = self.documents
        return {name: sum(counts[:upto]) / total if total else None for name, counts in self.ranks.items()}


def find_buried(
    relevant: NDArray[np.bool_], offsets: IntArray, scores: Mapping[str, FloatArray], buried_by: str, beyond: int = 20
) -> Buried:
    """Follow the relevant documents that `buried_by` puts below rank `beyond` through the rankings of all.

    Of equal scores the document that comes first in the data ranks first.

    Arguments:
        relevant: which documents are.
        offsets: of the queries.
        scores: by ranker.
        buried_by: one of them.
        beyond: the last rank that is not buried.

    >>> scores = {"old": np.array([3.0, 2.0, 1.0]), "new": np.array([1.0, 2.0, 3.0])}
    >>> find_buried(np.array([False, False, True]), np.array([0, 3]), scores, "old", beyond=2).ranks
    {'old': [0, 0, 1], 'new': [1, 0, 0]}
    """
    queries = query_of_rows(offsets)
    ranks = {name: _ranks(values, queries, offsets) for name, values in scores.items()}
    chosen = np.flatnonzero(relevant & (ranks[buried_by] > beyond))
    longest = int(np.diff(offsets).max())
    counts = {name: np.bincount(values[chosen] - 1, minlength=longest).tolist() for name, values in ranks.items()}
    return Buried(beyond, len(chosen), len(np.unique(queries[chosen])), counts)


def _ranks(scores: FloatArray, queries: IntArray, offsets: IntArray) -> IntArray:
    """The rank of each document in its query, from 1."""
    ranks = np.empty(len(scores), np.int64)
    ranks[np.lexsort((-scores, queries))] = place_in_query(offsets) + 1
    return ranks
