"""What `Ranker.fit` hands to the learner of a kind of model, and what it gets back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from counterrank.common.checks import FloatArray
from counterrank.data import RankingData
from counterrank.losses import NamedLoss
from counterrank.models.base import Model
from counterrank.training.evidence import Evidence


@dataclass(frozen=True)
class Settings:
    """How to learn, after checks and with the model's own defaults filled in.

    Attributes:
        learning_rate: the step size, or None to find or take a good one.
        max_epochs, patience, tolerance: as for `Ranker`.
        batch_queries: queries a step.
        normalize: how features are scaled.
        params: settings that only this kind of model knows.
        threads: how many.
        entropy: what all randomness is drawn from.
    """

    learning_rate: float | None
    max_epochs: int
    patience: int
    tolerance: float
    batch_queries: int
    normalize: str
    params: Mapping[str, Any]
    threads: int
    entropy: int


@dataclass(frozen=True)
class Task:
    """Data and evidence to learn from and to stop by, and the loss to learn with."""

    data: RankingData
    evidence: Evidence
    validation: tuple[RankingData, Evidence] | None
    loss: NamedLoss
    k: int | None
    metric: str
    settings: Settings


@dataclass(frozen=True)
class Learned:
    """A model and how it came about.

    Attributes:
        model: of the best epoch.
        history: one row per epoch, with the metric so that larger is better.
        best_epoch: the epoch whose model it is.
        learning_rate: the step size used.
        importances: how much each feature moves the scores, in any unit; None where the model does not tell.
    """

    model: Model
    history: list[dict[str, float | None]]
    best_epoch: int
    learning_rate: float
    importances: FloatArray | None = None
