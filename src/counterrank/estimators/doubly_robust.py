"""The doubly robust estimator: a model of relevance, corrected by what clicks say against it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import Examination
from counterrank.common.checks import FloatArray, is_real
from counterrank.common.errors import CounterrankError
from counterrank.estimators.examinations import Examinations, check_relevance, examinations
from counterrank.estimators.propensities import SMALLEST


def doubly_robust(
    clicks: ClickCounts,
    rho: ArrayLike | None,
    relevance: ArrayLike,
    *,
    tau: float = 0.0,
    exam: ArrayLike | Examination | None = None,
    beta: ArrayLike | Examination | None = None,
) -> FloatArray:
    """The predicted relevance, and the clicks that it did not foresee by their inverse propensity (Oosterhuis 2023).

        omega(d) = n R(d) + (clicks(d) - E(d) R(d)) / max(rho(d), tau)

    E(d) is how often d was examined: n rho(d) on average, and with `exam` what the log shows, the sum over ranks of
    impressions times P(examined | rank).

    Unbiased where rho(d) >= tau whatever R is; with `exam` also where R is right whatever rho is. A document that could
    not be seen keeps n R(d). Without `exam` and tau it is the policy-aware estimator wherever rho > 0, since both
    terms with R cancel: what R saves comes from `exam`, which takes off the chance of which documents were shown, and
    from tau, below which the correction counts for rho / tau only.

    Arguments:
        clicks: what was shown and clicked.
        rho: the propensity of each document, as `policy.propensity(scores, offsets, exam)` gives it; None for how often
            the log shows it, which needs `exam` (simulated clicks remember theirs).
        relevance: R, one number per document, such as `fit_relevance` gives.
        tau: the least propensity to divide by, from 0 to 1.
        exam: how likely each rank is examined. Under trust bias alpha by rank, rho then being its expectation.
        beta: under trust bias, the chance of a click on an irrelevant document by rank.

    Returns:
        float64 weights, one per document of the data; negative where clicks speak against the model.

    >>> docs, ranks, shown, clicked = np.array([[0, 1], [1, 2], [10, 4], [5, 2]])
    >>> clicks = ClickCounts("", np.array([0, 2]), np.array([10]), docs, ranks, shown, clicked)
    >>> doubly_robust(clicks, [1.0, 0.2], [0.4, 0.1], tau=0.5).tolist()  # 4 + (5 - 4) / 1, 1 + (2 - 0.2) / 0.5
    [5.0, 4.6]
    >>> doubly_robust(clicks, [1.0, 0.2], [0.4, 0.5], exam=[1.0, 0.5]).tolist()  # 5 + (2 - 4 * 0.5 * 0.5) / 0.2
    [5.0, 10.0]
    """
    seen, least = examinations(clicks, rho, exam, beta), check_tau(tau)
    return corrected(seen, check_relevance(relevance, len(seen.rho)), least)


def corrected(seen: Examinations, relevance: FloatArray, tau: float) -> FloatArray:
    """`doubly_robust` of what was examined and clicked."""
    known = seen.rho >= SMALLEST
    inverse = np.zeros(len(seen.rho))
    np.divide(1.0, np.maximum(seen.rho, tau), out=inverse, where=known)
    weights: FloatArray = seen.sessions * relevance + (seen.clicks - seen.times * relevance) * inverse
    return weights


def check_tau(tau: Any) -> float:
    """The least propensity to divide by.

    >>> check_tau(0)
    0.0
    """
    if not is_real(tau) or not 0.0 <= tau <= 1.0:
        raise CounterrankError(f"tau={tau!r}: expected a number from 0 to 1")
    return float(tau)
