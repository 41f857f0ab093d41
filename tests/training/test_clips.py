"""Which clips to try, and the choice between them by unclipped validation clicks."""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import Examination
from counterrank.estimators import Views, clip_grid, clip_schedule, policy_aware
from counterrank.evaluation import weighted_metric
from counterrank.training import Ranker, fit_best_clip
from tests.support.click_counts import count
from tests.support.ragged import ragged_data, ragged_weights

SCHEDULE = [
    (0, -3, 32, 1.0),
    (9_999, -3, 32, 1.0),
    (10**4, -3, 32, 1.0),
    (10**5, -3, 32, 1 - 3 + 32),
    (10**8, -3, 32, 1 - 3 * 4 + 32 * 16),
    (10**8, -57, 86, 1 - 57 * 4 + 86 * 16),
    (10**4.2, -57, 86, 1.0),  # 1 - 57 * 0.2 + 86 * 0.04 is below 1
    (np.int64(10**6), 0, 0, 1.0),
]


@pytest.mark.parametrize(("n", "a", "b", "expected"), SCHEDULE)
def test_the_authors_schedule(n, a, b, expected):
    assert clip_schedule(n, a, b) == pytest.approx(expected, rel=1e-12)


def counts(propensities, clicks) -> ClickCounts:
    """One query whose documents are shown at ranks of their own."""
    n = len(propensities)
    return ClickCounts(
        "a query",
        np.array([0, n]),
        np.array([1000]),
        docs=np.arange(n),
        ranks=np.arange(1, n + 1),
        impressions=np.full(n, 1000),
        clicks=np.array(clicks),
        propensities=np.array(propensities),
    )


def test_the_grid_by_hand():
    # 1/rho is 1 for 3 clicks and 10^8 for 1: the geometric mean is 10^2, the largest 10^8
    clicks = counts([1.0, 1e-8], [3, 1])
    assert clip_grid(clicks, n=4) == [pytest.approx(1e2), pytest.approx(1e4), pytest.approx(1e6), None]
    assert clip_grid(clicks, n=2) == [pytest.approx(1e2), None]
    assert clip_grid(clicks, n=1) == [None]
    assert len(clip_grid(clicks)) == 6


@given(st.lists(st.tuples(st.floats(1e-6, 1.0), st.integers(0, 50)), min_size=1, max_size=6), st.integers(1, 8))
@settings(max_examples=200, deadline=None)
def test_grids_rise_between_the_typical_and_the_largest(cells, n):
    rho, clicked = zip(*cells, strict=True)
    grid = clip_grid(counts(rho, clicked), rho, n)
    inverse = [1 / propensity for propensity, count in cells for _ in range(count)]
    assert grid[-1] is None
    if not inverse or max(inverse) <= min(inverse) * (1 + 1e-9):
        assert grid == [None]
        return
    assert len(grid) == n
    assert grid[:-1] == sorted(set(grid[:-1]))
    mean = math.exp(sum(map(math.log, inverse)) / len(inverse))
    assert all(mean * (1 - 1e-9) <= clip < max(inverse) for clip in grid[:-1])
    if n > 1:
        assert grid[0] == pytest.approx(mean)
    assert grid == clip_grid(counts(rho, clicked), None, n)  # as logged


def test_grids_where_clipping_means_nothing():
    assert clip_grid(counts([0.3, 0.3], [5, 7])) == [None]
    assert clip_grid(counts([0.3, 0.1 + 0.2], [5, 7])) == [None]  # equal but for rounding
    assert clip_grid(counts([0.3, 1e-9], [5, 0])) == [None]  # nobody clicked the other
    assert clip_grid(counts([0.0, 0.5], [0, 0])) == [None]


def test_a_grid_for_ranks():
    clicks = counts([1.0, 1.0], [1, 1])
    assert clip_grid(clicks, n=2, exam=Examination([1.0, 0.0625])) == [pytest.approx(4.0), None]


CLICKS = counts([1.0, 0.5], [1, 1])
BAD_INPUT = [
    (clip_schedule, (-1, 1, 1), {}, r"^n_clicks=-1: expected a number of at least 0"),
    (clip_schedule, ("many", 1, 1), {}, r"^n_clicks='many': expected a number"),
    (clip_schedule, (10**6, np.nan, 1), {}, r"^a=nan: expected a number"),
    (clip_schedule, (10**6, 1, None), {}, r"^b=None: expected a number"),
    (clip_grid, ([1],), {}, r"^clicks: list; expected ClickCounts"),
    (clip_grid, (CLICKS,), {"n": 0}, r"^n=0: expected a whole number of at least 1"),
    (clip_grid, (CLICKS,), {"n": 2.5}, r"^n=2\.5: expected a whole number of at least 1"),
    (clip_grid, (CLICKS, [1.0]), {}, r"^rho: 1 entries; expected 2"),
    (
        clip_grid,
        (CLICKS, [1.0, 0.0]),
        {},
        r"^rho: 0 for 1 click on 1 document, such as document 1 of query 0 at rank 2",
    ),
    (clip_grid, (CLICKS, [1.0, 1.0]), {"exam": Examination([1])}, r"^exam: given together with rho; expected one"),
    (clip_grid, (CLICKS,), {"exam": 3}, r"^exam: int; expected an examination curve"),
    (clip_grid, (count([2], []),), {}, r"^rho: None, and the clicks hold no logged propensities"),
]


@pytest.mark.parametrize(("function", "arguments", "more", "message"), BAD_INPUT)
def test_bad_input_is_refused(function, arguments, more, message):
    with pytest.raises(cr.CounterrankError, match=message):
        function(*arguments, **more)


DATA, OTHER = ragged_data(0), ragged_data(2)
TRUE, OTHER_TRUE = ragged_weights(DATA), ragged_weights(OTHER, seed=3)


def weigh(clip=None):
    return np.minimum(TRUE, math.inf if clip is None else clip)


def choose(clips=(0.1, 0.5, None), ranker=None, weigh=weigh, validation=(OTHER, OTHER_TRUE), **more):
    shared = more.pop("shared_learning_rate", False)
    settings = {"loss": "dcg-logistic", "max_epochs": 5, **more}
    return fit_best_clip(
        ranker or Ranker(**settings),
        DATA,
        weigh,
        clips,
        validation=validation,
        shared_learning_rate=shared,
    )


@pytest.mark.parametrize("loss", ["arp-hinge", "dcg-logistic"])
def test_the_best_by_unclipped_validation_is_kept(loss):
    best = choose(loss=loss)
    assert [trial.clip for trial in best.trials] == [0.1, 0.5, None]
    values = {}
    for trial in best.trials:
        alone = Ranker(loss, max_epochs=5).fit(DATA, weigh(trial.clip), validation=(OTHER, OTHER_TRUE))
        values[trial.clip] = weighted_metric(alone.predict(OTHER), OTHER_TRUE, OTHER.offsets, alone.metric_)
        assert trial.validation == pytest.approx(values[trial.clip], rel=1e-12)
        assert trial.error is None
        if trial.clip == best.clip:
            assert best.ranker.model_.coefficients.tolist() == alone.model_.coefficients.tolist()
    assert len(set(values.values())) > 1  # the case means something
    lowest_or_highest = min if loss == "arp-hinge" else max
    assert best.clip == lowest_or_highest(values, key=values.get)
    assert best.metric == {"arp-hinge": "arp", "dcg-logistic": "dcg"}[loss]


def test_clips_that_make_no_difference_go_to_the_smallest():
    best = choose(clips=[None, 1e9, 1e6, 1e9])
    assert [trial.clip for trial in best.trials] == [1e6, 1e9, None]
    assert best.clip == 1e6
    assert len({trial.validation for trial in best.trials}) == 1


def test_the_ranker_given_is_left_alone():
    ranker = Ranker("dcg-logistic", max_epochs=3)
    best = choose(ranker=ranker)
    assert not hasattr(ranker, "model_")
    assert best.ranker is not ranker


def test_with_a_generator_all_clips_see_one_order():
    best = choose(clips=[1e6, 1e9], seed=np.random.default_rng(3))
    assert best.trials[0].validation == best.trials[1].validation
    again = choose(clips=[1e6, 1e9], seed=np.random.default_rng(3))
    assert again.ranker.model_.coefficients.tolist() == best.ranker.model_.coefficients.tolist()


def test_a_clip_with_which_training_fails_is_left_out():
    def nothing_under_one(clip=None):
        return TRUE * 0.0 if clip is not None and clip < 1.0 else weigh(clip)

    best = choose(clips=[0.5, 2.0], weigh=nothing_under_one)
    assert best.clip == 2.0
    assert best.trials[0].validation is None
    assert best.trials[0].error == "weights: all are 0; expected at least one document with evidence"


def test_if_all_fail_the_first_error_is_raised():
    with pytest.raises(cr.CounterrankError, match=r"^learning_rate=1e\+300: training diverged"):
        choose(learning_rate=1e300)
    with pytest.raises(cr.CounterrankError, match=r"^loss='nonsense': expected one of"):
        choose(loss="nonsense")


def test_an_estimator_that_fails_is_an_error():
    clicks = count(DATA.lengths.tolist(), [(0, (0, 1), {1})])
    with pytest.raises(cr.CounterrankError, match=r"^rho: 0 for 1 click on 1 document"):
        choose(weigh=partial(policy_aware, clicks, np.zeros(DATA.n_docs)))


def test_from_clicks_to_the_best_ranker():
    lengths, rng = DATA.lengths.tolist(), np.random.default_rng(0)
    sessions = [(q, tuple(rng.permutation(lengths[q])), {1}) for q in rng.integers(0, len(lengths), 300)]
    clicks, rho = count(lengths, sessions), rng.uniform(0.01, 1.0, DATA.n_docs)
    grid = clip_grid(clicks, rho, n=3)
    best = choose(clips=grid, weigh=partial(policy_aware, clicks, rho), validation=(DATA, policy_aware(clicks, rho)))
    assert [trial.clip for trial in best.trials] == grid
    direct = Ranker("dcg-logistic", max_epochs=5)
    direct.fit(DATA, policy_aware(clicks, rho, clip=best.clip), validation=(DATA, policy_aware(clicks, rho)))
    assert best.ranker.model_.coefficients.tolist() == direct.model_.coefficients.tolist()


def test_views_can_be_clipped_too():
    def views(data, weights):
        return Views(np.arange(data.n_docs), data.offsets, weights)

    best = choose(weigh=lambda clip: views(DATA, weigh(clip)), validation=(OTHER, views(OTHER, OTHER_TRUE)))
    plain = choose()
    assert [trial.validation for trial in best.trials] == [trial.validation for trial in plain.trials]


@pytest.mark.parametrize("loss", ["arp-hinge", "dcg-logistic"])
def test_a_shared_learning_rate_changes_nothing_where_the_step_size_is_given(loss):
    each, once = (
        choose(loss=loss, learning_rate=0.3, shared_learning_rate=shared_learning_rate)
        for shared_learning_rate in (False, True)
    )
    assert once.trials == each.trials
    assert once.clip == each.clip
    assert once.ranker.model_.coefficients.tolist() == each.ranker.model_.coefficients.tolist()


def test_a_shared_learning_rate_takes_the_step_size_of_the_largest_clip():
    ranker = Ranker("dcg-logistic", max_epochs=5)
    raced = Ranker("dcg-logistic", max_epochs=5).fit(DATA, weigh(), validation=(OTHER, OTHER_TRUE))
    once = choose(clips=(0.1, 0.5, None), ranker=ranker, shared_learning_rate=True)
    for trial in once.trials:
        alone = Ranker("dcg-logistic", max_epochs=5, learning_rate=raced.learning_rate_)
        alone.fit(DATA, weigh(trial.clip), validation=(OTHER, OTHER_TRUE))
        assert trial.validation == alone.history_[alone.best_epoch_ - 1]["validation"]
    assert once.ranker.learning_rate_ == raced.learning_rate_
    assert (once.ranker.learning_rate, ranker.learning_rate) == ("auto", "auto")


def test_a_shared_learning_rate_is_run_for_the_next_clip_where_the_largest_fails():
    def nothing_without_a_clip(clip=None):
        return TRUE * 0.0 if clip is None else weigh(clip)

    once = choose(weigh=nothing_without_a_clip, shared_learning_rate=True)
    alone = Ranker("dcg-logistic", max_epochs=5).fit(DATA, weigh(0.5), validation=(OTHER, OTHER_TRUE))
    assert once.trials[-1].error == "weights: all are 0; expected at least one document with evidence"
    assert once.ranker.learning_rate_ == alone.learning_rate_


@pytest.mark.parametrize("loss", ["arp-hinge", "dcg-logistic"])
@pytest.mark.parametrize("learning_rate", ["auto", 0.3])
def test_a_shared_learning_rate_also_gives_ties_to_the_smallest_clip(loss, learning_rate):
    best = choose(clips=[None, 1e9, 1e6], loss=loss, learning_rate=learning_rate, shared_learning_rate=True)
    assert best.clip == 1e6
    assert len({trial.validation for trial in best.trials}) == 1


def test_with_a_generator_one_race_sees_one_order():
    best = choose(clips=[1e6, 1e9], seed=np.random.default_rng(3), shared_learning_rate=True)
    assert best.trials[0].validation == best.trials[1].validation


BAD_CHOICES = [
    ({"clips": []}, r"^clips: expected a list of at least one number above 0, or None for no clip"),
    ({"clips": 3.0}, r"^clips: expected a list"),
    ({"clips": "auto"}, r"^clips: expected a list"),
    ({"clips": [1.0, 0.0]}, r"^clip=0\.0: expected a finite number above 0"),
    ({"clips": [np.inf]}, r"^clip=inf: expected a finite number above 0"),
    ({"ranker": "linear"}, r"^ranker: str; expected Ranker"),
    ({"validation": None}, r"^validation: None; expected a pair \(data, unclipped weights\) to compare the clips by"),
    ({"validation": OTHER}, r"^validation: expected a pair \(data, weights\)"),
    (
        {"weigh": TRUE},
        r"^weigh: ndarray; expected a function of clip=, such as functools\.partial\(policy_aware, clicks",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_CHOICES)
def test_bad_choices_are_refused(arguments, message):
    with pytest.raises(cr.CounterrankError, match=message):
        choose(**arguments)


def test_the_old_name_of_the_shared_learning_rate_still_works():
    with pytest.warns(DeprecationWarning, match="one_race is deprecated; use shared_learning_rate"):
        fit_best_clip(
            Ranker("arp-hinge", max_epochs=1), DATA, weigh, [None], validation=(OTHER, OTHER_TRUE), one_race=True
        )
