"""Position bias: P(examined | rank) estimated from a click log, with confidence intervals.

All methods assume the position-based model P(click | document d, rank k) = theta_k gamma_d and estimate
theta_k / theta_1 from documents that were shown at several ranks. `estimate_position_bias` checks that the log can
identify it, fits the curve by one of three methods (`all_pairs`, `em`, `regression_em`), and warns where it may be
wrong. docs/concepts/position-bias.md says when to use which; the kernels are in `position_bias_kernels`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from counterrank.clicks import position_bias_kernels as kernels
from counterrank.clicks.click_cards import estimated_card, estimated_chart, estimated_summary
from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.examination import Examination, UserModel
from counterrank.clicks.rank_table import (
    RankTable,
    check_connected,
    connected_groups,
    interventional_set,
    last_rank,
    rank_table,
)
from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.errors import CounterrankError, ExaminationWarning, warn_caller
from counterrank.common.files import PathLike, atomic_file
from counterrank.common.notebook import Shown, Summary
from counterrank.common.numerics import student_quantile
from counterrank.data import RankingData

if TYPE_CHECKING:
    pass

MANY_QUERIES = 10.0  # effective queries from which intervals over queries hold, see docs/concepts/position-bias.md
MOST_STEPS = 15_000  # of EM
WELL_SHOWN = 50  # impressions from which a document's free relevance is known well enough for EM
MOST_RARE = 0.05  # share of clicks that may lie on documents with fewer impressions
WIDE = 0.1  # half width of an interval, relative to the value
FORMAT, VERSION = "counterrank-examination", 1
_NORMAL = 10_000  # degrees of freedom from which Student's t is as good as normal
_NEWTON_STEPS, _NEWTON_CLOSE = 200, 1e-12
_EM_CLOSE = 1e-7  # a curve that moves no more than this in a step has its first four digits
_RIDGE = 1.0  # as much as four impressions say; keeps features that repeat each other from running away
_LARGEST_PROBABILITY = 1.0 - 1e-6

Step = Callable[[FloatArray], tuple[FloatArray, float]]


@dataclass(frozen=True, eq=False)
class EstimatedExamination(UserModel, Shown):
    """P(examined | rank) relative to rank 1, estimated from a log; accepted wherever an examination curve is.

    Attributes:
        values: theta_k / theta_1 for each rank, as estimated; noise, or users, may put one above 1.
        intervals: (n_ranks, 2), one for each rank by itself; those of rank 1 are 1 and 1.
        ranks: 1 to k.
        method: "all-pairs", "em" or "regression-em".
        target: the target population of the intervals: "queries" like these, or new clicks on "these-queries".
        confidence: the confidence level of each interval.
        n_sessions: the sessions of the log.
        n_queries: the queries used.
        n_documents: the query-document pairs used.
        n_clicks: the clicks on them.
        warnings: what speaks against trusting the values, a sentence each.
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
    def population(self) -> str:
        """The target population of the intervals; another name of `target`."""
        return self.target

    @property
    def examination(self) -> Examination:
        """The curve for training and evaluation: the values, capped at 1."""
        return Examination(np.clip(self.values, 0.0, 1.0))

    def ends(self) -> tuple[Examination | None, Examination | None]:
        """The curves of the lower and of the upper ends of the intervals; None for 0 at every rank."""
        low, high = np.clip(self.intervals, 0.0, 1.0).T
        return Examination(low) if low.any() else None, Examination(high) if high.any() else None

    def save(self, path: PathLike) -> None:
        """Write a JSON file, which `examination.load` and `--examination FILE` read."""
        content: dict[str, Any] = {"format": FORMAT, "version": VERSION}
        for name, value in ((own.name, getattr(self, own.name)) for own in fields(self)):
            content[name] = value.tolist() if isinstance(value, np.ndarray) else value
        with atomic_file(path) as temporary:
            temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    def __repr__(self) -> str:
        shown = ", ".join(f"{value:.3g}" for value in self.values)
        return (
            f"EstimatedExamination({self.method}: {shown}; {self.n_clicks:,} clicks on {self.n_documents:,} documents "
            f"of {self.n_queries:,} queries)"
        )

    def summary(self) -> Summary:
        """Values and confidence intervals by rank, as a dict that prints as a table."""
        return estimated_summary(self)

    def plot(self) -> Any:
        """The curve with its confidence intervals, an altair chart."""
        return estimated_chart(self)

    def _repr_html_(self) -> str:
        return estimated_card(self)


def estimate_position_bias(
    clicks: ClickCounts, method: str, k: int | None, data: RankingData | None, population: str | None, level: float
) -> EstimatedExamination:
    """The curve of `examination.estimate(clicks, model="position-based")`; see there for the arguments."""
    table = comparable(clicks, last_rank(clicks, k))
    used = table if data is None else rank_table(clicks, table.n_ranks)
    reference = all_pairs(table)
    if method == "all-pairs":
        fit = reference
    else:
        fit = em(table) if data is None else regression_em(used, data)
    chosen = population or ("queries" if fit.effective_queries >= MANY_QUERIES else "these-queries")
    intervals = fit.intervals(chosen, level)
    found = _warnings(fit, used, method, intervals, reference, chosen)
    if population is None and chosen == "these-queries":
        found += (
            f"the log holds {fit.effective_queries:.1f} effective queries, too few for intervals over queries: "
            "these hold for new clicks on these very queries, if clicks on a page are independent",
        )
    for text in found:
        warn_caller(f"examination.estimate: {text}", ExaminationWarning)
    return EstimatedExamination(
        values=fit.theta,
        intervals=intervals,
        ranks=np.arange(1, table.n_ranks + 1),
        method=method,
        target=chosen,
        confidence=level,
        n_sessions=clicks.n_sessions,
        n_queries=used.n_queries,
        n_documents=used.n_docs,
        n_clicks=int(used.clicks.sum()),
        warnings=found,
    )


def comparable(clicks: ClickCounts, last: int) -> RankTable:
    """The documents shown at several ranks up to the last one; an error unless they compare all ranks with rank 1."""
    table = interventional_set(clicks, last)
    check_connected(table)
    check_clicked(kernels.pair_clicks(*table.cells(), table.n_ranks))
    return table


def connected_ranks(clicks: ClickCounts) -> list[list[int]]:
    """Groups of ranks connected by documents shown at several ranks; ranks and groups are in increasing order.

    A document connects the ranks it was shown at if it was clicked at one of them; see `interventional_set`.
    `estimate` needs all its ranks in one group.

    >>> import counterrank as cr
    >>> from counterrank import examination, policies, simulation
    >>> data = cr.RankingData(np.zeros((4, 1)), [0, 4], labels=[4, 4, 4, 4])
    >>> shown = policies.ReplaceLast(k=3), examination.inverse_rank(k=3)  # each document at one rank
    >>> connected_ranks(simulation.simulate(data, [4.0, 3.0, 2.0, 1.0], *shown, sessions=1000))
    [[1], [2], [3]]
    """
    check_counts(clicks)
    shown = np.unique(clicks.ranks[clicks.impressions > 0])
    if not len(shown):
        return []
    groups = connected_groups(interventional_set(clicks, int(shown[-1])))
    return [group for group in groups if group[0] in shown]  # a rank that was never shown is alone


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
        query_weights: the information in each query.
        iterations: how many steps it took.
    """

    theta: FloatArray
    information: FloatArray
    over_queries: FloatArray
    over_clicks: FloatArray
    query_weights: FloatArray
    iterations: int = 0

    @property
    def effective_queries(self) -> float:
        """How many queries of equal weight hold as much information: (sum w)^2 / sum w^2."""
        squares = float((self.query_weights**2).sum())
        return float(self.query_weights.sum()) ** 2 / squares if squares > 0.0 else 0.0

    def intervals(self, target: str, confidence: float) -> FloatArray:
        """theta * exp(+- t * standard error of log theta), (n_ranks, 2); t is Student's over queries."""
        covariance, freedom = self.covariance(target)
        spread = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        reach = student_quantile(confidence, freedom) * np.append(0.0, spread)
        return np.stack([self.theta * np.exp(-reach), self.theta * np.exp(reach)], axis=1)

    def covariance(self, target: str) -> tuple[FloatArray, int]:
        """The covariance of log theta from rank 2 on, and its degrees of freedom."""
        effective = self.effective_queries
        if target == "queries" and effective < 2.0:
            raise CounterrankError(
                f"population='queries': the log holds {effective:.1f} effective queries, which say nothing about "
                "others; expected 2 or more, or population='these-queries'"
            )
        bread = self._inverse_information()
        if target == "queries":
            filling, freedom = self.over_queries * effective / (effective - 1.0), int(effective) - 1
        else:
            filling, freedom = self.over_clicks, _NORMAL
        return np.asarray(bread @ filling[1:, 1:] @ bread), freedom

    def _inverse_information(self) -> FloatArray:
        try:
            return np.asarray(np.linalg.inv(self.information[1:, 1:]), np.float64)
        except np.linalg.LinAlgError:  # of EM, where the documents compared were clicked whenever they were shown
            raise CounterrankError(
                "clicks: too few impressions without a click for confidence intervals; expected more "
                "sessions, or method 'all-pairs'"
            ) from None


_PRIOR_ETA, _PRIOR_RANK = 0.3, 0.15  # standard deviations: of eta around 1, and of log theta around rank ** -eta


def posterior_curve(fit: Fit, target: str) -> FloatArray:
    """theta of few clicks drawn to 1 / rank: the posterior mean of log theta under a prior between users.

        log theta_k ~ N(-log k, (0.3 log k)^2 + 0.15^2),   covariance of ranks k and l: 0.3^2 log k log l
        posterior = prior mean + P (P + V)^-1 (log theta fitted - prior mean)

    P is the covariance of the prior, V that of the fit, for ranks from 2 on. Published curves lie well within the
    prior. With many sessions V and the influence of the prior vanish. For training; estimates take the fit as it is.

    >>> vague, sure = (Fit(np.array([1.0, 0.2]), *np.array([np.eye(2) * n] * 3), np.ones(9)) for n in (0.1, 1e6))
    >>> [posterior_curve(fit, "these-queries").round(2).tolist() for fit in (vague, sure)]
    [[1.0, 0.5], [1.0, 0.2]]
    """
    covariance, _ = fit.covariance(target)
    logs = np.log(np.arange(2.0, len(fit.theta) + 1.0))
    prior = _PRIOR_ETA**2 * np.outer(logs, logs) + _PRIOR_RANK**2 * np.eye(len(logs))
    moved = prior @ np.linalg.solve(prior + covariance, np.log(fit.theta[1:]) + logs)
    return np.asarray(np.exp(np.append(0.0, moved - logs)))


def all_pairs(table: RankTable) -> Fit:
    """AllPairs: intervention harvesting from documents that were shown at several ranks (Agarwal et al., WSDM 2019).

    For a pair of ranks k, l take the documents shown at both, and weight the clicks so that both ranks have the same
    exposure h = n_k n_l / (n_k + n_l) of each document, n being its impressions and c its clicks:

        A_kl = sum_d h_d c_dk / n_dk = sum_d c_dk n_dl / (n_dk + n_dl)         E[A_kl] = theta_k sum_d h_d gamma_d

    so that A_kl / A_lk estimates theta_k / theta_l whatever the relevances. (It is the risk ratio of Mantel and
    Haenszel with a stratum for each document, which needs no stratum to be large.) All pairs are combined by the
    likelihood of a click falling on k rather than on l at equal exposure, a Bradley-Terry model:

        maximise  sum_{k != l} A_kl log(theta_k / (theta_k + theta_l))         with theta_1 = 1

    It is concave in log theta, with one maximum where clicks lead from every rank to every other. Its score,

        S_k = sum_l [A_kl theta_l - A_lk theta_k] / (theta_k + theta_l)

    has expectation 0 at the true curve for any numbers of impressions, even with few per document.
    """
    pairs = kernels.pair_clicks(*table.cells(), table.n_ranks)
    theta = np.exp(bradley_terry(pairs))
    over_queries, over_clicks, query_weights = kernels.pair_scores(table.query_starts, *table.cells(), theta)
    return Fit(theta, _information(pairs, theta), over_queries, over_clicks, query_weights)


def bradley_terry(wins: FloatArray) -> FloatArray:
    """log theta of each rank, 0 for the first: the maximum of sum A_kl log(theta_k / (theta_k + theta_l)), by Newton.

    >>> np.exp(bradley_terry(np.array([[0.0, 6.0], [3.0, 0.0]]))).round(12).tolist()
    [1.0, 0.5]
    """
    beta = np.zeros(len(wins))
    value = _likelihood(wins, beta)
    for _ in range(_NEWTON_STEPS):
        theta = np.exp(beta)
        score = (wins - (wins + wins.T) * _share(theta)).sum(axis=1)
        step = np.zeros(len(wins))
        step[1:] = np.linalg.solve(_information(wins, theta)[1:, 1:], score[1:])
        size = 1.0
        least = value - 1e-12 * abs(value)  # below it rounding alone decides
        while (new := _likelihood(wins, beta + size * step)) < least and size > 1e-10:
            size /= 2.0
        beta, value = beta + size * step, new
        if np.abs(step).max() < _NEWTON_CLOSE:
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


def em(table: RankTable) -> Fit:
    """EM for the position-based model with one free relevance for each document (Wang et al., WSDM 2018, section 4.1).

        E:  of an impression without a click  P(examined) = theta (1 - gamma) / (1 - theta gamma)
                                              P(relevant) = gamma (1 - theta) / (1 - theta gamma)
            and of a click both are 1
        M:  theta_k = mean of P(examined) over the impressions at rank k
            gamma_d = mean of P(relevant) over the impressions of d

    Impressions of a cell share their posterior, so a step costs one pass over cells. The log-likelihood is concave in
    (log theta, log gamma), so all its maxima are one, and steps may be extrapolated as long as it rises.
    """
    n_ranks = table.n_ranks

    def step(logs: FloatArray) -> tuple[FloatArray, float]:
        state, new = np.exp(logs), np.empty_like(logs)
        new[:n_ranks], value = kernels.em_step(*table.cells(), state[:n_ranks], state[n_ranks:], new[n_ranks:])
        return np.log(new), value

    logs, steps = accelerate(step, np.full(n_ranks + table.n_docs, np.log(0.5)), n_ranks, bounded=None)
    theta, gamma = np.exp(logs[:n_ranks]), np.exp(logs[n_ranks:])
    information, over_queries, query_weights = kernels.em_scores(table.query_starts, *table.cells(), theta, gamma)
    # of a likelihood that is right the scores vary as much as the information says
    return Fit(theta / theta[0], information, over_queries, information, query_weights, steps)


def regression_em(table: RankTable, data: RankingData) -> Fit:
    """Regression-EM: the relevance is a logistic regression on the features (Wang et al., WSDM 2018, section 4.2).

        gamma_d = 1 / (1 + exp(-w . x_d)),     theta_1 = 1

        E:  as in `em`
        M:  theta_k = mean of P(examined) over the impressions at rank k > 1
            w      -> w + (X' N X / 4 + ridge)^-1 (X' N (y - gamma) - ridge w)

    with y_d the mean of P(relevant) over the impressions of d and N_d their number: one step up the regression's
    likelihood, whose second derivative is nowhere larger (Bohning and Lindsay, 1988), so that the likelihood of the
    clicks rises with every step (generalised EM). Wang et al. fit boosted trees instead. Documents share what is
    learned, so few impressions each do; but where the features do not explain the relevance, the curve is biased. With
    theta_1 = 1, gamma is the chance of a click at rank 1; without it the logistic function alone would set the scale.
    Holds the features of the shown documents as float64.
    """
    x = _features(table, data)
    n_ranks = table.n_ranks
    shown = table.by_document(table.impressions)
    ridge = _RIDGE * np.eye(x.shape[1])
    bound = np.linalg.inv((x * shown[:, None]).T @ x / 4.0 + ridge)

    def step(state: FloatArray) -> tuple[FloatArray, float]:
        w = state[n_ranks:]
        gamma, relevant = _logistic(x @ w), np.empty(table.n_docs)
        theta, value = kernels.em_step(*table.cells(), np.exp(state[:n_ranks]), gamma, relevant)
        theta[0] = 1.0
        rise = x.T @ (shown * (relevant - gamma)) - _RIDGE * w
        return np.concatenate((np.log(theta), w + bound @ rise)), value - 0.5 * _RIDGE * float(w @ w)

    start = np.zeros(n_ranks + x.shape[1])
    start[1:n_ranks] = np.log(0.5)
    state, steps = accelerate(step, start, n_ranks, bounded=n_ranks)
    return _fit(table, x, np.exp(state[:n_ranks]), _logistic(x @ state[n_ranks:]), ridge, steps)


def _features(table: RankTable, data: RankingData) -> FloatArray:
    """Features scaled to 0..1 within each query, as linear rankers take them, and a 1 for the constant."""
    scaled = data.normalized().features[table.docs].astype(np.float64)
    return np.concatenate((scaled, np.ones((table.n_docs, 1))), axis=1)


def _logistic(values: FloatArray) -> FloatArray:
    result: FloatArray = np.exp(-np.logaddexp(0.0, -values))
    return np.clip(result, 1e-12, 1.0 - 1e-12)


def _fit(table: RankTable, x: FloatArray, theta: FloatArray, gamma: FloatArray, ridge: FloatArray, steps: int) -> Fit:
    """Scores and information of log theta, those of w profiled out (the expected information, by cells)."""
    n_ranks, n_queries = table.n_ranks, table.n_queries
    doc = np.repeat(np.arange(table.n_docs), np.diff(table.starts))
    query = np.repeat(np.arange(n_queries), np.diff(table.query_starts))
    p = np.minimum(theta[table.ranks] * gamma[doc], _LARGEST_PROBABILITY)
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
    query_weights: FloatArray = np.asarray(np.bincount(query[doc], weight, n_queries), np.float64)
    return Fit(theta, information, scores.T @ scores, information, query_weights, steps)


def accelerate(step: Step, state: FloatArray, n_ranks: int, bounded: int | None) -> tuple[FloatArray, int]:
    """The fixed point of `step` and the number of steps, by SQUAREM (Varadhan and Roland, 2008).

    `step` returns the next state and the value of the present one.

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


def _warnings(
    fit: Fit, table: RankTable, method: str, intervals: FloatArray, reference: Fit, target: str
) -> tuple[str, ...]:
    """A sentence for each thing that speaks against a curve; `reference` is the fit of all pairs."""
    found = [
        _above_one(fit),
        _sparse(table) if method == "em" else "",
        _disagreement(fit, reference, target) if method != "all-pairs" else "",
        _wide(fit, intervals),
    ]
    if fit.iterations >= MOST_STEPS:
        found.append(f"EM still moved after {MOST_STEPS:,} steps, so the values are not the likeliest ones")
    if method == "regression-em" and (fit.theta[1:] >= 1.0 - 1e-6).any():
        found.append(
            "rank 1 is not the most examined one, which regression-EM takes for granted; compare with 'all-pairs'"
        )
    return tuple(filter(None, found))


def sparse_share(table: RankTable) -> float:
    """The share of the compared clicks on documents shown fewer than `WELL_SHOWN` times."""
    rare = table.by_document(table.impressions) < WELL_SHOWN
    return float(table.by_document(table.clicks)[rare].sum() / table.clicks.sum())


def _sparse(table: RankTable) -> str:
    share = sparse_share(table)
    if share <= MOST_RARE:
        return ""
    return (
        f"{share:.0%} of the clicks compared are on documents shown fewer than {WELL_SHOWN} times, too few for a free "
        "relevance each: EM is then off, by 10 % where nearly all are, and its intervals do not show it; use "
        "'all-pairs', or 'regression-em' where features explain the relevance"
    )


def _disagreement(fit: Fit, reference: Fit, target: str) -> str:
    """Whether the curve leaves the simultaneous 95 % intervals of all pairs (Bonferroni)."""
    low, high = reference.intervals(target, 1.0 - 0.05 / (len(fit.theta) - 1)).T
    off = np.where((fit.theta < low) | (fit.theta > high), np.abs(np.log(fit.theta / reference.theta)), 0.0)
    worst = int(np.argmax(off))
    if off[worst] <= 1e-6:
        return ""
    return (
        f"{fit.theta[worst]:.3g} at rank {worst + 1}, where all pairs say {reference.theta[worst]:.3g} "
        f"({low[worst]:.3g} to {high[worst]:.3g}): what this method takes for relevance does not fit the log, and its "
        "intervals do not show it; trust 'all-pairs'"
    )


def _above_one(fit: Fit) -> str:
    above = np.flatnonzero(fit.theta > 1.0 + 1e-9)
    if not len(above):
        return ""
    shown = ", ".join(f"{fit.theta[rank]:.3g} at rank {rank + 1}" for rank in above[:3])
    return (
        f"{shown}{' and others' if len(above) > 3 else ''}: more than at rank 1; `examination` holds 1 there, `values` "
        "what was estimated"
    )


def _wide(fit: Fit, intervals: FloatArray) -> str:
    half = (intervals[:, 1] - intervals[:, 0]) / (2.0 * fit.theta)
    if half.max() <= WIDE:
        return ""
    worst = int(np.argmax(half))
    return (
        f"too few clicks for a narrow interval: from {intervals[worst, 0]:.3g} to {intervals[worst, 1]:.3g} at rank "
        f"{worst + 1}; log more sessions or estimate fewer ranks (k=)"
    )
