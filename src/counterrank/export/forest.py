"""Trees and networks as every target can take them: splits of raw float32 features and leaves; layers.

LightGBM compares in double: a scaled feature s goes left of the threshold t when s <= t, after every |s| up to 1e-35
was taken for zero. Targets compare raw features in float32. Whether a value goes left never turns back to no as the
value falls, so one float32 number says all of it: the last one that goes left. `last_left` searches for it among all
float32 numbers, by the very comparison that LightGBM makes, so it is exact by construction, with scaling, rounding and
LightGBM's zero worked in. A missing value (NaN) goes where LightGBM sends it: in its learned direction where training
had missing values of the feature, else where a scaled 0 goes. What cannot be said that way is refused by name:
categorical splits, linear trees, several outputs, zeros that count as missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.common.checks import FloatArray
from counterrank.common.errors import ExportError
from counterrank.common.jit import Array
from counterrank.models import Model, NeuralModel, Scaler, TreesModel

# LightGBM's kZeroThreshold, a float32 number
ZERO = float(np.float32(1e-35))
LARGEST = float(np.finfo(np.float32).max)
_TOP = int(np.float32(LARGEST).view(np.int32))  # the place of the largest number, counted from zero


def last_left(thresholds: FloatArray, low: FloatArray, inverse: FloatArray) -> FloatArray:
    """The largest raw float32 value x whose scaled value float32((x - low) * inverse) goes left of each threshold.

    -inf where none goes left. Raw values are finite, so the largest float32 number means that all go left.

    >>> one = np.ones(4)
    >>> last_left(np.array([0.5, 0.1, 0.0, -1e300]), 0 * one, one).tolist()
    [0.5, 0.09999999403953552, 1.0000000180025095e-35, -inf]
    >>> last_left(np.array([1.0]), np.array([10.0]), np.array([0.5])).tolist()
    [12.0]
    """
    below = np.full(len(thresholds), -_TOP - 1)  # goes left, or lies before all numbers
    above = np.full(len(thresholds), _TOP + 1)  # goes right, or lies after all numbers
    while np.any(above - below > 1):
        middle = np.clip((below + above) // 2, -_TOP, _TOP)
        left = _goes_left(_number_at(middle), thresholds, low, inverse)
        below, above = np.where(left, middle, below), np.where(left, above, middle)
    return np.where(below < -_TOP, -np.inf, _number_at(np.maximum(below, -_TOP)).astype(np.float64))


def _goes_left(raw: Array, thresholds: FloatArray, low: FloatArray, inverse: FloatArray) -> Array:
    with np.errstate(over="ignore"):
        scaled = ((raw.astype(np.float64) - low) * inverse).astype(np.float32).astype(np.float64)
    left: Array = np.where(np.abs(scaled) <= ZERO, 0.0, scaled) <= thresholds
    return left


def _number_at(place: Array) -> Array:
    """The float32 number at a place in the order of all of them, with 0 at 0."""
    numbers = np.abs(place).astype(np.int32).view(np.float32)
    return np.where(place < 0, -numbers, numbers)


@dataclass(frozen=True)
class Leaf:
    """What a document that ends here adds to its score."""

    value: float


@dataclass(frozen=True)
class Split:
    """Documents with x <= threshold go left; the feature is counted from 0.

    A threshold of -inf parts missing values, which go left, from all others.

    Attributes:
        missing_left: whether a missing value (NaN) goes left, as LightGBM sends it.
        learned: whether training had missing values of the feature, so that this direction was learned.
    """

    feature: int
    threshold: float
    left: Node
    right: Node
    missing_left: bool
    learned: bool

    @property
    def absent_left(self) -> bool:
        """Whether a document goes left for which a search engine has no value: in the learned direction, else as 0."""
        return self.missing_left if self.learned else self.threshold >= 0.0


Node = Leaf | Split


@dataclass(frozen=True)
class Forest:
    """The score of a document is the sum of the leaves it reaches, one in each tree."""

    trees: tuple[Node, ...]

    @property
    def features(self) -> list[int]:
        """The features that splits look at, counted from 0."""
        return sorted({split.feature for split in self.splits()})

    def apart(self) -> list[int]:
        """The features, counted from 0, of which a split learned to send missing values apart from 0."""
        return sorted({split.feature for split in self.splits() if split.absent_left != (split.threshold >= 0.0)})

    def splits(self) -> Iterator[Split]:
        """All splits of all trees."""
        waiting = list(self.trees)
        while waiting:
            node = waiting.pop()
            if isinstance(node, Split):
                yield node
                waiting += [node.left, node.right]


def forest_of(model: Model) -> Forest:
    """The trees of a model, as splits of raw features; with per-query scaling, of the scaled ones."""
    assert isinstance(model, TreesModel)
    dump = model.booster.dump_model()
    if dump["num_tree_per_iteration"] != 1:
        raise ExportError(f"trees: {dump['num_tree_per_iteration']} outputs a document; expected one score")
    roots = [info["tree_structure"] for info in dump["tree_info"]]
    splits = [(split, tree) for tree, root in enumerate(roots) for split in _splits(root)]
    features = np.array([split["split_feature"] for split, _ in splits], dtype=np.int64)
    # of the text, since the dump has 1e300 for an infinite one
    written = [line.split() for line in re.findall(r"^threshold=(.*)$", model.text, re.MULTILINE)]
    thresholds = np.array([float(written[tree][split["split_index"]]) for split, tree in splits], dtype=np.float64)
    scaler = Scaler.none(model.n_features) if model.scaler.kind == "query" else model.scaler
    raw = iter(last_left(thresholds, scaler.low[features], scaler.inverse[features]).tolist())
    return Forest(tuple(_node(root, raw) for root in roots) or (Leaf(0.0),))


def _splits(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The splits below a node, itself first, left before right; each checked."""
    if "split_feature" not in node:
        if "leaf_coeff" in node:
            raise ExportError("trees: linear trees cannot be exported; train without linear_tree")
        return
    number = node["split_feature"] + 1
    if node["decision_type"] != "<=":
        raise ExportError(
            f"trees: feature {number} is categorical, which cannot be exported; train without categorical_feature"
        )
    if node["missing_type"] == "Zero" and node["default_left"] != (node["threshold"] >= 0.0):
        raise ExportError(
            f"trees: a split of feature {number} sends zeros apart from their neighbours, which cannot be exported; "
            "train without zero_as_missing"
        )
    yield node
    yield from _splits(node["left_child"])
    yield from _splits(node["right_child"])


def _node(node: dict[str, Any], thresholds: Iterator[float]) -> Node:
    """The node with the thresholds taken in the order of `_splits`; a split that parts nothing gives way to a child."""
    if "split_feature" not in node:
        return Leaf(float(node["leaf_value"]))
    threshold = next(thresholds)
    left = _node(node["left_child"], thresholds)
    right = _node(node["right_child"], thresholds)
    feature, learned = node["split_feature"], node["missing_type"] == "NaN"
    missing_left = bool(node["default_left"]) if learned else node["threshold"] >= 0.0
    if threshold == LARGEST:  # all values go left
        return left if missing_left else Split(feature, -np.inf, right, left, missing_left=True, learned=learned)
    if threshold == -np.inf and not missing_left:
        return right
    return Split(feature, threshold, left, right, missing_left, learned)


def next_number(value: float) -> float:
    """The next larger float32 number, with which "x < next" says what "x <= value" says.

    >>> next_number(1.0) == 1.0 + 2.0**-23
    True
    """
    return float(np.nextafter(np.float32(value), np.float32(np.inf)))


def decimal(value: float) -> str:
    """A short text that both a float32 parser and a double parser followed by a cast turn into float32(value).

    >>> decimal(0.1), decimal(float(np.float32(1e-35)))
    ('0.1', '1e-35')
    """
    number = np.float32(value)
    short = str(number)
    return short if np.float32(float(short)) == number else repr(float(number))


def float32_scale(scaler: Scaler, feature: int) -> tuple[float, float]:
    """Mean and standard deviation of a feature as float32 numbers; an error where they do not fit.

    >>> float32_scale(Scaler("standard", np.array([0.5]), np.array([4.0])), feature=0)
    (0.5, 0.25)
    """
    mean, deviation = float(scaler.low[feature]), 1.0 / float(scaler.inverse[feature])
    with np.errstate(over="ignore"):
        numbers = np.float32(mean), np.float32(deviation)
    if not np.isfinite(numbers).all() or numbers[1] <= 0.0:
        raise ExportError(
            f"feature {feature + 1}: a mean of {mean:g} and a deviation of {deviation:g} do not fit into float32, "
            "in which the target computes; scale the feature before training"
        )
    return float(decimal(float(numbers[0]))), float(decimal(float(numbers[1])))


@dataclass(frozen=True)
class Layer:
    """x -> weights x + bias, followed by max(0, .) where `relu`; one row of weights for each output."""

    weights: FloatArray
    bias: FloatArray
    relu: bool


def layers_of(model: Model) -> list[Layer]:
    """The layers of a network that `Ranker(model="mlp")` makes: `nn.Sequential` of `Linear`, `ReLU` and `Dropout`.

    Any other module is refused, since only its author knows what it computes.
    """
    if not isinstance(model, NeuralModel):
        raise ExportError(f"model: {type(model).__name__} is unknown to export; expected one that Ranker trained")
    from torch import float64, nn

    module, layers = model.module, list[Layer]()
    for part in module if type(module) is nn.Sequential else [module]:
        # exact types, since a derived class may do as it likes with its parameters
        if type(part) is nn.Linear and part.weight.dtype == float64:
            weights = part.weight.numpy(force=True)
            bias = np.zeros(len(weights)) if part.bias is None else part.bias.numpy(force=True)
            layers.append(Layer(weights, bias, relu=False))
        elif type(part) is nn.ReLU and layers:
            layers[-1] = Layer(layers[-1].weights, layers[-1].bias, relu=True)
        elif type(part) is not nn.Dropout:  # which does nothing once training is over
            raise ExportError(
                f"model: {type(module).__name__} is a module of your own; export ranker.model_.module with torch.onnx, "
                "and scale features before it as ranker.model_.scaler does, or train mlp"
            )
    if not layers or len(layers[-1].weights) != 1:
        raise ExportError("model: the network does not end in one score a document, so it cannot be exported")
    return layers
