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


def renamed_argument(value: Any, old_value: Any, name: str, old_name: str) -> Any:
    """The value of an argument that has a new name: what was given by the old name, with a warning, if anything was.

    >>> with warnings.catch_warnings(record=True) as caught:
    ...     renamed_argument("queries", "these-queries", "population", "target")
    'these-queries'
    >>> str(caught[0].message)
    'target= is deprecated; use population='
    """
    if old_value is None:
        return value
    warnings.warn(f"{old_name}= is deprecated; use {name}=", DeprecationWarning, stacklevel=3)
    return old_value
