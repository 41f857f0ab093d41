"""Choosing among rankers by clicks."""

import numpy as np
import pytest

from counterrank.evaluation import Selection, estimate, select
from tests.evaluation.test_estimate import DATA, make_clicks, make_data

pytestmark = pytest.mark.filterwarnings("ignore::counterrank.evaluation.IntervalWarning")


class Fixed:
    """A ranker with scores of its own."""

    def __init__(self, scores):
        self.scores = scores

    def predict(self, data):
        assert data.n_docs == len(self.scores)
        return self.scores


def make_world(n_queries=150):
    """The first of three documents is clicked most, the last least."""
    data = make_data([3] * n_queries)
    cells = [(3 * q + d, d + 1, 10, max(6 - 2 * d - q % 3, 0)) for q in range(n_queries) for d in range(3)]
    return data, make_clicks(data, [10] * n_queries, cells), np.full(3 * n_queries, 0.5)


def assert_same(found, expected):
    """Up to rounding: columns side by side are added up in another order."""
    for name, value in vars(expected).items():
        same = value if value is None or isinstance(value, str) or name == "doubts" else pytest.approx(value, rel=1e-9)
        assert getattr(found, name) == same, name


GOOD, MIDDLING, BAD = ([3.0, 2.0, 1.0], [2.0, 3.0, 1.0], [1.0, 2.0, 3.0])


def rankers(n_queries=150):
    return [Fixed(np.tile(scores, n_queries)) for scores in (BAD, GOOD, MIDDLING)]


@pytest.mark.parametrize("metric", ["arp", "dcg", "dcg@2", "precision@1"])
def test_the_best_by_the_estimated_metric(metric):
    data, clicks, rho = make_world()
    given = rankers()
    chosen = select(given, data, clicks, rho, metric=metric, replicates=200)
    assert isinstance(chosen, Selection)
    assert chosen.best is given[1]
    assert (chosen.index, chosen.metric) == (1, metric)
    assert chosen.stability == chosen.shares[1] == 1.0
    assert sum(chosen.shares) == 1.0
    for ranker, found in zip(given, chosen.estimates, strict=True):
        assert_same(found, estimate(ranker.scores, data, clicks, rho, [metric], replicates=200)[metric])


def test_scores_will_do():
    data, clicks, rho = make_world()
    chosen = select([np.tile(BAD, 150), np.tile(GOOD, 150).tolist()], data, clicks, rho)
    assert chosen.index == 1


def test_equals_go_to_the_first():
    data, clicks, rho = make_world()
    chosen = select([np.tile(GOOD, 150)] * 3, data, clicks, rho, replicates=100)
    assert chosen.index == 0
    assert chosen.shares == (1.0, 0.0, 0.0)


def test_stability_is_how_often_resamples_agree():
    """Each of two rankings is better on every other query, by the same clicks but for one query more."""
    data = make_data([2] * 201)
    cells = [(2 * q + d, d + 1, 10, 5 if d == q % 2 else 1) for q in range(201) for d in range(2)]
    clicks = make_clicks(data, [10] * 201, cells)
    first = np.tile([2.0, 1.0], 201)
    chosen = select([first, -first], data, clicks, np.full(402, 0.5), metric="arp")
    # of 201 queries drawn, each for the first with chance 101 / 201: more than half are, in 52.8 % of resamples
    assert chosen.index == 0
    assert chosen.stability == pytest.approx(0.528, abs=4.5 * np.sqrt(0.25 / 2000))
    assert chosen.stability == select([-first, first], data, clicks, np.full(402, 0.5), metric="arp").stability


def test_noise_and_target_reach_the_estimates():
    data, clicks, rho = make_world()
    chosen = select(rankers(), data, clicks, rho, population="these-queries", noise=(0.1, 1.0), confidence=0.9)
    expected = estimate(
        rankers()[0].scores, data, clicks, rho, ["dcg@5"], population="these-queries", noise=(0.1, 1.0), confidence=0.9
    )
    assert_same(chosen.estimates[0], expected["dcg@5"])
    assert chosen.index == 1


def test_one_seed_one_result_whatever_the_threads():
    data, clicks, rho = make_world()
    options = {"metric": "dcg@2", "replicates": 300, "seed": 7}
    first = select(rankers(), data, clicks, rho, threads=1, **options)
    second = select(rankers(), data, clicks, rho, threads=3, **options)
    assert (first.shares, first.estimates) == (second.shares, second.estimates)


WORLD = make_world(5)
TOO_LONG = np.zeros(99)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rankers": []}, "rankers: the list is empty; expected a list of rankers"),
        ({"rankers": None}, "rankers: NoneType; expected a list of rankers"),
        ({"rankers": "dcg"}, "rankers: str; expected a list of rankers"),
        ({"rankers": Fixed([1.0] * 15)}, "rankers: Fixed; expected a list of rankers"),
        ({"rankers": [Fixed]}, "rankers: number 0: type; expected a ranker"),
        ({"rankers": [np.zeros(15), 3]}, "rankers: number 1: int; expected a ranker"),
        ({"rankers": [np.zeros(15), TOO_LONG]}, "rankers: number 1: 99 entries; expected 15"),
        ({"rankers": [np.full(15, np.nan)]}, "rankers: number 0: entry 0 is nan"),
        ({"metric": "ndcg@5"}, "metric 'ndcg@5': needs to know all relevant documents"),
        ({"metric": "nonsense"}, "metric 'nonsense': unknown"),
        ({"data": DATA}, "clicks: counted against other data"),
        ({"clicks": make_clicks(WORLD[0], [1] * 5, [])}, "clicks: the weights of all documents sum to 0"),
        ({"replicates": 0}, "replicates=0: expected a whole number of at least 100"),
    ],
)
def test_bad_input(changed, message):
    data, clicks, rho = WORLD
    given = {"rankers": [np.zeros(15)], "data": data, "clicks": clicks, "rho": rho} | changed
    with pytest.raises(ValueError, match=message):
        select(**given)
