"""Trees as ONNX's `TreeEnsembleRegressor` takes them: flat lists of nodes, and leaves in two parts.

The operator compares, adds and puts out in float32. For comparisons that is exact, since thresholds are float32 numbers
already. Sums would lose too much where all documents of a query score nearly alike. So each leaf is given in two parts
that the operator adds up apart: a multiple of 2^-23 of what scores can reach, so that sums of them are exact in
float32, and the small rest. Together they are nearly as good as double.

`TreeEnsemble` of ai.onnx.ml 5 could be double throughout, but onnxruntime 1.21 to 1.23 read some trees in it wrongly,
without a word, and earlier ones read none.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from counterrank.export.forest import Forest, Leaf, Node

_STEPS = 2.0**23  # half of what float32 has, which leaves room for the rounding of each leaf


def regressor_attributes(forest: Forest) -> tuple[dict[str, Any], float]:
    """Attributes of the operator with two outputs, and what their sum has to be multiplied by."""
    nodes, leaves = _Nodes(), []
    for number, tree in enumerate(forest.trees):
        leaves.append(nodes.add_tree(number, tree))
    scale = _scale(leaves)
    values = np.concatenate([np.array([value for _, value in tree]) for tree in leaves]) / scale
    coarse = np.round(values * _STEPS) / _STEPS
    places = [(number, place) for number, tree in enumerate(leaves) for place, _ in tree]
    weights = np.stack([coarse, values - coarse], axis=1)
    return {
        **nodes.attributes(),
        "n_targets": 2,
        "aggregate_function": "SUM",
        "post_transform": "NONE",
        "target_treeids": [number for number, _ in places for _ in range(2)],
        "target_nodeids": [place for _, place in places for _ in range(2)],
        "target_ids": [0, 1] * len(places),
        "target_weights": weights.astype(np.float32).ravel().tolist(),
    }, scale


def _scale(leaves: list[list[tuple[int, float]]]) -> float:
    """The power of two that no sum of leaves, one of each tree, goes beyond."""
    total = sum(max(abs(value) for _, value in tree) for tree in leaves)
    return math.ldexp(1.0, math.frexp(total)[1])


class _Nodes:
    """All nodes of all trees, each with its number in its tree."""

    def __init__(self) -> None:
        self._trees: list[int] = []
        self._numbers: list[int] = []
        self._modes: list[str] = []
        self._features: list[int] = []
        self._thresholds: list[float] = []
        self._left: list[int] = []
        self._right: list[int] = []

    def add_tree(self, number: int, tree: Node) -> list[tuple[int, float]]:
        """Add the nodes of a tree; its leaves, each with its number and value."""
        leaves: list[tuple[int, float]] = []
        first = len(self._numbers)
        self._add(number, tree, first, leaves)
        return leaves

    def attributes(self) -> dict[str, Any]:
        """The lists by their names in ONNX."""
        return {
            "nodes_treeids": self._trees,
            "nodes_nodeids": self._numbers,
            "nodes_modes": self._modes,
            "nodes_featureids": self._features,
            "nodes_values": self._thresholds,
            "nodes_truenodeids": self._left,
            "nodes_falsenodeids": self._right,
            "nodes_missing_value_tracks_true": [0] * len(self._numbers),
        }

    def _add(self, tree: int, node: Node, first: int, leaves: list[tuple[int, float]]) -> int:
        place = len(self._numbers)
        self._trees.append(tree)
        self._numbers.append(place - first)
        self._modes.append("LEAF" if isinstance(node, Leaf) else "BRANCH_LEQ")
        self._features.append(0 if isinstance(node, Leaf) else node.feature)
        self._thresholds.append(0.0 if isinstance(node, Leaf) else node.threshold)
        self._left.append(0)
        self._right.append(0)
        if isinstance(node, Leaf):
            leaves.append((place - first, node.value))
        else:
            self._left[place] = self._add(tree, node.left, first, leaves)
            self._right[place] = self._add(tree, node.right, first, leaves)
        return place - first
