"""Old names that still work for a while."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any


def deprecated_alias(module: str, name: str, aliases: Mapping[str, Any]) -> Any:
    """What `__getattr__` of a module gives for an old name, with a warning; an AttributeError for any other.

    >>> with warnings.catch_warnings(record=True) as caught:
    ...     _ = deprecated_alias("counterrank.losses", "old", {"old": int})
    >>> str(caught[0].message)
    'counterrank.losses.old is deprecated; use int'
    """
    if name not in aliases:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    warnings.warn(f"{module}.{name} is deprecated; use {aliases[name].__name__}", DeprecationWarning, stacklevel=3)
    return aliases[name]
