"""Quantiles of Student's t and of the gamma distribution, by `scipy.special`.

`scipy.special` is loaded when a quantile is first asked for: a command that needs none starts without it.
`scipy.stats` takes seven times as long to load. Student's t goes by the incomplete beta function, because `stdtrit` of
scipy 1.11 is right to 9 digits only.
"""

from __future__ import annotations

import math
from functools import lru_cache

from counterrank.common.errors import CounterrankError

_LARGE = 1e4


@lru_cache(maxsize=1024)
def student_quantile(confidence: float, freedom: int) -> float:
    """The t for which |T| <= t with probability `confidence`, T being Student's with `freedom` degrees of freedom.

    T^2 / (T^2 + freedom) has the beta distribution with parameters 1/2 and freedom/2.

    >>> round(student_quantile(0.95, 1), 3), round(student_quantile(0.95, 7), 3)
    (12.706, 2.365)
    """
    from scipy.special import betaincinv

    if not 0.0 < confidence < 1.0 or freedom < 1:
        raise CounterrankError(
            f"confidence={confidence!r}, freedom={freedom!r}: expected 0 < confidence < 1 <= freedom"
        )
    share = float(betaincinv(0.5, freedom / 2.0, confidence))
    rest = 1.0 - share
    if share > 0.5:  # the difference would lose digits
        rest = float(betaincinv(freedom / 2.0, 0.5, 1.0 - confidence))
        share = 1.0 - rest
    return math.sqrt(freedom * share / rest)


def gamma_quantile(probability: float, shape: float) -> float:
    """The x below which a gamma variable of this shape (and scale 1) lies with this probability.

    For shapes above 10,000 by Wilson and Hilferty's cube, which is right to 7 digits there.

    >>> round(gamma_quantile(0.975, 1.0), 6), round(-math.log(0.025), 6)
    (3.688879, 3.688879)
    >>> round(gamma_quantile(0.025, 38.0), 3)  # the exact lower end of a Poisson count of 38
    26.891
    """
    from scipy.special import gammaincinv, ndtri

    if not 0.0 < probability < 1.0 or not 0.0 < shape < math.inf:
        raise CounterrankError(
            f"probability={probability!r}, shape={shape!r}: expected 0 < probability < 1 and a shape above 0"
        )
    if shape > _LARGE:
        return shape * float(1.0 - 1.0 / (9.0 * shape) + ndtri(probability) / (3.0 * math.sqrt(shape))) ** 3
    return float(gammaincinv(shape, probability))
