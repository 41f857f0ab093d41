"""Models for learning to rank in Elasticsearch and OpenSearch (`es-ltr`), and in Solr (`solr`).

What follows is taken from the sources of the engines; in all of them numbers are float32.

es-ltr: the body of the request `POST _ltr/_featureset/FEATURES/_createmodel` of the plugins. A linear model is the sum
of weight times normalized feature, with (value - mean) / standard_deviation as the normalizer. `model/xgboost+json`
goes to `yes` when value < split_condition; `model/ranklib` goes left when value <= threshold, and knows features by
their place in the feature set, counted from 1. A feature whose query does not match has no value: linear and RankLib
models then take 0, as LETOR files mean it; XGBoost models took 0 too, or follow `missing` in later versions, which is
set to where missing values go: where 0 goes, unless the trees learned otherwise.

solr: a model for the model store of Solr's learning-to-rank module. Scaled features are (value - avg) / std. A tree
goes left when value <= threshold, where 1e-6 was added to the threshold when it was read. A feature that does not match
has its `defaultValue`, which is 0 unless the feature says otherwise. With `isNullSameAsZero` false (Solr 9.2 and later)
a value that is NaN follows `missing` of each split; without, it goes right.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from counterrank.common.errors import ExportError, listed
from counterrank.export.forest import ZERO, Leaf, Node, decimal, float32_scale, forest_of, layers_of, next_number
from counterrank.export.targets import ExportJob, Target
from counterrank.models import LinearModel, Scaler, TreesModel


def to_elastic(job: ExportJob) -> str:
    """The request for a linear model, or for trees in `job.tree_format`."""
    if isinstance(job.model, LinearModel):
        job.note_float32()
        body = _elastic_linear(job, job.model)
    else:
        forest = forest_of(job.model)
        labels = job.label(forest.features)
        apart = [name for feature, name in zip(forest.features, labels, strict=True) if feature in forest.apart()]
        if job.tree_format == "ranklib":
            if apart:
                raise ExportError(
                    f"tree_format='ranklib': trained with missing values of {listed(apart)}, which RankLib takes as 0; "
                    "use tree_format='xgboost' or another target, or impute the values and train again"
                )
            job.notes.append(
                "RankLib knows features by their place: feature 1 is the first of the feature set, and so on"
            )
            body = _ranklib(forest.trees)
        else:
            job.notes.append(
                "OpenSearch from 3.2 until the fix of its issue 378 sends features without a value the wrong way in "
                "such trees; use the tree format ranklib there"
            )
            if apart:
                job.notes.append(
                    f"trained with missing values of {listed(apart)}: plugins of Elasticsearch before 2024 and of "
                    "OpenSearch before July 2026 do not follow the direction that the trees learned for them"
                )
            body = _xgboost(forest.trees, dict(zip(forest.features, labels, strict=True)))
    return json.dumps({"model": {"name": job.name, "model": body}}, indent=1) + "\n"


def _elastic_linear(job: ExportJob, model: LinearModel) -> dict[str, Any]:
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
        f'"missing": {left if node.absent_left else right}, "children": [{left_text}, {right_text}]}}'
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
    "es-ltr", (".json",), ("linear", "lambdamart"), ("standard", "none"),
    "by name (RankLib: by place)", "the LTR plugins of Elasticsearch and OpenSearch", to_elastic,
)  # fmt: skip


SLACK = np.float32(1e-6)
_NEAR = 4  # how many float32 numbers on either side of the obvious one are tried


@dataclass(frozen=True)
class Slacked:
    """What to write, and the threshold that Solr then compares with."""

    written: float
    compared: float

    def misses(self, threshold: float) -> bool:
        """Whether any value that a feature may have goes the other way than with the threshold meant."""
        low, high = sorted((self.compared, threshold))
        return not (low == high or (low == 0.0 and high <= ZERO))  # no feature lies between 0 and 1e-35


def without_slack(threshold: float) -> Slacked:
    """The number that Solr, which adds 1e-6 in float32, turns into this threshold.

    Into the nearest one on the same side of zero if there is none.

    >>> without_slack(0.5).compared, without_slack(0.0).written == -float(SLACK)
    (0.5, True)
    """
    meant = np.float32(threshold)
    candidates = [meant, meant - SLACK]
    for direction in (-np.inf, np.inf):
        number = meant - SLACK
        for _ in range(_NEAR):
            number = np.nextafter(number, np.float32(direction))
            candidates.append(number)
    found = [Slacked(float(number), float(number + SLACK)) for number in candidates]
    same_side = [slacked for slacked in found if (slacked.compared >= 0.0) == (threshold >= 0.0)]
    return min(same_side, key=lambda slacked: (abs(slacked.compared - threshold), slacked.compared > threshold))


def to_solr(job: ExportJob) -> str:
    """A `LinearModel`, `MultipleAdditiveTreesModel` or `NeuralNetworkModel`."""
    if isinstance(job.model, TreesModel):
        kind, features, params = _solr_trees(job, job.model)
    else:
        job.note_float32()
        kind, features, params = (
            _solr_linear(job, job.model) if isinstance(job.model, LinearModel) else _solr_network(job)
        )
    content = {"class": f"org.apache.solr.ltr.model.{kind}", "name": job.name, "features": features, "params": params}
    return json.dumps(content, indent=1) + "\n"


_Parts = tuple[str, list[dict[str, Any]], dict[str, Any]]  # class, features, params


def _solr_linear(job: ExportJob, model: LinearModel) -> _Parts:
    used = job.used_features()
    labels = job.label(used)
    weights = {label: _float32(model.coefficients[feature]) for feature, label in zip(used, labels, strict=True)}
    return "LinearModel", _solr_features(model.scaler, used, labels), {"weights": weights}


def _solr_trees(job: ExportJob, model: TreesModel) -> _Parts:
    forest = forest_of(model)
    names = dict(zip(forest.features, job.label(forest.features), strict=True))
    thresholds = [split.threshold for split in forest.splits() if split.threshold > -np.inf]
    missed = [threshold for threshold in thresholds if without_slack(threshold).misses(threshold)]
    if missed:
        gap = max(abs(without_slack(threshold).compared - threshold) for threshold in missed)
        job.notes.append(
            f"Solr adds 1e-6 to thresholds, so {len(missed)} of {len(thresholds)} come out up to {gap:.1g} off; only "
            "feature values that close to them go the other way"
        )
    apart = [names[feature] for feature in forest.apart()]
    trees = [{"weight": "1.0", "root": _solr_node(tree, names, bool(apart))} for tree in forest.trees]
    params: dict[str, Any] = {"trees": trees}
    if apart:
        params = {"isNullSameAsZero": "false", **params}
        job.notes.append(
            f'trained with missing values of {listed(apart)}: needs Solr 9.2 or later, and "defaultValue": "NaN" in '
            "the definition of each of these features"
        )
    return "MultipleAdditiveTreesModel", [{"name": label} for label in names.values()], params


def _solr_network(job: ExportJob) -> _Parts:
    """Features that are constant in training are left out."""
    layers = layers_of(job.model)
    varying = np.flatnonzero(job.model.scaler.inverse).tolist()
    content = [
        {
            "matrix": [
                [_float32(weight) for weight in row] for row in (layer.weights[:, varying] if first else layer.weights)
            ],
            "bias": [_float32(bias) for bias in layer.bias],
            "activation": "relu" if layer.relu else "identity",
        }
        for first, layer in ((place == 0, layer) for place, layer in enumerate(layers))
    ]
    return "NeuralNetworkModel", _solr_features(job.model.scaler, varying, job.label(varying)), {"layers": content}


def _solr_features(scaler: Scaler, features: Sequence[int], labels: Sequence[str]) -> list[dict[str, Any]]:
    """Features by name, with a normalizer where they are scaled."""
    described: list[dict[str, Any]] = [{"name": label} for label in labels]
    if scaler.kind == "standard":
        for entry, feature in zip(described, features, strict=True):
            mean, deviation = float32_scale(scaler, feature)
            params = {"avg": decimal(mean), "std": decimal(deviation)}
            entry["norm"] = {"class": "org.apache.solr.ltr.norm.StandardNormalizer", "params": params}
    return described


def _solr_node(node: Node, names: Mapping[int, str], missing: bool) -> dict[str, Any]:
    """The node with all below it; with `missing`, each split says where missing values go."""
    if isinstance(node, Leaf):
        return {"value": decimal(node.value)}
    is_present = node.threshold == -np.inf  # parts missing values from all others; Java knows the word
    return {
        "feature": names[node.feature],
        "threshold": "-Infinity" if is_present else decimal(without_slack(node.threshold).written),
        **({"missing": "left" if node.absent_left else "right"} if missing else {}),
        "left": _solr_node(node.left, names, missing),
        "right": _solr_node(node.right, names, missing),
    }


def _float32(value: float) -> float:
    """The float32 number as JSON; a float also where it is whole, since Solr reads 1 as an integer."""
    return float(decimal(value))


SOLR = Target(
    "solr", (".json",), ("linear", "lambdamart", "mlp"), ("standard", "none"),
    "by name", "the LTR module of Solr", to_solr,
)  # fmt: skip
