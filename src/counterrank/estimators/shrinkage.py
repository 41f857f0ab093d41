"""The shrinkage estimator: click rates of few examinations are drawn towards a model of relevance."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import Examination
from counterrank.common.checks import FloatArray, is_real
from counterrank.common.errors import CounterrankError
from counterrank.common.parallel import run_parallel, thread_count
from counterrank.estimators._shrinkage import log_likelihood
from counterrank.estimators.examinations import Examinations, check_relevance, examinations

# where the strength is looked for: the model counts as much as so many examinations
_WEAKEST, _STRONGEST, _GRID = 1e-2, 1e6, 17
_CLOSE = 1e-4  # of the logarithm
# clicks that are as likely under any strength, as those of documents examined once are, leave it at this
_FLAT, _UNTOLD = 1e-11, 1.0
_TOGETHER = 1 << 16  # documents a thread takes at a time
# a document that the model holds for hopeless or certain may prove it wrong
_SURE = 1e-3
_LARGEST = 1e300


def shrinkage(
    clicks: ClickCounts,
    rho: ArrayLike | None,
    relevance: ArrayLike,
    *,
    strength: float | None = None,
    exam: ArrayLike | Examination | None = None,
    beta: ArrayLike | Examination | None = None,
) -> FloatArray:
    """The click rate of each document once examined, as if the model had been seen to be right some times before.

        omega(d) = n (clicks(d) + m R(d)) / (E(d) + m)

    E(d) is how often d was examined, n rho(d), or with `exam` what the log shows; m, the strength of the model, is
    worth so many examinations. Documents examined far more often than m times have their policy-aware weight, those
    hardly seen n R(d). Biased by the model, less and less as sessions grow.

    Arguments:
        clicks: what was shown and clicked.
        rho: the propensity of each document; None for how often the log shows it, which needs `exam`.
        relevance: R, one number per document, such as `fit_relevance` gives.
        strength: m, 0 or more; None for the most likely one, see `best_strength`.
        exam: how likely each rank is examined. Under trust bias alpha by rank, rho then being its expectation.
        beta: under trust bias, the chance of a click on an irrelevant document by rank.

    Returns:
        float64 weights, one per document of the data.

    >>> docs, ranks, shown, clicked = np.array([[0, 1], [1, 2], [10, 4], [5, 2]])
    >>> clicks = ClickCounts("", np.array([0, 2]), np.array([10]), docs, ranks, shown, clicked)
    >>> shrinkage(clicks, [1.0, 0.2], [0.4, 0.1], strength=2).tolist()  # 10 * 5.8 / 12, 10 * 2.2 / 4
    [4.833333333333333, 5.5]
    """
    seen = examinations(clicks, rho, exam, beta)
    predicted = check_relevance(relevance, len(seen.rho))
    m = most_likely(seen, predicted) if strength is None else check_strength(strength)
    return shrunk(seen, predicted, m)


def shrunk(seen: Examinations, relevance: FloatArray, strength: float) -> FloatArray:
    """`shrinkage` of what was examined and clicked."""
    below = seen.times + strength
    rates = relevance.copy()  # of documents that nobody can have examined, if the model has no strength either
    np.divide(seen.clicks + strength * relevance, below, out=rates, where=below > 0.0)
    weights: FloatArray = seen.sessions * rates
    return weights


def best_strength(
    clicks: ClickCounts,
    rho: ArrayLike | None,
    relevance: ArrayLike,
    *,
    exam: ArrayLike | Examination | None = None,
    beta: ArrayLike | Examination | None = None,
) -> float:
    """The strength under which the clicks are most likely, if true relevance scatters about R (empirical Bayes).

        clicks(d) ~ Binomial(k(d), e(d) r(d)),   r(d) ~ Beta(m R(d), m (1 - R(d))),   e(d) = E(d) / k(d)

    k(d) is how often d was shown, or n without `exam`. Once shown, a document may have been looked at or not; e(d) r(d)
    is taken for a beta variable of its own mean and variance, so that clicks are beta-binomial. Where all that is shown
    is examined, this is exact; where little is, the strength of a poor model (m of 1 and less) comes out too small if
    documents were examined often, which matters little then.

    The larger the better the model explains the clicks; from 0.01 to a million, and 1 where the clicks cannot tell, as
    when no document was examined more than once. R must come from clicks of other queries (`fit_relevance` sees to
    that), or it explains its own noise; predictions are held to be between 0.001 and 0.999.

    Arguments:
        clicks: what was shown and clicked.
        rho: the propensity of each document; None for how often the log shows it, which needs `exam`.
        relevance: R, one number per document, such as `fit_relevance` gives.
        exam: how likely each rank is examined. Under trust bias alpha by rank, rho then being its expectation.
        beta: under trust bias, the chance of a click on an irrelevant document by rank.

    Returns:
        m, a number of examinations.

    >>> docs, ranks, shown, clicked = np.array([[0, 1, 2, 3], [1, 1, 1, 1], [99, 99, 99, 99], [0, 99, 98, 1]])
    >>> clicks = ClickCounts("", np.array([0, 4]), np.array([99]), docs, ranks, shown, clicked)
    >>> best_strength(clicks, np.ones(4), np.full(4, 0.5)) < 2  # half of them always, half never: no help
    True
    """
    seen = examinations(clicks, rho, exam, beta)
    return most_likely(seen, check_relevance(relevance, len(seen.rho)))


def most_likely(seen: Examinations, relevance: FloatArray) -> float:
    """The best of a grid, refined by golden sections between its neighbours: there may be more than one summit.

    With e r of mean e R and variance e^2 R (1 - R) / (m + 1), a beta variable has the strength (m + 1) g - 1, where
    g = (1 - e R) / (e (1 - R)). Fewer clicks than none, once those that trust brings are taken off, count as none.
    """
    told = seen.times > 0.0
    trials, chances = seen.trials[told], np.clip(relevance[told], _SURE, 1.0 - _SURE)
    clicks = np.clip(seen.clicks[told], 0.0, trials)
    exposures = np.minimum(seen.times[told] / trials, 1.0)
    rates = exposures * chances
    spreads = (1.0 - rates) / (exposures * (1.0 - chances))
    threads = thread_count()
    cuts = [*range(0, len(clicks), _TOGETHER), len(clicks)]

    def fit(logarithm: float) -> float:
        strength = math.exp(logarithm)
        jobs = [partial(log_likelihood, *ends, strength, clicks, trials, rates, spreads) for ends in pairwise(cuts)]
        return float(sum(run_parallel(jobs, threads)))  # ranges that do not depend on the threads, nor does the sum

    grid = np.linspace(math.log(_WEAKEST), math.log(_STRONGEST), _GRID)
    found = np.array([fit(float(at)) for at in grid])
    if not found.max() - found.min() > _FLAT * max(1.0, abs(float(found.max()))):
        return _UNTOLD
    best = int(np.argmax(found))
    inside, value = golden_section(fit, float(grid[max(best - 1, 0)]), float(grid[min(best + 1, _GRID - 1)]))
    return math.exp(inside if value > found[best] else float(grid[best]))


def golden_section(function: Callable[[float], float], low: float, high: float) -> tuple[float, float]:
    """Where a function with one summit between the ends is largest, to about 1e-4, and its value there.

    >>> round(golden_section(lambda x: -((x - 2.0) ** 2), 0.0, 5.0)[0], 3)
    2.0
    """
    ratio = (math.sqrt(5.0) - 1.0) / 2.0
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = function(left), function(right)
    while high - low > _CLOSE:
        if at_left < at_right:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = function(right)
        else:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = function(left)
    return (left, at_left) if at_left > at_right else (right, at_right)


def check_strength(strength: Any) -> float:
    """How many examinations the model is worth.

    >>> check_strength(3)
    3.0
    """
    if not is_real(strength) or not 0.0 <= strength <= _LARGEST:
        raise CounterrankError(f"strength={strength!r}: expected a number of at least 0, or None for the most likely")
    return float(strength)
