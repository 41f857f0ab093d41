"""What a ranker learns from and is judged by: weights of documents, or weighted sets of them."""

from __future__ import annotations

from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.checks import FloatArray, IntArray, as_array, check_vector
from counterrank.common.errors import ConstantFeaturesError, CounterrankError
from counterrank.common.parallel import for_queries
from counterrank.common.ranking import longest_query
from counterrank.data import RankingData
from counterrank.data._kernels import constant_columns
from counterrank.data.plain import from_arrays
from counterrank.estimators.views import Views, check_views
from counterrank.evaluation import higher_is_better, prefix_sums, rank_values, weighted_queries
from counterrank.models.linear import linear_scores
from counterrank.models.scaling import Scales
from counterrank.training.descent import Judge
from counterrank.training.sets import Sets


class Evidence(NamedTuple):
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
        raise CounterrankError(f"validation: expected (X, weights, {name}) beside a matrix")
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


def check_evidence(weights: ArrayLike | Views, data: RankingData, where: str = "") -> Evidence:
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
    return Evidence(checked / largest, sets)


def check_validation(validation: Any, data: RankingData, with_sets: bool) -> tuple[RankingData, Evidence]:
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
    return other, check_evidence(validation[1], other, "validation ")


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


def score_judge(metric: str, data: RankingData, evidence: Evidence) -> Judge:
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


def make_judge(metric: str, data: RankingData, evidence: Evidence, scales: Scales) -> Judge:
    """`score_judge` of the scores of a linear model, from its coefficients."""
    judge_scores = score_judge(metric, data, evidence)

    def judge(coefficients: FloatArray, threads: int) -> FloatArray:
        return judge_scores(linear_scores(data, coefficients, scales, threads), threads)

    return judge
