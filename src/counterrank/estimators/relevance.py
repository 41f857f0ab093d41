"""A model of relevance from clicks: what the direct, doubly robust and shrinkage estimators start from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.browsing import sequential
from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.examination import Examination, is_user_model, lines_of
from counterrank.clicks.exposure import examined_times
from counterrank.clicks.user_models import users_of
from counterrank.common.checks import FloatArray, check_vector, is_real, make_generator
from counterrank.common.errors import CounterrankError, brief
from counterrank.data import RankingData
from counterrank.data.features import align_features, refuse_missing
from counterrank.estimators.propensities import (
    Propensities,
    check_propensities,
    in_canonical_gauge,
    logged_propensities,
    refuse_impossible,
    refuse_unseen,
    sessions_of_documents,
    warn_if_apart,
    without_stale_propensities,
)
from counterrank.estimators.relevance_models import (
    Fitted,
    Observations,
    Spectra,
    assign_folds,
    check_model,
    cross_fit,
    cross_fit_ridge,
    ridge_moments,
    takes_missing,
)
from counterrank.estimators.weights import mean_relevance


class Examinations(NamedTuple):
    """One number of each kind for each document of the data."""

    sessions: FloatArray  # of its query, n
    clicks: FloatArray  # less the clicks that trust alone brings
    rho: FloatArray  # its propensity, P(examined) in a session
    times: FloatArray  # its expected examinations: n * rho, or by what the log shows
    trials: FloatArray  # how often it might have been examined: n, or the times it was shown
    unseen: FloatArray  # its relevance where rho is 0: under trust bias the mean of what was shown, else 0


def examinations(
    clicks: ClickCounts,
    rho: ArrayLike | Propensities | None,
    exam: ArrayLike | Examination | None = None,
    beta: ArrayLike | Examination | None = None,
) -> Examinations:
    """Count what happened to each document.

        times = sessions * rho                                              without exam
        times = sum over ranks of impressions there * P(examined | rank)    with exam

    Both have the same expectation. The second uses which documents were in fact shown, and varies less.

    rho is the propensity of each document; None for those logged with the clicks (see `logged_propensities`), or else
    for how often the log shows it, times / sessions, which needs exam. exam is how likely each rank is examined; None
    for the curve that simulated clicks remember where rho is None, else for none. Under trust bias exam is a user
    model, see `examination.Affine`, with whose alpha rho was computed; or exam is alpha and beta is given by rank,
    which are mapped to the canonical gauge, and rho with them.

    A click on a document with propensity 0 is an error, and so is one at a rank that is never examined. A rho that was
    computed with another curve than exam is warned about.

    >>> docs, ranks, shown, clicked = np.array([[0, 1], [1, 2], [10, 4], [5, 1]])
    >>> clicks = ClickCounts("", np.array([0, 2]), np.array([10]), docs, ranks, shown, clicked)
    >>> examinations(clicks, rho=[1.0, 0.25]).times.tolist()
    [10.0, 2.5]
    >>> examinations(clicks, rho=None, exam=Examination([1.0, 0.5])).rho.tolist()
    [1.0, 0.2]
    """
    counts = check_counts(clicks)
    users = users_of(exam, beta)
    if isinstance(rho, Propensities):
        rho = rho.by_document if rho.source in ("given", "estimated") else None
    if sequential(users) is not None and rho is not None:
        raise CounterrankError(
            "rho: given together with users whose clicks depend on each other; expected None, to take what the log "
            "shows was examined"
        )
    if is_user_model(users):
        counts = without_stale_propensities(counts, quietly=rho is not None)
    if rho is not None and beta is not None:
        rho = in_canonical_gauge(rho, users.scale, counts)
    is_logged = rho is None and counts.propensities is not None
    curve, base = _lines(counts, rho, users, is_logged)
    if curve is not None:
        refuse_unseen(curve, base, counts)
    sessions = sessions_of_documents(counts)
    total = counts.by_document(counts.clicks)
    by_trust = None if base is None else examined_times(base, counts)
    times = None if curve is None else examined_times(curve, counts)
    if rho is not None:
        given = check_propensities(rho, counts)
        if times is not None:
            warn_if_apart(float(times.sum()), float((sessions * given).sum()))
    elif is_logged:
        given = np.nan_to_num(logged_propensities(counts, curve, all_shown=True).by_document)
    else:
        assert times is not None
        given = np.minimum(times / np.maximum(sessions, 1.0), 1.0)
    refuse_impossible(given if by_trust is None else np.maximum(given, by_trust), total, counts, "rho")
    trials = sessions if times is None else counts.by_document(counts.impressions)
    if times is None:
        times = sessions * given
    if by_trust is None or curve is None:
        return Examinations(sessions, total, given, times, trials, np.zeros(len(total)))
    unseen = np.full(len(total), mean_relevance(counts, curve, base))
    return Examinations(sessions, total - by_trust, given, times, trials, unseen)


def check_relevance(relevance: Any, n_docs: int) -> FloatArray:
    """A predicted relevance for each document: any finite number, so that wrong ones can be tried."""
    return check_vector(relevance, n_docs, "relevance")


def _lines(clicks: ClickCounts, rho: Any, users: Any, is_logged: bool) -> tuple[Examination | None, Examination | None]:
    """The curves of examination and of trust; None for what was not given or is 0 everywhere."""
    if users is None and rho is None:
        users = clicks.examination
        if users is None and not is_logged:
            raise CounterrankError(
                "rho: None, and so is exam; expected rho=policy.propensity(scores, offsets, exam), or exam, with which "
                "the log gives how often each document was examined"
            )
    return (None, None) if users is None else lines_of(users)


SATURATION = 10.0  # examinations of a document that count in full, see docs/concepts/few-clicks.md
_LEAST = 1e-100


@dataclass(frozen=True, eq=False)
class Relevance:
    """Predicted relevance, P(click | examined), of each document; usable wherever an array of it is.

    Attributes:
        values: one per document of the data, from 0 to 1, each predicted from the clicks of other folds of queries.
        model: fitted on all queries; of "ridge" it has `coefficients` and a `penalty`.
        error: exposure-weighted mean squared error of `values`.
        baseline: the same of one rate for all documents; a model with a larger error is useless.
        n_features: of the data.
        feature_names: of the data; None where it has none.
    """

    values: FloatArray
    model: Fitted
    error: float
    baseline: float
    n_features: int
    feature_names: tuple[str, ...] | None = None

    @property
    def about(self) -> str:
        """A description of the model, and the share of the variance of click rates that it explains."""
        return f"{self.model.about}; held-out error {self.error:.4g}, of one rate for all {self.baseline:.4g}"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is None:  # which numpy 1 does not know
            return np.asarray(self.values, dtype)
        return np.array(self.values, dtype, copy=copy)

    def __repr__(self) -> str:
        return f"Relevance({len(self.values):,} documents, {self.about})"

    def predict(self, data: RankingData) -> FloatArray:
        """Predict the relevance of documents of other queries, with the model fitted to all queries."""
        if not isinstance(data, RankingData):
            raise CounterrankError(f"data: {type(data).__name__}; expected RankingData")
        names = self.feature_names or tuple(f"feature_{i + 1}" for i in range(self.n_features))
        aligned = align_features(
            data,
            names,
            self.feature_names is not None,
            reference="the relevance model",
            number=f"expected {self.n_features}, as in fit_relevance",
        )
        check_missing_for(self.model, aligned)
        return _rates(self.model.predict(aligned.normalized().features))


def fit_relevance(
    data: RankingData,
    clicks: ClickCounts,
    rho: ArrayLike | None = None,
    model: Any = "ridge",
    *,
    exam: ArrayLike | Examination | None = None,
    beta: ArrayLike | Examination | None = None,
    saturation: float = SATURATION,
    folds: int | ArrayLike = 5,
    seed: int | np.random.Generator = 0,
) -> Relevance:
    """Fit a model of relevance: regress click rates given examination on query-normalised features.

        minimise sum over d of E(d) / (1 + E(d) / s) (clicks(d) / E(d) - R(d))^2

    The saturation s is how many examinations of a document count in full. Without it the model would only learn the
    few documents that always were on top.

    R is cross-fitted: the queries of a fold get the prediction of a model fitted on the other folds. Hyperparameters
    (penalty, number of trees, epochs) are chosen by the error above on queries held out inside the other folds.
    Predictions are clipped to 0 .. 1.

    Arguments:
        data: the queries and documents, of which only the features matter.
        clicks: what was shown and clicked, counted against `data`.
        rho: the propensity of each document; None for how often the log shows it, which needs `exam` (simulated clicks
            remember theirs).
        model: "ridge"; "lightgbm" for boosted trees and "mlp" for a small network, with the extras lightgbm and torch;
            or a regressor with fit(X, y, sample_weight=) and predict(X), as scikit-learn has them, of which each fold
            learns a copy.
        exam: how likely each rank is examined, so that E(d) is what the log shows and not n rho(d). Under trust bias
            a user model, see `examination.Affine`, rho then being the expectation of its alpha.
        beta: by rank, if exam is alpha by rank and no user model.
        saturation: s, above 0; `math.inf` for plain exposure weights.
        folds: how many, at least 2; or the number of the fold of each query, those without sessions included.
        seed: of the folds, and of models that are trained with randomness.

    Returns:
        predicted relevance of every document, shown or not, and a model for other queries.

    >>> from counterrank import RankingData, examination, policies, simulation
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 2, 4000) * 4
    >>> features = np.column_stack((labels + rng.normal(size=4000), rng.normal(size=4000)))
    >>> data = RankingData(features, np.arange(0, 4001, 10), labels)
    >>> log = simulation.simulate(data, np.zeros(4000), policies.PlackettLuce(k=5), [1, 0.5, 0.4], sessions=4000)
    >>> relevance = fit_relevance(data, log)
    >>> relevance.error < 0.8 * relevance.baseline, bool(relevance.values[labels == 4].mean() > 0.5)
    (True, True)
    """
    counts = check_counts(clicks)
    counts.check_data(data)
    chosen, s, generator = check_model(model), _check_saturation(saturation), make_generator(seed)
    return relevance_of(data, examinations(counts, rho, exam, beta), chosen, s, folds, generator)


def relevance_of(
    data: RankingData,
    seen: Examinations,
    chosen: Any,
    saturation: float,
    folds: int | ArrayLike,
    generator: np.random.Generator,
) -> Relevance:
    """`fit_relevance` of what was examined and clicked, with a model that `check_model` gave."""
    check_missing_for(chosen, data)
    observed = _observations(data, seen, saturation, folds, generator)
    targets = observed.targets
    found, fitted = cross_fit(chosen, observed, generator)
    values = _rates(found)
    rate = seen.clicks.sum() / seen.times.sum()
    names = data.feature_names if data.has_feature_names else None
    errors = _error(seen, targets, values), _error(seen, targets, rate)
    return Relevance(values, fitted, *errors, data.n_features, names)


def ridge_of_clicks(
    data: RankingData, seen: Examinations, folds: int, generator: np.random.Generator
) -> Callable[[FloatArray], FloatArray]:
    """Fits "ridge", cross-fitted, to any clicks of these documents; what does not depend on clicks is computed once."""
    check_missing_for("ridge", data)
    observed = _observations(data, seen, SATURATION, folds, generator)
    products, spectra = ridge_moments(observed).products, Spectra()

    def fit(clicks: FloatArray) -> FloatArray:
        """The relevance of each document."""
        again = observed._replace(targets=_click_rates(clicks, seen))
        return _rates(cross_fit_ridge(again, ridge_moments(again, products), spectra)[0])

    return fit


def _observations(
    data: RankingData, seen: Examinations, saturation: float, folds: int | ArrayLike, generator: np.random.Generator
) -> Observations:
    """What a model of relevance is fitted to."""
    logged = np.flatnonzero(np.add.reduceat(seen.times, data.offsets[:-1]) > 0.0)
    assigned = assign_folds(folds, logged, data.n_queries, generator)
    weights = seen.times / (1.0 + seen.times / saturation)
    parts = np.repeat(assigned.parts, np.diff(data.offsets))
    return Observations(data.normalized().features, _click_rates(seen.clicks, seen), weights, parts, assigned)


def _click_rates(clicks: FloatArray, seen: Examinations) -> FloatArray:
    """Clicks by examination, 0 without any."""
    return np.divide(clicks, seen.times, out=np.zeros(len(clicks)), where=seen.times > 0.0)


def check_missing_for(model: Any, data: RankingData, what: str = "data") -> None:
    """An error where values are missing that a model of relevance, by its name or as fitted, cannot take."""
    if not takes_missing(model):
        refuse_missing(data, "the relevance model", "model='lightgbm'", what)


def _error(seen: Examinations, targets: FloatArray, values: FloatArray | float) -> float:
    """The exposure-weighted mean of squares; roots first, since a rate of few examinations may be huge."""
    off = np.sqrt(seen.times) * (targets - values)
    return float(off @ off / seen.times.sum())


def _rates(values: FloatArray) -> FloatArray:
    return np.asarray(np.clip(values, 0.0, 1.0))


def _check_saturation(saturation: Any) -> float:
    if not is_real(saturation) or not (_LEAST <= saturation <= 1.0 / _LEAST or saturation == np.inf):
        raise CounterrankError(
            f"saturation={brief(saturation)}: expected a number of examinations above 0, or math.inf for no saturation"
        )
    return float(saturation)
