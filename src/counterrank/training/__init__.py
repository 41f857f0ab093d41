"""Training: rankers from weighted documents."""

from counterrank.training.ranker import Ranker

__all__ = ["Ranker"]
