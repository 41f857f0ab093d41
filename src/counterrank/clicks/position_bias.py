"""The estimate as a caller gets it: checks before, the method asked for, warnings after."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.clicks import position_bias_kernels as _all_pairs
from counterrank.clicks import position_bias_kernels as _cells
from counterrank.clicks import position_bias_kernels as _em
from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.examination import Examination
from counterrank.common.checks import FloatArray, IntArray, check_choice, check_cutoff
from counterrank.common.errors import CounterrankError, DataError, ExaminationWarning
from counterrank.common.files import PathLike, atomic_file, existing
from counterrank.common.quantiles import student_quantile
from counterrank.data import RankingData
from counterrank.data.ids import query_of

# The examination curve that a log speaks for: values, intervals, what they rest on, and a small file of it.


_MOST = 1.05  # chance may bring an estimate a little above 1, not further
_FORMAT, _VERSION = "counterrank-examination", 1


@dataclass(frozen=True, eq=False)
class EstimatedExamination:
    """P(examined | rank) relative to rank 1, as a log tells it.

    Attributes:
        values: theta_k / theta_1 for each rank, as estimated; noise, or users, may put one above 1.
        intervals: (n_ranks, 2), one for each rank by itself; those of rank 1 are 1 and 1.
        ranks: 1 to k.
        method: "all-pairs", "em" or "regression-em".
        target: what the intervals are over: "queries" like these, or new clicks on "these-queries".
        confidence: how often each of them shall hold the truth.
        n_sessions: the sessions of the log.
        n_queries: the queries that had a say.
        n_documents: the query-document pairs that had a say.
        n_clicks: the clicks on them.
        warnings: what speaks against trusting the values, in words.
    """

    values: FloatArray
    intervals: FloatArray
    ranks: IntArray
    method: str
    target: str
    confidence: float
    n_sessions: int
    n_queries: int
    n_documents: int
    n_clicks: int
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for array in (self.values, self.intervals, self.ranks):
            array.flags.writeable = False

    @property
    def examination(self) -> Examination:
        """The curve for training and evaluation: the values, those above 1 set to 1."""
        return Examination(np.clip(self.values, 0.0, 1.0))

    def save(self, path: PathLike) -> None:
        """Write a JSON file, which `examination.load` and `--examination FILE` read."""
        content: dict[str, Any] = {"format": _FORMAT, "version": _VERSION}
        for name, value in vars(self).items():
            content[name] = value.tolist() if isinstance(value, np.ndarray) else value
        with atomic_file(path) as temporary:
            temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    def __repr__(self) -> str:
        shown = ", ".join(f"{value:.3g}" for value in self.values)
        return (
            f"EstimatedExamination({self.method}: {shown}; {self.n_clicks:,} clicks on {self.n_documents:,} documents "
            f"of {self.n_queries:,} queries)"
        )


def load_examination(path: PathLike) -> Examination:
    """The curve in a file that `EstimatedExamination.save` wrote."""
    file = existing(path, "examination curve")
    expected = "expected a file written by EstimatedExamination.save"
    if not file.is_file():
        raise DataError(f"{path}: is a folder; {expected}")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as fault:
        raise DataError(f"{path}: not JSON ({fault}); {expected}") from None
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise DataError(f"{path}: format is not {_FORMAT!r}; {expected}")
    if content.get("version") != _VERSION:
        raise DataError(
            f"{path}: version {content.get('version')!r}; this counterrank reads version {_VERSION}, install a newer "
            "one"
        )
    values = content.get("values")
    if not isinstance(values, list) or not all(type(value) in (int, float) and value >= 0.0 for value in values):
        raise DataError(f"{path}: values are not a list of numbers of at least 0; {expected}")
    if max(values, default=0.0) > _MOST:
        rank = int(np.argmax(values)) + 1
        text = f"{path}: {values[rank - 1]:g} at rank {rank}, more than at rank 1, is taken for 1"
        warnings.warn(f"{text}; is the estimate to be trusted?", ExaminationWarning, stacklevel=2)
    return Examination(np.clip(values, 0.0, 1.0))


# What a log says about position bias: the documents that were seen at several ranks and clicked.


@dataclass(frozen=True, eq=False)
class Seen:
    """Impressions and clicks of each document at each rank up to some rank, over all policies and propensities.

    Attributes:
        n_ranks: ranks 1 to this one are looked at.
        starts: the cells of document i are starts[i]:starts[i + 1].
        ranks: the rank of each cell, from 0.
        impressions: of each cell, as float64.
        clicks: of each cell, as float64.
        docs: the row of each document in the data.
        query_starts: the documents of query q are query_starts[q]:query_starts[q + 1]; of queries that have some.
    """

    n_ranks: int
    starts: IntArray
    ranks: IntArray
    impressions: FloatArray
    clicks: FloatArray
    docs: IntArray
    query_starts: IntArray

    @property
    def n_docs(self) -> int:
        """How many documents there are."""
        return len(self.docs)

    @property
    def n_queries(self) -> int:
        """How many queries have a document here."""
        return len(self.query_starts) - 1

    def cells(self) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
        """What kernels take: starts, ranks, impressions, clicks."""
        return self.starts, self.ranks, self.impressions, self.clicks

    def by_document(self, values: FloatArray) -> FloatArray:
        """Numbers of the cells added up for each document."""
        sums: FloatArray = np.add.reduceat(values, self.starts[:-1]) if self.n_docs else np.zeros(0)
        return sums


def seen(clicks: ClickCounts, n_ranks: int) -> Seen:
    """All documents that were shown at ranks 1 to `n_ranks`."""
    inside = (clicks.ranks <= n_ranks) & (clicks.impressions > 0)
    return _table(clicks, inside, n_ranks)


def compared(clicks: ClickCounts, n_ranks: int) -> Seen:
    """Those documents that tell ranks apart: shown at two ranks or more, and clicked at one of them or more.

    A document seen at one rank has a relevance of its own that explains its clicks whatever the examination; one that
    was never clicked is explained by relevance 0 at every rank. Neither says anything about a ratio.
    """
    everything = seen(clicks, n_ranks)
    n_cells = np.diff(everything.starts)
    clicked = everything.by_document(everything.clicks) > 0.0
    keep = np.zeros(clicks.n_docs, np.bool_)
    keep[everything.docs[(n_cells > 1) & clicked]] = True
    inside = (clicks.ranks <= n_ranks) & (clicks.impressions > 0) & keep[clicks.docs]
    return _table(clicks, inside, n_ranks)


def _table(clicks: ClickCounts, inside: np.ndarray, n_ranks: int) -> Seen:
    docs, ranks = clicks.docs[inside], clicks.ranks[inside] - 1
    new = np.ones(len(docs), np.bool_)  # cells that differ in policy or propensity alone are one cell here
    new[1:] = (docs[1:] != docs[:-1]) | (ranks[1:] != ranks[:-1])
    first = np.flatnonzero(new)
    impressions, clicked = (
        np.add.reduceat(column[inside], first).astype(np.float64) if len(first) else np.zeros(0)
        for column in (clicks.impressions, clicks.clicks)
    )
    rows, starts = np.unique(docs[first], return_index=True)
    _, query_starts = np.unique(query_of(rows, clicks.offsets), return_index=True)
    return Seen(
        n_ranks,
        np.append(starts, len(first)).astype(np.int64),
        ranks[first],
        impressions,
        clicked,
        rows,
        np.append(query_starts, len(rows)).astype(np.int64),
    )


# Logs that cannot tell: ranks that no clicked document connects, and ranks without comparable clicks.


def connected_groups(table: Seen) -> list[list[int]]:
    """Ranks from 1 that documents of the table join, directly or through other ranks; smallest first."""
    labels = _cells.join_ranks(table.starts, table.ranks, table.n_ranks)
    return [(np.flatnonzero(labels == label) + 1).tolist() for label in np.unique(labels)]


def check_connected(table: Seen) -> None:
    """An error unless documents join all ranks with rank 1."""
    groups = connected_groups(table)
    if len(groups) == 1:
        return
    first = groups[0]
    fewer = f", or k={first[-1]}" if first == list(range(1, len(first) + 1)) and len(first) > 1 else ""
    raise CounterrankError(
        f"clicks: no clicked document was seen at ranks of two of the groups {written(groups)}, so this log cannot "
        "tell whether positions or documents set them apart; expected documents seen at several ranks: show some pages "
        "under uniform-insert or plackett-luce, or swap two ranks on some pages (replace-last alone, or a fixed order, "
        f"shows each document at one rank){fewer}"
    )


def check_clicked(pairs: FloatArray) -> None:
    """An error unless clicks lead from each rank to rank 1 and back: else the likeliest curve has a 0 or no bound.

    A step leads from k to l where a document seen at both was clicked at k.
    """
    reach = (pairs > 0.0) | np.eye(len(pairs), dtype=np.bool_)
    for _ in range(int(np.ceil(np.log2(len(pairs)))) + 1):
        reach = (reach.astype(np.float64) @ reach.astype(np.float64)) > 0.0
    lost = np.flatnonzero(~(reach[0] & reach[:, 0])) + 1
    if len(lost):
        last = int(lost[0]) - 1
        fewer = f"more sessions, or k={last}" if last > 1 else "more sessions"
        raise CounterrankError(
            f"clicks: too few at rank{'s' if len(lost) > 1 else ''} {', '.join(map(str, lost))}, or at rank 1 on the "
            f"same documents, to compare the two (no chain of clicks leads there and back); expected {fewer}"
        )


def written(groups: list[list[int]]) -> str:
    """Groups of ranks in short: {1-3, 5}, {4}.

    >>> written([[1, 2, 3, 5], [4]])
    '{1-3, 5}, {4}'
    """
    texts = []
    for group in groups:
        runs = np.split(group, np.flatnonzero(np.diff(group) > 1) + 1)
        texts.append(", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs))
    return ", ".join(f"{{{text}}}" for text in texts)


# A fitted curve with what its intervals need: the sandwich of information and variance of scores.


TARGETS = ("queries", "these-queries")
_NORMAL = 10_000  # degrees of freedom that are as good as none


@dataclass(frozen=True, eq=False)
class Fit:
    """A curve, and the pieces of the covariance of its logarithm.

    The curve solves S(log theta) = 0, S being a sum over queries. To first order (Huber 1967)

        Cov(log theta) = I^-1 V I^-1,     I = -dS / d log theta,     V = Cov(S),     rank 1 being fixed

    Attributes:
        theta: relative to rank 1.
        information: I, (n_ranks, n_ranks).
        over_queries: sum over queries of their scores' outer products.
        over_clicks: V of binomial clicks in each cell, pages being as they were shown.
        said: how much each query has to say.
        iterations: how many steps it took.
    """

    theta: FloatArray
    information: FloatArray
    over_queries: FloatArray
    over_clicks: FloatArray
    said: FloatArray
    iterations: int = 0

    @property
    def effective_queries(self) -> float:
        """How many queries of equal weight would say as much: (sum said)^2 / sum said^2."""
        squares = float((self.said**2).sum())
        return float(self.said.sum()) ** 2 / squares if squares > 0.0 else 0.0

    def intervals(self, target: str, confidence: float) -> FloatArray:
        """theta * exp(+- t * standard error of log theta), (n_ranks, 2); t is Student's over queries."""
        effective = self.effective_queries
        if target == "queries" and effective < 2.0:
            raise CounterrankError(
                f"target='queries': the log speaks with the weight of {effective:.1f} queries, which tell nothing of "
                "others; expected 2 or more, or target='these-queries'"
            )
        bread = self._inverse_information()
        if target == "queries":
            filling, freedom = self.over_queries * effective / (effective - 1.0), int(effective) - 1
        else:
            filling, freedom = self.over_clicks, _NORMAL
        spread = np.sqrt(np.maximum(np.diag(bread @ filling[1:, 1:] @ bread), 0.0))
        reach = student_quantile(confidence, freedom) * np.append(0.0, spread)
        return np.stack([self.theta * np.exp(-reach), self.theta * np.exp(reach)], axis=1)

    def _inverse_information(self) -> FloatArray:
        try:
            return np.asarray(np.linalg.inv(self.information[1:, 1:]), np.float64)
        except np.linalg.LinAlgError:  # of EM, where the documents compared were clicked whenever they were shown
            raise CounterrankError(
                "clicks: too few impressions without a click to tell how far the curve may be off; expected more "
                "sessions, or method 'all-pairs'"
            ) from None


# AllPairs: intervention harvesting from documents that were shown at several ranks.
#
# Under the position-based model P(click | document d, rank k) = theta_k gamma_d. For a pair of ranks k, l take the
# documents shown at both (the interventional set of Agarwal et al., WSDM 2019), and weight the clicks so that both
# ranks have the same exposure h = n_k n_l / (n_k + n_l) of each document, n being its impressions and c its clicks:
#
#     A_kl = sum_d h_d c_dk / n_dk = sum_d c_dk n_dl / (n_dk + n_dl)         E[A_kl] = theta_k sum_d h_d gamma_d
#
# so that A_kl / A_lk estimates theta_k / theta_l whatever the relevances. (It is the risk ratio of Mantel and Haenszel
# with a stratum for each document, which needs no stratum to be large.) All pairs are combined by the likelihood of a
# click falling on k rather than on l at equal exposure, theta_k / (theta_k + theta_l), a Bradley-Terry model:
#
#     maximise  sum_{k != l} A_kl log(theta_k / (theta_k + theta_l))         with theta_1 = 1
#
# It is concave in log theta, with one maximum where clicks lead from every rank to every other. Its score,
#
#     S_k = sum_l [A_kl theta_l - A_lk theta_k] / (theta_k + theta_l)
#
# has expectation 0 at the true curve for any numbers of impressions, even with few per document.


_STEPS = 200
_CLOSE = 1e-12


def all_pairs(table: Seen) -> Fit:
    """The curve relative to rank 1, and what its intervals need."""
    pairs = _all_pairs.pair_clicks(*table.cells(), table.n_ranks)
    theta = np.exp(bradley_terry(pairs))
    over_queries, over_clicks, said = _all_pairs.pair_scores(table.query_starts, *table.cells(), theta)
    return Fit(theta, _information(pairs, theta), over_queries, over_clicks, said)


def bradley_terry(wins: FloatArray) -> FloatArray:
    """log theta of each rank, 0 for the first: the maximum of sum A_kl log(theta_k / (theta_k + theta_l)), by Newton.

    >>> np.exp(bradley_terry(np.array([[0.0, 6.0], [3.0, 0.0]]))).round(12).tolist()
    [1.0, 0.5]
    """
    beta = np.zeros(len(wins))
    value = _likelihood(wins, beta)
    for _ in range(_STEPS):
        theta = np.exp(beta)
        score = (wins - (wins + wins.T) * _share(theta)).sum(axis=1)
        step = np.zeros(len(wins))
        step[1:] = np.linalg.solve(_information(wins, theta)[1:, 1:], score[1:])
        size = 1.0
        least = value - 1e-12 * abs(value)  # below it rounding alone decides
        while (new := _likelihood(wins, beta + size * step)) < least and size > 1e-10:
            size /= 2.0
        beta, value = beta + size * step, new
        if np.abs(step).max() < _CLOSE:
            break
    return beta


def _share(theta: FloatArray) -> FloatArray:
    share: FloatArray = theta[:, None] / (theta[:, None] + theta[None, :])
    np.fill_diagonal(share, 0.0)
    return share


def _likelihood(wins: FloatArray, beta: FloatArray) -> float:
    return -float((wins * np.logaddexp(0.0, beta[None, :] - beta[:, None])).sum())


def _information(wins: FloatArray, theta: FloatArray) -> FloatArray:
    """Minus the second derivative for log theta: -(A_kl + A_lk) theta_k theta_l / (theta_k + theta_l)^2 for k != l."""
    share = _share(theta)
    between = (wins + wins.T) * share * share.T
    information: FloatArray = np.diag(between.sum(axis=1)) - between
    return information


# EM for the position-based model with one free relevance for each query and document.
#
#     P(click | document d, rank k) = theta_k gamma_d
#
#     E:  of an impression without a click  P(examined) = theta (1 - gamma) / (1 - theta gamma)
#                                           P(relevant) = gamma (1 - theta) / (1 - theta gamma);  of a click both are 1
#     M:  theta_k = mean of P(examined) over the impressions at rank k
#         gamma_d = mean of P(relevant) over the impressions of d
#
# (Wang et al., WSDM 2018, section 4.1; their regression in place of gamma is in `regression`.) Impressions of a cell
# share their posterior, so a step costs one pass over cells. The log-likelihood is concave in (log theta, log gamma),
# so all its maxima are one, and steps may be extrapolated (SQUAREM, Varadhan and Roland, 2008) as long as it rises.


MOST_STEPS = 15_000
_EM_CLOSE = 1e-7  # a curve that moves no more than this in a step has its first four digits

Step = Callable[[FloatArray], tuple[FloatArray, float]]


def em(table: Seen) -> Fit:
    """The curve relative to rank 1, and what its intervals need."""
    n_ranks = table.n_ranks

    def step(logs: FloatArray) -> tuple[FloatArray, float]:
        state, new = np.exp(logs), np.empty_like(logs)
        new[:n_ranks], value = _em.em_step(*table.cells(), state[:n_ranks], state[n_ranks:], new[n_ranks:])
        return np.log(new), value

    logs, steps = accelerate(step, np.full(n_ranks + table.n_docs, np.log(0.5)), n_ranks, bounded=None)
    theta, gamma = np.exp(logs[:n_ranks]), np.exp(logs[n_ranks:])
    information, over_queries, said = _em.em_scores(table.query_starts, *table.cells(), theta, gamma)
    # of a likelihood that is right the scores vary as much as the information says
    return Fit(theta / theta[0], information, over_queries, information, said, steps)


def accelerate(step: Step, state: FloatArray, n_ranks: int, bounded: int | None) -> tuple[FloatArray, int]:
    """Where `step` leads to, and the number of steps; `step` returns the next state and the value of the present one.

    The first `n_ranks` entries are log theta; the first `bounded` (None: all) are at most 0, logarithms of
    probabilities. Two steps give a direction and how fast it fades; the extrapolated point is kept if its value is no
    lower than that of the second step's beginning.
    """
    for count in range(0, MOST_STEPS, 3):
        first, _ = step(state)
        second, value = step(first)
        if np.abs(second[:n_ranks] - first[:n_ranks]).max() < _EM_CLOSE:
            return second, count + 2
        r, v = first - state, second - 2.0 * first + state
        bend = float(np.sqrt(v @ v))
        length = float(np.sqrt(r @ r)) / bend if bend > 0.0 else 1.0
        if length <= 1.0:
            state = second
            continue
        jump = state + 2.0 * length * r + length**2 * v
        jump[:bounded] = np.minimum(jump[:bounded], 0.0)
        landed, reached = step(jump)
        state = landed if reached >= value else second
    return state, MOST_STEPS


# What speaks against an estimated curve, in words. The limits were measured, see docs/position-bias.md.


# impressions from which a document's free relevance is known well enough, and how many clicks may lie on others
WELL_SHOWN = 50
MOST_RARE = 0.05
# the half width of an interval, relative to the value
WIDE = 0.1


def doubts(fit: Fit, table: Seen, method: str, intervals: FloatArray, reference: Fit, target: str) -> tuple[str, ...]:
    """One sentence for each; `reference` is the fit of all pairs."""
    found = [
        *_above_one(fit),
        *(_rare(table) if method == "em" else ()),
        *(_apart(fit, reference, target) if method != "all-pairs" else ()),
        *_wide(fit, intervals),
    ]
    if fit.iterations >= MOST_STEPS:
        found.append(f"EM still moved after {MOST_STEPS:,} steps, so the values are not the likeliest ones")
    if method == "regression-em" and (fit.theta[1:] >= 1.0 - 1e-6).any():
        found.append(
            "rank 1 is not the most examined one, which regression-EM takes for granted; compare with 'all-pairs'"
        )
    return tuple(found)


def rare_share(table: Seen) -> float:
    """The share of the compared clicks on documents shown fewer than `WELL_SHOWN` times."""
    rare = table.by_document(table.impressions) < WELL_SHOWN
    return float(table.by_document(table.clicks)[rare].sum() / table.clicks.sum())


def _rare(table: Seen) -> list[str]:
    share = rare_share(table)
    if share <= MOST_RARE:
        return []
    return [
        f"{share:.0%} of the clicks compared are on documents shown fewer than {WELL_SHOWN} times, too few for a free "
        "relevance each: EM is then off, by 10 % where nearly all are, and its intervals do not show it; use "
        "'all-pairs', or 'regression-em' where features explain the relevance"
    ]


def _apart(fit: Fit, reference: Fit, target: str) -> list[str]:
    """Outside intervals of all pairs that hold for all ranks together (Bonferroni): one sound curve in 20 at most."""
    low, high = reference.intervals(target, 1.0 - 0.05 / (len(fit.theta) - 1)).T
    off = np.where((fit.theta < low) | (fit.theta > high), np.abs(np.log(fit.theta / reference.theta)), 0.0)
    worst = int(np.argmax(off))
    if off[worst] <= 1e-6:
        return []
    return [
        f"{fit.theta[worst]:.3g} at rank {worst + 1}, where all pairs say {reference.theta[worst]:.3g} "
        f"({low[worst]:.3g} to {high[worst]:.3g}): what this method takes for relevance does not fit the log, and its "
        "intervals do not show it; trust 'all-pairs'"
    ]


def _above_one(fit: Fit) -> list[str]:
    above = np.flatnonzero(fit.theta > 1.0 + 1e-9)
    if not len(above):
        return []
    shown = ", ".join(f"{fit.theta[rank]:.3g} at rank {rank + 1}" for rank in above[:3])
    return [
        f"{shown}{' and others' if len(above) > 3 else ''}: more than at rank 1; `examination` holds 1 there, `values` "
        "what was estimated"
    ]


def _wide(fit: Fit, intervals: FloatArray) -> list[str]:
    half = (intervals[:, 1] - intervals[:, 0]) / (2.0 * fit.theta)
    if half.max() <= WIDE:
        return []
    worst = int(np.argmax(half))
    return [
        f"too few clicks for a narrow interval: from {intervals[worst, 0]:.3g} to {intervals[worst, 1]:.3g} at rank "
        f"{worst + 1}; log more sessions or estimate fewer ranks (k=)"
    ]


def few_queries(fit: Fit) -> str:
    """What intervals over these very queries are worth."""
    return (
        f"the log speaks with the weight of {fit.effective_queries:.1f} queries, too few for intervals over queries: "
        "these hold for new clicks on these very queries, if clicks on a page are independent"
    )


# Regression-EM: the position-based model whose relevance is a logistic regression on the documents' features.
#
#     P(click | document d, rank k) = theta_k gamma_d,     gamma_d = 1 / (1 + exp(-w . x_d)),     theta_1 = 1
#
#     E:  as in `em`
#     M:  theta_k = mean of P(examined) over the impressions at rank k > 1
#         w      -> w + (X' N X / 4 + ridge)^-1 (X' N (y - gamma) - ridge w)
#
# with y_d the mean of P(relevant) over the impressions of d and N_d their number: one step up the regression's
# likelihood, whose second derivative is nowhere larger (Bohning and Lindsay, 1988), so that the likelihood of the
# clicks rises with every step (generalised EM). Wang et al. (WSDM 2018, section 4.2) fit boosted trees instead.
# Documents share what is learned, so few impressions each do; but where the features do not explain the relevance,
# the curve is biased. With theta_1 = 1, gamma is the chance of a click at rank 1; without it the logistic function
# alone would set the scale.


_RIDGE = 1.0  # as much as four impressions say; keeps features that repeat each other from running away
_MOST_ROUNDS = 1.0 - 1e-6


def regression_em(table: Seen, data: RankingData) -> Fit:
    """The curve relative to rank 1, and what its intervals need; holds the features of seen documents as float64."""
    x = _features(table, data)
    n_ranks = table.n_ranks
    shown = table.by_document(table.impressions)
    ridge = _RIDGE * np.eye(x.shape[1])
    bound = np.linalg.inv((x * shown[:, None]).T @ x / 4.0 + ridge)

    def step(state: FloatArray) -> tuple[FloatArray, float]:
        w = state[n_ranks:]
        gamma, relevant = _logistic(x @ w), np.empty(table.n_docs)
        theta, value = _em.em_step(*table.cells(), np.exp(state[:n_ranks]), gamma, relevant)
        theta[0] = 1.0
        rise = x.T @ (shown * (relevant - gamma)) - _RIDGE * w
        return np.concatenate((np.log(theta), w + bound @ rise)), value - 0.5 * _RIDGE * float(w @ w)

    start = np.zeros(n_ranks + x.shape[1])
    start[1:n_ranks] = np.log(0.5)
    state, steps = accelerate(step, start, n_ranks, bounded=n_ranks)
    return _fit(table, x, np.exp(state[:n_ranks]), _logistic(x @ state[n_ranks:]), ridge, steps)


def _features(table: Seen, data: RankingData) -> FloatArray:
    """Features scaled to 0..1 within each query, as linear rankers take them, and a 1 for the constant."""
    scaled = data.normalized().features[table.docs].astype(np.float64)
    return np.concatenate((scaled, np.ones((table.n_docs, 1))), axis=1)


def _logistic(values: FloatArray) -> FloatArray:
    result: FloatArray = np.exp(-np.logaddexp(0.0, -values))
    return np.clip(result, 1e-12, 1.0 - 1e-12)


def _fit(table: Seen, x: FloatArray, theta: FloatArray, gamma: FloatArray, ridge: FloatArray, steps: int) -> Fit:
    """Scores and information of log theta, those of w profiled out (the expected information, by cells)."""
    n_ranks, n_queries = table.n_ranks, table.n_queries
    doc = np.repeat(np.arange(table.n_docs), np.diff(table.starts))
    query = np.repeat(np.arange(n_queries), np.diff(table.query_starts))
    p = np.minimum(theta[table.ranks] * gamma[doc], _MOST_ROUNDS)
    surprise = (table.clicks - table.impressions * p) / (1.0 - p)
    weight = table.impressions * p / (1.0 - p)
    flat = query[doc] * n_ranks + table.ranks
    of_ranks = np.bincount(flat, surprise, n_queries * n_ranks).reshape(n_queries, n_ranks)
    slope = 1.0 - gamma
    of_w = np.add.reduceat(x * (slope * table.by_document(surprise))[:, None], table.query_starts[:-1])
    both = np.zeros((n_ranks, x.shape[1]))
    for rank in range(n_ranks):
        here = table.ranks == rank
        both[rank] = (weight[here] * slope[doc[here]]) @ x[doc[here]]
    inner = (x * (slope**2 * table.by_document(weight))[:, None]).T @ x + ridge
    through = np.linalg.solve(inner, both.T).T
    information = np.diag(np.bincount(table.ranks, weight, n_ranks)) - through @ both.T
    scores = of_ranks - of_w @ through.T
    said: FloatArray = np.asarray(np.bincount(query[doc], weight, n_queries), np.float64)
    return Fit(theta, information, scores.T @ scores, information, said, steps)


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
