"""Document weights: how much each document should count, from labels or from clicks."""

from counterrank.data.labels import exponential_gains, relevant_documents
from counterrank.estimators.affine import affine
from counterrank.estimators.clips import clip_grid, clip_schedule
from counterrank.estimators.full_information import full_information
from counterrank.estimators.naive import naive
from counterrank.estimators.policy_aware import policy_aware
from counterrank.estimators.policy_oblivious import policy_oblivious
from counterrank.estimators.rerank import rerank
from counterrank.estimators.views import Views

__all__ = [
    "Views",
    "affine",
    "clip_grid",
    "clip_schedule",
    "exponential_gains",
    "full_information",
    "naive",
    "policy_aware",
    "policy_oblivious",
    "relevant_documents",
    "rerank",
]
