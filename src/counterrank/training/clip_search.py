"""The search for a clip: a ranker for each, and the best of them by unclipped validation clicks."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.counts import ClickCounts
from counterrank.common.checks import check_type, make_generator
from counterrank.common.errors import CounterrankError
from counterrank.data import RankingData
from counterrank.estimators import Views
from counterrank.estimators.propensities import check_clip
from counterrank.evaluation import higher_is_better
from counterrank.training.population import Member, fit_each
from counterrank.training.problem import check_pair
from counterrank.training.ranker import Ranker


@dataclass(frozen=True)
class ClipTrial:
    """A clip, and the result of training with it.

    Attributes:
        clip: the cap on 1 / propensity of each training click; None for no cap.
        validation: the validation metric of the ranker trained with it, in its natural sign; None if training failed.
        error: why training failed, or None.
    """

    clip: float | None
    validation: float | None
    error: str | None = None


@dataclass(frozen=True)
class BestClip:
    """The ranker with the best clip, and the results of all clips.

    Attributes:
        ranker: trained with `clip`.
        clip: the best one; None for no cap.
        metric: the validation metric.
        trials: one for each clip, from the smallest to no cap.
    """

    ranker: Ranker
    clip: float | None
    metric: str
    trials: tuple[ClipTrial, ...]


def fit_best_clip(
    ranker: Ranker,
    data: RankingData,
    weigh: Callable[..., ArrayLike | Views],
    clips: Sequence[float | None],
    *,
    validation: tuple[RankingData, ArrayLike | Views],
    shared_learning_rate: bool = False,
    one_race: bool | None = None,
    clicks: Sequence[ClickCounts] | None = None,
) -> BestClip:
    """Train a copy of the ranker for each clip and keep the one with the best validation metric.

    Clipping makes training weights less noisy and more biased. Only unclipped clicks show where the balance lies: the
    metric of clipped ones would be best where there is least to get wrong.

    Arguments:
        ranker: an untrained one; it is not changed itself.
        data: the queries to learn from.
        weigh: from `clip=` to the weights to learn from: an estimator with its other arguments filled in, such as
            `functools.partial(estimators.policy_aware, clicks, rho)`.
        clips: numbers above 0, None for no clip; `estimators.clip_grid` makes a sensible few of the clicks.
        validation: other queries and their weights *without* a clip.
        shared_learning_rate: with `learning_rate="auto"`, search for the largest clip only and use the result for all;
            this saves most of the time.
        one_race: the old name of `shared_learning_rate`, deprecated.
        clicks: those that the weights come from, as for `Ranker.fit`.

    Returns:
        The best ranker, its clip, and the table of all. Of equally good clips the smallest is kept. A clip with which
        training fails (say, a fixed learning rate diverges) is left out, with its error in the table; if all fail, the
        first error is raised.

    >>> data = RankingData([[0.0, 1.0], [1.0, 0.0], [1.0, 0.5], [0.0, 1.0]], offsets=[0, 2, 4])
    >>> def weigh(clip):  # nine clicks of propensity 1, one of 0.01
    ...     return np.array([0.0, 9.0, 0.0, min(100.0, clip or 100.0)])
    >>> best = fit_best_clip(Ranker("arp-hinge", max_epochs=5), data, weigh, [1, None], validation=(data, weigh(None)))
    >>> best.clip, [(trial.clip, round(trial.validation, 2)) for trial in best.trials]
    (None, [(1.0, 1.92), (None, 1.08)])
    """
    if one_race is not None:
        warnings.warn("one_race is deprecated; use shared_learning_rate", DeprecationWarning, stacklevel=2)
        shared_learning_rate = one_race
    grid = _check_clips(clips)
    check_type(ranker, Ranker, "ranker")
    if not callable(weigh):
        raise CounterrankError(
            f"weigh: {type(weigh).__name__}; expected a function of clip=, such as "
            "functools.partial(policy_aware, clicks, rho)"
        )
    if validation is None:
        raise CounterrankError("validation: None; expected a pair (data, unclipped weights) to compare the clips by")
    check_pair(validation)
    seed = ranker.seed
    if isinstance(seed, np.random.Generator):  # drawn from once, so that all clips see the queries in one order
        seed = int(make_generator(seed).integers(2**63))
    learner = copy.copy(ranker)
    learner.seed = seed
    descending = grid[::-1]
    if shared_learning_rate:
        results = _fit_by_one_rate(learner, data, [weigh(clip=clip) for clip in descending], validation, clicks)
    else:
        members = [Member(learner, weigh(clip=clip)) for clip in descending]
        results = fit_each(data, members, validation, clicks, ranker.threads)
    best: Ranker | None = None
    chosen: float | None = None
    trials: list[ClipTrial] = []
    for clip, result in zip(descending, results, strict=True):
        if not isinstance(result, Ranker):
            trials.append(ClipTrial(clip, None, str(result)))
            continue
        trials.append(ClipTrial(clip, _best_metric(result)))
        sign = 1.0 if higher_is_better(result.metric_) else -1.0
        if best is None or sign * _best_metric(result) >= sign * _best_metric(best):
            best, chosen = result, clip
    if best is None:
        raise next(error for error in reversed(results) if isinstance(error, CounterrankError))
    best.learning_rate = ranker.learning_rate
    return BestClip(best, chosen, best.metric_, tuple(reversed(trials)))


def _fit_by_one_rate(
    ranker: Ranker, data: RankingData, weights: Sequence[ArrayLike | Views], validation: Any, clicks: Any
) -> list[Ranker | CounterrankError]:
    """A ranker for each of the weights, all with the learning rate that the first that can be trained finds."""
    found: list[Ranker | CounterrankError] = []
    learner = copy.copy(ranker)
    for i, each in enumerate(weights, 1):
        found += fit_each(data, [Member(learner, each)], validation, clicks, ranker.threads)
        if isinstance(found[-1], Ranker):
            learner.learning_rate = found[-1].learning_rate_
            others = [Member(learner, other) for other in weights[i:]]
            return found + fit_each(data, others, validation, clicks, ranker.threads)
    return found


def _check_clips(clips: Any) -> list[float | None]:
    """Each clip once, the smallest first and no clip last."""
    if isinstance(clips, str) or not isinstance(clips, Sequence | np.ndarray) or not len(clips):
        raise CounterrankError("clips: expected a list of at least one number above 0, or None for no clip")
    caps = sorted({check_clip(clip) for clip in clips})
    return [cap if cap < np.inf else None for cap in caps]


def _best_metric(ranker: Ranker) -> float:
    """The validation metric of the model that was kept."""
    return float(ranker.history_[ranker.best_epoch_ - 1]["validation"])
