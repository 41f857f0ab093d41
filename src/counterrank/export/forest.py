"""Trees as every target can take them: splits of raw float32 features, and leaves.

A split sends x left when x <= threshold, where the threshold is the last float32 number that LightGBM would send left,
with scaling, rounding and LightGBM's idea of zero worked in (see `thresholds`). What cannot be said that way is refused
by name: categorical splits, linear trees, several outputs, zeros that count as missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.common.errors import ExportError
from counterrank.export.thresholds import LARGEST, last_left
from counterrank.models.scaling import Scaler


@dataclass(frozen=True)
class Leaf:
    """What a document that ends here adds to its score."""

    value: float


@dataclass(frozen=True)
class Split:
    """Documents with x <= threshold go left; the feature is counted from 0."""

    feature: int
    threshold: float
    left: Node
    right: Node


Node = Leaf | Split


@dataclass(frozen=True)
class Forest:
    """The score of a document is the sum of the leaves it reaches, one in each tree."""

    trees: tuple[Node, ...]

    @property
    def features(self) -> list[int]:
        """The features that splits look at, counted from 0."""
        return sorted({split.feature for split in self.splits()})

    def splits(self) -> Iterator[Split]:
        """All splits of all trees."""
        waiting = list(self.trees)
        while waiting:
            node = waiting.pop()
            if isinstance(node, Split):
                yield node
                waiting += [node.left, node.right]


def forest_of(dump: dict[str, Any], scaler: Scaler | None) -> Forest:
    """The trees of LightGBM's `dump_model()`.

    With a scaler whose numbers are known ("standard", "none") splits are turned into splits of raw features; without
    one they stay splits of what the trees see.
    """
    if dump["num_tree_per_iteration"] != 1:
        raise ExportError(f"trees: {dump['num_tree_per_iteration']} outputs a document; expected one score")
    roots = [info["tree_structure"] for info in dump["tree_info"]]
    thresholds = _raw_thresholds(roots, scaler)
    trees = tuple(_node(root, thresholds) for root in roots)
    return Forest(trees or (Leaf(0.0),))


def _raw_thresholds(roots: list[Any], scaler: Scaler | None) -> Iterator[float]:
    """The threshold of each split for raw float32 features, in the order `_splits` finds them."""
    splits = [split for root in roots for split in _splits(root)]
    features = np.array([split["split_feature"] for split in splits], dtype=np.int64)
    thresholds = np.array([split["threshold"] for split in splits], dtype=np.float64)
    low = np.zeros(len(splits)) if scaler is None else scaler.low[features]
    inverse = np.ones(len(splits)) if scaler is None else scaler.inverse[features]
    return iter(last_left(thresholds, low, inverse).tolist())


def _splits(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The splits below a node, itself first, left before right; each checked."""
    if "split_feature" not in node:
        if "leaf_coeff" in node:
            raise ExportError("trees: linear trees cannot be exported; train without linear_tree")
        return
    _check_split(node)
    yield node
    yield from _splits(node["left_child"])
    yield from _splits(node["right_child"])


def _check_split(node: dict[str, Any]) -> None:
    number = node["split_feature"] + 1
    if node["decision_type"] != "<=":
        raise ExportError(
            f"trees: feature {number} is categorical, which cannot be exported; train without categorical_feature"
        )
    if node["missing_type"] == "Zero" and node["default_left"] != (node["threshold"] >= 0.0):
        raise ExportError(
            f"trees: a split of feature {number} sends zeros apart from their neighbours, which cannot be exported; "
            "train without zero_as_missing"
        )


def _node(node: dict[str, Any], thresholds: Iterator[float]) -> Node:
    """The node with the thresholds taken in the order of `_splits`; a split that parts nothing gives way to a child."""
    if "split_feature" not in node:
        return Leaf(float(node["leaf_value"]))
    threshold = next(thresholds)
    left = _node(node["left_child"], thresholds)
    right = _node(node["right_child"], thresholds)
    if threshold == LARGEST:
        return left
    return right if threshold == -np.inf else Split(node["split_feature"], threshold, left, right)
