"""The summary in plain words: what was done, what came out, how to read each figure, and what is missing."""

from __future__ import annotations

from typing import Any

from counterrank.report.names import counted, number, percent, power, readable
from counterrank.report.points import is_cut, is_number, panel_points

VERDICTS = ("holds", "does not hold", "not enough evidence")
OTHERS = ("policy-oblivious+random", "policy-oblivious", "rerank+random", "rerank")

_HOW = {
    1: "Each point is a ranker learned from clicks on pages that show k results. A line that stays near full "
    "information is not harmed by short pages; a line that comes near it only at the right needs long ones.",
    2: "Each point is a ranker learned from that many clicks. A line that levels off away from full information is "
    "biased: more clicks do not help it. With no cutoff all is shown, so there is no selection bias to remove.",
    3: "Policy-aware learning with different losses, judged by the labels of the test set and, beside that, by clicks "
    "on validation queries. Rings mark the ranker chosen by those clicks alone; the choice is good where the rings "
    "follow the upper edge of the lines judged by labels.",
    4: "The lines show what policy-aware learning makes of clicks logged under each policy, the dots what users lose "
    "while the log is gathered. A good policy has a high line and a dot near zero.",
}


def tally(claims: list[dict[str, Any]]) -> dict[str, int]:
    """How many claims have which verdict.

    >>> tally([{"verdict": "holds"}, {"verdict": "holds"}])
    {'holds': 2, 'does not hold': 0, 'not enough evidence': 0}
    """
    return {verdict: sum(claim.get("verdict") == verdict for claim in claims) for verdict in VERDICTS}


def reading(summary: dict[str, Any]) -> list[str]:
    """The sentences that open the report.

    >>> reading({"figures": [], "claims": [], "data": []})[-1]
    'No claim was checked.'
    """
    sentences = [_what(summary), *_found(summary.get("figures", [])), _verdicts(summary.get("claims", []))]
    if summary.get("quick"):
        sentences.append(
            "This was a quick run on a reduced grid: it shows directions, not the precision of a full one."
        )
    return sentences + _gaps(summary.get("cells") or {})


def caption(figure: dict[str, Any]) -> list[str]:
    """How to read a figure, and what it lacks.

    >>> caption({"number": 9, "panels": []})
    ['Nothing is there to draw yet.']
    """
    points = [point for panel in figure.get("panels", []) for _, point in panel_points(panel)]
    there = [point for point in points if is_number(point.get("mean"))]
    if not there:
        return ["Nothing is there to draw yet."]
    sentences = [_HOW[figure["number"]]] if figure.get("number") in _HOW else []
    runs = sorted({int(point.get("runs") or 0) for point in there})
    if runs[-1] < 2:
        sentences.append("One run: no interval can be given.")
    else:
        over = f"{runs[-1]} runs" if runs[0] == runs[-1] else f"{runs[0]} to {runs[-1]} runs"
        sentences.append(f"Shades are 95 % intervals of the mean over {over}.")
        if runs[0] < 2:
            sentences.append("Points with one run have none.")
    if any(is_cut(panel) for panel in figure["panels"]):
        sentences.append("Some intervals are wider than the picture: they are drawn paler and cut at its edge.")
    for panel in figure["panels"]:
        blank = [str(series["name"]) for series in panel.get("series", []) if not _has_result(series)]
        if blank and len(blank) < len(panel["series"]):
            sentences.append(f"Nothing yet in “{panel['label']}” for {', '.join(map(readable, blank))}.")
    if len(there) < len(points):
        sentences.append(f"{len(points) - len(there)} of {counted(len(points), 'point')} have no result yet.")
    return sentences


def most_runs(figures: list[dict[str, Any]]) -> int:
    """The largest number of runs behind any point.

    >>> most_runs([{"panels": [{"series": [{"name": "a", "points": [{"x": 1, "runs": 3}]}]}]}])
    3
    """
    every = (point for figure in figures for panel in figure.get("panels", []) for _, point in panel_points(panel))
    return max((int(point.get("runs") or 0) for point in every), default=0)


def _gaps(cells: dict[str, Any]) -> list[str]:
    wanted, done, failed, untrained = (cells.get(name) or 0 for name in ("wanted", "done", "failed", "untrained"))
    sentences = []
    if wanted - done - untrained > 0:
        lost = f" ({failed:,} failed)" if failed else ""
        sentences.append(f"The run is not complete: {done:,} of {wanted:,} rankers were trained{lost}.")
    if untrained:
        sentences.append(f"{counted(untrained, 'ranker')} had too few clicks to learn anything from.")
    return sentences


def _has_result(series: dict[str, Any]) -> bool:
    return any(is_number(point.get("mean")) for point in series.get("points", []))


def _what(summary: dict[str, Any]) -> str:
    data = summary.get("data", [])
    sources = ", ".join(str(fold["source"]) for fold in data) or "data that the summary does not name"
    queries = {
        part: sum(fold.get("parts", {}).get(part, {}).get("queries") or 0 for fold in data)
        for part in ("train", "test")
    }
    sizes = f" ({queries['train']:,} training and {queries['test']:,} test queries)" if queries["train"] else ""
    runs = most_runs(summary.get("figures", []))
    times = f", in {counted(runs, 'independent run')}" if runs else ""
    return (
        f"On {sources}{sizes}, users were simulated who see only the top of a result page. Rankers were learned from "
        f"their clicks in several ways{times}, and then judged by the relevance labels of test queries, which those "
        "who learn from clicks never see."
    )


def _found(figures: list[dict[str, Any]]) -> list[str]:
    """The decisive numbers at the most clicks (or at the shortest page, where only figure 1 is there)."""
    for figure in sorted(figures, key=lambda figure: figure.get("number") != 2):
        panels = [panel for panel in figure.get("panels", []) if str(panel.get("name")).startswith("dcg@")]
        if figure.get("number") in (1, 2) and panels:
            return _decisive(figure, panels[0])
    return []


def _decisive(figure: dict[str, Any], panel: dict[str, Any]) -> list[str]:
    means = {
        str(series["name"]): {p["x"]: p["mean"] for p in series.get("points", []) if is_number(p.get("mean"))}
        for series in panel.get("series", [])
    }
    levels = {str(level["name"]): level["mean"] for level in panel.get("levels", []) if is_number(level.get("mean"))}
    aware = means.get("policy-aware")
    if not aware:
        return []
    at = max(aware) if figure["number"] == 2 else min(aware, key=lambda k: abs(k - 5))
    where = f"After {power(at)} clicks" if figure["number"] == 2 else f"With {counted(int(at), 'result')} on the page"
    metric = str(panel["name"]).upper()
    text = f"{where}, the policy-aware ranker has a {metric} of {number(aware[at])}"
    if {"production", "full-information"} <= levels.keys():
        old, best = levels["production"], levels["full-information"]
        text += f"; the production ranker behind the pages has {number(old)}, one trained on labels {number(best)}"
        if best > old:
            text += f", so {percent((aware[at] - old) / (best - old), 0)} of the gap between them is closed"
    sentences = [text + "."]
    rest = {name: means[name][at] for name in OTHERS if at in means.get(name, {})}
    if rest:
        name = max(rest, key=lambda name: rest[name])
        sentences.append(
            f"The best of the estimators that ignore the policy ({readable(name)}) has {number(rest[name])}."
        )
    return sentences


def _verdicts(claims: list[dict[str, Any]]) -> str:
    if not claims:
        return "No claim was checked."
    count = tally(claims)
    holds, fails, unsure = (count[verdict] for verdict in VERDICTS)
    parts = [
        f"{holds} of {len(claims)} claims of the paper {'holds' if holds == 1 else 'hold'} here",
        f"{fails} {'does' if fails == 1 else 'do'} not",
        f"{unsure} {'lacks' if unsure == 1 else 'lack'} evidence",
    ]
    return f"{parts[0]}, {parts[1]}, and {parts[2]}."
