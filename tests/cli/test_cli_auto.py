"""`counterrank train` with auto, direct, doubly-robust and shrinkage."""

import re

import pytest

from counterrank.common.errors import CounterrankError
from tests.support.command import as_json, attempt, invoke

DATA = "synthetic:mslr:queries=40"
QUICK = ("--k", 5, "--max-epochs", 3, "--learning-rate", 10, "--folds", 2)


@pytest.fixture(scope="module")
def clicks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("auto")
    invoke("train", DATA, "--loss", "arp-hinge", "--max-epochs", 2, "--share", 0.2, "--out", folder / "production")
    invoke(
        "simulate", DATA, "--logger", folder / "production", "--policy", "replace-last:k=5", "--n-sessions", 2000,
        "--out", folder / "clicks",
    )  # fmt: skip
    return folder / "clicks"


def test_auto_shows_what_it_tried(clicks, tmp_path):
    found = as_json("train", DATA, "--clicks", clicks, "--estimator", "auto", *QUICK, "--out", tmp_path / "ranker")
    assert found["estimator"] == "auto"
    assert found["parts"] == "train and validation"
    assert len(found["trials"]) == 7
    assert [each["estimator"] for each in found["trials"] if each["kept"]]
    assert found["chosen"]["estimator"] in {each["estimator"] for each in found["trials"] if each["kept"]}
    assert "of 7 candidates" in found["why"]
    assert "ridge" in found["relevance"]
    shown = invoke("evaluate", tmp_path / "ranker", DATA, "--json")
    assert "dcg@5" in shown.stdout


def test_the_table_and_the_reasons(clicks, tmp_path):
    arguments = ("--estimator", "auto", *QUICK, "--validation", "none", "--out", tmp_path / "ranker")
    result = invoke("train", DATA, "--clicks", clicks, *arguments)
    assert "What was tried" in result.stdout
    assert "policy-aware" in result.stdout
    assert "Cross-validation with" in result.stderr


FIXED = [
    (("direct",), {}),
    (("doubly-robust", "--tau", 0.2), {"tau": 0.2}),
    (("shrinkage", "--strength", 3), {"strength": 3.0}),
    (("shrinkage", "--relevance-model", "ridge", "--policy", "estimated", "--examination", "inverse-rank:eta=1"), None),
]


@pytest.mark.parametrize(("options", "settings"), FIXED)
def test_a_named_estimator(clicks, tmp_path, options, settings):
    found = as_json("train", DATA, "--clicks", clicks, "--estimator", *options, *QUICK, "--out", tmp_path / "ranker")
    assert found["estimator"] == options[0]
    assert [each["estimator"] for each in found["trials"]] == [options[0]]
    if settings is not None:
        assert settings.items() <= found["chosen"].items()


def test_trust_bias(clicks, tmp_path):
    curves = ("--alpha", "0.9,0.4,0.3,0.2,0.1", "--beta", "0.05,0.05,0.04,0.03,0.02")
    arguments = ("--estimator", "auto", *curves, *QUICK, "--out", tmp_path / "ranker")
    assert len(as_json("train", DATA, "--clicks", clicks, *arguments)["trials"]) == 7


WRONG = [
    (
        ("--estimator", "policy-aware", "--tau", 0.1),
        "--tau 0.1: policy-aware has no tau, a hyperparameter of auto, doubly-robust; leave it out",
    ),
    (("--estimator", "naive", "--folds", 3), "--folds: naive has no relevance model"),
    (("--estimator", "auto", "--folds", 1), "--folds 1: expected a whole number of at least 2"),
    (("--estimator", "auto", "--clip", "auto"), "--clip auto"),
    (
        ("--estimator", "direct", "--tau", 0.1),
        "--tau 0.1: direct has no tau, a hyperparameter of auto, doubly-robust; leave it out",
    ),
    (("--estimator", "auto", "--alpha", "0.9"), "--alpha, --beta: expected both"),
    (("--estimator", "auto", "--relevance-model", "forest"), "--relevance-model forest: expected one of 'ridge'"),
    (("--estimator", "best"), "--estimator best"),
    (("--estimator", "auto", "--alpha", "0.9,a", "--beta", "0.1,0.1"), "--alpha a: expected a number"),
    (
        ("--estimator", "auto", "--alpha", "0.9", "--beta", "0", "--examination", "inverse-rank"),
        "--examination: --alpha takes its place",
    ),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_what_does_not_go_together(clicks, tmp_path, options, message):
    with pytest.raises(CounterrankError, match=re.escape(message)):
        attempt("train", DATA, "--clicks", clicks, *options, "--out", tmp_path / "ranker")
    assert not (tmp_path / "ranker").exists()


def test_auto_needs_clicks(tmp_path):
    with pytest.raises(CounterrankError, match="requires --clicks or --log"):
        attempt("train", DATA, "--estimator", "auto", "--out", tmp_path / "ranker")
