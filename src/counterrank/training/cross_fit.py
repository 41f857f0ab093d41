"""Learning with several estimators over folds of queries, each judged by clicks that it did not learn from."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from counterrank.common.checks import FloatArray, IntArray, make_generator
from counterrank.common.errors import ConstantFeaturesError, CounterrankError, NothingToLearnError
from counterrank.common.parallel import thread_count
from counterrank.common.progress import progress, watched
from counterrank.data import RankingData
from counterrank.estimators.relevance import SATURATION, Relevance, relevance_of
from counterrank.estimators.shrinkage import most_likely, shrunk
from counterrank.training.candidates import Candidate
from counterrank.training.evidence import check_evidence, check_varying, score_judge
from counterrank.training.pool import Pool
from counterrank.training.ranker import Ranker

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
    numbers = _deal(pool.data, folds, generator)
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
            likely = most_likely(rest.seen, relevance.values)
            judged[rows] = shrunk(held.seen, relevance.predict(held.data), likely)
            for trial in trials:
                _learn(trial, ranker, rest, relevance, likely, held.data, judged[rows], rows)
                advance(1)
    if trials[0].failure is not None and all(trial.failure for trial in trials):
        raise trials[0].failure
    return CrossFit(trials, judged)


def judge(found: CrossFit, data: RankingData, metric: str, threads: int) -> list[FloatArray | None]:
    """Each query's part in the metric of each candidate, larger is better; None of those that failed."""
    value = score_judge(metric, data, check_evidence(found.weights, data, "held-out "))
    return [None if trial.failure else value(trial.scores, threads) for trial in found.trials]


def _learn(
    trial: Trial, ranker: Ranker, rest: Pool, relevance: Relevance, likely: float, held: RankingData,
    judged: FloatArray, rows: Any,
) -> None:  # fmt: skip
    """Add the ranker of one fold; one that cannot be learned ends the trial.

    Where the features vary in queries of this fold alone, the others give no ranker, and its documents tie.

    The first fold finds the step size where none is given; the weights of the others are of the same kind.
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


def _deal(data: RankingData, folds: int, generator: np.random.Generator) -> IntArray:
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
