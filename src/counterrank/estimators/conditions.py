"""The conditions under which estimators are unbiased, and a warning where the clicks break them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import Examination
from counterrank.common.checks import FloatArray
from counterrank.common.errors import CoverageWarning
from counterrank.estimators.logged import logged_range
from counterrank.estimators.propensities import examined

BoolArray = NDArray[np.bool_]

# rho may be computed with an estimated curve, where the log has the propensities of the true one
_APART = 0.1

# the frames from `_warn` up to whoever called the estimator
_CALLER = 4


def warn_unless_always_seen(clicks: ClickCounts, exam: Examination | None, name: str) -> None:
    """Warn if a candidate was missing from some page of its query, or at a rank that nobody examines (eq:agnosticcond).

    Without a curve every rank on the page counts as one that may be examined.
    """
    shown = clicks.impressions
    if exam is not None:
        shown = np.where(examined(exam, clicks.ranks) > 0.0, shown, 0)
    missing = clicks.by_document(shown) < _sessions_of_documents(clicks)
    _warn(
        clicks,
        missing,
        f"{name}: {{}} were not on every page of their query at a rank that is examined, so they get too little weight "
        "(item selection bias, eq:agnosticcond); use policy_aware with the propensities of the policy",
    )


def warn_unless_sometimes_seen(clicks: ClickCounts, rho: FloatArray, name: str) -> None:
    """Warn if a candidate of a query that was asked has no chance to be examined (eq:awarecond)."""
    _warn(
        clicks,
        (rho <= 0.0) & (_sessions_of_documents(clicks) > 0.0),
        f"{name}: {{}} have a propensity of 0, so no click can ever speak for them and they keep weight 0 "
        "(eq:awarecond); log with a policy that may show every candidate",
    )


def warn_if_contradicted(clicks: ClickCounts, rho: FloatArray, name: str) -> None:
    """Warn if the propensities given are not those that were logged with the clicks.

    Of a log of several policies rho is a mean over sessions: at least the shares of the policies that are known to have
    shown a document, and at most as if the others showed it always.
    """
    if clicks.propensities is None:
        return
    low, high = logged_range(clicks)
    low, high, given = low[clicks.docs], high[clicks.docs], rho[clicks.docs]
    off = (given < low * (1.0 - _APART)) | (given > high * (1.0 + _APART))
    if off.any():
        text = (
            f"{name}: rho differs from the propensities logged with the clicks for {off.mean():.0%} of what was shown"
        )
        warnings.warn(
            f"{text}; is it of the policy, scores and examination that made these pages?", stacklevel=_CALLER - 1
        )


def _sessions_of_documents(clicks: ClickCounts) -> FloatArray:
    """How often the query of each document was asked."""
    return np.repeat(clicks.sessions, np.diff(clicks.offsets)).astype(np.float64)


def _warn(clicks: ClickCounts, missing: BoolArray, message: str) -> None:
    count = int(np.count_nonzero(missing))
    if not count:
        return
    asked = clicks.sessions > 0
    candidates = int(np.diff(clicks.offsets)[asked].sum())
    affected = int(np.count_nonzero(np.logical_or.reduceat(missing, clicks.offsets[:-1])))
    found: Any = (
        f"{count:,} of {candidates:,} candidates ({count / candidates:.1%}), in {affected:,} of "
        f"{np.count_nonzero(asked):,} queries that were asked,"
    )
    warnings.warn(message.format(found), CoverageWarning, stacklevel=_CALLER)
