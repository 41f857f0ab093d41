"""Before any logging starts: what a policy would let clicks tell after so many sessions, and what it costs users."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.examination import Examination, check_examination
from counterrank.clicks.policies.pages import PageSource
from counterrank.clicks.policies.propensity import exact_propensity
from counterrank.clicks.policies.standard import Deterministic, as_policy
from counterrank.clicks.users import MOST, ClickModel, check_amount, check_frequencies
from counterrank.common.checks import FloatArray, check_vector
from counterrank.common.errors import CounterrankError
from counterrank.common.ranking import longest_query
from counterrank.data import RankingData
from counterrank.data.ids import query_of_rows
from counterrank.data.labels import relevant_documents
from counterrank.evaluation.click_evidence import document_values
from counterrank.evaluation.intervals import Asked
from counterrank.evaluation.judgement import FEWEST_EXPECTED_CLICKS
from counterrank.evaluation.metrics import parse_metric, rank_values
from counterrank.evaluation.session_moments import session_moments

# What planning found about one logging policy, for any number of sessions.


@dataclass(frozen=True)
class Outlook:
    """What an estimate is expected to be, and how far it will be off.

    Attributes:
        value: its expectation.
        variance: of the estimate, times the number of sessions.
        floor: the variance that is left however many sessions there are; 0 for target "these-queries".
        equal_clicks: a session's share in how many equal clicks would make as skewed a sum.
    """

    value: float
    variance: float
    floor: float
    equal_clicks: float

    def width(self, sessions: float, confidence: float) -> float | None:
        """From one end of the interval to the other; None where nothing would be clicked.

        >>> outlook = Outlook(0.5, variance=1.0, floor=0.0, equal_clicks=0.1)
        >>> round(outlook.width(400, confidence=0.95), 4)  # 2 * 1.96 / 20
        0.196
        """
        width = 2.0 * _quantile(confidence) * math.sqrt(self.variance / sessions + self.floor)
        return width if self.equal_clicks > 0.0 and math.isfinite(width) else None

    def sessions_for(self, width: float, confidence: float) -> int | None:
        """How many sessions bring the interval down to a width that can be trusted; None where none up to 10**14 do.

        >>> Outlook(0.5, variance=1.0, floor=0.0, equal_clicks=0.1).sessions_for(0.196, confidence=0.95)
        400
        >>> Outlook(0.5, variance=1.0, floor=0.01, equal_clicks=0.1).sessions_for(0.196, confidence=0.95) is None
        True
        """
        left = (width / (2.0 * _quantile(confidence))) ** 2 - self.floor
        if left <= 0.0 or self.equal_clicks <= 0.0 or not math.isfinite(self.variance):
            return None
        return _amount(max(self.variance / left, FEWEST_EXPECTED_CLICKS / self.equal_clicks))


@dataclass(frozen=True)
class Expected:
    """What is expected after so many sessions.

    Attributes:
        sessions: how many.
        clicks: on all documents.
        effective_sample_size: (sum of the weights of clicks)^2 / sum of their squares.
        ips_width: of the interval of the metric per session, as `estimate` calls it; None if nothing is clicked.
        self_normalized_width: of the self-normalised metric.
        equal_clicks: how many equal clicks would make as skewed a sum; below 10 intervals are doubtful.
        seen: the share of candidates that is examined at least once.
    """

    sessions: int
    clicks: float
    effective_sample_size: float
    ips_width: float | None
    self_normalized_width: float | None
    equal_clicks: float
    seen: float

    @property
    def is_doubtful(self) -> bool:
        """Whether the interval would hang on a few rare clicks, and hold the truth less often than it says."""
        return self.equal_clicks < FEWEST_EXPECTED_CLICKS


@dataclass(frozen=True)
class LoggingPlan:
    """What one policy would bring, and what it costs.

    Attributes:
        policy: its name.
        metric: of the ranker to be judged and of the displayed pages.
        target: what intervals speak of.
        confidence: how often they shall hold the truth.
        clicks: of a session.
        effective_sample_size: of a session.
        ips: the metric per session.
        self_normalized: the metric per relevant document.
        covered: the share of candidates that can be examined at all.
        reached: the share of what the estimate is to find that lies on such candidates; below 1 it is biased.
        displayed: the metric of the displayed pages by the labels, over queries with a relevant document; None without
            labels.
        price: the share of it that is lost against showing the top of the ranking; negative where pages get better.
        sampled_pages: pages drawn for each query to tell how its places vary together; 0 where that is exact.
        expected: by number of sessions.
    """

    policy: str
    metric: str
    target: str
    confidence: float
    clicks: float
    effective_sample_size: float
    ips: Outlook
    self_normalized: Outlook
    covered: float
    reached: float
    displayed: float | None
    price: float | None
    sampled_pages: int
    expected: tuple[Expected, ...]

    @property
    def is_biased(self) -> bool:
        """Whether part of what the estimate is to find lies on documents that can never be examined."""
        return self.reached < 1.0 - 1e-12

    def with_sessions(self, amounts: Sequence[tuple[int, float]]) -> LoggingPlan:
        """The same for numbers of sessions, each with the share of candidates seen by then."""
        return replace(self, expected=tuple(self._expected(sessions, seen) for sessions, seen in amounts))

    def _expected(self, sessions: int, seen: float) -> Expected:
        return Expected(
            sessions=sessions,
            clicks=sessions * self.clicks,
            effective_sample_size=sessions * self.effective_sample_size,
            ips_width=self.ips.width(sessions, self.confidence),
            self_normalized_width=self.self_normalized.width(sessions, self.confidence),
            equal_clicks=sessions * self.ips.equal_clicks,
            seen=seen,
        )

    def sessions_for_width(self, width: float) -> int | None:
        """How many sessions bring the interval of `ips` down to this width; None where no number up to 10**14 does.

        At least as many as make the interval trustworthy. None, too, where part of what it is to find can never be
        clicked: it would close in on a wrong value.
        """
        _check(width, "width")
        return None if self.is_biased else self.ips.sessions_for(width, self.confidence)

    def sessions_for_effective(self, size: float) -> int | None:
        """How many sessions have this effective sample size; None where no number up to 10**14 does."""
        _check(size, "effective")
        return _amount(size / self.effective_sample_size) if self.effective_sample_size > 0.0 else None


def _check(value: float, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 < value < math.inf:
        raise CounterrankError(f"{name}={value!r}: expected a number above 0")


def _amount(sessions: float) -> int | None:
    """A whole number of sessions, but for what is rounding; None where there are more than anyone has."""
    return max(1, math.ceil(sessions * (1.0 - 1e-12))) if sessions <= MOST else None


def _quantile(confidence: float) -> float:
    return NormalDist().inv_cdf(0.5 + confidence / 2.0)


def plan_logging(
    data: RankingData,
    logger: ArrayLike,
    policies: Mapping[str, Any],
    exam: Any,
    sessions: Sequence[float] = (10_000, 100_000, 1_000_000),
    *,
    scores: ArrayLike | None = None,
    metric: str = "dcg@5",
    target: str = "these-queries",
    confidence: float = 0.95,
    relevance_threshold: float = 3,
    click_model: ClickModel | None = None,
    click_rate: float | None = None,
    query_frequencies: ArrayLike | None = None,
    seed: int | np.random.Generator = 0,
    threads: int | None = None,
) -> list[LoggingPlan]:
    """What `estimate` would find under each policy, computed before a page is shown.

        clicks                = N sum(f a rho)
        effective sample size = N sum(f a [rho > 0])^2 / sum(f a / rho)      Kish's, weights 1 / rho
        ips                   = sum(f a lambda [rho > 0])
        variance of ips       = sum over queries of f Var(Y) / N,  Y = sum over the page of click * lambda / rho
        displayed             = sum(f relevant E[lambda(displayed rank)]) / sum(f of queries with a relevant document)

    f is how often the query of a document is asked, a its P(click | examined), rho its propensity, N the sessions. Sums
    and variances are exact, but for what the places of a page under Plackett-Luce (and under policies of your own) have
    in common, which is drawn; see `session_moments`. The effective sample size is a quotient of expectations, and the
    width that of a normal interval: of a log so small that chance decides about a few heavy clicks both tell little,
    which `Expected.equal_clicks` shows.

    Arguments:
        data: the queries and all their candidates.
        logger: the scores by which the policies rank.
        policies: by name.
        exam: how likely each rank is examined.
        sessions: numbers of them to plan for.
        scores: those of the ranker that the clicks shall judge; the logger's if None.
        metric: "dcg", "dcg@k" or "precision@k": of the ranker to be judged, and of the displayed pages.
        target: what intervals speak of, as in `estimate`. "these-queries": these queries alone, sessions do it all.
            "queries": also others like these; what is left then falls with the number of queries, not of sessions.
        confidence: how often an interval shall hold the truth.
        relevance_threshold: the smallest label that is relevant.
        click_model: P(click | examined) by label, as in `simulate`; the paper's if None. The same at every rank.
        click_rate: P(click | examined) of every document; to be given where there are no labels, in place of them.
        query_frequencies: how often each query is asked; all equally if None.
        seed: of drawn pages.
        threads: how many to use.

    Returns:
        a `LoggingPlan` for each policy. Without labels there is no price: `displayed` and `price` are None.

    >>> from counterrank.clicks.policies import Deterministic, ReplaceLast
    >>> data = RankingData([[0.0], [0.0], [0.0]], offsets=[0, 3], labels=[0, 4, 0])
    >>> policies = {"deterministic:k=2": Deterministic(2), "replace-last:k=2": ReplaceLast(2)}
    >>> fixed, random = plan_logging(data, [3.0, 2.0, 1.0], policies, [1.0, 0.5], sessions=[1000])
    >>> fixed.expected[0].clicks, random.expected[0].clicks  # 1000 (0.1 + 0.5), 1000 (0.1 + 0.25 + 0.1 * 0.25)
    (600.0, 375.0)
    >>> fixed.covered, random.covered, random.price  # of three candidates; the relevant one is shown half as often
    (0.6666666666666666, 1.0, 0.5)
    """
    asked = Asked.checked(target, confidence, 100, seed, threads)
    amounts = [check_amount(n, "sessions") for n in _listed(sessions)]
    clicked = click_model, click_rate, relevance_threshold
    world = _World(data, logger, scores, exam, metric, *clicked, query_frequencies, asked.threads)
    if not isinstance(policies, Mapping) or not policies:
        raise CounterrankError("policies: expected policies by name, such as {'replace-last:k=5': ReplaceLast(5)}")
    return [_plan(world, str(name), as_policy(policy), amounts, asked, seed) for name, policy in policies.items()]


def _listed(sessions: Any) -> list[Any]:
    if isinstance(sessions, str) or not hasattr(sessions, "__iter__"):
        raise CounterrankError(f"sessions={sessions!r}: expected a list of numbers, such as [10_000, 100_000]")
    if not (amounts := list(sessions)):
        raise CounterrankError("sessions: empty; expected at least one number of sessions")
    return amounts


class _World:
    """All that does not hang on the policy, checked."""

    def __init__(
        self,
        data: RankingData,
        logger: ArrayLike,
        scores: ArrayLike | None,
        exam: Any,
        metric: str,
        click_model: ClickModel | None,
        click_rate: float | None,
        relevance_threshold: float,
        query_frequencies: ArrayLike | None,
        threads: int | None,
    ) -> None:
        if not isinstance(data, RankingData):
            raise CounterrankError(f"data: {type(data).__name__}; expected RankingData")
        if parse_metric(metric)[0] not in ("dcg", "precision"):
            raise CounterrankError(f"metric={metric!r}: has no value per session; expected dcg, dcg@k or precision@k")
        self.data, self.metric = data, metric
        self.logger = check_vector(logger, data.n_docs, "logger")
        judged = self.logger if scores is None else check_vector(scores, data.n_docs, "scores")
        self.exam = check_examination(exam)
        longest = longest_query(data.offsets)
        self.theta = self.exam.curve(longest)
        self.ranks = Examination(rank_values(metric, longest))  # so that a propensity is the expected lambda
        self.values = document_values(judged, data, [metric], "average", threads)[:, 0]
        self.attraction = _attraction(data, click_model, click_rate, relevance_threshold)
        self.relevant = None if data.labels is None else relevant_documents(data, relevance_threshold)
        self.frequencies = check_frequencies(query_frequencies, data.n_queries)
        self.query = query_of_rows(data.offsets)
        self.often = self.frequencies[self.query]


def _attraction(
    data: RankingData, click_model: ClickModel | None, click_rate: float | None, relevance_threshold: float
) -> FloatArray:
    """P(click | examined) of each document."""
    if click_rate is not None:
        if click_model is not None:
            raise CounterrankError("click_rate, click_model: expected one of the two")
        number = isinstance(click_rate, int | float | np.number) and not isinstance(click_rate, bool)
        if not number or not 0.0 < click_rate <= 1.0:
            raise CounterrankError(f"click_rate={click_rate!r}: expected a number above 0, up to 1")
        return np.full(data.n_docs, float(click_rate))
    if data.labels is None:
        raise CounterrankError(
            "data: has no labels, so that nothing says what would be clicked; expected click_rate, P(click | examined) "
            "of an average document, such as 0.1"
        )
    model = ClickModel() if click_model is None else click_model
    if not isinstance(model, ClickModel):
        raise CounterrankError(f"click_model: {type(model).__name__}; expected simulation.ClickModel")
    if np.ndim(model.relevant) or np.ndim(model.other):
        raise CounterrankError(
            "click_model: depends on the rank (trust bias), where inverse propensities are biased; "
            "expected one number for each of relevant and other"
        )
    other, relevant = (float(column[0]) for column in model.by_rank(1))
    attraction: FloatArray = other + (relevant - other) * model.attractiveness(data, relevance_threshold)
    if not attraction.any():
        raise CounterrankError("click_model: nothing is ever clicked; expected a probability above 0")
    return attraction


def _plan(world: _World, name: str, policy: Any, amounts: list[int], asked: Asked, seed: Any) -> LoggingPlan:
    data, often, attraction = world.data, world.often, world.attraction
    source = PageSource.make(policy, world.logger, data.offsets, asked.threads)
    rho = exact_propensity(policy, world.logger, data.offsets, world.exam, asked.threads)
    seen = rho > 0.0
    inverse = np.divide(1.0, rho, out=np.zeros_like(rho), where=seen)
    clicked = often * attraction
    weight = float(clicked[seen].sum())  # of the clicks of a session, on average
    with np.errstate(over="ignore", invalid="ignore"):
        squares = float((clicked * inverse).sum())
        ips = float((clicked * world.values)[seen].sum())
        ratio = ips / weight if weight else 0.0
        # a column for each estimate: what a click is worth in it
        values = np.stack([world.values, world.values - ratio], axis=1) * inverse[:, None]
        moments = session_moments(source, rho, world.theta, attraction, values, seed)
        below = np.array([1.0, weight or 1.0])
        by_session, left = _variances(world, moments.means - [ips, 0.0], moments.variances, asked)
        second = (clicked[:, None] * rho[:, None] * values**2).sum(axis=0)
        third = (clicked[:, None] * rho[:, None] * np.abs(values) ** 3).sum(axis=0)
        equal = np.nan_to_num(second * (second / third) ** 2, nan=0.0)
    outlooks = [
        Outlook(value, float(by_session[m] / below[m] ** 2), float(left[m] / below[m] ** 2), float(equal[m]))
        for m, value in enumerate((ips, ratio))
    ]
    total = float((clicked * world.values).sum())
    displayed, price = _price(world, policy, source.width if source.is_built_in else None, asked.threads)
    found = LoggingPlan(
        policy=name,
        metric=world.metric,
        target=asked.target,
        confidence=asked.confidence,
        clicks=float((clicked * rho).sum()),
        effective_sample_size=weight**2 / squares if squares else 0.0,
        ips=outlooks[0],
        self_normalized=outlooks[1],
        covered=float(seen.mean()),
        reached=ips / total if total else 0.0,
        displayed=displayed,
        price=price,
        sampled_pages=moments.sampled_pages,
        expected=(),
    )
    return found.with_sessions([(n, _seen_once(often * rho, n)) for n in amounts])


def _variances(
    world: _World, centred: FloatArray, variances: FloatArray, asked: Asked
) -> tuple[FloatArray, FloatArray]:
    """What of the variance falls with the sessions (times their number), and what is left however many there are.

    Sessions of a query are binomial, so that over Q queries the sum of (terms - R * below)^2 is expected to be
    N f Var + (N f (1 - f) + N^2 f^2) mean^2 for each; with the factor Q / (Q - 1), as in `over_queries`.
    """
    often = world.frequencies[:, None]
    within: FloatArray = np.maximum((often * variances).sum(axis=0), 0.0)
    if asked.target == "these-queries":
        return within, np.zeros_like(within)
    n = int(np.count_nonzero(world.frequencies))
    factor = n / max(n - 1, 1)
    between = (often * (1.0 - often) * centred**2).sum(axis=0)
    return factor * (within + between), factor * (often**2 * centred**2).sum(axis=0)


def _seen_once(chances: FloatArray, sessions: int) -> float:
    """The share of candidates that is expected to be examined at least once, 1 - (1 - f rho)^N."""
    return float(-np.expm1(sessions * np.log1p(-np.minimum(chances, 1.0 - 1e-16))).mean())


def _price(world: _World, policy: Any, width: int | None, threads: int | None) -> tuple[float | None, float | None]:
    """The metric of the displayed pages, and the share of it that is lost against the top of the ranking."""
    if world.relevant is None:
        return None, None
    given = world.logger, world.data.offsets, world.ranks
    weights = world.often * world.relevant
    displayed = float((weights * exact_propensity(policy, *given, threads)).sum())
    best = float((weights * exact_propensity(Deterministic(width), *given, threads)).sum())
    answered = np.zeros(world.data.n_queries, np.bool_)
    answered[world.query[world.relevant]] = True
    share = float(world.frequencies[answered].sum())
    return displayed / share if share else None, 1.0 - displayed / best if best else None
