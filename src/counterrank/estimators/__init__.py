"""Document weights: how much each document should count, from labels or from clicks."""

from counterrank.data.labels import exponential_gains, relevant_documents
from counterrank.estimators.full_information import full_information

__all__ = ["exponential_gains", "full_information", "relevant_documents"]
