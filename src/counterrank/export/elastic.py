"""The body of the request that makes a model in the learning-to-rank plugins of Elasticsearch and OpenSearch.

    POST _ltr/_featureset/FEATURES/_createmodel

What the plugins do with it, after their source: all numbers are float32. A linear model is the sum of weight times
normalized feature, with (value - mean) / standard_deviation as the normalizer. `model/xgboost+json` goes to `yes` when
value < split_condition; `model/ranklib` goes left when value <= threshold, and knows features by their place in the
feature set, counted from 1. A feature whose query does not match has no value: linear and RankLib models then take 0,
as LETOR files mean it; XGBoost models took 0 too, or follow `missing` in later versions, which is set to where 0 goes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from counterrank.export.forest import Forest, Leaf, Node, decimal, next_number, standard_numbers
from counterrank.models.linear import LinearModel


def linear_body(model: LinearModel, features: Sequence[int], labels: Sequence[str], name: str) -> str:
    """A `model/linear` with a normalizer for each feature that is scaled."""
    weights = ", ".join(
        f"{json.dumps(label)}: {decimal(model.coefficients[feature])}"
        for feature, label in zip(features, labels, strict=True)
    )
    body: dict[str, Any] = {"type": "model/linear", "definition": f"{{{weights}}}"}
    if model.scaler.kind == "standard":
        body["feature_normalizers"] = {
            label: {"standard": dict(zip(("mean", "standard_deviation"), _standard(model, feature), strict=True))}
            for feature, label in zip(features, labels, strict=True)
        }
    return _request(name, body)


def xgboost_body(forest: Forest, names: dict[int, str], name: str) -> str:
    """A `model/xgboost+json`: trees as XGBoost dumps them."""
    trees = [_XgboostTree(names).text(tree, depth=0) for tree in forest.trees]
    return _request(name, {"type": "model/xgboost+json", "definition": "[" + ",\n".join(trees) + "]"})


def ranklib_body(forest: Forest, name: str) -> str:
    """A `model/ranklib`: trees in RankLib's XML. Its reader takes no white space between tags of a tree."""
    trees = [
        f'<tree id="{number}" weight="1.0"><split>{_ranklib_node(tree)}</split></tree>\n'
        for number, tree in enumerate(forest.trees, start=1)
    ]
    head = f"## LambdaMART\n## No. of trees = {len(trees)}\n"
    definition = f"{head}<ensemble>\n{''.join(trees)}</ensemble>\n"
    return _request(name, {"type": "model/ranklib", "definition": definition})


class _XgboostTree:
    """Writes one tree; nodes are numbered as they come."""

    def __init__(self, names: dict[int, str]) -> None:
        self._names = names
        self._count = 0

    def text(self, node: Node, depth: int) -> str:
        """The node and all below it."""
        number, content = self._number_and_text(node, depth)
        return f'{{"nodeid": {number}, {content}}}'

    def _number_and_text(self, node: Node, depth: int) -> tuple[int, str]:
        number = self._count
        self._count += 1
        if isinstance(node, Leaf):
            return number, f'"leaf": {decimal(node.value)}'
        left, left_text = self._number_and_text(node.left, depth + 1)
        right, right_text = self._number_and_text(node.right, depth + 1)
        return number, (
            f'"depth": {depth}, "split": {json.dumps(self._names[node.feature])}, '
            f'"split_condition": {decimal(next_number(node.threshold))}, "yes": {left}, "no": {right}, '
            f'"missing": {left if node.threshold >= 0.0 else right}, '
            f'"children": [{{"nodeid": {left}, {left_text}}}, {{"nodeid": {right}, {right_text}}}]'
        )


def _ranklib_node(node: Node) -> str:
    if isinstance(node, Leaf):
        return f"<output> {decimal(node.value)} </output>"
    return (
        f"<feature> {node.feature + 1} </feature><threshold> {decimal(node.threshold)} </threshold>"
        f'<split pos="left">{_ranklib_node(node.left)}</split><split pos="right">{_ranklib_node(node.right)}</split>'
    )


def _standard(model: LinearModel, feature: int) -> tuple[float, float]:
    return standard_numbers(float(model.scaler.low[feature]), float(model.scaler.inverse[feature]), feature)


def _request(name: str, model: dict[str, Any]) -> str:
    return json.dumps({"model": {"name": name, "model": model}}, indent=1) + "\n"
