"""Ranking data from Parquet and CSV with one column a feature: files, folds, partitions, and one file that is split."""

import datetime
import gzip
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank.common.errors import CounterrankError, DataError
from counterrank.data.flat_files import column_names, read_flat
from counterrank.data.ids import uniform_keys
from tests.data.test_frames import as_reference, as_table, rows, shown

NAMES = {"query_id": "q", "doc_id": "d", "label": "grade"}
FEATURES = ["price", "stock", "sold"]


def write_csv(table, path):
    delimiter = "\t" if ".tsv" in path.name else ","
    with pa.output_stream(str(path), compression="gzip" if path.suffix == ".gz" else None) as stream:
        pa_csv.write_csv(table, stream, pa_csv.WriteOptions(delimiter=delimiter))


def write(table, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    write_csv(table, path) if ".csv" in path.name or ".tsv" in path.name else pq.write_table(table, path)
    return path


@pytest.mark.parametrize("name", ["data.parquet", "data.pq", "data.csv", "data.csv.gz", "data.tsv", "data.tsv.gz"])
@settings(max_examples=25)
@given(found=rows().filter(lambda found: all(row["q"] != "" for row in found)))
def test_every_kind_of_file_gives_the_rows(tmp_path_factory, name, found):
    path = write(as_table(found), tmp_path_factory.mktemp("flat") / name)
    data = cr.open_data(str(path), columns=NAMES, features=FEATURES)
    expected = as_reference(found, FEATURES)
    if all(query.isdigit() for query in map(str, expected)):
        expected = {int(query): members for query, members in expected.items()}  # a number and its text are one id
    assert shown(data) in (expected, {str(query): members for query, members in expected.items()})
    assert data.source == str(path)
    assert data.feature_names == tuple(FEATURES)


@settings(max_examples=25)
@given(found=rows(), cuts=st.lists(st.integers(0, 30), max_size=3), kind=st.sampled_from(["parquet", "csv"]))
def test_partitions_are_read_as_one(tmp_path_factory, found, cuts, kind):
    found = [row | {"q": row["q"] or "empty"} if isinstance(row["q"], str) else row for row in found]
    table, folder = as_table(found), tmp_path_factory.mktemp("parts")
    bounds = [0, *sorted(min(cut, len(found)) for cut in cuts), len(found)]
    for i, (start, end) in enumerate(pairwise(bounds)):
        if end > start:
            write(table.slice(start, end - start), folder / f"day={i}" / f"part-{i}.{kind}")
    (folder / "_SUCCESS").touch()
    (folder / ".part-9.parquet.crc").touch()
    data = cr.open_data(str(folder), columns=NAMES, features=FEATURES)
    whole = read_flat(write(table, tmp_path_factory.mktemp("whole") / f"data.{kind}"), NAMES, FEATURES)
    assert data.equals(whole)


TABLE = {
    "query_id": ["red shoes", "tv", "red shoes"],
    "doc_id": [7, 7, 8],
    "label": [1, 0, 2],
    "price": [9.5, None, 1.0],
    "title": ["a", "b", "c"],
}


def table(**changes):
    return pa.table({name: values for name, values in (TABLE | changes).items() if values is not None})


def test_usual_names_need_no_map(tmp_path):
    for name in ("data.parquet", "data.csv"):
        data = cr.open_data(str(write(table(), tmp_path / name)))
        assert data.query_ids.tolist() == ["red shoes", "tv"]
        assert data.doc_ids.tolist() == [7, 8, 7]
        assert data.labels.tolist() == [1, 2, 0]
        assert data.feature_names == ("price",)
        np.testing.assert_array_equal(data.features, [[9.5], [1.0], [np.nan]])
        assert data.regrouped
    assert cr.open_data(str(write(table(label=None), tmp_path / "data.parquet"))).labels is None


@pytest.mark.parametrize("delimiter", [",", ";", "|", "\t"])
def test_delimiters(tmp_path, delimiter):
    lines = ["query_id,doc_id,label,price", "a b,007,1,2.5", "a b,7,0,", "a b,8,0,NA"]
    path = tmp_path / "data.csv"
    path.write_bytes(b"\xef\xbb\xbf" + "\n".join(lines).replace(",", delimiter).encode() + b"\n")
    data = cr.open_data(str(path))
    assert data.doc_ids.tolist() == ["007", "7", "8"]  # 007 is no usual way to write a number
    np.testing.assert_array_equal(data.features, [[2.5], [np.nan], [np.nan]])


def test_columns_of_a_file(tmp_path):
    assert column_names(write(table(), tmp_path / "data.parquet")) == list(TABLE)
    assert column_names(write(table(), tmp_path / "data.csv.gz")) == list(TABLE)
    assert column_names(tmp_path) == list(TABLE)
    for name, content in {"data.txt": "1 qid:1 1:2", "bad.parquet": "no", "empty.csv": ""}.items():
        (tmp_path / name).write_text(content)
        assert column_names(tmp_path / name) is None
    assert column_names(tmp_path / "absent") is None


# Folds


@pytest.mark.parametrize(
    "names",
    [
        ("train.parquet", "vali.parquet", "test.parquet"),
        ("train.csv", "valid.csv.gz", "test.tsv"),
        ("my_train.parquet", "my_validation.parquet", "my_test.csv"),
        ("train/a.parquet", "validation/b.parquet", "test/c.parquet"),
        ("train.parquet/part-0.parquet", "validation.parquet/part-0.parquet", "test.parquet/day=1/part-0.parquet"),
    ],
)
def test_folds(tmp_path, names):
    for i, name in enumerate(names):
        write(table(query_id=[f"{i} {query}" for query in TABLE["query_id"]], sold=[i] * 3), tmp_path / name)
    fold = cr.open_data(str(tmp_path))
    for i, part in enumerate((fold.train, fold.validation, fold.test)):
        assert part.query_ids.tolist() == [f"{i} red shoes", f"{i} tv"]
        assert part.feature_names == ("price", "sold")
        assert part.features[:, 1].tolist() == [i] * 3
    assert fold.train.equals(cr.read_fold(tmp_path).train)


def test_parts_have_the_features_of_train_in_its_order(tmp_path):
    write(table(sold=[1, 2, 3]), tmp_path / "train.parquet")
    write(table(price=None).append_column("sold", pa.array([4, 5, 6])).append_column("price", pa.nulls(3)),
          tmp_path / "test.parquet")  # fmt: skip
    fold = cr.read_fold(tmp_path)
    assert fold.test.feature_names == ("price", "sold")
    np.testing.assert_array_equal(fold.test.features, [[np.nan, 4], [np.nan, 6], [np.nan, 5]])


def test_parts_with_other_features(tmp_path):
    write(table(sold=[1, 2, 3]), tmp_path / "train.parquet")
    test = write(table(stock=[1, 2, 3]), tmp_path / "test.parquet")
    with pytest.raises(DataError) as caught:
        cr.read_fold(tmp_path)
    assert str(caught.value) == (
        f"{test}: no column 'sold' and columns of numbers 'stock'; expected the features of the training part"
    )
    assert cr.read_fold(tmp_path, features=["price"]).test.feature_names == ("price",)


def test_folds_of_lists_are_read_too(tmp_path):
    data = cr.make_ranking_data("yahoo", n_queries=4, seed=0)
    for part in ("train", "test"):
        data.save(tmp_path / f"{part}.parquet")
    assert cr.open_data(str(tmp_path)).test.equals(data)


def test_letor_and_flat_files_do_not_mix(tmp_path):
    write(table(), tmp_path / "train.parquet")
    (tmp_path / "test.txt").write_text("1 qid:1 1:2\n")
    with pytest.raises(DataError, match=r"'train.parquet', 'test.txt': LETOR text and files with named features"):
        cr.read_fold(tmp_path)


# Splits


def many(ids):
    return cr.RankingData(np.arange(len(ids))[:, None], np.arange(len(ids) + 1), query_ids=ids)


def parts(fold):
    return [
        set() if part is None else set(part.query_ids.tolist()) for part in (fold.train, fold.validation, fold.test)
    ]


def test_the_part_of_a_query_depends_on_its_id_alone():
    ids = [f"query {i}" for i in range(400)]
    train, validation, test = parts(many(ids).split([0.6, 0.2, 0.2]))
    assert train | validation | test == set(ids)
    assert len(train) + len(validation) + len(test) == 400
    later = parts(many([*(f"new {i}" for i in range(300)), *ids[::-1]]).split([0.6, 0.2, 0.2]))
    assert [part & set(ids) for part in later] == [train, validation, test]


def test_the_hash_is_the_same_everywhere():
    """Known values: they must never change, or older splits would leak."""
    keys = uniform_keys(np.array(["7", "red shoes", "ß"]))
    np.testing.assert_array_equal(keys, KEYS)
    assert uniform_keys(np.array([7]))[0] == keys[0]
    assert uniform_keys(np.array([7]), seed=1)[0] != keys[0]


KEYS = [0.5100017075402239, 0.6731682118778423, 0.28740768657302984]


def test_numbers_and_their_texts_are_split_alike():
    numbers = parts(many(list(range(100))).split([0.5, 0.5]))
    texts = parts(many([str(i) for i in range(100)]).split([0.5, 0.5]))
    assert [{str(query) for query in part} for part in numbers] == texts


def test_other_shares_move_the_boundaries_only():
    data = many(list(range(1000)))
    before, more, two = (parts(data.split(shares)) for shares in ([0.6, 0.2, 0.2], [0.7, 0.1, 0.2], [0.8, 0.2]))
    assert before[2] == more[2] == two[2]
    assert before[0] < more[0] < two[0]
    assert before[0] != parts(data.split([0.6, 0.2, 0.2], seed=1))[0]


def test_shares_are_met():
    """Of 100,000 queries the share of train has a standard error of 0.0015: fails for 1 in 10^9 hash functions."""
    train, validation, test = parts(many(np.arange(100_000)).split([0.6, 0.3, 0.1]))
    for part, share in zip((train, validation, test), (0.6, 0.3, 0.1), strict=True):
        assert abs(len(part) / 100_000 - share) < 0.01


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ([0.6, 0.6], "shares=0.6,0.6: expected 2 or 3 numbers that sum to 1, such as 0.6,0.2,0.2"),
        ([0.25] * 4, "shares=0.25,0.25,0.25,0.25: expected 2 or 3 numbers"),
        ([1.0], "shares=1.0: expected a number between 0 and 1"),
        ([0.5, "a"], "shares='a': expected a number"),
        ([0.5, 0.5, 0.0], "shares=0.0: expected a number between 0 and 1"),
        ([0.999999, 0.000001], "shares: no query falls into test, of 3; expected more queries"),
    ],
)
def test_bad_shares(shares, message):
    with pytest.raises(CounterrankError) as caught:
        many([1, 2, 3]).split(shares)
    assert str(caught.value).startswith(message)


# What is wrong


def csv(tmp_path, *lines, header="query_id,doc_id,label,price"):
    path = tmp_path / "data.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


BAD_CSV = [
    (["a,1,0,9.5", "a,2,1,x"], "column 'price' is 'x' in line 3, but mostly numbers; expected numbers such as 12.5"),
    (
        ["a,1,0,9.5", "a,2,1,x", "a,3,1,3", "a,4,1,?"],
        "column 'price' is 'x' in line 3 and 1 more are no numbers, but m",
    ),
    (['"a\nb",1,0,9.5', "", "a,2,1,x"], "column 'price' is 'x' in line 5, but mostly numbers"),
    (["a,1,0,$9.50", "a,2,1,$3"], "column 'price' is '$9.50' in line 2 and 1 more are no numbers, but mostly"),
    (['a,1,0,"9,5"', 'a,2,1,"1,25"'], "column 'price' is '9,5' in line 2 and 1 more are no numbers, but mostly"),
    (["a,1,0,2", "a,2,1,inf"], "column 'price' is inf in line 3; expected finite float32 numbers"),
    (["a,1,0,2", "a,,1,3"], "column 'doc_id' is null in line 3; expected an id"),
    ([",1,0,2", "a,1,1,3"], "column 'query_id' is null in line 2; expected an id"),
    (["a,1,0,2", "a,3,,3"], "column 'label' is null in line 3; expected a label"),
    (["a,1,0,2", "a,3,good,3"], "column 'label' is 'good' in line 3; expected numbers as labels"),
    (["a,1,0,2", "b,1,0,2", "a,1,1,3"], "document 1 twice in query a (line 2 and line 4); expected each document once"),
    (["a,1,0,2", "a,2,1"], "line 3 has 3 cells; expected 4, as in the header"),
    ([], "no rows; expected at least one document"),
]


@pytest.mark.parametrize(("lines", "message"), BAD_CSV, ids=[message[:45] for _, message in BAD_CSV])
def test_bad_csv(tmp_path, lines, message):
    path = csv(tmp_path, *lines)
    with pytest.raises(DataError) as caught:
        cr.open_data(str(path))
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)


def test_texts_that_are_no_numbers_are_no_features(tmp_path):
    path = csv(tmp_path, "a,1,0,2,x 1,2024-05-01", "a,2,0,2,12,2024-05-02", "a,3,0,2,b,",
               header="query_id,doc_id,label,price,title,day")  # fmt: skip
    with pytest.warns(
        UserWarning, match="column 'title' is left out as text, though 1 of 3 cells are numbers; it is 'x"
    ):
        data = cr.open_data(str(path))
    assert data.feature_names == ("price",)
    assert data.columns.left_out == {"title": "text", "day": "date or time"}
    with pytest.raises(DataError, match=r"feature 'title' is 'x 1' in line 2 and 1 more .*; expected numbers: encode"):
        cr.open_data(str(path), features=["price", "title"])
    with pytest.raises(DataError, match=r"feature 'day' is date32\[day\]; expected numbers: make it one"):
        cr.open_data(str(path), features=["day"])


def test_bad_parquet(tmp_path):
    path = tmp_path / "data.parquet"
    for changes, message in {
        ("price", (1.0, np.inf, 2.0)): "column 'price' is inf in row 1; expected finite float32 numbers",
        ("doc_id", (1, 2, None)): "column 'doc_id' is null in row 2; expected an id",
        ("doc_id", (7, 7, 7)): "document 7 twice in query red shoes (row 0 and row 2)",
        ("label", (datetime.date(2024, 5, 1),) * 3): "column 'label' is date32[day]; expected numbers as labels",
        (
            "query_id",
            None,
        ): "no column 'query_id'; it has 'doc_id', 'label', 'price', 'title'; columns={'query_id': NAME}",
        ("price", None): "no column of numbers to use as a feature",
    }.items():
        name, values = changes
        write(table(**{name: None if values is None else list(values)}), path)
        with pytest.raises(DataError) as caught:
            cr.open_data(str(path))
        assert str(caught.value).startswith(f"{path}: {message}")


def test_bad_options(tmp_path):
    path = str(write(table(), tmp_path / "data.parquet"))
    letor = tmp_path / "data.txt"
    letor.write_text("1 qid:1 1:2\n")
    for source, options, message in [
        (
            path,
            {"columns": {"rank": "x"}},
            "columns: no column 'rank' in ranking data; expected query_id, doc_id, label",
        ),
        (path, {"columns": {"label": ""}}, "columns: 'label' is ''; expected the name of a column"),
        (path, {"columns": {"label": "grade"}}, f"{path}: no column 'grade'; it has 'query_id'"),
        (path, {"features": ["label"]}, "features: 'label' is the column of label"),
        (str(letor), {"columns": {"label": "x"}}, f"columns: {letor} has no named columns; expected Parquet or CSV"),
        (str(letor), {"features": ["x"]}, f"features: {letor} has no named columns; expected Parquet or CSV"),
        ("synthetic:mslr", {"columns": {"label": "x"}}, "columns: synthetic:mslr has no named columns"),
        ("synthetic:mslr:queries=5", {"split": [0.5, 0.5]}, "split: synthetic:mslr:queries=5 has parts already"),
    ]:
        with pytest.raises(CounterrankError) as caught:
            cr.open_data(source, **options)
        assert str(caught.value).startswith(message)


def test_bad_partitions(tmp_path):
    first = write(table(), tmp_path / "day=1" / "part.parquet")
    second = write(table(query_id=["x"] * 3, doc_id=[1, 2, 3], price=None), tmp_path / "day=2" / "part.parquet")
    with pytest.raises(DataError) as caught:
        cr.open_data(str(tmp_path))
    assert str(caught.value) == f"{second}: no column 'price'; expected the same columns in all files"
    write(table(), second)
    with pytest.raises(DataError) as caught:
        cr.open_data(str(tmp_path))
    assert str(caught.value) == (
        f"{tmp_path}: document 7 twice in query red shoes ({first}, row 0 and {second}, row 0); expected each document "
        "once per query"
    )
    write(table(query_id=["x"] * 3, doc_id=[1, 2, 3], price=["a", "b", "c"]), second)
    for features in (None, ["price"]):
        with pytest.raises(
            DataError, match=r"day=2/part.parquet: column 'price' is string; expected double, as in .*1/"
        ):
            cr.open_data(str(tmp_path), features=features)
    write(table(query_id=[datetime.date(2024, 5, 1)] * 3), second)
    with pytest.raises(DataError, match=r"column 'query_id' is .*; expected one type"):
        cr.open_data(str(tmp_path))
    cr.make_ranking_data("yahoo", n_queries=2, seed=0).save(second)
    with pytest.raises(DataError, match="a column 'features' of lists, in a folder of several files"):
        cr.open_data(str(tmp_path))


def test_broken_files(tmp_path):
    bad = tmp_path / "bad.parquet"
    bad.write_text("not Parquet")
    with pytest.raises(DataError, match="not a Parquet file that can be read"):
        cr.open_data(str(bad))
    packed = tmp_path / "bad.csv.gz"
    packed.write_bytes(gzip.compress(b"query_id,doc_id\n" * 100)[:-20])
    with pytest.raises(DataError, match="cannot be read"):
        cr.open_data(str(packed))
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(DataError, match="empty; expected a line with the names of the columns"):
        cr.open_data(str(tmp_path / "empty.csv"))


def test_missing_values_and_signs_of_numbers_in_csv(tmp_path):
    words = ["", "NA", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "<NA>", "nUlL", "  "]
    path = csv(tmp_path, *(f"a,{i},0,{word}" for i, word in enumerate(words)), "a,99,0,+1.5")
    data = cr.open_data(str(path))
    assert np.isnan(data.features[:-1]).all()
    assert data.features[-1] == 1.5


def test_numbers_in_one_csv_file_and_texts_in_another(tmp_path):
    for name, value in (("a", "2.5"), ("b", "n/k")):
        (tmp_path / f"{name}.csv").write_text(f"query_id,doc_id,price,stock\n{name},1,{value},1\n")
    with pytest.raises(DataError, match=r"column 'price' is 'n/k' in .*b.csv, line 2, but mostly numbers"):
        cr.open_data(str(tmp_path))
    with pytest.raises(DataError, match=r"feature 'price' is 'n/k' in .*b.csv, line 2; expected numbers"):
        cr.open_data(str(tmp_path), features=["price"])


def test_a_label_without_its_name_is_no_silent_feature(tmp_path):
    path = write(table(label=None, grade=[1, 0, 2]), tmp_path / "data.parquet")
    with pytest.warns(UserWarning, match="column 'grade' is a feature, .*; columns={'label': 'grade'} makes it"):
        cr.open_data(str(path))
    with pytest.raises(DataError, match=r"no column 'grad'; .*; did you mean 'grade'"):
        cr.open_data(str(path), columns={"label": "grad"})


def test_numbers_as_text_in_parquet(tmp_path):
    path = write(table(stock=["1", "2", "x3"]), tmp_path / "data.parquet")
    with pytest.warns(UserWarning, match="column 'stock' holds numbers as text and is left out"):
        assert cr.open_data(str(path)).columns.left_out == {"title": "text", "stock": "numbers as text"}
    with pytest.raises(DataError, match="feature 'stock' is 'x3' in row 2; expected numbers"):
        cr.open_data(str(path), features=["stock"])
