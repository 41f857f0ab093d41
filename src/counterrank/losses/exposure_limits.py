"""Limits on the exposure of a new policy, by that of the logging policy: exposure-based risk, and PRPO.

The Plackett-Luce loss (`losses.plackett_luce`) computes them; here is what they need, and how rewards follow from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.examination import Examination, lines_of
from counterrank.common.checks import FloatArray, IntArray, check_choice, check_number, check_vector
from counterrank.common.errors import CounterrankError
from counterrank.common.random import derive_key
from counterrank.common.ranking import longest_query
from counterrank.losses.loss_kernels import LossSpec
from counterrank.losses.plackett_luce import PRPO, RISK

RISKS = ("none", "exposure", "prpo")


@dataclass(frozen=True)
class ExposureLimit:
    """How training keeps the exposure of a new policy close to that of the logging policy.

    Attributes:
        risk: "exposure" or "prpo".
        delta: of "exposure", the error of its bound.
        low, high: of "prpo", the limits on the ratio of exposures.
    """

    risk: str
    delta: float
    low: float
    high: float

    @classmethod
    def check(cls, risk: Any, delta: Any, low: Any, high: Any) -> ExposureLimit | None:
        """The limit with these hyperparameters; None for risk="none".

        >>> ExposureLimit.check("none", 0.05, 0.5, 2.0) is None
        True
        """
        chosen = check_choice(risk, RISKS, "risk")
        found = cls(
            chosen,
            check_number(delta, "delta", above=0, at_most=1),
            check_number(low, "low", at_least=0, at_most=1),
            check_number(high, "high", at_least=1),
        )
        return None if chosen == "none" else found


@dataclass(frozen=True, eq=False)
class Safety:
    """What a limit on exposure knows of the logging policy, checked; see `SafeWeights`.

    Attributes:
        weight: the sum of the absolute weights.
    """

    propensities: FloatArray
    sessions: FloatArray
    exam: Examination
    scores: FloatArray | None
    weight: float


@dataclass(frozen=True, eq=False)
class SafeWeights:
    """Document weights, with what a limit on exposure must know of the logging policy.

    Goes to `Ranker.fit` where weights do, for `Ranker(loss="plackett-luce", params={"risk": "exposure"})` or "prpo".
    `fit_ranker` makes it from its evidence. Other losses take the weights alone.

    Attributes:
        weights: omega by document, as `estimators.policy_aware` gives it: clicks over propensities, not divided.
        propensities: rho0, the exposure of each document under the logging policy, all above 0.
        sessions: of each query.
        exam: how likely each rank is examined; exposure is measured with it.
        scores: what the logging policy ranked by. Training starts from the linear model that is closest to them.

    >>> given = SafeWeights([1.0, 0.0], propensities=[1.0, 0.5], sessions=[3], exam=[1.0, 0.5])
    >>> given.checked(np.array([0, 2])).weight
    1.0
    """

    weights: ArrayLike
    propensities: ArrayLike
    sessions: ArrayLike
    exam: Any
    scores: ArrayLike | None = None

    def checked(self, offsets: IntArray, where: str = "") -> Safety:
        """What is known of the logging policy, for the queries at these offsets."""
        n = int(offsets[-1])
        weights = check_vector(self.weights, n, f"{where}weights")
        rho = check_vector(self.propensities, n, f"{where}propensities")
        if (rho <= 0.0).any():
            at = int(np.argmax(rho <= 0.0))
            raise CounterrankError(
                f"{where}propensities: {rho[at]:g} of document {at}; expected a logging policy that shows every "
                "document sometimes, since a limit on exposure compares with its exposure"
            )
        sessions = check_vector(self.sessions, len(offsets) - 1, f"{where}sessions")
        if (sessions < 0.0).any() or not sessions.any():
            raise CounterrankError(f"{where}sessions: expected numbers of at least 0 by query, not all 0")
        scores = None if self.scores is None else check_vector(self.scores, n, f"{where}scores")
        return Safety(rho, sessions, lines_of(self.exam)[0], scores, float(np.abs(weights).sum()))


def limited_spec(spec: LossSpec, form: int, limit: ExposureLimit, safety: Safety, offsets: IntArray) -> LossSpec:
    """The loss with a limit on exposure; theta is now how likely ranks are examined, for reward and exposure alike.

    For weights that sum to 1 in absolute value, W being their sum before:

        EXPOSURE    - sum w_d rho_d + sqrt(N (1 - delta) / delta) / W sqrt(D)
        RISK        D = sum over queries of (N_q / N) sum_d rho_d^2 / rho0_d
        PRPO        - sum f(rho_d / rho0_d) rho0_d w_d,     f(x) = min(x, high) where w_d >= 0, else max(x, low)

    N_q are the sessions of query q, N their sum. Gupta, Oosterhuis and de Rijke, SIGIR 2023 and CIKM 2024.
    """
    n, total = longest_query(offsets), float(safety.sessions.sum())
    theta = safety.exam.curve(n)[: spec.parameters.k]
    seen = np.flatnonzero(theta)
    if not len(seen):
        raise CounterrankError("exam: 0 at all ranks up to k; expected ranks that are examined")
    logged = safety.propensities
    if form != PRPO:
        logged = np.repeat(safety.sessions / total, np.diff(offsets)) / logged
    limited = spec.parameters._replace(
        form=form,
        table=np.ascontiguousarray(theta[: seen[-1] + 1]),
        logged=logged,
        scale=float(np.sqrt(total * (1.0 - limit.delta) / limit.delta) / safety.weight),
        low=limit.low,
        high=limit.high,
    )
    return spec._replace(parameters=limited)


def risk_spec(spec: LossSpec) -> LossSpec:
    """Of an EXPOSURE loss its D, with draws of its own."""
    key = derive_key(spec.parameters.key, 2**32)
    return spec._replace(parameters=spec.parameters._replace(form=RISK, key=key))


def at_risk(spec: LossSpec, risk: float) -> LossSpec:
    """An EXPOSURE loss with sqrt(D) replaced by sum (N_q / N) rho_d^2 / rho0_d / sqrt(D), D being `risk`.

    At the policy that D was measured at, value and gradient (with one rho_d of the square held fixed) are the same.
    """
    return spec._replace(parameters=spec.parameters._replace(scale=spec.parameters.scale / max(risk, 1e-12) ** 0.5))


def advantages(weights: FloatArray, safety: Safety, offsets: IntArray) -> FloatArray:
    """Weights less their mean within the query by rho0: what a document brings more than the logging policy does.

    A multiple of sum_d rho_d, which no policy changes, is all that it takes from the reward. Without it no weight would
    be below 0, and the lower limit of PRPO never act.

    >>> safety = Safety(np.array([0.75, 0.25]), np.ones(1), Examination([1.0]), None, 1.0)
    >>> advantages(np.array([0.0, 4.0]), safety, np.array([0, 2])).tolist()
    [-1.0, 3.0]
    """
    rho, starts = safety.propensities, offsets[:-1]
    mean = np.add.reduceat(rho * weights, starts) / np.add.reduceat(rho, starts)
    centred: FloatArray = weights - np.repeat(mean, np.diff(offsets))
    return centred
