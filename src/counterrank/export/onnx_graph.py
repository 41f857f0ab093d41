"""ONNX: the whole ranker as one graph, from the raw features of one query's documents to their scores.

Everything that could round is done in double, but for trees, which need not be (see `regressor_attributes`). Operators
are those that every onnxruntime of the last years knows.
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
from counterrank.export.forest import Forest, Layer, Leaf, Node, forest_of, layers_of
from counterrank.export.targets import ExportJob, Target
from counterrank.models import LinearModel, Scaler, TreesModel

_STEPS = 2.0**23  # half of what float32 has, which leaves room for the rounding of each leaf


def to_onnx(job: ExportJob) -> bytes:
    """The serialized graph; loss, cutoff, scaling and feature names are its metadata."""
    model, scaler = job.model, job.model.scaler
    graph = Graph(model.n_features)
    if isinstance(model, LinearModel):
        graph.linear(scaler, model.coefficients)
    elif isinstance(model, TreesModel):
        # other scalings are worked into the thresholds
        in_graph = scaler if scaler.kind == "query" else Scaler.none(model.n_features)
        graph.forest(graph.seen(in_graph, missing=True), forest_of(model))
    else:
        graph.network(graph.seen(scaler), layers_of(model))
    job.label_all()
    labels = [job.names.by_feature.get(feature, "") for feature in range(model.n_features)]
    notes = {"loss": job.ranker.loss_, "k": job.ranker.k, "normalize": scaler.kind, "feature_names": labels}
    return graph.serialized(job.name, notes)


def regressor_attributes(forest: Forest) -> tuple[dict[str, Any], float]:
    """Attributes of a `TreeEnsembleRegressor` with two outputs, and what their sum has to be multiplied by.

    The operator compares, adds and puts out in float32. For comparisons that is exact, since thresholds are float32
    numbers already. Sums would lose too much where all documents of a query score nearly alike. So each leaf is given
    in two parts that the operator adds up separately: a multiple of 2^-23 of what scores can reach, so that sums of
    them are exact in float32, and the small rest. Together they are nearly as good as double.

    `TreeEnsemble` of ai.onnx.ml 5 could be double throughout, but onnxruntime 1.21 to 1.23 read some trees in it
    wrongly, without a word, and earlier ones read none.
    """
    trees = [_nodes(tree) for tree in forest.trees]
    nodes = [(number, place, *node) for number, tree in enumerate(trees) for place, node in enumerate(tree)]
    leaves = [(tree, place, value) for tree, place, mode, _, value, *_ in nodes if mode == "LEAF"]
    # the power of two that no sum of leaves, one of each tree, exceeds
    total = sum(max(abs(value) for mode, _, value, *_ in tree if mode == "LEAF") for tree in trees)
    scale = math.ldexp(1.0, math.frexp(total)[1])
    values = np.array([value for *_, value in leaves]) / scale
    coarse = np.round(values * _STEPS) / _STEPS
    weights = np.stack([coarse, values - coarse], axis=1)
    return {
        "nodes_treeids": [node[0] for node in nodes],
        "nodes_nodeids": [node[1] for node in nodes],
        "nodes_modes": [node[2] for node in nodes],
        "nodes_featureids": [node[3] for node in nodes],
        "nodes_values": [0.0 if node[2] == "LEAF" else node[4] for node in nodes],
        "nodes_truenodeids": [node[5] for node in nodes],
        "nodes_falsenodeids": [node[6] for node in nodes],
        "nodes_missing_value_tracks_true": [node[7] for node in nodes],
        "n_targets": 2,
        "aggregate_function": "SUM",
        "post_transform": "NONE",
        "target_treeids": [tree for tree, _, _ in leaves for _ in range(2)],
        "target_nodeids": [place for _, place, _ in leaves for _ in range(2)],
        "target_ids": [0, 1] * len(leaves),
        "target_weights": weights.astype(np.float32).ravel().tolist(),
    }, scale


def _nodes(node: Node, first: int = 0) -> list[tuple[str, int, float, int, int, int]]:
    """The node and all below it, left first: mode, feature, threshold or leaf value, places of both children.

    The last entry is 1 where missing values go left, the branch of a comparison that is true.
    """
    if isinstance(node, Leaf):
        return [("LEAF", 0, node.value, 0, 0, 0)]
    left = _nodes(node.left, first + 1)
    right = _nodes(node.right, first + 1 + len(left))
    own = (node.feature, node.threshold, first + 1, first + 1 + len(left), int(node.missing_left))
    return [("BRANCH_LEQ", *own), *left, *right]


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

    def seen(self, scaler: Scaler, missing: bool = False) -> str:
        """The scaled features as trees and networks see them: float32; `missing` where they may be NaN."""
        if scaler.kind == "none":
            return INPUT
        return self._add("Cast", [self._scaled(scaler, missing)], "seen", to=self._types.FLOAT)

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

    def _scaled(self, scaler: Scaler, missing: bool = False) -> str:
        """The scaled features in double."""
        features = self._double(INPUT)
        if scaler.kind == "none":
            return features
        if scaler.kind == "query":
            low, inverse = self._query_scale(missing)
        else:
            low = self._constant("low", scaler.low[None, :])
            inverse = self._constant("inverse", scaler.inverse[None, :])
        return self._add("Mul", [self._add("Sub", [features, low], "moved"), inverse], "scaled")

    def _query_scale(self, missing: bool) -> tuple[str, str]:
        """Smallest value and 1 / (largest - smallest) of each feature in the query, 0 for constant ones.

        With `missing`, of the values that are not NaN; where all are, the spread is -inf, and NaN stays NaN.
        """
        lows = highs = INPUT
        if missing:
            is_missing = self._add("IsNaN", [INPUT], "is_missing")
            for name, value in (("infinity", np.inf), ("minus_infinity", -np.inf)):
                self._constant(name, np.array([value], np.float32))
            lows = self._add("Where", [is_missing, "infinity", INPUT], "present_or_infinity")
            highs = self._add("Where", [is_missing, "minus_infinity", INPUT], "present_or_minus_infinity")
        low = self._double(self._add("ReduceMin", [lows], "smallest", axes=[0], keepdims=1))
        high = self._double(self._add("ReduceMax", [highs], "largest", axes=[0], keepdims=1))
        zero, one = self._constant("zero", np.zeros(1)), self._constant("one", np.ones(1))
        spread = self._add("Sub", [high, low], "spread")
        varies = self._add("Greater", [spread, zero], "varies")
        divisor = self._add("Where", [varies, spread, one], "divisor")
        inverse = self._add("Div", [one, divisor], "inverse_of_divisor")
        return low, self._add("Where", [varies, inverse, zero], "inverse")

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


ONNX = Target(
    "onnx", (".onnx",), ("linear", "lambdamart", "mlp"), ("query", "standard", "none"),
    "by place", "ONNX Runtime and whatever else reads ONNX", to_onnx,
)  # fmt: skip
