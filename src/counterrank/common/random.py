"""Random numbers inside kernels: streams named by a key and an index, so that no result depends on threads.

A stream is one 64-bit word, advanced by SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). Whatever draws for a query or
a session starts a stream of its own; which thread does it, and when, does not matter.

Samples are drawn by hash: two of them tell how much the sets they come from have in common.
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.common.checks import make_generator
from counterrank.common.jit import Array, exact_inner_kernel, exact_kernel

HashArray = NDArray[np.uint64]
EVERYTHING = 2**64  # the limit of a sample that leaves nothing out

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # what advances the word of a stream
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)

# below this mean, walking up from 0 is quicker than rejection
_WALK = 10.0


def seed_key(seed: int | np.random.Generator) -> np.uint64:
    """A key for streams: of a seed the same each time, of a generator a new one each time.

    >>> bool(seed_key(3) == seed_key(3)), bool(seed_key(3) == seed_key(4))
    (True, False)
    """
    if isinstance(seed, int | np.integer) and not isinstance(seed, bool) and 0 <= seed < 2**64:
        return np.uint64(seed)  # making a generator takes longer than drawing a page
    return np.uint64(make_generator(seed).integers(2**64, dtype=np.uint64))


def derive_key(key: np.uint64, index: int) -> np.uint64:
    """The key of a family of streams of its own, number `index` of those that belong to `key`.

    >>> bool(derive_key(seed_key(3), 0) == derive_key(seed_key(3), 1))
    False
    """
    state = np.empty(1, np.uint64)
    start_stream(state, key, index)
    return np.uint64(state[0])


@exact_kernel
def mixed(z: np.uint64) -> np.uint64:
    """All bits of a word spread over all bits of the result, one to one (the finaliser of SplitMix64).

    >>> bool(mixed(np.uint64(1)) == mixed(np.uint64(2)))
    False
    """
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return z ^ (z >> _S31)


@exact_kernel
def start_stream(state: Array, key: np.uint64, index: int) -> None:
    """Set `state`, one uint64, to the beginning of the stream of this key and index.

    >>> state = np.empty(1, np.uint64)
    >>> start_stream(state, seed_key(0), 5)
    >>> 0.0 < uniform(state) < 1.0
    True
    """
    state[0] = mixed(mixed(np.uint64(key) + GOLDEN) ^ (np.uint64(index) * _MIX_2 + _MIX_1))


@exact_kernel
def uniform(state: Array) -> float:
    """A number in (0, 1), never 0 or 1.

    >>> state = np.zeros(1, np.uint64)
    >>> round(uniform(state), 6)
    0.883311
    """
    state[0] += GOLDEN
    return (float(mixed(state[0]) >> _S11) + 0.5) * 2.0**-53


@exact_kernel
def below(state: Array, n: int) -> int:
    """A whole number from 0 to n - 1, all equally likely.

    >>> below(np.zeros(1, np.uint64), 10)
    8
    """
    return min(int(uniform(state) * n), n - 1)


@exact_kernel
def binomial(state: Array, n: int, p: float) -> int:
    """How many of `n` independent trials succeed, each with probability `p`.

    Exact in distribution: a walk up the probabilities where few succeed, else rejection (BTRS of Hormann, Journal of
    Statistical Computation and Simulation 1993).

    >>> binomial(np.zeros(1, np.uint64), 10, 1.0), binomial(np.zeros(1, np.uint64), 10, 0.0)
    (10, 0)
    """
    if n <= 0 or p <= 0.0:
        return 0
    if p >= 1.0:
        return n
    if n == 1:  # most cells, where sessions are few
        return 1 if uniform(state) < p else 0
    if p > 0.5:
        return n - _binomial(state, n, 1.0 - p)
    return _binomial(state, n, p)


@exact_inner_kernel
def _binomial(state: Array, n: int, p: float) -> int:
    """A binomial number for p of at most 1/2."""
    if n * p < _WALK:
        return _walked(state, n, p)
    return _rejected(state, n, p)


@exact_inner_kernel
def _walked(state: Array, n: int, p: float) -> int:
    """Subtract P(0), P(1) = P(0) n p / (1 - p), P(2), ... from a uniform number until it is used up."""
    odds = p / (1.0 - p)
    first = math.exp(n * math.log1p(-p))
    # so far out nothing is left but rounding
    limit = min(float(n), 110.0 + 10.0 * n * p)
    while True:
        left = uniform(state)
        probability = first
        x = 0
        while left > probability:
            left -= probability
            x += 1
            if x > limit:
                break
            probability *= odds * (n - x + 1) / x
        if x <= limit:
            return x


@exact_inner_kernel
def _stirling_rest(x: float) -> float:
    """log(x!) minus Stirling's log(sqrt(2 pi)) + (x + 1/2) log(x + 1) - (x + 1)."""
    y = x + 1.0
    if x < 10.0:
        return math.lgamma(y) - 0.9189385332046728 - (x + 0.5) * math.log(y) + y
    square = y * y
    return (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / 1260.0 / square) / square) / y


@exact_inner_kernel
def _rejected(state: Array, n: int, p: float) -> int:
    """BTRS: a point under a hat over the transformed density, drawn until it lies below log P(x) / P(mode)."""
    q = 1.0 - p
    spread = math.sqrt(n * p * q)
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    middle = n * p + 0.5
    at_once = 0.92 - 4.2 / b
    while True:
        u = uniform(state) - 0.5
        v = uniform(state)
        us = 0.5 - abs(u)
        x = math.floor((2.0 * a / us + b) * u + middle)
        if us >= 0.07 and v <= at_once:
            return int(x)
        if x < 0.0 or x > n:
            continue
        alpha = (2.83 + 5.1 / b) * spread
        mode = math.floor((n + 1) * p)
        odds = p / q
        bound = (
            (mode + 0.5) * math.log((mode + 1.0) / (odds * (n - mode + 1.0)))
            + (n + 1.0) * math.log((n - mode + 1.0) / (n - x + 1.0))
            + (x + 0.5) * math.log(odds * (n - x + 1.0) / (x + 1.0))
            + _stirling_rest(mode)
            + _stirling_rest(n - mode)
            - _stirling_rest(x)
            - _stirling_rest(n - x)
        )
        if math.log(v * alpha / (a / (us * us) + b)) <= bound:
            return int(x)


@dataclass(frozen=True, eq=False)
class HashSample:
    """All members of a set whose 64-bit hash is below a limit (a theta sketch).

    A member is in the sample of every set that has it, or in none with the same limit. So the share of members that two
    samples have in common, below the smaller limit, estimates the share that their sets have in common.

    Attributes:
        hashes: of the members in the sample, rising, each once.
        limit: hashes below it are in the sample; `EVERYTHING` for all members.

    >>> one, other = HashSample.of([5, 9, 7]), HashSample.of([7, 1, 5, 3])
    >>> one.share_in(other), other.share_in(one)  # 5 and 7 of 5, 7, 9; 5 and 7 of 1, 3, 5, 7
    (0.6666666666666666, 0.5)
    """

    hashes: HashArray
    limit: int = EVERYTHING

    @classmethod
    def of(cls, hashes: ArrayLike, limit: int = EVERYTHING) -> HashSample:
        """The sample of these members: those below the limit."""
        given: HashArray = np.unique(np.asarray(hashes, np.uint64))
        return cls(_below(given, limit), limit)

    def reduced(self, size: int) -> HashSample:
        """At most so many members, by a smaller limit; itself if it has no more.

        >>> HashSample.of([5, 9, 7]).reduced(2).hashes.tolist()
        [5, 7]
        """
        if len(self.hashes) <= size:
            return self
        limit = int(self.hashes[size])
        return HashSample(_below(self.hashes, limit), limit)

    def share_in(self, other: HashSample) -> float:
        """The estimated share of the members of this set that the other set has too; 0 of an empty sample."""
        limit = min(self.limit, other.limit)
        own = _below(self.hashes, limit)
        return float(np.isin(own, other.hashes).mean()) if len(own) else 0.0

    def describe(self) -> dict[str, Any]:
        """The sample as JSON can hold it."""
        packed = base64.b64encode(self.hashes.astype("<u8").tobytes()).decode("ascii")
        return {"limit": str(self.limit), "hashes": packed}  # a text: JSON readers may round numbers of 64 bits

    @classmethod
    def from_description(cls, content: dict[str, Any]) -> HashSample:
        """What `describe` wrote.

        >>> HashSample.from_description(HashSample.of([5, 7]).describe()).hashes.tolist()
        [5, 7]
        """
        packed = base64.b64decode(str(content["hashes"]).encode("ascii"), validate=True)
        return cls.of(np.frombuffer(packed, "<u8"), int(content["limit"]))


def _below(hashes: HashArray, limit: int) -> HashArray:
    """Of rising hashes those below the limit, which may be one more than the largest there can be."""
    return hashes if limit >= EVERYTHING else hashes[: np.searchsorted(hashes, np.uint64(limit))]
