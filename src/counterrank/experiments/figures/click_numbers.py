"""Figure 2 and its claims (Section 6.1 of the paper): the effect of the number of clicks, on pages of five."""

from __future__ import annotations

from collections.abc import Iterator

from counterrank.common.checks import FloatArray
from counterrank.experiments.cells import CellFactory, GridPoint
from counterrank.experiments.claims import (
    FULL,
    Check,
    FigureValues,
    PanelValues,
    at_least,
    at_most,
    clicks_text,
    plain_percent,
    within,
)
from counterrank.experiments.figure_registry import FigureSpec
from counterrank.experiments.figures.page_size import ALL_BASELINES, AWARE
from counterrank.experiments.statistics import against
from counterrank.experiments.summary import Axis, ClaimResult

NO_CUTOFF = "no-cutoff"
CLICKS_AXIS = Axis("clicks", "Clicks", log=True)

STABLE_CLICKS = 10**5
"""From here on the paper sees the baselines converged."""

STABLE_CLICKS_RERANK_ARP = 10**6
"""Rerank, optimised for ARP, converges later."""

DECADE = 10
"""Between convergence and the end of the grid clicks have to grow tenfold, or nothing can be seen to stop."""


def _grid(make: CellFactory) -> Iterator[GridPoint]:
    """Without a cutoff all estimators are the same."""
    for panel, loss in make.panels:
        for n in make.settings.clicks:
            yield from make.estimators(panel, loss, n, page=make.settings.page, clicks=n)
            yield make.point(
                panel, NO_CUTOFF, n, estimator="policy-oblivious", loss=loss, policy="deterministic", clicks=n
            )
        yield from make.levels(panel, loss)


def _late_gains(panel: PanelValues, start: float) -> list[tuple[float, float]]:
    """(first, last) numbers of clicks between which late gains are measured; none where the grid is too short."""
    late = [clicks for clicks in panel.xs() if clicks >= start]
    return [(late[0], late[-1])] if late and late[-1] >= DECADE * late[0] else []


def _gain(panel: PanelValues, series: str, first: float, last: float) -> FloatArray:
    return against(panel.at(series, last), panel.at(series, first))


def _gain_text(panel: PanelValues, series: str, first: float, last: float) -> str:
    return f"{panel.metric} gained by {series} from {clicks_text(first)} to {clicks_text(last)} clicks"


def _converged_from(panel: PanelValues, series: str) -> float:
    """From how many clicks on the paper sees a baseline converged."""
    slow = series.startswith("rerank") and panel.metric == "ARP"
    return STABLE_CLICKS_RERANK_ARP if slow else STABLE_CLICKS


def _no_decade() -> str:
    return f"the grid does not span a decade of clicks beyond {clicks_text(STABLE_CLICKS)}"


def _baselines_stop(figure: FigureValues) -> ClaimResult:
    margin = figure.criteria.margin
    checks = [
        Check(_gain_text(panel, series, *ends), _gain(panel, series, *ends), at_most(margin))
        for panel in figure.compared
        for series in ALL_BASELINES
        for ends in _late_gains(panel, _converged_from(panel, series))
    ]
    return figure.conclude(
        "baselines-stop-improving",
        f"Beyond {clicks_text(STABLE_CLICKS)} clicks ({clicks_text(STABLE_CLICKS_RERANK_ARP)} for the ARP of rerank)"
        f" more clicks improve the baselines by no more than {plain_percent(margin)}.",
        "Section 6.1, Figure 2",
        checks,
        lack=_no_decade(),
    )


def _aware_goes_on(figure: FigureValues) -> ClaimResult:
    checks, rule = [], at_least(0.0, figure.criteria.noticeable)
    for panel in figure.compared:
        for ends in _late_gains(panel, STABLE_CLICKS):
            checks.append(Check(_gain_text(panel, AWARE, *ends), _gain(panel, AWARE, *ends), rule))
        for series in ALL_BASELINES:
            for ends in _late_gains(panel, _converged_from(panel, series)):
                more = _gain(panel, AWARE, *ends) - _gain(panel, series, *ends)
                checks.append(Check(f"{_gain_text(panel, AWARE, *ends)}, less that of {series}", more, rule))
    return figure.conclude(
        "aware-goes-on-improving",
        f"Policy-aware still gains from clicks beyond {clicks_text(STABLE_CLICKS)}, and more than every baseline does"
        f" (beyond {clicks_text(STABLE_CLICKS_RERANK_ARP)} for the ARP of rerank).",
        "Section 6.1, Figure 2",
        checks,
        lack=_no_decade(),
    )


def _too_few(figure: FigureValues) -> str:
    return figure.compared[0].too_few_clicks() if figure.compared else ""


def _aware_arrives(figure: FigureValues) -> ClaimResult:
    margin = figure.criteria.margin
    checks = [c for panel in figure.compared for c in panel.compare_at_the_end(AWARE, [FULL], at_least(-margin))]
    return figure.conclude(
        "aware-reaches-full-information",
        f"With the most clicks policy-aware is within {plain_percent(margin)} of full-information, or better.",
        "Section 6.1, Figure 2",
        checks,
        lack=_too_few(figure),
    )


def _equals_no_cutoff(figure: FigureValues) -> ClaimResult:
    margin = figure.criteria.margin
    checks = [c for panel in figure.compared for c in panel.compare_at_the_end(AWARE, [NO_CUTOFF], within(margin))]
    return figure.conclude(
        "aware-equals-no-cutoff",
        "With the most clicks policy-aware, from cut pages, and learning from pages without cutoff differ by no"
        f" more than {plain_percent(margin)}.",
        "Section 6.1, Figure 2",
        checks,
        lack=_too_few(figure),
    )


def _needs_more(figure: FigureValues) -> ClaimResult:
    """A mean over the grid nets out curves that cross, and is one check rather than one at each point."""
    checks, notes, rule = [], [], at_least(0.0, figure.criteria.noticeable)
    for panel in figure.compared:
        before = panel.xs()[:-1]
        if before:
            checks.append(panel.compare_means(NO_CUTOFF, AWARE, before, clicks_text(panel.xs()[-1]), rule))
            notes.append(panel.needed_clicks((NO_CUTOFF, AWARE), figure.criteria.margin))
    return figure.conclude(
        "aware-needs-more-clicks",
        "Before the end of the grid, averaged over its numbers of clicks, policy-aware is behind learning without"
        " cutoff: it needs more clicks.",
        "Section 6.1, Figure 2",
        checks,
        note="; ".join(notes),
        lack="the grid has one number of clicks only",
    )


FIGURE = FigureSpec(
    number=2,
    title="Effect of the number of clicks",
    caption=(
        "Each point is a ranker learned from that many clicks. A line that levels off away from full information is "
        "biased: more clicks do not help it. With no cutoff all is shown, so there is no selection bias to remove."
    ),
    x=CLICKS_AXIS,
    grid=_grid,
    claims=(
        _baselines_stop,
        _aware_goes_on,
        _aware_arrives,
        _equals_no_cutoff,
        _needs_more,
    ),
)
