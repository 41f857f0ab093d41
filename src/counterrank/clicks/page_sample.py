"""A sample of the pages of a log, one by one, with what was clicked on each: for models in which clicks depend on
clicks above. Counts hold no such thing.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.displays import offsets_of
from counterrank.common.checks import IntArray
from counterrank.common.random import GOLDEN, HashArray
from counterrank.data.ids import place_in_query

MOST_ROWS = 500_000  # of a sample


@dataclass(frozen=True, eq=False)
class PageSample:
    """Pages of some queries of a log, each with its own clicks, in two parts that the hash of the session decides.

    Attributes:
        queries: the query of each page, from 0 for those in the sample; pages stand in this order.
        offsets: where each page begins in `docs` and `clicked`, (n_pages + 1,).
        docs: the documents by rank, from 0 for those in the sample.
        clicked: whether each was clicked.
        held_out: whether each page is in the part on which predictions are compared; the other is for fitting.
        log_pages: how many pages the log has.
        log_queries: how many of its queries have pages.
    """

    queries: IntArray
    offsets: IntArray
    docs: IntArray
    clicked: Any
    held_out: Any
    log_pages: int
    log_queries: int

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    @classmethod
    def of(
        cls,
        sessions: ArrayLike,
        queries: ArrayLike,
        offsets: ArrayLike,
        docs: ArrayLike,
        clicked: ArrayLike,
        *,
        log_pages: int | None = None,
        log_queries: int | None = None,
    ) -> PageSample:
        """The sample of these pages; half of them, by a hash of the session, are held out.

        Arguments:
            sessions: a whole number for each page, such as the session id or a hash of it.
            queries: of each page.
            offsets: where each page begins in `docs` and `clicked`.
            docs: the documents by rank; two queries have none in common.
            clicked: whether each was clicked.
            log_pages: how many pages the log has; those of the sample if None.
            log_queries: how many queries it has.

        >>> pages = PageSample.of([1, 2, 3], [7, 7, 7], [0, 2, 4, 6], [5, 6, 6, 5, 5, 6], [1, 0, 0, 1, 0, 0])
        >>> pages.docs.tolist(), pages.ranks().tolist(), pages.last_clicks().tolist()
        ([0, 1, 1, 0, 0, 1], [1, 2, 1, 2, 1, 2], [0, 1, 0, 0, 0, 0])
        """
        keys = np.asarray(sessions)
        owner, begins = np.asarray(queries, np.int64), np.asarray(offsets, np.int64)
        order = np.argsort(owner, kind="stable")
        lengths = np.diff(begins)[order]
        moved = offsets_of(lengths)
        rows = np.repeat(begins[:-1][order] - moved[:-1], lengths) + np.arange(moved[-1])
        names, number = np.unique(owner[order], return_inverse=True)
        number = np.asarray(number.ravel(), np.int64)
        _, first, places = np.unique(np.asarray(docs, np.int64)[rows], return_index=True, return_inverse=True)
        by_query = np.argsort(np.repeat(number, lengths)[first], kind="stable")  # documents of a query together
        numbers = np.empty(len(first), np.int64)
        numbers[by_query] = np.arange(len(first))
        return cls(
            queries=number,
            offsets=moved,
            docs=numbers[places.ravel()],
            clicked=np.asarray(clicked)[rows].astype(np.bool_),
            held_out=mixed_words(keys.astype(np.uint64))[order] >> np.uint64(63) > 0,
            log_pages=len(keys) if log_pages is None else log_pages,
            log_queries=len(names) if log_queries is None else log_queries,
        )

    @property
    def n_pages(self) -> int:
        """The number of pages."""
        return len(self.queries)

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return int(self.queries.max(initial=-1)) + 1

    @property
    def n_docs(self) -> int:
        """The number of documents."""
        return int(self.docs.max(initial=-1)) + 1

    def ranks(self) -> IntArray:
        """The rank of each entry of `docs`, from 1."""
        return place_in_query(self.offsets) + 1

    def pages(self) -> IntArray:
        """The page of each entry of `docs`."""
        return np.repeat(np.arange(self.n_pages), np.diff(self.offsets))

    def last_clicks(self) -> IntArray:
        """For each entry of `docs` the rank of the last click above it on its page; 0 where there is none."""
        places = np.where(self.clicked, np.arange(1, len(self.docs) + 1), 0)
        above = np.concatenate(([0], np.maximum.accumulate(places)[:-1])) if len(places) else places
        found: IntArray = np.maximum(above - np.repeat(self.offsets[:-1], np.diff(self.offsets)), 0)
        return found

    def part(self, held_out: bool) -> PageSample:
        """The pages of one part; queries and documents keep their numbers."""
        chosen = np.flatnonzero(self.held_out == held_out)
        lengths = np.diff(self.offsets)[chosen]
        rows = np.repeat(self.held_out == held_out, np.diff(self.offsets))
        return PageSample(
            self.queries[chosen],
            offsets_of(lengths),
            self.docs[rows],
            self.clicked[rows],
            self.held_out[chosen],
            self.log_pages,
            self.log_queries,
        )


def mixed_words(words: HashArray) -> HashArray:
    """All bits of each word spread over all bits of the result, as `common.random.mixed` does.

    >>> words = np.array([1, 2], np.uint64)
    >>> bool(mixed_words(words)[0] == mixed_words(words[:1])[0])
    True
    """
    z = words + GOLDEN  # sums and products wrap around
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
