"""How the clip of training clicks is found, as a setting: grid, none, a number, or the authors' schedule."""

from __future__ import annotations

from typing import Any

from counterrank.common.errors import CounterrankError
from counterrank.estimators import Evidence, clip_schedule
from counterrank.estimators.registry import named_estimator


def check_clip_rule(rule: Any) -> str:
    """The rule itself, if it is one.

    >>> check_clip_rule("schedule:a=-57,b=86")
    'schedule:a=-57,b=86'
    """
    if not isinstance(rule, str):
        raise CounterrankError(f"clip={rule!r}: expected a text, such as '100'")
    if rule not in ("grid", "none"):
        _fixed_clip(rule, 10**12)  # a schedule looks at its factors only with many clicks
    return rule


def clips_by_rule(rule: str, n: int, estimator: str, evidence: Evidence, wanted: int) -> list[float | None]:
    """The clips to train with: one, or several to choose from.

    Arguments:
        rule: see `Settings.clip`.
        n: how many clips a grid has.
        estimator: what the clips are for.
        evidence: the clicks to train on.
        wanted: the number of clicks asked for; the last session may add a few.

    >>> import numpy as np
    >>> from counterrank import ClickCounts
    >>> docs, ranks, shown, clicked = np.array([[0, 1], [1, 2], [9, 9], [4, 2]])
    >>> clicks = ClickCounts("", np.array([0, 2]), np.array([9]), docs, ranks, shown, clicked)
    >>> clips_by_rule("schedule:a=-3,b=32", 6, "policy-aware", Evidence(clicks, exam=[1.0, 0.5]), wanted=10**6)
    [123.0]
    """
    if rule == "grid":
        return named_estimator(estimator).clips(evidence, n)
    return [None] if rule == "none" else [_fixed_clip(rule, wanted)]


def _fixed_clip(rule: str, wanted: int) -> float:
    try:
        if rule.startswith("schedule:"):
            factors = dict(item.split("=") for item in rule.removeprefix("schedule:").split(","))
            return clip_schedule(wanted, float(factors.pop("a")), float(factors.pop("b")), **factors)
        clip = float(rule)
        if 0.0 < clip < float("inf"):
            return clip
    except (ValueError, KeyError, TypeError):
        pass
    raise CounterrankError(f"clip={rule!r}: expected grid, none, a number above 0, or schedule:a=-3,b=32")
