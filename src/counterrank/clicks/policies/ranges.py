"""Several policies from one text: a range of a setting, or a family by its name alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.policies.base import Policy
from counterrank.clicks.policies.named import POLICIES, parse_policy, split_mixture
from counterrank.common.checks import check_offsets, check_vector
from counterrank.common.errors import CounterrankError

FAMILIES = tuple(POLICIES)
_STEPS = 5  # values of a range, both ends among them
_MOST = 200  # policies at once
_EPSILONS = (0.01, 0.03, 0.1, 0.3)  # 1 is replace-last
_TEMPERATURES = (0.1, 0.2, 0.4, 0.8)  # in standard deviations of the scores of a query


def parse_policies(texts: Sequence[str], page: int | None = None, spread: float = 1.0) -> dict[str, Policy]:
    """Policies by their full name, each text one or several.

    A setting may be a range, `epsilon=0.01..0.5`: five values from one to the other, each the same multiple of the one
    before. A policy without its epsilon or temperature stands for several of them, temperatures in units of `spread`.

    Arguments:
        texts: such as "replace-last:k=5", "epsilon-greedy:k=5,epsilon=0.01..0.5", "plackett-luce".
        page: k, for policies that do not name it.
        spread: the standard deviation of scores within a query, see `score_spread`.

    >>> list(parse_policies(["deterministic", "epsilon-greedy:epsilon=0.1..0.4"], page=5))[:3]
    ['deterministic:k=5', 'epsilon-greedy:k=5,epsilon=0.1', 'epsilon-greedy:k=5,epsilon=0.14']
    >>> list(parse_policies(["plackett-luce:k=3"], spread=2.0))[:2]
    ['plackett-luce:k=3,temperature=0.2', 'plackett-luce:k=3,temperature=0.4']
    """
    found: dict[str, Policy] = {}
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
            raise CounterrankError(
                f"policy {text!r}: does not say how long a page is; expected {name}:k=5, or page=5 (--page 5)"
            )
        settings = {"k": str(page), **settings}
    if name == "epsilon-greedy" and "epsilon" not in settings:
        settings["epsilon"] = "|".join(f"{value:g}" for value in _EPSILONS)
    if name == "plackett-luce" and "temperature" not in settings:
        settings["temperature"] = "|".join(f"{value * spread:.2g}" for value in _TEMPERATURES)
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
