"""Training of rankers: from document weights, or from data and clicks."""

from typing import Any

from counterrank.common.deprecation import deprecated_alias
from counterrank.training.blending import Blend, blended
from counterrank.training.clip_search import BestClip, ClipTrial, fit_best_clip
from counterrank.training.pipeline import FitReport, Tried, fit_from_clicks, fit_ranker, fit_rankers
from counterrank.training.population import Member, fit_many
from counterrank.training.promotion import Decision, Pointer, promote, read_ledger, roll_back
from counterrank.training.ranker import Ranker, Scored
from counterrank.training.specialisation import QueryTest, Specialised, specialise

__all__ = [
    "BestClip", "Blend", "ClipTrial", "Decision", "FitReport", "Member", "Pointer", "QueryTest", "Ranker", "Scored",
    "Specialised", "Tried", "blended", "fit_best_clip", "fit_from_clicks", "fit_many", "fit_ranker", "fit_rankers",
    "promote", "read_ledger", "roll_back", "specialise",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    return deprecated_alias(__name__, name, {"FromClicks": FitReport})
