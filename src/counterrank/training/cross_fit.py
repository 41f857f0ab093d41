"""Cross-validation of estimators over folds of queries: candidates, training, comparison, and the averaged ranker."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np

from counterrank.common.checks import FloatArray, IntArray, make_generator
from counterrank.common.errors import ConstantFeaturesError, CounterrankError, NothingToLearnError
from counterrank.common.parallel import thread_count
from counterrank.common.progress import progress, watched
from counterrank.data import RankingData
from counterrank.estimators.evidence import Evidence
from counterrank.estimators.model_assisted import check_strength, check_tau, most_likely_strength, shrunken_weights
from counterrank.estimators.propensities import check_clip
from counterrank.estimators.registry import ESTIMATORS, Estimator
from counterrank.estimators.relevance import SATURATION, Examinations, Relevance, relevance_of
from counterrank.models.linear import LinearModel, linear_importances
from counterrank.models.model import Scaler
from counterrank.training.problem import check_data, check_varying, check_weights, constant_features, query_metric
from counterrank.training.ranker import Ranker, shares

# What "auto" tries. Strengths are multiples of the most likely one: learning to rank forgives a bias that the documents
# of a query share, and needs less variance than the estimate that is best for each document alone.
_MULTIPLES = (1.0, 3.0, 10.0)
_TAUS = (0.03, 0.01)
ASSISTED = ("auto", "policy-aware", "direct", "doubly-robust", "shrinkage")


@dataclass(frozen=True)
class Candidate:
    """An estimator and its hyperparameters.

    Attributes:
        estimator: one that has `assisted`.
        hyperparameters: by name.
        multiple: of the most likely strength, for shrinkage without a strength of its own.
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
        if self.estimator.name == "shrinkage" and "strength" not in self.hyperparameters:
            return {"strength": self.multiple * likely}
        return dict(self.hyperparameters)


def candidates(estimator: Estimator, given: Mapping[str, Any]) -> list[Candidate]:
    """What to try: all for "auto", else the one that was named. A hyperparameter that is given is the only one tried.

    >>> [dict(each.hyperparameters) for each in candidates(ESTIMATORS["doubly-robust"], {})]
    [{'tau': 0.03}]
    >>> len(candidates(ESTIMATORS["auto"], {})), len(candidates(ESTIMATORS["auto"], {"tau": 0.1}))
    (7, 6)
    """
    found = estimator.check_hyperparameters(given)
    if "tau" in found:
        found["tau"] = check_tau(found["tau"])
    if "strength" in found:
        found["strength"] = check_strength(found["strength"])
    if "clip" in found:
        found["clip"] = check_clip(found["clip"])
    taus = (found["tau"],) if "tau" in found else _TAUS

    def own(name: str) -> dict[str, float]:
        return {key: value for key, value in found.items() if key in ESTIMATORS[name].hyperparameters}

    if estimator.name == "doubly-robust":
        return [Candidate(estimator, {"tau": taus[0]})]
    if estimator.name != "auto":
        return [Candidate(estimator, found)]
    multiples = (1.0,) if "strength" in found else _MULTIPLES
    tried = [Candidate(ESTIMATORS["shrinkage"], own("shrinkage"), multiple) for multiple in multiples]
    tried.append(Candidate(ESTIMATORS["direct"]))
    tried += [Candidate(ESTIMATORS["doubly-robust"], {"tau": tau}) for tau in taus]
    tried.append(Candidate(ESTIMATORS["policy-aware"], own("policy-aware")))
    added = [each for each in ESTIMATORS.values() if each.assisted is not None and each.name not in ASSISTED]
    return [*tried, *(Candidate(each) for each in added)]


class Pool(NamedTuple):
    """Queries that were asked, and what happened to each of their documents."""

    data: RankingData
    seen: Examinations

    def part(self, queries: IntArray) -> Pool:
        """Some of the queries, by their numbers in rising order."""
        chosen = np.zeros(self.data.n_queries, np.bool_)
        chosen[queries] = True
        rows = np.repeat(chosen, self.data.lengths)
        return Pool(self.data.subset(queries), Examinations(*(values[rows] for values in self.seen)))


def examine(data: Any, evidence: Evidence, name: str = "clicks") -> Pool:
    """What happened to the documents of one part of the data."""
    evidence.clicks.check_data(check_data(data, "data"), name)
    return Pool(data, evidence.examinations)


def join(pools: Sequence[Pool]) -> Pool:
    """The queries of all that were asked at all; the others tell nothing, and would make folds uneven."""
    asked = [_asked(pool) for pool in pools]
    if len(asked) == 1:
        return asked[0]
    widths = {pool.data.n_features for pool in asked}
    if len(widths) > 1:
        raise CounterrankError(f"validation: {max(widths)} features and {min(widths)}; expected as many as in data")
    lengths = np.concatenate([pool.data.lengths for pool in asked])
    data = RankingData(
        np.concatenate([pool.data.features for pool in asked]), np.concatenate(([0], np.cumsum(lengths)))
    )
    columns = zip(*(pool.seen for pool in asked), strict=True)
    return Pool(data, Examinations(*(np.concatenate(column) for column in columns)))


def _asked(pool: Pool) -> Pool:
    asked = np.flatnonzero(np.add.reduceat(pool.seen.times, pool.data.offsets[:-1]) > 0.0)
    return pool if len(asked) == pool.data.n_queries else pool.part(asked)


INNER_FOLDS = 5  # of the model of relevance, among the queries that are learned from


@dataclass
class Trial:
    """What came of one candidate.

    Attributes:
        candidate: the estimator and its settings.
        rankers: one for each fold, learned from the others.
        scores: of the documents of each fold by its ranker.
        failure: why there are none, or None.
    """

    candidate: Candidate
    scores: FloatArray
    rankers: list[Ranker] = field(default_factory=list)
    failure: CounterrankError | None = None


@dataclass(frozen=True)
class CrossFit:
    """All candidates, and what they are judged by.

    Attributes:
        trials: in the order of the candidates.
        weights: doubly robust weights of all documents, each from the clicks of its query and a model of relevance that
            saw the other folds only.
    """

    trials: list[Trial]
    weights: FloatArray


def cross_fit(ranker: Ranker, pool: Pool, wanted: Sequence[Candidate], model: Any, folds: int, seed: int) -> CrossFit:
    """Learn with every candidate over the folds.

    What is held out has no part in the model of relevance, in its strength, or in the weights that are learned from. It
    stops the training early, and is what candidates are compared by, with the weights

        n R + (clicks - E R) n / (E + m)

    which is doubly robust with a correction that fades where a document was hardly ever examined; the same is
    `shrinkage` with strength m.
    """
    check_varying(pool.data, thread_count(ranker.threads))  # so that at least one fold gives a ranker
    generator = make_generator(seed)
    numbers = _assign_folds(pool.data, folds, generator)
    n = int(numbers.max()) + 1
    trials = [Trial(candidate, np.zeros(pool.data.n_docs)) for candidate in wanted]
    judged = np.zeros(pool.data.n_docs)
    with progress("learning over folds", n * len(wanted)) as advance, watched(lambda done, total: None):
        for fold in range(n):
            rest, held = pool.part(np.flatnonzero(numbers != fold)), pool.part(np.flatnonzero(numbers == fold))
            rows = np.repeat(numbers == fold, pool.data.lengths)
            if not rest.seen.clicks.any():
                raise NothingToLearnError(
                    "clicks: in so few queries that a fold holds all of them; expected some to learn from and some to "
                    "judge by"
                )
            relevance = relevance_of(rest.data, rest.seen, model, SATURATION, INNER_FOLDS, generator)
            likely = most_likely_strength(rest.seen, relevance.values)
            judged[rows] = shrunken_weights(held.seen, relevance.predict(held.data), likely)
            for trial in trials:
                _learn(trial, ranker, rest, relevance, likely, held.data, judged[rows], rows)
                advance(1)
    if trials[0].failure is not None and all(trial.failure for trial in trials):
        raise trials[0].failure
    return CrossFit(trials, judged)


def evaluate_trials(found: CrossFit, data: RankingData, metric: str, threads: int) -> list[FloatArray | None]:
    """Each query's part in the metric of each candidate, larger is better; None of those that failed."""
    value = query_metric(metric, data, check_weights(found.weights, data, "held-out "))
    return [None if trial.failure else value(trial.scores, threads) for trial in found.trials]


def _learn(
    trial: Trial, ranker: Ranker, rest: Pool, relevance: Relevance, likely: float, held: RankingData,
    judged: FloatArray, rows: Any,
) -> None:  # fmt: skip
    """Add the ranker of one fold; one that cannot be learned ends the trial.

    Where the features vary in queries of this fold alone, the others give no ranker, and its documents tie.

    The first fold finds the learning rate where none is given; the weights of the others are of the same kind.
    """
    if trial.failure:
        return
    learner = copy.copy(ranker)
    if trial.rankers:
        learner.learning_rate = trial.rankers[0].learning_rate_
    try:
        learner.fit(rest.data, trial.candidate.weigh(rest.seen, relevance.values, likely), validation=(held, judged))
    except ConstantFeaturesError:
        return
    except CounterrankError as error:
        trial.failure = error
        trial.rankers.clear()
        return
    trial.rankers.append(learner)
    trial.scores[rows] = learner.predict(held)


def _assign_folds(data: RankingData, folds: int, generator: np.random.Generator) -> IntArray:
    """The fold of each query."""
    if data.n_queries < 3:
        raise CounterrankError(
            f"clicks: sessions of {data.n_queries} quer{'y' if data.n_queries == 1 else 'ies'}; expected at least "
            "three, to learn from some and judge by others"
        )
    n = min(folds, data.n_queries) if data.n_queries > 3 else 3  # the others must be two at least
    numbers: IntArray = np.empty(data.n_queries, np.int64)
    numbers[generator.permutation(data.n_queries)] = np.arange(data.n_queries) % n
    return numbers


# a candidate that is behind the best by more standard errors is left out of the average
_APART = 2.0
# what stays one model needs more than luck to leave the usual choice
_SURELY = 1.0


@dataclass(frozen=True)
class CandidateResult:
    """How a candidate did on held-out clicks.

    Attributes:
        value: its metric, in its natural sign; None if it could not be learned.
        behind: how far it is behind the best, 0 or more.
        error: the standard error of that, over queries.
        kept: whether the ranker is made of it.
    """

    value: float | None
    behind: float
    error: float
    kept: bool


def standings(parts: Sequence[FloatArray | None], sign: float) -> list[CandidateResult]:
    """Compare by paired differences over queries; kept is who is not clearly behind.

    >>> good, close, bad = np.array([[3.0, 1.0, 2.0], [1.0, 3.0, 1.5], [0.0, 0.1, 0.3]])
    >>> [each.kept for each in standings([good, close, bad, None], 1.0)]
    [True, True, False, False]
    """
    values = [-np.inf if part is None else float(part.sum()) for part in parts]
    best = parts[int(np.argmax(values))]
    assert best is not None
    found = []
    for part, value in zip(parts, values, strict=True):
        if part is None:
            found.append(CandidateResult(None, np.inf, 0.0, False))
            continue
        behind, error = difference(best, part)
        found.append(CandidateResult(sign * value, behind, error, behind <= _APART * error))
    return found


def choose_one(parts: Sequence[FloatArray | None], usual: int) -> int:
    """The number of the only one to keep: the usual one unless another is better by more than luck.

    >>> usual, better = np.array([[1.0, 1.0, 1.2], [1.5, 1.6, 1.6]])
    >>> choose_one([usual, better], 0), choose_one([usual, usual + [0.1, -0.1, 0.0]], 0)
    (1, 0)
    """
    values = [-np.inf if part is None else float(part.sum()) for part in parts]
    old = parts[usual]
    if old is None:
        return int(np.argmax(values))
    for number in np.argsort(values)[::-1].tolist():
        part = parts[number]
        if part is not None:
            ahead, error = difference(part, old)
            if ahead > _SURELY * error:
                return int(number)
    return usual


def difference(one: FloatArray, other: FloatArray) -> tuple[float, float]:
    """How much better one is than the other, and the standard error of that."""
    each = one - other
    n = len(each)
    return float(each.sum()), float(np.sqrt(n * each.var(ddof=1))) if n > 1 else 0.0


def mean_ranker(groups: Sequence[Sequence[Ranker]], data: RankingData) -> Ranker:
    """The mean over groups of the mean direction of each group's coefficients.

    Scores may be multiplied by any positive number without changing a ranking, so each coefficient vector is taken by
    its direction. What some rankers learned from the noise of their part of the clicks cancels in the mean. History,
    learning rate and best epoch are told of the first group.

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
    result.model_ = LinearModel(mean, scaler)
    result._importances = shares(linear_importances(data, mean, scaler.scales(data, threads), threads))
    result.constant_features_ = constant_features(data, threads)
    result.learning_rate_ = float(np.median([one.learning_rate_ for one in groups[0]]))
    result.best_epoch_ = int(np.median([one.best_epoch_ for one in groups[0]]))
    result.history_ = mean_history(groups[0])
    return result


def mean_history(rankers: Sequence[Ranker]) -> list[dict[str, Any]]:
    """Epoch by epoch the mean of the rankers that got so far, and the seconds of all."""
    longest = max(len(one.history_) for one in rankers)
    found = []
    for epoch in range(longest):
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

    A fold has its own means and deviations. Means do not change a ranking; deviations are brought into line with those
    of all queries, among which a feature varies that varies in some fold.
    """
    model = cast(LinearModel, ranker.model_)
    ratio = np.divide(model.scaler.inverse, scaler.inverse, out=np.zeros(model.n_features), where=scaler.inverse > 0.0)
    return _direction(model.coefficients * ratio)


def _direction(coefficients: FloatArray) -> FloatArray:
    length = float(np.linalg.norm(coefficients))
    return coefficients / length if length > 0.0 else coefficients
