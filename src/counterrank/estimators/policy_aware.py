"""The policy-aware estimator: corrects for how likely the policy brings a document before a user's eyes."""

from __future__ import annotations

from numpy.typing import ArrayLike

from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.examination import Examination
from counterrank.common.checks import FloatArray
from counterrank.estimators.conditions import warn_if_contradicted, warn_unless_sometimes_seen
from counterrank.estimators.logged import Propensities, propensities_of
from counterrank.estimators.propensities import capped_inverse, check_clip


def policy_aware(
    clicks: ClickCounts,
    rho: ArrayLike | Propensities | None = None,
    *,
    clip: float | None = None,
    exam: ArrayLike | Examination | None = None,
) -> FloatArray:
    """Each click counted by the inverse of how likely its document is examined under the policy (eq:policyaware).

        omega(d) = sum over clicks on d of min(1 / rho(d), clip),      rho(d) = P(o(d) = 1 | q, r, pi) of eq:expexam

    Unbiased if every relevant document has some chance to be examined (eq:awarecond); a `CoverageWarning` says where
    that fails.

    Arguments:
        clicks: what was shown and clicked.
        rho: the propensity of each document of the data, as `policy.propensity(scores, offsets, exam)` gives it; None
            for those logged with the clicks, combined where they are of several policies, see `logged_propensities`. Of
            documents that were never shown a log tells nothing; simulated clicks remember which of them could not be.
        clip: a cap on what each click counts, applied before summing; None for no cap.
        exam: how likely each rank is examined, where rho is None and the log is of several policies; None for the curve
            that simulated clicks remember.

    Returns:
        float64 weights, one per document of the data: a plain sum, not divided by sessions. A click on a document
        of propensity 0 is an error.

    >>> import numpy as np
    >>> offsets, sessions = np.array([0, 2]), np.array([4])
    >>> docs, ranks, shown, clicked = np.array([0, 1]), np.array([1, 1]), np.array([3, 1]), np.array([2, 1])
    >>> clicks = ClickCounts("", offsets, sessions, docs, ranks, shown, clicked)
    >>> policy_aware(clicks, rho=[0.8, 0.2])
    array([2.5, 5. ])
    >>> policy_aware(clicks, rho=[0.8, 0.2], clip=4)
    array([2.5, 4. ])
    """
    counts, cap = check_counts(clicks), check_clip(clip)
    found = propensities_of(counts, rho, exam)
    name = "rho" if found.source == "given" else "propensities"
    if found.source == "given":
        warn_if_contradicted(counts, found.by_document, "policy_aware")
    inverse = capped_inverse(found.by_cell, cap, counts, counts.clicks, counts.docs, counts.ranks, name)
    warn_unless_sometimes_seen(counts, found.chances(), "policy_aware")
    return counts.by_document(counts.clicks * inverse)
