"""Kernels for the upper bounds on the rank, one query at a time.

`bounds[d]` is filled for documents of non-zero weight; a second step, given d loss / d bound for each, adds what
follows for the scores. Where second-order terms are not wanted, their arrays are None and numba leaves them out.
"""

from __future__ import annotations

from counterrank.common.jit import Array, exact_kernel, kernel
from counterrank.common.numerics import LN2, LOG2_E, exp_negative, log1p_and_inverse


@exact_kernel
def hinge_bounds(n: int, scores: Array, bounds: Array, reach: Array) -> None:
    """The linear bound (`eq:linearupperbound`) of every document, in rank order.

    Those that count for a document, with a score above its own less one, are the first `reach` by rank, so one
    pointer and a running sum give all bounds in one sweep.
    """
    top = scores[0]
    count = 0
    total = 0.0
    for i in range(n):
        score = scores[i] - top
        while count < n and 1.0 - (scores[i] - scores[count]) > 0.0:
            total += scores[count] - top
            count += 1
        reach[i] = count
        bounds[i] = count * (1.0 - score) + total


@kernel
def hinge_gradient(n: int, slopes: Array, reach: Array, gradient: Array, spare: Array) -> None:
    """What `slopes`, d loss / d bound in rank order, mean for the scores; `gradient` is overwritten."""
    spare[: n + 1] = 0.0
    for i in range(n):
        spare[reach[i]] += slopes[i]
    running = 0.0
    for i in range(n - 1, -1, -1):
        running += spare[i + 1]  # of all documents whose reach holds place i
        gradient[i] = running - reach[i] * slopes[i]


@kernel
def hinge_curvature(n: int, slopes: Array, reach: Array, curvature: Array, spare: Array) -> None:
    """A half for each hinge that is not flat, times |slope|, to both of its documents; see `losses.second_order`."""
    spare[: n + 1] = 0.0
    for i in range(n):
        spare[reach[i]] += abs(slopes[i])
    running = 0.0
    for i in range(n - 1, -1, -1):
        running += spare[i + 1]
        # less the hinge of a document with itself, which is constant: it is in both sums
        curvature[i] = 0.5 * (max(running - abs(slopes[i]), 0.0) + (reach[i] - 1) * abs(slopes[i]))


@kernel
def logistic_bound(score: float, scores: Array, steepness: Array, bends: Array | None) -> float:
    """The logistic bound (`eq:logupperbound`) of one document.

    `steepness` gets d bound / d score of each other, `bends` the second derivative.
    """
    total = 0.0
    for j in range(len(scores)):
        u = scores[j] - score
        t = exp_negative(-abs(u))
        log_part, inverse = log1p_and_inverse(t)
        total += log_part + max(u, 0.0)
        steepness[j] = LOG2_E * inverse * (1.0 if u >= 0.0 else t)
        if bends is not None:
            bends[j] = LOG2_E * inverse * (inverse * t)
    return total * LOG2_E


@kernel
def logistic_gradient(place: int, slope: float, steepness: Array, gradient: Array) -> None:
    """Add what `slope`, d loss / d bound of the document at `place`, means for the scores."""
    total = 0.0
    for j in range(len(steepness)):
        step = slope * steepness[j]
        gradient[j] += step
        total += step
    gradient[place] -= total


@kernel
def logistic_curvature(place: int, slope: float, bends: Array, curvature: Array) -> None:
    """Add |slope| times the curvature of the bound of the document at `place`."""
    bends[place] = 0.0  # its own part in its bound is constant
    total = 0.0
    for j in range(len(bends)):
        bend = abs(slope) * bends[j]
        curvature[j] += bend
        total += bend
    curvature[place] += total


@kernel
def arp_alpha(rank: float) -> tuple[float, float]:
    """alpha(x) = -x and its derivative: the loss -alpha is the rank."""
    return -rank, -1.0


@kernel
def dcg_alpha(log_rank: float, rank: float) -> tuple[float, float]:
    """alpha(x) = 1 / log2(1 + x) and its derivative, given ln(1 + x)."""
    return LN2 / log_rank, -LN2 / ((1.0 + rank) * log_rank * log_rank)
