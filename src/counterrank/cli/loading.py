"""A saved ranker and the data to use it on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from counterrank.cli.output import say

if TYPE_CHECKING:
    from counterrank import Ranker, RankingData


def load_model_and_data(model: Path, source: str, part: str, threads: int | None) -> tuple[Ranker, RankingData]:
    """Both, the data made as wide as the ranker expects."""
    from counterrank import Ranker
    from counterrank.data.sources import choose_part, open_data

    ranker = Ranker.load(model)
    ranker.threads = threads
    return ranker, widened(choose_part(open_data(source, threads=threads), part, source), ranker, source)


def widened(data: RankingData, ranker: Ranker, source: str) -> RankingData:
    """The data as wide as the ranker expects: sparse files leave out columns that are all zero."""
    if data.n_features >= ranker.n_features_:
        return data
    say(
        f"Note: {source} has {data.n_features} features, the ranker {ranker.n_features_}; "
        "those that are missing count as 0."
    )
    return data.widened(ranker.n_features_)
