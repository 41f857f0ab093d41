"""What a log says about position bias: the documents that were seen at several ranks and clicked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterrank.clicks.counts import ClickCounts
from counterrank.common.checks import FloatArray, IntArray
from counterrank.data.ids import query_of


@dataclass(frozen=True, eq=False)
class Seen:
    """Impressions and clicks of each document at each rank up to some rank, over all policies and propensities.

    Attributes:
        n_ranks: ranks 1 to this one are looked at.
        starts: the cells of document i are starts[i]:starts[i + 1].
        ranks: the rank of each cell, from 0.
        impressions: of each cell, as float64.
        clicks: of each cell, as float64.
        docs: the row of each document in the data.
        query_starts: the documents of query q are query_starts[q]:query_starts[q + 1]; of queries that have some.
    """

    n_ranks: int
    starts: IntArray
    ranks: IntArray
    impressions: FloatArray
    clicks: FloatArray
    docs: IntArray
    query_starts: IntArray

    @property
    def n_docs(self) -> int:
        """How many documents there are."""
        return len(self.docs)

    @property
    def n_queries(self) -> int:
        """How many queries have a document here."""
        return len(self.query_starts) - 1

    def cells(self) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
        """What kernels take: starts, ranks, impressions, clicks."""
        return self.starts, self.ranks, self.impressions, self.clicks

    def by_document(self, values: FloatArray) -> FloatArray:
        """Numbers of the cells added up for each document."""
        sums: FloatArray = np.add.reduceat(values, self.starts[:-1]) if self.n_docs else np.zeros(0)
        return sums


def seen(clicks: ClickCounts, n_ranks: int) -> Seen:
    """All documents that were shown at ranks 1 to `n_ranks`."""
    inside = (clicks.ranks <= n_ranks) & (clicks.impressions > 0)
    return _table(clicks, inside, n_ranks)


def compared(clicks: ClickCounts, n_ranks: int) -> Seen:
    """Those documents that tell ranks apart: shown at two ranks or more, and clicked at one of them or more.

    A document seen at one rank has a relevance of its own that explains its clicks whatever the examination; one that
    was never clicked is explained by relevance 0 at every rank. Neither says anything about a ratio.
    """
    everything = seen(clicks, n_ranks)
    n_cells = np.diff(everything.starts)
    clicked = everything.by_document(everything.clicks) > 0.0
    keep = np.zeros(clicks.n_docs, np.bool_)
    keep[everything.docs[(n_cells > 1) & clicked]] = True
    inside = (clicks.ranks <= n_ranks) & (clicks.impressions > 0) & keep[clicks.docs]
    return _table(clicks, inside, n_ranks)


def _table(clicks: ClickCounts, inside: np.ndarray, n_ranks: int) -> Seen:
    docs, ranks = clicks.docs[inside], clicks.ranks[inside] - 1
    new = np.ones(len(docs), np.bool_)  # cells that differ in policy or propensity alone are one cell here
    new[1:] = (docs[1:] != docs[:-1]) | (ranks[1:] != ranks[:-1])
    first = np.flatnonzero(new)
    impressions, clicked = (
        np.add.reduceat(column[inside], first).astype(np.float64) if len(first) else np.zeros(0)
        for column in (clicks.impressions, clicks.clicks)
    )
    rows, starts = np.unique(docs[first], return_index=True)
    _, query_starts = np.unique(query_of(rows, clicks.offsets), return_index=True)
    return Seen(
        n_ranks,
        np.append(starts, len(first)).astype(np.int64),
        ranks[first],
        impressions,
        clicked,
        rows,
        np.append(query_starts, len(rows)).astype(np.int64),
    )
