"""What plans of logging share: expected estimates, a guess of how documents are clicked, and parts of the variance."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.users import MOST, ClickModel
from counterrank.common.checks import FloatArray, check_number, check_vector
from counterrank.common.errors import CounterrankError
from counterrank.data import RankingData
from counterrank.data.ids import query_of
from counterrank.estimators.relevance import Relevance
from counterrank.evaluation.confidence_intervals import FEWEST_EXPECTED_CLICKS, IntervalSettings


@dataclass(frozen=True)
class ExpectedEstimate:
    """Expectation and variance of an estimate under a policy."""

    value: float  # its expectation
    variance: float  # times the number of sessions
    floor: float  # the variance between queries, which sessions do not reduce; 0 for the population "these-queries"
    equal_clicks: float  # per session, the number of equally weighted clicks whose sum would be as skewed

    def width(self, sessions: float, confidence: float) -> float | None:
        """The width of the confidence interval; None where nothing would be clicked.

        >>> expected = ExpectedEstimate(0.5, variance=1.0, floor=0.0, equal_clicks=0.1)
        >>> round(expected.width(400, confidence=0.95), 4)  # 2 * 1.96 / 20
        0.196
        """
        width = 2.0 * quantile(confidence) * math.sqrt(self.variance / sessions + self.floor)
        return width if self.equal_clicks > 0.0 and math.isfinite(width) else None

    def sessions_for(self, width: float, confidence: float) -> int | None:
        """How many sessions give an interval of this width, with its coverage; None where none up to 10**14 do.

        >>> ExpectedEstimate(0.5, variance=1.0, floor=0.0, equal_clicks=0.1).sessions_for(0.196, confidence=0.95)
        400
        >>> ExpectedEstimate(0.5, variance=1.0, floor=1.0, equal_clicks=1).sessions_for(0.196, confidence=0.9) is None
        True
        """
        left = (width / (2.0 * quantile(confidence))) ** 2 - self.floor
        if left <= 0.0 or self.equal_clicks <= 0.0 or not math.isfinite(self.variance):
            return None
        return whole_sessions(max(self.variance / left, FEWEST_EXPECTED_CLICKS / self.equal_clicks))


def whole_sessions(sessions: float) -> int | None:
    """A whole number of sessions, but for rounding; None above 10**14.

    >>> whole_sessions(2.5), whole_sessions(1e15)
    (3, None)
    """
    return max(1, math.ceil(sessions * (1.0 - 1e-12))) if sessions <= MOST else None


def quantile(confidence: float) -> float:
    """The two-sided quantile of the normal distribution.

    >>> round(quantile(0.95), 2)
    1.96
    """
    return NormalDist().inv_cdf(0.5 + confidence / 2.0)


@dataclass(frozen=True, eq=False)
class ClickGuess:
    """How documents are clicked once examined.

    Attributes:
        model: by rank at attractiveness 0 and 1; None where every document is clicked with the same probability.
        attractiveness: of each document; without a model that probability.
        about: where it comes from, in words.
    """

    model: ClickModel | None
    attractiveness: FloatArray
    about: str = "labels"

    @classmethod
    def check(
        cls,
        data: RankingData,
        click_model: ClickModel | None,
        click_rate: float | None,
        relevance_threshold: float,
        relevance: ArrayLike | None = None,
    ) -> ClickGuess:
        """By one rate for all documents, P(click | examined) of each, or labels and a click model; checked."""
        if not isinstance(data, RankingData):
            raise CounterrankError(f"data: {type(data).__name__}; expected RankingData")
        given = {"relevance": relevance, "click_rate": click_rate, "click_model": click_model}
        named = [name for name, value in given.items() if value is not None]
        if len(named) > 1:
            raise CounterrankError(f"{', '.join(named)}: expected one of the two")
        if relevance is not None:
            about = "a fitted relevance model" if isinstance(relevance, Relevance) else "the relevance given"
            return cls(None, _check_guess(relevance, data), about)
        if click_rate is not None:
            rate = check_number(click_rate, "click_rate", above=0, at_most=1)
            return cls(None, np.full(data.n_docs, rate), f"one click rate for all documents, {rate:g}")
        if data.labels is None:
            raise CounterrankError(
                "data: has no labels to predict clicks from; expected click_rate, P(click | examined) of an average "
                "document, such as 0.1"
            )
        model = ClickModel() if click_model is None else click_model
        if not isinstance(model, ClickModel):
            raise CounterrankError(f"click_model: {type(model).__name__}; expected simulation.ClickModel")
        found = cls(model, model.attractiveness(data, relevance_threshold))
        if not np.max(model.relevant) and not np.max(model.other):
            raise CounterrankError("click_model: nothing is ever clicked; expected a probability above 0")
        return found

    def attraction(self, rho: FloatArray, theta: FloatArray, shown: Callable[[], FloatArray]) -> FloatArray:
        """P(click | examined) of each document: under trust bias its mean over the ranks where a policy shows it.

        Arguments:
            rho: P(examined) of each document.
            theta: P(examined | rank), by rank of the page.
            shown: gives P(shown at each rank), (n_docs, ranks of the page).
        """
        r = self.attractiveness
        if self.model is None:
            return r
        if not np.ndim(self.model.relevant) and not np.ndim(self.model.other):
            other, relevant = (float(column[0]) for column in self.model.by_rank(1))
            return other + (relevant - other) * r
        low, high = self.model.by_rank(len(theta))
        seen = shown() * theta
        # what is never shown takes the mean of all ranks
        usual = np.average(low, weights=theta) + np.average(high - low, weights=theta) * r
        return np.divide(seen @ low + (seen @ (high - low)) * r, rho, out=usual, where=rho > 0.0)


def _check_guess(relevance: ArrayLike, data: RankingData) -> FloatArray:
    found = check_vector(relevance, data.n_docs, "relevance")
    outside = (found < 0.0) | (found > 1.0)
    if outside.any():
        doc = int(np.argmax(outside))
        query = int(query_of(doc, data.offsets))
        raise CounterrankError(
            f"relevance: {found[doc]:g} for document {doc - data.offsets[query]} of query {query}; expected "
            "P(click | examined), from 0 to 1"
        )
    if not found.any():
        raise CounterrankError("relevance: all are 0, so that nothing is ever clicked; expected one above 0")
    return found


def variance_parts(
    frequencies: FloatArray, centred: FloatArray, variances: FloatArray, settings: IntervalSettings
) -> tuple[FloatArray, FloatArray]:
    """The part of the variance that falls with the sessions (times their number), and the part that does not.

    Sessions of a query are binomial, so that over Q queries the expectation of the sum of (terms - R * below)^2 is
    N f Var + (N f (1 - f) + N^2 f^2) mean^2 for each; with the factor Q / (Q - 1), as in `bootstrap_intervals`.

    Arguments:
        frequencies: of the queries.
        centred: E[Y | query] less its part of the denominator, a column for each estimate.
        variances: Var(Y | query), the same shape.
        settings: with the target population.
    """
    often = frequencies[:, None]
    within: FloatArray = np.maximum((often * variances).sum(axis=0), 0.0)
    if settings.population == "these-queries":
        return within, np.zeros_like(within)
    n = int(np.count_nonzero(frequencies))
    factor = n / max(n - 1, 1)
    between = (often * (1.0 - often) * centred**2).sum(axis=0)
    return factor * (within + between), factor * (often**2 * centred**2).sum(axis=0)
