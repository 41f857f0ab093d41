"""Training of rankers: from document weights, or from data and clicks."""

from typing import Any

from counterrank.common.deprecation import deprecated_alias
from counterrank.training.pipeline import (
    BestClip,
    ClipTrial,
    FitReport,
    Tried,
    fit_best_clip,
    fit_from_clicks,
    fit_ranker,
)
from counterrank.training.ranker import Ranker, Scored

__all__ = [
    "BestClip", "ClipTrial", "FitReport", "Ranker", "Scored", "Tried", "fit_best_clip", "fit_from_clicks", "fit_ranker",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    return deprecated_alias(__name__, name, {"FromClicks": FitReport})
