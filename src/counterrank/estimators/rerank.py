"""The rerank estimator: each displayed set of documents is a small ranking of its own."""

from __future__ import annotations

import numpy as np

from counterrank.clicks._pages import add_places, gather, number_pages, offsets_of, sort_places
from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.displays import Displays
from counterrank.clicks.examination import Examination, check_examination
from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.errors import CounterrankError
from counterrank.data.ids import query_of
from counterrank.estimators.conditions import warn_unless_always_seen
from counterrank.estimators.propensities import capped_inverse, check_clip, examined
from counterrank.estimators.views import Views


def rerank(clicks: ClickCounts, exam: Examination, *, clip: float | None = None) -> Views:
    """The policy-oblivious weights (eq:obliviousestimator) inside each displayed set of documents.

        omega(d, S) = sum over clicks on d on pages that show the set S of min(1 / P(o(d) = 1 | rank), clip)

    Documents are compared only with those shown beside them: a ranker learned so puts the documents of each page into
    a better order, and says nothing sure about those that were never on one page (eq:agnosticcond); a
    `CoverageWarning` says how many were not always shown. Pages with the same documents in another order are one set.
    Sets without a click tell nothing and are left out.

    Arguments:
        clicks: what was shown and clicked, with its pages: `simulate(..., displays=True)`.
        exam: how likely each rank is examined. A click at a rank that is never examined is an error.
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
    counts, curve, cap = check_counts(clicks), check_examination(exam), check_clip(clip)
    pages = counts.displays
    if pages is None:
        raise CounterrankError("clicks: no displayed pages kept; expected clicks of simulate(..., displays=True)")
    ranks = pages.ranks()
    inverse = capped_inverse(examined(curve, ranks), cap, counts, pages.clicks, pages.docs, ranks, "exam")
    warn_unless_always_seen(counts, curve, "rerank")
    return _as_sets(counts.offsets, *_clicked_pages(pages, pages.clicks * inverse))


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
