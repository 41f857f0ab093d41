"""Many linear rankers at once: the time of a ranker-epoch in populations, as a multiple of that of a ranker alone.

Every member has weights of its own and truncated LambdaLoss. Times are those of `fit_many`, with all checks, scaling
and provenance, divided by the number of members and epochs; the best of several runs.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.timing import at_most, best_seconds, row
from counterrank import Member, Ranker, fit_many
from counterrank.data import RankingData

_EPOCHS = 10
_QUERIES = 2_000  # the first of the data: still far larger than any cache
_SIZES = (1, 2, 4, 8)


def run(data: RankingData, repeats: int = 7) -> list[dict[str, Any]]:
    """Rows for populations of several sizes on one and two threads."""
    data = data.subset(np.arange(min(_QUERIES, data.n_queries)))
    generator = np.random.default_rng(0)
    # a tiny learning rate, so that every run does the same work
    ranker = Ranker("lambdaloss-truncated", k=5, learning_rate=1e-12, max_epochs=_EPOCHS, threads=1)
    members = [
        Member(ranker, np.where(generator.random(data.n_docs) < 0.05, generator.exponential(size=data.n_docs), 0.0))
        for _ in range(max(_SIZES))
    ]
    cases = [(size, threads) for size in _SIZES for threads in (1, 2)]
    actions = [partial(fit_many, data, members[:size], threads=threads) for size, threads in cases]

    def fit_alone() -> None:
        Ranker(**ranker.get_params()).fit(data, members[0].weights)

    alone, *times = best_seconds([fit_alone, *actions], repeats)
    base = alone / _EPOCHS
    rows = [row("ranker-epoch, Ranker.fit on 1 thread", base, 1.0)]
    for (size, threads), seconds in zip(cases, times, strict=True):
        name = f"ranker-epoch, population of {size} on {threads} thread{'s' if threads > 1 else ''}"
        rows.append(at_most(name, seconds / (size * _EPOCHS), base, None))
    return rows
