"""The policy-aware estimator: corrects for how likely the policy brings a document before a user's eyes."""

from __future__ import annotations

from numpy.typing import ArrayLike

from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.common.checks import FloatArray
from counterrank.estimators.conditions import warn_if_contradicted, warn_unless_sometimes_seen
from counterrank.estimators.propensities import (
    best_logged,
    capped_inverse,
    check_clip,
    check_propensities,
    logged_propensities,
)


def policy_aware(clicks: ClickCounts, rho: ArrayLike | None = None, *, clip: float | None = None) -> FloatArray:
    """Each click counted by the inverse of how likely its document is examined under the policy (eq:policyaware).

        omega(d) = sum over clicks on d of min(1 / rho(d), clip),      rho(d) = P(o(d) = 1 | q, r, pi) of eq:expexam

    Unbiased if every relevant document has some chance to be examined (eq:awarecond); a `CoverageWarning` says where
    that fails.

    Arguments:
        clicks: what was shown and clicked.
        rho: the propensity of each document of the data, as `policy.propensity(scores, offsets, exam)` gives it; None
            for those logged with the clicks, each click then by the propensity of its own time and policy. Of documents
            that were never shown a log tells nothing; simulated clicks remember which of them could not be.
        clip: a cap on what each click counts, applied before summing; None for no cap.

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
    if rho is None:
        name, propensities = "propensities", logged_propensities(counts)
        by_document = best_logged(counts, propensities)
    else:
        name, by_document = "rho", check_propensities(rho, counts)
        propensities = by_document[counts.docs]
        warn_if_contradicted(counts, by_document, "policy_aware")
    inverse = capped_inverse(propensities, cap, counts, counts.clicks, counts.docs, counts.ranks, name)
    warn_unless_sometimes_seen(counts, by_document, "policy_aware")
    return counts.by_document(counts.clicks * inverse)
