"""Propensities for the clicks of a log: of several known policies, as logged, and of an unknown one from frequencies.

Several policies: the mean over sessions (intervention-aware). As logged: one propensity for each document and policy.
Unknown: how often the log shows each document at each rank.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.examination import CurvesByContext, Examination, lines_of
from counterrank.clicks.exposure import examined
from counterrank.clicks.policies.pages import check_rankings
from counterrank.clicks.policies.propensity import EstimatedPropensity, exact_propensity
from counterrank.clicks.policies.standard import as_policy
from counterrank.common.checks import FloatArray, IntArray, check_number
from counterrank.common.errors import CounterrankError, brief, printable
from counterrank.common.jit import Array, exact_inner_kernel, exact_kernel
from counterrank.data.ids import query_of, query_of_rows

# propensities of one document that differ by more come from different policies; float32 keeps seven digits
SAME = 1e-4

BoolArray = NDArray[np.bool_]


def several_policies(
    clicks: ClickCounts, policies: Mapping[str, tuple[Any, ArrayLike]], exam: Any, *, threads: int | None = None
) -> FloatArray:
    """P(examined) of each document in a session of a log of several policies: the mean over its sessions.

        rho(d) = sum over policies p of sessions_p(q) / sessions(q) * rho_p(d)

    The intervention-aware propensity of Oosterhuis and de Rijke (WSDM 2021) for policies known in advance. Weights
    `estimators.policy_aware(clicks, rho)` are unbiased if a document can be examined under *any* of the policies, and
    one that is shown often by one of them does not get the large weight of its small propensity under another.

    Arguments:
        clicks: of a log with the column `policy`, counted against ranking data.
        policies: for each name in `clicks.policy_names` the policy and the scores it ranked by, one per document of
            the data. All are needed: what a policy did not show is not in the log.
        exam: how likely each rank is examined; by context, see `examination.ByContext`, the mean is over contexts too.
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
    return mean_over_policies(check_counts(clicks), policies, [lines_of(exam)[0]], threads)[0]


def mean_over_policies(
    clicks: ClickCounts, policies: Any, curves: list[Examination], threads: int | None
) -> list[FloatArray]:
    """For each curve its expected value at the rank of each document, 0 where it is not shown."""
    given = check_policies(clicks, policies)
    return [_mean_of(clicks, given, curve, threads) for curve in curves]


def _mean_of(
    clicks: ClickCounts, policies: Mapping[str, tuple[Any, ArrayLike]], curve: Examination, threads: int | None
) -> FloatArray:
    mean, n_sessions = np.zeros(clicks.n_docs), np.maximum(clicks.sessions, 1)
    for name, own, sessions in _sessions_by_curve(clicks, curve):
        if own is not None:
            share = np.repeat(sessions / n_sessions, np.diff(clicks.offsets))
            mean += share * exact_propensity(*policies[name], clicks.offsets, own, threads)
    return np.minimum(mean, 1.0, out=mean)  # sums of shares may round above


def _sessions_by_curve(clicks: ClickCounts, curve: Examination) -> list[tuple[str, Examination | None, IntArray]]:
    """For each policy and each curve that its contexts have, the sessions of each query."""
    if isinstance(curve, CurvesByContext):
        curve.table(clicks.contexts, 1)  # an error where contexts are not known
    assert clicks.policy_sessions is not None
    found: dict[tuple[str, Examination | None], IntArray] = {}
    for i, (name, sessions) in enumerate(zip(clicks.policy_names, clicks.policy_sessions, strict=True)):
        key = name, curve.of(clicks.contexts[i]) if isinstance(curve, CurvesByContext) else curve
        found[key] = found[key] + sessions if key in found else sessions
    return [(name, own, sessions) for (name, own), sessions in found.items()]


def mean_over_contexts(
    clicks: ClickCounts, policy: Any, scores: ArrayLike, curve: Examination, threads: int | None
) -> FloatArray:
    """The expected value of a curve at the rank of each document under the only policy of a log.

    Of a curve by context the mean over the query's sessions in all contexts,

        rho(d) = sum over contexts c of sessions_c(q) / sessions(q) * rho_c(d),

    as `several_policies` takes it over policies: a click in any context counts the same, 1 / rho(d).

    >>> from counterrank.clicks.policies import Deterministic
    >>> one = np.array([1])
    >>> clicks = ClickCounts("", np.array([0, 1]), 4 * one, 0 * one, one, 4 * one, one, policies=0 * one,
    ...                      policy_names=("", ""), policy_sessions=np.array([[3], [1]]), contexts=("pc", "phone"))
    >>> curve = CurvesByContext({"pc": Examination([1.0]), "phone": Examination([0.6])})
    >>> mean_over_contexts(clicks, Deterministic(1), [0.0], curve, None).tolist()  # (3 * 1 + 1 * 0.6) / 4
    [0.9]
    """
    if not isinstance(curve, CurvesByContext):
        return exact_propensity(policy, scores, clicks.offsets, curve, threads)
    names = dict.fromkeys(clicks.policy_names)
    pairs = dict.fromkeys(names, (policy, check_rankings(scores, clicks.n_docs)))
    return _mean_of(clicks, pairs, curve, threads)


def check_policies(clicks: ClickCounts, policies: Any) -> dict[str, tuple[Any, FloatArray]]:
    """The policy and the scores of each name in the log, no more and no less."""
    check_all_candidates(clicks)
    if clicks.policies is None or clicks.policy_sessions is None or not clicks.distinct_policies:
        raise CounterrankError(
            "clicks: name no policies; expected a log with the column policy (for a log of a single policy use "
            "policy.propensity)"
        )
    if not isinstance(policies, Mapping):
        raise CounterrankError(f"policies: {type(policies).__name__}; expected {{name: (policy, scores)}}")
    refuse_contradictions(clicks)
    in_log = ", ".join(map(repr, clicks.distinct_policies))
    for name in clicks.distinct_policies:
        if name not in policies:
            raise CounterrankError(f"policies: nothing for {name!r}; expected each policy of the log, {in_log}")
    for name in policies:
        if name not in clicks.policy_names:
            raise CounterrankError(f"policies: {brief(name)} is not in the log; expected the names {in_log}")
    found = {}
    for name, pair in policies.items():
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise CounterrankError(f"policies[{name!r}]: {brief(pair)}; expected a pair (policy, scores)")
        found[name] = as_policy(pair[0]), check_rankings(pair[1], clicks.n_docs, f"scores of policy {name!r}")
    return found


class LoggedTable(NamedTuple):
    """The propensities of each document under each policy.

    The contexts of a policy are one where no document has different propensities in them: a document that was never
    shown in one of them has the propensity of the others. Else each policy in each context counts as one.

    Attributes:
        low, high: the smallest and largest that were logged, (n_docs, n_policies); nan where it was never shown.
        sessions: of each query under each policy, (n_policies, n_queries).
        query_of_docs: the query of each document.
        names: of the policies; "" without one.
        column_of: for each of `ClickCounts.policy_names` its policy here.
    """

    low: FloatArray
    high: FloatArray
    sessions: FloatArray
    query_of_docs: Any
    names: tuple[str, ...]
    column_of: IntArray

    @classmethod
    def of(cls, clicks: ClickCounts) -> LoggedTable:
        """The propensities of a log that has some."""
        names = clicks.policy_names or ("",)
        if clicks.contexts:
            policies = tuple(dict.fromkeys(names))
            found = cls._of(clicks, policies, np.array([policies.index(name) for name in names]))
            if not found.contradicted().any():
                return found
            names = tuple(f"{name} {context}".strip() for name, context in zip(names, clicks.contexts, strict=True))
        return cls._of(clicks, names, np.arange(len(names)))

    @classmethod
    def _of(cls, clicks: ClickCounts, names: tuple[str, ...], column_of: IntArray) -> LoggedTable:
        assert clicks.propensities is not None
        n = len(names)
        place = clicks.docs if clicks.policies is None else clicks.docs * n + column_of[clicks.policies]
        low, high = np.full(clicks.n_docs * n, np.inf), np.full(clicks.n_docs * n, -np.inf)
        np.minimum.at(low, place, clicks.propensities)
        np.maximum.at(high, place, clicks.propensities)
        unknown = low > high
        low[unknown] = high[unknown] = np.nan
        sessions = np.zeros((n, clicks.n_queries))
        np.add.at(
            sessions, column_of, clicks.sessions[None] if clicks.policy_sessions is None else clicks.policy_sessions
        )
        owner = query_of_rows(clicks.offsets)
        return cls(low.reshape(-1, n), high.reshape(-1, n), sessions, owner, names, column_of)

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
        under = f"under {self.names[policy]!r}" if self.names[policy] else "without a name of the policy"
        low, high = self.low[doc, policy], self.high[doc, policy]
        return f"{document_name(clicks, int(doc))} was logged with propensities {low:.4g} and {high:.4g} {under}"

    def cells(self, clicks: ClickCounts) -> IntArray:
        """The place of each cell of the counts in the table, row by row."""
        if clicks.policies is None:
            return clicks.docs
        return clicks.docs * len(self.names) + self.column_of[clicks.policies]

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


# Smoothing is looked for between these; at the low end frequencies are left as they are, at the high end all
# documents of a query are shown equally often.
LEAST, MOST = 1e-3, 1e7
_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)
_STEPS = 60


@exact_kernel
def log_evidence(smoothing: float, shown: Array, candidates: Array, pages: Array) -> float:
    """log P(the documents shown at one rank | smoothing), for chances drawn from a symmetric Dirichlet distribution.

        sum over queries of  lgamma(m) - lgamma(m + n)  +  sum over documents of  lgamma(m / N + c) - lgamma(m / N)

    Arguments:
        smoothing: m, the sum of the Dirichlet parameters of a query.
        shown: c, how often each document was shown at the rank, those shown at least once.
        candidates: N, the number of documents of its query.
        pages: n, how many pages of each query have this rank.

    >>> import numpy as np
    >>> one = np.array([1])  # two candidates, one page: both are equally likely
    >>> round(math.exp(log_evidence(3.0, one, np.array([2]), one)), 6)
    0.5
    """
    total = 0.0
    for i in range(len(shown)):
        own = smoothing / candidates[i]
        total += math.lgamma(own + shown[i]) - math.lgamma(own)
    for i in range(len(pages)):
        total += math.lgamma(smoothing) - math.lgamma(smoothing + pages[i])
    return total


@exact_kernel
def best_smoothing(shown: Array, candidates: Array, pages: Array) -> float:
    """arg max over m of `log_evidence`, by golden section over log m."""
    low, high = math.log(LEAST), math.log(MOST)
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left = log_evidence(math.exp(left), shown, candidates, pages)
    at_right = log_evidence(math.exp(right), shown, candidates, pages)
    for _ in range(_STEPS):
        if at_left >= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = log_evidence(math.exp(left), shown, candidates, pages)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = log_evidence(math.exp(right), shown, candidates, pages)
    return math.exp(0.5 * (low + high))


@exact_inner_kernel
def _divergence(found: float, true: float) -> float:
    """KL(found || true) = f log(f / t) + (1 - f) log((1 - f) / (1 - t)) of two coins, 0 < true <= found <= 1."""
    rest = (1.0 - found) * math.log((1.0 - found) / (1.0 - true)) if found < 1.0 else 0.0
    return found * math.log(found / true) + rest


@exact_kernel
def lower_bounds(means: Array, largest: Array, n: Array, allowed: float, out: Array) -> None:
    """Fill `out` with the smallest r for which n KL(mean / largest || r / largest) <= allowed; 0 for a mean of 0."""
    for i in range(len(means)):
        if means[i] <= 0.0:
            out[i] = 0.0
            continue
        found = min(means[i] / largest[i], 1.0)
        low, high = -750.0, math.log(found)  # by its logarithm: bounds of rare documents are tiny
        for _ in range(64):
            middle = 0.5 * (low + high)
            if n[i] * _divergence(found, math.exp(middle)) > allowed:
                low = middle
            else:
                high = middle
        out[i] = largest[i] * math.exp(high)


AUTO = "auto"


@dataclass(frozen=True, eq=False, repr=False)
class LogPropensity(EstimatedPropensity):
    """Propensities estimated from the pages of a log; accepted wherever rho is.

    Attributes:
        propensities: P(examined | query, policy), one per document; 0 for those that were never shown.
        standard_errors: of each of them; nan where the log holds no information: documents never shown, and without
            smoothing those of queries with one session. 0 for a document at one rank on every page, however few.
        samples: how many pages the log has, all queries together.
        lower: a lower confidence bound of each propensity; None without `confidence`.
        never_shown: how many documents of logged queries are on no page. They have propensity 0 here, since
            the log cannot separate candidates that are shown rarely from those never shown.
        smoothing: imaginary sessions that were added to each query, by rank from 1.
    """

    lower: FloatArray | None
    never_shown: int
    smoothing: FloatArray


def propensity_from_log(
    clicks: ClickCounts, exam: Any, *, smoothing: float | str = 0.0, confidence: float | None = None
) -> LogPropensity:
    """Estimate P(examined) of each document from the display frequencies of the log, for an unknown policy.

        rho(d) = sum over ranks j of theta_j p_j(d),
        p_j(d) = (shown(d, j) + m_j pages(q, j) / pages(q) / N) / (pages(q) + m_j)

    With m = 0, p is the display frequency. Then policy-aware weights on the same log are unbiased given its pages for
    each document that was shown: impressions and clicks err together. What is lost are the documents that were not
    shown, and with few sessions per query that is most of them: those that happened to be shown have far larger
    frequencies than probabilities. Smoothing takes m_j sessions of a policy that shows each of the N candidates
    equally often at rank j as known beforehand. "auto" finds for each rank the m_j under which the log is most likely
    (p_j drawn from a symmetric Dirichlet distribution, Minka 2000): next to 0 where each query has a fixed document at
    the rank, large where any document may be there. It needs queries with several sessions.

    Arguments:
        clicks: what was shown.
        exam: how likely each rank is examined.
        smoothing: m for all ranks, 0 or more, or "auto".
        confidence: of a lower bound on each propensity, such as 0.95; without smoothing only. It is the smallest
            probability r under which a mean as large as rho is not too unlikely (Hoeffding 1963, theorem 1),
            pages(q) KL(rho / theta || r / theta) <= -log(1 - confidence) with the largest theta at which d was shown.
            That theta is read off the same log, so it is a rule of thumb and no theorem. It shows how large the weight
            of a click may truly be. Do not train on it: it is furthest below for the documents that were shown least,
            and clicks on them then outweigh all others.

    Returns:
        propensities with standard errors, those of the Dirichlet distribution of p given the log.

    >>> docs, ranks, shown, clicked = np.array([[0, 1, 2], [1, 2, 2], [10, 8, 2], [3, 2, 1]])
    >>> clicks = ClickCounts("", np.array([0, 4]), np.array([10]), docs, ranks, shown, clicked)
    >>> found = propensity_from_log(clicks, [1.0, 0.5], confidence=0.95)
    >>> found.propensities.tolist(), found.never_shown
    ([1.0, 0.4, 0.1, 0.0], 1)
    >>> found
    LogPropensity(3 of 4 documents shown on 10 pages, propensities 0.1 to 1, no smoothing)
    >>> found.lower.round(2).tolist()
    [0.74, 0.21, 0.01, 0.0]
    >>> propensity_from_log(clicks, [1.0, 0.5], smoothing=10).propensities.round(3).tolist()
    [0.688, 0.388, 0.238, 0.0]
    """
    counts, level = check_counts(clicks), confidence
    if level is not None:
        level = check_number(level, "confidence", at_least=0.5, below=1, also=", such as 0.95, or None")
    added = _check_smoothing(counts, smoothing)
    if level is not None and added.any():
        raise CounterrankError(
            "smoothing: given together with confidence; expected one of them, bounds are of frequencies"
        )
    curve = lines_of(exam)[0]
    shown = counts.by_document(counts.impressions) > 0.0
    lengths = np.diff(counts.offsets)
    # p is linear in the impressions, and so are both sums over ranks: of theta p, and of what the variance needs
    total = counts.sessions[:, None] + added
    theta, of_cells = _mean_curves(counts, curve, len(added)), examined(curve, counts)
    spread = 1.0 / np.sqrt(total + 1.0)
    powers = (np.ones(total.shape), 1), (spread, 1), (spread**2, 2)
    rho, mean, square = (
        _by_document(counts, scale * theta**power, scale, of_cells**power, total, added, lengths)
        for scale, power in powers
    )
    rho = np.where(shown, np.minimum(rho, 1.0), 0.0)
    known = shown & (np.repeat(counts.sessions + added.max(), lengths) > 1.0)
    lower = None
    if level is not None:
        lower = np.zeros(counts.n_docs)
        pages = np.repeat(counts.sessions, lengths)
        lower_bounds(rho, _largest(counts, of_cells), pages, -np.log1p(-level), lower)
    logged = np.repeat(counts.sessions > 0, lengths)
    return LogPropensity(
        propensities=rho,
        standard_errors=np.where(known, np.sqrt(np.maximum(square - mean**2, 0.0)), np.nan),
        samples=counts.n_sessions,
        lower=lower,
        never_shown=int(np.count_nonzero(logged & ~shown)),
        smoothing=added,
    )


def _mean_curves(clicks: ClickCounts, curve: Examination, depth: int) -> FloatArray:
    """P(examined | rank) of each query, (n_queries, depth): of a curve by context the mean over its sessions."""
    if not isinstance(curve, CurvesByContext):
        return np.broadcast_to(curve.curve(depth), (clicks.n_queries, depth))
    table = curve.table(clicks.contexts, depth)
    sessions = np.zeros((0, clicks.n_queries)) if clicks.policy_sessions is None else clicks.policy_sessions
    return np.asarray(sessions.T @ table / np.maximum(clicks.sessions, 1)[:, None])


def _by_document(
    clicks: ClickCounts, values: FloatArray, scale: FloatArray, of_cells: FloatArray, total: FloatArray,
    added: FloatArray, lengths: IntArray,
) -> FloatArray:  # fmt: skip
    """sum over ranks j of values(q, j) p_j(d); `total` is pages(q) + m_j.

    What was shown has the value of its cell, `of_cells` times scale(q, j): that of the contexts it was shown in.
    """
    queries, ranks = clicks.queries(), clicks.ranks - 1
    weights, scales = (np.divide(each, total, out=np.zeros(total.shape), where=total > 0.0) for each in (values, scale))
    seen = clicks.by_document(clicks.impressions * scales[queries, ranks] * of_cells)
    if not added.any():
        return seen
    pages = _pages_by_rank(clicks, len(added)) / np.maximum(clicks.sessions, 1)[:, None]
    prior: FloatArray = (weights * added * pages).sum(axis=1) / lengths
    return seen + np.repeat(prior, lengths)


def _pages_by_rank(clicks: ClickCounts, depth: int) -> FloatArray:
    """How many pages of each query have something at each rank, (n_queries, depth)."""
    at = clicks.queries() * depth + clicks.ranks - 1
    counts = np.bincount(at, weights=clicks.impressions, minlength=clicks.n_queries * depth)
    return np.asarray(counts, np.float64).reshape(clicks.n_queries, depth)


def _largest(clicks: ClickCounts, of_cells: FloatArray) -> FloatArray:
    """The largest theta at which each document was shown; 0 if nowhere."""
    found = np.zeros(clicks.n_docs)
    np.maximum.at(found, clicks.docs, of_cells)
    return found


def _check_smoothing(clicks: ClickCounts, smoothing: Any) -> FloatArray:
    """Imaginary sessions by rank, to the lowest rank of the log."""
    depth = int(clicks.ranks.max(initial=1))
    if isinstance(smoothing, str) and smoothing == AUTO:
        clicks.check_candidates()
        return _fit_smoothing(clicks, depth)
    value = check_number(smoothing, "smoothing", at_least=0, also=' (sessions), or "auto"')
    if value > 0.0:
        clicks.check_candidates()
    return np.full(depth, value)


def _fit_smoothing(clicks: ClickCounts, depth: int) -> FloatArray:
    if not (clicks.sessions > 1).any():
        raise CounterrankError(
            'smoothing="auto": no query has several sessions, so the log does not show how much its pages differ; '
            "give a number, or see policies.fit_plackett_luce"
        )
    first = np.concatenate(([True], (np.diff(clicks.docs) != 0) | (np.diff(clicks.ranks) != 0)))
    starts = np.flatnonzero(first)  # cells of several policies come together
    shown, ranks = np.add.reduceat(clicks.impressions, starts), clicks.ranks[starts]
    lengths = np.diff(clicks.offsets)
    candidates = lengths[clicks.queries()[starts]]
    pages = _pages_by_rank(clicks, depth).astype(np.int64)
    found = np.empty(depth)
    for rank in range(depth):
        own, logged = ranks == rank + 1, pages[:, rank] > 0
        found[rank] = best_smoothing(shown[own], candidates[own], pages[logged, rank])
    return found
