"""Results as leaves: how a result is flattened, stored, read, and compared with that of another version.

A leaf is a number, an array, a text, a bool or None, with a tolerance class:

    exact      integers, orders, random draws, texts, choices: equal
    numeric    losses, gradients, weights, propensities, metrics, intervals: 1e-12 of the scale
    trained    scores, coefficients and validation metrics of trained rankers: 1e-6 of the scale
    prose      sentences for people: present in both, or in neither

The scale of an array, or of a list of numbers, is its largest absolute value; that of a number is the number itself.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

TOLERANCES = {"exact": 0.0, "numeric": 1e-12, "trained": 1e-6}
CLASSES = (*TOLERANCES, "prose")

# sentences, whose wording may change; a number, an array or a dict of these names is compared as any other
PROSE = frozenset(
    {
        "advice", "bias", "clicks", "doubts", "failure", "headline", "note", "notes", "numbers", "paper", "reason",
        "refused", "relevance", "sentence", "statement", "text", "warning", "warnings", "what", "why",
    }
)  # fmt: skip
NUMBERS_IN_TEXT = frozenset({"clips_tried"})
# times, places and versions
IGNORED = frozenset(
    {
        "command", "counterrank", "date", "path", "paths", "seconds", "timestamp", "version",
    }
)  # fmt: skip
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])")


class As(NamedTuple):
    """A part of a result that belongs to another tolerance class than its case."""

    tolerance: str
    value: Any


class Leaf(NamedTuple):
    """One value and its tolerance class."""

    tolerance: str
    value: Any


def exact(value: Any) -> As:
    return As("exact", value)


def numeric(value: Any) -> As:
    return As("numeric", value)


def trained(value: Any) -> As:
    return As("trained", value)


def leaves(value: Any, tolerance: str = "numeric", path: str = "") -> Iterator[tuple[str, Leaf]]:
    """The leaves of a result with their paths; `tolerance` is the class of floating-point numbers."""
    if isinstance(value, As):
        yield from leaves(value.value, value.tolerance, path)
    elif is_dataclass(value) and not isinstance(value, type):
        names = [each.name for each in fields(value) if not each.name.startswith("_")]
        yield from leaves({name: getattr(value, name) for name in names}, tolerance, path)
    elif hasattr(value, "_asdict"):
        yield from leaves(value._asdict(), tolerance, path)
    elif isinstance(value, Mapping) and value:
        for key, part in value.items():
            if key in PROSE and _is_text(part):
                yield f"{path}/{key}", Leaf("prose", bool(part))
            elif key in NUMBERS_IN_TEXT and isinstance(part, str):
                yield f"{path}/{key}", Leaf(tolerance, [float(number) for number in NUMBER.findall(part)])
            elif key not in IGNORED:
                yield from leaves(part, tolerance, f"{path}/{key}")
    elif isinstance(value, np.ndarray):
        whole = value.astype(str) if value.dtype == object else value
        yield path, Leaf(tolerance if whole.dtype.kind == "f" else "exact", whole)
    elif isinstance(value, list | tuple) and value and not _are_numbers(value):
        for place, part in enumerate(value):
            yield from leaves(part, tolerance, f"{path}/{place}")
    else:
        yield path, _leaf(value, tolerance, path)


def _leaf(value: Any, tolerance: str, path: str) -> Leaf:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping | list | tuple):  # numbers, or empty
        value = list(value)
        return Leaf(tolerance if any(isinstance(each, float) for each in value) else "exact", value)
    if value is None or isinstance(value, bool | int | str):
        return Leaf("exact", value)
    if isinstance(value, float):
        return Leaf(tolerance, value)
    raise TypeError(f"{path}: a {type(value).__name__}; expected numbers, arrays, texts, or dicts and lists of them")


def _is_text(value: Any) -> bool:
    """A text, several, or none."""
    return isinstance(value, str) or (isinstance(value, list | tuple) and all(isinstance(each, str) for each in value))


def _are_numbers(values: Any) -> bool:
    return all(isinstance(each, int | float) and not isinstance(each, bool) for each in values)


# Storage -------------------------------------------------------------------------------------------------------------


def store(folder: Path, name: str, content: dict[str, Any], found: dict[str, Leaf]) -> None:
    """Write the leaves of one case: a JSON file, and arrays next to it."""
    if odd := [path for path in found if " at 0x" in path]:
        raise ValueError(f"{name}{odd[0]}: an address, which differs in each process")
    arrays: dict[str, np.ndarray] = {}
    written = {}
    for path, leaf in found.items():
        if isinstance(leaf.value, np.ndarray):
            key = f"a{len(arrays)}"
            arrays[key] = leaf.value
            written[path] = [leaf.tolerance, {"array": key}]
        else:
            written[path] = [leaf.tolerance, leaf.value]
    file = folder / (name.replace("/", "--") + ".json")
    np.savez_compressed(file.with_suffix(".npz"), **arrays)
    file.write_text(json.dumps({"case": name, **content, "leaves": written}) + "\n", encoding="utf-8")


def stored(folder: Path) -> dict[str, dict[str, Any]]:
    """All cases of a record by name, with their leaves."""
    cases = {}
    for file in sorted(folder.glob("*--*.json")):
        content = json.loads(file.read_text(encoding="utf-8"))
        with np.load(file.with_suffix(".npz")) as arrays:
            content["leaves"] = {
                path: Leaf(tolerance, arrays[value["array"]] if isinstance(value, dict) else value)
                for path, (tolerance, value) in content["leaves"].items()
            }
        cases[content["case"]] = content
    return cases


# Comparison ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """One difference between two records."""

    case: str
    path: str
    tolerance: str
    what: str


@dataclass
class Comparison:
    """What comparing two records found.

    Attributes:
        cases: the names of the cases that both have.
        raised: those of them that raise in both.
        compared: leaves that were compared, by (group of cases, tolerance class).
        deviations: the largest deviation relative to the scale, by the same.
        differences: whatever differs beyond its tolerance.
        new: paths that only the second record has; no difference.
    """

    cases: list[str] = field(default_factory=list)
    raised: list[str] = field(default_factory=list)
    compared: Counter[tuple[str, str]] = field(default_factory=Counter)
    deviations: dict[tuple[str, str], float] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    new: list[str] = field(default_factory=list)

    def total(self, tolerance: str) -> int:
        """How many leaves of a class were compared."""
        return sum(number for (_, each), number in self.compared.items() if each == tolerance)


def compare(old: dict[str, dict[str, Any]], new: dict[str, dict[str, Any]]) -> Comparison:
    """Compare two records, as `stored` reads them."""
    result = Comparison(new=[name for name in new if name not in old])
    for name, before in old.items():
        if name not in new:
            result.differences.append(Difference(name, "", "exact", "the case is missing"))
            continue
        result.cases.append(name)
        after = new[name]
        if before["raised"] != after["raised"]:
            what = f"{before['raised'] or 'no error'} became {after['raised'] or 'no error'}: {after['message']}"
            result.differences.append(Difference(name, "", "exact", what[:300]))
            continue
        if before["raised"]:
            result.raised.append(name)
        compare_leaves(name, before["leaves"], after["leaves"], result)
    return result


def compare_leaves(name: str, old: dict[str, Leaf], new: dict[str, Leaf], result: Comparison) -> None:
    """Compare the leaves of one case; what is found is added to `result`."""
    result.new += [f"{name}{path}" for path in new if path not in old]
    for path, before in old.items():
        key = (name.partition("/")[0], before.tolerance)
        result.compared[key] += 1
        if path not in new:
            result.differences.append(Difference(name, path, before.tolerance, "missing"))
            continue
        deviation, what = difference(before, new[path])
        if math.isfinite(deviation):
            result.deviations[key] = max(result.deviations.get(key, 0.0), deviation)
        if what:
            result.differences.append(Difference(name, path, before.tolerance, what))


def difference(old: Leaf, new: Leaf) -> tuple[float, str]:
    """The deviation relative to the scale, and what is wrong ("" if nothing is)."""
    if old.tolerance == "prose":
        return 0.0, "" if old.value == new.value else "prose in one only"
    before, after = old.value, new.value
    if isinstance(before, np.ndarray) != isinstance(after, np.ndarray):
        return math.inf, "an array in one only"
    if isinstance(before, np.ndarray) and before.dtype.kind + str(before.itemsize) != _type(after, before):
        return math.inf, f"{before.dtype} became {after.dtype}"
    if not _is_numeric(before) or not _is_numeric(after):
        same = np.array_equal(before, after) if isinstance(before, np.ndarray) else before == after
        return 0.0 if same else math.inf, "" if same else f"{before!r:.80} became {after!r:.80}"
    first, second = np.asarray(before), np.asarray(after)
    if first.shape != second.shape:
        return math.inf, f"shape {first.shape} became {second.shape}"
    apart = np.flatnonzero((first != second) & ~((first != first) & (second != second)))  # nan is nan
    deviation = _deviation(first.astype(np.float64), second.astype(np.float64)) if len(apart) else 0.0
    if not len(apart) or (old.tolerance != "exact" and deviation <= TOLERANCES[old.tolerance]):
        return deviation, ""
    one, other = first.flat[apart[0]], second.flat[apart[0]]
    where = f"{len(apart)} of {first.size} differ, the first at {apart[0]}: " if first.ndim else ""
    return deviation, f"{where}{one:.17g} became {other:.17g} (deviation {deviation:.2g})"


def _type(array: np.ndarray, like: np.ndarray) -> str:
    """Kind and size; texts may be of any length."""
    return array.dtype.kind + str(like.itemsize if array.dtype.kind == like.dtype.kind == "U" else array.itemsize)


def _is_numeric(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "iufb"
    if isinstance(value, list):
        return bool(value)  # lists of anything else are flattened
    return isinstance(value, int | float) and not isinstance(value, bool)


def _deviation(first: np.ndarray, second: np.ndarray) -> float:
    """The largest difference relative to the scale; infinite where one is not finite and the other differs."""
    finite = np.isfinite(first) & np.isfinite(second)
    if not ((first == second) | (np.isnan(first) & np.isnan(second)))[~finite].all():
        return math.inf
    largest = float(np.abs(first - second, where=finite, out=np.zeros(first.shape)).max())
    scale = max(float(np.abs(each, where=finite, out=np.zeros(first.shape)).max()) for each in (first, second))
    return largest / scale if largest else 0.0
