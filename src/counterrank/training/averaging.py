"""One linear ranker of many: the mean of their directions."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from counterrank.common.checks import FloatArray
from counterrank.common.parallel import thread_count
from counterrank.data import RankingData
from counterrank.models.linear import LinearModel, linear_importances
from counterrank.models.scaling import Scaler
from counterrank.training.evidence import constant_features
from counterrank.training.ranker import Ranker, shares


def mean_ranker(groups: Sequence[Sequence[Ranker]], data: RankingData) -> Ranker:
    """The mean over groups of the mean direction of each group's coefficients.

    Scores may be multiplied by any positive number without changing a ranking, so each coefficient vector is taken by
    its direction. What some rankers learned from the noise of their part of the clicks cancels in the mean. History,
    step size and best epoch are told of the first group.

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
