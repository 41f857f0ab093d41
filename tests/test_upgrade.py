"""Files written by version 0.1 are read, and mean what they meant.

`tests/fixtures/write_v0_1.py` wrote them, with what that version said about them in `expected.json`.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import counterrank as cr
from counterrank import estimators, evaluation, examination
from tests.support.command import run as cli

FILES = Path(__file__).parent / "fixtures" / "v0_1"
EXPECTED = json.loads((FILES / "expected.json").read_text(encoding="utf-8"))
EXAM = examination.inverse_rank(k=3)
FOLD = "synthetic:yahoo:queries=30,seed=1"


@pytest.fixture(scope="module")
def data():
    return cr.RankingData.load(FILES / "data.parquet")


def command(*words, folder=None):
    done = cli(*words, "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def close(found, wanted, tolerance=1e-12):
    """Equal up to the tolerance, relative to the largest."""
    wanted = np.asarray(wanted, float)
    np.testing.assert_allclose(found, wanted, rtol=0.0, atol=tolerance * np.abs(wanted).max(initial=0.0))


def same_numbers(found, wanted, tolerance=1e-6):
    """All numbers of a JSON object are as they were; texts may be reworded, and keys may be added."""
    if isinstance(wanted, dict):
        for key in wanted.keys() - {"seconds"}:
            same_numbers(found[key], wanted[key], tolerance)
    elif isinstance(wanted, list):
        assert len(found) == len(wanted) or all(isinstance(each, str) for each in wanted)
        for one, other in zip(found, wanted, strict=False):
            same_numbers(one, other, tolerance)
    elif isinstance(wanted, bool) or wanted is None:
        assert found == wanted
    elif isinstance(wanted, int | float):
        assert found == pytest.approx(wanted, rel=tolerance)


def untrained(wanted):
    """What does not depend on the order of the queries in an epoch, which has changed since."""
    trained = ("learning_rate", "step_size", "best_epoch", "validation", "metrics")
    return {key: value for key, value in wanted.items() if key not in trained}


def test_ranking_data(data):
    for name, wanted in EXPECTED["data"].items():
        np.testing.assert_array_equal(getattr(data, name), wanted)


# Rankers -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXPECTED["rankers"])
def test_rankers(name, data):
    pytest.importorskip({"mlp": "torch", "lambdamart": "lightgbm"}.get(name, "numpy"))
    ranker, wanted = cr.Ranker.load(FILES / "rankers" / name), EXPECTED["rankers"][name]
    scores = ranker.predict(data)
    close(scores, wanted["scores"], 1e-6 if name == "mlp" else 1e-12)
    assert np.array_equal(np.argsort(-scores, kind="stable"), np.argsort(-np.array(wanted["scores"]), kind="stable"))
    same_numbers(ranker.history_, wanted["history"], 1e-12)
    known = (ranker.best_epoch_, ranker.learning_rate_, ranker.loss_, ranker.metric_, ranker.k)
    assert known == tuple(wanted[key] for key in ("best_epoch", "learning_rate", "loss", "metric", "k"))
    if wanted["importances"] is not None:
        close(ranker.feature_importances_, wanted["importances"])


@pytest.mark.parametrize("name", EXPECTED["rankers"])
def test_what_rankers_were_learned_from(name):
    pytest.importorskip({"mlp": "torch", "lambdamart": "lightgbm"}.get(name, "numpy"))
    same_numbers(command("explain", FILES / "rankers" / name), EXPECTED["rankers"][name]["explained"])


def test_saved_again_a_ranker_is_the_same(data, tmp_path):
    cr.Ranker.load(FILES / "rankers" / "auto").save(tmp_path / "again")
    close(cr.Ranker.load(tmp_path / "again").predict(data), EXPECTED["rankers"]["auto"]["scores"])


def test_clicks_that_a_ranker_was_trained_on_are_known(data):
    ranker = cr.Ranker.load(FILES / "rankers" / "linear-clicks")
    used, other = (cr.ClickCounts.load(FILES / "counts" / name) for name in ("propensities", "displays"))
    with pytest.raises(cr.CounterrankError, match="in-sample"):
        evaluation.estimate(ranker, data, used, metrics=["dcg@3"])
    assert evaluation.estimate(ranker, data, other, metrics=["dcg@3"])["dcg@3"].in_sample is False


# Clicks --------------------------------------------------------------------------------------------------------------


def same_counts(clicks, wanted):
    for name in wanted.keys() - {"displays", "policy_aware", "policy_oblivious", "propensities"}:
        same(getattr(clicks, name), wanted[name])
    assert (clicks.propensities is None) == (wanted["propensities"] is None)
    if clicks.propensities is not None:
        close(clicks.propensities, wanted["propensities"])
    assert (clicks.displays is None) == (wanted["displays"] is None)
    if clicks.displays is not None:
        for name, values in wanted["displays"].items():
            same(getattr(clicks.displays, name), values)


def same(found, wanted):
    if wanted is None or isinstance(wanted, str | int):
        assert found == wanted
    else:
        assert np.asarray(found).tolist() == wanted


@pytest.mark.parametrize("name", EXPECTED["counts"])
def test_click_counts(name, data, tmp_path):
    clicks, wanted = cr.ClickCounts.load(FILES / "counts" / name), EXPECTED["counts"][name]
    clicks.check_data(data)
    same_counts(clicks, wanted)
    close(estimators.policy_oblivious(clicks, EXAM), wanted["policy_oblivious"])
    if "policy_aware" in wanted:
        close(estimators.policy_aware(clicks, exam=EXAM), wanted["policy_aware"])
    clicks.save(tmp_path / "again")
    same_counts(cr.ClickCounts.load(tmp_path / "again"), wanted)


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl.gz"])
def test_click_logs(ending, data):
    same_counts(cr.read_log(FILES / "logs" / f"log.{ending}", data), EXPECTED["logs"]["plain"])
    same_counts(cr.read_log(FILES / "logs" / f"log.{ending}", data, displays=True), EXPECTED["logs"]["displays"])


def test_examination_curve():
    close(examination.load(FILES / "curve.json").curve(4), EXPECTED["curve"])


@pytest.mark.parametrize("name", ["run.csv", "run.parquet", "run.trec", "plain.npy"])
def test_scores(name, data):
    if name.endswith("trec"):  # which cannot hold ids with spaces
        data = cr.RankingData(data.features, data.offsets, data.labels, np.arange(data.n_queries), data.doc_ids)
    np.testing.assert_array_equal(cr.read_scores(FILES / "scores" / name, data), EXPECTED["scores"])


def test_files_are_understood_by_the_command(tmp_path):
    data, counts = FILES / "data.parquet", FILES / "counts"
    given = ("--policy", "uniform-insert:k=3", "--logger", "feature:1", "--examination", FILES / "curve.json")
    options = ("--clicks", counts / "propensities", "--validation", "none", "--k", 3, "--max-epochs", 2)
    found = command("train", data, *options, *given, "--out", tmp_path / "ranker")
    assert found["epochs"] == 2
    against = ("--against", FILES / "scores" / "run.csv", "--clicks", counts / "displays", "--metrics", "dcg@3")
    assert command("estimate", FILES / "rankers" / "linear", data, *against)


# The command's folders -----------------------------------------------------------------------------------------------


def test_clicks_of_a_fold(tmp_path):
    wanted = EXPECTED["fold"]
    # its logger is named relative to the folder that the command ran in
    same_numbers(command("inspect", "clicks", folder=FILES), wanted["inspect"])
    same_numbers(command("evaluate", FILES / "rankers" / "production", FOLD), wanted["evaluate"])
    options = ("--k", 5, "--max-epochs", 3, "--out", tmp_path / "ranker")
    same_numbers(command("train", FOLD, "--clicks", FILES / "clicks", *options), untrained(wanted["train"]))


def copied(name, folder):
    shutil.copytree(FILES / name, folder / name)
    return folder / name


def results(folder):
    lines = (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["key"]: row for row in map(json.loads, lines)}


def claims(folder):
    return json.loads((folder / "claims.json").read_text(encoding="utf-8"))


def same_claims(found, wanted):
    verdicts = [{each["id"]: each["verdict"] for each in one["claims"]} for one in (found, wanted)]
    assert verdicts[1].items() <= verdicts[0].items()


def test_a_run_is_reported_on(tmp_path):
    run = copied("run", tmp_path)
    (run / "claims.json").unlink()
    command("report", run)
    assert (run / "report.html").stat().st_size > 10_000
    same_claims(claims(run), claims(FILES / "run"))


def test_a_finished_run_has_nothing_left_to_do(tmp_path):
    run = copied("run", tmp_path)
    before = (run / "results.jsonl").read_bytes()
    command("reproduce", *EXPECTED["runs"]["options"], "--out", run)
    assert (run / "results.jsonl").read_bytes() == before
    same_claims(claims(run), claims(FILES / "run"))


def test_an_interrupted_run_goes_on(tmp_path):
    run, n = copied("run-interrupted", tmp_path), EXPECTED["runs"]["kept"]
    kept = (run / "results.jsonl").read_bytes().splitlines()[:n]
    done = cli(*("reproduce", *EXPECTED["runs"]["options"], "--out", run, "--json"))
    assert done.returncode == 0
    assert f"{n} of {n} results are by an older version" in " ".join(done.stderr.split())
    found = json.loads(done.stdout)
    assert found["cells"] == EXPECTED["runs"]["reproduce"]["cells"]
    assert (run / "results.jsonl").read_bytes().splitlines()[:n] == kept  # and only what was missing is trained
    wanted, rows = results(FILES / "run"), results(run)
    assert rows.keys() == wanted.keys()
    assert len((run / "results.jsonl").read_bytes().splitlines()) == len(wanted)
    for key, row in wanted.items():
        assert rows[key]["metrics"].keys() == row["metrics"].keys()
        same_numbers(rows[key], untrained(row))
    same_claims(claims(run), claims(FILES / "run"))
