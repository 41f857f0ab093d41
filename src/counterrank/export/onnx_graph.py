"""ONNX: the whole ranker as one graph, from the raw features of one query's documents to their scores.

Everything that could round is done in double, but for trees, which need not be (see `onnx_trees`). Operators are those
that every onnxruntime of the last years knows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from counterrank.common.checks import FloatArray
from counterrank.common.errors import installed_version, require
from counterrank.common.jit import Array
from counterrank.export.forest import Forest
from counterrank.export.network import Layer
from counterrank.export.onnx_trees import regressor_attributes
from counterrank.models.scaling import Scaler

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
