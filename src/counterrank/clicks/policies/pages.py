"""Pages of a policy for the queries of one data set: made ready once, then drawn session by session.

A policy is a mixture of components: kinds of pages that kernels know (`page_kernels`), or policies of the user's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.displays import offsets_of
from counterrank.clicks.policies import page_kernels as kernels
from counterrank.clicks.policies.page_kernels import NO_CUTOFF
from counterrank.clicks.policies.team_draft import CoinPages, coin_pages
from counterrank.common.checks import FloatArray, IntArray, as_array, check_offsets, check_vector, is_two
from counterrank.common.errors import CounterrankError
from counterrank.common.parallel import for_queries, for_range
from counterrank.common.random import derive_key, seed_key
from counterrank.data.ids import query_of_rows

ListedPages = dict[int | None, tuple[list[list[int]], list[float]]]
"""Pages and their probabilities by query index; None as index serves data of a single query."""


class Component(NamedTuple):
    """One part of a mixture: a kind that kernels know (see `page_kernels`), or a custom policy."""

    share: float
    kind: int = -1
    k: int = NO_CUTOFF
    value: float = 0.0
    listed: ListedPages | None = None
    custom: Any = None
    interleaved: bool = False  # pages are listed, but follow from two rankings, see `team_draft`


def components_of(policy: Any) -> list[Component]:
    """The components of a policy; a custom one, which draws its pages by a `sample` of its own, is its only component.

    >>> from counterrank.clicks.policies import Deterministic
    >>> len(components_of(Deterministic(k=3)))
    1
    """
    if getattr(type(policy), "samples_components", False):
        components: list[Component] = policy.components()
        return components
    return [Component(1.0, custom=policy)]


def is_custom(policy: Any) -> bool:
    """Whether kernels do not know the pages of a policy.

    >>> from counterrank.clicks.policies import Deterministic
    >>> is_custom(Deterministic(k=3))
    False
    """
    return any(part.custom is policy for part in components_of(policy))


def knows_propensity(policy: Any) -> bool:
    """Whether a policy can compute its propensities, rather than have them estimated from samples.

    >>> from counterrank.clicks.policies import Deterministic
    >>> knows_propensity(Deterministic(k=3))
    True
    """
    if not is_custom(policy):
        return all(part.custom is None or knows_propensity(part.custom) for part in policy.components())
    inherited = getattr(type(policy), "estimates_propensity", False)
    own = "propensity" in getattr(policy, "__dict__", {})
    return callable(getattr(policy, "propensity", None)) and (own or not inherited)


def takes_two_rankings(policy: Any) -> bool:
    """Whether a policy, or a part of a mixture, interleaves two rankings.

    >>> from counterrank.clicks.policies import Deterministic, TeamDraft
    >>> takes_two_rankings(Deterministic(k=3)), takes_two_rankings(TeamDraft(k=3))
    (False, True)
    """
    return any(part.interleaved for part in components_of(policy))


def check_rankings(scores: Any, n_docs: int | None, name: str = "scores") -> FloatArray:
    """One score per document, or of two rankings, given as a list of two arrays, (2, n_docs).

    >>> check_rankings([1.0, 2.0], 2).shape, check_rankings([[1.0, 2.0], [2.0, 1.0]], 2).shape
    ((2,), (2, 2))
    """
    if not is_two(scores):
        return check_vector(scores, n_docs, name)
    first = check_vector(scores[0], n_docs, f"{name}[0]")
    return np.stack([first, check_vector(scores[1], len(first), f"{name}[1]")])


def check_scores(policy: Any, scores: Any) -> FloatArray:
    """The scores as the policy takes them: one per document, or those of two rankings that it interleaves.

    >>> from counterrank.clicks.policies import TeamDraft
    >>> check_scores(TeamDraft(k=3), [1.0, 2.0])
    Traceback (most recent call last):
    ...
    counterrank.common.errors.CounterrankError: scores: one ranking, but TeamDraft interleaves two; expected a list \
of two arrays
    """
    if not takes_two_rankings(policy):
        return check_vector(scores, None, "scores")
    if not is_two(scores):
        name = type(policy).__name__
        raise CounterrankError(f"scores: one ranking, but {name} interleaves two; expected a list of two arrays")
    return check_rankings(scores, None)


@dataclass(frozen=True, eq=False)
class PageSource:
    """A policy and the scores it ranks by, ready for kernels.

    Attributes:
        arrays: the policy as kernels take it.
        offsets: of the queries.
        parts: what the policy is a mixture of.
        width: the length of the longest page that kernels can make.
        threads: how many to use; the pages are the same for any number.
        two: the scores of two rankings, (2, n_docs), where the policy interleaves them; else None.
    """

    arrays: kernels.PolicyArrays
    offsets: IntArray
    parts: list[Component]
    width: int
    threads: int | None = None
    two: FloatArray | None = None

    @classmethod
    def make(cls, policy: Any, scores: ArrayLike, offsets: ArrayLike, threads: int | None = None) -> PageSource:
        """Check the scores, rank each query once, and lay out listed pages.

        Of two rankings, all components but those that interleave them take the first.
        """
        rankings = check_scores(policy, scores)
        given = np.ascontiguousarray(rankings if rankings.ndim == 1 else rankings[0])
        bounds = check_offsets(offsets, len(given))
        parts = components_of(policy)
        kinds = np.array([part.kind for part in parts])
        order = np.empty(0, np.int64)
        if (kinds == kernels.LAST).any() or (kinds == kernels.INSERT).any():
            order = np.empty(len(given), np.int64)
            for_queries(kernels.rank_queries, bounds, given, order, threads=threads)
        elif (kinds == kernels.LISTED).any():
            order = np.zeros(len(given), np.int64)  # of which only the length is looked at
        listed = [
            _interleaved(coin_pages(rankings, bounds, part.k, threads)) if part.interleaved else _listed(part, bounds)
            for part in parts
            if part.kind == kernels.LISTED
        ]
        tables = np.full(len(parts), -1)
        tables[kinds == kernels.LISTED] = np.arange(len(listed))
        arrays = kernels.PolicyArrays(
            kinds,
            np.array([part.k for part in parts]),
            np.array([part.value for part in parts]),
            np.array([part.share for part in parts]),
            tables,
            given,
            order,
            *_lay_out(listed),
        )
        return cls(arrays, bounds, parts, _width(arrays, bounds), threads, rankings if rankings.ndim == 2 else None)

    @property
    def scores(self) -> FloatArray:
        """What the policy ranks by: one score per document, or those of two rankings."""
        return self.arrays.scores if self.two is None else self.two

    @property
    def is_built_in(self) -> bool:
        """Whether kernels can draw all its pages."""
        return all(part.custom is None for part in self.parts)

    @property
    def draws(self) -> bool:
        """Whether pages of a Plackett-Luce component have to be drawn."""
        return bool((self.arrays.kinds == kernels.PLACKETT_LUCE).any())

    def one_each(self, seed: int | np.random.Generator) -> tuple[IntArray, IntArray]:
        """One page for each query: documents by rank as row indices, and where each page begins."""
        page_offsets, docs = self.draw(np.arange(len(self.offsets) - 1), seed_key(seed), 0)
        return docs, page_offsets

    def draw(self, queries: IntArray, key: np.uint64, begin: int) -> tuple[IntArray, IntArray]:
        """A page for each session, given its query: where each begins, and documents by rank as row indices.

        Session `i` is number `begin + i` of this key; except for custom policies it shows the same page
        whether drawn in one call or in many.
        """
        n = len(queries)
        chosen = np.empty((3, n), np.int64)
        sessions = kernels.Sessions(queries, key, begin)
        for_range(kernels.choose_pages, n, sessions, self.offsets, self.arrays, chosen, threads=self.threads)
        own = self._custom_pages(queries, chosen, key, begin)
        page_offsets = offsets_of(chosen[2])
        docs = np.empty(page_offsets[-1], np.int64)
        if self.draws:
            turn = np.argsort(queries, kind="stable")  # sessions of one query share the work of preparing it
        else:
            turn = np.arange(n)
        args = (turn, sessions, self.offsets, self.arrays, kernels.DrawnPages(chosen, page_offsets, docs))
        for_range(kernels.fill_pages, n, *args, threads=self.threads)
        for which, rows in own:
            docs[_places(page_offsets, which)] = rows
        return page_offsets, docs

    def _custom_pages(self, queries: IntArray, chosen: IntArray, key: np.uint64, begin: int) -> list[tuple[Any, Any]]:
        """Pages of custom policies; sets their lengths in `chosen`. Each call of theirs serves all queries."""
        found = []
        for c, part in enumerate(self.parts):
            if part.custom is None:
                continue
            left = np.flatnonzero(chosen[0] == c)
            call = 0
            while len(left):
                now = np.unique(queries[left], return_index=True)[1]
                seed = int(derive_key(derive_key(key, begin), len(self.parts) * call + c) >> np.uint64(1))
                docs, bounds = part.custom.sample(self.arrays.scores, self.offsets, seed=seed)
                docs, bounds = check_sample(docs, bounds, self.offsets)
                sessions = left[now]
                chosen[2, sessions] = np.diff(bounds)[queries[sessions]]
                found.append((sessions, docs[_places(bounds, queries[sessions])]))
                left, call = np.delete(left, now), call + 1
        return found


def _places(bounds: IntArray, chosen: IntArray) -> IntArray:
    """The entries of the chosen ones of ragged rows, one after the other."""
    lengths = np.diff(bounds)[chosen]
    starts = offsets_of(lengths)
    places: IntArray = np.arange(starts[-1]) + np.repeat(bounds[:-1][chosen] - starts[:-1], lengths)
    return places


def _width(policy: kernels.PolicyArrays, offsets: IntArray) -> int:
    longest = int(np.diff(offsets).max())
    known = (policy.kinds >= 0) & (policy.kinds != kernels.LISTED)
    by_rank = int(np.minimum(policy.ks[known], longest).max(initial=0))
    return max(by_rank, int(np.diff(policy.page_offsets).max(initial=0)))


class _Listed(NamedTuple):
    """Listed pages of all queries, behind each other."""

    counts: IntArray  # how many pages each query has
    lengths: IntArray  # of the pages
    places: IntArray
    probabilities: FloatArray


def _interleaved(pages: CoinPages) -> _Listed:
    return _Listed(pages.counts, np.diff(pages.offsets), pages.places, np.repeat(1.0 / pages.counts, pages.counts))


def _listed(part: Component, offsets: IntArray) -> _Listed:
    """The pages that a policy lists, if there are so many documents."""
    assert part.listed is not None
    n_queries = len(offsets) - 1
    counts, lengths, places, probabilities = [], [], [], []
    for q in range(n_queries):
        pages, shares = _pages_of(part.listed, q, n_queries)
        counts.append(len(pages))
        for page, share in zip(pages, shares, strict=True):
            if max(page) >= offsets[q + 1] - offsets[q]:
                raise CounterrankError(
                    f"policy: document {max(page)} on a page of query {q}, which has "
                    f"{offsets[q + 1] - offsets[q]} documents; expected places from 0"
                )
            lengths.append(len(page))
            places += page
            probabilities.append(share)
    return _Listed(
        np.array(counts, np.int64),
        np.array(lengths, np.int64),
        np.array(places, np.int64),
        np.array(probabilities, np.float64),
    )


def _lay_out(tables: list[_Listed]) -> tuple[Any, ...]:
    """All listed pages behind each other: first page of each table and query, page offsets, places, probabilities."""
    none = np.empty(0, np.int64)
    counts, lengths, places, probabilities = (
        (np.concatenate([*column, none]) for column in zip(*tables, strict=True))
        if tables
        else (none, none, none, np.empty(0))
    )
    return offsets_of(counts), offsets_of(lengths), places, np.asarray(probabilities, np.float64)


def _pages_of(table: ListedPages, query: int, n_queries: int) -> tuple[list[list[int]], list[float]]:
    if query in table:
        return table[query]
    if None not in table:
        raise CounterrankError(f"policy: no Explicit for query {query}; expected one for each of {n_queries} queries")
    if n_queries > 1:
        raise CounterrankError(
            f"policy: Explicit serves one query, the data has {n_queries}; expected {{query index: Explicit}}"
        )
    return table[None]


def check_sample(docs: Any, bounds: Any, offsets: IntArray) -> tuple[IntArray, IntArray]:
    """What the `sample` of a custom policy returned, if it is a page of its own documents for each query."""
    rows, begins = as_array(docs, "sample's docs"), as_array(bounds, "sample's offsets")
    if begins.shape != offsets.shape or begins[0] != 0 or begins[-1] != len(rows) or (np.diff(begins) < 0).any():
        raise CounterrankError(
            f"policy: sample's offsets of shape {begins.shape}; expected {len(offsets)} numbers that never decrease, "
            "from 0 to the number of displayed documents"
        )
    if not np.issubdtype(rows.dtype, np.integer):
        raise CounterrankError(f"policy: sample's docs are {rows.dtype}; expected rows of the data, whole numbers")
    empty = np.flatnonzero(np.diff(begins) == 0)
    if len(empty):
        raise CounterrankError(f"policy: sample shows an empty page for query {empty[0]}; expected a document")
    query = query_of_rows(begins)
    outside = (rows < offsets[query]) | (rows >= offsets[query + 1])
    if outside.any():
        place = int(np.argmax(outside))
        raise CounterrankError(
            f"policy: sample shows row {rows[place]} for query {query[place]}; expected rows {offsets[query[place]]} "
            f"to {offsets[query[place] + 1] - 1}"
        )
    ordered = np.sort(rows)
    if (np.diff(ordered) == 0).any():
        twice = int(ordered[:-1][np.diff(ordered) == 0][0])
        raise CounterrankError(f"policy: sample shows row {twice} twice on one page; expected each document once")
    return rows.astype(np.int64), begins.astype(np.int64)
