"""The click rate over time: periods, a test for a change, and whether a change is large enough to matter."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from counterrank.common.checks import FloatArray, check_vector
from counterrank.common.errors import CounterrankError
from counterrank.common.notebook import Table
from counterrank.evaluation.inspection.click_tables import wilson
from counterrank.evaluation.inspection.result import percent

ERROR_RATE = 0.01
_COLUMNS = ("begin", "pages", "impressions", "clicks")
_FEWEST = 6  # with fewer periods no order of them is unlikely enough
_SHUFFLES = 9_999
MATERIAL = 0.1  # relative change of the click rate from which a change matters
MOST_PERIODS = 60  # more are put together
YEARS = (1990, 2100)  # timestamps outside are no dates
_YEAR = re.compile(r"([+-]?\d{4,})-\d\d")


@dataclass(frozen=True)
class Period(Table):
    """Clicks in one period of time; low and high are Wilson's interval of independent clicks."""

    begin: Any
    pages: int
    impressions: int
    clicks: int
    click_rate: float | None
    low: float | None
    high: float | None

    json_keys: ClassVar[dict[str, str]] = {"click_rate": "click rate"}


@dataclass(frozen=True)
class Drift(Table):
    """The click rate over time, and a permutation test for a change.

    Attributes:
        periods: in the order of time; none where the timestamps are no dates.
        test_p: of the test; None with too few periods.
        error_rate: the largest `test_p` of a change.
        changed: whether there is a significant change; None with too few periods.
        material: whether it is significant and the click rate differs by more than `material_change`, relative to
            the rate before; None with too few periods.
        material_change: the smallest relative change that matters.
        change_begin: the begin of the first period after the point where a change is most likely.
        rate_before: the click rate before that point.
        rate_after: the click rate from there on.
        relative_change: rate_after / rate_before - 1; None where the rate before is 0.
        scatter: mean square of z over that of independent clicks; Wilson's intervals hold for 1.
        first_half_rate: the click rate in the first half of the periods.
        second_half_rate: the click rate in the second half.
        note: what was left out or put together, in words; empty where nothing was.
    """

    periods: list[Period]
    test_p: float | None = None
    error_rate: float = ERROR_RATE
    changed: bool | None = None
    material: bool | None = None
    material_change: float = MATERIAL
    change_begin: Any = None
    rate_before: float | None = None
    rate_after: float | None = None
    relative_change: float | None = None
    scatter: float | None = None
    first_half_rate: float | None = None
    second_half_rate: float | None = None
    note: str = ""


def drift_table(periods: Sequence[Mapping[str, Any]]) -> Drift:
    """The click rate in each period with Wilson's interval, and a test for a change.

        z_b = (clicks_b - rate impressions_b) / sqrt(impressions_b)
        T   = the largest |z_1 + ... + z_b - b mean(z)| over all b

    A permutation test: (1 + shuffles with T at least as large) / (1 + shuffles) is at most 0.01 in at most 1 % of logs
    without a change. Periods that differ at random, as weekdays do, make the test less powerful, not wrong. A change
    is material if the click rate after the b of the largest value differs by more than 10 % from that before.

    Periods that begin before 1990 or after 2100 are left out, with a note; more than 60 are put together.

    Arguments:
        periods: in the order of time; `begin` (text or number), `pages`, `impressions` and `clicks` of each.

    >>> shown = {"pages": 100, "impressions": 1000}
    >>> rows = [{"begin": day, **shown, "clicks": 100 if day < 6 else 200} for day in range(12)]
    >>> found = drift_table(rows)
    >>> found.changed, found.material, found.change_begin, found.rate_before, found.rate_after
    (True, True, 6, 0.1, 0.2)
    """
    _checked(periods)
    dated, note = _dated(periods)
    if not dated:
        return Drift([], note=note)
    grouped = _grouped(dated)
    if len(grouped) < len(dated):
        note = f"{note} {len(dated):,} periods are put together to {len(grouped)}.".strip()
    return _tested(grouped, note)


def _tested(periods: Sequence[Mapping[str, Any]], note: str) -> Drift:
    given = _checked(periods)
    shown, clicks = given["impressions"], given["clicks"]
    low, high = wilson(clicks, shown)
    rows = []
    for b, period in enumerate(periods):
        rates = (float(clicks[b] / shown[b]), float(low[b]), float(high[b])) if shown[b] else (None, None, None)
        rows.append(Period(period["begin"], int(given["pages"][b]), int(shown[b]), int(clicks[b]), *rates))
    own = np.flatnonzero(shown > 0)
    n, c = shown[own], clicks[own]
    rate = c.sum() / max(n.sum(), 1.0)
    z = (c - rate * n) / np.sqrt(n)
    if len(z) < 2:
        return Drift(rows, note=note)
    half, split = len(z) // 2, change_point(z)
    p = change_p(z) if len(z) >= _FEWEST else None
    changed = None if p is None else p <= ERROR_RATE
    before, after = (float(c[part].sum() / n[part].sum()) for part in (slice(split), slice(split, None)))
    ratio = after / before - 1.0 if before > 0.0 else None
    noise = rate * (1.0 - rate)
    return Drift(
        periods=rows,
        test_p=p,
        changed=changed,
        material=None if changed is None else changed and (ratio is None or abs(ratio) > MATERIAL),
        change_begin=rows[own[split]].begin,
        rate_before=before,
        rate_after=after,
        relative_change=ratio,
        scatter=float(np.square(z).sum() / (len(z) - 1) / noise) if noise > 0.0 else None,
        first_half_rate=float(c[:half].sum() / n[:half].sum()),
        second_half_rate=float(c[half:].sum() / n[half:].sum()),
        note=note,
    )


def drift_sentences(drift: Mapping[str, Any]) -> list[str]:
    """The result of the test in words, from `Drift.to_json`: whether there is a change, and whether it matters.

    >>> shown = {"pages": 10**5, "impressions": 10**6}
    >>> rows = [{"begin": day, **shown, "clicks": 10**5 + 3000 * (day > 5)} for day in range(12)]
    >>> drift_sentences(drift_table(rows).to_json())[0][:77]
    'The click rate changed by +3 % (10 % before 6, 10.3 % from then on), which is'
    """
    found = [drift["note"]] if drift["note"] else []
    if drift["changed"] is None:
        return [*found, "Too few periods to test for a change; expected 6 or more."] if drift["periods"] else found
    test = f"p = {drift['test_p']:.2g} by shuffling the periods; a change up to {drift['error_rate']:g}"
    if not drift["changed"]:
        found.append(f"No change of the click rate that chance would not explain ({test}).")
    else:
        ratio, limit = drift["relative_change"], drift["material_change"]
        change = "from 0" if ratio is None else f"by {100 * ratio:+.2g} %"
        before, after = (f"{100 * drift[name]:.3g} %" for name in ("rate_before", "rate_after"))
        rates = f"{before} before {drift['change_begin']}, {after} from then on"
        size = (
            f"which is more than the {percent(limit)} that matter"
            if drift["material"]
            else f"which is significant but less than the {percent(limit)} that matter"
        )
        found.append(f"The click rate changed {change} ({rates}), {size} ({test}).")
    if drift["scatter"] is not None:
        found.append(f"Rates scatter {drift['scatter']:.3g} times as much as independent clicks would.")
    return found


def change_point(z: FloatArray) -> int:
    """How many of these numbers come before the point where their sum is furthest from its straight line.

    >>> change_point(np.array([-1.0, -1.2, -0.9, 3.0, 2.9]))
    3
    """
    return int(np.argmax(np.abs(np.cumsum(z - z.mean()))[:-1])) + 1


def _dated(periods: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], str]:
    """The periods without those that begin outside of `YEARS`, and a note about them; none where they hold most."""
    outside = [period for period in periods if not _is_plausible(period["begin"])]
    if not outside:
        return list(periods), ""
    n, total = (sum(int(period["impressions"]) for period in part) for part in (outside, periods))
    note = (
        f"The timestamps of {n:,} of {total:,} impressions ({percent(n / max(total, 1))}) are before {YEARS[0]} or "
        f"after {YEARS[1]}, from {outside[0]['begin']} to {outside[-1]['begin']}: they are not dates, or of another "
        "unit than they seem."
    )
    if 2 * n >= total:
        return [], f"{note} The click rate over time is left out."
    return [period for period in periods if _is_plausible(period["begin"])], f"{note} They are left out."


def _is_plausible(begin: Any) -> bool:
    """Whether this is no date, or one that a log can have."""
    found = _YEAR.match(str(begin))
    return found is None or YEARS[0] <= int(found[1]) <= YEARS[1]


def _grouped(periods: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Neighbours put together, so that there are at most `MOST_PERIODS`."""
    size = -(-len(periods) // MOST_PERIODS)
    if size == 1:
        return periods
    parts = [periods[i : i + size] for i in range(0, len(periods), size)]
    return [{"begin": part[0]["begin"]} | {name: sum(each[name] for each in part) for name in _COLUMNS[1:]}
            for part in parts]  # fmt: skip


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
