"""A summary in plain words: what was done, what came out, how to read each figure, and the terms it uses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from counterrank.clicks.simulated_users import PAPER, PRESETS
from counterrank.estimators import ESTIMATORS, Estimator
from counterrank.experiments.figure_registry import PAPER_EXPERIMENT, experiment_of
from counterrank.experiments.figures.few_clicks import NUMBER as FEW_CLICKS
from counterrank.experiments.figures.page_size import ALL_BASELINES
from counterrank.experiments.figures.safety import NUMBER as SAFETY
from counterrank.experiments.statistics import CONFIDENCE, ratio_interval, values_array
from counterrank.experiments.summary import (
    VERDICTS,
    CellCounts,
    ClaimResult,
    Figure,
    Panel,
    Point,
    Summary,
    is_number,
    series_names,
)
from counterrank.report.charts import is_cut, relative_panel
from counterrank.report.text import counted, number, percent, power, readable

_BIAS = (
    "item selection bias",
    "A document that is never shown gets no clicks, however relevant it is, and no correction for position bias can "
    "make up for that.",
)
# the term, its meaning, and the series or levels of which one has to be there; estimators are in the registry
_TERMS = (
    (
        "randomised",
        "From pages whose last place goes to any of the remaining documents at random, as do those that policy-aware "
        "learns from. Without this word: from pages that always show the top of the ranking.",
        ("policy-oblivious+random", "rerank+random"),
    ),
    ("no cutoff", "Clicks on the whole ranking, of which nothing is hidden.", ("no-cutoff",)),
    (
        "production, full information",
        "The ranker that made the pages, and one trained on all labels: where learning starts, and the most it can "
        "reach.",
        ("production", "full-information"),
    ),
    (
        "logging policy",
        "Plackett-Luce by the scores of production: the pages that were logged, and where unsafe, exposure-risk and "
        "prpo start.",
        ("logging policy",),
    ),
    ("unsafe", "A Plackett-Luce policy learned with policy-aware weights, without a limit on exposure.", ("unsafe",)),
    (
        "exposure-risk",
        "The same with a penalty on exposure that is unlike that of the logging policy; it vanishes as sessions grow.",
        ("exposure-risk",),
    ),
    (
        "prpo",
        "The same, with nothing to gain from exposure beyond limits around that of the logging policy.",
        ("prpo",),
    ),
    ("blend", "Production, a blend of it with auto, or auto, whichever cross-fitted bounds allow.", ("blend",)),
    (
        "gate",
        "Auto, learned from 80 % of the sessions, if clicks of the other 20 % show that it is better; else production.",
        ("gate",),
    ),
)


def experiment_name(figures: Iterable[Figure]) -> str:
    """The experiment that these figures belong to; the paper's where none is known.

    >>> experiment_name([Figure(5)]), experiment_name([])
    ('few-clicks', 'paper')
    """
    return experiment_of(figure.number for figure in figures) or PAPER_EXPERIMENT


def tally(claims: Iterable[ClaimResult]) -> dict[str, int]:
    """How many claims have which verdict.

    >>> tally([ClaimResult(verdict="holds"), ClaimResult(verdict="holds")])
    {'holds': 2, 'does not hold': 0, 'not enough evidence': 0}
    """
    verdicts = [claim.verdict for claim in claims]
    return {verdict: verdicts.count(verdict) for verdict in VERDICTS}


class SortedClaims(NamedTuple):
    """The claims of a summary: those of the paper and our own on figures of this run, and those on other figures."""

    paper: list[ClaimResult]
    own: list[ClaimResult]
    absent: list[ClaimResult]

    @property
    def present(self) -> list[ClaimResult]:
        """Those that this run can say something about."""
        return [*self.paper, *self.own]


def sort_claims(summary: Summary) -> SortedClaims:
    """Whose claims they are, and whether their figure is part of the run.

    >>> claims = (ClaimResult(figure=1), ClaimResult(figure=4, own=True), ClaimResult(figure=2))
    >>> [len(some) for some in sort_claims(Summary(claims=claims, figures=(Figure(1), Figure(4))))]
    [1, 1, 1]
    """
    shown = {figure.number for figure in summary.figures}
    found = SortedClaims([], [], [])
    for claim in summary.claims:
        whose = found.own if claim.own else found.paper
        (whose if claim.figure in shown else found.absent).append(claim)
    return found


def needed_text(claim: ClaimResult) -> str:
    """What would decide a claim that lacks evidence; empty where nothing can be projected.

    >>> from counterrank.experiments.summary import Projection
    >>> needed_text(ClaimResult(projection=Projection(runs=37)))
    'about 37 runs would decide it'
    >>> needed_text(ClaimResult(projection=Projection(test_queries=2.5)))
    'more runs cannot decide it: it needs about 2.5 times as many test queries'
    """
    found = claim.projection
    if found is None:
        return ""
    if found.runs is not None:
        return f"about {found.runs:,} runs would decide it"
    if found.test_queries is not None:
        times = f"{found.test_queries:.1f}" if found.test_queries < 10 else f"{found.test_queries:,.0f}"
        return f"more runs cannot decide it: it needs about {times} times as many test queries"
    return "more than 10,000 runs would be needed to decide it"


def variance_sentence(claims: Iterable[ClaimResult]) -> str:
    """What confidence intervals of claims take into account.

    >>> variance_sentence([])
    ''
    """
    checks = [check for claim in claims for check in claim.checks if check.runs]
    alone = sum(check.query_groups is None for check in checks)
    if not checks:
        return ""
    if not alone:
        return "Their variance crosses runs and test queries: they hold for more runs and for more queries like these."
    some = "Their" if alone == len(checks) else f"For {alone} of {len(checks)} checks the"
    return (
        f"{some} variance is over runs alone, because results were not recorded by test query (by an older version): "
        "they hold for these test queries only."
    )


def looks_sentence(summary: Summary) -> str:
    """How often claims were looked at, and what that does to the level of intervals.

    >>> looks_sentence(Summary(looks=(10, 20)))
    'The claims were to be looked at after 10 and 20 runs, so each look has 1/2 of the error of 5 %. '
    """
    if not summary.looks:
        return ""
    *first, last = map(str, summary.looks)
    error = f"1/{len(summary.looks)} of the error of {percent(1.0 - CONFIDENCE, 0)}"
    return f"The claims were to be looked at after {', '.join(first)} and {last} runs, so each look has {error}. "


def reading(summary: Summary) -> list[str]:
    """The sentences that open the report.

    >>> reading(Summary())[-1]
    'No claim was checked.'
    """
    sentences = [_what(summary), *_findings(summary), _verdicts(sort_claims(summary))]
    if summary.quick:
        sentences.append(
            "This was a quick run on a reduced grid with few training queries: verdicts are about rankers of that size."
        )
    return sentences + _gaps(summary.cells)


def _what(summary: Summary) -> str:
    sources = ", ".join(fold.source for fold in summary.data) or "data that the summary does not name"
    parts = [[fold.parts[part] for fold in summary.data if part in fold.parts] for part in ("train", "test")]
    train, test = (sum(part.queries or 0 for part in folds) for folds in parts)
    sizes = f" ({train:,} training and {test:,} test queries)" if train else ""
    users = summary.settings.get("users", PAPER)
    known = "" if users == PAPER else f" (those of {users if users in PRESETS else 'a user model'})"
    return (
        f"On {sources}{sizes}, users{known} were simulated who see only the top of a result page. Rankers were learned "
        f"from their clicks with several estimators{_runs(summary)}, and evaluated by the relevance labels of test "
        "queries, which learning from clicks never uses."
    )


def _runs(summary: Summary) -> str:
    """How many runs there are and what they share, as far as it is known."""
    runs = summary.runs
    if runs < 2 or "production_seed" not in summary.settings:
        return f", in {counted(runs, 'run')}" if runs else ""
    if summary.settings["production_seed"] is None:
        return f", in {runs} independent runs, each with clicks and a production ranker of its own"
    every = "of each fold" if len(summary.data) > 1 else "for all"
    return f", in {runs} runs, each with clicks of its own and one production ranker {every}"


def _findings(summary: Summary) -> list[str]:
    """The decisive numbers: of figure 2 at the most clicks; without it, of figure 1 at the page size nearest to 5.

    Of figure 5 those at every number of sessions, of figure 6 those at the most.
    """
    figures = {figure.number: figure for figure in summary.figures}
    if SAFETY in figures:
        return safety_sentences(figures[SAFETY])
    if FEW_CLICKS in figures:
        return few_click_sentences(figures[FEW_CLICKS])
    for figure in (figures[n] for n in (2, 1) if n in figures):
        panel = figure.panel("dcg@")
        if panel is not None:
            return _decisive(figure, panel, summary.settings.get("clicks_by_k"))
    return []


def few_click_sentences(figure: Figure) -> list[str]:
    """What "auto" and policy-aware close of the gap at each number of sessions where both have a result.

    >>> from counterrank.experiments.summary import Series
    >>> shares = {"auto": 0.5, "policy-aware": 0.2}
    >>> curves = (Series(name, (Point(500, (), s, s - 0.1, s + 0.1),)) for name, s in shares.items())
    >>> few_click_sentences(Figure(5, panels=(Panel("share", series=tuple(curves)),)))
    ['Of the gap between production and full information auto closes 50 % (40 to 60 %) after 500 sessions, where \
policy-aware closes 20 % (10 to 30 %).']
    """
    panel = figure.panel("share") or Panel("share")
    auto, aware = panel.curve("auto"), panel.curve("policy-aware")
    places = [x for x in sorted(x for x in auto if x is not None) if x in aware]
    parts = [
        f"{_share(auto[x])} after {sessions_text(x)} sessions"
        f"{', where policy-aware closes' if x == places[0] else ' against'} {_share(aware[x])}"
        for x in places
    ]
    return [f"Of the gap between production and full information auto closes {'; '.join(parts)}."] if parts else []


def safety_sentences(figure: Figure) -> list[str]:
    """What each method serves after the most sessions, for each kind of users.

    >>> from counterrank.experiments.summary import Level, Series
    >>> panel = Panel("dcg@5, honest clicks", series=(Series("prpo", (Point(100, mean=0.5),)),),
    ...               levels=(Level(mean=0.4, name="production"),))
    >>> safety_sentences(Figure(6, panels=(panel,)))
    ['After 100 sessions with honest clicks DCG@5 is 0.5000 (prpo); production 0.4000.']
    """
    sentences = []
    for panel in figure.panels:
        metric, _, users = panel.name.partition(", ")
        xs = [point.x for point in panel.curve_points if point.is_there and point.x is not None]
        if not metric.startswith("dcg@") or not xs:
            continue
        last = {series.name: panel.curve(series.name).get(max(xs)) for series in panel.series}
        found = [f"{number(point.mean)} ({name})" for name, point in last.items() if point is not None]
        levels = "".join(f"; {level.name} {number(level.mean)}" for level in panel.levels if level.is_there)
        where = f"After {sessions_text(max(xs))} sessions with {users}"
        sentences.append(f"{where} {metric.upper()} is {', '.join(found)}{levels}.")
    return sentences


def sessions_text(sessions: float | None) -> str:
    """A number of sessions, with powers of ten for large ones.

    >>> sessions_text(2000), sessions_text(10**6)
    ('2,000', '10⁶')
    """
    return power(sessions) if sessions is not None and sessions >= 10**5 else number(sessions)


def _share(point: Point) -> str:
    interval = ""
    if point.interval:
        low, high = point.interval
        interval = f" ({100 * low:.0f} to {percent(high, 0)})".replace("-", "−")
    return percent(point.mean, 0) + interval


def _decisive(figure: Figure, panel: Panel, clicks_by_k: object) -> list[str]:
    aware = {x: point for x, point in panel.curve("policy-aware").items() if x is not None}
    if not aware:
        return []
    if figure.number == 2:
        at = max(aware)
        where = f"After {power(at)} clicks"
    else:
        at = min(aware, key=lambda k: abs(k - 5))
        where = f"With {counted(int(at), 'result')} on the page"
        where += f" and {power(clicks_by_k)} clicks" if is_number(clicks_by_k) else ""
    text = f"{where}, the policy-aware ranker has a {panel.name.upper()} of {number(aware[at].mean)}"
    old, best = panel.level("production"), panel.level("full-information")
    if old is not None and best is not None:
        text += f"; the production ranker behind the pages has {number(old.mean)}, one trained on labels "
        text += number(best.mean) + _closed(aware[at], old, best)
    sentences = [text + "."]
    rest = {name: panel.curve(name)[at].mean or 0.0 for name in ALL_BASELINES if at in panel.curve(name)}
    if rest:
        name = max(rest, key=lambda name: rest[name])
        sentences.append(
            f"The best of the estimators that ignore the policy ({readable(name)}) has {number(rest[name])}."
        )
    return sentences


def _closed(aware: Point, old: Point, best: Point) -> str:
    """How much of the gap is closed, with its confidence interval; no share where the runs cannot tell it from none."""
    assert aware.mean is not None
    assert old.mean is not None
    assert best.mean is not None
    if aware.mean < old.mean:
        return "; the policy-aware ranker is below the production ranker"
    if min(point.runs or 0 for point in (aware, old, best)) < 2 or best.mean <= old.mean:
        return ""
    runs = min(len(point.values) for point in (aware, old, best))
    value, start, end = (values_array(point.values[:runs]) for point in (aware, old, best))
    share = ratio_interval(value - start, end - start)
    if share is None or share.low is None or share.low <= 0.0:
        return "; the runs differ too much to say how much of the gap between them is closed"
    interval = f"95 % confidence interval {100 * share.low:.0f} to {percent(share.high, 0)}"
    return f", so {percent(share.value, 0)} of the gap between them is closed ({interval})"


def _verdicts(claims: SortedClaims) -> str:
    sentences = []
    if claims.paper:
        holds, fails, unsure = tally(claims.paper).values()
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
    """What is said of claims whose figure is not part of the run.

    >>> absent_words(SortedClaims([], [], [ClaimResult(figure=3)]))
    '1 claim belongs to figures that are not part of this run.'
    """
    count = len(claims.absent)
    return f"{counted(count, 'claim')} {_does(count, 'belong')} to figures that are not part of this run."


def _does(count: int, verb: str) -> str:
    return f"{verb}s" if count == 1 else verb


def trained(cells: CellCounts) -> int:
    """How many rankers were trained: those done, but for those that had nothing to learn from.

    >>> trained(CellCounts(wanted=100, done=95, failed=5, untrained=5))
    90
    """
    return cells.done - cells.untrained


def _gaps(cells: CellCounts) -> list[str]:
    sentences = []
    if cells.wanted > cells.done:
        lost = f" ({cells.failed:,} failed)" if cells.failed else ""
        sentences.append(f"The run is not complete: {trained(cells):,} of {cells.wanted:,} rankers were trained{lost}.")
    if cells.untrained:
        sentences.append(f"{counted(cells.untrained, 'ranker')} had too few clicks to learn anything from.")
    return sentences


def caption(figure: Figure) -> list[str]:
    """How to read a figure, and what it lacks.

    >>> caption(Figure(9))
    ['No result to draw yet.']
    """
    points = list(figure.points)
    there = [point for point in points if point.is_there]
    if not there:
        return ["No result to draw yet."]
    sentences = [figure.caption] if figure.caption else []
    runs = sorted({point.runs or 0 for point in there})
    if runs[-1] < 2:
        sentences.append("One run: no confidence interval can be given.")
    else:
        over = f"{runs[-1]} runs" if runs[0] == runs[-1] else f"{runs[0]} to {runs[-1]} runs"
        sentences.append(f"Bands are 95 % confidence intervals of the mean over {over}, for these test queries.")
        if runs[0] < 2:
            sentences.append("Points with one run have none.")
    if any(relative_panel(panel) is not None for panel in figure.panels):
        sentences.append(
            "The size of the estimates changes with the number of clicks for all losses alike, so they are drawn "
            "relative to the mean of the losses in the same run and at the same number of clicks; the axis is "
            "logarithmic in both directions from zero. The estimates themselves are among the numbers below."
        )
    if any(is_cut(relative_panel(panel) or panel) for panel in figure.panels):
        sentences.append("Some intervals are wider than the chart: they are drawn paler and cut at its edge.")
    for panel in figure.panels:
        blank = [series.name for series in panel.series if not any(point.is_there for point in series.points)]
        if blank and len(blank) < len(panel.series):
            sentences.append(f"No result yet in “{panel.label}” for {', '.join(map(readable, blank))}.")
    if len(there) < len(points):
        sentences.append(f"{len(points) - len(there)} of {counted(len(points), 'point')} have no result yet.")
    return sentences


class ChoiceRow(NamedTuple):
    """A row of the table of what "auto" chose, as texts; the first row of a number of sessions spans several."""

    first: bool
    span: int
    sessions: str
    clicks: str
    estimator: str
    kept: str
    runs: str
    about: str
    why: str


def choice_rows(figure: Figure) -> list[ChoiceRow]:
    """The table of what "auto" chose: a row for each estimator it took at each number of sessions.

    >>> from counterrank.experiments.summary import Choice, ChosenEstimator
    >>> chosen = ChosenEstimator("shrinkage", 3, {"strength": (1.0, 2.0, 4.0)}, ("few",))
    >>> choice_rows(Figure(5, choices=(Choice(500, 3, 480.0, chosen=(chosen,)),)))[0].about
    'strength 2.0000 (1.0000 to 4.0000)'
    """
    return [
        ChoiceRow(
            first=place == 0,
            span=len(choice.chosen),
            sessions=sessions_text(choice.x),
            clicks="–" if choice.clicks is None else f"{choice.clicks:,.0f}",
            estimator=readable(group.estimator),
            kept=", ".join(f"{readable(kind)} ({runs})" for kind, runs in choice.kept.items()),
            runs=f"{group.runs} of {counted(choice.runs, 'run')}",
            about=", ".join(_spread(name, *ends) for name, ends in group.about.items()),
            why=_first_sentence(next(iter(group.why), "")),
        )
        for choice in figure.choices
        for place, group in enumerate(choice.chosen)
    ]


def _spread(name: str, least: float, middle: float, most: float) -> str:
    spread = f" ({number(least)} to {number(most)})" if least != most else ""
    return f"{name} {number(middle)}{spread}"


def _first_sentence(text: str) -> str:
    """The rest is in `results.jsonl`, cell by cell."""
    first, more, _ = text.partition(". ")
    return f"{first}." if more else first


def glossary(figures: Iterable[Figure]) -> list[tuple[str, str]]:
    """The terms that the figures use and what they mean, in the order of reading.

    >>> from counterrank.experiments.summary import Series
    >>> [term for term, _ in glossary([Figure(2, panels=(Panel("arp", series=(Series("no-cutoff"),)),))])]
    ['item selection bias', 'no cutoff', 'ARP']
    """
    every = list(figures)
    names = {name.partition(":")[0] for name in series_names(every)}
    panels = [panel.name for figure in every for panel in figure.panels]
    if any(figure.number in (3, 4) for figure in every):
        names.add("policy-aware")  # their curves are all of policy-aware learning
    kinds = {name.removesuffix("+random") for name in names} - {"full-information"}
    found = [(known.name, _meaning(known)) for known in ESTIMATORS.values() if known.name in kinds]
    found += [(term, meaning) for term, meaning, which in _TERMS if names & set(which)]
    if "arp" in panels:
        found.append(("ARP", "The average rank of the relevant documents: the lower the better."))
    dcg = next((name.partition(",")[0].upper() for name in panels if name.startswith("dcg@")), "")
    if dcg:
        top = dcg.partition("@")[2]
        text = f"The relevant documents among the first {top}, each counted 1 / log₂(rank + 1): the higher the better."
        found.append((dcg, text))
    return [_BIAS, *found] if found else []


def _meaning(known: Estimator) -> str:
    """What the registry says of an estimator and of the hyperparameters that cross-validation chooses."""
    chosen = (f"{name}: {known.hyperparameters[name]}" for name in known.grid)
    text = "; ".join((known.summary.removesuffix("."), *chosen))
    return f"{text[:1].upper()}{text[1:]}."
