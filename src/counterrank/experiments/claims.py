"""Claims as statistical checks over runs: rules, verdicts, and figures as claims read them.

The claims themselves are in the modules of their figures, with the constants that put the paper's words ("small k",
"many clicks") into numbers.

A check compares one number over runs, mostly a relative difference, with two kinds of regions: where the claim would be
true, and where it would be false. With the interval of the number wholly inside a true region the check holds; wholly
inside a false one it is refuted; otherwise there is not enough evidence. A check whose truth lies in a false region
holds by chance with probability 1 - confidence at most, and the same the other way around.

A claim over several checks, of which all have to be true (*all of them*):

- holds where every check holds. No correction is needed: were one of them false, that one alone would have to hold by
  chance (an intersection-union test).
- does not hold where some check is refuted at a level corrected for the number of checks m: 1 - (1 - confidence) / m
  (Bonferroni), for each of them is a chance to err.

A claim that something occurs *somewhere* is decided the other way around: it holds where some check holds at the
corrected level, and does not hold where every check is refuted.

The target population of intervals is more runs like these and more test queries like these, learned from the same
training queries: variances cross runs and test queries, see `statistics`. Results of older versions do not have
metrics by group of test queries; intervals then hold for these test queries only, and checks say so. Runs differ in
their clicks, in the fold where there are several, and in the production ranker only where each run trains its own;
where all share one, as in the paper, intervals do not hold for other production rankers, and what depends on it alone
(the cost of a page) does not vary at all.

A claim without enough evidence has a projection: how many runs would decide it, were the observed means the true ones
and the variances as they are. Where the variance that comes from test queries alone prevents a verdict, more runs
cannot decide it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from counterrank.common.checks import FloatArray
from counterrank.common.errors import CounterrankError, brief
from counterrank.experiments.figure_registry import FIGURES, PAPER_EXPERIMENT, experiment_of
from counterrank.experiments.statistics import CONFIDENCE, Interval, Sample, against, mean_interval, sample
from counterrank.experiments.summary import (
    FAILS,
    HOLDS,
    OPEN,
    CheckResult,
    ClaimResult,
    Figure,
    FoldDescription,
    Panel,
    Point,
    Projection,
    Summary,
    common_groups,
    to_json,
)

MARGIN = 0.02
"""Relative difference up to which two methods are taken as equal."""

MANY_CLICKS = 10**6
"""A grid of clicks that ends before this does not show what many clicks do; the paper's ends at 10^8."""

SHORT_QUERIES = 30.0
"""Documents per query up to which queries are short: Yahoo has 24."""

LONG_QUERIES = 60.0
"""Documents per query from which on queries are long: MSLR has 125. The paper has nothing between the two."""

FULL = "full-information"

Region = tuple[float, float]

# two methods that are equal but for rounding shall not differ "in every run"
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Rule:
    """Where a number makes a check true, and where false.

    The two meet at a bar. Only "better" (`at_least` with a second bar) lets them overlap: what is sure and small is
    true there, what may be nothing and is surely small is false.

    Attributes:
        true: open regions, tried first.
        false: closed regions.
    """

    true: tuple[Region, ...]
    false: tuple[Region, ...]

    def verdict(self, interval: Interval) -> str:
        """Of one number with its interval."""
        low, high = interval.low, interval.high
        if low is None or high is None:
            return OPEN
        if any(left + _ROUNDING < low and high < right - _ROUNDING for left, right in self.true):
            return HOLDS
        return FAILS if any(left <= low and high <= right for left, right in self.false) else OPEN

    def support(self, interval: Interval) -> float:
        """How far the interval lies inside a true region; negative where it sticks out; -inf without an interval."""
        low, high = interval.low, interval.high
        if low is None or high is None:
            return -math.inf
        return max(min(low - left, right - high) for left, right in self.true)


def at_least(bar: float, refuted_below: float | None = None) -> Rule:
    """True above the bar; false below it, or below another bar.

    `at_least(-margin)` is "not worse by more than the margin". `at_least(0.0, small)` is "better": any sure advantage
    will do, and one that is surely smaller than `small` is none. Without the second bar two equal methods could never
    refute it.

    >>> at_least(-0.02).verdict(Interval(-0.01, -0.015, -0.005, 8))
    'holds'
    """
    return Rule(((bar, math.inf),), ((-math.inf, bar if refuted_below is None else refuted_below),))


def at_most(bar: float) -> Rule:
    """True below the bar, false above.

    >>> at_most(0.02).verdict(Interval(0.05, 0.03, 0.07, 8))
    'does not hold'
    """
    return Rule(((-math.inf, bar),), ((bar, math.inf),))


def within(margin: float) -> Rule:
    """True where the number lies within plus and minus the margin.

    >>> within(0.02).verdict(Interval(0.0, -0.03, 0.03, 2))
    'not enough evidence'
    """
    return Rule(((-margin, margin),), ((-math.inf, -margin), (margin, math.inf)))


def beyond(margin: float) -> Rule:
    """True where the number lies outside plus and minus the margin: the opposite of `within`.

    >>> beyond(0.02).verdict(Interval(0.0, -0.01, 0.01, 8))
    'does not hold'
    """
    return Rule(((-math.inf, -margin), (margin, math.inf)), ((-margin, margin),))


@dataclass(frozen=True, eq=False)
class Check:
    """One number over runs, and what it has to be.

    Attributes:
        what: names the number for a reader.
        values: one per run, or per fold, run and group of test queries (see `statistics`), nan where missing.
        rule: what it has to be.
    """

    what: str
    values: FloatArray
    rule: Rule

    @cached_property
    def sample(self) -> Sample:
        """The mean and its standard error."""
        return sample(self.values)

    def verdict(self, confidence: float) -> str:
        """At this level."""
        return self.rule.verdict(self.sample.interval(confidence))

    def result(self, confidence: float) -> CheckResult:
        """As claims list it: all numbers relative (0.01 is 1 %), the verdict without correction."""
        value, low, high, runs = found = self.sample.interval(confidence)
        groups = self.values.shape[2] if self.values.ndim == 3 else None
        return CheckResult(self.what, value, low, high, "relative", runs, self.rule.verdict(found), groups)

    def with_more(self, runs: int, queries: float = 1.0) -> Check:
        """The check with the same mean from so many runs, and so many times as many test queries."""
        other = Check(self.what, self.values, self.rule)
        vars(other)["sample"] = self.sample.with_more(runs, queries)  # in place of the cached property
        return other


class Outcome(NamedTuple):
    """The verdict over checks, and the check that decides it: None where there is none with an interval."""

    verdict: str
    decisive: Check | None


def judge(checks: Sequence[Check], confidence: float, somewhere: bool = False) -> Outcome:
    """The verdict of a claim that all of the checks, or `somewhere` one of them, are true; see the top of this module.

    >>> import numpy as np
    >>> judge([Check("a", np.array([0.1, 0.1]), at_least(0.0))], 0.95).verdict
    'holds'
    """
    usable = [check for check in checks if check.sample.runs >= 2]
    if not usable:
        return Outcome(OPEN, None)
    corrected = 1.0 - (1.0 - confidence) / len(usable)
    easy, hard = (FAILS, HOLDS) if somewhere else (HOLDS, FAILS)
    # at both levels: an advantage that is sure and tiny holds at the first, and may look like none at the second
    decided = [check for check in usable if check.verdict(corrected) == hard == check.verdict(confidence)]
    if decided:
        verdict = hard
    else:
        verdict = easy if all(check.verdict(confidence) == easy for check in checks) else OPEN
    # the nearest to failing where all have to be true, the nearest to being true where one is enough
    choose = max if somewhere else min
    supported = choose(decided or usable, key=lambda check: check.rule.support(check.sample.interval(confidence)))
    return Outcome(verdict, supported)


def project(checks: Sequence[Check], confidence: float, somewhere: bool = False) -> Projection | None:
    """What would decide a claim that `judge` leaves open; None where a check has fewer than two runs.

    >>> import numpy as np
    >>> undecided = Check("a", np.array([0.2, -0.1, 0.2]), at_least(0.0))  # mean 0.1, standard deviation 0.17
    >>> project([undecided], 0.95)
    Projection(runs=15, test_queries=None)
    """
    folds = max((check.values.shape[0] for check in checks if check.values.ndim == 3), default=1)
    if not checks or any(check.sample.runs < 2 for check in checks):
        return None

    def decides(runs: int, queries: float = 1.0) -> bool:
        more = [check.with_more(folds * runs, queries) for check in checks]
        return judge(more, confidence, somewhere).verdict != OPEN

    start = math.ceil(max(check.sample.runs for check in checks) / folds)
    if decides(_MOST_RUNS):
        return Projection(runs=_first(decides, start, _MOST_RUNS))
    if decides(_ENDLESS):
        return Projection()
    times = _first(lambda tenths: decides(_ENDLESS, tenths / 10), 10, 10**6)
    return Projection(test_queries=times / 10) if times < 10**6 else Projection()


_MOST_RUNS, _ENDLESS = 10_000, 10**9


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest number above `low`, up to `high`, from which on something holds; about, where it is not monotone."""
    step = low + 1
    while step < high and not holds(step):
        low, step = step, 2 * step
    high = min(step, high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class Criteria:
    """The criteria of all claims.

    Attributes:
        confidence: the level of single confidence intervals.
        margin: relative; differences up to this are taken as none, as the eye would in the paper's plots.
        documents: documents per query on average, None where unknown.
        targets: shares of the gap to be closed, by number of sessions.
    """

    confidence: float = CONFIDENCE
    margin: float = MARGIN
    documents: float | None = None
    targets: Mapping[int, float] = field(default_factory=dict)

    @property
    def noticeable(self) -> float:
        """A quarter of the margin: an advantage surely smaller than this refutes that there is one."""
        return self.margin / 4.0

    @property
    def short_queries(self) -> bool:
        """Whether queries are known to be short, as Yahoo's."""
        return self.documents is not None and self.documents <= SHORT_QUERIES

    @property
    def long_queries(self) -> bool:
        """Whether queries are known to be long, as MSLR's."""
        return self.documents is not None and self.documents >= LONG_QUERIES

    def unknown_length(self) -> str:
        """Why claims that depend on the length of queries are not checked; empty where they are."""
        if self.documents is None:
            return "how many documents queries have is not known"
        if not (self.short_queries or self.long_queries):
            return f"{self.documents:.0f} documents per query are neither few nor many, and the paper has no such set"
        return ""

    def not_long(self) -> str:
        """Why what the paper says of MSLR alone is not checked; empty where queries are long."""
        return "the paper says this of long queries only" if self.short_queries else self.unknown_length()


@dataclass(frozen=True, eq=False)
class PanelValues:
    """One panel of a figure as claims read it: one number per run, larger always better, paired by run.

    Attributes:
        metric: for sentences, "ARP", "DCG@5" or "DCG@5, inverted clicks".
        points: the values of each series at each x, larger always better (ARP is negated), nan where missing.
        levels: the values of each horizontal line, likewise.
        chosen: which loss each run of the series "selection" chose, at each x.
        runs: how many runs there are at most.
        sign: -1 where values were negated.
        shape: of the values; (runs,) if None.
    """

    metric: str
    points: Mapping[str, Mapping[float | None, FloatArray]] = field(default_factory=dict)
    levels: Mapping[str, FloatArray] = field(default_factory=dict)
    chosen: Mapping[float | None, Sequence[str | None]] = field(default_factory=dict)
    runs: int = 0
    sign: float = 1.0
    shape: tuple[int, ...] | None = None

    @classmethod
    def of(cls, panel: Panel) -> PanelValues:
        """The values of a panel of a summary, by group of test queries where all points have them."""
        every = [point for _, point in panel.points]
        runs = max((len(point.values) for point in every), default=0)
        sign = -1.0 if panel.lower_is_better else 1.0
        groups = common_groups(every)
        found = [_row(point, runs) for point in every] if groups is None else groups
        rows = iter([sign * row for row in found])  # in the order of `panel.points`
        metric, comma, which = panel.name.partition(",")
        return cls(
            metric.upper() + comma + which if metric.startswith(("arp", "dcg@")) else panel.name,
            {one.name: {point.x: next(rows) for point in one.points} for one in panel.series},
            {level.name: next(rows) for level in panel.levels},
            {point.x: point.chosen for one in panel.series for point in one.points if point.chosen is not None},
            runs,
            sign,
            None if groups is None else groups[0].shape,
        )

    def xs(self, *series: str) -> list[float]:
        """Where any of these series has a point (of all series where none is named), in order."""
        found = {x for name in series or self.points for x in self.points.get(name, {}) if x is not None}
        return sorted(found)

    def at(self, name: str, x: float | None) -> FloatArray:
        """The runs of a series at x, or of a level; all nan where there is no such point, which supports nothing."""
        nothing = self._nothing()
        return self.points[name].get(x, nothing) if name in self.points else self.levels.get(name, nothing)

    def mean_over(self, name: str, xs: Iterable[float]) -> FloatArray:
        """For each run the mean of a series over several x; nan where one of them is missing."""
        rows = [self.at(name, x) for x in xs]
        return np.mean(rows, axis=0) if rows else self._nothing()

    def _nothing(self) -> FloatArray:
        return np.full((self.runs,) if self.shape is None else self.shape, np.nan)

    def compare(self, one: str, other: str, x: float, where: str, rule: Rule) -> Check:
        """How much better one series is than another (or a level) at x."""
        what = f"{self.metric} of {one} against {other} at {where}"
        return Check(what, against(self.at(one, x), self.at(other, x)), rule)

    def compare_at_the_end(self, one: str, others: Iterable[str], rule: Rule) -> list[Check]:
        """One series against others with the most clicks; nothing where those are not many."""
        return [
            self.compare(one, other, most, f"{clicks_text(most)} clicks", rule)
            for other in others
            for most in self.many_clicks()
        ]

    def compare_means(self, one: str, other: str, xs: Sequence[float], where: str, rule: Rule) -> Check:
        """How much better one series is than another on average over several x."""
        what = f"{self.metric} of {one} against {other}, mean over fewer than {where} clicks"
        return Check(what, against(self.mean_over(one, xs), self.mean_over(other, xs)), rule)

    def first_near(self, name: str, xs: Iterable[float], margin: float) -> float | None:
        """The smallest x from which on the means of a series stay within the margin of full-information."""
        return first_within({x: mean_interval(against(self.at(name, x), self.at(FULL, x))).value for x in xs}, margin)

    def many_clicks(self) -> list[float]:
        """The largest number of clicks on the grid, where it is many; at most one."""
        return [clicks for clicks in self.xs()[-1:] if clicks >= MANY_CLICKS]

    def too_few_clicks(self) -> str:
        """Why there is no end with many clicks to look at."""
        most = f"the grid ends at {clicks_text(self.xs()[-1])} clicks" if self.xs() else "there are no points"
        return f"{most}, {clicks_text(MANY_CLICKS)} are needed"

    def needed_clicks(self, series: Iterable[str], margin: float) -> str:
        """From how many clicks on the means of these series stay within the margin of full-information."""
        first = {name: self.first_near(name, self.xs(), margin) for name in series}
        found = [f"{name} {'never' if x is None else f'from {clicks_text(x)} clicks on'}" for name, x in first.items()]
        return f"mean {self.metric} stays within {plain_percent(margin)} of {FULL}: {', '.join(found)}"


def _row(point: Point, runs: int) -> FloatArray:
    """One number per run of the panel; what is null, or not finite, or beyond the end, is nan."""
    row = np.full(runs, np.nan)
    for run, number in enumerate(point.values):
        if number is not None and math.isfinite(number):
            row[run] = number
    return row


@dataclass(frozen=True, eq=False)
class FigureValues:
    """A figure as claims read it; without panels where the figure is missing.

    Attributes:
        number: of the figure.
        panels: in order.
        criteria: of its claims.
        lack: why there is nothing to check, or empty.

    >>> FigureValues.find([], 1).lack
    'figure 1 is not part of this run'
    """

    number: int
    panels: tuple[PanelValues, ...]
    criteria: Criteria
    lack: str

    @classmethod
    def find(cls, figures: Iterable[Figure], number: int, criteria: Criteria | None = None) -> FigureValues:
        """The figure of this number."""
        found = next((figure for figure in figures if figure.number == number), None)
        panels = () if found is None else tuple(PanelValues.of(panel) for panel in found.panels)
        rows = (row for panel in panels for points in panel.points.values() for row in points.values())
        lack = "" if any(np.isfinite(row).any() for row in rows) else f"figure {number} has no points"
        lack = f"figure {number} is not part of this run" if found is None else lack
        return cls(number, panels, criteria or Criteria(), lack)

    @property
    def compared(self) -> tuple[PanelValues, ...]:
        """The panels that hold a metric on the labels of the test set."""
        return tuple(panel for panel in self.panels if panel.metric == "ARP" or panel.metric.startswith("DCG@"))

    def panel(self, name: str) -> PanelValues:
        """The panel whose metric begins with this; an empty one where there is none."""
        return next((panel for panel in self.panels if panel.metric.startswith(name)), PanelValues(name))

    def conclude(
        self,
        id: str,
        statement: str,
        paper: str,
        checks: Sequence[Check],
        *,
        note: str = "",
        lack: str = "",
        somewhere: bool = False,
        own: bool = False,
    ) -> ClaimResult:
        """A claim with its verdict.

        Arguments:
            id: stable, for programs.
            statement: one sentence.
            paper: section and figure.
            checks: what was checked; empty where nothing could be.
            note: more numbers worth reading, appended to the line.
            lack: why there are no checks, where the figure itself has points.
            somewhere: whether one true check is enough; otherwise all have to be true.
            own: whether the claim is ours, on what the paper leaves open.
        """
        confidence = self.criteria.confidence
        outcome = judge(checks, confidence, somewhere)
        if self.lack or not checks:
            numbers, note = self.lack or lack or f"figure {self.number} lacks the points for it", ""
        elif outcome.decisive is None:
            numbers = _without_interval(checks)
        else:
            numbers = _line(outcome.decisive, checks, confidence, somewhere)
        listed = () if self.lack else tuple(check.result(confidence) for check in checks)
        line = "; ".join(filter(None, [numbers, note]))
        needed = project(checks, confidence, somewhere) if listed and outcome.verdict == OPEN else None
        return ClaimResult(id, statement, paper, own, self.number, outcome.verdict, line, listed, needed)


def _line(decisive: Check, checks: Sequence[Check], confidence: float, somewhere: bool) -> str:
    value, low, high, runs = decisive.sample.interval(confidence)
    assert value is not None
    assert low is not None
    assert high is not None
    text = f"{decisive.what}: {percent(value)} ({_signed(low)} to {_signed(high)})"
    if len(checks) > 1:
        verdicts = [check.verdict(confidence) for check in checks]
        counts = f"{verdicts.count(HOLDS)} hold, {verdicts.count(FAILS)} do not, {verdicts.count(OPEN)} open"
        text += f", the {'strongest' if somewhere else 'weakest'} of {len(checks)} checks ({counts})"
    return f"{text}; {runs} runs"


def _without_interval(checks: Sequence[Check]) -> str:
    first = next((check for check in checks if check.sample.runs), None)
    if first is None:
        return "no run has all the values that this compares"
    return f"{first.what}: {percent(first.sample.mean)}; a confidence interval needs two runs"


def _signed(share: float) -> str:
    rounded = round(100.0 * share, 1)
    return f"{rounded:+.1f}" if rounded else "0.0"


def percent(share: float) -> str:
    """A share with its sign.

    >>> percent(-0.0061), percent(0.0)
    ('-0.6 %', '0.0 %')
    """
    return f"{_signed(share)} %"


def plain_percent(share: float) -> str:
    """Without a sign.

    >>> plain_percent(0.02)
    '2 %'
    """
    return f"{100.0 * share:g} %"


def clicks_text(clicks: float) -> str:
    """Numbers of clicks as the axes write them.

    >>> clicks_text(100_000), clicks_text(25_000)
    ('10^5', '25,000')
    """
    power = len(str(int(clicks))) - 1
    return f"10^{power}" if clicks == 10**power else f"{int(clicks):,}"


def first_within(shares: Mapping[float, float | None], margin: float) -> float | None:
    """The smallest x from which on all means stay above minus the margin.

    >>> first_within({1: -0.1, 10: -0.01, 100: -0.03, 1000: 0.0}, 0.02)
    1000
    """
    found = None
    for x in sorted(shares, reverse=True):
        share = shares[x]
        if share is None or share < -margin:
            break
        found = x
    return found


def documents_per_query(data: Iterable[FoldDescription]) -> float | None:
    """The mean over folds of the mean length of a query's list, of the training part where it is known.

    >>> from counterrank.experiments.summary import Part
    >>> documents_per_query([FoldDescription("mine", {"train": Part(documents_per_query=24.0)})])
    24.0
    """
    found = []
    for fold in data:
        parts = (fold.parts[name] for name in ("train", "validation", "test") if name in fold.parts)
        found += [part.documents_per_query for part in parts if part.documents_per_query is not None][:1]
    return sum(found) / len(found) if found else None


def check_claims(
    figures: Sequence[Figure],
    *,
    data: Iterable[FoldDescription] = (),
    confidence: float = CONFIDENCE,
    margin: float = MARGIN,
    targets: Mapping[int, float] | None = None,
) -> list[ClaimResult]:
    """Each claim of the paper's results, and some of our own, as a statistical check over runs; in the paper's order.

    All numbers of checks are relative and positive where something is better, for ARP as well.

    Arguments:
        figures: as a run's summary holds them. They belong to one experiment (see `FigureSpec`), and the claims are
            those of its figures: of the paper's where there are none.
        data: the summary's description of the data; some claims depend on how long queries are.
        confidence: of single intervals; a verdict is wrong with probability 1 - confidence at most.
        margin: relative difference up to which two methods are taken as equal; a quarter of it is noticeable: an
            advantage that is surely smaller counts as none.
        targets: figure 5: shares of the gap that "auto" is to close, by number of sessions.

    >>> claims = check_claims([])
    >>> claims[0].id, claims[0].verdict, claims[0].numbers
    ('baselines-below-at-small-k', 'not enough evidence', 'figure 1 is not part of this run')
    """
    for name, value in (("confidence", confidence), ("margin", margin)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 < value < 1.0:
            raise CounterrankError(f"{name}={brief(value)}: expected a number between 0 and 1")
    criteria = Criteria(float(confidence), float(margin), documents_per_query(data), dict(targets or {}))
    experiment = experiment_of(figure.number for figure in figures) or PAPER_EXPERIMENT
    wanted = [spec for spec in FIGURES.values() if spec.experiment == experiment]
    found = (check(FigureValues.find(figures, spec.number, criteria)) for spec in wanted for check in spec.claims)
    return [claim for claim in found if claim is not None]


def claims_document(summary: Summary) -> dict[str, Any]:
    """The content of `claims.json`: the claims of a summary, and the run they are about.

    >>> claims_document(Summary(preset="paper-mslr", data=(FoldDescription("synthetic:mslr"),)))["data"]
    ['synthetic:mslr']
    """
    points = (point for figure in summary.figures for panel in figure.panels for point in panel.curve_points)
    return {
        "format": "counterrank-claims",
        "version": 1,
        "preset": summary.preset,
        "quick": summary.quick,
        "data": [fold.source for fold in summary.data],
        "runs": max((sum(value is not None for value in point.values) for point in points), default=0),
        "confidence": summary.confidence,
        "looks": list(summary.looks),
        "margin": MARGIN,
        "noticeable": Criteria().noticeable,
        "claims": to_json(summary.claims),
    }
