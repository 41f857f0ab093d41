"""The click rate of a display policy from the log of another: off-policy evaluation with display probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.checks import FloatArray, check_confidence, check_vector
from counterrank.common.errors import CounterrankError
from counterrank.common.numerics import gamma_quantile
from counterrank.evaluation.confidence_intervals import Interval
from counterrank.evaluation.weighted_clicks import concentration


@dataclass(frozen=True)
class ClickRate:
    """The estimated click rate of a policy, from the log of another; w is the importance weight of an impression.

    Attributes:
        ips: sum(w * clicks) / impressions.
        ips_interval: its confidence interval (low, high).
        self_normalized: sum(w * clicks) / sum(w * impressions).
        self_normalized_interval: its confidence interval (low, high).
        confidence: the confidence level.
        n_impressions: the number of impressions.
        n_clicks: the number of clicks.
        effective_impressions: (sum of w)^2 / sum of w^2 over impressions.
        effective_sample_size: the same over clicks.
        largest_weight: the largest w.
        largest_share: the largest weight of a click over the sum of all.
        mean_weight: of the impressions; about 1 if the display probabilities are right and every display of the
            target policy was possible.
    """

    ips: float
    ips_interval: Interval
    self_normalized: float
    self_normalized_interval: Interval
    confidence: float
    n_impressions: int
    n_clicks: int
    effective_impressions: float
    effective_sample_size: float
    largest_weight: float
    largest_share: float
    mean_weight: float


@dataclass(frozen=True)
class ClickRateDifference:
    """One click rate minus another, from two logs.

    Attributes:
        ips: the difference of `ips`.
        ips_interval: its confidence interval (low, high).
        self_normalized: the difference of `self_normalized`.
        self_normalized_interval: its confidence interval (low, high).
        confidence: the confidence level.
    """

    ips: float
    ips_interval: Interval
    self_normalized: float
    self_normalized_interval: Interval
    confidence: float


def click_rate(
    clicks: ArrayLike,
    impressions: ArrayLike,
    logged: ArrayLike,
    target: ArrayLike,
    *,
    confidence: float = 0.95,
) -> ClickRate:
    """The click rate of a target display policy, from impressions that another policy chose.

        w               = P(displayed | target) / P(displayed | logging)       of each row
        ips             = sum(w * clicks) / sum(impressions)
        self_normalized = sum(w * clicks) / sum(w * impressions)

    Intervals are those of Fay and Feuer (Statistics in Medicine, 1997) for a weighted sum of Poisson counts: with y =
    sum(w * clicks) and v = sum(w^2 * clicks), gamma quantiles of shape y^2 / v and scale v / y for the lower end, and
    of y + w* and v + w*^2 for the upper one. With equal weights they are the exact ones of a Poisson count. Fay and
    Feuer take the largest weight as w*; here it is the mean weight of an impression under the target policy, sum(w^2) /
    sum(w), whose coverage was measured (docs/how-to/open-bandit.md) and which does not blow up with one rare display.
    They are for clicks that are rare; where most impressions are clicked they are too wide. Rows are taken as
    independent.

    Arguments:
        clicks: of each row.
        impressions: of each row; 1 where a row is one impression.
        logged: the display probability as logged, P(this shown here | context, logging policy); above 0.
        target: the same under the target policy; a number for all rows, or one for each.
        confidence: the confidence level.

    >>> found = click_rate([1, 0, 1], [1, 1, 1], [0.5, 0.5, 0.25], 0.25)  # weights 0.5, 0.5, 1
    >>> found.ips, found.self_normalized
    (0.5, 0.75)
    >>> [round(38 / 10_000 * side, 6) for side in (26.891 / 38, 52.158 / 38)]  # Poisson, exact
    [0.002689, 0.005216]
    >>> [round(end, 6) for end in click_rate([38], [10_000], [0.0125], 0.0125).ips_interval]
    [0.002689, 0.005216]
    """
    level = check_confidence(confidence)
    times, shown, weights = _checked(clicks, impressions, logged, target)
    n, y, squares = float(shown.sum()), float((weights * times).sum()), float((weights**2 * times).sum())
    total, total_squares = float((weights * shown).sum()), float((weights**2 * shown).sum())
    if total == 0.0:
        raise CounterrankError("target: 0 for every impression; the log says nothing about this policy")
    rate = y / total
    # over displays, too: (click - rate) in place of the click
    residuals = float((weights**2 * (times * (1.0 - 2.0 * rate) + shown * rate**2)).sum())
    next_one = total_squares / total
    effective, share = concentration(times, weights)
    return ClickRate(
        ips=y / n,
        ips_interval=_interval(y, squares, next_one, n, level),
        self_normalized=rate,
        self_normalized_interval=_interval(y, residuals or squares, next_one, total, level),
        confidence=level,
        n_impressions=int(n),
        n_clicks=int(times.sum()),
        effective_impressions=total**2 / total_squares,
        effective_sample_size=effective,
        largest_weight=float(weights[shown > 0.0].max()),
        largest_share=share,
        mean_weight=total / n,
    )


def compare_click_rates(first: ClickRate, second: ClickRate) -> ClickRateDifference:
    """The first minus the second, of logs that have nothing in common.

    The interval combines those of both without assuming them to be symmetric (MOVER; Zou and Donner, Statistics in
    Medicine, 2008): from d - sqrt((a - low a)^2 + (high b - b)^2) to d + sqrt((high a - a)^2 + (b - low b)^2).

    >>> rates = [click_rate([n], [10_000], [0.1], 0.1) for n in (60, 40)]
    >>> found = compare_click_rates(*rates)
    >>> round(found.ips, 6), [round(end, 5) for end in found.ips_interval]
    (0.002, [-3e-05, 0.00407])
    """
    for name, given in (("first", first), ("second", second)):
        if not isinstance(given, ClickRate):
            raise CounterrankError(f"{name}: {type(given).__name__}; expected a ClickRate, as click_rate gives it")
    if first.confidence != second.confidence:
        raise CounterrankError(
            f"second: confidence {second.confidence:g}; expected that of the first, {first.confidence:g}"
        )
    return ClickRateDifference(
        ips=first.ips - second.ips,
        ips_interval=_joined(first.ips, first.ips_interval, second.ips, second.ips_interval),
        self_normalized=first.self_normalized - second.self_normalized,
        self_normalized_interval=_joined(
            first.self_normalized,
            first.self_normalized_interval,
            second.self_normalized,
            second.self_normalized_interval,
        ),
        confidence=first.confidence,
    )


def _joined(a: float, own: Interval, b: float, other: Interval) -> Interval:
    difference = a - b
    return difference - hypot(a - own[0], other[1] - b), difference + hypot(own[1] - a, b - other[0])


def _interval(y: float, squares: float, next_one: float, below: float, confidence: float) -> Interval:
    """Gamma quantiles; the upper one as if one more click, of the weight to be expected, had come."""
    tail = (1.0 - confidence) / 2.0
    low = squares / y * gamma_quantile(tail, y * y / squares) if y > 0.0 else 0.0
    more, more_squares = y + next_one, squares + next_one**2
    high = more_squares / more * gamma_quantile(1.0 - tail, more * more / more_squares)
    return low / below, high / below


def _checked(
    clicks: ArrayLike, impressions: ArrayLike, logged: ArrayLike, target: ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Clicks, impressions and weights of the rows."""
    times = check_vector(clicks, None, "clicks")
    shown = check_vector(impressions, len(times), "impressions", "rows")
    chance = check_vector(logged, len(times), "logged", "rows")
    chosen = check_vector(np.full(len(times), target) if np.ndim(target) == 0 else target, len(times), "target", "rows")
    for name, values, bad, expected in (
        ("impressions", shown, (shown < 0.0) | (shown != np.floor(shown)), "whole numbers of at least 0"),
        ("clicks", times, (times < 0.0) | (times != np.floor(times)), "whole numbers of at least 0"),
        ("clicks", times, times > shown, "no more clicks than impressions"),
        ("logged", chance, (chance <= 0.0) | (chance > 1.0), "probabilities above 0, up to 1: it was displayed"),
        ("target", chosen, (chosen < 0.0) | (chosen > 1.0), "probabilities from 0 to 1"),
    ):
        if bad.any():
            row = int(np.argmax(bad))
            raise CounterrankError(f"{name}: {values[row]:g} in row {row}; expected {expected}")
    if not shown.any():
        raise CounterrankError("impressions: none; expected at least one")
    return times, shown, chosen / chance
