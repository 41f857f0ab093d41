"""A saved ranker and the data to use it on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from counterrank.cli.output import say

if TYPE_CHECKING:
    from counterrank import Ranker, RankingData


def load_model_and_data(model: Path, source: str, part: str, threads: int | None) -> tuple[Ranker, RankingData]:
    """Both, the data made as wide as the ranker expects: sparse files leave out columns that are all zero."""
    from counterrank import Ranker
    from counterrank.data.sources import choose_part, open_data

    ranker = Ranker.load(model)
    ranker.threads = threads
    data = choose_part(open_data(source, threads=threads), part, source)
    if data.n_features < ranker.n_features_:
        say(
            f"Note: {source} has {data.n_features} features, the ranker {ranker.n_features_}; "
            "those that are missing count as 0."
        )
        data = data.widened(ranker.n_features_)
    return ranker, data
