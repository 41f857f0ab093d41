"""Groups of documents with like display distributions, from impressions alone.

Ranks tell relevance: a policy shows high what it takes for relevant. So a prior over relevance must belong to documents
that are displayed alike; and what it is conditioned on may be anything but clicks.
"""

from __future__ import annotations

import numpy as np

from counterrank.clicks.rank_table import RankTable
from counterrank.common.checks import FloatArray, IntArray

FEWEST_SESSIONS = 3  # of a query; with fewer, a place in the logging order cannot be told from its pages
_HEAD = 0.5  # share of the query's sessions from which a document belongs to the head
_SHARES = (0.05, 0.2)  # of the query's sessions, between groups of the tail
_FEWEST, _MOST_GROUPS = 10, 40  # documents of a group, and groups
_SPLIT_FROM = 200  # documents of a group that is halved
_DIFFERENT, _RELEVANT = 4.0, 0.02  # standard errors, and the share of the variance of ranks between documents
_SPLITS = 3  # halvings of a group


def display_groups(table: RankTable, sessions: FloatArray) -> IntArray:
    """The group of each document, from 0; -1 for those left out: of queries with too few sessions, and groups of few.

    Documents on at least half of the query's pages are the head. Their groups are places in the order of exposure,
    sum_k n_k (2 K - k + 1) / (2 K), within the query, apart by whether they were seen at one rank only. The others are
    grouped by the share of pages with them. A group is halved at its median rank as long as the mean ranks of its
    documents differ more than impressions of the same distribution would.

    Arguments:
        table: impressions by document and rank.
        sessions: of the query of each document.
    """
    n_ranks = table.n_ranks
    shown = table.by_document(table.impressions)
    depth = table.by_document(table.impressions * table.ranks)
    share = shown / sessions
    exposure = (shown - depth / (2.0 * n_ranks)) / sessions
    query = np.repeat(np.arange(table.n_queries), np.diff(table.query_starts))
    order = np.lexsort((-exposure, query))
    place = np.empty(table.n_docs, np.int64)
    place[order] = np.arange(table.n_docs) - table.query_starts[query[order]]
    single = np.diff(table.starts) == 1
    head = share >= _HEAD
    tail = len(_SHARES) - np.searchsorted(_SHARES, share, side="right")
    keys = np.where(head, 2 * np.minimum(place, n_ranks) + single, 2 * n_ranks + 2 + tail)
    keys[sessions < FEWEST_SESSIONS] = -1
    return _numbered(_split(table, keys, shown, depth / np.maximum(shown, 1.0)))


def _split(table: RankTable, keys: IntArray, shown: FloatArray, mean_rank: FloatArray) -> IntArray:
    """Halve groups at the median of the mean rank while documents of a group are displayed differently."""
    squares = table.by_document(table.impressions * table.ranks.astype(np.float64) ** 2) - shown * mean_rank**2
    for _ in range(_SPLITS):
        if len(np.unique(keys)) > _MOST_GROUPS // 2:
            break
        split = np.zeros(len(keys), np.bool_)
        for key in np.unique(keys[keys >= 0]):
            own = np.flatnonzero((keys == key) & (shown > 1.0))
            if len(own) >= _SPLIT_FROM and _differ(shown[own], mean_rank[own], squares[own]):
                inside = keys == key
                split |= inside & (mean_rank > np.median(mean_rank[own]))
        if not split.any():
            break
        keys = np.where(keys >= 0, 2 * keys + split, -1)
    return keys


def _differ(shown: FloatArray, mean_rank: FloatArray, squares: FloatArray) -> bool:
    """Whether mean ranks vary more between documents than ranks within documents explain (analysis of variance)."""
    between_freedom, within_freedom = len(shown) - 1, float(shown.sum()) - len(shown)
    within = float(squares.sum()) / within_freedom
    centre = float((shown * mean_rank).sum() / shown.sum())
    between = float((shown * (mean_rank - centre) ** 2).sum()) / between_freedom
    if within <= 0.0:
        return between > 0.0
    excess = between / within - 1.0
    error = np.sqrt(2.0 / between_freedom + 2.0 / within_freedom)
    of_documents = excess / float(shown.mean())
    return bool(excess > _DIFFERENT * error and of_documents / (1.0 + of_documents) > _RELEVANT)


def _numbered(keys: IntArray) -> IntArray:
    """Keys as numbers from 0 in their order; -1 for groups of few documents, which say little."""
    found, place, counts = np.unique(keys, return_inverse=True, return_counts=True)
    kept = (found >= 0) & (counts >= _FEWEST)
    numbers = np.where(kept, np.cumsum(kept) - 1, -1)
    result: IntArray = numbers[place.ravel()]
    return result
