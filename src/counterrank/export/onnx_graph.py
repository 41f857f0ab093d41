"""ONNX: the whole ranker as one graph, from the raw features of one query's documents to their scores.

Everything that could round is done in double, but for trees, which need not be (see `onnx_trees`). Operators are those
that every onnxruntime of the last years knows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from counterrank.common.checks import FloatArray
from counterrank.common.errors import installed_version, require
from counterrank.common.jit import Array
from counterrank.export.forest import Forest, Layer, Leaf, Node
from counterrank.models.base import Scaler

# Trees as ONNX's `TreeEnsembleRegressor` takes them: flat lists of nodes, and leaves in two parts.
#
# The operator compares, adds and puts out in float32. For comparisons that is exact, since thresholds are float32
# numbers already. Sums would lose too much where all documents of a query score nearly alike. So each leaf is given
# in two parts that the operator adds up apart: a multiple of 2^-23 of what scores can reach, so that sums of them are
# exact in float32, and the small rest. Together they are nearly as good as double.
#
# `TreeEnsemble` of ai.onnx.ml 5 could be double throughout, but onnxruntime 1.21 to 1.23 read some trees in it wrongly,
# without a word, and earlier ones read none.


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


OPSET, TREES_OPSET, IR_VERSION = 13, 1, 8
INPUT, OUTPUT = "features", "scores"


class Graph:
    """Nodes in the order in which they run, each named after what it puts out."""

    def __init__(self, n_features: int) -> None:
        require("onnx", "onnx", "export to ONNX")
        from onnx import TensorProto, helper, numpy_helper

        self.n_features = n_features
        self._helper, self._arrays, self._types = helper, numpy_helper, TensorProto
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._opsets = {"": OPSET}

    def seen(self, scaler: Scaler) -> str:
        """The scaled features as trees and networks see them: float32."""
        if scaler.kind == "none":
            return INPUT
        return self._add("Cast", [self._scaled(scaler)], "seen", to=self._types.FLOAT)

    def linear(self, scaler: Scaler, coefficients: FloatArray) -> None:
        """Scores as a weighted sum."""
        if scaler.kind == "standard":
            # scaled by the coefficients: onnxruntime would merge a product with a single number into float32
            features = self._add("Sub", [self._double(INPUT), self._constant("low", scaler.low[None, :])], "moved")
            coefficients = coefficients * scaler.inverse
        else:
            features = self._scaled(scaler)
        product = self._add("MatMul", [features, self._constant("coefficients", coefficients[:, None])], "product")
        self._scores(product)

    def network(self, features: str, layers: Sequence[Layer]) -> None:
        """Scores as the last layer puts them out."""
        features = self._double(features)
        for number, layer in enumerate(layers, start=1):
            weights = self._constant(f"weights_{number}", layer.weights)
            bias = self._constant(f"bias_{number}", layer.bias)
            features = self._add("Gemm", [features, weights, bias], f"layer_{number}", transB=1)
            if layer.relu:
                features = self._add("Relu", [features], f"relu_{number}")
        self._scores(features)

    def forest(self, features: str, forest: Forest) -> None:
        """Scores as sums of leaves of float32 features."""
        self._opsets["ai.onnx.ml"] = TREES_OPSET
        attributes, scale = regressor_attributes(forest)
        parts = self._add("TreeEnsembleRegressor", [features], "leaves", domain="ai.onnx.ml", **attributes)
        both = self._constant("scale", np.full((2, 1), scale))
        self._scores(self._add("MatMul", [self._double(parts), both], "total"))

    def serialized(self, name: str, notes: dict[str, Any]) -> bytes:
        """The checked model as bytes; `notes` become its metadata."""
        from onnx import checker

        helper = self._helper
        graph = helper.make_graph(
            self._nodes,
            name,
            [helper.make_tensor_value_info(INPUT, self._types.FLOAT, ["documents", self.n_features])],
            [helper.make_tensor_value_info(OUTPUT, self._types.DOUBLE, ["documents"])],
            initializer=self._constants,
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid(domain, version) for domain, version in self._opsets.items()],
            ir_version=IR_VERSION,
            producer_name="counterrank",
            producer_version=installed_version(),
            doc_string="Raw features of the documents of one query to their scores; a higher score ranks first.",
        )
        helper.set_model_props(model, {key: json.dumps(value) for key, value in notes.items()})
        checker.check_model(model, full_check=True)
        content: bytes = model.SerializeToString(deterministic=True)
        return content

    def _scaled(self, scaler: Scaler) -> str:
        """The scaled features in double."""
        features = self._double(INPUT)
        if scaler.kind == "none":
            return features
        low, inverse = self._query_scale() if scaler.kind == "query" else self._constant_scale(scaler)
        return self._add("Mul", [self._add("Sub", [features, low], "moved"), inverse], "scaled")

    def _query_scale(self) -> tuple[str, str]:
        """Smallest value and 1 / (largest - smallest) of each feature in the query, 0 for constant ones."""
        low = self._double(self._add("ReduceMin", [INPUT], "smallest", axes=[0], keepdims=1))
        high = self._double(self._add("ReduceMax", [INPUT], "largest", axes=[0], keepdims=1))
        zero, one = self._constant("zero", np.zeros(1)), self._constant("one", np.ones(1))
        spread = self._add("Sub", [high, low], "spread")
        varies = self._add("Greater", [spread, zero], "varies")
        divisor = self._add("Where", [varies, spread, one], "divisor")
        inverse = self._add("Div", [one, divisor], "inverse_of_divisor")
        return low, self._add("Where", [varies, inverse, zero], "inverse")

    def _constant_scale(self, scaler: Scaler) -> tuple[str, str]:
        return self._constant("low", scaler.low[None, :]), self._constant("inverse", scaler.inverse[None, :])

    def _scores(self, column: str) -> None:
        shape = self._constant("one_dimension", np.array([-1]))
        self._add("Reshape", [column, shape], OUTPUT)

    def _double(self, name: str) -> str:
        return self._add("Cast", [name], f"{name}_as_double", to=self._types.DOUBLE)

    def _constant(self, name: str, array: Array) -> str:
        self._constants.append(self._arrays.from_array(array, name))
        return name

    def _add(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self._nodes.append(self._helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output
