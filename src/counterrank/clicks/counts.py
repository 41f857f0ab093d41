"""`ClickCounts`: what was shown and clicked, added up over sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.clicks import _counts
from counterrank.clicks.displays import Displays
from counterrank.clicks.examination import Examination
from counterrank.clicks.origin import Origin, content_sources
from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.errors import CounterrankError
from counterrank.common.files import PathLike
from counterrank.data import RankingData
from counterrank.data.identity import identity
from counterrank.data.ids import query_of

SEEN_ONLY = "pairs-seen:"  # the identity of counts without ranking data begins so


@dataclass(frozen=True, eq=False)
class ClickCounts:
    """Impressions and clicks of each document at each rank, and the sessions of each query.

    A cell is one document at one rank (and of one policy and logged propensity, where the log has them). Cells stand
    in the order of document, rank, policy, propensity, each once. Made by `simulation.simulate`; trusted, not checked.

    Attributes:
        identity: which data it was counted against, see `counterrank.data.identity`; of a log that was counted
            without ranking data it begins with `SEEN_ONLY`.
        offsets: of that data, (n_queries + 1,); without ranking data, of the documents that were seen.
        sessions: how often each query was asked, (n_queries,).
        docs: the document of each cell, as a row of the data.
        ranks: its rank, from 1.
        impressions: how often it was shown there.
        clicks: how often it was clicked there.
        propensities: P(examined | query, policy) as logged, one per cell; None if the log has none.
        policies: the number of the policy of each cell in `policy_names`; None if the log names none.
        policy_names: their names.
        policy_sessions: sessions by policy and query, (n_policies, n_queries); None if the log names none.
        displays: the distinct pages with their sessions and clicks; None if they were not kept.
        examination: the curve the clicks were made with, where that is known (they were simulated).
        unexaminable: the documents that no page of the policy lets anyone examine, in order, where that is known.
        query_ids, doc_ids: the ids of that data, for `align`; None in folders written by version 0.1.
        origin: the logs it was counted from; None for counts that were made by hand or simulated.
        unknown_impressions: how often the log shows, for queries of the data, documents that the data does not have.
            They are not counted otherwise. A policy ranked them too, so its propensities cannot be computed.
    """

    identity: str
    offsets: IntArray
    sessions: IntArray
    docs: IntArray
    ranks: IntArray
    impressions: IntArray
    clicks: IntArray
    propensities: FloatArray | None = None
    policies: IntArray | None = None
    policy_names: tuple[str, ...] = ()
    policy_sessions: IntArray | None = None
    displays: Displays | None = None
    examination: Examination | None = None
    unexaminable: IntArray | None = None
    query_ids: NDArray[Any] | None = None
    doc_ids: NDArray[Any] | None = None
    origin: Origin | None = None
    unknown_impressions: int = 0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    @property
    def n_queries(self) -> int:
        """The number of queries of the data, logged or not."""
        return len(self.offsets) - 1

    @property
    def n_docs(self) -> int:
        """The number of documents of the data, shown or not."""
        return int(self.offsets[-1])

    @property
    def n_sessions(self) -> int:
        """How many pages were shown."""
        return int(self.sessions.sum())

    @property
    def n_clicks(self) -> int:
        """How many clicks there were."""
        return int(self.clicks.sum())

    @property
    def n_impressions(self) -> int:
        """How many documents were shown, each time counted."""
        return int(self.impressions.sum())

    @property
    def knows_candidates(self) -> bool:
        """Whether it was counted against ranking data, so that documents which were never shown are known too."""
        return not self.identity.startswith(SEEN_ONLY)

    @property
    def active_policies(self) -> tuple[str, ...]:
        """The names of the policies that have sessions here; a log of several parts names more."""
        if self.policy_sessions is None:
            return ()
        return tuple(name for i, name in enumerate(self.policy_names) if self.policy_sessions[i].any())

    def queries(self) -> IntArray:
        """The query of each cell."""
        found: IntArray = query_of(self.docs, self.offsets)
        return found

    def by_document(self, values: FloatArray | IntArray) -> FloatArray:
        """Numbers of the cells added up for each document, float64 (n_docs,)."""
        return np.asarray(np.bincount(self.docs, weights=values, minlength=self.n_docs), np.float64)

    def by_rank(self, values: FloatArray | IntArray) -> FloatArray:
        """Numbers of the cells added up for each rank, float64; entry 0 is rank 1."""
        return np.asarray(np.bincount(self.ranks, weights=values)[1:], np.float64)

    def check_data(self, data: RankingData, name: str = "clicks") -> None:
        """An error unless these clicks were counted against this data (the same queries and documents)."""
        if not isinstance(data, RankingData):
            raise CounterrankError(f"data: {type(data).__name__}; expected RankingData")
        if not self.knows_candidates:
            raise CounterrankError(
                f"{name}: counted without ranking data, so candidates that were never shown are not known; "
                "expected a log counted with data"
            )
        if identity(data) != self.identity:
            raise CounterrankError(
                f"{name}: counted against other data, of {self.n_queries:,} queries and {self.n_docs:,} documents; "
                f"expected clicks on this data, of {data.n_queries:,} and {data.n_docs:,}, in the same order "
                "(align(data) maps counts onto data that has grown)"
            )

    def where_from(self) -> Origin:
        """The logs it was counted from; of counts without any, their content."""
        return Origin(content_sources(self)) if self.origin is None else self.origin

    def align(self, data: RankingData) -> ClickCounts:
        """The same counts for other data, by the ids of queries and documents.

        The data must have every query that was asked and every document that was shown; it may have more of both, in
        any order. Counts of successive deployments over data that grew can so be put together with `concat`.

        >>> from counterrank.data.identity import identity
        >>> old, new = RankingData([[0.0]], [0, 1], doc_ids=["b"]), RankingData([[1.0], [0.0]], [0, 2], doc_ids=[*"ab"])
        >>> one = np.array([1])
        >>> ids = {"query_ids": old.query_ids, "doc_ids": old.doc_ids}
        >>> counts = ClickCounts(identity(old), old.offsets, one, np.array([0]), one, one, one, **ids)
        >>> counts.align(new).docs.tolist()
        [1]
        """
        return _counts.align(self, data)

    def only_policies(self, names: Sequence[str]) -> ClickCounts:
        """The sessions of some policies, by their names in the log."""
        return _counts.only_policies(self, names)

    @staticmethod
    def concat(parts: Sequence[ClickCounts]) -> ClickCounts:
        """All sessions of several logs of the same data together.

        Either all of them hold propensities, or none; the same for displays.
        """
        return _counts.concat(parts)

    def save(self, path: PathLike) -> None:
        """Write a folder: `clicks.json`, and Parquet tables of cells, sessions and displays."""
        from counterrank.clicks.counts_files import save_counts

        save_counts(self, path)

    @classmethod
    def load(cls, path: PathLike) -> ClickCounts:
        """Read what `save` wrote."""
        from counterrank.clicks.counts_files import load_counts

        return load_counts(path)

    def __repr__(self) -> str:
        extra = "" if self.displays is None else f", {self.displays.n_pages:,} distinct pages"
        logged = int(np.count_nonzero(self.sessions))
        return (
            f"ClickCounts({self.n_sessions:,} sessions of {logged:,} queries, {self.n_clicks:,} clicks on "
            f"{np.count_nonzero(self.by_document(self.clicks)):,} of {self.n_docs:,} documents{extra})"
        )


def check_counts(clicks: Any, name: str = "clicks") -> ClickCounts:
    """Click counts, or an error that says where to get them."""
    if not isinstance(clicks, ClickCounts):
        raise CounterrankError(f"{name}: {type(clicks).__name__}; expected ClickCounts, as simulation.simulate gives")
    return clicks
