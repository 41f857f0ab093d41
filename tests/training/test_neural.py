"""Neural rankers: training against a slow reference, the best state kept, seeds, modules of all kinds, and bad ones."""

from __future__ import annotations

import numpy as np
import pytest

import counterrank as cr
from counterrank import CounterrankError, Ranker, losses
from counterrank.common.errors import MissingExtraError, NothingToLearnError
from counterrank.data import RankingData
from counterrank.models import NeuralModel, neural
from counterrank.training.problem import check_weights, query_metric
from tests.reference.network import torch, train_network, whole_queries
from tests.support.ragged import ragged_data, ragged_weights
from tests.training.test_views import random_sets, views_of

nn = torch.nn
DATA, OTHER = ragged_data(), ragged_data(2)
WEIGHTS, OTHER_WEIGHTS = ragged_weights(DATA), ragged_weights(OTHER, seed=3)
SETS = random_sets(DATA)


def plain_module(seed=0, dtype=torch.float64):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 1)).to(dtype)


def make(**settings):
    return Ranker(**{"loss": "lambdaloss-truncated", "k": 3, "model": "mlp", "max_epochs": 3, "seed": 4, **settings})


def state_of(module):
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def same_state(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


ENTROPY = int(np.random.default_rng(4).integers(2**63))  # of seed 4


@pytest.mark.parametrize("loss", ["lambdaloss-truncated", "arp-hinge", "dcg-logistic"])
@pytest.mark.parametrize("normalize", ["query", "standard"])
@pytest.mark.parametrize("with_sets", [False, True], ids=["queries", "sets"])
def test_training_matches_its_reference(loss, normalize, with_sets):
    module, k = plain_module(), 3 if losses.LOSSES[loss].takes_k else None
    ranker = make(loss=loss, k=k, model=module, normalize=normalize, batch_queries=3, learning_rate=0.01)
    ranker.fit(DATA, views_of(SETS) if with_sets else WEIGHTS)
    rankings = SETS if with_sets else whole_queries(DATA, WEIGHTS)
    name = loss.replace("-", "_")
    reference, met = train_network(module, DATA, rankings, name, k, normalize, ENTROPY, 3, 3, 0.01, 0.01)
    np.testing.assert_allclose([row["loss"] for row in ranker.history_], met, rtol=1e-5, atol=1e-7)
    for name, tensor in reference.state_dict().items():
        # features are scaled in float32
        np.testing.assert_allclose(ranker.model_.module.state_dict()[name], tensor, rtol=1e-4, atol=1e-5)


def test_sets_that_are_whole_queries_are_the_same_as_weights():
    views = views_of(whole_queries(DATA, WEIGHTS))
    by_sets = make().fit(DATA, views, validation=(DATA, views))
    by_weights = make().fit(DATA, WEIGHTS, validation=(DATA, WEIGHTS))
    assert by_sets.predict(OTHER).tolist() == by_weights.predict(OTHER).tolist()
    assert [row["validation"] for row in by_sets.history_] == pytest.approx(
        [row["validation"] for row in by_weights.history_], rel=1e-12
    )


@pytest.mark.parametrize("model", ["mlp", "module"])
@pytest.mark.parametrize("loss", ["lambdaloss-truncated", "arp-logistic"])
def test_the_model_returned_is_that_of_the_best_epoch(model, loss):
    k = 3 if loss == "lambdaloss-truncated" else None
    chosen = plain_module(dtype=torch.float32) if model == "module" else model
    ranker = make(loss=loss, k=k, model=chosen, learning_rate=0.05, max_epochs=25, patience=25)
    ranker.fit(DATA, WEIGHTS, validation=(OTHER, OTHER_WEIGHTS))
    values = [row["validation"] for row in ranker.history_]
    best = max(values) if k else min(values)
    assert len(values) == 25
    assert values.index(best) + 1 == ranker.best_epoch_ < 25
    metric = query_metric(ranker.metric_, OTHER, check_weights(OTHER_WEIGHTS, OTHER))
    assert metric(ranker.predict(OTHER), 1).sum() * (1 if k else -1) == best
    # the same state as if training had ended there
    shorter = make(loss=loss, k=k, model=chosen, learning_rate=0.05, max_epochs=ranker.best_epoch_)
    assert shorter.fit(DATA, WEIGHTS).predict(OTHER).tolist() == ranker.predict(OTHER).tolist()


def test_early_stopping():
    ranker = make(learning_rate=0.05, max_epochs=60, patience=4)
    ranker.fit(DATA, WEIGHTS, validation=(OTHER, OTHER_WEIGHTS))
    assert len(ranker.history_) == ranker.best_epoch_ + 4 < 60


def test_without_validation_the_last_epoch_is_kept():
    ranker = make(max_epochs=4).fit(DATA, WEIGHTS)
    assert ranker.best_epoch_ == len(ranker.history_) == 4
    assert [row["validation"] for row in ranker.history_] == [None] * 4
    assert set(ranker.history_[0]) == {"epoch", "loss", "validation", "seconds"}
    assert ranker.learning_rate_ == 1e-3


def test_one_seed_one_result_whatever_the_threads():
    large = cr.make_ranking_data("mslr", n_queries=60, seed=0)  # long enough for several threads
    weights = cr.estimators.full_information(large, relevance_threshold=2)
    first, again, other = (
        make(seed=seed, threads=threads, batch_queries=50, max_epochs=2, params={"hidden": (8,)})
        .fit(large, weights)
        .predict(large)
        for seed, threads in ((4, 1), (4, 3), (5, 1))
    )
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()


def test_the_threads_torch_is_set_to_do_not_matter_and_are_left_alone():
    large = cr.make_ranking_data("mslr", n_queries=30, seed=0)
    weights = cr.estimators.full_information(large, relevance_threshold=2)
    found, before = [], torch.get_num_threads()
    for threads in (1, 3):
        torch.set_num_threads(threads)
        found.append(state_of(make(max_epochs=2).fit(large, weights).model_.module))
        assert torch.get_num_threads() == threads
    torch.set_num_threads(before)
    assert same_state(*found)


def test_random_numbers_of_the_user_are_left_alone():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    make(max_epochs=1).fit(DATA, WEIGHTS)
    assert torch.equal(torch.rand(3), expected)


def test_the_scale_of_weights_does_not_matter():
    expected = make().fit(DATA, WEIGHTS).predict(DATA).tolist()
    assert make().fit(DATA, 1024.0 * WEIGHTS).predict(DATA).tolist() == expected


def test_queries_without_evidence_do_not_matter():
    more = RankingData(
        np.vstack([DATA.features, OTHER.features]), np.concatenate([DATA.offsets, OTHER.offsets[1:] + DATA.n_docs])
    )
    weights = np.concatenate([WEIGHTS, np.zeros(OTHER.n_docs)])
    assert make().fit(more, weights).predict(OTHER).tolist() == make().fit(DATA, WEIGHTS).predict(OTHER).tolist()


def test_negative_weights_are_learned_from():
    ranker = make(max_epochs=5, learning_rate=0.01).fit(DATA, ragged_weights(DATA, negative=True))
    assert np.isfinite(ranker.predict(DATA)).all()


def test_a_network_learns_what_no_linear_model_can():
    rng = np.random.default_rng(0)
    features = rng.uniform(-1, 1, size=(1000, 2)).astype(np.float32)
    data = RankingData(features, np.arange(0, 1001, 20), (features[:, 0] * features[:, 1] > 0.3).astype(np.float32))
    weights = cr.estimators.full_information(data, relevance_threshold=1)
    found = {}
    for model, params in (("linear", None), ("mlp", {"hidden": (32,), "dropout": 0.0})):
        ranker = make(model=model, params=params, normalize="none", max_epochs=25, learning_rate=0.03)
        scores = ranker.fit(data, weights).predict(data)
        found[model] = cr.evaluation.evaluate(scores, data, relevance_threshold=1)["ndcg@5"]
    assert found["mlp"] > 0.9 > 0.6 > found["linear"]


def test_documents_are_scored_in_batches_of_whole_queries(monkeypatch):
    ranker = make().fit(DATA, WEIGHTS)
    expected = ranker.predict(DATA)
    for at_once in (1, 13, 50):
        monkeypatch.setattr(neural, "_AT_ONCE", at_once)
        np.testing.assert_allclose(ranker.predict(DATA), expected, rtol=1e-12)
    alone = np.concatenate([ranker.predict(DATA.subset([q])) for q in range(DATA.n_queries)])
    np.testing.assert_allclose(alone, expected, rtol=1e-12)


def test_the_network_is_plain_and_of_float64():
    ranker = make(params={"hidden": [7, 3], "dropout": 0.5}, max_epochs=1).fit(DATA, WEIGHTS)
    layers = list(ranker.model_.module)
    assert [type(layer).__name__ for layer in layers] == ["Linear", "ReLU", "Dropout"] * 2 + ["Linear"]
    assert [layer.out_features for layer in layers if isinstance(layer, nn.Linear)] == [7, 3, 1]
    assert {tensor.dtype for tensor in ranker.model_.module.parameters()} == {torch.float64}
    by_hand = torch.tensor(DATA.normalized().features, dtype=torch.float64)
    for layer in (layer for layer in layers if not isinstance(layer, nn.Dropout)):
        by_hand = layer(by_hand)
    np.testing.assert_allclose(ranker.predict(DATA), by_hand.detach().numpy()[:, 0], rtol=1e-12)


def test_a_network_without_hidden_layers_is_linear():
    ranker = make(params={"hidden": ()}, max_epochs=1).fit(DATA, WEIGHTS)
    assert [type(layer).__name__ for layer in ranker.model_.module] == ["Linear"]


class Scorer(nn.Module):
    """Gives what `shape` makes of one score per document, and remembers what it was called with."""

    def __init__(self, shape=lambda scores: scores):
        super().__init__()
        self.layer, self.shape = nn.Linear(6, 1), shape

    def forward(self, features):
        return self.shape(self.layer(features)[:, 0])


class Listwise(Scorer):
    def forward(self, features, scale=1.0, *, offsets):
        assert (int(offsets[0]), int(offsets[-1]), offsets.dtype) == (0, len(features), torch.int64)
        means = torch.cat([part.mean(0).expand(len(part), -1) for part in features.split(offsets.diff().tolist())])
        return self.layer(features - means) * scale


class Lazy(nn.Sequential):
    def __init__(self):
        super().__init__(nn.LazyLinear(4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))


MODULES = {
    "(n,)": lambda: Scorer(),
    "(n, 1)": lambda: Scorer(lambda scores: scores[:, None]),
    "offsets": lambda: Listwise(),
    "lazy, with batch norm": lambda: Lazy(),
    "bfloat16": lambda: Scorer().to(torch.bfloat16),
    "a frozen layer": lambda: nn.Sequential(nn.Linear(6, 3).requires_grad_(False), nn.Linear(3, 1)),
}


@pytest.mark.parametrize("kind", MODULES)
def test_modules_of_all_kinds(kind):
    torch.manual_seed(0)
    module = MODULES[kind]().eval()
    is_lazy = kind.startswith("lazy")
    before = None if is_lazy else state_of(module)
    ranker = make(model=module, learning_rate=0.02, max_epochs=5).fit(DATA, WEIGHTS, validation=(OTHER, OTHER_WEIGHTS))
    assert isinstance(ranker.model_, NeuralModel)
    assert np.isfinite(ranker.predict(OTHER)).all()
    assert not ranker.model_.module.training
    assert not module.training
    assert not any(tensor.grad is not None for tensor in module.parameters())
    if not is_lazy:
        assert same_state(state_of(module), before)
        assert not same_state(state_of(ranker.model_.module), before)
    if kind == "a frozen layer":
        assert torch.equal(ranker.model_.module[0].weight, module[0].weight)


def test_what_the_learned_module_does_later_is_not_what_the_ranker_does():
    module = plain_module()
    ranker = make(model=module, max_epochs=1).fit(DATA, WEIGHTS)
    expected = ranker.predict(DATA).tolist()
    with torch.no_grad():
        module[0].weight.zero_()
    assert ranker.predict(DATA).tolist() == expected


def test_listwise_modules_see_whole_queries_when_they_score():
    ranker = make(model=Listwise(), max_epochs=1).fit(DATA, WEIGHTS)
    alone = np.concatenate([ranker.predict(DATA.subset([q])) for q in range(DATA.n_queries)])
    np.testing.assert_allclose(ranker.predict(DATA), alone, rtol=1e-4, atol=1e-5)


class Sorted(nn.Module):
    """Refuses to be copied."""

    def __init__(self):
        super().__init__()
        self.layer, self.lock = nn.Linear(6, 1), (x for x in ())

    def forward(self, features):
        return self.layer(features)


class Sum(nn.Module):
    def forward(self, features):
        return features.sum(1)


BAD_MODULES = [
    (lambda: Scorer(lambda s: s[:3]), r"model: Scorer gave shape \(3,\) for 8 documents; expected \(8,\) or \(8, 1\)"),
    (lambda: nn.Linear(6, 2), r"model: Linear gave shape \(8, 2\) for 8 documents"),
    (lambda: Scorer(lambda s: s.sum()), r"model: Scorer gave shape \(\) for 8 documents"),
    (lambda: Scorer(lambda s: s[None]), r"model: Scorer gave shape \(1, 8\) for 8 documents"),
    (lambda: Scorer(lambda s: (s, s)), r"model: Scorer gave tuple; expected a tensor"),
    (lambda: Scorer(lambda s: s.long()), r"model: Scorer gave torch\.int64; expected a tensor of floating numbers"),
    (lambda: Scorer(lambda s: s / 0.0 * 0.0), r"model: gave nan for document 0; expected finite scores"),
    (lambda: nn.Softmax(0), r"model: Softmax gave shape \(8, 6\)"),
    (lambda: nn.Flatten(0), r"model: Flatten gave shape \(48,\) for 8 documents"),
    (lambda: Sum(), r"model: Sum has no parameters to learn"),
    (lambda: nn.Linear(7, 1), r"model: Linear fails on 8 documents of 6 features \(mat1 and mat2 shapes"),
    (lambda: Scorer().requires_grad_(False), r"model: Scorer has no parameters to learn"),
    (lambda: Sorted(), r"model: Sorted cannot be copied \(cannot pickle 'generator' object\)"),
]


@pytest.mark.parametrize(("module", "message"), BAD_MODULES, ids=[message for _, message in BAD_MODULES])
def test_modules_that_do_not_fit(module, message):
    with pytest.raises(CounterrankError, match=message):
        make(model=module()).fit(DATA, WEIGHTS)


def test_a_module_that_breaks_later_is_an_error():
    ranker = make(model=Scorer(), max_epochs=1).fit(DATA, WEIGHTS)
    ranker.model_.module.shape = lambda scores: scores.index_fill(0, torch.tensor([2]), float("inf"))
    with pytest.raises(CounterrankError, match="model: gave inf for document 2; expected finite scores"):
        ranker.predict(DATA)


@pytest.mark.parametrize(
    ("model", "params", "message"),
    [
        ("mlp", {"layers": 3}, "params: 'layers' is unknown; mlp has hidden, dropout, weight_decay, device"),
        ("mlp", {"hidden": 64}, r"hidden=64: expected sizes of layers, such as \[128, 64\]"),
        ("mlp", {"hidden": (64, 0)}, r"hidden=\(64, 0\): expected sizes"),
        ("mlp", {"hidden": "64"}, "hidden='64': expected sizes"),
        ("mlp", {"dropout": 1.0}, "dropout=1.0: expected a number from 0 to below 1"),
        ("mlp", {"weight_decay": -1}, "weight_decay=-1: expected a number of at least 0"),
        ("mlp", {"device": "abacus"}, r"device='abacus': cannot be used here \("),
        (plain_module(), {"hidden": (3,)}, "params: 'hidden' is unknown; a module has weight_decay, device"),
    ],
    ids=["unknown", "hidden", "zero", "text", "dropout", "weight_decay", "device", "module"],
)
def test_bad_settings(model, params, message):
    with pytest.raises(CounterrankError, match=message):
        make(model=model, params=params).fit(DATA, WEIGHTS)


def test_nothing_to_learn():
    with pytest.raises(NothingToLearnError, match="weights: equal within every query"):
        make().fit(DATA, np.ones(DATA.n_docs))


def test_divergence_is_an_error():
    with pytest.raises(CounterrankError, match=r"learning_rate=1e\+25: training diverged; use a smaller one"):
        make(learning_rate=1e25, max_epochs=10).fit(DATA, WEIGHTS)
    with pytest.raises(CounterrankError, match=r"learning_rate=1e\+38: expected at most 1e\+30 for a network"):
        make(learning_rate=1e38).fit(DATA, WEIGHTS)


class Exploding(Scorer):
    """Fine for a while."""

    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def forward(self, features):
        self.calls -= self.training
        return super().forward(features) * (1.0 if self.calls >= 0 else float("nan"))


def test_divergence_after_a_good_epoch_keeps_that_epoch():
    ranker = make(model=Exploding(calls=2), max_epochs=10)  # a step an epoch
    ranker.fit(DATA, WEIGHTS, validation=(OTHER, OTHER_WEIGHTS))
    assert ranker.best_epoch_ in (1, 2)
    assert len(ranker.history_) == 3
    assert np.isnan(ranker.history_[-1]["loss"])
    with pytest.raises(CounterrankError, match="training diverged"):
        make(model=Exploding(calls=2), max_epochs=10).fit(DATA, WEIGHTS)


def test_without_torch_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr("counterrank.common.errors.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'counterrank\[torch\]'"):
        make().fit(DATA, WEIGHTS)
    with pytest.raises(MissingExtraError, match=r"pip install 'counterrank\[torch\]'"):
        cr.torch.loss("arp-hinge")


def test_rankers_with_modules_can_be_cloned():
    sklearn = pytest.importorskip("sklearn.base")
    module = plain_module()
    ranker = make(model=module).fit(DATA, WEIGHTS)
    clone = sklearn.clone(ranker)
    assert not hasattr(clone, "model_")
    assert same_state(state_of(clone.model), state_of(module))
    assert clone.fit(DATA, WEIGHTS).predict(DATA).tolist() == ranker.predict(DATA).tolist()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_training_on_a_gpu():
    ranker = make(params={"device": "cuda"}, max_epochs=20, learning_rate=0.01)
    ranker.fit(DATA, WEIGHTS, validation=(OTHER, OTHER_WEIGHTS))
    assert next(ranker.model_.module.parameters()).is_cuda
    assert np.isfinite(ranker.predict(OTHER)).all()


class Detached(torch.nn.Linear):
    """Its scores do not tell how they came about."""

    def forward(self, features):
        return super().forward(features).detach()


def test_scores_that_cannot_be_differentiated_are_an_error():
    data = cr.RankingData([[0.0], [1.0]], offsets=[0, 2])
    with pytest.raises(CounterrankError, match="its scores cannot be differentiated"):
        cr.Ranker(model=Detached(1, 1)).fit(data, [0.0, 1.0])
