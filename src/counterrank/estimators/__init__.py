"""Document weights: how much each document should count, from labels or from clicks."""

from counterrank.estimators.full_information import exponential_gains, full_information, relevant_documents

__all__ = ["exponential_gains", "full_information", "relevant_documents"]
