"""Axes as on paper: powers of ten along logarithms, round numbers up the side."""

from __future__ import annotations

import math
from typing import Any

from counterrank.report.names import SUPERSCRIPTS


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


def x_axis(places: list[float], x: dict[str, Any]) -> Any:
    """Ticks at 1, 2, 5, 10 ... for small numbers and at powers of ten for large ones, as on paper.

    >>> x_axis([1, 5, 100], {"log": True}).values
    [1, 2, 5, 10, 20, 50, 100]
    """
    import altair as alt

    if not x.get("log") or places[0] <= 0:
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


def y_axis(low: float, high: float, height: int) -> Any:
    """Round ticks, none so near the top that its label would push the title up.

    >>> y_axis(0.58, 0.91, height=300).values
    [0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9]
    """
    import altair as alt

    rough = (high - low) / 6
    unit = 10.0 ** math.floor(math.log10(rough))
    step = min((lead * unit for lead in (1, 2, 5, 10)), key=lambda s: abs(math.log(s / rough)))
    first, last = math.ceil(low / step), math.floor((high - 8 * (high - low) / height) / step)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return alt.Axis(values=[round(i * step, digits + 2) for i in range(first, last + 1)], format=f",.{digits}f")
