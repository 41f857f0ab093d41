"""What a model of relevance foresees of the clicks of a log; doubly robust estimates start from it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import Examination
from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.errors import CounterrankError
from counterrank.data import RankingData
from counterrank.data.ids import query_of
from counterrank.estimators.affine import check_curve
from counterrank.estimators.examinations import check_relevance
from counterrank.estimators.propensities import (
    examined,
    examined_times,
    refuse_unseen,
    warn_if_apart,
)
from counterrank.estimators.relevance import fit_relevance

METHODS = ("ips", "dr")


class Method(NamedTuple):
    """How to estimate, as a caller said it.

    Attributes:
        name: "ips" or "dr".
        relevance: R of each document, for "dr"; None to fit it.
        exam: how likely each rank is examined, for "dr" and for logs of several policies; None for what the clicks
            remember.
    """

    name: Any = "ips"
    relevance: Any = None
    exam: Any = None


class Foreseen(NamedTuple):
    """The clicks that a model foresees.

    Attributes:
        relevance: R, P(click | examined) of each document.
        exam: P(examined | rank).
    """

    relevance: FloatArray
    exam: Examination

    def chances(self, docs: IntArray, ranks: IntArray) -> FloatArray:
        """P(click) of documents shown at these ranks, from 1."""
        return np.asarray(examined(self.exam, ranks) * self.relevance[docs])


def foresee(method: Method, data: RankingData, clicks: ClickCounts, rho: FloatArray | None) -> Foreseen | None:
    """The model that the method asks for, fitted where none was given; None for "ips".

    Arguments:
        method: what was asked for.
        data: what the clicks were counted against.
        clicks: of that data.
        rho: checked propensities; None where those logged with the clicks are used.
    """
    if method.name == "ips":
        if method.relevance is not None:
            raise CounterrankError("relevance: given, but method='ips' has no use for it; expected method='dr'")
        return None
    exam = _check_exam(method.exam, clicks)
    if method.relevance is None:
        return Foreseen(fit_relevance(data, clicks, rho, exam=exam).values, exam)
    if rho is not None:
        expected = np.repeat(clicks.sessions, np.diff(clicks.offsets)) * rho
        warn_if_apart(float(examined_times(exam, clicks).sum()), float(expected.sum()))
    relevance = check_relevance(method.relevance, clicks.n_docs)
    outside = (relevance < 0.0) | (relevance > 1.0)
    if outside.any():
        doc = int(np.argmax(outside))
        query = int(query_of(doc, clicks.offsets))
        raise CounterrankError(
            f"relevance: {relevance[doc]:g} for document {doc - clicks.offsets[query]} of query {query}; expected "
            "P(click | examined), from 0 to 1"
        )
    return Foreseen(relevance, exam)


def _check_exam(exam: Any, clicks: ClickCounts) -> Examination:
    """The curve that was given or remembered, if it explains the clicks."""
    if exam is None:
        exam = clicks.examination
    if exam is None:
        raise CounterrankError(
            "exam: None, and the clicks do not remember with what curve they were made; method='dr' needs to know how "
            "likely each rank is examined, exam=[1, 0.5, ...] or an Examination: with n * rho in place of what was "
            "shown it would be method='ips' again"
        )
    curve = check_curve(exam, "exam")
    if curve is None:
        raise CounterrankError("exam: 0 at every rank, so nothing is ever seen; expected one above 0")
    refuse_unseen(curve, None, clicks)
    return curve
