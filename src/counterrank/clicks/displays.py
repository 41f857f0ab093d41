"""Distinct displayed pages: how often each was shown, and the clicks on its places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from counterrank.clicks._pages import add_places, gather, number_pages, offsets_of
from counterrank.common.checks import IntArray
from counterrank.data.ids import place_in_query, query_of


@dataclass(frozen=True, eq=False)
class Displays:
    """Pages in the order of their queries; a page is the documents at ranks 1, 2, ... of one query.

    Two pages with the same documents in another order are two pages; `counterrank.estimators.rerank` takes them
    together as one displayed set.

    Attributes:
        offsets: where each page begins in `docs` and `clicks`, (n_pages + 1,).
        docs: the documents by rank, as rows of the data.
        sessions: how often each page was shown, (n_pages,).
        clicks: how often each place was clicked, as long as `docs`.
        policies: the number of the policy that showed each page, as in `ClickCounts.policy_names`; pages of one query
            stand in the order of their policies. None where the log names none, and in folders written by version 0.1.
    """

    offsets: IntArray
    docs: IntArray
    sessions: IntArray
    clicks: IntArray
    policies: IntArray | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            array = getattr(self, each.name)
            if array is not None:
                array.flags.writeable = False

    @property
    def n_pages(self) -> int:
        """How many distinct pages were shown."""
        return len(self.sessions)

    def ranks(self) -> IntArray:
        """The rank of each entry of `docs`, from 1."""
        return place_in_query(self.offsets) + 1


def merge_pages(data_offsets: IntArray, pages: Displays) -> Displays:
    """Each distinct page of each policy once, by query and policy, with the sessions and clicks of all its equals.

    >>> twice = Displays(np.array([0, 2, 4]), np.array([1, 0, 1, 0]), np.array([3, 4]), np.array([1, 0, 2, 0]))
    >>> once = merge_pages(np.array([0, 2]), twice)
    >>> once.docs.tolist(), once.sessions.tolist(), once.clicks.tolist()
    ([1, 0], [7], [3, 0])
    """
    owner = query_of(pages.docs[pages.offsets[:-1]], data_offsets)
    if pages.policies is not None:
        owner = owner * (pages.policies.max(initial=0) + 1) + pages.policies
    if (np.diff(owner) < 0).any():
        order = np.argsort(owner, kind="stable")  # quick on a few sorted runs
        owner, pages = owner[order], take_pages(pages, order)
    group, chosen = np.empty(pages.n_pages, np.int64), np.empty(pages.n_pages, np.int64)
    n = number_pages(owner, pages.offsets, pages.docs, group, chosen)
    if n == pages.n_pages:
        return pages
    once = take_pages(pages, chosen[:n])
    clicks = np.zeros(len(once.docs), np.int64)
    add_places(group, pages.offsets, pages.clicks, once.offsets, clicks)
    sessions = np.zeros(n, np.int64)
    np.add.at(sessions, group, pages.sessions)
    return Displays(once.offsets, once.docs, sessions, clicks, once.policies)


def join_pages(parts: Sequence[Displays]) -> Displays:
    """The pages of several parts, one part behind the other.

    >>> one = Displays(np.array([0, 1]), np.array([5]), np.array([1]), np.array([0]))
    >>> join_pages([one, one]).offsets.tolist()
    [0, 1, 2]
    """
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    named = [part.policies for part in parts if part.policies is not None]
    return Displays(
        offsets_of(lengths),
        np.concatenate([part.docs for part in parts]),
        np.concatenate([part.sessions for part in parts]),
        np.concatenate([part.clicks for part in parts]),
        np.concatenate(named) if len(named) == len(parts) else None,
    )


def take_pages(pages: Displays, chosen: IntArray) -> Displays:
    """The chosen pages in that order.

    >>> two = Displays(np.array([0, 1, 3]), np.array([5, 6, 7]), np.array([1, 2]), np.array([0, 2, 0]))
    >>> take_pages(two, np.array([1])).docs.tolist()
    [6, 7]
    """
    offsets = offsets_of(np.diff(pages.offsets)[chosen])
    docs, clicks = np.empty((2, offsets[-1]), np.int64)
    gather(pages.offsets, pages.docs, chosen, offsets, docs)
    gather(pages.offsets, pages.clicks, chosen, offsets, clicks)
    policies = None if pages.policies is None else pages.policies[chosen]
    return Displays(offsets, docs, pages.sessions[chosen], clicks, policies)
