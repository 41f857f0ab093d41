"""What LightGBM's text of trees means, document by document, after its `NumericalDecision`."""

from __future__ import annotations

import math

ZERO = 1e-35  # up to here a value counts as zero


def forest_scores(text, features):
    """The sum over trees of the leaf that each document reaches."""
    trees = [
        dict(line.split("=", 1) for line in block.split("\n") if "=" in line) for block in text.split("\nTree=")[1:]
    ]
    return [sum(_leaf(tree, row) for tree in trees) for row in features.tolist()]


def _leaf(tree, row):
    leaves = [float(value) for value in tree["leaf_value"].split()]
    if len(leaves) == 1:
        return leaves[0]
    lists = {
        name: tree[name].split()
        for name in ("split_feature", "threshold", "decision_type", "left_child", "right_child")
    }
    node = 0
    while node >= 0:
        left = _goes_left(
            row[int(lists["split_feature"][node])], float(lists["threshold"][node]), int(lists["decision_type"][node])
        )
        node = int(lists["left_child" if left else "right_child"][node])
    return leaves[-node - 1]


def _goes_left(value, threshold, decision):
    value = 0.0 if abs(value) <= ZERO else value
    default_left, missing = bool(decision & 2), ("None", "Zero", "NaN")[decision >> 2]
    if math.isnan(value) and missing != "NaN":
        value = 0.0
    if (missing == "Zero" and abs(value) <= ZERO) or (missing == "NaN" and math.isnan(value)):
        return default_left
    return value <= threshold
