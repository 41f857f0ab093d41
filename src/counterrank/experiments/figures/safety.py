"""Figure 6 and its claims, our own: what keeps a ranker that learned from clicks from being worse than production.

Each method learns from the same clicks of pages that a Plackett-Luce policy drew by production's scores, of honest
users and of inverted ones, who click on irrelevant documents as they would on relevant ones and the reverse.

    unsafe, exposure-risk, prpo     a Plackett-Luce policy without and with a limit on exposure; against the policy
                                    that made the log
    auto, blend, gate               a ranking by `auto`, untested, blended with production, and tested on held-out
                                    sessions; against production's ranking

DCG is the expected one of a policy, and that of a ranking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from counterrank.common.checks import FloatArray
from counterrank.experiments.cells import DCG_LOSS, CellFactory, GridPoint, Row
from counterrank.experiments.claims import (
    Check,
    FigureValues,
    PanelValues,
    Rule,
    at_least,
    at_most,
    clicks_text,
    plain_percent,
)
from counterrank.experiments.figure_registry import FigureSpec
from counterrank.experiments.run_folder import Run
from counterrank.experiments.safety_cells import HIGH, LOGGING, LOSS, LOW, RISKS
from counterrank.experiments.statistics import against, mean_interval
from counterrank.experiments.summary import Axis, ClaimResult, Figure, Panel

NUMBER = 6
AUTO, PRODUCTION = "auto", "production"
HONEST, INVERTED = "honest clicks", "inverted clicks"
PAPER = "beyond the paper"

FEW_SESSIONS = 10**3
"""Up to here sessions are few."""

MANY_SESSIONS = 10**6
"""A grid that ends before this does not show what many sessions do."""

KEPT = 0.05
"""So much of the exposure may lie outside of limits that are kept."""

_MOVED, _WEIGHT = "exposure", "weight"


def _grid(make: CellFactory) -> Iterator[GridPoint]:
    """The methods at each number of sessions, with honest and with inverted clicks."""
    page = make.settings.page
    policy = f"plackett-luce:k={page},temperature=1"
    for users in (HONEST, INVERTED):
        panel = f"{make.dcg}, {users}"
        for method in make.settings.methods:
            limited = method in RISKS
            for n in make.settings.sessions:
                yield make.point(
                    panel,
                    method,
                    n,
                    estimator="policy-aware" if limited else AUTO,
                    loss=LOSS if limited else DCG_LOSS,
                    policy=policy,
                    page=page,
                    sessions=n,
                    clip="none",
                    method=method,
                    inverted=users == INVERTED,
                )
        yield make.point(
            panel, LOGGING, None, estimator=PRODUCTION, loss=LOSS, policy=policy, page=page, method=LOGGING
        )
        yield from make.levels(panel, DCG_LOSS)


def _complete(run: Run, points: Sequence[GridPoint], figure: Figure) -> Figure:
    """For each kind of users the metric, with the curve of `auto`; the exposure that moved; the new ranker's weight."""
    panels: list[Panel] = []
    for panel in figure.panels:
        mine = [point for point in points if point.panel == panel.name and point.x is not None]
        metric, _, users = panel.name.partition(", ")
        panels += [_with_auto(run, mine, panel, metric), _moved(run, mine, users), _weights(run, mine, users)]
    return replace(figure, panels=tuple(panels))


def _with_auto(run: Run, points: Sequence[GridPoint], panel: Panel, metric: str) -> Panel:
    """The new rankers of which blends are made, as a curve of their own: `auto` of all sessions, untested."""

    def read(row: Row) -> float | None:
        return row["metrics"].get(f"new {metric}")

    found = [replace(point, series=AUTO) for point in points if point.series == "blend"]
    return replace(panel, loss=None, series=(*panel.series, *run.curves(found, read, f"new {metric}")))


def _moved(run: Run, points: Sequence[GridPoint], users: str) -> Panel:
    """How much exposure on training queries lies outside the limits of PRPO."""

    def read(row: Row) -> float | None:
        return row["exposure"]["above"] + row["exposure"]["below"] if "exposure" in row else None

    series = run.curves([point for point in points if point.series in RISKS], read)
    label = f"Exposure outside {LOW:g} to {HIGH:g} times the logging policy's"
    return Panel(f"{_MOVED}, {users}", label, True, series=series, subtitle=f"{users}, training queries")


def _weights(run: Run, points: Sequence[GridPoint], users: str) -> Panel:
    """How much of the new ranker is served: the share of runs that passed the test, the mean weight of the blend."""

    def read(row: Row) -> float | None:
        return row["served"]["weight"] if "served" in row else None

    curves = run.curves([point for point in points if point.series not in RISKS], read)
    # a share of a few runs has no interval of Student's
    series = tuple(
        replace(curve, points=tuple(replace(point, low=None, high=None) for point in curve.points)) for curve in curves
    )
    return Panel(f"{_WEIGHT}, {users}", "Weight of the new ranker", series=series, subtitle=f"{users}, mean over runs")


def _base(method: str) -> str:
    """What a method is not to be worse than."""
    return LOGGING if method in RISKS else PRODUCTION


def _gain(panel: PanelValues, method: str, size: float, rule: Rule) -> Check:
    return panel.compare(method, _base(method), size, f"{clicks_text(size)} sessions", rule)


def _last(panel: PanelValues) -> list[float]:
    """The largest number of sessions, where it is many."""
    return [size for size in panel.xs()[-1:] if size >= MANY_SESSIONS]


def _conclude(
    figure: FigureValues, id: str, statement: str, checks: Iterable[Check], needed: Iterable[str], note: str = ""
) -> ClaimResult:
    panel = figure.panel("DCG@")
    missing = [name for name in needed if name not in panel.points]
    lack = f"{missing[0]} is not among the methods" if missing else ""
    listed = [] if missing else list(checks)
    return figure.conclude(
        id, statement, PAPER, listed, note=note, lack=lack or "the grid lacks the sessions for it", own=True
    )


def _not_below(method: str, figure: FigureValues) -> ClaimResult:
    panel, margin = _dcg(figure, HONEST), figure.criteria.margin
    checks = [_gain(panel, method, size, at_least(-margin)) for size in panel.xs(method)]
    return _conclude(
        figure,
        f"{method}-not-below-{_base(method).replace(' ', '-')}",
        f"Honest clicks: at no number of sessions {method} is more than {plain_percent(margin)} below "
        f"{_the(_base(method))}.",
        checks,
        [method],
    )


def _the(base: str) -> str:
    return "the logging policy" if base == LOGGING else base


def _dcg(figure: FigureValues, users: str) -> PanelValues:
    """The panel of the metric with these users; empty where there is none."""
    found = (panel for panel in figure.panels if panel.metric.startswith("DCG@") and panel.metric.endswith(users))
    return next(found, PanelValues("DCG"))


def _unsafe(figure: FigureValues) -> ClaimResult:
    panel = _dcg(figure, HONEST)
    checks = [_gain(panel, "unsafe", size, at_most(0.0)) for size in panel.xs("unsafe") if size <= FEW_SESSIONS]
    statement = f"Honest clicks: up to {clicks_text(FEW_SESSIONS)} sessions unsafe is below the logging policy."
    return _conclude(figure, "unsafe-below-with-few-sessions", statement, checks, ["unsafe"])


def _converges(method: str, figure: FigureValues) -> ClaimResult:
    panel, margin = _dcg(figure, HONEST), figure.criteria.margin
    other = "unsafe" if method in RISKS else AUTO
    checks = [
        panel.compare(method, other, size, f"{clicks_text(size)} sessions", at_least(-margin)) for size in _last(panel)
    ]
    statement = f"With the most honest sessions {method} is at most {plain_percent(margin)} behind {other}."
    return _conclude(figure, f"{method}-costs-nothing-with-many-sessions", statement, checks, [method, other])


def _tests_fail(figure: FigureValues) -> ClaimResult:
    panel = _dcg(figure, INVERTED)
    methods = ("blend", "gate")
    checks = [_gain(panel, method, size, at_most(0.0)) for method in methods for size in _last(panel)]
    return _conclude(
        figure,
        "tests-fail-with-inverted-clicks",
        "With the most inverted sessions blend and gate are below production: no test on clicks protects.",
        checks,
        methods,
        note=_deployed(figure, methods),
    )


def _deployed(figure: FigureValues, methods: Iterable[str]) -> str:
    """The mean weight of the new ranker with the most inverted sessions."""
    panel = next((panel for panel in figure.panels if panel.metric == f"{_WEIGHT}, {INVERTED}"), PanelValues(_WEIGHT))
    means = {method: mean_interval(panel.at(method, size)).value for method in methods for size in panel.xs()[-1:]}
    listed = [f"{method} {100 * mean:.0f} %" for method, mean in means.items() if mean is not None]
    return f"mean weight of the new ranker: {', '.join(listed)}" if listed else ""


def _keeps(figure: FigureValues) -> ClaimResult:
    panel = next((panel for panel in figure.panels if panel.metric == f"{_MOVED}, {INVERTED}"), PanelValues(_MOVED))
    what = "exposure of prpo outside its limits at {} sessions, as a share"
    checks = [
        Check(what.format(clicks_text(size)), -panel.at("prpo", size), at_most(KEPT)) for size in panel.xs("prpo")
    ]
    return _conclude(
        figure,
        "prpo-keeps-its-limits",
        f"Inverted clicks: at every number of sessions at most {plain_percent(KEPT)} of the exposure of prpo is "
        f"outside {LOW:g} to {HIGH:g} times that of the logging policy.",
        checks,
        ["prpo"],
    )


def _bounded(figure: FigureValues) -> ClaimResult:
    panel = _dcg(figure, INVERTED)
    checks = [_gain(panel, "prpo", size, at_least(LOW - 1.0)) for size in panel.xs("prpo")]
    return _conclude(
        figure,
        "prpo-loss-is-bounded",
        f"Inverted clicks: at every number of sessions prpo has more than {plain_percent(LOW)} of the DCG of the "
        "logging policy, its lower limit.",
        checks,
        ["prpo"],
    )


def _least(figure: FigureValues) -> ClaimResult:
    panel, small = _dcg(figure, INVERTED), figure.criteria.noticeable
    others = ("unsafe", "exposure-risk", "blend", "gate")
    checks = [
        Check(
            f"loss of {other} less that of prpo, each relative to {LOGGING} or {PRODUCTION}, at "
            f"{clicks_text(size)} sessions",
            _relative_gain(panel, "prpo", size) - _relative_gain(panel, other, size),
            at_least(0.0, small),
        )
        for size in _last(panel)
        for other in others
        if other in panel.points
    ]
    return _conclude(
        figure,
        "prpo-loses-least-with-inverted-clicks",
        "With the most inverted sessions prpo loses less than any other method, and so than exposure-risk, whose limit "
        "vanishes as sessions grow.",
        checks,
        ["prpo"],
    )


def _relative_gain(panel: PanelValues, method: str, size: float) -> FloatArray:
    return against(panel.at(method, size), panel.at(_base(method), size))


_CLAIMS: tuple[Callable[[FigureValues], ClaimResult | None], ...] = (
    _unsafe,
    *(partial(_not_below, method) for method in ("exposure-risk", "prpo", "blend", "gate")),
    *(partial(_converges, method) for method in ("exposure-risk", "blend", "gate")),
    _tests_fail,
    _keeps,
    _bounded,
    _least,
)

FIGURE = FigureSpec(
    number=NUMBER,
    title="Safety: limits on exposure, blends and tests",
    caption=(
        "Each point is what a method serves after that many sessions of the logging policy. Unsafe, exposure-risk and "
        "prpo serve pages of a Plackett-Luce policy, whose expected DCG is drawn, and start from the logging policy; "
        "blend and gate serve a ranking by auto or by production. Exposure is that of training queries: what is above "
        "the upper limits and what is missing below the lower ones, together, as a share of all. The weight of the new "
        "ranker is the share of runs that deployed it (gate), and its mean weight (blend). With inverted clicks "
        "irrelevant documents are clicked as relevant ones would be, and the reverse."
    ),
    x=Axis("sessions", "Sessions (pages shown)", log=True),
    grid=_grid,
    complete=_complete,
    claims=_CLAIMS,
    experiment="safety",
)
