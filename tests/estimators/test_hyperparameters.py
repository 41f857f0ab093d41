"""Hyperparameters of estimators: declared in the registry, checked, and converted from text."""

import numpy as np
import pytest

import counterrank as cr
from counterrank import policies, simulation
from counterrank.common.errors import CounterrankError
from counterrank.estimators import (
    ESTIMATORS,
    Estimator,
    Evidence,
    Hyperparameter,
    checked_hyperparameters,
    register_estimator,
)
from counterrank.training import fit_ranker

DATA = cr.make_ranking_data("yahoo", n_queries=40, seed=0)
CLICKS = simulation.simulate(DATA, DATA.features[:, 0], policies.ReplaceLast(5), [1, 0.5, 0.3], sessions=2000, seed=0)
GOOD = [
    ("policy-aware", {"clip": "30"}, {"clip": 30.0}),
    ("policy-aware", {"clip": "auto"}, {"clip": "auto"}),
    ("policy-aware", {"clip": None}, {}),
    ("auto", {"tau": "0.1", "strength": "2", "clip": 5}, {"tau": 0.1, "strength": 2.0, "clip": 5.0}),
    ("doubly-robust", {"tau": 1}, {"tau": 1.0}),
    ("full-information", {"relevance_threshold": "2", "gain": "exponential"},
     {"relevance_threshold": 2.0, "gain": "exponential"}),
    ("full-information", {"relevance_threshold": 2}, {"relevance_threshold": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given", "expected"), GOOD)
def test_values_and_texts(name, given, expected):
    found = checked_hyperparameters(name, given)
    assert found == expected
    assert [type(value) for value in found.values()] == [type(value) for value in expected.values()]


BAD = [
    ("doubly-robust", {"tau": "low"}, "^tau='low': expected a finite number$"),
    ("doubly-robust", {"tau": "2"}, r"^tau=2\.0: expected a number from 0 to 1"),
    ("policy-aware", {"clip": "much"}, "^clip='much': expected a finite number or auto$"),
    ("policy-aware", {"clip": 0}, "^clip=0: expected a finite number above 0"),
    ("policy-aware", {"tau": "0.1"}, "^tau='0.1': policy-aware has no tau, a hyperparameter of auto, doubly-robust; "),
    ("policy-aware", {"depth": 3}, "^depth=3: policy-aware has no depth; expected clip"),
    ("direct", {"depth": 3}, "^depth=3: direct has no depth; leave it out"),
    ("best", {}, "^estimator='best'"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given", "message"), BAD)
def test_bad_ones_are_named(name, given, message):
    with pytest.raises(CounterrankError, match=message):
        checked_hyperparameters(name, given)


@pytest.fixture
def powers():
    """An estimator that is not in the library, with hyperparameters of three types and a grid."""

    def weigh(data, evidence, power=1.0, times=1, unit="clicks"):
        assert (type(times), unit) == (int, "clicks")
        return times * evidence.clicks.by_document(evidence.clicks.clicks) ** power

    def assisted(seen, relevance, likely, power=1.0, times=1, unit="clicks"):
        return times * seen.clicks**power

    declared = {
        "power": "of the number of clicks",
        "times": Hyperparameter("factor", int),
        "unit": Hyperparameter("clicks", str),
    }
    own = Estimator("powers", "a power of clicks", "clicks(d)**power", "never", ("clicks", "exposure"), declared)
    yield register_estimator(
        Estimator(**{**vars(own), "weigh": weigh, "assisted": assisted, "grid": {"power": (0.5, 2.0)}})
    )
    del ESTIMATORS["powers"]


@pytest.mark.filterwarnings("ignore::counterrank.CoverageWarning")
def test_those_of_ones_own_estimator_are_used(powers):
    data, clicks = DATA, CLICKS
    untrained = cr.Ranker("arp-hinge", max_epochs=3)
    given = {"power": "2", "times": "3", "unit": "clicks"}
    report = fit_ranker(data, Evidence(clicks), "powers", untrained, hyperparameters=given)
    by_hand = cr.Ranker("arp-hinge", max_epochs=3).fit(data, 3 * clicks.by_document(clicks.clicks) ** 2.0)
    np.testing.assert_array_equal(report.ranker.predict(data), by_hand.predict(data))
    assert report.ranker.provenance_["estimator"]["times"] == 3
    assert str(powers.hyperparameters["times"]) == "factor"

    tried = fit_ranker(data, Evidence(clicks), "auto", untrained, folds=2).trials
    assert [each.settings for each in tried if each.estimator == "powers"] == [{"power": 0.5}, {"power": 2.0}]
    alone = fit_ranker(data, Evidence(clicks), "powers", untrained, folds=2, hyperparameters={"power": 1})
    assert [each.settings for each in alone.trials] == [{"power": 1}]


@pytest.mark.filterwarnings("ignore::counterrank.CoverageWarning")
def test_a_clip_is_a_hyperparameter_too():
    data, clicks = DATA, CLICKS
    untrained = cr.Ranker("arp-hinge", max_epochs=3)
    one = fit_ranker(data, Evidence(clicks), "policy-aware", untrained, hyperparameters={"clip": "3"})
    other = fit_ranker(data, Evidence(clicks), "policy-aware", untrained, clip=3)
    assert one.about == other.about == {"clip": 3.0}
    np.testing.assert_array_equal(one.ranker.predict(data), other.ranker.predict(data))
    with pytest.raises(CounterrankError, match="clip=3: given among hyperparameters too; expected one of the two"):
        fit_ranker(data, Evidence(clicks), "policy-aware", untrained, clip=3, hyperparameters={"clip": 2})
    with pytest.raises(CounterrankError, match="estimator 'naive': cannot be cross-validated"):
        fit_ranker(data, Evidence(clicks), "naive", untrained, folds=2)
