"""The ways to weigh clicks that `fit_from_clicks` knows, each with its settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.common.checks import FloatArray, check_choice
from counterrank.common.errors import CounterrankError
from counterrank.estimators.doubly_robust import check_tau, corrected
from counterrank.estimators.examinations import Examinations
from counterrank.estimators.propensities import SMALLEST, check_clip
from counterrank.estimators.shrinkage import check_strength, shrunk

FROM_CLICKS = ("auto", "policy-aware", "direct", "doubly-robust", "shrinkage")

# What auto tries. Strengths are multiples of the most likely one: learning to rank forgives a bias that the documents
# of a query share, and wants less noise than the estimate that is best for each document alone.
_MULTIPLES = (1.0, 3.0, 10.0)
_TAUS = (0.03, 0.01)


@dataclass(frozen=True)
class Candidate:
    """An estimator and its settings.

    Attributes:
        estimator: one of `FROM_CLICKS` but "auto".
        tau: of doubly-robust.
        strength: of shrinkage, in examinations; None for `multiple` times the most likely one.
        multiple: see `strength`.
        clip: of policy-aware; infinity for none.
    """

    estimator: str
    tau: float = 0.0
    strength: float | None = None
    multiple: float = 1.0
    clip: float = np.inf

    def weigh(self, seen: Examinations, relevance: FloatArray, likely: float) -> FloatArray:
        """Weights of documents, with their predicted relevance and the most likely strength of the prediction."""
        if self.estimator == "direct":
            return seen.sessions * relevance
        if self.estimator == "doubly-robust":
            return corrected(seen, relevance, self.tau)
        if self.estimator == "shrinkage":
            return shrunk(seen, relevance, self.strength_at(likely))
        inverse = np.zeros(len(seen.rho))
        np.divide(1.0, seen.rho, out=inverse, where=seen.rho >= SMALLEST)
        return seen.clicks * np.minimum(inverse, self.clip)

    def strength_at(self, likely: float) -> float:
        """The strength of the prediction, where this is the most likely one."""
        return self.multiple * likely if self.strength is None else self.strength

    def settings(self, likely: float) -> dict[str, float]:
        """What the estimator was used with, by the name of its argument."""
        if self.estimator == "doubly-robust":
            return {"tau": self.tau}
        if self.estimator == "shrinkage":
            return {"strength": self.strength_at(likely)}
        return {"clip": self.clip} if self.estimator == "policy-aware" and self.clip < np.inf else {}


def candidates(estimator: Any, tau: Any, strength: Any, clip: Any) -> list[Candidate]:
    """What to try: all for "auto", else the one that was named. A setting that is given is the only one tried.

    >>> [candidate.tau for candidate in candidates("doubly-robust", None, None, None)]
    [0.03]
    >>> len(candidates("auto", None, None, None)), len(candidates("auto", 0.1, None, None))
    (7, 6)
    """
    name = check_choice(estimator, FROM_CLICKS, "estimator")
    for setting, value, owner in (
        ("tau", tau, "doubly-robust"),
        ("strength", strength, "shrinkage"),
        ("clip", clip, "policy-aware"),
    ):
        if value is not None and name not in ("auto", owner):
            raise CounterrankError(f"{setting}={value!r}: goes with {owner}; expected none with {name}")
    taus = _TAUS if tau is None else (check_tau(tau),)
    aware = Candidate("policy-aware", clip=check_clip(clip))
    fixed = None if strength is None else check_strength(strength)
    if name == "auto":
        shrinking = [Candidate("shrinkage", multiple=multiple) for multiple in _MULTIPLES]
        if fixed is not None:
            shrinking = [Candidate("shrinkage", strength=fixed)]
        return [*shrinking, Candidate("direct"), *(Candidate("doubly-robust", tau=each) for each in taus), aware]
    chosen = {
        "direct": Candidate("direct"),
        "doubly-robust": Candidate("doubly-robust", tau=taus[0]),
        "shrinkage": Candidate("shrinkage", strength=fixed),
        "policy-aware": aware,
    }
    return [chosen[name]]
