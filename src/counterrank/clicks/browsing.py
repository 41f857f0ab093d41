"""Users whose clicks on a page depend on each other: the user browsing model and the dependent click model.

    P(click at rank j | clicks above) = P(examined | rank j, clicks above) r_d

with r_d the attractiveness of the document. An `Examination` is the case in which clicks above do not matter. Both
models are accepted wherever an examination curve is, with clicks that were counted with `last_clicks=True`: what was
examined then follows from the clicks of each page.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks import browsing_kernels as kernels
from counterrank.clicks.click_cards import browsing_card, browsing_chart, browsing_summary
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import Examination
from counterrank.clicks.last_clicks import LastClicks, mean_by_cell
from counterrank.clicks.user_models import SavedUsers, register_users
from counterrank.common.checks import FloatArray, IntArray, check_number, check_vector
from counterrank.common.errors import CounterrankError
from counterrank.common.notebook import Summary

TYPICAL = 0.3  # attractiveness of a document, where nothing else is known


class SequentialExamination(Examination):
    """The examination curve of users whose clicks depend on each other, on average over typical pages.

    Where clicks were counted with what it takes, estimators take what was examined in fact, see `realised`.

    Attributes:
        users: the model.
    """

    def __init__(self, users: SequentialUsers) -> None:
        super().__init__(users.average_curve())
        self.users = users


class SequentialUsers(SavedUsers):
    """Base of models in which P(examined) depends on the clicks above.

    Attributes:
        attractiveness: that of a typical document, for the examination curve on average over pages.
    """

    attractiveness: float

    @property
    @abstractmethod
    def k(self) -> int:
        """The last rank."""

    @abstractmethod
    def chances(self, n: int) -> FloatArray:
        """P(examined | rank j, rank i of the last click above) of users who did not leave: (n, n), [j - 1, i]."""

    @abstractmethod
    def onward(self, n: int) -> FloatArray:
        """P(the user goes on | a click at rank j) for the ranks 1 to n."""

    @abstractmethod
    def realised(self, clicks: ClickCounts) -> FloatArray:
        """P(examined) in each cell of the clicks, given what was clicked on its pages."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Plain numbers for JSON; `load` makes an equal model of them."""

    @property
    def examination(self) -> SequentialExamination:
        """The examination curve on average over pages of documents that are all equally attractive."""
        return SequentialExamination(self)

    def average_curve(self) -> FloatArray:
        """P(examined | rank) on pages where every document has the typical attractiveness.

        With a_i the probability that the user is there and the last click was at rank i,
        theta_j = sum over i of a_i gamma_ji; a click moves a_i gamma_ji r lambda_j to a_j.
        """
        k = self.k
        chances, onward = self.chances(k), self.onward(k)
        there, curve = np.zeros(k + 1), np.zeros(k)
        there[0] = 1.0
        for rank in range(k):
            seen = there[: rank + 1] * chances[rank, : rank + 1]
            curve[rank] = seen.sum()
            there[: rank + 1] -= seen * self.attractiveness
            there[rank + 1] = curve[rank] * self.attractiveness * onward[rank]
        return np.clip(curve, 0.0, 1.0)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and SequentialUsers.same(self, other)

    @staticmethod
    def same(one: Any, other: Any) -> bool:
        """Whether two models of one class describe the same."""
        return bool(one.describe() == other.describe())

    def __hash__(self) -> int:
        return hash(json.dumps(self.describe(), sort_keys=True))

    def summary(self) -> Summary:
        """P(examined) by rank, as a dict that prints as a table."""
        return browsing_summary(self)

    def plot(self) -> Any:
        """P(examined) over the rank, by how far the last click is above, an altair chart."""
        return browsing_chart(self)

    def _repr_html_(self) -> str:
        return browsing_card(self)


class Browsing(SequentialUsers):
    """The user browsing model: examination depends on the rank and on that of the last click above.

        P(click | d, rank j, rank i of the last click above) = gamma_ji r_d,      i = 0 without a click above

    (Dupret and Piwowarski, SIGIR 2008). gamma_ji = theta_j for all i is the position-based model. A click says nothing
    about later ones beyond where it is, so what was examined follows exactly from counts by rank and last click.

    Arguments:
        gamma: a list for each rank j from 1 with the values for i = 0 to j - 1, from 0 to 1.
        attractiveness: that of a typical document, for the examination curve on average over pages.

    >>> users = Browsing([[1.0], [0.6, 0.8], [0.4, 0.5, 0.7]])
    >>> users.chances(3).tolist()
    [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.4, 0.5, 0.7]]
    >>> users.examination.curve(3).round(3).tolist()
    [1.0, 0.66, 0.482]
    """

    def __init__(self, gamma: Any, attractiveness: float = TYPICAL) -> None:
        if isinstance(gamma, np.ndarray):
            gamma = [row[: rank + 1] for rank, row in enumerate(gamma)]
        if not isinstance(gamma, list | tuple) or not gamma:
            raise CounterrankError("gamma: expected a list of values for each rank, at least one")
        self.gamma = tuple(
            check_vector(row, rank, f"gamma[{rank - 1}]", "ranks of the last click above, from 0")
            for rank, row in enumerate(gamma, 1)
        )
        for rank, row in enumerate(self.gamma, 1):
            if (row < 0.0).any() or (row > 1.0).any():
                raise CounterrankError(f"gamma: {row.tolist()} at rank {rank}; expected probabilities from 0 to 1")
            row.flags.writeable = False
        if not any(row.any() for row in self.gamma):
            raise CounterrankError("gamma: 0 everywhere, so nothing is ever examined; expected one above 0")
        self.attractiveness = check_number(attractiveness, "attractiveness", at_least=0, at_most=1)

    @property
    def k(self) -> int:
        """The last rank."""
        return len(self.gamma)

    def chances(self, n: int) -> FloatArray:
        """gamma as a matrix, [j - 1, i]; 0 beyond the last rank."""
        found = np.zeros((n, n))
        for rank, row in enumerate(self.gamma[:n]):
            found[rank, : rank + 1] = row
        return found

    def onward(self, n: int) -> FloatArray:
        """1 at every rank: nobody leaves."""
        return np.ones(n)

    def realised(self, clicks: ClickCounts) -> FloatArray:
        """The mean of gamma over the impressions of each document at each rank, by the last clicks above."""
        rows = last_clicks_of(clicks)
        gamma = self.chances(int(rows.ranks.max(initial=1)))
        return mean_by_cell(rows, gamma[rows.ranks - 1, rows.above], clicks.docs, clicks.ranks)

    def describe(self) -> dict[str, Any]:
        """Plain numbers for JSON; `load` makes an equal model of them."""
        gamma = [row.tolist() for row in self.gamma]
        return {"model": "browsing", "gamma": gamma, "attractiveness": self.attractiveness}

    def __repr__(self) -> str:
        return f"Browsing({[row.round(4).tolist() for row in self.gamma]})"


class Dependent(SequentialUsers):
    """The dependent click model: after a click at rank j the user goes on with probability lambda_j, else always.

        P(examined at j + 1 | examined at j, click at j)    = lambda_j
        P(examined at j + 1 | examined at j, no click at j) = 1

    (Guo, Liu and Wang, WSDM 2009). lambda_j = 0 is the cascade model: one click at most. Whether documents below the
    last click were examined is latent: a posterior probability, which depends on their attractiveness.

    Arguments:
        continuation: lambda_j for the ranks 1 to k - 1. That of rank k, the last, does not matter.
        attractiveness: that of a typical document, for the examination curve on average over pages.

    >>> Dependent([0.5, 0.5]).examination.curve(4).tolist()  # 1, 1 - 0.3 / 2, ...
    [1.0, 0.85, 0.7224999999999999, 0.0]
    """

    def __init__(self, continuation: ArrayLike, attractiveness: float = TYPICAL) -> None:
        given = np.array(check_vector(continuation, None, "continuation", "ranks"))
        if ((given < 0.0) | (given > 1.0)).any():
            raise CounterrankError(f"continuation: {given.tolist()}; expected probabilities from 0 to 1")
        given.flags.writeable = False
        self.continuation = given
        self.attractiveness = check_number(attractiveness, "attractiveness", at_least=0, at_most=1)

    @property
    def k(self) -> int:
        """The last rank."""
        return len(self.continuation) + 1

    @property
    def shown(self) -> Examination:
        """1 up to the last rank: with `importance_weights`, clicks are as if everything shown there were examined."""
        return Examination(np.ones(self.k))

    def chances(self, n: int) -> FloatArray:
        """1 up to the last rank, whatever was clicked above: users who did not leave examine everything."""
        found = np.tril(np.ones((n, n)))
        found[self.k :] = 0.0
        return found

    def onward(self, n: int) -> FloatArray:
        """lambda by rank; 0 from the last one on."""
        found = np.zeros(n)
        found[: self.k - 1] = self.continuation[:n]
        return found

    def realised(self, clicks: ClickCounts) -> FloatArray:
        """P(examined | the clicks on the page) in each cell, with the most likely attractiveness of each document.

            above the last click, and without any click:  1
            below a last click at rank l:                  lambda_l Q / (1 - lambda_l + lambda_l Q)

        with Q the product of 1 - r_d over the documents below. The fixed point of EM: r_d = clicks(d) / E[examined].
        """
        pages = patterns_of(clicks)
        n = int(np.diff(pages.offsets).max(initial=1))
        arrays = (*pages, self.onward(n), self.k)
        attraction = np.full(clicks.n_docs, self.attractiveness)
        clicked = clicks.by_document(clicks.clicks)
        keys, place, width = cell_keys(clicks)
        for _ in range(_MOST_STEPS):
            seen = kernels.examined_documents(*arrays, attraction)
            new = np.clip(np.divide(clicked, seen, out=np.zeros_like(seen), where=seen > 0.0), 0.0, 1.0)
            moved = float(np.abs(new - attraction).max(initial=0.0))
            attraction = new
            if moved < _CLOSE:
                break
        shown, seen = kernels.examined_cells(*arrays, attraction, keys, width)
        if (shown == 0.0).any():
            raise CounterrankError("displays: lack some of the documents and ranks of the clicks; count the log again")
        found: FloatArray = (seen / shown)[place]
        return found

    def importance_weights(self, clicks: ClickCounts) -> FloatArray:
        """The mean importance weight of the clicks in each cell, 1 where there are none.

            weight of a click at rank j = 1 / product of lambda_i over the clicked ranks i above

        The sum over clicks of their weights has the expectation impressions * r_d: each click above had the user leave
        with probability 1 - lambda_i, and the weight makes up for those who left. lambda_i must be above 0.
        """
        pages = patterns_of(clicks)
        keys, place, width = cell_keys(clicks)
        onward = self.onward(int(np.diff(pages.offsets).max(initial=1)))
        sums, counts = kernels.weigh_clicks(*pages, onward, keys, width)
        if not np.isfinite(sums).all():
            raise CounterrankError(
                "exam: clicks below a click after which nobody goes on (lambda of 0), which this model cannot explain; "
                "expected a model fitted to this log"
            )
        return np.divide(sums, counts, out=np.ones(len(keys)), where=counts > 0.0)[place]

    def describe(self) -> dict[str, Any]:
        """Plain numbers for JSON; `load` makes an equal model of them."""
        found = {"model": "dependent", "continuation": self.continuation.tolist()}
        return {**found, "attractiveness": self.attractiveness}

    def __repr__(self) -> str:
        return f"Dependent({self.continuation.round(4).tolist()})"


_MOST_STEPS, _CLOSE = 500, 1e-6


def cell_keys(clicks: ClickCounts) -> tuple[IntArray, IntArray, int]:
    """doc * width + rank of the cells in order, each once; the place of each cell in them; and the width."""
    width = int(clicks.ranks.max(initial=0)) + 1
    keys, place = np.unique(clicks.docs * width + clicks.ranks, return_inverse=True)
    return keys, place.reshape(-1), width


def last_clicks_of(clicks: ClickCounts) -> LastClicks:
    """The counts by last click, or an error that says where to get them."""
    if clicks.last_clicks is None:
        raise CounterrankError(
            "clicks: counted without the rank of the last click above, which these users need; count the log with "
            "last_clicks=True"
        )
    return clicks.last_clicks


def sequential(exam: Any) -> SequentialUsers | None:
    """The user model, if its clicks depend on each other.

    >>> sequential([1.0, 0.5]) is None
    True
    """
    return exam if isinstance(exam, SequentialUsers) else None


class Patterns(NamedTuple):
    """Pages, each once for every way in which it was clicked: what kernels take, see `Displays`."""

    offsets: IntArray
    docs: IntArray
    sessions: IntArray
    patterns: IntArray


def patterns_of(clicks: ClickCounts) -> Patterns:
    """The pages with the patterns of their clicks, or an error that says where to get them."""
    if clicks.displays is None or clicks.displays.patterns is None:
        raise CounterrankError(
            "clicks: counted without the clicks of each page, which the dependent click model needs; count the log "
            "with displays=True and last_clicks=True"
        )
    pages = clicks.displays
    return Patterns(pages.offsets, pages.docs, pages.sessions, clicks.displays.patterns)


register_users("browsing", lambda content: Browsing(content["gamma"], content["attractiveness"]))
register_users("dependent", lambda content: Dependent(content["continuation"], content["attractiveness"]))
