"""What the search engines do with an exported model, written after their documentation and source, not after ours.

Elasticsearch LTR and OpenSearch LTR: `LinearRanker`, `StandardFeatureNormalizer`, `NaiveAdditiveDecisionTree` and
RankLib's `Ensemble`. Solr: `LinearModel`, `StandardNormalizer`, `MultipleAdditiveTreesModel`, `NeuralNetworkModel`.
Features are float32; NaN stands for a feature that has no value for a document.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree

import numpy as np

F = np.float32


def java_float(text):
    """A JSON number as the parsers read it: a double, then a cast."""
    return F(float(text))


# Elasticsearch and OpenSearch


def elastic_scores(body, feature_set, features, absent="missing"):
    """`body` as POSTed to _createmodel of a feature set; `absent` is how XGBoost trees take a feature without a value.

    "missing": NaN, which follows the node's `missing` (Elasticsearch since 2024, OpenSearch since July 2026); "zero":
    taken for 0 (before that).
    """
    request = json.loads(body)
    assert set(request) == {"model"}
    assert set(request["model"]) == {"name", "model"}
    model = request["model"]["model"]
    assert set(model) <= {"type", "definition", "feature_normalizers"}
    assert isinstance(model["definition"], str)
    evaluate = {"model/linear": _linear, "model/xgboost+json": _xgboost, "model/ranklib": _ranklib}[model["type"]]
    values = features.astype(F).copy()
    if absent == "zero" or model["type"] != "model/xgboost+json":
        values = np.nan_to_num(values, nan=F(0))
    for name, normalizer in model.get("feature_normalizers", {}).items():
        ((kind, numbers),) = normalizer.items()
        assert kind == "standard"
        assert set(numbers) == {"mean", "standard_deviation"}
        deviation = F(numbers["standard_deviation"])
        assert deviation > 0
        column = feature_set.index(name)  # an unknown name is refused by the plugin
        values[:, column] = (values[:, column] - F(numbers["mean"])) / deviation
    return evaluate(model["definition"], feature_set, values)


def _linear(definition, feature_set, values):
    weights = np.zeros(len(feature_set), F)
    for name, weight in json.loads(definition, parse_float=java_float, parse_int=java_float).items():
        weights[feature_set.index(name)] = weight
    score = np.zeros(len(values), F)
    for column, weight in enumerate(weights):
        score = score + weight * values[:, column]
    assert score.dtype == F
    return score


def _xgboost(definition, feature_set, values):
    trees = json.loads(definition)
    assert len(trees) > 0
    total = np.zeros(len(values), F)
    for tree in trees:
        out = np.empty(len(values), F)
        _xgboost_node(tree, 0, feature_set, values, np.arange(len(values)), out)
        total = total + out
    return total


def _xgboost_node(node, depth, feature_set, values, rows, out):
    if "leaf" in node:
        assert set(node) == {"nodeid", "leaf"}
        out[rows] = F(node["leaf"])
        return
    assert set(node) == {"nodeid", "depth", "split", "split_condition", "yes", "no", "missing", "children"}
    assert node["depth"] == depth
    left, right = node["children"]
    assert (node["yes"], node["no"]) == (left["nodeid"], right["nodeid"])
    assert node["missing"] in (node["yes"], node["no"])
    x = values[rows, feature_set.index(node["split"])]
    goes_left = F(node["split_condition"]) > x
    goes_left[np.isnan(x)] = node["missing"] == node["yes"]
    _xgboost_node(left, depth + 1, feature_set, values, rows[goes_left], out)
    _xgboost_node(right, depth + 1, feature_set, values, rows[~goes_left], out)


def _ranklib(definition, feature_set, values):
    lines = definition.split("\n")
    assert lines[0] == "## LambdaMART"
    assert definition.endswith("\n")  # one reader drops what no line end follows
    ensemble = ElementTree.fromstring("".join(line.strip() for line in lines if not line.startswith("#")))
    total = np.zeros(len(values), F)
    for tree in ensemble.findall("tree"):
        (split,) = tree
        assert tree.text is None  # the first child has to be the split, not white space
        out = np.empty(len(values))
        _ranklib_node(split, values, np.arange(len(values)), out)
        weight = np.float64(F(tree.attrib["weight"]))
        total = (total.astype(np.float64) + out * weight).astype(F)
    return total


def _ranklib_node(split, values, rows, out):
    assert split.text is None
    if split[0].tag == "output":
        out[rows] = np.float64(F(split[0].text.strip()))
        return
    feature, threshold, left, right = split
    assert (feature.tag, threshold.tag) == ("feature", "threshold")
    assert (left.attrib["pos"], right.attrib["pos"]) == ("left", "right")
    column = int(feature.text) - 1
    assert 0 <= column < values.shape[1]
    goes_left = values[rows, column] <= F(threshold.text.strip())
    _ranklib_node(left, values, rows[goes_left], out)
    _ranklib_node(right, values, rows[~goes_left], out)


# Solr


def solr_scores(text, store, features, nullable=()):
    """`text` as PUT into the model store; `store` names the columns of `features`, with 0 for what does not match.

    Features in `nullable` have the `defaultValue` NaN.
    """
    model = json.loads(text)
    assert set(model) == {"class", "name", "features", "params"}
    columns = []
    for feature in model["features"]:
        x = features[:, store.index(feature["name"])].astype(F)
        x = x if feature["name"] in nullable else np.nan_to_num(x, nan=F(0))
        if "norm" in feature:
            assert feature["norm"]["class"] == "org.apache.solr.ltr.norm.StandardNormalizer"
            average, deviation = F(feature["norm"]["params"]["avg"]), F(feature["norm"]["params"]["std"])
            assert deviation > 0
            x = (x - average) / deviation
        columns.append(x)
    names = [feature["name"] for feature in model["features"]]
    values = np.stack(columns, axis=1) if columns else np.empty((len(features), 0), F)
    evaluate = {"LinearModel": _solr_linear, "MultipleAdditiveTreesModel": _solr_trees, "NeuralNetworkModel": _solr_net}
    package, _, kind = model["class"].rpartition(".")
    assert package == "org.apache.solr.ltr.model"
    return evaluate[kind](model["params"], names, values)


def _solr_linear(params, names, values):
    assert set(params["weights"]) == set(names)
    assert names
    score = np.zeros(len(values), F)
    for column, name in enumerate(names):
        score = score + values[:, column] * F(params["weights"][name])
    return score


def _solr_trees(params, names, values):
    assert set(params) <= {"trees", "isNullSameAsZero"}
    nulls = params.get("isNullSameAsZero", "true") == "false"
    total = np.zeros(len(values), F)
    for tree in params["trees"]:
        out = np.empty(len(values), F)
        _solr_node(tree["root"], names, values, np.arange(len(values)), out, nulls)
        total = total + F(tree["weight"]) * out
    return total


def _solr_node(node, names, values, rows, out, nulls):
    if "feature" not in node:
        assert set(node) == {"value"}
        out[rows] = F(node["value"])
        return
    assert all(isinstance(node[part], str) for part in ("feature", "threshold"))
    x = values[rows, names.index(node["feature"])]
    goes_left = x <= F(node["threshold"]) + F(1e-6)
    if nulls:  # where it is not given, Solr fails
        goes_left |= np.isnan(x) & ({"left": True, "right": False}[node["missing"]])
    _solr_node(node["left"], names, values, rows[goes_left], out, nulls)
    _solr_node(node["right"], names, values, rows[~goes_left], out, nulls)


def _solr_net(params, names, values):
    for layer in params["layers"]:
        numbers = [number for row in layer["matrix"] for number in row] + layer["bias"]
        assert all(type(number) is float for number in numbers)  # whole numbers would be read as another type
        matrix, bias = np.array(layer["matrix"], F), np.array(layer["bias"], F)
        out = np.tile(bias, (len(values), 1))
        for column in range(matrix.shape[1]):
            out = out + values[:, column, None] * matrix[:, column]
        values = np.maximum(out, F(0)) if layer["activation"] == "relu" else out
    assert values.shape[1] == 1
    return values[:, 0]
