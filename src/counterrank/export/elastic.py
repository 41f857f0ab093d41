"""The body of the request that creates a model in the learning-to-rank plugins of Elasticsearch and OpenSearch.

    POST _ltr/_featureset/FEATURES/_createmodel

What the plugins do with it, after their source: all numbers are float32. A linear model is the sum of weight times
normalized feature, with (value - mean) / standard_deviation as the normalizer. `model/xgboost+json` goes to `yes` when
value < split_condition; `model/ranklib` goes left when value <= threshold, and knows features by their place in the
feature set, counted from 1. A feature whose query does not match has no value: linear and RankLib models then take 0,
as LETOR files mean it; XGBoost models took 0 too, or follow `missing` in later versions, which is set to where 0 goes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from counterrank.export.forest import Leaf, Node, decimal, float32_scale, forest_of, next_number
from counterrank.export.targets import ExportJob, Target
from counterrank.models import LinearModel


def to_elastic(job: ExportJob) -> str:
    """The request for a linear model, or for trees in `job.tree_format`."""
    if isinstance(job.model, LinearModel):
        job.note_float32()
        body = _linear(job, job.model)
    else:
        forest = forest_of(job.model)
        labels = job.label(forest.features)
        if job.tree_format == "ranklib":
            job.notes.append(
                "RankLib knows features by their place: feature 1 is the first of the feature set, and so on"
            )
            body = _ranklib(forest.trees)
        else:
            job.notes.append(
                "OpenSearch from 3.2 until the fix of its issue 378 sends features without a value the wrong way in "
                "such trees; use the tree format ranklib there"
            )
            body = _xgboost(forest.trees, dict(zip(forest.features, labels, strict=True)))
    return json.dumps({"model": {"name": job.name, "model": body}}, indent=1) + "\n"


def _linear(job: ExportJob, model: LinearModel) -> dict[str, Any]:
    """A `model/linear` with a normalizer for each feature that is scaled."""
    used = job.used_features()
    named = list(zip(used, job.label(used), strict=True))
    weights = ", ".join(f"{json.dumps(label)}: {decimal(model.coefficients[feature])}" for feature, label in named)
    body: dict[str, Any] = {"type": "model/linear", "definition": f"{{{weights}}}"}
    if model.scaler.kind == "standard":
        names = ("mean", "standard_deviation")
        body["feature_normalizers"] = {
            label: {"standard": dict(zip(names, float32_scale(model.scaler, feature), strict=True))}
            for feature, label in named
        }
    return body


def _xgboost(trees: tuple[Node, ...], names: Mapping[int, str]) -> dict[str, Any]:
    """A `model/xgboost+json`: trees as XGBoost dumps them, nodes numbered from the root down, left first."""
    texts = [_xgboost_node(tree, 0, names, count())[1] for tree in trees]
    return {"type": "model/xgboost+json", "definition": "[" + ",\n".join(texts) + "]"}


def _xgboost_node(node: Node, depth: int, names: Mapping[int, str], numbers: Iterator[int]) -> tuple[int, str]:
    """Number and text of the node with all below it."""
    number = next(numbers)
    if isinstance(node, Leaf):
        return number, f'{{"nodeid": {number}, "leaf": {decimal(node.value)}}}'
    left, left_text = _xgboost_node(node.left, depth + 1, names, numbers)
    right, right_text = _xgboost_node(node.right, depth + 1, names, numbers)
    return number, (
        f'{{"nodeid": {number}, "depth": {depth}, "split": {json.dumps(names[node.feature])}, '
        f'"split_condition": {decimal(next_number(node.threshold))}, "yes": {left}, "no": {right}, '
        f'"missing": {left if node.threshold >= 0.0 else right}, "children": [{left_text}, {right_text}]}}'
    )


def _ranklib(trees: tuple[Node, ...]) -> dict[str, Any]:
    """A `model/ranklib`: trees in RankLib's XML. Its reader takes no white space between tags of a tree."""
    texts = [
        f'<tree id="{number}" weight="1.0"><split>{_ranklib_node(tree)}</split></tree>\n'
        for number, tree in enumerate(trees, start=1)
    ]
    head = f"## LambdaMART\n## No. of trees = {len(trees)}\n"
    return {"type": "model/ranklib", "definition": f"{head}<ensemble>\n{''.join(texts)}</ensemble>\n"}


def _ranklib_node(node: Node) -> str:
    if isinstance(node, Leaf):
        return f"<output> {decimal(node.value)} </output>"
    return (
        f"<feature> {node.feature + 1} </feature><threshold> {decimal(node.threshold)} </threshold>"
        f'<split pos="left">{_ranklib_node(node.left)}</split><split pos="right">{_ranklib_node(node.right)}</split>'
    )


ES_LTR = Target(
    "es-ltr",
    (".json",),
    ("linear", "lambdamart"),
    ("standard", "none"),
    "by name (RankLib: by place)",
    "the LTR plugins of Elasticsearch and OpenSearch",
    to_elastic,
)
