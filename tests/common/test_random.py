"""Random streams of kernels against exact probabilities. Seeds are fixed; each p-value below 1e-7 is a failure."""

from collections import Counter

import numpy as np
import pytest
from scipy import stats

from counterrank.common.errors import CounterrankError
from counterrank.common.random import below, binomial, derive_key, seed_key, start_stream, uniform
from tests.reference.simulation import fits

RARE = 1e-7


def stream(index=0, seed=0):
    state = np.empty(1, np.uint64)
    start_stream(state, seed_key(seed), index)
    return state


def draws(function, *arguments, n=20_000, seed=0):
    state = stream(seed=seed)
    return np.array([function(state, *arguments) for _ in range(n)])


def test_splitmix64():
    """The first outputs of SplitMix64 from state 0, as published with it: 0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4."""
    state = np.zeros(1, np.uint64)
    for word in (0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F):
        assert uniform(state) == ((word >> 11) + 0.5) * 2.0**-53


@pytest.mark.statistical
@pytest.mark.representative
def test_uniform_numbers():
    """Equal cells, and no correlation between neighbours (below 6 standard deviations)."""
    u = draws(uniform)
    assert 0.0 < u.min() < u.max() < 1.0
    assert fits(Counter((u * 64).astype(int).tolist()), dict.fromkeys(range(64), 1 / 64)) > RARE
    pairs = Counter(zip((u[::2] * 8).astype(int).tolist(), (u[1::2] * 8).astype(int).tolist(), strict=True))
    assert fits(pairs, {(i, j): 1 / 64 for i in range(8) for j in range(8)}) > RARE


@pytest.mark.statistical
def test_neighbouring_streams_and_keys_are_unrelated():
    """The first numbers of streams 0, 1, 2, ... and of seeds 0, 1, 2, ... are as even as numbers of one stream."""
    first = [uniform(stream(index)) for index in range(10_000)]
    assert fits(Counter(int(u * 32) for u in first), dict.fromkeys(range(32), 1 / 32)) > RARE
    pairs = Counter((int(a * 8), int(b * 8)) for a, b in zip(first[::2], first[1::2], strict=True))
    assert fits(pairs, {(i, j): 1 / 64 for i in range(8) for j in range(8)}) > RARE
    first = [uniform(stream(0, seed)) for seed in range(10_000)]
    assert fits(Counter(int(u * 32) for u in first), dict.fromkeys(range(32), 1 / 32)) > RARE
    derived = [uniform(start(derive_key(seed_key(3), index))) for index in range(-5_000, 5_000)]
    assert fits(Counter(int(u * 32) for u in derived), dict.fromkeys(range(32), 1 / 32)) > RARE


def start(key):
    state = np.empty(1, np.uint64)
    start_stream(state, key, 0)
    return state


def test_streams_are_all_different():
    begins = {int(stream(index, seed)[0]) for index in range(100) for seed in range(100)}
    assert len(begins) == 10_000
    keys = {int(derive_key(seed_key(seed), index)) for seed in range(50) for index in range(-2, 50)}
    assert len(keys) == 50 * 52


@pytest.mark.statistical
@pytest.mark.parametrize("n", [1, 2, 3, 10, 97])
def test_below(n):
    values = draws(below, n)
    assert fits(Counter(values.tolist()), dict.fromkeys(range(n), 1 / n)) > RARE


@pytest.mark.statistical
def test_below_a_large_number():
    values = draws(below, 10**12, n=2000)
    assert values.min() >= 0
    assert values.max() < 10**12
    assert fits(Counter((values // (10**12 // 16)).tolist()), dict.fromkeys(range(16), 1 / 16)) > RARE


# the walk from 0 (n p below 10), the rejection, both sides of p = 1/2, and the line between the two
BINOMIAL = [
    (1, 0.3),
    (2, 0.5),
    (3, 0.999),
    (7, 0.01),
    (40, 0.2),
    (40, 0.25),
    (40, 0.26),
    (40, 0.75),
    (40, 0.9),
    (20, 0.5),
    (100, 0.1),
    (1000, 0.0099),
    (1000, 0.0101),
    (1000, 0.5),
    (1000, 0.9899),
    (10**6, 1e-6),
    (10**6, 9.9e-6),
    (10**6, 3e-5),
    (10**6, 0.4),
    (10**9, 1e-9),
    (10**9, 0.3),
    (10**12, 2e-11),
    (10**12, 0.5),
]


@pytest.mark.statistical
@pytest.mark.parametrize(("n", "p"), BINOMIAL)
def test_binomial_numbers(n, p):
    """Pearson's test over all values, or over 60 equally likely ranges of them; 40,000 draws."""
    values = draws(binomial, n, p, n=40_000, seed=n)
    assert values.min() >= 0
    assert values.max() <= n
    exact = stats.binom(n, p)
    cuts = np.unique(exact.ppf(np.linspace(0.0, 1.0, 61)[1:-1]))
    chances = np.diff(np.concatenate(([0.0], exact.cdf(cuts), [1.0])))
    cells = Counter(np.searchsorted(cuts, values).tolist())
    # cells of no width have no chance at all, and must not occur
    assert fits(cells, dict(enumerate(chances.tolist()))) > RARE


@pytest.mark.statistical
@pytest.mark.parametrize(("n", "p"), [(40, 0.3), (1000, 0.02), (1000, 0.7)])
def test_binomial_tails(n, p):
    """Single values, the rare ones pooled: a fault far from the middle shows here. 200,000 draws."""
    values = draws(binomial, n, p, n=200_000, seed=5)
    exact = stats.binom(n, p)
    assert fits(Counter(values.tolist()), {x: float(exact.pmf(x)) for x in range(n + 1)}) > RARE
    far = exact.isf(1e-3)
    beyond = exact.sf(far)
    z = ((values > far).sum() - 200_000 * beyond) / np.sqrt(200_000 * beyond)
    assert abs(z) < 6.0  # false alarm about 1e-7: this is nearly Poisson with mean 100 to 200


@pytest.mark.statistical
@pytest.mark.parametrize(("n", "p"), [(1000, 0.3), (10**9, 0.01), (10**15, 0.4)])
def test_binomial_mean_and_variance(n, p):
    """Within 6 standard errors: false alarm below 1e-8."""
    values = draws(binomial, n, p, n=20_000, seed=2)
    centred = (values - float(int(n * p))) - (n * p - int(n * p))
    spread = np.sqrt(n * p * (1 - p))
    assert abs(centred.mean() / spread) < 6.0 / np.sqrt(20_000)
    assert abs((centred**2).mean() / spread**2 - 1.0) < 6.0 * np.sqrt(2.0 / 20_000)


def test_binomial_edges():
    state = stream()
    assert binomial(state, 0, 0.5) == 0
    assert binomial(state, 10, 0.0) == 0
    assert binomial(state, 10, 1.0) == 10
    assert binomial(state, -3, 0.5) == 0
    assert binomial(state, 10, -0.1) == 0
    assert binomial(state, 10, 1.0 + 1e-12) == 10
    assert binomial(state, 10**15, 1e-300) == 0
    assert binomial(state, 10**15, 1.0 - 1e-16) >= 10**15 - 5


def test_the_test_of_binomials_can_fail():
    exact = stats.binom(40, 0.3)
    near = Counter(np.random.default_rng(0).binomial(40, 0.31, 40_000).tolist())
    assert fits(near, {x: float(exact.pmf(x)) for x in range(41)}) < RARE


def test_seeds_and_generators():
    assert seed_key(7) == seed_key(7)
    assert seed_key(2**64 - 1) != seed_key(2**64 - 2)
    assert seed_key(2**70) != seed_key(2**71)
    rng = np.random.default_rng(3)
    assert seed_key(rng) != seed_key(rng)
    assert seed_key(np.random.default_rng(3)) == seed_key(np.random.default_rng(3))


@pytest.mark.parametrize("seed", [-1, 1.0, None, "a", True])
def test_bad_seeds(seed):
    with pytest.raises(CounterrankError, match=r"seed=.*expected a whole number of at least 0, or a numpy Generator"):
        seed_key(seed)
