"""Figure 5 and its claims, our own: how much estimators learn from few sessions, as shares of a gap.

    share = (estimator - production) / (full-information - production),   a ratio of means over runs

A difference of 5 points is 5 % of the gap. The panel "share" holds what each run adds to these ratios (`relative`), so
that differences between estimators are paired by run.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from counterrank.common.checks import FloatArray
from counterrank.experiments.cells import DCG_LOSS, CellFactory, GridPoint
from counterrank.experiments.claims import (
    Check,
    FigureValues,
    PanelValues,
    Rule,
    at_least,
    clicks_text,
    plain_percent,
)
from counterrank.experiments.figure_registry import FigureSpec
from counterrank.experiments.run_folder import Run
from counterrank.experiments.settings import parse_estimator
from counterrank.experiments.statistics import mean_interval, ratio_bootstrap, relative, values_array
from counterrank.experiments.summary import (
    Axis,
    Choice,
    ChosenEstimator,
    ClaimResult,
    Figure,
    Level,
    Panel,
    Point,
    Series,
    common_groups,
)

NUMBER = 5
AUTO, AWARE, SHARE = "auto", "policy-aware", "share"
PAPER = "beyond the paper"

LOSS_LIMIT = 0.05
"""So much of the gap may choosing cost, against the best of the fixed estimators."""

FEW_SESSIONS = 10**4
"""Up to here sessions are few: policy-aware weights are mostly noise."""

MANY_SESSIONS = 10**6
"""A grid that ends before this does not show what many sessions do."""

TIMES = 10
"""So many times fewer sessions."""

TIMES_UP_TO = 10**5
"""Up to here sessions are to be saved; later all estimators come near to what can be learned."""


def _grid(make: CellFactory) -> Iterator[GridPoint]:
    """Estimators that learn from few sessions, some of them with a model of relevance."""
    page = make.settings.page
    for text in make.settings.estimators:
        option = parse_estimator(text)
        for n in make.settings.sessions:
            yield make.point(
                make.dcg,
                text,
                n,
                estimator=option.cell_name,
                loss=DCG_LOSS,
                policy=f"replace-last:k={page}",
                page=page,
                sessions=n,
                clip="none" if option.is_cross_fitted else option.clip,  # what is not used is not part of the key
            )
    yield from make.levels(make.dcg, DCG_LOSS)


def _with_shares(run: Run, points: Sequence[GridPoint], figure: Figure) -> Figure:
    """Shares of the gap before the metric itself, and what "auto" chose."""
    chosen = _chosen_by_auto(run, points)
    names = {x: tuple(None if one is None else one.estimator for one in runs) for x, runs in chosen.items()}
    return replace(figure, panels=(share_panel(figure.panels[0], names), *figure.panels), choices=choices(chosen))


def share_of_gap(
    values: Sequence[float | None], production: Sequence[float | None], full: Sequence[float | None]
) -> Point:
    """How much of the gap is closed, over all runs that have the three numbers; None where one is missing.

        sum over runs of (value - production) / sum over runs of (full - production)

    A ratio of means, so that runs in which there was little to gain count for little. The confidence interval is a
    bootstrap over runs; there is none where the gap itself may be nothing. `values` are what runs add to the ratio, see
    `relative`: their mean is the share.

    >>> found = share_of_gap([0.7, 0.9], [0.5, 0.5], [0.6, 1.0])
    >>> round(found.mean, 12), found.runs  # (0.2 + 0.4) / (0.1 + 0.5), and not the mean of 2 and 0.8
    (1.0, 2)
    """
    value, low, high = (values_array(each) for each in (values, production, full))
    come, gap = value - low, high - low
    there = np.isfinite(come) & np.isfinite(gap)
    if not there.any() or gap[there].sum() <= 0.0:
        return Point(values=(None,) * len(value), runs=0)
    shares = relative(come, gap)
    ends = ratio_bootstrap(come[there], gap[there])
    kept = tuple(float(share) if ok else None for share, ok in zip(shares, there, strict=True))
    return Point(None, kept, float(come[there].sum() / gap[there].sum()), *ends, int(there.sum()))


def share_panel(panel: Panel, chosen: Mapping[float | None, tuple[str | None, ...]]) -> Panel:
    """The panel of a metric as shares of the gap; `chosen` is what "auto" chose in each run, by x."""
    levels = {level.name: level for level in panel.levels}
    low, high = levels["production"], levels["full-information"]

    def share(point: Point) -> Point:
        groups = common_groups([point, low, high])
        by_group = None if groups is None else relative(groups[0] - groups[1], groups[2] - groups[1])
        return replace(share_of_gap(point.values, low.values, high.values), x=point.x, groups=by_group)

    def shares(series: Series) -> tuple[Point, ...]:
        picked = chosen if series.name == AUTO else {}
        return tuple(replace(share(point), chosen=picked.get(point.x)) for point in series.points)

    return Panel(
        SHARE,
        f"Share of the gap in {panel.name.upper()} that is closed",
        loss=panel.loss,
        series=tuple(Series(series.name, shares(series)) for series in panel.series),
        levels=tuple(Level.at(name, share(level)) for name, level in levels.items()),
    )


class AutoChoice(NamedTuple):
    """What "auto" chose in one run: the best estimator, why, its numbers, and how many clicks there were."""

    estimator: str
    why: str
    about: Mapping[str, Any]
    clicks: int


def _chosen_by_auto(run: Run, points: Iterable[GridPoint]) -> dict[float | None, list[AutoChoice | None]]:
    """What "auto" chose at each number of sessions, in each run; None where there is no result."""
    found: dict[float | None, list[AutoChoice | None]] = {}
    for point in points:
        if point.series == AUTO:
            rows = [run.row(cell) or {} for cell in point.cells]
            found[point.x] = [
                AutoChoice(**row["chosen"], clicks=row["clicks"]) if "chosen" in row else None for row in rows
            ]
    return found


def choices(chosen: Mapping[float | None, Sequence[AutoChoice | None]]) -> tuple[Choice, ...]:
    """The table of what "auto" chose: by number of sessions, how often which estimator, with what, and why.

    A ranker may be made of several: `kept` counts the runs in which each kind was one of them.

    >>> one = AutoChoice("shrinkage", "few clicks", {"strength": 2.0}, clicks=480)
    >>> choices({500: [one, one, None]})[0].chosen
    (ChosenEstimator(estimator='shrinkage', runs=2, about={'strength': (2.0, 2.0, 2.0)}, why=('few clicks',)),)
    """
    rows = []
    for x, runs in chosen.items():
        there = [one for one in runs if one is not None]
        by_name = Counter(one.estimator for one in there).most_common()
        groups = tuple(_group(name, [one for one in there if one.estimator == name]) for name, _ in by_name)
        clicks = float(np.mean([one.clicks for one in there])) if there else None
        rows.append(Choice(x, len(there), clicks, _kept(there), groups))
    return tuple(rows)


def _kept(there: Sequence[AutoChoice]) -> dict[str, int]:
    """In how many runs each kind of estimator was kept, whatever its hyperparameters; the most frequent first."""
    kinds = ({str(name).partition(" (")[0] for name in one.about.get("kept") or ()} for one in there)
    found = Counter(kind for each in kinds for kind in each)
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _group(name: str, group: Sequence[AutoChoice]) -> ChosenEstimator:
    """How often, (least, median, largest) of its numbers, and the reasons, the most frequent first."""
    numbers: dict[str, list[float]] = defaultdict(list)
    for one in group:
        for key, value in one.about.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                numbers[key].append(float(value))
    about = {key: tuple(np.quantile(found, (0.0, 0.5, 1.0)).tolist()) for key, found in numbers.items()}
    by_frequency = Counter(one.why for one in group if one.why).most_common()
    return ChosenEstimator(name, len(group), about, tuple(why for why, _ in by_frequency))


def _targets(figure: FigureValues) -> ClaimResult | None:
    if not figure.criteria.targets:
        return None
    panel = figure.panel(SHARE)
    wanted = {size: share for size, share in sorted(figure.criteria.targets.items()) if size in panel.xs(AUTO)}
    listed = ", ".join(f"{plain_percent(share)} at {clicks_text(size)}" for size, share in wanted.items())
    checks, notes = [], []
    for size, share in wanted.items():
        values = panel.at(AUTO, size)
        checks.append(Check(f"share of auto at {clicks_text(size)} sessions", values, at_least(share)))
        mean = mean_interval(values).value
        if mean is not None:
            notes.append(f"{100 * mean:.1f} % at {clicks_text(size)} ({'' if mean >= share else 'not '}reached)")
    note = f"means {', '.join(notes)}" if notes else ""
    return figure.conclude(
        "auto-reaches-targets",
        f"Auto closes at least these shares of the gap by numbers of sessions: {listed or 'none of this grid'}.",
        PAPER,
        checks,
        note=note,
        lack="no number of sessions of the grid has a target",
        own=True,
    )


def _near_best(figure: FigureValues) -> ClaimResult:
    """Against each fixed estimator, not against the best of the means, which is the best by luck too."""
    panel = figure.panel(SHARE)
    fixed = [name for name in panel.points if name != AUTO]
    checks = [_less(panel, name, size, at_least(-LOSS_LIMIT)) for size in panel.xs(AUTO) for name in fixed]
    return figure.conclude(
        "auto-near-best-fixed",
        f"At every number of sessions auto is at most {plain_percent(LOSS_LIMIT)} of the gap behind each fixed"
        " estimator, and so behind the best of them.",
        PAPER,
        checks,
        note=_best_fixed(panel, fixed),
        lack=_lack(panel),
        own=True,
    )


def _best_fixed(panel: PanelValues, fixed: list[str]) -> str:
    """The fixed estimator with the largest mean at each number of sessions, for a reader."""
    listed = []
    for size in panel.xs(AUTO):
        means = {name: mean_interval(panel.at(name, size)).value for name in fixed}
        there = {name: mean for name, mean in means.items() if mean is not None}
        own = mean_interval(panel.at(AUTO, size)).value
        if there and own is not None:
            best = max(there, key=lambda name: there[name])
            listed.append(f"{best} at {clicks_text(size)} (auto {100 * (own - there[best]):+.1f} %)")
    return f"best fixed by their means: {', '.join(listed)}" if listed else ""


def _no_worse(figure: FigureValues) -> ClaimResult:
    margin, panel = figure.criteria.margin, figure.panel(SHARE)
    most = [size for size in panel.xs(AUTO)[-1:] if size >= MANY_SESSIONS]
    lack = "" if most else f"the grid ends before {clicks_text(MANY_SESSIONS)} sessions"
    return figure.conclude(
        "auto-no-worse-with-many-sessions",
        f"With the most sessions auto is at most {plain_percent(margin)} of the gap behind {AWARE}.",
        PAPER,
        _checks(panel, most, at_least(-margin)),
        lack=_lack(panel) or lack,
        own=True,
    )


def _ahead(figure: FigureValues) -> ClaimResult:
    panel = figure.panel(SHARE)
    few = [size for size in panel.xs(AUTO) if size <= FEW_SESSIONS]
    checks = _checks(panel, few, at_least(0.0, figure.criteria.noticeable))
    lack = "" if few else f"the grid begins beyond {clicks_text(FEW_SESSIONS)} sessions"
    return figure.conclude(
        "auto-ahead-with-few-sessions",
        f"Up to {clicks_text(FEW_SESSIONS)} sessions auto is ahead of {AWARE}.",
        PAPER,
        checks,
        lack=_lack(panel) or lack,
        own=True,
    )


def _fewer(figure: FigureValues) -> ClaimResult:
    panel = figure.panel(SHARE)
    sizes = panel.xs(AUTO)
    reach = [size for size in panel.xs(AWARE) if sizes and sizes[0] <= size / TIMES <= sizes[-1]]
    checks = [
        Check(
            f"share of auto at {clicks_text(size / TIMES)} sessions less that of {AWARE} at {clicks_text(size)}",
            between(panel, AUTO, size / TIMES) - panel.at(AWARE, size),
            at_least(0.0),
        )
        for size in reach
        if size <= TIMES_UP_TO
    ]
    note = ", ".join(filter(None, (_saving(panel, size) for size in panel.xs(AWARE)[1:])))
    lack = f"the grid has no two numbers of sessions, {TIMES} times apart, up to {clicks_text(TIMES_UP_TO)}"
    return figure.conclude(
        "auto-needs-fewer-sessions",
        f"What {AWARE} learns from up to {clicks_text(TIMES_UP_TO)} sessions auto learns from {TIMES} times fewer.",
        PAPER,
        checks,
        note=f"by means {note}" if note else "",
        lack=_lack(panel) or lack,
        own=True,
    )


def between(panel: PanelValues, series: str, x: float) -> FloatArray:
    """A series where the grid has no point: interpolated linearly over log x.

    Learning curves bend downwards, so that this is rather too low than too high.

    >>> points = {"auto": {100: np.array([0.2]), 10000: np.array([0.6])}}
    >>> between(PanelValues("share", points, runs=1), "auto", 1000).round(12).tolist()
    [0.4]
    """
    xs = panel.xs(series)
    if x in xs:
        return panel.at(series, x)
    below, above = max(each for each in xs if each < x), min(each for each in xs if each > x)
    part = math.log(x / below) / math.log(above / below)
    found: FloatArray = (1.0 - part) * panel.at(series, below) + part * panel.at(series, above)
    return found


def _saving(panel: PanelValues, size: float) -> str:
    """How many times fewer sessions auto needs for the mean share of policy-aware at this size, in words."""
    wanted = mean_interval(panel.at(AWARE, size)).value
    means = [(each, mean_interval(panel.at(AUTO, each)).value) for each in panel.xs(AUTO)]
    curve = [(each, mean) for each, mean in means if mean is not None]
    if wanted is None or not curve:
        return ""
    where = f"for {AWARE} at {clicks_text(size)}"
    if curve[0][1] >= wanted:
        return f"{size / curve[0][0]:.3g} times or more {where}"
    for (left, low), (right, high) in itertools.pairwise(curve):
        if low < wanted <= high:
            part = (wanted - low) / (high - low)
            return f"{size / (left * (right / left) ** part):.2g} times {where}"
    return f"never {where}"


def _less(panel: PanelValues, other: str, size: float, rule: Rule) -> Check:
    """The share of auto less that of another."""
    what = f"share of auto less that of {other} at {clicks_text(size)} sessions"
    return Check(what, panel.at(AUTO, size) - panel.at(other, size), rule)


def _checks(panel: PanelValues, sizes: list[float], rule: Rule) -> list[Check]:
    return [] if _lack(panel) else [_less(panel, AWARE, size, rule) for size in sizes]


def _lack(panel: PanelValues) -> str:
    missing = [name for name in (AUTO, AWARE) if name not in panel.points]
    return f"{missing[0]} is not among the estimators" if missing else ""


FIGURE = FigureSpec(
    number=NUMBER,
    title="Learning from few clicks",
    caption=(
        "Each point is a ranker learned from the clicks of that many sessions. The share of the gap is 0 for the "
        "production ranker and 1 for one trained on labels; it is a ratio of means over runs, with a 95 % bootstrap "
        "confidence interval over runs. Auto chooses by the clicks alone; it should follow the upper edge of the other "
        "lines."
    ),
    x=Axis("sessions", "Sessions (pages shown)", log=True),
    grid=_grid,
    complete=_with_shares,
    claims=(_targets, _near_best, _no_worse, _ahead, _fewer),
    experiment="few-clicks",
)
