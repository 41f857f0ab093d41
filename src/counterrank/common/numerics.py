"""Numbers that kernels and intervals need: exp and log1p without branches, quantiles of Student's t and of the gamma,
and the interval of Clopper and Pearson.

exp and log1p are for the half of their range that pairwise losses need. A loop over them becomes vector code, several
times faster than calls into the C library. Both are right to a few units in the last place.

`scipy.special` is loaded with the first quantile: a command that needs none starts without it, and `scipy.stats` takes
seven times as long to load. Student's t is computed by the incomplete beta function, because `stdtrit` of scipy 1.12
is right to 9 digits only.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from counterrank.common.checks import FloatArray
from counterrank.common.errors import CounterrankError, brief
from counterrank.common.jit import exact_kernel, kernel

LOG2_E = 1.4426950408889634
LN2 = 0.6931471805599453
# ln 2 in two parts, the first with enough trailing zeros that its product with a small whole number is exact
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
# adding this rounds to a whole number and leaves it in the low bits
_ROUND = 6755399441055744.0
_ONE_BITS = 0x3FF0000000000000
_LARGE = 1e4  # a shape above it

# minimax fit of exp on [-ln2/2, ln2/2], relative error 3e-18
_E2, _E3, _E4, _E5 = 0.5000000000000019, 0.1666666666666668, 0.0416666666664881, 0.008333333333319601
_E6, _E7, _E8 = 0.0013888888952314775, 0.00019841269890047113, 2.4801485482328494e-05
_E9, _E10, _E11 = 2.755724091857897e-06, 2.763263963904103e-07, 2.5110037605963777e-08

# minimax fit of atanh(z) / z as a polynomial in z^2 on [0, 1/9], relative error 2e-18
_A1, _A2, _A3, _A4 = 0.33333333333333076, 0.20000000000092874, 0.14285714272727057, 0.11111112040373837
_A5, _A6, _A7 = 0.09090870416252403, 0.07693307021152004, 0.06650187016337313
_A8, _A9, _A10 = 0.06055084364034609, 0.0416225325593041, 0.08522081781390699


def _float_bits(typing_context: Any, x: Any) -> Any:

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(types.int64))

    return types.int64(types.float64), generate


def _bits_float(typing_context: Any, x: Any) -> Any:

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(types.float64))

    return types.float64(types.int64), generate


# the bits of a float64 as an int64, and back; to the outside these are functions of one argument
float_bits: Any = intrinsic(_float_bits)
bits_float: Any = intrinsic(_bits_float)


@exact_kernel
def exp_negative(x: float) -> float:
    """exp(x) for x <= 0; below -700 it stays at exp(-700), about 1e-304.

    >>> round(exp_negative(-1.0), 12) == round(float(np.exp(-1.0)), 12)
    True
    """
    x = max(x, -700.0)
    shifted = x * LOG2_E + _ROUND
    n = shifted - _ROUND
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    p = _E11 * r + _E10
    p = p * r + _E9
    p = p * r + _E8
    p = p * r + _E7
    p = p * r + _E6
    p = p * r + _E5
    p = p * r + _E4
    p = p * r + _E3
    p = p * r + _E2
    p = p * r * r + r + 1.0
    power: float = bits_float((float_bits(shifted) << 52) + np.int64(_ONE_BITS))
    return p * power


@kernel
def log1p_and_inverse(t: float) -> tuple[float, float]:
    """ln(1 + t) and 1 / (1 + t) for 0 <= t <= 1, at the price of one division.

    >>> log1p_and_inverse(1.0) == (float(np.log(2.0)), 0.5)
    True
    """
    shared = 1.0 / ((1.0 + t) * (2.0 + t))
    z = t * (1.0 + t) * shared  # t / (2 + t); ln(1 + t) = 2 atanh(z)
    u = z * z
    p = _A10 * u + _A9
    p = p * u + _A8
    p = p * u + _A7
    p = p * u + _A6
    p = p * u + _A5
    p = p * u + _A4
    p = p * u + _A3
    p = p * u + _A2
    p = p * u + _A1
    return 2.0 * (z + z * u * p), (2.0 + t) * shared


@lru_cache(maxsize=1024)
def student_quantile(confidence: float, freedom: float) -> float:
    """The t for which |T| <= t with probability `confidence`, T being Student's with `freedom` degrees of freedom.

    T^2 / (T^2 + freedom) has the beta distribution with parameters 1/2 and freedom/2.

    >>> round(student_quantile(0.95, 1), 3), round(student_quantile(0.95, 7), 3)
    (12.706, 2.365)
    """
    from scipy.special import betaincinv

    if not 0.0 < confidence < 1.0 or freedom < 1:
        raise CounterrankError(
            f"confidence={brief(confidence)}, freedom={brief(freedom)}: expected 0 < confidence < 1 <= freedom"
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
            f"probability={brief(probability)}, shape={brief(shape)}: expected 0 < probability < 1 and a shape above 0"
        )
    if shape > _LARGE:
        return shape * float(1.0 - 1.0 / (9.0 * shape) + ndtri(probability) / (3.0 * math.sqrt(shape))) ** 3
    return float(gammaincinv(shape, probability))


def clopper_pearson(clicks: FloatArray, shown: FloatArray, tail: float) -> tuple[FloatArray, FloatArray]:
    """The ends of Clopper and Pearson's confidence interval of a probability, with at most `tail` beyond each.

    >>> low, high = clopper_pearson(np.array([0.0, 3.0]), np.array([10.0, 3.0]), 0.025)
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([0.0, 0.2924], [0.3085, 1.0])
    """
    from scipy.special import betaincinv

    pairs, where = np.unique(np.stack((clicks, shown)), axis=1, return_inverse=True)
    c, n = pairs
    low = np.where(c > 0.0, betaincinv(np.maximum(c, 1.0), n - c + 1.0, tail), 0.0)
    high = np.where(c < n, betaincinv(c + 1.0, np.maximum(n - c, 1.0), 1.0 - tail), 1.0)
    return low[where.ravel()], high[where.ravel()]
