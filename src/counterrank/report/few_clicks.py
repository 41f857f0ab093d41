"""What the report says of figure 5: shares of the gap in words, and the table of what "auto" chose."""

from __future__ import annotations

from typing import Any

from counterrank.report.names import counted, number, percent, power, readable
from counterrank.report.points import is_number

FIGURE = 5
PAPER_TITLE = "Learning to rank from the clicks of top‑k pages: what the paper claims, and what this data says"
TITLE = "Learning to rank from few clicks on top‑k pages"
PAPER_CLAIMS = "Claims of the paper, and our own on what it leaves open"
CLAIMS = "Claims on learning from few clicks"
HOW = (
    "Each point is a ranker learned from the clicks of that many sessions. The share of the gap is 0 for the "
    "production ranker and 1 for one trained on labels; it is a ratio of means over runs, and its shade holds 95 % of "
    "what it becomes with runs drawn anew from these. Auto chooses by the clicks alone; it should follow the upper "
    "edge of the other lines."
)


def is_few_clicks(figures: list[dict[str, Any]]) -> bool:
    """Whether this is the experiment with few clicks.

    >>> is_few_clicks([{"number": 5}]), is_few_clicks([])
    (True, False)
    """
    return any(figure.get("number") == FIGURE for figure in figures)


def few_click_sentences(figure: dict[str, Any]) -> list[str]:
    """What "auto" and policy-aware close of the gap at each number of sessions where both have a result.

    >>> def series(name, share):
    ...     return {"name": name, "points": [{"x": 500, "mean": share, "low": share - 0.1, "high": share + 0.1}]}
    >>> panel = {"name": "share", "series": [series("auto", 0.5), series("policy-aware", 0.2)]}
    >>> few_click_sentences({"number": 5, "panels": [panel]})
    ['Of the gap between production and full information auto closes 50 % (40 to 60 %) after 500 sessions, where \
policy-aware closes 20 % (10 to 30 %).']
    """
    panel: dict[str, Any] = next((panel for panel in figure.get("panels", []) if panel.get("name") == "share"), {})
    points = {
        str(series["name"]): {p["x"]: p for p in series.get("points", []) if is_number(p.get("mean"))}
        for series in panel.get("series", [])
    }
    auto, aware = points.get("auto", {}), points.get("policy-aware", {})
    places = [x for x in sorted(auto) if x in aware]
    told = [
        f"{_share(auto[x])} after {_size(x)} sessions{', where policy-aware closes' if x == places[0] else ' against'} "
        f"{_share(aware[x])}"
        for x in places
    ]
    return [f"Of the gap between production and full information auto closes {'; '.join(told)}."] if told else []


def _size(sessions: Any) -> str:
    return power(sessions) if sessions >= 10**5 else number(sessions)


def _share(point: dict[str, Any]) -> str:
    interval = ""
    if is_number(point.get("low")) and is_number(point.get("high")):
        interval = f" ({100 * point['low']:.0f} to {percent(point['high'], 0)})".replace("-", "−")
    return percent(point["mean"], 0) + interval


def choice_rows(figure: dict[str, Any]) -> list[dict[str, Any]]:
    """The table of what "auto" chose, ready to print: a row for each estimator it took at each number of sessions.

    >>> chosen = [{"estimator": "shrinkage", "runs": 3, "about": {"strength": [1.0, 2.0, 4.0]}, "why": ["few"]}]
    >>> choice_rows({"choices": [{"x": 500, "runs": 3, "clicks": 480.0, "chosen": chosen}]})[0]["about"]
    'strength 2.0000 (1.0000 to 4.0000)'
    """
    rows = []
    for choice in figure.get("choices") or []:
        for place, group in enumerate(choice.get("chosen") or []):
            rows.append(
                {
                    "first": place == 0,
                    "span": len(choice["chosen"]),
                    "sessions": _size(choice["x"]),
                    "clicks": "–" if choice.get("clicks") is None else f"{choice['clicks']:,.0f}",
                    "estimator": readable(str(group["estimator"])),
                    "kept": ", ".join(f"{readable(kind)} ({runs})" for kind, runs in choice.get("kept", {}).items()),
                    "runs": f"{group['runs']} of {counted(choice['runs'], 'run')}",
                    "about": ", ".join(_spread(name, *ends) for name, ends in group.get("about", {}).items()),
                    "why": _first_sentence(next(iter(group.get("why") or []), "")),
                }
            )
    return rows


def _spread(name: str, least: float, middle: float, most: float) -> str:
    spread = f" ({number(least)} to {number(most)})" if least != most else ""
    return f"{name} {number(middle)}{spread}"


def _first_sentence(text: str) -> str:
    """The rest is in `results.jsonl`, cell by cell."""
    first, more, _ = text.partition(". ")
    return f"{first}." if more else first
