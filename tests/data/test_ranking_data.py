import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank.common.errors import CounterrankError, DataError
from counterrank.data.ids import encode, first_repeat_in_query, group_rows

FEATURES = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


def make(**changes):
    given = {
        "features": FEATURES,
        "offsets": [0, 2, 3],
        "labels": [0, 1, 2],
        "query_ids": ["a", "b"],
        "doc_ids": [7, 8, 7],
    }
    return cr.RankingData(**(given | changes))


def test_types():
    data = make()
    assert data.features.dtype == data.labels.dtype == np.float32
    assert data.offsets.dtype == data.doc_ids.dtype == np.int64
    assert data.features.flags.c_contiguous
    assert (data.n_queries, data.n_docs, data.n_features, len(data)) == (2, 3, 2, 2)
    assert data.lengths.tolist() == [2, 1]


def test_what_is_left_out():
    data = cr.RankingData(FEATURES, [0, 2, 3])
    assert data.labels is None
    assert data.query_ids.tolist() == [0, 1]
    assert data.doc_ids.tolist() == [0, 1, 0]


BIG = 2**63


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": [1, 2, 3]}, "features: shape (3,); expected (documents, features) with at least one feature"),
        (
            {"features": np.ones((3, 0))},
            "features: shape (3, 0); expected (documents, features) with at least one feature",
        ),
        ({"features": [["a"]] * 3}, "features: type <U1; expected real numbers"),
        ({"features": [[1j]] * 3}, "features: type complex128; expected real numbers"),
        (
            {"features": [[1, 2], [3, np.inf], [5, 6]]},
            "features: document 1 of query 0 (row 1) has inf in column 1; expected finite float32 numbers",
        ),
        (
            {"features": [[1, 2], [3, 4], [-np.inf, 6]]},
            "features: document 0 of query 1 (row 2) has -inf in column 0; expected finite float32 numbers",
        ),
        (
            {"features": [[1e39, 2], [3, 4], [5, 6]]},
            "features: document 0 of query 0 (row 0) has inf in column 0; expected finite float32 numbers",
        ),
        ({"offsets": [0]}, "offsets: shape (1,); expected one dimension with at least two entries (one query)"),
        ({"offsets": [0.0, 3.0]}, "offsets: type float64; expected whole numbers"),
        ({"offsets": [1, 3]}, "offsets: starts at 1; expected 0"),
        ({"offsets": [0, 2, 2, 3]}, "offsets: query 1 is empty (2 to 2); expected at least one document"),
        (
            {"offsets": [0, 2, 1, 3]},
            "offsets: query 1 has a negative length (2 to 1); expected at least one document",
        ),
        ({"offsets": [0, 2]}, "offsets: ends at 2; expected the number of documents, 3"),
        ({"labels": [0, 1]}, "labels: 2 entries; expected 3, the number of documents"),
        ({"labels": [[0, 1, 2]]}, "labels: shape (1, 3); expected one dimension"),
        ({"labels": ["a", "b", "c"]}, "labels: type <U1; expected real numbers"),
        ({"labels": [0, np.nan, 1]}, "labels: entry 1 is nan; expected finite numbers"),
        ({"labels": [0, 1, 1e39]}, "labels: entry 2 is 1e+39; expected numbers that fit float32"),
        ({"query_ids": ["a"]}, "query_ids: shape (1,); expected (2,)"),
        ({"query_ids": [1.0, 2.0]}, "query_ids: type float64; expected whole numbers or strings"),
        ({"query_ids": ["a", "a"]}, "query_ids: a stands for queries 0 and 1; expected unique ids"),
        ({"query_ids": np.array([1, BIG], np.uint64)}, f"query_ids: entry 1 is {BIG}; expected an int64"),
        ({"doc_ids": [1, 2]}, "doc_ids: shape (2,); expected (3,)"),
        ({"doc_ids": [None, 1, 2]}, "doc_ids: type object; expected whole numbers or strings"),
        (
            {"doc_ids": [7, 7, 8]},
            "doc_ids: document 7 occurs twice in query a (rows 0 and 1); expected each document once per query",
        ),
        (
            {"doc_ids": ["x", "x", "y"]},
            "doc_ids: document x occurs twice in query a (rows 0 and 1); expected each document once per query",
        ),
    ],
)  # fmt: skip
def test_bad_arguments(changes, message):
    with pytest.raises(CounterrankError) as caught:
        make(**changes)
    assert str(caught.value) == message


@pytest.mark.parametrize("name", ["features", "labels", "offsets", "query_ids", "doc_ids", "_features", "new"])
def test_nothing_can_be_assigned(name):
    data = make()
    with pytest.raises(AttributeError):
        setattr(data, name, 1)
    with pytest.raises(AttributeError):
        delattr(data, name)


@pytest.mark.parametrize("name", ["features", "labels", "offsets", "query_ids", "doc_ids"])
def test_arrays_are_read_only(name):
    for data in (make(), make().subset([0]), make().normalized(), pickle.loads(pickle.dumps(make()))):
        with pytest.raises(ValueError, match="read-only"):
            getattr(data, name)[0] = 0


def test_the_caller_keeps_a_writable_array():
    features = np.ones((3, 2), np.float32)
    data = make(features=features)
    assert features.flags.writeable
    assert not np.shares_memory(features, data.features)


def test_a_read_only_matrix_is_not_copied():
    features = np.ones((3, 2), np.float32)
    features.flags.writeable = False
    assert np.shares_memory(features, make(features=features).features)


def test_copies():
    data = make()
    assert copy.copy(data) is data
    assert copy.deepcopy(data) is data
    assert pickle.loads(pickle.dumps(data)).equals(data)


@pytest.mark.parametrize(
    "changes",
    [
        {"features": [[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]]},
        {"features": [[1.0], [3.0], [5.0]]},
        {"offsets": [0, 1, 3]},
        {"labels": [0, 1, 3]},
        {"labels": None},
        {"query_ids": ["a", "c"]},
        {"query_ids": [0, 1]},
        {"doc_ids": [7, 8, 9]},
        {"doc_ids": ["7", "8", "7"]},
    ],
)
def test_equals(changes):
    base = {"doc_ids": [7, 8, 6]}  # fit for either offsets
    assert make().equals(make())
    assert not make(**base).equals(make(**(base | changes)))
    assert not make().equals(None)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (make(), "labels 0: 33.3 %, 1: 33.3 %, 2: 33.3 %)"),
        (make(labels=None), "RankingData(2 queries, 3 documents, 2 features, 1-2 documents a query, no labels)"),
        (make().subset([1]), "RankingData(1 query, 1 document, 2 features, 1 document a query, labels 2: 100.0 %)"),
        (cr.RankingData(np.ones((9, 1)), [0, 9], labels=np.arange(9) / 2), "labels 0 to 4)"),
    ],
)  # fmt: skip
def test_repr(data, expected):
    assert expected in repr(data)


# --- subset


@pytest.mark.parametrize("queries", [[1], np.array([1]), 1, slice(1, None), [False, True], np.array([1], np.int8)])
def test_subset_by(queries):
    data = make().subset(queries)
    assert data.equals(cr.RankingData([[5.0, 6.0]], [0, 1], [2], ["b"], [7]))


def test_subset_in_the_order_given():
    data = make().subset([1, 0])
    assert data.query_ids.tolist() == ["b", "a"]
    assert data.features.tolist() == [[5, 6], [1, 2], [3, 4]]
    assert data.doc_ids.tolist() == [7, 7, 8]
    assert data.offsets.tolist() == [0, 1, 3]
    assert make(labels=None).subset([0]).labels is None


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        ([], "queries: none chosen; expected at least one"),
        ([False, False], "queries: none chosen; expected at least one"),
        ([True], "queries: mask of shape (1,); expected (2,)"),
        ([2], "queries: index 2; expected 0 to 1"),
        ([-1], "queries: index -1; expected 0 to 1"),
        ([0, 1, 0], "queries: index 0 is chosen more than once"),
        ([0.0], "queries: float64 of shape (1,); expected query indices or a mask"),
        ([[0]], "queries: int64 of shape (1, 1); expected query indices or a mask"),
    ],
)
def test_bad_subsets(queries, message):
    with pytest.raises(DataError) as caught:
        make().subset(queries)
    assert str(caught.value) == message


# --- normalized, widened


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_normalized(draw):
    lengths = draw.draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    offsets = np.cumsum([0, *lengths])
    values = st.one_of(st.integers(-3, 3), st.floats(-(2.0**100), 2.0**100, width=32))
    rows = draw.draw(st.lists(st.tuples(values, values), min_size=int(offsets[-1]), max_size=int(offsets[-1])))
    data = cr.RankingData(np.array(rows, dtype=np.float32), offsets)
    scaled = data.normalized().features
    for start, end in pairwise(offsets):
        block = data.features[start:end].astype(np.float64)
        low, spread = block.min(axis=0), np.ptp(block, axis=0)
        expected = np.where(spread > 0, (block - low) / np.where(spread > 0, spread, 1), 0)
        np.testing.assert_allclose(scaled[start:end], expected, rtol=1e-6, atol=1e-38)
        assert scaled[start:end].min() >= 0
        assert scaled[start:end].max() <= 1


def test_normalized_at_the_ends_of_float32():
    largest = np.finfo(np.float32).max
    data = cr.RankingData([[-largest], [0.0], [largest]], [0, 3])
    assert data.normalized().features.ravel().tolist() == [0, 0.5, 1]


def test_widened():
    assert make().widened(3).features.tolist() == [[1, 2, 0], [3, 4, 0], [5, 6, 0]]
    data = make()
    assert data.widened(2) is data
    with pytest.raises(DataError, match="n_features=1: expected at least the 2 there are"):
        data.widened(1)


# --- ids


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=30))
def test_group_rows(values):
    codes, distinct = encode(np.array(values))
    assert distinct.tolist() == list(dict.fromkeys(values))
    offsets, place, moved = group_rows(codes, len(distinct))
    assert moved == (place.tolist() != sorted(place.tolist()))
    grouped = np.empty(len(values), dtype=np.int64)
    grouped[place] = np.arange(len(values))
    expected = [i for value in distinct for i in range(len(values)) if values[i] == value]
    assert grouped.tolist() == expected
    assert np.diff(offsets).tolist() == [values.count(value) for value in distinct]


def test_repeat_in_a_later_query():
    assert first_repeat_in_query(np.array(["a", "b", "a", "c", "b", "c"]), np.array([0, 2, 6])) == (1, 3, 5)
    assert first_repeat_in_query(np.array([1, 2, 1]), np.array([0, 2, 3])) is None


def test_what_the_caller_still_holds_cannot_lead_kernels_astray():
    offsets, ids = np.array([0, 2, 4]), np.array([7, 8])
    data = cr.RankingData(np.ones((4, 2)), offsets, query_ids=ids)
    offsets[-1], ids[0] = 10**9, 8
    assert data.offsets.tolist() == [0, 2, 4]
    assert data.query_ids.tolist() == [7, 8]


@pytest.mark.parametrize("name", ["features", "labels", "offsets", "query_ids", "doc_ids"])
def test_arrays_cannot_be_made_writable_again(name):
    array = getattr(cr.make_ranking_data("yahoo", 3), name)
    with pytest.raises(ValueError, match="WRITEABLE"):
        array.flags.writeable = True
