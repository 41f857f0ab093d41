"""A saved ranker comes back bit for bit, and nothing that is not one is taken for one."""

import json
import os
import pickle

import numpy as np
import pytest

import counterrank as cr
from counterrank.common.errors import ModelError
from counterrank.losses import LOSSES, NamedLoss
from tests.support.ragged import ragged_data, ragged_weights

DATA = ragged_data()
WEIGHTS = ragged_weights(DATA)


def trained(**settings):
    settings = {"loss": "lambdaloss-truncated", "k": 3, "max_epochs": 3, "learning_rate": 0.7, **settings}
    return cr.Ranker(**settings).fit(DATA, WEIGHTS)


@pytest.fixture(scope="module")
def ranker():
    return trained()


@pytest.fixture
def folder(ranker, tmp_path):
    ranker.save(tmp_path / "ranker")
    return tmp_path / "ranker"


def contents(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


@pytest.mark.parametrize("normalize", ["query", "standard", "none"])
@pytest.mark.parametrize("validation", [None, (DATA, WEIGHTS)], ids=["last", "best"])
def test_round_trip(tmp_path, normalize, validation):
    ranker = cr.Ranker("arp-logistic", normalize=normalize, max_epochs=4, seed=9, metric="dcg@2", batch_queries=2)
    ranker.fit(DATA, WEIGHTS, validation=validation).save(tmp_path / "ranker")
    loaded = cr.Ranker.load(tmp_path / "ranker")
    assert loaded.predict(DATA).tolist() == ranker.predict(DATA).tolist()
    assert loaded.feature_importances_.tolist() == ranker.feature_importances_.tolist()
    names = set(vars(ranker)) - {"model_", "threads", "_importances", "constant_features_", "_found_multiple"}
    assert loaded.constant_features_.tolist() == ranker.constant_features_.tolist() == [3]
    assert {name: getattr(loaded, name) for name in names} == {name: getattr(ranker, name) for name in names}
    # and it can be trained again with the settings it had
    assert loaded.fit(DATA, WEIGHTS, validation=validation).predict(DATA).tolist() == ranker.predict(DATA).tolist()


def test_what_is_in_the_folder(folder):
    assert sorted(contents(folder)) == ["coefficients.npy", "importances.npy", "inverse.npy", "low.npy", "model.json"]
    model = json.loads((folder / "model.json").read_text())
    assert (model["format"], model["version"], model["n_features"]) == ("counterrank-ranker", 1, 6)
    assert model["settings"]["loss"] == "lambdaloss-truncated"


@pytest.mark.parametrize(
    "settings",
    [
        {"k": np.int64(3), "max_epochs": np.int32(2), "seed": np.uint8(5), "learning_rate": np.float32(0.5)},
        {"loss": NamedLoss("mine", True, LOSSES["dcg-hinge"].build)},
        {"seed": np.random.default_rng(3)},
    ],
    ids=["numpy numbers", "a named loss", "a generator"],
)
def test_settings_of_other_types_can_be_saved(tmp_path, settings):
    ranker = trained(**settings)
    ranker.save(tmp_path / "ranker")
    loaded = cr.Ranker.load(tmp_path / "ranker")
    assert loaded.predict(DATA).tolist() == ranker.predict(DATA).tolist()
    if "k" in settings:
        assert (loaded.k, loaded.max_epochs, loaded.seed, loaded.learning_rate) == (3, 2, 5, 0.5)


def test_a_history_that_ends_in_divergence_can_be_saved(tmp_path):
    ranker = cr.Ranker("arp-hinge", learning_rate=1e140, max_epochs=50, patience=50)
    ranker.fit(DATA, WEIGHTS, validation=(DATA, WEIGHTS))
    ranker.save(tmp_path / "ranker")
    np.testing.assert_equal(cr.Ranker.load(tmp_path / "ranker").history_, ranker.history_)


def test_an_untrained_ranker_is_not_saved(tmp_path):
    with pytest.raises(cr.CounterrankError, match="not trained yet"):
        cr.Ranker().save(tmp_path / "ranker")
    assert list(tmp_path.iterdir()) == []


CHANGES = [
    ({"format": "other"}, "format is not 'counterrank-ranker'; expected a folder written by Ranker.save"),
    ({"version": 2}, "version 2; this counterrank reads version 1, install a newer one"),
    ({"version": None}, "version None; this counterrank reads version 1"),
    ({"model": "forest"}, "model 'forest'; this counterrank knows linear, mlp, lambdamart, module"),
    ({"model": ["linear"]}, r"model \['linear'\]; this counterrank knows"),
    ({"normalize": "log"}, "normalize is 'log'; this version knows query, standard, none"),
    ({"n_features": 7}, r"float64 of shape \(6,\); expected float64 of shape \(7,\)"),
    ({"n_features": "many"}, "model.json lacks or misuses .*many.*; the file is damaged"),
    ({"n_features": None}, "model.json lacks or misuses"),
    ({"n_features": float("inf")}, "model.json lacks or misuses"),
    ({"settings": {"loss": "arp-hinge", "seed": 0, "depth": 3}}, "model.json lacks or misuses .*depth"),
    ({"settings": {"loss": 5, "seed": 0}}, "loss is 5 in model.json; expected a name"),
    ({"settings": {"loss": "arp-hinge", "seed": -1}}, "seed is -1 in model.json; expected a whole number"),
    ({"model": "lambdamart"}, "model 'lambdamart', but 'linear' in its settings; the file is damaged"),
    ({"history": {"a": 1}}, "model.json lacks or misuses"),
    ({"version": True}, "version True; this counterrank reads version 1"),
    ({"settings": []}, "model.json lacks or misuses"),
    ({"learning_rate": "x"}, "model.json lacks or misuses"),
    ({"history": 5}, "model.json lacks or misuses"),
    ({"arrays": {}}, "model.json lacks or misuses 'low'"),
    ({"arrays": {"low": "low.npy", "inverse": "inverse.npy"}}, "model.json lacks or misuses 'coefficients'"),
    ({"arrays": {"coefficients": 5}}, "model.json lacks or misuses"),
    ({"arrays": {"coefficients": "../other/coefficients.npy"}}, "array file '../other/.*' is outside the folder"),
    ({"arrays": {"coefficients": "/etc/passwd"}}, "array file '/etc/passwd' is outside the folder"),
    ({"arrays": {"coefficients": ".."}}, "missing; the ranker is incomplete"),
    ({"constant_features": [6]}, r"constant_features is \[6\] in model.json; expected columns from 0 to 5"),
    ({"constant_features": [-1, 2]}, "constant_features is .* expected columns from 0 to 5 in rising order"),
    ({"constant_features": [3, 1]}, "expected columns from 0 to 5 in rising order"),
    ({"constant_features": [1, 1]}, "expected columns from 0 to 5 in rising order"),
    ({"constant_features": [True]}, "expected columns from 0 to 5 in rising order"),
    ({"constant_features": "none"}, "constant_features is 'none' in model.json"),
]


@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_what_is_not_understood_is_refused(folder, change, message):
    model = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps({**model, **change}))
    with pytest.raises(ModelError, match=message):
        cr.Ranker.load(folder)


@pytest.mark.parametrize("field", ["n_features", "normalize", "arrays", "settings", "metric", "best_epoch", "history"])
def test_a_missing_field_is_named(folder, field):
    model = json.loads((folder / "model.json").read_text())
    del model[field]
    (folder / "model.json").write_text(json.dumps(model))
    with pytest.raises(ModelError, match=f"lacks or misuses '{field}'"):
        cr.Ranker.load(folder)


def test_a_ranker_of_version_0_1_does_not_know_its_constant_features(folder, tmp_path):
    model = json.loads((folder / "model.json").read_text())
    assert model.pop("constant_features") == [3]
    (folder / "model.json").write_text(json.dumps(model))
    older = cr.Ranker.load(folder)
    assert older.constant_features_ is None
    older.save(tmp_path / "again")
    assert cr.Ranker.load(tmp_path / "again").constant_features_ is None


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"[]", b"5", b"null"])
def test_damaged_json(folder, text):
    (folder / "model.json").write_bytes(text)
    with pytest.raises(ModelError, match=r"model.json: (not JSON|format is not)"):
        cr.Ranker.load(folder)


def test_cut_json(folder):
    whole = (folder / "model.json").read_bytes()
    for length in range(0, len(whole) - 2, 37):
        (folder / "model.json").write_bytes(whole[:length])
        with pytest.raises(ModelError):
            cr.Ranker.load(folder)


BAD_ARRAYS = {
    "another length": np.zeros(5),
    "two dimensions": np.zeros((6, 1)),
    "float32": np.zeros(6, np.float32),
    "other byte order": np.zeros(6, ">f8"),
    "text": np.array(["a"] * 6),
    "not finite": np.array([0, 0, 0, 0, 0, np.nan]),
}


@pytest.mark.parametrize("array", BAD_ARRAYS.values(), ids=BAD_ARRAYS)
def test_wrong_arrays(folder, array):
    np.save(folder / "low.npy", array)
    with pytest.raises(ModelError, match=r"low.npy: (.*; expected float64 of shape \(6,\)|entry 5 is not finite)"):
        cr.Ranker.load(folder)


class Trap:
    """Unpickling it makes a folder."""

    def __init__(self, path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_pickled_objects_are_never_read(folder, tmp_path):
    sprung = tmp_path / "sprung"
    objects = np.empty(6, dtype=object)
    objects[0] = Trap(sprung)
    np.save(folder / "low.npy", objects, allow_pickle=True)
    with pytest.raises(ModelError, match=r"low.npy: not a plain numpy array"):
        cr.Ranker.load(folder)
    (folder / "low.npy").write_bytes(pickle.dumps(Trap(sprung)))
    with pytest.raises(ModelError, match=r"low.npy: not a plain numpy array"):
        cr.Ranker.load(folder)
    assert not sprung.exists()


def test_an_archive_is_not_an_array(folder):
    with open(folder / "low.npy", "wb") as file:
        np.savez(file, np.zeros(6))
    with pytest.raises(ModelError, match=r"low.npy: not a plain numpy array"):
        cr.Ranker.load(folder)


def test_truncated_and_missing_arrays(folder):
    whole = (folder / "coefficients.npy").read_bytes()
    for length in (0, 1, 6, 9, 30, 127, 128, len(whole) - 1):
        (folder / "coefficients.npy").write_bytes(whole[:length])
        with pytest.raises(ModelError, match=r"coefficients.npy: not a plain numpy array"):
            cr.Ranker.load(folder)
    (folder / "coefficients.npy").unlink()
    with pytest.raises(ModelError, match=r"coefficients.npy: missing; the ranker is incomplete"):
        cr.Ranker.load(folder)


def test_damaged_headers_are_refused_or_harmless(folder):
    whole = (folder / "coefficients.npy").read_bytes()
    for place in range(128):
        for value in (0, 0x27, 0x39, 0xFF):
            (folder / "coefficients.npy").write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])
            try:
                loaded = cr.Ranker.load(folder)
            except ModelError:
                continue
            assert loaded.model_.coefficients.shape == (6,)


def test_a_header_that_asks_for_too_much(folder):
    whole = (folder / "coefficients.npy").read_bytes()
    more = whole.replace(b"(6,), }         ", b"(6000000000,), }")
    assert len(more) == len(whole)
    assert more != whole
    (folder / "coefficients.npy").write_bytes(more)
    with pytest.raises(ModelError, match=r"coefficients.npy: not a plain numpy array"):
        cr.Ranker.load(folder)


def test_not_a_ranker_and_nothing_there(tmp_path):
    with pytest.raises(ModelError, match=r"no model.json in it; expected a folder written by Ranker.save"):
        cr.Ranker.load(tmp_path)
    for error in (FileNotFoundError, cr.CounterrankError):
        with pytest.raises(error, match="nowhere: no such ranker"):
            cr.Ranker.load(tmp_path / "nowhere")
    (tmp_path / "file").write_text("text")
    with pytest.raises(ModelError, match=r"no model.json in it"):
        cr.Ranker.load(tmp_path / "file")


def test_an_older_ranker_is_replaced_whole(folder, tmp_path):
    (folder / "leftover.npy").write_text("of an older version")
    newer = trained(learning_rate=0.1)
    newer.save(folder)
    assert cr.Ranker.load(folder).predict(DATA).tolist() == newer.predict(DATA).tolist()
    assert sorted(contents(folder)) == ["coefficients.npy", "importances.npy", "inverse.npy", "low.npy", "model.json"]
    assert list(tmp_path.iterdir()) == [folder]


def test_a_foreign_folder_is_left_untouched(ranker, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"cat")
    (tmp_path / "notes").write_text("mine")
    before = contents(tmp_path)
    for name in ("photos", "notes"):
        with pytest.raises(cr.CounterrankError, match=f"{name}: exists and is not a folder with a model.json"):
            ranker.save(tmp_path / name)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("calls", [0, 1, 2])
def test_a_failure_in_the_middle_leaves_the_old_one(ranker, folder, tmp_path, monkeypatch, calls):
    before, save, seen = contents(tmp_path), np.save, []

    def failing(*arguments, **more):
        if len(seen) == calls:
            raise OSError("no space left on device")
        seen.append(save(*arguments, **more))

    monkeypatch.setattr(np, "save", failing)
    for target in (folder, tmp_path / "new"):
        seen.clear()
        with pytest.raises(OSError, match="no space left"):
            ranker.save(target)
    assert contents(tmp_path) == before
    assert list(tmp_path.iterdir()) == [folder]


def test_what_was_trained_is_saved_whatever_the_settings_say_by_now(tmp_path):
    ranker = trained().set_params(model="lambdamart")
    ranker.save(tmp_path / "ranker")
    loaded = cr.Ranker.load(tmp_path / "ranker")
    assert (loaded.model, loaded.kind_) == ("linear", "linear")
    assert loaded.predict(DATA).tolist() == ranker.predict(DATA).tolist()


def test_settings_of_arrays_come_back_as_lists(tmp_path):
    ranker = trained()
    ranker.params = {"monotone_constraints": np.zeros(3, int)}
    ranker.save(tmp_path / "ranker")
    assert cr.Ranker.load(tmp_path / "ranker").params == {"monotone_constraints": [0, 0, 0]}
