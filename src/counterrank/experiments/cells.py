"""Cells and the grid of them: a cell is the configuration of one trained ranker.

Together with the data it decides all that comes of it. Figures name the cells whose results stand at each of their
points; a cell of several figures is run once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple, TypedDict

from counterrank.clicks.simulated_users import PAPER
from counterrank.estimators.registry import ESTIMATORS
from counterrank.experiments.figure_registry import FIGURES
from counterrank.experiments.settings import FILE_NAMES, NEW_NAMES, Settings

ARP_LOSS, DCG_LOSS = "arp-hinge", "lambdaloss-truncated"

# settings that all cells have
_SHARED = (
    *("max_epochs", "clips", "cutoff", "relevance_threshold", "eta", "noise", "validation_share", "seed", "users"),
    *("production_share", "production_norm", "production_seed"),
)

# a curve of figures 1 and 2: its name, the estimator, and whether pages are randomised
_ESTIMATORS = (
    ("policy-aware", "policy-aware", True),
    ("policy-oblivious+random", "policy-oblivious", True),
    ("policy-oblivious", "policy-oblivious", False),
    ("rerank+random", "rerank", True),
    ("rerank", "rerank", False),
)

# Raise this when what a cell does changes: results of older rules are not taken for those of newer ones. Cells of a
# number of sessions have rules of their own as well, and so have those of the experiment on safety.
_RULES = 1
_SESSION_RULES = 1
_SAFETY_RULES = 1

HELD_OUT, HELD_OUT_SHARE = "held-out", 0.2
"""The sessions that the gate holds out before training: the name of that part, and their share."""


CellJson = dict[str, Any]
"""A cell as JSON has it, see `Cell.plain`."""


class Pages(TypedDict):
    """DCG@cutoff of the pages shown while clicks are logged, and of the same pages without randomisation."""

    shown: float
    unrandomised: float


class Chosen(TypedDict):
    """The estimator that `fit_from_clicks` chose, why, and its numbers."""

    estimator: str
    why: str
    about: dict[str, Any]


class Stages(TypedDict):
    """Seconds by stage; what several cells share counts for the first of them."""

    simulation: float
    training: float
    evaluation: float


class Row(TypedDict, total=False):
    """The result of a cell, a line of `results.jsonl`: with `metrics` if it is done, with `error` if it failed.

    `groups` has ARP and DCG by group of test queries, see `evaluate_groups`. In cells of the experiment on safety
    `exposure` and `served` are as `safety_cells` gives them.
    """

    key: str
    cell: CellJson
    error: str
    metrics: dict[str, float]
    groups: dict[str, list[float]]
    exposure: dict[str, float]
    served: dict[str, Any]
    seconds: float
    stages: Stages
    clicks: int
    sessions: int
    validation_clicks: int
    pages: Pages
    untrained: str
    chosen: Chosen
    clip: float | None
    validation: float | None
    step_size: float
    epochs: int
    best_epoch: int


class Logger(NamedTuple):
    """What decides a production ranker."""

    fold: int
    share: float
    relevance_threshold: float
    seed: int
    norm: float


class Traffic(NamedTuple):
    """What decides the clicks on one part of the data."""

    logger: Logger
    part: str
    policy: str
    clicks: int
    eta: float
    noise: tuple[float, float]
    seed: int
    displays: bool
    sessions: int = 0
    users: str = PAPER
    inverted: bool = False


@dataclass(frozen=True)
class Cell:
    """Everything that decides what one ranker becomes, but for the data.

    Attributes:
        fold: which data, counted from 0.
        run: which of the independent runs, counted from 0.
        estimator: "production" and "full-information" learn from labels, the others from clicks.
        metric: for early stopping, the choice of a clip and the selection of losses.
        policy: the logging policy, as on the command line; "" without clicks.
        page: how many results the policy shows; None for all, and without clicks.
        clicks: how many; 0 without clicks, and where sessions are counted.
        patience, tolerance, max_epochs, learning_rate, clip, clips: how to train.
        cutoff, relevance_threshold, production_share, production_norm, production_seed, eta, noise, validation_share,
            seed, users: see `Settings`.
        sessions: how many pages are shown, however many clicks come of it; 0 where clicks are counted.
        method: how to keep from a worse ranker, one of `safety_cells.METHODS`; "" in other experiments.
        inverted: whether users click on irrelevant documents as they would on relevant ones, and the reverse.
    """

    fold: int
    run: int
    estimator: str
    loss: str
    metric: str
    policy: str
    page: int | None
    clicks: int
    learning_rate: float | str
    patience: int
    tolerance: float
    max_epochs: int
    clip: str
    clips: int
    cutoff: int
    relevance_threshold: float
    production_share: float
    production_norm: float
    production_seed: int | None
    eta: float
    noise: tuple[float, float]
    validation_share: float
    seed: int
    sessions: int = 0
    users: str = PAPER
    method: str = ""
    inverted: bool = False

    @classmethod
    def from_plain(cls, content: CellJson) -> Cell:
        """The cell of which `plain` was called."""
        given = {NEW_NAMES.get(name, name): value for name, value in content.items()}
        return cls(**{**given, "noise": tuple(content["noise"])})

    def plain(self) -> CellJson:
        """The cell as JSON has it; without fields that older cells did not have where they say nothing: keys stay."""
        fields = {**asdict(self), "noise": list(self.noise)}
        if not self.sessions:
            del fields["sessions"]
        if self.users == PAPER:
            del fields["users"]
        for name in ("method", "inverted"):
            if not fields[name]:
                del fields[name]
        return {FILE_NAMES.get(name, name): value for name, value in fields.items()}

    def key(self, fingerprint: str) -> str:
        """The key of the cell on the data with this fingerprint; other settings give another key."""
        rules: Any = [_RULES, _SESSION_RULES] if self.sessions else _RULES
        if self.method:
            rules = [_RULES, _SESSION_RULES, _SAFETY_RULES]
        text = json.dumps([rules, fingerprint, self.plain()], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()

    def describe(self) -> str:
        """The cell in words."""
        amount = f"{self.sessions:,} sessions" if self.sessions else f"{self.clicks:,} clicks"
        where = f"{self.policy}, {amount}{', inverted' * self.inverted}, " if self.sessions or self.clicks else ""
        what = f"{self.method}, " if self.method else ""
        return f"{what}{self.estimator}, {self.loss}, {where}fold {self.fold + 1}, run {self.run + 1}"

    @property
    def logger(self) -> Logger:
        """The production ranker of this run."""
        seed = self.seed_for("production") if self.production_seed is None else self.production_seed
        return Logger(self.fold, self.production_share, self.relevance_threshold, seed, self.production_norm)

    def traffic(self, part: str) -> Traffic:
        """The clicks of this run: those that share policy and number are the same for all estimators and losses.

        An estimator that requires displayed pages, such as rerank, gets a draw of its own. Where sessions are held out,
        they are a part too, of training queries.
        """
        displays = requires(self.estimator, "displays")
        share = self.validation_share if part == "validation" else 1.0
        if self.method == "gate":
            share *= HELD_OUT_SHARE if part == HELD_OUT else 1.0 - HELD_OUT_SHARE
        if self.sessions:
            sessions = max(1, round(share * self.sessions))
            seed = self.seed_for("sessions", part, self.policy, sessions)
            data = "train" if part == HELD_OUT else part
            return Traffic(
                self.logger, data, self.policy, 0, self.eta, self.noise, seed, displays, sessions, self.users,
                self.inverted,
            )  # fmt: skip
        clicks = self.clicks if part == "train" else max(1, round(self.validation_share * self.clicks))
        seed = self.seed_for("clicks", part, self.policy, clicks)
        return Traffic(self.logger, part, self.policy, clicks, self.eta, self.noise, seed, displays, 0, self.users)

    def seed_for(self, *purpose: Any) -> int:
        """A seed of its own for each purpose in each run."""
        text = json.dumps([self.seed, self.run, self.fold, *purpose])
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest())


@dataclass(frozen=True)
class GridPoint:
    """A place in a figure and the cells whose results stand there, one for each run of each fold.

    Attributes:
        figure: its number.
        panel: the metric it shows; behind a comma what sets it apart from other panels of the metric.
        series: the name of its curve; "production" and "full-information" are levels.
        x: the number of results shown, of clicks, or of sessions; None for a level.
        cells: in the order of runs, which is the same at all points.
    """

    figure: int
    panel: str
    series: str
    x: int | None
    cells: tuple[Cell, ...]


def requires(estimator: str, need: str) -> bool:
    """Whether an estimator, named with or without hyperparameters, requires something; "production" requires nothing.

    >>> requires("rerank", "displays"), requires("policy-aware:clip=10", "displays"), requires("production", "labels")
    (True, False, False)
    """
    known = ESTIMATORS.get(estimator.partition(":")[0])
    return known is not None and need in known.needs


def grid(settings: Settings, folds: int = 1) -> list[GridPoint]:
    """All points of all figures of the settings; points of different figures may share cells.

    >>> len(grid(Settings(figures=(2,), clicks=(100,), runs=3)))  # 6 curves and 2 levels in 2 panels
    16
    """
    return [
        point for number in settings.figures for point in FIGURES[number].grid(CellFactory(settings, folds, number))
    ]


def all_cells(points: Sequence[GridPoint]) -> list[Cell]:
    """Each cell once: whole runs one after the other, and in each of them the long ones first.

    >>> cells = all_cells(grid(Settings(figures=(2,), clicks=(100, 10**4), runs=2)))
    >>> cells[0].run, cells[0].clicks, cells[-1].run
    (0, 10000, 1)
    """
    unique = dict.fromkeys(cell for point in points for cell in point.cells)

    def order(cell: Cell) -> tuple[int, int, bool, int]:
        return cell.run, cell.fold, not requires(cell.estimator, "displays"), -(cell.clicks or cell.sessions)

    return sorted(unique, key=order)


class CellFactory:
    """Makes the points of one figure and their cells from the settings.

    Attributes:
        settings: of the experiment.
        panels: (metric, loss) of the panels of figures 1 and 2.
        dcg: the metric DCG@cutoff.
    """

    def __init__(self, settings: Settings, folds: int, figure: int) -> None:
        self.settings, self._folds, self._figure = settings, folds, figure
        self.dcg = f"dcg@{settings.cutoff}"
        self.panels = (("arp", ARP_LOSS), (self.dcg, DCG_LOSS))

    def point(
        self,
        panel: str,
        series: str,
        x: int | None,
        *,
        estimator: str,
        loss: str,
        policy: str = "",
        page: int | None = None,
        clicks: int = 0,
        sessions: int = 0,
        clip: str | None = None,
        method: str = "",
        inverted: bool = False,
    ) -> GridPoint:
        """A point with one cell for each run of each fold; `clip` is that of the settings if None."""
        s = self.settings
        cell = partial(
            Cell,
            estimator=estimator,
            loss=loss,
            metric="arp" if panel == "arp" or estimator == "production" else self.dcg,
            policy=policy,
            page=page,
            clicks=clicks,
            sessions=sessions,
            method=method,
            inverted=inverted,
            learning_rate=s.learning_rate_for(self._figure, loss),
            patience=s.patience_for(loss, clicks or sessions),
            tolerance=s.tolerance_for(loss),
            clip=s.clip if clip is None else clip,
            **{name: getattr(s, name) for name in _SHARED},
        )
        cells = [cell(fold=fold, run=run) for fold in range(self._folds) for run in range(s.runs)]
        return GridPoint(self._figure, panel, series, x, tuple(cells))

    def levels(self, panel: str, loss: str) -> Iterator[GridPoint]:
        """The production ranker (the same whatever the loss) and the full-information ranker."""
        yield self.point(panel, "production", None, estimator="production", loss=ARP_LOSS)
        yield self.point(panel, "full-information", None, estimator="full-information", loss=loss)

    def aware(self, panel: str, series: str, n: int, loss: str, policy: str) -> GridPoint:
        """A policy-aware ranker from n clicks on the usual pages."""
        page = self.settings.page
        return self.point(panel, series, n, estimator="policy-aware", loss=loss, policy=policy, page=page, clicks=n)

    def estimators(self, panel: str, loss: str, x: int, *, page: int, clicks: int) -> Iterator[GridPoint]:
        """The curves that figures 1 and 2 share, at one x."""
        for series, estimator, randomised in _ESTIMATORS:
            if requires(estimator, "displays") and page == 1:
                continue  # a page of one has no order to learn from
            policy = f"{'replace-last' if randomised else 'deterministic'}:k={page}"
            yield self.point(panel, series, x, estimator=estimator, loss=loss, policy=policy, page=page, clicks=clicks)
