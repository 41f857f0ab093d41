"""Student's t: quantiles by a series, tails by plain integration."""

import math
from statistics import NormalDist

import numpy as np


def student_quantile(confidence: float, freedom: float) -> float:
    """The two-sided quantile as a series about the normal one (Abramowitz and Stegun, 26.7.5, to 1 / freedom^3)."""
    z = NormalDist().inv_cdf(0.5 + confidence / 2.0)
    terms = (
        z,
        (z**3 + z) / 4.0,
        (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0,
        (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0,
    )
    return sum(term / freedom**power for power, term in enumerate(terms))


def student_tail(t: float, freedom: int) -> float:
    """P(|T| > t): the density of T = tan(angle) * sqrt(freedom) is proportional to cos(angle)^(freedom - 1)."""
    angles = np.linspace(0.0, math.pi / 2.0, 200_001)
    density = np.cos(angles) ** (freedom - 1)
    return float(density[angles > math.atan(t / math.sqrt(freedom))].sum() / density.sum())
