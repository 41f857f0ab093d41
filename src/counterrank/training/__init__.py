"""Training: rankers from weighted documents."""

from counterrank.training.clips import BestClip, ClipTrial, fit_best_clip
from counterrank.training.ranker import Ranker

__all__ = ["BestClip", "ClipTrial", "Ranker", "fit_best_clip"]
