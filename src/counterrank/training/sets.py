"""Sets of documents to be ranked by themselves, instead of whole queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterrank.common.checks import FloatArray, IntArray
from counterrank.data import RankingData
from counterrank.data.ids import query_of
from counterrank.estimators.views import Views


@dataclass(frozen=True)
class Sets:
    """Which documents each set holds, and of which query it is; weights are kept apart, one for each entry of `docs`.

    Attributes:
        docs: the documents of one set after the other, as rows of the data, in its order within a set.
        offsets: where each set begins in `docs`.
        owners: the query of each set, never decreasing.
    """

    docs: IntArray
    offsets: IntArray
    owners: IntArray

    @classmethod
    def of(cls, views: Views, data: RankingData) -> Sets:
        """The sets of views that were checked against the data."""
        return cls(views.docs, views.offsets, query_of(views.docs[views.offsets[:-1]], data.offsets))

    def subset(self, chosen: IntArray, weights: FloatArray) -> tuple[Sets, FloatArray]:
        """Some of the sets, in order, with the weights of their members."""
        lengths = np.diff(self.offsets)
        keep = np.zeros(len(lengths), np.bool_)
        keep[chosen] = True
        members = np.repeat(keep, lengths)
        offsets = np.concatenate(([0], np.cumsum(lengths[chosen])))
        return Sets(self.docs[members], offsets, self.owners[chosen]), weights[members]

    def by_query(self, data: RankingData) -> tuple[IntArray, IntArray, IntArray]:
        """What the kernels take: the first set of each query, `offsets`, and the members by place in their query."""
        of_query = np.searchsorted(self.owners, np.arange(data.n_queries + 1))
        places = self.docs - np.repeat(data.offsets[self.owners], np.diff(self.offsets))
        return of_query, self.offsets, places
