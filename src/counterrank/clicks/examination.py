"""Examination curves: P(examined | rank) for each rank of a page."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.click_cards import curve_card, curve_chart, curve_summary
from counterrank.common.checks import FloatArray, check_cutoff, check_number, check_vector
from counterrank.common.errors import CounterrankError
from counterrank.common.notebook import Shown, Summary


class UserModel(ABC):
    """How users click by rank, fitted to a log or given; accepted wherever an examination curve is.

    `Examination` itself is the plain curve; models with more to them derive from this class.
    """

    @property
    @abstractmethod
    def examination(self) -> Examination:
        """The curve for training and evaluation."""

    @property
    def base(self) -> Examination | None:
        """P(click) of documents without any relevance by rank; None where it is 0."""
        return None


class Examination(Shown):
    """An examination curve theta_1, theta_2, ...: P(examined | rank), and 0 beyond its end.

    >>> Examination([1, 0.5, 0.3]).curve(5).tolist()
    [1.0, 0.5, 0.3, 0.0, 0.0]
    """

    def __init__(self, values: ArrayLike) -> None:
        curve = check_vector(values, None, "examination", "ranks")
        if not len(curve):
            raise CounterrankError("examination: no values; expected one for each rank, at least one")
        outside = (curve < 0.0) | (curve > 1.0)
        if outside.any():
            place = int(np.argmax(outside))
            raise CounterrankError(
                f"examination: {curve[place]:g} at rank {place + 1}; expected probabilities from 0 to 1"
            )
        if not curve.any():
            raise CounterrankError("examination: 0 at every rank, so nothing is ever examined; expected one above 0")
        self._values: FloatArray = curve.copy()
        self._values.flags.writeable = False
        self._hash = hash(repr(self))  # needed for each page of a live service

    @property
    def k(self) -> int | None:
        """The last rank of the curve; None if it is unbounded."""
        return len(self._values)

    def curve(self, n: int) -> FloatArray:
        """P(examined | rank) for the ranks 1 to n."""
        values = np.zeros(n)
        values[: len(self._values)] = self._values[:n]
        return values

    def of_cells(self, clicks: Any) -> FloatArray:
        """P(examined) in each cell of click counts: by its rank, unless the model says more."""
        ranks = clicks.ranks
        return np.asarray(self.curve(int(ranks.max(initial=1)))[ranks - 1])

    def describe(self) -> dict[str, Any]:
        """Plain numbers for JSON; `from_description` makes an equal curve of them."""
        return {"values": self._values.tolist()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Examination) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Examination({self._values.tolist()})"

    def summary(self) -> Summary:
        """The values by rank, as a dict that prints as a table."""
        return curve_summary(self)

    def plot(self) -> Any:
        """P(examined | rank) over the rank, an altair chart."""
        return curve_chart(self)

    def _repr_html_(self) -> str:
        return curve_card(self)


class InverseRank(Examination):
    """theta_r = r ** -eta up to rank k, see `inverse_rank`."""

    def __init__(self, k: int | None, eta: float) -> None:
        self._k = check_cutoff(k)
        self._eta = check_number(eta, "eta", at_least=0)
        self._hash = hash(repr(self))

    @property
    def k(self) -> int | None:
        """The last rank of the curve; None if it is unbounded."""
        return self._k

    def curve(self, n: int) -> FloatArray:
        """P(examined | rank) for the ranks 1 to n."""
        values: FloatArray = np.arange(1.0, n + 1.0) ** -self._eta
        if self._k is not None:
            values[self._k :] = 0.0
        return values

    def describe(self) -> dict[str, Any]:
        """Plain numbers for JSON; `from_description` makes an equal curve of them."""
        return {"inverse_rank": {"k": self._k, "eta": self._eta}}

    def __repr__(self) -> str:
        return f"inverse_rank(k={self._k}, eta={self._eta:g})"


def inverse_rank(k: int | None = None, eta: float = 1.0) -> Examination:
    """The paper's examination curve: P(examined | rank) = rank ** -eta up to rank k, 0 beyond; unbounded without k.

    >>> inverse_rank(k=3, eta=1.0).curve(4).round(3).tolist()
    [1.0, 0.5, 0.333, 0.0]
    """
    return InverseRank(k, eta)


def from_description(description: dict[str, Any]) -> Examination:
    """The curve that `Examination.describe` described.

    >>> from_description({"values": [1.0, 0.5]})
    Examination([1.0, 0.5])
    """
    if "values" in description:
        return Examination(description["values"])
    return InverseRank(**description["inverse_rank"])


def check_examination(exam: Any) -> Examination:
    """Convert a list, or the result of `examination.estimate`, to an examination curve.

    >>> check_examination([1, 0.5])
    Examination([1.0, 0.5])
    """
    if isinstance(exam, Examination):
        return exam
    if isinstance(exam, UserModel):
        if exam.base is not None:
            raise CounterrankError(
                "exam: a user model with trust bias (beta above 0), which this does not correct for; expected a curve"
            )
        return exam.examination
    if isinstance(exam, list | tuple | np.ndarray):
        return Examination(exam)
    raise CounterrankError(
        f"exam: {type(exam).__name__}; expected an examination curve, such as examination.inverse_rank(k=5)"
    )


def lines_of(exam: Any) -> tuple[Examination, Examination | None]:
    """alpha and beta of any user model, P(click | relevance r, rank j) = alpha_j r + beta_j; None for a beta of 0.

    Of an examination curve, the curve itself and None.

    >>> lines_of([1, 0.5])
    (Examination([1.0, 0.5]), None)
    """
    if isinstance(exam, UserModel):
        return exam.examination, exam.base
    return check_examination(exam), None


def is_user_model(exam: Any) -> bool:
    """Whether it is a user model, fitted or named, and no plain curve: propensities in a log are then out of date.

    >>> is_user_model([1, 0.5])
    False
    """
    return isinstance(exam, UserModel)
