"""Planning of a comparison: which logging policy decides between two rankers with the fewest sessions, and its cost.

`plan_comparison` computes for each policy the variance of the difference that `compare` estimates, by a guess of
relevance, and from it the sessions after which the better ranker is known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.examination import Examination, check_examination
from counterrank.clicks.policies.pages import PageSource, takes_two_rankings
from counterrank.clicks.policies.parsing import parse_policies, score_spread
from counterrank.clicks.policies.propensity import exact_propensity, rank_probabilities
from counterrank.clicks.policies.standard import (
    Deterministic,
    Mixture,
    PlackettLuce,
    TeamDraft,
    UniformInsert,
    as_policy,
)
from counterrank.clicks.policies.team_draft import MOST
from counterrank.clicks.users import ClickModel, check_frequencies, simulated
from counterrank.common.checks import FloatArray, check_number, check_whole
from counterrank.common.errors import CounterrankError, brief
from counterrank.common.notebook import Shown, Summary
from counterrank.common.ranking import longest_query
from counterrank.data import RankingData
from counterrank.data.ids import query_of_rows
from counterrank.data.labels import relevant_documents
from counterrank.data.scores import document_scores, logging_scores
from counterrank.evaluation.confidence_intervals import IntervalSettings
from counterrank.evaluation.deployment import MOST_UNCOVERED
from counterrank.evaluation.evaluation_cards import comparison_plans_card, comparison_plans_plot
from counterrank.evaluation.logging_advice import metric_in_words, percent
from counterrank.evaluation.logopt import LoggingProblem, LogOpt, optimal_scores
from counterrank.evaluation.metrics import parse_metric, rank_values
from counterrank.evaluation.planning import ClickGuess, ExpectedEstimate, quantile, variance_parts
from counterrank.evaluation.session_moments import session_moments
from counterrank.evaluation.weighted_clicks import document_values

FAMILIES = ("deterministic", "replace-last", "uniform-insert", "plackett-luce")
_SAME = 1.05  # costs closer than this count as equal


@dataclass(frozen=True, eq=False)
class Arm:
    """A part of a logging policy whose parts rank by different scores.

    Attributes:
        policy: what it shows.
        scores: what it ranks by: a ranker, a frame with ids, or one score per document; a list of two for `TeamDraft`.
        share: of the sessions.

    >>> from counterrank.clicks.policies import Deterministic
    >>> Arm(Deterministic(k=5), [1.0, 2.0], share=0.5).share
    0.5
    """

    policy: Any
    scores: Any
    share: float = 1.0


@dataclass(frozen=True, repr=False)
class ComparisonPlan(Shown):
    """The expected comparison of two rankers under one logging policy, and its cost to users.

    Attributes:
        policy: its name.
        metric: by which the rankers are compared.
        effect: the difference to be found, ranker A less ranker B, per session.
        difference: the estimate: its expectation and variance.
        reached: of sum(|lambda_A - lambda_B| P(click | examined)), the share on documents that can be examined.
        covered_to: the largest cutoff for which all documents that the rankers value differently can be examined, of
            those up to the length of a page; 0 if there is none.
        unbiased: whether that holds for the metric itself.
        uncovered: of sum(|lambda_A - lambda_B|), the share on documents that are never examined, as `compare` says it.
        bias: what the estimate misses by that.
        confidence: the confidence level of the comparison.
        power: the wanted probability of the right decision.
        clicks: of a session.
        displayed: the metric of the displayed pages, per session, by the guess; None if it is one rate for all.
        price: the share of it that is lost against production's page; negative where pages get better.
        sampled_pages: drawn for each query for the covariance of ranks; 0 where that is exact.
        arms: what to log with.
        rho: P(examined) of each document, the propensities for `compare`.
        spread: for these queries, the variance of the difference between the queries of sessions: the log may hold more
            sessions of queries with a small difference, or with a large one, which is no error and not in the interval.
        by_arm: of an A/B test, the estimate that takes each arm on its own.
        optimised_for: of LogOpt, where the guess comes from that its scores are optimised for.
    """

    policy: str
    metric: str
    effect: float
    difference: ExpectedEstimate
    reached: float
    covered_to: int
    unbiased: bool
    uncovered: float
    bias: float
    confidence: float
    power: float
    clicks: float
    displayed: float | None
    price: float | None
    sampled_pages: int
    arms: tuple[Arm, ...]
    rho: FloatArray = field(repr=False)
    spread: float = 0.0
    by_arm: ExpectedEstimate | None = None
    optimised_for: str | None = None

    @property
    def deviation(self) -> float:
        """The standard deviation of a session's part of the estimate."""
        return math.sqrt(self.difference.variance)

    @property
    def decides(self) -> bool:
        """Whether `verdict` decides on such a log: at most 5 % of the difference is uncovered, such as by ties."""
        return self.uncovered <= MOST_UNCOVERED and self._seen_effect > 0.0

    @property
    def sessions(self) -> int | None:
        """The sessions that decide with the wanted power; None if none do, or 10**14 are too few."""
        return self._sessions(self.difference)

    @property
    def sessions_by_arm(self) -> int | None:
        """The same for an A/B test whose arms are analysed on their own; None for other policies too."""
        return None if self.by_arm is None else self._sessions(self.by_arm)

    @property
    def _seen_effect(self) -> float:
        """The expected estimate, above 0 where it has the sign of the effect."""
        return math.copysign(1.0, self.effect) * (self.effect + self.bias) if self.effect else 0.0

    def _sessions(self, estimate: ExpectedEstimate) -> int | None:
        """effect = (z s + z_power t) / sqrt(sessions), s^2 being the variance and t^2 = s^2 + spread.

        So the interval, 2 z s / sqrt(sessions) wide, lies on the right side of 0 with the wanted power.
        """
        z, more = quantile(self.confidence), NormalDist().inv_cdf(self.power)
        inner, outer = math.sqrt(estimate.variance), math.sqrt(estimate.variance + self.spread)
        both = replace(estimate, variance=((z * inner + more * outer) / (z + more)) ** 2)
        return both.sessions_for(2.0 * self._seen_effect * z / (z + more), self.confidence) if self.decides else None

    def power_after(self, sessions: float) -> float:
        """P(the confidence interval lies on the right side of 0) after so many sessions."""
        check_number(sessions, "sessions", above=0)
        squared = self.difference.variance / sessions + self.difference.floor
        if not self.decides or not math.isfinite(squared):
            return 0.0
        distance = self._seen_effect - quantile(self.confidence) * math.sqrt(squared)
        error = math.sqrt(squared + self.spread / sessions)
        return NormalDist().cdf(distance / error) if error else float(distance > 0.0)

    @property
    def total_cost(self) -> float | None:
        """Sessions times price: as if so many sessions had shown nothing relevant; 0 where pages get better."""
        n = self.sessions
        return None if n is None or self.price is None else n * max(self.price, 0.0)

    def summary(self) -> Summary:
        """Sessions, coverage and cost to users, as a dict that prints as a table."""
        return Summary(
            {
                "sessions": self.sessions,
                "deviation": self.deviation,
                "price": self.price,
                "unbiased": self.unbiased,
                "uncovered": self.uncovered,
                "covered_to": self.covered_to,
                "reached": self.reached,
                "clicks": self.clicks,
            }
        )

    def __repr__(self) -> str:
        n = self.sessions
        return f"ComparisonPlan({self.policy}: {'never' if n is None else f'{n:,} sessions'})"

    def _repr_html_(self) -> str:
        return comparison_plans_card([self], [])


class ComparisonPlans(Shown, list[ComparisonPlan]):
    """Plans of a comparison under several policies: a list with a recommendation.

    Attributes:
        names: of the two rankers.
        guess: where P(click | examined) comes from, in words.
    """

    def __init__(
        self, plans: Iterable[ComparisonPlan], names: tuple[str, str] = ("A", "B"), guess: str = "labels"
    ) -> None:
        super().__init__(plans)
        self.names, self.guess = names, guess

    @property
    def recommended(self) -> ComparisonPlan | None:
        """The policy that decides with the fewest sessions, of those that are unbiased for the metric if any is."""
        able = [plan for plan in self if plan.sessions is not None]
        able = [plan for plan in able if plan.unbiased] or able
        return min(able, key=lambda plan: plan.sessions or 0, default=None)

    @property
    def cheapest(self) -> ComparisonPlan | None:
        """The policy of the least total cost; of those that cost about the same, the one that is done first."""
        priced = [(plan.total_cost, plan.sessions, plan) for plan in self if plan.total_cost is not None]
        if not priced:
            return None
        least = min(cost for cost, _, _ in priced if cost is not None)
        same = [row for row in priced if row[0] is not None and row[0] <= _SAME * least]
        return min(same, key=lambda row: row[1] or 0)[2]

    def advice(self) -> list[str]:
        """Recommendations, one sentence each, the most important first."""
        return advise_comparison(self)

    def summary(self) -> Summary:
        """Sessions, coverage and cost to users by policy, as a dict that prints as a table."""
        return Summary({plan.policy: dict(plan.summary()) for plan in self})

    def plot(self) -> Any:
        """The power over the number of sessions, an altair chart."""
        return comparison_plans_plot(self)

    def _repr_html_(self) -> str:
        return comparison_plans_card(self, self.advice())


def plan_comparison(
    data: RankingData,
    scores_a: Any,
    scores_b: Any,
    exam: Any,
    *,
    production: Any = None,
    k: int = 5,
    policies: Mapping[str, Any] | None = None,
    metric: str = "dcg@5",
    effect: float | None = None,
    relevance: ArrayLike | None = None,
    click_model: ClickModel | None = None,
    click_rate: float | None = None,
    relevance_threshold: float = 3,
    population: str = "these-queries",
    confidence: float = 0.95,
    power: float = 0.8,
    query_frequencies: ArrayLike | None = None,
    logopt: LogOpt | bool = True,
    names: tuple[str, str] = ("A", "B"),
    seed: int | np.random.Generator = 0,
    threads: int | None = None,
) -> ComparisonPlans:
    """Predict under which logging policy `compare` decides between two rankers with the fewest sessions.

        difference = sum(f a (lambda_A - lambda_B) [rho > 0])
        variance   = sum over queries of f Var(Y),   Y = sum over the page of click * (lambda_A - lambda_B) / rho
        sessions   = ((z sqrt(variance) + z_power sqrt(variance + spread)) / effect)^2

    f is the frequency of the query of a document, a its P(click | examined), the guess; rho its propensity. z and
    z_power are normal quantiles: after so many sessions the confidence interval of `compare` excludes 0 on the right
    side with the wanted probability. spread is the variance of E[Y | query] over the queries of sessions. The estimate
    is unbiased if rho > 0 for all documents that the two rankers value differently, whatever the guess: a wrong guess
    makes the plan wrong, and not the comparison.

    Besides `policies`, which rank by production's scores (`TeamDraft` by those of A and B), some are always planned:
    "ab-test", half of the sessions with the top k of A and the others with that of B, all analysed together with the
    mean of their propensities; "team-draft", alone, with the A/B test and with uniform-insert, half of the sessions
    each; and "logopt", Plackett-Luce with the logging scores of least variance (Oosterhuis and de Rijke 2020), which
    are in its `arms`.

    Arguments:
        data: the queries and all their candidates.
        scores_a, scores_b: the two rankers: rankers, frames with ids, or one score per document.
        exam: how likely each rank is examined; or users as `simulation.users` gives them, without a click model.
        production: what the policies rank by, and whose page is the measure of cost to users; ranker A if None.
        k: the number of results on a page.
        policies: by name; each is a policy, or a list of `Arm` whose shares sum to 1. The families deterministic,
            replace-last, uniform-insert and plackett-luce if None.
        metric: "dcg", "dcg@k" or "precision@k".
        effect: the expected difference per session, in the unit of `compare`; that of the guess if None.
        relevance: the guess: P(click | examined) of each document, an array or what `estimators.fit_relevance` gives
            for an earlier log. If None, by labels and `click_model`.
        click_model: P(click | examined) by label; the paper's if None.
        click_rate: P(click | examined) of every document, in place of a guess for each; requires `effect`.
        relevance_threshold: the smallest label that is relevant.
        population: the target population, as in `compare`.
        confidence: the confidence level.
        power: the wanted probability of the right decision.
        query_frequencies: the relative frequency of each query; all equal if None.
        logopt: how LogOpt is run; False to leave it out.
        names: of the two rankers, for the advice.
        seed: of drawn pages.
        threads: how many to use.

    >>> from counterrank.clicks.policies import Deterministic, ReplaceLast
    >>> data = RankingData([[0.0], [0.0], [0.0]], offsets=[0, 3], labels=[0, 4, 0])
    >>> a, b = [3.0, 2.0, 1.0], [1.0, 3.0, 2.0]
    >>> shown = {"deterministic:k=2": Deterministic(2), "replace-last:k=2": ReplaceLast(2)}
    >>> plans = plan_comparison(data, a, b, [1.0, 0.5], k=2, policies=shown, metric="dcg@2")
    >>> for plan in plans:
    ...     print(plan.policy, plan.unbiased, plan.sessions)
    deterministic:k=2 False None
    replace-last:k=2 True 44
    ab-test:k=2 True 51
    team-draft:k=2 False None
    0.5*team-draft:k=2 + 0.5*ab-test:k=2 True 133
    0.5*team-draft:k=2 + 0.5*uniform-insert:k=2 True 55
    logopt:k=2 True 29
    """
    settings = IntervalSettings.check(population, confidence, 100, seed, threads)
    wanted = check_number(power, "power", at_least=0.5, below=1.0, also=", such as 0.8")
    if (
        click_model is None
        and click_rate is None
        and relevance is None
        and getattr(exam, "relevance", None) is not None
    ):
        exam, click_model = simulated(exam)
    guess = ClickGuess.check(data, click_model, click_rate, relevance_threshold, relevance)
    if click_rate is not None and effect is None:
        raise CounterrankError(
            "effect: None, and by click_rate all rankers are equal; expected the expected difference"
        )
    page = check_whole(k, "k", 1)
    rankers = scores_a, scores_b, production
    setting = _Comparison(data, rankers, exam, page, metric, guess, relevance_threshold, query_frequencies, settings)
    expected = setting.effect if effect is None else check_number(effect, "effect")
    spread = score_spread(setting.production, data.offsets)
    given = parse_policies(FAMILIES, page, spread) if policies is None else policies
    if not isinstance(given, Mapping):
        raise CounterrankError("policies: expected policies by name, such as {'replace-last:k=5': ReplaceLast(5)}")
    arms = {str(name): setting.arms(str(name), each) for name, each in given.items()}
    arms |= _online(setting, page)
    optimised: dict[str, str] = {}
    if not isinstance(logopt, bool | LogOpt):
        raise CounterrankError(f"logopt={brief(logopt)}: expected True, False or evaluation.LogOpt")
    if logopt:
        starts = [part[0] for part in arms.values() if len(part) == 1 and isinstance(part[0].policy, PlackettLuce)]
        chosen = LogOpt() if logopt is True else logopt
        problem, about = setting.problem(chosen)
        logits = [start.scores / start.policy.temperature for start in starts if start.policy.k == page]
        found = optimal_scores(problem, chosen, logits, seed)
        arms[f"logopt:k={page}"] = (Arm(PlackettLuce(page), found),)
        optimised[f"logopt:k={page}"] = about
    plans = (
        replace(_plan(setting, name, parts, expected, wanted, seed), optimised_for=optimised.get(name))
        for name, parts in arms.items()
    )
    return ComparisonPlans(plans, names, guess.about)


def _online(setting: _Comparison, k: int) -> dict[str, tuple[Arm, ...]]:
    """The A/B test, and interleaving, alone and in mixtures that cover what it cannot show."""
    ab = [Arm(Deterministic(k), scores, 0.5) for scores in (setting.a, setting.b)]
    found = {f"ab-test:k={k}": tuple(ab)}
    if k > MOST:
        return found
    draft = Arm(TeamDraft(k), np.stack([setting.a, setting.b]))
    half = replace(draft, share=0.5)
    name = f"team-draft:k={k}"
    return found | {
        name: (draft,),
        f"0.5*{name} + 0.5*ab-test:k={k}": (half, *(replace(each, share=0.25) for each in ab)),
        f"0.5*{name} + 0.5*uniform-insert:k={k}": (half, Arm(UniformInsert(k), setting.production, 0.5)),
    }


class _Comparison:
    """All that does not depend on the policy, checked."""

    def __init__(
        self,
        data: RankingData,
        rankers: tuple[Any, Any, Any],
        exam: Any,
        k: int,
        metric: str,
        guess: ClickGuess,
        relevance_threshold: float,
        query_frequencies: ArrayLike | None,
        settings: IntervalSettings,
    ) -> None:
        kind, cutoff = parse_metric(metric)
        if kind not in ("dcg", "precision"):
            raise CounterrankError(f"metric={metric!r}: has no value per session; expected dcg, dcg@k or precision@k")
        self.data, self.metric, self.guess, self.settings, self.k = data, metric, guess, settings, k
        scores_a, scores_b, production = rankers
        self.a, self.b = document_scores(scores_a, data, "scores_a"), document_scores(scores_b, data, "scores_b")
        self.production = self.a if production is None else document_scores(production, data, "production")
        self.exam, self.threads = check_examination(exam), settings.threads
        longest = longest_query(data.offsets)
        self.theta = self.exam.curve(longest)
        self.ranks = Examination(rank_values(metric, longest))  # so that a propensity is the expected lambda
        # of the metric, and of the cutoffs up to the page's length
        self.cutoffs = [each for each in range(1, min(k, longest) + 1) if cutoff is None or each <= cutoff]
        metrics = [metric, *(f"{kind}@{each}" for each in self.cutoffs)]
        both = (document_values(each, data, metrics, "average", self.threads) for each in (self.a, self.b))
        differences = np.subtract(*both)
        self.values, self.by_cutoff = np.ascontiguousarray(differences[:, 0]), differences[:, 1:]
        self.frequencies = check_frequencies(query_frequencies, data.n_queries)
        self.often = self.frequencies[query_of_rows(data.offsets)]
        self.usual = guess.attraction(np.zeros(data.n_docs), self.theta[:k], lambda: np.zeros((data.n_docs, k)))
        self.effect = float((self.often * self.usual * self.values).sum())
        self.relevance: FloatArray | None = None
        if guess.model is not None:
            self.relevance = relevant_documents(data, relevance_threshold).astype(np.float64)
        elif np.ptp(guess.attractiveness) > 0.0:
            self.relevance = guess.attractiveness
        self.best = self.displayed([Arm(Deterministic(k), self.production)])

    def arms(self, name: str, given: Any) -> tuple[Arm, ...]:
        """A policy as its arms, whose shares sum to 1."""
        if not isinstance(given, Sequence) or isinstance(given, str):
            return tuple(self.own_arms(as_policy(given)))
        if not given or not all(isinstance(each, Arm) for each in given):
            raise CounterrankError(f"policies: {name}; expected a policy, or a list of evaluation.Arm")
        shares = [check_number(each.share, "share", above=0, at_most=1) for each in given]
        if abs(sum(shares) - 1.0) > 1e-9:
            raise CounterrankError(f"policies: {name} has arms whose shares sum to {sum(shares):g}; expected 1")
        return tuple(Arm(as_policy(each.policy), logging_scores(each.scores, self.data), each.share) for each in given)

    def own_arms(self, policy: Any, share: float = 1.0) -> Iterable[Arm]:
        """A policy that ranks by production; where it interleaves, by both rankers."""
        if not takes_two_rankings(policy):
            yield Arm(policy, self.production, share)
        elif isinstance(policy, Mixture):
            for part, own in zip(policy.policies, policy.shares, strict=True):
                yield from self.own_arms(part, share * own)
        else:
            yield Arm(policy, np.stack([self.a, self.b]), share)

    def displayed(self, arms: Sequence[Arm]) -> float | None:
        """The metric of the displayed pages per session, by the guess; None if it is one rate for all."""
        if self.relevance is None:
            return None
        weights = self.often * self.relevance
        return float(sum(each.share * (weights @ self.propensity(each, self.ranks)) for each in arms))

    def propensity(self, arm: Arm, exam: Examination) -> FloatArray:
        """P(examined) of each document under one arm."""
        return exact_propensity(arm.policy, arm.scores, self.data.offsets, exam, self.threads)

    def problem(self, settings: LogOpt) -> tuple[LoggingProblem, str]:
        """What LogOpt minimises the variance of, and where its guess comes from."""
        guess, about = self.usual, self.guess.about
        if settings.relevance is not None:
            own = ClickGuess.check(self.data, None, None, 0.0, settings.relevance)
            guess, about = own.attractiveness, own.about
        offsets, threads = self.data.offsets, self.threads
        return LoggingProblem(offsets, self.theta, self.k, guess, self.values, self.production, threads), about


def _plan(
    setting: _Comparison, name: str, arms: tuple[Arm, ...], effect: float, power: float, seed: Any
) -> ComparisonPlan:
    offsets, often = setting.data.offsets, setting.often
    sources = [PageSource.make(each.policy, each.scores, offsets, setting.threads) for each in arms]
    rhos = [setting.propensity(each, setting.exam) for each in arms]
    rho = sum((each.share * own for each, own in zip(arms, rhos, strict=True)), np.zeros(setting.data.n_docs))
    width = max(source.width if source.is_built_in else longest_query(offsets) for source in sources)

    def shown() -> FloatArray:
        parts = (each.share * rank_probabilities(each.policy, each.scores, offsets, width) for each in arms)
        return sum(parts, np.zeros((len(rho), width)))

    attraction = setting.guess.attraction(rho, setting.theta[:width], shown)
    seen = rho > 0.0
    matters = (setting.values != 0.0) & (often > 0.0)
    clicked = often * attraction
    total = float((clicked * np.abs(setting.values)).sum())
    hidden = ((setting.by_cutoff != 0.0) & (matters & ~seen)[:, None]).any(axis=0)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        values = np.where(matters & seen, setting.values / rho, 0.0)
        columns = [values] * len(arms)
        difference, sampled = _estimate(setting, arms, sources, rhos, attraction, columns, seed)
        by_arm = None
        if name.startswith("ab-test"):
            lambdas = (
                document_values(each, setting.data, [setting.metric], "average", setting.threads)[:, 0]
                for each in (setting.a, setting.b)
            )
            columns = [
                np.where(own > 0.0, sign * each / (arm.share * own), 0.0)
                for sign, each, arm, own in zip((1.0, -1.0), lambdas, arms, rhos, strict=True)
            ]
            by_arm, _ = _estimate(setting, arms, sources, rhos, attraction, columns, seed)
    sizes = often * np.abs(setting.values)
    by_query = np.bincount(query_of_rows(offsets), attraction * np.where(seen, setting.values, 0.0))
    centred = by_query - setting.frequencies @ by_query
    within = setting.settings.population == "these-queries"
    displayed = setting.displayed(arms)
    price = 1.0 - displayed / setting.best if displayed is not None and setting.best else None
    return ComparisonPlan(
        policy=name,
        metric=setting.metric,
        effect=effect,
        difference=difference,
        reached=float((clicked * np.abs(setting.values))[seen].sum()) / total if total else 0.0,
        covered_to=max((each for each, missed in zip(setting.cutoffs, hidden, strict=True) if not missed), default=0),
        unbiased=not (matters & ~seen).any(),
        uncovered=float(sizes[~seen].sum() / sizes.sum()) if sizes.any() else 0.0,
        bias=-float((clicked * setting.values)[~seen].sum()),
        confidence=setting.settings.confidence,
        power=power,
        clicks=float((clicked * rho).sum()),
        displayed=displayed,
        price=price,
        sampled_pages=sampled,
        arms=arms,
        rho=rho,
        spread=float(setting.frequencies @ centred**2) if within else 0.0,
        by_arm=by_arm,
    )


def _estimate(
    setting: _Comparison,
    arms: Sequence[Arm],
    sources: Sequence[PageSource],
    rhos: Sequence[FloatArray],
    attraction: FloatArray,
    values: Sequence[FloatArray],
    seed: Any,
) -> tuple[ExpectedEstimate, int]:
    """Of the sum over the page of click * value, with the values of the arm that shows it; and pages drawn.

    Var(Y) = sum over arms of share (Var(Y | arm) + E[Y | arm]^2) - E[Y]^2.
    """
    n = setting.data.n_queries
    means, squares, sampled = np.zeros((n, 1)), np.zeros((n, 1)), 0
    second = third = 0.0
    for arm, source, rho, own in zip(arms, sources, rhos, values, strict=True):
        found = session_moments(source, rho, setting.theta, attraction, own[:, None], seed)
        means += arm.share * found.means
        squares += arm.share * (found.variances + found.means**2)
        sampled = max(sampled, found.sampled_pages)
        clicked = arm.share * setting.often * attraction * rho
        second += float((clicked * own**2).sum())
        third += float((clicked * np.abs(own) ** 3).sum())
    value = float(setting.frequencies @ means[:, 0])
    falls, stays = variance_parts(setting.frequencies, means - value, squares - means**2, setting.settings)
    equal = second * (second / third) ** 2 if third > 0.0 else 0.0
    equal = equal if math.isfinite(equal) else 0.0
    return ExpectedEstimate(value, float(falls[0]), float(stays[0]), equal), sampled


def advise_comparison(plans: ComparisonPlans) -> list[str]:
    """Recommendations from the plans of a comparison, one sentence each, the most important first.

    >>> data = RankingData([[0.0], [0.0], [0.0]], offsets=[0, 3], labels=[0, 4, 0])
    >>> plans = plan_comparison(
    ...     data, [3.0, 2.0, 1.0], [1.0, 3.0, 2.0], [1.0, 0.5], k=2, metric="dcg@2",
    ...     policies={"deterministic:k=2": Deterministic(2)}, logopt=False
    ... )
    >>> for sentence in advise_comparison(plans):
    ...     print(sentence)
    B is expected to be ahead by 0.332 of DCG@2 per session, by labels.
    ab-test:k=2 decides with the fewest sessions, 51 (95 % confidence, power 80 %), with pages 29.2 % better in DCG@2.
    It costs users least in all, too.
    Analyse both arms of ab-test:k=2 together: on their own they need 310 sessions.
    deterministic:k=2 cannot decide by DCG@2, only by DCG@1: documents with 11.9 % of the difference are never examined.
    team-draft:k=2 cannot decide by DCG@2, only by DCG@1: documents with 11.9 % of the difference are never examined.
    """
    if not plans:
        raise CounterrankError("plans: none; expected at least one, as plan_comparison gives them")
    first = plans[0]
    metric, effect = metric_in_words(first.metric), first.effect
    kind = metric.partition("@")[0]
    if effect == 0.0:
        return [f"By {plans.guess} the two rankers are equal: no number of sessions decides; expected effect=."]
    ahead = plans.names[0] if effect > 0.0 else plans.names[1]
    sentences = [f"{ahead} is expected to be ahead by {abs(effect):.3g} of {metric} per session, by {plans.guess}."]
    quickest, cheapest = plans.recommended, plans.cheapest
    if quickest is None:
        sentences.append("No policy here decides: each misses a part of the difference, or needs too many sessions.")
    else:
        others = sum(plan.sessions is not None for plan in plans) > 1
        level = f"({100.0 * first.confidence:.4g} % confidence, power {100.0 * first.power:.4g} %)"
        fewest = f"with the fewest sessions, {quickest.sessions:,}" if others else f"in {quickest.sessions:,} sessions"
        sentences.append(f"{quickest.policy} decides {fewest} {level}{_at_price(quickest)}.")
        if cheapest is not None and others:
            sentences.append(
                "It costs users least in all, too."
                if cheapest is quickest
                else f"{cheapest.policy} costs users least in all: {cheapest.sessions:,} sessions{_at_price(cheapest)}."
            )
    for plan in plans:
        if plan.sessions_by_arm is not None:
            sentences.append(
                f"Analyse both arms of {plan.policy} together: on their own they need "
                f"{plan.sessions_by_arm:,} sessions."
            )
    knowing = [plan.policy for plan in plans if plan.policy.startswith("logopt") and plan.optimised_for == "labels"]
    if knowing:
        sentences.append(
            f"{knowing[0]} knows the labels here; with a relevance model from an earlier log in their place expect "
            "more sessions and a higher price."
        )
    for plan in plans:
        if not plan.unbiased:
            only = f", only by {kind}@{plan.covered_to}" if plan.covered_to else ""
            missed = f"documents with {percent(1.0 - plan.reached)} of the difference are never examined"
            sentences.append(
                f"{plan.policy} is nearly unbiased for {metric}: {missed}."
                if plan.decides
                else f"{plan.policy} cannot decide by {metric}{only}: {missed}."
            )
    return sentences


def _at_price(plan: ComparisonPlan) -> str:
    if plan.price is None:
        return ""
    if plan.price < 0.0:
        return f", with pages {percent(-plan.price)} better in {metric_in_words(plan.metric)}"
    return f", at a price of {percent(plan.price)} of {metric_in_words(plan.metric)}"
