"""A model for Solr's learning-to-rank module, as one uploads it to its model store.

After Solr's source: features, weights, thresholds and sums are float32. Scaled features are (value - avg) / std. A tree
goes left when value <= threshold, where 1e-6 was added to the threshold when it was read. A feature that does not match
has its `defaultValue`, which is 0 unless the feature says otherwise, as LETOR files mean it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.common.checks import FloatArray
from counterrank.export.forest import ZERO, Forest, Layer, Leaf, Node, Split, decimal, standard_numbers
from counterrank.models.base import Scaler

# Thresholds for Solr, which adds 1e-6 to each of them, in float32, when it reads a tree.


SLACK = np.float32(1e-6)
_NEAR = 4  # how many numbers on either side of the obvious one are tried


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
    """The number that Solr turns into this threshold; into the nearest on the same side of zero if there is none.

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


_MODEL = "org.apache.solr.ltr.model."
_NORMALIZER = "org.apache.solr.ltr.norm.StandardNormalizer"


def linear_model(
    coefficients: FloatArray, scaler: Scaler, features: Sequence[int], labels: Sequence[str], name: str
) -> str:
    """A `LinearModel`."""
    weights = {label: _number(coefficients[feature]) for feature, label in zip(features, labels, strict=True)}
    return _model("LinearModel", name, _scaled(scaler, features, labels), {"weights": weights})


def trees_model(forest: Forest, names: dict[int, str], name: str) -> tuple[str, list[Split]]:
    """A `MultipleAdditiveTreesModel`, and the splits whose threshold the slack keeps from being met."""
    trees = [{"weight": "1.0", "root": _node(tree, names)} for tree in forest.trees]
    missed = [split for split in forest.splits() if without_slack(split.threshold).misses(split.threshold)]
    features = [{"name": label} for label in names.values()]
    return _model("MultipleAdditiveTreesModel", name, features, {"trees": trees}), missed


def network_model(
    layers: Sequence[Layer], scaler: Scaler, features: Sequence[int], labels: Sequence[str], name: str
) -> str:
    """A `NeuralNetworkModel`; features that are constant in training have no part in it."""
    content = []
    for place, layer in enumerate(layers):
        weights = layer.weights[:, list(features)] if place == 0 else layer.weights
        content.append(
            {
                "matrix": [[_number(weight) for weight in row] for row in weights],
                "bias": [_number(bias) for bias in layer.bias],
                "activation": "relu" if layer.relu else "identity",
            }
        )
    return _model("NeuralNetworkModel", name, _scaled(scaler, features, labels), {"layers": content})


def _scaled(scaler: Scaler, features: Sequence[int], labels: Sequence[str]) -> list[dict[str, Any]]:
    """Features by name, with a normalizer where they are scaled."""
    if scaler.kind == "none":
        return [{"name": label} for label in labels]
    described = []
    for feature, label in zip(features, labels, strict=True):
        mean, deviation = standard_numbers(float(scaler.low[feature]), float(scaler.inverse[feature]), feature)
        params = {"avg": decimal(mean), "std": decimal(deviation)}
        described.append({"name": label, "norm": {"class": _NORMALIZER, "params": params}})
    return described


def _node(node: Node, names: dict[int, str]) -> dict[str, Any]:
    if isinstance(node, Leaf):
        return {"value": decimal(node.value)}
    return {
        "feature": names[node.feature],
        "threshold": decimal(without_slack(node.threshold).written),
        "left": _node(node.left, names),
        "right": _node(node.right, names),
    }


def _number(value: float) -> float:
    """As a float, also where it is whole: Solr takes 1 for a whole number and 1.0 for what it needs."""
    return float(decimal(value))


def _model(kind: str, name: str, features: list[dict[str, Any]], params: dict[str, Any]) -> str:
    content = {"class": _MODEL + kind, "name": name, "features": features, "params": params}
    return json.dumps(content, indent=1) + "\n"
