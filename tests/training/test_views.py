"""Learning from displayed sets: the kernels against a slow reference, the same result as plain training where sets are
whole queries, validation inside sets, and views that do not fit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank import examination, losses, policies, simulation
from counterrank.common.errors import CoverageWarning
from counterrank.data import RankingData, make_ranking_data
from counterrank.estimators import Views, rerank
from counterrank.estimators.displayed_sets import check_views
from counterrank.models import Scaler
from counterrank.training import Ranker
from counterrank.training.gradient_descent import LinearProblem
from counterrank.training.linear_training import Schedule, natural_learning_rate
from counterrank.training.problem import LinearMetric, check_weights
from tests.reference.losses import NAMED
from tests.reference.metrics import discount, orders
from tests.reference.training import descend_sets
from tests.support.losses import EXACT
from tests.support.ragged import ragged_data, ragged_weights

SCHEDULE = Schedule(max_epochs=3, patience=3, batch=1, entropy=123)
DATA, OTHER = ragged_data(), ragged_data(2)


def random_sets(data, negative=False, seed=0, most=5):
    """A few sets for most queries: short and long, some of one document, some with equal weights."""
    rng = np.random.default_rng(seed)
    sets = []
    for q in range(data.n_queries):
        for _ in range(rng.integers(0, most)):
            n = int(rng.integers(1, data.lengths[q] + 1))
            rows = np.sort(data.offsets[q] + rng.permutation(data.lengths[q])[:n])
            weights = np.round(rng.exponential(size=n) * (rng.random(n) < 0.6), 2)
            if negative:
                weights *= rng.choice([-1.0, 1.0], n)
            sets.append((rows.tolist(), weights.tolist()))
    return sets


def views_of(sets) -> Views:
    docs = np.array([row for rows, _ in sets for row in rows], np.int64)
    weights = np.array([weight for _, own in sets for weight in own], np.float64)
    return Views(docs, np.concatenate(([0], np.cumsum([len(rows) for rows, _ in sets]))).astype(np.int64), weights)


SETS, OTHER_SETS = random_sets(DATA), random_sets(OTHER, seed=1)
VIEWS, OTHER_VIEWS = views_of(SETS), views_of(OTHER_SETS)


def cutoff(loss: str) -> int | None:
    return 3 if losses.LOSSES[loss].takes_k else None


def make_problem(data, views, loss, k, normalize="query") -> LinearProblem:
    weights, sets, _ = check_weights(views, data)
    scales = Scaler.learn(normalize, data).scales(data)
    return LinearProblem.make(data, weights, scales, losses.LOSSES[loss].spec(k, int(data.lengths.max())), sets)


def order_of(queries, epoch):
    order = SCHEDULE.order(DATA.n_queries, epoch)
    return order[np.isin(order, queries)]


def run_epochs(problem, step, batch, epochs=3, threads=2):
    coefficients, met = np.zeros(problem.n_features), []
    for epoch in range(1, epochs + 1):
        order = order_of(problem.queries, epoch)
        met.append(problem.epoch(order, step, batch, coefficients, threads))
    return coefficients, met


@pytest.mark.parametrize("negative", [False, True], ids=["positive", "negative"])
@pytest.mark.parametrize(("batch", "normalize"), [(1, "query"), (4, "standard"), (100, "none")])
@pytest.mark.parametrize("loss", EXACT)
def test_epochs_against_the_reference(loss, batch, normalize, negative):
    sets = random_sets(DATA, negative)
    problem = make_problem(DATA, views_of(sets), loss, cutoff(loss), normalize)
    # small: the reference scales in float32, and must break ties alike
    step = 0.3 * natural_learning_rate(problem.gradient_norms(np.zeros(problem.n_features)))
    fast, met = run_epochs(problem, step, batch)
    slow, expected = descend_sets(DATA, sets, loss, cutoff(loss), normalize, step, batch, order_of, 3)
    np.testing.assert_allclose(fast, slow, rtol=2e-4, atol=2e-5 * np.abs(slow).max())
    np.testing.assert_allclose(met, expected, rtol=1e-5, atol=1e-7)
    assert np.abs(fast).max() > 0


@st.composite
def queries_with_sets(draw):
    """One query of a few documents whose scores tie, are ordinary, or huge, and sets of it."""
    n = draw(st.integers(2, 6))
    kinds = (st.sampled_from([0.0, 1.0]), st.integers(-8, 8).map(lambda i: i / 4), st.sampled_from([-1e4, 0.0, 1e4]))
    scores = draw(st.lists(draw(st.sampled_from(kinds)), min_size=n, max_size=n))
    sets = []
    for _ in range(draw(st.integers(1, 4))):
        rows = sorted(draw(st.sets(st.integers(0, n - 1), min_size=1)))
        sets.append((rows, draw(st.lists(st.integers(-3, 5).map(float), min_size=len(rows), max_size=len(rows)))))
    return scores, sets


@given(queries_with_sets(), st.sampled_from(EXACT), st.integers(1, 4))
@settings(max_examples=300, deadline=None)
def test_value_and_gradient_of_one_query_against_the_reference(case, loss, k):
    """One feature, the score itself, with coefficient 1: a step of size 1 moves it by the gradient."""
    scores, sets = case
    k = k if losses.LOSSES[loss].takes_k else None
    usable = [(rows, weights) for rows, weights in sets if len(set(weights)) > 1]
    if not usable:
        return
    total = sum(abs(weight) for _, weights in sets for weight in weights)
    value = gradient = size = 0.0
    for rows, weights in usable:
        own = np.array(scores)[rows]
        own_value, slopes = NAMED[loss.replace("-", "_")](own, np.array(weights) / total, k)
        value, gradient, size = value + own_value, gradient + own @ slopes, size + np.abs(own) @ np.abs(slopes)
    problem = make_problem(RankingData(np.array(scores)[:, None], [0, len(scores)]), views_of(sets), loss, k, "none")
    moved = np.ones(1)
    assert problem.epoch(problem.queries, 1.0, 1, moved, threads=1) == pytest.approx(value, rel=1e-9, abs=1e-12)
    assert 1.0 - moved[0] == pytest.approx(gradient, rel=1e-9, abs=1e-9 * (1 + size))


def whole_queries(data, weights) -> Views:
    return Views(np.arange(data.n_docs), data.offsets, weights)


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("loss", EXACT)
def test_sets_that_are_whole_queries_are_plain_training(loss, batch):
    weights, other = ragged_weights(DATA), ragged_weights(OTHER, seed=3)
    settings = {"max_epochs": 6, "batch_queries": batch}
    plain = Ranker(loss, cutoff(loss), **settings).fit(DATA, weights, validation=(OTHER, other))
    views = Ranker(loss, cutoff(loss), **settings).fit(
        DATA, whole_queries(DATA, weights), validation=(OTHER, whole_queries(OTHER, other))
    )
    assert views.model_.coefficients.tolist() == plain.model_.coefficients.tolist()
    assert (views.learning_rate_, views.best_epoch_) == (plain.learning_rate_, plain.best_epoch_)
    for ours, theirs in zip(views.history_, plain.history_, strict=True):
        assert (ours["loss"], ours["validation"]) == (theirs["loss"], theirs["validation"])


def test_one_step_takes_all_sets_of_a_query():
    # features scaled over the whole query: 0, 1/2, 1; all scores 0
    # sets {0, 1} and {1, 2} with weight on 0 and 2; ARP hinge: the weighted one is pulled up by 1, the other down
    # gradient for the coefficient: 1/2 (-0 + 1/2) + 1/2 (-1 + 1/2) = 0, and from the two sets by turns it is not
    data = RankingData([[10.0], [20.0], [30.0]], [0, 3])
    problem = make_problem(data, Views([0, 1, 1, 2], [0, 2, 4], [1.0, 0.0, 0.0, 1.0]), "arp-hinge", None)
    coefficients = np.zeros(1)
    assert problem.queries.tolist() == [0]
    assert problem.epoch(problem.queries, 0.25, 1, coefficients, threads=1) == 0.5 * 2 + 0.5 * 2
    assert coefficients.tolist() == [-0.25 * (0.5 * (0.5 - 0.0) + 0.5 * (0.5 - 1.0))]
    alone = make_problem(data, Views([1, 2], [0, 2], [0.0, 1.0]), "arp-hinge", None)
    alone.epoch(alone.queries, 0.25, 1, coefficients, threads=1)
    assert coefficients.tolist() == [-0.25 * (0.5 - 1.0)]


def test_documents_outside_all_sets_play_no_part():
    features = np.array([[0.0, 1.0], [1.0, 0.0], [0.3, 0.6], [0.7, 0.2]])
    views = Views([0, 1], [0, 2], [0.0, 1.0])
    first = Ranker("dcg-logistic", learning_rate=1.0, max_epochs=5).fit(RankingData(features, [0, 4]), views)
    features[2:] = [[0.9, 0.9], [0.1, 0.5]]  # still within the range that features are scaled by
    second = Ranker("dcg-logistic", learning_rate=1.0, max_epochs=5).fit(RankingData(features, [0, 4]), views)
    assert first.model_.coefficients.tolist() == second.model_.coefficients.tolist()


def naive_metric(scores, sets, value_of_rank) -> float:
    """sum(omega * lambda(rank inside the set)) / sum(|omega|), ties averaged over all orders."""
    above = 0.0
    for rows, weights in sets:
        values = []
        for order in orders([scores[row] for row in rows]):
            values.append(sum(weights[place] * value_of_rank(rank) for rank, place in enumerate(order, 1)))
        above += sum(values) / len(values)
    return above / sum(abs(weight) for _, weights in sets for weight in weights)


METRICS = {"arp": (lambda rank: rank, -1), "dcg@2": (lambda rank: discount(rank) * (rank <= 2), 1)}


@given(queries_with_sets(), queries_with_sets(), st.sampled_from(list(METRICS)))
@settings(max_examples=150, deadline=None)
def test_the_metric_ranks_inside_sets(first, second, metric):
    (scores, sets), (more, more_sets) = first, second
    n = len(scores)
    sets = sets + [([row + n for row in rows], weights) for rows, weights in more_sets]
    if not any(weight for _, weights in sets for weight in weights):
        return
    both = np.array(scores + more)
    # a query between the two has no sets, and a part of 0
    data = RankingData(
        np.append(both, 7.0)[[*range(n), len(both), *range(n, len(both))], None], [0, n, n + 1, len(both) + 1]
    )
    shifted = [([row + (row >= n) for row in rows], weights) for rows, weights in sets]
    scales = Scaler.learn("none", data).scales(data)
    parts = LinearMetric(metric, data, check_weights(views_of(shifted), data), scales)(np.ones(1), 2)
    lambda_of, sign = METRICS[metric]
    assert parts.sum() == pytest.approx(sign * naive_metric(both, sets, lambda_of), rel=1e-12, abs=1e-12)
    assert (parts.shape, parts[1]) == ((3,), 0.0)
    alone = [(rows, weights) for rows, weights in sets if rows[0] < n]
    share = sum(abs(w) for _, own in alone for w in own) / sum(abs(w) for _, own in sets for w in own)
    expected = sign * share * naive_metric(both, alone, lambda_of) if share else 0.0
    assert parts[0] == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("loss", ["arp-hinge", "lambdaloss-truncated"])
def test_the_returned_model_has_the_best_metric_inside_sets(loss):
    ranker = Ranker(loss, cutoff(loss), max_epochs=30, patience=10)
    ranker.fit(DATA, VIEWS, validation=(OTHER, OTHER_VIEWS))
    seen = [row["validation"] for row in ranker.history_]
    best = min(seen) if loss == "arp-hinge" else max(seen)
    value = (lambda rank: rank) if loss == "arp-hinge" else lambda rank: discount(rank) * (rank <= 3)
    scores = ranker.predict(OTHER)
    assert len(set(scores)) > OTHER.n_docs - 5  # few ties, so that one order is enough
    above = 0.0
    for rows, weights in OTHER_SETS:
        ranks = 1 + (scores[rows][None, :] > scores[rows][:, None]).sum(axis=1)
        above += sum(weight * value(rank) for weight, rank in zip(weights, ranks, strict=True))
    assert above / np.abs(OTHER_VIEWS.weights).sum() == pytest.approx(best, rel=1e-9)
    assert ranker.best_epoch_ == 1 + seen.index(best)


def test_at_test_time_all_candidates_are_ranked():
    ranker = Ranker("lambdaloss-dcg", max_epochs=3).fit(DATA, VIEWS)
    assert ranker.predict(DATA).shape == (DATA.n_docs,)


def test_the_order_of_documents_within_a_set_does_not_matter():
    rng = np.random.default_rng(5)
    shuffled = []
    for rows, weights in SETS:
        order = rng.permutation(len(rows))
        shuffled.append((np.array(rows)[order].tolist(), np.array(weights)[order].tolist()))
    given_views = views_of(shuffled)
    before = given_views.docs.tolist()
    first, second = (Ranker("lambdaloss-dcg", max_epochs=3).fit(DATA, views) for views in (VIEWS, given_views))
    assert first.model_.coefficients.tolist() == second.model_.coefficients.tolist()
    assert given_views.docs.tolist() == before


@pytest.mark.parametrize("batch", [1, 7, 64])
def test_one_result_whatever_the_threads(batch):
    data = make_ranking_data("yahoo", 120, seed=4)
    views = views_of(random_sets(data, most=9))
    results = [
        Ranker(k=3, max_epochs=3, batch_queries=batch, threads=threads).fit(data, views, validation=(data, views))
        for threads in (1, 2, 5)
    ]
    for other in results[1:]:
        assert other.model_.coefficients.tolist() == results[0].model_.coefficients.tolist()
        for ours, theirs in zip(other.history_, results[0].history_, strict=True):
            assert (ours["loss"], ours["validation"]) == (theirs["loss"], theirs["validation"])


def test_the_scale_of_weights_does_not_matter():
    def fit(scale):
        return Ranker("dcg-hinge", max_epochs=3).fit(DATA, VIEWS._replace(weights=VIEWS.weights * scale))

    assert fit(2.0**40).model_.coefficients.tolist() == fit(1.0).model_.coefficients.tolist()
    np.testing.assert_allclose(fit(1e305).model_.coefficients, fit(1.0).model_.coefficients, rtol=1e-9, atol=1e-12)


def test_sets_of_equal_weights_count_only_in_the_sum():
    usable = [(rows, weights) for rows, weights in SETS if len(set(weights)) > 1]
    assert len(usable) < len(SETS)
    all_sets, some = (
        make_problem(DATA, VIEWS, "arp-hinge", None),
        make_problem(DATA, views_of(usable), "arp-hinge", None),
    )
    assert all_sets.queries.tolist() == some.queries.tolist()
    total, fewer = np.abs(VIEWS.weights).sum(), np.abs(views_of(usable).weights).sum()
    np.testing.assert_allclose(all_sets.gradient_norms(np.zeros(6)) * total, some.gradient_norms(np.zeros(6)) * fewer)


def test_from_simulated_pages_to_a_ranker():
    data = make_ranking_data("mslr", 60, seed=1)
    exam, policy, logger = examination.inverse_rank(k=5), policies.ReplaceLast(k=5), -data.features[:, 0].astype(float)
    train, validation = (
        simulation.simulate(
            data, logger, policy, exam, sessions=20_000, seed=seed, relevance_threshold=2, displays=True
        )
        for seed in (0, 1)
    )
    with pytest.warns(CoverageWarning, match="^rerank: "):
        views, other = rerank(train, exam), rerank(validation, exam)
    assert np.diff(views.offsets).max() <= 5
    ranker = Ranker("lambdaloss-dcg", max_epochs=8).fit(data, views, validation=(data, other))
    metric_of = LinearMetric("dcg", data, check_weights(other, data), ranker.model_.scaler.scales(data))
    reached = metric_of(ranker.model_.coefficients, 1).sum()
    assert reached == pytest.approx(max(row["validation"] for row in ranker.history_), rel=1e-12)
    assert reached > metric_of(np.zeros(data.n_features), 1).sum()


def test_views_may_be_lists():
    views = check_views(Views([0, 2, 1], [0, 1, 3], [1, 2, 3]), DATA.offsets)
    assert (views.docs.tolist(), views.offsets.tolist(), views.weights.tolist()) == ([0, 1, 2], [0, 1, 3], [1, 3, 2])
    assert (views.n_sets, views.docs.dtype) == (2, np.int64)


# queries of DATA begin at rows 0, 7, 8, 20, 23, ...
BAD_VIEWS = [
    (Views([], [0], []), r"^views: no sets; expected at least one"),
    (Views([0.5, 1.5], [0, 2], [1, 0]), r"^views\.docs: float64 of shape \(2,\); expected rows of the data"),
    (Views([[0, 1]], [0, 2], [1, 0]), r"^views\.docs: int64 of shape \(1, 2\); expected rows of the data"),
    (Views([0, 1], [0, 3], [1, 0]), r"^views\.offsets: from 0 to 3; expected 0 to 2, the number of entries of docs"),
    (Views([0, 1], [1, 2], [1, 0]), r"^views\.offsets: from 1 to 2; expected 0 to 2"),
    (
        Views([0, 1], [0, 2, 2], [1, 0]),
        r"^views\.offsets: set 1 goes from 2 to 2; expected at least one document in each",
    ),
    (
        Views([0, 1], [0.0, 2.0], [1, 0]),
        r"^views\.offsets: float64 of shape \(2,\); expected where each set begins, one after another",
    ),
    (Views([0, 1], [0, 2], [1]), r"^views\.weights: 1 entries; expected 2, the number of entries of docs"),
    (Views([0, 1], [0, 2], [1, np.inf]), r"^views\.weights: entry 1 is inf; expected finite numbers"),
    (Views([0, 1], [0, 2], [0, 0]), r"^views: all are 0; expected at least one document with evidence"),
    (Views([0, 117], [0, 2], [1, 0]), r"^views: document 117 in set 0; expected rows of the data, 0 to 116"),
    (Views([0, 1, -1], [0, 2, 3], [1, 0, 1]), r"^views: document -1 in set 1; expected rows of the data"),
    (Views([6, 7], [0, 2], [1, 0]), r"^views: set 0 holds documents of queries 0 and 1; expected one query for each"),
    (Views([8, 9, 7], [0, 3], [1, 0, 0]), r"^views: set 0 holds documents of queries 2 and 1"),
    (
        Views([8, 9, 0, 1], [0, 2, 4], [1, 0, 1, 0]),
        r"^views: set 1 is of query 0, the one before it of query 2; expected sets in query order",
    ),
    (
        Views([8, 9, 10, 9], [0, 1, 4], [1, 0, 1, 0]),
        r"^views: document 9 \(of query 2\) twice in set 1; expected each once in a set",
    ),
    (
        Views([0, 1, 2], [0, 2, 3], [1, 1, 5]),
        r"^views: equal within every set, so there is nothing to learn; expected at least one set whose documents diff",
    ),
]


@pytest.mark.parametrize(("views", "message"), BAD_VIEWS)
def test_views_that_do_not_fit_are_refused(views, message):
    with pytest.raises(cr.CounterrankError, match=message):
        Ranker().fit(DATA, views)
    if "nothing to learn" not in message:  # such views can be evaluated
        with pytest.raises(cr.CounterrankError, match=message.replace("^views", "^validation views")):
            Ranker().fit(DATA, VIEWS, validation=(DATA, views))


PLAIN, OTHER_PLAIN = ragged_weights(DATA), ragged_weights(OTHER)
MIXED = [
    (VIEWS, (OTHER, OTHER_PLAIN), r"^validation: weights, where training has views; expected views in both"),
    (PLAIN, (OTHER, OTHER_VIEWS), r"^validation: views, where training has weights; expected weights in both"),
    (VIEWS, OTHER_VIEWS, r"^validation: expected a pair \(data, weights\)"),
    (tuple(VIEWS), None, r"^weights: cannot be made an array"),
]


@pytest.mark.parametrize(("weights", "validation", "message"), MIXED)
def test_views_and_weights_do_not_mix(weights, validation, message):
    with pytest.raises(cr.CounterrankError, match=message):
        Ranker().fit(DATA, weights, validation=validation)
