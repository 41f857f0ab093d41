"""The click rate of one display policy from the log of another: by hand, by Monte Carlo, and on real impressions."""

from __future__ import annotations

from itertools import product
from math import log

import numpy as np
import pytest
from benchmarks.open_bandit import ITEMS, read, simulated, study
from scipy import stats

from counterrank.common.errors import CounterrankError
from counterrank.common.numerics import gamma_quantile
from counterrank.evaluation import click_rate, compare_click_rates
from tests.support.paths import ROOT, SHARED

OBD = SHARED / "obd"


@pytest.mark.parametrize("shape", [1e-3, 0.3, 1.0, 2.5, 38.0, 750.0, 9_999.0, 10_001.0, 1e7])
def test_gamma_quantiles_are_those_of_scipy(shape):
    for probability in (0.005, 0.025, 0.5, 0.975, 0.995):
        wanted = stats.gamma.ppf(probability, shape)
        assert gamma_quantile(probability, shape) == pytest.approx(wanted, rel=1e-6 if shape > 1e4 else 1e-9, abs=1e-12)


@pytest.mark.parametrize(("probability", "shape"), [(0.0, 1.0), (1.0, 1.0), (0.5, 0.0), (0.5, np.inf)])
def test_gamma_quantiles_that_do_not_exist(probability, shape):
    with pytest.raises(CounterrankError, match="expected 0 < probability < 1 and a shape above 0"):
        gamma_quantile(probability, shape)


def naive(rows, confidence=0.95):
    """ips and self-normalised with intervals, one impression after the other; rows (clicks, impressions, p, q)."""
    each = [(q / p, i < clicks) for clicks, impressions, p, q in rows for i in range(impressions)]
    y = sum(w for w, clicked in each if clicked)
    v = sum(w**2 for w, clicked in each if clicked)
    total, n = sum(w for w, _ in each), len(each)
    extra = sum(w**2 for w, _ in each) / total
    rate = y / total
    spread = sum(w**2 * (clicked - rate) ** 2 for w, clicked in each)
    found = []
    for value, below, variance in ((y / n, n, v), (rate, total, spread)):
        tail = (1 - confidence) / 2
        low = variance / y * stats.gamma.ppf(tail, y**2 / variance) if y else 0.0
        a, b = y + extra, variance + extra**2
        found.append((value, low / below, b / a * stats.gamma.ppf(1 - tail, a**2 / b) / below))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_estimates_are_those_of_the_reference(seed):
    rng = np.random.default_rng(seed)
    shown = rng.integers(0, 30, 12)
    clicks = rng.binomial(shown, 0.2)
    logged, target = rng.uniform(0.01, 1.0, 12), rng.uniform(0.0, 1.0, 12)
    found = click_rate(clicks, shown, logged, target)
    wanted = naive(list(zip(clicks.tolist(), shown.tolist(), logged, target, strict=True)))
    assert (found.ips, *found.ips_interval) == pytest.approx(wanted[0])
    assert (found.self_normalized, *found.self_normalized_interval) == pytest.approx(wanted[1])
    one_by_one = click_rate(
        np.concatenate([np.arange(n) < c for n, c in zip(shown, clicks, strict=True)]).astype(int),
        np.ones(shown.sum()),
        np.repeat(logged, shown),
        np.repeat(target, shown),
    )
    assert one_by_one.ips_interval == pytest.approx(found.ips_interval)
    assert one_by_one.effective_impressions == pytest.approx(found.effective_impressions)
    assert one_by_one.largest_share == pytest.approx(found.largest_share)


def test_what_the_estimate_hangs_on():
    found = click_rate([6, 1, 0], [60, 10, 5], [0.5, 0.25, 0.1], 0.5)  # weights 1, 2, 5
    assert found.effective_sample_size == pytest.approx(8**2 / (6 + 4))
    assert found.largest_share == pytest.approx(2 / 8)
    assert found.largest_weight == pytest.approx(5.0)  # of an impression nobody clicked
    assert found.effective_impressions == pytest.approx((60 + 20 + 25) ** 2 / (60 + 40 + 125))
    assert found.mean_weight == pytest.approx((60 + 20 + 25) / 75)
    assert (found.n_clicks, found.n_impressions) == (7, 75)


def test_no_click_leaves_an_upper_end():
    found = click_rate([0], [1000], [0.1], 0.1)
    assert (found.ips, found.self_normalized, found.effective_sample_size) == (0.0, 0.0, 0.0)
    assert found.ips_interval == pytest.approx((0.0, -log(0.025) / 1000))


def test_every_click_is_no_fault():
    found = click_rate([20], [20], [0.1], 0.1)
    assert found.self_normalized == 1.0
    assert found.self_normalized_interval[0] < 1.0


@pytest.mark.statistical
@pytest.mark.representative
@pytest.mark.parametrize("skew", [0.0, 1.0])
def test_ips_is_unbiased_and_intervals_hold(skew):
    """1,000 logs of 10,000 impressions, seed fixed.

    The mean error lies within 4 standard errors with probability above 0.9999. 95 % intervals hold in at least 92.5 %
    of 1,000 logs with probability above 0.9995; the study in docs/how-to/open-bandit.md tells where they hold more
    often.
    """
    rows = []
    for truth, found in simulated(skew, 10_000, 1000):
        ends = found.ips_interval, found.self_normalized_interval
        rows.append((found.ips - truth, *(low <= truth <= high for low, high in ends)))
    errors, *hits = np.array(rows, float).T
    assert abs(errors.mean()) < 4 * errors.std() / np.sqrt(len(errors))
    assert np.mean(hits, axis=1).min() >= 0.925


def test_the_plain_click_rate_would_fail_that():
    """The other policy's own rate is no estimate of the uniform one's: of a policy that prefers what is clicked."""
    rng = np.random.default_rng(0)
    rates = np.linspace(0.001, 0.1, 20)
    chances = rates / rates.sum()
    shown = rng.multinomial(100_000, chances)
    clicks = rng.binomial(shown, rates)
    low, high = click_rate(clicks, shown, chances, chances).ips_interval
    assert low > rates.mean()
    low, high = click_rate(clicks, shown, chances, 1 / 20).ips_interval
    assert low <= rates.mean() <= high


def test_intervals_of_differences_hold():
    """1,000 pairs of logs with one truth, seed fixed: at least 92.5 % hold 0 (probability above 0.9995)."""
    hits = []
    rng = np.random.default_rng(1)
    for _ in range(1000):
        rates = 0.004 * np.exp(0.5 * rng.standard_normal(ITEMS))
        odds = np.exp(rng.standard_normal(ITEMS))
        found = []
        for chances in (odds / odds.sum(), np.full(ITEMS, 1 / ITEMS)):
            shown = rng.multinomial(10_000, chances)
            found.append(click_rate(rng.binomial(shown, rates), shown, chances, 1 / ITEMS))
        low, high = compare_click_rates(*found).ips_interval
        hits.append(low <= 0.0 <= high)
    assert np.mean(hits) >= 0.925


GOOD = {"clicks": [1, 0], "impressions": [2, 1], "logged": [0.5, 0.5], "target": 0.1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clicks": [3, 0]}, "clicks: 3 in row 0; expected no more clicks than impressions"),
        ({"clicks": [-1, 0]}, "clicks: -1 in row 0; expected whole numbers of at least 0"),
        ({"clicks": [0.5, 0]}, "clicks: 0.5 in row 0; expected whole numbers of at least 0"),
        ({"clicks": [float("nan"), 0]}, "clicks: entry 0 is nan; expected finite numbers"),
        ({"impressions": [2]}, "impressions: 1 entries; expected 2, the number of rows"),
        ({"impressions": [2, -1]}, "impressions: -1 in row 1; expected whole numbers"),
        ({"clicks": [0, 0], "impressions": [0, 0]}, "impressions: none; expected at least one"),
        ({"logged": [0.5, 0.0]}, "logged: 0 in row 1; expected probabilities above 0, up to 1: it was displayed"),
        ({"logged": [0.5, 1.5]}, "logged: 1.5 in row 1; expected probabilities above 0, up to 1"),
        ({"target": -0.1}, "target: -0.1 in row 0; expected probabilities from 0 to 1"),
        ({"target": [0.1, 2.0]}, "target: 2 in row 1; expected probabilities from 0 to 1"),
        ({"target": [0.1]}, "target: 1 entries; expected 2, the number of rows"),
        ({"target": 0.0}, "target: 0 for every impression; the log says nothing about this policy"),
        ({"confidence": 1.0}, "confidence=1.0: expected a number between 0 and 1"),
    ],
)
def test_bad_input_is_named(change, message):
    with pytest.raises(CounterrankError) as caught:
        click_rate(**{**GOOD, **change})
    assert message in str(caught.value)


def test_what_cannot_be_compared():
    found = click_rate(**GOOD)
    with pytest.raises(CounterrankError, match="second: int; expected a ClickRate"):
        compare_click_rates(found, 3)
    with pytest.raises(CounterrankError, match=r"second: confidence 0\.9; expected that of the first, 0\.95"):
        compare_click_rates(found, click_rate(**GOOD, confidence=0.9))


@pytest.mark.skipif(not OBD.is_dir(), reason="the folder shared/data/obd next to the repository is not there")
def test_the_open_bandit_study():
    """The numbers of docs/how-to/open-bandit.md."""
    log = read(str(OBD / "random-all.csv.gz"))
    assert (log.clicks.sum(), log.impressions.sum(), set(log.display_probabilities)) == (38, 10_000, {0.0125})
    rows = study(str(OBD / "random-all.csv.gz"), str(OBD / "bts-all.csv.gz"))
    text = (ROOT / "docs" / "how-to" / "open-bandit.md").read_text(encoding="utf-8")
    for row, column in product(rows, ("per 1,000", "interval")):
        assert row[column].replace("-", "−") in text
    apart = rows[4]["interval"].split(" to ")
    assert float(apart[0]) < 0 < float(apart[1])
