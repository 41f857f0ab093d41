"""Document weights: how much each document should count, from labels or from clicks."""

from counterrank.data.labels import exponential_gains, relevant_documents
from counterrank.estimators.affine import affine
from counterrank.estimators.clips import clip_grid, clip_schedule
from counterrank.estimators.direct import direct
from counterrank.estimators.doubly_robust import doubly_robust
from counterrank.estimators.full_information import full_information
from counterrank.estimators.logged import Propensities, logged_propensities
from counterrank.estimators.naive import naive
from counterrank.estimators.policy_aware import policy_aware
from counterrank.estimators.policy_oblivious import policy_oblivious
from counterrank.estimators.relevance import Relevance, fit_relevance
from counterrank.estimators.rerank import rerank
from counterrank.estimators.shrinkage import best_strength, shrinkage
from counterrank.estimators.views import Views

__all__ = [
    "Propensities",
    "Relevance",
    "Views",
    "affine",
    "best_strength",
    "clip_grid",
    "clip_schedule",
    "direct",
    "doubly_robust",
    "exponential_gains",
    "fit_relevance",
    "full_information",
    "logged_propensities",
    "naive",
    "policy_aware",
    "policy_oblivious",
    "relevant_documents",
    "rerank",
    "shrinkage",
]
