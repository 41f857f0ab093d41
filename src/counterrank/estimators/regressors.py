"""Models that relevance can be learned with, and how each fold of queries gets one that saw the other folds only."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from counterrank.common.checks import Float32Array, FloatArray, IntArray
from counterrank.common.errors import CounterrankError
from counterrank.estimators import _ridge
from counterrank.estimators.folds import Folds

MODELS = ("ridge", "lightgbm", "mlp")

_ROWS = 1 << 17  # predicted at once


class Evidence(NamedTuple):
    """What there is to learn from, one row for each document.

    Attributes:
        features: query-normalised.
        targets: click rates once examined.
        weights: what the rows count, 0 for those that tell nothing.
        parts: the part of each row, see `Folds`.
        folds: of the queries.
    """

    features: Float32Array
    targets: FloatArray
    weights: FloatArray
    parts: IntArray
    folds: Folds

    def rows(self, parts: IntArray) -> IntArray:
        """The rows of these parts that tell something."""
        return np.flatnonzero(np.isin(self.parts, parts) & (self.weights > 0.0))


class Fitted(Protocol):
    """A model that has been learned; `about` says in words what it is."""

    @property
    def about(self) -> str:
        """The model in words."""

    def predict(self, features: Float32Array) -> FloatArray:
        """A click rate for each row, which need not lie between 0 and 1."""


# From all evidence and the numbers of the parts to learn from to a model.
Learner = Callable[[Evidence, IntArray], Fitted]


@dataclass(frozen=True, eq=False)
class Ridge:
    """A linear model.

    Attributes:
        coefficients: of query-normalised features; the intercept last.
        penalty: of squared coefficients, in mean squares of a centred feature.
    """

    coefficients: FloatArray
    penalty: float

    @property
    def about(self) -> str:
        """The model in words."""
        return f"ridge regression on {len(self.coefficients) - 1} features, penalty {self.penalty:.3g}"

    def predict(self, features: Float32Array) -> FloatArray:
        """A click rate for each row."""
        return _ridge.linear(features, self.coefficients[None, :], np.zeros(len(features), np.int64))


@dataclass(frozen=True, eq=False)
class Plugged:
    """A copy of a regressor that was handed in, learned."""

    regressor: Any

    @property
    def about(self) -> str:
        """The model in words."""
        return f"{type(self.regressor).__name__} as given"

    def predict(self, features: Float32Array) -> FloatArray:
        """A click rate for each row, if the regressor gives that."""
        name = type(self.regressor).__name__
        found = np.asarray(self.regressor.predict(features))
        if found.shape not in ((len(features),), (len(features), 1)) or found.dtype.kind not in "biuf":
            raise CounterrankError(
                f"model: {name} predicts {found.dtype} of shape {found.shape} for {len(features)} documents; expected "
                "one number each"
            )
        if not np.isfinite(found).all():
            raise CounterrankError(f"model: {name} predicts numbers that are not finite; expected click rates")
        return found.reshape(-1).astype(np.float64)


def cross_fit(model: Any, evidence: Evidence, generator: np.random.Generator) -> tuple[FloatArray, Fitted]:
    """For each row the prediction of a model that saw other folds only, and a model that saw all.

    Arguments:
        model: a name of `MODELS`, or a regressor, as `check_model` passed it.
        evidence: what to learn from.
        generator: for models that are learned with chance.
    """
    if isinstance(model, str) and model == "ridge":
        return _cross_fit_ridge(evidence)
    learn = _learner(model, int(generator.integers(2**31)))
    folds, values = evidence.folds, np.empty(len(evidence.targets))
    for fold in range(folds.n):
        fitted = learn(evidence, folds.others(fold))
        mine = np.flatnonzero(evidence.parts % folds.n == fold)
        for begin in range(0, len(mine), _ROWS):
            rows = mine[begin : begin + _ROWS]
            values[rows] = fitted.predict(evidence.features[rows])
    return values, learn(evidence, np.arange(folds.n_parts))


def check_model(model: Any) -> Any:
    """A name of `MODELS`, or an object that can be fitted and predicts."""
    if isinstance(model, str) and model in MODELS:
        return model
    methods = [getattr(model, name, None) for name in ("fit", "predict")]
    if isinstance(model, str) or inspect.isclass(model) or not all(map(callable, methods)):
        raise CounterrankError(
            f"model={model!r}: expected {', '.join(map(repr, MODELS))}, or a regressor with fit(X, y, sample_weight) "
            "and predict(X)"
        )
    if not _takes_weights(methods[0]):
        raise CounterrankError(
            f"model: fit of {type(model).__name__} takes no sample_weight; expected a regressor with fit(X, y, "
            "sample_weight) and predict(X)"
        )
    return model


def _takes_weights(fit: Any) -> bool:
    try:
        parameters = inspect.signature(fit).parameters.values()
    except (TypeError, ValueError):  # compiled, and does not tell
        return True
    return any(each.name == "sample_weight" or each.kind is each.VAR_KEYWORD for each in parameters)


def _cross_fit_ridge(evidence: Evidence) -> tuple[FloatArray, Fitted]:
    folds = evidence.folds
    fits = _ridge.Fits(
        _ridge.moments(evidence.features, evidence.targets, evidence.weights, evidence.parts, folds.n_parts)
    )

    def fit(parts: IntArray) -> Ridge:
        best = fits.best(parts)
        return Ridge(fits.on(parts)[best], float(_ridge.PENALTIES[best]))

    by_fold = np.stack([fit(folds.others(fold)).coefficients for fold in range(folds.n)])
    return _ridge.linear(evidence.features, by_fold, evidence.parts % folds.n), fit(np.arange(folds.n_parts))


def _learner(model: Any, seed: int) -> Learner:
    """How a model of that name is learned; where the number of rounds is to be chosen, by a part that is held out."""
    if not isinstance(model, str):
        return lambda evidence, parts: _plug_in(model, evidence, evidence.rows(parts))
    if model == "lightgbm":
        from counterrank.estimators._trees import grow as grow_trees

        return lambda evidence, parts: _in_rounds(grow_trees, evidence, parts, seed)
    from counterrank.estimators._network import train

    return lambda evidence, parts: _in_rounds(train, evidence, parts, seed)


def _plug_in(model: Any, evidence: Evidence, rows: IntArray) -> Plugged:
    try:
        copy = deepcopy(model)
    except Exception as error:  # whatever a regressor of the user's own raises
        raise CounterrankError(f"model: {type(model).__name__} cannot be copied ({error})") from None
    copy.fit(evidence.features[rows], evidence.targets[rows], sample_weight=evidence.weights[rows])
    return Plugged(copy)


def _in_rounds(grow: Callable[..., Any], evidence: Evidence, parts: IntArray, seed: int) -> Fitted:
    """Learn until the error on a part that is held out no longer falls, then from all for as many rounds.

    `grow(evidence, rows, held out rows or None, rounds or None, seed)` gives a model and its number of rounds.
    """
    rows = evidence.rows(parts)
    told = np.unique(evidence.parts[rows])
    rounds = None
    if len(told) > 1:
        apart = evidence.parts[rows] == told[0]
        _, rounds = grow(evidence, rows[~apart], rows[apart], None, seed)
    fitted: Fitted = grow(evidence, rows, None, rounds, seed)[0]
    return fitted
