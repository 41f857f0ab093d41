"""Document weights with a model of relevance: the direct method, doubly robust, and shrinkage."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.examination import Examination
from counterrank.common.checks import FloatArray, check_number, is_real
from counterrank.common.errors import CounterrankError, brief
from counterrank.common.jit import Array, compiled, exact_inner_kernel, inner_kernel, kernel
from counterrank.common.numerics import LN2, bits_float, float_bits, log1p_and_inverse
from counterrank.common.parallel import run_parallel, thread_count
from counterrank.estimators.propensities import SMALLEST, sessions_of_documents
from counterrank.estimators.relevance import Examinations, check_relevance, examinations


def doubly_robust(
    clicks: ClickCounts,
    rho: ArrayLike | None,
    relevance: ArrayLike,
    *,
    tau: float = 0.0,
    exam: ArrayLike | Examination | None = None,
    beta: ArrayLike | Examination | None = None,
) -> FloatArray:
    """The doubly robust estimator: predicted relevance, corrected by weighted clicks (Oosterhuis 2023).

        omega(d) = n R(d) + (clicks(d) - E(d) R(d)) / max(rho(d), tau)

    E(d) is how often d was examined: n rho(d) on average, and with `exam` what the log shows, the sum over ranks of
    impressions times P(examined | rank).

    Unbiased where rho(d) >= tau whatever R is; with `exam` also where R is right whatever rho is. A document with
    propensity 0 keeps n R(d). Without `exam` and tau it is the policy-aware estimator wherever rho > 0, since both
    terms with R cancel: R reduces variance through `exam`, which removes the chance of which documents were shown, and
    through tau, below which the correction counts for rho / tau only.

    Arguments:
        clicks: what was shown and clicked.
        rho: the propensity of each document, as `policy.propensity(scores, offsets, exam)` gives it; None for how often
            the log shows it, which needs `exam` (simulated clicks remember theirs).
        relevance: R, one number per document, such as `fit_relevance` gives.
        tau: the least propensity to divide by, from 0 to 1.
        exam: how likely each rank is examined. Under trust bias a user model, see `examination.Affine`, rho then being
            the expectation of its alpha; R is the relevance of its gauge.
        beta: by rank, if exam is alpha by rank and no user model.

    Returns:
        float64 weights, one per document of the data; negative where the model predicts more clicks than there were.

    >>> docs, ranks, shown, clicked = np.array([[0, 1], [1, 2], [10, 4], [5, 2]])
    >>> clicks = ClickCounts("", np.array([0, 2]), np.array([10]), docs, ranks, shown, clicked)
    >>> doubly_robust(clicks, [1.0, 0.2], [0.4, 0.1], tau=0.5).tolist()  # 4 + (5 - 4) / 1, 1 + (2 - 0.2) / 0.5
    [5.0, 4.6]
    >>> doubly_robust(clicks, [1.0, 0.2], [0.4, 0.5], exam=[1.0, 0.5]).tolist()  # 5 + (2 - 4 * 0.5 * 0.5) / 0.2
    [5.0, 10.0]
    """
    seen, least = examinations(clicks, rho, exam, beta), check_tau(tau)
    return doubly_robust_weights(seen, check_relevance(relevance, len(seen.rho)), least)


def doubly_robust_weights(seen: Examinations, relevance: FloatArray, tau: float) -> FloatArray:
    """`doubly_robust` of what was examined and clicked."""
    known = seen.rho >= SMALLEST
    inverse = np.zeros(len(seen.rho))
    np.divide(1.0, np.maximum(seen.rho, tau), out=inverse, where=known)
    weights: FloatArray = seen.sessions * relevance + (seen.clicks - seen.times * relevance) * inverse
    return weights


def check_tau(tau: Any) -> float:
    """The least propensity to divide by.

    >>> check_tau(0)
    0.0
    """
    return check_number(tau, "tau", at_least=0, at_most=1)


def direct(clicks: ClickCounts, relevance: ArrayLike) -> FloatArray:
    """The direct method: document weights from the predicted relevance alone.

        omega(d) = n R(d)       n sessions of its query

    Clicks enter through the model alone, see `fit_relevance`: the least variance, and the bias of the model however
    many clicks there are.

    Arguments:
        clicks: what was shown and clicked.
        relevance: R, one number per document, such as `fit_relevance` gives.

    Returns:
        float64 weights, one per document of the data.

    >>> docs, ranks, shown, clicked = np.array([[0, 1], [1, 2], [10, 10], [5, 1]])
    >>> clicks = ClickCounts("", np.array([0, 2]), np.array([10]), docs, ranks, shown, clicked)
    >>> direct(clicks, relevance=[0.4, 0.1]).tolist()
    [4.0, 1.0]
    """
    counts = check_counts(clicks)
    return np.asarray(sessions_of_documents(counts) * check_relevance(relevance, counts.n_docs))


# from here on Stirling's series is right to about 13 digits
_LARGE = 8.0
_ONE_BITS = np.int64(0x3FF0000000000000)
_FRACTION = np.int64(0x000FFFFFFFFFFFFF)
# a small whole number in the low bits of 2 ** 52 is its own value; exponents are kept 1023 larger
_TO_FLOAT, _FROM_FLOAT = np.int64(0x4330000000000000), 2.0**52 + 1023.0


@kernel
def log_likelihood(
    first: int, last: int, strength: float, clicks: Array, trials: Array, rates: Array, spreads: Array
) -> float:
    """The sum over documents of ln B(c + s p, k - c + s (1 - p)) - ln B(s p, s (1 - p)), beta-binomial.

    c clicks out of k trials, which need not be whole numbers, 0 <= c <= k; p is the predicted rate, between 0 and 1,
    the ends left out, and s = (m + 1) g - 1, with m the strength and g >= 1 the document's `spreads`. Without branches,
    so that it becomes vector code.
    """
    total = 0.0
    for d in range(first, last):
        own = (strength + 1.0) * spreads[d] - 1.0
        yes = log_rising(own * rates[d], clicks[d])
        no = log_rising(own * (1.0 - rates[d]), trials[d] - clicks[d])
        total += yes + no - log_rising(own, trials[d])
    return total


@partial(compiled, fastmath={"contract"}, forceinline=True)
def log_rising(x: float, n: float) -> float:
    """ln Gamma(x + n) - ln Gamma(x) for x > 0 and n >= 0: the logarithm of x (x + 1) ... (x + n - 1) for whole n.

    By Stirling's series, whose difference is taken term by term: of a strength of a million and one examination both
    logarithms would agree in their first digits, and the rest be noise. Built into the loop above, which otherwise
    would not be made of vectors.
    """
    shifted = x < _LARGE
    ratio = _rising(x + n) / _rising(x) if shifted else 1.0  # Gamma(x) = Gamma(x + 8) / (x (x + 1) ... (x + 7))
    x = x + 8.0 if shifted else x
    y = x + n
    main = (x - 0.5) * _log1p(n / x) + n * (_log1p(y - 1.0) - 1.0)
    return main + _tail(y) - _tail(x) - _log1p(ratio - 1.0)


@inner_kernel
def _rising(x: float) -> float:
    """x (x + 1) ... (x + 7)."""
    u = x * (x + 7.0)  # (x + i) (x + 7 - i) = u + i (7 - i)
    return u * (u + 6.0) * (u + 10.0) * (u + 12.0)


@exact_inner_kernel
def _log1p(u: float) -> float:
    """ln(1 + u) for u >= 0."""
    bits = float_bits(1.0 + u)
    small = u < 1.0
    exponent = 0.0 if small else bits_float((bits >> 52) | _TO_FLOAT) - _FROM_FLOAT
    fraction = u if small else bits_float((bits & _FRACTION) | _ONE_BITS) - 1.0
    return exponent * LN2 + log1p_and_inverse(fraction)[0]


@inner_kernel
def _tail(x: float) -> float:
    """ln Gamma(x) - ((x - 1/2) ln x - x + ln(2 pi) / 2) = 1/(12 x) - 1/(360 x^3) + 1/(1260 x^5) - ..., for x >= 8."""
    inverse = 1.0 / x
    u = inverse * inverse
    series = 1.0 / 1680.0 - u * (1.0 / 1188.0)
    series = 1.0 / 1260.0 - u * series
    series = 1.0 / 360.0 - u * series
    return (1.0 / 12.0 - u * series) * inverse


# where the strength is looked for: the model counts as much as so many examinations
_WEAKEST, _STRONGEST, _GRID = 1e-2, 1e6, 17
_CLOSE = 1e-4  # of the logarithm
# the strength where clicks are equally likely under any, as those of documents examined once are
_FLAT, _UNDECIDED = 1e-11, 1.0
_TOGETHER = 1 << 16  # documents a thread takes at a time
_SURE = 1e-3  # predictions are clipped to this distance from 0 and 1
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
    """The shrinkage estimator: click rates given examination, shrunk towards the predicted relevance.

        omega(d) = n (clicks(d) + m R(d)) / (E(d) + m)

    E(d) is how often d was examined, n rho(d), or with `exam` what the log shows; m, the strength of the model, is in
    examinations. Documents examined far more often than m times have their policy-aware weight, those hardly examined
    n R(d). Biased by the model, less and less as sessions grow.

    Arguments:
        clicks, rho, relevance, exam, beta: as in `doubly_robust`.
        strength: m, 0 or more; None for the most likely one, see `best_strength`.

    Returns:
        float64 weights, one per document of the data.

    >>> docs, ranks, shown, clicked = np.array([[0, 1], [1, 2], [10, 4], [5, 2]])
    >>> clicks = ClickCounts("", np.array([0, 2]), np.array([10]), docs, ranks, shown, clicked)
    >>> shrinkage(clicks, [1.0, 0.2], [0.4, 0.1], strength=2).tolist()  # 10 * 5.8 / 12, 10 * 2.2 / 4
    [4.833333333333333, 5.5]
    """
    seen = examinations(clicks, rho, exam, beta)
    predicted = check_relevance(relevance, len(seen.rho))
    m = most_likely_strength(seen, predicted) if strength is None else check_strength(strength)
    return shrunken_weights(seen, predicted, m)


def shrunken_weights(seen: Examinations, relevance: FloatArray, strength: float) -> FloatArray:
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
    """The maximum-likelihood strength of `shrinkage`, if the true relevance varies around R (empirical Bayes).

        clicks(d) ~ Binomial(k(d), e(d) r(d)),   r(d) ~ Beta(m R(d), m (1 - R(d))),   e(d) = E(d) / k(d)

    k(d) is how often d was shown, or n without `exam`. Once shown, a document may have been looked at or not; e(d) r(d)
    is taken for a beta variable of its own mean and variance, so that clicks are beta-binomial. Where all that is shown
    is examined, this is exact; where little is, the strength of a poor model (m of 1 and less) comes out too small if
    documents were examined often, which matters little then.

    The larger the better the model explains the clicks; from 0.01 to a million, and 1 where the clicks do not decide,
    as when no document was examined more than once. R must come from clicks of other queries (`fit_relevance` is
    cross-fitted), or it explains its own noise; predictions are clipped to 0.001 .. 0.999.

    Arguments:
        clicks, rho, relevance, exam, beta: as in `doubly_robust`.

    Returns:
        m, a number of examinations.

    >>> docs, ranks, shown, clicked = np.array([[0, 1, 2, 3], [1, 1, 1, 1], [99, 99, 99, 99], [0, 99, 98, 1]])
    >>> clicks = ClickCounts("", np.array([0, 4]), np.array([99]), docs, ranks, shown, clicked)
    >>> best_strength(clicks, np.ones(4), np.full(4, 0.5)) < 2  # half of them always, half never: no help
    True
    """
    seen = examinations(clicks, rho, exam, beta)
    return most_likely_strength(seen, check_relevance(relevance, len(seen.rho)))


def most_likely_strength(seen: Examinations, relevance: FloatArray) -> float:
    """`best_strength` of what was examined and clicked."""
    return strength_and_likelihood(seen, relevance)[0]


def strength_and_likelihood(
    seen: Examinations, relevance: FloatArray, strength: float | None = None
) -> tuple[float, float]:
    """The most likely strength and its log-likelihood, up to a constant of the clicks; or those of a given strength.

    The best of a grid, refined by golden sections between its neighbours: there may be more than one summit. With e r
    of mean e R and variance e^2 R (1 - R) / (m + 1), a beta variable has the strength (m + 1) g - 1, where
    g = (1 - e R) / (e (1 - R)). Fewer clicks than none, once those that trust brings are taken off, count as none.
    """
    shown = seen.times > 0.0
    trials, chances = seen.trials[shown], np.clip(relevance[shown], _SURE, 1.0 - _SURE)
    clicks = np.clip(seen.clicks[shown], 0.0, trials)
    exposures = np.minimum(seen.times[shown] / trials, 1.0)
    rates = exposures * chances
    spreads = (1.0 - rates) / (exposures * (1.0 - chances))
    threads = thread_count()
    cuts = [*range(0, len(clicks), _TOGETHER), len(clicks)]

    def fit(logarithm: float) -> float:
        strength = math.exp(logarithm)
        jobs = [partial(log_likelihood, *ends, strength, clicks, trials, rates, spreads) for ends in pairwise(cuts)]
        return float(sum(run_parallel(jobs, threads)))  # ranges that do not depend on the threads, nor does the sum

    if strength is not None:
        return strength, fit(math.log(min(max(strength, _WEAKEST), _STRONGEST)))
    grid = np.linspace(math.log(_WEAKEST), math.log(_STRONGEST), _GRID)
    found = np.array([fit(float(at)) for at in grid])
    most = float(found.max())
    if not most - found.min() > _FLAT * max(1.0, abs(most)):
        return _UNDECIDED, most
    best = int(np.argmax(found))
    inside, value = golden_section(fit, float(grid[max(best - 1, 0)]), float(grid[min(best + 1, _GRID - 1)]))
    return math.exp(inside if value > most else float(grid[best])), max(value, most)


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
        raise CounterrankError(
            f"strength={brief(strength)}: expected a number of at least 0, or None for the most likely"
        )
    return float(strength)
