"""Propensities as a log has them, of one policy or of several: the one place where they are read and combined."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.examination import Examination, check_examination
from counterrank.common.checks import FloatArray
from counterrank.common.errors import CounterrankError, CoverageWarning
from counterrank.data.ids import query_of_rows
from counterrank.estimators.propensities import (
    MOST_APART,
    check_propensities,
    examined,
    examined_times,
    refuse_unseen,
    warn_if_apart,
)

# propensities of one document that differ by more come from different policies; float32 keeps seven digits
SAME = 1e-4

_SURELY_SHOWN = 10.0  # examinations that make a document one that is shown anyway
UNSHOWN = 0.01  # share of candidates on no page from which on it is told

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Propensities:
    """P(examined) of each document in a session of its query; usable wherever an array of propensities is.

    Attributes:
        by_document: one per document of the data; nan where the log does not tell.
        by_cell: the propensity that clicks in each cell of the counts are divided by.
        source: "given"; "logged", those of one policy; "mean", over the sessions of several policies, from the
            propensities that each logged; or "realised", how often the documents were shown.
        unshown: of the candidates whose propensity is "realised", the share that was on no page.
    """

    by_document: FloatArray
    by_cell: FloatArray
    source: str
    unshown: float = 0.0

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.by_document, dtype=dtype, copy=copy)

    def chances(self) -> FloatArray:
        """P(examined) of each document, 1 where that is not known: nothing then speaks against it."""
        return np.where(np.isnan(self.by_document), 1.0, self.by_document)


def propensities_of(
    clicks: ClickCounts, rho: ArrayLike | Propensities | None, exam: Any = None, *, all_shown: bool = False
) -> Propensities:
    """What to divide clicks by: `rho` as it was given, else what the log has, see `logged_propensities`."""
    if isinstance(rho, Propensities) and len(rho.by_cell) == len(clicks.docs):
        if rho.source != "mean" or not all_shown:
            return rho
        rho = None  # a mean may be known of clicked documents alone
    if rho is None:
        return logged_propensities(clicks, exam, all_shown=all_shown)
    given = check_propensities(rho, clicks)
    return Propensities(given, given[clicks.docs], "given")


def logged_propensities(
    clicks: ClickCounts, exam: ArrayLike | Examination | None = None, *, all_shown: bool = False
) -> Propensities:
    """P(examined) of each document over all sessions of its query, from the propensities in the log.

    Of one policy these are the propensities themselves. Where several policies answered a query, a click has to be
    divided by the mean over all sessions of the query (Oosterhuis and de Rijke, WSDM 2021),

        rho(d) = sum over policies p of sessions_p(q) / sessions(q) * rho_p(d),

    and not by the propensity of its own policy: where one of them cannot show d, its sessions would be lost. It takes
    the propensity of each clicked document under each policy. One that a policy never showed is not known: it is not
    0. Then `exam` tells how often each document was examined,

        rho(d) = sum over ranks j of theta_j impressions(d, j) / sessions(q),

    which is right for documents that were shown: the expected weight of a document is its relevance times the
    probability that it was shown at least once. A `CoverageWarning` tells how many were not. Without either it is an
    error.

    Several policies are told by their names, and by several propensities of one document under one name (as of a ranker
    that was trained again). Propensities of one query that sum to more than a page can hold are warned about.

    Arguments:
        clicks: what was shown and clicked, with logged propensities.
        exam: how likely each rank is examined; None for the curve that simulated clicks remember.
        all_shown: whether the propensities of all documents that were shown are needed, clicked or not.

    >>> docs, ranks, shown, clicked = np.array([[0, 0, 1], [1, 1, 1], [70, 20, 10], [7, 2, 1]])
    >>> clicks = ClickCounts("", np.array([0, 2]), np.array([100]), docs, ranks, shown, clicked,
    ...                      propensities=np.array([1.0, 0.6, 0.4]), policies=np.array([0, 1, 1]),
    ...                      policy_names=("old", "new"), policy_sessions=np.array([[70], [30]]))
    >>> logged_propensities(clicks, exam=[1.0]).by_document.tolist()  # old never showed the second document
    [0.9, 0.1]
    """
    counts = check_counts(clicks)
    if counts.propensities is None:
        raise CounterrankError(
            "rho: None, and the clicks hold no logged propensities; pass rho=policy.propensity(scores, offsets, exam)"
        )
    curve = counts.examination if exam is None else check_examination(exam)
    table = _Table.of(counts)
    unnamed = np.logical_or.reduceat(table.contradicted().any(axis=1), counts.offsets[:-1])
    several = unnamed | (np.count_nonzero(table.sessions > 0.0, axis=0) > 1)
    if not several.any():
        _warn_of_excess(counts, table, curve)
        if exam is not None and curve is not None:
            _warn_if_apart(counts, table, curve)
        return Propensities(_hidden(counts, table.single()), counts.propensities, "logged")
    mixed = several[table.query_of_docs]
    mean = table.mean()
    needed = mixed & (counts.by_document(counts.impressions if all_shown else counts.clicks) > 0.0)
    if not unnamed.any() and not np.isnan(mean[needed]).any():
        return _combined(counts, table, mixed, mean, "mean")
    if curve is None:
        raise CounterrankError(_refusal(counts, table, several, needed & np.isnan(mean)))
    refuse_unseen(curve, None, counts)
    if not unnamed.any():
        _warn_if_apart(counts, table, curve)
    times = examined_times(curve, counts)
    asked = np.maximum(counts.sessions, 1)[table.query_of_docs]
    realised = np.where(counts.by_document(counts.impressions) > 0.0, np.minimum(times / asked, 1.0), np.nan)
    unshown = _warn_of_unshown(counts, mixed)
    return replace(_combined(counts, table, mixed, realised, "realised"), unshown=unshown)


def logged_range(clicks: ClickCounts) -> tuple[FloatArray, FloatArray]:
    """The smallest and largest mean propensity over sessions that each document may have, given what was logged.

    A policy that never showed a document may have any propensity for it. Where pages of several policies go under one
    name, the largest is that of the policy that shows the document most.

    >>> one = np.array([1])
    >>> counts = ClickCounts("", np.array([0, 1]), one, np.array([0]), one, one, one, propensities=np.array([0.5]))
    >>> [end.tolist() for end in logged_range(counts)]
    [[0.5], [0.5]]
    """
    table = _Table.of(clicks)
    shares = table.shares()
    mixed = table.contradicted().any(axis=1)
    low = np.where(mixed, 0.0, (shares * np.nan_to_num(table.low)).sum(axis=1))
    high = (shares * np.where(np.isnan(table.high), 1.0, table.high)).sum(axis=1)
    return low, high


class _Table(NamedTuple):
    """The propensities of each document under each policy.

    Attributes:
        low, high: the smallest and largest that were logged, (n_docs, n_policies); nan where it was never shown.
        sessions: of each query under each policy, (n_policies, n_queries).
        query_of_docs: the query of each document.
    """

    low: FloatArray
    high: FloatArray
    sessions: FloatArray
    query_of_docs: Any

    @classmethod
    def of(cls, clicks: ClickCounts) -> _Table:
        assert clicks.propensities is not None
        named = clicks.policies is not None and clicks.policy_sessions is not None
        n = len(clicks.policy_names) if named else 1
        place = clicks.docs if clicks.policies is None or n == 1 else clicks.docs * n + clicks.policies
        low, high = np.full(clicks.n_docs * n, np.inf), np.full(clicks.n_docs * n, -np.inf)
        np.minimum.at(low, place, clicks.propensities)
        np.maximum.at(high, place, clicks.propensities)
        unknown = low > high
        low[unknown] = high[unknown] = np.nan
        sessions = clicks.policy_sessions if named else clicks.sessions[None]
        owner = query_of_rows(clicks.offsets)
        return cls(low.reshape(-1, n), high.reshape(-1, n), np.asarray(sessions, np.float64), owner)

    def contradicted(self) -> BoolArray:
        """Where a document has several propensities under one policy."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.high > self.low * (1.0 + SAME))

    def shares(self) -> FloatArray:
        """Of the sessions of each document's query, those of each policy, (n_docs, n_policies)."""
        total = np.maximum(self.sessions.sum(axis=0), 1.0)
        shares: FloatArray = (self.sessions / total).T[self.query_of_docs]
        return shares

    def single(self) -> FloatArray:
        """The propensity of each document, where each query has one policy; nan of those never shown."""
        return np.asarray(np.fmax.reduce(self.high, axis=1))

    def mean(self) -> FloatArray:
        """The mean over sessions; nan where a policy that answered the query never showed the document."""
        shares = self.shares()
        found = np.where(shares > 0.0, shares * self.high, 0.0).sum(axis=1)
        return np.asarray(np.where(shares.sum(axis=1) > 0.0, np.minimum(found, 1.0), np.nan))


def _warn_of_excess(clicks: ClickCounts, table: _Table, curve: Examination | None) -> None:
    """Warn if propensities of a query sum to more than a page holds, as those of one policy cannot."""
    deepest = int(clicks.ranks.max(initial=1))
    theta = np.ones(deepest) if curve is None else curve.curve(deepest)
    room = np.cumsum(theta)[np.minimum(np.diff(clicks.offsets), deepest) - 1]
    held = np.add.reduceat(np.nan_to_num(table.high), clicks.offsets[:-1], axis=0)
    # a curve that was estimated is not quite that of the propensities
    most = room[:, None] * (1.0 + (SAME if curve is None else MOST_APART))
    over = int(np.count_nonzero((held > most).any(axis=1)))
    if over:
        warnings.warn(
            f"propensities: those of {over:,} of {np.count_nonzero(clicks.sessions):,} queries sum to more than one "
            "page can hold under one policy, so they may come from several, and weights may be biased; give each "
            "policy a name of its own in the column policy",
            stacklevel=5,
        )


def _combined(clicks: ClickCounts, table: _Table, mixed: BoolArray, values: FloatArray, source: str) -> Propensities:
    """Of queries with several policies the combined propensities, of others those that were logged."""
    assert clicks.propensities is not None
    by_document = np.where(mixed, values, table.single())
    by_cell = np.where(mixed[clicks.docs], by_document[clicks.docs], clicks.propensities)
    return Propensities(_hidden(clicks, by_document), by_cell, source)


def _hidden(clicks: ClickCounts, by_document: FloatArray) -> FloatArray:
    """0 for documents that were never shown and of which simulated clicks remember that they could not be."""
    if clicks.unexaminable is not None:
        unseen = clicks.unexaminable[np.isnan(by_document[clicks.unexaminable])]
        by_document[unseen] = 0.0
    return by_document


def _warn_if_apart(clicks: ClickCounts, table: _Table, curve: Examination) -> None:
    """Warn if the curve is not that of the propensities, by documents that had to be shown: others were by luck."""
    n = table.high.shape[1]
    place = clicks.docs if clicks.policies is None or n == 1 else clicks.docs * n + clicks.policies
    times = np.bincount(place, clicks.impressions * examined(curve, clicks.ranks), minlength=clicks.n_docs * n)
    expected = np.nan_to_num(table.high) * table.sessions.T[table.query_of_docs]
    sure = expected >= _SURELY_SHOWN
    warn_if_apart(float(times.reshape(expected.shape)[sure].sum()), float(expected[sure].sum()))


def _warn_of_unshown(clicks: ClickCounts, mixed: BoolArray) -> float:
    """The share of the candidates that were on no page, and a warning where it matters."""
    unseen = int(np.count_nonzero(mixed & (clicks.by_document(clicks.impressions) == 0.0)))
    candidates = int(np.count_nonzero(mixed))
    if unseen > UNSHOWN * candidates:
        warnings.warn(
            f"propensities: several policies in one log, so how often documents were shown is taken for their "
            f"propensity; {unseen:,} of {candidates:,} candidates ({unseen / candidates:.1%}) were on no page and keep "
            "weight 0 (the expected weight of a document is its relevance times P(shown at least once)); name each "
            "policy to correct for it",
            CoverageWarning,
            stacklevel=5,
        )
    return unseen / max(candidates, 1)


def _refusal(clicks: ClickCounts, table: _Table, several: BoolArray, unknown: BoolArray) -> str:
    """Why the propensities in the log cannot be used, and what to do about it."""
    names = [name for name, own in zip(clicks.policy_names, table.sessions, strict=False) if own[several].any()]
    contradicted = table.contradicted()
    sound = [name for i, name in enumerate(clicks.policy_names) if not contradicted[:, i].any()]
    if contradicted.any():
        doc, policy = np.argwhere(contradicted)[0]
        query = int(table.query_of_docs[doc])
        under = f"under {clicks.policy_names[policy]!r}" if clicks.policy_names else "without a name of the policy"
        why = (
            f"document {doc - clicks.offsets[query]} of query {query} was logged with propensities "
            f"{table.low[doc, policy]:.4g} and {table.high[doc, policy]:.4g} {under}, so the log holds several policies"
        )
        remedy = "give each policy a name of its own in the column policy and specify them all"
    else:
        n = np.count_nonzero(unknown)
        number = "1 document has" if n == 1 else f"{n:,} documents have"
        why = f"the log holds several policies ({', '.join(map(repr, names))}), and {number} an unknown propensity "
        why += "under one that never showed them"
        remedy = "specify every policy"
    only = f", or use the sessions of some policies only (--only-policy {sound[-1]}, only_policies=)" if sound else ""
    return (
        f"propensities: {why}; dividing each click by its own would be biased: {remedy} (--policy NAME=..., "
        f"rho=policies.several_policies(...)), give the examination curve (--examination, exam=){only}"
    )
