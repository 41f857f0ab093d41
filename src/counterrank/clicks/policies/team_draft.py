"""The pages of team-draft interleaving (Radlinski, Kurup and Joachims, CIKM 2008), one for each path of its coins.

Two rankings take turns in rounds. A coin decides which goes first; each adds to the page its highest document that is
not on it yet, and is credited with the clicks on it. A page of k documents takes ceil(k / 2) rounds, so that there are
2**ceil(k / 2) equally likely paths, and each probability is a sum over them:

    P(d at rank r) = number of paths with d at r / 2**ceil(k / 2)

Paths may make the same page, in other teams. Coin j of path number p is bit j of p; 0 lets the first ranking begin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from counterrank.clicks.displays import offsets_of
from counterrank.clicks.policies.page_kernels import rank_queries
from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.jit import Array, exact_kernel
from counterrank.common.parallel import for_queries
from counterrank.common.ranking import longest_of

MOST = 20  # documents on a page: 1,024 paths


class CoinPages(NamedTuple):
    """The page of each path of the coins, query after query."""

    counts: IntArray  # how many paths each query has
    offsets: IntArray  # where each page begins
    places: IntArray  # its documents, as places in the query
    teams: IntArray  # who picked them: 0 for the first ranking, 1 for the second


@exact_kernel
def interleave(
    first: int, last: int, offsets: Array, orders: Array, k: int, begins: Array, places: Array, teams: Array
) -> None:
    """Write the pages of all paths of the coins for these queries; `begins` says where those of each begin.

    orders[r] holds the places of the documents by ranking r, query after query.
    """
    page_of = np.empty(longest_of(first, last, offsets), np.int64)  # the number of the last page with each place
    heads = np.zeros(2, np.int64)
    for q in range(first, last):
        row, at = offsets[q], begins[q]
        length = min(k, offsets[q + 1] - row)
        page_of[:] = -1
        for path in range(1 << ((length + 1) // 2)):
            heads[:] = 0
            for j in range(length):
                team = ((path >> (j // 2)) & 1) ^ (j & 1)
                while page_of[orders[team, row + heads[team]]] == path:
                    heads[team] += 1
                place = orders[team, row + heads[team]]
                page_of[place] = path
                places[at], teams[at] = place, team
                at += 1


def coin_pages(rankings: FloatArray, offsets: IntArray, k: int, threads: int | None = None) -> CoinPages:
    """The pages of all paths of the coins for each query.

    Arguments:
        rankings: scores of the two rankings, (2, n_docs).
        offsets: of the queries.
        k: how many documents a page has, at most `MOST`.

    >>> pages = coin_pages(np.array([[3.0, 2.0, 1.0], [1.0, 3.0, 2.0]]), np.array([0, 3]), 2)
    >>> pages.places.tolist(), pages.teams.tolist()  # 0 begins, then 1; or the other way round
    ([0, 1, 1, 0], [0, 1, 1, 0])
    """
    orders = np.empty(rankings.shape, np.int64)
    for scores, order in zip(rankings, orders, strict=True):
        for_queries(rank_queries, offsets, np.ascontiguousarray(scores), order, threads=threads)
    lengths = np.minimum(np.diff(offsets), k)
    counts = 1 << ((lengths + 1) // 2)
    begins = offsets_of(counts * lengths)
    places, teams = np.empty((2, begins[-1]), np.int64)
    for_queries(interleave, offsets, orders, k, begins, places, teams, threads=threads)
    return CoinPages(counts, offsets_of(np.repeat(lengths, counts)), places, teams)
