"""The version of the package."""

from __future__ import annotations

from importlib.metadata import version


def installed_version() -> str:
    """As the installation says.

    >>> installed_version().count(".") >= 1
    True
    """
    return version("counterrank")
