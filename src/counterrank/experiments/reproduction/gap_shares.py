"""Figure 5: what part of the gap between production and full information is closed, and what "auto" chose."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from counterrank.common.checks import FloatArray
from counterrank.experiments.claims.readings import relative
from counterrank.experiments.reproduction.figures import Point
from counterrank.experiments.reproduction.runs import Run

AUTO = "auto"
_RESAMPLES = 4000
_TAIL = 0.025


def share_of_gap(values: Sequence[Any], production: Sequence[Any], full: Sequence[Any]) -> dict[str, Any]:
    """How much of the gap is closed, over all runs that have the three numbers; None where one is missing.

        sum over runs of (value - production) / sum over runs of (full - production)

    A ratio of means, so that runs in which there was little to gain count for little. The interval holds the middle
    95 % of what it becomes with runs drawn anew from these, with replacement; there is none where the gap itself may be
    nothing. `values` are what runs add to it, see `relative`: their mean is the share.

    >>> found = share_of_gap([0.7, 0.9], [0.5, 0.5], [0.6, 1.0])
    >>> round(found["mean"], 12), found["runs"]  # (0.2 + 0.4) / (0.1 + 0.5), and not the mean of 2 and 0.8
    (1.0, 2)
    """
    value, low, high = (_row(each) for each in (values, production, full))
    come, gap = value - low, high - low
    there = np.isfinite(come) & np.isfinite(gap)
    runs = int(there.sum())
    if not runs or gap[there].sum() <= 0.0:
        return {"values": [None] * len(value), "mean": None, "low": None, "high": None, "runs": 0}
    parts = relative(come, gap)
    ends = _ends(come[there], gap[there])
    return {
        "values": [float(part) if ok else None for part, ok in zip(parts, there, strict=True)],
        "mean": float(come[there].sum() / gap[there].sum()),
        "low": ends[0],
        "high": ends[1],
        "runs": runs,
    }


def _row(values: Sequence[Any]) -> FloatArray:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _ends(come: FloatArray, gap: FloatArray) -> tuple[float | None, float | None]:
    if len(come) < 2:
        return None, None
    drawn = np.random.default_rng(0).integers(len(come), size=(_RESAMPLES, len(come)))
    gaps = gap[drawn].sum(axis=1)
    sure = gaps > 0.0
    if np.count_nonzero(~sure) > _TAIL * _RESAMPLES:
        return None, None
    low, high = np.quantile(come[drawn].sum(axis=1)[sure] / gaps[sure], (_TAIL, 1.0 - _TAIL))
    return float(low), float(high)


def share_panel(panel: Mapping[str, Any], chosen: Mapping[int | None, list[str | None]]) -> dict[str, Any]:
    """The panel of a metric as shares of the gap; `chosen` is what "auto" chose in each run, by x."""
    levels = {level["name"]: level["values"] for level in panel["levels"]}
    ends = levels["production"], levels["full-information"]
    series = [
        {
            "name": one["name"],
            "points": [
                {"x": point["x"], **share_of_gap(point["values"], *ends)}
                | ({"chosen": chosen[point["x"]]} if one["name"] == AUTO and point["x"] in chosen else {})
                for point in one["points"]
            ],
        }
        for one in panel["series"]
    ]
    return {
        "name": "share",
        "label": f"Share of the gap in {panel['name'].upper()} that is closed",
        "lower_is_better": False,
        "loss": panel["loss"],
        "series": series,
        "levels": [{"name": name, **share_of_gap(levels[name], *ends)} for name in levels],
    }


def chosen_by_auto(run: Run, points: Iterable[Point]) -> dict[int | None, list[dict[str, Any] | None]]:
    """What "auto" chose at each number of sessions, in each run; None where there is no result."""
    found = {}
    for point in points:
        if point.series == AUTO:
            rows = [run.row(cell) or {} for cell in point.cells]
            found[point.x] = [{**row["chosen"], "clicks": row["clicks"]} if "chosen" in row else None for row in rows]
    return found


def choices(chosen: Mapping[int | None, Sequence[dict[str, Any] | None]]) -> list[dict[str, Any]]:
    """The table of what "auto" chose: by number of sessions, how often which estimator, with what, and why.

    A ranker may be made of several: `kept` counts the runs in which each kind was one of them.

    >>> one = {"estimator": "shrinkage", "about": {"strength": 2.0}, "why": "few clicks", "clicks": 480}
    >>> choices({500: [one, one, None]})[0]["chosen"]
    [{'estimator': 'shrinkage', 'runs': 2, 'about': {'strength': [2.0, 2.0, 2.0]}, 'why': ['few clicks']}]
    """
    rows = []
    for x, picks in chosen.items():
        there = [pick for pick in picks if pick is not None]
        groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for pick in there:
            groups[pick["estimator"]].append(pick)
        most_first = sorted(groups.items(), key=lambda item: -len(item[1]))
        rows.append(
            {
                "x": x,
                "runs": len(there),
                "clicks": float(np.mean([pick["clicks"] for pick in there])) if there else None,
                "kept": _kept(there),
                "chosen": [_group(name, group) for name, group in most_first],
            }
        )
    return rows


def _kept(picks: Sequence[dict[str, Any]]) -> dict[str, int]:
    """In how many runs each kind of estimator was kept, whatever its settings; the commonest first."""
    found: dict[str, int] = defaultdict(int)
    for pick in picks:
        for kind in {str(name).partition(" (")[0] for name in pick["about"].get("kept") or ()}:
            found[kind] += 1
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _group(name: str, picks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How often, the least, middle and largest of its numbers, and the reasons, the commonest first."""
    numbers: dict[str, list[float]] = defaultdict(list)
    for pick in picks:
        for key, value in pick["about"].items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                numbers[key].append(float(value))
    whys = [pick["why"] for pick in picks if pick["why"]]
    return {
        "estimator": name,
        "runs": len(picks),
        "about": {key: np.quantile(found, (0.0, 0.5, 1.0)).tolist() for key, found in numbers.items()},
        "why": sorted(dict.fromkeys(whys), key=lambda why: -whys.count(why)),
    }
