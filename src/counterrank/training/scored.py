"""`Scored`: scores for the documents of some data, from a saved ranker, a file of scores, or a feature."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from counterrank.common.checks import FloatArray
from counterrank.common.errors import CounterrankError
from counterrank.common.files import PathLike, existing
from counterrank.data import RankingData, in_data_order, read_scores
from counterrank.data.features import refuse_missing
from counterrank.training.ranker import Ranker


@dataclass(frozen=True)
class Scored:
    """Scores of one data set, to be used as a ranker is.

    Attributes:
        label: where they come from.
        scores: one for each document.
        provenance_: of the ranker; {} of scores from a file or a feature.
        missing: how many features of the ranker the data does not have; they count as 0.

    >>> data = RankingData([[0.0, 3.0], [1.0, 2.0]], offsets=[0, 2])
    >>> Scored.load("feature:2", data).predict(data).tolist()
    [3.0, 2.0]
    """

    label: str
    scores: FloatArray
    provenance_: dict[str, Any]
    missing: int = 0

    @classmethod
    def load(cls, source: PathLike, data: RankingData, threads: int | None = None) -> Scored:
        """The folder of a saved ranker, a file of scores, or one of the features (`feature:25`, or its name)."""
        label = os.fspath(source)
        if label.startswith("feature:"):
            return cls(label, in_data_order(_feature(label, data), data), {})
        path = existing(source, "ranker or scores")
        if not path.is_dir():
            return cls(label, read_scores(path, data), {})
        ranker = Ranker.load(path)
        ranker.threads = threads
        # sparse files leave out columns that are all zero; features with names are all there or an error
        missing = 0 if data.has_feature_names else max(0, ranker.n_features_ - data.n_features)
        scores = ranker.predict(data.widened(ranker.n_features_) if missing else data)
        return cls(label, in_data_order(scores, data), ranker.provenance_, missing)

    def predict(self, data: RankingData) -> FloatArray:
        """The scores, which are of this data."""
        return self.scores


def _feature(text: str, data: RankingData) -> FloatArray:
    name = text.removeprefix("feature:")
    if name in data.feature_names:
        column = data.feature_names.index(name)
    elif name.isascii() and name.isdigit() and 1 <= int(name) <= data.n_features:
        column = int(name) - 1
    else:
        also = ", or its name" if data.has_feature_names else ""
        raise CounterrankError(f"{text}: no such feature; expected a number from 1 to {data.n_features}{also}")
    chosen = data.select_features([data.feature_names[column]])
    refuse_missing(chosen, f"{text} as a score", "another feature")
    return chosen.features[:, 0].astype(float)
