"""Propensities of one policy or of several, as given or as logged with the clicks; importance weights from them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.clicks.browsing import Browsing, sequential
from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.examination import CurvesByContext, Examination, is_user_model, lines_of
from counterrank.clicks.exposure import examined, examined_times
from counterrank.clicks.policies.from_log import SAME, LoggedTable, LogPropensity
from counterrank.common.checks import FloatArray, IntArray, check_vector, is_real
from counterrank.common.errors import CounterrankError, CoverageWarning, ExaminationWarning, brief, quoted, warn_caller
from counterrank.data.ids import query_of

SMALLEST = 1e-200  # a click with a smaller propensity did not happen; sums of 1 / propensity could overflow
MOST_APART = 0.05  # relative difference of examinations by rho and by the curve: pages of several lengths vary a little
UNSHOWN = 0.01  # share of candidates on no page that is worth a warning
_FEWEST = 100.0  # examinations that can show a difference
_SURELY_SHOWN = 10.0  # examinations that make a document one that is shown anyway
_AGAIN = 300  # repeated sessions in which a policy that shows another page once in a hundred would have done so
_VARIED = 0.001  # of them, those of queries whose pages vary, up to which a policy counts as fixed: errors of logging
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Propensities:
    """P(examined) of each document in a session of its query; usable wherever an array of propensities is.

    Attributes:
        by_document: one per document of the data; nan where the log does not say.
        by_cell: the propensity that clicks in each cell of the counts are divided by.
        source: "given"; "logged", those of one policy; "mean", over the sessions of several policies, from the
            propensities that each logged; "realised", how often the documents were shown; or "estimated", the same with
            smoothing.
        uncovered: the documents of queries with sessions that these clicks do not cover: they have propensity 0, or
            were never shown while realised exposure is used or pages never vary.
    """

    by_document: FloatArray
    by_cell: FloatArray
    source: str
    uncovered: IntArray = field(default_factory=lambda: np.empty(0, np.int64))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is None:  # which numpy 1 does not know
            return np.asarray(self.by_document, dtype)
        return np.array(self.by_document, dtype, copy=copy)

    def chances(self) -> FloatArray:
        """P(examined) of each document, 1 where it is unknown."""
        return np.where(np.isnan(self.by_document), 1.0, self.by_document)


def propensities_of(
    clicks: ClickCounts, rho: ArrayLike | Propensities | None, exam: Any = None, *, all_shown: bool = False
) -> Propensities:
    """What to divide clicks by: `rho` as it was given, else what the log has, see `logged_propensities`."""
    if isinstance(exam, Browsing) and rho is not None and not isinstance(rho, Propensities):
        raise CounterrankError(
            "rho: given together with a user browsing model, of whose users a policy does not say what they examine; "
            "expected None, to take what the log shows was examined"
        )
    if isinstance(rho, LogPropensity):
        return displayed_propensities(rho, clicks)
    if is_user_model(exam):
        clicks = without_stale_propensities(clicks, rho is not None)
    if isinstance(rho, Propensities) and len(rho.by_cell) == len(clicks.docs):
        if rho.source != "mean" or not all_shown:
            return rho
        rho = None  # a mean may be known of clicked documents alone
    if rho is None:
        return logged_propensities(clicks, exam, all_shown=all_shown)
    given = check_propensities(rho, clicks)
    if clicks.unknown_impressions:
        warnings.warn(
            f"rho: {clicks.unknown_impressions:,} impressions of the log are of documents that the data does not have; "
            "propensities that were computed from a policy are then wrong",
            stacklevel=4,
        )
    if clicks.propensities is not None and LoggedTable.of(clicks).contradicted().any():
        warnings.warn(
            "rho: documents were logged with several propensities under one name, so the log holds several policies; "
            "rho must be the mean over the sessions of all of them",
            stacklevel=4,
        )
    return Propensities(given, given[clicks.docs], "given", _with_sessions(clicks, given < SMALLEST))


def logged_propensities(
    clicks: ClickCounts, exam: ArrayLike | Examination | None = None, *, all_shown: bool = False
) -> Propensities:
    """P(examined) of each document over all sessions of its query, from the propensities in the log.

    Of one policy these are the propensities themselves. Where several policies answered a query, a click has to be
    divided by the mean over all sessions of the query (Oosterhuis and de Rijke, WSDM 2021),

        rho(d) = sum over policies p of sessions_p(q) / sessions(q) * rho_p(d),

    and not by the propensity of its own policy: where one of them cannot show d, its sessions would be lost. That
    requires the propensity of each clicked document under each policy, which is unknown, not 0, where the policy never
    showed it. Then `exam` gives how often each document was examined,

        rho(d) = sum over ranks j of theta_j impressions(d, j) / sessions(q),

    which is right for documents that were shown: the expected weight of a document is its relevance times the
    probability that it was shown at least once. A `CoverageWarning` says how many were not. Without either it is an
    error.

    The same holds for a log without propensities: with `exam`, how often each document was examined is taken.

    Several policies are detected by their names, and by contradicting propensities of one document under one name (a
    ranker that was trained again). Propensities of one query that sum to more than a page can hold are warned about.

    Arguments:
        clicks: what was shown and clicked, with logged propensities, unless exam is given.
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
    if is_user_model(exam):
        counts = without_stale_propensities(counts)
    curve, base = (counts.examination, None) if exam is None else lines_of(exam)
    if counts.propensities is None:
        if curve is None:
            raise CounterrankError(
                "rho: None, and the clicks hold no logged propensities; pass rho=policy.propensity(scores, offsets, "
                "exam), or exam=, the examination curve, to take how often each document was shown"
            )
        realised = _realised(counts, curve, base)
        everywhere = np.ones(counts.n_docs, np.bool_)
        why, remedy = "the log holds no propensities", "name the logging policy and its scores, or pass rho,"
        if isinstance(sequential(exam), Browsing):
            why, remedy = "what these users examine depends on their clicks too", "log more sessions"
        uncovered = _warn_of_unshown(counts, everywhere, why, remedy)
        return Propensities(_hidden(counts, realised), realised[counts.docs], "realised", uncovered)
    table = LoggedTable.of(counts)
    # where one document contradicts a name, others of that name may too without having been seen twice
    unnamed = (table.sessions[table.contradicted().any(axis=0)] > 0.0).any(axis=0)
    several = unnamed | (np.count_nonzero(table.sessions > 0.0, axis=0) > 1)
    _warn_of_excess(counts, table, curve, ~several)
    if not several.any():
        if exam is not None and curve is not None:
            _warn_if_apart(counts, table, curve)
        by_document = _hidden(counts, table.single())
        uncovered = np.union1d(_with_sessions(counts, by_document == 0.0), _never_varied(counts))
        return Propensities(by_document, counts.propensities, "logged", uncovered)
    mixed = several[table.query_of_docs]
    mean = table.mean()
    needed = mixed & (counts.by_document(counts.impressions if all_shown else counts.clicks) > 0.0)
    if not unnamed.any() and not np.isnan(mean[needed]).any():
        return _combined(counts, table, mixed, mean, "mean")
    if curve is None:
        raise CounterrankError(_refusal(counts, table, several, needed & np.isnan(mean)))
    realised = _realised(counts, curve)
    if not unnamed.any():
        _warn_if_apart(counts, table, curve)
    uncovered = _warn_of_unshown(counts, mixed, "several policies in one log", "name each policy")
    return replace(_combined(counts, table, mixed, realised, "realised"), uncovered=uncovered)


def in_canonical_gauge(rho: Any, scale: float, clicks: ClickCounts) -> FloatArray:
    """Propensities of the alpha that a user gave, as those of the canonical gauge; given ones may be above 1.

    >>> counts = ClickCounts("", np.array([0, 2]), *[np.array([1])] * 5)
    >>> in_canonical_gauge([1.5, 0.5], 0.5, counts).tolist()
    [0.75, 0.25]
    """
    found = check_vector(rho, clicks.n_docs, "rho") * scale
    return check_propensities(np.where(found < 1.0 + 1e-9, np.minimum(found, 1.0), found), clicks)


def without_stale_propensities(clicks: ClickCounts, quietly: bool = False) -> ClickCounts:
    """The same clicks without the propensities of the log, which hold another user model; with a note.

    >>> one = np.array([1])
    >>> counts = ClickCounts("", np.array([0, 1]), one, np.array([0]), one, one, one, propensities=np.array([0.5]))
    >>> without_stale_propensities(counts, quietly=True).propensities is None
    True
    """
    if clicks.propensities is None:
        return clicks
    if not quietly:
        warn_caller(
            "propensities: those in the log were computed with another user model than the one given, and are ignored; "
            "give policy and scores, or else how often the log shows each document is taken",
            ExaminationWarning,
        )
    return replace(clicks, propensities=None)


def _realised(clicks: ClickCounts, curve: Examination, base: Examination | None = None) -> FloatArray:
    """How often each document was examined in a session of its query, by the curve; nan of those never shown."""
    refuse_unseen(curve, base, clicks)
    rates = np.minimum(examined_times(curve, clicks) / np.maximum(sessions_of_documents(clicks), 1.0), 1.0)
    return np.where(clicks.by_document(clicks.impressions) > 0.0, rates, np.nan)


def displayed_propensities(found: LogPropensity, clicks: ClickCounts) -> Propensities:
    """What `policies.propensity_from_log` found, as propensities of these clicks."""
    rho = check_propensities(found.propensities, clicks)
    source = "estimated" if found.smoothing.any() else "realised"
    return Propensities(rho, rho[clicks.docs], source, _with_sessions(clicks, rho < SMALLEST))


def logged_range(clicks: ClickCounts) -> tuple[FloatArray, FloatArray]:
    """The smallest and largest mean propensity over sessions that each document may have, given what was logged.

    A policy that never showed a document may have any propensity for it. Where pages of several policies go under one
    name, the largest is that of the policy that shows the document most.

    >>> one = np.array([1])
    >>> counts = ClickCounts("", np.array([0, 1]), one, np.array([0]), one, one, one, propensities=np.array([0.5]))
    >>> [end.tolist() for end in logged_range(counts)]
    [[0.5], [0.5]]
    """
    table = LoggedTable.of(clicks)
    shares = table.shares()
    mixed = table.contradicted().any(axis=1)
    low = np.where(mixed, 0.0, (shares * np.nan_to_num(table.low)).sum(axis=1))
    high = (shares * np.where(np.isnan(table.high), 1.0, table.high)).sum(axis=1)
    return low, high


def sessions_of_documents(clicks: ClickCounts) -> FloatArray:
    """The sessions of the query of each document."""
    return np.repeat(clicks.sessions, np.diff(clicks.offsets)).astype(np.float64)


def _with_sessions(clicks: ClickCounts, chosen: BoolArray) -> IntArray:
    """The chosen documents of queries with sessions."""
    return np.flatnonzero(chosen & (sessions_of_documents(clicks) > 0.0))


def _never_varied(clicks: ClickCounts) -> IntArray:
    """Documents that were never shown, in a log in which pages of a query never vary; with a warning.

    Of simulated clicks it is known which documents cannot be shown.
    """
    again = np.maximum(clicks.sessions - 1, 0)
    if clicks.unexaminable is not None or again.sum() < _AGAIN:
        return np.empty(0, np.int64)
    shown = clicks.by_document(clicks.impressions)
    varied = np.logical_or.reduceat((shown > 0.0) & (shown < sessions_of_documents(clicks)), clicks.offsets[:-1])
    unshown = _with_sessions(clicks, shown == 0.0)
    if again[varied].sum() > _VARIED * again.sum() or len(unshown) <= UNSHOWN * clicks.n_docs:
        return np.empty(0, np.int64)
    warnings.warn(
        f"propensities: pages of one query showed the same documents in all of {again.sum():,} repeated sessions, so "
        f"the policy seems to have no randomness: {len(unshown):,} of {clicks.n_docs:,} candidates were never shown, "
        "and are not covered (eq:awarecond)",
        CoverageWarning,
        stacklevel=5,
    )
    return unshown


def _warn_of_excess(clicks: ClickCounts, table: LoggedTable, curve: Examination | None, queries: BoolArray) -> None:
    """Warn if propensities of one of these queries sum to more than a page holds, as those of one policy cannot."""
    deepest = int(clicks.ranks.max(initial=1))
    lengths = np.minimum(np.diff(clicks.offsets), deepest) - 1
    if isinstance(curve, CurvesByContext):
        theta = curve.table(clicks.contexts, deepest).max(axis=0)
    else:
        theta = np.ones(deepest) if curve is None else curve.curve(deepest)
    room = np.cumsum(theta)[lengths]
    held = np.add.reduceat(np.nan_to_num(table.high), clicks.offsets[:-1], axis=0)
    # a curve that was estimated is not quite that of the propensities
    most = room[:, None] * (1.0 + (SAME if curve is None else MOST_APART))
    over = int(np.count_nonzero((held > most).any(axis=1) & queries))
    if over:
        warnings.warn(
            f"propensities: those of {over:,} of {np.count_nonzero(clicks.sessions):,} queries sum to more than one "
            "page can hold under one policy, so they may come from several, and weights may be biased; give each "
            "policy a name of its own in the column policy",
            stacklevel=5,
        )


def _combined(
    clicks: ClickCounts, table: LoggedTable, mixed: BoolArray, values: FloatArray, source: str
) -> Propensities:
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


def _warn_if_apart(clicks: ClickCounts, table: LoggedTable, curve: Examination) -> None:
    """Warn if the curve is not that of the propensities, by documents that had to be shown: others were by luck."""
    seen = clicks.impressions * examined(curve, clicks)
    times = np.bincount(table.cells(clicks), seen, minlength=table.high.size)
    expected = np.nan_to_num(table.high) * table.sessions.T[table.query_of_docs]
    sure = expected >= _SURELY_SHOWN
    warn_if_apart(float(times.reshape(expected.shape)[sure].sum()), float(expected[sure].sum()))


def _warn_of_unshown(clicks: ClickCounts, chosen: BoolArray, why: str, remedy: str) -> IntArray:
    """The candidates of queries with sessions that were on no page, with a warning where they matter."""
    logged = chosen & (sessions_of_documents(clicks) > 0.0)
    unshown = np.flatnonzero(logged & (clicks.by_document(clicks.impressions) == 0.0))
    unseen, candidates = len(unshown), int(np.count_nonzero(logged))
    if unseen > UNSHOWN * candidates:
        warn_caller(
            f"propensities: {why}, so how often documents were shown is taken for their "
            f"propensity; {unseen:,} of {candidates:,} candidates ({unseen / candidates:.1%}) were on no page and keep "
            "weight 0 (the expected weight of a document is its relevance times P(shown at least once)); "
            f"{remedy} to correct for it",
            CoverageWarning,
        )
    return unshown


def _refusal(clicks: ClickCounts, table: LoggedTable, several: BoolArray, unknown: BoolArray) -> str:
    """Why the propensities in the log cannot be used, and what to do about it."""
    names = [name for name, own in zip(table.names, table.sessions, strict=True) if own[several].any()]
    contradicted = table.contradicted()
    shown = np.count_nonzero(~np.isnan(table.high), axis=0)
    sound = [i for i in range(len(table.names)) if table.names[i] and not contradicted[:, i].any()]
    widest = max(sound, key=lambda i: shown[i]) if sound else 0
    best = clicks.policy_names[int(np.flatnonzero(table.column_of == widest)[0])] if sound else ""
    if contradicted.any():
        why = f"{table.contradiction(clicks)}, so the log holds several policies"
        remedy = "give each policy a name of its own in the column policy and specify them all"
    else:
        n = np.count_nonzero(unknown)
        number = "1 document has" if n == 1 else f"{n:,} documents have"
        why = f"the log holds several policies ({', '.join(map(repr, names))}), and {number} an unknown propensity "
        why += "under one that never showed them"
        remedy = "specify every policy"
    only = f", or use the sessions of some policies only (--only-policy {best}, only_policies=)" if best else ""
    return (
        f"propensities: {why}; dividing each click by its own would be biased: {remedy} (--policy NAME=..., "
        f"rho=policies.several_policies(...)), give the examination curve (--examination, exam=){only}"
    )


def check_clip(clip: Any) -> float:
    """A cap on 1 / propensity; infinity for None.

    >>> check_clip(10), check_clip(None)
    (10.0, inf)
    """
    if clip is None:
        return np.inf
    if not is_real(clip) or not 0.0 < clip < np.inf:
        raise CounterrankError(f"clip={brief(clip)}: expected a finite number above 0, or None for no cap")
    return float(clip)


def check_propensities(rho: ArrayLike, clicks: ClickCounts, name: str = "rho") -> FloatArray:
    """Probabilities, one for each document of the data that was clicked."""
    given = check_vector(rho, clicks.n_docs, name)
    outside = (given < 0.0) | (given > 1.0)
    if outside.any():
        place = int(np.argmax(outside))
        raise CounterrankError(
            f"{name}: {given[place]:g} for {_place(clicks.offsets, place)}; expected probabilities from 0 to 1"
        )
    return given


def refuse_unseen(exam: Examination, beta: Examination | None, clicks: ClickCounts) -> None:
    """An error where there are clicks at ranks that by the curve are never examined, and beta does not explain them."""
    chances = examined(exam, clicks) + (0.0 if beta is None else examined(beta, clicks))
    unseen = (clicks.clicks > 0) & (chances <= 0.0)
    if unseen.any():
        rank, last, where = int(clicks.ranks[unseen].min()), int(clicks.ranks[clicks.clicks > 0].max()), ""
        if isinstance(exam, CurvesByContext):
            first = int(np.flatnonzero(unseen & (clicks.ranks == rank))[0])
            where = f" of the context {quoted(clicks.contexts[clicks.policies[first]])}"  # type: ignore[index]
        raise CounterrankError(
            f"exam: 0 at rank {rank}{where}, where there are clicks; expected a curve above 0 wherever there are, "
            f"up to rank {last}"
        )


def warn_if_apart(shown: float, expected: float) -> None:
    """Warn if examinations by the curve are not those by rho, made with another: R then does not cancel on average."""
    if expected >= _FEWEST and abs(shown - expected) > MOST_APART * expected:
        warnings.warn(
            f"exam implies {shown:,.0f} examinations of what was shown but rho implies {expected:,.0f}: were they "
            "computed from different curves?",
            stacklevel=4,
        )


def capped_inverse(
    propensities: FloatArray, clip: float, clicks: ClickCounts, counts: IntArray, docs: IntArray, ranks: IntArray,
    name: str,
) -> FloatArray:  # fmt: skip
    """min(1 / propensity, clip) of each cell of the clicks, and 0 where it has none; an impossible click is an error.

    `counts`, `docs` and `ranks` are the clicks, document and rank of each cell; `name` is that of the argument the
    propensities come from.
    """
    clicked = counts > 0
    _refuse(clicked & ~(propensities >= SMALLEST), propensities, clicks, counts, docs, name, ranks)
    return inverse_propensity(np.where(clicked, propensities, 0.0), clip)


def inverse_propensity(propensities: FloatArray, clip: float | None = None) -> FloatArray:
    """The importance weight of a click: min(1 / propensity, clip), the factor of eq:policyaware; 0 where it is 0.

    >>> inverse_propensity(np.array([0.5, 0.01, 0.0]), clip=10.0).tolist()
    [2.0, 10.0, 0.0]
    """
    result = np.zeros(len(propensities))
    np.divide(1.0, propensities, out=result, where=propensities >= SMALLEST)
    return result if clip is None else np.minimum(result, clip, out=result)


def refuse_impossible(chances: FloatArray, counts: FloatArray, clicks: ClickCounts, name: str) -> None:
    """An error where a document was clicked that had no chance to be; `chances` and `counts` are by document."""
    _refuse((counts > 0) & ~(chances >= SMALLEST), chances, clicks, counts, np.arange(len(chances)), name)


def _refuse(
    impossible: Any, propensities: FloatArray, clicks: ClickCounts, counts: Any, docs: IntArray, name: str,
    ranks: IntArray | None = None,
) -> None:  # fmt: skip
    if not impossible.any():
        return
    first = int(np.argmax(impossible))
    documents = len(np.unique(docs[impossible]))
    where = "" if ranks is None else f" at rank {ranks[first]}"
    raise CounterrankError(
        f"{name}: {propensities[first]:g} for {_some(int(counts[impossible].sum()), 'click')} on "
        f"{_some(documents, 'document')}, such as {_place(clicks.offsets, docs[first])}{where}; "
        "expected a propensity above 0 wherever there is a click"
    )


def _some(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _place(offsets: IntArray, row: int) -> str:
    query = int(query_of(row, offsets))
    return f"document {row - offsets[query]} of query {query}"
