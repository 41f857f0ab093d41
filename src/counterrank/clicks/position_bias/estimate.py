"""The estimate as a caller gets it: checks before, the method asked for, warnings after."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.position_bias import _all_pairs
from counterrank.clicks.position_bias.all_pairs import all_pairs
from counterrank.clicks.position_bias.compared import Seen, compared, seen
from counterrank.clicks.position_bias.doubts import doubts, few_queries
from counterrank.clicks.position_bias.em import em
from counterrank.clicks.position_bias.fit import TARGETS, Fit
from counterrank.clicks.position_bias.refusals import check_clicked, check_connected, connected_groups
from counterrank.clicks.position_bias.regression import regression_em
from counterrank.clicks.position_bias.result import EstimatedExamination
from counterrank.common.checks import check_choice, check_cutoff
from counterrank.common.errors import CounterrankError, ExaminationWarning
from counterrank.data import RankingData

METHODS = ("all-pairs", "em", "regression-em")
# effective queries from which intervals over queries hold, see docs/position-bias.md
MANY_QUERIES = 10.0
_CALLER = 3  # the frames from here up to whoever called `examination.estimate`


def estimate_examination(
    clicks: ClickCounts,
    method: str,
    k: int | None,
    data: RankingData | None,
    target: str | None,
    confidence: float,
) -> EstimatedExamination:
    """See `counterrank.examination.estimate`."""
    check_counts(clicks)
    check_choice(method, METHODS, "method")
    if target is not None:
        check_choice(target, TARGETS, "target")
    _check_confidence(confidence)
    _check_data(clicks, method, data)
    table = compared(clicks, last_rank(clicks, k))
    check_connected(table)
    check_clicked(_all_pairs.pair_clicks(*table.cells(), table.n_ranks))
    used = seen(clicks, table.n_ranks) if method == "regression-em" else table
    fit = _fitted(used, method, data)
    chosen = target or ("queries" if fit.effective_queries >= MANY_QUERIES else "these-queries")
    intervals = fit.intervals(chosen, float(confidence))
    reference = fit if method == "all-pairs" else all_pairs(table)
    words = doubts(fit, used, method, intervals, reference, chosen)
    if target is None and chosen == "these-queries":
        words += (few_queries(fit),)
    for text in words:
        warnings.warn(f"examination.estimate: {text}", ExaminationWarning, stacklevel=_CALLER)
    return EstimatedExamination(
        values=fit.theta,
        intervals=intervals,
        ranks=np.arange(1, table.n_ranks + 1),
        method=method,
        target=chosen,
        confidence=float(confidence),
        n_sessions=clicks.n_sessions,
        n_queries=used.n_queries,
        n_documents=used.n_docs,
        n_clicks=int(used.clicks.sum()),
        warnings=words,
    )


def connected(clicks: ClickCounts) -> list[list[int]]:
    """See `counterrank.examination.connected_ranks`."""
    check_counts(clicks)
    shown = np.unique(clicks.ranks[clicks.impressions > 0])
    if not len(shown):
        return []
    groups = connected_groups(compared(clicks, int(shown[-1])))
    return [group for group in groups if group[0] in shown]  # a rank that was never shown is alone


def last_rank(clicks: ClickCounts, k: Any) -> int:
    """The last rank to estimate: k, or the last of the log; an error where the log does not go so far."""
    wanted = check_cutoff(k)
    if not clicks.n_impressions:
        raise CounterrankError("clicks: nothing was shown; expected a log with pages")
    deepest = int(clicks.ranks[clicks.impressions > 0].max())
    if wanted is not None and wanted > deepest:
        raise CounterrankError(f"k={wanted}: the log shows ranks up to {deepest}; expected a rank it shows, or None")
    last = wanted or deepest
    if last < 2:
        where = "k=1" if wanted == 1 else "clicks: the log shows rank 1 alone"
        raise CounterrankError(f"{where}; expected two ranks or more, since they are compared with each other")
    return last


def _fitted(table: Seen, method: str, data: RankingData | None) -> Fit:
    if method == "all-pairs":
        return all_pairs(table)
    if method == "em" or data is None:
        return em(table)
    return regression_em(table, data)


def _check_confidence(confidence: Any) -> None:
    number = isinstance(confidence, int | float | np.number) and not isinstance(confidence, bool)
    if not number or not 0.0 < confidence < 1.0:
        raise CounterrankError(f"confidence={confidence!r}: expected a number between 0 and 1, such as 0.95")


def _check_data(clicks: ClickCounts, method: str, data: RankingData | None) -> None:
    if method == "regression-em":
        if data is None:
            raise CounterrankError("data: missing; method 'regression-em' expected the ranking data for its features")
        clicks.check_data(data)
    elif data is not None:
        raise CounterrankError(f"data: given, but method {method!r} uses no features; expected method 'regression-em'")
