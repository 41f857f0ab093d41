"""Scores from files: matched by key, written and read back exactly, plain lists only where rows kept their order."""

from __future__ import annotations

import gzip
import pickle
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank import examination, policies, simulation
from counterrank.data import Fold
from counterrank.evaluation import ranked_rows, write_run
from tests.support.command import as_json, attempt, invoke, run

IDS = {"query_ids": [7, 9], "doc_ids": ["a", "b", "a"]}
DATA = cr.RankingData(np.zeros((3, 1)), [0, 2, 3], **IDS)
SCORES = [0.5, 1e-17, -2.0]
RUN = "7 Q0 a 1 0.5 t\n7 Q0 b 2 1e-17 t\n9 Q0 a 1 -2 t\n"
TABLE = {"query_id": [9, 7, 7], "doc_id": ["a", "b", "a"], "score": [-2.0, 1e-17, 0.5]}


def table(**changes):
    return pa.table({name: changes.get(name, TABLE.get(name)) for name in {**TABLE, **changes}})


def write_table(path, rows):
    if path.suffix == ".parquet":
        pq.write_table(rows, path)
    else:
        pa.csv.write_csv(rows, path, pa.csv.WriteOptions(delimiter="\t" if path.suffix == ".tsv" else ","))
    return path


@pytest.mark.parametrize("ending", ["parquet", "csv", "tsv"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"query_id": ["9", "7", "7"]},
        {"rank": [1, 2, 1], "note": ["x", "y,z", '"']},
        {"query_id": pa.array([9, 7, 7], pa.int8())},
        {"doc_id": pa.array(["a", "b", "a"]).dictionary_encode()},
    ],
    ids=["plain", "texts", "more columns", "int8", "dictionary"],
)
def test_tables_by_key(tmp_path, ending, changes):
    assert cr.read_scores(write_table(tmp_path / f"s.{ending}", table(**changes)), DATA).tolist() == SCORES


@pytest.mark.parametrize("ending", ["parquet", "csv", "tsv"])
def test_columns_may_have_the_names_of_the_data(tmp_path, ending):
    rows = table().rename_columns(["search", "sku", "score"])
    frame = pa.table({"search": [7, 7, 9], "sku": ["a", "b", "a"], "price": [1, 2, 3]})
    data = cr.RankingData.from_frame(frame, query="search", document="sku")
    for names in (["search", "sku", "score"], ["search", "doc_id", "score"], ["query_id", "doc_id", "score"]):
        path = write_table(tmp_path / f"s.{ending}", rows.rename_columns(names))
        assert cr.read_scores(path, data).tolist() == SCORES
    path = write_table(tmp_path / f"s.{ending}", rows.rename_columns(["q", "sku", "score"]))
    message = "no column 'search' or 'query_id' among 'q', 'sku', 'score'; expected search, sku and score, each once"
    with pytest.raises(cr.CounterrankError, match=message):
        cr.read_scores(path, data)
    path = write_table(tmp_path / f"s.{ending}", rows.rename_columns(["search", "sku", "grade"]))
    with pytest.raises(cr.CounterrankError, match="no column 'score' among 'search', 'sku', 'grade'; expected search"):
        cr.read_scores(path, data)


TEXTS = {
    "run.trec": RUN,
    "run": RUN.replace(" ", " \t ").replace("\n", "\r\n"),
    "run.txt": "\ufeff" + RUN + "\n",
    "scores.txt": "# scores\n0.5\n\n1e-17\n -2\n",
    "scores.csv": "\ufeffquery_id,note,doc_id,score\r\n7,x,a, 0.5\r\n9,,a,-2\r\n7,,b,1e-17\r\n",
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("name", "content"), TEXTS.items())
def test_texts(tmp_path, name, content, packed):
    path = tmp_path / (name + ".gz" * packed)
    path.write_bytes(gzip.compress(content.encode()) if packed else content.encode())
    assert cr.read_scores(path, DATA).tolist() == SCORES


def test_one_file_serves_all_parts_of_a_fold(tmp_path):
    rng = np.random.default_rng(0)
    parts = [
        cr.RankingData(np.zeros((6, 1)), [0, 2, 6], query_ids=[f"q{i}", f"p{i}"], doc_ids=[1, 2, 4, 3, 2, 1])
        for i in range(3)
    ]
    fold, scores = Fold(*parts), rng.normal(size=(3, 6))
    rows = pa.concat_tables([ranked_rows(own, part) for own, part in zip(scores, parts, strict=True)])
    for name in ("all.parquet", "all.csv", "all.trec"):
        write_run(rows.take(rng.permutation(18)), tmp_path / name)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = [cr.read_scores(tmp_path / name, part) for part in (fold.train, fold.validation, fold.test)]
        np.testing.assert_array_equal(found, scores)


def run_file(tmp_path, content=RUN, name="run.trec"):
    (tmp_path / name).write_text(content)
    return tmp_path / name


BAD = {
    "missing": (
        lambda p: run_file(p, RUN.partition("\n")[2]),
        r"run.trec: no score for 1 of the 3 documents of the data, such as query 7, document 'a'; expected a score for "
        r"each document \(a run cut by rank --depth is not enough\)",
    ),
    "missing and unknown": (
        lambda p: run_file(p, RUN.replace("7 Q0 b", "7 Q0 B")),
        "no score for 1 of .* document 'b'; 1 of its rows have a document that the data does not have in a query that "
        "it has, such as query '7', document 'B'; expected".replace("'7'", "7"),
    ),
    "twice": (
        lambda p: run_file(p, RUN + "7 Q0 b 3 4 t\n"),
        "run.trec: 1 documents have several scores, such as query 7, document 'b'; expected one score for each",
    ),
    "twice as number and text": (
        lambda p: write_table(p / "s.csv", table(query_id=["7", "7", "7"], doc_id=["a", "b", "a"])),
        "1 documents have several scores, such as query 7, document 'a'",
    ),
    "nan": (
        lambda p: run_file(p, RUN.replace("-2", "nan")),
        "1 documents have a score that is not finite, .* with nan",
    ),
    "too large": (
        lambda p: run_file(p, RUN.replace("-2", "1e999")),
        "that is not finite, such as query 9, .* with inf",
    ),
    "null": (lambda p: write_table(p / "s.parquet", table(score=[None, 1.0, 2.0])), "not finite, such as query 9"),
    "no query of the data": (
        lambda p: run_file(p, RUN.replace("7 Q", "q7 Q").replace("9 Q", "q9 Q")),
        "none of its 3 rows has a query of the data; expected query ids, such as 'q7', as in the data, such as 7",
    ),
    "no rows": (lambda p: write_table(p / "s.parquet", table().slice(0, 0)), "none of its 0 rows has a query of"),
    "only a header": (lambda p: run_file(p, "query_id,doc_id,score\n", "s.csv"), "none of its 0 rows has a query of"),
    "empty CSV": (lambda p: run_file(p, "", "s.csv"), "no column 'query_id' among none"),
    "empty": (
        lambda p: run_file(p, " \n\n"),
        "run.trec: no scores in it; expected one number a line, or Parquet or CSV",
    ),
    "five fields": (
        lambda p: run_file(p, RUN + "\n7 Q0 c 1 0.5\n"),
        "run.trec: line 5 is '7 Q0 c 1 0.5'; expected a line of a TREC run: query Q0 document rank score tag",
    ),
    "no number": (lambda p: run_file(p, RUN.replace("-2", "low")), "line 3 has 'low'; expected a number as score"),
    "something else": (
        lambda p: run_file(p, "a b c\n"),
        "line 1 is 'a b c'; expected one number a line, or Parquet or CSV with the columns query_id, doc_id and score, "
        r"or a TREC run \(query Q0 document rank score tag\)",
    ),
    "no column": (
        lambda p: write_table(p / "s.csv", table().rename_columns(["query", "doc_id", "score"])),
        "no column 'query_id' among 'query', 'doc_id', 'score'; expected query_id, doc_id and score, each once",
    ),
    "no column in Parquet": (
        lambda p: write_table(p / "s.parquet", table().drop(["score"])),
        "no column 'score' among 'query_id', 'doc_id'; expected query_id, doc_id and score, each once",
    ),
    "a column twice": (
        lambda p: run_file(p, "query_id,doc_id,score,score\n7,a,1,1\n", "s.csv"),
        "2 columns 'score'; expected one",
    ),
    "text in CSV": (
        lambda p: write_table(p / "s.csv", table(score=["1", "", "2"])),
        "s.csv: row 1 has ''; expected a number in the column 'score'",
    ),
    "text in Parquet": (
        lambda p: write_table(p / "s.parquet", table(score=["1", "2", "3"])),
        "column 'score' is string; expected numbers",
    ),
    "fractions as ids": (
        lambda p: write_table(p / "s.parquet", table(query_id=[7.0, 7.5, 9.0])),
        "column 'query_id' is 7.5 in row 1; expected whole numbers or texts as ids",
    ),
    "a null id": (
        lambda p: write_table(p / "s.parquet", table(doc_id=["a", None, "b"])),
        "column 'doc_id' is null in row 1; expected an id",
    ),
    "ragged": (lambda p: run_file(p, "query_id,doc_id,score\n7,a\n", "s.csv"), "not a CSV file that can be read"),
    "not Parquet": (lambda p: run_file(p, "hello", "s.parquet"), "not a Parquet file that can be read"),
    "damaged gzip": (
        lambda p: (p / "s.gz").write_bytes(gzip.compress(RUN.encode())[:-9]) and p / "s.gz",
        "s.gz: cannot be read",
    ),
    "not text": (lambda p: (p / "s.txt").write_bytes(b"\xff\xfe\n") and p / "s.txt", "s.txt: not UTF-8 text"),
    "a folder": (lambda p: p, "is a folder; expected one file of scores"),
    "not there": (lambda p: p / "nowhere.csv", "nowhere.csv: no such scores"),
    "a short list": (
        lambda p: run_file(p, "1\n2\n"),
        r"scores of shape \(2,\); expected one for each of 3 rows, or Par",
    ),
    "not a number": (lambda p: run_file(p, "1\n2\nthree\n"), "line 3 has 'three'; expected one number a line"),
    "two in a line": (lambda p: run_file(p, "1\n2 3\n4\n"), "line 2 has '2 3'; expected one number a line"),
    "nan in a list": (lambda p: run_file(p, "1\nnan\n2\n"), r"score 1 \(from 0\) is nan; expected finite numbers"),
    "a matrix": (lambda p: np.save(p / "s.npy", np.zeros((3, 1))) or p / "s.npy", r"scores of shape \(3, 1\)"),
    "truths": (lambda p: np.save(p / "s.npy", np.zeros(3, bool)) or p / "s.npy", "scores of type bool; expected num"),
    "an empty npy": (lambda p: run_file(p, "", "s.npy"), "s.npy: not scores that can be read"),
}


@pytest.mark.parametrize(("make", "message"), BAD.values(), ids=BAD)
def test_bad_files(tmp_path, make, message):
    with pytest.raises(cr.CounterrankError, match=message) as error:
        cr.read_scores(make(tmp_path), DATA)
    assert str(error.value).startswith(str(tmp_path))
    assert str(error.value).isprintable()


def test_data_that_is_none():
    with pytest.raises(cr.CounterrankError, match="data: str; expected RankingData"):
        cr.read_scores("x", "data")


def test_unknown_documents_of_known_queries_are_warned_about(tmp_path):
    path = run_file(tmp_path, RUN + "7 Q0 z 3 0 t\n7 Q0 y 4 0 t\n8 Q0 a 1 nan t\n8 Q0 a 1 nan t\n")
    with pytest.warns(UserWarning, match=r"2 of its rows have a document .*, such as query 7, document 'z'; these"):
        assert cr.read_scores(path, DATA).tolist() == SCORES


AWKWARD = [0.1, 1e-17, 1 / 3, -0.0, 5e-324, 1.7976931348623157e308, 2.0**53 + 2, -1e22, 0.1, 0.1]


@pytest.mark.parametrize("name", ["r.parquet", "r.pq", "r.csv", "r.tsv", "r.csv.gz", "r.trec", "r", "r.gz", "r.txt"])
@pytest.mark.parametrize("texts", [False, True])
def test_rankings_are_read_back_exactly(tmp_path, name, texts):
    docs = [f'd{i}"é,;\u00a0' if texts else 10**17 + i for i in range(len(AWKWARD))]
    queries = ["007", "Q0"] if texts else [-3, 2**62]
    data = cr.RankingData(np.zeros((len(docs), 1)), [0, 4, len(docs)], query_ids=queries, doc_ids=docs)
    write_run(ranked_rows(AWKWARD, data), tmp_path / name)
    found = cr.read_scores(tmp_path / name, data)
    assert found.tobytes() == np.array(AWKWARD).tobytes()
    other = data.subset([1])
    assert cr.read_scores(tmp_path / name, other).tolist() == AWKWARD[4:]


@settings(max_examples=50, deadline=None)
@given(
    ids=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), min_size=1, unique=True),
    numbers=st.data(),
)
def test_whatever_ids_there_are(tmp_path_factory, ids, numbers):
    """CSV and Parquet hold any text; a TREC run refuses what it cannot hold, and holds the rest."""
    folder = tmp_path_factory.mktemp("ids")
    finite = st.floats(allow_nan=False, allow_infinity=False)
    scores = np.array(numbers.draw(st.lists(finite, min_size=len(ids), max_size=len(ids))))
    data = cr.RankingData(np.zeros((len(ids), 1)), [0, len(ids)], query_ids=[ids[0]], doc_ids=ids)
    rows = ranked_rows(scores, data)
    for name in ("r.parquet", "r.csv", "r.tsv"):
        write_run(rows, folder / name)
        assert cr.read_scores(folder / name, data).tobytes() == scores.tobytes()
    if any(not each or set(each) & set(" \t\n\r\f\v") for each in ids):
        with pytest.raises(cr.CounterrankError, match=r"breaks a TREC run; write .parquet or .csv instead"):
            write_run(rows, folder / "r.trec")
        assert not (folder / "r.trec").exists()
    elif not ids[0].startswith("\ufeff"):
        write_run(rows, folder / "r.trec")
        assert cr.read_scores(folder / "r.trec", data).tobytes() == scores.tobytes()


def test_a_ranking_is_not_written_as_numpy(tmp_path):
    with pytest.raises(cr.CounterrankError, match=r"r.npy: .npy holds no ids; expected .parquet, .csv"):
        write_run(ranked_rows(SCORES, DATA), tmp_path / "r.npy")


def test_a_cut_ranking_is_not_enough(tmp_path):
    write_run(ranked_rows(SCORES, DATA, depth=1), tmp_path / "r.trec")
    with pytest.raises(cr.CounterrankError, match=r"no score for 1 of .*a run cut by rank --depth"):
        cr.read_scores(tmp_path / "r.trec", DATA)


# rows that were regrouped


def shuffled(data, path, seed=1):
    """The data as Parquet, with its rows in any order."""
    data.save(path)
    rows = pq.read_table(path)
    pq.write_table(rows.take(np.random.default_rng(seed).permutation(len(rows))), path)
    return path


def test_data_remembers_that_it_was_regrouped(tmp_path):
    data = cr.make_ranking_data("yahoo", 10, seed=0)
    data.save(tmp_path / "data.parquet")
    assert not cr.RankingData.load(tmp_path / "data.parquet").regrouped
    found = cr.RankingData.load(shuffled(data, tmp_path / "data.parquet"))
    for same in (
        found,
        found.subset([1, 0]),
        found.normalized(),
        found.widened(found.n_features + 1),
        pickle.loads(pickle.dumps(found)),
    ):
        assert same.regrouped
    assert not data.subset([1, 0]).normalized().regrouped
    assert not pickle.loads(pickle.dumps(data)).regrouped
    with pytest.raises(AttributeError):
        data.regrouped = True
    found.save(tmp_path / "again.parquet")
    assert not cr.RankingData.load(tmp_path / "again.parquet").regrouped


@pytest.mark.parametrize(("order", "regrouped"), [("1122", False), ("1212", True), ("2211", False), ("1221", True)])
def test_letor_files_that_are_regrouped(tmp_path, order, regrouped):
    (tmp_path / "data.txt").write_text("".join(f"0 qid:{q} 1:{i}\n" for i, q in enumerate(order)))
    data = cr.read_letor(tmp_path / "data.txt")
    assert data.regrouped == regrouped
    np.save(tmp_path / "scores.npy", np.arange(4))
    if regrouped:
        with pytest.raises(cr.CounterrankError, match="scores, but the rows of a query were not contiguous"):
            cr.read_scores(tmp_path / "scores.npy", data)
    else:
        assert cr.read_scores(tmp_path / "scores.npy", data).tolist() == data.features[:, 0].tolist()


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """A log, data in order and shuffled, and the scores of two rankers for both."""
    folder = tmp_path_factory.mktemp("case")
    data = cr.make_ranking_data("yahoo", 40, seed=0)
    new, old = data.labels + np.random.default_rng(0).normal(
        size=(2, data.n_docs)
    )  # no ties: policies break them by order
    policy, exam = policies.UniformInsert(5), examination.inverse_rank()
    simulation.write_log(data, old, policy, exam, folder / "log.parquet", sessions=5000, seed=0, propensities=False)
    data.save(folder / "data.parquet")
    shuffled(data, folder / "shuffled.parquet")
    for name, scores in (("new", new), ("old", old)):
        np.save(folder / f"{name}.npy", scores)
        np.savetxt(folder / f"{name}.txt", scores)
        for ending in ("parquet", "csv", "trec"):
            write_run(ranked_rows(scores, data), folder / f"{name}.{ending}")
    return folder


def estimated(case, data, ending):
    known = (
        "--policy",
        "uniform-insert:k=5",
        "--logger",
        case / f"old.{ending}",
        "--examination",
        "inverse-rank:eta=1",
    )
    fixed = ("estimate", case / f"new.{ending}", case / data, "--log", case / "log.parquet", "--metrics", "dcg@5")
    return as_json(*fixed, "--against", case / f"old.{ending}", *known)["estimates"]["dcg@5"]


@pytest.mark.parametrize("ending", ["parquet", "csv", "trec"])
def test_shuffled_rows_give_the_same_estimate_by_key(case, ending):
    expected, found = estimated(case, "data.parquet", "npy"), estimated(case, "shuffled.parquet", ending)
    for name in ("ips", "self_normalized", "effective_sample_size"):
        assert found[name] == pytest.approx(expected[name], rel=1e-9)
    assert estimated(case, "data.parquet", ending) == expected


@pytest.mark.parametrize("ending", ["npy", "txt"])
def test_shuffled_rows_and_a_plain_list_are_refused(case, tmp_path, ending):
    data, scores = case / "shuffled.parquet", case / f"old.{ending}"
    with pytest.raises(cr.CounterrankError, match="so the order of the list means nothing; expected Parquet or CSV"):
        cr.read_scores(scores, cr.RankingData.load(data))
    exam = ("--examination", "inverse-rank:eta=1")
    log = ("--log", case / "log.parquet", "--policy", "uniform-insert:k=5", "--logger", scores, *exam)
    keyed = (*log[:5], case / "old.csv", *exam)
    for command in (
        ("estimate", case / "new.csv", data, *log),
        ("estimate", scores, data, *keyed),
        ("estimate", case / "new.csv", data, "--against", scores, *keyed),
        ("train", data, *log, "--out", tmp_path / "ranker"),
        ("inspect", case / "log.parquet", "--data", data, *log[2:]),
        ("plan", data, "--logger", scores, *exam, "--page", 5),
        ("plan", data, "--logger", case / "old.csv", "--model", scores, *exam, "--page", 5),
        ("simulate", data, "--logger", scores, "--sessions", 10, "--out", tmp_path / "clicks"),
    ):
        with pytest.raises(cr.CounterrankError, match=f"old.{ending}: a plain list of scores, but the rows of a query"):
            attempt(*command)
    assert list(tmp_path.iterdir()) == []
    stopped = run("plan", data, "--logger", scores, *exam, "--page", 5)
    assert (stopped.returncode, len(stopped.stderr.splitlines())) == (2, 1)


def test_rank_writes_what_other_commands_read(tmp_path):
    data = "synthetic:yahoo:queries=60,seed=1"
    test = cr.make_fold("yahoo", 60, seed=1).test
    invoke("train", data, "--max-epochs", 2, "--learning-rate", 1, "--out", tmp_path / "ranker")
    expected = cr.Ranker.load(tmp_path / "ranker").predict(test).astype(float)
    test.save(tmp_path / "test.parquet")
    for name in ("run.parquet", "run.csv", "run.trec"):
        invoke("rank", tmp_path / "ranker", data, "--out", tmp_path / name)
        assert cr.read_scores(tmp_path / name, test).tobytes() == expected.tobytes()
    assert (tmp_path / "run.csv").read_text().startswith('"query_id","doc_id","rank","score"\n')
    for name in ("ranker", "run.csv"):
        fixed = ("simulate", tmp_path / "test.parquet", "--logger", tmp_path / name, "--sessions", 500)
        invoke(*fixed, "--out", tmp_path / f"clicks-{name}")
    one, other = (cr.ClickCounts.load(tmp_path / f"clicks-{name}" / "train") for name in ("ranker", "run.csv"))
    np.testing.assert_array_equal(one.docs, other.docs)
    np.testing.assert_array_equal(one.clicks, other.clicks)
    with pytest.raises(cr.CounterrankError, match=r"r.npy: .npy holds no ids"):
        attempt("rank", tmp_path / "ranker", data, "--out", tmp_path / "r.npy")


def test_a_warning_of_scores_is_a_line(case, tmp_path):
    rows = pq.read_table(case / "old.parquet", columns=["query_id", "doc_id", "score"])
    more = pa.table({"query_id": rows["query_id"][:1].combine_chunks(), "doc_id": [10**6], "score": [0.0]})
    pq.write_table(pa.concat_tables([rows, more]), tmp_path / "old.parquet")
    fixed = ("simulate", case / "data.parquet", "--logger", tmp_path / "old.parquet", "--sessions", 10)
    result = invoke(*fixed, "--out", tmp_path / "clicks")
    assert "Warning: " in result.stderr
    assert "1 of its rows have a document that the data does not have" in result.stderr
