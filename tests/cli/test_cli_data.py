"""The commands on ranking data in Parquet and CSV: names of columns, splits, folds and partitions."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank import examination, policies, simulation
from counterrank.cli.command import in_flags
from counterrank.cli.options import ColumnMap, comma_separated
from counterrank.common.errors import CounterrankError
from tests.support.command import as_json, invoke, run

NAMES = ("--map", "query_id=q,doc_id=sku,label=grade")
SPLIT = ("--split", "0.6,0.2,0.2")
QUICK = ("--k", 5, "--max-epochs", 2, "--learning-rate", 1)
N_FEATURES = 12


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Shop data as one Parquet file, CSV, partitions and a fold; a ranker; logs with its names and standard ones."""
    folder = tmp_path_factory.mktemp("shop")
    data = cr.make_ranking_data("yahoo", n_queries=120, seed=1)
    table = data.to_arrow().select(["query_id", "doc_id", "label", *data.feature_names[:N_FEATURES]])
    table = table.rename_columns(["q", "sku", "grade", *(f"signal {i}" for i in range(N_FEATURES))])
    table = table.set_column(0, "q", pa.array([f"red shoes {i}" for i in table["q"].to_pylist()]))
    table = table.append_column("title", pa.array(["a title"] * len(table)))
    pq.write_table(table, folder / "data.parquet")
    pa_csv.write_csv(table, folder / "data.csv")
    for day, (start, end) in enumerate([(0, 500), (500, len(table))]):
        (folder / "days" / f"day={day}").mkdir(parents=True)
        pq.write_table(table.slice(start, end - start), folder / "days" / f"day={day}" / "part-0.parquet")
    names = {"query_id": "q", "doc_id": "sku", "label": "grade"}
    fold = cr.open_data(str(folder / "data.parquet"), columns=names, split=[0.6, 0.2, 0.2])
    (folder / "fold").mkdir()
    for part in ("train", "validation", "test"):
        pq.write_table(getattr(fold, part).to_arrow(), folder / "fold" / f"{part}.parquet")
    invoke("train", folder / "data.parquet", *NAMES, *SPLIT, *QUICK, "--out", folder / "ranker")
    exam, logs = examination.inverse_rank(), []
    for first, part in enumerate((fold.train, fold.validation, fold.test)):
        simulation.write_log(
            part, part.features[:, 0], policies.UniformInsert(5), exam, folder / f"{first}.parquet", sessions=3000,
            seed=first, first_session=3000 * first,
        )  # fmt: skip
        logs.append(pq.read_table(folder / f"{first}.parquet"))
        (folder / f"{first}.parquet").unlink()
    log = pa.concat_tables(logs)
    pq.write_table(log, folder / "usual.parquet")
    own = {"query_id": "q", "doc_id": "sku", "rank": "position"}
    pq.write_table(log.rename_columns([own.get(name, name) for name in log.column_names]), folder / "own.parquet")
    return folder


def metrics(place, source, *options):
    return as_json("evaluate", place / "ranker", place / source, *options, "--json")["metrics"]


def test_every_form_of_the_data_gives_the_same(place):
    expected = metrics(place, "data.parquet", *NAMES, *SPLIT)
    assert metrics(place, "data.csv", *NAMES, *SPLIT) == expected
    assert metrics(place, "days", *NAMES, *SPLIT) == expected
    assert metrics(place, "fold", *NAMES) == expected
    assert metrics(place, "data.csv", *NAMES) != expected


def test_rank_keeps_ids_with_blanks(place, tmp_path):
    out = tmp_path / "run.csv"
    invoke("rank", place / "ranker", place / "data.csv", *NAMES, *SPLIT, "--out", out)
    found = pa_csv.read_csv(out)
    test = cr.open_data(str(place / "fold"), columns={"query_id": "q", "doc_id": "sku", "label": "grade"}).test
    assert set(found["query_id"].to_pylist()) == set(test.query_ids.tolist())
    assert all(query.startswith("red shoes ") for query in found["query_id"].to_pylist())
    scores = cr.read_scores(out, test)
    np.testing.assert_allclose(scores, cr.Ranker.load(place / "ranker").predict(test), rtol=1e-12)


@pytest.mark.parametrize(
    ("log", "names"),
    [
        ("own", "query_id=q,doc_id=sku,label=grade,rank=position"),
        ("usual", "query_id=q,doc_id=sku,label=grade"),  # those of the data; the log has its usual names
        ("usual", "data:query_id=q,data:doc_id=sku,label=grade"),
        ("own", "data:query_id=q,log:query_id=q,doc_id=sku,label=grade,rank=position"),
        ("own", "log:query_id=q,query_id=q,doc_id=sku,data:label=grade,log:rank=position"),
    ],
)
def test_one_map_for_data_and_log(place, tmp_path, log, names):
    file = place / f"{log}.parquet"
    options = (place / "data.parquet", "--log", file, "--map", names, *SPLIT)
    found = as_json("train", *options, *QUICK, "--out", tmp_path / "ranker", "--json")
    assert found["sessions"] == 3000
    against = ("--against", place / "ranker", "--metrics", "dcg@5")
    estimates = as_json("estimate", tmp_path / "ranker", *options, *against, "--json")["estimates"]
    assert estimates["dcg@5"]["n_sessions"] == 3000
    chosen = as_json("select", place / "data.parquet", place / "ranker", tmp_path / "ranker", *options[1:],
                     "--in-sample", "--json")  # fmt: skip
    assert chosen["best"]
    inspected = as_json("inspect", file, "--data", place / "data.parquet", "--map", names, *SPLIT, "--json")
    assert inspected["overview"]["sessions"] == 3000
    counted = as_json("aggregate", file, "--data", place / "data.parquet", "--map", names, *SPLIT,
                      "--out", tmp_path / "counts", "--json")  # fmt: skip
    assert [part["pages"] for part in counted["parts"]] == [3000, 3000, 3000]


def test_a_log_may_have_the_map_to_itself(place, tmp_path):
    """LETOR data has no columns."""
    data = cr.make_ranking_data("yahoo", n_queries=20, seed=0)
    lines = [f"0 qid:{query} 1:{row % 7}" for row, query in enumerate(np.repeat(data.query_ids, data.lengths))]
    (tmp_path / "data.txt").write_text("\n".join(lines) + "\n")
    letor = cr.read_letor(tmp_path / "data.txt")
    log = tmp_path / "log.parquet"
    simulation.write_log(
        letor, letor.features[:, 0], policies.UniformInsert(5), examination.inverse_rank(), log, sessions=100, seed=0,
        relevance_threshold=0,
    )  # fmt: skip
    table = pq.read_table(log)
    pq.write_table(table.rename_columns(["q" if name == "query_id" else name for name in table.column_names]), log)
    found = as_json("aggregate", log, "--data", tmp_path / "data.txt", "--map", "query_id=q", "--out", tmp_path / "c",
                    "--json")  # fmt: skip
    assert found["parts"][0]["pages"] == 100


def test_simulated_clicks_remember_how_the_data_is_read(place, tmp_path):
    source = place / "data.parquet"
    found = invoke("simulate", source, *NAMES, *SPLIT, "--logger", place / "ranker", "--n-sessions", 500,
                   "--out", tmp_path / "clicks")  # fmt: skip
    again = f"--map {NAMES[1]} --split {SPLIT[1]}"
    assert f"Next: counterrank train {source} --clicks {tmp_path / 'clicks'} {again}" in found.stderr.replace("\n", " ")
    assert json.loads((tmp_path / "clicks" / "simulation.json").read_text())["split"] == SPLIT[1]
    assert as_json("inspect", tmp_path / "clicks", "--json")["data"] == str(source)
    line = next(line for line in found.stderr.splitlines() if "Next: " in line)
    words = shlex.split(line.partition("Next: counterrank ")[2])
    invoke(*words[: words.index("--k")], *QUICK, "--out", tmp_path / "from-clicks")


def test_evaluation_on_training_data_is_said_to_be_in_sample(place):
    source, ranker = place / "data.csv", place / "ranker"
    common = ("evaluate", ranker, source, *NAMES, "--metrics", "mrr")
    assert as_json(*common, *SPLIT)["in_sample"] is False
    held_out = invoke(*common, *SPLIT)
    assert "in-sample" not in (held_out.stdout + held_out.stderr).lower()
    for more, share in (((*SPLIT, "--part", "train"), 1.0), ((*SPLIT, "--part", "validation"), 1.0), ((), 0.8)):
        found = as_json(*common, *more)
        assert (found["in_sample"], found["share_seen"]) == (True, pytest.approx(share, abs=0.1))
        shown = invoke(*common, *more)
        assert "IN-SAMPLE" in shown.stdout
        assert f"in-sample: {ranker} was trained on or stopped by" in shown.stderr
    loaded = cr.Ranker.load(ranker)
    loaded.provenance_ = {}
    loaded.save(place / "unknown")
    shown = invoke("evaluate", place / "unknown", source, *NAMES, "--metrics", "mrr")
    assert "does not record what it was trained on" in shown.stderr
    assert as_json("evaluate", place / "unknown", source, *NAMES, "--metrics", "mrr")["in_sample"] is None


def test_plan_reads_them_too(place):
    found = as_json("plan", place / "days", *NAMES, "--logger", place / "ranker", "--examination", "inverse-rank:eta=1",
                    "--policy", "uniform-insert:k=5", "--json")  # fmt: skip
    assert found["assumed"]["queries"] == 120


def test_chosen_features(place, tmp_path):
    options = (place / "data.parquet", *NAMES, "--feature-columns", "signal 4,signal 0")
    invoke("train", *options, *QUICK, "--validation", "none", "--out", tmp_path / "ranker")
    assert cr.Ranker.load(tmp_path / "ranker").n_features_ == 2


@pytest.fixture(scope="module")
def wider(place):
    """The data with columns that the ranker does not know, before and behind those that it does."""
    table = pq.read_table(place / "data.parquet")
    noise = np.random.default_rng(0).random((2, len(table)))
    pq.write_table(table.add_column(0, "stock", pa.array(noise[0])).append_column("views", pa.array(noise[1])),
                   place / "wider.parquet")  # fmt: skip
    return place / "wider.parquet"


def test_columns_that_the_ranker_does_not_know_are_left_out(place, wider, tmp_path):
    assert metrics(place, wider, *NAMES, *SPLIT) == metrics(place, "data.parquet", *NAMES, *SPLIT)
    in_sample = ("evaluate", place / "ranker", wider, *NAMES, *SPLIT, "--part", "train", "--metrics", "mrr")
    assert as_json(*in_sample)["share_seen"] == 1.0
    for source in ("data.parquet", wider):
        invoke("rank", place / "ranker", place / source, *NAMES, *SPLIT, "--out", tmp_path / "run.csv", "--force")
        (tmp_path / "run.csv").rename(tmp_path / f"{source != wider}.csv")
    assert (tmp_path / "True.csv").read_bytes() == (tmp_path / "False.csv").read_bytes()
    options = ("--log", place / "usual.parquet", *NAMES, *SPLIT, "--metrics", "dcg@5")
    expected = as_json("estimate", place / "ranker", place / "data.parquet", *options)["estimates"]
    assert as_json("estimate", place / "ranker", wider, *options)["estimates"] == expected
    chosen = as_json("select", wider, place / "ranker", *options[:-2])
    assert chosen["rankers"][0]["estimate"]["self_normalized"]
    seen = run("estimate", place / "ranker", wider, *options, "--part", "train").stderr
    assert "was trained on or stopped by 100% of these queries" in seen


def test_missing_features_are_an_error(place, tmp_path):
    table = pq.read_table(place / "data.parquet").rename_columns
    names = pq.read_schema(place / "data.parquet").names
    pq.write_table(table(["Signal_3" if name == "signal 3" else name for name in names]), tmp_path / "data.parquet")
    found = run("rank", place / "ranker", tmp_path / "data.parquet", *NAMES, "--out", tmp_path / "run.csv")
    assert found.returncode == 2
    message = "lacks feature 'signal 3' of the ranker; has 'Signal_3', unknown to the ranker; expected the same names"
    assert f"{message} (rename or add columns); did you mean 'signal 3'?" in found.stderr


def test_the_map_applies_to_files_of_scores(place, tmp_path):
    invoke("rank", place / "ranker", place / "data.parquet", *NAMES, *SPLIT, "--out", tmp_path / "usual.csv")
    run_of = pa_csv.read_csv(tmp_path / "usual.csv")
    own = run_of.select(["query_id", "doc_id", "score"]).rename_columns(["q", "sku", "score"])
    pa_csv.write_csv(own, tmp_path / "own.csv")
    options = ("--log", place / "usual.parquet", *NAMES, *SPLIT, "--metrics", "dcg@5")
    data = place / "data.parquet"
    found = [as_json("estimate", tmp_path / f"{name}.csv", data, *options)["estimates"] for name in ("usual", "own")]
    assert found[0] == found[1]
    compared = as_json("estimate", place / "ranker", data, *options, "--against", tmp_path / "own.csv")
    assert compared["estimates"]["dcg@5"]["self_normalized"] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("which", ["ranker", "against"])
def test_rankers_that_do_not_exist_are_the_first_error(place, tmp_path, which):
    """Before the clicks, whose propensities are not known without an examination curve."""
    log = pq.read_table(place / "usual.parquet").drop(["propensity"])
    pq.write_table(log, tmp_path / "log.parquet")
    data = (place / "data.parquet", "--log", tmp_path / "log.parquet", *NAMES, *SPLIT)
    rankers = ("nowhere",) if which == "ranker" else (place / "ranker", "--against", "nowhere")
    found = run("estimate", rankers[0], *data, *rankers[1:])
    assert found.returncode == 2
    assert "nowhere: no such ranker or scores" in found.stderr
    found = run("select", data[0], "nowhere", *data[1:])
    assert "nowhere: no such" in found.stderr


OTHER = "--map query_id=q,doc_id=sku,label=grade"
BAD = {
    "": "data.parquet: no column 'query_id'; it has 'q', 'sku', 'grade'",
    "--map query_id=q,doc_id=sku,label=note": "data.parquet: no column 'note'; it has 'q'",
    "--map query_id=nope,doc_id=sku": "data.parquet: no column 'nope'",
    "--map query_id=q,doc_id=skus": "--map doc_id=NAME gives another name; did you mean 'sku'?",
    "--map query_id=nope,doc_id=sku --log LOG": "data.parquet: no column 'nope'",
    "--map data:query_id=q,doc_id=sku,log:query_id=nope --log LOG": "usual.parquet: no column 'nope'; the log has",
    "--map query_id=q,doc_id=sku,rank=place --log LOG": "usual.parquet: no column 'place'; the log has",
    "--map query_id=q,rank=place": "--map rank=place: of a log, and none is read; expected query_id, doc_id or label",
    "--map shop:query_id=q": "--map shop:query_id=q: 'shop:query_id'; expected data: or log: before",
    "--map data:rank=q": "--map: no column 'rank' in ranking data; expected query_id, doc_id, label",
    f"{OTHER} --split 0.6,0.6": "--split 0.6,0.6: expected 2 or 3 numbers that sum to 1, such as 0.6,0.2,0.2",
    f"{OTHER} --split half": "--split half: expected 2 or 3 numbers that sum to 1",
    f"{OTHER} --feature-columns title": "data.parquet: feature 'title' is 'a title' in row 0 and",
    f"{OTHER} --feature-columns nope": "--feature-columns: no column 'nope'; ",
    f"{OTHER} --feature-columns sku": "--feature-columns: 'sku' is the column of document",
}


@pytest.mark.parametrize("options", BAD)
def test_errors_name_flags_files_and_columns(place, tmp_path, options):
    words = [str(place / "usual.parquet") if word == "LOG" else word for word in options.split()]
    found = run("train", place / "data.parquet", *words, "--out", tmp_path / "out")
    assert found.returncode == 2
    *warned, line = found.stderr.strip().splitlines()
    assert BAD[options] in line
    assert all("column 'grade' is a feature" in each or "features 'grade'" in each for each in warned)
    assert not (tmp_path / "out").exists()


def test_options_of_data_without_data(place, tmp_path):
    for options in (("--split", "0.5,0.5"), ("--map", "label=grade"), ("--feature-columns", "a")):
        found = run("aggregate", place / "usual.parquet", *options, "--out", tmp_path / "out")
        assert "of ranking data, and none is read" in found.stderr
    found = run("train", "synthetic:mslr", "--split", "0.5,0.5", "--out", tmp_path / "out")
    assert "--split: synthetic:mslr has parts already" in found.stderr


def test_the_map_by_source():
    found = ColumnMap.parse("label=grade,data:query_id=q,log:query_id=query,doc_id=sku")
    assert found.data == {"label": "grade", "query_id": "q"}
    assert found.log == {"query_id": "query"}
    assert found.both == {"doc_id": "sku"}
    assert ColumnMap.parse(None) == ColumnMap({}, {}, {})
    quoted = ColumnMap.parse('data:query_id="q, id" , label="5"" grade",doc_id=" sku",rank= place = 1')
    assert quoted.data == {"query_id": "q, id", "label": '5" grade'}
    assert (quoted.both, quoted.log) == ({"doc_id": " sku"}, {"rank": "place = 1"})
    assert comma_separated('a=b," c, d",""""', "--feature-columns") == ["a=b", " c, d", '"']
    wrong = ("rank", "rank=", "=x", "rank=a,rank=b", "x:rank=a", "both:query_id=a", "rank=a,", 'rank="a', 'rank=a"b"')
    for text in wrong:
        with pytest.raises(CounterrankError):
            ColumnMap.parse(text)


def test_names_with_commas_and_quotes(tmp_path):
    data = cr.make_ranking_data("yahoo", n_queries=20, seed=1)
    table = data.to_arrow().select(["query_id", "doc_id", "label", *data.feature_names[:3]])
    pq.write_table(table.rename_columns(["q, id", "sku", 'the "grade"', "a, b", "c", "d"]), tmp_path / "data.parquet")
    names = 'query_id="q, id",doc_id=sku,label="the ""grade"""'
    options = (tmp_path / "data.parquet", "--map", names, "--feature-columns", 'c,"a, b"')
    invoke("train", *options, *QUICK, "--validation", "none", "--out", tmp_path / "ranker")
    assert cr.Ranker.load(tmp_path / "ranker").feature_names_in_.tolist() == ["c", "a, b"]
    found = run("train", tmp_path / "data.parquet", "--map", 'query_id="q, id', "--out", tmp_path / "other")
    assert "expected quotes around a whole name, and twice within" in found.stderr


def test_the_columns_that_became_features_are_listed(place):
    options = ("evaluate", place / "ranker", place / "data.parquet", *SPLIT)
    found = run(*options, *NAMES)
    names = ", ".join(f"'signal {i}'" for i in range(10))
    assert f"data.parquet: features {names} and 2 more; left out: 'title' (text).\n" in found.stderr
    found = run(*options, "--map", "query_id=q,doc_id=sku")
    warning = "column 'grade' is a feature, though named as a label is, which a ranker must not see; --map label=grade "
    assert f"{warning}makes it the label; --feature-columns chooses features" in found.stderr


def test_missing_values_say_which_options_help(tmp_path):
    data = cr.make_ranking_data("yahoo", n_queries=20, seed=1)
    table = data.to_arrow().select(["query_id", "doc_id", "label", *data.feature_names[:3]])
    holes = pa.array([None, *table["feature_1"].to_pylist()[1:]], pa.float32())
    pq.write_table(table.set_column(3, "feature_1", holes), tmp_path / "data.parquet")
    found = run("train", tmp_path / "data.parquet", "--validation", "none", "--out", tmp_path / "ranker")
    assert "impute them, drop the feature, or use a ranker with --model lambdamart\n" in found.stderr
    message = "a ranker with model='lambdamart', and model='lightgbm'"
    expected = "a ranker with --model lambdamart, and --relevance-model lightgbm"
    assert in_flags(message, {"ranker": "RANKER"}) == expected
