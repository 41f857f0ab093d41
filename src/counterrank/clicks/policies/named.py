"""Policies and examination curves as named on the command line: `replace-last:k=5`, `inverse-rank:eta=1`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

from counterrank.clicks.examination import Examination, InverseRank, load
from counterrank.clicks.policies.base import Policy
from counterrank.clicks.policies.mixed import Mixture
from counterrank.clicks.policies.ranked import Deterministic, EpsilonGreedy, PlackettLuce, ReplaceLast, UniformInsert
from counterrank.common.errors import CounterrankError

_BETWEEN = re.compile(r"\s*\+\s*(?=[\d.]+(?:[eE]-\d+)?\s*\*)")  # not the plus of 1e+5

POLICIES: dict[str, tuple[Callable[..., Policy], tuple[str, ...]]] = {
    "deterministic": (Deterministic, ("k",)),
    "replace-last": (ReplaceLast, ("k",)),
    "epsilon-greedy": (EpsilonGreedy, ("k", "epsilon")),
    "uniform-insert": (UniformInsert, ("k",)),
    "plackett-luce": (PlackettLuce, ("k", "temperature")),
}


def parse_policy(text: str) -> Policy:
    """A policy from its name and settings; or a mixture of several, each with its share of the sessions.

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
    make, allowed = POLICIES[name]
    return make(**_checked(settings, allowed, text, "policy"))


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


def _mixture(terms: list[tuple[str, str]], text: str) -> Policy:
    shares, policies = [], []
    for share, policy in terms:
        value = _number(share)
        if value is None:
            term = f"{share}*{policy}"
            raise CounterrankError(f"policy {text!r}: {term!r}; expected terms such as 0.9*deterministic:k=5")
        shares.append(value)
        policies.append(parse_policy(policy))
    return Mixture(policies, shares)


def parse_examination(text: str) -> Examination:
    """An examination curve from its name and settings, from its values, or from a file with an estimated one.

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
