"""The command, run as a user runs it: in a process of its own for exit codes and streams, in this one for the rest."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank.data.sources import choose_part, open_data
from tests.support.command import as_json, invoke, run, run_process
from tests.support.paths import ROOT

SMALL = "synthetic:yahoo:queries=60,seed=1"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("cli") / "ranker"
    invoke("train", SMALL, "--loss", "lambdaloss-truncated", "--k", 5, "--max-epochs", 5, "--out", out)
    return out


@pytest.mark.process
@pytest.mark.representative
def test_version():
    result = run_process("--version")
    assert (result.returncode, result.stdout) == (0, f"counterrank {cr.__version__}\n")


@pytest.mark.parametrize("command", ["demo", "simulate", "inspect", "train", "evaluate", "estimate", "select", "rank"])
def test_help_shows_an_example(command):
    assert f"Example: counterrank {command}" in invoke(command, "--help").output


def test_help_names_every_loss():
    text = invoke("train", "--help").output
    assert all(name in text for name in cr.losses.LOSSES)


def test_train_saves_a_ranker_that_equals_the_library_s(trained):
    fold = cr.make_fold("yahoo", 60, seed=1)
    weigh = cr.estimators.full_information
    same = cr.Ranker(loss="lambdaloss-truncated", k=5, max_epochs=5).fit(
        fold.train, weigh(fold.train), validation=(fold.validation, weigh(fold.validation))
    )
    np.testing.assert_array_equal(cr.Ranker.load(trained).predict(fold.test), same.predict(fold.test))


def test_evaluate_prints_what_the_library_computes(trained):
    test = cr.make_fold("yahoo", 60, seed=1).test
    expected = cr.evaluation.evaluate(cr.Ranker.load(trained).predict(test), test)
    printed = json.loads(invoke("evaluate", trained, SMALL, "--json").stdout)
    assert printed["metrics"] == pytest.approx(expected)
    table = invoke("evaluate", trained, SMALL, "--metrics", "dcg@5,mrr").stdout
    assert f"{expected['dcg@5']:.4f}" in table
    assert "mrr" in table
    assert "ndcg" not in table


def test_rank_writes_a_trec_run_and_parquet(trained, tmp_path):
    test = cr.make_fold("yahoo", 60, seed=1).test
    scores = cr.Ranker.load(trained).predict(test)
    invoke("rank", trained, SMALL, "--out", tmp_path / "run.trec", "--depth", 3, "--tag", "mine")
    rows = [line.split() for line in (tmp_path / "run.trec").read_text().splitlines()]
    assert len(rows) == np.minimum(test.lengths, 3).sum()
    first = np.argmax(scores[: test.offsets[1]])
    assert rows[0] == [str(test.query_ids[0]), "Q0", str(first), "1", repr(float(scores[first])), "mine"]
    invoke("rank", trained, SMALL, "--out", tmp_path / "run.parquet")
    table = pq.read_table(tmp_path / "run.parquet")
    assert table.num_rows == test.n_docs
    for start, end in zip(test.offsets[:-1], test.offsets[1:], strict=True):
        order = np.argsort(-scores[start:end], kind="stable")
        assert table["doc_id"].to_numpy()[start:end].tolist() == order.tolist()
        assert table["rank"].to_numpy()[start:end].tolist() == list(range(1, end - start + 1))


def test_rank_refuses_what_would_break_a_trec_run(trained, tmp_path):
    assert "--tag two words" in run("rank", trained, SMALL, "--out", tmp_path / "r", "--tag", "two words").stderr
    rows = cr.evaluation.ranked_rows([1.0], cr.RankingData([[1.0]], [0, 1], doc_ids=["a b"]))
    with pytest.raises(cr.CounterrankError, match="'a b': nothing or white space breaks a TREC run"):
        cr.evaluation.write_run(rows, tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_demo_shows_what_item_selection_bias_does(tmp_path):
    out = tmp_path / "demo.html"
    content = json.loads(invoke("demo", "--shape", "mslr", "--queries", 300, "--out", out, "--json").stdout)
    dcg = {name: values["dcg@5"] for name, values in content["metrics"].items()}
    assert dcg["random order"] < dcg["production"] < dcg["full-information"]
    assert max(dcg["naive"], dcg["policy-oblivious"]) < dcg["policy-aware"]
    assert content["production_queries"] == 3
    assert content["gap_closed"]["full-information"] == 1.0
    assert content["clicks"] >= 10**7
    found_again = content["buried"]["share_on_first_5"]
    assert found_again["production"] == 0.0
    assert max(found_again["naive"], found_again["policy-oblivious"]) < found_again["policy-aware"]
    assert content["report"] == str(out)
    assert "What a page of five results hides" in out.read_text()


def test_train_on_a_share_from_one_file_without_validation(tmp_path):
    data = cr.make_ranking_data("yahoo", 40)
    data.save(tmp_path / "all.parquet")
    output = invoke(
        "train", tmp_path / "all.parquet", "--loss", "arp-hinge", "--share", 0.5, "--max-epochs", 2,
        "--learning-rate", 0.1, "--out", tmp_path / "r", "--json",
    ).stdout  # fmt: skip
    summary = json.loads(output)
    assert (summary["queries"], summary["epochs"], summary["validation"]) == (20, 2, None)
    assert summary["learning_rate"] == 0.1


def test_sparse_files_of_unequal_width_can_be_evaluated(tmp_path):
    (tmp_path / "train.txt").write_text("1 qid:1 1:1 3:1\n0 qid:1 2:1\n")
    (tmp_path / "later.txt").write_text("1 qid:1 1:1\n0 qid:1 2:1\n")
    invoke(
        "train", tmp_path / "train.txt", "--relevance-threshold", 1, "--max-epochs", 2, "--out", tmp_path / "r",
        "--validation", tmp_path / "later.txt",
    )  # fmt: skip
    values = json.loads(
        invoke("evaluate", tmp_path / "r", tmp_path / "later.txt", "--relevance-threshold", 1, "--json").stdout
    )
    assert values["metrics"]["mrr"] == 1.0


def letor(features, n_queries=4):
    """Queries of three documents; `features(query, document)` gives a list of values."""
    lines = [
        f"{4 * (d == 1)} qid:{q} " + " ".join(f"{f}:{x}" for f, x in enumerate(features(q, d), 1))
        for q in range(n_queries)
        for d in range(3)
    ]
    return "\n".join(lines) + "\n"


def test_constant_features_are_shown_by_train_and_explain(tmp_path):
    (tmp_path / "data.txt").write_text(letor(lambda q, d: [q, d, *[1] * 12, d * q]))
    fixed = ("train", tmp_path / "data.txt", "--max-epochs", 2)
    numbers = [1, *range(3, 12)]
    found = as_json(*fixed, "--out", tmp_path / "found")["constant_features"]
    assert found == {"count": 13, "first": numbers}
    assert as_json("explain", tmp_path / "found")["constant_features"] == found
    words = "13: 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, ..."
    assert re.search(rf"constant features +│ +{words} +│", invoke(*fixed, "--out", tmp_path / "shown").stdout)
    shown = invoke("explain", tmp_path / "shown").stdout
    assert f"Features that never vary within a query of the training data: {words}\n" in shown


def test_without_constant_features_or_without_knowing(tmp_path):
    (tmp_path / "data.txt").write_text(letor(lambda q, d: [d, -d * q]))
    fixed = ("train", tmp_path / "data.txt", "--max-epochs", 2)
    assert as_json(*fixed, "--out", tmp_path / "a")["constant_features"] == {"count": 0, "first": []}
    assert re.search(r"constant features +│ +none +│", invoke(*fixed, "--out", tmp_path / "b").stdout)
    assert "never vary" not in invoke("explain", tmp_path / "a").stdout
    content = json.loads((tmp_path / "a" / "model.json").read_text())
    del content["constant_features"]  # as version 0.1 wrote it
    (tmp_path / "a" / "model.json").write_text(json.dumps(content))
    assert as_json("explain", tmp_path / "a")["constant_features"] is None
    assert "never vary" not in invoke("explain", tmp_path / "a").stdout


def test_nothing_but_constant_features_is_bad_input(tmp_path):
    (tmp_path / "data.txt").write_text(letor(lambda q, d: [q, 7]))
    result = run("train", tmp_path / "data.txt", "--out", tmp_path / "ranker")
    assert result.returncode == 2
    assert "none of the features (2) varies within any query (4), so no model can order documents" in result.stderr
    assert not (tmp_path / "ranker").exists()


def test_an_occupied_folder_is_refused_before_anything_is_read(tmp_path):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").write_text("mine")
    result = run("train", "nowhere", "--out", tmp_path / "taken")
    assert "it is left untouched" in result.stderr


def test_names_that_look_like_markup_are_printed_as_they_are(tmp_path):
    out = tmp_path / "r[red]x"
    output = invoke("train", SMALL, "--loss", "arp-hinge", "--max-epochs", 1, "--learning-rate", 1, "--out", out)
    assert "r[red]x" in output.stdout.replace("\n", "")


def test_without_arguments_the_command_explains_itself():
    result = run()
    assert result.returncode == 0
    assert "Usage" in result.stdout


def test_a_ranker_folder_with_other_files_is_left_alone(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "mine")
    (tmp_path / "mine" / "notes.txt").write_text("precious")
    result = run("train", SMALL, "--max-epochs", 1, "--out", tmp_path / "mine")
    assert result.returncode == 2
    assert "mine: holds notes.txt, which would be lost" in result.stderr
    assert (tmp_path / "mine" / "notes.txt").read_text() == "precious"


def test_links_are_followed_and_pipes_refused(trained, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target.trec")
    invoke("rank", trained, SMALL, "--out", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target.trec").stat().st_size > 0
    os.mkfifo(tmp_path / "pipe")
    result = run("rank", trained, SMALL, "--out", tmp_path / "pipe")
    assert "pipe: is a device or a pipe, expected a file to write" in result.stderr


def test_fewer_features_are_filled_up_with_a_note(trained, tmp_path):
    narrow = cr.RankingData(np.eye(3), [0, 3], labels=[4, 0, 0])
    narrow.save(tmp_path / "narrow.parquet")
    result = invoke("evaluate", trained, tmp_path / "narrow.parquet", "--json")
    assert "has 3 features, the ranker 700; those that are missing count as 0" in result.stderr


@pytest.mark.process
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_stopped_command_leaves_nothing_behind(trained, tmp_path, name):
    """Stopped while it writes: the writing is slowed down so that the signal arrives in its midst."""
    code = (
        "import sys, time, pyarrow.csv as csv; real = csv.write_csv\n"
        "def slow(table, stream, options):\n"
        "    stream.write(b'half'); print('writing', flush=True); time.sleep(60)\n"
        "csv.write_csv = slow\n"
        "from counterrank.cli import main; sys.argv[1:] = sys.argv[1:]; main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "rank", trained, SMALL, "--out", tmp_path / "run.csv"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"writing\n"
    process.send_signal(getattr(signal, name))
    process.communicate(timeout=60)
    assert process.returncode == 128 + getattr(signal, name)
    assert list(tmp_path.iterdir()) == []


def test_missing_parts_are_named(tmp_path):
    (tmp_path / "train.txt").write_text("1 qid:1 1:1\n")
    (tmp_path / "test.txt").write_text("1 qid:1 1:1\n")
    fold = open_data(str(tmp_path))
    with pytest.raises(cr.CounterrankError, match="has no validation part"):
        choose_part(fold, "validation", str(tmp_path))


def test_the_makefile_names_what_the_readme_promises():
    makefile = (ROOT / "Makefile").read_text()
    for target in ("demo", "test", "lint", "bench", "clean"):
        assert f"\n{target}:" in makefile
