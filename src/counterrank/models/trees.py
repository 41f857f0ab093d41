"""Boosted trees: a score is the sum of the leaves a document falls into."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from counterrank.common.checks import FloatArray
from counterrank.common.errors import ModelError, require
from counterrank.common.parallel import thread_count
from counterrank.data import RankingData
from counterrank.models.scaling import Scaler
from counterrank.models.tree_text import check_tree_text

_FILE = "trees.txt"


@dataclass(frozen=True)
class TreesModel:
    """Trees in LightGBM's own text format, and the scaling they were learned with.

    Attributes:
        text: what LightGBM writes and reads.
        scaler: how raw features are scaled before the trees see them; usually not at all.
        n_features: how many features a document has.
    """

    text: str
    scaler: Scaler
    n_features: int

    @cached_property
    def booster(self) -> Any:
        """The trees as LightGBM's `Booster`."""
        require("lightgbm", "lightgbm", "a ranker of boosted trees")
        import lightgbm

        try:
            booster = lightgbm.Booster(model_str=self.text)
        except (lightgbm.basic.LightGBMError, ValueError, RecursionError) as error:  # the last two: parameters as JSON
            raise ModelError(f"{_FILE}: LightGBM cannot read it ({error}); the ranker is damaged") from None
        if booster.num_feature() != self.n_features:
            raise ModelError(f"{_FILE}: trees for {booster.num_feature()} features; expected {self.n_features}")
        return booster

    def predict(self, data: RankingData, threads: int | None = None) -> FloatArray:
        """A score for each document."""
        features = self.scaler.apply(data, threads)
        scores = self.booster.predict(features, raw_score=True, num_threads=thread_count(threads))
        return np.asarray(scores, np.float64)

    def vectors(self) -> dict[str, FloatArray]:
        """Nothing beside the scaling."""
        return {}

    def write(self, folder: Path) -> dict[str, Any]:
        """The text as a file, and its digest, so that damage is seen."""
        raw = self.text.encode("utf-8")
        (folder / _FILE).write_bytes(raw)
        return {"trees": _FILE, "sha256": hashlib.sha256(raw).hexdigest()}

    @classmethod
    def restore(cls, folder: Path, content: dict[str, Any], n_features: int, scaler: Scaler) -> TreesModel:
        """Read what `write` wrote; a text that is not one of trees for these features is refused."""
        file = folder / _FILE
        if not file.is_file():
            raise ModelError(f"{file}: missing; the ranker is incomplete")
        raw = file.read_bytes()
        if hashlib.sha256(raw).hexdigest() != content["sha256"]:
            raise ModelError(f"{file}: not the file that was saved; the ranker is damaged")
        try:
            text = raw.decode("utf-8")
            check_tree_text(text, n_features)
        except (UnicodeDecodeError, ModelError) as error:
            raise ModelError(f"{file}: {error}; the ranker is damaged") from None
        return cls(text, scaler, n_features)
