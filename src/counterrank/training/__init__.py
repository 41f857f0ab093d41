"""Training: rankers from weighted documents."""

from counterrank.training.clip_choice import BestClip, ClipTrial, fit_best_clip
from counterrank.training.from_clicks import FromClicks, Tried, fit_from_clicks
from counterrank.training.ranker import Ranker

__all__ = ["BestClip", "ClipTrial", "FromClicks", "Ranker", "Tried", "fit_best_clip", "fit_from_clicks"]
