"""`ClickCounts`: what was shown and clicked, added up over sessions; put together, aligned, and taken apart."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.clicks.click_cards import counts_card, counts_plot, counts_summary
from counterrank.clicks.counts_storage import check_loaded, load_fields, save_counts
from counterrank.clicks.displays import (
    Displays,
    join_pages,
    merge_cells,
    merge_pages,
    pages_of_policies,
    pages_of_queries,
)
from counterrank.clicks.examination import CurvesByContext, Examination
from counterrank.clicks.last_clicks import LastClicks, join_rows, moved_rows, rows_of_policies
from counterrank.clicks.origin import (
    FEW_SHARED,
    FEWEST_SESSIONS,
    Origin,
    content_sources,
    join_origins,
    shared_sessions,
)
from counterrank.common.checks import FloatArray, IntArray, check_type
from counterrank.common.deprecation import deprecated_method
from counterrank.common.errors import CounterrankError, brief, quoted
from counterrank.common.files import PathLike
from counterrank.common.notebook import Shown, Summary
from counterrank.data import RankingData
from counterrank.data.frames import is_frame
from counterrank.data.ids import digest_of, find_rows, identity, query_index, query_of, query_of_rows, take_ranges

SHOWN_ONLY = "pairs-seen:"  # the identity of counts without ranking data begins so
CELL_COLUMNS = ("docs", "ranks", "impressions", "clicks", "propensities", "policies")


@dataclass(frozen=True, eq=False)
class ClickCounts(Shown):
    """Impressions and clicks of each document at each rank, and the sessions of each query.

    A cell is one document at one rank (and of one policy and logged propensity, where the log has them). Cells stand
    in the order of document, rank, policy, propensity, each once. Made by `simulation.simulate`; trusted, not checked.

    Attributes:
        identity: which data it was counted against, see `counterrank.data.ids`; of a log that was counted
            without ranking data it begins with `SHOWN_ONLY`.
        offsets: of that data, (n_queries + 1,); without ranking data, of the documents that were seen.
        sessions: the number of sessions of each query, (n_queries,).
        docs: the document of each cell, as a row of the data.
        ranks: its rank, from 1.
        impressions: how often it was shown there.
        clicks: how often it was clicked there.
        propensities: P(examined | query, policy) as logged, one per cell; None if the log has none.
        policies: the number of the policy of each cell in `policy_names`; None if the log names none.
        policy_names: their names. Of a log that was read with `context=`, each policy in each context has a number,
            so that names come several times; they are "" where the log names no policies.
        policy_sessions: sessions by policy and query, (n_policies, n_queries); None if the log names none.
        contexts: the context, such as the device, of each of `policy_names`; empty for a log without contexts.
        displays: the distinct pages with their sessions and clicks; None if they were not kept.
        last_clicks: impressions and clicks by the rank of the last click above; None if they were not kept.
        examination: the curve the clicks were made with, where that is known (they were simulated).
        unexaminable: the documents that no page of the policy lets anyone examine, in order, where that is known.
        query_ids, doc_ids: the ids of that data, for `align`; None in folders written by version 0.1.
        origin: the logs it was counted from; None for counts that were made by hand or simulated.
        unknown_impressions: how often the log shows, for queries of the data, documents that the data does not have.
            They are not counted otherwise. A policy ranked them too, so its propensities cannot be computed.
        unknown_by_query: the same by query, for `subset`; None where that is not known.
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
    unknown_by_query: IntArray | None = None
    contexts: tuple[str, ...] = ()
    last_clicks: LastClicks | None = None

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
        """The number of sessions (displayed pages)."""
        return int(self.sessions.sum())

    @property
    def n_clicks(self) -> int:
        """The number of clicks."""
        return int(self.clicks.sum())

    @property
    def n_impressions(self) -> int:
        """The number of impressions (displayed documents, counted each time)."""
        return int(self.impressions.sum())

    @property
    def knows_candidates(self) -> bool:
        """Whether the log was joined to ranking data, so that candidates that were never shown are known too."""
        return not self.identity.startswith(SHOWN_ONLY)

    @property
    def active_policies(self) -> tuple[str, ...]:
        """The names of the policies that have sessions here; a log of several parts names more."""
        if self.policy_sessions is None:
            return ()
        active = [name for i, name in enumerate(self.policy_names) if self.policy_sessions[i].any()]
        return _distinct(active, bool(self.contexts))

    @property
    def distinct_policies(self) -> tuple[str, ...]:
        """The names of the policies, each once, whatever their contexts; none where the log names none."""
        return _distinct(self.policy_names, bool(self.contexts))

    @property
    def context_sessions(self) -> dict[str, int]:
        """The sessions of each context, most first; empty for a log without contexts."""
        found = dict.fromkeys(self.contexts, 0)
        if self.contexts and self.policy_sessions is not None:
            for context, own in zip(self.contexts, self.policy_sessions, strict=True):
                found[context] += int(own.sum())
        return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))

    def queries(self) -> IntArray:
        """The query of each cell."""
        return np.asarray(query_of(self.docs, self.offsets), np.int64)

    def cells_at(self, chosen: NDArray[Any] | slice) -> dict[str, Any]:
        """The columns of some cells, by their index, as the arguments of `dataclasses.replace`."""
        columns = {name: getattr(self, name) for name in CELL_COLUMNS}
        return {name: None if column is None else column[chosen] for name, column in columns.items()}

    def by_document(self, values: FloatArray | IntArray) -> FloatArray:
        """Sums of cell values for each document, float64 (n_docs,)."""
        return np.asarray(np.bincount(self.docs, weights=values, minlength=self.n_docs), np.float64)

    def by_rank(self, values: FloatArray | IntArray) -> FloatArray:
        """Sums of cell values for each rank, float64; entry 0 is rank 1."""
        return np.asarray(np.bincount(self.ranks, weights=values)[1:], np.float64)

    def check_candidates(self, name: str = "clicks") -> None:
        """Raise an error for counts without ranking data: a policy ranks candidates that may never have been shown."""
        if not self.knows_candidates:
            raise CounterrankError(
                f"{name}: counted without ranking data, so candidates that were never shown are not known; "
                "expected a log counted with data"
            )

    def check_data(self, data: RankingData, name: str = "clicks") -> None:
        """Raise an error unless these clicks were joined to this data (the same queries and documents)."""
        check_type(data, RankingData, "data")
        self.check_candidates(name)
        if identity(data) != self.identity:
            raise CounterrankError(
                f"{name}: counted against other data, of {self.n_queries:,} queries and {self.n_docs:,} documents; "
                f"expected clicks on this data, of {data.n_queries:,} and {data.n_docs:,}, in the same order "
                "(align(data) maps counts onto data that has grown)"
            )

    def known_origin(self) -> Origin:
        """The logs that the counts come from; counts that were not read from a log are identified by their content."""
        return Origin(content_sources(self)) if self.origin is None else self.origin

    where_from = deprecated_method("where_from", "known_origin")

    def align(self, data: RankingData) -> ClickCounts:
        """The same counts for other data, by the ids of queries and documents.

        The data must have every logged query and every document that was shown; it may have more of both, in
        any order. Counts of successive deployments over data that grew can so be put together with `concat`.

        >>> from counterrank.data.ids import identity
        >>> old, new = RankingData([[0.0]], [0, 1], doc_ids=["b"]), RankingData([[1.0], [0.0]], [0, 2], doc_ids=[*"ab"])
        >>> one = np.array([1])
        >>> ids = {"query_ids": old.query_ids, "doc_ids": old.doc_ids}
        >>> counts = ClickCounts(identity(old), old.offsets, one, np.array([0]), one, one, one, **ids)
        >>> counts.align(new).docs.tolist()
        [1]
        """
        check_type(data, RankingData, "data")
        query_ids, doc_ids = self._ids("align them")
        if self.unknown_impressions:
            raise CounterrankError(
                f"clicks: leave out {self.unknown_impressions:,} impressions of documents that their data did not "
                "have, and other data may; count the log again with it"
            )
        queries = find_rows(query_ids, data.query_ids)
        missing = (queries < 0) & (self.sessions > 0)
        if missing.any():
            raise CounterrankError(
                f"data: lacks {np.count_nonzero(missing):,} of the logged queries, such as "
                f"{quoted(query_ids[np.argmax(missing)])}; expected data with all of them"
            )
        owners = query_of_rows(self.offsets)
        rows = find_rows(doc_ids, data.doc_ids, queries[owners], data.offsets)
        missing = rows[self.docs] < 0
        if missing.any():
            doc = self.docs[np.argmax(missing)]
            raise CounterrankError(
                f"data: lacks {len(np.unique(self.docs[missing])):,} of the documents that were shown, such as "
                f"{quoted(doc_ids[doc])} of query {quoted(query_ids[owners[doc]])}; expected data with all "
                "of them"
            )
        known = np.flatnonzero(queries >= 0)
        moved, pages = replace(self, docs=rows[self.docs]), self.displays
        order = np.lexsort(
            [column for column in (moved.propensities, moved.policies) if column is not None]
            + [moved.ranks, moved.docs]
        )

        def by_query(sessions: IntArray) -> IntArray:
            found = np.zeros((*sessions.shape[:-1], data.n_queries), np.int64)
            found[..., queries[known]] = sessions[..., known]
            return found

        return replace(
            self,
            identity=identity(data),
            offsets=data.offsets,
            sessions=by_query(self.sessions),
            **moved.cells_at(order),
            policy_sessions=None if self.policy_sessions is None else by_query(self.policy_sessions),
            displays=None if pages is None else merge_pages(data.offsets, replace(pages, docs=rows[pages.docs])),
            last_clicks=moved_rows(self.last_clicks, rows),
            unexaminable=None if self.unexaminable is None else _unexaminable_rows(self.unexaminable, rows, data),
            query_ids=data.query_ids,
            doc_ids=data.doc_ids,
            origin=self.known_origin().of_queries(queries),
            unknown_by_query=None,
        )

    def subset(self, queries: ArrayLike | slice) -> ClickCounts:
        """The counts of the chosen queries, in the order given: ids, indices, a boolean mask over queries, or a slice.

        They are those that the log gives with `data.subset(...)` of the same queries, and are used with that data.
        Policies that have no sessions left are dropped. The dates of `origin` stay those of the whole log.

        Arguments:
            queries: texts are query ids, whole numbers are always indices (from 0). Where ids are whole numbers too,
                give them as texts: `subset(["1017"])`, or `subset(data.query_ids.astype(str))`.

        >>> from counterrank import examination, policies, simulation
        >>> data = RankingData(np.zeros((6, 1)), [0, 2, 4, 6], labels=[0, 1, 0, 1, 0, 1])
        >>> clicks = simulation.simulate(data, np.arange(6.0), policies.Deterministic(2), examination.inverse_rank(),
        ...                              sessions=100, seed=0, relevance_threshold=1)
        >>> half = clicks.subset([2, 0])
        >>> half.check_data(data.subset([2, 0]))
        >>> half.sessions.tolist() == clicks.sessions[[2, 0]].tolist()
        True
        >>> half.subset(["0"]).query_ids.tolist()  # the query with id 0, which stands at index 1 here
        [0]
        """
        index = query_index(queries, self.n_queries, self.query_ids)
        query_ids, doc_ids = self._ids("take some of its queries")
        offsets, rows = take_ranges(self.offsets, index)
        number, place = np.full(self.n_queries, -1), np.full(self.n_docs, -1)
        number[index], place[rows] = np.arange(len(index)), np.arange(len(rows))
        query_ids, doc_ids = query_ids[index], doc_ids[rows]
        cells = take_ranges(np.searchsorted(self.docs, self.offsets), index)[1]
        hidden = None if self.unexaminable is None else place[self.unexaminable]
        found = replace(
            self,
            identity=("" if self.knows_candidates else SHOWN_ONLY) + digest_of(offsets, query_ids, doc_ids),
            offsets=offsets,
            sessions=self.sessions[index],
            **{**self.cells_at(cells), "docs": place[self.docs[cells]]},
            policy_sessions=None if self.policy_sessions is None else self.policy_sessions[:, index],
            displays=None if self.displays is None else pages_of_queries(self.displays, self.offsets, number, place),
            last_clicks=moved_rows(self.last_clicks, place),
            unexaminable=None if hidden is None else np.sort(hidden[hidden >= 0]),
            query_ids=query_ids,
            doc_ids=doc_ids,
            origin=None,
            **self._unknown_of(index),
        )
        found = _without_idle_policies(found)
        if self.origin is None:
            return found
        return replace(found, origin=self.origin.of_queries(number, content_sources(found)))

    def _ids(self, purpose: str) -> tuple[NDArray[Any], NDArray[Any]]:
        """The ids of queries and documents; an error where there are none."""
        if self.query_ids is None or self.doc_ids is None:
            raise CounterrankError(
                "clicks: hold no ids of queries and documents (counted by an earlier version); count the log again to "
                f"{purpose}"
            )
        return self.query_ids, self.doc_ids

    def _unknown_of(self, index: IntArray) -> dict[str, Any]:
        """The impressions of unknown documents of some queries."""
        if not self.unknown_impressions:
            return {"unknown_by_query": None}
        if self.unknown_by_query is None:
            raise CounterrankError(
                f"clicks: leave out {self.unknown_impressions:,} impressions of documents that the data does not have, "
                "of queries that are not known (counted by an earlier version); count the log again to take some of "
                "its queries"
            )
        own = self.unknown_by_query[index]
        return {"unknown_impressions": int(own.sum()), "unknown_by_query": own if own.any() else None}

    def only_policies(self, names: Sequence[str]) -> ClickCounts:
        """The sessions of some policies, by their names in the log."""
        wanted = check_policy_names(names)
        if self.policies is None or self.policy_sessions is None or not self.distinct_policies:
            raise CounterrankError(
                f"only_policies={list(wanted)}: these clicks name no policies; expected a log with the column policy"
            )
        for name in wanted:
            if name not in self.policy_names:
                raise CounterrankError(
                    f"only_policies: {name!r} is not in the log; expected some of "
                    f"{', '.join(map(repr, self.distinct_policies))}"
                )
        kept = [i for i, name in enumerate(self.policy_names) if name in wanted]
        number = np.full(len(self.policy_names), -1)
        number[kept] = np.arange(len(kept))
        own = number[self.policies] >= 0
        sessions = self.policy_sessions[kept]
        chosen = tuple(self.policy_names[i] for i in kept)
        contexts = tuple(self.contexts[i] for i in kept) if self.contexts else ()
        everything = len(kept) == len(self.policy_names)
        return replace(
            self,
            sessions=sessions.sum(axis=0),
            **{**self.cells_at(own), "policies": number[self.policies[own]]},
            policy_names=chosen,
            policy_sessions=sessions,
            contexts=contexts,
            displays=self.displays if everything else pages_of_policies(self.displays, number),
            last_clicks=self.last_clicks if everything else rows_of_policies(self.last_clicks, number),
            unexaminable=self.unexaminable if everything else None,  # of all policies together
            origin=self.known_origin().of_policies(chosen),
        )

    @staticmethod
    def concat(parts: Sequence[ClickCounts]) -> ClickCounts:
        """Combine all sessions of several logs of the same data.

        Either all of them hold propensities, or none; the same for displays.
        """
        found = merge_counts(parts)
        origins = [part.known_origin() for part in parts]
        for i, origin in enumerate(origins[1:], 1):
            before = join_origins(origins[:i])
            share = shared_sessions(origin, before, by_content=False)
            if share >= FEW_SHARED and parts[i].n_sessions >= FEWEST_SESSIONS:
                raise CounterrankError(
                    f"clicks {i}: {share:.0%} of its sessions are in the others too and would be counted twice; "
                    "expected logs without common sessions"
                )
            if shared_sessions(origin, before):
                what = "sessions that are in the others too" if share else "the same counts as one of the others"
                warnings.warn(f"clicks {i}: has {what}; are they counted twice?", stacklevel=2)
        return replace(found, origin=join_origins(origins))

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        data: RankingData | None = None,
        *,
        displays: bool = False,
        last_clicks: bool = False,
        **options: Any,
    ) -> ClickCounts:
        """Count the impressions and clicks of a frame with one row for each displayed document: `read_log(frame, ...)`.

        Rows that are added up already (a column with a number of impressions, say) are not read: a page cannot be
        checked without its rows. `impressions=True` takes each row as a page of its own.

        Arguments:
            frame: of pandas or polars, an Arrow table, a DuckDB relation, or anything with `__arrow_c_stream__`; its
                columns are those of a click log, or have other names by `columns`.
            data: the queries and all their candidates, shown or not; None to count what was shown.
            displays: also keep the distinct pages.
            last_clicks: also count by the rank of the last click above.
            options: those of `read_log`.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"session_id": [1, 1], "query_id": ["tv", "tv"], "doc_id": [3, 5], "rank": [1, 2]})
        >>> ClickCounts.from_frame(frame.assign(bought=["n", "y"]), columns={"clicked": "bought"}).clicks.tolist()
        [0, 1]
        """
        from counterrank.clicks.logs import read_log  # which needs this class
        from counterrank.data.frames import is_frame

        if not is_frame(frame):
            raise CounterrankError(
                f"frame: {type(frame).__name__}; expected a frame of pandas or polars, an Arrow table, a DuckDB "
                "relation, or another Arrow stream"
            )
        if data is not None:
            check_type(data, RankingData, "data")
        return read_log(frame, data, displays=displays, last_clicks=last_clicks, **options)

    def to_arrow(self) -> Any:
        """An Arrow table with one row per cell: `query_id`, `doc_id`, `rank`, `impressions` and `clicks`.

        Logs that have them also give `propensity`, `policy` (its name) and `context`. Documents that were
        never shown have no row.
        `table.to_pandas()` and `polars.from_arrow(table)` make frames of it.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"session_id": [1, 1], "query_id": ["tv", "tv"], "doc_id": [3, 5], "rank": [1, 2]})
        >>> ClickCounts.from_frame(frame.assign(clicked=[0, 1])).to_arrow().to_pylist()[1]
        {'query_id': 'tv', 'doc_id': 5, 'rank': 2, 'impressions': 1, 'clicks': 1}
        """
        import pyarrow as pa

        query_ids, doc_ids = self._ids("show them")
        columns: dict[str, Any] = {"query_id": query_ids[self.queries()], "doc_id": doc_ids[self.docs]}
        columns |= {"rank": self.ranks, "impressions": self.impressions, "clicks": self.clicks}
        if self.propensities is not None:
            columns["propensity"] = self.propensities
        if self.policies is not None and self.distinct_policies:
            columns["policy"] = np.array(self.policy_names)[self.policies]
        if self.contexts:
            columns["context"] = np.array(self.contexts)[self.policies]
        return pa.table(columns)

    def save(self, path: PathLike) -> None:
        """Write a folder: `clicks.json`, and Parquet tables of cells, sessions and displays."""
        save_counts(self, path)

    @classmethod
    def load(cls, path: PathLike) -> ClickCounts:
        """Read what `save` wrote."""
        clicks = cls(**load_fields(path))
        check_loaded(clicks, path)
        found = clicks.known_origin()
        return clicks if found.paths else replace(clicks, origin=replace(found, paths=(str(path),)))

    def __repr__(self) -> str:
        extra = "" if self.displays is None else f", {self.displays.n_pages:,} distinct pages"
        logged = int(np.count_nonzero(self.sessions))
        return (
            f"ClickCounts({self.n_sessions:,} sessions of {logged:,} queries, {self.n_clicks:,} clicks on "
            f"{np.count_nonzero(self.by_document(self.clicks)):,} of {self.n_docs:,} documents{extra})"
        )

    def summary(self) -> Summary:
        """Numbers of sessions, impressions and clicks, as a dict that prints as a table."""
        return counts_summary(self)

    def plot(self) -> Any:
        """The click rate by rank, an altair chart."""
        return counts_plot(self)

    def _repr_html_(self) -> str:
        return counts_card(self)


def check_counts(clicks: Any, name: str = "clicks") -> ClickCounts:
    """Click counts, or an error that says where to get them."""
    if isinstance(clicks, ClickCounts):
        return clicks
    given = "as simulation.simulate gives, or read_log(log, data)"
    if is_frame(clicks):
        given = "as ClickCounts.from_frame(frame, data, ...) or read_log(frame, data, ...) gives"
    elif hasattr(clicks, "train") and hasattr(clicks, "test"):
        given = "the clicks of one part, such as clicks.test"
    raise CounterrankError(f"{name}: {type(clicks).__name__}; expected ClickCounts, {given}")


def check_policy_names(names: Any) -> tuple[str, ...]:
    """Names of policies, each once.

    >>> check_policy_names(["v2"])
    ('v2',)
    """
    if isinstance(names, str) or not isinstance(names, Sequence) or not names:
        raise CounterrankError(f"only_policies={brief(names)}: expected a list of names, such as ['v2']")
    for name in names:
        if not isinstance(name, str):
            raise CounterrankError(
                f"only_policies={brief(names)}: {brief(name)} is not a name; expected texts, such as ['v2']"
            )
    return tuple(dict.fromkeys(names))


def merge_counts(parts: Sequence[ClickCounts]) -> ClickCounts:
    """`ClickCounts.concat` without an origin, for sessions that are simulated piece by piece."""
    if not isinstance(parts, Sequence):
        raise CounterrankError(f"clicks: {type(parts).__name__}; expected a list of ClickCounts")
    given = [check_counts(part, f"clicks {i}") for i, part in enumerate(parts)]
    if not given:
        raise CounterrankError("clicks: an empty list; expected at least one ClickCounts")
    first = given[0]
    for i, part in enumerate(given):
        if part.identity != first.identity:
            raise CounterrankError(
                f"clicks {i}: counted against other data than clicks 0; expected the same data (align(data) maps "
                "counts onto data that has grown)"
            )
        for name in ("propensities", "displays", "last_clicks"):
            if (getattr(part, name) is None) != (getattr(first, name) is None):
                raise CounterrankError(f"clicks {i}: {name} kept in some parts and not in others; expected all or none")
        if bool(part.contexts) != bool(first.contexts):
            raise CounterrankError(f"clicks {i}: contexts read in some parts and not in others; expected all or none")
    names = tuple(dict.fromkeys(name for part in given for name in numbered_policies(part)))
    small_first = sorted(given, key=lambda part: len(part.docs))
    cells = reduce(lambda a, b: _read_only(merge_cells(a, b)), [_sorted_cells(part, names) for part in small_first])
    named = names != (("", ""),)
    with_contexts = bool(first.contexts)
    return ClickCounts(
        identity=first.identity,
        offsets=first.offsets,
        sessions=np.sum([part.sessions for part in given], axis=0),
        docs=cells[0],
        ranks=cells[1],
        impressions=cells[4],
        clicks=cells[5],
        propensities=None if first.propensities is None else cells[3],
        policies=cells[2] if named else None,
        policy_names=tuple(name for name, _ in names) if named else (),
        policy_sessions=_policy_sessions(given, names) if named else None,
        contexts=tuple(context for _, context in names) if with_contexts else (),
        displays=_merge_displays(given, names),
        last_clicks=_merge_last_clicks(given, names),
        unexaminable=_common_unexaminable(given),
        unknown_impressions=sum(part.unknown_impressions for part in given),
        unknown_by_query=_merge_unknown(given),
        examination=_common_examination(given),
        query_ids=first.query_ids,
        doc_ids=first.doc_ids,
    )


def _unexaminable_rows(before: IntArray, rows: IntArray, data: RankingData) -> IntArray:
    """Documents that could not be examined: those of before, and those that were no candidates yet."""
    hidden = np.ones(data.n_docs, np.bool_)
    hidden[rows[rows >= 0]] = False
    hidden[rows[before][rows[before] >= 0]] = True
    return np.flatnonzero(hidden)


def _without_idle_policies(clicks: ClickCounts) -> ClickCounts:
    """The same without the names of policies that show nothing; with all of them if none does."""
    if clicks.policies is None or clicks.policy_sessions is None:
        return clicks
    active = np.array([own.any() for own in clicks.policy_sessions])
    active[clicks.policies] = True
    if active.all() or not active.any():
        return clicks
    number, pages = np.cumsum(active) - 1, clicks.displays
    if pages is not None and pages.policies is not None:
        pages = replace(pages, policies=number[pages.policies])
    return replace(
        clicks,
        policies=number[clicks.policies],
        policy_names=tuple(name for name, own in zip(clicks.policy_names, active, strict=True) if own),
        contexts=tuple(name for name, own in zip(clicks.contexts, active, strict=False) if own),
        policy_sessions=clicks.policy_sessions[active],
        displays=pages,
        last_clicks=rows_of_policies(clicks.last_clicks, np.where(active, number, -1)),
    )


def _read_only(cells: tuple[Any, ...]) -> tuple[Any, ...]:
    """Cells as those of click counts are, for which the kernel is compiled."""
    for column in cells:
        column.flags.writeable = False
    return cells


Name = tuple[str, str]  # of a policy, and the context


def numbered_policies(part: ClickCounts) -> tuple[Name, ...]:
    """The name and the context of each number of a policy, "" where there is none."""
    if part.policies is None:
        return (("", ""),)
    return tuple(zip(part.policy_names, part.contexts or [""] * len(part.policy_names), strict=True))


def _distinct(names: Sequence[str], by_context: bool) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(names))
    return () if by_context and found == ("",) else found


def _common_examination(parts: Sequence[ClickCounts]) -> Examination | None:
    """The curve that all parts were made with; of parts in different contexts, each with one curve, by context."""
    first = parts[0].examination
    if all(part.examination == first for part in parts):
        return first
    found: dict[str, Examination | None] = {}
    for part in parts:
        known, contexts = part.examination, dict.fromkeys(part.contexts)
        if known is None or not contexts:
            return None
        for context in contexts:
            own = known.of(context) if isinstance(known, CurvesByContext) else known
            if found.setdefault(context, own) != own:
                return None
    return CurvesByContext(found)


def _sorted_cells(part: ClickCounts, names: tuple[Name, ...]) -> tuple[Any, ...]:
    """The cells with policies numbered as in `names`, in order."""
    number = np.array([names.index(name) for name in numbered_policies(part)])
    policies = np.full(len(part.docs), number[0]) if part.policies is None else number[part.policies]
    propensities = np.zeros(len(part.docs)) if part.propensities is None else part.propensities
    cells: tuple[Any, ...] = (part.docs, part.ranks, policies, propensities, part.impressions, part.clicks)
    if (np.diff(number) < 0).any():
        order = np.lexsort((propensities, policies, part.ranks, part.docs))
        cells = tuple(column[order] for column in cells)
    return _read_only(cells)


def _policy_sessions(parts: Sequence[ClickCounts], names: tuple[Name, ...]) -> IntArray:
    total = np.zeros((len(names), parts[0].n_queries), np.int64)
    for part in parts:
        own = part.sessions[None] if part.policy_sessions is None else part.policy_sessions
        total[[names.index(name) for name in numbered_policies(part)]] += own
    return total


def _merge_unknown(parts: Sequence[ClickCounts]) -> IntArray | None:
    """Impressions of unknown documents by query; None where one of the parts does not know."""
    some = [part for part in parts if part.unknown_impressions]
    known = [part.unknown_by_query for part in some if part.unknown_by_query is not None]
    return np.sum(known, axis=0) if known and len(known) == len(some) else None


def _common_unexaminable(parts: Sequence[ClickCounts]) -> IntArray | None:
    """Documents that none of the policies shows where they can be examined; None where one of them does not know."""
    known = [part.unexaminable for part in parts if part.unexaminable is not None]
    return reduce(np.intersect1d, known) if len(known) == len(parts) else None


def _merge_last_clicks(parts: Sequence[ClickCounts], names: tuple[Name, ...]) -> LastClicks | None:
    """The rows of all parts, with the policies numbered as in `names`."""
    kept, named = [], any(part.policies is not None for part in parts)
    for part in parts:
        if part.last_clicks is not None:
            number = np.array([names.index(name) for name in numbered_policies(part)])
            own = part.last_clicks.policies
            policies = np.full(len(part.last_clicks), number[0]) if own is None else number[own]
            kept.append(replace(part.last_clicks, policies=policies if named else None))
    return join_rows(kept) if kept else None


def _merge_displays(parts: Sequence[ClickCounts], names: tuple[Name, ...]) -> Displays | None:
    """The pages of all parts; those of a part without names belong to its only policy, if others have names."""
    kept = []
    for part in parts:
        if part.displays is not None:
            number = np.array([names.index(name) for name in numbered_policies(part)])
            old = part.displays.policies
            if old is None and len(number) == 1:
                old = np.zeros(part.displays.n_pages, np.int64)
            kept.append(replace(part.displays, policies=None if names == (("", ""),) or old is None else number[old]))
    return merge_pages(parts[0].offsets, join_pages(kept)) if kept else None
