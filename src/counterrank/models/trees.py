"""Boosted trees: a score is the sum of the leaves a document falls into.

LightGBM trusts what it reads: a missing child ends the process, one that points back hangs it, and a wrong length makes
it add up whatever lies next to its lists. So `check_tree_text` checks the text of a file in Python, without LightGBM.
What passes is a set of trees: each list as long as its tree has splits or leaves, each split and each leaf below
exactly one other split, each feature one that documents have, each number finite, but for the thresholds of splits
that part missing values from all others.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.common.checks import FloatArray
from counterrank.common.errors import ModelError, listed, printable, require
from counterrank.common.parallel import thread_count
from counterrank.data import RankingData
from counterrank.data.features import missing_columns
from counterrank.models.model import Scaler

# LightGBM takes more for a number than these, and not always for the one Python takes it for
_WHOLE = r"-?[0-9]{1,10}"
_REAL = r"-?[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?"
_ANY_REAL = rf"(?:{_REAL}|-?inf|-?nan)"


class Fields:
    """Lines of name=value, each name once, read as strictly as LightGBM writes them.

    A list has one space between its entries.

    >>> fields = Fields(["num_leaves=2", "leaf_value=0.5 -1e-3"])
    >>> fields.whole("num_leaves", 1, 10)
    2
    >>> fields.reals("leaf_value", 2).tolist()
    [0.5, -0.001]
    >>> fields.reals("leaf_value", 3)
    Traceback (most recent call last):
    ...
    counterrank.common.errors.ModelError: leaf_value has 2 entries; expected 3
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._values: dict[str, str] = {}
        for line in lines:
            name, sign, value = line.partition("=")
            if not sign or "=" in value:
                raise ModelError(f"a line {shown(line)}; expected name=value")
            if name in self._values:
                raise ModelError(f"{name} is given twice")
            self._values[name] = value

    def expect(self, names: Iterable[str], others: Iterable[str] = ()) -> None:
        """All of these names are there, and none but them and the others."""
        names = set(names)
        missing, unknown = names - set(self._values), set(self._values) - names - set(others)
        if missing:
            raise ModelError(f"{min(missing)} is missing")
        if unknown:
            raise ModelError(f"a field {shown(min(unknown))} that is not expected here")

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def words(self, name: str, count: int | None = None) -> list[str]:
        """The entries of a list, this many if a count is given."""
        value = self._values[name]
        words = value.split(" ") if value else []
        if count is not None and len(words) != count:
            raise ModelError(f"{name} has {len(words)} entries; expected {count}")
        if "" in words:
            raise ModelError(f"{name}[{words.index('')}] is empty")
        return words

    def pack(self, name: str) -> None:
        """One space between the entries of a list that is written leaf by leaf, with empty entries between leaves."""
        self._values[name] = " ".join(self._values[name].split())

    def whole(self, name: str, low: int, high: int) -> int:
        """One whole number from low to high."""
        if name not in self._values:
            raise ModelError(f"{name} is missing")
        return int(self.wholes(name, 1, low, high)[0])

    def wholes(self, name: str, count: int | None, low: int, high: int) -> NDArray[np.int64]:
        """A list of whole numbers from low to high."""
        words = self._numbers(name, count, _WHOLE, "a whole number")
        numbers = np.array(list(map(int, words)), dtype=np.int64)
        bad = (numbers < low) | (numbers > high)
        if bad.any():
            expected = f"{low}" if low == high else f"{low} to {high}"
            raise _fault(name, words, int(bad.argmax()), expected)
        return numbers

    def reals(self, name: str, count: int, infinite: bool = False) -> FloatArray:
        """A list of finite numbers; with `infinite`, `inf` too."""
        words = self._numbers(name, count, rf"(?:{_REAL}|inf)" if infinite else _REAL, "a finite number")
        numbers = np.array(list(map(float, words)), dtype=np.float64)
        fits = np.isfinite(numbers) | (np.array(words, dtype=np.str_) == "inf")
        if not fits.all():  # 1e999
            raise _fault(name, words, int(fits.argmin()), "a finite number")
        return numbers

    def check_remarks(self, name: str, count: int) -> None:
        """A list of numbers that describe how a tree was grown, and that no score depends on."""
        self._numbers(name, count, _ANY_REAL, "a number")

    def _numbers(self, name: str, count: int | None, number: str, expected: str) -> list[str]:
        words = self.words(name, count)
        if words and not re.fullmatch(rf"{number}(?: {number})*", self._values[name]):
            place = next(place for place, word in enumerate(words) if not re.fullmatch(number, word))
            raise _fault(name, words, place, expected)
        return words


def shown(text: str) -> str:
    """The beginning of a text from outside, for a message.

    >>> shown("num\\tleaves")
    "'num leaves'"
    """
    return repr(printable(text[:40]))


def _fault(name: str, words: list[str], place: int, expected: str) -> ModelError:
    where = name if len(words) == 1 else f"{name}[{place}]"
    return ModelError(f"{where} is {shown(words[place])[1:-1]}; expected {expected}")


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

    Meant for what LightGBM 4.5 and later write. Numbers may be anything finite.

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
    """Bit 0: categorical; bit 1: missing values go left; from bit 2: which values are missing (none, zero, NaN).

    A threshold is infinite where a split parts NaN from all other values.
    """
    thresholds = fields.reals("threshold", splits, infinite=True)
    decisions = fields.wholes("decision_type", splits, 0, 11)
    wrong = np.isinf(thresholds) & (decisions != 8)
    if wrong.any():
        raise ModelError(f"threshold[{int(wrong.argmax())}] is inf; expected a finite number")
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
    for part, lines, pattern, expected in (
        ("feature_importances", importances.split("\n")[2:], _IMPORTANCE, "name=count"),
        ("parameters", parameters.split("\n"), _PARAMETER, "[name: value]"),
    ):
        for line in lines:
            if line and not pattern.fullmatch(line):
                raise ModelError(f"{part}: a line {shown(line)}; expected {expected}")
    if not _LAST.fullmatch(last):
        raise ModelError("expected nothing but 'pandas_categorical:null' after the parameters")


_FILE = "trees.txt"


@dataclass(frozen=True)
class TreesModel:
    """A tree model: trees in LightGBM's text format, and feature scaling, usually none.

    A missing value (NaN) goes the way that LightGBM found best in training. Where it found none missing, a split takes
    it as 0 after scaling, as LightGBM does; `predict` warns of it.
    """

    text: str
    scaler: Scaler
    n_features: int

    @cached_property
    def booster(self) -> Any:
        """The trees as LightGBM's `Booster`."""
        require("lightgbm", "lightgbm", "a ranker of boosted trees")
        import lightgbm

        try:
            booster = lightgbm.Booster(model_str=self.text)
        except (lightgbm.basic.LightGBMError, ValueError, RecursionError) as error:  # the last two: parameters as JSON
            raise ModelError(f"{_FILE}: LightGBM cannot read it ({error}); the ranker is damaged") from None
        if booster.num_feature() != self.n_features:
            raise ModelError(f"{_FILE}: trees for {booster.num_feature()} features; expected {self.n_features}")
        return booster

    @cached_property
    def missing_as_zero(self) -> NDArray[np.int64]:
        """The features of which training had no missing value: splits on them take a missing value as 0.

        None with LightGBM's own `use_missing=False`, which means just that.
        """
        found: set[int] = set()
        if "\n[use_missing: 0]\n" not in self.text:
            features: list[str] = []
            for line in self.text.split("\n"):
                name, _, value = line.partition("=")
                if name == "split_feature":
                    features = value.split()
                elif name == "decision_type":
                    kinds = (int(word) for word in value.split())
                    found.update(int(f) for f, kind in zip(features, kinds, strict=True) if kind & 0b1101 == 0)
        return np.array(sorted(found), np.int64)

    def predict(self, data: RankingData, threads: int | None = None) -> FloatArray:
        """A score for each document."""
        unseen = np.intersect1d(missing_columns(data), self.missing_as_zero)
        if len(unseen):
            names = listed(data.feature_names[feature] for feature in unseen)
            warnings.warn(
                f"data: missing values of {names}, of which training had none; the trees take them as 0", stacklevel=3
            )
        features = self.scaler.apply(data, threads)
        scores = self.booster.predict(features, raw_score=True, num_threads=thread_count(threads))
        return np.asarray(scores, np.float64)

    def vectors(self) -> dict[str, FloatArray]:
        """Nothing besides the scaling."""
        return {}

    def write(self, folder: Path) -> dict[str, Any]:
        """Write the text as a file, and its digest, so that damage is detected."""
        raw = self.text.encode("utf-8")
        (folder / _FILE).write_bytes(raw)
        return {"trees": _FILE, "sha256": hashlib.sha256(raw).hexdigest()}

    @classmethod
    def restore(cls, folder: Path, content: dict[str, Any], n_features: int, scaler: Scaler) -> TreesModel:
        """Read what `write` wrote; a text that is not one of trees for these features is refused."""
        file = folder / _FILE
        if not file.is_file():
            raise ModelError(f"{file}: missing; the ranker is incomplete")
        raw = file.read_bytes()
        if hashlib.sha256(raw).hexdigest() != content["sha256"]:
            raise ModelError(f"{file}: not the file that was saved; the ranker is damaged")
        try:
            text = raw.decode("utf-8")
            check_tree_text(text, n_features)
        except (UnicodeDecodeError, ModelError) as error:
            raise ModelError(f"{file}: {error}; the ranker is damaged") from None
        return cls(text, scaler, n_features)
