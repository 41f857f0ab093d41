"""The world of the `"yahoo"` shape: 700 nameless columns of quantiles, many of them zero.

A document has hidden traits and a query has some of its own, all independent standard normals. A column mixes two
traits and noise, is turned into its quantile (so it lies in [0, 1]), and its lower part, a different share for each
column, is set to zero. `make_world` draws once and for all which column shows what:

| columns | what |
|---|---|
| 181 | empty: always 0, as in the real data |
| about 8 % of the rest | of the query alone, the same for all its documents |
| about 15 % | nearly the column before them, seen once more |
| about 25 % | from sources that know few documents, zero together for the others |
| the rest | plain views of a document |
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from counterrank.common.jit import Array, exact_inner_kernel, exact_kernel
from counterrank.data.synthetic_draws import CONTENT, fill_normals, label_of, next_bits, sigmoid, start_stream, uniform

N_FEATURES = 700
N_EMPTY = 181
N_TRAITS = 30  # of a document: the first few matter to the judge, the last entry is the judge's noise
N_QUERY_TRAITS = 6
N_SOURCES = 8

# documents per query: log-normal around 20 (mean 24), 3 % short ones
LENGTHS = (3.045, 0.6, 0.03, 139)

# Where labels 1 to 4 begin: the quantiles 26, 62, 90 and 98 % of `relevance` over 20,000 queries, found once.
THRESHOLDS = np.array([-1.475, -0.165, 1.155, 2.205])

_WORLD_SEED = np.uint64(0x5EED)
_QUANTILE_STEPS = 4096
_QUANTILE_REACH = 4.0  # standard deviations covered by the table of the normal distribution
_EMPTY, _OF_QUERY, _REPEAT, _OF_DOCUMENT = 0, 1, 2, 3
_LOW_BITS = np.uint64(0xFFFFFFFF)
_S32 = np.uint64(32)
_ROOT_6 = math.sqrt(6.0)
_JUDGE_NOISE = 0.65
_BIAS_SPREAD = 0.75


@lru_cache(maxsize=1)
def make_world() -> tuple[Array, Array, Array, Array, Array]:
    """What each column shows: kind, two traits, source (or -1), weights of traits and noise, share of zeros.

    Drawn with this package's own generator, so that the world is the same with any version of numpy.
    """
    state = np.empty(1, np.uint64)
    start_stream(state, _WORLD_SEED, 0, 0)
    kinds = np.full(N_FEATURES, _OF_DOCUMENT)
    kinds[np.argsort([uniform(state) for _ in range(N_FEATURES)])[:N_EMPTY]] = _EMPTY
    traits = np.zeros((N_FEATURES, 2), np.int64)
    sources = np.full(N_FEATURES, -1)
    mixing = np.zeros((N_FEATURES, 3))
    zeros = np.zeros(N_FEATURES)
    for f in range(N_FEATURES):
        draw = np.array([uniform(state) for _ in range(10)])
        if kinds[f] == _OF_DOCUMENT and draw[0] < 0.08:
            kinds[f] = _OF_QUERY
        elif kinds[f] == _OF_DOCUMENT and draw[0] < 0.23:
            kinds[f] = _REPEAT
        count = N_QUERY_TRAITS if kinds[f] == _OF_QUERY else N_TRAITS - 1
        traits[f] = (draw[1:3] * count).astype(np.int64)
        if kinds[f] == _OF_DOCUMENT and draw[3] < 0.35:
            sources[f] = int(draw[4] * N_SOURCES)
        noise = 0.0 if kinds[f] == _OF_QUERY else 0.4 + 3.0 * draw[5]
        weights = np.array([1.0, draw[6], noise])
        mixing[f] = weights * np.where(draw[7:] < 0.5, -1.0, 1.0) / math.sqrt(float(weights @ weights))
        zeros[f] = 0.9 * draw[9] ** 2 if kinds[f] != _OF_QUERY else 0.0
    return kinds, traits, sources, mixing, zeros


@lru_cache(maxsize=1)
def quantile_table() -> Array:
    """The normal distribution function on an even grid."""
    points = np.linspace(-_QUANTILE_REACH, _QUANTILE_REACH, _QUANTILE_STEPS)
    return np.array([0.5 * math.erfc(-x / math.sqrt(2.0)) for x in points], dtype=np.float32)


@exact_inner_kernel
def relevance(traits: Array, query: Array, bias: float) -> float:
    """What the judge sees in a document; labels are steps of it.

    Some traits simply help; some help up to a point, only together, or most in the middle; and how much one of
    them counts depends on the query. The others do not matter.
    """
    value: float = 0.3 * traits[0] + 0.25 * traits[1] + 0.2 * traits[2] + 0.2 * traits[3]
    value += 0.5 * np.tanh(2.0 * traits[4]) + 0.4 * sigmoid(3.0 * traits[0]) * traits[5]
    value -= 0.4 * min(traits[6] ** 2, 4.0) + 0.25 * min(traits[9] ** 2, 4.0)
    value += 0.3 * np.tanh(query[0]) * traits[7] + 0.6 * np.tanh(traits[8]) * traits[1]
    value += bias + _JUDGE_NOISE * traits[N_TRAITS - 1]
    return value


@exact_inner_kernel
def document_columns(
    row: Array, state: Array, traits: Array, query: Array, world: Any, table: Array, present: Array
) -> None:
    """All columns of one document."""
    kinds, which, sources, mixing, zeros = world
    scale = (_QUANTILE_STEPS - 1) / (2.0 * _QUANTILE_REACH)
    z = 0.0
    for f in range(len(row)):
        if kinds[f] == _EMPTY or (sources[f] >= 0 and not present[sources[f]]):
            row[f] = 0.0
            continue
        bits = next_bits(state)
        # the sum of two even draws, scaled to variance 1: near enough to normal, and cheap
        noise = (np.float64(bits >> _S32) + np.float64(bits & _LOW_BITS)) * 2.0**-32 * _ROOT_6 - _ROOT_6
        if kinds[f] == _REPEAT:
            z += 0.1 * noise
        elif kinds[f] == _OF_QUERY:
            z = mixing[f, 0] * query[which[f, 0]] + mixing[f, 1] * query[which[f, 1]]
        else:
            z = mixing[f, 0] * traits[which[f, 0]] + mixing[f, 1] * traits[which[f, 1]] + mixing[f, 2] * noise
        place = min(max(int((z + _QUANTILE_REACH) * scale), 0), _QUANTILE_STEPS - 1)
        row[f] = table[place] if table[place] >= zeros[f] else 0.0


@exact_kernel
def fill_yahoo(
    first: int,
    last: int,
    offsets: Array,
    key: Any,
    first_query: int,
    thresholds: Array,
    world: Any,
    table: Array,
    features: Array,
    labels: Array,
) -> None:
    """Features and labels of the queries `first:last`, counted from query `first_query` of the seed's sequence."""
    state = np.empty(1, np.uint64)
    traits = np.empty(N_TRAITS)
    query = np.empty(N_QUERY_TRAITS + 2)
    present = np.empty(N_SOURCES, np.bool_)
    for q in range(first, last):
        start_stream(state, key, first_query + q, CONTENT)
        fill_normals(state, query)
        bias = _BIAS_SPREAD * query[N_QUERY_TRAITS]
        for i in range(offsets[q], offsets[q + 1]):
            fill_normals(state, traits)
            for s in range(N_SOURCES):
                present[s] = uniform(state) < 0.1 + 0.07 * s
            document_columns(features[i], state, traits, query, world, table, present)
            labels[i] = label_of(relevance(traits, query, bias), thresholds)
