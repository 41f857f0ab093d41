"""Planning of logging: the expected precision of estimates under a policy before any page is shown, and its cost.

`plan_logging` computes expectations and variances from the policy, the examination curve and a click model;
`advise_logging` turns plans into sentences: which policy, how many sessions, at what price.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.examination import Examination, check_examination
from counterrank.clicks.policies.pages import PageSource
from counterrank.clicks.policies.propensity import exact_propensity, rank_probabilities
from counterrank.clicks.policies.standard import Deterministic, as_policy
from counterrank.clicks.users import ClickModel, check_amount, check_frequencies, simulated
from counterrank.common.checks import check_number
from counterrank.common.deprecation import renamed_argument
from counterrank.common.errors import CounterrankError, brief
from counterrank.common.notebook import Shown, Summary
from counterrank.common.ranking import longest_query
from counterrank.data import RankingData
from counterrank.data.ids import query_of_rows
from counterrank.data.labels import relevant_documents
from counterrank.data.scores import document_scores
from counterrank.evaluation.confidence_intervals import FEWEST_EXPECTED_CLICKS, IntervalSettings
from counterrank.evaluation.evaluation_cards import plan_text, plans_card, plans_plot, plans_summary
from counterrank.evaluation.metrics import parse_metric, rank_values
from counterrank.evaluation.planned_users import PlannedUsers, planned_users
from counterrank.evaluation.planning import ClickGuess, ExpectedEstimate, variance_parts, whole_sessions
from counterrank.evaluation.session_moments import session_moments
from counterrank.evaluation.weighted_clicks import document_values


@dataclass(frozen=True)
class ExpectedLog:
    """Expectations after a number of sessions."""

    sessions: int
    clicks: float  # on all documents
    effective_sample_size: float  # (sum of the importance weights of clicks)^2 / sum of their squares
    ips_width: float | None  # of the confidence interval of the metric per session; None if nothing is clicked
    self_normalized_width: float | None  # of that of the self-normalised metric
    equal_clicks: float  # the number of equally weighted clicks whose sum would be as skewed; below 10 is doubtful
    seen: float  # the share of candidates that is examined at least once

    @property
    def is_doubtful(self) -> bool:
        """Whether the interval would depend on a few rare clicks, with less coverage than its confidence level."""
        return self.equal_clicks < FEWEST_EXPECTED_CLICKS


@dataclass(frozen=True, repr=False)
class LoggingPlan(Shown):
    """The expected estimates under one logging policy, and its cost to users.

    Attributes:
        policy: its name.
        metric: of the ranker to be evaluated and of the displayed pages.
        target: the target population of the intervals.
        confidence: the confidence level.
        clicks: of a session.
        effective_sample_size: of a session.
        ips: the metric per session.
        self_normalized: the metric per relevant document.
        covered: the share of candidates that can be examined at all.
        reached: the share of the estimand that lies on such candidates; below 1 the estimate is biased.
        displayed: the metric of the displayed pages by the labels, over queries with a relevant document; None without
            labels.
        price: the share of it that is lost against showing the top of the ranking; negative where pages get better.
        sampled_pages: pages sampled for each query for the covariance of its ranks; 0 where that is exact.
        expected: by number of sessions.
        users: how well the log will tell how users click, and how far trust bias misleads.
    """

    policy: str
    metric: str
    target: str
    confidence: float
    clicks: float
    effective_sample_size: float
    ips: ExpectedEstimate
    self_normalized: ExpectedEstimate
    covered: float
    reached: float
    displayed: float | None
    price: float | None
    sampled_pages: int
    expected: tuple[ExpectedLog, ...]
    users: PlannedUsers = field(default_factory=PlannedUsers)

    @property
    def population(self) -> str:
        """The target population of the intervals; another name of `target`."""
        return self.target

    @property
    def is_biased(self) -> bool:
        """Whether part of the estimand is on documents that can never be examined."""
        return self.reached < 1.0 - 1e-12

    def after(self, sessions: int, seen: float) -> ExpectedLog:
        """Expected results after some sessions; `seen` is the share of candidates examined at least once by then."""
        return ExpectedLog(
            sessions=sessions,
            clicks=sessions * self.clicks,
            effective_sample_size=sessions * self.effective_sample_size,
            ips_width=self.ips.width(sessions, self.confidence),
            self_normalized_width=self.self_normalized.width(sessions, self.confidence),
            equal_clicks=sessions * self.ips.equal_clicks,
            seen=seen,
        )

    def sessions_for_width(self, width: float) -> int | None:
        """The number of sessions that gives the interval of `ips` this width; None if more than 10**14 are needed.

        At least as many as its coverage needs. None, too, where the estimate is biased.
        """
        check_number(width, "width", above=0)
        return None if self.is_biased else self.ips.sessions_for(width, self.confidence)

    def sessions_for_effective(self, size: float) -> int | None:
        """The number of sessions that gives this effective sample size; None if more than 10**14 are needed."""
        check_number(size, "effective", above=0)
        return whole_sessions(size / self.effective_sample_size) if self.effective_sample_size > 0.0 else None

    def summary(self) -> Summary:
        """Coverage, cost to users and expected results, as a dict that prints as a table."""
        return plans_summary([self])

    def __repr__(self) -> str:
        return plan_text(self)

    def _repr_html_(self) -> str:
        return plans_card([self])


class LoggingPlans(Shown, list[LoggingPlan]):
    """Plans of several policies: a list with a notebook representation."""

    def summary(self) -> Summary:
        """Coverage, cost to users and expected results by policy, as a dict that prints as a table."""
        return plans_summary(self)

    def plot(self) -> Any:
        """The expected width of the confidence interval over the number of sessions, an altair chart."""
        return plans_plot(self)

    def _repr_html_(self) -> str:
        return plans_card(self)


def plan_logging(
    data: RankingData,
    logger: ArrayLike,
    policies: Mapping[str, Any],
    exam: Any,
    sessions: Sequence[float] = (10_000, 100_000, 1_000_000),
    *,
    scores: ArrayLike | None = None,
    metric: str = "dcg@5",
    population: str = "these-queries",
    confidence: float = 0.95,
    relevance_threshold: float = 3,
    click_model: ClickModel | None = None,
    click_rate: float | None = None,
    query_frequencies: ArrayLike | None = None,
    seed: int | np.random.Generator = 0,
    threads: int | None = None,
    target: str | None = None,
) -> LoggingPlans:
    """Predict the result of `estimate` under each logging policy, before any page is shown.

        clicks                = N sum(f a rho)
        effective sample size = N sum(f a [rho > 0])^2 / sum(f a / rho)      Kish's, weights 1 / rho
        ips                   = sum(f a lambda [rho > 0])
        variance of ips       = sum over queries of f Var(Y) / N,  Y = sum over the page of click * lambda / rho
        displayed             = sum(f relevant E[lambda(displayed rank)]) / sum(f of queries with a relevant document)

    f is the frequency of the query of a document, a its P(click | examined), rho its propensity, N the sessions. Sums
    and variances are exact, but for the covariance of the ranks of a page under Plackett-Luce (and under policies of
    your own), which is sampled; see `session_moments`. The effective sample size is a ratio of expectations, and the
    width that of a normal interval; neither holds for a log so small that a few heavy clicks decide, see
    `ExpectedLog.equal_clicks`. Where users trust high ranks, a is E[click] / rho of each document under the policy;
    variances then take it for the same at every rank, and estimates by inverse propensities are biased.

    Arguments:
        data: the queries and all their candidates.
        logger: the scores by which the policies rank: a ranker, a frame with ids, or one score per document.
        policies: by name.
        exam: how likely each rank is examined; or users as `simulation.users` gives them, without a click model.
        sessions: numbers of them to plan for.
        scores: those of the ranker to be evaluated; the logger's if None.
        metric: "dcg", "dcg@k" or "precision@k": of the ranker to be evaluated, and of the displayed pages.
        population: the target population, as in `estimate`. "these-queries": the variance falls with the sessions.
            "queries": queries like these; the variance between queries falls with their number alone.
        confidence: the confidence level.
        relevance_threshold: the smallest label that is relevant.
        click_model: P(click | examined) by label, as in `simulate`; the paper's if None.
        click_rate: P(click | examined) of every document, required where there are no labels.
        query_frequencies: the relative frequency of each query; all equal if None.
        seed: of sampled pages.
        threads: how many to use.
        target: deprecated name of `population`.

    Returns:
        a list with a `LoggingPlan` for each policy. Without labels there is no price: `displayed` and `price` are None.

    >>> from counterrank.clicks.policies import Deterministic, ReplaceLast
    >>> data = RankingData([[0.0], [0.0], [0.0]], offsets=[0, 3], labels=[0, 4, 0])
    >>> policies = {"deterministic:k=2": Deterministic(2), "replace-last:k=2": ReplaceLast(2)}
    >>> fixed, random = plan_logging(data, [3.0, 2.0, 1.0], policies, [1.0, 0.5], sessions=[1000])
    >>> fixed.expected[0].clicks, random.expected[0].clicks  # 1000 (0.1 + 0.5), 1000 (0.1 + 0.25 + 0.1 * 0.25)
    (600.0, 375.0)
    >>> fixed.covered, random.covered, random.price  # of three candidates; the relevant one is shown half as often
    (0.6666666666666666, 1.0, 0.5)
    """
    population = renamed_argument(population, target, "population", "target", "these-queries")
    settings = IntervalSettings.check(population, confidence, 100, seed, threads)
    amounts = _check_amounts(sessions)
    if click_model is None and click_rate is None and getattr(exam, "relevance", None) is not None:
        exam, click_model = simulated(exam)
    clicks = ClickGuess.check(data, click_model, click_rate, relevance_threshold)
    setting = _Setting(
        data, logger, scores, exam, metric, clicks, relevance_threshold, query_frequencies, settings.threads
    )
    if not isinstance(policies, Mapping) or not policies:
        raise CounterrankError("policies: expected policies by name, such as {'replace-last:k=5': ReplaceLast(5)}")
    return LoggingPlans(
        _plan(setting, str(name), as_policy(policy), amounts, settings, seed) for name, policy in policies.items()
    )


def _check_amounts(sessions: Any) -> list[int]:
    if isinstance(sessions, str) or not isinstance(sessions, Iterable):
        raise CounterrankError(f"sessions={brief(sessions)}: expected a list of numbers, such as [10_000, 100_000]")
    if not (amounts := [check_amount(n, "sessions") for n in sessions]):
        raise CounterrankError("sessions: empty; expected at least one number of sessions")
    return amounts


class _Setting:
    """All that does not depend on the policy, checked."""

    def __init__(
        self,
        data: RankingData,
        logger: ArrayLike,
        scores: ArrayLike | None,
        exam: Any,
        metric: str,
        clicks: ClickGuess,
        relevance_threshold: float,
        query_frequencies: ArrayLike | None,
        threads: int | None,
    ) -> None:
        if parse_metric(metric)[0] not in ("dcg", "precision"):
            raise CounterrankError(
                f"metric={brief(metric)}: has no value per session; expected dcg, dcg@k or precision@k"
            )
        self.data, self.metric, self.clicks = data, metric, clicks
        self.logger = document_scores(logger, data, "logger")
        evaluated = self.logger if scores is None else document_scores(scores, data)
        self.exam, self.threads = check_examination(exam), threads
        longest = longest_query(data.offsets)
        self.theta = self.exam.curve(longest)
        self.ranks = Examination(rank_values(metric, longest))  # so that a propensity is the expected lambda
        self.values = document_values(evaluated, data, [metric], "average", threads)[:, 0]
        self.relevant = None if data.labels is None else relevant_documents(data, relevance_threshold)
        self.frequencies = check_frequencies(query_frequencies, data.n_queries)
        self.query = query_of_rows(data.offsets)
        self.often = self.frequencies[self.query]


def _plan(
    setting: _Setting, name: str, policy: Any, amounts: list[int], settings: IntervalSettings, seed: Any
) -> LoggingPlan:
    data, often = setting.data, setting.often
    source = PageSource.make(policy, setting.logger, data.offsets, settings.threads)
    rho = exact_propensity(policy, setting.logger, data.offsets, setting.exam, settings.threads)
    width = source.width if source.is_built_in else longest_query(data.offsets)
    attraction = setting.clicks.attraction(
        rho,
        setting.theta[:width],
        lambda: rank_probabilities(policy, setting.logger, data.offsets, width, settings.threads),
    )
    seen = rho > 0.0
    inverse = np.divide(1.0, rho, out=np.zeros_like(rho), where=seen)
    clicked = often * attraction
    weight = float(clicked[seen].sum())  # of the clicks of a session, on average
    with np.errstate(over="ignore", invalid="ignore"):
        squares = float((clicked * inverse).sum())
        ips = float((clicked * setting.values)[seen].sum())
        ratio = ips / weight if weight else 0.0
        # a column for each estimate: what a click is worth in it
        values = np.stack([setting.values, setting.values - ratio], axis=1) * inverse[:, None]
        moments = session_moments(source, rho, setting.theta, attraction, values, seed)
        below = np.array([1.0, weight or 1.0])
        by_session, left = variance_parts(setting.frequencies, moments.means - [ips, 0.0], moments.variances, settings)
        second = (clicked[:, None] * rho[:, None] * values**2).sum(axis=0)
        third = (clicked[:, None] * rho[:, None] * np.abs(values) ** 3).sum(axis=0)
        equal = np.nan_to_num(second * (second / third) ** 2, nan=0.0)
    estimates = [
        ExpectedEstimate(value, float(by_session[m] / below[m] ** 2), float(left[m] / below[m] ** 2), float(equal[m]))
        for m, value in enumerate((ips, ratio))
    ]
    total = float((clicked * setting.values).sum())
    displayed, price = _price(setting, policy, source.width if source.is_built_in else None, settings.threads)
    found = LoggingPlan(
        policy=name,
        metric=setting.metric,
        target=settings.population,
        confidence=settings.confidence,
        clicks=float((clicked * rho).sum()),
        effective_sample_size=weight**2 / squares if squares else 0.0,
        ips=estimates[0],
        self_normalized=estimates[1],
        covered=float(seen.mean()),
        reached=ips / total if total else 0.0,
        displayed=displayed,
        price=price,
        sampled_pages=moments.sampled_pages,
        expected=(),
        users=planned_users(
            policy,
            setting.logger,
            data.offsets,
            setting.theta,
            setting.clicks.model,
            setting.clicks.attractiveness,
            setting.frequencies,
            width,
            settings.threads,
        ),
    )
    # a candidate is examined at least once with probability 1 - (1 - f rho)^N
    missed = np.log1p(-np.minimum(often * rho, 1.0 - 1e-16))
    return replace(found, expected=tuple(found.after(n, float(-np.expm1(n * missed).mean())) for n in amounts))


def _price(setting: _Setting, policy: Any, width: int | None, threads: int | None) -> tuple[float | None, float | None]:
    """The metric of the displayed pages, and the share of it that is lost against the top of the ranking."""
    if setting.relevant is None:
        return None, None
    given = setting.logger, setting.data.offsets, setting.ranks
    weights = setting.often * setting.relevant
    displayed = float((weights * exact_propensity(policy, *given, threads)).sum())
    best = float((weights * exact_propensity(Deterministic(width), *given, threads)).sum())
    answered = np.zeros(setting.data.n_queries, np.bool_)
    answered[setting.query[setting.relevant]] = True
    share = float(setting.frequencies[answered].sum())
    return displayed / share if share else None, 1.0 - displayed / best if best else None
