"""Ranking data: the container, readers, writers, and synthetic sets."""

from counterrank.data.ranking_data import RankingData
from counterrank.data.synthetic import make_fold, make_ranking_data

__all__ = ["RankingData", "make_fold", "make_ranking_data"]
