"""How often each document was examined and clicked: what relevance is estimated from."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.examination import Examination
from counterrank.common.checks import FloatArray, check_vector
from counterrank.common.errors import CounterrankError
from counterrank.estimators.affine import check_curve, check_line
from counterrank.estimators.logged import Propensities, logged_propensities
from counterrank.estimators.propensities import (
    check_propensities,
    examined_times,
    refuse_impossible,
    refuse_unseen,
    warn_if_apart,
)


class Examinations(NamedTuple):
    """One number of each kind for each document of the data.

    Attributes:
        sessions: how often its query was asked, n.
        clicks: how often it was clicked, less the clicks that trust alone brings.
        rho: its propensity, P(examined) in a session.
        times: how often it was examined, as far as can be told: n * rho, or what the log shows.
        trials: how often it might have been: n, or the times it was shown.
    """

    sessions: FloatArray
    clicks: FloatArray
    rho: FloatArray
    times: FloatArray
    trials: FloatArray


def examinations(
    clicks: ClickCounts,
    rho: ArrayLike | Propensities | None,
    exam: ArrayLike | Examination | None = None,
    beta: ArrayLike | Examination | None = None,
) -> Examinations:
    """Count what happened to each document.

        times = sessions * rho                                              without exam
        times = sum over ranks of impressions there * P(examined | rank)    with exam

    Both have the same expectation. The second knows which documents were in fact shown, so that less is left to chance.

    Arguments:
        clicks: what was shown and clicked.
        rho: the propensity of each document; None for those logged with the clicks (see `logged_propensities`), or
            else for how often the log shows it, times / sessions, which needs exam.
        exam: how likely each rank is examined; under trust bias, alpha by rank. None for the curve that simulated
            clicks remember where rho is None, else for none. Under trust bias that is not alpha, and has to be given.
        beta: under trust bias, the chance of a click on an irrelevant document by rank. What was shown then tells how
            many clicks to take off.

    A click on a document that could not be seen is an error, and so is one at a rank that nobody looks at. A rho that
    was made with another curve than exam is warned about.

    >>> docs, ranks, shown, clicked = np.array([[0, 1], [1, 2], [10, 4], [5, 1]])
    >>> clicks = ClickCounts("", np.array([0, 2]), np.array([10]), docs, ranks, shown, clicked)
    >>> examinations(clicks, rho=[1.0, 0.25]).times.tolist()
    [10.0, 2.5]
    >>> examinations(clicks, rho=None, exam=Examination([1.0, 0.5])).rho.tolist()
    [1.0, 0.2]
    """
    counts = check_counts(clicks)
    if isinstance(rho, Propensities):
        rho = rho.by_document if rho.source == "given" else None
    is_logged = rho is None and beta is None and counts.propensities is not None
    curve, base = _check_curves(counts, rho, exam, beta, is_logged)
    if curve is not None:
        refuse_unseen(curve, base, counts)
    sessions = np.repeat(counts.sessions, np.diff(counts.offsets)).astype(np.float64)
    total = counts.by_document(counts.clicks)
    by_trust = None if base is None else examined_times(base, counts)
    times = None if curve is None else examined_times(curve, counts)
    if rho is not None:
        given = check_propensities(rho, counts)
        if times is not None:
            warn_if_apart(float(times.sum()), float((sessions * given).sum()))
    elif is_logged:
        given = np.nan_to_num(logged_propensities(counts, curve, all_shown=True).by_document)
    else:
        assert times is not None
        given = np.minimum(times / np.maximum(sessions, 1.0), 1.0)
    refuse_impossible(given if by_trust is None else np.maximum(given, by_trust), total, counts, "rho")
    trials = sessions if times is None else counts.by_document(counts.impressions)
    if times is None:
        times = sessions * given
    return Examinations(sessions, total if by_trust is None else total - by_trust, given, times, trials)


def check_relevance(relevance: Any, n_docs: int) -> FloatArray:
    """A predicted relevance for each document: any finite number, so that wrong ones can be tried."""
    return check_vector(relevance, n_docs, "relevance")


def _check_curves(
    clicks: ClickCounts, rho: Any, exam: Any, beta: Any, is_logged: bool
) -> tuple[Examination | None, Examination | None]:
    """The curves of examination and of trust; None for what was not given or is 0 everywhere."""
    if exam is None and rho is None:
        if beta is not None:
            raise CounterrankError("exam: None beside beta; expected alpha by rank, or rho, the expectation of alpha")
        exam = clicks.examination
        if exam is None and not is_logged:
            raise CounterrankError(
                "rho: None, and so is exam; expected rho=policy.propensity(scores, offsets, exam), or exam, with which "
                "the log tells how often each document was examined"
            )
    if exam is None:
        return None, None if beta is None else check_curve(beta, "beta")
    return check_line(exam, [0.0] if beta is None else beta, "exam")
