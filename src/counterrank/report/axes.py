"""Scales, ticks and places of labels: powers of ten on logarithmic axes, round numbers on the others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from counterrank.report.text import SUPERSCRIPTS


def x_scale(places: list[float], log: bool) -> Any:
    """The scale over sorted places, with a little air at both ends.

    >>> x_scale([1, 100], log=True).type
    'log'
    """
    import altair as alt

    low, high = places[0], places[-1]
    if low == high:
        low, high = (low / 2, high * 2) if log else (low - 1, high + 1)
    return alt.Scale(type="log" if log and low > 0 else "linear", domain=[low, high], nice=False, padding=6)


def x_axis(places: list[float], log: bool) -> Any:
    """Ticks at 1, 2, 5, 10 ... for small numbers and at powers of ten for large ones, as on paper.

    >>> x_axis([1, 5, 100], log=True).values
    [1, 2, 5, 10, 20, 50, 100]
    """
    import altair as alt

    if not log or places[0] <= 0:
        return alt.Axis(tickCount=6)
    powers = range(math.floor(math.log10(places[0])), math.ceil(math.log10(places[-1])) + 1)
    leads = (1, 2, 5) if len(powers) <= 4 else (1,)
    ticks = [lead * 10**p for p in powers for lead in leads if places[0] <= lead * 10**p <= places[-1]]
    if len(ticks) < 2:
        ticks = places
    signs = "[" + ",".join(f"'{sign}'" for sign in SUPERSCRIPTS) + "]"
    exponent = "round(log(datum.value) / LN10)"
    raised = f"(datum.value >= 100 && abs(log(datum.value) / LN10 - {exponent}) < 1e-9)"
    big = max(places) >= 1000
    expression = (
        f"{raised} ? '10' + {signs}[{exponent}] : format(datum.value, ',')" if big else "format(datum.value, ',')"
    )
    return alt.Axis(values=ticks, labelExpr=expression, labelOverlap="greedy", labelFontSize=11)


def log_ticks(low: float, high: float, height: int, gap: float = 18.0) -> list[float]:
    """Ticks of a logarithmic value axis, at 1, 2 and 5 times powers of ten, or fewer where labels would collide.

    Arguments:
        low, high: the ends of the axis, above 0.
        height: of the axis, in pixels.
        gap: the fewest pixels from one label to the next.

    >>> log_ticks(0.04, 0.3, height=280)
    [0.05, 0.1, 0.2]
    >>> log_ticks(1e-4, 1.0, height=140)
    [0.0001, 0.001, 0.01, 0.1, 1.0]
    >>> len(log_ticks(1e-30, 1.0, height=280))
    16
    """
    pixels = height / math.log10(high / low)  # of a power of ten
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    leads = next((leads for leads, step in (((1, 2, 5), 0.301), ((1, 3), 0.477)) if step * pixels >= gap), (1,))
    every = max(1, math.ceil(gap / pixels))
    ticks = [float(f"{lead}e{p}") for p in powers if p % every == 0 for lead in leads]
    return [tick for tick in ticks if low * (1.0 - 1e-9) <= tick <= high * (1.0 + 1e-9)]


def y_axis(low: float, high: float, height: int) -> Any:
    """Round ticks, none so near the top that its label would push the title up.

    >>> y_axis(0.58, 0.91, height=300).values
    [0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9]
    """
    import altair as alt

    values, digits = _round_ticks(low, high, (high - low) / 6, 8 / height)
    return alt.Axis(values=values, format=f",.{digits}f")


def dots_axis(low: float, high: float, shares: bool) -> Any:
    """Round ticks under dots, none so near the right end that its label would be cut there.

    >>> dots_axis(0.0, 0.31, shares=True).values
    [0.0, 0.05, 0.1, 0.15, 0.2, 0.25]
    """
    import altair as alt

    values, digits = _round_ticks(low, high, (high - low) / 5, 0.07)
    form = f".{max(digits - 2, 0)}%" if shares else f".{max(digits, 2)}f"
    return alt.Axis(values=values, grid=True, format=form, labelOverlap="greedy")


def symlog_axis(low: float, high: float) -> Any:
    """Ticks for an axis that is logarithmic in both directions from zero (`symlog`).

    >>> symlog_axis(-28, 60).values
    [-10, -3, -1, 0, 1, 3, 10, 30]
    """
    import altair as alt

    sizes = [lead * 10**p for p in range(7) for lead in (1, 3)]
    every = [-size for size in reversed(sizes)] + [0] + sizes
    sign = "(datum.value > 0 ? '+' : datum.value < 0 ? '−' : '')"
    return alt.Axis(
        values=[tick for tick in every if low < tick < high], labelExpr=f"{sign} + format(abs(datum.value), ',')"
    )


def symlog(value: float) -> float:
    """Where a value stands on an axis that is linear near zero and logarithmic beyond one, in both directions.

    >>> symlog(0.0), round(symlog(-9.0), 3)
    (0.0, -2.303)
    """
    return math.copysign(math.log1p(abs(value)), value)


def unsymlog(place: float) -> float:
    """The value that stands at a place.

    >>> round(unsymlog(symlog(-9.0)), 6)
    -9.0
    """
    return math.copysign(math.expm1(abs(place)), place)


def spread(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places of labels at least `gap` apart and within `low` and `high`, as near as can be to those given.

    Neighbours that are too close form a block around their mean (isotonic regression on the places less their share of
    gaps). If they do not fit between `low` and `high`, they are spaced evenly.

    >>> spread([10, 12, 50], gap=10, low=0, high=100)
    [6.0, 16.0, 50.0]
    >>> spread([1, 2, 3], gap=10, low=0, high=10)
    [0.0, 5.0, 10.0]
    """
    n = len(places)
    if n > 1 and (n - 1) * gap > high - low:
        gap = (high - low) / (n - 1)
    order = sorted(range(n), key=lambda i: places[i])
    blocks: list[tuple[float, int]] = []  # mean of places less gaps, how many
    for position, i in enumerate(order):
        mean, size = float(places[i]) - position * gap, 1
        while blocks and blocks[-1][0] > mean:
            before, count = blocks.pop()
            mean, size = (before * count + mean * size) / (count + size), count + size
        blocks.append((mean, size))
    result = [0.0] * n
    position = 0
    for mean, size in blocks:
        kept = min(max(mean, low), high - (n - 1) * gap)
        for _ in range(size):
            result[order[position]] = kept + position * gap
            position += 1
    return result


def _round_ticks(low: float, high: float, rough: float, margin: float) -> tuple[list[float], int]:
    """Round numbers about `rough` apart, none within a share of the range from its upper end; and their digits."""
    unit = 10.0 ** math.floor(math.log10(rough))
    step = min((lead * unit for lead in (1, 2, 5, 10)), key=lambda s: abs(math.log(s / rough)))
    first, last = math.ceil(low / step), math.floor((high - margin * (high - low)) / step)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return [round(i * step, digits + 2) for i in range(first, last + 1)], digits
