"""Examination curves: P(examined | rank)."""

import numpy as np
import pytest

from counterrank import examination
from counterrank.clicks.examination import Examination, check_examination, from_description, inverse_rank
from counterrank.clicks.policies.parsing import parse_examination
from counterrank.common.errors import CounterrankError


def test_inverse_rank_is_one_at_rank_one():
    """Off by one would make it 1/2, and everything after it too small."""
    for eta in (0.0, 0.5, 1.0, 2.0, 7.5):
        for k in (1, 3, None):
            assert examination.inverse_rank(k=k, eta=eta).curve(3)[0] == 1.0
    assert inverse_rank(k=5, eta=1.0).curve(5) == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4, 1 / 5], rel=1e-15)
    assert inverse_rank(k=3, eta=2.0).curve(3) == pytest.approx([1, 1 / 4, 1 / 9], rel=1e-15)


def test_curves_are_zero_past_their_end():
    assert inverse_rank(k=2).curve(5).tolist() == [1.0, 0.5, 0.0, 0.0, 0.0]
    assert Examination([1, 0.5, 0.3]).curve(5).tolist() == [1.0, 0.5, 0.3, 0.0, 0.0]
    assert Examination([1, 0.5, 0.3]).curve(2).tolist() == [1.0, 0.5]
    assert inverse_rank(k=None).curve(1000)[-1] == pytest.approx(1e-3)
    assert len(inverse_rank(k=3).curve(0)) == len(Examination([1.0]).curve(0)) == 0
    assert inverse_rank(k=4).k == 4
    assert inverse_rank().k is None
    assert Examination([0.2, 0.1]).k == 2


def test_explicit_curves_hold_any_probabilities():
    assert Examination([0.0, 0.3, 1.0, 0.0]).curve(4).tolist() == [0.0, 0.3, 1.0, 0.0]
    assert Examination(np.array([True, False])).curve(2).tolist() == [1.0, 0.0]


def test_curves_cannot_be_changed_from_outside():
    values = np.array([1.0, 0.5])
    exam = Examination(values)
    values[0] = 0.1
    exam.curve(2)[0] = 0.2
    assert exam.curve(2).tolist() == [1.0, 0.5]


@pytest.mark.parametrize("exam", [Examination([1.0, 0.1, 0.0]), inverse_rank(k=5, eta=0.7), inverse_rank()])
def test_descriptions_make_equal_curves(exam):
    again = from_description(exam.describe())
    assert again == exam
    assert hash(again) == hash(exam)
    assert again.curve(7).tolist() == exam.curve(7).tolist()
    assert type(again) is type(exam)


def test_equality():
    assert inverse_rank(k=5) != inverse_rank(k=6)
    assert inverse_rank(k=5) != inverse_rank(k=5, eta=1.1)
    assert Examination([1.0, 0.5]) != Examination([1.0])
    assert Examination([1.0]) != [1.0]
    tiny = 1e-9
    assert inverse_rank(k=5, eta=1.0) != inverse_rank(k=5, eta=1.0 + tiny)


def test_plain_lists_do():
    assert check_examination([1, 0.5]) == Examination([1.0, 0.5])
    assert check_examination(np.array([0.3])) == Examination([0.3])
    exam = inverse_rank(k=2)
    assert check_examination(exam) is exam


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Examination([]), "examination: no values; expected one for each rank"),
        (lambda: Examination([1.0, 1.5]), "examination: 1.5 at rank 2; expected probabilities from 0 to 1"),
        (lambda: Examination([-0.1]), "examination: -0.1 at rank 1; expected probabilities"),
        (lambda: Examination([1.0, np.nan]), "examination: entry 1 is nan; expected finite numbers"),
        (lambda: Examination([0.0, 0.0]), "examination: 0 at every rank, so nothing is ever examined"),
        (lambda: Examination([[1.0]]), r"examination: shape \(1, 1\); expected one dimension"),
        (lambda: Examination(["a"]), "examination: type <U1; expected real numbers"),
        (lambda: inverse_rank(k=0), "k=0: expected a whole number of at least 1, or None"),
        (lambda: inverse_rank(k=5.0), "k=5.0: expected a whole number"),
        (lambda: inverse_rank(k=5, eta=-1), "eta=-1: expected a number of at least 0"),
        (lambda: inverse_rank(k=5, eta=float("inf")), "eta=inf: expected a number of at least 0"),
        (lambda: inverse_rank(k=5, eta=float("nan")), "eta=nan: expected a number of at least 0"),
        (lambda: inverse_rank(k=5, eta="1"), "eta='1': expected a number"),
        (lambda: check_examination(0.5), "exam: float; expected an examination curve"),
        (lambda: check_examination(None), "exam: NoneType; expected an examination curve"),
        (lambda: parse_examination("sqrt:k=3"), "examination 'sqrt:k=3': unknown; expected inverse-rank:eta=1"),
        (lambda: parse_examination("1,a"), "examination '1,a': expected numbers from 0 to 1"),
        (lambda: parse_examination("1,2"), "examination: 2 at rank 2"),
        (lambda: parse_examination("inverse-rank:theta=1"), "no setting 'theta'; expected k, eta"),
        (lambda: parse_examination("inverse-rank:eta=x"), "eta=x; expected a number"),
    ],
)
def test_bad_curves(make, message):
    with pytest.raises(CounterrankError, match=message):
        make()


def test_curves_by_name():
    assert parse_examination("inverse-rank") == inverse_rank()
    assert parse_examination("inverse-rank:eta=0.5,k=3") == inverse_rank(3, 0.5)
    assert parse_examination("1,0.5") == Examination([1.0, 0.5])
