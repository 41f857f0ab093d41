"""Ranking data: the container, readers, writers, and synthetic sets."""

from counterrank.data.ranking_data import RankingData

__all__ = ["RankingData"]
