"""Models that compute scores from features, and their storage."""

from counterrank.models.linear import LinearModel
from counterrank.models.model import Model, Scaler
from counterrank.models.neural import NeuralModel
from counterrank.models.trees import TreesModel

__all__ = ["LinearModel", "Model", "NeuralModel", "Scaler", "TreesModel"]


def __dir__() -> list[str]:
    return sorted(__all__)
