"""A model of relevance from clicks: what the direct, doubly robust and shrinkage estimators start from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.examination import Examination
from counterrank.common.checks import FloatArray, check_choice, make_generator
from counterrank.common.errors import CounterrankError
from counterrank.data import RankingData
from counterrank.estimators import _ridge
from counterrank.estimators.examinations import examinations


@dataclass(frozen=True, eq=False)
class Relevance:
    """Predicted relevance, P(click | examined), of each document; usable wherever an array of it is.

    Attributes:
        values: one per document of the data, each predicted from the clicks of other queries.
        coefficients: of the model fitted on all queries, for query-normalised features; the intercept last.
        penalty: of that model.
        error: exposure-weighted mean squared error of `values`.
        baseline: the same of one rate for all documents.
    """

    values: FloatArray
    coefficients: FloatArray
    penalty: float
    error: float
    baseline: float

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.values, dtype=dtype) if copy or dtype is not None else self.values

    def predict(self, data: RankingData) -> FloatArray:
        """Relevance of the documents of other queries, by the model fitted on all."""
        return _rates(data.normalized().features, self.coefficients)


def fit_relevance(
    data: RankingData,
    clicks: ClickCounts,
    rho: ArrayLike | None = None,
    model: str = "ridge",
    *,
    exam: ArrayLike | Examination | None = None,
    beta: ArrayLike | Examination | None = None,
    saturation: float = 10.0,
    folds: int = 5,
    seed: int | np.random.Generator = 0,
) -> Relevance:
    """Regress the click rate once examined on query-normalised features, each document weighted by its examinations.

        minimise sum over d of E(d) / (1 + E(d) / s) (clicks(d) / E(d) - R(d))^2

    A document that was examined a thousand times tells its own relevance a thousand times better than one examined
    once, but not that of others: the saturation s is how many examinations count in full. Without bound the model
    would only learn the few documents that always were on top.

    The queries are dealt into folds, and those of a fold get the prediction of a model fitted on the others, so that a
    query's own clicks never tell its own R. The penalty is chosen by the held-out error inside the others.
    """
    counts = check_counts(clicks)
    counts.check_data(data)
    check_choice(model, ("ridge",), "model")
    seen = examinations(counts, rho, exam, beta)
    told = np.flatnonzero(np.add.reduceat(seen.times, counts.offsets[:-1]) > 0.0)
    if len(told) < 2:
        raise CounterrankError(
            f"clicks: sessions of {len(told)} queries; expected at least two, one to predict another"
        )
    n = min(folds, len(told))
    dealt = np.zeros(counts.n_queries, np.int64)
    dealt[make_generator(seed).permutation(told)] = np.arange(len(told)) % n
    fold = np.repeat(dealt, np.diff(counts.offsets))
    targets = np.divide(seen.clicks, seen.times, out=np.zeros(counts.n_docs), where=seen.times > 0.0)
    features = data.normalized().features
    own = _ridge.moments(features, targets, seen.times / (1.0 + seen.times / saturation), fold, n)
    values = np.empty(counts.n_docs)
    everything = np.arange(n)
    for i in range(n):
        others = everything[everything != i]
        mine = fold == i
        values[mine] = _rates(features[mine], _ridge.fit(own, others, _choose(own, others)))
    penalty = _choose(own, everything)
    rate = seen.clicks.sum() / seen.times.sum()
    total = seen.times.sum()
    return Relevance(
        values,
        _ridge.fit(own, everything, penalty),
        penalty,
        float(seen.times @ (targets - values) ** 2 / total),
        float(seen.times @ (targets - rate) ** 2 / total),
    )


def _choose(own: _ridge.Moments, folds: Any) -> float:
    """The penalty with the least held-out error; of a single fold the largest."""
    if len(folds) < 2:
        return float(_ridge.PENALTIES[-1])
    return float(_ridge.PENALTIES[np.argmin(_ridge.held_out_errors(own, folds))])


def _rates(features: Any, coefficients: FloatArray) -> FloatArray:
    return np.asarray(np.clip(features @ coefficients[:-1] + coefficients[-1], 0.0, 1.0))
