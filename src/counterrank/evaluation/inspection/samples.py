"""A few of the queries, where all of them would take long."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterrank.clicks.counts import ClickCounts
from counterrank.common.checks import IntArray

DOCUMENTS = 200_000


@dataclass(frozen=True, eq=False)
class QuerySample:
    """All queries if they are few, else some that were asked, evenly spaced over the data.

    Attributes:
        queries: their indices.
        offsets: where the documents of each begin in `rows`.
        rows: their documents.
        share: how many of the sessions they have.
    """

    queries: IntArray
    offsets: IntArray
    rows: IntArray
    share: float

    @classmethod
    def of(cls, clicks: ClickCounts, documents: int = DOCUMENTS) -> QuerySample:
        """All queries, or every n-th that was asked, so that there are at most about so many documents.

        >>> one = np.array([], np.int64)
        >>> counts = ClickCounts("", np.array([0, 2, 4, 6]), np.array([1, 0, 1]), one, one, one, one)
        >>> QuerySample.of(counts).queries.tolist(), QuerySample.of(counts, 3).rows.tolist()
        ([0, 1, 2], [0, 1])
        """
        lengths = np.diff(clicks.offsets)
        queries = np.arange(clicks.n_queries)
        if clicks.n_docs > documents:
            asked = np.flatnonzero(clicks.sessions)
            queries = asked[:: max(1, int(np.ceil(lengths[asked].sum() / documents)))]
        offsets = np.concatenate(([0], np.cumsum(lengths[queries])))
        begin = np.repeat(clicks.offsets[queries] - offsets[:-1], lengths[queries])
        rows = begin + np.arange(offsets[-1])
        return cls(queries, offsets, rows, float(clicks.sessions[queries].sum()) / max(clicks.n_sessions, 1))

    def is_whole(self, clicks: ClickCounts) -> bool:
        """Whether these are all queries of the data, so that they keep their numbers."""
        return len(self.queries) == clicks.n_queries
