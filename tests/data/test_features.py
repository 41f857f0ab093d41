"""Names of features, and missing values, in ranking data."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank.data.features import align_features, missing_columns, present_counts, refuse_missing
from counterrank.data.ids import query_keys
from counterrank.data.ranking_data import from_arrays
from counterrank.models import Scaler
from counterrank.training.problem import constant_features
from tests.reference import scaling

NAN = float("nan")
ROWS = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]
NAMES = ["price", "rating", "stock"]

values = st.one_of(st.just(NAN), st.sampled_from([0.0, -0.0, 1.0, -3.5, 1e30, 1e-40]), st.floats(-100, 100, width=32))


@st.composite
def ragged(draw):
    """Ranking data with missing values, some features missing everywhere."""
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    n_features = draw(st.integers(1, 4))
    rows = draw(st.lists(st.lists(values, min_size=n_features, max_size=n_features), min_size=sum(lengths),
                         max_size=sum(lengths)))  # fmt: skip
    return cr.RankingData(np.array(rows, np.float32), np.concatenate(([0], np.cumsum(lengths))))


def named(names=NAMES, rows=ROWS, **more):
    return cr.RankingData(rows, [0, 2, len(rows)], feature_names=names, **more)


def test_features_are_selected_by_name():
    data = named(labels=[0, 1, 2], doc_ids=["a", "b", "c"])
    chosen = data.select_features(["stock", "price"])
    assert chosen.feature_names == ("stock", "price")
    assert chosen.features.tolist() == [[3.0, 1.0], [6.0, 4.0], [9.0, 7.0]]
    assert chosen.features.flags.c_contiguous
    assert chosen.labels.tolist() == [0, 1, 2]
    assert chosen.doc_ids.tolist() == ["a", "b", "c"]
    assert cr.RankingData(ROWS, [0, 3]).select_features(["feature_3"]).features.tolist() == [[3.0], [6.0], [9.0]]
    assert data.select_features("price").feature_names == ("price",)
    for wrong, message in (
        (["cost"], "names: 'cost' is no feature of the data"),
        ([], "names: none; expected at least one feature"),
        (["price", "price"], "names: 'price' twice"),
    ):
        with pytest.raises(cr.CounterrankError, match=message):
            data.select_features(wrong)


def test_features_are_aligned_by_name():
    data = named()
    assert align_features(data, NAMES, True) is data
    assert align_features(data, ["stock", "price", "rating"], True).features[0].tolist() == [3.0, 1.0, 2.0]
    for names, message in (
        (["price", "rating"], "data: has 'stock', unknown to the ranker; expected the same names"),
        ([*NAMES, "size"], "data: lacks feature 'size' of the ranker; expected the same names"),
        (
            ["a", "b", "c", "d", "e", "f", "price"],
            "lacks features 'a', 'b', 'c', 'd', 'e' and 1 more of the ranker; has",
        ),
    ):
        with pytest.raises(cr.CounterrankError, match=message) as caught:
            align_features(data, names, True)
        assert "\n" not in str(caught.value)


def test_features_without_names_are_taken_by_position():
    plain = cr.RankingData(ROWS, [0, 3])
    with pytest.warns(UserWarning, match="the ranker has names of features and data has none, so they are taken by"):
        assert align_features(plain, NAMES, True) is plain
    with pytest.warns(UserWarning, match="validation has names of features and data has none"):
        align_features(named(), plain.feature_names, False, what="validation", reference="data")
    with pytest.raises(cr.CounterrankError, match="data: 3 features; expected 2, as the ranker has"):
        align_features(plain, ["a", "b"], True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        counted = named(["feature_2", "feature_1", "feature_3"])  # as columns of a file, in the order of their names
        assert align_features(counted, plain.feature_names, False).features[0].tolist() == [2.0, 1.0, 3.0]
        align_features(plain, NAMES, True, warn=False)


def test_parts_of_a_fold_have_the_features_of_train():
    other = named().select_features(["stock", "rating", "price"])
    fold = cr.Fold(named(), other, other)
    assert fold.test.feature_names == fold.validation.feature_names == tuple(NAMES)
    assert fold.test.features.tolist() == ROWS
    with pytest.raises(cr.CounterrankError, match="test: lacks feature 'price' of train; has 'cost', unknown to train"):
        cr.Fold(named(), None, named(["cost", "rating", "stock"]))
    with pytest.raises(cr.CounterrankError, match="validation: 2 features; expected 3, as in train"):
        cr.Fold(cr.RankingData(ROWS, [0, 3]), cr.RankingData([[1.0, 2.0]], [0, 1]), cr.RankingData(ROWS, [0, 3]))


def test_a_frame_names_its_features():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = {"columns": [1.0, 2.0], "column_names": [3.0, 4.0]}
    for frame in (pandas.DataFrame(columns), polars.DataFrame(columns), pa.table(columns)):
        assert from_arrays(frame, group=[2]).feature_names == ("columns", "column_names")
    assert not from_arrays(pandas.DataFrame(ROWS), group=[3]).has_feature_names  # columns 0, 1, 2
    assert not from_arrays(np.array(ROWS), group=[3]).has_feature_names


@settings(max_examples=150, deadline=None)
@given(ragged())
def test_missing_values_stay_missing_when_features_are_scaled(data):
    expected = scaling.scaled_in_queries(data.features, data.offsets)
    np.testing.assert_array_equal(np.isnan(data.normalized().features), np.isnan(data.features))
    np.testing.assert_allclose(data.normalized().features, expected, rtol=1e-6)
    np.testing.assert_array_equal(Scaler.learn("query", data).apply(data), data.normalized().features)
    assert constant_features(data, 1).tolist() == scaling.constant_columns(data.features, data.offsets)
    present = ~np.isnan(data.features)
    assert present_counts(data).tolist() == present.sum(axis=0).tolist()
    assert missing_columns(data).tolist() == np.flatnonzero(~present.all(axis=0)).tolist()
    assert data.n_missing == (~present).sum()
    scaler = Scaler.learn("standard", data)
    mean, deviation = scaling.mean_and_deviation(data.features)
    np.testing.assert_allclose(scaler.low, mean, rtol=1e-9, atol=1e-9 * np.abs(np.nan_to_num(data.features)).max())
    varies = deviation > 1e-6 * np.abs(mean)
    np.testing.assert_allclose(scaler.inverse[varies], 1.0 / deviation[varies], rtol=1e-6)
    np.testing.assert_array_equal(np.isnan(scaler.apply(data)), ~present)


def test_scaling_with_missing_values_by_hand():
    data = cr.RankingData([[1, NAN, 7, NAN], [3, 2, 7, NAN], [NAN, 4, NAN, NAN]], [0, 3])
    np.testing.assert_array_equal(data.normalized().features, [[0, NAN, 0, NAN], [1, 0, 0, NAN], [NAN, 1, NAN, NAN]])
    # the third is missing for one document, so it tells documents apart; the fourth is missing for all
    assert constant_features(data).tolist() == [3]
    scaler = Scaler.learn("standard", data)
    assert scaler.low.tolist() == [2.0, 3.0, 7.0, 0.0]
    assert scaler.inverse.tolist() == [1.0, 1.0, 0.0, 0.0]
    assert "4 features, 6 missing values, 3 documents" in repr(data)


def test_an_error_about_missing_values_says_how_many_and_where():
    rows = np.array(ROWS)
    rows[1, 2] = rows[2, 0] = NAN
    data = named(rows=rows, query_ids=["shoes", "hats"], doc_ids=["a", "b\nc", "d"])
    with pytest.raises(cr.CounterrankError) as caught:
        refuse_missing(data, "a linear model", "model='lambdamart'", "validation")
    assert str(caught.value) == (
        "validation: 2 missing values (NaN), the first is feature 'stock' of document b c in query shoes; a linear "
        "model expected none: impute them, drop the feature, or use model='lambdamart'"
    )
    refuse_missing(named(), "a linear model", "")
    with pytest.raises(cr.CounterrankError, match="expected finite float32 numbers"):
        cr.RankingData([[np.inf]], [0, 1])


def test_a_late_missing_value_is_found():
    rows = np.zeros((70_000, 2), np.float32)
    rows[69_999, 1] = NAN
    with pytest.raises(cr.CounterrankError, match=r"1 missing value .* 'feature_2' of document 19 in query 3499"):
        refuse_missing(cr.RankingData(rows, np.arange(0, 70_001, 20)), "a model", "another")


def test_keys_of_queries_do_not_depend_on_the_form_of_nan_nor_on_the_order_of_names():
    rows = np.array([[1.0, NAN], [2.0, 3.0]], np.float32)
    other = rows.copy()
    other.view(np.uint32)[0, 1] = 0xFFC00123  # NaN too
    one, two = cr.RankingData(rows, [0, 2]), cr.RankingData(other, [0, 2])
    assert query_keys(one).tolist() == query_keys(two).tolist()
    assert query_keys(one).tolist() != query_keys(cr.RankingData(np.nan_to_num(rows), [0, 2])).tolist()
    assert one.equals(two)
    data = named()
    assert query_keys(data).tolist() == query_keys(data.select_features(["stock", "rating", "price"])).tolist()
    assert query_keys(data).tolist() != query_keys(named(["stock", "rating", "price"])).tolist()
    plain = cr.RankingData(ROWS, [0, 2, 3])
    assert query_keys(plain).tolist() == query_keys(named(["feature_1", "feature_2", "feature_3"])).tolist()


def test_names_and_missing_values_are_saved(tmp_path):
    rows = np.array(ROWS, np.float32)
    rows[1, 2] = NAN
    for data in (named(rows=rows), cr.RankingData(rows, [0, 3])):
        data.save(tmp_path / "data.parquet")
        back = cr.RankingData.load(tmp_path / "data.parquet")
        assert back.equals(data)
        assert back.has_feature_names == data.has_feature_names
        assert back.n_missing == 1


def test_a_null_in_a_list_of_features_is_a_missing_value(tmp_path):
    table = pa.table({"query_id": [1, 1], "doc_id": [1, 2], "features": pa.array([[1.0, None], [2.0, 3.0]])})
    pq.write_table(table, tmp_path / "data.parquet")
    np.testing.assert_array_equal(cr.RankingData.load(tmp_path / "data.parquet").features, [[1, NAN], [2, 3]])


def test_damaged_names_in_a_file_are_refused(tmp_path):
    for text, message in ((b'["a"]', "1 names; expected 2"), (b"[1, 2]", "1; expected texts"), (b"{", "names in the")):
        field = pa.field("features", pa.list_(pa.float32(), 2), metadata={b"feature_names": text})
        columns = [pa.array([1]), pa.array([1]), pa.array([[1.0, 2.0]], field.type)]
        schema = pa.schema([pa.field("query_id", pa.int64()), pa.field("doc_id", pa.int64()), field])
        pq.write_table(pa.Table.from_arrays(columns, schema=schema), tmp_path / "data.parquet")
        with pytest.raises(cr.CounterrankError, match=message):
            cr.RankingData.load(tmp_path / "data.parquet")
