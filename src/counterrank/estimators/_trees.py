"""Boosted regression trees of click rates, grown by LightGBM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.common.checks import Float32Array, FloatArray, IntArray
from counterrank.common.errors import require
from counterrank.common.parallel import thread_count

# small trees, many queries: a model of relevance has to generalise, not to remember
_PARAMS = {
    "objective": "regression",
    "metric": "l2",
    "learning_rate": 0.1,
    "num_leaves": 15,
    "min_data_in_leaf": 50,
    "verbosity": -1,
    "deterministic": True,
    "force_row_wise": True,
}
_VALUES_A_THREAD = 1 << 24
_MOST_ROUNDS, _PATIENCE, _UNTOLD_ROUNDS = 300, 20, 20


@dataclass(frozen=True, eq=False)
class Trees:
    """A LightGBM booster."""

    booster: Any
    rounds: int

    @property
    def about(self) -> str:
        """The model in words."""
        return f"{self.rounds} regression tree{'' if self.rounds == 1 else 's'} of LightGBM"

    def predict(self, features: Float32Array) -> FloatArray:
        """A click rate for each row."""
        return np.asarray(self.booster.predict(features), np.float64)


def grow(evidence: Any, rows: IntArray, held_out: IntArray | None, rounds: int | None, seed: int) -> tuple[Trees, int]:
    """Trees from these rows: a given number, or as many as do best on rows held out.

    Arguments:
        evidence: features, targets and weights, see `regressors.Evidence`.
        rows: to learn from.
        held_out: rows to stop by, or None.
        rounds: without rows to stop by the number of trees; None where nothing could be held out.
        seed: LightGBM's.
    """
    require("lightgbm", "lightgbm", "a relevance model of boosted trees")
    import lightgbm

    # LightGBM's threads spin while they wait: with little to do for each, that costs more than they save
    threads = max(1, min(thread_count(), len(rows) * evidence.features.shape[1] // _VALUES_A_THREAD))
    params = {**_PARAMS, "seed": seed, "num_threads": threads}

    def dataset(part: IntArray, reference: Any = None) -> Any:
        features, targets, weights = (evidence.features[part], evidence.targets[part], evidence.weights[part])
        return lightgbm.Dataset(features, targets, weight=weights, reference=reference, params=params)

    data = dataset(rows)
    if held_out is None:
        rounds = rounds or _UNTOLD_ROUNDS
        return Trees(lightgbm.train(params, data, rounds), rounds), rounds
    stop = lightgbm.early_stopping(_PATIENCE, verbose=False)
    booster = lightgbm.train(params, data, _MOST_ROUNDS, [dataset(held_out, data)], callbacks=[stop])
    best = max(int(booster.best_iteration), 1)
    return Trees(booster, best), best
