"""Regression models of relevance, and cross-fitting: each fold of queries gets a model fitted on the other folds."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from counterrank.common.checks import Float32Array, FloatArray, IntArray, as_array, check_whole
from counterrank.common.errors import CounterrankError, brief, require
from counterrank.common.parallel import thread_count

MODELS = ("ridge", "lightgbm", "mlp")
_ROWS = 1 << 17  # predicted at once


class Folds(NamedTuple):
    """The fold of each query, and the parts that folds are made of.

    A model for a fold is fitted on the parts of the other folds, and its hyperparameters are chosen by holding out one
    part after the other. A fold is one part; of two folds each is two parts, or there would be nothing to hold out.
    """

    n: int  # the number of folds
    n_parts: int  # part p belongs to fold p % n
    parts: IntArray  # of each query

    def others(self, fold: int) -> IntArray:
        """The parts that a model for this fold is fitted on."""
        return np.flatnonzero(np.arange(self.n_parts) % self.n != fold)


def assign_folds(folds: Any, logged: IntArray, n_queries: int, generator: np.random.Generator) -> Folds:
    """Assign the queries to folds at random, or as given.

    Arguments:
        folds: how many, at least 2; or a whole number for each query, equal for those of a fold.
        logged: the queries with sessions, of which folds get equal numbers.
        n_queries: of the data.
        generator: shuffles the queries.

    >>> assign_folds([7, 7, 4, 4], np.arange(4), 4, np.random.default_rng(0)).parts.tolist()  # 4: fold 0, parts 0 and 2
    [1, 3, 0, 2]
    """
    if len(logged) < 2:
        raise CounterrankError(
            f"clicks: sessions of {len(logged)} quer{'y' if len(logged) == 1 else 'ies'}; expected at least two "
            "queries, one to predict another"
        )
    if np.ndim(as_array(folds, "folds")) == 0:
        n = min(check_whole(folds, "folds", 2, also=", or the number of the fold of each query"), len(logged))
        order = generator.permutation(logged)
        numbers = np.zeros(n_queries, np.int64)
        numbers[order] = np.arange(len(logged)) % n
    else:
        numbers, n = _given(folds, logged, n_queries)
        order = logged
    if len(np.unique(numbers[logged])) > 2:
        return Folds(n, n, numbers)
    for fold in range(n):
        numbers[order[numbers[order] == fold][1::2]] += n
    return Folds(n, 2 * n, numbers)


def _given(folds: Any, logged: IntArray, n_queries: int) -> tuple[IntArray, int]:
    given = as_array(folds, "folds")
    if given.shape != (n_queries,) or not np.issubdtype(given.dtype, np.integer):
        raise CounterrankError(
            f"folds: {given.dtype} of shape {given.shape}; expected a whole number for each of {n_queries} queries"
        )
    names, numbers = np.unique(given, return_inverse=True)
    if (numbers[logged] == numbers[logged[0]]).all():
        raise CounterrankError(
            f"folds: all queries with sessions are in fold {names[numbers[logged[0]]]}; expected at least two folds"
        )
    return numbers.astype(np.int64), len(names)


class Observations(NamedTuple):
    """The rows of the regression, one for each document."""

    features: Float32Array  # query-normalised
    targets: FloatArray  # click rates once examined
    weights: FloatArray  # 0 for documents that were never examined
    parts: IntArray  # of each row, see `Folds`
    folds: Folds  # of the queries

    def rows(self, parts: IntArray) -> IntArray:
        """The rows of these parts with a weight above 0."""
        return np.flatnonzero(np.isin(self.parts, parts) & (self.weights > 0.0))


class Fitted(Protocol):
    """A fitted model."""

    @property
    def about(self) -> str:
        """The model in words."""

    def predict(self, features: Float32Array) -> FloatArray:
        """A click rate for each row, which need not lie between 0 and 1."""


# from all observations and the numbers of the parts to fit on to a model
Learner = Callable[[Observations, IntArray], Fitted]


def check_model(model: Any) -> Any:
    """A name of `MODELS`, or an object that can be fitted and predicts."""
    if isinstance(model, str) and model in MODELS:
        return model
    methods = [getattr(model, name, None) for name in ("fit", "predict")]
    if isinstance(model, str) or inspect.isclass(model) or not all(map(callable, methods)):
        raise CounterrankError(
            f"model={brief(model)}: expected {', '.join(map(repr, MODELS))}, or a regressor with fit(X, y, "
            "sample_weight) and predict(X)"
        )
    if not _takes_weights(methods[0]):
        raise CounterrankError(
            f"model: fit of {type(model).__name__} takes no sample_weight; expected a regressor with fit(X, y, "
            "sample_weight) and predict(X)"
        )
    return model


def takes_missing(model: Any) -> bool:
    """Whether a model, by its name or as fitted, accepts missing features; one of the user's own may refuse them.

    >>> takes_missing("ridge"), takes_missing("lightgbm")
    (False, True)
    """
    if isinstance(model, str):
        return model == "lightgbm"
    return not isinstance(model, Ridge | Network)


def _takes_weights(fit: Any) -> bool:
    try:
        parameters = inspect.signature(fit).parameters.values()
    except (TypeError, ValueError):  # compiled, and has no signature
        return True
    return any(each.name == "sample_weight" or each.kind is each.VAR_KEYWORD for each in parameters)


def cross_fit(model: Any, observed: Observations, generator: np.random.Generator) -> tuple[FloatArray, Fitted]:
    """For each row the prediction of a model fitted on the other folds, and a model fitted on all rows.

    `model` is a name of `MODELS`, or a regressor, as `check_model` passed it.
    """
    if isinstance(model, str) and model == "ridge":
        return cross_fit_ridge(observed, ridge_moments(observed))
    learn = _learner(model, int(generator.integers(2**31)))
    folds, values = observed.folds, np.empty(len(observed.targets))
    for fold in range(folds.n):
        fitted = learn(observed, folds.others(fold))
        mine = np.flatnonzero(observed.parts % folds.n == fold)
        for begin in range(0, len(mine), _ROWS):
            rows = mine[begin : begin + _ROWS]
            values[rows] = fitted.predict(observed.features[rows])
    return values, learn(observed, np.arange(folds.n_parts))


def _learner(model: Any, seed: int) -> Learner:
    if not isinstance(model, str):
        return lambda observed, parts: _plug_in(model, observed, observed.rows(parts))
    train = train_trees if model == "lightgbm" else train_network
    return lambda observed, parts: _in_rounds(train, observed, parts, seed)


def _plug_in(model: Any, observed: Observations, rows: IntArray) -> CustomRegressor:
    try:
        copy = deepcopy(model)
    except Exception as error:  # whatever a regressor of the user's own raises
        raise CounterrankError(f"model: {type(model).__name__} cannot be copied ({error})") from None
    copy.fit(observed.features[rows], observed.targets[rows], sample_weight=observed.weights[rows])
    return CustomRegressor(copy)


def _in_rounds(train: Callable[..., Any], observed: Observations, parts: IntArray, seed: int) -> Fitted:
    """Early stopping on a part that is held out, then training on all parts for as many rounds.

    `train(observations, rows, held out rows or None, rounds or None, seed)` gives a model and its number of rounds: as
    many as do best on the rows held out, else those given, else a default where nothing could be held out.
    """
    rows = observed.rows(parts)
    weighted = np.unique(observed.parts[rows])
    rounds = None
    if len(weighted) > 1:
        held_out = observed.parts[rows] == weighted[0]
        _, rounds = train(observed, rows[~held_out], rows[held_out], None, seed)
    fitted: Fitted = train(observed, rows, None, rounds, seed)[0]
    return fitted


@dataclass(frozen=True, eq=False)
class CustomRegressor:
    """A fitted copy of a regressor of the user's own."""

    regressor: Any

    @property
    def about(self) -> str:
        """The model in words."""
        return f"{type(self.regressor).__name__} as given"

    def predict(self, features: Float32Array) -> FloatArray:
        """A click rate for each row; an error where the regressor gives something else."""
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


PENALTIES = np.geomspace(1e-4, 1e3, 15)  # of the mean square of a centred feature
_BLOCK_ROWS = 1 << 12  # at once, so that they stay in the cache


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
        return linear(features, self.coefficients[None, :], np.zeros(len(features), np.int64))


def ridge_moments(observed: Observations, products: FloatArray | None = None) -> Moments:
    """The moments of each part; products that are given, which do not depend on targets, are not computed again."""
    return moments(
        observed.features, observed.targets, observed.weights, observed.parts, observed.folds.n_parts, products
    )


# by the parts that are fitted on: eigenvalues and eigenvectors of the centred products, which no target changes
Spectra = dict[tuple[int, ...], tuple[FloatArray, FloatArray]]


def cross_fit_ridge(observed: Observations, own: Moments, spectra: Spectra | None = None) -> tuple[FloatArray, Ridge]:
    """`cross_fit` of ridge regression, from the moments; spectra are kept there for other targets of the same rows."""
    folds, fits = observed.folds, Fits(own, spectra)

    def fit(parts: IntArray) -> Ridge:
        best = fits.best(parts)
        return Ridge(fits.on(parts)[best], float(PENALTIES[best]))

    by_fold = np.stack([fit(folds.others(fold)).coefficients for fold in range(folds.n)])
    return linear(observed.features, by_fold, observed.parts % folds.n), fit(np.arange(folds.n_parts))


class Moments(NamedTuple):
    """Sums over the rows of each part, the last column being 1: all that a squared error needs."""

    products: FloatArray  # (parts, n + 1, n + 1), of weight * x x'
    targets: FloatArray  # (parts, n + 1), of weight * x y
    squares: FloatArray  # (parts,), of weight * y^2


def moments(
    features: Float32Array,
    targets: FloatArray,
    weights: FloatArray,
    parts: IntArray,
    n: int,
    products: FloatArray | None = None,
) -> Moments:
    """The moments of the rows of each of n parts, those without weight left out; products that are given are taken."""
    width = features.shape[1] + 1
    found = Moments(np.zeros((n, width, width)) if products is None else products, np.zeros((n, width)), np.zeros(n))
    block = np.ones((_BLOCK_ROWS, width))
    weighted = np.flatnonzero(weights > 0.0)
    order = weighted[np.argsort(parts[weighted], kind="stable")]
    ends = np.searchsorted(parts[order], np.arange(n + 1))
    for part in range(n):
        for begin in range(ends[part], ends[part + 1], _BLOCK_ROWS):
            rows = order[begin : min(begin + _BLOCK_ROWS, ends[part + 1])]
            x, root = block[: len(rows)], np.sqrt(weights[rows])
            x[:, :-1] = features[rows]
            x[:, -1] = 1.0
            x *= root[:, None]  # half the work of a product with the weights between: x'x is symmetric
            y = root * targets[rows]
            if products is None:
                found.products[part] += x.T @ x
            found.targets[part] += y @ x
            found.squares[part] += y @ y
    return found


class Fits:
    """Fits with all penalties, each made once: to hold out j where i is left out is the same as the reverse."""

    def __init__(self, own: Moments, spectra: Spectra | None = None) -> None:
        self._own, self._spectra = own, spectra
        self._known: dict[tuple[int, ...], FloatArray] = {}

    def on(self, parts: IntArray) -> FloatArray:
        """Coefficients, the intercept last, from the rows of these parts; a row for each of `PENALTIES`."""
        key = tuple(parts.tolist())
        if key not in self._known:
            self._known[key] = _fits(self._own, parts, self._spectra)
        return self._known[key]

    def best(self, parts: IntArray) -> int:
        """The number of the penalty with the least error on each of these parts, fitted on the others.

        Of a single part the largest penalty.
        """
        weighted = parts[self._own.products[parts, -1, -1] > 0.0]
        if len(weighted) < 2:
            return len(PENALTIES) - 1
        return int(np.argmin(sum(errors(self._own, part, self.on(weighted[weighted != part])) for part in weighted)))


def _fits(own: Moments, parts: IntArray, spectra: Spectra | None = None) -> FloatArray:
    products, targets = own.products[parts].sum(axis=0), own.targets[parts].sum(axis=0)
    total = products[-1, -1]
    if not total > 0.0:
        return np.zeros((len(PENALTIES), len(targets)))
    means, mean = products[-1, :-1] / total, targets[-1] / total
    centred = products[:-1, :-1] - total * np.outer(means, means)
    scale = np.trace(centred) / max(len(means), 1)
    wanted = targets[:-1] - total * mean * means
    added = PENALTIES * scale + 1e-12 * total
    if spectra is not None:
        key = tuple(parts.tolist())
        if key not in spectra:
            spectra[key] = np.linalg.eigh(centred)
        eigenvalues, vectors = spectra[key]
        slopes = ((wanted @ vectors) / (np.maximum(eigenvalues, 0.0) + added[:, None])) @ vectors.T
        return np.column_stack((slopes, mean - slopes @ means))
    penalised = np.repeat(centred[None], len(PENALTIES), axis=0)
    np.einsum("pii->pi", penalised)[:] += added[:, None]
    slopes = np.linalg.solve(penalised, np.broadcast_to(wanted[:, None], (len(PENALTIES), len(means), 1)))[..., 0]
    return np.column_stack((slopes, mean - slopes @ means))


def errors(own: Moments, part: int, coefficients: FloatArray) -> FloatArray:
    """The sum of weighted squared errors over the rows of a part, for each row of coefficients."""
    quadratic = ((coefficients @ own.products[part]) * coefficients).sum(axis=1)
    return np.asarray(own.squares[part] - 2.0 * coefficients @ own.targets[part] + quadratic)


def linear(features: Float32Array, coefficients: FloatArray, which: IntArray) -> FloatArray:
    """The value of each row by the row of `coefficients` that `which` names for it."""
    values = np.empty(len(features))
    for begin in range(0, len(features), _BLOCK_ROWS):
        rows = slice(begin, begin + _BLOCK_ROWS)
        all_values = features[rows] @ coefficients[:, :-1].T + coefficients[:, -1]
        values[rows] = np.take_along_axis(all_values, which[rows, None], axis=1)[:, 0]
    return values


# small trees: the model has to generalise to other queries
_PARAMS = {
    "objective": "regression",
    "metric": "l2",
    "learning_rate": 0.1,
    "num_leaves": 15,
    "min_data_in_leaf": 50,
    "verbosity": -1,
    "deterministic": True,
    "force_row_wise": True,
}
_VALUES_A_THREAD = 1 << 24
_MOST_ROUNDS, _PATIENCE, _DEFAULT_ROUNDS = 300, 20, 20


@dataclass(frozen=True, eq=False)
class Trees:
    """A LightGBM booster."""

    booster: Any
    rounds: int

    @property
    def about(self) -> str:
        """The model in words."""
        return f"{self.rounds} regression tree{'' if self.rounds == 1 else 's'} of LightGBM"

    def predict(self, features: Float32Array) -> FloatArray:
        """A click rate for each row."""
        return np.asarray(self.booster.predict(features), np.float64)


def train_trees(
    observed: Observations, rows: IntArray, held_out: IntArray | None, rounds: int | None, seed: int
) -> tuple[Trees, int]:
    """Boosted trees from these rows, see `_in_rounds`."""
    require("lightgbm", "lightgbm", "a relevance model of boosted trees")
    import lightgbm

    # LightGBM's threads spin while they wait: with little to do for each, that costs more than they save
    threads = max(1, min(thread_count(), len(rows) * observed.features.shape[1] // _VALUES_A_THREAD))
    params = {**_PARAMS, "seed": seed, "num_threads": threads}

    def dataset(part: IntArray, reference: Any = None) -> Any:
        features, targets, weights = (observed.features[part], observed.targets[part], observed.weights[part])
        return lightgbm.Dataset(features, targets, weight=weights, reference=reference, params=params)

    data = dataset(rows)
    if held_out is None:
        rounds = rounds or _DEFAULT_ROUNDS
        return Trees(lightgbm.train(params, data, rounds), rounds), rounds
    stop = lightgbm.early_stopping(_PATIENCE, verbose=False)
    booster = lightgbm.train(params, data, _MOST_ROUNDS, [dataset(held_out, data)], callbacks=[stop])
    best = max(int(booster.best_iteration), 1)
    return Trees(booster, best), best


_HIDDEN, _BATCH, _LEARNING_RATE = 32, 512, 3e-3
_MOST_EPOCHS, _NETWORK_PATIENCE, _DEFAULT_EPOCHS = 40, 5, 5
_BATCH_ROWS = 1 << 15  # predicted at once


@dataclass(frozen=True, eq=False)
class Network:
    """max(0, x A + a) b + c."""

    inner: Float32Array  # A, (features, hidden)
    inner_bias: Float32Array  # a
    outer: Float32Array  # b, (hidden, 1)
    outer_bias: Float32Array  # c, (1,)
    epochs: int

    @property
    def about(self) -> str:
        """The model in words."""
        return f"network with a hidden layer of {len(self.outer)}, {self.epochs} epochs"

    def predict(self, features: Float32Array) -> FloatArray:
        """A click rate for each row."""
        values = np.empty(len(features))
        for begin in range(0, len(features), _BATCH_ROWS):
            rows = slice(begin, begin + _BATCH_ROWS)
            hidden = np.maximum(features[rows] @ self.inner + self.inner_bias, 0.0)
            values[rows] = (hidden @ self.outer + self.outer_bias)[:, 0]
        return values


def train_network(
    observed: Observations, rows: IntArray, held_out: IntArray | None, rounds: int | None, seed: int
) -> tuple[Network, int]:
    """A network from these rows, its rounds being epochs, see `_in_rounds`."""
    require("torch", "torch", "a relevance model that is a network")
    import torch

    generator = np.random.default_rng(seed)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # steps are small, and the result is to be the same on every machine
    try:
        return _train(observed, rows, held_out, rounds, generator)
    finally:
        torch.set_num_threads(threads)


def _train(
    observed: Observations,
    rows: IntArray,
    held_out: IntArray | None,
    rounds: int | None,
    generator: np.random.Generator,
) -> tuple[Network, int]:
    import torch

    weights = (observed.weights / observed.weights[rows].mean()).astype(np.float32)
    targets = observed.targets.astype(np.float32)
    tensors = [torch.from_numpy(array).requires_grad_() for array in _start(observed, rows, generator)]
    optimizer = torch.optim.Adam(tensors, lr=_LEARNING_RATE)
    last = _MOST_EPOCHS if held_out is not None else rounds or _DEFAULT_EPOCHS
    best, kept, least = last, None, np.inf
    for epoch in range(1, last + 1):
        order = generator.permutation(rows)
        for begin in range(0, len(order), _BATCH):
            part = order[begin : begin + _BATCH]
            x, y, w = (torch.from_numpy(array[part]) for array in (observed.features, targets, weights))
            inner, inner_bias, outer, outer_bias = tensors
            off = (torch.relu(x @ inner + inner_bias) @ outer + outer_bias)[:, 0] - y
            optimizer.zero_grad()
            (w * off * off).mean().backward()
            optimizer.step()
        if held_out is None:
            continue
        now = _network(tensors, epoch)
        error = float(weights[held_out] @ (now.predict(observed.features[held_out]) - targets[held_out]) ** 2)
        if error < least:
            best, kept, least = epoch, now, error
        elif epoch >= best + _NETWORK_PATIENCE:
            break
    return kept or _network(tensors, best), best


def _start(observed: Observations, rows: IntArray, generator: np.random.Generator) -> list[Float32Array]:
    """Coefficients to begin with: the mean rate for all, and small slopes."""
    width = observed.features.shape[1]
    mean = np.average(observed.targets[rows], weights=observed.weights[rows])
    inner = generator.normal(0.0, np.sqrt(2.0 / max(width, 1)), (width, _HIDDEN))
    outer = generator.normal(0.0, 0.1 / np.sqrt(_HIDDEN), (_HIDDEN, 1))
    return [np.asarray(array, np.float32) for array in (inner, np.zeros(_HIDDEN), outer, [mean])]


def _network(tensors: list[Any], epochs: int) -> Network:
    inner, inner_bias, outer, outer_bias = (tensor.detach().numpy().copy() for tensor in tensors)
    return Network(inner, inner_bias, outer, outer_bias, epochs)
