"""Claims on learning from few clicks, Figure 5: our own. All numbers are shares of the gap.

    share = (estimator - production) / (full-information - production),   a ratio of means over runs

A difference of 5 points is 5 % of the gap. The panel "share" holds what each run adds to these ratios (`relative`), so
that differences between estimators are paired by run.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

from counterrank.common.checks import FloatArray
from counterrank.experiments.claims.checks import Check, Rule, at_least
from counterrank.experiments.claims.conclusion import Claim, Setting, clicks_text, conclude, plain_percent
from counterrank.experiments.claims.readings import Figure, Panel
from counterrank.experiments.claims.statistics import mean_interval

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


def few_click_claims(figure: Figure, setting: Setting) -> list[dict[str, Any]]:
    """All claims on Figure 5; those on targets only where there are targets."""
    panel = figure.panel(SHARE)
    targets = [_targets(figure, panel, setting)] if setting.targets else []
    return [
        *targets,
        _near_best(figure, panel, setting),
        _no_worse(figure, panel, setting),
        _ahead(figure, panel, setting),
        _fewer(figure, panel, setting),
    ]


def _targets(figure: Figure, panel: Panel, setting: Setting) -> dict[str, Any]:
    wanted = {size: share for size, share in sorted(setting.targets.items()) if size in panel.xs(AUTO)}
    told = ", ".join(f"{plain_percent(share)} at {clicks_text(size)}" for size, share in wanted.items())
    claim = Claim(
        "auto-reaches-targets",
        f"Auto closes at least these shares of the gap by numbers of sessions: {told or 'none of this grid'}.",
        PAPER,
        own=True,
    )
    checks, notes = [], []
    for size, share in wanted.items():
        values = panel.at(AUTO, size)
        checks.append(Check(f"share of auto at {clicks_text(size)} sessions", values, at_least(share)))
        mean = mean_interval(values).value
        if mean is not None:
            notes.append(f"{100 * mean:.1f} % at {clicks_text(size)} ({'' if mean >= share else 'not '}reached)")
    note = f"means {', '.join(notes)}" if notes else ""
    return conclude(claim, figure, checks, setting, note=note, lack="no number of sessions of the grid has a target")


def _near_best(figure: Figure, panel: Panel, setting: Setting) -> dict[str, Any]:
    """Against each fixed estimator, not against the best of the means, which is the best by luck too."""
    claim = Claim(
        "auto-near-best-fixed",
        f"At every number of sessions auto is at most {plain_percent(LOSS_LIMIT)} of the gap behind each fixed"
        " estimator, and so behind the best of them.",
        PAPER,
        own=True,
    )
    fixed = [name for name in panel.points if name != AUTO]
    checks = [_less(panel, name, size, at_least(-LOSS_LIMIT)) for size in panel.xs(AUTO) for name in fixed]
    return conclude(claim, figure, checks, setting, note=_best_fixed(panel, fixed), lack=_lack(panel))


def _best_fixed(panel: Panel, fixed: list[str]) -> str:
    """The fixed estimator with the largest mean at each number of sessions, for a reader."""
    told = []
    for size in panel.xs(AUTO):
        means = {name: mean_interval(panel.at(name, size)).value for name in fixed}
        there = {name: mean for name, mean in means.items() if mean is not None}
        own = mean_interval(panel.at(AUTO, size)).value
        if there and own is not None:
            best = max(there, key=lambda name: there[name])
            told.append(f"{best} at {clicks_text(size)} (auto {100 * (own - there[best]):+.1f} %)")
    return f"best fixed by their means: {', '.join(told)}" if told else ""


def _no_worse(figure: Figure, panel: Panel, setting: Setting) -> dict[str, Any]:
    claim = Claim(
        "auto-no-worse-with-many-sessions",
        f"With the most sessions auto is at most {plain_percent(setting.margin)} of the gap behind {AWARE}.",
        PAPER,
        own=True,
    )
    most = [size for size in panel.xs(AUTO)[-1:] if size >= MANY_SESSIONS]
    checks = _checks(panel, most, at_least(-setting.margin))
    lack = "" if most else f"the grid ends before {clicks_text(MANY_SESSIONS)} sessions"
    return conclude(claim, figure, checks, setting, lack=_lack(panel) or lack)


def _ahead(figure: Figure, panel: Panel, setting: Setting) -> dict[str, Any]:
    claim = Claim(
        "auto-ahead-with-few-sessions",
        f"Up to {clicks_text(FEW_SESSIONS)} sessions auto is ahead of {AWARE}.",
        PAPER,
        own=True,
    )
    few = [size for size in panel.xs(AUTO) if size <= FEW_SESSIONS]
    checks = _checks(panel, few, at_least(0.0, setting.noticeable))
    lack = "" if few else f"the grid begins beyond {clicks_text(FEW_SESSIONS)} sessions"
    return conclude(claim, figure, checks, setting, lack=_lack(panel) or lack)


def _fewer(figure: Figure, panel: Panel, setting: Setting) -> dict[str, Any]:
    claim = Claim(
        "auto-needs-fewer-sessions",
        f"What {AWARE} learns from up to {clicks_text(TIMES_UP_TO)} sessions auto learns from {TIMES} times fewer.",
        PAPER,
        own=True,
    )
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
    return conclude(claim, figure, checks, setting, note=f"by means {note}" if note else "", lack=_lack(panel) or lack)


def between(panel: Panel, series: str, x: float) -> FloatArray:
    """A series where the grid has no point: on a line between its neighbours, over log x.

    Learning curves bend downwards, so that this is rather too low than too high.

    >>> import numpy as np
    >>> points = {"auto": {100: np.array([0.2]), 10000: np.array([0.6])}}
    >>> between(Panel("share", points, {}, {}, 1), "auto", 1000).round(12).tolist()
    [0.4]
    """
    xs = panel.xs(series)
    if x in xs:
        return panel.at(series, x)
    below, above = max(each for each in xs if each < x), min(each for each in xs if each > x)
    part = math.log(x / below) / math.log(above / below)
    found: FloatArray = (1.0 - part) * panel.at(series, below) + part * panel.at(series, above)
    return found


def _saving(panel: Panel, size: float) -> str:
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


def _less(panel: Panel, other: str, size: float, rule: Rule) -> Check:
    """The share of auto less that of another."""
    what = f"share of auto less that of {other} at {clicks_text(size)} sessions"
    return Check(what, panel.at(AUTO, size) - panel.at(other, size), rule)


def _checks(panel: Panel, sizes: list[float], rule: Rule) -> list[Check]:
    return [] if _lack(panel) else [_less(panel, AWARE, size, rule) for size in sizes]


def _lack(panel: Panel) -> str:
    missing = [name for name in (AUTO, AWARE) if name not in panel.points]
    return f"{missing[0]} is not among the estimators" if missing else ""
