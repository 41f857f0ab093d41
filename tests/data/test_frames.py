"""Ranking data from frames of every kind, and back."""

import datetime
import decimal
import json
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank.common.errors import CounterrankError, DataError
from counterrank.data import frames
from counterrank.data.frames import arrow_table, is_frame, prediction_frame
from tests.reference import frames as reference
from tests.support.frame_kinds import KINDS, Stream

TEXTS = ["red shoes", "", "ß 7", "7", " a", "red  shoes", "x" * 40]


@st.composite
def rows(draw):
    """Rows whose queries stand apart; ids of texts or numbers, values that repeat, some missing."""
    ids = draw(st.sampled_from([TEXTS, list(range(-3, 4))]))
    pairs = draw(st.lists(st.tuples(st.sampled_from(ids), st.integers(0, 8)), min_size=1, max_size=30, unique=True))
    value = st.one_of(st.none(), st.integers(-2, 2).map(float), st.floats(-1e6, 1e6, width=32))
    return [
        {
            "q": query,
            "d": document,
            "grade": draw(st.integers(0, 4)),
            "price": draw(value),
            "title": draw(st.sampled_from(["a", "b"])),
            "stock": draw(st.one_of(st.none(), st.booleans())),
            "sold": draw(st.integers(0, 3)),
        }
        for query, document in pairs
    ]


def as_table(found):
    types = {"price": pa.float64(), "stock": pa.bool_()}  # also where all of them are missing
    return pa.table({name: pa.array([row[name] for row in found], types.get(name)) for name in found[0]})


def as_reference(found, features):
    return {
        query: [
            (row["d"], row["grade"], [None if row[name] is None else float(row[name]) for name in features])
            for _, row in members
        ]
        for query, members in reference.grouped(found, "q").items()
    }


def shown(data):
    labels = None if data.labels is None else data.labels.tolist()
    return reference.as_rows(
        data.query_ids.tolist(), data.offsets.tolist(), data.doc_ids.tolist(), labels, data.features.tolist()
    )


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(found=rows(), block=st.sampled_from([1, 3, 1 << 14]))
def test_every_kind_of_frame_gives_the_same(kind, found, block):
    frame = KINDS[kind](as_table(found))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "BLOCK_ROWS", block)
        data = cr.RankingData.from_frame(
            frame, query="q", document="d", label="grade", features=["price", "stock", "sold"]
        )
    assert shown(data) == as_reference(found, ["price", "stock", "sold"])
    assert data.feature_names == ("price", "stock", "sold")
    assert data.columns == {"query": "q", "document": "d", "label": "grade"}
    assert data.features.dtype == np.float32
    assert data.features.flags.c_contiguous
    assert not data.features.flags.writeable
    again = cr.RankingData.from_frame(data.to_arrow())
    assert again.equals(data)
    assert again.columns == data.columns


@settings(max_examples=50)
@given(found=rows())
def test_scores_come_back_in_the_order_of_the_frame(found):
    table = as_table(found)
    data, places = prediction_frame(table, "q", ["sold", "price"])
    assert data.labels is None
    assert data.feature_names == ("sold", "price")
    np.testing.assert_array_equal(data.features[places, 0], table["sold"].to_numpy())
    of_rows = np.repeat(data.query_ids, data.lengths)[places].tolist()
    assert of_rows == [row["q"] for row in found]


@settings(max_examples=50)
@given(found=rows())
def test_round_trip_of_subsets(found):
    data = cr.RankingData.from_frame(as_table(found), query="q", document="d", label="grade")
    part = data.subset([data.n_queries - 1])
    assert cr.RankingData.from_frame(part.to_arrow()).equals(part)


FRAME = {
    "q": ["a", "b", "a"],
    "d": [1, 1, 2],
    "grade": [0.0, 1.0, 2.0],
    "price": [1.0, 2.0, 3.0],
    "title": ["x", "y", "z"],
}


def frame(**changes):
    return pa.table({name: values for name, values in (FRAME | changes).items() if values is not None})


def read(table, **options):
    return cr.RankingData.from_frame(table, **({"query": "q", "document": "d", "label": "grade"} | options))


def test_features_are_all_columns_of_numbers_without_a_role():
    table = frame(
        stock=[True, None, False],
        size=pa.array([1, 2, 3], pa.uint8()),
        rate=pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-2.25")]),
        half=pa.array(np.array([1, 2, 3], np.float16)),
        day=[datetime.date(2024, 5, 1)] * 3,
        tags=[["a"], [], ["b"]],
        kind=pa.array(["a", "b", "a"]).dictionary_encode(),
        empty=pa.nulls(3),
    )
    data = read(table)
    assert data.feature_names == ("price", "stock", "size", "rate", "half")
    expected = [[1, 1, 1, 1.5, 1], [3, 0, 3, -2.25, 3], [2, np.nan, 2, np.nan, 2]]
    np.testing.assert_array_equal(data.features, np.array(expected, np.float32))
    assert data.n_missing == 2
    assert np.isnan(read(table, features=["empty"]).features).all()


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (pa.array([3, 4, 5], pa.uint64()), [3, 4, 5]),
        (pa.array([3.0, -4.0, 5.0]), [3, -4, 5]),
        (pa.array([decimal.Decimal(3), decimal.Decimal(4), decimal.Decimal(5)]), [3, 4, 5]),
        (pa.array(["b c", "a", "b"]).dictionary_encode(), ["b c", "a", "b"]),
        (pa.array([7, 8, 9]).dictionary_encode(), [7, 8, 9]),
        (pa.array(["x", "y", "z"], pa.large_string()), ["x", "y", "z"]),
    ],
)
def test_ids_of_all_kinds(ids, expected):
    data = read(frame(q=ids))
    assert data.query_ids.tolist() == expected
    assert read(frame(q=["a"] * 3, d=ids)).doc_ids.tolist() == expected


def test_categories_that_no_row_has_are_no_queries():
    table = pd.DataFrame(FRAME | {"q": pd.Categorical(["b", "a", "b"], categories=["z", "a", "b"])})
    assert read(table).query_ids.tolist() == ["b", "a"]
    enum = pl.DataFrame(FRAME).with_columns(pl.col("q").cast(pl.Enum(["z", "b", "a"])))
    assert read(enum).query_ids.tolist() == ["a", "b"]


def test_columns_of_pandas_need_no_texts_for_names():
    table = pd.DataFrame({"q": ["a", "a"], "d": [1, 2], 0: [1.0, 2.0], 1: [3.0, 4.0]})
    data = cr.RankingData.from_frame(table, query="q", document="d")
    assert data.feature_names == ("0", "1")
    assert cr.RankingData.from_frame(table, query="q", document="d", features=[1, 0]).features.tolist() == [
        [3, 1],
        [4, 2],
    ]


def test_data_without_a_frame_has_the_usual_names():
    data = cr.RankingData([[1.0, np.nan]], [0, 1], labels=[2])
    table = data.to_arrow()
    assert table.column_names == ["query_id", "doc_id", "label", "feature_1", "feature_2"]
    assert table["feature_2"].null_count == 1
    assert cr.RankingData.from_frame(table).equals(data)
    assert pl.from_arrow(table).height == len(table.to_pandas()) == 1


NAN = float("nan")
BAD = [
    ({}, {"query": "query"}, "query='query': no such column; the frame has 'q', 'd', 'grade', 'price', 'title'"),
    (
        {},
        {"query": None, "document": None, "label": None},
        "query: not given; expected the name of a column, of 'q', 'd'",
    ),
    ({}, {"document": None}, "document: not given; expected the name of a column"),
    ({}, {"label": 3}, "label=3: expected the name of a column"),
    ({}, {"document": "q"}, "frame: column 'q' is query and document; expected two different columns"),
    ({}, {"features": "price"}, "features='price': expected a list of names of columns"),
    ({}, {"features": []}, "features=[]: expected a list of names of columns"),
    ({}, {"features": ["cost"]}, "features: no column 'cost'; frame has 'q', 'd'"),
    ({}, {"features": ["price", "price"]}, "features: 'price' twice"),
    (
        {},
        {"features": ["Pricee"]},
        "features: no column 'Pricee'; frame has 'q', 'd', 'grade', 'price', 'title'; did you",
    ),
    (
        {},
        {"label": "grades"},
        "label='grades': no such column; the frame has 'q', 'd', 'grade', 'price', 'title'; did you",
    ),
    (
        {"price": ["1.5", "n/k", "?"]},
        {"features": ["price"]},
        "frame: feature 'price' is 'n/k' in row 1 and 1 more are no numbers; expected numbers: encode",
    ),
    ({}, {"features": ["q"]}, "features: 'q' is the column of query; expected columns without a role"),
    ({}, {"features": ["title"]}, "frame: feature 'title' is 'x' in row 0 and 2 more are no numbers; expected"),
    (
        {"day": [datetime.date(2024, 5, 1)] * 3},
        {"features": ["day"]},
        "frame: feature 'day' is date32[day]; expected numbers: make it one, such as the age in days, or leave it out",
    ),
    (
        {"tags": [[1.0]] * 3},
        {"features": ["tags"]},
        "frame: feature 'tags' is list<item: double>; expected numbers: give",
    ),
    ({"price": None}, {}, "frame: no column of numbers to use as a feature; left out: 'title' (text)"),
    ({"price": [1.0, 2.0, np.inf]}, {}, "frame: column 'price' is inf in row 2; expected finite float32 numbers"),
    ({"price": [1.0, -1e300, 2.0]}, {}, "frame: column 'price' is -1e+300 in row 1; expected finite float32 numbers"),
    ({"q": ["a", None, None]}, {}, "frame: column 'q' is null in row 1 and 1 more; expected an id"),
    ({"d": [1, 2, None]}, {}, "frame: column 'd' is null in row 2; expected an id"),
    ({"d": [1.0, NAN, 2.0]}, {}, "frame: column 'd' is nan in row 1; expected whole numbers or texts as ids"),
    ({"d": [1.0, 2.5, 2.0]}, {}, "frame: column 'd' is 2.5 in row 1; expected whole numbers or texts as ids"),
    ({"d": [1.0, 2.0, 2.0**53]}, {}, "frame: column 'd' is 9007199254740992.0 in row 2; expected whole numbers"),
    ({"d": pa.array([2**63, 1, 2], pa.uint64())}, {}, "frame: column 'd' has an id beyond int64"),
    (
        {"d": [True, False, True]},
        {},
        "frame: column 'd' is bool; expected whole numbers or texts as ids (cast it to text)",
    ),
    ({"d": [datetime.date(2024, 5, 1)] * 3}, {}, "frame: column 'd' is date32[day]; expected whole numbers or texts"),
    (
        {"d": [5, 5, 5]},
        {},
        "frame: document 5 twice in query a (row 0 and row 2); expected each document once per query",
    ),
    ({"grade": [0.0, None, 1.0]}, {}, "frame: column 'grade' is null in row 1; expected a label in each row; fill it"),
    ({"grade": [0.0, 1.0, NAN]}, {}, "frame: column 'grade' is nan in row 2; expected a finite label"),
    ({"grade": ["a", "b", "c"]}, {}, "frame: column 'grade' is 'a' in row 0 and 2 more are no numbers; expected"),
    ({"grade": ["1", "NA", "2"]}, {}, "frame: column 'grade' is nan in row 1; expected a finite label"),
    ({"label": [0, 1, 2]}, {"label": None}, "frame: column 'label' would become a feature; expected label='label'"),
]


@pytest.mark.parametrize(("changes", "options", "message"), BAD, ids=[message[:50] for *_, message in BAD])
def test_bad_frames(changes, options, message):
    with pytest.raises(CounterrankError) as caught:
        read(frame(**changes), **options)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_bad_pandas_frames():
    with pytest.raises(DataError, match=r"'q': no such column; .* it is in the index: frame.reset_index"):
        read(pd.DataFrame(FRAME).set_index("q"))
    with pytest.raises(
        DataError,
        match=r"column 'd' holds values of several types, int in row 0 and str in row 1 and",
    ):
        read(pd.DataFrame(FRAME | {"d": [1, "a", 2.5]}))
    with pytest.raises(DataError, match=r"column 'd' cannot be read as Arrow .*; expected one type of values"):
        read(pd.DataFrame(FRAME | {"d": [2**70, 1, 2]}))
    with pytest.raises(DataError, match="frame: 2 columns 'price'; expected one"):
        read(pd.DataFrame(FRAME).rename(columns={"grade": "price"}), label=None)
    with pytest.raises(DataError, match="frame: column 'price' is null in row 1"):
        read(pd.DataFrame(FRAME | {"price": [1.0, NAN, 2.0]}), label="price", features=["grade"])


def products(n_queries=400, n_products=3000, candidates=15):
    """A shop: for each query some of the products."""
    rng = np.random.default_rng(0)
    sku = np.concatenate([rng.choice(n_products, candidates, replace=False) for _ in range(n_queries)])
    return pa.table({"search": np.repeat(np.arange(n_queries), candidates), "sku": sku, "price": sku % 7})


def test_swapped_queries_and_documents_are_warned_about():
    message = (
        r"^frame: [\d,]+ of [\d,]+ queries \(column 'sku'\) have one document, and each of 400 documents \(column "
        r"'search'\) is in 15 queries on average; are query and document swapped\?"
    )
    with pytest.warns(UserWarning, match=message):
        cr.RankingData.from_frame(products(), query="sku", document="search")


@pytest.mark.parametrize(
    "sizes",
    [{}, {"n_products": 20}, {"candidates": 2, "n_products": 10}, {"candidates": 1}, {"n_products": 10**6}],
    ids=str,
)
def test_usual_data_is_not_taken_for_swapped(sizes, recwarn):
    cr.RankingData.from_frame(products(**sizes), query="search", document="sku")
    assert [str(each.message) for each in recwarn] == []


def test_frames_without_rows():
    for kind in (pd.DataFrame(FRAME).iloc[:0], pl.DataFrame(FRAME).clear(), frame().slice(0, 0)):
        with pytest.raises(DataError, match="frame: no rows; expected at least one document"):
            read(kind)


@pytest.mark.parametrize(
    "value",
    [None, 3, "data.csv", [1], {"q": [1]}, np.zeros((2, 2)), pd.Series([1]), pl.Series([1]), pa.chunked_array([[1]])],
)
def test_what_is_no_frame(value):
    assert not is_frame(value)
    with pytest.raises(DataError, match=r"^frame: \w+; expected a frame of pandas or polars, an Arrow table"):
        read(value)


def test_whatever_goes_wrong_in_another_library_is_one_line():
    class Broken:
        def __arrow_c_stream__(self, requested_schema=None):
            raise RuntimeError("x" * 1000)

    with pytest.raises(DataError, match="frame: Broken that cannot be read as Arrow") as caught:
        read(Broken())
    assert len(str(caught.value)) < 300


def test_a_name_for_a_feature_and_a_role():
    data = cr.RankingData([[1.0]], [0, 1], feature_names=["doc_id"])
    with pytest.raises(DataError, match="'doc_id' is the name of a feature and of the column of document"):
        data.to_arrow()


def test_arrow_tables_are_not_copied():
    table = frame()
    assert arrow_table(table) is table
    assert arrow_table(Stream(table)).equals(table)


MEMORY = """
import json, re, sys
import numpy as np, pandas as pd, polars as pl, pyarrow as pa, pyarrow.parquet as pq
import counterrank as cr

def status(name):
    return 1024 * int(re.search(name + r":\\s+(\\d+) kB", open("/proc/self/status").read())[1])

kind, apart = sys.argv[1], sys.argv[2] == "apart"
n, width = 400_000, 128
names = [f"f{i}" for i in range(width)]
queries = np.repeat(np.arange(n // 20), 20)
queries = np.random.default_rng(0).permutation(queries) if apart else queries

def make(n):
    matrix = np.ones((n, width), np.float32)
    if kind == "pandas":
        return pd.DataFrame(matrix, columns=names).assign(q=queries[:n], d=np.arange(n))
    table = pa.table({"q": queries[:n], "d": np.arange(n), **{name: matrix[:, i] for i, name in enumerate(names)}})
    if kind == "parquet":
        pq.write_table(table, sys.argv[3])
        return sys.argv[3]
    return pl.from_arrow(table) if kind == "polars" else table

def read(frame):
    if kind == "parquet":
        return cr.open_data(frame, columns={"query_id": "q", "doc_id": "d"})
    return cr.RankingData.from_frame(frame, query="q", document="d")

read(make(100))  # imports and compiled kernels do not count
frame = make(n)
pa.default_memory_pool().release_unused()
open("/proc/self/clear_refs", "w").write("5")  # the peak begins anew
before = status("VmRSS")
data = read(frame)
print(json.dumps((status("VmHWM") - before) / data.features.nbytes))
"""


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is measured as Linux counts it")
@pytest.mark.parametrize("order", ["together", "apart"])
@pytest.mark.parametrize(("kind", "most"), [("pandas", 1.25), ("polars", 1.25), ("arrow", 1.25), ("parquet", 1.5)])
def test_the_matrix_is_the_only_copy(tmp_path, kind, most, order):
    """Beyond the frame: the matrix (205 MB), ids and offsets of a tenth of it, and of Parquet some pages."""
    command = [sys.executable, "-c", MEMORY, kind, order, str(tmp_path / "data.parquet")]
    assert json.loads(subprocess.run(command, check=True, capture_output=True).stdout) < most


@pytest.mark.parametrize("name", ["__index_level_0__", "Unnamed: 0"])
def test_the_index_of_a_pandas_frame_is_no_feature(name):
    table = pa.table({name: [7, 8], "query": ["a", "a"], "sku": [1, 2], "price": [1.0, 2.0]})
    with pytest.warns(UserWarning, match=f"column '{name}' is left out, since it looks like the row numbers"):
        assert cr.RankingData.from_frame(table, query="query", document="sku").feature_names == ("price",)
    named = cr.RankingData.from_frame(table, query="query", document="sku", features=[name])
    assert named.feature_names == (name,)


@pytest.mark.parametrize("kind", KINDS)
def test_columns_say_what_became_of_them(kind):
    table = frame(day=[datetime.datetime(2024, 5, 1)] * 3, stock=[True, False, None])
    data = read(KINDS[kind](table))
    assert data.columns == {"query": "q", "document": "d", "label": "grade"}
    assert data.columns.features == ("price", "stock")
    index = {"i": "index of the frame"} if kind == "pandas with an index" else {}
    assert data.columns.left_out == {"title": "text", "day": "date or time", **index}
    assert data.subset([0]).columns.left_out == data.columns.left_out
    assert data.select_features(["stock"]).columns.features == ("stock",)
    again = pickle.loads(pickle.dumps(data)).columns
    assert (again, again.features, again.left_out) == (data.columns, data.columns.features, data.columns.left_out)
    assert read(KINDS[kind](table), features=["stock"]).columns.left_out == dict.fromkeys(
        ("price", "title", "day"), "not in features"
    )


def test_other_reasons():
    table = pa.table({
        "q": ["a"], "d": [1], "price": [1.0], "tags": [["a"]], "empty": pa.nulls(1),
        "kind": pa.array(["a"]).dictionary_encode(), "raw": pa.array([b"a"]),
    })  # fmt: skip
    assert cr.RankingData.from_frame(table, query="q", document="d").columns.left_out == {
        "tags": "list or struct",
        "empty": "no values",
        "kind": "category",
        "raw": "binary",
    }
    indexed = pd.DataFrame({"q": ["a"], "d": [1], "price": [1.0], "stock": [2]}).set_index("stock")
    assert cr.RankingData.from_frame(indexed, query="q", document="d").columns.left_out == {
        "stock": "index of the frame"
    }
    indexed.index.name = "d"
    assert cr.RankingData.from_frame(indexed, query="q", document="d").columns.left_out == {}


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_as_text_are_left_out_with_a_warning_and_parsed_where_named(kind):
    table = frame(price=["3.5", " +2 ", "NA"], stock=[1, 2, 3])
    with pytest.warns(UserWarning, match="column 'price' holds numbers as text and is left out; cast it") as caught:
        assert read(KINDS[kind](table)).feature_names == ("stock",)
    assert caught[0].filename == __file__
    named = read(KINDS[kind](table), features=["price", "stock"])
    np.testing.assert_array_equal(named.features, [[3.5, 1], [np.nan, 3], [2, 2]])
    data, rows = prediction_frame(KINDS[kind](table), "q", ["price"])
    np.testing.assert_array_equal(data.features[rows, 0], [3.5, 2, np.nan])


def test_labels_may_be_numbers_as_text():
    assert read(frame(grade=["0", "2", "1"])).labels.tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", ["grade", "Relevance", "relevance label", "judgement", "target", "rating"])
def test_what_is_named_as_a_label_is_no_silent_feature(name):
    table = frame(grade=None).append_column(name, pa.array([0, 1, 2]))
    with pytest.warns(UserWarning, match=f"column '{name}' is a feature, though named as a label") as caught:
        assert read(table, label=None).feature_names == ("price", name)
    assert f"label='{name}' makes it the label; features= chooses features" in str(caught[0].message)
    assert caught[0].filename == __file__
    with warnings.catch_warnings(action="error"):
        read(table, label=name)
        read(table, label=None, features=["price", name])


def test_averages_of_stars_are_features():
    with warnings.catch_warnings(action="error"):
        read(frame(rating=[3.5, 4.0, 5.0], relevances_of_title=[1, 2, 3]))


def test_outcomes_of_pages_give_a_warning():
    with pytest.warns(UserWarning, match="columns 'clicks', 'Position' are features; where that is known only from"):
        read(frame(clicks=[1, 2, 3], Position=[1, 2, 3], last_click=[1, 2, 3]))
    with pytest.warns(UserWarning, match="column 'relevance' is a feature, .* must not see; features= chooses"):
        read(frame(relevance=[1, 2, 3]))
