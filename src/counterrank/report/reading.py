"""The summary in plain words: what was done, what came out, how to read each figure, and what is missing."""

from __future__ import annotations

from typing import Any, NamedTuple

from counterrank.report.few_clicks import FIGURE as FEW_CLICKS
from counterrank.report.few_clicks import HOW as FEW_CLICKS_HOW
from counterrank.report.few_clicks import few_click_sentences
from counterrank.report.intervals import share_closed
from counterrank.report.names import counted, number, percent, power, readable
from counterrank.report.points import is_cut, is_number, panel_points
from counterrank.report.relative import drawn_panel

VERDICTS = ("holds", "does not hold", "not enough evidence")
MARGIN = 0.02
"""Relative difference up to which claims take two methods as equal."""
NOTICEABLE = 0.005
"""An advantage that is surely smaller than this counts as none."""
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
    FEW_CLICKS: FEW_CLICKS_HOW,
}


def tally(claims: list[dict[str, Any]]) -> dict[str, int]:
    """How many claims have which verdict.

    >>> tally([{"verdict": "holds"}, {"verdict": "holds"}])
    {'holds': 2, 'does not hold': 0, 'not enough evidence': 0}
    """
    return {verdict: sum(claim.get("verdict") == verdict for claim in claims) for verdict in VERDICTS}


class SortedClaims(NamedTuple):
    """The claims of a summary: those of the paper and our own on figures of this run, and those on other figures."""

    paper: list[dict[str, Any]]
    own: list[dict[str, Any]]
    absent: list[dict[str, Any]]

    @property
    def present(self) -> list[dict[str, Any]]:
        """Those that this run can say something about."""
        return [*self.paper, *self.own]


def sort_claims(summary: dict[str, Any]) -> SortedClaims:
    """Whose claims they are, and whether their figure is part of the run.

    >>> claims = [{"figure": 1}, {"figure": 4, "own": True}, {"figure": 2}]
    >>> [len(some) for some in sort_claims({"claims": claims, "figures": [{"number": 1}, {"number": 4}]})]
    [1, 1, 1]
    """
    shown = {figure.get("number") for figure in summary.get("figures", [])}
    found = SortedClaims([], [], [])
    for claim in summary.get("claims", []):
        whose = found.own if claim.get("own") else found.paper
        (whose if claim.get("figure") in shown else found.absent).append(claim)
    return found


def reading(summary: dict[str, Any]) -> list[str]:
    """The sentences that open the report.

    >>> reading({"figures": [], "claims": [], "data": []})[-1]
    'No claim was checked.'
    """
    sentences = [_what(summary), *_found(summary), _verdicts(sort_claims(summary))]
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
    if any(drawn_panel(panel) is not panel for panel in figure["panels"]):
        sentences.append(
            "The size of the estimates changes with the number of clicks for all losses alike, so they are drawn "
            "against the mean of the losses in the same run and at the same number of clicks; the axis is logarithmic "
            "in both directions from zero. The estimates themselves are among the numbers below."
        )
    if any(is_cut(drawn_panel(panel)) for panel in figure["panels"]):
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


def trained(cells: dict[str, Any]) -> int:
    """How many rankers were trained: those done, but for those that had nothing to learn from.

    >>> trained({"wanted": 100, "done": 95, "failed": 5, "untrained": 5})
    90
    """
    return int(cells.get("done") or 0) - int(cells.get("untrained") or 0)


def _gaps(cells: dict[str, Any]) -> list[str]:
    wanted, done, failed, untrained = (cells.get(name) or 0 for name in ("wanted", "done", "failed", "untrained"))
    sentences = []
    if wanted > done:
        lost = f" ({failed:,} failed)" if failed else ""
        sentences.append(f"The run is not complete: {trained(cells):,} of {wanted:,} rankers were trained{lost}.")
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
    return (
        f"On {sources}{sizes}, users were simulated who see only the top of a result page. Rankers were learned from "
        f"their clicks in several ways{_runs(summary)}, and then judged by the relevance labels of test queries, which "
        "those who learn from clicks never see."
    )


def _runs(summary: dict[str, Any]) -> str:
    """How many runs there are and what they share, as far as it is known."""
    runs, settings = most_runs(summary.get("figures", [])), summary.get("settings") or {}
    if runs < 2 or "production_seed" not in settings:
        return f", in {counted(runs, 'run')}" if runs else ""
    if settings["production_seed"] is None:
        return f", in {runs} independent runs, each with clicks and a production ranker of its own"
    every = "of each fold" if len(summary.get("data", [])) > 1 else "for all"
    return f", in {runs} runs, each with clicks of its own and one production ranker {every}"


def _found(summary: dict[str, Any]) -> list[str]:
    """The decisive numbers: of figure 2 at the most clicks; without it, of figure 1 at the page size nearest to 5.

    Of figure 5 those at every number of sessions.
    """
    for figure in summary.get("figures", []):
        if figure.get("number") == FEW_CLICKS:
            return few_click_sentences(figure)
    for figure in sorted(summary.get("figures", []), key=lambda figure: figure.get("number") != 2):
        panels = [panel for panel in figure.get("panels", []) if str(panel.get("name")).startswith("dcg@")]
        if figure.get("number") in (1, 2) and panels:
            return _decisive(figure, panels[0], (summary.get("settings") or {}).get("clicks_by_k"))
    return []


def _decisive(figure: dict[str, Any], panel: dict[str, Any], clicks_by_k: Any) -> list[str]:
    points = {
        str(series["name"]): {p["x"]: p for p in series.get("points", []) if is_number(p.get("mean"))}
        for series in panel.get("series", [])
    }
    levels = {str(level["name"]): level for level in panel.get("levels", []) if is_number(level.get("mean"))}
    aware = points.get("policy-aware")
    if not aware:
        return []
    if figure["number"] == 2:
        at = max(aware)
        where = f"After {power(at)} clicks"
    else:
        at = min(aware, key=lambda k: abs(k - 5))
        where = f"With {counted(int(at), 'result')} on the page"
        where += f" and {power(clicks_by_k)} clicks" if is_number(clicks_by_k) else ""
    metric = str(panel["name"]).upper()
    text = f"{where}, the policy-aware ranker has a {metric} of {number(aware[at]['mean'])}"
    if {"production", "full-information"} <= levels.keys():
        old, best = levels["production"], levels["full-information"]
        text += f"; the production ranker behind the pages has {number(old['mean'])}, one trained on labels "
        text += number(best["mean"]) + _closed(aware[at], old, best)
    sentences = [text + "."]
    rest = {name: points[name][at]["mean"] for name in OTHERS if at in points.get(name, {})}
    if rest:
        name = max(rest, key=lambda name: rest[name])
        sentences.append(
            f"The best of the estimators that ignore the policy ({readable(name)}) has {number(rest[name])}."
        )
    return sentences


def _closed(aware: dict[str, Any], old: dict[str, Any], best: dict[str, Any]) -> str:
    """How much of the gap is closed, with its interval; no share where the runs cannot tell it from none."""
    if aware["mean"] < old["mean"]:
        return "; the policy-aware ranker is below the production ranker"
    if min(int(item.get("runs") or 0) for item in (aware, old, best)) < 2 or best["mean"] <= old["mean"]:
        return ""
    share = share_closed(aware, old, best)
    if share is None or share.low is None or share.low <= 0.0:
        return "; the runs differ too much to say how much of the gap between them is closed"
    interval = f"95 % interval {100 * share.low:.0f} to {percent(share.high, 0)}"
    return f", so {percent(share.value, 0)} of the gap between them is closed ({interval})"


def _verdicts(claims: SortedClaims) -> str:
    sentences = []
    if claims.paper:
        count = tally(claims.paper)
        holds, fails, unsure = (count[verdict] for verdict in VERDICTS)
        sentences.append(
            f"{holds} of {counted(len(claims.paper), 'claim')} of the paper {_does(holds, 'hold')} here, "
            f"{fails} {'does' if fails == 1 else 'do'} not, and {unsure} {_does(unsure, 'lack')} evidence."
        )
    if claims.own:
        holds = tally(claims.own)["holds"]
        found = f"{holds} of {counted(len(claims.own), 'finding')} of our own"
        sentences.append(f"{found}, on what the paper leaves open, {_does(holds, 'hold')}.")
    if claims.absent:
        sentences.append(absent_words(claims))
    return " ".join(sentences) or "No claim was checked."


def absent_words(claims: SortedClaims) -> str:
    """What is said of claims whose figure was not asked for.

    >>> absent_words(SortedClaims([], [], [{"figure": 3}]))
    '1 claim belongs to figures that are not part of this run.'
    """
    count = len(claims.absent)
    return f"{counted(count, 'claim')} {_does(count, 'belong')} to figures that are not part of this run."


def _does(count: int, verb: str) -> str:
    return f"{verb}s" if count == 1 else verb
