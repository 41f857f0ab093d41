"""`--users`: users fitted to the log, by default and when asked for, and read from a file."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
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


def test_inspect_fits_them_as_train_does_in_short_lines(moving):
    shown = ("--data", FOLD, "--policy", "uniform-insert:k=4", "--logger", "feature:1")
    result = invoke("inspect", moving, *shown)
    assert max(map(len, result.stdout.splitlines())) <= 120
    words = " ".join(result.stdout.replace("│", " ").split())
    assert "With users fitted to the log: " in words
    assert "policy-aware no" not in words


def test_train_names_auto_where_clicks_are_few(moving, fixed, saved, tmp_path):
    few = ("train", FOLD, "--log", fixed, *QUICK, "--users", saved, "--force", "--out", tmp_path / "ranker")
    assert "clicks a query are few for policy-aware" in (said := invoke(*few).stderr)
    assert "--estimator auto" in said
    assert "clicks a query" not in invoke(*few, "--estimator", "policy-aware").stderr
    many = ("train", FOLD, "--log", moving, *QUICK, "--force", "--out", tmp_path / "ranker")
    assert "clicks a query" not in invoke(*many).stderr


def test_estimate_and_select_fit_users_too(moving, tmp_path):
    invoke("train", FOLD, "--log", moving, *QUICK, "--out", tmp_path / "ranker")
    result = invoke("estimate", tmp_path / "ranker", FOLD, "--log", moving)
    assert "Note: users fitted to the log: " in result.stderr  # 16 queries: which users is not sure
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
        (("--users", "nowhere.json"), "--users nowhere.json: no such file; expected auto, features, or a file"),
        (("--users", "auto", "--estimator", "naive"), "--users: naive does not correct for trust bias; expected --est"),
    ],
)
def test_what_does_not_go_together(fixed, tmp_path, options, message):
    with pytest.raises(CounterrankError, match=message):
        attempt("train", FOLD, "--log", fixed, *QUICK, *options, "--out", tmp_path / "ranker")


SEQUENTIAL = {
    "browsing": examination.Browsing([[1.0], [0.5, 0.7], [0.3, 0.4, 0.6]]),
    "dependent": examination.Dependent([0.4, 0.7]),
}


@pytest.mark.parametrize("model", SEQUENTIAL)
def test_users_whose_clicks_depend_on_each_other(tmp_path, model):
    """The commands count the log, or simulate, with what these users need; click counts without it are refused."""
    data, users = "synthetic:yahoo:queries=40,seed=1", tmp_path / "users.json"
    SEQUENTIAL[model].save(users)
    shown = ("--logger", "feature:1", "--policy", "uniform-insert:k=3", "--users", users)
    log, counts = tmp_path / "log", tmp_path / "counts"
    plain = ("--n-sessions", 3000, "--no-propensities", "--as-log")
    invoke("simulate", data, *shown, *plain, "--out", log)
    invoke("simulate", data, *shown, "--n-sessions", 3000, "--out", counts)
    given, quick = ("--users", users), ("--k", 3, "--max-epochs", 2, "--learning-rate", 1, "--force")
    out = ("--out", tmp_path / "ranker")
    invoke("train", data, "--log", log, *given, *quick, "--estimator", "policy-aware", *out)
    users_of_ranker = cr.Ranker.load(tmp_path / "ranker").provenance_["users"]
    assert users_of_ranker == SEQUENTIAL[model].describe()
    invoke("train", data, "--clicks", counts, *given, *quick, "--estimator", "shrinkage", "--folds", 2, *out)
    for method in ("ips", "dr"):
        how = ("--part", "train", "--in-sample", "--metrics", "dcg@3", "--method", method)
        found = as_json("estimate", tmp_path / "ranker", data, "--log", log, *given, *how)
        assert found["estimates"]["dcg@3"]["propensities"] == "realised"
    invoke("select", data, tmp_path / "ranker", "--log", log, *given, "--metric", "dcg@3", "--part", "train",
           "--in-sample")  # fmt: skip
    rates = [as_json("rates", source, "--data", data, *given)["top"] for source in (log, log / "train.parquet")]
    assert rates[0] == rates[1]
    keeps = ("--last-clicks", "--displays")
    invoke("aggregate", log, "--data", data, *keeps, "--out", tmp_path / "kept")
    assert as_json("rates", tmp_path / "kept", "--data", data, *given)["top"] == rates[0]
    invoke("aggregate", log, "--data", data, "--out", tmp_path / "lacking")
    with pytest.raises(CounterrankError, match=r"counted without the rank of the last click above, .*--last-clicks"):
        attempt("train", data, "--clicks", tmp_path / "lacking", *given, *quick, *out)


def test_curves_by_context_are_fitted_where_nothing_says_how_users_click(tmp_path):
    data, tables = cr.make_ranking_data("yahoo", 40, seed=1), []
    for i, (device, curve) in enumerate({"pc": [1.0, 0.6, 0.4], "phone": [0.8, 0.2, 0.1]}.items()):
        file = tmp_path / f"{device}.parquet"
        simulation.write_log(data, data.features[:, 0], policies.UniformInsert(3), curve, file, sessions=8000, seed=i,
                             first_session=8000 * i, propensities=False, threads=1)  # fmt: skip
        table = pq.read_table(file)
        tables.append(table.append_column("device", pa.array([device] * len(table))))
    log = tmp_path / "log.parquet"
    pq.write_table(pa.concat_tables(tables), log)
    source = ("synthetic:yahoo:queries=40,seed=1", "--log", log, "--context", "device")
    result = invoke("train", *source, *QUICK, "--out", tmp_path / "ranker")
    assert result.stderr.count("Note: users fitted to the log: by-context, ") == 1
    assert "pc: 1, " in result.stderr
    assert cr.Ranker.load(tmp_path / "ranker").provenance_["users"]["model"] == "by-context"
    how = ("--part", "train", "--in-sample", "--metrics", "dcg@3")
    found = as_json("estimate", tmp_path / "ranker", *source, *how)
    assert found["estimates"]["dcg@3"]["users"].startswith("users fitted to the log: by-context, ")


def test_an_estimated_curve_in_a_file_makes_logged_propensities_stale(tmp_path):
    log = write(tmp_path, policies.UniformInsert(4), 3000, propensities=True)
    invoke("inspect", log, "--data", FOLD, "--examination-out", tmp_path / "curve.json")
    for curve, notes in ((tmp_path / "curve.json", 1), ("inverse-rank:eta=1", 0)):
        named = ("--examination", curve, "--out", tmp_path / f"ranker{notes}")
        result = invoke("train", FOLD, "--log", log, *QUICK, *named)
        assert result.stderr.count("were computed with another user model than the one given") == notes


def test_features_link_ranks_of_a_fixed_order(tmp_path):
    log = write(tmp_path, policies.ReplaceLast(4), 60_000)
    named = ("--users", "features", "--out", tmp_path / "ranker")
    result = invoke("train", FOLD, "--log", log, *QUICK, *named)
    assert "Note: users fitted to the log: affine, alpha " in result.stderr
    assert "documents with like features link ranks" in result.stderr
