"""Names of features, and atomic writes."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

import counterrank as cr
from counterrank.export import feature_names
from counterrank.models import LinearModel
from tests.support.command import as_json, invoke, run
from tests.support.exported import check_ranking, onnx_scores, plain_scaler, ranker_of, written


@pytest.fixture
def ranker():
    return ranker_of(LinearModel(np.array([1.0, 0.0, 2.0]), plain_scaler(3)), "linear")


GOOD = {
    "object": '{"1": "title_bm25", "3": "pagerank"}',
    "list": '["title_bm25", "body_bm25", "pagerank"]',
    "lines": "title_bm25\nbody_bm25\npagerank\n",
    "with a mark at its beginning": '\ufeff{"1": "title_bm25", "3": "pagerank"}',
    "lines of Windows": "title_bm25\r\nbody_bm25\r\npagerank\r\n",
}


@pytest.mark.parametrize("kind", GOOD)
def test_files_of_names(kind, ranker, tmp_path):
    (tmp_path / "names").write_bytes(GOOD[kind].encode("utf-8"))
    weights = json.loads(written(ranker, "solr", features=tmp_path / "names"))["params"]["weights"]
    assert weights == {"title_bm25": 1.0, "pagerank": 2.0}  # feature 2 is not used, so it needs no name


BAD = {
    '{"1": "a", "2": "b"}': "features: no name for feature 3, which the model uses; name it in the mapping",
    '["a"]': "features: no name for feature 3, which the model uses; name it in the mapping",
    "a": "features: no name for feature 3, which the model uses; name it in the mapping",
    '{"2": "a"}': "features: no name for features 1, 3, which the model uses; name them in the mapping",
    '{"1": "a", "3": "a"}': "features 1 and 3 are both called 'a'",
    '{"1": "a", "1": "b"}': "feature 1 is named twice",
    '{"1": "a", "01": "b"}': "feature 1 is named twice",
    '{"0": "a"}': "feature 0 is not known; the model has features 1 to 3",
    '{"4": "a"}': "feature 4 is not known; the model has features 1 to 3",
    '["a", "b", "c", "d"]': "feature 4 is not known; the model has features 1 to 3",
    '{"one": "a"}': "'one' is no feature number; expected 1, 2 and so on, as in LETOR files",
    '{"1": 5}': "feature 1 is called 5; expected a name on one line",
    '["a", "", "c"]': "feature 2 is called ''; expected a name on one line",
    "a\n\nc": "feature 2 is called ''; expected a name on one line",
    '{"1": "a\\nb"}': "feature 1 is called 'a\\\\nb'; expected a name on one line",
    '{"1": "a"': "not JSON",
}


@pytest.mark.parametrize("text", BAD)
def test_wrong_files_of_names(text, ranker, tmp_path):
    (tmp_path / "names").write_text(text, encoding="utf-8")
    with pytest.raises(cr.CounterrankError, match=BAD[text]) as caught:
        cr.export.write(ranker, tmp_path / "model", to="solr", features=tmp_path / "names")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "model").exists()


def test_other_wrong_names(ranker, tmp_path):
    (tmp_path / "names").write_bytes(b"\xff\xfe")
    with pytest.raises(cr.CounterrankError, match="not a text file in UTF-8"):
        feature_names(tmp_path / "names", 3)
    with pytest.raises(FileNotFoundError, match="no such file of feature names"):
        feature_names(tmp_path / "nothing", 3)
    with pytest.raises(cr.CounterrankError, match="expected an object, a list or lines of names, got int"):
        feature_names(7, 3)
    with pytest.raises(cr.CounterrankError, match="name='': expected a name on one line"):
        cr.export.write(ranker, tmp_path / "model", to="solr", name="")
    with pytest.raises(cr.CounterrankError, match="to"):
        cr.export.write(ranker, tmp_path / "model", to="lucene")
    with pytest.raises(cr.CounterrankError, match="not trained yet"):
        cr.export.write(cr.Ranker(), tmp_path / "model")


def test_many_missing_names_are_counted():
    with pytest.raises(cr.CounterrankError, match="1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more"):
        feature_names({13: "a"}, 13).of(range(12))


@pytest.mark.parametrize("text", ["", "\n", "{}", "[]"])
def test_a_file_without_names_is_refused(tmp_path, text):
    (tmp_path / "names").write_text(text)
    with pytest.raises(cr.CounterrankError, match="no names in it; leave it out"):
        feature_names(tmp_path / "names", 3)


def test_without_names_features_are_numbered_and_that_is_said(ranker, tmp_path):
    exported = cr.export.write(ranker, tmp_path / "model", to="es-ltr")
    assert exported.features == {1: "feature_1", 3: "feature_3"}
    assert any("since no names were given" in note for note in exported.notes)
    (note,) = cr.export.write(ranker, tmp_path / "model", to="es-ltr", features=["a", "b", "c"]).notes
    assert "unscaled features in float32" in note
    assert cr.export.write(ranker, tmp_path / "model", to="onnx", features=["a", "b", "c"]).notes == ()
    with pytest.raises(cr.CounterrankError, match="tree_format='ranklib': is for trees in es-ltr; leave it out"):
        cr.export.write(ranker, tmp_path / "model", to="solr", tree_format="ranklib")


def test_an_older_file_stays_when_the_export_fails(ranker, tmp_path):
    (tmp_path / "model").write_text("older")
    with pytest.raises(cr.CounterrankError):
        cr.export.write(ranker, tmp_path / "model", to="solr", features=["a"])
    assert (tmp_path / "model").read_text() == "older"
    cr.export.write(ranker, tmp_path / "model", to="solr")
    assert json.loads((tmp_path / "model").read_text())["name"] == "counterrank"
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_a_missing_package_is_named(ranker, tmp_path, monkeypatch):
    monkeypatch.setattr("counterrank.common.errors.find_spec", lambda name: None)
    with pytest.raises(cr.CounterrankError, match=r"export to ONNX needs onnx; pip install 'counterrank\[onnx\]'"):
        cr.export.write(ranker, tmp_path / "model")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    data = cr.make_ranking_data("yahoo", n_queries=20, seed=0)
    weights = cr.estimators.full_information(data)
    for normalize in ("query", "standard"):
        ranker = cr.Ranker("arp-hinge", max_epochs=1, learning_rate=1.0, normalize=normalize).fit(data, weights)
        ranker.save(folder / normalize)
    return SimpleNamespace(query=folder / "query", standard=folder / "standard")


def test_the_command_writes_what_the_library_writes(saved, tmp_path):
    names = tmp_path / "names.json"
    ranker = cr.Ranker.load(saved.standard)
    labels = [f"f{number}" for number in range(ranker.n_features_)]
    names.write_text(json.dumps(labels))
    result = as_json(
        "export", saved.standard, "--to", "solr", "--out", tmp_path / "m.json", "--features", names, "--name", "mine"
    )
    assert (tmp_path / "m.json").read_text() == written(ranker, "solr", features=labels, name="mine")
    assert (result["to"], result["name"], result["notes"]) == ("solr", "mine", [])
    assert set(result["features"].values()) <= set(labels)
    shown = invoke("export", saved.standard, "--to", "json", "--out", tmp_path / "n.json")
    assert f"{tmp_path / 'n.json'}: " in shown.stdout
    assert "Note: features are called feature_1" in shown.stderr


@pytest.mark.parametrize("kind", ["linear", "lambdamart", "mlp"])
def test_from_training_to_onnxruntime(kind, tmp_path):
    source = "synthetic:yahoo:queries=40,seed=1"
    params = ["--param", "min_data_in_leaf=5"] if kind == "lambdamart" else []
    invoke("train", source, "--model", kind, "--max-epochs", 3, "--out", tmp_path / "ranker", *params)
    as_json("export", tmp_path / "ranker", "--to", "onnx", "--out", tmp_path / "ranker.onnx")
    test = cr.make_fold("yahoo", 40, seed=1).test
    scores = onnx_scores((tmp_path / "ranker.onnx").read_bytes(), test)
    check_ranking(scores, cr.Ranker.load(tmp_path / "ranker").predict(test), test, 1e-5)


def test_the_command_refuses_in_one_line(saved, tmp_path):
    result = run("export", saved.query, "--to", "es-ltr", "--out", tmp_path / "m.json")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        "counterrank: --normalize query: es-ltr cannot scale features within each query; "
        "train with --normalize standard or --normalize none, or export to onnx\n"
    )
    assert not (tmp_path / "m.json").exists()
    assert "Example: counterrank export" in invoke("export", "--help").output


def named(model="linear", names=("unit price", "rating", "stock"), **more):
    if model != "linear":
        pytest.importorskip({"lambdamart": "lightgbm", "mlp": "torch"}[model])
    features = np.random.default_rng(0).normal(size=(200, 3))
    data = cr.RankingData(features, np.arange(0, 201, 10), feature_names=names)
    params = {"min_data_in_leaf": 5} if model == "lambdamart" else None
    return cr.Ranker(model=model, max_epochs=2, params=params, **more).fit(data, features @ [1.0, -1.0, 0.5] > 0)


@pytest.mark.parametrize("model", ["linear", "lambdamart", "mlp"])
def test_names_of_the_training_data_are_those_of_the_export(model, tmp_path):
    onnx = pytest.importorskip("onnx")
    ranker = named(model, normalize="standard")
    names = ["unit price", "rating", "stock"]
    exported = cr.export.write(ranker, tmp_path / "model.onnx")
    assert exported.features == dict(enumerate(names, start=1))
    found = {entry.key: entry.value for entry in onnx.load(tmp_path / "model.onnx").metadata_props}
    assert json.loads(found["feature_names"]) == names
    targets = ["solr"] if model == "mlp" else ["solr", "es-ltr"]
    for to in targets:
        exported = cr.export.write(ranker, tmp_path / "model.json", to=to)
        assert set(exported.features.values()) <= set(names)
        assert not any("no names were given" in note for note in exported.notes)
        exported = cr.export.write(ranker, tmp_path / "model.json", to=to, features=["a", "b", "c"])  # these win
        assert set(exported.features.values()) <= {"a", "b", "c"}
    if model == "linear":
        cr.export.write(ranker, tmp_path / "model.json", to="json")
        assert [entry["name"] for entry in json.loads((tmp_path / "model.json").read_text())["features"]] == names


def test_names_that_no_target_can_hold(tmp_path):
    ranker = named(names=["a\nb", " rating", "stock"], normalize="standard")
    message = r"feature_names_in_ of the ranker \(features= takes other names\): feature 1 is called"
    for to in ("solr", "es-ltr", "onnx", "json"):
        with pytest.raises(cr.CounterrankError, match=message):
            cr.export.write(ranker, tmp_path / "model", to=to)
    cr.export.write(ranker, tmp_path / "model", to="solr", features=["a", "b", "c"])
    ranker.save(tmp_path / "ranker")
    assert {row["name"] for row in as_json("explain", tmp_path / "ranker")["features"]} == {"a b", "rating", "stock"}
    refused = run("export", tmp_path / "ranker", "--to", "solr", "--out", tmp_path / "other")
    assert "--features takes other names" in refused.stderr


def test_lightgbm_gets_names_it_can_hold(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    ranker = named("lambdamart", names=["unit price", "unit_price", "size:cm"])
    exported = cr.export.write(ranker, tmp_path / "model.txt", to="lightgbm")
    assert lightgbm.Booster(model_file=tmp_path / "model.txt").feature_name() == [
        "unit_price_",
        "unit_price",
        "size_cm",
    ]
    assert exported.features == {1: "unit_price_", 2: "unit_price", 3: "size_cm"}
    assert exported.notes == (
        "LightGBM cannot hold the names 'unit price', 'size:cm': blanks and some signs in them became _",
    )
