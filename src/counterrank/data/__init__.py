"""Ranking data: the container, readers, writers, and synthetic sets."""

from counterrank.data.letor import read_letor
from counterrank.data.parquet import write_parquet
from counterrank.data.ranking_data import Fold, RankingData, read_parquet
from counterrank.data.scores import document_scores, in_data_order, read_scores
from counterrank.data.sources import open_data, read_fold
from counterrank.data.synthetic import make_fold, make_ranking_data

__all__ = [
    "Fold",
    "RankingData",
    "document_scores",
    "in_data_order",
    "make_fold",
    "make_ranking_data",
    "open_data",
    "read_fold",
    "read_letor",
    "read_parquet",
    "read_scores",
    "write_parquet",
]


def __dir__() -> list[str]:
    return sorted(__all__)
