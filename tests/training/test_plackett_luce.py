"""Training on the Plackett-Luce loss: what is learned, its metric, and what it is refused for."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import counterrank as cr
from counterrank import examination, losses, policies
from counterrank.estimators.evidence import Evidence
from counterrank.training.pipeline import fit_ranker
from counterrank.training.problem import TrainingWeights, query_metric
from tests.support.ragged import ragged_data, ragged_weights

DATA, OTHER = ragged_data(), ragged_data(seed=5)
WEIGHTS, OTHER_WEIGHTS = ragged_weights(DATA), ragged_weights(OTHER)
FEW = {"samples": 8}


def ranker(**more):
    return cr.Ranker(**{"loss": "plackett-luce", "k": 3, "params": FEW, "max_epochs": 3, "learning_rate": 1.0} | more)


def dcg_curve(k):
    return examination.Examination(1.0 / np.log2(np.arange(2, k + 2)))


def test_the_fitted_ranker_with_its_policy_has_the_value_it_was_trained_for():
    """The loss at the learned scores is minus the reward of `policies.PlackettLuce(k)`; 40,000 rankings a query."""
    scores = ranker().fit(DATA, WEIGHTS).predict(DATA)
    rho = policies.PlackettLuce(3, temperature=1.0).propensity(scores, DATA.offsets, dcg_curve(3))
    value, _ = losses.plackett_luce(scores, WEIGHTS, DATA.offsets, k=3, samples=40_000)
    assert -value == pytest.approx(float(WEIGHTS @ rho), rel=5e-3)


def test_training_raises_the_expected_dcg():
    data = cr.make_ranking_data("yahoo", 60, seed=0)
    weights = cr.estimators.full_information(data, 3)

    def reward(scores):
        return float(weights @ policies.PlackettLuce(5).propensity(scores, data.offsets, dcg_curve(5)))

    found = cr.Ranker("plackett-luce", k=5, params={"samples": 20}, max_epochs=10).fit(data, weights).predict(data)
    assert reward(found) > 1.3 * reward(np.zeros(data.n_docs))


def test_scale_of_weights_does_not_matter():
    one, other = (ranker().fit(DATA, scale * WEIGHTS).predict(DATA) for scale in (1.0, 4.0))
    np.testing.assert_array_equal(one, other)


def test_every_epoch_draws_other_rankings():
    """With a learning rate that moves nothing, the loss of an epoch differs by its draws alone."""
    history = ranker(learning_rate=1e-300, k=2).fit(DATA, WEIGHTS).history_
    assert len({row["loss"] for row in history}) == 3


@pytest.mark.parametrize("batch", [1, 4])
def test_seeds_and_threads(batch):
    settings = [{"threads": 1}, {"threads": 3}, {"seed": 1}]
    one, many, other = (ranker(batch_queries=batch, **each).fit(DATA, WEIGHTS).predict(DATA) for each in settings)
    np.testing.assert_array_equal(one, many)
    assert (one != other).any()


def test_early_stopping_looks_at_the_expected_metric():
    found = ranker(max_epochs=4, params={"samples": 2000}).fit(DATA, WEIGHTS, validation=(OTHER, OTHER_WEIGHTS))
    assert found.metric_ == "dcg@3"
    scores = found.predict(OTHER)
    rho = policies.PlackettLuce(3).propensity(scores, OTHER.offsets, dcg_curve(3))
    expected = float(OTHER_WEIGHTS @ rho) / np.abs(OTHER_WEIGHTS).sum()
    assert found.history_[found.best_epoch_ - 1]["validation"] == pytest.approx(expected, rel=1e-2)
    ordered = ranker(max_epochs=4, metric="dcg@2").fit(DATA, WEIGHTS, validation=(OTHER, OTHER_WEIGHTS))
    metric = query_metric("dcg@2", OTHER, TrainingWeights(OTHER_WEIGHTS, None))
    got = ordered.history_[ordered.best_epoch_ - 1]["validation"]
    assert got == pytest.approx(metric(ordered.predict(OTHER), 1).sum())


def test_the_search_for_a_learning_rate_and_a_population_give_the_same_ranker():
    settings = {"learning_rate": "auto", "max_epochs": 4}
    alone = ranker(**settings).fit(DATA, WEIGHTS, validation=(OTHER, OTHER_WEIGHTS))
    members = [(ranker(**settings), WEIGHTS), (cr.Ranker("arp-hinge", max_epochs=2), WEIGHTS)]
    together = cr.fit_many(DATA, members, (OTHER, OTHER_WEIGHTS), threads=3)[0]
    np.testing.assert_array_equal(alone.predict(OTHER), together.predict(OTHER))


def test_networks_learn_too():
    torch = pytest.importorskip("torch")
    data = cr.make_ranking_data("yahoo", 40, seed=0)
    weights = cr.estimators.full_information(data, 3)
    torch.manual_seed(0)
    module = torch.nn.Linear(data.n_features, 1)
    for model, params in (("mlp", {"samples": 10, "hidden": [8], "dropout": 0.0}), (module, {"samples": 10})):
        settings = {"k": 5, "model": model, "params": params, "max_epochs": 15, "learning_rate": 0.02}
        one, again = (cr.Ranker("plackett-luce", **settings).fit(data, weights) for _ in range(2))
        np.testing.assert_array_equal(one.predict(data), again.predict(data))
        assert one.history_[-1]["loss"] < one.history_[0]["loss"]


def test_torch_loss():
    torch = pytest.importorskip("torch")
    scores = torch.tensor([0.0, 1.0, 0.5], dtype=torch.float64, requires_grad=True)
    weights, offsets = [1.0, 0.0, 2.0], [0, 3]

    def values(seed):
        loss = cr.torch.loss("plackett-luce", k=2, params={"samples": 50}, seed=seed)
        return [loss(scores, weights, offsets).item() for _ in range(2)]

    assert values(0) == values(0)
    assert values(0)[0] != values(0)[1]  # each call draws other rankings
    exact = cr.torch.loss("plackett-luce", k=1)
    assert torch.autograd.gradcheck(lambda s: exact(s, weights, offsets), (scores,))  # no noise for k = 1


def test_saved_and_loaded(tmp_path):
    found = ranker().fit(DATA, WEIGHTS)
    found.save(tmp_path / "ranker")
    loaded = cr.Ranker.load(tmp_path / "ranker")
    np.testing.assert_array_equal(loaded.predict(DATA), found.predict(DATA))
    assert loaded.loss_ == "plackett-luce"
    assert loaded.params == FEW


def test_refusals():
    pytest.importorskip("lightgbm")
    with pytest.raises(cr.CounterrankError, match="trees need a second-order term"):
        ranker(model="lambdamart", params=None, learning_rate="auto").fit(DATA, WEIGHTS)
    with pytest.raises(cr.CounterrankError, match="params: depth; expected only device, samples"):
        ranker(params={"samples": 3, "depth": 2}).fit(DATA, WEIGHTS)
    with pytest.raises(cr.CounterrankError, match="params: samples; expected only device for a linear"):
        cr.Ranker("arp-hinge", params={"samples": 3}).fit(DATA, WEIGHTS)
    with pytest.raises(cr.CounterrankError, match="samples=0"):
        ranker(params={"samples": 0}).fit(DATA, WEIGHTS)


def test_a_gpu_is_refused_by_member():
    gpu = pytest.importorskip("counterrank.training.gpu")
    spec = losses.LOSSES["plackett-luce"].spec(5, 40)
    with pytest.raises(cr.CounterrankError, match="loss: has a kernel of its own, which runs on the CPU alone"):
        gpu.loss_numbers(spec)


@pytest.fixture(scope="module")
def logged():
    """Queries, and the clicks of 3,000 sessions with a policy that ranks by a feature."""
    data = cr.make_ranking_data("yahoo", 60, seed=0)
    scores, policy, exam = data.features[:, 0].astype(float), policies.ReplaceLast(5), examination.inverse_rank(5)
    clicks = cr.simulation.simulate(data, scores, policy, exam, sessions=3000, seed=0)
    return data, Evidence(clicks, exam=exam, policy=policy, scores=scores)


def safe(data, evidence, scale=1.0):
    weights = cr.estimators.policy_aware(evidence.clicks, evidence.propensities)
    return losses.SafeWeights(
        scale * weights, evidence.propensities, scale * evidence.clicks.sessions, evidence.exam, evidence.scores
    )


def limited(risk, **params):
    given = {"samples": 20, "risk": risk} | params
    return cr.Ranker("plackett-luce", k=5, params=given, max_epochs=5, threads=1)


def risk_of(data, evidence, ranker):
    rho = policies.PlackettLuce(5).propensity(ranker.predict(data), data.offsets, evidence.exam)
    return float((rho**2 / evidence.propensities.by_document).sum()) / data.n_queries


@pytest.mark.parametrize("risk", ["exposure", "prpo"])
def test_a_limit_keeps_the_policy_closer_to_the_logging_policy(logged, risk):
    data, evidence = logged
    free = limited("none").fit(data, safe(data, evidence))
    kept = limited(risk).fit(data, safe(data, evidence))
    assert risk_of(data, evidence, kept) < 0.7 * risk_of(data, evidence, free)


def test_with_few_sessions_the_limit_is_tighter_than_with_many(logged):
    """The same clicks, as if there were a hundredth of them, or ten thousand times as many."""
    data, evidence = logged
    few, many = (limited("exposure").fit(data, safe(data, evidence, scale)) for scale in (0.01, 1e4))
    assert risk_of(data, evidence, few) < risk_of(data, evidence, many)


@pytest.mark.parametrize("risk", ["exposure", "prpo"])
def test_evidence_and_safe_weights_give_the_same_ranker(logged, risk):
    data, evidence = logged
    report = fit_ranker(data, evidence, "policy-aware", limited(risk), validation=(data, evidence))
    both = safe(data, evidence)
    alone = limited(risk).fit(data, both, validation=(data, both))
    np.testing.assert_array_equal(report.ranker.predict(data), alone.predict(data))
    history = report.ranker.history_
    assert history[report.ranker.best_epoch_ - 1]["validation"] == max(row["validation"] for row in history)


@pytest.mark.parametrize("risk", ["exposure", "prpo"])
def test_limits_do_not_depend_on_threads(logged, risk):
    data, evidence = logged
    one, many = (
        limited(risk).set_params(threads=t, batch_queries=8).fit(data, safe(data, evidence)).predict(data)
        for t in (1, 3)
    )
    np.testing.assert_array_equal(one, many)


def test_training_starts_from_the_policy_closest_to_the_logging_policy(logged):
    """With a learning rate that moves nothing, the ranker orders the documents as the logging policy does."""
    data, evidence = logged
    still = limited("prpo").set_params(learning_rate=1e-300, normalize="none").fit(data, safe(data, evidence))
    scores, found = evidence.scores, still.predict(data)
    for a, b in itertools.pairwise(data.offsets):
        own = np.argsort(-scores[a:b], kind="stable")
        assert (np.diff(found[a:b][own]) <= 1e-4 * np.ptp(found)).all()


def test_what_a_limit_needs(logged):
    data, evidence = logged
    both = safe(data, evidence)
    with pytest.raises(cr.CounterrankError, match=r"weights: risk='prpo' compares exposure .* expected losses.SafeW"):
        limited("prpo").fit(data, both.weights)
    with pytest.raises(cr.CounterrankError, match="for validation data too"):
        limited("exposure").fit(data, both, validation=(data, both.weights))
    with pytest.raises(cr.CounterrankError, match="risk='prpo': is for linear models"):
        limited("prpo").set_params(model="lambdamart").fit(data, both)
    with pytest.raises(cr.CounterrankError, match=r"estimator='shrinkage': a limit on exposure .* 'policy-aware'"):
        fit_ranker(data, evidence, "shrinkage", limited("prpo"))
    with pytest.raises(cr.CounterrankError, match=r"propensities: unknown for .* expected policy and scores"):
        fit_ranker(data, Evidence(evidence.clicks), "policy-aware", limited("prpo"))


def test_other_losses_take_the_weights_of_safe_weights(logged):
    data, evidence = logged
    both = safe(data, evidence)
    one, other = (cr.Ranker("arp-hinge", max_epochs=1).fit(data, each) for each in (both, both.weights))
    np.testing.assert_array_equal(one.predict(data), other.predict(data))
