"""Click rate over time, and whether it changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from counterrank.common.checks import FloatArray, check_vector
from counterrank.common.errors import CounterrankError
from counterrank.evaluation.inspection.proportions import finite, wilson

ERROR_RATE = 0.01
_COLUMNS = ("begin", "pages", "impressions", "clicks")
_FEWEST = 6  # with fewer periods no order of them is unlikely enough
_SHUFFLES = 9_999


def drift_table(periods: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The click rate in each period with Wilson's interval, and a test for a change.

        z_b = (clicks_b - rate impressions_b) / sqrt(impressions_b)
        T   = the largest |z_1 + ... + z_b - b mean(z)| over all b

    If nothing changed, any order of the periods is as likely as the one seen, so T is compared with its values after
    random shuffles: (1 + those at least as large) / (1 + shuffles) is at most 0.01 in at most 1 % of logs without a
    change. Periods that differ at random, as weekdays do, make the test less sharp, not wrong. `scatter` is the mean
    square of z in units of what independent clicks would give; Wilson's intervals hold for 1.

    Arguments:
        periods: in the order of time; `begin` (text or number), `pages`, `impressions` and `clicks` of each.

    >>> shown = {"pages": 100, "impressions": 1000}
    >>> rows = [{"begin": day, **shown, "clicks": 100 if day < 6 else 200} for day in range(12)]
    >>> found = drift_table(rows)
    >>> found["changed"], found["first_half_rate"], found["second_half_rate"]
    (True, 0.1, 0.2)
    """
    given = _checked(periods)
    shown, clicks = given["impressions"], given["clicks"]
    low, high = wilson(clicks, shown)
    rows = [
        {
            "begin": period["begin"],
            "pages": int(given["pages"][b]),
            "impressions": int(shown[b]),
            "clicks": int(clicks[b]),
        }
        | {"click rate": clicks[b] / shown[b] if shown[b] else None, "low": finite(low[b]), "high": finite(high[b])}
        for b, period in enumerate(periods)
    ]
    own = shown > 0
    n, c = shown[own], clicks[own]
    rate = c.sum() / max(n.sum(), 1.0)
    z = (c - rate * n) / np.sqrt(n)
    p = change_p(z) if len(z) >= _FEWEST else None
    half = len(z) // 2
    noise = rate * (1.0 - rate)
    return {
        "periods": rows,
        "test_p": p,
        "error_rate": ERROR_RATE,
        "changed": None if p is None else p <= ERROR_RATE,
        "scatter": float(np.square(z).sum() / (len(z) - 1) / noise) if len(z) > 1 and noise > 0.0 else None,
        "first_half_rate": float(c[:half].sum() / n[:half].sum()) if half else None,
        "second_half_rate": float(c[half:].sum() / n[half:].sum()) if half else None,
    }


def change_p(z: FloatArray, shuffles: int = _SHUFFLES, seed: int = 0) -> float:
    """How rarely a random order of these numbers wanders as far from its straight line as the one given.

    >>> change_p(np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0]))
    1.0
    """
    rng = np.random.default_rng(seed)
    centred = z - z.mean()
    limit = np.abs(np.cumsum(centred)).max() * (1.0 - 1e-9)
    worse = 0
    for _ in range(0, shuffles, 999):
        drawn = rng.permuted(np.broadcast_to(centred, (999, len(z))), axis=1)
        worse += int(np.count_nonzero(np.abs(np.cumsum(drawn, axis=1)).max(axis=1) >= limit))
    return (1 + worse) / (1 + 999 * -(-shuffles // 999))


def _checked(periods: Sequence[Mapping[str, Any]]) -> dict[str, FloatArray]:
    if isinstance(periods, str | Mapping) or not hasattr(periods, "__len__") or not len(periods):
        raise CounterrankError("drift: expected a list of periods with begin, pages, impressions and clicks")
    for b, period in enumerate(periods):
        missing = [name for name in _COLUMNS if name not in period]
        if missing:
            raise CounterrankError(f"drift: period {b} has no {', '.join(missing)}; expected {', '.join(_COLUMNS)}")
    given = {
        name: check_vector([period[name] for period in periods], len(periods), f"drift {name}", "periods")
        for name in _COLUMNS[1:]
    }
    bad = (given["clicks"] < 0) | (given["clicks"] > given["impressions"]) | (given["pages"] < 0)
    if bad.any():
        b = int(np.argmax(bad))
        raise CounterrankError(
            f"drift: period {b} has {given['clicks'][b]:g} clicks of {given['impressions'][b]:g} impressions on "
            f"{given['pages'][b]:g} pages; expected 0 <= clicks <= impressions and pages >= 0"
        )
    return given
