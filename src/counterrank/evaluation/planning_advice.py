"""What plans say, in words: which policy, how many sessions, at what price."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from counterrank.common.errors import CounterrankError
from counterrank.evaluation.logging_plan import LoggingPlan

_ALL = 1.0 - 1e-12


def advise(plans: Sequence[LoggingPlan], width: float | None = None, effective: float | None = None) -> list[str]:
    """Sentences computed from plans, the most important first.

    Policies that can never show some candidate are named, and not recommended while there are others. Prices of
    policies that need different numbers of sessions are compared by price * sessions: as if that many sessions had
    shown nothing relevant.

    Arguments:
        plans: of one metric and the same numbers of sessions.
        width: of the interval, if one is wanted.
        effective: sample size, if one is wanted.

    >>> from counterrank import RankingData, policies
    >>> from counterrank.evaluation import plan_logging
    >>> data = RankingData([[0.0], [0.0], [0.0]], offsets=[0, 3], labels=[0, 4, 0])
    >>> chosen = {"deterministic:k=2": policies.Deterministic(2), "replace-last:k=2": policies.ReplaceLast(2)}
    >>> plans = plan_logging(data, [3.0, 2.0, 1.0], chosen, [1.0, 0.5], metric="dcg@2")
    >>> for sentence in advise(plans, effective=1000):
    ...     print(sentence)
    For an effective sample size of 1,000, replace-last:k=2 needs 3,125 sessions at a price of 50.0 % of DCG@2.
    deterministic:k=2 can never show 33.3 % of the candidates: its clicks say nothing about them.
    """
    if not plans:
        raise CounterrankError("plans: none; expected at least one, as plan_logging gives them")
    covering = [plan for plan in plans if plan.covered >= _ALL]
    chosen = covering or list(plans)
    said = []
    if width is not None:
        wanted = f"For an interval of {_metric(plans[0])} no wider than {width:g}"
        said += _cheapest(chosen, wanted, lambda plan: plan.sessions_for_width(width)) or [
            _out_of_reach(chosen, wanted)
        ]
    if effective is not None:
        wanted = f"For an effective sample size of {effective:,g}"
        said += _cheapest(chosen, wanted, lambda plan: plan.sessions_for_effective(effective)) or [
            f"{wanted}: no policy here gets any clicks."
        ]
    if width is None and effective is None:
        said += _at_most_sessions(chosen)
    return said + _not_covering(plans)


def _metric(plan: LoggingPlan) -> str:
    return plan.metric.upper() if plan.metric.startswith("dcg") else plan.metric


def _cheapest(plans: Sequence[LoggingPlan], wanted: str, needs: Callable[[LoggingPlan], int | None]) -> list[str]:
    """The policy with the fewest sessions, and the one that costs least in all if that is another."""
    sessions = [(needs(plan), plan) for plan in plans]
    able = [(n, plan) for n, plan in sessions if n is not None]
    if not able:
        return []
    n, quickest = min(able, key=lambda pair: pair[0])
    many = f"the fewest sessions, {n:,}," if len(able) > 1 else f"{n:,} sessions"
    said = [f"{wanted}, {quickest.policy} needs {many}{_at_price(quickest)}".rstrip(",") + "."]
    priced = [(m, plan, plan.price * m) for m, plan in able if plan.price is not None]
    if len(able) == 1 or not priced:
        return said
    m, cheapest, lost = min(priced, key=lambda row: row[2])
    if cheapest is quickest:
        return [*said, "It costs least in all, too."]
    total = f", as if {lost:,.0f} sessions had shown nothing relevant" if lost > 0 else ""
    return [*said, f"{cheapest.policy} costs least in all: {m:,} sessions{_at_price(cheapest)}{total}."]


def _at_price(plan: LoggingPlan) -> str:
    if plan.price is None:
        return ""
    if plan.price < 0.0:
        return f", with pages {-plan.price:.1%}".replace("%", " %") + f" better in {_metric(plan)}"
    return f" at a price of {plan.price:.1%}".replace("%", " %") + f" of {_metric(plan)}"


def _out_of_reach(plans: Sequence[LoggingPlan], wanted: str) -> str:
    floors = [plan.ips.width(10**18, plan.confidence) for plan in plans]
    told = [floor for floor in floors if floor is not None]
    if not told:
        return f"{wanted}: no policy here gets a click that would tell."
    return (
        f"{wanted} there must be more queries: with these the width stays above {min(told):.3g}, whatever the sessions."
    )


def _at_most_sessions(plans: Sequence[LoggingPlan]) -> list[str]:
    """The narrowest interval with the most sessions planned for, and the cheapest policy."""
    last = [(plan, plan.expected[-1]) for plan in plans if plan.expected]
    safe = [(plan, at, at.ips_width) for plan, at in last if at.ips_width is not None and not at.is_doubtful]
    if not safe:
        return ["With these numbers of sessions no interval can be trusted: too few clicks decide; plan for more."]
    plan, at, width = min(safe, key=lambda row: row[2])
    said = [
        f"With {at.sessions:,} sessions {plan.policy} gives the narrowest interval of {_metric(plan)}, {width:.3g} "
        f"wide, and an effective sample size of {at.effective_sample_size:,.0f}{_at_price(plan)}."
    ]
    priced = [(other.price, other, then, wide) for other, then, wide in safe if other.price is not None]
    if priced:
        _, other, then, wide = min(priced, key=lambda row: row[0])
        if other is not plan:
            said.append(
                f"{other.policy} is the cheapest: {wide:.3g} wide, effective sample size "
                f"{then.effective_sample_size:,.0f}{_at_price(other)}."
            )
    return said


def _not_covering(plans: Sequence[LoggingPlan]) -> list[str]:
    said = []
    for plan in plans:
        if plan.covered < _ALL:
            missing = f"{1.0 - plan.covered:.1%}".replace("%", " %")
            text = f"{plan.policy} can never show {missing} of the candidates: its clicks say nothing about them"
            if plan.reached < _ALL:
                missed = f"{1.0 - plan.reached:.1%}".replace("%", " %")
                text += f", and the estimate misses {missed} of what it is to find, whatever its width"
            said.append(text + ".")
    return said
