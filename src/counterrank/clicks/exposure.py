"""How likely the displayed documents of a log were examined: where curves by rank and context meet click counts."""

from __future__ import annotations

import numpy as np

from counterrank.clicks.browsing import SequentialExamination
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import CurvesByContext, Examination
from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.errors import CounterrankError


def examined(exam: Examination, clicks: ClickCounts) -> FloatArray:
    """P(examined | rank) of each cell, in its context; of users whose clicks depend on each other, by what was clicked.

    >>> one, two = np.array([1]), np.array([0, 1])
    >>> clicks = ClickCounts("", np.array([0, 1]), 2 * one, 0 * two, two + 1, 1 + 0 * two, 0 * two, policies=two,
    ...                      policy_names=("", ""), policy_sessions=np.array([[1], [1]]), contexts=("pc", "phone"))
    >>> examined(CurvesByContext({"pc": Examination([1.0, 0.5]), "phone": Examination([0.8, 0.2])}), clicks).tolist()
    [1.0, 0.2]
    """
    if isinstance(exam, SequentialExamination):
        return exam.users.realised(clicks)
    return _examined_at(exam, clicks, clicks.ranks, clicks.policies)


def examined_on_pages(exam: Examination, clicks: ClickCounts) -> FloatArray:
    """P(examined | rank) of each place of the displayed pages, in the context of the page."""
    pages = clicks.displays
    assert pages is not None
    if isinstance(exam, SequentialExamination):
        raise CounterrankError(
            "exam: users whose clicks depend on each other, of whom P(examined) by rank does not say what they "
            "examined on a page; expected an examination curve, or another estimator, such as policy_aware"
        )
    of_places = None if pages.policies is None else np.repeat(pages.policies, np.diff(pages.offsets))
    return _examined_at(exam, clicks, pages.ranks(), of_places)


def _examined_at(exam: Examination, clicks: ClickCounts, ranks: IntArray, policies: IntArray | None) -> FloatArray:
    deepest = int(ranks.max(initial=1))
    if not isinstance(exam, CurvesByContext):
        return np.asarray(exam.curve(deepest)[ranks - 1])
    return np.asarray(exam.table(clicks.contexts, deepest)[policies, ranks - 1])


def examined_times(exam: Examination, clicks: ClickCounts) -> FloatArray:
    """How often each document was examined, by what was shown: the sum of P(examined | rank) over impressions."""
    return clicks.by_document(clicks.impressions * examined(exam, clicks))


def mean_curve(exam: Examination, clicks: ClickCounts) -> Examination:
    """The mean over the sessions of the log of a curve by context; any other curve itself.

    >>> one = np.array([1])
    >>> clicks = ClickCounts("", np.array([0, 1]), 4 * one, 0 * one, one, 4 * one, one, policies=0 * one,
    ...                      policy_names=("", ""), policy_sessions=np.array([[3], [1]]), contexts=("pc", "phone"))
    >>> mean_curve(CurvesByContext({"pc": Examination([1.0]), "phone": Examination([0.6])}), clicks)
    Examination([0.9])
    """
    if not isinstance(exam, CurvesByContext):
        return exam
    sessions = clicks.context_sessions
    table = exam.table(list(sessions), exam.k or int(clicks.ranks.max(initial=1)))
    shares = np.array(list(sessions.values()), np.float64) / max(clicks.n_sessions, 1)
    return Examination(np.round(shares @ table, 15))
