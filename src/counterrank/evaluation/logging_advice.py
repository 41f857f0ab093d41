"""Recommendations from plans of logging, in sentences: which policy, how many sessions, at what price."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from counterrank.common.deprecation import renamed_argument
from counterrank.common.errors import CounterrankError
from counterrank.evaluation.confidence_intervals import LEAST_SAMPLE_SIZE
from counterrank.evaluation.planned_users import advise_users

if TYPE_CHECKING:
    from counterrank.evaluation.logging_plan import ExpectedLog, LoggingPlan

_ALL = 1.0 - 1e-12
_SAME = 1.05  # costs closer than this count as equal


def advise_logging(
    plans: Sequence[LoggingPlan],
    width: float | None = None,
    effective_sample_size: float | None = None,
    effective: float | None = None,
) -> list[str]:
    """Recommendations from plans, one sentence each, the most important first.

    Policies that can never show some candidate are named, and not recommended while there are others. Prices of
    policies that need different numbers of sessions are compared by price * sessions: as if that many sessions had
    shown nothing relevant.

    Arguments:
        plans: of one metric and the same numbers of sessions.
        width: of the confidence interval to reach.
        effective_sample_size: to reach.
        effective: deprecated name of `effective_sample_size`.

    >>> from counterrank import RankingData, policies
    >>> from counterrank.evaluation import plan_logging
    >>> data = RankingData([[0.0], [0.0], [0.0]], offsets=[0, 3], labels=[0, 4, 0])
    >>> chosen = {"deterministic:k=2": policies.Deterministic(2), "replace-last:k=2": policies.ReplaceLast(2)}
    >>> plans = plan_logging(data, [3.0, 2.0, 1.0], chosen, [1.0, 0.5], metric="dcg@2")
    >>> for sentence in advise_logging(plans, effective_sample_size=1000):
    ...     print(sentence)
    For an effective sample size of 1,000, replace-last:k=2 needs 3,125 sessions at a price of 50.0 % of DCG@2.
    Logs of replace-last:k=2 cannot tell how users click: too few documents are shown at several ranks.
    deterministic:k=2 can never show 33.3 % of the candidates: its clicks do not cover them.
    """
    size = renamed_argument(effective_sample_size, effective, "effective_sample_size", "effective")
    if not plans:
        raise CounterrankError("plans: none; expected at least one, as plan_logging gives them")
    covering = [plan for plan in plans if plan.covered >= _ALL]
    chosen = covering or list(plans)
    sentences = []
    if width is not None:
        goal = f"For a confidence interval of {metric_in_words(plans[0].metric)} no wider than {width:g}"
        sentences += _cheapest(chosen, goal, lambda plan: plan.sessions_for_width(width)) or [
            _out_of_reach(chosen, goal)
        ]
    if size is not None:
        goal = f"For an effective sample size of {size:,g}"
        sentences += _cheapest(chosen, goal, lambda plan: plan.sessions_for_effective(size)) or [
            f"{goal}: no policy here gets any clicks."
        ]
    if width is None and size is None:
        sentences += _with_most_sessions(chosen)
    return sentences + advise_users(plans, covering) + _not_covering(plans)


def metric_in_words(metric: str) -> str:
    """The name of a metric.

    >>> metric_in_words("dcg@5"), metric_in_words("precision@5")
    ('DCG@5', 'precision@5')
    """
    return metric.upper() if metric.startswith("dcg") else metric


def _cheapest(plans: Sequence[LoggingPlan], goal: str, needs: Callable[[LoggingPlan], int | None]) -> list[str]:
    """The policy with the fewest sessions, and the one that costs least in all if that is another."""
    sessions = [(needs(plan), plan) for plan in plans]
    able = [(n, plan) for n, plan in sessions if n is not None]
    if not able:
        return []
    n, quickest = min(able, key=lambda pair: pair[0])
    price = _at_price(quickest)
    comma = "," if price and not price.startswith(",") else ""
    many = f"the fewest sessions, {n:,}{comma}" if len(able) > 1 else f"{n:,} sessions"
    sentences = [f"{goal}, {quickest.policy} needs {many}{price}."]
    # better pages are no reason to show more of them than needed
    priced = [(m, plan, max(plan.price, 0.0) * m) for m, plan in able if plan.price is not None]
    if len(able) == 1 or not priced:
        return sentences
    least = min(lost for _, _, lost in priced)
    # of policies that cost about the same, the one that is done first
    m, cheapest, lost = min((row for row in priced if row[2] <= _SAME * least), key=lambda row: (row[0], row[2]))
    if cheapest is quickest:
        return [*sentences, "It costs least in all, too."]
    total = f", as if {lost:,.0f} sessions had shown nothing relevant" if lost > 0 else ""
    return [*sentences, f"{cheapest.policy} costs least in all: {m:,} sessions{_at_price(cheapest)}{total}."]


def _at_price(plan: LoggingPlan) -> str:
    if plan.price is None:
        return ""
    if plan.price < 0.0:
        return f", with pages {percent(-plan.price)} better in {metric_in_words(plan.metric)}"
    return f" at a price of {percent(plan.price)} of {metric_in_words(plan.metric)}"


def percent(share: float) -> str:
    """A share in percent.

    >>> percent(0.126), percent(0.00126)
    ('12.6 %', '0.13 %')
    """
    return f"{100.0 * share:.2g} %" if share < 0.01 else f"{100.0 * share:.1f} %"


def _out_of_reach(plans: Sequence[LoggingPlan], goal: str) -> str:
    floors = [plan.ips.width(10**18, plan.confidence) for plan in plans]
    known = [floor for floor in floors if floor is not None]
    if not known:
        return f"{goal}: no policy here gets any clicks."
    return f"{goal} more queries are needed: with these the width stays above {min(known):.3g}, whatever the sessions."


def _with_most_sessions(plans: Sequence[LoggingPlan]) -> list[str]:
    """The largest effective sample size with the most sessions planned for, and the cheapest that is large enough."""
    able = [
        (plan, plan.expected[-1])
        for plan in plans
        if plan.expected and plan.expected[-1].effective_sample_size >= LEAST_SAMPLE_SIZE
    ]
    if not able:
        return [f"No policy here has an effective sample size of {LEAST_SAMPLE_SIZE:g}: plan for more sessions."]
    best, at = max(able, key=lambda pair: pair[1].effective_sample_size)
    sentences = [
        f"With {at.sessions:,} sessions {best.policy} has the largest effective sample size, {_brings(best, at)}."
    ]
    priced = [(plan.price, plan, then) for plan, then in able if plan.price is not None]
    if priced:
        _, plan, then = min(priced, key=lambda row: row[0])
        if plan is not best:
            least = f"{plan.policy} is the cheapest of those with a size of at least {LEAST_SAMPLE_SIZE:g}"
            sentences.append(f"{least}: {_brings(plan, then)}.")
    return sentences


def _brings(plan: LoggingPlan, at: ExpectedLog) -> str:
    width = (
        ""
        if at.ips_width is None or at.is_doubtful
        else f", a confidence interval of {metric_in_words(plan.metric)} {at.ips_width:.3g} wide"
    )
    return f"{at.effective_sample_size:,.0f}{width}{_at_price(plan)}"


def _not_covering(plans: Sequence[LoggingPlan]) -> list[str]:
    sentences = []
    for plan in plans:
        if plan.covered < _ALL:
            unseen, missed = percent(1.0 - plan.covered), percent(1.0 - plan.reached)
            text = f"{plan.policy} can never show {unseen} of the candidates: its clicks do not cover them"
            if plan.is_biased:
                text += f", and the estimate is biased: it misses {missed} of the metric, whatever its width"
            sentences.append(text + ".")
    return sentences
