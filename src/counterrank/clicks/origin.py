"""Where clicks come from, and whether two sets of clicks have sessions in common."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.common.random import EVERYTHING, HashSample

if TYPE_CHECKING:
    from counterrank.clicks.counts import ClickCounts

SAMPLE_SIZE = 16384  # sessions of each source that counts keep the hashes of
FEW_SHARED = 0.01  # share of common sessions up to which two logs are taken for different ones, with a warning
_MOSTLY = 0.9  # of sessions with equal ids, those whose pages are equal if they are the same sessions
_FEWEST_COMPARED = 5  # fewest sampled sessions by which a log is found in another
FEWEST_SESSIONS = 100  # by which logs are known again


@dataclass(frozen=True, eq=False)
class SessionSample:
    """A sample of sessions that is drawn by the hash of their ids, as `HashSample` is.

    Session ids are often numbers that begin again with each log. So sessions with equal ids are the same only if their
    pages look the same; where not nearly all of them do, none is.

    Attributes:
        ids: hashes of the session ids in the sample.
        pages: for each of them, 8 bits of a hash of its query, first document and click there.
        queries: the query of each, as in the data it was counted against, so that those of some queries can be chosen;
            None in samples of rankers, and in folders written by earlier versions.
    """

    ids: HashSample
    pages: NDArray[np.uint8]
    queries: NDArray[np.int64] | None = None

    @classmethod
    def of(
        cls, ids: ArrayLike, pages: ArrayLike, limit: int = EVERYTHING, queries: ArrayLike | None = None
    ) -> SessionSample:
        """The sample of these sessions: those with a hash below the limit."""
        found, first = np.unique(np.asarray(ids, np.uint64), return_index=True)
        kept = HashSample.of(found, limit)
        n = len(kept.hashes)
        marks = (np.asarray(pages, np.uint64)[first] & np.uint64(255)).astype(np.uint8)
        return cls(kept, marks[:n], None if queries is None else np.asarray(queries, np.int64)[first][:n])

    def reduced(self, size: int) -> SessionSample:
        """At most so many sessions, by a smaller limit."""
        kept = self.ids.reduced(size)
        n = len(kept.hashes)
        return SessionSample(kept, self.pages[:n], None if self.queries is None else self.queries[:n])

    def of_queries(self, number: NDArray[np.int64]) -> SessionSample:
        """The sessions of some queries, which get new numbers (-1 for the others); all of them if that is not known.

        >>> sample = SessionSample.of([5, 7], [1, 2], queries=[0, 1])
        >>> sample.of_queries(np.array([-1, 0])).ids.hashes.tolist()
        [7]
        """
        if self.queries is None:
            return self  # rather too many, so that common sessions are not overlooked
        kept = number[self.queries] >= 0
        ids = HashSample(self.ids.hashes[kept], self.ids.limit)
        return SessionSample(ids, self.pages[kept], number[self.queries[kept]])

    def share_in(self, other: SessionSample) -> float:
        """The estimated share of these sessions that the other log has too.

        >>> week = SessionSample.of([5, 6, 7, 8], [1, 1, 1, 1])
        >>> week.share_in(SessionSample.of([5, 7], [1, 1])), week.share_in(SessionSample.of([5, 6, 7, 8], [1, 2, 3, 4]))
        (0.5, 0.0)
        """
        limit = min(self.ids.limit, other.ids.limit)
        own = HashSample.of(self.ids.hashes, limit).hashes
        if not len(own) or not len(other.ids.hashes):
            return 0.0
        place = np.minimum(np.searchsorted(other.ids.hashes, own), len(other.ids.hashes) - 1)
        found = other.ids.hashes[place] == own
        same = found & (other.pages[place] == self.pages[: len(own)])
        return float(same.mean()) if same.sum() > _MOSTLY * found.sum() else 0.0

    def comparable(self, other: SessionSample) -> int:
        """How many of these sessions would be found in the other log, were they in it."""
        return len(HashSample.of(self.ids.hashes, min(self.ids.limit, other.ids.limit)).hashes)

    def describe(self) -> dict[str, Any]:
        """The sample as JSON can hold it."""
        found = {**self.ids.describe(), "pages": base64.b64encode(self.pages.tobytes()).decode("ascii")}
        if self.queries is None:
            return found
        return found | {"queries": base64.b64encode(self.queries.astype("<i4").tobytes()).decode("ascii")}

    @classmethod
    def from_description(cls, content: dict[str, Any]) -> SessionSample:
        """What `describe` wrote."""
        ids = HashSample.from_description(content)
        pages = np.frombuffer(base64.b64decode(str(content["pages"]).encode("ascii"), validate=True), np.uint8)
        queries = None
        if "queries" in content:
            packed = base64.b64decode(str(content["queries"]).encode("ascii"), validate=True)
            queries = np.frombuffer(packed, "<i4").astype(np.int64)
        if any(len(ids.hashes) != len(column) for column in (pages, queries) if column is not None):
            raise ValueError("sample")
        return cls(ids, pages, queries)


class Source(NamedTuple):
    """The clicks of one policy in one log.

    Attributes:
        policy: its name in the log, "" if it has none.
        sessions: how many there were.
        content: a digest of all counts, so that the same clicks are known again where session ids are gone.
        sample: of the sessions; None where there are no session ids.
    """

    policy: str
    sessions: int
    content: str
    sample: SessionSample | None = None


@dataclass(frozen=True, eq=False)
class Origin:
    """Where clicks come from.

    Attributes:
        sources: one for each log and policy.
        paths: the logs or folders, where they were read from any.
        first, last: the earliest and latest timestamp of the logs, as ISO 8601; None where that is not known.
    """

    sources: tuple[Source, ...] = ()
    paths: tuple[str, ...] = ()
    first: str | None = None
    last: str | None = None

    def reduced(self, size: int) -> Origin:
        """The same with smaller samples: so many sessions of all sources together, but a quarter of that of each.

        They do not hold the queries of the sessions.
        """
        each = max(size // 4, size // max(len(self.sources), 1))
        samples = [source.sample and replace(source.sample.reduced(each), queries=None) for source in self.sources]
        kept = [source._replace(sample=sample) for source, sample in zip(self.sources, samples, strict=True)]
        return replace(self, sources=tuple(kept))

    def of_policies(self, names: Sequence[str]) -> Origin:
        """The sources of some policies."""
        return replace(self, sources=tuple(source for source in self.sources if source.policy in names))

    def of_queries(self, number: NDArray[np.int64], sources: Sequence[Source] | None = None) -> Origin:
        """The sessions of some queries, which get new numbers (-1 for the others).

        `sources` are those of the counts of these queries, by policy; None where these are all queries that have
        sessions. The dates stay those of the logs.
        """
        known = None if sources is None else {source.policy: source for source in sources}
        kept = []
        for source in self.sources:
            one = source._replace(sample=source.sample and source.sample.of_queries(number))
            if known is not None:
                if source.policy not in known:
                    continue
                whole = known[source.policy]
                others = [each.sessions for each in self.sources if each.policy == source.policy]
                one = one._replace(sessions=whole.sessions, content=whole.content)
                if len(others) > 1:  # which of them the sessions are from is not known
                    sessions = round(whole.sessions * source.sessions / max(sum(others), 1))
                    digest = hashlib.blake2b(f"{source.content} {whole.content}".encode(), digest_size=16)
                    one = one._replace(sessions=sessions, content=digest.hexdigest())
            kept.append(one)
        return replace(self, sources=tuple(kept))

    def describe(self) -> dict[str, Any]:
        """The origin as JSON can hold it."""
        sources = [each._asdict() | {"sample": each.sample and each.sample.describe()} for each in self.sources]
        return {"paths": list(self.paths), "first": self.first, "last": self.last, "sources": sources}

    @classmethod
    def from_description(cls, content: dict[str, Any]) -> Origin:
        """What `describe` wrote.

        >>> origin = Origin((Source("v1", 10, "abc", SessionSample.of([5, 7], [1, 2])),), ("log.csv",))
        >>> Origin.from_description(origin.describe()).describe() == origin.describe()
        True
        """
        sources = tuple(
            Source(
                str(each["policy"]),
                int(each["sessions"]),
                str(each["content"]),
                None if each["sample"] is None else SessionSample.from_description(each["sample"]),
            )
            for each in content["sources"]
        )
        return cls(sources, tuple(map(str, content["paths"])), content["first"], content["last"])


def join_origins(origins: Sequence[Origin]) -> Origin:
    """The origin of clicks that were put together.

    >>> join_origins([Origin(paths=("a",), first="2026-01-02"), Origin(paths=("b",), first="2026-01-01")]).paths
    ('a', 'b')
    """
    return Origin(
        tuple(source for origin in origins for source in origin.sources),
        tuple(dict.fromkeys(path for origin in origins for path in origin.paths)),
        min((origin.first for origin in origins if origin.first is not None), default=None),
        max((origin.last for origin in origins if origin.last is not None), default=None),
    )


def shared_sessions(clicks: Origin, earlier: Origin, by_content: bool = True) -> float:
    """The share of the sessions of `clicks` that are among the earlier ones too, as far as is known.

    By session ids; `by_content` also if all counts of a source are the same, and there are a hundred sessions.

    >>> monday, week = SessionSample.of([5, 7], [1, 1]), SessionSample.of([5, 6, 7, 8], [1, 1, 1, 1])
    >>> shared_sessions(Origin((Source("", 4, "x", week),)), Origin((Source("", 2, "y", monday),)))
    0.5
    >>> shared_sessions(Origin((Source("", 400, "x"),)), Origin((Source("", 400, "x"),)))
    1.0
    """
    total = sum(source.sessions for source in clicks.sources)
    shared = 0.0
    for own in clicks.sources:
        shared += min(sum(_shared(own, each, by_content) for each in earlier.sources), 1.0) * own.sessions
    return shared / total if total else 0.0


def _shared(own: Source, other: Source, by_content: bool) -> float:
    """The share of the sessions of one source that the other has too."""
    if by_content and own.content == other.content and own.sessions >= FEWEST_SESSIONS:
        return 1.0
    if own.sample is None or other.sample is None:
        return 0.0
    return own.sample.share_in(other.sample)


def too_few_to_tell(clicks: Origin, earlier: Origin) -> bool:
    """Whether the samples are too small to find the sessions of `clicks` among the earlier ones."""
    pairs = [(own.sample, each.sample) for own in clicks.sources for each in earlier.sources]
    comparable = [own.comparable(other) for own, other in pairs if own is not None and other is not None]
    return bool(comparable) and max(comparable) < _FEWEST_COMPARED


def content_sources(clicks: ClickCounts) -> tuple[Source, ...]:
    """The sources of counts that come from one log, known by their content alone."""
    if clicks.policies is None or clicks.policy_sessions is None:
        return (Source("", clicks.n_sessions, _digest(clicks, clicks.sessions, slice(None))),)
    found = []
    for name in dict.fromkeys(clicks.policy_names):  # which come several times where the log has contexts
        own = np.array([each == name for each in clicks.policy_names])
        sessions, cells = clicks.policy_sessions[own].sum(axis=0), np.flatnonzero(own[clicks.policies])
        found.append(Source(name, int(sessions.sum()), _digest(clicks, sessions, cells)))
    return tuple(found)


def _digest(clicks: ClickCounts, sessions: Any, cells: Any) -> str:
    digest = hashlib.blake2b(clicks.identity.encode(), digest_size=16)
    digest.update(np.ascontiguousarray(sessions, np.int64).data)
    for column in (clicks.docs, clicks.ranks, clicks.impressions, clicks.clicks):
        digest.update(np.ascontiguousarray(column[cells], np.int64).data)
    return digest.hexdigest()
