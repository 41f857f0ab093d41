"""LightGBM's text of boosted trees, looked at before LightGBM sees it.

LightGBM believes what it reads: a child that is not there ends the process, one that points back hangs it, and a wrong
length makes it add up whatever lies beside its lists. So a text from a file is checked here, in Python and without
LightGBM. What passes is a set of trees: each list as long as its tree has splits or leaves, each split and each leaf
below exactly one other split, each feature one that documents have, each number finite.
"""

from __future__ import annotations

import re

import numpy as np

from counterrank.common.errors import ModelError
from counterrank.models.tree_fields import Fields, shown

_HEADER = (
    "version", "num_class", "num_tree_per_iteration", "label_index", "max_feature_idx", "feature_names",
    "feature_infos", "tree_sizes",
)  # fmt: skip
_TREE = (
    "num_leaves", "num_cat", "split_feature", "split_gain", "threshold", "decision_type", "left_child", "right_child",
    "leaf_value", "leaf_weight", "leaf_count", "internal_value", "internal_weight", "internal_count", "is_linear",
    "shrinkage",
)  # fmt: skip
_CATEGORICAL = ("cat_boundaries", "cat_threshold")
_LINEAR = ("leaf_const", "num_features", "leaf_features", "leaf_coeff")

_END = "\nend of trees\n"
_MOST_LEAVES = 131072  # the most that LightGBM's own num_leaves allows
_INT32, _UINT32 = 2**31 - 1, 2**32 - 1

# to LightGBM a carriage return ends a line, and a zero the text
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")
_IMPORTANCE = re.compile(r"\S+=[0-9]+")
_PARAMETER = re.compile(r"\[[a-z0-9_]+: .*\]")
_LAST = re.compile(r"\n?(?:\npandas_categorical:(?:null|\[\])\n)?\n?")


def check_tree_text(text: str, n_features: int) -> None:
    """Raise `ModelError`, with the tree and the field at fault, unless the text is that of trees for one score.

    Meant for what LightGBM 4.5 and later write. Numbers are not judged, as long as they are finite.

    >>> check_tree_text("tree\\nversion=v4\\n", 3)
    Traceback (most recent call last):
    ...
    counterrank.common.errors.ModelError: no line 'Tree=0'; expected a tree
    """
    found = _CONTROL.search(text)
    if found:
        raise ModelError(f"a control character at {found.start()}; expected plain lines")
    begin = text.find("\nTree=") + 1
    if begin == 0:
        raise ModelError("no line 'Tree=0'; expected a tree")
    end = text.find(_END, begin) + 1
    if end == 0:
        raise ModelError("no line 'end of trees'; the text is cut short")
    if not text[:end].isascii():
        raise ModelError("letters that are not ASCII among the trees; expected names and numbers")
    sizes = _check_header(text[:begin], n_features)
    for number, block in enumerate(_blocks(text[begin:end], sizes)):
        try:
            _check_tree(Fields(block[:-3].split("\n")[1:]), n_features)
        except ModelError as error:
            raise ModelError(f"tree {number}: {error}") from None
    _check_tail(text[end - 1 + len(_END) :])


def _check_header(text: str, n_features: int) -> list[int]:
    """The lines before the first tree; returns the length of each tree's text."""
    lines = text.split("\n")
    if lines[0] != "tree" or lines[-2:] != ["", ""]:
        raise ModelError("the text does not begin with 'tree', fields and an empty line, as LightGBM's texts do")
    fields = Fields(lines[1:-2])
    fields.expect(_HEADER, ["monotone_constraints"])
    if fields.words("version") != ["v4"]:
        raise ModelError(f"version is {shown(' '.join(fields.words('version')))}; expected v4")
    fields.whole("num_class", 1, 1)
    fields.whole("num_tree_per_iteration", 1, 1)
    fields.whole("label_index", 0, 0)
    n_found = fields.whole("max_feature_idx", 0, _INT32 - 1) + 1
    if n_found != n_features:
        raise ModelError(f"trees for {n_found} features (max_feature_idx + 1); expected {n_features}")
    fields.words("feature_names", n_features)
    fields.words("feature_infos", n_features)
    if "monotone_constraints" in fields:
        fields.wholes("monotone_constraints", n_features, -1, 1)
    sizes: list[int] = fields.wholes("tree_sizes", None, 1, _INT32).tolist()
    return sizes


def _blocks(text: str, sizes: list[int]) -> list[str]:
    """The text of each tree: from its line Tree= to that of the next, which is the length LightGBM counts."""
    places = [found.start() for found in re.finditer("^Tree=", text, re.MULTILINE)]
    blocks = [text[begin:end] for begin, end in zip(places, [*places[1:], len(text)], strict=True)]
    if len(sizes) != len(blocks):
        raise ModelError(f"tree_sizes has {len(sizes)} entries; expected {len(blocks)}, one for each tree")
    for number, (block, size) in enumerate(zip(blocks, sizes, strict=True)):
        if not block.startswith(f"Tree={number}\n"):
            raise ModelError(f"tree {number} begins with {shown(block.partition(chr(10))[0])}; expected Tree={number}")
        if len(block) != size:
            raise ModelError(f"tree {number} is {len(block)} bytes long; tree_sizes says {size}")
        if not block.endswith("\n\n\n"):
            raise ModelError(f"tree {number} does not end with two empty lines")
    return blocks


def _check_tree(fields: Fields, n_features: int) -> None:
    leaves = fields.whole("num_leaves", 1, _MOST_LEAVES)
    splits = leaves - 1
    n_categorical = fields.whole("num_cat", 0, splits)
    is_linear = fields.whole("is_linear", 0, 1)
    fields.expect([*_TREE, *(_CATEGORICAL if n_categorical else ()), *(_LINEAR if is_linear else ())])
    fields.reals("shrinkage", 1)
    fields.reals("leaf_value", leaves)
    fields.wholes("split_feature", splits, 0, n_features - 1)
    for name in ("split_gain", "internal_value", "internal_weight"):
        fields.check_remarks(name, splits)
    fields.wholes("internal_count", splits, 0, _INT32)
    is_plain_leaf = not splits and not is_linear  # of which LightGBM reads the value alone; it may lack the rest
    fields.check_remarks("leaf_weight", 0 if is_plain_leaf and not fields.words("leaf_weight") else leaves)
    fields.wholes("leaf_count", 0 if is_plain_leaf and not fields.words("leaf_count") else leaves, 0, _INT32)
    _check_children(fields, leaves)
    _check_decisions(fields, splits, n_categorical)
    if is_linear:
        _check_linear(fields, leaves, n_features)


def _check_children(fields: Fields, leaves: int) -> None:
    """Every split but the first, and every leaf, is the child of one split that comes before it."""
    splits = leaves - 1
    sides = {name: fields.wholes(name, splits, -leaves, splits - 1) for name in ("left_child", "right_child")}
    if not splits:
        return
    before = np.arange(splits)
    for name, children in sides.items():
        is_back = (children >= 0) & (children <= before)
        if is_back.any():
            place = int(is_back.argmax())
            raise ModelError(f"{name}[{place}] is {children[place]}; expected a leaf (< 0) or a split after {place}")
    times = np.bincount(np.concatenate(list(sides.values())) + leaves, minlength=leaves + splits)
    times[leaves] = 1  # the root, which is no child: that would be one before its parent
    if (times != 1).any():
        place = int((times != 1).argmax())
        what = f"leaf {leaves - 1 - place}" if place < leaves else f"split {place - leaves}"
        raise ModelError(f"{what} is a child {times[place]} times in left_child and right_child; expected once")


def _check_decisions(fields: Fields, splits: int, n_categorical: int) -> None:
    """Bit 0: categorical; bit 1: missing values go left; from bit 2: which values are missing (none, zero, NaN)."""
    thresholds = fields.reals("threshold", splits)
    decisions = fields.wholes("decision_type", splits, 0, 11)
    sets = thresholds[decisions % 2 == 1]
    if len(sets) != n_categorical:
        raise ModelError(f"decision_type has {len(sets)} categorical splits; expected {n_categorical}, as num_cat says")
    if not n_categorical:
        return
    if not np.array_equal(np.sort(sets), np.arange(n_categorical)):
        raise ModelError(f"threshold of categorical splits; expected each of 0 to {n_categorical - 1} once")
    words = len(fields.wholes("cat_threshold", None, 0, _UINT32))
    boundaries = fields.wholes("cat_boundaries", n_categorical + 1, 0, words)
    if boundaries[0] != 0 or boundaries[-1] != words or (np.diff(boundaries) < 0).any():
        raise ModelError(f"cat_boundaries do not rise from 0 to {words}, the length of cat_threshold")


def _check_linear(fields: Fields, leaves: int, n_features: int) -> None:
    """Each leaf has a constant and as many features with coefficients as num_features says."""
    fields.reals("leaf_const", leaves)
    total = int(fields.wholes("num_features", leaves, 0, n_features).sum())
    fields.pack("leaf_features")
    fields.pack("leaf_coeff")
    fields.wholes("leaf_features", total, 0, n_features - 1)
    fields.reals("leaf_coeff", total)


def _check_tail(text: str) -> None:
    """What follows the trees: nothing, or importances and the parameters of training, which LightGBM reads as well."""
    if not text:
        return
    importances, mark, rest = text.partition("\nparameters:\n")
    parameters, end, last = rest.partition("\nend of parameters\n")
    if not importances.startswith("\nfeature_importances:\n") or not mark or not end:
        raise ModelError("expected feature_importances, parameters and 'end of parameters' after the trees")
    _check_lines("feature_importances", importances.split("\n")[2:], _IMPORTANCE, "name=count")
    _check_lines("parameters", parameters.split("\n"), _PARAMETER, "[name: value]")
    if not _LAST.fullmatch(last):
        raise ModelError("expected nothing but 'pandas_categorical:null' after the parameters")


def _check_lines(part: str, lines: list[str], pattern: re.Pattern[str], expected: str) -> None:
    for line in lines:
        if line and not pattern.fullmatch(line):
            raise ModelError(f"{part}: a line {shown(line)}; expected {expected}")
