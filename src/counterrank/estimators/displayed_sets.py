"""Displayed sets of documents, each to be ranked by itself (`Views`), and the rerank estimator."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.displays import Displays, add_places, gather, number_pages, offsets_of, sort_places
from counterrank.clicks.examination import Examination, lines_of
from counterrank.clicks.exposure import examined_on_pages
from counterrank.common.checks import FloatArray, IntArray, as_array, check_vector, read_only
from counterrank.common.errors import CounterrankError
from counterrank.common.jit import Array, exact_kernel
from counterrank.data.ids import query_of
from counterrank.estimators.propensities import capped_inverse, check_clip, inverse_propensity, refuse_unseen
from counterrank.estimators.weights import warn_unless_always_seen

TWICE, TWO_QUERIES, ORDER, RANGE = 1, 2, 3, 4


@exact_kernel
def find_fault(data_offsets: Array, offsets: Array, docs: Array) -> tuple[int, int, bool]:
    """The first thing wrong with the sets and its place in `docs`, or 0; and whether documents rise within each set."""
    seen = np.full(data_offsets[-1], -1, np.int64)  # the last set with this document
    query = 0
    ordered = True
    for s in range(len(offsets) - 1):
        begin = offsets[s]
        for place in range(begin, offsets[s + 1]):
            doc = docs[place]
            if doc < 0 or doc >= len(seen):
                return RANGE, place, ordered
            if place == begin:
                if doc < data_offsets[query]:
                    return ORDER, place, ordered
                while doc >= data_offsets[query + 1]:
                    query += 1
            elif doc < data_offsets[query] or doc >= data_offsets[query + 1]:
                return TWO_QUERIES, place, ordered
            if seen[doc] == s:
                return TWICE, place, ordered
            seen[doc] = s
            ordered &= place == begin or docs[place - 1] < doc
    return 0, 0, ordered


class Views(NamedTuple):
    """Displayed sets of documents with a weight for each document, made by `rerank`; features are not copied.

    Attributes:
        docs: the documents of one set after the other, as rows of the data.
        offsets: where each set begins in `docs`, and their length at the end. Sets stand in the order of their queries.
        weights: one for each entry of `docs`.
    """

    docs: IntArray
    offsets: IntArray
    weights: FloatArray

    @property
    def n_sets(self) -> int:
        """The number of sets."""
        return len(self.offsets) - 1


def check_views(views: Views, data_offsets: IntArray, name: str = "views") -> Views:
    """The sets, if they fit the data; the documents of each in the order of the data.

    >>> check_views(Views([1, 0], [0, 2], [1, 0]), np.array([0, 2])).docs.tolist()
    [0, 1]
    """
    rows = _whole_numbers(views.docs, f"{name}.docs", "rows of the data")
    offsets = _whole_numbers(views.offsets, f"{name}.offsets", "where each set begins")
    weights = check_vector(views.weights, len(rows), f"{name}.weights", "entries of docs")
    if not len(rows) or len(offsets) < 2:
        raise CounterrankError(f"{name}: no sets; expected at least one, with at least one click")
    _check_bounds(offsets, len(rows), f"{name}.offsets")
    fault, place, ordered = find_fault(read_only(data_offsets), offsets, rows)
    if fault:
        raise CounterrankError(f"{name}: {_explain(fault, place, data_offsets, offsets, rows)}")
    if not ordered:
        rows, weights = rows.copy(), weights.copy()
        sort_places(offsets, rows, weights)
    return Views(rows, offsets, weights)


def _whole_numbers(values: Any, name: str, what: str) -> IntArray:
    given = as_array(values, name)
    if given.ndim != 1 or (len(given) and not np.issubdtype(given.dtype, np.integer)):
        raise CounterrankError(f"{name}: {given.dtype} of shape {given.shape}; expected {what}, one after another")
    return np.ascontiguousarray(given, dtype=np.int64)


def _check_bounds(offsets: IntArray, n: int, name: str) -> None:
    if offsets[0] != 0 or offsets[-1] != n:
        raise CounterrankError(
            f"{name}: from {offsets[0]} to {offsets[-1]}; expected 0 to {n}, the number of entries of docs"
        )
    filled = np.diff(offsets) > 0
    if not filled.all():
        at = int(np.argmin(filled))
        raise CounterrankError(
            f"{name}: set {at} goes from {offsets[at]} to {offsets[at + 1]}; expected at least one document in each"
        )


def _explain(fault: int, place: int, data_offsets: IntArray, offsets: IntArray, docs: IntArray) -> str:
    number = int(np.searchsorted(offsets, place, side="right")) - 1
    doc, first = docs[place], docs[offsets[number]]
    if fault == RANGE:
        return f"document {doc} in set {number}; expected rows of the data, 0 to {data_offsets[-1] - 1}"
    query = query_of([doc, first], data_offsets)
    if fault == TWICE:
        return f"document {doc} (of query {query[0]}) twice in set {number}; expected each once in a set"
    if fault == TWO_QUERIES:
        return f"set {number} holds documents of queries {query[1]} and {query[0]}; expected one query for each set"
    before = query_of(docs[offsets[number] - 1], data_offsets)
    return f"set {number} is of query {query[0]}, the one before it of query {before}; expected sets in query order"


def rerank(clicks: ClickCounts, exam: Examination, *, clip: float | None = None) -> Views:
    """The policy-oblivious weights (eq:obliviousestimator) inside each displayed set of documents.

        omega(d, S) = sum over clicks on d on pages that show the set S of min(1 / P(o(d) = 1 | rank), clip)

    Documents are compared only with those on the same page: a ranker trained so puts the documents of each page into a
    better order, and may be biased for documents that were never on one page (eq:agnosticcond); a `CoverageWarning`
    says how many were not always shown. Pages with the same documents in another order are one set. Sets without a
    click are left out.

    Arguments:
        clicks: what was shown and clicked, with its pages: `simulate(..., displays=True)`.
        exam: how likely each rank is examined. A click at a rank that is never examined is an error. Of a user model
            with trust bias, beta is taken off each impression; sets without a click then count too.
        clip: a cap on what each click counts, applied before summing; None for no cap.

    Returns:
        `Views` for `Ranker.fit`: sets in the order of their queries, documents of a set in the order of the data.

    >>> offsets, sessions = np.array([0, 2]), np.array([4])
    >>> docs, ranks = np.array([0, 0, 1, 1]), np.array([1, 2, 1, 2])
    >>> shown, clicked = np.array([2, 2, 2, 2]), np.array([1, 1, 2, 0])
    >>> pages = Displays(np.array([0, 2, 4]), np.array([0, 1, 1, 0]), np.array([2, 2]), np.array([1, 0, 2, 1]))
    >>> clicks = ClickCounts("", offsets, sessions, docs, ranks, shown, clicked, displays=pages)
    >>> views = rerank(clicks, Examination([1.0, 0.25]))  # document 0: once at rank 1, once at rank 2
    >>> views.docs.tolist(), views.offsets.tolist(), views.weights.tolist()
    ([0, 1], [0, 2], [5.0, 2.0])
    """
    counts, (curve, base), cap = check_counts(clicks), lines_of(exam), check_clip(clip)
    pages = counts.displays
    if pages is None:
        raise CounterrankError("clicks: no displayed pages kept; expected clicks of simulate(..., displays=True)")
    ranks = pages.ranks()
    theta = examined_on_pages(curve, counts)
    warn_unless_always_seen(counts, curve, "rerank")
    if base is None:
        inverse = capped_inverse(theta, cap, counts, pages.clicks, pages.docs, ranks, "exam")
        return _as_sets(counts.offsets, *_clicked_pages(pages, pages.clicks * inverse))
    refuse_unseen(curve, base, counts)
    net = pages.clicks - np.repeat(pages.sessions, np.diff(pages.offsets)) * examined_on_pages(base, counts)
    return _as_sets(counts.offsets, pages.offsets, pages.docs.copy(), net * inverse_propensity(theta, cap))


def _clicked_pages(pages: Displays, weights: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Offsets, documents and weights of the pages that were clicked."""
    so_far = np.concatenate(([0], np.cumsum(pages.clicks)))[pages.offsets]
    clicked = np.flatnonzero(np.diff(so_far))
    offsets = offsets_of(np.diff(pages.offsets)[clicked])
    docs, kept = np.empty(offsets[-1], np.int64), np.empty(offsets[-1])
    gather(pages.offsets, pages.docs, clicked, offsets, docs)
    gather(pages.offsets, weights, clicked, offsets, kept)
    return offsets, docs, kept


def _as_sets(data_offsets: IntArray, offsets: IntArray, docs: IntArray, weights: FloatArray) -> Views:
    """Pages with the same documents taken together; `docs` and `weights` are put in the order of documents."""
    sort_places(offsets, docs, weights)
    owner = query_of(docs[offsets[:-1]], data_offsets)
    group, chosen = np.empty((2, len(owner)), np.int64)
    n = number_pages(owner, offsets, docs, group, chosen)
    set_offsets = offsets_of(np.diff(offsets)[chosen[:n]])
    members, total = np.empty(set_offsets[-1], np.int64), np.zeros(set_offsets[-1])
    gather(offsets, docs, chosen[:n], set_offsets, members)
    add_places(group, offsets, weights, set_offsets, total)
    return Views(members, set_offsets, total)
