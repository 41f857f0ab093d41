"""Plackett-Luce propensities against all pages written out, exact sums over groups, and a simulation."""

from math import exp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterrank.clicks.policies.propensity import plackett_luce_propensities
from counterrank.common.parallel import for_queries
from tests.reference.plackett_luce import chances, propensities, propensities_of_groups

# the errors that the kernel allows itself add up to a few 1e-8
TOLERANCE = 1e-7
# below this a propensity is only known to be below it
SMALLEST = 1e-250


def found(logits, theta):
    """The kernel's propensities of one query."""
    out = np.full(len(logits), np.nan)
    offsets = np.array([0, len(logits)])
    plackett_luce_propensities(0, 1, offsets, np.array(logits, dtype=float), np.array(theta, dtype=float), out)
    return out


def worst_error(values, exact):
    """The largest relative error over all documents, also the least likely."""
    values, exact = np.asarray(values), np.asarray(exact)
    assert np.all(np.isfinite(values))
    assert np.all(values >= 0.0)
    counts = (values > SMALLEST) | (exact > SMALLEST)
    return float(np.max(np.abs(values[counts] / exact[counts] - 1.0), initial=0.0))


def one_hot(k, rank):
    return [1.0 if r == rank - 1 else 0.0 for r in range(k)]


examination = st.one_of(st.just(0.0), st.just(1.0), st.floats(1e-3, 1.0))
logit = st.one_of(st.floats(-15, 15), st.sampled_from([-15.0, 0.0, 15.0]))


@settings(deadline=None, max_examples=80)
@given(st.lists(logit, min_size=1, max_size=6), st.lists(examination, min_size=1, max_size=8))
def test_all_pages(logits, theta):
    assert worst_error(found(logits, theta), propensities(logits, theta)) < TOLERANCE


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=5),
    st.sampled_from([30.0, 300.0, 1e4, 1e6, 1e12, 1e300]),
    st.lists(examination, min_size=1, max_size=6),
)
def test_all_pages_with_logits_far_apart(places, spread, theta):
    logits = [spread * place for place in places]
    assert worst_error(found(logits, theta), propensities(logits, theta)) < TOLERANCE


@pytest.mark.parametrize("spread", [30.0, 300.0])
@pytest.mark.parametrize(
    "theta", [[1.0, 0.5, 0.25], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0], [1.0, 0.5, 0.25, 0.2, 0.1, 0.1]]
)
@pytest.mark.parametrize(
    "shares", [[0.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 1.0], [0.0, 0.5, 1.0, 0.9]]
)
def test_least_likely_document(shares, theta, spread):
    logits = [-spread * share for share in shares]
    exact = propensities(logits, theta)
    last = int(np.argmin(logits))
    assert worst_error(found(logits, theta)[last : last + 1], exact[last : last + 1]) < TOLERANCE
    assert worst_error(found(logits, theta), exact) < TOLERANCE


@pytest.mark.parametrize("theta", [[1.0, 0.5, 0.25], [0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.5]])
@pytest.mark.parametrize(
    "logits",
    [
        [0.0, 1e4],
        [0.0, 1e6, 1e6],
        [0.0, 700.0, 1500.0, 1510.0],
        [-1e6, 0.0, 1.0, 1e6],
        [0.0, 1.0, 2.0, 1e6, 1e6 + 1.0],
        [0.0, 1e17, 1e17 + 16.0],
        [-1e300, 1e300, 1e300],
        [-1.7e308, -1.7e308, 0.0, 1.7e308],
    ],
)
def test_extreme_logits(logits, theta):
    assert worst_error(found(logits, theta), propensities(logits, theta)) < TOLERANCE


def test_least_likely_document_by_hand():
    # next to two documents of rate 1, one of rate e^-300 is at rank 1 with chance e^-300 / 2, at rank 2 with e^-300
    assert found([0.0, 0.0, -300.0], [1.0])[2] == pytest.approx(exp(-300) / 2, rel=1e-9)
    assert found([0.0, 0.0, -300.0], [0.0, 1.0])[2] == pytest.approx(exp(-300), rel=TOLERANCE)


GROUPS = [
    ([0.0], [300]),
    ([0.0, -5.0], [10, 300]),
    ([0.0, -30.0], [3, 300]),
    ([0.0, -300.0], [3, 200]),
    ([0.0, -1.0, -3.0], [5, 30, 60]),
    ([0.0, -30.0, -60.0], [1, 5, 100]),
    ([0.0, -3.0], [30, 2]),
    ([0.0, -25.0, -50.0], [2, 2, 3]),
]


@pytest.mark.parametrize("k", [2, 5, 30, 100])
@pytest.mark.parametrize(("logits", "sizes"), GROUPS)
def test_long_queries_and_pages(logits, sizes, k):
    for theta in (one_hot(k, k), one_hot(k, k // 2 + 1), [1 / (r + 1) for r in range(k)]):
        exact = np.repeat(propensities_of_groups(logits, sizes, theta), sizes)
        assert worst_error(found(np.repeat(logits, sizes), theta), exact) < TOLERANCE


def test_the_two_references_agree():
    logits, theta = [1.0, 1.0, -2.0, -2.0, -2.0], [1.0, 0.0, 0.3, 0.2]
    first = propensities(logits, theta)
    assert np.allclose(first, np.repeat(propensities_of_groups([1.0, -2.0], [2, 3], theta), [2, 3]), rtol=1e-13)


@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0, 300.0])
def test_one_rank_is_the_softmax(spread):
    logits = (spread * np.random.default_rng(0).random(50)).tolist()
    exact = 0.7 * np.array(chances(logits))
    for theta in ([0.7], [0.7, 0.0, 0.0]):
        assert np.allclose(found(logits, theta), exact, rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("n", [1, 2, 4, 5, 6, 200])
def test_propensities_sum_to_the_ranks_that_there_are(n):
    rng = np.random.default_rng(n)
    theta = [0.9, 0.0, 0.5, 0.25, 0.1]
    for scale in (0.0, 1.0, 10.0, 1e3, 1e5):
        assert found(scale * rng.normal(size=n), theta).sum() == pytest.approx(sum(theta[:n]), rel=TOLERANCE)


def test_nothing_examined():
    assert found([1.0, 2.0], [0.0, 0.0, 0.0]).tolist() == [0.0, 0.0]
    assert found([1.0, 2.0], [0.0, 0.0, 1.0]).tolist() == [0.0, 0.0]
    assert found([1.0, 2.0], []).tolist() == [0.0, 0.0]


def test_only_differences_of_logits_count():
    logits, theta = [3.0, -1.0, 0.5, 0.5], [1.0, 0.5, 0.2]
    # at 2^40 logits keep about four decimals, so those above are exact there
    assert found([logit + 2.0**40 for logit in logits], theta).tolist() == found(logits, theta).tolist()


def test_the_best_on_a_page_that_is_full_before_the_rest():
    logits = [1e6, 1e6, -1e6, -1e6]
    assert found(logits, [1.0, 0.5]) == pytest.approx([0.75, 0.75, 0.0, 0.0], rel=TOLERANCE, abs=SMALLEST)
    assert found(logits, [1.0, 0.5, 0.2]) == pytest.approx([0.75, 0.75, 0.1, 0.1], rel=TOLERANCE)


@pytest.mark.statistical
def test_against_simulation():
    """300 documents, 10 ranks: 200,000 pages drawn with Gumbel noise.

    A chi-square over 300 standardised differences of mean 300 and standard deviation about 25: beyond 420 one seed in
    a hundred thousand would fail by chance. The seed is fixed.
    """
    rng = np.random.default_rng(7)
    n, k, pages = 300, 10, 200_000
    logits = 1.5 * rng.normal(size=n)
    theta = 1.0 / np.arange(1, k + 1)
    total, squares = np.zeros(n), np.zeros(n)
    for _ in range(pages // 10_000):
        keys = logits - np.log(rng.standard_exponential((10_000, n)))
        top = np.argpartition(-keys, k, axis=1)[:, :k]
        order = np.argsort(-np.take_along_axis(keys, top, axis=1), axis=1)
        top = np.take_along_axis(top, order, axis=1)
        total += np.bincount(top.ravel(), np.tile(theta, len(top)), minlength=n)
        squares += np.bincount(top.ravel(), np.tile(theta**2, len(top)), minlength=n)
    rho = found(logits, theta)
    z = (total / pages - rho) / np.sqrt((squares / pages - rho**2) / pages)
    assert np.sum(z**2) < 420


def test_any_ranges_and_threads_give_the_same_bits():
    rng = np.random.default_rng(3)
    sizes = np.concatenate(([0, 1, 150, 0], rng.integers(1, 60, 200)))
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    logits = rng.normal(size=offsets[-1]) * np.repeat(rng.choice([0.1, 1.0, 20.0], len(sizes)), sizes)
    theta = np.array([1.0, 0.5, 0.0, 0.3, 0.2])
    whole = np.empty(offsets[-1])
    plackett_luce_propensities(0, len(sizes), offsets, logits, theta, whole)
    for threads in (1, 2, 3):
        out = np.empty(offsets[-1])
        for_queries(plackett_luce_propensities, offsets, logits, theta, out, threads=threads)
        assert np.array_equal(out, whole)
    for q in range(len(sizes)):
        out = np.full(offsets[-1], -1.0)
        plackett_luce_propensities(q, q + 1, offsets, logits, theta, out)
        here = slice(offsets[q], offsets[q + 1])
        assert np.array_equal(out[here], whole[here])
        out[here] = -1.0
        assert np.all(out == -1.0)
