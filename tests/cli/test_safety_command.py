"""train --production, and specialise."""

import json

import numpy as np
import pytest

import counterrank as cr
from counterrank.training import Ranker
from tests.support.command import as_json, attempt, invoke, run

DATA = "synthetic:mslr:queries=60"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A poor production ranker, clicks on its pages, and others to test on."""
    path = tmp_path_factory.mktemp("safety")
    invoke("train", DATA, "--share", "0.2", "--loss", "arp-hinge", "--max-epochs", 1, "--validation", "none",
           "--out", path / "production")  # fmt: skip
    for seed, name in enumerate(("clicks", "later")):
        invoke("simulate", DATA, "--logger", path / "production", "--policy", "uniform-insert:k=5", "--n-sessions",
               20_000, "--displays", "--seed", seed, "--out", path / name)  # fmt: skip
    invoke("simulate", DATA, "--logger", path / "production", "--policy", "uniform-insert:k=5", "--n-sessions", 2_000,
           "--as-log", "--out", path / "log")  # fmt: skip
    return path


def auto(folder, out, *more):
    return ("train", DATA, "--clicks", folder / "clicks", "--estimator", "auto", "--k", 5, "--max-epochs", 3,
            "--folds", 2, "--out", out, *more)  # fmt: skip


def test_train_says_what_replaces_production(folder, tmp_path):
    shown = run(*auto(folder, tmp_path / "ranker", "--production", folder / "production", "--safety", "0.8"))
    assert shown.returncode == 0, shown.stderr
    assert "Blends with production" in shown.stdout
    assert "returned" in shown.stdout
    assert "advice" in shown.stderr
    found = as_json(*auto(folder, tmp_path / "again", "--production", folder / "production"))
    assert [each["weight"] for each in found["blends"]] == [0.5, 0.75, 1.0]
    assert (found["safety"], found["evidence"]) == (0.95, "model-assisted")
    saved = Ranker.load(tmp_path / "again")
    assert saved.provenance_["safety"]["weight"] == found["weight"]


def test_production_may_be_scores(folder, tmp_path):
    """Of training and validation queries in one file; the bounds are those of the ranker that gave them."""
    run_file = tmp_path / "scores.parquet"
    production, fold = Ranker.load(folder / "production"), cr.open_data(DATA)
    import pyarrow as pa
    import pyarrow.parquet

    rows = [
        {"query_id": query, "doc_id": document, "score": score}
        for part in (fold.train, fold.validation)
        for query, document, score in zip(
            np.repeat(part.query_ids, part.lengths).tolist(),
            part.doc_ids.tolist(),
            production.predict(part).tolist(),
            strict=True,
        )
    ]
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows), run_file)
    by_scores = as_json(*auto(folder, tmp_path / "a", "--production", run_file))
    by_ranker = as_json(*auto(folder, tmp_path / "b", "--production", folder / "production"))
    assert by_scores["blends"] == by_ranker["blends"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--estimator", "policy-aware", "--production", "P"], "--production: policy-aware is not cross-validated"),
        (["--production", "P", "--safety", "2"], "safety"),
        (["--production", "P", "--evidence", "none"], "evidence"),
        (["--production", "missing"], "missing"),
    ],
)
def test_wrong_options_of_train(folder, tmp_path, options, message):
    given = [folder / "production" if word == "P" else word for word in options]
    found = run(*auto(folder, tmp_path / "ranker", *given))
    assert found.returncode == 2
    assert message in found.stderr
    assert not (tmp_path / "ranker").exists()


def test_specialise(folder, tmp_path):
    out = tmp_path / "special"
    how = ("--clicks", folder / "clicks", "--policy", "uniform-insert:k=5", "--logger", folder / "production")
    found = as_json("specialise", folder / "production", DATA, *how, "--test-clicks", folder / "later", "--out", out)
    assert 0 < found["used"] <= found["tested"]
    assert sum(each["used"] for each in found["tests"]) == found["used"]
    assert Ranker.load(out).kind_ == "specialised"
    shown = invoke("specialise", folder / "production", DATA, *how, "--test-clicks", folder / "later", "--out", out,
                   "--force")  # fmt: skip
    assert "tested queries get rankings of their own" in shown.stdout
    assert "dcg@5" in invoke("evaluate", out, DATA, "--part", "train").stdout
    invoke("rank", out, DATA, "--part", "train", "--out", tmp_path / "run.trec")
    assert "specialised" in run("explain", out).stderr
    refused = run("export", out, "--to", "json", "--out", tmp_path / "model.json")
    assert refused.returncode == 2
    assert "rankings of their own" in refused.stderr
    same = run("specialise", folder / "production", DATA, *how, "--test-clicks", folder / "clicks", "--out", out,
               "--force")  # fmt: skip
    assert "--test-clicks: sessions that are among clicks too" in same.stderr
    assert (
        "not given; expected click counts"
        in run("specialise", folder / "production", DATA, *how, "--out", tmp_path / "b").stderr
    )


def test_specialise_from_a_log(folder, tmp_path):
    out = tmp_path / "special"
    found = attempt("specialise", folder / "production", DATA, "--log", folder / "log", "--hold-out-sessions", "0.5",
                    "--policy", "uniform-insert:k=5", "--logger", folder / "production", "--examination",
                    "inverse-rank:eta=1", "--min-sessions", 5, "--out", out, "--json")  # fmt: skip
    assert found.exit_code == 0, found.output
    tests = json.loads(found.stdout)["tests"]
    assert tests
    assert all(each["sessions"] + each["held_out_sessions"] < 200 for each in tests)
