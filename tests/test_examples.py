"""The scripts in `examples/` run, at small size."""

import importlib.util

import pytest

from tests.support.paths import ROOT

EXAMPLES = ROOT / "examples"


def load(name):
    found = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def attention():
    pytest.importorskip("torch").set_num_threads(1)  # as in `tests.reference.network`
    return load("listwise_attention")


def test_listwise_attention(attention, tmp_path, capsys):
    arguments = ["--queries", "60", "--clicks", "20000", "--epochs", "3", "--out", str(tmp_path / "ranker")]
    found = attention.main(arguments)
    assert list(found) == ["production", "linear", "mlp", "attention"]
    assert all(0.0 < values["ndcg@5"] < 1.0 for values in found.values())
    assert len(capsys.readouterr().out.splitlines()) == 5
    assert (tmp_path / "ranker" / "model.json").is_file()


def test_documents_attend_to_those_of_their_own_query(attention):
    import torch

    torch.manual_seed(0)
    model = attention.AttentionRanker(3, width=8, heads=2).double().eval()
    features, offsets = torch.rand(9, 3, dtype=torch.float64), torch.tensor([0, 4, 5, 9])
    scores = model(features, offsets)
    assert scores.shape == (9, 1)
    alone = [model(features[a:b], torch.tensor([0, b - a])) for a, b in ((0, 4), (4, 5), (5, 9))]
    assert torch.allclose(scores, torch.cat(alone), rtol=1e-12)
    changed = features.clone()
    changed[0] += 1.0
    moved = (model(changed, offsets) != scores).squeeze()
    assert moved.tolist() == [True] * 4 + [False] * 5
