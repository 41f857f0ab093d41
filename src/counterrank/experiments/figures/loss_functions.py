"""Figure 3 and its claims (Section 6.2 of the paper): losses for DCG@k, and unbiased selection among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

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
    beyond,
    clicks_text,
    plain_percent,
    within,
)
from counterrank.experiments.figure_registry import FigureSpec
from counterrank.experiments.figures.click_numbers import CLICKS_AXIS
from counterrank.experiments.run_folder import Run
from counterrank.experiments.settings import LOSSES
from counterrank.experiments.statistics import against
from counterrank.experiments.summary import ClaimResult, Figure, Panel, Point, Series, common_groups, over_runs

HINGE, LOGISTIC, TRUNCATED = "dcg-hinge", "dcg-logistic", "lambdaloss-truncated"
FULL_DCG, AT_K = "lambdaloss-dcg", "lambdaloss-dcg-at-k"
SELECTION = "selection"

FEW_CLICKS = 10**5
"""Below this clicks are few: so the paper says of the logistic bound."""

ENOUGH_CLICKS = 10**6
"""From here on a selection has enough of them. The paper gives no number; its mistakes are on the left of the plot."""


def _grid(make: CellFactory) -> Iterator[GridPoint]:
    policy = f"replace-last:k={make.settings.page}"
    for loss in make.settings.losses:
        for n in make.settings.clicks:
            yield make.aware(make.dcg, loss, n, loss, policy)
    yield from make.levels(make.dcg, DCG_LOSS)


def _with_selection(run: Run, points: Sequence[GridPoint], figure: Figure) -> Figure:
    """Adds the estimates on validation clicks, and in each run the loss with the best of them."""
    (true,) = figure.panels
    curves = [point for point in points if point.x is not None]
    estimate = Panel(
        "estimate",
        f"{true.name.upper()} estimated from validation clicks, per click-worthy document",
        series=run.curves(curves, lambda row: row.get("validation")),
        subtitle="from validation clicks that are not clipped",
        drawn_relative=True,
    )
    best = [_best_runs(estimate, i) for i in range(len(run.settings.clicks))]
    return replace(figure, panels=(_selected(true, best), _selected(estimate, best)))


def _best_runs(panel: Panel, place: int) -> list[int | None]:
    """In each run the curve with the largest value at a place of the grid; None where one of them is missing."""
    best: list[int | None] = []
    for values in zip(*(series.points[place].values for series in panel.series), strict=True):
        there = [value for value in values if value is not None]
        best.append(int(np.argmax(there)) if len(there) == len(values) else None)
    return best


def _selected(panel: Panel, best: Sequence[Sequence[int | None]]) -> Panel:
    """The panel with the curve of the losses that were best in each run."""
    points = []
    for place, runs in enumerate(best):
        at = [series.points[place] for series in panel.series]
        values = [None if i is None else at[i].values[run] for run, i in enumerate(runs)]
        chosen = tuple(None if i is None else panel.series[i].name for i in runs)
        points.append(replace(over_runs(values, at[0].x, _chosen_groups(at, runs)), chosen=chosen))
    return replace(panel, series=(*panel.series, Series(SELECTION, tuple(points))))


def _chosen_groups(points: Sequence[Point], best: Sequence[int | None]) -> FloatArray | None:
    """By group of test queries the values of the point that was best in each run."""
    groups = common_groups(points)
    if groups is None:
        return None
    by_run = [each.reshape(len(best), -1) for each in groups]
    blank = np.full(by_run[0].shape[1], np.nan)
    rows = [blank if i is None else by_run[i][run] for run, i in enumerate(best)]
    return np.array(rows).reshape(groups[0].shape)


def _others(loss: str) -> list[str]:
    return [other for other in LOSSES if other != loss]


def _conclude_at_the_end(
    figure: FigureValues,
    id: str,
    statement: str,
    one: str,
    others: Sequence[str],
    rule: Rule,
    *,
    only_long: bool = False,
) -> ClaimResult:
    """A claim on one loss against others with the most clicks; the paper makes some of them on long queries only."""
    panel = figure.panel("DCG@")
    lack = figure.criteria.not_long() if only_long else ""
    checks = [] if lack else panel.compare_at_the_end(one, others, rule)
    paper = "Section 6.2, Figure 3 (MSLR only)" if only_long else "Section 6.2, Figure 3"
    return figure.conclude(id, statement, paper, checks, lack=lack or panel.too_few_clicks())


def _differences(figure: FigureValues) -> ClaimResult:
    criteria, panel = figure.criteria, figure.panel("DCG@")
    margin, lack = criteria.margin, criteria.unknown_length()
    rule = within(margin) if criteria.short_queries else beyond(margin)
    pairs = [] if lack else combinations(LOSSES, 2)
    return figure.conclude(
        "losses-differ-where-queries-are-long",
        f"With the most clicks the losses differ by no more than {plain_percent(margin)} from each other where queries"
        f" are short, and some of them by more than {plain_percent(margin)} where they are long.",
        "Section 6.2, Figure 3 (short: Yahoo, long: MSLR)",
        [check for one, other in pairs for check in panel.compare_at_the_end(one, [other], rule)],
        lack=lack or panel.too_few_clicks(),
        somewhere=criteria.long_queries,
    )


def _no_advantage(figure: FigureValues) -> ClaimResult:
    margin = figure.criteria.margin
    statement = (
        "With the most clicks LambdaLoss for the cut DCG is not ahead of LambdaLoss for the full DCG by more than"
        f" {plain_percent(margin)}."
    )
    id = "no-advantage-of-lambdaloss-at-k"
    return _conclude_at_the_end(figure, id, statement, AT_K, [FULL_DCG], at_most(margin))


def _hinge_good(figure: FigureValues) -> ClaimResult:
    margin = figure.criteria.margin
    statement = (
        "With the most clicks the monotonic loss with the linear bound is behind no other loss by more than"
        f" {plain_percent(margin)}."
    )
    id = "hinge-monotonic-good-with-many-clicks"
    return _conclude_at_the_end(figure, id, statement, HINGE, _others(HINGE), at_least(-margin))


def _logistic_poor(figure: FigureValues) -> ClaimResult:
    margin = figure.criteria.margin
    statement = (
        "With the most clicks the monotonic loss with the logistic bound is more than"
        f" {plain_percent(margin)} behind the linear bound, and behind truncated LambdaLoss."
    )
    id, others = "logistic-monotonic-poor-with-many-clicks", [HINGE, TRUNCATED]
    return _conclude_at_the_end(figure, id, statement, LOGISTIC, others, at_most(-margin), only_long=True)


def _truncated_best(figure: FigureValues) -> ClaimResult:
    """A tie is best too: another loss has to be ahead by more than what is noticeable."""
    noticeable = figure.criteria.noticeable
    ahead = f"by more than {plain_percent(noticeable)}"
    statement = f"With the most clicks no other loss is ahead of truncated LambdaLoss {ahead}."
    others, rule = _others(TRUNCATED), at_least(-noticeable)
    return _conclude_at_the_end(figure, "truncated-lambdaloss-best", statement, TRUNCATED, others, rule)


def _like_supervised(figure: FigureValues) -> ClaimResult:
    margin = figure.criteria.margin
    near = f"within {plain_percent(margin)} of learning from labels, or better"
    statement = f"With the most clicks truncated LambdaLoss is {near}."
    id = "truncated-lambdaloss-like-supervised"
    return _conclude_at_the_end(figure, id, statement, TRUNCATED, [FULL], at_least(-margin))


def _few(panel: PanelValues) -> list[float]:
    return [clicks for clicks in panel.xs() if clicks < FEW_CLICKS]


def _no_few() -> str:
    return f"the grid has nothing below {clicks_text(FEW_CLICKS)} clicks"


def _logistic_first(figure: FigureValues) -> ClaimResult:
    """The mean over the grid, since at a hundred clicks no loss learns and all are alike."""
    panel = figure.panel("DCG@")
    few, rule = _few(panel), at_least(0.0, figure.criteria.noticeable)
    lack = figure.criteria.not_long() or ("" if few else _no_few())
    where, others = clicks_text(FEW_CLICKS), _others(LOGISTIC)
    checks = [] if lack else [panel.compare_means(LOGISTIC, other, few, where, rule) for other in others]
    return figure.conclude(
        "logistic-monotonic-best-with-few-clicks",
        f"Averaged over fewer than {clicks_text(FEW_CLICKS)} clicks, the monotonic loss with the logistic bound is"
        " ahead of every other loss.",
        "Section 6.2, Figure 3 (MSLR only)",
        checks,
        lack=lack,
    )


def _candidates(panel: PanelValues) -> list[str]:
    """The losses that were run, among which selection had to choose."""
    return [loss for loss in LOSSES if panel.points.get(loss)]


def _selects_well(figure: FigureValues) -> ClaimResult:
    """Against every loss by itself, not against the best: that one had luck in the very runs it is compared on.

    Nor against the best of each run: no selection could know the luck of the test queries.
    """
    margin, panel = figure.criteria.margin, figure.panel("DCG@")
    enough = [clicks for clicks in panel.xs() if clicks >= ENOUGH_CLICKS]
    checks = [
        Check(
            f"{panel.metric} of the selected loss against {loss} at {clicks_text(clicks)} clicks",
            against(panel.at(SELECTION, clicks), panel.at(loss, clicks)),
            at_least(-margin),
        )
        for clicks in enough
        for loss in _candidates(panel)
    ]
    return figure.conclude(
        "selection-best-with-enough-clicks",
        f"From {clicks_text(ENOUGH_CLICKS)} clicks on, the loss selected from clicks is behind none of the losses by"
        f" more than {plain_percent(margin)} on average.",
        "Section 6.2, Figure 3",
        checks,
        note=_picked(panel, enough),
        lack=panel.too_few_clicks(),
    )


def _selects_badly(figure: FigureValues) -> ClaimResult:
    noticeable, panel = figure.criteria.noticeable, figure.panel("DCG@")
    few, where = _few(panel), f"mean over fewer than {clicks_text(FEW_CLICKS)} clicks"
    checks = [
        Check(
            f"{panel.metric} of {loss} against the selected loss, {where}",
            against(panel.mean_over(loss, few), panel.mean_over(SELECTION, few)),
            at_least(noticeable),
        )
        for loss in _candidates(panel)
        if few
    ]
    return figure.conclude(
        "selection-errs-with-few-clicks",
        f"Averaged over fewer than {clicks_text(FEW_CLICKS)} clicks, there is a loss that is ahead of the selected one"
        f" by more than {plain_percent(noticeable)}.",
        "Section 6.2, Figure 3",
        checks,
        note=_picked(panel, few),
        lack=_no_few(),
        somewhere=True,
    )


def _best(panel: PanelValues, clicks: float) -> str | None:
    """The loss with the best mean over the runs that have all; None where there is no such run."""
    losses = _candidates(panel)
    values = np.array([panel.at(loss, clicks) for loss in losses]).reshape(len(losses), -1)
    whole = values[:, np.isfinite(values).all(axis=0)]
    return losses[int(np.argmax(whole.mean(axis=1)))] if whole.size else None


def _picked(panel: PanelValues, grid: list[float]) -> str:
    """How often that loss was chosen, for a reader."""
    chosen = [(_best(panel, clicks), loss) for clicks in grid for loss in panel.chosen.get(clicks, ())]
    made = [best == loss for best, loss in chosen if loss is not None]
    return f"the loss best on average was chosen {sum(made)} of {len(made)} times" if made else ""


FIGURE = FigureSpec(
    number=3,
    title="Losses, and unbiased selection among them",
    caption=(
        "Policy-aware learning with different losses, evaluated by the labels of the test set (left) and by clicks on "
        "validation queries (right). Rings mark the ranker selected by those clicks alone; the selection is good where "
        "the rings follow the upper edge of the lines on the left."
    ),
    x=CLICKS_AXIS,
    grid=_grid,
    complete=_with_selection,
    claims=(
        _differences,
        _no_advantage,
        _hinge_good,
        _logistic_poor,
        _truncated_best,
        _logistic_first,
        _selects_well,
        _selects_badly,
        _like_supervised,
    ),
)
