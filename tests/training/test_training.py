"""The kernels of gradient descent against a slow reference, and the parts training is made of."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterrank import losses
from counterrank.data import RankingData, make_ranking_data
from counterrank.models import LinearModel, Scaler
from counterrank.training import Ranker
from counterrank.training.executor import Epoch, compute
from counterrank.training.gradient_descent import LinearProblem
from counterrank.training.linear_training import (
    Run,
    Schedule,
    _rounds,
    natural_learning_rate,
    ranked_runs,
    search_epochs,
    search_learning_rate,
)
from counterrank.training.problem import constant_features
from tests.reference import training as naive_training
from tests.reference.training import descend, scaled_features
from tests.support.losses import EXACT
from tests.support.ragged import ragged_data, ragged_weights

SCHEDULE = Schedule(max_epochs=3, patience=3, batch=1, entropy=123)
DATA = ragged_data()
WEIGHTS = ragged_weights(DATA)


def make_problem(data, weights, loss, k=None, normalize="query") -> LinearProblem:
    scales = Scaler.learn(normalize, data).scales(data)
    return LinearProblem.make(data, weights, scales, losses.LOSSES[loss].spec(k, int(data.lengths.max())))


def cutoff(loss: str) -> int | None:
    return 3 if losses.LOSSES[loss].takes_k else None


def natural_rate(problem: LinearProblem) -> float:
    return natural_learning_rate(problem.gradient_norms(np.zeros(problem.n_features)))


def advance(run: Run, until: int, threads: int = 1) -> None:
    compute(run.advance(until, lambda amount: None), threads)


def search(make_run, base: float, max_epochs: int) -> Run:
    return compute(search_learning_rate(make_run, base, max_epochs, lambda amount: None), 2)


def order_of(queries, epoch):
    order = SCHEDULE.order(DATA.n_queries, epoch)
    return order[np.isin(order, queries)]


def run_epochs(problem: LinearProblem, step: float, batch: int, epochs: int = 3):
    coefficients, met = np.zeros(problem.n_features), []
    for epoch in range(1, epochs + 1):
        order = order_of(problem.queries, epoch)
        met.append(problem.epoch(order, step, batch, coefficients, threads=2))
    return coefficients, met


@pytest.mark.parametrize("batch", [1, 4, 100])
@pytest.mark.parametrize("normalize", ["query", "standard", "none"])
@pytest.mark.parametrize("loss", EXACT)
def test_epochs_against_the_reference(loss, normalize, batch):
    problem = make_problem(DATA, WEIGHTS, loss, cutoff(loss), normalize)
    # the reference scales features in float32; a small learning rate keeps it on the same side of every tie
    step = 0.3 * natural_rate(problem)
    fast, met = run_epochs(problem, step, batch)
    slow, expected = descend(DATA, WEIGHTS, loss, cutoff(loss), normalize, step, batch, order_of, 3)
    np.testing.assert_allclose(fast, slow, rtol=2e-4, atol=2e-5 * np.abs(slow).max())
    np.testing.assert_allclose(met, expected, rtol=1e-5)
    assert np.abs(fast).max() > 0


@pytest.mark.parametrize("loss", EXACT)
def test_negative_weights_against_the_reference(loss):
    weights = ragged_weights(DATA, negative=True)
    problem = make_problem(DATA, weights, loss, cutoff(loss))
    step = 0.3 * natural_rate(problem)
    fast, _ = run_epochs(problem, step, batch=1)
    slow, _ = descend(DATA, weights, loss, cutoff(loss), "query", step, 1, order_of, 3)
    np.testing.assert_allclose(fast, slow, rtol=2e-4, atol=2e-5 * np.abs(slow).max())


def test_one_step_by_hand():
    # one feature, scaled to 1 and 0; all scores 0, so both documents have bound 2
    # d loss / d s of the weighted document is -1 (from the other), of the other +1
    problem = make_problem(RankingData([[30.0], [10.0]], [0, 2]), np.array([5.0, 0.0]), "arp-hinge")
    coefficients = np.zeros(1)
    assert problem.epoch(problem.queries, 0.25, 1, coefficients, threads=1) == 2.0
    assert coefficients.tolist() == [0.25 * (1 * 1.0 - 1 * 0.0)]


def test_only_queries_with_different_weights_are_used():
    # queries 1 and 7 have one document, 3 no weight, 5 equal weights
    assert make_problem(DATA, WEIGHTS, "arp-hinge").queries.tolist() == [0, 2, 4, 6, 8, 9, 10]


def test_natural_step_is_the_inverse_of_the_sum_of_norms():
    problem = make_problem(DATA, WEIGHTS, "lambdaloss-dcg")
    norms = problem.gradient_norms(np.zeros(6))
    moved = np.zeros((len(norms), 6))
    for i in range(len(norms)):  # a step of size 1 from zero is the gradient with its sign turned
        problem.epoch(problem.queries[i : i + 1], 1.0, 1, moved[i], threads=1)
    np.testing.assert_allclose(norms, np.linalg.norm(moved, axis=1))
    assert natural_rate(problem) == pytest.approx(1 / norms.sum())


@pytest.mark.parametrize("batch", [2, 5, 64, 1000])
def test_batches_do_not_depend_on_threads(batch):
    """More threads than cores, than pieces with anything in them, and than queries in a batch."""
    data = make_ranking_data("yahoo", 150, seed=4)
    problem = make_problem(data, np.maximum(data.labels - 1.0, 0.0).astype(float), "lambdaloss-truncated")
    results = []
    for threads in (1, 2, 3, 7):
        coefficients = np.zeros(data.n_features)
        value = problem.epoch(problem.queries, 0.5, batch, coefficients, threads)
        results.append(np.append(coefficients, value))
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


def test_natural_step_without_any_gradient():
    flat = RankingData(np.ones((3, 2)), [0, 3])
    assert natural_rate(make_problem(flat, np.array([1.0, 0.0, 0.0]), "arp-hinge")) == 1.0


@pytest.mark.parametrize("normalize", ["query", "standard", "none"])
def test_scores_are_those_of_scaled_features(normalize):
    coefficients = np.random.default_rng(0).normal(size=DATA.n_features)
    found = LinearModel(coefficients, Scaler.learn(normalize, DATA)).predict(DATA)
    expected = scaled_features(DATA, normalize) @ coefficients
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_standard_scaling_keeps_what_it_saw():
    seen = RankingData([[1.0, 7.0], [3.0, 7.0]], [0, 2])
    other = RankingData([[5.0, 9.0]], [0, 1])
    scaler = Scaler.learn("standard", seen)  # mean 2, deviation 1; the second column is constant and dropped
    assert LinearModel(np.array([1.0, 1.0]), scaler).predict(other).tolist() == [(5.0 - 2.0) / 1.0 + 0.0]


def test_predictions_of_a_query_do_not_depend_on_the_others():
    model = LinearModel(np.random.default_rng(1).normal(size=DATA.n_features), Scaler.learn("query", DATA))
    some = DATA.subset([4, 0])
    assert model.predict(some)[:40].tolist() == model.predict(DATA)[DATA.offsets[4] : DATA.offsets[5]].tolist()


def test_order_is_a_shuffle_that_changes_with_the_epoch():
    first, second = SCHEDULE.order(50, 1), SCHEDULE.order(50, 2)
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(50))
    assert first.tolist() != second.tolist()
    assert SCHEDULE.order(50, 1) is first
    expected = first.tolist()
    del first
    assert SCHEDULE.order(50, 1).tolist() == expected


def test_an_epoch_skips_queries_without_evidence_and_keeps_the_order_of_the_others():
    problem = make_problem(DATA, WEIGHTS, "arp-hinge")
    assert len(problem.queries) < DATA.n_queries
    order = SCHEDULE.order(DATA.n_queries, 1)
    for batch in (1, 3):
        found, expected = np.zeros((2, DATA.n_features))
        met = Epoch(problem, order, 0.1, batch, found).compute(2)
        some = np.array([q for q in order if q in problem.queries])
        assert met == problem.epoch(some, 0.1, batch, expected, 1)
        assert found.tolist() == expected.tolist()


def scripted_run(step: float, outcomes, on_validation=True, tolerance=0.0) -> Run:
    """A run whose validation metric is given beforehand, by epoch."""
    coming = iter(outcomes)
    metric = (lambda coefficients, threads: np.array([next(coming)])) if on_validation else None
    problem = make_problem(DATA, WEIGHTS, "arp-hinge")
    schedule = Schedule(len(outcomes), patience=3, batch=1, entropy=1, tolerance=tolerance)
    return Run(problem, schedule, step, lambda coefficients, threads: np.zeros(1), metric)


def test_patience_counts_epochs_since_the_best():
    run = scripted_run(0.1, [1.0, 3.0, 2.0, 3.0, 2.9, 5.0, 6.0])
    advance(run, 100, 1)
    # best at epoch 2 (an equal value later is no improvement); 3, 4, 5 bring nothing
    assert (run.best_epoch, len(run.history)) == (2, 5)


def test_patience_counts_only_improvements_beyond_the_tolerance():
    # 1.0 counts; 1.5, 1.75 and 2.0 are not more than 1 above it; then patience is over
    run = scripted_run(0.1, [1.0, 1.5, 1.75, 2.0, 9.0], tolerance=1.0)
    advance(run, 100, 1)
    assert (run.best_epoch, len(run.history)) == (4, 4)


def test_small_improvements_add_up():
    # each is below the tolerance, but the third is 1.5 above the last one that counted
    run = scripted_run(0.1, [1.0, 1.5, 2.0, 2.5, 2.0, 2.0, 2.0, 9.0], tolerance=1.0)
    advance(run, 100, 1)
    assert (run.best_epoch, len(run.history)) == (4, 7)


@pytest.mark.parametrize(
    ("max_epochs", "rounds"),
    [
        (1, [(1, 7), (1, 5), (1, 3), (1, 1)]),
        (20, [(2, 7), (3, 5), (8, 3), (20, 1)]),
        (100, [(8, 7), (16, 5), (40, 3), (100, 1)]),
        (101, [(8, 7), (16, 5), (40, 3), (101, 1)]),
        (1000, [(8, 7), (16, 5), (40, 3), (1000, 1)]),
    ],
)
def test_the_heats_of_a_race(max_epochs, rounds):
    assert _rounds(max_epochs) == rounds
    begins = [0, *(until for until, _ in rounds)]
    runs = [10, 7, 5, 3]
    assert search_epochs(max_epochs) == sum(
        n * (until - begin) for n, begin, (until, _) in zip(runs, begins, rounds, strict=False)
    )


def test_long_races_end_and_train_the_winner_to_the_end():
    """Three of the first ten step sizes go beyond epoch 40, and the winner is as if it had run alone."""
    problem = make_problem(DATA, WEIGHTS, "arp-hinge")
    schedule = Schedule(max_epochs=150, patience=150, batch=1, entropy=1)
    made = []

    def make_run(step: float) -> Run:
        run = Run(problem, schedule, step, lambda coefficients, threads: -np.abs(coefficients - 1), None)
        made.append(run)
        return run

    winner = search(make_run, natural_rate(problem), 150)
    assert len(winner.history) == 150
    assert sum(len(run.history) > 40 for run in made[:10]) <= 3
    alone = make_run(winner.step)
    advance(alone, 150, 1)
    assert alone.kept.tolist() == winner.kept.tolist()


def test_the_kept_model_is_a_copy():
    run = scripted_run(0.1, [1.0, 3.0, 2.0, 1.0])
    advance(run, 2, 1)
    kept = run.kept.copy()
    advance(run, 4, 1)
    assert run.kept.tolist() == kept.tolist() != run.coefficients.tolist()


def test_a_run_that_pauses_is_the_same():
    through, paused = scripted_run(0.1, [1.0] * 4, False), scripted_run(0.1, [1.0] * 4, False)
    advance(through, 4, 1)
    for until in (1, 2, 4):
        advance(paused, until, 2)
    assert paused.kept.tolist() == through.kept.tolist() == through.coefficients.tolist()


def finished(training: float, parts) -> Run:
    run = scripted_run(1.0, [0.0])
    run.on_training = lambda coefficients, threads: np.array([training])
    run.watch.see(1, np.array(parts))
    compute(run.measure(), 1)
    return run


def test_standings_fall_back_on_training_when_validation_cannot_tell():
    # 0 leads by 0.1; 1 is behind it within a standard error, 2 far beyond one
    runs = {0: finished(1.0, [1.0, 1.1]), 1: finished(2.0, [1.5, 0.5]), 2: finished(3.0, [0.1, 0.2])}
    assert ranked_runs(runs) == [1, 0, 2]


def test_of_equal_runs_the_one_nearest_the_natural_step_leads():
    runs = {power: scripted_run(1.0, [0.0], on_validation=False) for power in (-3, -2, 1, 4)}
    assert ranked_runs(runs) == [1, -2, -3, 4]


def test_the_race_goes_beyond_its_first_steps():
    """From a base ten thousand times too large or too small it finds steps of the same quality."""
    data, weights = ragged_data(), ragged_weights(ragged_data())
    problem = make_problem(data, weights, "arp-logistic")
    schedule = Schedule(max_epochs=5, patience=5, batch=1, entropy=1)

    def make_run(step):
        def metric(coefficients, threads):
            return np.array([-problem.epoch(problem.queries, 0.0, len(problem.queries), coefficients, 1)])

        return Run(problem, schedule, step, metric, None)

    base = natural_rate(problem)
    steps = [search(make_run, base * factor, 5).step for factor in (1e-4, 1.0, 1e4)]
    np.testing.assert_allclose(steps, steps[1], rtol=1e-9)


def test_race_survives_when_every_first_step_diverges():
    ranker = Ranker("arp-hinge", normalize="none", max_epochs=3)
    wild = RankingData(np.array([[1e30, 1.0], [2e30, 0.0], [0.0, 5.0], [1e30, 3.0]]), [0, 2, 4])
    ranker.fit(wild, [0.0, 1.0, 1.0, 0.0])
    assert np.isfinite(ranker.predict(wild)).all()


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(1, 5), st.integers(0, 2**31), st.integers(1, 3),
    st.integers(1, 3),
)  # fmt: skip
def test_constant_features_against_the_reference(lengths, n_features, seed, values, threads):
    """Few values make constant columns likely; -0.0 and 0.0 are one value."""
    rng, offsets = np.random.default_rng(seed), np.concatenate(([0], np.cumsum(lengths)))
    features = rng.integers(0, values, (offsets[-1], n_features)) * rng.choice([-0.0, 0.5, 0.0, 1e30], n_features)
    data = RankingData(features, offsets)
    found = constant_features(data, threads)
    assert found.tolist() == naive_training.constant_features(data)
    assert found.dtype == np.int64


def test_constant_features_of_many_queries_on_several_threads():
    """A column that varies in one of 2,000 queries varies; another that differs between queries alone does not."""
    features = np.zeros((10_000, 4))
    features[:, 0] = np.repeat(np.arange(2000.0), 5)
    features[7777, 1] = 1.0
    features[:, 2] = np.arange(10_000) % 5
    data = RankingData(features, np.arange(0, 10_001, 5))
    for threads in (1, 2, 7):
        assert constant_features(data, threads).tolist() == [0, 3]
