"""`Ranker`: learns from weighted documents, scores raw data, and can be saved. `Scored`: scores used as a ranker is."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.clicks.counts import ClickCounts
from counterrank.common.checks import (
    FloatArray,
    IntArray,
    check_choice,
    check_number,
    check_whole,
    is_real,
    make_generator,
)
from counterrank.common.errors import CounterrankError, NotTrainedError, brief, warn_caller
from counterrank.common.files import PathLike, existing
from counterrank.common.notebook import Shown, Summary
from counterrank.common.parallel import thread_count
from counterrank.common.progress import progress
from counterrank.common.ranking import longest_query
from counterrank.data import RankingData, in_data_order, read_scores
from counterrank.data.features import align_features, refuse_missing
from counterrank.data.frames import frame_columns, is_frame, prediction_frame
from counterrank.estimators.displayed_sets import Views
from counterrank.evaluation import higher_is_better, rank_values
from counterrank.losses import NamedLoss, SafeWeights, named_loss
from counterrank.models.model import NORMALIZE, Model
from counterrank.models.neural import scores_within_queries
from counterrank.training.executor import DEVICES, compute, open_device
from counterrank.training.linear_training import LinearData, fit_linear, training_epochs
from counterrank.training.problem import (
    FittedModel,
    Kind,
    Settings,
    Task,
    TrainingWeights,
    check_missing,
    check_validation,
    check_varying,
    check_weights,
    kind_of,
    plain_data,
    prediction_data,
    with_advantages,
)
from counterrank.training.storage import check_clicks, describe_inputs, load_ranker, provenance, save_ranker, share_seen
from counterrank.training.training_cards import ranker_card, ranker_plot, ranker_summary

_LONG_QUERY = 2_000  # documents that hardly belong to one query
_SINGLE_ROWS = 0.1  # share of queries with one row from which candidates seem to have been left out


class Ranker(Shown):
    """A ranker trained on one of the paper's losses: a linear model, a network, or boosted trees.

    The constructor only stores; `fit` checks and learns.

    Arguments:
        loss: a name from `counterrank.losses.LOSSES`, such as "lambdaloss-truncated", or a `NamedLoss`. None for
            "lambdarank" with trees, "lambdaloss-truncated" with the others.
        k: the loss's cutoff, or None.
        model: "linear"; "mlp", a network (extra `torch`); "lambdamart", boosted trees (extra `lightgbm`); or any
            `torch.nn.Module` from features to scores, which is copied and not changed.
        learning_rate: a number, or "auto". A linear model then searches for one by successive halving (a number is the
            factor of the gradient of the loss with weights that sum to 1), a network takes 0.001, trees 0.1.
        max_epochs: the most passes over the queries, or rounds of trees. None for 300 with trees, 100 with the others.
        patience: early stopping after this many epochs without a better validation metric. None for 100 with trees, 20
            with the others.
        tolerance: how much better the metric must become to count for `patience`.
        batch_queries: queries in a batch; None for 1 with a linear model, 16 with networks. Trees have none.
        normalize: "query" scales features to [0, 1] within each query, "standard" by mean and deviation over the
            training data, "none" leaves them. None for "none" with trees, "query" with the others.
        metric: of early stopping and of the search for a learning rate: "arp", "dcg", "dcg@k" or "precision@k"; None
            for that of the loss. With the loss "plackett-luce" it is the expectation over its rankings.
        params: hyperparameters of the model, by name. Trees: any of LightGBM's, such as `num_leaves`. Networks:
            `hidden` (sizes of the layers, (64,)), `dropout` (0.1), `weight_decay` (0.01), `device` ("cpu"); a module of
            your own has the last two. Linear: `device` ("cpu"), "cuda" or "auto", see `fit_many`. Also those of the
            loss: `samples` of "plackett-luce".
        threads: None for all cores; the result does not depend on it. A network is trained on one core, a module of
            your own on as many as torch is set to.
        seed: a whole number or a numpy Generator; fixes all randomness.

    Attributes:
        model_: the learned model.
        history_: one dict per epoch: epoch, loss (over the epoch; of trees, before the round), validation (the metric,
            or None), seconds.
        learning_rate_: the learning rate used.
        best_epoch_: the epoch whose model was kept.
        kind_: the kind of the model: "linear", "mlp", "lambdamart", or "module" for one of your own.
        loss_: the name of the loss.
        metric_: the validation metric.
        provenance_: what it was learned from: package version, date, data, clicks ("weights given" where only weights
            were passed), estimator, loss, model, seed and command line; {} for rankers saved by version 0.1.
        constant_features_: the columns, from 0, that vary within no query of the training data, int64. They order no
            documents by themselves; trees and networks may still use them together with others. None for a ranker
            saved by version 0.1, which did not keep them.

    Features keep the names they have in the training data (`feature_names_in_`). Data to validate on or to score has
    the same names, in any order; where the training data or the other has none, features are taken by position. A
    missing value (NaN) is an error but for trees, which learn where it goes.

    >>> data = RankingData([[0.0], [1.0], [2.0], [3.0]], offsets=[0, 2, 4])
    >>> ranker = Ranker(loss="arp-hinge", max_epochs=3).fit(data, weights=[0.0, 1.0, 0.0, 1.0])
    >>> ranker.predict(data).argsort().tolist()
    [0, 2, 1, 3]
    """

    # what rankers have that were trained on data without names, or saved by earlier versions
    _feature_names: tuple[str, ...] | None = None
    _query_column: str | None = None
    _warned_of_names = False
    # cross-validation uses one search for the learning rate of many linear rankers, see `Task.rate_multiple`
    _rate_multiple: float | None = None
    _found_multiple: float | None = None

    def __init__(
        self,
        loss: str | NamedLoss | None = None,
        k: int | None = None,
        model: Any = "linear",
        learning_rate: float | str = "auto",
        max_epochs: int | None = None,
        patience: int | None = None,
        tolerance: float = 0.0,
        batch_queries: int | None = None,
        normalize: str | None = None,
        metric: str | None = None,
        params: Mapping[str, Any] | None = None,
        threads: int | None = None,
        seed: int | np.random.Generator = 0,
    ) -> None:
        self.loss = loss
        self.k = k
        self.model = model
        self.learning_rate = learning_rate
        self.max_epochs = max_epochs
        self.patience = patience
        self.tolerance = tolerance
        self.batch_queries = batch_queries
        self.normalize = normalize
        self.metric = metric
        self.params = params
        self.threads = threads
        self.seed = seed

    def fit(
        self,
        data: RankingData | ArrayLike,
        weights: ArrayLike | Views | SafeWeights,
        validation: tuple[Any, ...] | None = None,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        clicks: ClickCounts | Sequence[ClickCounts] | None = None,
    ) -> Ranker:
        """Fit the ranker to documents and their weights; returns itself.

        Arguments:
            data: the queries to learn from; or a matrix with a row for each document, with `qid` or `group`.
            weights: one number per document, in the order of the data; the scale does not matter. Or the views of
                `estimators.rerank`: then each displayed set is a ranking of its own, and a batch takes all sets of a
                query. Or `losses.SafeWeights`, for a loss with a limit on exposure.
            validation: other queries and their weights (views, if those are learned from). The model of the epoch with
                the best metric on them is kept. Without them training runs `max_epochs` and keeps the last model.
                With a matrix: a matrix, its weights and its `qid` (or `group`).
            qid: of a matrix, the query of each row; the rows of a query follow each other.
            group: of a matrix, instead of `qid`: the number of rows of each query.
            clicks: those that the weights come from, and those of the validation weights: they are recorded in
                `provenance_`, so that estimates from the same clicks are recognised as in-sample.

        Data in which no feature varies within any query is an error, whatever the model.
        """
        settings, is_matrix = self._settings(), not isinstance(data, RankingData)
        loss = self._named_loss()
        if not isinstance(data, RankingData):
            data, validation = plain_data(data, validation, qid, group)
        elif qid is not None or group is not None:
            raise CounterrankError("qid, group: go with a matrix; expected none with RankingData")
        loss.spec(self.k, longest_query(data.offsets))  # a wrong cutoff is an error before anything else is done
        evidence = check_weights(weights, data)
        others = None if validation is None else check_validation(validation, data, evidence.sets is not None)
        task = self._task(data, evidence, others, settings)
        parts = (data,) if others is None else (data, others[0])
        used = check_clicks(clicks, None if is_matrix else parts)
        inputs = TrainingInputs.check(kind_of(self.model), parts, used, settings.threads)
        return self._store(task, _learn(task, self.model), inputs)

    def predict(
        self,
        data: Any,
        *,
        query: str | None = None,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
    ) -> FloatArray:
        """Predict a score for each document; features are scaled as in training, and a higher score ranks first.

        Arguments:
            data: all candidates of each query: a ranker that scales features within queries (`normalize="query"`, the
                default of linear models and networks) gives a document other scores if candidates are left out. A frame
                or matrix in which more than a tenth of the queries have a single row is then warned about.
                `RankingData`, with the features of the training data in any order. Or a frame (pandas, polars, an
                Arrow table or stream, a DuckDB relation), with a column for each feature; others are ignored, and
                scores are in the order of its rows. Or a matrix, taken as the documents of one query, or of several
                with `qid` or `group` as in `fit`.
            query: of a frame, the column with the query of each row, whose rows need not stand together. None for that
                of the training data (`query_column_`). A ranker that scores each document by itself needs none.
            qid, group: of a matrix.

        >>> import pyarrow as pa
        >>> train = pa.table({"query": [1, 1, 2, 2], "product": [1, 2, 1, 2], "price": [9.0, 5.0, 7.0, 8.0]})
        >>> data = RankingData.from_frame(train, query="query", document="product", features=["price"])
        >>> ranker = Ranker("arp-hinge", max_epochs=3).fit(data, weights=[0.0, 1.0, 1.0, 0.0])
        >>> scores = ranker.predict(pa.table({"price": [4.0, 8.0, 3.0], "query": ["b", "a", "b"]}))
        >>> bool(scores[2] > scores[0])
        True
        """
        model = self._fitted()
        is_known = isinstance(data, RankingData | np.ndarray | list | tuple)
        if not is_known and qid is None and group is None and is_frame(data):
            return self._predict_frame(data, query)
        if query is not None:
            raise CounterrankError(f"query={query!r}: goes with a frame; expected None")
        if not isinstance(data, RankingData):
            is_one_query = qid is None and group is None
            data = prediction_data(data, qid, group)
            if is_one_query:
                self._warn_of_one_query(data)
            self._warn_of_single_rows(data, "X")
        elif qid is not None or group is not None:
            raise CounterrankError("qid, group: go with a matrix; expected none with RankingData")
        number = f"the ranker was trained on {self.n_features_} (read_letor(..., n_features=) widens sparse files)"
        names, has_names = tuple(self.feature_names_in_), self._feature_names is not None
        aligned = align_features(data, names, has_names, number=number, warn=not self._warned_of_names)
        self._warned_of_names |= aligned.feature_names != names  # taken by position
        return in_data_order(model.predict(aligned, self.threads), data)

    def _predict_frame(self, frame: Any, query: str | None) -> FloatArray:
        """Scores in the order of the rows of a frame."""
        columns = frame_columns(frame)
        names = self.feature_names_in_.tolist()
        if query is None and scores_within_queries(self.model_):
            query = self._query_column
            if query is None or query not in columns.names:
                known = "" if query is None else f"; the frame has no column {query!r}, which the training data had"
                raise CounterrankError(
                    "query: not given, and this ranker scores documents within their query; expected the column of the "
                    f"query{known}"
                )
        if self._feature_names is None and not set(names) <= set(columns.names):
            names = [name for name in columns.names if name not in (query, self._query_column)]  # by position
        data, rows = prediction_frame(columns, query, names)
        self._warn_of_single_rows(data, "frame")
        return np.asarray(self.predict(data)[rows])

    def _warn_of_one_query(self, data: RankingData) -> None:
        """Warn where a matrix that seems to hold several queries is scaled as one."""
        if scores_within_queries(self._fitted()) and (self._query_column is not None or data.n_docs > _LONG_QUERY):
            warn_caller(
                f"X: {data.n_docs:,} rows without qid or group are taken as the documents of one query, and this "
                "ranker scores documents within their query; pass qid= or group=, or a frame with a column of queries"
            )

    def _warn_of_single_rows(self, data: RankingData, name: str) -> None:
        """Warn where many queries have one row and features are scaled within queries: candidates were left out."""
        single = int(np.count_nonzero(data.lengths == 1)) if self._fitted().scaler.kind == "query" else 0
        if single > _SINGLE_ROWS * data.n_queries:
            number = "1 query has a single row" if single == 1 else f"{single:,} queries have a single row each"
            warn_caller(
                f"{name}: {number}; this ranker scales features within each query, so that all of theirs become 0 and "
                "the score is the same for any document; pass all candidates of a query together"
            )

    @property
    def n_features_in_(self) -> int:
        """The number of features, under scikit-learn's name."""
        self._fitted()
        return self.n_features_

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """The names of the features it was trained on, under scikit-learn's name; `feature_1` and so on without names.

        >>> data = RankingData([[0.0, 5.0], [1.0, 4.0]], offsets=[0, 2], feature_names=["rating", "price"])
        >>> Ranker("arp-hinge", max_epochs=3).fit(data, weights=[0.0, 1.0]).feature_names_in_.tolist()
        ['rating', 'price']
        """
        self._fitted()
        names = self._feature_names or [f"feature_{i + 1}" for i in range(self.n_features_)]
        return np.array(names, dtype=object)

    @property
    def query_column_(self) -> str | None:
        """The column of the query in the frame that the training data was made from; None without a frame."""
        self._fitted()
        return self._query_column

    @property
    def feature_importances_(self) -> FloatArray:
        """How much each feature changes the scores, normalised to sum 1; for linear models and trees.

        Linear: the size of the coefficient times how much the scaled feature varies within a query of the training
        data. Trees: what the splits on the feature gained. Importance says what the model uses, not what it would lose
        without the feature: redundant features share it.

        >>> data = RankingData([[0.0, 5.0], [1.0, 5.0]], offsets=[0, 2])
        >>> Ranker("arp-hinge", max_epochs=3).fit(data, weights=[0.0, 1.0]).feature_importances_.tolist()
        [1.0, 0.0]
        """
        self._fitted()
        if self._importances is None:
            raise AttributeError(
                f"feature_importances_: not for model {self.kind_!r}; linear models and trees have them"
            )
        return self._importances

    def share_seen(self, data: RankingData) -> float | None:
        """The share of the data's queries used for training or early stopping; above 0, results are in-sample.

        Queries are recognised by their ids and features, those of a large training set by a sample of them. None where
        it is not known: rankers saved by version 0.1 do not tell.

        >>> from counterrank import estimators, make_fold
        >>> fold = make_fold("yahoo", 20, seed=0)
        >>> ranker = Ranker(max_epochs=1).fit(fold.train, estimators.full_information(fold.train, 1))
        >>> ranker.share_seen(fold.train), ranker.share_seen(fold.test)
        (1.0, 0.0)
        """
        self._fitted()
        return share_seen(self.provenance_, data)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters of the constructor by name; `deep` is for compatibility with scikit-learn.

        >>> Ranker("arp-hinge").get_params()["loss"]
        'arp-hinge'
        """
        return {name: getattr(self, name) for name in _parameters()}

    def set_params(self, **params: Any) -> Ranker:
        """Set parameters of the constructor; returns itself.

        >>> Ranker().set_params(k=5).k
        5
        """
        for name in params:
            check_choice(name, _parameters(), "parameter")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's tools require of an estimator."""
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=True))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def save(self, path: PathLike) -> None:
        """Write a folder: `model.json` with everything needed, and arrays in numpy's own format."""
        self._fitted()
        save_ranker(self, path)

    @classmethod
    def load(cls, path: PathLike, module: Any = None) -> Ranker:
        """Read what `save` wrote; nothing in the folder is executed.

        Of a module of your own only the tensors are stored. `module` says how it is built: they are put into a copy of
        it, if names, shapes and types are the same.
        """
        return load_ranker(cls, path, module)

    def __repr__(self) -> str:
        name = self.loss.name if isinstance(self.loss, NamedLoss) else self.loss or "default loss"
        cutoff = "" if self.k is None else f", k={self.k}"
        state = f", {len(self.history_)} epochs" if hasattr(self, "model_") else ", not trained"
        model = self.model if isinstance(self.model, str) else type(self.model).__name__
        return f"Ranker({name}{cutoff}, {model}{state})"

    def summary(self) -> Summary:
        """The model, its training data and settings, as a dict that prints as a table."""
        return ranker_summary(self)

    def plot(self) -> Any:
        """Validation metric and loss over epochs, an altair chart."""
        self._fitted()
        return ranker_plot(self)

    def _repr_html_(self) -> str:
        return ranker_card(self)

    def _task(
        self,
        data: RankingData,
        evidence: TrainingWeights,
        validation: tuple[RankingData, TrainingWeights] | None,
        settings: Settings,
    ) -> Task:
        """What this ranker is to learn, from data and weights that were checked."""
        loss = self._named_loss()
        loss.spec(self.k, longest_query(data.offsets))  # a wrong cutoff is an error
        if loss.limit is not None:
            if evidence.sets is not None or kind_of(self.model).name != "linear" or device_of(self) == "cuda":
                raise CounterrankError(
                    f"risk={loss.limit.risk!r}: is for linear models on the CPU that learn from documents, not from "
                    "views; expected risk='none', or these"
                )
            if loss.limit.risk == "prpo":
                evidence = with_advantages(data, evidence)
                validation = validation and (validation[0], with_advantages(*validation))
        metric = self.metric or loss.metric(self.k)
        task = Task(data, evidence, validation, loss, self.k, metric, settings, self._rate_multiple)
        _ = task.spec, task.expected(is_validation=True)  # what is missing is an error before training
        rank_values(task.metric, 1)  # an unknown metric is an error without validation data too
        return task

    def _store(self, task: Task, learned: FittedModel, inputs: TrainingInputs) -> Ranker:
        """Keep what was learned; returns itself."""
        data = task.data
        self.model_ = learned.model
        self.kind_ = kind_of(self.model).name
        self.loss_ = task.loss.name
        self.metric_ = task.metric
        self.learning_rate_ = learned.learning_rate
        self._found_multiple = learned.rate_multiple
        self.best_epoch_ = learned.best_epoch
        self.history_ = [_natural(row, task.metric) for row in learned.history]
        self.n_features_ = data.n_features
        self._feature_names = data.feature_names if data.has_feature_names else None
        self._query_column = None if data.columns is None else data.columns.get("query")
        self._warned_of_names = False
        self.constant_features_: IntArray | None = inputs.constant
        self._importances = None if learned.importances is None else shares(learned.importances)
        self.provenance_ = provenance(self, inputs.described)
        return self

    def _settings(self) -> Settings:
        """The settings, checked, with the defaults of the kind of model."""
        kind = kind_of(self.model)
        if self.batch_queries is not None and kind.batch_queries is None:
            raise CounterrankError(
                f"batch_queries={self.batch_queries}: {kind.name} learns from all queries in every round; leave it out"
            )
        batch = self.batch_queries if self.batch_queries is not None else kind.batch_queries or 1
        max_epochs = kind.max_epochs if self.max_epochs is None else self.max_epochs
        patience = kind.patience if self.patience is None else self.patience
        rate = self.learning_rate
        if not (isinstance(rate, str) and rate == "auto") and not (is_real(rate) and 0.0 < float(rate) < np.inf):
            raise CounterrankError(f"learning_rate={brief(rate)}: expected 'auto' or a number above 0")
        if self.params is not None and not isinstance(self.params, Mapping):
            raise CounterrankError(f"params: {type(self.params).__name__}; expected a dict of names and values")
        loss = self._named_loss()
        params = {name: value for name, value in (self.params or {}).items() if name not in loss.hyperparameters}
        if kind.name == "linear":
            if unknown := [str(name) for name in params if name != "device"]:
                known = ", ".join(("device", *loss.hyperparameters))
                raise CounterrankError(f"params: {', '.join(unknown)}; expected only {known} for a linear model")
            check_choice(device_of(self), DEVICES, "device")
        normalize = kind.normalize if self.normalize is None else self.normalize
        return Settings(
            learning_rate=None if rate == "auto" else float(rate),
            max_epochs=check_whole(max_epochs, "max_epochs"),
            patience=check_whole(patience, "patience"),
            tolerance=check_number(self.tolerance, "tolerance", at_least=0),
            batch_queries=check_whole(batch, "batch_queries"),
            normalize=check_choice(normalize, NORMALIZE, "normalize"),
            params=params,
            threads=thread_count(self.threads),
            entropy=int(make_generator(self.seed).integers(2**63)),
        )

    def _named_loss(self) -> NamedLoss:
        """The loss, with those of `params` that are its hyperparameters."""
        loss = named_loss(kind_of(self.model).loss if self.loss is None else self.loss)
        given = self.params if isinstance(self.params, Mapping) else {}
        return loss.configured(**{name: value for name, value in given.items() if name in loss.hyperparameters})

    def _fitted(self) -> Model:
        if not hasattr(self, "model_"):
            raise NotTrainedError("ranker: not trained yet; call fit first")
        return self.model_


@dataclass(frozen=True, eq=False)
class TrainingInputs:
    """What rankers learn from, apart from weights, checked; rankers that share it compute it once.

    Attributes:
        parts: the data to learn from and, if there is any, the data to stop by.
        clicks: those that the weights come from; None where only weights were given.
        constant: the features that vary within no query.
    """

    parts: tuple[RankingData, ...]
    clicks: list[ClickCounts] | None
    constant: IntArray

    @classmethod
    def check(
        cls, kind: Kind, parts: tuple[RankingData, ...], clicks: list[ClickCounts] | None, threads: int
    ) -> TrainingInputs:
        """Data that this kind of model can learn from, or an error."""
        for part, name in zip(parts, ("data", "validation"), strict=False):
            check_missing(kind, part, name)
        return cls(parts, clicks, check_varying(parts[0], threads))

    @cached_property
    def described(self) -> dict[str, Any]:
        """For the provenance."""
        return describe_inputs(self.parts[0], self.parts[1] if len(self.parts) > 1 else None, self.clicks)


def _parameters() -> tuple[str, ...]:
    return tuple(name for name in signature(Ranker.__init__).parameters if name != "self")


def _learn(task: Task, model: Any) -> FittedModel:
    kind = kind_of(model).name
    if kind == "linear":
        settings = task.settings
        shared = LinearData(task.data, None if task.validation is None else task.validation[0], settings.threads)
        device = open_device(settings.params.get("device", "cpu"))
        if device is not None:
            device.check(task.loss.spec(task.k, longest_query(task.data.offsets)))
        with progress(f"training {task.loss.name}", training_epochs(task)) as advance:
            training = fit_linear(task, shared, advance)
            return compute(training, settings.threads) if device is None else device.run([training])[0]
    if kind == "lambdamart":
        from counterrank.training.boosting import fit_trees

        return fit_trees(task)
    from counterrank.training.network_training import fit_network

    return fit_network(task, None if kind == "mlp" else model)


def device_of(ranker: Ranker) -> Any:
    """What `params` names as the device of training.

    >>> device_of(Ranker()), device_of(Ranker(params={"device": "cuda"}))
    ('cpu', 'cuda')
    """
    return (ranker.params or {}).get("device", "cpu")


def shares(amounts: FloatArray) -> FloatArray:
    """The same as shares of their sum; where all are 0, no feature has a share."""
    total = amounts.sum()
    return amounts / total if total > 0.0 else np.zeros(len(amounts))


def _natural(row: dict[str, float | None], metric: str) -> dict[str, Any]:
    """A row of the history with the metric's natural sign."""
    value = row["validation"]
    return row if value is None or higher_is_better(metric) else {**row, "validation": -value}


@dataclass(frozen=True)
class Scored:
    """Scores of one data set, usable wherever a ranker is.

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
        fitting = with_features_of(ranker, data)
        missing = max(0, fitting.n_features - data.n_features)
        return cls(label, in_data_order(ranker.predict(fitting), data), ranker.provenance_, missing)

    def predict(self, data: RankingData) -> FloatArray:
        """The scores; `data` must be the data set that they belong to."""
        return self.scores


def with_features_of(ranker: Ranker, data: RankingData) -> RankingData:
    """The data with the features of a ranker: those that it does not know are left out, as in `predict(frame)`.

    Sparse files without names leave out columns that are all zero; these are filled up. Other features that are missing
    are an error of `predict`.

    >>> data = RankingData([[0.0, 5.0], [1.0, 4.0]], offsets=[0, 2], feature_names=["rating", "price"])
    >>> ranker = Ranker("arp-hinge", max_epochs=3).fit(data.select_features(["price"]), weights=[0.0, 1.0])
    >>> with_features_of(ranker, data).feature_names
    ('price',)
    """
    if not data.has_feature_names:
        return data.widened(max(ranker.n_features_, data.n_features))
    names = ranker.feature_names_in_.tolist()
    return data.select_features(names) if set(names) < set(data.feature_names) else data


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
