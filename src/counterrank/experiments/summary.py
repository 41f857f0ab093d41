"""The summary of a run: figures, claims and timings as dataclasses, with one conversion from and to JSON.

`counterrank.experiments.summarize` makes a `Summary` of a run folder, `counterrank.report` draws it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from counterrank.common.checks import FloatArray
from counterrank.common.errors import CounterrankError
from counterrank.experiments.statistics import CONFIDENCE, mean_interval, merge_groups, values_array

FORMAT, VERSION = "counterrank-summary", 1

HOLDS, FAILS, OPEN = "holds", "does not hold", "not enough evidence"
VERDICTS = (HOLDS, FAILS, OPEN)

# of fields that older summaries do not have, and which are left out where there is nothing to say
_OPTIONAL = (
    *("chosen", "shown", "unrandomised", "choices", "caption", "subtitle", "unit", "drawn_relative", "shade"),
    *("query_groups", "projection", "test_queries", "looks"),
)

T = TypeVar("T")


@dataclass(frozen=True)
class Point:
    """A value of a curve: its mean over runs with a 95 % confidence interval.

    Attributes:
        x: the place on the axis; None where there is none.
        values: one for each run, None where it is missing.
        mean, low, high: the mean and its confidence interval; None where there are too few runs.
        runs: how many runs have a value; None where runs are not counted.
        chosen: what was selected in each run, where something was.
        shown, unrandomised: figure 4: mean DCG of the displayed pages, and of the same pages without randomisation.
        groups: the values by group of test queries (folds, runs, groups), see `statistics`; None where a run has none.
            Claims need them; they are not part of the JSON.
    """

    x: float | None = None
    values: tuple[float | None, ...] = ()
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    runs: int | None = None
    chosen: tuple[str | None, ...] | None = None
    shown: float | None = None
    unrandomised: float | None = None
    groups: FloatArray | None = field(default=None, repr=False, compare=False, metadata={"json": False})

    @property
    def is_there(self) -> bool:
        """Whether there is a mean to draw."""
        return is_number(self.mean)

    @property
    def interval(self) -> tuple[float, float] | None:
        """(low, high), where both are known."""
        low, high = self.low, self.high
        return (low, high) if low is not None and high is not None and is_number(low) and is_number(high) else None


@dataclass(frozen=True)
class Level(Point):
    """A horizontal line: a value that does not depend on x."""

    name: str = ""

    @classmethod
    def at(cls, name: str, point: Point) -> Level:
        """A line at the height of a point."""
        return cls(**vars(point), name=name)


@dataclass(frozen=True)
class Series:
    """A curve."""

    name: str
    points: tuple[Point, ...] = ()


@dataclass(frozen=True)
class Panel:
    """One chart of a figure.

    Attributes:
        name: the metric ("arp", "dcg@5"), or what else is shown ("estimate", "cost", "share").
        label: its title.
        lower_is_better: whether smaller values are better.
        loss: the loss of all curves, where it is one.
        series: the curves.
        levels: the horizontal lines.
        subtitle: a second line under the title.
        unit: the name of the values in tooltips and on the axis of dots; the label if empty.
        drawn_relative: whether to draw values as percentages of the mean of all curves but "selection".
    """

    name: str
    label: str = ""
    lower_is_better: bool = False
    loss: str | None = None
    series: tuple[Series, ...] = ()
    levels: tuple[Level, ...] = ()
    subtitle: str = ""
    unit: str = ""
    drawn_relative: bool = False

    @property
    def points(self) -> Iterator[tuple[str, Point]]:
        """Name and point of all series, then of all levels (which have no x)."""
        yield from ((series.name, point) for series in self.series for point in series.points)
        yield from ((level.name, level) for level in self.levels)

    @property
    def curve_points(self) -> list[Point]:
        """The points of all series."""
        return [point for series in self.series for point in series.points]

    @property
    def names(self) -> list[str]:
        """Of all series, then of all levels."""
        return [*(series.name for series in self.series), *(level.name for level in self.levels)]

    def curve(self, name: str) -> dict[float | None, Point]:
        """The points of a series that have a mean, by x; empty without such a series."""
        return {p.x: p for series in self.series if series.name == name for p in series.points if p.is_there}

    def level(self, name: str) -> Level | None:
        """A level by its name, where it has a mean."""
        return next((level for level in self.levels if level.name == name and level.is_there), None)


@dataclass(frozen=True)
class Axis:
    """The x axis of a figure; `shade` is an x up to which the ground has another colour."""

    name: str = ""
    label: str = ""
    log: bool = False
    shade: float | None = None


@dataclass(frozen=True)
class ChosenEstimator:
    """An estimator that "auto" chose: in how many runs, (least, median, largest) of its numbers, and its reasons."""

    estimator: str
    runs: int
    about: dict[str, tuple[float, ...]] = field(default_factory=dict)
    why: tuple[str, ...] = ()


@dataclass(frozen=True)
class Choice:
    """What "auto" chose at one number of sessions.

    Attributes:
        x: the number of sessions.
        runs: with a result.
        clicks: their mean number; None without a run.
        kept: in how many runs each kind of estimator is part of the ranker.
        chosen: the best estimators, the most frequent first.
    """

    x: float | None
    runs: int = 0
    clicks: float | None = None
    kept: dict[str, int] = field(default_factory=dict)
    chosen: tuple[ChosenEstimator, ...] = ()


@dataclass(frozen=True)
class Figure:
    """A figure: its panels share an x axis.

    Attributes:
        number: 1 to 5, or that of a figure registered elsewhere.
        title, caption: what it shows, and how to read it.
        x: the axis.
        panels: side by side.
        choices: figure 5: what "auto" chose.
    """

    number: int
    title: str = ""
    x: Axis = Axis()
    panels: tuple[Panel, ...] = ()
    choices: tuple[Choice, ...] = ()
    caption: str = ""

    @property
    def points(self) -> Iterator[Point]:
        """All points and levels of all panels."""
        return (point for panel in self.panels for _, point in panel.points)

    def panel(self, prefix: str) -> Panel | None:
        """The first panel whose name begins so."""
        return next((panel for panel in self.panels if panel.name.startswith(prefix)), None)


@dataclass(frozen=True)
class CheckResult:
    """One comparison of a claim: a number over runs with its confidence interval, and the verdict on it alone.

    `query_groups` is the number of groups of test queries in its variance; None where that is over runs alone.
    """

    what: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str = ""
    runs: int | None = None
    verdict: str = ""
    query_groups: int | None = None


@dataclass(frozen=True)
class Projection:
    """What would decide a claim at the observed effects.

    Attributes:
        runs: so many on each fold; None where more runs alone cannot decide it, or more than 10,000 are needed.
        test_queries: where more runs cannot, so many times as many test queries, with as many runs as one likes.
    """

    runs: int | None = None
    test_queries: float | None = None


@dataclass(frozen=True)
class ClaimResult:
    """A claim with its verdict.

    Attributes:
        id: stable, for programs.
        statement: one sentence.
        paper: section and figure of the paper.
        own: whether it is ours, on what the paper leaves open.
        figure: the number of the figure that it is checked on.
        verdict: "holds", "does not hold" or "not enough evidence".
        numbers: one line of numbers for a reader.
        checks: every comparison.
        projection: what would decide it, where there is not enough evidence.
    """

    id: str = ""
    statement: str = ""
    paper: str = ""
    own: bool = False
    figure: int | None = None
    verdict: str = OPEN
    numbers: str = ""
    checks: tuple[CheckResult, ...] = ()
    projection: Projection | None = None


@dataclass(frozen=True)
class Part:
    """One part of a fold in numbers; None where they are not known."""

    queries: int | None = None
    documents: int | None = None
    features: int | None = None
    documents_per_query: float | None = None
    shortest: int | None = None
    longest: int | None = None
    relevant_share: float | None = None
    queries_with_relevant: int | None = None


@dataclass(frozen=True)
class FoldDescription:
    """Where a fold is from, and its parts by name."""

    source: str = ""
    parts: dict[str, Part] = field(default_factory=dict)


@dataclass(frozen=True)
class CellFailed:
    """A cell in words, and its error."""

    cell: str
    error: str


@dataclass(frozen=True)
class CellCounts:
    """How many cells there are, have a result, failed, and had nothing to learn from; and the failures."""

    wanted: int = 0
    done: int = 0
    failed: int = 0
    untrained: int = 0
    failures: tuple[CellFailed, ...] = ()


@dataclass(frozen=True)
class Timing:
    """Seconds of the cells of one kind."""

    what: str
    cells: int | None = None
    mean_seconds: float | None = None
    total_seconds: float | None = None


@dataclass(frozen=True)
class Summary:
    """The contents of the report of a run, finished or not.

    Attributes:
        counterrank: the version that ran it.
        preset, quick, command: how it was started.
        settings: see `Settings.plain`.
        data: the folds.
        cells, timings: what was run.
        stages: seconds of all cells by stage: simulation, training, evaluation.
        figures: with all values.
        claims: with their verdicts.
        confidence: of each claim's verdict, 1 - 0.05 / the number of looks.
        looks: the numbers of runs at which claims were to be looked at, of `--until-decided`.
    """

    counterrank: str = ""
    preset: str | None = None
    quick: bool = False
    command: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    data: tuple[FoldDescription, ...] = ()
    cells: CellCounts = CellCounts()
    timings: tuple[Timing, ...] = ()
    figures: tuple[Figure, ...] = ()
    claims: tuple[ClaimResult, ...] = ()
    stages: dict[str, float] = field(default_factory=dict)
    confidence: float = CONFIDENCE
    looks: tuple[int, ...] = ()

    @property
    def runs(self) -> int:
        """The largest number of runs behind any point."""
        return max((point.runs or 0 for figure in self.figures for point in figure.points), default=0)

    def to_json(self) -> dict[str, Any]:
        """The summary as JSON has it.

        >>> Summary.from_json(Summary(preset="paper-mslr").to_json()).preset
        'paper-mslr'
        """
        return {"format": FORMAT, "version": VERSION, **to_json(self)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Summary:
        """The summary that `to_json` gave; what is missing in it is empty."""
        if not isinstance(content, Mapping) or (content.get("format"), content.get("version")) != (FORMAT, VERSION):
            raise CounterrankError(f"summary: expected a dict with format {FORMAT!r} and version {VERSION}")
        return from_json(cls, content)


def over_runs(values: Iterable[float | None], x: float | None = None, groups: FloatArray | None = None) -> Point:
    """The point of values over runs: their mean with Student's 95 % confidence interval for these test queries.

    >>> over_runs([1.0, None, 3.0]).mean, over_runs([1.0]).low
    (2.0, None)
    """
    every = tuple(values)
    found = mean_interval(values_array(every))
    return Point(x, every, found.value, found.low, found.high, found.runs, groups=groups)


def common_groups(points: Sequence[Point]) -> list[FloatArray] | None:
    """The values of points by group, all of one shape; None where a value of one of them is not known by group.

    >>> common_groups([over_runs([1.0]), over_runs([])]) is None
    True
    """
    there = [point.groups for point in points if any(value is not None for value in point.values)]
    known = [groups for groups in there if groups is not None]
    if not known or len(known) < len(there) or len({groups.shape[:2] for groups in known}) > 1:
        return None
    fewest = min(groups.shape[2] for groups in known)
    blank = np.full((*known[0].shape[:2], fewest), np.nan)
    return [blank if point.groups is None else merge_groups(point.groups, fewest) for point in points]


def series_names(figures: Iterable[Figure]) -> list[str]:
    """Names of all series and levels, each once, in the order they come.

    >>> series_names([Figure(2, panels=(Panel("arp", series=(Series("a"),), levels=(Level(name="b"),)),))])
    ['a', 'b']
    """
    return list(dict.fromkeys(name for figure in figures for panel in figure.panels for name in panel.names))


def is_number(value: object) -> bool:
    """Whether something is a finite number.

    >>> is_number(0.5), is_number(None), is_number(float("nan"))
    (True, False, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def to_json(value: Any) -> Any:
    """Dataclasses as dicts and tuples as lists; optional fields that are empty are left out.

    >>> to_json(Series("policy-aware", (Point(5, (0.5,), 0.5),)))["points"][0]
    {'x': 5, 'values': [0.5], 'mean': 0.5, 'low': None, 'high': None, 'runs': None}
    """
    if dataclasses.is_dataclass(value):
        known = (key for key in dataclasses.fields(value) if key.metadata.get("json", True))
        items = ((key.name, getattr(value, key.name)) for key in known)
        return {name: to_json(item) for name, item in items if not (name in _OPTIONAL and _is_empty(item))}
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    return [to_json(item) for item in value] if isinstance(value, list | tuple) else value


def _is_empty(value: object) -> bool:
    return value is None or value is False or value in ("", ())


def from_json(cls: type[T], content: Mapping[str, Any]) -> T:
    """A dataclass of this module from what `to_json` made of it; fields that are missing or null have their defaults.

    >>> from_json(Series, {"name": "policy-aware", "points": [{"x": 5, "mean": 0.5}]}).points[0].mean
    0.5
    """
    kind: Any = cls
    hints = _hints(kind).items()
    return cls(**{name: _typed(hint, content[name]) for name, hint in hints if content.get(name) is not None})


@cache
def _hints(cls: Any) -> dict[str, Any]:
    known = get_type_hints(cls)
    return {key.name: known[key.name] for key in dataclasses.fields(cls)}


def _typed(hint: Any, value: Any) -> Any:
    """A value of JSON as this type: a dataclass, or a tuple or dict of them; anything else as it is."""
    inner = get_args(hint)
    if isinstance(value, Mapping) and get_origin(hint) is UnionType:
        hint = next((one for one in inner if dataclasses.is_dataclass(one)), hint)
    if dataclasses.is_dataclass(hint):
        return from_json(hint, value)  # type: ignore[arg-type]
    if isinstance(value, list | tuple):
        item = next((get_args(one)[0] for one in (hint, *inner) if get_origin(one) is tuple), None)
        return tuple(_typed(item, each) for each in value)
    if get_origin(hint) is dict and dataclasses.is_dataclass(inner[1]):
        return {key: _typed(inner[1], each) for key, each in value.items()}
    if get_origin(hint) is dict and get_origin(inner[1]) is tuple:
        return {key: tuple(each) for key, each in value.items()}
    return value
