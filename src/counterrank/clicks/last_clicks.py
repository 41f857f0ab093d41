"""Impressions and clicks by document, rank and rank of the last click above: what dependent clicks are learned from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.errors import CounterrankError


@dataclass(frozen=True, eq=False)
class LastClicks:
    """Impressions and clicks of each document at each rank, by the rank of the last click above on the same page.

    Rows stand in the order of document, rank, rank of the last click (and policy), each once.

    Attributes:
        docs: the document of each row, as a row of the data.
        ranks: its rank, from 1.
        above: the rank of the last click above it, 0 where there was none.
        impressions: how often it was shown there with the last click there.
        clicks: how often it was clicked then.
        policies: the number of the policy, as in `ClickCounts.policy_names`; None if the log names none.
    """

    docs: IntArray
    ranks: IntArray
    above: IntArray
    impressions: IntArray
    clicks: IntArray
    policies: IntArray | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            array = getattr(self, each.name)
            if array is not None:
                array.flags.writeable = False

    def __len__(self) -> int:
        return len(self.docs)

    def pairs(self) -> IntArray:
        """The number of the pair (rank, rank of the last click) of each row: 0 for (1, 0), then (2, 0), (2, 1), ...

        >>> one = np.ones(3, np.int64)
        >>> LastClicks(one, np.array([1, 2, 2]), np.array([0, 0, 1]), one, one).pairs().tolist()
        [0, 1, 2]
        """
        return self.ranks * (self.ranks - 1) // 2 + self.above


def added_up(rows: LastClicks) -> LastClicks:
    """The rows in order, with those of equal keys added up.

    >>> two = LastClicks(*np.array([[7, 7], [2, 2], [1, 1], [3, 4], [0, 2]]))
    >>> added_up(two).impressions.tolist(), added_up(two).clicks.tolist()
    ([7], [2])
    """
    if not len(rows):
        return rows
    keys = [rows.above, rows.ranks, rows.docs]
    if rows.policies is not None:
        keys.insert(0, rows.policies)
    order = np.lexsort(keys)
    keys = [key[order] for key in keys]
    new = np.ones(len(order), np.bool_)
    new[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    first = np.flatnonzero(new)
    impressions, clicks = (np.add.reduceat(values[order], first) for values in (rows.impressions, rows.clicks))
    above, ranks, docs = (key[first] for key in keys[-3:])
    return LastClicks(docs, ranks, above, impressions, clicks, None if rows.policies is None else keys[0][first])


def take_rows(rows: LastClicks, chosen: np.ndarray | slice) -> LastClicks:
    """The chosen rows, in that order.

    >>> take_rows(LastClicks(*np.array([[7, 8], [2, 2], [1, 1], [3, 4], [0, 2]])), np.array([1])).docs.tolist()
    [8]
    """
    columns: dict[str, Any] = {each.name: getattr(rows, each.name) for each in fields(rows)}
    taken: dict[str, Any] = {name: None if own is None else own[chosen].copy() for name, own in columns.items()}
    return LastClicks(**taken)


def join_rows(parts: Sequence[LastClicks]) -> LastClicks:
    """The rows of several parts, added up.

    >>> one = LastClicks(*np.array([[7], [2], [1], [3], [0]]))
    >>> join_rows([one, one]).impressions.tolist()
    [6]
    """
    columns: dict[str, Any] = {}
    for each in fields(parts[0]):
        own = [getattr(part, each.name) for part in parts]
        columns[each.name] = None if any(column is None for column in own) else np.concatenate(own)
    return added_up(LastClicks(**columns))


def rows_of_policies(rows: LastClicks | None, number: IntArray) -> LastClicks | None:
    """The rows of some policies, which get new numbers."""
    if rows is None or rows.policies is None:
        return rows
    kept = take_rows(rows, number[rows.policies] >= 0)
    assert kept.policies is not None
    return added_up(replace(kept, policies=number[kept.policies]))


def moved_rows(rows: LastClicks | None, place: IntArray) -> LastClicks | None:
    """The rows of documents that have a place elsewhere, at that place; -1 for those that are left out."""
    if rows is None:
        return None
    kept = take_rows(rows, place[rows.docs] >= 0)
    return added_up(replace(kept, docs=place[kept.docs]))


def last_clicks_above(offsets: IntArray, clicked: np.ndarray) -> IntArray:
    """The rank of the last click above each place of pages, 0 where there is none.

    >>> last_clicks_above(np.array([0, 3, 5]), np.array([True, False, True, False, True])).tolist()
    [0, 1, 1, 0, 0]
    """
    begins = np.repeat(offsets[:-1], np.diff(offsets))
    ranks = np.arange(len(clicked)) - begins + 1
    last = np.maximum.accumulate(np.where(clicked, np.arange(len(clicked)) + 1, 0))  # place + 1 over all pages
    before = np.concatenate(([0], last[:-1])) if len(last) else last
    found: IntArray = np.where((before > begins) & (ranks > 1), before - begins, 0)
    return found


def mean_by_cell(rows: LastClicks, values: FloatArray, docs: IntArray, ranks: IntArray) -> FloatArray:
    """The mean of a value of each row over the impressions at each of the given (document, rank).

    >>> rows = LastClicks(*np.array([[7, 7], [2, 2], [0, 1], [3, 1], [0, 1]]))
    >>> mean_by_cell(rows, np.array([0.2, 1.0]), np.array([7]), np.array([2])).tolist()
    [0.4]
    """
    width = int(max(rows.ranks.max(initial=0), ranks.max(initial=0))) + 1
    keys = rows.docs * width + rows.ranks
    if not len(keys):
        return np.zeros(len(docs))
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    shown = np.add.reduceat(rows.impressions, first)
    sums = np.add.reduceat(rows.impressions * values, first)
    wanted = docs * width + ranks
    place = np.minimum(np.searchsorted(keys[first], wanted), len(first) - 1)
    if (keys[first][place] != wanted).any():
        raise CounterrankError("last_clicks: lack some of the documents and ranks of the clicks; count the log again")
    found: FloatArray = sums[place] / shown[place]
    return found
