"""The policy-oblivious estimator: corrects for the rank a click was made at, and for nothing else."""

from __future__ import annotations

from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.examination import Examination, check_examination
from counterrank.common.checks import FloatArray
from counterrank.estimators.conditions import warn_unless_always_seen
from counterrank.estimators.propensities import capped_inverse, check_clip, examined


def policy_oblivious(clicks: ClickCounts, exam: Examination, *, clip: float | None = None) -> FloatArray:
    """Each click counted by the inverse of how likely its rank is examined (eq:obliviousestimator).

        omega(d) = sum over clicks on d of min(1 / P(o(d) = 1 | rank on the page shown), clip)

    Unbiased if every relevant document is on every page that was shown, at a rank that is examined (eq:agnosticcond);
    a `CoverageWarning` says where that fails. It needs no knowledge of the logging policy.

    Arguments:
        clicks: what was shown and clicked.
        exam: how likely each rank is examined. A click at a rank that is never examined is an error.
        clip: a cap on what each click counts, applied before summing; None for no cap.

    Returns:
        float64 weights, one per document of the data: a plain sum, not divided by sessions.

    >>> import numpy as np
    >>> offsets, sessions = np.array([0, 2]), np.array([4])
    >>> docs, ranks, shown, clicked = np.array([0, 1]), np.array([2, 1]), np.array([4, 4]), np.array([1, 3])
    >>> clicks = ClickCounts("", offsets, sessions, docs, ranks, shown, clicked)
    >>> policy_oblivious(clicks, Examination([1.0, 0.25]))
    array([4., 3.])
    >>> policy_oblivious(clicks, Examination([1.0, 0.25]), clip=2.5)
    array([2.5, 3. ])
    """
    counts, curve, cap = check_counts(clicks), check_examination(exam), check_clip(clip)
    theta = examined(curve, counts.ranks)
    inverse = capped_inverse(theta, cap, counts, counts.clicks, counts.docs, counts.ranks, "exam")
    warn_unless_always_seen(counts, curve, "policy_oblivious")
    return counts.by_document(counts.clicks * inverse)
