"""A fitted curve with what its intervals need: the sandwich of information and variance of scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterrank.common.checks import FloatArray
from counterrank.common.errors import CounterrankError
from counterrank.common.quantiles import student_quantile

TARGETS = ("queries", "these-queries")
_NORMAL = 10_000  # degrees of freedom that are as good as none


@dataclass(frozen=True, eq=False)
class Fit:
    """A curve, and the pieces of the covariance of its logarithm.

    The curve solves S(log theta) = 0, S being a sum over queries. To first order (Huber 1967)

        Cov(log theta) = I^-1 V I^-1,     I = -dS / d log theta,     V = Cov(S),     rank 1 being fixed

    Attributes:
        theta: relative to rank 1.
        information: I, (n_ranks, n_ranks).
        over_queries: sum over queries of their scores' outer products.
        over_clicks: V of binomial clicks in each cell, pages being as they were shown.
        said: how much each query has to say.
        iterations: how many steps it took.
    """

    theta: FloatArray
    information: FloatArray
    over_queries: FloatArray
    over_clicks: FloatArray
    said: FloatArray
    iterations: int = 0

    @property
    def effective_queries(self) -> float:
        """How many queries of equal weight would say as much: (sum said)^2 / sum said^2."""
        squares = float((self.said**2).sum())
        return float(self.said.sum()) ** 2 / squares if squares > 0.0 else 0.0

    def intervals(self, target: str, confidence: float) -> FloatArray:
        """theta * exp(+- t * standard error of log theta), (n_ranks, 2); t is Student's over queries."""
        effective = self.effective_queries
        if target == "queries" and effective < 2.0:
            raise CounterrankError(
                f"target='queries': the log speaks with the weight of {effective:.1f} queries, which tell nothing of "
                "others; expected 2 or more, or target='these-queries'"
            )
        bread = self._inverse_information()
        if target == "queries":
            filling, freedom = self.over_queries * effective / (effective - 1.0), int(effective) - 1
        else:
            filling, freedom = self.over_clicks, _NORMAL
        spread = np.sqrt(np.maximum(np.diag(bread @ filling[1:, 1:] @ bread), 0.0))
        reach = student_quantile(confidence, freedom) * np.append(0.0, spread)
        return np.stack([self.theta * np.exp(-reach), self.theta * np.exp(reach)], axis=1)

    def _inverse_information(self) -> FloatArray:
        try:
            return np.asarray(np.linalg.inv(self.information[1:, 1:]), np.float64)
        except np.linalg.LinAlgError:  # of EM, where the documents compared were clicked whenever they were shown
            raise CounterrankError(
                "clicks: too few impressions without a click to tell how far the curve may be off; expected more "
                "sessions, or method 'all-pairs'"
            ) from None
