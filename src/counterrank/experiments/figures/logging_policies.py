"""Figure 4 and its claims: logging policies, and their cost to users. The paper leaves this open (Section 5.2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from counterrank.clicks.policies.parsing import parse_policy
from counterrank.clicks.policies.propensity import can_show_all
from counterrank.common.checks import FloatArray
from counterrank.experiments.cells import DCG_LOSS, CellFactory, GridPoint
from counterrank.experiments.claims import (
    FULL,
    Check,
    FigureValues,
    PanelValues,
    Rule,
    at_least,
    at_most,
    clicks_text,
    percent,
    plain_percent,
)
from counterrank.experiments.figure_registry import FigureSpec
from counterrank.experiments.figures.click_numbers import CLICKS_AXIS
from counterrank.experiments.run_folder import Run
from counterrank.experiments.statistics import against, mean_interval
from counterrank.experiments.summary import ClaimResult, Figure, Panel, Series, over_runs

PAPER = "left open (Section 5.2)"

DEARER = 0.01
"""Two policies differ in their cost to users from one percentage point on. Where all runs share a production ranker
costs do not vary between them, and any difference at all would be a sure one."""


def _grid(make: CellFactory) -> Iterator[GridPoint]:
    for policy in make.settings.logging_policies():
        for n in make.settings.clicks:
            yield make.aware(make.dcg, policy, n, DCG_LOSS, policy)
    yield from make.levels(make.dcg, DCG_LOSS)


def _with_cost(run: Run, points: Sequence[GridPoint], figure: Figure) -> Figure:
    """Adds how much worse the pages are that users see while clicks are logged."""
    series = []
    for policy in run.settings.logging_policies():
        # pages depend on the policy and the production ranker, not on how many of them are shown
        cells = next(point.cells for point in points if point.series == policy)
        shown = run.over_runs(cells, lambda row: row["pages"]["shown"])
        plain = run.over_runs(cells, lambda row: row["pages"]["unrandomised"])
        losses = [
            None if one is None or not other else 1.0 - one / other
            for one, other in zip(shown.values, plain.values, strict=True)
        ]
        point = replace(over_runs(losses), shown=shown.mean, unrandomised=plain.mean)
        series.append(Series(policy, (point,)))
    cost = Panel(
        "cost",
        f"Loss in DCG@{run.settings.cutoff} of the displayed pages while logging",
        lower_is_better=True,
        series=tuple(series),
        subtitle="against the same page without randomisation",
        unit="Share lost",
    )
    return replace(figure, panels=(*figure.panels, cost))


def covers_all(policy: str) -> bool:
    """Whether a policy can show every document, by its name: a fixed page shows only those on top.

    >>> covers_all("replace-last:k=5"), covers_all("deterministic:k=5"), covers_all("epsilon-greedy:k=5,epsilon=0")
    (True, False, False)
    """
    return can_show_all(parse_policy(policy))


def _to_full(panel: PanelValues, policies: Iterable[str], rule: Rule) -> list[Check]:
    """Each policy against full-information with the most clicks."""
    return [
        Check(
            f"{panel.metric} under {policy} against {FULL} at {clicks_text(most)} clicks",
            against(panel.at(policy, most), panel.at(FULL, most)),
            rule,
        )
        for policy in policies
        for most in panel.many_clicks()
    ]


def _covering_arrive(figure: FigureValues) -> ClaimResult:
    margin, panel = figure.criteria.margin, figure.panel("DCG@")
    policies = tuple(filter(covers_all, panel.points))
    checks = _to_full(panel, policies, at_least(-margin))
    lack = panel.too_few_clicks() if policies else "no policy that can show all documents was run"
    return figure.conclude(
        "covering-policies-reach-full-information",
        f"With the most clicks policy-aware is within {plain_percent(margin)} of full-information under every"
        " logging policy that can show all documents.",
        PAPER,
        checks,
        note=panel.needed_clicks(policies, margin),
        lack=lack,
        own=True,
    )


def _deterministic_stays(figure: FigureValues) -> ClaimResult:
    margin, panel = figure.criteria.margin, figure.panel("DCG@")
    policies = [policy for policy in panel.points if not covers_all(policy)]
    lack = panel.too_few_clicks() if policies else "no policy with fixed pages was run"
    return figure.conclude(
        "deterministic-logging-stays-behind",
        f"Under a policy that never shows some documents, policy-aware stays more than {plain_percent(margin)}"
        " below full-information even with the most clicks.",
        PAPER,
        _to_full(panel, policies, at_most(-margin)),
        lack=lack,
        own=True,
    )


def _price(figure: FigureValues) -> ClaimResult:
    """The two ends of the scale of costs: one question with one answer, where a rank correlation of five is none."""
    panel, costs, criteria = figure.panel("DCG@"), _costs(figure), figure.criteria
    before, by_cost = panel.xs()[:-1], sorted(costs, key=lambda policy: costs[policy])
    checks, note, lack = [], "", "fewer than two policies with a cost, or one number of clicks only"
    if len(costs) > 1 and before:
        cheap, dear = by_cost[0], max(costs, key=lambda policy: costs[policy])
        lack = f"{cheap} is not surely cheaper than {dear}, by {100 * DEARER:g} percentage point at least"
        if _surely_dearer(figure, dear, cheap):
            where = f"mean over fewer than {clicks_text(panel.xs()[-1])} clicks"
            ahead = against(panel.mean_over(dear, before), panel.mean_over(cheap, before))
            rule = at_least(0.0, criteria.noticeable)
            checks = [Check(f"{panel.metric} under {dear} against {cheap}, {where}", ahead, rule)]
            listed = ", ".join(f"{policy} {percent(costs[policy]).lstrip('+')}" for policy in by_cost)
            note = f"cost to users: {listed}; {panel.needed_clicks(by_cost, criteria.margin)}"
    return figure.conclude(
        "cheaper-policies-need-more-clicks",
        "Of the policies that can show all documents, the one that costs users least is behind the one that costs them"
        " most, averaged over the numbers of clicks before the end of the grid.",
        PAPER,
        checks,
        note=note,
        lack=lack,
        own=True,
    )


def _costs(figure: FigureValues) -> dict[str, float]:
    """The mean relative loss under each policy that covers all documents."""
    panel = figure.panel("cost")
    found = {policy: mean_interval(_cost(panel, policy)).value for policy in panel.points if covers_all(policy)}
    return {policy: cost for policy, cost in found.items() if cost is not None}


def _cost(panel: PanelValues, policy: str) -> FloatArray:
    """As it was measured: a loss, which a page that is better by chance may make negative."""
    return panel.sign * panel.at(policy, None)


def _surely_dearer(figure: FigureValues, dear: str, cheap: str) -> bool:
    panel = figure.panel("cost")
    more = mean_interval(_cost(panel, dear) - _cost(panel, cheap), figure.criteria.confidence)
    return more.value is not None and more.low is not None and more.low > 0.0 and more.value >= DEARER


FIGURE = FigureSpec(
    number=4,
    title="Logging policies, and their cost while logging",
    caption=(
        "The lines show what policy-aware learning makes of clicks logged under each policy, the dots what users lose "
        "while the log is gathered. A good policy has a high line and a dot near zero."
    ),
    x=CLICKS_AXIS,
    grid=_grid,
    complete=_with_cost,
    claims=(_covering_arrive, _deterministic_stays, _price),
)
