"""What `Ranker` promises: determinism, early stopping on the metric, the best model kept, clear refusals."""

import json

import numpy as np
import pytest

import counterrank as cr
from counterrank import losses
from counterrank.common.errors import ConstantFeaturesError
from counterrank.data import RankingData
from counterrank.estimators import full_information
from counterrank.evaluation import evaluate, weighted_metric
from tests.support.paths import SHARED
from tests.support.ragged import ragged_data, ragged_weights

DATA, OTHER = ragged_data(0), ragged_data(2)
WEIGHTS, OTHER_WEIGHTS = ragged_weights(DATA), ragged_weights(OTHER, seed=3)
VALIDATION = (OTHER, OTHER_WEIGHTS)


def fitted(loss="lambdaloss-truncated", k=3, weights=WEIGHTS, validation=None, data=DATA, **settings):
    settings = {"max_epochs": 8, **settings}
    return cr.Ranker(loss, k, **settings).fit(data, weights, validation=validation)


def coefficients(ranker) -> list[float]:
    return ranker.model_.coefficients.tolist()


def cutoff(loss: str) -> int | None:
    return 3 if losses.LOSSES[loss].takes_k else None


def test_fit_returns_itself_and_the_history_has_four_fields():
    ranker = cr.Ranker("arp-hinge", max_epochs=4)
    assert ranker.fit(DATA, WEIGHTS) is ranker
    assert [list(row) for row in ranker.history_] == [["epoch", "loss", "validation", "seconds"]] * 4
    assert [row["epoch"] for row in ranker.history_] == [1, 2, 3, 4]
    assert all(row["validation"] is None and row["seconds"] >= 0 for row in ranker.history_)


def test_the_loss_in_the_history_falls():
    values = [row["loss"] for row in fitted("arp-logistic", None, learning_rate=0.01, max_epochs=20).history_]
    assert values == sorted(values, reverse=True)


def test_without_validation_the_last_model_is_kept():
    ranker = fitted(learning_rate=0.5, max_epochs=7)
    assert (len(ranker.history_), ranker.best_epoch_) == (7, 7)
    # one more epoch gives another model, and the first epochs are the same
    longer = fitted(learning_rate=0.5, max_epochs=8)
    assert coefficients(longer) != coefficients(ranker)
    assert [row["loss"] for row in longer.history_[:7]] == [row["loss"] for row in ranker.history_]


@pytest.mark.parametrize("learning_rate", ["auto", 0.05, 20.0])
@pytest.mark.parametrize("loss", ["arp-hinge", "dcg-logistic", "lambdaloss-truncated"])
def test_the_returned_model_has_the_best_validation_metric(loss, learning_rate):
    ranker = fitted(loss, cutoff(loss), validation=VALIDATION, learning_rate=learning_rate, max_epochs=30, patience=10)
    seen = [row["validation"] for row in ranker.history_]
    best = min(seen) if loss.startswith("arp") else max(seen)
    found = weighted_metric(ranker.predict(OTHER), OTHER_WEIGHTS, OTHER.offsets, ranker.metric_)
    assert found == pytest.approx(best, rel=1e-13)
    assert ranker.best_epoch_ == 1 + seen.index(best)
    # the case means something: training went on past the best epoch
    assert learning_rate == 0.05 or len(seen) > ranker.best_epoch_


def test_early_stopping_uses_the_metric_and_patience():
    ranker = fitted("arp-hinge", None, validation=VALIDATION, learning_rate=1.0, max_epochs=200, patience=5)
    assert len(ranker.history_) == ranker.best_epoch_ + 5 < 200
    stopped_there = fitted("arp-hinge", None, learning_rate=1.0, max_epochs=ranker.best_epoch_)
    assert coefficients(stopped_there) == coefficients(ranker)


def test_signs_of_the_validation_metric_are_natural():
    arp = fitted("arp-hinge", None, validation=VALIDATION)
    dcg = fitted("lambdaloss-dcg", None, validation=VALIDATION)
    assert all(row["validation"] >= 1 for row in arp.history_)  # a rank
    assert all(0 < row["validation"] <= 1 for row in dcg.history_)  # a mean discount
    assert (arp.metric_, dcg.metric_) == ("arp", "dcg")


def test_metric_overrides_the_one_of_the_loss():
    ranker = fitted("arp-hinge", None, validation=VALIDATION, metric="precision@2")
    best = max(row["validation"] for row in ranker.history_)
    assert weighted_metric(ranker.predict(OTHER), OTHER_WEIGHTS, OTHER.offsets, "precision@2") == pytest.approx(best)
    assert (ranker.metric_, fitted(k=3).metric_, fitted(k=None).metric_) == ("precision@2", "dcg@3", "dcg")


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("learning_rate", ["auto", 3.0])
def test_one_result_whatever_the_threads(batch, learning_rate):
    data = cr.make_ranking_data("mslr", 80, seed=0)  # long enough that work is really split
    weights = full_information(data, relevance_threshold=2)
    results = [
        fitted(data=data, weights=weights, validation=(data, weights), threads=threads, batch_queries=batch,
               learning_rate=learning_rate, max_epochs=4)
        for threads in (1, 2, 5)
    ]  # fmt: skip
    assert coefficients(results[0]) == coefficients(results[1]) == coefficients(results[2])
    histories = [[(row["loss"], row["validation"]) for row in ranker.history_] for ranker in results]
    assert histories[0] == histories[1] == histories[2]


def test_one_seed_one_result():
    assert coefficients(fitted(seed=4)) == coefficients(fitted(seed=4)) != coefficients(fitted(seed=5))
    assert coefficients(fitted(seed=np.int64(4))) == coefficients(fitted(seed=4))


def test_a_generator_is_a_seed():
    first, second = (fitted(seed=np.random.default_rng(7), learning_rate=1.0) for _ in range(2))
    assert coefficients(first) == coefficients(second)
    shared = np.random.default_rng(7)
    assert coefficients(fitted(seed=shared, learning_rate=1.0)) == coefficients(first)
    assert coefficients(fitted(seed=shared, learning_rate=1.0)) != coefficients(first)  # it has moved on


@pytest.mark.parametrize("loss", losses.LOSSES)
def test_the_scale_of_weights_does_not_matter(loss):
    def fit(scale):
        return fitted(loss, cutoff(loss), WEIGHTS * scale, (OTHER, OTHER_WEIGHTS / scale), max_epochs=3)

    plain = fit(1.0)
    for scale in (2.0**-20, 2.0**30):  # exact in floating point, so nothing at all may change
        assert coefficients(fit(scale)) == coefficients(plain)
    for scale in (1e-6, 1e6, 1e305):
        np.testing.assert_allclose(fit(scale).model_.coefficients, plain.model_.coefficients, rtol=1e-9, atol=1e-12)


def test_queries_without_differences_change_nothing():
    useless = np.isin(np.arange(DATA.n_queries), [1, 3, 5, 7])
    rows = np.repeat(useless, DATA.lengths)
    features = np.where(rows[:, None], np.random.default_rng(3).normal(size=DATA.features.shape), DATA.features)
    other = RankingData(features, DATA.offsets)
    assert coefficients(fitted(data=other)) == coefficients(fitted())


@pytest.mark.parametrize("validation", [None, VALIDATION])
@pytest.mark.parametrize("loss", losses.LOSSES)
def test_auto_is_the_same_as_its_step_size_given(loss, validation):
    auto = fitted(loss, cutoff(loss), validation=validation, batch_queries=2)
    given = fitted(loss, cutoff(loss), validation=validation, batch_queries=2, learning_rate=auto.learning_rate_)
    assert coefficients(given) == coefficients(auto)
    assert given.best_epoch_ == auto.best_epoch_
    assert [row["loss"] for row in given.history_] == [row["loss"] for row in auto.history_]


@pytest.mark.parametrize("loss", losses.LOSSES)
@pytest.mark.parametrize("validation", [None, VALIDATION])
def test_a_step_that_diverges_is_an_error(loss, validation):
    with pytest.raises(cr.CounterrankError, match=r"^learning_rate=1e\+300: training diverged; use a smaller one"):
        fitted(loss, cutoff(loss), validation=validation, learning_rate=1e300)


def test_a_named_loss_is_accepted():
    loss = losses.NamedLoss("mine", True, losses.LOSSES["lambdaloss-truncated"].build)
    assert coefficients(fitted(loss)) == coefficients(fitted("lambdaloss_truncated"))
    assert repr(fitted(loss)) == "Ranker(mine, k=3, linear, 8 epochs)"


@pytest.mark.parametrize("loss", losses.LOSSES)
@pytest.mark.parametrize("weights", [WEIGHTS, ragged_weights(DATA, negative=True)], ids=["positive", "negative"])
def test_every_loss_learns(loss, weights):
    """Short, single-document and unweighted queries included: k is larger than several queries."""
    k = 4 if losses.LOSSES[loss].takes_k else None
    ranker = fitted(loss, k, weights, max_epochs=40)
    sign = -1 if ranker.metric_ == "arp" else 1
    reached = weighted_metric(ranker.predict(DATA), weights, DATA.offsets, ranker.metric_)
    unranked = weighted_metric(np.zeros(DATA.n_docs), weights, DATA.offsets, ranker.metric_)
    assert sign * reached > sign * unranked


@pytest.mark.parametrize("loss", losses.LOSSES)
def test_held_out_queries_of_synthetic_data(loss):
    fold = cr.make_fold("mslr", 150, seed=1)
    k = 5 if losses.LOSSES[loss].takes_k else None
    ranker = cr.Ranker(loss, k, max_epochs=10).fit(fold.train, full_information(fold.train, relevance_threshold=2))
    assert_better_than_chance(ranker, fold.test, 2)


def assert_better_than_chance(ranker, test, relevance_threshold):
    random = np.random.default_rng(0).normal(size=test.n_docs)
    for metric, sign in (("ndcg@10", 1), ("arp", -1)):
        reached, zero, chance = (
            sign * evaluate(scores, test, relevance_threshold, metrics=[metric])[metric]
            for scores in (ranker.predict(test), np.zeros(test.n_docs), random)
        )
        assert reached > max(zero, chance)


@pytest.mark.parametrize("loss", losses.LOSSES)
def test_ohsumed(loss):
    folder = SHARED / "ohsumed" / "Fold1"
    if not folder.is_dir():
        pytest.skip("needs OHSUMED in ../shared/data, which is not here")
    fold = cr.read_fold(folder)
    train, validation = (full_information(part, relevance_threshold=2) for part in (fold.train, fold.validation))
    k = 5 if losses.LOSSES[loss].takes_k else None
    ranker = cr.Ranker(loss, k, max_epochs=30).fit(fold.train, train, validation=(fold.validation, validation))
    assert_better_than_chance(ranker, fold.test, 2)


def test_single_document_queries_alone_teach_nothing():
    with pytest.raises(ConstantFeaturesError, match=r"none of the features .* varies within any query"):
        fitted(data=RankingData([[1.0], [2.0]], [0, 1, 2]), weights=[1.0, 0.0])


@pytest.mark.parametrize("rows", [np.ones((4, 2)), [[1, 0], [1, 0], [2, 5], [2, 5]]], ids=["everywhere", "by query"])
@pytest.mark.parametrize("normalize", ["query", "standard", "none"])
@pytest.mark.parametrize("model", ["linear", "lambdamart", "mlp", "module"])
def test_features_that_are_all_constant_within_queries_are_an_error(model, normalize, rows):
    if model == "lambdamart":
        pytest.importorskip("lightgbm")
    elif model != "linear":
        torch = pytest.importorskip("torch")
        model = torch.nn.Linear(2, 1) if model == "module" else model
    data = RankingData(rows, [0, 2, 4])
    with pytest.raises(ConstantFeaturesError, match=r"data: none of the features \(2\) varies within any query \(2\)"):
        cr.Ranker(model=model, normalize=normalize, max_epochs=2).fit(data, [1, 0, 0, 1])
    with pytest.raises(ValueError, match="none of the features"):
        cr.Ranker(model=model, normalize=normalize).fit(np.array(rows), [1, 0, 0, 1], group=[2, 2])


def test_constant_features_are_kept(tmp_path):
    ranker = fitted()  # the fourth column of the data is the same everywhere
    assert (ranker.constant_features_.tolist(), ranker.constant_features_.dtype) == ([3], np.int64)
    varied = RankingData(DATA.features[:, :3], DATA.offsets)
    assert fitted(data=varied).constant_features_.tolist() == []


@pytest.mark.parametrize("model", ["lambdamart", "mlp", "module"])
def test_models_that_may_combine_features_only_report_constant_ones(model, tmp_path):
    torch = pytest.importorskip("lightgbm" if model == "lambdamart" else "torch")
    chosen = torch.nn.Linear(6, 1) if model == "module" else model
    ranker = cr.Ranker(model=chosen, max_epochs=2).fit(DATA, WEIGHTS)
    assert ranker.constant_features_.tolist() == [3]
    ranker.save(tmp_path / "ranker")
    loaded = cr.Ranker.load(tmp_path / "ranker", module=chosen if model == "module" else None)
    assert loaded.constant_features_.tolist() == [3]


def test_predict_scores_raw_data_of_any_length():
    ranker = fitted()
    assert ranker.predict(DATA).shape == (DATA.n_docs,)
    assert ranker.predict(DATA.subset([1])).tolist() == [0.0]  # alone, every feature is constant


def test_fitting_again_replaces_everything_and_a_failure_nothing():
    ranker = fitted(max_epochs=5)
    before, history = coefficients(ranker), ranker.history_
    with pytest.raises(cr.CounterrankError):
        ranker.fit(DATA, WEIGHTS * np.nan)
    assert coefficients(ranker) == before
    assert ranker.history_ is history
    ranker.loss, ranker.k = "arp-hinge", None
    assert coefficients(ranker.fit(DATA, WEIGHTS)) == coefficients(fitted("arp-hinge", None, max_epochs=5))


BAD_SETTINGS = [
    ({"loss": "hinge"}, r"^loss='hinge': expected one of arp-hinge, arp-logistic, "),
    ({"loss": 5}, r"^loss=5: expected one of "),
    ({"k": 0}, r"^k=0: expected a whole number of at least 1, or None"),
    ({"k": 2.5}, r"^k=2\.5: expected a whole number"),
    ({"loss": "arp-hinge", "k": 5}, r"^k=5: arp-hinge has no cutoff; leave k out"),
    ({"model": "forest"}, r"^model='forest': expected one of 'linear'"),
    ({"normalize": "log"}, r"^normalize='log': expected one of 'query', 'standard', 'none'"),
    ({"learning_rate": "fast"}, r"^learning_rate='fast': expected 'auto' or a number above 0"),
    ({"learning_rate": 0.0}, r"^learning_rate=0\.0: expected 'auto' or a number above 0"),
    ({"learning_rate": -1}, r"^learning_rate=-1: "),
    ({"learning_rate": float("inf")}, r"^learning_rate=inf: "),
    ({"learning_rate": float("nan")}, r"^learning_rate=nan: "),
    ({"learning_rate": None}, r"^learning_rate=None: "),
    ({"learning_rate": np.ones(2)}, r"^learning_rate=ndarray of shape"),
    ({"learning_rate": True}, r"^learning_rate=True: "),
    ({"max_epochs": 0}, r"^max_epochs=0: expected a whole number of at least 1"),
    ({"patience": 1.5}, r"^patience=1\.5: expected a whole number of at least 1"),
    ({"tolerance": -1e-9}, r"^tolerance=-1e-09: expected a number of at least 0"),
    ({"tolerance": float("nan")}, r"^tolerance=nan: "),
    ({"tolerance": float("inf")}, r"^tolerance=inf: "),
    ({"tolerance": None}, r"^tolerance=None: "),
    ({"tolerance": True}, r"^tolerance=True: "),
    ({"batch_queries": "all"}, r"^batch_queries='all': expected a whole number of at least 1"),
    ({"metric": "mrr"}, r"^metric 'mrr': needs to know all relevant documents"),
    ({"metric": "clicks"}, r"^metric 'clicks': unknown; expected one of arp, dcg"),
    ({"threads": 0}, r"^threads=0: expected a whole number of at least 1"),
    ({"threads": "two"}, r"^threads='two': expected a whole number of at least 1"),
    ({"seed": -1}, r"^seed=-1: expected a whole number of at least 0, or a numpy Generator"),
    ({"seed": None}, r"^seed=None: "),
]


@pytest.mark.parametrize(("settings", "message"), BAD_SETTINGS)
def test_the_constructor_stores_and_fit_refuses(settings, message):
    ranker = cr.Ranker(**settings)
    assert all(getattr(ranker, name) is value for name, value in settings.items())
    assert "not trained" in repr(ranker)
    with pytest.raises(cr.CounterrankError, match=message):
        ranker.fit(DATA, WEIGHTS)
    assert not hasattr(ranker, "model_")


NARROW = RankingData(np.ones((2, 3)), [0, 2])
BAD_INPUT = [
    ((np.ones((3, 2)), [1, 2, 3]), {}, r"^qid, group: expected one of them with the array X"),
    ((DATA, WEIGHTS), {"qid": [1] * DATA.n_docs}, r"^qid, group: go with a matrix; expected none with RankingData"),
    ((DATA, [1.0]), {}, rf"^weights: 1 entries; expected {DATA.n_docs}, the number of documents"),
    ((DATA, WEIGHTS + np.inf), {}, r"^weights: entry 0 is inf; expected finite numbers"),
    ((DATA, WEIGHTS * 0.0), {}, r"^weights: all are 0; expected at least one document with evidence"),
    ((DATA, WEIGHTS * 0.0 + 2.0), {}, r"^weights: equal within every query, so there is nothing to learn"),
    ((DATA, WEIGHTS), {"validation": OTHER}, r"^validation: expected a pair \(data, weights\)"),
    ((DATA, WEIGHTS), {"validation": (OTHER, [1.0])}, r"^validation weights: 1 entries; expected"),
    ((DATA, WEIGHTS), {"validation": (OTHER, OTHER_WEIGHTS * 0)}, r"^validation weights: all are 0"),
    ((DATA, WEIGHTS), {"validation": (NARROW, [1, 0])}, r"^validation: 3 features; expected 6 as in data"),
]


@pytest.mark.parametrize(("arguments", "more", "message"), BAD_INPUT)
def test_fit_refuses(arguments, more, message):
    with pytest.raises(cr.CounterrankError, match=message):
        cr.Ranker().fit(*arguments, **more)


def test_predict_refuses():
    with pytest.raises(cr.CounterrankError, match=r"^ranker: not trained yet; call fit first"):
        cr.Ranker().predict(DATA)
    with pytest.raises(cr.CounterrankError, match=r"^data: 3 features; the ranker was trained on 6 "):
        fitted(max_epochs=1).predict(NARROW)
    with pytest.raises(cr.CounterrankError, match=r"^X: shape \(6,\); expected one row per document"):
        fitted(max_epochs=1).predict([1.0] * 6)
    with pytest.raises(cr.CounterrankError, match=r"^qid, group: go with a matrix"):
        fitted(max_epochs=1).predict(DATA, qid=[1] * DATA.n_docs)


def test_patience_waits_for_more_than_the_tolerance():
    """No validation metric moves by 1000, so only the first epoch counts; the best model is kept all the same."""
    settings = {"validation": (DATA, WEIGHTS), "learning_rate": 0.05, "max_epochs": 30, "patience": 4}
    patient, hasty = (fitted("arp-logistic", None, **settings, tolerance=tolerance) for tolerance in (0.0, 1000.0))
    assert len(hasty.history_) == 5 < len(patient.history_)
    seen = [row["validation"] for row in hasty.history_]
    assert seen == [row["validation"] for row in patient.history_[:5]]
    assert seen[hasty.best_epoch_ - 1] == min(seen)
    assert hasty.best_epoch_ > 1  # the case means something


@pytest.mark.parametrize("tolerance", [0.25, np.float32(0.25), np.int64(2)])
def test_the_tolerance_is_saved(tmp_path, tolerance):
    fitted(learning_rate=1.0, tolerance=tolerance).save(tmp_path / "ranker")
    assert cr.Ranker.load(tmp_path / "ranker").tolerance == tolerance


def test_rankers_saved_before_there_was_a_tolerance(tmp_path):
    fitted(learning_rate=1.0).save(tmp_path / "ranker")
    file = tmp_path / "ranker" / "model.json"
    content = json.loads(file.read_text())
    del content["settings"]["tolerance"]
    file.write_text(json.dumps(content))
    assert cr.Ranker.load(tmp_path / "ranker").tolerance == 0.0
