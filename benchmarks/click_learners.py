"""LambdaMART of other packages from clicks: LightGBM with `position=`, XGBoost with `lambdarank_unbiased`.

Both take pages: a group of rows for each displayed page, label 1 where it was clicked. LightGBM learns an
offset of the score for each position, XGBoost (Unbiased LambdaMART) a factor of the loss for each position of clicked
and of unclicked documents. Identical sessions are one group with their number as its weight:

- LightGBM applies the weights before it learns its offsets, so this is the same as one group per session, but for what
  counts rows: `lambdarank_position_bias_regularization`, which is scaled here to have the same effect, and
  `min_data_in_leaf` and the bins of feature values, which count merged rows.
- XGBoost applies the weights to gradients, but not when it learns its factors. Groups are therefore repeated until each
  stands for about `sessions_a_copy` sessions, one where the log is small.

Neither compares a document with those that are not on the page. `click_rate_rows` gives LightGBM all of them: one group
per query, its candidates labelled with their click rates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.merged_pages import MergedPages
from counterrank.clicks.counts import ClickCounts
from counterrank.data import RankingData

LEAVES, LEARNING_RATE = 8, 0.1
RATE_LEVELS = 100  # click rates are whole percents: LightGBM's labels are whole numbers


@dataclass(frozen=True, eq=False)
class Rows:
    """The input of LightGBM and XGBoost.

    Attributes:
        features: float32, a row for each document of each group.
        labels: whole numbers.
        groups: the number of rows of each group.
        positions: from 1.
        weights: one for each group.
        sessions_a_group: sessions per group on average, including those without pairs.
    """

    features: np.ndarray
    labels: np.ndarray
    groups: np.ndarray
    positions: np.ndarray
    weights: np.ndarray
    sessions_a_group: float

    @property
    def row_weights(self) -> np.ndarray:
        return np.repeat(self.weights, self.groups)


@dataclass(frozen=True, eq=False)
class Boosted:
    """A trained model: scores of features after a number of rounds, and its own choice of that number."""

    scores: Callable[[np.ndarray, int], np.ndarray]
    own_best: int
    biases: dict[str, list[float]]


def sessions_a_copy(clicks: int) -> int:
    """The largest number of sessions per group of XGBoost, for a log with this many clicks."""
    return min(20, max(1, clicks // 50_000))


def page_rows(data: RankingData, pages: MergedPages, n_sessions: int) -> Rows:
    """A group for each page with its clicks; weights are sessions. `n_sessions` is that of the whole log."""
    labels = pages.clicked.astype(np.int32)
    share = n_sessions / len(pages.sessions)
    return Rows(data.features[pages.docs], labels, pages.lengths, pages.ranks(), pages.sessions, share)


def click_rate_rows(data: RankingData, counts: ClickCounts) -> Rows:
    """A group for each query with all its candidates, labelled by clicks / impressions in percent.

    Under replace-last each document has one rank, the last of the page for all that were drawn for it.
    """
    shown = counts.by_document(counts.impressions)
    rates = counts.by_document(counts.clicks) / np.maximum(shown, 1.0)
    positions = np.full(data.n_docs, counts.ranks.max())
    positions[counts.docs] = counts.ranks
    labels = np.round(RATE_LEVELS * rates).astype(np.int32)
    return Rows(data.features, labels, data.lengths, positions, np.ones(data.n_queries), 1.0)


def learn_lightgbm(
    train: Rows, held_out: Rows, rounds: int, threads: int, *, with_positions: bool = True, **params: Any
) -> Boosted:
    """LightGBM's lambdarank; its own choice of rounds is by NDCG@5 of the held-out rows."""
    import lightgbm

    def made(rows: Rows, **more: Any) -> Any:
        return lightgbm.Dataset(
            rows.features, label=rows.labels, group=rows.groups, weight=rows.row_weights, free_raw_data=True, **more
        )

    settings = {
        "objective": "lambdarank", "metric": "ndcg", "eval_at": [5], "num_leaves": LEAVES,
        "learning_rate": LEARNING_RATE, "label_gain": list(range(RATE_LEVELS + 1)), "num_threads": threads,
        "verbose": -1, "deterministic": True, "force_row_wise": True, **params,
    }  # fmt: skip
    regularization = "lambdarank_position_bias_regularization"
    if regularization in settings:
        settings[regularization] *= train.sessions_a_group
    data = made(train, position=train.positions if with_positions else None)
    history: dict[str, Any] = {}
    booster = lightgbm.train(
        settings, data, rounds, valid_sets=[made(held_out, reference=data)],
        callbacks=[lightgbm.record_evaluation(history)],
    )  # fmt: skip

    def scores(features: np.ndarray, n: int) -> np.ndarray:
        return np.asarray(booster.predict(features, num_iteration=n, num_threads=threads))

    return Boosted(scores, _best(history["valid_0"]["ndcg@5"]), {})


def learn_xgboost(train: Rows, held_out: Rows, rounds: int, threads: int, **params: Any) -> Boosted:
    """XGBoost's rank:ndcg with `lambdarank_unbiased`; its own choice of rounds is by NDCG@5 of the held-out rows."""
    import json

    import xgboost

    def made(rows: Rows, **more: Any) -> Any:
        return xgboost.QuantileDMatrix(
            rows.features, label=rows.labels, group=rows.groups, weight=rows.weights, max_bin=255, nthread=threads,
            **more,
        )  # fmt: skip

    most = max(8, int(train.groups.max()))  # positions beyond would have no factor
    settings = {
        "objective": "rank:ndcg", "eval_metric": "ndcg@5", "max_leaves": LEAVES, "max_depth": 0,
        "grow_policy": "lossguide", "eta": LEARNING_RATE, "tree_method": "hist", "max_bin": 255, "nthread": threads,
        "lambdarank_unbiased": True, "lambdarank_pair_method": "topk", "lambdarank_num_pair_per_sample": most, **params,
    }  # fmt: skip
    data = made(train)
    history: dict[str, Any] = {}
    booster = xgboost.train(
        settings, data, rounds, evals=[(made(held_out, ref=data), "held_out")], evals_result=history,
        verbose_eval=False,
    )  # fmt: skip
    objective = json.loads(booster.save_config())["learner"]["objective"]
    biases = {name: [float(each) for each in objective.get(name, [])] for name in ("ti+", "tj-")}

    def scores(features: np.ndarray, n: int) -> np.ndarray:
        return np.asarray(booster.predict(xgboost.DMatrix(features, nthread=threads), iteration_range=(0, n)))

    return Boosted(scores, _best(history["held_out"]["ndcg@5"]), biases)


def _best(values: Sequence[float]) -> int:
    """The round with the largest value, counted from 1."""
    return int(np.argmax(values)) + 1
