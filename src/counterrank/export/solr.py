"""A model for Solr's learning-to-rank module, as one uploads it to its model store.

After Solr's source: features, weights, thresholds and sums are float32. Scaled features are (value - avg) / std. A tree
goes left when value <= threshold, where 1e-6 was added to the threshold when it was read. A feature that does not match
has its `defaultValue`, which is 0 unless the feature says otherwise, as LETOR files mean it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.export.forest import ZERO, Leaf, Node, decimal, float32_scale, forest_of, layers_of
from counterrank.export.targets import ExportJob, Target
from counterrank.models import LinearModel, Scaler, TreesModel

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
        kind, features, params = _trees(job, job.model)
    else:
        job.note_float32()
        kind, features, params = _linear(job, job.model) if isinstance(job.model, LinearModel) else _network(job)
    content = {"class": f"org.apache.solr.ltr.model.{kind}", "name": job.name, "features": features, "params": params}
    return json.dumps(content, indent=1) + "\n"


_Parts = tuple[str, list[dict[str, Any]], dict[str, Any]]  # class, features, params


def _linear(job: ExportJob, model: LinearModel) -> _Parts:
    used = job.used_features()
    labels = job.label(used)
    weights = {label: _number(model.coefficients[feature]) for feature, label in zip(used, labels, strict=True)}
    return "LinearModel", _features(model.scaler, used, labels), {"weights": weights}


def _trees(job: ExportJob, model: TreesModel) -> _Parts:
    forest = forest_of(model)
    names = dict(zip(forest.features, job.label(forest.features), strict=True))
    thresholds = [split.threshold for split in forest.splits()]
    missed = [threshold for threshold in thresholds if without_slack(threshold).misses(threshold)]
    if missed:
        gap = max(abs(without_slack(threshold).compared - threshold) for threshold in missed)
        job.notes.append(
            f"Solr adds 1e-6 to thresholds, so {len(missed)} of {len(thresholds)} come out up to {gap:.1g} off; only "
            "feature values that close to them go the other way"
        )
    trees = [{"weight": "1.0", "root": _node(tree, names)} for tree in forest.trees]
    return "MultipleAdditiveTreesModel", [{"name": label} for label in names.values()], {"trees": trees}


def _network(job: ExportJob) -> _Parts:
    """Features that are constant in training are left out."""
    layers = layers_of(job.model)
    varying = np.flatnonzero(job.model.scaler.inverse).tolist()
    content = [
        {
            "matrix": [
                [_number(weight) for weight in row] for row in (layer.weights[:, varying] if first else layer.weights)
            ],
            "bias": [_number(bias) for bias in layer.bias],
            "activation": "relu" if layer.relu else "identity",
        }
        for first, layer in ((place == 0, layer) for place, layer in enumerate(layers))
    ]
    return "NeuralNetworkModel", _features(job.model.scaler, varying, job.label(varying)), {"layers": content}


def _features(scaler: Scaler, features: Sequence[int], labels: Sequence[str]) -> list[dict[str, Any]]:
    """Features by name, with a normalizer where they are scaled."""
    described: list[dict[str, Any]] = [{"name": label} for label in labels]
    if scaler.kind == "standard":
        for entry, feature in zip(described, features, strict=True):
            mean, deviation = float32_scale(scaler, feature)
            params = {"avg": decimal(mean), "std": decimal(deviation)}
            entry["norm"] = {"class": "org.apache.solr.ltr.norm.StandardNormalizer", "params": params}
    return described


def _node(node: Node, names: Mapping[int, str]) -> dict[str, Any]:
    if isinstance(node, Leaf):
        return {"value": decimal(node.value)}
    return {
        "feature": names[node.feature],
        "threshold": decimal(without_slack(node.threshold).written),
        "left": _node(node.left, names),
        "right": _node(node.right, names),
    }


def _number(value: float) -> float:
    """The float32 number as JSON; a float also where it is whole, since Solr reads 1 as an integer."""
    return float(decimal(value))


SOLR = Target(
    "solr",
    (".json",),
    ("linear", "lambdamart", "mlp"),
    ("standard", "none"),
    "by name",
    "the LTR module of Solr",
    to_solr,
)
