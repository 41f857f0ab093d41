"""Training: rankers from weighted documents."""

from counterrank.training.clips import BestClip, ClipTrial, fit_best_clip
from counterrank.training.from_clicks import FromClicks, fit_from_clicks
from counterrank.training.ranker import Ranker
from counterrank.training.reasons import Tried

__all__ = ["BestClip", "ClipTrial", "FromClicks", "Ranker", "Tried", "fit_best_clip", "fit_from_clicks"]
