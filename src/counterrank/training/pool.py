"""All clicks there are to learn from, of one part of the data or of several, and how to deal them into folds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from counterrank.clicks.counts import check_counts
from counterrank.common.checks import IntArray
from counterrank.common.errors import CounterrankError
from counterrank.data import RankingData
from counterrank.estimators.examinations import Examinations, examinations
from counterrank.training.evidence import check_data


class Pool(NamedTuple):
    """Queries that were asked, and what happened to each of their documents."""

    data: RankingData
    seen: Examinations

    def part(self, queries: IntArray) -> Pool:
        """Some of the queries, by their numbers in rising order."""
        chosen = np.zeros(self.data.n_queries, np.bool_)
        chosen[queries] = True
        rows = np.repeat(chosen, self.data.lengths)
        return Pool(self.data.subset(queries), Examinations(*(values[rows] for values in self.seen)))


def examine(data: Any, clicks: Any, rho: Any, exam: Any, beta: Any, name: str = "clicks") -> Pool:
    """What happened to the documents of one part of the data."""
    counts = check_counts(clicks, name)
    counts.check_data(check_data(data, "data"), name)
    return Pool(data, examinations(counts, rho, exam, beta))


def join(pools: Sequence[Pool]) -> Pool:
    """The queries of all that were asked at all; the others tell nothing, and would make folds uneven."""
    asked = [_asked(pool) for pool in pools]
    if len(asked) == 1:
        return asked[0]
    widths = {pool.data.n_features for pool in asked}
    if len(widths) > 1:
        raise CounterrankError(f"validation: {max(widths)} features beside {min(widths)}; expected as many as in data")
    lengths = np.concatenate([pool.data.lengths for pool in asked])
    data = RankingData(
        np.concatenate([pool.data.features for pool in asked]), np.concatenate(([0], np.cumsum(lengths)))
    )
    columns = zip(*(pool.seen for pool in asked), strict=True)
    return Pool(data, Examinations(*(np.concatenate(column) for column in columns)))


def _asked(pool: Pool) -> Pool:
    asked = np.flatnonzero(np.add.reduceat(pool.seen.times, pool.data.offsets[:-1]) > 0.0)
    return pool if len(asked) == pool.data.n_queries else pool.part(asked)
