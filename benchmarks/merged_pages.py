"""Merged sessions, as input of LightGBM and XGBoost: a page, its clicked places, and the number of such sessions.

`simulate(..., displays=True)` counts the clicks on each place of a page, not which of them came in one session. Users
click the places of a page independently, so, given how often each was clicked, all ways of spreading these clicks over
the page's sessions are equally likely. `merge_sessions` draws one of them. The result has exactly the counts it was
drawn from, and is distributed as a log of that many sessions with identical sessions merged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.displays import Displays, offsets_of
from counterrank.common.checks import IntArray
from counterrank.common.errors import CounterrankError


@dataclass(frozen=True, eq=False)
class MergedPages:
    """Groups of sessions with the same page and the same clicks.

    Attributes:
        offsets: where each group begins in `docs` and `clicked`, (n_groups + 1,).
        docs: the documents by rank, as rows of the data.
        clicked: whether each was clicked, in each session of the group.
        sessions: how many there were, (n_groups,).
    """

    offsets: IntArray
    docs: IntArray
    clicked: np.ndarray
    sessions: IntArray

    @property
    def lengths(self) -> IntArray:
        """The documents of each group."""
        return np.diff(self.offsets)

    def ranks(self) -> IntArray:
        """The rank of each entry of `docs`, from 1."""
        return np.arange(len(self.docs)) - np.repeat(self.offsets[:-1], self.lengths) + 1

    def with_pairs(self) -> MergedPages:
        """Without the groups in which no document or every one was clicked: pairwise losses learn nothing there."""
        clicks = np.add.reduceat(self.clicked.astype(np.int64), self.offsets[:-1])
        return self.taken(np.flatnonzero((clicks > 0) & (clicks < self.lengths)), np.int64(1))

    def copied(self, most: int) -> MergedPages:
        """Groups repeated so that none has more than about `most` sessions.

        Sessions are divided as evenly as whole numbers allow.
        """
        copies = np.maximum(1, np.round(self.sessions / most).astype(np.int64))
        return self.taken(np.repeat(np.arange(len(copies)), copies), np.repeat(copies, copies))

    def taken(self, groups: IntArray, shares: IntArray | np.int64) -> MergedPages:
        """The chosen groups in that order, the sessions of each divided by its share."""
        lengths = self.lengths[groups]
        offsets = offsets_of(lengths)
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[groups] - offsets[:-1], lengths)
        sessions = self.sessions[groups] / shares if np.any(shares != 1) else self.sessions[groups]
        return MergedPages(offsets, self.docs[rows], self.clicked[rows], sessions)


def merge_sessions(counts: ClickCounts, seed: int | np.random.Generator) -> MergedPages:
    """The sessions of simulated clicks, put together from the counts of their pages (`displays=True`)."""
    pages = counts.displays
    if pages is None:
        raise CounterrankError("counts: no displayed pages kept; expected clicks of simulate(..., displays=True)")
    table = _patterns(pages, np.random.default_rng(seed))
    page, code = np.nonzero(table)
    lengths = np.diff(pages.offsets)[page]
    offsets = offsets_of(lengths)
    place = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    docs = pages.docs[np.repeat(pages.offsets[page], lengths) + place]
    clicked = (np.repeat(code, lengths) >> place) & 1 == 1
    return MergedPages(offsets, docs, clicked, table[page, code])


def _patterns(pages: Displays, generator: np.random.Generator) -> IntArray:
    """How many sessions of each page clicked each set of its places; bit j of the column is place j.

    One place after the other: its clicks fall on a random choice of all sessions, so their numbers among those that
    have clicked the same earlier places are multivariate hypergeometric.
    """
    lengths = np.diff(pages.offsets)
    table = pages.sessions[:, None].copy()
    for place in range(int(lengths.max())):
        there = lengths > place
        left = np.zeros(len(lengths), np.int64)
        left[there] = pages.clicks[pages.offsets[:-1][there] + place]
        others = pages.sessions.copy()
        chosen = np.empty_like(table)
        for code in range(table.shape[1]):
            others -= table[:, code]
            chosen[:, code] = generator.hypergeometric(table[:, code], others, left)
            left -= chosen[:, code]
        table = np.concatenate((table - chosen, chosen), axis=1)
    return table
