"""Kernels of gradient descent on a linear model.

`problem` is (offsets, features, weights, low, inverse, shared, longest, sets) and `loss` the numbers of a `LossSpec`.
Where `sets` is None, each query is one ranking, and `weights` follow the documents of the data. Else it is (of_query,
offsets, places): the sets of query q are of_query[q]:of_query[q + 1], the documents of set s are at
places[offsets[s]:offsets[s + 1]] in their query, and `weights` follow `places`. Handed over as an argument of its own,
a None has numba leave out what is for sets.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from counterrank.common.flags import await_flag, publish
from counterrank.common.jit import Array, kernel
from counterrank.losses._query import query_loss, scratch
from counterrank.models.linear_kernels import gradient_of_rows, scaled_coefficients, score_rows


@kernel
def _room(longest: int, n_features: int) -> Any:
    """Room for scores and slopes of a query, the same of one set, scaled coefficients, and the loss's own."""
    floats, ints = scratch(longest)
    return (
        np.empty(longest), np.empty(longest), np.empty(longest), np.empty(longest), np.empty(n_features), floats, ints
    )  # fmt: skip


@kernel
def _gather(places: Array, values: Array, out: Array) -> None:
    for i in range(len(places)):
        out[i] = values[places[i]]


@kernel
def _add_at(places: Array, values: Array, out: Array) -> None:
    for i in range(len(places)):
        out[places[i]] += values[i]


@kernel
def _loss_of_sets(q: int, sets: Any, loss: Any, scores: Array, weights: Array, slopes: Array, room: Any) -> float:
    """The loss of all sets of a query; `slopes` gets d loss / d scores."""
    kind, alpha, k, band, table = loss
    _, _, set_scores, set_slopes, _, floats, ints = room
    of_query, offsets, places = sets
    slopes[:] = 0.0
    value = 0.0
    for s in range(of_query[q], of_query[q + 1]):
        first, last = offsets[s], offsets[s + 1]
        own, own_slopes = set_scores[: last - first], set_slopes[: last - first]
        _gather(places[first:last], scores, own)
        value += query_loss(kind, alpha, k, band, table, own, weights[first:last], own_slopes, None, floats, ints)
        _add_at(places[first:last], own_slopes, slopes)
    return value


@kernel
def _query_gradient(
    q: int, problem: Any, sets: Any, loss: Any, coefficients: Array, room: Any, gradient: Array
) -> float:
    """The loss of one query, and its gradient for the coefficients."""
    offsets, features, weights, low, inverse, shared, _, _ = problem
    at = 0 if shared else q
    start, end = offsets[q], offsets[q + 1]
    rows, scores, slopes, scaled = features[start:end], room[0][: end - start], room[1][: end - start], room[4]
    constant = scaled_coefficients(coefficients, low[at], inverse[at], scaled)
    score_rows(rows, scaled, constant, scores)
    if sets is None:
        kind, alpha, k, band, table = loss
        value = query_loss(kind, alpha, k, band, table, scores, weights[start:end], slopes, None, room[5], room[6])
    else:
        value = _loss_of_sets(q, sets, loss, scores, weights, slopes, room)
    gradient_of_rows(rows, slopes, gradient)
    for f in range(len(coefficients)):
        gradient[f] *= inverse[at, f]
    return value


@kernel
def sgd_epoch(queries: Array, problem: Any, loss: Any, step: float, coefficients: Array, norms: Array) -> float:
    """One step for each of `queries` in their order; returns the sum of the losses met on the way.

    `norms` gets the norm of each query's gradient.
    """
    room = _room(problem[6], len(coefficients))
    gradient = np.empty(len(coefficients))
    value = 0.0
    for i in range(len(queries)):
        value += _query_gradient(queries[i], problem, problem[7], loss, coefficients, room, gradient)
        square = 0.0
        for f in range(len(coefficients)):
            coefficients[f] -= step * gradient[f]
            square += gradient[f] * gradient[f]
        norms[i] = np.sqrt(square)
    return value


@kernel
def batch_epoch(
    thread: int,
    cuts: Array,
    bounds: Array,
    queries: Array,
    problem: Any,
    loss: Any,
    step: float,
    coefficients: Array,
    totals: Array,
    values: Array,
    flags: Array,
) -> None:
    """One thread's part in an epoch of steps that take a batch each; all threads run this side by side.

    Piece `p` of the epoch is `queries[bounds[p]:bounds[p + 1]]`, and a batch has as many pieces as `totals` has rows.
    In batch `b` this thread sums the gradients of the pieces from `cuts[b, thread]` on; then the first thread adds up
    the pieces in their order and takes the step while the others wait. Pieces are the same whatever the threads.
    """
    room = _room(problem[6], len(coefficients))
    gradient = np.empty(len(coefficients))
    n_pieces, n_threads = len(totals), cuts.shape[1] - 1
    for b in range(len(cuts)):
        for piece in range(cuts[b, thread], cuts[b, thread + 1]):
            at = b * n_pieces + piece
            totals[piece] = 0.0
            values[at] = 0.0
            for i in range(bounds[at], bounds[at + 1]):
                values[at] += _query_gradient(queries[i], problem, problem[7], loss, coefficients, room, gradient)
                for f in range(len(coefficients)):
                    totals[piece, f] += gradient[f]
        if thread > 0:
            publish(flags, thread, 2 * b + 1)
            if not await_flag(flags, 0, 2 * b + 2):
                return
            continue
        for other in range(1, n_threads):
            if not await_flag(flags, other, 2 * b + 1):
                return
        gradient[:] = 0.0
        for piece in range(n_pieces):
            for f in range(len(coefficients)):
                gradient[f] += totals[piece, f]
        for f in range(len(coefficients)):
            coefficients[f] -= step * gradient[f]
        publish(flags, 0, 2 * b + 2)
