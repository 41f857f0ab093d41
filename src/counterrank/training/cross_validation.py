"""Cross-validation over queries: chooses estimators and their hyperparameters by held-out clicks.

Each candidate is trained on all folds of queries but one and evaluated on the held-out fold; linear rankers that are
not clearly worse than the best are averaged. The learning rate is searched once, and candidates that are clearly behind
after the first folds are dropped.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, NamedTuple, cast

import numpy as np

from counterrank.common.checks import BoolArray, FloatArray, IntArray, check_type, make_generator
from counterrank.common.errors import ConstantFeaturesError, CounterrankError, NothingToLearnError
from counterrank.common.numerics import student_quantile
from counterrank.common.parallel import thread_count
from counterrank.common.progress import progress, watched
from counterrank.data import RankingData
from counterrank.estimators.evidence import Evidence
from counterrank.estimators.model_assisted import most_likely_strength, shrunken_weights
from counterrank.estimators.propensities import check_clip
from counterrank.estimators.registry import ESTIMATORS, Estimator, checked_hyperparameters
from counterrank.estimators.relevance import SATURATION, Examinations, relevance_of
from counterrank.evaluation import higher_is_better
from counterrank.models.linear import LinearModel, linear_importances
from counterrank.models.model import Scaler
from counterrank.training.population import Member, fit_each
from counterrank.training.problem import (
    aligned_with,
    check_varying,
    check_weights,
    constant_features,
    kind_of,
    query_metric,
)
from counterrank.training.ranker import Ranker, shares


@dataclass(frozen=True)
class Candidate:
    """An estimator that has `assisted`, and its hyperparameters.

    `multiple`, of the most likely strength, is the value of `Estimator.scaled` where that is not given.
    """

    estimator: Estimator
    hyperparameters: Mapping[str, float] = field(default_factory=dict)
    multiple: float = 1.0

    def weigh(self, seen: Examinations, relevance: FloatArray, likely: float) -> FloatArray:
        """Weights of documents, with their predicted relevance and the most likely strength of the prediction."""
        assert self.estimator.assisted is not None
        return self.estimator.assisted(seen, relevance, likely, **self.settings(likely))

    def settings(self, likely: float) -> dict[str, float]:
        """The hyperparameters that are used, where this is the most likely strength."""
        scaled = self.estimator.scaled
        if scaled and scaled not in self.hyperparameters:
            return {**self.hyperparameters, scaled: self.multiple * likely}
        return dict(self.hyperparameters)


def candidates(estimator: Estimator, given: Mapping[str, Any]) -> list[Candidate]:
    """The candidates of cross-validation: one estimator with its defaults, or all that it chooses from.

    A hyperparameter that is given is the only value tried.

    >>> [dict(each.hyperparameters) for each in candidates(ESTIMATORS["doubly-robust"], {})]
    [{'tau': 0.03}]
    >>> len(candidates(ESTIMATORS["auto"], {})), len(candidates(ESTIMATORS["auto"], {"tau": 0.1}))
    (7, 6)
    """
    found = checked_hyperparameters(estimator, given)
    check_clip(found.get("clip"))  # cross-validation does not choose a clip
    if not estimator.candidates:
        if estimator.assisted is None:
            raise CounterrankError(
                f"estimator {estimator.name!r}: cannot be cross-validated; expected folds=None and no relevance model"
            )
        return _grid(estimator, found)[:1]
    added = [name for name, each in ESTIMATORS.items() if each.assisted and name not in estimator.candidates]
    return [each for name in (*estimator.candidates, *added) for each in _grid(ESTIMATORS[name], found)]


def _grid(estimator: Estimator, given: Mapping[str, Any]) -> list[Candidate]:
    """The estimator at each point of its grid, with those hyperparameters that are given and its own."""
    own = {name: value for name, value in given.items() if name in estimator.hyperparameters}
    free = [name for name in estimator.grid if name not in own]
    found = []
    for values in product(*(estimator.grid[name] for name in free)):
        point = dict(zip(free, values, strict=True))
        multiple = point.pop(estimator.scaled, 1.0)
        found.append(Candidate(estimator, own | point, multiple))
    return found


class Pool(NamedTuple):
    """Queries, and how often each of their documents was examined and clicked."""

    data: RankingData
    seen: Examinations

    def part(self, queries: IntArray) -> Pool:
        """Some of the queries, by their numbers in rising order."""
        chosen = np.zeros(self.data.n_queries, np.bool_)
        chosen[queries] = True
        rows = np.repeat(chosen, self.data.lengths)
        return Pool(self.data.subset(queries), Examinations(*(values[rows] for values in self.seen)))


def examine(data: Any, evidence: Evidence, name: str = "clicks") -> Pool:
    """The examinations and clicks of one part of the data."""
    evidence.clicks.check_data(check_type(data, RankingData, "data"), name)
    return Pool(data, evidence.examinations)


def join(pools: Sequence[Pool]) -> Pool:
    """All queries that have sessions; the others have no evidence, and would make folds uneven."""
    used = [_with_sessions(pool) for pool in pools]
    if len(used) == 1:
        return used[0]
    first = used[0].data
    parts = [first, *(aligned_with(first, pool.data) for pool in used[1:])]
    offsets = np.concatenate(([0], np.cumsum(np.concatenate([part.lengths for part in parts]))))
    names = first.feature_names if first.has_feature_names else None
    data = RankingData(np.concatenate([part.features for part in parts]), offsets, feature_names=names)
    columns = zip(*(pool.seen for pool in used), strict=True)
    return Pool(data, Examinations(*(np.concatenate(column) for column in columns)))


def has_sessions(pool: Pool) -> BoolArray:
    """Whether each query has documents that were examined."""
    return np.asarray(np.add.reduceat(pool.seen.times, pool.data.offsets[:-1]) > 0.0)


def _with_sessions(pool: Pool) -> Pool:
    used = np.flatnonzero(has_sessions(pool))
    return pool if len(used) == pool.data.n_queries else pool.part(used)


INNER_FOLDS = 5  # of the model of relevance, among the queries that are learned from

# of the patience; the mean over folds makes up for rankers that stop a little early
_PATIENCE = 0.25
# A search tells the learning rate to about a power of ten. So folds use several around it, in powers of ten, and the
# ranker is the mean over them. All candidates of a fold have the same.
_RATE_POWERS = (0.0, -0.5, 0.5, -1.0, 0.0)
# two-sided confidence at which a candidate is behind the best before it is dropped; a wrong drop cannot be undone
_DROP_CONFIDENCE = 0.999


@dataclass
class Trial:
    """The rankers of one candidate, one for each fold, their seed, and their scores of the held-out documents.

    Or its failure; or its result on the first folds, if it was dropped after them.
    """

    candidate: Candidate
    scores: FloatArray
    seed: int | np.random.Generator = 0
    rankers: list[Ranker] = field(default_factory=list)
    failure: CounterrankError | None = None
    dropped: CandidateResult | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is trained on all folds so far."""
        return self.failure is None and self.dropped is None


@dataclass(frozen=True)
class CrossFit:
    """The trials of all candidates, and doubly robust weights of all documents to evaluate them with."""

    trials: list[Trial]
    weights: FloatArray


def cross_fit(
    ranker: Ranker, pool: Pool, wanted: Sequence[Candidate], model: Any, folds: int, seed: int, default: int = 0
) -> CrossFit:
    """Cross-validate all candidates; `default` is the number of the one that is trained first and never dropped.

    The held-out fold has no part in the model of relevance, in its strength, or in the training weights. It stops the
    training early and evaluates the candidates, with the weights of `shrinkage` with strength m,

        n R + (clicks - E R) n / (E + m),

    which are doubly robust with a correction that fades where a document was hardly ever examined.

    The first linear ranker, the default on the first fold, searches for the learning rate, in multiples of its natural
    one. The others take about the same multiple of theirs, see `_RATE_POWERS`, and stop sooner, see `_PATIENCE`. Linear
    rankers of each candidate have their own order of queries, so that its noise averages out over candidates too.
    """
    check_varying(pool.data, thread_count(ranker.threads))  # so that at least one fold gives a ranker
    generator = make_generator(seed)
    numbers = _assign_folds(pool.data, folds, generator)
    n = int(numbers.max()) + 1
    is_linear = kind_of(ranker.model).name == "linear"
    seeds = [ranker.seed] * len(wanted)
    if is_linear:
        seeds = make_generator(ranker.seed).integers(2**63, size=len(wanted)).tolist()
    trials = [Trial(one, np.zeros(pool.data.n_docs), own) for one, own in zip(wanted, seeds, strict=True)]
    in_turn = [trials[default], *trials[:default], *trials[default + 1 :]]
    weights = np.zeros(pool.data.n_docs)
    multiple: float | None = None
    with progress("learning over folds", n * len(wanted)) as advance, watched(lambda done, total: None):
        for fold in range(n):
            rest, held = pool.part(np.flatnonzero(numbers != fold)), pool.part(np.flatnonzero(numbers == fold))
            rows = np.repeat(numbers == fold, pool.data.lengths)
            if not rest.seen.clicks.any():
                raise NothingToLearnError(
                    "clicks: in so few queries that a fold holds all of them; expected some to train on and some to "
                    "hold out"
                )
            relevance = relevance_of(rest.data, rest.seen, model, SATURATION, INNER_FOLDS, generator)
            likely = most_likely_strength(rest.seen, relevance.values)
            weights[rows] = shrunken_weights(held.seen, relevance.predict(held.data), likely)
            waiting = [trial for trial in in_turn if trial.is_open]
            advance(len(trials) - len(waiting))
            while waiting:  # one linear ranker searches for the learning rate, then all others are trained together
                now = waiting if is_linear and multiple is not None else waiting[:1]
                waiting = waiting[len(now) :]
                learner = _learner(ranker, multiple, fold)
                own = [trial.candidate.weigh(rest.seen, relevance.values, likely) for trial in now]
                found = _train_fold(now, learner, rest.data, own, (held.data, weights[rows]), rows)
                multiple = multiple or found
                advance(len(now))
            if fold + 1 < n:
                _drop_behind(trials, default, pool.data, weights, numbers <= fold, fold + 1)
    failures = [trial.failure for trial in trials if trial.failure is not None]
    if failures and not any(trial.is_open for trial in trials):
        raise failures[0]
    return CrossFit(trials, weights)


def _learner(ranker: Ranker, multiple: float | None, fold: int) -> Ranker:
    """An untrained copy; a linear one has a learning rate near the one that was found, if there is one."""
    learner, kind = copy.copy(ranker), kind_of(ranker.model)
    if kind.name == "linear" and multiple is not None:
        learner._rate_multiple = multiple * 10.0 ** _RATE_POWERS[fold % len(_RATE_POWERS)]
        patience = kind.patience if ranker.patience is None else ranker.patience
        learner.patience = max(1, round(_PATIENCE * patience))
    return learner


def _train_fold(
    trials: Sequence[Trial], learner: Ranker, data: RankingData, weights: Sequence[FloatArray],
    held_out: tuple[RankingData, FloatArray], rows: Any,
) -> float | None:  # fmt: skip
    """Add the rankers of one fold, trained as a population; where training fails, so does the trial.

    Where features vary only in queries of this fold, there is no ranker for it, and its documents tie. Returns the
    learning rate of the first linear ranker, as a multiple of its natural one.
    """
    members = []
    for trial, own in zip(trials, weights, strict=True):
        one = copy.copy(learner)
        one.seed = trial.seed
        members.append(Member(one, own))
    try:
        fitted = fit_each(data, members, held_out, threads=learner.threads)
    except ConstantFeaturesError:
        return None
    multiple = None
    for trial, ranker in zip(trials, fitted, strict=True):
        if isinstance(ranker, ConstantFeaturesError):
            continue
        if isinstance(ranker, CounterrankError):
            trial.failure = ranker
            trial.rankers.clear()
            continue
        trial.rankers.append(ranker)
        trial.scores[rows] = ranker.predict(held_out[0])
        multiple = multiple or ranker._found_multiple
    return multiple


def _drop_behind(
    trials: Sequence[Trial], default: int, data: RankingData, weights: FloatArray, seen: Any, folds: int
) -> None:
    """Drop candidates that are behind the best on the folds seen so far, by Student's t over their queries.

    The limit is higher than that of `standings`: a candidate that would be kept after all folds is rarely dropped. The
    default stays, since a model of another kind than linear falls back on it.
    """
    rankers = [trial.rankers[0] for trial in trials if trial.is_open and trial.rankers]
    rows, queries = np.repeat(seen, data.lengths), np.flatnonzero(seen)
    if len(rankers) < 2 or len(queries) < 2 or not weights[rows].any():
        return
    metric, threads = rankers[0].metric_, thread_count(rankers[0].threads)
    part = data.subset(queries)
    value = query_metric(metric, part, check_weights(weights[rows], part, "held-out "))
    parts = [value(trial.scores[rows], threads) if trial.is_open else None for trial in trials]
    limit = student_quantile(_DROP_CONFIDENCE, len(queries) - 1)
    for number, result in enumerate(standings(parts, 1.0 if higher_is_better(metric) else -1.0)):
        if parts[number] is not None and number != default and result.behind > limit * result.error:
            trials[number].dropped = replace(result, value=None, kept=False, dropped_after=folds)


def evaluate_trials(found: CrossFit, data: RankingData, metric: str, threads: int) -> list[FloatArray | None]:
    """Each query's part in the metric of each candidate, larger is better; None of those not trained on all folds."""
    value = query_metric(metric, data, check_weights(found.weights, data, "held-out "))
    return [value(trial.scores, threads) if trial.is_open else None for trial in found.trials]


def _assign_folds(data: RankingData, folds: int, generator: np.random.Generator) -> IntArray:
    """The fold of each query."""
    if data.n_queries < 3:
        raise CounterrankError(
            f"clicks: sessions of {data.n_queries} quer{'y' if data.n_queries == 1 else 'ies'}; expected at least "
            "three, to train on some and hold out others"
        )
    n = min(folds, data.n_queries) if data.n_queries > 3 else 3  # at least two are trained on
    numbers: IntArray = np.empty(data.n_queries, np.int64)
    numbers[generator.permutation(data.n_queries)] = np.arange(data.n_queries) % n
    return numbers


# a candidate that is behind the best by more standard errors than this is left out of the average
_APART = 2.0
# where one model is fitted, a candidate must be ahead of the default by more standard errors than this
_SURELY = 1.0


@dataclass(frozen=True)
class CandidateResult:
    """How a candidate did on held-out clicks, as `Tried` has it."""

    value: float | None
    behind: float
    error: float
    kept: bool
    dropped_after: int | None = None


def standings(parts: Sequence[FloatArray | None], sign: float) -> list[CandidateResult]:
    """Compare candidates by paired differences over queries; those that are not clearly behind are kept.

    >>> good, close, bad = np.array([[3.0, 1.0, 2.0], [1.0, 3.0, 1.5], [0.0, 0.1, 0.3]])
    >>> [each.kept for each in standings([good, close, bad, None], 1.0)]
    [True, True, False, False]
    """
    best = max((part for part in parts if part is not None), key=np.sum)
    found = []
    for part in parts:
        if part is None:
            found.append(CandidateResult(None, np.inf, 0.0, False))
            continue
        behind, error = difference(best, part)
        found.append(CandidateResult(sign * float(part.sum()), behind, error, behind <= _APART * error))
    return found


def choose_one(parts: Sequence[FloatArray | None], default: int) -> int:
    """The number of the only one to keep: the default, unless another is better by more than a standard error.

    >>> default, better = np.array([[1.0, 1.0, 1.2], [1.5, 1.6, 1.6]])
    >>> choose_one([default, better], 0), choose_one([default, default + [0.1, -0.1, 0.0]], 0)
    (1, 0)
    """
    values = [-np.inf if part is None else float(part.sum()) for part in parts]
    base = parts[default]
    if base is None:
        return int(np.argmax(values))
    for number in np.argsort(values)[::-1].tolist():
        part = parts[number]
        if part is not None:
            ahead, error = difference(part, base)
            if ahead > _SURELY * error:
                return int(number)
    return default


def difference(one: FloatArray, other: FloatArray) -> tuple[float, float]:
    """How much better one is than the other, and the standard error of that."""
    each = one - other
    n = len(each)
    return float(each.sum()), float(np.sqrt(n * each.var(ddof=1))) if n > 1 else 0.0


def mean_ranker(groups: Sequence[Sequence[Ranker]], data: RankingData) -> Ranker:
    """The mean over groups of the mean direction of each group's coefficients.

    Scores may be multiplied by any positive number without changing a ranking, so each coefficient vector is taken by
    its direction. What rankers learned from the noise of their clicks cancels in the mean. History, learning rate and
    best epoch are those of the first group.

    >>> data = RankingData([[0.0, 1.0], [1.0, 0.0]], [0, 2])
    >>> rankers = [Ranker("arp-hinge", max_epochs=n).fit(data, [0.0, 1.0]) for n in (1, 3)]
    >>> mean_ranker([rankers], data).predict(data).argsort().tolist()
    [0, 1]
    """
    first = groups[0][0]
    threads = thread_count(first.threads)
    scaler = Scaler.learn(cast(LinearModel, first.model_).scaler.kind, data, threads)
    mean = np.mean([_direction(np.mean([_coefficients(one, scaler) for one in group], axis=0)) for group in groups], 0)
    result = copy.copy(first)
    result._rate_multiple = None
    result.model_ = LinearModel(mean, scaler)
    result._importances = shares(linear_importances(data, mean, scaler.scales(data, threads), threads))
    result.constant_features_ = constant_features(data, threads)
    result.learning_rate_ = float(np.median([one.learning_rate_ for one in groups[0]]))
    result.best_epoch_ = int(np.median([one.best_epoch_ for one in groups[0]]))
    result.history_ = mean_history(groups[0])
    return result


def mean_history(rankers: Sequence[Ranker]) -> list[dict[str, Any]]:
    """For each epoch the mean over the rankers that reached it, and the seconds of all."""
    found = []
    for epoch in range(max(len(one.history_) for one in rankers)):
        rows = [one.history_[epoch] for one in rankers if epoch < len(one.history_)]
        seen = [row["validation"] for row in rows if row["validation"] is not None]
        found.append(
            {
                "epoch": epoch + 1,
                "loss": float(np.mean([row["loss"] for row in rows])),
                "validation": float(np.mean(seen)) if seen else None,
                "seconds": float(sum(row["seconds"] for row in rows)),
            }
        )
    return found


def _coefficients(ranker: Ranker, scaler: Scaler) -> FloatArray:
    """The direction of a ranker's coefficients, for features scaled as by `scaler`.

    A fold has its own means and deviations. Means do not change a ranking; deviations become those of all queries,
    among which a feature varies that varies in some fold.
    """
    model = cast(LinearModel, ranker.model_)
    ratio = np.divide(model.scaler.inverse, scaler.inverse, out=np.zeros(model.n_features), where=scaler.inverse > 0.0)
    return _direction(model.coefficients * ratio)


def _direction(coefficients: FloatArray) -> FloatArray:
    length = float(np.linalg.norm(coefficients))
    return coefficients / length if length > 0.0 else coefficients
