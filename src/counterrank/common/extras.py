"""Packages that only some uses need: looked for where they are used, and missed with a line that says what to do."""

from __future__ import annotations

from importlib.util import find_spec

from counterrank.common.errors import MissingExtraError


def require(package: str, extra: str, what: str) -> None:
    """Go on if the package can be imported; else an error that names the extra it comes with.

    >>> require("json", "torch", "a neural ranker")
    >>> require("no_such_package", "torch", "a neural ranker")
    Traceback (most recent call last):
    counterrank.common.errors.MissingExtraError: a neural ranker needs no_such_package; pip install 'counterrank[torch]'
    """
    if find_spec(package) is None:
        raise MissingExtraError(f"{what} needs {package}; pip install 'counterrank[{extra}]'")
