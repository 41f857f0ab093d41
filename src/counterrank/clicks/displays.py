"""Distinct displayed pages: how often each was shown, and the clicks on its places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from counterrank.common.checks import IntArray
from counterrank.common.errors import CounterrankError
from counterrank.common.jit import Array, exact_inner_kernel, exact_kernel
from counterrank.data.ids import place_in_query, query_of

DEEPEST_RANK = 1_000_000  # no page is longer; what lies beyond is a fault and not a rank
DEEPEST_PATTERN = 62  # ranks of a page whose clicks are kept as bits of a number
_PRIME, _BASIS = np.uint64(0x100000001B3), np.uint64(0xCBF29CE484222325)
_SHIFT = np.uint64(29)


@exact_inner_kernel
def _hash(docs: Array) -> np.uint64:
    """A hash of the documents of a page in their order (FNV-1a, and a shift that mixes the high bits in)."""
    mixed = _BASIS
    for doc in docs:
        mixed = (mixed ^ np.uint64(doc)) * _PRIME
        mixed ^= mixed >> _SHIFT
    return mixed


@exact_inner_kernel
def _same(a: Array, b: Array) -> bool:
    """Whether two pages show the same documents in the same order."""
    if len(a) != len(b):
        return False
    different = 0
    for i in range(len(a)):
        different += a[i] != b[i]
    return different == 0


@exact_kernel
def number_pages(owner: Array, offsets: Array, docs: Array, group: Array, chosen: Array) -> Any:
    """Give equal pages one number; returns how many numbers there are.

    Arguments:
        owner: the query of each page, never decreasing.
        offsets, docs: the pages.
        group: gets the number of each page; numbers of an earlier query come first.
        chosen: gets, for each number, one of its pages; as long as `owner`.
    """
    n_groups = np.int64(0)
    begin = np.int64(0)
    while begin < len(owner):
        end = begin + 1
        while end < len(owner) and owner[end] == owner[begin]:
            end += 1
        size = 2
        while size < 2 * (end - begin):
            size *= 2
        slots = np.full(size, -1)  # a table of the query's groups, found by the hash of their page
        for page in range(begin, end):
            here = docs[offsets[page] : offsets[page + 1]]
            slot = np.int64(_hash(here) & np.uint64(size - 1))
            while slots[slot] >= 0:
                other = chosen[slots[slot]]
                if _same(here, docs[offsets[other] : offsets[other + 1]]):
                    break
                slot = (slot + 1) % size
            if slots[slot] < 0:
                slots[slot] = n_groups
                chosen[n_groups] = page
                n_groups += 1
            group[page] = slots[slot]
        begin = end
    return n_groups


@exact_kernel
def add_places(group: Array, offsets: Array, values: Array, out_offsets: Array, out: Array) -> None:
    """Add the numbers on each page's places to those of its group; places of equal pages correspond."""
    for page in range(len(group)):
        target = out_offsets[group[page]]
        for i in range(offsets[page + 1] - offsets[page]):
            out[target + i] += values[offsets[page] + i]


@exact_kernel
def sort_places(offsets: Array, docs: Array, values: Array) -> None:
    """Put the places of each page in the order of their documents, with their values."""
    for page in range(len(offsets) - 1):
        for i in range(offsets[page] + 1, offsets[page + 1]):
            doc, value = docs[i], values[i]
            j = i
            while j > offsets[page] and docs[j - 1] > doc:
                docs[j], values[j] = docs[j - 1], values[j - 1]
                j -= 1
            docs[j], values[j] = doc, value


@exact_kernel
def gather(offsets: Array, values: Array, pages: Array, out_offsets: Array, out: Array) -> None:
    """The places of the chosen pages, one page behind the other."""
    for i in range(len(pages)):
        begin = offsets[pages[i]]
        for j in range(offsets[pages[i] + 1] - begin):
            out[out_offsets[i] + j] = values[begin + j]


def offsets_of(lengths: IntArray) -> IntArray:
    """Offsets of pages of these lengths."""
    result = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=result[1:])
    return result


@dataclass(frozen=True, eq=False)
class Displays:
    """Pages in the order of their queries; a page is the documents at ranks 1, 2, ... of one query.

    Two pages with the same documents in another order are two pages; `counterrank.estimators.displayed_sets` takes them
    together as one displayed set.

    Attributes:
        offsets: where each page begins in `docs` and `clicks`, (n_pages + 1,).
        docs: the documents by rank, as rows of the data.
        sessions: how often each page was shown, (n_pages,).
        clicks: how often each place was clicked, as long as `docs`.
        policies: the number of the policy that showed each page, as in `ClickCounts.policy_names`; pages of one query
            stand in the order of their policies. None where the log names none, and in folders written by version 0.1.
        patterns: which ranks were clicked, as bits of a number, the lowest for rank 1; a page that was clicked in
            several ways is then there once for each. None where patterns were not kept.
    """

    offsets: IntArray
    docs: IntArray
    sessions: IntArray
    clicks: IntArray
    policies: IntArray | None = None
    patterns: IntArray | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            array = getattr(self, each.name)
            if array is not None:
                array.flags.writeable = False

    @property
    def n_pages(self) -> int:
        """The number of distinct pages."""
        return len(self.sessions)

    def ranks(self) -> IntArray:
        """The rank of each entry of `docs`, from 1."""
        return place_in_query(self.offsets) + 1


def with_patterns(pages: Displays) -> Displays:
    """Pages whose places are clicked in all sessions or in none, with the pattern of their clicks.

    >>> pages = Displays(np.array([0, 2, 4]), np.array([1, 0, 1, 0]), np.array([3, 4]), np.array([0, 3, 0, 0]))
    >>> with_patterns(pages).patterns.tolist()
    [2, 0]
    """
    ranks, clicked = pages.ranks(), pages.clicks > 0
    if ranks.max(initial=1) > DEEPEST_PATTERN:
        raise CounterrankError(
            f"displays, last_clicks: a page of {ranks.max()} documents; expected at most {DEEPEST_PATTERN} where the "
            "clicks of each page are kept"
        )
    bits = np.where(clicked, np.left_shift(np.int64(1), ranks - 1), 0)
    return replace(pages, patterns=np.add.reduceat(bits, pages.offsets[:-1]) if pages.n_pages else bits)


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
    if pages.patterns is not None:
        ways, place = np.unique(pages.patterns, return_inverse=True)
        owner = owner * max(len(ways), 1) + place.reshape(-1)
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
    return Displays(once.offsets, once.docs, sessions, clicks, once.policies, once.patterns)


def join_pages(parts: Sequence[Displays]) -> Displays:
    """The pages of several parts, one part behind the other.

    >>> one = Displays(np.array([0, 1]), np.array([5]), np.array([1]), np.array([0]))
    >>> join_pages([one, one]).offsets.tolist()
    [0, 1, 2]
    """
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    named = [part.policies for part in parts if part.policies is not None]
    patterns = [part.patterns for part in parts if part.patterns is not None]
    return Displays(
        offsets_of(lengths),
        np.concatenate([part.docs for part in parts]),
        np.concatenate([part.sessions for part in parts]),
        np.concatenate([part.clicks for part in parts]),
        np.concatenate(named) if len(named) == len(parts) else None,
        np.concatenate(patterns) if len(patterns) == len(parts) else None,
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
    patterns = None if pages.patterns is None else pages.patterns[chosen]
    return Displays(offsets, docs, pages.sessions[chosen], clicks, policies, patterns)


def pages_of_policies(pages: Displays | None, number: IntArray) -> Displays | None:
    """The pages of some policies, which get new numbers."""
    if pages is None:
        return None
    if pages.policies is None:
        raise CounterrankError(
            "only_policies: the displayed pages were kept without the policy that showed them (by an earlier version); "
            "count the log again"
        )
    kept = take_pages(pages, np.flatnonzero(number[pages.policies] >= 0))
    return replace(kept, policies=number[pages.policies[number[pages.policies] >= 0]])


def pages_of_queries(pages: Displays, offsets: IntArray, number: IntArray, place: IntArray) -> Displays:
    """The pages of some queries, by the new numbers of queries and documents, -1 for those that are left out."""
    owner = number[query_of(pages.docs[pages.offsets[:-1]], offsets)]
    kept = np.flatnonzero(owner >= 0)
    chosen = take_pages(pages, kept[np.argsort(owner[kept], kind="stable")])
    return replace(chosen, docs=place[chosen.docs])


@exact_inner_kernel
def _compare(a: Any, i: int, b: Any, j: int) -> int:
    """-1, 0 or 1 as cell `i` of `a` comes before, is, or comes after cell `j` of `b`."""
    if a[0][i] != b[0][j]:
        return -1 if a[0][i] < b[0][j] else 1
    if a[1][i] != b[1][j]:
        return -1 if a[1][i] < b[1][j] else 1
    if a[2][i] != b[2][j]:
        return -1 if a[2][i] < b[2][j] else 1
    if a[3][i] != b[3][j]:
        return -1 if a[3][i] < b[3][j] else 1
    return 0


@exact_kernel
def merge_cells(a: Any, b: Any) -> Any:
    """Two sorted lists of cells as one; cells in both are added up.

    Each is (docs, ranks, policies, propensities, impressions, clicks).
    """
    most = len(a[0]) + len(b[0])
    ints = np.empty((5, most), np.int64)
    reals = np.empty(most)
    n: Any = np.int64(0)  # typed, since numba compiles whatever is called with a literal number once more for that
    i = j = n
    while i < len(a[0]) or j < len(b[0]):
        if i == len(a[0]):
            side = 1
        elif j == len(b[0]):
            side = -1
        else:
            side = _compare(a, i, b, j)
        impressions = clicks = 0
        if side <= 0:
            ints[0, n], ints[1, n], ints[2, n], reals[n] = a[0][i], a[1][i], a[2][i], a[3][i]
            impressions += a[4][i]
            clicks += a[5][i]
            i += 1
        if side >= 0:
            ints[0, n], ints[1, n], ints[2, n], reals[n] = b[0][j], b[1][j], b[2][j], b[3][j]
            impressions += b[4][j]
            clicks += b[5][j]
            j += 1
        ints[3, n], ints[4, n] = impressions, clicks
        n += 1
    return (
        ints[0, :n].copy(),
        ints[1, :n].copy(),
        ints[2, :n].copy(),
        reals[:n].copy(),
        ints[3, :n].copy(),
        ints[4, :n].copy(),
    )
