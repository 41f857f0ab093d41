"""Examination curves: P(examined | rank) for each rank of a page."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.click_cards import curve_card, curve_chart, curve_summary
from counterrank.common.checks import FloatArray, check_cutoff, check_number, check_vector
from counterrank.common.errors import CounterrankError, quoted
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


class FittedCurve(Examination):
    """A curve that was estimated from a log and read from a file: propensities in a log were made with another one.

    >>> is_user_model(FittedCurve([1.0, 0.5])), FittedCurve([1.0, 0.5]) == Examination([1.0, 0.5])
    (True, True)
    """

    @property
    def plain(self) -> Examination:
        """The same values as a curve that is given."""
        return Examination(self._values)


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


class CurvesByContext(Examination):
    """One curve for each context, such as each device; what estimators get of a user model by context.

    `curve` is that of no page in particular, so it is an error: `of` has the curve of a context.

    Arguments:
        curves: by context; None is 0 at every rank.
        other: the curve of contexts without one of their own; None where they are an error.

    >>> found = CurvesByContext({"desktop": Examination([1.0, 0.5]), "mobile": Examination([0.8])})
    >>> found.of("mobile")
    Examination([0.8])
    >>> found.table(["mobile", "desktop"], 2).tolist()
    [[0.8, 0.0], [1.0, 0.5]]
    """

    def __init__(self, curves: Mapping[str, Examination | None], other: Examination | None = None) -> None:
        self.curves, self.other = dict(curves), other
        self._hash = hash(repr(self))

    @property
    def k(self) -> int | None:
        """The last rank of the longest curve."""
        ends = [each.k for each in (*self.curves.values(), self.other) if each is not None]
        return None if None in ends else max(end for end in ends if end is not None)

    def of(self, context: str) -> Examination | None:
        """The curve of a context; None is 0 at every rank."""
        if context in self.curves:
            return self.curves[context]
        if self.other is None:
            raise CounterrankError(
                f"exam: no curve for the context {quoted(context)}; expected one for each context of the log, it has "
                f"{', '.join(map(quoted, self.curves))} (ByContext(..., other=) serves all others)"
            )
        return self.other

    def table(self, contexts: Sequence[str], n: int) -> FloatArray:
        """P(examined | rank) in each of the contexts for the ranks 1 to n, (n_contexts, n)."""
        if not contexts:
            raise CounterrankError(
                "exam: a user model by context, and the clicks hold no contexts; expected clicks of a log read with "
                f"context= (--context), with some of {', '.join(map(quoted, self.curves))}"
            )
        curves = [self.of(context) for context in contexts]
        return np.stack([np.zeros(n) if each is None else each.curve(n) for each in curves])

    def curve(self, n: int) -> FloatArray:
        """An error: there is one curve for each context."""
        raise CounterrankError(
            f"exam: a curve for each context ({', '.join(map(quoted, self.curves))}), which this cannot use; expected "
            "one examination curve, such as that of one context"
        )

    def describe(self) -> dict[str, Any]:
        """Plain numbers for JSON; `from_description` makes an equal curve of them."""
        curves = {name: None if each is None else each.describe() for name, each in self.curves.items()}
        return {"contexts": curves, "other": None if self.other is None else self.other.describe()}

    def __repr__(self) -> str:
        return f"CurvesByContext({self.curves}, other={self.other})"


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
    if "contexts" in description:
        found = {name: each and from_description(each) for name, each in description["contexts"].items()}
        return CurvesByContext(found, description["other"] and from_description(description["other"]))
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
    return isinstance(exam, UserModel | FittedCurve)
