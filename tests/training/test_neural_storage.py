"""Saved networks: every tensor comes back bit for bit, and nothing damaged, foreign or pickled is taken."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import counterrank as cr
from counterrank import CounterrankError, Ranker
from counterrank.common.errors import MissingExtraError, ModelError
from tests.reference.network import torch
from tests.support.ragged import ragged_data, ragged_weights

nn = torch.nn
DATA = ragged_data()
WEIGHTS = ragged_weights(DATA)


def trained(model="mlp", **settings):
    return Ranker("lambdaloss-truncated", k=3, model=model, max_epochs=2, **settings).fit(DATA, WEIGHTS)


class Odd(nn.Module):
    """Tensors of all kinds: learned and not, of no dimension, without entries, shared, infinite."""

    def __init__(self, width=4):
        super().__init__()
        self.first, self.second = nn.Linear(6, width), nn.Linear(width, width)
        self.second.weight = nn.Parameter(self.second.weight.detach().to(torch.bfloat16))
        self.tied = self.first
        self.norm = nn.BatchNorm1d(width)
        self.last = nn.Linear(width, 1)
        self.register_buffer("mask", torch.tensor([0.0, float("-inf")]))
        self.register_buffer("flags", torch.tensor([True, False]))
        self.register_buffer("counts", torch.arange(3, dtype=torch.int32))
        self.register_buffer("empty", torch.empty(0, 2))
        self.register_buffer("narrow", torch.tensor([1.5], dtype=torch.float16))
        self.register_buffer("passing", torch.ones(2), persistent=False)

    def forward(self, features):
        inner = self.norm(self.first(features)) @ self.second.weight.float()
        return self.last(torch.relu(inner))


def fresh(seed=7, **shape):
    torch.manual_seed(seed)
    return Odd(**shape)


@pytest.fixture(scope="module")
def network():
    return trained(params={"hidden": (5, 4)})


@pytest.fixture(scope="module")
def own():
    return trained(fresh(seed=0))


@pytest.fixture
def saved(network, tmp_path):
    network.save(tmp_path / "ranker")
    return tmp_path / "ranker"


@pytest.fixture
def own_saved(own, tmp_path):
    own.save(tmp_path / "own")
    return tmp_path / "own"


def edit(folder, change):
    content = json.loads((folder / "model.json").read_text())
    change(content["content"])
    (folder / "model.json").write_text(json.dumps(content))


def file_of(folder, name):
    listed = json.loads((folder / "model.json").read_text())["content"]["tensors"]
    return folder / next(entry["file"] for entry in listed if entry["name"] == name)


def test_the_librarys_network_comes_back(network, saved):
    loaded = Ranker.load(saved)
    assert loaded.predict(DATA).tolist() == network.predict(DATA).tolist()
    assert loaded.model == "mlp"
    assert loaded.params == {"hidden": [5, 4]}
    assert loaded.history_ == network.history_
    assert loaded.fit(DATA, WEIGHTS).predict(DATA).tolist() == network.predict(DATA).tolist()
    assert sorted(file.suffix for file in saved.iterdir()) == [".json"] + [".npy"] * 8  # 6 tensors, and the scaling


@pytest.mark.parametrize("normalize", ["standard", "none"])
def test_scaling_comes_back(normalize, tmp_path):
    ranker = trained(normalize=normalize, params={"hidden": (3,)})
    ranker.save(tmp_path / "ranker")
    assert Ranker.load(tmp_path / "ranker").predict(DATA).tolist() == ranker.predict(DATA).tolist()


def test_a_module_of_ones_own_comes_back(own, own_saved):
    module = fresh()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    loaded = Ranker.load(own_saved, module=module)
    assert loaded.predict(DATA).tolist() == own.predict(DATA).tolist()
    kept, restored = own.model_.module.state_dict(), loaded.model_.module.state_dict()
    assert kept.keys() == restored.keys()
    assert [name for name in kept if not torch.equal(kept[name], restored[name])] == []
    assert [tensor.dtype for tensor in kept.values()] == [tensor.dtype for tensor in restored.values()]
    # what was given is the architecture, and is left as it is
    assert loaded.model is module
    assert module.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    assert np.isfinite(loaded.fit(DATA, WEIGHTS).predict(DATA)).all()


def test_the_ranker_can_be_saved_again(own_saved, tmp_path):
    Ranker.load(own_saved, module=fresh()).save(tmp_path / "again")
    for file in own_saved.iterdir():
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes()


def test_a_module_of_ones_own_needs_its_architecture(own_saved, saved, tmp_path):
    with pytest.raises(ModelError, match=r"a torch module of your own; .*Ranker\.load\(path, module=\.\.\.\)"):
        Ranker.load(own_saved)
    with pytest.raises(CounterrankError, match="holds a model of kind 'mlp'; leave module out"):
        Ranker.load(saved, module=fresh())
    Ranker("arp-hinge", max_epochs=1).fit(DATA, WEIGHTS).save(tmp_path / "linear")
    with pytest.raises(CounterrankError, match="holds a model of kind 'linear'; leave module out"):
        Ranker.load(tmp_path / "linear", module=fresh())
    with pytest.raises(CounterrankError, match=r"module: 'mlp'; expected a torch\.nn\.Module"):
        Ranker.load(own_saved, module="mlp")
    with pytest.raises(CounterrankError, match=r"model: type; expected .* a torch\.nn\.Module"):
        Ranker.load(own_saved, module=Odd)


class Wider(Odd):
    def __init__(self):
        super().__init__()
        self.more = nn.Linear(1, 1)


class Narrower(Odd):
    def __init__(self):
        super().__init__()
        del self.norm


WRONG_MODULES = [
    (lambda: fresh(width=5), r"tensor 'first.weight' is float32 of shape \(4, 6\); the module's is .* shape \(5, 6\)"),
    (lambda: fresh().double(), r"tensor 'mask' is float32 .*; the module's is float64"),
    (Wider, r"tensor 'more.weight' is not among those saved \(and 1 others\)"),
    (Narrower, r"tensor 'norm.weight' is not in the module \(and 4 others\)"),
    (lambda: nn.Linear(6, 1), r"tensor 'weight' is not among those saved"),
]


@pytest.mark.parametrize(("module", "message"), WRONG_MODULES, ids=[message for _, message in WRONG_MODULES])
def test_modules_built_otherwise_are_refused(own_saved, module, message):
    with pytest.raises(ModelError, match=message):
        Ranker.load(own_saved, module=module())


def replace(name, array):
    return lambda folder: np.save(file_of(folder, name), array)


def in_list(change):
    return lambda folder: edit(folder, lambda content: change(content["tensors"]))


def in_content(**changes):
    return lambda folder: edit(folder, lambda content: content.update(changes))


def spoiled(value, shape=(5, 6)):
    array = np.zeros(shape)
    array[-1, -1] = value
    return array


DAMAGES = {
    "missing file": (lambda f: file_of(f, "0.weight").unlink(), r"tensor-0000\.npy: missing"),
    "cut short": (
        lambda f: file_of(f, "0.weight").write_bytes(file_of(f, "0.weight").read_bytes()[:-1]),
        r"tensor-0000\.npy: not a plain numpy array",
    ),
    "no array": (lambda f: file_of(f, "3.bias").write_bytes(b"hello"), r"tensor-0003\.npy: not a plain numpy array"),
    "wrong shape": (replace("0.weight", np.zeros((6, 5))), r"tensor-0000\.npy: float64 of shape \(6, 5\); expected"),
    "wrong type": (replace("0.bias", np.zeros(5, np.float32)), r"tensor-0001\.npy: float32 of shape \(5,\); expected"),
    "not a number": (replace("0.weight", spoiled(np.nan)), r"tensor '0\.weight', entry 29 is not finite"),
    "infinite": (replace("0.weight", spoiled(np.inf)), r"tensor '0\.weight', entry 29 is not finite"),
    "one less": (in_list(lambda listed: listed.pop()), r"tensor '6\.bias' is not among those saved;"),
    "one more": (
        in_list(lambda listed: listed.append({**listed[0], "name": "x"})),
        r"tensor 'x' is not in the module;",
    ),
    "twice": (in_list(lambda listed: listed.append(listed[0])), r"a tensor is listed twice"),
    "outside": (in_list(lambda listed: listed[0].update(file="../x.npy")), r"'\.\./x\.npy' is outside the folder"),
    "a number for a file": (in_list(lambda listed: listed[0].update(file=3)), r"model\.json lacks or misuses"),
    "no file": (in_list(lambda listed: listed[0].pop("file")), r"model\.json lacks or misuses 'file'"),
    "other shape listed": (in_list(lambda listed: listed[0].update(shape=[6, 5])), r"tensor '0\.weight' is float64 of"),
    "other type listed": (in_list(lambda listed: listed[0].update(dtype="object")), r"tensor '0\.weight' is object of"),
    "not a list": (in_content(tensors={"a": 1}), r"'tensors' in model\.json; expected a list"),
    "list of texts": (in_content(tensors=["a"]), r"'tensors' in model\.json; expected a list"),
    "no list": (lambda f: edit(f, lambda content: content.pop("tensors")), r"model\.json lacks or misuses 'tensors'"),
    "no sizes": (lambda f: edit(f, lambda content: content.pop("hidden")), r"model\.json lacks or misuses 'hidden'"),
    "text for sizes": (in_content(hidden="54"), r"model\.json lacks or misuses hidden='54'"),
    "other sizes": (in_content(hidden=[5, 3]), r"tensor '3\.weight' is float64 of shape \(4, 5\); the module's is"),
    "more memory than there is": (
        in_content(hidden=[10**8, 10**8]),
        r"tensor '0\.weight' is float64 of shape \(5, 6\)",
    ),
    "more than can be counted": (in_content(hidden=[10**30]), r"model\.json lacks or misuses"),
    "another dropout": (in_content(dropout=7), r"model\.json lacks or misuses dropout=7"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found(saved, damage):
    spoil, message = DAMAGES[damage]
    spoil(saved)
    with pytest.raises(ModelError, match=message):
        Ranker.load(saved)


class Hostile:
    def __reduce__(self):
        return (exec, ("raise SystemExit('ran code from a file')",))


def test_pickled_tensors_are_refused_and_not_run(saved):
    np.save(file_of(saved, "0.weight"), np.array([Hostile()], dtype=object), allow_pickle=True)
    with pytest.raises(ModelError, match="not a plain numpy array"):
        Ranker.load(saved)
    file_of(saved, "0.weight").write_bytes(pickle.dumps(Hostile()))
    with pytest.raises(ModelError, match="not a plain numpy array"):
        Ranker.load(saved)


def test_infinite_masks_are_kept_but_not_a_number_is_not(own_saved):
    np.save(file_of(own_saved, "mask"), np.array([np.nan, 0.0], np.float32))
    with pytest.raises(ModelError, match="tensor 'mask', entry 0 is not finite"):
        Ranker.load(own_saved, module=fresh())


def test_a_bfloat16_that_is_not_finite_is_found(own_saved):
    bits = torch.full((4, 4), float("inf"), dtype=torch.bfloat16).view(torch.int16).numpy()
    np.save(file_of(own_saved, "second.weight"), bits)
    with pytest.raises(ModelError, match=r"tensor 'second\.weight', entry 0 is not finite"):
        Ranker.load(own_saved, module=fresh())


class Extra(nn.Linear):
    def get_extra_state(self):
        return {"not": "a tensor"}

    def set_extra_state(self, state):
        pass


def test_state_that_is_no_tensor_cannot_be_saved(tmp_path):
    with pytest.raises(ModelError, match="model: '_extra_state' of its state is no tensor; only tensors can be saved"):
        trained(Extra(6, 1)).save(tmp_path / "ranker")
    assert list(tmp_path.iterdir()) == []


def test_loading_without_torch_says_what_to_install(saved, monkeypatch):
    monkeypatch.setattr("counterrank.common.errors.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'counterrank\[torch\]'"):
        Ranker.load(saved)


def test_a_lazy_module_is_loaded_into_one_that_has_seen_features(tmp_path):
    data = cr.RankingData([[0.0], [1.0]], offsets=[0, 2])
    ranker = cr.Ranker(model=torch.nn.LazyLinear(1), max_epochs=2).fit(data, [0.0, 1.0])
    ranker.save(tmp_path / "ranker")
    with pytest.raises(CounterrankError, match="has no size yet; expected a module whose lazy layers"):
        cr.Ranker.load(tmp_path / "ranker", module=torch.nn.LazyLinear(1))
    ready = torch.nn.Linear(1, 1)
    assert cr.Ranker.load(tmp_path / "ranker", module=ready).predict(data).tolist() == ranker.predict(data).tolist()
