"""Trees made by hand as LightGBM's text, so that LightGBM itself says what they mean."""

from __future__ import annotations

from counterrank.models import Scaler, TreesModel

MISSING = {"None": 0, "Zero": 4, "NaN": 8}


class Flat:
    """A tree of (feature, threshold, left, right) and numbers, as LightGBM's lists.

    A fifth entry is whether missing values go left; `default_left` where there is none.
    """

    def __init__(self, tree, default_left):
        self.features, self.thresholds, self.left, self.right, self.leaves = [], [], [], [], []
        self.default_left, self.defaults = default_left, []
        self.add(tree)

    def add(self, tree):
        if not isinstance(tree, tuple):
            self.leaves.append(tree)
            return -len(self.leaves)
        place = len(self.features)
        feature, threshold, left, right = tree[:4]
        self.defaults.append(tree[4] if len(tree) == 5 else self.default_left)
        self.features.append(feature)
        self.thresholds.append(threshold)
        self.left.append(None)
        self.right.append(None)
        self.left[place] = self.add(left)
        self.right[place] = self.add(right)
        return place


def text_of(trees, n_features, missing="None", default_left=True, more_header=""):
    names = " ".join(f"Column_{feature}" for feature in range(n_features))
    infos = " ".join("[-1:1]" for _ in range(n_features))
    parts = [
        "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\n"
        f"max_feature_idx={n_features - 1}\n{more_header}feature_names={names}\nfeature_infos={infos}\n\n"
    ]
    for number, tree in enumerate(trees):
        flat = Flat(tree, default_left)
        splits, leaves = len(flat.features), len(flat.leaves)
        lists = {
            "split_feature": flat.features,
            "split_gain": [1] * splits,
            "threshold": [repr(float(threshold)) for threshold in flat.thresholds],
            "decision_type": [MISSING[missing] + (2 if left else 0) for left in flat.defaults],
            "left_child": flat.left,
            "right_child": flat.right,
            "leaf_value": [repr(float(value)) for value in flat.leaves],
            "leaf_weight": [1] * leaves,
            "leaf_count": [1] * leaves,
            "internal_value": [0] * splits,
            "internal_weight": [1] * splits,
            "internal_count": [1] * splits,
        }
        lines = "\n".join(f"{name}={' '.join(map(str, values))}" for name, values in lists.items())
        parts.append(f"Tree={number}\nnum_leaves={leaves}\nnum_cat=0\n{lines}\nis_linear=0\nshrinkage=1\n\n\n")
    return "".join(parts) + "end of trees\n"


def trees_model(trees, scaler: Scaler, **more) -> TreesModel:
    n_features = len(scaler.low)
    return TreesModel(text_of(trees, n_features, **more), scaler, n_features)
