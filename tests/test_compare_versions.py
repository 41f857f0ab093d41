"""Comparing the results of two versions: what is the same, what differs, and what is only new."""

import numpy as np
import pytest
from benchmarks.compare_results import (
    As,
    Comparison,
    Leaf,
    compare,
    compare_leaves,
    exact,
    leaves,
    store,
    stored,
    trained,
)

SCORES = np.array([1.0, -2.0, 1000.0])


def compared(old, new, tolerance="numeric"):
    result = Comparison()
    compare_leaves("group/case", dict(leaves(old, tolerance)), dict(leaves(new, tolerance)), result)
    return result


def whats(old, new, tolerance="numeric"):
    return [each.what for each in compared(old, new, tolerance).differences]


def test_equal_results():
    value = {"value": 0.1, "gradient": SCORES, "k": 5, "name": "dcg", "none": None, "nan": np.array([np.nan, np.inf])}
    result = compared(value, value)
    assert result.differences == result.new == []
    assert [result.total(name) for name in ("exact", "numeric", "trained")] == [3, 3, 0]


@pytest.mark.parametrize(("tolerance", "allowed"), [("numeric", 1e-12), ("trained", 1e-6)])
def test_floats_are_compared_relative_to_the_scale(tolerance, allowed):
    moved = np.array([1000.0 * allowed, 0.0, 0.0])  # the scale is 1000
    assert whats(SCORES, SCORES + 0.9 * moved, tolerance) == []
    assert len(whats(SCORES, SCORES + 1.1 * moved, tolerance)) == 1
    assert whats(2.0, 2.0 * (1 + 0.9 * allowed), tolerance) == []
    assert len(whats(2.0, 2.0 * (1 + 1.1 * allowed), tolerance)) == 1
    assert whats([1e-9, 1e3], [1e-9 + 0.9 * allowed * 1e3, 1e3], tolerance) == []  # lists have a scale too


def test_the_largest_deviation_is_kept():
    found = compared(SCORES, SCORES + np.array([1e-10, 0.0, 0.0])).deviations
    assert found == {("group", "numeric"): pytest.approx(1e-13, rel=1e-3)}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (np.array([2**60]), np.array([2**60 + 1])),  # equal as floats
        (2**60, 2**60 + 1),
        (5, 6),
        ("dcg@5", "dcg@3"),
        (True, False),
        (None, 0.0),
        (np.array(["a", "b"]), np.array(["a", "c"])),
        (exact(SCORES), exact(SCORES * (1 + 1e-15))),
        ([1, 2], [1, 2, 3]),
        (SCORES, SCORES[:2]),
        (SCORES, SCORES.astype(np.float32)),
        (np.array([1.0, np.nan]), np.array([1.0, 2.0])),
        (np.array([np.inf]), np.array([-np.inf])),
        ([], [1.0]),
        ({}, {"a": 1}),
    ],
)
def test_these_differ(old, new):
    assert len(whats({"leaf": old}, {"leaf": new})) == 1


def test_a_missing_key_is_a_difference_and_a_new_one_is_not():
    result = compared({"a": 1, "b": {"c": 2}}, {"a": 1, "d": 3})
    assert [(each.path, each.what) for each in result.differences] == [("/b/c", "missing")]
    assert result.new == ["group/case/d"]


def test_prose_is_compared_for_presence_alone():
    assert whats({"why": "because"}, {"why": "for this reason"}) == []
    assert whats({"doubts": ["few clicks", "drift"]}, {"doubts": ["hardly any clicks"]}) == []
    assert whats({"doubts": ["few clicks"]}, {"doubts": []}) == ["prose in one only"]
    assert whats({"why": "because"}, {}) == ["missing"]


def test_numbers_of_the_same_name_as_prose_are_compared():
    assert len(whats({"clicks": 5, "relevance": SCORES}, {"clicks": 6, "relevance": -SCORES})) == 2


def test_numbers_in_a_text_are_compared_as_numbers():
    old, new = {"clips_tried": "2.5: 0.125, 8: 0.5"}, {"clips_tried": "2.5: 0.12500001, 8: 0.5"}
    assert whats(old, new, "trained") == []
    assert len(whats(old, new)) == 1


def test_times_and_places_are_ignored():
    assert whats({"seconds": 1.0, "path": "a", "k": 1}, {"seconds": 2.0, "path": "b", "k": 1}) == []


def test_part_of_a_result_may_have_a_class_of_its_own():
    found = dict(leaves({"scores": trained(SCORES), "value": 1.0, "nested": As("trained", {"a": 0.5, "b": 1})}))
    assert {path: leaf.tolerance for path, leaf in found.items()} == {
        "/scores": "trained",
        "/value": "numeric",
        "/nested/a": "trained",
        "/nested/b": "exact",
    }


def test_a_result_that_is_not_plain_is_refused():
    with pytest.raises(TypeError, match="/ranker: a object; expected numbers"):
        dict(leaves({"ranker": object()}))


def test_records_are_read_as_they_were_written(tmp_path):
    value = {"scores": SCORES, "ids": np.array(["a", "bc"]), "value": 0.1 + 0.2, "nan": float("nan"), "k": None}
    written = dict(leaves(value))
    store(tmp_path, "group/a case", {"raised": None, "message": None}, written)
    (read,) = stored(tmp_path).values()
    result = Comparison()
    compare_leaves("group/a case", written, read["leaves"], result)
    assert result.differences == []
    assert read["leaves"]["/value"] == Leaf("numeric", 0.1 + 0.2)


def recorded(raised=None, **values):
    return {"raised": raised, "message": raised and "no", "leaves": dict(leaves(values))}


def test_cases_that_raise():
    fine, bad = recorded(a=1), recorded(raised="CounterrankError")
    assert compare({"g/a": fine, "g/b": bad}, {"g/a": fine, "g/b": bad}).differences == []
    (found,) = compare({"g/a": fine}, {"g/a": bad}).differences
    assert found.what == "no error became CounterrankError: no"
    assert len(compare({"g/a": bad}, {"g/a": fine}).differences) == 1
    assert len(compare({"g/a": bad}, {"g/a": recorded(raised="TypeError")}).differences) == 1


def test_cases_that_are_missing_or_new():
    result = compare({"g/a": recorded(a=1), "g/b": recorded(b=1)}, {"g/a": recorded(a=1), "g/c": recorded(c=1)})
    assert [(each.case, each.what) for each in result.differences] == [("g/b", "the case is missing")]
    assert result.new == ["g/c"]
