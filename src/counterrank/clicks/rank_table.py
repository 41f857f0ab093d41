"""`RankTable`: impressions and clicks of documents by rank, and which ranks documents connect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.clicks import position_bias_kernels as kernels
from counterrank.clicks.counts import ClickCounts
from counterrank.common.checks import FloatArray, IntArray, check_cutoff
from counterrank.common.errors import CounterrankError
from counterrank.data.ids import query_of


def last_rank(clicks: ClickCounts, k: Any) -> int:
    """The last rank to estimate: k, or the last of the log; an error where the log does not go so far."""
    wanted = check_cutoff(k)
    if not clicks.n_impressions:
        raise CounterrankError("clicks: nothing was shown; expected a log with pages")
    deepest = int(clicks.ranks[clicks.impressions > 0].max())
    if wanted is not None and wanted > deepest:
        raise CounterrankError(f"k={wanted}: the log shows ranks up to {deepest}; expected a rank it shows, or None")
    last = wanted or deepest
    if last < 2:
        where = "k=1" if wanted == 1 else "clicks: the log shows rank 1 alone"
        raise CounterrankError(f"{where}; expected two ranks or more, since they are compared with each other")
    return last


@dataclass(frozen=True, eq=False)
class RankTable:
    """Impressions and clicks of each document at each rank up to some rank, over all policies and propensities.

    Attributes:
        n_ranks: the last rank.
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


def rank_table(clicks: ClickCounts, n_ranks: int) -> RankTable:
    """All documents that were shown at ranks 1 to `n_ranks`."""
    return _table(clicks, (clicks.ranks <= n_ranks) & (clicks.impressions > 0), n_ranks)


def interventional_set(clicks: ClickCounts, n_ranks: int) -> RankTable:
    """The documents that were shown at two ranks or more, and clicked at one of them or more (Agarwal et al., 2019).

    A document shown at one rank has a relevance of its own that explains its clicks whatever the examination; one that
    was never clicked is explained by relevance 0 at every rank. Neither says anything about a ratio.
    """
    shown = rank_table(clicks, n_ranks)
    keep = np.zeros(clicks.n_docs, np.bool_)
    keep[shown.docs[(np.diff(shown.starts) > 1) & (shown.by_document(shown.clicks) > 0.0)]] = True
    return _table(clicks, (clicks.ranks <= n_ranks) & (clicks.impressions > 0) & keep[clicks.docs], n_ranks)


def _table(clicks: ClickCounts, inside: np.ndarray, n_ranks: int) -> RankTable:
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
    return RankTable(
        n_ranks,
        np.append(starts, len(first)).astype(np.int64),
        ranks[first],
        impressions,
        clicked,
        rows,
        np.append(query_starts, len(rows)).astype(np.int64),
    )


def connected_groups(table: RankTable) -> list[list[int]]:
    """Ranks from 1 that documents of the table join, directly or through other ranks; smallest first."""
    labels = kernels.join_ranks(table.starts, table.ranks, table.n_ranks)
    return [(np.flatnonzero(labels == label) + 1).tolist() for label in np.unique(labels)]


def check_connected(table: RankTable) -> None:
    """An error unless documents join all ranks with rank 1."""
    groups = connected_groups(table)
    if len(groups) == 1:
        return
    first = groups[0]
    fewer = f", or k={first[-1]}" if first == list(range(1, len(first) + 1)) and len(first) > 1 else ""
    raise CounterrankError(
        f"clicks: no clicked document was shown at ranks of two of the groups {_format_groups(groups)}, so this log "
        "cannot separate position bias from relevance; expected documents shown at several ranks: show some pages "
        "under uniform-insert or plackett-luce, or swap two ranks on some pages (replace-last alone, or a fixed order, "
        f"shows each document at one rank){fewer}"
    )


def _format_groups(groups: list[list[int]]) -> str:
    """Groups of ranks in short.

    >>> _format_groups([[1, 2, 3, 5], [4]])
    '{1-3, 5}, {4}'
    """
    texts = []
    for group in groups:
        runs = np.split(group, np.flatnonzero(np.diff(group) > 1) + 1)
        texts.append(", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs))
    return ", ".join(f"{{{text}}}" for text in texts)
