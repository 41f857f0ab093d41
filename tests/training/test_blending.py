"""Production, a blend or the new ranker: what is returned, what it rests on, and how often it is wrong."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.common.errors import CounterrankError, ExportError
from counterrank.data import RankingData
from counterrank.estimators import Evidence
from counterrank.estimators.relevance_models import check_model
from counterrank.models import LinearModel
from counterrank.training import Ranker, blended, blending, fit_from_clicks
from counterrank.training.blending import HalvesFit, blend_rankers, compare_blends, fit_halves, score_spread
from counterrank.training.cross_validation import examine, join
from tests.reference import blends as reference
from tests.support.few_click_logs import EXAM, logged, quick, small_data

RIDGE = check_model("ridge")


@pytest.fixture(scope="module")
def log():
    return logged(n_queries=40, sessions=20_000)


@pytest.fixture(scope="module")
def pool(log):
    data, clicks, rho = log
    return join([examine(data, Evidence(clicks, rho, EXAM))])


def production(data, **settings):
    """A poor ranker: it goes by the feature that pages rank by, which says nothing."""
    return Ranker("arp-hinge", max_epochs=2, learning_rate=1.0, **settings).fit(data, data.features[:, 0])


# The bounds ----------------------------------------------------------------------------------------------------------


def test_gains_are_those_of_the_definition(pool, log):
    data, weights = log[0], np.random.default_rng(0).random(log[0].n_docs)
    scores = np.random.default_rng(1).normal(size=(3, data.n_docs))
    sessions = np.add.reduceat(pool.seen.sessions, data.offsets[:-1]) / data.lengths
    dcg = [reference.dcg_per_session(each, weights, sessions, data.offsets, 5) for each in scores]
    assert blending._gains(scores, pool, weights, "dcg@5") == pytest.approx([dcg[1] - dcg[0], dcg[2] - dcg[0]])


def test_the_variance_is_that_of_the_jackknife(pool, monkeypatch):
    """Weights that depend on all queries that are left, as those of a relevance model do."""
    rng = np.random.default_rng(2)
    scores, offsets = rng.normal(size=(2, pool.data.n_docs)), pool.data.offsets
    monkeypatch.setattr(blending, "_evaluation_weights", lambda part, *_: part.seen.clicks * part.seen.clicks.mean())
    found = blending._jackknife(scores, pool, RIDGE, "dcg@5", "model-assisted", np.random.default_rng(3))
    generator = np.random.default_rng(3)
    generator.integers(2**31)
    numbers = generator.permutation(pool.data.n_queries) % 10

    def estimate(left_out):
        kept = np.flatnonzero(numbers != left_out)
        rows = np.concatenate([np.arange(offsets[q], offsets[q + 1]) for q in kept])
        part = pool.part(kept)
        weights = part.seen.clicks * part.seen.clicks.mean()
        sessions = np.add.reduceat(part.seen.sessions, part.data.offsets[:-1]) / part.data.lengths
        new, old = (reference.dcg_per_session(scores[i][rows], weights, sessions, part.data.offsets, 5) for i in (1, 0))
        return new - old

    assert found.variances[0] == pytest.approx(reference.jackknife_variance(estimate, 10))
    assert found.sessions == pytest.approx(20_000)


def test_weights_are_tested_in_order_until_one_fails(pool, monkeypatch):
    gains = blending._Gains(np.array([0.3, -0.1, 0.5]), np.array([0.01, 0.01, 0.01]), 1.0)
    monkeypatch.setattr(blending, "_jackknife", lambda *_: gains)
    fit = HalvesFit(np.zeros(pool.data.n_docs), np.arange(40) < 20)
    found = compare_blends(np.zeros(pool.data.n_docs), fit, pool, RIDGE, "dcg@5", 0.95)
    assert [each.allowed for each in found] == [True, False, False]  # though the last is better by itself
    assert [each.chosen for each in found] == [True, False, False]
    assert found[0].error == pytest.approx(np.sqrt(0.01 / 2))
    assert found[0].lower == pytest.approx(0.3 - 1.734 * found[0].error, abs=1e-4)  # t with 18 degrees of freedom


def test_clicks_of_one_half_have_no_part_in_how_it_is_scored(pool):
    """Nor has its relevance model seen the clicks that its ranker was trained on."""
    fit = fit_halves(pool, lambda part: quick().fit(part.data, part.seen.clicks), np.random.default_rng(0))
    assert fit.first.sum() == 20
    rows = np.repeat(fit.first, pool.data.lengths)
    changed = pool.seen.clicks.copy()
    changed[rows] = np.random.default_rng(1).permutation(changed[rows])
    other = pool._replace(seen=pool.seen._replace(clicks=changed))
    again = fit_halves(other, lambda part: quick().fit(part.data, part.seen.clicks), np.random.default_rng(0))
    assert np.array_equal(fit.scores[rows], again.scores[rows])
    assert not np.array_equal(fit.scores[~rows], again.scores[~rows])


@pytest.mark.statistical
@pytest.mark.parametrize("evidence", blending.EVIDENCE)
def test_rankers_that_are_no_better_are_rarely_allowed(evidence):
    """Where features say nothing of relevance, no blend is better than production, which ranks at random too.

    In 60 logs with bounds at 90 % the number of allowed blends exceeds 13 by chance with a probability of 0.4 % even if
    each is allowed with 10 %.
    """
    allowed = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        data = RankingData(rng.random((800, 4)), np.arange(0, 801, 20), 4.0 * (rng.random(800) < 0.3))
        scores = rng.random(800)
        clicks = cr.simulation.simulate(data, scores, cr.policies.UniformInsert(5), EXAM, sessions=2000, seed=seed)
        rho = cr.policies.UniformInsert(5).propensity(scores, data.offsets, EXAM)
        own = join([examine(data, Evidence(clicks, rho, EXAM))])
        fit = HalvesFit(rng.normal(size=800), np.arange(40) % 2 == 0)
        found = compare_blends(rng.normal(size=800), fit, own, RIDGE, "dcg@5", 0.9, evidence, seed=seed)
        allowed += found[0].allowed
    assert allowed <= 13


@pytest.mark.parametrize("scores", [[0.0, 2.0, 5.0, 5.0, 1.0, 1.5], [3.0] * 6, [-1e300, 1e300, 0.0, 0.0, 1.0, 2.0]])
def test_the_spread_of_scores(scores):
    offsets = np.array([0, 2, 4, 6])
    expected = reference.spread(np.array(scores) / 1e300, offsets) * 1e300 if max(scores) > 1e9 else (
        reference.spread(np.array(scores), offsets)
    )  # fmt: skip
    if max(scores) < 1e9:
        assert score_spread(np.array(scores), offsets) == pytest.approx(expected)
    assert 0.0 < score_spread(np.array(scores), offsets) < np.inf


# What is returned ----------------------------------------------------------------------------------------------------


def test_a_better_ranker_replaces_a_poor_one(log):
    data, clicks, rho = log
    report = fit_from_clicks(data, clicks, rho, exam=EXAM, ranker=quick(), folds=2, production=production(data))
    assert report.weight == 1.0
    assert report.ranker is report.new
    assert [blend.weight for blend in report.blends] == [0.5, 0.75, 1.0]
    assert all(blend.lower > 0.0 for blend in report.blends)
    assert "new is better by" in report.why
    assert "advice" in report.why
    assert report.ranker.provenance_["safety"]["weight"] == 1.0
    assert report.summary()["weight"] == 1.0
    assert "new returned" in repr(report)
    assert "against production" in report._repr_html_()


def test_a_good_ranker_stays(log):
    """Nothing is better than the labels."""
    data, clicks, rho = log
    best = quick(max_epochs=30).fit(data, data.labels)
    report = fit_from_clicks(data, clicks, rho, exam=EXAM, ranker=quick(), folds=2, production=best)
    assert report.weight == 0.0
    assert report.ranker is not best
    assert np.array_equal(report.ranker.predict(data), best.predict(data))
    assert "Production stays" in report.why
    assert report.new is not None
    assert report.ranker.provenance_["data"] == best.provenance_["data"]
    assert report.ranker.provenance_["clicks"]["sessions"] == 20_000  # by which it was chosen
    assert "safety" not in best.provenance_


def test_without_production_all_is_as_it_was(log):
    data, clicks, rho = log
    alone = fit_from_clicks(data, clicks, rho, exam=EXAM, ranker=quick(), folds=2)
    guarded = fit_from_clicks(data, clicks, rho, exam=EXAM, ranker=quick(), folds=2, production=data.features[:, 0])
    assert alone.blends == ()
    assert alone.safety is None
    assert alone.new is alone.ranker
    assert np.array_equal(alone.ranker.predict(data), guarded.new.predict(data))
    assert "blends" not in alone.summary()


def test_too_few_queries_to_compare_on():
    data, clicks, rho = logged(n_queries=12, sessions=2000)
    report = fit_from_clicks(data, clicks, rho, exam=EXAM, ranker=quick(), folds=2, production=production(data))
    assert report.weight == 0.0
    assert report.blends == ()
    assert "too little to compare on" in report.why
    assert "12 queries; expected at least 20" in report.why


def test_validation_queries_have_production_scores_too(log):
    data, clicks, rho = log
    other, its_clicks, its_rho = logged(n_queries=20, sessions=4000, seed=3)
    how = {"validation": (other, its_clicks, its_rho), "exam": EXAM, "ranker": quick(), "folds": 2}
    ranker = production(data)
    scores = ranker.predict(data), ranker.predict(other)
    by_ranker = fit_from_clicks(data, clicks, rho, production=ranker, **how)
    by_scores = fit_from_clicks(data, clicks, rho, production=scores, **how)
    assert by_ranker.blends == by_scores.blends
    with pytest.raises(CounterrankError, match="production: one set of scores, where there are validation clicks"):
        fit_from_clicks(data, clicks, rho, production=scores[0], **how)


@pytest.mark.parametrize("normalize", ["query", "none", "standard"])
def test_a_blend_of_linear_rankers(normalize, tmp_path):
    """One linear ranker, unless features are scaled by what each has learned; the scores are the same."""
    data, other = small_data(12), small_data(9, seed=1)
    old = production(small_data(7, seed=5), normalize=normalize)
    new = quick(normalize=normalize).fit(data, data.labels)
    spreads = score_spread(old.predict(data), data.offsets), score_spread(new.predict(data), data.offsets)
    blend = blend_rankers(old, new, 0.25, spreads, data)
    assert isinstance(blend.model_, LinearModel) == (normalize != "standard")
    expected = 0.75 * old.predict(other) / spreads[0] + 0.25 * new.predict(other) / spreads[1]
    assert blend.predict(other) == pytest.approx(expected)
    blend.save(tmp_path / "blend")
    blend.save(tmp_path / "blend")  # over an older one
    loaded = Ranker.load(tmp_path / "blend")
    assert np.array_equal(loaded.predict(other), blend.predict(other))
    assert loaded.kind_ == ("blend" if normalize == "standard" else "linear")


def test_features_of_production_are_taken_by_name():
    data = small_data(12)
    named = RankingData(data.features, data.offsets, data.labels, feature_names=list("abcdef"))
    old = production(named.select_features(["c", "a"]))
    new = quick().fit(named, named.labels)
    blend = blend_rankers(old, new, 0.5, (2.0, 3.0), named)
    assert isinstance(blend.model_, LinearModel)
    expected = old.predict(named.select_features(["c", "a"])) / 4.0 + new.predict(named) / 6.0
    assert blend.predict(named) == pytest.approx(expected)


def test_a_blend_with_scores_takes_those_of_other_data(tmp_path):
    data, other = small_data(12), small_data(9, seed=1)
    new = quick().fit(data, data.labels)
    blend = blend_rankers(None, new, 0.5, (2.0, 1.0), data)
    scores = other.features[:, 2]
    expected = 0.25 * scores + 0.5 * new.predict(other)
    assert blended(blend, scores, other) == pytest.approx(expected)
    with pytest.raises(CounterrankError, match="blends with production, of which only scores were given"):
        blend.predict(other)
    blend.save(tmp_path / "blend")
    assert blended(Ranker.load(tmp_path / "blend"), scores, other) == pytest.approx(expected)
    assert np.array_equal(blended(new, scores, other), new.predict(other))


def test_a_blend_is_not_exported(tmp_path):
    data = small_data(12)
    blend = blend_rankers(None, quick().fit(data, data.labels), 0.5, (2.0, 1.0), data)
    with pytest.raises(ExportError, match="a blend of two rankers, which no target holds"):
        cr.export.write(blend, tmp_path / "model.json", "json")


def test_a_damaged_blend_is_an_error(tmp_path):
    data = small_data(12)
    blend_rankers(None, quick().fit(data, data.labels), 0.5, (2.0, 1.0), data).save(tmp_path / "blend")
    path = tmp_path / "blend" / "model.json"
    path.write_text(path.read_text().replace('"weight": 0.5', '"weight": 1.5'))
    with pytest.raises(CounterrankError, match="the file is damaged"):
        Ranker.load(tmp_path / "blend")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"safety": 0.5}, "safety=0.5: expected a number above 0.5 and below 1"),
        ({"safety": 1}, "safety=1: expected a number above 0.5 and below 1"),
        ({"safety": "high"}, "safety"),
        ({"evidence_level": "none"}, "evidence_level"),
        ({"production": [1.0, 2.0]}, "production: 2 numbers|production"),
        ({"production": "old"}, "production: str; expected a ranker"),
        ({"folds": None}, "production: requires cross-validation; expected folds"),
    ],
)
def test_what_is_wrong_is_named(log, wrong, message):
    data, clicks, rho = log
    how = {"exam": EXAM, "ranker": quick(), "production": data.features[:, 0]} | wrong
    with pytest.raises(CounterrankError, match=message):
        fit_from_clicks(data, clicks, rho, **how)
