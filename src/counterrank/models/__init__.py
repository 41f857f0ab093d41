"""Models that turn features into scores, and how they are stored."""

from counterrank.models.linear import LinearModel
from counterrank.models.scaling import Scaler

__all__ = ["LinearModel", "Scaler"]
