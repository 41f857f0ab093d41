"""The production ranker: what was there before anyone learned from clicks."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from counterrank.common.errors import DataError
from counterrank.data import RankingData
from counterrank.estimators import full_information
from counterrank.models import LinearModel
from counterrank.training import Ranker
from counterrank.training.problem import usable_queries


def train_production(
    train: RankingData,
    share: float,
    relevance_threshold: float,
    seed: int,
    threads: int | None = None,
    norm: float = 5.0,
) -> tuple[Ranker, int]:
    """The paper's production ranker: ARP with the hinge bound on a small share of the queries' labels.

    Queries are drawn among those that have a relevant document and another, since the rest teach nothing; at least
    three are taken. The coefficients are scaled to the given norm; that changes no ranking, but a Plackett-Luce policy
    is the more random the smaller scores are.

    >>> from counterrank.data import make_fold
    >>> data = make_fold("yahoo", 100).train
    >>> train_production(data, 0.05, relevance_threshold=3, seed=0)[1]
    3
    """
    weights = full_information(train, relevance_threshold)
    usable = usable_queries(weights, train.offsets)
    if not len(usable):
        raise DataError(
            f"relevance_threshold={relevance_threshold:g}: no training query has relevant documents and others; "
            "expected one from which a production ranker can learn"
        )
    size = min(len(usable), max(3, round(share * train.n_queries)))
    few = train.subset(np.sort(np.random.default_rng(seed).choice(usable, size=size, replace=False)))
    ranker = Ranker(loss="arp-hinge", max_epochs=20, threads=threads, seed=seed)
    ranker.fit(few, full_information(few, relevance_threshold))
    learned = cast(LinearModel, ranker.model_)
    length = np.linalg.norm(learned.coefficients)
    if length > 0.0:
        ranker.model_ = replace(learned, coefficients=learned.coefficients * (norm / length))
    return ranker, size
