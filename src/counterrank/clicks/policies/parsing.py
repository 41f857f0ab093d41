"""Policies and examination curves by name, as in `replace-last:k=5` and `inverse-rank:eta=1`.

`POLICIES` is the registry of policies that texts may name; `register_policy` adds to it, after which `parse_policy`,
`parse_policies` and all commands know the new name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.examination import Examination, InverseRank
from counterrank.clicks.policies.standard import (
    Deterministic,
    EpsilonGreedy,
    Mixture,
    PlackettLuce,
    ReplaceLast,
    TeamDraft,
    UniformInsert,
)
from counterrank.clicks.user_estimation import load
from counterrank.common.checks import check_offsets, check_vector
from counterrank.common.errors import CounterrankError

_BETWEEN = re.compile(r"\s*\+\s*(?=[\d.]+(?:[eE]-\d+)?\s*\*)")  # not the plus of 1e+5
_STEPS = 5  # values of a range, both ends among them
_MOST = 200  # policies at once


@dataclass(frozen=True)
class PolicyEntry:
    """An entry of the registry of policies.

    Attributes:
        name: as in `replace-last:k=5`.
        make: its class, or any function that makes a policy of its parameters.
        parameters: their names, in order; `k` is a whole number or none, all others are real numbers.
        page: the displayed page, from the order of the scores.
        grid: for parameters that `parse_policies` may choose, the values it tries.
        scaled: those of the grid that are in units of the standard deviation of scores within a query.
    """

    name: str
    make: Callable[..., Any]
    parameters: tuple[str, ...]
    page: str
    grid: Mapping[str, Sequence[float]] = field(default_factory=dict)
    scaled: tuple[str, ...] = ()


POLICIES: dict[str, PolicyEntry] = {}
"""The logging policies by the name that `parse_policy` and `--policy` accept; `register_policy` adds one."""


def register_policy(entry: PolicyEntry) -> None:
    """Register a policy, so that `parse_policy` and `--policy` accept its name.

    >>> register_policy(PolicyEntry("top", Deterministic, ("k",), "the top k"))
    >>> parse_policy("top:k=3")
    Deterministic(k=3)
    >>> del POLICIES["top"]
    """
    if not re.fullmatch("[a-z][a-z0-9-]*", entry.name) or entry.name in POLICIES:
        raise CounterrankError(
            f"name={entry.name!r}: expected small letters, digits and dashes, and none of {', '.join(POLICIES)}"
        )
    POLICIES[entry.name] = entry


for _entry in (
    PolicyEntry("deterministic", Deterministic, ("k",), "the top k"),
    PolicyEntry("replace-last", ReplaceLast, ("k",), "the top k-1, then one drawn uniformly from all the others"),
    PolicyEntry(
        "epsilon-greedy",
        EpsilonGreedy,
        ("k", "epsilon"),
        "with probability epsilon as replace-last, else the top k",
        grid={"epsilon": (0.01, 0.03, 0.1, 0.3)},  # 1 is replace-last
    ),
    PolicyEntry(
        "uniform-insert",
        UniformInsert,
        ("k",),
        "one document from outside the top k-1, inserted at a uniform rank of 1 to k; the top k-1 keep their order",
    ),
    PolicyEntry(
        "plackett-luce",
        PlackettLuce,
        ("k", "temperature"),
        "drawn without replacement, softmax of scores / temperature",
        grid={"temperature": (0.1, 0.2, 0.4, 0.8)},
        scaled=("temperature",),
    ),
    PolicyEntry(
        "team-draft",
        TeamDraft,
        ("k",),
        "interleaves two rankings: in each round both add their best document not yet shown, in random order",
    ),
):
    register_policy(_entry)


def parse_policy(text: str) -> Any:
    """A policy from its name and parameters, or a mixture of several, each with its share of the sessions.

    >>> parse_policy("epsilon-greedy:k=5,epsilon=0.2")
    EpsilonGreedy(k=5, epsilon=0.2)
    >>> parse_policy("0.9*deterministic:k=5 + 0.1*uniform-insert:k=5").shares
    (0.9, 0.1)
    """
    terms = split_mixture(text)
    if terms:
        return _mixture(terms, text)
    name, settings = _parse(text, "policy")
    if name not in POLICIES:
        raise CounterrankError(
            f"policy {text!r}: unknown; expected one of {', '.join(POLICIES)}, such as replace-last:k=5"
        )
    entry = POLICIES[name]
    return entry.make(**_checked(settings, entry.parameters, text, "policy"))


def split_mixture(text: str) -> list[tuple[str, str]]:
    """The share and the policy of each term of a mixture, as they are written; nothing where it is none.

    >>> split_mixture("0.9*deterministic:k=5 + .1*plackett-luce:k=5,temperature=1e+5")
    [('0.9', 'deterministic:k=5'), ('.1', 'plackett-luce:k=5,temperature=1e+5')]
    >>> split_mixture("plackett-luce:k=5,temperature=1e+5")
    []
    """
    if "*" not in text:
        return []
    terms = (term.partition("*") for term in _BETWEEN.split(text.strip()))
    return [(share.strip(), policy.strip()) for share, _, policy in terms]


def _mixture(terms: list[tuple[str, str]], text: str) -> Any:
    shares, policies = [], []
    for share, policy in terms:
        value = _number(share)
        if value is None:
            term = f"{share}*{policy}"
            raise CounterrankError(f"policy {text!r}: {term!r}; expected terms such as 0.9*deterministic:k=5")
        shares.append(value)
        policies.append(parse_policy(policy))
    return Mixture(policies, shares)


def parse_examination(text: str) -> Any:
    """An examination curve from its name and settings, from its values, or from a file with an estimated one.

    Of a file with curves by context the user model, see `ByContext`.

    >>> parse_examination("inverse-rank:eta=1"), parse_examination("1,0.5,0.25")
    (inverse_rank(k=None, eta=1), Examination([1.0, 0.5, 0.25]))
    """
    first = text.partition(",")[0]
    if _number(first) is not None:
        values = [_number(word) for word in text.split(",")]
        if any(value is None for value in values):
            raise CounterrankError(f"examination {text!r}: expected numbers from 0 to 1, such as 1,0.5,0.3")
        return Examination([value for value in values if value is not None])
    if text.partition(":")[0].strip() != "inverse-rank":
        if looks_like_file(text):
            return load(text)
        raise CounterrankError(
            f"examination {text!r}: unknown; expected inverse-rank:eta=1, also with k=5, values such as 1,0.5,0.3, or "
            "a file with an estimated curve"
        )
    _, settings = _parse(text, "examination")
    return InverseRank(**{"k": None, "eta": 1.0, **_checked(settings, ("k", "eta"), text, "examination")})


def looks_like_file(text: str) -> bool:
    """Whether a text names a file, there or not: it is one, or has a folder or the ending of JSON.

    >>> looks_like_file("curve.json"), looks_like_file("curves/own"), looks_like_file("inverse-rank:eta=1")
    (True, True, False)
    """
    return text.endswith(".json") or os.sep in text or os.path.exists(text)


def _parse(text: str, what: str) -> tuple[str, dict[str, str]]:
    name, _, rest = text.partition(":")
    settings = {}
    for item in filter(None, rest.split(",")):
        key, equals, value = item.partition("=")
        if not equals:
            raise CounterrankError(f"{what} {text!r}: {item!r}; expected settings such as k=5")
        settings[key.strip()] = value.strip()
    return name.strip(), settings


def _checked(settings: dict[str, str], allowed: tuple[str, ...], text: str, what: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, word in settings.items():
        if key not in allowed:
            raise CounterrankError(f"{what} {text!r}: no setting {key!r}; expected {', '.join(allowed)}")
        value = _number(word)
        if key == "k" and word.lower() == "none":
            values[key] = None
        elif value is None or (key == "k" and value != int(value)):
            raise CounterrankError(f"{what} {text!r}: {key}={word}; expected a number")
        else:
            values[key] = int(value) if key == "k" else value
    return values


def _number(word: str) -> float | None:
    try:
        value = float(word)
    except ValueError:
        return None
    return value if abs(value) < 1e300 else None


def parse_policies(texts: Iterable[str], page: int | None = None, spread: float = 1.0) -> dict[str, Any]:
    """Policies by their full name, each text one or several.

    A parameter may be a range, `epsilon=0.01..0.5`: five values from one to the other, each the same multiple of the
    one before. One that is left out takes the values of the policy's grid, temperatures in units of `spread`.

    Arguments:
        texts: such as "replace-last:k=5", "epsilon-greedy:k=5,epsilon=0.01..0.5", "plackett-luce".
        page: k, for policies that do not name it.
        spread: the standard deviation of scores within a query, see `score_spread`.

    >>> list(parse_policies(["deterministic", "epsilon-greedy:epsilon=0.1..0.4"], page=5))[:3]
    ['deterministic:k=5', 'epsilon-greedy:k=5,epsilon=0.1', 'epsilon-greedy:k=5,epsilon=0.14']
    >>> list(parse_policies(["plackett-luce:k=3"], spread=2.0))[:2]
    ['plackett-luce:k=3,temperature=0.2', 'plackett-luce:k=3,temperature=0.4']
    """
    found: dict[str, Any] = {}
    for text in texts:
        for name in _names(text, page, spread):
            found[name] = parse_policy(name)
        if len(found) > _MOST:
            raise CounterrankError(f"policy {text!r}: more than {_MOST} policies in all; expected shorter ranges")
    return found


def score_spread(scores: ArrayLike, offsets: ArrayLike) -> float:
    """The standard deviation of scores within a query, pooled over queries; 1 where all are equal.

    >>> score_spread([0.0, 2.0, 5.0, 5.0], [0, 2, 4])  # variances 1 and 0
    0.7071067811865476
    """
    given = check_vector(scores, None, "scores")
    bounds = check_offsets(offsets, len(given))
    lengths = np.diff(bounds)
    means = np.add.reduceat(given, bounds[:-1]) / lengths
    return float(np.sqrt(((given - np.repeat(means, lengths)) ** 2).mean())) or 1.0


def _names(text: str, page: int | None, spread: float) -> list[str]:
    """The full names of the policies that a text stands for."""
    if split_mixture(text):
        if ".." in text:
            raise CounterrankError(f"policy {text!r}: a range in a mixture; expected one number")
        return [text]
    name, _, rest = text.partition(":")
    name = name.strip()
    if name not in POLICIES:
        parse_policy(text)  # says what is wrong with it
    settings = dict(item.strip().partition("=")[::2] for item in rest.split(",") if item)
    if "k" not in settings:
        if page is None:
            raise CounterrankError(f"policy {text!r}: has no k; expected {name}:k=5, or page=5 (--page 5)")
        settings = {"k": str(page), **settings}
    entry = POLICIES[name]
    for key, values in entry.grid.items():
        if key not in settings:
            scale = spread if key in entry.scaled else 1.0
            settings[key] = "|".join(f"{value * scale:.2g}" for value in values)
    choices = [_values(key, word, text) for key, word in settings.items()]
    return [
        f"{name}:" + ",".join(f"{key}={value}" if value else key for key, value in zip(settings, chosen, strict=True))
        for chosen in product(*choices)
    ]


def _values(key: str, word: str, text: str) -> list[str]:
    """The values of a setting: those of a range, or the one that is there."""
    if ".." not in word:
        return word.split("|")
    try:
        low, high = (float(end) for end in word.split(".."))
    except ValueError:
        low, high = 0.0, 0.0
    if not 0.0 < low < high < 1e300:
        raise CounterrankError(f"policy {text!r}: {key}={word}; expected a range such as 0.01..0.5, from above 0 up")
    between = [f"{value:.2g}" for value in np.geomspace(low, high, _STEPS)[1:-1]]
    if key == "k":
        between = [f"{round(float(value))}" for value in between]
    return list(dict.fromkeys([f"{low:g}", *between, f"{high:g}"]))
