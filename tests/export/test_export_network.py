"""Networks in ONNX and Solr, and modules that are refused."""

from __future__ import annotations

import numpy as np
import pytest

import counterrank as cr
from counterrank.models import NeuralModel, Scaler
from counterrank.models.neural import NetworkShape
from tests.reference.serving import solr_scores
from tests.support.exported import (
    DATA_SETS,
    check_ranking,
    names_of,
    onnx_scores,
    plain_scaler,
    ranker_of,
    read_part,
    written,
)

torch = pytest.importorskip("torch")
nn = torch.nn


def network(n_features, scaler):
    """The library's own network, with weights as they are drawn at first."""
    torch.manual_seed(0)
    shape = NetworkShape((16, 8))
    return NeuralModel(shape.build(n_features).double(), scaler, n_features, shape)


@pytest.mark.parametrize("normalize", ["none", "standard", "query"])
@pytest.mark.parametrize("name", DATA_SETS)
def test_networks_on_real_data(name, normalize):
    train, test = read_part(name, "train"), read_part(name, "test")
    data = test.subset(range(min(20, test.n_queries)))
    model = network(data.n_features, Scaler.learn(normalize, train))
    expected, ranker, names = model.predict(data), ranker_of(model, "mlp"), names_of(data.n_features)
    check_ranking(onnx_scores(written(ranker, "onnx"), data), expected, data, 1e-10)
    if normalize != "query":
        check_ranking(solr_scores(written(ranker, "solr", features=names), names, data.features), expected, data, 1e-5)


def test_small_queries():
    for n_features, n_docs in ((1, 1), (1, 3), (3, 1)):
        data = cr.RankingData(np.arange(n_docs * n_features).reshape(n_docs, n_features), [0, n_docs])
        for normalize in ("none", "standard", "query"):
            model = network(n_features, Scaler.learn(normalize, data))
            scores = onnx_scores(written(ranker_of(model, "mlp"), "onnx"), data)
            np.testing.assert_allclose(scores, model.predict(data), rtol=1e-13)


def test_by_hand():
    module = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1, bias=False)).double()
    with torch.no_grad():
        module[0].weight[:] = torch.tensor([[1.0, 0.0], [0.0, -1.0]])
        module[0].bias[:] = torch.tensor([0.5, 0.0])
        module[2].weight[:] = torch.tensor([[2.0, 10.0]])
    ranker = ranker_of(NeuralModel(module, plain_scaler(2), 2), "mlp")
    data = cr.RankingData([[1.0, -3.0], [-1.0, 4.0]], [0, 2])
    # 2 (1 + 0.5) + 10 (3), and nothing left of the second
    assert onnx_scores(written(ranker, "onnx"), data).tolist() == [33.0, 0.0]
    assert solr_scores(written(ranker, "solr"), ["feature_1", "feature_2"], data.features).tolist() == [33.0, 0.0]


def test_constant_features_are_left_out_of_solr():
    scaler = Scaler("standard", np.array([1.0, 5.0]), np.array([2.0, 0.0]))
    model = network(2, scaler)
    data = cr.RankingData([[0.0, 5.0], [1.0, 9.0]], [0, 2])
    scores = solr_scores(written(ranker_of(model, "mlp"), "solr", features={1: "a"}), ["a", "b"], data.features)
    np.testing.assert_allclose(scores, model.predict(data), rtol=1e-5)


class Own(nn.Module):
    def forward(self, features):
        return features[:, 0]


class OwnLinear(nn.Linear):
    def forward(self, features):
        return super().forward(features) ** 2


MODULES = {
    "Own": (Own, "Own is a module of your own; export ranker.model_.module with torch.onnx"),
    "a class of its own": (lambda: nn.Sequential(OwnLinear(2, 1)).double(), "Sequential is a module of your own"),
    "another layer": (lambda: nn.Sequential(nn.Linear(2, 1), nn.Tanh()).double(), "Sequential is a module of your own"),
    "float32": (lambda: nn.Sequential(nn.Linear(2, 1)), "Sequential is a module of your own"),
    "two scores": (lambda: nn.Sequential(nn.Linear(2, 2)).double(), "does not end in one score a document"),
}


@pytest.mark.parametrize("name", MODULES)
def test_other_modules_are_refused(name, tmp_path):
    make, message = MODULES[name]
    module = make()
    ranker = ranker_of(NeuralModel(module, plain_scaler(2), 2), module)
    for to in ("onnx", "solr"):
        with pytest.raises(cr.CounterrankError, match=message):
            cr.export.write(ranker, tmp_path / "model", to=to)


REFUSED = [
    ("es-ltr", "none", "es-ltr takes linear and lambdamart models, not mlp; train one of those, or export to onnx"),
    (
        "solr",
        "query",
        "solr cannot scale features within each query; train with normalize='standard' or normalize='none'",
    ),
    ("lightgbm", "none", "lightgbm takes lambdamart models, not"),
    ("json", "none", "json takes linear models, not"),
]


@pytest.mark.parametrize(("to", "normalize", "message"), REFUSED)
def test_targets_without_networks(to, normalize, message, tmp_path):
    model = network(2, Scaler(normalize, np.zeros(2), np.ones(2)))
    with pytest.raises(cr.CounterrankError, match=message):
        cr.export.write(ranker_of(model, "mlp"), tmp_path / "model", to=to)
    assert list(tmp_path.iterdir()) == []
