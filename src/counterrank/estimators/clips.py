"""Which clips to use: the schedule of the paper's authors, and a grid that needs no constants of a data set."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.examination import Examination, check_examination
from counterrank.common.errors import CounterrankError
from counterrank.estimators.propensities import Propensities, capped_inverse, examined, propensities_of

# inverse propensities within this factor of each other are equal but for rounding
_ALIKE = 1.0 + 1e-9


def clip_schedule(n_clicks: int, a: float, b: float) -> float:
    """The clip of the paper's experiments, which grows with the number of clicks.

        1 if c < 4, else max(1, 1 + a (c - 4) + b (c - 4)^2),      c = log10(n_clicks)

    The authors chose a and b for each data set: a=-3, b=32 on Yahoo, a=-57, b=86 on MSLR. For data of your own see
    `clip_grid`. Validation clicks are never clipped.

    >>> clip_schedule(10**6, a=-3, b=32)  # 1 - 3 * 2 + 32 * 4
    123.0
    >>> clip_schedule(5000, a=-3, b=32)
    1.0
    """
    n = _number(n_clicks, "n_clicks")
    if n < 0:
        raise CounterrankError(f"n_clicks={n_clicks!r}: expected a number of clicks, 0 or more")
    beyond = math.log10(n) - 4.0 if n > 0 else -math.inf
    if beyond < 0.0:
        return 1.0
    return max(1.0, 1.0 + beyond * _number(a, "a") + beyond**2 * _number(b, "b"))


def clip_grid(
    clicks: ClickCounts,
    rho: ArrayLike | Propensities | None = None,
    n: int = 6,
    *,
    exam: Examination | None = None,
) -> list[float | None]:
    """A few clips to choose from by the unclipped validation metric, see `counterrank.training.fit_best_clip`.

        low (high / low)^(i / (n - 1)) for i = 0 .. n - 2, then None,
        high = the largest 1 / propensity of any click, low = the geometric mean of 1 / propensity over all clicks

    A clip at `high` or above changes nothing, so None (no clip) stands for it and is always the last. One far below
    `low` makes most clicks count the same, which is the naive estimator. What lies between trades bias for variance,
    and matters by factors, not by differences. Where all clicks have the same propensity, and where there are none,
    clipping means nothing and the grid is [None].

    Arguments:
        clicks: the clicks to train on.
        rho: the propensity of each document, or None for those logged with the clicks, as for `policy_aware`; what
            `logged_propensities` gives, where it needs the examination curve.
        n: how many clips, the last one included.
        exam: how likely each rank is examined, instead of rho: for `policy_oblivious` and `rerank`.

    >>> offsets, sessions = np.array([0, 2]), np.array([400])
    >>> docs, ranks, shown, clicked = np.array([0, 1]), np.array([1, 1]), np.array([300, 100]), np.array([200, 200])
    >>> clicks = ClickCounts("", offsets, sessions, docs, ranks, shown, clicked)
    >>> grid = clip_grid(clicks, rho=[1.0, 0.0001], n=3)
    >>> [clip if clip is None else round(clip) for clip in grid]  # 100 and 10,000 are the ends
    [100, 1000, None]
    """
    counts = check_counts(clicks)
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise CounterrankError(f"n={n!r}: expected a whole number of at least 1")
    if exam is not None:
        if rho is not None:
            raise CounterrankError("exam: given together with rho; expected one of them")
        name, propensities = "exam", examined(check_examination(exam), counts.ranks)
    else:
        name = "propensities" if rho is None else "rho"
        propensities = propensities_of(counts, rho).by_cell
    inverse = capped_inverse(propensities, np.inf, counts, counts.clicks, counts.docs, counts.ranks, name)
    clicked = counts.clicks > 0
    if not clicked.any() or inverse[clicked].max() <= _ALIKE * inverse[clicked].min():
        return [None]
    high = float(inverse.max())
    low = float(np.exp(np.average(np.log(inverse[clicked]), weights=counts.clicks[clicked])))
    return [*np.geomspace(low, high, int(n))[:-1].tolist(), None]


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not math.isfinite(value):
        raise CounterrankError(f"{name}={value!r}: expected a finite number")
    return float(value)
