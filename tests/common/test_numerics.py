"""The numeric kernels against numpy over their whole range, and the ranking kernel against a stable argsort."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from counterrank.common.jit import kernel
from counterrank.common.numerics import bits_float, exp_negative, float_bits, log1p_and_inverse
from counterrank.common.ranking import rank_order


@kernel
def exp_of_all(x, out):
    for i in range(len(x)):
        out[i] = exp_negative(x[i])


@kernel
def log1p_of_all(t, logs, inverses):
    for i in range(len(t)):
        logs[i], inverses[i] = log1p_and_inverse(t[i])


@kernel
def bits_there_and_back(x):
    return float_bits(x), bits_float(float_bits(x))


def ulps(found, exact):
    """The largest distance in units of the last place; `exact` may have more digits than float64."""
    return float(np.max(np.abs((found - exact) / np.spacing(np.abs(exact).astype(np.float64)))))


RNG = np.random.default_rng(0)
SMALL = np.concatenate(([0.0, 5e-324, 1e-300], 10.0 ** np.linspace(-308, 0, 5_000)))
BELOW_ZERO = -np.concatenate((SMALL, np.linspace(0, 700, 300_001), RNG.uniform(0, 40, 100_000)))
UNIT = np.concatenate((SMALL, np.linspace(0, 1, 200_001), RNG.random(100_000), 1 - SMALL))


def test_exp_negative():
    found = np.empty_like(BELOW_ZERO)
    exp_of_all(BELOW_ZERO, found)
    assert ulps(found, np.exp(BELOW_ZERO.astype(np.longdouble))) <= 2


def test_exp_negative_at_special_places():
    assert exp_negative(0.0) == exp_negative(-0.0) == 1.0
    # beyond the range it stays at a number too small to matter, and never becomes zero or worse
    assert exp_negative(-701.0) == exp_negative(-1e308) == exp_negative(-np.inf) == exp_negative(-700.0) > 0.0
    assert exp_negative(-700.0) == pytest.approx(float(np.exp(-700.0)), rel=1e-15)


def test_exp_negative_one_by_one_is_the_same_as_in_a_loop():
    found = np.empty(1000)
    exp_of_all(BELOW_ZERO[-1000:], found)
    assert found.tolist() == [exp_negative(x) for x in BELOW_ZERO[-1000:]]


def test_log1p_and_inverse():
    logs, inverses = np.empty_like(UNIT), np.empty_like(UNIT)
    log1p_of_all(UNIT, logs, inverses)
    exact = UNIT.astype(np.longdouble)
    positive = UNIT >= 1e-300  # below, units of the last place have few digits themselves
    assert ulps(logs[positive], np.log1p(exact[positive])) <= 4
    assert np.abs(logs[~positive]).max() <= 1e-300
    assert ulps(inverses, 1 / (1 + exact)) <= 3


def test_log1p_and_inverse_at_special_places():
    assert log1p_and_inverse(0.0) == (0.0, 1.0)
    assert log1p_and_inverse(1.0) == (float(np.log(2.0)), 0.5)


@pytest.mark.parametrize("x", [0.0, -0.0, 1.0, -2.5, 5e-324, 1e308, np.inf])
def test_bits(x):
    bits, back = bits_there_and_back(x)
    assert bits == np.float64(x).view(np.int64)
    assert str(back) == str(x)


def assert_ranked(scores):
    n = len(scores)
    order, keys, spare = np.full((3, n + 2), -7, dtype=np.int64)
    rank_order(scores, order, keys, spare)
    assert order[:n].tolist() == np.argsort(-scores, kind="stable").tolist()
    assert order[n:].tolist() == [-7, -7]  # room beyond the query is left alone


FINITE = st.floats(allow_nan=False, allow_infinity=False, width=64)
TIED = st.sampled_from([0.0, -0.0, 1.0, -1.0, 1.5, 5e-324, -5e-324, 1e308, -1e308])


@settings(deadline=None)
@given(arrays(np.float64, st.integers(1, 200), elements=FINITE | TIED))
def test_order_of_any_scores(scores):
    assert_ranked(scores)


@settings(deadline=None)
@given(arrays(np.float64, st.integers(1, 200), elements=TIED))
def test_order_of_ties(scores):
    assert_ranked(scores)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 2000), st.integers(0, 2**32), st.integers(0, 12), FINITE)
def test_order_of_scores_that_differ_in_their_last_bits(n, seed, bits, center):
    """The places of documents share a word with the scores, so exactly these bits are at stake."""
    nearby = np.random.default_rng(seed).integers(0, 2**bits, n)
    scores = (np.float64(center).view(np.int64) ^ nearby).view(np.float64)
    assert_ranked(scores)


@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000, 2000, 50_000])
def test_order_at_the_sizes_where_the_kernel_changes_its_way(n):
    scores = RNG.normal(size=n)
    for variant in (scores, np.round(scores), scores * 0.0, np.sort(scores), -np.sort(scores), scores * 1e300):
        assert_ranked(variant)


def test_order_of_float32_scores_made_wide():
    assert_ranked(RNG.normal(size=3000).astype(np.float32).astype(np.float64))


def test_many_scores_that_are_all_but_equal():
    """Scores that differ only in the bits that give way to places, in the worst order."""
    n = 5000
    scores = 1.0 + np.arange(n) * 2.0**-52
    for version in (scores, scores[::-1].copy(), np.random.default_rng(0).permutation(scores)):
        order, keys, spare = (np.empty(n, np.int64) for _ in range(3))
        rank_order(version, order, keys, spare)
        np.testing.assert_array_equal(order, np.argsort(-version, kind="stable"))
