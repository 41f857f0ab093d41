"""Short and long queries: some of what the paper found differs between its two data sets, and this sets them apart."""

from __future__ import annotations

from counterrank.experiments.claims.conclusion import Setting

SHORT_QUERIES = 30.0
"""Documents per query up to which queries are short: Yahoo has 24."""

LONG_QUERIES = 60.0
"""Documents per query from which on queries are long: MSLR has 125. The paper has nothing between the two."""


def are_short(setting: Setting) -> bool:
    """Whether queries are known to be short."""
    return setting.documents is not None and setting.documents <= SHORT_QUERIES


def are_long(setting: Setting) -> bool:
    """Whether queries are known to be long."""
    return setting.documents is not None and setting.documents >= LONG_QUERIES


def why_not_long(setting: Setting) -> str:
    """Why what the paper says of MSLR alone is not judged here; empty where queries are long."""
    return "the paper says this of long queries only" if are_short(setting) else why_neither(setting)


def why_neither(setting: Setting) -> str:
    """Why the length of queries decides nothing here; empty where it does."""
    if setting.documents is None:
        return "how many documents queries have is not known"
    if not (are_short(setting) or are_long(setting)):
        return f"{setting.documents:.0f} documents per query are neither few nor many, and the paper has no such set"
    return ""
