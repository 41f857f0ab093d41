"""What is learned, from what and how: checked data and weights, kinds of models and their settings, and metrics."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.checks import FloatArray, IntArray, as_array, check_choice, check_type, check_vector
from counterrank.common.errors import ConstantFeaturesError, CounterrankError, NothingToLearnError
from counterrank.common.parallel import for_queries
from counterrank.common.random import seed_key
from counterrank.common.ranking import longest_query
from counterrank.data import RankingData
from counterrank.data.features import align_features, refuse_missing
from counterrank.data.ids import query_of
from counterrank.data.ranking_data import from_arrays
from counterrank.data.scores import refuse_column
from counterrank.estimators.displayed_sets import Views, check_views
from counterrank.evaluation import higher_is_better, prefix_sums, rank_values, weighted_queries
from counterrank.losses import NamedLoss, SafeWeights
from counterrank.losses.exposure_limits import Safety, advantages, at_risk, limited_spec, risk_spec
from counterrank.losses.loss_kernels import LossSpec, run_queries
from counterrank.losses.plackett_luce import EXPOSURE, PRPO, RISK
from counterrank.models.linear import constant_columns, linear_scores
from counterrank.models.model import TREES_INSTEAD, Model, Scales


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
    """The queries that can be learned from, weights that sum to 1 in absolute value, and the sets to learn from.

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
    """The queries, or with sets the sets, that can be learned from; none at all is an error."""
    usable = usable_queries(weights, offsets if sets is None else sets.offsets)
    if not len(usable):
        name, what = ("weights", "query") if sets is None else ("views", "set")
        raise NothingToLearnError(
            f"{name}: equal within every {what}, so there is nothing to learn; expected at least one {what} whose "
            "documents differ in weight"
        )
    return usable


def usable_queries(weights: FloatArray, offsets: IntArray) -> IntArray:
    """The queries (or sets) that can be learned from: with at least two different weights.

    >>> usable_queries(np.array([1.0, 0.0, 1.0, 1.0]), np.array([0, 2, 4])).tolist()
    [0]
    """
    starts = offsets[:-1]
    return np.flatnonzero(np.maximum.reduceat(weights, starts) != np.minimum.reduceat(weights, starts))


# From scores (or coefficients) and a number of threads to each query's part in the metric, their sum; larger is better.
QueryMetric = Callable[[FloatArray, int], FloatArray]


class TrainingWeights(NamedTuple):
    """Weights of all documents of the data; or, with sets, of their members. `safety` is for limits on exposure."""

    weights: FloatArray
    sets: Sets | None
    safety: Safety | None = None


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
    """Ranking data of a matrix to score; of one query without `qid` and `group`."""
    if qid is None and group is None:
        features = as_array(features, "X")
        if features.ndim == 2 and len(features) == 0:
            raise CounterrankError("X: no rows; expected at least one document to score")
        group = [len(features)] if features.ndim else [1]
    return from_arrays(features, qid, group)


def check_weights(weights: ArrayLike | Views | SafeWeights, data: RankingData, where: str = "") -> TrainingWeights:
    """Finite weights, not all zero, one per document or in sets; scaled to at most 1, so that no sum overflows."""
    sets, safety, name = None, None, f"{where}weights"
    if isinstance(weights, SafeWeights):
        safety = weights.checked(data.offsets, where)
        weights = weights.weights
    if isinstance(weights, Views):
        name = f"{where}views"
        views = check_views(weights, data.offsets, name)
        sets, checked = Sets.of(views, data), views.weights
    else:
        refuse_column(weights, data, name)
        checked = check_vector(weights, data.n_docs, name)
    largest = np.abs(checked).max()
    if largest == 0.0:
        raise CounterrankError(f"{name}: all are 0; expected at least one document with evidence")
    return TrainingWeights(checked / largest, sets, safety)


def check_validation(validation: Any, data: RankingData, with_sets: bool) -> tuple[RankingData, TrainingWeights]:
    """Validation data with the features of the training data, in that order, and the same kind of evidence."""
    check_pair(validation)
    other = aligned_with(data, check_type(validation[0], RankingData, "validation"))
    return other, check_validation_weights(validation[1], other, with_sets)


def check_pair(validation: Any, expected: str = "a pair (data, weights)") -> None:
    """An error where validation data and weights are not a pair."""
    if not isinstance(validation, tuple | list) or isinstance(validation, Views) or len(validation) != 2:
        raise CounterrankError(f"validation: expected {expected}")


def check_validation_weights(weights: ArrayLike | Views, other: RankingData, with_sets: bool) -> TrainingWeights:
    """The weights of validation data: of documents, or with sets those of views."""
    if isinstance(weights, Views) != with_sets:
        given, expected = ("weights", "views") if with_sets else ("views", "weights")
        raise CounterrankError(
            f"validation: {given}, where training has {expected}; expected {expected} in both, since ranks are taken "
            "inside displayed sets with views, and in whole queries with weights"
        )
    return check_weights(weights, other, "validation ")


def aligned_with(data: RankingData, other: RankingData, what: str = "validation") -> RankingData:
    """The other data with the features of the data to learn from, see `align_features`."""
    number = f"expected {data.n_features} as in data"
    return align_features(other, data.feature_names, data.has_feature_names, what=what, reference="data", number=number)


def check_missing(kind: Kind, data: RankingData, what: str = "data", remedy: str = TREES_INSTEAD) -> None:
    """An error where values are missing that this kind of model cannot learn from."""
    if not kind.missing:
        model = "a linear model" if kind.name == "linear" else "a neural network"
        refuse_missing(data, model, remedy, what)


def constant_features(data: RankingData, threads: int | None = None) -> IntArray:
    """The columns that have one value within each query: by themselves they order no documents.

    A feature that is missing for some documents of a query and present for others is not constant.

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


def query_metric(
    metric: str, data: RankingData, evidence: TrainingWeights, expected: LossSpec | None = None
) -> QueryMetric:
    """Each query's part in the metric of scores, sum(omega * lambda) / sum(|omega|); larger is better.

    With sets, ranks are those inside each set, and the part of a query is the sum over its sets. With `expected`, minus
    a loss of stochastic rankings, lambda is the expectation of the metric over them.
    """
    weights, sets = evidence.weights, evidence.sets
    sign = 1.0 if higher_is_better(metric) else -1.0
    prefix = prefix_sums(rank_values(metric, longest_query(data.offsets)))
    total = sign / np.abs(weights).sum()
    offsets = data.offsets if sets is None else sets.offsets

    def metric_of(scores: FloatArray, threads: int) -> FloatArray:
        if sets is not None:
            scores = scores[sets.docs]
        parts: FloatArray = np.empty(len(offsets) - 1)
        if expected is None:
            for_queries(weighted_queries, offsets, scores, weights, prefix, parts, threads=threads)
        else:
            loss = expected
            if loss.parameters.form == EXPOSURE:
                loss = at_risk(loss, float(run_queries(risk_spec(loss), scores, weights, offsets, threads)[0].sum()))
            parts = -run_queries(loss, scores, weights * abs(total), offsets, threads)[0] / total
        if sets is not None:
            parts = np.asarray(np.bincount(sets.owners, weights=parts, minlength=data.n_queries), np.float64)
        parts *= total
        return parts

    return metric_of


@dataclass(frozen=True, eq=False)
class LinearMetric:
    """`query_metric` of the scores of a linear model, from its coefficients.

    Attributes:
        name: of the metric.
        data: the queries.
        evidence: their weights.
        scales: how features are scaled.
        expected: of `query_metric`.
    """

    name: str
    data: RankingData
    evidence: TrainingWeights
    scales: Scales
    expected: LossSpec | None = None

    @cached_property
    def total(self) -> float:
        """The sum of the absolute weights."""
        return float(np.abs(self.evidence.weights).sum())

    @cached_property
    def of_scores(self) -> QueryMetric:
        """The metric as a function of scores."""
        return query_metric(self.name, self.data, self.evidence, self.expected)

    def __call__(self, coefficients: FloatArray, threads: int) -> FloatArray:
        """Each query's part in the metric, computed on the CPU."""
        return self.of_scores(linear_scores(self.data, coefficients, self.scales, threads), threads)


@dataclass(frozen=True)
class Kind:
    """A kind of model, by the name it is saved under, and its defaults.

    Attributes:
        name: "linear", "mlp", "lambdamart", or "module" for a torch module of the user's own.
        batch_queries: queries in a batch; None where every round learns from all queries.
        normalize: how features are scaled.
        loss: LambdaLoss weighs close neighbours most, and trees, unlike coefficients, do not carry over to other pairs
            what they learn there; so trees take pairs of documents by what swapping them changes.
        max_epochs, patience: a round of trees is a small step, and the metric of few validation queries is noisy:
            stopping after 20 rounds without improvement cost 1 to 5 % (docs/how-to/lambdamart.md).
        missing: whether features may be missing (NaN).
    """

    name: str
    batch_queries: int | None
    normalize: str
    loss: str
    max_epochs: int = 100
    patience: int = 20
    missing: bool = False


KINDS = {
    kind.name: kind
    for kind in (
        Kind("linear", 1, "query", "lambdaloss-truncated"),
        Kind("mlp", 16, "query", "lambdaloss-truncated"),
        Kind("lambdamart", None, "none", "lambdarank", max_epochs=300, patience=100, missing=True),
        Kind("module", 16, "query", "lambdaloss-truncated"),
        Kind("blend", None, "none", "lambdaloss-truncated", missing=True),  # of two rankers
        Kind("specialised", None, "none", "lambdaloss-truncated", missing=True),  # a ranker with tables for queries
    )
}
MODELS = ("linear", "mlp", "lambdamart")


def kind_of(model: Any) -> Kind:
    """The kind of what was given as `Ranker(model=...)`.

    >>> kind_of("lambdamart").normalize
    'none'
    """
    if isinstance(model, str):
        return KINDS[check_choice(model, MODELS, "model")]
    torch = sys.modules.get("torch")  # whoever made a module has loaded it
    if torch is not None and isinstance(model, torch.nn.Module):
        return KINDS["module"]
    raise CounterrankError(f"model: {type(model).__name__}; expected {', '.join(MODELS)} or a torch.nn.Module")


@dataclass(frozen=True)
class Settings:
    """The arguments of `Ranker`, checked and with the defaults of the kind of model filled in.

    `learning_rate` is None for "auto"; all randomness is drawn from `entropy`.
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
    """Data and evidence to learn from and to stop by, and the loss to learn with.

    `rate_multiple` is the learning rate of a linear model as a multiple of its natural one, where none is given; None
    to search for one.
    """

    data: RankingData
    evidence: TrainingWeights
    validation: tuple[RankingData, TrainingWeights] | None
    loss: NamedLoss
    k: int | None
    metric: str
    settings: Settings
    rate_multiple: float | None = None

    @cached_property
    def spec(self) -> LossSpec:
        """The loss on the data; what it draws is fixed by the seed."""
        return self._spec_on(self.data, self.evidence)

    @property
    def start_risk(self) -> LossSpec | None:
        """How far a policy is from the logging policy, where there is a limit on that and the scores are known."""
        safety, limit = self.evidence.safety, self.loss.limit
        if limit is None or safety is None or safety.scores is None:
            return None
        return limited_spec(self.spec, RISK, limit, safety, self.data.offsets)

    def expected(self, is_validation: bool = False) -> LossSpec | None:
        """The loss of stochastic rankings whose expected metric is that of early stopping: the same draws each time.

        None for other losses, and where another metric than that of the loss is asked for.
        """
        if not self.spec.draws or self.metric != self.loss.metric(self.k):
            return None
        return self.spec if not is_validation or self.validation is None else self._spec_on(*self.validation)

    def _spec_on(self, data: RankingData, evidence: TrainingWeights) -> LossSpec:
        spec = self.loss.spec(self.k, longest_query(data.offsets)).with_key(seed_key(self.settings.entropy))
        limit = self.loss.limit
        if limit is None:
            return spec
        if evidence.safety is None:
            raise CounterrankError(
                f"weights: risk={limit.risk!r} compares exposure with that of the logging policy; expected "
                "losses.SafeWeights, for validation data too"
            )
        return limited_spec(spec, EXPOSURE if limit.risk == "exposure" else PRPO, limit, evidence.safety, data.offsets)


def with_advantages(data: RankingData, evidence: TrainingWeights) -> TrainingWeights:
    """The weights of PRPO, see `advantages`; where the logging policy is not known, those that were given."""
    if evidence.safety is None:
        return evidence
    return evidence._replace(weights=advantages(evidence.weights, evidence.safety, data.offsets))


@dataclass(frozen=True)
class FittedModel:
    """The model of the best epoch, and how it came about.

    Attributes:
        history: one row per epoch, with the metric so that larger is better.
        importances: how much each feature moves the scores, in any unit; None where that is not known.
        rate_multiple: the learning rate of a linear model as a multiple of its natural one; itself where it was given.
    """

    model: Model
    history: list[dict[str, float | None]]
    best_epoch: int
    learning_rate: float
    importances: FloatArray | None = None
    rate_multiple: float | None = None
