"""What every model is to the rest of the library, however it was learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from counterrank.common.checks import FloatArray
from counterrank.data import RankingData
from counterrank.models.scaling import Scaler


class Model(Protocol):
    """Turns raw features into scores, and writes itself into the folder of a saved ranker."""

    @property
    def scaler(self) -> Scaler:
        """How raw features are scaled."""

    @property
    def n_features(self) -> int:
        """How many features a document has."""

    def predict(self, data: RankingData, threads: int | None = None) -> FloatArray:
        """A score for each document of raw data."""

    def vectors(self) -> dict[str, FloatArray]:
        """Arrays of one number per feature that make up the model, by name."""

    def write(self, folder: Path) -> dict[str, Any]:
        """Write whatever else makes up the model; returns what to remember about it, as JSON knows it."""
