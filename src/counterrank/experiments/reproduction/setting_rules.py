"""What each setting has to be, in a table: its name, a test, and what is expected in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def _texts(value: Any) -> bool:
    """Whether these are different texts."""
    several = isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
    return several and len(set(value)) == len(value)


def _pair(value: Any) -> bool:
    two = isinstance(value, list | tuple) and len(value) == 2 and all(_number(item, 0.0, 1.0) for item in value)
    return two and bool(value[0] < value[1])


def _whole(value: Any, least: int, most: float = math.inf) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _number(value: Any, least: float, most: float = math.inf) -> bool:
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return numeric and -_LARGEST <= value <= _LARGEST and least <= value <= most


def _rising(value: Any, least: int, most: float = math.inf) -> bool:
    some = isinstance(value, list | tuple) and len(value) > 0 and all(_whole(item, least, most) for item in value)
    return some and sorted(set(value)) == list(value)


def _figures(value: Any) -> bool:
    return _rising(value, 1, 4) or (_rising(value, 5, 5) and len(value) == 1)


def _targets(value: Any) -> bool:
    """Shares by numbers of sessions; TOML and JSON have those as texts."""
    return isinstance(value, Mapping) and all(
        (_whole(size, 1) or (isinstance(size, str) and size.isascii() and size.isdigit())) and _number(share, -1.0, 1.0)
        for size, share in value.items()
    )


def _step(value: Any) -> bool:
    return value == "auto" or (_number(value, 0.0) and value > 0.0)


_MOST_CLICKS = 10**12
_LARGEST = 1e300
REAL = (
    "relevance_threshold",
    "production_share",
    "production_norm",
    "eta",
    "noise",
    "validation_share",
    "tolerance",
    "step_size",
)
RULES = (
    ("figures", _figures, "some of 1, 2, 3, 4, in that order; or 5 alone"),
    ("runs", lambda v: _whole(v, 1), "a whole number of at least 1"),
    ("seed", lambda v: _whole(v, 0), "a whole number of at least 0"),
    ("ks", lambda v: _rising(v, 1), "page sizes from 1, each larger than the one before"),
    ("clicks_by_k", lambda v: _whole(v, 1, _MOST_CLICKS), "a number of clicks"),
    ("clicks", lambda v: _rising(v, 1, _MOST_CLICKS), "numbers of clicks, each larger than the one before"),
    ("sessions", lambda v: _rising(v, 2, _MOST_CLICKS), "numbers of sessions from 2, each larger than the one before"),
    ("estimators", lambda v: _texts(v) and len(v) > 0, "different estimators, at least one"),
    ("targets", _targets, "a share of the gap, up to 1, for some of the numbers of sessions"),
    ("page", lambda v: _whole(v, 1), "a whole number of at least 1"),
    ("cutoff", lambda v: _whole(v, 1), "a whole number of at least 1"),
    ("losses", lambda v: _texts(v) and len(v) > 0, "different losses, at least one"),
    ("policies", _texts, "different policies"),
    ("relevance_threshold", lambda v: _number(v, -math.inf), "a number"),
    ("production_share", lambda v: _number(v, 0.0, 1.0) and v > 0, "a number above 0 and up to 1"),
    ("production_norm", lambda v: _number(v, 0.0) and v > 0, "a number above 0"),
    ("production_seed", lambda v: v is None or _whole(v, 0), "a whole number of at least 0"),
    ("eta", lambda v: _number(v, 0.0), "a number of at least 0"),
    ("noise", _pair, "2 probabilities, rising"),
    ("validation_share", lambda v: _number(v, 0.0) and v > 0, "a number above 0"),
    ("max_epochs", lambda v: _whole(v, 1), "a whole number of at least 1"),
    ("patience", lambda v: v is None or _whole(v, 1), "a whole number of at least 1"),
    ("tolerance", lambda v: v is None or _number(v, 0.0), "a number of at least 0"),
    ("step_size", _step, "'auto' or a number above 0"),
    ("step_sizes", lambda v: isinstance(v, Mapping) and all(_step(x) for x in v.values()), "a number for each loss"),
    ("clips", lambda v: _whole(v, 1), "a whole number of at least 1"),
    ("queries", lambda v: v is None or _whole(v, 10), "a whole number of at least 10"),
)
