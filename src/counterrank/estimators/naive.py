"""The naive estimator: a click is taken to mean relevance, and no click to mean none."""

from __future__ import annotations

from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.common.checks import FloatArray
from counterrank.estimators.conditions import warn_unless_always_seen
from counterrank.estimators.propensities import check_clip


def naive(clicks: ClickCounts, *, clip: float | None = None) -> FloatArray:
    """The number of clicks on each document (eq:naiveestimator).

        omega(d) = sum over clicks on d of min(1, clip)

    Every click counts the same, so documents that are shown more often, or higher up, weigh more: it keeps both
    position bias and item selection bias, and is here to be compared with.

    Arguments:
        clicks: what was shown and clicked.
        clip: a cap on what a click counts, which is 1; for the sake of one signature.

    Returns:
        float64 weights, one per document of the data.

    >>> import numpy as np
    >>> offsets, sessions = np.array([0, 2]), np.array([4])
    >>> docs, ranks, shown, clicked = np.array([0, 1]), np.array([2, 1]), np.array([4, 4]), np.array([1, 3])
    >>> naive(ClickCounts("", offsets, sessions, docs, ranks, shown, clicked))
    array([1., 3.])
    """
    counts, cap = check_counts(clicks), check_clip(clip)
    warn_unless_always_seen(counts, counts.examination, "naive")
    weights: FloatArray = counts.by_document(counts.clicks) * min(1.0, cap)
    return weights
