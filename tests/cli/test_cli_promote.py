"""`counterrank promote`: from a log with held-out sessions to a pointer, and back."""

import json

import pytest

from tests.support.command import run

DATA = "synthetic:yahoo:queries=60"
POLICY = ("--policy", "uniform-insert:k=3", "--logger", "old", "--examination", "1,0.5,0.4")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A ranker in place, one learned from labels of the training queries, and a log of the pages of the first."""
    path = tmp_path_factory.mktemp("promote")
    labels = ("--estimator", "full-information", "--validation", "none", "--max-epochs", "5")
    for name, more in (("old", ("--share", "0.05", "--loss", "arp-hinge")), ("best", ("--k", "3"))):
        made = run("train", DATA, *labels, *more, "--out", name, folder=path)
        assert made.returncode == 0, made.stderr
    logged = run("simulate", DATA, *POLICY, "--n-sessions", "30000", "--as-log", "--out", "logs", folder=path)
    assert logged.returncode == 0, logged.stderr
    return path


def promote(folder, *arguments, log=("--log", "logs", "--hold-out-sessions", "0.5", *POLICY)):
    metric = () if "--metric" in arguments else ("--metric", "dcg@3")
    return run("promote", *arguments, *log, *metric, folder=folder)


def test_promote_sets_the_pointer_and_rollback_resets_it(folder):
    found = promote(folder, "best", DATA, "--against", "old", "--to", "live", "--json")
    assert found.returncode == 0, found.stderr
    about = json.loads(found.stdout)
    assert (about["deploy"], about["version"], about["exit_code"]) == (True, 2, 0)
    assert about["lower"] > 0.0
    assert set(about["candidates"][0]["levels"]) == {"finite-sample", "asymptotic", "model-assisted"}
    assert (folder / about["path"] / "model.json").is_file()
    again = promote(folder, "old", DATA, "--to", "live")
    assert again.returncode == 4, again.stderr
    assert "old is worse than" in again.stdout
    assert "asymptotic (required)" in again.stdout
    back = run("promote", "--rollback", "--to", "live", folder=folder)
    assert back.returncode == 0
    assert "serves version 1 again" in back.stdout
    assert json.loads((folder / "live" / "current.json").read_text())["current"] == 1
    assert run("promote", "--rollback", "--to", "live", folder=folder).returncode == 2


def test_held_out_sessions_are_not_those_of_training(folder):
    trained = run("train", DATA, "--log", "logs", "--hold-out-sessions", "0.5", *POLICY, "--estimator", "policy-aware",
                  "--max-epochs", "3", "--k", "3", "--out", "learned", folder=folder)  # fmt: skip
    assert trained.returncode == 0, trained.stderr
    found = promote(folder, "learned", DATA, "--against", "old", "--evidence", "model-assisted,asymptotic")
    assert found.returncode in (0, 3, 4), found.stderr
    seen = promote(folder, "learned", DATA, "--against", "old", log=("--log", "logs", *POLICY))
    assert seen.returncode == 2
    assert "was trained on or stopped by" in seen.stderr
    assert "--in-sample" in seen.stderr


def test_several_candidates_share_the_error_rate(folder):
    found = promote(folder, "best", DATA, "--also", "old", "--against", "old", "--json")
    about = json.loads(found.stdout)
    assert [each["ranker"] for each in about["candidates"]] == ["best", "old"]
    assert about["ranker"] == "best"
    assert about["candidates"][0]["levels"]["asymptotic"]["confidence"] == pytest.approx(0.975)


BAD = [
    (("best", DATA), "--against: requires the ranker that is in place"),
    (("best",), "RANKER, DATA: expected both, or --rollback with --to"),
    (("--rollback",), "--rollback: expected --to DIR, and no ranker or other options; --examination, --hold-out"),
    (("best", DATA, "--against", "old", "--confidence", "0.5"), "--confidence 0.5: expected a number between 0.5"),
    (("best", DATA, "--against", "old", "--evidence", "strong"), "--evidence"),
    (("best", DATA, "--against", "old", "--metric", "arp"), "is not per session"),
    (("best", DATA, "--against", "nothing"), "nothing: no such ranker or scores"),
    (("best", DATA, "--against", "old", "--confidence", "0.2"), "--confidence 0.2"),
    (("best", DATA, "--against", "old", "--hold-out-sessions", "1.5"), "--hold-out-sessions"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input_is_one_line(folder, arguments, message):
    found = promote(folder, *arguments, log=("--log", "logs", "--hold-out-sessions", "0.5", *POLICY)
                    if "--hold-out-sessions" not in arguments else ("--log", "logs", *POLICY))  # fmt: skip
    assert found.returncode == 2
    lines = [line for line in found.stderr.splitlines() if line.startswith("counterrank: ")]
    assert len(lines) == 1
    assert message in lines[0]
    assert "Read" not in found.stderr  # said before the log is read
