"""Click rates with intervals: Wilson's, widened where clicks of one query hang together."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.checks import FloatArray
from counterrank.common.quantiles import student_quantile

CONFIDENCE = 0.95
NORMAL = 1.959963984540054  # of a 95 % interval


def wilson(successes: ArrayLike, trials: ArrayLike, quantile: ArrayLike = NORMAL) -> tuple[FloatArray, FloatArray]:
    """Both ends of Wilson's interval of a share, nan without trials.

        (p + z^2 / 2n -+ z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)

    Wilson, Probable inference, the law of succession, and statistical inference, 1927. Unlike p -+ z sqrt(p (1 - p) /
    n) it holds for few clicks, and none.

    Arguments:
        successes, trials: how often something happened, and could have; need not be whole.
        quantile: z.

    >>> low, high = wilson([0, 5], [10, 10])
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 0.237], [0.278, 0.763])
    """
    n = np.asarray(trials, np.float64)
    z2 = np.square(np.asarray(quantile, np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.asarray(successes, np.float64) / n
        middle = p + z2 / (2.0 * n)
        half = np.sqrt(z2 * (p * (1.0 - p) / n + z2 / (4.0 * n * n)))
        low, high = (middle - half) / (1.0 + z2 / n), (middle + half) / (1.0 + z2 / n)
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def clustered(clicks: ArrayLike, shown: ArrayLike) -> dict[str, Any]:
    """A click rate with its interval over queries, from the clicks and impressions of each query.

        rate = sum(clicks) / sum(shown),   V = Q / (Q - 1) sum((clicks - rate shown)^2) / sum(shown)^2

    The clicks of one query hang together, so Wilson's interval is taken with n = rate (1 - rate) / V in place of the
    number of impressions where that is less, and with Student's quantile at Q - 1 (Korn and Graubard, Confidence
    intervals for proportions with small expected number of positive counts estimated from survey data, 1998). It
    speaks of queries such as these. With a single query there is nothing to compare, and the interval is that of
    independent impressions.

    Arguments:
        clicks, shown: of each query.

    Returns:
        rate, low, high; effective, the n of the interval; queries, how many were shown. Without impressions rate, low
        and high are None.

    >>> {key: round(value, 3) for key, value in clustered([5, 1, 3], [10, 10, 10]).items()}
    {'rate': 0.3, 'low': 0.054, 'high': 0.762, 'effective': 15.75, 'queries': 3}
    """
    n = np.asarray(shown, np.float64)
    c = np.asarray(clicks, np.float64)[n > 0]
    n = n[n > 0]
    total, queries = float(n.sum()), len(n)
    if not total:
        return {"rate": None, "low": None, "high": None, "effective": 0.0, "queries": 0}
    rate = float(c.sum()) / total
    effective, quantile = total, NORMAL
    if queries > 1:
        variance = queries / (queries - 1) * float(np.square(c - rate * n).sum()) / total**2
        quantile = student_quantile(CONFIDENCE, queries - 1) if queries < 1000 else NORMAL
        if variance > 0.0 and 0.0 < rate < 1.0:
            effective = min(total, rate * (1.0 - rate) / variance)
    low, high = wilson(rate * effective, effective, quantile)
    return {"rate": rate, "low": float(low), "high": float(high), "effective": effective, "queries": queries}


def bernstein(distance: ArrayLike, variance: ArrayLike) -> FloatArray:
    """A bound on the chance that a count of independent events is so far from its mean, in either direction.

        P(|X - E X| >= t) <= 2 exp(-t^2 / (2 (V + t / 3)))

    Bernstein's inequality: true for any number of events, however unlikely they are.

    >>> bernstein([0.0, 30.0], [25.0, 25.0]).round(8).tolist()
    [1.0, 5.21e-06]
    """
    t, v = np.abs(np.asarray(distance, np.float64)), np.asarray(variance, np.float64)
    exponent = np.zeros(np.broadcast(t, v).shape)
    np.divide(t * t, 2.0 * (v + t / 3.0), out=exponent, where=t > 0.0)
    bound: FloatArray = np.minimum(1.0, 2.0 * np.exp(-exponent))
    return bound


def finite(value: float) -> float | None:
    """A number for JSON, which knows no nan.

    >>> finite(float("nan")), finite(2.0)
    (None, 2.0)
    """
    return float(value) if math.isfinite(value) else None
