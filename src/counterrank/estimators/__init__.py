"""Estimators: one weight per document, from labels or from clicks."""

from counterrank.data.labels import exponential_gains, relevant_documents
from counterrank.estimators.displayed_sets import Views, rerank
from counterrank.estimators.evidence import Evidence, display_frequencies
from counterrank.estimators.model_assisted import best_strength, direct, doubly_robust, shrinkage
from counterrank.estimators.propensities import Propensities, logged_propensities
from counterrank.estimators.registry import (
    ESTIMATORS,
    NEEDS,
    Estimator,
    Hyperparameter,
    checked_hyperparameters,
    named_estimator,
    register_estimator,
)
from counterrank.estimators.relevance import Relevance, fit_relevance
from counterrank.estimators.users_from_log import FoundUsers, learn_users
from counterrank.estimators.weights import (
    affine,
    clip_grid,
    clip_schedule,
    full_information,
    naive,
    policy_aware,
    policy_oblivious,
)

__all__ = [
    "ESTIMATORS",
    "NEEDS",
    "Estimator",
    "Evidence",
    "FoundUsers",
    "Hyperparameter",
    "Propensities",
    "Relevance",
    "Views",
    "affine",
    "best_strength",
    "checked_hyperparameters",
    "clip_grid",
    "clip_schedule",
    "direct",
    "display_frequencies",
    "doubly_robust",
    "exponential_gains",
    "fit_relevance",
    "full_information",
    "learn_users",
    "logged_propensities",
    "naive",
    "named_estimator",
    "policy_aware",
    "policy_oblivious",
    "register_estimator",
    "relevant_documents",
    "rerank",
    "shrinkage",
]


def __dir__() -> list[str]:
    return sorted(__all__)
