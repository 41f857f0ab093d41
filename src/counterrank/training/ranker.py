"""`Ranker`: learns from weighted documents, scores raw data, and can be saved."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.checks import FloatArray, check_choice, make_generator
from counterrank.common.errors import CounterrankError
from counterrank.common.files import PathLike
from counterrank.common.parallel import thread_count
from counterrank.common.progress import progress
from counterrank.common.ranking import longest_query
from counterrank.data import RankingData
from counterrank.estimators.views import Views
from counterrank.evaluation import higher_is_better
from counterrank.losses import NamedLoss, named_loss
from counterrank.models.linear import LinearModel
from counterrank.models.scaling import NORMALIZE, Scaler
from counterrank.training.descent import Run, Schedule, natural_step, race, race_epochs
from counterrank.training.evidence import check_data, check_evidence, check_validation, make_judge
from counterrank.training.problem import LinearProblem

MODELS = ("linear",)


class Ranker:
    """A ranker trained by gradient descent on one of the paper's losses.

    The constructor only stores; `fit` checks and learns.

    Arguments:
        loss: a name from `counterrank.losses.LOSSES`, such as "lambdaloss-truncated", or a `NamedLoss`.
        k: the loss's cutoff, or None.
        model: "linear".
        learning_rate: "auto" races step sizes against each other and keeps the best; a number is the factor of the
            gradient of the loss with weights that sum to 1.
        max_epochs: the most passes over the queries.
        patience: with validation data, stop after this many epochs without a better metric.
        tolerance: how much better the metric must become to count for `patience`.
        batch_queries: queries a step.
        normalize: "query" scales features to [0, 1] within each query, "standard" by mean and deviation over the
            training data, "none" leaves them.
        metric: what early stopping and "auto" go by: "arp", "dcg", "dcg@k" or "precision@k"; None for the loss's own.
        threads: None for all cores; the result does not depend on it.
        seed: a whole number or a numpy Generator; fixes the order of the queries.

    Attributes:
        model_: the learned model.
        history_: one dict per epoch: epoch, loss (over the epoch), validation (the metric, or None), seconds.
        learning_rate_: the step size used.
        best_epoch_: the epoch whose model was kept.
        metric_: the metric that was watched.

    >>> data = RankingData([[0.0], [1.0], [2.0], [3.0]], offsets=[0, 2, 4])
    >>> ranker = Ranker(loss="arp-hinge", max_epochs=3).fit(data, weights=[0.0, 1.0, 0.0, 1.0])
    >>> ranker.predict(data).argsort().tolist()
    [0, 2, 1, 3]
    """

    def __init__(
        self,
        loss: str | NamedLoss = "lambdaloss-truncated",
        k: int | None = None,
        model: str = "linear",
        learning_rate: float | str = "auto",
        max_epochs: int = 100,
        patience: int = 20,
        tolerance: float = 0.0,
        batch_queries: int = 1,
        normalize: str = "query",
        metric: str | None = None,
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
        self.threads = threads
        self.seed = seed

    def fit(
        self,
        data: RankingData,
        weights: ArrayLike | Views,
        validation: tuple[RankingData, ArrayLike | Views] | None = None,
    ) -> Ranker:
        """Learn from documents and their weights; returns itself.

        Arguments:
            data: the queries to learn from.
            weights: one number per document; the scale does not matter. Or the views of `estimators.rerank`: then each
                displayed set is a ranking of its own, and a step takes all sets of a query.
            validation: other queries and their weights (views, if those are learned from). The model of the epoch with
                the best metric on them is kept. Without them training runs `max_epochs` and keeps the last model.
        """
        check_choice(self.model, MODELS, "model")
        check_choice(self.normalize, NORMALIZE, "normalize")
        schedule = self._schedule()
        loss = named_loss(self.loss)
        metric = self.metric or loss.metric(self.k)
        spec = loss.spec(self.k, longest_query(check_data(data, "data").offsets))
        evidence = check_evidence(weights, data)
        scaler = Scaler.learn(self.normalize, data, schedule.threads)
        scales = scaler.scales(data, schedule.threads)
        problem = LinearProblem.make(data, evidence.weights, scales, spec, evidence.sets)
        on_training = make_judge(metric, data, evidence, scales)
        on_validation = None
        if validation is not None:
            other, judged_by = check_validation(validation, data, evidence.sets is not None)
            on_validation = make_judge(metric, other, judged_by, scaler.scales(other, schedule.threads))

        def make_run(step: float) -> Run:
            return Run(problem, schedule, step, on_training, on_validation)

        run = self._train(make_run, problem, schedule, loss.name)
        if run.failed:
            raise CounterrankError(
                f"learning_rate={self.learning_rate}: training diverged; use a smaller one or 'auto'"
            )
        self.model_ = LinearModel(run.kept, scaler)
        self.metric_ = metric
        self.learning_rate_ = run.step
        self.best_epoch_ = run.best_epoch
        self.history_ = [_natural(row, metric) for row in run.history]
        self.n_features_ = data.n_features
        return self

    def predict(self, data: RankingData) -> FloatArray:
        """A score for each document of raw data; a higher score ranks first."""
        model = self._fitted()
        check_data(data, "data")
        if data.n_features != self.n_features_:
            raise CounterrankError(
                f"data: {data.n_features} features; the ranker was trained on {self.n_features_} "
                "(read_letor(..., n_features=) widens sparse files)"
            )
        return model.predict(data, self.threads)

    def save(self, path: PathLike) -> None:
        """Write a folder: `model.json` with everything needed, and arrays in numpy's own format."""
        from counterrank.training.storage import save_ranker

        self._fitted()
        save_ranker(self, path)

    @classmethod
    def load(cls, path: PathLike) -> Ranker:
        """Read what `save` wrote; nothing in the folder is executed."""
        from counterrank.training.storage import load_ranker

        return load_ranker(path)

    def __repr__(self) -> str:
        name = self.loss.name if isinstance(self.loss, NamedLoss) else self.loss
        cutoff = "" if self.k is None else f", k={self.k}"
        state = f", {len(self.history_)} epochs" if hasattr(self, "model_") else ", not trained"
        return f"Ranker({name}{cutoff}, {self.model}{state})"

    def _schedule(self) -> Schedule:
        for name in ("max_epochs", "patience", "batch_queries"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise CounterrankError(f"{name}={value!r}: expected a whole number of at least 1")
        rate = self.learning_rate
        if not (isinstance(rate, str) and rate == "auto") and not (_is_number(rate) and 0.0 < float(rate) < np.inf):
            raise CounterrankError(f"learning_rate={rate!r}: expected 'auto' or a number above 0")
        if not _is_number(self.tolerance) or not 0.0 <= self.tolerance < np.inf:
            raise CounterrankError(f"tolerance={self.tolerance!r}: expected a number of at least 0")
        entropy = int(make_generator(self.seed).integers(2**63))
        threads = thread_count(self.threads)
        return Schedule(self.max_epochs, self.patience, self.batch_queries, entropy, threads, float(self.tolerance))

    def _train(self, make_run: Any, problem: LinearProblem, schedule: Schedule, name: str) -> Run:
        racing = self.learning_rate == "auto"
        total = race_epochs(schedule.max_epochs) if racing else schedule.max_epochs
        with progress(f"training {name}", total) as advance:
            if racing:
                return race(make_run, natural_step(problem), schedule, advance)
            run: Run = make_run(float(self.learning_rate))
            run.advance(schedule.max_epochs, schedule.threads, advance)
            return run

    def _fitted(self) -> LinearModel:
        if not hasattr(self, "model_"):
            raise CounterrankError("ranker: not trained yet; call fit first")
        return self.model_


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _natural(row: dict[str, float | None], metric: str) -> dict[str, Any]:
    """A row of the history with the metric's natural sign."""
    value = row["validation"]
    return row if value is None or higher_is_better(metric) else {**row, "validation": -value}
