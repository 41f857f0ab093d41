"""What the paper leaves open (Section 5.2): how logging policies compare, Figure 4. The claims are our own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from counterrank.clicks.policies.parsing import parse_policy
from counterrank.clicks.policies.propensity import can_show_all
from counterrank.common.checks import FloatArray
from counterrank.experiments.claims.checks import Check, Rule, at_least, at_most
from counterrank.experiments.claims.click_numbers import many_clicks, needed_clicks, too_few
from counterrank.experiments.claims.conclusion import Claim, Setting, clicks_text, conclude, percent, plain_percent
from counterrank.experiments.claims.readings import FULL, Figure, Panel, against
from counterrank.experiments.claims.statistics import mean_interval

PAPER = "left open (Section 5.2)"

DEARER = 0.01
"""Two policies differ in what they cost users from one percentage point on. Where all runs share a production ranker
costs do not vary between them, and any difference at all would be a sure one."""


def policy_claims(figure: Figure, setting: Setting) -> list[dict[str, Any]]:
    """All claims on Figure 4."""
    return [_covering_arrive(figure, setting), _bare_stays(figure, setting), _price(figure, setting)]


def covers_all(policy: str) -> bool:
    """Whether a policy can show every document, by its name: a fixed page shows only those on top.

    >>> covers_all("replace-last:k=5"), covers_all("deterministic:k=5"), covers_all("epsilon-greedy:k=5,epsilon=0")
    (True, False, False)
    """
    return can_show_all(parse_policy(policy))


def _to_full(panel: Panel, policies: Iterable[str], rule: Rule) -> list[Check]:
    """Each policy against full-information with the most clicks."""
    return [
        Check(
            f"{panel.metric} under {policy} against {FULL} at {clicks_text(most)} clicks",
            against(panel.at(policy, most), panel.level(FULL)),
            rule,
        )
        for policy in policies
        for most in many_clicks(panel)
    ]


def _covering_arrive(figure: Figure, setting: Setting) -> dict[str, Any]:
    claim = Claim(
        "covering-policies-reach-full-information",
        f"With the most clicks policy-aware is within {plain_percent(setting.margin)} of full-information under every"
        " logging policy that can show all documents.",
        PAPER,
        own=True,
    )
    panel = figure.panel("DCG@")
    policies = tuple(filter(covers_all, panel.points))
    checks = _to_full(panel, policies, at_least(-setting.margin))
    lack = too_few(panel) if policies else "no policy that can show all documents was run"
    return conclude(claim, figure, checks, setting, note=needed_clicks(panel, policies, setting), lack=lack)


def _bare_stays(figure: Figure, setting: Setting) -> dict[str, Any]:
    claim = Claim(
        "deterministic-logging-stays-behind",
        f"Under a policy that never shows some documents, policy-aware stays more than {plain_percent(setting.margin)}"
        " below full-information even with the most clicks.",
        PAPER,
        own=True,
    )
    panel = figure.panel("DCG@")
    policies = [policy for policy in panel.points if not covers_all(policy)]
    checks = _to_full(panel, policies, at_most(-setting.margin))
    lack = too_few(panel) if policies else "no policy with fixed pages was run"
    return conclude(claim, figure, checks, setting, lack=lack)


def _price(figure: Figure, setting: Setting) -> dict[str, Any]:
    """The two ends of the scale of costs: one question with one answer, where a rank correlation of five is none."""
    claim = Claim(
        "cheaper-policies-need-more-clicks",
        "Of the policies that can show all documents, the one that costs users least is behind the one that costs them"
        " most, averaged over the numbers of clicks before the end of the grid.",
        PAPER,
        own=True,
    )
    panel, costs = figure.panel("DCG@"), _costs(figure)
    before = panel.xs()[:-1]
    if len(costs) < 2 or not before:
        lack = "fewer than two policies with a cost, or one number of clicks only"
        return conclude(claim, figure, [], setting, lack=lack)
    cheap, dear = min(costs, key=lambda policy: costs[policy]), max(costs, key=lambda policy: costs[policy])
    if not _surely_dearer(figure.panel("cost"), dear, cheap, setting):
        lack = f"{cheap} is not surely cheaper than {dear}, by {100 * DEARER:g} percentage point at least"
        return conclude(claim, figure, [], setting, lack=lack)
    ahead = against(panel.mean_over(dear, before), panel.mean_over(cheap, before))
    what = f"{panel.metric} under {dear} against {cheap}, mean over fewer than {clicks_text(panel.xs()[-1])} clicks"
    by_cost = sorted(costs, key=lambda policy: costs[policy])
    note = "cost to users: " + ", ".join(f"{policy} {percent(costs[policy]).lstrip('+')}" for policy in by_cost)
    checks = [Check(what, ahead, at_least(0.0, setting.noticeable))]
    return conclude(claim, figure, checks, setting, note=f"{note}; {needed_clicks(panel, tuple(by_cost), setting)}")


def _costs(figure: Figure) -> dict[str, float]:
    """What each policy that covers all documents takes from users: mean relative loss."""
    panel = figure.panel("cost")
    found = {policy: mean_interval(_cost(panel, policy)).value for policy in panel.points if covers_all(policy)}
    return {policy: cost for policy, cost in found.items() if cost is not None}


def _cost(panel: Panel, policy: str) -> FloatArray:
    """As it was measured: a loss, which a page that is better by chance may make negative."""
    return panel.sign * panel.at(policy, None)


def _surely_dearer(panel: Panel, dear: str, cheap: str, setting: Setting) -> bool:
    more = mean_interval(_cost(panel, dear) - _cost(panel, cheap), setting.confidence)
    return more.value is not None and more.low is not None and more.low > 0.0 and more.value >= DEARER
