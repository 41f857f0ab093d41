"""What there is to learn: data, weights and a loss, made ready for the kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.checks import FloatArray, IntArray, as_array, check_vector
from counterrank.common.errors import ConstantFeaturesError, CounterrankError, NothingToLearnError
from counterrank.common.parallel import for_queries
from counterrank.common.ranking import longest_query
from counterrank.data import RankingData
from counterrank.data.ids import query_of
from counterrank.data.ranking_data import from_arrays
from counterrank.estimators.views import Views, check_views
from counterrank.evaluation import higher_is_better, prefix_sums, rank_values, weighted_queries
from counterrank.losses import NamedLoss
from counterrank.models.linear import constant_columns, linear_scores
from counterrank.models.model import Model, Scales


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


def normalized_evidence(
    data: RankingData, weights: FloatArray, sets: Sets | None
) -> tuple[IntArray, FloatArray, Sets | None]:
    """The queries that can teach something, weights that sum to 1 in absolute value, and the sets that teach.

    >>> data = RankingData([[0.0], [1.0], [2.0]], offsets=[0, 2, 3])
    >>> [queries, weights, _] = normalized_evidence(data, np.array([0.0, 3.0, 1.0]), None)
    >>> queries.tolist(), weights.tolist()
    ([0], [0.0, 0.75, 0.25])
    """
    total = np.abs(weights).sum()
    usable = check_usable(weights, data.offsets, sets)
    if sets is not None:
        # sets of equal weights count in the sum that weights are divided by, as such queries do
        sets, weights = sets.subset(usable, weights)
        usable = np.unique(sets.owners)
    return usable, weights / total, sets


def check_usable(weights: FloatArray, offsets: IntArray, sets: Sets | None) -> IntArray:
    """The queries, or with sets the sets, that can teach something; none at all is an error."""
    usable = usable_queries(weights, offsets if sets is None else sets.offsets)
    if not len(usable):
        name, what = ("weights", "query") if sets is None else ("views", "set")
        raise NothingToLearnError(
            f"{name}: equal within every {what}, so there is nothing to learn; expected at least one {what} whose "
            "documents differ in weight"
        )
    return usable


def usable_queries(weights: FloatArray, offsets: IntArray) -> IntArray:
    """The queries (or sets) that can teach something: with at least two different weights.

    >>> usable_queries(np.array([1.0, 0.0, 1.0, 1.0]), np.array([0, 2, 4])).tolist()
    [0]
    """
    starts = offsets[:-1]
    return np.flatnonzero(np.maximum.reduceat(weights, starts) != np.minimum.reduceat(weights, starts))


# From coefficients and a number of threads to each query's part in the metric; larger is better, the sum is the metric.
QueryMetric = Callable[[FloatArray, int], FloatArray]


class TrainingWeights(NamedTuple):
    """Weights of all documents of the data; or, with sets, of their members."""

    weights: FloatArray
    sets: Sets | None


def check_data(data: Any, name: str) -> RankingData:
    """Ranking data, or an error."""
    if not isinstance(data, RankingData):
        raise CounterrankError(f"{name}: {type(data).__name__}; expected RankingData")
    return data


def plain_data(
    features: Any, validation: Any, qid: ArrayLike | None, group: ArrayLike | None
) -> tuple[RankingData, Any]:
    """Ranking data of a matrix and of the matrix to validate on, a triple with its own `qid` or `group`."""
    data = from_arrays(features, qid, group)
    is_list = isinstance(validation, tuple | list)
    if validation is None or (is_list and len(validation) and isinstance(validation[0], RankingData)):
        return data, validation
    if not is_list or len(validation) != 3:
        name = "group" if qid is None else "qid"
        raise CounterrankError(f"validation: expected (X, weights, {name}) together with a matrix")
    other, weights, queries = validation
    given = {"group": queries} if qid is None else {"qid": queries}
    return data, (from_arrays(other, **given, name="validation X"), weights)


def prediction_data(features: Any, qid: ArrayLike | None, group: ArrayLike | None) -> RankingData:
    """Ranking data of a matrix to score; of one query where nothing tells."""
    if qid is None and group is None:
        features = as_array(features, "X")
        if features.ndim == 2 and len(features) == 0:
            raise CounterrankError("X: no rows; expected at least one document to score")
        group = [len(features)] if features.ndim else [1]
    return from_arrays(features, qid, group)


def check_weights(weights: ArrayLike | Views, data: RankingData, where: str = "") -> TrainingWeights:
    """Finite weights, not all zero, one per document or in sets; scaled to at most 1, so that no sum overflows."""
    sets, name = None, f"{where}weights"
    if isinstance(weights, Views):
        name = f"{where}views"
        views = check_views(weights, data.offsets, name)
        sets, checked = Sets.of(views, data), views.weights
    else:
        checked = check_vector(weights, data.n_docs, name)
    largest = np.abs(checked).max()
    if largest == 0.0:
        raise CounterrankError(f"{name}: all are 0; expected at least one document with evidence")
    return TrainingWeights(checked / largest, sets)


def check_validation(validation: Any, data: RankingData, with_sets: bool) -> tuple[RankingData, TrainingWeights]:
    """Validation data with as many features and the same kind of evidence as in training."""
    if not isinstance(validation, tuple | list) or isinstance(validation, Views) or len(validation) != 2:
        raise CounterrankError("validation: expected a pair (data, weights)")
    other = check_data(validation[0], "validation")
    if other.n_features != data.n_features:
        raise CounterrankError(f"validation: {other.n_features} features; expected {data.n_features} as in data")
    if isinstance(validation[1], Views) != with_sets:
        given, expected = ("weights", "views") if with_sets else ("views", "weights")
        raise CounterrankError(
            f"validation: {given}, where training has {expected}; expected {expected} in both, since ranks are taken "
            "inside displayed sets with views, and in whole queries with weights"
        )
    return other, check_weights(validation[1], other, "validation ")


def constant_features(data: RankingData, threads: int | None = None) -> IntArray:
    """The columns that have one value within each query: by themselves they order no documents. None varies in a query
    of one document.

    >>> constant_features(RankingData([[1.0, 0.0], [1.0, 3.0], [2.0, 0.0]], [0, 2, 3])).tolist()
    [0]
    """
    found = for_queries(constant_columns, data.offsets, data.features, threads=threads)
    return reduce(np.intersect1d, found)


def check_varying(data: RankingData, threads: int | None = None) -> IntArray:
    """The constant features of data to learn from; an error where all are constant, whatever the model."""
    constant = constant_features(data, threads)
    if len(constant) == data.n_features:
        raise ConstantFeaturesError(
            f"data: none of the features ({data.n_features:,}) varies within any query ({data.n_queries:,}), so no "
            "model can order documents; expected a feature that differs between the documents of a query (are the "
            "rows grouped by query?)"
        )
    return constant


def query_metric(metric: str, data: RankingData, evidence: TrainingWeights) -> QueryMetric:
    """Each query's part in the metric of scores, sum(omega * lambda) / sum(|omega|); larger is better.

    With sets, ranks are those inside each set, and the part of a query is the sum over its sets.
    """
    weights, sets = evidence
    sign = 1.0 if higher_is_better(metric) else -1.0
    prefix = prefix_sums(rank_values(metric, longest_query(data.offsets)))
    total = sign / np.abs(weights).sum()
    offsets = data.offsets if sets is None else sets.offsets

    def judge(scores: FloatArray, threads: int) -> FloatArray:
        if sets is not None:
            scores = scores[sets.docs]
        parts: FloatArray = np.empty(len(offsets) - 1)
        for_queries(weighted_queries, offsets, scores, weights, prefix, parts, threads=threads)
        if sets is not None:
            parts = np.asarray(np.bincount(sets.owners, weights=parts, minlength=data.n_queries), np.float64)
        parts *= total
        return parts

    return judge


def linear_query_metric(metric: str, data: RankingData, evidence: TrainingWeights, scales: Scales) -> QueryMetric:
    """`query_metric` of the scores of a linear model, from its coefficients."""
    judge_scores = query_metric(metric, data, evidence)

    def judge(coefficients: FloatArray, threads: int) -> FloatArray:
        return judge_scores(linear_scores(data, coefficients, scales, threads), threads)

    return judge


@dataclass(frozen=True)
class Settings:
    """How to learn, after checks and with the model's own defaults filled in.

    Attributes:
        learning_rate: the step size, or None to find or take a good one.
        max_epochs, patience, tolerance: as for `Ranker`.
        batch_queries: queries a step.
        normalize: how features are scaled.
        params: settings that only this kind of model knows.
        threads: how many.
        entropy: what all randomness is drawn from.
    """

    learning_rate: float | None
    max_epochs: int
    patience: int
    tolerance: float
    batch_queries: int
    normalize: str
    params: Mapping[str, Any]
    threads: int
    entropy: int


@dataclass(frozen=True)
class Task:
    """Data and evidence to learn from and to stop by, and the loss to learn with."""

    data: RankingData
    evidence: TrainingWeights
    validation: tuple[RankingData, TrainingWeights] | None
    loss: NamedLoss
    k: int | None
    metric: str
    settings: Settings


@dataclass(frozen=True)
class FittedModel:
    """A model and how it came about.

    Attributes:
        model: of the best epoch.
        history: one row per epoch, with the metric so that larger is better.
        best_epoch: the epoch whose model it is.
        learning_rate: the step size used.
        importances: how much each feature moves the scores, in any unit; None where the model does not tell.
    """

    model: Model
    history: list[dict[str, float | None]]
    best_epoch: int
    learning_rate: float
    importances: FloatArray | None = None


class Batch(NamedTuple):
    """Some queries, the documents of one after the other.

    Attributes:
        rows: their documents, as rows of the data.
        offsets: where each query begins in `rows`.
        members: what is ranked, as entries of `rows`: the members of sets; None where it is the queries themselves.
        weights: of what is ranked.
        bounds: where each ranking begins in `members`, or in `rows`.
    """

    rows: IntArray
    offsets: IntArray
    members: IntArray | None
    weights: FloatArray
    bounds: IntArray


@dataclass(frozen=True)
class Batches:
    """Weighted queries to take batches of.

    Weights sum to the number of queries in absolute value, so that the loss of a batch divided by its queries is an
    average: it does not depend on how many queries there are, nor on the size of the batch.

    Attributes:
        queries: those that can teach something.
        offsets: of the data.
        weights: one per document, or per member of the sets.
        sets: with sets, the first set of each query, where sets begin, and their members by place in the query.
    """

    queries: IntArray
    offsets: IntArray
    weights: FloatArray
    sets: tuple[IntArray, IntArray, IntArray] | None

    @classmethod
    def make(cls, data: RankingData, evidence: TrainingWeights) -> Batches:
        """Find the queries to learn from, and scale the weights."""
        queries, weights, sets = normalized_evidence(data, evidence.weights, evidence.sets)
        return cls(queries, data.offsets, weights * len(queries), None if sets is None else sets.by_query(data))

    def take(self, queries: IntArray) -> Batch:
        """The batch of these queries, in this order.

        >>> data = RankingData([[0.0], [1.0], [2.0], [3.0]], offsets=[0, 2, 4])
        >>> batches = Batches.make(data, TrainingWeights(np.array([0.0, 1.0, 1.0, 0.0]), None))
        >>> batch = batches.take(np.array([1, 0]))
        >>> batch.rows.tolist(), batch.offsets.tolist(), batch.weights.tolist()
        ([2, 3, 0, 1], [0, 2, 4], [1.0, 0.0, 0.0, 1.0])
        """
        rows, offsets = ranges(self.offsets, queries)
        if self.sets is None:
            return Batch(rows, offsets, None, self.weights[rows], offsets)
        first_set, set_offsets, places = self.sets
        chosen, _ = ranges(first_set, queries)
        entries, bounds = ranges(set_offsets, chosen)
        begin = np.repeat(offsets[:-1], set_offsets[first_set[queries + 1]] - set_offsets[first_set[queries]])
        return Batch(rows, offsets, places[entries] + begin, self.weights[entries], bounds)


def ranges(bounds: IntArray, chosen: IntArray) -> tuple[IntArray, IntArray]:
    """The numbers bounds[i]:bounds[i + 1] of each chosen i, one after the other, and where each begins among them.

    >>> [numbers, offsets] = ranges(np.array([0, 2, 5]), np.array([1, 0]))
    >>> numbers.tolist(), offsets.tolist()
    ([2, 3, 4, 0, 1], [0, 3, 5])
    """
    starts = bounds[chosen]
    lengths = bounds[chosen + 1] - starts
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths), offsets
