"""Training of boosted trees: LightGBM grows them, from the gradients and second-order terms of the paper's losses.

LightGBM's own ranking objectives take whole labels. Weights from clicks are real numbers, so each round gets a custom
objective: for every document the slope of the loss at the current scores and a positive second-order term
(`losses.second_order`).
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from counterrank.common.checks import Float32Array, FloatArray
from counterrank.common.errors import CounterrankError, brief, did_you_mean, require
from counterrank.common.progress import progress, stderr_silenced
from counterrank.common.ranking import longest_query
from counterrank.data import RankingData
from counterrank.losses.loss_kernels import run_second_order
from counterrank.models.model import Scaler
from counterrank.models.trees import TreesModel
from counterrank.training.linear_training import EarlyStopping
from counterrank.training.problem import FittedModel, QueryMetric, Settings, Task, check_usable, query_metric

DEFAULT_LEARNING_RATE = 0.1

# Settings of LightGBM that a user must not pass on, by their main names, and what to do instead.
_OWNED = {
    name: advice
    for names, advice in (
        ("objective", "it is loss= (--loss)"),
        ("num_class", "a ranker has one score"),
        ("num_iterations", "the number of rounds is max_epochs= (--max-epochs)"),
        ("learning_rate", "it is learning_rate= (--learning-rate)"),
        ("early_stopping_round", "it is patience= (--patience), with validation data"),
        ("early_stopping_min_delta", "it is tolerance="),
        ("metric first_metric_only eval_at", "the validation metric is metric= (--metric)"),
        ("num_threads", "it is threads= (--threads)"),
        ("seed", "it is seed= (--seed)"),
        ("deterministic", "one seed gives one result here in any case"),
        ("verbosity", "training is silent but for its progress bar"),
        ("data", "the data are given to fit"),
        ("valid", "validation data are given to fit"),
        ("input_model", "training starts from nothing; Ranker.load reads a model"),
        ("output_model", "Ranker.save writes a model"),
        ("task", "fit trains and predict predicts"),
        ("config", "give the settings themselves"),
        ("use_quantized_grad", "with it trees depend on the number of threads"),
        ("boost_from_average", "scores start at 0"),
        ("lambdarank_truncation_level", "the cutoff is k= (--k)"),
        ("lambdarank_norm sigmoid", "it is of LightGBM's own objective"),
        ("label_gain", "gains are in the weights"),
        ("label_column weight_column", "weights are given to fit"),
        ("group_column", "queries are given to fit"),
        ("ignore_column", "leave the column out of the data"),
        ("num_machines machines tree_learner", "training is on one machine"),
    )
    for name in names.split()
}
_BOOSTING = ("gbdt", "gbrt", "goss")


def tree_params(settings: Settings, aliases: Mapping[str, list[str]]) -> dict[str, Any]:
    """All settings for LightGBM: the user's, checked, and ours; `aliases` has its names, each with its other names."""
    main = {other: name for name, others in aliases.items() for other in (name, *others)}
    chosen: dict[str, Any] = {}
    for given, value in settings.params.items():
        name = main.get(str(given))
        if name is None:
            raise CounterrankError(f"params: LightGBM has no setting {given!r}{did_you_mean(given, main)}")
        if name in _OWNED:
            raise CounterrankError(f"params: {given} is not passed on; {_OWNED[name]}")
        if name in chosen:
            raise CounterrankError(f"params: {given} is given twice, under two names; expected one")
        if name == "boosting" and value not in _BOOSTING:
            raise CounterrankError(
                f"params: {given}={brief(value)} changes trees of earlier rounds, so that no best round can be kept; "
                f"expected one of {', '.join(_BOOSTING)}"
            )
        chosen[name] = value
    return {
        **chosen,
        "objective": "none",
        "metric": "none",
        "boost_from_average": False,
        "learning_rate": settings.learning_rate or DEFAULT_LEARNING_RATE,
        "num_threads": settings.threads,
        "seed": settings.entropy % 2**31,
        "deterministic": True,
        "verbosity": -1,
    }


# This many times the mean second-order term over queries with evidence is added to that of each document. A Newton step
# ignores how much is at stake: a leaf of documents that hardly count, with little slope and less curvature, would move
# as far as one on which the metric depends. Chosen by NDCG@5 over losses and data sets, see docs/how-to/lambdamart.md.
DAMPING = 3.0

_VALUES_A_THREAD = 2**20

# From the scores of all documents to the loss, its slopes, and its second-order terms.
Objective = Callable[[FloatArray], tuple[float, Float32Array, Float32Array]]


def fit_trees(task: Task) -> FittedModel:
    """Grow one tree a round, and keep those up to the round with the best validation metric."""
    if task.spec.draws:
        raise CounterrankError(
            f"loss={task.loss.name!r}: trees need a second-order term of the loss, and drawn rankings give none; "
            "expected a linear model or a network"
        )
    require("lightgbm", "lightgbm", "a ranker of boosted trees")
    import lightgbm
    from lightgbm.basic import _ConfigAliases

    settings = task.settings
    params = tree_params(settings, _ConfigAliases._get_all_param_aliases())
    # LightGBM's threads spin while they wait: with little to do for each, or other work on the machine, that costs more
    # than they save
    params["num_threads"] = max(1, min(settings.threads, task.data.features.size // _VALUES_A_THREAD))
    objective = make_objective(task)
    scaler = Scaler.learn(settings.normalize, task.data, settings.threads)
    least = params.get("min_data_in_leaf", 20)
    if isinstance(least, int) and task.data.n_docs < 2 * least:
        raise CounterrankError(_why_no_tree(task, least))
    with _lightgbm_errors(lightgbm, _why_no_tree(task, least)):
        _try_out(lightgbm, params, task.data.n_features)
        data = _dataset(lightgbm, scaler, task.data, params)
        booster = lightgbm.Booster(params, data)
        if task.validation is not None:
            booster.add_valid(_dataset(lightgbm, scaler, task.validation[0], params, data), "validation")
        watch, history, trees = _boost(task, booster, objective)
    text = booster.model_to_string(num_iteration=trees)
    model = TreesModel(re.sub(r"\[num_threads: \d+\]", "[num_threads: 0]", text), scaler, task.data.n_features)
    importances = booster.feature_importance("gain", iteration=trees)
    return FittedModel(model, history, watch.best_epoch, params["learning_rate"], np.asarray(importances, np.float64))


def make_objective(task: Task) -> Objective:
    """The task's loss as a function of scores.

    Weights are scaled so that a query with evidence has a weight of 1 on average. Second-order terms are then of the
    size they have in LightGBM's own `lambdarank`, which its settings were made for; trees without such settings do not
    depend on the scale. Second-order terms are damped, see `DAMPING`.
    """
    data, weights, sets, threads = task.data, task.evidence.weights, task.evidence.sets, task.settings.threads
    offsets = data.offsets if sets is None else sets.offsets
    check_usable(weights, data.offsets, sets)
    spec = task.loss.spec(task.k, longest_query(offsets))
    with_evidence = np.flatnonzero(np.logical_or.reduceat(weights != 0.0, offsets[:-1]))
    queries = with_evidence if sets is None else np.unique(sets.owners[with_evidence])
    n_queries = len(queries)
    scaled = weights * (n_queries / np.abs(weights).sum())
    counted = np.repeat(np.isin(np.arange(data.n_queries), queries), data.lengths)
    share = counted * (DAMPING / counted.sum())

    def objective(scores: FloatArray) -> tuple[float, Float32Array, Float32Array]:
        own = scores if sets is None else scores[sets.docs]
        value, gradient, curvature = run_second_order(spec, own, scaled, offsets, threads)
        if sets is not None:  # a document is in several sets
            gradient, curvature = (
                np.bincount(sets.docs, weights=part, minlength=data.n_docs).astype(np.float64, copy=False)
                for part in (gradient, curvature)
            )
        damped = curvature + share * curvature.sum()
        return value / n_queries, _on_grid(gradient, np.rint), _on_grid(damped, np.ceil)

    return objective


def _on_grid(values: FloatArray, rounded: Callable[..., FloatArray]) -> Float32Array:
    """The values as multiples of 2**-24 of a power of two just above the largest.

    float32 holds these, and LightGBM's sums of them in float64 are exact for up to 2**29 documents. So their order does
    not matter: trees are the same whatever the threads, and whichever way histograms are built.
    """
    step = math.ldexp(1.0, math.frexp(float(np.abs(values).max()))[1] - 24)
    return (rounded(values / step) * step).astype(np.float32)


def _dataset(lightgbm: Any, scaler: Scaler, data: RankingData, params: dict[str, Any], reference: Any = None) -> Any:
    """The features as LightGBM keeps them, a byte or so for each; the matrix itself is not kept."""
    return lightgbm.Dataset(
        scaler.apply(data, params["num_threads"]), np.zeros(data.n_docs, np.float32), reference, group=data.lengths,
        params={name: value for name, value in params.items() if name != "categorical_feature"},
        categorical_feature=params.get("categorical_feature", "auto"),
    ).construct()  # fmt: skip


def _boost(task: Task, booster: Any, objective: Objective) -> tuple[EarlyStopping, list[dict[str, float | None]], int]:
    """All rounds; returns early stopping, the history, and the number of trees up to the best round."""
    settings = task.settings
    watch = EarlyStopping(settings.patience, settings.tolerance)
    metric = None if task.validation is None else query_metric(task.metric, *task.validation)
    history: list[dict[str, float | None]] = []
    trees = 0
    loss = 0.0

    def slopes(scores: FloatArray, _: Any) -> tuple[Float32Array, Float32Array]:
        nonlocal loss
        loss, gradient, curvature = objective(scores)
        return gradient, curvature

    with progress(f"training {task.loss.name}", settings.max_epochs) as advance:
        for epoch in range(1, settings.max_epochs + 1):
            begin = time.perf_counter()
            is_empty = booster.update(fobj=slopes)
            seconds = time.perf_counter() - begin
            if is_empty:
                if epoch == 1:
                    raise CounterrankError(_why_no_tree(task, booster.params.get("min_data_in_leaf", 20)))
                break  # no split lowers the loss any more
            parts = None if metric is None else _validation_parts(booster, metric, settings.threads)
            if watch.see(epoch, parts):
                trees = booster.current_iteration()
            validation = None if parts is None else float(parts.sum())
            history.append({"epoch": epoch, "loss": loss, "validation": validation, "seconds": seconds})
            advance(1)
            if watch.is_overdue(epoch):
                break
    return watch, history, trees


def _validation_parts(booster: Any, metric: QueryMetric, threads: int) -> FloatArray:
    """Each query's part in the metric at the scores that LightGBM keeps up to date, one tree a round."""
    parts: list[FloatArray] = []

    def look(scores: FloatArray, _: Any) -> tuple[str, float, bool]:
        parts.append(metric(scores, threads))
        return "metric", 0.0, True

    booster.eval_valid(look)
    return parts[0]


def _why_no_tree(task: Task, least: Any) -> str:
    return (
        f"data: no split of its {task.data.n_docs} documents is allowed and lowers the loss; "
        f"min_data_in_leaf is {least}, set it lower in params= or give more data"
    )


def _try_out(lightgbm: Any, params: dict[str, Any], n_features: int) -> None:
    """Try the settings with next to no data, since LightGBM also prints on stderr what it refuses."""
    rows = np.random.default_rng(0).normal(size=(64, n_features)).astype(np.float32)
    alone = {**params, "min_data_in_leaf": 1, "num_threads": 1}
    data = RankingData(rows, [0, len(rows)])
    with stderr_silenced():
        lightgbm.Booster(alone, _dataset(lightgbm, Scaler.learn("none", data), data, alone))


@contextmanager
def _lightgbm_errors(lightgbm: Any, no_tree: str) -> Iterator[None]:
    """LightGBM's errors in our words: wrong settings, or no feature that it could split."""
    try:
        yield
    except lightgbm.basic.LightGBMError as error:
        if "num_features()) > (0)" in str(error):
            raise CounterrankError(no_tree) from None
        words = re.sub(r" at \S+, line \d+ ?\.?", "", str(error)).strip()  # not where in its own source
        raise CounterrankError(f"params: LightGBM refuses them: {words}") from None
