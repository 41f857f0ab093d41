"""From clicks to a ranker in one call."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import Examination
from counterrank.common.checks import FloatArray, check_choice
from counterrank.data import RankingData
from counterrank.estimators import Relevance, direct, doubly_robust, fit_relevance, policy_aware, shrinkage
from counterrank.training.ranker import Ranker

FROM_CLICKS = ("auto", "policy-aware", "direct", "doubly-robust", "shrinkage")


@dataclass(frozen=True, eq=False)
class FromClicks:
    """A ranker learned from clicks, and how.

    Attributes:
        ranker: the trained ranker.
        estimator: the name of the estimator used.
        about: what else was chosen: tau, strength, clip.
        why: the reasons, in words.
        relevance: the model of relevance, where one was fitted.
    """

    ranker: Ranker
    estimator: str
    about: dict[str, Any]
    why: str
    relevance: Relevance | None


def fit_from_clicks(
    data: RankingData,
    clicks: ClickCounts,
    rho: ArrayLike | None = None,
    *,
    validation: tuple[RankingData, ClickCounts, ArrayLike | None] | None = None,
    estimator: str = "auto",
    ranker: Ranker | None = None,
    tau: float | None = None,
    strength: float | None = None,
    clip: float | None = None,
    exam: Examination | None = None,
    seed: int | np.random.Generator = 0,
) -> FromClicks:
    """Learn a ranker from clicks."""
    check_choice(estimator, FROM_CLICKS, "estimator")
    model = copy.copy(ranker) if ranker is not None else Ranker(k=5, seed=seed)
    relevance = None if estimator == "policy-aware" else fit_relevance(data, clicks, rho, exam=exam, seed=seed)

    def weigh(counts: ClickCounts, rho: Any, predicted: FloatArray | None) -> FloatArray:
        if predicted is None:
            return policy_aware(counts, rho, clip=clip)
        if estimator == "direct":
            return direct(counts, predicted)
        if estimator == "doubly-robust":
            return doubly_robust(counts, rho, predicted, tau=0.05 if tau is None else tau, exam=exam)
        return shrinkage(counts, rho, predicted, strength=strength, exam=exam)

    weights = weigh(clicks, rho, None if relevance is None else relevance.values)
    judged_by: Any = None
    if validation is not None:
        other, counts, other_rho = validation
        judged_by = (other, weigh(counts, other_rho, None if relevance is None else relevance.predict(other)))
    model.fit(data, weights, validation=judged_by)
    name = "shrinkage" if estimator == "auto" else estimator
    return FromClicks(model, name, {"tau": tau, "strength": strength, "clip": clip}, "", relevance)
