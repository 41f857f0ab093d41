"""Logs of several policies: intervention-aware propensities, and the logged propensities by policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.examination import Examination, check_examination
from counterrank.clicks.policies.propensity import exact_propensity
from counterrank.clicks.policies.standard import as_policy
from counterrank.common.checks import FloatArray, IntArray, check_vector
from counterrank.common.errors import CounterrankError, printable
from counterrank.data.ids import query_of, query_of_rows

# propensities of one document that differ by more come from different policies; float32 keeps seven digits
SAME = 1e-4

BoolArray = NDArray[np.bool_]


def several_policies(
    clicks: ClickCounts, policies: Mapping[str, tuple[Any, ArrayLike]], exam: Any, *, threads: int | None = None
) -> FloatArray:
    """P(examined) of each document in a session of this log, whichever of its policies made the page.

        rho(d) = sum over policies p of sessions_p(q) / sessions(q) * rho_p(d)

    The intervention-aware propensity of Oosterhuis and de Rijke (WSDM 2021) for policies known in advance. Weights
    `estimators.policy_aware(clicks, rho)` are unbiased if a document can be examined under *any* of the policies, and
    one that is shown often by one of them does not get the large weight of its small propensity under another.

    Arguments:
        clicks: of a log with the column `policy`, counted against ranking data.
        policies: for each name in `clicks.policy_names` the policy and the scores it ranked by, one per document of
            the data. All are needed: what a policy did not show is not in the log.
        exam: how likely each rank is examined.
        threads: None for all cores.

    Returns:
        float64, one per document of the data. 0 for the documents of queries without sessions: there were no shares,
        and clicks of another log on them are then refused.

    >>> from counterrank.clicks.policies import Deterministic, ReplaceLast
    >>> docs, ranks = np.array([0, 1, 2]), np.array([1, 1, 1])
    >>> shown, clicked, sessions = np.array([85, 5, 10]), np.array([9, 1, 4]), np.array([100])
    >>> clicks = ClickCounts("", np.array([0, 3]), sessions, docs, ranks, shown, clicked, policies=np.array([0, 1, 1]),
    ...                      policy_names=("old", "new"), policy_sessions=np.array([[70], [30]]))
    >>> scores = [3.0, 2.0, 1.0]
    >>> rho = several_policies(clicks, {"old": (Deterministic(1), scores), "new": (ReplaceLast(1), scores)}, [1.0])
    >>> rho.round(3).tolist()  # 0.7 + 0.3 / 3, 0.3 / 3, 0.3 / 3
    [0.8, 0.1, 0.1]
    """
    return mean_over_policies(check_counts(clicks), policies, [check_examination(exam)], threads)[0]


def mean_over_policies(
    clicks: ClickCounts, policies: Any, curves: list[Examination], threads: int | None
) -> list[FloatArray]:
    """For each curve its expected value at the rank of each document, 0 where it is not shown."""
    given = check_policies(clicks, policies)
    assert clicks.policy_sessions is not None
    n_sessions = np.maximum(clicks.sessions, 1)
    means = [np.zeros(clicks.n_docs) for _ in curves]
    for number, name in enumerate(clicks.policy_names):
        policy, scores = given[name]
        share = np.repeat(clicks.policy_sessions[number] / n_sessions, np.diff(clicks.offsets))
        for mean, curve in zip(means, curves, strict=True):
            mean += share * exact_propensity(policy, scores, clicks.offsets, curve, threads)
    return [np.minimum(mean, 1.0, out=mean) for mean in means]  # sums of shares may round above


def check_policies(clicks: ClickCounts, policies: Any) -> dict[str, tuple[Any, FloatArray]]:
    """The policy and the scores of each name in the log, no more and no less."""
    check_all_candidates(clicks)
    if clicks.policies is None or clicks.policy_sessions is None:
        raise CounterrankError(
            "clicks: name no policies; expected a log with the column policy (for a log of a single policy use "
            "policy.propensity)"
        )
    if not isinstance(policies, Mapping):
        raise CounterrankError(f"policies: {type(policies).__name__}; expected {{name: (policy, scores)}}")
    refuse_contradictions(clicks)
    in_log = ", ".join(map(repr, clicks.policy_names))
    for name in clicks.policy_names:
        if name not in policies:
            raise CounterrankError(f"policies: nothing for {name!r}; expected each policy of the log, {in_log}")
    for name in policies:
        if name not in clicks.policy_names:
            raise CounterrankError(f"policies: {name!r} is not in the log; expected the names {in_log}")
    found = {}
    for name, pair in policies.items():
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise CounterrankError(f"policies[{name!r}]: {pair!r:.60}; expected a pair (policy, scores)")
        found[name] = as_policy(pair[0]), check_vector(pair[1], clicks.n_docs, f"scores of policy {name!r}")
    return found


class LoggedTable(NamedTuple):
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
    def of(cls, clicks: ClickCounts) -> LoggedTable:
        """The propensities of a log that has some."""
        assert clicks.propensities is not None
        n, place = max(len(clicks.policy_names), 1), cls.cells(clicks)
        low, high = np.full(clicks.n_docs * n, np.inf), np.full(clicks.n_docs * n, -np.inf)
        np.minimum.at(low, place, clicks.propensities)
        np.maximum.at(high, place, clicks.propensities)
        unknown = low > high
        low[unknown] = high[unknown] = np.nan
        sessions = clicks.sessions[None] if clicks.policy_sessions is None else clicks.policy_sessions
        owner = query_of_rows(clicks.offsets)
        return cls(low.reshape(-1, n), high.reshape(-1, n), np.asarray(sessions, np.float64), owner)

    def contradicted(self) -> BoolArray:
        """Where a document has several propensities under one policy."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.high > self.low * (1.0 + SAME))

    def contradiction(self, clicks: ClickCounts) -> str:
        """The first document with several propensities under one policy, in words; "" where there is none."""
        found = np.argwhere(self.contradicted())
        if not len(found):
            return ""
        doc, policy = found[0]
        under = f"under {clicks.policy_names[policy]!r}" if clicks.policy_names else "without a name of the policy"
        low, high = self.low[doc, policy], self.high[doc, policy]
        return f"{document_name(clicks, int(doc))} was logged with propensities {low:.4g} and {high:.4g} {under}"

    @staticmethod
    def cells(clicks: ClickCounts) -> IntArray:
        """The place of each cell of the counts in the table, row by row."""
        n = max(len(clicks.policy_names), 1)
        return clicks.docs if clicks.policies is None else clicks.docs * n + clicks.policies

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


def refuse_contradictions(clicks: ClickCounts) -> None:
    """An error where the propensities in the log show that pages under one policy name are of several policies.

    >>> one = np.array([1])
    >>> refuse_contradictions(ClickCounts("", np.array([0, 1]), one, np.array([0]), one, one, one))
    """
    found = "" if clicks.propensities is None else LoggedTable.of(clicks).contradiction(clicks)
    if found:
        raise CounterrankError(
            f"clicks: {found}, so these are pages of several policies and not of one; expected a name for each in the "
            "column policy"
        )


def document_name(clicks: ClickCounts, row: int) -> str:
    """A document in words, by ids where they are known, else by places from 0.

    >>> one = np.array([1])
    >>> document_name(ClickCounts("", np.array([0, 1]), one, np.array([0]), one, one, one), 0)
    'document 0 of query 0'
    """
    query = int(query_of(row, clicks.offsets))
    if clicks.doc_ids is None or clicks.query_ids is None:
        return f"document {row - clicks.offsets[query]} of query {query}"
    return f"document {printable(str(clicks.doc_ids[row]))} of query {printable(str(clicks.query_ids[query]))}"


def check_all_candidates(clicks: ClickCounts) -> None:
    """An error unless the data has all documents of the log, and so all that the policy ranked."""
    clicks.check_candidates()
    if clicks.unknown_impressions:
        share = clicks.unknown_impressions / (clicks.unknown_impressions + clicks.n_impressions)
        raise CounterrankError(
            f"clicks: {clicks.unknown_impressions:,} impressions ({share:.2%}) are of documents that the ranking data "
            "does not have, so the policy ranked more candidates than are known and its propensities would be wrong; "
            "expected data with all candidates, or logged propensities, or those estimated from the log "
            "(--policy estimated, policies.propensity_from_log)"
        )
