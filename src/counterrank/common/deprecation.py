"""Old names that still work for a while."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

from counterrank.common.errors import CounterrankError

T = TypeVar("T")


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


def deprecated_method(name: str, new: str) -> Any:
    """The old name of a method, to be assigned to it in its class.

    >>> class Report:
    ...     def message(self) -> str:
    ...         return "3 rows dropped"
    ...     words = deprecated_method("words", "message")
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     (Report().words(), str(caught[0].message))
    ('3 rows dropped', 'Report.words is deprecated; use message')
    """

    def method(self: Any, *args: Any, **options: Any) -> Any:
        warnings.warn(f"{type(self).__name__}.{name} is deprecated; use {new}", DeprecationWarning, stacklevel=2)
        return getattr(self, new)(*args, **options)

    method.is_deprecated = True  # type: ignore[attr-defined]  # left out of tab completion
    method.__doc__ = f"The old name of `{new}`, deprecated."
    return method


def renamed_argument(value: Any, old_value: Any, name: str, old_name: str, default: Any = None) -> Any:
    """The value of an argument that has a new name: what was given by the old name, with a warning, if anything was.

    Both names are an error, where the new one was given something other than its default.

    >>> with warnings.catch_warnings(record=True) as caught:
    ...     renamed_argument("queries", "these-queries", "population", "target", "queries")
    'these-queries'
    >>> str(caught[0].message)
    'target= is deprecated; use population='
    """
    if old_value is None:
        return value
    if value != default:
        raise CounterrankError(f"{name}, {old_name}: two names of one argument; expected {name} alone")
    warnings.warn(f"{old_name}= is deprecated; use {name}=", DeprecationWarning, stacklevel=3)
    return old_value


def renamed_arguments(names: Mapping[str, str]) -> Callable[[type[T]], type[T]]:
    """A class decorator: arguments and attributes by their old names still work, with a warning.

    Arguments:
        names: from old to new.

    >>> @renamed_arguments({"step": "rate"})
    ... class Model:
    ...     def __init__(self, rate): self.rate = rate
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     Model(step=3).step
    3
    >>> [str(each.message) for each in caught]
    ['Model: step is deprecated; use rate', 'Model: step is deprecated; use rate']
    """

    def decorate(cls: type[T]) -> type[T]:
        init: Any = cls.__init__

        def warn(old: str) -> str:
            message = f"{cls.__name__}: {old} is deprecated; use {names[old]}"
            warnings.warn(message, DeprecationWarning, stacklevel=3)
            return names[old]

        @wraps(init)
        def accepting(self: T, *args: Any, **given: Any) -> None:
            for old in names.keys() & given.keys():
                given[warn(old)] = given.pop(old)
            init(self, *args, **given)

        cls.__init__ = accepting  # type: ignore[method-assign, assignment]

        def reading(old: str) -> property:
            doc = f"The old name of `{names[old]}`, deprecated."
            return property(lambda self: getattr(self, warn(old)), doc=doc)

        for old in names:
            setattr(cls, old, reading(old))
        return cls

    return decorate
