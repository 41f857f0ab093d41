"""From checked arrays through the kernels to a value, a gradient, and second-order terms."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.checks import FloatArray, IntArray, check_offsets, check_vector
from counterrank.common.parallel import for_queries
from counterrank.losses._query import loss_of_queries
from counterrank.losses.spec import LossSpec


def check_inputs(scores: ArrayLike, weights: ArrayLike, offsets: ArrayLike) -> tuple[FloatArray, FloatArray, IntArray]:
    """Finite float64 scores and weights, and the offsets of their queries."""
    checked = check_vector(scores, None, "scores")
    bounds = check_offsets(offsets, len(checked))
    # numba compiles once more for read-only arrays, which takes far longer than a copy
    return _writeable(checked), _writeable(check_vector(weights, len(checked), "weights")), _writeable(bounds)


def _writeable(array: Any) -> Any:
    return np.require(array, requirements=["C", "W"])


def run_loss(
    spec: LossSpec, scores: FloatArray, weights: FloatArray, offsets: IntArray, threads: int | None
) -> tuple[float, FloatArray]:
    """Sum over queries of the value, and the gradient for every score."""
    values = np.empty(len(offsets) - 1)
    gradient = np.empty(len(scores))
    for_queries(loss_of_queries, offsets, *spec, scores, weights, values, gradient, None, threads=threads)
    return float(values.sum()), gradient


def run_second_order(
    spec: LossSpec, scores: FloatArray, weights: FloatArray, offsets: IntArray, threads: int | None
) -> tuple[float, FloatArray, FloatArray]:
    """As `run_loss`, with a positive second-order term for every score."""
    values = np.empty(len(offsets) - 1)
    gradient, curvature = np.empty(len(scores)), np.empty(len(scores))
    for_queries(loss_of_queries, offsets, *spec, scores, weights, values, gradient, curvature, threads=threads)
    return float(values.sum()), gradient, curvature
