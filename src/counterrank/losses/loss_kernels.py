"""What the kernels of all losses share: their arguments, and the loops over queries that run them.

Each family of losses has one kernel that works on one query,

    kernel(loss: Parameters, docs: Documents, curvature, room: Room) -> value,

writes the gradient to `docs.gradient`, and second-order terms to `curvature` unless that is None. It is handed to the
loops over queries, here and in training, as an argument: a new loss needs no change in them, and none of them is
compiled again for it.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.checks import FloatArray, IntArray, check_offsets, check_vector
from counterrank.common.jit import Array, as_argument, exact_allocating_kernel, kernel
from counterrank.common.parallel import for_queries
from counterrank.common.ranking import longest_of

NO_CUTOFF = 2**62

# No second-order term is less than this share of the gradient, so that no Newton step is longer than its inverse.
LEAST_CURVATURE = 0.05


class Parameters(NamedTuple):
    """The numbers that tell one loss of a family from another; what each is for, the family's kernel says.

    Attributes:
        form: which member of the family.
        alpha: which function of the rank, for the monotonic losses.
        k: the cutoff.
        level_at_k: alpha(k), for the monotonic losses.
        band: pairs farther apart than this many ranks add nothing, for LambdaLoss.
        table: discounts by rank or their differences by distance; for an alpha of one's own alpha(bound) by document.
        slopes: for an alpha of one's own, alpha'(bound) by document.
        samples: how many rankings are drawn for each query, for losses that draw; 0 for the others.
        key: of the random streams that they are drawn from.
        logged: by document, what a limit on exposure compares the exposure with, for Plackett-Luce.
        scale: of the penalty on exposure.
        low, high: limits on the ratio of exposures.
    """

    form: int
    alpha: int = 0
    k: int = NO_CUTOFF
    level_at_k: float = 0.0
    band: int = NO_CUTOFF
    table: FloatArray = np.zeros(1)
    slopes: FloatArray = np.zeros(1)
    samples: int = 0
    key: np.uint64 = np.uint64(0)
    logged: FloatArray = np.zeros(1)
    scale: float = 0.0
    low: float = 0.0
    high: float = 0.0


class LossSpec(NamedTuple):
    """A loss ready to be computed: the kernel of its family, and the numbers for it."""

    kernel: Any
    parameters: Parameters

    @property
    def draws(self) -> bool:
        """Whether value and gradient are estimates from drawn rankings."""
        return self.parameters.samples > 0

    def with_key(self, key: np.uint64) -> LossSpec:
        """The same with rankings from other random streams; itself where nothing is drawn."""
        return self._replace(parameters=self.parameters._replace(key=key)) if self.draws else self

    def argument(self) -> Any:
        """The kernel as an argument of the loops over queries."""
        return _argument(self.kernel, False)

    def second_order_argument(self) -> Any:
        """The same for the kernel with second-order terms."""
        return _argument(self.kernel, True)


class Documents(NamedTuple):
    """Documents in their own order: those of one query, or of all of them; `start` is the row of the first."""

    start: int
    scores: Array
    weights: Array
    gradient: Array


class Room(NamedTuple):
    """Scratch arrays, one row for each use, as long as the longest query and one more; `words` is one random stream."""

    floats: Array
    ints: Array
    words: Array


@exact_allocating_kernel
def make_room(longest: int) -> Room:
    """Room for queries of up to `longest` documents."""
    return Room(np.empty((14, longest + 1), np.float64), np.empty((7, longest + 1), np.int64), np.empty(1, np.uint64))


@cache
def _argument(query_kernel: Any, second_order: bool) -> Any:
    one = np.zeros(1)
    room = Room(np.zeros((1, 1)), np.zeros((1, 1), np.int64), np.zeros(1, np.uint64))
    return as_argument(query_kernel, Parameters(0), Documents(0, one, one, one), one if second_order else None, room)


@kernel
def loss_of_queries(
    first: int, last: int, offsets: Array, query_kernel: Any, loss: Parameters, docs: Documents, values: Array
) -> None:
    """values_q = the loss of query q, for each of the queries `first:last`."""
    room = make_room(longest_of(first, last, offsets))
    for q in range(first, last):
        start, end = offsets[q], offsets[q + 1]
        own = Documents(start, docs.scores[start:end], docs.weights[start:end], docs.gradient[start:end])
        values[q] = query_kernel(loss, own, None, room)


@kernel
def second_order_of_queries(
    first: int,
    last: int,
    offsets: Array,
    query_kernel: Any,
    loss: Parameters,
    docs: Documents,
    curvature: Array,
    values: Array,
) -> None:
    """As `loss_of_queries`, with curvature_d = max(second-order term, `LEAST_CURVATURE` |gradient_d|)."""
    room = make_room(longest_of(first, last, offsets))
    for q in range(first, last):
        start, end = offsets[q], offsets[q + 1]
        own = Documents(start, docs.scores[start:end], docs.weights[start:end], docs.gradient[start:end])
        values[q] = query_kernel(loss, own, curvature[start:end], room)
        for i in range(start, end):
            curvature[i] = max(curvature[i], LEAST_CURVATURE * abs(docs.gradient[i]))


def check_inputs(scores: ArrayLike, weights: ArrayLike, offsets: ArrayLike) -> tuple[FloatArray, FloatArray, IntArray]:
    """Finite float64 scores and weights, and the offsets of their queries."""
    checked = check_vector(scores, None, "scores")
    bounds = check_offsets(offsets, len(checked))
    # numba compiles once more for read-only arrays, which takes far longer than a copy
    return _writeable(checked), _writeable(check_vector(weights, len(checked), "weights")), bounds


def _writeable(array: Any) -> Any:
    return np.require(array, requirements=["C", "W"])


def run_loss(
    spec: LossSpec, scores: FloatArray, weights: FloatArray, offsets: IntArray, threads: int | None
) -> tuple[float, FloatArray]:
    """Sum over queries of the value, and the gradient for every score."""
    values, gradient = run_queries(spec, scores, weights, offsets, threads)
    return float(values.sum()), gradient


def run_queries(
    spec: LossSpec, scores: FloatArray, weights: FloatArray, offsets: IntArray, threads: int | None
) -> tuple[FloatArray, FloatArray]:
    """The value of each query, and the gradient for every score."""
    values, docs = np.empty(len(offsets) - 1), Documents(0, scores, weights, np.empty(len(scores)))
    for_queries(loss_of_queries, offsets, spec.argument(), spec.parameters, docs, values, threads=threads)
    return values, docs.gradient


def run_second_order(
    spec: LossSpec, scores: FloatArray, weights: FloatArray, offsets: IntArray, threads: int | None
) -> tuple[float, FloatArray, FloatArray]:
    """As `run_loss`, with a positive second-order term for every score."""
    values, docs = np.empty(len(offsets) - 1), Documents(0, scores, weights, np.empty(len(scores)))
    curvature = np.empty(len(scores))
    given = (spec.second_order_argument(), spec.parameters, docs, curvature, values)
    for_queries(second_order_of_queries, offsets, *given, threads=threads)
    return float(values.sum()), docs.gradient, curvature
