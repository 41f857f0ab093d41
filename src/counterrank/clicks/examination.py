"""Examination: how likely a user looks at the document on each rank of a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.checks import FloatArray, check_cutoff, check_vector
from counterrank.common.errors import CounterrankError
from counterrank.common.files import PathLike

if TYPE_CHECKING:
    from counterrank.clicks.counts import ClickCounts
    from counterrank.clicks.position_bias import EstimatedExamination
    from counterrank.data import RankingData


class Examination:
    """theta_1, theta_2, ...: P(examined | rank), and 0 past the end of the curve.

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
            raise CounterrankError("examination: 0 at every rank, so nothing is ever seen; expected one above 0")
        self._values: FloatArray = curve.copy()
        self._values.flags.writeable = False
        self._hash = hash(repr(self))  # asked for with each page of a live service

    @property
    def k(self) -> int | None:
        """The last rank of the curve; None if it has no end."""
        return len(self._values)

    def curve(self, n: int) -> FloatArray:
        """P(examined | rank) for the ranks 1 to n."""
        values = np.zeros(n)
        values[: len(self._values)] = self._values[:n]
        return values

    def describe(self) -> dict[str, Any]:
        """What `from_description` makes an equal curve of; plain numbers, for JSON."""
        return {"values": self._values.tolist()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Examination) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Examination({self._values.tolist()})"


class InverseRank(Examination):
    """theta_r = r ** -eta up to rank k, see `inverse_rank`."""

    def __init__(self, k: int | None, eta: float) -> None:
        self._k = check_cutoff(k)
        if isinstance(eta, bool) or not isinstance(eta, int | float | np.number) or not 0.0 <= float(eta) < np.inf:
            raise CounterrankError(f"eta={eta!r}: expected a number of at least 0")
        self._eta = float(eta)
        self._hash = hash(repr(self))

    @property
    def k(self) -> int | None:
        """The last rank of the curve; None if it has no end."""
        return self._k

    def curve(self, n: int) -> FloatArray:
        """P(examined | rank) for the ranks 1 to n."""
        values: FloatArray = np.arange(1.0, n + 1.0) ** -self._eta
        if self._k is not None:
            values[self._k :] = 0.0
        return values

    def describe(self) -> dict[str, Any]:
        """What `from_description` makes an equal curve of; plain numbers, for JSON."""
        return {"inverse_rank": {"k": self._k, "eta": self._eta}}

    def __repr__(self) -> str:
        return f"inverse_rank(k={self._k}, eta={self._eta:g})"


def inverse_rank(k: int | None = None, eta: float = 1.0) -> Examination:
    """The paper's curve: P(examined | rank) = rank ** -eta up to rank k, 0 beyond; without a k it has no end.

    >>> inverse_rank(k=3, eta=1.0).curve(4).round(3).tolist()
    [1.0, 0.5, 0.333, 0.0]
    """
    return InverseRank(k, eta)


def estimate(
    clicks: ClickCounts,
    *,
    method: str = "all-pairs",
    k: int | None = None,
    data: RankingData | None = None,
    target: str | None = None,
    confidence: float = 0.95,
) -> EstimatedExamination:
    """The curve from a log, relative to rank 1, with an interval for each rank.

        P(click | document d, rank k) = theta_k gamma_d         estimated: theta_k / theta_1

    Documents seen at several ranks tell position from relevance. Under the position-based model above, with ranks that
    do not depend on what the single session finds relevant, "all-pairs" is consistent with any number of impressions
    of each document; see `counterrank.clicks.position_bias` for its formula, `.em` and `.regression` for the
    others, and docs/position-bias.md for when to use which. Nothing is drawn at random.

    Arguments:
        clicks: of any log, counted with or without ranking data; all its policies count together.
        method: "all-pairs" (Agarwal et al., 2019), "em" with a free relevance for each document, or "regression-em"
            with a logistic regression on the features of `data` (Wang et al., 2018).
        k: the last rank to estimate; None for the last one of the log.
        data: what the clicks were counted against, for "regression-em".
        target: intervals over "queries" like these, or over new clicks on "these-queries"; None for the first where
            the log speaks with the weight of 10 queries or more. Each holds for one rank at a time.
        confidence: how often each interval shall hold the truth.

    An error where documents do not connect all ranks with rank 1, see `connected_ranks`. What else speaks against the
    curve is told in an `ExaminationWarning` and in `warnings` of the result.

    >>> import counterrank as cr
    >>> from counterrank import policies, simulation
    >>> data = cr.RankingData(np.zeros((600, 1)), np.arange(0, 601, 20), labels=np.arange(600) % 5)
    >>> policy, scores = policies.PlackettLuce(k=3), np.zeros(600)
    >>> log = simulation.simulate(data, scores, policy, inverse_rank(k=3), sessions=200_000, seed=0)
    >>> estimate(log).values.round(2).tolist()
    [1.0, 0.5, 0.33]
    """
    from counterrank.clicks.position_bias import estimate_examination

    return estimate_examination(clicks, method, k, data, target, confidence)


def connected_ranks(clicks: ClickCounts) -> list[list[int]]:
    """Groups of ranks that documents connect, each in order, that of the smallest rank first.

    A document connects the ranks it was shown at, if it was clicked at one of them or more: impressions make a
    comparison, but one that was never clicked is explained by relevance 0 at every rank and says nothing about them.
    `estimate` needs all its ranks in one group.

    >>> import counterrank as cr
    >>> from counterrank import policies, simulation
    >>> data = cr.RankingData(np.zeros((4, 1)), [0, 4], labels=[4, 4, 4, 4])
    >>> shown = policies.ReplaceLast(k=3), inverse_rank(k=3)  # no document is ever seen at two ranks
    >>> connected_ranks(simulation.simulate(data, [4.0, 3.0, 2.0, 1.0], *shown, sessions=1000))
    [[1], [2], [3]]
    """
    from counterrank.clicks.position_bias import connected

    return connected(clicks)


def load(path: PathLike) -> Examination:
    """The curve in a file that `EstimatedExamination.save` wrote; values above 1 are 1.

    >>> load("no/such/curve.json")
    Traceback (most recent call last):
    ...
    counterrank.common.errors.MissingFileError: no/such/curve.json: no such examination curve (file or folder not found)
    """
    from counterrank.clicks.position_bias import load_examination

    return load_examination(path)


def from_description(description: dict[str, Any]) -> Examination:
    """The curve that `Examination.describe` told of.

    >>> from_description({"values": [1.0, 0.5]})
    Examination([1.0, 0.5])
    """
    if "values" in description:
        return Examination(description["values"])
    return InverseRank(**description["inverse_rank"])


def check_examination(exam: Any) -> Examination:
    """An examination curve, made of a plain list if that is what was given.

    >>> check_examination([1, 0.5])
    Examination([1.0, 0.5])
    """
    if isinstance(exam, Examination):
        return exam
    if isinstance(exam, list | tuple | np.ndarray):
        return Examination(exam)
    raise CounterrankError(
        f"exam: {type(exam).__name__}; expected an examination curve, such as examination.inverse_rank(k=5)"
    )
