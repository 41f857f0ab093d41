"""`--users`: users fitted to the log, by default and when asked for, and read from a file."""

import json

import pytest

import counterrank as cr
from counterrank import examination, policies, simulation
from counterrank.clicks.simulation import trust_bias
from counterrank.common.errors import CounterrankError
from tests.support.command import as_json, attempt, invoke

FOLD = "synthetic:mslr:queries=80,seed=1"
THETA = [1.0, 0.5, 0.3, 0.2]
QUICK = ("--k", 4, "--max-epochs", 2, "--learning-rate", 1)
MODEL = trust_bias(4, strength=1.0, relevant=0.95, other=0.05)
USERS = examination.Affine(*MODEL.affine(THETA, 4))


def write(folder, policy, sessions=6000, **more):
    fold, first = cr.make_fold("mslr", 80, seed=1), 0
    for name, part in (("train", fold.train), ("validation", fold.validation), ("test", fold.test)):
        simulation.write_log(
            part, part.features[:, 0], policy, THETA, folder / f"{name}.parquet", sessions=sessions, seed=len(name),
            click_model=MODEL, relevance_threshold=2, first_session=first, threads=1, **{"propensities": False} | more,
        )  # fmt: skip
        first += sessions
    return folder


@pytest.fixture(scope="module")
def moving(tmp_path_factory):
    return write(tmp_path_factory.mktemp("moving"), policies.UniformInsert(4))


@pytest.fixture(scope="module")
def fixed(tmp_path_factory):
    return write(tmp_path_factory.mktemp("fixed"), policies.ReplaceLast(4), 500)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    file = tmp_path_factory.mktemp("users") / "users.json"
    USERS.save(file)
    return file


def test_train_fits_users_to_both_parts_where_nothing_says_how_they_click(moving, tmp_path):
    result = invoke("train", FOLD, "--log", moving, *QUICK, "--out", tmp_path / "ranker")
    assert result.stderr.count("Note: users fitted to the log: affine, alpha ") == 1
    users = cr.Ranker.load(tmp_path / "ranker").provenance_["users"]
    assert users["sentence"] in result.stderr
    assert users["model"] == "affine"
    assert users["alpha"] == pytest.approx(USERS.alpha, abs=0.12)
    found = as_json("train", FOLD, "--log", moving, *QUICK, "--users", "auto", "--out", tmp_path / "again")
    assert found["users"] == users


def test_estimate_and_select_fit_users_too(moving, tmp_path):
    invoke("train", FOLD, "--log", moving, *QUICK, "--out", tmp_path / "ranker")
    result = invoke("estimate", tmp_path / "ranker", FOLD, "--log", moving)
    assert "Note: users fitted to the log: affine" in result.stderr
    found = as_json("estimate", tmp_path / "ranker", FOLD, "--log", moving, "--metrics", "dcg@4")
    assert found["estimates"]["dcg@4"]["users"] in result.stderr
    losses = ("--losses", "dcg-hinge,lambdaloss-truncated", "--k", 4)
    selected = invoke("select", FOLD, "--log", moving, *losses, "--metric", "dcg@4", "--out", tmp_path / "best")
    assert selected.stderr.count("Note: users fitted to the log: affine") == 1
    assert cr.Ranker.load(tmp_path / "best").provenance_["users"]["model"] == "affine"


def test_a_log_that_identifies_nothing(fixed, tmp_path):
    with pytest.raises(CounterrankError, match=r"requires the propensity of each document .*counterrank inspect LOG"):
        attempt("train", FOLD, "--log", fixed, *QUICK, "--out", tmp_path / "ranker")
    with pytest.raises(CounterrankError, match=r"--users auto: cannot be fitted to this log \(clicks: no clicked doc"):
        attempt("train", FOLD, "--log", fixed, *QUICK, "--users", "auto", "--out", tmp_path / "ranker")


@pytest.mark.parametrize("option", ["--users", "--examination"])
def test_a_user_model_in_a_file(fixed, saved, tmp_path, option):
    given = (option, saved)
    result = invoke("train", FOLD, "--log", fixed, *QUICK, *given, "--out", tmp_path / "ranker")
    assert "users fitted" not in result.stderr
    provenance = json.loads((tmp_path / "ranker" / "model.json").read_text())["provenance"]
    assert provenance["users"]["alpha"] == USERS.alpha.tolist()
    auto = ("--estimator", "auto", "--folds", 2, "--force")
    invoke("train", FOLD, "--log", fixed, *QUICK, *given, *auto, "--out", tmp_path / "ranker")
    found = as_json("estimate", tmp_path / "ranker", FOLD, "--log", fixed, *given, "--metrics", "dcg@4")
    assert found["estimates"]["dcg@4"]["propensities"] == "realised"
    invoke("select", FOLD, tmp_path / "ranker", "--log", fixed, *given, "--metric", "dcg@4", "--part", "test")


def test_logged_propensities_are_ignored_with_one_note(saved, tmp_path):
    log = write(tmp_path, policies.UniformInsert(4), 500, propensities=True)
    for estimator in ("policy-aware", "auto"):
        named = ("--estimator", estimator, "--users", saved, "--out", tmp_path / estimator)
        result = invoke("train", FOLD, "--log", log, *QUICK, *named)
        assert result.stderr.count("were computed with another user model than the one given, and are ignored") == 1
    known = ("--policy", "uniform-insert:k=4", "--logger", "feature:1", "--users", saved, "--out", tmp_path / "known")
    assert "another user model" not in invoke("train", FOLD, "--log", log, *QUICK, *known).stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--users", "auto", "--examination", "1,0.5"), "--users, --examination: expected one of the two"),
        (("--users", "auto", "--alpha", "1,0.5", "--beta", "0,0"), "--users, --alpha: expected one of the two"),
        (("--users", "nowhere.json"), "--users: nowhere.json: no such examination curve"),
        (("--users", "auto", "--estimator", "naive"), "--users: naive does not correct for trust bias; expected --est"),
    ],
)
def test_what_does_not_go_together(fixed, tmp_path, options, message):
    with pytest.raises(CounterrankError, match=message):
        attempt("train", FOLD, "--log", fixed, *QUICK, *options, "--out", tmp_path / "ranker")


@pytest.mark.parametrize("option", ["--users", "--examination"])
@pytest.mark.parametrize(
    "users",
    [
        examination.Browsing([[1.0], [0.5, 0.7], [0.3, 0.4, 0.6], [0.2, 0.3, 0.4, 0.5]]),
        examination.Dependent([0.8, 0.7, 0.6, 0.5]),
    ],
    ids=["browsing", "dependent"],
)
def test_a_log_is_counted_by_last_clicks_for_users_of_dependent_clicks(moving, tmp_path, users, option):
    users.save(tmp_path / "users.json")
    known = ("--policy", "uniform-insert:k=4", "--logger", "feature:1")
    options = ("--log", moving, option, tmp_path / "users.json", *known)
    invoke("train", FOLD, *options, *QUICK, "--out", tmp_path / "ranker")
    assert cr.Ranker.load(tmp_path / "ranker").provenance_["users"]["model"] == type(users).__name__.lower()
