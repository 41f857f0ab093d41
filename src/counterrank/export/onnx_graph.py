"""ONNX: the whole ranker as one graph, from the raw features of one query's documents to their scores.

Everything that could round is done in double: scaling, products, and trees as the operator `TreeEnsemble` of
ai.onnx.ml 5, whose thresholds, leaves and output may be double. The older `TreeEnsembleRegressor` puts out float32,
which loses more than 1e-5 of the range where all documents of a query score nearly alike.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from counterrank.common.checks import FloatArray
from counterrank.common.extras import require
from counterrank.common.jit import Array
from counterrank.common.version import installed_version
from counterrank.export.forest import Forest, Node, Split
from counterrank.export.network import Layer
from counterrank.models.scaling import Scaler

OPSET, TREES_OPSET, IR_VERSION = 13, 5, 8
INPUT, OUTPUT = "features", "scores"
_LESS_OR_EQUAL, _SUM = 0, 1  # node mode and aggregation of TreeEnsemble


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

    def scaled(self, scaler: Scaler, *, rounded: bool) -> str:
        """The scaled features as doubles; with `rounded` they are rounded to float32 first, as models see them."""
        if scaler.kind == "none":
            return self._double(INPUT)
        low, inverse = self._query_scale() if scaler.kind == "query" else self._constant_scale(scaler)
        moved = self._add("Sub", [self._double(INPUT), low], "moved")
        scaled = self._add("Mul", [moved, inverse], "scaled")
        return self._double(self._add("Cast", [scaled], "rounded", to=self._types.FLOAT)) if rounded else scaled

    def linear(self, scaler: Scaler, coefficients: FloatArray) -> None:
        """Scores as a weighted sum."""
        if scaler.kind == "standard":
            # scaled by the coefficients: onnxruntime would merge a product with a single number into float32
            features = self._add("Sub", [self._double(INPUT), self._constant("low", scaler.low[None, :])], "moved")
            coefficients = coefficients * scaler.inverse
        else:
            features = self.scaled(scaler, rounded=False)
        product = self._add("MatMul", [features, self._constant("coefficients", coefficients[:, None])], "product")
        self._scores(product)

    def network(self, features: str, layers: Sequence[Layer]) -> None:
        """Scores as the last layer puts them out."""
        for number, layer in enumerate(layers, start=1):
            weights = self._constant(f"weights_{number}", layer.weights)
            bias = self._constant(f"bias_{number}", layer.bias)
            features = self._add("Gemm", [features, weights, bias], f"layer_{number}", transB=1)
            if layer.relu:
                features = self._add("Relu", [features], f"relu_{number}")
        self._scores(features)

    def forest(self, features: str, forest: Forest) -> None:
        """Scores as sums of leaves."""
        self._opsets["ai.onnx.ml"] = TREES_OPSET
        arrays = _TreeArrays(forest)
        tensors = {
            "nodes_modes": np.full(len(arrays.features), _LESS_OR_EQUAL, dtype=np.uint8),
            "nodes_splits": np.array(arrays.thresholds),
            "leaf_weights": np.array(arrays.leaves),
        }
        total = self._add(
            "TreeEnsemble",
            [features],
            "leaves",
            domain="ai.onnx.ml",
            n_targets=1,
            aggregate_function=_SUM,
            post_transform=0,
            tree_roots=arrays.roots,
            nodes_featureids=arrays.features,
            nodes_truenodeids=[place for place, _ in arrays.left],
            nodes_trueleafs=[int(is_leaf) for _, is_leaf in arrays.left],
            nodes_falsenodeids=[place for place, _ in arrays.right],
            nodes_falseleafs=[int(is_leaf) for _, is_leaf in arrays.right],
            leaf_targetids=[0] * len(arrays.leaves),
            **{name: self._arrays.from_array(array, name) for name, array in tensors.items()},
        )
        self._scores(total)

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


class _TreeArrays:
    """A forest as TreeEnsemble wants it: one array for each property of splits, children by place, leaves apart."""

    def __init__(self, forest: Forest) -> None:
        self.features: list[int] = []
        self.thresholds: list[float] = []
        self.left: list[tuple[int, bool]] = []
        self.right: list[tuple[int, bool]] = []
        self.leaves: list[float] = []
        self.roots = [self._root(tree) for tree in forest.trees]

    def _root(self, tree: Node) -> int:
        place, is_leaf = self._place(tree)
        if not is_leaf:
            return place
        # a root has to be a split: both ways lead to the leaf
        self.features.append(0)
        self.thresholds.append(0.0)
        self.left.append((place, True))
        self.right.append((place, True))
        return len(self.features) - 1

    def _place(self, node: Node) -> tuple[int, bool]:
        """Add the node and all below it; its place, and whether that is one among the leaves."""
        if not isinstance(node, Split):
            self.leaves.append(node.value)
            return len(self.leaves) - 1, True
        place = len(self.features)
        self.features.append(node.feature)
        self.thresholds.append(node.threshold)
        self.left.append((0, False))
        self.right.append((0, False))
        self.left[place] = self._place(node.left)
        self.right[place] = self._place(node.right)
        return place, False
