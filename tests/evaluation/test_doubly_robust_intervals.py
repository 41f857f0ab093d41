"""Doubly robust estimates from clicks on average, and how often their intervals hold."""

import warnings

import numpy as np
import pytest

from counterrank.clicks import policies, simulation
from counterrank.clicks.examination import inverse_rank
from counterrank.clicks.users import ClickModel
from counterrank.data import RankingData
from counterrank.estimators import fit_relevance
from counterrank.evaluation import compare, estimate, select
from tests.evaluation.test_estimate import (
    quietly,
)
from tests.reference import estimate as naive_estimate

pytestmark = [
    pytest.mark.filterwarnings("ignore::counterrank.evaluation.IntervalWarning"),
    pytest.mark.filterwarnings("ignore:exam implies"),  # the worlds by hand are no samples of a policy
]


class Shop:
    """60 queries of 8 documents, one random last place of three, and what is true of them."""

    policy, exam = policies.ReplaceLast(3), inverse_rank(3)

    def __init__(self):
        rng = np.random.default_rng(0)
        relevant = rng.random(480) < 0.3
        self.chance = np.where(relevant, 0.9, 0.2)
        features = np.column_stack([relevant + rng.standard_normal(480), relevant + rng.standard_normal(480)])
        self.data = RankingData(features, np.arange(0, 481, 8), 4 * relevant)
        self.logging, self.one, self.other = np.array([[1], [1], [0]]) * relevant + rng.standard_normal((3, 480))
        self.rho = self.policy.propensity(self.logging, self.data.offsets, self.exam)
        values = [np.array(naive_estimate.values("dcg@3", s, self.data.offsets)) for s in (self.one, self.other)]
        self.values = values[0], values[0] - values[1]

    def clicks(self, seed, each=20, displays=False):
        options = {"sessions": 60 * each, "seed": seed, "propensities": False, "displays": displays}
        model = ClickModel(relevant=0.9, other=0.2)
        return simulation.simulate(self.data, self.logging, self.policy, self.exam, click_model=model, **options)

    def truth(self, clicks, relevance=None):
        """Of one ranking and of the difference, with the sessions that there were."""
        weights = np.repeat(clicks.sessions, 8) * (self.chance if relevance is None else relevance)
        return np.array([weights @ value for value in self.values]) / clicks.n_sessions


@pytest.fixture(scope="module")
def shop():
    return Shop()


def misses(shop, rho, **options):
    """Estimates less the truth over 400 logs, of one ranking and of the difference: (400, 2)."""
    found = []
    for seed in range(400):
        clicks = shop.clicks(seed)
        given = shop.data, clicks, rho, ["dcg@3"]
        settled = {"population": "these-queries", "threads": 1, **options}
        one = quietly(estimate, shop.one, *given, **settled)["dcg@3"].ips
        two = quietly(compare, shop.one, shop.other, *given, **settled)["dcg@3"].ips
        found.append(np.array([one, two]) - shop.truth(clicks))
    return np.array(found)


def standard_scores(found):
    return found.mean(axis=0) / (found.std(axis=0, ddof=1) / np.sqrt(len(found)))


@pytest.mark.statistical
def test_unbiased_with_a_wrong_model_and_right_propensities(shop):
    """Two means of 400 logs, each off by 4.9 standard errors once in 10^6 runs; the model alone is far off."""
    wrong = 1.0 - shop.chance
    found = misses(shop, shop.rho, method="dr", relevance=wrong)
    assert np.abs(standard_scores(found)).max() < 4.9
    clicks = shop.clicks(0)
    direct = shop.truth(clicks, wrong) - shop.truth(clicks)
    assert (np.abs(direct) > 10 * found.std(axis=0) / np.sqrt(len(found))).all()


@pytest.mark.statistical
def test_unbiased_with_a_right_model_and_wrong_propensities(shop):
    """As above; by inverse propensities the same rho misleads."""
    wrong = np.clip(shop.rho * np.random.default_rng(1).choice([0.3, 0.6, 3.0], len(shop.rho)), 0.0, 1.0)
    found = misses(shop, wrong, method="dr", relevance=shop.chance)
    assert np.abs(standard_scores(found)).max() < 4.9
    plain = misses(shop, wrong)
    assert np.abs(standard_scores(plain)).min() > 10


@pytest.mark.statistical
def test_intervals_hold_and_are_narrower(shop):
    """Of 120 over clicks at least 101 hold; at 95 % one of four does not once in 100,000 runs (binomial tail)."""
    held, widths = np.zeros((2, 2), int), np.zeros((3, 2))
    for seed in range(120):
        clicks = shop.clicks(seed, displays=seed % 2 == 0)
        given = shop.data, clicks, shop.rho, ["dcg@3"]
        truth = shop.truth(clicks)
        fitted = fit_relevance(shop.data, clicks, shop.rho, exam=shop.exam)
        models = [{}, {"method": "dr", "relevance": fitted}, {"method": "dr", "relevance": shop.chance}]
        for i, options in enumerate(models):
            settled = {"population": "these-queries", "threads": 1, **options}
            found = [quietly(estimate, shop.one, *given, **settled)["dcg@3"]]
            found.append(quietly(compare, shop.one, shop.other, *given, **settled)["dcg@3"])
            for j, each in enumerate(found):
                low, high = each.ips_interval
                widths[i, j] += high - low
                if i:
                    held[i - 1, j] += low <= truth[j] <= high
    assert held.min() >= 101
    assert (widths[1] < widths[0]).all()
    assert (widths[2] < widths[1]).all()


@pytest.mark.statistical
def test_intervals_over_queries_hold():
    """Of 100 at least 83 hold; at 95 % one of two does not once in 200,000 runs (binomial tail)."""
    rng = np.random.default_rng(0)
    held = np.zeros(2, int)
    for seed in range(100):
        relevant = rng.random(1200) < 0.3
        features = (relevant + rng.standard_normal((2, 1200))).T
        data = RankingData(features, np.arange(0, 1201, 10), 4 * relevant)
        logging, one, other = relevant + rng.standard_normal((3, 1200))  # the last two are equally good
        exam, model = inverse_rank(3), ClickModel(relevant=0.9, other=0.2)
        rho = policies.ReplaceLast(3).propensity(logging, data.offsets, exam)
        amount = {"sessions": 2400, "seed": seed, "propensities": False}
        clicks = simulation.simulate(data, logging, policies.ReplaceLast(3), exam, click_model=model, **amount)
        fitted = fit_relevance(data, clicks, rho, exam=exam)
        settled = {"replicates": 300, "threads": 1, "method": "dr", "relevance": fitted, "seed": seed}
        found = quietly(estimate, one, data, clicks, rho, ["dcg@3"], **settled)["dcg@3"]
        both = quietly(compare, one, other, data, clicks, rho, ["dcg@3"], **settled)["dcg@3"]
        held += [low <= truth <= high for (low, high), truth in ((found.ips_interval, TRUTH), (both.ips_interval, 0.0))]
    assert held.min() >= 83


def expected_value():
    """dcg@3 of a ranking by relevant + noise, 10 documents, over 20,000 queries: known to 0.002."""
    rng = np.random.default_rng(9)
    relevant = rng.random((20_000, 10)) < 0.3
    order = np.argsort(-(relevant + rng.standard_normal(relevant.shape)), axis=1)[:, :3]
    chance = np.where(np.take_along_axis(relevant, order, axis=1), 0.9, 0.2)
    return float((chance @ (1 / np.log2([2, 3, 4]))).mean())


TRUTH = expected_value()


def test_a_fitted_model_is_that_of_fit_relevance(shop):
    clicks = shop.clicks(0)
    given = shop.one, shop.data, clicks, shop.rho
    fitted = fit_relevance(shop.data, clicks, shop.rho, exam=shop.exam)
    found = quietly(estimate, *given, method="dr")
    assert found == quietly(estimate, *given, method="dr", relevance=fitted)
    assert found == quietly(estimate, *given, method="dr", relevance=fitted.values, exam=[1.0, 1 / 2, 1 / 3])
    assert found == quietly(estimate, *given, method="dr", exam=shop.exam, threads=1)
    assert found != quietly(estimate, *given)


def test_select(shop):
    given = shop.data, shop.clicks(0), shop.rho
    chosen = quietly(select, [shop.other, 2.0 * shop.chance], *given, method="dr", replicates=100)
    assert chosen.index == 1
    expected = quietly(estimate, shop.other, *given, ["dcg@5"], method="dr", replicates=100)["dcg@5"]
    assert chosen.estimates[0].method == "dr"
    assert chosen.estimates[0].ips == pytest.approx(expected.ips)


def test_another_curve_than_that_of_the_propensities_is_warned_about(shop):
    given = shop.one, shop.data, shop.clicks(0), shop.rho, ["dcg@3"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimate(*given, method="dr")
        assert not any("exam" in str(warning.message) for warning in caught)
    with pytest.warns(
        UserWarning,
        match="exam implies 3,600 examinations .* rho implies 2,200: were they computed from different curves?",
    ):
        estimate(*given, method="dr", exam=[1.0, 1.0, 1.0])
