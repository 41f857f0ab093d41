"""Random numbers for the synthetic sets: one small stream per query, the same on any number of threads.

A stream is a splitmix64 generator (Steele, Lea and Flood, 2014): a 64-bit counter in an array of one, whose
mixed value is the draw. Streams start where (seed, query, purpose) hash to, so a query can be made without the
others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from counterrank.common.jit import Array, exact_inner_kernel, exact_kernel
from counterrank.common.random import mixed

# what a stream is for: lengths are drawn before the rows exist, so they have a stream of their own
# typed, since numba compiles whatever is called with a literal number once more for that
LENGTH, CONTENT = np.int64(1), np.int64(2)

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_S12 = np.uint64(12)
_POISSON_NORMAL_FROM = 24.0  # above it the rounded normal is as good and does not get slower with the mean


@exact_kernel
def start_stream(state: Array, key: Any, query: int, purpose: int) -> None:
    """Set `state` to the start of the stream of one query and purpose; `key` is the seed's 64-bit number."""
    state[0] = mixed(mixed(key + np.uint64(query) * _GOLDEN) + np.uint64(purpose) * _GOLDEN)


@exact_inner_kernel
def next_bits(state: Array) -> Any:
    """The next 64 random bits."""
    state[0] += _GOLDEN
    return mixed(state[0])


@exact_kernel
def uniform(state: Array) -> float:
    """A number strictly between 0 and 1."""
    return (np.float64(next_bits(state) >> _S12) + 0.5) * 2.0**-52


@exact_inner_kernel
def fill_normals(state: Array, out: Array) -> None:
    """Independent standard normals (Marsaglia's polar method, which makes two at a time)."""
    for i in range(0, len(out), 2):
        size = 2.0
        while size >= 1.0:
            x = 2.0 * uniform(state) - 1.0
            y = 2.0 * uniform(state) - 1.0
            size = x * x + y * y
        factor = np.sqrt(-2.0 * np.log(size) / size)
        out[i] = x * factor
        if i + 1 < len(out):
            out[i + 1] = y * factor


@exact_inner_kernel
def poisson(state: Array, mean: float) -> int:
    """A Poisson count: by inversion, and as a rounded normal where the mean is large."""
    if mean > _POISSON_NORMAL_FROM:
        # the logistic quantile is close to the normal one and needs one draw
        u = uniform(state)
        return max(0, int(mean + np.sqrt(mean) * 0.5513 * np.log(u / (1.0 - u)) + 0.5))
    u = uniform(state)
    term = np.exp(-mean)
    total = term
    count = 0
    while u > total and count < 200:
        count += 1
        term *= mean / count
        total += term
    return count


@exact_inner_kernel
def sigmoid(x: float) -> float:
    """The logistic function."""
    value: float = 1.0 / (1.0 + np.exp(-x))
    return value


@exact_inner_kernel
def label_of(utility: float, thresholds: Array) -> int:
    """The number of thresholds that `utility` reaches."""
    label = 0
    while label < len(thresholds) and utility >= thresholds[label]:
        label += 1
    return label


@exact_kernel
def draw_lengths(
    key: Any, first_query: int, out: Array, center: float, spread: float, short_share: float, longest: int
) -> None:
    """Documents per query: log-normal, and a share of short ones (log-uniform from 1), which that lacks."""
    state = np.empty(1, np.uint64)
    normal = np.empty(2)
    for i in range(len(out)):
        start_stream(state, key, first_query + i, LENGTH)
        if uniform(state) < short_share:
            length = np.exp(uniform(state) * center)
        else:
            fill_normals(state, normal)
            length = np.exp(center + spread * normal[0])
        out[i] = min(max(int(length), 1), longest)
