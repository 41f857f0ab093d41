"""The settings of a run as the report prints them: what is left open is said in words."""

from __future__ import annotations

import json
from typing import Any

from counterrank.report.few_clicks import is_few_clicks
from counterrank.report.names import power

# what means nothing to the experiment with few clicks, and what to all others
_PAPER_ONLY = ("ks", "clicks_by_k", "clicks", "losses", "policies", "clips")
_FEW_CLICKS_ONLY = ("sessions", "estimators", "targets")
# what a setting means that is not given
_OPEN = {
    "production_seed": "another in each run",
    "policies": "one of each kind",
    "patience": "20 + 10 log10(clicks) for ARP, 30 + 10 log10(clicks) for DCG",
    "tolerance": "1e-4 for ARP, 1e-6 for DCG",
    "queries": "all",
    "step_sizes": "none by loss",
}


def setting_rows(settings: dict[str, Any], figures: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Names and values of all that matter; policies that were not named are those of figure 4.

    >>> setting_rows({"queries": None, "clicks": [100, 1000]}, [])
    [('queries', 'all'), ('clicks', '10², 10³')]
    """
    rows = []
    idle = _PAPER_ONLY if is_few_clicks(figures) else _FEW_CLICKS_ONLY
    for name, value in settings.items():
        if name in idle:
            continue
        text = _plain(value)
        if value is None or value == [] or value == {} or value == ():
            text = (_policies(figures) if name == "policies" else "") or _OPEN.get(name, text)
        rows.append((str(name), text))
    return rows


def _policies(figures: list[dict[str, Any]]) -> str:
    series = (s for f in figures if f.get("number") == 4 for panel in f.get("panels", []) for s in panel["series"])
    return "; ".join(dict.fromkeys(str(item["name"]) for item in series))


def _plain(value: Any) -> str:
    """A setting as text: lists with commas, numbers with powers of ten."""
    if isinstance(value, dict | list | tuple) and not value:
        return "none"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_plain(inner)}" for name, inner in value.items())
    if isinstance(value, list | tuple):
        powers = all(isinstance(inner, int) and power(inner).startswith("10") for inner in value)
        return ", ".join(power(inner) if powers else _plain(inner) for inner in value)
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, int):
        return power(value) if value >= 10**5 else f"{value:,}"
    return value if isinstance(value, str) else json.dumps(value)
